#include "base/log.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/refusals.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    FIELDS_MAX = 1400,
    ADVICE_MAX = 400,
    EVENT_MAX = 64,           /* and for the area */
    JSON_INTEGER_DIGITS = 15, /* what every reader of JSON keeps exactly */
};

static _Atomic enum log_level log_min = LOG_INFO;
static _Atomic enum log_format log_shape = LOG_TEXT;
static const struct clock_source *_Atomic log_clock;

static const char *const log_names[] = {"debug", "info", "notice", "warn", "error"};
static const char *const log_format_names[] = {"text", "json", "journald"};
static const int log_priorities[] = {7, 6, 5, 4, 3}; /* of syslog(3), by level */

void log_set_level(enum log_level level)
{
    log_min = level;
}

void log_set_format(enum log_format format)
{
    log_shape = format;
}

bool log_level_find(const char *name, enum log_level *ret)
{
    for (size_t i = 0; i < sizeof log_names / sizeof *log_names; i++) {
        if (strcmp(name, log_names[i]) == 0) {
            *ret = (enum log_level)i;
            return true;
        }
    }
    return false;
}

bool log_format_find(const char *name, enum log_format *ret)
{
    for (size_t i = 0; i < sizeof log_format_names / sizeof *log_format_names; i++) {
        if (strcmp(name, log_format_names[i]) == 0) {
            *ret = (enum log_format)i;
            return true;
        }
    }
    return false;
}

void log_set_clock(const struct clock_source *clock)
{
    log_clock = clock;
}

static const struct clock_source *log_time(void)
{
    const struct clock_source *clock = log_clock;
    return clock != NULL ? clock : clock_system();
}

/*
 * Fields: printf for `key=value key="value"`, where no value can break out of its field, and the way back, field by field,
 * for JSON.
 */

struct log_fields {
    char *text; /* NUL-terminated */
    size_t cap; /* at least 2 */
    size_t len;
};

/* Appends whole pieces only: an escape or a character is never cut. */
static void fields_append(struct log_fields *f, const char *piece, size_t len)
{
    assert(f->len < f->cap);
    if (len < f->cap - f->len) {
        memcpy(f->text + f->len, piece, len);
        f->len += len;
    } else {
        f->cap = f->len + 1; /* nothing else fits, lest the text has a gap */
    }
    f->text[f->len] = '\0';
}

/* Whether a byte cannot stay as it is; `bytes`: the text is not UTF-8. U+0080 to U+009F are control characters, too. */
static bool must_escape(const char *at, size_t left, bool quotes, bool bytes)
{
    unsigned char c = (unsigned char)at[0];
    unsigned char next = left > 1 ? (unsigned char)at[1] : 0;
    return c < 0x20 || c == 0x7f || (bytes && c >= 0x80) ||
           (c == 0xc2 && next >= 0x80 && next < 0xa0) || (quotes && (c == '"' || c == '\\'));
}

static size_t character_length(unsigned char first)
{
    return first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Appends a value as %s inside of quotes, or bare. */
static void log_fields_escape(struct log_fields *f, const char *text, size_t len, bool quotes)
{
    bool bytes = !utf8_valid(slice_make(text, len));
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)text[i];
        if (!must_escape(text + i, len - i, quotes, bytes)) {
            size_t n = bytes ? 1 : character_length(c);
            fields_append(f, text + i, n);
            i += n;
            continue;
        }
        char escape[5];
        const char *named = c == '\n' ? "\\n" : c == '\r' ? "\\r" : c == '\t' ? "\\t" : NULL;
        int n = named != NULL           ? snprintf(escape, sizeof escape, "%s", named)
                : c == '"' || c == '\\' ? snprintf(escape, sizeof escape, "\\%c", c)
                                        : snprintf(escape, sizeof escape, "\\x%02x", (unsigned)c);
        fields_append(f, escape, (size_t)n);
        i++;
        if (c == 0xc2 && !bytes) { /* the second byte of the control character is one, too */
            n = snprintf(escape, sizeof escape, "\\x%02x", (unsigned)(unsigned char)text[i]);
            fields_append(f, escape, (size_t)n);
            i++;
        }
    }
}

static bool is_bare(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] <= ' ' || strchr("\"\\\x7f", text[i]) != NULL) {
            return false;
        }
    }
    return utf8_valid(slice_make(text, len));
}

