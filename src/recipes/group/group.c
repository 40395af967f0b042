#include "recipes/group/group.h"

#include "client/core/acl.h"
#include "client/core/path.h"
#include "recipes/engine/handle_shutdown.h"
#include "recipes/engine/persistent_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DATA_MAX = 512 * 1024,
    ID_MAX = 255,
};

struct conclave_group {
    struct handle handle; /* first: it is freed through it */
    struct conclave_group_callbacks callbacks;
    void *ctx;
    struct closing closing;
    char *path;
    char *id; /* NULL: an observer */
    char *node;
    char incarnation[MEMBER_INCARNATION_MAX];
    struct conclave_acl *acl;
    bool viewing; /* the mirror runs */

    struct member member;
    bool joined; /* the member was started */
    enum conclave_membership membership;
    enum conclave_membership membership_told;

    struct mirror mirror;
    struct mirror_view seen; /* latest */
    bool seen_stale;
    bool seen_due;
    struct client_timer again; /* memory was out when the view was taken */
    struct mirror_view told;   /* the dispatcher's: what the user knows */
};

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

/* --- the machine ------------------------------------------------------------------- */

static void group_run(void *self)
{
    struct conclave_group *g = self;
    if (!g->closing.ending || g->closing.due) {
        return;
    }
    mirror_stop(&g->mirror);
    client_timer_stop(g->handle.rt->client, &g->again);
    if (g->joined && !g->member.left) {
        member_leave(&g->member);
    }
    if (!g->joined || g->member.left) {
        closing_done(&g->closing);
    }
}

static enum conclave_membership membership_of(const struct conclave_group *g)
{
    enum conclave_state state = client_state(g->handle.rt->client);
    switch (g->member.place) {
    case MEMBER_STANDS:
        return CONCLAVE_MEMBERSHIP_IN;
    case MEMBER_OTHER:
        return CONCLAVE_MEMBERSHIP_CONFLICT;
    case MEMBER_DOUBT:
        if (g->member.czxid == 0 || state == CONCLAVE_STATE_LOST || state_is_final(state)) {
            return CONCLAVE_MEMBERSHIP_OUT;
        }
        /* in the midst of looking, on a link that stands: nothing has changed so far */
        return recipes_connected(g->handle.rt) && g->membership != CONCLAVE_MEMBERSHIP_OUT
                   ? g->membership
                   : CONCLAVE_MEMBERSHIP_UNSURE;
    default:
        return CONCLAVE_MEMBERSHIP_OUT;
    }
}

static void group_on_member(struct member *m)
{
    struct conclave_group *g = CONTAINER_OF(m, struct conclave_group, member);
    enum conclave_membership now = membership_of(g);
    if (now != g->membership) {
        g->membership = now;
        handle_post(&g->handle);
        client_notify(g->handle.rt->client);
    }
    group_run(g);
}

static void on_member_failed(struct member *m, int error)
{
    struct conclave_group *g = CONTAINER_OF(m, struct conclave_group, member);
    closing_begin(&g->closing, error);
    group_run(g);
}

static void take_view(struct conclave_group *g)
{
    struct conclave_client *client = g->handle.rt->client;
    struct mirror_view view;
    if (mirror_view(&g->mirror, &view) != 0) {
        client_timer_start(client, &g->again, client_now_ns(client) + 250 * 1000000LL);
        return;
    }
    mirror_view_clear(&g->seen);
    g->seen = view;
    g->seen_stale = !g->mirror.fresh;
    g->seen_due = true;
    handle_post(&g->handle);
}

static void on_view_told(struct mirror *m)
{
    take_view(CONTAINER_OF(m, struct conclave_group, mirror));
}

static void group_on_again(struct conclave_client *client, void *ctx)
{
    take_view(ctx);
}

static void on_view_failed(struct mirror *m, int error)
{
    struct conclave_group *g = CONTAINER_OF(m, struct conclave_group, mirror);
    closing_begin(&g->closing, error);
    group_run(g);
}

static void group_on_state(struct handle *h, enum conclave_state state)
{
    struct conclave_group *g = CONTAINER_OF(h, struct conclave_group, handle);
    handle_ref(h);
    if (state_is_final(state)) {
        closing_begin(&g->closing,
                      state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED);
    }
    if (g->joined) {
        member_on_state(&g->member, state);
    }
    mirror_on_state(&g->mirror, state);
    group_run(g);
    handle_unref(h);
}

/* --- telling ------------------------------------------------------------------------ */

