/* The connection core: the form of the requests and answers that are not in core_request.c. */
#include "support/core_peer.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void no_watch(struct conclave_client *client, enum conclave_event_type type,
                     const char *path, void *ctx)
{
}

/* Submits op as id 1 and checks its frame's opcode. */
static struct peer_frame sent(struct peer *p, const struct conclave_op *op, int32_t opcode)
{
    assert_int_equal(peer_submit(p, op, 1), 0);
    return peer_expect(p, opcode);
}

static void begin(struct peer *p, const char *chroot)
{
    peer_init(p, chroot);
    peer_connect(p, PEER_SESSION);
}

static void answer(struct peer *p, const struct peer_frame *f, struct buf *body)
{
    peer_reply(p, f->xid, 10, 0, buf_slice(body));
    buf_finish(body);
}

static void test_create_ttl(void **state)
{
    const enum conclave_create_mode modes[] = {CONCLAVE_PERSISTENT, CONCLAVE_PERSISTENT_SEQUENTIAL};
    for (int i = 0; i < 2; i++) {
        struct peer p;
        begin(&p, "/app");
        struct conclave_op op = conclave_op_create("/t", "v", 1, modes[i]);
        op.ttl_ms = CONCLAVE_TTL_MAX_MS;
        struct peer_frame f = sent(&p, &op, WIRE_CREATE_TTL);
        struct wire_reader rd = wire_reader_make(f.body);
        struct wire_create_ttl_request record;
        assert_int_equal(wire_decode_create_ttl_request(&rd, &record), 0);
        assert_int_equal(wire_left(&rd), 0);
        assert_true(slice_equal_str(record.path, "/app/t"));
        assert_true(slice_equal_str(record.data, "v"));
        assert_int_equal(record.flags,
                         i == 0 ? WIRE_MODE_PERSISTENT_TTL : WIRE_MODE_PERSISTENT_SEQUENTIAL_TTL);
        assert_int_equal(record.ttl_ms, CONCLAVE_TTL_MAX_MS);
        struct buf b;
        buf_init(&b, 0);
        wire_write_string(&b, slice_str("/app/t7"));
        peer_put_stat(&b, 10);
        answer(&p, &f, &b);
        assert_int_equal(peer_reply_of(&p, 1)->error, 0);
        assert_string_equal(peer_reply_of(&p, 1)->path, "/t7");
        assert_true(peer_reply_of(&p, 1)->has_stat);
        peer_finish(&p);
    }
    struct conclave_op op = conclave_op_create("/t", NULL, 0, CONCLAVE_EPHEMERAL);
    op.ttl_ms = 1;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    op.mode = CONCLAVE_CONTAINER;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    op.mode = CONCLAVE_PERSISTENT;
    assert_int_equal(op_check(&op), 0);
    op.ttl_ms = CONCLAVE_TTL_MAX_MS + 1;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    op.ttl_ms = -1;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
}

/* A multi of all kinds of create; their results come as create2. */
static void test_multi_of_creates(void **state)
{
    struct peer p;
    begin(&p, "");
    struct conclave_op parts[] = {
        conclave_op_create("/a", NULL, 0, CONCLAVE_CONTAINER),
        conclave_op_create("/b", NULL, 0, CONCLAVE_PERSISTENT),
    };
    parts[1].ttl_ms = 1000;
    struct conclave_op op = conclave_op_multi(parts, 2);
    struct peer_frame f = sent(&p, &op, WIRE_MULTI);
    struct wire_reader rd = wire_reader_make(f.body);
    struct wire_multi_header header;
    struct wire_create_request create;
    struct wire_create_ttl_request ttl;
    assert_int_equal(wire_decode_multi_header(&rd, &header), 0);
    assert_int_equal(header.type, WIRE_CREATE_CONTAINER);
    assert_int_equal(wire_decode_create_request(&rd, &create), 0);
    assert_int_equal(wire_decode_multi_header(&rd, &header), 0);
    assert_int_equal(header.type, WIRE_CREATE_TTL);
    assert_int_equal(wire_decode_create_ttl_request(&rd, &ttl), 0);
    assert_int_equal(ttl.ttl_ms, 1000);
    struct buf b;
    buf_init(&b, 0);
    for (int i = 0; i < 2; i++) {
        header = (struct wire_multi_header){i == 0 ? WIRE_CREATE2 : WIRE_CREATE_TTL, false, 0};
        wire_encode_multi_header(&b, &header);
        wire_write_string(&b, slice_str(i == 0 ? "/a" : "/b"));
        peer_put_stat(&b, 10);
    }
    header = (struct wire_multi_header){-1, true, -1};
    wire_encode_multi_header(&b, &header);
    answer(&p, &f, &b);
    assert_int_equal(peer_reply_of(&p, 1)->error, 0);
    assert_int_equal(peer_reply_of(&p, 1)->count, 2);
    peer_finish(&p);
}

