/* Frames and hellos of a peer link as bytes, and the refused ones. */
#include "cluster/links/peer_hello.h"

#include "base/endian.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct hello sample = {
    .version = HELLO_VERSION,
    .from = {.id = 7, .cluster = {1, 2, 3, [15] = 9}, .age = PEER_GROWN},
    .to = 0x0102030405060708,
    .nonce = 0xfedcba9876543210,
    .host = "one.example",
};

/* The bytes behind the kind of the only frame in b. */
static struct slice control_of(struct buf *b, unsigned kind)
{
    struct slice all = buf_slice(b);
    struct slice rest;
    struct peer_frame f;
    assert_int_equal(frame_take(&all, HELLO_FRAME_MAX, &f), 1);
    assert_int_equal(all.len, 0);
    assert_int_equal(f.channel, 0);
    assert_int_equal(control_kind(f.bytes, &rest), kind);
    return rest;
}

static void hello_comes_back(void **state)
{
    struct buf b;
    struct hello h;
    buf_init(&b, 0);
    hello_append(&b, &sample);
    assert_int_equal(hello_read(control_of(&b, CONTROL_HELLO), &h), 0);
    assert_int_equal(h.from.id, 7);
    assert_int_equal(h.to, sample.to);
    assert_int_equal(h.nonce, sample.nonce);
    assert_int_equal(h.from.age, PEER_GROWN);
    assert_memory_equal(h.from.cluster, sample.from.cluster, PEER_CLUSTER_SIZE);
    assert_string_equal(h.host, "one.example");
    buf_finish(&b);
}

static void longest_host_fits(void **state)
{
    struct hello h = sample;
    struct hello got;
    struct buf b;
    memset(h.host, 'x', NET_HOST_MAX - 1);
    buf_init(&b, 0);
    hello_append(&b, &h);
    assert_int_equal(hello_read(control_of(&b, CONTROL_HELLO), &got), 0);
    assert_string_equal(got.host, h.host);
    buf_finish(&b);
}

/* Every hello that is cut short, and every one with a byte too many. */
static void hello_of_other_length_is_refused(void **state)
{
    struct buf b;
    struct hello h;
    buf_init(&b, 0);
    hello_append(&b, &sample);
    buf_append_u8(&b, 'x');
    struct slice rest = slice_make(b.data + FRAME_HEADER + 1, b.len - FRAME_HEADER - 1);
    for (size_t n = 0; n <= rest.len; n++) {
        uint8_t *copy = malloc(n + 1); /* so that a read beyond it is seen */
        memcpy(copy, rest.data, n);
        int rc = hello_read(slice_make(copy, n), &h);
        assert_int_equal(rc, n == rest.len - 1 ? 0 : CONCLAVE_EPROTO);
        free(copy);
    }
    buf_finish(&b);
}

static void refuse_changed(size_t offset, uint8_t value)
{
    struct buf b;
    struct hello h;
    buf_init(&b, 0);
    hello_append(&b, &sample);
    struct slice rest = control_of(&b, CONTROL_HELLO);
    ((uint8_t *)rest.data)[offset] = value;
    assert_int_equal(hello_read(rest, &h), CONCLAVE_EPROTO);
    buf_finish(&b);
}

static void hello_with_bad_fields_is_refused(void **state)
{
    refuse_changed(0, 'X');                         /* the magic */
    refuse_changed(8 + 2 + 16 + 7, 0);              /* id 0 */
    refuse_changed(8 + 2 + 16 + 16, PEER_LOST + 1); /* unknown age */
    refuse_changed(8 + 2 + 16 + 16, PEER_FRESH);    /* fresh, though with a cluster */
    refuse_changed(8 + 2 + 16 + 16 + 1 + 8 + 1, 0); /* a NUL in the host */
}

/* Who lost its data may know its cluster, or not. */
static void who_lost_its_data_is_read(void **state)
{
    for (uint8_t known = 0; known < 2; known++) {
        struct peer_identity lost = {.id = 7, .cluster = {known}, .age = PEER_LOST};
        struct peer_identity got = {.id = 7};
        struct buf b;
        buf_init(&b, 0);
        age_append(&b, &lost);
        assert_int_equal(age_read(control_of(&b, CONTROL_AGE), &got), 0);
        assert_int_equal(got.age, PEER_LOST);
        assert_int_equal(got.cluster[0], known);
        buf_finish(&b);
    }
}

