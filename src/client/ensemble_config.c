#include "client/ensemble_config.h"

#include <ctype.h>

/* Cuts text at the first c: returns the part before it (all of it if there is none); text keeps what follows. */
static struct slice cut(struct slice *text, char c)
{
    const uint8_t *at = text->len > 0 ? memchr(text->data, c, text->len) : NULL;
    size_t len = at != NULL ? (size_t)(at - text->data) : text->len;
    struct slice head = slice_make(text->data, len);
    size_t skip = at != NULL ? len + 1 : len;
    *text = slice_make(text->data + skip, text->len - skip);
    return head;
}

/* The host of "host:rest" or "[v6]:rest", with its brackets; text keeps the rest. */
static struct slice cut_host(struct slice *text)
{
    if (text->len == 0 || text->data[0] != '[') {
        return cut(text, ':');
    }
    struct slice host = cut(text, ']');
    if (text->len > 0 && text->data[0] == ':') {
        *text = slice_make(text->data + 1, text->len - 1);
    }
    return slice_make(host.data, host.len + 1);
}

static bool is_every_interface(struct slice host)
{
    static const char *const names[] = {"", "0.0.0.0", "[::]", "[0:0:0:0:0:0:0:0]", "*"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (slice_equal_str(host, names[i])) {
            return true;
        }
    }
    return false;
}

static bool is_number(struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!isdigit(text.data[i])) {
            return false;
        }
    }
    return text.len > 0;
}

/* Appends the client address of one line, if it is a member that has one. */
static void append_member(struct slice line, struct buf *ret)
{
    if (!slice_starts_with(line, slice_str("server."))) {
        return;
    }
    (void)cut(&line, '=');
    struct slice peer = cut(&line, ';');
    if (line.len > 0 && line.data[line.len - 1] == '\r') {
        line.len--;
    }
    struct slice client = line;
    struct slice host = SLICE_NULL;
    if (!is_number(client)) {
        host = cut_host(&client);
    }
    if (is_every_interface(host)) {
        struct slice first = cut(&peer, '|'); /* a member may have several addresses */
        host = cut_host(&first);
    }
    if (host.len == 0 || !is_number(client)) {
        return;
    }
    if (ret->len > 0) {
        buf_append(ret, ",", 1);
    }
    buf_append_slice(ret, host);
    buf_append(ret, ":", 1);
    buf_append_slice(ret, client);
}

int ensemble_config_servers(struct slice text, struct buf *ret)
{
    while (text.len > 0) {
        append_member(cut(&text, '\n'), ret);
    }
    if (buf_ok(ret) && ret->len == 0) {
        return CONCLAVE_EEMPTY;
    }
    buf_append(ret, "", 1);
    return buf_ok(ret) ? 0 : CONCLAVE_ENOMEM;
}
