#include "admin/http/http_parser.h"

#include "base/transition.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

enum { HEAD_KEEP = 2048, CHUNK_DIGITS_MAX = 8 };

static_assert(HTTP_HEAD_MAX <= UINT16_MAX, "offsets in a head have 16 bits");

/* A repeated header of these is refused, because two programs could use different ones. */
static const char *const SINGLE[] = {
    "Host",           "Content-Length", "Transfer-Encoding", "Authorization", "Origin",
    "Sec-Fetch-Site", "Expect",         "Content-Type",      "Cookie",        "X-Console-Key"};

static const uint16_t STAGE_NEXT[] = {
    [HTTP_STAGE_LINE] = TRANSITION_TO(HTTP_STAGE_FIELDS) | TRANSITION_TO(HTTP_STAGE_FAILED),
    [HTTP_STAGE_FIELDS] = TRANSITION_TO(HTTP_STAGE_BODY) | TRANSITION_TO(HTTP_STAGE_SIZE) |
                          TRANSITION_TO(HTTP_STAGE_DONE) | TRANSITION_TO(HTTP_STAGE_FAILED),
    [HTTP_STAGE_BODY] = TRANSITION_TO(HTTP_STAGE_DONE),
    [HTTP_STAGE_SIZE] = TRANSITION_TO(HTTP_STAGE_CHUNK) | TRANSITION_TO(HTTP_STAGE_TRAILER) |
                        TRANSITION_TO(HTTP_STAGE_FAILED),
    [HTTP_STAGE_CHUNK] = TRANSITION_TO(HTTP_STAGE_CHUNK_END),
    [HTTP_STAGE_CHUNK_END] = TRANSITION_TO(HTTP_STAGE_SIZE) | TRANSITION_TO(HTTP_STAGE_FAILED),
    [HTTP_STAGE_TRAILER] = TRANSITION_TO(HTTP_STAGE_DONE) | TRANSITION_TO(HTTP_STAGE_FAILED),
    [HTTP_STAGE_DONE] = TRANSITION_TO(HTTP_STAGE_LINE),
    [HTTP_STAGE_FAILED] = 0,
};

static bool parser_enter(struct http_parser *p, enum http_stage stage)
{
    transition_check(STAGE_NEXT, p->stage, stage);
    assert(stage != HTTP_STAGE_DONE || p->left == 0);
    p->stage = stage;
    return true;
}

/* Returns false, for the convenience of callers. */
static bool parser_fail(struct http_parser *p, unsigned status, const char *problem)
{
    p->status = status;
    p->problem = problem;
    parser_enter(p, HTTP_STAGE_FAILED);
    return false;
}

static bool parser_fail_form(struct http_parser *p, const char *problem)
{
    return parser_fail(p, 400, problem);
}

/* Characters */

