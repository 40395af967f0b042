#include "admin/console/recipe_list.h"

#include "admin/console/layout_names.h"
#include "front/service.h"
#include "state/query.h"
#include "tree/walk.h"
#include "watch/watch.h"

#include <assert.h>
#include <stdlib.h>

enum { ADDRESS_MAX = 45 }; /* bytes of a numeric address */

/* One list in the making. */
struct recipe_search {
    struct service *service;
    const struct handover_notes *notes;
    size_t bytes_max; /* of the text */
    const struct state *state;
    bool held;
    bool leases; /* with what changes without a write: how long the sessions still last */
    const struct znode **parents; /* candidates, some several times */
    size_t count;
    size_t looked; /* nodes so far */
    bool cut;
    size_t hidden;
    size_t found;
    size_t left_out;
    struct {
        struct slice path; /* whose watches come now */
        size_t count;      /* clients of this server that wait there */
        const struct connection *clients[RECIPES_LINE_ALL_MAX];
    } waits;
    struct recipe_reader reader; /* of the current candidate */
    struct json *j;
};

/* Candidates */

static void search_add(struct recipe_search *s, const struct znode *parent)
{
    if (parent == NULL || (s->count > 0 && s->parents[s->count - 1] == parent)) {
        return;
    }
    if (s->count == RECIPES_PARENTS_MAX) {
        s->cut = true;
        return;
    }
    s->parents[s->count++] = parent;
}

static bool search_ephemeral(void *ctx, const struct znode *node)
{
    struct recipe_search *s = ctx;
    if (++s->looked > RECIPES_EPHEMERALS_MAX) {
        s->cut = true;
        return false;
    }
    search_add(s, node->parent);
    if (!s->held && node->parent != NULL) {
        search_add(s, node->parent->parent); /* a Redis set is above its ephemeral nodes */
    }
    return true;
}

static void search_session(void *ctx, const struct state_session *session)
{
    struct recipe_search *s = ctx;
    if (s->looked <= RECIPES_EPHEMERALS_MAX) {
        state_ephemerals_each(s->state, session->id, search_ephemeral, s);
    }
}

static bool has_suffix(struct slice name, const char *suffix)
{
    size_t len = strlen(suffix);
    return name.len >= len && memcmp(name.data + name.len - len, suffix, len) == 0;
}

/* Every node with children is a candidate, and a place for acknowledgements that has none. Looks at the first children of each only. */
static void search_walk(struct recipe_search *s)
{
    const struct znode *node = state_node(s->state, slice_str("/"));
    size_t seen[RECIPES_DEPTH_MAX] = {0};
    size_t depth = 0;
    size_t looked = 0;
    while (node != NULL) {
        const struct znode *next = depth + 1 < RECIPES_DEPTH_MAX ? znode_first_child(node) : NULL;
        if (next != NULL || has_suffix(znode_name(node), ".acks")) {
            search_add(s, node);
        }
        if (next != NULL) {
            seen[++depth] = 1;
        }
        while (next == NULL && depth > 0) {
            bool full = ++seen[depth] > RECIPES_SIBLINGS_MAX && node->next != NULL;
            s->cut |= full && znode_first_child(node->next) != NULL;
            next = full ? NULL : node->next;
            if (next == NULL) {
                node = node->parent;
                depth--;
            }
        }
        node = next;
        if (++looked > RECIPES_NODES_MAX) {
            s->cut = true;
            return;
        }
    }
}

static int by_address(const void *a, const void *b)
{
    const struct znode *const *x = a;
    const struct znode *const *y = b;
    return (*x > *y) - (*x < *y);
}

static int by_path(const void *a, const void *b)
{
    const struct znode *const *x = a;
    const struct znode *const *y = b;
    return znode_compare_paths(*x, *y);
}

/* Each candidate once, in the order of their paths. */
static void search_sort(struct recipe_search *s)
{
    size_t kept = 0;
    qsort(s->parents, s->count, sizeof *s->parents, by_address);
    for (size_t i = 0; i < s->count; i++) {
        if (i == 0 || s->parents[i] != s->parents[i - 1]) {
            s->parents[kept++] = s->parents[i];
        }
    }
    s->count = kept;
    qsort(s->parents, s->count, sizeof *s->parents, by_path);
}

