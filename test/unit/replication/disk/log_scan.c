/* The log of a running server, read by another thread: beside a model, with entries that later frames replaced. */
#include "replication/disk/log_scan.h"
#include "replication/disk/journal.h"
#include "replication/disk/memory_files.h"
#include "replication/disk/segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ENTRIES_MAX = 400, FRAMES = 150, SEGMENT_BYTES = 4096, SEEDS = 60 };

static const uint8_t cluster[FORMAT_CLUSTER_SIZE] = "a cluster's name";

struct model_entry {
    uint64_t term;
    uint64_t segment;
    uint64_t offset; /* of the payload */
    size_t length;
};

struct place {
    struct memory_files *files;
    const struct file_ops *ops;
    struct journal journal;
    struct model_entry entries[ENTRIES_MAX + 1]; /* by index, from 1 */
    uint64_t last;
    uint64_t term;
    unsigned chance;
};

static unsigned draw(struct place *p, unsigned below)
{
    p->chance = p->chance * 1103515245u + 12345u;
    return (p->chance >> 8) % below;
}

static void fill(uint8_t *bytes, size_t len, uint64_t term, uint64_t index)
{
    memset(bytes, (int)(term * 31 + index), len);
}

/* A frame of these entries, unfinished; notes their lengths. */
static void make_frame(struct place *p, struct buf *b, uint64_t index, unsigned count)
{
    uint8_t bytes[300];
    frame_begin(b);
    for (unsigned i = 0; i < count; i++) {
        size_t len = draw(p, 4) == 0 ? 0 : draw(p, sizeof bytes); /* a leader's barrier is empty */
        fill(bytes, len, p->term, index + i);
        frame_add(b, p->term, ENTRY_COMMAND, slice_make(bytes, len));
        p->entries[index + i] = (struct model_entry){.term = p->term, .length = len};
    }
    p->last = index + count - 1;
}

/* Where the journal has put them. */
static void note_places(struct place *p, uint64_t index)
{
    uint64_t at = p->journal.frame_offset + FRAME_HEADER_SIZE;
    for (; index <= p->last; index++) {
        p->entries[index].segment = p->journal.frame_segment;
        p->entries[index].offset = at + ENTRY_HEADER_SIZE;
        at += ENTRY_HEADER_SIZE + p->entries[index].length;
    }
}

static void append(struct place *p, uint64_t index, unsigned count)
{
    struct buf b;
    buf_init(&b, 0);
    make_frame(p, &b, index, count);
    assert_int_equal(journal_append(&p->journal, &b, index, count), 0);
    note_places(p, index);
    buf_finish(&b);
}

static struct place *begin(unsigned seed)
{
    struct place *p = calloc(1, sizeof *p);
    struct buf b;
    assert_non_null(p);
    p->chance = seed;
    p->term = 1;
    assert_int_equal(memory_files_create(&p->files), 0);
    p->ops = memory_files_ops(p->files);
    assert_int_equal(p->ops->make_folder(p->ops->ctx, "data"), 0);
    assert_int_equal(journal_init(&p->journal, p->ops, "data", cluster, SEGMENT_BYTES, true), 0);
    buf_init(&b, 0);
    make_frame(p, &b, 1, 1);
    assert_int_equal(journal_create(&p->journal, &b), 0);
    note_places(p, 1);
    buf_finish(&b);
    return p;
}

static void end(struct place *p)
{
    journal_finish(&p->journal);
    memory_files_destroy(p->files);
    free(p);
}

static int scan_open(struct place *p, uint64_t from, uint64_t to, struct log_scan **ret)
{
    const struct log_scan_end last = {to, p->entries[to].segment, p->entries[to].offset};
    struct error_text problem = {NULL};
    int rc = log_scan_open(ret, p->ops, "data", cluster, from, &last, &problem);
    error_text_finish(&problem);
    return rc;
}

/* Reads on from `*next` up to `stop` and compares. */
static void compare(const struct place *p, struct log_scan *s, uint64_t *next, uint64_t stop)
{
    uint8_t bytes[300];
    struct log_scan_entry got;
    struct error_text problem = {NULL};
    for (; *next <= stop; ++*next) {
        const struct model_entry *want = &p->entries[*next];
        assert_int_equal(log_scan_next(s, &got, &problem), 1);
        assert_int_equal(got.index, *next);
        assert_int_equal(got.term, want->term);
        assert_int_equal(got.payload.len, want->length);
        fill(bytes, want->length, want->term, *next);
        assert_memory_equal(got.payload.data, bytes, want->length);
    }
}

static void compare_all(struct place *p, uint64_t from, uint64_t to)
{
    struct log_scan *s = NULL;
    struct log_scan_entry none;
    struct error_text problem = {NULL};
    assert_int_equal(scan_open(p, from, to, &s), 0);
    assert_true(log_scan_active());
    compare(p, s, &from, to);
    assert_int_equal(log_scan_next(s, &none, &problem), 0);
    log_scan_close(s);
    assert_false(log_scan_active());
}

/* The next frame: mostly behind the last entry, sometimes in place of some that are not committed. */
static void append_any(struct place *p, uint64_t committed)
{
    uint64_t index = p->last + 1;
    if (draw(p, 4) == 0 && p->last > committed) {
        index = committed + 1 + draw(p, (unsigned)(p->last - committed));
        p->term++;
    }
    append(p, index, 1 + draw(p, 4));
}

static void what_is_read_is_the_log(void **unused)
{
    (void)unused;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        struct place *p = begin(seed);
        uint64_t committed = 1;
        for (unsigned i = 0; i < FRAMES && p->last < ENTRIES_MAX - 8; i++) {
            append_any(p, committed);
            committed += draw(p, (unsigned)(p->last - committed) + 1);
            uint64_t from = 1 + draw(p, (unsigned)committed);
            compare_all(p, from, committed);
        }
        compare_all(p, 1, committed);
        compare_all(p, committed, committed);
        end(p);
    }
}

static void the_last_entry_may_be_empty(void **unused)
{
    (void)unused;
    struct place *p = begin(1);
    struct buf b;
    buf_init(&b, 0);
    frame_begin(&b);
    frame_add(&b, 1, ENTRY_BARRIER, slice_str(""));
    assert_int_equal(journal_append(&p->journal, &b, 2, 1), 0);
    p->last = 2;
    p->entries[2] = (struct model_entry){.term = 1};
    note_places(p, 2);
    buf_finish(&b);
    compare_all(p, 1, 2);
    compare_all(p, 2, 2);
    end(p);
}

/* The server writes on, and replaces what lies behind the end, while the scan goes on. */
static void what_comes_later_does_not_count(void **unused)
{
    (void)unused;
    for (unsigned seed = 1; seed <= SEEDS; seed++) {
        struct place *p = begin(seed + 1000);
        for (unsigned i = 0; i < 40; i++) {
            append_any(p, 1);
        }
        uint64_t committed = p->last;
        uint64_t next = 1;
        struct log_scan *s = NULL;
        append_any(p, committed);
        assert_int_equal(scan_open(p, 1, committed, &s), 0);
        while (next <= committed && p->last < ENTRIES_MAX - 8) {
            compare(p, s, &next, next + 2 < committed ? next + 2 : committed);
            append_any(p, committed);
        }
        compare(p, s, &next, committed);
        log_scan_close(s);
        end(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_entry_may_be_empty),
        cmocka_unit_test(what_is_read_is_the_log),
        cmocka_unit_test(what_comes_later_does_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
