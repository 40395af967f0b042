/* Who is in a group, asked once: a mirror that is thrown away when it has seen everything. */
#include "recipes/group/group.h"

#include "client/core/path.h"

#include <stdlib.h>
#include <string.h>

struct glance {
    struct handle handle; /* first */
    struct mirror mirror;
    bool seen;
    int error;
};

static void group_members_on_told(struct mirror *m)
{
    struct glance *g = CONTAINER_OF(m, struct glance, mirror);
    if (m->fresh && !g->seen) {
        g->seen = true;
        client_notify(g->handle.rt->client);
    }
}

static void group_members_on_failed(struct mirror *m, int error)
{
    struct glance *g = CONTAINER_OF(m, struct glance, mirror);
    g->error = error;
    client_notify(g->handle.rt->client);
}

static void glance_on_state(struct handle *h, enum conclave_state state)
{
    struct glance *g = CONTAINER_OF(h, struct glance, handle);
    if (state_is_final(state)) {
        g->error = state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED;
        client_notify(h->rt->client);
    }
    mirror_on_state(&g->mirror, state);
}

static bool glance_run_due(struct handle *h)
{
    return false; /* it has no callbacks */
}

static void glance_free(struct handle *h)
{
    struct glance *g = CONTAINER_OF(h, struct glance, handle);
    mirror_finish(&g->mirror);
    free(g);
}

static const struct handle_class glance_class = {glance_on_state, glance_run_due, glance_free};

static bool glance_done(void *ctx)
{
    struct glance *g = ctx;
    return g->seen || g->error != 0;
}

/* The list in one block with its texts, so that it outlives the view. */
static int members_copy(const struct mirror_view *view, struct conclave_member **ret,
                        size_t *ret_count)
{
    struct conclave_member *list;
    size_t count;
    size_t bytes = 0;
    int error = members_of_view(view, NULL, 0, &list, &count);
    if (error != 0) {
        return error;
    }
    for (size_t i = 0; i < count; i++) {
        bytes += strlen(list[i].id) + 1 + list[i].data_len + 1;
    }
    struct conclave_member *copy = realloc(list, (count + 1) * sizeof *list + bytes);
    if (copy == NULL) {
        free(list);
        return CONCLAVE_ENOMEM;
    }
    char *at = (char *)(copy + count + 1);
    for (size_t i = 0; i < count; i++) {
        size_t id_size = strlen(copy[i].id) + 1;
        memcpy(at, copy[i].id, id_size);
        copy[i].id = at;
        at += id_size;
        if (copy[i].data_len > 0) {
            memcpy(at, copy[i].data, copy[i].data_len);
        }
        at[copy[i].data_len] = '\0';
        copy[i].data = at;
        at += copy[i].data_len + 1;
    }
    *ret = copy;
    *ret_count = count;
    return 0;
}

int conclave_group_members(struct conclave_recipes *rt, const char *path, int64_t timeout_ms,
                           struct conclave_member **ret, size_t *ret_count)
{
    struct conclave_client *client = rt->client;
    struct mirror_view view;
    int error = recipes_may_block(rt);
    if (error == 0 && (path == NULL || !path_is_valid(path, false))) {
        error = CONCLAVE_EINVAL;
    }
    if (error != 0) {
        return error;
    }
    struct glance *g = calloc(1, sizeof *g);
    if (g == NULL || mirror_init(&g->mirror, &g->handle, path, 1, group_members_on_told,
                                 group_members_on_failed) != 0) {
        free(g);
        return CONCLAVE_ENOMEM;
    }
    g->mirror.once = true;
    client_lock(client);
    handle_init(&g->handle, rt, &glance_class);
    if (state_is_final(client_state(client))) {
        g->error = CONCLAVE_ECLOSED;
    } else {
        mirror_start(&g->mirror);
    }
    error = client_wait(client, glance_done, g, client_deadline_ns(client, timeout_ms));
    if (error == 0) {
        error = g->error != 0 ? g->error : mirror_view(&g->mirror, &view);
    }
    if (error == 0) {
        error = members_copy(&view, ret, ret_count);
        mirror_view_clear(&view);
    }
    mirror_stop(&g->mirror);
    handle_release(&g->handle);
    client_unlock(client);
    return error;
}

void conclave_members_free(struct conclave_member *list, size_t count)
{
    free(list);
}
