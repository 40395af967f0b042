/* Repeated requests against a server that loses the answer, before or after it carried the request out. */
#include "support/fake_zk.h"
#include "wire/ops.h"

#include <conclave/easy.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct fake_zk *zk;
static struct conclave_client *client;

static int begin(void **state)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_retry_options retry = CONCLAVE_RETRY_OPTIONS_INIT;
    zk = fake_zk_start();
    assert_non_null(zk);
    fake_zk_create(zk, "/a", "old", 0);
    retry.pause_min_ms = 1;
    retry.pause_max_ms = 20;
    options.servers = fake_zk_address(zk, 0);
    options.retry = &retry;
    assert_int_equal(conclave_client_open(&options, &client), 0);
    assert_int_equal(conclave_client_start(client), 0);
    assert_int_equal(conclave_client_wait_connected(client, CONCLAVE_FOREVER), 0);
    return 0;
}

static int end(void **state)
{
    conclave_client_close(client, 1000);
    fake_zk_stop(zk);
    return 0;
}

/* The next requests of this kind meet this fate. */
static void lose(int32_t op, enum fake_action action, int times)
{
    struct fake_hook hook = {.endpoint = FAKE_ANY_ENDPOINT, .op = op, .nth = 1, .action = action};
    hook.error = CONCLAVE_THROTTLED;
    for (int i = 0; i < times; i++) {
        fake_zk_hook(zk, &hook);
    }
}

static void assert_data(const char *data, int32_t version)
{
    char found[32];
    assert_true(fake_zk_data(zk, "/a", found, sizeof found));
    assert_string_equal(found, data);
    assert_int_equal(fake_zk_version(zk, "/a"), version);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
}

static void test_reads(void **state)
{
    static const enum fake_action fates[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_BEFORE,
                                             FAKE_EXPIRE_AFTER, FAKE_ERROR};
    for (size_t i = 0; i < sizeof fates / sizeof fates[0]; i++) {
        char *data = NULL;
        lose(WIRE_GET_DATA, fates[i], 1);
        assert_int_equal(conclave_get(client, "/a", &data, NULL, NULL), 0);
        assert_string_equal(data, "old");
        free(data);
        assert_int_equal(fake_zk_hooks_left(zk), 0);
    }
}

static void test_repeats_are_bounded(void **state)
{
    lose(WIRE_GET_DATA, FAKE_ERROR, 11); /* the first try and ten repetitions */
    assert_int_equal(conclave_get(client, "/a", NULL, NULL, NULL), CONCLAVE_THROTTLED);
    assert_data("old", 0);
}

static void test_a_conditional_set_that_never_arrived(void **state)
{
    lose(WIRE_SET_DATA, FAKE_CUT_BEFORE, 2);
    assert_int_equal(conclave_set(client, "/a", "new", 3, 0, NULL), 0);
    assert_data("new", 1);
}

/* It was carried out, but so may somebody else's have been: the answer claims neither. */
static void test_a_conditional_set_whose_answer_was_lost(void **state)
{
    lose(WIRE_SET_DATA, FAKE_DROP_REPLY, 1);
    assert_int_equal(conclave_set(client, "/a", "new", 3, 0, NULL), CONCLAVE_CONNECTION_LOSS);
    assert_data("new", 1);
}

static void write_like_others(struct fake_zk *server, void *ctx)
{
    fake_zk_write_locked(server, "/a", "new");
}

/* Two write the same bytes on the same version. Ours did not arrive: its repetition must not take the other's change for
 * its own. */
static void test_another_wrote_the_same(void **state)
{
    struct fake_hook hook = {.endpoint = FAKE_ANY_ENDPOINT,
                             .op = WIRE_SET_DATA,
                             .nth = 2,
                             .action = FAKE_CALL,
                             .fn = write_like_others};
    fake_zk_hook(zk, &hook);
    lose(WIRE_SET_DATA, FAKE_CUT_BEFORE, 1);
    assert_int_equal(conclave_set(client, "/a", "new", 3, 0, NULL), CONCLAVE_CONNECTION_LOSS);
    assert_data("new", 1);
}

static void test_what_could_happen_twice_is_not_repeated(void **state)
{
    lose(WIRE_SET_DATA, FAKE_DROP_REPLY, 1);
    assert_int_equal(conclave_set(client, "/a", "new", 3, -1, NULL), CONCLAVE_CONNECTION_LOSS);
    assert_data("new", 1);
    lose(WIRE_CREATE2, FAKE_DROP_REPLY, 1);
    assert_int_equal(conclave_create(client, "/b", "", 0, CONCLAVE_PERSISTENT, NULL),
                     CONCLAVE_CONNECTION_LOSS);
    assert_true(fake_zk_exists(zk, "/b"));
    lose(WIRE_DELETE, FAKE_DROP_REPLY, 1);
    assert_int_equal(conclave_delete(client, "/b", 0), CONCLAVE_CONNECTION_LOSS);
    assert_false(fake_zk_exists(zk, "/b"));
    assert_int_equal(fake_zk_count(zk, FAKE_ANY_ENDPOINT, WIRE_DELETE), 1);
    assert_int_equal(fake_zk_count(zk, FAKE_ANY_ENDPOINT, WIRE_CREATE2), 1);
    assert_int_equal(fake_zk_count(zk, FAKE_ANY_ENDPOINT, WIRE_SET_DATA), 1);
}

static void test_a_write_that_was_refused(void **state)
{
    lose(WIRE_CREATE2, FAKE_ERROR, 3);
    assert_int_equal(conclave_create(client, "/b", "", 0, CONCLAVE_PERSISTENT, NULL), 0);
    lose(WIRE_DELETE, FAKE_ERROR, 3);
    assert_int_equal(conclave_delete(client, "/b", 0), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_reads, begin, end),
        cmocka_unit_test_setup_teardown(test_repeats_are_bounded, begin, end),
        cmocka_unit_test_setup_teardown(test_a_conditional_set_that_never_arrived, begin, end),
        cmocka_unit_test_setup_teardown(test_a_conditional_set_whose_answer_was_lost, begin, end),
        cmocka_unit_test_setup_teardown(test_another_wrote_the_same, begin, end),
        cmocka_unit_test_setup_teardown(test_what_could_happen_twice_is_not_repeated, begin, end),
        cmocka_unit_test_setup_teardown(test_a_write_that_was_refused, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
