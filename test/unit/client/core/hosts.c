/* The server list: parsing, order, pauses, lookups. */
#include "client/core/hosts.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t MS = 1000000;

static void test_parse(void **state)
{
    struct hosts h;
    char *chroot;
    assert_int_equal(hosts_parse(&h, "10.0.0.1", 1, &chroot), 0);
    assert_int_equal(h.count, 1);
    assert_true(h.list[0].numeric);
    assert_int_equal(ntohs(h.list[0].addresses[0].v4.sin_port), 2181);
    assert_string_equal(chroot, "");
    free(chroot);
    hosts_finish(&h);

    assert_int_equal(hosts_parse(&h, "a.example:1, [::1]:2 ,10.0.0.1:3/x/y", 1, &chroot), 0);
    assert_int_equal(h.count, 3);
    assert_string_equal(chroot, "/x/y");
    unsigned seen = 0;
    for (size_t i = 0; i < h.count; i++) {
        const struct server_host *host = &h.list[i];
        seen |= 1u << host->port;
        assert_int_equal(host->numeric, host->port != 1);
        assert_string_equal(host->name, host->port == 1   ? "a.example"
                                        : host->port == 2 ? "::1"
                                                          : "10.0.0.1");
    }
    assert_int_equal(seen, 2 | 4 | 8);
    free(chroot);
    hosts_finish(&h);

    assert_int_equal(hosts_parse(&h, "[::1]/", 1, &chroot), 0);
    assert_string_equal(chroot, "");
    free(chroot);
    hosts_finish(&h);
}

static void test_parse_refuses(void **state)
{
    const char *const bad[] = {
        "",      ",",    "a,",        "a:",   "a:0",    "a:65536", "a:x",      "a:1:2",
        "[::1",  "[]:1", "[a]:1",     "::1",  "a b:1",  "/x",      "a:1/x/",   "a:1/x//y",
        "a:1/.", "a]",   "[1.2.3.4]", "a:-1", "[::1]1", "a:1,,b",  "a:000001",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hosts h;
        char *chroot;
        assert_int_equal(hosts_parse(&h, bad[i], 1, &chroot), CONCLAVE_EINVAL);
    }
}

static void test_every_order_is_drawn(void **state)
{
    unsigned firsts[3] = {0};
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct hosts h;
        char *chroot;
        assert_int_equal(hosts_parse(&h, "10.0.0.1:1,10.0.0.2:2,10.0.0.3:3", seed, &chroot), 0);
        firsts[h.list[0].port - 1]++;
        free(chroot);
        hosts_finish(&h);
    }
    for (int i = 0; i < 3; i++) {
        assert_in_range(firsts[i], 60, 140);
    }
}

/* One round goes without pause, each server once; pauses then grow up to a second. */
static void test_rounds(void **state)
{
    struct hosts h;
    char *chroot;
    assert_int_equal(hosts_parse(&h, "10.0.0.1:1,10.0.0.2:2,10.0.0.3:3", 5, &chroot), 0);
    int64_t now = 1000 * MS;
    int64_t pause = 0;
    for (int round = 0; round < 12; round++) {
        unsigned seen = 0;
        const struct server_host *host;
        const union host_address *address;
        for (int i = 0; i < 3; i++) {
            assert_int_equal(hosts_next(&h, now, &host, &address), HOSTS_CONNECT);
            seen |= 1u << host->port;
        }
        assert_int_equal(seen, 2 | 4 | 8);
        assert_int_equal(hosts_next(&h, now, &host, &address), HOSTS_WAIT);
        pause = h.not_before_ns - now;
        assert_in_range(pause, 25 * MS, 1000 * MS);
        assert_int_equal(hosts_next(&h, h.not_before_ns - 1, &host, &address), HOSTS_WAIT);
        now = h.not_before_ns;
    }
    assert_in_range(pause, 500 * MS, 1000 * MS);
    hosts_lost(&h, now, 60000 * MS); /* a link that had lived: no pause now */
    const struct server_host *host;
    const union host_address *address;
    assert_int_equal(hosts_next(&h, now, &host, &address), HOSTS_CONNECT);
    hosts_lost(&h, now, 1 * MS); /* one that died at once: pause */
    assert_int_equal(hosts_next(&h, now, &host, &address), HOSTS_WAIT);
    free(chroot);
    hosts_finish(&h);
}

/* A name that is looked up forever does not keep the others from being tried, round after round. */
static void test_slow_lookup(void **state)
{
    struct hosts h;
    char *chroot;
    assert_int_equal(hosts_parse(&h, "slow.example:1,10.0.0.2:2", 5, &chroot), 0);
    int64_t now = 1000 * MS;
    const struct server_host *host;
    const union host_address *address;
    struct server_host *slow = NULL;
    for (int round = 0; round < 3; round++) {
        assert_int_equal(hosts_next(&h, now, &host, &address), HOSTS_CONNECT);
        assert_int_equal(host->port, 2);
        assert_int_equal(hosts_next(&h, now, &host, &address), HOSTS_WAIT);
        struct server_host *begun = hosts_lookup_begin(&h);
        slow = begun != NULL ? begun : slow;
        assert_true(round == 0 || begun == NULL); /* one lookup at a time */
        now = h.not_before_ns;
    }
    assert_non_null(slow);
    union host_address found[2] = {0};
    found[0].v4.sin_family = AF_INET;
    found[1].v6.sin6_family = AF_INET6;
    hosts_lookup_end(&h, slow, found, 2);
    unsigned slow_tries = 0;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(hosts_next(&h, now, &host, &address), HOSTS_CONNECT);
        if (host == slow) {
            uint16_t port = slow_tries == 0 ? address->v4.sin_port : address->v6.sin6_port;
            assert_int_equal(ntohs(port), 1);
            slow_tries++;
        }
    }
    assert_int_equal(slow_tries, 2);
    free(chroot);
    hosts_finish(&h);
}

