/* Configuration: values and trees that are watched, checked, kept in a file and acknowledged; and their
 * writer. E01, E05, E18, E30, E31, E35 to E37, E59, E61, E93 to E96. */
#include "support/candidate.h"

#include <conclave/config.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define PATH "/app/cfg"

struct reader {
    struct candidate c; /* client and recipes */
    struct conclave_config *config;
    pthread_mutex_t lock; /* guards what follows */
    char log[4096];       /* each state: "a=x b=y", "(none)", "?" at the end when stale */
    char last[512];
    int64_t zxid;
    int backwards;
    int changes;
    int stale; /* -1: never reported */
    int file_error;
    int closed;
    int closed_why;
    int after_end;
    const char *refuse; /* data that the validator does not take */
    int apply_error;
    void (*inside)(struct reader *r);
};

static void reader_enter(struct reader *r)
{
    (void)pthread_mutex_lock(&r->lock);
    r->after_end += r->closed;
}

static void reader_leave(struct reader *r)
{
    (void)pthread_mutex_unlock(&r->lock);
}

static int validate(struct conclave_config *config, const struct conclave_config_state *state,
                    char *why, size_t why_len, void *ctx)
{
    struct reader *r = ctx;
    if (r->refuse == NULL || state->count == 0 ||
        strncmp(state->nodes[0]->data, r->refuse, strlen(r->refuse)) != 0) {
        return 0;
    }
    (void)snprintf(why, why_len, "no such thing as %s", r->refuse);
    return 1;
}

static int on_change(struct conclave_config *config, const struct conclave_config_state *state,
                     void *ctx)
{
    struct reader *r = ctx;
    reader_enter(r);
    r->last[0] = '\0';
    for (size_t i = 0; i < state->count; i++) {
        const struct conclave_config_node *n = state->nodes[i];
        size_t len = strlen(r->last);
        (void)snprintf(r->last + len, sizeof r->last - len, "%s%s=%.*s", i > 0 ? " " : "", n->path,
                       (int)n->data_len, n->data == NULL ? "(null)" : (const char *)n->data);
    }
    (void)strcat(r->last, state->count == 0 ? "(none)" : "");
    (void)strcat(r->last, state->stale ? "?" : "");
    size_t len = strlen(r->log);
    (void)snprintf(r->log + len, sizeof r->log - len, "%s%s", len > 0 ? ", " : "", r->last);
    r->backwards += state->zxid < r->zxid;
    r->zxid = state->zxid;
    r->changes++;
    int result = r->apply_error;
    reader_leave(r);
    if (r->inside != NULL) {
        r->inside(r);
    }
    return result;
}

static void on_stale(struct conclave_config *config, bool stale, void *ctx)
{
    struct reader *r = ctx;
    reader_enter(r);
    r->stale = stale;
    reader_leave(r);
}

static void on_file_error(struct conclave_config *config, int error, void *ctx)
{
    struct reader *r = ctx;
    reader_enter(r);
    r->file_error = error;
    reader_leave(r);
}

static void on_closed(struct conclave_config *config, int why, void *ctx)
{
    struct reader *r = ctx;
    reader_enter(r);
    r->closed++;
    r->closed_why = why;
    reader_leave(r);
}

static const struct conclave_config_callbacks callbacks = {
    sizeof callbacks, validate, on_change, on_stale, on_file_error, on_closed};

static int reader_get(struct reader *r, const int *field)
{
    (void)pthread_mutex_lock(&r->lock);
    int value = *field;
    reader_leave(r);
    return value;
}

static bool last_is(struct reader *r, const char *last)
{
    (void)pthread_mutex_lock(&r->lock);
    bool same = strcmp(r->last, last) == 0;
    reader_leave(r);
    return same;
}

static bool log_is(struct reader *r, const char *log)
{
    (void)pthread_mutex_lock(&r->lock);
    bool same = strcmp(r->log, log) == 0;
    reader_leave(r);
    return same;
}

static struct conclave_config_options options_of(bool tree)
{
    struct conclave_config_options options = CONCLAVE_CONFIG_OPTIONS_INIT;
    options.path = PATH;
    options.tree = tree;
    options.cache_wait_ms = 50;
    return options;
}

static void reader_connect(struct reader *r, struct fake_zk *zk, int endpoint)
{
    memset(r, 0, sizeof *r);
    r->stale = -1;
    (void)pthread_mutex_init(&r->lock, NULL);
    candidate_connect(&r->c, zk, endpoint, "x");
}

static void reader_start(struct reader *r, const struct conclave_config_options *options)
{
    assert_int_equal(conclave_config_open(r->c.recipes, options, &callbacks, r, &r->config), 0);
}

static void reader_open(struct reader *r, struct fake_zk *zk, int endpoint, bool tree)
{
    struct conclave_config_options options = options_of(tree);
    reader_connect(r, zk, endpoint);
    reader_start(r, &options);
}

