#include "sim/check_lasting.h"

#include "sim/peek.h"
#include "sim/sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *name_of(unsigned lasting)
{
    static const char *const names[LASTING] = {
        "key 0",
        "key 1",
        "key 2",
        "key 3",
        [LASTING_ALL] = "all keys",
        [LASTING_NODES] = "all ephemerals",
    };
    return names[lasting];
}

/* Nothing is known of what it covers. */
static void forget(struct client *c, unsigned lasting)
{
    memset(c->lasting[lasting].based, 0, sizeof c->lasting[lasting].based);
    if (lasting == LASTING_NODES) {
        c->nodes.based = false;
    }
}

static bool covers(unsigned lasting, unsigned key)
{
    return lasting == key || lasting == LASTING_ALL;
}

/* Keys: one event for each version. */

static void see_version(struct sim *s, struct client *c, unsigned key, int32_t version,
                        const char *where)
{
    for (unsigned i = 0; i < LASTING; i++) {
        struct lasting *l = &c->lasting[i];
        if (!l->hears || !covers(i, key)) {
            continue;
        }
        if (l->based[key] && l->versions[key] != version) {
            world_violation(&s->world,
                            "client %u sees version %d of key %u%s, but its persistent watch of %s "
                            "has told it up to %d",
                            c->id, version, key, where, name_of(i), l->versions[key]);
        }
        l->based[key] = true;
        l->versions[key] = version;
    }
}

/* Ephemerals: created and deleted by turns, and in the end those that a list has. */

static bool *there(struct told_nodes *n, uint64_t id)
{
    if (id >= n->cap) {
        size_t cap = (size_t)id * 2 + 64;
        n->there = realloc(n->there, cap * sizeof *n->there);
        if (n->there == NULL) {
            abort();
        }
        memset(n->there + n->cap, 0, (cap - n->cap) * sizeof *n->there);
        n->cap = cap;
    }
    return &n->there[id];
}

static void tell_node(struct sim *s, struct client *c, enum conclave_event_type type,
                      const char *path)
{
    if (strncmp(path, "/e/", 3) != 0 ||
        (type != CONCLAVE_EVENT_CREATED && type != CONCLAVE_EVENT_DELETED)) {
        return;
    }
    bool comes = type == CONCLAVE_EVENT_CREATED;
    bool *is = there(&c->nodes, peek_number(slice_str(path + 3)));
    if (c->nodes.based && *is == comes) {
        world_violation(&s->world,
                        "client %u is told twice, or without what came between: %s of %s", c->id,
                        conclave_event_name(type), path);
    }
    *is = comes;
}

static void see_list(struct sim *s, struct client *c, const char *const *names, size_t count)
{
    struct told_nodes *n = &c->nodes;
    uint64_t id;
    if (!c->lasting[LASTING_NODES].hears) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        id = peek_number(slice_str(names[i]));
        bool *is = there(n, id);
        if (n->based && !*is) {
            world_violation(
                &s->world, "client %u sees /e/%" PRIu64 ", but its recursive watch has not told it",
                c->id, id);
        }
        *is = true;
    }
    for (id = 0; id < n->cap; id++) {
        bool listed = false;
        for (size_t i = 0; n->there[id] && i < count && !listed; i++) {
            listed = peek_number(slice_str(names[i])) == id;
        }
        if (n->there[id] && !listed && n->based) {
            world_violation(&s->world,
                            "client %u does not see /e/%" PRIu64
                            " any more, but its recursive watch has not told it",
                            c->id, id);
        }
        n->there[id] = listed;
    }
    n->based = true;
}

/* What comes */

void check_lasting_answered(struct sim *s, struct client *c, struct deed *d,
                            const struct conclave_reply *reply)
{
    if (d->kind == DEED_LASTING && d->error != CONCLAVE_ECANCELED) {
        struct lasting *l = &c->lasting[d->lasting];
        l->asked = false;
        if (d->error == 0) {
            l->set = l->hears = true;
            forget(c, d->lasting);
        }
    }
    for (unsigned i = 0; i < LASTING && !deed_is_open(d); i++) {
        if (c->lasting[i].set && !c->lasting[i].hears) {
            world_violation(&s->world,
                            "client %u is answered on a new link before its persistent watch of %s "
                            "is told RESUMED",
                            c->id, name_of(i));
        }
    }
    if (d->error != 0) {
        return;
    }
    if (d->kind == DEED_GET || d->kind == DEED_SET || d->kind == DEED_SET_IF) {
        see_version(s, c, d->key, reply->stat.version, "");
    } else if (d->kind == DEED_MULTI) {
        see_version(s, c, d->key, reply->results[0]->stat.version, "");
    } else if (d->kind == DEED_CHILDREN) {
        see_list(s, c, reply->children, reply->children_count);
    }
}

void check_lasting_event(struct sim *s, struct client *c, unsigned lasting,
                         enum conclave_event_type type, const char *path)
{
    struct lasting *l = &c->lasting[lasting];
    world_trace(&s->world, "client %u is told %s of %s by its watch of %s", c->id,
                conclave_event_name(type), path, name_of(lasting));
    if (!l->set) {
        world_violation(&s->world, "client %u is told %s by a persistent watch that it has not",
                        c->id, conclave_event_name(type));
    }
    if (type == CONCLAVE_EVENT_RESUMED) {
        l->hears = true;
        forget(c, lasting);
    } else if (l->hears && lasting == LASTING_NODES) {
        tell_node(s, c, type, path);
    } else if (l->hears && strncmp(path, "/r/", 3) == 0) {
        l->versions[path[3] - '0']++; /* nobody creates or deletes keys */
    }
}

void check_lasting_lost(struct sim *s, struct client *c, unsigned lasting,
                        enum conclave_event_type type)
{
    world_trace(&s->world, "client %u is told %s by its watch of %s", c->id,
                conclave_event_name(type), name_of(lasting));
    c->lasting[lasting].set = c->lasting[lasting].hears = false;
}

void check_lasting_unlinked(struct client *c)
{
    for (unsigned i = 0; i < LASTING; i++) {
        c->lasting[i].hears = false;
    }
}

/* The end */

struct list_ctx {
    const char *names[1024];
    size_t count;
};

static void note_child(void *ctx, struct machine *m, const char *name)
{
    struct list_ctx *list = ctx;
    if (list->count < sizeof list->names / sizeof list->names[0]) {
        list->names[list->count++] = strdup(name);
    }
}

void check_lasting_end(struct sim *s)
{
    struct list_ctx list = {.count = 0};
    peek_children(&s->machines[1], "/e", note_child, &list);
    for (size_t i = 0; i < s->n_clients; i++) {
        struct client *c = s->clients[i];
        for (unsigned key = 0; key < KEYS && client_is_up(c); key++) {
            see_version(s, c, key, peek_version(&s->machines[1], key), " in the end");
        }
        if (client_is_up(c)) {
            see_list(s, c, list.names, list.count);
        }
    }
    while (list.count > 0) {
        free((char *)(uintptr_t)list.names[--list.count]);
    }
}
