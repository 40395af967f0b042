/* Who is signed in to the console: both secrets, the address, the ends, and the limits. */
#include "admin/acts/sign_ins.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { IDS_BYTES = 256, IDS_MAX = 8 };

static struct sign_ins all;

static int set_up(void **state)
{
    (void)state;
    sign_ins_init(&all);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sign_ins_finish(&all);
    return 0;
}

static struct sign_in *add(const char *peer, int64_t now_ms)
{
    struct client_ids ids;
    client_ids_init(&ids, IDS_BYTES, IDS_MAX);
    assert_int_equal(client_ids_add(&ids, slice_str("ip"), slice_str(peer)), 0);
    struct sign_in *n = sign_ins_add(&all, peer, &ids, now_ms);
    client_ids_finish(&ids);
    return n;
}

/* The header Cookie of its browser, which has other cookies, too. */
static const char *cookies(const struct sign_in *n)
{
    static char text[256];
    snprintf(text, sizeof text, "a=b; %s=%s; x%s=1", all.cookie_name, n->cookie, all.cookie_name);
    return text;
}

static void test_both_secrets(void **state)
{
    (void)state;
    struct sign_in *n = add("10.0.0.1", 5);
    struct sign_in *other = add("10.0.0.1", 5);
    char text[256];
    assert_non_null(n);
    assert_int_equal(strlen(n->cookie), SIGN_IN_SECRET - 1);
    assert_string_not_equal(n->cookie, n->key);
    assert_string_not_equal(n->cookie, other->cookie);
    assert_ptr_equal(sign_ins_find(&all, cookies(n), "10.0.0.1", 6), n);
    assert_null(sign_ins_find(&all, cookies(n), "10.0.0.2", 6));
    assert_null(sign_ins_find(&all, NULL, "10.0.0.1", 6));
    assert_null(sign_ins_find(&all, "", "10.0.0.1", 6));
    snprintf(text, sizeof text, "%s=", all.cookie_name);
    assert_null(sign_ins_find(&all, text, "10.0.0.1", 6));
    snprintf(text, sizeof text, "%s=%s", all.cookie_name,
             n->key); /* the page's secret is no cookie */
    assert_null(sign_ins_find(&all, text, "10.0.0.1", 6));
    snprintf(text, sizeof text, "%s=%.*s", all.cookie_name, SIGN_IN_SECRET - 2, n->cookie);
    assert_null(sign_ins_find(&all, text, "10.0.0.1", 6));
    assert_true(sign_in_proves(n, n->key));
    assert_false(sign_in_proves(n, n->cookie));
    assert_false(sign_in_proves(n, other->key));
    assert_false(sign_in_proves(n, ""));
    assert_false(sign_in_proves(n, NULL));
    sign_in_end(n);
    assert_null(sign_ins_find(&all, text, "10.0.0.1", 6));
}

static void test_ends(void **state)
{
    (void)state;
    struct sign_in *n = add("10.0.0.1", 0);
    int64_t now_ms = SIGN_IN_IDLE_MS - 1;
    char text[256];
    snprintf(text, sizeof text, "%s", cookies(n));
    /* Looking is no use. */
    assert_ptr_equal(sign_ins_find(&all, text, "10.0.0.1", now_ms), n);
    assert_null(sign_ins_find(&all, text, "10.0.0.1", now_ms + 1));
    n = add("10.0.0.1", 0);
    snprintf(text, sizeof text, "%s", cookies(n));
    while (now_ms < SIGN_IN_MAX_MS) {
        assert_ptr_equal(sign_ins_find(&all, text, "10.0.0.1", now_ms), n);
        sign_in_use(n, now_ms);
        now_ms += SIGN_IN_IDLE_MS - 1;
    }
    assert_null(sign_ins_find(&all, text, "10.0.0.1", SIGN_IN_MAX_MS));
}

static void test_limits(void **state)
{
    (void)state;
    struct sign_in *first = add("10.0.0.1", 1);
    char text[256];
    snprintf(text, sizeof text, "%s", cookies(first));
    for (int i = 1; i <= SIGN_INS_ADDRESS_MAX; i++) {
        assert_non_null(add("10.0.0.1", 1 + i));
    }
    assert_null(sign_ins_find(&all, text, "10.0.0.1", 20)); /* the oldest gave way */
    size_t used = SIGN_INS_ADDRESS_MAX;
    for (int i = 0; used < SIGN_INS_MAX; i++, used++) {
        char peer[32];
        snprintf(peer, sizeof peer, "10.0.1.%d", i);
        assert_non_null(add(peer, 30));
    }
    assert_null(add("10.0.2.1", 31));     /* others keep their places */
    assert_non_null(add("10.0.1.1", 31)); /* an address can take its own */
    assert_non_null(add("10.0.2.1", SIGN_IN_IDLE_MS + 20));
    sign_ins_clear(&all);
    assert_null(sign_ins_find(&all, cookies(&all.rows[0]), "10.0.0.1", 32));
}

static void test_networks(void **state)
{
    (void)state;
    struct sign_in *n = add("2001:db8::1", 1); /* an IPv6 network of 64 bits is one address */
    assert_ptr_equal(sign_ins_find(&all, cookies(n), "2001:db8::2", 2), n);
    assert_null(sign_ins_find(&all, cookies(n), "2001:db8:0:1::1", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_both_secrets, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_limits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_networks, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
