/*
 * Damaged folders: one bit changed anywhere, files cut short, files missing in every combination,
 * files of others. A start either brings back everything that was acknowledged or refuses; it never
 * starts with less, least of all with nothing.
 */
#include "unit/replication/harness.inc"

#include "replication/disk/damage.h"

/* A folder with two snapshots, a trimmed log in several segments, and entries behind the newest
 * snapshot. */
struct history {
    struct sim_disk disk;
    struct machine m;
    uint64_t entries; /* acknowledged */
    /* where the last frame begins in the last segment (when not closed cleanly) */
    uint64_t last_start;
    uint64_t last_end;
    char last_segment[96];
    struct journal_segment segments[32];
    size_t n_segments;
    uint64_t covered; /* up to here the two newest snapshots both know the log */
};

static void history_make_trailing(struct history *h, bool clean, uint64_t trailing)
{
    sim_init(&h->disk, 1, false);
    machine_init(&h->m, &h->disk, 1);
    h->m.options.segment_bytes = 4096;
    h->m.options.trailing_entries = trailing;
    h->m.snapshot_filling = 3000;
    h->m.filling = 150;
    assert_int_equal(machine_open(&h->m), 0);
    for (int i = 0; i < 4; i++) {
        machine_work(&h->m, 27, 4);
        replication_snapshot(h->m.r);
        machine_rest(&h->m);
    }
    machine_work(&h->m, 40, 4);
    struct journal *j = &h->m.r->journal;
    do { /* the last frame must not be the first of its segment */
        h->last_start = j->position;
        assert_int_equal(machine_submit(&h->m), 0);
        machine_settle(&h->m);
        h->last_end = j->position;
    } while (h->last_end < h->last_start);
    snprintf(h->last_segment, sizeof h->last_segment, "data/log/%016llu.log",
             (unsigned long long)j->metadata.last_segment);
    assert_true(h->last_end > h->last_start);
    assert_true(j->n_segments >= 3 && j->n_segments <= 32);
    h->n_segments = j->n_segments;
    memcpy(h->segments, j->segments, j->n_segments * sizeof *j->segments);
    h->covered = h->m.r->snapshot.kept[1].index;
    assert_true(h->m.snapshots >= 3);
    h->entries = h->m.acked;
    if (!clean) {
        h->disk.fail_at = h->disk.calls + 1; /* no seal */
        h->disk.fail_errno = EIO;
    }
    machine_close(&h->m);
    h->disk.fail_at = 0;
}

static void history_make(struct history *h, bool clean)
{
    history_make_trailing(h, clean, 3);
    assert_true(h->segments[0].sequence > 1);
}

static void history_finish(struct history *h)
{
    machine_finish(&h->m);
    sim_finish(&h->disk);
}

/* Starts on a (damaged) copy with fewer promises, and says how many entries are back, or the
 * error. */
static int64_t try_start(struct history *h, struct sim_disk *copy, uint64_t promised)
{
    int64_t result;
    uint64_t acked = h->m.acked;
    uint64_t submitted = h->m.submitted;
    h->m.disk = copy;
    h->m.acked = promised;
    h->m.submitted = h->entries;
    int rv = machine_open(&h->m);
    if (rv == 0) {
        result = (int64_t)h->m.applied;
        copy->fail_at = copy->calls + 1; /* no seal */
        copy->fail_errno = EIO;
        machine_close(&h->m);
        copy->fail_at = 0;
    } else {
        result = rv;
    }
    h->m.disk = &h->disk;
    h->m.acked = acked;
    h->m.submitted = submitted;
    return result;
}

static void check(struct history *h, struct sim_disk *copy, const char *what, const char *path,
                  size_t offset)
{
    int64_t got = try_start(h, copy, 0);
    bool refused = got == CONCLAVE_ECORRUPT || got == CONCLAVE_EFOREIGN;
    if (!refused && got != (int64_t)h->entries) {
        fail_msg("%s %s at %zu: %lld of %llu entries (%s)", what, path, offset, (long long)got,
                 (unsigned long long)h->entries, got < 0 ? h->m.text : h->m.last_warning);
    }
    if (refused) {
        assert_non_null(strstr(h->m.text, "data"));
    }
}

/* Bytes that are not all the same are worth a flip each; of long runs of zeroes a few. */
static bool worth(const struct sim_bytes *b, size_t at)
{
    return at % 61 == 0 || b->data[at] != 0;
}

