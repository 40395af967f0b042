/* The mirrors of the znodes, reading them again for a new leader, and fenced writes. */
#include "redis/manager/cluster_znodes.h"

#include <conclave/config.h>

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum { REQUESTS_MAX = 64 };

/* The znodes that are mirrored. */
enum store_cell { CELL_CURRENT, CELL_PLAN, CELL_REQUESTS, CELL_GEM, CELLS };

/* One of them, as it was last known. */
struct mirrored_znode {
    struct redis_store *store;
    struct conclave_config *mirror; /* NULL: closed */
    int64_t zxid;                   /* of the last change that it shows; 0: never read */
    bool present;
    bool corrupt;
    int32_t version;
};

struct redis_store {
    struct redis_store_settings settings; /* its strings are not used after opening */
    struct redis_store_callbacks callbacks;
    bool observes; /* makes no folder */
    char root[REDIS_ROOT_MAX];
    char gem_root[REDIS_ROOT_MAX];      /* "" */
    struct conclave_election *election; /* by which this manager leads; NULL: not known yet */
    struct conclave_group *group;
    struct mirrored_znode cells[CELLS];
    struct redis_current current;
    struct redis_plan plan;
    struct redis_request gem_request;
    bool gem_asks; /* its node names a server */
    struct redis_request requests[REQUESTS_MAX];
    size_t request_count;
    char bad_request[REDIS_NAME_SIZE]; /* "" */
    char refused[REDIS_NAME_SIZE];     /* the last request whose result was refused; "" */
    enum { RESULT_CREATE, RESULT_SET, RESULT_NONE } result_way; /* how to answer it */
    struct redis_report scratch;
    int parts; /* recipes that are not closed, and calls under way */
    bool closing;
};

static const struct cell_row {
    const char *name;                 /* below ROOT, or below the gem's root */
    const struct record_table *table; /* NULL: it is no record of ours */
    size_t offset;                    /* of the record in struct redis_store */
} CELL_ROWS[CELLS] = {
    [CELL_CURRENT] = {"current", &REDIS_CURRENT, offsetof(struct redis_store, current)},
    [CELL_PLAN] = {"plan", &REDIS_PLAN, offsetof(struct redis_store, plan)},
    [CELL_REQUESTS] = {"requests", NULL, 0},
    [CELL_GEM] = {"manual_failover", NULL, 0},
};

const char *redis_path(const char *root, const char *below, char buf[REDIS_PATH_MAX])
{
    snprintf(buf, REDIS_PATH_MAX, "%s%s%s", root, below[0] != '\0' ? "/" : "", below);
    return buf;
}

static void part_gone(struct redis_store *s)
{
    assert(s->parts > 0);
    if (--s->parts > 0) {
        return;
    }
    assert(s->closing);
    struct redis_store_callbacks callbacks = s->callbacks;
    free(s);
    callbacks.on_closed(callbacks.ctx);
}

static void cluster_znodes_tell_change(struct redis_store *s)
{
    if (!s->closing) {
        s->callbacks.on_change(s->callbacks.ctx);
    }
}

/* --- records */

static const struct cell_row *cell_row(const struct mirrored_znode *cell)
{
    ptrdiff_t place = cell - cell->store->cells;
    assert(place >= 0 && place < CELLS);
    return &CELL_ROWS[place];
}

static void *cell_record(struct mirrored_znode *cell)
{
    assert(cell_row(cell)->table != NULL);
    return (char *)cell->store + cell_row(cell)->offset;
}

/* Takes the server's data as of `zxid`. False: they are older than the known data, and ignored. */
static bool cell_take(struct mirrored_znode *cell, int64_t zxid, bool present, int32_t version,
                      const void *data, size_t len)
{
    struct redis_store *s = cell->store;
    const struct record_table *table = cell_row(cell)->table;
    if (zxid < cell->zxid) {
        return false;
    }
    cell->zxid = zxid;
    cell->present = present;
    cell->version = version;
    cell->corrupt =
        present && table != NULL && record_read(table, data, len, cell_record(cell)) != 0;
    if (present && table == NULL) {
        s->gem_asks = redis_gem_request_read(data, len, &s->gem_request);
    }
    return true;
}

