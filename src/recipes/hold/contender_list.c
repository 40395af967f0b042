#include "recipes/hold/contender_list.h"

#include "recipes/engine/line_position.h"
#include "recipes/engine/option_copies.h"
#include "recipes/hold/election.h"

#include <stdlib.h>
#include <string.h>

struct listing {
    struct handle handle; /* first */
    struct step step;
    bool kinds;
    bool fixed; /* the path itself is the leader's node, and has no children */
    char *path;
    struct contender_reading *items;
    size_t count;
    size_t answered;
    bool done;
    int error;
};

/* One contender that is being read. */
struct contender_reading {
    struct step step;
    struct listing *listing;
    struct listed_contender found; /* its node is NULL when it is not there */
};

static bool listing_done(void *ctx)
{
    return ((struct listing *)ctx)->done;
}

static void listing_end(struct listing *l, int error)
{
    l->done = true;
    l->error = error;
    client_notify(l->handle.rt->client);
}

static void listing_free(struct handle *h)
{
    struct listing *l = CONTAINER_OF(h, struct listing, handle);
    for (size_t i = 0; i < l->count; i++) {
        free((void *)(uintptr_t)l->items[i].found.participant.node);
    }
    free(l->items);
    free(l->path);
    free(l);
}

static const struct handle_class listing_class = {.free = listing_free};

/* Node and data in one block, so that one free does. */
static int listed_fill(struct conclave_participant *p, const char *node, bool fixed,
                       const struct conclave_reply *reply)
{
    char *at = malloc(strlen(node) + reply->data_len + 2);
    const char *data;
    if (at == NULL) {
        return CONCLAVE_ENOMEM;
    }
    p->node = block_add(&at, node, strlen(node));
    candidate_split(block_add(&at, reply->data, reply->data_len), reply->data_len, fixed, &p->id,
                    &data, &p->data_len);
    p->data = data;
    return 0;
}

static void on_data(struct step *step, const struct conclave_reply *reply)
{
    struct contender_reading *item = CONTAINER_OF(step, struct contender_reading, step);
    struct listing *l = item->listing;
    struct conclave_participant *p = &item->found.participant;
    char *node = (char *)(uintptr_t)p->node;
    int error = reply->error;
    p->node = NULL;
    if (error == 0) {
        error = listed_fill(p, node, l->fixed, reply);
        p->session_id = reply->stat.ephemeral_owner;
        p->self = reply->stat.ephemeral_owner == client_session_id(l->handle.rt->client);
        p->token.czxid = reply->stat.czxid;
        p->since_ms = reply->stat.ctime_ms;
        item->found.place =
            item->found.kind == NAME_READ ? place_inherited_czxid(reply) : reply->stat.czxid;
    }
    free(node);
    if (error != 0 && error != CONCLAVE_NO_NODE && l->error == 0) {
        l->error = error;
    }
    if (++l->answered == l->count) {
        listing_end(l, l->error);
    }
}

/* The naming under which most of the children are contenders: the caller has given only a
 * path. */
static enum conclave_naming guess_naming(const struct conclave_reply *reply, bool kinds)
{
    static const enum conclave_naming all[] = {
        CONCLAVE_NAMING_NATIVE, CONCLAVE_NAMING_CURATOR_LATCH, CONCLAVE_NAMING_CURATOR_LOCK,
        CONCLAVE_NAMING_KAZOO,  CONCLAVE_NAMING_PLAIN,
    };
    enum conclave_naming best = CONCLAVE_NAMING_NATIVE;
    size_t most = 0;
    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++) {
        size_t count = 0;
        int32_t sequence;
        for (size_t i = 0; i < reply->children_count; i++) {
            enum name_kind kind;
            bool its = kinds ? name_parse_kind(all[n], reply->children[i], &sequence, &kind)
                             : name_parse(all[n], reply->children[i], &sequence);
            count += its ? 1 : 0;
        }
        if (count > most) {
            most = count;
            best = all[n];
        }
    }
    return best;
}

