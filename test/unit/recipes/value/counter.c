/* Counter and shared value: each change exactly once, whatever happens to its answer. E01 to E03, E05,
 * E08, E18, E33, E35, E36, E58, E59, E61, E94, E96. */
#include "support/candidate.h"

#include <conclave/counter.h>

#include <stdatomic.h>
#include <sys/wait.h>

#define PATH "/app/count"
#define WRITERS PATH ".writers"

struct side {
    struct candidate c; /* client and recipes */
    struct conclave_counter *counter;
    struct conclave_shared *shared;
    _Atomic int64_t value;
    _Atomic int error;
    _Atomic int changes;
    _Atomic int closed;
    _Atomic int after_end;
    char text[128];
    pthread_mutex_t lock;
    bool stale;
};

static void on_change(struct conclave_counter *counter, int64_t value, int error, void *ctx)
{
    struct side *s = ctx;
    s->after_end += s->closed;
    s->value = value;
    s->error = error;
    s->changes++;
}

static void on_closed(struct conclave_counter *counter, int why, void *ctx)
{
    struct side *s = ctx;
    s->after_end += s->closed;
    s->closed++;
}

static const struct conclave_counter_callbacks watching = {sizeof watching, on_change, on_closed};
static const struct conclave_counter_callbacks quiet = {sizeof quiet, NULL, on_closed};

static void side_open_with(struct side *s, const struct conclave_counter_callbacks *callbacks,
                           enum conclave_counter_form form)
{
    struct conclave_counter_options options = CONCLAVE_COUNTER_OPTIONS_INIT;
    options.path = PATH;
    options.form = form;
    assert_int_equal(conclave_counter_open(s->c.recipes, &options, callbacks, s, &s->counter), 0);
}

static void side_connect(struct side *s, struct fake_zk *zk, int endpoint)
{
    memset(s, 0, sizeof *s);
    (void)pthread_mutex_init(&s->lock, NULL);
    candidate_connect(&s->c, zk, endpoint, "x");
}

static void side_open(struct side *s, struct fake_zk *zk, int endpoint)
{
    side_connect(s, zk, endpoint);
    side_open_with(s, &quiet, CONCLAVE_COUNTER_TEXT);
}

static void side_finish(struct side *s)
{
    if (s->counter != NULL) {
        assert_int_equal(conclave_counter_close_wait(s->counter, PATIENCE_MS), 0);
        assert_int_equal(s->closed, 1);
        conclave_counter_destroy(s->counter);
    }
    candidate_finish(&s->c);
    assert_int_equal(s->after_end, 0);
}

static int64_t add(struct side *s, int64_t delta)
{
    int64_t value = -1;
    assert_int_equal(conclave_counter_add(s->counter, delta, PATIENCE_MS, &value), 0);
    return value;
}

static int64_t get(struct side *s)
{
    int64_t value = -1;
    assert_int_equal(conclave_counter_get(s->counter, PATIENCE_MS, &value), 0);
    return value;
}

static void nothing_is_left(struct fake_zk *zk)
{
    assert_int_equal(fake_zk_child_count(zk, WRITERS), 0);
}

/* --- exactly once ------------------------------------------------------------------- */

static void E01_answer_lost_counts_once(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    side_open(&a, zk, 0);
    assert_int_equal(add(&a, 5), 5);
    hook(zk, 0, WIRE_MULTI, PATH, 1, FAKE_DROP_REPLY);
    assert_int_equal(add(&a, 2), 7);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(get(&a), 7);
    side_finish(&a);
    nothing_is_left(zk);
}

static void cut_and_keep_down(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, 0, FAKE_REFUSE);
}

static void *add_one(void *arg)
{
    return (void *)(intptr_t)add(arg, 1);
}

