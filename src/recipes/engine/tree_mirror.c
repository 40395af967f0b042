#include "recipes/engine/tree_mirror.h"

#include "recipes/engine/mirror_nodes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    BESIDE = 256,     /* reads in flight */
    LATENCY_MS = 100, /* a change is reported by then, though others go on */
    REFUSALS_MAX = 2, /* links that ended when a persistent watch was asked for */
};

/* --- nodes ----------------------------------------------------------------------- */

static void want(struct mirror_node *n, bool data, bool children)
{
    n->want_data = n->want_data || data;
    n->want_children = n->want_children || children;
    if ((n->want_data || n->want_children) && !n->step.busy && list_empty(&n->queued)) {
        list_push_back(&n->mirror->wanted, &n->queued);
    }
}

static void on_data_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    struct mirror_node *n = CONTAINER_OF(slot, struct mirror_node, data);
    if (!n->dead) {
        want(n, true, false);
    }
}

static void on_names_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    struct mirror_node *n = CONTAINER_OF(slot, struct mirror_node, names);
    if (!n->dead) {
        want(n, n->item == NULL, n->item != NULL); /* no child before its parent */
    }
}

/* Adds a node to be read. Errors as mirror_node_add. */
static int add(struct mirror *m, struct mirror_node *parent, const char *path,
               struct mirror_node **ret)
{
    int error = mirror_node_add(m, parent, path, ret);
    if (error == 0) {
        struct mirror_node *n = *ret;
        machine_step_init(&m->machine, &n->step);
        machine_watch_init(&m->machine, &n->data);
        machine_watch_init(&m->machine, &n->names);
        n->data.fn = on_data_watch;
        n->names.fn = on_names_watch;
        want(n, true, false);
    }
    return error;
}

/* Whether the mirror is to have this node below its own. */
static bool takes(const struct mirror *m, const char *path)
{
    return m->takes == NULL || m->takes(m, mirror_relative(m, path));
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
    } else if (error == CONCLAVE_ENOBUFS || !machine_tries_again(&m->machine, error)) {
        m->active = false;
        m->failed(m, error);
    }
}

static bool may_have_children(const struct mirror_node *n, const struct conclave_stat *stat)
{
    return n->depth < n->mirror->depth && stat->ephemeral_owner == 0;
}

/* Whether the list of the children is to be read, after the node was. Where a persistent watch tells of each child, only
 * a look at everything can find another pzxid. */
static bool list_is_due(const struct mirror_node *n, const struct conclave_stat *stat, bool known)
{
    if (!may_have_children(n, stat)) {
        return false;
    }
    return known ? !n->mirror->one_shot && n->item->stat.pzxid != stat->pzxid
                 : n->mirror->one_shot || stat->num_children > 0;
}

static void saw(struct mirror_node *n, const struct conclave_reply *reply)
{
    struct mirror *m = n->mirror;
    const struct conclave_stat *stat = &reply->stat;
    bool known = n->item != NULL && n->item->stat.czxid == stat->czxid;
    n->missing = false;
    if (n->item != NULL && !known) {
        mirror_children_drop(n); /* those of the node that was there before */
    }
    if (list_is_due(n, stat, known)) {
        want(n, false, true);
    }
    if (known && n->item->stat.mzxid == stat->mzxid) {
        mirror_node_restat(n, stat); /* its children's numbers move on */
        return;
    }
    int error = mirror_node_fill(n, reply);
    if (error != 0) {
        tree_mirror_trouble(m, error);
    }
}

/* The root stays, to be looked for. */
static void vanished(struct mirror_node *n)
{
    struct mirror *m = n->mirror;
    if (n->parent != NULL) {
        mirror_node_drop(n);
        return;
    }
    mirror_children_drop(n);
    mirror_node_empty(n, false);
    n->want_children = false;
    n->want_data = m->one_shot && !n->missing; /* now with a watch for it to come */
    n->missing = true;
}

