#include "tree/acl_rules.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Lists built one after the other. */
static struct buf bytes;
static int32_t count;

static void begin(void)
{
    buf_reset(&bytes);
    count = 0;
}

static void entry(int32_t perms, const char *scheme, const char *id)
{
    wire_encode_acl(&bytes, &(struct wire_acl){perms, {slice_str(scheme), slice_str(id)}});
    count++;
}

static struct wire_vector list(void)
{
    return wire_vector_make(&bytes, count);
}

static struct wire_vector one(int32_t perms, const char *scheme, const char *id)
{
    begin();
    entry(perms, scheme, id);
    return list();
}

static struct buf id_bytes;

static struct wire_vector one_id(const char *scheme, const char *id)
{
    buf_reset(&id_bytes);
    wire_encode_id(&id_bytes, &(struct wire_id){slice_str(scheme), slice_str(id)});
    return wire_vector_make(&id_bytes, 1);
}

static int setup(void **state)
{
    buf_init(&bytes, 0);
    buf_init(&id_bytes, 0);
    return 0;
}

static int teardown(void **state)
{
    buf_finish(&bytes);
    buf_finish(&id_bytes);
    return 0;
}

static void lists_are_shared_and_counted(void **state)
{
    struct acl_table t;
    uint32_t a;
    uint32_t b;
    uint32_t c;
    assert_int_equal(acl_table_init(&t, &hash_key_fixed), 0);
    assert_int_equal(acl_take(&t, one(31, "world", "anyone"), &a), 0);
    assert_int_equal(a, ACL_OPEN);
    assert_int_equal(acl_take(&t, one(1, "world", "anyone"), &a), 0);
    assert_int_equal(acl_take(&t, one(1, "world", "anyone"), &b), 0);
    assert_int_equal(acl_take(&t, one(3, "world", "anyone"), &c), 0);
    assert_int_equal(a, b);
    assert_int_not_equal(a, c);
    assert_int_not_equal(a, ACL_OPEN);
    acl_unref(&t, a);
    assert_non_null(acl_get(&t, a));
    acl_unref(&t, a);
    assert_null(acl_get(&t, a));
    assert_int_equal(acl_take(&t, one(1, "world", "anyone"), &b), 0);
    assert_int_not_equal(a, b); /* a number is not given out again */
    acl_table_finish(&t);
}

static void numbers_skip_what_is_in_use_when_they_wrap(void **state)
{
    struct acl_table t;
    uint32_t id;
    assert_int_equal(acl_table_init(&t, &hash_key_fixed), 0);
    assert_int_equal(acl_take(&t, one(1, "world", "anyone"), &id), 0);
    assert_int_equal(id, 1);
    t.next_id = UINT32_MAX;
    assert_int_equal(acl_take(&t, one(2, "world", "anyone"), &id), 0);
    assert_int_equal(id, UINT32_MAX);
    assert_int_equal(acl_take(&t, one(3, "world", "anyone"), &id), 0);
    assert_int_equal(id, 2);
    acl_table_finish(&t);
}

static void restore_and_sweep(void **state)
{
    struct acl_table t;
    assert_int_equal(acl_table_init(&t, &hash_key_fixed), 0);
    assert_int_equal(acl_restore(&t, 7, one(1, "world", "anyone")), 0);
    assert_int_equal(acl_restore(&t, 7, one(2, "world", "anyone")), CONCLAVE_ECORRUPT);
    assert_int_equal(acl_restore(&t, 8, one(1, "world", "anyone")), CONCLAVE_ECORRUPT);
    assert_int_equal(acl_restore(&t, 9, one(31, "world", "anyone")), CONCLAVE_ECORRUPT);
    assert_int_equal(acl_restore(&t, ACL_OPEN, one(31, "world", "anyone")), 0);
    assert_int_equal(acl_restore(&t, 9, one(4, "world", "anyone")), 0);
    acl_ref(&t, 9);
    acl_sweep(&t);
    assert_null(acl_get(&t, 7));
    assert_non_null(acl_get(&t, 9));
    assert_non_null(acl_get(&t, ACL_OPEN));
    acl_table_finish(&t);
}

