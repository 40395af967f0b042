/*
 * The partitioner: a node in the party, a mirror of the party, and a lock per item of the own part. All decisions are made
 * in the dispatcher (partitioner_run_due), where the callbacks of the locks run, too: one at a time.
 *
 *   ALLOCATING --the party settled, all locks held--> ACQUIRED --party changed, lock lost--> RELEASE
 *   ALLOCATING --party changed, lock lost: its locks are closed--> ALLOCATING
 *   ACQUIRED, RELEASE --conclave_partitioner_release: its locks are closed--> ALLOCATING
 *
 * In ACQUIRED and RELEASE the program works on the items: the locks stay until it gives them back, or closes the handle. If
 * the handle ends otherwise, on_release comes first.
 */
#include "recipes/group/node_handle.h"

#include "base/random.h"
#include "base/transition.h"
#include "client/core/path.h"
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"

#include <conclave/lock.h>
#include <conclave/partitioner.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ITEM_NAME_MAX = 255,
    PARTY_GUID_BYTES = 16,
    FAILED_PAUSE_MS = 250, /* at least, before the locks are tried again */
};

struct share; /* the locks of one part */

struct share_lock {
    struct share *share;
    struct conclave_lock *lock; /* NULL: closed */
};

struct share {
    struct conclave_partitioner *owner;
    const char **items; /* borrowed from the options' */
    struct share_lock *locks;
    size_t count;
    size_t open; /* not closed yet */
    size_t held; /* granted */
    bool closing;
};

struct conclave_partitioner {
    struct node_handle nodes; /* first */
    struct conclave_partitioner_callbacks callbacks;
    void *ctx;
    char **items; /* sorted; one block */
    size_t items_count;
    char *id;
    char *locks_path;
    int64_t settle_ms;
    struct conclave_lease_options lease;

    enum conclave_partition_state state;
    bool told;                /* ACQUIRED, and on_acquired has returned */
    bool urgent;              /* RELEASE, and on_release named a reason */
    bool failed;              /* the locks could not be acquired last time */
    bool cut_off;             /* it ends, and the program did not ask for that */
    struct mirror_view party; /* the dispatcher's: the latest one */
    bool stale;               /* it may have changed since */
    struct client_timer settling;
    bool settled;        /* it stayed the same for that time */
    bool let_go;         /* the locks are to be closed */
    struct share *share; /* NULL: none; only the dispatcher sets it */
};

static struct conclave_partitioner *partitioner_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_partitioner, nodes.host);
}

static struct conclave_client *partitioner_client(const struct conclave_partitioner *p)
{
    return p->nodes.host.handle.rt->client;
}

const char *conclave_partition_state_name(enum conclave_partition_state state)
{
    static const char *const names[] = {"ALLOCATING", "ACQUIRED", "RELEASE"};
    return (unsigned)state < sizeof names / sizeof names[0] ? names[state] : "UNKNOWN";
}

static void partition_enter(struct conclave_partitioner *p, enum conclave_partition_state state)
{
    static const uint16_t next[] = {
        [CONCLAVE_PARTITION_ALLOCATING] = TRANSITION_TO(CONCLAVE_PARTITION_ACQUIRED),
        [CONCLAVE_PARTITION_ACQUIRED] = TRANSITION_TO(CONCLAVE_PARTITION_RELEASE) |
                                        TRANSITION_TO(CONCLAVE_PARTITION_ALLOCATING),
        [CONCLAVE_PARTITION_RELEASE] = TRANSITION_TO(CONCLAVE_PARTITION_ALLOCATING),
    };
    transition_check(next, p->state, state);
    p->state = state;
    p->told = p->urgent = false;
    client_notify(partitioner_client(p));
}

static void partitioner_post(struct conclave_partitioner *p)
{
    handle_post(&p->nodes.host.handle);
    client_notify(partitioner_client(p));
}

/* --- settling ------------------------------------------------------------------------------- */

static void on_settled(struct conclave_client *client, void *ctx)
{
    struct conclave_partitioner *p = ctx;
    p->settled = true;
    partitioner_post(p);
}

static void settle_again(struct conclave_partitioner *p)
{
    struct conclave_client *client = partitioner_client(p);
    int64_t ms = p->failed && p->settle_ms < FAILED_PAUSE_MS ? FAILED_PAUSE_MS : p->settle_ms;
    p->settled = false;
    if (!p->nodes.host.closing.ending) {
        client_timer_start(client, &p->settling, client_after_ns(client, ms));
    }
}

