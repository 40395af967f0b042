/* The state in backup files: whole files are loaded, and not one flipped or missing byte is taken. */
#include "backup/backup_load.h"
#include "backup/file/backup_writer.h"
#include "base/endian.h"
#include "replication/disk/folder_format.h"
#include "support/requests.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define SESSION 0x100000001LL

struct place {
    char dir[64];
    char full[96];
    char more[96];
};

static void write_bytes(const char *path, struct slice bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && fd_write_all(fd, bytes));
    close(fd);
}

static struct buf read_bytes(const char *path)
{
    struct buf b;
    buf_init(&b, 0);
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && buf_reserve(&b, 1 << 16) == 0);
    ssize_t n = read(fd, b.data, 1 << 16);
    assert_true(n > 0 && n < 1 << 16);
    b.len = (size_t)n;
    close(fd);
    return b;
}

/* An entry of the log: the write of a client. */
static void put_entry(struct backup_writer *w, uint64_t index, int32_t type, struct slice body,
                      struct buf *out)
{
    const struct batch_header header = {.origin = 1,
                                        .sequence = (int64_t)index,
                                        .previous = (int64_t)index - 1,
                                        .time_ms = (int64_t)index * 1000};
    const struct command c = {
        .session_id = SESSION, .cxid = (int32_t)index, .type = type, .body = body};
    struct buf batch;
    buf_init(&batch, 0);
    batch_begin(&batch, &header);
    batch_add(&batch, 0, &c);
    assert_true(buf_ok(&batch));
    backup_writer_record(w, ENTRY_COMMAND, index, 1, buf_slice(&batch), out);
    buf_finish(&batch);
}

/* The nodes /n<index> of the entries after `from` up to `end`. The first entry of all creates the session. */
static void put_file(const char *path, uint64_t from, uint64_t end)
{
    const struct backup_header h = {.incremental = from > 0,
                                    .cluster = "an ensemble's id",
                                    .from_index = from,
                                    .from_term = from > 0 ? 1 : 0,
                                    .end_index = end,
                                    .end_term = 1,
                                    .end_zxid = (int64_t)end,
                                    .made_ms = (int64_t)end * 1000};
    struct backup_writer *w = backup_writer_create(1);
    struct maker m;
    struct buf out;
    char name[32];
    assert_non_null(w);
    buf_init(&out, 0);
    maker_init(&m);
    backup_writer_header(w, &h, &out);
    for (uint64_t i = from + 1; i <= end; i++) {
        snprintf(name, sizeof name, "/n%d", (int)i);
        if (i == 1) {
            put_entry(w, i, WIRE_CREATE_SESSION, make_session(&m, SESSION, 9000), &out);
        } else {
            put_entry(w, i, WIRE_CREATE, make_create(&m, name, "data", 0), &out);
        }
    }
    backup_writer_end(w, &out);
    assert_true(buf_ok(&out));
    write_bytes(path, buf_slice(&out));
    maker_finish(&m);
    buf_finish(&out);
    backup_writer_destroy(w);
}

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    snprintf(p->dir, sizeof p->dir, "/tmp/conclave-backup-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->full, sizeof p->full, "%s/full", p->dir);
    snprintf(p->more, sizeof p->more, "%s/more", p->dir);
    put_file(p->full, 0, 4);
    put_file(p->more, 4, 7);
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    (void)unlink(p->full);
    (void)unlink(p->more);
    assert_int_equal(rmdir(p->dir), 0);
    free(p);
    return 0;
}

static int load(const struct place *p, size_t count, const struct backup_moment *moment,
                struct backup_loaded *ret, char **ret_text)
{
    const char *const files[] = {p->full, p->more};
    const struct backup_load_options options = {.files = files, .count = count, .moment = *moment};
    return backup_load(&options, ret, ret_text);
}

static size_t nodes_at(const struct place *p, size_t count, int64_t zxid, int64_t time_ms)
{
    const struct backup_moment moment = {.zxid = zxid, .time_ms = time_ms};
    struct backup_loaded loaded;
    struct state_stats stats;
    char *text = NULL;
    assert_int_equal(load(p, count, &moment, &loaded, &text), 0);
    state_stats(loaded.state, &stats);
    backup_loaded_finish(&loaded);
    return stats.nodes;
}

static void every_moment_has_its_state(void **state)
{
    const struct place *p = *state;
    size_t first = nodes_at(p, 1, 1, 0); /* the session only */
    for (int i = 1; i <= 7; i++) {
        assert_int_equal(nodes_at(p, 2, i, 0), first + (size_t)i - 1);
        assert_int_equal(nodes_at(p, 2, 0, i * 1000 + 500), first + (size_t)i - 1);
    }
    assert_int_equal(nodes_at(p, 1, 0, 0), first + 3);
    assert_int_equal(nodes_at(p, 2, 0, 0), first + 6);
}

