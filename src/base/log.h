/*
 * Log lines of the server and the commands: `2026-01-31T12:00:00.123Z level room event key=value …` on stderr. Library
 * rooms do not log. Ids are written as 0x%llx. Callers must not pass secrets.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_WARN,
    LOG_ERROR,
};

/* Lines below this level are dropped. Default LOG_INFO. */
void log_set_level(enum log_level level);

/* Writes one line to stderr. `event` is a short fixed text, fmt gives key=value pairs. */
void log_line(enum log_level level, const char *room, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

#define log_debug(room, event, ...) log_line(LOG_DEBUG, room, event, __VA_ARGS__)
#define log_info(room, event, ...) log_line(LOG_INFO, room, event, __VA_ARGS__)
#define log_warn(room, event, ...) log_line(LOG_WARN, room, event, __VA_ARGS__)
#define log_error(room, event, ...) log_line(LOG_ERROR, room, event, __VA_ARGS__)

#endif
