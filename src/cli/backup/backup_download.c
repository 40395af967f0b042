#include "cli/backup/backup_download.h"

#include "backup/file/backup_reader.h"
#include "base/clock.h"
#include "base/hex.h"
#include "cli/common/connection.h"
#include "cli/common/server_query.h"
#include "cli/ops/admin_request.h"
#include "cli/ops/members_admin.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    QUIET_MS = 120000, /* the server may read a large snapshot before its first byte */
    ASK_MS = 2000,
    PROGRESS_MS = 500,
    SINCE_GONE = 409, /* the server cannot continue the earlier backup */
};

/* What comes. */
struct backup_download {
    struct buf head; /* of the answer; when it is complete, the text of an error */
    bool in_body;
    unsigned status;
    struct backup_reader *reader;
    struct backup_header header;
    uint64_t bytes;
    int write_error; /* errno */
    int code;        /* of the reader */
    const struct backup_request *request;
    bool other_ensemble;
    int64_t shown_ms; /* when the progress was shown last */
};

static int on_header(void *ctx, const struct backup_header *header)
{
    struct backup_download *d = ctx;
    const uint8_t *wanted = d->request->ensemble;
    d->header = *header;
    d->other_ensemble =
        wanted != NULL && memcmp(header->cluster, wanted, sizeof header->cluster) != 0;
    return d->other_ensemble ? CONCLAVE_EFOREIGN : 0;
}

/* Shows the bytes that came on a terminal; `end` takes the line back. */
static void show_progress(struct backup_download *d, bool end)
{
    int64_t now_ms = clock_monotonic_ms(clock_system());
    if (isatty(STDERR_FILENO) != 1 || (end && d->shown_ms == 0)) {
        return;
    }
    if (end) {
        fputs("\r\033[K", stderr);
    } else if (now_ms - d->shown_ms >= PROGRESS_MS) {
        fprintf(stderr, "\r%" PRIu64 " bytes", d->bytes);
        d->shown_ms = now_ms;
    }
}

static int take_body(struct backup_download *d, struct slice bytes)
{
    if (d->status != 200) {
        buf_append_slice(&d->head, bytes);
        return d->head.len > 65536 ? CONCLAVE_ETOOBIG : 0;
    }
    assert(d->in_body && d->write_error == 0);
    d->code = backup_reader_feed(d->reader, bytes);
    if (d->code == 0 && !fd_write_all(d->request->fd, bytes)) {
        d->write_error = errno;
        return CONCLAVE_EIO;
    }
    d->bytes += bytes.len;
    show_progress(d, false);
    return d->code;
}

static int take(void *ctx, struct slice bytes)
{
    struct backup_download *d = ctx;
    if (d->in_body) {
        return take_body(d, bytes);
    }
    buf_append_slice(&d->head, bytes);
    const char *text = buf_cstr(&d->head);
    const char *end = text != NULL ? strstr(text, "\r\n\r\n") : NULL;
    if (end == NULL) {
        return d->head.len > 65536 ? CONCLAVE_EPROTO : 0;
    }
    if (strncmp(text, "HTTP/1.", 7) != 0) {
        return CONCLAVE_EPROTO;
    }
    d->status = (unsigned)strtoul(text + 9, NULL, 10);
    assert(!d->in_body && d->bytes == 0);
    d->in_body = true;
    struct buf rest;
    size_t at = (size_t)(end + 4 - text);
    buf_init(&rest, 0);
    buf_append(&rest, d->head.data + at, d->head.len - at);
    buf_reset(&d->head);
    int rc = buf_ok(&rest) ? take_body(d, buf_slice(&rest)) : CONCLAVE_ENOMEM;
    buf_finish(&rest);
    return rc;
}

