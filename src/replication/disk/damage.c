/* Damaged folders: examines them and puts their content aside. */
#include "replication/disk/damage.h"

#include "base/buf.h"
#include "replication/disk/metadata.h"
#include "replication/disk/segment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Examining */

struct names {
    const struct file_ops *ops;
    const char *dir;
    struct damage_look *look; /* gets the cluster of the first good header */
    bool found;
};

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name);
    return len > strlen(end) && strcmp(name + len - strlen(end), end) == 0;
}

/* Reads the first bytes of a file; false: the file is shorter. */
static bool read_head(const struct file_ops *ops, const char *dir, const char *folder,
                      const char *name, uint8_t *bytes, size_t len)
{
    char *path = path_make("%s/%s/%s", dir, folder, name);
    int fd = path == NULL ? -ENOMEM : ops->open(ops->ctx, path, FILE_READ);
    int64_t n = fd < 0 ? fd : ops->read(ops->ctx, fd, bytes, len, 0);
    if (fd >= 0) {
        ops->close(ops->ctx, fd);
    }
    free(path);
    return n == (int64_t)len;
}

static void take_cluster(struct names *n, const uint8_t *cluster)
{
    n->found = true;
    if (n->look != NULL && !n->look->cluster_known) {
        n->look->cluster_known = true;
        memcpy(n->look->cluster, cluster, FORMAT_CLUSTER_SIZE);
    }
}

static void look_at_segment(void *arg, const char *name)
{
    struct names *n = arg;
    uint8_t block[SEGMENT_HEADER_SIZE];
    struct segment_header header;
    if (!n->found && ends_with(name, ".log") &&
        read_head(n->ops, n->dir, "log", name, block, sizeof block) &&
        segment_header_decode(block, &header)) {
        take_cluster(n, header.cluster);
    }
}

static bool list_folder(const struct file_ops *ops, const char *dir, const char *folder,
                        void (*each)(void *arg, const char *name), void *arg)
{
    char *path = path_make("%s/%s", dir, folder);
    bool listed = path != NULL && ops->list(ops->ctx, path, each, arg) == 0;
    free(path);
    return listed;
}

bool damage_is_ours(const struct file_ops *ops, const char *dir)
{
    struct error_text ignored = {NULL};
    struct metadata metadata;
    struct names n = {.ops = ops, .dir = dir};
    bool ours = metadata_read(ops, dir, &metadata, &ignored) == 0;
    error_text_finish(&ignored);
    return ours || (list_folder(ops, dir, "log", look_at_segment, &n) && n.found);
}

static void know_cluster(struct damage_look *look, const uint8_t *cluster)
{
    look->cluster_known = true;
    memcpy(look->cluster, cluster, FORMAT_CLUSTER_SIZE);
}

static int look(const struct file_ops *ops, const char *dir, struct damage_look *ret,
                char **ret_text)
{
    struct error_text problem = {NULL};
    struct error_text ignored = {NULL};
    struct marker marker;
    struct healing_file healing = {0};
    *ret = (struct damage_look){0};
    int rv = marker_read(ops, dir, &marker, &problem);
    int begun = healing_read(ops, dir, &healing, &ignored);
    bool gone = rv == CONCLAVE_NO_NODE;
    /* A ready marker means that it is over, or that the marker has not moved yet. */
    ret->healing = (begun == 0 || begun == CONCLAVE_ECORRUPT) && (rv != 0 || !marker.ready);
    ret->fresh = gone || ret->healing || (rv == 0 && !marker.ready);
    if (ret->healing && begun == 0) {
        know_cluster(ret, healing.cluster);
    } else if (rv == 0) {
        know_cluster(ret, marker.cluster);
    } else {
        struct names n = {.ops = ops, .dir = dir, .look = ret};
        (void)list_folder(ops, dir, "log", look_at_segment, &n);
    }
    if (gone || (ret->healing && rv == CONCLAVE_ECORRUPT)) {
        rv = 0;
    }
    if (gone && !ret->healing && damage_is_ours(ops, dir)) {
        ret->fresh = false;
        rv = error_text_set(&problem, CONCLAVE_ECORRUPT, DAMAGE_NO_MARKER, dir);
    }
    if (rv != 0) {
        *ret_text = error_text_take(&problem, rv);
    }
    error_text_finish(&problem);
    error_text_finish(&ignored);
    return rv;
}

