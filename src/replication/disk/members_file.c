#include "replication/disk/members_file.h"

#include "base/endian.h"
#include "base/map.h"
#include "replication/disk/metadata.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC "CONCLMEM"

enum { VERSION = 1, HEAD_SIZE = 40, SUM_SIZE = 8, BYTES_MAX = 1 << 20 };

void members_file_init(struct members_file *f)
{
    memset(f, 0, sizeof *f);
    buf_init(&f->bytes, 0);
}

void members_file_finish(struct members_file *f)
{
    buf_finish(&f->bytes);
}

/* Takes over a copy of a configuration; the buffer always owns the bytes. */
static int members_file_take(struct members_file *f, const uint8_t *cluster, uint64_t index,
                             struct buf *bytes)
{
    struct configuration_member members[MEMBERS_MAX];
    size_t n;
    int rv = configuration_decode(buf_slice(bytes), members, &n);
    if (rv != 0) {
        buf_finish(bytes);
        return rv;
    }
    memcpy(f->cluster, cluster, sizeof f->cluster);
    memcpy(f->members, members, n * sizeof *members);
    f->index = index;
    f->n = n;
    buf_finish(&f->bytes);
    f->bytes = *bytes;
    return 0;
}

int members_file_set(struct members_file *f, const uint8_t cluster[FORMAT_CLUSTER_SIZE],
                     uint64_t index, const struct configuration_member *members, size_t n)
{
    struct buf bytes;
    buf_init(&bytes, 0);
    int rv = configuration_encode(members, n, &bytes);
    if (rv != 0) {
        buf_finish(&bytes);
        return rv;
    }
    return members_file_take(f, cluster, index, &bytes);
}

int members_file_write(const struct members_file *f, const struct file_ops *ops, const char *dir,
                       struct error_text *problem)
{
    uint8_t head[HEAD_SIZE] = MAGIC;
    uint8_t sum[SUM_SIZE];
    struct buf b;
    buf_init(&b, 0);
    put_le32(head + 8, VERSION);
    put_le32(head + 12, (uint32_t)f->bytes.len);
    memcpy(head + 16, f->cluster, sizeof f->cluster);
    put_le64(head + 32, f->index);
    buf_append(&b, head, sizeof head);
    buf_append_slice(&b, buf_slice(&f->bytes));
    put_le64(sum, buf_ok(&b) ? hash_bytes(b.data, b.len) : 0);
    buf_append(&b, sum, sizeof sum);
    int rv = buf_ok(&b) ? metadata_replace_file(ops != NULL ? ops : file_ops_system(), dir,
                                                MEMBERS_FILE, b.data, b.len, problem)
                        : CONCLAVE_ENOMEM;
    buf_finish(&b);
    return rv;
}

static int parse(struct members_file *f, const uint8_t *data, size_t len)
{
    struct buf bytes;
    if (len < HEAD_SIZE + SUM_SIZE || memcmp(data, MAGIC, 8) != 0 ||
        get_le32(data + 8) != VERSION || get_le32(data + 12) != len - HEAD_SIZE - SUM_SIZE ||
        get_le64(data + 32) == 0 ||
        get_le64(data + len - SUM_SIZE) != hash_bytes(data, len - SUM_SIZE)) {
        return CONCLAVE_ECORRUPT;
    }
    buf_init(&bytes, 0);
    buf_append(&bytes, data + HEAD_SIZE, len - HEAD_SIZE - SUM_SIZE);
    if (!buf_ok(&bytes)) {
        buf_finish(&bytes);
        return CONCLAVE_ENOMEM;
    }
    return members_file_take(f, data + 16, get_le64(data + 32), &bytes);
}

static int read_open(struct members_file *f, const struct file_ops *ops, int fd)
{
    int64_t size = ops->size(ops->ctx, fd);
    if (size < 0 || size > BYTES_MAX) {
        return size < 0 ? CONCLAVE_EIO : CONCLAVE_ECORRUPT;
    }
    uint8_t *data = malloc((size_t)size + 1);
    if (data == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int64_t got = ops->read(ops->ctx, fd, data, (size_t)size, 0);
    int rv = got == size ? parse(f, data, (size_t)size) : CONCLAVE_EIO;
    free(data);
    return rv;
}

int members_file_read(struct members_file *f, const struct file_ops *ops, const char *dir)
{
    char *path = path_make("%s/" MEMBERS_FILE, dir);
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    ops = ops != NULL ? ops : file_ops_system();
    int fd = ops->open(ops->ctx, path, FILE_READ);
    int rv = fd == -ENOENT ? CONCLAVE_NO_NODE : fd < 0 ? file_error(fd) : read_open(f, ops, fd);
    if (fd >= 0) {
        ops->close(ops->ctx, fd);
    }
    free(path);
    return rv;
}
