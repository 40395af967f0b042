#include "admin/answers/server_view.h"

#include "admin/answers/process_info.h"
#include "daemon/metric_table.h"
#include "daemon/server.h"
#include "daemon/server_stats.h"
#include "front/service.h"
#include "state/query.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

bool view_read_only(const struct view *v)
{
    return v->server != NULL &&
           (server_service(v->server)->standing.read_only || server_service(v->server)->mirrored);
}

bool view_serving(const struct view *v)
{
    const struct service *s = v->server != NULL ? server_service(v->server) : NULL;
    return s != NULL && s->serving && (leadership_in_contact(s) || s->standing.read_only);
}

/* Room */

struct view_room view_room(const struct view *v, const struct buf *out, unsigned lists)
{
    return (struct view_room){out, out->len + (size_t)v->options->answer_bytes / lists};
}

bool view_has_room(const struct view_room *room)
{
    return room->out->len < room->end;
}

void view_path(struct slice path, struct view_path *ret)
{
    size_t kept = path.len < VIEW_PATH_MAX ? path.len : VIEW_PATH_MAX;
    /* Do not cut inside a UTF-8 character, which has at most four bytes. */
    while (kept < path.len && kept > VIEW_PATH_MAX - 4 && (path.data[kept] & 0xc0) == 0x80) {
        kept--;
    }
    memcpy(ret->text, path.data, kept);
    ret->len = kept;
    if (kept < path.len) {
        ret->len += (size_t)snprintf(ret->text + kept, sizeof ret->text - kept, "... (%zu bytes)",
                                     path.len);
    }
    assert(ret->len < sizeof ret->text);
}

/* Connections */

/* The codes of FinalRequestProcessor in ZooKeeper, which cons prints as lop. */
const char *view_operation(int32_t type)
{
    static const struct {
        int32_t type;
        const char *code;
    } CODES[] = {
        {WIRE_PING, "PING"},          {WIRE_CREATE_SESSION, "SESS"},
        {WIRE_MULTI, "MULT"},         {WIRE_MULTI_READ, "MLTR"},
        {WIRE_CREATE, "CREA"},        {WIRE_CREATE2, "CREA"},
        {WIRE_CREATE_TTL, "CREA"},    {WIRE_CREATE_CONTAINER, "CREA"},
        {WIRE_DELETE, "DELE"},        {WIRE_SET_DATA, "SETD"},
        {WIRE_RECONFIG, "RECO"},      {WIRE_SET_ACL, "SETA"},
        {WIRE_CLOSE_SESSION, "CLOS"}, {WIRE_SYNC, "SYNC"},
        {WIRE_CHECK, "CHEC"},         {WIRE_EXISTS, "EXIS"},
        {WIRE_GET_DATA, "GETD"},      {WIRE_SET_WATCHES, "SETW"},
        {WIRE_SET_WATCHES2, "STW2"},  {WIRE_ADD_WATCH, "ADDW"},
        {WIRE_GET_ACL, "GETA"},       {WIRE_GET_CHILDREN, "GETC"},
        {WIRE_GET_CHILDREN2, "GETC"}, {WIRE_GET_ALL_CHILDREN_NUMBER, "GETACN"},
        {WIRE_CHECK_WATCHES, "CHKW"}, {WIRE_REMOVE_WATCHES, "REMW"},
        {WIRE_WHO_AM_I, "HOMI"},      {WIRE_GET_EPHEMERALS, "GETE"},
    };
    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++) {
        if (CODES[i].type == type) {
            return CODES[i].code;
        }
    }
    return "NA";
}

