/*
 * Programs that were built with older or newer headers than the library: options, callbacks, requests and results of
 * another length. An older struct ends where a page ends, so that a read or write behind it kills the test.
 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "support/candidate.h"

#include <conclave/group.h>

#include <sys/mman.h>

#define GROUP_PATH "/app/group"

enum { PAGE = 4096 };

struct seen {
    _Atomic int joined;
    _Atomic int closed;
};

static void on_membership(struct conclave_group *group, enum conclave_membership membership,
                          void *ctx)
{
    struct seen *seen = ctx;
    seen->joined = seen->joined || membership == CONCLAVE_MEMBERSHIP_IN;
}

static void on_closed(struct conclave_group *group, int why, void *ctx)
{
    struct seen *seen = ctx;
    seen->closed++;
}

/* The first len bytes, with their size set to that, right before a page that may not be touched. */
static void *at_the_end_of_a_page(const void *bytes, size_t len)
{
    uint8_t *pages =
        mmap(NULL, (size_t)2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + PAGE, PAGE, PROT_NONE), 0);
    uint8_t *at = pages + PAGE - len;
    memcpy(at, bytes, len);
    return at;
}

static void *older(const void *bytes, size_t len)
{
    uint8_t *at = at_the_end_of_a_page(bytes, len);
    memcpy(at, &len, sizeof len);
    return at;
}

static void page_free(void *at)
{
    assert_int_equal(munmap((void *)((uintptr_t)at / PAGE * PAGE), (size_t)2 * PAGE), 0);
}

static void a_callback_at_the_end_is_not_called_for_an_older_struct(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    struct seen seen = {0};
    struct conclave_group *group;
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    struct conclave_group_callbacks callbacks = CONCLAVE_GROUP_CALLBACKS_INIT;
    options.path = GROUP_PATH;
    options.id = "m";
    callbacks.on_membership = on_membership;
    callbacks.on_closed = on_closed;
    void *old_options = older(&options, offsetof(struct conclave_group_options, acl));
    void *old_callbacks = older(&callbacks, offsetof(struct conclave_group_callbacks, on_closed));
    candidate_connect(&c, zk, 0, "c");
    assert_int_equal(conclave_group_open(c.recipes, old_options, old_callbacks, &seen, &group), 0);
    page_free(old_options);
    page_free(old_callbacks);
    EVENTUALLY(seen.joined);
    assert_int_equal(conclave_group_close_wait(group, PATIENCE_MS), 0);
    conclave_group_destroy(group);
    assert_int_equal(seen.closed, 0);
    candidate_finish(&c);
}

static void unknown_members_of_newer_structs_must_be_zero(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    struct seen seen = {0};
    struct conclave_group *group;
    struct {
        struct conclave_group_options known;
        int64_t added;
    } options = {.known = {.size = sizeof options, .path = GROUP_PATH, .id = "m"}};
    struct {
        struct conclave_group_callbacks known;
        void (*on_added)(struct conclave_group *group, int why, void *ctx);
    } callbacks = {.known = {.size = sizeof callbacks, .on_closed = on_closed}};
    candidate_connect(&c, zk, 0, "c");
    options.added = 1;
    assert_int_equal(
        conclave_group_open(c.recipes, &options.known, &callbacks.known, &seen, &group),
        CONCLAVE_EINVAL);
    options.added = 0;
    callbacks.on_added = on_closed;
    assert_int_equal(
        conclave_group_open(c.recipes, &options.known, &callbacks.known, &seen, &group),
        CONCLAVE_EINVAL);
    callbacks.on_added = NULL;
    assert_int_equal(
        conclave_group_open(c.recipes, &options.known, &callbacks.known, &seen, &group), 0);
    assert_int_equal(conclave_group_close_wait(group, PATIENCE_MS), 0);
    conclave_group_destroy(group);
    assert_int_equal(seen.closed, 1);
    candidate_finish(&c);
}

