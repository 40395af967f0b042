#define _GNU_SOURCE /* memmem */
#include "admin/console/layout.h"

#include "admin/console/layout_names.h"
#include "base/json.h"

#include <assert.h>
#include <stdlib.h>

enum { LABEL_MAX = 100, PERMITS_DIGITS = 9 };

#define OURS "Conclave"
#define CURATOR "Curator"
#define KAZOO "kazoo"

const char *layout_kind_name(enum layout_kind kind)
{
    static const char *const NAMES[LAYOUT_KINDS] = {
        [LAYOUT_NONE] = "none",           [LAYOUT_PART] = "part",
        [LAYOUT_ELECTION] = "election",   [LAYOUT_LOCK] = "lock",
        [LAYOUT_SEMAPHORE] = "semaphore", [LAYOUT_PAIR] = "active/standby pair",
        [LAYOUT_QUEUE] = "queue",         [LAYOUT_BARRIER] = "barrier",
        [LAYOUT_CONFIG] = "config",       [LAYOUT_REDIS] = "Redis set",
        [LAYOUT_GROUP] = "group",         [LAYOUT_SERVICES] = "services",
    };
    assert((unsigned)kind < LAYOUT_KINDS);
    return NAMES[kind];
}

struct slice layout_label(struct slice data)
{
    static const char MEMBER[] = "conclave-member ";
    static const char ELECTOR[] = "conclave elector\nid=";
    const uint8_t *end;
    if (slice_starts_with(
            data, slice_str(MEMBER))) { /* a line of the library's own, then the member's data */
        end = memchr(data.data, '\n', data.len);
        size_t head = end != NULL ? (size_t)(end - data.data) + 1 : data.len;
        data = slice_make(data.data + head, data.len - head);
    }
    if (slice_starts_with(data, slice_str(ELECTOR))) { /* a title, then the member's name */
        size_t head = sizeof ELECTOR - 1;
        data = slice_make(data.data + head, data.len - head);
    }
    end = data.len > 0 ? memchr(data.data, '\n', data.len) : NULL;
    struct slice line = slice_make(data.data, end != NULL ? (size_t)(end - data.data) : data.len);
    bool printable = line.len > 0 && line.len <= LABEL_MAX && utf8_valid(line);
    for (size_t i = 0; printable && i < line.len; i++) {
        printable = line.data[i] >= ' ' && line.data[i] != 0x7f;
    }
    return printable ? line : slice_str("");
}

/* A whole number of decimal digits, as the data of a semaphore; 0: it is none. */
static int32_t permits_of(struct slice data)
{
    int32_t value = 0;
    for (size_t i = 0; i < data.len; i++) {
        if (data.len > PERMITS_DIGITS || data.data[i] < '0' || data.data[i] > '9') {
            return 0;
        }
        value = value * 10 + (data.data[i] - '0');
    }
    return value;
}

static bool path_ends_with(struct slice s, const char *suffix)
{
    size_t len = strlen(suffix);
    return s.len > len && memcmp(s.data + s.len - len, suffix, len) == 0;
}

static const struct layout_child *child_named(const struct layout_input *in, const char *name)
{
    for (size_t i = 0; i < in->count; i++) {
        if (slice_equal_str(in->children[i].name, name)) {
            return &in->children[i];
        }
    }
    return NULL;
}

/* Places */

static struct layout_place *layout_add(const struct layout_input *in, struct layout *l,
                                       const struct layout_child *child)
{
    assert(l->count < in->count);
    struct layout_place *p = &l->places[l->count++];
    *p = (struct layout_place){.child = (size_t)(child - in->children), .weight = 1};
    return p;
}

/* All ephemeral children, in the order of their creation as they come. */
static void layout_add_members(const struct layout_input *in, struct layout *l, bool hold)
{
    for (size_t i = 0; i < in->count; i++) {
        if (in->children[i].session_id != 0) {
            layout_add(in, l, &in->children[i])->holds = hold;
        }
    }
}

/* Sequence numbers are ordered on a circle. */
static int place_compare(const void *a, const void *b)
{
    const struct layout_place *x = a;
    const struct layout_place *y = b;
    if (x->sequence != y->sequence) {
        return (int32_t)((uint32_t)x->sequence - (uint32_t)y->sequence) < 0 ? -1 : 1;
    }
    return x->child < y->child ? -1 : x->child > y->child;
}

/* Lines of contenders */

