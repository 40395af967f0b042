/* Persistent nodes of all modes. E01, E03, E05, E08, E18, E27, E30, E35, E36, E55, E59, E61, E89, E91, E92. */
#include "support/candidate.h"

#include <conclave/persistent_node.h>

#include <sys/wait.h>

#define NODE "/app/node"

struct keeper {
    struct candidate c; /* client and recipes; no election */
    struct conclave_persistent_node *node;
    pthread_mutex_t lock; /* guards what follows */
    char log[512];        /* names of the states in order */
    int closed;
    int closed_why;
    int after_end;
    bool close_inside;
};

static void on_presence(struct conclave_persistent_node *node, enum conclave_membership presence,
                        void *ctx)
{
    struct keeper *k = ctx;
    (void)pthread_mutex_lock(&k->lock);
    k->after_end += k->closed;
    (void)strcat(k->log, k->log[0] == '\0' ? "" : " ");
    (void)strcat(k->log, conclave_membership_name(presence));
    bool close = k->close_inside;
    (void)pthread_mutex_unlock(&k->lock);
    if (close) {
        conclave_persistent_node_close(node);
        assert_int_equal(conclave_persistent_node_close_wait(node, 10), CONCLAVE_EDEADLK);
        assert_int_equal(conclave_persistent_node_wait(node, 10), CONCLAVE_EDEADLK);
    }
}

static void on_closed(struct conclave_persistent_node *node, int why, void *ctx)
{
    struct keeper *k = ctx;
    (void)pthread_mutex_lock(&k->lock);
    k->closed++;
    k->closed_why = why;
    (void)pthread_mutex_unlock(&k->lock);
}

static int keeper_closed(struct keeper *k)
{
    (void)pthread_mutex_lock(&k->lock);
    int closed = k->closed;
    (void)pthread_mutex_unlock(&k->lock);
    return closed;
}

static bool log_begins(struct keeper *k, const char *log)
{
    (void)pthread_mutex_lock(&k->lock);
    bool same = strncmp(k->log, log, strlen(log)) == 0; /* more may have come since */
    (void)pthread_mutex_unlock(&k->lock);
    return same;
}

static struct conclave_persistent_node_options options_of(enum conclave_create_mode mode,
                                                          const char *data)
{
    struct conclave_persistent_node_options options = CONCLAVE_PERSISTENT_NODE_OPTIONS_INIT;
    options.path = NODE;
    options.mode = mode;
    options.data = data;
    options.data_len = strlen(data);
    return options;
}

static void keeper_connect(struct keeper *k, struct fake_zk *zk, int endpoint)
{
    memset(k, 0, sizeof *k);
    (void)pthread_mutex_init(&k->lock, NULL);
    candidate_connect(&k->c, zk, endpoint, "keeper");
}

static void keeper_open(struct keeper *k, const struct conclave_persistent_node_options *options)
{
    struct conclave_persistent_node_callbacks callbacks = CONCLAVE_PERSISTENT_NODE_CALLBACKS_INIT;
    callbacks.on_presence = on_presence;
    callbacks.on_closed = on_closed;
    assert_int_equal(conclave_persistent_node_open(k->c.recipes, options, &callbacks, k, &k->node),
                     0);
}

static void keeper_start(struct keeper *k, struct fake_zk *zk, int endpoint,
                         enum conclave_create_mode mode, const char *data)
{
    struct conclave_persistent_node_options options = options_of(mode, data);
    keeper_connect(k, zk, endpoint);
    keeper_open(k, &options);
}

static void keeper_finish(struct keeper *k)
{
    assert_int_equal(conclave_persistent_node_close_wait(k->node, PATIENCE_MS), 0);
    assert_int_equal(k->closed, 1);
    conclave_persistent_node_destroy(k->node);
    candidate_finish(&k->c);
    assert_int_equal(k->after_end, 0);
    (void)pthread_mutex_destroy(&k->lock);
}

#define THERE(k) (conclave_persistent_node_wait((k)->node, PATIENCE_MS))

static bool data_is(struct fake_zk *zk, const char *path, const char *data)
{
    char buf[256];
    return fake_zk_data(zk, path, buf, sizeof buf) && strcmp(buf, data) == 0;
}

static void make_parent_of_node(struct fake_zk *zk)
{
    fake_zk_create(zk, "/app", "", 0);
}

