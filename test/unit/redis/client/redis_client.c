/* The client of a set of Redis servers, against servers and an ensemble that misbehave on command: E191 to E195. */
#include "redis/client/redis_client.h"

#include "support/candidate.h"
#include "support/fake_redis.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

#define ROOT "/redis_failover/default"
#define CURRENT ROOT "/current"
#define REPORT ROOT "/managers/m"

enum { STALE_MS = 60000, SHORT_MS = 300, A = 0, B = 1, SERVERS = 2 };

static const char *const RUN_IDS[SERVERS] = {"aaaa", "bbbb"};

/* Two servers, of which the first is the master, and a client. */
struct set {
    struct candidate c;
    struct fake_zk *zk;
    struct fake_redis *at[SERVERS];
    struct conclave_redis_client *redis;
    struct conclave_redis_reply *reply; /* of the last command */
};

static struct conclave_redis_client_options patient(void)
{
    struct conclave_redis_client_options o = CONCLAVE_REDIS_CLIENT_OPTIONS_INIT;
    o.stale_ms = STALE_MS;
    o.timeout_ms = PATIENCE_MS;
    o.connect_timeout_ms = PATIENCE_MS;
    o.answer_timeout_ms = PATIENCE_MS;
    return o;
}

static void put(struct fake_zk *zk, const char *path, const char *data)
{
    if (fake_zk_exists(zk, path)) {
        fake_zk_write(zk, path, data);
    } else {
        fake_zk_create(zk, path, data, 0);
    }
}

static void publish_as(struct set *s, const char *word, int epoch, int master, const char *run_id)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "{\"version\":1,\"epoch\":%d,\"state\":\"%s\",\"master\":\"%s\",\"run_id\":"
                   "\"%s\",\"replicas\":[\"%s\"],\"unavailable\":[]}",
                   epoch, word, fake_redis_address(s->at[master]), run_id,
                   fake_redis_address(s->at[1 - master]));
    put(s->zk, CURRENT, text);
}

static void publish(struct set *s, const char *word, int epoch, int master)
{
    publish_as(s, word, epoch, master, RUN_IDS[master]);
}

/* The managers' report: the other one is a replica that is so many bytes behind. */
static void report(struct set *s, int master, int lag)
{
    char text[1024];
    (void)snprintf(
        text, sizeof text,
        "{\"id\":\"m\",\"period_ms\":1000,\"nodes\":{\"%s\":{\"state\":\"up\",\"age_ms\":"
        "1,\"role\":\"master\",\"offset\":100},\"%s\":{\"state\":\"up\",\"age_ms\":1,"
        "\"role\":\"replica\",\"master\":\"%s\",\"link\":\"up\",\"offset\":%d}}}",
        fake_redis_address(s->at[master]), fake_redis_address(s->at[1 - master]),
        fake_redis_address(s->at[master]), 100 - lag);
    put(s->zk, REPORT, text);
}

static void set_open(struct set *s, struct fake_zk *zk,
                     const struct conclave_redis_client_options *o)
{
    memset(s, 0, sizeof *s);
    s->zk = zk;
    for (int i = 0; i < SERVERS; i++) {
        s->at[i] = fake_redis_start(i == A, RUN_IDS[i]);
        assert_non_null(s->at[i]);
    }
    put(zk, "/redis_failover", "");
    put(zk, ROOT, "");
    put(zk, ROOT "/managers", "");
    publish(s, "ok", 1, A);
    report(s, A, 0);
    candidate_connect(&s->c, zk, 0, "x");
    assert_int_equal(conclave_redis_client_open(s->c.recipes, o, &s->redis), 0);
}

static void client_end(struct conclave_redis_client *redis)
{
    assert_int_equal(conclave_redis_client_close_wait(redis, PATIENCE_MS), 0);
    conclave_redis_client_destroy(redis);
}

static void set_close(struct set *s)
{
    conclave_redis_reply_free(s->reply);
    client_end(s->redis);
    candidate_finish(&s->c);
    for (int i = 0; i < SERVERS; i++) {
        fake_redis_stop(s->at[i]);
    }
}

static int command(struct set *s, enum conclave_redis_kind kind, const char *name)
{
    const char *argv[] = {name, "key"};
    conclave_redis_reply_free(s->reply);
    s->reply = NULL;
    return conclave_redis_command(s->redis, kind, strcmp(name, "PING") == 0 ? 1 : 2, argv, NULL,
                                  &s->reply);
}

