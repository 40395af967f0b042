/* Leases: granted, kept alive and revoked from elsewhere, nodes attached, values that are deleted or stay. E34, E36, E50, E58,
 * E61, E64. */
#include "support/candidate.h"

#include <conclave/lease.h>
#include <conclave/lock.h>

#include <stdatomic.h>
#include <sys/wait.h>

enum { TTL_MS = 2000 };

struct end {
    atomic_int count;
    atomic_int why;
    bool close_inside;
};

static void on_ended(struct conclave_lease *lease, int why, void *ctx)
{
    struct end *end = ctx;
    if (end->close_inside) {
        assert_int_equal(conclave_lease_close(lease, CONCLAVE_LEASE_LEAVE, 0), CONCLAVE_EDEADLK);
    }
    atomic_store(&end->why, why);
    (void)atomic_fetch_add(&end->count, 1);
}

static struct conclave_client_options options_of(struct fake_zk *zk, int endpoint)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    options.servers = fake_zk_address(zk, endpoint);
    return options;
}

static struct conclave_lease *grant(struct fake_zk *zk, int endpoint, int64_t ttl_ms,
                                    struct end *end)
{
    struct conclave_client_options options = options_of(zk, endpoint);
    struct conclave_lease_callbacks callbacks = CONCLAVE_LEASE_CALLBACKS_INIT;
    struct conclave_lease *lease = NULL;
    callbacks.on_ended = on_ended;
    assert_int_equal(conclave_lease_grant(&options, ttl_ms, PATIENCE_MS,
                                          end == NULL ? NULL : &callbacks, end, &lease),
                     0);
    return lease;
}

static void leave(struct conclave_lease *lease, enum conclave_lease_end how)
{
    assert_int_equal(conclave_lease_close(lease, how, PATIENCE_MS), 0);
}

static void create(struct conclave_lease *lease, const char *path)
{
    struct conclave_op op = conclave_op_create(path, "x", 1, CONCLAVE_EPHEMERAL);
    assert_int_equal(conclave_call(conclave_lease_client(lease), &op, NULL), 0);
}

static bool data_is(struct fake_zk *zk, const char *path, const char *data)
{
    char buf[256];
    return fake_zk_data(zk, path, buf, sizeof buf) && strcmp(buf, data) == 0;
}

struct expirer {
    struct fake_zk *zk;
    atomic_bool *over;
};

static void *expire_all(void *arg)
{
    const struct expirer *e = arg;
    while (!atomic_load(e->over)) {
        fake_zk_expire(e->zk, 0);
        (void)usleep(100);
    }
    return NULL;
}

/* --- the lease -------------------------------------------------------------------------------- */

static void two_leases_end_by_themselves(void **state)
{
    struct fake_zk *zk = *state;
    struct end end = {0};
    struct conclave_lease *one = grant(zk, 0, TTL_MS, &end);
    struct conclave_lease *two = grant(zk, 1, 60000, NULL);
    create(one, "/one");
    create(one, "/other");
    create(two, "/two");
    fake_zk_link(zk, 0, FAKE_SILENT); /* as of a holder that hangs */
    EVENTUALLY(!fake_zk_exists(zk, "/one") && !fake_zk_exists(zk, "/other"));
    assert_true(fake_zk_exists(zk, "/two"));
    EVENTUALLY(atomic_load(&end.count) == 1);
    assert_int_equal(atomic_load(&end.why), CONCLAVE_SESSION_EXPIRED);
    leave(one, CONCLAVE_LEASE_LEAVE);
    leave(two, CONCLAVE_LEASE_END_NOW);
    assert_false(fake_zk_exists(zk, "/two"));
}

