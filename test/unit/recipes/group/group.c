/* Groups: members that heal themselves, and the view of them. E01, E03, E05, E08, E18, E30, E35 to E37,
 * E55, E57 to E59, E61, E88 to E92. */
#include "support/candidate.h"

#include <conclave/group.h>

#include <sys/wait.h>

#define GROUP "/app/group"

struct party {
    struct candidate c; /* client and recipes; no election */
    struct conclave_group *group;
    const char *id;
    pthread_mutex_t lock; /* guards what follows */
    char log[4096];       /* "+a" joined, "-a" left, "=a" updated */
    char view[512];       /* "a b", with "?" at the end when stale */
    char data[64];        /* of the last update or join */
    int64_t zxid;
    int backwards; /* views with a smaller zxid than one before */
    int views;
    enum conclave_membership membership;
    int closed;
    int closed_why;
    int after_end;
    void (*in_view)(struct party *p);
};

static void party_enter(struct party *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->after_end += p->closed;
}

static void on_change(struct conclave_group *group, enum conclave_group_event event,
                      const struct conclave_member *member, void *ctx)
{
    struct party *p = ctx;
    party_enter(p);
    size_t len = strlen(p->log);
    (void)snprintf(p->log + len, sizeof p->log - len, "%s%c%s", len > 0 ? " " : "", "+-="[event],
                   member -> id);
    if (event != CONCLAVE_GROUP_LEFT) {
        (void)snprintf(p->data, sizeof p->data, "%.*s", (int)member->data_len,
                       (const char *)member->data);
    }
    (void)pthread_mutex_unlock(&p->lock);
}

static void on_view(struct conclave_group *group, const struct conclave_group_view *view, void *ctx)
{
    struct party *p = ctx;
    party_enter(p);
    p->view[0] = '\0';
    for (size_t i = 0; i < view->count; i++) {
        size_t len = strlen(p->view);
        (void)snprintf(p->view + len, sizeof p->view - len, "%s%s%s", i > 0 ? " " : "",
                       view->members[i]->id, view->members[i]->self ? "*" : "");
    }
    (void)strcat(p->view, view->stale ? "?" : "");
    p->backwards += view->zxid < p->zxid;
    p->zxid = view->zxid;
    p->views++;
    (void)pthread_mutex_unlock(&p->lock);
    if (p->in_view != NULL) {
        p->in_view(p);
    }
}

static void on_membership(struct conclave_group *group, enum conclave_membership membership,
                          void *ctx)
{
    struct party *p = ctx;
    party_enter(p);
    p->membership = membership;
    (void)pthread_mutex_unlock(&p->lock);
}

static void on_closed(struct conclave_group *group, int why, void *ctx)
{
    struct party *p = ctx;
    party_enter(p);
    p->closed++;
    p->closed_why = why;
    (void)pthread_mutex_unlock(&p->lock);
}

static const struct conclave_group_callbacks callbacks = {sizeof callbacks, on_change, on_view,
                                                          on_membership, on_closed};

static bool view_is(struct party *p, const char *view)
{
    (void)pthread_mutex_lock(&p->lock);
    bool same = strcmp(p->view, view) == 0;
    (void)pthread_mutex_unlock(&p->lock);
    return same;
}

static bool log_is(struct party *p, const char *log)
{
    (void)pthread_mutex_lock(&p->lock);
    bool same = strcmp(p->log, log) == 0;
    (void)pthread_mutex_unlock(&p->lock);
    return same;
}

static bool data_is(struct party *p, const char *data)
{
    (void)pthread_mutex_lock(&p->lock);
    bool same = strcmp(p->data, data) == 0;
    (void)pthread_mutex_unlock(&p->lock);
    return same;
}

static int party_get(struct party *p, const int *field)
{
    (void)pthread_mutex_lock(&p->lock);
    int value = *field;
    (void)pthread_mutex_unlock(&p->lock);
    return value;
}

static struct conclave_group_options options_of(const char *id)
{
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    options.path = GROUP;
    options.id = id;
    options.data = id == NULL ? NULL : "data";
    options.data_len = id == NULL ? 0 : 4;
    return options;
}

static void party_open(struct party *p, const struct conclave_group_options *options)
{
    p->id = options->id;
    (void)pthread_mutex_init(&p->lock, NULL);
    assert_int_equal(conclave_group_open(p->c.recipes, options, &callbacks, p, &p->group), 0);
}

