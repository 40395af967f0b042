/* Several nodes of a configuration written in one change: all or none, once, whatever is lost. */
#include "support/candidate.h"

#include <conclave/config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH "/app/config"
#define COUNT 3

/* The same text for all of them. */
static int put(struct candidate *c, const char *text, const int32_t expected[COUNT], int64_t *mzxid)
{
    static const char *const paths[COUNT] = {PATH "/a", PATH "/b", PATH "/dir/c"};
    struct conclave_config_entry entries[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        entries[i] = (struct conclave_config_entry){sizeof entries[i], paths[i], text, strlen(text),
                                                    expected[i]};
    }
    return conclave_config_put_many(c->recipes, entries, COUNT, PATIENCE_MS, mzxid);
}

static const int32_t any[COUNT] = {CONCLAVE_CONFIG_ANY, CONCLAVE_CONFIG_ANY, CONCLAVE_CONFIG_ANY};
static const int32_t absent[COUNT] = {CONCLAVE_CONFIG_ABSENT, CONCLAVE_CONFIG_ABSENT,
                                      CONCLAVE_CONFIG_ABSENT};

static void all_are(struct fake_zk *zk, const char *text, int32_t version)
{
    static const char *const paths[COUNT] = {PATH "/a", PATH "/b", PATH "/dir/c"};
    char data[64];
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(fake_zk_data(zk, paths[i], data, sizeof data));
        assert_string_equal(data, text);
        assert_int_equal(fake_zk_version(zk, paths[i]), version);
    }
}

static void all_or_none_by_version(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    int64_t first = 0;
    int64_t second = 0;
    int32_t zero[COUNT] = {0, 0, 0};
    candidate_connect(&c, zk, 0, "c");
    assert_int_equal(put(&c, "none", zero, NULL), CONCLAVE_NO_NODE);
    assert_int_equal(put(&c, "one", absent, &first), 0);
    all_are(zk, "one", 0);
    assert_int_equal(fake_zk_czxid(zk, PATH "/a"), first);
    assert_int_equal(fake_zk_czxid(zk, PATH "/dir/c"), first);
    assert_int_equal(put(&c, "again", absent, NULL), CONCLAVE_NODE_EXISTS);
    zero[2] = 1;
    assert_int_equal(put(&c, "wrong", zero, NULL), CONCLAVE_BAD_VERSION);
    zero[2] = -1;
    assert_int_equal(put(&c, "wrong", zero, NULL), CONCLAVE_ESEQWRAP);
    all_are(zk, "one", 0);
    zero[2] = 0;
    assert_int_equal(put(&c, "two", zero, &second), 0);
    assert_true(second > first);
    all_are(zk, "two", 1);
    fake_zk_delete(zk, PATH "/b");
    assert_int_equal(put(&c, "three", any, NULL), 0);
    assert_int_equal(fake_zk_version(zk, PATH "/a"), 2);
    assert_int_equal(fake_zk_version(zk, PATH "/b"), 0);
    candidate_finish(&c);
}

static void whatever_is_lost_it_is_done_once(void **state)
{
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_BEFORE,
                                               FAKE_EXPIRE_AFTER};
    struct fake_zk *zk = *state;
    struct candidate c;
    candidate_connect(&c, zk, 0, "c");
    assert_int_equal(put(&c, "0", any, NULL), 0);
    for (int32_t i = 0; i < 4; i++) {
        const int32_t expected[COUNT] = {i, i, i};
        char text[8];
        int64_t mzxid = 0;
        (void)snprintf(text, sizeof text, "%d", (int)i + 1);
        hook(zk, 0, WIRE_MULTI, NULL, 1, actions[i]);
        assert_int_equal(put(&c, text, expected, &mzxid), 0);
        assert_int_equal(fake_zk_hooks_left(zk), 0);
        all_are(zk, text, i + 1);
        assert_true(mzxid > 0);
    }
    for (int nth = 1; nth <= COUNT; nth++) { /* of the looks before it */
        char text[8];
        (void)snprintf(text, sizeof text, "r%d", nth);
        hook(zk, 0, WIRE_GET_DATA, NULL, nth, FAKE_CUT_BEFORE);
        assert_int_equal(put(&c, text, any, NULL), 0);
        all_are(zk, text, 4 + nth);
    }
    candidate_finish(&c);
}

static void write_theirs(struct fake_zk *zk, void *ctx)
{
    fake_zk_write_locked(zk, PATH "/b", "theirs");
}

static void another_writer_in_between_is_not_guessed_over(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    const int32_t zero[COUNT] = {0, 0, 0};
    char data[64];
    struct fake_hook between = {
        .endpoint = 0, .op = WIRE_SYNC, .nth = 1, .action = FAKE_CALL, .fn = write_theirs};
    candidate_connect(&c, zk, 0, "c");
    assert_int_equal(put(&c, "one", any, NULL), 0);
    hook(zk, 0, WIRE_MULTI, NULL, 1, FAKE_DROP_REPLY);
    fake_zk_hook(zk, &between);
    assert_int_equal(put(&c, "two", zero, NULL), CONCLAVE_CONNECTION_LOSS);
    assert_true(fake_zk_data(zk, PATH "/b", data, sizeof data));
    assert_string_equal(data, "theirs");
    hook(zk, 0, WIRE_MULTI, NULL, 1, FAKE_DROP_REPLY);
    fake_zk_hook(zk, &between);
    assert_int_equal(put(&c, "three", any, NULL), CONCLAVE_CONNECTION_LOSS);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(fake_zk_version(zk, PATH "/a"), 2);
    assert_true(fake_zk_data(zk, PATH "/b", data, sizeof data));
    assert_string_equal(data, "theirs"); /* theirs is newer: it is not written over */
    between.op = WIRE_MULTI;
    fake_zk_hook(zk, &between); /* in between, but no answer is lost */
    assert_int_equal(put(&c, "four", any, NULL), 0);
    assert_true(fake_zk_data(zk, PATH "/b", data, sizeof data));
    assert_string_equal(data, "four");
    candidate_finish(&c);
}