static void keep_alive_from_elsewhere_holds_it(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options elsewhere = options_of(zk, 1);
    struct conclave_lease_info info = CONCLAVE_LEASE_INFO_INIT;
    struct conclave_lease *lease = grant(zk, 0, 4000, NULL);
    char id[CONCLAVE_LEASE_ID_MAX];
    conclave_lease_id(lease, id);
    create(lease, "/one");
    leave(lease, CONCLAVE_LEASE_LEAVE); /* as if its holder had died */
    for (int i = 0; i < 12; i++) {
        sleep_ms(400);
        assert_int_equal(conclave_lease_keep_alive(&elsewhere, id, PATIENCE_MS, &info), 0);
        assert_int_equal(info.granted_ms, 4000);
        assert_true(info.left_ms <= 4000);
    }
    assert_true(fake_zk_exists(zk, "/one"));
    EVENTUALLY(!fake_zk_exists(zk, "/one")); /* now nobody does */
    assert_int_equal(conclave_lease_keep_alive(&elsewhere, id, PATIENCE_MS, &info),
                     CONCLAVE_SESSION_EXPIRED);
}

static void holder_goes_on_when_others_keep_it_alive(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options elsewhere = options_of(zk, 1);
    struct conclave_lease_info info = CONCLAVE_LEASE_INFO_INIT;
    struct end end = {0};
    struct conclave_lease *lease = grant(zk, 0, 60000, &end);
    char id[CONCLAVE_LEASE_ID_MAX];
    conclave_lease_id(lease, id);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(conclave_lease_keep_alive(&elsewhere, id, PATIENCE_MS, NULL), 0);
        assert_int_equal(conclave_lease_time_to_live(lease, PATIENCE_MS, &info), 0);
        assert_int_equal(info.granted_ms, 60000);
        assert_true(info.left_ms > 0 && info.left_ms <= 60000);
    }
    assert_int_equal(atomic_load(&end.count), 0);
    leave(lease, CONCLAVE_LEASE_END_NOW);
    assert_int_equal(fake_zk_sessions(zk), 0);
}

static void revoke_by_id_deletes_all_nodes_and_tells_the_holder(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options elsewhere = options_of(zk, 1);
    struct conclave_lease_info info = CONCLAVE_LEASE_INFO_INIT;
    struct end end = {.close_inside = true};
    struct conclave_lease *lease = grant(zk, 0, 60000, &end);
    char id[CONCLAVE_LEASE_ID_MAX];
    conclave_lease_id(lease, id);
    create(lease, "/one");
    create(lease, "/two");
    assert_int_equal(conclave_lease_revoke(&elsewhere, id, PATIENCE_MS), 0);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
    EVENTUALLY(atomic_load(&end.count) == 1);
    assert_int_equal(conclave_lease_time_to_live(lease, PATIENCE_MS, &info),
                     CONCLAVE_SESSION_EXPIRED);
    leave(lease, CONCLAVE_LEASE_END_NOW);
    assert_int_equal(atomic_load(&end.count), 1);
    assert_int_equal(conclave_lease_revoke(&elsewhere, id, PATIENCE_MS), CONCLAVE_SESSION_EXPIRED);
}

static void taken_over_lease_lives_on(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = options_of(zk, 1);
    struct conclave_lease *first = grant(zk, 0, 60000, NULL);
    struct conclave_lease *second;
    char id[CONCLAVE_LEASE_ID_MAX];
    char same[CONCLAVE_LEASE_ID_MAX];
    conclave_lease_id(first, id);
    create(first, "/one");
    leave(first, CONCLAVE_LEASE_LEAVE);
    assert_int_equal(conclave_lease_take(&options, id, PATIENCE_MS, NULL, NULL, &second), 0);
    conclave_lease_id(second, same);
    assert_string_equal(same, id);
    create(second, "/two");
    assert_int_equal(fake_zk_owner(zk, "/one"), fake_zk_owner(zk, "/two"));
    leave(second, CONCLAVE_LEASE_END_NOW);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
    assert_int_equal(conclave_lease_take(&options, id, PATIENCE_MS, NULL, NULL, &second),
                     CONCLAVE_SESSION_EXPIRED);
}

