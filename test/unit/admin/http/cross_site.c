/* Which requests are taken for those of another site's page, and how lists cut paths. */
#include "admin/http/cross_site.h"
#include "admin/answers/server_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct admin_options options;

static bool refused(const char *host, const char *origin, const char *fetch_site)
{
    struct http_request request = {.host = host, .origin = origin, .fetch_site = fetch_site};
    return forgery_reason(&options, &request) != NULL;
}

static void test_host(void **state)
{
    options = admin_options_default();
    static const char *const OURS[] = {
        NULL,          "",          "127.0.0.1",   "127.0.0.1:8080", "[::1]",
        "[fe80::1]:8", "localhost", "LocalHost:80"};
    static const char *const OTHERS[] = {
        "evil", "localhost.evil:80", "127.0.0.1.evil", "[evil]", "127.1", "a.example", ":80"};
    for (size_t i = 0; i < sizeof OURS / sizeof OURS[0]; i++) {
        assert_false(refused(OURS[i], NULL, NULL));
    }
    for (size_t i = 0; i < sizeof OTHERS / sizeof OTHERS[0]; i++) {
        assert_true(refused(OTHERS[i], NULL, NULL));
    }
    options.allowed_hosts = " a.example ,,b.example";
    assert_false(refused("A.example:80", NULL, NULL));
    assert_false(refused("b.example", NULL, NULL));
    assert_true(refused("b.exampl", NULL, NULL));
    assert_true(refused("b.example.evil", NULL, NULL));
    options.allowed_hosts = "*";
    assert_false(refused("evil", NULL, NULL));
    options = admin_options_default();
    strcpy(options.listen.host, "zk1.example");
    assert_false(refused("zk1.example:8080", NULL, NULL));
}

static void test_pages(void **state)
{
    options = admin_options_default();
    assert_true(refused("localhost", NULL, "cross-site"));
    assert_false(refused("localhost", NULL, "same-origin"));
    assert_false(refused("localhost", NULL, "none"));
    assert_false(refused("localhost:80", "http://localhost:80", "same-origin"));
    assert_true(refused("localhost:80", "http://localhost:81", NULL));
    assert_true(refused("localhost", "null", NULL));
    assert_true(refused(NULL, "http://localhost", NULL));
}

static void test_paths(void **state)
{
    static char text[3 * VIEW_PATH_MAX];
    struct view_path path;
    memset(text, 'x', sizeof text);
    view_path(slice_make(text, VIEW_PATH_MAX), &path);
    assert_int_equal(path.len, VIEW_PATH_MAX);
    view_path(slice_make(text, sizeof text), &path);
    assert_int_equal(path.len, VIEW_PATH_MAX + strlen("... (3072 bytes)"));
    assert_memory_equal(path.text + VIEW_PATH_MAX, "... (3072 bytes)", 16);
    memcpy(text + VIEW_PATH_MAX - 2, "\xe2\x82\xac", 3); /* a character across the cut */
    view_path(slice_make(text, sizeof text), &path);
    assert_memory_equal(path.text + VIEW_PATH_MAX - 3, "x... (", 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