/* a's addition is carried out, its answer lost; then b adds, too; then a may ask. */
static void answer_lost_and_others_went_on(struct fake_zk *zk, bool expire)
{
    struct side a;
    struct side b;
    pthread_t thread;
    void *result;
    side_open(&a, zk, 0);
    side_open(&b, zk, 1);
    assert_int_equal(add(&a, 1), 1);
    struct fake_hook h = {
        .op = WIRE_MULTI, .path = PATH, .nth = 1, .action = FAKE_CALL, .fn = cut_and_keep_down};
    fake_zk_hook(zk, &h);
    assert_int_equal(pthread_create(&thread, NULL, add_one, &a), 0);
    EVENTUALLY(fake_zk_version(zk, PATH) == 1);
    assert_int_equal(add(&b, 10), 12);
    assert_int_equal(add(&b, 10), 22);
    if (expire) {
        fake_zk_expire(zk, candidate_session(&a.c));
    }
    fake_zk_link(zk, 0, FAKE_UP);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal((intptr_t)result, 2); /* its value after a's own addition */
    assert_int_equal(get(&a), 22);
    side_finish(&a);
    side_finish(&b);
    nothing_is_left(zk);
}

static void E01_answer_lost_and_others_have_added_since(void **state)
{
    answer_lost_and_others_went_on(*state, false);
}

static void E05_answer_lost_with_the_session(void **state)
{
    answer_lost_and_others_went_on(*state, true);
}

static void lose_first_server(struct fake_zk *zk, void *ctx)
{
    fake_zk_freeze_locked(zk, 1); /* as of before the addition */
    fake_zk_link_locked(zk, 0, FAKE_REFUSE);
}

static void E02_the_marker_is_asked_for_behind_a_sync(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    char servers[128];
    memset(&a, 0, sizeof a);
    (void)snprintf(servers, sizeof servers, "%s,%s", fake_zk_address(zk, 0),
                   fake_zk_address(zk, 1));
    fake_zk_link(zk, 1, FAKE_REFUSE);
    candidate_connect_to(&a.c, zk, 0, "a", servers, LONG_SESSION_MS);
    assert_int_equal(conclave_client_wait_connected(a.c.client, PATIENCE_MS), 0);
    fake_zk_link(zk, 1, FAKE_UP);
    side_open_with(&a, &quiet, CONCLAVE_COUNTER_TEXT);
    assert_int_equal(add(&a, 1), 1);
    struct fake_hook h = {
        .op = WIRE_MULTI, .path = PATH, .nth = 1, .action = FAKE_CALL, .fn = lose_first_server};
    fake_zk_hook(zk, &h);
    assert_int_equal(add(&a, 1), 2);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(get(&a), 2);
    side_finish(&a);
}

static void E03_request_that_never_arrived_is_sent_once_more(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    side_open(&a, zk, 0);
    assert_int_equal(add(&a, 1), 1);
    size_t before = fake_zk_count(zk, 0, WIRE_MULTI);
    hook(zk, 0, WIRE_MULTI, PATH, 1, FAKE_CUT_BEFORE);
    assert_int_equal(add(&a, 1), 2);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_MULTI), before + 2);
    side_finish(&a);
}

static void E08_nodes_are_made_with_the_acl(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    char acl[256];
    char marker[256];
    char path[300];
    struct conclave_acl mine = {CONCLAVE_PERM_ALL, "ip", "127.0.0.1"};
    struct conclave_counter_options options = CONCLAVE_COUNTER_OPTIONS_INIT;
    options.path = PATH;
    options.acl = &mine;
    options.acl_count = 1;
    options.initial = 40;
    side_connect(&a, zk, 0);
    assert_int_equal(conclave_counter_open(a.c.recipes, &options, &quiet, &a, &a.counter), 0);
    assert_int_equal(get(&a), 40);
    assert_false(fake_zk_exists(zk, PATH));
    assert_int_equal(add(&a, 2), 42);
    assert_true(fake_zk_child(zk, WRITERS, 0, marker));
    (void)snprintf(path, sizeof path, WRITERS "/%s", marker);
    const char *const made[] = {"/app", PATH, WRITERS, path};
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        assert_true(fake_zk_acl(zk, made[i], acl));
        assert_string_equal(acl, "ip:127.0.0.1:31");
    }
    side_finish(&a);
}