static void E36_recipes_on_a_lease_end_with_it(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options elsewhere = options_of(zk, 1);
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_lease *lease = grant(zk, 0, 10000, NULL);
    struct conclave_recipes *recipes;
    struct conclave_lock *lock;
    char id[CONCLAVE_LEASE_ID_MAX];
    conclave_lease_id(lease, id);
    options.path = "/app/lock";
    assert_int_equal(conclave_recipes_open(conclave_lease_client(lease), &recipes), 0);
    assert_int_equal(conclave_lock_open(recipes, &options, NULL, NULL, &lock), 0);
    assert_int_equal(conclave_lock_acquire(lock, PATIENCE_MS, NULL), 0);
    assert_int_equal(conclave_lease_revoke(&elsewhere, id, PATIENCE_MS), 0);
    EVENTUALLY(!conclave_lock_is_held(lock));
    assert_int_equal(conclave_lock_close_wait(lock, PATIENCE_MS), 0);
    conclave_lock_destroy(lock);
    conclave_recipes_destroy(recipes);
    leave(lease, CONCLAVE_LEASE_END_NOW);
}

static void E34_no_server_is_told_in_time(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = options_of(zk, 0);
    struct conclave_lease *lease = grant(zk, 1, 60000, NULL);
    struct conclave_lease *other;
    char id[CONCLAVE_LEASE_ID_MAX];
    conclave_lease_id(lease, id);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    assert_int_equal(conclave_lease_grant(&options, 1000, 50, NULL, NULL, &other),
                     CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_lease_keep_alive(&options, id, 50, NULL), CONCLAVE_ETIMEDOUT);
    assert_int_equal(conclave_lease_revoke(&options, id, 50), CONCLAVE_ETIMEDOUT);
    assert_int_equal(fake_zk_sessions(zk), 1);
    leave(lease, CONCLAVE_LEASE_END_NOW);
}

static void E58_refused_credentials_end_it(void **state)
{
    struct fake_zk *zk = *state;
    struct end end = {0};
    struct conclave_lease *lease = grant(zk, 0, 60000, &end);
    fake_zk_refuse_auth(zk, true);
    assert_int_equal(conclave_client_add_auth(conclave_lease_client(lease), "digest", "u:p", 3), 0);
    EVENTUALLY(atomic_load(&end.count) == 1);
    assert_int_equal(atomic_load(&end.why), CONCLAVE_AUTH_FAILED);
    leave(lease, CONCLAVE_LEASE_END_NOW);
}

