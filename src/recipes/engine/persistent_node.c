#include "recipes/engine/persistent_node.h"

#include "base/random.h"
#include "base/transition.h"
#include "recipes/engine/option_copies.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BACKOFF_MS = 1000 }; /* when somebody deletes the node again and again */

static const char HEAD[] = "conclave-member ";

/* --- data ------------------------------------------------------------------------ */

char *member_text(const char *incarnation, const void *data, size_t len, size_t *ret_len)
{
    size_t head = sizeof HEAD - 1 + strlen(incarnation) + 1;
    char *text = malloc(head + len + 1);
    if (text == NULL) {
        return NULL;
    }
    (void)snprintf(text, head + 1, "%s%s\n", HEAD, incarnation);
    if (len > 0) {
        memcpy(text + head, data, len);
    }
    *ret_len = head + len;
    return text;
}

const void *member_payload(const void *bytes, size_t len, size_t *ret_len)
{
    const char *end = NULL;
    if (len >= sizeof HEAD && memcmp(bytes, HEAD, sizeof HEAD - 1) == 0) {
        end = memchr(bytes, '\n', len);
    }
    if (end == NULL) {
        *ret_len = len;
        return bytes;
    }
    *ret_len = len - (size_t)(end + 1 - (const char *)bytes);
    return end + 1;
}

void member_incarnation(char *buf)
{
    random_text(buf, MEMBER_INCARNATION_BYTES);
}

/* Whether the node stays when the session ends. */
static bool member_lasts(const struct member *m)
{
    return m->mode != CONCLAVE_EPHEMERAL;
}

static bool had_session(const struct member *m, int64_t id)
{
    for (size_t i = 0; i < MEMBER_SESSIONS; i++) {
        if (m->sessions[i] == id && id != 0) {
            return true;
        }
    }
    return false;
}

/* Whether the node that was read is this member's, of whichever session. */
static bool is_mine(const struct member *m, const struct conclave_reply *reply)
{
    if (member_lasts(m) || reply->stat.ephemeral_owner == 0) {
        return member_lasts(m) && reply->stat.ephemeral_owner == 0;
    }
    if (reply->stat.czxid == m->czxid && reply->stat.ephemeral_owner == m->session_id) {
        return true; /* though somebody has written to it */
    }
    if (m->incarnation == NULL) {
        return had_session(m, reply->stat.ephemeral_owner);
    }
    size_t head = sizeof HEAD - 1;
    size_t len = strlen(m->incarnation);
    return reply->data_len > head + len && memcmp(reply->data, HEAD, head) == 0 &&
           memcmp((const char *)reply->data + head, m->incarnation, len) == 0 &&
           ((const char *)reply->data)[head + len] == '\n';
}

/* --- what is known --------------------------------------------------------------- */

static int64_t present_session(const struct member *m)
{
    return client_session_id(machine_client(&m->machine));
}

static const uint16_t member_next[] = {
    [MEMBER_NOWHERE] =
        TRANSITION_TO(MEMBER_NOWHERE) | TRANSITION_TO(MEMBER_STANDS) | TRANSITION_TO(MEMBER_DOUBT),
    [MEMBER_DOUBT] = TRANSITION_TO_ANY,
    [MEMBER_STANDS] = TRANSITION_TO_ANY, /* it is looked at again after each event */
    [MEMBER_GHOST] = TRANSITION_TO(MEMBER_DOUBT) | TRANSITION_TO(MEMBER_NOWHERE),
    [MEMBER_OTHER] = TRANSITION_TO_ANY,
};

static void persistent_node_settle(struct member *m, enum member_place place)
{
    transition_check(member_next, m->place, place);
    m->place = place;
    if (place == MEMBER_DOUBT) {
        m->synced = false;
    }
    m->changed(m);
}

