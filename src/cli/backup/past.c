#include "cli/backup/past.h"

#include "cli/backup/moment.h"
#include "cli/common/connection.h"
#include "cli/common/node_output.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct option_row PAST_ROWS[] = {
    {"dir", 0, OPTION_STRING, offsetof(struct past_options, dir), "DIR",
     "A folder of \"conclave backup --dir\"."},
    {"from", 0, OPTION_ADD, offsetof(struct past_options, from), "FILE",
     "A backup (conclave-backup(1)): a full one, then the incremental ones in their order, one "
     "--from each."},
    {.name = NULL},
};

/* --- files ------------------------------------------------------------------------------------ */

static int past_fail(const char *command, int rc, char *text)
{
    fprintf(stderr, "conclave %s: %s\n", command, text != NULL ? text : conclave_strerror(rc));
    free(text);
    return rc == CONCLAVE_EIO ? CLI_EXIT_IO : CLI_EXIT_FAILED;
}

static int past_folder_open(const char *command, const char *dir, struct past_files *ret)
{
    char *text = NULL;
    *ret = (struct past_files){.in_folder = true};
    int rc = backup_folder_read(dir, &ret->folder, &text);
    if (rc == 0 && ret->folder.series_count == 0) {
        const char *problems = buf_cstr(&ret->folder.problems);
        rc = text_fail(&text, CONCLAVE_EINVAL, "%s: there is no full backup in this folder%s%.*s",
                       dir, problems != NULL && *problems != '\0' ? ", but " : "",
                       problems != NULL ? (int)strcspn(problems, "\n") : 0,
                       problems != NULL ? problems : "");
    }
    if (rc != 0) {
        backup_folder_finish(&ret->folder);
        return past_fail(command, rc, text);
    }
    return 0;
}

int past_files_open(const char *command, const char *const *names, size_t count,
                    struct past_files *ret)
{
    struct stat st;
    assert(count > 0);
    *ret = (struct past_files){.count = count};
    if (count == 1 && stat(names[0], &st) == 0 && S_ISDIR(st.st_mode)) {
        return past_folder_open(command, names[0], ret);
    }
    ret->names = calloc(count, sizeof *ret->names);
    if (ret->names == NULL) {
        return fail(command, NULL, CONCLAVE_ENOMEM);
    }
    memcpy(ret->names, names, count * sizeof *names);
    return 0;
}

void past_files_close(struct past_files *f)
{
    free(f->names);
    if (f->in_folder) {
        backup_folder_finish(&f->folder);
    }
}

const char *const *past_files_of(const struct past_files *f, const struct backup_moment *moment,
                                 size_t *ret_count)
{
    const struct backup_series *s = f->in_folder ? backup_folder_find(&f->folder, moment) : NULL;
    assert(s != NULL || !f->in_folder);
    *ret_count = s != NULL ? s->count : f->count;
    return s != NULL ? s->files : f->names;
}

bool past_given(const struct past_options *o, size_t more_count)
{
    return o->dir != NULL || o->from.count + more_count > 0;
}

/* The files of the options and behind the operands. 0, or the exit code. */
static int past_open(const struct command_usage *usage, const struct past_options *o, char **more,
                     size_t more_count, struct past_files *ret)
{
    size_t count = o->from.count + more_count;
    if (!past_given(o, more_count)) {
        return usage_error(usage, "name the backups with --dir DIR or --from FILE");
    }
    if (o->dir != NULL) {
        return count == 0 ? past_folder_open(usage->name, o->dir, ret)
                          : usage_error(usage, "give --dir or --from, not both");
    }
    const char **names = calloc(count, sizeof *names);
    if (names == NULL) {
        return fail(usage->name, NULL, CONCLAVE_ENOMEM);
    }
    for (size_t i = 0; i < count; i++) {
        names[i] = i < o->from.count ? o->from.items[i].text : more[i - o->from.count];
    }
    int code = past_files_open(usage->name, names, count, ret);
    free(names);
    return code;
}

int past_load(const struct command_usage *usage, const struct past_options *o, char **more,
              size_t more_count, struct backup_loaded *ret)
{
    struct backup_load_options options = {.count = 0};
    struct past_files files;
    char *text = NULL;
    if (o->at != NULL && !moment_parse(o->at, &options.moment)) {
        return usage_error(usage,
                           "--at wants a zxid (0x1f) or a time in UTC (\"2026-01-31 17:00:00\")");
    }
    int code = past_open(usage, o, more, more_count, &files);
    if (code != 0) {
        return code;
    }
    options.files = past_files_of(&files, &options.moment, &options.count);
    int rc = backup_load(&options, ret, &text);
    past_files_close(&files);
    return rc != 0 ? past_fail(usage->name, rc, text) : 0;
}

/* --- walks ------------------------------------------------------------------------------------ */

static void walk_changed(void *ctx, const struct state *s, const struct backup_change *change)
{
    struct past_walk *w = ctx;
    if (w->overlaps && state_zxid(s) <= w->seen_zxid) {
        return;
    }
    assert(!w->gap && w->changed != NULL);
    w->gap = w->other && change == NULL;
    w->overlaps = false;
    w->other = false;
    w->changed(w->ctx, s, change);
    w->seen_zxid = state_zxid(s);
    w->gap = false;
}

/* 0; CONCLAVE_ECORRUPT: the files are damaged, and nothing was told, with *ret_text; or another error. */
static int walk_series(struct past_walk *w, const char *const *files, size_t count, char **ret_text)
{
    const struct backup_load_options options = {
        .files = files, .count = count, .changed = walk_changed, .ctx = w};
    struct backup_loaded loaded;
    int rc = backup_load(&options, &loaded, ret_text);
    if (rc == 0) {
        backup_loaded_finish(&loaded);
    }
    return rc;
}

