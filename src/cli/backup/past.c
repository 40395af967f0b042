#include "cli/backup/past.h"

#include "cli/backup/moment.h"
#include "cli/common/connection.h"
#include "cli/common/node_output.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const struct option_row PAST_ROWS[] = {
    {"from", 0, OPTION_ADD, offsetof(struct past_options, from), "FILE",
     "A backup (conclave-backup(1)): a full one, then the incremental ones in their order, one "
     "--from each."},
    {.name = NULL},
};

int past_load(const struct command_usage *usage, const struct past_options *o, char **more,
              size_t more_count,
              void (*changed)(void *ctx, const struct state *s, const struct backup_change *change),
              void *ctx, struct backup_loaded *ret)
{
    struct backup_load_options options = {.changed = changed, .ctx = ctx};
    char *text = NULL;
    if (o->from.count + more_count == 0) {
        return usage_error(usage, "name the backups with --from FILE");
    }
    if (o->at != NULL && !moment_parse(o->at, &options.moment)) {
        return usage_error(usage,
                           "--at wants a zxid (0x1f) or a time in UTC (\"2026-01-31 17:00:00\")");
    }
    const char **files = calloc(o->from.count + more_count, sizeof *files);
    if (files == NULL) {
        return fail(usage->name, NULL, CONCLAVE_ENOMEM);
    }
    for (size_t i = 0; i < o->from.count; i++) {
        files[options.count++] = o->from.items[i].text;
    }
    for (size_t i = 0; i < more_count; i++) {
        files[options.count++] = more[i];
    }
    options.files = files;
    int rc = backup_load(&options, ret, &text);
    free(files);
    if (rc != 0) {
        fprintf(stderr, "conclave %s: %s\n", usage->name,
                text != NULL ? text : conclave_strerror(rc));
        free(text);
        return rc == CONCLAVE_EIO ? CLI_EXIT_IO : CLI_EXIT_FAILED;
    }
    assert(ret->state != NULL);
    return 0;
}

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
    int code = past_load(usage, o, NULL, 0, NULL, NULL, &loaded);
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