static int on_mirror(struct conclave_config *config, const struct conclave_config_state *state,
                     void *ctx)
{
    struct mirrored_znode *cell = ctx;
    const struct conclave_config_node *node = state->count > 0 ? state->nodes[0] : NULL;
    bool taken = node == NULL ? cell_take(cell, state->zxid, false, 0, NULL, 0)
                              : cell_take(cell, state->zxid, true, node->version, node->data,
                                          node->data_len);
    if (taken) {
        cluster_znodes_tell_change(cell->store);
    }
    return 0;
}

/* The nodes come in the order of their names, which is that of their numbers. */
static int on_requests(struct conclave_config *config, const struct conclave_config_state *state,
                       void *ctx)
{
    struct mirrored_znode *cell = ctx;
    struct redis_store *s = cell->store;
    if (state->zxid < cell->zxid) {
        return 0;
    }
    cell->zxid = state->zxid;
    s->request_count = 0;
    s->bad_request[0] = '\0';
    for (size_t i = 0; i < state->count && s->request_count < REQUESTS_MAX; i++) {
        const struct conclave_config_node *node = state->nodes[i];
        struct redis_request *request = &s->requests[s->request_count];
        if (node->path[0] == '\0' || strchr(node->path, '/') != NULL ||
            strlen(node->path) >= REDIS_NAME_SIZE) {
            continue;
        }
        if (redis_request_read(node->data, node->data_len, node->path, request) == 0) {
            s->request_count++;
        } else {
            snprintf(s->bad_request, sizeof s->bad_request, "%s", node->path);
        }
    }
    cluster_znodes_tell_change(s);
    return 0;
}

static void on_mirror_closed(struct conclave_config *config, int why, void *ctx)
{
    struct mirrored_znode *cell = ctx;
    conclave_config_destroy(config);
    part_gone(cell->store);
}

static int mirror_open(struct redis_store *s, enum store_cell which)
{
    char path[REDIS_PATH_MAX];
    bool tree = which == CELL_REQUESTS;
    struct conclave_config_options options = CONCLAVE_CONFIG_OPTIONS_INIT;
    struct conclave_config_callbacks callbacks = {.size = sizeof callbacks,
                                                  .on_change = tree ? on_requests : on_mirror,
                                                  .on_closed = on_mirror_closed};
    const char *root = which == CELL_GEM ? s->gem_root : s->root;
    if (root[0] == '\0') {
        return 0;
    }
    options.path = redis_path(root, CELL_ROWS[which].name, path);
    options.tree = tree;
    int rc = conclave_config_open(s->settings.recipes, &options, &callbacks, &s->cells[which],
                                  &s->cells[which].mirror);
    s->parts += rc == 0;
    return rc;
}

/* --- managers */

static void cluster_znodes_on_member(struct conclave_group *group, enum conclave_group_event event,
                                     const struct conclave_member *member, void *ctx)
{
    struct redis_store *s = ctx;
    struct redis_report *report = &s->scratch;
    if (s->closing || (member->self && event == CONCLAVE_GROUP_LEFT)) {
        return;
    }
    if (event == CONCLAVE_GROUP_LEFT) {
        s->callbacks.on_gone(s->callbacks.ctx, member->id);
    } else if (record_read(&REDIS_REPORT, member->data, member->data_len, report) != 0) {
        return;
    } else if (member->self) {
        s->callbacks.on_own_report(s->callbacks.ctx, report);
    } else {
        report->mzxid = member->mzxid;
        s->callbacks.on_report(s->callbacks.ctx, report);
    }
}

static void on_membership(struct conclave_group *group, enum conclave_membership membership,
                          void *ctx)
{
    struct redis_store *s = ctx;
    if (!s->closing) {
        s->callbacks.on_membership(s->callbacks.ctx, membership);
    }
}

static void on_group_closed(struct conclave_group *group, int why, void *ctx)
{
    struct redis_store *s = ctx;
    conclave_group_destroy(group);
    part_gone(s);
}

