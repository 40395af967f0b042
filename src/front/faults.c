#include "front/faults.h"

#include "front/service.h"
#include "state/query.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const char DROPPED[] = "a test asked for it";

struct fault_order {
    int64_t session_id;
    enum fault_drop when;
    char what[24]; /* "": any */
};

struct fault_hold {
    int64_t session_id; /* or FAULTS_ALL */
    int64_t until_ms;   /* monotonic; 0: not paused */
    int64_t delay_ms;   /* 0: none */
};

struct faults {
    struct fault_order orders[FAULTS_DROPS_MAX];
    size_t order_count;
    struct fault_hold holds[FAULTS_HOLDS_MAX];
    size_t hold_count;
    int64_t refuse_until_ms; /* 0: connections are welcome */
    bool frozen;
    int64_t ticked_ms; /* the last faults_tick */
    int64_t due_ms;    /* when held connections may go on */
    struct faults_counts counts;
};

static const struct {
    int32_t type;
    unsigned flags;
    const char *name;
} ops[] = {
#define FAULTS_OP(NAME, number, name, request, reply, flags) {number, flags, name},
    WIRE_OPS(FAULTS_OP)
#undef FAULTS_OP
};

enum { OPS = sizeof ops / sizeof ops[0] };
static_assert((int)OPS <= (int)FAULTS_OPS_MAX, "a count for each kind of request");

struct faults *faults_create(int64_t now_ms)
{
    struct faults *f = calloc(1, sizeof *f);
    if (f != NULL) {
        f->due_ms = INT64_MAX;
        f->ticked_ms = f->counts.since_ms = now_ms;
    }
    return f;
}

void faults_destroy(struct faults *f)
{
    free(f);
}

/* Names */

/* OPS: unknown to the protocol. */
static size_t op_at(int32_t type)
{
    size_t at = 0;
    while (at < OPS && ops[at].type != type) {
        at++;
    }
    return at;
}

const char *faults_op_name(size_t at)
{
    return at < OPS ? ops[at].name : NULL;
}

static bool op_is(size_t at, const char *what)
{
    size_t len = strlen(what);
    const char *name = ops[at].name;
    if (strcmp(what, "write") == 0) {
        return (ops[at].flags & WIRE_OP_WRITE) != 0;
    }
    if (strcmp(what, "create") == 0 &&
        (ops[at].type == WIRE_CREATE_CONTAINER || ops[at].type == WIRE_CREATE_TTL)) {
        return true;
    }
    return strncmp(name, what, len) == 0 && (name[len] == '\0' || strcmp(name + len, "2") == 0);
}

bool faults_what_is_known(const char *what)
{
    for (size_t at = 0; at < OPS; at++) {
        if (op_is(at, what)) {
            return true;
        }
    }
    return false;
}

/* Orders */

static bool session_exists(struct service *s, int64_t id)
{
    struct state_session session;
    return state_session_find(s->state, id, &session) || local_session_find(&s->locals, id) != NULL;
}

int faults_cut(struct service *s, int64_t session_id)
{
    struct connection *c = service_connection(s, session_id);
    if (c == NULL) {
        return CONCLAVE_NO_NODE;
    }
    s->faults->counts.dropped++;
    connection_drop(c, DROPPED);
    return 0;
}

int faults_drop(struct service *s, int64_t session_id, enum fault_drop when, const char *what)
{
    struct faults *f = s->faults;
    struct fault_order order = {.session_id = session_id, .when = when};
    assert(what == NULL || faults_what_is_known(what));
    if (session_id != FAULTS_ALL && !session_exists(s, session_id)) {
        return CONCLAVE_NO_NODE;
    }
    if (f->order_count == FAULTS_DROPS_MAX) {
        return CONCLAVE_EBUSY;
    }
    if (what != NULL) {
        strncpy(order.what, what, sizeof order.what - 1);
    }
    f->orders[f->order_count++] = order;
    return 0;
}

static struct fault_hold *hold_find(struct faults *f, int64_t session_id)
{
    for (size_t i = 0; i < f->hold_count; i++) {
        if (f->holds[i].session_id == session_id) {
            return &f->holds[i];
        }
    }
    return NULL;
}

/* The hold of a session, made if there is none. 0, CONCLAVE_NO_NODE or CONCLAVE_EBUSY. */
static int hold_need(struct service *s, int64_t session_id, struct fault_hold **ret)
{
    struct faults *f = s->faults;
    struct fault_hold *hold = hold_find(f, session_id);
    if (hold == NULL && session_id != FAULTS_ALL && !session_exists(s, session_id)) {
        return CONCLAVE_NO_NODE;
    }
    if (hold == NULL && f->hold_count == FAULTS_HOLDS_MAX) {
        return CONCLAVE_EBUSY;
    }
    if (hold == NULL) {
        hold = &f->holds[f->hold_count++];
        *hold = (struct fault_hold){.session_id = session_id};
    }
    f->due_ms = clock_monotonic_ms(s->clock); /* what is held is looked at again */
    *ret = hold;
    return 0;
}