static void test_only_names(void **state)
{
    struct hosts h;
    char *chroot;
    assert_int_equal(hosts_parse(&h, "no.example", 5, &chroot), 0);
    const struct server_host *host;
    const union host_address *address;
    assert_int_equal(hosts_next(&h, 1, &host, &address), HOSTS_LOOKUP);
    struct server_host *begun = hosts_lookup_begin(&h);
    assert_non_null(begun);
    assert_int_equal(hosts_next(&h, 1, &host, &address), HOSTS_LOOKUP);
    hosts_lookup_end(&h, begun, NULL, 0);
    assert_int_equal(hosts_next(&h, 1, &host, &address), HOSTS_WAIT);
    assert_int_equal(hosts_next(&h, h.not_before_ns, &host, &address), HOSTS_LOOKUP);
    assert_ptr_equal(hosts_lookup_begin(&h), begun); /* looked up again */
    free(chroot);
    hosts_finish(&h);
}

static void test_connect_timeout(void **state)
{
    struct hosts h = {.count = 3};
    assert_int_equal(hosts_connect_timeout_ms(&h, 9000), 3000);
    assert_int_equal(hosts_connect_timeout_ms(&h, 100), 200);
    assert_int_equal(hosts_connect_timeout_ms(&h, 100000), 10000);
}

/* With a short session no pause is so long that its lease would end meanwhile. */
static void test_pauses_suit_the_session(void **state)
{
    static const struct {
        int64_t session_ms;
        int64_t most_ms;
    } cases[] = {{2000, 200}, {100, 50}, {60000, 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct server_host *host;
        const union host_address *address;
        struct hosts h;
        char *chroot;
        int64_t now = 1000 * MS;
        assert_int_equal(hosts_parse(&h, "10.0.0.1", 1, &chroot), 0);
        free(chroot);
        hosts_for_session(&h, cases[i].session_ms);
        for (int round = 0; round < 20; round++) {
            assert_int_equal(hosts_next(&h, now, &host, &address), HOSTS_CONNECT);
            assert_int_equal(hosts_next(&h, now, &host, &address), HOSTS_WAIT);
            assert_true(h.not_before_ns - now <= cases[i].most_ms * MS);
            assert_true(round < 10 || h.not_before_ns - now >= cases[i].most_ms * MS / 2);
            now = h.not_before_ns;
        }
        hosts_finish(&h);
    }
}

/* Clients of one list get another: how many of 12000 use each server then, if all had the same number before. */
static void count_clients(const char *before, const char *after, unsigned counts[4])
{
    enum { CLIENTS = 12000 };
    memset(counts, 0, 4 * sizeof *counts);
    for (uint64_t n = 0; n < CLIENTS; n++) {
        struct hosts h;
        struct hosts next;
        char *chroot;
        assert_int_equal(hosts_parse(&h, before, n * 7919, &chroot), 0);
        free(chroot);
        assert_int_equal(hosts_parse_in_order(&next, after, &chroot), 0);
        free(chroot);
        char own[2] = {before[n % h.count * 2], '\0'};
        bool moves = hosts_replace(&h, &next, own, HOSTS_DEFAULT_PORT);
        assert_true(moves || hosts_find(&h, own, HOSTS_DEFAULT_PORT) != NULL);
        counts[(moves ? h.list[0].name[0] : own[0]) - 'a']++;
        hosts_finish(&h);
        hosts_finish(&next);
    }
}

static void test_a_new_list_keeps_the_load_even(void **state)
{
    static const struct {
        const char *before, *after;
    } cases[] = {{"a,b", "a,b,c"}, {"a,b,c", "a,b"}, {"a,b,c", "a,b,d"}, {"a,b,c", "c,d"},
                 {"a", "a,b,c,d"}, {"a,b", "c,d"},   {"a,b,c", "d"},     {"a,b", "b,c,d"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned counts[4];
        unsigned share = 12000 / (unsigned)(strlen(cases[i].after) / 2 + 1);
        count_clients(cases[i].before, cases[i].after, counts);
        for (char name = 'a'; name <= 'd'; name++) {
            if (strchr(cases[i].after, name) == NULL) {
                assert_int_equal(counts[name - 'a'], 0);
            } else {
                assert_in_range(counts[name - 'a'], share * 9 / 10, share * 11 / 10);
            }
        }
    }
}

static void test_a_new_list_may_name_a_server_twice(void **state)
{
    struct hosts h;
    struct hosts next;
    char *chroot;
    assert_int_equal(hosts_parse(&h, "a,b", 1, &chroot), 0);
    free(chroot);
    assert_int_equal(hosts_parse_in_order(&next, "b,b", &chroot), 0);
    free(chroot);
    assert_true(hosts_replace(&h, &next, "a", HOSTS_DEFAULT_PORT));
    hosts_finish(&h);
    hosts_finish(&next);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_refuses),
        cmocka_unit_test(test_every_order_is_drawn),
        cmocka_unit_test(test_rounds),
        cmocka_unit_test(test_pauses_suit_the_session),
        cmocka_unit_test(test_a_new_list_keeps_the_load_even),
        cmocka_unit_test(test_a_new_list_may_name_a_server_twice),
        cmocka_unit_test(test_slow_lookup),
        cmocka_unit_test(test_only_names),
        cmocka_unit_test(test_connect_timeout),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
