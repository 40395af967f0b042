/*
 * Snapshot files. A snapshot is used only if its header, its trailer, its size and the checksum of its content are
 * correct. For that it is read once with plain reads, where a bad sector gives an error and not a signal, and mapped
 * only afterwards.
 */
#include "replication/disk/snapshot_file.h"

#include "base/endian.h"
#include "base/map.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONFIGURATION_MAX (1u << 20)

/* Without their NUL. */
static const char begin_magic[8] = SNAPSHOT_MAGIC;
static const char end_magic[8] = SNAPSHOT_END;

char *snapshot_path(const char *dir, uint64_t index)
{
    return path_make("%s/snapshot/%020" PRIu64 ".snapshot", dir, index);
}

static char *unfinished_path(const char *dir)
{
    return path_make("%s/snapshot/snapshot.new", dir);
}

#define INCOMING "incoming-"

/* The path of a snapshot that another server sends. */
static char *incoming_path(const char *dir, const struct snapshot_incoming *in)
{
    return path_make("%s/snapshot/" INCOMING "%016" PRIx64 "-%" PRIu64, dir, in->identity,
                     in->size);
}

static uint64_t header_checksum(const uint8_t header[SNAPSHOT_HEADER_SIZE],
                                struct slice configuration)
{
    uint64_t h = hash_bytes(header, SNAPSHOT_HEADER_SIZE - 8);
    return hash_u64(h ^ hash_bytes(configuration.data, configuration.len));
}

static uint64_t chain_block(uint64_t checksum, const void *block, size_t len)
{
    return hash_u64(checksum ^ hash_bytes(block, len));
}

static int writer_fail(struct snapshot_writer *w, int err, struct error_text *problem)
{
    return error_text_file(problem, err, "cannot write a snapshot in", w->dir);
}

int snapshot_writer_begin(struct snapshot_writer *w, const struct file_ops *ops, const char *dir,
                          const uint8_t cluster[FORMAT_CLUSTER_SIZE],
                          const struct snapshot_meta *meta, struct error_text *problem)
{
    uint8_t header[SNAPSHOT_HEADER_SIZE] = {0};
    struct slice configuration = buf_slice(&meta->configuration);
    assert(configuration.len <= CONFIGURATION_MAX && meta->configuration_index <= meta->index);
    *w = (struct snapshot_writer){.ops = ops, .dir = dir, .fd = -1, .index = meta->index};

    memcpy(header, begin_magic, sizeof begin_magic);
    put_le32(header + 8, FORMAT_VERSION);
    put_le32(header + 12, (uint32_t)configuration.len);
    memcpy(header + 16, cluster, FORMAT_CLUSTER_SIZE);
    put_le64(header + 32, meta->index);
    put_le64(header + 40, meta->term);
    put_le64(header + 48, meta->configuration_index);
    w->checksum = header_checksum(header, configuration);
    put_le64(header + 88, w->checksum);

    char *path = unfinished_path(dir);
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    w->fd = ops->open(ops->ctx, path, FILE_REPLACE);
    free(path);
    int err = w->fd < 0 ? w->fd : ops->write(ops->ctx, w->fd, header, sizeof header, 0);
    if (err == 0) {
        err = ops->write(ops->ctx, w->fd, configuration.data, configuration.len, sizeof header);
    }
    w->offset = sizeof header + configuration.len;
    return err == 0 ? 0 : writer_fail(w, err, problem);
}

int snapshot_writer_block(struct snapshot_writer *w, struct slice block, struct error_text *problem)
{
    assert(w->fd >= 0 && w->size % SNAPSHOT_BLOCK_SIZE == 0); /* only the last block is shorter */
    assert(block.len > 0 && block.len <= SNAPSHOT_BLOCK_SIZE);
    int err = w->ops->write(w->ops->ctx, w->fd, block.data, block.len, w->offset);
    if (err != 0) {
        return writer_fail(w, err, problem);
    }
    w->checksum = chain_block(w->checksum, block.data, block.len);
    w->offset += block.len;
    w->size += block.len;
    return 0;
}