/* --- the locks; in the dispatcher ----------------------------------------------------------- */

static void share_free(struct share *share)
{
    if (share != NULL) {
        free(share->items);
        free(share->locks);
        free(share);
    }
}

/* The work on the items must end: told if it had begun, and again if there was no hurry so far. Lock held, given up around
 * the callback. */
static void share_is_lost(struct conclave_partitioner *p, int why, int64_t stop_within_ms)
{
    if (p->state == CONCLAVE_PARTITION_ALLOCATING) {
        p->let_go = true;
        partitioner_post(p);
        return;
    }
    bool known = p->state == CONCLAVE_PARTITION_RELEASE && (why == 0 || p->urgent);
    if (known || (p->nodes.host.closing.ending && !p->cut_off)) {
        return;
    }
    if (p->state == CONCLAVE_PARTITION_ACQUIRED) {
        partition_enter(p, CONCLAVE_PARTITION_RELEASE);
    }
    p->urgent = why != 0;
    if (p->callbacks.on_release != NULL) {
        client_unlock(partitioner_client(p));
        p->callbacks.on_release(p, why, stop_within_ms, p->ctx);
        client_lock(partitioner_client(p));
    }
}

static void on_item_lost(struct conclave_lock *lock, int why, int64_t stop_within_ms, void *ctx)
{
    struct conclave_partitioner *p = ((struct share_lock *)ctx)->share->owner;
    client_lock(partitioner_client(p));
    share_is_lost(p, why, stop_within_ms);
    client_unlock(partitioner_client(p));
}

static void on_item_acquired(struct conclave_lock *lock, int error, struct conclave_token token,
                             void *ctx)
{
    struct share *share = ((struct share_lock *)ctx)->share;
    struct conclave_partitioner *p = share->owner;
    client_lock(partitioner_client(p));
    share->held += error == 0 ? 1 : 0;
    if (error != 0 && error_is_fatal(error)) {
        host_end(&p->nodes.host, error);
    } else if (error != 0 && !share->closing) {
        p->failed = true;
        p->let_go = true; /* the session ended: it begins again */
    }
    partitioner_post(p);
    client_unlock(partitioner_client(p));
}

static void on_item_closed(struct conclave_lock *lock, int why, void *ctx)
{
    struct share_lock *item = ctx;
    struct share *share = item->share;
    struct conclave_partitioner *p = share->owner;
    conclave_lock_destroy(lock);
    client_lock(partitioner_client(p));
    item->lock = NULL;
    share->open--;
    if (!share->closing && error_is_fatal(why)) {
        host_end(&p->nodes.host, why);
    } else if (!share->closing) {
        share_is_lost(p, why, 0);
    }
    partitioner_post(p);
    client_unlock(partitioner_client(p));
}

static void share_close(struct share *share)
{
    share->closing = true;
    for (size_t i = 0; i < share->count; i++) {
        if (share->locks[i].lock != NULL) {
            conclave_lock_close(share->locks[i].lock);
        }
    }
}

/* No lock held. After an error those that were opened are to be closed. */
static int share_open(struct share *share)
{
    static const struct conclave_lock_callbacks callbacks = {
        .size = sizeof callbacks, .on_lost = on_item_lost, .on_closed = on_item_closed};
    struct conclave_partitioner *p = share->owner;
    int error = 0;
    for (size_t i = 0; i < share->count && error == 0; i++) {
        struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
        char *path = path_join(p->locks_path, share->items[i]);
        options.path = path;
        options.id = p->id;
        options.naming = CONCLAVE_NAMING_KAZOO;
        options.lease = p->lease;
        options.acl = p->nodes.acl;
        options.acl_count = p->nodes.member.acl_count;
        share->locks[i].share = share;
        error = path == NULL ? CONCLAVE_ENOMEM
                             : conclave_lock_open(p->nodes.host.handle.rt, &options, &callbacks,
                                                  &share->locks[i], &share->locks[i].lock);
        free(path);
        if (error == 0) {
            client_lock(partitioner_client(p));
            share->open++;
            client_unlock(partitioner_client(p));
            error = conclave_lock_acquire_async(share->locks[i].lock, 1, CONCLAVE_FOREVER,
                                                on_item_acquired, &share->locks[i]);
        }
    }
    return error;
}

/* --- dividing --------------------------------------------------------------------------------- */