/* --- ephemeral ---------------------------------------------------------------------------- */

static void E01_create_reply_lost_is_found_again(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    make_parent_of_node(zk);
    hook(zk, 0, WIRE_CREATE, "/node", 1, FAKE_DROP_REPLY);
    keeper_start(&k, zk, 0, CONCLAVE_EPHEMERAL, "plain");
    assert_int_equal(THERE(&k), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 1);
    assert_int_equal(fake_zk_owner(zk, NODE), candidate_session(&k.c));
    assert_true(data_is(zk, NODE, "plain"));
    keeper_finish(&k);
    assert_false(fake_zk_exists(zk, NODE));
}

static void E08_parents_are_made_with_the_acl(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    struct conclave_acl mine = {CONCLAVE_PERM_ALL, "ip", "127.0.0.1"};
    struct conclave_persistent_node_options options = options_of(CONCLAVE_EPHEMERAL, "x");
    static const char *const made[] = {"/app", "/app/a", "/app/a/b"};
    char acl[256];
    options.path = "/app/a/b";
    options.acl = &mine;
    options.acl_count = 1;
    keeper_connect(&k, zk, 0);
    keeper_open(&k, &options);
    assert_int_equal(THERE(&k), 0);
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        assert_true(fake_zk_acl(zk, made[i], acl));
        assert_string_equal(acl, "ip:127.0.0.1:31");
    }
    keeper_finish(&k);
}

static void E18_no_permission_ends_it(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    struct fake_hook h = {
        .op = WIRE_CREATE, .path = NODE, .nth = 1, .action = FAKE_ERROR, .error = CONCLAVE_NO_AUTH};
    make_parent_of_node(zk);
    fake_zk_hook(zk, &h);
    keeper_start(&k, zk, 0, CONCLAVE_EPHEMERAL, "x");
    EVENTUALLY(keeper_closed(&k) == 1);
    assert_int_equal(k.closed_why, CONCLAVE_NO_AUTH);
    assert_int_equal(conclave_persistent_node_wait(k.node, 0), CONCLAVE_NO_AUTH);
    keeper_finish(&k);
}

static void E27_deleted_node_and_lost_session_bring_it_back(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    keeper_start(&k, zk, 0, CONCLAVE_EPHEMERAL, "plain");
    assert_int_equal(THERE(&k), 0);
    int64_t first = fake_zk_czxid(zk, NODE);
    fake_zk_delete(zk, NODE);
    EVENTUALLY(fake_zk_czxid(zk, NODE) > first);
    assert_int_equal(THERE(&k), 0);
    int64_t session = candidate_session(&k.c);
    fake_zk_expire(zk, 0);
    EVENTUALLY(fake_zk_owner(zk, NODE) > 0 && fake_zk_owner(zk, NODE) != session);
    assert_int_equal(THERE(&k), 0);
    assert_true(data_is(zk, NODE, "plain"));
    keeper_finish(&k);
}

static void states_are_told(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    keeper_start(&k, zk, 0, CONCLAVE_EPHEMERAL, "plain");
    EVENTUALLY(log_begins(&k, "IN"));
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(log_begins(&k, "IN UNSURE"));
    EVENTUALLY(log_begins(&k, "IN UNSURE OUT"));
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(log_begins(&k, "IN UNSURE OUT IN"));
    keeper_finish(&k);
}

static void E30_ensemble_that_lost_everything(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    keeper_start(&k, zk, 0, CONCLAVE_PERSISTENT, "plain");
    assert_int_equal(THERE(&k), 0);
    fake_zk_reset(zk);
    EVENTUALLY(data_is(zk, NODE, "plain"));
    keeper_finish(&k);
    assert_false(fake_zk_exists(zk, NODE));
}

static void E36_close_in_a_callback(void **state)
{
    struct keeper k;
    struct conclave_persistent_node_options options = options_of(CONCLAVE_EPHEMERAL, "x");
    keeper_connect(&k, *state, 0);
    k.close_inside = true;
    keeper_open(&k, &options);
    EVENTUALLY(keeper_closed(&k) == 1);
    keeper_finish(&k);
    assert_int_equal(fake_zk_ephemerals(*state), 0);
}

