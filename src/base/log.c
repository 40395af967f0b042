#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic enum log_level log_min = LOG_INFO;

static const char *const log_names[] = {"debug", "info", "warn", "error"};

void log_set_level(enum log_level level)
{
    log_min = level;
}

void log_line(enum log_level level, const char *room, const char *event, const char *fmt, ...)
{
    if (level < log_min) {
        return;
    }
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    struct tm tm;
    (void)gmtime_r(&ts.tv_sec, &tm);
    char line[2048];
    size_t n = strftime(line, sizeof line, "%Y-%m-%dT%H:%M:%S", &tm);
    int more = snprintf(line + n, sizeof line - n, ".%03ldZ %-5s %s: %s ", ts.tv_nsec / 1000000,
                        log_names[level], room, event);
    if (more > 0) {
        n += (size_t)more;
    }
    if (n < sizeof line - 1) {
        va_list ap;
        va_start(ap, fmt);
        more = vsnprintf(line + n, sizeof line - n, fmt, ap);
        va_end(ap);
        n += more > 0 ? (size_t)more : 0;
    }
    if (n > sizeof line - 2) {
        n = sizeof line - 2;
    }
    while (n > 0 && line[n - 1] == ' ') {
        n--;
    }
    for (size_t i = 0; i < n; i++) { /* values may come from clients, which must not forge a line */
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = '?';
        }
    }
    line[n++] = '\n';
    (void)!write(STDERR_FILENO, line, n);
}
