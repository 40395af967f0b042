#include "recipes/engine/tree_mirror.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    BESIDE = 64,      /* reads in flight */
    LATENCY_MS = 100, /* a change is reported by then, though others go on */
    REFUSALS_MAX = 2, /* links that ended when a persistent watch was asked for */
};

struct node {
    struct map_node map; /* first */
    struct mirror *mirror;
    struct node *parent; /* NULL: the root */
    struct list sibling;
    struct list children;
    struct list queued; /* in mirror.wanted */
    char *path;
    int depth;
    struct mirror_item *item; /* NULL: not read, or not there */
    struct step step;
    struct watch_slot data;  /* where there are no persistent watches */
    struct watch_slot names; /* the children's */
    bool want_data;
    bool want_children;
    bool missing; /* the root is not there: to be watched for by exists */
    bool listed;  /* named by the list that is being gone through */
    bool dead;    /* out of the mirror; freed when it is answered */
};

/* --- items ----------------------------------------------------------------------- */

static void item_unref(struct mirror_item *item)
{
    if (item != NULL && --item->refs == 0) {
        free(item);
    }
}

/* NULL without memory. */
static struct mirror_item *item_make(const char *path, const struct conclave_reply *reply)
{
    size_t path_size = strlen(path) + 1;
    struct mirror_item *item = malloc(sizeof *item + path_size + reply->data_len + 1);
    if (item == NULL) {
        return NULL;
    }
    char *bytes = (char *)(item + 1);
    item->refs = 1;
    item->stat = reply->stat;
    item->data_len = reply->data_len;
    item->data = reply->data == NULL ? NULL : bytes;
    if (reply->data != NULL && reply->data_len > 0) {
        memcpy(bytes, reply->data, reply->data_len);
    }
    bytes[reply->data_len] = '\0';
    memcpy(bytes + reply->data_len + 1, path, path_size);
    item->path = bytes + reply->data_len + 1;
    return item;
}

/* --- nodes ----------------------------------------------------------------------- */

static bool path_equal(const struct map_node *node, const void *key)
{
    return strcmp(((const struct node *)(const void *)node)->path, key) == 0;
}

static struct node *find(const struct mirror *m, const char *path)
{
    return (struct node *)(void *)map_find(&m->nodes, hash_bytes(path, strlen(path)), path_equal,
                                           path);
}

static void want(struct node *n, bool data, bool children)
{
    n->want_data = n->want_data || data;
    n->want_children = n->want_children || children;
    if ((n->want_data || n->want_children) && !n->step.busy && list_empty(&n->queued)) {
        list_push_back(&n->mirror->wanted, &n->queued);
    }
}

static void on_data_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    struct node *n = CONTAINER_OF(slot, struct node, data);
    if (!n->dead) {
        want(n, true, false);
    }
}

static void on_names_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    struct node *n = CONTAINER_OF(slot, struct node, names);
    if (!n->dead) {
        want(n, false, true);
    }
}

/* Adds a node to be read. NULL without memory. */
static struct node *node_add(struct mirror *m, struct node *parent, const char *path)
{
    struct node *n = calloc(1, sizeof *n);
    if (n == NULL || (n->path = strdup(path)) == NULL ||
        map_insert(&m->nodes, &n->map, hash_bytes(path, strlen(path))) != 0) {
        if (n != NULL) {
            free(n->path);
        }
        free(n);
        return NULL;
    }
    n->mirror = m;
    n->parent = parent;
    n->depth = parent == NULL ? 0 : parent->depth + 1;
    list_init(&n->children);
    list_init(&n->queued);
    list_init(&n->sibling);
    if (parent != NULL) {
        list_push_back(&parent->children, &n->sibling);
    }
    machine_step_init(&m->machine, &n->step);
    machine_watch_init(&m->machine, &n->data);
    machine_watch_init(&m->machine, &n->names);
    n->data.fn = on_data_watch;
    n->names.fn = on_names_watch;
    want(n, true, false);
    return n;
}

