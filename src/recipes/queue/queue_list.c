/* Looking at a queue and bringing dead letters back: blocking functions that ask one thing after
 * the other. */
#include "base/slice.h"
#include "recipes/engine/blocking_requests.h"
#include "recipes/engine/option_copies.h"
#include "recipes/queue/curator_items.h"
#include "recipes/queue/queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- entries ----------------------------------------------------------------------------- */

/* The folders to list. */
struct looking {
    const struct conclave_queue *queue;
    struct queue_naming naming;
    const char *dir;
    size_t most;
    bool with_data;
};

/* What a consumer gets: in Curator's layouts the first part. */
static struct slice entry_data(const struct looking *look, const struct conclave_reply *item)
{
    struct slice data = slice_make(item->data, item->data_len);
    if (queue_wraps_items(look->queue) && curator_items_count(data.data, data.len, NULL) > 0) {
        data.data = curator_item_at(data.data, CURATOR_FIRST_ITEM, &data.len);
    }
    return data;
}

/* Name, id, holder and data in one block, which name points to. */
static int entry_fill(struct conclave_queue_entry *e, const struct looking *look,
                      const struct queue_name *name, struct slice holder,
                      const struct conclave_reply *item)
{
    struct slice data = look->with_data ? entry_data(look, item) : slice_make(NULL, 0);
    size_t name_len = strlen(name->name);
    char *block = malloc(name_len + 1 + name->id_len + 1 + holder.len + 1 + data.len + 1);
    if (block == NULL) {
        return CONCLAVE_ENOMEM;
    }
    e->name = block_add(&block, name->name, name_len);
    e->id = name->id_len > 0 ? block_add(&block, name->id, name->id_len) : NULL;
    e->holder = block_add(&block, holder.data, holder.len);
    e->data = look->with_data ? block_add(&block, data.data, data.len) : NULL;
    e->data_len = look->with_data ? data.len : (size_t)item->stat.data_length;
    e->priority = name->priority;
    e->not_before_ms = name->due_ms;
    e->attempts = item->stat.version;
    e->ctime_ms = item->stat.ctime_ms;
    return 0;
}

