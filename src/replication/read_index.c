/* Rounds of the leader, and requests of the others. Numbers begin at a random value in each run of the process, so that
 * an answer to an earlier run is not taken for one to this run. */
#include "replication/read_index.h"

#include "base/map.h"
#include "replication/running_log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void read_index_init(struct replication *r)
{
    struct read_index *x = &r->read_index;
    uint64_t start =
        hash_u64(r->options.seed ^ hash_u64((uint64_t)running_log_now_ms(r))) >> 33 << 32;
    x->issued = x->resolved = x->confirmed = x->round = start;
}

void read_index_finish(struct replication *r)
{
    free(r->read_index.answered);
    free(r->read_index.asks);
}

uint64_t replication_read_index(struct replication *r)
{
    return ++r->read_index.issued;
}

static int64_t retry_ms(const struct replication *r)
{
    return r->options.heartbeat_ms;
}

/* Tickets up to this one are confirmed when index is applied. */
static void resolve(struct replication *r, uint64_t ticket, uint64_t index)
{
    struct read_index *x = &r->read_index;
    if (ticket <= x->resolved) {
        return;
    }
    assert(ticket <= x->issued && x->n_waits <= READ_WAITS_MAX);
    x->resolved = ticket;
    /* The table is full: the last two waits become one with the higher index. */
    if (x->n_waits == READ_WAITS_MAX) {
        struct read_wait *last = &x->waits[x->n_waits - 1];
        last->ticket = ticket;
        last->index = index > last->index ? index : last->index;
        return;
    }
    x->waits[x->n_waits++] = (struct read_wait){ticket, index};
}

static void confirm(struct replication *r)
{
    struct read_index *x = &r->read_index;
    uint64_t confirmed = x->confirmed;
    unsigned n = 0;
    while (n < x->n_waits && x->waits[n].index <= r->applied) {
        confirmed = x->waits[n++].ticket;
    }
    x->n_waits -= n;
    memmove(x->waits, x->waits + n, x->n_waits * sizeof *x->waits);
    if (confirmed > x->confirmed) {
        assert(confirmed <= x->resolved);
        x->confirmed = confirmed;
        r->callbacks.confirmed(r->callbacks.ctx, confirmed);
    }
}

/* On the leader. */

static bool has_answered(const struct read_index *x, uint64_t id)
{
    for (size_t i = 0; i < x->n_answered; i++) {
        if (x->answered[i] == id) {
            return true;
        }
    }
    return false;
}

static void ask_voters(struct replication *r)
{
    struct read_index *x = &r->read_index;
    x->round_ms = running_log_now_ms(r);
    for (size_t i = 0; i < r->n_voters; i++) {
        if (!has_answered(x, r->voters[i]) && r->voters[i] != (uint64_t)r->options.server_id) {
            send_queue_note(r, r->voters[i], MESSAGE_ROUND,
                            (struct log_message_note){x->round, x->round_term, 0});
        }
    }
}

/* Ends the round when a majority has answered. */
static void count_answers(struct replication *r)
{
    struct read_index *x = &r->read_index;
    size_t yes = 0;
    for (size_t i = 0; i < r->n_voters; i++) {
        yes += r->voters[i] == (uint64_t)r->options.server_id || has_answered(x, r->voters[i]);
    }
    if (yes <= r->n_voters / 2) {
        return;
    }
    x->running = false;
    resolve(r, x->round_ticket, x->round_index);
    for (size_t i = 0; i < x->n_asks; i++) {
        if (x->asks[i].in_round != 0) {
            send_queue_note(
                r, x->asks[i].from, MESSAGE_READ_OK,
                (struct log_message_note){x->asks[i].in_round, x->round_term, x->round_index});
        }
    }
}

