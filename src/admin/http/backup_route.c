#define _GNU_SOURCE /* syscall */
#include "admin/http/backup_route.h"

#include "admin/answers/four_letter_text.h"
#include "admin/http/adminserver_commands.h"
#include "backup/file/backup_writer.h"
#include "base/hex.h"
#include "base/log.h"
#include "cluster/replica.h"
#include "cluster/snapshot_schedule.h"
#include "daemon/server.h"
#include "front/service.h"
#include "net/worker.h"
#include "replication/log_export.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    BACKUP_PIECE = 1 << 20,
    BACKUP_PIECE_RAW = 4 << 20, /* read for one piece, if it compresses well */
    BACKUP_LOOK_MS = 10,
    BACKUP_WAIT_MS = 30000, /* until the entry is on the disk */
    BACKUP_NICE = 19,
    BACKUP_LEVEL = 1, /* of zstd */
    REST_MAX_NS = 200 * 1000000,
    IOPRIO_IDLE = 3 << 13, /* class "idle" of ioprio_set, for the calling thread */
    IOPRIO_SELF = 1,
};

static const char BACKUP_NAME[] = "backup";

enum backup_stage { BACKUP_WAITING, BACKUP_OPENING, BACKUP_SENDING, BACKUP_ENDING };

/* One backup. The job owns what is below it while it runs. */
struct backup_run {
    struct backup_route *route;
    enum backup_stage stage;
    struct http_exchange *exchange; /* NULL: the client is gone */
    char peer[64];
    int64_t began_ms;
    uint64_t sent;
    bool with_worker;
    struct worker worker;
    bool busy; /* the job runs */
    struct buf ready;
    size_t ready_at;
    bool told; /* how it ended was logged */

    struct worker_job job;
    struct log_export_plan plan;
    struct log_export *export;
    struct backup_writer *writer;
    struct backup_header header;
    uint64_t snapshot_index; /* with this zxid; 0: unknown */
    int64_t snapshot_zxid;
    struct buf made; /* the next piece */
    bool over;       /* the last one is made */
    int rc;
    struct error_text problem;
};

struct backup_route {
    uv_timer_t timer;
    struct view *view;
    struct admission *admission;
    struct backup_run *run; /* NULL: none */
    bool closing;
    bool timer_closed;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

static int64_t route_now_ms(const struct backup_route *b)
{
    return (int64_t)uv_now(b->timer.loop);
}

/* The thread */

static void rest_like(const struct timespec *begin)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t ns =
        (int64_t)(now.tv_sec - begin->tv_sec) * 1000000000 + (now.tv_nsec - begin->tv_nsec);
    struct timespec pause = {.tv_nsec = ns > 0 && ns < REST_MAX_NS ? (long)ns : REST_MAX_NS};
    (void)nanosleep(&pause, NULL);
}

