#include "front/fence_requests.h"

#include "base/log.h"
#include "front/service.h"

#include <stdio.h>

static void say_what_hinders(struct service *s, enum state_fence fence)
{
    if (s->fencing.told) {
        return;
    }
    s->fencing.told = true;
    if (fence == STATE_FENCE_FOREIGN) {
        log_error_advice("server", "fencing-hindered", "remove the node /zookeeper/fence",
                         "path=/zookeeper/fence reason=\"a client created this node: remove it\"");
    } else {
        log_warn_advice(
            "server", "fencing-bindings",
            "set fencing.enabled=yes, or remove the bindings by conclave fence",
            "count=%zu reason=\"fencing.enabled is no, but existing bindings stay in force until they are "
            "removed\"",
            state_fence_bindings(s->state));
    }
}

void fence_requests_tick(struct service *s, int64_t now_ms)
{
    bool on = (s->command_options & COMMAND_FENCING) != 0;
    enum state_fence fence = state_fence(s->state);
    if ((on && fence == STATE_FENCE_FOREIGN) ||
        (!on && fence == STATE_FENCE_OPEN && state_fence_bindings(s->state) > 0)) {
        say_what_hinders(s, fence);
    }
    if (!on || fence != STATE_FENCE_ABSENT || now_ms < s->fencing.open_at) {
        return;
    }
    s->fencing.open_at = now_ms + s->limits.tick_ms; /* the log may be slow, or lose the command */
    int rc = leadership_propose(s, 0, COMMAND_FENCE_OPEN, slice_str(""));
    if (rc != 0) {
        log_warn_advice(
            "server", "fencing-delayed",
            "nothing to do: the server tries again; when it repeats, check the leader and the disk",
            "error=%s", conclave_errname(rc));
    }
}

void fence_requests_note(struct service *s, int64_t session_id, const struct state_fenced *fenced)
{
    s->metrics->conclave_fenced_writes_refused_total++;
    char who[LOG_WHO_MAX];
    snprintf(who, sizeof who, "%.*s", SLICE_FMT(fenced->prefix));
    log_cause(LOG_WARN, "server", "write-fenced", who, NULL,
              "let the client end its old holder: another one holds the lock of this prefix",
              "session=0x%llx prefix=%.*s reason=%s", (unsigned long long)session_id,
              SLICE_FMT(fenced->prefix), fenced->delayed ? "delay" : "not-the-holder");
}

void confirmation_ask(struct service *s, struct confirmation *c, void (*fn)(void *ctx), void *ctx)
{
    struct leadership *st = &s->standing;
    *c = (struct confirmation){.fn = fn, .ctx = ctx};
    list_init(&c->link);
    if (st->sole) {
        fn(ctx);
        return;
    }
    st->group_used = true;
    c->group = st->group;
    list_push_back(&st->waiting, &c->link);
}
