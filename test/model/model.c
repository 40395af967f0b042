#include "model/model.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define CONTAINER INT64_MIN

/* --- nodes ------------------------------------------------------------------------------------ */

static struct model_node *find(const struct model *m, const char *path)
{
    if (path[0] == '\0') {
        path = "/";
    }
    for (size_t i = 0; i < m->count; i++) {
        if (strcmp(m->nodes[i].path, path) == 0) {
            return &m->nodes[i];
        }
    }
    return NULL;
}

static void parent_path(const char *path, char *out)
{
    size_t n = (size_t)(strrchr(path, '/') - path);
    memcpy(out, path, n);
    out[n] = '\0';
}

static int children(const struct model *m, const char *path)
{
    int n = 0;
    for (size_t i = 0; i < m->count; i++) {
        char parent[MODEL_PATH];
        if (strcmp(m->nodes[i].path, "/") != 0) {
            parent_path(m->nodes[i].path, parent);
            n += strcmp(parent[0] != '\0' ? parent : "/", path) == 0;
        }
    }
    return n;
}

static void set_data(struct model_node *node, struct slice data)
{
    free(node->data);
    node->null_data = slice_is_null(data);
    node->data_len = data.len;
    node->data = malloc(data.len + 1);
    assert(node->data != NULL);
    if (data.len > 0) {
        memcpy(node->data, data.data, data.len);
    }
}

static struct model_node *add(struct model *m, const char *path)
{
    if (m->count == m->cap) {
        m->cap = m->cap == 0 ? 16 : m->cap * 2;
        m->nodes = realloc(m->nodes, m->cap * sizeof *m->nodes);
        assert(m->nodes != NULL);
    }
    struct model_node *node = &m->nodes[m->count++];
    memset(node, 0, sizeof *node);
    snprintf(node->path, sizeof node->path, "%s", path);
    set_data(node, slice_make("", 0));
    return node;
}

static void drop(struct model *m, struct model_node *node)
{
    size_t i = (size_t)(node - m->nodes);
    free(node->data);
    memmove(node, node + 1, (m->count - i - 1) * sizeof *node);
    m->count--;
}

void model_init(struct model *m)
{
    *m = (struct model){0};
    static const struct model_acl everyone = {31, "world", "anyone"};
    const char *boot[] = {"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"};
    for (int i = 0; i < 4; i++) {
        struct model_node *node = add(m, boot[i]);
        node->acl[0] = everyone;
        node->acl_count = 1;
    }
    m->nodes[3].acl[0].perms = 1;
    m->nodes[3].aversion = -1;
}

void model_finish(struct model *m)
{
    for (size_t i = 0; i < m->count; i++) {
        free(m->nodes[i].data);
    }
    free(m->nodes);
    *m = (struct model){0};
}

static struct model copy_of(const struct model *m)
{
    struct model c = *m;
    c.cap = m->count;
    c.nodes = malloc(m->count * sizeof *c.nodes);
    assert(c.nodes != NULL);
    memcpy(c.nodes, m->nodes, m->count * sizeof *c.nodes);
    for (size_t i = 0; i < c.count; i++) {
        c.nodes[i].data = NULL;
        const struct model_node *from = &m->nodes[i];
        set_data(&c.nodes[i],
                 from->null_data ? SLICE_NULL : slice_make(from->data, from->data_len));
    }
    return c;
}

static bool has_session(const struct model *m, int64_t id)
{
    for (size_t i = 0; i < m->session_count; i++) {
        if (m->sessions[i].id == id) {
            return true;
        }
    }
    return false;
}

/* --- paths ------------------------------------------------------------------------------------ */

static bool forbidden(unsigned c)
{
    return c <= 0x1f || (c >= 0x7f && c <= 0x9f) || (c >= 0xd800 && c <= 0xf8ff) || c >= 0xfff0;
}

/* Characters one by one; what is not well-formed UTF-8 of two or three bytes counts as
 * forbidden. */
