#include "cli/backup/branch_copy.h"

#include "base/json.h"
#include "cli/backup/past.h"
#include "cli/common/connection.h"
#include "tree/tree.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The writes of one multi, with their bytes. */
struct copy_batch {
    struct conclave_op parts[COPY_PARTS];
    void *owned[COPY_PARTS]; /* one block per part */
    size_t count;
    size_t bytes;
};

struct copying {
    const struct branch_copy *o;
    struct conclave_client *client;
    struct branch_copied *done;
    struct copy_batch batch;
    size_t made;    /* nodes in the batch that are new */
    char **waiting; /* paths in the state that are still to be copied: a stack */
    size_t n_waiting;
    size_t cap_waiting;
    struct buf data;
    struct buf acl;
    struct buf children;
};

static void batch_reset(struct copy_batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        free(b->owned[i]);
    }
    b->count = 0;
    b->bytes = 0;
}

static void copy_progress(const struct copying *c)
{
    if (isatty(STDERR_FILENO) == 1) {
        fprintf(stderr, "\r%" PRIu64 " nodes", c->done->nodes + c->done->changed);
    }
}

/* Names the part of a multi that failed. */
static int copy_failed(const struct copying *c, const struct conclave_reply *reply, int error)
{
    const char *path = c->o->to;
    for (size_t i = 0; reply != NULL && i < c->batch.count; i++) {
        if (i < reply->results_count && reply->results[i]->error == error) {
            path = c->batch.parts[i].path;
            break;
        }
    }
    if (isatty(STDERR_FILENO) == 1) {
        fputc('\n', stderr);
    }
    if (c->done->nodes + c->done->changed > 0) {
        fprintf(stderr, "conclave %s: %" PRIu64 " nodes were written before the error\n",
                c->o->command, c->done->nodes + c->done->changed);
    }
    return fail(c->o->command, path, error);
}

static int copy_flush(struct copying *c)
{
    struct conclave_reply *reply = NULL;
    if (c->batch.count == 0) {
        return 0;
    }
    assert(c->batch.count <= COPY_PARTS);
    struct conclave_op op = conclave_op_multi(c->batch.parts, c->batch.count);
    int error = conclave_call(c->client, &op, &reply);
    int code = error != 0 ? copy_failed(c, reply, error) : 0;
    conclave_reply_free(reply);
    if (code == 0) {
        c->done->nodes += c->made;
        copy_progress(c);
    }
    c->made = 0;
    batch_reset(&c->batch);
    return code;
}

/* The path where a node of the state goes, on the heap. */
static char *copy_target(const struct branch_copy *o, const char *path)
{
    const char *rest = path + (strcmp(o->from, "/") == 0 ? 0 : strlen(o->from));
    const char *base = strcmp(o->to, "/") == 0 ? "" : o->to;
    rest = strcmp(rest, "/") == 0 ? "" : rest;
    struct buf b;
    buf_init(&b, 0);
    buf_printf(&b, "%s%s", base, rest);
    const char *text = buf_cstr(&b);
    char *target = text != NULL ? strdup(text[0] != '\0' ? text : "/") : NULL;
    buf_finish(&b);
    return target;
}

/* Copies data, ACL and strings of a node into one block behind its ACL entries. */
static int copy_part(struct copying *c, const char *target,
                     const struct wire_get_data_response *node, struct wire_vector acl,
                     struct conclave_op *ret, void **ret_owned)
{
    size_t count = acl.count > 0 ? (size_t)acl.count : 0;
    size_t data_len = slice_is_null(node->data) ? 0 : node->data.len;
    size_t room = (count + 1) * sizeof(struct conclave_acl) + data_len + strlen(target) + 1 +
                  (count > 0 ? acl.items.len + 2 * count : 0);
    struct conclave_acl *entries = calloc(1, room);
    if (entries == NULL) {
        return fail(c->o->command, NULL, CONCLAVE_ENOMEM);
    }
    char *at = (char *)(entries + count + 1);
    struct wire_acl entry;
    for (size_t i = 0; wire_next_acl(&acl, &entry); i++) {
        entries[i].perms = entry.perms;
        entries[i].scheme = at;
        memcpy(at, entry.id.scheme.data, entry.id.scheme.len);
        at += entry.id.scheme.len + 1;
        entries[i].id = at;
        memcpy(at, entry.id.id.data, entry.id.id.len);
        at += entry.id.id.len + 1;
    }
    *ret = conclave_op_create(at, NULL, data_len, CONCLAVE_PERSISTENT);
    memcpy(at, target, strlen(target) + 1);
    at += strlen(target) + 1;
    if (!slice_is_null(node->data)) {
        memcpy(at, node->data.data, data_len);
        ret->data = at;
    }
    assert(at + data_len <= (char *)entries + room);
    ret->acl = entries;
    ret->acl_count = count;
    *ret_owned = entries;
    return 0;
}

