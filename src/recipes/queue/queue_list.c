/* Looking at a queue and bringing dead letters back: blocking functions that ask one thing after
 * the other. */
#include "recipes/queue/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Asks until there is an answer: a lost link is waited for, as the time allows. */
static int queue_list_ask(struct conclave_queue *q, struct conclave_op op, int64_t deadline_ns,
                          struct conclave_reply **ret)
{
    struct conclave_client *client = q->host.handle.rt->client;
    for (;;) {
        int64_t left_ms = 0;
        if (deadline_ns != CONCLAVE_FOREVER) {
            left_ms = (deadline_ns - client_now_ns(client)) / 1000000;
            left_ms = left_ms > 0 ? left_ms : 1;
        }
        op.timeout_ms = left_ms;
        *ret = NULL;
        int error = conclave_call(client, &op, ret);
        bool late = deadline_ns != CONCLAVE_FOREVER && client_now_ns(client) >= deadline_ns;
        if (error != CONCLAVE_CONNECTION_LOSS && error != CONCLAVE_OPERATION_TIMEOUT) {
            return error;
        }
        conclave_reply_free(*ret);
        *ret = NULL;
        if (late) {
            return CONCLAVE_ETIMEDOUT;
        }
    }
}

static int ask_path(struct conclave_queue *q, enum conclave_op_type type, const char *path,
                    int64_t deadline_ns, struct conclave_reply **ret)
{
    struct conclave_op op = conclave_op_path(type, path, 0);
    op.linearizable = type == CONCLAVE_OP_GET_CHILDREN;
    return queue_list_ask(q, op, deadline_ns, ret);
}

/* --- entries ----------------------------------------------------------------------------- */

/* Name, holder and data in one block, which name points to. */
static int entry_fill(struct conclave_queue_entry *e, const char *name, const char *holder,
                      size_t holder_len, const struct conclave_reply *item, bool with_data)
{
    size_t name_len = strlen(name) + 1;
    size_t data_len = with_data ? item->data_len : 0;
    char *block = malloc(name_len + holder_len + 1 + data_len + 1);
    if (block == NULL) {
        return CONCLAVE_ENOMEM;
    }
    memcpy(block, name, name_len);
    if (holder_len > 0) {
        memcpy(block + name_len, holder, holder_len);
    }
    block[name_len + holder_len] = '\0';
    if (data_len > 0) {
        memcpy(block + name_len + holder_len + 1, item->data, data_len);
    }
    e->name = block;
    e->holder = block + name_len;
    e->data = with_data ? block + name_len + holder_len + 1 : NULL;
    e->data_len = with_data ? data_len : (size_t)item->stat.data_length;
    e->attempts = item->stat.version;
    e->ctime_ms = item->stat.ctime_ms;
    return 0;
}

/* One entry; CONCLAVE_NO_NODE: it has gone meanwhile. */
static int entry_read(struct conclave_queue *q, const char *dir, const char *name, bool claimed,
                      bool with_data, int64_t deadline_ns, struct conclave_queue_entry *e)
{
    struct conclave_reply *item = NULL;
    struct conclave_reply *claim = NULL;
    const char *holder = NULL;
    size_t holder_len = 0;
    char *path = path_join(dir, name);
    char *claim_path = path_join(q->claims, name);
    int error = path == NULL || claim_path == NULL ? CONCLAVE_ENOMEM : 0;
    if (error == 0) {
        error =
            ask_path(q, with_data ? CONCLAVE_OP_GET : CONCLAVE_OP_EXISTS, path, deadline_ns, &item);
    }
    if (error == 0 && claimed) {
        error = ask_path(q, CONCLAVE_OP_GET, claim_path, deadline_ns, &claim);
        const char *newline =
            error == 0 && claim->data_len > 0 ? memchr(claim->data, '\n', claim->data_len) : NULL;
        if (newline != NULL) {
            holder = newline + 1;
            holder_len = claim->data_len - (size_t)(holder - (const char *)claim->data);
        }
        if (error == 0) {
            e->session_id = claim->stat.ephemeral_owner;
        }
        error = error == CONCLAVE_NO_NODE ? 0 : error;
    }
    if (error == 0) {
        error = entry_fill(e, name, holder, holder_len, item, with_data);
    }
    conclave_reply_free(item);
    conclave_reply_free(claim);
    free(path);
    free(claim_path);
    return error;
}

