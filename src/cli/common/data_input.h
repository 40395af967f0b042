/* The data that set and create are given: an argument, a file, or the input. */
#ifndef CLI_COMMON_DATA_INPUT_H
#define CLI_COMMON_DATA_INPUT_H

#include "base/buf.h"

/* More than any server takes by default (1 MB); a limit so that an endless input ends. */
#define DATA_INPUT_MAX ((size_t)64 << 20)

/* Reads all of a file into out, "-" being stdin. 0, or the exit code after the error was told. */
int data_read(const char *command, const char *file, struct buf *out);

#endif
