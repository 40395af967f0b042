/*
 * The machine against the model: the same random commands, every reply byte, error and event
 * compared, every read of every path too; and snapshots taken meanwhile, restored, and run on to
 * the same state. A twin of the machine, whose tables have another key, says and writes the same
 * bytes in all of it.
 */
#include "model/memory.h"
#include "support/requests.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { COMMANDS = 13000, SESSIONS = 6 };

static const char *const names[] = {"a", "b", "c", "e\xcc\x81", "\xe4\xb8\xad"};
/* Of a subtree that has a quota, now and then, and of the nodes that make one. */
static const char *const quota_paths[] = {"/zookeeper/quota/a",
                                          "/zookeeper/quota/a/zookeeper_limits",
                                          "/zookeeper/quota/a/b",
                                          "/zookeeper/quota/a/b/zookeeper_limits",
                                          "/zookeeper/quota/a/zookeeper_stats",
                                          "/zookeeper/quota/a/b/zookeeper_stats",
                                          "/zookeeper/quota/zookeeper_stats",
                                          "/zookeeper/quota/zookeeper_limits"};
/* Of a subtree that is bound to a lock, and of the lock. */
static const char *const fence_paths[] = {"/zookeeper/fence",
                                          "/zookeeper/fence/b",
                                          "/zookeeper/fence/b/conclave_fence",
                                          "/zookeeper/fence/b/a/conclave_fence",
                                          "/zookeeper/fence/b/a",
                                          "/zookeeper/fence/b/conclave_fence/a",
                                          "/zookeeper/fence/conclave_fence",
                                          "/b",
                                          "/b/a",
                                          "/c",
                                          "/b/a.leader",
                                          "/zookeeper/fence/c.leader/conclave_fence",
                                          "/c/n_",
                                          "/c/n_",
                                          "/c/lock-",
                                          "/c/__READ__"};
static const char *const fence_texts[] = {"lock=/c\n",
                                          "lock=/c\nlock_delay_ms=40\n",
                                          "lock=/c\nlock_delay_ms=300\n",
                                          "lock=/c/a\nlock_delay_ms=3\n",
                                          "lock=/b/a\n",
                                          "lock=/c\nlock_delay_ms=5\nuntil_ms=9\n"};
static const char *const bad_paths[] = {"",
                                        "/",
                                        "x",
                                        "//a",
                                        "/a/",
                                        "/a//b",
                                        "/a/./b",
                                        "/..",
                                        "/a\x01",
                                        "/\xff",
                                        "/a/",
                                        "/zookeeper/config",
                                        "/zookeeper/quota",
                                        "/zookeeper",
                                        "/\xf0\x9f\x98\x80",
                                        "/\xc2\x85"};

static const struct hash_key twin_key = {{0xfedcba9876543210u, 3}};

struct world {
    struct prng prng;
    struct maker maker;
    struct state *s;
    struct state *twin;
    struct model m;
    struct model_memory memory;
    struct effects e;
    struct effects twin_e;
    struct model_effects me;
    char path[128];
    struct buf snapshot;
    struct buf twin_snapshot;
    bool snapping;
    uint64_t digest_at_begin;
    size_t nodes_at_begin;
    struct buf log; /* batches of the commands since the snapshot began, as wire buffers */
    int restores;
    int errors;
    int multis_failed;
    int quotas_met;
    int quotas_refused;
    int fenced;
    int delayed;
    int bound; /* commands while something was bound */
    int collected;
    int moved;
    int attached;
    int repeated;
    int forgotten;
    int gaps;
    int deferred;
    int reached;
    int given_up;
};

static unsigned below(struct world *w, unsigned n)
{
    return (unsigned)(prng_next(&w->prng) % n);
}

static const char *random_path(struct world *w)
{
    if (below(w, 25) == 0) {
        return bad_paths[below(w, sizeof bad_paths / sizeof bad_paths[0])];
    }
    if (below(w, 12) == 0) {
        return quota_paths[below(w, sizeof quota_paths / sizeof quota_paths[0])];
    }
    if (below(w, 8) == 0) {
        return fence_paths[below(w, sizeof fence_paths / sizeof fence_paths[0])];
    }
    if (below(w, 12) == 0) { /* somebody's ephemeral, so that contenders go and are checked */
        for (int i = 0; i < 20; i++) {
            const struct model_node *node = &w->m.nodes[below(w, (unsigned)w->m.count)];
            if (node->owner > 0) {
                (void)snprintf(w->path, sizeof w->path, "%.*s", (int)sizeof w->path - 1,
                               node->path);
                return w->path;
            }
        }
    }
    size_t n = 0;
    for (unsigned depth = 1 + below(w, 3); depth > 0; depth--) {
        const char *name = names[below(w, sizeof names / sizeof names[0])];
        n += (size_t)snprintf(w->path + n, sizeof w->path - n, "/%s", name);
    }
    return w->path;
}

