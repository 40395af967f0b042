/*
 * The journal below the engine: frames, the cut of a suffix by the frame that replaces it, recycled
 * segments whose old bytes must stay dead, missing and foreign pieces.
 */
#include "unit/replication/harness.inc"

#include "replication/disk/segment.h"

static const uint8_t cluster[FORMAT_CLUSTER_SIZE] = "a cluster's name";

static void make_frame(struct buf *b, uint64_t term, uint64_t index, unsigned count, size_t payload)
{
    uint8_t bytes[4096];
    frame_begin(b);
    for (unsigned i = 0; i < count; i++) {
        memset(bytes, (int)(term * 16 + index + i), payload);
        frame_add(b, term, index + i == 1 ? ENTRY_CONFIGURATION : ENTRY_COMMAND,
                  slice_make(bytes, payload));
    }
    assert_true(buf_ok(b));
}

static void append(struct journal *j, uint64_t term, uint64_t index, unsigned count, size_t payload)
{
    struct buf b;
    buf_init(&b, 0);
    make_frame(&b, term, index, count, payload);
    assert_int_equal(journal_append(j, &b, index, count), 0);
    buf_finish(&b);
}

static void journal_begin(struct journal *j, struct sim_disk *d, size_t segment_bytes)
{
    struct buf b;
    assert_int_equal(d->ops.make_folder(d, "data"), 0);
    assert_int_equal(journal_init(j, &d->ops, "data", cluster, segment_bytes, true), 0);
    buf_init(&b, 0);
    make_frame(&b, 1, 1, 1, 10);
    assert_int_equal(journal_create(j, &b), 0);
    assert_int_equal(journal_set_vote(j, 9, 2), 0);
    buf_finish(&b);
}

static int check_payload(void *arg, uint64_t index, const struct journal_ref *ref,
                         const uint8_t *payload)
{
    for (size_t i = 0; i < ref->length; i++) {
        assert_int_equal(payload[i], (uint8_t)(ref->term * 16 + index));
    }
    ++*(unsigned *)arg;
    return 0;
}

/* Opens again and compares the terms of the entries from first on. */
static int reopen(struct sim_disk *d, struct journal *j, uint64_t first, const uint64_t *terms,
                  size_t n)
{
    struct journal_contents c;
    unsigned seen = 0;
    assert_int_equal(journal_init(j, &d->ops, "data", cluster, 4096, true), 0);
    int rv = journal_recover(j, NULL, &c);
    if (rv == 0) {
        assert_int_equal(c.first_index, first);
        assert_int_equal(c.count, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(c.refs[i].term, terms[i]);
        }
        assert_int_equal(journal_read(j, &c, 0, n, check_payload, &seen), 0);
        assert_int_equal(seen, n);
        assert_int_equal(j->metadata.term, 9);
        assert_int_equal(j->metadata.voted_for, 2);
    }
    journal_contents_finish(&c);
    return rv;
}

static void test_cut_suffix(void **state)
{
    struct sim_disk d;
    struct journal j;
    const uint64_t before[] = {1, 1, 1, 1, 1, 1, 1, 1};
    const uint64_t after[] = {1, 1, 1, 1, 3, 3};
    sim_init(&d, 1, false);
    journal_begin(&j, &d, 4096);
    append(&j, 1, 2, 7, 100);
    journal_finish(&j);
    assert_int_equal(reopen(&d, &j, 1, before, 8), 0);
    append(&j, 3, 5, 2, 100); /* replaces 5 to 8 */
    assert_int_equal(j.last_index, 6);
    journal_finish(&j);
    assert_int_equal(reopen(&d, &j, 1, after, 6), 0);
    journal_finish(&j);
    sim_finish(&d);
}