/* The id in the name of a member's node, as kazoo cuts it. */
static const char *id_of(const char *name)
{
    const char *dash = strchr(name, '-');
    return dash == NULL ? name : dash + 1;
}

static int texts_compare(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void divide_evenly(const char *self, const char *const *members, size_t members_count,
                          size_t items_count, bool *ret_mine)
{
    size_t place = 0;
    while (place < members_count && strcmp(members[place], self) != 0) {
        place++;
    }
    for (size_t i = place; i < items_count; i += members_count) {
        ret_mine[i] = true;
    }
}

/* The own part of the set, no lock opened. 0, CONCLAVE_ENOMEM, CONCLAVE_NO_NODE (this member is not in the view). */
static int share_create(struct conclave_partitioner *p, struct share **ret)
{
    struct share *share = calloc(1, sizeof *share);
    const char **members = calloc(p->party.count + 1, sizeof *members);
    bool *mine = calloc(p->items_count + 1, sizeof *mine);
    const char *own = path_name(p->nodes.node);
    size_t count = 0;
    bool present = false;
    if (share != NULL) {
        share->owner = p;
        share->items = calloc(p->items_count + 1, sizeof *share->items);
        share->locks = calloc(p->items_count + 1, sizeof *share->locks);
    }
    int error = share == NULL || members == NULL || mine == NULL || share->items == NULL ||
                        share->locks == NULL
                    ? CONCLAVE_ENOMEM
                    : 0;
    for (size_t i = 0; i < p->party.count && error == 0; i++) {
        const char *name = p->party.items[i]->path;
        present = present || strcmp(name, own) == 0;
        if (name[0] != '\0') {
            members[count++] = id_of(name);
        }
    }
    error = error == 0 && !present ? CONCLAVE_NO_NODE : error;
    if (error == 0) {
        qsort(members, count, sizeof *members, texts_compare);
        if (p->callbacks.partition != NULL) {
            p->callbacks.partition(p, p->id, members, count, (const char *const *)p->items,
                                   p->items_count, mine, p->ctx);
        } else {
            divide_evenly(p->id, members, count, p->items_count, mine);
        }
        for (size_t i = 0; i < p->items_count; i++) {
            if (mine[i]) {
                share->items[share->count++] = p->items[i];
            }
        }
        *ret = share;
        share = NULL;
    }
    share_free(share);
    free(members);
    free(mine);
    return error;
}

/* --- what is due; lock held, given up around calls -------------------------------------------------- */

/* The names of the members, whatever their data. */
static bool same_party(const struct mirror_view *a, const struct mirror_view *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; i < a->count && same; i++) {
        same = strcmp(a->items[i]->path, b->items[i]->path) == 0 &&
               (a->items[i]->path[0] == '\0' || a->items[i]->stat.czxid == b->items[i]->stat.czxid);
    }
    return same;
}

/* A party that nobody can see now does not count as settled: a lost session's node is in it. */
static bool look_at_party(struct conclave_partitioner *p)
{
    struct mirror_view view;
    bool stale;
    if (!node_handle_take_view(&p->nodes, &view, &stale)) {
        return false;
    }
    bool same = stale || same_party(&p->party, &view);
    p->stale = stale;
    if (stale) {
        mirror_view_clear(&view);
        return true; /* the locks know how long they hold */
    }
    mirror_view_clear(&p->party);
    p->party = view;
    if (!same) {
        settle_again(p);
        if (p->share != NULL) {
            share_is_lost(p, 0, 0);
        }
    }
    return true;
}

static void let_go(struct conclave_partitioner *p)
{
    struct share *share = p->share;
    p->let_go = false;
    if (share != NULL && !share->closing) {
        client_unlock(partitioner_client(p));
        share_close(share);
        client_lock(partitioner_client(p));
    }
}

static void acquire(struct conclave_partitioner *p)
{
    struct share *share = NULL;
    p->settled = false;
    host_owes(&p->nodes.host); /* it does not close in between */
    client_unlock(partitioner_client(p));
    int error = share_create(p, &share);
    client_lock(partitioner_client(p));
    p->share = share;
    client_unlock(partitioner_client(p));
    error = error == 0 ? share_open(share) : error;
    client_lock(partitioner_client(p));
    host_told(&p->nodes.host);
    if (error == 0 || error == CONCLAVE_NO_NODE) {
        return; /* not in the party yet: another view comes */
    }
    p->failed = true;
    if (error_is_fatal(error)) {
        host_end(&p->nodes.host, error);
    } else if (share != NULL) {
        p->let_go = true;
    } else {
        settle_again(p);
    }
}