/* What an answer that is no answer means: looked for on the next link, or in a while; or never. */
static void persistent_node_trouble(struct member *m, int error)
{
    if (error_is_fatal(error)) {
        if (m->leaving) {
            m->left = true; /* it goes with the session, or cannot be removed */
            persistent_node_settle(m, MEMBER_NOWHERE);
        } else {
            m->halted = true;
            persistent_node_settle(m, MEMBER_DOUBT); /* the node must still be removed */
            m->failed(m, error);
        }
        return;
    }
    persistent_node_settle(m, MEMBER_DOUBT);
    if (error != CONCLAVE_CONNECTION_LOSS) {
        machine_retry_later(&m->machine);
    }
}

static void stands(struct member *m, const struct conclave_stat *stat)
{
    m->version = stat->version;
    m->czxid = stat->czxid;
    m->session_id = stat->ephemeral_owner;
    persistent_node_settle(m, MEMBER_STANDS);
}

/* --- looking ---------------------------------------------------------------------- */

static void gone(struct member *m)
{
    bool stood = m->czxid != 0 && (member_lasts(m) || m->session_id == present_session(m));
    int64_t now = client_now_ns(machine_client(&m->machine));
    m->czxid = 0;
    persistent_node_settle(m, MEMBER_NOWHERE);
    if (stood && !m->leaving) { /* somebody deleted it: not a reason to make it without end */
        if (m->lost_ns != 0 && now - m->lost_ns < (int64_t)BACKOFF_MS * 1000000) {
            machine_pause(&m->machine, BACKOFF_MS);
        }
        m->lost_ns = now;
    }
}

static void on_looked(struct step *step, const struct conclave_reply *reply)
{
    struct member *m = CONTAINER_OF(step, struct member, step);
    watch_slot_answered(&m->watch, reply->error == 0);
    if (reply->error == CONCLAVE_NO_NODE) {
        gone(m);
    } else if (reply->error != 0) {
        persistent_node_trouble(m, reply->error);
    } else if (!is_mine(m, reply)) {
        m->czxid = reply->stat.czxid;
        m->session_id = 0;
        persistent_node_settle(m, MEMBER_OTHER);
    } else if (!member_lasts(m) && reply->stat.ephemeral_owner != present_session(m)) {
        m->version = reply->stat.version;
        m->czxid = reply->stat.czxid;
        m->session_id = 0;
        persistent_node_settle(m, MEMBER_GHOST);
    } else {
        bool same = reply->data_len == m->data_len &&
                    (m->data_len == 0 || memcmp(reply->data, m->data, m->data_len) == 0);
        /* A TTL counts from the last write: the same data, of an earlier life, are written again. */
        same = same && m->ttl_ms == 0;
        m->dirty = !same && (!member_lasts(m) || m->written != m->data_generation);
        m->written = same ? m->data_generation : m->written;
        stands(m, &reply->stat);
    }
}

static void persistent_node_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct member *m = CONTAINER_OF(step, struct member, step);
    m->synced = reply->error == 0;
    if (!m->synced) {
        persistent_node_trouble(m, reply->error);
    }
}

static void persistent_node_look(struct member *m)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, m->path, 0);
    if (m->place == MEMBER_DOUBT && !m->synced) {
        step_ask(&m->step, CONCLAVE_OP_SYNC, m->path, persistent_node_on_synced);
        return;
    }
    if (watch_slot_prepare(&m->watch, m->path, &op) != 0) {
        machine_retry_later(&m->machine);
        return;
    }
    step_submit(&m->step, &op, on_looked);
}

/* --- making and writing -------------------------------------------------------------- */

static void on_parent(struct ensure_path *ensure, int error)
{
    struct member *m = CONTAINER_OF(ensure, struct member, ensure);
    if (error != 0) {
        persistent_node_trouble(m, error);
    }
}

