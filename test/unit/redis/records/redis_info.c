/* INFO of several versions, cut off and spoiled; and whose data belong to which history. */
#include "redis/records/redis_info.h"

#include <conclave/error.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ID_A "d2c348db5c3b2083d4aeb097cf0ecaad9071e364"
#define ID_B "aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd"
#define ID_C "1111111111222222222233333333334444444444"
#define ZEROS "0000000000000000000000000000000000000000"

static const char master7[] =
    "# Server\r\nredis_version:7.0.15\r\nrun_id:" ID_B "\r\n"
    "# Persistence\r\nloading:0\r\nasync_loading:0\r\n"
    "# Replication\r\nrole:master\r\nconnected_slaves:2\r\nmin_slaves_good_slaves:1\r\n"
    "slave0:ip=127.0.0.1,port=7872,state=online,offset=50,lag=0\r\n"
    "slave1:ip=::1,port=7873,state=wait_bgsave,offset=0,lag=3\r\n"
    "master_failover_state:waiting-for-sync\r\nmaster_replid:" ID_A "\r\nmaster_replid2:" ZEROS
    "\r\nmaster_repl_offset:50\r\nsecond_repl_offset:-1\r\n"
    "# Keyspace\r\ndb0:keys=1,expires=0,avg_ttl=0\r\ndb5:keys=41,expires=0,avg_ttl=0\r\n";

static const char replica7[] =
    "# Server\r\nredis_version:7.0.15\r\nrun_id:" ID_C "\r\n# Replication\r\nrole:slave\r\n"
    "master_host:::1\r\nmaster_port:7871\r\nmaster_link_status:down\r\n"
    "master_sync_in_progress:1\r\nslave_read_repl_offset:0\r\nslave_repl_offset:0\r\n"
    "master_link_down_since_seconds:7\r\nslave_priority:5\r\nmaster_failover_state:no-failover\r\n"
    "master_replid:" ID_A "\r\nmaster_replid2:" ID_B
    "\r\nmaster_repl_offset:1234\r\nsecond_repl_offset:100\r\n# Keyspace\r\n";

static const char replica28[] = "role:slave\nmaster_host:10.0.0.1\nmaster_port:6379\n"
                                "master_link_status:up\nslave_repl_offset:77\nslave_priority:0\n"
                                "master_repl_offset:99999\nredis_version:2.8.24\n";

static struct redis_facts read_all(const char *text)
{
    struct redis_facts facts;
    assert_int_equal(redis_facts_read(text, strlen(text), &facts), 0);
    return facts;
}

static void a_master_of_7_0(void **state)
{
    struct redis_facts facts = read_all(master7);
    assert_int_equal(facts.role, REDIS_ROLE_MASTER);
    assert_int_equal(facts.version, 70015);
    assert_string_equal(facts.run_id, ID_B);
    assert_string_equal(facts.replid, ID_A);
    assert_string_equal(facts.replid2, "");
    assert_int_equal(facts.second_offset, -1);
    assert_int_equal(facts.offset, 50);
    assert_int_equal(facts.handover, REDIS_HANDOVER_WAITING);
    assert_int_equal(facts.keys, 42);
    assert_int_equal(facts.good_replicas, 1);
    assert_int_equal(facts.replica_count, 2);
    assert_string_equal(facts.replicas[0], "127.0.0.1:7872");
    assert_string_equal(facts.replicas[1], "[::1]:7873");
    assert_false(facts.loading);
}

/* While it synchronizes again its data are still those of the history, at the offset that it had. */
static void a_replica_whose_link_is_down(void **state)
{
    struct redis_facts facts = read_all(replica7);
    assert_int_equal(facts.role, REDIS_ROLE_REPLICA);
    assert_string_equal(facts.master, "[::1]:7871");
    assert_false(facts.link_up);
    assert_true(facts.sync_in_progress);
    assert_int_equal(facts.link_down_ms, 7000);
    assert_int_equal(facts.offset, 1234);
    assert_int_equal(facts.read_offset, 1234);
    assert_int_equal(facts.priority, 5);
    assert_string_equal(facts.replid2, ID_B);
    assert_int_equal(facts.second_offset, 100);
    assert_int_equal(facts.keys, 0);
}

static void a_replica_of_2_8_has_no_ids(void **state)
{
    struct redis_facts facts = read_all(replica28);
    assert_int_equal(facts.version, 20824);
    assert_string_equal(facts.replid, "");
    assert_int_equal(facts.offset, 77);
    assert_true(facts.link_up);
    assert_int_equal(facts.priority, 0);
    assert_int_equal(facts.keys, -1);
    assert_false(redis_facts_of_history(&facts, "", "", -1));
}

