#include "sim/loop.h"

#include "sim/sim.h"

#include <assert.h>
#include <stdlib.h>

enum { TRAILING_ENTRIES = 30, CACHE_BYTES = 16 << 10 };

struct lane_job {
    struct list node;
    struct worker_job *job;
    int64_t at_us;
};

struct replication_loop {
    struct machine *machine;
    struct replication *core;
    struct replication_sender sender;
    struct replication_callbacks inner; /* the node's */
    struct list lanes[LANE_COUNT];
    int64_t free_us[LANE_COUNT]; /* when the lane has done what it was given */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* Jobs */

struct due {
    struct event event;
    struct machine *machine;
    unsigned incarnation;
};

static void do_front(struct replication_loop *l, int lane)
{
    struct list *node = list_pop_front(&l->lanes[lane]);
    struct lane_job *j = CONTAINER_OF(node, struct lane_job, node);
    struct worker_job *job = j->job;
    free(j);
    job->work(job);
    job->done(job);
}

static void lanes_due(struct event *e, bool dropped)
{
    struct due *d = (struct due *)(void *)e;
    struct machine *m = d->machine;
    if (!dropped && m->on && m->incarnation == d->incarnation) {
        if (machine_is_paused(m)) {
            world_after(&m->sim->world, m->paused_until_us - m->sim->world.now_us, e);
            return;
        }
        machine_enter(m);
        for (int lane = 0; lane < LANE_COUNT; lane++) {
            while (m->loop != NULL && !list_empty(&m->loop->lanes[lane]) &&
                   CONTAINER_OF(m->loop->lanes[lane].next, struct lane_job, node)->at_us <=
                       m->sim->world.now_us) {
                do_front(m->loop, lane);
            }
        }
        machine_leave(m);
    }
    free(d);
}

static void run(void *ctx, enum replication_lane lane, struct worker_job *job)
{
    struct replication_loop *l = ctx;
    struct machine *m = l->machine;
    struct world *w = &m->sim->world;
    struct lane_job *j = must_calloc(sizeof *j);
    struct due *d = must_calloc(sizeof *d);
    int64_t from_us = l->free_us[lane] > w->now_us ? l->free_us[lane] : w->now_us;
    j->job = job;
    j->at_us = from_us + world_between(w, 20, m->disk_us);
    l->free_us[lane] = j->at_us;
    list_push_back(&l->lanes[lane], &j->node);
    d->event.fn = lanes_due;
    d->machine = m;
    d->incarnation = m->incarnation;
    world_after(w, j->at_us - w->now_us, &d->event);
}

bool loop_do_job(struct machine *m)
{
    for (int lane = 0; m->loop != NULL && lane < LANE_COUNT; lane++) {
        if (!list_empty(&m->loop->lanes[lane])) {
            do_front(m->loop, lane);
            return true;
        }
    }
    return false;
}

static void send_message(void *ctx, uint64_t to, struct buf *message_take)
{
    struct replication_loop *l = ctx;
    l->sender.send(l->sender.ctx, to, message_take);
}

/* Callbacks that the checks see first; ctx is the node's, as in the others, which are the node's own. */

static struct replication_loop *here(void)
{
    return sim_now()->current->loop;
}

static void on_apply(void *ctx, uint64_t index, struct slice payload)
{
    struct replication_loop *l = here();
    struct machine *m = l->machine;
    l->inner.apply(ctx, index, payload);
    checks_applied(m->sim, m, index, payload);
}

static int on_restore(void *ctx, struct slice snapshot)
{
    struct replication_loop *l = here();
    struct machine *m = l->machine;
    int rc = l->inner.restore(ctx, snapshot);
    world_trace(&m->sim->world, "server %u restores a snapshot of %zu bytes", m->id, snapshot.len);
    return rc;
}

static void on_role_changed(void *ctx, enum replication_role role, uint64_t leader, uint64_t term)
{
    struct replication_loop *l = here();
    struct machine *m = l->machine;
    world_trace(&m->sim->world, "server %u is %s in term %llu, leader %llu", m->id,
                role == REPLICATION_LEADER      ? "leader"
                : role == REPLICATION_CANDIDATE ? "candidate"
                                                : "follower",
                (unsigned long long)term, (unsigned long long)leader);
    checks_role(m->sim, m, role, term);
    l->inner.role_changed(ctx, role, leader, term);
}

static void on_configuration(void *ctx, uint64_t index, const struct configuration_member *members,
                             size_t n)
{
    struct replication_loop *l = here();
    world_trace(&l->machine->sim->world, "server %u: entry %llu has %zu members", l->machine->id,
                (unsigned long long)index, n);
    l->inner.configuration(ctx, index, members, n);
}

static void on_failed(void *ctx, int error, const char *text)
{
    struct replication_loop *l = here();
    world_trace(&l->machine->sim->world, "server %u: its log fails: %s", l->machine->id, text);
    l->inner.failed(ctx, error, text);
}

/* replication/replication_uv.h */

int replication_loop_open(uv_loop_t *loop, const struct replication_options *options,
                          const struct replication_callbacks *callbacks,
                          const struct replication_sender *sender, const struct file_ops *ops,
                          struct replication_loop **ret, char **ret_text)
{
    struct machine *m = machine_of_loop(loop);
    struct replication_loop *l = must_calloc(sizeof *l);
    const struct replication_host host = {l, run, sender != NULL ? send_message : NULL};
    struct replication_callbacks outer = *callbacks;
    struct replication_options small =
        *options; /* so that a short run gets to know the long ways */
    assert(m->loop == NULL);
    small.trailing_entries = TRAILING_ENTRIES;
    small.cache_bytes = CACHE_BYTES;
    l->machine = m;
    l->sender = sender != NULL ? *sender : (struct replication_sender){0};
    l->inner = *callbacks;
    for (int i = 0; i < LANE_COUNT; i++) {
        list_init(&l->lanes[i]);
    }
    outer.apply = on_apply;
    outer.restore = on_restore;
    outer.role_changed = on_role_changed;
    outer.configuration = on_configuration;
    outer.failed = on_failed;
    m->loop = l; /* jobs may come before it is open */
    int rc = replication_open(&host, &small, &outer, disk_ops(m->disk), &l->core, ret_text);
    if (rc != 0) {
        while (loop_do_job(m)) {}
        m->loop = NULL;
        free(l);
        return rc;
    }
    *ret = l;
    return 0;
}

void replication_loop_turn(struct replication_loop *l)
{
    if (l->core != NULL) {
        replication_turn(l->core);
    }
}

struct replication *replication_loop_log(struct replication_loop *l)
{
    return l->core;
}

static void core_closed(void *ctx)
{
    struct replication_loop *l = ctx;
    l->core = NULL;
}

void replication_loop_close(struct replication_loop *l, void (*cb)(void *ctx), void *ctx)
{
    l->closed = cb;
    l->closed_ctx = ctx;
    replication_close(l->core, core_closed, l);
}

int64_t loop_deadline(const struct machine *m)
{
    return m->loop != NULL && m->loop->core != NULL ? replication_deadline(m->loop->core)
                                                    : INT64_MAX;
}

void loop_tick(struct machine *m)
{
    struct replication_loop *l = m->loop;
    if (l == NULL || l->core == NULL) {
        return;
    }
    if (m->early_ticket != 0) {
        uint64_t ticket = m->early_ticket;
        m->early_ticket = 0;
        l->inner.confirmed(l->inner.ctx, ticket);
    }
    if (replication_deadline(l->core) <= clock_monotonic_ms(&m->clock)) {
        replication_tick(l->core);
    }
    if (l->core != NULL) {
        return;
    }
    void (*cb)(void *ctx) = l->closed;
    void *ctx = l->closed_ctx;
    m->loop = NULL;
    free(l);
    cb(ctx);
}
