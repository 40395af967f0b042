/* Acknowledgements: what they say, and waiting for those of everybody. */
#include "recipes/value/shared_config.h"

#include "client/core/path.h"
#include "recipes/engine/option_copies.h"
#include "recipes/group/group.h"

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
    /* NOLINTNEXTLINE(cert-err34-c): what does not fit is no acknowledgement of ours */
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
    struct handle handle; /* first */
    struct mirror acks;
    struct mirror group;
    bool with_group;
    int64_t zxid;
    size_t at_least;
    int error;                        /* the mirrors', or the client's */
    struct conclave_config_ack *list; /* latest */
    size_t count;
    bool answered; /* all have, or one has refused */
};

void conclave_config_acks_free(struct conclave_config_ack *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)list[i].id); /* its text stands in the same block */
    }
    free(list);
}

/* One of the list, with its texts in a block of its own. */
static int add(struct audit *a, const char *id, const struct conclave_member *member)
{
    size_t id_size = strlen(id) + 1;
    size_t len = member == NULL ? 0 : member->data_len;
    char *block = malloc(id_size + len + 1);
    struct conclave_config_ack *list = realloc(a->list, (a->count + 1) * sizeof *list);
    if (list != NULL) {
        a->list = list;
    }
    if (block == NULL || list == NULL) {
        free(block);
        return CONCLAVE_ENOMEM;
    }
    memcpy(block, id, id_size);
    if (len > 0) {
        memcpy(block + id_size, member->data, len);
    }
    block[id_size + len] = '\0';
    struct conclave_config_ack *ack = &list[a->count++];
    memset(ack, 0, sizeof *ack);
    if (!ack_parse(block + id_size, ack)) {
        memset(ack, 0, sizeof *ack);
        ack->why = "";
    }
    ack->id = block;
    return 0;
}

static const struct conclave_member *member_find(const struct conclave_member *list, size_t count,
                                                 const char *id)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i].id, id) == 0) {
            return &list[i];
        }
    }
    return NULL;
}

static int gather(struct audit *a, const struct mirror_view *acks, const struct mirror_view *group)
{
    struct conclave_member *said = NULL;
    struct conclave_member *all = NULL;
    size_t said_count = 0;
    size_t all_count = 0;
    int error = members_of_view(acks, NULL, 0, &said, &said_count);
    if (error == 0) {
        error = members_of_view(a->with_group ? group : acks, NULL, 0, &all, &all_count);
    }
    conclave_config_acks_free(a->list, a->count);
    a->list = NULL;
    a->count = 0;
    for (size_t i = 0; i < all_count && error == 0; i++) {
        error = add(a, all[i].id, member_find(said, said_count, all[i].id));
    }
    free(said);
    free(all);
    return error;
}

static void config_acks_judge(struct audit *a)
{
    size_t done = 0;
    bool refused = false;
    for (size_t i = 0; i < a->count; i++) {
        bool there = a->list[i].acked && a->list[i].zxid >= a->zxid;
        done += there ? 1 : 0;
        refused = refused || (there && a->list[i].error != 0);
    }
    a->answered =
        a->zxid == 0 || (done == a->count && done >= a->at_least) || (refused && a->zxid > 0);
}

static void config_acks_look(struct audit *a)
{
    struct mirror_view acks = {0};
    struct mirror_view group = {0};
    if (!a->acks.fresh || (a->with_group && !a->group.fresh) || a->answered) {
        return;
    }
    int error = mirror_view(&a->acks, &acks);
    if (error == 0 && a->with_group) {
        error = mirror_view(&a->group, &group);
    }
    if (error == 0) {
        error = gather(a, &acks, &group);
    }
    if (error != 0) {
        a->error = error;
    } else {
        config_acks_judge(a);
    }
    mirror_view_clear(&acks);
    mirror_view_clear(&group);
    client_notify(a->handle.rt->client);
}

static void on_acks(struct mirror *m)
{
    config_acks_look(CONTAINER_OF(m, struct audit, acks));
}