/* Why the download did not succeed: printed. */
static int download_judge(struct backup_download *d, const struct server_query *ask)
{
    const struct backup_request *q = d->request;
    uint64_t offset;
    if (d->write_error != 0) {
        fprintf(stderr, "conclave %s: %s: cannot be written: %s\n", q->command, q->file,
                strerror(d->write_error));
        return CLI_EXIT_IO;
    }
    if (d->in_body && d->status != 200) {
        return admin_request_refused(q->command, q->admin, d->status, &d->head);
    }
    if (d->other_ensemble) {
        fprintf(stderr,
                "conclave %s: %s: this server is of another ensemble than the newest backup in the "
                "folder: name another folder, or begin a new series in it with --full\n",
                q->command, q->admin);
        return CLI_EXIT_FAILED;
    }
    if (d->code != 0 || (d->in_body && (d->code = backup_reader_end(d->reader)) != 0)) {
        const char *why = backup_reader_problem(d->reader, &offset);
        fprintf(stderr,
                "conclave %s: %s: what came is not a whole backup: %s%s%s; see the server's log\n",
                q->command, q->admin, why, ask->error != 0 ? ", " : "",
                ask->error != 0 ? ask->why : "");
        return CLI_EXIT_FAILED;
    }
    if (!d->in_body) {
        fprintf(stderr, "conclave %s: %s: %s; name a server's HTTP port with --admin HOST:PORT\n",
                q->command, q->admin,
                ask->error != 0 ? ask->why : "this is not the HTTP port of a server");
        return CLI_EXIT_UNAVAILABLE;
    }
    return 0;
}

/* The path and arguments of the request. */
static void make_target(const struct backup_header *since, struct buf *out)
{
    char cluster[2 * BACKUP_CLUSTER_SIZE + 1];
    buf_append_str(out, "/backup");
    if (since == NULL) {
        return;
    }
    hex_encode(since->cluster, sizeof since->cluster, cluster);
    buf_printf(out, "?since=%" PRIu64 "&term=%" PRIu64 "&zxid=0x%" PRIx64 "&cluster=%s",
               since->end_index, since->end_term, (uint64_t)since->end_zxid, cluster);
}

static int download_ask(struct backup_download *d, struct server_query *ask)
{
    const struct backup_request *q = d->request;
    struct buf question;
    char header[ADMIN_AUTH_MAX];
    const char *authorization = admin_authorization(q->common, header);
    buf_init(&question, 0);
    buf_append_str(&question, "GET ");
    make_target(q->since, &question);
    buf_printf(&question, " HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n", q->admin);
    if (authorization != NULL) {
        buf_printf(&question, "Authorization: %s\r\n", authorization);
    }
    buf_append_str(&question, "\r\n");
    ask->question = buf_slice(&question);
    int64_t quiet_ms = q->common->timeout_ms > QUIET_MS ? q->common->timeout_ms : QUIET_MS;
    int code = buf_ok(&question) ? server_query_all(q->command, q->common, quiet_ms, ask, 1)
                                 : fail(q->command, NULL, CONCLAVE_ENOMEM);
    show_progress(d, true);
    code = code == 0 ? download_judge(d, ask) : code;
    buf_finish(&ask->answer);
    buf_finish(&question);
    return code;
}

int backup_download(const struct backup_request *request, struct backup_downloaded *ret)
{
    struct backup_download d = {.request = request};
    const struct backup_reader_callbacks callbacks = {&d, on_header, NULL};
    struct server_query ask = {.take = take, .take_ctx = &d};
    *ret = (struct backup_downloaded){.bytes = 0};
    if (!server_query_address(&ask, request->admin)) {
        fprintf(stderr, "conclave %s: --admin wants HOST:PORT, not \"%s\"\n", request->command,
                request->admin);
        return CLI_EXIT_USAGE;
    }
    buf_init(&d.head, 0);
    d.reader = backup_reader_create(&callbacks);
    int code =
        d.reader != NULL ? download_ask(&d, &ask) : fail(request->command, NULL, CONCLAVE_ENOMEM);
    ret->header = d.header;
    ret->bytes = d.bytes;
    ret->since_gone = d.in_body && d.status == SINCE_GONE;
    backup_reader_destroy(d.reader);
    buf_finish(&d.head);
    return code;
}

int backup_find_admin(const char *command, const struct common_options *common, const char *admin,
                      char ret[ROSTER_ADDRESS_MAX])
{
    const char *environment = getenv("CONCLAVE_SERVER");
    struct ensemble_view view;
    bool named = common->server != NULL || (environment != NULL && environment[0] != '\0');
    if (admin != NULL || !named) {
        snprintf(ret, ROSTER_ADDRESS_MAX, "%s", admin != NULL ? admin : "127.0.0.1:8080");
        return 0;
    }
    int code = ensemble_view_gather(command, common, ASK_MS, &view);
    if (code == 0) {
        const struct ensemble_view_server *best = ensemble_view_best(&view);
        const struct admin_wanted wanted = {.leader = best != NULL ? best->leader : 0,
                                            .spare_leader = true};
        code = members_admin_find(command, common, &view, &wanted, ret);
    }
    ensemble_view_finish(&view);
    return code;
}