static void node_free(struct node *n)
{
    watch_slot_clear(&n->data);
    watch_slot_clear(&n->names);
    item_unref(n->item);
    free(n->path);
    free(n);
}

/* Takes a node and all below it out of the mirror. */
static void node_drop(struct node *n)
{
    struct mirror *m = n->mirror;
    LIST_FOREACH (it, &n->children) {
        node_drop(CONTAINER_OF(it, struct node, sibling));
    }
    m->changed = m->changed || n->item != NULL;
    list_remove(&n->sibling);
    list_remove(&n->queued);
    map_remove(&m->nodes, &n->map);
    n->dead = true;
    if (!n->step.busy) {
        node_free(n);
    }
}

static void children_drop(struct node *n)
{
    LIST_FOREACH (it, &n->children) {
        node_drop(CONTAINER_OF(it, struct node, sibling));
    }
}

/* --- reading --------------------------------------------------------------------- */

/* Memory was out somewhere: nothing is sure any more. */
static void read_all_later(struct mirror *m)
{
    m->refresh = true;
    machine_retry_later(&m->machine);
}

static void tree_mirror_trouble(struct mirror *m, int error)
{
    if (error == CONCLAVE_ENOMEM) {
        read_all_later(m);
    } else if (!machine_tries_again(&m->machine, error)) {
        m->active = false;
        m->failed(m, error);
    }
}

static bool may_have_children(const struct node *n, const struct conclave_stat *stat)
{
    return n->depth < n->mirror->depth && stat->ephemeral_owner == 0;
}

/* The node's part of the path below the root. */
static const char *relative(const struct node *n)
{
    size_t root = strcmp(n->mirror->path, "/") == 0 ? 0 : strlen(n->mirror->path);
    return n->path[root] == '/' ? n->path + root + 1 : n->path + root;
}

static void saw(struct node *n, const struct conclave_reply *reply)
{
    struct mirror *m = n->mirror;
    const struct conclave_stat *stat = &reply->stat;
    bool known = n->item != NULL && n->item->stat.czxid == stat->czxid;
    n->missing = false;
    if (n->item != NULL && !known) {
        children_drop(n); /* those of the node that was there before */
    }
    if (may_have_children(n, stat) && !known && (m->one_shot || stat->num_children > 0)) {
        want(n, false, true);
    }
    if (known && n->item->stat.mzxid == stat->mzxid) {
        if (n->item->refs == 1) {
            n->item->stat = *stat; /* its children's numbers move on */
        }
        return;
    }
    struct mirror_item *item = item_make(relative(n), reply);
    if (item == NULL) {
        read_all_later(m);
        return;
    }
    item_unref(n->item);
    n->item = item;
    m->changed = true;
}

/* The root stays, to be looked for. */
static void vanished(struct node *n)
{
    struct mirror *m = n->mirror;
    if (n->parent != NULL) {
        node_drop(n);
        return;
    }
    children_drop(n);
    m->changed = m->changed || n->item != NULL;
    item_unref(n->item);
    n->item = NULL;
    n->want_children = false;
    n->want_data = m->one_shot && !n->missing; /* now with a watch for it to come */
    n->missing = true;
}

/* For every answer about a node; false: nothing more to do. */
static bool answered(struct node *n, const struct conclave_reply *reply)
{
    struct mirror *m = n->mirror;
    assert(m->in_flight > 0);
    m->in_flight--;
    if (reply->zxid > m->read_zxid && (reply->error == 0 || reply->error == CONCLAVE_NO_NODE)) {
        m->read_zxid = reply->zxid;
    }
    if (n->dead) {
        node_free(n);
        return false;
    }
    return true;
}

static void node_trouble(struct node *n, int error, bool children)
{
    if (error == CONCLAVE_NO_AUTH && n->parent != NULL) {
        n->mirror->changed = n->mirror->changed || (n->item != NULL && !children);
        if (!children) { /* nothing that we may see */
            item_unref(n->item);
            n->item = NULL;
        }
        return;
    }
    want(n, !children, children);
    tree_mirror_trouble(n->mirror, error);
}

