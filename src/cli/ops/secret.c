/* conclave secret: a random secret for clusterSecretFile, printed or written to a new file. */
#include "base/random.h"
#include "cli/common/command.h"
#include "cli/common/options.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SECRET_BYTES = 32 };

static const struct command_usage USAGE = {
    .name = "secret",
    .forms = (const char *const[]){"[FILE]", NULL},
    .about =
        "Makes a random secret of 256 bits for the servers of an ensemble (clusterSecretFile), "
        "and prints it, or writes it to FILE, which must not exist; only its owner may read "
        "it then. Give all servers the same file.",
    .operands = {0, 1},
};

static int write_secret(const char *path, const char *text, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        fprintf(stderr, "conclave secret: %s: cannot be made: %s\n", path, strerror(errno));
        return CLI_EXIT_IO;
    }
    bool ok = write(fd, text, len) == (ssize_t)len && fsync(fd) == 0;
    ok = close(fd) == 0 && ok;
    if (!ok) {
        fprintf(stderr, "conclave secret: %s: cannot be written: %s\n", path, strerror(errno));
        (void)unlink(path);
    }
    return ok ? 0 : CLI_EXIT_IO;
}

int command_secret(int argc, char **argv)
{
    struct operands operands;
    char text[2 * SECRET_BYTES + 2];
    int rc = options_parse(&USAGE, argc, argv, NULL, &operands);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    random_text(text, SECRET_BYTES);
    text[2 * SECRET_BYTES] = '\n';
    if (operands.count == 1) {
        return write_secret(operands.words[0], text, 2 * SECRET_BYTES + 1);
    }
    return fwrite(text, 1, 2 * SECRET_BYTES + 1, stdout) == 2 * SECRET_BYTES + 1 &&
                   fflush(stdout) == 0
               ? 0
               : CLI_EXIT_IO;
}
