#include "server/replacement.h"

#include "base/log.h"
#include "base/random.h"

#include <stdlib.h>

enum { ENTRY_MAX = 400 << 20 }; /* below what the log takes as one entry */

int replacement_submit(struct service *s, struct slice snapshot, int64_t *ret_id)
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
    (void)due_ms;
    addresses_end_session(&s->addresses, id);
    return true;
}

/* Nobody who is connected has a session any more. */
static int service_cut_all(struct service *s)
{
    size_t count = map_count(&s->by_session);
    struct connection **all = calloc(count + 1, sizeof *all);
    size_t n = 0;
    if (all == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (struct map_node *node = map_next(&s->by_session, NULL); node != NULL;
         node = map_next(&s->by_session, node)) {
        all[n++] = CONTAINER_OF(node, struct connection, by_id);
    }
    for (size_t i = 0; i < n; i++) {
        service_detach(s, all[i]);
        connection_end(all[i]);
    }
    free(all);
    return 0;
}

int service_adopt(struct service *s, struct state *state_take)
{
    state_destroy(s->state);
    s->state = state_take;
    s->generation++;
    if (!s->serving) {
        return 0;
    }
    session_tracker_each(s->sessions, end_session, s);
    session_tracker_destroy(s->sessions);
    s->sessions = session_tracker_create(s->limits.tick_ms);
    int rc = s->sessions != NULL ? service_cut_all(s) : CONCLAVE_ENOMEM;
    return rc == 0 ? service_begin(s) : rc;
}

int service_replace(struct service *s, struct slice entry)
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
        log_warn("server", "state-replaced", "zxid=0x%llx cut=%zu",
                 (unsigned long long)state_zxid(state), map_count(&s->by_session));
    }
    return service_adopt(s, state);
}
