/* Reads a file or the input whole, bounded. */
#define _GNU_SOURCE /* mkostemp */
#include "cli/common/data_input.h"

#include "cli/common/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int stream_read(FILE *in, struct buf *out)
{
    char block[16384];
    size_t n;
    while ((n = fread(block, 1, sizeof block, in)) > 0 && buf_ok(out)) {
        buf_append(out, block, n);
    }
    return ferror(in) ? errno : buf_ok(out) ? 0 : EFBIG;
}

static int write_all(int fd, struct slice data)
{
    while (data.len > 0) {
        ssize_t n = write(fd, data.data, data.len);
        if (n < 0 && errno != EINTR) {
            return errno;
        }
        size_t done = n > 0 ? (size_t)n : 0;
        data = slice_make(data.data + done, data.len - done);
    }
    return 0;
}

int file_make(char *name, struct slice data, mode_t mode)
{
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int error = write_all(fd, data);
    if (error == 0 && (fchmod(fd, mode) != 0 || fsync(fd) != 0)) {
        error = errno;
    }
    if (close(fd) != 0 && error == 0) {
        error = errno;
    }
    if (error != 0) {
        (void)unlink(name);
    }
    return error;
}

int data_read(const char *command, const char *file, struct buf *out)
{
    bool from_stdin = strcmp(file, "-") == 0;
    const char *name = from_stdin ? "the input" : file;
    if (from_stdin && connection_is_shared()) {
        fprintf(stderr, "conclave %s: the input has the lines of the shell; name a file\n",
                command);
        return CLI_EXIT_USAGE;
    }
    FILE *in = from_stdin ? stdin : fopen(file, "rbe");
    int error = in == NULL ? errno : stream_read(in, out);
    if (in != NULL && !from_stdin) {
        fclose(in);
    }
    if (error == EFBIG) {
        fprintf(stderr, "conclave %s: %s is larger than %zu bytes; nodes are for small data\n",
                command, name, DATA_INPUT_MAX);
        return CLI_EXIT_USAGE;
    }
    if (error != 0) {
        fprintf(stderr, "conclave %s: cannot %s %s: %s\n", command, in == NULL ? "open" : "read",
                name, strerror(error));
    }
    return error == 0 ? 0 : CLI_EXIT_IO;
}