static int read_all(struct listing *l, const struct line_entry *list, size_t count)
{
    l->items = calloc(count, sizeof *l->items);
    if (l->items == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (l->count = 0; l->count < count; l->count++) {
        struct contender_reading *item = &l->items[l->count];
        item->listing = l;
        step_init(&item->step, &l->handle);
        item->found.kind = list[l->count].kind;
        item->found.weight = list[l->count].weight;
        item->found.participant.sequence = list[l->count].sequence;
        item->found.participant.node = strdup(list[l->count].name);
        if (item->found.participant.node == NULL) {
            return CONCLAVE_ENOMEM;
        }
    }
    for (size_t i = 0; i < count; i++) {
        const char *name = l->items[i].found.participant.node;
        char *path = l->fixed ? strdup(l->path) : path_join(l->path, name);
        if (path == NULL) {
            l->error = CONCLAVE_ENOMEM; /* those asked already still answer */
            l->answered++;
            continue;
        }
        step_ask(&l->items[i].step, CONCLAVE_OP_GET, path, on_data);
        free(path);
    }
    if (l->answered == count) {
        listing_end(l, l->error);
    }
    return 0;
}

static void contender_list_on_children(struct step *step, const struct conclave_reply *reply)
{
    struct listing *l = CONTAINER_OF(step, struct listing, step);
    struct line_entry *list = NULL;
    size_t count = 0;
    int error = reply->error;
    l->fixed = error == 0 && reply->stat.ephemeral_owner != 0 && !l->kinds;
    if (l->fixed) {
        struct line_entry self = {.name = path_name(l->path)};
        count = 1;
        error = read_all(l, &self, count);
    } else if (error == 0) {
        enum conclave_naming naming = guess_naming(reply, l->kinds);
        error = contenders_filter(naming, l->kinds, reply, &list, &count);
    }
    if (error == 0 && count > 0 && !l->fixed) {
        error = read_all(l, list, count);
    }
    if (error != 0 || count == 0) {
        listing_end(l, error);
    }
    free(list);
}

static void contender_list_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct listing *l = CONTAINER_OF(step, struct listing, step);
    if (reply->error != 0) {
        listing_end(l, reply->error);
        return;
    }
    step_ask(&l->step, CONCLAVE_OP_GET_CHILDREN, l->path, contender_list_on_children);
}

static int by_place(const void *a, const void *b)
{
    const struct listed_contender *x = a;
    const struct listed_contender *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

/* Creation order is sequence order, and holds where numbers wrap or repeat. */
static int take_list(struct listing *l, struct listed_contender **ret, size_t *ret_count)
{
    struct listed_contender *list = calloc(l->count + 1, sizeof *list);
    size_t n = 0;
    if (list == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < l->count; i++) {
        if (l->items[i].found.participant.node != NULL) {
            list[n++] = l->items[i].found;
            l->items[i].found.participant.node = NULL;
        }
    }
    qsort(list, n, sizeof *list, by_place);
    *ret = list;
    *ret_count = n;
    return 0;
}

int contenders_read(struct conclave_recipes *rt, const char *path, bool kinds, int64_t timeout_ms,
                    struct listed_contender **ret, size_t *ret_count)
{
    struct conclave_client *client = rt->client;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    struct listing *l = path == NULL ? NULL : calloc(1, sizeof *l);
    if (l == NULL || (l->path = strdup(path)) == NULL) {
        free(l);
        return path == NULL ? CONCLAVE_EINVAL : CONCLAVE_ENOMEM;
    }
    l->kinds = kinds;
    client_lock(client);
    handle_init(&l->handle, rt, &listing_class);
    step_init(&l->step, &l->handle);
    step_ask(&l->step, CONCLAVE_OP_SYNC, path, contender_list_on_synced);
    error = client_wait(client, listing_done, l, client_deadline_ns(client, timeout_ms));
    if (error == 0) {
        error = l->error != 0 ? l->error : take_list(l, ret, ret_count);
    }
    handle_release(&l->handle);
    client_unlock(client);
    return error;
}
