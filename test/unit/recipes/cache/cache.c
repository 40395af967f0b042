/* A cache: loading, events, lookups, links. E160 to E163, E166, E169, E36. */
#include "support/cache_user.h"

static const char *data_at(struct cache_user *u, const char *path, char *buf)
{
    const struct conclave_cache_node *node;
    int error = conclave_cache_get(u->cache, path, &node);
    if (error != 0) {
        return conclave_errname(error);
    }
    (void)snprintf(buf, 64, "%.*s", (int)node->data_len, (const char *)node->data);
    conclave_cache_node_free(node);
    return buf;
}

#define DATA(u, path) data_at((u), (path), (char[64]){0})

/* --- loading and events ------------------------------------------------------------------ */

static void E160_the_first_content_is_reported_once_parents_first(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    assert_true(cache_user_log_is(&u, "+/app +/app/b +/app/b/c +/app/a"));
    assert_true(cache_user_agrees(&u, zk, "/app"));
    EVENTUALLY(cache_user_get(&u, &u.statuses) == 1);
    assert_int_equal(cache_user_get(&u, &u.settles), 1);
    struct conclave_cache_status status = cache_user_status(&u);
    assert_true(status.loaded && status.fresh && status.stale_ms == 0 && status.error == 0);
    assert_int_equal(status.nodes, 4);
    assert_true(status.bytes > 0 && status.zxid > 0);
    fake_zk_cut(zk, 0);
    fake_zk_write(zk, "/app/a", "4");
    EVENTUALLY(strcmp(DATA(&u, "/app/a"), "4") == 0);
    assert_int_equal(cache_user_get(&u, &u.loads), 1);
    cache_user_finish(&u);
}

static void a_cache_of_a_missing_node_is_loaded_and_empty(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    cache_user_start(&u, zk, 0, NULL, false);
    assert_int_equal(cache_user_status(&u).nodes, 0);
    assert_string_equal(DATA(&u, "/app"), "NO_NODE");
    cache_user_tree(zk);
    EVENTUALLY(cache_user_agrees(&u, zk, "/app"));
    assert_int_equal(cache_user_status(&u).nodes, 4);
    cache_user_finish(&u);
}

static void delete_all(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, "/app/b/c");
    fake_zk_delete_locked(zk, "/app/b");
    fake_zk_delete_locked(zk, "/app/a");
    fake_zk_delete_locked(zk, "/app");
}

static void each_change_is_an_event(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    cache_user_log_clear(&u);
    fake_zk_write(zk, "/app/b/c", "x");
    EVENTUALLY(cache_user_log_is(&u, "~/app/b/c"));
    fake_zk_create(zk, "/app/b/d", "y", 0);
    EVENTUALLY(cache_user_log_is(&u, "~/app/b/c +/app/b/d"));
    fake_zk_delete(zk, "/app/b/d");
    EVENTUALLY(cache_user_log_is(&u, "~/app/b/c +/app/b/d -/app/b/d"));
    EVENTUALLY(cache_user_agrees(&u, zk, "/app"));
    fake_zk_do(zk, delete_all, NULL);
    EVENTUALLY(cache_user_status(&u).nodes == 0);
    EVENTUALLY(cache_user_agrees(&u, zk, "/app"));
    cache_user_finish(&u);
}

static void make_again(struct fake_zk *zk, void *ctx)
{
    delete_all(zk, NULL);
    fake_zk_create_locked(zk, "/app", "0", 0);
    fake_zk_create_locked(zk, "/app/b", "1", 0);
}

static void E166_a_node_that_was_made_again_is_deleted_and_created(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    cache_user_log_clear(&u);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(!cache_user_status(&u).fresh);
    fake_zk_do(zk, make_again, NULL);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(cache_user_log_is(&u, "-/app/b/c -/app/b -/app/a -/app +/app +/app/b"));
    assert_true(cache_user_agrees(&u, zk, "/app"));
    cache_user_finish(&u);
}

static void make_branch(struct fake_zk *zk, void *ctx)
{
    fake_zk_create_locked(zk, "/app/c", "4", 0);
    fake_zk_create_locked(zk, "/app/c/x", "5", 0);
}

static _Atomic bool waits_inside;

static void wait_inside(struct cache_user *u)
{
    while (waits_inside) {
        sleep_ms(1);
    }
}

/* A group is reported while a list of children is still missing, which then has no news: on_settled follows all the same,
 * also when the group's callbacks last longer than a lost link. */