static const char *random_data(struct world *w)
{
    static const char *const data[] = {NULL,
                                       "",
                                       "x",
                                       "hello",
                                       "a longer piece of data",
                                       "count=4,bytes=-1=;byteHardLimit=-1;countHardLimit=6",
                                       "count=-1,bytes=20=;byteHardLimit=60;countHardLimit=-1"};
    if (below(w, 6) == 0) {
        return fence_texts[below(w, sizeof fence_texts / sizeof fence_texts[0])];
    }
    return data[below(w, below(w, 4) == 0 ? 7 : 5)];
}

static int32_t random_version(struct world *w)
{
    return below(w, 3) == 0 ? (int32_t)below(w, 3) : -1;
}

static void random_acl(struct world *w)
{
    maker_acl_reset(&w->maker);
    switch (below(w, 30)) {
    case 0:
        break;
    case 1:
        maker_acl_add(&w->maker, 31, "auth", "");
        break;
    case 2:
        maker_acl_add(&w->maker, 31, "nope", "x");
        break;
    case 3:
        maker_acl_add(&w->maker, 31, "world", "somebody");
        break;
    case 4:
        maker_acl_add(&w->maker, 31, "digest", "u:1");
        break;
    case 5:
        maker_acl_add(&w->maker, 1, "world", "anyone"); /* fall through */
    case 6:
        maker_acl_add(&w->maker, 15, "digest", "v:2");
        break;
    case 7:
        maker_acl_add(&w->maker, 31, "world", "anyone");
        maker_acl_add(&w->maker, 31, "world", "anyone");
        maker_acl_add(&w->maker, 2, "auth", "x");
        break;
    default:
        maker_acl_add(&w->maker, 31, "world", "anyone");
        break;
    }
}

static void random_ids(struct world *w)
{
    maker_ids_reset(&w->maker);
    if (below(w, 2) == 0) {
        maker_ids_add(&w->maker, "ip", "127.0.0.1");
    }
    if (below(w, 2) == 0) {
        maker_ids_add(&w->maker, "digest", below(w, 2) == 0 ? "u:1" : "v:2");
    }
    if (below(w, 4) == 0) {
        maker_ids_add(&w->maker, "super", "");
    }
}

static int32_t random_mode(struct world *w)
{
    return below(w, 30) == 0 ? (int32_t)below(w, 9) - 1 : (int32_t)below(w, 5);
}

static int32_t random_create_type(struct world *w)
{
    static const int32_t types[] = {WIRE_CREATE, WIRE_CREATE2, WIRE_CREATE_CONTAINER};
    return types[below(w, 3)];
}

static int64_t random_ttl(struct world *w)
{
    static const int64_t ttls[] = {1, 1000, 0xffffffffffLL, 0, -1, 0x10000000000LL};
    return ttls[below(w, below(w, 5) == 0 ? 6 : 3)];
}

/* A proposal of the collector, most often still valid. */
static struct slice random_spent(struct world *w)
{
    const char *path = random_path(w);
    for (int i = 0; i < 20; i++) {
        const struct model_node *n = &w->m.nodes[below(w, (unsigned)w->m.count)];
        if (n->owner < 0) {
            path = n->path;
        }
    }
    const struct model_node *node = model_find(&w->m, path);
    struct spent spent = {slice_str(path), node != NULL ? node->czxid : 1,
                          node != NULL ? node->mzxid : 1};
    spent.czxid += below(w, 10) == 0;
    spent.mzxid -= below(w, 10) == 0;
    buf_reset(&w->maker.body);
    spent_encode(&w->maker.body, &spent);
    return buf_slice(&w->maker.body);
}

static struct slice random_multi(struct world *w)
{
    make_multi_begin(&w->maker);
    for (unsigned n = below(w, 6); n > 0; n--) {
        switch (below(w, 9)) {
        case 8:
            random_acl(w);
            make_multi_create_ttl(&w->maker, random_path(w), (int32_t)below(w, 7), random_ttl(w));
            break;
        case 0:
            make_multi_check(&w->maker, random_path(w), random_version(w));
            break;
        case 1:
        case 2:
            make_multi_delete(&w->maker, random_path(w), -1);
            break;
        case 3:
        case 4:
            make_multi_set_data(&w->maker, random_path(w), random_data(w), -1);
            break;
        default:
            random_acl(w);
            make_multi_create(&w->maker, random_create_type(w), random_path(w), random_data(w),
                              (int32_t)below(w, 5));
            break;
        }
    }
    return make_multi_end(&w->maker);
}