static void reader_close(struct reader *r)
{
    assert_int_equal(conclave_config_close_wait(r->config, PATIENCE_MS), 0);
    assert_int_equal(r->closed, 1);
    assert_int_equal(r->after_end, 0);
    assert_int_equal(r->backwards, 0);
    conclave_config_destroy(r->config);
}

static void reader_finish(struct reader *r)
{
    reader_close(r);
    candidate_finish(&r->c);
    assert_int_equal(r->after_end, 0);
}

/* A path for a file of this test, none there. */
static const char *file_name(void)
{
    static char name[128];
    static int number;
    const char *folder = getenv("TMPDIR");
    (void)snprintf(name, sizeof name, "%s/conclave-config-%ld-%d", folder == NULL ? "/tmp" : folder,
                   (long)getpid(), number++);
    (void)unlink(name);
    return name;
}

static void file_put(const char *name, const char *text)
{
    FILE *file = fopen(name, "we");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
}

static bool file_is(const char *name, const char *text)
{
    char buf[4096];
    FILE *file = fopen(name, "re");
    if (file == NULL) {
        return false;
    }
    size_t len = fread(buf, 1, sizeof buf - 1, file);
    (void)fclose(file);
    buf[len] = '\0';
    return strcmp(buf, text) == 0;
}

static void make_app(struct fake_zk *zk)
{
    fake_zk_create(zk, "/app", "", 0);
}

/* --- values ---------------------------------------------------------------------------- */

static void value_lives(struct fake_zk *zk)
{
    struct reader r;
    make_app(zk);
    reader_open(&r, zk, 0, false);
    EVENTUALLY(last_is(&r, "(none)")); /* a missing state is reported, too */
    fake_zk_create(zk, PATH, "one", 0);
    EVENTUALLY(last_is(&r, "=one"));
    fake_zk_write(zk, PATH, "two");
    EVENTUALLY(last_is(&r, "=two"));
    fake_zk_delete(zk, PATH);
    EVENTUALLY(last_is(&r, "(none)"));
    fake_zk_create(zk, PATH, "three", 0);
    EVENTUALLY(log_is(&r, "(none), =one, =two, (none), =three"));
    fake_zk_create(zk, PATH "/child", "not of the value", 0);
    STAYS(last_is(&r, "=three"), 30);
    fake_zk_cut(zk, 0);
    EVENTUALLY(reader_get(&r, &r.stale) == 1);
    EVENTUALLY(reader_get(&r, &r.stale) == 0);
    assert_int_equal(reader_get(&r, &r.changes), 5); /* nothing new: not reported again */
    reader_finish(&r);
}

static void value_by_a_persistent_watch(void **state)
{
    value_lives(*state);
    assert_int_equal(fake_zk_count(*state, 0, WIRE_ADD_WATCH), 1);
}

static void value_by_one_shot_watches(void **state)
{
    fake_zk_old(*state, 0, true);
    value_lives(*state);
}

static void E93_deleted_and_made_again_while_away(void **state)
{
    struct fake_zk *zk = *state;
    for (int old = 0; old < 2; old++) {
        struct reader r;
        fake_zk_old(zk, 0, old == 1);
        if (old == 0) {
            make_app(zk);
            fake_zk_create(zk, PATH, "same", 0);
        }
        reader_open(&r, zk, 0, false);
        EVENTUALLY(last_is(&r, "=same"));
        fake_zk_link(zk, 0, FAKE_REFUSE);
        EVENTUALLY(reader_get(&r, &r.stale) == 1);
        fake_zk_delete(zk, PATH);
        fake_zk_create(zk, PATH, "same", 0); /* the version is 0 as before */
        fake_zk_link(zk, 0, FAKE_UP);
        EVENTUALLY(log_is(&r, "=same, =same"));
        reader_finish(&r);
    }
}

static void write_hundred(struct fake_zk *zk, void *ctx)
{
    char text[16];
    for (int i = 0; i < 100; i++) {
        (void)snprintf(text, sizeof text, "%03d", i);
        fake_zk_write_locked(zk, PATH, text);
    }
}

static void E94_of_a_burst_the_last_is_told_and_none_out_of_order(void **state)
{
    struct fake_zk *zk = *state;
    for (int old = 0; old < 2; old++) {
        struct reader r;
        fake_zk_old(zk, 0, old == 1);
        if (old == 0) {
            make_app(zk);
            fake_zk_create(zk, PATH, "", 0);
        }
        reader_open(&r, zk, 0, false);
        EVENTUALLY(reader_get(&r, &r.changes) == 1);
        fake_zk_do(zk, write_hundred, NULL);
        EVENTUALLY(last_is(&r, "=099"));
        int changes = reader_get(&r, &r.changes);
        assert_true(changes <= 20); /* reported together */
        const char *at = strstr(r.log, ", =");
        for (int before = -1; at != NULL; at = strstr(at + 1, ", =")) {
            int value = atoi(at + 3); /* NOLINT(cert-err34-c): our own digits */
            assert_true(value > before);
            before = value;
        }
        reader_finish(&r);
        fake_zk_write(zk, PATH, "");
    }
}