static void party_connect(struct party *p, struct fake_zk *zk, int endpoint)
{
    memset(p, 0, sizeof *p);
    candidate_connect(&p->c, zk, endpoint, "x");
}

static void party_join(struct party *p, struct fake_zk *zk, int endpoint, const char *id)
{
    struct conclave_group_options options = options_of(id);
    party_connect(p, zk, endpoint);
    party_open(p, &options);
}

static void party_close(struct party *p)
{
    assert_int_equal(conclave_group_close_wait(p->group, PATIENCE_MS), 0);
    assert_int_equal(p->closed, 1);
    assert_int_equal(p->after_end, 0);
    assert_int_equal(p->backwards, 0);
    conclave_group_destroy(p->group);
}

static void party_finish(struct party *p)
{
    party_close(p);
    candidate_finish(&p->c);
    assert_int_equal(p->after_end, 0);
    (void)pthread_mutex_destroy(&p->lock);
}

#define IN(p) (conclave_group_membership((p)->group) == CONCLAVE_MEMBERSHIP_IN)
#define CONFLICT(p) (conclave_group_membership((p)->group) == CONCLAVE_MEMBERSHIP_CONFLICT)

static void call_at(struct fake_zk *zk, int32_t op, int nth,
                    void (*fn)(struct fake_zk *zk, void *ctx), void *ctx)
{
    struct fake_hook h = {.endpoint = 0,
                          .op = op,
                          .path = GROUP "/a",
                          .nth = nth,
                          .action = FAKE_CALL,
                          .fn = fn,
                          .ctx = ctx};
    fake_zk_hook(zk, &h);
}

static void make_group(struct fake_zk *zk)
{
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, GROUP, "", 0);
}

/* --- the node ---------------------------------------------------------------------- */

static void E01_create_reply_lost_is_found_again(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    make_group(zk);
    hook(zk, 0, WIRE_CREATE, "/a", 1, FAKE_DROP_REPLY);
    party_join(&a, zk, 0, "a");
    assert_int_equal(conclave_group_wait_joined(a.group, PATIENCE_MS), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 1);
    assert_int_equal(fake_zk_owner(zk, GROUP "/a"), candidate_session(&a.c));
    party_finish(&a);
    assert_false(fake_zk_exists(zk, GROUP "/a"));
}

static void E03_create_that_never_arrived_is_retried_once(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    make_group(zk);
    hook(zk, 0, WIRE_CREATE, "/a", 1, FAKE_CUT_BEFORE);
    party_join(&a, zk, 0, "a");
    assert_int_equal(conclave_group_wait_joined(a.group, PATIENCE_MS), 0);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 2); /* the lost one, and one */
    party_finish(&a);
}

static void lose_link(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, 0, FAKE_REFUSE);
}

/* The incarnation of a member's node. */
static void incarnation_of(struct fake_zk *zk, const char *path, char buf[256])
{
    assert_true(fake_zk_data(zk, path, buf, 256));
    char *end = strchr(buf, '\n');
    assert_non_null(end);
    *end = '\0';
    assert_memory_equal(buf, "conclave-member ", 16);
    memmove(buf, buf + 16, strlen(buf + 16) + 1);
}

static void E05_ghost_of_an_expired_session_is_no_membership(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    char data[256];
    make_group(zk);
    call_at(zk, WIRE_CREATE, 1, lose_link, NULL);
    party_join(&a, zk, 0, "a");
    EVENTUALLY(fake_zk_exists(zk, GROUP "/a"));
    assert_true(fake_zk_data(zk, GROUP "/a", data, sizeof data));
    fake_zk_expire(zk, 0);
    assert_false(fake_zk_exists(zk, GROUP "/a"));
    fake_zk_create(zk, GROUP "/a", data, 0x99); /* and still to be seen, as on a server that lags */
    int64_t ghost = fake_zk_czxid(zk, GROUP "/a");
    fake_zk_link(zk, 0, FAKE_UP);
    assert_int_equal(conclave_group_wait_joined(a.group, PATIENCE_MS), 0);
    assert_int_equal(fake_zk_owner(zk, GROUP "/a"), candidate_session(&a.c));
    assert_true(fake_zk_czxid(zk, GROUP "/a") > ghost);
    party_finish(&a);
}