/* Makes the quota of /a, or makes it new: a step each time. */
static int32_t quota_step(struct world *w, unsigned step, struct slice *body)
{
    static const char *const paths[] = {"/a", "/zookeeper/quota/a",
                                        "/zookeeper/quota/a/zookeeper_limits",
                                        "/zookeeper/quota/a/zookeeper_stats"};
    const char *data =
        below(w, 2) == 0 ? "count=2,bytes=5=;byteHardLimit=20;countHardLimit=4" : "count=2,bytes=5";
    maker_ids_add(&w->maker, "super", "");
    maker_acl_reset(&w->maker);
    maker_acl_add(&w->maker, 31, "world", "anyone");
    if (step == 4) {
        *body = make_set_data(&w->maker, paths[2], data, -1);
        return WIRE_SET_DATA;
    }
    *body = make_create(&w->maker, paths[step], "", 0);
    return WIRE_CREATE;
}

/* The oldest ephemeral node below /c, or "/c". */
static const char *some_contender(const struct world *w)
{
    for (size_t i = 0; i < w->m.count; i++) {
        if (w->m.nodes[i].owner > 0 && strncmp(w->m.nodes[i].path, "/c/", 3) == 0) {
            return w->m.nodes[i].path;
        }
    }
    return "/c";
}

/* Opens fencing and binds /b, or binds it anew, and has somebody contend: a step each time. */
static int32_t fence_step(struct world *w, unsigned step, int64_t *session, struct slice *body)
{
    static const char *const paths[] = {"", "/c", "/zookeeper/fence/b", "/b",
                                        "/zookeeper/fence/b/conclave_fence"};
    maker_ids_add(&w->maker, "super", "");
    maker_acl_reset(&w->maker);
    maker_acl_add(&w->maker, 31, "world", "anyone");
    switch (step) {
    case 0:
        *session = 0;
        *body = slice_make("", 0);
        return COMMAND_FENCE_OPEN;
    case 4:
        if (below(w, 4) == 0) {
            *body = make_set_data(&w->maker, paths[4], fence_texts[below(w, 3)], -1);
            return WIRE_SET_DATA;
        }
        *body = make_create(&w->maker, paths[4], fence_texts[below(w, 3)], 0);
        return WIRE_CREATE;
    case 5:
        *body = make_create(&w->maker, "/c/n_", "", WIRE_MODE_EPHEMERAL_SEQUENTIAL);
        return WIRE_CREATE;
    case 6:
        *body = make_delete(&w->maker, some_contender(w), -1);
        return WIRE_DELETE;
    case 7:
        *body = make_set_data(&w->maker, "/b", "", -1);
        return WIRE_SET_DATA;
    default:
        *body = make_create(&w->maker, paths[step], "", 0);
        return WIRE_CREATE;
    }
}

static struct model_member random_member(struct world *w, unsigned id)
{
    return (struct model_member){.role = below(w, 3) == 0 ? MODEL_OBSERVER : MODEL_VOTER,
                                 .host = (int)(below(w, 8) == 0 ? 1 + below(w, MODEL_IDS) : id)};
}

static size_t put_joining(struct world *w, unsigned n, char *text, size_t size)
{
    size_t len = 0;
    text[0] = '\0';
    for (; n > 0; n--) {
        unsigned id = 1 + below(w, MODEL_IDS);
        char address[80];
        model_address(random_member(w, id), address, sizeof address);
        len += (size_t)snprintf(text + len, size - len, "%sserver.%u=%s", len > 0 ? "," : "", id,
                                below(w, 30) == 0 ? "x" : address);
    }
    return len;
}

static int32_t random_reconfig(struct world *w, struct slice *body)
{
    char joining[512];
    char leaving[32] = "";
    struct wire_reconfig_request r = {.cur_config_id = -1};
    if (w->m.config.pending != 0 && below(w, 2) == 0) {
        buf_reset(&w->maker.body);
        reconfig_end_encode(&w->maker.body, w->m.config.pending + (below(w, 3) == 0),
                            below(w, 5) == 0 ? 0 : CONCLAVE_NEW_CONFIG_NO_QUORUM);
        *body = buf_slice(&w->maker.body);
        return COMMAND_RECONFIG_END;
    }
    if (below(w, 4) == 0) {
        put_joining(w, 1 + below(w, 4), joining, sizeof joining);
        r.new_members = slice_str(joining);
    } else {
        put_joining(w, below(w, 3), joining, sizeof joining);
        r.joining_servers = slice_str(joining);
        if (below(w, 2) == 0) {
            snprintf(leaving, sizeof leaving, "%u,%u", 1 + below(w, MODEL_IDS),
                     1 + below(w, MODEL_IDS + 2));
        }
        r.leaving_servers = slice_str(leaving);
    }
    if (below(w, 4) == 0) {
        r.cur_config_id = w->m.config.version + (below(w, 3) == 0);
    }
    maker_ids_add(&w->maker, "super", "");
    buf_reset(&w->maker.body);
    wire_encode_reconfig_request(&w->maker.body, &r);
    *body = buf_slice(&w->maker.body);
    return WIRE_RECONFIG;
}

