/* Acknowledgements: their content, and waiting for those of all members. */
#include "recipes/value/shared_config.h"

#include "client/core/path.h"
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"
#include "recipes/group/group.h"
#include "recipes/group/node_handle.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- text ---------------------------------------------------------------------------- */

char *ack_text(int64_t zxid, int64_t mzxid, int error, const char *why)
{
    size_t size = strlen(why) + 128;
    char *text = malloc(size);
    if (text != NULL) {
        int len = snprintf(text, size, "zxid=%" PRId64 " mzxid=%" PRId64 " error=%d %s\n%s", zxid,
                           mzxid, error, conclave_errname(error), why);
        for (char *at = strchr(text, '\n') + 1; at < text + len; at++) {
            *at = *at == '\n' ? ' ' : *at; /* the reason is one line */
        }
    }
    return text;
}

/* text ends with a NUL. false: not an acknowledgement. */
static bool ack_parse(const char *text, struct conclave_config_ack *ret)
{
    /* NOLINTNEXTLINE(cert-err34-c): another form is no acknowledgement of ours */
    if (sscanf(text, "zxid=%" SCNd64 " mzxid=%" SCNd64 " error=%d", &ret->zxid, &ret->mzxid,
               &ret->error) != 3) {
        return false;
    }
    const char *line = strchr(text, '\n');
    ret->why = line == NULL ? "" : line + 1;
    ret->acked = true;
    return true;
}

/* --- waiting ------------------------------------------------------------------------- */

struct audit {
    struct node_handle *acks;
    struct node_handle *group; /* NULL: whoever has acknowledged is all */
    int64_t zxid;
    size_t at_least;
    int error;                         /* of the group's handle, or of memory */
    struct conclave_config_ack **list; /* latest */
    size_t count;
    bool answered; /* all have, or one has refused */
};

void conclave_config_acks_free(struct conclave_config_ack **list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)list[i]->id); /* its text is in the same block */
    }
    free(list);
}

/* member: what this one has said, NULL: nothing. Its texts stand in a block of its own. */
static int ack_fill(struct conclave_config_ack *ack, const char *id,
                    const struct conclave_member *member)
{
    size_t len = member == NULL ? 0 : member->data_len;
    char *block = malloc(strlen(id) + 1 + len + 1);
    if (block == NULL) {
        return CONCLAVE_ENOMEM;
    }
    const char *first = block_add(&block, id, strlen(id));
    if (!ack_parse(block_add(&block, member == NULL ? NULL : member->data, len), ack)) {
        *ack = (struct conclave_config_ack){.why = ""};
    }
    ack->id = first;
    return 0;
}

static const struct conclave_member *member_find(struct conclave_member *const *list, size_t count,
                                                 const char *id)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i]->id, id) == 0) {
            return list[i];
        }
    }
    return NULL;
}

static int gather(struct audit *a)
{
    const struct node_handle *everybody = a->group != NULL ? a->group : a->acks;
    struct conclave_member **said = NULL;
    struct conclave_member **all = NULL;
    size_t said_count = 0;
    size_t all_count = 0;
    int error = members_of_view(&a->acks->seen, NULL, 0, &said, &said_count);
    if (error == 0) {
        error = members_of_view(&everybody->seen, NULL, 0, &all, &all_count);
    }
    conclave_config_acks_free(a->list, a->count);
    a->list = struct_list(all_count, sizeof **a->list, 0, NULL);
    a->count = 0;
    error = error == 0 && a->list == NULL ? CONCLAVE_ENOMEM : error;
    while (error == 0 && a->count < all_count) {
        const char *id = all[a->count]->id;
        error = ack_fill(a->list[a->count], id, member_find(said, said_count, id));
        a->count += error == 0 ? 1 : 0;
    }
    assert(error != 0 || a->count == all_count);
    free(said);
    free(all);
    return error;
}

/* Whether this one has applied the write, or a later one. */
static bool is_there(const struct audit *a, const struct conclave_config_ack *ack)
{
    return ack->acked && ack->zxid >= a->zxid;
}

