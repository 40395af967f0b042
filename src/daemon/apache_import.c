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

static int import_write(const struct server_options *o, struct state *state, char **ret_text)
{
    struct error_text problem = {NULL};
    const struct found_folder folder = {
        .dir = o->data_dir,
        .server_id = (uint64_t)o->server_id,
        .index = IMPORT_INDEX,
        .term = IMPORT_TERM,
        .imported_zxid = state_zxid(state),
        .step = import_step,
        .ctx = state,
    };
    assert(folder.imported_zxid >= 0);
    int rc = state_snapshot_begin(state);
    rc = rc == 0 ? found_folder_make(&folder, &problem) : rc;
    return rc == 0 ? 0 : import_fail(rc, error_text_take(&problem, rc), ret_text);
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

static int import_all(const struct server_options *o, char **ret_text)
{
    struct hash_key key;
    struct apache_found found;
    struct state *state;
    char *text;
    random_bytes(&key, sizeof key);
    log_always("server", "importing", "data=\"%s\" from=\"Apache ZooKeeper\"", o->data_dir);
    int rc = apache_folder_read(o->data_dir, o->apache_log_dir, &key, &found, &state, &text);
    if (rc != 0) {
        return import_fail(rc, text, ret_text);
    }
    if (found.snapshot == NULL && found.transactions == 0) {
        rc = text_fail(
            ret_text, CONCLAVE_EFOREIGN,
            "%s/version-2 is that of an Apache ZooKeeper, but has neither a snapshot nor a transaction: put "
            "its files back, or move it away to begin with an empty tree",
            o->data_dir);
    }
    rc = rc == 0 ? import_write(o, state, ret_text) : rc;
    if (rc == 0) {
        import_tell(o->data_dir, &found, state);
    }
    state_destroy(state);
    apache_found_finish(&found);
    return rc;
}

/* Whether Apache's files are as they were when they were imported. */
static int import_compare(const struct server_options *o, int64_t imported, char **ret_text)
{
    int64_t last;
    char *text;
    if (imported < 0) {
        return text_fail(
            ret_text, CONCLAVE_EFOREIGN,
            "%s has data of Conclave and of an Apache ZooKeeper (version-2) that were not imported: move "
            "version-2 away to use the first, or everything else but myid to import the second",
            o->data_dir);
    }
    int rc = apache_folder_last_zxid(o->data_dir, o->apache_log_dir, &last, &text);
    if (rc == 0 && last > imported) {
        return text_fail(
            ret_text, CONCLAVE_EFOREIGN,
            "an Apache ZooKeeper has written to %s/version-2 after it was imported: it ended with zxid 0x%llx, and "
            "has 0x%llx now. Which data count? Move version-2 away to go on with those of Conclave, or "
            "everything else but myid to import anew",
            o->data_dir, (unsigned long long)imported, (unsigned long long)last);
    }
    if (rc != 0) {
        log_warn_advice(
            "server", "old-files-unreadable", "move version-2 away when nobody needs it any longer",
            "data=\"%s\" error=\"%s\"", o->data_dir, text != NULL ? text : conclave_strerror(rc));
        free(text);
    }
    return rc == CONCLAVE_ENOMEM ? rc : 0;
}

int apache_import(const struct server_options *o, char **ret_text)
{
    struct error_text problem = {NULL};
    struct found_look look;
    if (!apache_folder_is(o->data_dir)) {
        return 0;
    }
    int rc = found_folder_look(o->data_dir, &look, &problem);
    if (rc != 0) {
        return import_fail(rc, error_text_take(&problem, rc), ret_text);
    }
    if (look.ready) {
        return import_compare(o, look.imported_zxid, ret_text);
    }
    if (o->ensemble.enabled) {
        return text_fail(
            ret_text, CONCLAVE_EFOREIGN,
            "%s has the data of an Apache ZooKeeper (version-2), and only a server alone imports them: docs/migration.md "
            "tells how an ensemble takes over",
            o->data_dir);
    }
    return import_all(o, ret_text);
}
