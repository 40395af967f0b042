#include "state/entry/command.h"
#include "state/entry/replacement.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static struct buf bytes;

static int setup(void **state)
{
    buf_init(&bytes, 0);
    return 0;
}

static int teardown(void **state)
{
    buf_finish(&bytes);
    return 0;
}

/* Other bytes come before the batch: `start` need not be 0. */
/* Reads all of a batch: 0 and its header, or an error. */
static int batch_check(struct slice all, struct batch_header *ret)
{
    struct batch_reader b;
    struct command c;
    int rc = batch_open(all, &b);
    while (rc == 0 && b.left > 0) {
        rc = batch_next(&b, &c) == 1 ? 0 : CONCLAVE_ECORRUPT;
    }
    if (rc == 0) {
        rc = batch_next(&b, &c);
    }
    if (rc == 0) {
        *ret = b.header;
    }
    return rc;
}

static size_t make_batch(struct wire_vector ids)
{
    struct batch_header header = {.origin = 3, .sequence = INT64_MAX, .previous = 1, .time_ms = -5};
    buf_append_str(&bytes, "before");
    size_t start = bytes.len;
    batch_begin(&bytes, &header);
    struct command one = {7, 8, WIRE_CREATE, ids, slice_str("body"), COMMAND_TTL, 0, 0};
    struct command two = {INT64_MIN,         -1,         WIRE_CLOSE_SESSION, WIRE_VECTOR_NULL,
                          slice_make("", 0), UINT32_MAX, INT32_MIN,          -7};
    batch_add(&bytes, start, &one);
    batch_add(&bytes, start, &two);
    return start;
}

static struct wire_vector make_ids(struct buf *b)
{
    buf_init(b, 0);
    wire_encode_id(b, &(struct wire_id){slice_str("ip"), slice_str("::1")});
    wire_encode_id(b, &(struct wire_id){slice_str("digest"), slice_str("a:b")});
    return wire_vector_make(b, 2);
}

static void comes_back_as_it_went(void **state)
{
    struct buf b;
    struct wire_vector ids = make_ids(&b);
    size_t start = make_batch(ids);
    struct batch_reader r;
    struct command c;
    assert_int_equal(batch_open(slice_make(bytes.data + start, bytes.len - start), &r), 0);
    assert_int_equal(r.header.origin, 3);
    assert_true(r.header.sequence == INT64_MAX);
    assert_int_equal(r.header.previous, 1);
    assert_int_equal(r.header.time_ms, -5);
    assert_int_equal(r.header.count, 2);
    assert_int_equal(batch_next(&r, &c), 1);
    assert_int_equal(c.session_id, 7);
    assert_int_equal(c.cxid, 8);
    assert_int_equal(c.type, WIRE_CREATE);
    assert_int_equal(c.ids.count, 2);
    assert_true(slice_equal(c.ids.items, ids.items));
    assert_true(slice_equal_str(c.body, "body"));
    assert_int_equal(c.options, COMMAND_TTL);
    assert_int_equal(batch_next(&r, &c), 1);
    assert_true(c.session_id == INT64_MIN);
    assert_int_equal(c.ids.count, -1);
    assert_int_equal(c.options, UINT32_MAX);
    assert_int_equal(c.number, INT32_MIN);
    assert_int_equal(c.unanswered, -7);
    assert_int_equal(c.body.len, 0);
    assert_int_equal(batch_next(&r, &c), 0);
    assert_int_equal(batch_next(&r, &c), 0);
    buf_finish(&b);
}

static void empty_batch(void **state)
{
    struct batch_reader r;
    struct command c;
    batch_begin(&bytes, &(struct batch_header){1, 2, 0, 3, 99});
    assert_int_equal(batch_open(buf_slice(&bytes), &r), 0);
    assert_int_equal(r.header.count, 0);
    assert_int_equal(batch_next(&r, &c), 0);
}

