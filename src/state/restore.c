/*
 * Reads a snapshot. Nodes come in any order: a placeholder replaces a parent that has not come yet, and none may be
 * left at the end. It trusts nothing, not even a correct checksum, because the tree relies on the checks here.
 */
#include "state/snapshot_format.h"
#include "state/state_internal.h"

#include "base/endian.h"
#include "state/digest.h"
#include "state/members/member_line.h"
#include "state/mirror.h"
#include "tree/path.h"

#include <assert.h>

struct restore {
    struct state *s;
    struct wire_reader r; /* records of the current block */
    uint32_t version;     /* of the snapshot */
    size_t placeholders;
    int64_t sessions; /* records so far */
    int64_t acls;
    int64_t nodes;
    int64_t others;
    bool counters; /* the counters record has come */
    bool config;   /* the config record has come, after the members */
    bool ended;    /* the end record has come */
    struct slice all;
    void (*passed)(void *ctx, struct slice bytes); /* or NULL */
    void *ctx;
};

static int read_counters(struct restore *x)
{
    x->s->zxid = wire_read_i64(&x->r);
    x->s->tree.acls.next_id = (uint32_t)wire_read_i32(&x->r);
    if (x->version != SNAPSHOT_VERSION_STANDALONE) {
        x->s->time_ms = wire_read_i64(&x->r);
    }
    if (x->r.failed || x->counters || x->s->zxid < 0) {
        return CONCLAVE_ECORRUPT;
    }
    x->counters = true;
    return 0;
}

static int read_session(struct restore *x)
{
    struct state_session session = {.id = wire_read_i64(&x->r)};
    session.timeout_ms = wire_read_i32(&x->r);
    if (x->r.failed || wire_left(&x->r) < WIRE_PASSWD_LEN) {
        return CONCLAVE_ECORRUPT;
    }
    memcpy(session.passwd, x->r.pos, WIRE_PASSWD_LEN);
    x->r.pos += WIRE_PASSWD_LEN;
    if (x->version != SNAPSHOT_VERSION_STANDALONE) {
        session.owner = wire_read_i64(&x->r);
    }
    if (x->r.failed || tree_owner_kind(session.id) != TREE_OWNER_SESSION ||
        session_find(x->s, session.id) != NULL) {
        return CONCLAVE_ECORRUPT;
    }
    x->sessions++;
    return session_put(x->s, &session) != NULL ? 0 : CONCLAVE_ENOMEM;
}

static int read_results(struct restore *x)
{
    struct session *session = session_find(x->s, wire_read_i64(&x->r));
    struct once_results like = {.count_max = wire_read_i32(&x->r)};
    like.bytes_max = wire_read_i32(&x->r);
    like.last = wire_read_i32(&x->r);
    like.forgotten = wire_read_i32(&x->r);
    like.born = wire_read_i64(&x->r);
    int32_t count = wire_read_i32(&x->r);
    if (x->r.failed || session == NULL || session->results != NULL || like.count_max < 1 ||
        like.bytes_max < 1 || count < 0) {
        return CONCLAVE_ECORRUPT;
    }
    if (!once_results_restore(x->s, session, &like)) {
        return CONCLAVE_ENOMEM;
    }
    for (int32_t i = 0; i < count; i++) {
        struct once_result result = {.number = wire_read_i32(&x->r)};
        result.err = wire_read_i32(&x->r);
        result.zxid = wire_read_i64(&x->r);
        result.deferred = wire_read_boolean(&x->r);
        struct slice reply = wire_read_buffer(&x->r);
        if (x->r.failed || slice_is_null(reply)) {
            return CONCLAVE_ECORRUPT;
        }
        if (!once_results_put(x->s, session, &result, reply)) {
            return CONCLAVE_ENOMEM;
        }
    }
    x->others++;
    return 0;
}

static int read_origin(struct restore *x)
{
    const struct state *s = x->s;
    int64_t id = wire_read_i64(&x->r);
    int64_t sequence = wire_read_i64(&x->r);
    bool ascends = s->origins_count == 0 || id > s->origins[s->origins_count - 1].id;
    if (x->r.failed || !ascends || id == BATCH_ORIGIN_LEADER || sequence <= 0) {
        return CONCLAVE_ECORRUPT;
    }
    x->others++;
    return origin_put(x->s, id, sequence) ? 0 : CONCLAVE_ENOMEM;
}

