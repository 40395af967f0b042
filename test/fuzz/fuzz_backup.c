/*
 * Backup files: any bytes; any bytes as a block with right checksums; and whole files with records of any content, which
 * are loaded for any moment. Input: a byte that chooses, then the bytes or the program that writes the records.
 * What must hold: a file is loaded or refused with its name, at no other cost than that of its content; a whole file is
 * read as it was written; with one flipped bit or without its end it is refused.
 */
#define _GNU_SOURCE /* memfd_create */
#include "backup/backup_load.h"
#include "backup/file/backup_reader.h"
#include "backup/file/backup_writer.h"
#include "base/endian.h"
#include "base/map.h"
#include "fuzz/cost.h"
#include "fuzz/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

enum { RECORDS_MAX = 12, FILES_MAX = 2, PATH_SIZE = 32 };

/* A block of few bytes may have a megabyte, and a record all blocks of the file. */
const struct cost_bound fuzz_bound = {
    .cpu_us = 400000,
    .cpu_ns_per_byte = 400000,
    .alloc_bytes = 64 << 20,
    .alloc_per_byte = 1 << 18,
};

/* --- files in memory -------------------------------------------------------------------------- */

struct memory_file {
    int fd;
    char path[PATH_SIZE];
};

static struct memory_file memory_file_make(struct slice bytes)
{
    struct memory_file f = {.fd = memfd_create("backup", MFD_CLOEXEC)};
    must(f.fd >= 0 && fd_write_all(f.fd, bytes));
    snprintf(f.path, sizeof f.path, "/proc/self/fd/%d", f.fd);
    return f;
}

struct loading {
    int64_t zxid; /* of the last state */
    size_t calls;
};

static void on_changed(void *ctx, const struct state *s, const struct backup_change *change)
{
    struct loading *l = ctx;
    must(change != NULL ? change->command != NULL && l->calls > 0 : true);
    l->zxid = state_zxid(s);
    l->calls++;
}

/* Loads the files; returns whether they were good. */
static bool load(const struct slice *contents, size_t count, const struct backup_moment *moment)
{
    struct memory_file files[FILES_MAX];
    const char *paths[FILES_MAX];
    struct loading l = {.zxid = 0};
    struct backup_loaded loaded;
    char *text = NULL;
    bool named = false;
    for (size_t i = 0; i < count; i++) {
        files[i] = memory_file_make(contents[i]);
        paths[i] = files[i].path;
    }
    const struct backup_load_options options = {
        .files = paths, .count = count, .moment = *moment, .changed = on_changed, .ctx = &l};
    int rc = backup_load(&options, &loaded, &text);
    for (size_t i = 0; i < count; i++) {
        named = named || (text != NULL && strstr(text, paths[i]) != NULL);
        close(files[i].fd);
    }
    if (rc == 0) {
        must(text == NULL && loaded.state != NULL && l.calls > 0);
        must(state_zxid(loaded.state) == l.zxid);
        must(moment->zxid == 0 || l.zxid == moment->zxid);
        backup_loaded_finish(&loaded);
    } else {
        /* what is missing at the end is the fault of no single file */
        must(rc < 0 && text != NULL && (named || rc == CONCLAVE_EINVAL || rc == CONCLAVE_ECORRUPT));
    }
    free(text);
    return rc == 0;
}

/* --- any bytes -------------------------------------------------------------------------------- */

static int no_header(void *ctx, const struct backup_header *header)
{
    must(header != NULL);
    return 0;
}

static int any_record(void *ctx, const struct backup_record *record)
{
    must(record->payload.len <= BACKUP_RECORD_MAX);
    *(size_t *)ctx += 1;
    return 0;
}

/* The same in parts of any size gives the same records. */
static int read_in_parts(struct slice bytes, size_t part, size_t *ret_records)
{
    const struct backup_reader_callbacks callbacks = {ret_records, no_header, any_record};
    struct backup_reader *r = backup_reader_create(&callbacks);
    int rc = r == NULL ? CONCLAVE_ENOMEM : 0;
    *ret_records = 0;
    while (rc == 0 && bytes.len > 0) {
        size_t len = bytes.len < part ? bytes.len : part;
        rc = backup_reader_feed(r, slice_make(bytes.data, len));
        bytes = slice_make(bytes.data + len, bytes.len - len);
    }
    rc = rc == 0 ? backup_reader_end(r) : rc;
    uint64_t offset = 0;
    must(rc == 0 || rc == CONCLAVE_ENOMEM || backup_reader_problem(r, &offset)[0] != '\0');
    backup_reader_destroy(r);
    return rc;
}

static void fuzz_bytes(struct slice bytes)
{
    struct input in = input_make(bytes);
    size_t part = (size_t)take(&in) + 1;
    struct slice rest = take_rest(&in);
    size_t records;
    size_t again;
    int rc = read_in_parts(rest, part, &records);
    must(read_in_parts(rest, SIZE_MAX, &again) == rc && again == records);
    (void)load(&rest, 1, &(struct backup_moment){0});
}

/* --- blocks with right checksums -------------------------------------------------------------- */

struct file_maker {
    struct buf out;
    uint64_t chain;
    uint64_t total;
};