static void tell_acquired(struct conclave_partitioner *p)
{
    partition_enter(p, CONCLAVE_PARTITION_ACQUIRED);
    if (p->callbacks.on_acquired != NULL) {
        client_unlock(partitioner_client(p));
        p->callbacks.on_acquired(p, p->share->items, p->share->count, p->ctx);
        client_lock(partitioner_client(p));
    }
    p->failed = false;
    p->told = p->state == CONCLAVE_PARTITION_ACQUIRED;
    client_notify(partitioner_client(p));
}

static void tell_cut_off(struct conclave_partitioner *p)
{
    int why = p->nodes.host.closing.why;
    if (p->cut_off && p->state != CONCLAVE_PARTITION_ALLOCATING) {
        share_is_lost(p, why, 0);
    }
    p->cut_off = false;
}

static bool partitioner_run_due(struct host *host)
{
    struct conclave_partitioner *p = partitioner_of(host);
    struct share *share = p->share;
    if (p->cut_off) {
        tell_cut_off(p);
        return true;
    }
    if (p->let_go) {
        let_go(p);
        return true;
    }
    if (share != NULL && share->closing && share->open == 0) {
        p->share = NULL;
        share_free(share);
        settle_again(p);
        host_check(host);
        return true;
    }
    if (host->closing.ending) {
        return false;
    }
    if (look_at_party(p)) {
        return true;
    }
    if (p->state == CONCLAVE_PARTITION_ALLOCATING && share == NULL && p->settled && !p->stale) {
        acquire(p);
        return true;
    }
    if (p->state == CONCLAVE_PARTITION_ALLOCATING && share != NULL && !share->closing &&
        share->held == share->count && share->open == share->count) {
        tell_acquired(p);
        return true;
    }
    return false;
}

/* --- the handle ------------------------------------------------------------------------------------- */

static void partitioner_stop(struct host *host)
{
    struct conclave_partitioner *p = partitioner_of(host);
    client_timer_stop(partitioner_client(p), &p->settling);
    node_handle_stop(host);
    p->cut_off = host->closing.why != CONCLAVE_ECLOSED ||
                 state_is_final(client_state(partitioner_client(p)));
    p->let_go = true;
    partitioner_post(p);
}

static bool partitioner_is_idle(struct host *host)
{
    return partitioner_of(host)->share == NULL && node_handle_is_idle(host);
}

static void partitioner_tell_closed(struct host *host, int why)
{
    struct conclave_partitioner *p = partitioner_of(host);
    if (p->callbacks.on_closed != NULL) {
        p->callbacks.on_closed(p, why, p->ctx);
    }
}

static void partitioner_free(struct host *host)
{
    struct conclave_partitioner *p = partitioner_of(host);
    assert(p->share == NULL);
    client_timer_stop(partitioner_client(p), &p->settling);
    node_handle_finish(&p->nodes);
    mirror_view_clear(&p->party);
    free(p->items);
    free(p->id);
    free(p->locks_path);
    free(p);
}

static const struct host_class partitioner_class = {
    .on_state = node_handle_on_state,
    .run_due = partitioner_run_due,
    .stop = partitioner_stop,
    .is_idle = partitioner_is_idle,
    .tell_closed = partitioner_tell_closed,
    .free = partitioner_free,
};

/* --- options ----------------------------------------------------------------------------------------- */

static bool node_name_valid(const char *name)
{
    char path[ITEM_NAME_MAX + 3];
    if (name == NULL || name[0] == '\0' || strlen(name) > ITEM_NAME_MAX ||
        strchr(name, '/') != NULL) {
        return false;
    }
    (void)snprintf(path, sizeof path, "/%s", name);
    return path_is_valid(path, false);
}

static bool partitioner_options_valid(const struct conclave_partitioner_options *o)
{
    bool valid = option_path_valid(o->path) && o->settle_ms >= 0 &&
                 (o->items != NULL || o->items_count == 0) && lease_options_valid(&o->lease) &&
                 (o->id == NULL ||
                  (strlen(o->id) < ITEM_NAME_MAX - 2 * PARTY_GUID_BYTES && node_name_valid(o->id)));
    for (size_t i = 0; valid && i < o->items_count; i++) {
        valid = node_name_valid(o->items[i]);
    }
    return valid;
}

