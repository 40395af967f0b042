/* Random operations on the table and on a naive model, an array of all watches in the order of setting. */
#include "watch/watch.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { WATCHERS = 12, PATHS = 8, MAX = WATCHERS * PATHS * WATCH_KINDS };

struct model_watch {
    int watcher;
    int path;
    int kind;
};

struct model {
    struct model_watch watches[MAX]; /* in the order in which they were set */
    size_t count;
};

struct fixture {
    struct watch_table *table;
    struct watcher watchers[WATCHERS];
    struct model model;
    int told[WATCHERS]; /* watchers that got an event, in this order */
    size_t told_count;
};

static struct slice path_of(int path)
{
    static const char *const paths[PATHS] = {"/",  "/a",  "/a/b", "/a/b/c",
                                             "/b", "/bb", "/c",   "/zookeeper/config"};
    return slice_str(paths[path]);
}

static int model_find(const struct model *m, int watcher, int path, int kind)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct model_watch *w = &m->watches[i];
        if (w->watcher == watcher && w->path == path && w->kind == kind) {
            return (int)i;
        }
    }
    return -1;
}

static void model_remove(struct model *m, size_t at)
{
    m->count--;
    memmove(&m->watches[at], &m->watches[at + 1], (m->count - at) * sizeof m->watches[0]);
}

static bool model_fires(int kind, enum watch_event event)
{
    if (kind == WATCH_DATA || kind == WATCH_RECURSIVE) {
        return event != WATCH_NODE_CHILDREN_CHANGED;
    }
    return kind == WATCH_PERSISTENT || event == WATCH_NODE_DELETED ||
           event == WATCH_NODE_CHILDREN_CHANGED;
}

/* The number of steps from a path up to another; -1 when it is not above. */
static int model_above(int path, int below)
{
    char high[64];
    char low[64];
    (void)snprintf(high, sizeof high, "%.*s", SLICE_FMT(path_of(path)));
    (void)snprintf(low, sizeof low, "%.*s", SLICE_FMT(path_of(below)));
    for (int steps = 0;; steps++) {
        if (strcmp(high, low) == 0) {
            return steps;
        }
        if (strcmp(low, "/") == 0) {
            return -1;
        }
        char *slash = strrchr(low, '/');
        slash[slash == low ? 1 : 0] = '\0';
    }
}

static void model_want(int *want, size_t *count, int watcher)
{
    for (size_t i = 0; i < *count; i++) {
        if (want[i] == watcher) {
            return;
        }
    }
    want[(*count)++] = watcher;
}

static void on_told(void *ctx, struct watcher *w, enum watch_event event, struct slice path)
{
    struct fixture *f = ctx;
    assert_true(f->told_count < WATCHERS);
    f->told[f->told_count++] = (int)(w - f->watchers);
}

static void check_trigger(struct fixture *f, int path, enum watch_event event)
{
    int want[WATCHERS];
    size_t want_count = 0;
    for (size_t i = 0; i < f->model.count;) {
        const struct model_watch w = f->model.watches[i];
        bool fired = w.path == path && model_fires(w.kind, event);
        if (fired) {
            model_want(want, &want_count, w.watcher);
        }
        if (fired && w.kind != WATCH_PERSISTENT && w.kind != WATCH_RECURSIVE) {
            model_remove(&f->model, i);
        } else {
            i++;
        }
    }
    for (int steps = PATHS; steps > 0; steps--) { /* from "/" down */
        for (size_t i = 0; i < f->model.count; i++) {
            const struct model_watch *w = &f->model.watches[i];
            if (w->kind == WATCH_RECURSIVE && model_fires(w->kind, event) &&
                model_above(w->path, path) == steps) {
                model_want(want, &want_count, w->watcher);
            }
        }
    }
    f->told_count = 0;
    assert_int_equal(watch_trigger(f->table, event, path_of(path), on_told, f), want_count);
    assert_int_equal(f->told_count, want_count);
    assert_memory_equal(f->told, want, want_count * sizeof want[0]);
}