static int read_all(struct slice batch)
{
    struct batch_reader r;
    struct command c;
    int rc = batch_open(batch, &r);
    while (rc == 0 && (rc = batch_next(&r, &c)) == 1) {
        rc = 0;
        if (r.left == 0) {
            return batch_next(&r, &c);
        }
    }
    return rc;
}

static void cut_anywhere_is_corrupt(void **state)
{
    struct buf b;
    size_t start = make_batch(make_ids(&b));
    size_t len = bytes.len - start;
    assert_int_equal(read_all(slice_make(bytes.data + start, len)), 0);
    for (size_t n = 0; n < len; n++) {
        assert_int_equal(read_all(slice_make(bytes.data + start, n)), CONCLAVE_ECORRUPT);
    }
    buf_append_u8(&bytes, 0);
    assert_int_equal(read_all(slice_make(bytes.data + start, len + 1)), CONCLAVE_ECORRUPT);
    bytes.data[start] = 5;
    assert_int_equal(read_all(slice_make(bytes.data + start, len)), CONCLAVE_ECORRUPT);
    buf_finish(&b);
}

static void garbage_is_survived(void **state)
{
    struct prng prng = {4711};
    uint8_t garbage[128];
    for (int i = 0; i < 20000; i++) {
        for (size_t n = 0; n < sizeof garbage; n++) {
            uint64_t v = prng_next(&prng);
            garbage[n] = v % 3 == 0 ? (uint8_t)(v >> 8) : 0;
        }
        garbage[0] = i % 2 == 0 ? 2 : 4;
        int rc = read_all(slice_make(garbage, prng_next(&prng) % sizeof garbage));
        assert_true(rc == 0 || rc == CONCLAVE_ECORRUPT);
    }
}

/* Written by the version before. */
static void version_2_is_read(void **state)
{
    static const char old[] =
        "\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x4d\0\0\0\0\x07\x5b\xcd\x15\0\0\0\x01"
        "\x01\0\0\0\0\0\0\x01\0\0\0\x09\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x02ip"
        "\0\0\0\x03::1\0\0\0\x2c\0\0\0\x04/old\0\0\0\x01v\0\0\0\x01\0\0\0\x1f"
        "\0\0\0\x05world\0\0\0\x06"
        "anyone\0\0\0\x01";
    struct slice batch = slice_make(old, sizeof old - 1);
    struct batch_reader r;
    struct command c;
    assert_int_equal(batch_open(batch, &r), 0);
    assert_int_equal(r.header.origin, 3);
    assert_int_equal(r.header.sequence, 77);
    assert_int_equal(r.header.previous, BATCH_PREVIOUS_UNKNOWN);
    assert_int_equal(r.header.time_ms, 123456789);
    assert_int_equal(batch_next(&r, &c), 1);
    assert_true(c.session_id == 0x100000000000001);
    assert_int_equal(c.cxid, 9);
    assert_int_equal(c.type, WIRE_CREATE);
    assert_int_equal(c.options, COMMAND_TTL);
    assert_int_equal(c.body.len, 44);
    assert_int_equal(batch_next(&r, &c), 0);
    for (size_t n = 0; n < batch.len; n++) {
        assert_int_equal(read_all(slice_make(old, n)), CONCLAVE_ECORRUPT);
    }
}

