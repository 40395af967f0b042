/* Slow hashes: the right password and wrong ones, the form of the text, its limits; a known answer. */
#include "tls/scrypt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void test_round_trip(void **state)
{
    struct buf a;
    struct buf b;
    buf_init(&a, 0);
    buf_init(&b, 0);
    assert_int_equal(scrypt_hash(slice_str("sesame"), &a), 0);
    assert_int_equal(scrypt_hash(slice_str("sesame"), &b), 0);
    const char *text = buf_cstr(&a);
    assert_true(a.len < SCRYPT_TEXT_MAX && scrypt_is_hash(text));
    assert_int_equal(strncmp(text, "$scrypt$ln=15,r=8,p=1$", 22), 0);
    assert_string_not_equal(text, buf_cstr(&b)); /* the salt */
    assert_int_equal(scrypt_check(text, slice_str("sesame")), 0);
    assert_int_equal(scrypt_check(text, slice_str("sesamf")), CONCLAVE_AUTH_FAILED);
    assert_int_equal(scrypt_check(text, slice_str("")), CONCLAVE_AUTH_FAILED);
    buf_finish(&a);
    buf_finish(&b);
}

/* RFC 7914, section 12: "pleaseletmein", "SodiumChloride", N=16384, r=8, p=1; the first 32 bytes. */
static void test_known_answer(void **state)
{
    static const char text[] = "$scrypt$ln=14,r=8,p=1$U29kaXVtQ2hsb3JpZGU$"
                               "cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofI";
    assert_true(scrypt_is_hash(text));
    assert_int_equal(scrypt_check(text, slice_str("pleaseletmein")), 0);
    assert_int_equal(scrypt_check(text, slice_str("pleaseletmeim")), CONCLAVE_AUTH_FAILED);
}

static void test_limits(void **state)
{
#define SALT "$U29kaXVtQ2hsb3JpZGU$"
#define KEY "cCO9yzr9c0hGHAbNgf046/2o+7qQT44+qbVD9lRdofI"
    static const char *const wrong[] = {
        "",
        "sesame",
        "$scrypt$",
        "$scrypt$ln=14,r=8,p=1",
        "$scrypt$ln=14,r=8,p=1" SALT,
        "$scrypt$ln=14,r=8,p=1" SALT "cCO9",   /* too short */
        "$scrypt$ln=14,r=8,p=1" SALT KEY KEY,  /* too long */
        "$scrypt$ln=14,r=8,p=1$*$" KEY,        /* no base64 */
        "$scrypt$ln=14,r=8,p=1$    c2Fs$" KEY, /* white space, which OpenSSL skips */
        "$scrypt$ln=4,r=8,p=1" SALT KEY,       /* too cheap */
        "$scrypt$ln=14,r=0,p=1" SALT KEY,
        "$scrypt$ln=20,r=32,p=1" SALT KEY, /* 4 GiB */
        "$scrypt$ln=14,r=8,p=99" SALT KEY,
        "$argon2id$ln=14,r=8,p=1" SALT KEY,
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(scrypt_is_hash(wrong[i]));
        assert_int_equal(scrypt_check(wrong[i], slice_str("x")), CONCLAVE_EINVAL);
    }
}

static void test_stretch(void **state)
{
    uint8_t a[SCRYPT_KEY_SIZE];
    uint8_t b[SCRYPT_KEY_SIZE];
    assert_int_equal(scrypt_stretch(slice_str("a secret"), "purpose", a), 0);
    assert_int_equal(scrypt_stretch(slice_str("a secret"), "purpose", b), 0);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(scrypt_stretch(slice_str("a secret"), "another", b), 0);
    assert_memory_not_equal(a, b, sizeof a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_known_answer),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_stretch),
    };
    return cmocka_run_group_tests_name("tls/scrypt", tests, NULL, NULL);
}
