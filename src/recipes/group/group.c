#include "recipes/group/group.h"

#include "client/core/path.h"
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"
#include "recipes/group/node_handle.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DATA_MAX = 512 * 1024,
    ID_MAX = 255,
};

struct conclave_group {
    struct node_handle nodes; /* first */
    struct conclave_group_callbacks callbacks;
    void *ctx;
    char *id;                /* NULL: an observer */
    struct mirror_view told; /* the dispatcher's: the view that the user has */
};

static struct conclave_group *group_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_group, nodes.host);
}

const char *conclave_group_event_name(enum conclave_group_event event)
{
    static const char *const names[] = {"JOINED", "LEFT", "UPDATED"};
    return (unsigned)event < sizeof names / sizeof names[0] ? names[event] : "UNKNOWN";
}

const char *conclave_membership_name(enum conclave_membership membership)
{
    static const char *const names[] = {"OUT", "IN", "UNSURE", "CONFLICT"};
    return (unsigned)membership < sizeof names / sizeof names[0] ? names[membership] : "UNKNOWN";
}

/* --- telling ------------------------------------------------------------------------ */

int members_of_view(const struct mirror_view *view, const char *self, int64_t self_czxid,
                    struct conclave_member ***ret, size_t *ret_count)
{
    struct conclave_member **list = struct_list(view->count, sizeof **list, 0, NULL);
    size_t n = 0;
    if (list == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < view->count; i++) {
        const struct mirror_item *item = view->items[i];
        if (item->path[0] == '\0') {
            continue; /* the group's own node */
        }
        struct conclave_member *member = list[n++];
        member->id = item->path;
        member->data = member_payload(item->node.data, item->node.data_len, &member->data_len);
        member->session_id = item->stat.ephemeral_owner;
        member->mzxid = item->stat.mzxid;
        member->token.czxid = item->stat.czxid;
        member->self =
            self != NULL && item->stat.czxid == self_czxid && strcmp(self, item->path) == 0;
    }
    *ret = list;
    *ret_count = n;
    return 0;
}

struct news {
    struct conclave_member **before;
    size_t before_count;
    struct conclave_member **now;
    size_t now_count;
};

/* The next pair of members with one id, one of them NULL where it is only in one list. */
static bool next_pair(const struct news *news, size_t *b, size_t *n,
                      const struct conclave_member **ret_before,
                      const struct conclave_member **ret_now)
{
    const struct conclave_member *before = *b < news->before_count ? news->before[*b] : NULL;
    const struct conclave_member *now = *n < news->now_count ? news->now[*n] : NULL;
    if (before == NULL && now == NULL) {
        return false;
    }
    int order = before == NULL ? 1 : now == NULL ? -1 : strcmp(before->id, now->id);
    *ret_before = order <= 0 ? before : NULL;
    *ret_now = order >= 0 ? now : NULL;
    *b += order <= 0 ? 1 : 0;
    *n += order >= 0 ? 1 : 0;
    return true;
}

static void tell_changes(struct conclave_group *g, const struct news *news,
                         enum conclave_group_event event)
{
    const struct conclave_member *before;
    const struct conclave_member *now;
    for (size_t b = 0, n = 0; next_pair(news, &b, &n, &before, &now);) {
        bool same = before != NULL && now != NULL && before->token.czxid == now->token.czxid;
        const struct conclave_member *about = event == CONCLAVE_GROUP_LEFT ? before : now;
        bool due = event == CONCLAVE_GROUP_UPDATED ? same && before->mzxid != now->mzxid : !same;
        if (about != NULL && due) {
            g->callbacks.on_change(g, event, about, g->ctx);
        }
    }
}

/* Without the lock: `told` and the view are the dispatcher's. */
static void tell_news(struct conclave_group *g, const struct news *news,
                      const struct mirror_view *view, bool stale)
{
    if (g->callbacks.on_change != NULL) {
        tell_changes(g, news, CONCLAVE_GROUP_LEFT);
        tell_changes(g, news, CONCLAVE_GROUP_JOINED);
        tell_changes(g, news, CONCLAVE_GROUP_UPDATED);
    }
    if (g->callbacks.on_view != NULL) {
        struct conclave_group_view public = {
            .members = (const struct conclave_member *const *)news->now,
            .count = news->now_count,
            .zxid = view->zxid,
            .stale = stale,
        };
        g->callbacks.on_view(g, &public, g->ctx);
    }
}

static bool tell_view(struct conclave_group *g)
{
    struct node_handle *n = &g->nodes;
    struct conclave_client *client = n->host.handle.rt->client;
    struct news news = {0};
    struct mirror_view view;
    bool stale;
    if (!node_handle_take_view(n, &view, &stale)) {
        return false;
    }
    int64_t self = g->id != NULL && member_is_in(&n->member) ? n->member.czxid : 0;
    if (members_of_view(&g->told, NULL, 0, &news.before, &news.before_count) != 0 ||
        members_of_view(&view, g->id, self, &news.now, &news.now_count) != 0) {
        free(news.before);
        mirror_view_clear(&view);
        node_handle_look_later(n);
        return false;
    }
    client_unlock(client);
    tell_news(g, &news, &view, stale);
    client_lock(client);
    free(news.before);
    free(news.now);
    mirror_view_clear(&g->told);
    g->told = view;
    return true;
}

