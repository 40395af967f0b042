#define _GNU_SOURCE /* SEEK_DATA */
#include "apache/input.h"

#include "apache/snappy_blocks.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { CHUNK = 1 << 18 };

struct apache_input {
    const char *name;
    int fd;
    gzFile gz;                    /* NULL: not gzip */
    struct snappy_blocks *blocks; /* NULL: not snappy */
    struct buf window;            /* what was read and not dropped yet */
    size_t taken;                 /* bytes of the window that belong to records so far */
    uint64_t dropped;             /* bytes before the window */
    uint32_t adler;
    bool ended;
};

static bool input_named(const char *text, const char *end)
{
    size_t len = strlen(text);
    size_t n = strlen(end);
    return len >= n && strcmp(text + len - n, end) == 0;
}

/* The descriptor belongs to gz from here on. */
static int open_layers(struct apache_input *in)
{
    if (input_named(in->name, ".gz")) {
        in->gz = gzdopen(in->fd, "rb");
        return in->gz != NULL ? 0 : CONCLAVE_ENOMEM;
    }
    if (input_named(in->name, ".snappy")) {
        in->blocks = snappy_blocks_create(in->fd);
        return in->blocks != NULL ? 0 : CONCLAVE_ENOMEM;
    }
    return 0;
}

int apache_input_open(const char *name, struct apache_input **ret, char **ret_error)
{
    /* Without O_NONBLOCK a pipe would keep the server here for ever. */
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return text_fail(ret_error, CONCLAVE_EIO, "%s cannot be opened: %s", name, strerror(errno));
    }
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return text_fail(ret_error, CONCLAVE_EIO, "%s is no file", name);
    }
    struct apache_input *in = calloc(1, sizeof *in);
    if (in == NULL) {
        (void)close(fd);
        return CONCLAVE_ENOMEM;
    }
    *in = (struct apache_input){.name = name, .fd = fd, .adler = 1};
    buf_init(&in->window, 2UL * APACHE_RECORD_MAX);
    int rc = open_layers(in);
    if (rc != 0) {
        apache_input_close(in);
        return rc;
    }
    *ret = in;
    return 0;
}

void apache_input_close(struct apache_input *in)
{
    if (in == NULL) {
        return;
    }
    if (in->gz != NULL) {
        (void)gzclose(in->gz);
    } else {
        (void)close(in->fd);
    }
    snappy_blocks_destroy(in->blocks);
    buf_finish(&in->window);
    free(in);
}

/* Bytes read into the window's end, 0: the end; -1 with *ret_error. */
static long read_some(struct apache_input *in, char **ret_error)
{
    if (in->blocks != NULL) {
        return snappy_blocks_next(in->blocks, in->name, &in->window, ret_error);
    }
    uint8_t *to = in->window.data + in->window.len;
    if (in->gz != NULL) {
        int n = gzread(in->gz, to, CHUNK);
        int code = 0;
        const char *why = n <= 0 ? gzerror(in->gz, &code) : "";
        if (n < 0 || (code != Z_OK && code != Z_STREAM_END)) {
            (void)text_fail(ret_error, 0, "%s is damaged after byte %llu of its content: gzip: %s",
                            in->name, (unsigned long long)in->dropped + in->window.len,
                            code == Z_BUF_ERROR ? "it is cut off" : why);
            return -1;
        }
        return n;
    }
    ssize_t n;
    do {
        n = read(in->fd, to, CHUNK);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        (void)text_fail(ret_error, 0, "%s cannot be read: %s", in->name, strerror(errno));
    }
    return n;
}

/* Makes the window longer. 1, 0: nothing is left, or an error. */
static int more(struct apache_input *in, char **ret_error)
{
    assert(in->taken <= in->window.len);
    if (in->ended) {
        return 0;
    }
    /* A record that goes on doubles the window, so that trying it again costs no more than reading it; but no further than to
     * where it is too long. */
    size_t wanted = in->window.len - in->taken;
    size_t allowed = (size_t)APACHE_RECORD_MAX + 1 - wanted;
    wanted = wanted < allowed ? wanted : allowed;
    if (in->taken > in->window.len / 2 || in->window.len + wanted > APACHE_RECORD_MAX) {
        buf_consume(&in->window, in->taken);
        in->dropped += in->taken;
        in->taken = 0;
    }
    size_t start = in->window.len;
    do {
        if (buf_reserve(&in->window, CHUNK) != 0) {
            return CONCLAVE_ENOMEM;
        }
        long n = read_some(in, ret_error);
        if (n < 0) {
            return CONCLAVE_ECORRUPT;
        }
        in->ended = n == 0;
        if (in->blocks == NULL) {
            in->window.len += (size_t)n;
        }
    } while (!in->ended && in->window.len - start < wanted);
    return in->window.len > start ? 1 : 0;
}

int apache_input_read(struct apache_input *in, apache_decode decode, const char *what, void *ret,
                      char **ret_error)
{
    for (;;) {
        struct slice ahead = apache_input_ahead(in);
        struct wire_reader r = wire_reader_make(ahead);
        if (decode(&r, ret) == 0) {
            size_t len = (size_t)(r.pos - ahead.data);
            in->adler = (uint32_t)adler32_z(in->adler, ahead.data, len);
            in->taken += len;
            assert(in->taken <= in->window.len);
            return 0;
        }
        int rc = ahead.len > APACHE_RECORD_MAX ? 0 : more(in, ret_error);
        if (rc == 0) {
            return text_fail(ret_error, CONCLAVE_ECORRUPT,
                             "%s is damaged or cut off: at byte %llu there is no %s", in->name,
                             (unsigned long long)apache_input_offset(in), what);
        }
        if (rc < 0) {
            return rc;
        }
    }
}

int apache_input_left(struct apache_input *in, size_t max, size_t *ret, char **ret_error)
{
    int rc = 1;
    while (rc == 1 && in->window.len - in->taken < max) {
        rc = more(in, ret_error);
    }
    size_t left = in->window.len - in->taken;
    *ret = left < max ? left : max;
    return rc < 0 ? rc : 0;
}

struct slice apache_input_ahead(const struct apache_input *in)
{
    assert(in->taken <= in->window.len);
    return slice_make(buf_slice(&in->window).data + in->taken, in->window.len - in->taken);
}

bool apache_input_hole_follows(const struct apache_input *in)
{
    if (in->gz != NULL || in->blocks != NULL) {
        return false;
    }
    off_t at = lseek(in->fd, 0, SEEK_CUR);
    bool hole = at >= 0 && lseek(in->fd, at, SEEK_DATA) < 0 && errno == ENXIO;
    return hole && lseek(in->fd, at, SEEK_SET) == at;
}

void apache_input_skip(struct apache_input *in, size_t len)
{
    assert(len <= in->window.len - in->taken);
    in->taken += len;
}

uint32_t apache_input_checksum(const struct apache_input *in)
{
    return in->adler;
}

uint64_t apache_input_offset(const struct apache_input *in)
{
    return in->dropped + in->taken;
}

int apache_decode_i32(struct wire_reader *r, void *ret)
{
    *(int32_t *)ret = wire_read_i32(r);
    return r->failed ? CONCLAVE_ECORRUPT : 0;
}

int apache_decode_i64(struct wire_reader *r, void *ret)
{
    *(int64_t *)ret = wire_read_i64(r);
    return r->failed ? CONCLAVE_ECORRUPT : 0;
}

int apache_decode_string(struct wire_reader *r, void *ret)
{
    *(struct slice *)ret = wire_read_string(r);
    return r->failed ? CONCLAVE_ECORRUPT : 0;
}