static void flip_everywhere(struct history *h, bool clean)
{
    for (size_t f = 0; f < h->disk.live.n; f++) {
        const char *path = h->disk.live.names[f].path;
        struct sim_bytes *original = sim_bytes_of(&h->disk, path);
        size_t step = original == NULL || original->len < 600 ? 1 : 5;
        for (size_t at = 0; original != NULL && at < original->len; at += step) {
            bool last = strcmp(path, h->last_segment) == 0 && at >= h->last_start;
            if (!worth(original, at) || (!clean && last)) {
                continue;
            }
            struct sim_disk copy;
            sim_clone(&copy, &h->disk);
            sim_bytes_of(&copy, path)->data[at] ^= (uint8_t)(1u << (at % 8));
            check(h, &copy, "flip", path, at);
            sim_finish(&copy);
        }
    }
}

/* After a clean end a flip anywhere is found or does not matter; also in the very last entry. */
static void test_flip_clean(void **state)
{
    struct history h = {0};
    history_make(&h, true);
    flip_everywhere(&h, true);
    history_finish(&h);
}

/* After a crash the same holds but for the last frame. */
static void test_flip_crashed(void **state)
{
    struct history h = {0};
    history_make(&h, false);
    flip_everywhere(&h, false);
    history_finish(&h);
}

/* The last frame with a flip looks like a torn one: it is cut, and said to be. */
static void test_flip_last_frame(void **state)
{
    struct history h = {0};
    history_make(&h, false);
    for (size_t at = h.last_start; at < h.last_end; at++) {
        struct sim_disk copy;
        sim_clone(&copy, &h.disk);
        sim_bytes_of(&copy, h.last_segment)->data[at] ^= (uint8_t)(1u << (at % 8));
        int64_t got = try_start(&h, &copy, h.entries - 1);
        assert_int_equal(got, h.entries - 1);
        assert_non_null(strstr(h.m.last_warning, "log_cut"));
        sim_finish(&copy);
    }
    history_finish(&h);
}

/* The last write is there only up to some byte: everything before it comes back, and the log
 * goes on. */
static void test_torn_tail(void **state)
{
    struct history h = {0};
    history_make(&h, false);
    uint32_t run = h.m.runs[h.entries]; /* the work on a copy overwrites it */
    for (size_t cut = h.last_start; cut < h.last_end; cut++) {
        struct sim_disk copy;
        sim_clone(&copy, &h.disk);
        struct sim_bytes *b = sim_bytes_of(&copy, h.last_segment);
        bool changed = false;
        for (size_t i = cut; i < h.last_end; i++) {
            changed = changed || b->data[i] != 0;
            b->data[i] = 0;
        }
        int64_t want = changed ? (int64_t)h.entries - 1 : (int64_t)h.entries;
        assert_int_equal(try_start(&h, &copy, (uint64_t)want), want);

        h.m.disk = &copy;
        sim_kill(&copy);
        h.m.acked = (uint64_t)want;
        assert_int_equal(machine_open(&h.m), 0);
        assert_int_equal(h.m.warnings, 0); /* it was cut for good */
        machine_work(&h.m, 10, 3);
        assert_int_equal(h.m.failed, 0);
        machine_close(&h.m);
        h.m.disk = &h.disk;
        h.m.acked = h.m.submitted = h.entries;
        h.m.runs[h.entries] = run;
        sim_finish(&copy);
    }
    history_finish(&h);
}

static void test_cut_short(void **state)
{
    struct history h = {0};
    history_make(&h, true);
    for (size_t f = 0; f < h.disk.live.n; f++) {
        const char *path = h.disk.live.names[f].path;
        struct sim_bytes *original = sim_bytes_of(&h.disk, path);
        for (size_t len = 0; original != NULL && len < original->len;
             len += len % 512 == 0 ? 7 : 505) {
            struct sim_disk copy;
            sim_clone(&copy, &h.disk);
            sim_bytes_of(&copy, path)->len = len;
            check(&h, &copy, "cut", path, len);
            sim_finish(&copy);
        }
    }
    history_finish(&h);
}

/* Also when nothing but the entries themselves remains of the last segment. */
static void test_cut_short_crashed(void **state)
{
    struct history h = {0};
    history_make(&h, false);
    for (size_t len = 0; len <= h.last_end; len++) {
        struct sim_disk copy;
        sim_clone(&copy, &h.disk);
        sim_bytes_of(&copy, h.last_segment)->len = len;
        check(&h, &copy, "cut", h.last_segment, len);
        sim_finish(&copy);
    }
    history_finish(&h);
}