static uint32_t random_options(struct world *w, int32_t type)
{
    if (type == WIRE_RECONFIG && below(w, 10) > 0) {
        return COMMAND_RECONFIG | (below(w, 2) == 0 ? COMMAND_ENSEMBLE : 0) |
               (below(w, 4) == 0 ? COMMAND_ALONE : 0);
    }
    return below(w, 8) == 0 ? below(w, 4) : COMMAND_TTL | COMMAND_QUOTA | COMMAND_FENCING;
}

/* The next command's type, body and session. */
static int32_t random_command(struct world *w, int64_t *session, struct slice *body)
{
    *session = 1 + below(w, SESSIONS);
    random_ids(w);
    random_acl(w);
    unsigned dice = below(w, 100);
    if (state_zxid(w->s) % 60 < 5) {
        return quota_step(w, (unsigned)(state_zxid(w->s) % 60), body);
    }
    if (state_zxid(w->s) % 60 >= 30 && state_zxid(w->s) % 60 < 38) {
        return fence_step(w, (unsigned)(state_zxid(w->s) % 60) - 30, session, body);
    }
    if (dice < 3) {
        *body = make_session(&w->maker, *session, 4000 + (int32_t)*session);
        return WIRE_CREATE_SESSION;
    }
    if (dice == 3) {
        int64_t passwd_of = below(w, 4) == 0 ? *session % SESSIONS + 1 : *session;
        *body = make_attach(&w->maker, *session, 4000 + (int32_t)below(w, 9), passwd_of);
        return COMMAND_ATTACH_SESSION;
    }
    if (dice < 5) {
        *body = slice_make("", 0);
        return WIRE_CLOSE_SESSION;
    }
    if (dice < 25) {
        *body = random_multi(w);
        return WIRE_MULTI;
    }
    if (dice < 29) {
        *body = random_spent(w);
        return WIRE_DELETE_CONTAINER;
    }
    if (dice < 34) {
        int32_t mode = below(w, 8) == 0 ? (int32_t)below(w, 8) : 5 + (int32_t)below(w, 2);
        *body = make_create_ttl(&w->maker, random_path(w), mode, random_ttl(w));
        return WIRE_CREATE_TTL;
    }
    if (dice < 36) {
        return random_reconfig(w, body);
    }
    if (dice < 65) {
        int32_t type = random_create_type(w);
        *body = make_create(&w->maker, random_path(w), random_data(w), random_mode(w));
        return type;
    }
    if (dice < 80) {
        *body = make_delete(&w->maker, random_path(w), random_version(w));
        return WIRE_DELETE;
    }
    if (dice < 92) {
        *body = make_set_data(&w->maker, random_path(w), random_data(w), random_version(w));
        return WIRE_SET_DATA;
    }
    if (dice < 99) {
        *body = make_set_acl(&w->maker, random_path(w), random_version(w));
        return WIRE_SET_ACL;
    }
    *body = slice_make("zz", below(w, 3));
    return WIRE_DELETE;
}

static void compare_effects(struct world *w)
{
    assert_int_equal(w->e.err, w->me.err);
    assert_int_equal(w->e.zxid, w->me.zxid);
    assert_int_equal(state_zxid(w->s), w->m.zxid);
    assert_int_equal(w->e.reply.len, w->me.reply.len);
    assert_true(slice_equal(buf_slice(&w->e.reply), buf_slice(&w->me.reply)));
    struct buf lines;
    buf_init(&lines, 0);
    for (size_t i = 0; i < w->e.events_count; i++) {
        const struct state_event *event = &w->e.events[i];
        struct wire_vector acl = event->acl;
        struct wire_acl entry;
        buf_printf(&lines, "%d %.*s%s", event->type, SLICE_FMT(event->path),
                   acl.count == 0 ? " open" : "");
        while (wire_next_acl(&acl, &entry)) {
            buf_printf(&lines, " %d:%.*s:%.*s", entry.perms, SLICE_FMT(entry.id.scheme),
                       SLICE_FMT(entry.id.id));
        }
        buf_append_str(&lines, "\n");
    }
    assert_int_equal(w->e.quota.exceeded, w->me.quota_exceeded);
    assert_int_equal(w->e.fenced.refused, w->me.fenced);
    assert_int_equal(w->e.deferred, w->me.deferred);
    assert_int_equal(w->e.resumed.is, w->me.resumed.is);
    if (w->e.resumed.is) {
        assert_int_equal(w->e.resumed.origin, w->me.resumed.origin);
        assert_int_equal(w->e.resumed.session_id, w->me.resumed.session_id);
        assert_int_equal(w->e.resumed.cxid, w->me.resumed.cxid);
        assert_int_equal(w->e.resumed.err, w->me.resumed.err);
    }
    assert_true(slice_equal(buf_slice(&lines), buf_slice(&w->me.events)));
    buf_finish(&lines);
}

