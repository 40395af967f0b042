/* Stats, names and branches. A branch is read node by node: no more than one answer is in memory beside its paths. */
#define _GNU_SOURCE /* asprintf */
#include "cli/common/node_output.h"

#include "cli/common/connection.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *time_text(int64_t ms, char buf[TIME_TEXT_MAX])
{
    struct tm tm;
    time_t seconds = (time_t)(ms / 1000);
    char text[24];
    if (ms < 0 || gmtime_r(&seconds, &tm) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm) == 0) {
        snprintf(buf, TIME_TEXT_MAX, "%" PRId64, ms);
    } else {
        snprintf(buf, TIME_TEXT_MAX, "%s.%03dZ", text, (int)(ms % 1000));
    }
    return buf;
}

void stat_json(struct json *j, const struct conclave_stat *stat)
{
    char time[TIME_TEXT_MAX];
    json_key(j, "stat");
    json_object_begin(j);
    json_member_hex(j, "czxid", stat->czxid);
    json_member_hex(j, "mzxid", stat->mzxid);
    json_member_hex(j, "pzxid", stat->pzxid);
    json_member_string(j, "ctime", time_text(stat->ctime_ms, time));
    json_member_string(j, "mtime", time_text(stat->mtime_ms, time));
    json_member_int(j, "version", stat->version);
    json_member_int(j, "cversion", stat->cversion);
    json_member_int(j, "aversion", stat->aversion);
    json_key(j, "ephemeral_owner");
    if (stat->ephemeral_owner == 0) {
        json_null(j);
    } else {
        json_hex(j, stat->ephemeral_owner);
    }
    json_member_int(j, "data_length", stat->data_length);
    json_member_int(j, "num_children", stat->num_children);
    json_object_end(j);
}

void stat_print(const struct conclave_stat *stat)
{
    char time[TIME_TEXT_MAX];
    printf("czxid            0x%" PRIx64 "\n", (uint64_t)stat->czxid);
    printf("mzxid            0x%" PRIx64 "\n", (uint64_t)stat->mzxid);
    printf("pzxid            0x%" PRIx64 "\n", (uint64_t)stat->pzxid);
    printf("ctime            %s\n", time_text(stat->ctime_ms, time));
    printf("mtime            %s\n", time_text(stat->mtime_ms, time));
    printf("version          %" PRId32 "\n", stat->version);
    printf("cversion         %" PRId32 "\n", stat->cversion);
    printf("aversion         %" PRId32 "\n", stat->aversion);
    printf("ephemeral_owner  0x%" PRIx64 "\n", (uint64_t)stat->ephemeral_owner);
    printf("data_length      %" PRId32 "\n", stat->data_length);
    printf("num_children     %" PRId32 "\n", stat->num_children);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char **names_sorted(const char *const *names, size_t count)
{
    const char **sorted = calloc(count + 1, sizeof *sorted);
    if (sorted != NULL && count > 0) {
        memcpy(sorted, names, count * sizeof *sorted);
        qsort(sorted, count, sizeof *sorted, compare_names);
    }
    return sorted;
}

char *node_path(const char *parent, const char *name)
{
    char *path = NULL;
    int len = asprintf(&path, "%s/%s", strcmp(parent, "/") == 0 ? "" : parent, name);
    return len < 0 ? NULL : path;
}

/* A growing list of paths, used as result and as stack. */
struct paths {
    char **items;
    size_t count;
    size_t room;
};

/* Takes over path, also when it fails. */
static int paths_push_take(struct paths *paths, char *path)
{
    if (path != NULL && paths->count == paths->room) {
        size_t room = paths->room == 0 ? 64 : paths->room * 2;
        char **items = realloc(paths->items, room * sizeof *items);
        if (items == NULL) {
            free(path);
            path = NULL;
        } else {
            paths->items = items;
            paths->room = room;
        }
    }
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    paths->items[paths->count++] = path;
    return 0;
}

static int path_depth(const char *path)
{
    int depth = 0;
    for (const char *p = path; path[1] != '\0' && *p != '\0'; p++) {
        depth += *p == '/';
    }
    return depth;
}

/* Pushes the children of parent, last first, so that the first is popped first. */
static int push_children(const struct conclave_reply *reply, const char *parent,
                         struct paths *stack)
{
    const char **names = names_sorted(reply->children, reply->children_count);
    int error = names == NULL ? CONCLAVE_ENOMEM : 0;
    for (size_t i = reply->children_count; error == 0 && i-- > 0;) {
        error = paths_push_take(stack, node_path(parent, names[i]));
    }
    free(names);
    return error;
}

int branch_walk(struct conclave_client *client, const char *root, int max_depth, bool linearizable,
                branch_fn fn, void *ctx)
{
    struct paths stack = {NULL, 0, 0};
    int root_depth = path_depth(root);
    int error = paths_push_take(&stack, strdup(root));
    for (bool is_root = true; error == 0 && stack.count > 0; is_root = false) {
        char *path = stack.items[--stack.count];
        int depth = path_depth(path) - root_depth;
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, path, 0);
        /* A session's reads never go back in time, so one proof is enough for all later reads. */
        op.linearizable = linearizable && is_root;
        struct conclave_reply *reply = NULL;
        error = conclave_call(client, &op, &reply);
        if (error == CONCLAVE_NO_NODE && !is_root) {
            error = 0;
        } else if (error == CONCLAVE_NO_AUTH && !is_root) {
            error = fn(path, depth, NULL, ctx);
        } else if (error == 0) {
            error = fn(path, depth, reply, ctx);
            error = error == 0 && depth < max_depth ? push_children(reply, path, &stack) : error;
        }
        conclave_reply_free(reply);
        free(path);
    }
    branch_free(stack.items, stack.count);
    return error;
}

