/* Sessions: bytes in, answers out, in both versions of the protocol; who is named when; subscriptions; HTTP. */
#include "redis/sentinel/sentinel_session.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fake_facts.inc"

static struct fake_facts fake;
static struct sentinel_backend backend;
static struct sentinel_session session;
static struct buf answers;

static int fake_failover(void *ctx, uint64_t session_id)
{
    assert_int_equal(session_id, session.id);
    fake.asked++;
    return fake.refuse;
}

static int set_up(void **state)
{
    fake_init(&fake);
    backend = (struct sentinel_backend){
        .facts = fake_get, .failover = fake_failover, .failover_allowed = true, .ctx = &fake};
    sentinel_session_init(&session, &backend, 1);
    buf_init(&answers, 0);
    return 0;
}

static int tear_down(void **state)
{
    sentinel_session_finish(&session);
    sentinel_users_close((struct sentinel_users *)backend.users);
    buf_finish(&answers);
    free(fake.managers);
    return 0;
}

/* What the session answers to these bytes, all of which it takes. */
static const char *say(const char *bytes)
{
    buf_reset(&answers);
    assert_int_equal(sentinel_session_take(&session, slice_str(bytes), &answers), strlen(bytes));
    return buf_cstr(&answers);
}

static void expect_begins(const char *bytes, const char *begin)
{
    const char *found = say(bytes);
    if (strncmp(found, begin, strlen(begin)) != 0) {
        fail_msg("%s: %s, not %s", bytes, found, begin);
    }
}

static void test_who_is_named(void **state)
{
    static const char ASK[] = "SENTINEL get-master-addr-by-name shop\r\n";
    static const struct {
        bool in_contact, proved, writable;
        const char *answer;
    } ROWS[] = {
        {true, true, true, "*2\r\n$1\r\na\r\n$1\r\n1\r\n"},
        {true, true, false, "*2\r\n$1\r\na\r\n$1\r\n1\r\n"}, /* being replaced */
        {true, false, false, "-LOADING The record has just changed"},
        {false, false, false, "-LOADING This manager has no contact"},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        fake.in_contact = ROWS[i].in_contact;
        fake.proved = ROWS[i].proved;
        fake.writable = ROWS[i].writable;
        expect_begins(ASK, ROWS[i].answer);
        const char *status = ROWS[i].writable ? "HTTP/1.1 200 OK\r\n" : "HTTP/1.1 503 ";
        expect_begins("GET /redis/shop/master?server=a:1 HTTP/1.1\r\n\r\n", status);
        sentinel_session_finish(&session);
        sentinel_session_init(&session, &backend, 1);
        if (ROWS[i].in_contact) {
            bool down = strstr(say("SENTINEL master shop\r\n"), "s_down,o_down,master") != NULL;
            assert_int_equal(down, !ROWS[i].writable);
        } else {
            expect_begins("SENTINEL master shop\r\n", "-LOADING");
            expect_begins("SENTINEL masters\r\n", "-LOADING");
            expect_begins("SENTINEL replicas shop\r\n", "-LOADING");
            expect_begins("SENTINEL sentinels shop\r\n", "-LOADING");
            expect_begins("SENTINEL failover shop\r\n", "-LOADING");
            expect_begins("SENTINEL ckquorum shop\r\n", "-NOQUORUM");
        }
    }
    expect_begins("SENTINEL get-master-addr-by-name other\r\n", "*-1\r\n");
    fake.current.master[0] = '\0'; /* before the first one was found */
    fake.in_contact = fake.proved = true;
    expect_begins("SENTINEL masters\r\n", "-LOADING");
    expect_begins(ASK, "-LOADING");
}