/* --- multiRead
 * ----------------------------------------------------------------------------------------- */

static void put_part(struct buf *b, int32_t type, int32_t error)
{
    struct wire_multi_header header = {type, false, error};
    wire_encode_multi_header(b, &header);
}

static void put_end(struct buf *b)
{
    struct wire_multi_header header = {-1, true, -1};
    wire_encode_multi_header(b, &header);
}

static void put_children(struct buf *b, const char *const *names, int32_t count)
{
    put_part(b, WIRE_GET_CHILDREN, 0);
    wire_write_i32(b, count);
    for (int32_t i = 0; i < count; i++) {
        wire_write_string(b, slice_str(names[i]));
    }
}

static void test_multi_read(void **state)
{
    const struct conclave_op parts[] = {
        conclave_op_path(CONCLAVE_OP_GET_CHILDREN, "/", 0),
        conclave_op_path(CONCLAVE_OP_GET, "/none", 0),
        conclave_op_path(CONCLAVE_OP_GET, "/a", 0),
        conclave_op_path(CONCLAVE_OP_GET_CHILDREN, "/a", 0),
    };
    struct conclave_op op = conclave_op_multi(parts, 4);
    op.type = CONCLAVE_OP_MULTI_READ;
    assert_int_equal(op_check(&op), 0);
    struct client_request *r;
    assert_int_equal(request_create(&op, &r), 0);
    struct buf frame;
    buf_init(&frame, 0);
    struct request_form form = {.chroot = slice_str("/app"), .create2 = true, .max = 1000};
    assert_int_equal(request_encode(&frame, &op, 7, &form), 0);
    struct wire_reader rd = wire_reader_make(slice_make(frame.data + 12, frame.len - 12));
    const int32_t types[] = {WIRE_GET_CHILDREN, WIRE_GET_DATA, WIRE_GET_DATA, WIRE_GET_CHILDREN};
    const char *const paths[] = {"/app", "/app/none", "/app/a", "/app/a"};
    struct wire_multi_header header;
    for (int i = 0; i < 4; i++) {
        struct wire_get_data_request record;
        assert_int_equal(wire_decode_multi_header(&rd, &header), 0);
        assert_int_equal(header.type, types[i]);
        assert_int_equal(wire_decode_get_data_request(&rd, &record), 0);
        assert_true(slice_equal_str(record.path, paths[i]) && !record.watch);
    }
    assert_int_equal(wire_decode_multi_header(&rd, &header), 0);
    assert_true(header.done);
    buf_finish(&frame);

    struct buf b;
    buf_init(&b, 0);
    const char *const names[] = {"a", "", "ccc"};
    put_children(&b, names, 3);
    put_part(&b, WIRE_ERROR, CONCLAVE_NO_NODE);
    wire_write_i32(&b, CONCLAVE_NO_NODE);
    put_part(&b, WIRE_GET_DATA, 0);
    wire_write_buffer(&b, slice_str("data"));
    peer_put_stat(&b, 5);
    put_children(&b, names, 1);
    put_end(&b);
    assert_int_equal(request_decode(r, buf_slice(&b), slice_str("/app")), 0);
    assert_int_equal(r->reply.error, 0);
    assert_int_equal(r->reply.results_count, 4);
    const struct conclave_reply *const *results = r->reply.results;
    assert_int_equal(results[0]->children_count, 3);
    assert_string_equal(results[0]->children[0], "a");
    assert_string_equal(results[0]->children[1], "");
    assert_string_equal(results[0]->children[2], "ccc");
    assert_int_equal(results[1]->error, CONCLAVE_NO_NODE);
    assert_string_equal(results[2]->data, "data");
    assert_int_equal(results[2]->stat.mzxid, 5);
    assert_int_equal(results[3]->children_count, 1);
    assert_string_equal(results[3]->children[0], "a");
    /* Cut anywhere it is malformed, and nothing is left behind. */
    conclave_reply_free(request_take_reply(r));
    for (size_t len = 0; len < b.len; len++) {
        assert_int_equal(request_decode(r, slice_make(b.data, len), slice_str("")),
                         CONCLAVE_EPROTO);
    }
    r->parts_count = 3; /* more results than were asked for */
    assert_int_equal(request_decode(r, buf_slice(&b), slice_str("")), CONCLAVE_EPROTO);
    r->parts_count = 4; /* answers of a multiRead only */
    r->type = CONCLAVE_OP_MULTI;
    assert_int_equal(request_decode(r, buf_slice(&b), slice_str("")), CONCLAVE_EPROTO);
    buf_finish(&b);
    request_unref(r);
}