int snapshot_writer_finish(struct snapshot_writer *w, struct error_text *problem)
{
    const struct file_ops *ops = w->ops;
    uint8_t trailer[SNAPSHOT_TRAILER_SIZE];
    assert(w->fd >= 0 && w->offset >= SNAPSHOT_HEADER_SIZE + w->size);
    memcpy(trailer, end_magic, sizeof end_magic);
    put_le64(trailer + 8, w->size);
    put_le64(trailer + 16, w->checksum);
    put_le64(trailer + 24, hash_bytes(trailer, 24));

    char *from = unfinished_path(w->dir);
    char *to = snapshot_path(w->dir, w->index);
    char *folder = path_make("%s/snapshot", w->dir);
    int err = from == NULL || to == NULL || folder == NULL ? -ENOMEM : 0;
    if (err == 0) {
        err = ops->write(ops->ctx, w->fd, trailer, sizeof trailer, w->offset);
    }
    if (err == 0) {
        /* Durable before the rename: a crash leaves a complete snapshot or an unfinished file, nothing between. */
        err = ops->sync(ops->ctx, w->fd);
    }
    if (err == 0) {
        err = ops->rename(ops->ctx, from, to);
    }
    if (err == 0) {
        err = ops->sync_folder(ops->ctx, folder);
    }
    if (err == 0) {
        ops->close(ops->ctx, w->fd);
        w->fd = -1;
    }
    free(from);
    free(to);
    free(folder);
    return err == 0 ? 0 : writer_fail(w, err, problem);
}

void snapshot_writer_abort(struct snapshot_writer *w)
{
    if (w->fd < 0) {
        return;
    }
    w->ops->close(w->ops->ctx, w->fd);
    w->fd = -1;
    char *path = unfinished_path(w->dir);
    if (path != NULL) {
        /* If it cannot be removed now, the next start removes it, or the next snapshot overwrites it. */
        int err = w->ops->remove(w->ops->ctx, path);
        (void)err;
    }
    free(path);
}

static int not_good(struct error_text *problem, const char *path, const char *what)
{
    return error_text_set(problem, CONCLAVE_ECORRUPT, "the snapshot %s is damaged: %s", path, what);
}

