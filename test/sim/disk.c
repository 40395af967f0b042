#include "sim/disk.h"

#include "sim/world.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HANDLES = 64, SECTOR = 512, PATH_MAX_LEN = 96 };

struct bytes {
    uint8_t *data;
    size_t len;
    size_t cap;
};

struct file {
    struct bytes live;
    struct bytes synced;
    size_t dirty_from; /* bytes of live that may differ from synced; none when from >= to */
    size_t dirty_to;
    unsigned refs; /* names, live or durable, changes and handles */
};

struct name {
    char path[PATH_MAX_LEN];
    struct file *file; /* NULL: a folder */
};

struct names {
    struct name *at;
    size_t n;
    size_t cap;
};

/* A change of a folder that is not durable yet. */
struct change {
    struct change *next;
    char path[PATH_MAX_LEN]; /* names `file` now, or a folder, or nothing */
    struct file *file;
    bool remove;
    char also[PATH_MAX_LEN]; /* the other name of a rename, which goes away with it */
};

struct disk {
    struct file_ops ops;
    struct prng prng;
    struct names live;
    struct names durable;
    struct change *changes; /* oldest first */
    struct file *handles[HANDLES];
    int lock_handle; /* -1: not locked */
    uint64_t calls;  /* that change something */
    uint64_t stop_at;
    uint64_t fail_at;
    bool stopped;
    bool full;
    bool lying;
};

/* Bytes and files */

static void bytes_resize(struct bytes *b, size_t len)
{
    if (len > b->cap) {
        b->cap = len > 2 * b->cap ? len : 2 * b->cap;
        b->data = realloc(b->data, b->cap);
        assert(b->data != NULL);
    }
    if (len > b->len) {
        memset(b->data + b->len, 0, len - b->len);
    }
    b->len = len;
}

static struct file *file_ref(struct file *f)
{
    if (f != NULL) {
        f->refs++;
    }
    return f;
}

static void file_unref(struct file *f)
{
    if (f != NULL && --f->refs == 0) {
        free(f->live.data);
        free(f->synced.data);
        free(f);
    }
}

static void file_dirty(struct file *f, size_t from, size_t to)
{
    if (f->dirty_from >= f->dirty_to) {
        f->dirty_from = from;
        f->dirty_to = to;
        return;
    }
    f->dirty_from = from < f->dirty_from ? from : f->dirty_from;
    f->dirty_to = to > f->dirty_to ? to : f->dirty_to;
}

static void file_sync(struct file *f)
{
    bytes_resize(&f->synced, f->live.len);
    size_t to = f->dirty_to < f->live.len ? f->dirty_to : f->live.len;
    if (f->dirty_from < to) {
        memcpy(f->synced.data + f->dirty_from, f->live.data + f->dirty_from, to - f->dirty_from);
    }
    f->dirty_from = f->dirty_to = 0;
}

/* The content of a file after a power cut: nothing, all or some of what was not synced. */
static void file_cut(struct disk *d, struct file *f)
{
    unsigned keep = (unsigned)(prng_next(&d->prng) % 3);
    size_t to = f->dirty_to < f->live.len ? f->dirty_to : f->live.len;
    if (keep != 0 && f->live.len > f->synced.len && (keep == 1 || prng_next(&d->prng) % 2 == 0)) {
        bytes_resize(&f->synced, f->live.len);
    }
    to = to < f->synced.len ? to : f->synced.len;
    for (size_t at = f->dirty_from / SECTOR * SECTOR; keep != 0 && at < to; at += SECTOR) {
        size_t end = at + SECTOR < to ? at + SECTOR : to;
        if (keep == 1 || prng_next(&d->prng) % 2 == 0) {
            memcpy(f->synced.data + at, f->live.data + at, end - at);
        }
    }
    f->live.len = 0;
    bytes_resize(&f->live, f->synced.len);
    if (f->synced.len > 0) {
        memcpy(f->live.data, f->synced.data, f->synced.len);
    }
    f->dirty_from = f->dirty_to = 0;
}

/* Names */