/* The cut and what replaces it are there together or not at all, wherever the power goes. */
static void test_cut_suffix_is_atomic(void **state)
{
    const uint64_t before[] = {1, 1, 1, 1, 1, 1, 1, 1};
    const uint64_t after[] = {1, 1, 1, 1, 3, 3};
    unsigned cut = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct sim_disk d;
        struct journal j;
        struct buf b;
        sim_init(&d, seed, false);
        journal_begin(&j, &d, 4096);
        append(&j, 1, 2, 7, seed % 400);
        buf_init(&b, 0);
        make_frame(&b, 3, 5, 2, 600);
        d.stop_at = d.calls + 1 + seed % 2;
        assert_int_equal(journal_append(&j, &b, 5, 2), CONCLAVE_EIO);
        buf_finish(&b);
        journal_finish(&j);
        sim_power_cut(&d);
        struct journal_contents c;
        assert_int_equal(journal_init(&j, &d.ops, "data", cluster, 4096, true), 0);
        assert_int_equal(journal_recover(&j, NULL, &c), 0);
        bool is_cut = c.count == 6;
        journal_contents_finish(&c);
        journal_finish(&j);
        assert_int_equal(reopen(&d, &j, 1, is_cut ? after : before, is_cut ? 6 : 8), 0);
        journal_finish(&j);
        cut += is_cut;
        sim_finish(&d);
    }
    assert_true(cut > 10 && cut < 190);
}

/* Segments that were emptied are used again, and nothing of their former life is ever read. */
static void test_recycled(void **state)
{
    struct sim_disk d;
    struct journal j;
    struct journal_segment *dropped;
    size_t n;
    uint64_t terms[64];
    sim_init(&d, 1, false);
    journal_begin(&j, &d, 4096);
    uint64_t index = 2;
    unsigned recycled = 0;
    for (unsigned round = 0; round < 40; round++) {
        for (int i = 0; i < 9; i++) {
            append(&j, 1, index++, 1, 400);
        }
        assert_int_equal(journal_trim(&j, index - 1, index - 3, &dropped, &n), 0);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(journal_dispose(&j, &dropped[i]), 0);
        }
        recycled += j.n_spares > 0;
        free(dropped);
        uint64_t first = j.segments[0].first_index;
        journal_finish(&j);
        for (size_t i = 0; i < 64; i++) {
            terms[i] = 1;
        }
        assert_int_equal(reopen(&d, &j, first, terms, (size_t)(index - first)), 0);
        assert_true(index - first <= 24);
    }
    assert_true(recycled > 20);
    assert_true(j.metadata.last_segment > 30);
    journal_finish(&j);
    sim_finish(&d);
}

/* A frame larger than a segment gets one of its own. */
static void test_large_frame(void **state)
{
    struct sim_disk d;
    struct journal j;
    uint64_t terms[] = {1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2};
    sim_init(&d, 1, false);
    journal_begin(&j, &d, 4096);
    append(&j, 2, 2, 10, 4000);
    append(&j, 2, 12, 1, 10);
    journal_finish(&j);
    assert_int_equal(reopen(&d, &j, 1, terms, 12), 0);
    journal_finish(&j);
    sim_finish(&d);
}

/* A good frame that does not continue the log is damage, not the end. */
static void test_frame_out_of_place(void **state)
{
    struct sim_disk d;
    struct journal j;
    struct buf b;
    sim_init(&d, 1, false);
    journal_begin(&j, &d, 4096);
    append(&j, 1, 2, 2, 10);
    struct sim_bytes *file = sim_bytes_of(&d, "data/log/0000000000000001.log");
    buf_init(&b, 0);
    for (int gap = 0; gap < 2; gap++) {
        uint64_t index =
            gap ? 9 : 4; /* 4 would be next, but its frame follows another one than ours */
        make_frame(&b, 1, index, 1, 10);
        frame_finish(&b, j.salt, gap ? j.chain : j.chain + 1, index, 1);
        memcpy(file->data + j.position, b.data, b.len);
        struct journal again;
        assert_int_equal(reopen(&d, &again, 1, NULL, 0), CONCLAVE_ECORRUPT);
        assert_non_null(strstr(again.problem.text, "0000000000000001.log"));
        journal_finish(&again);
    }
    journal_finish(&j);
    buf_finish(&b);
    sim_finish(&d);
}