static bool characters_allowed(const char *path)
{
    const uint8_t *p = (const uint8_t *)path;
    while (*p != 0) {
        unsigned c = *p++;
        if (c >= 0xc2 && c < 0xe0 && (p[0] & 0xc0) == 0x80) {
            c = (c & 0x1f) << 6 | (p[0] & 0x3f);
            p += 1;
        } else if (c >= 0xe0 && c < 0xf0 && (p[0] & 0xc0) == 0x80 && (p[1] & 0xc0) == 0x80) {
            bool overlong = c == 0xe0 && p[0] < 0xa0;
            c = overlong ? 0xffff : (c & 0xf) << 12 | (p[0] & 0x3fu) << 6 | (p[1] & 0x3fu);
            p += 2;
        } else if (c >= 0x80) {
            return false;
        }
        if (forbidden(c)) {
            return false;
        }
    }
    return true;
}

static bool valid_path(const char *path)
{
    if (strcmp(path, "/") == 0) {
        return true;
    }
    if (path[0] != '/' || path[strlen(path) - 1] == '/' || !characters_allowed(path)) {
        return false;
    }
    char with_slash[MODEL_PATH + 2];
    snprintf(with_slash, sizeof with_slash, "%s/", path);
    return strstr(with_slash, "//") == NULL && strstr(with_slash, "/./") == NULL &&
           strstr(with_slash, "/../") == NULL;
}

/* The path as a string; false when it has a NUL. Null and too long ones are not the model's to
 * judge. */
static bool path_string(struct slice path, char *out)
{
    assert(path.len < MODEL_PATH);
    memcpy(out, path.len > 0 ? path.data : (const uint8_t *)"", path.len);
    out[path.len] = '\0';
    return strlen(out) == path.len;
}

/* --- ACLs ------------------------------------------------------------------------------------- */

static bool id_matches(const struct model_acl *a, struct wire_vector ids)
{
    if (strcmp(a->scheme, "world") == 0) {
        return true;
    }
    struct wire_id caller;
    while (wire_next_id(&ids, &caller)) {
        if (slice_equal_str(caller.scheme, a->scheme) && slice_equal_str(caller.id, a->id)) {
            return true;
        }
    }
    return false;
}

static bool permits(const struct model_node *node, struct wire_vector ids, int32_t perms)
{
    struct wire_vector rest = ids;
    struct wire_id caller;
    while (wire_next_id(&rest, &caller)) {
        if (slice_equal_str(caller.scheme, "super")) {
            return true;
        }
    }
    for (int i = 0; i < node->acl_count; i++) {
        if ((node->acl[i].perms & perms) != 0 && id_matches(&node->acl[i], ids)) {
            return true;
        }
    }
    return false;
}

static void acl_add(struct model_acl *acl, int *count, int32_t perms, struct slice scheme,
                    struct slice id)
{
    struct model_acl *a = &acl[(*count)++];
    assert(*count <= MODEL_ACLS);
    a->perms = perms;
    snprintf(a->scheme, sizeof a->scheme, "%.*s", SLICE_FMT(scheme));
    snprintf(a->id, sizeof a->id, "%.*s", SLICE_FMT(id));
}

static bool asked_before(struct wire_vector asked, int n, const struct wire_acl *entry)
{
    struct wire_acl other;
    for (int i = 0; i < n && wire_next_acl(&asked, &other); i++) {
        if (other.perms == entry->perms && slice_equal(other.id.scheme, entry->id.scheme) &&
            slice_equal(other.id.id, entry->id.id)) {
            return true;
        }
    }
    return false;
}

/* Knows world:anyone, auth, and digest with one colon; the tests ask for nothing else that is
 * good. */
static int fixup(struct wire_vector asked, struct wire_vector ids, struct model_acl *acl,
                 int *count)
{
    *count = 0;
    struct wire_acl entry;
    struct wire_vector rest = asked;
    if (asked.count <= 0) {
        return CONCLAVE_INVALID_ACL;
    }
    for (int i = 0; wire_next_acl(&rest, &entry); i++) {
        int before = *count;
        if (asked_before(asked, i, &entry)) {
            continue;
        }
        if (slice_equal_str(entry.id.scheme, "world") && slice_equal_str(entry.id.id, "anyone")) {
            acl_add(acl, count, entry.perms, entry.id.scheme, entry.id.id);
        } else if (slice_equal_str(entry.id.scheme, "digest") && entry.id.id.len == 3 &&
                   entry.id.id.data[1] == ':') {
            acl_add(acl, count, entry.perms, entry.id.scheme, entry.id.id);
        } else if (slice_equal_str(entry.id.scheme, "auth")) {
            struct wire_vector callers = ids;
            struct wire_id caller;
            while (wire_next_id(&callers, &caller)) {
                if (slice_equal_str(caller.scheme, "digest")) {
                    acl_add(acl, count, entry.perms, caller.scheme, caller.id);
                }
            }
        }
        if (*count == before) {
            return CONCLAVE_INVALID_ACL;
        }
    }
    return 0;
}