static struct name *names_find(struct names *t, const char *path)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->at[i].path, path) == 0) {
            return &t->at[i];
        }
    }
    return NULL;
}

static void names_remove(struct names *t, const char *path)
{
    struct name *name = names_find(t, path);
    if (name != NULL) {
        file_unref(name->file);
        *name = t->at[--t->n];
    }
}

static void names_put(struct names *t, const char *path, struct file *file)
{
    file_ref(file);
    names_remove(t, path);
    if (t->n == t->cap) {
        t->cap = t->cap == 0 ? 32 : 2 * t->cap;
        t->at = realloc(t->at, t->cap * sizeof *t->at);
        assert(t->at != NULL);
    }
    snprintf(t->at[t->n].path, sizeof t->at[t->n].path, "%s", path);
    t->at[t->n++].file = file;
}

static void names_clear(struct names *t)
{
    while (t->n > 0) {
        file_unref(t->at[--t->n].file);
    }
}

static void change_apply(struct names *t, const struct change *c)
{
    if (c->also[0] != '\0') {
        names_remove(t, c->also);
    }
    if (c->remove) {
        names_remove(t, c->path);
    } else {
        names_put(t, c->path, c->file);
    }
}

static void change_add(struct disk *d, const char *path, struct file *file, bool remove,
                       const char *also)
{
    struct change *c = must_calloc(sizeof *c);
    struct change **end = &d->changes;
    snprintf(c->path, sizeof c->path, "%s", path);
    snprintf(c->also, sizeof c->also, "%s", also != NULL ? also : "");
    c->file = file_ref(file);
    c->remove = remove;
    change_apply(&d->live, c);
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = c;
}

/* Length of the folder's part of a path, 0: the top. */
static size_t folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path);
}

static bool in_folder(const char *path, const char *folder)
{
    size_t len = strcmp(folder, ".") == 0 ? 0 : strlen(folder);
    return folder_of(path) == len && strncmp(path, folder, len) == 0;
}

/* The folder's first `limit` changes become durable, its others are forgotten. */
static void changes_settle(struct disk *d, const char *folder, size_t limit)
{
    struct change **at = &d->changes;
    while (*at != NULL) {
        struct change *c = *at;
        if (folder != NULL && !in_folder(c->path, folder)) {
            at = &c->next;
            continue;
        }
        if (limit > 0) {
            change_apply(&d->durable, c);
            limit--;
        }
        *at = c->next;
        file_unref(c->file);
        free(c);
    }
}

/* Calls */

/* Counts a call that changes something. 0, or the error it must fail with; *ret_last when it is the last
 * one, and may be carried out in part. */
static int count_call(struct disk *d, bool *ret_last)
{
    *ret_last = false;
    if (d->stopped) {
        return -EIO;
    }
    d->calls++;
    if (d->calls == d->fail_at) {
        return -EIO;
    }
    if (d->stop_at != 0 && d->calls >= d->stop_at) {
        d->stopped = true;
        *ret_last = true;
    }
    return 0;
}

static int take_handle(struct disk *d, struct file *f)
{
    for (int i = 0; i < HANDLES; i++) {
        if (d->handles[i] == NULL) {
            d->handles[i] = file_ref(f);
            return i;
        }
    }
    assert(!"too many handles: a leak");
    return -EMFILE;
}

static int disk_open(void *ctx, const char *path, enum file_mode mode)
{
    struct disk *d = ctx;
    bool last;
    struct name *name = names_find(&d->live, path);
    if (d->stopped) {
        return -EIO;
    }
    if (mode != FILE_REPLACE) {
        return name == NULL || name->file == NULL ? -ENOENT : take_handle(d, name->file);
    }
    int rv = d->full && name == NULL ? -ENOSPC : count_call(d, &last);
    if (rv != 0 || last) {
        return rv != 0 ? rv : -EIO;
    }
    struct file *f = name != NULL ? name->file : NULL;
    if (f != NULL) {
        file_dirty(f, 0, f->live.len);
        f->live.len = 0;
    } else {
        f = must_calloc(sizeof *f);
        change_add(d, path, f, false, NULL);
    }
    return take_handle(d, f);
}

