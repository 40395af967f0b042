#include "replication/log_export.h"

#include "replication/running_log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct log_export {
    const struct log_export_plan *plan;
    struct snapshot_reader reader;
    bool snapshot; /* the reader is open */
    bool begun;    /* the snapshot's head was returned */
    size_t at;     /* of the snapshot's content */
    uint64_t from_index;
    uint64_t from_term;
    struct log_scan *scan; /* NULL: no entries */
};

int log_export_plan(const struct replication *r, uint64_t end, struct log_export_plan *ret)
{
    const struct snapshot_task *t = &r->snapshot;
    struct log_export_plan plan = {.end.index = end};
    if (r->error != 0 || r->stage != LOG_RUNNING) {
        return CONCLAVE_EIO;
    }
    if (r->skip.any) {
        return CONCLAVE_EINVAL;
    }
    assert(end <= r->applied);
    for (size_t i = 0; i < t->n_kept && plan.n_snapshots < LOG_EXPORT_SNAPSHOTS; i++) {
        if (t->kept[i].good && t->kept[i].index <= end) {
            plan.snapshots[plan.n_snapshots++] = t->kept[i].index;
        }
    }
    const struct entry_table_entry *entry = entry_table_at(&r->table, end);
    if (entry != NULL) {
        if (entry->segment == 0 || end > engine_stored(r->engine)) {
            return CONCLAVE_EBUSY;
        }
        plan.end.segment = entry->segment;
        plan.end.offset = entry->offset;
        plan.end_term = entry->term;
    } else if (end != r->snapshot_index) {
        return CONCLAVE_EBUSY; /* the snapshot that contains it is not in the list yet */
    } else {
        plan.end_term = end == r->applied ? r->applied_term : 0;
    }
    memcpy(plan.cluster, r->folder.marker.cluster, sizeof plan.cluster);
    plan.dir = strdup(r->folder.dir);
    if (plan.dir == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *ret = plan;
    return 0;
}

void log_export_plan_finish(struct log_export_plan *plan)
{
    free(plan->dir);
    plan->dir = NULL;
}

/* The newest snapshot that is good. Without any, the log must be complete. */
static int export_open_snapshot(struct log_export *x, struct error_text *problem)
{
    const struct log_export_plan *plan = x->plan;
    for (size_t i = 0; i < plan->n_snapshots; i++) {
        int rc = snapshot_reader_open(&x->reader, file_ops_system(), plan->dir, plan->snapshots[i],
                                      plan->cluster, problem);
        if (rc == 0) {
            x->snapshot = true;
            x->from_index = x->reader.meta.index;
            x->from_term = x->reader.meta.term;
            return 0;
        }
    }
    return 0;
}

/* Reads the entry behind which an incremental export begins, and compares it. */
static int export_check_since(struct log_export *x, struct error_text *problem)
{
    struct log_scan_entry entry;
    int rc = log_scan_next(x->scan, &entry, problem);
    if (rc == 1 && (entry.index != x->from_index || entry.term != x->from_term)) {
        return error_text_set(problem, CONCLAVE_NO_NODE,
                              "the log has another entry %" PRIu64
                              " than the earlier backup: it is of another history",
                              x->from_index);
    }
    return rc < 0 ? rc : 0;
}

int log_export_open(struct log_export **ret, const struct log_export_plan *plan,
                    uint64_t since_index, uint64_t since_term, struct error_text *problem)
{
    struct log_export *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return CONCLAVE_ENOMEM;
    }
    x->plan = plan;
    x->from_index = since_index;
    x->from_term = since_term;
    int rc = 0;
    if (since_index > plan->end.index) {
        rc = error_text_set(problem, CONCLAVE_NO_NODE,
                            "this server's log ends before the earlier backup does");
    } else if (since_index == 0) {
        rc = export_open_snapshot(x, problem);
    }
    uint64_t first = since_index != 0 ? since_index : x->from_index + 1;
    if (rc == 0 && first <= plan->end.index) {
        rc = plan->end.segment == 0
                 ? error_text_set(problem, CONCLAVE_NO_NODE,
                                  "the log does not hold entry %" PRIu64 " any more", first)
                 : log_scan_open(&x->scan, file_ops_system(), plan->dir, plan->cluster, first,
                                 &plan->end, problem);
    }
    if (rc == 0 && since_index != 0) {
        rc = export_check_since(x, problem);
    }
    if (rc != 0) {
        log_export_close(x);
        return rc;
    }
    *ret = x;
    return 0;
}

void log_export_from(const struct log_export *x, uint64_t *ret_index, uint64_t *ret_term)
{
    *ret_index = x->from_index;
    *ret_term = x->from_term;
}

int log_export_next(struct log_export *x, struct log_export_item *ret, struct error_text *problem)
{
    struct slice content = x->reader.content;
    if (x->snapshot && !x->begun) {
        x->begun = true;
        *ret = (struct log_export_item){
            .kind = LOG_EXPORT_SNAPSHOT, .meta = &x->reader.meta, .content_size = content.len};
        return 1;
    }
    if (x->snapshot && x->at < content.len) {
        size_t left = content.len - x->at;
        size_t len = left < SNAPSHOT_BLOCK_SIZE ? left : SNAPSHOT_BLOCK_SIZE;
        *ret = (struct log_export_item){.kind = LOG_EXPORT_PART,
                                        .part = slice_make(content.data + x->at, len)};
        x->at += len;
        return 1;
    }
    *ret = (struct log_export_item){.kind = LOG_EXPORT_ENTRY};
    return x->scan != NULL ? log_scan_next(x->scan, &ret->entry, problem) : 0;
}

void log_export_close(struct log_export *x)
{
    if (x == NULL) {
        return;
    }
    log_scan_close(x->scan);
    if (x->snapshot) {
        snapshot_reader_close(&x->reader);
    }
    free(x);
}
