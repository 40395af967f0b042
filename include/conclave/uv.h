/*
 * A client in a libuv loop: all callbacks run in the loop's thread.
 *
 *   struct conclave_uv *uv;
 *   conclave_client_open(&options, &client);
 *   conclave_uv_open(loop, client, &uv);
 *   ... uv_run(loop, UV_RUN_DEFAULT) ...
 *   conclave_uv_close(uv, 1000, on_closed, ctx);
 *
 * The program links libuv itself: pkg-config --libs conclave libuv.
 */
#ifndef CONCLAVE_UV_H
#define CONCLAVE_UV_H

#include <conclave/client.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uv_loop_s; /* uv_loop_t */
struct conclave_uv;

typedef void (*conclave_uv_closed_fn)(void *ctx);

/* Runs an open client that was not started in the loop. The loop must live until fn of
 * conclave_uv_close was called. 0, CONCLAVE_ENOMEM, CONCLAVE_EIO (libuv refused), CONCLAVE_EFORK.
 * On failure the client is unchanged. */
CONCLAVE_API int conclave_uv_open(struct uv_loop_s *loop, struct conclave_client *client,
                                  struct conclave_uv **ret) CONCLAVE_MUST_USE;

/* Closes the client as conclave_client_close does, but without blocking the loop, frees it and
 * the adapter, and then calls fn (may be NULL) from the loop. Once, in the loop's thread, also
 * from a callback of the client. */
CONCLAVE_API void conclave_uv_close(struct conclave_uv *uv, int64_t timeout_ms,
                                    conclave_uv_closed_fn fn, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
