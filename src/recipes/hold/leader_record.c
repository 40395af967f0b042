/*
 * The leader's nodes in <path>.leader, a container next to the election, so that the
 * candidates stay among themselves:
 *   current  ephemeral: the leader that is ready (its acknowledgement)
 *   last     persistent: token of the last leader, and whether it stopped cleanly; a leader that stops
 *            cleanly, closes its handle and leaves no candidate behind deletes it
 * Every write of `current` writes `last` in the same transaction: the version of `last`
 * therefore names the present acknowledgement, and a late deletion can check it to spare the
 * acknowledgement of another leader.
 */
#include "recipes/hold/election.h"

#include "base/buf.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAST_TEXT_MAX = 64 };

/* --- texts ---------------------------------------------------------------------- */

static void record_last_text(const struct conclave_election *e, bool clean, char *text)
{
    (void)snprintf(text, LAST_TEXT_MAX, "token=%" PRId64 "\nclean=%d\n", e->c.czxid, clean ? 1 : 0);
}

/* Moves *at behind the label and the number that have to stand there. */
static bool record_read_number(char **at, const char *label, int base, int64_t *ret)
{
    size_t len = strlen(label);
    if (strncmp(*at, label, len) != 0 || !isxdigit((unsigned char)(*at)[len])) {
        return false;
    }
    errno = 0;
    *ret = (int64_t)strtoull(*at + len, at, base); /* session ids use all 64 bits */
    return errno == 0;
}

static bool record_last_parse(const void *data, size_t len, int64_t *ret_czxid, bool *ret_clean)
{
    char text[LAST_TEXT_MAX];
    char *at = text;
    int64_t clean;
    if (data == NULL || len >= sizeof text) {
        return false;
    }
    memcpy(text, data, len);
    text[len] = '\0';
    if (!record_read_number(&at, "token=", 10, ret_czxid) ||
        !record_read_number(&at, "\nclean=", 10, &clean)) {
        return false;
    }
    *ret_clean = clean == 1;
    return true;
}

/* False without memory: tried again later. */
static bool record_current_text(struct conclave_election *e, struct buf *text)
{
    buf_init(text, 0);
    buf_printf(text, "token=%" PRId64 "\nsession=0x%" PRIx64 "\nnode=%s\n\n", e->c.czxid,
               (uint64_t)e->c.node_session, path_name(e->c.node));
    buf_append(text, e->data, e->data_len);
    if (!buf_ok(text)) {
        buf_finish(text);
        machine_retry_later(&e->c.machine);
        return false;
    }
    return true;
}

bool leader_text_parse(char *text, size_t len, struct leader_text *ret)
{
    static const char node_label[] = "\nnode=";
    char *at = text;
    text[len] = '\0';
    if (!record_read_number(&at, "token=", 10, &ret->czxid) ||
        !record_read_number(&at, "\nsession=0x", 16, &ret->session_id) ||
        strncmp(at, node_label, strlen(node_label)) != 0) {
        return false;
    }
    at += strlen(node_label);
    char *stop = strstr(at, "\n\n");
    if (stop == NULL) {
        return false;
    }
    *stop = '\0';
    ret->node = at;
    ret->candidate = stop + 2;
    ret->candidate_len = len - (size_t)(stop + 2 - text);
    return true;
}

void candidate_split(char *text, size_t len, bool fixed, const char **ret_id, const char **ret_data,
                     size_t *ret_len)
{
    char *newline = memchr(text, '\n', len);
    *ret_id = text;
    if (fixed || newline == NULL) {
        text[len] = '\0';
        *ret_data = fixed ? text : text + len;
        *ret_len = fixed ? len : 0;
        return;
    }
    *newline = '\0';
    *ret_data = newline + 1;
    *ret_len = len - (size_t)(newline + 1 - text);
}

/* --- shared ---------------------------------------------------------------------- */

static void record_ack_submit(struct conclave_election *e, const struct conclave_op *op, step_fn fn)
{
    contender_submit(&e->c, &e->ack_step, op, fn);
}

static void record_read_last(struct conclave_election *e, step_fn fn)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, e->last_path, 0);
    record_ack_submit(e, &op, fn);
}