static void on_data(struct step *step, const struct conclave_reply *reply)
{
    struct node *n = CONTAINER_OF(step, struct node, step);
    struct mirror *m = n->mirror;
    bool exists_asked = n->missing && m->one_shot;
    if (n->data.pending) {
        watch_slot_answered(&n->data, reply->error == 0 ||
                                          (exists_asked && reply->error == CONCLAVE_NO_NODE));
    }
    if (!answered(n, reply)) {
        return;
    }
    if (reply->error == CONCLAVE_NO_NODE) {
        bool stays = n->parent == NULL;
        vanished(n);
        if (stays) {
            want(n, false, false);
        }
    } else if (reply->error != 0) {
        node_trouble(n, reply->error, false);
    } else if (exists_asked) {
        n->missing = false;
        want(n, true, false); /* there now: its data is asked for, with the watch for changes */
    } else {
        saw(n, reply);
        want(n, false, false);
    }
}

static int take_names(struct node *n, const struct conclave_reply *reply)
{
    struct mirror *m = n->mirror;
    LIST_FOREACH (it, &n->children) {
        CONTAINER_OF(it, struct node, sibling)->listed = false;
    }
    for (size_t i = 0; i < reply->children_count; i++) {
        char *path = path_join(n->path, reply->children[i]);
        struct node *child = path == NULL ? NULL : find(m, path);
        if (path != NULL && child == NULL) {
            child = node_add(m, n, path);
        }
        free(path);
        if (child == NULL) {
            return CONCLAVE_ENOMEM;
        }
        child->listed = true;
    }
    LIST_FOREACH (it, &n->children) {
        struct node *child = CONTAINER_OF(it, struct node, sibling);
        if (!child->listed) {
            node_drop(child);
        }
    }
    return 0;
}

static void on_names(struct step *step, const struct conclave_reply *reply)
{
    struct node *n = CONTAINER_OF(step, struct node, step);
    struct mirror *m = n->mirror;
    if (n->names.pending) {
        watch_slot_answered(&n->names, reply->error == 0);
    }
    if (!answered(n, reply)) {
        return;
    }
    if (reply->error == CONCLAVE_NO_NODE) {
        want(n, true, false); /* tells the rest */
    } else if (reply->error != 0) {
        node_trouble(n, reply->error, true);
        want(n, false, false);
    } else {
        int error = take_names(n, reply);
        if (error != 0) {
            tree_mirror_trouble(m, error);
        }
        want(n, false, false);
    }
}

/* Sends one read of the node. */
static void node_read(struct node *n)
{
    struct mirror *m = n->mirror;
    bool data = n->want_data;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, n->path, 0);
    if (data) {
        op.type = n->missing && m->one_shot ? CONCLAVE_OP_EXISTS : CONCLAVE_OP_GET;
    }
    if (m->one_shot && watch_slot_prepare(data ? &n->data : &n->names, n->path, &op) != 0) {
        read_all_later(m);
        return;
    }
    if (data) {
        n->want_data = false;
    } else {
        n->want_children = false;
    }
    m->in_flight++;
    step_submit(&n->step, &op, data ? on_data : on_names);
}

