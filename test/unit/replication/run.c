#define _GNU_SOURCE /* nftw */
/*
 * Ordinary runs: entries come back in order, once; roles and figures; restarts; snapshots under
 * load; the real disk with its threads; the lock; folders of others; closing at any time and from
 * inside callbacks.
 */
#include "unit/replication/harness.inc"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

struct fixture {
    struct sim_disk disk;
    struct machine m;
};

static void begin(struct fixture *f, uint64_t seed)
{
    sim_init(&f->disk, seed, false);
    machine_init(&f->m, &f->disk, seed);
}

static void end(struct fixture *f)
{
    machine_finish(&f->m);
    sim_finish(&f->disk);
}

static void test_first_run(void **state)
{
    struct fixture f;
    struct replication_stats stats;
    begin(&f, 1);
    assert_int_equal(machine_open(&f.m), 0);
    assert_int_equal(f.m.roles, 0); /* never from inside open */
    machine_turn(&f.m);
    assert_int_equal(f.m.roles, 1);
    assert_int_equal(f.m.role, REPLICATION_LEADER);
    machine_work(&f.m, 50, 7);
    replication_stats(f.m.r, &stats);
    assert_int_equal(stats.role, REPLICATION_LEADER);
    assert_int_equal(stats.term, 1);
    assert_int_equal(stats.last_index, 51); /* the first entry is the configuration */
    assert_int_equal(stats.commit_index, 51);
    assert_int_equal(stats.applied_index, 51);
    assert_int_equal(stats.snapshot_index, 0);
    assert_true(stats.syncs >= 50 / 7);
    assert_int_equal(stats.log_bytes, f.m.options.segment_bytes);
    machine_close(&f.m);
    assert_int_equal(f.m.warnings, 0);
    end(&f);
}

static void test_restarts(void **state)
{
    struct fixture f;
    begin(&f, 2);
    f.m.options.snapshot_entries = 30;
    for (uint64_t i = 0; i < 30; i++) {
        assert_int_equal(machine_open(&f.m), 0);
        assert_int_equal(f.m.applied, i * 20);
        machine_work(&f.m, 20, 5);
        machine_close(&f.m);
        assert_int_equal(f.m.warnings, 0);
    }
    assert_true(f.m.snapshots > 5);
    end(&f);
}

/* Many entries of one turn go as one write. */
static void test_group_commit(void **state)
{
    struct fixture f;
    struct replication_stats before;
    struct replication_stats after;
    begin(&f, 3);
    f.m.options.segment_bytes = 1 << 20;
    assert_int_equal(machine_open(&f.m), 0);
    machine_turn(&f.m);
    replication_stats(f.m.r, &before);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(machine_submit(&f.m), 0);
    }
    assert_int_equal(replication_in_flight(f.m.r), 500);
    assert_int_equal(f.m.acked, 0);
    machine_settle(&f.m);
    replication_stats(f.m.r, &after);
    assert_int_equal(f.m.acked, 500);
    assert_int_equal(after.syncs - before.syncs, 1);
    machine_close(&f.m);
    end(&f);
}

static void test_nothing_before_sync(void **state)
{
    struct fixture f;
    begin(&f, 4);
    assert_int_equal(machine_open(&f.m), 0);
    machine_turn(&f.m);
    uint64_t syncs = f.disk.syncs;
    assert_int_equal(machine_submit(&f.m), 0);
    while (f.m.acked == 0) {
        assert_int_equal(f.disk.syncs, syncs);
        machine_turn(&f.m);
        syncs += f.m.acked;
    }
    assert_int_equal(f.disk.syncs, syncs);
    machine_close(&f.m);
    end(&f);
}

/* forceSync=no: no frame is synced, everything else is. */
static void test_without_sync(void **state)
{
    struct fixture f;
    begin(&f, 5);
    f.m.options.sync = false;
    assert_int_equal(machine_open(&f.m), 0);
    uint64_t syncs = f.disk.syncs;
    machine_work(&f.m, 30, 3);
    assert_int_equal(f.disk.syncs, syncs);
    machine_close(&f.m);
    sim_kill(&f.disk);
    assert_int_equal(machine_open(&f.m), 0);
    assert_int_equal(f.m.applied, 30);
    machine_close(&f.m);
    end(&f);
}

