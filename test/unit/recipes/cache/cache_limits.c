/* What a cache leaves out, and what stops it: filters, depth, memory, lists that are too long, permissions. E164, E165,
 * E167, E168. */
#include "support/cache_user.h"

#include <signal.h>
#include <sys/wait.h>

static void make_tree(struct fake_zk *zk)
{
    fake_zk_create(zk, "/app", "0", 0);
    fake_zk_create(zk, "/app/keep", "1", 0);
    fake_zk_create(zk, "/app/keep/x", "2", 0);
    fake_zk_create(zk, "/app/keep/tmp", "3", 0);
    fake_zk_create(zk, "/app/other", "4", 0);
    fake_zk_create(zk, "/app/other/y", "5", 0);
}

static bool looked_is(struct cache_user *u, const char *text)
{
    static char looked[4096], told[4096];
    cache_user_looked(u, "/app", looked);
    cache_user_told(u, told);
    return strcmp(looked, text) == 0 && strcmp(told, text) == 0;
}

static int look(struct cache_user *u, const char *path)
{
    const struct conclave_cache_node *node;
    int error = conclave_cache_get(u->cache, path, &node);
    if (error == 0) {
        conclave_cache_node_free(node);
    }
    return error;
}

static void E167_patterns_leave_nodes_out(void **state)
{
    static const char *const only[] = {"k*/x", "k*/tmp"};
    static const char *const without[] = {"*/tmp"};
    struct fake_zk *zk = *state;
    struct conclave_cache_options options = cache_user_options("/app");
    struct cache_user u;
    options.only = only;
    options.only_count = 2;
    options.without = without;
    options.without_count = 1;
    make_tree(zk);
    cache_user_start(&u, zk, 0, &options, false);
    assert_true(looked_is(&u, "/app=0 /app/keep=1 /app/keep/x=2"));
    assert_int_equal(fake_zk_count(zk, 0, WIRE_GET_DATA), 3);
    assert_int_equal(look(&u, "/app/other"), CONCLAVE_EINVAL);
    assert_int_equal(look(&u, "/app/keep/tmp"), CONCLAVE_EINVAL);
    fake_zk_create(zk, "/app/other/z", "6", 0);
    fake_zk_write(zk, "/app/keep/tmp", "7");
    fake_zk_create(zk, "/app/keep/x/below", "8", 0);
    EVENTUALLY(looked_is(&u, "/app=0 /app/keep=1 /app/keep/x=2 /app/keep/x/below=8"));
    cache_user_finish(&u);
}

static void E167_depth_leaves_nodes_out(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_cache_options options = cache_user_options("/app");
    struct conclave_cache_view *view;
    struct cache_user u;
    make_tree(zk);
    options.depth = 1;
    cache_user_start(&u, zk, 0, &options, false);
    assert_true(looked_is(&u, "/app=0 /app/keep=1 /app/other=4"));
    assert_int_equal(look(&u, "/app/keep/x"), CONCLAVE_EINVAL);
    assert_int_equal(conclave_cache_children(u.cache, "/app/keep", &view), CONCLAVE_EINVAL);
    fake_zk_write(zk, "/app/keep/x", "6");
    fake_zk_write(zk, "/app/keep", "7");
    EVENTUALLY(looked_is(&u, "/app=0 /app/keep=7 /app/other=4"));
    cache_user_finish(&u);
    options.depth = 0;
    cache_user_start(&u, zk, 0, &options, false);
    assert_true(looked_is(&u, "/app=0"));
    fake_zk_write(zk, "/app", "8");
    EVENTUALLY(looked_is(&u, "/app=8"));
    fake_zk_delete(zk, "/app/other/y");
    cache_user_finish(&u);
}

/* A server without persistent watches sends them all the same. */
static void only_stats_without_data(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_cache_options options = cache_user_options("/app");
    const struct conclave_cache_node *node;
    make_tree(zk);
    options.stats_only = true;
    for (int old = 0; old < 2; old++) {
        struct cache_user u;
        fake_zk_old(zk, 0, old == 1);
        cache_user_start(&u, zk, 0, &options, false);
        assert_true(old == 1 || fake_zk_count(zk, 0, WIRE_GET_DATA) == 0);
        size_t bytes = cache_user_status(&u).bytes;
        cache_user_log_clear(&u);
        fake_zk_write(zk, "/app/other/y", "longer");
        EVENTUALLY(cache_user_log_is(&u, "~/app/other/y"));
        assert_int_equal(conclave_cache_get(u.cache, "/app/other/y", &node), 0);
        assert_null(node->data);
        assert_int_equal(node->data_len, 0);
        assert_int_equal(node->stat->data_length, 6);
        conclave_cache_node_free(node);
        EVENTUALLY(cache_user_status(&u).bytes == bytes);
        fake_zk_delete(zk, "/app/other/y");
        EVENTUALLY(look(&u, "/app/other/y") == CONCLAVE_NO_NODE);
        cache_user_finish(&u);
        fake_zk_create(zk, "/app/other/y", "5", 0);
    }
}