static int group_open(struct redis_store *s, const char *id)
{
    char path[REDIS_PATH_MAX];
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    struct conclave_group_callbacks callbacks = {.size = sizeof callbacks,
                                                 .on_change = cluster_znodes_on_member,
                                                 .on_membership = on_membership,
                                                 .on_closed = on_group_closed};
    options.path = redis_path(s->root, "managers", path);
    options.id = id;
    int rc = conclave_group_open(s->settings.recipes, &options, &callbacks, s, &s->group);
    s->parts += rc == 0;
    return rc;
}

int redis_store_report(struct redis_store *store, const struct redis_report *report)
{
    struct buf out;
    buf_init(&out, 0);
    record_write(&out, &REDIS_REPORT, report);
    int rc =
        buf_ok(&out) ? conclave_group_set_data(store->group, out.data, out.len) : CONCLAVE_ENOMEM;
    buf_finish(&out);
    return rc;
}

/* --- opening and closing */

int redis_store_open(const struct redis_store_settings *settings,
                     const struct redis_store_callbacks *callbacks, struct redis_store **ret)
{
    const char *gem_root = settings->gem_root != NULL ? settings->gem_root : "";
    struct redis_store *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return CONCLAVE_ENOMEM;
    }
    s->settings = *settings;
    s->callbacks = *callbacks;
    s->observes = settings->id == NULL;
    s->parts = 1; /* this call, then redis_store_close */
    snprintf(s->root, sizeof s->root, "%s", settings->root);
    snprintf(s->gem_root, sizeof s->gem_root, "%s", gem_root);
    int rc = strlen(settings->root) < sizeof s->root && strlen(gem_root) < sizeof s->gem_root
                 ? 0
                 : CONCLAVE_EINVAL;
    rc = rc != 0 ? rc : group_open(s, settings->id);
    for (int i = 0; i < CELLS; i++) {
        s->cells[i].store = s;
        rc = rc != 0 ? rc : mirror_open(s, (enum store_cell)i);
    }
    *ret = s;
    return rc;
}

void redis_store_set_election(struct redis_store *store, struct conclave_election *election)
{
    store->election = election;
}

void redis_store_close(struct redis_store *store)
{
    assert(!store->closing);
    store->closing = true;
    if (store->group != NULL) {
        conclave_group_close(store->group);
    }
    for (size_t i = 0; i < CELLS; i++) {
        if (store->cells[i].mirror != NULL) {
            conclave_config_close(store->cells[i].mirror);
            store->cells[i].mirror = NULL;
        }
    }
    part_gone(store);
}

/* --- the view */

struct redis_znodes redis_store_znodes(const struct redis_store *store)
{
    const struct mirrored_znode *current = &store->cells[CELL_CURRENT];
    const struct mirrored_znode *plan = &store->cells[CELL_PLAN];
    const struct mirrored_znode *gem = &store->cells[CELL_GEM];
    return (struct redis_znodes){
        .known = current->zxid > 0 && plan->zxid > 0,
        .corrupt = current->corrupt ? "current"
                   : plan->corrupt  ? "plan"
                                    : NULL,
        .current = current->present ? &store->current : NULL,
        .current_version = current->version,
        .plan = plan->present ? &store->plan : NULL,
        .plan_version = plan->version,
        .request = store->request_count > 0 ? &store->requests[0] : NULL,
        .bad_request = store->bad_request[0] != '\0' ? store->bad_request : NULL,
        .gem_request = gem->present && store->gem_asks ? &store->gem_request : NULL,
        .gem_version = gem->version,
    };
}

void redis_store_gem_taken(struct redis_store *store, int64_t zxid)
{
    (void)cell_take(&store->cells[CELL_GEM], zxid, false, 0, NULL, 0);
}

struct conclave_client *redis_store_client(const struct redis_store *store)
{
    return store->settings.client;
}

const char *redis_store_root(const struct redis_store *store)
{
    return store->root;
}

/* --- refresh: the folders, then a sync, then both records
 *
 * A folder is looked for before it is created, and its parents are created only if they are missing: below a node
 * that others own, servers refuse to create even what exists already. */