static void E61_child_of_a_fork_does_not_end_it(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_lease *lease = grant(zk, 0, 60000, NULL);
    int status;
    create(lease, "/one");
    pid_t pid = fork();
    if (pid == 0) {
        _exit(conclave_lease_attach(lease, "/one", 10) == CONCLAVE_EFORK &&
                      conclave_lease_close(lease, CONCLAVE_LEASE_END_NOW, 10) == 0
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(fake_zk_exists(zk, "/one"));
    leave(lease, CONCLAVE_LEASE_END_NOW);
}

/* Its session ends when it has just been granted, before the program has it: the call says so, or on_ended does. */
static void E34_a_lease_that_ends_while_it_is_opened_is_told(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = options_of(zk, 0);
    struct conclave_lease_callbacks callbacks = CONCLAVE_LEASE_CALLBACKS_INIT;
    atomic_bool over = false;
    pthread_t thread;
    int told = 0;
    callbacks.on_ended = on_ended;
    struct expirer expirer = {.zk = zk, .over = &over};
    assert_int_equal(pthread_create(&thread, NULL, expire_all, &expirer), 0);
    for (int i = 0; i < 150; i++) {
        struct end end = {0};
        struct conclave_lease *lease;
        int error = conclave_lease_grant(&options, 60000, PATIENCE_MS, &callbacks, &end, &lease);
        if (error == 0) {
            EVENTUALLY(atomic_load(&end.count) == 1);
            assert_int_equal(atomic_load(&end.why), CONCLAVE_SESSION_EXPIRED);
            leave(lease, CONCLAVE_LEASE_LEAVE);
            told++;
        } else {
            assert_int_equal(error, CONCLAVE_SESSION_EXPIRED);
            assert_int_equal(atomic_load(&end.count), 0);
        }
    }
    atomic_store(&over, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    print_message("%d of 150 were granted first\n", told);
}

static void info_of_other_lengths(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = options_of(zk, 0);
    struct conclave_lease *lease = grant(zk, 1, 60000, NULL);
    char id[CONCLAVE_LEASE_ID_MAX];
    struct conclave_lease_info old = {.size = offsetof(struct conclave_lease_info, left_ms),
                                      .left_ms = 7};
    struct {
        struct conclave_lease_info known;
        int64_t added;
    } newer = {.known = {.size = sizeof newer}, .added = 7};
    conclave_lease_id(lease, id);
    for (int i = 0; i < 2; i++) {
#define ASK(info)                                                                                  \
    (i == 0 ? conclave_lease_time_to_live(lease, PATIENCE_MS, info)                                \
            : conclave_lease_keep_alive(&options, id, PATIENCE_MS, info))
        assert_int_equal(ASK(&old), 0);
        assert_int_equal(old.granted_ms, 60000);
        assert_int_equal(old.left_ms, 7);
        newer.added = 7;
        assert_int_equal(ASK(&newer.known), 0);
        assert_true(newer.known.left_ms > 0 && newer.added == 0);
        assert_int_equal(ASK(&(struct conclave_lease_info){0}), CONCLAVE_EINVAL);
        old.granted_ms = 0;
    }
    leave(lease, CONCLAVE_LEASE_END_NOW);
}

static size_t listed(struct conclave_lease *lease, const char *folder, char *names)
{
    struct conclave_lease_entry **list;
    size_t count = 99;
    names[0] = '\0';
    assert_int_equal(
        conclave_lease_list(conclave_lease_client(lease), folder, PATIENCE_MS, &list, &count), 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(list[i]->ttl_ms, 60000);
        assert_true(i == 0 || (uint64_t)list[i]->session_id > (uint64_t)list[i - 1]->session_id);
        (void)strcat(strcat(names, list[i]->name), ";");
    }
    conclave_lease_entries_free(list, count);
    return count;
}

static void list_shows_the_leases_that_live(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_lease *one = grant(zk, 0, 60000, NULL);
    struct conclave_lease *two = grant(zk, 1, 60000, NULL);
    struct conclave_lease_entry **list;
    size_t count;
    char names[600];
    char longest[258];
    assert_int_equal(listed(one, "/app/leases", names), 0); /* no folder */
    memset(longest, 'n', sizeof longest);
    longest[257] = '\0';
    assert_int_equal(conclave_lease_enlist(one, "/app/leases", longest, PATIENCE_MS),
                     CONCLAVE_EINVAL);
    assert_int_equal(conclave_lease_enlist(one, "/app/leases", "a\nb", PATIENCE_MS),
                     CONCLAVE_EINVAL);
    assert_int_equal(conclave_lease_enlist(one, "leases", "a", PATIENCE_MS), CONCLAVE_EINVAL);
    assert_int_equal(
        conclave_lease_list(conclave_lease_client(one), "/", PATIENCE_MS, &list, &count),
        CONCLAVE_EINVAL);
    longest[256] = '\0';
    assert_int_equal(conclave_lease_enlist(one, "/app/leases", longest, PATIENCE_MS), 0);
    assert_int_equal(conclave_lease_enlist(two, "/app/leases", "", PATIENCE_MS), 0);
    assert_int_equal(listed(two, "/app/leases", names), 2);
    assert_int_equal(strlen(names), 256 + 2);
    assert_int_equal(conclave_lease_enlist(one, "/app/leases", "one", PATIENCE_MS), 0);
    assert_int_equal(conclave_lease_enlist(two, "/app/leases", "two", PATIENCE_MS), 0);
    fake_zk_create(zk, "/app/leases/0000000000000099", "1000 another's", 0x98); /* no lease's */
    fake_zk_create(zk, "/app/leases/0000000000000097", "words", 0x97);
    fake_zk_create(zk, "/app/leases/other", "1000 x", 0x97);
    fake_zk_create(zk, "/app/leases/0000000000000096", NULL, 0x96);
    fake_zk_create(zk, "/app/leases/0000000000000095", "1000 a\33[2J", 0x95);
    fake_zk_create(zk, "/app/leases/0000000000000000", "1000 persistent", 0);
    fake_zk_create(zk, "/app/leases/8000000000000000", "1000 container", INT64_MIN);
    fake_zk_create(zk, "/app/leases/ff00000000001000", "1000 TTL", (int64_t)0xff00000000001000);
    assert_int_equal(listed(two, "/app/leases", names), 2);
    assert_non_null(strstr(names, "one;"));
    assert_non_null(strstr(names, "two;"));
    leave(one, CONCLAVE_LEASE_END_NOW);
    assert_int_equal(listed(two, "/app/leases", names), 1);
    assert_string_equal(names, "two;");
    leave(two, CONCLAVE_LEASE_END_NOW);
}

static void E64_lost_answers_of_enlisting_and_listing(void **state)
{
    struct fake_zk *zk = *state;
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY};
    char names[600];
    for (int step = 1; step <= 9; step++) {
        for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
            struct conclave_lease *lease = grant(zk, 0, 60000, NULL);
            hook(zk, 0, FAKE_ANY_OP, NULL, step, actions[i]);
            assert_int_equal(conclave_lease_enlist(lease, "/leases", "one", PATIENCE_MS), 0);
            assert_int_equal(listed(lease, "/leases", names), 1);
            fake_zk_hooks_clear(zk);
            leave(lease, CONCLAVE_LEASE_END_NOW);
        }
    }
}

struct log_seen {
    atomic_int lines;
    atomic_int strangers; /* lines with another context */
};

static struct log_seen log_seen;

static void on_log(struct conclave_client *client, const struct conclave_log_line *line, void *ctx)
{
    assert_non_null(client);
    assert_non_null(line->text);
    (void)atomic_fetch_add(ctx == &log_seen ? &log_seen.lines : &log_seen.strangers, 1);
}

/* The log's function gets the context of the program's options, also when the lease has one of its own. */
static void log_gets_the_context_of_the_options(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = options_of(zk, 0);
    struct conclave_lease *lease = NULL;
    char id[CONCLAVE_LEASE_ID_MAX];
    options.on_log = on_log;
    options.log_level = CONCLAVE_LOG_DEBUG;
    options.ctx = &log_seen;
    assert_int_equal(conclave_lease_grant(&options, 60000, PATIENCE_MS, NULL, NULL, &lease), 0);
    EVENTUALLY(atomic_load(&log_seen.lines) > 0);
    conclave_lease_id(lease, id);
    int before = atomic_load(&log_seen.lines);
    assert_int_equal(conclave_lease_keep_alive(&options, id, PATIENCE_MS, NULL), 0);
    EVENTUALLY(atomic_load(&log_seen.lines) > before);
    leave(lease, CONCLAVE_LEASE_END_NOW);
    assert_int_equal(atomic_load(&log_seen.strangers), 0);
}

static void wrong_ids_and_options_are_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = options_of(zk, 0);
    struct conclave_lease *lease;
    static const char *const bad[] = {"",
                                      "1-2-",
                                      "0-7d0-00112233445566778899aabbccddeeff",
                                      "1-0-00112233445566778899aabbccddeeff",
                                      "1-7d0-00112233445566778899aabbccddeef",
                                      "1-7d0-00112233445566778899aabbccddeeff0",
                                      "1-7d0-00112233445566778899aabbccddeefg",
                                      "1-7d0-00112233445566778899AABBCCDDEEFF",
                                      NULL};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(conclave_lease_keep_alive(&options, bad[i], 0, NULL), CONCLAVE_EINVAL);
        assert_int_equal(conclave_lease_revoke(&options, bad[i], 0), CONCLAVE_EINVAL);
        assert_int_equal(conclave_lease_take(&options, bad[i], 0, NULL, NULL, &lease),
                         CONCLAVE_EINVAL);
    }
    assert_int_equal(conclave_lease_grant(&options, 0, 0, NULL, NULL, &lease), CONCLAVE_EINVAL);
    assert_int_equal(conclave_lease_close(NULL, CONCLAVE_LEASE_END_NOW, 0), 0);
    lease = grant(zk, 0, 60000, NULL);
    assert_int_equal(conclave_lease_attach(lease, "a", 0), CONCLAVE_EINVAL);
    assert_int_equal(conclave_lease_acquire(lease, "/", "", 0, CONCLAVE_LEASE_DELETE, 0, NULL),
                     CONCLAVE_EINVAL);
    assert_int_equal(conclave_lease_acquire(lease, "/a", "", 0, 7, 0, NULL), CONCLAVE_EINVAL);
    leave(lease, CONCLAVE_LEASE_END_NOW);
}