static const struct stem_row {
    enum layout_kind kind;
    const char *library;
    bool read;
} STEMS[STEM_COUNT] = {
    [STEM_NONE] = {LAYOUT_NONE, "", false},
    [STEM_OTHER] = {LAYOUT_LOCK, "", false},
    [STEM_NATIVE] = {LAYOUT_LOCK, OURS, false},
    [STEM_NATIVE_READ] = {LAYOUT_LOCK, OURS, true},
    [STEM_NATIVE_WRITE] = {LAYOUT_LOCK, OURS, false},
    [STEM_CURATOR_LATCH] = {LAYOUT_ELECTION, CURATOR, false},
    [STEM_CURATOR_LOCK] = {LAYOUT_LOCK, CURATOR, false},
    [STEM_CURATOR_READ] = {LAYOUT_LOCK, CURATOR, true},
    [STEM_CURATOR_WRITE] = {LAYOUT_LOCK, CURATOR, false},
    [STEM_CURATOR_LEASE] = {LAYOUT_SEMAPHORE, CURATOR, false},
    [STEM_KAZOO_LOCK] = {LAYOUT_LOCK, KAZOO, false},
    [STEM_KAZOO_READ] = {LAYOUT_LOCK, KAZOO, true},
    [STEM_NATIVE_ITEM] = {LAYOUT_QUEUE, OURS, false},
    [STEM_CURATOR_ITEM] = {LAYOUT_QUEUE, CURATOR, false},
    [STEM_KAZOO_ITEM] = {LAYOUT_QUEUE, KAZOO, false},
    [STEM_PLAIN_ITEM] = {LAYOUT_QUEUE, "", false},
};

/* The first that may go on: the head of the line, with it those that share, or as many as there are permits. */
static void line_grant(struct layout *l)
{
    int64_t taken = 0;
    for (size_t i = 0; i < l->count; i++) {
        struct layout_place *p = &l->places[i];
        taken += p->weight;
        p->holds = l->kind == LAYOUT_SEMAPHORE ? l->permits == 0 || taken <= l->permits
                   : i == 0                    ? true
                            : p->shared && l->places[i - 1].shared && l->places[i - 1].holds;
        if (!p->holds) {
            return;
        }
    }
}

/* Children whose names are of the same kind and library as the first that has a known name. */
static void line_recognise(const struct layout_input *in, const struct stem_row *row,
                           struct layout *l)
{
    struct layout_name name;
    l->kind = row->kind;
    l->library = row->library;
    for (size_t i = 0; i < in->count; i++) {
        const struct layout_child *c = &in->children[i];
        layout_name_parse(c->name, &name);
        const struct stem_row *other = &STEMS[name.stem];
        if (other->kind != row->kind || strcmp(other->library, row->library) != 0 ||
            (row->kind != LAYOUT_QUEUE && c->session_id == 0)) {
            continue;
        }
        struct layout_place *p = layout_add(in, l, c);
        p->sequence = name.sequence;
        p->weight = name.weight;
        p->shared = other->read;
    }
    qsort(l->places, l->count, sizeof l->places[0], place_compare);
}

/* What the nodes around a line say about it. */
static void line_conclude(const struct layout_input *in, struct layout *l)
{
    int32_t permits = permits_of(in->data);
    bool ours = strcmp(l->library, OURS) == 0;
    if (l->kind == LAYOUT_LOCK && ours && in->exists(in->ctx, ".leader")) {
        l->kind = LAYOUT_ELECTION;
    } else if (l->kind == LAYOUT_LOCK && ours && permits > 0) {
        l->kind = LAYOUT_SEMAPHORE;
        l->permits = permits;
    } else if (l->kind == LAYOUT_SEMAPHORE && path_ends_with(in->path, "/leases")) {
        l->path_len -= strlen("/leases");
    } else if (l->kind == LAYOUT_LOCK &&
               ((path_ends_with(in->path, "/locks") && in->exists(in->ctx, "../leases")) ||
                path_ends_with(in->path, "-__lock__") || path_ends_with(in->path, "/line"))) {
        l->kind = LAYOUT_PART;
        return;
    } else if (l->kind == LAYOUT_QUEUE && path_ends_with(in->path, "/entries") &&
               in->exists(in->ctx, "../taken")) {
        l->path_len -= strlen("/entries");
    }
    if (l->kind != LAYOUT_QUEUE) {
        line_grant(l);
    }
}

/* The kind that most children's names are known of; NULL: no name has a meaning. */
static const struct stem_row *line_find(const struct layout_input *in)
{
    const struct stem_row *other = NULL;
    struct layout_name name;
    for (size_t i = 0; i < in->count; i++) {
        const struct layout_child *c = &in->children[i];
        layout_name_parse(c->name, &name);
        const struct stem_row *row = &STEMS[name.stem];
        if (name.stem > STEM_OTHER && (row->kind == LAYOUT_QUEUE || c->session_id != 0)) {
            return row;
        }
        other = name.stem == STEM_OTHER && c->session_id != 0 ? row : other;
    }
    return other;
}

/* The other recipes: each function returns whether it is one */

static bool recognise_pair(const struct layout_input *in, struct layout *l)
{
    static const char LOCK[] = "ActiveStandbyElectorLock";
    static const char TITLE[] = "conclave elector\n";
    const struct layout_child *lock = child_named(in, LOCK);
    const struct layout_child *crumb = child_named(in, "ActiveBreadCrumb");
    const struct layout_child *either = lock != NULL ? lock : crumb;
    if (either == NULL) {
        return false;
    }
    l->kind = LAYOUT_PAIR;
    bool ours = slice_starts_with(either->data, slice_str(TITLE)) ||
                child_named(in, "members") != NULL || child_named(in, "line") != NULL;
    l->library = ours ? OURS : "Hadoop";
    if (lock != NULL && lock->session_id != 0) {
        layout_add(in, l, lock)->holds = true;
    }
    return true;
}