static void test_missing_files(void **state)
{
    struct history h = {0};
    size_t files[16];
    size_t n = 0;
    unsigned refused = 0;
    unsigned complete = 0;
    history_make(&h, true);
    for (size_t i = 0; i < h.disk.live.n; i++) {
        const char *path = h.disk.live.names[i].path;
        if (h.disk.live.names[i].file != NULL && strstr(path, "lock") == NULL &&
            strstr(path, "spare") == NULL) {
            assert_true(n < 12);
            files[n++] = i;
        }
    }
    assert_true(n >= 7);
    for (unsigned subset = 1; subset < 1u << n; subset++) {
        struct sim_disk copy;
        sim_clone(&copy, &h.disk);
        for (size_t i = 0; i < n; i++) {
            if ((subset & 1u << i) != 0) {
                names_remove(&copy.live, h.disk.live.names[files[i]].path);
                names_remove(&copy.durable, h.disk.live.names[files[i]].path);
            }
        }
        int64_t got = try_start(&h, &copy, 0);
        if (got == (int64_t)h.entries) {
            complete++;
        } else if (got == CONCLAVE_ECORRUPT || got == CONCLAVE_EFOREIGN) {
            refused++;
        } else {
            fail_msg("without files %x: %lld of %llu entries", subset, (long long)got,
                     (unsigned long long)h.entries);
        }
        sim_finish(&copy);
    }
    assert_true(complete >= 1); /* without the newest snapshot, or without the older one */
    assert_true(refused > complete);
    history_finish(&h);
}

/* A log that was never trimmed brings everything back without any snapshot. */
static void test_log_alone(void **state)
{
    struct sim_disk disk;
    struct machine m;
    sim_init(&disk, 3, false);
    machine_init(&m, &disk, 3);
    assert_int_equal(machine_open(&m), 0);
    machine_work(&m, 60, 5);
    struct replication_stats stats = {.snapshot_busy = true};
    replication_stats(m.r, &stats);
    assert_false(stats.snapshot_busy);
    replication_snapshot(m.r);
    replication_stats(m.r, &stats);
    assert_true(stats.snapshot_busy);
    machine_rest(&m);
    replication_stats(m.r, &stats);
    assert_false(stats.snapshot_busy);
    assert_int_equal(m.snapshots, 1);
    machine_work(&m, 10, 5);
    machine_close(&m);
    for (size_t i = 0; i < disk.live.n; i++) {
        if (strstr(disk.live.names[i].path, ".snapshot") != NULL) {
            disk.live.names[i].file->live.data[100] ^= 1;
        }
    }
    assert_int_equal(machine_open(&m), 0);
    assert_int_equal(m.applied, 70);
    assert_int_equal(m.restored, 0);
    assert_true(m.warnings >= 1);
    machine_close(&m);
    machine_finish(&m);
    sim_finish(&disk);
}

/* The newest snapshot is damaged: the one before and the log after it serve, and the next
 * snapshot heals it. */
static void test_older_snapshot(void **state)
{
    struct history h = {0};
    history_make(&h, true);
    uint64_t newest = 0;
    char path[96];
    for (size_t i = 0; i < h.disk.live.n; i++) {
        unsigned long long index;
        if (sscanf(h.disk.live.names[i].path, "data/snapshot/%llu.snapshot", &index) == 1 &&
            index > newest) {
            newest = index;
        }
    }
    snprintf(path, sizeof path, "data/snapshot/%020llu.snapshot", (unsigned long long)newest);
    sim_bytes_of(&h.disk, path)->len--;
    assert_int_equal(machine_open(&h.m), 0);
    assert_int_equal(h.m.applied, h.entries);
    assert_true(h.m.warnings >= 1);
    struct replication_stats stats;
    replication_stats(h.m.r, &stats);
    assert_true(stats.snapshot_index > 0 && stats.snapshot_index < newest);
    for (int i = 0; i < 4; i++) {
        replication_snapshot(h.m.r);
        machine_rest(&h.m);
        machine_work(&h.m, 30, 3);
    }
    machine_close(&h.m);
    assert_null(sim_bytes_of(&h.disk, path)); /* trimmed with the others */
    assert_int_equal(machine_open(&h.m), 0);
    assert_int_equal(h.m.warnings, 0);
    machine_close(&h.m);
    history_finish(&h);
}

/* A snapshot file in memory, as operators carry it: whole, or refused, whatever byte is wrong. */
static void test_snapshot_in_memory(void **state)
{
    struct history h = {0};
    struct slice content;
    history_make(&h, true);
    const struct sim_bytes *bytes = NULL;
    for (size_t i = 0; i < h.disk.live.n; i++) {
        if (strstr(h.disk.live.names[i].path, ".snapshot") != NULL) {
            bytes = &h.disk.live.names[i].file->live;
        }
    }
    assert_non_null(bytes);
    assert_int_equal(snapshot_content(slice_make(bytes->data, bytes->len), &content), 0);
    assert_true(content.len >= 24);
    assert_int_equal(content.len, 24 + get_le64(content.data + 16));
    assert_true(get_le64(content.data) > 0);
    struct slice untouched = content;
    for (size_t n = 0; n < bytes->len; n++) {
        uint8_t *copy = malloc(bytes->len);
        assert_non_null(copy);
        memcpy(copy, bytes->data, bytes->len);
        copy[n] ^= 0x40;
        assert_int_equal(snapshot_content(slice_make(copy, bytes->len), &content),
                         CONCLAVE_ECORRUPT);
        assert_int_equal(snapshot_content(slice_make(bytes->data, n), &content), CONCLAVE_ECORRUPT);
        free(copy);
    }
    assert_ptr_equal(content.data, untouched.data);
    history_finish(&h);
}