static void batch_add_part(struct copying *c, const struct conclave_op *op, void *owned)
{
    assert(c->batch.count < COPY_PARTS && c->made <= c->batch.count);
    c->batch.parts[c->batch.count] = *op;
    c->batch.owned[c->batch.count++] = owned;
    c->batch.bytes += op->data_len + strlen(op->path) + 64;
}

/* Merging: a node that exists gets data and ACL at once; a multi cannot set an ACL. */
static int copy_change(struct copying *c, struct conclave_op *op)
{
    struct conclave_op set = conclave_op_set(op->path, op->data, op->data_len, -1);
    struct conclave_op acl = conclave_op_path(CONCLAVE_OP_SET_ACL, op->path, -1);
    acl.acl = op->acl;
    acl.acl_count = op->acl_count;
    int code = copy_flush(c);
    int error = code == 0 ? conclave_call(c->client, &set, NULL) : 0;
    error = code == 0 && error == 0 ? conclave_call(c->client, &acl, NULL) : error;
    c->done->changed += code == 0 && error == 0;
    return error != 0 ? fail(c->o->command, op->path, error) : code;
}

static int copy_exists(struct copying *c, const char *path, bool *ret)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    int error = conclave_call(c->client, &op, NULL);
    *ret = error == 0;
    return error == 0 || error == CONCLAVE_NO_NODE ? 0 : fail(c->o->command, path, error);
}

static int copy_write(struct copying *c, const char *path,
                      const struct wire_get_data_response *node, struct wire_vector acl)
{
    struct conclave_op op;
    void *owned = NULL;
    bool exists = false;
    char *target = copy_target(c->o, path);
    int code = target == NULL ? fail(c->o->command, NULL, CONCLAVE_ENOMEM) : 0;
    if (code == 0 && c->o->merge) {
        code = copy_exists(c, target, &exists);
    }
    if (code == 0) {
        code = copy_part(c, target, node, acl, &op, &owned);
    }
    free(target);
    if (code != 0 || exists) {
        code = code == 0 ? copy_change(c, &op) : code;
        free(owned);
        return code;
    }
    enum tree_owner kind = tree_owner_kind(node->stat.ephemeral_owner);
    op.mode = kind == TREE_OWNER_IS_CONTAINER ? CONCLAVE_CONTAINER : CONCLAVE_PERSISTENT;
    op.ttl_ms = kind == TREE_OWNER_IS_TTL ? tree_owner_ttl_ms(node->stat.ephemeral_owner) : 0;
    if (c->batch.count > 0 && c->batch.bytes + op.data_len > COPY_BYTES) {
        code = copy_flush(c);
    }
    batch_add_part(c, &op, owned);
    c->made++;
    return code == 0 && c->batch.count >= COPY_PARTS ? copy_flush(c) : code;
}

/* Puts the children of a node on the stack. */
static int copy_push_children(struct copying *c, const char *path)
{
    struct wire_get_children_response answer;
    struct slice name;
    int rc = past_children(c->o->state, slice_str(path), &c->children, &answer);
    while (rc == 0 && wire_next_string(&answer.children, &name)) {
        bool own = strcmp(path, "/") == 0 && slice_equal_str(name, "zookeeper");
        if (own) {
            continue;
        }
        struct buf b;
        buf_init(&b, 0);
        buf_printf(&b, "%s/%.*s", strcmp(path, "/") == 0 ? "" : path, (int)name.len,
                   (const char *)name.data);
        char *child = buf_cstr(&b) != NULL ? strdup((const char *)b.data) : NULL;
        buf_finish(&b);
        if (child == NULL ||
            !array_room(&c->waiting, c->n_waiting, &c->cap_waiting, sizeof *c->waiting)) {
            free(child);
            rc = CONCLAVE_ENOMEM;
        } else {
            c->waiting[c->n_waiting++] = child;
        }
    }
    return rc == 0 ? 0 : fail(c->o->command, path, rc);
}