static void compare_twins(const struct world *w)
{
    const struct effects *a = &w->e;
    const struct effects *b = &w->twin_e;
    assert_int_equal(a->err, b->err);
    assert_true(slice_equal(buf_slice(&a->reply), buf_slice(&b->reply)));
    assert_true(slice_equal(buf_slice(&a->paths), buf_slice(&b->paths)));
    assert_int_equal(a->events_count, b->events_count);
    for (size_t i = 0; i < a->events_count; i++) {
        assert_int_equal(a->events[i].type, b->events[i].type);
        assert_true(slice_equal(a->events[i].path, b->events[i].path));
    }
}

/* The machine's answer, which is also the twin's. */
static int query_twins(struct world *w, int32_t type, struct slice body, struct buf *out,
                       struct state_watch *watch)
{
    struct buf other;
    struct state_watch twin_watch;
    buf_init(&other, 0);
    int rc = state_query(w->s, type, maker_ids(&w->maker), body, out, watch);
    assert_int_equal(state_query(w->twin, type, maker_ids(&w->maker), body, &other, &twin_watch),
                     rc);
    assert_true(slice_equal(buf_slice(out), buf_slice(&other)));
    assert_int_equal(watch->kind, twin_watch.kind);
    buf_finish(&other);
    return rc;
}

static int compare_slices(const void *a, const void *b)
{
    return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

/* A reply of getChildren or getChildren2 with its names in order. */
static void sort_children(struct buf *reply)
{
    struct wire_reader r = wire_reader_make(buf_slice(reply));
    struct slice list[512];
    struct buf sorted;
    int32_t count = wire_read_i32(&r);
    assert_in_range(count, 0, 512);
    for (int32_t i = 0; i < count; i++) {
        list[i] = wire_read_string(&r);
    }
    qsort(list, (size_t)count, sizeof list[0], compare_slices);
    buf_init(&sorted, 0);
    wire_write_i32(&sorted, count);
    for (int32_t i = 0; i < count; i++) {
        wire_write_string(&sorted, list[i]);
    }
    buf_append_slice(&sorted, wire_rest(&r));
    buf_finish(reply);
    *reply = sorted;
}

static void compare_read(struct world *w, const char *path)
{
    static const int32_t types[] = {WIRE_EXISTS,       WIRE_GET_DATA,
                                    WIRE_GET_CHILDREN, WIRE_GET_CHILDREN2,
                                    WIRE_GET_ACL,      WIRE_GET_ALL_CHILDREN_NUMBER};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct buf have;
        struct buf want;
        struct state_watch watch;
        buf_init(&have, 0);
        buf_init(&want, 0);
        random_ids(w);
        struct slice body = make_read(&w->maker, path, true);
        int rc = model_query(&w->m, types[i], maker_ids(&w->maker), body, &want);
        assert_int_equal(query_twins(w, types[i], body, &have, &watch), rc);
        if (rc == 0 && (types[i] == WIRE_GET_CHILDREN || types[i] == WIRE_GET_CHILDREN2)) {
            sort_children(&have);
            sort_children(&want);
        }
        assert_int_equal(have.len, want.len);
        assert_true(slice_equal(buf_slice(&have), buf_slice(&want)));
        bool left = types[i] != WIRE_GET_ACL && types[i] != WIRE_GET_ALL_CHILDREN_NUMBER &&
                    (rc == 0 || (rc == CONCLAVE_NO_NODE && types[i] == WIRE_EXISTS));
        assert_int_equal(watch.kind != STATE_WATCH_NONE, left);
        buf_finish(&have);
        buf_finish(&want);
    }
}

/* getData only: children come in an order of their own. */
static void compare_multi_read(struct world *w)
{
    struct buf have;
    struct buf want;
    struct state_watch watch;
    buf_init(&have, 0);
    buf_init(&want, 0);
    random_ids(w);
    make_multi_begin(&w->maker);
    for (unsigned n = below(w, 5); n > 0; n--) {
        wire_encode_multi_header(&w->maker.body,
                                 &(struct wire_multi_header){WIRE_GET_DATA, false, -1});
        wire_encode_get_data_request(
            &w->maker.body, &(struct wire_get_data_request){slice_str(random_path(w)), true});
    }
    struct slice body = make_multi_end(&w->maker);
    assert_int_equal(model_query(&w->m, WIRE_MULTI_READ, maker_ids(&w->maker), body, &want), 0);
    assert_int_equal(query_twins(w, WIRE_MULTI_READ, body, &have, &watch), 0);
    assert_true(slice_equal(buf_slice(&have), buf_slice(&want)));
    assert_int_equal(watch.kind, STATE_WATCH_NONE);
    buf_finish(&have);
    buf_finish(&want);
}

