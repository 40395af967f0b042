/* Writes events, the configuration and the gem's nodes, and trims folders. */
#include "redis/manager/operator_nodes.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { TRIM_EVERY = 20, GEM_EXPIRES_MS = 60000 };

/* A folder that is trimmed now and then. */
struct folder {
    struct redis_journal *journal;
    const char *name;
    int grown; /* since it was trimmed */
    bool trimming;
};

/* A node whose text the leader keeps up to date. It is created if it does not exist. */
struct kept_node {
    struct redis_journal *journal;
    char path[REDIS_PATH_MAX]; /* "": it is not kept */
    struct buf text;           /* as last written in this term */
    struct buf next;           /* being written */
    bool creates;              /* it does not exist yet */
    bool writing;
};

struct redis_journal {
    struct redis_store *store;
    const struct redis_config *config;
    char gem_root[REDIS_ROOT_MAX];
    struct folder events;
    struct folder results;
    struct kept_node config_node;
    struct kept_node gem_node;
    int32_t gem_taken; /* version of the request that is being taken over; -1 */
    bool refusing;
    int calls; /* under way, and one for the owner */
    bool destroyed;
};

static void journal_release(struct redis_journal *j)
{
    assert(j->calls > 0);
    if (--j->calls == 0) {
        assert(j->destroyed);
        buf_finish(&j->config_node.text);
        buf_finish(&j->config_node.next);
        buf_finish(&j->gem_node.text);
        buf_finish(&j->gem_node.next);
        free(j);
    }
}

/* Sends a fenced transaction; fn must release the journal. */
static bool journal_submit(struct redis_journal *j, const struct conclave_op *parts, size_t count,
                           redis_store_fn fn, void *ctx)
{
    bool sent = redis_store_multi(j->store, parts, count, fn, ctx) == 0;
    assert(!j->destroyed);
    j->calls += sent;
    return sent;
}

/* --- folders */

static int operator_nodes_compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void on_trimmed(struct conclave_client *client, const struct conclave_reply *reply,
                       void *ctx)
{
    journal_release(ctx);
}

static void folder_remove(struct folder *folder, const char *name)
{
    struct redis_journal *j = folder->journal;
    char below[REDIS_PATH_MAX];
    char path[REDIS_PATH_MAX];
    if ((size_t)snprintf(below, sizeof below, "%s/%s", folder->name, name) >= sizeof below) {
        return;
    }
    struct conclave_op op = conclave_op_path(
        CONCLAVE_OP_DELETE, redis_path(redis_store_root(j->store), below, path), -1);
    if (conclave_submit(redis_store_client(j->store), &op, on_trimmed, j) == 0) {
        j->calls++;
    }
}

static void operator_nodes_on_listed(struct conclave_client *client,
                                     const struct conclave_reply *reply, void *ctx)
{
    struct folder *folder = ctx;
    size_t count = reply->error == 0 && !folder->journal->destroyed ? reply->children_count : 0;
    const char **names = count > REDIS_EVENTS_KEPT ? malloc(count * sizeof *names) : NULL;
    if (names != NULL) {
        memcpy(names, reply->children, count * sizeof *names);
        qsort(names, count, sizeof *names, operator_nodes_compare_names);
        for (size_t i = 0; i < count - REDIS_EVENTS_KEPT; i++) { /* the oldest */
            folder_remove(folder, names[i]);
        }
        free(names);
    }
    folder->trimming = false;
    journal_release(folder->journal);
}

static void folder_trim(struct folder *folder)
{
    struct redis_journal *j = folder->journal;
    char path[REDIS_PATH_MAX];
    struct conclave_op op = conclave_op_path(
        CONCLAVE_OP_GET_CHILDREN, redis_path(redis_store_root(j->store), folder->name, path), 0);
    if (!folder->trimming &&
        conclave_submit(redis_store_client(j->store), &op, operator_nodes_on_listed, folder) == 0) {
        folder->trimming = true;
        folder->grown = 0;
        j->calls++;
    }
}

static void folder_grew(struct folder *folder)
{
    if (++folder->grown >= TRIM_EVERY) {
        folder_trim(folder);
    }
}

void redis_journal_result(struct redis_journal *journal)
{
    folder_grew(&journal->results);
}

static void operator_nodes_on_refused(void *ctx, int error, const struct conclave_reply *reply)
{
    struct redis_journal *j = ctx;
    j->refusing = false;
    journal_release(j);
}

void redis_journal_refuse(struct redis_journal *journal, const char *name)
{
    struct redis_result result = {.text = "the request cannot be read", .lost_bytes = -1};
    if (!journal->refusing && redis_store_answer(journal->store, name, &result,
                                                 operator_nodes_on_refused, journal) == 0) {
        journal->refusing = true;
        journal->calls++;
        folder_grew(&journal->results);
    }
}

/* --- events */

static void operator_nodes_on_written(void *ctx, int error, const struct conclave_reply *reply)
{
    journal_release(ctx);
}

void redis_journal_event(struct redis_journal *journal, const struct redis_event *event)
{
    char path[REDIS_PATH_MAX];
    struct buf out;
    buf_init(&out, 0);
    record_write(&out, &REDIS_EVENT, event);
    struct conclave_op op =
        conclave_op_create(redis_path(redis_store_root(journal->store), "events/e-", path),
                           out.data, out.len, CONCLAVE_PERSISTENT_SEQUENTIAL);
    if (buf_ok(&out) && journal_submit(journal, &op, 1, operator_nodes_on_written, journal)) {
        folder_grew(&journal->events);
    }
    buf_finish(&out);
}