/* --- attaching -------------------------------------------------------------------------------- */

static void attached_node_keeps_data_and_acl(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_lease *lease = grant(zk, 0, 60000, NULL);
    struct conclave_acl mine = {CONCLAVE_PERM_ALL, "ip", "127.0.0.1"};
    struct conclave_op op = conclave_op_create("/old", "data", 4, CONCLAVE_PERSISTENT);
    char acl[256];
    op.acl = &mine;
    op.acl_count = 1;
    assert_int_equal(conclave_call(conclave_lease_client(lease), &op, NULL), 0);
    assert_int_equal(conclave_lease_attach(lease, "/old", PATIENCE_MS), 0);
    int64_t session = fake_zk_owner(zk, "/old");
    assert_true(session > 0 && data_is(zk, "/old", "data"));
    assert_true(fake_zk_acl(zk, "/old", acl));
    assert_string_equal(acl, "ip:127.0.0.1:31");
    int64_t czxid = fake_zk_czxid(zk, "/old");
    assert_int_equal(conclave_lease_attach(lease, "/old", PATIENCE_MS), 0); /* it is already */
    assert_int_equal(fake_zk_czxid(zk, "/old"), czxid);
    leave(lease, CONCLAVE_LEASE_END_NOW);
    assert_false(fake_zk_exists(zk, "/old"));
}