/* For every answer about a node; false: nothing more to do. */
static bool answered(struct mirror_node *n, const struct conclave_reply *reply)
{
    struct mirror *m = n->mirror;
    assert(m->in_flight > 0);
    m->in_flight--;
    if (reply->zxid > m->read_zxid && (reply->error == 0 || reply->error == CONCLAVE_NO_NODE)) {
        m->read_zxid = reply->zxid;
    }
    if (n->dead) {
        mirror_node_settle(n);
        return false;
    }
    return m->active;
}

/* The node may be freed by it. */
static void node_trouble(struct mirror_node *n, int error, bool children)
{
    if (error == CONCLAVE_NO_AUTH && n->parent != NULL) {
        mirror_children_drop(n); /* nothing that we may see */
        mirror_node_empty(n, true);
        n->want_children = false;
        want(n, false, false);
        return;
    }
    want(n, !children, children);
    tree_mirror_trouble(n->mirror, error);
}

static void on_data(struct step *step, const struct conclave_reply *reply)
{
    struct mirror_node *n = CONTAINER_OF(step, struct mirror_node, step);
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
        want(n, false, false);
        saw(n, reply);
    }
}

static int take_names(struct mirror_node *n, const struct conclave_reply *reply)
{
    struct mirror *m = n->mirror;
    LIST_FOREACH (it, &n->children) {
        CONTAINER_OF(it, struct mirror_node, sibling)->listed = false;
    }
    for (size_t i = 0; i < reply->children_count; i++) {
        char *path = path_join(n->path, reply->children[i]);
        struct mirror_node *child = path == NULL ? NULL : mirror_find(m, path);
        int error = path == NULL ? CONCLAVE_ENOMEM : 0;
        if (error == 0 && child == NULL && takes(m, path)) {
            error = add(m, n, path, &child);
        }
        free(path);
        if (error != 0) {
            return error;
        }
        if (child != NULL) {
            child->listed = true;
        }
    }
    LIST_FOREACH (it, &n->children) {
        struct mirror_node *child = CONTAINER_OF(it, struct mirror_node, sibling);
        if (!child->listed) {
            mirror_node_drop(child);
        }
    }
    return 0;
}

static void on_names(struct step *step, const struct conclave_reply *reply)
{
    struct mirror_node *n = CONTAINER_OF(step, struct mirror_node, step);
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
    } else {
        int error = take_names(n, reply);
        want(n, false, error != 0);
        if (error != 0) {
            tree_mirror_trouble(m, error);
        }
    }
}

/* Sends one read of the node. */
static void node_read(struct mirror_node *n)
{
    struct mirror *m = n->mirror;
    bool data = n->want_data;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, n->path, 0);
    if (data) {
        bool exists = m->one_shot ? n->missing : m->stats_only;
        op.type = exists ? CONCLAVE_OP_EXISTS : CONCLAVE_OP_GET;
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
    struct mirror_node *root;
    int error = map_count(&m->nodes) == 0 ? add(m, NULL, m->path, &root) : 0;
    if (error != 0) {
        return error;
    }
    for (struct map_node *it = map_next(&m->nodes, NULL); it != NULL;
         it = map_next(&m->nodes, it)) {
        struct mirror_node *n = (struct mirror_node *)(void *)it;
        want(n, true, m->one_shot && n->item != NULL && may_have_children(n, &n->item->stat));
    }
    return 0;
}

/* --- the persistent watch ---------------------------------------------------------- */

/* A child that an event names. Of a parent that was not read yet, the list comes with the answer. */
static void look_at_new(struct mirror *m, struct mirror_node *parent, const char *path)
{
    struct mirror_node *child;
    if (parent != NULL && parent->item != NULL && parent->depth < m->depth && takes(m, path)) {
        int error = add(m, parent, path, &child);
        if (error != 0) {
            tree_mirror_trouble(m, error);
        }
    }
}

