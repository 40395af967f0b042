/* conclave_uv: runs a client in the libuv loop of its program, by the client's descriptor and next deadline. */
#include <conclave/uv.h>

#include "client/handle.h"

#include <assert.h>
#include <stdlib.h>
#include <uv.h>

struct conclave_uv {
    uv_poll_t poll;   /* the client's descriptor */
    uv_timer_t timer; /* the client's next deadline */
    struct conclave_client *client;
    conclave_uv_closed_fn fn;
    void *ctx;
    int open_handles;
};

static void on_handle_closed(uv_handle_t *handle)
{
    struct conclave_uv *uv = handle->data;
    assert(uv->open_handles > 0);
    if (--uv->open_handles > 0) {
        return;
    }
    client_unref(uv->client);
    if (uv->fn != NULL) {
        uv->fn(uv->ctx);
    }
    free(uv);
}

static void close_handles(struct conclave_uv *uv)
{
    if (!uv_is_closing((uv_handle_t *)&uv->poll)) {
        uv_close((uv_handle_t *)&uv->poll, on_handle_closed);
        uv_close((uv_handle_t *)&uv->timer, on_handle_closed);
    }
}

static void uv_adapter_on_timer(uv_timer_t *timer);

static void uv_adapter_run(struct conclave_uv *uv)
{
    if (conclave_client_dispatch(uv->client) != 0) {
        close_handles(uv);
        return;
    }
    int64_t ms = conclave_client_timeout_ms(uv->client);
    if (ms < 0) {
        uv_timer_stop(&uv->timer);
    } else {
        uv_timer_start(&uv->timer, uv_adapter_on_timer, (uint64_t)ms, 0);
    }
}

static void uv_adapter_on_timer(uv_timer_t *timer)
{
    uv_adapter_run(timer->data);
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
    (void)status; /* conclave_client_dispatch reports an error of the descriptor */
    uv_adapter_run(poll->data);
}

int conclave_uv_open(struct uv_loop_s *loop, struct conclave_client *client,
                     struct conclave_uv **ret)
{
    int rc = client_check(client);
    if (rc != 0) {
        return rc;
    }
    struct conclave_uv *uv = calloc(1, sizeof *uv);
    if (uv == NULL) {
        return CONCLAVE_ENOMEM;
    }
    uv->client = client;
    if (uv_poll_init(loop, &uv->poll, conclave_client_fd(client)) != 0) {
        free(uv);
        return CONCLAVE_EIO;
    }
    uv_timer_init(loop, &uv->timer);
    uv->poll.data = uv->timer.data = uv;
    uv->open_handles = 2;
    client_ref(client); /* its descriptor stays open as long as libuv polls it */
    if (uv_poll_start(&uv->poll, UV_READABLE, on_readable) != 0) {
        close_handles(uv); /* frees uv from the loop */
        return CONCLAVE_EIO;
    }
    *ret = uv;
    return 0;
}

void conclave_uv_close(struct conclave_uv *uv, int64_t timeout_ms, conclave_uv_closed_fn fn,
                       void *ctx)
{
    uv->fn = fn;
    uv->ctx = ctx;
    handle_begin_close(uv->client, timeout_ms);
    uv_timer_start(&uv->timer, uv_adapter_on_timer, 0, 0);
}