static void on_group(struct mirror *m)
{
    config_acks_look(CONTAINER_OF(m, struct audit, group));
}

static void failed(struct audit *a, int error)
{
    a->error = error;
    client_notify(a->handle.rt->client);
}

static void on_acks_failed(struct mirror *m, int error)
{
    failed(CONTAINER_OF(m, struct audit, acks), error);
}

static void on_group_failed(struct mirror *m, int error)
{
    failed(CONTAINER_OF(m, struct audit, group), error);
}

static void audit_on_state(struct handle *h, enum conclave_state state)
{
    struct audit *a = CONTAINER_OF(h, struct audit, handle);
    if (state_is_final(state)) {
        failed(a, state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED);
    }
    mirror_on_state(&a->acks, state);
    mirror_on_state(&a->group, state);
}

static bool audit_run_due(struct handle *h)
{
    return false; /* it has no callbacks */
}

static void audit_free(struct handle *h)
{
    struct audit *a = CONTAINER_OF(h, struct audit, handle);
    mirror_finish(&a->acks);
    mirror_finish(&a->group);
    conclave_config_acks_free(a->list, a->count);
    free(a);
}

static const struct handle_class audit_class = {audit_on_state, audit_run_due, audit_free};

static bool audit_done(void *ctx)
{
    struct audit *a = ctx;
    return a->answered || a->error != 0;
}

static int audit_make(const struct conclave_config_acks_options *o, struct audit **ret)
{
    struct audit *a = calloc(1, sizeof *a);
    char *path = o->ack_path != NULL ? strdup(o->ack_path) : text_concat(o->path, ".acks");
    if (a == NULL || path == NULL ||
        mirror_init(&a->acks, &a->handle, path, 1, on_acks, on_acks_failed) != 0 ||
        mirror_init(&a->group, &a->handle, o->group_path != NULL ? o->group_path : path, 1,
                    on_group, on_group_failed) != 0) {
        if (a != NULL) {
            free(a->acks.path);
        }
        free(a);
        free(path);
        return CONCLAVE_ENOMEM;
    }
    free(path);
    a->with_group = o->group_path != NULL;
    a->zxid = o->zxid;
    a->at_least = o->at_least;
    *ret = a;
    return 0;
}

static bool config_acks_options_valid(const struct conclave_config_acks_options *o)
{
    return o != NULL && o->size >= sizeof *o &&
           (o->ack_path != NULL
                ? path_is_valid(o->ack_path, false)
                : o->path != NULL && path_is_valid(o->path, false) && strcmp(o->path, "/") != 0) &&
           (o->group_path == NULL || path_is_valid(o->group_path, false));
}

/* What was found, handed over. */
static int result(struct audit *a, int error, struct conclave_config_ack **ret, size_t *ret_count)
{
    if (a->error != 0) {
        return a->error;
    }
    for (size_t i = 0; i < a->count && error == 0; i++) {
        bool refused = a->list[i].acked && a->list[i].zxid >= a->zxid && a->list[i].error != 0;
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
                               int64_t timeout_ms, struct conclave_config_ack **ret,
                               size_t *ret_count)
{
    struct conclave_client *client = rt->client;
    struct audit *a;
    int error = recipes_may_block(rt);
    if (error == 0) {
        error = config_acks_options_valid(options) ? audit_make(options, &a) : CONCLAVE_EINVAL;
    }
    if (error != 0) {
        return error;
    }
    client_lock(client);
    handle_init(&a->handle, rt, &audit_class);
    if (state_is_final(client_state(client))) {
        a->error = CONCLAVE_ECLOSED;
    } else {
        mirror_start(&a->acks);
        if (a->with_group) {
            mirror_start(&a->group);
        }
    }
    error = client_wait(client, audit_done, a, client_deadline_ns(client, timeout_ms));
    if (error == 0 || error == CONCLAVE_ETIMEDOUT) {
        error = result(a, error, ret, ret_count);
    }
    mirror_stop(&a->acks);
    mirror_stop(&a->group);
    handle_release(&a->handle);
    client_unlock(client);
    return error;
}
