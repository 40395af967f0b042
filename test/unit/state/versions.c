/* Snapshots of earlier versions, as they were written then. */
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* Version 1: sessions have no owner, and there are no origins. Nine commands: two sessions, /app,
 * an ephemeral node, a container with a child, a node with an ACL, a setData, a refused delete. */
static const char version_1[] = "434f4e434c4156450000000100000000000000ef430000000000000009000000"
                                "0353010000000000000200007530020202020202020202020202020202025301"
                                "0000000000000100000fa0010101010101010101010101010101014100000002"
                                "000000010000001f0000000664696765737400000003753a7041000000000000"
                                "00010000001f00000005776f726c6400000006616e796f6e6541000000010000"
                                "00010000000100000005776f726c6400000006616e796f6e654e000000012f00"
                                "0000000000000000000000000000000000000000000000000000000000000000"
                                "0000000000000000000000000000000000000000000000000000030000000000"
                                "0000077f5b06151b09c1ef00000000000000ac4e0000000a2f7a6f6f6b656570"
                                "6572000000000000000000000000000000000000000000000000000000000000"
                                "0000000000000000000000000000000000000000000000000000000000000000"
                                "0000000000004e000000102f7a6f6f6b65657065722f71756f74610000000000"
                                "0000000000000000000000000000000000000000000000000000000000000000"
                                "000000000000000000000000000000000000000000000000000000000000006d"
                                "543b032599a69600000000000000ac4e000000112f7a6f6f6b65657065722f63"
                                "6f6e666967000000000000000100000000000000000000000000000000000000"
                                "00000000000000000000000000000000000000000000000000ffffffff000000"
                                "0000000000000000004e000000042f617070000000056e657765720000000000"
                                "000000000000000000000000000003000000000000000800000000000003eb00"
                                "000000000003f00000000100000000000000010000000000000004873188bf7c"
                                "8778c800000000000000a04e000000062f6170702f65000000046d696e650000"
                                "0000010000000000000200000000000000040000000000000004000000000000"
                                "03ec00000000000003ec00000000000000000000000000000000000000044e00"
                                "0000042f626f7800000000000000008000000000000000000000000000000500"
                                "0000000000000500000000000003ed00000000000003ed000000000000000000"
                                "0000010000000000000006a6ae6b6e81b1dfb900000000000000c44e00000011"
                                "2f626f782f732d30303030303030303030ffffffff0000000000000000000000"
                                "000000000000000006000000000000000600000000000003ee00000000000003"
                                "ee00000000000000000000000000000000000000064e000000072f7365637265"
                                "7400000001780000000200000000000000000000000000000007000000000000"
                                "000700000000000003ef00000000000003ef0000000000000000000000000000"
                                "000000000007450000000000000002000000000000000300000000000000092b"
                                "16e0fdaf234519";

static struct buf unhex(const char *hex)
{
    struct buf bytes;
    buf_init(&bytes, 0);
    for (; hex[0] != '\0'; hex += 2) {
        char pair[3] = {hex[0], hex[1], '\0'};
        buf_append_u8(&bytes, (uint8_t)strtoul(pair, NULL, 16));
    }
    assert_true(buf_ok(&bytes));
    return bytes;
}

static void version_1_is_read(void **state)
{
    struct world *w = *state;
    struct state_session session;
    struct buf bytes = unhex(version_1);
    state_destroy(w->s);
    assert_int_equal(state_restore(buf_slice(&bytes), &hash_key_fixed, &w->s), 0);
    assert_int_equal(state_zxid(w->s), 9);
    assert_int_equal(world_stat(w, "/app").version, 1);
    assert_int_equal(world_stat(w, "/app").mzxid, 8);
    assert_true(world_stat(w, "/app/e").ephemeral_owner == 0x100000000000002);
    assert_int_equal(world_stat(w, "/box").num_children, 1);
    assert_int_equal(world_read(w, WIRE_GET_DATA, "/secret"), CONCLAVE_NO_AUTH);
    assert_true(state_session_find(w->s, 0x100000000000001, &session));
    assert_int_equal(session.timeout_ms, 4000);
    assert_int_equal(session.owner, 0);
    assert_true(state_session_find(w->s, 0x100000000000002, &session));
    assert_int_equal(session.timeout_ms, 30000);
    assert_int_equal(session.passwd[15], 2);
    assert_int_equal(state_origin_sequence(w->s, 1), 0);

    /* Written again it has the present version, and the same content. */
    struct state *again;
    uint64_t digest = state_digest(w->s);
    assert_int_equal(state_snapshot_begin(w->s), 0);
    assert_int_equal(state_snapshot_step(w->s, 1 << 20, &w->out), 0);
    assert_int_equal(w->out.data[11], 3);
    assert_int_equal(state_restore(buf_slice(&w->out), &hash_key_fixed, &again), 0);
    assert_true(state_digest(again) == digest);
    state_destroy(again);
    buf_finish(&bytes);
}

static void version_1_cut_or_flipped_is_corrupt(void **state)
{
    struct buf bytes = unhex(version_1);
    struct state *restored = NULL;
    for (size_t n = 0; n < bytes.len; n++) {
        assert_int_equal(state_restore(slice_make(bytes.data, n), &hash_key_fixed, &restored),
                         CONCLAVE_ECORRUPT);
        bytes.data[n] ^= 1;
        assert_int_equal(state_restore(buf_slice(&bytes), &hash_key_fixed, &restored),
                         CONCLAVE_ECORRUPT);
        bytes.data[n] ^= 1;
    }
    assert_null(restored);
    buf_finish(&bytes);
}

/* Versions that are not known yet are not guessed at. */
static void later_versions_are_refused(void **state)
{
    struct world *w = *state;
    struct state *restored = NULL;
    assert_int_equal(state_snapshot_begin(w->s), 0);
    assert_int_equal(state_snapshot_step(w->s, 1 << 20, &w->out), 0);
    for (int version = 0; version < 256; version++) {
        w->out.data[11] = (uint8_t)version;
        if (version != 3) {
            assert_int_equal(state_restore(buf_slice(&w->out), &hash_key_fixed, &restored),
                             CONCLAVE_ECORRUPT);
        }
    }
    assert_null(restored);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, world_setup, world_teardown)
    const struct CMUnitTest tests[] = {
        T(version_1_is_read),
        T(version_1_cut_or_flipped_is_corrupt),
        T(later_versions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