static void make_header(struct file_maker *m)
{
    struct backup_writer *w = backup_writer_create(1);
    const struct backup_header h = {.cluster = "an ensemble's id", .end_index = 9, .end_term = 1};
    must(w != NULL);
    buf_init(&m->out, 0);
    backup_writer_header(w, &h, &m->out);
    backup_writer_destroy(w);
    must(m->out.len == BACKUP_HEADER_SIZE);
    m->chain = get_le64(m->out.data + BACKUP_HEADER_SIZE - 8);
}

static void make_block(struct file_maker *m, struct slice stored, uint32_t raw_len)
{
    uint8_t head[BACKUP_BLOCK_HEAD];
    m->chain = hash_u64(m->chain ^ hash_bytes(stored.data, stored.len) ^ raw_len);
    put_le32(head, (uint32_t)stored.len);
    put_le32(head + 4, raw_len);
    put_le64(head + 8, m->chain);
    buf_append(&m->out, head, sizeof head);
    buf_append_slice(&m->out, stored);
    m->total += raw_len;
}

static void make_end(struct file_maker *m)
{
    uint8_t end[BACKUP_END_SIZE] = {0};
    put_le64(end + 8, hash_u64(m->chain ^ m->total));
    put_le64(end + 16, m->total);
    buf_append(&m->out, end, sizeof end);
    must(buf_ok(&m->out));
}

/* The bytes of blocks: compressed ones, or (raw) what is in them. */
static void fuzz_blocks(struct slice bytes, bool raw)
{
    struct input in = input_make(bytes);
    struct file_maker m = {.total = 0};
    uint8_t stored[ZSTD_COMPRESSBOUND(255)];
    make_header(&m);
    while (!input_ended(&in)) {
        struct slice part = take_bytes(&in, 255);
        if (!raw) {
            make_block(&m, part, take_u32(&in));
        } else if (part.len > 0) {
            size_t n = ZSTD_compress(stored, sizeof stored, part.data, part.len, 1);
            must(!ZSTD_isError(n));
            make_block(&m, slice_make(stored, n), (uint32_t)part.len);
        }
    }
    make_end(&m);
    (void)load(&(struct slice){m.out.data, m.out.len}, 1, &(struct backup_moment){0});
    buf_finish(&m.out);
}

static void fuzz_stored(struct slice bytes)
{
    fuzz_blocks(bytes, false);
}

static void fuzz_raw(struct slice bytes)
{
    fuzz_blocks(bytes, true);
}

/* --- whole files ------------------------------------------------------------------------------ */

static const uint32_t KINDS[] = {1, 2, 3, BACKUP_RECORD_SNAPSHOT, BACKUP_RECORD_PART, 1, 1, 99};

/* Writes a file of records; the number of them. */
static size_t make_file(struct input *in, uint64_t from, bool incremental, struct buf *out)
{
    struct backup_writer *w = backup_writer_create(1);
    size_t records = take(in) % RECORDS_MAX;
    const struct backup_header h = {.incremental = incremental,
                                    .cluster = "an ensemble's id",
                                    .from_index = from,
                                    .from_term = 1,
                                    .end_index = from + records,
                                    .end_term = 1,
                                    .made_ms = 5};
    must(w != NULL);
    backup_writer_header(w, &h, out);
    for (size_t i = 0; i < records; i++) {
        uint32_t kind = KINDS[take(in) % (sizeof KINDS / sizeof KINDS[0])];
        uint64_t index = from + i + 1 + (take(in) == 255);
        backup_writer_record(w, kind, index, 1, take_bytes(in, 255), out);
    }
    backup_writer_end(w, out);
    must(buf_ok(out));
    backup_writer_destroy(w);
    return records;
}

static void fuzz_files(struct slice bytes)
{
    struct input in = input_make(bytes);
    const struct backup_moment moment = {.zxid = take(&in), .time_ms = take(&in)};
    size_t count = (size_t)take(&in) % FILES_MAX + 1;
    uint32_t where = take_u32(&in);
    struct buf out[FILES_MAX];
    struct slice contents[FILES_MAX];
    uint64_t from = 0;
    for (size_t i = 0; i < count; i++) {
        size_t got;
        buf_init(&out[i], 0);
        size_t records = make_file(&in, from, i > 0, &out[i]);
        contents[i] = buf_slice(&out[i]);
        must(read_in_parts(contents[i], SIZE_MAX, &got) == 0 && got == records);
        from += records;
    }
    (void)load(contents, count, &moment);
    /* whatever they say, not with a flipped bit or without their end */
    struct slice *last = &contents[count - 1];
    uint8_t *spoilt = out[count - 1].data + where / 8 % last->len;
    *spoilt ^= (uint8_t)(1u << where % 8);
    must(!load(contents, count, &moment));
    *spoilt ^= (uint8_t)(1u << where % 8);
    last->len -= where % last->len + 1;
    must(!load(contents, count, &moment));
    for (size_t i = 0; i < count; i++) {
        buf_finish(&out[i]);
    }
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static const fuzz_target targets[] = {fuzz_bytes, fuzz_stored, fuzz_raw, fuzz_files};
    fuzz_choose(targets, sizeof targets / sizeof targets[0], data, size);
}
