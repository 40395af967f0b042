/* The login of a learner, against servers that answer wrongly. That a right server takes it is shown in test/compat. */
#include "apache/learner/learner_login.h"
#include "apache/learner/source_access.h"

#include "wire/codec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MAGIC INT64_C(-0xa0dbcafecafe1234)
#define CHALLENGE                                                                                  \
    "realm=\"zk-quorum-sasl-md5\",nonce=\"OA6MG9tEQGm2hh\",charset=utf-8,algorithm=md5-sess"

struct bench {
    uv_loop_t loop;
    struct source_access access;
    struct learner_login *l;
    struct buf in;
    int steps;
    bool closed;
};

static void on_step(void *ctx)
{
    ((struct bench *)ctx)->steps++;
}

static void on_closed(void *ctx)
{
    ((struct bench *)ctx)->closed = true;
}

static void run_step(struct bench *b)
{
    int before = b->steps;
    while (b->steps == before) {
        (void)uv_run(&b->loop, UV_RUN_ONCE);
    }
}

static void bench_begin(struct bench *b)
{
    const struct source_settings settings = {.user = "learner", .password = "geheim"};
    char *text = NULL;
    *b = (struct bench){0};
    assert_int_equal(source_access_init(&b->access, &settings, &text), 0);
    assert_int_equal(uv_loop_init(&b->loop), 0);
    buf_init(&b->in, 0);
    b->l = learner_login_create(&b->loop, b->access.login, "127.0.0.1", on_step, b);
    assert_non_null(b->l);
    run_step(b);
    /* The first packet: the server begins. */
    struct buf *out = learner_login_out(b->l);
    struct wire_reader r = wire_reader_make(buf_slice(out));
    assert_int_equal(out->len, 16);
    assert_int_equal(wire_read_i64(&r), MAGIC);
    assert_int_equal(wire_read_i32(&r), 0);
    assert_int_equal(wire_read_i32(&r), 0);
    buf_reset(out);
}

static void bench_end(struct bench *b)
{
    learner_login_close(b->l, on_closed, b);
    while (!b->closed) {
        (void)uv_run(&b->loop, UV_RUN_ONCE);
    }
    assert_int_equal(uv_loop_close(&b->loop), 0);
    source_access_finish(&b->access);
    buf_finish(&b->in);
}

static void put(struct bench *b, int64_t magic, int32_t status, struct slice token)
{
    buf_append_i64(&b->in, magic);
    buf_append_i32(&b->in, status);
    wire_write_buffer(&b->in, token);
}

static void give(struct bench *b)
{
    size_t taken = learner_login_input(b->l, buf_slice(&b->in));
    buf_consume(&b->in, taken);
}

/* The response has the user, and no password. */
static void test_a_response(void **state)
{
    struct bench b;
    bench_begin(&b);
    put(&b, MAGIC, 0, slice_str(CHALLENGE));
    for (size_t len = 0; len < b.in.len; len++) {
        assert_int_equal(learner_login_input(b.l, slice_make(b.in.data, len)), 0);
    }
    give(&b);
    assert_int_equal(b.in.len, 0);
    run_step(&b);
    assert_null(learner_login_problem(b.l));
    struct buf *out = learner_login_out(b.l);
    const char *text = buf_cstr(out);
    assert_non_null(text);
    assert_non_null(strstr(text + 16, "username=\"learner\""));
    assert_non_null(strstr(text + 16, "digest-uri=\"zookeeper-quorum/zk-quorum-sasl-md5\""));
    assert_null(strstr(text + 16, "geheim"));
    /* Whoever cannot prove that it has the password is not believed. */
    put(&b, MAGIC, 1, slice_str("rspauth=00000000000000000000000000000000"));
    give(&b);
    run_step(&b);
    assert_non_null(strstr(learner_login_problem(b.l), "prove"));
    assert_false(learner_login_done(b.l));
    bench_end(&b);
}

static void refuse(int64_t magic, int32_t status, int32_t len, const char *token, const char *why)
{
    struct bench b;
    bench_begin(&b);
    buf_append_i64(&b.in, magic);
    buf_append_i32(&b.in, status);
    buf_append_i32(&b.in, len);
    buf_append_str(&b.in, token);
    give(&b);
    assert_int_equal(b.in.len, 0);
    if (learner_login_problem(b.l) == NULL) {
        run_step(&b);
    }
    assert_false(learner_login_done(b.l));
    assert_non_null(strstr(learner_login_problem(b.l), why));
    bench_end(&b);
}

static void test_wrong_answers(void **state)
{
    refuse(MAGIC, -1, 0, "", "refuses the login");
    refuse(MAGIC, 7, 0, "", "refuses the login");
    refuse(MAGIC, 0, 0, "", "empty token");
    refuse(MAGIC, 0, -1, "", "empty token");
    refuse(MAGIC, 0, -2, "", "does not answer");
    refuse(MAGIC, 0, LEARNER_TOKEN_MAX + 1, "", "does not answer");
    refuse(1, 0, 4, "abcd", "does not answer");
    refuse(MAGIC, 0, 4, "abcd", "SASL: ");
    /* Success without any proof, before a response was sent. */
    refuse(MAGIC, 1, (int32_t)strlen(CHALLENGE), CHALLENGE, "before it has proved");
    refuse(MAGIC, 1, 4, "abcd", "prove");
}

/* Bytes while a step runs, and an end while one runs. */
static void test_out_of_turn(void **state)
{
    struct bench b;
    bench_begin(&b);
    put(&b, MAGIC, 0, slice_str(CHALLENGE));
    put(&b, MAGIC, 0, slice_str(CHALLENGE));
    give(&b);
    assert_true(b.in.len > 0);
    give(&b);
    assert_non_null(strstr(learner_login_problem(b.l), "does not answer"));
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_response),
        cmocka_unit_test(test_wrong_answers),
        cmocka_unit_test(test_out_of_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
