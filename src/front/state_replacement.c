#include "front/state_replacement.h"

#include "base/log.h"
#include "front/service.h"
#include "state/mirror.h"

#include <assert.h>

void state_replacement_init(struct state_replacement *r)
{
    *r = (struct state_replacement){0};
    replacement_pieces_init(&r->pieces);
    buf_init(&r->rest, 0);
}

void state_replacement_finish(struct state_replacement *r)
{
    replacement_pieces_finish(&r->pieces);
    state_destroy(r->sending);
    buf_finish(&r->rest);
    r->sending = NULL;
}

bool state_replacement_is_sent(const struct service *s)
{
    return s->replacement.id != 0;
}

/* All was proposed and applied, or the rest will not be. */
static void stop_sending(struct state_replacement *r)
{
    state_destroy(r->sending);
    buf_finish(&r->rest);
    r->sending = NULL;
    r->id = 0;
}

int state_replacement_send(struct service *s, struct state *state_take, int64_t id, uint8_t flags)
{
    struct state_replacement *r = &s->replacement;
    assert(id != 0);
    if (r->id != 0) {
        return CONCLAVE_EBUSY;
    }
    int rc = state_snapshot_begin(state_take);
    if (rc != 0) {
        return rc;
    }
    r->sending = state_take;
    r->id = id;
    r->flags = flags;
    r->next = r->in_flight = 0;
    r->written = false;
    buf_init(&r->rest, 0);
    return 0;
}

/* Fills `rest` up to one piece. */
static int fill_rest(struct state_replacement *r)
{
    while (!r->written && r->rest.len < REPLACEMENT_PIECE_BYTES) {
        int more = state_snapshot_step(r->sending, REPLACEMENT_PIECE_BYTES, &r->rest);
        if (more < 0 || !buf_ok(&r->rest)) {
            return more < 0 ? more : CONCLAVE_ENOMEM;
        }
        r->written = more == 0;
    }
    return 0;
}

static int propose_piece(struct service *s, const struct replacement *piece)
{
    struct buf entry;
    buf_init(&entry, 0);
    replacement_begin(&entry, piece);
    buf_append_slice(&entry, piece->bytes);
    int rc =
        buf_ok(&entry) ? s->pipeline.sink.submit(s->pipeline.sink.ctx, &entry) : CONCLAVE_ENOMEM;
    buf_finish(&entry);
    return rc;
}

/* Tells all to forget pieces whose sender will not go on: it no longer leads, or has died. */
static void give_up_pieces(struct service *s)
{
    struct state_replacement *r = &s->replacement;
    const struct replacement_pieces *p = &r->pieces;
    if (p->id == 0 || !s->standing.leads || !s->serving) {
        r->given_up = 0; /* the proposal is applied, or may be lost with the lead */
        return;
    }
    if (p->id == r->id || p->id == r->given_up) {
        return;
    }
    const struct replacement piece = {
        .origin = p->origin, .id = p->id, .number = p->next, .flags = REPLACEMENT_GIVEN_UP};
    if (propose_piece(s, &piece) == 0) {
        r->given_up = p->id;
    }
}

void state_replacement_turn(struct service *s)
{
    struct state_replacement *r = &s->replacement;
    give_up_pieces(s);
    if (r->id != 0 && !s->standing.leads) {
        stop_sending(r); /* the next leader tells all to forget it */
    }
    while (r->id != 0 && r->in_flight < REPLACEMENT_IN_FLIGHT &&
           !(r->written && r->rest.len == 0)) {
        int rc = fill_rest(r);
        if (rc != 0) {
            stop_sending(r);
            return;
        }
        size_t len = r->rest.len < REPLACEMENT_PIECE_BYTES ? r->rest.len : REPLACEMENT_PIECE_BYTES;
        bool last = r->written && len == r->rest.len;
        const struct replacement piece = {
            .origin = s->server_id,
            .id = r->id,
            .number = r->next,
            .flags = (uint8_t)(r->flags | (last ? REPLACEMENT_LAST : 0)),
            .bytes = slice_make(r->rest.data, len),
        };
        if (propose_piece(s, &piece) != 0) {
            stop_sending(r);
            return;
        }
        r->next++;
        r->in_flight++;
        buf_consume(&r->rest, len);
    }
}