static void the_leader_stamps_its_time(void **state)
{
    struct batch_reader r;
    struct batch_header header = {.origin = 5, .sequence = 9, .previous = 8, .time_ms = 1};
    struct command c = {1, 2, WIRE_SYNC, WIRE_VECTOR_NULL, slice_str("body"), 0, 0, 0};
    batch_begin(&bytes, &header);
    batch_add(&bytes, 0, &c);
    size_t len = bytes.len;
    assert_int_equal(batch_stamp_time(&bytes, 0x1122334455667788), 0);
    assert_int_equal(bytes.len, len);
    assert_int_equal(batch_check(buf_slice(&bytes), &header), 0);
    assert_true(header.time_ms == 0x1122334455667788);
    assert_int_equal(header.origin, 5);
    assert_int_equal(header.sequence, 9);
    assert_int_equal(header.previous, 8);
    assert_int_equal(header.count, 1);
    assert_int_equal(batch_open(buf_slice(&bytes), &r), 0);
    assert_int_equal(batch_next(&r, &c), 1);
    assert_true(slice_equal_str(c.body, "body"));
    bytes.data[0] = 2;
    assert_int_equal(batch_stamp_time(&bytes, 1), CONCLAVE_ECORRUPT);
    bytes.data[0] = 4;
    bytes.len = 20;
    assert_int_equal(batch_stamp_time(&bytes, 1), CONCLAVE_ECORRUPT);
    bytes.len = 0;
    assert_int_equal(batch_stamp_time(&bytes, 1), CONCLAVE_ECORRUPT);
}

static void check_reads_to_the_end(void **state)
{
    struct buf b;
    size_t start = make_batch(make_ids(&b));
    struct batch_header header = {.origin = 99};
    for (size_t n = 0; n < bytes.len - start; n++) {
        assert_int_equal(batch_check(slice_make(bytes.data + start, n), &header),
                         CONCLAVE_ECORRUPT);
    }
    assert_int_equal(header.origin, 99);
    assert_int_equal(batch_check(slice_make(bytes.data + start, bytes.len - start), &header), 0);
    assert_int_equal(header.origin, 3);
    buf_finish(&b);
}

/* It would be taken for one of version 2. */
static void unknown_previous_is_not_written(void **state)
{
    struct batch_reader r;
    batch_begin(&bytes, &(struct batch_header){1, 2, BATCH_PREVIOUS_UNKNOWN, 3, 0});
    assert_int_equal(batch_open(buf_slice(&bytes), &r), CONCLAVE_ECORRUPT);
}

static void what_does_not_fit_is_not_half_there(void **state)
{
    struct buf small;
    buf_init(&small, 60);
    batch_begin(&small, &(struct batch_header){1, 2, 0, 3, 0});
    size_t len = small.len;
    struct command big = {1, 1, WIRE_SET_DATA, WIRE_VECTOR_NULL, buf_slice(&small), 0, 0, 0};
    batch_add(&small, 0, &big);
    assert_false(buf_ok(&small));
    assert_int_equal(small.len, len);
    struct batch_reader r;
    assert_int_equal(batch_open(buf_slice(&small), &r), 0);
    assert_int_equal(r.header.count, 0);
    buf_finish(&small);
}

static void spent_comes_back_and_null_is_malformed(void **state)
{
    struct spent spent = {slice_str("/a"), 5, INT64_MAX};
    struct spent back;
    spent_encode(&bytes, &spent);
    assert_int_equal(spent_decode(buf_slice(&bytes), &back), 0);
    assert_true(slice_equal(back.path, spent.path));
    assert_int_equal(back.czxid, 5);
    assert_true(back.mzxid == INT64_MAX);
    for (size_t n = 0; n < bytes.len; n++) {
        assert_int_equal(spent_decode(slice_make(bytes.data, n), &back),
                         CONCLAVE_MARSHALLING_ERROR);
    }
    buf_reset(&bytes);
    spent_encode(&bytes, &(struct spent){SLICE_NULL, 1, 1});
    assert_int_equal(spent_decode(buf_slice(&bytes), &back), CONCLAVE_MARSHALLING_ERROR);
}