/* "host:port" or "[v6]:port" in Java's form, which keeps all zeros. */
static void write_address(const char *peer, char out[VIEW_ADDRESS_MAX])
{
    struct in6_addr address;
    char host[INET6_ADDRSTRLEN];
    const char *end = strchr(peer, ']');
    size_t len = end != NULL ? (size_t)(end - peer - 1) : 0;
    if (peer[0] == '[' && len < sizeof host) {
        memcpy(host, peer + 1, len);
        host[len] = '\0';
        if (inet_pton(AF_INET6, host, &address) == 1) {
            int n = snprintf(out, VIEW_ADDRESS_MAX, "[");
            for (size_t i = 0; i < 16; i += 2) {
                unsigned group = (unsigned)address.s6_addr[i] << 8 | address.s6_addr[i + 1];
                n += snprintf(out + n, VIEW_ADDRESS_MAX - (size_t)n, i == 0 ? "%x" : ":%x", group);
            }
            assert(n > 0 && n < VIEW_ADDRESS_MAX);
            snprintf(out + n, VIEW_ADDRESS_MAX - (size_t)n, "%s", end);
            return;
        }
    }
    snprintf(out, VIEW_ADDRESS_MAX, "%s", peer);
}

struct connection_walk {
    const struct view_room *room;
    void (*fn)(void *ctx, const struct view_connection *c);
    void *ctx;
    size_t count;
};

static bool walk_connection(void *ctx, struct connection *c)
{
    struct connection_walk *walk = ctx;
    if (walk->room != NULL && !view_has_room(walk->room)) {
        return false;
    }
    struct view_connection shown = {
        .interest = (c->input_ended ? 0 : 1) | (c->sending > 0 ? 4 : 0),
        .queued = c->pending_count,
        .session_id = c->stage == CONNECTION_CREATING ? 0 : c->session_id,
        .timeout_ms = c->timeout_ms,
        .established_ms = c->established_ms,
        .last_op = view_operation(c->stats.last_type),
        .stats = c->stats,
    };
    write_address(c->peer, shown.address);
    walk->fn(walk->ctx, &shown);
    return ++walk->count < VIEW_CONNECTIONS_MAX;
}

static size_t view_connection_count(const struct view *v)
{
    struct server_stats stats;
    server_stats(v->server, &stats);
    return stats.port.connections;
}

size_t view_connections(const struct view *v, const struct view_room *room,
                        void (*fn)(void *ctx, const struct view_connection *c), void *ctx)
{
    struct connection_walk walk = {room, fn, ctx, 0};
    server_connections_each(v->server, walk_connection, &walk);
    size_t all = view_connection_count(v);
    assert(walk.count <= all);
    return all - walk.count;
}

static bool reset_connection(void *ctx, struct connection *c)
{
    connection_reset_stats(c);
    return true;
}

void view_reset_connections(const struct view *v)
{
    server_connections_each(v->server, reset_connection, NULL);
}

void view_reset_server(const struct view *v)
{
    struct ensemble_stats *s = &replica_ensemble(server_node(v->server))->stats;
    service_reset_stats(server_service(v->server));
    s->proposal_last = s->proposal_min = s->proposal_max = -1;
}

/* Watches */

struct watch_walk {
    struct view_watch *items;
    size_t count;
    size_t most;
    size_t bytes; /* room left for their text */
};

enum { WATCH_ROW = 8 }; /* least bytes of a watch besides its path */

static bool walk_watch(void *ctx, struct slice path, struct watcher *w)
{
    struct watch_walk *walk = ctx;
    const struct connection *c = CONTAINER_OF(w, struct connection, watcher);
    size_t cost = WATCH_ROW + (path.len < VIEW_PATH_MAX ? path.len : VIEW_PATH_MAX);
    if (cost > walk->bytes) {
        walk->bytes = 0;
        return false;
    }
    assert(walk->count < walk->most);
    walk->bytes -= cost;
    walk->items[walk->count++] = (struct view_watch){c->session_id, path};
    return walk->count < walk->most;
}

static int by_session_then_path(const void *a, const void *b)
{
    const struct view_watch *x = a;
    const struct view_watch *y = b;
    if (x->session_id != y->session_id) {
        return (uint64_t)x->session_id < (uint64_t)y->session_id ? -1 : 1;
    }
    return slice_compare(x->path, y->path);
}

