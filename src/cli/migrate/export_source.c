#define _GNU_SOURCE /* asprintf */
#include "cli/migrate/export_source.h"

#include "backup/backup_load.h"
#include "cli/backup/backup_download.h"
#include "cli/backup/past.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int source_fail(const struct export_source *x, int rc, char *text)
{
    progress_end(x->progress);
    return found_folder_fail(x->command, rc, text);
}

/* --- folders ---------------------------------------------------------------------------------- */

static int read_apache(const struct export_source *x, struct state **ret)
{
    struct apache_found found;
    if (x->moment.time_ms != 0) {
        fprintf(stderr, "conclave %s: a folder of ZooKeeper is read at a zxid, not at a time\n",
                x->command);
        return CLI_EXIT_USAGE;
    }
    int code = found_folder_read(x->command, x->folder, x->log_dir, x->moment.zxid, &found, ret);
    if (code == 0) {
        apache_found_finish(&found);
    }
    return code;
}

/* Damage that the state does not need is told, too: whoever exports wants to know. */
static void tell_damage(const struct export_source *x, const struct folder_survey *survey)
{
    for (size_t i = 0; i < survey->damage_count; i++) {
        const struct folder_damage *d = &survey->damages[i];
        if (d->kind != FOLDER_FAULT_TORN && d->kind != FOLDER_FAULT_ASIDE) {
            fprintf(stderr, "conclave %s: %s, at byte %llu: %s\n", x->command, d->path,
                    (unsigned long long)d->offset, d->what);
        }
    }
}

static int read_ours(const struct export_source *x, struct state **ret)
{
    struct folder_survey survey;
    struct folder_loaded loaded;
    char *text = NULL;
    int rc = folder_survey(x->folder, &survey);
    if (rc == 0) {
        progress_end(x->progress);
        tell_damage(x, &survey);
        rc = folder_load(x->folder, &survey, &x->moment, &loaded, &text);
    }
    folder_survey_finish(&survey);
    if (rc != 0) {
        return source_fail(x, rc, text);
    }
    *ret = loaded.state;
    return 0;
}

static int export_read_folder(const struct export_source *x, struct state **ret)
{
    long pid = found_folder_user(x->folder, x->log_dir);
    if (pid != 0) {
        fprintf(
            stderr,
            "conclave %s: process %ld uses %s: stop it, or copy the folder and read the copy, or "
            "export from the running server (--server or --admin)\n",
            x->command, pid, x->folder);
        return CLI_EXIT_IO;
    }
    switch (found_folder_kind(x->folder, x->log_dir)) {
    case FOUND_OURS:
    case FOUND_BOTH: /* what was imported has gone on in ours */
        return read_ours(x, ret);
    case FOUND_APACHE:
    case FOUND_NOTHING:
    default:
        return read_apache(x, ret); /* says what is missing */
    }
}

/* --- backups ---------------------------------------------------------------------------------- */

static int read_backups(const struct export_source *x, const char *const *names, size_t count,
                        struct state **ret)
{
    struct backup_load_options options = {.moment = x->moment};
    struct backup_loaded loaded;
    struct past_files files;
    char *text = NULL;
    int code = past_files_open(x->command, names, count, &files);
    if (code != 0) {
        return code;
    }
    options.files = past_files_of(&files, &x->moment, &options.count);
    int rc = backup_load(&options, &loaded, &text);
    past_files_close(&files);
    if (rc != 0) {
        return source_fail(x, rc, text);
    }
    *ret = loaded.state;
    return 0;
}

static int download(const struct export_source *x, const char *file, int fd)
{
    char admin[ROSTER_ADDRESS_MAX];
    struct backup_downloaded done;
    int code = backup_find_admin(x->command, x->common, x->admin, admin);
    if (code != 0) {
        return code;
    }
    const struct backup_request request = {
        .command = x->command, .common = x->common, .admin = admin, .file = file, .fd = fd};
    progress_end(x->progress);
    return backup_download(&request, &done);
}

/* The server sends a backup, which lies in the target folder until it is read. */
static int read_running(const struct export_source *x, struct state **ret)
{
    char *path = NULL;
    int code = CLI_EXIT_INTERNAL;
    bool made = mkdir(x->target, 0700) == 0;
    if (asprintf(&path, "%s/.backup-XXXXXX", x->target) < 0) {
        return fail(x->command, NULL, CONCLAVE_ENOMEM);
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) {
        fprintf(stderr, "conclave %s: %s: no file can be made here: %s\n", x->command, x->target,
                strerror(errno));
        code = CLI_EXIT_IO;
    } else {
        code = download(x, path, fd);
        (void)close(fd);
        const char *const names[] = {path};
        progress_begin(x->progress, "reading", 0);
        code = code == 0 ? read_backups(x, names, 1, ret) : code;
        (void)unlink(path);
    }
    if (code != 0 && made) {
        (void)rmdir(x->target);
    }
    free(path);
    return code;
}

int export_source_read(const struct export_source *x, struct state **ret)
{
    assert(x->folder == NULL || x->file_count == 0);
    progress_begin(x->progress, "reading", 0);
    assert(x->target != NULL && x->progress != NULL);
    int code = x->folder != NULL   ? export_read_folder(x, ret)
               : x->file_count > 0 ? read_backups(x, x->files, x->file_count, ret)
                                   : read_running(x, ret);
    progress_end(x->progress);
    return code;
}