static void E59_client_closed_under_a_waiter(void **state)
{
    struct keeper k;
    fake_zk_link(*state, 0, FAKE_REFUSE);
    keeper_start(&k, *state, 0, CONCLAVE_EPHEMERAL_SEQUENTIAL, "x");
    assert_int_equal(conclave_persistent_node_wait(k.node, 20), CONCLAVE_ETIMEDOUT);
    conclave_client_close(k.c.client, 0);
    assert_int_equal(THERE(&k), CONCLAVE_ECLOSED);
    assert_int_equal(conclave_persistent_node_close_wait(k.node, PATIENCE_MS), 0);
    conclave_persistent_node_destroy(k.node);
    conclave_recipes_destroy(k.c.recipes);
}

static void E61_a_child_of_fork_may_not_use_it(void **state)
{
    struct keeper k;
    char path[64];
    int status;
    keeper_start(&k, *state, 0, CONCLAVE_EPHEMERAL, "x");
    assert_int_equal(THERE(&k), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool right = conclave_persistent_node_wait(k.node, 10) == CONCLAVE_EFORK &&
                     conclave_persistent_node_set_data(k.node, "y", 1) == CONCLAVE_EFORK &&
                     conclave_persistent_node_path(k.node, path, sizeof path) == CONCLAVE_EFORK &&
                     conclave_persistent_node_presence(k.node) == CONCLAVE_MEMBERSHIP_OUT;
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    keeper_finish(&k);
}

static void E89_a_node_of_another_is_a_conflict_and_left_alone(void **state)
{
    struct fake_zk *zk = *state;
    for (int lasting = 0; lasting < 2; lasting++) {
        struct keeper k;
        fake_zk_create(zk, "/app", "", 0);
        /* an ephemeral one wants no lasting node, and the other way round */
        fake_zk_create(zk, NODE, "theirs", lasting == 1 ? 0x99 : 0);
        keeper_start(&k, zk, 0, lasting == 1 ? CONCLAVE_PERSISTENT : CONCLAVE_EPHEMERAL, "ours");
        EVENTUALLY(conclave_persistent_node_presence(k.node) == CONCLAVE_MEMBERSHIP_CONFLICT);
        assert_int_equal(conclave_persistent_node_wait(k.node, 50), CONCLAVE_ECONFLICT);
        assert_true(data_is(zk, NODE, "theirs"));
        fake_zk_delete(zk, NODE);
        assert_int_equal(THERE(&k), 0);
        assert_true(data_is(zk, NODE, "ours"));
        keeper_finish(&k);
        assert_false(fake_zk_exists(zk, NODE));
    }
}

static void E91_data_set_without_a_link_are_written_later(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    keeper_start(&k, zk, 0, CONCLAVE_EPHEMERAL, "one");
    assert_int_equal(THERE(&k), 0);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(conclave_persistent_node_presence(k.node) == CONCLAVE_MEMBERSHIP_UNSURE);
    assert_int_equal(conclave_persistent_node_set_data(k.node, "two", 3), 0);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(data_is(zk, NODE, "two"));
    fake_zk_write(zk, NODE, "by somebody");
    EVENTUALLY(data_is(zk, NODE, "two")); /* it is this session's node */
    keeper_finish(&k);
}

/* --- sequential --------------------------------------------------------------------------- */

static const char *path_of(struct keeper *k, char buf[256])
{
    assert_int_equal(conclave_persistent_node_path(k->node, buf, 256), 0);
    return buf;
}

static void name_has_guid_and_number_and_stays(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    char path[256];
    char again[256];
    keeper_start(&k, zk, 0, CONCLAVE_EPHEMERAL_SEQUENTIAL, "plain");
    assert_int_equal(THERE(&k), 0);
    (void)path_of(&k, path);
    assert_memory_equal(path, "/app/_c_", 8);
    assert_string_equal(path + 8 + 36, "-node0000000000");
    assert_int_equal(conclave_persistent_node_path(k.node, again, 9), CONCLAVE_ENOBUFS);
    int64_t first = fake_zk_czxid(zk, path);
    int64_t session = candidate_session(&k.c);
    fake_zk_expire(zk, 0);
    EVENTUALLY(fake_zk_owner(zk, path) > 0 && fake_zk_owner(zk, path) != session);
    assert_true(fake_zk_czxid(zk, path) > first);
    assert_int_equal(THERE(&k), 0);
    assert_string_equal(path_of(&k, again), path);
    assert_true(data_is(zk, path, "plain"));
    keeper_finish(&k);
    assert_int_equal(fake_zk_child_count(zk, "/app"), 0);
}

static void E03_sequential_create_that_never_arrived_is_repeated_once(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    char path[256];
    make_parent_of_node(zk);
    hook(zk, 0, WIRE_CREATE, "-node", 1, FAKE_DROP_REPLY);
    keeper_start(&k, zk, 0, CONCLAVE_EPHEMERAL_SEQUENTIAL, "plain");
    assert_int_equal(THERE(&k), 0);
    assert_int_equal(fake_zk_child_count(zk, "/app"), 1);
    assert_int_equal(fake_zk_owner(zk, path_of(&k, path)), candidate_session(&k.c));
    keeper_finish(&k);
    hook(zk, 0, WIRE_CREATE, "-node", 1, FAKE_CUT_BEFORE);
    keeper_start(&k, zk, 0, CONCLAVE_EPHEMERAL_SEQUENTIAL, "plain");
    assert_int_equal(THERE(&k), 0);
    assert_int_equal(fake_zk_child_count(zk, "/app"), 1);
    keeper_finish(&k);
}

static void E05_sequential_create_whose_session_expires_is_made_anew(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    make_parent_of_node(zk);
    hook(zk, 0, WIRE_CREATE, "-node", 1, FAKE_EXPIRE_AFTER);
    keeper_start(&k, zk, 0, CONCLAVE_EPHEMERAL_SEQUENTIAL, "plain");
    assert_int_equal(THERE(&k), 0);
    assert_int_equal(fake_zk_child_count(zk, "/app"), 1);
    keeper_finish(&k);
}

static void E92_data_and_close_while_the_name_is_made(void **state)
{
    struct fake_zk *zk = *state;
    char path[256];
    make_parent_of_node(zk);
    for (int close = 0; close < 2; close++) {
        struct keeper k;
        fake_zk_hold(zk, 0, WIRE_CREATE2);
        keeper_start(&k, zk, 0, CONCLAVE_EPHEMERAL_SEQUENTIAL, "old");
        EVENTUALLY(candidate_session(&k.c) != 0);
        assert_int_equal(conclave_persistent_node_path(k.node, path, sizeof path), CONCLAVE_EEMPTY);
        assert_int_equal(conclave_persistent_node_set_data(k.node, "new", 3), 0);
        if (close == 1) {
            EVENTUALLY(fake_zk_holds(zk, 0));
            conclave_persistent_node_close(k.node);
        }
        fake_zk_release(zk, 0);
        if (close == 0) {
            assert_int_equal(THERE(&k), 0);
            EVENTUALLY(data_is(zk, path_of(&k, path), "new"));
        }
        keeper_finish(&k);
        assert_int_equal(fake_zk_child_count(zk, "/app"), 0);
    }
}

/* --- lasting ------------------------------------------------------------------------------- */

static void E55_two_keep_one_lasting_node(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper a;
    struct keeper b;
    keeper_start(&a, zk, 0, CONCLAVE_PERSISTENT, "a");
    assert_int_equal(THERE(&a), 0);
    keeper_start(&b, zk, 1, CONCLAVE_PERSISTENT, "b");
    assert_int_equal(THERE(&b), 0);
    EVENTUALLY(data_is(zk, NODE, "b"));
    STAYS(data_is(zk, NODE, "b"), 50); /* they do not write against each other */
    assert_int_equal(fake_zk_version(zk, NODE), 1);
    assert_int_equal(conclave_persistent_node_set_data(a.node, "again", 5), 0);
    EVENTUALLY(data_is(zk, NODE, "again"));
    fake_zk_expire(zk, 0); /* nothing is lost with sessions */
    EVENTUALLY(fake_zk_owner(zk, NODE) == 0);
    keeper_finish(&a);
    EVENTUALLY(data_is(zk, NODE, "b")); /* b keeps it still */
    keeper_finish(&b);
    assert_false(fake_zk_exists(zk, NODE));
}

static void kept_node_stays_and_nodes_with_children_do(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    struct conclave_persistent_node_options options = options_of(CONCLAVE_PERSISTENT, "x");
    options.keep = true;
    keeper_connect(&k, zk, 0);
    keeper_open(&k, &options);
    assert_int_equal(THERE(&k), 0);
    keeper_finish(&k);
    assert_true(data_is(zk, NODE, "x"));
    keeper_start(&k, zk, 0, CONCLAVE_CONTAINER, "y");
    assert_int_equal(THERE(&k), 0);
    EVENTUALLY(data_is(zk, NODE, "y"));
    fake_zk_create(zk, NODE "/theirs", "", 0);
    keeper_finish(&k);
    assert_true(fake_zk_exists(zk, NODE "/theirs"));
}

static void E35_lasting_node_is_removed_after_a_lost_session(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    keeper_start(&k, zk, 0, CONCLAVE_PERSISTENT, "x");
    assert_int_equal(THERE(&k), 0);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    fake_zk_expire(zk, 0);
    conclave_persistent_node_close(k.node);
    STAYS(keeper_closed(&k) == 0, 20);
    fake_zk_link(zk, 0, FAKE_UP);
    keeper_finish(&k);
    assert_false(fake_zk_exists(zk, NODE));
}

/* --- TTL ------------------------------------------------------------------------------------ */

static struct conclave_persistent_node_options ttl_options(int64_t ttl_ms)
{
    struct conclave_persistent_node_options options = options_of(CONCLAVE_PERSISTENT, "plain");
    options.ttl_ms = ttl_ms;
    return options;
}

static void touch_is_written_again_and_again(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    struct conclave_persistent_node_options options = ttl_options(60);
    keeper_connect(&k, zk, 0);
    keeper_open(&k, &options);
    assert_int_equal(THERE(&k), 0);
    assert_true(data_is(zk, NODE, "plain"));
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE_TTL), 1);
    EVENTUALLY(fake_zk_version(zk, NODE "/touch") >= 3);
    assert_int_equal(fake_zk_version(zk, NODE), 0);
    fake_zk_expire(zk, 0); /* goes on in the next session */
    int32_t version = fake_zk_version(zk, NODE "/touch");
    EVENTUALLY(fake_zk_version(zk, NODE "/touch") >= version + 3);
    fake_zk_delete(zk, NODE "/touch"); /* as the server would, with its TTL over */
    EVENTUALLY(fake_zk_count(zk, 0, WIRE_CREATE_TTL) == 2);
    EVENTUALLY(fake_zk_version(zk, NODE "/touch") >= 2);
    assert_int_equal(conclave_persistent_node_set_data(k.node, "new", 3), 0);
    EVENTUALLY(data_is(zk, NODE, "new"));
    keeper_finish(&k);
    assert_false(fake_zk_exists(zk, NODE));
}

