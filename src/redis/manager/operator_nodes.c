#include "redis/manager/operator_nodes.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

enum { TRIM_EVERY = 20, GEM_EXPIRES_MS = 60000 };

/* A folder that is cut now and then. */
struct folder {
    struct redis_journal *journal;
    const char *name;
    int grown; /* since it was cut */
    bool cutting;
};

struct redis_journal {
    struct redis_store *store;
    struct conclave_election *election;
    const struct redis_config *config;
    char gem_root[REDIS_ROOT_MAX];
    struct folder events;
    struct folder results;
    struct buf gem_text; /* as it was last written in this term */
    struct buf gem_next; /* being written */
    bool gem_writing;
    int32_t gem_taken; /* version of the request that is being taken over; -1 */
    bool refusing;
    int calls; /* under way */
    bool destroyed;
};

static void journal_release(struct redis_journal *j)
{
    if (--j->calls == 0) {
        buf_finish(&j->gem_text);
        buf_finish(&j->gem_next);
        free(j);
    }
}

/* Folders */

static int operator_nodes_compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void on_cut(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
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
    if (conclave_submit(redis_store_client(j->store), &op, on_cut, j) == 0) {
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
        for (size_t i = 0; i < count - REDIS_EVENTS_KEPT; i++) {
            folder_remove(folder, names[i]);
        }
        free(names);
    }
    folder->cutting = false;
    journal_release(folder->journal);
}

static void folder_cut(struct folder *folder)
{
    struct redis_journal *j = folder->journal;
    char path[REDIS_PATH_MAX];
    struct conclave_op op = conclave_op_path(
        CONCLAVE_OP_GET_CHILDREN, redis_path(redis_store_root(j->store), folder->name, path), 0);
    if (!folder->cutting &&
        conclave_submit(redis_store_client(j->store), &op, operator_nodes_on_listed, folder) == 0) {
        folder->cutting = true;
        folder->grown = 0;
        j->calls++;
    }
}