static const struct refresh_row {
    enum conclave_op_type op; /* EXISTS: a folder, created if it is missing */
    const char *below;        /* ROOT; NULL: the gem's root */
    enum store_cell cell;     /* of GET */
} REFRESH_ROWS[] = {
    {CONCLAVE_OP_EXISTS, "requests", CELLS}, {CONCLAVE_OP_EXISTS, "results", CELLS},
    {CONCLAVE_OP_EXISTS, "events", CELLS},   {CONCLAVE_OP_EXISTS, NULL, CELLS},
    {CONCLAVE_OP_SYNC, "", CELLS},           {CONCLAVE_OP_GET, "current", CELL_CURRENT},
    {CONCLAVE_OP_GET, "plan", CELL_PLAN},
};
enum { REFRESH_ROW_COUNT = sizeof REFRESH_ROWS / sizeof REFRESH_ROWS[0] };

struct refresh {
    struct redis_store *store;
    void (*done)(void *ctx, int error);
    void *ctx;
    size_t row;
    char path[REDIS_PATH_MAX]; /* of the row */
    size_t made; /* length of the part of the path that is being created; 0: it is looked for */
};

static void refresh_end(struct refresh *r, int error)
{
    struct redis_store *s = r->store;
    r->done(r->ctx, error);
    free(r);
    part_gone(s);
}

/* The first row at or behind `row` that this store needs. */
static void refresh_enter(struct refresh *r, size_t row)
{
    const struct redis_store *s = r->store;
    while (row < REFRESH_ROW_COUNT && REFRESH_ROWS[row].op == CONCLAVE_OP_EXISTS &&
           (s->observes || (REFRESH_ROWS[row].below == NULL && s->gem_root[0] == '\0'))) {
        row++;
    }
    r->row = row;
    r->made = 0;
    if (row < REFRESH_ROW_COUNT) {
        const char *below = REFRESH_ROWS[row].below;
        redis_path(below != NULL ? s->root : s->gem_root, below != NULL ? below : "", r->path);
    }
}

/* The next step for a folder after this answer. 0: it exists; 1: send again (refresh_send); else why it cannot exist. */
static int refresh_folder_step(struct refresh *r, int error)
{
    size_t len = strlen(r->path);
    if (r->made == 0) {
        r->made = error == CONCLAVE_NO_NODE ? len : 0;
        return error == CONCLAVE_NO_NODE ? 1 : error;
    }
    if (error == CONCLAVE_NO_NODE) {
        while (r->made > 0 && r->path[r->made - 1] != '/') {
            r->made--;
        }
        r->made -= r->made > 0; /* that "/" */
        return r->made > 0 ? 1 : error;
    }
    if ((error != 0 && error != CONCLAVE_NODE_EXISTS) || r->made == len) {
        return error == CONCLAVE_NODE_EXISTS ? 0 : error;
    }
    r->made += 1 + strcspn(r->path + r->made + 1, "/");
    return 1;
}

static void on_refresh(struct conclave_client *client, const struct conclave_reply *reply,
                       void *ctx);

static int refresh_send(struct refresh *r)
{
    char part[REDIS_PATH_MAX];
    struct conclave_op op = conclave_op_path(REFRESH_ROWS[r->row].op, r->path, 0);
    assert(r->made <= strlen(r->path));
    if (r->made > 0) {
        snprintf(part, sizeof part, "%.*s", (int)r->made, r->path);
        op = conclave_op_create(part, "", 0, CONCLAVE_PERSISTENT);
    }
    return conclave_submit(r->store->settings.client, &op, on_refresh, r);
}

static void on_refresh(struct conclave_client *client, const struct conclave_reply *reply,
                       void *ctx)
{
    struct refresh *r = ctx;
    struct redis_store *s = r->store;
    const struct refresh_row *row = &REFRESH_ROWS[r->row];
    int error = reply->error;
    if (row->op == CONCLAVE_OP_EXISTS) {
        error = refresh_folder_step(r, error);
    } else if (row->op == CONCLAVE_OP_GET && (error == 0 || error == CONCLAVE_NO_NODE)) {
        (void)cell_take(&s->cells[row->cell], reply->zxid, error == 0, reply->stat.version,
                        reply->data, reply->data_len);
        error = 0;
    }
    bool over = s->closing;
    if (error == 0) {
        refresh_enter(r, r->row + 1);
        over = over || r->row == REFRESH_ROW_COUNT;
    }
    if (!over && (error == 0 || error == 1)) {
        error = refresh_send(r);
        over = error != 0;
    }
    if (over || error != 0) {
        refresh_end(r, error == 1 ? 0 : error);
    }
}

