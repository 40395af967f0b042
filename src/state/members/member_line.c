#include "state/members/member_line.h"

#include "wire/java_number.h"

#include <assert.h>
#include <stdio.h>

enum { FIELDS_MAX = 4 };

static const char *const bad_form =
    "is not host:port:port[:role][;[[host:]clientPort]], IPv6 addresses in brackets";

/* As String.split: empty parts at the end do not count. Returns the number of parts; stores the first max ones. */
static size_t split(struct slice text, uint8_t separator, struct slice *ret, size_t max)
{
    size_t count = 0;
    bool any = text.len > 0;
    while (text.len > 0 && text.data[text.len - 1] == separator) {
        text.len--;
    }
    if (any && text.len == 0) {
        return 0;
    }
    for (size_t start = 0, i = 0; i <= text.len; i++) {
        if (i == text.len || text.data[i] == separator) {
            if (count < max) {
                ret[count] = slice_make(text.data + start, i - start);
            }
            count++;
            start = i + 1;
        }
    }
    return count;
}

/* Splits "host:a:b" or "[v6]:a:b"; returns more than FIELDS_MAX for any other form. */
static size_t split_fields(struct slice text, struct slice *ret)
{
    if (text.len == 0 || text.data[0] != '[') {
        return split(text, ':', ret, FIELDS_MAX);
    }
    const uint8_t *end = memchr(text.data, ']', text.len);
    size_t head = end != NULL ? (size_t)(end - text.data) + 2 : text.len;
    if (head >= text.len || end[1] != ':') {
        return FIELDS_MAX + 1;
    }
    ret[0] = slice_make(text.data + 1, head - 3);
    struct slice rest = slice_make(text.data + head, text.len - head);
    return 1 + split(rest, ':', ret + 1, FIELDS_MAX - 1);
}

static bool host_is_good(struct slice host)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:%";
    if (host.len == 0 || host.len >= MEMBER_HOST_MAX) {
        return false;
    }
    for (size_t i = 0; i < host.len; i++) {
        if (memchr(allowed, host.data[i], sizeof allowed - 1) == NULL) {
            return false;
        }
    }
    return true;
}

/* In Java, an int that is not a port ends in an unexpected exception. */
static int parse_port(struct slice text, uint16_t *ret)
{
    int64_t port;
    if (!java_number_parse(text, &port) || port < INT32_MIN || port > INT32_MAX || port == 0) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    if (port < 0 || port > UINT16_MAX) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    *ret = (uint16_t)port;
    return 0;
}

static bool equal_ignoring_case(struct slice text, const char *lower)
{
    if (text.len != strlen(lower)) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if ((c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c) != (uint8_t)lower[i]) {
            return false;
        }
    }
    return true;
}

enum role { ROLE_UNSAID, ROLE_PARTICIPANT, ROLE_OBSERVER, ROLE_UNKNOWN };

static enum role parse_role(struct slice text)
{
    text = text_trim(text);
    if (equal_ignoring_case(text, "observer")) {
        return ROLE_OBSERVER;
    }
    return equal_ignoring_case(text, "participant") ? ROLE_PARTICIPANT : ROLE_UNKNOWN;
}

static int parse_host(struct member_line *l, struct slice text, enum role *role,
                      const char **ret_why)
{
    struct slice fields[FIELDS_MAX];
    assert(l->n_hosts < MEMBER_HOSTS_MAX);
    struct member_host *host = &l->hosts[l->n_hosts];
    size_t count = split_fields(text, fields);
    *ret_why = bad_form;
    if (count < 3 || count > FIELDS_MAX) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    host->host = fields[0];
    *ret_why = "contains no host name or address";
    if (!host_is_good(fields[0])) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    *ret_why = "has a port that is not a number from 1 to 65535";
    int rc = parse_port(fields[1], &host->port);
    if (rc == 0) {
        rc = parse_port(fields[2], &host->election_port);
    }
    if (rc != 0) {
        return rc;
    }
    *ret_why = "has the same port twice";
    if (host->port == host->election_port) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    if (count == 4) {
        enum role said = parse_role(fields[3]);
        *ret_why = "has a role that is not participant or observer";
        if (said == ROLE_UNKNOWN) {
            return CONCLAVE_BAD_ARGUMENTS;
        }
        *ret_why = "has addresses of different roles";
        if (*role != ROLE_UNSAID && *role != said) {
            return CONCLAVE_BAD_ARGUMENTS;
        }
        *role = said;
    }
    l->n_hosts++;
    return 0;
}