static void disk_close(void *ctx, int fd)
{
    struct disk *d = ctx;
    assert(d->handles[fd] != NULL);
    if (fd == d->lock_handle) {
        d->lock_handle = -1;
    }
    file_unref(d->handles[fd]);
    d->handles[fd] = NULL;
}

static int64_t disk_size(void *ctx, int fd)
{
    struct disk *d = ctx;
    return (int64_t)d->handles[fd]->live.len;
}

static int64_t disk_read(void *ctx, int fd, void *data, size_t len, uint64_t offset)
{
    struct disk *d = ctx;
    struct bytes *b = &d->handles[fd]->live;
    size_t n = offset >= b->len ? 0 : b->len - (size_t)offset < len ? b->len - (size_t)offset : len;
    if (d->stopped) {
        return -EIO;
    }
    if (n > 0) {
        memcpy(data, b->data + offset, n);
    }
    return (int64_t)n;
}

/* A write in which everything stops leaves its first part. */
static int disk_write(void *ctx, int fd, const void *data, size_t len, uint64_t offset)
{
    struct disk *d = ctx;
    struct file *f = d->handles[fd];
    bool last = false;
    int rv = d->full && (size_t)offset + len > f->live.len ? -ENOSPC : count_call(d, &last);
    size_t n = rv != 0 ? 0 : last ? (size_t)(prng_next(&d->prng) % (len + 1)) : len;
    if (n > 0) {
        size_t end = (size_t)offset + n;
        if (end > f->live.len) {
            file_dirty(f, f->live.len, end);
            bytes_resize(&f->live, end);
        }
        memcpy(f->live.data + offset, data, n);
        file_dirty(f, (size_t)offset, end);
    }
    return rv != 0 ? rv : last ? -EIO : 0;
}

static int disk_sync(void *ctx, int fd)
{
    struct disk *d = ctx;
    bool last;
    int rv = count_call(d, &last);
    rv = rv != 0 ? rv : last ? -EIO : 0;
    if (rv == 0 && !d->lying) {
        file_sync(d->handles[fd]);
    }
    return rv;
}

static int disk_map(void *ctx, int fd, size_t len, const void **ret)
{
    uint8_t *copy = must_calloc(len);
    int64_t n = disk_read(ctx, fd, copy, len, 0);
    if (n != (int64_t)len) {
        free(copy);
        return -EIO;
    }
    *ret = copy;
    return 0;
}

static void disk_unmap(void *ctx, const void *data, size_t len)
{
    free((void *)(uintptr_t)data);
}

static int disk_rename(void *ctx, const char *from, const char *to)
{
    struct disk *d = ctx;
    bool last = false;
    struct name *name = names_find(&d->live, from);
    int rv = name == NULL ? -ENOENT : count_call(d, &last);
    if (rv == 0) {
        change_add(d, to, name->file, false, from);
        rv = last ? -EIO : 0;
    }
    return rv;
}

static int disk_remove(void *ctx, const char *path)
{
    struct disk *d = ctx;
    bool last = false;
    int rv = names_find(&d->live, path) == NULL ? -ENOENT : count_call(d, &last);
    if (rv == 0) {
        change_add(d, path, NULL, true, NULL);
        rv = last ? -EIO : 0;
    }
    return rv;
}

static int disk_make_folder(void *ctx, const char *path)
{
    struct disk *d = ctx;
    bool last = false;
    if (names_find(&d->live, path) != NULL) {
        return 0;
    }
    int rv = d->full ? -ENOSPC : count_call(d, &last);
    if (rv == 0) {
        change_add(d, path, NULL, false, NULL);
        rv = last ? -EIO : 0;
    }
    return rv;
}

static int disk_sync_folder(void *ctx, const char *path)
{
    struct disk *d = ctx;
    bool last;
    int rv = count_call(d, &last);
    rv = rv != 0 ? rv : last ? -EIO : 0;
    if (rv == 0 && !d->lying) {
        changes_settle(d, path, SIZE_MAX);
    }
    return rv;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const struct name *)a)->path, ((const struct name *)b)->path);
}

