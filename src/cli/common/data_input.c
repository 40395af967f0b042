/* Reads a file or the input whole, bounded. */
#include "cli/common/data_input.h"

#include "cli/common/connection.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int data_read(const char *command, const char *file, struct buf *out)
{
    bool from_stdin = strcmp(file, "-") == 0;
    FILE *in = from_stdin ? stdin : fopen(file, "rbe");
    char block[16384];
    size_t n;
    int code = 0;
    if (from_stdin && connection_is_shared()) {
        fprintf(stderr, "conclave %s: the input has the lines of the shell; name a file\n",
                command);
        return CLI_EXIT_USAGE;
    }
    if (in == NULL) {
        fprintf(stderr, "conclave %s: cannot open %s: %s\n", command, file, strerror(errno));
        return CLI_EXIT_IO;
    }
    while ((n = fread(block, 1, sizeof block, in)) > 0 && buf_ok(out)) {
        buf_append(out, block, n);
    }
    if (ferror(in)) {
        fprintf(stderr, "conclave %s: cannot read %s: %s\n", command,
                from_stdin ? "the input" : file, strerror(errno));
        code = CLI_EXIT_IO;
    } else if (!buf_ok(out)) {
        fprintf(stderr,
                "conclave %s: %s is larger than %zu bytes; a node is meant for little data\n",
                command, from_stdin ? "the input" : file, DATA_INPUT_MAX);
        code = CLI_EXIT_USAGE;
    }
    if (!from_stdin) {
        fclose(in);
    }
    return code;
}
