/* Folders of Apache ZooKeeper: what we write reads back the same, and no flipped or missing byte goes unnoticed. */
#include "apache/folder.h"
#include "apache/compare.h"
#include "apache/export.h"
#include "apache/format.h"
#include "apache/survey.h"
#include "state/state_internal.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#define SESSION 0x100000001LL
enum { SNAPSHOT_ZXID = 5, TRANSACTIONS = 6 };

/* A data folder in a temporary place. */
struct place {
    char dir[64];
    char inner[96];
};

static void place_make(struct place *p)
{
    snprintf(p->dir, sizeof p->dir, "/tmp/conclave-apache-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    snprintf(p->inner, sizeof p->inner, "%s/version-2", p->dir);
}

static void place_remove(const struct place *p)
{
    char command[256];
    snprintf(command, sizeof command, "rm -r '%s'", p->dir);
    assert_int_equal(system(command), 0);
}

static void write_bytes(const char *path, struct slice bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0 && fd_write_all(fd, bytes));
    assert_int_equal(close(fd), 0);
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
    assert_int_equal(close(fd), 0);
    return b;
}

static void node(struct adoption *a, const char *path, const char *data, int64_t owner, int64_t acl)
{
    struct adopted_node n = {.path = slice_str(path),
                             .record = {.data = slice_str(data),
                                        .acl = acl,
                                        .czxid = 2,
                                        .mzxid = 3,
                                        .ctime = 1000,
                                        .mtime = 2000,
                                        .version = 4,
                                        .cversion = 7,
                                        .aversion = 1,
                                        .ephemeral_owner = owner,
                                        .pzxid = 5}};
    assert_int_equal(adoption_node(a, &n), 0);
}

/* A state with some of everything. */
static struct state *sample(void)
{
    struct adoption *a = adoption_create(&hash_key_fixed);
    struct adoption_report report;
    struct state *s = NULL;
    struct buf items;
    buf_init(&items, 0);
    struct wire_acl acl = {.perms = 1, .id = {slice_str("digest"), slice_str("u:p")}};
    wire_encode_acl(&items, &acl);
    assert_int_equal(adoption_session(a, SESSION, 9000), 0);
    assert_int_equal(adoption_acl(a, 3, wire_vector_make(&items, 1)), 0);
    node(a, "", "root", 0, -1);
    node(a, "/a", "one", 0, 3);
    node(a, "/a/b", NULL, 0, -1);
    node(a, "/e", "", SESSION, 3);
    node(a, "/c", "c", TREE_OWNER_CONTAINER, -1);
    node(a, "/t", "t", tree_ttl_owner(5000), -1);
    assert_int_equal(adoption_nodes_end(a, SNAPSHOT_ZXID), 0);
    assert_int_equal(adoption_end(a, NULL, NULL, &report, &s), 0);
    buf_finish(&items);
    adoption_destroy(a);
    return s;
}

static int read_folder(const struct place *p, struct apache_found *found, struct state **ret,
                       char **error)
{
    return apache_folder_read(p->dir, NULL, &hash_key_fixed, found, ret, error);
}

static void export_sample(const struct place *p, struct state **ret, char **ret_file)
{
    struct apache_exported made;
    char *error;
    *ret = sample();
    assert_int_equal(apache_export(*ret, p->dir, NULL, NULL, &made, &error), 0);
    assert_int_equal(made.sessions, 1);
    assert_int_equal(made.foreign_sessions, 0);
    *ret_file = made.file;
}

static void test_what_is_written_reads_back(void **unused)
{
    (void)unused;
    struct place p;
    struct state *s;
    struct state *again;
    struct apache_found found;
    char *file;
    char *error;
    place_make(&p);
    export_sample(&p, &s, &file);
    assert_int_equal(read_folder(&p, &found, &again, &error), 0);
    assert_true(state_digest(s) == state_digest(again));
    assert_true(found.report.digest_compared);
    assert_int_equal(found.zxid, SNAPSHOT_ZXID);
    assert_int_equal(found.transactions, 0);
    apache_found_finish(&found);
    state_destroy(again);
    /* And not twice into one folder. */
    struct apache_exported made;
    assert_int_equal(apache_export(s, p.dir, NULL, NULL, &made, &error), CONCLAVE_EFOREIGN);
    free(error);
    free(file);
    state_destroy(s);
    place_remove(&p);
}

