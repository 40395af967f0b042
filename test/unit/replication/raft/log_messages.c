/* Frames of channel 1: there and back, and no byte too few or too many. */
#include "replication/raft/log_messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Decodes, in a block of exactly its size; every shorter and longer frame is refused. */
static struct log_message there_and_back(struct buf *b, uint8_t **ret_frame)
{
    struct log_message m, other;
    uint8_t *frame = malloc(b->len);
    memcpy(frame, b->data, b->len);
    assert_true(buf_ok(b));
    assert_int_equal(log_message_decode(slice_make(frame, b->len), &m), 0);
    for (size_t len = 0; len <= b->len + 1; len++) {
        if (len == b->len) {
            continue;
        }
        uint8_t *cut = calloc(1, len + 1);
        memcpy(cut, b->data, len < b->len ? len : b->len);
        assert_int_equal(log_message_decode(slice_make(cut, len), &other), CONCLAVE_EPROTO);
        free(cut);
    }
    *ret_frame = frame;
    return m;
}

static void check_engine(const struct engine_message *want)
{
    struct buf b;
    uint8_t *frame;
    buf_init(&b, 0);
    log_message_put_engine(&b, want);
    if (want->kind == ENGINE_APPEND) {
        for (uint32_t i = 0; i < want->append.count; i++) {
            log_message_put_entry(&b, 7 + i, i % 3 + 1, slice_make("payload", i % 8));
        }
    }
    struct log_message m = there_and_back(&b, &frame);
    assert_int_equal(m.kind, MESSAGE_ENGINE);
    assert_memory_equal(&m.engine, want, sizeof *want);
    struct engine_entry entry;
    uint32_t n = 0;
    for (; log_message_next_entry(&m.entries, &entry); n++) {
        assert_int_equal(entry.term, 7 + n);
        assert_int_equal(entry.kind, n % 3 + 1);
        assert_true(slice_equal(entry.payload, slice_make("payload", n % 8)));
    }
    assert_int_equal(n, want->kind == ENGINE_APPEND ? want->append.count : 0);
    free(frame);
    buf_finish(&b);
}

static void test_engine_messages(void **state)
{
    struct engine_message m;
    for (uint32_t n = 0; n < 20; n++) {
        memset(&m, 0, sizeof m);
        m.kind = ENGINE_APPEND;
        m.term = UINT64_C(0x8000000000000001);
        m.append.prev_index = 5;
        m.append.prev_term = 4;
        m.append.commit = 3;
        m.append.first_index = 6;
        m.append.count = n;
        check_engine(&m);
    }
    for (unsigned flags = 0; flags < 4; flags++) {
        memset(&m, 0, sizeof m);
        m.kind = ENGINE_VOTE;
        m.term = 2;
        m.vote.candidate = 9;
        m.vote.last_index = 8;
        m.vote.last_term = 7;
        m.vote.disrupt = (flags & 1) != 0;
        m.vote.pre_vote = (flags & 2) != 0;
        check_engine(&m);
        memset(&m, 0, sizeof m);
        m.kind = ENGINE_VOTE_RESULT;
        m.term = 2;
        m.vote_result.granted = (flags & 1) != 0;
        m.vote_result.pre_vote = (flags & 2) != 0;
        m.vote_result.features = 0xff01;
        m.vote_result.capacity = 2;
        check_engine(&m);
    }
    memset(&m, 0, sizeof m);
    m.kind = ENGINE_APPEND_RESULT;
    m.term = 2;
    m.append_result.rejected = 3;
    m.append_result.last_index = 4;
    m.append_result.features = 1;
    m.append_result.capacity = 0xfffe;
    check_engine(&m);
    memset(&m, 0, sizeof m);
    m.kind = ENGINE_TIMEOUT_NOW;
    m.term = 2;
    m.timeout_now.last_index = 3;
    m.timeout_now.last_term = 1;
    check_engine(&m);
}

static void test_snapshot_messages(void **state)
{
    struct buf b;
    uint8_t *frame;
    buf_init(&b, 0);
    const struct log_message_offer offer = {1, 2, 3, 4, 5, 6};
    log_message_put_offer(&b, &offer);
    struct log_message m = there_and_back(&b, &frame);
    assert_int_equal(m.kind, MESSAGE_OFFER);
    assert_memory_equal(&m.offer, &offer, sizeof offer);
    free(frame);
    buf_reset(&b);

    const struct log_message_chunk chunk = {1, 2, 3, slice_str("some bytes")};
    log_message_put_chunk(&b, &chunk);
    m = there_and_back(&b, &frame);
    assert_int_equal(m.kind, MESSAGE_CHUNK);
    assert_int_equal(m.chunk.identity, 1);
    assert_int_equal(m.chunk.offset, 2);
    assert_int_equal(m.chunk.checksum, 3);
    assert_true(slice_equal(m.chunk.bytes, chunk.bytes));
    free(frame);
    buf_reset(&b);

    const struct log_message_wanted wanted = {1, 2, WANT_AGAIN};
    log_message_put_wanted(&b, &wanted);
    m = there_and_back(&b, &frame);
    assert_int_equal(m.wanted.offset, 2);
    assert_int_equal(m.wanted.state, WANT_AGAIN);
    free(frame);
    b.data[b.len - 1] = WANT_AGAIN + 1;
    assert_int_equal(log_message_decode(buf_slice(&b), &m), CONCLAVE_EPROTO);
    buf_finish(&b);
}

static void test_notes(void **state)
{
    struct buf b;
    uint8_t *frame;
    buf_init(&b, 0);
    for (int kind = MESSAGE_ROUND; kind <= MESSAGE_JOIN_OK; kind++) {
        const struct log_message_note note = {UINT64_MAX, 2, 3};
        buf_reset(&b);
        log_message_put_note(&b, (enum log_message_kind)kind, &note);
        struct log_message m = there_and_back(&b, &frame);
        assert_int_equal(m.kind, kind);
        assert_memory_equal(&m.note, &note, sizeof note);
        free(frame);
    }
    buf_finish(&b);
}

/* Lengths and counts that promise more than there is, kinds that nobody knows. */
static void test_lies(void **state)
{
    struct buf b;
    struct log_message m;
    buf_init(&b, 0);
    struct engine_message append = {.kind = ENGINE_APPEND, .term = 1};
    append.append.count = UINT32_MAX;
    log_message_put_engine(&b, &append);
    log_message_put_entry(&b, 1, 1, slice_str("x"));
    assert_int_equal(log_message_decode(buf_slice(&b), &m), CONCLAVE_EPROTO);
    memset(b.data + b.len - 5, 0xff, 4); /* the length of the entry */
    assert_int_equal(log_message_decode(buf_slice(&b), &m), CONCLAVE_EPROTO);
    b.data[1] = ENGINE_INSTALL;
    assert_int_equal(log_message_decode(buf_slice(&b), &m), CONCLAVE_EPROTO);
    b.data[1] = 200;
    assert_int_equal(log_message_decode(buf_slice(&b), &m), CONCLAVE_EPROTO);
    b.data[0] = 200;
    assert_int_equal(log_message_decode(buf_slice(&b), &m), CONCLAVE_EPROTO);
    b.data[0] = 0;
    assert_int_equal(log_message_decode(buf_slice(&b), &m), CONCLAVE_EPROTO);
    buf_finish(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_engine_messages),
        cmocka_unit_test(test_snapshot_messages),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_lies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
