#include "cluster/import_founding.h"

#include "base/log.h"
#include "replication/disk/metadata.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TELL_MS = 1000,
    WARN_FIRST_MS = 5000,
    WARN_MS = 30000,
    CONFLICT_TELL_MS = 1500, /* so that the others learn of it before this server ends */
    WAIT_TEXT_MAX = 2048,
};

static int64_t founding_now_ms(const struct import_founding *f)
{
    return clock_monotonic_ms(f->clock);
}

/* The choice on the disk */

static int read_choice(struct import_founding *f, struct import_card *own, char **ret_text)
{
    struct error_text problem = {NULL};
    struct choice_file c;
    int rc = choice_read(file_ops_system(), f->dir, &c, &problem);
    if (rc == 0) {
        own->choice = c.member;
        own->chosen = (struct import_rank){c.epoch, c.zxid, c.digest};
    } else if (rc != CONCLAVE_NO_NODE) {
        *ret_text = error_text_take(&problem, rc);
        return rc;
    }
    error_text_finish(&problem);
    return 0;
}

static int write_choice(const struct import_founding *f, char **ret_text)
{
    struct error_text problem = {NULL};
    const struct import_card *own = &f->start.own;
    const struct choice_file c = {own->choice, own->chosen.epoch, own->chosen.zxid,
                                  own->chosen.digest};
    int rc = own->choice != 0 ? choice_write(file_ops_system(), f->dir, &c, &problem)
                              : choice_remove(file_ops_system(), f->dir, &problem);
    if (rc != 0) {
        *ret_text = error_text_take(&problem, rc);
    }
    return rc;
}

/* What an ensemble began with that this server founded. A bad note only costs the other members' comparison. */
static void read_begun(struct import_founding *f)
{
    struct error_text problem = {NULL};
    struct imported_file imported;
    if (imported_read(file_ops_system(), f->dir, &imported, &problem) == 0) {
        f->founded = imported.epoch >= 0;
        f->begun = (struct import_rank){.epoch = imported.epoch, .zxid = imported.zxid};
    }
    error_text_finish(&problem);
}

int import_founding_init(struct import_founding *f, const struct import_source *source,
                         const char *dir, const struct clock_source *clock, uint64_t id,
                         const struct configuration_member *founders, size_t n, char **ret_text)
{
    struct import_card own =
        source != NULL ? source->card : (struct import_card){.kind = IMPORT_DAMAGED};
    void (*send)(void *ctx, uint64_t to, struct buf *card_take) = f->send;
    void *send_ctx = f->send_ctx;
    *f = (struct import_founding){
        .source = source, .dir = dir, .clock = clock, .send = send, .send_ctx = send_ctx};
    int rc = read_choice(f, &own, ret_text);
    import_start_init(&f->start, id, founders, n, &own);
    f->warn_at = founding_now_ms(f) + WARN_FIRST_MS;
    f->gathering = rc == 0 && source == NULL && own.choice != 0;
    if (source == NULL) {
        read_begun(f);
    }
    return rc;
}

/* Cards */

static void send_card(const struct import_founding *f, const struct import_card *card, uint64_t to)
{
    struct buf bytes;
    buf_init(&bytes, 0);
    import_card_encode(card, &bytes);
    f->send(f->send_ctx, to, &bytes);
}

static void tell_all(struct import_founding *f)
{
    const struct import_start *x = &f->start;
    for (size_t i = 0; i < x->n_founders; i++) {
        if (x->founders[i].id != x->id) {
            send_card(f, &x->own, x->founders[i].id);
        }
    }
    f->tell_at = founding_now_ms(f) + TELL_MS;
}

void import_founding_link(struct import_founding *f, uint64_t id)
{
    if (f->source != NULL || f->asks) {
        send_card(f, &f->start.own, id);
    }
}

void import_founding_hello(struct import_founding *f, const struct peer_identity *who)
{
    import_start_hello(&f->start, who);
}

