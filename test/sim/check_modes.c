#include "sim/check_modes.h"

#include "sim/peek.h"
#include "sim/sim.h"

#include <inttypes.h>
#include <stdio.h>

void check_modes_answered(struct sim *s, const struct client *c, const struct deed *d)
{
    bool changes = deed_is_write(d) || d->kind == DEED_SYNC;
    if (client_may_only_read(c) && changes && d->error == 0) {
        world_violation(&s->world,
                        "client %u, which may only read, is answered that deed %" PRIu64
                        " has succeeded",
                        c->id, d->id);
    }
    if (d->kind == DEED_EPHEMERAL && d->error == CONCLAVE_EPHEMERAL_ON_LOCAL_SESSION &&
        (!s->local || s->upgrading)) {
        world_violation(&s->world, "client %u is refused %s%s", c->id, d->path,
                        s->local ? ", though its session may be upgraded"
                                 : ", though no session is local");
    }
}

static void look_at_child(void *ctx, struct machine *m, const char *name)
{
    struct sim *s = ctx;
    char path[64];
    snprintf(path, sizeof path, "/e/%s", name);
    int64_t owner = peek_owner(m, path);
    if (!peek_session(m, owner)) {
        world_violation(&s->world,
                        "server %u has %s of session 0x%" PRIx64 ", which it does not know", m->id,
                        path, (uint64_t)owner);
    }
}

void check_modes_end(struct sim *s)
{
    for (unsigned id = 1; id <= s->n_machines; id++) {
        peek_children(&s->machines[id], "/e", look_at_child, s);
    }
}