static void no_server_and_wrong_entries(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    struct conclave_config_entry bad[] = {{sizeof bad[0], PATH "/a", "x", 1, CONCLAVE_CONFIG_ANY},
                                          {sizeof bad[0], PATH "/a", "x", 1, CONCLAVE_CONFIG_ANY}};
    candidate_connect(&c, zk, 0, "c");
    assert_int_equal(conclave_config_put_many(c.recipes, bad, 2, 100, NULL), CONCLAVE_EINVAL);
    assert_int_equal(conclave_config_put_many(c.recipes, bad, 0, 100, NULL), CONCLAVE_EINVAL);
    bad[0].path = "/";
    assert_int_equal(conclave_config_put_many(c.recipes, bad, 1, 100, NULL), CONCLAVE_EINVAL);
    bad[0].path = "/a";
    bad[0].expected_version = -4;
    assert_int_equal(conclave_config_put_many(c.recipes, bad, 1, 100, NULL), CONCLAVE_EINVAL);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    assert_int_equal(conclave_config_put_many(c.recipes, bad + 1, 1, 50, NULL), CONCLAVE_ETIMEDOUT);
    fake_zk_link(zk, 0, FAKE_UP);
    candidate_finish(&c);
}

/* An entry below another one of the same change: neither is there before the change. */
static void an_entry_below_another(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    int64_t mzxid = 0;
    struct conclave_config_entry entries[] = {
        {sizeof entries[0], PATH, "folder", 6, CONCLAVE_CONFIG_ABSENT},
        {sizeof entries[0], PATH "/a", "x", 1, CONCLAVE_CONFIG_ABSENT}};
    struct conclave_config_entry wrong[] = {entries[1], entries[0]};
    struct conclave_config_entry deep[] = {{sizeof deep[0], "/app", "", 0, CONCLAVE_CONFIG_ANY},
                                           entries[1]};
    candidate_connect(&c, zk, 0, "c");
    assert_int_equal(conclave_config_put_many(c.recipes, wrong, 2, 100, NULL), CONCLAVE_EINVAL);
    assert_int_equal(conclave_config_put_many(c.recipes, deep, 2, 100, NULL), CONCLAVE_EINVAL);
    assert_int_equal(conclave_config_put_many(c.recipes, entries, 2, PATIENCE_MS, &mzxid), 0);
    assert_int_equal(fake_zk_czxid(zk, PATH), mzxid);
    assert_int_equal(fake_zk_czxid(zk, PATH "/a"), mzxid);
    candidate_finish(&c);
}

/* --- who watches ---------------------------------------------------------------------------- */

struct watcher {
    _Atomic int states;
    _Atomic int mixed;
    _Atomic int last;
};

static int on_change(struct conclave_config *config, const struct conclave_config_state *state,
                     void *ctx)
{
    struct watcher *w = ctx;
    int64_t mzxid = 0;
    for (size_t i = 0; i < state->count; i++) {
        const struct conclave_config_node *n = state->nodes[i];
        if (n->data_len == 0) {
            continue; /* the root, a folder */
        }
        w->mixed += mzxid != 0 && n->mzxid != mzxid ? 1 : 0;
        mzxid = n->mzxid;
        w->last = (int)strtol(n->data, NULL, 10);
    }
    w->states++;
    return 0;
}

static void who_watches_sees_all_old_or_all_new(void **state)
{
    enum { ROUNDS = 200 };
    struct fake_zk *zk = *state;
    struct candidate c;
    struct candidate reader;
    struct watcher w = {0};
    struct conclave_config *config;
    struct conclave_config_options options = CONCLAVE_CONFIG_OPTIONS_INIT;
    const struct conclave_config_callbacks callbacks = {.size = sizeof callbacks,
                                                        .on_change = on_change};
    candidate_connect(&c, zk, 0, "c");
    candidate_connect(&reader, zk, 1, "r");
    assert_int_equal(put(&c, "1", any, NULL), 0);
    options.path = PATH;
    options.tree = true;
    assert_int_equal(conclave_config_open(reader.recipes, &options, &callbacks, &w, &config), 0);
    for (int i = 2; i <= ROUNDS; i++) {
        char text[8];
        (void)snprintf(text, sizeof text, "%d", i);
        assert_int_equal(put(&c, text, any, NULL), 0);
    }
    EVENTUALLY(w.last == ROUNDS);
    assert_int_equal(w.mixed, 0);
    assert_true(w.states > 1);
    assert_int_equal(conclave_config_close_wait(config, PATIENCE_MS), 0);
    conclave_config_destroy(config);
    candidate_finish(&reader);
    candidate_finish(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(all_or_none_by_version),
        E_TEST(whatever_is_lost_it_is_done_once),
        E_TEST(another_writer_in_between_is_not_guessed_over),
        E_TEST(no_server_and_wrong_entries),
        E_TEST(an_entry_below_another),
        E_TEST(who_watches_sees_all_old_or_all_new),
    };
    return RUN_TESTS(tests);
}