static void E160_a_tree_that_was_reported_settles(void **state)
{
    struct fake_zk *zk = *state;
    for (int cut = 0; cut < 2; cut++) {
        struct cache_user u;
        cache_user_tree(zk);
        cache_user_start(&u, zk, 0, NULL, false);
        EVENTUALLY(cache_user_get(&u, &u.settles) == 1);
        cache_user_log_clear(&u);
        u.inside = wait_inside;
        waits_inside = cut == 1;
        fake_zk_hold(zk, 0, WIRE_GET_CHILDREN2);
        fake_zk_do(zk, make_branch, NULL);
        EVENTUALLY(cache_user_log_is(&u, "+/app/c"));
        fake_zk_delete(zk, "/app/c/x");
        if (cut == 1) {
            fake_zk_cut(zk, 0);
            EVENTUALLY(!cache_user_status(&u).fresh);
        } else {
            STAYS(cache_user_get(&u, &u.settles) == 1, 20);
        }
        fake_zk_release(zk, 0);
        EVENTUALLY(cache_user_status(&u).fresh);
        waits_inside = false;
        EVENTUALLY(cache_user_get(&u, &u.settles) == 2);
        assert_true(cache_user_agrees(&u, zk, "/app"));
        cache_user_finish(&u);
        fake_zk_reset(zk);
    }
}

/* --- lookups ---------------------------------------------------------------------------- */

static void E161_lookups_send_nothing(void **state)
{
    struct fake_zk *zk = *state;
    const struct conclave_cache_node *node;
    struct conclave_cache_view *view;
    struct cache_user u;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    fake_zk_count_reset(zk);
    assert_string_equal(DATA(&u, "/app/b/c"), "2");
    assert_string_equal(DATA(&u, "/app/x"), "NO_NODE");
    assert_string_equal(DATA(&u, "/other"), "EINVAL");
    assert_string_equal(DATA(&u, "/apple"), "EINVAL");
    assert_string_equal(DATA(&u, "app"), "EINVAL");
    assert_int_equal(conclave_cache_children(u.cache, "/app", &view), 0);
    assert_int_equal(view->count, 2);
    assert_string_equal(view->nodes[0]->path, "/app/a");
    assert_string_equal(view->nodes[1]->path, "/app/b");
    assert_true(view->fresh && view->zxid > 0);
    conclave_cache_view_free(view);
    assert_int_equal(conclave_cache_children(u.cache, "/app/a", &view), 0);
    assert_int_equal(view->count, 0);
    conclave_cache_view_free(view);
    assert_int_equal(conclave_cache_subtree(u.cache, "/app/b", &view), 0);
    assert_int_equal(view->count, 2);
    assert_string_equal(view->nodes[1]->path, "/app/b/c");
    conclave_cache_view_free(view);
    assert_int_equal(conclave_cache_subtree(u.cache, "/app/x", &view), CONCLAVE_NO_NODE);
    assert_int_equal(conclave_cache_get(u.cache, "/app/a", &node), 0);
    assert_int_equal(node->stat->czxid, fake_zk_czxid(zk, "/app/a"));
    conclave_cache_node_free(node);
    conclave_cache_node_free(NULL);
    conclave_cache_view_free(NULL);
    assert_int_equal(fake_zk_count(zk, 0, FAKE_ANY_OP), 0);
    cache_user_finish(&u);
}

static void nodes_and_views_outlive_changes_and_the_cache(void **state)
{
    struct fake_zk *zk = *state;
    const struct conclave_cache_node *node;
    struct conclave_cache_view *view;
    struct cache_user u;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    assert_int_equal(conclave_cache_get(u.cache, "/app/a", &node), 0);
    assert_int_equal(conclave_cache_subtree(u.cache, "/app", &view), 0);
    fake_zk_write(zk, "/app/a", "new");
    EVENTUALLY(strcmp(DATA(&u, "/app/a"), "new") == 0);
    assert_int_equal(conclave_cache_close_wait(u.cache, PATIENCE_MS), 0);
    assert_string_equal(DATA(&u, "/app/a"), "ECLOSED");
    cache_user_finish(&u);
    assert_memory_equal(node->data, "3", 1);
    assert_int_equal(view->count, 4);
    assert_string_equal(view->nodes[3]->path, "/app/b/c");
    conclave_cache_node_free(node);
    conclave_cache_view_free(view);
}

struct reader {
    struct cache_user *u;
    _Atomic bool stop;
    _Atomic int found;
    bool backwards;
};