static void E18_no_permission_is_told(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    int64_t value;
    struct fake_hook h = {
        .op = WIRE_MULTI, .path = PATH, .nth = 1, .action = FAKE_ERROR, .error = CONCLAVE_NO_AUTH};
    side_open(&a, zk, 0);
    assert_int_equal(add(&a, 1), 1);
    fake_zk_hook(zk, &h);
    assert_int_equal(conclave_counter_add(a.counter, 1, PATIENCE_MS, &value), CONCLAVE_NO_AUTH);
    assert_int_equal(add(&a, 1), 2); /* the handle goes on */
    side_finish(&a);
}

static void E33_what_was_given_up_in_time_does_not_happen_later(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    int64_t value;
    side_open(&a, zk, 0);
    assert_int_equal(add(&a, 1), 1);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(candidate_suspended(&a.c));
    assert_int_equal(conclave_counter_add(a.counter, 1, 50, &value), CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_counter_add(a.counter, 1, 0, &value), CONCLAVE_ETIMEDOUT);
    fake_zk_link(zk, 0, FAKE_UP);
    assert_int_equal(get(&a), 1);
    STAYS(fake_zk_version(zk, PATH) == 0, 50);
    side_finish(&a);
}

static void many_writers_miss_none(void **state)
{
    enum { WRITERS_MANY = 4, EACH = 25 };
    struct side s[WRITERS_MANY];
    pthread_t threads[WRITERS_MANY];
    for (int i = 0; i < WRITERS_MANY; i++) {
        side_open(&s[i], *state, i);
    }
    for (int n = 0; n < EACH; n++) {
        for (int i = 0; i < WRITERS_MANY; i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, add_one, &s[i]), 0);
        }
        for (int i = 0; i < WRITERS_MANY; i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
    }
    assert_int_equal(get(&s[0]), WRITERS_MANY * EACH);
    for (int i = 0; i < WRITERS_MANY; i++) {
        side_finish(&s[i]);
    }
    nothing_is_left(*state);
}

static _Atomic bool answering;

static void answer_slowly(struct fake_zk *zk, void *ctx)
{
    answering = true;
    sleep_ms(60);
}

static void two_threads_of_one_handle_take_turns(void **state)
{
    struct side a;
    pthread_t thread;
    void *result;
    struct fake_hook h = {
        .op = WIRE_MULTI, .path = PATH, .nth = 1, .action = FAKE_CALL, .fn = answer_slowly};
    side_open(&a, *state, 0);
    assert_int_equal(add(&a, 1), 1);
    answering = false;
    fake_zk_hook(*state, &h);
    assert_int_equal(pthread_create(&thread, NULL, add_one, &a), 0);
    EVENTUALLY(answering);
    assert_int_equal(add(&a, 1), 3); /* asked for while the other is under way */
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal((intptr_t)result, 2);
    side_finish(&a);
}

static void one_writer_alone_sends_one_request_each_time(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    side_open(&a, zk, 0);
    assert_int_equal(add(&a, 1), 1);
    requests_settled(zk, 0); /* it looks for left-overs */
    fake_zk_count_reset(zk);
    for (int i = 2; i < 12; i++) {
        assert_int_equal(add(&a, 1), i);
    }
    assert_int_equal(fake_zk_count(zk, 0, FAKE_ANY_OP), 10);
    side_finish(&a);
}

static void markers_of_the_dead_are_removed_after_a_day(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    int64_t now = (int64_t)time(NULL) * 1000;
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, PATH, "3", 0);
    fake_zk_create(zk, WRITERS, "", 0);
    fake_zk_create(zk, WRITERS "/old", "7", 0);
    fake_zk_create(zk, WRITERS "/young", "7", 0);
    fake_zk_set_mtime(zk, WRITERS "/old", now - (int64_t)25 * 3600 * 1000);
    fake_zk_set_mtime(zk, WRITERS "/young", now - (int64_t)23 * 3600 * 1000);
    side_open(&a, zk, 0);
    assert_int_equal(add(&a, 1), 4);
    EVENTUALLY(!fake_zk_exists(zk, WRITERS "/old"));
    assert_true(fake_zk_exists(zk, WRITERS "/young"));
    side_finish(&a);
}

