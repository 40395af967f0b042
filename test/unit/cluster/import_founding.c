/* The first start on the folder of an Apache ZooKeeper, with its files: the choice is durable before it is told, the gathering
 * outlives restarts, and a member that joins learns whether its folder was newer. */
#include "cluster/import_founding.h"

#include "base/buf.h"
#include "replication/disk/metadata.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

enum { SELF = 2 };

static const struct configuration_member three[] = {
    {1, MEMBER_VOTER, "a:1:2"}, {SELF, MEMBER_VOTER, "b:1:2"}, {3, MEMBER_VOTER, "c:1:2"}};

struct place {
    char dir[64];
    int64_t now_ms;
    struct clock_source clock;
    struct import_source source;
    struct import_founding f;
    size_t sent; /* cards, and the last one */
    struct import_card last;
    uint64_t last_to;
    uint64_t choice_when_sent; /* in the file at that moment; 0: none */
    int founds;
    int joins;
    int releases;
    int found_error;
};

static int64_t place_monotonic_ns(void *ctx)
{
    return ((struct place *)ctx)->now_ms * 1000000;
}

static uint64_t place_print(void *ctx, int64_t zxid)
{
    const struct place *p = ctx;
    return zxid <= p->source.card.rank.zxid ? (uint64_t)zxid + 7 : 0;
}

static int place_found(void *ctx, char **ret_text)
{
    struct place *p = ctx;
    p->founds++;
    *ret_text = NULL;
    return p->found_error;
}

static int place_join(void *ctx, char **ret_text)
{
    struct place *p = ctx;
    p->joins++;
    *ret_text = NULL;
    return 0;
}

static void place_release(void *ctx)
{
    ((struct place *)ctx)->releases++;
}

/* 0: there is none */
static uint64_t choice_on_disk(const struct place *p)
{
    struct error_text problem = {NULL};
    struct choice_file c = {0};
    int rc = choice_read(file_ops_system(), p->dir, &c, &problem);
    error_text_finish(&problem);
    assert_true(rc == 0 || rc == CONCLAVE_NO_NODE);
    return c.member;
}

static void place_send(void *ctx, uint64_t to, struct buf *card_take)
{
    struct place *p = ctx;
    assert_int_equal(import_card_decode(buf_slice(card_take), &p->last), 0);
    buf_finish(card_take);
    p->last_to = to;
    p->choice_when_sent = choice_on_disk(p);
    p->sent++;
}

static struct import_card good(int64_t epoch, int64_t zxid)
{
    return (struct import_card){.kind = IMPORT_GOOD,
                                .rank = {epoch, zxid, (uint64_t)(epoch * 1000 + zxid)},
                                .print = (uint64_t)zxid + 7};
}

/* The server starts; with the files of ZooKeeper, or without. */
static void begin(struct place *p, bool files)
{
    char *text = NULL;
    p->f = (struct import_founding){.send = place_send, .send_ctx = p};
    assert_int_equal(import_founding_init(&p->f, files ? &p->source : NULL, p->dir, &p->clock, SELF,
                                          three, 3, &text),
                     0);
}

static void place_make(struct place *p, struct import_card card)
{
    *p = (struct place){.now_ms = 1000};
    p->clock = (struct clock_source){.monotonic_ns = place_monotonic_ns, .ctx = p};
    p->source = (struct import_source){.ctx = p,
                                       .card = card,
                                       .print = place_print,
                                       .found = place_found,
                                       .join = place_join,
                                       .release = place_release};
    snprintf(p->dir, sizeof p->dir, "/tmp/conclave-founding-XXXXXX");
    assert_non_null(mkdtemp(p->dir));
    begin(p, true);
}

static void place_remove(const struct place *p)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", p->dir);
    assert_int_equal(system(command), 0);
}

static void hear(struct place *p, uint64_t from, struct import_card card)
{
    struct buf bytes;
    buf_init(&bytes, 0);
    import_card_encode(&card, &bytes);
    import_founding_message(&p->f, from, buf_slice(&bytes));
    buf_finish(&bytes);
}

static int tick(struct place *p)
{
    char *text = NULL;
    int rc = import_founding_tick(&p->f, &text);
    free(text);
    return rc;
}

static struct import_card choosing(struct import_card card, uint64_t member,
                                   struct import_rank chosen)
{
    card.choice = member;
    card.chosen = chosen;
    return card;
}

/* From what a program logs meanwhile. */
static FILE *captured;
static int saved;

static void capture_begin(void)
{
    fflush(stderr);
    saved = dup(STDERR_FILENO);
    captured = tmpfile();
    assert_true(saved >= 0 && captured != NULL);
    assert_true(dup2(fileno(captured), STDERR_FILENO) >= 0);
}

static void capture_end(char ret[4096])
{
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(captured);
    ret[fread(ret, 1, 4095, captured)] = '\0';
    fclose(captured);
}

