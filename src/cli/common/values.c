/*
 * Values on the command line. Nothing here depends on the locale, and nothing is taken in part: a
 * text is a whole value or none.
 */
#define _GNU_SOURCE /* sigabbrev_np */
#include "cli/common/values.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct unit {
    const char *name;
    int64_t ms;
};

/* Longest first, so that duration_text can take the first that divides. */
static const struct unit UNITS[] = {{"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
#define UNIT_COUNT (sizeof UNITS / sizeof UNITS[0])

bool integer_parse(const char *text, int64_t min, int64_t max, int64_t *ret)
{
    if (!isdigit((unsigned char)text[text[0] == '-' ? 1 : 0])) {
        return false;
    }
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < min || value > max) {
        return false;
    }
    *ret = value;
    return true;
}

bool duration_parse(const char *text, int64_t *ret_ms)
{
    size_t digits = strspn(text, "0123456789");
    char number[16];
    int64_t value;
    if (digits == 0 || digits >= sizeof number) {
        return false;
    }
    memcpy(number, text, digits);
    number[digits] = '\0';
    if (!integer_parse(number, 0, VALUES_DURATION_MAX_MS, &value)) {
        return false;
    }
    if (text[digits] == '\0' && value == 0) {
        *ret_ms = 0;
        return true;
    }
    for (size_t i = 0; i < UNIT_COUNT; i++) {
        if (strcmp(text + digits, UNITS[i].name) == 0) {
            if (value > VALUES_DURATION_MAX_MS / UNITS[i].ms) {
                return false;
            }
            *ret_ms = value * UNITS[i].ms;
            return true;
        }
    }
    return false;
}

const char *duration_text(int64_t ms, char buf[DURATION_TEXT_MAX])
{
    const struct unit *unit = &UNITS[UNIT_COUNT - 1];
    for (size_t i = 0; i < UNIT_COUNT && ms > 0; i++) {
        if (ms % UNITS[i].ms == 0) {
            unit = &UNITS[i];
            break;
        }
    }
    snprintf(buf, DURATION_TEXT_MAX, "%" PRId64 "%s", ms / unit->ms, unit->name);
    return buf;
}

bool signal_parse(const char *text, int *ret_signal)
{
    int64_t number;
    if (integer_parse(text, 1, SIGRTMAX, &number)) {
        *ret_signal = (int)number;
        return true;
    }
    const char *name = strncmp(text, "SIG", 3) == 0 ? text + 3 : text;
    for (int i = 1; i < NSIG; i++) {
        const char *known = sigabbrev_np(i);
        if (known != NULL && strcmp(known, name) == 0) {
            *ret_signal = i;
            return true;
        }
    }
    return false;
}

const char *signal_text(int number, char buf[24])
{
    const char *name = sigabbrev_np(number);
    if (name != NULL) {
        snprintf(buf, 24, "SIG%s", name);
    } else {
        snprintf(buf, 24, "signal %d", number);
    }
    return buf;
}

#define WORD_MAX 32

/* Edits between two words, neighbours swapped counting as one (optimal string alignment). */
static size_t edit_distance(const char *a, const char *b)
{
    size_t table[WORD_MAX + 1][WORD_MAX + 1];
    size_t rows = strlen(a);
    size_t columns = strlen(b);
    if (rows > WORD_MAX || columns > WORD_MAX) {
        return SIZE_MAX;
    }
    for (size_t i = 0; i <= rows; i++) {
        for (size_t j = 0; j <= columns; j++) {
            if (i == 0 || j == 0) {
                table[i][j] = i + j;
                continue;
            }
            size_t best = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            size_t other = table[i - 1][j] < table[i][j - 1] ? table[i - 1][j] : table[i][j - 1];
            if (other + 1 < best) {
                best = other + 1;
            }
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                table[i - 2][j - 2] + 1 < best) {
                best = table[i - 2][j - 2] + 1;
            }
            table[i][j] = best;
        }
    }
    return table[rows][columns];
}

const char *nearest_name(const char *word, const char *(*next)(size_t index, const void *ctx),
                         const void *ctx)
{
    const char *best = NULL;
    size_t best_distance = SIZE_MAX;
    const char *name;
    for (size_t i = 0; (name = next(i, ctx)) != NULL; i++) {
        size_t distance = edit_distance(word, name);
        size_t length = strlen(name) > strlen(word) ? strlen(name) : strlen(word);
        if (distance < best_distance && distance <= (length + 2) / 3) {
            best = name;
            best_distance = distance;
        }
    }
    return best;
}

const char *host_pid_text(char buf[HOST_PID_MAX])
{
    char host[HOST_PID_MAX - 16] = "localhost";
    (void)gethostname(host, sizeof host - 1); /* a name that was cut still has its end */
    snprintf(buf, HOST_PID_MAX, "%s:%ld", host, (long)getpid());
    return buf;
}
