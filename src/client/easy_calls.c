/* The requests of conclave/easy.h: an op, the call, and a copy of what the caller wants. */
#include <conclave/easy.h>

#include <assert.h>

/*
 * The answer of conclave_call is one block of memory: the struct, then its arrays, then their strings. So what the caller
 * wants is moved to the block's begin, and the block is the caller's. A create thus never loses the path of the node that
 * it made for lack of memory.
 */

static char *reply_to_bytes(struct conclave_reply *reply, const void *data, size_t len)
{
    char *bytes = (char *)reply;
    if (len > 0) {
        memmove(bytes, data, len);
    }
    bytes[len] = '\0';
    return bytes;
}

/* The strings stay where they are; the array moves down by more than the final NULL needs. */
static char **reply_to_names(struct conclave_reply *reply)
{
    const char *const *children = reply->children;
    size_t count = reply->children_count;
    char **names = (char **)reply;
    static_assert(sizeof *reply >= sizeof *names, "room for the NULL");
    if (count > 0) {
        memmove(names, children, count * sizeof *names);
    }
    names[count] = NULL;
    return names;
}

/* Sends op and returns its stat. */
static int call_for_stat(struct conclave_client *client, const struct conclave_op *op,
                         struct conclave_stat *ret_stat)
{
    struct conclave_reply *reply = NULL;
    int rc = conclave_call(client, op, ret_stat != NULL ? &reply : NULL);
    if (rc == 0 && ret_stat != NULL) {
        *ret_stat = reply->stat;
    }
    conclave_reply_free(reply);
    return rc;
}

int conclave_get(struct conclave_client *client, const char *path, char **ret_data, size_t *ret_len,
                 struct conclave_stat *ret_stat)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, path, 0);
    struct conclave_reply *reply = NULL;
    int rc = conclave_call(client, &op, &reply);
    if (rc == 0 && ret_len != NULL) {
        *ret_len = reply->data_len;
    }
    if (rc == 0 && ret_stat != NULL) {
        *ret_stat = reply->stat;
    }
    if (rc == 0 && ret_data != NULL) {
        *ret_data = reply_to_bytes(reply, reply->data, reply->data_len);
        reply = NULL;
    }
    conclave_reply_free(reply);
    return rc;
}

int conclave_get_async(struct conclave_client *client, const char *path, conclave_reply_fn fn,
                       void *ctx)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, path, 0);
    return conclave_submit(client, &op, fn, ctx);
}

int conclave_set(struct conclave_client *client, const char *path, const void *data, size_t len,
                 int32_t version, struct conclave_stat *ret_stat)
{
    struct conclave_op op = conclave_op_set(path, data, len, version);
    return call_for_stat(client, &op, ret_stat);
}

int conclave_set_async(struct conclave_client *client, const char *path, const void *data,
                       size_t len, int32_t version, conclave_reply_fn fn, void *ctx)
{
    struct conclave_op op = conclave_op_set(path, data, len, version);
    return conclave_submit(client, &op, fn, ctx);
}

int conclave_create(struct conclave_client *client, const char *path, const void *data, size_t len,
                    enum conclave_create_mode mode, char **ret_path)
{
    struct conclave_op op = conclave_op_create(path, data, len, mode);
    struct conclave_reply *reply = NULL;
    int rc = conclave_call(client, &op, ret_path != NULL ? &reply : NULL);
    if (rc == 0 && ret_path != NULL) {
        *ret_path = reply_to_bytes(reply, reply->path, strlen(reply->path));
        reply = NULL;
    }
    conclave_reply_free(reply);
    return rc;
}

int conclave_create_async(struct conclave_client *client, const char *path, const void *data,
                          size_t len, enum conclave_create_mode mode, conclave_reply_fn fn,
                          void *ctx)
{
    struct conclave_op op = conclave_op_create(path, data, len, mode);
    return conclave_submit(client, &op, fn, ctx);
}

int conclave_delete(struct conclave_client *client, const char *path, int32_t version)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, path, version);
    return call_for_stat(client, &op, NULL);
}

int conclave_delete_async(struct conclave_client *client, const char *path, int32_t version,
                          conclave_reply_fn fn, void *ctx)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_DELETE, path, version);
    return conclave_submit(client, &op, fn, ctx);
}

int conclave_exists(struct conclave_client *client, const char *path,
                    struct conclave_stat *ret_stat)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    return call_for_stat(client, &op, ret_stat);
}

int conclave_exists_async(struct conclave_client *client, const char *path, conclave_reply_fn fn,
                          void *ctx)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    return conclave_submit(client, &op, fn, ctx);
}

int conclave_children(struct conclave_client *client, const char *path, char ***ret_names,
                      size_t *ret_count)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, path, 0);
    struct conclave_reply *reply = NULL;
    int rc = conclave_call(client, &op, &reply);
    if (rc == 0 && ret_count != NULL) {
        *ret_count = reply->children_count;
    }
    if (rc == 0 && ret_names != NULL) {
        *ret_names = reply_to_names(reply);
        reply = NULL;
    }
    conclave_reply_free(reply);
    return rc;
}

int conclave_children_async(struct conclave_client *client, const char *path, conclave_reply_fn fn,
                            void *ctx)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, path, 0);
    return conclave_submit(client, &op, fn, ctx);
}
