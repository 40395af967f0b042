#include "net/connector.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct connector {
    uv_loop_t *loop;
    uv_getaddrinfo_t lookup;
    uv_connect_t connect;
    struct stream_buffer *read_buffer;
    struct stream *stream;  /* the attempt in progress, or NULL */
    struct addrinfo *found; /* all addresses */
    size_t count;           /* number of addresses */
    size_t tried;
    unsigned first; /* number of the first address to try */
    int error;      /* the most informative error so far (error_rank); 0: none */
    connector_fn cb;
    void *ctx;
    bool canceled;
};

static void connector_free(struct connector *c)
{
    assert(c->stream == NULL);
    if (c->found != NULL) {
        uv_freeaddrinfo(c->found);
    }
    stream_buffer_release(c->read_buffer);
    free(c);
}

static void connector_end(struct connector *c, struct stream *stream, int error)
{
    connector_fn cb = c->cb;
    void *ctx = c->ctx;
    assert((stream != NULL) == (error == 0));
    connector_free(c);
    cb(ctx, stream, error);
}

static void connector_try(struct connector *c, int error);

static void connector_on_connect(uv_connect_t *request, int status)
{
    struct connector *c = request->data;
    struct stream *s = c->stream;
    c->stream = NULL;
    if (c->canceled) {
        connector_free(c); /* connector_cancel has closed its stream */
        return;
    }
    if (status == 0) {
        connector_end(c, s, 0);
        return;
    }
    stream_close(s);
    connector_try(c, status);
}

/* NULL: all addresses were tried. */
static const struct addrinfo *connector_next(struct connector *c)
{
    const struct addrinfo *at = c->found;
    if (c->tried == c->count) {
        return NULL;
    }
    for (size_t skip = (c->first + c->tried) % c->count; skip > 0 && at != NULL; skip--) {
        at = at->ai_next;
    }
    assert(at != NULL); /* count is the length of the list */
    c->tried++;
    return at;
}

/* UV_ECONNREFUSED means that no program listens there. For the whole name that is true only if every address that this
 * machine can try refuses; it may have no addresses of a family (localhost's ::1). */
static int error_rank(int error)
{
    switch (error) {
    case 0:
        return 0;
    case UV_EADDRNOTAVAIL:
    case UV_EAFNOSUPPORT:
        return 1;
    case UV_ECONNREFUSED:
        return 2;
    default:
        return 3;
    }
}

static void connector_note(struct connector *c, int error)
{
    if (error_rank(error) > error_rank(c->error)) {
        c->error = error;
    }
}

/* Tries the next address; `error` is that of the previous one. */
static void connector_try(struct connector *c, int error)
{
    const struct addrinfo *at;
    assert(c->stream == NULL && !c->canceled && c->tried <= c->count);
    connector_note(c, error);
    while ((at = connector_next(c)) != NULL) {
        c->stream = stream_create(c->loop, c->read_buffer);
        if (c->stream == NULL) {
            connector_note(c, UV_ENOMEM);
            continue;
        }
        c->connect.data = c;
        error = uv_tcp_connect(&c->connect, (uv_tcp_t *)stream_handle(c->stream), at->ai_addr,
                               connector_on_connect);
        if (error == 0) {
            return;
        }
        stream_close(c->stream);
        c->stream = NULL;
        connector_note(c, error);
    }
    connector_end(c, NULL, c->error);
}

static void connector_on_lookup(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct connector *c = request->data;
    c->found = found;
    if (c->canceled) {
        connector_free(c);
        return;
    }
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        c->count++;
    }
    if (status != 0 || c->count == 0) {
        connector_end(c, NULL, status != 0 ? status : UV_EAI_NONAME);
        return;
    }
    connector_try(c, 0);
}

int connector_start(uv_loop_t *loop, const struct net_address *to, unsigned first,
                    struct stream_buffer *read_buffer, connector_fn cb, void *ctx,
                    struct connector **ret)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    char port[8];
    struct connector *c = calloc(1, sizeof *c);
    if (c == NULL) {
        return CONCLAVE_ENOMEM;
    }
    c->loop = loop;
    c->first = first;
    c->cb = cb;
    c->ctx = ctx;
    c->lookup.data = c;
    c->read_buffer = stream_buffer_share(read_buffer);
    snprintf(port, sizeof port, "%u", (unsigned)to->port);
    if (uv_getaddrinfo(loop, &c->lookup, connector_on_lookup, to->host, port, &hints) != 0) {
        connector_free(c);
        return CONCLAVE_ENOMEM;
    }
    *ret = c;
    return 0;
}

void connector_cancel(struct connector *c)
{
    if (c == NULL) {
        return;
    }
    c->canceled = true;
    if (c->stream != NULL) {
        stream_close(c->stream); /* ends the request, which frees c */
    } else {
        (void)uv_cancel((uv_req_t *)&c->lookup); /* if the look-up is running, its end frees c */
    }
}