void redis_store_refresh(struct redis_store *store, void (*done)(void *ctx, int error), void *ctx)
{
    struct refresh *r = calloc(1, sizeof *r);
    int error = CONCLAVE_ENOMEM;
    if (r != NULL) {
        *r = (struct refresh){.store = store, .done = done, .ctx = ctx};
        refresh_enter(r, 0);
        store->parts++;
        error = refresh_send(r);
        if (error == 0) {
            return;
        }
        store->parts--;
        free(r);
    }
    done(ctx, error);
}

/* --- writing */

/* A transaction under way, and what it changes. */
struct znode_write {
    struct redis_store *store;
    redis_store_fn fn;
    void *ctx;
    struct mirrored_znode *cell; /* NULL: no record */
    bool removes;
    int32_t version;            /* of the record after the write */
    char name[REDIS_NAME_SIZE]; /* of the request that it answers; "" */
    union {
        struct redis_current current;
        struct redis_plan plan;
    } record;
};

static void write_note(struct znode_write *w, int64_t zxid)
{
    struct redis_store *s = w->store;
    struct mirrored_znode *requests = &s->cells[CELL_REQUESTS];
    if (w->cell != NULL && zxid >= w->cell->zxid) {
        w->cell->zxid = zxid;
        w->cell->present = !w->removes;
        w->cell->corrupt = false;
        w->cell->version = w->version;
        if (!w->removes) {
            memcpy(cell_record(w->cell), &w->record, cell_row(w->cell)->table->size);
        }
    }
    if (w->name[0] != '\0') {
        size_t kept = 0;
        for (size_t i = 0; i < s->request_count; i++) {
            if (strcmp(s->requests[i].name, w->name) != 0) {
                s->requests[kept++] = s->requests[i];
            }
        }
        s->request_count = kept;
        requests->zxid = zxid > requests->zxid ? zxid : requests->zxid;
    }
}

/* An answer must not be refused for ever: all later requests would wait behind this one. */
static void answer_note(struct znode_write *w, const struct conclave_reply *reply)
{
    struct redis_store *s = w->store;
    int error = reply->error != 0 && reply->results_count > 1 ? reply->results[1]->error : 0;
    snprintf(s->refused, sizeof s->refused, "%s", error != 0 ? w->name : "");
    s->result_way = error == CONCLAVE_NODE_EXISTS                                   ? RESULT_SET
                    : error == CONCLAVE_NO_AUTH || error == CONCLAVE_QUOTA_EXCEEDED ? RESULT_NONE
                                                                                    : RESULT_CREATE;
}

static void cluster_znodes_on_written(struct conclave_client *client,
                                      const struct conclave_reply *reply, void *ctx)
{
    struct znode_write *w = ctx;
    struct redis_store *s = w->store;
    struct conclave_reply rest = *reply;
    int error = reply->error;
    if (error == 0) {
        write_note(w, reply->zxid);
    }
    if (w->name[0] != '\0') {
        answer_note(w, reply);
    }
    if (reply->results_count > 0) {
        /* The node by which this manager leads is gone: the check comes first. */
        error = reply->results[0]->error == CONCLAVE_NO_NODE ? CONCLAVE_EFENCED : error;
        rest.results++;
        rest.results_count--;
    }
    w->fn(w->ctx, error, &rest);
    free(w);
    part_gone(s);
}

/* The path of the election's node that this manager has. False: it has none. */
static bool lead_path(const struct redis_store *s, char path[REDIS_PATH_MAX])
{
    char node[128] = "";
    if (s->election != NULL) {
        conclave_election_node(s->election, node, sizeof node);
    }
    size_t len = strlen(redis_path(s->root, "election/", path));
    snprintf(path + len, REDIS_PATH_MAX - len, "%s", node);
    return node[0] != '\0';
}