/* Everything once more. */
static int mark_all(struct mirror *m)
{
    if (map_count(&m->nodes) == 0 && node_add(m, NULL, m->path) == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (struct map_node *it = map_next(&m->nodes, NULL); it != NULL;
         it = map_next(&m->nodes, it)) {
        struct node *n = (struct node *)(void *)it;
        want(n, true, n->item != NULL && may_have_children(n, &n->item->stat));
    }
    return 0;
}

/* --- the persistent watch ---------------------------------------------------------- */

/* Where an event points to: a node that is known, or one whose parent is. */
static void look_at(struct mirror *m, const char *path)
{
    struct node *n = find(m, path);
    if (n == NULL) {
        char *parent_path = strdup(path);
        char *slash = parent_path == NULL ? NULL : strrchr(parent_path, '/');
        if (slash == NULL) {
            read_all_later(m);
        } else {
            slash[slash == parent_path ? 1 : 0] = '\0';
            struct node *parent = find(m, parent_path);
            if (parent != NULL && parent->depth < m->depth && node_add(m, parent, path) == NULL) {
                read_all_later(m);
            }
        }
        free(parent_path);
        return;
    }
    want(n, true, false);
}

static void tree_mirror_on_event(struct conclave_client *client, enum conclave_event_type type,
                                 const char *path, void *ctx)
{
    struct mirror *m = ctx;
    switch (type) {
    case CONCLAVE_EVENT_LOST:
        m->watching = false;
        m->resuming = false;
        break;
    case CONCLAVE_EVENT_RESUMED:
        m->resuming = false;
        m->refresh = true;
        break;
    case CONCLAVE_EVENT_CHILDREN_CHANGED:
        break; /* tells of the children what they tell themselves */
    default:
        look_at(m, path);
        break;
    }
    machine_run(&m->machine);
}

static void watch_forget(struct mirror *m)
{
    if (m->watching) {
        m->watching = false;
        (void)client_watch_forget(machine_client(&m->machine), m->path, tree_mirror_on_event, m);
    }
}

static void on_watching(struct step *step, const struct conclave_reply *reply)
{
    struct mirror *m = CONTAINER_OF(step, struct mirror, step);
    m->watching = reply->error == 0;
    if (m->watching) {
        m->refused = 0;
        m->refresh = true;
        if (!m->active) {
            watch_forget(m);
        }
    } else if (reply->error == CONCLAVE_UNIMPLEMENTED) {
        m->one_shot = true;
    } else if (reply->error == CONCLAVE_CONNECTION_LOSS) {
        /* Servers that do not know the request end the link; others lose it by chance. */
        m->one_shot = ++m->refused >= REFUSALS_MAX;
    } else if (m->active) {
        tree_mirror_trouble(m, reply->error);
    }
}

static void watch_branch(struct mirror *m)
{
    struct conclave_op op = conclave_op_add_watch(
        m->path, m->depth == 0 ? CONCLAVE_WATCH_PERSISTENT : CONCLAVE_WATCH_RECURSIVE,
        tree_mirror_on_event, m);
    step_submit(&m->step, &op, on_watching);
}

/* --- the machine ------------------------------------------------------------------ */

static void tell(struct mirror *m)
{
    client_timer_stop(machine_client(&m->machine), &m->telling);
    m->changed = false;
    m->told(m);
}

static void tell_by(struct mirror *m, int64_t ms)
{
    struct conclave_client *client = machine_client(&m->machine);
    if (!client_timer_active(&m->telling)) {
        client_timer_start(client, &m->telling, client_now_ns(client) + ms * 1000000);
    }
}

static void on_telling(struct conclave_client *client, void *ctx)
{
    struct mirror *m = ctx;
    if (m->active && m->fresh && m->changed) {
        tell(m);
    }
}

/* Everything that is known to have changed was read, or not yet. */
static void look_round(struct mirror *m)
{
    bool quiet = m->in_flight == 0 && list_empty(&m->wanted);
    if (quiet) {
        m->zxid = m->read_zxid; /* the news of changes up to there came before the answer */
    }
    if (quiet && !m->fresh) {
        m->fresh = true;
        tell(m);
    } else if (m->fresh && m->changed) {
        if (quiet && m->debounce_ms == 0) {
            tell(m);
        } else {
            tell_by(m, m->debounce_ms > 0 ? m->debounce_ms : LATENCY_MS);
        }
    }
}

static void tree_mirror_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct mirror *m = CONTAINER_OF(step, struct mirror, step);
    m->synced = reply->error == 0;
    if (!m->synced && m->active) {
        tree_mirror_trouble(m, reply->error);
    }
}