static void compare_ephemerals(struct world *w, int64_t session)
{
    static const char *const prefixes[] = {"/", "/a", "/a/", "/b/c"};
    struct buf have;
    struct buf want;
    buf_init(&have, 0);
    buf_init(&want, 0);
    const char *prefix = prefixes[below(w, 4)];
    buf_reset(&w->maker.body);
    wire_write_string(&w->maker.body, slice_str(prefix));
    assert_int_equal(state_ephemerals(w->s, session, buf_slice(&w->maker.body), &have), 0);
    assert_int_equal(state_ephemerals(w->twin, session, buf_slice(&w->maker.body), &want), 0);
    assert_true(slice_equal(buf_slice(&have), buf_slice(&want)));
    buf_reset(&want);
    model_ephemerals_of(&w->m, session, prefix, &want);
    sort_children(&have);
    sort_children(&want);
    assert_true(slice_equal(buf_slice(&have), buf_slice(&want)));
    buf_finish(&have);
    buf_finish(&want);
}

static void compare_sessions(struct world *w)
{
    for (size_t i = 0; i < w->m.session_count; i++) {
        const struct model_session *want = &w->m.sessions[i];
        struct state_session have;
        assert_true(state_session_find(w->s, want->id, &have));
        assert_int_equal(have.timeout_ms, want->timeout_ms);
        assert_int_equal(have.owner, want->owner);
    }
}

static void compare_all(struct world *w)
{
    compare_sessions(w);
    for (int64_t session = 1; session <= SESSIONS; session++) {
        compare_ephemerals(w, session);
        compare_multi_read(w);
    }
    assert_true(state_digest(w->s) == state_digest(w->twin));
    struct state_stats stats;
    state_stats(w->s, &stats);
    assert_int_equal(stats.nodes, model_nodes(&w->m));
    assert_int_equal(stats.ephemerals, model_ephemerals(&w->m));
    assert_int_equal(stats.sessions, w->m.session_count);
    assert_int_equal(stats.collectable, model_collectable(&w->m));
    assert_int_equal(stats.results, model_memory_count(&w->memory));
    for (size_t i = 0; i < w->m.count; i++) {
        compare_read(w, w->m.nodes[i].path);
    }
    for (size_t i = 0; i < sizeof bad_paths / sizeof bad_paths[0]; i++) {
        compare_read(w, bad_paths[i]);
    }
}

/* Entries of the log other than commands: its configuration changes. */
static void configure(struct state *s, const struct model_member *members, struct effects *e)
{
    static const enum state_role roles[] = {[MODEL_VOTER] = STATE_VOTER,
                                            [MODEL_OBSERVER] = STATE_OBSERVER,
                                            [MODEL_SPARE] = STATE_SPARE};
    struct state_member list[MODEL_IDS];
    char addresses[MODEL_IDS][80];
    size_t n = 0;
    for (int id = 1; id <= MODEL_IDS; id++) {
        if (members[id].role != MODEL_ABSENT) {
            model_address(members[id], addresses[n], sizeof addresses[n]);
            list[n] = (struct state_member){id, roles[members[id].role], addresses[n]};
            n++;
        }
    }
    state_configure(s, list, n, e);
}

/* Runs the commands since begin on the restored state, which then replaces *s. */
static void finish_snapshot(struct world *w, struct state **s, const struct hash_key *key)
{
    struct state *restored;
    struct effects e;
    struct state_stats stats;
    effects_init(&e);
    assert_int_equal(state_restore(buf_slice(&w->snapshot), key, &restored), 0);
    assert_true(state_digest(restored) == w->digest_at_begin);
    assert_true(state_digest_now(restored) == w->digest_at_begin);
    state_stats(restored, &stats);
    assert_int_equal(stats.nodes, w->nodes_at_begin);

    struct wire_reader log = wire_reader_make(buf_slice(&w->log));
    while (wire_left(&log) > 0) {
        struct batch_reader batch;
        struct command command;
        bool is_command = wire_read_boolean(&log);
        struct slice entry = wire_read_buffer(&log);
        if (!is_command) {
            struct model_member members[MODEL_IDS + 1];
            memcpy(members, entry.data, sizeof members);
            configure(restored, members, &e);
            continue;
        }
        assert_int_equal(batch_open(entry, &batch), 0);
        assert_int_equal(batch_next(&batch, &command), 1);
        state_apply(restored, &batch.header, &command, &e);
    }
    assert_true(state_digest_now(restored) == state_digest(*s));
    struct state_stats live;
    state_stats(restored, &stats);
    state_stats(*s, &live);
    assert_memory_equal(&stats, &live, sizeof live);
    state_destroy(*s);
    *s = restored;
    effects_finish(&e);
}

