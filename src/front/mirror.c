#include "front/mirror.h"

#include "base/log.h"
#include "front/service.h"
#include "state/mirror.h"

#include <assert.h>

int mirror_propose(struct service *s, int64_t previous_zxid, struct slice transaction)
{
    struct state_mirror m;
    struct buf body;
    if (!state_mirror(s->state, &m)) {
        return CONCLAVE_NO_NODE;
    }
    if (s->mirror_backlog >= MIRROR_BACKLOG_MAX || s->standing.own.len >= MIRROR_TURN_MAX) {
        return CONCLAVE_EBUSY;
    }
    const struct mirror_transaction t = {m.id, previous_zxid, transaction};
    buf_init(&body, 0);
    mirror_transaction_encode(&body, &t);
    int rc = buf_ok(&body) ? leadership_propose(s, 0, COMMAND_MIRROR_TRANSACTION, buf_slice(&body))
                           : CONCLAVE_ENOMEM;
    s->mirror_backlog += rc == 0 ? body.len : 0;
    buf_finish(&body);
    return rc;
}

size_t mirror_backlog(const struct service *s)
{
    return s->mirror_backlog;
}

void mirror_applied(struct service *s, size_t bytes)
{
    s->mirror_backlog -= bytes < s->mirror_backlog ? bytes : s->mirror_backlog;
}

void mirror_reset(struct service *s)
{
    s->mirror_backlog = 0;
}

int mirror_replace(struct service *s, struct state *state_take)
{
    struct state_mirror m;
    return state_mirror(s->state, &m)
               ? state_replacement_send(s, state_take, m.id, REPLACEMENT_MIRRORS)
               : CONCLAVE_NO_NODE;
}

bool mirror_replacing(const struct service *s)
{
    return state_replacement_is_sent(s);
}

int mirror_look(struct service *s)
{
    struct state_mirror m;
    bool was = s->mirrored;
    s->mirrored = state_mirror(s->state, &m);
    if (was == s->mirrored || !s->serving) {
        return 0;
    }
    mirror_reset(s);
    if (s->mirrored) {
        log_always("server", "mirror-begins", "source=\"%.*s\"", SLICE_FMT(m.source));
        leadership_drop_clients(s, "this server became a mirror");
        return 0;
    }
    log_always("server", "mirror-ends", "zxid=0x%llx", (unsigned long long)state_zxid(s->state));
    leadership_end_read_only(s, "the mirror ended: this server takes writes now");
    return leadership_full_timeouts(s, service_time_ms(s));
}
