#include "net/listener.h"

#include <stdlib.h>
#include <string.h>

struct listener {
    uv_tcp_t tcp;
    struct listener_callbacks callbacks;
    struct net_address address;
    void (*closed)(void *ctx);
    void *closed_ctx;
    struct stream_buffer *read_buffer; /* shared with all its streams */
};

static void listener_on_close(uv_handle_t *handle)
{
    struct listener *l = handle->data;
    if (l->closed != NULL) {
        l->closed(l->closed_ctx);
    }
    stream_buffer_release(l->read_buffer);
    free(l);
}

static int listener_error(int uv_error)
{
    switch (uv_error) {
    case UV_EADDRINUSE:
        return CONCLAVE_EBUSY;
    case UV_ENOMEM:
        return CONCLAVE_ENOMEM;
    default:
        return CONCLAVE_EIO;
    }
}

static int listener_bind(struct listener *l, const struct net_address *address)
{
    struct sockaddr_storage sa;
    if (net_address_resolve(address, &sa) != 0) {
        return UV_EAI_NONAME;
    }
    int rc = uv_tcp_bind(&l->tcp, (const struct sockaddr *)&sa, 0);
    if (rc != 0) {
        return rc;
    }
    /* libuv reports "address in use" only in the next call. */
    int len = sizeof sa;
    rc = uv_tcp_getsockname(&l->tcp, (struct sockaddr *)&sa, &len);
    if (rc == 0) {
        net_address_of((const struct sockaddr *)&sa, &l->address);
    }
    return rc;
}

static int listener_try(uv_loop_t *loop, const struct net_address *address, struct listener **ret)
{
    struct listener *l = calloc(1, sizeof *l);
    if (l == NULL || (l->read_buffer = stream_buffer_create()) == NULL) {
        free(l);
        return UV_ENOMEM;
    }
    int rc = uv_tcp_init(loop, &l->tcp);
    if (rc != 0) {
        stream_buffer_release(l->read_buffer);
        free(l);
        return rc;
    }
    l->tcp.data = l;
    rc = listener_bind(l, address);
    if (rc != 0) {
        uv_close((uv_handle_t *)&l->tcp, listener_on_close);
        return rc;
    }
    *ret = l;
    return 0;
}

int listener_open(uv_loop_t *loop, const struct net_address *address, struct listener **ret,
                  int *ret_detail)
{
    int rc = listener_try(loop, address, ret);
    if ((rc == UV_EAFNOSUPPORT || rc == UV_EADDRNOTAVAIL || rc == UV_EAI_NONAME) &&
        address->host[0] == '\0') {
        struct net_address v4 = {.host = "0.0.0.0", .port = address->port};
        rc = listener_try(loop, &v4, ret);
    }
    *ret_detail = rc;
    if (rc == UV_EAI_NONAME) {
        return CONCLAVE_ERESOLVE;
    }
    return rc == 0 ? 0 : listener_error(rc);
}

static void listener_on_connection(uv_stream_t *handle, int status)
{
    struct listener *l = handle->data;
    if (status != 0) {
        l->callbacks.refused(l->callbacks.ctx, status);
        return;
    }
    struct stream *s = stream_create(l->tcp.loop, l->read_buffer);
    if (s == NULL) {
        l->callbacks.refused(l->callbacks.ctx, UV_ENOMEM);
        return;
    }
    int rc = uv_accept(handle, stream_handle(s));
    if (rc != 0) {
        stream_close(s);
        l->callbacks.refused(l->callbacks.ctx, rc);
        return;
    }
    l->callbacks.accepted(l->callbacks.ctx, s);
}

int listener_start(struct listener *l, int backlog, const struct listener_callbacks *callbacks,
                   int *ret_detail)
{
    l->callbacks = *callbacks;
    *ret_detail = uv_listen((uv_stream_t *)&l->tcp, backlog, listener_on_connection);
    return *ret_detail == 0 ? 0 : listener_error(*ret_detail);
}

void listener_address(const struct listener *l, struct net_address *ret)
{
    *ret = l->address;
}

void listener_close(struct listener *l, void (*cb)(void *ctx), void *ctx)
{
    if (l == NULL) {
        return;
    }
    l->closed = cb;
    l->closed_ctx = ctx;
    uv_close((uv_handle_t *)&l->tcp, listener_on_close);
}
