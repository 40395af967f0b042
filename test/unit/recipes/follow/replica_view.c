/* The replicas in the reports of managers, and the choice among them. */
#include "recipes/follow/replica_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const ALL[] = {"b:1", "[::1]:2", "c:3", "bad"};
static const struct conclave_redis_view VIEW = {
    .state = CONCLAVE_REDIS_OK, .epoch = 4, .master = "a:1", .replicas = ALL, .replica_count = 4};

static struct replica_report report(const char *text, int64_t mtime_ms)
{
    struct replica_report made;
    assert_int_equal(replica_report_read(text, strlen(text), mtime_ms, &made), 0);
    return made;
}

static struct conclave_redis_replicas *make(struct replica_report *reports, size_t count)
{
    struct conclave_redis_replicas *made = NULL;
    assert_int_equal(replica_view_make(&VIEW, reports, count, &made), 0);
    for (size_t i = 0; i < count; i++) {
        replica_report_finish(&reports[i]);
    }
    assert_string_equal(made->master, "a:1");
    assert_int_equal(made->epoch, 4);
    assert_int_equal(made->count, 3); /* without the one that has no port */
    return made;
}

#define MASTER                                                                                     \
    "\"a:1\":{\"state\":\"up\",\"age_ms\":5,\"role\":\"master\",\"replid\":\"r\",\"offset\":100}"
#define REPLICA(offset)                                                                            \
    "{\"state\":\"up\",\"age_ms\":5,\"role\":\"replica\",\"replid\":\"r\",\"master\":\"a:1\","     \
    "\"link\":\"up\",\"latency_us\":7,\"offset\":" offset "}"
#define REPORT(nodes) "{\"id\":\"m\",\"period_ms\":1000,\"nodes\":{" nodes "}}"

static const struct conclave_redis_replica *of(const struct conclave_redis_replicas *list,
                                               const char *address)
{
    for (size_t i = 0; i < list->count; i++) {
        if (strcmp(list->list[i]->address, address) == 0) {
            return list->list[i];
        }
    }
    fail();
    return NULL;
}

static void lag_order_and_turns(void **state)
{
    struct replica_report reports[] = {report(
        REPORT(MASTER
               ",\"b:1\":" REPLICA("40") ",\"[::1]:2\":" REPLICA("90") ",\"c:3\":" REPLICA("120")),
        10000)};
    struct conclave_redis_replicas *list = make(reports, 1);
    assert_string_equal(list->list[0]->address, "c:3"); /* read later than the master */
    assert_int_equal(list->list[0]->lag_bytes, 0);
    assert_string_equal(list->list[1]->host, "::1");
    assert_int_equal(list->list[1]->port, 2);
    assert_int_equal(list->list[1]->lag_bytes, 10);
    assert_int_equal(list->list[1]->latency_us, 7);
    assert_int_equal(list->list[2]->lag_bytes, 60);
    for (uint64_t turn = 0; turn < 9; turn++) {
        assert_ptr_equal(conclave_redis_pick(list, -1, turn), list->list[turn % 3]);
        assert_ptr_equal(conclave_redis_pick(list, 10, turn), list->list[turn % 2]);
        assert_ptr_equal(conclave_redis_pick(list, 0, turn), list->list[0]);
    }
    conclave_redis_replicas_free(list);
}

static void unfit_replicas_are_not_picked(void **state)
{
    static const char *const wrong[] = {
        "{\"state\":\"down\",\"age_ms\":5,\"role\":\"replica\",\"replid\":\"r\",\"master\":\"a:1\","
        "\"link\":\"up\",\"offset\":1}",
        "{\"state\":\"up\",\"age_ms\":5,\"role\":\"master\",\"replid\":\"r\",\"offset\":1}",
        "{\"state\":\"up\",\"age_ms\":5,\"role\":\"replica\",\"replid\":\"r\",\"master\":\"x:1\","
        "\"link\":\"up\",\"offset\":1}",
        "{\"state\":\"up\",\"age_ms\":5,\"role\":\"replica\",\"replid\":\"q\",\"master\":\"a:1\","
        "\"link\":\"up\",\"offset\":1}",
        "{\"state\":\"up\",\"age_ms\":5,\"role\":\"replica\",\"replid\":\"r\",\"master\":\"a:1\","
        "\"link\":\"down\",\"link_down_ms\":9,\"offset\":1}",
        "{\"state\":\"up\",\"age_ms\":-1}",
        "7",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[512];
        snprintf(text, sizeof text, REPORT(MASTER ",\"b:1\":%s"), wrong[i]);
        struct replica_report reports[] = {report(text, 10000)};
        struct conclave_redis_replicas *list = make(reports, 1);
        assert_false(of(list, "b:1")->usable);
        assert_null(conclave_redis_pick(list, -1, i));
        assert_int_equal(of(list, "b:1")->link_down_ms, i == 4 ? 9 : -1);
        conclave_redis_replicas_free(list);
    }
}

static void the_newest_facts_count(void **state)
{
    static const char late[] = REPORT(MASTER ",\"b:1\":" REPLICA("90"));
    static const char early[] = REPORT(MASTER ",\"b:1\":" REPLICA("50"));
    struct replica_report reports[] = {report(early, 9000), report(late, 9500),
                                       report("no report", 99999), report("", 99999)};
    struct conclave_redis_replicas *list = make(reports, 4);
    assert_int_equal(of(list, "b:1")->lag_bytes, 10);
    assert_false(of(list, "c:3")->usable);
    assert_int_equal(of(list, "c:3")->lag_bytes, -1);
    assert_int_equal(of(list, "c:3")->age_ms, -1);
    conclave_redis_replicas_free(list);
    /* A manager that hangs: the others have reported for three periods since. */
    struct replica_report old[] = {report(late, 9000), report(REPORT(MASTER), 13001)};
    list = make(old, 2);
    assert_false(of(list, "b:1")->usable);
    conclave_redis_replicas_free(list);
    struct replica_report none[1];
    list = make(none, 0);
    assert_null(conclave_redis_pick(list, -1, 0));
    conclave_redis_replicas_free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lag_order_and_turns),
        cmocka_unit_test(unfit_replicas_are_not_picked),
        cmocka_unit_test(the_newest_facts_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
