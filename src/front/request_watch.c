#include "front/request_watch.h"

#include "base/log.h"
#include "front/service.h"

/* Whether a limit is reached: number of watches and bytes of their paths, of the connection, its address and all. */
static bool watches_are_full(const struct connection *c, struct slice path)
{
    const struct service *s = c->service;
    const struct client_limits *l = &s->limits;
    enum account_use use = ACCOUNT_WATCHES;
    return c->watcher.count >= l->watches_max || s->account.charges[use] >= l->watches_total_max ||
           c->account.bytes[use] + path.len > l->watch_bytes_max ||
           c->address->account.bytes[use] + path.len > l->watch_bytes_total_max / 2 ||
           s->account.bytes[use] + path.len > l->watch_bytes_total_max;
}

int request_watch(struct connection *c, enum watch_kind kind, struct slice path)
{
    struct service *s = c->service;
    if (watches_are_full(c, path) && !watch_has(s->watches, &c->watcher, kind, path)) {
        s->metrics->conclave_watches_refused_total++;
        log_cause(
            LOG_WARN, "server", "watch-refused", c->host, NULL,
            "raise maxWatchesPerConnection, maxWatches or their byte limits, or let the client watch less",
            "peer=%s session=0x%llx watches=%zu bytes=%zu all=%zu all_bytes=%zu", c->peer,
            (unsigned long long)c->session_id, c->watcher.count, c->account.bytes[ACCOUNT_WATCHES],
            s->account.charges[ACCOUNT_WATCHES], s->account.bytes[ACCOUNT_WATCHES]);
        return CONCLAVE_QUOTA_EXCEEDED;
    }
    return watch_add(s->watches, &c->watcher, kind, path) == 0 ? 0 : CONCLAVE_SYSTEM_ERROR;
}

/* --- setWatches, setWatches2 ------------------------------------------------------------------ */

/* One list of one-shot watches: sends the missed events, sets the other watches again. */
static int request_rewatch(struct connection *c, enum state_rewatch kind, struct wire_vector paths,
                           int64_t relative_zxid)
{
    const struct state *state = c->service->state;
    struct wire_vector ids = client_ids_list(&c->identity);
    struct slice path;
    int err = 0;
    state_caller_begin(state);
    while (err == 0 && wire_next_string(&paths, &path)) {
        int event = state_rewatch(state, kind, ids, path, relative_zxid);
        if (event != 0) {
            connection_event(c, event, path, -1);
        } else {
            err = request_watch(c, kind == STATE_REWATCH_CHILD ? WATCH_CHILD : WATCH_DATA, path);
        }
    }
    return err;
}

/* One list of persistent watches: missed events are not sent, as in ZooKeeper. */
static int request_watch_all(struct connection *c, enum watch_kind kind, struct wire_vector paths)
{
    struct slice path;
    int err = 0;
    while (err == 0 && wire_next_string(&paths, &path)) {
        err = request_watch(c, kind, path);
    }
    return err;
}

static void request_set_watches(struct connection *c, const struct request *r,
                                const struct wire_set_watches2 *w, int err)
{
    if (err == 0) {
        err = request_rewatch(c, STATE_REWATCH_DATA, w->data_watches, w->relative_zxid);
    }
    if (err == 0) {
        err = request_rewatch(c, STATE_REWATCH_EXIST, w->exist_watches, w->relative_zxid);
    }
    if (err == 0) {
        err = request_rewatch(c, STATE_REWATCH_CHILD, w->child_watches, w->relative_zxid);
    }
    if (err == 0) {
        err = request_watch_all(c, WATCH_PERSISTENT, w->persistent_watches);
    }
    if (err == 0) {
        err = request_watch_all(c, WATCH_RECURSIVE, w->persistent_recursive_watches);
    }
    if (err == CONCLAVE_QUOTA_EXCEEDED || err == CONCLAVE_SYSTEM_ERROR) {
        /* Java's client ignores the answer, and would wait for events that never come. */
        connection_drop(c, "its watches could not be set again: too many watches");
    }
    if (c->stage == CONNECTION_SERVING) { /* its events may have passed the output limit */
        connection_reply(c, r->xid, state_zxid(c->service->state), err);
    }
}