static void who_is_permitted(void **state)
{
    struct wire_vector nobody = WIRE_VECTOR_NULL;
    assert_true(acl_permits(one(31, "world", "anyone"), nobody, WIRE_PERM_READ));
    assert_false(acl_permits(one(1, "world", "anyone"), nobody, WIRE_PERM_WRITE));
    assert_true(acl_permits(one(1, "world", "anyone"), nobody, WIRE_PERM_READ | WIRE_PERM_ADMIN));
    assert_false(acl_permits(one(31, "digest", "u:x"), nobody, WIRE_PERM_READ));
    assert_true(acl_permits(one(31, "digest", "u:x"), one_id("digest", "u:x"), WIRE_PERM_READ));
    assert_false(acl_permits(one(31, "digest", "u:x"), one_id("digest", "u:y"), WIRE_PERM_READ));
    assert_false(acl_permits(one(31, "digest", "u:x"), one_id("ip", "u:x"), WIRE_PERM_READ));
    assert_true(acl_permits(one(0, "digest", "u:x"), one_id("super", ""), WIRE_PERM_READ));
    assert_false(acl_permits(one(31, "nosuch", "cn"), one_id("nosuch", "cn"), WIRE_PERM_READ));
    begin();
    assert_true(acl_permits(list(), nobody, WIRE_PERM_WRITE)); /* an empty list is open */
}

static bool ip_permits(const char *entry_id, const char *caller)
{
    return acl_permits(one(31, "ip", entry_id), one_id("ip", caller), WIRE_PERM_READ);
}

static void ip_prefixes(void **state)
{
    assert_true(ip_permits("10.1.2.3", "10.1.2.3"));
    assert_false(ip_permits("10.1.2.3", "10.1.2.4"));
    assert_true(ip_permits("10.1.2.3/24", "10.1.2.200"));
    assert_false(ip_permits("10.1.2.3/24", "10.1.3.3"));
    assert_true(ip_permits("10.1.2.3/23", "10.1.3.3"));
    assert_true(ip_permits("10.1.2.128/25", "10.1.2.129"));
    assert_false(ip_permits("10.1.2.128/25", "10.1.2.127"));
    assert_true(ip_permits("0.0.0.0/0", "203.0.113.9"));
    assert_false(ip_permits("0.0.0.0/0", "::1"));
    assert_true(ip_permits("fe80::/10", "fe80::1"));
    assert_true(ip_permits("::1", "0:0:0:0:0:0:0:1"));
    assert_true(ip_permits("2001:db8::ff00:42:8329", "2001:0DB8:0:0:0:ff00:0042:8329"));
    assert_false(ip_permits("2001:db8::/32", "2001:db9::1"));
}

static uint32_t schemes_on;

static int fixup(struct wire_vector asked, struct wire_vector ids, int32_t *ret_count)
{
    struct buf out;
    buf_init(&out, 0);
    int rc = acl_fixup(asked, ids, schemes_on, &hash_key_fixed, &out, ret_count);
    buf_finish(&out);
    return rc;
}

static bool storable(const char *scheme, const char *id)
{
    int32_t n;
    return fixup(one(31, scheme, id), WIRE_VECTOR_NULL, &n) == 0;
}

