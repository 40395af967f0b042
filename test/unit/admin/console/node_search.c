/* The search by path: matches, pages, nodes that are deleted meanwhile, and nodes that the reader may not see. */
#include "admin/console/node_search.h"
#include "support/world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct buf answer;
static size_t work;

static int setup(void **state)
{
    buf_init(&answer, 0);
    return world_setup(state);
}

static int teardown(void **state)
{
    buf_finish(&answer);
    return world_teardown(state);
}

static struct node_search_request wanted(const char *text)
{
    return (struct node_search_request){.root = slice_str("/"),
                                        .text = slice_str(text),
                                        .count = NODE_SEARCH_FOUND_MAX,
                                        .answer_bytes = 1 << 20};
}

/* The paths of one part: "/a,/b"; its answer stays in `answer`. */
static const char *part(const struct world *w, const struct node_search_request *request)
{
    static char text[1 << 14];
    size_t len = 0;
    buf_reset(&answer);
    work = 0;
    assert_int_equal(node_search_write(w->s, request, &work, &answer), 0);
    const char *at = buf_cstr(&answer) + strlen("{\"found\":[");
    text[0] = '\0';
    for (; *at == '[' || *at == ','; at = strchr(at, ']') + 1) {
        const char *name = strchr(at, '"') + 1;
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s", len > 0 ? "," : "",
                                (int)(strchr(name, '"') - name), name);
        assert_true(len < sizeof text);
    }
    return text;
}

/* All paths, part by part. */
static const char *all(const struct world *w, const char *text)
{
    struct node_search_request r = wanted(text);
    return part(w, &r);
}

/* Where the next part begins; false: that was all. */
static bool next_part(struct node_search_request *r)
{
    static char path[NODE_TEXT_MAX + 1];
    const char *at = strstr(buf_cstr(&answer), "\"after\":\"");
    if (at == NULL) {
        return false;
    }
    at += strlen("\"after\":\"");
    (void)snprintf(path, sizeof path, "%.*s", (int)(strchr(at, '"') - at), at);
    r->after = slice_str(path);
    return true;
}

static void make(struct world *w, const char *const *paths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(world_create(w, paths[i], "12", 0), 0);
    }
}