/* --- replies ---------------------------------------------------------------------------------- */

static void put_stat(const struct model *m, const struct model_node *n, struct buf *out)
{
    int kids = children(m, n->path);
    struct wire_stat stat = {
        .czxid = n->czxid,
        .mzxid = n->mzxid,
        .ctime = n->ctime,
        .mtime = n->mtime,
        .version = n->version,
        .cversion = n->creates * 2 - kids,
        .aversion = n->aversion,
        .ephemeral_owner = n->owner == CONTAINER ? 0 : n->owner,
        .data_length = (int32_t)n->data_len,
        .num_children = kids,
        .pzxid = n->pzxid,
    };
    wire_encode_stat(out, &stat);
}

static void event(struct model_effects *e, int type, const char *path)
{
    buf_printf(&e->events, "%d %s\n", type, path[0] != '\0' ? path : "/");
}

/* --- writes ----------------------------------------------------------------------------------- */

struct call {
    struct model *m;
    int64_t session_id;
    struct wire_vector ids;
    int64_t time_ms;
    struct model_effects *e;
};

static int do_create(struct call *c, int32_t type, struct wire_create_request r)
{
    struct model *m = c->m;
    char path[MODEL_PATH + 16];
    char parent[MODEL_PATH];
    struct model_acl acl[MODEL_ACLS];
    int acl_count;
    if (r.flags < 0 || r.flags > 6) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    if (r.flags == 5 || r.flags == 6) {
        return CONCLAVE_UNIMPLEMENTED;
    }
    if (!has_session(m, c->session_id)) {
        return CONCLAVE_SESSION_EXPIRED;
    }
    if (!path_string(r.path, path) || strchr(path, '/') == NULL) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    int rc = fixup(r.acl, c->ids, acl, &acl_count);
    if (rc != 0) {
        return rc;
    }
    parent_path(path, parent);
    struct model_node *p = find(m, parent);
    if (p == NULL) {
        return CONCLAVE_NO_NODE;
    }
    if (!permits(p, c->ids, WIRE_PERM_CREATE)) {
        return CONCLAVE_NO_AUTH;
    }
    if (r.flags == 2 || r.flags == 3) {
        snprintf(path + strlen(path), 16, "%010d", p->creates);
    }
    if (!valid_path(path)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    if (find(m, path) != NULL) {
        return CONCLAVE_NODE_EXISTS;
    }
    if (p->owner != 0 && p->owner != CONTAINER) {
        return CONCLAVE_NO_CHILDREN_FOR_EPHEMERALS;
    }
    p->creates++;
    p->pzxid = m->zxid;
    struct model_node *n = add(m, path);
    set_data(n, r.data);
    memcpy(n->acl, acl, sizeof acl);
    n->acl_count = acl_count;
    n->czxid = n->mzxid = n->pzxid = m->zxid;
    n->ctime = n->mtime = c->time_ms;
    n->owner = type == WIRE_CREATE_CONTAINER  ? CONTAINER
               : r.flags == 1 || r.flags == 3 ? c->session_id
                                              : 0;
    event(c->e, 1, path);
    event(c->e, 4, parent);
    wire_write_string(&c->e->reply, slice_str(path));
    if (type != WIRE_CREATE) {
        put_stat(m, n, &c->e->reply);
    }
    return 0;
}

static void remove_node(struct call *c, struct model_node *n)
{
    char parent[MODEL_PATH];
    char path[MODEL_PATH];
    strcpy(path, n->path);
    parent_path(path, parent);
    drop(c->m, n);
    find(c->m, parent)->pzxid = c->m->zxid;
    event(c->e, 2, path);
    event(c->e, 4, parent);
}

static int do_delete(struct call *c, struct wire_delete_request r)
{
    char path[MODEL_PATH];
    char parent[MODEL_PATH];
    if (!has_session(c->m, c->session_id)) {
        return CONCLAVE_SESSION_EXPIRED;
    }
    if (!path_string(r.path, path) || strchr(path, '/') == NULL || strcmp(path, "/") == 0 ||
        strcmp(path, "/zookeeper") == 0 || strcmp(path, "/zookeeper/quota") == 0 ||
        strcmp(path, "/zookeeper/config") == 0) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    parent_path(path, parent);
    struct model_node *p = find(c->m, parent);
    struct model_node *n = find(c->m, path);
    return p == NULL                                    ? CONCLAVE_NO_NODE
           : !permits(p, c->ids, WIRE_PERM_DELETE)      ? CONCLAVE_NO_AUTH
           : n == NULL                                  ? CONCLAVE_NO_NODE
           : r.version != -1 && r.version != n->version ? CONCLAVE_BAD_VERSION
           : children(c->m, path) > 0                   ? CONCLAVE_NOT_EMPTY
                                                        : (remove_node(c, n), 0);
}

/* The checks that setData, check and setACL share. */
static int find_for(struct call *c, struct slice raw, int32_t perm, struct model_node **ret)
{
    char path[MODEL_PATH];
    if (!has_session(c->m, c->session_id)) {
        return CONCLAVE_SESSION_EXPIRED;
    }
    if (raw.len == 0 || !path_string(raw, path) || !valid_path(path)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    *ret = find(c->m, path);
    if (*ret == NULL) {
        return CONCLAVE_NO_NODE;
    }
    return permits(*ret, c->ids, perm) ? 0 : CONCLAVE_NO_AUTH;
}

static int do_set_data(struct call *c, struct wire_set_data_request r)
{
    struct model_node *n;
    int rc = find_for(c, r.path, WIRE_PERM_WRITE, &n);
    if (rc != 0) {
        return rc;
    }
    if (r.version != -1 && r.version != n->version) {
        return CONCLAVE_BAD_VERSION;
    }
    set_data(n, r.data);
    n->version++;
    n->mzxid = c->m->zxid;
    n->mtime = c->time_ms;
    event(c->e, 3, n->path);
    put_stat(c->m, n, &c->e->reply);
    return 0;
}

static int do_check(struct call *c, struct wire_check_version_request r)
{
    struct model_node *n;
    int rc = find_for(c, r.path, WIRE_PERM_READ, &n);
    return rc != 0 ? rc : r.version != -1 && r.version != n->version ? CONCLAVE_BAD_VERSION : 0;
}

static int do_set_acl(struct call *c, struct wire_set_acl_request r)
{
    struct model_node *n;
    struct model_acl acl[MODEL_ACLS];
    int acl_count;
    int found = find_for(c, r.path, WIRE_PERM_ADMIN, &n);
    if (found == CONCLAVE_SESSION_EXPIRED || found == CONCLAVE_BAD_ARGUMENTS) {
        return found;
    }
    int rc = fixup(r.acl, c->ids, acl, &acl_count);
    if (rc != 0 || found != 0) {
        return rc != 0 ? rc : found;
    }
    if (r.version != -1 && r.version != n->aversion) {
        return CONCLAVE_BAD_VERSION;
    }
    memcpy(n->acl, acl, sizeof acl);
    n->acl_count = acl_count;
    n->aversion++;
    put_stat(c->m, n, &c->e->reply);
    return 0;
}

static int compare_nodes(const void *a, const void *b)
{
    const struct model_node *x = a;
    const struct model_node *y = b;
    return x->czxid != y->czxid ? (x->czxid > y->czxid ? 1 : -1) : strcmp(x->path, y->path);
}

/* Its nodes by age, then by path. */
static int do_close(struct call *c)
{
    struct model *m = c->m;
    struct model_node *mine = calloc(m->count, sizeof *mine);
    size_t n = 0;
    assert(mine != NULL);
    for (size_t i = 0; i < m->count; i++) {
        if (m->nodes[i].owner == c->session_id) {
            mine[n++] = m->nodes[i];
        }
    }
    qsort(mine, n, sizeof *mine, compare_nodes);
    for (size_t i = 0; i < n; i++) {
        remove_node(c, find(m, mine[i].path));
    }
    free(mine);
    for (size_t i = 0; i < m->session_count; i++) {
        if (m->sessions[i].id == c->session_id) {
            m->sessions[i] = m->sessions[--m->session_count];
        }
    }
    return 0;
}

static int do_open(struct call *c, struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct wire_connect_response response;
    if (wire_decode_connect_response(&r, &response) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (!has_session(c->m, c->session_id)) {
        assert(c->m->session_count < sizeof c->m->sessions / sizeof c->m->sessions[0]);
        c->m->sessions[c->m->session_count++] =
            (struct model_session){c->session_id, response.timeout_ms};
    }
    return 0;
}

/* One operation, read from r. *ret_type is what its result in a multi is headed as. */
static int do_one(struct call *c, int32_t type, bool in_multi, struct wire_reader *r,
                  int32_t *ret_type)
{
    struct wire_create_request create;
    struct wire_delete_request del;
    struct wire_set_data_request set;
    struct wire_set_acl_request acl;
    struct wire_check_version_request check;
    *ret_type = type;
    switch (type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
        if (wire_decode_create_request(r, &create) != 0) {
            return CONCLAVE_MARSHALLING_ERROR;
        }
        if (in_multi && create.flags == 4) {
            type = WIRE_CREATE_CONTAINER;
        }
        *ret_type = type == WIRE_CREATE ? 1 : 15;
        return do_create(c, type, create);
    case WIRE_DELETE:
        return wire_decode_delete_request(r, &del) != 0 ? (int)CONCLAVE_MARSHALLING_ERROR
                                                        : do_delete(c, del);
    case WIRE_SET_DATA:
        return wire_decode_set_data_request(r, &set) != 0 ? (int)CONCLAVE_MARSHALLING_ERROR
                                                          : do_set_data(c, set);
    case WIRE_CHECK:
        if (in_multi) {
            return wire_decode_check_version_request(r, &check) != 0
                       ? (int)CONCLAVE_MARSHALLING_ERROR
                       : do_check(c, check);
        }
        return CONCLAVE_UNIMPLEMENTED;
    case WIRE_SET_ACL:
        if (!in_multi) {
            return wire_decode_set_acl_request(r, &acl) != 0 ? (int)CONCLAVE_MARSHALLING_ERROR
                                                             : do_set_acl(c, acl);
        }
        return CONCLAVE_MARSHALLING_ERROR;
    default:
        return in_multi ? CONCLAVE_MARSHALLING_ERROR : CONCLAVE_UNIMPLEMENTED;
    }
}

/* Tries the parts on a copy and keeps the copy only if all went well. Expects well-formed parts. */
static int do_multi(struct call *c, struct slice body)
{
    struct model copy = copy_of(c->m);
    struct call part = *c;
    part.m = &copy;
    struct wire_reader r = wire_reader_make(body);
    struct wire_multi_header h;
    struct buf ok;
    buf_init(&ok, 0);
    int errs[64];
    int count = 0;
    int err = 0;
    while (wire_decode_multi_header(&r, &h) == 0 && !h.done) {
        int32_t type = h.type;
        buf_reset(&c->e->reply);
        /* Behind the culprit a part is only read, on a copy that is thrown away. */
        struct model throwaway = copy_of(&copy);
        struct call reading = part;
        reading.m = err != 0 ? &throwaway : &copy;
        int rc = do_one(&reading, h.type, true, &r, &type);
        model_finish(&throwaway);
        errs[count++] = err != 0 ? CONCLAVE_RUNTIME_INCONSISTENCY : rc;
        err = err != 0 ? err : rc;
        wire_encode_multi_header(&ok, &(struct wire_multi_header){type, false, 0});
        buf_append_slice(&ok, buf_slice(&c->e->reply));
    }
    buf_reset(&c->e->reply);
    if (err != 0) {
        buf_reset(&c->e->events);
        for (int i = 0; i < count; i++) {
            wire_encode_multi_header(&c->e->reply, &(struct wire_multi_header){-1, false, errs[i]});
            wire_write_i32(&c->e->reply, errs[i]);
        }
        model_finish(&copy);
    } else {
        buf_append_slice(&c->e->reply, buf_slice(&ok));
        model_finish(c->m);
        *c->m = copy;
    }
    wire_encode_multi_header(&c->e->reply, &(struct wire_multi_header){-1, true, -1});
    buf_finish(&ok);
    return 0;
}

void model_effects_init(struct model_effects *e)
{
    e->err = 0;
    buf_init(&e->reply, 0);
    buf_init(&e->events, 0);
}

void model_effects_finish(struct model_effects *e)
{
    buf_finish(&e->reply);
    buf_finish(&e->events);
}

void model_apply(struct model *m, int64_t session_id, int32_t type, struct wire_vector ids,
                 struct slice body, int64_t time_ms, struct model_effects *e)
{
    buf_reset(&e->reply);
    buf_reset(&e->events);
    m->zxid++;
    struct call c = {m, session_id, ids, time_ms, e};
    struct wire_reader r = wire_reader_make(body);
    int32_t unused;
    e->err = type == WIRE_CREATE_SESSION  ? do_open(&c, body)
             : type == WIRE_CLOSE_SESSION ? do_close(&c)
             : type == WIRE_MULTI         ? do_multi(&c, body)
                                          : do_one(&c, type, false, &r, &unused);
    if (e->err != 0) {
        buf_reset(&e->reply);
        buf_reset(&e->events);
    }
}

/* --- reads ------------------------------------------------------------------------------------ */

static void put_children(const struct model *m, const char *path, struct buf *out)
{
    wire_write_i32(out, children(m, path));
    for (size_t i = 0; i < m->count; i++) {
        char parent[MODEL_PATH];
        if (strcmp(m->nodes[i].path, "/") != 0) {
            parent_path(m->nodes[i].path, parent);
            if (strcmp(parent[0] != '\0' ? parent : "/", path) == 0) {
                wire_write_string(out, slice_str(strrchr(m->nodes[i].path, '/') + 1));
            }
        }
    }
}

static void put_acl(const struct model_node *n, bool hide, struct buf *out)
{
    wire_write_i32(out, n->acl_count);
    for (int i = 0; i < n->acl_count; i++) {
        char id[64];
        snprintf(id, sizeof id, "%s", n->acl[i].id);
        if (hide && strcmp(n->acl[i].scheme, "digest") == 0) {
            strcpy(strchr(id, ':'), ":x");
        }
        wire_write_i32(out, n->acl[i].perms);
        wire_write_string(out, slice_str(n->acl[i].scheme));
        wire_write_string(out, slice_str(id));
    }
}

int model_query(const struct model *m, int32_t type, struct wire_vector ids, struct slice body,
                struct buf *out)
{
    struct wire_reader r = wire_reader_make(body);
    char path[MODEL_PATH];
    if (!path_string(wire_read_string(&r), path)) {
        return type == WIRE_EXISTS ? CONCLAVE_BAD_ARGUMENTS : CONCLAVE_NO_NODE;
    }
    const struct model_node *n = find(m, path);
    if (n == NULL) {
        return CONCLAVE_NO_NODE;
    }
    if (!permits(n, ids, WIRE_PERM_READ | (type == WIRE_GET_ACL ? WIRE_PERM_ADMIN : 0))) {
        return CONCLAVE_NO_AUTH;
    }
    switch (type) {
    case WIRE_GET_DATA:
        wire_write_buffer(out, n->null_data ? SLICE_NULL : slice_make(n->data, n->data_len));
        break;
    case WIRE_GET_CHILDREN:
    case WIRE_GET_CHILDREN2:
        put_children(m, n->path, out);
        break;
    case WIRE_GET_ACL:
        put_acl(n, !permits(n, ids, WIRE_PERM_ADMIN), out);
        break;
    default:
        break;
    }
    if (type != WIRE_GET_CHILDREN) {
        put_stat(m, n, out);
    }
    return 0;
}

size_t model_nodes(const struct model *m)
{
    return m->count + 1;
}

size_t model_ephemerals(const struct model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        n += m->nodes[i].owner != 0 && m->nodes[i].owner != CONTAINER;
    }
    return n;
}