static void step_snapshot(struct world *w)
{
    if (!w->snapping && below(w, 40) == 0) {
        struct state_stats stats;
        state_stats(w->s, &stats);
        w->digest_at_begin = state_digest(w->s);
        w->nodes_at_begin = stats.nodes;
        assert_int_equal(state_snapshot_begin(w->s), 0);
        assert_int_equal(state_snapshot_begin(w->s), CONCLAVE_EBUSY);
        assert_int_equal(state_snapshot_begin(w->twin), 0);
        buf_reset(&w->snapshot);
        buf_reset(&w->twin_snapshot);
        buf_reset(&w->log);
        w->snapping = true;
    } else if (w->snapping && below(w, 300) == 0) {
        state_snapshot_abort(w->s);
        state_snapshot_abort(w->twin);
        w->snapping = false;
    } else if (w->snapping && below(w, 4) == 0) {
        size_t max_bytes = 1 + below(w, 900);
        int rc = state_snapshot_step(w->s, max_bytes, &w->snapshot);
        assert_in_range(rc, 0, 1);
        assert_int_equal(state_snapshot_step(w->twin, max_bytes, &w->twin_snapshot), rc);
        assert_true(slice_equal(buf_slice(&w->snapshot), buf_slice(&w->twin_snapshot)));
        if (rc == 0) {
            finish_snapshot(w, &w->s, &hash_key_fixed);
            finish_snapshot(w, &w->twin, &twin_key);
            w->snapping = false;
            w->restores++;
        }
    }
}

static bool is_of_session(int32_t type)
{
    return type == WIRE_CREATE_SESSION || type == WIRE_CLOSE_SESSION ||
           type == COMMAND_ATTACH_SESSION;
}

/* Most sessions want to be remembered, with limits that are met. */
static struct slice random_wish(struct world *w, struct slice body)
{
    if (below(w, 4) == 0) {
        return body;
    }
    wire_write_i32(&w->maker.body, 1 + (int32_t)below(w, 12));
    wire_write_i32(&w->maker.body, 1 + (int32_t)below(w, 600));
    return buf_slice(&w->maker.body);
}

/* A write's number: most often the next, now and then behind a gap, or one that was there. */
static void random_number(struct world *w, struct command *c)
{
    bool remembers = w->memory.of[c->session_id].remembers;
    bool reconfigures = c->type == WIRE_RECONFIG || c->type == COMMAND_RECONFIG_END;
    if (is_of_session(c->type) || c->type == WIRE_DELETE_CONTAINER || reconfigures ||
        (!remembers && below(w, 40) > 0)) {
        return;
    }
    int32_t last = w->memory.of[c->session_id].last;
    c->options |= COMMAND_NUMBERED;
    c->number = below(w, 5) == 0 ? last - (int32_t)below(w, 8)
                                 : last + 1 + (below(w, 6) == 0 ? (int32_t)below(w, 3) : 0);
    c->unanswered = c->number - (int32_t)below(w, 8);
}

/* Most often the server that the session was last at. */
static int64_t random_origin(struct world *w, int64_t session)
{
    struct state_session found;
    bool known = state_session_find(w->s, session, &found);
    return below(w, 16) == 0 || !known ? below(w, 4) : found.owner;
}

static void log_command(struct world *w, const struct batch_header *header,
                        const struct command *command)
{
    struct buf batch;
    buf_init(&batch, 0);
    batch_begin(&batch, header);
    batch_add(&batch, 0, command);
    wire_write_boolean(&w->log, true);
    wire_write_buffer(&w->log, buf_slice(&batch));
    buf_finish(&batch);
}

/* One member comes, goes or becomes another; most often on the way to where a reconfig leads. */
static void one_configuration(struct world *w)
{
    struct model_member next[MODEL_IDS + 1];
    const struct model_config *c = &w->m.config;
    unsigned id = 1 + below(w, MODEL_IDS);
    memcpy(next, c->now, sizeof next);
    if (c->pending != 0 && below(w, 20) > 0) {
        next[id] = c->target[id];
    } else {
        next[id] = random_member(w, id);
        next[id].role = below(w, 3) == 0   ? MODEL_ABSENT
                        : below(w, 4) == 0 ? MODEL_SPARE
                                           : next[id].role;
    }
    bool any = false;
    for (id = 1; id <= MODEL_IDS; id++) {
        any = any || next[id].role != MODEL_ABSENT;
    }
    if (!any) {
        return;
    }
    if (w->snapping) {
        wire_write_boolean(&w->log, false);
        wire_write_buffer(&w->log, slice_make(next, sizeof next));
    }
    model_configure(&w->m, next, &w->me);
    configure(w->s, next, &w->e);
    configure(w->twin, next, &w->twin_e);
    compare_effects(w);
    compare_twins(w);
    assert_true(state_digest_now(w->s) == state_digest(w->s));
    w->reached += w->e.resumed.is;
}

