/*
 * /zookeeper/config and reconfig. Which requests get which error was asked of three Apache ZooKeeper
 * 3.8 servers; the way to the target is the leader's, one member at a time, and here it is walked by
 * hand.
 */
#include "state/state_internal.h"
#include "support/world.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { CLIENT = 1, MEMBERS_MAX = 8 };

/* The leader's data: the log's configuration. */
struct config {
    struct state_member members[MEMBERS_MAX];
    char addresses[MEMBERS_MAX][128];
    size_t count;
};

static void config_put(struct config *c, int64_t id, enum state_role role, const char *address)
{
    size_t i = 0;
    while (i < c->count && c->members[i].id != id) {
        i++;
    }
    c->count += i == c->count;
    snprintf(c->addresses[i], sizeof c->addresses[i], "%s", address);
    c->members[i] = (struct state_member){id, role, c->addresses[i]};
}

static void config_remove(struct config *c, int64_t id)
{
    struct config all = *c;
    c->count = 0;
    for (size_t i = 0; i < all.count; i++) {
        if (all.members[i].id != id) {
            config_put(c, all.members[i].id, all.members[i].role, all.addresses[i]);
        }
    }
}

static void configure(struct world *w, const struct config *c)
{
    state_configure(w->s, c->members, c->count, &w->e);
}

#define ONE "server.1=127.0.0.1:2881:3881:participant;127.0.0.1:2181"
#define TWO "server.2=127.0.0.1:2882:3882:participant;127.0.0.1:2182"
#define THREE "server.3=127.0.0.1:2883:3883:participant;127.0.0.1:2183"
#define FOUR "server.4=127.0.0.1:2884:3884:participant;127.0.0.1:2184"
#define BEHIND_ID(line) (&(line)[9])

/* An ensemble of three. */
static void three(struct world *w, struct config *c)
{
    *c = (struct config){.count = 0};
    config_put(c, 1, STATE_VOTER, BEHIND_ID(ONE));
    config_put(c, 2, STATE_VOTER, BEHIND_ID(TWO));
    config_put(c, 3, STATE_VOTER, BEHIND_ID(THREE));
    configure(w, c);
    maker_ids_add(&w->m, "super", "");
}

static int32_t send_with(struct world *w, uint32_t options, const char *joining,
                         const char *leaving, const char *members, int64_t version)
{
    struct wire_reconfig_request r = {slice_str(joining), slice_str(leaving), slice_str(members),
                                      version};
    struct batch_header header = {.origin = 3, .sequence = 1, .time_ms = 77};
    buf_reset(&w->m.body);
    wire_encode_reconfig_request(&w->m.body, &r);
    struct command c = {.session_id = CLIENT,
                        .cxid = 42,
                        .type = WIRE_RECONFIG,
                        .ids = maker_ids(&w->m),
                        .body = buf_slice(&w->m.body),
                        .options = options};
    state_apply(w->s, &header, &c, &w->e);
    return w->e.err;
}

static int32_t send(struct world *w, const char *joining, const char *leaving, const char *members,
                    int64_t version)
{
    return send_with(w, COMMAND_RECONFIG, joining, leaving, members, version);
}

static int32_t end(struct world *w, int64_t zxid, int32_t err)
{
    buf_reset(&w->m.body);
    reconfig_end_encode(&w->m.body, zxid, err);
    return apply(w->s, &w->e, &w->m, 0, COMMAND_RECONFIG_END, buf_slice(&w->m.body));
}

static void config_is(struct world *w, const char *lines, int64_t version)
{
    char text[1024];
    struct wire_get_data_response r;
    assert_int_equal(world_read(w, WIRE_GET_DATA, "/zookeeper/config"), 0);
    struct wire_reader reader = wire_reader_make(buf_slice(&w->out));
    assert_int_equal(wire_decode_get_data_response(&reader, &r), 0);
    snprintf(text, sizeof text, "%s%s%.0llx", lines, version != 0 ? "version=" : "",
             (unsigned long long)version);
    assert_int_equal(r.data.len, strlen(text));
    assert_memory_equal(r.data.data, text, r.data.len);
    assert_true(state_config_version(w->s) == version);
    assert_true(state_digest_now(w->s) == state_digest(w->s));
    if (version != 0) {
        assert_int_equal(r.stat.version, -1);
        assert_true(r.stat.mzxid == version);
    }
}

/* The reply of the effects equals a read. */
static void reply_is_config(struct world *w)
{
    assert_int_equal(world_read(w, WIRE_GET_DATA, "/zookeeper/config"), 0);
    assert_true(slice_equal(buf_slice(&w->out), buf_slice(&w->e.reply)));
}