/* Begins a round for all requests so far, if there are any. */
static void begin_round(struct replication *r)
{
    struct read_index *x = &r->read_index;
    bool wanted = x->issued > x->resolved;
    size_t kept = 0;
    for (size_t i = 0; i < x->n_asks; i++) {
        struct read_ask ask = {x->asks[i].from, x->asks[i].next, 0};
        if (ask.in_round != 0) {
            x->asks[kept++] = ask;
        }
    }
    x->n_asks = kept;
    if (!wanted && kept == 0) {
        return;
    }
    x->round++;
    x->running = true;
    x->round_term = engine_term(r->engine);
    x->round_index = engine_commit_index(r->engine);
    x->round_ticket = x->issued;
    x->n_answered = 0;
    ask_voters(r);
    count_answers(r);
}

static void read_index_lead(struct replication *r)
{
    struct read_index *x = &r->read_index;
    if (x->running && x->round_term != engine_term(r->engine)) {
        x->running = false;
    }
    if (!x->running) {
        begin_round(r);
    } else if (running_log_now_ms(r) >= x->round_ms + retry_ms(r)) {
        ask_voters(r);
    }
}

static void note_ask(struct replication *r, uint64_t from, uint64_t id)
{
    struct read_index *x = &r->read_index;
    for (size_t i = 0; i < x->n_asks; i++) {
        if (x->asks[i].from == from) {
            x->asks[i].next = id;
            return;
        }
    }
    if (!array_room(&x->asks, x->n_asks, &x->cap_asks, sizeof *x->asks)) {
        return; /* it will ask again */
    }
    x->asks[x->n_asks++] = (struct read_ask){.from = from, .next = id};
}

static void note_answer(struct replication *r, uint64_t from, const struct log_message_note *note)
{
    struct read_index *x = &r->read_index;
    if (!x->running || note->id != x->round || note->term != x->round_term ||
        !engine_is_leader(r->engine) || engine_term(r->engine) != x->round_term ||
        has_answered(x, from)) {
        return;
    }
    if (!array_room(&x->answered, x->n_answered, &x->cap_answered, sizeof *x->answered)) {
        return; /* it will be asked again */
    }
    x->answered[x->n_answered++] = from;
    count_answers(r);
}

/* On the other members. */

static void follow(struct replication *r, uint64_t leader)
{
    struct read_index *x = &r->read_index;
    int64_t now = running_log_now_ms(r);
    bool waiting = x->asked > x->resolved;
    x->running = false;
    x->n_asks = 0;
    if (x->issued == x->resolved || leader == 0 ||
        (waiting && x->asked_whom == leader && now < x->asked_ms + retry_ms(r))) {
        return;
    }
    x->asked = x->issued;
    x->asked_whom = leader;
    x->asked_ms = now;
    send_queue_note(r, leader, MESSAGE_READ,
                    (struct log_message_note){x->asked, engine_term(r->engine), 0});
}

void read_index_turn(struct replication *r)
{
    uint64_t leader = replication_leader(r);
    if (leader == (uint64_t)r->options.server_id) {
        read_index_lead(r);
    } else {
        follow(r, leader);
    }
    confirm(r);
}

int64_t read_index_deadline(const struct replication *r)
{
    const struct read_index *x = &r->read_index;
    uint64_t leader = replication_leader(r);
    if (leader == (uint64_t)r->options.server_id) {
        return x->running ? x->round_ms + retry_ms(r) : INT64_MAX;
    }
    return leader != 0 && x->asked > x->resolved ? x->asked_ms + retry_ms(r) : INT64_MAX;
}

void read_index_receive(struct replication *r, uint64_t from, const struct log_message *m)
{
    switch (m->kind) {
    case MESSAGE_ROUND:
        /* A server that may have forgotten its promises proves nothing. */
        if (m->note.term == engine_term(r->engine) && join_votes(r)) {
            send_queue_note(r, from, MESSAGE_ROUND_OK, m->note);
        }
        break;
    case MESSAGE_ROUND_OK:
        note_answer(r, from, &m->note);
        break;
    case MESSAGE_READ:
        if (replication_leader(r) == (uint64_t)r->options.server_id && m->note.id != 0) {
            note_ask(r, from, m->note.id);
        }
        break;
    case MESSAGE_READ_OK:
        if (m->note.id <= r->read_index.asked) {
            resolve(r, m->note.id, m->note.index);
        }
        break;
    default:
        break;
    }
}
