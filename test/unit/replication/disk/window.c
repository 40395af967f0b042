/* The search for a frame in the unused end of a segment: each place at which one may begin, and few reads. */
#include "replication/disk/segment.h"

#include "base/endian.h"
#include "replication/disk/folder_format.h"
#include "replication/disk/memory_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SIZE = 1 << 20, READS_MAX = 8 };

static struct file_ops inner;
static int reads;
static int read_error;

static int64_t counted_read(void *ctx, int fd, void *data, size_t len, uint64_t offset)
{
    reads++;
    return read_error != 0 ? read_error : inner.read(ctx, fd, data, len, offset);
}

static void magic_at(const struct file_ops *ops, int fd, uint64_t frame)
{
    uint8_t magic[4];
    put_le32(magic, FRAME_MAGIC);
    assert_int_equal(ops->write(ops->ctx, fd, magic, sizeof magic, frame + 8), 0);
}

static uint64_t find(struct window *w, uint64_t from)
{
    uint64_t at = from;
    assert_int_equal(window_find_frame(w, &at), 0);
    return at;
}

static void test_each_place_is_found(void **state)
{
    const uint64_t places[] = {512, 520, 4096, 256u * 1024 - 8, 256u * 1024, 300000, SIZE - 40};
    struct memory_files *m = NULL;
    assert_int_equal(memory_files_create(&m), 0);
    inner = *memory_files_ops(m);
    struct file_ops ops = inner;
    ops.read = counted_read;
    int fd = ops.open(ops.ctx, "/f", FILE_REPLACE);
    uint8_t *zeroes = calloc(1, SIZE);
    assert_int_equal(ops.write(ops.ctx, fd, zeroes, SIZE, 0), 0);
    free(zeroes);

    struct window w;
    window_init(&w, &ops, fd, SIZE);
    reads = read_error = 0;
    assert_int_equal(find(&w, 512), SIZE);
    assert_in_range(reads, 1, READS_MAX);
    assert_int_equal(find(&w, SIZE - 8), SIZE); /* no room for a header */
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        magic_at(&ops, fd, places[i]);
    }
    window_finish(&w);
    window_init(&w, &ops, fd, SIZE);
    uint64_t at = 512;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        at = find(&w, at);
        assert_int_equal(at, places[i]);
        at += 8;
    }
    assert_int_equal(find(&w, at), SIZE);

    read_error = -EIO;
    at = 512;
    assert_int_equal(window_find_frame(&w, &at), -EIO);
    window_finish(&w);
    ops.close(ops.ctx, fd);
    memory_files_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_place_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
