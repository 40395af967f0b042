/* Reads reports, orders the replicas, picks one. */
#include "recipes/follow/replica_view.h"

#include "recipes/follow/master_view.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { STALE_PERIODS = 3 };

int replica_report_read(const void *data, size_t len, int64_t mtime_ms, struct replica_report *ret)
{
    json_t *json;
    if (redis_json_read(data, len, 0, &json) == CONCLAVE_ENOMEM) {
        return CONCLAVE_ENOMEM;
    }
    if (!json_is_object(json_object_get(json, "nodes"))) {
        json_decref(json);
        json = NULL;
    }
    *ret = (struct replica_report){.json = json, .mtime_ms = mtime_ms};
    return 0;
}

void replica_report_finish(struct replica_report *report)
{
    json_decref(report->json);
    report->json = NULL;
}

/* --- one server in one report */

static int64_t report_number(const json_t *node, const char *key)
{
    const json_t *value = json_object_get(node, key);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static bool word_is(const json_t *node, const char *key, const char *word)
{
    const char *text = json_string_value(json_object_get(node, key));
    return text != NULL && word != NULL && strcmp(text, word) == 0;
}

/* Servers before 4.0 have no ids: their link must do. */
static bool of_one_history(const json_t *master, const json_t *node)
{
    const char *theirs = json_string_value(json_object_get(master, "replid"));
    return theirs == NULL || theirs[0] == '\0' || word_is(node, "replid", theirs);
}

static void replica_fill(const json_t *nodes, const char *master_address, const json_t *node,
                         struct conclave_redis_replica *r)
{
    const json_t *master = master_address == NULL ? NULL : json_object_get(nodes, master_address);
    int64_t written = report_number(master, "offset");
    int64_t has = report_number(node, "offset");
    bool follows = word_is(node, "master", master_address) && of_one_history(master, node);
    r->age_ms = report_number(node, "age_ms");
    r->latency_us = report_number(node, "latency_us");
    r->link_down_ms = report_number(node, "link_down_ms");
    r->usable = word_is(node, "state", "up") && word_is(node, "role", "replica") &&
                word_is(node, "link", "up") && follows;
    r->lag_bytes = !follows || written < 0 || has < 0 ? -1 : written > has ? written - has : 0;
}

/* --- all reports */

static bool report_counts(const struct replica_report *report, int64_t newest_ms)
{
    int64_t period_ms = report_number(report->json, "period_ms");
    return report->json != NULL &&
           (period_ms < 0 || (newest_ms - report->mtime_ms) / STALE_PERIODS <= period_ms);
}

/* Takes over the newest facts of the reports. */
static void replica_look(const struct conclave_redis_view *view,
                         const struct replica_report *reports, size_t count,
                         struct conclave_redis_replica *r)
{
    int64_t newest_ms = 0;
    int64_t best_ms = INT64_MIN; /* when the facts were true */
    for (size_t i = 0; i < count; i++) {
        bool newer = reports[i].json != NULL && reports[i].mtime_ms > newest_ms;
        newest_ms = newer ? reports[i].mtime_ms : newest_ms;
    }
    r->age_ms = r->latency_us = r->link_down_ms = r->lag_bytes = -1;
    for (size_t i = 0; i < count; i++) {
        const json_t *nodes = json_object_get(reports[i].json, "nodes");
        const json_t *node = json_object_get(nodes, r->address);
        int64_t age_ms = report_number(node, "age_ms");
        bool known = node != NULL && age_ms >= 0 && age_ms <= newest_ms &&
                     report_counts(&reports[i], newest_ms);
        if (known && reports[i].mtime_ms - age_ms > best_ms) {
            best_ms = reports[i].mtime_ms - age_ms;
            replica_fill(nodes, view->master, node, r);
        }
    }
}

/* Unknown numbers come last. */
static int by_known(int64_t a, int64_t b)
{
    uint64_t left = (uint64_t)a;
    uint64_t right = (uint64_t)b;
    return (left > right) - (left < right);
}

static int replica_compare(const void *a, const void *b)
{
    const struct conclave_redis_replica *left = a;
    const struct conclave_redis_replica *right = b;
    int order[] = {right->usable - left->usable, by_known(left->lag_bytes, right->lag_bytes),
                   by_known(left->latency_us, right->latency_us),
                   strcmp(left->address, right->address)};
    size_t i = 0;
    while (i + 1 < sizeof order / sizeof order[0] && order[i] == 0) {
        i++;
    }
    return order[i];
}

/* The list, its pointers, the replicas and the texts in one block. */
struct replica_block {
    struct conclave_redis_replicas list; /* first */
    struct conclave_redis_replica *all;
    char *texts;
};

static struct replica_block *replica_block_make(const struct conclave_redis_view *view)
{
    size_t count = view->replica_count;
    size_t texts = view->master == NULL ? 0 : strlen(view->master) + 1;
    for (size_t i = 0; i < count; i++) {
        texts += 2 * (strlen(view->replicas[i]) + 1); /* address and host */
    }
    size_t size = sizeof(struct replica_block) +
                  count * (sizeof(struct conclave_redis_replica) + sizeof(void *)) + texts;
    struct replica_block *block = malloc(size);
    if (block != NULL) {
        block->all = (struct conclave_redis_replica *)(block + 1);
        const struct conclave_redis_replica **list =
            (const struct conclave_redis_replica **)(block->all + count);
        block->texts = (char *)(list + count);
        block->list = (struct conclave_redis_replicas){.epoch = view->epoch, .list = list};
        for (size_t i = 0; i < count; i++) {
            list[i] = &block->all[i];
        }
    }
    return block;
}

static const char *replica_text(struct replica_block *block, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = memcpy(block->texts, text, size);
    block->texts += size;
    return copy;
}

int replica_view_make(const struct conclave_redis_view *view, const struct replica_report *reports,
                      size_t count, struct conclave_redis_replicas **ret)
{
    char host[REDIS_VIEW_HOST_MAX + 1];
    struct replica_block *block = replica_block_make(view);
    if (block == NULL) {
        return CONCLAVE_ENOMEM;
    }
    block->list.master = view->master == NULL ? NULL : replica_text(block, view->master);
    for (size_t i = 0; i < view->replica_count; i++) {
        struct conclave_redis_replica *r = &block->all[block->list.count];
        *r = (struct conclave_redis_replica){.usable = false};
        if (redis_view_address(view->replicas[i], host, &r->port)) {
            r->address = replica_text(block, view->replicas[i]);
            r->host = replica_text(block, host);
            replica_look(view, reports, count, r);
            block->list.count++;
        }
    }
    assert(block->list.count <= view->replica_count);
    qsort(block->all, block->list.count, sizeof *block->all, replica_compare);
    *ret = &block->list;
    return 0;
}

void conclave_redis_replicas_free(struct conclave_redis_replicas *replicas)
{
    free(replicas);
}

static bool replica_fits(const struct conclave_redis_replica *r, int64_t max_lag_bytes)
{
    return r->usable && (max_lag_bytes < 0 || (r->lag_bytes >= 0 && r->lag_bytes <= max_lag_bytes));
}

const struct conclave_redis_replica *
conclave_redis_pick(const struct conclave_redis_replicas *replicas, int64_t max_lag_bytes,
                    uint64_t turn)
{
    size_t fit = 0;
    for (size_t i = 0; i < replicas->count; i++) {
        fit += replica_fits(replicas->list[i], max_lag_bytes) ? 1 : 0;
    }
    size_t wanted = fit == 0 ? 0 : (size_t)(turn % fit);
    for (size_t i = 0; i < replicas->count; i++) {
        if (replica_fits(replicas->list[i], max_lag_bytes) && wanted-- == 0) {
            return replicas->list[i];
        }
    }
    return NULL;
}