static void *read_on(void *ctx)
{
    struct reader *r = ctx;
    int64_t newest = 0;
    while (!r->stop) {
        const struct conclave_cache_node *node;
        struct conclave_cache_view *view;
        if (conclave_cache_get(r->u->cache, "/app/a", &node) == 0) {
            r->backwards = r->backwards || node->stat->mzxid < newest;
            newest = node->stat->mzxid;
            conclave_cache_node_free(node);
            r->found++;
        }
        if (conclave_cache_subtree(r->u->cache, "/app", &view) == 0) {
            conclave_cache_view_free(view);
        }
    }
    return NULL;
}

static void E161_lookups_of_many_threads_never_go_back(void **state)
{
    enum { READERS = 4, WRITES = 200 };
    struct fake_zk *zk = *state;
    pthread_t threads[READERS];
    struct reader readers[READERS];
    struct cache_user u;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    for (int i = 0; i < READERS; i++) {
        readers[i] = (struct reader){.u = &u};
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &readers[i]), 0);
    }
    for (int i = 0; i < WRITES; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i);
        fake_zk_write(zk, "/app/a", text);
        if (i % 50 == 0) {
            fake_zk_cut(zk, 0);
        }
        if (i % 20 == 0) {
            fake_zk_create(zk, "/app/b/c/d", text, 0);
        } else if (i % 20 == 10) {
            fake_zk_delete(zk, "/app/b/c/d");
        }
    }
    EVENTUALLY(cache_user_agrees(&u, zk, "/app"));
    for (int i = 0; i < READERS; i++) {
        EVENTUALLY(readers[i].found > 0);
        readers[i].stop = true;
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_false(readers[i].backwards);
    }
    cache_user_finish(&u);
}

static void inside(struct cache_user *u)
{
    struct conclave_cache_view *view;
    struct conclave_cache_status status = CONCLAVE_CACHE_STATUS_INIT;
    if (conclave_cache_wait(u->cache, 0, 100) != CONCLAVE_EDEADLK ||
        conclave_cache_close_wait(u->cache, 100) != CONCLAVE_EDEADLK ||
        conclave_cache_subtree(u->cache, "/app", &view) != CONCLAVE_ECLOSED ||
        conclave_cache_status(u->cache, &status) != 0) {
        u->broken = "another answer inside a callback";
    }
}

/* The first of them closes it. */
static void E36_callbacks_may_use_the_cache_and_may_not_wait(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    u.inside = inside;
    fake_zk_write(zk, "/app/a", "9");
    EVENTUALLY(cache_user_get(&u, &u.closed) == 1);
    cache_user_finish(&u);
}

/* --- links ------------------------------------------------------------------------------- */

static void E163_without_a_link_it_is_stale_and_keeps_its_content(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    EVENTUALLY(cache_user_get(&u, &u.statuses) == 1);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(cache_user_get(&u, &u.statuses) == 2);
    assert_false(u.fresh);
    assert_string_equal(DATA(&u, "/app/a"), "3");
    EVENTUALLY(cache_user_status(&u).stale_ms > 20);
    assert_true(cache_user_status(&u).loaded);
    fake_zk_write(zk, "/app/a", "4");
    fake_zk_delete(zk, "/app/b/c");
    fake_zk_create(zk, "/app/d", "5", 0);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(cache_user_get(&u, &u.statuses) == 3);
    assert_true(u.fresh);
    assert_true(cache_user_agrees(&u, zk, "/app"));
    cache_user_finish(&u);
}

static void E163_fresh_only_after_every_node_was_compared(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    EVENTUALLY(cache_user_get(&u, &u.statuses) == 1);
    fake_zk_hold(zk, 0, WIRE_GET_DATA);
    fake_zk_cut(zk, 0);
    EVENTUALLY(cache_user_get(&u, &u.statuses) == 2);
    STAYS(!cache_user_status(&u).fresh, 100);
    fake_zk_release(zk, 0);
    EVENTUALLY(cache_user_get(&u, &u.statuses) == 3);
    assert_true(u.fresh);
    cache_user_finish(&u);
}

/* What is not loaded is not known: neither absent nor a list. */
static void before_the_load_nothing_is_known(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_cache_view *view;
    struct cache_user u;
    cache_user_tree(zk);
    fake_zk_hold(zk, 0, WIRE_GET_CHILDREN2);
    cache_user_start(&u, zk, 0, NULL, true);
    EVENTUALLY(strcmp(DATA(&u, "/app"), "0") == 0);
    assert_string_equal(DATA(&u, "/app/a"), "EDISCONNECTED");
    assert_int_equal(conclave_cache_children(u.cache, "/app", &view), CONCLAVE_EDISCONNECTED);
    assert_int_equal(conclave_cache_wait(u.cache, 0, 20), CONCLAVE_ETIMEDOUT);
    assert_false(cache_user_status(&u).loaded);
    assert_int_equal(u.loads, 0);
    fake_zk_release(zk, 0);
    assert_int_equal(conclave_cache_wait(u.cache, 0, PATIENCE_MS), 0);
    assert_string_equal(DATA(&u, "/app/a"), "3");
    cache_user_finish(&u);
}

