#include "front/login/jaas.h"

#include "base/buf.h"

#include <assert.h>
#include <strings.h>

enum token {
    TOKEN_END,
    TOKEN_WORD, /* bare or quoted: the text is in `word` */
    TOKEN_OPEN,
    TOKEN_CLOSE,
    TOKEN_SEMICOLON,
    TOKEN_EQUALS,
    TOKEN_BAD, /* see fault */
};

struct reader {
    struct slice text;
    size_t at;
    unsigned line;
    enum token token;
    struct buf word; /* the newest word */
    struct buf key;  /* key of an option, while its value is read */
    const char *problem;
};

static int peek(const struct reader *r, size_t ahead)
{
    return r->at + ahead < r->text.len ? r->text.data[r->at + ahead] : -1;
}

static int take(struct reader *r)
{
    int ch = peek(r, 0);
    assert(r->at <= r->text.len);
    if (ch >= 0) {
        r->at++;
        r->line += ch == '\n';
    }
    return ch;
}

static enum token bad(struct reader *r, const char *problem)
{
    r->problem = problem;
    return TOKEN_BAD;
}

static bool skip_line(struct reader *r)
{
    while (peek(r, 0) >= 0 && peek(r, 0) != '\n') {
        take(r);
    }
    return true;
}

static bool skip_block(struct reader *r)
{
    assert(peek(r, 0) == '/' && peek(r, 1) == '*');
    r->at += 2;
    while (peek(r, 0) >= 0 && !(peek(r, 0) == '*' && peek(r, 1) == '/')) {
        take(r);
    }
    if (peek(r, 0) < 0) {
        return false;
    }
    r->at += 2;
    return true;
}

static bool is_blank(int ch)
{
    return ch == ' ' || (ch >= '\t' && ch <= '\r');
}

/* Skips blanks and comments. False: a comment does not end. */
static bool skip(struct reader *r)
{
    for (;;) {
        int ch = peek(r, 0);
        if (is_blank(ch)) {
            take(r);
        } else if (ch == '#' || (ch == '/' && peek(r, 1) == '/')) {
            skip_line(r);
        } else if (ch == '/' && peek(r, 1) == '*') {
            if (!skip_block(r)) {
                return false;
            }
        } else {
            return true;
        }
    }
}

/* The character for an escape sequence. */
static int escaped(struct reader *r)
{
    static const char names[] = "abfnrtv";
    static const char values[] = "\a\b\f\n\r\t\v";
    int ch = take(r);
    if (ch >= '0' && ch <= '7') {
        int value = ch - '0';
        int digits = ch <= '3' ? 2 : 1;
        while (digits-- > 0 && peek(r, 0) >= '0' && peek(r, 0) <= '7') {
            value = value * 8 + take(r) - '0';
        }
        return value;
    }
    const char *name = ch > 0 ? strchr(names, ch) : NULL;
    return name != NULL ? values[name - names] : ch;
}

static enum token read_quoted(struct reader *r, int quote)
{
    int ch = take(r);
    assert(ch == quote && r->word.len == 0);
    while ((ch = take(r)) != quote) {
        if (ch == '$' && peek(r, 0) == '{') {
            return bad(r, "${...} is not supported: write the value itself");
        }
        if (ch == '\\') {
            ch = escaped(r);
        } else if (ch == '\n') {
            ch = -1;
        }
        if (ch <= 0) {
            return bad(r, "a quoted text does not end on its line");
        }
        buf_append_u8(&r->word, (uint8_t)ch);
    }
    return TOKEN_WORD;
}

static bool ends_word(int ch)
{
    return ch < 0 || is_blank(ch) || strchr("{};=\"'", ch) != NULL;
}

static enum token read_bare(struct reader *r)
{
    while (!ends_word(peek(r, 0))) {
        if (peek(r, 0) == '$' && peek(r, 1) == '{') {
            return bad(r, "${...} is not supported: write the value itself");
        }
        buf_append_u8(&r->word, (uint8_t)take(r));
    }
    return TOKEN_WORD;
}

static enum token read_token(struct reader *r)
{
    if (!skip(r)) {
        return bad(r, "a comment does not end");
    }
    buf_wipe(&r->word);
    int ch = peek(r, 0);
    switch (ch) {
    case -1:
        return TOKEN_END;
    case 0:
        return bad(r, "contains a NUL byte, so it is not a configuration file");
    case '{':
        take(r);
        return TOKEN_OPEN;
    case '}':
        take(r);
        return TOKEN_CLOSE;
    case ';':
        take(r);
        return TOKEN_SEMICOLON;
    case '=':
        take(r);
        return TOKEN_EQUALS;
    case '"':
    case '\'':
        return read_quoted(r, ch);
    default:
        return read_bare(r);
    }
}