/* The others chose this server before its own choice was durable: the file comes first, then the folder. */
static void test_the_choice_is_durable_before_it_founds(void **state)
{
    struct place p;
    place_make(&p, good(3, 10));
    hear(&p, 1, choosing(good(3, 9), SELF, p.source.card.rank));
    hear(&p, 3, choosing(good(3, 8), SELF, p.source.card.rank));
    assert_int_equal(tick(&p), 0);
    assert_int_equal(choice_on_disk(&p), SELF);
    assert_int_equal(p.founds, 0);
    assert_int_equal(p.releases, 0); /* it needs the state */
    assert_int_equal(p.last.choice, SELF);
    assert_int_equal(p.choice_when_sent, SELF);
    assert_int_equal(tick(&p), 1);
    assert_int_equal(p.founds, 1);
    assert_int_equal(p.releases, 1);
    assert_true(p.f.gathering);
    assert_int_equal(choice_on_disk(&p), SELF);
    place_remove(&p);
}

static void test_the_gathering_outlives_restarts(void **state)
{
    struct place p;
    place_make(&p, good(3, 10));
    hear(&p, 1, choosing(good(3, 9), SELF, p.source.card.rank));
    hear(&p, 3, good(3, 8));
    assert_int_equal(tick(&p), 0);
    assert_int_equal(tick(&p), 1);
    begin(&p, false); /* killed; now the folder has data of ours */
    assert_true(p.f.gathering);
    assert_false(import_founding_members(&p.f, &three[1], 1)); /* alone */
    assert_true(p.f.gathering);
    begin(&p, false);
    assert_true(p.f.gathering);
    assert_true(import_founding_members(&p.f, &three[1], 2));
    assert_false(p.f.gathering);
    assert_int_equal(choice_on_disk(&p), 0);
    assert_false(import_founding_members(&p.f, three, 3)); /* it ended before */
    begin(&p, false);
    assert_false(p.f.gathering);
    place_remove(&p);
}

/* Killed between the choice and the folder, or while it made the folder: it founds again, or with the same choice. */
static void test_a_choice_outlives_a_restart(void **state)
{
    struct place p;
    place_make(&p, good(3, 10));
    hear(&p, 1, good(3, 12));
    hear(&p, 3, good(3, 8));
    assert_int_equal(tick(&p), 0);
    assert_int_equal(choice_on_disk(&p), 1);
    assert_int_equal(p.releases, 1); /* another member's: the state is not needed now */
    begin(&p, true);
    assert_int_equal(p.f.start.own.choice, 1);
    assert_int_equal(p.f.start.own.chosen.zxid, 12);
    assert_false(p.f.gathering);
    hear(&p, 3, good(3, 20)); /* newer, but there is a choice */
    hear(&p, 1, good(3, 12));
    assert_int_equal(tick(&p), 0);
    assert_int_equal(choice_on_disk(&p), 1);
    /* The others chose this one: it reads its files once more, and may fail. */
    hear(&p, 1, choosing(good(3, 12), SELF, p.source.card.rank));
    hear(&p, 3, choosing(good(3, 20), SELF, p.source.card.rank));
    p.found_error = CONCLAVE_EFOREIGN;
    assert_int_equal(tick(&p), CONCLAVE_EFOREIGN);
    assert_int_equal(choice_on_disk(&p), 1);
    assert_false(p.f.gathering);
    p.found_error = 0;
    assert_int_equal(tick(&p), 1);
    assert_int_equal(p.founds, 2);
    place_remove(&p);
}

static void test_a_choice_is_taken_back_on_the_disk(void **state)
{
    struct place p;
    place_make(&p, good(3, 10));
    hear(&p, 1, good(3, 12));
    hear(&p, 3, good(3, 8));
    assert_int_equal(tick(&p), 0);
    assert_int_equal(choice_on_disk(&p), 1);
    hear(&p, 1, (struct import_card){.kind = IMPORT_DAMAGED});
    assert_int_equal(tick(&p), 0);
    assert_int_equal(choice_on_disk(&p), 0);
    assert_int_equal(p.last.choice, 0);
    assert_int_equal(tick(&p), 0);
    assert_int_equal(choice_on_disk(&p), SELF);
    place_remove(&p);
}