/* The last entries are in a snapshot that is durable, so they were in the log: a log that ends before
 * it has lost something, and nobody starts with less. */
static void test_log_ends_before_the_snapshot(void **state)
{
    struct history h = {0};
    history_make(&h, false);
    assert_int_equal(machine_open(&h.m), 0);
    machine_work(&h.m, 1, 1);
    struct journal *j = &h.m.r->journal;
    uint64_t start = j->position;
    assert_int_equal(machine_submit(&h.m), 0);
    machine_settle(&h.m);
    if (j->position < start) {
        start = SEGMENT_HEADER_SIZE;
    }
    snprintf(h.last_segment, sizeof h.last_segment, "data/log/%016llu.log",
             (unsigned long long)j->metadata.last_segment);
    replication_snapshot(h.m.r);
    machine_rest(&h.m);
    h.entries = h.m.acked;
    h.disk.fail_at = h.disk.calls + 1; /* no seal */
    h.disk.fail_errno = EIO;
    machine_close(&h.m);
    h.disk.fail_at = 0;
    sim_bytes_of(&h.disk, h.last_segment)->data[start + FRAME_HEADER_SIZE + 3] ^= 1;
    assert_int_equal(try_start(&h, &h.disk, 0), CONCLAVE_ECORRUPT);
    assert_non_null(strstr(h.m.text, "snapshot"));
    history_finish(&h);
}

static void segment_name(const struct history *h, size_t i, char out[96])
{
    snprintf(out, 96, "data/log/%016llu.log", (unsigned long long)h->segments[i].sequence);
}

enum harm { HARM_HEADER, HARM_FRAME, HARM_END, HARM_LENGTH, HARM_NAME, HARMS };

static void harm_segment(struct sim_disk *copy, const char *path, enum harm harm)
{
    struct sim_bytes *b = sim_bytes_of(copy, path);
    switch (harm) {
    case HARM_HEADER:
        b->data[48] ^= 1;
        break;
    case HARM_FRAME:
        b->data[SEGMENT_HEADER_SIZE + FRAME_HEADER_SIZE + 20] ^= 1;
        break;
    case HARM_END: /* of what is written, wherever that is: found by the segment that follows */
        for (size_t at = b->len; at-- > SEGMENT_HEADER_SIZE;) {
            if (b->data[at] != 0) {
                b->data[at] ^= 1;
                break;
            }
        }
        break;
    case HARM_LENGTH:
        b->len = 700;
        break;
    default:
        names_remove(&copy->live, path);
        names_remove(&copy->durable, path);
    }
}

/* After a start on the copy the harmed segment is gone with those before it, nothing else is, and
 * the next start finds nothing amiss. */
static void check_left_out(struct history *h, struct sim_disk *copy, size_t harmed)
{
    char path[96];
    assert_int_equal(try_start(h, copy, h->entries), h->entries);
    assert_non_null(strstr(h->m.last_warning, "log_left_out"));
    for (size_t i = 0; i < h->n_segments; i++) {
        segment_name(h, i, path);
        assert_int_equal(sim_bytes_of(copy, path) == NULL, i <= harmed);
    }
    sim_kill(copy);
    assert_int_equal(try_start(h, copy, h->entries), h->entries);
    assert_int_equal(h->m.warnings, 0);
}

/* A segment that nobody needs, since two good snapshots are newer, does not keep the server from
 * starting, however it is damaged; one that somebody needs does, and stays as it is. */
static void test_needless_segment(void **state)
{
    struct history h = {0};
    char path[96];
    unsigned needless = 0;
    unsigned needed = 0;
    history_make_trailing(&h, false, 70);
    for (size_t i = 0; i + 1 < h.n_segments; i++) {
        for (int harm = 0; harm < HARMS; harm++) {
            struct sim_disk copy;
            sim_clone(&copy, &h.disk);
            segment_name(&h, i, path);
            harm_segment(&copy, path, (enum harm)harm);
            if (h.segments[i + 1].first_index <= h.covered + 1) {
                check_left_out(&h, &copy, i);
                needless++;
            } else {
                assert_int_equal(try_start(&h, &copy, 0), CONCLAVE_ECORRUPT);
                assert_true(harm == HARM_NAME || sim_bytes_of(&copy, path) != NULL);
                needed++;
            }
            sim_finish(&copy);
        }
    }
    assert_true(needless >= 2 * HARMS && needed >= HARMS);
    history_finish(&h);
}