static void test_replicas_and_sentinels(void **state)
{
    const char *found = say("SENTINEL replicas shop\r\n");
    assert_non_null(strstr(found, "$3\r\nb:2\r\n"));
    assert_non_null(strstr(found, "$7\r\n[::1]:3\r\n$2\r\nip\r\n$3\r\n::1\r\n"));
    assert_null(strstr(found, "s_down"));
    fake.current.replica_count = 1; /* not of use yet */
    assert_non_null(strstr(say("SENTINEL slaves shop\r\n"), "s_down,slave\r\n"));
    fake.current.replica_count = 2;
    fake.nodes[1].state = REDIS_NODE_DOWN;
    fake.nodes[1].failures = 3;
    assert_non_null(strstr(say("SENTINEL slaves shop\r\n"), "s_down,slave,disconnected\r\n"));
    found = say("SENTINEL sentinels shop\r\n");
    assert_non_null(strstr(found, "$5\r\nother\r\n$4\r\nport\r\n$5\r\n26379\r\n"));
    assert_null(strstr(found, "s_down"));
    fake.managers->views[0].changed_ms = 90000;
    assert_non_null(strstr(say("SENTINEL sentinels shop\r\n"), "s_down,sentinel"));
    expect_begins("SENTINEL ckquorum shop\r\n", "-NOQUORUM 1 usable Sentinels.");
    /* A manager without the port, and one whose report says nonsense. */
    strcpy(fake.managers->views[0].report.sentinel, "no address");
    expect_begins("SENTINEL sentinels shop\r\n", "*0\r\n");
    assert_non_null(strstr(say("INFO sentinel\r\n"), "status=ok,address=a:1,slaves=2,sentinels=1"));
}

static void test_failover(void **state)
{
    static const char ASK[] = "SENTINEL FAILOVER shop\r\nPING\r\n";
    buf_reset(&answers);
    assert_int_equal(sentinel_session_take(&session, slice_str(ASK), &answers), 24);
    assert_int_equal(session.state, SENTINEL_WAITING);
    assert_int_equal(fake.asked, 1);
    assert_int_equal(answers.len, 0);
    assert_int_equal(sentinel_session_take(&session, slice_str("PING\r\n"), &answers), 0);
    sentinel_session_requested(&session, 0, &answers);
    assert_string_equal(buf_cstr(&answers), "+OK\r\n");
    assert_string_equal(say("PING\r\n"), "+PONG\r\n");
    fake.refuse = CONCLAVE_ENOMEM;
    expect_begins("SENTINEL FAILOVER shop\r\n", "-ERR The request for a fail-over was not stored");
    assert_int_equal(session.state, SENTINEL_OPEN);
    fake.nodes[0].facts.version = 60016;
    expect_begins("SENTINEL FAILOVER shop\r\n", "-ERR Before Redis 6.2 ");
    fake.nodes[0].facts.version = 60200;
    fake.has_plan = true;
    expect_begins("SENTINEL FAILOVER shop\r\n", "-INPROG ");
    fake.has_plan = false;
    fake.nodes[1].facts.priority = 0;
    fake.nodes[2].state = REDIS_NODE_DOWN;
    expect_begins("SENTINEL FAILOVER shop\r\n", "-NOGOODSLAVE ");
    backend.failover_allowed = false;
    expect_begins("SENTINEL FAILOVER shop\r\n", "-NOPERM ");
    assert_int_equal(fake.asked, 2);
    static const char *const REFUSED[] = {"RESET *",
                                          "MONITOR a b 1 2",
                                          "REMOVE shop",
                                          "SET shop quorum 1",
                                          "CONFIG GET x",
                                          "FLUSHCONFIG",
                                          "DEBUG",
                                          "SIMULATE-FAILURE crash-after-election",
                                          "IS-MASTER-DOWN-BY-ADDR a 1 0 *",
                                          "PENDING-SCRIPTS",
                                          "INFO-CACHE shop"};
    for (size_t i = 0; i < sizeof REFUSED / sizeof REFUSED[0]; i++) {
        char text[100];
        snprintf(text, sizeof text, "SENTINEL %s\r\n", REFUSED[i]);
        expect_begins(text, "-ERR SENTINEL ");
    }
}

static void test_versions_and_log_in(void **state)
{
    char path[] = "/tmp/conclave-users-XXXXXX";
    char why[SENTINEL_WHY_MAX];
    struct sentinel_users *users;
    int fd = mkstemp(path);
    assert_int_equal(write(fd, "ops secret\n", 11), 11);
    close(fd);
    assert_int_equal(sentinel_users_open(path, &users, why), 0);
    unlink(path);
    backend.users = users;
    sentinel_session_init(&session, &backend, 1);
    expect_begins("PING\r\n", "-NOAUTH ");
    expect_begins("NOSUCH\r\n", "-NOAUTH ");
    expect_begins("HELLO 3\r\n", "-NOAUTH ");
    expect_begins("HELLO 3 AUTH ops wrong\r\n", "-WRONGPASS ");
    expect_begins("AUTH secret\r\n", "-WRONGPASS ");
    expect_begins("PING\r\n", "-NOAUTH ");
    expect_begins("HELLO 3 AUTH ops secret SETNAME me\r\n", "%6\r\n");
    expect_begins("CLIENT GETNAME\r\n", "$2\r\nme\r\n");
    expect_begins("SENTINEL get-master-addr-by-name other\r\n", "_\r\n");
    expect_begins("HELLO 3 SETNAME\r\n", "-ERR Syntax error in HELLO option 'SETNAME'");
    expect_begins("HELLO 2\r\n", "*12\r\n");
    expect_begins("CLIENT SETNAME a\x01\r\n", "-ERR Client names");
    expect_begins("RESET\r\n", "+RESET\r\n");
    expect_begins("PING\r\n", "-NOAUTH ");
    expect_begins("AUTH ops secret\r\nPING\r\n", "+OK\r\n+PONG\r\n");
    expect_begins("QUIT\r\nPING\r\n", "+OK\r\n");
    assert_int_equal(session.state, SENTINEL_OVER);
}