/* JSON */

/* The session's last sign of life, and how long it still lasts without another one: the leader knows it of all sessions, others of
 * those of their clients. */
static void write_lease(const struct recipe_search *s, int64_t id)
{
    struct state_session session;
    int64_t now_ms = clock_monotonic_ms(s->service->clock);
    int64_t heard_ms;
    int64_t due_ms;
    if (!state_session_find(s->state, id, &session)) {
        return;
    }
    json_member_int(s->j, "server", session.owner == 0 ? 0 : member_number(session.owner));
    json_member_int(s->j, "timeout_ms", session.timeout_ms);
    bool here = s->service->standing.leads || session.owner == s->service->server_id;
    if (here && session_tracker_look(s->service->sessions, id, &heard_ms, &due_ms)) {
        json_member_int(s->j, "heard_ms", now_ms > heard_ms ? now_ms - heard_ms : 0);
        json_member_int(s->j, "left_ms", due_ms > now_ms ? due_ms - now_ms : 0);
    }
}

static void write_place(const struct recipe_search *s, const struct layout *l,
                        const struct layout_place *p)
{
    const struct layout_child *c = &s->reader.children[p->child];
    struct json *j = s->j;
    json_object_begin(j);
    json_member_text(j, "label", layout_label(c->data));
    json_member_text(j, "node", c->name);
    json_member_int(j, "since_ms", c->since_ms);
    if (c->session_id != 0) {
        const struct connection *client = service_connection(s->service, c->session_id);
        json_member_hex(j, "session", c->session_id);
        json_member_string_or_null(j, "client", client != NULL ? client->peer : NULL);
        json_member_int(j, "token", c->czxid);
    }
    bool shared = p->shared || l->kind == LAYOUT_SEMAPHORE;
    struct slice path = slice_make(s->reader.path.data, l->path_len);
    int64_t from_ms = p->holds && recipe_is_held(l->kind)
                          ? handover_notes_from_ms(s->notes, path, c->since_ms, shared)
                          : 0;
    if (from_ms != 0) {
        json_member_int(j, "from_ms", from_ms);
    }
    if (s->leases && c->session_id != 0) {
        write_lease(s, c->session_id);
    }
    if (p->shared) {
        json_member_bool(j, "shared", true);
    }
    if (p->weight != 1) {
        json_member_int(j, "weight", p->weight);
    }
    json_object_end(j);
}

/* The places that hold, or those that wait, up to a limit; and how many there are. */
static void write_places(const struct recipe_search *s, const struct layout *l, bool holding)
{
    size_t most = s->held ? RECIPES_LINE_MAX : RECIPES_LINE_ALL_MAX;
    size_t count = 0;
    json_key(s->j, holding ? "holders" : "line");
    json_array_begin(s->j);
    for (size_t i = 0; i < l->count; i++) {
        if (l->places[i].holds == holding && count++ < most) {
            write_place(s, l, &l->places[i]);
        }
    }
    json_array_end(s->j);
    json_member_uint(s->j, holding ? "holding" : "waiting", count);
}

/* A Redis set has its record in a node of its own. */
static void write_record(const struct recipe_search *s, const struct layout *l)
{
    for (size_t i = 0; i < s->reader.count && l->kind == LAYOUT_REDIS; i++) {
        const struct layout_child *c = &s->reader.children[i];
        if ((slice_equal_str(c->name, "current") || slice_equal_str(c->name, "nodes")) &&
            c->data.len <= RECIPES_RECORD_MAX && utf8_valid(c->data) && c->data.len > 0) {
            json_member_text(s->j, "data", c->data);
            return;
        }
    }
}