static bool tell_membership(struct conclave_group *g)
{
    struct conclave_client *client = g->nodes.host.handle.rt->client;
    enum conclave_membership membership;
    if (!node_handle_take_membership(&g->nodes, &membership)) {
        return false;
    }
    if (g->callbacks.on_membership != NULL) {
        client_unlock(client);
        g->callbacks.on_membership(g, membership, g->ctx);
        client_lock(client);
    }
    return true;
}

static bool group_run_due(struct host *host)
{
    return tell_membership(group_of(host)) || tell_view(group_of(host));
}

static void group_tell_closed(struct host *host, int why)
{
    struct conclave_group *g = group_of(host);
    if (g->callbacks.on_closed != NULL) {
        g->callbacks.on_closed(g, why, g->ctx);
    }
}

/* --- the handle --------------------------------------------------------------------- */

static void group_free(struct host *host)
{
    struct conclave_group *g = group_of(host);
    node_handle_finish(&g->nodes);
    mirror_view_clear(&g->told);
    free(g->id);
    free(g);
}

static const struct host_class group_class = {
    .on_state = node_handle_on_state,
    .run_due = group_run_due,
    .stop = node_handle_stop,
    .is_idle = node_handle_is_idle,
    .tell_closed = group_tell_closed,
    .free = group_free,
};

static bool id_is_valid(const char *path, const char *id)
{
    if (id[0] == '\0' || strchr(id, '/') != NULL || strlen(id) > ID_MAX) {
        return false;
    }
    char *node = path_join(path, id);
    bool valid = node == NULL || path_is_valid(node, false);
    free(node);
    return valid;
}

static bool group_options_valid(const struct conclave_group_options *o)
{
    return option_path_valid(o->path) && (o->id == NULL || id_is_valid(o->path, o->id)) &&
           o->data_len <= DATA_MAX && (o->data != NULL || o->data_len == 0) &&
           o->debounce_ms >= 0 &&
           (o->incarnation == NULL ||
            (o->incarnation[0] != '\0' && strlen(o->incarnation) < MEMBER_INCARNATION_MAX &&
             strpbrk(o->incarnation, "\r\n") == NULL));
}

/* Joins, and looks only for callbacks that want to know. */
static int group_copy_options(struct conclave_group *g, const struct conclave_group_options *o)
{
    struct node_handle *n = &g->nodes;
    size_t len = 0;
    int error = 0;
    if (o->id != NULL) {
        if (o->incarnation != NULL) {
            (void)snprintf(n->incarnation, sizeof n->incarnation, "%s", o->incarnation);
        } else {
            member_incarnation(n->incarnation);
        }
        char *text = member_text(n->incarnation, o->data, o->data_len, &len);
        error = node_handle_keep(n, strdup(o->path), o->id, o->acl, o->acl_count, text, len);
        g->id = strdup(o->id);
        error = error == 0 && g->id == NULL ? CONCLAVE_ENOMEM : error;
    }
    if (error == 0 && (g->callbacks.on_change != NULL || g->callbacks.on_view != NULL)) {
        error = node_handle_watch(n, o->path, 1, o->debounce_ms);
    }
    return error;
}

int conclave_group_open(struct conclave_recipes *rt, const struct conclave_group_options *options,
                        const struct conclave_group_callbacks *callbacks, void *ctx,
                        struct conclave_group **ret)
{
    struct conclave_group_options own = CONCLAVE_GROUP_OPTIONS_INIT;
    struct conclave_group_callbacks calls = CONCLAVE_GROUP_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 || !group_options_valid(&own)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_group *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return CONCLAVE_ENOMEM;
    }
    g->callbacks = calls;
    g->ctx = ctx;
    int error = host_open(&g->nodes.host, rt, &group_class, group_copy_options(g, &own));
    if (error == 0) {
        *ret = g; /* before a callback can run */
        node_handle_begin(&g->nodes);
        client_unlock(rt->client);
    }
    return error;
}

/* --- asking ------------------------------------------------------------------------- */

int conclave_group_set_data(struct conclave_group *g, const void *data, size_t len)
{
    size_t text_len = 0;
    if (len > DATA_MAX || (data == NULL && len > 0) || g->id == NULL) {
        return CONCLAVE_EINVAL;
    }
    char *text = member_text(g->nodes.incarnation, data, len, &text_len);
    return node_handle_write(&g->nodes, text, text_len);
}

enum conclave_membership conclave_group_membership(struct conclave_group *g)
{
    return node_handle_membership(&g->nodes);
}

int conclave_group_wait_joined(struct conclave_group *g, int64_t timeout_ms)
{
    return node_handle_wait_in(&g->nodes, timeout_ms);
}

void conclave_group_close(struct conclave_group *g)
{
    host_close(&g->nodes.host);
}

int conclave_group_close_wait(struct conclave_group *g, int64_t timeout_ms)
{
    return host_close_wait(&g->nodes.host, timeout_ms);
}

void conclave_group_destroy(struct conclave_group *g)
{
    host_destroy(g == NULL ? NULL : &g->nodes.host);
}