static void test_multi_read_checked(void **state)
{
    struct conclave_op part = conclave_op_path(CONCLAVE_OP_EXISTS, "/", 0);
    struct conclave_op op = conclave_op_multi(&part, 1);
    op.type = CONCLAVE_OP_MULTI_READ;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    part = conclave_op_watch(CONCLAVE_OP_GET, "/", no_watch, NULL);
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    part = conclave_op_path(CONCLAVE_OP_GET, "/", 0);
    assert_int_equal(op_check(&op), 0);
    op.type = CONCLAVE_OP_MULTI;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
}

/* --- the server's data
 * ----------------------------------------------------------------------------- */

static void test_get_ephemerals(void **state)
{
    struct peer p;
    begin(&p, "/app");
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_EPHEMERALS, "/", 0);
    struct peer_frame f = sent(&p, &op, WIRE_GET_EPHEMERALS);
    struct wire_reader rd = wire_reader_make(f.body);
    assert_true(slice_equal_str(wire_read_string(&rd), "/app"));
    struct buf b;
    buf_init(&b, 0);
    wire_write_i32(&b, 3);
    wire_write_string(&b, slice_str("/app/a"));
    wire_write_string(&b, slice_str("/apple")); /* begins alike, and is none of ours */
    wire_write_string(&b, slice_str("/app/b"));
    answer(&p, &f, &b);
    assert_int_equal(peer_reply_of(&p, 1)->count, 2);
    peer_finish(&p);
    op.path = "/a/"; /* a prefix, not a path */
    assert_int_equal(op_check(&op), 0);
    op.path = NULL;
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
}

static void test_get_all_children_number(void **state)
{
    struct peer p;
    begin(&p, "/app");
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_ALL_CHILDREN_NUMBER, "/a", 0);
    struct peer_frame f = sent(&p, &op, WIRE_GET_ALL_CHILDREN_NUMBER);
    struct wire_reader rd = wire_reader_make(f.body);
    assert_true(slice_equal_str(wire_read_string(&rd), "/app/a"));
    struct buf b;
    buf_init(&b, 0);
    wire_write_i32(&b, 42);
    answer(&p, &f, &b);
    assert_int_equal(peer_reply_of(&p, 1)->count, 42);
    peer_finish(&p);
}

static void test_who_am_i(void **state)
{
    struct peer p;
    begin(&p, "/app");
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_WHO_AM_I, NULL, 0);
    struct peer_frame f = sent(&p, &op, WIRE_WHO_AM_I);
    assert_int_equal(f.body.len, 0);
    struct buf b;
    buf_init(&b, 0);
    wire_write_i32(&b, 2);
    wire_write_string(&b, slice_str("ip"));
    wire_write_string(&b, slice_str("127.0.0.1"));
    wire_write_string(&b, slice_str("digest"));
    wire_write_string(&b, SLICE_NULL);
    answer(&p, &f, &b);
    assert_int_equal(peer_reply_of(&p, 1)->error, 0);
    assert_int_equal(peer_reply_of(&p, 1)->count, 2);
    peer_finish(&p);
}

static void test_check_watches(void **state)
{
    struct peer p;
    begin(&p, "/app");
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_CHECK_WATCHES, "/a", 0);
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL); /* no kind */
    op.watch_kind = CONCLAVE_WATCH_PERSISTENT;
    struct peer_frame f = sent(&p, &op, WIRE_CHECK_WATCHES);
    struct wire_reader rd = wire_reader_make(f.body);
    assert_true(slice_equal_str(wire_read_string(&rd), "/app/a"));
    assert_int_equal(wire_read_i32(&rd), 4);
    peer_reply(&p, f.xid, 3, CONCLAVE_NO_WATCHER, slice_make("", 0));
    assert_int_equal(peer_reply_of(&p, 1)->error, CONCLAVE_NO_WATCHER);
    peer_finish(&p);
}