static int disk_list(void *ctx, const char *path, void (*each)(void *arg, const char *name),
                     void *arg)
{
    struct disk *d = ctx;
    size_t n = d->live.n;
    if (d->stopped || names_find(&d->live, path) == NULL) {
        return d->stopped ? -EIO : -ENOENT;
    }
    struct name *copy = must_calloc((n + 1) * sizeof *copy); /* the callee may change the folder */
    memcpy(copy, d->live.at, n * sizeof *copy);
    qsort(copy, n, sizeof *copy, by_path);
    for (size_t i = 0; i < n; i++) {
        if (in_folder(copy[i].path, path)) {
            each(arg, copy[i].path + folder_of(copy[i].path) + 1);
        }
    }
    free(copy);
    return 0;
}

static int disk_lock(void *ctx, const char *path, long *ret_pid)
{
    struct disk *d = ctx;
    if (d->lock_handle >= 0) {
        *ret_pid = 1;
        return -EWOULDBLOCK;
    }
    d->lock_handle = disk_open(ctx, path, FILE_REPLACE);
    return d->lock_handle;
}

/* The disk as a whole */

struct disk *disk_create(uint64_t seed)
{
    struct disk *d = must_calloc(sizeof *d);
    d->prng.state = seed;
    d->lock_handle = -1;
    d->ops = (struct file_ops){
        .ctx = d,
        .threads = false,
        .open = disk_open,
        .close = disk_close,
        .size = disk_size,
        .read = disk_read,
        .write = disk_write,
        .sync = disk_sync,
        .map = disk_map,
        .unmap = disk_unmap,
        .rename = disk_rename,
        .remove = disk_remove,
        .make_folder = disk_make_folder,
        .sync_folder = disk_sync_folder,
        .list = disk_list,
        .lock = disk_lock,
    };
    return d;
}

const struct file_ops *disk_ops(struct disk *d)
{
    return &d->ops;
}

static void check_closed(const struct disk *d)
{
    for (int i = 0; i < HANDLES; i++) {
        assert(d->handles[i] == NULL);
    }
}

void disk_wipe(struct disk *d)
{
    check_closed(d);
    changes_settle(d, NULL, 0);
    names_clear(&d->live);
    names_clear(&d->durable);
}

void disk_destroy(struct disk *d)
{
    disk_wipe(d);
    free(d->live.at);
    free(d->durable.at);
    free(d);
}

void disk_stop(struct disk *d, uint64_t after_calls)
{
    d->stop_at = d->calls + after_calls;
    d->stopped = after_calls == 0;
}

/* Each folder keeps the first few of its changes. */
static void power_cut(struct disk *d)
{
    while (d->changes != NULL) {
        char folder[PATH_MAX_LEN];
        snprintf(folder, sizeof folder, "%.*s", (int)folder_of(d->changes->path), d->changes->path);
        /* The data folder itself is there before anything is in it. */
        changes_settle(d, folder[0] == '\0' ? "." : folder,
                       folder[0] == '\0' ? SIZE_MAX : (size_t)(prng_next(&d->prng) % 4));
    }
    names_clear(&d->live);
    for (size_t i = 0; i < d->durable.n; i++) {
        names_put(&d->live, d->durable.at[i].path, d->durable.at[i].file);
        if (d->durable.at[i].file != NULL) {
            file_cut(d, d->durable.at[i].file);
        }
    }
}

void disk_restart(struct disk *d, bool power)
{
    check_closed(d);
    if (power) {
        power_cut(d);
    }
    d->stopped = false;
    d->stop_at = 0;
    d->fail_at = 0;
    d->lock_handle = -1;
}

void disk_fail(struct disk *d, uint64_t nth)
{
    d->fail_at = d->calls + nth;
}

void disk_set_full(struct disk *d, bool full)
{
    d->full = full;
}

void disk_set_lying(struct disk *d, bool lying)
{
    d->lying = lying;
}
