/*
 * The host of the log on a libuv loop: a thread per lane; a timer, or an idle handle while there is more work at once.
 * The owner of the loop ends each iteration with replication_loop_turn. Only the idle handle and the threads keep the
 * loop alive. Limit: one thread per lane.
 */
#include "replication/replication_uv.h"

#include "net/worker.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define HANDLES 2

struct replication_loop {
    uv_loop_t *loop;
    struct replication *core; /* NULL: not open yet, or closed */
    const struct clock_source *clock;
    struct replication_sender sender; /* send NULL: no other servers */
    struct worker workers[LANE_COUNT];
    bool open;                     /* threads and handles are open */
    struct list early[LANE_COUNT]; /* jobs that came before the threads started */
    uv_idle_t idle;
    uv_timer_t timer;
    int64_t timer_at_ms; /* or 0 */
    unsigned parts;      /* threads and handles that are not closed yet */
    void (*close_cb)(void *ctx);
    void *close_ctx;
};

static void replication_uv_run(void *ctx, enum replication_lane lane, struct worker_job *job)
{
    struct replication_loop *l = ctx;
    if (l->open) {
        worker_submit(&l->workers[lane], job);
    } else {
        list_push_back(&l->early[lane], &job->node);
    }
}

static void send_message(void *ctx, uint64_t to, struct buf *message_take)
{
    struct replication_loop *l = ctx;
    l->sender.send(l->sender.ctx, to, message_take);
}

static void idle_cb(uv_idle_t *handle);
static void timer_cb(uv_timer_t *handle);

static void arm_deadline(struct replication_loop *l)
{
    int64_t at = replication_deadline(l->core);
    int64_t delay = at == INT64_MAX ? at : at - clock_monotonic_ms(l->clock);
    if (delay <= 0) {
        uv_idle_start(&l->idle, idle_cb);
    } else if (at != l->timer_at_ms) {
        l->timer_at_ms = at;
        if (at == INT64_MAX) {
            uv_timer_stop(&l->timer);
        } else {
            uv_timer_start(&l->timer, timer_cb, (uint64_t)delay, 0);
        }
    }
}

static void tick(struct replication_loop *l)
{
    uv_idle_stop(&l->idle);
    l->timer_at_ms = 0;
    if (l->core != NULL) {
        replication_tick(l->core);
    }
}

static void idle_cb(uv_idle_t *handle)
{
    tick(handle->data);
}

static void timer_cb(uv_timer_t *handle)
{
    tick(handle->data);
}

void replication_loop_turn(struct replication_loop *l)
{
    if (l->core != NULL) {
        replication_turn(l->core);
        arm_deadline(l); /* last, because the turn may change the deadline */
    }
}

/* Closing. */

static void replication_uv_part_closed(void *ctx)
{
    struct replication_loop *l = ctx;
    assert(l->core == NULL && l->parts > 0);
    if (--l->parts > 0) {
        return;
    }
    void (*cb)(void *ctx) = l->close_cb;
    void *cb_ctx = l->close_ctx;
    free(l);
    if (cb != NULL) {
        cb(cb_ctx);
    }
}

static void handle_closed(uv_handle_t *handle)
{
    replication_uv_part_closed(handle->data);
}

static void core_closed(void *ctx)
{
    struct replication_loop *l = ctx;
    l->core = NULL;
    if (!l->open) {
        return;
    }
    for (int i = 0; i < LANE_COUNT; i++) {
        worker_close(&l->workers[i], replication_uv_part_closed, l);
    }
    uv_close((uv_handle_t *)&l->idle, handle_closed);
    uv_close((uv_handle_t *)&l->timer, handle_closed);
}

void replication_loop_close(struct replication_loop *l, void (*cb)(void *ctx), void *ctx)
{
    l->close_cb = cb;
    l->close_ctx = ctx;
    replication_close(l->core, core_closed, l);
}

/* Opening. */

/* The threads cannot start: closes the log again in the caller's thread. */
static void close_core_here(struct replication_loop *l)
{
    replication_close(l->core, core_closed, l);
    while (l->core != NULL) {
        for (int i = 0; i < LANE_COUNT; i++) {
            struct list *node = list_pop_front(&l->early[i]);
            if (node != NULL) {
                struct worker_job *job = CONTAINER_OF(node, struct worker_job, node);
                job->work(job);
                job->done(job);
            }
        }
        replication_tick(l->core);
    }
}

/* Starts the threads first, because only that can fail. On failure l is freed, now or when the loop runs. */
static int open_handles(struct replication_loop *l, bool threads)
{
    const struct worker_options options = {.threads = threads ? 1 : 0};
    int rv = 0;
    int n = 0;
    while (n < LANE_COUNT && (rv = worker_init(&l->workers[n], l->loop, &options)) == 0) {
        n++;
    }
    if (rv != 0) {
        close_core_here(l);
        l->parts = (unsigned)n + 1;
        while (n > 0) {
            worker_close(&l->workers[--n], replication_uv_part_closed, l);
        }
        replication_uv_part_closed(l);
        return rv;
    }
    uv_idle_init(l->loop, &l->idle);
    uv_timer_init(l->loop, &l->timer);
    l->idle.data = l->timer.data = l;
    uv_unref((uv_handle_t *)&l->timer);
    l->parts = LANE_COUNT + HANDLES;
    l->open = true;
    for (int i = 0; i < LANE_COUNT; i++) {
        for (struct list *node; (node = list_pop_front(&l->early[i])) != NULL;) {
            worker_submit(&l->workers[i], CONTAINER_OF(node, struct worker_job, node));
        }
    }
    return 0;
}

int replication_loop_open(uv_loop_t *loop, const struct replication_options *options,
                          const struct replication_callbacks *callbacks,
                          const struct replication_sender *sender, const struct file_ops *ops,
                          struct replication_loop **ret, char **ret_text)
{
    struct replication_loop *l = calloc(1, sizeof *l);
    if (l == NULL) {
        *ret_text = strdup("out of memory");
        return CONCLAVE_ENOMEM;
    }
    const struct replication_host host = {l, replication_uv_run,
                                          sender != NULL ? send_message : NULL};
    ops = ops != NULL ? ops : file_ops_system();
    l->loop = loop;
    l->clock = options->clock != NULL ? options->clock : clock_system();
    if (sender != NULL) {
        l->sender = *sender;
    }
    for (int i = 0; i < LANE_COUNT; i++) {
        list_init(&l->early[i]);
    }
    int rv = replication_open(&host, options, callbacks, ops, &l->core, ret_text);
    if (rv != 0) {
        free(l);
        return rv;
    }
    rv = open_handles(l, ops->threads);
    if (rv != 0) {
        *ret_text = strdup("cannot start the threads that write to the disk");
        return rv;
    }
    *ret = l;
    return 0;
}

struct replication *replication_loop_log(struct replication_loop *l)
{
    return l->core;
}
