/*
 * Log lines of the server and the commands, on stderr, in one of three formats:
 *
 *   text      2026-01-31T12:00:00.123Z warn  server: auth-failed peer=10.0.0.7:4711 … advice="…"
 *   json      {"time": …, "level": "warn", "area": "server", "message": "auth-failed", "advice": …, "fields": {…}}
 *   journald  <4>server: auth-failed peer=10.0.0.7:4711 … advice="…"   (the journal adds the time)
 *
 * `area` and `event` are short fixed texts. fmt gives fields: key=value, key="%s" or key=%s with spaces between. A %s
 * can come from a stranger: it cannot end its field or its line, because quotes, backslashes, control characters and
 * bad UTF-8 are escaped as in C, and a bare %s with a blank is quoted. Only a %s that is a whole field stays as it is,
 * but for control characters. A line has at most LOG_LINE_MAX bytes; longer fields are cut.
 *
 * Repeated causes cost one line a minute: log_cause. Library rooms do not log. Ids are written as 0x%llx. Callers must
 * not pass secrets. All functions may be called in any thread.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

struct clock_source;

enum {
    LOG_LINE_MAX = 2048,
    LOG_WHO_MAX = 256, /* further bytes of `who` are no part of a cause */
};

enum log_level {
    LOG_DEBUG,
    LOG_INFO,
    LOG_NOTICE, /* start, stop, role: see log_always */
    LOG_WARN,
    LOG_ERROR,
    LOG_SILENT, /* only for log_set_level: no lines at all */
};

enum log_format {
    LOG_TEXT,
    LOG_JSON,
    LOG_JOURNALD, /* lines with the priority prefixes of sd-daemon(3) */
};

/* Lines below this level are dropped. Default LOG_INFO. */
void log_set_level(enum log_level level);

/* Default LOG_TEXT. */
void log_set_format(enum log_format format);

/* The level or format of this name: error, warn, notice, info, debug; text, json, journald. */
bool log_level_find(const char *name, enum log_level *ret);
bool log_format_find(const char *name, enum log_format *ret);

/* For tests; NULL: the system's. */
void log_set_clock(const struct clock_source *clock);

/* Writes one line. advice: what the operator should do; NULL: nothing. */
void log_advise(enum log_level level, const char *area, const char *event, const char *advice,
                const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#define log_debug(area, event, ...) log_advise(LOG_DEBUG, area, event, NULL, __VA_ARGS__)
#define log_info(area, event, ...) log_advise(LOG_INFO, area, event, NULL, __VA_ARGS__)

/* Warnings and errors have an advice. */
#define log_warn_advice(area, event, advice, ...)                                                  \
    log_advise(LOG_WARN, area, event, advice, __VA_ARGS__)
#define log_error_advice(area, event, advice, ...)                                                 \
    log_advise(LOG_ERROR, area, event, advice, __VA_ARGS__)

/* A notice that no level but LOG_SILENT drops: start, stop and role changes. */
void log_always(const char *area, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * A line about something that may recur, such as a client that tries again and again. A cause is an event, `who` (an
 * address, a member, a path) and `why` (NULL: no matter). The first case of a cause is written, those of the next
 * minute are counted, and then one line has the count of all causes of `who`. Strangers may cause LOG_CAUSES_PER_MINUTE such lines a minute, then
 * only one line counts the rest of that minute. base/refusals.h has the limits of memory.
 */
enum { LOG_CAUSES_PER_MINUTE = 600 };
void log_cause(enum log_level level, const char *area, const char *event, const char *who,
               const char *why, const char *advice, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));

/* Writes the counts of the minutes that are over. Call it a few times a minute at least; log_cause does it, too. */
void log_tick(void);

/* Writes all counts and forgets the causes: before the process ends. */
void log_finish(void);

#endif