#define MAKE(w, ...)                                                                               \
    make(w, (const char *const[]){__VA_ARGS__},                                                    \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void test_matches(void **state)
{
    struct world *w = *state;
    MAKE(w, "/app", "/app/Setup", "/app/Setup/one", "/app/Setup/one/setup-2", "/other");
    assert_string_equal(all(w, "SETUP"), "/app/Setup,/app/Setup/one/setup-2");
    assert_string_equal(all(w, "app/set"), "/app/Setup");
    assert_string_equal(all(w, "/app"), "/app");
    assert_string_equal(all(w, "app/"), "/app");
    assert_string_equal(all(w, "p/o"), "/app/Setup/one");
    assert_string_equal(all(w, "/app/setup/one/setup-2"), "/app/Setup/one/setup-2");
    assert_string_equal(all(w, "/app/setup/one/setup-2x"), "");
    assert_non_null(strstr(buf_cstr(&answer), "\"after\":null"));
    struct node_search_request r = wanted("e");
    r.root = slice_str("/app/Setup");
    assert_string_equal(part(w, &r), "/app/Setup,/app/Setup/one,/app/Setup/one/setup-2");
    assert_non_null(strstr(buf_cstr(&answer), "[\"/app/Setup\",1,2,\"persistent\"]"));
}

static void test_refusals(void **state)
{
    struct world *w = *state;
    char text[NODE_SEARCH_TEXT_MAX + 2];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    struct node_search_request r = wanted("");
    assert_int_equal(node_search_write(w->s, &r, &work, &answer), CONCLAVE_BAD_ARGUMENTS);
    r = wanted("//");
    assert_int_equal(node_search_write(w->s, &r, &work, &answer), CONCLAVE_BAD_ARGUMENTS);
    r = wanted(text);
    assert_int_equal(node_search_write(w->s, &r, &work, &answer), CONCLAVE_BAD_ARGUMENTS);
    r = wanted(text + 1);
    assert_int_equal(node_search_write(w->s, &r, &work, &answer), 0);
    buf_reset(&answer);
    r.after = slice_str("x");
    assert_int_equal(node_search_write(w->s, &r, &work, &answer), CONCLAVE_BAD_ARGUMENTS);
    r = wanted("x");
    r.root = slice_str("/none");
    assert_int_equal(node_search_write(w->s, &r, &work, &answer), CONCLAVE_NO_NODE);
    assert_int_equal(answer.len, 0);
}

static void test_parts(void **state)
{
    struct world *w = *state;
    MAKE(w, "/x1", "/x1/x2", "/x1/y", "/x3", "/x3/x4", "/x3/x4/x5", "/x6");
    struct node_search_request r = wanted("x");
    r.count = 2;
    assert_string_equal(part(w, &r), "/x1,/x1/x2");
    assert_true(next_part(&r));
    assert_string_equal(part(w, &r), "/x3,/x3/x4");
    assert_true(next_part(&r));
    assert_string_equal(part(w, &r), "/x3/x4/x5,/x6");
    if (next_part(&r)) {
        assert_string_equal(part(w, &r), "");
        assert_false(next_part(&r));
    }
    r = wanted("x");
    r.answer_bytes = 1; /* a part has one node at least */
    assert_string_equal(part(w, &r), "/x1");
    assert_true(next_part(&r));
    assert_string_equal(part(w, &r), "/x1/x2");
    /* Where it continues is gone: from the node above on, so nothing is missed. */
    r = wanted("x");
    r.after = slice_str("/x3/x4/gone/too");
    assert_string_equal(part(w, &r), "/x3/x4/x5,/x6");
    r.after = slice_str("/gone");
    assert_string_equal(part(w, &r), "/x1,/x1/x2,/x3,/x3/x4,/x3/x4/x5,/x6");
    r.root = slice_str("/x3");
    r.after = slice_str("/x1/x2"); /* not below the root */
    assert_string_equal(part(w, &r), "/x3/x4,/x3/x4/x5");
}

/* A part looks at a bounded number of nodes, also without a result; all parts see each node once. */
static void test_bounded(void **state)
{
    enum { MANY = 3 * NODE_SEARCH_LOOKS };
    struct world *w = *state;
    char path[32];
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof path, "/n%d", i);
        assert_int_equal(world_create(w, path, "", 0), 0);
    }
    struct node_search_request r = wanted("n59999");
    int parts = 0;
    do {
        const char *found = part(w, &r);
        assert_true(work <= NODE_SEARCH_LOOKS + 10);
        assert_string_equal(found, parts == 3 ? "/n59999" : "");
        parts++;
    } while (next_part(&r));
    assert_int_equal(parts, 4); /* the tree has a few nodes more than three parts see */
}

static void test_hidden(void **state)
{
    struct world *w = *state;
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_ALL, "digest", "u:hash");
    maker_acl_add(&w->m, WIRE_PERM_CREATE, "world", "anyone");
    MAKE(w, "/secret", "/secret/secret-below");
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_ALL, "world", "anyone");
    MAKE(w, "/secret/open-secret");
    assert_string_equal(all(w, "secret"), "/secret");
    assert_non_null(strstr(buf_cstr(&answer), "[\"/secret\",null,null,null]"));
    assert_non_null(strstr(buf_cstr(&answer), "\"hidden\":1"));
    struct node_search_request r = wanted("secret");
    r.reader.all_readable = true;
    assert_string_equal(part(w, &r), "/secret,/secret/secret-below,/secret/open-secret");
}

static void test_long_paths(void **state)
{
    struct world *w = *state;
    static char path[NODE_TEXT_MAX + 100];
    memset(path, 'l', sizeof path - 1);
    path[0] = '/';
    path[NODE_TEXT_MAX + 1] = '\0'; /* one byte too long */
    MAKE(w, path, "/last");
    assert_string_equal(all(w, "l"), "/last");
    assert_non_null(strstr(buf_cstr(&answer), "\"left_out\":1"));
    path[NODE_TEXT_MAX] = '\0';
    MAKE(w, path);
    struct node_search_request r = wanted("llll");
    (void)part(w, &r);
    assert_non_null(strstr(buf_cstr(&answer), "\"found\":[[\"/llll"));
    r.count = 1;
    (void)part(w, &r);
    assert_true(!next_part(&r) || strcmp(part(w, &r), "") == 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_matches), TEST(test_refusals), TEST(test_parts),
        TEST(test_bounded), TEST(test_hidden),   TEST(test_long_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
