/*
 * Known packets, byte for byte, written down by hand from zookeeper.jute and BinaryOutputArchive of
 * Apache ZooKeeper 3.9: what clients send and what they expect.
 */
#include "exact.h"
#include "wire/ops.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* A string literal's bytes without its final NUL. */
#define BYTES(literal) slice_make(literal, sizeof(literal) - 1)

static void check_bytes(struct buf *b, struct slice want)
{
    assert_true(buf_ok(b));
    assert_int_equal(b->len, want.len);
    assert_memory_equal(b->data, want.data, want.len);
    buf_reset(b);
}

#define CONNECT_44                                                                                 \
    "\0\0\0\0"                 /* protocolVersion */                                               \
    "\0\0\0\0\0\0\0\x2a"       /* lastZxidSeen */                                                  \
    "\0\0\x75\x30"             /* timeOut 30000 */                                                 \
    "\1\0\x07\xab\x7c\x55\0\6" /* sessionId */                                                     \
    "\0\0\0\x10"               /* passwd: 16 bytes */                                              \
    "\x07\xc3\x4e\x90\x9a\xce\x12\x0a"                                                             \
    "\x12\xbf\x5d\x5f\xda\xb9\x13\x04"

static void test_connect_request(void **state)
{
    static const char packet[] = CONNECT_44 "\1"; /* and the readOnly flag of 3.4 and later */
    struct slice bytes = exact_copy(packet, 45);
    struct wire_reader r = wire_reader_make(bytes);
    struct wire_connect_request c;
    assert_int_equal(wire_decode_connect_request(&r, &c), 0);
    assert_int_equal(c.protocol_version, 0);
    assert_int_equal(c.last_zxid_seen, 42);
    assert_int_equal(c.timeout_ms, 30000);
    assert_true(c.session_id == 0x10007ab7c550006);
    assert_int_equal(c.passwd.len, WIRE_PASSWD_LEN);
    assert_int_equal(c.passwd.data[0], 0x07);
    assert_int_equal(wire_left(&r), 1);
    assert_true(wire_read_boolean(&r));
    struct buf b;
    buf_init(&b, 0);
    wire_encode_connect_request(&b, &c);
    check_bytes(&b, BYTES(CONNECT_44));
    wire_print_connect_request(&b, &c);
    assert_string_equal(buf_cstr(&b), "{protocol_version=0 last_zxid_seen=0x2a timeout_ms=30000 "
                                      "session_id=0x10007ab7c550006 passwd=16:***}");
    buf_finish(&b);
    exact_free(bytes);
}

static void test_connect_response(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    struct wire_connect_response c = {
        .timeout_ms = 4000,
        .session_id = 0x100000000000000,
        .passwd = BYTES("\xf2\x2a\xcd\x4a\x97\xe6\x9d\x6d\x20\xa4\x9b\xb6\x38\xea\xdb\x38"),
    };
    size_t frame = wire_frame_begin(&b);
    wire_encode_connect_response(&b, &c);
    wire_write_boolean(&b, false);
    wire_frame_end(&b, frame);
    check_bytes(&b, BYTES("\0\0\0\x25" /* 37 */
                          "\0\0\0\0\0\0\x0f\xa0\1\0\0\0\0\0\0\0\0\0\0\x10"
                          "\xf2\x2a\xcd\x4a\x97\xe6\x9d\x6d\x20\xa4\x9b\xb6\x38\xea\xdb\x38"
                          "\0"));
    buf_finish(&b);
}