static void on_created(struct step *step, const struct conclave_reply *reply)
{
    struct member *m = CONTAINER_OF(step, struct member, step);
    if (reply->error == 0 && reply->has_stat) {
        m->written = m->step_generation;
        m->dirty = m->written != m->data_generation;
        stands(m, &reply->stat);
    } else if (reply->error == 0 || reply->error == CONCLAVE_NODE_EXISTS) {
        persistent_node_settle(m, MEMBER_DOUBT);
    } else if (reply->error == CONCLAVE_NO_NODE && !m->leaving) {
        if (ensure_path_start(&m->ensure, m->parent, m->acl, m->acl_count, on_parent) != 0) {
            machine_retry_later(&m->machine);
        }
    } else if (reply->error != CONCLAVE_NO_NODE) {
        persistent_node_trouble(m, reply->error);
    }
}

static struct conclave_op create_op(const struct member *m)
{
    struct conclave_op op = conclave_op_create(m->path, m->data, m->data_len, m->mode);
    op.ttl_ms = m->ttl_ms;
    op.acl = m->acl;
    op.acl_count = m->acl_count;
    return op;
}

static void create(struct member *m)
{
    struct conclave_op op = create_op(m);
    m->step_generation = m->data_generation;
    step_submit(&m->step, &op, on_created);
}

/* In any case the node is read: it shows the outcome. */
static void on_replaced(struct step *step, const struct conclave_reply *reply)
{
    struct member *m = CONTAINER_OF(step, struct member, step);
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE &&
        reply->error != CONCLAVE_BAD_VERSION && reply->error != CONCLAVE_NODE_EXISTS) {
        persistent_node_trouble(m, reply->error);
    } else {
        persistent_node_settle(m, MEMBER_DOUBT);
    }
}

/* No moment without the node: who watches sees one of a new creation in place of the old one. */
static void replace(struct member *m)
{
    struct conclave_op parts[2] = {conclave_op_path(CONCLAVE_OP_DELETE, m->path, m->version),
                                   create_op(m)};
    struct conclave_op op = conclave_op_multi(parts, 2);
    step_submit(&m->step, &op, on_replaced);
}

static void on_set(struct step *step, const struct conclave_reply *reply)
{
    struct member *m = CONTAINER_OF(step, struct member, step);
    if (reply->error == 0) {
        m->version = reply->stat.version;
        m->written = m->step_generation;
        m->dirty = m->written != m->data_generation;
    } else if (reply->error == CONCLAVE_NO_NODE || reply->error == CONCLAVE_BAD_VERSION) {
        persistent_node_settle(m, MEMBER_DOUBT);
    } else {
        persistent_node_trouble(m, reply->error);
    }
}

static void persistent_node_on_deleted(struct step *step, const struct conclave_reply *reply)
{
    struct member *m = CONTAINER_OF(step, struct member, step);
    if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        m->left = true;
        persistent_node_settle(m, MEMBER_NOWHERE);
    } else if (reply->error == CONCLAVE_BAD_VERSION || reply->error == CONCLAVE_NOT_EMPTY) {
        m->left = reply->error == CONCLAVE_NOT_EMPTY; /* it lasts, and others have nodes in it */
        persistent_node_settle(m, MEMBER_DOUBT);
    } else {
        persistent_node_trouble(m, reply->error);
    }
}

/* --- the machine ------------------------------------------------------------------- */

static void run_leaving(struct member *m)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, m->path, m->version);
    switch (m->place) {
    case MEMBER_DOUBT:
        persistent_node_look(m);
        break;
    case MEMBER_STANDS:
        step_submit(&m->step, &op, persistent_node_on_deleted);
        break;
    case MEMBER_GHOST: /* it goes with its session */
    case MEMBER_NOWHERE:
    case MEMBER_OTHER:
        if (!m->left) {
            m->left = true;
            m->changed(m);
        }
        break;
    }
}

static void run_joined(struct member *m)
{
    if (m->dirty) {
        /* a version of -1 would write without asking: then the node is made again */
        struct conclave_op op = conclave_op_set(m->path, m->data, m->data_len, m->version);
        if (m->version == -1) {
            replace(m);
            return;
        }
        m->step_generation = m->data_generation;
        step_submit(&m->step, &op, on_set);
    } else if (!m->watch.armed) {
        persistent_node_look(m);
    }
}