static void node_with_a_ttl_that_is_kept_stays_for_it(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    struct conclave_persistent_node_options options = ttl_options(60000);
    options.keep = true;
    keeper_connect(&k, zk, 0);
    keeper_open(&k, &options);
    assert_int_equal(THERE(&k), 0);
    keeper_finish(&k);
    assert_true(fake_zk_exists(zk, NODE "/touch"));
}

/* Found where an earlier process left it: the TTL counts from its last write. */
static void touch_of_an_earlier_life_is_written_at_once(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    struct conclave_persistent_node_options options = ttl_options(60000);
    options.keep = true;
    for (int life = 0; life < 3; life++) {
        keeper_connect(&k, zk, 0);
        for (int handle = 0; handle < 2; handle++) { /* of one session */
            keeper_open(&k, &options);
            assert_int_equal(THERE(&k), 0);
            EVENTUALLY(fake_zk_version(zk, NODE "/touch") == 2 * life + handle);
            assert_int_equal(conclave_persistent_node_close_wait(k.node, PATIENCE_MS), 0);
            conclave_persistent_node_destroy(k.node);
        }
        candidate_finish(&k.c);
        (void)pthread_mutex_destroy(&k.lock);
    }
    assert_int_equal(fake_zk_version(zk, NODE), 0); /* its data were the same */
}