static void test_frame_is_checked(void **state)
{
    struct buf b;
    struct segment_frame f;
    struct frame_entry e;
    buf_init(&b, 0);
    make_frame(&b, 5, 7, 3, 33);
    uint64_t sum = frame_finish(&b, 42, 43, 7, 3);
    assert_int_equal(b.len % 8, 0);
    assert_int_equal(frame_size(b.data), b.len);
    assert_true(frame_decode(b.data, b.len, 42, &f));
    assert_int_equal(f.checksum, sum);
    assert_int_equal(f.previous, 43);
    assert_int_equal(f.index, 7);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(frame_next(&f, &e), 1);
        assert_int_equal(e.term, 5);
        assert_int_equal(e.length, 33);
        assert_int_equal(e.payload[32], (uint8_t)(5 * 16 + 7 + i));
    }
    assert_int_equal(frame_next(&f, &e), 0);
    assert_false(frame_decode(b.data, b.len, 41, &f));
    assert_false(frame_decode(b.data, b.len - 8, 42, &f));
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_false(frame_size(b.data) == b.len && frame_decode(b.data, b.len, 42, &f));
        b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    buf_finish(&b);
}

/* A process may die between the metadata that gives segments up and the removal of their files, and
 * between the birth of a segment and the metadata that names it. */
static void test_segments_beside_the_metadata(void **state)
{
    struct sim_disk d;
    struct journal j;
    struct journal_segment *dropped;
    size_t n;
    uint64_t terms[64];
    sim_init(&d, 1, false);
    for (size_t i = 0; i < 64; i++) {
        terms[i] = 1;
    }
    journal_begin(&j, &d, 4096);
    for (uint64_t index = 2; index < 30; index++) {
        append(&j, 1, index, 1, 400);
    }
    assert_int_equal(journal_trim(&j, 29, 27, &dropped, &n), 0);
    assert_true(n >= 2 && dropped[0].sequence == 1);
    free(dropped); /* and dies */
    uint64_t first = j.segments[0].first_index;
    journal_finish(&j);
    assert_non_null(sim_bytes_of(&d, "data/log/0000000000000001.log"));
    assert_int_equal(reopen(&d, &j, first, terms, (size_t)(30 - first)), 0);
    assert_null(sim_bytes_of(&d, "data/log/0000000000000001.log"));

    struct metadata before = j.metadata;
    for (uint64_t index = 30; j.metadata.last_segment == before.last_segment; index++) {
        append(&j, 1, index, 1, 400);
        n = (size_t)(index + 1 - first);
    }
    journal_finish(&j);
    assert_int_equal(metadata_write(&d.ops, "data", &before, &j.problem), 0);
    char path[96];
    snprintf(path, sizeof path, "data/log/%016llu.log",
             (unsigned long long)before.last_segment + 1);
    for (uint64_t i = 0; i < 96; i++) { /* the power goes while that is put right */
        struct sim_disk copy;
        struct journal_contents c;
        sim_clone(&copy, &d);
        copy.prng.state = i;
        names_remove(&copy.durable, path); /* its name was never synced */
        change_add(&copy, path, names_find(&copy.live, path)->file, false, NULL);
        copy.stop_at = copy.calls + 1 + i / 8;
        assert_int_equal(journal_init(&j, &copy.ops, "data", cluster, 4096, true), 0);
        bool stopped = journal_recover(&j, NULL, &c) != 0;
        journal_contents_finish(&c);
        journal_finish(&j);
        sim_power_cut(&copy);
        assert_int_equal(journal_init(&j, &copy.ops, "data", cluster, 4096, true), 0);
        assert_int_equal(journal_recover(&j, NULL, &c), 0);
        assert_true(stopped || c.count == n);
        journal_contents_finish(&c);
        journal_finish(&j);
        sim_finish(&copy);
    }
    assert_int_equal(reopen(&d, &j, first, terms, n), 0);
    assert_int_equal(j.metadata.last_segment, before.last_segment + 1);
    journal_finish(&j);

    /* Two of them are more than one death can leave. */
    before.last_segment -= 1;
    assert_int_equal(metadata_write(&d.ops, "data", &before, &j.problem), 0);
    assert_int_equal(reopen(&d, &j, first, terms, n), CONCLAVE_ECORRUPT);
    journal_finish(&j);
    sim_finish(&d);
}