/* Whether an answer is about the node of now, and this state. */
static bool record_still(const struct conclave_election *e, enum contender_state state)
{
    return contender_is_current(&e->c, &e->ack_step) && e->c.state == state;
}

static bool record_still_leads(const struct conclave_election *e)
{
    return contender_is_current(&e->c, &e->ack_step) && contender_is_granted(&e->c);
}

/* The part of a transaction that made it fail, or count. */
static size_t record_failed_part(const struct conclave_reply *reply)
{
    size_t i = 0;
    while (i < reply->results_count &&
           (reply->results[i]->error == 0 ||
            reply->results[i]->error == CONCLAVE_RUNTIME_INCONSISTENCY)) {
        i++;
    }
    return i;
}

static struct conclave_op record_check_own(const struct conclave_election *e)
{
    return conclave_op_path(CONCLAVE_OP_CHECK, e->c.node, -1);
}

static struct conclave_op record_set_last(const struct conclave_election *e, const char *text)
{
    return conclave_op_set(e->last_path, text, strlen(text), -1);
}

static void record_on_last_created(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = election_of(contender_of_step(step));
    if (reply->error != 0 && reply->error != CONCLAVE_NODE_EXISTS) {
        contender_trouble(&e->c, reply->error);
    }
}

/* `last` lasts: it keeps the container beside it, and its version only grows. */
static void record_create_last(struct conclave_election *e)
{
    struct conclave_op op = contender_create_op(&e->c, e->last_path, "", 0, CONCLAVE_PERSISTENT);
    record_ack_submit(e, &op, record_on_last_created);
}

static void record_on_dir(struct ensure_path *ensure, int error)
{
    struct conclave_election *e = CONTAINER_OF(ensure, struct conclave_election, ack_dir);
    if (error != 0) {
        contender_trouble(&e->c, error);
    } else if (!e->ack_step.busy && recipes_connected(election_rt(e))) {
        record_create_last(e);
    }
}

/* Makes the container and `last` in it. */
static void record_make_last(struct conclave_election *e)
{
    if (ensure_path_start(&e->ack_dir, e->leader_dir, e->c.acl, e->c.acl_count, record_on_dir) !=
        0) {
        machine_retry_later(&e->c.machine);
    }
}

static bool record_ack_busy(const struct conclave_election *e)
{
    return e->ack_step.busy || ensure_path_busy(&e->ack_dir) || e->ack_watch.armed ||
           !machine_can_send(&e->c.machine);
}

/* --- takeover delay ---------------------------------------------------------------- */

static const uint16_t takeover_next[] = {
    [TAKEOVER_UNKNOWN] = TRANSITION_TO(TAKEOVER_UNKNOWN) | TRANSITION_TO(TAKEOVER_DONE) |
                         TRANSITION_TO(TAKEOVER_DELAY) | TRANSITION_TO(TAKEOVER_MARK),
    [TAKEOVER_DELAY] = TRANSITION_TO(TAKEOVER_UNKNOWN) | TRANSITION_TO(TAKEOVER_MARK),
    [TAKEOVER_MARK] = TRANSITION_TO(TAKEOVER_UNKNOWN) | TRANSITION_TO(TAKEOVER_DONE),
    [TAKEOVER_DONE] = TRANSITION_TO(TAKEOVER_UNKNOWN) | TRANSITION_TO(TAKEOVER_DONE),
};

void election_take_over(struct conclave_election *e, enum election_takeover takeover)
{
    transition_check(takeover_next, e->takeover, takeover);
    assert(e->c.state == CONTENDER_FIRST || e->c.state == CONTENDER_PROVING);
    e->takeover = takeover;
}

static void record_on_delay(struct conclave_client *client, void *ctx)
{
    struct conclave_election *e = ctx;
    if (e->c.state == CONTENDER_PROVING && e->takeover == TAKEOVER_DELAY) {
        election_take_over(e, TAKEOVER_MARK);
    }
    contender_run(&e->c);
}

/* No leader has led before, or the last one stopped cleanly. A leader of another library leaves no mark: one that was
 * seen on the fixed name, and did not write `last`, may not have. */