static void E30_ensemble_that_lost_everything(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    make_app(zk);
    fake_zk_create(zk, PATH, "one", 0);
    reader_open(&r, zk, 0, true);
    EVENTUALLY(last_is(&r, "=one"));
    fake_zk_reset(zk);
    EVENTUALLY(last_is(&r, "(none)"));
    make_app(zk);
    fake_zk_create(zk, PATH, "two", 0);
    EVENTUALLY(last_is(&r, "=two"));
    r.backwards = 0; /* another ensemble counts from the start */
    reader_finish(&r);
}

static void E31_an_answer_that_is_too_large_ends_it(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    make_app(zk);
    fake_zk_create(zk, PATH, "one", 0);
    hook(zk, 0, WIRE_GET_DATA, PATH, 1, FAKE_OVERSIZED);
    struct conclave_config_options options = options_of(false);
    memset(&r, 0, sizeof r);
    (void)pthread_mutex_init(&r.lock, NULL);
    candidate_connect_to(&r.c, zk, 0, "x", NULL, 5000); /* so much takes its time */
    reader_start(&r, &options);
    EVENTUALLY(reader_get(&r, &r.closed) == 1);
    assert_int_equal(r.closed_why, CONCLAVE_ETOOBIG);
    reader_finish(&r);
}

/* Freed by its end while the answer was still looked at: seen under AddressSanitizer. */
static void E31_a_list_that_is_too_large_ends_it(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    make_app(zk);
    fake_zk_create(zk, PATH, "one", 0);
    fake_zk_create(zk, PATH "/a", "two", 0);
    hook(zk, 0, WIRE_GET_CHILDREN2, PATH, 1, FAKE_OVERSIZED);
    struct conclave_config_options options = options_of(true);
    memset(&r, 0, sizeof r);
    (void)pthread_mutex_init(&r.lock, NULL);
    candidate_connect_to(&r.c, zk, 0, "x", NULL, 5000); /* so much takes its time */
    reader_start(&r, &options);
    EVENTUALLY(reader_get(&r, &r.closed) == 1);
    assert_int_equal(r.closed_why, CONCLAVE_ETOOBIG);
    reader_finish(&r);
}

static void E18_no_permission_ends_it(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    struct fake_hook h = {.op = WIRE_GET_DATA,
                          .path = PATH,
                          .nth = 1,
                          .action = FAKE_ERROR,
                          .error = CONCLAVE_NO_AUTH};
    make_app(zk);
    fake_zk_create(zk, PATH, "one", 0);
    fake_zk_hook(zk, &h);
    reader_open(&r, zk, 0, false);
    EVENTUALLY(reader_get(&r, &r.closed) == 1);
    assert_int_equal(r.closed_why, CONCLAVE_NO_AUTH);
    assert_int_equal(fake_zk_count(zk, 0, WIRE_GET_DATA), 1);
    reader_finish(&r);
}

/* --- trees ---------------------------------------------------------------------------- */

static void tree_lives(struct fake_zk *zk)
{
    struct reader r;
    make_app(zk);
    reader_open(&r, zk, 0, true);
    EVENTUALLY(last_is(&r, "(none)"));
    fake_zk_create(zk, PATH, "", 0);
    fake_zk_create(zk, PATH "/a", "1", 0);
    fake_zk_create(zk, PATH "/a/x", "2", 0);
    fake_zk_create(zk, PATH "/b", "3", 0);
    EVENTUALLY(last_is(&r, "= a=1 a/x=2 b=3"));
    fake_zk_write(zk, PATH "/a/x", "two");
    EVENTUALLY(last_is(&r, "= a=1 a/x=two b=3"));
    fake_zk_delete(zk, PATH "/a/x");
    fake_zk_delete(zk, PATH "/a");
    EVENTUALLY(last_is(&r, "= b=3"));
    fake_zk_create(zk, PATH "/a", "again", 0);
    fake_zk_create(zk, PATH "/a/y", "new", 0);
    EVENTUALLY(last_is(&r, "= a=again a/y=new b=3"));

    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(reader_get(&r, &r.stale) == 1);
    fake_zk_delete(zk, PATH "/a/y");
    fake_zk_create(zk, PATH "/b/deep", "4", 0);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(last_is(&r, "= a=again b=3 b/deep=4"));
    fake_zk_expire(zk, 0);
    EVENTUALLY(reader_get(&r, &r.stale) == 1);
    EVENTUALLY(reader_get(&r, &r.stale) == 0);
    fake_zk_write(zk, PATH "/b/deep", "5");
    EVENTUALLY(last_is(&r, "= a=again b=3 b/deep=5"));
    reader_finish(&r);
    assert_int_equal(fake_zk_sessions(zk), 0);
}