static bool recognise_redis(const struct layout_input *in, struct layout *l)
{
    bool ours = child_named(in, "current") != NULL && child_named(in, "managers") != NULL;
    const struct layout_child *nodes = child_named(in, "nodes");
    bool gem = nodes != NULL && nodes->data.len > 0 &&
               memmem(nodes->data.data, nodes->data.len, "\"master\"", 8) != NULL;
    if (ours || gem) {
        l->kind = LAYOUT_REDIS;
        l->library = ours ? OURS : "redis_failover";
    }
    return ours || gem;
}

/* Nodes below a recipe that its own node shows. */
static bool recognise_part(const struct layout_input *in, struct layout *l)
{
    bool elector = in->exists(in->ctx, "../ActiveBreadCrumb") ||
                   in->exists(in->ctx, "../ActiveStandbyElectorLock");
    bool redis = in->exists(in->ctx, "../current") && in->exists(in->ctx, "../managers");
    if (path_ends_with(in->path, ".leader") || redis ||
        (elector && (path_ends_with(in->path, "/members") || path_ends_with(in->path, "/line")))) {
        l->kind = LAYOUT_PART;
    }
    return l->kind == LAYOUT_PART;
}

static bool recognise_barrier(const struct layout_input *in, struct layout *l)
{
    static const char MEMBER[] = "m-";
    const struct layout_child *ready = child_named(in, "ready");
    bool ours = false;
    bool waits = false;
    for (size_t i = 0; i < in->count; i++) {
        const struct layout_child *c = &in->children[i];
        struct slice name = c->name;
        waits |= c->session_id != 0 && c != ready;
        if (c->session_id != 0 && slice_starts_with(name, slice_str(MEMBER))) {
            ours |= layout_name_is_hex(slice_make(name.data + 2, name.len - 2), 32);
        }
    }
    if (!ours && (ready == NULL || !waits)) {
        return false;
    }
    l->kind = LAYOUT_BARRIER;
    l->library = ours ? OURS : "";
    l->open = ready != NULL;
    l->permits = ours ? permits_of(in->data) : 0;
    for (size_t i = 0; i < in->count; i++) {
        if (&in->children[i] != ready && in->children[i].session_id != 0) {
            layout_add(in, l, &in->children[i])->holds = l->open;
        }
    }
    return true;
}

static bool recognise_config(const struct layout_input *in, struct layout *l)
{
    static const char ACKS[] = ".acks";
    if (!path_ends_with(in->path, ACKS)) {
        return false;
    }
    l->kind = LAYOUT_CONFIG;
    l->library = OURS;
    l->path_len -= sizeof ACKS - 1;
    layout_add_members(in, l, true);
    return true;
}

static bool all_guids(const struct layout_input *in, const struct layout *l)
{
    bool all = true;
    for (size_t i = 0; i < l->count && all; i++) {
        all = layout_name_is_hex(in->children[l->places[i].child].name, 32);
    }
    return all;
}

/* The rest: ephemeral nodes without numbers. */
static void recognise_group(const struct layout_input *in, struct layout *l)
{
    static const char MEMBER[] = "conclave-member ";
    bool services = false;
    bool ours = false;
    layout_add_members(in, l, true);
    for (size_t i = 0; i < l->count; i++) {
        struct slice data = in->children[l->places[i].child].data;
        ours |= slice_starts_with(data, slice_str(MEMBER));
        services |= data.len > 0 && data.data[0] == '{' &&
                    memmem(data.data, data.len, "\"serviceType\"", 13) != NULL;
    }
    if (l->count == 0) {
        return;
    }
    int32_t permits = permits_of(in->data);
    if (permits > 0 && in->exists(in->ctx, "-__lock__")) {
        l->kind = LAYOUT_SEMAPHORE;
        l->library = KAZOO;
        l->permits = permits;
        return;
    }
    if (!ours && !services && all_guids(in, l)) { /* a double barrier, until it has `ready` */
        l->kind = LAYOUT_BARRIER;
        l->library = KAZOO;
        for (size_t i = 0; i < l->count; i++) {
            l->places[i].holds = false;
        }
        return;
    }
    l->kind = services ? LAYOUT_SERVICES : LAYOUT_GROUP;
    l->library = ours ? OURS : services ? CURATOR : "";
}

void layout_recognise(const struct layout_input *in, struct layout *ret)
{
    ret->kind = LAYOUT_NONE;
    ret->library = "";
    ret->path_len = in->path.len;
    ret->permits = 0;
    ret->open = false;
    ret->count = 0;
    if (in->count == 0) {
        (void)recognise_config(in, ret);
        return;
    }
    if (recognise_part(in, ret) || recognise_pair(in, ret) || recognise_redis(in, ret) ||
        recognise_config(in, ret)) {
        return;
    }
    const struct stem_row *row = line_find(in);
    if (row != NULL) {
        line_recognise(in, row, ret);
        line_conclude(in, ret);
    } else if (!recognise_barrier(in, ret)) {
        recognise_group(in, ret);
    }
    assert(ret->count <= in->count);
}