static void test_reconfig(void **state)
{
    struct peer p;
    begin(&p, "/app");
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_RECONFIG, NULL, 0);
    assert_int_equal(op_check(&op), CONCLAVE_EINVAL);
    const struct conclave_reconfig change = {
        .size = sizeof change, .leaving = "3", .config_version = -1};
    op.reconfig = &change;
    struct peer_frame f = sent(&p, &op, WIRE_RECONFIG);
    struct wire_reader rd = wire_reader_make(f.body);
    struct wire_reconfig_request record;
    assert_int_equal(wire_decode_reconfig_request(&rd, &record), 0);
    assert_true(slice_is_null(record.joining_servers) && slice_is_null(record.new_members));
    assert_true(slice_equal_str(record.leaving_servers, "3"));
    assert_int_equal(record.cur_config_id, -1);
    struct buf b;
    buf_init(&b, 0);
    wire_write_buffer(&b, slice_str("server.1=a:1:2"));
    peer_put_stat(&b, 10);
    answer(&p, &f, &b);
    assert_string_equal(peer_reply_of(&p, 1)->data, "server.1=a:1:2");
    peer_finish(&p);
}

/* The one entry's scheme of a create's ACL. */
static void expect_acl(struct slice body, const char *scheme)
{
    struct wire_reader rd = wire_reader_make(body);
    struct wire_create_request record;
    struct wire_acl entry;
    assert_int_equal(wire_decode_create_request(&rd, &record), 0);
    assert_int_equal(record.acl.count, 1);
    assert_true(wire_next_acl(&record.acl, &entry));
    assert_true(slice_equal_str(entry.id.scheme, scheme));
}

static void test_acl_of_creates(void **state)
{
    const struct conclave_acl common = {CONCLAVE_PERM_ALL, "auth", ""};
    const struct conclave_acl own = {CONCLAVE_PERM_READ, "ip", "10.0.0.1"};
    struct core_options options = peer_options("");
    options.acl = &common;
    options.acl_count = 1;
    struct peer p;
    peer_init_with(&p, &options);
    peer_connect(&p, PEER_SESSION);
    struct conclave_op op = conclave_op_create("/a", "", 0, CONCLAVE_PERSISTENT);
    expect_acl(sent(&p, &op, WIRE_CREATE2).body, "auth");
    op.acl = &own;
    op.acl_count = 1;
    expect_acl(sent(&p, &op, WIRE_CREATE2).body, "ip");
    op = conclave_op_path(CONCLAVE_OP_SET_ACL, "/a", -1);
    struct peer_frame f = sent(&p, &op, WIRE_SET_ACL);
    struct wire_reader rd = wire_reader_make(f.body);
    struct wire_set_acl_request set;
    struct wire_acl entry;
    assert_int_equal(wire_decode_set_acl_request(&rd, &set), 0);
    assert_true(wire_next_acl(&set.acl, &entry) && slice_equal_str(entry.id.scheme, "world"));
    struct conclave_op parts[] = {conclave_op_create("/a", "", 0, CONCLAVE_PERSISTENT)};
    op = conclave_op_multi(parts, 1);
    f = sent(&p, &op, WIRE_MULTI);
    rd = wire_reader_make(f.body);
    struct wire_multi_header header;
    assert_int_equal(wire_decode_multi_header(&rd, &header), 0);
    expect_acl(wire_rest(&rd), "auth");
    peer_finish(&p);
}

static void test_wrong_acl_of_a_client(void **state)
{
    const struct conclave_acl wrong = {CONCLAVE_PERM_ALL, "auth", NULL};
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    options.acl = &wrong;
    assert_int_equal(conclave_client_open(&options, &client), CONCLAVE_EINVAL);
    options.acl_count = 1;
    assert_int_equal(conclave_client_open(&options, &client), CONCLAVE_EINVAL);
    options.acl = NULL;
    assert_int_equal(conclave_client_open(&options, &client), CONCLAVE_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create_ttl),
        cmocka_unit_test(test_multi_of_creates),
        cmocka_unit_test(test_multi_read),
        cmocka_unit_test(test_multi_read_checked),
        cmocka_unit_test(test_get_ephemerals),
        cmocka_unit_test(test_get_all_children_number),
        cmocka_unit_test(test_who_am_i),
        cmocka_unit_test(test_check_watches),
        cmocka_unit_test(test_reconfig),
        cmocka_unit_test(test_acl_of_creates),
        cmocka_unit_test(test_wrong_acl_of_a_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