static void node_that_cannot_be_attached_stays_as_it_is(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_lease *lease = grant(zk, 0, 60000, NULL);
    fake_zk_create(zk, "/parent", "", 0);
    fake_zk_create(zk, "/parent/child", "", 0);
    fake_zk_create(zk, "/theirs", "", 0x99);
    assert_int_equal(conclave_lease_attach(lease, "/parent", PATIENCE_MS), CONCLAVE_NOT_EMPTY);
    assert_int_equal(conclave_lease_attach(lease, "/theirs", PATIENCE_MS), CONCLAVE_ENOTOWNER);
    assert_int_equal(conclave_lease_attach(lease, "/none", PATIENCE_MS), CONCLAVE_NO_NODE);
    assert_int_equal(fake_zk_owner(zk, "/theirs"), 0x99);
    leave(lease, CONCLAVE_LEASE_END_NOW);
    assert_true(fake_zk_exists(zk, "/parent/child") && fake_zk_exists(zk, "/theirs"));
}

static void write_old(struct fake_zk *zk, void *ctx)
{
    fake_zk_write_locked(zk, "/old", "newer");
}

static void data_written_meanwhile_are_not_lost(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_lease *lease = grant(zk, 0, 60000, NULL);
    struct fake_hook h = {.op = WIRE_MULTI, .nth = 1, .action = FAKE_CALL, .fn = write_old};
    fake_zk_create(zk, "/old", "data", 0);
    fake_zk_hook(zk, &h);
    assert_int_equal(conclave_lease_attach(lease, "/old", PATIENCE_MS), 0);
    assert_true(fake_zk_owner(zk, "/old") > 0 && data_is(zk, "/old", "newer"));
    fake_zk_create(zk, "/never-written", "data", 0);
    assert_int_equal(conclave_lease_attach(lease, "/never-written", PATIENCE_MS), 0);
    assert_int_not_equal(fake_zk_version(zk, "/never-written"),
                         0); /* another's attachment finds another node */
    hook(zk, 0, WIRE_MULTI, NULL, 1, FAKE_DROP_REPLY);
    fake_zk_create(zk, "/older", "data", 0);
    assert_int_equal(conclave_lease_attach(lease, "/older", PATIENCE_MS), 0);
    assert_true(fake_zk_owner(zk, "/older") > 0 && data_is(zk, "/older", "data"));
    leave(lease, CONCLAVE_LEASE_END_NOW);
}

