/* A single value is kept as it is, so that other programs can read the file. A tree is a line of its own,
 * a line "LENGTH LENGTH" before each path and data (-1: the null value), and a sum at the end. */
#define _GNU_SOURCE /* mkostemp */
#include "recipes/value/shared_config.h"

#include "base/map.h"
#include "recipes/engine/option_copies.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char HEAD[] = "conclave-tree 1\n";

enum { FILE_MAX = 256 << 20 };

/* --- writing ------------------------------------------------------------------------ */

static int error_of(int number)
{
    return number == ENOSPC || number == EDQUOT ? CONCLAVE_ENOSPACE : CONCLAVE_EIO;
}

static void tree_write(struct buf *b, const struct conclave_config_state *state)
{
    buf_append_str(b, HEAD);
    for (size_t i = 0; i < state->count; i++) {
        const struct conclave_config_node *n = state->nodes[i];
        buf_printf(b, "%zu %" PRId64 "\n", strlen(n->path),
                   n->data == NULL ? (int64_t)-1 : (int64_t)n->data_len);
        buf_append_str(b, n->path);
        buf_append(b, n->data, n->data_len);
        buf_append_str(b, "\n");
    }
    buf_printf(b, "end %016" PRIx64 "\n", hash_bytes(b->data, b->len));
}

/* The folder holds the name: without this a power loss may bring the old one back. */
static int folder_sync(const char *file)
{
    char *folder = strdup(file);
    if (folder == NULL) {
        return CONCLAVE_ENOMEM;
    }
    char *slash = strrchr(folder, '/');
    if (slash != NULL) {
        slash[slash == folder ? 1 : 0] = '\0';
    }
    int fd = open(slash == NULL ? "." : folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = fd >= 0 && fsync(fd) == 0 ? 0 : CONCLAVE_EIO;
    if (fd >= 0) {
        (void)close(fd);
    }
    free(folder);
    return error;
}

static int replace(const char *file, const uint8_t *data, size_t len)
{
    size_t size = strlen(file) + 32;
    char *temporary = malloc(size);
    if (temporary == NULL) {
        return CONCLAVE_ENOMEM;
    }
    (void)snprintf(temporary, size, "%s.XXXXXX", file);
    struct stat old;
    mode_t mode = stat(file, &old) == 0 ? old.st_mode & 0777 : 0600; /* it may hold secrets */
    int fd = mkostemp(temporary, O_CLOEXEC);
    bool written = fd >= 0 && fchmod(fd, mode) == 0 && fd_write_all(fd, slice_make(data, len)) &&
                   fsync(fd) == 0;
    int error = written ? 0 : error_of(errno);
    if (fd >= 0 && close(fd) != 0 && error == 0) {
        error = error_of(errno);
    }
    if (error == 0 && rename(temporary, file) != 0) {
        error = error_of(errno);
    }
    if (error != 0 && fd >= 0) {
        (void)unlink(temporary);
    }
    free(temporary);
    return error == 0 ? folder_sync(file) : error;
}

int config_file_write(const char *file, bool tree, const struct conclave_config_state *state)
{
    struct buf b;
    assert(tree || state->count == 1);
    if (!tree) {
        return replace(file, state->nodes[0]->data, state->nodes[0]->data_len);
    }
    buf_init(&b, 0);
    tree_write(&b, state);
    int error = b.failed ? CONCLAVE_ENOMEM : replace(file, b.data, b.len);
    buf_finish(&b);
    return error;
}

/* --- reading ------------------------------------------------------------------------ */

static int config_file_read_all(const char *file, struct buf *b)
{
    uint8_t part[16384];
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? CONCLAVE_NO_NODE : CONCLAVE_EIO;
    }
    ssize_t n;
    while ((n = read(fd, part, sizeof part)) != 0 && b->len <= FILE_MAX) {
        if (n > 0) {
            buf_append(b, part, (size_t)n);
        } else if (errno != EINTR) {
            break;
        }
    }
    (void)close(fd);
    if (n < 0) {
        return CONCLAVE_EIO;
    }
    return b->failed ? CONCLAVE_ENOMEM : b->len > FILE_MAX ? CONCLAVE_ECORRUPT : 0;
}