static void marker_removed_by_an_operator_is_made_again(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    char marker[256];
    char path[300];
    side_open(&a, zk, 0);
    assert_int_equal(add(&a, 1), 1);
    assert_true(fake_zk_child(zk, WRITERS, 0, marker));
    (void)snprintf(path, sizeof path, WRITERS "/%s", marker);
    fake_zk_delete(zk, path);
    fake_zk_delete(zk, WRITERS);
    assert_int_equal(add(&a, 1), 2);
    side_finish(&a);
    nothing_is_left(zk);
}

/* --- values -------------------------------------------------------------------------- */

static void compare_and_set_keeps_what_is_not_expected(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    int64_t value = 0;
    side_open(&a, zk, 0);
    assert_int_equal(conclave_counter_compare_and_set(a.counter, 0, 7, PATIENCE_MS, &value), 0);
    assert_int_equal(value, 7);
    assert_int_equal(conclave_counter_compare_and_set(a.counter, 6, 9, PATIENCE_MS, &value),
                     CONCLAVE_ECONFLICT);
    assert_int_equal(value, 7);
    fake_zk_write(zk, PATH, "8"); /* another writer, unknown to it */
    assert_int_equal(conclave_counter_compare_and_set(a.counter, 7, 9, PATIENCE_MS, &value),
                     CONCLAVE_ECONFLICT);
    assert_int_equal(value, 8);
    assert_int_equal(get(&a), 8);
    side_finish(&a);
}

static void numbers_that_do_not_fit_or_are_none(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    int64_t value;
    static const char *const bad[] = {"x", "1 ", "1x", "99999999999999999999", " 1", "1.5"};
    side_open(&a, zk, 0);
    assert_int_equal(add(&a, INT64_MAX), INT64_MAX);
    assert_int_equal(conclave_counter_add(a.counter, 1, PATIENCE_MS, &value), CONCLAVE_ETOOBIG);
    assert_int_equal(add(&a, INT64_MIN), -1);
    assert_int_equal(add(&a, INT64_MIN + 1), INT64_MIN);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        fake_zk_write(zk, PATH, bad[i]);
        assert_int_equal(conclave_counter_get(a.counter, PATIENCE_MS, &value), CONCLAVE_ECORRUPT);
        assert_int_equal(conclave_counter_add(a.counter, 1, PATIENCE_MS, &value),
                         CONCLAVE_ECORRUPT);
    }
    char data[32];
    assert_true(fake_zk_data(zk, PATH, data, sizeof data));
    assert_string_equal(data, "1.5"); /* left as it was */
    side_finish(&a);
}

static void binary_form_is_eight_bytes(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    char data[32];
    side_connect(&a, zk, 0);
    side_open_with(&a, &quiet, CONCLAVE_COUNTER_BINARY);
    assert_int_equal(add(&a, 0x0102030405060708), 0x0102030405060708);
    assert_true(fake_zk_data(zk, PATH, data, sizeof data));
    assert_memory_equal(data, "\1\2\3\4\5\6\7\10", 9);
    assert_int_equal(get(&a), 0x0102030405060708);
    side_finish(&a);
}

static void changes_of_others_are_told(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    char number[16];
    fake_zk_create(zk, "/app", "", 0);
    side_connect(&a, zk, 0);
    side_open_with(&a, &watching, CONCLAVE_COUNTER_TEXT);
    EVENTUALLY(a.changes == 1 && a.value == 0); /* no node: the initial value */
    fake_zk_create(zk, PATH, "3", 0);
    EVENTUALLY(a.value == 3);
    for (int i = 4; i < 60; i++) {
        (void)snprintf(number, sizeof number, "%d", i);
        fake_zk_write(zk, PATH, number);
    }
    EVENTUALLY(a.value == 59);
    fake_zk_write(zk, PATH, "none");
    EVENTUALLY(a.error == CONCLAVE_ECORRUPT);
    side_finish(&a);
}