static bool record_last_is_clean(const struct conclave_election *e,
                                 const struct conclave_reply *reply)
{
    int64_t other = election_is_fixed(e) ? e->c.create.other_czxid : 0;
    int64_t czxid = 0;
    bool clean = false;
    if (reply->error == CONCLAVE_NO_NODE || reply->data_len == 0) {
        return other == 0;
    }
    return record_last_parse(reply->data, reply->data_len, &czxid, &clean) &&
           (czxid == e->c.czxid || (clean && czxid >= other));
}

static void record_on_last_read(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = election_of(contender_of_step(step));
    struct conclave_client *client = election_rt(e)->client;
    if (!record_still(e, CONTENDER_PROVING)) {
        /* dropped */
    } else if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        contender_trouble(&e->c, reply->error);
    } else if (record_last_is_clean(e, reply)) {
        election_take_over(e, TAKEOVER_MARK);
    } else {
        election_take_over(e, TAKEOVER_DELAY);
        client_timer_start(client, &e->delay,
                           client_after_ns(client, e->options.takeover_delay_ms));
    }
}

static void record_on_marked(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = election_of(contender_of_step(step));
    if (!record_still(e, CONTENDER_PROVING)) {
        /* dropped */
    } else if (reply->error == 0) {
        election_take_over(e, TAKEOVER_DONE);
        e->marked = true;
        e->last_version = reply->results[1]->stat.version;
    } else if (record_failed_part(reply) == 0 && reply->error == CONCLAVE_NO_NODE) {
        contender_node_gone(&e->c, CONCLAVE_ELOST);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        record_make_last(e);
    } else {
        contender_trouble(&e->c, reply->error);
    }
}

/* Marked before on_elected runs: a leader that dies inside it did not stop cleanly, either. */
void election_takeover_run(struct conclave_election *e)
{
    if (record_ack_busy(e)) {
        return;
    }
    if (e->takeover == TAKEOVER_UNKNOWN) {
        record_read_last(e, record_on_last_read);
    } else if (e->takeover == TAKEOVER_MARK) {
        char text[LAST_TEXT_MAX];
        record_last_text(e, false, text);
        struct conclave_op parts[] = {record_check_own(e), record_set_last(e, text)};
        struct conclave_op op = conclave_op_multi(parts, 2);
        record_ack_submit(e, &op, record_on_marked);
    }
}

/* --- acknowledgement ---------------------------------------------------------------- */

static void record_acknowledged(struct conclave_election *e, int32_t last_version)
{
    e->acked = true;
    e->marked = true;
    e->ack_wanted = false;
    e->ack_unknown = false;
    e->steal = false;
    e->last_version = last_version;
    e->data_dirty = e->data_dirty || e->ack_data_old;
}

/* Certainly no acknowledgement of ours exists. */
static void record_not_acknowledged(struct conclave_election *e)
{
    e->acked = false;
    e->ack_unknown = false;
}

/* Ours, though the answer was lost: which version of `last` came with it? */
static void record_on_own_last(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = election_of(contender_of_step(step));
    int64_t czxid = 0;
    bool clean = false;
    if (e->c.node_session != client_session_id(election_rt(e)->client)) {
        record_not_acknowledged(e);
    } else if (reply->error == 0 &&
               record_last_parse(reply->data, reply->data_len, &czxid, &clean) &&
               czxid == e->c.czxid) {
        record_acknowledged(e, reply->stat.version);
    } else if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        contender_trouble(&e->c, reply->error);
    } else {
        /* somebody else has written it since: `current` is not ours any more */
        record_not_acknowledged(e);
    }
}

static bool record_is_ours(const struct conclave_election *e, const struct conclave_reply *reply)
{
    char text[LAST_TEXT_MAX] = "";
    char *at = text;
    int64_t czxid;
    if (reply->stat.ephemeral_owner != e->c.node_session || reply->data == NULL) {
        return false;
    }
    memcpy(text, reply->data, reply->data_len < sizeof text ? reply->data_len : sizeof text - 1);
    return record_read_number(&at, "token=", 10, &czxid) && czxid == e->c.czxid;
}