static void tree_shows_neither_acknowledgements_nor_markers(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    make_app(zk);
    fake_zk_create(zk, PATH, "", 0);
    reader_open(&r, zk, 0, true);
    assert_int_equal(
        conclave_config_put(r.c.recipes, PATH "/a", "1", 1, CONCLAVE_CONFIG_ANY, PATIENCE_MS, NULL),
        0);
    fake_zk_create(zk, PATH "/a.acks", "", 0);
    fake_zk_create(zk, PATH "/a.acks/member", "", 0);
    fake_zk_create(zk, PATH "/b.writersx", "2", 0);
    EVENTUALLY(last_is(&r, "= a=1 b.writersx=2"));
    assert_null(strstr(r.log, "acks"));
    assert_null(strstr(r.log, "writers="));
    reader_finish(&r);
}

static void tree_by_a_recursive_watch(void **state)
{
    tree_lives(*state);
    assert_int_equal(fake_zk_count(*state, 0, WIRE_ADD_WATCH), 2); /* one for each session */
}

static void tree_by_one_shot_watches(void **state)
{
    fake_zk_old(*state, 0, true);
    tree_lives(*state);
}

static void vanish(struct fake_zk *zk, void *ctx)
{
    fake_zk_delete_locked(zk, PATH "/a/x");
    fake_zk_delete_locked(zk, PATH "/a");
    fake_zk_create_locked(zk, PATH "/a", "other", 0);
}

/* A node is deleted and made again between two reads of one view. */
static void tree_that_moves_while_it_is_read(void **state)
{
    struct fake_zk *zk = *state;
    for (int old = 0; old < 2; old++) {
        for (int step = 1; step <= 9; step++) {
            struct reader r;
            struct fake_hook h = {
                .op = FAKE_ANY_OP, .nth = step, .action = FAKE_CALL, .fn = vanish};
            fake_zk_old(zk, 0, old == 1);
            fake_zk_reset(zk);
            make_app(zk);
            fake_zk_create(zk, PATH, "", 0);
            fake_zk_create(zk, PATH "/a", "1", 0);
            fake_zk_create(zk, PATH "/a/x", "2", 0);
            fake_zk_hook(zk, &h);
            reader_open(&r, zk, 0, true);
            if (fake_zk_exists(zk, PATH "/a/x")) {
                sleep_ms(20);
            }
            if (fake_zk_hooks_left(zk) > 0) { /* it needs fewer requests */
                fake_zk_hooks_clear(zk);
                fake_zk_do(zk, vanish, NULL);
            }
            EVENTUALLY(last_is(&r, "= a=other"));
            reader_finish(&r);
        }
    }
}

/* --- the file -------------------------------------------------------------------------- */

static void E95_file_is_used_when_the_ensemble_is_down_at_the_start(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    const char *file = file_name();
    struct conclave_config_options options = options_of(false);
    options.cache_file = file;
    file_put(file, "cached");
    make_app(zk);
    fake_zk_create(zk, PATH, "live", 0);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    reader_connect(&r, zk, 0);
    reader_start(&r, &options);
    EVENTUALLY(last_is(&r, "=cached?"));
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(log_is(&r, "=cached?, =live"));
    EVENTUALLY(file_is(file, "live"));
    fake_zk_delete(zk, PATH);
    EVENTUALLY(last_is(&r, "(none)"));
    assert_true(file_is(file, "live")); /* the last good one */
    reader_finish(&r);
    (void)unlink(file);
}

static void E95_file_is_not_used_when_the_ensemble_is_there(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    const char *file = file_name();
    struct conclave_config_options options = options_of(false);
    options.cache_file = file;
    options.cache_wait_ms = PATIENCE_MS;
    file_put(file, "cached");
    make_app(zk);
    fake_zk_create(zk, PATH, "live", 0);
    reader_connect(&r, zk, 0);
    reader_start(&r, &options);
    EVENTUALLY(file_is(file, "live"));
    assert_true(log_is(&r, "=live"));
    reader_finish(&r);
    (void)unlink(file);
}

static void E95_a_wait_longer_than_any_clock_does_not_end(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    const char *file = file_name();
    struct conclave_config_options options = options_of(false);
    options.cache_file = file;
    options.cache_wait_ms = options.debounce_ms = INT64_MAX;
    file_put(file, "cached");
    make_app(zk);
    fake_zk_create(zk, PATH, "live", 0);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    reader_connect(&r, zk, 0);
    reader_start(&r, &options);
    STAYS(log_is(&r, ""), 80);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(last_is(&r, "=live"));
    fake_zk_write(zk, PATH, "later");
    STAYS(!last_is(&r, "=later"), 80); /* collects changes for as long */
    reader_finish(&r);
    (void)unlink(file);
}