static bool end_session(void *ctx, int64_t id, int64_t due_ms)
{
    struct service *s = ctx;
    client_addresses_end_session(&s->addresses, id);
    return true;
}

/* Disconnects all clients, because their sessions are gone. */
static void cut_all(struct service *s)
{
    struct map_node *node;
    while ((node = map_next(&s->by_session, NULL)) != NULL) {
        struct connection *c = CONTAINER_OF(node, struct connection, by_id);
        assert(c->mapped && c->session_id != 0);
        service_detach(s, c); /* also removes it from the map */
        connection_end(c);
    }
}

int state_replacement_adopt(struct service *s, struct state *state_take)
{
    replacement_pieces_forget(&s->replacement.pieces); /* of the log before this state */
    state_destroy(s->state);
    s->state = state_take;
    s->generation++;
    if (!s->serving) {
        return 0;
    }
    session_tracker_each(s->sessions, end_session, s);
    session_tracker_destroy(s->sessions);
    s->sessions = service_make_tracker(s);
    if (s->sessions == NULL) {
        return CONCLAVE_ENOMEM;
    }
    cut_all(s);
    if (!s->standing.leads) {
        s->standing.contact_at = CONTACT_NEVER; /* a new life: see session_reports.h */
    }
    return service_begin(s);
}

/* The state that the complete snapshot describes, ready to replace the present one. CONCLAVE_NO_NODE: it is of a mirror that has
 * ended. */
static int load_successor(struct service *s, const struct replacement *piece, struct slice snapshot,
                          struct state **ret)
{
    struct state *state = NULL;
    int rc = state_restore(snapshot, &s->key, &state);
    if (rc != 0) {
        return rc;
    }
    if ((piece->flags & REPLACEMENT_MIRRORS) != 0) {
        rc = state_mirror_succeed(state, s->state, piece->id);
    } else if (s->mirrored) {
        rc = CONCLAVE_NO_NODE; /* a mirror changes with its source only */
    } else {
        state_succeed(state, s->state);
    }
    if (rc != 0) {
        state_destroy(state);
        return rc;
    }
    *ret = state;
    return 0;
}

/* A piece of this server's was applied. */
static void count_own_piece(struct service *s, const struct replacement *piece)
{
    struct state_replacement *r = &s->replacement;
    if (piece->origin == s->server_id && piece->id == r->id && r->in_flight > 0) {
        r->in_flight--;
        if ((piece->flags & REPLACEMENT_LAST) != 0) {
            stop_sending(r);
        }
    }
}

int state_replacement_begin(struct service *s, struct slice entry)
{
    struct replacement piece;
    struct slice snapshot = SLICE_NULL;
    struct state *state = NULL;
    int rc = replacement_open(entry, &piece);
    if (rc == 0) {
        rc = replacement_pieces_take(&s->replacement.pieces, &piece, &snapshot);
    }
    if (rc < 0 || (rc == 0 && !replacement_is(entry))) {
        return rc;
    }
    s->stats.applied++;
    count_own_piece(s, &piece);
    if (rc == 0) {
        return 0;
    }
    rc = load_successor(s, &piece, snapshot, &state);
    replacement_pieces_forget(&s->replacement.pieces);
    if (rc != 0) {
        return rc == CONCLAVE_NO_NODE ? 0 : rc;
    }
    if (s->serving) {
        if (piece.origin == s->server_id) {
            s->replaced_by = piece.id;
        }
        log_warn_advice(
            "server", "state-replaced",
            "nothing to do: the clients connect again; when it repeats, check the disk and the network of this server",
            "zxid=0x%llx cut=%zu", (unsigned long long)state_zxid(state),
            map_count(&s->by_session));
    }
    return state_replacement_adopt(s, state);
}
