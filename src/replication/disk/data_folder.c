/*
 * Recognises and locks the data folder. A folder that contains anything but no marker of ours is not touched: it
 * belongs to another program, or the marker was lost together with other files.
 */
#include "replication/disk/data_folder.h"

#include "base/random.h"
#include "replication/disk/damage.h"
#include "replication/disk/members_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Files that may be there before the first start. */
static const char *const harmless[] = {
    "lock",
    (FORMAT_FILE ".new"),
    "myid",
    "initialize",
    "lost+found",
    "zookeeper_server.pid",
    MEMBERS_FILE, /* left from a lost log */
    (MEMBERS_FILE ".new"),
    IMPORTED_FILE, /* from an import that did not end, or of a member that joins instead */
    (IMPORTED_FILE ".new"),
    CHOICE_FILE, /* of the members of an ensemble that begins with an import */
    (CHOICE_FILE ".new"),
};

/* Conclave's own files, which mean nothing without a marker. */
static const char *const own[] = {"log", "snapshot", METADATA_FILE, (METADATA_FILE ".new")};

struct folder_look {
    bool marker;        /* conclave.format is there */
    bool zookeeper;     /* version-2/ is there */
    bool healing;       /* `healing` is there */
    bool beside_apache; /* given, or `imported` is there */
    char own[64];       /* a name of Conclave's, or "" */
    char foreign[64];   /* another name, or "" */
};

static void data_folder_look_at(void *arg, const char *name)
{
    struct folder_look *look = arg;
    if (strcmp(name, FORMAT_FILE) == 0) {
        look->marker = true;
        return;
    }
    look->beside_apache = look->beside_apache || strcmp(name, IMPORTED_FILE) == 0;
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        if (strcmp(name, harmless[i]) == 0) {
            return;
        }
    }
    if (strncmp(name, DAMAGE_ASIDE, strlen(DAMAGE_ASIDE)) == 0 ||
        strcmp(name, HEALING_FILE ".new") == 0) {
        return;
    }
    if (strcmp(name, HEALING_FILE) == 0) {
        look->healing = true;
        return;
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (strcmp(name, own[i]) == 0) {
            strncpy(look->own, name, sizeof look->own - 1);
            return;
        }
    }
    if (strcmp(name, "version-2") == 0) {
        look->zookeeper = true;
        return;
    }
    if (look->foreign[0] == '\0') {
        strncpy(look->foreign, name, sizeof look->foreign - 1);
    }
}

static int recognise(const struct file_ops *ops, const char *dir, struct folder_look *look,
                     struct error_text *problem)
{
    int rv = ops->list(ops->ctx, dir, data_folder_look_at, look);
    if (rv != 0) {
        return error_text_file(problem, rv, "cannot list the data folder", dir);
    }
    if (look->marker || look->healing) { /* the marker itself may have moved aside */
        return 0;
    }
    if (look->zookeeper && !look->beside_apache) {
        return error_text_set(
            problem, CONCLAVE_EFOREIGN,
            "%s is not a Conclave data folder but the dataDir of an Apache ZooKeeper server (it contains "
            "version-2): use another folder",
            dir);
    }
    bool foreign = look->foreign[0] != '\0';
    if (!foreign && look->own[0] == '\0') {
        return 0;
    }
    if (!foreign && damage_is_ours(ops, dir)) {
        return error_text_set(problem, CONCLAVE_ECORRUPT, DAMAGE_NO_MARKER, dir);
    }
    return error_text_set(
        problem, CONCLAVE_EFOREIGN,
        "%s is not a Conclave data folder: it contains %s but no %s. Use an empty or a new folder",
        dir, foreign ? look->foreign : look->own, FORMAT_FILE);
}

int data_folder_recognise(const struct file_ops *ops, const char *dir, struct error_text *problem)
{
    struct folder_look look = {.beside_apache = true};
    return recognise(ops, dir, &look, problem);
}

