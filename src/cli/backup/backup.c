/*
 * conclave backup: saves what a server's HTTP port sends at /backup. Every byte is checked on its way, so a file that was
 * reported complete can be restored. The file gets its name when it is complete and on the disk.
 */
#include "backup/backup_load.h"
#include "base/hex.h"
#include "base/json.h"
#include "cli/backup/backup_dir.h"
#include "cli/backup/backup_download.h"
#include "cli/backup/moment.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FULL_EVERY_MS = 7 * 86400 * 1000 };

struct backup_options {
    struct common_options common;
    const char *admin;
    const char *since;
    const char *dir;
    const char *full_every;
    const char *keep_age;
    const char *keep_size;
    bool full;
};

static const struct option_row ROWS[] = {
    {"admin", 0, OPTION_STRING, offsetof(struct backup_options, admin), "HOST:PORT",
     "The HTTP port of the server. Any member will do. Default: that of a server of --server or "
     "$CONCLAVE_SERVER, rather not the leader; without these 127.0.0.1:8080."},
    {"since", 0, OPTION_STRING, offsetof(struct backup_options, since), "FILE",
     "Only what came after the backup in FILE, full or incremental."},
    {"dir", 0, OPTION_STRING, offsetof(struct backup_options, dir), "DIR",
     "Add a file to the backups in DIR, for a timer. It continues them, or is a full backup where "
     "that is due."},
    {"full-every", 0, OPTION_STRING, offsetof(struct backup_options, full_every), "AGE",
     "With --dir: a full backup when the newest one is this old (7d)."},
    {"full", 0, OPTION_FLAG, offsetof(struct backup_options, full), NULL,
     "With --dir: a full backup now, of whichever ensemble."},
    {"keep-age", 0, OPTION_STRING, offsetof(struct backup_options, keep_age), "AGE",
     "With --dir: remove what is older, such as 30d. A full backup goes together with all that "
     "continue it; the newest ones stay."},
    {"keep-size", 0, OPTION_STRING, offsetof(struct backup_options, keep_size), "SIZE",
     "With --dir: remove the oldest until all have at most SIZE, such as 10G."},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "backup",
    .forms = (const char *const[]){"FILE [options]", "- [options]", "--dir DIR [options]", NULL},
    .about =
        "Writes a backup of a running server or ensemble to FILE, or to the standard output: a "
        "consistent state and the changes behind it, up to all that the server had applied when "
        "the backup began. Neither server nor clients wait for it.\n"
        "\n"
        "It needs the superuser, or all permissions on / by an entry other than world's: --auth. "
        "\"conclave restore\" checks and uses the file.",
    .rows = ROWS,
    .more = "With --json: {\"file\", \"bytes\", \"zxid\", \"since_zxid\", \"incremental\", "
            "\"time_ms\", \"ensemble\"}; with --dir also {\"dir\", \"series\", \"files\", "
            "\"dir_bytes\", \"removed_series\", \"removed_files\", \"removed_bytes\"}.\n",
    .client = true,
    .operands = {0, 1},
};

static void print_line(FILE *out, const char *file, const struct backup_downloaded *d,
                       const struct backup_options *o, const struct backup_dir_done *dir)
{
    const struct backup_header *h = &d->header;
    char when[MOMENT_TEXT_MAX];
    fprintf(out, "%s: %s, up to zxid 0x%" PRIx64 ", %s, %" PRIu64 " bytes\n", file,
            h->incremental ? "incremental backup" : "full backup", (uint64_t)h->end_zxid,
            moment_text(h->made_ms, when), d->bytes);
    if (dir != NULL) {
        fprintf(
            out,
            "%s: %zu series, %zu files, %" PRIu64 " bytes; removed %zu files, %" PRIu64 " bytes\n",
            o->dir, dir->series, dir->files, dir->bytes, dir->removed_files, dir->removed_bytes);
    }
}

/* dir: NULL without --dir. */
static int print_result(const char *file, const struct backup_downloaded *d,
                        const struct backup_options *o, const struct backup_dir_done *dir)
{
    const struct backup_header *h = &d->header;
    FILE *out = strcmp(file, "-") == 0 ? stderr : stdout;
    char hex[2 * BACKUP_CLUSTER_SIZE + 1];
    struct json j;
    if (!o->common.json) {
        print_line(out, file, d, o, dir);
        return 0;
    }
    hex_encode(h->cluster, sizeof h->cluster, hex);
    json_line_begin(&j);
    json_member_string(&j, "file", file);
    json_member_uint(&j, "bytes", d->bytes);
    json_member_hex(&j, "zxid", h->end_zxid);
    json_member_hex(&j, "since_zxid", h->from_zxid);
    json_member_bool(&j, "incremental", h->incremental);
    json_member_int(&j, "time_ms", h->made_ms);
    json_member_string(&j, "ensemble", hex);
    if (dir != NULL) {
        json_member_string(&j, "dir", o->dir);
        json_member_uint(&j, "series", dir->series);
        json_member_uint(&j, "files", dir->files);
        json_member_uint(&j, "dir_bytes", dir->bytes);
        json_member_uint(&j, "removed_series", dir->removed_series);
        json_member_uint(&j, "removed_files", dir->removed_files);
        json_member_uint(&j, "removed_bytes", dir->removed_bytes);
    }
    int error = json_line_print(&j, out);
    return error == 0 ? 0 : fail(USAGE.name, NULL, error);
}

