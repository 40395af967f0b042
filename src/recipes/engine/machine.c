#include "recipes/engine/machine.h"

#include <assert.h>

static void machine_on_pause_end(struct conclave_client *client, void *ctx)
{
    machine_run(ctx);
}

void machine_init(struct machine *m, struct handle *owner, void (*work)(struct machine *m))
{
    m->owner = owner;
    m->work = work;
    m->state = MACHINE_RESTS;
    client_timer_init(&m->pause, machine_on_pause_end, m);
}

void machine_run(struct machine *m)
{
    struct handle *owner = m->owner;
    assert(owner->refs > 0);
    if (m->state != MACHINE_RESTS) {
        m->state = MACHINE_RUNS_AGAIN;
        return;
    }
    handle_ref(owner);
    do {
        m->state = MACHINE_RUNS;
        m->work(m);
        assert(m->state != MACHINE_RESTS);
    } while (m->state == MACHINE_RUNS_AGAIN);
    m->state = MACHINE_RESTS;
    handle_unref(owner);
}

void machine_run_again(struct machine *m)
{
    if (m->state == MACHINE_RUNS) {
        m->state = MACHINE_RUNS_AGAIN;
    }
}

void machine_pause_until(struct machine *m, int64_t at_ns)
{
    client_timer_start(machine_client(m), &m->pause, at_ns);
}

void machine_pause(struct machine *m, int64_t ms)
{
    assert(ms >= 0);
    machine_pause_until(m, client_after_ns(machine_client(m), ms));
}

void machine_retry_later(struct machine *m)
{
    if (!machine_pauses(m)) {
        recipes_retry_later(m->owner->rt, &m->pause);
    }
}

void machine_resume(struct machine *m)
{
    client_timer_stop(machine_client(m), &m->pause);
}

bool machine_tries_again(struct machine *m, int error)
{
    assert(error != 0);
    if (error_is_fatal(error)) {
        return false;
    }
    if (error != CONCLAVE_CONNECTION_LOSS) {
        machine_retry_later(m);
    }
    return true;
}

void machine_step_init(struct machine *m, struct step *step)
{
    step_init(step, m->owner);
    step->machine = m;
}

void machine_watch_init(struct machine *m, struct watch_slot *slot)
{
    watch_slot_init(slot, m->owner, NULL);
    slot->machine = m;
}
