/* Values on the command line: durations, numbers, signals; and the nearest name to a mistyped one. */
#ifndef CLI_COMMON_VALUES_H
#define CLI_COMMON_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "500ms", "10s", "2m", "1h", "0" → milliseconds, at most VALUES_DURATION_MAX_MS. A number other
 * than 0 needs its unit. */
#define VALUES_DURATION_MAX_MS ((int64_t)INT32_MAX)
bool duration_parse(const char *text, int64_t *ret_ms);

/* Milliseconds as short as they can be written for duration_parse: "10s", "1500ms". buf takes 24 bytes. */
#define DURATION_TEXT_MAX 24
const char *duration_text(int64_t ms, char buf[DURATION_TEXT_MAX]);

/* A whole decimal number within the bounds, nothing behind it. */
bool integer_parse(const char *text, int64_t min, int64_t max, int64_t *ret);

/* "TERM", "SIGTERM", "15" → 15. */
bool signal_parse(const char *text, int *ret_signal);

/* "SIGTERM" for 15, "signal 40" where there is no name. buf takes 24 bytes. */
const char *signal_text(int number, char buf[24]);

/* The name nearest to word by edits (swap, insert, delete, replace), NULL when none is near.
 * `next` gives the names one after the other and NULL at the end; it is called with 0, 1, ... */
const char *nearest_name(const char *word, const char *(*next)(size_t index, const void *ctx),
                         const void *ctx);

/* "HOST:PID" of this process, written to buf, which is returned: the default name. */
enum { HOST_PID_MAX = 160 };
const char *host_pid_text(char buf[HOST_PID_MAX]);

#endif