static void E96_version_minus_one_is_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    int64_t value;
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, PATH, "3", 0);
    fake_zk_set_version(zk, PATH, -1);
    side_open(&a, zk, 0);
    assert_int_equal(get(&a), 3);
    assert_int_equal(conclave_counter_add(a.counter, 1, PATIENCE_MS, &value), CONCLAVE_ESEQWRAP);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_MULTI), 0);
    fake_zk_set_version(zk, PATH, -2147483647 - 1); /* other negative ones can be compared */
    assert_int_equal(get(&a), 3);
    assert_int_equal(add(&a, 1), 4);
    side_finish(&a);
}

/* --- shared value --------------------------------------------------------------------- */

static void on_shared(struct conclave_shared *shared, const struct conclave_shared_value *value,
                      void *ctx)
{
    struct side *s = ctx;
    (void)pthread_mutex_lock(&s->lock);
    (void)snprintf(s->text, sizeof s->text, "%.*s%s@%d%s", (int)value->data_len,
                   value->data == NULL ? "" : (const char *)value->data,
                   value->data == NULL ? "-" : "", value->version, value->stale ? "?" : "");
    (void)pthread_mutex_unlock(&s->lock);
}

static const struct conclave_shared_callbacks shared_callbacks = {sizeof shared_callbacks,
                                                                  on_shared, NULL};

static bool text_is(struct side *s, const char *text)
{
    (void)pthread_mutex_lock(&s->lock);
    bool same = strcmp(s->text, text) == 0;
    (void)pthread_mutex_unlock(&s->lock);
    return same;
}

static void shared_open(struct side *s, struct fake_zk *zk, int endpoint)
{
    struct conclave_shared_options options = CONCLAVE_SHARED_OPTIONS_INIT;
    side_connect(s, zk, endpoint);
    options.path = PATH;
    assert_int_equal(conclave_shared_open(s->c.recipes, &options, &shared_callbacks, s, &s->shared),
                     0);
}

static void shared_finish(struct side *s)
{
    assert_int_equal(conclave_shared_close_wait(s->shared, PATIENCE_MS), 0);
    conclave_shared_destroy(s->shared);
    candidate_finish(&s->c);
}

static void shared_value_is_set_by_version(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    struct side b;
    struct conclave_shared_value set = CONCLAVE_SHARED_VALUE_INIT;
    struct conclave_shared_value *value;
    shared_open(&a, zk, 0);
    shared_open(&b, zk, 1);
    EVENTUALLY(text_is(&b, "-@-2"));
    assert_int_equal(conclave_shared_set(a.shared, "one", 3, 0, PATIENCE_MS, NULL),
                     CONCLAVE_NO_NODE);
    assert_int_equal(conclave_shared_set(a.shared, "one", 3, CONCLAVE_ABSENT, PATIENCE_MS, &set),
                     0);
    assert_int_equal(set.version, 0);
    assert_int_equal(set.mzxid, fake_zk_czxid(zk, PATH));
    assert_int_equal(conclave_shared_set(b.shared, "two", 3, CONCLAVE_ABSENT, PATIENCE_MS, NULL),
                     CONCLAVE_NODE_EXISTS);
    assert_int_equal(conclave_shared_set(b.shared, "two", 3, 0, PATIENCE_MS, &set), 0);
    assert_int_equal(set.version, 1);
    assert_int_equal(conclave_shared_set(a.shared, "three", 5, 0, PATIENCE_MS, NULL),
                     CONCLAVE_BAD_VERSION);
    EVENTUALLY(text_is(&a, "two@1"));
    assert_int_equal(conclave_shared_get(a.shared, PATIENCE_MS, &value), 0);
    assert_memory_equal(value->data, "two", 4);
    assert_int_equal(value->version, 1);
    assert_int_equal(value->mzxid, set.mzxid);
    conclave_shared_value_free(value);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(text_is(&a, "two@1?"));
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(text_is(&a, "two@1"));
    assert_int_equal(conclave_shared_set(a.shared, "x", 1, -1, PATIENCE_MS, NULL),
                     CONCLAVE_ESEQWRAP);
    assert_int_equal(conclave_shared_set(a.shared, "x", 1, -3, PATIENCE_MS, NULL), CONCLAVE_EINVAL);
    shared_finish(&a);
    shared_finish(&b);
    nothing_is_left(zk);
}