int damage_look(const char *dir, const struct file_ops *ops, struct damage_look *ret,
                char **ret_text)
{
    return look(ops != NULL ? ops : file_ops_system(), dir, ret, ret_text);
}

/* Putting aside */

struct move {
    const struct file_ops *ops;
    const char *dir;
    const char *aside;  /* folder in dir */
    const char *folder; /* the same subfolder in both, or NULL: the folders themselves */
    const char *end;    /* suffix of the names that move */
    struct buf names;   /* the names found, each with its NUL */
    int error;          /* the first error, a negative errno */
};

/* The path of a file or folder, before or after the move; name NULL: the folder itself. */
static char *place(const struct move *m, bool aside, const char *name)
{
    return path_make("%s%s%s%s%s%s%s", m->dir, aside ? "/" : "", aside ? m->aside : "",
                     m->folder != NULL ? "/" : "", m->folder != NULL ? m->folder : "",
                     name != NULL ? "/" : "", name != NULL ? name : "");
}

/* Files that lie aside are never overwritten: if the name is taken, the new file gets a number. */
static int free_place(const struct move *m, const char *name, char **ret)
{
    char *path = place(m, true, name);
    int err = path == NULL ? -ENOMEM : 0;
    for (unsigned n = 2; err == 0; n++) {
        int fd = m->ops->open(m->ops->ctx, path, FILE_READ);
        if (fd == -ENOENT) {
            break;
        }
        if (fd >= 0) {
            m->ops->close(m->ops->ctx, fd);
        }
        free(path);
        char *plain = fd < 0 ? NULL : place(m, true, name);
        path = plain == NULL ? NULL : path_make("%s.%u", plain, n);
        free(plain);
        err = fd < 0 ? fd : path == NULL ? -ENOMEM : 0;
    }
    *ret = path;
    return err;
}

static void move_file(struct move *m, const char *name)
{
    if (m->error != 0) {
        return;
    }
    char *from = place(m, false, name);
    char *to = NULL;
    int err = from == NULL ? -ENOMEM : free_place(m, name, &to);
    if (err == 0) {
        err = m->ops->rename(m->ops->ctx, from, to);
    }
    m->error = err == -ENOENT ? 0 : err;
    free(from);
    free(to);
}

static void gather_name(void *arg, const char *name)
{
    struct move *m = arg;
    if (ends_with(name, m->end)) {
        buf_append(&m->names, name, strlen(name) + 1);
    }
}

static int sync_folder(const struct move *m, bool aside)
{
    char *path = place(m, aside, NULL);
    int err = path == NULL ? -ENOMEM : m->ops->sync_folder(m->ops->ctx, path);
    free(path);
    return err == -ENOENT ? 0 : err;
}

static int make_folder(const struct move *m)
{
    char *path = place(m, true, NULL);
    int err = path == NULL ? -ENOMEM : m->ops->make_folder(m->ops->ctx, path);
    free(path);
    return err;
}

/* Makes the moves durable: first in the new folder, then in the old one. */
static void settle_folder(struct move *m)
{
    if (m->error == 0) {
        m->error = sync_folder(m, true);
    }
    if (m->error == 0) {
        m->error = sync_folder(m, false);
    }
}

static void move_named(struct move *m, const char *name)
{
    m->folder = NULL;
    move_file(m, name);
    settle_folder(m);
}

static void move_listed(struct move *m, const char *folder, const char *end)
{
    m->folder = folder;
    m->end = end;
    char *path = path_make("%s/%s", m->dir, folder);
    buf_init(&m->names, 0);
    if (m->error == 0) {
        m->error = path == NULL ? -ENOMEM : make_folder(m);
    }
    if (m->error == 0) {
        int err = m->ops->list(m->ops->ctx, path, gather_name, m);
        m->error = err == -ENOENT ? 0 : err == 0 && !buf_ok(&m->names) ? -ENOMEM : err;
    }
    for (size_t at = 0; at < m->names.len; at += strlen((char *)m->names.data + at) + 1) {
        move_file(m, (char *)m->names.data + at);
    }
    buf_finish(&m->names);
    free(path);
    settle_folder(m);
}