/* Two in a row, so that the header behind the first says nothing either. */
static void test_needless_segments(void **state)
{
    struct history h = {0};
    struct sim_disk copy;
    char path[96];
    history_make_trailing(&h, false, 70);
    assert_true(h.segments[2].first_index <= h.covered + 1);
    sim_clone(&copy, &h.disk);
    for (size_t i = 0; i < 2; i++) {
        segment_name(&h, i, path);
        harm_segment(&copy, path, HARM_HEADER);
    }
    check_left_out(&h, &copy, 1);
    sim_finish(&copy);
    history_finish(&h);
}

/* With one good snapshot left a damaged segment may be the only way back, and stays. */
static void test_needless_by_one_snapshot(void **state)
{
    struct history h = {0};
    char path[96];
    char damaged[96];
    history_make_trailing(&h, true, 70);
    segment_name(&h, 0, path);
    snprintf(damaged, sizeof damaged, "data/snapshot/%020llu.snapshot",
             (unsigned long long)h.covered);
    harm_segment(&h.disk, path, HARM_FRAME);
    sim_bytes_of(&h.disk, damaged)->data[100] ^= 1;
    assert_int_equal(try_start(&h, &h.disk, 0), CONCLAVE_ECORRUPT);
    assert_non_null(strstr(h.m.text, path));
    assert_non_null(sim_bytes_of(&h.disk, path));
    history_finish(&h);
}

/* A file of another cluster is nobody's to remove, needed or not. */
static void test_needless_of_others(void **state)
{
    struct history h = {0};
    struct history other = {0};
    char path[96];
    history_make_trailing(&h, true, 70);
    history_make_trailing(&other, true, 70);
    segment_name(&h, 0, path);
    sim_copy(sim_bytes_of(&h.disk, path), sim_bytes_of(&other.disk, path));
    assert_int_equal(try_start(&h, &h.disk, 0), CONCLAVE_ECORRUPT);
    assert_non_null(sim_bytes_of(&h.disk, path));
    history_finish(&h);
    history_finish(&other);
}

/* The start that leaves a segment out may end at any call: the next one comes to the same. */
static void test_needless_and_power_cuts(void **state)
{
    struct history h = {0};
    char path[96];
    bool whole = false;
    history_make_trailing(&h, false, 70);
    segment_name(&h, 1, path);
    for (uint64_t call = 1; !whole; call++) {
        struct sim_disk copy;
        sim_clone(&copy, &h.disk);
        harm_segment(&copy, path, HARM_FRAME);
        struct sim_file *file = names_find(&copy.live, path)->file;
        sim_copy(&file->synced, &file->live);
        copy.stop_at = copy.calls + call;
        whole = try_start(&h, &copy, 0) == (int64_t)h.entries && !copy.stopped;
        sim_power_cut(&copy);
        assert_int_equal(try_start(&h, &copy, h.entries), h.entries);
        assert_null(sim_bytes_of(&copy, path));
        sim_finish(&copy);
        assert_true(call < 100);
    }
    history_finish(&h);
}

/* Files of the same name from another folder. */
static void test_files_of_others(void **state)
{
    struct history h = {0};
    struct history other = {0};
    history_make(&h, true);
    history_make(&other, true);
    for (size_t f = 0; f < h.disk.live.n; f++) {
        const char *path = h.disk.live.names[f].path;
        struct sim_bytes *theirs = sim_bytes_of(&other.disk, path);
        if (theirs == NULL || strstr(path, "lock") != NULL || strstr(path, "metadata") != NULL) {
            continue;
        }
        struct sim_disk copy;
        sim_clone(&copy, &h.disk);
        sim_copy(sim_bytes_of(&copy, path), theirs);
        int64_t got = try_start(&h, &copy, 0);
        if (strstr(path, ".snapshot") == NULL && strstr(path, "spare") == NULL) {
            assert_int_equal(got, CONCLAVE_ECORRUPT);
        } else {
            assert_int_equal(got, h.entries);
        }
        sim_finish(&copy);
    }
    history_finish(&h);
    history_finish(&other);
}

/* Putting aside. */

static bool worth_keeping(const char *path)
{
    return strcmp(path, "data/" FORMAT_FILE) == 0 || strcmp(path, "data/" METADATA_FILE) == 0 ||
           strstr(path, ".log") != NULL || strstr(path, ".snapshot") != NULL;
}

/* All that the folder held is there, as it was, under the folder's new name, and no more where it was but what a start
 * has made since. */
