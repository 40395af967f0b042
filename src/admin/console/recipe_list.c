#include "admin/console/recipe_list.h"

#include "admin/console/layout.h"
#include "front/service.h"
#include "state/query.h"
#include "tree/walk.h"

#include <assert.h>
#include <stdlib.h>

/* One list in the making. */
struct recipe_search {
    struct service *service;
    size_t bytes_max; /* of the text */
    const struct state *state;
    bool held;
    const struct znode **parents; /* candidates, some several times */
    size_t count;
    size_t looked; /* nodes so far */
    bool cut;
    size_t hidden;
    size_t found;
    struct buf path;               /* of the current candidate */
    struct buf other;              /* of a node around it */
    struct layout_child *children; /* of the current candidate */
    struct layout_place *places;
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

/* Every node with children is a candidate. Looks at the first children of each only. */
static void search_walk(struct recipe_search *s)
{
    const struct znode *node = state_node(s->state, slice_str("/"));
    size_t seen[RECIPES_DEPTH_MAX] = {0};
    size_t depth = 0;
    size_t looked = 0;
    while (node != NULL) {
        const struct znode *next = depth + 1 < RECIPES_DEPTH_MAX ? znode_first_child(node) : NULL;
        if (next != NULL) {
            search_add(s, node);
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

/* One candidate */

static bool recipe_readable(const struct recipe_search *s, const struct znode *node)
{
    return s->service->skip_acl || state_node_is_public(s->state, node, WIRE_PERM_READ);
}

static bool candidate_exists(void *ctx, const char *suffix)
{
    struct recipe_search *s = ctx;
    struct slice path = buf_slice(&s->path);
    if (suffix[0] == '.' && suffix[1] == '.') {
        while (path.len > 0 && path.data[path.len - 1] != '/') {
            path.len--;
        }
        path.len -= path.len > 0;
        suffix += 2;
    }
    buf_reset(&s->other);
    buf_append_slice(&s->other, path);
    buf_append_str(&s->other, suffix);
    return buf_ok(&s->other) && state_node(s->state, buf_slice(&s->other)) != NULL;
}

static size_t candidate_children(struct recipe_search *s, const struct znode *parent)
{
    size_t count = 0;
    for (const struct znode *c = znode_first_child(parent);
         c != NULL && count < RECIPES_CHILDREN_MAX; c = c->next) {
        s->children[count++] = (struct layout_child){
            .name = znode_name(c),
            .data = recipe_readable(s, c) ? znode_data(c) : SLICE_NULL,
            .session_id = znode_is_ephemeral(c) ? znode_owner(c) : 0,
            .czxid = c->czxid,
            .since_ms = c->ctime,
        };
    }
    return count;
}

/* JSON */

static void write_place(const struct recipe_search *s, const struct layout_place *p)
{
    const struct layout_child *c = &s->children[p->child];
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
            write_place(s, &l->places[i]);
        }
    }
    json_array_end(s->j);
    json_member_uint(s->j, holding ? "holding" : "waiting", count);
}

/* A Redis set has its record in a node of its own. */
static void write_record(const struct recipe_search *s, const struct layout *l, size_t count)
{
    for (size_t i = 0; i < count && l->kind == LAYOUT_REDIS; i++) {
        const struct layout_child *c = &s->children[i];
        if ((slice_equal_str(c->name, "current") || slice_equal_str(c->name, "nodes")) &&
            c->data.len <= RECIPES_RECORD_MAX && utf8_valid(c->data) && c->data.len > 0) {
            json_member_text(s->j, "data", c->data);
            return;
        }
    }
}

static void write_recipe(const struct recipe_search *s, const struct znode *node,
                         const struct layout *l, size_t children)
{
    struct json *j = s->j;
    json_object_begin(j);
    json_member_string(j, "kind", layout_kind_name(l->kind));
    json_member_string(j, "library", l->library);
    json_member_text(j, "path", slice_make(s->path.data, l->path_len));
    json_member_uint(j, "children", znode_children(node));
    if (l->permits > 0) {
        json_member_int(j, "permits", l->permits);
    }
    if (l->kind == LAYOUT_BARRIER) {
        json_member_bool(j, "open", l->open);
    }
    write_places(s, l, true);
    write_places(s, l, false);
    write_record(s, l, children);
    json_object_end(j);
}

static bool is_held_kind(enum layout_kind kind)
{
    return kind == LAYOUT_ELECTION || kind == LAYOUT_LOCK || kind == LAYOUT_SEMAPHORE ||
           kind == LAYOUT_PAIR;
}

static void search_candidate(struct recipe_search *s, const struct znode *parent, size_t *left_out)
{
    struct layout l = {.places = s->places};
    if (!recipe_readable(s, parent)) {
        s->hidden++;
        return;
    }
    buf_reset(&s->path);
    znode_append_path(parent, &s->path);
    if (!buf_ok(&s->path) || s->path.len > VIEW_PATH_MAX) {
        s->cut = true;
        return;
    }
    size_t count = candidate_children(s, parent);
    const struct layout_input in = {.path = buf_slice(&s->path),
                                    .data = znode_data(parent),
                                    .children = s->children,
                                    .count = count,
                                    .exists = candidate_exists,
                                    .ctx = s};
    layout_recognise(&in, &l);
    assert(l.count <= count && l.path_len <= s->path.len);
    if (l.kind <= LAYOUT_PART || (s->held && (!is_held_kind(l.kind) || l.count == 0))) {
        return;
    }
    s->found++;
    if (s->found > (s->held ? RECIPES_HELD_MAX : RECIPES_ALL_MAX) ||
        s->j->out.len >= s->bytes_max) {
        (*left_out)++;
        return;
    }
    write_recipe(s, parent, &l, count);
}

static bool is_system(const struct znode *node)
{
    while (node->parent != NULL && node->parent->parent != NULL) {
        node = node->parent;
    }
    return slice_equal_str(znode_name(node), "zookeeper");
}

static void search_run(struct recipe_search *s)
{
    size_t left_out = 0;
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
            search_candidate(s, s->parents[i], &left_out);
        }
    }
    json_array_end(s->j);
    json_member_uint(s->j, "more", left_out);
    json_member_uint(s->j, "hidden", s->hidden);
    json_member_bool(s->j, "cut", s->cut);
    json_object_end(s->j);
}

void recipe_list_write(struct service *service, bool held, size_t bytes_max, struct json *j)
{
    struct recipe_search s = {
        .service = service, .state = service->state, .held = held, .bytes_max = bytes_max, .j = j};
    buf_init(&s.path, 0);
    buf_init(&s.other, 0);
    s.parents = calloc(RECIPES_PARENTS_MAX, sizeof(struct znode *));
    s.children = calloc(RECIPES_CHILDREN_MAX, sizeof *s.children);
    s.places = calloc(RECIPES_CHILDREN_MAX, sizeof *s.places);
    if (s.parents == NULL || s.children == NULL || s.places == NULL) {
        j->out.failed = true;
    } else {
        search_run(&s);
    }
    free(s.parents);
    free(s.children);
    free(s.places);
    buf_finish(&s.path);
    buf_finish(&s.other);
}