static void E95_file_of_a_tree(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    const char *file = file_name();
    struct conclave_config_options options = options_of(true);
    options.cache_file = file;
    make_app(zk);
    fake_zk_create(zk, PATH, "", 0);
    fake_zk_create(zk, PATH "/a", "1\n2 3", 0);
    fake_zk_create(zk, PATH "/a/long-name", "", 0);
    reader_connect(&r, zk, 0);
    reader_start(&r, &options);
    EVENTUALLY(last_is(&r, "= a=1\n2 3 a/long-name="));
    reader_finish(&r);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    reader_connect(&r, zk, 0);
    reader_start(&r, &options);
    EVENTUALLY(last_is(&r, "= a=1\n2 3 a/long-name=?"));
    reader_finish(&r);

    struct stat stat_buf; /* damage at any place is found */
    assert_int_equal(stat(file, &stat_buf), 0);
    for (off_t at = 0; at < stat_buf.st_size; at += 7) {
        int fd = open(file, O_RDWR | O_CLOEXEC);
        char byte;
        assert_int_equal(pread(fd, &byte, 1, at), 1);
        byte = (char)(byte ^ 4);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        reader_connect(&r, zk, 0);
        reader_start(&r, &options);
        EVENTUALLY(reader_get(&r, &r.file_error) == CONCLAVE_ECORRUPT);
        assert_int_equal(r.changes, 0);
        reader_finish(&r);
        byte = (char)(byte ^ 4);
        assert_int_equal(pwrite(fd, &byte, 1, at), 1);
        (void)close(fd);
    }
    (void)unlink(file);
}

static void file_that_cannot_be_written_is_told(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    struct conclave_config_options options = options_of(false);
    options.cache_file = "/nonexistent/folder/file";
    make_app(zk);
    fake_zk_create(zk, PATH, "live", 0);
    reader_connect(&r, zk, 0);
    reader_start(&r, &options);
    EVENTUALLY(reader_get(&r, &r.file_error) == CONCLAVE_EIO);
    assert_true(last_is(&r, "=live"));
    reader_finish(&r);
}

static void what_the_validator_refuses_is_neither_applied_nor_kept(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    const char *file = file_name();
    struct conclave_config_options options = options_of(false);
    options.cache_file = file;
    make_app(zk);
    fake_zk_create(zk, PATH, "good", 0);
    reader_connect(&r, zk, 0);
    r.refuse = "bad";
    reader_start(&r, &options);
    EVENTUALLY(file_is(file, "good"));
    fake_zk_write(zk, PATH, "bad");
    STAYS(log_is(&r, "=good") && file_is(file, "good"), 50);
    fake_zk_write(zk, PATH, "better");
    EVENTUALLY(file_is(file, "better"));
    assert_true(log_is(&r, "=good, =better"));
    reader_finish(&r);
    (void)unlink(file);
}

/* --- acknowledgements -------------------------------------------------------------------- */

static void reader_open_acking(struct reader *r, struct fake_zk *zk, int endpoint, const char *id)
{
    struct conclave_config_options options = options_of(false);
    options.ack_id = id;
    reader_connect(r, zk, endpoint);
    reader_start(r, &options);
}

static int acks_of(struct reader *r, int64_t zxid, const char *group, size_t at_least,
                   int64_t timeout_ms, char log[512])
{
    struct conclave_config_acks_options options = CONCLAVE_CONFIG_ACKS_OPTIONS_INIT;
    struct conclave_config_ack **list = NULL;
    size_t count = 0;
    options.path = PATH;
    options.zxid = zxid;
    options.group_path = group;
    options.at_least = at_least;
    int error = conclave_config_wait_acked(r->c.recipes, &options, timeout_ms, &list, &count);
    log[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(log);
        (void)snprintf(log + len, 512 - len, "%s%s:%s:%s:%s", i > 0 ? " " : "", list[i]->id,
                       !list[i]->acked         ? "nothing"
                       : list[i]->zxid >= zxid ? "there"
                                               : "behind",
                       conclave_errname(list[i]->error), list[i]->why);
    }
    conclave_config_acks_free(list, count);
    return error;
}