static void numbers_without_measure_do_not_overflow(void **state)
{
    struct redis_facts facts =
        read_all("role:slave\nmaster_link_down_since_seconds:999999999999999999\n# Keyspace\n"
                 "db0:keys=999999999999999999\ndb1:keys=999999999999999999\n"
                 "db2:keys=999999999999999999,keys=999999999999999999,keys=999999999999999999,"
                 "keys=999999999999999999,keys=999999999999999999,keys=999999999999999999,"
                 "keys=999999999999999999,keys=999999999999999999,keys=999999999999999999\n");
    assert_int_equal(facts.link_down_ms, INT64_MAX);
    assert_int_equal(facts.keys, INT64_MAX);
}

static void what_is_no_info_is_refused(void **state)
{
    struct redis_facts facts = {.priority = 12345};
    static const char *const texts[] = {
        "", "\r\n", "role:sentinel\r\n", "# Replication\r\n", "role\r\n:\r\n", "ROLE:master"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_int_equal(redis_facts_read(texts[i], strlen(texts[i]), &facts), CONCLAVE_ECORRUPT);
        assert_int_equal(facts.priority, 12345);
    }
}

static void numbers_and_ids_that_are_none_are_unknown(void **state)
{
    struct redis_facts facts = read_all(
        "role:master\nmaster_repl_offset:99999999999999999999\nslave_priority:many\n"
        "master_replid:short\nrun_id:zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz\n"
        "slave0:ip=,port=70000,state=online\nslave1:port=1\ndb0:keys=x\nsecond_repl_offset:5\n");
    assert_int_equal(facts.offset, -1);
    assert_int_equal(facts.priority, 100);
    assert_string_equal(facts.replid, "");
    assert_string_equal(facts.run_id, "");
    assert_int_equal(facts.replica_count, 0);
    assert_int_equal(facts.second_offset, -1);
    assert_int_equal(facts.keys, -1);
}

/* Cut off anywhere: nothing beyond the end is read (the sanitizers look), and a role is one or none. */
static void a_text_cut_off_anywhere(void **state)
{
    static const char *const texts[] = {master7, replica7, replica28};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        for (size_t len = 0; len < strlen(texts[i]); len++) {
            char *copy = malloc(len + 1);
            struct redis_facts facts = {.role = REDIS_ROLE_UNKNOWN};
            assert_non_null(copy);
            memcpy(copy, texts[i], len);
            char *exact = realloc(copy, len == 0 ? 1 : len);
            assert_non_null(exact);
            int error = redis_facts_read(exact, len, &facts);
            assert_true((error == 0) == (facts.role != REDIS_ROLE_UNKNOWN));
            free(exact);
        }
    }
}

static bool belongs(const char *replid, const char *replid2, int64_t second, int64_t offset)
{
    struct redis_facts facts = {.offset = offset, .second_offset = second};
    strncpy(facts.replid, replid, sizeof facts.replid - 1);
    strncpy(facts.replid2, replid2, sizeof facts.replid2 - 1);
    return redis_facts_of_history(&facts, ID_A, ID_B, 100); /* A went on from B at 100 */
}

static void whose_data_are_of_a_history(void **state)
{
    assert_true(belongs(ID_A, "", -1, 500));
    assert_true(belongs(ID_C, ID_A, 400, 500)); /* went on from it */
    assert_true(belongs(ID_B, "", -1, 99));     /* does not know of the change yet */
    assert_false(belongs(ID_B, "", -1, 100));   /* wrote on where A had left */
    assert_true(belongs(ID_C, ID_B, 60, 70));   /* promoted before the change */
    assert_true(belongs(ID_C, ID_B, 100, 170));
    assert_false(belongs(ID_C, ID_B, 101, 170)); /* it had more than A took over */
    assert_false(belongs(ID_C, "", -1, 500));
    assert_false(belongs(ID_A, "", -1, -1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_master_of_7_0),
        cmocka_unit_test(a_replica_whose_link_is_down),
        cmocka_unit_test(a_replica_of_2_8_has_no_ids),
        cmocka_unit_test(numbers_without_measure_do_not_overflow),
        cmocka_unit_test(what_is_no_info_is_refused),
        cmocka_unit_test(numbers_and_ids_that_are_none_are_unknown),
        cmocka_unit_test(a_text_cut_off_anywhere),
        cmocka_unit_test(whose_data_are_of_a_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
