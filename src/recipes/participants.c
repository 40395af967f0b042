/*
 * The list of an election's candidates, as of one sync: the names, then everybody's data, all
 * requests at once. Whoever leaves between list and read is left out.
 */
#include "recipes/election.h"

#include <stdlib.h>
#include <string.h>

struct listing {
    struct handle handle; /* first */
    struct step step;
    char *path;
    struct listed *items;
    size_t count;
    size_t answered;
    bool done;
    int error;
};

/* One candidate that is being read. */
struct listed {
    struct step step;
    struct listing *listing;
    struct conclave_participant
        participant; /* node is the block that holds all its texts; NULL: not there */
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

static void listing_state(struct handle *h, enum conclave_state state)
{
    (void)h;
    (void)state;
}

static bool listing_run_due(struct handle *h)
{
    (void)h;
    return false;
}

static void listing_free(struct handle *h)
{
    struct listing *l = CONTAINER_OF(h, struct listing, handle);
    for (size_t i = 0; i < l->count; i++) {
        free((void *)(uintptr_t)l->items[i].participant.node);
    }
    free(l->items);
    free(l->path);
    free(l);
}

static const struct handle_class listing_class = {listing_state, listing_run_due, listing_free};

/* Node and data in one block, so that one free does. */
static int listed_fill(struct conclave_participant *p, const char *node,
                       const struct conclave_reply *reply)
{
    size_t node_len = strlen(node) + 1;
    char *block = malloc(node_len + reply->data_len + 1);
    const char *data;
    if (block == NULL) {
        return CONCLAVE_ENOMEM;
    }
    memcpy(block, node, node_len);
    if (reply->data_len > 0) {
        memcpy(block + node_len, reply->data, reply->data_len);
    }
    candidate_split(block + node_len, reply->data_len, &p->id, &data, &p->data_len);
    p->node = block;
    p->data = data;
    return 0;
}

static void on_data(struct step *step, const struct conclave_reply *reply)
{
    struct listed *item = CONTAINER_OF(step, struct listed, step);
    struct listing *l = item->listing;
    struct conclave_participant *p = &item->participant;
    char *node = (char *)(uintptr_t)p->node;
    int error = reply->error;
    p->node = NULL;
    if (error == 0) {
        error = listed_fill(p, node, reply);
        p->session_id = reply->stat.ephemeral_owner;
        p->self = reply->stat.ephemeral_owner == client_session_id(l->handle.rt->client);
        p->token.czxid = reply->stat.czxid;
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
static enum conclave_naming guess_naming(const struct conclave_reply *reply)
{
    static const enum conclave_naming all[] = {
        CONCLAVE_NAMING_NATIVE,
        CONCLAVE_NAMING_CURATOR_LATCH,
        CONCLAVE_NAMING_CURATOR_LOCK,
        CONCLAVE_NAMING_KAZOO,
    };
    enum conclave_naming best = CONCLAVE_NAMING_NATIVE;
    size_t most = 0;
    for (size_t n = 0; n < sizeof all / sizeof all[0]; n++) {
        size_t count = 0;
        int32_t sequence;
        for (size_t i = 0; i < reply->children_count; i++) {
            count += name_parse(all[n], reply->children[i], &sequence) ? 1 : 0;
        }
        if (count > most) {
            most = count;
            best = all[n];
        }
    }
    return best;
}

static int read_all(struct listing *l, const struct contender *list, size_t count)
{
    l->items = calloc(count, sizeof *l->items);
    if (l->items == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (l->count = 0; l->count < count; l->count++) {
        struct listed *item = &l->items[l->count];
        item->listing = l;
        step_init(&item->step, &l->handle);
        item->participant.sequence = list[l->count].sequence;
        item->participant.node = strdup(list[l->count].name);
        if (item->participant.node == NULL) {
            return CONCLAVE_ENOMEM;
        }
    }
    for (size_t i = 0; i < count; i++) {
        char *path = path_join(l->path, l->items[i].participant.node);
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, path, 0);
        if (path == NULL) {
            l->error = CONCLAVE_ENOMEM; /* those asked already still answer */
            l->answered++;
            continue;
        }
        step_submit(&l->items[i].step, &op, on_data);
        free(path);
    }
    if (l->answered == count) {
        listing_end(l, l->error);
    }
    return 0;
}

static void on_children(struct step *step, const struct conclave_reply *reply)
{
    struct listing *l = CONTAINER_OF(step, struct listing, step);
    struct contender *list = NULL;
    size_t count = 0;
    int error = reply->error;
    if (error == 0) {
        error = contenders_filter(guess_naming(reply), reply->children, reply->children_count,
                                  &list, &count);
    }
    if (error == 0 && count > 0) {
        error = read_all(l, list, count);
    }
    if (error != 0 || count == 0) {
        listing_end(l, error);
    }
    free(list);
}

static void on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct listing *l = CONTAINER_OF(step, struct listing, step);
    if (reply->error != 0) {
        listing_end(l, reply->error);
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, l->path, 0);
    step_submit(&l->step, &op, on_children);
}

static int by_czxid(const void *a, const void *b)
{
    int64_t x = ((const struct conclave_participant *)a)->token.czxid;
    int64_t y = ((const struct conclave_participant *)b)->token.czxid;
    return (x > y) - (x < y);
}

/* Creation order is sequence order, and holds where numbers wrap or repeat. */
static int take_list(struct listing *l, struct conclave_participant **ret, size_t *ret_count)
{
    struct conclave_participant *list = calloc(l->count + 1, sizeof *list);
    size_t n = 0;
    if (list == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < l->count; i++) {
        if (l->items[i].participant.node != NULL) {
            list[n++] = l->items[i].participant;
            l->items[i].participant.node = NULL;
        }
    }
    qsort(list, n, sizeof *list, by_czxid);
    *ret = list;
    *ret_count = n;
    return 0;
}

int conclave_election_participants(struct conclave_recipes *rt, const char *path,
                                   int64_t timeout_ms, struct conclave_participant **ret,
                                   size_t *ret_count)
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
    client_lock(client);
    handle_init(&l->handle, rt, &listing_class);
    step_init(&l->step, &l->handle);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, path, 0);
    step_submit(&l->step, &op, on_synced);
    error = client_wait(client, listing_done, l, client_deadline_ns(client, timeout_ms));
    if (error == 0) {
        error = l->error != 0 ? l->error : take_list(l, ret, ret_count);
    }
    handle_release(&l->handle);
    client_unlock(client);
    return error;
}

void conclave_participants_free(struct conclave_participant *list, size_t count)
{
    for (size_t i = 0; i < count && list != NULL; i++) {
        free((void *)(uintptr_t)list[i].node);
    }
    free(list);
}