/* --- one file --------------------------------------------------------------------------------- */

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

static int download_to(const struct backup_options *o, const char *admin, const char *file, int fd,
                       struct backup_downloaded *ret)
{
    struct backup_header since;
    struct backup_request request = {
        .command = USAGE.name, .common = &o->common, .admin = admin, .file = file, .fd = fd};
    uint64_t bytes;
    char *text = NULL;
    int rc = o->since != NULL ? backup_read_header(o->since, &since, &bytes, &text) : 0;
    if (rc != 0) {
        fprintf(stderr, "conclave %s: %s\n", USAGE.name,
                text != NULL ? text : conclave_strerror(rc));
        free(text);
        return CLI_EXIT_FAILED;
    }
    request.since = o->since != NULL ? &since : NULL;
    int code = backup_download(&request, ret);
    if (code != 0 && ret->since_gone) {
        fprintf(stderr, "conclave %s: take a full backup, without --since\n", USAGE.name);
    }
    return code;
}

static int run_to_file(const struct backup_options *o, const char *admin, const char *file,
                       struct backup_downloaded *ret)
{
    struct buf part;
    buf_init(&part, 0);
    buf_printf(&part, "%s.part", file);
    const char *path = buf_cstr(&part);
    int code;
    int fd;
    if (path == NULL) {
        code = fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    } else if (access(file, F_OK) == 0) {
        fprintf(stderr, "conclave %s: %s exists already: name a new file\n", USAGE.name, file);
        code = CLI_EXIT_USAGE;
    } else if ((fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0) {
        fprintf(stderr, "conclave %s: %s: cannot be made: %s\n", USAGE.name, path, strerror(errno));
        code = CLI_EXIT_IO;
    } else {
        code = download_to(o, admin, file, fd, ret);
        code = code == 0 ? keep_file(fd, path, file) : code;
        (void)unlink(path);
        close(fd);
    }
    buf_finish(&part);
    return code;
}

static int run_file(const struct backup_options *o, const char *admin, const char *file)
{
    struct backup_downloaded d;
    int code = strcmp(file, "-") == 0 ? download_to(o, admin, file, STDOUT_FILENO, &d)
                                      : run_to_file(o, admin, file, &d);
    return code == 0 ? print_result(file, &d, o, NULL) : code;
}

/* --- a folder --------------------------------------------------------------------------------- */

/* Reads the values. OPTIONS_GO_ON, or the exit code. */
static int read_dir_options(const struct backup_options *o, struct backup_dir_options *ret)
{
    const struct usage_rule rules[] = {
        {o->full_every != NULL && !backup_age_parse(o->full_every, &ret->full_every_ms),
         "--full-every wants an age, such as 7d or 12h"},
        {o->keep_age != NULL && !backup_age_parse(o->keep_age, &ret->keep.age_ms),
         "--keep-age wants an age, such as 30d or 12h"},
        {o->keep_size != NULL && !backup_size_parse(o->keep_size, &ret->keep.bytes),
         "--keep-size wants a size, such as 10G or 500M"},
        {false, NULL},
    };
    return usage_check(&USAGE, rules);
}

static int run_dir(const struct backup_dir_options *dir, const struct backup_options *o)
{
    struct backup_dir_done done;
    int code = backup_to_dir(dir, &done);
    if (done.file != NULL) {
        int printed = print_result(done.file, &done.backup, o, &done);
        code = code == 0 ? printed : code;
    }
    free(done.file);
    return code;
}

int command_backup(int argc, char **argv)
{
    struct backup_options o = {.common = COMMON_OPTIONS_INIT};
    struct operands operands;
    char admin[ROSTER_ADDRESS_MAX];
    int code = options_parse(&USAGE, argc, argv, &o, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    struct backup_dir_options dir = {
        .common = &o.common,
        .admin = admin,
        .dir = o.dir,
        .full = o.full,
        .full_every_ms = FULL_EVERY_MS,
    };
    bool of_dir = o.full || o.full_every != NULL || o.keep_age != NULL || o.keep_size != NULL;
    const struct usage_rule rules[] = {
        {operands.count + (o.dir != NULL) != 1, "give a FILE, - or --dir DIR"},
        {o.dir != NULL && o.since != NULL, "--since goes with FILE: --dir finds it itself"},
        {o.dir == NULL && of_dir, "--full, --full-every, --keep-age and --keep-size go with --dir"},
        {false, NULL},
    };
    code = usage_check(&USAGE, rules);
    code = code == OPTIONS_GO_ON ? read_dir_options(&o, &dir) : code;
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    code = backup_find_admin(USAGE.name, &o.common, o.admin, admin);
    if (code == 0) {
        code = o.dir != NULL ? run_dir(&dir, &o) : run_file(&o, admin, operands.words[0]);
    }
    return output_end(USAGE.name, code);
}