/* A hold that does nothing makes room for others. */
static void hold_trim(struct faults *f, int64_t now_ms)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->hold_count; i++) {
        if (f->holds[i].until_ms > now_ms || f->holds[i].delay_ms > 0) {
            f->holds[kept++] = f->holds[i];
        }
    }
    f->hold_count = kept;
}

/* The time in ms from now. */
static int64_t until(struct service *s, int64_t ms)
{
    assert(ms == FAULTS_FOREVER || (ms >= 0 && ms <= FAULTS_MS_MAX));
    return ms == FAULTS_FOREVER ? INT64_MAX : clock_monotonic_ms(s->clock) + ms;
}

int faults_delay(struct service *s, int64_t session_id, int64_t delay_ms)
{
    struct fault_hold *hold = NULL;
    assert(delay_ms >= 0 && delay_ms <= FAULTS_MS_MAX);
    hold_trim(s->faults, clock_monotonic_ms(s->clock));
    int rc = hold_need(s, session_id, &hold);
    if (rc == 0) {
        hold->delay_ms = delay_ms;
    }
    return rc;
}

int faults_pause(struct service *s, int64_t session_id, int64_t ms)
{
    struct fault_hold *hold = NULL;
    hold_trim(s->faults, clock_monotonic_ms(s->clock));
    int rc = hold_need(s, session_id, &hold);
    if (rc == 0) {
        faults_tick(s, clock_monotonic_ms(s->clock));
        hold->until_ms = until(s, ms);
    }
    return rc;
}

int faults_resume(struct service *s, int64_t session_id)
{
    struct fault_hold *hold = hold_find(s->faults, session_id);
    if (hold == NULL) {
        return session_id == FAULTS_ALL || session_exists(s, session_id) ? 0 : CONCLAVE_NO_NODE;
    }
    faults_tick(s, clock_monotonic_ms(s->clock));
    hold->until_ms = 0;
    s->faults->due_ms = s->faults->ticked_ms;
    return 0;
}

void faults_refuse(struct service *s, int64_t ms)
{
    s->faults->refuse_until_ms = ms == 0 ? 0 : until(s, ms);
}

void faults_clear(struct service *s)
{
    struct faults *f = s->faults;
    faults_tick(s, clock_monotonic_ms(s->clock));
    f->order_count = f->hold_count = 0;
    f->refuse_until_ms = 0;
    f->frozen = false;
    f->due_ms = f->ticked_ms;
}

/* The clock of sessions */

static bool all_are_paused(const struct faults *f, int64_t now_ms)
{
    for (size_t i = 0; i < f->hold_count; i++) {
        if (f->holds[i].session_id == FAULTS_ALL && f->holds[i].until_ms > now_ms) {
            return true;
        }
    }
    return false;
}

void faults_tick(struct service *s, int64_t now_ms)
{
    struct faults *f = s->faults;
    int64_t passed_ms = now_ms - f->ticked_ms;
    if (passed_ms > 0 && (f->frozen || all_are_paused(f, f->ticked_ms))) {
        session_tracker_pause(s->sessions, passed_ms);
        session_tracker_pause(s->locals.alive, passed_ms);
    }
    f->ticked_ms = now_ms;
}

void faults_freeze(struct service *s, bool frozen)
{
    faults_tick(s, clock_monotonic_ms(s->clock));
    s->faults->frozen = frozen;
}

static bool hold_is_for(const struct fault_hold *hold, const struct connection *c)
{
    return hold->session_id == FAULTS_ALL ||
           (c->session_id != 0 && hold->session_id == c->session_id);
}

static bool is_paused(const struct connection *c, int64_t now_ms)
{
    const struct faults *f = c->service->faults;
    for (size_t i = 0; i < f->hold_count; i++) {
        if (hold_is_for(&f->holds[i], c) && f->holds[i].until_ms > now_ms) {
            return true;
        }
    }
    return false;
}

static bool is_silent(const struct connection *c, int64_t now_ms)
{
    return c->stage != CONNECTION_SERVING || is_paused(c, now_ms) ||
           now_ms - c->heard_ms > (int64_t)c->timeout_ms * 2 / 3;
}

