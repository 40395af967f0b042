#include "daemon/apache_import.h"

#include "apache/folder.h"
#include "base/log.h"
#include "base/random.h"
#include "replication/found_folder.h"

#include <assert.h>
#include <stdlib.h>

/* The snapshot of a new folder; the log behind it is empty. */
enum { IMPORT_INDEX = 2, IMPORT_TERM = 1 };

/* Takes the text, which may be NULL. */
static int import_fail(int rc, char *text, char **ret_text)
{
    assert(rc != 0);
    *ret_text = text;
    return text != NULL ? rc : text_fail(ret_text, rc, "%s", conclave_strerror(rc));
}

static int import_step(void *ctx, size_t max_bytes, struct buf *out)
{
    return state_snapshot_step(ctx, max_bytes, out);
}

static int import_write(const struct server_options *o, int64_t epoch, struct state *state,
                        char **ret_text)
{
    struct error_text problem = {NULL};
    const struct found_folder folder = {
        .dir = o->data_dir,
        .server_id = (uint64_t)o->server_id,
        .index = IMPORT_INDEX,
        .term = IMPORT_TERM,
        .imported_zxid = state_zxid(state),
        .imported_epoch = epoch,
        .step = import_step,
        .ctx = state,
    };
    assert(folder.imported_zxid >= 0);
    int rc = state_snapshot_begin(state);
    rc = rc == 0 ? found_folder_make(&folder, &problem) : rc;
    if (rc != 0) {
        return import_fail(rc, error_text_take(&problem, rc), ret_text);
    }
    error_text_finish(&problem); /* of a file that was not there yet */
    return 0;
}

static void import_tell(const char *dir, const struct apache_found *found,
                        const struct state *state)
{
    struct state_stats stats;
    state_stats(state, &stats);
    if (found->unfinished != NULL) {
        log_warn_advice(
            "server", "import-unfinished-log",
            "nothing, if that ZooKeeper was killed: nobody was told that this transaction is written",
            "file=\"%s\" offset=%llu", found->unfinished, (unsigned long long)found->unfinished_at);
    }
    log_always("server", "imported",
               "data=\"%s\" snapshot=\"%s\" transactions=%llu zxid=0x%llx nodes=%zu sessions=%zu "
               "ephemerals=%zu orphans=%zu digest=%s",
               dir, found->snapshot != NULL ? found->snapshot : "none",
               (unsigned long long)found->transactions, (unsigned long long)found->zxid,
               stats.nodes, stats.sessions, stats.ephemerals, found->report.orphans,
               found->report.digest_compared ? "equal" : "none");
}

struct apache_import {
    const struct server_options *options;
    struct apache_found found; /* without a state it is only of use for its history */
    struct state *state;       /* NULL: released, or damaged */
    char *damage;
    struct import_source source;
};

/* Reads the folder. Errors as apache_folder_read; CONCLAVE_EFOREIGN: there is nothing in it. */
static int import_read_files(struct apache_import *x, char **ret_text)
{
    const struct server_options *o = x->options;
    struct hash_key key;
    char *text = NULL;
    random_bytes(&key, sizeof key);
    int rc = apache_folder_read(o->data_dir, o->apache_log_dir, &key, &x->found, &x->state, &text);
    if (rc != 0) {
        return import_fail(rc, text, ret_text);
    }
    if (x->found.snapshot == NULL && x->found.transactions == 0) {
        state_destroy(x->state);
        x->state = NULL;
        apache_found_finish(&x->found);
        return text_fail(
            ret_text, CONCLAVE_EFOREIGN,
            "%s/version-2 is that of an Apache ZooKeeper, but has neither a snapshot nor a transaction: put "
            "its files back, or move it away to begin with an empty tree",
            o->data_dir);
    }
    return 0;
}

static int import_read(struct apache_import *x, char **ret_text)
{
    log_always("server", "importing", "data=\"%s\" from=\"Apache ZooKeeper\"",
               x->options->data_dir);
    return import_read_files(x, ret_text);
}

/* The files that were read again must be those that the other members chose. */
static int import_compare_card(const struct apache_import *x, char **ret_text)
{
    const struct import_rank *shown = &x->source.card.rank;
    const struct import_rank now = {x->found.epoch, x->found.zxid, state_digest_now(x->state)};
    if (x->source.card.kind != IMPORT_GOOD || import_rank_equal(shown, &now)) {
        return 0;
    }
    return text_fail(
        ret_text, CONCLAVE_EFOREIGN,
        "the files of ZooKeeper in %s changed while this server waited for the other members: they had epoch %lld, zxid "
        "0x%llx, digest %016llx when the members chose them, and have epoch %lld, zxid 0x%llx, digest %016llx "
        "now. Nothing was made of them: stop what writes there, and start this server again",
        x->options->data_dir, (long long)shown->epoch, (unsigned long long)shown->zxid,
        (unsigned long long)shown->digest, (long long)now.epoch, (unsigned long long)now.zxid,
        (unsigned long long)now.digest);
}