static void lies_aside(const struct history *h, struct sim_disk *copy, const char *aside,
                       bool started)
{
    for (size_t i = 0; i < h->disk.live.n; i++) {
        const char *path = h->disk.live.names[i].path;
        char moved[96];
        if (h->disk.live.names[i].file == NULL || !worth_keeping(path)) {
            continue;
        }
        assert_true(snprintf(moved, sizeof moved, "data/%s/%s", aside, path + 5) < 96);
        const struct sim_bytes *before = &h->disk.live.names[i].file->live;
        const struct sim_bytes *after = sim_bytes_of(copy, moved);
        assert_non_null(after);
        assert_int_equal(after->len, before->len);
        assert_memory_equal(after->data, before->data, before->len);
        assert_true(started || sim_bytes_of(copy, path) == NULL);
    }
}

static void all_lies_aside(const struct history *h, struct sim_disk *copy, const char *aside)
{
    lies_aside(h, copy, aside, false);
}

/* Nobody founds anything in a folder that is being healed: a server alone is refused, and so is whoever would
 * begin a new log. Who joins takes part without a vote, and knows it after a restart. */
static void only_joins(struct history *h, struct sim_disk *copy, const uint8_t *cluster)
{
    static const struct configuration_member three[] = {
        {1, MEMBER_VOTER, "a:1:2"}, {2, MEMBER_VOTER, "b:1:2"}, {3, MEMBER_VOTER, "c:1:2"}};
    struct error_text problem = {NULL};
    struct metadata metadata;
    struct marker marker;
    struct replication_options options = h->m.options;
    h->m.disk = copy;
    assert_int_equal(machine_open(&h->m), CONCLAVE_EFOREIGN);
    assert_non_null(strstr(h->m.text, "repair has begun"));
    h->m.options.founders = three;
    h->m.options.n_founders = 3;
    assert_int_equal(machine_open(&h->m), CONCLAVE_EFOREIGN);
    h->m.options.join = true;
    h->m.options.cluster_given = true;
    memcpy(h->m.options.cluster, cluster, FORMAT_CLUSTER_SIZE);
    assert_int_equal(machine_open(&h->m), CONCLAVE_EFOREIGN); /* it has no links here */
    assert_non_null(strstr(h->m.text, "start it as a member"));
    assert_int_equal(metadata_read(&copy->ops, "data", &metadata, &problem), 0);
    assert_true(metadata.joining);
    assert_int_equal(marker_read(&copy->ops, "data", &marker, &problem), 0);
    assert_true(marker.ready);
    assert_memory_equal(marker.cluster, cluster, FORMAT_CLUSTER_SIZE);
    assert_null(sim_bytes_of(copy, "data/" HEALING_FILE));
    error_text_finish(&problem);
    h->m.options = options;
    h->m.disk = &h->disk;
}

static void look(struct sim_disk *disk, int want, struct damage_look *ret)
{
    char *text = NULL;
    assert_int_equal(damage_look("data", &disk->ops, ret, &text), want);
    assert_true((text != NULL) == (want != 0));
    free(text);
}

static char *put_aside(struct sim_disk *disk, const struct damage_look *l, int want)
{
    char *text = NULL;
    char *name = NULL;
    assert_int_equal(damage_put_aside("data", &disk->ops, 1700000000000, l->cluster, &name, &text),
                     want);
    assert_true((text != NULL) == (want != 0));
    free(text);
    return name;
}

static void test_put_aside(void **state)
{
    struct history h = {0};
    struct damage_look before;
    struct damage_look l;
    history_make(&h, true);
    look(&h.disk, 0, &before);
    assert_false(before.fresh || before.healing);
    assert_true(before.cluster_known);
    struct sim_disk copy;
    sim_clone(&copy, &h.disk);
    char *name = put_aside(&copy, &before, 0);
    assert_string_equal(name, DAMAGE_ASIDE "20231114T221320Z");
    all_lies_aside(&h, &copy, name);
    free(name);
    look(&copy, 0, &l);
    assert_true(l.fresh && l.healing && l.cluster_known);
    assert_memory_equal(l.cluster, before.cluster, sizeof l.cluster);
    only_joins(&h, &copy, before.cluster);
    look(&copy, 0, &l);
    assert_false(l.fresh || l.healing);
    name = put_aside(&copy, &before, 0); /* in the same second */
    assert_string_equal(name, DAMAGE_ASIDE "20231114T221320Z-2");
    all_lies_aside(&h, &copy, DAMAGE_ASIDE "20231114T221320Z");
    free(name);
    sim_finish(&copy);
    history_finish(&h);
}

/* The process dies, or the power fails, at each change of the disk: then the folder is as it was, or the next
 * start goes on with it, and nothing is ever lost. */