uint64_t faults_advance(struct service *s, int64_t ms)
{
    int64_t now_ms = service_time_ms(s);
    struct map_node *node = NULL;
    assert(ms >= 0 && ms <= FAULTS_MS_MAX);
    session_tracker_pass(s->sessions, ms);
    session_tracker_pass(s->locals.alive, ms);
    while ((node = map_next(&s->by_session, node)) != NULL) {
        struct connection *c = CONTAINER_OF(node, struct connection, by_id);
        if (!is_silent(c, now_ms)) {
            session_tracker_touch(c->local ? s->locals.alive : s->sessions, c->session_id, now_ms);
        }
    }
    uint64_t before = s->metrics->stale_sessions_expired;
    service_expire_sessions(s, now_ms);
    return s->metrics->stale_sessions_expired - before;
}

int faults_expire(struct service *s, int64_t session_id)
{
    struct local_session *local = local_session_find(&s->locals, session_id);
    struct state_session session;
    if (local != NULL && !local->upgrading) {
        service_end_local(s, session_id, SESSION_END_EXPIRED, SLICE_NULL);
        return 0;
    }
    if (!state_session_find(s->state, session_id, &session)) {
        return CONCLAVE_NO_NODE;
    }
    (void)service_time_ms(s);
    return leadership_propose(s, session_id, WIRE_CLOSE_SESSION, slice_str(""));
}

/* Reset */

/* Puts a write of the superuser into the log, whose answer nobody awaits. */
static int write_as_super(struct service *s, int64_t session_id, int32_t type, struct slice body)
{
    struct client_ids ids;
    client_ids_init(&ids, s->limits.identity_max, s->limits.command.ids);
    int rc = client_ids_add(&ids, slice_str("super"), slice_str(""));
    struct pending *entry =
        rc == 0 ? pipeline_pending(&s->pipeline, &s->account, body.len, s->now_ns) : NULL;
    struct command command = {
        .session_id = session_id,
        .type = type,
        .ids = client_ids_list(&ids),
        .body = body,
        /* Of no session, so none is looked for. */
        .options = type == WIRE_CLOSE_SESSION ? s->command_options : COMMAND_LOCAL,
    };
    if (entry == NULL) {
        rc = CONCLAVE_ENOMEM;
    } else {
        entry->type = type;
        rc = pipeline_write(&s->pipeline, &command, clock_wall_ms(s->clock), entry);
    }
    if (rc != 0 && entry != NULL) {
        pipeline_release(&s->pipeline, entry);
    }
    client_ids_finish(&ids);
    return rc;
}