static int move_all(const struct file_ops *ops, const char *dir, const char *aside)
{
    struct move m = {.ops = ops, .dir = dir, .aside = aside};
    m.error = make_folder(&m);
    settle_folder(&m);
    /* The marker moves first: if it is missing and `healing` exists, the rest is still to be moved. */
    move_named(&m, FORMAT_FILE);
    move_named(&m, METADATA_FILE);
    move_listed(&m, "log", ".log");
    move_listed(&m, "snapshot", ".snapshot");
    return m.error;
}

struct taken {
    const char *name;
    bool found;
};

static void compare_name(void *arg, const char *name)
{
    struct taken *t = arg;
    t->found = t->found || strcmp(t->name, name) == 0;
}

/* A name that contains the time and does not exist in the folder. */
static int name_aside(const struct file_ops *ops, const char *dir, int64_t wall_ms,
                      char name[ASIDE_NAME_SIZE])
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    char stamp[24];
    struct taken taken = {.name = name, .found = true};
    if (gmtime_r(&seconds, &utc) == NULL ||
        strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc) == 0) {
        snprintf(stamp, sizeof stamp, "0");
    }
    for (unsigned n = 1; taken.found; n++) {
        snprintf(name, ASIDE_NAME_SIZE, n == 1 ? DAMAGE_ASIDE "%s" : DAMAGE_ASIDE "%s-%u", stamp,
                 n);
        taken.found = false;
        int err = ops->list(ops->ctx, dir, compare_name, &taken);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

static int lock(const struct file_ops *ops, const char *dir, int *ret_fd,
                struct error_text *problem)
{
    long pid = 0;
    char *path = path_make("%s/lock", dir);
    int fd = path == NULL ? -ENOMEM : ops->lock(ops->ctx, path, &pid);
    free(path);
    if (fd == -EWOULDBLOCK) {
        return error_text_set(problem, CONCLAVE_ELOCKED,
                              "the data folder %s is in use by another process", dir);
    }
    *ret_fd = fd;
    return fd < 0 ? error_text_file(problem, fd, "cannot lock the data folder", dir) : 0;
}

/* Whether the following first start has begun: then the content of the folder is new and must not move. */
static bool all_is_moved(const struct file_ops *ops, const char *dir,
                         const struct damage_look *before)
{
    struct error_text ignored = {NULL};
    struct marker marker;
    bool begun = marker_read(ops, dir, &marker, &ignored) == 0;
    error_text_finish(&ignored);
    return before->healing && begun && !marker.ready;
}

int damage_put_aside(const char *dir, const struct file_ops *ops, int64_t wall_ms,
                     const uint8_t cluster[FORMAT_CLUSTER_SIZE], char **ret_name, char **ret_text)
{
    struct error_text problem = {NULL};
    struct error_text ignored = {NULL};
    struct healing_file healing;
    struct damage_look before;
    char *text = NULL;
    int fd = -1;
    ops = ops != NULL ? ops : file_ops_system();
    int rv = lock(ops, dir, &fd, &problem);
    if (rv != 0) {
        goto out;
    }
    int looked = look(ops, dir, &before, &text);
    free(text);
    if (looked != 0 || !before.healing || healing_read(ops, dir, &healing, &ignored) != 0) {
        int err = name_aside(ops, dir, wall_ms, healing.aside);
        memcpy(healing.cluster, cluster, sizeof healing.cluster);
        rv = err != 0 ? error_text_file(&problem, err, "cannot list the data folder", dir)
                      : healing_write(ops, dir, &healing, &problem);
    }
    if (rv == 0 && !all_is_moved(ops, dir, &before)) {
        int err = move_all(ops, dir, healing.aside);
        rv = err == 0 ? 0
                      : error_text_file(&problem, err, "cannot move damaged files aside in", dir);
    }
    if (rv == 0) {
        *ret_name = strdup(healing.aside);
        rv = *ret_name == NULL ? CONCLAVE_ENOMEM : 0;
    }
    ops->close(ops->ctx, fd);
out:
    if (rv != 0) {
        *ret_text = error_text_take(&problem, rv);
    }
    error_text_finish(&problem);
    error_text_finish(&ignored);
    return rv;
}

void damage_is_over(const struct file_ops *ops, const char *dir)
{
    char *path = path_make("%s/" HEALING_FILE, dir);
    int err = path == NULL ? -ENOMEM : ops->remove(ops->ctx, path);
    (void)err; /* as declared in the header, a failure does no harm */
    free(path);
}