static void expect_damage(const struct place *p, const char *file)
{
    struct apache_found found;
    struct state *s;
    char *error;
    assert_int_equal(read_folder(p, &found, &s, &error), CONCLAVE_ECORRUPT);
    assert_non_null(strstr(error, file));
    free(error);
}

static void test_no_flipped_or_missing_byte_of_a_snapshot_is_taken(void **unused)
{
    (void)unused;
    struct place p;
    struct state *s;
    char *file;
    place_make(&p);
    export_sample(&p, &s, &file);
    struct buf bytes = read_bytes(file);
    for (size_t i = 0; i < bytes.len; i++) {
        bytes.data[i] ^= (uint8_t)(1u << i % 8);
        write_bytes(file, buf_slice(&bytes));
        expect_damage(&p, file);
        bytes.data[i] ^= (uint8_t)(1u << i % 8);
    }
    enum { DIGEST_LEN = 8 + 4 + 8 + 13 }; /* an older version ends before it */
    for (size_t len = 0; len < bytes.len; len++) {
        write_bytes(file, slice_make(bytes.data, len));
        if (len != bytes.len - DIGEST_LEN) {
            expect_damage(&p, file);
        }
    }
    buf_finish(&bytes);
    free(file);
    state_destroy(s);
    place_remove(&p);
}

/* One entry of a log: creates /n<zxid>. */
static void put_entry(struct buf *log, int64_t zxid)
{
    char path[32];
    struct buf txn;
    struct buf items;
    buf_init(&txn, 0);
    buf_init(&items, 0);
    snprintf(path, sizeof path, "/n%d", (int)zxid);
    struct wire_acl acl = {.perms = 31, .id = {slice_str("world"), slice_str("anyone")}};
    wire_encode_acl(&items, &acl);
    struct wire_txn_header header = {SESSION, 1, zxid, 5000, WIRE_CREATE};
    struct wire_txn_create create = {slice_str(path), slice_str("x"), wire_vector_make(&items, 1),
                                     false, -1};
    wire_encode_txn_header(&txn, &header);
    wire_encode_txn_create(&txn, &create);
    buf_append_i64(log, (int64_t)adler32_z(1, txn.data, txn.len));
    wire_write_buffer(log, buf_slice(&txn));
    buf_append_u8(log, APACHE_ENTRY_END);
    buf_finish(&txn);
    buf_finish(&items);
}

/* The log behind the sample's snapshot, lengthened by zeroes; *ret_last: where the last entry begins. */
static struct buf make_log(size_t zeroes, size_t *ret_last)
{
    struct buf log;
    buf_init(&log, 0);
    struct wire_file_header header = {APACHE_LOG_MAGIC, APACHE_FORMAT_VERSION, 0};
    wire_encode_file_header(&log, &header);
    for (int64_t zxid = SNAPSHOT_ZXID + 1; zxid <= SNAPSHOT_ZXID + TRANSACTIONS; zxid++) {
        *ret_last = log.len;
        put_entry(&log, zxid);
    }
    for (size_t i = 0; i < zeroes; i++) {
        buf_append_u8(&log, 0);
    }
    return log;
}

static void test_no_flipped_byte_of_a_log_is_taken(void **unused)
{
    (void)unused;
    struct place p;
    struct state *s;
    char *file;
    char name[160];
    size_t last;
    place_make(&p);
    export_sample(&p, &s, &file);
    struct buf log = make_log(100, &last);
    size_t end = log.len - 100;
    snprintf(name, sizeof name, "%s/log.6", p.inner);
    for (size_t i = 0; i < log.len; i++) {
        struct apache_found found;
        struct state *got;
        char *error;
        log.data[i] ^= 0x04;
        write_bytes(name, buf_slice(&log));
        int rc = read_folder(&p, &found, &got, &error);
        if (rc == 0) {
            /* What looks like an entry that a crash has torn: it alone is missing, and the report says so. */
            bool in_last = i >= last && i < end;
            bool database_id = i >= 8 && i < 16; /* it means nothing */
            uint64_t torn = in_last ? last : database_id ? 0 : end;
            assert_true(in_last || database_id || i >= end);
            assert_int_equal(found.unfinished_at, torn);
            assert_int_equal(found.transactions, in_last ? TRANSACTIONS - 1 : TRANSACTIONS);
            apache_found_finish(&found);
            state_destroy(got);
        } else {
            assert_int_equal(rc, CONCLAVE_ECORRUPT);
            assert_non_null(strstr(error, name));
            free(error);
        }
        log.data[i] ^= 0x04;
    }
    buf_finish(&log);
    free(file);
    state_destroy(s);
    place_remove(&p);
}