static bool pending(const struct world *w)
{
    struct state_reconfig r;
    return state_reconfig(w->s, &r);
}

static int64_t pending_zxid(const struct world *w)
{
    struct state_reconfig r;
    assert_true(state_reconfig(w->s, &r));
    return r.zxid;
}

/* Whether somebody waits for the answer. */
static bool deferred(const struct world *w)
{
    return pending(w) && pending_zxid(w) != 0;
}

/* --- the node --------------------------------------------------------------------------------- */

static void one_that_is_alone_says_nothing(void **state)
{
    struct world *w = *state;
    struct config c = {.count = 0};
    const struct membership *members = &w->s->configuration.members;
    int64_t zxid = state_zxid(w->s);
    config_put(&c, 1, STATE_VOTER, BEHIND_ID(ONE));
    configure(w, &c);
    assert_int_equal(w->e.zxid, zxid);
    assert_int_equal(w->e.events_count, 0);
    assert_int_equal(state_zxid(w->s), zxid);
    config_is(w, "", 0);
    assert_int_equal(members->count, 1);
    assert_string_equal(members->list[0].address, BEHIND_ID(ONE));
    assert_int_equal(send(w, NULL, NULL, NULL, -1), CONCLAVE_UNIMPLEMENTED);
    c.count = 0;
    config_put(&c, 1, STATE_VOTER, "not an address"); /* of a log from before there were others */
    configure(w, &c);
    config_is(w, "", 0);
    assert_int_equal(members->count, 1);
    assert_string_equal(members->list[0].address, "not an address");
}

static void several_are_told(void **state)
{
    struct world *w = *state;
    struct config c;
    world_create(w, "/a", "", 0); /* at 1000 + zxid */
    int64_t zxid = state_zxid(w->s);
    three(w, &c);
    assert_int_equal(w->e.zxid, zxid + 1);
    assert_int_equal(w->e.err, 0);
    assert_string_equal(world_events(w), "3 /zookeeper/config");
    assert_int_equal(w->e.events[0].acl.count, 1);
    assert_false(w->e.resumed.is);
    config_is(w, ONE "\n" TWO "\n" THREE "\n", zxid + 1);
    assert_int_equal(world_stat(w, "/zookeeper/config").mtime, 1000 + zxid);
    assert_int_equal(world_stat(w, "/zookeeper/config").czxid, 0);
    assert_int_equal(world_stat(w, "/zookeeper/config").aversion, -1);

    configure(w, &c); /* as behind a restore */
    assert_int_equal(w->e.zxid, zxid + 1);
    assert_int_equal(w->e.events_count, 0);
    config_remove(&c, 2);
    config_put(&c, 3, STATE_OBSERVER, BEHIND_ID(THREE));
    config_put(&c, 4, STATE_SPARE, BEHIND_ID(FOUR));
    configure(w, &c);
    config_is(w, ONE "\nserver.3=127.0.0.1:2883:3883:observer;127.0.0.1:2183\n", zxid + 2);
    config_remove(&c, 3);
    config_remove(&c, 4);
    configure(w, &c); /* alone again, but it was not always */
    config_is(w, ONE "\n", zxid + 3);
}

static void the_order_is_by_number(void **state)
{
    struct world *w = *state;
    struct config c = {.count = 0};
    config_put(&c, 20, STATE_VOTER, "h:1:2");
    config_put(&c, 3, STATE_VOTER, "i:1:2;3");
    configure(w, &c);
    config_is(w, "server.3=i:1:2:participant;0.0.0.0:3\nserver.20=h:1:2:participant\n",
              state_zxid(w->s));
}