static void record_on_current(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = election_of(contender_of_step(step));
    watch_slot_answered(&e->ack_watch, reply->error == 0);
    if (reply->error == 0 && record_is_ours(e, reply)) {
        watch_slot_clear(&e->ack_watch);
        record_read_last(e, record_on_own_last);
        return;
    }
    if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        record_not_acknowledged(e);
    } else {
        contender_trouble(&e->c, reply->error);
    }
    if (reply->error == 0 && e->steal_read) {
        e->steal = true;
    }
    e->steal_read = false;
    if (e->steal || !record_still_leads(e)) {
        watch_slot_clear(&e->ack_watch);
    }
}

static void record_read_current(struct conclave_election *e)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
    op.linearizable = e->ack_unknown; /* the server that we are at now may lag behind that write */
    if (watch_slot_prepare(&e->ack_watch, e->current_path, &op) != 0) {
        e->steal_read = false;
        machine_retry_later(&e->c.machine);
        return;
    }
    record_ack_submit(e, &op, record_on_current);
}

/* Which version of `last` goes with the acknowledgement that is read next: as long as it stays,
 * `current` is what was read, or gone. Its own version would not tell: a new one begins at 0. */
static void record_on_steal_last(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = election_of(contender_of_step(step));
    if (!record_still_leads(e)) {
        /* dropped */
    } else if (reply->error == 0) {
        e->steal_read = true;
        e->steal_version = reply->stat.version;
        record_read_current(e);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        record_make_last(e);
    } else {
        contender_trouble(&e->c, reply->error);
    }
}

/* There is an acknowledgement already: whose? */
static void record_examine_current(struct conclave_election *e)
{
    if (e->options.steal_stale_ack) {
        record_read_last(e, record_on_steal_last);
    } else {
        record_read_current(e);
    }
}

/* The transaction was refused: finds the part that failed, and reacts. */
static void record_ack_refused(struct conclave_election *e, const struct conclave_reply *reply,
                               bool stolen)
{
    size_t part = record_failed_part(reply);
    size_t create_part = stolen ? 2 : 1;
    bool changed = stolen && (part == 1 || reply->error == CONCLAVE_BAD_VERSION);
    if (part >= reply->results_count) {
        contender_trouble(&e->c, reply->error); /* no answer by parts */
    } else if (part == 0 && reply->error == CONCLAVE_NO_NODE) {
        contender_node_gone(&e->c, CONCLAVE_ELOST);
    } else if (changed || !record_still_leads(e)) {
        /* since it was read, or not of interest any more */
    } else if (part == create_part && reply->error == CONCLAVE_NODE_EXISTS) {
        record_examine_current(e);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        record_make_last(e);
    } else {
        contender_trouble(&e->c, reply->error);
    }
}

static void record_on_ack(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = election_of(contender_of_step(step));
    bool stolen = e->steal;
    e->steal = false;
    if (e->c.node_session != client_session_id(election_rt(e)->client)) {
        record_not_acknowledged(e); /* went with its session */
    } else if (reply->error == 0) {
        record_acknowledged(e, reply->results[stolen ? 3 : 2]->stat.version);
    } else if (error_is_unknown(reply->error)) {
        contender_trouble(&e->c, reply->error);
    } else {
        /* The one that exists may be our own, of an earlier try whose answer was lost. */
        e->ack_unknown = reply->error == CONCLAVE_NODE_EXISTS;
        record_ack_refused(e, reply, stolen);
    }
}

void election_ack_run(struct conclave_election *e)
{
    char last[LAST_TEXT_MAX];
    struct buf current;
    struct conclave_op parts[4];
    size_t count = 0;
    if (record_ack_busy(e) || !record_current_text(e, &current)) {
        return;
    }
    record_last_text(e, false, last);
    parts[count++] = record_check_own(e);
    if (e->steal) {
        parts[count++] = conclave_op_path(CONCLAVE_OP_DELETE, e->current_path, -1);
    }
    parts[count++] =
        contender_create_op(&e->c, e->current_path, current.data, current.len, CONCLAVE_EPHEMERAL);
    parts[count] = record_set_last(e, last);
    parts[count++].version = e->steal ? e->steal_version : -1;
    struct conclave_op op = conclave_op_multi(parts, count);
    if (!e->ack_unknown) {
        e->ack_data_old = false; /* else an earlier one may exist, with old data */
    }
    e->ack_unknown = true;
    record_ack_submit(e, &op, record_on_ack);
    buf_finish(&current);
}