int members_of_view(const struct mirror_view *view, const char *self, int64_t self_czxid,
                    struct conclave_member **ret, size_t *ret_count)
{
    struct conclave_member *list = calloc(view->count + 1, sizeof *list);
    size_t n = 0;
    if (list == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < view->count; i++) {
        const struct mirror_item *item = view->items[i];
        if (item->path[0] == '\0') {
            continue; /* the group's own node */
        }
        struct conclave_member *member = &list[n++];
        member->id = item->path;
        member->data = member_payload(item->data, item->data_len, &member->data_len);
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
    struct conclave_member *before;
    size_t before_count;
    struct conclave_member *now;
    size_t now_count;
};

/* The next pair of members with one id, one of them NULL where it is only in one list. */
static bool next_pair(const struct news *news, size_t *b, size_t *n,
                      const struct conclave_member **ret_before,
                      const struct conclave_member **ret_now)
{
    const struct conclave_member *before = *b < news->before_count ? &news->before[*b] : NULL;
    const struct conclave_member *now = *n < news->now_count ? &news->now[*n] : NULL;
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
        struct conclave_group_view public = {news->now, news->now_count, view->zxid, stale};
        g->callbacks.on_view(g, &public, g->ctx);
    }
}

static bool tell_view(struct conclave_group *g)
{
    struct conclave_client *client = g->handle.rt->client;
    struct news news = {0};
    if (!g->seen_due || g->closing.ending) {
        return false;
    }
    int64_t self = member_is_in(&g->member) ? g->member.czxid : 0;
    if (members_of_view(&g->told, NULL, 0, &news.before, &news.before_count) != 0 ||
        members_of_view(&g->seen, g->id, self, &news.now, &news.now_count) != 0) {
        free(news.before);
        client_timer_start(client, &g->again, client_now_ns(client) + 250 * 1000000LL);
        return false;
    }
    struct mirror_view view = g->seen;
    bool stale = g->seen_stale;
    memset(&g->seen, 0, sizeof g->seen);
    g->seen_due = false;
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
    struct conclave_client *client = g->handle.rt->client;
    enum conclave_membership membership = g->membership;
    if (membership == g->membership_told || g->closing.ending) {
        return false;
    }
    g->membership_told = membership;
    if (g->callbacks.on_membership != NULL) {
        client_unlock(client);
        g->callbacks.on_membership(g, membership, g->ctx);
        client_lock(client);
    }
    return true;
}

static void group_call_closed(void *self, int why)
{
    struct conclave_group *g = self;
    if (g->callbacks.on_closed != NULL) {
        g->callbacks.on_closed(g, why, g->ctx);
    }
}

static bool group_run_due(struct handle *h)
{
    struct conclave_group *g = CONTAINER_OF(h, struct conclave_group, handle);
    return tell_membership(g) || tell_view(g) || closing_tell(&g->closing, group_call_closed, g);
}

/* --- the handle --------------------------------------------------------------------- */

static void group_copies_free(struct conclave_group *g)
{
    free(g->path);
    free(g->id);
    free(g->node);
    free(g->acl);
    free(g);
}

static void group_free(struct handle *h)
{
    struct conclave_group *g = CONTAINER_OF(h, struct conclave_group, handle);
    client_timer_stop(h->rt->client, &g->again);
    mirror_finish(&g->mirror);
    member_finish(&g->member);
    mirror_view_clear(&g->seen);
    mirror_view_clear(&g->told);
    group_copies_free(g);
}

static const struct handle_class group_class = {group_on_state, group_run_due, group_free};

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
    return o != NULL && o->size >= sizeof *o && o->path != NULL && path_is_valid(o->path, false) &&
           strcmp(o->path, "/") != 0 && (o->id == NULL || id_is_valid(o->path, o->id)) &&
           o->data_len <= DATA_MAX && (o->data != NULL || o->data_len == 0) &&
           o->debounce_ms >= 0 &&
           (o->incarnation == NULL ||
            (o->incarnation[0] != '\0' && strlen(o->incarnation) < MEMBER_INCARNATION_MAX &&
             strpbrk(o->incarnation, "\r\n") == NULL));
}

static struct conclave_group *group_make(const struct conclave_group_options *o)
{
    struct conclave_group *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return NULL;
    }
    g->path = strdup(o->path);
    if (o->id != NULL) {
        g->id = strdup(o->id);
        g->node = path_join(o->path, o->id);
    }
    if (o->incarnation != NULL) {
        (void)snprintf(g->incarnation, sizeof g->incarnation, "%s", o->incarnation);
    } else {
        member_incarnation(g->incarnation);
    }
    if (o->acl_count > 0 && o->acl != NULL) {
        g->acl = acl_copy(o->acl, o->acl_count);
    }
    if (g->path == NULL || (o->id != NULL && (g->id == NULL || g->node == NULL)) ||
        (o->acl_count > 0 && o->acl != NULL && g->acl == NULL)) {
        group_copies_free(g);
        return NULL;
    }
    return g;
}

