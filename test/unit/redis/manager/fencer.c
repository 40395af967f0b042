/* Fencing beside the loop: confirmed, not confirmed, given up in the midst, destroyed while it runs. */
#include "redis/manager/fencer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include <stdio.h>

struct told {
    int count;
    int node;
    bool confirmed;
    char text[REDIS_TEXT_SIZE];
};

static const struct redis_node_config TARGET = {
    .address = "127.0.0.1:7001", .host = "127.0.0.1", .port = 7001};

static void on_fenced(void *ctx, int node, bool confirmed, const char *text)
{
    struct told *told = ctx;
    told->count++;
    told->node = node;
    told->confirmed = confirmed;
    snprintf(told->text, sizeof told->text, "%s", text);
}

static void expect(const char *command, bool confirmed, const char *text)
{
    struct fence_method method = {.kind = FENCE_EXEC, .text = command, .timeout_ms = 10000};
    struct redis_fencer *fencer;
    struct told told = {.count = 0};
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(redis_fencer_create(&loop, &method, 1, &fencer), 0);
    assert_int_equal(redis_fencer_run(fencer, 3, &TARGET, 5, 6, on_fenced, &told), 0);
    assert_int_equal(redis_fencer_run(fencer, 3, &TARGET, 5, 6, on_fenced, &told), CONCLAVE_EBUSY);
    assert_int_equal(told.count, 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(told.count, 1);
    assert_int_equal(told.node, 3);
    assert_int_equal(told.confirmed, confirmed);
    assert_non_null(strstr(told.text, text));
    redis_fencer_destroy(fencer);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_confirmed_or_not(void **state)
{
    expect("test \"$CONCLAVE_TARGET_ID $CONCLAVE_TARGET_HOST $CONCLAVE_TARGET_PORT "
           "$CONCLAVE_OLD_TOKEN $CONCLAVE_NEW_TOKEN\" = \"127.0.0.1:7001 127.0.0.1 7001 5 6\"",
           true, "exec");
    expect("exit 3", false, "3");
}

static void test_given_up_and_again(void **state)
{
    struct fence_method methods[] = {
        {.kind = FENCE_EXEC, .text = "exec sleep 60", .timeout_ms = 100000}};
    struct redis_fencer *fencer;
    struct told told = {.count = 0};
    uv_loop_t loop;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(redis_fencer_create(&loop, methods, 1, &fencer), 0);
    assert_int_equal(redis_fencer_run(fencer, 1, &TARGET, 1, 2, on_fenced, &told), 0);
    redis_fencer_cancel(fencer);
    redis_fencer_cancel(fencer);
    uv_run(&loop, UV_RUN_DEFAULT); /* it ends long before its time */
    assert_int_equal(told.count, 0);
    methods[0].text = "true";
    assert_int_equal(redis_fencer_run(fencer, 1, &TARGET, 1, 2, on_fenced, &told), 0);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(told.count, 1);
    assert_true(told.confirmed); /* nothing of the first one's end is left */
    methods[0].text = "exec sleep 60";
    assert_int_equal(redis_fencer_run(fencer, 1, &TARGET, 1, 2, on_fenced, &told), 0);
    redis_fencer_destroy(fencer);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(told.count, 1);
    assert_int_equal(uv_loop_close(&loop), 0);
    redis_fencer_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_confirmed_or_not),
        cmocka_unit_test(test_given_up_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
