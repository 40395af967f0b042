/* The file of users: lines that are taken, lines that are refused and where; names. And the hashes that ids of digest
 * have. */
#include "front/login/user_file.h"

#include "front/login/client_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define HASH                                                                                       \
    "$scrypt$ln=15,r=8,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static void test_lines(void **state)
{
    (void)state;
    static const char text[] = "# users\n\nanna:" HASH "\r\notto@REALM:" HASH;
    struct user_file u;
    unsigned line;
    const char *why;
    assert_int_equal(user_file_parse(slice_str(text), &u, &line, &why), 0);
    assert_int_equal(u.count, 2);
    assert_string_equal(user_file_find(&u, slice_str("anna"))->hash, HASH);
    assert_non_null(user_file_find(&u, slice_str("otto@REALM")));
    assert_null(user_file_find(&u, slice_str("ann")));
    assert_null(user_file_find(&u, slice_str("")));
    user_file_finish(&u);
    assert_int_equal(user_file_parse(slice_str(""), &u, &line, &why), 0);
    assert_int_equal(u.count, 0);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        unsigned line;
        const char *why;
    } cases[] = {
        {"anna", 1, "expected NAME:HASH"},
        {":" HASH, 1, "expected NAME:HASH"},
        {"an na:" HASH, 1, "expected NAME:HASH"},
        {"\nanna:password", 2, "not a scrypt hash"},
        {"anna:J7wWwXSJdkUUTCWUW9A1TpGGGqo=", 1, "not a scrypt hash"},
        {"anna:" HASH "\notto:" HASH "\nanna:" HASH, 3, "has two lines"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct user_file u;
        unsigned line;
        const char *why;
        assert_int_equal(user_file_parse(slice_str(cases[i].text), &u, &line, &why),
                         CONCLAVE_EINVAL);
        assert_int_equal(line, cases[i].line);
        assert_non_null(strstr(why, cases[i].why));
    }
}

static void check_id(const char *algorithm, const char *wanted)
{
    struct buf id;
    buf_init(&id, 0);
    assert_int_equal(digest_id(&id, digest_algorithm_find(algorithm), slice_str("super:test")), 0);
    assert_string_equal(buf_cstr(&id), wanted);
    buf_finish(&id);
}

/* As Apache ZooKeeper's DigestAuthenticationProvider prints them. */
static void test_algorithms(void **state)
{
    (void)state;
    check_id("SHA1", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
    check_id("sha-1", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
    check_id("SHA256", "super:wjySwxg860UATFtciuZ1lpzrCHrPeov6SPu/ZD56uig=");
    check_id("SHA-256", "super:wjySwxg860UATFtciuZ1lpzrCHrPeov6SPu/ZD56uig=");
    check_id("SHA3-256", "super:cRy/KPYuDpW/dtsepniTMpuiuupnWgdU9txltIfv3hA=");
    assert_null(digest_algorithm_find("MD4"));
    assert_null(digest_algorithm_find(""));
}

static void test_superuser(void **state)
{
    (void)state;
    struct digest_rules rules = {.super = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="};
    assert_int_equal(digest_super_is(&rules, slice_str("super:test")), DIGEST_SUPER);
    assert_int_equal(digest_super_is(&rules, slice_str("super:tesT")), DIGEST_WRONG);
    assert_int_equal(digest_super_is(&rules, slice_str("super")), DIGEST_WRONG);
    assert_int_equal(digest_super_is(&rules, slice_str("otto:test")), DIGEST_OTHER);
    rules.super = NULL;
    assert_int_equal(digest_super_is(&rules, slice_str("super:test")), DIGEST_OTHER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_algorithms),
        cmocka_unit_test(test_superuser),
    };
    return cmocka_run_group_tests_name("server/users", tests, NULL, NULL);
}