static void what_may_be_stored(void **state)
{
    int32_t n;
    assert_int_equal(fixup(WIRE_VECTOR_NULL, WIRE_VECTOR_NULL, &n), CONCLAVE_INVALID_ACL);
    begin();
    assert_int_equal(fixup(list(), WIRE_VECTOR_NULL, &n), CONCLAVE_INVALID_ACL);
    assert_true(storable("world", "anyone"));
    assert_false(storable("world", "me"));
    assert_false(storable("x509", "cn"));
    assert_false(storable("super", ""));
    assert_false(storable("", ""));
    assert_false(storable(NULL, "x"));
    assert_true(storable("digest", "u:p"));
    assert_true(storable("digest", ":p"));
    assert_true(storable("digest", "u:p:"));
    static const char *const bad_digests[] = {"", ":", "u", "u:", "u::", "u:p:q", "::p"};
    for (size_t i = 0; i < sizeof bad_digests / sizeof bad_digests[0]; i++) {
        assert_false(storable("digest", bad_digests[i]));
    }
    static const char *const good_ips[] = {
        "1.2.3.4", "1.2.3.4/0",       "1.2.3.4/32", "::",      "::1",
        "1::",     "1:2:3:4:5:6:7:8", "1::8/128",   "01.2.3.4"};
    for (size_t i = 0; i < sizeof good_ips / sizeof good_ips[0]; i++) {
        assert_true(storable("ip", good_ips[i]));
    }
    static const char *const bad_ips[] = {"",           "1.2.3",
                                          "1.2.3.4.5",  "1.2.3.256",
                                          "1.2.3.4/33", "1.2.3.4/-1",
                                          "1.2.3./",    "1.2.3.4/",
                                          "1.2.3.4/x",  "a.b.c.d",
                                          "localhost",  "1:2:3:4:5:6:7",
                                          ":::",        "1::2::3",
                                          "12345::",    "1:2:3:4:5:6:7:8:9",
                                          "::/129",     ":1",
                                          "::g",        "1:2:3:4:5:6:7::8",
                                          "1.2..4",     "99999999999999999999.2.3.4"};
    for (size_t i = 0; i < sizeof bad_ips / sizeof bad_ips[0]; i++) {
        assert_false(storable("ip", bad_ips[i]));
    }
    assert_int_equal(fixup(one(31, "world", NULL), WIRE_VECTOR_NULL, &n),
                     CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(fixup(one(31, "ip", NULL), WIRE_VECTOR_NULL, &n), CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(fixup(one(31, "nope", NULL), WIRE_VECTOR_NULL, &n), CONCLAVE_INVALID_ACL);
}

static void duplicates_go(void **state)
{
    int32_t n;
    begin();
    for (int i = 0; i < 1000; i++) {
        entry(1 + i % 31, "world", "anyone");
    }
    assert_int_equal(fixup(list(), WIRE_VECTOR_NULL, &n), 0);
    assert_int_equal(n, 31);
}

static void auth_stands_for_the_callers_ids(void **state)
{
    int32_t n;
    struct buf out;
    buf_init(&out, 0);
    assert_int_equal(
        acl_fixup(one(5, "auth", "ignored"), one_id("digest", "u:p"), 0, &hash_key_fixed, &out, &n),
        0);
    assert_int_equal(n, 1);
    assert_true(slice_equal(buf_slice(&out), one(5, "digest", "u:p").items));
    assert_int_equal(fixup(one(31, "auth", ""), WIRE_VECTOR_NULL, &n), CONCLAVE_INVALID_ACL);
    assert_int_equal(fixup(one(31, "auth", ""), one_id("ip", "1.2.3.4"), &n), CONCLAVE_INVALID_ACL);
    assert_int_equal(fixup(one(31, "auth", NULL), one_id("super", ""), &n), CONCLAVE_INVALID_ACL);
    buf_finish(&out);
}

/* Names that Java's X500Principal takes, and names that it refuses. */
static void x509_ids(void **state)
{
    static const char *const good[] = {
        "",
        "CN=a",
        "cn=a,O=b",
        "CN = a",
        "CN=",
        "1.2.3=x",
        "CN=#0c0161",
        "CN=a+OU=b",
        "CN=a;O=b",
        "OID.1.2.3=#0c0161",
        "CN=a\\,b",
        "CN=\"a,b\"",
        "CN=a=b",
        "CN=a\\C3\\A9",
        "EMAILADDRESS=a@b",
        "CN=\"a\\\"b\"",
        "CN=  \"a<b\" ",
        "CN=\"\"",
        "0.39.1=x",
        "CN=\xc3\xa9",
    };
    static const char *const bad[] = {
        "anyone", "user:pw", "foo=bar", "CN",       "=a",        "CN=a,",    ",CN=a",   "CN=a,,O=b",
        "CN=#zz", "CN=#0",   "3.5.1=x", "1.2.=x",   "1=x",       "OID.CN=x", " ",       "CN=a<b",
        "CN=\"a", "CN=a\\",  "CN=a\"b", "CN=a\\zb", "CN=\"a\"b", "CN=\"",    "TITLE=x",
    };
    assert_false(storable("x509", "CN=a"));
    schemes_on = ACL_SCHEME_X509;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        if (!storable("x509", good[i])) {
            fail_msg("refused: %s", good[i]);
        }
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (storable("x509", bad[i])) {
            fail_msg("taken: %s", bad[i]);
        }
    }
    int32_t n;
    assert_int_equal(fixup(one(31, "auth", ""), one_id("x509", "CN=a"), &n), 0);
    schemes_on = 0;
    assert_int_equal(fixup(one(31, "auth", ""), one_id("x509", "CN=a"), &n), CONCLAVE_INVALID_ACL);
    assert_true(
        acl_permits(one(31, "x509", "CN=a,O=b"), one_id("x509", "CN=a,O=b"), WIRE_PERM_READ));
    assert_false(
        acl_permits(one(31, "x509", "CN=a,O=b"), one_id("x509", "CN=a, O=b"), WIRE_PERM_READ));
    assert_false(acl_permits(one(31, "x509", "CN=a"), one_id("digest", "CN=a"), WIRE_PERM_READ));
}

/* sasl is off, then on. */
static void sasl_is_stored_only_where_it_is_on(void **state)
{
    int32_t n;
    assert_false(storable("sasl", "bob"));
    assert_int_equal(fixup(one(31, "auth", ""), one_id("sasl", "bob"), &n), CONCLAVE_INVALID_ACL);
    schemes_on = ACL_SCHEME_SASL;
    assert_true(storable("sasl", "bob"));
    assert_true(storable("sasl", "bob@REALM"));
    assert_true(storable("sasl", "bob/host@REALM"));
    assert_true(storable("sasl", "bob/host"));
    assert_true(storable("sasl", ""));
    assert_false(storable("sasl", "bob@one@two"));
    assert_false(storable("sasl", "bob@one/two"));
    assert_false(storable("sasl", "bob/a/b@REALM"));
    assert_int_equal(fixup(one(31, "auth", ""), one_id("sasl", "bob"), &n), 0);
    assert_int_equal(fixup(one(31, "sasl", NULL), WIRE_VECTOR_NULL, &n),
                     CONCLAVE_MARSHALLING_ERROR);
    assert_int_equal(fixup(one(31, "auth", ""), one_id(ACL_SCHEME_SASL_GRANT, "any"), &n),
                     CONCLAVE_INVALID_ACL);
    assert_false(storable(ACL_SCHEME_SASL_GRANT, "any"));
    schemes_on = 0;
}

static bool sasl_permits(const char *entry_id, const char *scheme, const char *caller)
{
    return acl_permits(one(31, "sasl", entry_id), one_id(scheme, caller), WIRE_PERM_READ);
}

static void who_is_permitted_by_sasl(void **state)
{
    assert_true(sasl_permits("bob", "sasl", "bob"));
    assert_false(sasl_permits("bob", "sasl", "bob@REALM"));
    assert_false(sasl_permits("bob", "sasl", "alice"));
    assert_false(sasl_permits("bob", "digest", "bob"));
    assert_true(sasl_permits("bob", "sasl", "super"));
    assert_true(sasl_permits("any", ACL_SCHEME_SASL_GRANT, "any"));
    assert_false(sasl_permits("bob", ACL_SCHEME_SASL_GRANT, "any"));
    assert_false(sasl_permits("bob", ACL_SCHEME_SASL_GRANT, "super"));
    assert_false(acl_permits(one(31, "digest", "any"), one_id(ACL_SCHEME_SASL_GRANT, "any"),
                             WIRE_PERM_READ));
}

static void digests_are_hidden(void **state)
{
    struct buf out;
    buf_init(&out, 0);
    begin();
    entry(31, "digest", "user:secret");
    entry(1, "world", "anyone");
    acl_redact(list(), &out);
    struct buf want;
    buf_init(&want, 0);
    begin();
    entry(31, "digest", "user:x");
    entry(1, "world", "anyone");
    struct wire_vector hidden = list();
    wire_write_vector(&want, &hidden);
    assert_true(slice_equal(buf_slice(&out), buf_slice(&want)));
    buf_finish(&want);
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_shared_and_counted),
        cmocka_unit_test(numbers_skip_what_is_in_use_when_they_wrap),
        cmocka_unit_test(restore_and_sweep),
        cmocka_unit_test(who_is_permitted),
        cmocka_unit_test(ip_prefixes),
        cmocka_unit_test(what_may_be_stored),
        cmocka_unit_test(duplicates_go),
        cmocka_unit_test(auth_stands_for_the_callers_ids),
        cmocka_unit_test(x509_ids),
        cmocka_unit_test(sasl_is_stored_only_where_it_is_on),
        cmocka_unit_test(who_is_permitted_by_sasl),
        cmocka_unit_test(digests_are_hidden),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