/* The first of its kind: created, the answer lost, and changed by another before it can look. */
static void E01_creation_of_a_value_whose_answer_was_lost(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    shared_open(&a, zk, 0);
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, WRITERS, "", 0);
    hook(zk, 0, WIRE_MULTI, PATH, 1, FAKE_DROP_REPLY);
    assert_int_equal(conclave_shared_set(a.shared, "one", 3, CONCLAVE_ABSENT, PATIENCE_MS, NULL),
                     0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_version(zk, PATH), 0);
    shared_finish(&a);
    nothing_is_left(zk);
}

/* --- the end --------------------------------------------------------------------------- */

struct answer {
    _Atomic int count;
    _Atomic int error;
    _Atomic int64_t value;
    _Atomic int nested;
};

static void on_answer(struct conclave_counter *counter, int error, int64_t value, void *ctx)
{
    struct answer *answer = ctx;
    int64_t ignored;
    answer->nested = conclave_counter_get(counter, 10, &ignored);
    answer->error = error;
    answer->value = value;
    answer->count++;
}

static void E36_asynchronous_calls_and_blocking_ones_inside(void **state)
{
    struct side a;
    struct answer answer = {0};
    side_open(&a, *state, 0);
    assert_int_equal(conclave_counter_add_async(a.counter, 3, on_answer, &answer), 0);
    EVENTUALLY(answer.count == 1);
    assert_int_equal(answer.error, 0);
    assert_int_equal(answer.value, 3);
    assert_int_equal(answer.nested, CONCLAVE_EDEADLK);
    assert_int_equal(conclave_counter_compare_and_set_async(a.counter, 4, 5, on_answer, &answer),
                     0);
    EVENTUALLY(answer.count == 2);
    assert_int_equal(answer.error, CONCLAVE_ECONFLICT);
    side_finish(&a);
}

static void E35_close_ends_what_waits(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    struct answer answer = {0};
    side_open(&a, zk, 0);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(conclave_counter_add_async(a.counter, 1, on_answer, &answer), 0);
    }
    conclave_counter_close(a.counter);
    EVENTUALLY(a.closed == 1);
    assert_int_equal(answer.count, 3); /* all before the end */
    assert_int_equal(answer.error, CONCLAVE_ECLOSED);
    int64_t value;
    assert_int_equal(conclave_counter_get(a.counter, 10, &value), CONCLAVE_ECLOSED);
    side_finish(&a);
    assert_int_equal(fake_zk_version(zk, PATH), -2);
}

static void E35_close_waits_for_a_read_that_is_under_way(void **state)
{
    struct fake_zk *zk = *state;
    struct side a;
    struct answer answer = {0};
    side_open(&a, zk, 0);
    assert_int_equal(get(&a), 0);
    fake_zk_hold(zk, 0, WIRE_SYNC);
    assert_int_equal(conclave_counter_get_async(a.counter, on_answer, &answer), 0);
    conclave_counter_close(a.counter);
    EVENTUALLY(answer.count == 1);
    assert_int_equal(answer.error, CONCLAVE_ECLOSED);
    sleep_ms(50);
    assert_int_equal(a.closed, 0); /* only the answer can end it now */
    fake_zk_release(zk, 0);
    EVENTUALLY(a.closed == 1);
    side_finish(&a);
}

static void *get_long(void *arg)
{
    int64_t value;
    return (void *)(intptr_t)conclave_counter_get(((struct side *)arg)->counter, CONCLAVE_FOREVER,
                                                  &value);
}