struct view_watch *view_watches(const struct view *v, const struct view_room *room, bool by_session,
                                size_t *ret_count, size_t *ret_more)
{
    const struct watch_table *table = server_service(v->server)->watches;
    struct watch_stats stats;
    assert(room->out->len <= room->end);
    watch_stats(table, &stats);
    struct watch_walk walk = {.most = stats.data_watches < VIEW_WATCHES_MAX ? stats.data_watches
                                                                            : VIEW_WATCHES_MAX,
                              .bytes = room->end - room->out->len};
    *ret_count = 0;
    *ret_more = stats.data_watches;
    if (walk.most == 0) {
        return NULL;
    }
    walk.items = malloc(walk.most * sizeof *walk.items);
    if (walk.items == NULL) {
        return NULL;
    }
    watch_each_data(table, walk_watch, &walk);
    assert(walk.count <= stats.data_watches);
    if (by_session) {
        qsort(walk.items, walk.count, sizeof *walk.items, by_session_then_path);
    }
    *ret_count = walk.count;
    /* A watcher with two kinds of watches on a path is listed once: then `more` is too small, but never hides a cut. */
    bool cut = walk.count >= VIEW_WATCHES_MAX || walk.bytes == 0;
    *ret_more = cut ? stats.data_watches - walk.count : 0;
    return walk.items;
}

/* Sessions */

struct expiry_walk {
    struct view_expiry *items;
    size_t count;
    size_t most;
    const struct view_expiry *sessions; /* by id */
    size_t sessions_count;
};

static int by_due(const void *a, const void *b)
{
    const struct view_expiry *x = a;
    const struct view_expiry *y = b;
    if (x->due_ms != y->due_ms) {
        return x->due_ms < y->due_ms ? -1 : 1;
    }
    return x->session_id == y->session_id                      ? 0
           : (uint64_t)x->session_id < (uint64_t)y->session_id ? -1
                                                               : 1;
}

static int by_id(const void *a, const void *b)
{
    int64_t x = ((const struct view_expiry *)a)->session_id;
    int64_t y = ((const struct view_expiry *)b)->session_id;
    return (x > y) - (x < y);
}

enum { EXPIRY_ROW = 128 }; /* most bytes of one session as text */

/* room NULL: no limit. */
static bool expiry_begin(struct expiry_walk *walk, const struct view_room *room, size_t all,
                         size_t *ret_count, size_t *ret_more)
{
    assert(room == NULL || room->out->len <= room->end);
    walk->most = all < VIEW_CONNECTIONS_MAX ? all : VIEW_CONNECTIONS_MAX;
    if (room != NULL && walk->most > (room->end - room->out->len) / EXPIRY_ROW) {
        walk->most = (room->end - room->out->len) / EXPIRY_ROW;
    }
    *ret_count = 0;
    *ret_more = all;
    walk->items = walk->most == 0 ? NULL : malloc(walk->most * sizeof *walk->items);
    return walk->items != NULL;
}

static bool walk_session(void *ctx, int64_t id, int64_t due_ms)
{
    struct expiry_walk *walk = ctx;
    assert(walk->count < walk->most);
    walk->items[walk->count++] = (struct view_expiry){.due_ms = due_ms, .session_id = id};
    return walk->count < walk->most;
}

struct view_expiry *view_sessions(const struct view *v, const struct view_room *room,
                                  size_t *ret_count, size_t *ret_more)
{
    const struct session_tracker *t = server_service(v->server)->sessions;
    struct expiry_walk walk = {0};
    size_t all = session_tracker_count(t);
    if (!expiry_begin(&walk, room, all, ret_count, ret_more)) {
        return NULL;
    }
    session_tracker_each(t, walk_session, &walk);
    assert(walk.count <= all);
    qsort(walk.items, walk.count, sizeof *walk.items, by_due);
    *ret_count = walk.count;
    *ret_more = all - walk.count;
    return walk.items;
}

static bool walk_connection_expiry(void *ctx, struct connection *c)
{
    struct expiry_walk *walk = ctx;
    assert(walk->count < walk->most);
    struct view_expiry *item = &walk->items[walk->count++];
    *item = (struct view_expiry){.due_ms = c->handshake_at,
                                 .session_id = c->mapped ? c->session_id : 0};
    const struct view_expiry *session =
        c->mapped && walk->sessions_count > 0
            ? bsearch(item, walk->sessions, walk->sessions_count, sizeof *item, by_id)
            : NULL;
    if (session != NULL) {
        item->due_ms = session->due_ms;
    }
    write_address(c->peer, item->address);
    return walk->count < walk->most;
}