/* Frees w on failure. */
static int write_submit(struct znode_write *w, const struct conclave_op *parts, size_t count)
{
    struct redis_store *s = w->store;
    struct conclave_op all[REDIS_PARTS_MAX + 1];
    char path[REDIS_PATH_MAX];
    int error = CONCLAVE_EFENCED;
    assert(count > 0 && count <= REDIS_PARTS_MAX);
    if (s->election != NULL && conclave_election_is_leader(s->election) && lead_path(s, path)) {
        all[0] = conclave_op_path(CONCLAVE_OP_CHECK, path, -1);
        memcpy(all + 1, parts, count * sizeof *parts);
        struct conclave_op op = conclave_op_multi(all, count + 1);
        s->parts++;
        error = conclave_submit(s->settings.client, &op, cluster_znodes_on_written, w);
        s->parts -= error != 0;
    }
    if (error != 0) {
        free(w);
    }
    return error;
}

static struct znode_write *cluster_znodes_write_create(struct redis_store *s, redis_store_fn fn,
                                                       void *ctx)
{
    struct znode_write *w = calloc(1, sizeof *w);
    if (w != NULL) {
        w->store = s;
        w->fn = fn;
        w->ctx = ctx;
    }
    return w;
}

int redis_store_multi(struct redis_store *store, const struct conclave_op *parts, size_t count,
                      redis_store_fn fn, void *ctx)
{
    struct znode_write *w = cluster_znodes_write_create(store, fn, ctx);
    return w == NULL ? CONCLAVE_ENOMEM : write_submit(w, parts, count);
}

/* The same for parts whose data are in `out`, which is freed. */
static int write_submit_text(struct znode_write *w, const struct conclave_op *parts, size_t count,
                             struct buf *out)
{
    int rc = CONCLAVE_ENOMEM;
    if (buf_ok(out)) {
        rc = write_submit(w, parts, count);
    } else {
        free(w);
    }
    buf_finish(out);
    return rc;
}

int redis_store_write(struct redis_store *store, const struct record_table *table,
                      const void *record, int32_t version, redis_store_fn fn, void *ctx)
{
    enum store_cell which = table == &REDIS_CURRENT ? CELL_CURRENT : CELL_PLAN;
    char path[REDIS_PATH_MAX];
    struct conclave_op op;
    struct buf out;
    struct znode_write *w = cluster_znodes_write_create(store, fn, ctx);
    if (w == NULL) {
        return CONCLAVE_ENOMEM;
    }
    assert(table == CELL_ROWS[which].table);
    assert(record != NULL || which == CELL_PLAN); /* `current` is never removed */
    w->cell = &store->cells[which];
    w->removes = record == NULL;
    redis_path(store->root, CELL_ROWS[which].name, path);
    buf_init(&out, 0);
    if (record == NULL) {
        op = conclave_op_path(CONCLAVE_OP_DELETE, path, version);
        return write_submit_text(w, &op, 1, &out);
    }
    memcpy(&w->record, record, table->size);
    record_write(&out, table, record);
    w->version = version < 0 ? 0 : version + 1;
    op = version < 0 ? conclave_op_create(path, out.data, out.len, CONCLAVE_PERSISTENT)
                     : conclave_op_set(path, out.data, out.len, version);
    return write_submit_text(w, &op, 1, &out);
}

int redis_store_answer(struct redis_store *store, const char *name,
                       const struct redis_result *result, redis_store_fn fn, void *ctx)
{
    char below[REDIS_NAME_SIZE + 16];
    char made[REDIS_PATH_MAX];
    char removed[REDIS_PATH_MAX];
    struct conclave_op parts[2];
    size_t count = 0;
    struct buf out;
    struct znode_write *w = cluster_znodes_write_create(store, fn, ctx);
    if (w == NULL) {
        return CONCLAVE_ENOMEM;
    }
    bool again = strcmp(store->refused, name) == 0;
    buf_init(&out, 0);
    record_write(&out, &REDIS_RESULT, result);
    snprintf(w->name, sizeof w->name, "%s", name);
    snprintf(below, sizeof below, "results/%s", name);
    redis_path(store->root, below, made);
    if (again && store->result_way == RESULT_SET) {
        parts[count++] = conclave_op_set(made, out.data, out.len, -1);
    } else if (!again || store->result_way != RESULT_NONE) {
        parts[count++] = conclave_op_create(made, out.data, out.len, CONCLAVE_PERSISTENT);
    }
    snprintf(below, sizeof below, "requests/%s", name);
    parts[count++] =
        conclave_op_path(CONCLAVE_OP_DELETE, redis_path(store->root, below, removed), -1);
    return write_submit_text(w, parts, count, &out);
}

