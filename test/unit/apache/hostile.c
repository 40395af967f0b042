/* Files of an Apache ZooKeeper that somebody made to harm: each is refused, in little time and memory. */
#include "apache/export.h"
#include "apache/folder.h"
#include "apache/format.h"
#include "apache/survey.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

static char dir[64];
static char path[160];

/* A folder with a file of this name, which is `path`. */
static int make_place(void **unused)
{
    (void)unused;
    char inner[96];
    snprintf(dir, sizeof dir, "/tmp/conclave-hostile-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(inner, sizeof inner, "%s/version-2", dir);
    assert_int_equal(mkdir(inner, 0700), 0);
    return 0;
}

static int remove_place(void **unused)
{
    (void)unused;
    char command[256];
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    assert_int_equal(system(command), 0);
    return 0;
}

static void name_file(const char *name)
{
    snprintf(path, sizeof path, "%s/version-2/%s", dir, name);
}

static void write_file(const char *name, struct slice bytes)
{
    name_file(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && fd_write_all(fd, bytes));
    assert_int_equal(close(fd), 0);
}

static void expect_refused(int want, const char *text)
{
    struct apache_found found;
    struct state *s;
    char *error = NULL;
    assert_int_equal(apache_folder_read(dir, NULL, &hash_key_fixed, &found, &s, &error), want);
    assert_non_null(error);
    assert_non_null(strstr(error, text));
    assert_non_null(strstr(error, dir));
    free(error);
}

static void put_header(struct buf *b, int32_t magic)
{
    struct wire_file_header header = {magic, APACHE_FORMAT_VERSION, 0};
    wire_encode_file_header(b, &header);
}

/* At every fourth byte behind the damage seems to be an entry of one MiB: to compare all of their checksums takes hours. */
static void test_a_log_with_millions_of_seeming_entries(void **unused)
{
    (void)unused;
    static const uint8_t pattern[4] = {0x00, 0x10, 'B', 'B'};
    struct buf log;
    buf_init(&log, 0);
    put_header(&log, APACHE_LOG_MAGIC);
    buf_append_i64(&log, 1);
    buf_append_i32(&log, -5);
    for (int i = 0; i < 1 << 21; i++) {
        buf_append(&log, pattern, sizeof pattern);
    }
    write_file("log.1", buf_slice(&log));
    buf_finish(&log);
    expect_refused(CONCLAVE_ECORRUPT, "an entry cannot be read");
}

/* None of many small entries is a transaction: the first ones are told, not each of them. */
static void test_a_log_with_many_damages(void **unused)
{
    (void)unused;
    enum { ENTRIES = 100000, TOLD_MAX = 101 };
    struct apache_survey survey;
    char *error = NULL;
    struct buf log;
    buf_init(&log, 0);
    put_header(&log, APACHE_LOG_MAGIC);
    for (int i = 0; i < ENTRIES; i++) {
        buf_append_i64(&log, (int64_t)adler32(1, (const uint8_t *)"x", 1)); /* of no transaction */
        buf_append_i32(&log, 1);
        buf_append_str(&log, "xB");
    }
    write_file("log.1", buf_slice(&log));
    buf_finish(&log);
    assert_int_equal(apache_survey(dir, NULL, &survey, &error), 0);
    assert_in_range(survey.damage_count, 2, TOLD_MAX);
    assert_non_null(strstr(survey.damages[survey.damage_count - 1].what, "the rest is not read"));
    assert_true(survey.files[0].damaged);
    apache_survey_finish(&survey);
}

/* 300 kB that become 300 MB, all of which the name of the first node claims. */
static void test_a_small_file_with_an_enormous_record(void **unused)
{
    (void)unused;
    enum { CHUNK = 1 << 20, CHUNKS = 300, MEMORY_MAX_KB = 800 << 10 };
    static uint8_t zeroes[CHUNK];
    struct buf head;
    buf_init(&head, 0);
    put_header(&head, APACHE_SNAPSHOT_MAGIC);
    buf_append_i32(&head, 0);
    buf_append_i32(&head, 0);
    buf_append_i32(&head, INT32_MAX);
    name_file("snapshot.1.gz");
    gzFile gz = gzopen(path, "wb1");
    assert_non_null(gz);
    assert_int_equal(gzwrite(gz, head.data, (unsigned)head.len), (int)head.len);
    for (int i = 0; i < CHUNKS; i++) {
        assert_int_equal(gzwrite(gz, zeroes, CHUNK), CHUNK);
    }
    assert_int_equal(gzclose(gz), Z_OK);
    buf_finish(&head);
    expect_refused(CONCLAVE_ECORRUPT, "there is no node");
    struct rusage usage;
    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    assert_in_range(usage.ru_maxrss, 1, MEMORY_MAX_KB);
}

/* A pipe that nobody writes to, or a device, in place of a file. */
static void test_what_is_no_file(void **unused)
{
    (void)unused;
    name_file("snapshot.1");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(CONCLAVE_EIO, "is no file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/zero", path), 0);
    expect_refused(CONCLAVE_EIO, "is no file");
}

/* Behind such a zxid would be no other. */
static void test_the_last_zxid(void **unused)
{
    (void)unused;
    struct adoption *a = adoption_create(&hash_key_fixed);
    struct adopted_node root = {.path = slice_make("", 0),
                                .record = {.data = slice_make("", 0), .acl = -1}};
    assert_int_equal(adoption_node(a, &root), 0);
    assert_int_equal(adoption_nodes_end(a, INT64_MAX), CONCLAVE_ECORRUPT);
    assert_non_null(strstr(adoption_error(a), "zxid"));
    assert_int_equal(adoption_nodes_end(a, 1), 0);
    struct outcome last = {.header = {.zxid = INT64_MAX - 1, .type = WIRE_ERROR}};
    assert_int_equal(adoption_apply(a, &last), CONCLAVE_ECORRUPT);
    assert_non_null(strstr(adoption_error(a), "zxid"));
    adoption_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_log_with_millions_of_seeming_entries, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(test_a_log_with_many_damages, make_place, remove_place),
        cmocka_unit_test_setup_teardown(test_a_small_file_with_an_enormous_record, make_place,
                                        remove_place),
        cmocka_unit_test_setup_teardown(test_what_is_no_file, make_place, remove_place),
        cmocka_unit_test(test_the_last_zxid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