static void test_sizes(void **state)
{
    struct fixture f;
    struct buf big;
    begin(&f, 6);
    f.m.filling = 100000; /* far larger than a segment */
    f.m.options.snapshot_entries = 7;
    assert_int_equal(machine_open(&f.m), 0);
    machine_work(&f.m, 20, 4);
    buf_init(&big, 0);
    assert_int_equal(buf_reserve(&big, 1), 0);
    big.len = (size_t)1 << 31; /* refused by its length alone */
    assert_int_equal(replication_submit(f.m.r, &big), CONCLAVE_ETOOBIG);
    big.len = 0;
    buf_finish(&big);
    machine_close(&f.m);
    assert_int_equal(machine_open(&f.m), 0);
    assert_int_equal(f.m.applied, 20);
    machine_close(&f.m);
    end(&f);
}

/* Writes go on while a large snapshot is taken, and the log gets shorter for it. */
static void test_snapshot_under_load(void **state)
{
    struct fixture f;
    struct replication_stats stats;
    begin(&f, 7);
    f.m.options.snapshot_log_bytes = 20000;
    f.m.snapshot_filling = 3000000;
    f.m.filling = 100;
    assert_int_equal(machine_open(&f.m), 0);
    uint64_t peak = 0;
    while (f.m.snapshots < 5) {
        machine_work(&f.m, 20, 3);
        replication_stats(f.m.r, &stats);
        peak = stats.log_bytes > peak ? stats.log_bytes : peak;
        assert_true(f.m.acked < 20000);
    }
    machine_rest(&f.m);
    assert_true(f.m.trims >= 3);
    replication_stats(f.m.r, &stats);
    assert_true(stats.snapshot_index > 900);
    assert_true(stats.log_bytes < peak);
    uint64_t acked = f.m.acked;
    machine_close(&f.m);
    f.m.restored = 0;
    assert_int_equal(machine_open(&f.m), 0);
    assert_int_equal(f.m.restored, 1);
    assert_int_equal(f.m.applied, acked);
    machine_close(&f.m);
    size_t snapshots = 0;
    for (size_t i = 0; i < f.disk.live.n; i++) {
        snapshots += strstr(f.disk.live.names[i].path, ".snapshot") != NULL;
    }
    assert_int_equal(snapshots, 2);
    end(&f);
}

/* Counted entries alone bring no snapshot that is larger than the log that has them. */
static void test_snapshot_is_worth_it(void **state)
{
    struct fixture f;
    struct replication_stats stats;
    begin(&f, 9);
    f.m.options.snapshot_entries = 10;
    f.m.snapshot_filling = 100000;
    f.m.filling = 100;
    assert_int_equal(machine_open(&f.m), 0);
    machine_work(&f.m, 300, 4);
    machine_rest(&f.m);
    /* The count alone would bring thirty. */
    assert_true(f.m.snapshots >= 1 && f.m.snapshots <= 3);
    replication_stats(f.m.r, &stats);
    assert_false(stats.snapshot_worth);
    machine_close(&f.m);
    end(&f);
}

static void test_snapshot_by_bytes(void **state)
{
    struct fixture f;
    begin(&f, 8);
    f.m.options.snapshot_log_bytes = 20000;
    f.m.filling = 1000;
    assert_int_equal(machine_open(&f.m), 0);
    machine_work(&f.m, 200, 4);
    machine_rest(&f.m);
    assert_true(f.m.snapshots >= 2 && f.m.snapshots <= 6);
    machine_close(&f.m);
    end(&f);
}

/* Entries submitted before the close are written and applied; a snapshot under way is dropped. */
static void test_close_finishes(void **state)
{
    struct fixture f;
    begin(&f, 9);
    f.m.snapshot_filling = 3000000;
    assert_int_equal(machine_open(&f.m), 0);
    machine_work(&f.m, 2000, 50);
    replication_snapshot(f.m.r);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(machine_submit(&f.m), 0);
    }
    replication_loop_close(f.m.log, on_closed, &f.m);
    assert_int_equal(machine_submit(&f.m), CONCLAVE_ECLOSED);
    uv_run(&f.m.loop, UV_RUN_DEFAULT);
    assert_true(f.m.closed);
    assert_int_equal(f.m.acked, 2030);
    assert_int_equal(f.m.aborted, 1);
    assert_int_equal(machine_open(&f.m), 0);
    assert_int_equal(f.m.applied, 2030);
    assert_int_equal(f.m.warnings, 0);
    machine_close(&f.m);
    end(&f);
}

