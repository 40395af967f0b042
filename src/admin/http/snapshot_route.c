#include "admin/http/snapshot_route.h"

#include "admin/answers/four_letter_text.h"
#include "admin/http/adminserver_commands.h"
#include "admin/http/http_login.h"
#include "base/list.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/random.h"
#include "cluster/snapshot_schedule.h"
#include "daemon/server.h"
#include "daemon/server_stats.h"
#include "front/state_replacement.h"
#include "replication/disk/snapshot_file.h"
#include "state/state.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    LOOK_MS = 10, /* interval between checks whether it is done */
    TRIES = 3,    /* a snapshot may wait for an earlier one, and may fail */
};

enum backup_kind { BACKUP_SNAPSHOT, BACKUP_RESTORE, BACKUP_KINDS };

struct restore_load;

struct backup {
    uv_timer_t timer;
    struct view *view;
    struct admission *admission;
    int64_t next_ms[BACKUP_KINDS]; /* when it may run again */
    struct http_exchange *waiting; /* NULL: nothing is in progress */
    enum backup_kind kind;         /* the kind in progress */
    int64_t began_ms;
    uint64_t target; /* snapshot: the entry that it must contain */
    unsigned tries;
    bool streaming;
    struct restore_load *loading; /* restore: the file is being read; NULL: it is not */
    int64_t replacement;          /* restore: its id; 0: it is not proposed yet */
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* An uploaded file, of which a thread makes a state: a large one takes seconds, in which the loop's thread would lose the lead. The
 * file's memory is given back while it is read. */
struct restore_load {
    uv_work_t work;
    struct buf file;
    struct hash_key key;
    struct backup *backup; /* NULL: dropped */
    int rc;
    struct state *state;
};

/* One of the two commands. */
struct backup_command {
    const char *names[2];
    const char *method;
    const char *off;
};

static const struct backup_command COMMANDS[BACKUP_KINDS] = {
    [BACKUP_SNAPSHOT] = {{"snapshot", "snap"},
                         "GET",
                         "The command is off: set admin.snapshot.enabled=true"},
    [BACKUP_RESTORE] = {{"restore", "rest"},
                        "POST",
                        "The command is off: set admin.restore.enabled=true"},
};

static int64_t backup_now_ms(const struct backup *b)
{
    return (int64_t)uv_now(b->timer.loop);
}

/* Answers */

static void backup_tell_failure(enum backup_kind kind, unsigned status, const char *why,
                                struct http_response *response)
{
    response->status = status;
    response->content_type = "application/json;charset=utf-8";
    commands_fail(COMMANDS[kind].names[0], why, &response->body);
}

/* restore_loaded does not follow. */
static void restore_load_drop(struct backup *b)
{
    if (b->loading != NULL) {
        b->loading->backup = NULL;
        b->loading = NULL;
    }
}

static void backup_done(struct backup *b, struct http_response *response_take)
{
    restore_load_drop(b);
    http_answer(b->waiting, response_take);
    b->waiting = NULL;
    (void)uv_timer_stop(&b->timer);
}

static void backup_fail(struct backup *b, unsigned status, const char *why)
{
    struct http_response response;
    http_response_init(&response);
    backup_tell_failure(b->kind, status, why, &response);
    backup_done(b, &response);
    log_warn_advice("admin", COMMANDS[b->kind].names[0], "read the reason, then ask again",
                    "result=failed reason=\"%s\"", why);
}

static void backup_count_error(struct backup *b)
{
    struct server_metrics *m = server_service(b->view->server)->metrics;
    *(b->kind == BACKUP_SNAPSHOT ? &m->snapshot_error_count : &m->restore_error_count) += 1;
}

/* The place for the value of one more header. */
static char *add_header(struct http_response *r, const char *name)
{
    r->headers[r->header_count].name = name;
    return r->headers[r->header_count++].value;
}

/* Snapshot */

/* A file that is sent in pieces. The exchange counts the remaining bytes. */
struct download {
    int fd;
};

static bool download_next(void *ctx, struct buf *out, size_t room)
{
    const struct download *d = ctx;
    if (buf_reserve(out, room) != 0) {
        return false;
    }
    ssize_t n = read(d->fd, out->data + out->len, room);
    if (n <= 0) {
        return false; /* the file became shorter, or is unreadable */
    }
    out->len += (size_t)n;
    return true;
}

static void download_close(void *ctx)
{
    struct download *d = ctx;
    close(d->fd);
    free(d);
}

/* Makes the source for a file. False: out of memory, and the file is closed. */
static bool download_begin(int fd_take, uint64_t len, struct http_source *ret)
{
    struct download *d = malloc(sizeof *d);
    if (d == NULL) {
        close(fd_take);
        return false;
    }
    d->fd = fd_take;
    *ret =
        (struct http_source){.next = download_next, .close = download_close, .ctx = d, .len = len};
    return true;
}

/* Opens the file on the disk: an open file stays readable when a trim removes it. */
static int snapshot_open(const struct server *s, uint64_t index, uint64_t *ret_len)
{
    struct stat st;
    char *path = snapshot_path(server_options(s)->data_dir, index);
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    free(path);
    if (fd >= 0 && fstat(fd, &st) != 0) {
        close(fd);
        fd = -1;
    }
    *ret_len = fd >= 0 ? (uint64_t)st.st_size : 0;
    return fd;
}

static void snapshot_give(struct backup *b, uint64_t index)
{
    struct server *s = b->view->server;
    struct server_snapshot snapshot;
    struct http_response response;
    uint64_t len;
    int fd = snapshot_open(s, index, &len);
    server_snapshot(s, &snapshot);
    if (fd < 0 || snapshot.index != index) {
        if (fd >= 0) {
            close(fd);
        }
        backup_count_error(b);
        backup_fail(b, 500, "The snapshot was taken, but cannot be read");
        return;
    }
    http_response_init(&response);
    const size_t room = sizeof response.headers[0].value;
    (void)snprintf(add_header(&response, "last_zxid"), room, "0x%" PRIx64, snapshot.zxid);
    (void)snprintf(add_header(&response, "snapshot_size"), room, "%" PRIu64, len);
    if (b->streaming) {
        response.content_type = "application/octet-stream";
        if (!download_begin(fd, len, &response.source)) {
            backup_count_error(b);
            backup_fail(b, 500, "Out of memory");
            return;
        }
    } else {
        response.content_type = "application/json;charset=utf-8";
        commands_fail(COMMANDS[BACKUP_SNAPSHOT].names[0], NULL, &response.body);
        close(fd);
    }
    log_always("admin", "snapshot", "result=given zxid=0x%llx bytes=%llu",
               (unsigned long long)snapshot.zxid, (unsigned long long)len);
    backup_done(b, &response);
}

static void snapshot_look(struct backup *b)
{
    struct server_stats stats;
    server_stats(b->view->server, &stats);
    if (stats.replication.snapshot_index >= b->target) {
        snapshot_give(b, stats.replication.snapshot_index);
    } else if (!stats.replication.snapshot_busy && b->tries++ < TRIES) {
        server_take_snapshot(b->view->server);
    } else if (!stats.replication.snapshot_busy) {
        backup_count_error(b);
        backup_fail(b, 500, "The snapshot could not be taken: see the server's log");
    }
}

/* Restore */

static void restore_done(struct backup *b)
{
    struct service *s = server_service(b->view->server);
    struct http_response response;
    struct json json;
    int64_t took_ms = backup_now_ms(b) - b->began_ms;
    summary_add(&s->metrics->restore_time, (uint64_t)took_ms);
    http_response_init(&response);
    response.content_type = "application/json;charset=utf-8";
    commands_begin(&json);
    json_member_int(&json, "last_zxid", state_zxid(s->state));
    commands_end(&json, COMMANDS[BACKUP_RESTORE].names[0], SLICE_NULL, &response.body);
    log_always("admin", "restore", "result=done ms=%lld", (long long)took_ms);
    backup_done(b, &response);
}

/* Whether its last piece was applied. Then it counts, even if this server lost the lead meanwhile. */
static bool restore_is_applied(const struct backup *b)
{
    return b->kind == BACKUP_RESTORE && b->replacement != 0 &&
           server_service(b->view->server)->replaced_by == b->replacement;
}

static void restore_look(struct backup *b)
{
    if (b->loading == NULL && !state_replacement_is_sent(server_service(b->view->server))) {
        backup_count_error(b);
        backup_fail(
            b, 500,
            "The log did not take all of it, and the state is the old one: this server does not lead "
            "any more, or its disk fails. Look at its log, and try again");
    }
}

/* Why this server restores nothing now, or NULL. */
static const char *restore_obstacle(const struct service *s)
{
    if (s->mirrored) {
        return "This is a mirror, which only its source changes: end it first (conclave migrate cut)";
    }
    if (!s->standing.leads) {
        return "This server does not lead: send the file to the leader (conclave members)";
    }
    return state_replacement_is_sent(s)
               ? "Another state is on its way into the log: wait for its end"
               : NULL;
}

/* The file was read: proposes its state. */
static void restore_loaded(struct backup *b, int rc, struct state *state_take)
{
    struct service *s = server_service(b->view->server);
    const char *obstacle = restore_obstacle(s);
    int64_t id = (int64_t)random_below(INT64_MAX) + 1;
    b->loading = NULL;
    if (rc == 0 && obstacle == NULL) {
        rc = state_replacement_send(s, state_take, id, 0);
    }
    if (rc == 0 && obstacle == NULL) {
        b->replacement = id;
        return;
    }
    state_destroy(state_take);
    backup_count_error(b);
    if (rc == CONCLAVE_ECORRUPT) {
        backup_fail(b, 400, "This is not a complete snapshot from this program's command snapshot");
    } else {
        backup_fail(b, rc == 0 ? 409 : 500, rc == 0 ? obstacle : "Out of memory");
    }
}

static void load_passed(void *ctx, struct slice bytes)
{
    pages_forget(ctx, bytes);
}

static void load_work(uv_work_t *work)
{
    struct restore_load *l = CONTAINER_OF(work, struct restore_load, work);
    struct pages_passed pages = {0};
    struct slice content;
    l->rc = snapshot_content(buf_slice(&l->file), &content);
    if (l->rc == 0) {
        l->rc = state_restore_passing(content, &l->key, load_passed, &pages, &l->state);
    }
    buf_finish(&l->file);
}

static void load_over(uv_work_t *work, int status)
{
    struct restore_load *l = CONTAINER_OF(work, struct restore_load, work);
    if (l->backup != NULL) {
        restore_loaded(l->backup, l->rc, l->state);
    } else {
        state_destroy(l->state);
    }
    free(l);
}

/* Takes the file over; restore_loaded follows, from the loop. False: out of memory. */
static bool restore_load_begin(struct backup *b, struct buf *file_take)
{
    struct restore_load *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return false;
    }
    *l = (struct restore_load){
        .file = *file_take, .key = server_service(b->view->server)->key, .backup = b};
    buf_init(file_take, 0);
    if (uv_queue_work(b->timer.loop, &l->work, load_work, load_over) != 0) {
        abort(); /* fails only without a function */
    }
    b->loading = l;
    return true;
}