/* One entry; CONCLAVE_NO_NODE: it has gone meanwhile. */
static int entry_read(struct blocking *b, const struct looking *look, const struct queue_name *name,
                      bool claimed, struct conclave_queue_entry *e)
{
    struct conclave_reply *item = NULL;
    struct conclave_reply *claim = NULL;
    const char *holder = NULL;
    size_t holder_len = 0;
    char *path = path_join(look->dir, name->name);
    char *claim_path = path_join(look->queue->claims, name->name);
    int error = path == NULL || claim_path == NULL ? CONCLAVE_ENOMEM : 0;
    if (error == 0) {
        error =
            blocking_ask(b, look->with_data ? CONCLAVE_OP_GET : CONCLAVE_OP_EXISTS, path, &item);
    }
    if (error == 0 && claimed) {
        error = blocking_ask(b, CONCLAVE_OP_GET, claim_path, &claim);
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
        error = entry_fill(e, look, name, slice_make(holder, holder_len), item);
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

static int read_entries(struct blocking *b, const struct looking *look,
                        const struct conclave_reply *claims, const struct conclave_reply *children,
                        struct conclave_queue_entry ***ret, size_t *ret_count)
{
    struct queue_name *names = NULL;
    size_t count = 0;
    size_t due = 0;
    size_t n = 0;
    int error = queue_names_order(&look->naming, children->children, children->children_count,
                                  queue_wall_ms(), &names, &count, &due);
    if (error != 0) {
        return error;
    }
    struct conclave_queue_entry **list = struct_list(count, sizeof **list, 0, NULL);
    error = list == NULL ? CONCLAVE_ENOMEM : 0;
    for (size_t i = 0; i < count && error == 0 && (look->most == 0 || n < look->most); i++) {
        error = entry_read(b, look, &names[i], has_name(claims, names[i].name), list[n]);
        n += error == 0 ? 1 : 0;
        error = error == CONCLAVE_NO_NODE ? 0 : error;
    }
    free(names);
    assert(n <= count);
    if (error != 0) {
        conclave_queue_entries_free(list, n);
        return error;
    }
    *ret = list;
    *ret_count = n;
    return 0;
}

void conclave_queue_entries_free(struct conclave_queue_entry **entries, size_t count)
{
    for (size_t i = 0; i < count && entries != NULL; i++) {
        free((void *)(uintptr_t)entries[i]->name);
    }
    free(entries);
}

int conclave_queue_list(struct conclave_queue *q, enum conclave_queue_part part, size_t most,
                        bool with_data, int64_t timeout_ms, struct conclave_queue_entry ***ret,
                        size_t *ret_count)
{
    struct conclave_reply *claims = NULL;
    struct conclave_reply *children = NULL;
    bool dead = part == CONCLAVE_QUEUE_DEAD;
    struct looking look = {q, q->naming, dead ? q->dead : q->path, most, with_data};
    struct blocking b = blocking_begin(q->host.handle.rt->client, timeout_ms);
    int error = recipes_may_block(q->host.handle.rt);
    look.naming.dead = dead;
    if (error == 0 && part == CONCLAVE_QUEUE_ITEMS) {
        error = blocking_ask(&b, CONCLAVE_OP_GET_CHILDREN, q->claims, &claims);
        error = error == CONCLAVE_NO_NODE ? 0 : error;
    }
    if (error == 0) {
        error = blocking_ask(&b, CONCLAVE_OP_GET_CHILDREN, look.dir, &children);
        if (error == CONCLAVE_NO_NODE) { /* no queue is an empty queue */
            *ret = NULL;
            *ret_count = 0;
            error = 0;
        } else if (error == 0) {
            error = read_entries(&b, &look, claims, children, ret, ret_count);
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
    struct blocking b = blocking_begin(q->host.handle.rt->client, timeout_ms);
    int error = recipes_may_block(q->host.handle.rt);
    if (error != 0) {
        return error;
    }
    op.linearizable = true;
    error = blocking_request(&b, op, &reply);
    if (error == 0 || error == CONCLAVE_NO_NODE) {
        *ret_count = error == 0 ? reply->stat.num_children : 0;
        error = 0;
    }
    conclave_reply_free(reply);
    return error;
}

/* --- dead letters ---------------------------------------------------------------------------- */

/* An item stands where the letter would go. 0: the letter itself, by an earlier try whose answer was lost (it may be taken
 * already), or by somebody else. CONCLAVE_NODE_EXISTS: another item. */
static int moved_already(struct blocking *b, const char *from, const struct conclave_reply *letter)
{
    struct conclave_reply *now = NULL;
    int error = blocking_ask(b, CONCLAVE_OP_EXISTS, from, &now);
    if (error == 0 && now->stat.czxid == letter->stat.czxid) {
        error = CONCLAVE_NODE_EXISTS;
    }
    conclave_reply_free(now);
    return error == CONCLAVE_NO_NODE ? 0 : error;
}

/* One try. *ret_queue_missing: make it and try again. A try whose answer was lost is followed by
 * one that finds out. */
static int move_back(struct conclave_queue *q, struct blocking *b, const char *from, const char *to,
                     bool *ret_queue_missing)
{
    struct conclave_reply *letter = NULL;
    struct conclave_reply *reply = NULL;
    int error = blocking_ask(b, CONCLAVE_OP_GET, from, &letter);
    *ret_queue_missing = false;
    if (error == 0) {
        struct conclave_op parts[2];
        parts[0] = conclave_op_create(to, letter->data, letter->data_len, CONCLAVE_PERSISTENT);
        queue_op_acl(q, &parts[0]);
        parts[1] = conclave_op_path(CONCLAVE_OP_DELETE, from, letter->stat.version);
        error = blocking_request(b, conclave_op_multi(parts, 2), &reply);
        *ret_queue_missing = reply != NULL && queue_part_error(reply, 0) == CONCLAVE_NO_NODE;
        if (reply != NULL && b->repeated && queue_part_error(reply, 1) == CONCLAVE_NO_NODE) {
            error = 0; /* an earlier try whose answer was lost */
        } else if (reply != NULL && queue_part_error(reply, 0) == CONCLAVE_NODE_EXISTS) {
            error = moved_already(b, from, letter);
        }
    }
    conclave_reply_free(letter);
    conclave_reply_free(reply);
    return error;
}

int conclave_queue_requeue(struct conclave_queue *q, const char *name, int64_t timeout_ms)
{
    struct queue_naming naming = q->naming;
    struct queue_name parsed;
    bool missing;
    struct blocking b = blocking_begin(q->host.handle.rt->client, timeout_ms);
    int error = recipes_may_block(q->host.handle.rt);
    if (error != 0) {
        return error;
    }
    naming.dead = true;
    if (name == NULL || strchr(name, '/') != NULL || !queue_name_parse(&naming, name, &parsed)) {
        return CONCLAVE_EINVAL;
    }
    char *from = path_join(q->dead, name);
    char *to = path_join(q->path, queue_name_of_dead(name));
    error = from == NULL || to == NULL ? CONCLAVE_ENOMEM : move_back(q, &b, from, to, &missing);
    if (error == CONCLAVE_NO_NODE && missing) {
        b.plain = queue_node_stays(q, q->path);
        error = blocking_ensure(&b, q->path, q->acl, q->options.acl_count);
        error = error == 0 ? move_back(q, &b, from, to, &missing) : error;
    }
    free(from);
    free(to);
    return error;
}
