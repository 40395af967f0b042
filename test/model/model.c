#include "model/parts.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define CONTAINER INT64_MIN
#define TTL_BYTE 0xffULL
#define TTL_MAX_MS 0xffffffffffLL

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

const struct model_node *model_find(const struct model *m, const char *path)
{
    return find(m, path);
}

static bool owner_is_ttl(int64_t owner)
{
    return (uint64_t)owner >> 56 == TTL_BYTE;
}

static bool owner_is_session(int64_t owner)
{
    return owner != 0 && owner != CONTAINER && !owner_is_ttl(owner);
}

bool model_is_ephemeral(const struct model_node *node)
{
    return owner_is_session(node->owner);
}

static bool owner_is_collectable(int64_t owner)
{
    return owner == CONTAINER || owner_is_ttl(owner);
}

void model_parent(const char *path, char *out)
{
    size_t n = (size_t)(strrchr(path, '/') - path);
    memcpy(out, path, n);
    out[n] = '\0';
}

int model_children(const struct model *m, const char *path)
{
    int n = 0;
    for (size_t i = 0; i < m->count; i++) {
        char parent[MODEL_PATH];
        if (strcmp(m->nodes[i].path, "/") != 0) {
            model_parent(m->nodes[i].path, parent);
            n += strcmp(parent[0] != '\0' ? parent : "/", path) == 0;
        }
    }
    return n;
}

void model_set_data(struct model_node *node, struct slice data)
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
    model_set_data(node, slice_make("", 0));
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
        model_set_data(&c.nodes[i],
                       from->null_data ? SLICE_NULL : slice_make(from->data, from->data_len));
    }
    return c;
}

