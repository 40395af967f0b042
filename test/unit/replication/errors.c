/*
 * Disk errors at every call in turn: either the log is given up, once, with nothing acknowledged
 * afterwards and no file of it touched again; or only a snapshot or a spare segment was lost, with
 * a warning. The next start has everything.
 */
#include "unit/replication/harness.inc"

struct outcome {
    bool finished; /* the failing call was never reached */
    bool refused;
    bool failed;
    bool warned;
};

static struct outcome run_with_error(uint64_t fail_at, int error, bool snapshots)
{
    struct sim_disk disk;
    struct machine m;
    struct outcome result = {0};
    int expected = error == ENOSPC ? CONCLAVE_ENOSPACE : CONCLAVE_EIO;
    sim_init(&disk, fail_at, false);
    machine_init(&m, &disk, fail_at);
    m.options.segment_bytes = 4096;
    m.options.snapshot_entries = snapshots ? 20 : 0;
    m.snapshot_filling = 600000;
    disk.fail_at = fail_at;
    disk.fail_errno = error;
    int rv = machine_open(&m);
    if (rv != 0) {
        result.refused = true;
        assert_int_equal(rv, expected);
        assert_true(strlen(m.text) > 10);
    } else {
        machine_work(&m, 100, 6);
        machine_rest(&m);
        result.failed = m.failed > 0;
        result.warned = m.warnings > 0;
        if (result.failed) {
            uint64_t acked = m.acked;
            uint64_t calls = disk.calls;
            assert_int_equal(m.error, expected);
            assert_non_null(strstr(m.text, "data"));
            for (int i = 0; i < 5; i++) {
                assert_int_equal(machine_submit(&m), CONCLAVE_EIO);
                machine_turn(&m);
            }
            replication_snapshot(m.r);
            machine_rest(&m);
            assert_int_equal(m.failed, 1);
            assert_int_equal(m.acked, acked);
            assert_int_equal(disk.calls, calls);
        } else {
            assert_int_equal(m.acked, 100);
        }
        machine_close(&m);
        assert_true(m.failed <= 1);
    }
    result.finished = disk.calls < fail_at;
    sim_power_cut(&disk);
    disk.fail_at = 0;
    if (machine_open(&m) != 0) {
        fail_msg("error %d at call %llu: the next start refuses: %s", error,
                 (unsigned long long)fail_at, m.text);
    }
    machine_work(&m, 20, 6);
    assert_int_equal(m.failed, 0);
    machine_close(&m);
    machine_finish(&m);
    sim_finish(&disk);
    return result;
}

static void run_all(int error, bool snapshots)
{
    unsigned refused = 0;
    unsigned failed = 0;
    unsigned warned = 0;
    for (uint64_t at = 1;; at++) {
        struct outcome o = run_with_error(at, error, snapshots);
        if (o.finished) {
            break;
        }
        refused += o.refused;
        failed += o.failed;
        warned += o.warned && !o.failed;
        assert_true(o.refused || o.failed || o.warned || at > 50);
    }
    assert_true(refused > 10);
    assert_true(failed > 40);
    assert_true(warned > 0);
}

static void test_eio(void **state)
{
    run_all(EIO, false);
}

static void test_eio_with_snapshots(void **state)
{
    run_all(EIO, true);
}

static void test_no_space(void **state)
{
    run_all(ENOSPC, true);
}

/* The sync fails and the next one would succeed: it is not asked. */
static void test_sync_is_not_retried(void **state)
{
    struct sim_disk disk;
    struct machine m;
    sim_init(&disk, 1, false);
    machine_init(&m, &disk, 1);
    assert_int_equal(machine_open(&m), 0);
    machine_work(&m, 5, 1);
    uint64_t acked = m.acked;
    disk.fail_at = disk.calls + 2; /* the write, then the sync */
    disk.fail_errno = EIO;
    assert_int_equal(machine_submit(&m), 0);
    machine_settle(&m);
    uint64_t syncs = disk.syncs;
    assert_int_equal(m.failed, 1);
    assert_non_null(strstr(m.text, "sync"));
    assert_int_equal(m.acked, acked);
    assert_int_equal(machine_submit(&m), CONCLAVE_EIO);
    machine_rest(&m);
    machine_close(&m);
    assert_int_equal(disk.syncs, syncs);
    assert_int_equal(m.failed, 1);
    machine_finish(&m);
    sim_finish(&disk);
}

/* The state machine cannot give its snapshot. */
static int broken_step(void *ctx, size_t max_bytes, struct buf *out)
{
    return CONCLAVE_ENOMEM;
}

static void test_snapshot_step_fails(void **state)
{
    struct sim_disk disk;
    struct machine m;
    sim_init(&disk, 1, false);
    machine_init(&m, &disk, 1);
    assert_int_equal(machine_open(&m), 0);
    machine_work(&m, 10, 2);
    m.r->callbacks.snapshot_step = broken_step;
    replication_snapshot(m.r);
    machine_rest(&m);
    assert_int_equal(m.failed, 0);
    assert_int_equal(m.aborted, 1);
    assert_int_equal(m.snapshots, 0);
    assert_true(m.warnings > 0);
    m.r->callbacks.snapshot_step = on_snapshot_step;
    replication_snapshot(m.r);
    machine_rest(&m);
    assert_int_equal(m.snapshots, 1);
    machine_work(&m, 10, 2);
    machine_close(&m);
    machine_finish(&m);
    sim_finish(&disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eio),
        cmocka_unit_test(test_eio_with_snapshots),
        cmocka_unit_test(test_no_space),
        cmocka_unit_test(test_sync_is_not_retried),
        cmocka_unit_test(test_snapshot_step_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
