/*
 * A cache with one fault at every single request (support/sweep.h), and closed at every moment. Whatever the fault: in
 * the end its events, its lookups and the tree agree; no callback comes after on_closed. E35, E162.
 */
#include "support/cache_user.h"
#include "support/sweep.h"

enum { STEPS = 20, DEADLINE_MS = 60000 };

static bool soon_agrees(struct cache_user *u, struct fake_zk *zk)
{
    int64_t end = now_ns() + (int64_t)DEADLINE_MS * 1000000;
    while (!cache_user_agrees(u, zk, "/app") && now_ns() < end) {
        sleep_ms(2);
    }
    return cache_user_agrees(u, zk, "/app");
}

static const char *follow(struct cache_user *u, struct fake_zk *zk)
{
    if (conclave_cache_wait(u->cache, 0, DEADLINE_MS) != 0 || !soon_agrees(u, zk)) {
        return "was not loaded";
    }
    fake_zk_write(zk, "/app/a", "4");
    fake_zk_create(zk, "/app/a/n", "5", 0);
    if (!soon_agrees(u, zk)) {
        return "a change was not seen";
    }
    fake_zk_delete(zk, "/app/b/c");
    fake_zk_delete(zk, "/app/b");
    return soon_agrees(u, zk) ? NULL : "a deletion was not seen";
}

static const char *play(struct sweep_case *s)
{
    struct cache_user *u = calloc(1, sizeof *u);
    cache_user_tree(s->zk);
    fake_zk_old(s->zk, 0, s->scene == 1);
    if (cache_user_connect(u, fake_zk_address(s->zk, 0), SESSION_MS, NULL) != 0 ||
        conclave_client_start(u->client) != 0) {
        return "could not start";
    }
    s->client = u->client;
    s->recipes = u->recipes;
    const char *wrong = follow(u, s->zk);
    if (conclave_cache_close_wait(u->cache, DEADLINE_MS) != 0) {
        return "did not close";
    }
    conclave_cache_destroy(u->cache);
    wrong = wrong == NULL ? u->broken : wrong;
    wrong = wrong == NULL && u->closed != 1 ? "the end was not told once" : wrong;
    free(u);
    return wrong;
}

static const char *finish(struct sweep_case *s)
{
    conclave_recipes_destroy(s->recipes);
    conclave_client_close(s->client, 1000);
    return NULL;
}

static const char *const names[] = {"cache", "cache on an old server"};
static struct sweep_plan plan = {
    .names = names,
    .scenes = 2,
    .endpoints = 1,
    .steps = STEPS,
    .beside = 12,
    .least = 2 * 8,
    .play = play,
    .finish = finish,
};

static void close_it(struct fake_zk *zk, void *ctx)
{
    conclave_cache_close(((struct cache_user *)ctx)->cache);
}

static void E35_closed_at_every_request(void **state)
{
    for (int step = 1; step <= 10; step++) {
        struct fake_zk *zk = fake_zk_start();
        struct cache_user u;
        struct fake_hook when = {.endpoint = 0,
                                 .op = FAKE_ANY_OP,
                                 .nth = step,
                                 .action = FAKE_CALL,
                                 .fn = close_it,
                                 .ctx = &u};
        assert_non_null(zk);
        cache_user_tree(zk);
        assert_int_equal(cache_user_connect(&u, fake_zk_address(zk, 0), 0, NULL), 0);
        fake_zk_hook(zk, &when);
        assert_int_equal(conclave_client_start(u.client), 0);
        int error = conclave_cache_wait(u.cache, 0, PATIENCE_MS);
        assert_true(error == 0 || error == CONCLAVE_ECLOSED);
        fake_zk_hooks_clear(zk);
        cache_user_finish(&u);
        fake_zk_stop(zk);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SWEEP_TESTS(&plan),
        cmocka_unit_test(E35_closed_at_every_request),
    };
    return RUN_TESTS(tests);
}
