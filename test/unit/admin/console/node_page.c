/* A node and a page of its children: order, cursors, limits, and what a client without ids may not see. */
#include "admin/console/node_page.h"
#include "support/world.h"
#include "watch/watch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct buf page;
static size_t work;

static int setup(void **state)
{
    buf_init(&page, 0);
    return world_setup(state);
}

static int teardown(void **state)
{
    buf_finish(&page);
    return world_teardown(state);
}

static const char *ask(const struct world *w, const struct node_request *request)
{
    struct node_request r = *request;
    r.answer_bytes = r.answer_bytes == 0 ? 1 << 20 : r.answer_bytes;
    buf_reset(&page);
    work = 0;
    assert_int_equal(node_page_write(w->s, &r, &work, &page), 0);
    return buf_cstr(&page);
}

static const char *ask_path(const struct world *w, const char *path)
{
    return ask(w, &(struct node_request){.path = slice_str(path), .count = NODE_PAGE_MAX});
}

/* The names of a page: "a,b". */
static const char *names(const struct world *w, const struct node_request *request)
{
    static char text[4096];
    const char *at = strstr(ask(w, request), "\"names\":[");
    assert_non_null(at);
    text[0] = '\0';
    for (at += strlen("\"names\":["); *at == '[' || *at == ','; at = strchr(at, ']') + 1) {
        const char *name = strchr(at, '"') + 1;
        size_t len = strlen(text);
        (void)snprintf(text + len, sizeof text - len, "%s%.*s", len > 0 ? "," : "",
                       (int)(strchr(name, '"') - name), name);
    }
    return text;
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("%s\nlacks %s", text, part);
    }
}

static void test_node(void **state)
{
    struct world *w = *state;
    assert_int_equal(world_create(w, "/a", "hello", 0), 0);
    assert_int_equal(world_create(w, "/a/e", "12", 1), 0);
    assert_int_equal(world_set(w, "/a", "hello \"you\"", -1), 0);
    const char *text = ask_path(w, "/a");
    assert_has(text, "{\"path\":\"/a\",\"stat\":{\"kind\":\"persistent\",\"czxid\":\"0x");
    assert_has(text, "\"version\":1,\"cversion\":1,\"aversion\":0,\"children\":1,\"below\":1}");
    assert_has(text, "\"readable\":true,\"acl\":[{\"scheme\":\"world\",\"id\":\"anyone\",\"perms\":"
                     "\"rwcda\"}]");
    assert_has(text, "\"bytes\":11,\"cut\":false,\"data\":\"hello \\\"you\\\"\"");
    assert_has(text, "\"children\":{\"count\":1,\"order\":\"name\",\"names\":[[\"e\",0,2,"
                     "\"ephemeral\"]],\"more\":false,\"left_out\":0},\"quota\":null}");
    assert_has(ask_path(w, "/a/e"), "\"session\":\"0x1\"");
    struct watch_table *watches = watch_table_create(&hash_key_fixed);
    struct watcher watcher;
    watcher_init(&watcher);
    assert_int_equal(watch_add(watches, &watcher, WATCH_DATA, slice_str("/a")), 0);
    assert_int_equal(watch_add(watches, &watcher, WATCH_RECURSIVE, slice_str("/")), 0);
    const struct node_request r = {
        .path = slice_str("/a"), .watches = watches, .count = NODE_PAGE_MAX};
    assert_has(ask(w, &r),
               "\"watches\":{\"data\":1,\"child\":0,\"persistent\":0,\"recursive\":0}}");
    watcher_finish(watches, &watcher);
    watch_table_destroy(watches);
}

static void test_refusals(void **state)
{
    struct world *w = *state;
    struct node_request r = {.path = slice_str("/none"), .count = 1};
    assert_int_equal(node_page_write(w->s, &r, &work, &page), CONCLAVE_NO_NODE);
    r.path = slice_str("a");
    assert_int_equal(node_page_write(w->s, &r, &work, &page), CONCLAVE_BAD_ARGUMENTS);
    r.path = slice_str("");
    assert_int_equal(node_page_write(w->s, &r, &work, &page), CONCLAVE_BAD_ARGUMENTS);
    assert_int_equal(page.len, 0);
}

