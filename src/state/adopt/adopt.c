#include "state/adopt/adopt.h"

#include "state/digest.h"
#include "state/memory_estimate.h"
#include "state/snapshot_format.h"
#include "state/state_internal.h"
#include "tree/path.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

/* A list of the snapshot's table, or a number that a node has and the table does not. The latter stands for a list that
 * nobody can have, until the transaction comes that gives the node its list. */
struct numbered_acl {
    struct map_node map; /* in adoption.acls, by number */
    int64_t number;
    uint32_t id; /* in the state's table; the adoption has a reference */
    bool missing;
};

struct adoption {
    struct state *s;
    struct map acls;
    struct effects unseen; /* of the transactions */
    bool root;             /* its record has come */
    bool nodes_ended;
    bool has_digest; /* the last transaction that changed something had one */
    struct wire_txn_digest digest;
    char error[256];
};

enum { OPEN_NUMBER = -1 };

struct adoption *adoption_create(const struct hash_key *key)
{
    struct adoption *a = calloc(1, sizeof *a);
    if (a == NULL || (a->s = state_create_empty(key)) == NULL) {
        free(a);
        return NULL;
    }
    map_init(&a->acls);
    effects_init(&a->unseen);
    return a;
}

/* Gives the references of the table back. */
static void drop_acls(struct adoption *a)
{
    struct map_node *next;
    for (struct map_node *n = map_take_all(&a->acls); n != NULL; n = next) {
        next = n->next;
        struct numbered_acl *acl = CONTAINER_OF(n, struct numbered_acl, map);
        acl_unref(&a->s->tree.acls, acl->id);
        free(acl);
    }
    map_finish(&a->acls);
}

void adoption_destroy(struct adoption *a)
{
    if (a == NULL) {
        return;
    }
    if (a->s != NULL) {
        drop_acls(a);
    }
    effects_finish(&a->unseen);
    state_destroy(a->s);
    free(a);
}

const char *adoption_error(const struct adoption *a)
{
    return a->error;
}

__attribute__((format(printf, 2, 3))) static int damaged(struct adoption *a, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(a->error, sizeof a->error, fmt, args);
    va_end(args);
    return CONCLAVE_ECORRUPT;
}

enum { PATH_SHOWN = 120 };

/* For messages: the first bytes of a path. */
static struct slice path_shown(struct slice path)
{
    return slice_make(path.data, path.len < PATH_SHOWN ? path.len : PATH_SHOWN);
}

int adoption_session(struct adoption *a, int64_t id, int32_t timeout_ms)
{
    struct state_session session = {.id = id, .timeout_ms = timeout_ms};
    if (tree_owner_kind(id) != TREE_OWNER_SESSION || timeout_ms <= 0) {
        return damaged(a, "session 0x%llx with a timeout of %d ms cannot be one",
                       (unsigned long long)id, timeout_ms);
    }
    if (session_find(a->s, id) != NULL) {
        return damaged(a, "session 0x%llx is there twice", (unsigned long long)id);
    }
    outcome_password(id, session.passwd);
    return session_put(a->s, &session) != NULL ? 0 : CONCLAVE_ENOMEM;
}

static bool acl_has_number(const struct map_node *n, const void *key)
{
    return CONTAINER_OF(n, struct numbered_acl, map)->number == *(const int64_t *)key;
}

static struct numbered_acl *acl_numbered(const struct adoption *a, int64_t number)
{
    struct map_node *n = map_find(&a->acls, hash_number((uint64_t)number), acl_has_number, &number);
    return n != NULL ? CONTAINER_OF(n, struct numbered_acl, map) : NULL;
}