static int incr(struct set *s)
{
    return command(s, CONCLAVE_REDIS_WRITE, "INCR");
}

static int incr_idempotent(struct set *s)
{
    return command(s, CONCLAVE_REDIS_WRITE_IDEMPOTENT, "INCR");
}

static int get(struct set *s)
{
    return command(s, CONCLAVE_REDIS_READ, "GET");
}

static bool problem_has(struct set *s, const char *part)
{
    char text[256];
    conclave_redis_client_problem(s->redis, text, sizeof text);
    if (strstr(text, part) == NULL) {
        print_error("the problem is: %s\n", text);
    }
    return strstr(text, part) != NULL;
}

#define SERVED_BY(s, i) assert_string_equal((s)->reply->server, fake_redis_address((s)->at[i]))

/* --- where a command goes -------------------------------------------------------------------- */

static void E191_writes_go_to_the_master_and_reads_where_the_options_say(void **state)
{
    static const enum conclave_redis_reads READS[] = {CONCLAVE_REDIS_READS_MASTER,
                                                      CONCLAVE_REDIS_READS_REPLICA,
                                                      CONCLAVE_REDIS_READS_REPLICA_OR_MASTER};
    for (int i = 0; i < 3; i++) {
        struct conclave_redis_client_options o = patient();
        struct set s;
        o.reads = READS[i];
        set_open(&s, *state, &o);
        assert_int_equal(incr(&s), 0);
        assert_int_equal(s.reply->type, CONCLAVE_REDIS_REPLY_INTEGER);
        assert_int_equal(s.reply->integer, 1);
        assert_int_equal(s.reply->epoch, 1);
        assert_int_equal(s.reply->replicas, -1);
        SERVED_BY(&s, A);
        fake_redis_set(s.at[B], 77, 0);
        assert_int_equal(get(&s), 0);
        SERVED_BY(&s, READS[i] == CONCLAVE_REDIS_READS_MASTER ? A : B);
        assert_string_equal(s.reply->text, READS[i] == CONCLAVE_REDIS_READS_MASTER ? "1" : "77");
        assert_int_equal(s.reply->epoch, READS[i] == CONCLAVE_REDIS_READS_MASTER);
        assert_int_equal(command(&s, CONCLAVE_REDIS_READ_MASTER, "GET"), 0);
        SERVED_BY(&s, A);
        assert_int_equal(fake_redis_count(s.at[B], "INCR"), 0);
        assert_int_equal(fake_redis_accepted(s.at[A]), 1); /* connections are kept */
        set_close(&s);
    }
}

static void E191_a_replica_that_is_not_fit_is_not_read_from(void **state)
{
    struct conclave_redis_client_options o = patient();
    struct set s;
    o.reads = CONCLAVE_REDIS_READS_REPLICA;
    o.max_lag_bytes = 10;
    o.timeout_ms = SHORT_MS;
    set_open(&s, *state, &o);
    report(&s, A, 11);
    assert_int_equal(get(&s), CONCLAVE_ETIMEDOUT);
    assert_true(problem_has(&s, "no replica is fit"));
    report(&s, A, 10);
    EVENTUALLY(get(&s) == 0);
    SERVED_BY(&s, B);
    fake_redis_cut(s.at[B]);
    fake_redis_set_link(s.at[B], false); /* newer than the report */
    do { /* on a busy machine the time may be over before it has asked the replica */
        assert_int_equal(get(&s), CONCLAVE_ETIMEDOUT);
    } while (!problem_has(&s, "not a replica with a link"));
    fake_redis_set_master(s.at[B], true);
    fake_redis_set_link(s.at[B], true);
    assert_int_equal(get(&s), CONCLAVE_ETIMEDOUT);
    assert_int_equal(fake_redis_count(s.at[A], "GET"), 0);
    set_close(&s);
}

static void E191_the_master_serves_reads_while_no_replica_does(void **state)
{
    struct conclave_redis_client_options o = patient();
    struct set s;
    o.reads = CONCLAVE_REDIS_READS_REPLICA_OR_MASTER;
    o.max_lag_bytes = 10;
    set_open(&s, *state, &o);
    report(&s, A, 11);
    assert_int_equal(get(&s), 0);
    SERVED_BY(&s, A);
    report(&s, A, 0);
    EVENTUALLY(get(&s) == 0 && s.reply->epoch == 0);
    fake_redis_hook(s.at[B], "GET", 1, FAKE_REDIS_CUT, NULL);
    assert_int_equal(get(&s), 0); /* the same call */
    SERVED_BY(&s, A);
    set_close(&s);
}