static void mirror_work(struct machine *machine)
{
    struct mirror *m = CONTAINER_OF(machine, struct mirror, machine);
    if (!m->active || m->step.busy || m->resuming || !machine_can_send(machine)) {
        return;
    }
    if (!m->synced) {
        step_ask(&m->step, CONCLAVE_OP_SYNC, m->path, tree_mirror_on_synced);
        return;
    }
    if (!m->watching && !m->one_shot && !m->once) {
        watch_branch(m);
        return;
    }
    if (m->refresh) {
        m->refresh = false;
        if (mark_all(m) != 0) {
            read_all_later(m);
            return;
        }
    }
    while (m->in_flight < BESIDE && !list_empty(&m->wanted) && !machine_pauses(machine)) {
        node_read(CONTAINER_OF(list_pop_front(&m->wanted), struct node, queued));
    }
    look_round(m);
}

void mirror_on_state(struct mirror *m, enum conclave_state state)
{
    if (!m->active) {
        return;
    }
    machine_resume(&m->machine);
    if (state == CONCLAVE_STATE_SUSPENDED || state == CONCLAVE_STATE_LOST ||
        state_is_final(state)) {
        m->synced = false; /* the next server may lag */
        m->refresh = true;
        m->resuming = m->watching && state == CONCLAVE_STATE_SUSPENDED;
        if (m->fresh) {
            m->fresh = false;
            tell(m);
        }
    }
    machine_run(&m->machine);
}

int mirror_init(struct mirror *m, struct handle *owner, const char *path, int depth,
                void (*told)(struct mirror *m), void (*failed)(struct mirror *m, int error))
{
    memset(m, 0, sizeof *m);
    m->path = strdup(path);
    if (m->path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    m->depth = depth;
    m->told = told;
    m->failed = failed;
    m->refresh = true;
    map_init(&m->nodes);
    list_init(&m->wanted);
    machine_init(&m->machine, owner, mirror_work);
    machine_step_init(&m->machine, &m->step);
    client_timer_init(&m->telling, on_telling, m);
    return 0;
}

void mirror_start(struct mirror *m)
{
    m->active = true;
    machine_run(&m->machine);
}

void mirror_stop(struct mirror *m)
{
    if (m->path == NULL) {
        return;
    }
    m->active = false;
    machine_resume(&m->machine);
    client_timer_stop(machine_client(&m->machine), &m->telling);
    watch_forget(m);
    struct node *root = find(m, m->path);
    if (root != NULL) {
        node_drop(root);
    }
}

/* --- views ------------------------------------------------------------------------ */

static int by_path(const void *a, const void *b)
{
    return strcmp((*(struct mirror_item *const *)a)->path, (*(struct mirror_item *const *)b)->path);
}

int mirror_view(const struct mirror *m, struct mirror_view *ret)
{
    size_t count = 0;
    struct mirror_item **items = malloc((map_count(&m->nodes) + 1) * sizeof(struct mirror_item *));
    if (items == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (struct map_node *it = map_next(&m->nodes, NULL); it != NULL;
         it = map_next(&m->nodes, it)) {
        struct node *n = (struct node *)(void *)it;
        if (n->item != NULL) {
            n->item->refs++;
            items[count++] = n->item;
        }
    }
    qsort(items, count, sizeof(struct mirror_item *), by_path);
    *ret = (struct mirror_view){items, count, m->zxid};
    return 0;
}

void mirror_view_keep(struct mirror_view *view, bool (*keep)(const struct mirror_item *item))
{
    size_t kept = 0;
    for (size_t i = 0; i < view->count; i++) {
        if (keep(view->items[i])) {
            view->items[kept++] = view->items[i];
        } else {
            item_unref(view->items[i]);
        }
    }
    view->count = kept;
}

void mirror_view_clear(struct mirror_view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        item_unref(view->items[i]);
    }
    free(view->items);
    memset(view, 0, sizeof *view);
}

void mirror_finish(struct mirror *m)
{
    if (m->path == NULL) {
        return;
    }
    mirror_stop(m);
    assert(m->in_flight == 0);
    map_finish(&m->nodes);
    free(m->path);
    m->path = NULL;
}