/* Both */

static void backup_look(uv_timer_t *timer)
{
    struct backup *b = timer->data;
    if (restore_is_applied(b)) {
        restore_done(b);
    } else if (!view_serving(b->view) || server_why_not_ready(b->view->server) != NULL) {
        backup_fail(b, 503, TEXT_NOT_SERVING);
    } else if (b->kind == BACKUP_SNAPSHOT) {
        snapshot_look(b);
    } else {
        restore_look(b);
    }
}

static void backup_wait(struct backup *b, enum backup_kind kind, const struct http_request *request,
                        struct http_response *response)
{
    b->kind = kind;
    b->waiting = request->exchange;
    b->began_ms = backup_now_ms(b);
    b->next_ms[kind] = b->began_ms + b->view->options->backup_interval_ms;
    response->later = true;
    if (uv_timer_start(&b->timer, backup_look, 0, LOOK_MS) != 0) {
        abort(); /* fails only for a handle that is closing */
    }
}

/* Why the command may not run now: 0, or a status. */
static unsigned backup_refuse(struct backup *b, enum backup_kind kind,
                              const struct http_request *request, const char **ret_why)
{
    const struct admin_options *o = b->view->options;
    struct server_metrics *m = server_service(b->view->server)->metrics;
    if (!(kind == BACKUP_SNAPSHOT ? o->snapshot : o->restore)) {
        *ret_why = COMMANDS[kind].off;
        return 503;
    }
    unsigned status = admission_check(b->admission, server_service(b->view->server), request,
                                      backup_now_ms(b), ret_why);
    if (status != 0) {
        log_cause(LOG_WARN, "admin", COMMANDS[kind].names[0], request->peer, *ret_why,
                  TEXT_REFUSED_ADVICE, "result=refused peer=%s reason=\"%s\"", request->peer,
                  *ret_why);
        return status;
    }
    if (b->waiting != NULL || backup_now_ms(b) < b->next_ms[kind]) {
        *(kind == BACKUP_SNAPSHOT ? &m->snapshot_rate_limited_count
                                  : &m->restore_rate_limited_count) += 1;
        *ret_why = "Too soon after the last one: see admin.rateLimiterIntervalInMS";
        return 429;
    }
    return 0;
}

