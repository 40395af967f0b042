#include "replication/found_folder.h"

#include "replication/disk/data_folder.h"
#include "replication/disk/journal.h"
#include "replication/disk/segment.h"
#include "replication/disk/snapshot_file.h"
#include "replication/raft/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define SEGMENT_BYTES (1u << 20) /* of the first segment; the server makes larger ones */

/* Writes the pieces of the state in blocks of the snapshot file. */
static int found_write_content(const struct found_folder *f, struct snapshot_writer *w,
                               struct error_text *problem)
{
    struct buf pending;
    buf_init(&pending, 0);
    int more = 1;
    int rv = 0;
    while (rv == 0 && (more == 1 || pending.len > 0)) {
        if (more == 1 && pending.len < SNAPSHOT_BLOCK_SIZE) {
            more = f->step(f->ctx, SNAPSHOT_BLOCK_SIZE, &pending);
            rv = more < 0 ? more : buf_ok(&pending) ? 0 : CONCLAVE_ENOMEM;
        }
        if (rv == 0 && (pending.len >= SNAPSHOT_BLOCK_SIZE || (more == 0 && pending.len > 0))) {
            size_t len = pending.len < SNAPSHOT_BLOCK_SIZE ? pending.len : SNAPSHOT_BLOCK_SIZE;
            rv = snapshot_writer_block(w, slice_make(pending.data, len), problem);
            buf_consume(&pending, len);
        }
    }
    buf_finish(&pending);
    return rv;
}

static int found_write_snapshot(const struct found_folder *f, const struct data_folder *folder,
                                struct slice configuration, struct error_text *problem)
{
    struct snapshot_meta meta = {.index = f->index, .term = f->term, .configuration_index = 1};
    struct snapshot_writer w = {.fd = -1};
    uint64_t *left = NULL; /* by a call that did not end */
    size_t n = 0;
    buf_init(&meta.configuration, 0);
    buf_append_slice(&meta.configuration, configuration);
    /* Creates the folder. */
    int rv = snapshot_list(folder->ops, f->dir, true, &left, &n, problem);
    for (size_t i = 0; rv == 0 && i < n; i++) {
        int err = snapshot_remove(folder->ops, f->dir, left[i]);
        rv = err == 0 ? 0 : error_text_file(problem, err, "cannot remove a snapshot in", f->dir);
    }
    free(left);
    if (rv == 0) {
        rv = buf_ok(&meta.configuration)
                 ? snapshot_writer_begin(&w, folder->ops, f->dir, folder->marker.cluster, &meta,
                                         problem)
                 : CONCLAVE_ENOMEM;
    }
    if (rv == 0) {
        rv = found_write_content(f, &w, problem);
    }
    if (rv == 0) {
        rv = snapshot_writer_finish(&w, problem);
    }
    if (rv != 0) {
        snapshot_writer_abort(&w);
    }
    buf_finish(&meta.configuration);
    return rv;
}

/* A log that begins behind the snapshot, made as if another server had sent the snapshot. */
static int found_write_log(const struct found_folder *f, const struct data_folder *folder,
                           struct slice configuration, struct error_text *problem)
{
    struct journal journal;
    struct journal_segment *dropped = NULL;
    size_t n = 0;
    struct buf frame;
    buf_init(&frame, 0);
    frame_begin(&frame);
    frame_add(&frame, 1, ENTRY_CONFIGURATION, configuration);
    int rv =
        journal_init(&journal, folder->ops, f->dir, folder->marker.cluster, SEGMENT_BYTES, true);
    if (rv != 0) {
        buf_finish(&frame);
        return rv;
    }
    rv = journal_create(&journal, &frame);
    if (rv == 0) {
        rv = journal_set_vote(&journal, f->term > 1 ? f->term : 1, 0);
    }
    if (rv == 0) {
        rv = journal_begin_install(&journal, f->index);
    }
    if (rv == 0) {
        rv = journal_reset(&journal, f->index, &dropped, &n);
    }
    for (size_t i = 0; rv == 0 && i < n; i++) {
        rv = journal_dispose(&journal, &dropped[i]) == 0 ? 0 : CONCLAVE_EIO;
    }
    if (rv == 0) {
        rv = journal_seal(&journal);
    }
    if (rv != 0 && journal.problem.text != NULL) {
        error_text_finish(problem);
        problem->text = journal.problem.text;
        journal.problem.text = NULL;
    }
    free(dropped);
    buf_finish(&frame);
    journal_finish(&journal);
    return rv;
}

