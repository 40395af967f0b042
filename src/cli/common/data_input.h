/* Data that commands read from a file or the input, and files that they write. */
#ifndef CLI_COMMON_DATA_INPUT_H
#define CLI_COMMON_DATA_INPUT_H

#include "base/buf.h"

#include <stdio.h>
#include <sys/types.h>

/* More than any server takes by default (1 MB); a limit so that an endless input ends. */
#define DATA_INPUT_MAX ((size_t)64 << 20)

/* Reads all of a file into out, "-" being stdin. 0, or the exit code after the error was printed. */
int data_read(const char *command, const char *file, struct buf *out);

/* Appends what is left of a stream to out. 0 or an errno; EFBIG: it does not fit. */
int stream_read(FILE *in, struct buf *out);

/* Writes a new file, all of it on the disk; name: as of mkostemp, which completes it. 0, or an errno and no file. */
int file_make(char *name, struct slice data, mode_t mode);

#endif