/* A %s: where it stands says what it may contain. */
static void print_value_text(struct log_fields *f, bool in_quotes, const char *text, size_t len)
{
    bool value = f->len > 0 && f->text[f->len - 1] == '=';
    if (in_quotes || !value) {
        log_fields_escape(f, text, len, in_quotes);
    } else if (is_bare(text, len)) {
        log_fields_escape(f, text, len, false);
    } else {
        fields_append(f, "\"", 1);
        log_fields_escape(f, text, len, true);
        fields_append(f, "\"", 1);
    }
}

/* One conversion, cut out of fmt. */
struct conversion {
    char spec[24]; /* "%-5.3" without length and letter */
    int stars[2];
    int star_count;
    int precision; /* -1: none */
    char length;   /* 0, h (h and hh), l, L (ll), z, j, t */
    char letter;
};

static const char *read_conversion(const char *at, struct conversion *ret, va_list *ap)
{
    size_t n = 0;
    *ret = (struct conversion){.precision = -1};
    bool after_dot = false;
    do {
        char c = *at;
        if (c == '*') {
            int star = va_arg(*ap, int);
            n += (size_t)snprintf(ret->spec + n, sizeof ret->spec - n, "%d", star);
            ret->precision = after_dot ? star : ret->precision;
        } else {
            ret->spec[n++] = c;
            if (after_dot && c >= '0' && c <= '9') {
                ret->precision = (ret->precision < 0 ? 0 : ret->precision) * 10 + (c - '0');
            }
        }
        after_dot = after_dot || c == '.';
        at++;
    } while (*at != '\0' && strchr("-+ #0123456789.*", *at) != NULL && n < 12);
    ret->spec[n] = '\0';
    while (*at != '\0' && strchr("hlzjt", *at) != NULL) {
        ret->length = *at == 'l' && ret->length == 'l' ? 'L' : *at;
        at++;
    }
    ret->letter = *at;
    return *at != '\0' ? at + 1 : at;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored                                                                     \
    "-Wformat-nonliteral" /* the compiler checked the fmt of the caller */

static int print_number(char *out, size_t cap, struct conversion *c, va_list *ap)
{
    char spec[sizeof c->spec + 4];
    bool is_signed = c->letter == 'd' || c->letter == 'i';
    intmax_t number;
    switch (c->length) {
    case 'l':
        number = is_signed ? va_arg(*ap, long) : (intmax_t)va_arg(*ap, unsigned long);
        break;
    case 'L':
        number = is_signed ? va_arg(*ap, long long) : (intmax_t)va_arg(*ap, unsigned long long);
        break;
    case 'z':
        number = (intmax_t)va_arg(*ap, size_t);
        break;
    case 'j':
        number = va_arg(*ap, intmax_t);
        break;
    case 't':
        number = va_arg(*ap, ptrdiff_t);
        break;
    default:
        number = is_signed ? va_arg(*ap, int) : (intmax_t)va_arg(*ap, unsigned);
        break;
    }
    if (c->letter == 'c') {
        snprintf(spec, sizeof spec, "%sc", c->spec);
        return snprintf(out, cap, spec, (int)number);
    }
    snprintf(spec, sizeof spec, "%sj%c", c->spec, c->letter);
    return is_signed ? snprintf(out, cap, spec, number)
                     : snprintf(out, cap, spec, (uintmax_t)number);
}

/* Whether the conversion was known. */
static bool print_conversion(struct log_fields *f, struct conversion *c, bool in_quotes,
                             va_list *ap)
{
    char out[96];
    char spec[sizeof c->spec + 2];
    int n;
    switch (c->letter) {
    case '%':
        fields_append(f, "%", 1);
        return true;
    case 's': {
        const char *text = va_arg(*ap, const char *);
        text = text != NULL ? text : "(none)";
        print_value_text(f, in_quotes, text,
                         c->precision >= 0 ? strnlen(text, (size_t)c->precision) : strlen(text));
        return true;
    }
    case 'f':
        snprintf(spec, sizeof spec, "%sf", c->spec);
        n = snprintf(out, sizeof out, spec, va_arg(*ap, double));
        break;
    case 'p':
        n = snprintf(out, sizeof out, "%p", va_arg(*ap, void *));
        break;
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'c':
        n = print_number(out, sizeof out, c, ap);
        break;
    default:
        return false;
    }
    if (n > 0) {
        size_t len = (size_t)n < sizeof out ? (size_t)n : sizeof out - 1;
        log_fields_escape(f, out, len, in_quotes);
    }
    return true;
}

#pragma GCC diagnostic pop

/* A cut text may lack the quote that ends its last value. */
static bool quote_is_open(const char *text)
{
    bool open = false;
    for (; *text != '\0'; text++) {
        if (*text == '\\' && text[1] != '\0') {
            text++;
        } else {
            open = open != (*text == '"');
        }
    }
    return open;
}

/* Appends; what does not fit is cut, not in the middle of a character or an escape. Knows the conversions d i u x X c f s
 * p with flags, width, precision and the lengths h hh l ll z j t; it ends at any other. */
static void log_fields_print(struct log_fields *f, const char *fmt, va_list given)
{
    bool in_quotes = false;
    bool known = true;
    size_t cap = f->cap;
    va_list ap;
    f->cap = cap - 1; /* for the last quote */
    va_copy(ap, given);
    f->text[f->len] = '\0';
    while (*fmt != '\0' && known) {
        if (*fmt == '%') {
            struct conversion c;
            fmt = read_conversion(fmt, &c, &ap);
            known = print_conversion(f, &c, in_quotes, &ap);
            continue;
        }
        in_quotes = in_quotes != (*fmt == '"');
        fields_append(f, fmt, 1);
        fmt++;
    }
    va_end(ap);
    while (f->len > 0 && f->text[f->len - 1] == ' ') {
        f->text[--f->len] = '\0';
    }
    f->cap = cap;
    if (quote_is_open(f->text)) {
        fields_append(f, "\"", 1);
    }
}

struct log_field {
    const char *key; /* key_len == 0: a word without a key */
    size_t key_len;
    const char *value; /* escaped, if quoted */
    size_t value_len;
    bool quoted;
};

/* The field at *at, which moves behind it; false: none is left. */
static bool log_field_next(const char **at, struct log_field *ret)
{
    const char *s = *at + strspn(*at, " ");
    *ret = (struct log_field){.key = s};
    if (*s == '\0') {
        return false;
    }
    size_t word = strcspn(s, " =\"");
    if (s[word] == '=' && word > 0) {
        ret->key_len = word;
        s += word + 1;
    }
    ret->value = s;
    if (ret->key_len == 0 || *s != '"') {
        ret->value_len = strcspn(s, " ");
        *at = s + ret->value_len;
        return true;
    }
    ret->quoted = true;
    ret->value = ++s;
    while (*s != '\0' && *s != '"') {
        s += *s == '\\' && s[1] != '\0' ? 2 : 1;
    }
    ret->value_len = (size_t)(s - ret->value);
    *at = *s == '"' ? s + 1 : s;
    return true;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes the escapes of n bytes into ret, which has room for n bytes. Returns the length. */
static size_t log_field_plain(const char *value, size_t n, char *ret)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        char c = value[i];
        if (c == '\\' && i + 1 < n) {
            c = value[++i];
            if (c == 'x' && i + 2 < n && hex_digit(value[i + 1]) >= 0 &&
                hex_digit(value[i + 2]) >= 0) {
                c = (char)(hex_digit(value[i + 1]) * 16 + hex_digit(value[i + 2]));
                i += 2;
            } else {
                c = c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
            }
        }
        ret[len++] = c;
    }
    assert(len <= n);
    return len;
}