static void test_data(void **state)
{
    struct world *w = *state;
    static char text[NODE_DATA_MAX + 10];
    world_create(w, "/null", NULL, 0);
    world_create(w, "/bytes", "a\xff", 0);
    assert_has(ask_path(w, "/null"), "\"bytes\":0,\"cut\":false,\"data\":null");
    assert_has(ask_path(w, "/bytes"), "\"data_base64\":\"Yf8=\"");
    /* Cut inside a character of three bytes: the rest of it goes, too. */
    memset(text, 'x', sizeof text - 1);
    memcpy(text + NODE_DATA_MAX - 1, "\xe2\x82\xac", 3);
    world_create(w, "/long", text, 0);
    const char *shown = ask_path(w, "/long");
    assert_has(shown, "\"bytes\":65545,\"cut\":true,\"data\":\"xx");
    assert_null(strstr(shown, "\xe2"));
    assert_has(shown, "xx\",\"children\"");
}

static void test_pages(void **state)
{
    struct world *w = *state;
    static const char *const NAMES[] = {"/p/m", "/p/b", "/p/zz", "/p/a", "/p/k", "/p/z"};
    struct node_request r = {.path = slice_str("/p"), .count = 2};
    world_create(w, "/p", "", 0);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        assert_int_equal(world_create(w, NAMES[i], "", 0), 0);
    }
    assert_string_equal(names(w, &r), "a,b");
    assert_has(buf_cstr(&page), "\"count\":6");
    assert_has(buf_cstr(&page), "\"more\":true");
    r.after = slice_str("b");
    assert_string_equal(names(w, &r), "k,m");
    world_delete(w, "/p/m", -1); /* the cursor may go */
    r.after = slice_str("m");
    assert_string_equal(names(w, &r), "z,zz");
    assert_has(buf_cstr(&page), "\"more\":false");
    r.after = slice_str("zz");
    assert_string_equal(names(w, &r), "");
    r.after = SLICE_NULL;
    r.from = slice_str("k");
    assert_string_equal(names(w, &r), "k,z");
    r.from = slice_str("kk");
    assert_string_equal(names(w, &r), "z,zz");
    r.from = slice_str("");
    r.count = NODE_PAGE_MAX;
    assert_string_equal(names(w, &r), "a,b,k,z,zz");
}

/* All pages together are all children, whatever the order of their creation. */
static void test_many_children(void **state)
{
    enum { MANY = 2000, STEP = 777 };
    struct world *w = *state;
    char path[32];
    char after[32] = "";
    size_t seen = 0;
    world_create(w, "/p", "", 0);
    for (unsigned i = 0; i < MANY; i++) {
        (void)snprintf(path, sizeof path, "/p/n%04u", i * STEP % MANY);
        assert_int_equal(world_create(w, path, "", 0), 0);
    }
    for (;;) {
        struct node_request r = {.path = slice_str("/p"), .count = 7};
        r.after = after[0] != '\0' ? slice_str(after) : SLICE_NULL;
        const char *at = names(w, &r);
        for (; *at == 'n' || *at == ','; at += strcspn(at + 1, ",") + 1) {
            at += *at == ',';
            (void)snprintf(path, sizeof path, "n%04zu", seen++);
            assert_memory_equal(at, path, 5);
        }
        (void)snprintf(after, sizeof after, "%s", path);
        if (strstr(buf_cstr(&page), "\"more\":true") == NULL) {
            break;
        }
    }
    assert_int_equal(seen, MANY);
}