/* The files give nothing, and the text names this one. */
static void expect_refused(const struct place *p, const char *file, int error)
{
    const struct backup_moment end = {0};
    struct backup_loaded loaded;
    char *text = NULL;
    int rc = load(p, 2, &end, &loaded, &text);
    assert_true(rc == error || (error == 0 && rc < 0));
    assert_non_null(text);
    assert_ptr_equal(strstr(text, file), text);
    free(text);
}

static void spoil_every_byte(const struct place *p, const char *file)
{
    struct buf bytes = read_bytes(file);
    for (size_t i = 0; i < bytes.len; i++) {
        for (unsigned bit = 0; bit < 8; bit++) {
            bytes.data[i] ^= (uint8_t)(1u << bit);
            write_bytes(file, buf_slice(&bytes));
            /* The first eight bytes say what it is: another kind of file is foreign. */
            expect_refused(p, file, i < 8 ? CONCLAVE_EFOREIGN : CONCLAVE_ECORRUPT);
            bytes.data[i] ^= (uint8_t)(1u << bit);
        }
    }
    for (size_t len = 0; len < bytes.len; len++) {
        write_bytes(file, slice_make(bytes.data, len));
        expect_refused(p, file, CONCLAVE_ECORRUPT);
    }
    buf_append_u8(&bytes, 0);
    write_bytes(file, buf_slice(&bytes));
    expect_refused(p, file, CONCLAVE_ECORRUPT);
    write_bytes(file, slice_make(bytes.data, bytes.len - 1));
    buf_finish(&bytes);
}

static void no_flipped_or_missing_byte_is_taken(void **state)
{
    const struct place *p = *state;
    spoil_every_byte(p, p->full);
    spoil_every_byte(p, p->more);
    assert_true(nodes_at(p, 2, 0, 0) > 0); /* whole again */
}

static void files_continue_each_other(void **state)
{
    const struct place *p = *state;
    put_file(p->more, 5, 7);
    expect_refused(p, p->more, CONCLAVE_EINVAL);
    put_file(p->more, 0, 7);
    expect_refused(p, p->more, CONCLAVE_EINVAL);
    put_file(p->full, 4, 7);
    expect_refused(p, p->full, CONCLAVE_EINVAL);
    assert_int_equal(unlink(p->full), 0);
    expect_refused(p, p->full, CONCLAVE_EIO);
}

/* Checksums are right, what is in the file is not. */
static void put_records(const char *path, uint32_t kind, struct slice payload, uint64_t index)
{
    const struct backup_header h = {
        .cluster = "an ensemble's id", .end_index = index, .end_term = 1};
    struct backup_writer *w = backup_writer_create(1);
    struct buf out;
    assert_non_null(w);
    buf_init(&out, 0);
    backup_writer_header(w, &h, &out);
    backup_writer_record(w, kind, index, 1, payload, &out);
    backup_writer_end(w, &out);
    write_bytes(path, buf_slice(&out));
    buf_finish(&out);
    backup_writer_destroy(w);
}

static void records_of_no_sense_are_refused(void **state)
{
    const struct place *p = *state;
    uint8_t head[32] = {0};
    put_file(p->more, 1, 2);
    put_records(p->full, 99, slice_str("of a later version"), 1);
    expect_refused(p, p->full, CONCLAVE_EFOREIGN);
    put_records(p->full, ENTRY_COMMAND, slice_str("no batch"), 1);
    expect_refused(p, p->full, CONCLAVE_ECORRUPT);
    put_records(p->full, ENTRY_CONFIGURATION, slice_str("no members"), 1);
    expect_refused(p, p->full, 0);
    put_records(p->full, BACKUP_RECORD_SNAPSHOT, slice_str("short"), 1);
    expect_refused(p, p->full, CONCLAVE_ECORRUPT);
    put_records(p->full, BACKUP_RECORD_PART, slice_str("of nothing"), 1);
    expect_refused(p, p->full, CONCLAVE_ECORRUPT);
    put_be64(head + 8, 1000); /* a snapshot that never comes */
    put_records(p->full, BACKUP_RECORD_SNAPSHOT, slice_make(head, sizeof head), 1);
    expect_refused(p, p->more, CONCLAVE_ECORRUPT);
}

int main(void)
{
#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        IN_PLACE(every_moment_has_its_state),
        IN_PLACE(no_flipped_or_missing_byte_is_taken),
        IN_PLACE(files_continue_each_other),
        IN_PLACE(records_of_no_sense_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