static void requests_of_other_lengths_in_arrays(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    enum { OLD = offsetof(struct conclave_op, linearizable) };
    struct {
        struct conclave_op known;
        int64_t added;
    } newer[2] = {{.known = conclave_op_create("/app", "", 0, CONCLAVE_PERSISTENT)},
                  {.known = conclave_op_create("/app/a", "x", 1, CONCLAVE_PERSISTENT)}};
    struct conclave_op parts[2] = {conclave_op_set("/app", "y", 1, 0),
                                   conclave_op_path(CONCLAVE_OP_DELETE, "/app/a", 0)};
    uint8_t both[2 * OLD];
    candidate_connect(&c, zk, 0, "c");
    newer[0].known.size = newer[1].known.size = sizeof newer[0];
    newer[1].added = 1;
    struct conclave_op op = conclave_op_multi(&newer[0].known, 2);
    assert_int_equal(conclave_call(c.client, &op, NULL), CONCLAVE_EINVAL);
    newer[1].added = 0;
    assert_int_equal(conclave_call(c.client, &op, NULL), 0);
    parts[0].size = parts[1].size = OLD;
    memcpy(both, &parts[0], OLD);
    memcpy(both + OLD, &parts[1], OLD);
    struct conclave_op *old_parts = at_the_end_of_a_page(both, sizeof both);
    op = conclave_op_multi(old_parts, 2);
    struct conclave_op *old_op = older(&op, OLD);
    assert_int_equal(conclave_call(c.client, old_op, NULL), 0);
    assert_false(fake_zk_exists(zk, "/app/a"));
    parts[0].size = sizeof parts[0]; /* the second says another */
    op = conclave_op_multi(parts, 2);
    assert_int_equal(conclave_call(c.client, &op, NULL), CONCLAVE_EINVAL);
    op.size = 0;
    assert_int_equal(conclave_submit(c.client, &op, NULL, NULL), CONCLAVE_EINVAL);
    page_free(old_parts);
    page_free(old_op);
    candidate_finish(&c);
}

static void results_of_other_lengths(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    struct {
        struct conclave_session known;
        int64_t added;
    } newer = {.known = {.size = sizeof newer}, .added = 7};
    candidate_connect(&c, zk, 0, "c");
    struct conclave_session *old_session =
        older(&session, offsetof(struct conclave_session, passwd));
    assert_int_equal(conclave_client_wait_connected(c.client, PATIENCE_MS), 0);
    conclave_client_session(c.client, old_session);
    conclave_client_session(c.client, &newer.known);
    assert_int_equal(old_session->state, CONCLAVE_STATE_CONNECTED);
    assert_int_not_equal(old_session->id, 0);
    assert_int_equal(newer.known.id, old_session->id);
    assert_int_not_equal(newer.known.server[0], 0);
    assert_int_equal(newer.added, 0);
    page_free(old_session);
    candidate_finish(&c);
}

static void retry_policies_of_other_lengths(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    struct fake_hook h = {.op = WIRE_EXISTS, .nth = 1, .action = FAKE_ERROR};
    struct conclave_retry_options policy = CONCLAVE_RETRY_OPTIONS_INIT;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, "/", 0);
    struct {
        struct conclave_retry_options known;
        int64_t added;
    } newer = {.known = CONCLAVE_RETRY_OPTIONS_INIT, .added = 1};
    candidate_connect(&c, zk, 0, "c");
    assert_int_equal(conclave_client_wait_connected(c.client, PATIENCE_MS), 0);
    h.error = CONCLAVE_THROTTLED;
    policy.pause_min_ms = policy.pause_max_ms = 1;
    void *old = older(&policy, offsetof(struct conclave_retry_options, pause_max_ms));
    fake_zk_hook(zk, &h);
    op.retry = old;
    assert_int_equal(conclave_call(c.client, &op, NULL), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    newer.known.size = sizeof newer;
    op.retry = &newer.known;
    assert_int_equal(conclave_call(c.client, &op, NULL), CONCLAVE_EINVAL);
    newer.added = 0;
    assert_int_equal(conclave_call(c.client, &op, NULL), 0);
    newer.known.size = 0;
    assert_int_equal(conclave_call(c.client, &op, NULL), CONCLAVE_EINVAL);
    page_free(old);
    candidate_finish(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(a_callback_at_the_end_is_not_called_for_an_older_struct),
        E_TEST(unknown_members_of_newer_structs_must_be_zero),
        E_TEST(requests_of_other_lengths_in_arrays),
        E_TEST(results_of_other_lengths),
        E_TEST(retry_policies_of_other_lengths),
    };
    return RUN_TESTS(tests);
}