static int copy_node(struct copying *c, const char *path)
{
    struct wire_get_data_response node;
    struct wire_get_acl_response acl;
    int rc = past_data(c->o->state, slice_str(path), &c->data, &node);
    rc = rc == 0 ? past_acl(c->o->state, slice_str(path), &c->acl, &acl) : rc;
    if (rc != 0) {
        return fail(c->o->command, path, rc);
    }
    if (tree_owner_kind(node.stat.ephemeral_owner) == TREE_OWNER_SESSION) {
        c->done->ephemerals++;
        return 0;
    }
    int code = copy_write(c, path, &node, acl.acl);
    return code == 0 ? copy_push_children(c, path) : code;
}

static int copy_all(struct copying *c)
{
    bool exists = false;
    int code = copy_exists(c, c->o->to, &exists);
    if (code == 0 && exists && !c->o->merge) {
        fprintf(
            stderr,
            "conclave %s: %s exists already: name another path with --to, or write into it with "
            "--merge\n",
            c->o->command, c->o->to);
        return CLI_EXIT_FAILED;
    }
    char *root = strdup(c->o->from);
    if (code == 0 &&
        (root == NULL || !array_room(&c->waiting, 0, &c->cap_waiting, sizeof *c->waiting))) {
        code = fail(c->o->command, NULL, CONCLAVE_ENOMEM);
    }
    if (code != 0) {
        free(root);
        return code;
    }
    c->waiting[c->n_waiting++] = root;
    while (code == 0 && c->n_waiting > 0) {
        char *path = c->waiting[--c->n_waiting];
        code = copy_node(c, path);
        free(path);
    }
    return code == 0 ? copy_flush(c) : code;
}

int branch_copy(const struct branch_copy *options, struct branch_copied *ret)
{
    struct wire_stat stat;
    *ret = (struct branch_copied){0};
    int rc = past_stat(options->state, slice_str(options->from), &stat);
    if (rc != 0) {
        fprintf(stderr, "conclave %s: %s: no node of that path is in the backup at that moment\n",
                options->command, options->from);
        return CLI_EXIT_FAILED;
    }
    struct copying *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return fail(options->command, NULL, CONCLAVE_ENOMEM);
    }
    c->o = options;
    c->done = ret;
    buf_init(&c->data, 0);
    buf_init(&c->acl, 0);
    buf_init(&c->children, 0);
    int code = connection_open(options->command, options->common, NULL, NULL, &c->client);
    if (code == 0) {
        code = copy_all(c);
        connection_close(c->client);
    }
    if (code == 0 && isatty(STDERR_FILENO) == 1) {
        fputc('\n', stderr);
    }
    batch_reset(&c->batch);
    while (c->n_waiting > 0) {
        free(c->waiting[--c->n_waiting]);
    }
    free(c->waiting);
    buf_finish(&c->data);
    buf_finish(&c->acl);
    buf_finish(&c->children);
    free(c);
    return code;
}

int branch_copy_report(const struct branch_copy *o, int64_t zxid, const struct branch_copied *done)
{
    if (!o->common->json) {
        printf("%s as of zxid 0x%" PRIx64 " written to %s: %" PRIu64 " nodes created, %" PRIu64
               " changed, %" PRIu64 " ephemeral nodes left out\n",
               o->from, (uint64_t)zxid, o->to, done->nodes, done->changed, done->ephemerals);
        return 0;
    }
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "from", o->from);
    json_member_string(&j, "to", o->to);
    json_member_hex(&j, "zxid", zxid);
    json_member_uint(&j, "created", done->nodes);
    json_member_uint(&j, "changed", done->changed);
    json_member_uint(&j, "ephemerals_left_out", done->ephemerals);
    int error = json_line_print(&j, stdout);
    return error == 0 ? 0 : fail(o->command, NULL, error);
}