static int list_one(const char *path, int depth, const struct conclave_reply *children, void *ctx)
{
    struct paths *found = ctx;
    if (children != NULL) {
        return paths_push_take(found, strdup(path));
    }
    branch_free(found->items, found->count);
    *found = (struct paths){NULL, 0, 0};
    int error = paths_push_take(found, strdup(path));
    return error == 0 ? CONCLAVE_NO_AUTH : error;
}

int branch_list(struct conclave_client *client, const char *root, bool linearizable,
                char ***ret_paths, size_t *ret_count)
{
    struct paths found = {NULL, 0, 0};
    int error = branch_walk(client, root, INT_MAX, linearizable, list_one, &found);
    if (error != 0 && error != CONCLAVE_NO_AUTH) {
        branch_free(found.items, found.count);
        return error;
    }
    *ret_paths = found.items;
    *ret_count = found.count;
    return error;
}

void branch_free(char **paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(paths[i]);
    }
    free(paths);
}

int call_fenced(struct conclave_client *client, const char *fenced_by, const struct conclave_op *op,
                struct conclave_reply **ret_reply, const struct conclave_reply **ret_result)
{
    *ret_reply = NULL;
    *ret_result = NULL;
    if (fenced_by == NULL) {
        int error = conclave_call(client, op, ret_reply);
        *ret_result = *ret_reply;
        return error;
    }
    const struct conclave_op parts[] = {conclave_op_path(CONCLAVE_OP_CHECK, fenced_by, -1), *op};
    struct conclave_op multi = conclave_op_multi(parts, 2);
    int error = conclave_call(client, &multi, ret_reply);
    bool answered = *ret_reply != NULL && (*ret_reply)->results_count == 2;
    *ret_result = answered ? (*ret_reply)->results[1] : NULL;
    return answered && (*ret_reply)->results[0]->error == CONCLAVE_NO_NODE ? CONCLAVE_EFENCED
                                                                           : error;
}

int fail_write(const char *command, const char *path, const char *fenced_by, int error)
{
    if (error == CONCLAVE_EFENCED) {
        fprintf(stderr, "conclave %s: %s is gone: nothing was written\n", command, fenced_by);
        return CLI_EXIT_LOST;
    }
    return fail(command, path, error);
}