static void test_create_request(void **state)
{
    static const char packet[] = "\0\0\0\x34"                            /* frame: 52 bytes */
                                 "\0\0\0\7\0\0\0\1"                      /* xid 7, create */
                                 "\0\0\0\2/a"                            /* path */
                                 "\0\0\0\3xyz"                           /* data */
                                 "\0\0\0\1"                              /* one ACL entry */
                                 "\0\0\0\x1f\0\0\0\5world\0\0\0\6anyone" /* 31, world, anyone */
                                 "\0\0\0\3";                             /* ephemeral sequential */
    struct slice body;
    int32_t len;
    assert_int_equal(wire_frame_cut(BYTES(packet), WIRE_FRAME_MAX, &body, &len), 1);
    assert_int_equal(len, sizeof packet - 1 - 4);
    struct wire_reader r = wire_reader_make(body);
    struct wire_request_header h;
    assert_int_equal(wire_decode_request_header(&r, &h), 0);
    assert_int_equal(h.xid, 7);
    assert_int_equal(h.type, WIRE_CREATE);
    struct wire_create_request c;
    assert_int_equal(wire_decode_create_request(&r, &c), 0);
    assert_int_equal(wire_left(&r), 0);
    assert_true(slice_equal_str(c.path, "/a"));
    assert_true(slice_equal_str(c.data, "xyz"));
    assert_int_equal(c.flags, WIRE_MODE_EPHEMERAL_SEQUENTIAL);
    assert_int_equal(c.acl.count, 1);
    struct wire_vector v = c.acl;
    struct wire_acl acl;
    assert_true(wire_next_acl(&v, &acl));
    assert_int_equal(acl.perms, WIRE_PERM_ALL);
    assert_true(slice_equal_str(acl.id.scheme, "world"));
    assert_true(slice_equal_str(acl.id.id, "anyone"));
    assert_false(wire_next_acl(&v, &acl));

    struct buf b;
    buf_init(&b, 0);
    size_t frame = wire_frame_begin(&b);
    wire_encode_request_header(&b, &h);
    wire_encode_create_request(&b, &c);
    wire_frame_end(&b, frame);
    check_bytes(&b, BYTES(packet));
    buf_finish(&b);
}

static void test_notification(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    size_t frame = wire_frame_begin(&b);
    wire_encode_reply_header(
        &b, &(struct wire_reply_header){.xid = WIRE_XID_NOTIFICATION, .zxid = 0x100000002});
    wire_encode_watcher_event(&b, &(struct wire_watcher_event){WIRE_EVENT_NODE_DATA_CHANGED,
                                                               WIRE_STATE_SYNC_CONNECTED,
                                                               slice_str("/a")});
    wire_frame_end(&b, frame);
    check_bytes(&b, BYTES("\0\0\0\x1e"                               /* 30 */
                          "\xff\xff\xff\xff\0\0\0\1\0\0\0\2\0\0\0\0" /* header */
                          "\0\0\0\3\0\0\0\3\0\0\0\2/a"));
    buf_finish(&b);
}

static void test_stat(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    struct wire_stat stat = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    wire_encode_stat(&b, &stat);
    assert_int_equal(b.len, 68);
    check_bytes(&b, BYTES("\0\0\0\0\0\0\0\1"  /* czxid */
                          "\0\0\0\0\0\0\0\2"  /* mzxid */
                          "\0\0\0\0\0\0\0\3"  /* ctime */
                          "\0\0\0\0\0\0\0\4"  /* mtime */
                          "\0\0\0\5"          /* version */
                          "\0\0\0\6"          /* cversion */
                          "\0\0\0\7"          /* aversion */
                          "\0\0\0\0\0\0\0\x8" /* ephemeralOwner */
                          "\0\0\0\x9"         /* dataLength */
                          "\0\0\0\xa"         /* numChildren */
                          "\0\0\0\0\0\0\0\xb" /* pzxid */));
    buf_finish(&b);
}

/* A vector of children: null has no place in a reply, none is a count of 0. */
static void test_children(void **state)
{
    struct buf items, b;
    buf_init(&items, 0);
    buf_init(&b, 0);
    wire_write_string(&items, slice_str("a"));
    wire_write_string(&items, slice_str("bc"));
    struct wire_get_children_response children = {wire_vector_make(&items, 2)};
    wire_encode_get_children_response(&b, &children);
    check_bytes(&b, BYTES("\0\0\0\2\0\0\0\1a\0\0\0\2bc"));
    buf_reset(&items);
    children.children = wire_vector_make(&items, 0);
    wire_encode_get_children_response(&b, &children);
    check_bytes(&b, BYTES("\0\0\0\0"));
    buf_finish(&items);
    buf_finish(&b);
}

static void test_header_of_multi(void **state)
{
    struct buf b;
    buf_init(&b, 0);
    wire_encode_multi_header(&b, &(struct wire_multi_header){WIRE_CREATE, false, -1});
    wire_encode_multi_header(&b, &(struct wire_multi_header){-1, true, -1});
    check_bytes(&b, BYTES("\0\0\0\1\0\xff\xff\xff\xff\xff\xff\xff\xff\1\xff\xff\xff\xff"));
    buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connect_request),
        cmocka_unit_test(test_connect_response),
        cmocka_unit_test(test_create_request),
        cmocka_unit_test(test_notification),
        cmocka_unit_test(test_stat),
        cmocka_unit_test(test_children),
        cmocka_unit_test(test_header_of_multi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