static void fall_silent(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, 0, FAKE_SILENT);
}

/* The node is being read, "touch" is being deleted, and the client ends. */
static void E59_node_with_a_ttl_ends_with_its_client(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    struct conclave_persistent_node_options options = ttl_options(60000);
    struct fake_hook read = {
        .op = WIRE_GET_DATA, .path = "/node", .nth = 1, .action = FAKE_CALL, .fn = fall_silent};
    keeper_connect(&k, zk, 0);
    keeper_open(&k, &options);
    assert_int_equal(THERE(&k), 0);
    EVENTUALLY(fake_zk_watches(zk) == 2);
    fake_zk_hook(zk, &read);
    fake_zk_write(zk, NODE, "theirs");
    EVENTUALLY(fake_zk_hooks_left(zk) == 0);
    conclave_persistent_node_close(k.node);
    conclave_client_close(k.c.client, 0);
    assert_int_equal(conclave_persistent_node_close_wait(k.node, PATIENCE_MS), 0);
    conclave_persistent_node_destroy(k.node);
    conclave_recipes_destroy(k.c.recipes);
    (void)pthread_mutex_destroy(&k.lock);
}

static void server_without_ttls_ends_it_and_nothing_stays(void **state)
{
    struct fake_zk *zk = *state;
    struct keeper k;
    struct fake_hook h = {
        .op = WIRE_CREATE_TTL, .nth = 1, .action = FAKE_ERROR, .error = CONCLAVE_UNIMPLEMENTED};
    struct conclave_persistent_node_options options = ttl_options(60);
    options.keep = true; /* or it would stay for ever */
    fake_zk_hook(zk, &h);
    keeper_connect(&k, zk, 0);
    keeper_open(&k, &options);
    EVENTUALLY(keeper_closed(&k) == 1);
    assert_int_equal(k.closed_why, CONCLAVE_UNIMPLEMENTED);
    keeper_finish(&k);
    assert_false(fake_zk_exists(zk, NODE));
}

