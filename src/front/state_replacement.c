#include "front/state_replacement.h"

#include "base/log.h"
#include "base/random.h"

#include <assert.h>

enum { ENTRY_MAX = 400 << 20 }; /* less than the largest log entry */

int state_replacement_submit(struct service *s, struct slice snapshot, int64_t *ret_id)
{
    struct state *trial = NULL;
    struct buf entry;
    if (snapshot.len > ENTRY_MAX) {
        return CONCLAVE_ETOOBIG;
    }
    int rc = state_restore(snapshot, &s->key, &trial);
    if (rc != 0) {
        return rc;
    }
    state_destroy(trial);
    int64_t id = (int64_t)random_below(INT64_MAX) + 1;
    buf_init(&entry, 0);
    replacement_begin(&entry, s->server_id, id);
    buf_append_slice(&entry, snapshot);
    rc = buf_ok(&entry) ? s->pipeline.sink.submit(s->pipeline.sink.ctx, &entry) : CONCLAVE_ENOMEM;
    buf_finish(&entry);
    if (rc == 0) {
        *ret_id = id;
    }
    return rc;
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

int state_replacement_begin(struct service *s, struct slice entry)
{
    struct replacement r;
    struct state *state = NULL;
    int rc = replacement_open(entry, &r);
    if (rc == 0) {
        rc = state_restore(r.snapshot, &s->key, &state);
    }
    if (rc != 0) {
        return rc;
    }
    state_succeed(state, s->state);
    s->stats.applied++;
    if (s->serving) {
        if (r.origin == s->server_id) {
            s->replaced_by = r.id;
        }
        log_warn_advice(
            "server", "state-replaced",
            "nothing to do: the clients connect again; when it repeats, check the disk and the network of this server",
            "zxid=0x%llx cut=%zu", (unsigned long long)state_zxid(state),
            map_count(&s->by_session));
    }
    return state_replacement_adopt(s, state);
}
