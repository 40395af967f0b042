/* A candidate's place in the queue (line_position.h): what the election makes of it. */
#include "recipes/hold/election.h"

static struct conclave_election *of(struct place *place)
{
    return CONTAINER_OF(place, struct conclave_election, place);
}

static void on_free(struct place *place)
{
    struct conclave_election *e = of(place);
    if (e->state != ELECTION_WAITING) {
        return;
    }
    e->takeover = e->options.takeover_delay_ms > 0 ? TAKEOVER_UNKNOWN : TAKEOVER_DONE;
    election_enter(e, ELECTION_PROVING);
    e->holder.heartbeat_ms = e->options.lease.heartbeat_ms;
    lease_add(&election_rt(e)->lease, &e->holder);
}

static void on_gone(struct place *place)
{
    election_node_gone(of(place), CONCLAVE_ELOST);
}

static void on_trouble(struct place *place, int error)
{
    election_trouble(of(place), error);
}

static void on_wake(struct place *place)
{
    election_run(of(place));
}

static const struct place_class election_place_class = {
    .judge = place_judge_first,
    .free = on_free,
    .gone = on_gone,
    .trouble = on_trouble,
    .wake = on_wake,
};

void election_place_run(struct conclave_election *e)
{
    if (!client_timer_active(&e->wake)) {
        place_run(&e->place, e->state == ELECTION_WAITING);
    }
}

void election_place_init(struct conclave_election *e)
{
    place_init(&e->place, &e->handle, &election_place_class, e->path, e->options.naming);
}