static void test_put_aside_crashed(void **state)
{
    for (int power = 0; power < 2; power++) {
        struct history h = {0};
        struct damage_look before;
        unsigned begun = 0;
        history_make(&h, true);
        look(&h.disk, 0, &before);
        for (uint64_t stop = 1;; stop++) {
            struct sim_disk copy;
            struct damage_look l;
            char *text = NULL;
            char *name = NULL;
            sim_clone(&copy, &h.disk);
            copy.prng.state = stop;
            copy.stop_at = copy.calls + stop;
            int rv =
                damage_put_aside("data", &copy.ops, 1700000000000, before.cluster, &name, &text);
            free(text);
            if (rv == 0) {
                free(name);
                sim_finish(&copy);
                break;
            }
            if (power == 1) {
                sim_power_cut(&copy);
            } else {
                sim_kill(&copy);
            }
            look(&copy, 0, &l);
            assert_true(l.fresh == l.healing);
            if (!l.healing) {
                assert_int_equal(try_start(&h, &copy, h.entries), h.entries);
            } else {
                begun++;
                name = put_aside(&copy, &l, 0);
                all_lies_aside(&h, &copy, name);
                only_joins(&h, &copy, before.cluster);
                free(name);
            }
            sim_finish(&copy);
        }
        assert_true(begun > 5);
        history_finish(&h);
    }
}

/* The first start behind it dies at each change of the disk, and all is tried again: what it had begun never comes to
 * lie over what was put aside. */
static void test_put_aside_twice(void **state)
{
    struct history h = {0};
    struct damage_look before;
    struct damage_look l;
    struct sim_disk aside;
    unsigned begun = 0;
    history_make(&h, true);
    look(&h.disk, 0, &before);
    sim_clone(&aside, &h.disk);
    char *first = put_aside(&aside, &before, 0);
    for (uint64_t stop = 1;; stop++) {
        struct sim_disk copy;
        sim_clone(&copy, &aside);
        copy.stop_at = copy.calls + stop;
        struct replication_options options = h.m.options;
        h.m.disk = &copy;
        h.m.options.join = true;
        h.m.options.cluster_given = true;
        memcpy(h.m.options.cluster, before.cluster, FORMAT_CLUSTER_SIZE);
        (void)machine_open(&h.m); /* refused at the latest for want of links */
        h.m.options = options;
        h.m.disk = &h.disk;
        sim_kill(&copy);
        look(&copy, 0, &l);
        if (!l.healing) {
            sim_finish(&copy);
            break;
        }
        begun++;
        char *name = put_aside(&copy, &l, 0);
        assert_string_equal(name, first);
        lies_aside(&h, &copy, name, true);
        only_joins(&h, &copy, before.cluster);
        free(name);
        sim_finish(&copy);
    }
    assert_true(begun > 5);
    free(first);
    sim_finish(&aside);
    history_finish(&h);
}

static void put_file(struct sim_disk *disk, const char *path)
{
    int fd = disk->ops.open(disk->ops.ctx, path, FILE_REPLACE);
    assert_true(fd >= 0);
    assert_int_equal(disk->ops.write(disk->ops.ctx, fd, "x", 1, 0), 0);
    disk->ops.close(disk->ops.ctx, fd);
}

/* Also a name that is taken for another reason is left alone: what cannot be read now is moved beside it. */
static void test_put_aside_beside(void **state)
{
    struct history h = {0};
    struct damage_look before;
    struct damage_look l;
    struct sim_disk copy;
    char path[96];
    history_make(&h, true);
    look(&h.disk, 0, &before);
    sim_clone(&copy, &h.disk);
    char *name = put_aside(&copy, &before, 0);
    for (unsigned n = 2; n < 4; n++) {
        put_file(&copy, "data/" FORMAT_FILE); /* no marker */
        look(&copy, 0, &l);
        assert_true(l.healing);
        free(put_aside(&copy, &l, 0));
        all_lies_aside(&h, &copy, name);
        snprintf(path, sizeof path, "data/%s/" FORMAT_FILE ".%u", name, n);
        assert_non_null(sim_bytes_of(&copy, path));
    }
    only_joins(&h, &copy, before.cluster);
    free(name);
    sim_finish(&copy);
    history_finish(&h);
}

/* The marker is aside, but the folder is no less ours: a file of somebody else in it does no harm. */
static void test_put_aside_among_others(void **state)
{
    struct history h = {0};
    struct damage_look before;
    history_make(&h, true);
    look(&h.disk, 0, &before);
    put_file(&h.disk, "data/notes.txt");
    free(put_aside(&h.disk, &before, 0));
    struct sim_disk copy;
    sim_clone(&copy, &h.disk);
    only_joins(&h, &copy, before.cluster);
    assert_non_null(sim_bytes_of(&copy, "data/notes.txt"));
    sim_finish(&copy);
    history_finish(&h);
}

