/* Every allocation of a cache fails once, in turn. */
#include "support/cache_user.h"
#include "support/starving.h"

static void settled(struct starving *s, int error, const char *what)
{
    MUST(s, error, what);
    CHECK(s, error == 0, what);
}

static void lookups(struct starving *s, struct cache_user *u)
{
    const struct conclave_cache_node *node;
    struct conclave_cache_view *view;
    int error;
    TWICE(error, conclave_cache_get(u->cache, "/app/b", &node));
    settled(s, error, "get");
    if (error == 0) {
        conclave_cache_node_free(node);
    }
    TWICE(error, conclave_cache_children(u->cache, "/app", &view));
    settled(s, error, "children");
    if (error == 0) {
        conclave_cache_view_free(view);
    }
    TWICE(error, conclave_cache_subtree(u->cache, "/app", &view));
    settled(s, error, "subtree");
    if (error == 0) {
        conclave_cache_view_free(view);
    }
}

#define AGREES(s, u, what)                                                                         \
    do {                                                                                           \
        bool same_ = false;                                                                        \
        int64_t end_ = now_ns() + (int64_t)PATIENCE_MS * 1000000;                                  \
        while (!same_ && now_ns() < end_) {                                                        \
            FED(s, same_ = cache_user_agrees(u, (s)->zk, "/app"));                                 \
            sleep_ms(1);                                                                           \
        }                                                                                          \
        CHECK(s, same_, what);                                                                     \
    } while (0)

static int cache_scene(struct starving *s)
{
    static const char *const without[] = {"none/*"};
    static const char *const only[] = {"a", "b", "c"};
    struct conclave_cache_options options = cache_user_options("/app");
    static _Thread_local struct cache_user u;
    int error;
    cache_user_init(&u);
    options.without = without;
    options.without_count = 1;
    options.only = only;
    options.only_count = 3;
    FED(s, (fake_zk_create(s->zk, "/app", "0", 0), fake_zk_create(s->zk, "/app/b", "1", 0),
            fake_zk_create(s->zk, "/app/a", "2", 0)));
    TWICE(error, cache_user_open(&u, s->recipes, &options));
    MUST(s, error, "open");
    if (error != 0) {
        return error;
    }
    TWICE(error, conclave_cache_wait(u.cache, 0, PATIENCE_MS));
    settled(s, error, "load");
    AGREES(s, &u, "another tree");
    lookups(s, &u);
    FED(s, (fake_zk_write(s->zk, "/app/b", "3"), fake_zk_create(s->zk, "/app/c", "4", 0),
            fake_zk_create(s->zk, "/app/c/d", "5", 0), fake_zk_delete(s->zk, "/app/a")));
    AGREES(s, &u, "another tree after changes");
    FED(s, fake_zk_cut(s->zk, 0));
    FED(s, fake_zk_write(s->zk, "/app/c/d", "6"));
    AGREES(s, &u, "another tree after a lost link");
    CHECK(s, conclave_cache_close_wait(u.cache, PATIENCE_MS) == 0, "did not close");
    CHECK(s, u.broken == NULL, u.broken);
    CHECK(s, u.closed == 1, "the end was not told once");
    conclave_cache_destroy(u.cache);
    FED(s, (fake_zk_delete(s->zk, "/app/c/d"), fake_zk_delete(s->zk, "/app/c")));
    return 0;
}

static void every_allocation_of_a_cache_fails_once(void **state)
{
    (void)state;
    starving_sweep(cache_scene, false, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_allocation_of_a_cache_fails_once)};
    return RUN_TESTS(tests);
}
