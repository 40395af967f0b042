/* Which facts are an alarm, and in which order. */
#include "admin/console/alarms.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Three members, all well. */
static struct alarm_facts facts(void)
{
    return (struct alarm_facts){.grouped = true,
                                .leader = 2,
                                .voters = 3,
                                .voters_linked = 3,
                                .connections = 10,
                                .connections_max = 1000,
                                .files = 50,
                                .files_max = 1024};
}

static char texts[4096];

static void note(void *ctx, const struct alarm *a)
{
    size_t len = strlen(texts);
    assert_true(strlen(a->text) < sizeof a->text - 1); /* not cut */
    assert_true(strlen(a->advice) > 20);
    (void)snprintf(texts + len, sizeof texts - len, "%s%s\n", a->critical ? "!" : "", a->text);
}

static void assert_alarms(const struct alarm_facts *f, const char *expected)
{
    texts[0] = '\0';
    (void)alarms_find(f, note, NULL);
    assert_string_equal(texts, expected);
}

static void test_all_is_well(void **state)
{
    struct alarm_facts f = facts();
    assert_alarms(&f, "");
    f.files = f.files_max = -1; /* unknown */
    f.connections_max = 0;
    f.fsync_p99_us = 100000;
    f.stall_ms = 500;
    f.oldest_write_ms = 2000;
    f.most_behind = 10000;
    assert_alarms(&f, "");
    f = (struct alarm_facts){.files = -1}; /* standalone */
    assert_alarms(&f, "");
}

static void test_members(void **state)
{
    struct alarm_facts f = facts();
    f.members_down = 1;
    f.first_down = 3;
    f.voters_linked = 2;
    assert_alarms(&f, "!2 of 3 voters are in reach: one more failure stops all writes.\n"
                      "Member 3 is not in reach.\n");
    f.members_down = 2;
    f.voters_linked = 1;
    f.leader = 0;
    assert_alarms(&f, "!No leader: the ensemble accepts no writes.\n"
                      "2 members are not in reach, member 3 among them.\n");
    f = facts();
    f.voters = 5;
    f.voters_linked = 4;
    f.members_down = 1;
    f.first_down = 1;
    assert_alarms(&f, "Member 1 is not in reach.\n");
    f = facts();
    f.voters = f.voters_linked = 2;
    assert_alarms(&f, "The ensemble has two voters: it survives no failure.\n");
    f = facts();
    f.most_behind = 10001;
    f.behind_id = 1;
    assert_alarms(&f, "Member 1 is 10001 log entries behind the leader.\n");
}

static void test_one_server(void **state)
{
    struct alarm_facts f = facts();
    f.not_ready = "writes are not answered in time";
    f.data_level = 2;
    f.damaged = f.aside = true;
    f.oldest_write_ms = 2500;
    f.fsync_p99_us = 250000;
    f.stall_ms = 1200;
    f.connections = 900;
    f.files = 1000;
    assert_alarms(&f, "!This server does not serve clients: writes are not answered in time.\n"
                      "!The data have reached maxDataBytes: writes that add data are refused.\n"
                      "!Data of this server are damaged; it fetches them from the other members.\n"
                      "!The log of this server accepts no writes; it stepped aside.\n"
                      "!A write has waited 2.5 s for its answer.\n"
                      "The disk is slow: one sync of the log in 100 takes 250 ms or more.\n"
                      "This server's process did not run for 1.2 s.\n"
                      "900 of 1000 client connections are in use.\n"
                      "1000 of 1024 file descriptors are open.\n");
    f = facts();
    f.connections_max = 50; /* small limits */
    f.files_max = 60;
    f.files = 53;
    assert_alarms(&f, "");
    f.connections = 45;
    f.files = 54;
    assert_alarms(&f, "45 of 50 client connections are in use.\n"
                      "54 of 60 file descriptors are open.\n");
    f = facts();
    f.data_level = 1;
    assert_alarms(&f, "The data are near maxDataBytes.\n");
}

static void test_json(void **state)
{
    struct alarm_facts f = facts();
    struct json j;
    f.files = 1024;
    json_init(&j);
    alarms_write(&f, &j);
    assert_string_equal(buf_cstr(&j.out),
                        "[{\"critical\":false,\"text\":\"1024 of 1024 file descriptors are open.\","
                        "\"advice\":\"Raise the limit of open files (LimitNOFILE in a systemd "
                        "unit).\"}]");
    json_finish(&j);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_is_well),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_one_server),
        cmocka_unit_test(test_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