static void E59_client_closed_under_a_waiter(void **state)
{
    struct side a;
    pthread_t thread;
    void *result;
    fake_zk_link(*state, 0, FAKE_REFUSE);
    side_open(&a, *state, 0);
    assert_int_equal(pthread_create(&thread, NULL, get_long, &a), 0);
    sleep_ms(30);
    conclave_client_close(a.c.client, 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal((int)(intptr_t)result, CONCLAVE_ECLOSED);
    assert_int_equal(conclave_counter_close_wait(a.counter, PATIENCE_MS), 0);
    conclave_counter_destroy(a.counter);
    conclave_recipes_destroy(a.c.recipes);
}

static void E61_a_child_of_fork_may_not_use_it(void **state)
{
    struct side a;
    int status;
    side_open(&a, *state, 0);
    assert_int_equal(add(&a, 1), 1);
    pid_t pid = fork();
    if (pid == 0) {
        int64_t value;
        _exit(conclave_counter_add(a.counter, 1, 10, &value) == CONCLAVE_EFORK ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(add(&a, 1), 2);
    side_finish(&a);
}

static void in_a_loop_without_threads(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct answer answer = {0};
    struct side a;
    memset(&a, 0, sizeof a);
    options.servers = fake_zk_address(zk, 0);
    assert_int_equal(conclave_client_open(&options, &a.c.client), 0);
    assert_int_equal(conclave_recipes_open(a.c.client, &a.c.recipes), 0);
    side_open_with(&a, &watching, CONCLAVE_COUNTER_TEXT);
    assert_int_equal(conclave_counter_add_async(a.counter, 3, on_answer, &answer), 0);
    for (int i = 0; i < PATIENCE_MS && (answer.count == 0 || a.value != 3); i++) {
        (void)conclave_client_dispatch(a.c.client);
        sleep_ms(1);
    }
    assert_int_equal(answer.value, 3);
    assert_int_equal(a.value, 3);
    assert_int_equal(add(&a, 1), 4); /* dispatches by itself */
    assert_int_equal(conclave_counter_close_wait(a.counter, PATIENCE_MS), 0);
    conclave_counter_destroy(a.counter);
    conclave_recipes_destroy(a.c.recipes);
    conclave_client_close(a.c.client, 1000);
    nothing_is_left(zk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E01_answer_lost_counts_once),
        E_TEST(E01_answer_lost_and_others_have_added_since),
        E_TEST(E05_answer_lost_with_the_session),
        E_TEST(E02_the_marker_is_asked_for_behind_a_sync),
        E_TEST(E03_request_that_never_arrived_is_sent_once_more),
        E_TEST(E08_nodes_are_made_with_the_acl),
        E_TEST(E18_no_permission_is_told),
        E_TEST(E33_what_was_given_up_in_time_does_not_happen_later),
        E_TEST(many_writers_miss_none),
        E_TEST(two_threads_of_one_handle_take_turns),
        E_TEST(one_writer_alone_sends_one_request_each_time),
        E_TEST(markers_of_the_dead_are_removed_after_a_day),
        E_TEST(marker_removed_by_an_operator_is_made_again),
        E_TEST(compare_and_set_keeps_what_is_not_expected),
        E_TEST(numbers_that_do_not_fit_or_are_none),
        E_TEST(binary_form_is_eight_bytes),
        E_TEST(changes_of_others_are_told),
        E_TEST(E96_version_minus_one_is_refused),
        E_TEST(shared_value_is_set_by_version),
        E_TEST(E01_creation_of_a_value_whose_answer_was_lost),
        E_TEST(E36_asynchronous_calls_and_blocking_ones_inside),
        E_TEST(E35_close_ends_what_waits),
        E_TEST(E35_close_waits_for_a_read_that_is_under_way),
        E_TEST(E59_client_closed_under_a_waiter),
        E_TEST(E61_a_child_of_fork_may_not_use_it),
        E_TEST(in_a_loop_without_threads),
    };
    return RUN_TESTS(tests);
}