static void test_a_log_cut_anywhere_gives_the_entries_before(void **unused)
{
    (void)unused;
    struct place p;
    struct state *s;
    char *file;
    char name[160];
    size_t last;
    place_make(&p);
    export_sample(&p, &s, &file);
    struct buf log = make_log(0, &last);
    size_t entry = (log.len - 16) / TRANSACTIONS;
    snprintf(name, sizeof name, "%s/log.6", p.inner);
    for (size_t len = 16; len <= log.len; len++) {
        struct apache_found found;
        struct state *got;
        char *error;
        write_bytes(name, slice_make(log.data, len));
        assert_int_equal(read_folder(&p, &found, &got, &error), 0);
        uint64_t whole = len < log.len ? (len - 16) / entry : TRANSACTIONS;
        assert_in_range(found.transactions, whole > 0 ? whole - 1 : 0, whole);
        assert_int_equal(found.zxid, SNAPSHOT_ZXID + (int64_t)found.transactions);
        apache_found_finish(&found);
        state_destroy(got);
    }
    buf_finish(&log);
    free(file);
    state_destroy(s);
    place_remove(&p);
}

/* In a copy of a folder these zeroes may be written; an entry behind them is found wherever it begins. */
static void test_zeroes_behind_a_log_take_no_memory(void **unused)
{
    (void)unused;
    enum { ZEROES = 200 << 20, MORE_MAX_KB = 64 << 10, AWAY = 3 << 18 };
    struct place p;
    struct state *s;
    char *file;
    char name[160];
    size_t last;
    struct rusage before;
    struct rusage after;
    place_make(&p);
    export_sample(&p, &s, &file);
    struct buf log = make_log(0, &last);
    snprintf(name, sizeof name, "%s/log.6", p.inner);
    write_bytes(name, buf_slice(&log));
    int fd = open(name, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "", 1, (off_t)log.len + ZEROES), 1);
    assert_int_equal(close(fd), 0);
    struct apache_found found;
    struct state *got;
    char *error = NULL;
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    assert_int_equal(read_folder(&p, &found, &got, &error), 0);
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_int_equal(found.transactions, TRANSACTIONS);
    assert_in_range(after.ru_maxrss - before.ru_maxrss, 0, MORE_MAX_KB);
    apache_found_finish(&found);
    state_destroy(got);
    size_t entries = log.len;
    for (size_t away = AWAY - 24; away <= AWAY + 24; away++) {
        struct apache_survey survey;
        log.len = entries;
        for (size_t i = 0; i < away; i++) {
            buf_append_u8(&log, 0);
        }
        put_entry(&log, SNAPSHOT_ZXID + TRANSACTIONS + 1);
        write_bytes(name, buf_slice(&log));
        assert_int_equal(apache_survey(p.dir, NULL, &survey, &error), 0);
        assert_int_equal(survey.faults, 1);
        assert_int_equal(survey.damages[0].offset, entries);
        assert_int_equal(survey.files[1].transactions, TRANSACTIONS + 1);
        apache_survey_finish(&survey);
    }
    buf_finish(&log);
    free(file);
    state_destroy(s);
    place_remove(&p);
}

/* Apache lengthens its logs by 64 MiB or more without writing: that costs neither reading nor memory, and what is written behind
 * it by mistake is still seen. */
