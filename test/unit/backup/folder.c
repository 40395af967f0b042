/* Folders of backups: which files are a series, which series has a moment, which of them may go. */
#include "backup/backup_folder.h"
#include "backup/file/backup_writer.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { DAY = 86400000 };
#define NOW_MS (1000LL * DAY)

struct place {
    char dir[64];
    struct backup_folder folder;
};

static int setup(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    snprintf(p->dir, sizeof p->dir, "/tmp/conclave-backups-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct place *p = *state;
    char command[256];
    backup_folder_finish(&p->folder);
    snprintf(command, sizeof command, "rm -r '%s'", p->dir);
    assert_int_equal(system(command), 0);
    free(p);
    return 0;
}

static void write_file(const struct place *p, const char *name, struct slice bytes)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", p->dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && fd_write_all(fd, bytes));
    close(fd);
}

/* An empty backup of the log from one index to another, made on that day; from 0: a full one. */
static void put(const struct place *p, const char *name, uint64_t from, uint64_t end, int day)
{
    const struct backup_header h = {.incremental = from > 0,
                                    .cluster = "an ensemble's id",
                                    .from_index = from,
                                    .from_term = from > 0 ? 7 : 0,
                                    .end_index = end,
                                    .end_term = 7,
                                    .from_zxid = (int64_t)from,
                                    .end_zxid = (int64_t)end,
                                    .made_ms = (int64_t)day * DAY};
    struct backup_writer *w = backup_writer_create(1);
    struct buf out;
    assert_non_null(w);
    buf_init(&out, 0);
    backup_writer_header(w, &h, &out);
    backup_writer_end(w, &out);
    assert_true(buf_ok(&out));
    write_file(p, name, buf_slice(&out));
    buf_finish(&out);
    backup_writer_destroy(w);
}

static struct backup_folder *look(struct place *p)
{
    char *text;
    backup_folder_finish(&p->folder);
    assert_int_equal(backup_folder_read(p->dir, &p->folder, &text), 0);
    return &p->folder;
}

/* "a b,c d e": the series. */
static const char *series_text(struct place *p)
{
    static char text[256];
    const struct backup_folder *f = look(p);
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < f->series_count; i++) {
        for (size_t k = 0; k < f->series[i].count; k++) {
            const char *name = strrchr(f->series[i].files[k], '/') + 1;
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s",
                                    k > 0   ? " "
                                    : i > 0 ? ","
                                            : "",
                                    (int)strcspn(name, "."), name);
        }
    }
    return text;
}

static void headers_tell_the_series(void **state)
{
    struct place *p = *state;
    put(p, "z.backup", 0, 10, 1);
    put(p, "y.backup", 10, 20, 2);
    put(p, "x.backup", 20, 20, 3); /* nothing had happened */
    put(p, "b.backup", 0, 30, 8);
    put(p, "a.backup", 30, 40, 9);
    assert_string_equal(series_text(p), "z y x,b a");
    assert_int_equal(p->folder.problems.len, 0);
    const struct backup_series *s = &p->folder.series[0];
    assert_int_equal(s->header.end_zxid, 20);
    assert_int_equal(s->full_zxid, 10);
    assert_int_equal(s->header.made_ms, 3LL * DAY);
    assert_int_equal(s->bytes, 3 * (BACKUP_HEADER_SIZE + BACKUP_END_SIZE));
}

static void a_clock_that_went_back_does_not_part_them(void **state)
{
    struct place *p = *state;
    put(p, "full.backup", 0, 10, 5);
    put(p, "c.backup", 20, 20, 1);
    put(p, "b.backup", 10, 20, 4);
    put(p, "d.backup", 20, 30, 3);
    assert_string_equal(series_text(p), "full b c d");
}

static void a_file_goes_to_the_series_that_it_was_made_for(void **state)
{
    struct place *p = *state;
    put(p, "a.backup", 0, 10, 1);
    put(p, "b.backup", 10, 10, 2);
    put(p, "c.backup", 0, 10, 3); /* the same state, later */
    put(p, "d.backup", 10, 11, 4);
    assert_string_equal(series_text(p), "a b,c d");
}

static void other_files_are_named(void **state)
{
    struct place *p = *state;
    const char *problems;
    put(p, "full.backup", 0, 10, 1);
    put(p, "lost.backup", 11, 12, 1);
    put(p, ".hidden.backup", 10, 12, 1);
    put(p, "full.backup.part", 0, 10, 1);
    write_file(p, "short.backup", slice_str("CONCLBAK"));
    write_file(p, "text.backup",
               slice_make("no backup at all, whatever its name says................"
                          "..........................................................."
                          ".....................",
                          130));
    assert_string_equal(series_text(p), "full");
    problems = buf_cstr(&p->folder.problems);
    assert_non_null(strstr(problems, "lost.backup: it continues none of the others\n"));
    assert_non_null(strstr(problems, "short.backup: it is incomplete\n"));
    assert_non_null(strstr(problems, "text.backup: it is no backup\n"));
    assert_null(strstr(problems, "hidden"));
    assert_null(strstr(problems, "part"));
}