/* --- repeated, or not ------------------------------------------------------------------------- */

static void E192_a_write_without_an_answer_is_not_repeated(void **state)
{
    struct conclave_redis_client_options o = patient();
    struct set s;
    set_open(&s, *state, &o);
    fake_redis_hook(s.at[A], "INCR", 1, FAKE_REDIS_LOSE, NULL);
    assert_int_equal(incr(&s), CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(fake_redis_value(s.at[A]), 1);
    fake_redis_hook(s.at[A], "INCR", 1, FAKE_REDIS_CUT, NULL);
    assert_int_equal(incr(&s), CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(fake_redis_value(s.at[A]), 1);
    fake_redis_hook(s.at[A], "INCR", 1, FAKE_REDIS_SAY, "$1000000000\r\n");
    fake_redis_hook(s.at[A], "INCR", 1, FAKE_REDIS_SAY, "what?\r\n");
    assert_int_equal(incr(&s), CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(incr(&s), 0);
    assert_int_equal(s.reply->integer, 2);
    assert_int_equal(fake_redis_count(s.at[A], "INCR"), 4);
    set_close(&s);
}

static void E192_an_idempotent_write_and_a_read_are_repeated(void **state)
{
    static const enum fake_redis_fate FATES[] = {FAKE_REDIS_LOSE, FAKE_REDIS_CUT, FAKE_REDIS_SAY};
    struct conclave_redis_client_options o = patient();
    struct set s;
    set_open(&s, *state, &o);
    for (int i = 0; i < 3; i++) {
        fake_redis_set(s.at[A], 0, 0);
        fake_redis_hook(s.at[A], "INCR", 3, FATES[i], "what?\r\n");
        assert_int_equal(incr_idempotent(&s), 0);
        assert_int_equal(s.reply->integer, FATES[i] == FAKE_REDIS_LOSE ? 4 : 1);
        fake_redis_hook(s.at[A], "GET", 3, FATES[i], "what?\r\n");
        assert_int_equal(get(&s), 0);
    }
    set_close(&s);
}

static void E192_a_write_that_was_refused_or_not_sent_is_repeated(void **state)
{
    static const char *const REFUSALS[] = {
        "-READONLY You can't write against a read only replica.\r\n",
        "-LOADING Redis is loading the dataset in memory\r\n",
        "-MASTERDOWN Link with MASTER is down\r\n",
        "-NOREPLICAS Not enough good replicas to write.\r\n",
        "-BUSY Redis is busy running a script.\r\n",
    };
    struct conclave_redis_client_options o = patient();
    struct set s;
    set_open(&s, *state, &o);
    for (int i = 0; i < 5; i++) {
        fake_redis_hook(s.at[A], "INCR", 2, FAKE_REDIS_SAY, REFUSALS[i]);
        assert_int_equal(incr(&s), 0);
        assert_int_equal(s.reply->integer, i + 1);
        fake_redis_cut(s.at[A]);
        EVENTUALLY(fake_redis_open(s.at[A]) == 0);
    }
    fake_redis_hook(s.at[A], "INFO", 2, FAKE_REDIS_CUT, NULL); /* while connecting */
    fake_redis_cut(s.at[A]);
    assert_int_equal(incr(&s), 0);
    assert_int_equal(s.reply->integer, 6);
    fake_redis_hook(s.at[A], "INCR", 1, FAKE_REDIS_SAY, "-WRONGTYPE Operation\r\n");
    assert_int_equal(incr(&s), 0); /* the command's own error is an answer */
    assert_int_equal(s.reply->type, CONCLAVE_REDIS_REPLY_ERROR);
    assert_string_equal(s.reply->text, "WRONGTYPE Operation");
    set_close(&s);
}

/* Its author chose the error, and it may have written before. */
static void E192_the_error_of_a_script_is_an_answer(void **state)
{
    static const char *const ARGV[] = {"EVAL", "return redis.error_reply('BUSY later')", "0"};
    struct conclave_redis_client_options o = patient();
    struct set s;
    set_open(&s, *state, &o);
    conclave_redis_reply_free(s.reply);
    s.reply = NULL;
    fake_redis_hook(s.at[A], "EVAL", 9, FAKE_REDIS_SAY, "-BUSY later\r\n");
    assert_int_equal(conclave_redis_command(s.redis, CONCLAVE_REDIS_WRITE, 3, ARGV, NULL, &s.reply),
                     0);
    assert_int_equal(s.reply->type, CONCLAVE_REDIS_REPLY_ERROR);
    assert_int_equal(fake_redis_count(s.at[A], "EVAL"), 1);
    set_close(&s);
}

static void E193_time_and_tries_are_bounded(void **state)
{
    struct conclave_redis_client_options o = patient();
    struct set s;
    o.retries = 3;
    set_open(&s, *state, &o);
    fake_redis_hook(s.at[A], "INCR", 100, FAKE_REDIS_SAY, "-LOADING\x20it does\r\n");
    assert_int_equal(incr(&s), CONCLAVE_ETIMEDOUT);
    assert_int_equal(fake_redis_count(s.at[A], "INCR"), 4);
    assert_true(problem_has(&s, ": LOADING it does"));
    fake_redis_hook(s.at[A], "INCR", 100, FAKE_REDIS_LOSE, NULL);
    assert_int_equal(incr_idempotent(&s), CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(fake_redis_count(s.at[A], "INCR"), 8);
    fake_redis_hook(s.at[A], "INCR", 0, FAKE_REDIS_SAY, NULL);
    set_close(&s);

    o = patient();
    o.answer_timeout_ms = 30;
    o.timeout_ms = SHORT_MS;
    set_open(&s, *state, &o);
    EVENTUALLY(get(&s) == 0); /* on a busy machine 30 ms may be too short */
    fake_redis_hook(s.at[A], "GET", 1, FAKE_REDIS_SILENT, NULL);
    EVENTUALLY(get(&s) == 0);
    fake_redis_hook(s.at[A], "GET", INT_MAX, FAKE_REDIS_SILENT, NULL);
    int before;
    do {
        before = fake_redis_count(s.at[A], "GET");
        int64_t from = now_ns();
        assert_int_equal(get(&s), CONCLAVE_ETIMEDOUT);
        assert_true(now_ns() - from < PATIENCE_MS * INT64_C(1000000));
    } while (fake_redis_count(s.at[A], "GET") < before + 2);
    assert_true(problem_has(&s, "time"));
    set_close(&s);
}

static void E193_replies_and_connections_are_bounded(void **state)
{
    struct conclave_redis_client_options o = patient();
    struct set s;
    o.reply_max = 65536;
    o.connections = 1;
    set_open(&s, *state, &o);
    fake_redis_hook(s.at[A], "GET", 1, FAKE_REDIS_SAY, "*100000000\r\n");
    assert_int_equal(get(&s), CONCLAVE_ETOOBIG);
    assert_int_equal(get(&s), 0);
    assert_int_equal(incr(&s), 0);
    EVENTUALLY(fake_redis_open(s.at[A]) == 1);
    set_close(&s);
}

/* --- fail-over --------------------------------------------------------------------------------- */

struct caller {
    struct set *s;
    enum conclave_redis_kind kind;
    pthread_t thread;
    int error;
    char server[64];
    _Atomic bool done;
};

static void *call_once(void *arg)
{
    static const char *const INCR[] = {"INCR", "key"};
    struct caller *caller = arg;
    struct conclave_redis_reply *reply = NULL;
    caller->error = conclave_redis_command(caller->s->redis, caller->kind, 2, INCR, NULL, &reply);
    if (caller->error == 0) {
        (void)snprintf(caller->server, sizeof caller->server, "%s", reply->server);
    }
    conclave_redis_reply_free(reply);
    atomic_store(&caller->done, true);
    return NULL;
}

static void caller_start(struct caller *caller, struct set *s, enum conclave_redis_kind kind)
{
    *caller = (struct caller){.s = s, .kind = kind};
    assert_int_equal(pthread_create(&caller->thread, NULL, call_once, caller), 0);
}

static void caller_end(struct caller *caller)
{
    EVENTUALLY(atomic_load(&caller->done));
    assert_int_equal(pthread_join(caller->thread, NULL), 0);
}

/* The client knows that the master is being replaced. */
static void begin_fail_over(struct set *s)
{
    publish(s, "failing_over", 1, A);
    EVENTUALLY(conclave_redis_may_write(s->redis->redis, 1) == CONCLAVE_EBUSY);
}

static void end_fail_over(struct set *s)
{
    fake_redis_set_master(s->at[B], true);
    publish(s, "ok", 2, B);
}

static void E194_an_unanswered_write_ends_with_its_masters_epoch(void **state)
{
    static const enum conclave_redis_kind KINDS[] = {CONCLAVE_REDIS_WRITE,
                                                     CONCLAVE_REDIS_WRITE_IDEMPOTENT};
    for (int i = 0; i < 2; i++) {
        struct conclave_redis_client_options o = patient();
        struct caller caller;
        struct set s;
        o.timeout_ms = 10L * PATIENCE_MS; /* it does not end by these */
        o.answer_timeout_ms = 10L * PATIENCE_MS;
        set_open(&s, *state, &o);
        assert_int_equal(incr(&s), 0);
        fake_redis_hook(s.at[A], "INCR", 1, FAKE_REDIS_SILENT, NULL);
        caller_start(&caller, &s, KINDS[i]);
        EVENTUALLY(fake_redis_value(s.at[A]) == 2);
        begin_fail_over(&s);
        STAYS(!atomic_load(&caller.done), 50); /* an orderly master refuses it now */
        end_fail_over(&s);
        caller_end(&caller);
        assert_int_equal(caller.error, i == 0 ? CONCLAVE_CONNECTION_LOSS : 0);
        assert_int_equal(fake_redis_value(s.at[B]), i);
        assert_int_equal(incr(&s), 0);
        SERVED_BY(&s, B);
        assert_int_equal(s.reply->epoch, 2);
        assert_int_equal(fake_redis_value(s.at[A]), 2);
        set_close(&s);
    }
}

/* The client asks the first server for its role two times more, so it has rejected the first of these answers. */
static void assert_more_checks(struct set *s)
{
    int before = fake_redis_count(s->at[A], "INFO");
    EVENTUALLY(fake_redis_count(s->at[A], "INFO") >= before + 2);
}

static void E194_a_server_is_written_to_only_as_the_epochs_master(void **state)
{
    static const char OTHER[] = "run_id:cccc\r\nrole:master\r\n";
    static const char SAME[] = "run_id:aaaa\r\nrole:master\r\n";
    struct conclave_redis_client_options o = patient();
    struct caller caller;
    struct set s;
    set_open(&s, *state, &o);
    publish_as(&s, "ok", 1, A, "cccc"); /* another process, or the wrong server */
    EVENTUALLY(conclave_redis_check(s.redis->redis, 1, OTHER, strlen(OTHER)) == 0);
    caller_start(&caller, &s, CONCLAVE_REDIS_WRITE);
    assert_more_checks(&s);
    assert_true(problem_has(&s, "not the master that the record names"));
    fake_redis_set_master(s.at[A], false);
    assert_more_checks(&s); /* none is under way that was answered before */
    publish(&s, "ok", 1, A);
    EVENTUALLY(conclave_redis_check(s.redis->redis, 1, SAME, strlen(SAME)) == 0);
    assert_more_checks(&s);
    begin_fail_over(&s);
    fake_redis_set_master(s.at[A], true); /* it comes back, too late */
    end_fail_over(&s);
    caller_end(&caller);
    assert_int_equal(caller.error, 0);
    assert_string_equal(caller.server, fake_redis_address(s.at[B]));
    assert_int_equal(fake_redis_count(s.at[A], "INCR"), 0);
    set_close(&s);
}

static void E194_an_answer_does_not_count_after_the_end_of_the_epoch(void **state)
{
    struct conclave_redis_client_options o = patient();
    struct caller caller;
    struct set s;
    o.timeout_ms = 10L * PATIENCE_MS;
    o.answer_timeout_ms = 10L * PATIENCE_MS;
    o.wait_replicas = 1;
    set_open(&s, *state, &o);
    fake_redis_hook(s.at[A], "WAIT", 1, FAKE_REDIS_SILENT, NULL);
    caller_start(&caller, &s, CONCLAVE_REDIS_WRITE);
    EVENTUALLY(fake_redis_count(s.at[A], "WAIT") == 1); /* INCR was answered */
    begin_fail_over(&s);
    end_fail_over(&s);
    caller_end(&caller);
    assert_int_equal(caller.error, CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(fake_redis_value(s.at[A]), 1);
    assert_int_equal(fake_redis_value(s.at[B]), 0);
    set_close(&s);
}

static void E194_without_a_master_writes_wait_and_reads_go_on(void **state)
{
    struct conclave_redis_client_options o = patient();
    struct caller caller;
    struct set s;
    o.reads = CONCLAVE_REDIS_READS_REPLICA;
    set_open(&s, *state, &o);
    assert_int_equal(get(&s), 0);
    begin_fail_over(&s);
    caller_start(&caller, &s, CONCLAVE_REDIS_WRITE);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(get(&s), 0);
        SERVED_BY(&s, B);
    }
    STAYS(!atomic_load(&caller.done), 30);
    assert_int_equal(fake_redis_count(s.at[A], "INCR"), 0);
    end_fail_over(&s);
    caller_end(&caller);
    assert_int_equal(caller.error, 0);
    assert_int_equal(fake_redis_value(s.at[B]), 1);
    set_close(&s);
}

static void E195_wait_says_how_many_replicas_have_a_write(void **state)
{
    struct conclave_redis_client_options o = patient();
    struct set s;
    o.wait_replicas = 1;
    o.wait_ms = 100;
    set_open(&s, *state, &o);
    fake_redis_set(s.at[A], 0, 1);
    assert_int_equal(incr(&s), 0);
    assert_int_equal(s.reply->replicas, 1);
    fake_redis_set(s.at[A], 1, 0);
    assert_int_equal(incr(&s), 0);
    assert_int_equal(s.reply->replicas, 0);
    fake_redis_hook(s.at[A], "WAIT", 1, FAKE_REDIS_CUT, NULL);
    assert_int_equal(incr(&s), 0); /* the write itself was answered */
    assert_int_equal(s.reply->integer, 3);
    assert_int_equal(s.reply->replicas, -1);
    assert_int_equal(get(&s), 0);
    assert_int_equal(fake_redis_count(s.at[A], "WAIT"), 3);
    set_close(&s);
}

/* --- the rest ----------------------------------------------------------------------------------- */

static void logs_in(void **state)
{
    struct conclave_redis_client_options o = patient();
    struct set s;
    o.user = "app";
    o.password = "secret";
    o.database = 3;
    set_open(&s, *state, &o);
    assert_int_equal(incr(&s), 0); /* a server without a password needs no log-in */
    fake_redis_cut(s.at[A]);
    fake_redis_set_password(s.at[A], "secret");
    assert_int_equal(incr(&s), 0);
    assert_int_equal(fake_redis_count(s.at[A], "SELECT"), 2);
    fake_redis_cut(s.at[A]);
    fake_redis_set_password(s.at[A], "another");
    assert_int_equal(incr(&s), CONCLAVE_AUTH_FAILED);
    assert_true(problem_has(&s, "WRONGPASS"));
    assert_false(problem_has(&s, "secret"));
    set_close(&s);
}

static void commands_of_a_connection_are_refused(void **state)
{
    static const char *const REFUSED[] = {"MULTI", "subscribe", "Select", "WAIT", "CLIENT"};
    struct conclave_redis_client_options o = patient();
    const char *ping[] = {"PINGx"};
    const size_t len = 4;
    struct set s;
    set_open(&s, *state, &o);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(command(&s, CONCLAVE_REDIS_WRITE, REFUSED[i]), CONCLAVE_EINVAL);
    }
    assert_int_equal(conclave_redis_command(s.redis, CONCLAVE_REDIS_READ, 0, ping, NULL, &s.reply),
                     CONCLAVE_EINVAL);
    assert_int_equal(
        conclave_redis_command(s.redis, (enum conclave_redis_kind)9, 1, ping, NULL, &s.reply),
        CONCLAVE_EINVAL);
    assert_int_equal(conclave_redis_command(s.redis, CONCLAVE_REDIS_READ, 1, ping, &len, &s.reply),
                     0);
    assert_string_equal(s.reply->text, "PONG");
    set_close(&s);
}

static void options_are_checked(void **state)
{
    struct conclave_redis_client_options wrong[10];
    struct conclave_redis_client *redis;
    struct candidate c;
    for (int i = 0; i < 10; i++) {
        wrong[i] = patient();
    }
    memset(&c, 0, sizeof c);
    wrong[0].size = 0;
    wrong[1].user = "app";
    wrong[2].layout = CONCLAVE_REDIS_LAYOUT_GEM;
    wrong[2].reads = CONCLAVE_REDIS_READS_REPLICA;
    wrong[3].connections = 0;
    wrong[4].reply_max = 1;
    wrong[5].timeout_ms = 0;
    wrong[6].retries = -1;
    wrong[7].ca_file = "/nowhere/ca.pem";
    wrong[8].cluster = "a/b";
    wrong[9].max_lag_bytes = -2;
    candidate_connect(&c, *state, 0, "x");
    for (int i = 0; i < 10; i++) {
        assert_int_equal(conclave_redis_client_open(c.recipes, &wrong[i], &redis), CONCLAVE_EINVAL);
    }
    struct {
        struct conclave_redis_client_options known;
        int64_t later; /* a member of newer headers */
    } newer = {.known = patient(), .later = 1};
    newer.known.size = sizeof newer;
    assert_int_equal(conclave_redis_client_open(c.recipes, &newer.known, &redis), CONCLAVE_EINVAL);
    newer.later = 0;
    assert_int_equal(conclave_redis_client_open(c.recipes, &newer.known, &redis), 0);
    client_end(redis);
    newer.known.size = offsetof(struct conclave_redis_client_options, reply_max);
    newer.known.reply_max = 0; /* not known to an older program */
    assert_int_equal(conclave_redis_client_open(c.recipes, &newer.known, &redis), 0);
    client_end(redis);
    candidate_finish(&c);
}

static void closing_ends_commands(void **state)
{
    struct conclave_redis_client_options o = patient();
    struct caller sent;
    struct caller waiting;
    struct set s;
    o.connections = 1;
    o.timeout_ms = 10L * PATIENCE_MS;
    o.answer_timeout_ms = 10L * PATIENCE_MS;
    set_open(&s, *state, &o);
    fake_redis_hook(s.at[A], "INCR", 1, FAKE_REDIS_SILENT, NULL);
    caller_start(&sent, &s, CONCLAVE_REDIS_WRITE);
    EVENTUALLY(fake_redis_value(s.at[A]) == 1);
    caller_start(&waiting, &s, CONCLAVE_REDIS_WRITE); /* for the connection */
    STAYS(!atomic_load(&waiting.done), 20);
    conclave_redis_client_close(s.redis);
    caller_end(&sent);
    caller_end(&waiting);
    assert_int_equal(sent.error, CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(waiting.error, CONCLAVE_ECLOSED); /* also if it had not begun */
    assert_int_equal(incr(&s), CONCLAVE_ECLOSED);
    assert_int_equal(conclave_redis_client_close_wait(s.redis, CONCLAVE_FOREVER), 0);
    set_close(&s);
    conclave_redis_client_destroy(NULL);
}

static void many_threads_share_few_connections(void **state)
{
    struct conclave_redis_client_options o = patient();
    struct caller callers[12];
    struct set s;
    o.connections = 3;
    set_open(&s, *state, &o);
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < 12; i++) {
            caller_start(&callers[i], &s, CONCLAVE_REDIS_WRITE);
        }
        for (int i = 0; i < 12; i++) {
            caller_end(&callers[i]);
            assert_int_equal(callers[i].error, 0);
        }
    }
    assert_int_equal(fake_redis_value(s.at[A]), 120);
    assert_true(fake_redis_accepted(s.at[A]) <= 3);
    set_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E191_writes_go_to_the_master_and_reads_where_the_options_say),
        E_TEST(E191_a_replica_that_is_not_fit_is_not_read_from),
        E_TEST(E191_the_master_serves_reads_while_no_replica_does),
        E_TEST(E192_a_write_without_an_answer_is_not_repeated),
        E_TEST(E192_an_idempotent_write_and_a_read_are_repeated),
        E_TEST(E192_the_error_of_a_script_is_an_answer),
        E_TEST(E192_a_write_that_was_refused_or_not_sent_is_repeated),
        E_TEST(E193_time_and_tries_are_bounded),
        E_TEST(E193_replies_and_connections_are_bounded),
        E_TEST(E194_an_unanswered_write_ends_with_its_masters_epoch),
        E_TEST(E194_a_server_is_written_to_only_as_the_epochs_master),
        E_TEST(E194_an_answer_does_not_count_after_the_end_of_the_epoch),
        E_TEST(E194_without_a_master_writes_wait_and_reads_go_on),
        E_TEST(E195_wait_says_how_many_replicas_have_a_write),
        E_TEST(logs_in),
        E_TEST(commands_of_a_connection_are_refused),
        E_TEST(options_are_checked),
        E_TEST(closing_ends_commands),
        E_TEST(many_threads_share_few_connections),
    };
    return RUN_TESTS(tests);
}