/* The three formats */

struct log_entry {
    enum log_level level;
    const char *area;
    const char *event;
    const char *advice; /* or NULL */
    const char *fields;
    char time[32];
};

static void log_stamp(struct log_entry *e)
{
    int64_t ms = clock_wall_ms(log_time());
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    (void)gmtime_r(&seconds, &tm);
    size_t n = strftime(e->time, sizeof e->time, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(e->time + n, sizeof e->time - n, ".%03dZ", (int)(ms % 1000));
}

static size_t log_print_text(const struct log_entry *e, bool journald, char *line)
{
    char advice[ADVICE_MAX + 16] = "";
    struct log_fields escaped = {.text = advice, .cap = ADVICE_MAX};
    if (e->advice != NULL) {
        log_fields_escape(&escaped, e->advice, strlen(e->advice), true);
    }
    char head[64];
    if (journald) {
        snprintf(head, sizeof head, "<%d>", log_priorities[e->level]);
    } else {
        snprintf(head, sizeof head, "%s %-5s ", e->time, log_names[e->level]);
    }
    int n = snprintf(line, LOG_LINE_MAX, "%s%.*s: %.*s%s%s%s%s%s", head, EVENT_MAX, e->area,
                     EVENT_MAX, e->event, e->fields[0] != '\0' ? " " : "", e->fields,
                     e->advice != NULL ? " advice=\"" : "", advice, e->advice != NULL ? "\"" : "");
    assert(n > 0 && n < LOG_LINE_MAX - 1);
    line[n] = '\n';
    return (size_t)n + 1;
}

static bool is_integer(const struct log_field *field)
{
    size_t sign = field->value_len > 0 && field->value[0] == '-';
    size_t digits = field->value_len - sign;
    if (field->quoted || digits == 0 || digits > JSON_INTEGER_DIGITS ||
        (digits > 1 && field->value[sign] == '0')) {
        return false;
    }
    return strspn(field->value + sign, "0123456789") >= digits;
}

static void log_put_field(struct json *j, const struct log_field *field)
{
    char plain[FIELDS_MAX];
    assert(field->value_len <= sizeof plain);
    json_key_text(j, slice_make(field->key, field->key_len));
    if (is_integer(field)) {
        json_int(j, strtoll(field->value, NULL, 10));
        return;
    }
    size_t len = field->value_len;
    if (field->quoted) {
        len = log_field_plain(field->value, len, plain);
    } else {
        memcpy(plain, field->value, len);
    }
    json_text(j, slice_make(plain, len));
}

/* Words without a key belong to the message. */
static void log_put_message(struct json *j, const struct log_entry *e)
{
    char message[EVENT_MAX + FIELDS_MAX + 2];
    int n = snprintf(message, sizeof message, "%.*s", EVENT_MAX, e->event);
    struct log_field field;
    for (const char *at = e->fields; log_field_next(&at, &field);) {
        if (field.key_len == 0) {
            n += snprintf(message + n, sizeof message - (size_t)n, " %.*s", (int)field.value_len,
                          field.value);
        }
    }
    json_member_text(j, "message", slice_make(message, (size_t)n));
}

/* Whether memory sufficed. */
static bool log_print_json(const struct log_entry *e, struct json *j)
{
    struct log_field field;
    json_object_begin(j);
    json_member_string(j, "time", e->time);
    json_member_string(j, "level", log_names[e->level]);
    json_member_string(j, "area", e->area);
    log_put_message(j, e);
    json_member_string_or_null(j, "advice", e->advice);
    json_key(j, "fields");
    json_object_begin(j);
    for (const char *at = e->fields; log_field_next(&at, &field);) {
        if (field.key_len > 0) {
            log_put_field(j, &field);
        }
    }
    json_object_end(j);
    json_object_end(j);
    buf_append_u8(&j->out, '\n');
    return buf_ok(&j->out);
}

/* One write per line, so that the lines of several threads do not mix. */
static void log_write(struct log_entry *e)
{
    enum log_format format = log_shape;
    char line[LOG_LINE_MAX];
    log_stamp(e);
    if (format == LOG_JSON) {
        struct json j;
        json_init(&j);
        bool whole = log_print_json(e, &j);
        if (whole) {
            (void)!write(STDERR_FILENO, j.out.data, j.out.len);
        }
        json_finish(&j);
        if (whole) {
            return;
        }
    }
    size_t n = log_print_text(e, format == LOG_JOURNALD, line);
    (void)!write(STDERR_FILENO, line, n);
}

static void log_write_fields(enum log_level level, const char *area, const char *event,
                             const char *advice, const char *fmt, va_list ap)
{
    char text[FIELDS_MAX];
    struct log_fields fields = {.text = text, .cap = sizeof text};
    struct log_entry e = {
        .level = level, .area = area, .event = event, .advice = advice, .fields = text};
    log_fields_print(&fields, fmt, ap);
    log_write(&e);
}

void log_advise(enum log_level level, const char *area, const char *event, const char *advice,
                const char *fmt, ...)
{
    if (level < log_min) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    log_write_fields(level, area, event, advice, fmt, ap);
    va_end(ap);
}

void log_always(const char *area, const char *event, const char *fmt, ...)
{
    if (log_min == LOG_SILENT) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    log_write_fields(LOG_NOTICE, area, event, NULL, fmt, ap);
    va_end(ap);
}

/* Causes that repeat. The key of a cause: its level as a digit, area, event and who, a line each. */

static struct {
    pthread_mutex_t lock;
    bool open;               /* the causes are initialised */
    struct refusals causes;  /* by key: the minutes of refusals are what is wanted here */
    int64_t budget_end_ms;   /* of the minute that the next two count */
    unsigned budget_used;    /* lines in this minute */
    unsigned long long lost; /* cases without a line, beyond the budget */
} repeats = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A refusals_fn: the count of a cause. */
static void log_tell_repeats(void *ctx, const char *key, unsigned long long untold)
{
    enum log_level level = (enum log_level)(key[0] - '0');
    char area[EVENT_MAX + 1];
    char event[EVENT_MAX + 1];
    int end = 0;
    if (level < log_min || sscanf(key + 1, "%64[^\n]\n%64[^\n]\n%n", area, event, &end) != 2) {
        return;
    }
    log_advise(level, area, event, level >= LOG_WARN ? "see the line of the first case" : NULL,
               "who=\"%s\" count=%llu in_s=%d text=\"%llu times more in the last %d s\"",
               key + 1 + end, untold, REFUSALS_MINUTE_MS / 1000, untold, REFUSALS_MINUTE_MS / 1000);
}

static void log_tell_lost(void)
{
    unsigned long long lost = repeats.lost;
    repeats.lost = 0;
    repeats.budget_used = 0;
    if (lost > 0) {
        log_advise(
            LOG_WARN, "log", "lines-dropped",
            "see what the lines before this one report, and keep such clients away by a firewall",
            "count=%llu in_s=%d text=\"clients caused more than %d lines in a minute: %llu were not written\"",
            lost, REFUSALS_MINUTE_MS / 1000, LOG_CAUSES_PER_MINUTE, lost);
    }
}

static void log_tick_locked(int64_t now_ms)
{
    if (!repeats.open) {
        return;
    }
    if (now_ms >= repeats.budget_end_ms) {
        log_tell_lost();
        repeats.budget_end_ms = INT64_MAX;
    }
    if (refusals_deadline(&repeats.causes) <= now_ms) {
        refusals_tick(&repeats.causes, now_ms, log_tell_repeats, NULL);
    }
}

/* Whether this case of the cause gets a line. */
static bool log_may_tell(const char *key, const char *why)
{
    int64_t now_ms = clock_monotonic_ms(log_time());
    (void)pthread_mutex_lock(&repeats.lock);
    if (!repeats.open) {
        refusals_init(&repeats.causes);
        repeats.budget_end_ms = INT64_MAX;
        repeats.open = true;
    }
    log_tick_locked(now_ms);
    if (repeats.budget_end_ms == INT64_MAX) {
        repeats.budget_end_ms = now_ms + REFUSALS_MINUTE_MS;
    }
    bool tell = false;
    if (repeats.budget_used < LOG_CAUSES_PER_MINUTE || refusals_counts(&repeats.causes, key)) {
        tell = refusals_add(&repeats.causes, key, why, now_ms, log_tell_repeats, NULL);
        repeats.budget_used += tell;
    } else {
        repeats.lost++; /* a new cause beyond the budget gets no memory either */
    }
    (void)pthread_mutex_unlock(&repeats.lock);
    return tell;
}

void log_cause(enum log_level level, const char *area, const char *event, const char *who,
               const char *why, const char *advice, const char *fmt, ...)
{
    if (level < log_min) {
        return;
    }
    char key[2 * EVENT_MAX + LOG_WHO_MAX];
    snprintf(key, sizeof key, "%d%.*s\n%.*s\n%s", (int)level, EVENT_MAX, area, EVENT_MAX, event,
             who);
    if (!log_may_tell(key, why != NULL ? why : "")) {
        return;
    }
    va_list ap;
    va_start(ap, fmt);
    log_write_fields(level, area, event, advice, fmt, ap);
    va_end(ap);
}

void log_tick(void)
{
    int64_t now_ms = clock_monotonic_ms(log_time());
    (void)pthread_mutex_lock(&repeats.lock);
    log_tick_locked(now_ms);
    (void)pthread_mutex_unlock(&repeats.lock);
}

void log_finish(void)
{
    (void)pthread_mutex_lock(&repeats.lock);
    if (repeats.open) {
        refusals_finish(&repeats.causes, log_tell_repeats, NULL);
        log_tell_lost();
        repeats.open = false;
    }
    (void)pthread_mutex_unlock(&repeats.lock);
}