/* --- data -------------------------------------------------------------------------- */

static void record_on_data_set(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = CONTAINER_OF(step, struct conclave_election, data_step);
    bool current = contender_is_current(&e->c, step) && e->c.node != NULL;
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE && current) {
        e->data_dirty = true;
        contender_trouble(&e->c, reply->error);
    }
}

/* While our node exists, our acknowledgement stays ours. */
void election_data_run(struct conclave_election *e)
{
    struct conclave_op parts[2];
    struct buf current;
    if (!e->data_dirty || e->data_step.busy || machine_pauses(&e->c.machine) ||
        !record_current_text(e, &current)) {
        return;
    }
    parts[0] = conclave_op_set(e->c.node, e->data, e->data_len, -1);
    parts[1] = conclave_op_set(e->current_path, current.data, current.len, -1);
    struct conclave_op op = conclave_op_multi(parts, e->acked ? 2 : 1);
    e->data_dirty = false;
    contender_submit(&e->c, &e->data_step, &op, record_on_data_set);
    buf_finish(&current);
}

/* --- leaving ---------------------------------------------------------------------- */

static void record_left(struct conclave_election *e)
{
    e->acked = false;
    e->ack_unknown = false;
    e->marked = false;
    e->ack_wanted = false;
    e->tidy = TIDY_NONE;
    if (election_is_fixed(e) && e->c.node != NULL) {
        /* Else it wins the race again before the others have heard of the end. */
        e->c.not_before_ns = client_after_ns(election_rt(e)->client, e->options.backoff_min_ms);
    }
    contender_node_gone(&e->c, CONCLAVE_ECANCELED);
    contender_enter(&e->c, CONTENDER_OUT);
}

/* One part fewer: a node that is gone needs no deletion. */
static void record_leave_without(struct conclave_election *e, const struct conclave_op *part)
{
    if (part->path == e->c.node) {
        contender_node_gone(&e->c, CONCLAVE_ELOST);
    } else if (part->path == e->current_path) {
        e->acked = false;
    } else {
        e->acked = false; /* `last` has moved on: so has `current` */
        e->marked = false;
    }
}

/* The deletions, in one transaction: `current` is ours as long as our node exists, or as long
 * as `last` is as we wrote it. */
static size_t record_leave_parts(struct conclave_election *e, const char *text,
                                 struct conclave_op *parts)
{
    size_t count = 0;
    if (e->c.node != NULL) {
        parts[count++] = conclave_op_path(CONCLAVE_OP_DELETE, e->c.node, -1);
    }
    if (e->marked && e->stopped_clean && e->c.node != NULL) {
        parts[count++] = record_set_last(e, text);
        parts[count - 1].version = e->last_version;
    } else if (e->acked) {
        parts[count++] = conclave_op_path(CONCLAVE_OP_CHECK, e->last_path, e->last_version);
    }
    if (e->acked) {
        parts[count++] = conclave_op_path(CONCLAVE_OP_DELETE, e->current_path, -1);
    }
    return count;
}

static void record_on_tidied(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = election_of(contender_of_step(step));
    bool alone = e->tidy == TIDY_LIST && reply->error == 0 && reply->children_count == 0;
    if (alone && e->c.state == CONTENDER_LEAVING) {
        e->tidy = TIDY_DELETE;
    } else if (e->c.state == CONTENDER_LEAVING) {
        record_left(e);
    }
}

/* A candidate that comes in between finds `last` gone and creates it, or has written it, and the deletion fails. */
static void record_tidy_run(struct conclave_election *e)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, e->c.path, -1);
    if (e->tidy == TIDY_DELETE) {
        op = conclave_op_path(CONCLAVE_OP_DELETE, e->last_path, e->last_version);
    }
    record_ack_submit(e, &op, record_on_tidied);
}