static void folder_grew(struct folder *folder)
{
    if (++folder->grown >= TRIM_EVERY) {
        folder_cut(folder);
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
    if (!journal->refusing && redis_store_answer(journal->store, journal->election, name, &result,
                                                 operator_nodes_on_refused, journal) == 0) {
        journal->refusing = true;
        journal->calls++;
        folder_grew(&journal->results);
    }
}

/* Events */

static void operator_nodes_on_written(void *ctx, int error, const struct conclave_reply *reply)
{
    journal_release(ctx);
}

void redis_journal_event(struct redis_journal *journal, const struct redis_event *event)
{
    char path[REDIS_PATH_MAX];
    struct buf out;
    buf_init(&out, 0);
    redis_event_write(&out, event);
    struct conclave_op op =
        conclave_op_create(redis_path(redis_store_root(journal->store), "events/e-", path),
                           out.data, out.len, CONCLAVE_PERSISTENT_SEQUENTIAL);
    if (buf_ok(&out) && redis_store_multi(journal->store, journal->election, &op, 1,
                                          operator_nodes_on_written, journal) == 0) {
        journal->calls++;
        folder_grew(&journal->events);
    }
    buf_finish(&out);
}

/* What this manager goes by */

static void config_write(struct buf *out, const struct redis_config *config)
{
    static const char *const STRATEGIES[] = {"majority", "consensus", "single"};
    struct json j;
    json_line_begin(&j);
    json_key(&j, "nodes");
    json_array_begin(&j);
    for (size_t i = 0; i < config->node_count; i++) {
        json_string(&j, config->nodes[i].address);
    }
    json_array_end(&j);
    json_member_int(&j, "managers", config->managers);
    json_member_int(&j, "required_managers", redis_config_required(config));
    json_member_string(&j, "node_strategy", STRATEGIES[config->strategy]);
    json_member_string(&j, "failover_strategy",
                       config->preference == REDIS_PREFER_LATENCY ? "latency" : "offset");
    json_member_int(&j, "period_ms", config->period_ms);
    json_member_int(&j, "op_timeout_ms", config->op_timeout_ms);
    json_member_int(&j, "max_failures", config->max_failures);
    json_member_int(&j, "min_down_ms", config->min_down_ms);
    json_member_int(&j, "max_lag_bytes", config->max_lag_bytes);
    json_member_bool(&j, "allow_data_loss", config->allow_data_loss);
    json_member_int(&j, "cooldown_ms", config->cooldown_ms);
    json_member_int(&j, "parallel_syncs", config->parallel_syncs);
    json_member_int(&j, "min_replicas", config->min_replicas);
    json_member_int(&j, "min_replicas_max_lag", config->min_replicas_lag_s);
    json_member_string(&j, "unfenceable",
                       config->unfenceable == REDIS_UNFENCEABLE_BLOCK ? "block" : "wait");
    json_object_end(&j);
    if (buf_ok(&j.out)) {
        buf_append_slice(out, buf_slice(&j.out));
    } else {
        out->failed = true;
    }
    json_finish(&j);
}

static void operator_nodes_config_put(struct redis_journal *j, bool create);

static void on_config_set(void *ctx, int error, const struct conclave_reply *reply)
{
    struct redis_journal *j = ctx;
    if (error == CONCLAVE_NO_NODE && !j->destroyed) {
        operator_nodes_config_put(j, true);
    }
    journal_release(j);
}

static void operator_nodes_config_put(struct redis_journal *j, bool create)
{
    char path[REDIS_PATH_MAX];
    struct buf out;
    buf_init(&out, 0);
    config_write(&out, j->config);
    redis_path(redis_store_root(j->store), "config", path);
    struct conclave_op op = create
                                ? conclave_op_create(path, out.data, out.len, CONCLAVE_PERSISTENT)
                                : conclave_op_set(path, out.data, out.len, -1);
    if (buf_ok(&out) &&
        redis_store_multi(j->store, j->election, &op, 1,
                          create ? operator_nodes_on_written : on_config_set, j) == 0) {
        j->calls++;
    }
    buf_finish(&out);
}

/* The gem's node */

static void gem_put(struct redis_journal *j, bool create);

static void on_gem_set(void *ctx, int error, const struct conclave_reply *reply)
{
    struct redis_journal *j = ctx;
    j->gem_writing = false;
    if (error == CONCLAVE_NO_NODE && !j->destroyed) {
        gem_put(j, true);
    } else if (error == 0) {
        buf_reset(&j->gem_text);
        buf_append_slice(&j->gem_text, buf_slice(&j->gem_next));
    }
    journal_release(j);
}

static void on_gem_created(void *ctx, int error, const struct conclave_reply *reply)
{
    on_gem_set(ctx, error == CONCLAVE_NO_NODE ? CONCLAVE_SYSTEM_ERROR : error, reply);
}

static void gem_put(struct redis_journal *j, bool create)
{
    char path[REDIS_PATH_MAX];
    redis_path(j->gem_root, "nodes", path);
    struct conclave_op op =
        create ? conclave_op_create(path, j->gem_next.data, j->gem_next.len, CONCLAVE_PERSISTENT)
               : conclave_op_set(path, j->gem_next.data, j->gem_next.len, -1);
    j->gem_writing = redis_store_multi(j->store, j->election, &op, 1,
                                       create ? on_gem_created : on_gem_set, j) == 0;
    j->calls += j->gem_writing;
}

void redis_journal_current(struct redis_journal *journal, const struct redis_current *current)
{
    if (journal->gem_root[0] == '\0' || journal->gem_writing || current == NULL) {
        return;
    }
    buf_reset(&journal->gem_next);
    redis_gem_nodes_write(&journal->gem_next, current);
    if (buf_ok(&journal->gem_next) &&
        !slice_equal(buf_slice(&journal->gem_next), buf_slice(&journal->gem_text))) {
        gem_put(journal, false);
    }
}

static void on_gem_taken(void *ctx, int error, const struct conclave_reply *reply)
{
    struct redis_journal *j = ctx;
    if (error == 0 && !j->destroyed) {
        redis_store_gem_taken(j->store, reply->zxid); /* the mirror may show it a moment longer */
    }
    j->gem_taken = -1; /* each node of the gem begins with the same versions */
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
    redis_request_write(&out, &copy);
    parts[0] = conclave_op_path(CONCLAVE_OP_DELETE,
                                redis_path(journal->gem_root, "manual_failover", removed), version);
    parts[1] =
        conclave_op_create(redis_path(redis_store_root(journal->store), "requests/req-", made),
                           out.data, out.len, CONCLAVE_PERSISTENT_SEQUENTIAL);
    if (buf_ok(&out) && redis_store_multi(journal->store, journal->election, parts, 2, on_gem_taken,
                                          journal) == 0) {
        journal->calls++;
        journal->gem_taken = version;
    }
    buf_finish(&out);
}

/* Beginning and end */

void redis_journal_begin(struct redis_journal *journal)
{
    buf_reset(&journal->gem_text);
    journal->gem_taken = -1;
    operator_nodes_config_put(journal, false);
    folder_cut(&journal->events);
    folder_cut(&journal->results);
}

int redis_journal_create(const struct redis_journal_settings *settings, struct redis_journal **ret)
{
    struct redis_journal *j = calloc(1, sizeof *j);
    if (j == NULL) {
        return CONCLAVE_ENOMEM;
    }
    j->store = settings->store;
    j->election = settings->election;
    j->config = settings->config;
    snprintf(j->gem_root, sizeof j->gem_root, "%s",
             settings->gem_root != NULL ? settings->gem_root : "");
    j->events = (struct folder){.journal = j, .name = "events"};
    j->results = (struct folder){.journal = j, .name = "results"};
    buf_init(&j->gem_text, 0);
    buf_init(&j->gem_next, 0);
    j->gem_taken = -1;
    j->calls = 1;
    *ret = j;
    return 0;
}

void redis_journal_destroy(struct redis_journal *journal)
{
    if (journal != NULL) {
        journal->destroyed = true;
        journal_release(journal);
    }
}