/* Where an event points to: a node that is known, or one whose parent is. */
static void look_at(struct mirror *m, const char *path)
{
    struct mirror_node *n = mirror_find(m, path);
    if (n == NULL) {
        char *parent_path = strdup(path);
        char *slash = parent_path == NULL ? NULL : strrchr(parent_path, '/');
        if (slash == NULL) {
            read_all_later(m);
        } else {
            slash[slash == parent_path ? 1 : 0] = '\0';
            look_at_new(m, mirror_find(m, parent_path), path);
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

static void tell_owner(struct mirror *m)
{
    client_timer_stop(machine_client(&m->machine), &m->telling);
    m->changed = false;
    m->told(m);
}

static void set_fresh(struct mirror *m, bool fresh)
{
    mirror_begin_change(m);
    m->fresh = fresh;
    mirror_end_change(m);
}

static void tell_by(struct mirror *m, int64_t ms)
{
    struct conclave_client *client = machine_client(&m->machine);
    if (!client_timer_active(&m->telling)) {
        client_timer_start(client, &m->telling, client_after_ns(client, ms));
    }
}

/* Everything that is known to have changed was read. */
static bool is_quiet(const struct mirror *m)
{
    return m->in_flight == 0 && list_empty(&m->wanted) && !m->refresh;
}

bool mirror_is_settled(const struct mirror *m)
{
    return m->fresh && is_quiet(m);
}

/* Whether the owner is to look. */
static bool has_news(const struct mirror *m)
{
    return m->fresh && (m->changed || (m->unsettled && mirror_is_settled(m)));
}

static void on_telling(struct conclave_client *client, void *ctx)
{
    struct mirror *m = ctx;
    if (m->active && has_news(m)) {
        tell_owner(m);
    }
}

static void look_round(struct mirror *m)
{
    bool quiet = is_quiet(m);
    bool now_fresh = quiet && !m->fresh;
    if (quiet && m->zxid != m->read_zxid) {
        mirror_begin_change(m);
        m->zxid = m->read_zxid; /* the news of changes up to there came before the answer */
        mirror_end_change(m);
        client_notify(machine_client(&m->machine));
    }
    if (now_fresh) {
        set_fresh(m, true);
        tell_owner(m);
    } else if (has_news(m)) {
        if (quiet && m->debounce_ms == 0) {
            tell_owner(m);
        } else {
            tell_by(m, m->debounce_ms > 0 ? m->debounce_ms : LATENCY_MS);
        }
    }
}

static void tree_mirror_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct mirror *m = CONTAINER_OF(step, struct mirror, step);
    m->synced = reply->error == 0 && !m->sync_again;
    m->sync_again = false;
    if (reply->error != 0 && m->active) {
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
        int error = mark_all(m);
        if (error != 0) {
            tree_mirror_trouble(m, error);
            return;
        }
    }
    while (m->in_flight < BESIDE && !list_empty(&m->wanted) && !machine_pauses(machine)) {
        node_read(CONTAINER_OF(list_pop_front(&m->wanted), struct mirror_node, queued));
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
            set_fresh(m, false);
            tell_owner(m);
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
    list_init(&m->unheard);
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

void mirror_halt(struct mirror *m)
{
    m->active = false;
    set_fresh(m, false);
    machine_resume(&m->machine);
    client_timer_stop(machine_client(&m->machine), &m->telling);
    watch_forget(m);
}

void mirror_catch_up(struct mirror *m)
{
    struct mirror_node *root = mirror_find(m, m->path);
    if (m->active && m->fresh && root != NULL) {
        m->sync_again =
            m->step.busy; /* the sync under way may have begun before what is asked for */
        m->synced = false;
        want(root, true, false);
        machine_run(&m->machine);
    }
}

void mirror_stop(struct mirror *m)
{
    if (m->path == NULL) {
        return;
    }
    mirror_halt(m);
    mirror_forget_changes(m);
    struct mirror_node *root = mirror_find(m, m->path);
    if (root != NULL) {
        mirror_node_drop(root);
    }
}

void mirror_finish(struct mirror *m)
{
    if (m->path == NULL) {
        return;
    }
    mirror_stop(m);
    assert(m->in_flight == 0 && m->bytes == 0);
    map_finish(&m->nodes);
    free(m->path);
    m->path = NULL;
}
