/*
 * Power cuts and kills at any call to the disk, over many seeds: what was acknowledged is there
 * afterwards, in order, once, and a start never refuses what a crash alone can leave.
 */
#include "unit/replication/harness.inc"

static void configure(struct machine *m, uint64_t seed)
{
    m->filling = seed % 3 == 0 ? 20 : seed % 3 == 1 ? 400 : 3000;
    m->options.snapshot_entries = seed % 2 == 0 ? 40 : 0;
    m->options.segment_bytes = seed % 5 == 0 ? 4096 : 16384;
    m->options.snapshots_kept = 2 + (int)(seed % 2);
    m->options.trailing_entries = seed % 7;
    m->snapshot_filling = seed % 4 == 0 ? 700000 : 3000;
}

/* One life after another on the same disk, each ended in the middle of some call. */
static void run_seed(uint64_t seed, bool threads)
{
    struct sim_disk disk;
    struct machine m;
    sim_init(&disk, seed, threads);
    machine_init(&m, &disk, seed);
    configure(&m, seed);
    for (int life = 0; life < 6; life++) {
        bool power = prng_next(&m.prng) % 2 == 0;
        disk.stop_at = disk.calls + 1 + prng_next(&m.prng) % (life == 0 ? 40 : 200);
        if (machine_open(&m) == 0) {
            while (!disk.stopped && m.failed == 0) {
                machine_work(&m, 30, 12);
                if (prng_next(&m.prng) % 8 == 0 && m.failed == 0) {
                    break; /* a clean end now and then */
                }
            }
            machine_close(&m);
        } else if (!disk.stopped) {
            fail_msg("seed %llu life %d: refused: %s", (unsigned long long)seed, life, m.text);
        }
        if (power) {
            sim_power_cut(&disk);
        } else {
            sim_kill(&disk);
        }
    }
    if (machine_open(&m) != 0) {
        fail_msg("seed %llu: refused at the end: %s", (unsigned long long)seed, m.text);
    }
    machine_work(&m, 50, 5);
    assert_int_equal(m.failed, 0);
    machine_close(&m);
    machine_finish(&m);
    sim_finish(&disk);
}

static void test_any_call(void **state)
{
    const char *only = getenv("SEED");
    uint64_t first = only != NULL ? strtoull(only, NULL, 10) : 1;
    for (uint64_t seed = first; seed < first + (only != NULL ? 1 : 400); seed++) {
        run_seed(seed, false);
    }
}

static void test_with_threads(void **state)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        run_seed(seed, true);
    }
}

/* The first start, stopped at each of its calls in turn: the next one always succeeds. */
static void test_first_start(void **state)
{
    for (int power = 0; power < 2; power++) {
        for (uint64_t stop = 1;; stop++) {
            struct sim_disk disk;
            struct machine m;
            sim_init(&disk, stop, false);
            machine_init(&m, &disk, stop);
            disk.stop_at = stop;
            int rv = machine_open(&m);
            if (rv == 0) {
                machine_close(&m);
            }
            bool stopped = disk.stopped;
            if (power) {
                sim_power_cut(&disk);
            } else {
                sim_kill(&disk);
            }
            if (machine_open(&m) != 0) {
                fail_msg("stopped at call %llu: %s", (unsigned long long)stop, m.text);
            }
            machine_work(&m, 5, 2);
            machine_close(&m);
            machine_finish(&m);
            sim_finish(&disk);
            if (!stopped) {
                break;
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_start),
        cmocka_unit_test(test_any_call),
        cmocka_unit_test(test_with_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