static void check_all(const struct fixture *f)
{
    size_t per_watcher[WATCHERS] = {0}, per_path[PATHS] = {0}, paths = 0, watchers = 0;
    for (size_t i = 0; i < f->model.count; i++) {
        const struct model_watch *w = &f->model.watches[i];
        watchers += per_watcher[w->watcher]++ == 0;
        paths += per_path[w->path]++ == 0;
    }
    struct watch_stats stats;
    watch_stats(f->table, &stats);
    assert_int_equal(stats.watches, f->model.count);
    assert_int_equal(stats.watchers, watchers);
    assert_int_equal(stats.paths, paths);
    for (int i = 0; i < WATCHERS; i++) {
        assert_int_equal(f->watchers[i].count, per_watcher[i]);
        for (int path = 0; path < PATHS; path++) {
            for (int kind = 0; kind < WATCH_KINDS; kind++) {
                assert_int_equal(
                    watch_has(f->table, &f->watchers[i], (enum watch_kind)kind, path_of(path)),
                    model_find(&f->model, i, path, kind) >= 0);
            }
        }
    }
}

static void step_finish(struct fixture *f, int watcher)
{
    watcher_finish(f->table, &f->watchers[watcher]);
    for (size_t i = 0; i < f->model.count;) {
        if (f->model.watches[i].watcher == watcher) {
            model_remove(&f->model, i);
        } else {
            i++;
        }
    }
}

static void step(struct fixture *f, struct prng *rnd)
{
    int watcher = (int)(prng_next(rnd) % WATCHERS);
    int path = (int)(prng_next(rnd) % PATHS);
    int kind = (int)(prng_next(rnd) % WATCH_KINDS);
    int at = model_find(&f->model, watcher, path, kind);
    uint64_t what = prng_next(rnd) % 100;
    if (what < 70) {
        struct watcher *w = &f->watchers[watcher];
        assert_int_equal(watch_add(f->table, w, (enum watch_kind)kind, path_of(path)), 0);
        if (at < 0) {
            f->model.watches[f->model.count++] = (struct model_watch){watcher, path, kind};
        }
    } else if (what < 80) {
        bool removed =
            watch_remove(f->table, &f->watchers[watcher], (enum watch_kind)kind, path_of(path));
        assert_int_equal(removed, at >= 0);
        if (at >= 0) {
            model_remove(&f->model, (size_t)at);
        }
    } else if (what < 98) {
        check_trigger(f, path, (enum watch_event)(1 + prng_next(rnd) % 4));
    } else {
        step_finish(f, watcher);
    }
}

static void test_model(void **state)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        static struct fixture f;
        struct prng rnd = {seed};
        f = (struct fixture){.table = watch_table_create(&hash_key_fixed)};
        assert_non_null(f.table);
        for (int i = 0; i < WATCHERS; i++) {
            watcher_init(&f.watchers[i]);
        }
        for (int i = 0; i < 1000; i++) {
            step(&f, &rnd);
            if (i % 8 == 0) {
                check_all(&f);
            }
        }
        for (int i = 0; i < WATCHERS; i++) {
            step_finish(&f, i);
        }
        check_all(&f);
        watch_table_destroy(f.table);
    }
}

/* Many watches, so that the index grows through several segments: each is found, none twice. */
static void test_many(void **state)
{
    enum { OWN = 300, ALL = 40 * OWN };
    struct watch_table *t = watch_table_create(&hash_key_fixed);
    static struct watcher w[40];
    for (int i = 0; i < ALL; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "/%d", i % OWN);
        if (i % OWN == 0) {
            watcher_init(&w[i / OWN]);
        }
        for (int twice = 0; twice < 2; twice++) {
            assert_int_equal(watch_add(t, &w[i / OWN], WATCH_DATA, slice_str(path)), 0);
            assert_int_equal(watch_add(t, &w[i / OWN], WATCH_CHILD, slice_str(path)), 0);
        }
    }
    struct watch_stats stats;
    watch_stats(t, &stats);
    assert_int_equal(stats.watches, 2 * ALL);
    assert_int_equal(stats.paths, OWN);
    for (int i = 0; i < ALL; i++) {
        char path[32];
        (void)snprintf(path, sizeof path, "/%d", i % OWN);
        assert_true(watch_has(t, &w[i / OWN], WATCH_DATA, slice_str(path)));
        assert_true(watch_remove(t, &w[i / OWN], WATCH_CHILD, slice_str(path)));
        assert_false(watch_has(t, &w[i / OWN], WATCH_CHILD, slice_str(path)));
    }
    for (int i = 0; i < 40; i++) {
        watcher_finish(t, &w[i]);
    }
    watch_table_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