static void import_release(void *ctx)
{
    struct apache_import *x = ctx;
    state_destroy(x->state);
    x->state = NULL;
}

/* Makes the folder; the state is used up. */
static int import_found(void *ctx, char **ret_text)
{
    struct apache_import *x = ctx;
    int rc = 0;
    if (x->state == NULL) {
        apache_found_finish(&x->found);
        rc = import_read(x, ret_text);
        rc = rc == 0 ? import_compare_card(x, ret_text) : rc;
    }
    if (rc != 0) {
        import_release(x); /* a later call reads again */
        return rc;
    }
    rc = import_write(x->options, x->found.epoch, x->state, ret_text);
    if (rc == 0) {
        import_tell(x->options->data_dir, &x->found, x->state);
    }
    return rc;
}

static uint64_t import_print(void *ctx, int64_t zxid)
{
    const struct apache_import *x = ctx;
    return apache_history_find(&x->found.history, zxid);
}

static int import_join(void *ctx, char **ret_text)
{
    const struct apache_import *x = ctx;
    struct error_text problem = {NULL};
    /* Of damaged files nothing counts, whatever they turn out to have. */
    int64_t zxid = x->damage == NULL ? x->found.zxid : INT64_MAX;
    int rc = found_folder_leave(x->options->data_dir, zxid, &problem);
    return rc == 0 ? 0 : import_fail(rc, error_text_take(&problem, rc), ret_text);
}

/* The card of a member's folder. */
static int import_show(struct apache_import *x, char **ret_text)
{
    struct import_source *s = &x->source;
    *s = (struct import_source){
        .ctx = x,
        .print = import_print,
        .found = import_found,
        .join = import_join,
        .release = import_release,
    };
    int rc = import_read(x, &x->damage);
    if (rc == CONCLAVE_ENOMEM) {
        return import_fail(rc, x->damage, ret_text);
    }
    if (rc != 0) {
        s->card.kind = IMPORT_DAMAGED;
        s->damage = x->damage;
        log_error_advice(
            "server", "import-impossible",
            "start the other members: this one joins them; put no older backup in its place; if a majority is damaged: "
            "docs/migration.md, \"Without a majority\"",
            "data=\"%s\" text=\"%s\"", x->options->data_dir, x->damage);
        return 0;
    }
    s->card = (struct import_card){
        .kind = IMPORT_GOOD,
        .rank = {x->found.epoch, x->found.zxid, state_digest_now(x->state)},
        .print = import_print(x, x->found.zxid),
    };
    log_always("server", "import-found",
               "data=\"%s\" snapshot=\"%s\" transactions=%llu epoch=%lld zxid=0x%llx",
               x->options->data_dir, x->found.snapshot != NULL ? x->found.snapshot : "none",
               (unsigned long long)x->found.transactions, (long long)x->found.epoch,
               (unsigned long long)x->found.zxid);
    return 0;
}

/* Whether Apache's files are as they were when they were imported: 0; CONCLAVE_EFOREIGN: they are not, or were never
 * imported; or an error of apache_folder_last_zxid, which may leave *ret_text NULL. */
static int import_compare(const struct server_options *o, int64_t imported, char **ret_text)
{
    int64_t last;
    if (imported < 0) {
        return text_fail(
            ret_text, CONCLAVE_EFOREIGN,
            "%s has data of Conclave and of an Apache ZooKeeper (version-2) that were not imported: move "
            "version-2 away to use the first, or everything else but myid to import the second",
            o->data_dir);
    }
    int rc = apache_folder_last_zxid(o->data_dir, o->apache_log_dir, &last, ret_text);
    if (rc == 0 && last > imported) {
        return text_fail(
            ret_text, CONCLAVE_EFOREIGN,
            "an Apache ZooKeeper has written to %s/version-2 after it was imported: it ended with zxid 0x%llx, and "
            "has 0x%llx now. Which data count? Move version-2 away to go on with those of Conclave, or "
            "everything else but myid to import anew",
            o->data_dir, (unsigned long long)imported, (unsigned long long)last);
    }
    return rc;
}