static void next(struct reader *r)
{
    r->token = read_token(r);
    if (r->token == TOKEN_WORD && buf_cstr(&r->word) == NULL) {
        r->word.failed = true;
    }
}

/* Sets the fault, unless there is one already. */
static int jaas_fail(struct reader *r, const char *problem)
{
    if (!buf_ok(&r->word) || !buf_ok(&r->key)) {
        return CONCLAVE_ENOMEM;
    }
    if (r->problem == NULL) {
        r->problem = problem;
    }
    return CONCLAVE_EINVAL;
}

static int read_option(struct reader *r, const struct jaas_handler *handler)
{
    buf_wipe(&r->key);
    buf_append_slice(&r->key, buf_slice(&r->word));
    const char *key = buf_cstr(&r->key);
    next(r);
    if (r->token != TOKEN_EQUALS) {
        return jaas_fail(r, "expected key=value or ;");
    }
    next(r);
    if (r->token != TOKEN_WORD || key == NULL || !buf_ok(&r->word)) {
        return jaas_fail(r, "a value is missing after =");
    }
    int rc = handler == NULL ? 0 : handler->option(handler->ctx, key, (char *)r->word.data);
    next(r);
    return rc;
}

static int read_module(struct reader *r, const struct jaas_handler *handler)
{
    static const char *const flags[] = {"required", "requisite", "sufficient", "optional"};
    bool known = false;
    assert(r->token == TOKEN_WORD);
    if (!buf_ok(&r->word)) {
        return CONCLAVE_ENOMEM;
    }
    int rc = handler == NULL ? 0 : handler->module(handler->ctx, (char *)r->word.data);
    next(r);
    for (size_t i = 0; r->token == TOKEN_WORD && i < sizeof flags / sizeof flags[0]; i++) {
        known = known || (buf_ok(&r->word) && strcasecmp((char *)r->word.data, flags[i]) == 0);
    }
    if (!known) {
        return jaas_fail(r, "expected required, requisite, sufficient or optional after the class");
    }
    next(r);
    while (rc == 0 && r->token == TOKEN_WORD) {
        rc = read_option(r, handler);
    }
    if (rc == 0 && r->token != TOKEN_SEMICOLON) {
        rc = jaas_fail(r, "expected ; after the last option of a class");
    }
    next(r);
    return rc;
}

/* The last word is the section's name. */
static int read_section(struct reader *r, const struct jaas_handler *handler)
{
    int rc = 0;
    assert(r->token == TOKEN_WORD);
    next(r);
    if (r->token != TOKEN_OPEN) {
        return jaas_fail(r, "expected { after a section's name");
    }
    next(r);
    while (rc == 0 && r->token == TOKEN_WORD) {
        rc = read_module(r, handler);
    }
    if (rc == 0 && r->token != TOKEN_CLOSE) {
        return jaas_fail(r, "expected a class or }");
    }
    if (rc == 0) {
        next(r);
    }
    if (rc == 0 && r->token != TOKEN_SEMICOLON) {
        return jaas_fail(r, "expected ; after }");
    }
    next(r);
    return rc;
}

int jaas_read(struct slice text, const char *section, const struct jaas_handler *handler,
              struct jaas_fault *ret_fault)
{
    struct reader r = {.text = text, .line = 1};
    bool found = false;
    int rc = 0;
    buf_init(&r.word, 0);
    buf_init(&r.key, 0);
    next(&r);
    while (rc == 0 && r.token == TOKEN_WORD) {
        bool wanted = buf_ok(&r.word) && strcmp((char *)r.word.data, section) == 0 && !found;
        found = found || wanted;
        rc = read_section(&r, wanted ? handler : NULL);
    }
    if (rc == 0 && r.token != TOKEN_END) {
        rc = jaas_fail(&r, "expected a section's name");
    }
    if (rc == 0 && !found) {
        rc = jaas_fail(&r, "has no such section");
    }
    *ret_fault = (struct jaas_fault){.line = r.line, .text = r.problem};
    buf_wipe(&r.word);
    buf_wipe(&r.key);
    return rc;
}