static void expect_at(const struct place *p, int64_t zxid, int64_t time_ms, size_t series)
{
    const struct backup_moment moment = {.zxid = zxid, .time_ms = time_ms};
    assert_ptr_equal(backup_folder_find(&p->folder, &moment), &p->folder.series[series]);
}

static void a_moment_is_in_the_series_that_covers_it(void **state)
{
    struct place *p = *state;
    const struct backup_moment end = {0};
    assert_null(backup_folder_find(look(p), &end));
    put(p, "a.backup", 0, 10, 1);
    put(p, "b.backup", 10, 20, 2);
    put(p, "c.backup", 0, 30, 5);
    put(p, "d.backup", 30, 40, 6);
    (void)look(p);
    expect_at(p, 0, 0, 1);
    expect_at(p, 5, 0, 0); /* in the log of the full one */
    expect_at(p, 15, 0, 0);
    expect_at(p, 20, 0, 0);
    expect_at(p, 25, 0, 1); /* only the later full one can have it */
    expect_at(p, 30, 0, 1);
    expect_at(p, 99, 0, 1);
    expect_at(p, 0, 2 * DAY, 0);
    expect_at(p, 0, 3 * DAY, 1);
    expect_at(p, 0, 9 * DAY, 1);
    expect_at(p, 0, 1, 0);
}

static size_t surplus(const struct place *p, int64_t age_days, uint64_t bytes)
{
    const struct backup_retention keep = {.age_ms = age_days * DAY, .bytes = bytes};
    return backup_folder_surplus(&p->folder, &keep, NOW_MS);
}

static void the_newest_never_goes(void **state)
{
    struct place *p = *state;
    const uint64_t each = BACKUP_HEADER_SIZE + BACKUP_END_SIZE;
    (void)look(p);
    assert_int_equal(surplus(p, 1, 1), 0);
    put(p, "a.backup", 0, 10, 960);
    (void)look(p);
    assert_int_equal(surplus(p, 1, 1), 0);
    put(p, "b.backup", 10, 20, 971); /* as young as this, so a stays, too */
    put(p, "c.backup", 0, 30, 980);
    put(p, "d.backup", 0, 40, 985);
    (void)look(p);
    assert_int_equal(surplus(p, 0, 0), 0);
    assert_int_equal(surplus(p, 30, 0), 0);
    assert_int_equal(surplus(p, 28, 0), 1);
    assert_int_equal(surplus(p, 1, 0), 2);
    assert_int_equal(surplus(p, 0, 4 * each), 0);
    assert_int_equal(surplus(p, 0, 4 * each - 1), 1);
    assert_int_equal(surplus(p, 0, 2 * each - 1), 2);
    assert_int_equal(surplus(p, 28, 2 * each), 1);
    assert_int_equal(surplus(p, 1, 1), 2);
}

static void a_series_goes_from_its_end(void **state)
{
    struct place *p = *state;
    char *text;
    put(p, "a.backup", 0, 10, 1);
    put(p, "b.backup", 10, 20, 2);
    put(p, "c.backup", 0, 30, 3);
    (void)look(p);
    /* What a crash leaves after the first file is a series. */
    assert_int_equal(unlink(p->folder.series[0].files[1]), 0);
    assert_string_equal(series_text(p), "a,c");
    assert_int_equal(backup_series_remove(&p->folder.series[0], &text), 0);
    assert_int_equal(backup_series_remove(&p->folder.series[0], &text),
                     0); /* nothing is left to do */
    assert_int_equal(backup_folder_sync(p->dir), 0);
    assert_string_equal(series_text(p), "c");
}

static void a_folder_that_is_not_there(void **unused)
{
    (void)unused;
    struct backup_folder f;
    char *text;
    assert_int_equal(backup_folder_read("/nowhere/at/all", &f, &text), CONCLAVE_EIO);
    assert_non_null(strstr(text, "/nowhere/at/all: cannot be read"));
    free(text);
    backup_folder_finish(&f);
    assert_true(backup_folder_sync("/nowhere/at/all") != 0);
}

int main(void)
{
#define IN_PLACE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        IN_PLACE(headers_tell_the_series),
        IN_PLACE(a_clock_that_went_back_does_not_part_them),
        IN_PLACE(a_file_goes_to_the_series_that_it_was_made_for),
        IN_PLACE(other_files_are_named),
        IN_PLACE(a_moment_is_in_the_series_that_covers_it),
        IN_PLACE(the_newest_never_goes),
        IN_PLACE(a_series_goes_from_its_end),
        cmocka_unit_test(a_folder_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