static void write_recipe(const struct recipe_search *s, const struct znode *node,
                         const struct layout *l)
{
    struct json *j = s->j;
    json_object_begin(j);
    json_member_string(j, "kind", layout_kind_name(l->kind));
    json_member_string(j, "library", l->library);
    json_member_text(j, "path", slice_make(s->reader.path.data, l->path_len));
    if (l->path_len < s->reader.path.len) {
        json_member_text(j, "under", buf_slice(&s->reader.path));
    }
    json_member_uint(j, "children", znode_children(node));
    if (l->permits > 0) {
        json_member_int(j, "permits", l->permits);
    }
    if (l->kind == LAYOUT_BARRIER) {
        json_member_bool(j, "open", l->open);
    }
    write_places(s, l, true);
    write_places(s, l, false);
    write_record(s, l);
    json_object_end(j);
}

static void search_candidate(struct recipe_search *s, const struct znode *parent)
{
    struct layout l;
    if (!recipe_readable(&s->reader, parent)) {
        s->hidden++;
        return;
    }
    if (!recipe_read(&s->reader, parent, NULL, &l)) {
        s->cut = true;
        return;
    }
    if (l.kind <= LAYOUT_PART || (s->held && (!recipe_is_held(l.kind) || l.count == 0))) {
        return;
    }
    s->found++;
    if (s->found > (s->held ? RECIPES_HELD_MAX : RECIPES_ALL_MAX) ||
        s->j->out.len >= s->bytes_max) {
        s->left_out++;
        return;
    }
    write_recipe(s, parent, &l);
}

static bool is_system(const struct znode *node)
{
    while (node->parent != NULL && node->parent->parent != NULL) {
        node = node->parent;
    }
    return slice_equal_str(znode_name(node), "zookeeper");
}

/* Plain barriers */

/* No data, or the address that Curator puts there. */
static bool is_barrier_data(struct slice data)
{
    bool address = data.len <= ADDRESS_MAX;
    for (size_t i = 0; address && i < data.len; i++) {
        address = strchr("0123456789abcdef.:", data.data[i]) != NULL && data.data[i] != '\0';
    }
    return address;
}

/* A lasting node without children and data, whose end or change somebody waits for. */
static bool is_plain_barrier(struct recipe_search *s, const struct znode *node)
{
    struct layout_name name;
    layout_name_parse(znode_name(node), &name);
    return znode_children(node) == 0 && node->parent != NULL && !znode_is_ephemeral(node) &&
           is_barrier_data(znode_data(node)) && name.stem == STEM_NONE &&
           !has_suffix(znode_name(node), ".leader") && !has_suffix(znode_name(node), ".acks") &&
           !is_system(node) && recipe_readable(&s->reader, node);
}

/* The clients of this server that wait at the path of s->waits. */
static void write_waiting(struct recipe_search *s)
{
    struct json *j = s->j;
    size_t count = s->waits.count;
    json_object_begin(j);
    json_member_string(j, "kind", layout_kind_name(LAYOUT_BARRIER));
    json_member_string(j, "library", "");
    json_member_bool(j, "plain", true);
    json_member_text(j, "path", s->waits.path);
    json_member_uint(j, "children", 0);
    json_member_bool(j, "open", false);
    json_key(j, "holders");
    json_array_begin(j);
    json_array_end(j);
    json_member_uint(j, "holding", 0);
    json_key(j, "line");
    json_array_begin(j);
    for (size_t i = 0; i < count && i < RECIPES_LINE_ALL_MAX; i++) {
        json_object_begin(j);
        json_member_string(j, "label", "");
        json_member_string(j, "node", "");
        json_member_int(j, "since_ms", 0);
        json_member_hex(j, "session", s->waits.clients[i]->session_id);
        json_member_string(j, "client", s->waits.clients[i]->peer);
        json_object_end(j);
    }
    json_array_end(j);
    json_member_uint(j, "waiting", count);
    json_object_end(j);
}

/* The watches of one path have been seen. */
static void search_waits_end(struct recipe_search *s)
{
    const struct znode *node = s->waits.count > 0 && s->waits.path.len <= VIEW_PATH_MAX
                                   ? state_node(s->state, s->waits.path)
                                   : NULL;
    if (node != NULL && is_plain_barrier(s, node)) {
        s->found++;
        if (s->found > RECIPES_ALL_MAX || s->j->out.len >= s->bytes_max) {
            s->left_out++;
        } else {
            write_waiting(s);
        }
    }
    s->waits.count = 0;
}