static int read_member(struct restore *x)
{
    struct configuration *e = &x->s->configuration;
    struct membership *m = wire_read_boolean(&x->r) ? &e->target : &e->members;
    int64_t id = wire_read_i64(&x->r);
    int32_t role = wire_read_i32(&x->r);
    struct slice address = wire_read_string(&x->r);
    bool ascends = m->count == 0 || id > m->list[m->count - 1].id;
    if (x->r.failed || x->config || !ascends || id < 1 || id > STATE_MEMBER_ID_MAX || role < 0 ||
        role > STATE_SPARE || address.len == 0 || address.len > MEMBER_LINE_MAX ||
        memchr(address.data, '\0', address.len) != NULL) {
        return CONCLAVE_ECORRUPT;
    }
    x->others++;
    return membership_put(m, id, (enum state_role)role, address) ? 0 : CONCLAVE_ENOMEM;
}

static int read_config(struct restore *x)
{
    struct configuration *e = &x->s->configuration;
    e->version = wire_read_i64(&x->r);
    e->unpublished = wire_read_boolean(&x->r);
    e->reconfig.zxid = wire_read_i64(&x->r);
    e->reconfig.origin = wire_read_i64(&x->r);
    e->reconfig.session_id = wire_read_i64(&x->r);
    e->reconfig.cxid = wire_read_i32(&x->r);
    bool under_way = e->reconfig.zxid > 0;
    if (x->r.failed || x->config || e->version < 0 || e->reconfig.zxid < 0 ||
        e->members.count == 0 || (under_way && e->target.count == 0)) {
        return CONCLAVE_ECORRUPT;
    }
    x->config = true;
    x->others++;
    return 0;
}

static int read_leaving(struct restore *x)
{
    struct configuration *e = &x->s->configuration;
    if (!x->config || e->target.count == 0 || e->leaving) {
        return CONCLAVE_ECORRUPT;
    }
    e->leaving = true;
    x->others++;
    return 0;
}

static int read_acl(struct restore *x)
{
    uint32_t id = (uint32_t)wire_read_i32(&x->r);
    int32_t count = wire_read_i32(&x->r);
    const uint8_t *start = x->r.pos;
    for (int32_t i = 0; i < count && !x->r.failed; i++) {
        struct wire_acl entry;
        (void)!wire_decode_acl(&x->r, &entry);
    }
    if (x->r.failed || count <= 0) {
        return CONCLAVE_ECORRUPT;
    }
    x->acls++;
    struct wire_vector entries = {slice_make(start, (size_t)(x->r.pos - start)), count};
    return acl_restore(&x->s->tree.acls, id, entries);
}

static bool read_image(struct wire_reader *r, struct node_image *ret)
{
    ret->path = wire_read_string(r);
    ret->data = wire_read_buffer(r);
    ret->acl = (uint32_t)wire_read_i32(r);
    ret->owner = wire_read_i64(r);
    ret->czxid = wire_read_i64(r);
    ret->mzxid = wire_read_i64(r);
    ret->ctime = wire_read_i64(r);
    ret->mtime = wire_read_i64(r);
    ret->version = wire_read_i32(r);
    ret->aversion = wire_read_i32(r);
    ret->cversion = wire_read_i32(r);
    ret->pzxid = wire_read_i64(r);
    bool ttl = tree_owner_kind(ret->owner) == TREE_OWNER_IS_TTL;
    return !r->failed && path_valid(ret->path) &&
           (!ttl || ttl_valid(tree_owner_ttl_ms(ret->owner)));
}

/* Adds a node without counting a create at the parent, because the parent's own record has its counts. */
static struct znode *add_uncounted(struct tree *t, struct znode *parent,
                                   const struct znode_spec *spec)
{
    struct znode_dir *dir = znode_dir_need(parent);
    if (dir == NULL) {
        return NULL;
    }
    int32_t cversion = dir->cversion;
    int64_t pzxid = dir->pzxid;
    struct znode *node = tree_add(t, parent, spec);
    dir->cversion = cversion;
    dir->pzxid = pzxid;
    return node;
}