static void the_quota_counts_it(void **state)
{
    struct world *w = *state;
    struct config c;
    world_create(w, "/zookeeper/quota/zookeeper", "", 0);
    world_create(w, "/zookeeper/quota/zookeeper/zookeeper_limits", "count=-1,bytes=9", 0);
    world_create(w, "/zookeeper/quota/zookeeper/zookeeper_stats", "", 0);
    struct znode *stats =
        tree_find(&w->s->tree, slice_str("/zookeeper/quota/zookeeper/zookeeper_stats"));
    long long before = 0;
    long long after = 0;
    assert_int_equal(sscanf((const char *)znode_data(stats).data, "count=7,bytes=%lld", &before),
                     1);
    three(w, &c);
    assert_int_equal(sscanf((const char *)znode_data(stats).data, "count=7,bytes=%lld", &after), 1);
    assert_int_equal(after - before, world_stat(w, "/zookeeper/config").data_length);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void checks_come_in_order(void **state)
{
    struct world *w = *state;
    struct config c;
    three(w, &c);
    int64_t version = state_config_version(w->s);
    /* Each request has the faults of all below it, too. */
    assert_int_equal(apply(w->s, &w->e, &w->m, 9, WIRE_RECONFIG, slice_str("x")),
                     CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(send_with(w, 0, "x", NULL, NULL, 5), CONCLAVE_RECONFIG_DISABLED);
    world_close(w, CLIENT);
    assert_int_equal(send(w, "x", NULL, NULL, 5), CONCLAVE_SESSION_EXPIRED);
    apply_from(w->s, &w->e, &w->m, 2, CLIENT, WIRE_CREATE_SESSION,
               make_session(&w->m, CLIENT, 4000));
    assert_int_equal(send(w, "x", NULL, NULL, 5), CONCLAVE_SESSION_MOVED);
    world_session(w, CLIENT);
    assert_int_equal(send(w, "x", NULL, NULL, 5), CONCLAVE_BAD_VERSION);
    assert_int_equal(send(w, NULL, NULL, NULL, version), 0);
    assert_int_equal(send(w, NULL, NULL, NULL, version), CONCLAVE_BAD_VERSION);

    maker_ids_reset(&w->m);
    assert_int_equal(send(w, "x", NULL, NULL, -1), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(send(w, FOUR, NULL, NULL, -1), CONCLAVE_NO_AUTH);
    /* Data by a stranger are not even read. */
    assert_int_equal(
        send_with(w, COMMAND_RECONFIG | COMMAND_BOUNDED, "server.9=nonsense", NULL, NULL, -1),
        CONCLAVE_NO_AUTH);
    assert_false(pending(w));
    maker_ids_add(&w->m, "super", "");
    assert_int_equal(send(w, FOUR, NULL, NULL, -1), 0);
    assert_true(pending(w));
    assert_int_equal(send(w, "x", NULL, NULL, 5), CONCLAVE_RECONFIG_IN_PROGRESS);
}

static void write_permission_is_enough(void **state)
{
    struct world *w = *state;
    struct config c;
    three(w, &c);
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_WRITE, "digest", "u:p");
    assert_int_equal(world_set_acl(w, "/zookeeper/config", -1), 0);
    maker_ids_reset(&w->m);
    maker_ids_add(&w->m, "digest", "u:q");
    assert_int_equal(send(w, NULL, "3", NULL, -1), CONCLAVE_NO_AUTH);
    maker_ids_add(&w->m, "digest", "u:p");
    assert_int_equal(send(w, NULL, "3", NULL, -1), 0);
}

struct request {
    const char *joining;
    const char *leaving;
    const char *members;
    int32_t err;
};

static void requests_have_errors(struct world *w, uint32_t options, const struct request *requests,
                                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct request *r = &requests[i];
        int32_t err = send_with(w, options, r->joining, r->leaving, r->members, -1);
        if (err != r->err) {
            fail_msg("joining=%s leaving=%s members=%s: %d", r->joining, r->leaving, r->members,
                     err);
        }
        if (pending(w)) {
            assert_int_equal(end(w, pending_zxid(w), CONCLAVE_SYSTEM_ERROR), 0);
        }
    }
}

static void requests_as_zookeeper(void **state)
{
    struct world *w = *state;
    struct config c;
    enum { BAD = CONCLAVE_BAD_ARGUMENTS, ODD = CONCLAVE_MARSHALLING_ERROR };
    static const struct request requests[] = {
        {"x", "", NULL, BAD},
        {"server.4", NULL, NULL, BAD},
        {"server.4=h", NULL, NULL, BAD},
        {"server.4=127.0.0.1:1:2", NULL, NULL, BAD},
        {"server.x=127.0.0.1:11:12;13", NULL, NULL, ODD},
        {"server.4=127.0.0.1:11:11;13", NULL, NULL, BAD},
        {"server.4=127.0.0.1:99999:12;13", NULL, NULL, ODD},
        {"server.4=127.0.0.1:11:12:boss;13", NULL, NULL, BAD},
        {"server.4=127.0.0.1:a:12;13", NULL, NULL, BAD},
        {"server.4=127.0.0.1:11:12;x", NULL, NULL, BAD},
        {"server.4=127.0.0.1:11:12;1;2", NULL, NULL, BAD},
        {"server.4=127.0.0.1:11:12=;13", NULL, NULL, BAD},
        {NULL, "x", NULL, ODD},
        {NULL, "1,2", NULL, BAD},
        {NULL, "1,2,3", NULL, BAD},
        {NULL, "", NULL, 0},
        {NULL, NULL, NULL, 0},
        {NULL, NULL, ONE, BAD},
        {NULL, NULL, "server.1=127.0.0.1:2881:3881:observer;127.0.0.1:2181", ODD},
        {NULL, NULL, "foo=bar", BAD},
        {NULL, NULL, "server.x=127.0.0.1:2881:3881", ODD},
        {NULL, NULL, "server.1=h", BAD},
        {NULL, NULL, "server.1=10.1.1.1:99999:2:participant;3," TWO, ODD},
        {NULL, NULL, "version=abc," ONE "," TWO "," THREE, 0},
        {NULL, NULL, "version=xyz," ONE "," TWO "," THREE, ODD},
        {"server.5=10.0.0.1:2888:3888;2181,server.6=10.0.0.1:2888:3889;2182", NULL, NULL, BAD},
        {"server.4=127.0.0.1:11:12:observer;127.0.0.1:13", NULL, NULL, 0},
        {"4=127.0.0.1:11:12: Observer ;13 , ", "", NULL, 0},
        {NULL, " 3 , 9", NULL, 0},
        {"server.4=127.0.0.1:11:12:observer;13;", NULL, NULL, 0},
        {"server.4=127.0.0.1:11:12::;13", NULL, NULL, 0},
        {NULL, "-4,300", NULL, 0},
        {NULL, NULL, ONE "\n" TWO "\n# c\nserver.3: 127.0.0.1:9:8;7", 0},
        /* Ours: numbers that no session id has room for, weights, two with one address. */
        {"server.-4=127.0.0.1:11:12:observer;13", NULL, NULL, BAD},
        {"server.255=127.0.0.1:11:12:observer;13", NULL, NULL, 0},
        {"server.0=127.0.0.1:11:12:observer;13", NULL, NULL, 0},
        {"server.256=127.0.0.1:11:12:observer;13", NULL, NULL, BAD},
        {NULL, NULL, "group.1=1:2," ONE "," TWO, BAD},
        {NULL, NULL, "weight.1=2," ONE "," TWO, BAD},
        {"server.4=127.0.0.1:2881:3881;127.0.0.1:2181", NULL, NULL, BAD},
        {NULL, NULL, "", BAD},
    };
    three(w, &c);
    requests_have_errors(w, COMMAND_RECONFIG, requests, sizeof requests / sizeof requests[0]);
}

/* With standaloneEnabled=false one voter is enough. */
static void requests_that_leave_one(void **state)
{
    struct world *w = *state;
    struct config c;
    static const struct request requests[] = {
        {NULL, "1,2", NULL, 0},
        {NULL, "1,2,3", NULL, CONCLAVE_BAD_ARGUMENTS},
        {NULL, NULL, ONE, 0},
        {NULL, NULL, ONE ",server.4=127.0.0.1:11:12:observer;13", 0},
        {NULL, NULL, "server.4=127.0.0.1:11:12:observer;13", CONCLAVE_MARSHALLING_ERROR},
        {NULL, NULL, "", CONCLAVE_MARSHALLING_ERROR},
    };
    three(w, &c);
    requests_have_errors(w, COMMAND_RECONFIG | COMMAND_ALONE, requests,
                         sizeof requests / sizeof requests[0]);
}

static void one_that_may_be_joined(void **state)
{
    struct world *w = *state;
    struct config c = {.count = 0};
    uint32_t options = COMMAND_RECONFIG | COMMAND_ENSEMBLE;
    maker_ids_add(&w->m, "super", "");
    assert_int_equal(send_with(w, options, TWO, NULL, NULL, 0), CONCLAVE_UNIMPLEMENTED);
    config_put(&c, 1, STATE_VOTER, BEHIND_ID(ONE));
    configure(w, &c);
    assert_int_equal(send_with(w, COMMAND_RECONFIG, TWO, NULL, NULL, 0), CONCLAVE_UNIMPLEMENTED);
    assert_int_equal(send_with(w, options, TWO, NULL, NULL, 0), 0);
    assert_true(w->e.deferred);
    config_put(&c, 2, STATE_SPARE, BEHIND_ID(TWO));
    configure(w, &c);
    config_is(w, "", 0);
    config_put(&c, 2, STATE_VOTER, BEHIND_ID(TWO));
    configure(w, &c);
    assert_true(w->e.resumed.is);
    config_is(w, ONE "\n" TWO "\n", state_zxid(w->s));
}

/* --- the way ---------------------------------------------------------------------------------- */

static void the_answer_waits_for_the_members(void **state)
{
    struct world *w = *state;
    struct config c;
    struct state_reconfig r;
    three(w, &c);
    int64_t version = state_config_version(w->s);
    assert_int_equal(send(w, FOUR, "1", NULL, version), 0);
    assert_true(w->e.deferred);
    assert_int_equal(w->e.reply.len, 0);
    assert_int_equal(w->e.events_count, 0);
    int64_t zxid = w->e.zxid;
    assert_true(state_reconfig(w->s, &r));
    assert_true(r.zxid == zxid);
    assert_int_equal(r.count, 3);
    assert_int_equal(r.members[2].id, 4);
    assert_int_equal(r.members[2].role, STATE_VOTER);
    assert_string_equal(r.members[2].address, BEHIND_ID(FOUR));

    config_put(&c, 4, STATE_OBSERVER, BEHIND_ID(FOUR));
    configure(w, &c);
    assert_int_equal(w->e.zxid, zxid);
    assert_int_equal(w->e.events_count, 0);
    config_is(w, ONE "\n" TWO "\n" THREE "\n", version);
    assert_int_equal(world_create(w, "/between", "", 0), 0);
    config_put(&c, 4, STATE_VOTER, BEHIND_ID(FOUR));
    configure(w, &c);
    assert_false(w->e.resumed.is);
    config_remove(&c, 1);
    configure(w, &c);
    assert_int_equal(w->e.zxid, zxid + 2);
    assert_true(w->e.resumed.is);
    assert_int_equal(w->e.resumed.err, 0);
    assert_int_equal(w->e.resumed.origin, 3);
    assert_int_equal(w->e.resumed.session_id, CLIENT);
    assert_int_equal(w->e.resumed.cxid, 42);
    assert_string_equal(world_events(w), "3 /zookeeper/config");
    reply_is_config(w);
    config_is(w, TWO "\n" THREE "\n" FOUR "\n", zxid + 2);
    assert_false(pending(w));
    assert_int_equal(end(w, zxid, CONCLAVE_SYSTEM_ERROR), CONCLAVE_BAD_VERSION);
    assert_false(w->e.resumed.is);
}

/* Nothing to walk: answered at once, with a new version. */
static void the_members_that_are_there(void **state)
{
    struct world *w = *state;
    struct config c;
    three(w, &c);
    assert_int_equal(send(w, NULL, NULL, THREE "," TWO "," ONE, -1), 0);
    assert_false(w->e.deferred);
    assert_string_equal(world_events(w), "3 /zookeeper/config");
    reply_is_config(w);
    config_is(w, ONE "\n" TWO "\n" THREE "\n", w->e.zxid);
    assert_int_equal(world_stat(w, "/zookeeper/config").mtime, 77);
    assert_false(pending(w));
}

static void given_up_where_it_began(void **state)
{
    struct world *w = *state;
    struct config c;
    three(w, &c);
    int64_t version = state_config_version(w->s);
    send(w, FOUR, NULL, NULL, -1);
    int64_t zxid = w->e.zxid;
    assert_int_equal(end(w, zxid + 1, CONCLAVE_NEW_CONFIG_NO_QUORUM), CONCLAVE_BAD_VERSION);
    assert_int_equal(end(w, zxid, 0), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(
        apply(w->s, &w->e, &w->m, 0, COMMAND_RECONFIG_END, slice_make("12345678901", 11)),
        CONCLAVE_MARSHALLING_ERROR);
    assert_true(pending(w));
    assert_int_equal(end(w, zxid, CONCLAVE_NEW_CONFIG_NO_QUORUM), 0);
    assert_true(w->e.resumed.is);
    assert_int_equal(w->e.resumed.err, CONCLAVE_NEW_CONFIG_NO_QUORUM);
    assert_int_equal(w->e.resumed.cxid, 42);
    assert_int_equal(w->e.reply.len, 0);
    assert_int_equal(w->e.events_count, 0);
    config_is(w, ONE "\n" TWO "\n" THREE "\n", version);
    assert_int_equal(send(w, FOUR, NULL, NULL, version), 0);
    assert_false(w->e.resumed.is);
}

static void given_up_half_way(void **state)
{
    struct world *w = *state;
    struct config c;
    three(w, &c);
    send(w, FOUR, "1", NULL, -1);
    int64_t zxid = w->e.zxid;
    config_put(&c, 4, STATE_OBSERVER, BEHIND_ID(FOUR));
    configure(w, &c);
    assert_int_equal(end(w, zxid, CONCLAVE_OPERATION_TIMEOUT), 0);
    assert_true(w->e.resumed.is);
    assert_int_equal(w->e.resumed.err, CONCLAVE_OPERATION_TIMEOUT);
    assert_string_equal(world_events(w), "3 /zookeeper/config");
    config_is(w, ONE "\n" TWO "\n" THREE "\nserver.4=127.0.0.1:2884:3884:observer;127.0.0.1:2184\n",
              zxid + 1);
    configure(w, &c);
    assert_int_equal(w->e.events_count, 0);
}

/* The rest of an abandoned walk is no part of the next target. */
static void spares_do_not_stay(void **state)
{
    struct world *w = *state;
    struct config c;
    struct state_reconfig r;
    three(w, &c);
    config_put(&c, 4, STATE_SPARE, BEHIND_ID(FOUR));
    configure(w, &c);
    assert_int_equal(send(w, NULL, NULL, NULL, -1), 0);
    assert_true(w->e.deferred);
    assert_true(state_reconfig(w->s, &r));
    assert_int_equal(r.count, 3);
    config_remove(&c, 4);
    configure(w, &c);
    assert_true(w->e.resumed.is);
}

/* --- other states ----------------------------------------------------------------------------- */

static struct state *restored(struct world *w)
{
    struct state *copy = NULL;
    int rc;
    buf_reset(&w->out);
    assert_int_equal(state_snapshot_begin(w->s), 0);
    while ((rc = state_snapshot_step(w->s, 100, &w->out)) == 1) {}
    assert_int_equal(rc, 0);
    assert_int_equal(state_restore(buf_slice(&w->out), &hash_key_fixed, &copy), 0);
    assert_true(state_digest(copy) == state_digest(w->s));
    return copy;
}

static void a_snapshot_knows_what_is_under_way(void **state)
{
    struct world *w = *state;
    struct config c;
    three(w, &c);
    send(w, FOUR, "1", NULL, -1);
    config_put(&c, 4, STATE_SPARE, BEHIND_ID(FOUR));
    configure(w, &c);
    uint64_t before = state_digest(w->s);
    struct state *first = w->s;
    w->s = restored(w);
    configure(w, &c);
    assert_true(state_digest(w->s) == before);
    config_put(&c, 4, STATE_VOTER, BEHIND_ID(FOUR));
    config_remove(&c, 1);
    configure(w, &c);
    assert_true(w->e.resumed.is && w->e.resumed.session_id == CLIENT && w->e.resumed.origin == 3);
    uint64_t after = state_digest(w->s);
    state_destroy(w->s);
    w->s = first;
    configure(w, &c);
    assert_true(state_digest(w->s) == after && after != before);
}

/* A state that takes another's place keeps the members of those who are there. */
static void succession(void **state)
{
    struct world *w = *state;
    struct config c;
    three(w, &c);
    struct state *older = restored(w);
    config_remove(&c, 3);
    configure(w, &c);
    send(w, FOUR, NULL, NULL, -1);
    int64_t zxid = w->e.zxid;
    state_succeed(older, w->s);
    state_destroy(w->s);
    w->s = older;
    config_is(w, ONE "\n" TWO "\n", zxid + 1);
    assert_true(pending_zxid(w) == zxid);
    configure(w, &c);
    assert_int_equal(w->e.zxid, zxid + 1);
    state_destroy(restored(w));

    /* Of an ensemble's state, loaded into a server that is alone, the node is empty again. */
    struct state *alone = state_create(&hash_key_fixed);
    struct state *loaded = restored(w);
    state_succeed(loaded, alone);
    state_destroy(alone);
    state_destroy(w->s);
    w->s = loaded;
    config_is(w, "", 0);
    assert_int_equal(world_stat(w, "/zookeeper/config").version, 0);
    assert_false(pending(w));
}

/* --- members that are leaving ------------------------------------------------------------------- */

static int32_t send_leaving(struct world *w, const char *joining, const char *leaving)
{
    return send_with(w, COMMAND_RECONFIG | COMMAND_LEAVING, joining, leaving, NULL, -1);
}

/* The answer comes as soon as the removed voter has no vote: it gets that entry of the log, and no later one. */
static void the_removed_is_told(void **state)
{
    struct world *w = *state;
    struct config c;
    struct state_reconfig r;
    three(w, &c);
    assert_int_equal(send_leaving(w, NULL, "3"), 0);
    assert_true(w->e.deferred);
    assert_false(state_is_leaving(w->s, 3)); /* it votes */
    assert_true(pending_zxid(w) == w->e.zxid);
    config_put(&c, 3, STATE_OBSERVER, BEHIND_ID(THREE));
    configure(w, &c);
    int64_t version = state_zxid(w->s);
    assert_true(w->e.resumed.is);
    assert_int_equal(w->e.resumed.err, 0);
    reply_is_config(w);
    config_is(w, ONE "\n" TWO "\n", version);
    assert_true(state_is_leaving(w->s, 3));
    assert_false(state_is_leaving(w->s, 2));
    assert_true(state_reconfig(w->s, &r)); /* the leader is to remove it yet */
    assert_true(r.zxid == 0 && r.count == 2);

    struct state *copy = restored(w);
    assert_true(state_is_leaving(copy, 3));
    state_destroy(copy);
    configure(w, &c); /* as behind a restore */
    assert_true(state_zxid(w->s) == version);
    assert_true(state_is_leaving(w->s, 3));
    config_remove(&c, 3);
    configure(w, &c);
    assert_false(pending(w));
    assert_true(state_zxid(w->s) == version); /* clients have seen it go before */
    config_is(w, ONE "\n" TWO "\n", version);
    assert_true(state_is_leaving(w->s, 3)); /* wherever the entry got to */
    state_destroy(restored(w));
}

/* One without a vote is in nobody's way: answered at once. So is the next reconfig. */
static void an_observer_leaves_at_once(void **state)
{
    struct world *w = *state;
    struct config c;
    three(w, &c);
    config_put(&c, 3, STATE_OBSERVER, BEHIND_ID(THREE));
    configure(w, &c);
    assert_int_equal(send_leaving(w, NULL, "3"), 0);
    assert_false(w->e.deferred);
    config_is(w, ONE "\n" TWO "\n", w->e.zxid);
    assert_true(state_is_leaving(w->s, 3));
    assert_int_equal(send_leaving(w, THREE, NULL), 0); /* it comes back before it has gone */
    assert_true(w->e.deferred);
    assert_false(state_is_leaving(w->s, 3));
    config_put(&c, 3, STATE_VOTER, BEHIND_ID(THREE));
    configure(w, &c);
    assert_true(w->e.resumed.is);
    assert_false(pending(w));
    config_is(w, ONE "\n" TWO "\n" THREE "\n", w->e.zxid);
}

/* A restored copy that is configured once more has the same state as the original, and resumes nothing. */
static void restored_alike(struct world *w, const struct config *c)
{
    struct state *copy = restored(w);
    struct effects e;
    effects_init(&e);
    state_configure(copy, c->members, c->count, &e);
    assert_false(e.resumed.is);
    assert_true(state_zxid(copy) == state_zxid(w->s));
    assert_true(state_digest(copy) == state_digest(w->s));
    effects_finish(&e);
    state_destroy(copy);
}

/* One that is leaving, and is an observer now, may stay as an observer: nobody is leaving then. */
static void the_removed_stays_as_an_observer(void **state)
{
    static const char *const observer = "server.3=127.0.0.1:2883:3883:observer;127.0.0.1:2183";
    struct world *w = *state;
    struct config c;
    three(w, &c);
    assert_int_equal(send_leaving(w, NULL, "3"), 0);
    config_put(&c, 3, STATE_OBSERVER, BEHIND_ID(observer));
    configure(w, &c);
    assert_true(state_is_leaving(w->s, 3));
    restored_alike(w, &c);
    assert_int_equal(send_leaving(w, observer, NULL), 0);
    assert_false(w->e.deferred);
    assert_false(pending(w));
    assert_false(state_is_leaving(w->s, 3));
    restored_alike(w, &c);
}

/* Another change than that of the leaving ones is shown. */
static void others_change_meanwhile(void **state)
{
    struct world *w = *state;
    struct config c;
    three(w, &c);
    assert_int_equal(send_leaving(w, NULL, "3"), 0);
    config_put(&c, 3, STATE_OBSERVER, BEHIND_ID(THREE));
    configure(w, &c);
    config_remove(&c, 2);
    config_remove(&c, 3);
    configure(w, &c); /* go alone */
    config_is(w, ONE "\n", state_zxid(w->s));
    assert_false(pending(w));
}

/* --- many ------------------------------------------------------------------------------------- */

/* A leader's step towards the target: one member. Returns false when it is there. */
static bool step(const struct world *w, struct config *c)
{
    struct state_reconfig r;
    assert_true(state_reconfig(w->s, &r));
    for (size_t i = 0; i < r.count; i++) {
        const struct state_member *want = &r.members[i];
        const struct state_member *have = NULL;
        for (size_t k = 0; k < c->count; k++) {
            have = c->members[k].id == want->id ? &c->members[k] : have;
        }
        if (have == NULL) {
            config_put(c, want->id, STATE_SPARE, want->address);
            return true;
        }
        if (have->role != want->role) {
            config_put(c, want->id, want->role, want->address);
            return true;
        }
    }
    for (size_t k = 0; k < c->count; k++) {
        bool wanted = false;
        for (size_t i = 0; i < r.count; i++) {
            wanted = wanted || r.members[i].id == c->members[k].id;
        }
        if (!wanted) {
            config_remove(c, c->members[k].id);
            return true;
        }
    }
    return false;
}

static void random_request(struct world *w, struct prng *prng, uint32_t options)
{
    char joining[256] = "";
    char leaving[16] = "";
    int64_t id = 1 + (int64_t)(prng_next(prng) % 6);
    if (prng_next(prng) % 2 == 0) {
        const char *role = prng_next(prng) % 3 == 0 ? "observer" : "participant";
        snprintf(joining, sizeof joining, "server.%d=127.0.0.1:%d:%d:%s;%d", (int)id,
                 2880 + (int)id, 3880 + (int)id, role, 2180 + (int)id);
    } else {
        snprintf(leaving, sizeof leaving, "%d", (int)id);
    }
    (void)send_with(w, options, joining, leaving, NULL, -1);
}

/* Every deferred request is answered once, and whenever nothing is under way the node names the
 * members; a server restored in the middle goes on alike. */
static void walk(struct world *w, uint64_t seed, uint32_t options)
{
    struct prng prng = {seed};
    struct config c;
    int waiting = 0;
    int answered = 0;
    int refused = 0;
    three(w, &c);
    for (int i = 0; i < 3000; i++) {
        w->e.resumed.is = false;
        switch (prng_next(&prng) % 8) {
        case 0:
        case 1:
            random_request(w, &prng, options);
            waiting += w->e.deferred;
            refused += w->e.err == CONCLAVE_RECONFIG_IN_PROGRESS;
            break;
        case 2:
            if (deferred(w) && prng_next(&prng) % 4 == 0) {
                assert_int_equal(end(w, pending_zxid(w), CONCLAVE_OPERATION_TIMEOUT), 0);
            }
            break;
        case 3:
            if (prng_next(&prng) % 8 == 0) {
                restored_alike(w, &c);
                struct state *copy = restored(w);
                state_destroy(w->s);
                w->s = copy;
                configure(w, &c);
                assert_false(w->e.resumed.is);
            }
            break;
        default:
            if (pending(w) && step(w, &c)) {
                configure(w, &c);
            }
            break;
        }
        answered += w->e.resumed.is;
        waiting -= w->e.resumed.is;
        assert_int_equal(waiting, deferred(w) ? 1 : 0);
        if (!pending(w)) {
            struct membership m = {0};
            struct buf lines;
            buf_init(&lines, 0);
            for (size_t k = 0; k < c.count; k++) {
                assert_true(membership_put(&m, c.members[k].id, c.members[k].role,
                                           slice_str(c.members[k].address)));
            }
            membership_print(&m, &lines);
            config_is(w, buf_cstr(&lines), state_config_version(w->s));
            buf_finish(&lines);
            membership_finish(&m);
        }
    }
    assert_true(answered > 50 && refused > 50);
}

static void walks(void **state)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct world *w = *state;
        walk(w, seed, COMMAND_RECONFIG | (seed % 2 == 0 ? COMMAND_LEAVING : 0));
        maker_ids_reset(&w->m);
        state_destroy(w->s);
        w->s = state_create(&hash_key_fixed);
        world_session(w, CLIENT);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(one_that_is_alone_says_nothing),
        T(several_are_told),
        T(the_order_is_by_number),
        T(the_quota_counts_it),
        T(checks_come_in_order),
        T(write_permission_is_enough),
        T(requests_as_zookeeper),
        T(requests_that_leave_one),
        T(one_that_may_be_joined),
        T(the_answer_waits_for_the_members),
        T(the_members_that_are_there),
        T(given_up_where_it_began),
        T(given_up_half_way),
        T(spares_do_not_stay),
        T(a_snapshot_knows_what_is_under_way),
        T(succession),
        T(the_removed_is_told),
        T(an_observer_leaves_at_once),
        T(the_removed_stays_as_an_observer),
        T(others_change_meanwhile),
        T(walks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