void answer_set_watches(struct connection *c, const struct request *r)
{
    struct wire_reader reader = wire_reader_make(r->body);
    struct wire_set_watches record = {.relative_zxid = 0};
    int err = wire_decode_set_watches(&reader, &record);
    struct wire_set_watches2 all = {
        .relative_zxid = record.relative_zxid,
        .data_watches = record.data_watches,
        .exist_watches = record.exist_watches,
        .child_watches = record.child_watches,
        .persistent_watches = WIRE_VECTOR_NULL,
        .persistent_recursive_watches = WIRE_VECTOR_NULL,
    };
    request_set_watches(c, r, &all, err);
}

void answer_set_watches2(struct connection *c, const struct request *r)
{
    struct wire_reader reader = wire_reader_make(r->body);
    struct wire_set_watches2 record;
    int err = wire_decode_set_watches2(&reader, &record);
    request_set_watches(c, r, &record, err);
}

/* --- addWatch, checkWatches, removeWatches ---------------------------------------------------- */

/* Modes of addWatch: AddWatchModes of ZooKeeper. */
enum { ADD_WATCH_PERSISTENT = 0, ADD_WATCH_RECURSIVE = 1 };

/* Does not check the path or the permission: each event is checked when it occurs. */
void answer_add_watch(struct connection *c, const struct request *r)
{
    struct wire_reader reader = wire_reader_make(r->body);
    struct wire_add_watch_request record;
    int err = wire_decode_add_watch_request(&reader, &record);
    if (err == 0 && (slice_is_null(record.path) ||
                     (record.mode != ADD_WATCH_PERSISTENT && record.mode != ADD_WATCH_RECURSIVE))) {
        err = CONCLAVE_MARSHALLING_ERROR;
    }
    if (err == 0) {
        bool recursive = record.mode == ADD_WATCH_RECURSIVE;
        err = request_watch(c, recursive ? WATCH_RECURSIVE : WATCH_PERSISTENT, record.path);
    }
    size_t place = connection_reply_begin(c, r->xid, state_zxid(c->service->state));
    wire_encode_error_response(&c->out, &(struct wire_error_response){.err = 0});
    if (err != 0) {
        connection_reply_fail(c, place, err);
    }
    connection_reply_end(c, place);
}

/* The kinds of watches for each type in checkWatches and removeWatches, as bits: Watcher.WatcherType of ZooKeeper. */
static const unsigned watcher_types[] = {
    [1] = 1u << WATCH_CHILD,      [2] = 1u << WATCH_DATA,      [3] = (1u << WATCH_KINDS) - 1,
    [4] = 1u << WATCH_PERSISTENT, [5] = 1u << WATCH_RECURSIVE,
};

/* Whether a watch of one of the kinds exists; with `remove`, removes all of them. */
static bool find_watches(struct connection *c, unsigned kinds, struct slice path, bool remove)
{
    struct watch_table *t = c->service->watches;
    bool found = false;
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        if ((kinds >> kind & 1) == 0) {
            continue;
        }
        enum watch_kind k = (enum watch_kind)kind;
        found |=
            remove ? watch_remove(t, &c->watcher, k, path) : watch_has(t, &c->watcher, k, path);
    }
    return found;
}

static void answer_find_watches(struct connection *c, const struct request *r, bool remove)
{
    struct wire_reader reader = wire_reader_make(r->body);
    struct wire_check_watches_request record; /* removeWatches has the same record */
    int err = wire_decode_check_watches_request(&reader, &record);
    if (err == 0 && (record.type < 1 || record.type > 5)) {
        err = CONCLAVE_MARSHALLING_ERROR;
    }
    if (err == 0 && !find_watches(c, watcher_types[record.type], record.path, remove)) {
        err = CONCLAVE_NO_WATCHER;
    }
    connection_reply(c, r->xid, state_zxid(c->service->state), err);
}

void answer_check_watches(struct connection *c, const struct request *r)
{
    answer_find_watches(c, r, false);
}

void answer_remove_watches(struct connection *c, const struct request *r)
{
    answer_find_watches(c, r, true);
}