static uint64_t bytes_read;

static int64_t counting_read(void *ctx, int fd, void *data, size_t len, uint64_t offset)
{
    struct sim_disk *d = ctx;
    int64_t n = sim_read(d, fd, data, len, offset);
    bytes_read += n > 0 ? (uint64_t)n : 0;
    return n;
}

/* Payloads that look like one frame after another cost a start no more than others, also as the
 * former content of a recycled segment: otherwise a client could keep a server from starting. */
static void test_lookalikes_cost_nothing(void **state)
{
    enum { SEGMENT = 1 << 20, PAYLOAD = SEGMENT / 2 };
    struct sim_disk d;
    struct journal j;
    struct journal_contents c;
    struct buf b;
    sim_init(&d, 1, false);
    journal_begin(&j, &d, SEGMENT);
    uint8_t *payload = malloc(PAYLOAD);
    for (size_t i = 0; i < PAYLOAD; i += 8) {
        put_le32(payload + i, FRAME_MAGIC);
        put_le32(payload + i + 4, PAYLOAD / 2);
    }
    buf_init(&b, 0);
    frame_begin(&b);
    frame_add(&b, 1, ENTRY_COMMAND, slice_make(payload, 16));
    assert_int_equal(journal_append(&j, &b, 2, 1), 0);
    j.salt++; /* what is behind the last good frame: as if of a former life */
    frame_begin(&b);
    frame_add(&b, 1, ENTRY_COMMAND, slice_make(payload, PAYLOAD));
    assert_int_equal(journal_append(&j, &b, 3, 1), 0);
    journal_finish(&j);

    struct file_ops ops = d.ops;
    ops.read = counting_read;
    assert_int_equal(journal_init(&j, &ops, "data", cluster, SEGMENT, true), 0);
    bytes_read = 0;
    assert_int_equal(journal_recover(&j, NULL, &c), 0);
    assert_int_equal(c.count, 2);
    assert_true(bytes_read < 8ull * SEGMENT);
    journal_contents_finish(&c);
    journal_finish(&j);
    buf_finish(&b);
    free(payload);
    sim_finish(&d);
}

/* Metadata whose checksum fits and that names segments no log can have: refused at once. */
static void test_segments_that_cannot_be(void **state)
{
    const uint64_t wrong[][2] = {{2, 1},
                                 {0, 1},
                                 {1, UINT32_MAX},
                                 {UINT64_MAX - 1, UINT64_MAX},
                                 {1, METADATA_SEGMENTS_MAX + 1}};
    struct sim_disk d;
    struct journal j;
    sim_init(&d, 1, false);
    journal_begin(&j, &d, 4096);
    journal_finish(&j);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct metadata m = {.term = 9, .first_segment = wrong[i][0], .last_segment = wrong[i][1]};
        struct journal_contents c;
        assert_int_equal(journal_init(&j, &d.ops, "data", cluster, 4096, true), 0);
        assert_int_equal(metadata_write(&d.ops, "data", &m, &j.problem), 0);
        assert_int_equal(journal_recover(&j, NULL, &c), CONCLAVE_ECORRUPT);
        assert_non_null(strstr(j.problem.text, "a log cannot have the segments"));
        journal_contents_finish(&c);
        journal_finish(&j);
    }
    sim_finish(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frame_is_checked),
        cmocka_unit_test(test_cut_suffix),
        cmocka_unit_test(test_cut_suffix_is_atomic),
        cmocka_unit_test(test_recycled),
        cmocka_unit_test(test_large_frame),
        cmocka_unit_test(test_frame_out_of_place),
        cmocka_unit_test(test_segments_beside_the_metadata),
        cmocka_unit_test(test_lookalikes_cost_nothing),
        cmocka_unit_test(test_segments_that_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