static void test_a_damaged_choice_is_an_error(void **state)
{
    struct place p;
    char path[128];
    char *text = NULL;
    place_make(&p, good(3, 10));
    snprintf(path, sizeof path, "%s/" CHOICE_FILE, p.dir);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("Conclave import choice\nmember 1\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    p.f = (struct import_founding){.send = place_send, .send_ctx = &p};
    assert_int_equal(import_founding_init(&p.f, &p.source, p.dir, &p.clock, SELF, three, 3, &text),
                     CONCLAVE_ECORRUPT);
    assert_non_null(strstr(text, path));
    free(text);
    place_remove(&p);
}

/* A choice that cannot be written is told to nobody. */
static void test_no_choice_without_the_file(void **state)
{
    struct place p;
    place_make(&p, good(3, 10));
    hear(&p, 1, good(3, 9));
    hear(&p, 3, good(3, 8));
    place_remove(&p); /* nothing can be written there */
    size_t sent = p.sent;
    p.f.tell_at = INT64_MAX;
    char *text = NULL;
    assert_true(import_founding_tick(&p.f, &text) < 0);
    assert_non_null(strstr(text, p.dir));
    free(text);
    assert_int_equal(p.sent, sent);
    assert_int_equal(p.founds, 0);
}

/* What the founder says to a member that joins, and what that makes of it. */
static void ask(struct import_card own, struct import_rank begun, char log[4096])
{
    struct place founder;
    struct place joiner;
    place_make(&founder, (struct import_card){.kind = IMPORT_GOOD, .rank = begun, .print = 1});
    const struct imported_file note = {begun.zxid, begun.epoch};
    struct error_text problem = {NULL};
    assert_int_equal(imported_write(file_ops_system(), founder.dir, &note, &problem), 0);
    begin(&founder, false); /* also after a restart */
    place_make(&joiner, own);
    capture_begin();
    char *text = NULL;
    assert_int_equal(import_founding_join(&joiner.f, &text), 0);
    assert_int_equal(joiner.joins, 1);
    if (own.kind == IMPORT_GOOD) {
        size_t sent = joiner.sent;
        import_founding_link(&joiner.f, 1); /* the first card may be lost */
        assert_int_equal(joiner.sent, sent + 1);
        hear(&founder, SELF, joiner.last);
        assert_int_equal(founder.sent, 1);
        assert_int_equal(founder.last_to, SELF);
        assert_int_equal(founder.last.kind, IMPORT_BEGUN);
        hear(&joiner, 1, founder.last);
    }
    size_t sent = joiner.sent;
    import_founding_link(&joiner.f, 1); /* it asks no more */
    assert_int_equal(joiner.sent, sent);
    capture_end(log);
    place_remove(&founder);
    place_remove(&joiner);
}

static void test_a_newer_folder_that_joins_is_named(void **state)
{
    char log[4096];
    ask(good(3, 12), (struct import_rank){3, 10, 0}, log);
    assert_non_null(strstr(log, "warn"));
    assert_non_null(
        strstr(log, "import-newer epoch=3 zxid=0xc began-with=1 its-epoch=3 its-zxid=0xa"));
    assert_non_null(strstr(log, "keep version-2"));
    ask(good(4, 9), (struct import_rank){3, 10, 0}, log);
    assert_non_null(strstr(log, "import-newer"));
    ask(good(3, 10), (struct import_rank){3, 10, 0}, log);
    assert_null(strstr(log, "import-newer"));
    ask(good(2, 12), (struct import_rank){3, 10, 0}, log);
    assert_null(strstr(log, "import-newer"));
    ask((struct import_card){.kind = IMPORT_DAMAGED}, (struct import_rank){3, 10, 0}, log);
    assert_null(strstr(log, "import-newer"));
}

/* A member that joined itself knows nothing of the beginning. */
static void test_only_the_founder_answers(void **state)
{
    struct place p;
    struct error_text problem = {NULL};
    const struct imported_file note = {10, -1};
    place_make(&p, good(3, 10));
    assert_int_equal(imported_write(file_ops_system(), p.dir, &note, &problem), 0);
    begin(&p, false);
    hear(&p, 3, good(3, 12));
    assert_int_equal(p.sent, 0);
    place_remove(&p);
}

static void test_two_ensembles_end_both(void **state)
{
    struct place p;
    struct import_card other = good(3, 8);
    place_make(&p, good(3, 10));
    other.print++;
    hear(&p, 1, other); /* an older transaction, that is another one here */
    size_t sent = p.sent;
    assert_int_equal(tick(&p), 0); /* first it tells the others */
    assert_true(p.sent > sent);
    assert_int_equal(p.last.conflict, SELF);
    assert_int_equal(p.last.conflict_with, 1);
    assert_int_equal(p.last.conflict_zxid, 8);
    p.now_ms += 60000;
    assert_int_equal(tick(&p), CONCLAVE_EFOREIGN);
    assert_int_equal(p.founds, 0);
    assert_int_equal(choice_on_disk(&p), 0);
    place_remove(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_choice_is_durable_before_it_founds),
        cmocka_unit_test(test_the_gathering_outlives_restarts),
        cmocka_unit_test(test_a_choice_outlives_a_restart),
        cmocka_unit_test(test_a_choice_is_taken_back_on_the_disk),
        cmocka_unit_test(test_a_damaged_choice_is_an_error),
        cmocka_unit_test(test_no_choice_without_the_file),
        cmocka_unit_test(test_a_newer_folder_that_joins_is_named),
        cmocka_unit_test(test_only_the_founder_answers),
        cmocka_unit_test(test_two_ensembles_end_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