/* The nodes that a new server has. */
static bool is_original(const struct znode *node)
{
    static const char *const paths[] = {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"};
    char path[32];
    size_t len = znode_path_len(node);
    if (node->parent == NULL || len >= sizeof path) {
        return node->parent == NULL;
    }
    znode_path(node, path, len);
    path[len] = '\0';
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        if (strcmp(path, paths[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int delete_node(struct service *s, const struct znode *node)
{
    struct buf path;
    struct buf body;
    buf_init(&path, 0);
    buf_init(&body, 0);
    znode_append_path(node, &path);
    struct wire_delete_request record = {.path = buf_slice(&path), .version = -1};
    wire_encode_delete_request(&body, &record);
    bool ok = buf_ok(&path) && buf_ok(&body);
    int rc = ok ? write_as_super(s, 0, WIRE_DELETE, buf_slice(&body)) : CONCLAVE_ENOMEM;
    buf_finish(&path);
    buf_finish(&body);
    return rc;
}

/* The deepest first child of a node: in postorder, it comes before its siblings and parents. */
static const struct znode *first_below(const struct znode *node)
{
    for (const struct znode *child; (child = znode_first_child(node)) != NULL;) {
        node = child;
    }
    return node;
}

struct faults_ids {
    int64_t *ids;
    size_t count;
};

static void faults_note_session(void *ctx, const struct state_session *session)
{
    struct faults_ids *list = ctx;
    list->ids[list->count++] = session->id;
}

static int expire_all(struct service *s)
{
    size_t count = session_tracker_count(s->sessions);
    struct faults_ids list = {.ids = calloc(count + 1, sizeof *list.ids)};
    int rc = list.ids == NULL ? CONCLAVE_ENOMEM : 0;
    if (rc == 0) {
        state_session_each(s->state, faults_note_session, &list);
        assert(list.count <= count);
    }
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        rc = write_as_super(s, list.ids[i], WIRE_CLOSE_SESSION, slice_str(""));
    }
    free(list.ids);
    return rc;
}

int faults_reset(struct service *s)
{
    (void)service_time_ms(s);
    faults_clear(s);
    int rc = expire_all(s);
    const struct znode *root = state_node(s->state, slice_str("/"));
    const struct znode *node = first_below(root);
    while (rc == 0 && node != root) {
        /* An ephemeral node goes with its session: the delete fails then, and nobody minds. */
        rc = is_original(node) ? 0 : delete_node(s, node);
        node = node->next != NULL ? first_below(node->next) : node->parent;
    }
    return rc;
}

bool faults_is_empty(struct service *s)
{
    const struct znode *root = state_node(s->state, slice_str("/"));
    for (const struct znode *node = first_below(root); node != root;) {
        if (!is_original(node)) {
            return false;
        }
        node = node->next != NULL ? first_below(node->next) : node->parent;
    }
    return true;
}

/* Counts */

void faults_mark(struct service *s)
{
    s->faults->counts = (struct faults_counts){.since_ms = clock_monotonic_ms(s->clock)};
}

const struct faults_counts *faults_counts(const struct faults *f)
{
    return &f->counts;
}

void faults_state(const struct service *s, struct faults_state *ret)
{
    struct faults *f = s->faults;
    int64_t now_ms = clock_monotonic_ms(s->clock);
    hold_trim(f, now_ms);
    *ret = (struct faults_state){
        .drops = f->order_count,
        .holds = f->hold_count,
        .refusing = f->refuse_until_ms > now_ms,
        .frozen = f->frozen,
    };
}

/* Hooks */

/* Requests by which clients keep or resume their session: an order for any request lets them pass. */
static bool keeps_session(int32_t type)
{
    return type == WIRE_PING || type == WIRE_AUTH || type == WIRE_SASL ||
           type == WIRE_SET_WATCHES || type == WIRE_SET_WATCHES2;
}

static bool order_matches(const struct fault_order *order, const struct connection *c, size_t at)
{
    if (order->session_id != FAULTS_ALL && order->session_id != c->session_id) {
        return false;
    }
    return order->what[0] != '\0' ? at < OPS && op_is(at, order->what)
                                  : at == OPS || !keeps_session(ops[at].type);
}

bool faults_on_request(struct connection *c, int32_t type, int32_t xid)
{
    struct faults *f = c->service->faults;
    size_t at = op_at(type);
    if (at < OPS) {
        f->counts.requests[at]++;
    }
    for (size_t i = 0; i < f->order_count; i++) {
        struct fault_order order = f->orders[i];
        if (!order_matches(&order, c, at)) {
            continue;
        }
        f->order_count--;
        memmove(&f->orders[i], &f->orders[i + 1], (f->order_count - i) * sizeof order);
        if (order.when == FAULT_DROP_BEFORE) {
            f->counts.dropped++;
            connection_drop(c, DROPPED);
            return true;
        }
        c->faults.loses = true;
        c->faults.lost_xid = xid;
        return false;
    }
    return false;
}

void faults_on_reply(struct connection *c, int32_t xid)
{
    if (c->faults.loses && xid == c->faults.lost_xid) {
        c->faults.loses = false;
        c->service->faults->counts.dropped++;
        connection_drop(c, DROPPED);
    }
}

bool faults_on_accept(struct service *s)
{
    struct faults *f = s->faults;
    bool refuses = f->refuse_until_ms > clock_monotonic_ms(s->clock);
    f->counts.refused += refuses;
    f->counts.connections += !refuses;
    return refuses;
}

void faults_on_event(struct faults *f)
{
    f->counts.told++;
}

void faults_on_session(struct faults *f, bool created, bool expired)
{
    f->counts.created += created;
    f->counts.expired += !created && expired;
    f->counts.closed += !created && !expired;
}

bool faults_hold(struct connection *c)
{
    struct faults *f = c->service->faults;
    int64_t now_ms = clock_monotonic_ms(c->service->clock);
    int64_t until_ms = 0;
    int64_t delay_ms = 0;
    for (size_t i = 0; i < f->hold_count; i++) {
        const struct fault_hold *hold = &f->holds[i];
        if (hold_is_for(hold, c)) {
            until_ms = hold->until_ms > until_ms ? hold->until_ms : until_ms;
            delay_ms = hold->delay_ms > delay_ms ? hold->delay_ms : delay_ms;
        }
    }
    if (c->out.len == 0 || delay_ms == 0) {
        c->faults.out_at_ms = 0;
    } else if (c->faults.out_at_ms == 0) {
        c->faults.out_at_ms = now_ms + delay_ms;
    }
    until_ms = c->faults.out_at_ms > until_ms ? c->faults.out_at_ms : until_ms;
    c->faults.held = until_ms > now_ms;
    if (c->faults.held && until_ms < f->due_ms) {
        f->due_ms = until_ms;
    }
    return c->faults.held;
}

bool faults_due(struct faults *f, int64_t now_ms)
{
    if (now_ms < f->due_ms) {
        return false;
    }
    f->due_ms = INT64_MAX;
    return true;
}

int64_t faults_deadline(const struct faults *f)
{
    return f->due_ms;
}