static int lock_folder(struct data_folder *f, struct error_text *problem)
{
    long pid = 0;
    char *path = path_make("%s/lock", f->dir);
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    f->lock = f->ops->lock(f->ops->ctx, path, &pid);
    int rv = 0;
    if (f->lock == -EWOULDBLOCK && pid > 0) {
        rv = error_text_set(
            problem, CONCLAVE_ELOCKED,
            "the data folder %s is in use by process %ld: stop it, or use another folder", f->dir,
            pid);
    } else if (f->lock == -EWOULDBLOCK) {
        rv = error_text_set(
            problem, CONCLAVE_ELOCKED,
            "the data folder %s is in use by another process: stop it, or use another folder",
            f->dir);
    } else if (f->lock < 0) {
        rv = error_text_file(problem, f->lock, "cannot lock", path);
    }
    free(path);
    return rv;
}

/* Makes the folder's own name durable in its parent. */
static int sync_parent(struct data_folder *f, struct error_text *problem)
{
    char *parent = strdup(f->dir);
    if (parent == NULL) {
        return CONCLAVE_ENOMEM;
    }
    size_t len = strlen(parent);
    while (len > 1 && parent[len - 1] == '/') {
        parent[--len] = '\0';
    }
    char *slash = strrchr(parent, '/');
    const char *path = slash == NULL ? "." : slash == parent ? "/" : parent;
    if (slash != NULL && slash != parent) {
        *slash = '\0';
    }
    int rv = f->ops->sync_folder(f->ops->ctx, path);
    if (rv != 0) {
        rv = error_text_file(problem, rv, "cannot sync the folder", path);
    }
    free(parent);
    return rv;
}

int data_folder_open(struct data_folder *f, const struct file_ops *ops, const char *dir,
                     uint64_t server_id, bool join, const uint8_t *cluster,
                     struct error_text *problem)
{
    struct folder_look look = {.beside_apache = f->beside_apache};
    f->ops = ops;
    f->lock = -1;
    f->dir = strdup(dir);
    if (f->dir == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rv = ops->make_folder(ops->ctx, dir);
    if (rv != 0) {
        return error_text_file(problem, rv, "cannot create the data folder", dir);
    }
    rv = recognise(ops, dir, &look, problem);
    f->healing = look.healing;
    if (rv == 0) {
        rv = lock_folder(f, problem);
    }
    if (rv != 0) {
        return rv;
    }
    rv = marker_read(ops, dir, &f->marker, problem);
    bool first = rv == CONCLAVE_NO_NODE || (rv == 0 && !f->marker.ready);
    if (first && f->healing && !join) {
        return error_text_set(
            problem, CONCLAVE_EFOREIGN,
            "the data folder %s belongs to a member of an ensemble whose repair has begun: start it "
            "as a member. The damaged files are in its folders " DAMAGE_ASIDE "*",
            dir);
    }
    if (rv == CONCLAVE_NO_NODE) {
        if (cluster != NULL) {
            memcpy(f->marker.cluster, cluster, sizeof f->marker.cluster);
        } else {
            random_bytes(f->marker.cluster, sizeof f->marker.cluster);
        }
        f->marker.server_id = server_id;
        f->marker.ready = false;
        rv = marker_write(ops, dir, &f->marker, problem);
        return rv != 0 ? rv : sync_parent(f, problem);
    }
    if (rv == 0 && !f->marker.ready && cluster != NULL &&
        memcmp(f->marker.cluster, cluster, sizeof f->marker.cluster) != 0) {
        memcpy(f->marker.cluster, cluster, sizeof f->marker.cluster);
        rv = marker_write(ops, dir, &f->marker, problem);
    }
    if (rv == 0 && f->marker.server_id != server_id) {
        return error_text_set(problem, CONCLAVE_EFOREIGN,
                              "the data folder %s belongs to server %" PRIu64
                              ", not to server %" PRIu64 ": correct the id, or use another folder",
                              dir, f->marker.server_id, server_id);
    }
    return rv;
}

int data_folder_set_ready(struct data_folder *f, struct error_text *problem)
{
    f->marker.ready = true;
    return marker_write(f->ops, f->dir, &f->marker, problem);
}

void data_folder_close(struct data_folder *f)
{
    if (f->lock >= 0) {
        f->ops->close(f->ops->ctx, f->lock);
    }
    f->lock = -1;
    free(f->dir);
    f->dir = NULL;
}
