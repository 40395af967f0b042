/* Writing a configuration: a shared value that is opened for one write. */
#include "client/core/sized.h"
#include "recipes/engine/recipe_runtime.h"

#include <conclave/config.h>
#include <conclave/counter.h>

/* The version that is there now. */
static int version_now(struct conclave_shared *shared, int64_t timeout_ms, int32_t *ret)
{
    struct conclave_shared_value *value;
    int error = conclave_shared_get(shared, timeout_ms, &value);
    if (error == 0) {
        *ret = value->version;
        conclave_shared_value_free(value);
    }
    return error;
}

static int64_t config_put_left_ms(const struct conclave_client *client, int64_t deadline_ns)
{
    if (deadline_ns == CONCLAVE_FOREVER) {
        return CONCLAVE_FOREVER;
    }
    int64_t left = deadline_ns - client_now_ns(client);
    return left > 0 ? left / 1000000 : 0;
}

static int put(struct conclave_client *client, struct conclave_shared *shared, const void *data,
               size_t len, int32_t expected, int64_t deadline_ns, struct conclave_shared_value *ret)
{
    bool any = expected == CONCLAVE_CONFIG_ANY;
    int error;
    do {
        error = any ? version_now(shared, config_put_left_ms(client, deadline_ns), &expected) : 0;
        if (error == 0) {
            error = conclave_shared_set(shared, data, len, expected,
                                        config_put_left_ms(client, deadline_ns), ret);
        }
    } while (any && (error == CONCLAVE_BAD_VERSION || error == CONCLAVE_NODE_EXISTS ||
                     error == CONCLAVE_NO_NODE));
    return error;
}

int conclave_config_put(struct conclave_recipes *rt, const char *path, const void *data, size_t len,
                        int32_t expected_version, int64_t timeout_ms,
                        struct conclave_config_written *ret)
{
    struct conclave_shared_options options = CONCLAVE_SHARED_OPTIONS_INIT;
    struct conclave_shared_value value = CONCLAVE_SHARED_VALUE_INIT;
    struct conclave_shared *shared;
    int64_t deadline_ns = client_deadline_ns(rt->client, timeout_ms);
    int error = sized_can_write(ret) ? recipes_may_block(rt) : CONCLAVE_EINVAL;
    options.path = path;
    if (error == 0) {
        error = conclave_shared_open(rt, &options, NULL, NULL, &shared);
    }
    if (error != 0) {
        return error;
    }
    error = put(rt->client, shared, data, len, expected_version, deadline_ns, &value);
    /* It ends soon, or with the session: the handle must be gone when this returns. */
    (void)conclave_shared_close_wait(shared, CONCLAVE_FOREVER);
    conclave_shared_destroy(shared);
    if (error == 0 && ret != NULL) {
        struct conclave_config_written written = {sizeof written, value.version, value.mzxid};
        sized_write(ret, &written);
    }
    return error;
}
