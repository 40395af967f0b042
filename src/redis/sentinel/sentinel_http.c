#include "redis/sentinel/sentinel_http.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The value of server=, the first parameter of a target, with %XX decoded. False: there is none. */
static bool server_of(struct slice target, char ret[REDIS_ADDRESS_SIZE])
{
    static const char NAME[] = "?server=";
    const uint8_t *end = target.data + target.len;
    const uint8_t *from = memchr(target.data, '?', target.len);
    size_t len = 0;
    if (from == NULL ||
        !slice_starts_with(slice_make(from, (size_t)(end - from)), slice_str(NAME))) {
        return false;
    }
    from += sizeof NAME - 1;
    while (from < end && *from != '&' && len + 1 < REDIS_ADDRESS_SIZE) {
        char digits[3] = {0};
        char *after = digits;
        if (*from == '%' && end - from > 2) {
            memcpy(digits, from + 1, 2);
        }
        long byte = strtol(digits, &after, 16);
        bool decoded = after == digits + 2 && byte > 0;
        ret[len++] = decoded ? (char)byte : (char)*from;
        from += decoded ? 3 : 1;
    }
    ret[len] = '\0';
    return len > 0;
}

static void http_answer_text(struct buf *out, bool body, const char *status, const char *text)
{
    buf_printf(out,
               "HTTP/1.1 %s\r\nContent-Type: text/plain\r\nCache-Control: no-store\r\n"
               "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
               status, strlen(text), body ? text : "");
}

/* What follows "/redis/NAME/" in a target, without its query; "" for another path. */
static struct slice http_resource(struct slice target, const char *name)
{
    static const char ROOT[] = "/redis/";
    const uint8_t *query = memchr(target.data, '?', target.len);
    size_t len = query != NULL ? (size_t)(query - target.data) : target.len;
    size_t before = sizeof ROOT - 1 + strlen(name) + 1;
    struct slice path = slice_make(target.data, len);
    bool fits = len > before && slice_starts_with(path, slice_str(ROOT)) &&
                memcmp(path.data + sizeof ROOT - 1, name, strlen(name)) == 0 &&
                path.data[before - 1] == '/';
    return fits ? slice_make(path.data + before, len - before) : slice_str("");
}

void sentinel_http(struct sentinel_session *s, const struct sentinel_request *request,
                   struct buf *out)
{
    struct sentinel_facts facts;
    char server[REDIS_ADDRESS_SIZE] = "";
    assert(request->count == 3);
    bool body = !slice_equal_str(request->words[0], "HEAD");
    struct slice target = request->words[1];
    s->backend->facts(s->backend->ctx, &facts);
    struct slice resource = http_resource(target, facts.name);
    bool asks = server_of(target, server);
    bool any = memchr(target.data, '?', target.len) == NULL; /* whether there is any master */
    int node = redis_config_find(facts.config, server);
    if (body && !slice_equal_str(request->words[0], "GET") &&
        !slice_equal_str(request->words[0], "OPTIONS")) {
        http_answer_text(out, true, "405 Method Not Allowed", "GET, HEAD or OPTIONS\n");
    } else if (slice_equal_str(resource, "master") && (any || (asks && node != REDIS_NONE))) {
        bool is = facts.writable && (any || sentinel_master(&facts) == node);
        http_answer_text(out, body, is ? "200 OK" : "503 Service Unavailable",
                         is                 ? "master\n"
                         : facts.in_contact ? "not the master\n"
                                            : "no contact to the ensemble\n");
    } else if (slice_equal_str(resource, "replica") && asks && node != REDIS_NONE) {
        bool is = facts.in_contact && facts.nodes[node].state == REDIS_NODE_UP &&
                  sentinel_is_replica(&facts, node);
        http_answer_text(out, body, is ? "200 OK" : "503 Service Unavailable",
                         is ? "replica\n" : "no usable replica\n");
    } else {
        http_answer_text(
            out, body, "404 Not Found",
            "/redis/NAME/master?server=HOST:PORT or /redis/NAME/replica?server=HOST:PORT\n");
    }
}