static void hello_of_another_version_tells_only_that(void **state)
{
    struct hello h = sample;
    struct hello got;
    struct buf b;
    h.version = 0x1234;
    buf_init(&b, 0);
    hello_append(&b, &h);
    assert_int_equal(hello_read(control_of(&b, CONTROL_HELLO), &got), 0);
    assert_int_equal(got.version, 0x1234);
    assert_int_equal(got.from.id, 0);
    buf_finish(&b);
}

static void other_controls_come_back(void **state)
{
    struct peer_identity who = {0};
    unsigned reason;
    struct buf b;
    buf_init(&b, 0);
    age_append(&b, &sample.from);
    assert_int_equal(age_read(control_of(&b, CONTROL_AGE), &who), 0);
    assert_int_equal(who.age, PEER_GROWN);
    assert_memory_equal(who.cluster, sample.from.cluster, PEER_CLUSTER_SIZE);
    assert_int_equal(age_read(slice_make("short", 5), &who), CONCLAVE_EPROTO);
    buf_reset(&b);
    refuse_append(&b, HELLO_BAD_CLUSTER);
    assert_int_equal(refuse_read(control_of(&b, CONTROL_REFUSE), &reason), 0);
    assert_int_equal(reason, HELLO_BAD_CLUSTER);
    assert_int_equal(refuse_read(SLICE_NULL, &reason), CONCLAVE_EPROTO);
    buf_reset(&b);
    ping_append(&b);
    assert_int_equal(control_of(&b, CONTROL_PING).len, 0);
    buf_finish(&b);
}

static void frames_are_cut(void **state)
{
    struct buf b;
    struct peer_frame f;
    buf_init(&b, 0);
    frame_append_header(&b, 3, 5);
    buf_append_str(&b, "hello");
    frame_append_header(&b, 4, 0);
    for (size_t n = 0; n < b.len; n++) {
        struct slice part = slice_make(b.data, n);
        int rc = frame_take(&part, 100, &f);
        assert_int_equal(rc, n >= 10);
        assert_int_equal(part.len, n >= 10 ? n - 10 : n);
    }
    struct slice all = buf_slice(&b);
    assert_int_equal(frame_take(&all, 5, &f), 1);
    assert_int_equal(f.channel, 3);
    assert_true(slice_equal_str(f.bytes, "hello"));
    assert_int_equal(frame_take(&all, 5, &f), 1);
    assert_int_equal(f.channel, 4);
    assert_int_equal(f.bytes.len, 0);
    assert_int_equal(all.len, 0);
    buf_finish(&b);
}

static void frames_of_bad_length_are_refused(void **state)
{
    uint8_t header[FRAME_HEADER] = {0};
    struct slice s = slice_make(header, sizeof header);
    struct peer_frame f;
    assert_int_equal(frame_take(&s, PEER_FRAME_MAX, &f), CONCLAVE_EPROTO); /* no channel */
    put_be32(header, PEER_FRAME_MAX + 1);
    assert_int_equal(frame_take(&s, PEER_FRAME_MAX, &f), 0);
    put_be32(header, PEER_FRAME_MAX + 2);
    assert_int_equal(frame_take(&s, PEER_FRAME_MAX, &f), CONCLAVE_EPROTO);
    put_be32(header, UINT32_MAX);
    assert_int_equal(frame_take(&s, PEER_FRAME_MAX, &f), CONCLAVE_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_comes_back),
        cmocka_unit_test(longest_host_fits),
        cmocka_unit_test(hello_of_other_length_is_refused),
        cmocka_unit_test(hello_with_bad_fields_is_refused),
        cmocka_unit_test(who_lost_its_data_is_read),
        cmocka_unit_test(hello_of_another_version_tells_only_that),
        cmocka_unit_test(other_controls_come_back),
        cmocka_unit_test(frames_are_cut),
        cmocka_unit_test(frames_of_bad_length_are_refused),
    };
    return cmocka_run_group_tests_name("peer/hello", tests, NULL, NULL);
}
