/* A member's folder of an Apache ZooKeeper: the card that it shows, and that what it founds with is what it showed. */
#include "daemon/apache_import.h"

#include "apache/export.h"
#include "replication/found_folder.h"
#include "state/adopt/adopt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

struct place {
    char dir[64];
    struct server_options options;
    struct apache_import *import;
    const struct import_source *source;
};

/* ZooKeeper's files: two nodes. */
static void put_files(const struct place *p, const char *data, int64_t zxid)
{
    char command[128];
    struct adoption *a = adoption_create(&hash_key_fixed);
    struct adoption_report report;
    struct apache_exported made;
    struct state *s = NULL;
    char *error = NULL;
    struct adopted_node root = {.path = slice_str(""), .record = {.acl = -1}};
    struct adopted_node node = {.path = slice_str("/a"),
                                .record = {.data = slice_str(data), .acl = -1, .czxid = zxid}};
    snprintf(command, sizeof command, "rm -rf '%s/version-2'", p->dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(adoption_node(a, &root), 0);
    assert_int_equal(adoption_node(a, &node), 0);
    assert_int_equal(adoption_nodes_end(a, zxid), 0);
    assert_int_equal(adoption_end(a, NULL, NULL, &report, &s), 0);
    assert_int_equal(apache_export(s, p->dir, NULL, NULL, &made, &error), 0);
    free(made.file);
    state_destroy(s);
    adoption_destroy(a);
}

static void place_make(struct place *p)
{
    char *text = NULL;
    *p = (struct place){.options = server_options_default()};
    snprintf(p->dir, sizeof p->dir, "/tmp/conclave-import-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    put_files(p, "one", 0x300000007);
    p->options.data_dir = p->dir;
    p->options.server_id = 2;
    p->options.ensemble.enabled = true;
    p->options.ensemble.n_members = 3;
    assert_int_equal(apache_import_open(&p->options, &p->import, &text), 0);
    p->source = apache_import_source(p->import);
    assert_non_null(p->source);
}

static void place_remove(struct place *p)
{
    char command[128];
    apache_import_close(p->import);
    snprintf(command, sizeof command, "rm -r '%s'", p->dir);
    assert_int_equal(system(command), 0);
}

static bool is_ready(const struct place *p)
{
    struct error_text problem = {NULL};
    struct found_look look;
    assert_int_equal(found_folder_look(p->dir, &look, &problem), 0);
    return look.ready;
}

static void test_the_card_of_a_folder(void **state)
{
    struct place p;
    char *text = NULL;
    place_make(&p);
    assert_int_equal(p.source->card.kind, IMPORT_GOOD);
    assert_int_equal(p.source->card.rank.zxid, 0x300000007);
    assert_true(p.source->card.rank.digest != 0);
    assert_false(is_ready(&p));
    assert_int_equal(p.source->found(p.source->ctx, &text), 0);
    assert_true(is_ready(&p));
    place_remove(&p);
}

/* It chose another member, gave the state up, and was chosen after all: it reads the same files again. */
static void test_the_files_are_read_again(void **state)
{
    struct place p;
    char *text = NULL;
    place_make(&p);
    p.source->release(p.source->ctx);
    assert_int_equal(p.source->found(p.source->ctx, &text), 0);
    assert_true(is_ready(&p));
    place_remove(&p);
}

static void expect_changed(struct place *p, const char *first, const char *second)
{
    char *text = NULL;
    p->source->release(p->source->ctx);
    assert_int_equal(p->source->found(p->source->ctx, &text), CONCLAVE_EFOREIGN);
    assert_non_null(strstr(text, p->dir));
    assert_non_null(strstr(text, first));
    assert_non_null(strstr(strstr(text, first), second));
    free(text);
    assert_false(is_ready(p));
}

static void test_other_files_are_not_what_was_chosen(void **state)
{
    struct place p;
    char *text = NULL;
    char digest[32];
    place_make(&p);
    put_files(&p, "one", 0x300000009); /* later ones */
    expect_changed(&p, "zxid 0x300000007", "zxid 0x300000009");
    assert_int_equal(p.source->found(p.source->ctx, &text), CONCLAVE_EFOREIGN); /* and again */
    free(text);
    put_files(&p, "two", 0x300000007); /* other data */
    snprintf(digest, sizeof digest, "digest %016llx",
             (unsigned long long)p.source->card.rank.digest);
    expect_changed(&p, digest, "digest ");
    put_files(&p, "one", 0x300000007); /* it was put right */
    p.source->release(p.source->ctx);
    assert_int_equal(p.source->found(p.source->ctx, &text), 0);
    assert_true(is_ready(&p));
    place_remove(&p);
}

static void test_files_that_are_damaged_since(void **state)
{
    struct place p;
    char *text = NULL;
    char command[128];
    place_make(&p);
    p.source->release(p.source->ctx);
    snprintf(command, sizeof command, "truncate -s 40 '%s'/version-2/snapshot.*", p.dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(p.source->found(p.source->ctx, &text), CONCLAVE_ECORRUPT);
    assert_non_null(strstr(text, "snapshot.300000007"));
    free(text);
    assert_false(is_ready(&p));
    place_remove(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_card_of_a_folder),
        cmocka_unit_test(test_the_files_are_read_again),
        cmocka_unit_test(test_other_files_are_not_what_was_chosen),
        cmocka_unit_test(test_files_that_are_damaged_since),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