/* The founder's answer to a member that joined. */
static void compare_with_begun(struct import_founding *f, uint64_t from,
                               const struct import_card *card)
{
    const struct import_rank *own = &f->start.own.rank;
    f->asks = false;
    if (import_rank_newer(own, &card->rank)) {
        log_warn_advice(
            "server", "import-newer",
            "keep version-2 of this server: its last transactions are not in the ensemble. None of them was "
            "acknowledged, unless folders were lost or restored from backups: docs/migration.md",
            "epoch=%lld zxid=0x%llx began-with=%llu its-epoch=%lld its-zxid=0x%llx",
            (long long)own->epoch, (unsigned long long)own->zxid, (unsigned long long)from,
            (long long)card->rank.epoch, (unsigned long long)card->rank.zxid);
    }
}

/* The ensemble has begun: what was it begun with? */
static void hear_begun(struct import_founding *f, uint64_t from, const struct import_card *card)
{
    if (f->founded && card->kind == IMPORT_GOOD) {
        const struct import_card answer = {.kind = IMPORT_BEGUN, .rank = f->begun};
        send_card(f, &answer, from);
    } else if (f->asks && card->kind == IMPORT_BEGUN) {
        compare_with_begun(f, from, card);
    }
}

void import_founding_message(struct import_founding *f, uint64_t from, struct slice bytes)
{
    struct import_card card;
    if (import_card_decode(bytes, &card) != 0) {
        return;
    }
    if (f->source == NULL) {
        hear_begun(f, from, &card);
        return;
    }
    import_start_card(&f->start, from, &card);
    uint64_t here = card.kind == IMPORT_GOOD ? f->source->print(f->source->ctx, card.rank.zxid) : 0;
    if (here != 0 && card.print != 0 && here != card.print) {
        import_start_conflict(&f->start, f->start.id, from, card.rank.zxid);
    }
}

/* What is missing, for the log. */

static void append_member(const struct import_founding *f, size_t i, char *text, size_t *len)
{
    const struct import_start *x = &f->start;
    const struct import_card *card = x->founders[i].id == x->id ? &x->own : &x->cards[i];
    bool heard = x->founders[i].id == x->id || x->heard[i];
    char what[160];
    if (!heard) {
        (void)snprintf(what, sizeof what, "not reached");
    } else if (card->kind == IMPORT_GOOD) {
        (void)snprintf(what, sizeof what, "epoch %lld zxid 0x%llx", (long long)card->rank.epoch,
                       (unsigned long long)card->rank.zxid);
    } else {
        (void)snprintf(what, sizeof what, "%s",
                       card->kind == IMPORT_DAMAGED ? "damaged files" : "no files of ZooKeeper");
    }
    if (heard && card->choice != 0) {
        size_t used = strlen(what);
        (void)snprintf(what + used, sizeof what - used, " chose %llu",
                       (unsigned long long)card->choice);
    }
    int added = snprintf(text + *len, WAIT_TEXT_MAX - *len, "%smember %llu: %s",
                         *len > 0 ? "; " : "", (unsigned long long)x->founders[i].id, what);
    *len = added > 0 && (size_t)added < WAIT_TEXT_MAX - *len ? *len + (size_t)added : *len;
}

static void describe(const struct import_founding *f, char text[WAIT_TEXT_MAX])
{
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < f->start.n_founders; i++) {
        append_member(f, i, text, &len);
    }
}

static void warn_of_wait(struct import_founding *f)
{
    char text[WAIT_TEXT_MAX];
    int64_t now = founding_now_ms(f);
    if (now < f->warn_at) {
        return;
    }
    f->warn_at = now + WARN_MS;
    describe(f, text);
    log_warn_advice(
        "server", "import-waits",
        "first start every member that is not reached: those with damaged or empty folders join. Put no older backup "
        "in a folder's place: it proves nothing, and acknowledged writes would be lost. If the rest is lost for good, or the "
        "member that was chosen: docs/migration.md, \"Without a majority\"",
        "folders=%zu needed=%zu text=\"%s\"", import_start_good(&f->start),
        import_start_needed(&f->start), text);
}

/* The start */

