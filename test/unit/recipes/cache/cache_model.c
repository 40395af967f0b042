/* A cache beside the tree that it shows: random changes, cut links, ended sessions, other servers, silence. E162. One
 * seed again: CACHE_SEED=7. */
#include "support/cache_user.h"

enum { ROUNDS = 12, STEPS = 120, NAMES = 3, SERVERS = 3 };

static unsigned random_state;

static unsigned below(unsigned n)
{
    random_state = random_state * 1103515245u + 12345u;
    return (random_state >> 16) % n;
}

static void random_path(char *path, size_t size)
{
    unsigned depth = below(4);
    (void)snprintf(path, size, "/app");
    for (unsigned i = 0; i < depth; i++) {
        size_t at = strlen(path);
        (void)snprintf(path + at, size - at, "/%c", 'a' + (int)below(NAMES));
    }
}

static void remove_below(struct fake_zk *zk, const char *path)
{
    char name[256];
    while (fake_zk_child(zk, path, 0, name)) {
        char child[512];
        (void)snprintf(child, sizeof child, "%s/%s", path, name);
        remove_below(zk, child);
    }
    fake_zk_delete(zk, path);
}

static void change(struct fake_zk *zk, int step)
{
    char path[64];
    char data[16];
    random_path(path, sizeof path);
    (void)snprintf(data, sizeof data, "%d", step);
    if (!fake_zk_exists(zk, path)) {
        char *slash = strrchr(path, '/');
        *slash = '\0';
        bool parent = path[0] == '\0' || fake_zk_exists(zk, path);
        *slash = '/';
        if (parent) {
            fake_zk_create(zk, path, data, 0);
        }
    } else if (below(3) == 0) {
        bool again = below(2) == 0;
        remove_below(zk, path);
        if (again) {
            fake_zk_create(zk, path, data, 0);
        }
    } else {
        fake_zk_write(zk, path, data);
    }
}

static void disturb(struct fake_zk *zk)
{
    int endpoint = (int)below(SERVERS);
    switch (below(5)) {
    case 0:
        fake_zk_cut(zk, FAKE_ANY_ENDPOINT);
        break;
    case 1:
        fake_zk_expire(zk, 0);
        break;
    case 2:
        fake_zk_link(zk, endpoint, FAKE_REFUSE);
        break;
    case 3:
        fake_zk_link(zk, endpoint, FAKE_SILENT);
        break;
    default:
        fake_zk_link(zk, endpoint, FAKE_UP);
        break;
    }
}

static void play(unsigned seed)
{
    struct fake_zk *zk = fake_zk_start();
    struct cache_user u;
    char servers[256];
    assert_non_null(zk);
    random_state = seed;
    (void)snprintf(servers, sizeof servers, "%s,%s,%s", fake_zk_address(zk, 0),
                   fake_zk_address(zk, 1), fake_zk_address(zk, 2));
    fake_zk_create(zk, "/app", "first", 0);
    assert_int_equal(cache_user_connect(&u, servers, SESSION_MS, NULL), 0);
    assert_int_equal(conclave_client_start(u.client), 0);
    for (int step = 0; step < STEPS; step++) {
        change(zk, step);
        if (below(8) == 0) {
            disturb(zk);
        }
        if (below(4) == 0) {
            sleep_ms(below(8)); /* so that the cache sees some of the states */
        }
    }
    for (int endpoint = 0; endpoint < SERVERS; endpoint++) {
        fake_zk_link(zk, endpoint, FAKE_UP);
    }
    fake_zk_write(zk, "/app", "last");
    int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000;
    while (!(cache_user_status(&u).fresh && cache_user_agrees(&u, zk, "/app")) && now_ns() < end) {
        sleep_ms(2);
    }
    if (!cache_user_agrees(&u, zk, "/app")) {
        static char told[4096], looked[4096], server[4096];
        cache_user_told(&u, told);
        cache_user_looked(&u, "/app", looked);
        cache_user_server(zk, "/app", server);
        fail_msg("CACHE_SEED=%u: events %s; lookups %s; server %s", seed, told, looked, server);
    }
    assert_true(u.broken == NULL || (print_error("CACHE_SEED=%u\n", seed), true));
    cache_user_finish(&u);
    fake_zk_stop(zk);
}

static void E162_events_in_order_give_the_tree(void **state)
{
    const char *one = getenv("CACHE_SEED");
    if (one != NULL) {
        play((unsigned)strtoul(one, NULL, 10));
        return;
    }
    unsigned first = (unsigned)(now_ns() / 1000) % 1000000;
    for (unsigned seed = first; seed < first + ROUNDS; seed++) {
        play(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(E162_events_in_order_give_the_tree)};
    return RUN_TESTS(tests);
}
