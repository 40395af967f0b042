/* Questions about a registry that are asked once: the names of its services, one instance by its id. */
#include "recipes/group/service_instance.h"

#include "client/core/path.h"
#include "recipes/engine/blocking_requests.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/recipe_runtime.h"

#include <stdlib.h>
#include <string.h>

static int names_compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int conclave_service_names(struct conclave_recipes *rt, const char *path, int64_t timeout_ms,
                           char ***ret, size_t *ret_count)
{
    struct conclave_reply *reply = NULL;
    int error = recipes_may_block(rt);
    if (error == 0 && (path == NULL || !path_is_valid(path, false))) {
        error = CONCLAVE_EINVAL;
    }
    if (error != 0) {
        return error;
    }
    struct blocking b = blocking_begin(rt->client, timeout_ms);
    error = blocking_ask(&b, CONCLAVE_OP_GET_CHILDREN, path, &reply);
    if (error == 0 || error == CONCLAVE_NO_NODE) {
        size_t count = error == 0 ? reply->children_count : 0;
        char **list = texts_copy(error == 0 ? reply->children : NULL, count);
        error = list == NULL ? CONCLAVE_ENOMEM : 0;
        if (list != NULL) {
            qsort(list, count, sizeof *list, names_compare);
            *ret = list;
            *ret_count = count;
        }
    }
    conclave_reply_free(reply);
    return error;
}

void conclave_service_names_free(char **list, size_t count)
{
    free(list);
}

static int instance_of(const struct conclave_reply *reply, struct conclave_instance **ret)
{
    struct conclave_instance found;
    char *block;
    int error = instance_read(reply->data, reply->data_len, &found, &block);
    if (error == 0) {
        found.token.czxid = reply->stat.czxid;
        *ret = instance_copy(&found);
        error = *ret == NULL ? CONCLAVE_ENOMEM : 0;
        free(block);
    }
    return error;
}

int conclave_service_instance(struct conclave_recipes *rt, const char *path, const char *name,
                              const char *id, int64_t timeout_ms, struct conclave_instance **ret)
{
    struct conclave_reply *reply = NULL;
    int error = recipes_may_block(rt);
    if (error == 0 &&
        (path == NULL || !path_is_valid(path, false) || name == NULL || name[0] == '\0' ||
         strchr(name, '/') != NULL || id == NULL || id[0] == '\0' || strchr(id, '/') != NULL)) {
        error = CONCLAVE_EINVAL;
    }
    if (error != 0) {
        return error;
    }
    char *service = path_join(path, name);
    char *node = service == NULL ? NULL : path_join(service, id);
    error = node == NULL ? CONCLAVE_ENOMEM : 0;
    if (error == 0) {
        struct blocking b = blocking_begin(rt->client, timeout_ms);
        error = blocking_ask(&b, CONCLAVE_OP_GET, node, &reply);
    }
    if (error == 0) {
        error = instance_of(reply, ret);
    }
    conclave_reply_free(reply);
    free(service);
    free(node);
    return error;
}
