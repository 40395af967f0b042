/*
 * Requests for one node in one line, without a struct conclave_op.
 *
 * Each function exists twice. The first form waits for the answer; it returns 0, an error of
 * conclave_call or the server's (CONCLAVE_NO_NODE, ...), and leaves the ret_ arguments untouched
 * unless it returns 0. Each ret_ argument may be NULL. The second form, with _async, gives the
 * answer to fn; its errors are those of conclave_submit.
 *
 * For watches, ACLs, TTLs, timeouts, transactions and linearizable reads use conclave/op.h.
 */
#ifndef CONCLAVE_EASY_H
#define CONCLAVE_EASY_H

#include <conclave/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Reads a node. *ret_data is yours: free it with free(). A NUL follows its *ret_len bytes and does
 * not count, so text is a string; a node without data gives "". The data that fn gets end with such
 * a NUL, too. */
CONCLAVE_API int conclave_get(struct conclave_client *client, const char *path, char **ret_data,
                              size_t *ret_len, struct conclave_stat *ret_stat) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_get_async(struct conclave_client *client, const char *path,
                                    conclave_reply_fn fn, void *ctx) CONCLAVE_MUST_USE;

/* Replaces a node's data. version: expected version of the data, otherwise CONCLAVE_BAD_VERSION;
 * -1: any. */
CONCLAVE_API int conclave_set(struct conclave_client *client, const char *path, const void *data,
                              size_t len, int32_t version,
                              struct conclave_stat *ret_stat) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_set_async(struct conclave_client *client, const char *path,
                                    const void *data, size_t len, int32_t version,
                                    conclave_reply_fn fn, void *ctx) CONCLAVE_MUST_USE;

/* Creates a node with the client's ACL. Its parent must exist. *ret_path is the path made, with the
 * number of a sequential node; it is yours: free it with free(). */
CONCLAVE_API int conclave_create(struct conclave_client *client, const char *path, const void *data,
                                 size_t len, enum conclave_create_mode mode,
                                 char **ret_path) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_create_async(struct conclave_client *client, const char *path,
                                       const void *data, size_t len, enum conclave_create_mode mode,
                                       conclave_reply_fn fn, void *ctx) CONCLAVE_MUST_USE;

/* Deletes a node without children. version as for conclave_set. */
CONCLAVE_API int conclave_delete(struct conclave_client *client, const char *path,
                                 int32_t version) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_delete_async(struct conclave_client *client, const char *path,
                                       int32_t version, conclave_reply_fn fn,
                                       void *ctx) CONCLAVE_MUST_USE;

/* Whether a node exists: 0, or CONCLAVE_NO_NODE. */
CONCLAVE_API int conclave_exists(struct conclave_client *client, const char *path,
                                 struct conclave_stat *ret_stat) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_exists_async(struct conclave_client *client, const char *path,
                                       conclave_reply_fn fn, void *ctx) CONCLAVE_MUST_USE;

/* The names of a node's children, without its path, in the server's order. *ret_names has
 * *ret_count names and a NULL behind them, all in one block of memory that is yours: one
 * free(*ret_names) frees it. */
CONCLAVE_API int conclave_children(struct conclave_client *client, const char *path,
                                   char ***ret_names, size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API int conclave_children_async(struct conclave_client *client, const char *path,
                                         conclave_reply_fn fn, void *ctx) CONCLAVE_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