/* A placeholder has room for an owner, because its record may have one. */
static struct znode *add_placeholder(struct restore *x, struct znode *parent, struct slice path)
{
    struct tree *t = &x->s->tree;
    struct znode_spec spec = {.path = path, .acl = ACL_OPEN, .owner = TREE_OWNER_CONTAINER};
    struct znode *node = add_uncounted(t, parent, &spec);
    if (node != NULL) {
        acl_ref(&t->acls, ACL_OPEN);
        node->flags |= ZNODE_PLACEHOLDER;
        x->placeholders++;
    }
    return node;
}

/* The parent of the node at path; adds placeholders for missing nodes. */
static int need_parent(struct restore *x, struct slice path, struct znode **ret)
{
    size_t parent_len = path_last_slash(path);
    struct slice above = slice_make(path.data, parent_len);
    struct znode *node;
    while ((node = tree_find(&x->s->tree, above)) == NULL) {
        above.len = path_last_slash(above);
    }
    while (above.len < parent_len) {
        do {
            above.len++;
        } while (path.data[above.len] != '/');
        node = add_placeholder(x, node, above);
        if (node == NULL) {
            return CONCLAVE_ENOMEM;
        }
    }
    *ret = node;
    return znode_is_ephemeral(node) ? CONCLAVE_ECORRUPT : 0;
}

struct znode *node_image_add(struct state *s, struct znode *parent, const struct node_image *image,
                             struct list *owned)
{
    struct znode_spec spec = {
        .path = image->path,
        .data = image->data,
        .acl = image->acl,
        .owner = image->owner,
        .owned = owned,
        .zxid = image->czxid,
        .time_ms = image->ctime,
    };
    struct znode *node = add_uncounted(&s->tree, parent, &spec);
    if (node != NULL) {
        acl_ref(&s->tree.acls, image->acl);
        session_count_path(s, image->owner, (int64_t)image->path.len);
    }
    return node;
}

bool node_image_stat(const struct node_image *image, struct znode *node)
{
    node->mzxid = image->mzxid;
    node->mtime = image->mtime;
    node->version = image->version;
    if (znode_dir(node) != NULL || image->cversion != 0 || image->aversion != 0 ||
        image->pzxid != image->czxid) {
        struct znode_dir *dir = znode_dir_need(node);
        if (dir == NULL) {
            return false;
        }
        dir->cversion = image->cversion;
        dir->aversion = image->aversion;
        dir->pzxid = image->pzxid;
    }
    return true;
}

static int add_image(struct restore *x, const struct node_image *image, struct list *owned,
                     struct znode **ret)
{
    struct znode *parent;
    int rc = need_parent(x, image->path, &parent);
    if (rc != 0) {
        return rc;
    }
    *ret = node_image_add(x->s, parent, image, owned);
    return *ret != NULL ? 0 : CONCLAVE_ENOMEM;
}

/* Turns a placeholder, or the root that every tree begins with, into the real node. */
static int fill_placeholder(struct restore *x, const struct node_image *image, struct znode *node)
{
    struct tree *t = &x->s->tree;
    struct znode_owner *owner = znode_owner_of(node);
    enum tree_owner kind = tree_owner_kind(image->owner);
    bool extended = kind == TREE_OWNER_IS_CONTAINER || kind == TREE_OWNER_IS_TTL;
    if (kind == TREE_OWNER_SESSION || (extended && owner == NULL)) {
        return CONCLAVE_ECORRUPT;
    }
    assert((node->flags & ZNODE_PLACEHOLDER) != 0 && x->placeholders > 0);
    struct znode_data *data;
    if (!znode_data_make(image->data, &data)) {
        return CONCLAVE_ENOMEM;
    }
    free(tree_swap_data(t, node, data));
    if (owner != NULL && !extended) {
        assert(t->extended_count > 0);
        list_remove(&owner->link);
        t->extended_count--;
    }
    if (owner != NULL) {
        owner->owner = image->owner;
    }
    acl_ref(&t->acls, image->acl);
    acl_unref(&t->acls, node->acl);
    node->acl = image->acl;
    node->czxid = image->czxid;
    node->ctime = image->ctime;
    node->flags &= (uint8_t)~ZNODE_PLACEHOLDER;
    x->placeholders--;
    return 0;
}