static void E08_parents_are_made_with_the_acl(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    char acl[256];
    struct conclave_acl mine = {CONCLAVE_PERM_ALL, "ip", "127.0.0.1"};
    struct conclave_group_options options = options_of("a");
    static const char *const made[] = {"/app", GROUP, GROUP "/a"};
    options.acl = &mine;
    options.acl_count = 1;
    party_connect(&a, zk, 0);
    party_open(&a, &options);
    assert_int_equal(conclave_group_wait_joined(a.group, PATIENCE_MS), 0);
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        assert_true(fake_zk_acl(zk, made[i], acl));
        assert_string_equal(acl, "ip:127.0.0.1:31");
    }
    party_finish(&a);
}

static void E18_no_permission_ends_it_without_a_storm(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    struct fake_hook h = {.op = WIRE_CREATE,
                          .path = GROUP "/a",
                          .nth = 1,
                          .action = FAKE_ERROR,
                          .error = CONCLAVE_NO_AUTH};
    make_group(zk);
    fake_zk_hook(zk, &h);
    party_join(&a, zk, 0, "a");
    EVENTUALLY(party_get(&a, &a.closed) == 1);
    assert_int_equal(a.closed_why, CONCLAVE_NO_AUTH);
    assert_int_equal(conclave_group_wait_joined(a.group, 0), CONCLAVE_NO_AUTH);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 1);
    party_finish(&a);
}

static void E18_data_refused_takes_the_node_away(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    struct fake_hook h = {.op = WIRE_SET_DATA,
                          .path = GROUP "/a",
                          .nth = 1,
                          .action = FAKE_ERROR,
                          .error = CONCLAVE_QUOTA_EXCEEDED};
    party_join(&a, zk, 0, "a");
    assert_int_equal(conclave_group_wait_joined(a.group, PATIENCE_MS), 0);
    fake_zk_hook(zk, &h);
    assert_int_equal(conclave_group_set_data(a.group, "more", 4), 0);
    EVENTUALLY(party_get(&a, &a.closed) == 1);
    assert_int_equal(a.closed_why, CONCLAVE_QUOTA_EXCEEDED);
    assert_false(fake_zk_exists(zk, GROUP "/a"));
    party_finish(&a);
}

static void E27_node_deleted_by_an_operator_comes_back(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    party_join(&a, zk, 0, "a");
    EVENTUALLY(view_is(&a, "a*"));
    int64_t first = fake_zk_czxid(zk, GROUP "/a");
    fake_zk_delete(zk, GROUP "/a");
    EVENTUALLY(fake_zk_czxid(zk, GROUP "/a") > first);
    EVENTUALLY(IN(&a));
    fake_zk_count_reset(zk);
    int64_t from = now_ns();
    for (int i = 0; i < 3; i++) { /* and again: it does not race with the one who deletes */
        fake_zk_delete(zk, GROUP "/a");
        sleep_ms(50);
    }
    size_t made = fake_zk_count(zk, 0, WIRE_CREATE2);
    assert_true((int64_t)made <= 1 + (now_ns() - from) / 1000000000); /* one each second */
    EVENTUALLY(fake_zk_exists(zk, GROUP "/a"));
    party_finish(&a);
}

static void E30_ensemble_that_lost_everything(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    party_join(&a, zk, 0, "a");
    EVENTUALLY(view_is(&a, "a*"));
    fake_zk_reset(zk);
    EVENTUALLY(fake_zk_exists(zk, GROUP "/a"));
    EVENTUALLY(IN(&a));
    EVENTUALLY(view_is(&a, "a*"));
    a.backwards = 0; /* another ensemble counts from the start */
    party_finish(&a);
}

static void E35_close_at_every_request_leaves_nothing(void **state)
{
    struct fake_zk *zk = *state;
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_AFTER};
    for (int step = 1; step <= 6; step++) {
        for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
            struct party a;
            hook(zk, 0, FAKE_ANY_OP, NULL, step, actions[i]);
            party_join(&a, zk, 0, "a");
            sleep_ms(step); /* anywhere */
            party_finish(&a);
            EVENTUALLY(fake_zk_ephemerals(zk) == 0);
            fake_zk_hooks_clear(zk);
        }
    }
}

static void close_inside(struct party *p)
{
    conclave_group_close(p->group);
    assert_int_equal(conclave_group_close_wait(p->group, 10), CONCLAVE_EDEADLK);
    assert_int_equal(conclave_group_wait_joined(p->group, 10), CONCLAVE_EDEADLK);
}

static void E36_close_in_a_callback(void **state)
{
    struct party a;
    struct conclave_group_options options = options_of("a");
    party_connect(&a, *state, 0);
    a.in_view = close_inside;
    party_open(&a, &options);
    EVENTUALLY(party_get(&a, &a.closed) == 1);
    party_finish(&a);
    assert_int_equal(fake_zk_ephemerals(*state), 0);
}