/* The cache of a loaded tree holds `bytes`; with this limit it loads, with less it does not. */
static void E164_the_limit_of_memory_stops_it_while_it_loads(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_cache_options options = cache_user_options("/app");
    struct cache_user u;
    make_tree(zk);
    cache_user_start(&u, zk, 0, &options, false);
    size_t bytes = cache_user_status(&u).bytes;
    cache_user_finish(&u);
    options.max_bytes = bytes;
    cache_user_start(&u, zk, 0, &options, false);
    assert_int_equal(cache_user_status(&u).bytes, bytes);
    cache_user_finish(&u);
    options.max_bytes = bytes - 1;
    cache_user_start(&u, zk, 0, &options, true);
    assert_int_equal(conclave_cache_wait(u.cache, 0, PATIENCE_MS), CONCLAVE_ENOBUFS);
    EVENTUALLY(cache_user_get(&u, &u.error) == CONCLAVE_ENOBUFS);
    struct conclave_cache_status status = cache_user_status(&u);
    assert_true(!status.loaded && !status.fresh && status.bytes < bytes);
    assert_int_equal(look(&u, "/app"), 0);
    assert_int_equal(look(&u, "/app/none"), CONCLAVE_ENOBUFS);
    assert_int_equal(u.loads, 0);
    cache_user_finish(&u);
}

static void E164_the_limit_of_memory_stops_it_later(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_cache_options options = cache_user_options("/app");
    struct cache_user u;
    char path[32];
    make_tree(zk);
    options.max_bytes = 16384;
    cache_user_start(&u, zk, 0, &options, false);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(path, sizeof path, "/app/keep/n%d", i);
        fake_zk_create(zk, path, "some data", 0);
    }
    EVENTUALLY(cache_user_get(&u, &u.error) == CONCLAVE_ENOBUFS);
    struct conclave_cache_status status = cache_user_status(&u);
    assert_true(status.loaded && !status.fresh && status.bytes <= 16384);
    assert_int_equal(look(&u, "/app/keep/x"), 0);
    assert_int_equal(look(&u, "/app/keep/n99"), CONCLAVE_ENOBUFS);
    fake_zk_cut(zk, 0);
    fake_zk_delete(zk, "/app/keep/x");
    STAYS(look(&u, "/app/keep/x") == 0 && !cache_user_status(&u).fresh, 100);
    EVENTUALLY(cache_user_status(&u).stale_ms > 50);
    cache_user_finish(&u);
}

static void E165_a_list_larger_than_a_reply_is_an_error(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_cache_view *view;
    struct cache_user u;
    make_tree(zk);
    hook(zk, 0, WIRE_GET_CHILDREN2, "/app/other", 1, FAKE_OVERSIZED);
    cache_user_start(&u, zk, 0, NULL, true);
    assert_int_equal(conclave_cache_wait(u.cache, 0, PATIENCE_MS), CONCLAVE_ETOOBIG);
    EVENTUALLY(cache_user_get(&u, &u.error) == CONCLAVE_ETOOBIG);
    assert_false(cache_user_status(&u).loaded);
    assert_int_equal(look(&u, "/app/other/y"), CONCLAVE_ETOOBIG);
    assert_int_equal(conclave_cache_children(u.cache, "/app/keep", &view), 0);
    conclave_cache_view_free(view);
    cache_user_finish(&u);
}

static void refuse(struct fake_zk *zk, const char *path, int nth)
{
    struct fake_hook no = {.endpoint = 0,
                           .op = WIRE_GET_DATA,
                           .path = path,
                           .nth = nth,
                           .action = FAKE_ERROR,
                           .error = CONCLAVE_NO_AUTH};
    fake_zk_hook(zk, &no);
}