static void wrong_options_are_refused(void **state)
{
    struct keeper k;
    static const char *const paths[] = {"", "a", "/", "/a/", "/a//b", "/a/.", NULL};
    struct conclave_persistent_node_options options = options_of(CONCLAVE_EPHEMERAL, "x");
    keeper_connect(&k, *state, 0);
#define REFUSED(o)                                                                                 \
    assert_int_equal(conclave_persistent_node_open(k.c.recipes, o, NULL, NULL, &k.node),           \
                     CONCLAVE_EINVAL)
    REFUSED(NULL);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        options.path = paths[i];
        REFUSED(&options);
    }
    options = options_of(CONCLAVE_PERSISTENT_SEQUENTIAL, "x");
    REFUSED(&options);
    options = options_of(CONCLAVE_EPHEMERAL, "x");
    options.ttl_ms = 1;
    REFUSED(&options);
    options = ttl_options(-1);
    REFUSED(&options);
    options = options_of(CONCLAVE_EPHEMERAL, "x");
    options.size = 0;
    REFUSED(&options);
    options = options_of(CONCLAVE_EPHEMERAL, "x");
    options.data_len = 512 * 1024 + 1;
    REFUSED(&options);
    candidate_finish(&k.c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(E01_create_reply_lost_is_found_again),
        E_TEST(E08_parents_are_made_with_the_acl),
        E_TEST(E18_no_permission_ends_it),
        E_TEST(E27_deleted_node_and_lost_session_bring_it_back),
        EXPIRY_TEST(states_are_told),
        E_TEST(E30_ensemble_that_lost_everything),
        E_TEST(E36_close_in_a_callback),
        E_TEST(E59_client_closed_under_a_waiter),
        E_TEST(E61_a_child_of_fork_may_not_use_it),
        E_TEST(E89_a_node_of_another_is_a_conflict_and_left_alone),
        E_TEST(E91_data_set_without_a_link_are_written_later),
        E_TEST(name_has_guid_and_number_and_stays),
        E_TEST(E03_sequential_create_that_never_arrived_is_repeated_once),
        E_TEST(E05_sequential_create_whose_session_expires_is_made_anew),
        E_TEST(E92_data_and_close_while_the_name_is_made),
        E_TEST(E55_two_keep_one_lasting_node),
        E_TEST(kept_node_stays_and_nodes_with_children_do),
        E_TEST(E35_lasting_node_is_removed_after_a_lost_session),
        E_TEST(touch_is_written_again_and_again),
        E_TEST(touch_of_an_earlier_life_is_written_at_once),
        E_TEST(E59_node_with_a_ttl_ends_with_its_client),
        E_TEST(node_with_a_ttl_that_is_kept_stays_for_it),
        E_TEST(server_without_ttls_ends_it_and_nothing_stays),
        E_TEST(wrong_options_are_refused),
    };
    return RUN_TESTS(tests);
}