static int read_node(struct restore *x)
{
    struct node_image image;
    if (!read_image(&x->r, &image) || acl_get(&x->s->tree.acls, image.acl) == NULL) {
        return CONCLAVE_ECORRUPT;
    }
    struct list *owned = NULL;
    if (tree_owner_kind(image.owner) == TREE_OWNER_SESSION) {
        struct session *session = session_find(x->s, image.owner);
        if (session == NULL) {
            return CONCLAVE_ECORRUPT;
        }
        owned = &session->ephemerals;
    }
    struct znode *node = tree_find(&x->s->tree, image.path);
    if (node != NULL && (node->flags & ZNODE_PLACEHOLDER) == 0) {
        return CONCLAVE_ECORRUPT;
    }
    int rc = node != NULL ? fill_placeholder(x, &image, node) : add_image(x, &image, owned, &node);
    if (rc != 0) {
        return rc;
    }
    if (!node_image_stat(&image, node)) {
        return CONCLAVE_ENOMEM;
    }
    uint64_t digest = digest_path(image.path);
    x->s->nodes_digest += digest_node(x->s, node, digest) + digest_children(node, digest);
    x->nodes++;
    return 0;
}

static int read_end(struct restore *x)
{
    int64_t sessions = wire_read_i64(&x->r);
    int64_t acls = wire_read_i64(&x->r);
    int64_t nodes = wire_read_i64(&x->r);
    int64_t others = x->version != SNAPSHOT_VERSION_STANDALONE ? wire_read_i64(&x->r) : 0;
    const struct configuration *e = &x->s->configuration;
    bool members_good =
        x->config == (e->members.count > 0) && (e->leaving || !configuration_is_leaving(e));
    bool good = !x->r.failed && members_good && wire_left(&x->r) == 0 && x->counters &&
                x->placeholders == 0 && sessions == x->sessions && acls == x->acls &&
                nodes == x->nodes && others == x->others;
    x->ended = true;
    return good ? 0 : CONCLAVE_ECORRUPT;
}

static int read_mirror(struct restore *x)
{
    struct state_mirror m = {.id = wire_read_i64(&x->r)};
    m.any_reader = wire_read_boolean(&x->r);
    m.synced = wire_read_boolean(&x->r);
    m.source = wire_read_string(&x->r);
    if (x->r.failed || m.id == 0 || x->s->mirror.id != 0 || slice_is_null(m.source) ||
        !mirror_source_valid(m.source)) {
        return CONCLAVE_ECORRUPT;
    }
    x->others++;
    return mirror_set(x->s, &m) ? 0 : CONCLAVE_ENOMEM;
}

/* The records that version 1 does not have. */
static int read_other(struct restore *x, uint8_t type)
{
    if (x->version == SNAPSHOT_VERSION_STANDALONE) {
        return CONCLAVE_ECORRUPT;
    }
    switch (type) {
    case SNAPSHOT_RESULTS:
        return x->version == SNAPSHOT_VERSION ? read_results(x) : CONCLAVE_ECORRUPT;
    case SNAPSHOT_ORIGIN:
        return read_origin(x);
    case SNAPSHOT_MEMBER:
        return read_member(x);
    case SNAPSHOT_CONFIG:
        return read_config(x);
    case SNAPSHOT_LEAVING:
        return read_leaving(x);
    case SNAPSHOT_MIRROR:
        return read_mirror(x);
    default:
        return CONCLAVE_ECORRUPT;
    }
}

static int read_record(struct restore *x)
{
    uint8_t type = *x->r.pos++;
    switch (type) {
    case SNAPSHOT_COUNTERS:
        return read_counters(x);
    case SNAPSHOT_SESSION:
        return read_session(x);
    case SNAPSHOT_ACL:
        return read_acl(x);
    case SNAPSHOT_NODE:
        return read_node(x);
    case SNAPSHOT_END:
        return read_end(x);
    default:
        return read_other(x, type);
    }
}