static void E168_an_unreadable_node_is_absent_and_counted(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    make_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    refuse(zk, "/app/other", 1);
    fake_zk_write(zk, "/app/other", "secret");
    EVENTUALLY(looked_is(&u, "/app=0 /app/keep=1 /app/keep/tmp=3 /app/keep/x=2"));
    assert_int_equal(cache_user_status(&u).unreadable, 1);
    assert_int_equal(cache_user_status(&u).nodes, 4);
    assert_int_equal(look(&u, "/app/other"), CONCLAVE_NO_AUTH);
    fake_zk_write(zk, "/app/other/y", "below"); /* its parent is not known */
    fake_zk_write(zk, "/app/keep", "9");
    EVENTUALLY(looked_is(&u, "/app=0 /app/keep=9 /app/keep/tmp=3 /app/keep/x=2"));
    fake_zk_cut(zk, 0); /* everything is compared: it is readable now */
    EVENTUALLY(cache_user_agrees(&u, zk, "/app"));
    assert_int_equal(cache_user_status(&u).unreadable, 0);
    cache_user_finish(&u);
}

static void E168_an_unreadable_root_stops_it(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    make_tree(zk);
    refuse(zk, "/app", 1);
    cache_user_start(&u, zk, 0, NULL, true);
    assert_int_equal(conclave_cache_wait(u.cache, 0, PATIENCE_MS), CONCLAVE_NO_AUTH);
    assert_int_equal(look(&u, "/app"), CONCLAVE_NO_AUTH);
    cache_user_finish(&u);
}

static void options_that_are_refused(void **state)
{
    static const char *const bad[] = {"/slash"};
    struct fake_zk *zk = *state;
    struct conclave_cache_options options = cache_user_options("/app");
    struct conclave_cache *cache;
    struct conclave_cache_status status = {.size = 0};
    struct cache_user u;
    cache_user_start(&u, zk, 0, NULL, false);
    struct conclave_cache_options wrong = options;
    wrong.path = "app";
    assert_int_equal(conclave_cache_open(u.recipes, &wrong, NULL, NULL, &cache), CONCLAVE_EINVAL);
    wrong = options;
    wrong.depth = -2;
    assert_int_equal(conclave_cache_open(u.recipes, &wrong, NULL, NULL, &cache), CONCLAVE_EINVAL);
    wrong = options;
    wrong.only = bad;
    wrong.only_count = 1;
    assert_int_equal(conclave_cache_open(u.recipes, &wrong, NULL, NULL, &cache), CONCLAVE_EINVAL);
    wrong = options;
    wrong.size = 0;
    assert_int_equal(conclave_cache_open(u.recipes, &wrong, NULL, NULL, &cache), CONCLAVE_EINVAL);
    assert_int_equal(conclave_cache_open(u.recipes, NULL, NULL, NULL, &cache), CONCLAVE_EINVAL);
    assert_int_equal(conclave_cache_status(u.cache, &status), CONCLAVE_EINVAL);
    assert_string_equal(conclave_cache_change_name(CONCLAVE_CACHE_DELETED), "DELETED");
    assert_string_equal(conclave_cache_change_name((enum conclave_cache_change)9), "UNKNOWN");
    cache_user_finish(&u);
}

/* It says so and aborts, as the other handles do. */
static void without_a_runtime_it_aborts(void **state)
{
    struct conclave_cache_options options = cache_user_options("/app");
    struct conclave_cache *cache;
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)signal(SIGSEGV, SIG_DFL);
        int error = conclave_cache_open(NULL, &options, NULL, NULL, &cache);
        _exit(error);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void the_whole_tree_below_the_root(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_cache_options options = cache_user_options("/");
    struct conclave_cache_view *view;
    struct cache_user u;
    make_tree(zk);
    cache_user_start(&u, zk, 0, &options, false);
    assert_int_equal(conclave_cache_subtree(u.cache, "/app", &view), 0);
    assert_int_equal(view->count, 6);
    conclave_cache_view_free(view);
    assert_int_equal(look(&u, "/"), 0);
    fake_zk_create(zk, "/new", "1", 0);
    EVENTUALLY(look(&u, "/new") == 0);
    cache_user_finish(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E167_patterns_leave_nodes_out),
        E_TEST(E167_depth_leaves_nodes_out),
        E_TEST(only_stats_without_data),
        E_TEST(E164_the_limit_of_memory_stops_it_while_it_loads),
        E_TEST(E164_the_limit_of_memory_stops_it_later),
        E_TEST(E165_a_list_larger_than_a_reply_is_an_error),
        E_TEST(E168_an_unreadable_node_is_absent_and_counted),
        E_TEST(E168_an_unreadable_root_stops_it),
        E_TEST(options_that_are_refused),
        E_TEST(without_a_runtime_it_aborts),
        E_TEST(the_whole_tree_below_the_root),
    };
    return RUN_TESTS(tests);
}