struct view_expiry *view_connection_expiries(const struct view *v, const struct view_room *room,
                                             size_t *ret_count, size_t *ret_more)
{
    struct expiry_walk walk = {0};
    size_t all = view_connection_count(v);
    if (!expiry_begin(&walk, room, all, ret_count, ret_more)) {
        return NULL;
    }
    size_t left_out;
    struct view_expiry *sessions = view_sessions(v, NULL, &walk.sessions_count, &left_out);
    if (walk.sessions_count > 0) {
        qsort(sessions, walk.sessions_count, sizeof *sessions, by_id);
    }
    walk.sessions = sessions;
    server_connections_each(v->server, walk_connection_expiry, &walk);
    free(sessions);
    qsort(walk.items, walk.count, sizeof *walk.items, by_due);
    *ret_count = walk.count;
    *ret_more = all - walk.count;
    return walk.items;
}

int64_t view_wall_ms(const struct view *v, int64_t monotonic_ms)
{
    const struct clock_source *clock = server_service(v->server)->clock;
    return clock_wall_ms(clock) + monotonic_ms - clock_monotonic_ms(clock);
}

/* Ephemerals */

struct ephemeral_walk {
    const struct state *state;
    const struct view_room *room;
    const struct view_ephemerals *callbacks;
    struct buf path; /* of one node */
    int64_t session_id;
    bool begun; /* the session callback was called */
    size_t sessions;
    size_t count;
};

static bool ephemerals_have_room(const struct ephemeral_walk *walk)
{
    return walk->count < VIEW_CONNECTIONS_MAX && view_has_room(walk->room);
}

static bool walk_node(void *ctx, const struct znode *node)
{
    struct ephemeral_walk *walk = ctx;
    struct view_path path;
    buf_reset(&walk->path);
    znode_append_path(node, &walk->path);
    if (!ephemerals_have_room(walk) || !buf_ok(&walk->path)) {
        return false;
    }
    if (!walk->begun) {
        walk->begun = true;
        walk->sessions++;
        walk->callbacks->session(walk->callbacks->ctx, walk->session_id);
    }
    walk->count++;
    view_path(buf_slice(&walk->path), &path);
    walk->callbacks->node(walk->callbacks->ctx, &path);
    return true;
}

static void walk_ephemerals(void *ctx, const struct state_session *session)
{
    struct ephemeral_walk *walk = ctx;
    walk->session_id = session->id;
    walk->begun = false;
    if (ephemerals_have_room(walk)) {
        state_ephemerals_each(walk->state, session->id, walk_node, walk);
    }
}

size_t view_ephemerals_each(const struct view *v, const struct view_room *room,
                            const struct view_ephemerals *callbacks, size_t *ret_more)
{
    struct ephemeral_walk walk = {
        .state = server_service(v->server)->state, .room = room, .callbacks = callbacks};
    struct state_stats stats;
    buf_init(&walk.path, 0);
    state_session_each(walk.state, walk_ephemerals, &walk);
    buf_finish(&walk.path);
    state_stats(walk.state, &stats);
    assert(walk.count <= stats.ephemerals);
    *ret_more = stats.ephemerals - walk.count;
    return walk.sessions;
}

static bool count_node(void *ctx, const struct znode *node)
{
    size_t *count = ctx;
    return ++*count < VIEW_CONNECTIONS_MAX;
}

size_t view_ephemerals_count(const struct view *v, int64_t session_id)
{
    size_t count = 0;
    state_ephemerals_each(server_service(v->server)->state, session_id, count_node, &count);
    return count;
}

/* Figures */

struct figure_walk {
    void (*fn)(void *ctx, const struct view_figure *f);
    void *ctx;
};

static void tell_text(const struct figure_walk *walk, const char *key, const char *text)
{
    struct view_figure f = {.key = key, .kind = FIGURE_TEXT, .text = text};
    walk->fn(walk->ctx, &f);
}

