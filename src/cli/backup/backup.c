/*
 * conclave backup: saves what a server's HTTP port sends at /backup. Every byte is checked on its way, so a file that was
 * reported complete can be restored. The file gets its name when it is complete and on the disk.
 */
#include "backup/backup_load.h"
#include "backup/file/backup_reader.h"
#include "base/json.h"
#include "cli/backup/moment.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/server_query.h"
#include "cli/ops/admin_request.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUIET_MS = 120000 }; /* the server may read a large snapshot before its first byte */

struct backup_options {
    struct common_options common;
    const char *admin;
    const char *since;
};

static const struct option_row ROWS[] = {
    {"admin", 0, OPTION_STRING, offsetof(struct backup_options, admin), "HOST:PORT",
     "The HTTP port of the server (127.0.0.1:8080). Any member will do."},
    {"since", 0, OPTION_STRING, offsetof(struct backup_options, since), "FILE",
     "Only what came after the backup in FILE, full or incremental."},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "backup",
    .forms = (const char *const[]){"FILE [options]", "- [options]", NULL},
    .about =
        "Writes a backup of a running server or ensemble to FILE, or to the standard output: a "
        "consistent state and the changes behind it, up to all that the server had applied when "
        "the backup began. Neither server nor clients wait for it.\n"
        "\n"
        "It needs the superuser, or all permissions on / by an entry other than world's: --auth. "
        "\"conclave restore\" checks and uses the file.",
    .rows = ROWS,
    .more = "With --json: {\"file\", \"bytes\", \"zxid\", \"since_zxid\", \"incremental\", "
            "\"time_ms\", \"ensemble\"}.\n",
    .client = true,
    .operands = {1, 1},
};

/* What comes. */
struct backup_download {
    struct buf head; /* of the answer; when it is complete, the text of an error */
    bool in_body;
    unsigned status;
    struct backup_reader *reader;
    struct backup_header header;
    int fd;
    uint64_t bytes;
    int write_error; /* errno */
    int code;        /* of the reader */
};

static int on_header(void *ctx, const struct backup_header *header)
{
    struct backup_download *d = ctx;
    d->header = *header;
    return 0;
}