static int partitioner_copy_options(struct conclave_partitioner *p,
                                    const struct conclave_partitioner_options *o)
{
    char guid[2 * PARTY_GUID_BYTES + 2];
    random_text(guid, PARTY_GUID_BYTES);
    guid[sizeof guid - 2] = '-';
    guid[sizeof guid - 1] = '\0';
    client_timer_init(&p->settling, on_settled, p);
    p->settle_ms = o->settle_ms;
    p->lease = o->lease;
    p->id = o->id != NULL ? strdup(o->id) : default_id();
    p->items = texts_copy(o->items, o->items_count);
    p->items_count = o->items_count;
    p->locks_path = path_join(o->path, "locks");
    char *party = path_join(o->path, "party");
    char *name = p->id == NULL ? NULL : text_concat(guid, p->id);
    int error = p->items == NULL || p->locks_path == NULL || name == NULL || party == NULL
                    ? CONCLAVE_ENOMEM
                    : node_handle_watch(&p->nodes, party, 1, 0);
    if (error == 0) {
        error = node_handle_keep(&p->nodes, party, name, o->acl, o->acl_count,
                                 bytes_copy(p->id, strlen(p->id)), strlen(p->id));
        party = NULL;
    }
    if (error == 0) {
        qsort(p->items, p->items_count, sizeof *p->items, texts_compare);
    }
    for (size_t i = 1; i < p->items_count && error == 0; i++) {
        error = strcmp(p->items[i - 1], p->items[i]) == 0 ? CONCLAVE_EINVAL : 0;
    }
    free(party);
    free(name);
    return error;
}

int conclave_partitioner_open(struct conclave_recipes *rt,
                              const struct conclave_partitioner_options *options,
                              const struct conclave_partitioner_callbacks *callbacks, void *ctx,
                              struct conclave_partitioner **ret)
{
    struct conclave_partitioner_options own = CONCLAVE_PARTITIONER_OPTIONS_INIT;
    struct conclave_partitioner_callbacks calls = CONCLAVE_PARTITIONER_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 ||
        !partitioner_options_valid(&own)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_partitioner *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return CONCLAVE_ENOMEM;
    }
    p->callbacks = calls;
    p->ctx = ctx;
    int error =
        host_open(&p->nodes.host, rt, &partitioner_class, partitioner_copy_options(p, &own));
    if (error == 0) {
        *ret = p; /* before a callback can run */
        node_handle_begin(&p->nodes);
        client_unlock(rt->client);
    }
    return error;
}

/* --- asking ------------------------------------------------------------------------------------------- */

int conclave_partitioner_release(struct conclave_partitioner *p)
{
    struct conclave_client *client = partitioner_client(p);
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = p->nodes.host.closing.ending                ? CONCLAVE_ECLOSED
            : p->state == CONCLAVE_PARTITION_ALLOCATING ? CONCLAVE_ENOTOWNER
                                                        : 0;
    if (error == 0) {
        partition_enter(p, CONCLAVE_PARTITION_ALLOCATING);
        p->let_go = true;
        partitioner_post(p);
    }
    client_unlock(client);
    return error;
}

enum conclave_partition_state conclave_partitioner_state(struct conclave_partitioner *p)
{
    struct conclave_client *client = partitioner_client(p);
    if (client_check(client) != 0) {
        return CONCLAVE_PARTITION_ALLOCATING;
    }
    client_lock(client);
    enum conclave_partition_state state = p->state;
    client_unlock(client);
    return state;
}

static bool partitioner_has_acquired(void *ctx)
{
    return ((struct conclave_partitioner *)ctx)->told;
}

int conclave_partitioner_wait(struct conclave_partitioner *p, int64_t timeout_ms)
{
    struct conclave_recipes *rt = p->nodes.host.handle.rt;
    int error = recipes_may_block(rt);
    if (error == 0) {
        client_lock(rt->client);
        error = host_wait(&p->nodes.host, partitioner_has_acquired, p, timeout_ms);
        client_unlock(rt->client);
    }
    return error;
}

void conclave_partitioner_close(struct conclave_partitioner *p)
{
    host_close(&p->nodes.host);
}

int conclave_partitioner_close_wait(struct conclave_partitioner *p, int64_t timeout_ms)
{
    return host_close_wait(&p->nodes.host, timeout_ms);
}

void conclave_partitioner_destroy(struct conclave_partitioner *p)
{
    host_destroy(p == NULL ? NULL : &p->nodes.host);
}
