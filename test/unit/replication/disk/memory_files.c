/* Files in memory: content, names, handles that outlive names, maps, listings, and the limits. */
#include "replication/disk/memory_files.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static struct memory_files *files(void)
{
    struct memory_files *m = NULL;
    assert_int_equal(memory_files_create(&m), 0);
    return m;
}

static void write_text(const struct file_ops *ops, const char *path, const char *text)
{
    int fd = ops->open(ops->ctx, path, FILE_REPLACE);
    assert_true(fd >= 0);
    assert_int_equal(ops->write(ops->ctx, fd, text, strlen(text), 0), 0);
    assert_int_equal(ops->sync(ops->ctx, fd), 0);
    ops->close(ops->ctx, fd);
}

static void check_text(const struct file_ops *ops, int fd, const char *text)
{
    char got[64];
    assert_int_equal(ops->size(ops->ctx, fd), strlen(text));
    assert_int_equal(ops->read(ops->ctx, fd, got, sizeof got, 0), strlen(text));
    assert_memory_equal(got, text, strlen(text));
}

static void test_content(void **state)
{
    struct memory_files *m = files();
    const struct file_ops *ops = memory_files_ops(m);
    char got[8];
    assert_false(ops->threads);
    assert_int_equal(ops->open(ops->ctx, "/d/a", FILE_READ), -ENOENT);
    assert_int_equal(ops->open(ops->ctx, "/d/a", FILE_WRITE), -ENOENT);
    int fd = ops->open(ops->ctx, "/d/a", FILE_REPLACE);
    assert_int_equal(ops->read(ops->ctx, fd, got, 8, 0), 0);
    assert_int_equal(ops->write(ops->ctx, fd, "xy", 2, 4), 0);
    assert_int_equal(ops->size(ops->ctx, fd), 6);
    assert_int_equal(ops->read(ops->ctx, fd, got, 8, 1), 5);
    assert_memory_equal(got, "\0\0\0xy", 5);
    assert_int_equal(ops->read(ops->ctx, fd, got, 8, UINT64_MAX), 0);
    assert_int_equal(ops->write(ops->ctx, fd, "x", 1, MEMORY_FILES_BYTES), -ENOSPC);
    assert_int_equal(ops->write(ops->ctx, fd, "x", 1, UINT64_MAX), -ENOSPC);
    assert_int_equal(ops->size(ops->ctx, fd), 6);
    assert_true(memory_files_bytes(m) > 0);
    ops->close(ops->ctx, fd);
    memory_files_destroy(m);
}

/* As on a disk: a handle keeps the content of a name that is removed, replaced or renamed. */
static void test_names(void **state)
{
    struct memory_files *m = files();
    const struct file_ops *ops = memory_files_ops(m);
    write_text(ops, "/d/a", "first");
    int fd = ops->open(ops->ctx, "/d/a", FILE_READ);
    write_text(ops, "/d/a", "second");
    check_text(ops, fd, "first");
    ops->close(ops->ctx, fd);
    write_text(ops, "/d/b", "other");
    fd = ops->open(ops->ctx, "/d/b", FILE_READ);
    assert_int_equal(ops->rename(ops->ctx, "/d/a", "/d/b"), 0);
    assert_int_equal(ops->rename(ops->ctx, "/d/a", "/d/b"), -ENOENT);
    assert_int_equal(ops->rename(ops->ctx, "/d/b", "/d/b"), 0);
    check_text(ops, fd, "other");
    ops->close(ops->ctx, fd);
    fd = ops->open(ops->ctx, "/d/b", FILE_WRITE);
    assert_int_equal(ops->remove(ops->ctx, "/d/b"), 0);
    assert_int_equal(ops->remove(ops->ctx, "/d/b"), -ENOENT);
    check_text(ops, fd, "second");
    ops->close(ops->ctx, fd);
    assert_int_equal(memory_files_bytes(m), 0);
    memory_files_destroy(m);
}

static void test_maps(void **state)
{
    struct memory_files *m = files();
    const struct file_ops *ops = memory_files_ops(m);
    const void *data = NULL;
    write_text(ops, "/d/a", "mapped");
    int fd = ops->open(ops->ctx, "/d/a", FILE_WRITE);
    assert_int_equal(ops->map(ops->ctx, fd, 7, &data), -EINVAL);
    assert_int_equal(ops->map(ops->ctx, fd, 6, &data), 0);
    /* What is mapped must not move. */
    assert_int_equal(ops->write(ops->ctx, fd, "x", 1, 1 << 20), -EBUSY);
    ops->close(ops->ctx, fd);
    assert_int_equal(ops->remove(ops->ctx, "/d/a"), 0);
    assert_memory_equal(data, "mapped", 6);
    ops->unmap(ops->ctx, data, 6);
    assert_int_equal(memory_files_bytes(m), 0);
    memory_files_destroy(m);
}

static void test_on_name(void *arg, const char *name)
{
    strcat(arg, name);
    strcat(arg, ";");
}

static void test_list(void **state)
{
    struct memory_files *m = files();
    const struct file_ops *ops = memory_files_ops(m);
    char names[128] = "";
    write_text(ops, "/d/a", "1");
    write_text(ops, "/d/log/1", "2");
    write_text(ops, "/dd/b", "3");
    write_text(ops, "/d/c", "4");
    assert_int_equal(ops->list(ops->ctx, "/d", test_on_name, names), 0);
    assert_string_equal(names, "a;c;");
    long pid = 0;
    assert_true(ops->lock(ops->ctx, "/d/lock", &pid) >= 0);
    memory_files_destroy(m); /* closes what is open */
}

static void test_limits(void **state)
{
    struct memory_files *m = files();
    const struct file_ops *ops = memory_files_ops(m);
    char path[32];
    for (int i = 0; i < MEMORY_FILES_MAX; i++) {
        snprintf(path, sizeof path, "/d/%d", i);
        write_text(ops, path, "x");
    }
    assert_int_equal(ops->open(ops->ctx, "/d/more", FILE_REPLACE), -ENOSPC);
    for (int i = 0; i < MEMORY_FILES_OPEN; i++) {
        assert_int_equal(ops->open(ops->ctx, "/d/1", FILE_READ), i);
    }
    assert_int_equal(ops->open(ops->ctx, "/d/1", FILE_READ), -EMFILE);
    memory_files_destroy(m);
    memory_files_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_content), cmocka_unit_test(test_names),  cmocka_unit_test(test_maps),
        cmocka_unit_test(test_list),    cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