/* Checks the content of the file against its trailer, in pieces. */
static int check_content(struct snapshot_reader *r, int fd, uint64_t start, uint64_t size,
                         uint64_t checksum, const char *path, struct error_text *problem)
{
    uint8_t trailer[SNAPSHOT_TRAILER_SIZE];
    const struct file_ops *ops = r->ops;
    int64_t n = ops->read(ops->ctx, fd, trailer, sizeof trailer, start + size);
    if (n < 0) {
        return error_text_file(problem, (int)n, "cannot read", path);
    }
    if (memcmp(trailer, end_magic, sizeof end_magic) != 0 ||
        get_le64(trailer + 24) != hash_bytes(trailer, 24) || get_le64(trailer + 8) != size) {
        return not_good(problem, path, "it is incomplete");
    }
    uint8_t *block = malloc(SNAPSHOT_BLOCK_SIZE);
    if (block == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rv = 0;
    for (uint64_t done = 0; rv == 0 && done < size;) {
        size_t len =
            size - done < SNAPSHOT_BLOCK_SIZE ? (size_t)(size - done) : SNAPSHOT_BLOCK_SIZE;
        n = ops->read(ops->ctx, fd, block, len, start + done);
        if (n != (int64_t)len) {
            rv = error_text_file(problem, n < 0 ? (int)n : -EIO, "cannot read", path);
        }
        checksum = chain_block(checksum, block, len);
        done += len;
    }
    free(block);
    if (rv == 0 && checksum != get_le64(trailer + 16)) {
        rv = not_good(problem, path, "the checksum of its content is wrong");
    }
    return rv;
}

/* Reads header and configuration. *ret_start is the offset of the content. */
static int read_header(struct snapshot_reader *r, int fd, uint64_t size, uint64_t index,
                       const uint8_t cluster[FORMAT_CLUSTER_SIZE], const char *path,
                       uint64_t *ret_start, uint64_t *ret_checksum, struct error_text *problem)
{
    uint8_t header[SNAPSHOT_HEADER_SIZE];
    const struct file_ops *ops = r->ops;
    struct buf *configuration = &r->meta.configuration;
    if (size < SNAPSHOT_HEADER_SIZE + SNAPSHOT_TRAILER_SIZE) {
        return not_good(problem, path, "it is too short");
    }
    int64_t n = ops->read(ops->ctx, fd, header, sizeof header, 0);
    if (n < 0) {
        return error_text_file(problem, (int)n, "cannot read", path);
    }
    uint32_t len = get_le32(header + 12);
    if (memcmp(header, begin_magic, sizeof begin_magic) != 0 ||
        get_le32(header + 8) != FORMAT_VERSION || len > CONFIGURATION_MAX ||
        len > size - SNAPSHOT_HEADER_SIZE - SNAPSHOT_TRAILER_SIZE) {
        return not_good(problem, path, "it does not begin with a snapshot's header");
    }
    if (buf_reserve(configuration, len) != 0) {
        return CONCLAVE_ENOMEM;
    }
    n = ops->read(ops->ctx, fd, configuration->data, len, sizeof header);
    if (n != (int64_t)len) {
        return error_text_file(problem, n < 0 ? (int)n : -EIO, "cannot read", path);
    }
    configuration->len = len;
    *ret_checksum = header_checksum(header, buf_slice(configuration));
    if (get_le64(header + 88) != *ret_checksum) {
        return not_good(problem, path, "the checksum of its header is wrong");
    }
    if (memcmp(header + 16, cluster, FORMAT_CLUSTER_SIZE) != 0 || get_le64(header + 32) != index) {
        return not_good(problem, path, "it belongs to another cluster or index");
    }
    r->meta.index = index;
    r->meta.term = get_le64(header + 40);
    r->meta.configuration_index = get_le64(header + 48);
    *ret_start = SNAPSHOT_HEADER_SIZE + len;
    return 0;
}

/* Frees the path. */
static int reader_open(struct snapshot_reader *r, const struct file_ops *ops, char *path,
                       uint64_t index, const uint8_t cluster[FORMAT_CLUSTER_SIZE], bool map,
                       struct error_text *problem)
{
    uint64_t start = 0;
    uint64_t checksum = 0;
    memset(r, 0, sizeof *r);
    r->ops = ops;
    buf_init(&r->meta.configuration, 0);
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rv;
    int fd = ops->open(ops->ctx, path, FILE_READ);
    if (fd < 0) {
        rv = error_text_file(problem, fd, "cannot open", path);
        rv = fd == -ENOENT ? CONCLAVE_NO_NODE : rv;
        goto out;
    }
    int64_t size = ops->size(ops->ctx, fd);
    if (size < 0) {
        rv = error_text_file(problem, (int)size, "cannot read", path);
        goto out;
    }
    rv = read_header(r, fd, (uint64_t)size, index, cluster, path, &start, &checksum, problem);
    if (rv == 0) {
        uint64_t content = (uint64_t)size - start - SNAPSHOT_TRAILER_SIZE;
        rv = check_content(r, fd, start, content, checksum, path, problem);
        r->content = slice_make("", 0);
    }
    if (rv == 0 && map) {
        int err = ops->map(ops->ctx, fd, (size_t)size, &r->map);
        if (err != 0) {
            rv = error_text_file(problem, err, "cannot map", path);
        } else {
            r->map_len = (size_t)size;
            r->content = slice_make((const uint8_t *)r->map + start,
                                    (size_t)((uint64_t)size - start - SNAPSHOT_TRAILER_SIZE));
        }
    }
out:
    if (fd >= 0) {
        ops->close(ops->ctx, fd);
    }
    free(path);
    if (rv != 0) {
        snapshot_reader_close(r);
    }
    return rv;
}

int snapshot_reader_open(struct snapshot_reader *r, const struct file_ops *ops, const char *dir,
                         uint64_t index, const uint8_t cluster[FORMAT_CLUSTER_SIZE],
                         struct error_text *problem)
{
    return reader_open(r, ops, snapshot_path(dir, index), index, cluster, true, problem);
}

void snapshot_reader_close(struct snapshot_reader *r)
{
    if (r->map != NULL) {
        r->ops->unmap(r->ops->ctx, r->map, r->map_len);
    }
    r->map = NULL;
    buf_finish(&r->meta.configuration);
}

int snapshot_content(struct slice file, struct slice *ret)
{
    const uint8_t *header = file.data;
    if (file.len < SNAPSHOT_HEADER_SIZE + SNAPSHOT_TRAILER_SIZE ||
        memcmp(header, begin_magic, sizeof begin_magic) != 0 ||
        get_le32(header + 8) != FORMAT_VERSION) {
        return CONCLAVE_ECORRUPT;
    }
    size_t rest = file.len - SNAPSHOT_HEADER_SIZE - SNAPSHOT_TRAILER_SIZE;
    uint32_t len = get_le32(header + 12);
    if (len > CONFIGURATION_MAX || len > rest) {
        return CONCLAVE_ECORRUPT;
    }
    struct slice content = slice_make(header + SNAPSHOT_HEADER_SIZE + len, rest - len);
    const uint8_t *trailer = content.data + content.len;
    uint64_t checksum = header_checksum(header, slice_make(header + SNAPSHOT_HEADER_SIZE, len));
    if (get_le64(header + 88) != checksum || memcmp(trailer, end_magic, sizeof end_magic) != 0 ||
        get_le64(trailer + 24) != hash_bytes(trailer, 24) || get_le64(trailer + 8) != content.len) {
        return CONCLAVE_ECORRUPT;
    }
    for (size_t at = 0; at < content.len; at += SNAPSHOT_BLOCK_SIZE) {
        size_t left = content.len - at;
        checksum = chain_block(checksum, content.data + at,
                               left < SNAPSHOT_BLOCK_SIZE ? left : SNAPSHOT_BLOCK_SIZE);
    }
    if (get_le64(trailer + 16) != checksum) {
        return CONCLAVE_ECORRUPT;
    }
    *ret = content;
    return 0;
}

int snapshot_send_open(const struct file_ops *ops, const char *dir, uint64_t index, int *ret_fd,
                       uint64_t *ret_size, uint64_t *ret_identity)
{
    uint8_t trailer[SNAPSHOT_TRAILER_SIZE];
    char *path = snapshot_path(dir, index);
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int fd = ops->open(ops->ctx, path, FILE_READ);
    free(path);
    if (fd < 0) {
        return fd == -ENOENT ? CONCLAVE_NO_NODE : file_error(fd);
    }
    int rv = 0;
    int64_t size = ops->size(ops->ctx, fd);
    if (size < (int64_t)(SNAPSHOT_HEADER_SIZE + SNAPSHOT_TRAILER_SIZE)) {
        rv = size < 0 ? file_error((int)size) : CONCLAVE_ECORRUPT;
    } else {
        int64_t n = ops->read(ops->ctx, fd, trailer, sizeof trailer,
                              (uint64_t)size - SNAPSHOT_TRAILER_SIZE);
        if (n != (int64_t)sizeof trailer) {
            rv = n < 0 ? file_error((int)n) : CONCLAVE_ECORRUPT;
        } else if (get_le64(trailer + 24) != hash_bytes(trailer, 24)) {
            rv = CONCLAVE_ECORRUPT;
        }
    }
    if (rv != 0) {
        ops->close(ops->ctx, fd);
        return rv;
    }
    *ret_fd = fd;
    *ret_size = (uint64_t)size;
    *ret_identity =
        get_le64(trailer + 24); /* the trailer's checksum, which covers all other checksums */
    return 0;
}

struct incoming_listing {
    const struct file_ops *ops;
    const char *dir;
    const char *but; /* path of the one to keep, or NULL */
};

static void remove_incoming(void *arg, const char *name)
{
    struct incoming_listing *l = arg;
    if (strncmp(name, INCOMING, strlen(INCOMING)) != 0) {
        return;
    }
    char *path = path_make("%s/snapshot/%s", l->dir, name);
    if (path != NULL && (l->but == NULL || strcmp(path, l->but) != 0)) {
        /* If it cannot be removed now, the next call removes it. */
        int err = l->ops->remove(l->ops->ctx, path);
        (void)err;
    }
    free(path);
}

static int list_incoming(const struct file_ops *ops, const char *dir, const char *folder,
                         const char *but)
{
    struct incoming_listing l = {ops, dir, but};
    int err = ops->list(ops->ctx, folder, remove_incoming, &l);
    return err == -ENOENT ? 0 : err;
}

int snapshot_incoming_open(const struct file_ops *ops, const char *dir,
                           const struct snapshot_incoming *in, bool anew, int *ret_fd,
                           uint64_t *ret_length)
{
    char *path = incoming_path(dir, in);
    char *folder = path_make("%s/snapshot", dir);
    int64_t length = 0;
    int fd = path == NULL || folder == NULL ? -ENOMEM : ops->make_folder(ops->ctx, folder);
    if (fd == 0) {
        fd = list_incoming(ops, dir, folder, path);
    }
    if (fd == 0) {
        fd = anew ? -ENOENT : ops->open(ops->ctx, path, FILE_WRITE);
        length = fd >= 0 ? ops->size(ops->ctx, fd) : 0;
        if (fd >= 0 && (length < 0 || (uint64_t)length > in->size)) {
            ops->close(ops->ctx, fd);
            fd = -ENOENT;
        }
        if (fd == -ENOENT) {
            length = 0;
            fd = ops->open(ops->ctx, path, FILE_REPLACE);
        }
    }
    free(path);
    free(folder);
    if (fd < 0) {
        return file_error(fd);
    }
    *ret_fd = fd;
    *ret_length = (uint64_t)length;
    return 0;
}

int snapshot_incoming_check(const struct file_ops *ops, const char *dir,
                            const struct snapshot_incoming *in,
                            const uint8_t cluster[FORMAT_CLUSTER_SIZE],
                            const struct snapshot_meta *meta, struct error_text *problem)
{
    struct snapshot_reader r;
    int rv = reader_open(&r, ops, incoming_path(dir, in), meta->index, cluster, false, problem);
    if (rv != 0) {
        return rv;
    }
    if (r.meta.term != meta->term || r.meta.configuration_index != meta->configuration_index) {
        rv = error_text_set(problem, CONCLAVE_ECORRUPT, "it is not the snapshot that was offered");
    }
    snapshot_reader_close(&r);
    return rv;
}

int snapshot_incoming_accept(const struct file_ops *ops, const char *dir,
                             const struct snapshot_incoming *in, uint64_t index)
{
    char *from = incoming_path(dir, in);
    char *to = snapshot_path(dir, index);
    char *folder = path_make("%s/snapshot", dir);
    int err = from == NULL || to == NULL || folder == NULL ? -ENOMEM : 0;
    if (err == 0) {
        err = ops->rename(ops->ctx, from, to);
    }
    if (err == 0) {
        err = ops->sync_folder(ops->ctx, folder);
    }
    free(from);
    free(to);
    free(folder);
    return err == 0 ? 0 : file_error(err);
}

void snapshot_incoming_remove(const struct file_ops *ops, const char *dir)
{
    char *folder = path_make("%s/snapshot", dir);
    int err = folder == NULL ? -ENOMEM : list_incoming(ops, dir, folder, NULL);
    (void)err; /* see above */
    free(folder);
}

struct snapshot_listing {
    uint64_t *indexes;
    size_t count;
    size_t cap;
    bool unfinished;
    bool failed; /* out of memory */
};

static void snapshot_file_look_at(void *arg, const char *name)
{
    struct snapshot_listing *l = arg;
    uint64_t index;
    int end = 0;
    if (strcmp(name, "snapshot.new") == 0) {
        l->unfinished = true;
        return;
    }
    /* NOLINTNEXTLINE(cert-err34-c): our own names; others are ignored */
    if (sscanf(name, "%" SCNu64 ".snapshot%n", &index, &end) != 1 || end < 10 ||
        name[end] != '\0') {
        return;
    }
    if (!array_room(&l->indexes, l->count, &l->cap, sizeof *l->indexes)) {
        l->failed = true;
        return;
    }
    l->indexes[l->count++] = index;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x;
    uint64_t y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x < y) - (x > y);
}