static void E37_events_after_the_end_reach_nobody(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    party_join(&a, zk, 0, "a");
    EVENTUALLY(view_is(&a, "a*"));
    party_close(&a);
    fake_zk_create(zk, GROUP "/z", "", 0x99);
    fake_zk_delete(zk, GROUP "/z");
    fake_zk_expire(zk, 0);
    sleep_ms(50);
    candidate_finish(&a.c);
    assert_int_equal(a.after_end, 0);
}

static void E55_two_members_of_one_client_are_independent(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    struct party b;
    struct conclave_group_options options = options_of("b");
    party_join(&a, zk, 0, "a");
    memset(&b, 0, sizeof b);
    candidate_share(&b.c, &a.c, "b");
    party_open(&b, &options);
    EVENTUALLY(view_is(&a, "a* b"));
    EVENTUALLY(view_is(&b, "a b*"));
    party_close(&b);
    EVENTUALLY(view_is(&a, "a*"));
    assert_true(IN(&a));
    party_finish(&a);
}

static void E55_one_id_twice_on_one_client_is_a_conflict(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    struct party b;
    struct conclave_group_options options = options_of("a");
    party_join(&a, zk, 0, "a");
    assert_int_equal(conclave_group_wait_joined(a.group, PATIENCE_MS), 0);
    memset(&b, 0, sizeof b);
    candidate_share(&b.c, &a.c, "b");
    party_open(&b, &options);
    assert_int_equal(conclave_group_wait_joined(b.group, 100), CONCLAVE_ECONFLICT);
    assert_true(IN(&a));
    party_close(&b);
    assert_true(fake_zk_exists(zk, GROUP "/a"));
    party_finish(&a);
}

static void E57_read_only_server_admits_nobody(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    fake_zk_read_only(zk, 0, true);
    party_join(&a, zk, 0, "a");
    assert_int_equal(conclave_group_wait_joined(a.group, 100), CONCLAVE_ETIMEDOUT);
    fake_zk_read_only(zk, 0, false);
    assert_int_equal(conclave_group_wait_joined(a.group, PATIENCE_MS), 0);
    party_finish(&a);
}

static void E58_refused_credentials_end_it(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    fake_zk_refuse_auth(zk, true);
    party_connect(&a, zk, 0);
    assert_int_equal(conclave_client_add_auth(a.c.client, "digest", "u:p", 3), 0);
    struct conclave_group_options options = options_of("a");
    int error = conclave_group_open(a.c.recipes, &options, &callbacks, &a, &a.group);
    if (error != 0) { /* it was refused already */
        assert_int_equal(error, CONCLAVE_ECLOSED);
        candidate_finish(&a.c);
        return;
    }
    (void)pthread_mutex_init(&a.lock, NULL);
    assert_int_equal(conclave_group_wait_joined(a.group, PATIENCE_MS), CONCLAVE_AUTH_FAILED);
    party_finish(&a);
}

static void *wait_long(void *arg)
{
    struct party *p = arg;
    return (void *)(intptr_t)conclave_group_wait_joined(p->group, CONCLAVE_FOREVER);
}