static int parse_client(struct member_line *l, struct slice text, const char **ret_why)
{
    struct slice fields[FIELDS_MAX];
    size_t count = split_fields(text, fields);
    *ret_why = bad_form;
    if (count == 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (count > 2) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    l->client_host = count == 2 ? fields[0] : slice_str("0.0.0.0");
    *ret_why = "has no client address after ';'";
    if (!host_is_good(l->client_host)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    *ret_why = "has no client port after ';'";
    l->has_client = true;
    return parse_port(fields[count - 1], &l->client_port);
}

int member_line_parse(struct slice text, struct member_line *ret, const char **ret_why)
{
    struct member_line l = {.n_hosts = 0};
    struct slice parts[2];
    struct slice addresses[MEMBER_HOSTS_MAX];
    enum role role = ROLE_UNSAID;
    *ret_why = "is too long";
    if (text.len >= MEMBER_LINE_MAX) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    size_t count = split(text, ';', parts, 2);
    *ret_why = bad_form;
    if (count == 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    int rc = count == 2 ? parse_client(&l, parts[1], ret_why) : 0;
    if (rc != 0) {
        return rc;
    }
    size_t n = split(parts[0], '|', addresses, MEMBER_HOSTS_MAX);
    if (n == 0 || count > 2) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    *ret_why = "has more than 8 addresses";
    if (n > MEMBER_HOSTS_MAX) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    for (size_t i = 0; i < n && rc == 0; i++) {
        rc = parse_host(&l, addresses[i], &role, ret_why);
    }
    if (rc == 0) {
        l.observer = role == ROLE_OBSERVER;
        *ret = l;
    }
    return rc;
}

static void print_address(struct slice host, uint16_t port, struct buf *out)
{
    bool v6 = memchr(host.data, ':', host.len) != NULL;
    buf_printf(out, v6 ? "[%.*s]:%u" : "%.*s:%u", SLICE_FMT(host), (unsigned)port);
}

void member_line_print(const struct member_line *l, bool observer, struct buf *out)
{
    assert(l->n_hosts > 0 && l->n_hosts <= MEMBER_HOSTS_MAX);
    for (size_t i = 0; i < l->n_hosts; i++) {
        if (i > 0) {
            buf_append_u8(out, '|');
        }
        print_address(l->hosts[i].host, l->hosts[i].port, out);
        buf_printf(out, ":%u", (unsigned)l->hosts[i].election_port);
    }
    buf_append_str(out, observer ? ":observer" : ":participant");
    if (l->has_client) {
        buf_append_u8(out, ';');
        print_address(l->client_host, l->client_port, out);
    }
}

/* Addresses that have another meaning on every machine. */
static bool host_is_local(struct slice host)
{
    return slice_starts_with(host, slice_str("127.")) || equal_ignoring_case(host, "localhost") ||
           slice_equal_str(host, "0.0.0.0") || slice_equal_str(host, "::") ||
           slice_equal_str(host, "::1");
}

static bool same_address(struct slice a, uint16_t a_port, struct slice b, uint16_t b_port)
{
    return a_port == b_port && slice_equal(a, b) && !host_is_local(a);
}

/* Whether this is one of the server's addresses. */
static bool line_has(const struct member_line *l, struct slice host, uint16_t port)
{
    for (size_t i = 0; i < l->n_hosts; i++) {
        const struct member_host *h = &l->hosts[i];
        if (same_address(h->host, h->port, host, port) ||
            same_address(h->host, h->election_port, host, port)) {
            return true;
        }
    }
    return l->has_client && same_address(l->client_host, l->client_port, host, port);
}

bool member_lines_clash(const struct member_line *a, const struct member_line *b)
{
    for (size_t i = 0; i < b->n_hosts; i++) {
        const struct member_host *h = &b->hosts[i];
        if (line_has(a, h->host, h->port) || line_has(a, h->host, h->election_port)) {
            return true;
        }
    }
    return b->has_client && line_has(a, b->client_host, b->client_port);
}