static void roll_out_waits_for_everybody(void **state)
{
    struct fake_zk *zk = *state;
    struct reader a;
    struct reader b;
    struct conclave_config_written written = CONCLAVE_CONFIG_WRITTEN_INIT;
    char log[512];
    reader_open_acking(&a, zk, 0, "a");
    reader_open_acking(&b, zk, 1, "b");
    assert_int_equal(conclave_config_put(a.c.recipes, PATH, "one", 3, CONCLAVE_CONFIG_ABSENT,
                                         PATIENCE_MS, &written),
                     0);
    assert_int_equal(written.version, 0);
    assert_int_equal(written.mzxid, fake_zk_czxid(zk, PATH));
    assert_int_equal(acks_of(&a, written.mzxid, NULL, 2, PATIENCE_MS, log), 0);
    assert_string_equal(log, "a:there:OK: b:there:OK:");
    assert_true(last_is(&a, "=one") && last_is(&b, "=one"));

    fake_zk_link(zk, 1, FAKE_SILENT); /* b hears of nothing */
    assert_int_equal(conclave_config_put(a.c.recipes, PATH, "two", 3, 0, PATIENCE_MS, &written), 0);
    assert_int_equal(acks_of(&a, written.mzxid, NULL, 0, 150, log), CONCLAVE_ETIMEDOUT);
    assert_string_equal(log, "a:there:OK: b:behind:OK:");
    fake_zk_link(zk, 1, FAKE_UP);
    EVENTUALLY(acks_of(&a, written.mzxid, NULL, 2, 200, log) == 0);

    fake_zk_create(zk, "/app/group", "", 0); /* c is of the group and has said nothing */
    fake_zk_create(zk, "/app/group/a", "", 0x99);
    fake_zk_create(zk, "/app/group/c", "", 0x99);
    assert_int_equal(acks_of(&a, written.mzxid, "/app/group", 0, 100, log), CONCLAVE_ETIMEDOUT);
    assert_string_equal(log, "a:there:OK: c:nothing:OK:");
    fake_zk_delete(zk, "/app/group/c");
    assert_int_equal(acks_of(&a, written.mzxid, "/app/group", 0, PATIENCE_MS, log), 0);
    assert_int_equal(acks_of(&a, written.mzxid, NULL, 3, 50, log), CONCLAVE_ETIMEDOUT);
    assert_int_equal(acks_of(&a, 0, NULL, 0, PATIENCE_MS, log), 0);
    reader_finish(&b); /* who is gone is not waited for */
    assert_int_equal(acks_of(&a, written.mzxid, NULL, 0, PATIENCE_MS, log), 0);
    assert_string_equal(log, "a:there:OK:");
    reader_finish(&a);
    assert_int_equal(fake_zk_ephemerals(zk), 2 - 1); /* the group's */
}

static void refusal_is_acknowledged_with_its_reason(void **state)
{
    struct fake_zk *zk = *state;
    struct reader a;
    struct reader b;
    struct conclave_config_written written = CONCLAVE_CONFIG_WRITTEN_INIT;
    char log[512];
    reader_open_acking(&a, zk, 0, "a");
    reader_open_acking(&b, zk, 1, "b");
    b.refuse = "bad";
    assert_int_equal(conclave_config_put(a.c.recipes, PATH, "bad", 3, CONCLAVE_CONFIG_ANY,
                                         PATIENCE_MS, &written),
                     0);
    assert_int_equal(acks_of(&a, written.mzxid, NULL, 2, PATIENCE_MS, log), CONCLAVE_ECONFLICT);
    assert_non_null(strstr(log, "b:there:ECANCELED:no such thing as bad"));
    a.apply_error = CONCLAVE_EIO;
    assert_int_equal(
        conclave_config_put(a.c.recipes, PATH, "ok", 2, CONCLAVE_CONFIG_ANY, PATIENCE_MS, &written),
        0);
    EVENTUALLY(acks_of(&a, written.mzxid, NULL, 2, 200, log) == CONCLAVE_ECONFLICT &&
               strcmp(log, "a:there:EIO: b:there:OK:") == 0);
    reader_finish(&a);
    reader_finish(&b);
}

static void acknowledgement_comes_back_in_a_new_session(void **state)
{
    struct fake_zk *zk = *state;
    struct reader a;
    struct reader b;
    char log[512];
    make_app(zk);
    fake_zk_create(zk, PATH, "one", 0);
    int64_t zxid = fake_zk_czxid(zk, PATH);
    reader_open_acking(&a, zk, 0, "a");
    reader_open(&b, zk, 1, false);
    assert_int_equal(acks_of(&b, zxid, NULL, 1, PATIENCE_MS, log), 0);
    fake_zk_expire(zk, candidate_session(&a.c));
    EVENTUALLY(acks_of(&b, zxid, NULL, 1, 100, log) == 0);
    assert_int_equal(a.changes, 1); /* and is not applied again */
    reader_finish(&a);
    assert_int_equal(fake_zk_child_count(zk, PATH ".acks"), 0);
    reader_finish(&b);
}

/* --- the writer --------------------------------------------------------------------------- */

static void E01_put_whose_answer_was_lost_is_done_once(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct conclave_config_written written = CONCLAVE_CONFIG_WRITTEN_INIT;
    candidate_connect(&a, zk, 0, "a");
    assert_int_equal(
        conclave_config_put(a.recipes, PATH, "one", 3, CONCLAVE_CONFIG_ANY, PATIENCE_MS, NULL), 0);
    hook(zk, 0, WIRE_MULTI, PATH, 1, FAKE_DROP_REPLY);
    assert_int_equal(conclave_config_put(a.recipes, PATH, "two", 3, 0, PATIENCE_MS, &written), 0);
    assert_int_equal(fake_zk_hooks_left(zk), 0);
    assert_int_equal(written.version, 1);
    assert_int_equal(fake_zk_version(zk, PATH), 1);
    hook(zk, 0, WIRE_MULTI, PATH, 1, FAKE_EXPIRE_AFTER);
    assert_int_equal(conclave_config_put(a.recipes, PATH, "three", 5, CONCLAVE_CONFIG_ANY,
                                         PATIENCE_MS, &written),
                     0);
    assert_int_equal(written.version, 2);
    assert_int_equal(fake_zk_version(zk, PATH), 2);
    assert_int_equal(fake_zk_child_count(zk, PATH ".writers"), 0);
    candidate_finish(&a);
}