static void E59_client_closed_under_a_waiter(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    pthread_t thread;
    void *result;
    fake_zk_link(zk, 0, FAKE_REFUSE);
    party_join(&a, zk, 0, "a");
    assert_int_equal(pthread_create(&thread, NULL, wait_long, &a), 0);
    sleep_ms(30);
    conclave_client_close(a.c.client, 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_int_equal((int)(intptr_t)result, CONCLAVE_ECLOSED);
    EVENTUALLY(party_get(&a, &a.closed) == 1);
    party_close(&a);
    conclave_recipes_destroy(a.c.recipes);
}

static void E61_a_child_of_fork_may_not_use_it(void **state)
{
    struct party a;
    int status;
    party_join(&a, *state, 0, "a");
    assert_int_equal(conclave_group_wait_joined(a.group, PATIENCE_MS), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool right = conclave_group_wait_joined(a.group, 10) == CONCLAVE_EFORK &&
                     conclave_group_set_data(a.group, "x", 1) == CONCLAVE_EFORK &&
                     conclave_group_close_wait(a.group, 10) == CONCLAVE_EFORK;
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(IN(&a));
    party_finish(&a);
}

/* --- ghosts and conflicts ------------------------------------------------------------- */

static void E88_own_ghost_is_replaced_without_a_gap(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    struct party watcher;
    char data[256];
    char node[256];
    party_join(&watcher, zk, 1, NULL);
    party_join(&a, zk, 0, "a");
    EVENTUALLY(view_is(&watcher, "a"));
    assert_true(fake_zk_data(zk, GROUP "/a", data, sizeof data));
    assert_int_equal(fake_zk_count(zk, 0, WIRE_MULTI), 0);

    fake_zk_link(zk, 0, FAKE_REFUSE);
    fake_zk_expire(zk, candidate_session(&a.c));
    assert_false(fake_zk_exists(zk, GROUP "/a"));
    EVENTUALLY(log_is(&watcher, "+a -a"));
    fake_zk_create(zk, GROUP "/a", data, 0x99); /* still seen of the earlier session */
    int64_t ghost = fake_zk_czxid(zk, GROUP "/a");
    EVENTUALLY(log_is(&watcher, "+a -a +a"));
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(fake_zk_czxid(zk, GROUP "/a") > ghost);
    EVENTUALLY(IN(&a));
    assert_int_equal(fake_zk_count(zk, 0, WIRE_MULTI), 1);
    EVENTUALLY(log_is(&watcher, "+a -a +a -a +a")); /* one new life; in the view it never lacked */
    assert_true(view_is(&watcher, "a"));
    assert_int_equal(fake_zk_owner(zk, GROUP "/a"), candidate_session(&a.c));
    incarnation_of(zk, GROUP "/a", node);
    STAYS(fake_zk_exists(zk, GROUP "/a"), SESSION_MS + 100); /* the ghost's end does it no harm */
    party_finish(&a);
    party_finish(&watcher);
}

static void E88_reply_of_the_replacement_lost(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    char data[256];
    party_join(&a, zk, 0, "a");
    EVENTUALLY(IN(&a));
    assert_true(fake_zk_data(zk, GROUP "/a", data, sizeof data));
    fake_zk_link(zk, 0, FAKE_REFUSE);
    fake_zk_expire(zk, candidate_session(&a.c));
    assert_false(fake_zk_exists(zk, GROUP "/a"));
    fake_zk_create(zk, GROUP "/a", data, 0x99);
    hook(zk, 0, WIRE_MULTI, "/a", 1, FAKE_DROP_REPLY);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(fake_zk_hooks_left(zk) == 0 && IN(&a));
    assert_int_equal(fake_zk_count(zk, 0, WIRE_MULTI), 1);
    assert_int_equal(fake_zk_owner(zk, GROUP "/a"), candidate_session(&a.c));
    party_finish(&a);
}

static void E88_a_restarted_program_that_kept_its_incarnation(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    struct conclave_group_options options = options_of("a");
    make_group(zk);
    fake_zk_create(zk, GROUP "/a", "conclave-member mine\nold", 0x99);
    options.incarnation = "mine";
    party_connect(&a, zk, 0);
    party_open(&a, &options);
    assert_int_equal(conclave_group_wait_joined(a.group, PATIENCE_MS), 0);
    assert_int_equal(fake_zk_owner(zk, GROUP "/a"), candidate_session(&a.c));
    party_finish(&a);
}

static void E89_an_id_in_use_is_a_conflict_and_left_alone(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    struct party b;
    party_join(&a, zk, 0, "a");
    assert_int_equal(conclave_group_wait_joined(a.group, PATIENCE_MS), 0);
    int64_t first = fake_zk_czxid(zk, GROUP "/a");
    party_join(&b, zk, 1, "a");
    assert_int_equal(conclave_group_wait_joined(b.group, 200), CONCLAVE_ECONFLICT);
    EVENTUALLY(party_get(&b, (int *)&b.membership) == CONCLAVE_MEMBERSHIP_CONFLICT);
    assert_int_equal(conclave_group_set_data(b.group, "b's", 3), 0);
    fake_zk_cut(zk, 1); /* also after a new link */
    EVENTUALLY(CONFLICT(&b));
    fake_zk_expire(zk, candidate_session(&b.c)); /* and in a new session */
    STAYS(fake_zk_czxid(zk, GROUP "/a") == first && IN(&a), 200);
    assert_int_equal(fake_zk_count(zk, 1, WIRE_MULTI), 0);
    assert_int_equal(fake_zk_count(zk, 1, WIRE_SET_DATA), 0);
    party_finish(&a); /* now it is b's turn */
    assert_int_equal(conclave_group_wait_joined(b.group, PATIENCE_MS), 0);
    EVENTUALLY(data_is(&b, "b's"));
    party_finish(&b);
}

static void E89_a_conflict_that_closes_leaves_the_other_alone(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    make_group(zk);
    fake_zk_create(zk, GROUP "/a", "somebody", 0x99);
    party_join(&a, zk, 0, "a");
    EVENTUALLY(CONFLICT(&a));
    party_finish(&a);
    assert_true(fake_zk_exists(zk, GROUP "/a"));
}

/* --- the view ------------------------------------------------------------------------ */

static void members_come_and_go(struct fake_zk *zk)
{
    struct party watcher;
    struct party a;
    struct party b;
    party_join(&watcher, zk, 2, NULL);
    EVENTUALLY(party_get(&watcher, &watcher.views) == 1 && view_is(&watcher, ""));
    party_join(&a, zk, 0, "a");
    EVENTUALLY(view_is(&watcher, "a"));
    party_join(&b, zk, 1, "b");
    EVENTUALLY(view_is(&watcher, "a b"));
    EVENTUALLY(view_is(&a, "a* b"));
    assert_true(data_is(&watcher, "data"));
    assert_int_equal(conclave_group_set_data(b.group, "new", 3), 0);
    EVENTUALLY(log_is(&watcher, "+a +b =b"));
    assert_true(data_is(&watcher, "new"));
    party_finish(&a);
    EVENTUALLY(view_is(&watcher, "b"));
    fake_zk_expire(zk, candidate_session(&b.c));
    EVENTUALLY(log_is(&watcher, "+a +b =b -a -b +b"));
    party_finish(&b);
    EVENTUALLY(view_is(&watcher, ""));
    fake_zk_delete(zk, GROUP); /* as a container would go */
    fake_zk_create(zk, GROUP, "", 0);
    fake_zk_create(zk, GROUP "/z", "", 0x99);
    EVENTUALLY(view_is(&watcher, "z"));
    party_finish(&watcher);
    assert_int_equal(fake_zk_ephemerals(zk), 1); /* z */
}

static void view_by_a_persistent_watch(void **state)
{
    members_come_and_go(*state);
    assert_true(fake_zk_count(*state, 2, WIRE_ADD_WATCH) == 1);
}

static void view_by_one_shot_watches(void **state)
{
    for (int i = 0; i < FAKE_ENDPOINTS; i++) {
        fake_zk_old(*state, i, true);
    }
    members_come_and_go(*state);
}

static void view_on_a_server_that_ends_the_link_at_unknown_requests(void **state)
{
    struct fake_zk *zk = *state;
    struct party watcher;
    make_group(zk);
    hook(zk, 0, WIRE_ADD_WATCH, NULL, 1, FAKE_CUT_BEFORE);
    hook(zk, 0, WIRE_ADD_WATCH, NULL, 1, FAKE_CUT_BEFORE);
    party_join(&watcher, zk, 0, NULL);
    EVENTUALLY(view_is(&watcher, "") && party_get(&watcher, &watcher.views) > 0);
    fake_zk_create(zk, GROUP "/z", "", 0x99);
    EVENTUALLY(view_is(&watcher, "z"));
    assert_int_equal(fake_zk_count(zk, 0, WIRE_ADD_WATCH), 2);
    party_finish(&watcher);
}

static void E90_outage_makes_the_view_stale_and_removes_nobody(void **state)
{
    struct fake_zk *zk = *state;
    struct party watcher;
    make_group(zk);
    fake_zk_create(zk, GROUP "/a", "", 0x99);
    fake_zk_create(zk, GROUP "/b", "", 0x99);
    fake_zk_create(zk, GROUP "/c", "", 0x99);
    party_join(&watcher, zk, 0, NULL);
    EVENTUALLY(view_is(&watcher, "a b c"));
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(view_is(&watcher, "a b c?"));
    sleep_ms(EXPIRY_SESSION_MS + 100); /* longer than its session */
    assert_true(view_is(&watcher, "a b c?"));
    assert_true(log_is(&watcher, "+a +b +c"));
    fake_zk_delete(zk, GROUP "/b");
    fake_zk_create(zk, GROUP "/d", "", 0x99);
    fake_zk_delete(zk, GROUP "/c");
    fake_zk_create(zk, GROUP "/c", "", 0x98); /* another life */
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(view_is(&watcher, "a c d"));
    assert_true(log_is(&watcher, "+a +b +c -b -c +c +d")); /* the difference, no more */
    party_finish(&watcher);
}

static void E91_data_set_while_suspended_is_applied_later(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    struct party watcher;
    party_join(&watcher, zk, 1, NULL);
    party_join(&a, zk, 0, "a");
    EVENTUALLY(data_is(&watcher, "data"));
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(conclave_group_membership(a.group) == CONCLAVE_MEMBERSHIP_UNSURE);
    assert_int_equal(conclave_group_set_data(a.group, "first", 5), 0);
    assert_int_equal(conclave_group_set_data(a.group, "later", 5), 0);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(data_is(&watcher, "later"));
    assert_true(log_is(&watcher, "+a =a"));
    fake_zk_write(zk, GROUP "/a", "not a's"); /* data by others do not stay */
    EVENTUALLY(fake_zk_version(zk, GROUP "/a") >= 3);
    EVENTUALLY(data_is(&watcher, "later"));
    hook(zk, 0, WIRE_SET_DATA, "/a", 1, FAKE_DROP_REPLY);
    assert_int_equal(conclave_group_set_data(a.group, "last", 4), 0);
    EVENTUALLY(data_is(&watcher, "last"));
    EVENTUALLY(IN(&a));
    party_finish(&a);
    party_finish(&watcher);
}

static void E92_leave_while_the_create_is_in_flight(void **state)
{
    struct fake_zk *zk = *state;
    make_group(zk);
    for (int lost = 0; lost < 2; lost++) {
        struct party a;
        fake_zk_hold(zk, 0, WIRE_CREATE2);
        party_join(&a, zk, 0, "a");
        EVENTUALLY(fake_zk_holds(zk, 0));
        conclave_group_close(a.group);
        if (lost == 1) {
            hook(zk, 0, WIRE_CREATE, "/a", 1, FAKE_DROP_REPLY);
        }
        fake_zk_release(zk, 0);
        EVENTUALLY(party_get(&a, &a.closed) == 1);
        assert_int_equal(fake_zk_count(zk, 0, WIRE_CREATE2), 1); /* it was made */
        assert_false(fake_zk_exists(zk, GROUP "/a"));
        assert_int_equal(fake_zk_hooks_left(zk), 0);
        party_finish(&a);
        fake_zk_count_reset(zk);
    }
}

static void burst_is_told_once_with_a_debounce(void **state)
{
    struct fake_zk *zk = *state;
    struct party watcher;
    struct conclave_group_options options = options_of(NULL);
    char path[64];
    make_group(zk);
    options.debounce_ms = 200;
    party_connect(&watcher, zk, 0);
    party_open(&watcher, &options);
    EVENTUALLY(party_get(&watcher, &watcher.views) == 1);
    for (int i = 0; i < 8; i++) {
        (void)snprintf(path, sizeof path, GROUP "/%d", i);
        fake_zk_create(zk, path, "", 0x99);
        sleep_ms(2);
    }
    EVENTUALLY(view_is(&watcher, "0 1 2 3 4 5 6 7"));
    assert_int_equal(party_get(&watcher, &watcher.views), 2);
    party_finish(&watcher);
}

static void list_without_a_handle(void **state)
{
    struct fake_zk *zk = *state;
    struct party a;
    struct conclave_member **list;
    size_t count;
    party_join(&a, zk, 0, "a");
    assert_int_equal(conclave_group_members(a.c.recipes, "/nowhere", PATIENCE_MS, &list, &count),
                     0);
    assert_int_equal(count, 0);
    conclave_members_free(list, count);
    EVENTUALLY(fake_zk_watches(zk) == 2); /* a's own: on its node, and on the group */
    assert_int_equal(conclave_group_members(a.c.recipes, GROUP, PATIENCE_MS, &list, &count), 0);
    assert_int_equal(count, 1);
    assert_string_equal(list[0]->id, "a");
    assert_memory_equal(list[0]->data, "data", 4);
    assert_int_equal(list[0]->data_len, 4);
    assert_int_equal(list[0]->token.czxid, fake_zk_czxid(zk, GROUP "/a"));
    conclave_members_free(list, count);
    assert_int_equal(fake_zk_watches(zk), 2); /* none is left behind */
    party_finish(&a);
}

static void wrong_options_are_refused(void **state)
{
    struct party a;
    static const char *const bad[] = {"", "/", ".", "..", "a/b", "a\nb"};
    party_connect(&a, *state, 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct conclave_group_options options = options_of(bad[i]);
        assert_int_equal(conclave_group_open(a.c.recipes, &options, NULL, NULL, &a.group),
                         CONCLAVE_EINVAL);
        options = options_of("a");
        options.path = i == 1 ? "/" : bad[i];
        assert_int_equal(conclave_group_open(a.c.recipes, &options, NULL, NULL, &a.group),
                         CONCLAVE_EINVAL);
    }
    struct conclave_group_options options = options_of("a");
    options.incarnation = "two\nlines";
    assert_int_equal(conclave_group_open(a.c.recipes, &options, NULL, NULL, &a.group),
                     CONCLAVE_EINVAL);
    candidate_finish(&a.c);
}

/* --- without threads -------------------------------------------------------------------- */

static void in_a_loop_without_threads(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options client_options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_group_options options = options_of("a");
    struct party a;
    memset(&a, 0, sizeof a);
    (void)pthread_mutex_init(&a.lock, NULL);
    client_options.servers = fake_zk_address(zk, 0);
    client_options.session_timeout_ms = usual_session_ms;
    assert_int_equal(conclave_client_open(&client_options, &a.c.client), 0);
    assert_int_equal(conclave_recipes_open(a.c.client, &a.c.recipes), 0);
    assert_int_equal(conclave_group_open(a.c.recipes, &options, &callbacks, &a, &a.group), 0);
    for (int i = 0; i < PATIENCE_MS && !view_is(&a, "a*"); i++) {
        (void)conclave_client_dispatch(a.c.client);
        sleep_ms(1);
    }
    assert_true(view_is(&a, "a*"));
    party_close(&a); /* dispatches by itself */
    conclave_recipes_destroy(a.c.recipes);
    conclave_client_close(a.c.client, 1000);
    assert_false(fake_zk_exists(zk, GROUP "/a"));
}

static void an_observer_without_callbacks_sees_nothing_and_closes(void **state)
{
    struct candidate c;
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    struct conclave_group *group;
    candidate_connect(&c, *state, 0, "x");
    options.path = "/app/group";
    assert_int_equal(conclave_group_open(c.recipes, &options, NULL, NULL, &group), 0);
    assert_int_equal(conclave_group_membership(group), CONCLAVE_MEMBERSHIP_OUT);
    assert_int_equal(conclave_group_close_wait(group, PATIENCE_MS), 0);
    conclave_group_destroy(group);
    candidate_finish(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(an_observer_without_callbacks_sees_nothing_and_closes),
        E_TEST(E01_create_reply_lost_is_found_again),
        E_TEST(E03_create_that_never_arrived_is_retried_once),
        E_TEST(E05_ghost_of_an_expired_session_is_no_membership),
        E_TEST(E08_parents_are_made_with_the_acl),
        E_TEST(E18_no_permission_ends_it_without_a_storm),
        E_TEST(E18_data_refused_takes_the_node_away),
        E_TEST(E27_node_deleted_by_an_operator_comes_back),
        E_TEST(E30_ensemble_that_lost_everything),
        E_TEST(E35_close_at_every_request_leaves_nothing),
        E_TEST(E36_close_in_a_callback),
        E_TEST(E37_events_after_the_end_reach_nobody),
        E_TEST(E55_two_members_of_one_client_are_independent),
        E_TEST(E55_one_id_twice_on_one_client_is_a_conflict),
        E_TEST(E57_read_only_server_admits_nobody),
        E_TEST(E58_refused_credentials_end_it),
        E_TEST(E59_client_closed_under_a_waiter),
        E_TEST(E61_a_child_of_fork_may_not_use_it),
        E_TEST(E88_own_ghost_is_replaced_without_a_gap),
        E_TEST(E88_reply_of_the_replacement_lost),
        E_TEST(E88_a_restarted_program_that_kept_its_incarnation),
        E_TEST(E89_an_id_in_use_is_a_conflict_and_left_alone),
        E_TEST(E89_a_conflict_that_closes_leaves_the_other_alone),
        E_TEST(view_by_a_persistent_watch),
        E_TEST(view_by_one_shot_watches),
        E_TEST(view_on_a_server_that_ends_the_link_at_unknown_requests),
        EXPIRY_TEST(E90_outage_makes_the_view_stale_and_removes_nobody),
        E_TEST(E91_data_set_while_suspended_is_applied_later),
        E_TEST(E92_leave_while_the_create_is_in_flight),
        E_TEST(burst_is_told_once_with_a_debounce),
        E_TEST(list_without_a_handle),
        E_TEST(wrong_options_are_refused),
        E_TEST(in_a_loop_without_threads),
    };
    return RUN_TESTS(tests);
}