/* --- values with a holder ---------------------------------------------------------------------- */

#define ACQUIRE(lease, data, behaviour, token)                                                     \
    conclave_lease_acquire(lease, "/app/value", data, strlen(data), behaviour, PATIENCE_MS, token)
#define RELEASE(lease, behaviour)                                                                  \
    conclave_lease_release(lease, "/app/value", behaviour, PATIENCE_MS)

static void value_goes_or_stays_with_its_holder(void **state)
{
    struct fake_zk *zk = *state;
    for (int b = CONCLAVE_LEASE_DELETE; b <= CONCLAVE_LEASE_RELEASE; b++) {
        enum conclave_lease_behaviour behaviour = b;
        bool stays = behaviour == CONCLAVE_LEASE_RELEASE;
        struct conclave_lease *a = grant(zk, 0, 60000, NULL);
        struct conclave_lease *c = grant(zk, 1, 60000, NULL);
        struct conclave_token first;
        struct conclave_token again;
        struct conclave_token second;
        assert_int_equal(RELEASE(a, behaviour), CONCLAVE_ENOTOWNER);
        assert_int_equal(ACQUIRE(a, "one", behaviour, &first), 0);
        assert_true(data_is(zk, "/app/value", "one"));
        assert_int_equal(ACQUIRE(c, "two", behaviour, NULL), CONCLAVE_EBUSY);
        assert_int_equal(RELEASE(c, behaviour), CONCLAVE_ENOTOWNER);
        assert_int_equal(ACQUIRE(a, "more", behaviour, &again), 0);
        assert_int_equal(again.czxid, first.czxid);
        assert_true(data_is(zk, "/app/value", "more"));
        assert_int_equal(fake_zk_exists(zk, "/app/value.holder"), stays);
        leave(a, CONCLAVE_LEASE_END_NOW); /* as if it had died */
        assert_int_equal(data_is(zk, "/app/value", "more"), stays);
        assert_false(fake_zk_exists(zk, "/app/value.holder"));
        assert_int_equal(ACQUIRE(c, "two", behaviour, &second), 0);
        assert_true(second.czxid > first.czxid && data_is(zk, "/app/value", "two"));
        assert_int_equal(RELEASE(c, behaviour), 0);
        assert_int_equal(data_is(zk, "/app/value", "two"), stays);
        assert_int_equal(
            ACQUIRE(c, "x", stays ? CONCLAVE_LEASE_DELETE : CONCLAVE_LEASE_RELEASE, NULL),
            stays ? CONCLAVE_ECONFLICT : 0);
        leave(c, CONCLAVE_LEASE_END_NOW);
        fake_zk_delete(zk, "/app/value");
    }
}

/* An operator takes the hold away, and another lease acquires. */
static void replace_holder(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, "/app/value.holder");
    fake_zk_create_locked(zk, "/app/value.holder", "", 0x99);
    fake_zk_write_locked(zk, "/app/value", "theirs");
}

static void E50_write_of_an_earlier_holder_is_refused(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_lease *lease = grant(zk, 0, 60000, NULL);
    struct fake_hook h = {.op = WIRE_MULTI, .nth = 1, .action = FAKE_CALL, .fn = replace_holder};
    assert_int_equal(ACQUIRE(lease, "ours", CONCLAVE_LEASE_RELEASE, NULL), 0);
    fake_zk_hook(zk, &h);
    assert_int_equal(ACQUIRE(lease, "late", CONCLAVE_LEASE_RELEASE, NULL), CONCLAVE_EBUSY);
    assert_true(data_is(zk, "/app/value", "theirs"));
    leave(lease, CONCLAVE_LEASE_END_NOW);
}