static void test_a_log_lengthened_by_a_hole(void **unused)
{
    (void)unused;
    enum { HOLE = 200 << 20, GROWN_MAX_KB = 50 << 10 };
    struct place p;
    struct state *s;
    char *file;
    char name[160];
    size_t last;
    struct rusage before;
    struct rusage after;
    struct apache_found found;
    struct state *got;
    char *error;
    place_make(&p);
    export_sample(&p, &s, &file);
    struct buf log = make_log(0, &last);
    snprintf(name, sizeof name, "%s/log.6", p.inner);
    write_bytes(name, buf_slice(&log));
    assert_int_equal(truncate(name, HOLE), 0);
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    assert_int_equal(read_folder(&p, &found, &got, &error), 0);
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(after.ru_maxrss - before.ru_maxrss < GROWN_MAX_KB);
    assert_int_equal(found.transactions, TRANSACTIONS);
    apache_found_finish(&found);
    state_destroy(got);
    int fd = open(name, O_WRONLY | O_APPEND);
    assert_true(fd >= 0 && fd_write_all(fd, slice_str("x")));
    assert_int_equal(close(fd), 0);
    assert_int_equal(read_folder(&p, &found, &got, &error), CONCLAVE_ECORRUPT);
    assert_non_null(strstr(error, "something follows it"));
    free(error);
    buf_finish(&log);
    free(file);
    state_destroy(s);
    place_remove(&p);
}

/* Two damaged entries of six: both are listed with their places, and the others are counted. */
static void test_each_damage_of_a_log_is_listed(void **unused)
{
    (void)unused;
    struct place p;
    struct state *s;
    char *file;
    char *error = NULL;
    char name[160];
    size_t last;
    struct apache_survey survey;
    place_make(&p);
    export_sample(&p, &s, &file);
    struct buf log = make_log(50, &last);
    size_t entry = (last - 16) / (TRANSACTIONS - 1);
    log.data[16 + entry + 30] ^= 0x01;     /* content of the second */
    log.data[16 + 3 * entry + 11] ^= 0x40; /* length of the fourth */
    snprintf(name, sizeof name, "%s/log.6", p.inner);
    write_bytes(name, buf_slice(&log));
    assert_int_equal(apache_survey(p.dir, NULL, &survey, &error), 0);
    assert_int_equal(survey.file_count, 2);
    assert_int_equal(survey.files[0].nodes, 9);
    assert_false(survey.files[0].damaged);
    assert_true(survey.files[1].damaged);
    assert_int_equal(survey.files[1].transactions, TRANSACTIONS - 2);
    assert_int_equal(survey.files[1].last_zxid, SNAPSHOT_ZXID + TRANSACTIONS);
    assert_int_equal(survey.faults, 2);
    assert_int_equal(survey.damages[0].offset, 16 + entry);
    assert_int_equal(survey.damages[1].offset, 16 + 3 * entry);
    assert_non_null(strstr(survey.damages[1].what, name));
    apache_survey_finish(&survey);
    buf_finish(&log);
    free(file);
    state_destroy(s);
    place_remove(&p);
}

/* A file that is whole, but of another state, is not equal to it. */
static void test_another_state_is_not_equal(void **unused)
{
    (void)unused;
    static const char *const paths[] = {"/a", "/a/b", "/e", "/c", "/t"};
    struct place p;
    struct state *s;
    char *file;
    char *error = NULL;
    struct apache_compared done;
    place_make(&p);
    export_sample(&p, &s, &file);
    uint64_t digest = outcome_tree_digest(s, apache_crc32);
    assert_int_equal(apache_compare(s, digest, file, NULL, NULL, &done, &error), 0);
    assert_int_equal(done.nodes, 9);
    assert_int_equal(done.sessions, 1);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct znode *changed = tree_find(&s->tree, slice_str(paths[i]));
        changed->mtime++;
        assert_int_equal(apache_compare(s, digest, file, NULL, NULL, &done, &error),
                         CONCLAVE_ECORRUPT);
        assert_non_null(strstr(error, paths[i]));
        assert_non_null(strstr(error, "mtime"));
        free(error);
        changed->mtime--;
    }
    assert_int_equal(apache_compare(s, digest + 1, file, NULL, NULL, &done, &error),
                     CONCLAVE_ECORRUPT);
    free(error);
    free(file);
    state_destroy(s);
    place_remove(&p);
}