static int import_check_old_files(const struct server_options *o, int64_t imported, char **ret_text)
{
    char *text = NULL;
    int rc = import_compare(o, imported, &text);
    if (rc == 0 || rc == CONCLAVE_EFOREIGN || rc == CONCLAVE_ENOMEM) {
        return rc == 0 ? 0 : import_fail(rc, text, ret_text);
    }
    log_warn_advice(
        "server", "old-files-unreadable", "move version-2 away when nobody needs it any longer",
        "data=\"%s\" error=\"%s\"", o->data_dir, text != NULL ? text : conclave_strerror(rc));
    free(text);
    return 0;
}

/* Looks at a folder that has files of Apache's (*ret_files) or had some. 1, 0: it never had any, or an error. */
static int look_at_folder(const struct server_options *o, bool *ret_files, struct found_look *ret,
                          struct error_text *problem)
{
    *ret_files = apache_folder_is(o->data_dir);
    if (!*ret_files && !apache_folder_was(o->data_dir)) {
        return 0;
    }
    int rc = found_folder_look(o->data_dir, ret, problem);
    return rc == 0 ? 1 : rc;
}

/* Whether the folder has files of Apache's that no server of ours has taken over yet. */
static int import_is_due(const struct server_options *o, bool *ret, char **ret_text)
{
    struct error_text problem = {NULL};
    struct found_look look;
    bool files;
    int rc = look_at_folder(o, &files, &look, &problem);
    *ret = false;
    if (rc <= 0) {
        return rc == 0 ? 0 : import_fail(rc, error_text_take(&problem, rc), ret_text);
    }
    *ret = !look.ready;
    return look.ready && files ? import_check_old_files(o, look.imported_zxid, ret_text) : 0;
}

static int look_at_files(const struct server_options *o, struct apache_import_look *ret)
{
    struct apache_import x = {.options = o};
    int rc = import_read_files(&x, &ret->text);
    if (rc != 0) {
        ret->files = APACHE_FILES_UNUSABLE;
        return rc == CONCLAVE_ENOMEM ? rc : 0;
    }
    *ret = (struct apache_import_look){
        .files = APACHE_FILES_DUE,
        .snapshot = x.found.snapshot,
        .transactions = x.found.transactions,
        .epoch = x.found.epoch,
        .zxid = x.found.zxid,
        .time_ms = x.found.time_ms,
        .unfinished = x.found.unfinished,
        .unfinished_at = x.found.unfinished_at,
    };
    x.found.snapshot = NULL;
    x.found.unfinished = NULL;
    state_destroy(x.state);
    apache_found_finish(&x.found);
    return 0;
}

int apache_import_look(const struct server_options *o, struct apache_import_look *ret)
{
    struct error_text problem = {NULL};
    struct found_look look;
    bool files;
    *ret = (struct apache_import_look){.files = APACHE_FILES_NONE};
    int rc = look_at_folder(o, &files, &look, &problem);
    error_text_finish(&problem);
    if (rc <= 0) {
        return rc == CONCLAVE_ENOMEM ? rc : 0;
    }
    if (!look.ready) {
        return look_at_files(o, ret);
    }
    rc = files ? import_compare(o, look.imported_zxid, &ret->text) : 0;
    if (rc == CONCLAVE_EFOREIGN) {
        ret->files = APACHE_FILES_BESIDE;
        return 0;
    }
    apache_import_look_finish(ret); /* what cannot be read does not count any more */
    return rc == CONCLAVE_ENOMEM ? rc : 0;
}

void apache_import_look_finish(struct apache_import_look *look)
{
    free(look->text);
    free(look->snapshot);
    free(look->unfinished);
    *look = (struct apache_import_look){.files = APACHE_FILES_NONE};
}

int apache_import_open(const struct server_options *o, struct apache_import **ret, char **ret_text)
{
    bool due;
    *ret = NULL;
    int rc = import_is_due(o, &due, ret_text);
    if (rc != 0 || !due) {
        return rc;
    }
    struct apache_import *x = calloc(1, sizeof *x);
    if (x == NULL) {
        return import_fail(CONCLAVE_ENOMEM, NULL, ret_text);
    }
    x->options = o;
    bool alone = !o->ensemble.enabled || o->ensemble.n_members == 1;
    rc = alone ? import_found(x, ret_text) : import_show(x, ret_text);
    if (rc != 0 || alone) {
        apache_import_close(x);
    } else {
        *ret = x;
    }
    return rc;
}

void apache_import_close(struct apache_import *x)
{
    if (x != NULL) {
        state_destroy(x->state);
        apache_found_finish(&x->found);
        free(x->damage);
        free(x);
    }
}

const struct import_source *apache_import_source(const struct apache_import *x)
{
    return x != NULL ? &x->source : NULL;
}
