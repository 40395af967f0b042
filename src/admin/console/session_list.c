#include "admin/console/session_list.h"

#include "front/service.h"
#include "state/query.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct session_entry {
    int64_t id;
    int64_t owner;
    int64_t due_ms; /* monotonic; 0: not known */
    int32_t timeout_ms;
    bool local;
};

struct session_gathering {
    struct session_entry *rows;
    size_t count;
    size_t most;
};

static void gather_session(struct session_gathering *g, const struct state_session *s, bool local)
{
    if (g->count < g->most) {
        g->rows[g->count++] = (struct session_entry){
            .id = s->id, .owner = s->owner, .timeout_ms = s->timeout_ms, .local = local};
    }
}

static void gather_global(void *ctx, const struct state_session *session)
{
    gather_session(ctx, session, false);
}

static int listed_by_id(const void *a, const void *b)
{
    uint64_t x = (uint64_t)((const struct session_entry *)a)->id;
    uint64_t y = (uint64_t)((const struct session_entry *)b)->id;
    return (x > y) - (x < y);
}

static bool gather_due(void *ctx, int64_t id, int64_t due_ms)
{
    const struct session_gathering *g = ctx;
    const struct session_entry key = {.id = id};
    struct session_entry *row =
        g->count == 0 ? NULL : bsearch(&key, g->rows, g->count, sizeof key, listed_by_id);
    if (row != NULL) {
        row->due_ms = due_ms;
    }
    return true;
}

static void gather_all(struct service *s, struct session_gathering *g)
{
    state_session_each(s->state, gather_global, g);
    LIST_FOREACH (it, &s->locals.all) {
        const struct local_session *local = CONTAINER_OF(it, struct local_session, link);
        if (!local->upgrading) {
            gather_session(g, &local->session, true);
        }
    }
    qsort(g->rows, g->count, sizeof *g->rows, listed_by_id);
    session_tracker_each(s->sessions, gather_due, g);
    session_tracker_each(s->locals.alive, gather_due, g);
}

static bool session_matches(const struct session_entry *row, const struct connection *client,
                            const char *find)
{
    char id[24];
    (void)snprintf(id, sizeof id, "0x%" PRIx64, (uint64_t)row->id);
    return find == NULL || strstr(id, find) != NULL ||
           (client != NULL && strstr(client->peer, find) != NULL);
}

static bool count_ephemeral(void *ctx, const struct znode *node)
{
    size_t *count = ctx;
    return ++*count < SESSION_EPHEMERALS_MAX;
}

static void write_session(struct service *s, const struct session_entry *row,
                          const struct connection *client, int64_t now_ms, struct json *j)
{
    size_t ephemerals = 0;
    int64_t left_ms = row->due_ms - now_ms;
    int64_t idle_ms = row->timeout_ms - left_ms;
    state_ephemerals_each(s->state, row->id, count_ephemeral, &ephemerals);
    json_object_begin(j);
    json_member_hex(j, "id", row->id);
    if (row->owner != 0) {
        json_member_int(j, "server", row->owner);
    } else {
        json_member_null(j, "server");
    }
    json_member_bool(j, "local", row->local);
    json_member_int(j, "timeout_ms", row->timeout_ms);
    if (row->due_ms != 0 && (row->local || s->standing.leads || row->owner == s->server_id)) {
        json_member_int(j, "idle_ms", idle_ms < 0 ? 0 : idle_ms);
        json_member_int(j, "left_ms", left_ms < 0 ? 0 : left_ms);
    } else { /* its signs of life go to another server, and from there to the leader */
        json_member_null(j, "idle_ms");
        json_member_null(j, "left_ms");
    }
    json_member_uint(j, "ephemerals", ephemerals);
    if (client != NULL) {
        json_member_string(j, "client", client->peer);
        json_member_int(j, "since_ms", client->established_ms);
        json_member_uint(j, "requests", client->stats.received);
        json_member_uint(j, "watches", client->watcher.count);
    } else {
        json_member_null(j, "client");
    }
    json_object_end(j);
}

void session_list_write(struct service *s, const char *find, struct json *j)
{
    size_t all = session_tracker_count(s->sessions) + local_sessions_count(&s->locals);
    struct session_gathering g = {.most = all < VIEW_CONNECTIONS_MAX ? all : VIEW_CONNECTIONS_MAX};
    size_t found = 0;
    g.rows = calloc(g.most + 1, sizeof *g.rows);
    if (g.rows == NULL) {
        j->out.failed = true;
        return;
    }
    gather_all(s, &g);
    assert(g.count <= g.most);
    json_object_begin(j);
    json_key(j, "list");
    json_array_begin(j);
    for (size_t i = 0; i < g.count; i++) {
        const struct connection *client = service_connection(s, g.rows[i].id);
        if (session_matches(&g.rows[i], client, find) && found++ < SESSION_LIST_MAX) {
            write_session(s, &g.rows[i], client, clock_monotonic_ms(s->clock), j);
        }
    }
    json_array_end(j);
    json_member_uint(j, "found", found);
    json_member_uint(j, "all", all);
    json_object_end(j);
    free(g.rows);
}