static void group_begin(struct conclave_group *g, char *text, size_t len, size_t acl_count)
{
    if (g->id != NULL) {
        g->member.path = g->node;
        g->member.parent = g->path;
        g->member.incarnation = g->incarnation;
        g->member.acl = g->acl;
        g->member.acl_count = g->acl == NULL ? 0 : acl_count;
        g->member.changed = group_on_member;
        g->member.failed = on_member_failed;
        g->joined = true;
        member_set_data_take(&g->member, text, len);
        member_start(&g->member);
    }
    g->viewing = g->callbacks.on_change != NULL || g->callbacks.on_view != NULL;
    if (g->viewing) {
        mirror_start(&g->mirror);
    }
}

int conclave_group_open(struct conclave_recipes *rt, const struct conclave_group_options *options,
                        const struct conclave_group_callbacks *callbacks, void *ctx,
                        struct conclave_group **ret)
{
    int error = client_check(rt->client);
    size_t len = 0;
    if (error != 0) {
        return error;
    }
    if (!group_options_valid(options)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_group *g = group_make(options);
    if (g == NULL) {
        return CONCLAVE_ENOMEM;
    }
    char *text = member_text(g->incarnation, options->data, options->data_len, &len);
    if (text == NULL ||
        mirror_init(&g->mirror, &g->handle, options->path, 1, on_view_told, on_view_failed) != 0) {
        free(text);
        group_copies_free(g);
        return CONCLAVE_ENOMEM;
    }
    if (callbacks != NULL) {
        g->callbacks = *callbacks;
    }
    g->ctx = ctx;
    g->mirror.debounce_ms = options->debounce_ms;
    client_lock(rt->client);
    if (state_is_final(client_state(rt->client))) {
        client_unlock(rt->client);
        free(text);
        free(g->mirror.path);
        group_copies_free(g);
        return CONCLAVE_ECLOSED;
    }
    handle_init(&g->handle, rt, &group_class);
    closing_init(&g->closing, &g->handle);
    member_init(&g->member, &g->handle);
    client_timer_init(&g->again, group_on_again, g);
    *ret = g; /* before a callback can run */
    if (options->id == NULL) {
        free(text);
        text = NULL;
    }
    group_begin(g, text, len, options->acl_count);
    client_unlock(rt->client);
    return 0;
}

/* --- asking ------------------------------------------------------------------------- */

int conclave_group_set_data(struct conclave_group *g, const void *data, size_t len)
{
    struct conclave_client *client = g->handle.rt->client;
    size_t text_len;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    if (len > DATA_MAX || (data == NULL && len > 0) || g->id == NULL) {
        return CONCLAVE_EINVAL;
    }
    char *text = member_text(g->incarnation, data, len, &text_len);
    if (text == NULL) {
        return CONCLAVE_ENOMEM;
    }
    client_lock(client);
    if (g->closing.ending) {
        error = CONCLAVE_ECLOSED;
        free(text);
    } else {
        member_set_data_take(&g->member, text, text_len);
    }
    client_unlock(client);
    return error;
}

enum conclave_membership conclave_group_membership(struct conclave_group *g)
{
    struct conclave_client *client = g->handle.rt->client;
    if (client_check(client) != 0) {
        return CONCLAVE_MEMBERSHIP_OUT;
    }
    client_lock(client);
    enum conclave_membership membership = g->membership;
    client_unlock(client);
    return membership;
}

static bool joined_or_ended(void *ctx)
{
    struct conclave_group *g = ctx;
    return g->membership == CONCLAVE_MEMBERSHIP_IN || g->closing.ending;
}

int conclave_group_wait_joined(struct conclave_group *g, int64_t timeout_ms)
{
    struct conclave_client *client = g->handle.rt->client;
    int error = recipes_may_block(g->handle.rt);
    if (error != 0 || g->id == NULL) {
        return error != 0 ? error : CONCLAVE_EINVAL;
    }
    client_lock(client);
    handle_ref(&g->handle);
    error = client_wait(client, joined_or_ended, g, client_deadline_ns(client, timeout_ms));
    if (g->closing.ending) {
        error = g->closing.why;
    } else if (error == CONCLAVE_ETIMEDOUT && g->membership == CONCLAVE_MEMBERSHIP_CONFLICT) {
        error = CONCLAVE_ECONFLICT;
    }
    handle_unref(&g->handle);
    client_unlock(client);
    return error;
}

void conclave_group_close(struct conclave_group *g)
{
    closing_ask(&g->closing, group_run, g);
}

int conclave_group_close_wait(struct conclave_group *g, int64_t timeout_ms)
{
    conclave_group_close(g);
    return closing_wait(&g->closing, timeout_ms);
}

void conclave_group_destroy(struct conclave_group *g)
{
    if (g != NULL) {
        closing_destroy(&g->closing);
    }
}