static void close_in_apply(void *ctx, uint64_t index, struct slice payload)
{
    struct machine *m = ctx;
    on_apply(ctx, index, payload);
    if (m->applied == 5) {
        replication_loop_close(m->log, on_closed, m);
    }
}

static void close_in_role(void *ctx, enum replication_role role, uint64_t leader, uint64_t term)
{
    struct machine *m = ctx;
    replication_loop_close(m->log, on_closed, m);
}

static void close_in_failed(void *ctx, int error, const char *text)
{
    struct machine *m = ctx;
    on_failed(ctx, error, text);
    replication_loop_close(m->log, on_closed, m);
}

static int close_in_step(void *ctx, size_t max_bytes, struct buf *out)
{
    struct machine *m = ctx;
    replication_loop_close(m->log, on_closed, m);
    return 1;
}

static void test_close_from_callbacks(void **state)
{
    for (int where = 0; where < 4; where++) {
        struct fixture f;
        begin(&f, 10);
        assert_int_equal(machine_open(&f.m), 0);
        struct replication_callbacks *c = &f.m.r->callbacks;
        if (where == 0) {
            c->apply = close_in_apply;
        } else if (where == 1) {
            c->role_changed = close_in_role;
        } else if (where == 2) {
            c->failed = close_in_failed;
            f.disk.fail_at = f.disk.calls + 1;
            f.disk.fail_errno = EIO;
        } else {
            c->snapshot_step = close_in_step;
        }
        for (int i = 0; i < 10 && where != 1; i++) {
            assert_int_equal(machine_submit(&f.m), 0);
        }
        if (where == 3) {
            machine_settle(&f.m);
            replication_snapshot(f.m.r);
        }
        uv_run(&f.m.loop, UV_RUN_DEFAULT);
        assert_true(f.m.closed);
        f.disk.fail_at = 0;
        assert_int_equal(machine_open(&f.m), 0);
        machine_close(&f.m);
        end(&f);
    }
}

static void test_locked(void **state)
{
    struct fixture f;
    struct machine second;
    begin(&f, 11);
    assert_int_equal(machine_open(&f.m), 0);
    machine_init(&second, &f.disk, 11);
    assert_int_equal(machine_open(&second), CONCLAVE_ELOCKED);
    assert_non_null(strstr(second.text, "4711"));
    machine_work(&f.m, 5, 2);
    machine_close(&f.m);
    second.submitted = 5;
    assert_int_equal(machine_open(&second), 0);
    assert_int_equal(second.applied, 5);
    machine_close(&second);
    machine_finish(&second);
    end(&f);
}

static void put_file(struct sim_disk *d, const char *path, const char *text)
{
    int fd = d->ops.open(d, path, FILE_REPLACE);
    assert_true(fd >= 0);
    assert_int_equal(d->ops.write(d, fd, text, strlen(text), 0), 0);
    d->ops.close(d, fd);
}