static void tell_whole(const struct figure_walk *walk, const char *key, double value)
{
    struct view_figure f = {.key = key, .kind = FIGURE_WHOLE};
    f.whole = (int64_t)(value < 0 ? value - 0.5 : value + 0.5);
    walk->fn(walk->ctx, &f);
}

static void tell_fraction(const struct figure_walk *walk, const char *key, double value)
{
    struct view_figure f = {.key = key, .kind = FIGURE_FRACTION, .fraction = value};
    walk->fn(walk->ctx, &f);
}

static void tell_summary(const struct figure_walk *walk, const struct metric_row *row,
                         const struct summary *s)
{
    static const struct {
        const char *prefix;
        double share;
    } QUANTILES[] = {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}};
    char key[80];
    snprintf(key, sizeof key, "avg_%s", row->name);
    tell_fraction(walk, key, summary_average(s) * row->scale);
    snprintf(key, sizeof key, "min_%s", row->name);
    tell_whole(walk, key, (double)s->min * row->scale);
    snprintf(key, sizeof key, "max_%s", row->name);
    tell_whole(walk, key, (double)s->max * row->scale);
    snprintf(key, sizeof key, "cnt_%s", row->name);
    tell_whole(walk, key, (double)s->count);
    snprintf(key, sizeof key, "sum_%s", row->name);
    tell_whole(walk, key, (double)s->sum * row->scale);
    for (size_t i = 0; i < sizeof QUANTILES / sizeof QUANTILES[0]; i++) {
        snprintf(key, sizeof key, "%s_%s", QUANTILES[i].prefix, row->name);
        tell_whole(walk, key, (double)summary_quantile(s, QUANTILES[i].share) * row->scale);
    }
}

/* mntr shows only ZooKeeper's names, because its readers know no others. */
static bool row_is_ours(const struct metric_row *row)
{
    return strncmp(row->name, "conclave_", 9) == 0 || strncmp(row->name, "process_", 8) == 0;
}

static void tell_row(const struct figure_walk *walk, const struct metric_row *row,
                     const void *gauges, const void *holder)
{
    if (row_is_ours(row)) {
        return;
    }
    switch (row->kind) {
    case METRIC_COUNTER:
        tell_whole(walk, row->name, (double)*metric_counter(row, holder));
        break;
    case METRIC_SUMMARY:
        tell_summary(walk, row, metric_summary(row, holder));
        break;
    case METRIC_GAUGE:
        (row->fraction ? tell_fraction : tell_whole)(walk, row->name, row->read(gauges));
        break;
    case METRIC_HISTOGRAM:
        break; /* ours, see above */
    }
}

/* As QuorumPeer's getDetailedPeerState for a serving server. */
static const char *view_peer_state(const char *mode)
{
    return strcmp(mode, "follower") == 0   ? "following - broadcast"
           : strcmp(mode, "observer") == 0 ? "observing - broadcast"
                                           : "leading - broadcast";
}

void view_figures(const struct view *v, void (*fn)(void *ctx, const struct view_figure *f),
                  void *ctx)
{
    struct figure_walk walk = {fn, ctx};
    struct server_stats stats;
    struct process_info process;
    server_stats(v->server, &stats);
    process_info_process(&process);
    tell_text(&walk, "version", process_info_version());
    tell_text(&walk, "server_state", stats.mode);
    if (stats.quorum.grouped) {
        tell_text(&walk, "peer_state", view_peer_state(stats.mode));
    }
    for (size_t i = 0; i < process_metric_count; i++) {
        tell_row(&walk, &process_metric_table[i], &process, NULL);
    }
    for (size_t i = 0; i < server_metric_count; i++) {
        tell_row(&walk, &server_metric_table[i], &stats, stats.metrics);
    }
    for (size_t i = 0; stats.quorum.grouped && i < member_metric_count; i++) {
        tell_row(&walk, &member_metric_table[i], &stats, NULL);
    }
    for (size_t i = 0; stats.quorum.grouped && stats.quorum.leads && i < leader_metric_count; i++) {
        tell_row(&walk, &leader_metric_table[i], &stats, NULL);
    }
}