static void replacement_is_told_from_a_batch(void **state)
{
    struct replacement back;
    struct batch_reader batch;
    const struct replacement piece = {
        .origin = 3, .id = INT64_MIN, .number = 7, .flags = REPLACEMENT_MIRRORS};
    replacement_begin(&bytes, &piece);
    buf_append_str(&bytes, "snapshot");
    assert_true(replacement_is(buf_slice(&bytes)));
    assert_int_equal(replacement_open(buf_slice(&bytes), &back), 0);
    assert_int_equal(back.origin, 3);
    assert_true(back.id == INT64_MIN);
    assert_int_equal(back.number, 7);
    assert_int_equal(back.flags, REPLACEMENT_MIRRORS);
    assert_true(slice_equal_str(back.bytes, "snapshot"));
    assert_int_equal(batch_open(buf_slice(&bytes), &batch), CONCLAVE_ECORRUPT);
    for (size_t n = 0; n < bytes.len - strlen("snapshot"); n++) {
        assert_int_equal(replacement_open(slice_make(bytes.data, n), &back), CONCLAVE_ECORRUPT);
    }
    buf_reset(&bytes);
    make_batch(WIRE_VECTOR_NULL);
    struct slice entry = slice_make(bytes.data + 6, bytes.len - 6);
    assert_false(replacement_is(entry));
    assert_int_equal(replacement_open(entry, &back), CONCLAVE_ECORRUPT);
}

/* Pieces of others, late ones and repeated ones change nothing; the first one begins anew. */
static void pieces_in_order_only(void **state)
{
    struct replacement_pieces p;
    struct slice whole;
    struct replacement piece = {.origin = 1, .id = 5, .bytes = slice_str("ab")};
    replacement_pieces_init(&p);
    assert_int_equal(replacement_pieces_take(&p, &piece, &whole), 0);
    piece.number = 2;
    assert_int_equal(replacement_pieces_take(&p, &piece, &whole), 0); /* a gap */
    piece.number = 1;
    piece.origin = 2;
    assert_int_equal(replacement_pieces_take(&p, &piece, &whole), 0); /* of another server */
    piece.origin = 1;
    assert_int_equal(replacement_pieces_take(&p, &piece, &whole), 0);
    assert_int_equal(replacement_pieces_take(&p, &piece, &whole), 0); /* repeated */
    assert_int_equal(p.bytes.len, 4);
    piece.number = 2;
    piece.flags = REPLACEMENT_LAST;
    piece.bytes = slice_str("c");
    assert_int_equal(replacement_pieces_take(&p, &piece, &whole), 1);
    assert_true(slice_equal_str(whole, "ababc"));
    piece.number = 0;
    piece.id = 6;
    assert_int_equal(replacement_pieces_take(&p, &piece, &whole), 1);
    assert_true(slice_equal_str(whole, "c"));
    piece.flags = REPLACEMENT_GIVEN_UP;
    piece.id = 7;
    assert_int_equal(replacement_pieces_take(&p, &piece, &whole), 0);
    assert_int_equal(p.id, 6); /* it gives up another one */
    piece.id = 6;
    assert_int_equal(replacement_pieces_take(&p, &piece, &whole), 0);
    assert_int_equal(p.id, 0);
    replacement_pieces_finish(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(comes_back_as_it_went, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_batch, setup, teardown),
        cmocka_unit_test_setup_teardown(cut_anywhere_is_corrupt, setup, teardown),
        cmocka_unit_test_setup_teardown(garbage_is_survived, setup, teardown),
        cmocka_unit_test_setup_teardown(version_2_is_read, setup, teardown),
        cmocka_unit_test_setup_teardown(the_leader_stamps_its_time, setup, teardown),
        cmocka_unit_test_setup_teardown(check_reads_to_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(unknown_previous_is_not_written, setup, teardown),
        cmocka_unit_test_setup_teardown(what_does_not_fit_is_not_half_there, setup, teardown),
        cmocka_unit_test_setup_teardown(spent_comes_back_and_null_is_malformed, setup, teardown),
        cmocka_unit_test_setup_teardown(replacement_is_told_from_a_batch, setup, teardown),
        cmocka_unit_test(pieces_in_order_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