/* --- the node by which this manager leads */

struct lead_find {
    struct redis_store *store;
    void (*done)(void *ctx, int error);
    void *ctx;
};

static void on_lead_found(struct conclave_client *client, const struct conclave_reply *reply,
                          void *ctx)
{
    struct lead_find *f = ctx;
    struct redis_store *s = f->store;
    f->done(f->ctx, reply->error);
    free(f);
    part_gone(s);
}

/* A session reads no state that is older than what it has read, and a node of the election never comes back. */
int redis_store_find_lead(struct redis_store *store, void (*done)(void *ctx, int error), void *ctx)
{
    char path[REDIS_PATH_MAX];
    if (!lead_path(store, path)) {
        return CONCLAVE_NO_NODE;
    }
    struct lead_find *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *f = (struct lead_find){.store = store, .done = done, .ctx = ctx};
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    int error = conclave_submit(store->settings.client, &op, on_lead_found, f);
    if (error != 0) {
        free(f);
        return error;
    }
    store->parts++;
    return 0;
}

/* --- the end of another manager's lead */

struct lead_end {
    struct redis_store *store;
    redis_lead_fn done;
    void *ctx;
    int64_t mzxid; /* of the report */
    char id[REDIS_NAME_SIZE];
    char report[REDIS_PATH_MAX]; /* its znode */
    char lead[REDIS_PATH_MAX];
};

static void lead_end_over(struct lead_end *e, int error)
{
    struct redis_store *s = e->store;
    e->done(e->ctx, error, e->id);
    free(e);
    part_gone(s);
}

static void on_lead_ended(struct conclave_client *client, const struct conclave_reply *reply,
                          void *ctx)
{
    lead_end_over(ctx, reply->error);
}

/* The report's version, which the transaction checks, belongs to the report that was seen. */
static void on_report_found(struct conclave_client *client, const struct conclave_reply *reply,
                            void *ctx)
{
    struct lead_end *e = ctx;
    int error =
        reply->error == 0 && reply->stat.mzxid != e->mzxid ? CONCLAVE_BAD_VERSION : reply->error;
    if (error == 0) {
        struct conclave_op parts[] = {
            conclave_op_path(CONCLAVE_OP_CHECK, e->report, reply->stat.version),
            conclave_op_path(CONCLAVE_OP_DELETE, e->lead, -1),
        };
        struct conclave_op op = conclave_op_multi(parts, sizeof parts / sizeof parts[0]);
        error =
            e->store->closing ? CONCLAVE_ECLOSED : conclave_submit(client, &op, on_lead_ended, e);
    }
    if (error != 0) {
        lead_end_over(e, error);
    }
}

int redis_store_end_lead(struct redis_store *store, const struct redis_report *report,
                         const char *node, redis_lead_fn done, void *ctx)
{
    struct lead_end *e = calloc(1, sizeof *e);
    char below[REDIS_NAME_SIZE + 16];
    if (e == NULL) {
        return CONCLAVE_ENOMEM;
    }
    e->store = store;
    e->done = done;
    e->ctx = ctx;
    e->mzxid = report->mzxid;
    memcpy(e->id, report->id, sizeof e->id);
    snprintf(below, sizeof below, "managers/%s", report->id);
    redis_path(store->root, below, e->report);
    snprintf(below, sizeof below, "election/%.120s", node);
    redis_path(store->root, below, e->lead);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, e->report, 0);
    int error = conclave_submit(store->settings.client, &op, on_report_found, e);
    if (error != 0) {
        free(e);
        return error;
    }
    store->parts++;
    return 0;
}