static void config_acks_judge(struct audit *a)
{
    size_t done = 0;
    bool refused = false;
    for (size_t i = 0; i < a->count; i++) {
        bool there = is_there(a, a->list[i]);
        done += there ? 1 : 0;
        assert(a->list[i]->acked || a->list[i]->error == 0);
        refused = refused || (there && a->list[i]->error != 0);
    }
    a->answered =
        a->zxid == 0 || (done == a->count && done >= a->at_least) || (refused && a->zxid > 0);
}

/* Whether there is something new, and a view of both. */
static bool audit_can_judge(const struct audit *a)
{
    const struct node_handle *group = a->group;
    return !a->acks->seen_stale && (group == NULL || !group->seen_stale) &&
           (a->acks->seen_due || (group != NULL && group->seen_due));
}

/* Looks again at what was seen, until it is over. */
static bool audit_is_over(void *ctx)
{
    struct audit *a = ctx;
    bool over = a->answered || a->error != 0;
    if (!over && a->group != NULL && a->group->host.closing.ending) {
        a->error = a->group->host.closing.why;
    } else if (!over && audit_can_judge(a)) {
        a->acks->seen_due = false;
        if (a->group != NULL) {
            a->group->seen_due = false;
        }
        a->error = gather(a);
        if (a->error == 0) {
            config_acks_judge(a);
        }
    }
    return a->answered || a->error != 0;
}

static int audit_open(struct audit *a, struct conclave_recipes *rt,
                      const struct conclave_config_acks_options *o)
{
    char *path = config_ack_path(o->path, o->ack_path);
    int error = path == NULL ? CONCLAVE_ENOMEM : node_glance_open(rt, path, false, &a->acks);
    if (error == 0 && o->group_path != NULL) {
        error = node_glance_open(rt, o->group_path, false, &a->group);
    }
    free(path);
    return error;
}

static bool config_acks_options_valid(const struct conclave_config_acks_options *o)
{
    return (o->ack_path != NULL ? path_is_valid(o->ack_path, false) : option_path_valid(o->path)) &&
           (o->group_path == NULL || path_is_valid(o->group_path, false));
}

/* Hands over the result. */
static int audit_result(struct audit *a, int error, struct conclave_config_ack ***ret,
                        size_t *ret_count)
{
    for (size_t i = 0; i < a->count && error == 0; i++) {
        bool refused = is_there(a, a->list[i]) && a->list[i]->error != 0;
        error = refused && a->zxid > 0 ? CONCLAVE_ECONFLICT : 0;
    }
    *ret = a->list;
    *ret_count = a->count;
    a->list = NULL;
    a->count = 0;
    return error;
}

int conclave_config_wait_acked(struct conclave_recipes *rt,
                               const struct conclave_config_acks_options *options,
                               int64_t timeout_ms, struct conclave_config_ack ***ret,
                               size_t *ret_count)
{
    struct conclave_config_acks_options own = CONCLAVE_CONFIG_ACKS_OPTIONS_INIT;
    struct audit a = {0};
    int error = recipes_may_block(rt);
    if (error == 0 && (sized_read(&own, options) != 0 || !config_acks_options_valid(&own))) {
        error = CONCLAVE_EINVAL;
    }
    if (error != 0) {
        return error;
    }
    a.zxid = own.zxid;
    a.at_least = own.at_least;
    error = audit_open(&a, rt, &own);
    client_lock(rt->client);
    if (error == 0) {
        error = host_wait(&a.acks->host, audit_is_over, &a, timeout_ms);
        error = a.error != 0 ? a.error : error;
        if (error == 0 || error == CONCLAVE_ETIMEDOUT) {
            error = audit_result(&a, error, ret, ret_count);
        }
    }
    node_glance_close(a.acks);
    node_glance_close(a.group);
    client_unlock(rt->client);
    conclave_config_acks_free(a.list, a.count);
    return error;
}