static int found_here(struct import_founding *f, char **ret_text)
{
    char text[WAIT_TEXT_MAX];
    assert(f->start.own.choice != 0);
    describe(f, text);
    log_always("server", "import-begins", "newest=%llu epoch=%lld zxid=0x%llx text=\"%s\"",
               (unsigned long long)f->start.id, (long long)f->start.own.rank.epoch,
               (unsigned long long)f->start.own.rank.zxid, text);
    int rc = f->source->found(f->source->ctx, ret_text);
    if (rc != 0) {
        return rc;
    }
    f->source->release(f->source->ctx);
    f->source = NULL;
    f->gathering = true;
    f->founded = true;
    f->begun = f->start.own.rank;
    return 1;
}

static int take_choice(struct import_founding *f, char **ret_text)
{
    const struct import_card *own = &f->start.own;
    int rc = write_choice(f, ret_text);
    if (rc != 0) {
        return rc;
    }
    log_info("server", "import-choice", "member=%llu epoch=%lld zxid=0x%llx",
             (unsigned long long)own->choice, (long long)own->chosen.epoch,
             (unsigned long long)own->chosen.zxid);
    if (own->choice != f->start.id) {
        f->source->release(f->source->ctx);
    }
    tell_all(f);
    return 0;
}

static int refuse_conflict(struct import_founding *f, char **ret_text)
{
    const struct import_card *own = &f->start.own;
    int64_t now = founding_now_ms(f);
    if (!f->told_conflict) {
        f->told_conflict = true;
        f->fail_at = now + CONFLICT_TELL_MS;
        tell_all(f);
    }
    if (now < f->fail_at) {
        return 0;
    }
    return text_fail(
        ret_text, CONCLAVE_EFOREIGN,
        "the folders of server %llu and server %llu are of two different ZooKeeper ensembles: each has another "
        "transaction 0x%llx. This server's is %s. Nothing was changed: put the right folder there, and start all "
        "servers again",
        (unsigned long long)own->conflict, (unsigned long long)own->conflict_with,
        (unsigned long long)own->conflict_zxid, f->dir);
}

int import_founding_tick(struct import_founding *f, char **ret_text)
{
    assert(f->source != NULL);
    int64_t now = founding_now_ms(f);
    if (now >= f->tell_at) {
        tell_all(f);
    }
    switch (import_start_decide(&f->start, now)) {
    case IMPORT_WAIT:
        warn_of_wait(f);
        break;
    case IMPORT_CHOOSE:
        return take_choice(f, ret_text);
    case IMPORT_FOUND:
        return found_here(f, ret_text);
    case IMPORT_CONFLICT:
        return refuse_conflict(f, ret_text);
    }
    return 0;
}

int import_founding_join(struct import_founding *f, char **ret_text)
{
    const struct import_card *own = &f->start.own;
    if (f->source == NULL) {
        return 0;
    }
    log_always(
        "server", "import-joins",
        "epoch=%lld zxid=0x%llx text=\"an ensemble has begun: this member gets everything from it, and the files "
        "of ZooKeeper in its folder do not count any more\"",
        (long long)own->rank.epoch, (unsigned long long)own->rank.zxid);
    f->source->release(f->source->ctx);
    int rc = f->source->join(f->source->ctx, ret_text);
    f->source = NULL;
    f->asks = own->kind == IMPORT_GOOD;
    if (f->asks) {
        tell_all(f);
    }
    return rc;
}

bool import_founding_members(struct import_founding *f, const struct configuration_member *members,
                             size_t n)
{
    char *text = NULL;
    if (f->start.own.choice == 0 ||
        configuration_voters(members, n) < import_start_needed(&f->start)) {
        return false;
    }
    f->start.own.choice = 0;
    if (write_choice(f, &text) != 0) {
        log_warn_advice("server", "choice-kept", "remove the file " CHOICE_FILE " by hand",
                        "error=\"%s\"", text != NULL ? text : "out of memory");
        free(text);
    }
    bool ended = f->gathering;
    f->gathering = false;
    if (ended) {
        log_always("server", "import-complete", "voters=%zu", configuration_voters(members, n));
    }
    return ended;
}