static void test_foreign(void **state)
{
    static const struct {
        const char *path;
        int error;
        const char *text;
    } rows[] = {
        {"data/notes.txt", CONCLAVE_EFOREIGN, "notes.txt"},
        {"data/version-2", CONCLAVE_EFOREIGN, "Apache ZooKeeper"},
        {"data/metadata", CONCLAVE_EFOREIGN, "metadata"},
        {"data/myid", 0, ""},
        {"data/lost+found", 0, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct fixture f;
        begin(&f, 12);
        assert_int_equal(f.disk.ops.make_folder(&f.disk, "data"), 0);
        put_file(&f.disk, rows[i].path, "1\n");
        uint64_t calls = f.disk.calls;
        assert_int_equal(machine_open(&f.m), rows[i].error);
        if (rows[i].error != 0) {
            assert_non_null(strstr(f.m.text, "not a Conclave data folder"));
            assert_non_null(strstr(f.m.text, rows[i].text));
            assert_int_equal(f.disk.calls, calls); /* not touched */
        } else {
            machine_close(&f.m);
        }
        end(&f);
    }
}

static void test_other_server(void **state)
{
    struct fixture f;
    begin(&f, 13);
    assert_int_equal(machine_open(&f.m), 0);
    machine_work(&f.m, 5, 2);
    machine_close(&f.m);
    f.m.options.server_id = 2;
    assert_int_equal(machine_open(&f.m), CONCLAVE_EFOREIGN);
    assert_non_null(strstr(f.m.text, "server 1"));
    f.m.options.server_id = 1;
    assert_int_equal(machine_open(&f.m), 0);
    machine_close(&f.m);
    end(&f);
}

/* A term above that of the last entry: the leader commits a barrier of its own before it says
 * so. */
static void test_barrier(void **state)
{
    struct fixture f;
    struct error_text problem = {NULL};
    struct metadata metadata;
    struct replication_stats stats;
    begin(&f, 14);
    assert_int_equal(machine_open(&f.m), 0);
    machine_work(&f.m, 5, 2);
    machine_close(&f.m);
    assert_int_equal(metadata_read(&f.disk.ops, "data", &metadata, &problem), 0);
    metadata.term = 4;
    assert_int_equal(metadata_write(&f.disk.ops, "data", &metadata, &problem), 0);

    assert_int_equal(machine_open(&f.m), 0);
    assert_int_equal(machine_submit(&f.m), CONCLAVE_EBUSY);
    while (f.m.roles == 0 || f.m.role == REPLICATION_CANDIDATE) {
        uv_run(&f.m.loop, UV_RUN_ONCE);
    }
    assert_int_equal(f.m.role, REPLICATION_LEADER);
    replication_stats(f.m.r, &stats);
    assert_int_equal(stats.term, 4);
    assert_int_equal(stats.applied_index, 7);
    machine_work(&f.m, 5, 2);
    machine_close(&f.m);
    assert_int_equal(machine_open(&f.m), 0);
    assert_int_equal(f.m.applied, 10);
    machine_close(&f.m);
    error_text_finish(&problem);
    end(&f);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

/* The machine's own disk, with threads. */
static void test_real_disk(void **state)
{
    struct machine m;
    struct machine second;
    char dir[] = "/tmp/conclave-test-XXXXXX";
    char data[64];
    char path[128];
    struct stat st;
    assert_non_null(mkdtemp(dir));
    snprintf(data, sizeof data, "%s/data", dir);
    machine_init(&m, NULL, 1);
    m.options.dir = data;
    m.options.segment_bytes = 1 << 16;
    m.options.snapshot_entries = 500;
    m.snapshot_filling = 1000000;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(machine_open_on(&m, file_ops_system()), 0);
        assert_int_equal(m.applied, i * 1000);
        machine_work(&m, 1000, 40);
        machine_close(&m);
        assert_int_equal(m.failed, 0);
        assert_int_equal(m.warnings, 0);
    }
    assert_true(m.snapshots >= 2);
    assert_int_equal(stat(data, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    snprintf(path, sizeof path, "%s/metadata", data);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);

    assert_int_equal(machine_open_on(&m, file_ops_system()), 0);
    machine_init(&second, NULL, 1);
    second.options.dir = data;
    assert_int_equal(machine_open_on(&second, file_ops_system()), CONCLAVE_ELOCKED);
    snprintf(path, sizeof path, "process %ld", (long)getpid());
    assert_non_null(strstr(second.text, path));
    machine_finish(&second);
    machine_close(&m);

    m.options.dir = "/proc/no/such/folder";
    assert_int_equal(machine_open_on(&m, file_ops_system()), CONCLAVE_EIO);
    assert_non_null(strstr(m.text, "/proc/no/such/folder"));
    machine_finish(&m);
    assert_int_equal(nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_run),
        cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_group_commit),
        cmocka_unit_test(test_nothing_before_sync),
        cmocka_unit_test(test_without_sync),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_snapshot_under_load),
        cmocka_unit_test(test_snapshot_is_worth_it),
        cmocka_unit_test(test_snapshot_by_bytes),
        cmocka_unit_test(test_close_finishes),
        cmocka_unit_test(test_close_from_callbacks),
        cmocka_unit_test(test_locked),
        cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_other_server),
        cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_real_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