static void delete_holder(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, ctx);
}

/* An operator deletes the holder's node between the look and the deletion. */
static void E64_release_of_a_value_that_was_taken_away(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_lease *lease = grant(zk, 0, 60000, NULL);
    for (int b = CONCLAVE_LEASE_DELETE; b <= CONCLAVE_LEASE_RELEASE; b++) {
        struct fake_hook h = {.op = WIRE_DELETE, .nth = 1, .action = FAKE_CALL};
        h.fn = delete_holder;
        h.ctx = b == CONCLAVE_LEASE_RELEASE ? "/app/value.holder" : "/app/value";
        assert_int_equal(ACQUIRE(lease, "x", (enum conclave_lease_behaviour)b, NULL), 0);
        fake_zk_hook(zk, &h);
        assert_int_equal(RELEASE(lease, (enum conclave_lease_behaviour)b), CONCLAVE_ENOTOWNER);
        assert_int_equal(fake_zk_hooks_left(zk), 0);
    }
    assert_int_equal(RELEASE(lease, CONCLAVE_LEASE_DELETE), CONCLAVE_ECONFLICT); /* it lasts */
    leave(lease, CONCLAVE_LEASE_END_NOW);
}

static void E64_lost_answers_of_acquire_and_release(void **state)
{
    struct fake_zk *zk = *state;
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY};
    for (int b = CONCLAVE_LEASE_DELETE; b <= CONCLAVE_LEASE_RELEASE; b++) {
        for (int step = 1; step <= 8; step++) {
            for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
                struct conclave_lease *lease = grant(zk, 0, 60000, NULL);
                hook(zk, 0, FAKE_ANY_OP, NULL, step, actions[i]);
                assert_int_equal(ACQUIRE(lease, "one", (enum conclave_lease_behaviour)b, NULL), 0);
                assert_true(data_is(zk, "/app/value", "one"));
                assert_int_equal(RELEASE(lease, (enum conclave_lease_behaviour)b), 0);
                assert_int_equal(fake_zk_ephemerals(zk), 0);
                fake_zk_hooks_clear(zk);
                leave(lease, CONCLAVE_LEASE_END_NOW);
            }
        }
        fake_zk_delete(zk, "/app/value");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(two_leases_end_by_themselves),
        E_TEST(keep_alive_from_elsewhere_holds_it),
        E_TEST(holder_goes_on_when_others_keep_it_alive),
        E_TEST(revoke_by_id_deletes_all_nodes_and_tells_the_holder),
        E_TEST(taken_over_lease_lives_on),
        E_TEST(E36_recipes_on_a_lease_end_with_it),
        E_TEST(E34_no_server_is_told_in_time),
        E_TEST(E58_refused_credentials_end_it),
        E_TEST(E61_child_of_a_fork_does_not_end_it),
        E_TEST(E34_a_lease_that_ends_while_it_is_opened_is_told),
        E_TEST(info_of_other_lengths),
        E_TEST(list_shows_the_leases_that_live),
        E_TEST(E64_lost_answers_of_enlisting_and_listing),
        E_TEST(log_gets_the_context_of_the_options),
        E_TEST(wrong_ids_and_options_are_refused),
        E_TEST(attached_node_keeps_data_and_acl),
        E_TEST(node_that_cannot_be_attached_stays_as_it_is),
        E_TEST(data_written_meanwhile_are_not_lost),
        E_TEST(value_goes_or_stays_with_its_holder),
        E_TEST(E50_write_of_an_earlier_holder_is_refused),
        E_TEST(E64_release_of_a_value_that_was_taken_away),
        E_TEST(E64_lost_answers_of_acquire_and_release),
    };
    return RUN_TESTS(tests);
}