static bool has_name(const struct conclave_reply *children, const char *name)
{
    for (size_t i = 0; children != NULL && i < children->children_count; i++) {
        if (strcmp(children->children[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static int read_entries(struct conclave_queue *q, const char *dir, size_t most, bool with_data,
                        int64_t deadline_ns, const struct conclave_reply *claims,
                        const struct conclave_reply *children, struct conclave_queue_entry **ret,
                        size_t *ret_count)
{
    struct queue_name *names = NULL;
    size_t count = 0;
    size_t n = 0;
    int error = queue_names_order(children->children, children->children_count, &names, &count);
    if (error != 0) {
        return error;
    }
    struct conclave_queue_entry *list = calloc(count + 1, sizeof *list);
    error = list == NULL ? CONCLAVE_ENOMEM : 0;
    for (size_t i = 0; i < count && error == 0 && (most == 0 || n < most); i++) {
        list[n].priority = names[i].priority;
        error = entry_read(q, dir, names[i].name, has_name(claims, names[i].name), with_data,
                           deadline_ns, &list[n]);
        n += error == 0 ? 1 : 0;
        error = error == CONCLAVE_NO_NODE ? 0 : error;
    }
    free(names);
    if (error != 0) {
        conclave_queue_entries_free(list, n);
        return error;
    }
    *ret = list;
    *ret_count = n;
    return 0;
}

void conclave_queue_entries_free(struct conclave_queue_entry *entries, size_t count)
{
    for (size_t i = 0; i < count && entries != NULL; i++) {
        free((void *)(uintptr_t)entries[i].name);
    }
    free(entries);
}

int conclave_queue_list(struct conclave_queue *q, enum conclave_queue_part part, size_t most,
                        bool with_data, int64_t timeout_ms, struct conclave_queue_entry **ret,
                        size_t *ret_count)
{
    struct conclave_reply *claims = NULL;
    struct conclave_reply *children = NULL;
    const char *dir = part == CONCLAVE_QUEUE_DEAD ? q->dead : q->path;
    int64_t deadline_ns = client_deadline_ns(q->host.handle.rt->client, timeout_ms);
    int error = recipes_may_block(q->host.handle.rt);
    if (error == 0 && part == CONCLAVE_QUEUE_ITEMS) {
        error = ask_path(q, CONCLAVE_OP_GET_CHILDREN, q->claims, deadline_ns, &claims);
        error = error == CONCLAVE_NO_NODE ? 0 : error;
    }
    if (error == 0) {
        error = ask_path(q, CONCLAVE_OP_GET_CHILDREN, dir, deadline_ns, &children);
        if (error == CONCLAVE_NO_NODE) { /* no queue is an empty queue */
            *ret = NULL;
            *ret_count = 0;
            error = 0;
        } else if (error == 0) {
            error = read_entries(q, dir, most, with_data, deadline_ns, claims, children, ret,
                                 ret_count);
        }
    }
    conclave_reply_free(claims);
    conclave_reply_free(children);
    return error;
}

int conclave_queue_size(struct conclave_queue *q, int64_t timeout_ms, int64_t *ret_count)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, q->path, 0);
    struct conclave_reply *reply = NULL;
    int error = recipes_may_block(q->host.handle.rt);
    if (error != 0) {
        return error;
    }
    op.linearizable = true;
    error =
        queue_list_ask(q, op, client_deadline_ns(q->host.handle.rt->client, timeout_ms), &reply);
    if (error == 0 || error == CONCLAVE_NO_NODE) {
        *ret_count = error == 0 ? reply->stat.num_children : 0;
        error = 0;
    }
    conclave_reply_free(reply);
    return error;
}

/* --- dead letters ---------------------------------------------------------------------------- */

/* The queue's node stands beside that of its dead letters: no parent can be missing. */
static int make_queue(struct conclave_queue *q, int64_t deadline_ns)
{
    struct conclave_reply *reply = NULL;
    struct conclave_op op = conclave_op_create(q->path, "", 0, CONCLAVE_CONTAINER);
    queue_op_acl(q, &op);
    int error = queue_list_ask(q, op, deadline_ns, &reply);
    conclave_reply_free(reply);
    if (error == CONCLAVE_UNIMPLEMENTED) {
        op.mode = CONCLAVE_PERSISTENT;
        error = queue_list_ask(q, op, deadline_ns, &reply);
        conclave_reply_free(reply);
    }
    return error == CONCLAVE_NODE_EXISTS ? 0 : error;
}

/* One try. *ret_queue_missing: make it and try again. A try whose answer was lost is followed by
 * one that finds out. */
static int move_back(struct conclave_queue *q, const char *from, const char *to,
                     int64_t deadline_ns, bool *ret_queue_missing)
{
    struct conclave_reply *letter = NULL;
    struct conclave_reply *reply = NULL;
    int error = ask_path(q, CONCLAVE_OP_GET, from, deadline_ns, &letter);
    if (error == 0) {
        struct conclave_op parts[2];
        parts[0] = conclave_op_create(to, letter->data, letter->data_len, CONCLAVE_PERSISTENT);
        queue_op_acl(q, &parts[0]);
        parts[1] = conclave_op_path(CONCLAVE_OP_DELETE, from, letter->stat.version);
        struct conclave_op op = conclave_op_multi(parts, 2);
        error = queue_list_ask(q, op, deadline_ns, &reply);
        *ret_queue_missing = reply != NULL && queue_part_error(reply, 0) == CONCLAVE_NO_NODE;
        if (reply != NULL && queue_part_error(reply, 0) == CONCLAVE_NODE_EXISTS) {
            error = 0; /* an earlier try whose answer was lost, or somebody else's */
        }
    }
    conclave_reply_free(letter);
    conclave_reply_free(reply);
    return error;
}

int conclave_queue_requeue(struct conclave_queue *q, const char *name, int64_t timeout_ms)
{
    struct queue_name parsed;
    bool missing = false;
    int64_t deadline_ns = client_deadline_ns(q->host.handle.rt->client, timeout_ms);
    int error = recipes_may_block(q->host.handle.rt);
    if (error != 0) {
        return error;
    }
    if (name == NULL || strchr(name, '/') != NULL || !queue_name_parse(name, &parsed)) {
        return CONCLAVE_EINVAL;
    }
    char *from = path_join(q->dead, name);
    char *to = path_join(q->path, name);
    error = from == NULL || to == NULL ? CONCLAVE_ENOMEM : 0;
    if (error == 0) {
        error = move_back(q, from, to, deadline_ns, &missing);
    }
    if (missing) {
        error = make_queue(q, deadline_ns);
        if (error == 0) {
            error = move_back(q, from, to, deadline_ns, &missing);
        }
    }
    free(from);
    free(to);
    return error;
}