static void member_work(struct machine *machine)
{
    struct member *m = CONTAINER_OF(machine, struct member, machine);
    if (!m->active || m->left || m->step.busy || ensure_path_busy(&m->ensure) ||
        (m->halted && !m->leaving)) {
        return;
    }
    if (m->leaving && m->place != MEMBER_DOUBT && m->place != MEMBER_STANDS) {
        run_leaving(m); /* nothing of ours is there, link or no link */
        return;
    }
    if (!machine_can_send(machine)) {
        return;
    }
    if (m->leaving) {
        run_leaving(m);
        return;
    }
    switch (m->place) {
    case MEMBER_NOWHERE:
        create(m);
        break;
    case MEMBER_DOUBT:
        persistent_node_look(m);
        break;
    case MEMBER_GHOST:
        replace(m);
        break;
    case MEMBER_STANDS:
        run_joined(m);
        break;
    case MEMBER_OTHER:
        if (!m->watch.armed) {
            persistent_node_look(m);
        }
        break;
    }
}

void member_on_state(struct member *m, enum conclave_state state)
{
    if (!m->active) {
        return;
    }
    if (state == CONCLAVE_STATE_LOST || state_is_final(state)) {
        machine_resume(&m->machine);
        m->left = m->left || (m->leaving && (!member_lasts(m) || state_is_final(state)));
        m->czxid = 0;
        m->session_id = 0;
        persistent_node_settle(
            m, MEMBER_DOUBT); /* the server may be later than we to end the session */
    } else if (state == CONCLAVE_STATE_SUSPENDED) {
        persistent_node_settle(m, m->place == MEMBER_NOWHERE ? MEMBER_NOWHERE : MEMBER_DOUBT);
    } else if (recipes_connected(m->machine.owner->rt)) {
        machine_resume(&m->machine);
        if (!had_session(m, present_session(m))) {
            m->sessions[m->sessions_next++ % MEMBER_SESSIONS] = present_session(m);
        }
    }
    machine_run(&m->machine);
}

bool member_is_in(const struct member *m)
{
    return m->place == MEMBER_STANDS && !m->leaving;
}

void member_init(struct member *m, struct handle *owner)
{
    memset(m, 0, sizeof *m);
    m->mode = CONCLAVE_EPHEMERAL;
    machine_init(&m->machine, owner, member_work);
    machine_step_init(&m->machine, &m->step);
    machine_ensure_init(&m->machine, &m->ensure);
    machine_watch_init(&m->machine, &m->watch);
}

void member_start(struct member *m)
{
    m->active = true;
    if (recipes_connected(m->machine.owner->rt)) {
        m->sessions[m->sessions_next++] = present_session(m);
    }
    machine_run(&m->machine);
}

void member_set_data_take(struct member *m, char *data, size_t len)
{
    free(m->data);
    m->data = data;
    m->data_len = len;
    m->data_generation++;
    m->dirty = true;
    if (m->active) { /* else its handle is still being made */
        machine_run(&m->machine);
    }
}

void member_leave(struct member *m)
{
    if (m->left || m->leaving) {
        return;
    }
    m->leaving = true;
    enum conclave_state state = client_state(machine_client(&m->machine));
    bool ended = (state == CONCLAVE_STATE_LOST && !member_lasts(m)) || state_is_final(state);
    if (!m->active || m->keep || (ended && !m->step.busy)) {
        m->left = true;
        m->changed(m);
        return;
    }
    machine_run(&m->machine);
}

void member_finish(struct member *m)
{
    if (m->machine.owner == NULL) {
        return;
    }
    machine_resume(&m->machine);
    watch_slot_clear(&m->watch);
    ensure_path_finish(&m->ensure);
    free(m->data);
}