static struct model_session *find_session(struct model *m, int64_t id)
{
    for (size_t i = 0; i < m->session_count; i++) {
        if (m->sessions[i].id == id) {
            return &m->sessions[i];
        }
    }
    return NULL;
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
bool model_path_string(struct slice path, char *out)
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

bool model_permits(const struct model_node *node, struct wire_vector ids, int32_t perms)
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

void model_put_stat(const struct model *m, const struct model_node *n, struct buf *out)
{
    int kids = model_children(m, n->path);
    struct wire_stat stat = {
        .czxid = n->czxid,
        .mzxid = n->mzxid,
        .ctime = n->ctime,
        .mtime = n->mtime,
        .version = n->version,
        .cversion = n->creates * 2 - kids,
        .aversion = n->aversion,
        .ephemeral_owner = owner_is_session(n->owner) ? n->owner : 0,
        .data_length = (int32_t)n->data_len,
        .num_children = kids,
        .pzxid = n->pzxid,
    };
    wire_encode_stat(out, &stat);
}

void model_event(struct model_effects *e, int type, const struct model_node *node)
{
    buf_printf(&e->events, "%d %s", type, node->path);
    const struct model_acl *first = &node->acl[0];
    if (node->acl_count == 1 && first->perms == 31 && strcmp(first->id, "anyone") == 0) {
        buf_append_str(&e->events, " open");
    } else {
        for (int i = 0; i < node->acl_count; i++) {
            buf_printf(&e->events, " %d:%s:%s", node->acl[i].perms, node->acl[i].scheme,
                       node->acl[i].id);
        }
    }
    buf_append_str(&e->events, "\n");
}

/* --- writes ----------------------------------------------------------------------------------- */

int model_refused(struct model_call *c)
{
    const struct model_session *session = find_session(c->m, c->session_id);
    if (session == NULL) {
        return CONCLAVE_SESSION_EXPIRED;
    }
    return session->owner == 0 || c->origin == 0 || session->owner == c->origin
               ? 0
               : CONCLAVE_SESSION_MOVED;
}

/* --- quotas ----------------------------------------------------------------------------------- */

struct quota_numbers {
    long long count, bytes, count_hard, bytes_hard; /* -1: none */
};

/* Knows the texts that the tests write and those of its own. */
static struct quota_numbers quota_read(const struct model_node *node)
{
    struct quota_numbers q = {-1, -1, -1, -1};
    char text[128];
    snprintf(text, sizeof text, "%.*s", (int)node->data_len, (const char *)node->data);
    (void)sscanf(text, "count=%lld,bytes=%lld=;byteHardLimit=%lld;countHardLimit=%lld", &q.count,
                 &q.bytes, &q.bytes_hard, &q.count_hard);
    return q;
}

/* The two nodes of the deepest quota at or above the path; false when there is none. */
static bool quota_of(const struct model *m, const char *path, struct model_node **limits,
                     struct model_node **stats)
{
    char prefix[MODEL_PATH];
    snprintf(prefix, sizeof prefix, "%s", path);
    while (prefix[0] != '\0' && strcmp(prefix, "/") != 0) {
        char name[MODEL_PATH + 64];
        snprintf(name, sizeof name, "/zookeeper/quota%s/zookeeper_limits", prefix);
        *limits = find(m, name);
        if (*limits != NULL) {
            snprintf(name, sizeof name, "/zookeeper/quota%s/zookeeper_stats", prefix);
            *stats = find(m, name);
            return true;
        }
        *strrchr(prefix, '/') = '\0';
    }
    return false;
}

static bool quota_beyond(struct model_call *c, long long amount, long long soft, long long hard)
{
    bool beyond = hard > -1 ? amount > hard : soft > -1 && amount > soft;
    c->e->quota_exceeded |= beyond;
    return beyond && hard > -1;
}

static int quota_allows(struct model_call *c, const char *path, long long nodes, long long bytes)
{
    struct model_node *limits;
    struct model_node *stats;
    if ((c->options & MODEL_QUOTA) == 0 || !quota_of(c->m, path, &limits, &stats) ||
        stats == NULL) {
        return 0;
    }
    struct quota_numbers have = quota_read(stats);
    struct quota_numbers max = quota_read(limits);
    if ((nodes != 0 && quota_beyond(c, have.count + nodes, max.count, max.count_hard)) ||
        (bytes != 0 && quota_beyond(c, have.bytes + bytes, max.bytes, max.bytes_hard))) {
        return CONCLAVE_QUOTA_EXCEEDED;
    }
    return 0;
}

static void quota_write(struct model_node *stats, long long count, long long bytes)
{
    char text[64];
    snprintf(text, sizeof text, "count=%lld,bytes=%lld", count, bytes);
    model_set_data(stats, slice_str(text));
}

void model_quota_counts(struct model *m, const char *path, long long nodes, long long bytes)
{
    struct model_node *limits;
    struct model_node *stats;
    if ((nodes != 0 || bytes != 0) && quota_of(m, path, &limits, &stats) && stats != NULL) {
        struct quota_numbers have = quota_read(stats);
        quota_write(stats, have.count + nodes, have.bytes + bytes);
    }
}

bool model_is_below(const char *path, const char *top)
{
    size_t n = strcmp(top, "/") == 0 ? 0 : strlen(top);
    return strncmp(path, top, n) == 0 && path[n] == '/' && path[n + 1] != '\0';
}

static void quota_created(struct model *m, struct model_node *node)
{
    static const char root[] = "/zookeeper/quota";
    static const char name[] = "/zookeeper_stats";
    size_t len = strlen(node->path);
    char top[MODEL_PATH];
    long long count = 0;
    long long bytes = 0;
    if (len < strlen(name) || strcmp(node->path + len - strlen(name), name) != 0 ||
        strncmp(node->path, root, strlen(root)) != 0 || node->path[strlen(root)] != '/') {
        return;
    }
    snprintf(top, sizeof top, "%.*s", (int)(len - strlen(name) - strlen(root)),
             node->path + strlen(root));
    for (size_t i = 0; i < m->count; i++) {
        const char *path = m->nodes[i].path;
        if (strcmp(path, top[0] != '\0' ? top : "/") == 0 ||
            (find(m, top) != NULL && model_is_below(path, top))) {
            count++;
            bytes +=
                &m->nodes[i] == node ? (long long)node->data_len : (long long)m->nodes[i].data_len;
        }
    }
    quota_write(node, count, bytes);
}

/* --- the writes ------------------------------------------------------------------------------- */

static int check_ttl(const struct model_call *c, int32_t type, int32_t mode, int64_t ttl_ms)
{
    if (mode != 5 && mode != 6) {
        return type == WIRE_CREATE_TTL ? CONCLAVE_BAD_ARGUMENTS : 0;
    }
    if ((c->options & MODEL_TTL) == 0) {
        return CONCLAVE_UNIMPLEMENTED;
    }
    return ttl_ms < 1 || ttl_ms > TTL_MAX_MS ? CONCLAVE_BAD_ARGUMENTS : 0;
}

static int do_create(struct model_call *c, int32_t type, struct wire_create_ttl_request r)
{
    struct model *m = c->m;
    char path[MODEL_PATH + 16];
    char parent[MODEL_PATH];
    struct model_acl acl[MODEL_ACLS];
    int acl_count;
    if (r.flags < 0 || r.flags > 6) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    int rc = check_ttl(c, type, r.flags, r.ttl_ms);
    if (rc != 0) {
        return rc;
    }
    rc = model_refused(c);
    if (rc != 0) {
        return rc;
    }
    if (!model_path_string(r.path, path) || strchr(path, '/') == NULL) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    rc = fixup(r.acl, c->ids, acl, &acl_count);
    if (rc != 0) {
        return rc;
    }
    model_parent(path, parent);
    struct model_node *p = find(m, parent);
    if (p == NULL) {
        return CONCLAVE_NO_NODE;
    }
    if (!model_permits(p, c->ids, WIRE_PERM_CREATE)) {
        return CONCLAVE_NO_AUTH;
    }
    if (r.flags == 2 || r.flags == 3 || r.flags == 6) {
        snprintf(path + strlen(path), 16, "%010d", p->creates);
    }
    if (!valid_path(path)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    bool plain = type == WIRE_CREATE || type == WIRE_CREATE2;
    rc = model_fence(c, 'c', path, r.data, plain && r.flags == 0);
    if (rc != 0) {
        return rc;
    }
    if (find(m, path) != NULL) {
        return CONCLAVE_NODE_EXISTS;
    }
    if (owner_is_session(p->owner)) {
        return CONCLAVE_NO_CHILDREN_FOR_EPHEMERALS;
    }
    rc = quota_allows(c, path, 1, (long long)r.data.len);
    if (rc != 0) {
        return rc;
    }
    p->creates++;
    p->pzxid = m->zxid;
    struct model_node *n = add(m, path);
    model_set_data(n, r.data);
    memcpy(n->acl, acl, sizeof acl);
    n->acl_count = acl_count;
    n->czxid = n->mzxid = n->pzxid = m->zxid;
    n->ctime = n->mtime = c->time_ms;
    n->owner = type == WIRE_CREATE_CONTAINER  ? CONTAINER
               : type == WIRE_CREATE_TTL      ? (int64_t)(TTL_BYTE << 56 | (uint64_t)r.ttl_ms)
               : r.flags == 1 || r.flags == 3 ? c->session_id
                                              : 0;
    model_event(c->e, 1, n);
    model_event(c->e, 4, find(m, parent));
    wire_write_string(&c->e->reply, slice_str(path));
    if (type != WIRE_CREATE) {
        model_put_stat(m, n, &c->e->reply);
    }
    quota_created(m, n);
    model_quota_counts(m, path, 1, (long long)n->data_len);
    return 0;
}

static void remove_node(struct model_call *c, struct model_node *n)
{
    char parent[MODEL_PATH];
    char path[MODEL_PATH];
    strcpy(path, n->path);
    model_parent(path, parent);
    model_event(c->e, 2, n);
    model_event(c->e, 4, find(c->m, parent));
    model_fence_leaving(c, n, c->expiry);
    long long bytes = (long long)n->data_len;
    drop(c->m, n);
    find(c->m, parent)->pzxid = c->m->zxid;
    model_quota_counts(c->m, path, -1, -bytes);
}

static int do_delete(struct model_call *c, struct wire_delete_request r)
{
    char path[MODEL_PATH];
    char parent[MODEL_PATH];
    int rc = model_refused(c);
    if (rc != 0) {
        return rc;
    }
    if (!model_path_string(r.path, path) || strchr(path, '/') == NULL || strcmp(path, "/") == 0 ||
        strcmp(path, "/zookeeper") == 0 || strcmp(path, "/zookeeper/quota") == 0 ||
        strcmp(path, "/zookeeper/config") == 0) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    model_parent(path, parent);
    struct model_node *p = find(c->m, parent);
    struct model_node *n = find(c->m, path);
    int rc_fence = 0;
    return p == NULL                                                        ? CONCLAVE_NO_NODE
           : !model_permits(p, c->ids, WIRE_PERM_DELETE)                    ? CONCLAVE_NO_AUTH
           : (rc_fence = model_fence(c, 'd', path, SLICE_NULL, false)) != 0 ? rc_fence
           : n == NULL                                                      ? CONCLAVE_NO_NODE
           : r.version != -1 && r.version != n->version                     ? CONCLAVE_BAD_VERSION
           : model_children(c->m, path) > 0                                 ? CONCLAVE_NOT_EMPTY
                                            : (remove_node(c, n), 0);
}

/* The checks that setData, check and setACL share. */
static int find_for(struct model_call *c, struct slice raw, int32_t perm, struct model_node **ret)
{
    char path[MODEL_PATH];
    int rc = model_refused(c);
    if (rc != 0) {
        return rc;
    }
    if (raw.len == 0 || !model_path_string(raw, path) || !valid_path(path)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    *ret = find(c->m, path);
    if (*ret == NULL) {
        return CONCLAVE_NO_NODE;
    }
    return model_permits(*ret, c->ids, perm) ? 0 : CONCLAVE_NO_AUTH;
}

static int do_set_data(struct model_call *c, struct wire_set_data_request r)
{
    struct model_node *n;
    int rc = find_for(c, r.path, WIRE_PERM_WRITE, &n);
    if (rc == 0) {
        rc = model_fence(c, 's', n->path, r.data, false);
    }
    if (rc != 0) {
        return rc;
    }
    long long bytes = (long long)r.data.len - (long long)n->data_len;
    rc = quota_allows(c, n->path, 0, bytes);
    if (rc != 0) {
        return rc;
    }
    if (r.version != -1 && r.version != n->version) {
        return CONCLAVE_BAD_VERSION;
    }
    model_set_data(n, r.data);
    n->version++;
    n->mzxid = c->m->zxid;
    n->mtime = c->time_ms;
    model_event(c->e, 3, n);
    model_quota_counts(c->m, n->path, 0, bytes);
    model_put_stat(c->m, n, &c->e->reply);
    return 0;
}

static int do_check(struct model_call *c, struct wire_check_version_request r)
{
    struct model_node *n;
    int rc = find_for(c, r.path, WIRE_PERM_READ, &n);
    return rc != 0 ? rc : r.version != -1 && r.version != n->version ? CONCLAVE_BAD_VERSION : 0;
}

static int do_set_acl(struct model_call *c, struct wire_set_acl_request r)
{
    struct model_node *n;
    struct model_acl acl[MODEL_ACLS];
    int acl_count;
    int found = find_for(c, r.path, WIRE_PERM_ADMIN, &n);
    if (found == CONCLAVE_SESSION_EXPIRED || found == CONCLAVE_SESSION_MOVED ||
        found == CONCLAVE_BAD_ARGUMENTS) {
        return found;
    }
    int rc = fixup(r.acl, c->ids, acl, &acl_count);
    if (rc != 0 || found != 0) {
        return rc != 0 ? rc : found;
    }
    rc = model_fence(c, 'a', n->path, SLICE_NULL, false);
    if (rc != 0) {
        return rc;
    }
    if (r.version != -1 && r.version != n->aversion) {
        return CONCLAVE_BAD_VERSION;
    }
    memcpy(n->acl, acl, sizeof acl);
    n->acl_count = acl_count;
    n->aversion++;
    model_put_stat(c->m, n, &c->e->reply);
    return 0;
}

static int compare_nodes(const void *a, const void *b)
{
    const struct model_node *x = a;
    const struct model_node *y = b;
    return x->czxid != y->czxid ? (x->czxid > y->czxid ? 1 : -1) : strcmp(x->path, y->path);
}

/* Its nodes by age, then by path. */
static int do_close(struct model_call *c)
{
    struct model *m = c->m;
    if (c->cxid != 0 && model_refused(c) == CONCLAVE_SESSION_MOVED) {
        return CONCLAVE_SESSION_MOVED;
    }
    struct model_node *mine = calloc(m->count, sizeof *mine);
    size_t n = 0;
    assert(mine != NULL);
    for (size_t i = 0; i < m->count; i++) {
        if (m->nodes[i].owner == c->session_id) {
            mine[n++] = m->nodes[i];
        }
    }
    qsort(mine, n, sizeof *mine, compare_nodes);
    c->expiry = c->cxid == 0;
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

static int do_open(struct model_call *c, bool attach, struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct wire_connect_response response;
    if (wire_decode_connect_response(&r, &response) != 0 || response.passwd.len != 16) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    struct model_session *session = find_session(c->m, c->session_id);
    if (attach && (session == NULL || memcmp(session->passwd, response.passwd.data, 16) != 0)) {
        return CONCLAVE_SESSION_EXPIRED;
    }
    if (session == NULL) {
        assert(c->m->session_count < sizeof c->m->sessions / sizeof c->m->sessions[0]);
        session = &c->m->sessions[c->m->session_count++];
    }
    *session = (struct model_session){
        .id = c->session_id, .timeout_ms = response.timeout_ms, .owner = c->origin};
    memcpy(session->passwd, response.passwd.data, 16);
    return 0;
}

static int do_fence_open(struct model_call *c)
{
    int rc = model_fence_open(c);
    if (rc != 1) {
        return rc;
    }
    struct model_node *parent = find(c->m, "/zookeeper");
    parent->creates++;
    parent->pzxid = c->m->zxid;
    struct model_node *n = add(c->m, "/zookeeper/fence");
    n->acl[0] = (struct model_acl){31, "world", "anyone"};
    n->acl_count = 1;
    n->czxid = n->mzxid = n->pzxid = c->m->zxid;
    n->ctime = n->mtime = c->time_ms;
    n->version = -1;
    model_event(c->e, 1, n);
    model_event(c->e, 4, find(c->m, "/zookeeper"));
    return 0;
}

static int do_collect(struct model_call *c, struct wire_reader *r)
{
    char path[MODEL_PATH];
    struct slice raw = wire_read_string(r);
    int64_t czxid = wire_read_i64(r);
    int64_t mzxid = wire_read_i64(r);
    if (r->failed || raw.data == NULL) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    struct model_node *n = model_path_string(raw, path) ? find(c->m, path) : NULL;
    return n == NULL                           ? CONCLAVE_NO_NODE
           : !owner_is_collectable(n->owner)   ? CONCLAVE_BAD_VERSION
           : n->czxid != czxid                 ? CONCLAVE_BAD_VERSION
           : n->mzxid != mzxid                 ? CONCLAVE_BAD_VERSION
           : model_children(c->m, n->path) > 0 ? CONCLAVE_NOT_EMPTY
                                               : (remove_node(c, n), 0);
}

/* A create of any kind, from its record. */
static int do_create_record(struct model_call *c, int32_t type, bool in_multi,
                            struct wire_reader *r, int32_t *ret_type)
{
    struct wire_create_ttl_request create = {.ttl_ms = -1};
    struct wire_create_request plain;
    if (type == WIRE_CREATE_TTL) {
        if (wire_decode_create_ttl_request(r, &create) != 0) {
            return CONCLAVE_MARSHALLING_ERROR;
        }
    } else if (wire_decode_create_request(r, &plain) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    } else {
        create =
            (struct wire_create_ttl_request){plain.path, plain.data, plain.acl, plain.flags, -1};
    }
    bool ttl_mode = create.flags == 5 || create.flags == 6;
    if (in_multi && create.flags == 4) {
        type = WIRE_CREATE_CONTAINER;
    } else if (in_multi && type == WIRE_CREATE_TTL && !ttl_mode) {
        type = WIRE_CREATE;
    }
    *ret_type = type == WIRE_CREATE ? 1 : 15;
    return do_create(c, type, create);
}

/* One operation, read from r. *ret_type is what its result in a multi is headed as. */
static int do_one(struct model_call *c, int32_t type, bool in_multi, struct wire_reader *r,
                  int32_t *ret_type)
{
    struct wire_delete_request del;
    struct wire_set_data_request set;
    struct wire_set_acl_request acl;
    struct wire_check_version_request check;
    *ret_type = type;
    switch (type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL:
        return do_create_record(c, type, in_multi, r, ret_type);
    case WIRE_DELETE_CONTAINER:
        return in_multi ? (int)CONCLAVE_MARSHALLING_ERROR : do_collect(c, r);
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
static int do_multi(struct model_call *c, struct slice body)
{
    struct model copy = copy_of(c->m);
    struct model_call part = *c;
    part.m = &copy;
    part.multi = body;
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
        struct model_call reading = part;
        bool exceeded = c->e->quota_exceeded;
        bool fenced = c->e->fenced;
        reading.m = err != 0 ? &throwaway : &copy;
        int rc = do_one(&reading, h.type, true, &r, &type);
        model_finish(&throwaway);
        c->e->quota_exceeded = err != 0 ? exceeded : c->e->quota_exceeded;
        c->e->fenced = err != 0 ? fenced : c->e->fenced;
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

void model_apply(struct model *m, const struct model_caller *caller, int32_t type,
                 struct slice body, int64_t time_ms, struct model_effects *e)
{
    buf_reset(&e->reply);
    buf_reset(&e->events);
    e->quota_exceeded = e->fenced = e->deferred = e->resumed.is = false;
    m->time_ms = time_ms;
    m->zxid += type == MODEL_ATTACH_SESSION ? 0 : 1;
    struct model_call c = {.m = m,
                           .session_id = caller->session_id,
                           .ids = caller->ids,
                           .options = caller->options,
                           .cxid = caller->cxid,
                           .origin = caller->origin,
                           .time_ms = time_ms,
                           .e = e};
    struct wire_reader r = wire_reader_make(body);
    int32_t unused;
    e->zxid = m->zxid;
    e->err = type == WIRE_CREATE_SESSION    ? do_open(&c, false, body)
             : type == MODEL_ATTACH_SESSION ? do_open(&c, true, body)
             : type == WIRE_CLOSE_SESSION   ? do_close(&c)
             : type == MODEL_FENCE_OPEN     ? do_fence_open(&c)
             : type == WIRE_MULTI           ? do_multi(&c, body)
             : type == WIRE_RECONFIG        ? model_reconfig(&c, body)
             : type == MODEL_RECONFIG_END   ? model_reconfig_end(&c, body)
                                            : do_one(&c, type, false, &r, &unused);
    if (e->err != 0) {
        buf_reset(&e->reply);
        buf_reset(&e->events);
    }
}

size_t model_nodes(const struct model *m)
{
    return m->count + 1;
}

size_t model_ephemerals(const struct model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        n += owner_is_session(m->nodes[i].owner);
    }
    return n;
}

size_t model_collectable(const struct model *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->count; i++) {
        n += owner_is_collectable(m->nodes[i].owner);
    }
    return n;
}
