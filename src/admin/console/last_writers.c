#include "admin/console/last_writers.h"

#include "admin/console/caller_names.h"
#include "admin/console/layout_names.h"
#include "base/map.h"
#include "state/query.h"

#include <assert.h>
#include <stdlib.h>

enum { WAYS = 2, IDS_KEPT = 128 };

/* Values of writer_record.caller that are no hash. */
enum { CALLER_NONE = 0, CALLER_MIRROR = 1 };

/* Small, because each write needs one: WAYS of them are a line of the processor's cache. */
struct writer_record {
    uint64_t path; /* hash; two paths with one only make room too early */
    int64_t zxid;  /* 0: the record is empty */
    int64_t session;
    uint64_t caller; /* hash of its ids: where its words are */
};

/* The ids of a command in words, once for all its records. */
struct writer_caller {
    uint64_t hash;
    char client[WRITER_CLIENT_MAX];
    char ids[WRITER_IDS_MAX];
};

struct writer_table {
    struct writer_record records[LAST_WRITERS_MAX];
    struct writer_caller callers[WRITER_CALLERS_MAX];
    uint8_t latest
        [IDS_KEPT];    /* the ids of the command before, so that a row of commands is hashed once */
    size_t latest_len; /* 0: they are too long */
    uint64_t latest_hash;
};

void last_writers_init(struct last_writers *w)
{
    *w = (struct last_writers){.service = NULL};
}

void last_writers_finish(struct last_writers *w)
{
    free(w->table);
    last_writers_init(w);
}

/* The first of the records that may be those of a path. */
static size_t writers_of(uint64_t path)
{
    return path % (LAST_WRITERS_MAX / WAYS) * WAYS;
}

/* The ten digits that the server gives to nodes with a sequence number. */
static bool is_numbered(struct slice path)
{
    struct layout_name name;
    size_t at = path.len;
    while (at > 0 && path.data[at - 1] != '/') {
        at--;
    }
    layout_name_parse(slice_make(path.data + at, path.len - at), &name);
    return name.stem != STEM_NONE;
}

static uint64_t note_caller(struct last_writers *w, const struct command *command)
{
    struct slice ids = command->ids.items;
    if (command->type == COMMAND_MIRROR_TRANSACTION) {
        return CALLER_MIRROR;
    }
    if (ids.len == 0) {
        return CALLER_NONE;
    }
    struct writer_table *t = w->table;
    if (ids.len == t->latest_len && memcmp(ids.data, t->latest, ids.len) == 0) {
        return t->latest_hash;
    }
    uint64_t hash = hash_keyed(&w->service->key, ids.data, ids.len);
    t->latest_len = ids.len <= sizeof t->latest ? ids.len : 0;
    t->latest_hash = hash;
    memcpy(t->latest, ids.data, t->latest_len);
    struct writer_caller *c = &t->callers[hash % WRITER_CALLERS_MAX];
    if (c->hash != hash) {
        c->hash = hash;
        caller_address(command->ids, c->client, sizeof c->client);
        caller_names(command->ids, c->ids, sizeof c->ids);
    }
    return hash;
}

static void note_writer(struct last_writers *w, const struct command *command, int64_t zxid,
                        struct slice path)
{
    uint64_t hash = hash_bytes(path.data, path.len);
    struct writer_record *first = &w->table->records[writers_of(hash)];
    struct writer_record *r = first;
    for (size_t i = 0; i < WAYS; i++) {
        if (first[i].path == hash && first[i].zxid != 0) {
            r = &first[i];
            break;
        }
        r = first[i].zxid < r->zxid ? &first[i] : r;
    }
    *r = (struct writer_record){.path = hash,
                                .zxid = zxid,
                                .session = command->session_id,
                                .caller = note_caller(w, command)};
}

static void on_wrote(void *ctx, const struct command *command, const struct effects *effects)
{
    struct last_writers *w = ctx;
    if (w->generation != w->service->generation) {
        last_writers_attach(w, w->service);
    }
    assert(w->service->onlooker.wrote_ctx == ctx && effects->events_count > 0);
    for (size_t i = 0; i < effects->events_count; i++) {
        const struct state_event *event = &effects->events[i];
        bool created = event->type == WIRE_EVENT_NODE_CREATED;
        if (event->type != WIRE_EVENT_NODE_DATA_CHANGED && !created) {
            continue;
        }
        if (created && is_numbered(event->path)) {
            continue;
        }
        if (w->table == NULL) {
            w->table = calloc(1, sizeof *w->table);
        }
        if (w->table == NULL) {
            w->since_zxid = effects->zxid; /* no memory: it is not known */
            return;
        }
        note_writer(w, command, effects->zxid, event->path);
    }
}

void last_writers_attach(struct last_writers *w, struct service *service)
{
    if (w->service != NULL) {
        w->service->onlooker.wrote = NULL;
    }
    last_writers_finish(w);
    if (service != NULL) {
        w->service = service;
        w->generation = service->generation;
        w->since_zxid = state_zxid(service->state);
        service->onlooker.wrote = on_wrote;
        service->onlooker.wrote_ctx = w;
    }
}

/* JSON */

static const struct writer_record *writer_find(const struct last_writers *w,
                                               const struct znode *node, struct slice path)
{
    if (w->table == NULL || w->generation != w->service->generation) {
        return NULL;
    }
    uint64_t hash = hash_bytes(path.data, path.len);
    const struct writer_record *first = &w->table->records[writers_of(hash)];
    for (size_t i = 0; i < WAYS; i++) {
        if (first[i].path == hash && first[i].zxid == node->mzxid && node->mzxid != 0) {
            return &first[i];
        }
    }
    return NULL;
}

static void write_client(const struct last_writers *w, int64_t session, const char *client,
                         const char *ids, struct json *j)
{
    const struct connection *c = session != 0 ? service_connection(w->service, session) : NULL;
    json_member_string(j, "by", "client");
    json_key(j, "session");
    if (session != 0) {
        json_hex(j, session);
    } else {
        json_null(j);
    }
    json_member_string(j, "client", c != NULL ? c->peer : client);
    json_member_string(j, "ids", ids);
}

static void write_unknown(const struct last_writers *w, const struct znode *node, struct slice path,
                          struct json *j)
{
    bool before = w->service == NULL || w->generation != w->service->generation ||
                  node->mzxid <= w->since_zxid;
    json_member_string(j, "by", "unknown");
    json_member_string(j, "why",
                       before                                            ? "before"
                       : node->mzxid == node->czxid && is_numbered(path) ? "numbered"
                                                                         : "pushed out");
}

void last_writers_write(const struct last_writers *w, const struct znode *node, struct slice path,
                        struct json *j)
{
    const struct writer_record *r = w->service != NULL ? writer_find(w, node, path) : NULL;
    json_object_begin(j);
    if (r != NULL && r->caller == CALLER_MIRROR) {
        json_member_string(j, "by", "mirror");
    } else if (r != NULL && r->session == 0 && r->caller == CALLER_NONE) {
        json_member_string(j, "by", "server");
    } else if (r != NULL) {
        const struct writer_caller *c = &w->table->callers[r->caller % WRITER_CALLERS_MAX];
        bool known = r->caller != CALLER_NONE && c->hash == r->caller;
        write_client(w, r->session, known ? c->client : "", known ? c->ids : "", j);
    } else if (w->service != NULL && znode_is_ephemeral(node) && node->mzxid == node->czxid) {
        write_client(w, znode_owner(node), "", "", j);
    } else {
        write_unknown(w, node, path, j);
    }
    json_object_end(j);
}