/* A full answer ends the page; one child always fits, so the pages go on. Names that no cursor can carry are left out. */
static void test_answer_limit(void **state)
{
    struct world *w = *state;
    static char path[NODE_TEXT_MAX + 5];
    struct node_request r = {.path = slice_str("/p"), .count = 4, .answer_bytes = 1};
    world_create(w, "/p", "", 0);
    memset(path, 'n', sizeof path - 1);
    memcpy(path, "/p/", 3);
    assert_int_equal(world_create(w, path, "", 0), 0);
    world_create(w, "/p/a", "", 0);
    world_create(w, "/p/b", "", 0);
    path[sizeof path - 2] = '\0'; /* as long as may be */
    assert_int_equal(world_create(w, path, "", 0), 0);
    assert_string_equal(names(w, &r), "a");
    assert_has(buf_cstr(&page), "\"more\":true,\"left_out\":1");
    r.after = slice_str("a");
    assert_string_equal(names(w, &r), "b");
    r.after = slice_str("b");
    assert_has(ask(w, &r), "\"more\":false,\"left_out\":1");
    assert_has(buf_cstr(&page), "nnn\",0,0,");
    assert_int_equal(work, 4);
}

static void test_long_texts(void **state)
{
    struct world *w = *state;
    static char text[2 * NODE_TEXT_MAX];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 3] = ':'; /* user:hash */
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_READ, "world", "anyone");
    maker_acl_add(&w->m, WIRE_PERM_ALL, "digest", text);
    assert_int_equal(world_create(w, "/a", "", 0), 0);
    assert_true(strlen(ask_path(w, "/a")) < NODE_TEXT_MAX + 1000);
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_ALL, "world", "anyone");
    world_create(w, "/b", "", 0);
    world_create(w, "/zookeeper/quota/b", "", 0);
    world_create(w, "/zookeeper/quota/b/zookeeper_limits", text, 0);
    assert_has(ask_path(w, "/b"), "\"limits\":\"xxx");
    assert_true(page.len < NODE_TEXT_MAX + 1000);
}

static void test_hidden(void **state)
{
    struct world *w = *state;
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_READ, "digest", "u:hash");
    world_create(w, "/secret", "treasure", 0);
    world_create(w, "/secret/name", "", 0);
    maker_acl_reset(&w->m);
    maker_acl_add(&w->m, WIRE_PERM_READ, "world", "anyone");
    maker_acl_add(&w->m, WIRE_PERM_ALL, "digest", "u:hash");
    world_create(w, "/open", "data", 0);
    const char *text = ask_path(w, "/secret");
    assert_string_equal(text, "{\"path\":\"/secret\",\"readable\":false}");
    assert_has(ask_path(w, "/"), "[\"secret\",null,null,null]");
    assert_has(buf_cstr(&page), "[\"open\",0,4,\"persistent\"]");
    text = ask_path(w, "/open");
    assert_has(text,
               "{\"scheme\":\"world\",\"id\":\"anyone\",\"perms\":\"r\"},{\"scheme\":\"digest\","
               "\"id\":\"u:x\",\"perms\":\"rwcda\"}");
    assert_null(strstr(text, "hash"));
    struct node_request r = {
        .path = slice_str("/secret"), .count = 1, .reader = {.all_readable = true}};
    assert_has(ask(w, &r), "treasure");
    assert_null(strstr(buf_cstr(&page), "hash"));
}

static void test_quota(void **state)
{
    struct world *w = *state;
    world_create(w, "/a", "", 0);
    world_create(w, "/a/b", "", 0);
    world_create(w, "/a/b/c", "", 0);
    world_create(w, "/zookeeper/quota/a", "", 0);
    world_create(w, "/zookeeper/quota/a/zookeeper_limits", "count=7,bytes=-1", 0);
    world_create(w, "/zookeeper/quota/a/zookeeper_stats", "count=3,bytes=0", 0);
    const char *quota = "\"quota\":{\"path\":\"/a\",\"limits\":\"count=7,bytes=-1\",\"counts\":\"";
    assert_has(ask_path(w, "/a"), quota);
    assert_has(ask_path(w, "/a/b/c"), quota);
    assert_has(ask_path(w, "/"), "\"quota\":null");
    assert_has(ask_path(w, "/zookeeper"), "\"quota\":null");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_node),  TEST(test_refusals),      TEST(test_data),
        TEST(test_pages), TEST(test_many_children), TEST(test_hidden),
        TEST(test_quota), TEST(test_answer_limit),  TEST(test_long_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