/* The watches come path by path. */
static bool search_watch(void *ctx, struct slice path, struct watcher *w)
{
    struct recipe_search *s = ctx;
    if (++s->looked > RECIPES_WATCHES_MAX) {
        s->cut = true;
        return false;
    }
    if (s->waits.path.data != path.data) {
        search_waits_end(s);
        s->waits.path = path;
    }
    if (watch_has(s->service->watches, w, WATCH_DATA, path)) {
        if (s->waits.count < RECIPES_LINE_ALL_MAX) {
            s->waits.clients[s->waits.count] = CONTAINER_OF(w, struct connection, watcher);
        }
        s->waits.count++;
    }
    return true;
}

static void search_waits(struct recipe_search *s)
{
    struct watch_stats stats;
    watch_stats(s->service->watches, &stats);
    if (stats.memory > RECIPES_WATCH_MEMORY_MAX) {
        s->cut = true; /* a look through all of them would hold up the server */
        return;
    }
    s->looked = 0;
    watch_each_data(s->service->watches, search_watch, s);
    search_waits_end(s);
}

static void search_run(struct recipe_search *s)
{
    state_session_each(s->state, search_session, s);
    if (!s->held) {
        search_walk(s);
    }
    search_sort(s);
    json_object_begin(s->j);
    json_key(s->j, "list");
    json_array_begin(s->j);
    for (size_t i = 0; i < s->count; i++) {
        if (!is_system(s->parents[i])) {
            search_candidate(s, s->parents[i]);
        }
    }
    if (!s->held) {
        search_waits(s);
    }
    json_array_end(s->j);
    json_member_uint(s->j, "more", s->left_out);
    json_member_uint(s->j, "hidden", s->hidden);
    json_member_bool(s->j, "cut", s->cut);
    json_object_end(s->j);
}

static bool search_init(struct recipe_search *s, struct service *service,
                        const struct handover_notes *notes, struct json *j)
{
    *s = (struct recipe_search){
        .service = service, .notes = notes, .state = service->state, .bytes_max = SIZE_MAX, .j = j};
    return recipe_reader_init(&s->reader, service, RECIPES_CHILDREN_MAX);
}

void recipe_list_write(struct service *service, const struct handover_notes *notes, bool held,
                       size_t bytes_max, struct json *j)
{
    struct recipe_search s;
    bool ready = search_init(&s, service, notes, j);
    s.held = held;
    s.leases = !held;
    s.bytes_max = bytes_max;
    s.parents = calloc(RECIPES_PARENTS_MAX, sizeof(struct znode *));
    if (!ready || s.parents == NULL) {
        j->out.failed = true;
    } else {
        search_run(&s);
    }
    free(s.parents);
    recipe_reader_finish(&s.reader);
}

/* The nodes below which the contenders of the recipe at a path may be. */
static bool write_found(struct recipe_search *s, struct slice path)
{
    static const char *const BELOW[] = {"", "/leases", "/entries", ".acks"};
    struct buf name;
    bool found = false;
    buf_init(&name, 0);
    for (size_t i = 0; i < sizeof BELOW / sizeof BELOW[0] && !found; i++) {
        struct layout l;
        buf_reset(&name);
        buf_append_slice(&name, path);
        buf_append_str(&name, BELOW[i]);
        const struct znode *node = buf_ok(&name) ? state_node(s->state, buf_slice(&name)) : NULL;
        found = node != NULL && recipe_readable(&s->reader, node) &&
                recipe_read(&s->reader, node, NULL, &l) && l.kind > LAYOUT_PART &&
                l.path_len == path.len && !is_system(node);
        if (found) {
            write_recipe(s, node, &l);
        }
    }
    s->j->out.failed |= name.failed;
    buf_finish(&name);
    return found;
}

void recipe_write(struct service *service, const struct handover_notes *notes, struct slice path,
                  struct json *j)
{
    struct recipe_search s;
    bool ready = search_init(&s, service, notes, j);
    s.leases = true;
    if (!ready || !write_found(&s, path)) {
        json_null(j);
        j->out.failed |= !ready;
    }
    recipe_reader_finish(&s.reader);
}