static int take_body(struct backup_download *d, struct slice bytes)
{
    if (d->status != 200) {
        buf_append_slice(&d->head, bytes);
        return d->head.len > 65536 ? CONCLAVE_ETOOBIG : 0;
    }
    assert(d->in_body && d->write_error == 0);
    d->code = backup_reader_feed(d->reader, bytes);
    if (d->code == 0 && !fd_write_all(d->fd, bytes)) {
        d->write_error = errno;
        return CONCLAVE_EIO;
    }
    d->bytes += bytes.len;
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
static int download_judge(struct backup_download *d, const struct backup_options *o,
                          const char *file, const struct server_query *ask)
{
    const char *name = USAGE.name;
    uint64_t offset;
    if (d->write_error != 0) {
        fprintf(stderr, "conclave %s: %s: cannot be written: %s\n", name, file,
                strerror(d->write_error));
        return CLI_EXIT_IO;
    }
    if (d->in_body && d->status != 200) {
        int code = admin_request_refused(name, o->admin, d->status, &d->head);
        if (d->status == 409) {
            fprintf(stderr, "conclave %s: take a full backup, without --since\n", name);
        }
        return code;
    }
    if (d->code != 0 || (d->in_body && (d->code = backup_reader_end(d->reader)) != 0)) {
        const char *why = backup_reader_problem(d->reader, &offset);
        fprintf(stderr,
                "conclave %s: %s: what came is not a whole backup: %s%s%s; see the server's log\n",
                name, o->admin, why, ask->error != 0 ? ", " : "", ask->error != 0 ? ask->why : "");
        return CLI_EXIT_FAILED;
    }
    if (!d->in_body) {
        fprintf(stderr, "conclave %s: %s: %s; name a server's HTTP port with --admin HOST:PORT\n",
                name, o->admin,
                ask->error != 0 ? ask->why : "this is not the HTTP port of a server");
        return CLI_EXIT_UNAVAILABLE;
    }
    return 0;
}

/* The path and arguments of the request, for the backup that --since names. */
static int make_target(const struct backup_options *o, struct buf *out)
{
    struct backup_header h;
    uint64_t bytes;
    char *text = NULL;
    buf_append_str(out, "/backup");
    if (o->since == NULL) {
        return 0;
    }
    int rc = backup_read_header(o->since, &h, &bytes, &text);
    if (rc != 0) {
        fprintf(stderr, "conclave %s: %s\n", USAGE.name,
                text != NULL ? text : conclave_strerror(rc));
        free(text);
        return CLI_EXIT_FAILED;
    }
    buf_printf(out, "?since=%" PRIu64 "&term=%" PRIu64 "&zxid=0x%" PRIx64 "&cluster=", h.end_index,
               h.end_term, (uint64_t)h.end_zxid);
    for (size_t i = 0; i < sizeof h.cluster; i++) {
        buf_printf(out, "%02x", h.cluster[i]);
    }
    return 0;
}

static int download_run(struct backup_download *d, const struct backup_options *o, const char *file)
{
    struct server_query ask = {.take = take, .take_ctx = d};
    struct buf target;
    struct buf question;
    char header[ADMIN_AUTH_MAX];
    const char *authorization = admin_authorization(&o->common, header);
    if (!server_query_address(&ask, o->admin)) {
        fprintf(stderr, "conclave %s: --admin wants HOST:PORT, not \"%s\"\n", USAGE.name, o->admin);
        return CLI_EXIT_USAGE;
    }
    buf_init(&target, 0);
    buf_init(&question, 0);
    int code = make_target(o, &target);
    buf_printf(&question, "GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n",
               buf_cstr(&target) != NULL ? buf_cstr(&target) : "", o->admin);
    if (authorization != NULL) {
        buf_printf(&question, "Authorization: %s\r\n", authorization);
    }
    buf_append_str(&question, "\r\n");
    ask.question = buf_slice(&question);
    int64_t quiet_ms = o->common.timeout_ms > QUIET_MS ? o->common.timeout_ms : QUIET_MS;
    if (code == 0) {
        code = buf_ok(&question) && buf_ok(&target)
                   ? server_query_all(USAGE.name, &o->common, quiet_ms, &ask, 1)
                   : fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
        code = code == 0 ? download_judge(d, o, file, &ask) : code;
        buf_finish(&ask.answer);
    }
    buf_finish(&target);
    buf_finish(&question);
    return code;
}

static int print_result(const struct backup_download *d, const struct backup_options *o,
                        const char *file)
{
    const struct backup_header *h = &d->header;
    bool piped = strcmp(file, "-") == 0;
    char hex[2 * BACKUP_CLUSTER_SIZE + 1];
    char when[MOMENT_TEXT_MAX];
    struct json j;
    for (size_t i = 0; i < sizeof h->cluster; i++) {
        snprintf(hex + 2 * i, 3, "%02x", h->cluster[i]);
    }
    if (!o->common.json) {
        fprintf(piped ? stderr : stdout,
                "%s: %s, up to zxid 0x%" PRIx64 ", %s, %" PRIu64 " bytes\n", file,
                h->incremental ? "incremental backup" : "full backup", (uint64_t)h->end_zxid,
                moment_text(h->made_ms, when), d->bytes);
        return 0;
    }
    json_line_begin(&j);
    json_member_string(&j, "file", file);
    json_member_uint(&j, "bytes", d->bytes);
    json_member_hex(&j, "zxid", h->end_zxid);
    json_member_hex(&j, "since_zxid", h->from_zxid);
    json_member_bool(&j, "incremental", h->incremental);
    json_member_int(&j, "time_ms", h->made_ms);
    json_member_string(&j, "ensemble", hex);
    int error = json_line_print(&j, piped ? stderr : stdout);
    return error == 0 ? 0 : fail(USAGE.name, NULL, error);
}

/* Gives the complete file its name. */
static int keep_file(int fd, const char *part, const char *file)
{
    if (fsync(fd) != 0 || link(part, file) != 0) {
        fprintf(stderr, "conclave %s: %s: cannot be written: %s\n", USAGE.name, file,
                strerror(errno));
        return CLI_EXIT_IO;
    }
    return 0;
}

static int run_to_file(struct backup_download *d, const struct backup_options *o, const char *file)
{
    struct buf part;
    buf_init(&part, 0);
    buf_printf(&part, "%s.part", file);
    const char *path = buf_cstr(&part);
    int code;
    if (path == NULL) {
        code = fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    } else if (access(file, F_OK) == 0) {
        fprintf(stderr, "conclave %s: %s exists already: name a new file\n", USAGE.name, file);
        code = CLI_EXIT_USAGE;
    } else if ((d->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)) <
               0) {
        fprintf(stderr, "conclave %s: %s: cannot be made: %s\n", USAGE.name, path, strerror(errno));
        code = CLI_EXIT_IO;
    } else {
        code = download_run(d, o, file);
        code = code == 0 ? keep_file(d->fd, path, file) : code;
        (void)unlink(path);
        close(d->fd);
    }
    buf_finish(&part);
    return code;
}

int command_backup(int argc, char **argv)
{
    struct backup_options o = {.common = COMMON_OPTIONS_INIT, .admin = "127.0.0.1:8080"};
    struct backup_download d = {.fd = STDOUT_FILENO};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &o, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    const char *file = operands.words[0];
    const struct backup_reader_callbacks callbacks = {&d, on_header, NULL};
    buf_init(&d.head, 0);
    d.reader = backup_reader_create(&callbacks);
    if (d.reader == NULL) {
        code = fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    } else {
        code = strcmp(file, "-") == 0 ? download_run(&d, &o, file) : run_to_file(&d, &o, file);
    }
    if (code == 0) {
        code = print_result(&d, &o, file);
    }
    backup_reader_destroy(d.reader);
    buf_finish(&d.head);
    return code;
}