/* Cuts off the next block and checks it. Returns its records, or null: damaged. */
static struct slice next_block(struct slice *rest, uint64_t *chain)
{
    if (rest->len < SNAPSHOT_BLOCK_HEAD + SNAPSHOT_BLOCK_TAIL) {
        return SLICE_NULL;
    }
    uint64_t len = get_be64(rest->data);
    if (len > rest->len - SNAPSHOT_BLOCK_HEAD - SNAPSHOT_BLOCK_TAIL) {
        return SLICE_NULL;
    }
    struct slice records = slice_make(rest->data + SNAPSHOT_BLOCK_HEAD, len);
    *chain = snapshot_chain(*chain, records);
    if (get_be64(records.data + len) != *chain) {
        return SLICE_NULL;
    }
    size_t used = SNAPSHOT_BLOCK_HEAD + len + SNAPSHOT_BLOCK_TAIL;
    *rest = slice_make(rest->data + used, rest->len - used);
    return records;
}

static int read_blocks(struct restore *x, struct slice rest, uint64_t chain)
{
    while (!x->ended) {
        struct slice records = next_block(&rest, &chain);
        if (slice_is_null(records)) {
            return CONCLAVE_ECORRUPT;
        }
        x->r = wire_reader_make(records);
        while (wire_left(&x->r) > 0) {
            int rc = read_record(x);
            if (rc != 0) {
                return rc;
            }
        }
        if (x->passed != NULL) {
            x->passed(x->ctx, slice_make(x->all.data, x->all.len - rest.len));
        }
    }
    return rest.len == 0 ? 0 : CONCLAVE_ECORRUPT;
}

/* The snapshot's version; 0: not readable. */
static uint32_t read_header(struct slice snapshot)
{
    static const char magic[] = SNAPSHOT_MAGIC;
    if (snapshot.len < SNAPSHOT_HEADER_LEN || memcmp(snapshot.data, magic, sizeof magic - 1) != 0) {
        return 0;
    }
    uint32_t version = get_be32(snapshot.data + sizeof magic - 1);
    return version <= SNAPSHOT_VERSION ? version : 0;
}

int state_restore(struct slice snapshot, const struct hash_key *key, struct state **ret)
{
    return state_restore_passing(snapshot, key, NULL, NULL, ret);
}

int state_restore_passing(struct slice snapshot, const struct hash_key *key, state_passed_fn passed,
                          void *ctx, struct state **ret)
{
    uint32_t version = read_header(snapshot);
    if (version == 0) {
        return CONCLAVE_ECORRUPT;
    }
    struct state *s = state_create_empty(key);
    if (s == NULL) {
        return CONCLAVE_ENOMEM;
    }
    struct restore x = {.s = s,
                        .version = version,
                        .placeholders = 1,
                        .all = snapshot,
                        .passed = passed,
                        .ctx = ctx};
    s->tree.root->flags |= ZNODE_PLACEHOLDER;
    struct slice rest =
        slice_make(snapshot.data + SNAPSHOT_HEADER_LEN, snapshot.len - SNAPSHOT_HEADER_LEN);
    int rc = read_blocks(&x, rest, hash_bytes(snapshot.data, SNAPSHOT_HEADER_LEN));
    if (rc != 0) {
        state_destroy(s);
        return rc;
    }
    acl_sweep(&s->tree.acls);
    *ret = s;
    return 0;
}

int state_snapshot_zxid(struct slice snapshot, int64_t *ret)
{
    if (read_header(snapshot) == 0) {
        return CONCLAVE_ECORRUPT;
    }
    struct slice rest =
        slice_make(snapshot.data + SNAPSHOT_HEADER_LEN, snapshot.len - SNAPSHOT_HEADER_LEN);
    uint64_t chain = hash_bytes(snapshot.data, SNAPSHOT_HEADER_LEN);
    struct slice records = next_block(&rest, &chain);
    if (slice_is_null(records) || records.len == 0 || *records.data != SNAPSHOT_COUNTERS) {
        return CONCLAVE_ECORRUPT;
    }
    struct wire_reader r = wire_reader_make(slice_make(records.data + 1, records.len - 1));
    int64_t zxid = wire_read_i64(&r);
    if (r.failed || zxid < 0) {
        return CONCLAVE_ECORRUPT;
    }
    *ret = zxid;
    return 0;
}