static void one_command(struct world *w)
{
    int64_t session;
    struct slice body;
    int32_t type = random_command(w, &session, &body);
    struct command c = {.session_id = session,
                        .type = type,
                        .ids = maker_ids(&w->maker),
                        .body = body,
                        .cxid = (int32_t)below(w, 3),
                        .options = random_options(w, type)};
    if (type == WIRE_CREATE_SESSION || type == COMMAND_ATTACH_SESSION) {
        c.body = body = random_wish(w, body);
    }
    random_number(w, &c);
    struct batch_header header = {.origin = random_origin(w, session),
                                  .time_ms = 1000 + state_zxid(w->s) + 1};
    if (w->snapping) {
        log_command(w, &header, &c);
    }
    struct model_caller caller = {session, c.ids, c.options, c.cxid, header.origin};
    bool repeated = false;
    if ((c.options & COMMAND_NUMBERED) != 0) {
        repeated = model_apply_numbered(&w->memory, &w->m, &caller, c.number, c.unanswered, type,
                                        body, header.time_ms, &w->me);
    } else {
        model_apply_plain(&w->memory, &w->m, &caller, type, body, header.time_ms, &w->me);
    }
    state_apply(w->s, &header, &c, &w->e);
    state_apply(w->twin, &header, &c, &w->twin_e);
    compare_effects(w);
    compare_twins(w);
    assert_true(state_digest_now(w->s) == state_digest_now(w->twin));
    if (w->e.err == 0) {
        assert_true(state_digest_now(w->s) == state_digest(w->s));
    }
    w->repeated += repeated;
    w->forgotten += repeated && w->e.err == CONCLAVE_CONNECTION_LOSS;
    w->gaps += repeated && w->e.err == CONCLAVE_THROTTLED;
    w->deferred += w->e.deferred;
    w->given_up += w->e.resumed.is;
    w->errors += w->e.err != 0;
    w->fenced += w->e.fenced.refused;
    w->delayed += w->e.fenced.delayed;
    w->bound += state_fence_bindings(w->s) > 0;
    w->quotas_met += w->e.quota.exceeded;
    w->quotas_refused += w->e.err == CONCLAVE_QUOTA_EXCEEDED;
    w->collected += type == WIRE_DELETE_CONTAINER && w->e.err == 0;
    w->moved += w->e.err == CONCLAVE_SESSION_MOVED;
    w->attached += w->e.session_change == STATE_SESSION_ATTACHED;
    w->multis_failed += type == WIRE_MULTI && w->e.reply.len > 4 && w->e.events_count == 0;
}

static void run(uint64_t seed)
{
    struct world w = {
        .prng = {seed}, .s = state_create(&hash_key_fixed), .twin = state_create(&twin_key)};
    maker_init(&w.maker);
    model_init(&w.m);
    effects_init(&w.e);
    effects_init(&w.twin_e);
    model_effects_init(&w.me);
    buf_init(&w.snapshot, 0);
    buf_init(&w.twin_snapshot, 0);
    buf_init(&w.log, 0);
    for (int i = 0; i < COMMANDS; i++) {
        one_command(&w);
        if (below(&w, w.m.config.pending != 0 ? 4 : 150) == 0) {
            one_configuration(&w);
        }
        step_snapshot(&w);
        if (i % 200 == 0) {
            compare_all(&w);
        }
    }
    compare_all(&w);
    /* The run met what it is for. */
    assert_true(w.restores > 5 && w.errors > 500 && w.multis_failed > 50 && w.m.count > 20);
    assert_true(w.repeated > 200 && w.forgotten > 20 && w.gaps > 5);
    assert_true(w.moved > 50 && w.attached > 15);
    assert_true(w.fenced > 100 && w.delayed > 30 && w.bound > 1000);
    assert_true(w.deferred > 20 && w.reached > 15 && w.given_up > 0);
    assert_true(w.collected > 20 && w.quotas_refused > 10 && w.quotas_met > w.quotas_refused);
    buf_finish(&w.snapshot);
    buf_finish(&w.twin_snapshot);
    buf_finish(&w.log);
    model_effects_finish(&w.me);
    effects_finish(&w.e);
    effects_finish(&w.twin_e);
    model_finish(&w.m);
    model_memory_finish(&w.memory);
    maker_finish(&w.maker);
    state_destroy(w.s);
    state_destroy(w.twin);
}

static void seed_1(void **state)
{
    run(1);
}

static void seed_2(void **state)
{
    run(2);
}

static void seed_3(void **state)
{
    run(3);
}

static void seed_4(void **state)
{
    run(0x5eed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seed_1),
        cmocka_unit_test(seed_2),
        cmocka_unit_test(seed_3),
        cmocka_unit_test(seed_4),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