static void cut_the_link(struct fake_zk *zk, void *ctx)
{
    fake_zk_link_locked(zk, 0, FAKE_REFUSE);
}

/* Its own session ends while the outcome is in doubt: the client's next session removes the marker. */
static void a_put_that_gives_up_leaves_no_marker(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    struct fake_hook h = {
        .endpoint = 0, .op = WIRE_MULTI, .path = PATH, .nth = 1, .action = FAKE_CALL};
    candidate_connect(&a, zk, 0, "a");
    assert_int_equal(
        conclave_config_put(a.recipes, PATH, "one", 3, CONCLAVE_CONFIG_ANY, PATIENCE_MS, NULL), 0);
    h.fn = cut_the_link;
    fake_zk_hook(zk, &h);
    assert_int_not_equal(conclave_config_put(a.recipes, PATH, "two", 3, 0, 100, NULL), 0);
    assert_int_equal(fake_zk_child_count(zk, PATH ".writers"), 1);
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(fake_zk_child_count(zk, PATH ".writers") == 0);
    candidate_finish(&a);
}

static void E96_put_compares_and_never_writes_blindly(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate a;
    char data[64];
    candidate_connect(&a, zk, 0, "a");
    make_app(zk);
    fake_zk_create(zk, PATH, "theirs", 0);
    assert_int_equal(
        conclave_config_put(a.recipes, PATH, "x", 1, CONCLAVE_CONFIG_ABSENT, PATIENCE_MS, NULL),
        CONCLAVE_NODE_EXISTS);
    assert_int_equal(conclave_config_put(a.recipes, PATH, "x", 1, 4, PATIENCE_MS, NULL),
                     CONCLAVE_BAD_VERSION);
    assert_int_equal(conclave_config_put(a.recipes, "/app/none", "x", 1, 4, PATIENCE_MS, NULL),
                     CONCLAVE_NO_NODE);
    assert_int_equal(conclave_config_put(a.recipes, PATH, "x", 1, -1, PATIENCE_MS, NULL),
                     CONCLAVE_ESEQWRAP);
    fake_zk_set_version(zk, PATH, -1); /* wrapped */
    assert_int_equal(
        conclave_config_put(a.recipes, PATH, "x", 1, CONCLAVE_CONFIG_ANY, PATIENCE_MS, NULL),
        CONCLAVE_ESEQWRAP);
    assert_true(fake_zk_data(zk, PATH, data, sizeof data));
    assert_string_equal(data, "theirs");
    fake_zk_link(zk, 0, FAKE_REFUSE);
    assert_int_equal(conclave_config_put(a.recipes, PATH, "x", 1, CONCLAVE_CONFIG_ANY, 50, NULL),
                     CONCLAVE_ETIMEDOUT);
    fake_zk_link(zk, 0, FAKE_UP);
    candidate_finish(&a);
}

/* --- the end -------------------------------------------------------------------------------- */

static void close_inside(struct reader *r)
{
    conclave_config_close(r->config);
    assert_int_equal(conclave_config_close_wait(r->config, 10), CONCLAVE_EDEADLK);
    assert_int_equal(conclave_config_put(r->c.recipes, PATH, "x", 1, CONCLAVE_CONFIG_ANY, 10, NULL),
                     CONCLAVE_EDEADLK);
}

static void E36_close_in_a_callback(void **state)
{
    struct reader r;
    struct conclave_config_options options = options_of(false);
    options.ack_id = "a";
    reader_connect(&r, *state, 0);
    r.inside = close_inside;
    reader_start(&r, &options);
    EVENTUALLY(reader_get(&r, &r.closed) == 1);
    reader_finish(&r);
    assert_int_equal(fake_zk_ephemerals(*state), 0);
}

static void E35_close_at_every_request_leaves_nothing(void **state)
{
    struct fake_zk *zk = *state;
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_AFTER};
    for (int step = 1; step <= 8; step++) {
        for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
            struct reader r;
            hook(zk, 0, FAKE_ANY_OP, NULL, step, actions[i]);
            reader_open_acking(&r, zk, 0, "a");
            sleep_ms(step); /* anywhere */
            reader_finish(&r);
            EVENTUALLY(fake_zk_ephemerals(zk) == 0);
            fake_zk_hooks_clear(zk);
        }
    }
}