static int put_numbered(struct adoption *a, int64_t number, struct wire_vector entries,
                        bool missing)
{
    struct numbered_acl *acl = malloc(sizeof *acl);
    if (acl == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *acl = (struct numbered_acl){.number = number, .missing = missing};
    int rc = acl_take(&a->s->tree.acls, entries, &acl->id);
    if (rc == 0) {
        rc = map_insert(&a->acls, &acl->map, hash_number((uint64_t)number));
        if (rc != 0) {
            acl_unref(&a->s->tree.acls, acl->id);
        }
    }
    if (rc != 0) {
        free(acl);
    }
    return rc;
}

int adoption_acl(struct adoption *a, int64_t number, struct wire_vector entries)
{
    if (entries.count <= 0 || number == OPEN_NUMBER || acl_numbered(a, number) != NULL) {
        return damaged(a, "the list of permissions number %lld is empty or there twice",
                       (long long)number);
    }
    return put_numbered(a, number, entries, false);
}

/* A list with no permissions for an identity of a scheme that does not exist. */
static int put_missing(struct adoption *a, int64_t number)
{
    char text[32];
    struct buf entry;
    buf_init(&entry, 0);
    int len = snprintf(text, sizeof text, "%lld", (long long)number);
    struct wire_acl acl = {
        .id = {.scheme = slice_str("\x01missing"), .id = slice_make(text, (size_t)len)}};
    wire_encode_acl(&entry, &acl);
    int rc = buf_ok(&entry) ? put_numbered(a, number, wire_vector_make(&entry, 1), true)
                            : CONCLAVE_ENOMEM;
    buf_finish(&entry);
    return rc;
}

static int acl_of_number(struct adoption *a, int64_t number, uint32_t *ret)
{
    if (number == OPEN_NUMBER) {
        *ret = ACL_OPEN;
        return 0;
    }
    int rc = acl_numbered(a, number) == NULL ? put_missing(a, number) : 0;
    if (rc == 0) {
        *ret = acl_numbered(a, number)->id;
    }
    return rc;
}

/* The root is in every tree from the beginning. */
static int fill_root(struct adoption *a, const struct node_image *image)
{
    struct tree *t = &a->s->tree;
    struct znode *root = t->root;
    struct znode_data *data;
    if (a->root || image->owner != 0) {
        return damaged(a, "the root is there twice, or has an owner");
    }
    if (!znode_data_make(image->data, &data)) {
        return CONCLAVE_ENOMEM;
    }
    free(tree_swap_data(t, root, data));
    acl_ref(&t->acls, image->acl);
    acl_unref(&t->acls, root->acl);
    root->acl = image->acl;
    root->czxid = image->czxid;
    root->ctime = image->ctime;
    a->root = true;
    return node_image_stat(image, root) ? 0 : CONCLAVE_ENOMEM;
}

/* A snapshot may lack a session that was opened while it was written; its transaction follows, or it is an orphan. */
static struct session *owner_of(struct adoption *a, int64_t id)
{
    struct session *session = session_find(a->s, id);
    if (session == NULL) {
        struct state_session unknown = {.id = id};
        outcome_password(id, unknown.passwd);
        session = session_put(a->s, &unknown);
    }
    return session;
}

static int add_node(struct adoption *a, const struct node_image *image)
{
    struct slice path = image->path;
    if (!path_valid(path) || path.len == 1) {
        return damaged(a, "'%.*s' is no path of a node", SLICE_FMT(path_shown(path)));
    }
    struct znode *parent = tree_find(&a->s->tree, slice_make(path.data, path_last_slash(path)));
    if (!a->root || parent == NULL || znode_is_ephemeral(parent)) {
        return damaged(a, "%.*s has no parent, or an ephemeral one", SLICE_FMT(path_shown(path)));
    }
    if (tree_find(&a->s->tree, path) != NULL) {
        return damaged(a, "%.*s is there twice", SLICE_FMT(path_shown(path)));
    }
    enum tree_owner kind = tree_owner_kind(image->owner);
    if (kind == TREE_OWNER_IS_TTL && !ttl_valid(tree_owner_ttl_ms(image->owner))) {
        return damaged(a, "%.*s has a TTL of 0", SLICE_FMT(path_shown(path)));
    }
    struct list *owned = NULL;
    if (kind == TREE_OWNER_SESSION) {
        struct session *session = owner_of(a, image->owner);
        if (session == NULL) {
            return CONCLAVE_ENOMEM;
        }
        owned = &session->ephemerals;
    }
    struct znode *node = node_image_add(a->s, parent, image, owned);
    return node != NULL && node_image_stat(image, node) ? 0 : CONCLAVE_ENOMEM;
}

int adoption_node(struct adoption *a, const struct adopted_node *node)
{
    assert(!a->nodes_ended);
    const struct wire_file_node *r = &node->record;
    struct node_image image = {
        .path = node->path,
        .data = r->data,
        .owner = r->ephemeral_owner,
        .czxid = r->czxid,
        .mzxid = r->mzxid,
        .ctime = r->ctime,
        .mtime = r->mtime,
        .version = r->version,
        .aversion = r->aversion,
        .cversion = r->cversion,
        .pzxid = r->pzxid,
    };
    int rc = acl_of_number(a, r->acl, &image.acl);
    if (rc != 0) {
        return rc;
    }
    return node->path.len == 0 ? fill_root(a, &image) : add_node(a, &image);
}

/* The nodes that every server of ours has. Apache makes those that an older version's snapshot lacks. */
static int add_own_nodes(struct adoption *a)
{
    static const char *const paths[] = {"/zookeeper", "/zookeeper/quota", "/zookeeper/config"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct node_image image = {
            .path = slice_str(paths[i]), .data = slice_make("", 0), .acl = ACL_OPEN};
        if (tree_find(&a->s->tree, image.path) == NULL) {
            int rc = add_node(a, &image);
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}

int adoption_nodes_end(struct adoption *a, int64_t zxid)
{
    assert(!a->nodes_ended);
    if (!a->root) {
        return damaged(a, "there is no root node");
    }
    if (zxid < 0 || zxid > OUTCOME_ZXID_MAX) {
        return damaged(a, "the zxid 0x%llx is negative, or leaves none for later transactions",
                       (unsigned long long)zxid);
    }
    a->s->zxid = zxid;
    a->nodes_ended = true;
    int rc = add_own_nodes(a);
    return rc == 0 && !digest_nodes(a->s, &a->s->nodes_digest) ? CONCLAVE_ENOMEM : rc;
}

int64_t adoption_zxid(const struct adoption *a)
{
    return a->s->zxid;
}

size_t adoption_memory(const struct adoption *a)
{
    return state_memory(a->s);
}

int adoption_apply(struct adoption *a, const struct outcome *o)
{
    assert(a->nodes_ended);
    if (o->header.zxid <= a->s->zxid) {
        return damaged(a, "transaction 0x%llx comes after 0x%llx",
                       (unsigned long long)o->header.zxid, (unsigned long long)a->s->zxid);
    }
    if (o->header.zxid > OUTCOME_ZXID_MAX) {
        return damaged(a, "the zxid 0x%llx leaves none for later transactions",
                       (unsigned long long)o->header.zxid);
    }
    if (outcome_apply(a->s, o, &a->unseen) != 0) {
        return damaged(a,
                       "transaction 0x%llx creates a node below an ephemeral one, or deletes what "
                       "cannot be deleted",
                       (unsigned long long)o->header.zxid);
    }
    if (o->has_digest || o->header.type != WIRE_ERROR) {
        a->has_digest = o->has_digest;
        a->digest = o->digest;
    }
    return 0;
}

/* The sessions that nobody opened. The list is the caller's; NULL: none, or out of memory. */
static struct session **unopened(const struct state *s, size_t *ret_count)
{
    size_t count = 0;
    size_t cap = 0;
    struct session **list = NULL;
    for (struct map_node *n = map_next(&s->sessions, NULL); n != NULL;
         n = map_next(&s->sessions, n)) {
        struct session *session = CONTAINER_OF(n, struct session, map);
        if (session->timeout_ms == 0) {
            state_need(array_room(&list, count, &cap, sizeof(struct session *)));
            list[count++] = session;
        }
    }
    *ret_count = count;
    return list;
}

/* Ends them with their nodes, as Apache does when it starts. */
static size_t end_orphans(struct adoption *a)
{
    struct state *s = a->s;
    size_t before = s->tree.ephemerals;
    struct write w = {.s = s, .zxid = s->zxid, .time_ms = s->time_ms, .effects = &a->unseen};
    size_t count;
    struct session **list = unopened(s, &count);
    for (size_t i = 0; i < count; i++) {
        effects_begin(&a->unseen, s->zxid);
        session_end(&w, list[i]);
        write_commit(s);
    }
    free(list);
    return before - s->tree.ephemerals;
}

/* A node that still has a number without a list. */
static int check_acls(struct adoption *a)
{
    for (const struct map_node *n = map_next(&a->acls, NULL); n != NULL;
         n = map_next(&a->acls, n)) {
        const struct numbered_acl *acl = CONTAINER_OF(n, struct numbered_acl, map);
        if (acl->missing && acl_get(&a->s->tree.acls, acl->id)->refs > 1) {
            return damaged(
                a, "a node has the list of permissions number %lld, and there is no such list",
                (long long)acl->number);
        }
    }
    return 0;
}

/* Apache's digest of the tree, if there is one for exactly this zxid: a snapshot's own covers the tree only when no
 * transaction follows it, as a part of the next one may be in the snapshot. */
static int compare_digest(struct adoption *a, const struct wire_file_digest *snapshot,
                          uint32_t (*crc)(uint32_t before, struct slice bytes), bool *ret_compared)
{
    *ret_compared = false;
    uint64_t expected;
    if (a->has_digest && a->digest.version == OUTCOME_DIGEST_VERSION) {
        expected = (uint64_t)a->digest.digest;
    } else if (snapshot != NULL && snapshot->version == OUTCOME_DIGEST_VERSION &&
               snapshot->zxid == a->s->zxid && a->digest.version == 0) {
        expected = (uint64_t)snapshot->digest;
    } else {
        return 0;
    }
    uint64_t have = outcome_tree_digest(a->s, crc);
    *ret_compared = have == expected;
    return *ret_compared ? 0
                         : damaged(a, "the tree's digest at 0x%llx is %llx, and Apache noted %llx",
                                   (unsigned long long)a->s->zxid, (unsigned long long)have,
                                   (unsigned long long)expected);
}

static void recount_quotas(struct state *s)
{
    struct znode *quota = tree_find(&s->tree, slice_str("/zookeeper/quota"));
    size_t depth_end = quota != NULL ? znode_below(quota) : 0;
    for (struct znode *node = quota; node != NULL && depth_end > 0; depth_end--) {
        node = tree_next(node);
        quota_recount(s, node);
        write_commit(s);
    }
}

int adoption_end(struct adoption *a, const struct wire_file_digest *digest,
                 uint32_t (*crc)(uint32_t before, struct slice bytes), struct adoption_report *ret,
                 struct state **ret_state)
{
    assert(a->nodes_ended);
    int rc = check_acls(a);
    if (rc == 0) {
        rc = compare_digest(a, digest, crc, &ret->digest_compared);
    }
    if (rc != 0) {
        return rc;
    }
    ret->orphans = end_orphans(a);
    recount_quotas(a->s);
    drop_acls(a);
    acl_sweep(&a->s->tree.acls);
    assert(state_digest(a->s) == state_digest_now(a->s));
    *ret_state = a->s;
    a->s = NULL;
    return 0;
}