static void snapshot_begin(struct backup *b, const struct http_request *request,
                           struct http_response *response)
{
    struct server_stats stats;
    const char *streaming = http_argument(request, "streaming");
    server_stats(b->view->server, &stats);
    b->target = stats.replication.applied_index;
    b->tries = 0;
    b->streaming = streaming == NULL || strcasecmp(streaming, "true") == 0;
    backup_wait(b, BACKUP_SNAPSHOT, request, response);
}

static void restore_begin(struct backup *b, const struct http_request *request,
                          struct http_response *response)
{
    const struct service *s = server_service(b->view->server);
    const char *why = restore_obstacle(s);
    unsigned status = why != NULL ? 409 : 0;
    struct buf file;
    if (status == 0 && slice_is_null(request->body)) {
        response->body_max = RESTORE_MAX;
        return;
    }
    if (status == 0) {
        http_take_body(request->exchange, &file);
        b->replacement = 0;
        if (restore_load_begin(b, &file)) {
            backup_wait(b, BACKUP_RESTORE, request, response);
            return;
        }
        buf_finish(&file);
        why = "Out of memory";
        status = 500;
    }
    server_service(b->view->server)->metrics->restore_error_count++;
    log_cause(LOG_WARN, "admin", "restore", request->peer, why, TEXT_REFUSED_ADVICE,
              "result=refused peer=%s reason=\"%s\"", request->peer, why);
    backup_tell_failure(BACKUP_RESTORE, status, why, response);
}