static void E37_events_after_the_end_reach_nobody(void **state)
{
    struct fake_zk *zk = *state;
    struct reader r;
    make_app(zk);
    reader_open(&r, zk, 0, true);
    EVENTUALLY(last_is(&r, "(none)"));
    reader_close(&r);
    fake_zk_create(zk, PATH, "", 0);
    fake_zk_expire(zk, 0);
    sleep_ms(50);
    candidate_finish(&r.c);
    assert_int_equal(r.after_end, 0);
}

static void E59_client_closed_under_it(void **state)
{
    struct reader r;
    reader_open(&r, *state, 0, false);
    conclave_client_close(r.c.client, 0);
    EVENTUALLY(reader_get(&r, &r.closed) == 1);
    assert_int_equal(r.closed_why, CONCLAVE_ECLOSED);
    reader_close(&r);
    conclave_recipes_destroy(r.c.recipes);
}

static void E61_a_child_of_fork_may_not_use_it(void **state)
{
    struct reader r;
    int status;
    reader_open(&r, *state, 0, false);
    pid_t pid = fork();
    if (pid == 0) {
        bool right = conclave_config_close_wait(r.config, 10) == CONCLAVE_EFORK &&
                     conclave_config_put(r.c.recipes, PATH, "x", 1, 0, 10, NULL) == CONCLAVE_EFORK;
        _exit(right ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    reader_finish(&r);
}

static void wrong_options_are_refused(void **state)
{
    struct reader r;
    reader_connect(&r, *state, 0);
    struct conclave_config_options options = options_of(false);
    options.path = "app";
    assert_int_equal(conclave_config_open(r.c.recipes, &options, NULL, NULL, &r.config),
                     CONCLAVE_EINVAL);
    static const char *const bad[] = {"", "a/b", "..", "a\nb"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        options = options_of(false);
        options.ack_id = bad[i];
        assert_int_equal(conclave_config_open(r.c.recipes, &options, NULL, NULL, &r.config),
                         CONCLAVE_EINVAL);
    }
    candidate_finish(&r.c);
}

static void in_a_loop_without_threads(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options client_options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_config_options options = options_of(false);
    struct reader r;
    memset(&r, 0, sizeof r);
    (void)pthread_mutex_init(&r.lock, NULL);
    client_options.servers = fake_zk_address(zk, 0);
    options.ack_id = "a";
    make_app(zk);
    fake_zk_create(zk, PATH, "one", 0);
    assert_int_equal(conclave_client_open(&client_options, &r.c.client), 0);
    assert_int_equal(conclave_recipes_open(r.c.client, &r.c.recipes), 0);
    reader_start(&r, &options);
    for (int i = 0; i < PATIENCE_MS && !last_is(&r, "=one"); i++) {
        (void)conclave_client_dispatch(r.c.client);
        sleep_ms(1);
    }
    assert_true(last_is(&r, "=one"));
    reader_close(&r); /* dispatches by itself */
    conclave_recipes_destroy(r.c.recipes);
    conclave_client_close(r.c.client, 1000);
    assert_int_equal(fake_zk_ephemerals(zk), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(value_by_a_persistent_watch),
        E_TEST(value_by_one_shot_watches),
        E_TEST(E93_deleted_and_made_again_while_away),
        E_TEST(E94_of_a_burst_the_last_is_told_and_none_out_of_order),
        E_TEST(E30_ensemble_that_lost_everything),
        E_TEST(E31_an_answer_that_is_too_large_ends_it),
        E_TEST(E31_a_list_that_is_too_large_ends_it),
        E_TEST(E18_no_permission_ends_it),
        E_TEST(tree_by_a_recursive_watch),
        E_TEST(tree_by_one_shot_watches),
        E_TEST(tree_that_moves_while_it_is_read),
        E_TEST(tree_shows_neither_acknowledgements_nor_markers),
        E_TEST(E95_file_is_used_when_the_ensemble_is_down_at_the_start),
        E_TEST(E95_file_is_not_used_when_the_ensemble_is_there),
        E_TEST(E95_a_wait_longer_than_any_clock_does_not_end),
        E_TEST(E95_file_of_a_tree),
        E_TEST(file_that_cannot_be_written_is_told),
        E_TEST(what_the_validator_refuses_is_neither_applied_nor_kept),
        E_TEST(roll_out_waits_for_everybody),
        E_TEST(refusal_is_acknowledged_with_its_reason),
        E_TEST(acknowledgement_comes_back_in_a_new_session),
        E_TEST(E01_put_whose_answer_was_lost_is_done_once),
        EXPIRY_TEST(a_put_that_gives_up_leaves_no_marker),
        E_TEST(E96_put_compares_and_never_writes_blindly),
        E_TEST(E36_close_in_a_callback),
        E_TEST(E35_close_at_every_request_leaves_nothing),
        E_TEST(E37_events_after_the_end_reach_nobody),
        E_TEST(E59_client_closed_under_it),
        E_TEST(E61_a_child_of_fork_may_not_use_it),
        E_TEST(wrong_options_are_refused),
        E_TEST(in_a_loop_without_threads),
    };
    return RUN_TESTS(tests);
}