static int run_open(struct backup_run *n)
{
    struct backup_header *h = &n->header;
    /* On failure the disk serves the server and the backup alike. */
    (void)syscall(SYS_ioprio_set, IOPRIO_SELF, 0, IOPRIO_IDLE);
    n->writer = backup_writer_create(BACKUP_LEVEL);
    if (n->writer == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rc = log_export_open(&n->export, &n->plan, h->incremental ? h->from_index : 0, h->from_term,
                             &n->problem);
    if (rc != 0) {
        return rc;
    }
    log_export_from(n->export, &h->from_index, &h->from_term);
    if (!h->incremental) {
        h->from_zxid = h->from_index == n->snapshot_index ? n->snapshot_zxid : 0;
    }
    h->end_term = n->plan.end_term != 0 ? n->plan.end_term : h->from_term;
    backup_writer_header(n->writer, h, &n->made);
    return 0;
}

static void run_put(struct backup_run *n, const struct log_export_item *item)
{
    struct buf head;
    switch (item->kind) {
    case LOG_EXPORT_SNAPSHOT:
        buf_init(&head, 0);
        buf_append_i64(&head, (int64_t)item->meta->configuration_index);
        buf_append_i64(&head, (int64_t)item->content_size);
        buf_append_slice(&head, buf_slice(&item->meta->configuration));
        backup_writer_record(n->writer, BACKUP_RECORD_SNAPSHOT, item->meta->index, item->meta->term,
                             buf_slice(&head), &n->made);
        n->made.failed = n->made.failed || head.failed;
        buf_finish(&head);
        break;
    case LOG_EXPORT_PART:
        backup_writer_record(n->writer, BACKUP_RECORD_PART, 0, 0, item->part, &n->made);
        break;
    case LOG_EXPORT_ENTRY:
        backup_writer_record(n->writer, item->entry.kind, item->entry.index, item->entry.term,
                             item->entry.payload, &n->made);
        break;
    }
}

static void run_work(struct worker_job *job)
{
    struct backup_run *n = CONTAINER_OF(job, struct backup_run, job);
    struct log_export_item item;
    struct timespec begin;
    size_t raw = 0;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    n->rc = n->export == NULL ? run_open(n) : 0;
    while (n->rc == 0 && !n->over && n->made.len < BACKUP_PIECE && raw < BACKUP_PIECE_RAW) {
        int rc = log_export_next(n->export, &item, &n->problem);
        if (rc == 1) {
            raw += item.part.len + item.entry.payload.len + BACKUP_RECORD_HEAD;
            run_put(n, &item);
        } else if (rc == 0) {
            backup_writer_end(n->writer, &n->made);
            n->over = true;
        } else {
            n->rc = rc;
        }
        n->rc = n->rc == 0 && !buf_ok(&n->made) ? CONCLAVE_ENOMEM : n->rc;
    }
    if (n->rc == 0 && !n->over) {
        rest_like(&begin); /* the server's own threads come first */
    }
}

/* The loop */

static void run_log(struct backup_run *n, const char *result, const char *why)
{
    if (n->told) {
        return;
    }
    n->told = true;
    bool given = why[0] == '\0';
    log_advise(given ? LOG_NOTICE : LOG_WARN, "admin", BACKUP_NAME,
               given ? NULL : "read the reason, then ask again",
               "result=%s peer=%s bytes=%llu ms=%lld reason=\"%s\"", result, n->peer,
               (unsigned long long)n->sent, (long long)(route_now_ms(n->route) - n->began_ms), why);
}

static void route_maybe_closed(struct backup_route *b)
{
    if (b->closing && b->timer_closed && b->run == NULL) {
        if (b->closed != NULL) {
            b->closed(b->closed_ctx);
        }
        free(b);
    }
}

static void run_free(void *ctx)
{
    struct backup_run *n = ctx;
    struct backup_route *b = n->route;
    assert(!n->busy && b->run == n);
    log_export_close(n->export);
    log_export_plan_finish(&n->plan);
    backup_writer_destroy(n->writer);
    error_text_finish(&n->problem);
    buf_finish(&n->ready);
    buf_finish(&n->made);
    free(n);
    b->run = NULL;
    route_maybe_closed(b);
}

/* The client has all, or is gone: ends as soon as the thread is idle. */
static void run_end(struct backup_run *n)
{
    n->exchange = NULL;
    n->stage = BACKUP_ENDING;
    (void)uv_timer_stop(&n->route->timer);
    if (n->busy) {
        return;
    }
    if (n->with_worker) {
        n->with_worker = false;
        worker_close(&n->worker, run_free, n);
    } else {
        run_free(n);
    }
}

static void route_refuse(struct http_response *response, unsigned status, const char *why)
{
    response->status = status;
    response->content_type = "application/json;charset=utf-8";
    commands_fail(BACKUP_NAME, why, &response->body);
}

static void run_fail(struct backup_run *n, unsigned status, const char *why)
{
    struct http_response response;
    http_response_init(&response);
    route_refuse(&response, status, why);
    run_log(n, "failed", why);
    struct http_exchange *x = n->exchange;
    n->exchange = NULL;
    http_answer(x, &response);
    run_end(n);
}

static bool source_next(void *ctx, struct buf *out, size_t room)
{
    struct backup_run *n = ctx;
    if (n->ready_at == n->ready.len && !n->busy) {
        if (n->rc != 0) {
            run_log(n, "failed", error_text_of(&n->problem, n->rc));
            return false;
        }
        struct buf empty = n->ready;
        buf_reset(&empty);
        n->ready = n->made;
        n->ready_at = 0;
        n->made = empty;
        if (!n->over) {
            n->busy = true;
            worker_submit(&n->worker, &n->job);
        }
    }
    size_t left = n->ready.len - n->ready_at;
    size_t len = left < room ? left : room;
    buf_append(out, n->ready.data + n->ready_at, len);
    n->ready_at += len;
    n->sent += len;
    return true;
}

static bool source_over(void *ctx)
{
    struct backup_run *n = ctx;
    bool over = n->over && !n->busy && n->made.len == 0 && n->ready_at == n->ready.len;
    if (over) {
        run_log(n, "given", "");
    }
    return over;
}

static void source_close(void *ctx)
{
    struct backup_run *n = ctx;
    run_log(n, "failed", "the client ended the connection");
    run_end(n);
}

static void run_answer(struct backup_run *n)
{
    struct http_response response;
    struct http_exchange *x = n->exchange;
    http_response_init(&response);
    response.content_type = "application/octet-stream";
    response.source = (struct http_source){
        .next = source_next, .over = source_over, .close = source_close, .ctx = n, .endless = true};
    n->stage = BACKUP_SENDING;
    http_answer(x, &response);
    http_response_finish(&response);
}

static void run_done(struct worker_job *job)
{
    struct backup_run *n = CONTAINER_OF(job, struct backup_run, job);
    n->busy = false;
    switch (n->stage) {
    case BACKUP_OPENING:
        if (n->rc == CONCLAVE_NO_NODE) {
            run_fail(n, 409, error_text_of(&n->problem, n->rc));
        } else if (n->rc != 0) {
            run_fail(n, n->rc == CONCLAVE_EBUSY ? 503 : 500, error_text_of(&n->problem, n->rc));
        } else {
            run_answer(n);
        }
        break;
    case BACKUP_SENDING:
        http_wake(n->exchange);
        break;
    case BACKUP_WAITING:
    case BACKUP_ENDING:
        run_end(n);
        break;
    }
}

/* Waits for the entry on the disk, then lets the thread begin. */
static void route_on_timer(uv_timer_t *timer)
{
    struct backup_route *b = timer->data;
    struct backup_run *n = b->run;
    const struct replication *log =
        b->view->server != NULL ? replica_log(server_node(b->view->server)) : NULL;
    assert(n != NULL && n->stage == BACKUP_WAITING);
    int rc = log != NULL ? log_export_plan(log, n->header.end_index, &n->plan) : CONCLAVE_ECLOSED;
    if (rc == CONCLAVE_EBUSY && route_now_ms(b) - n->began_ms < BACKUP_WAIT_MS) {
        return;
    }
    (void)uv_timer_stop(timer);
    const struct worker_options options = {.threads = 1, .nice = BACKUP_NICE};
    if (rc == 0) {
        rc = worker_init(&n->worker, b->timer.loop, &options);
        n->with_worker = rc == 0;
    }
    if (rc != 0) {
        run_fail(n, 503,
                 rc == CONCLAVE_EINVAL
                     ? "An entry is being skipped: restart without --skip-entry first"
                     : "The log cannot be read now: try again");
        return;
    }
    n->stage = BACKUP_OPENING;
    n->busy = true;
    worker_submit(&n->worker, &n->job);
}

/* Requests */

/* The number of an argument, decimal or 0x; false: it is missing or none. */
static bool route_number(const struct http_request *request, const char *name, uint64_t *ret)
{
    const char *text = http_argument(request, name);
    char *end = NULL;
    errno = 0;
    *ret = text != NULL ? strtoull(text, &end, 0) : 0;
    return text != NULL && errno == 0 && end != text && *end == '\0';
}

/* The arguments of an incremental backup: 0, or a status and why. */
static unsigned route_since(const struct replication *log, const struct http_request *request,
                            struct backup_header *h, const char **ret_why)
{
    char hex[2 * BACKUP_CLUSTER_SIZE + 1];
    const char *cluster = http_argument(request, "cluster");
    uint64_t zxid;
    if (http_argument(request, "since") == NULL) {
        return 0;
    }
    if (!route_number(request, "since", &h->from_index) || h->from_index == 0 ||
        !route_number(request, "term", &h->from_term) || !route_number(request, "zxid", &zxid) ||
        cluster == NULL) {
        *ret_why = "use /backup?cluster=HEX&since=INDEX&term=N&zxid=0xN";
        return 400;
    }
    replication_cluster(log, h->cluster);
    hex_encode(h->cluster, sizeof h->cluster, hex);
    if (strcmp(hex, cluster) != 0) {
        *ret_why = "The earlier backup is of another ensemble: take a full one";
        return 409;
    }
    h->incremental = true;
    h->from_zxid = (int64_t)zxid;
    return 0;
}

/* 0, or a status and why. */
static unsigned route_begin(struct backup_route *b, const struct http_request *request,
                            const char **ret_why)
{
    struct server *server = b->view->server;
    struct service *s = server_service(server);
    struct replication_stats stats;
    struct server_snapshot snapshot;
    struct backup_header h = {.made_ms = clock_wall_ms(s->clock)};
    unsigned status =
        s->mirrored ? admission_check_mirror(b->admission, s, request, route_now_ms(b), ret_why)
                    : admission_check(b->admission, s, request, route_now_ms(b), ret_why);
    const struct replication *log = replica_log(server_node(server));
    if (status == 0 && (b->run != NULL || b->closing)) {
        *ret_why = "Another backup of this server is in progress";
        status = 429;
    } else if (status == 0 && log == NULL) {
        *ret_why = TEXT_NOT_SERVING;
        status = 503;
    }
    if (status == 0) {
        status = route_since(log, request, &h, ret_why);
    }
    struct backup_run *n = status == 0 ? calloc(1, sizeof *n) : NULL;
    if (n == NULL) {
        *ret_why = status == 0 ? "Out of memory" : *ret_why;
        return status != 0 ? status : 500;
    }
    replication_stats(log, &stats);
    replication_cluster(log, h.cluster);
    server_snapshot(server, &snapshot);
    h.end_index = stats.applied_index;
    h.end_zxid = state_zxid(s->state);
    h.server_id = (uint64_t)member_number(server_id(server));
    *n = (struct backup_run){.route = b,
                             .exchange = request->exchange,
                             .began_ms = route_now_ms(b),
                             .header = h,
                             .snapshot_index = snapshot.index,
                             .snapshot_zxid = snapshot.zxid,
                             .job = {.work = run_work, .done = run_done}};
    (void)snprintf(n->peer, sizeof n->peer, "%s", request->peer);
    buf_init(&n->ready, 0);
    buf_init(&n->made, 0);
    b->run = n;
    if (uv_timer_start(&b->timer, route_on_timer, 0, BACKUP_LOOK_MS) != 0) {
        abort(); /* fails only for a handle that is closing */
    }
    return 0;
}

bool backup_route_answer(struct backup_route *b, const struct http_request *request,
                         struct http_response *response)
{
    const char *why = TEXT_NOT_SERVING;
    if (strcmp(request->path, "/backup") != 0) {
        return false;
    }
    unsigned status = !view_serving(b->view)                 ? 503
                      : strcmp(request->method, "HEAD") == 0 ? 405
                                                             : route_begin(b, request, &why);
    if (status == 0) {
        response->later = true;
        return true;
    }
    log_cause(LOG_WARN, "admin", BACKUP_NAME, request->peer, why, TEXT_REFUSED_ADVICE,
              "result=refused peer=%s reason=\"%s\"", request->peer, why);
    response->allow = status == 405 ? "GET" : NULL;
    route_refuse(response, status, status == 405 ? "use GET" : why);
    return true;
}

/* Begin and end */

struct backup_route *backup_route_create(uv_loop_t *loop, struct view *v,
                                         struct admission *admission)
{
    struct backup_route *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return NULL;
    }
    b->view = v;
    b->admission = admission;
    if (uv_timer_init(loop, &b->timer) != 0) {
        abort(); /* cannot fail */
    }
    b->timer.data = b;
    return b;
}

void backup_route_cancel(struct backup_route *b)
{
    struct backup_run *n = b->run;
    if (n != NULL && n->exchange != NULL && n->stage != BACKUP_SENDING) {
        run_fail(n, 503, TEXT_NOT_SERVING);
    }
}

static void route_on_timer_closed(uv_handle_t *handle)
{
    struct backup_route *b = handle->data;
    b->timer_closed = true;
    route_maybe_closed(b);
}

void backup_route_close(struct backup_route *b, void (*cb)(void *ctx), void *ctx)
{
    if (b == NULL) {
        return;
    }
    backup_route_cancel(b);
    b->closing = true;
    b->closed = cb;
    b->closed_ctx = ctx;
    uv_close((uv_handle_t *)&b->timer, route_on_timer_closed);
}