/* The sum's line is the last, of a length that is known. */
static bool sum_is_right(const struct buf *b, size_t *ret_len)
{
    char line[32];
    enum { LINE = 4 + 16 + 1 };
    if (b->len < LINE) {
        return false;
    }
    *ret_len = b->len - LINE;
    (void)snprintf(line, sizeof line, "end %016" PRIx64 "\n", hash_bytes(b->data, *ret_len));
    return memcmp(b->data + *ret_len, line, LINE) == 0;
}

/* One number of a line, up to `end`. */
static bool number(char **at, char end, int64_t max, int64_t *ret)
{
    char *stop;
    errno = 0;
    long long value = strtoll(*at, &stop, 10);
    if (errno != 0 || stop == *at || *stop != end || value < -1 || value > max) {
        return false;
    }
    *at = stop + 1;
    *ret = value;
    return true;
}

/* A tree's nodes; paths are made to end with a NUL in place of what stands behind them. The sum was right,
 * so only a foreign writer makes this fail. */
static int tree_read(struct config_file *f, size_t len)
{
    char *at = (char *)f->bytes.data;
    char *end = at + len;
    size_t room = 0;
    if (len < sizeof HEAD - 1 || memcmp(at, HEAD, sizeof HEAD - 1) != 0) {
        return CONCLAVE_ECORRUPT;
    }
    for (at += sizeof HEAD - 1; at < end;) {
        int64_t path_len;
        int64_t data_len;
        if (!number(&at, ' ', end - at, &path_len) || !number(&at, '\n', end - at, &data_len) ||
            path_len < 0 || path_len + (data_len > 0 ? data_len : 0) + 1 > end - at) {
            return CONCLAVE_ECORRUPT;
        }
        if (f->count == room) {
            room = room == 0 ? 16 : 2 * room;
            struct conclave_config_node *nodes = realloc(f->nodes, room * sizeof *nodes);
            if (nodes == NULL) {
                return CONCLAVE_ENOMEM;
            }
            f->nodes = nodes;
        }
        assert(at > (char *)f->bytes.data && f->count < room);
        memmove(at - 1, at, (size_t)path_len); /* over the line's end, for the NUL */
        at[path_len - 1] = '\0';
        f->nodes[f->count++] = (struct conclave_config_node){
            .path = at - 1,
            .data = data_len < 0 ? NULL : at + path_len,
            .data_len = data_len < 0 ? 0 : (size_t)data_len,
            .version = -2,
        };
        at += path_len + (data_len > 0 ? data_len : 0) + 1;
    }
    return 0;
}

static int value_read(struct config_file *f)
{
    f->nodes = calloc(1, sizeof *f->nodes);
    if (f->nodes == NULL) {
        return CONCLAVE_ENOMEM;
    }
    f->count = 1;
    f->nodes[0] =
        (struct conclave_config_node){.path = "",
                                      .data = f->bytes.len == 0 ? (void *)"" : f->bytes.data,
                                      .data_len = f->bytes.len,
                                      .version = -2};
    return 0;
}

int config_file_read(const char *file, bool tree, struct config_file *ret)
{
    size_t len = 0;
    memset(ret, 0, sizeof *ret);
    buf_init(&ret->bytes, 0);
    int error = config_file_read_all(file, &ret->bytes);
    if (error == 0 && tree) {
        error = sum_is_right(&ret->bytes, &len) ? tree_read(ret, len) : CONCLAVE_ECORRUPT;
    } else if (error == 0) {
        error = value_read(ret);
    }
    if (error == 0) {
        ret->list = struct_list_copy(ret->nodes, ret->count, sizeof **ret->list);
        error = ret->list == NULL ? CONCLAVE_ENOMEM : 0;
    }
    if (error != 0) {
        config_file_clear(ret);
    }
    return error;
}

void config_file_clear(struct config_file *f)
{
    free(f->nodes);
    free(f->list);
    f->nodes = NULL;
    f->list = NULL;
    buf_finish(&f->bytes);
}