static bool is_command(enum backup_kind kind, const char *name)
{
    return strcmp(name, COMMANDS[kind].names[0]) == 0 || strcmp(name, COMMANDS[kind].names[1]) == 0;
}

bool backup_answer(struct backup *b, const char *name, const struct http_request *request,
                   struct http_response *response)
{
    enum backup_kind kind = is_command(BACKUP_SNAPSHOT, name) ? BACKUP_SNAPSHOT : BACKUP_RESTORE;
    const char *why = NULL;
    if (!is_command(kind, name)) {
        return false;
    }
    if (strcmp(request->method, COMMANDS[kind].method) != 0) {
        response->status = 405;
        response->allow = COMMANDS[kind].method;
        buf_append_str(&response->body, "this command needs another method\n");
        return true;
    }
    if (!view_serving(b->view)) {
        backup_tell_failure(kind, 200, TEXT_NOT_SERVING, response); /* 200, as for all commands */
        return true;
    }
    unsigned status = backup_refuse(b, kind, request, &why);
    if (status != 0) {
        backup_tell_failure(kind, status, why, response);
    } else if (kind == BACKUP_SNAPSHOT) {
        snapshot_begin(b, request, response);
    } else {
        restore_begin(b, request, response);
    }
    return true;
}

struct backup *backup_create(uv_loop_t *loop, struct view *v, struct admission *admission)
{
    struct backup *b = calloc(1, sizeof *b);
    if (b == NULL) {
        return NULL;
    }
    b->view = v;
    b->admission = admission;
    if (uv_timer_init(loop, &b->timer) != 0) {
        abort(); /* it cannot fail */
    }
    b->timer.data = b;
    return b;
}

void backup_cancel(struct backup *b)
{
    if (b->waiting != NULL) {
        backup_fail(b, 503, TEXT_NOT_SERVING);
    }
}

static void backup_on_closed(uv_handle_t *handle)
{
    struct backup *b = handle->data;
    if (b->closed != NULL) {
        b->closed(b->closed_ctx);
    }
    free(b);
}

void backup_close(struct backup *b, void (*cb)(void *ctx), void *ctx)
{
    if (b == NULL) {
        return;
    }
    backup_cancel(b);
    b->closed = cb;
    b->closed_ctx = ctx;
    uv_close((uv_handle_t *)&b->timer, backup_on_closed);
}