/* --- nodes that are kept up to date */

static void kept_node_put(struct kept_node *node);

static void on_kept(void *ctx, int error, const struct conclave_reply *reply)
{
    struct kept_node *node = ctx;
    bool absent = error == CONCLAVE_NO_NODE && !node->creates;
    assert(node->writing);
    node->writing = false;
    node->creates = absent;
    if (absent && !node->journal->destroyed) {
        kept_node_put(node);
    } else if (error == 0) {
        buf_reset(&node->text);
        buf_append_slice(&node->text, buf_slice(&node->next));
    }
    journal_release(node->journal);
}

static void kept_node_put(struct kept_node *node)
{
    const struct buf *next = &node->next;
    struct conclave_op op =
        node->creates ? conclave_op_create(node->path, next->data, next->len, CONCLAVE_PERSISTENT)
                      : conclave_op_set(node->path, next->data, next->len, -1);
    node->writing = journal_submit(node->journal, &op, 1, on_kept, node);
}

/* Writes a record, unless the node has this text already. */
static void kept_node_write(struct kept_node *node, const struct record_table *table,
                            const void *record)
{
    if (node->path[0] == '\0' || node->writing) {
        return;
    }
    buf_reset(&node->next);
    record_write(&node->next, table, record);
    if (buf_ok(&node->next) && !slice_equal(buf_slice(&node->next), buf_slice(&node->text))) {
        node->creates = false;
        kept_node_put(node);
    }
}

void redis_journal_current(struct redis_journal *journal, const struct redis_current *current)
{
    if (current != NULL) {
        struct redis_current shown = redis_gem_nodes_of(current);
        kept_node_write(&journal->gem_node, &REDIS_GEM_NODES, &shown);
    }
}

static void on_gem_taken(void *ctx, int error, const struct conclave_reply *reply)
{
    struct redis_journal *j = ctx;
    if (error == 0 && !j->destroyed) {
        redis_store_gem_taken(j->store,
                              reply->zxid); /* the mirror may still show it for a moment */
    }
    j->gem_taken = -1; /* the next node begins with the same version */
    journal_release(j);
}

void redis_journal_gem_request(struct redis_journal *journal, const struct redis_request *request,
                               int32_t version, int64_t wall_ms)
{
    char removed[REDIS_PATH_MAX];
    char made[REDIS_PATH_MAX];
    struct redis_request copy = *request;
    struct conclave_op parts[2];
    struct buf out;
    if (journal->gem_taken == version) {
        return;
    }
    snprintf(copy.by, sizeof copy.by, "manual_failover of the gem");
    copy.expires_ms = wall_ms + GEM_EXPIRES_MS;
    buf_init(&out, 0);
    record_write(&out, &REDIS_REQUEST, &copy);
    parts[0] = conclave_op_path(CONCLAVE_OP_DELETE,
                                redis_path(journal->gem_root, "manual_failover", removed), version);
    parts[1] =
        conclave_op_create(redis_path(redis_store_root(journal->store), "requests/req-", made),
                           out.data, out.len, CONCLAVE_PERSISTENT_SEQUENTIAL);
    if (buf_ok(&out) && journal_submit(journal, parts, 2, on_gem_taken, journal)) {
        journal->gem_taken = version;
    }
    buf_finish(&out);
}

/* --- opening and closing */

void redis_journal_begin(struct redis_journal *journal)
{
    struct redis_config config = *journal->config;
    config.required_managers = redis_config_required(&config);
    buf_reset(&journal->config_node.text);
    buf_reset(&journal->gem_node.text);
    journal->gem_taken = -1;
    kept_node_write(&journal->config_node, &REDIS_CONFIG, &config);
    folder_trim(&journal->events);
    folder_trim(&journal->results);
}

static void kept_node_init(struct kept_node *node, struct redis_journal *j, const char *root,
                           const char *name)
{
    node->journal = j;
    buf_init(&node->text, 0);
    buf_init(&node->next, 0);
    if (root[0] != '\0') {
        redis_path(root, name, node->path);
    }
}

int redis_journal_create(struct redis_store *store, const struct redis_config *config,
                         const char *gem_root, struct redis_journal **ret)
{
    struct redis_journal *j = calloc(1, sizeof *j);
    if (j == NULL) {
        return CONCLAVE_ENOMEM;
    }
    j->store = store;
    j->config = config;
    snprintf(j->gem_root, sizeof j->gem_root, "%s", gem_root != NULL ? gem_root : "");
    j->events = (struct folder){.journal = j, .name = "events"};
    j->results = (struct folder){.journal = j, .name = "results"};
    kept_node_init(&j->config_node, j, redis_store_root(store), "config");
    kept_node_init(&j->gem_node, j, j->gem_root, "nodes");
    j->gem_taken = -1;
    j->calls = 1;
    *ret = j;
    return 0;
}

void redis_journal_destroy(struct redis_journal *journal)
{
    if (journal != NULL) {
        assert(!journal->destroyed);
        journal->destroyed = true;
        journal_release(journal);
    }
}
