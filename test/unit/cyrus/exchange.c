#define _GNU_SOURCE /* memmem */
/*
 * The client's side of DIGEST-MD5 without a server, also from several threads. That servers take
 * what comes out is shown in the server's tests and against Apache ZooKeeper.
 */
#include "cyrus/exchange.h"

#include "cyrus/library.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CHALLENGE "realm=\"zk-sasl-md5\",nonce=\"OA6MG9tEQGm2hh\",charset=utf-8,algorithm=md5-sess"

static struct cyrus_settings *bob(void)
{
    struct cyrus_settings *s = NULL;
    assert_int_equal(cyrus_client_start(), 0);
    assert_int_equal(cyrus_settings_create(false, "bob", slice_str("geheim"), NULL, NULL, &s), 0);
    return s;
}

static bool has(struct slice token, const char *text)
{
    return memmem(token.data, token.len, text, strlen(text)) != NULL;
}

/* Goes as far as the proof. False when something was not as it should be. */
static bool answer_challenge(struct cyrus_exchange *x)
{
    enum cyrus_step step = CYRUS_DONE;
    struct slice token = SLICE_NULL;
    /* The server begins: also after an earlier login, which the library would like to go on
     * with. */
    bool ok = cyrus_exchange_step(x, SLICE_NULL, &step, &token) == 0 && step == CYRUS_MORE &&
              token.len == 0 && !slice_is_null(token);
    ok = ok && cyrus_exchange_step(x, slice_str(CHALLENGE), &step, &token) == 0 &&
         step == CYRUS_MORE;
    return ok && has(token, "username=\"bob\"") && has(token, "realm=\"zk-sasl-md5\"") &&
           has(token, "digest-uri=\"zookeeper/zk-sasl-md5\"") && has(token, "qop=auth") &&
           has(token, "nonce=\"OA6MG9tEQGm2hh\"") && has(token, "response=") &&
           !has(token, "authzid") && !has(token, "geheim");
}

static void test_response(void **state)
{
    struct cyrus_settings *s = bob();
    for (int i = 0; i < 3; i++) {
        struct cyrus_exchange *x = cyrus_exchange_create(s, "127.0.0.1");
        assert_non_null(x);
        assert_true(answer_challenge(x));
        cyrus_exchange_destroy(x);
    }
    cyrus_settings_unref(s);
}

/* Whoever says that we are in, but does not know the password, is not believed. */
static void test_server_must_prove_itself(void **state)
{
    static const char *const proofs[] = {"rspauth=00000000000000000000000000000000", "rspauth=", "",
                                         "nonsense", CHALLENGE};
    struct cyrus_settings *s = bob();
    for (size_t i = 0; i < sizeof proofs / sizeof proofs[0]; i++) {
        struct cyrus_exchange *x = cyrus_exchange_create(s, "127.0.0.1");
        enum cyrus_step step = CYRUS_MORE;
        struct slice token;
        assert_true(answer_challenge(x));
        assert_int_equal(cyrus_exchange_step(x, slice_str(proofs[i]), &step, &token),
                         CONCLAVE_ESASL);
        assert_string_not_equal(cyrus_exchange_problem(x), "");
        assert_null(strstr(cyrus_exchange_problem(x), "geheim"));
        cyrus_exchange_destroy(x);
    }
    cyrus_settings_unref(s);
}

static void test_bad_challenges(void **state)
{
    static const char *const challenges[] = {"",
                                             "nonsense",
                                             "realm=\"zk-sasl-md5\"",
                                             "nonce=\"a\",algorithm=md5-sess,qop=\"auth-conf\"",
                                             "nonce=\"a\",algorithm=none",
                                             "=,,=\"\\"};
    struct cyrus_settings *s = bob();
    for (size_t i = 0; i < sizeof challenges / sizeof challenges[0]; i++) {
        struct cyrus_exchange *x = cyrus_exchange_create(s, "127.0.0.1");
        enum cyrus_step step;
        struct slice token;
        assert_int_equal(cyrus_exchange_step(x, SLICE_NULL, &step, &token), 0);
        int rc = cyrus_exchange_step(x, slice_str(challenges[i]), &step, &token);
        if (rc == 0) {
            fail_msg("the challenge %s was taken", challenges[i]);
        }
        assert_int_equal(rc, CONCLAVE_ESASL);
        assert_string_not_equal(cyrus_exchange_problem(x), "");
        cyrus_exchange_destroy(x);
    }
    cyrus_settings_unref(s);
}

/* The settings live as long as an exchange that was given up. */
static void test_settings_are_shared(void **state)
{
    struct cyrus_settings *s = bob();
    struct cyrus_exchange *x = cyrus_exchange_create(s, "127.0.0.1");
    cyrus_settings_unref(s);
    assert_true(answer_challenge(x));
    cyrus_exchange_destroy(x);
    cyrus_exchange_destroy(NULL);
    cyrus_settings_unref(NULL);
}

enum { THREADS = 4, LOGINS = 50 };

static void *many_logins(void *arg)
{
    intptr_t good = 0;
    for (int i = 0; i < LOGINS; i++) {
        struct cyrus_exchange *x = cyrus_exchange_create(arg, "127.0.0.1");
        good += x != NULL && answer_challenge(x);
        cyrus_exchange_destroy(x);
    }
    return (void *)good;
}

static void test_threads(void **state)
{
    struct cyrus_settings *s = bob();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, many_logins, s), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *good;
        pthread_join(threads[i], &good);
        assert_int_equal((intptr_t)good, LOGINS);
    }
    cyrus_settings_unref(s);
}

static void test_reasons_are_printable(void **state)
{
    struct cyrus_reason r;
    char lengthy[2 * CYRUS_REASON_MAX];
    memset(lengthy, 'x', sizeof lengthy);
    lengthy[sizeof lengthy - 1] = '\0';
    cyrus_reason_set(&r, "a \"b\"\n\x1b[1m\xff");
    assert_string_equal(r.text, "a .b...[1m.");
    assert_int_equal(cyrus_on_log(&r, SASL_LOG_PASS, "a secret"), SASL_OK);
    assert_string_equal(r.text, "a .b...[1m.");
    assert_int_equal(cyrus_on_log(&r, SASL_LOG_FAIL, lengthy), SASL_OK);
    assert_int_equal(strlen(r.text), CYRUS_REASON_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_response),       cmocka_unit_test(test_server_must_prove_itself),
        cmocka_unit_test(test_bad_challenges), cmocka_unit_test(test_settings_are_shared),
        cmocka_unit_test(test_threads),        cmocka_unit_test(test_reasons_are_printable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
