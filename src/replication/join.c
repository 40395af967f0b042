/* Both sides of joining: the silent server, and the leader that admits it. */
#include "replication/join.h"

#include "base/map.h"
#include "base/transition.h"
#include "replication/running_log.h"

#include <inttypes.h>
#include <stdlib.h>

static const uint16_t JOIN_NEXT[] = {
    [JOIN_VOTING] = 0,
    [JOIN_SILENT] = TRANSITION_TO(JOIN_CATCHING_UP),
    [JOIN_CATCHING_UP] = TRANSITION_TO(JOIN_WRITING),
    [JOIN_WRITING] = TRANSITION_TO(JOIN_VOTING),
};

static void join_enter(struct join *j, enum join_state state)
{
    transition_check(JOIN_NEXT, j->state, state);
    j->state = state;
}

bool join_votes(const struct replication *r)
{
    return r->join.state == JOIN_VOTING;
}

void join_init(struct replication *r, bool joins)
{
    struct join *j = &r->join;
    j->state = joins ? JOIN_SILENT : JOIN_VOTING;
    j->number = hash_u64(hash_u64((uint64_t)running_log_now_ms(r)) ^ r->options.seed) | 1;
    engine_set_voting(r->engine, join_votes(r));
}

void join_finish(struct replication *r)
{
    free(r->join.asks);
}

/* On the silent server. */

bool join_silences(struct replication *r, uint64_t from, const struct log_message *m)
{
    if (r->join.state != JOIN_SILENT || m->kind == MESSAGE_JOIN_OK) {
        return false;
    }
    if (m->kind == MESSAGE_OFFER ||
        (m->kind == MESSAGE_ENGINE && m->engine.kind == ENGINE_APPEND)) {
        send_queue_note(r, from, MESSAGE_JOIN,
                        (struct log_message_note){r->join.number, engine_term(r->engine), 0});
    }
    return true;
}

void join_written(struct replication *r)
{
    if (join_votes(r)) {
        return; /* a vote followed on the way to the disk, and says the same */
    }
    join_enter(&r->join, JOIN_VOTING);
    engine_set_voting(r->engine, true);
    running_log_note(r, false, "joined", "last_index=%" PRIu64, running_log_last_index(r));
}

/* On the leader. */

static struct join_ask *find_ask(struct join *j, uint64_t from)
{
    for (size_t i = 0; i < j->n_asks; i++) {
        if (j->asks[i].from == from) {
            return &j->asks[i];
        }
    }
    if (!array_room(&j->asks, j->n_asks, &j->cap_asks, sizeof *j->asks)) {
        return NULL;
    }
    j->asks[j->n_asks] = (struct join_ask){.from = from};
    return &j->asks[j->n_asks++];
}

static void asked(struct replication *r, uint64_t from, uint64_t number)
{
    struct join *j = &r->join;
    struct buf nothing;
    if (replication_leader(r) != (uint64_t)r->options.server_id || number == 0) {
        return;
    }
    if (j->term != engine_term(r->engine)) {
        j->term = engine_term(r->engine);
        j->n_asks = 0;
    }
    struct join_ask *ask = find_ask(j, from);
    if (ask == NULL) {
        return; /* it will ask again */
    }
    if (ask->number != number) {
        buf_init(&nothing, 0);
        if (running_log_propose(r, ENTRY_BARRIER, &nothing) != 0) {
            return;
        }
        ask->number = number;
        ask->index = running_log_last_index(r);
    }
    if (ask->index <= engine_commit_index(r->engine)) {
        send_queue_note(r, from, MESSAGE_JOIN_OK,
                        (struct log_message_note){number, j->term, ask->index});
    }
}

void join_receive(struct replication *r, uint64_t from, const struct log_message *m)
{
    struct join *j = &r->join;
    if (m->kind == MESSAGE_JOIN) {
        asked(r, from, m->note.id);
    } else if (j->state == JOIN_SILENT && m->note.id == j->number && m->note.index > 0) {
        join_enter(j, JOIN_CATCHING_UP);
        j->index = m->note.index;
        running_log_note(r, false, "joining", "server=%" PRIu64 " index=%" PRIu64, from, j->index);
    }
}

void join_turn(struct replication *r)
{
    struct join *j = &r->join;
    if (j->state == JOIN_CATCHING_UP && engine_stored(r->engine) >= j->index) {
        join_enter(j, JOIN_WRITING);
        append_vote(r);
    }
}