/* The node has been deleted. results: of record_leave_parts. */
static void record_on_node_deleted(struct conclave_election *e, const struct conclave_reply *reply)
{
    bool wrote_last = e->marked && e->stopped_clean && e->c.node != NULL;
    /* Candidates on a fixed name cannot be counted, and learn from `last` that the end was clean. */
    if (!wrote_last || !e->c.closing.ending || reply->results_count < 2 || election_is_fixed(e)) {
        record_left(e);
        return;
    }
    e->last_version = reply->results[1]->stat.version;
    e->tidy = TIDY_LIST;
    e->acked = false;
    contender_node_gone(&e->c, CONCLAVE_ECANCELED);
}

static void record_on_left(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = election_of(contender_of_step(step));
    char text[LAST_TEXT_MAX];
    struct conclave_op parts[3];
    size_t part = record_failed_part(reply);
    if (!record_still(e, CONTENDER_LEAVING)) {
        return;
    }
    record_last_text(e, true, text);
    size_t count =
        record_leave_parts(e, text, parts); /* as they were sent: nothing has changed them */
    bool gone = reply->error == CONCLAVE_NO_NODE || reply->error == CONCLAVE_BAD_VERSION;
    if (reply->error == 0) {
        record_on_node_deleted(e, reply);
    } else if (gone && part < count) {
        record_leave_without(e, &parts[part]);
    } else if (error_is_unknown(reply->error)) {
        contender_trouble(&e->c, reply->error);
    } else if (e->c.node != NULL && e->acked) {
        e->acked = false; /* refused: the node at least, `current` goes with the session */
        e->marked = false;
    } else {
        /* Not permitted, say: goes with the session at the latest. */
        if (e->c.node != NULL && !election_is_fixed(e) &&
            deletes_add(&election_rt(e)->deletes, e->c.node, NULL, NULL) != 0) {
            machine_retry_later(&e->c.machine);
        } else {
            record_left(e);
        }
    }
}

static void record_on_looked(struct step *step, const struct conclave_reply *reply)
{
    struct conclave_election *e = election_of(contender_of_step(step));
    if (!record_still(e, CONTENDER_LEAVING)) {
        /* dropped */
    } else if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        contender_trouble(&e->c, reply->error);
    } else if (reply->error == 0 && reply->stat.ephemeral_owner == e->c.node_session &&
               reply->stat.czxid == e->c.czxid) {
        e->looked = true;
    } else {
        contender_node_gone(&e->c, CONCLAVE_ELOST);
    }
}

/* A node of a fixed name is deleted only after a look: a deletion whose answer was lost may have made way for
 * another's. */
static bool record_must_look(struct conclave_election *e)
{
    if (!election_is_fixed(e) || e->c.node == NULL || e->looked) {
        e->looked = false;
        return false;
    }
    e->ack_step.generation = e->c.generation;
    step_ask_latest(&e->ack_step, CONCLAVE_OP_EXISTS, e->c.node, record_on_looked);
    return true;
}

void election_leave(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    char text[LAST_TEXT_MAX];
    struct conclave_op parts[3];
    if (e->ack_step.busy || ensure_path_busy(&e->ack_dir)) {
        return; /* an acknowledgement on its way: its outcome decides what has to go */
    }
    watch_slot_clear(&e->ack_watch);
    client_timer_stop(election_rt(e)->client, &e->delay);
    if (e->c.node == NULL && !e->acked && !e->ack_unknown) {
        if (e->tidy != TIDY_NONE && recipes_connected(election_rt(e))) {
            record_tidy_run(e);
        } else {
            record_left(e);
        }
        return;
    }
    if (!machine_can_send(&c->machine)) {
        return;
    }
    if (e->ack_unknown) {
        record_read_current(e);
        return;
    }
    if (record_must_look(e)) {
        return;
    }
    record_last_text(e, true, text);
    struct conclave_op op = conclave_op_multi(parts, record_leave_parts(e, text, parts));
    record_ack_submit(e, &op, record_on_left);
}

void election_ack_init(struct conclave_election *e)
{
    struct machine *machine = &e->c.machine;
    machine_step_init(machine, &e->ack_step);
    machine_step_init(machine, &e->data_step);
    machine_watch_init(machine, &e->ack_watch);
    machine_ensure_init(machine, &e->ack_dir);
    client_timer_init(&e->delay, record_on_delay, e);
}