static void test_subscriptions(void **state)
{
    expect_begins("SUBSCRIBE +switch-master\r\n",
                  "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
    expect_begins("PSUBSCRIBE +s*\r\n", "*3\r\n$10\r\npsubscribe\r\n$3\r\n+s*\r\n:2\r\n");
    expect_begins("SENTINEL masters\r\n", "-ERR Can't execute 'sentinel'");
    expect_begins("PING\r\n", "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    buf_reset(&answers);
    sentinel_session_publish(&session, "+switch-master", "text", &answers);
    assert_string_equal(
        buf_cstr(&answers),
        "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$4\r\ntext\r\n"
        "*4\r\n$8\r\npmessage\r\n$3\r\n+s*\r\n$14\r\n+switch-master\r\n$4\r\ntext\r\n");
    buf_reset(&answers);
    sentinel_session_publish(&session, "-sdown", "text", &answers);
    assert_int_equal(answers.len, 0);
    expect_begins("UNSUBSCRIBE\r\n", "*3\r\n$11\r\nunsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
    expect_begins("UNSUBSCRIBE\r\n", "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:1\r\n");
    expect_begins(
        "PUNSUBSCRIBE x +s*\r\n",
        "*3\r\n$12\r\npunsubscribe\r\n$1\r\nx\r\n:1\r\n*3\r\n$12\r\npunsubscribe\r\n$3\r\n+s*\r\n:0\r\n");
    expect_begins("HELLO 3\r\n", "%6");
    expect_begins("SUBSCRIBE a a\r\n", ">3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n>3\r\n");
    expect_begins("PING\r\n", "+PONG\r\n"); /* version 3 */
    for (int i = 1; i < SENTINEL_CHANNELS_MAX; i++) {
        char text[40];
        snprintf(text, sizeof text, "SUBSCRIBE b%d\r\n", i);
        expect_begins(text, ">3\r\n");
    }
    expect_begins("SUBSCRIBE c\r\n", "-ERR at most 64 subscriptions");
    expect_begins("SUBSCRIBE a\r\n", ">3\r\n");
}

static void test_patterns(void **state)
{
    static const struct {
        const char *pattern, *text;
        bool matches;
    } ROWS[] = {
        {"*", "", true},
        {"*", "abc", true},
        {"", "", true},
        {"", "a", false},
        {"a?c", "abc", true},
        {"a?c", "ac", false},
        {"a*c", "abbc", true},
        {"a*c", "abcd", false},
        {"a*c*", "abcd", true},
        {"[ab]c", "bc", true},
        {"[^ab]c", "bc", false},
        {"[^ab]c", "cc", true},
        {"[a-c]", "b", true},
        {"[c-a]", "b", true},
        {"[a-c]", "d", false},
        {"[a-]", "-", true},
        {"\\*", "*", true},
        {"\\*", "a", false},
        {"[\\]]", "]", true},
        {"[", "[", false},
        {"[a", "a", true},
        {"\\", "\\", true},
        {"*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaa", false},
        {"+s*n", "+sdown", true},
        {"+s*n", "+sdowns", false},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        if (sentinel_pattern_matches(slice_str(ROWS[i].pattern), slice_str(ROWS[i].text)) !=
            ROWS[i].matches) {
            fail_msg("%s, %s", ROWS[i].pattern, ROWS[i].text);
        }
    }
}

static void test_http(void **state)
{
    static const struct {
        const char *line, *answer;
    } ROWS[] = {
        {"GET /redis/shop/master?server=a:1", "200 OK"},
        {"GET /redis/shop/master?server=A%3a1", "200 OK"},
        {"OPTIONS /redis/shop/master?server=a:1&x=y", "200 OK"},
        {"GET /redis/shop/master", "200 OK"},
        {"GET /redis/shop/master?server=b:2", "503 "},
        {"GET /redis/shop/replica?server=b:2", "200 OK"},
        {"GET /redis/shop/replica?server=%5B::1%5D:3", "200 OK"},
        {"GET /redis/shop/replica?server=a:1", "503 "},
        {"GET /redis/shop/replica", "404 "},
        {"GET /redis/shop/master?server=c:2", "404 "},
        {"GET /redis/shop/master?server=",
         "404 "}, /* not "any": the variable of a template was empty */
        {"GET /redis/shop/master?Server=b:2", "404 "},
        {"GET /redis/shop/master?x=1&server=b:2", "404 "},
        {"GET /redis/shop/masters", "404 "},
        {"GET /redis/shops/master", "404 "},
        {"GET /redis/sho/master", "404 "},
        {"GET /", "404 "},
        {"GET ?server=a:1", "404 "},
        {"PUT /redis/shop/master?server=a:1", "405 "},
    };
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char bytes[200];
        char begin[60];
        snprintf(bytes, sizeof bytes, "%s HTTP/1.1\r\nHost: x\r\n\r\n", ROWS[i].line);
        snprintf(begin, sizeof begin, "HTTP/1.1 %s", ROWS[i].answer);
        expect_begins(bytes, begin);
        assert_int_equal(session.state, SENTINEL_OVER);
        sentinel_session_init(&session, &backend, 1);
    }
    const char *found = say("HEAD /redis/shop/master?server=a:1 HTTP/1.1\r\n\r\n");
    assert_string_equal(found + strlen(found) - 4, "\r\n\r\n"); /* no body */
}

static void test_commands_and_errors(void **state)
{
    expect_begins("COMMAND COUNT\r\n", ":14\r\n");
    expect_begins("COMMAND\r\n", "*14\r\n*6\r\n$4\r\nping\r\n:-1\r\n");
    expect_begins("COMMAND INFO role nosuch\r\n", "*2\r\n*6\r\n$4\r\nrole\r\n:1\r\n");
    expect_begins("COMMAND DOCS\r\n", "*0\r\n");
    expect_begins("COMMAND LIST\r\n", "-ERR unknown subcommand 'LIST'");
    expect_begins("get a b\r\n",
                  "-ERR unknown command 'get', with args beginning with: 'a' 'b' \r\n");
    expect_begins("ROLE x\r\n", "-ERR wrong number of arguments for 'role' command\r\n");
    expect_begins("SENTINEL MASTER\r\n",
                  "-ERR wrong number of arguments for 'sentinel|master' command\r\n");
    expect_begins("SENTINEL HELP\r\n",
                  "*10\r\n+SENTINEL get-master-addr-by-name <master-name>\r\n");
    expect_begins("*1\r\n$3\r\na\rb\r\n", "-ERR unknown command 'a b'");
    expect_begins("CLIENT LIST\r\n", "-ERR unknown subcommand");
    expect_begins("CLIENT ID\r\n", ":1\r\n");
    expect_begins("*x\r\n", "-ERR Protocol error");
    assert_int_equal(session.state, SENTINEL_OVER);
}

/* However much a client sends, one call answers only a few requests; empty lines count, too. */
static void test_requests_of_a_turn_are_bounded(void **state)
{
    static const char *const LINES[] = {"SENTINEL masters\r\n", "\r\n", "*0\r\n"};
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        size_t len = strlen(LINES[i]);
        char many[2000];
        for (size_t at = 0; at + len <= sizeof many; at += len) {
            memcpy(many + at, LINES[i], len);
        }
        buf_reset(&answers);
        assert_int_equal(
            sentinel_session_take(&session, slice_make(many, sizeof many / len * len), &answers),
            SENTINEL_TURN_REQUESTS * len);
        assert_true(answers.len < SENTINEL_ANSWERS_MAX);
    }
    /* Nor does it answer any while so much waits to be sent. */
    char full[SENTINEL_ANSWERS_MAX] = {0};
    buf_reset(&answers);
    buf_append(&answers, full, sizeof full);
    assert_int_equal(sentinel_session_take(&session, slice_str("PING\r\n"), &answers), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_who_is_named),
        T(test_replicas_and_sentinels),
        T(test_failover),
        T(test_versions_and_log_in),
        T(test_subscriptions),
        T(test_patterns),
        T(test_http),
        T(test_commands_and_errors),
        T(test_requests_of_a_turn_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