/* All series but damaged ones, which are named. */
static int walk_folder(const struct command_usage *usage, struct past_walk *w,
                       const struct backup_folder *f)
{
    size_t good = 0;
    for (size_t i = 0; i < f->series_count; i++) {
        const struct backup_series *s = &f->series[i];
        char *text = NULL;
        w->other = i > 0;
        /* zxids of another ensemble are others */
        w->overlaps =
            i > 0 && memcmp(s->header.cluster, s[-1].header.cluster, sizeof s->header.cluster) == 0;
        int rc = walk_series(w, s->files, s->count, &text);
        if (rc != 0 && (rc != CONCLAVE_ECORRUPT || (i + 1 == f->series_count && good == 0))) {
            return past_fail(usage->name, rc, text);
        }
        if (rc != 0) {
            fprintf(stderr, "conclave %s: %s; what it begins or continues is left out\n",
                    usage->name, text);
        }
        free(text);
        good += rc == 0;
    }
    return 0;
}

int past_walk(const struct command_usage *usage, const struct past_options *o, char **more,
              size_t more_count, struct past_walk *w)
{
    struct past_files files;
    char *text = NULL;
    int code = past_open(usage, o, more, more_count, &files);
    if (code != 0) {
        return code;
    }
    if (files.in_folder) {
        code = walk_folder(usage, w, &files.folder);
    } else {
        int rc = walk_series(w, files.names, files.count, &text);
        code = rc != 0 ? past_fail(usage->name, rc, text) : 0;
    }
    past_files_close(&files);
    return code;
}

/* --- nodes ------------------------------------------------------------------------------------ */

/* Asks with the rights of the superuser. */
static int past_query(const struct state *s, int32_t type, struct slice path, struct buf *out)
{
    const struct wire_id super = {slice_str("super"), slice_str("")};
    const struct wire_exists_request question = {path, false};
    const struct wire_get_acl_request question_acl = {path};
    struct state_watch watch;
    struct buf body;
    struct buf ids;
    buf_init(&body, 0);
    buf_init(&ids, 0);
    buf_reset(out);
    wire_encode_id(&ids, &super);
    if (type == WIRE_GET_ACL) {
        wire_encode_get_acl_request(&body, &question_acl);
    } else {
        wire_encode_exists_request(&body, &question);
    }
    int rc = buf_ok(&body) && buf_ok(&ids)
                 ? state_query(s, type, wire_vector_make(&ids, 1), buf_slice(&body), out, &watch)
                 : CONCLAVE_ENOMEM;
    buf_finish(&body);
    buf_finish(&ids);
    return rc;
}

int past_stat(const struct state *s, struct slice path, struct wire_stat *ret)
{
    struct wire_exists_response answer;
    struct buf out;
    buf_init(&out, 0);
    int rc = past_query(s, WIRE_EXISTS, path, &out);
    struct wire_reader r = wire_reader_make(buf_slice(&out));
    rc = rc == 0 ? wire_decode_exists_response(&r, &answer) : rc;
    if (rc == 0) {
        *ret = answer.stat;
    }
    buf_finish(&out);
    return rc;
}

int past_data(const struct state *s, struct slice path, struct buf *out,
              struct wire_get_data_response *ret)
{
    int rc = past_query(s, WIRE_GET_DATA, path, out);
    struct wire_reader r = wire_reader_make(buf_slice(out));
    return rc == 0 ? wire_decode_get_data_response(&r, ret) : rc;
}

int past_acl(const struct state *s, struct slice path, struct buf *out,
             struct wire_get_acl_response *ret)
{
    int rc = past_query(s, WIRE_GET_ACL, path, out);
    struct wire_reader r = wire_reader_make(buf_slice(out));
    return rc == 0 ? wire_decode_get_acl_response(&r, ret) : rc;
}

int past_children(const struct state *s, struct slice path, struct buf *out,
                  struct wire_get_children_response *ret)
{
    int rc = past_query(s, WIRE_GET_CHILDREN, path, out);
    struct wire_reader r = wire_reader_make(buf_slice(out));
    return rc == 0 ? wire_decode_get_children_response(&r, ret) : rc;
}

static int past_print(const struct wire_get_data_response *node, const char *path, bool as_json)
{
    size_t len = slice_is_null(node->data) ? 0 : node->data.len;
    if (as_json) {
        const struct wire_stat *s = &node->stat;
        const struct conclave_stat stat = {
            s->czxid,       s->mzxid,        s->ctime,    s->mtime,
            s->version,     s->cversion,     s->aversion, s->ephemeral_owner,
            s->data_length, s->num_children, s->pzxid};
        struct json j;
        json_line_begin(&j);
        json_member_string(&j, "path", path);
        json_data(&j, slice_is_null(node->data) ? NULL : node->data.data, len);
        stat_json(&j, &stat);
        return json_line_print(&j, stdout);
    }
    bool written = len == 0 || fwrite(node->data.data, 1, len, stdout) == len;
    if (written && len > 0 && node->data.data[len - 1] != '\n' && isatty(1) == 1) {
        written = putchar('\n') != EOF;
    }
    return written ? 0 : CONCLAVE_EIO;
}

int past_get(const struct command_usage *usage, const struct past_options *o, const char *path,
             bool as_json)
{
    struct backup_loaded loaded;
    struct wire_get_data_response node;
    struct buf out;
    int code = past_load(usage, o, NULL, 0, &loaded);
    if (code != 0) {
        return code;
    }
    buf_init(&out, 0);
    int error = past_data(loaded.state, slice_str(path), &out, &node);
    error = error == 0 ? past_print(&node, path, as_json) : error;
    buf_finish(&out);
    backup_loaded_finish(&loaded);
    return error == 0 ? 0 : fail(usage->name, path, error);
}