/* A log reaches each zxid behind the snapshot: exactly that, or an error that says what there is. */
static void test_a_state_in_between(void **unused)
{
    (void)unused;
    struct place p;
    struct state *s;
    struct state *got;
    char *file;
    char *error = NULL;
    char name[160];
    size_t last;
    struct apache_found found;
    place_make(&p);
    export_sample(&p, &s, &file);
    struct buf log = make_log(50, &last);
    snprintf(name, sizeof name, "%s/log.6", p.inner);
    write_bytes(name, buf_slice(&log));
    /* The transactions have no digests, and what came behind the snapshot's zxid may be in it. */
    int rc = apache_folder_read_at(p.dir, NULL, SNAPSHOT_ZXID + 2, &hash_key_fixed, &found, &got,
                                   &error);
    assert_int_equal(rc, CONCLAVE_EINVAL);
    assert_non_null(strstr(error, "nothing proves"));
    free(error);
    error = NULL;
    rc = apache_folder_read_at(p.dir, NULL, SNAPSHOT_ZXID, &hash_key_fixed, &found, &got, &error);
    assert_int_equal(rc, 0); /* its own digest proves it */
    assert_true(state_digest(got) == state_digest(s));
    apache_found_finish(&found);
    state_destroy(got);
    assert_int_equal(apache_folder_read_at(p.dir, NULL, SNAPSHOT_ZXID + TRANSACTIONS + 1,
                                           &hash_key_fixed, &found, &got, &error),
                     CONCLAVE_EINVAL);
    assert_non_null(strstr(error, "ends with zxid 0xb"));
    free(error);
    buf_finish(&log);
    free(file);
    state_destroy(s);
    place_remove(&p);
}

static int count_transaction(void *ctx, int64_t zxid, struct slice transaction)
{
    (void)zxid;
    assert_true(transaction.len > 0);
    ++*(int *)ctx;
    return 0;
}

static void test_a_gap_between_logs_is_named(void **unused)
{
    (void)unused;
    struct place p;
    struct state *s;
    char *file;
    char name[160];
    struct buf log;
    place_make(&p);
    export_sample(&p, &s, &file);
    buf_init(&log, 0);
    struct wire_file_header header = {APACHE_LOG_MAGIC, APACHE_FORMAT_VERSION, 0};
    wire_encode_file_header(&log, &header);
    put_entry(&log, SNAPSHOT_ZXID + 2);
    snprintf(name, sizeof name, "%s/log.7", p.inner);
    write_bytes(name, buf_slice(&log));
    expect_damage(&p, "transactions are missing between 0x5 and 0x7");
    /* A mirror that ends at 0x5 must not go on with 0x7, either. */
    struct apache_tail tail;
    char *error = NULL;
    int count = 0;
    assert_int_equal(
        apache_folder_tail(p.dir, NULL, SNAPSHOT_ZXID, count_transaction, &count, &tail, &error),
        CONCLAVE_ECORRUPT);
    assert_non_null(strstr(error, "transactions are missing between 0x5 and 0x7"));
    assert_int_equal(count, 0);
    free(error);
    assert_int_equal(apache_folder_tail(p.dir, NULL, SNAPSHOT_ZXID + 1, count_transaction, &count,
                                        &tail, &error),
                     0);
    assert_int_equal(count, 1);
    assert_int_equal(tail.zxid, SNAPSHOT_ZXID + 2);
    buf_finish(&log);
    free(file);
    state_destroy(s);
    place_remove(&p);
}

static void test_a_folder_without_files(void **unused)
{
    (void)unused;
    struct place p;
    struct apache_found found;
    struct state *s;
    char *error;
    place_make(&p);
    assert_false(apache_folder_is(p.dir));
    assert_int_equal(read_folder(&p, &found, &s, &error), CONCLAVE_EEMPTY);
    free(error);
    place_remove(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_reads_back),
        cmocka_unit_test(test_no_flipped_or_missing_byte_of_a_snapshot_is_taken),
        cmocka_unit_test(test_no_flipped_byte_of_a_log_is_taken),
        cmocka_unit_test(test_a_log_cut_anywhere_gives_the_entries_before),
        cmocka_unit_test(test_zeroes_behind_a_log_take_no_memory),
        cmocka_unit_test(test_a_log_lengthened_by_a_hole),
        cmocka_unit_test(test_each_damage_of_a_log_is_listed),
        cmocka_unit_test(test_another_state_is_not_equal),
        cmocka_unit_test(test_a_state_in_between),
        cmocka_unit_test(test_a_gap_between_logs_is_named),
        cmocka_unit_test(test_a_folder_without_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