static bool is_token_character(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_token(const char *text)
{
    const char *at = text;
    while (is_token_character((unsigned char)*at)) {
        at++;
    }
    return at > text && *at == '\0';
}

static int hex_value(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Decodes in place up to one of the ends or to NUL, ends the result with NUL and moves *at to that end. Returns the
 * character found there; -1: bad encoding. */
static int url_decode_part(char **at, const char *ends, bool plus)
{
    char *from = *at;
    char *to = *at;
    while (*from != '\0' && strchr(ends, *from) == NULL) {
        char c = *from++;
        if (c == '%') {
            int high = hex_value(from[0]);
            int low = high < 0 ? -1 : hex_value(from[1]);
            /* %00 would end the string early. */
            if (low < 0 || (high == 0 && low == 0)) {
                return -1;
            }
            c = (char)(high << 4 | low);
            from += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        *to++ = c;
    }
    int end = (unsigned char)*from;
    *at = from;
    *to = '\0'; /* only after `end` was read, because it may be here */
    return end;
}

/* The request line */

/* Splits the query into pairs of strings, in place. Drops pairs without "=". */
static bool parser_read_query(struct http_parser *p, char *query)
{
    char *text = (char *)p->head.data;
    char *to = query;
    int end = '&';
    p->arguments_at = (uint16_t)(query - text);
    for (char *at = query; end == '&'; at++) {
        char *name = at;
        char *value = NULL;
        end = url_decode_part(&at, "=&", true);
        if (end == '=') {
            value = ++at;
            end = url_decode_part(&at, "&", true);
        }
        if (end < 0) {
            return false;
        }
        if (value != NULL) {
            size_t name_len = strlen(name) + 1;
            size_t value_len = strlen(value) + 1;
            memmove(to, name, name_len);
            memmove(to + name_len, value, value_len);
            to += name_len + value_len;
        }
    }
    p->arguments_end = (uint16_t)(to - text);
    return true;
}

static bool parser_read_target(struct http_parser *p, char *target)
{
    char *at = target;
    p->path_at = (uint16_t)(target - (char *)p->head.data);
    p->arguments_at = p->arguments_end = 0;
    int end = url_decode_part(&at, "?", false);
    if (end < 0 || (end == '?' && !parser_read_query(p, at + 1))) {
        return parser_fail_form(p, "the URL has a bad encoding");
    }
    return true;
}

static bool parser_read_version(struct http_parser *p, const char *text)
{
    static const char FORM[] = "HTTP/0.0"; /* 0: any digit */
    for (const char *at = text, *form = FORM; *form != '\0'; at++, form++) {
        if (*form == '0' ? *at < '0' || *at > '9' : *at != *form) {
            return parser_fail_form(p, "this is not HTTP");
        }
    }
    if (text[strlen(FORM)] != '\0') {
        return parser_fail_form(p, "this is not HTTP");
    }
    if (text[strlen("HTTP/")] != '1') {
        return parser_fail(p, 505, "only HTTP/1.0 and HTTP/1.1 are supported");
    }
    p->http_1_0 = text[strlen("HTTP/1.")] == '0';
    return true;
}

static bool parser_read_line(struct http_parser *p, char *line)
{
    char *target = strchr(line, ' ');
    char *version = target != NULL ? strchr(target + 1, ' ') : NULL;
    if (version == NULL || version == target + 1 || strchr(line, '\t') != NULL) {
        return parser_fail_form(p, "this is not HTTP");
    }
    *target++ = '\0';
    *version++ = '\0';
    if (!is_token(line)) {
        return parser_fail_form(p, "the method is not a token");
    }
    return parser_read_version(p, version) && parser_read_target(p, target) &&
           parser_enter(p, HTTP_STAGE_FIELDS);
}

/* Fields */

static bool is_single(const char *name)
{
    for (size_t i = 0; i < sizeof SINGLE / sizeof SINGLE[0]; i++) {
        if (strcasecmp(name, SINGLE[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Splits "name: value" and drops spaces around the value. NULL: not of that form. */
static char *split_field(char *line)
{
    char *colon = strchr(line, ':');
    if (colon == NULL) {
        return NULL;
    }
    *colon = '\0';
    char *value = colon + 1 + strspn(colon + 1, " \t");
    size_t len = strlen(value);
    while (len > 0 && (value[len - 1] == ' ' || value[len - 1] == '\t')) {
        len--;
    }
    value[len] = '\0';
    return is_token(line) ? value : NULL;
}

static bool parser_add_field(struct http_parser *p, char *line)
{
    char *value = split_field(line);
    if (value == NULL) {
        return parser_fail_form(p, "a header does not have the form NAME: VALUE");
    }
    if (is_single(line) && http_parser_field(p, line) != NULL) {
        return parser_fail_form(p, "a header is repeated");
    }
    if (p->field_count == HTTP_FIELDS_MAX) {
        return parser_fail(p, 431, "too many headers");
    }
    const char *text = (const char *)p->head.data;
    p->fields[p->field_count++] =
        (struct http_field){(uint16_t)(line - text), (uint16_t)(value - text)};
    return true;
}

/* Whether a list of words, separated by commas, contains this one. */
static bool has_word(const char *list, const char *word)
{
    size_t wanted = strlen(word);
    for (const char *at = list; *at != '\0';) {
        at += strspn(at, ", \t");
        size_t len = strcspn(at, ", \t");
        if (len == wanted && strncasecmp(at, word, len) == 0) {
            return true;
        }
        at += len;
    }
    return false;
}

/* Whether a Connection header contains this word. */
static bool parser_wants(const struct http_parser *p, const char *word)
{
    const char *text = (const char *)p->head.data;
    for (size_t i = 0; i < p->field_count; i++) {
        if (strcasecmp(text + p->fields[i].name_at, "Connection") == 0 &&
            has_word(text + p->fields[i].value_at, word)) {
            return true;
        }
    }
    return false;
}

static bool parser_read_length(struct http_parser *p, const char *text)
{
    uint64_t length = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] != '\0') {
        return parser_fail_form(p, "Content-Length is not a number");
    }
    for (size_t i = 0; i < digits; i++) {
        unsigned digit = (unsigned)(text[i] - '0');
        if (length > ((uint64_t)INT64_MAX - digit) / 10) {
            return parser_fail(p, 413, "the body is too long");
        }
        length = length * 10 + digit;
    }
    p->body_length = p->left = length;
    return true;
}

/* Derives from the headers how connection and body continue. */
static bool parser_end_head(struct http_parser *p)
{
    const char *length = http_parser_field(p, "Content-Length");
    const char *coding = http_parser_field(p, "Transfer-Encoding");
    const char *expect = http_parser_field(p, "Expect");
    /* A proxy may see the end of such a request at another place (request smuggling, RFC 9112, 6.3). */
    if (coding != NULL && (length != NULL || p->http_1_0)) {
        return parser_fail_form(p,
                                "Transfer-Encoding is not allowed with Content-Length or HTTP/1.0");
    }
    if (coding != NULL && strcasecmp(coding, "chunked") != 0) {
        return parser_fail(p, 501, "only the Transfer-Encoding chunked is supported");
    }
    if (length != NULL && !parser_read_length(p, length)) {
        return false;
    }
    p->chunked = coding != NULL;
    p->keep_alive = !parser_wants(p, "close") && (!p->http_1_0 || parser_wants(p, "keep-alive"));
    p->expects = expect != NULL && strcasecmp(expect, "100-continue") == 0 && !p->http_1_0;
    p->room = HTTP_SIZE_LINE_MAX;
    return parser_enter(p, p->chunked           ? HTTP_STAGE_SIZE
                           : p->body_length > 0 ? HTTP_STAGE_BODY
                                                : HTTP_STAGE_DONE);
}

/* Chunks */

static bool parser_read_size(struct http_parser *p, const char *line)
{
    uint64_t size = 0;
    const char *at = line;
    for (int value; (value = hex_value(*at)) >= 0; at++) {
        size = size << 4 | (unsigned)value;
    }
    const char *end = at + strspn(at, " \t");
    if (at == line || at - line > CHUNK_DIGITS_MAX || (*end != '\0' && *end != ';')) {
        return parser_fail_form(p, "the size of a chunk is not a number");
    }
    p->left = size;
    p->room = size > 0 ? HTTP_SIZE_LINE_MAX : HTTP_TRAILER_MAX;
    return parser_enter(p, size > 0 ? HTTP_STAGE_CHUNK : HTTP_STAGE_TRAILER);
}

/* Lines */

static bool parser_fail_room(struct http_parser *p)
{
    switch (p->stage) {
    case HTTP_STAGE_LINE:
        return parser_fail(p, 414, "the URL is too long");
    case HTTP_STAGE_FIELDS:
    case HTTP_STAGE_TRAILER:
        return parser_fail(p, 431, "the headers are too long");
    default:
        return parser_fail_form(p, "the line before a chunk is too long");
    }
}

/* Whether a whole line was taken; it begins at line_at. */
static bool parser_take_line(struct http_parser *p, struct slice *bytes)
{
    const uint8_t *end = bytes->len > 0 ? memchr(bytes->data, '\n', bytes->len) : NULL;
    size_t len = end != NULL ? (size_t)(end - bytes->data) + 1 : bytes->len;
    if (len > p->room) {
        return parser_fail_room(p);
    }
    buf_append(&p->head, bytes->data, len);
    if (!buf_ok(&p->head)) {
        return parser_fail(p, 500, "out of memory");
    }
    p->room -= len;
    *bytes = slice_make(bytes->data + len, bytes->len - len);
    return end != NULL;
}

/* The line as a string without its end. NULL: it contains a forbidden character. */
static char *parser_cut_line(struct http_parser *p)
{
    char *line = (char *)p->head.data + p->line_at;
    size_t len = p->head.len - p->line_at - 1; /* without the line feed */
    /* A bare LF is refused, because proxies differ in accepting it as the end of a line. */
    if (len == 0 || line[len - 1] != '\r') {
        return NULL;
    }
    line[--len] = '\0';
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)line[i];
        if ((c < ' ' && c != '\t') || c == 0x7f) {
            return NULL;
        }
    }
    return line;
}

static bool parser_use_line(struct http_parser *p, char *line)
{
    bool empty = line[0] == '\0';
    switch (p->stage) {
    case HTTP_STAGE_LINE:
        /* RFC 9112, 2.2: empty lines before a request are ignored. */
        return empty || parser_read_line(p, line);
    case HTTP_STAGE_FIELDS:
        return empty ? parser_end_head(p) : parser_add_field(p, line);
    case HTTP_STAGE_SIZE:
        return parser_read_size(p, line);
    case HTTP_STAGE_CHUNK_END:
        return empty ? parser_enter(p, HTTP_STAGE_SIZE)
                     : parser_fail_form(p, "a chunk is longer than its size");
    default:
        assert(p->stage == HTTP_STAGE_TRAILER);
        if (!empty && split_field(line) == NULL) {
            return parser_fail_form(p, "a header does not have the form NAME: VALUE");
        }
        return !empty || parser_enter(p, HTTP_STAGE_DONE);
    }
}

/* Takes one line and handles it; false: incomplete or refused. */
static bool parser_do_line(struct http_parser *p, struct slice *bytes)
{
    enum http_stage before = p->stage;
    if (!parser_take_line(p, bytes)) {
        return false;
    }
    char *line = parser_cut_line(p);
    if (line == NULL) {
        return parser_fail_form(p,
                                "a line has a control character in it or does not end with CR LF");
    }
    if (!parser_use_line(p, line)) {
        return false;
    }
    /* Only the request line and the fields are kept in the head. */
    bool keep = line[0] != '\0' && (before == HTTP_STAGE_LINE || before == HTTP_STAGE_FIELDS);
    p->head.len = keep ? p->head.len : p->line_at;
    p->line_at = p->head.len;
    return true;
}

/* The next piece of the body or of a chunk; false: bytes has none. */
static bool parser_take_piece(struct http_parser *p, struct slice *bytes, struct slice *ret_piece)
{
    size_t len = bytes->len < p->left ? bytes->len : (size_t)p->left;
    *ret_piece = slice_make(bytes->data, len);
    *bytes = slice_make(bytes->data + len, bytes->len - len);
    p->left -= len;
    if (p->left == 0) {
        parser_enter(p, p->stage == HTTP_STAGE_BODY ? HTTP_STAGE_DONE : HTTP_STAGE_CHUNK_END);
    }
    return len > 0;
}

enum http_event http_parser_read(struct http_parser *p, struct slice *bytes,
                                 struct slice *ret_piece)
{
    for (;;) {
        enum http_stage before = p->stage;
        switch (before) {
        case HTTP_STAGE_DONE:
            return HTTP_EVENT_DONE;
        case HTTP_STAGE_FAILED:
            return HTTP_EVENT_FAILED;
        case HTTP_STAGE_BODY:
        case HTTP_STAGE_CHUNK:
            assert(p->left > 0);
            return parser_take_piece(p, bytes, ret_piece) ? HTTP_EVENT_BODY : HTTP_EVENT_MORE;
        default:
            if (!parser_do_line(p, bytes)) {
                return p->stage == HTTP_STAGE_FAILED ? HTTP_EVENT_FAILED : HTTP_EVENT_MORE;
            }
            if (before == HTTP_STAGE_FIELDS && p->stage != HTTP_STAGE_FIELDS) {
                return HTTP_EVENT_HEAD;
            }
        }
    }
}

void http_parser_init(struct http_parser *p)
{
    *p = (struct http_parser){.stage = HTTP_STAGE_LINE, .room = HTTP_HEAD_MAX};
    buf_init(&p->head, HTTP_HEAD_MAX + HTTP_TRAILER_MAX);
}

void http_parser_finish(struct http_parser *p)
{
    buf_finish(&p->head);
}

void http_parser_next(struct http_parser *p)
{
    assert(p->stage == HTTP_STAGE_DONE && p->line_at == p->head.len);
    parser_enter(p, HTTP_STAGE_LINE);
    buf_trim(&p->head, HEAD_KEEP);
    buf_reset(&p->head);
    p->line_at = 0;
    p->room = HTTP_HEAD_MAX;
    p->field_count = 0;
    p->body_length = 0;
}

const char *http_parser_method(const struct http_parser *p)
{
    return (const char *)p->head.data;
}

const char *http_parser_path(const struct http_parser *p)
{
    return (const char *)p->head.data + p->path_at;
}

const char *http_parser_field(const struct http_parser *p, const char *name)
{
    const char *text = (const char *)p->head.data;
    for (size_t i = 0; i < p->field_count; i++) {
        if (strcasecmp(text + p->fields[i].name_at, name) == 0) {
            return text + p->fields[i].value_at;
        }
    }
    return NULL;
}

const char *http_parser_argument(const struct http_parser *p, const char *name)
{
    const char *text = (const char *)p->head.data;
    for (const char *at = text + p->arguments_at; at < text + p->arguments_end;) {
        const char *value = at + strlen(at) + 1;
        if (strcasecmp(at, name) == 0) {
            return value;
        }
        at = value + strlen(value) + 1;
    }
    return NULL;
}