static void E162_another_session_compares_everything(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    fake_zk_expire(zk, 0);
    fake_zk_delete(zk, "/app/b/c");
    fake_zk_create(zk, "/app/b/e", "6", 0);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(cache_user_agrees(&u, zk, "/app"));
    fake_zk_write(zk, "/app/b/e", "7");
    EVENTUALLY(cache_user_agrees(&u, zk, "/app"));
    cache_user_finish(&u);
}

static void a_server_without_persistent_watches(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    cache_user_tree(zk);
    fake_zk_old(zk, 0, true);
    cache_user_start(&u, zk, 0, NULL, false);
    fake_zk_write(zk, "/app/b/c", "8");
    fake_zk_create(zk, "/app/a/x", "9", 0);
    EVENTUALLY(cache_user_agrees(&u, zk, "/app"));
    fake_zk_do(zk, make_again, NULL);
    EVENTUALLY(cache_user_agrees(&u, zk, "/app"));
    cache_user_finish(&u);
}

/* A look at everything after a short cut does not list what has not changed. */
static void a_comparison_reads_each_node_once(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 0, NULL, false);
    EVENTUALLY(cache_user_get(&u, &u.statuses) == 1);
    fake_zk_count_reset(zk);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(cache_user_get(&u, &u.statuses) == 2);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(cache_user_get(&u, &u.statuses) == 3);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_GET_DATA), 4);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_GET_CHILDREN2), 0);
    cache_user_finish(&u);
}

static void E169_a_wait_for_a_write_sees_the_write(void **state)
{
    struct fake_zk *zk = *state;
    struct cache_user u;
    struct conclave_client *writer;
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_reply *reply;
    cache_user_tree(zk);
    cache_user_start(&u, zk, 1, NULL, false);
    options.servers = fake_zk_address(zk, 0);
    assert_int_equal(conclave_client_open(&options, &writer), 0);
    assert_int_equal(conclave_client_start(writer), 0);
    for (int i = 0; i < 20; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%d", i);
        bool elsewhere = i % 2 == 1;
        if (elsewhere) { /* nothing in the cache changes, and its server lags until it is synced */
            fake_zk_freeze(zk, 1);
        }
        const char *path = elsewhere ? "/other" : "/app/a";
        struct conclave_op op =
            i == 1 ? conclave_op_create(path, text, strlen(text), CONCLAVE_PERSISTENT)
                   : conclave_op_set(path, text, strlen(text), -1);
        assert_int_equal(conclave_call(writer, &op, &reply), 0);
        assert_int_equal(conclave_cache_wait(u.cache, reply->zxid, PATIENCE_MS), 0);
        assert_true(cache_user_status(&u).zxid >= reply->zxid);
        if (!elsewhere) {
            assert_string_equal(DATA(&u, "/app/a"), text);
        }
        conclave_reply_free(reply);
    }
    conclave_client_close(writer, 1000);
    cache_user_finish(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E160_the_first_content_is_reported_once_parents_first),
        E_TEST(a_cache_of_a_missing_node_is_loaded_and_empty),
        E_TEST(each_change_is_an_event),
        E_TEST(E166_a_node_that_was_made_again_is_deleted_and_created),
        E_TEST(E160_a_tree_that_was_reported_settles),
        E_TEST(E161_lookups_send_nothing),
        E_TEST(nodes_and_views_outlive_changes_and_the_cache),
        E_TEST(E161_lookups_of_many_threads_never_go_back),
        E_TEST(E36_callbacks_may_use_the_cache_and_may_not_wait),
        E_TEST(E163_without_a_link_it_is_stale_and_keeps_its_content),
        E_TEST(E163_fresh_only_after_every_node_was_compared),
        E_TEST(before_the_load_nothing_is_known),
        E_TEST(E162_another_session_compares_everything),
        E_TEST(a_server_without_persistent_watches),
        E_TEST(a_comparison_reads_each_node_once),
        E_TEST(E169_a_wait_for_a_write_sees_the_write),
    };
    return RUN_TESTS(tests);
}
