#define _GNU_SOURCE /* timegm, strptime */
#include "cli/backup/moment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool parse_time(const char *text, int64_t *ret_ms)
{
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%d", &tm);
    if (end != NULL && (*end == ' ' || *end == 'T')) {
        const char *time = strptime(end + 1, "%H:%M:%S", &tm);
        end = time != NULL ? time : strptime(end + 1, "%H:%M", &tm);
    }
    int64_t ms = 0;
    if (end != NULL && *end == '.') {
        int64_t unit = 100;
        for (end++; *end >= '0' && *end <= '9'; end++) {
            ms += unit * (*end - '0');
            unit /= 10;
        }
    }
    end = end != NULL && *end == 'Z' ? end + 1 : end;
    if (end == NULL || *end != '\0') {
        return false;
    }
    *ret_ms = (int64_t)timegm(&tm) * 1000 + ms;
    return *ret_ms > 0;
}

bool moment_parse(const char *text, struct backup_moment *ret)
{
    char *end = NULL;
    *ret = (struct backup_moment){0};
    if (strchr(text + (text[0] != '\0'), '-') != NULL) {
        return parse_time(text, &ret->time_ms);
    }
    errno = 0;
    unsigned long long zxid = strtoull(text, &end, 0);
    ret->zxid = (int64_t)zxid;
    return errno == 0 && end != text && *end == '\0' && zxid > 0 && zxid <= INT64_MAX &&
           text[0] != '-' && text[0] != '+';
}

const char *moment_text(int64_t time_ms, char buf[MOMENT_TEXT_MAX])
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm tm;
    char when[32];
    if (time_ms <= 0 || gmtime_r(&seconds, &tm) == NULL ||
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm) == 0) {
        return "-";
    }
    snprintf(buf, MOMENT_TEXT_MAX, "%s.%03d UTC", when, (int)(time_ms % 1000));
    return buf;
}