/* Without a marker: ours by the log or the metadata, and the cluster is known from the log; others' files are not
 * touched. */
static void test_without_a_marker(void **state)
{
    struct history h = {0};
    struct damage_look before;
    struct damage_look l;
    history_make(&h, true);
    look(&h.disk, 0, &before);
    for (int without_metadata = 0; without_metadata < 2; without_metadata++) {
        struct sim_disk copy;
        sim_clone(&copy, &h.disk);
        names_remove(&copy.live, "data/" FORMAT_FILE);
        if (without_metadata) {
            names_remove(&copy.live, "data/" METADATA_FILE);
        }
        look(&copy, CONCLAVE_ECORRUPT, &l);
        assert_false(l.fresh || l.healing);
        assert_true(l.cluster_known);
        assert_memory_equal(l.cluster, before.cluster, sizeof l.cluster);
        assert_int_equal(try_start(&h, &copy, 0), CONCLAVE_ECORRUPT);
        sim_finish(&copy);
    }
    sim_bytes_of(&h.disk, "data/" FORMAT_FILE)->data[30] ^=
        1; /* the version, or what looks like one */
    look(&h.disk, CONCLAVE_ECORRUPT, &l);
    assert_true(l.cluster_known);
    history_finish(&h);
}

static void until_it_leads(struct machine *m)
{
    while (m->role != REPLICATION_LEADER || m->roles == 0) {
        uv_run(&m->loop, UV_RUN_ONCE);
    }
}

/* A member of two whose other is lost: it goes on alone only when it is told where its log ends, once, and keeps what
 * it has. */
static void test_going_on_alone(void **state)
{
    static const struct configuration_member two[] = {{1, MEMBER_VOTER, "a:1:2"},
                                                      {2, MEMBER_VOTER, "b:1:2"}};
    struct error_text problem = {NULL};
    struct metadata metadata;
    struct sim_disk disk;
    struct machine m;
    sim_init(&disk, 5, false);
    machine_init(&m, &disk, 5);
    m.options.founders = two;
    m.options.n_founders = 2;
    assert_int_equal(machine_open(&m),
                     CONCLAVE_EFOREIGN); /* one of two has nobody to talk to here */
    assert_int_equal(metadata_read(&disk.ops, "data", &metadata, &problem), 0);
    metadata.term = 7; /* it stood for election, in vain */
    assert_int_equal(metadata_write(&disk.ops, "data", &metadata, &problem), 0);
    error_text_finish(&problem);
    m.options.go_alone = true;
    m.options.alone = 9;
    assert_int_equal(machine_open(&m), CONCLAVE_EINVAL);
    assert_non_null(strstr(m.text, "--ensemble.alone 1;"));
    assert_non_null(strstr(m.text, "at index 1 in term 1, with 2 members"));
    m.options.alone = 1;
    assert_int_equal(machine_open(&m), 0);
    assert_non_null(strstr(m.last_warning, "alone"));
    until_it_leads(&m);
    machine_work(&m, 20, 3);
    assert_int_equal(m.acked, 20);
    machine_close(&m);
    for (int go_alone = 0; go_alone < 2; go_alone++) { /* it is alone already */
        m.options.go_alone = go_alone == 1;
        assert_int_equal(machine_open(&m), 0);
        until_it_leads(&m);
        assert_int_equal(m.applied, 20);
        assert_int_equal(m.warnings, 0);
        machine_close(&m);
    }
    machine_finish(&m);
    sim_finish(&disk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flip_clean),
        cmocka_unit_test(test_flip_crashed),
        cmocka_unit_test(test_flip_last_frame),
        cmocka_unit_test(test_torn_tail),
        cmocka_unit_test(test_cut_short),
        cmocka_unit_test(test_cut_short_crashed),
        cmocka_unit_test(test_missing_files),
        cmocka_unit_test(test_log_alone),
        cmocka_unit_test(test_older_snapshot),
        cmocka_unit_test(test_snapshot_in_memory),
        cmocka_unit_test(test_files_of_others),
        cmocka_unit_test(test_needless_segment),
        cmocka_unit_test(test_needless_segments),
        cmocka_unit_test(test_needless_by_one_snapshot),
        cmocka_unit_test(test_needless_of_others),
        cmocka_unit_test(test_needless_and_power_cuts),
        cmocka_unit_test(test_log_ends_before_the_snapshot),
        cmocka_unit_test(test_put_aside),
        cmocka_unit_test(test_put_aside_crashed),
        cmocka_unit_test(test_put_aside_twice),
        cmocka_unit_test(test_put_aside_beside),
        cmocka_unit_test(test_put_aside_among_others),
        cmocka_unit_test(test_without_a_marker),
        cmocka_unit_test(test_going_on_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