int snapshot_list(const struct file_ops *ops, const char *dir, bool create, uint64_t **ret_indexes,
                  size_t *ret_count, struct error_text *problem)
{
    struct snapshot_listing l = {0};
    char *folder = path_make("%s/snapshot", dir);
    char *unfinished = unfinished_path(dir);
    int err = folder == NULL || unfinished == NULL ? -ENOMEM : 0;
    if (err == 0 && create) {
        err = ops->make_folder(ops->ctx, folder);
    }
    if (err == 0) {
        err = ops->list(ops->ctx, folder, snapshot_file_look_at, &l);
        err = err == -ENOENT ? 0 : err;
    }
    if (err == 0 && l.failed) {
        err = -ENOMEM;
    }
    if (err == 0 && l.unfinished) {
        err = ops->remove(ops->ctx, unfinished);
    }
    if (err == 0 && create) {
        err = list_incoming(ops, dir, folder, NULL);
    }
    int rv = err == 0 ? 0 : error_text_file(problem, err, "cannot list", folder);
    free(folder);
    free(unfinished);
    if (rv != 0) {
        free(l.indexes);
        return rv;
    }
    if (l.count > 1) {
        qsort(l.indexes, l.count, sizeof *l.indexes, newest_first);
    }
    *ret_indexes = l.indexes;
    *ret_count = l.count;
    return 0;
}

int snapshot_remove(const struct file_ops *ops, const char *dir, uint64_t index)
{
    char *path = snapshot_path(dir, index);
    int err = path == NULL ? -ENOMEM : ops->remove(ops->ctx, path);
    free(path);
    return err;
}
