/*
 * conclave demo: the main job in a few seconds. A server in a thread of this process, on a free port of the loopback
 * interface and with a data folder that is removed at the end; on it the scenes (demo.h), whose processes are
 * commands of this program. Every step is checked and timed.
 *
 * Promise: ends by itself, 0 only if all was seen as promised; nothing is left running or on the disk.
 */
#define _GNU_SOURCE /* nftw */
#include "cli/ops/demo.h"

#include "base/list.h"
#include "base/log.h"
#include "cli/common/connection.h"
#include "cluster/server_options.h"
#include "daemon/server.h"

#include <errno.h>
#include <ftw.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define TICK_MS 200

static const struct command_usage USAGE = {
    .name = "demo",
    .forms = (const char *const[]){"", NULL},
    .about =
        "Shows a hand-over of leadership: starts a server inside this process and three "
        "candidates as processes of their own, kills the leader with -9, tells the next one to "
        "stop, and prints what happens, with the time it took and the fencing tokens. Then, in a "
        "few lines each, a lock that three want, a queue whose work is killed and handed on, and a "
        "configuration that is pushed to two readers. Takes a few seconds, uses a free port of "
        "127.0.0.1, and leaves nothing behind.",
    .more = "Exit codes: 0 all was seen, 70 a step failed: it is named.\n",
};

struct demo {
    struct stage stage; /* all that a scene knows */
    char folder[64];    /* data of the server, "" before it is made */

    /* The server's thread. */
    uv_loop_t loop;
    uv_async_t stop;
    bool running; /* the thread is to be joined */
    pthread_t thread;
    struct server *server;
    pthread_mutex_t lock; /* for what follows */
    bool ready;
    char *failure; /* why it does not serve, heap */
};

_Static_assert(sizeof((struct stage *)NULL)->address >= NET_TEXT_MAX, "an address fits");

/* --- the server's thread ---------------------------------------------------------------------- */

static void server_tell(struct demo *d, bool ready, const char *failure)
{
    pthread_mutex_lock(&d->lock);
    d->ready = ready;
    if (failure != NULL && d->failure == NULL) {
        d->failure = strdup(failure);
    }
    pthread_mutex_unlock(&d->lock);
    waiter_wake(&d->stage.waiter);
}

static const char *server_trouble(struct stage *stage)
{
    struct demo *d = CONTAINER_OF(stage, struct demo, stage);
    pthread_mutex_lock(&d->lock);
    const char *failure = d->failure; /* once set it stays */
    pthread_mutex_unlock(&d->lock);
    return failure;
}

static void on_server_closed(void *ctx)
{
    struct demo *d = ctx;
    d->server = NULL;
    uv_close((uv_handle_t *)&d->stop, NULL);
}

static void server_stop(struct demo *d)
{
    if (d->server != NULL) {
        struct server *server = d->server;
        d->server = NULL;
        server_close(server, on_server_closed, d);
    }
}

static void on_stop(uv_async_t *async)
{
    server_stop(async->data);
}

static void demo_on_ready(void *ctx, struct server *server)
{
    struct demo *d = ctx;
    struct net_address address;
    if (!server_address(server, PORT_CLIENT, &address)) {
        abort(); /* the demo asked for that port */
    }
    net_address_format(&address, d->stage.address);
    server_tell(d, true, NULL);
}

static void on_failed(void *ctx, int error, const char *text)
{
    server_tell(ctx, false, text);
    server_stop(ctx);
}

static void *server_thread(void *ctx)
{
    struct demo *d = ctx;
    struct server_options options = server_options_default();
    struct server_callbacks callbacks = {.ctx = d, .ready = demo_on_ready, .failed = on_failed};
    char *text = NULL;
    options.data_dir = d->folder;
    snprintf(options.listen.host, sizeof options.listen.host, "127.0.0.1");
    options.listen.port = 0;
    options.limits.tick_ms = TICK_MS;
    options.limits.session_min_ms = 2 * TICK_MS;
    int error = server_open(&d->loop, &options, &callbacks, &d->server, &text);
    if (error != 0) {
        d->server = NULL;
        server_tell(d, false, text != NULL ? text : conclave_strerror(error));
        free(text);
        on_server_closed(d);
    }
    uv_run(&d->loop, UV_RUN_DEFAULT);
    return NULL;
}

static void server_begin(struct demo *d)
{
    const char *tmp = getenv("TMPDIR");
    struct stage *s = &d->stage;
    int number;
    s->step = "start a server";
    snprintf(d->folder, sizeof d->folder, "%s/conclave-demo-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(d->folder) == NULL) {
        stage_failed(s, "no folder like %s can be made: %s", d->folder, strerror(errno));
        d->folder[0] = '\0';
        return;
    }
    d->stop.data = d;
    if (uv_loop_init(&d->loop) != 0 || uv_async_init(&d->loop, &d->stop, on_stop) != 0 ||
        pthread_create(&d->thread, NULL, server_thread, d) != 0) {
        stage_failed(s, "no event loop or thread can be made: out of memory or descriptors");
        return;
    }
    d->running = true;
    int64_t limit_ns = stage_now_ns() + STAGE_STEP_TIMEOUT_MS * INT64_C(1000000);
    for (bool ready = false; !ready && s->code == 0;) {
        const char *trouble = server_trouble(s);
        pthread_mutex_lock(&d->lock);
        ready = d->ready;
        pthread_mutex_unlock(&d->lock);
        if (trouble != NULL) {
            stage_failed(s, "%s", trouble);
        } else if (!ready &&
                   (stage_now_ns() > limit_ns ||
                    waiter_wait(&s->waiter, -1, STAGE_STEP_TIMEOUT_MS, &number) == WAITER_SIGNAL)) {
            stage_failed(s, "not ready in time, or interrupted");
        }
    }
    stage_say(s, "server ready on %s", s->address);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    return remove(path);
}

static void server_end(struct demo *d)
{
    if (d->running) {
        uv_async_send(&d->stop);
        pthread_join(d->thread, NULL);
        uv_loop_close(&d->loop);
    }
    if (d->folder[0] != '\0' && nftw(d->folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0) {
        d->stage.step = "remove the data folder";
        stage_failed(&d->stage, "%s: %s", d->folder, strerror(errno));
    }
    free(d->failure);
}

int command_demo(int argc, char **argv)
{
    static void (*const scenes[])(struct stage * s) = {demo_election, demo_lock, demo_queue,
                                                       demo_config};
    struct operands operands;
    struct demo d = {.stage = {.began_ns = stage_now_ns(),
                               .step = "prepare",
                               .words = {-1, -1},
                               .waiter = {.signal_fd = -1, .wake_fd = -1},
                               .trouble = server_trouble},
                     .lock = PTHREAD_MUTEX_INITIALIZER};
    int code = options_parse(&USAGE, argc, argv, NULL, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    log_set_level(LOG_SILENT);
    stage_init(&d.stage);
    if (d.stage.code != 0) {
        return d.stage.code;
    }
    server_begin(&d);
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0] && d.stage.code == 0; i++) {
        scenes[i](&d.stage);
    }
    stage_end_all(&d.stage);
    server_end(&d);
    stage_say(&d.stage, "all stopped, nothing is left behind");
    stage_finish(&d.stage);
    return output_end(USAGE.name, d.stage.code);
}