int found_folder_make(const struct found_folder *f, struct error_text *problem)
{
    struct data_folder folder = {.lock = -1, .beside_apache = f->imported_zxid >= 0};
    struct buf configuration;
    assert(f->index > 1 && f->term > 0 && f->server_id > 0);
    buf_init(&configuration, 0);
    int rv =
        data_folder_open(&folder, file_ops_system(), f->dir, f->server_id, false, NULL, problem);
    if (rv == 0 && folder.marker.ready) {
        rv = error_text_set(problem, CONCLAVE_EFOREIGN,
                            "%s has the data of a server: name an empty folder", f->dir);
    }
    if (rv == 0) {
        rv = engine_encode_single(f->server_id, &configuration);
    }
    if (rv == 0) {
        rv = found_write_log(f, &folder, buf_slice(&configuration), problem);
    }
    if (rv == 0) {
        rv = found_write_snapshot(f, &folder, buf_slice(&configuration), problem);
    }
    if (rv == 0 && f->imported_zxid >= 0) {
        const struct imported_file imported = {f->imported_zxid, f->imported_epoch};
        rv = imported_write(folder.ops, f->dir, &imported, problem);
    }
    if (rv == 0) {
        rv = data_folder_set_ready(&folder, problem);
    }
    data_folder_close(&folder);
    buf_finish(&configuration);
    return rv;
}

struct leftovers {
    const struct file_ops *ops;
    const char *folder;
    int error;
};

static void remove_leftover(void *arg, const char *name)
{
    struct leftovers *l = arg;
    char *path = path_make("%s/%s", l->folder, name);
    int rv = path != NULL ? l->ops->remove(l->ops->ctx, path) : -ENOMEM;
    l->error = rv != 0 && rv != -ENOENT && rv != -EISDIR ? rv : l->error;
    free(path);
}

/* Removes the files of a folder of ours; the folder may be missing. */
static int empty_folder(const struct file_ops *ops, const char *dir, const char *name,
                        struct error_text *problem)
{
    char *path = path_make("%s/%s", dir, name);
    struct leftovers l = {ops, path, path != NULL ? 0 : -ENOMEM};
    int rv = path != NULL ? ops->list(ops->ctx, path, remove_leftover, &l) : 0;
    if (rv == 0) {
        rv = l.error;
    }
    rv = rv == 0 || rv == -ENOENT ? 0 : error_text_file(problem, rv, "cannot empty", path);
    free(path);
    return rv;
}

int found_folder_leave(const char *dir, int64_t imported_zxid, struct error_text *problem)
{
    const struct file_ops *ops = file_ops_system();
    struct marker marker = {0};
    int rv = marker_read(ops, dir, &marker, problem);
    if (rv == 0 && marker.ready) {
        return 0;
    }
    if (rv == CONCLAVE_NO_NODE) {
        error_text_finish(problem);
        rv = 0;
    }
    assert(imported_zxid >= 0);
    rv = rv == 0 ? empty_folder(ops, dir, "log", problem) : rv;
    rv = rv == 0 ? empty_folder(ops, dir, "snapshot", problem) : rv;
    if (rv == 0) {
        struct leftovers l = {ops, dir, 0};
        remove_leftover(&l, METADATA_FILE);
        rv = l.error == 0 ? 0 : error_text_file(problem, l.error, "cannot empty", dir);
    }
    const struct imported_file imported = {imported_zxid, -1};
    return rv == 0 ? imported_write(ops, dir, &imported, problem) : rv;
}

int found_folder_look(const char *dir, struct found_look *ret, struct error_text *problem)
{
    const struct file_ops *ops = file_ops_system();
    struct marker marker = {0};
    struct imported_file imported = {.zxid = -1};
    *ret = (struct found_look){.imported_zxid = -1};
    int rv = marker_read(ops, dir, &marker, problem);
    if (rv == 0) {
        ret->ready = marker.ready;
        rv = imported_read(ops, dir, &imported, problem);
        ret->imported_zxid = imported.zxid;
    }
    if (rv == CONCLAVE_NO_NODE) {
        error_text_finish(problem);
        rv = 0;
    }
    return rv;
}
