#include "admin/acts/node_acts.h"

#include "state/query.h"
#include "tree/path.h"
#include "wire/java_number.h"

#include <stdio.h>
#include <string.h>

static const struct node_act acts[] = {
    {"set", "setData", "write, by the node's ACL", WIRE_SET_DATA, true, false},
    {"create", "create", "create, by the ACL of the node above", WIRE_CREATE, true, true},
    {"delete", "delete", "delete, by the ACL of the node above", WIRE_DELETE, false, true},
};

const struct node_act *node_act_find(const char *name)
{
    for (size_t i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        if (strcmp(acts[i].name, name) == 0) {
            return &acts[i];
        }
    }
    return NULL;
}

/* Encoding */

static bool number_argument(const struct http_request *request, const char *name, int64_t max,
                            int64_t *ret)
{
    const char *text = http_argument(request, name);
    return text != NULL && java_number_parse(slice_str(text), ret) && *ret >= 0 && *ret <= max;
}

/* The node above. */
static struct slice path_above(struct slice path)
{
    size_t at = path_last_slash(path);
    return slice_make(path.data, at > 0 ? at : 1);
}

static void add_entry(struct buf *list, int32_t *count, int32_t perms, const char *scheme,
                      const char *id)
{
    const struct wire_acl entry = {.perms = perms, .id = {slice_str(scheme), slice_str(id)}};
    wire_encode_acl(list, &entry);
    (*count)++;
}

/* The list of a new node. 0, or a status and why. */
static unsigned choose_acl(const struct state *state, const char *choice, struct slice path,
                           struct buf *list, struct wire_vector *ret, const char **ret_why)
{
    int32_t count = 0;
    if (choice == NULL || strcmp(choice, "parent") == 0) {
        const struct znode *parent = state_node(state, path_above(path));
        if (parent == NULL) {
            *ret_why = "The node above does not exist: create it first.";
            return 404;
        }
        *ret = state_node_acl(state, parent);
        if (ret->count > 0) {
            return 0;
        }
        choice = "open"; /* no list permits everything, but a new node needs one */
    }
    bool read = strcmp(choice, "read") == 0;
    if (strcmp(choice, "open") == 0) {
        add_entry(list, &count, WIRE_PERM_ALL, "world", "anyone");
    } else if (read || strcmp(choice, "own") == 0) {
        add_entry(list, &count, WIRE_PERM_ALL, "auth", "");
        if (read) {
            add_entry(list, &count, WIRE_PERM_READ, "world", "anyone");
        }
    } else {
        *ret_why = "The argument acl is parent, open, read or own.";
        return 400;
    }
    *ret = wire_vector_make(list, count);
    return 0;
}

static unsigned encode_create(const struct state *state, const struct http_request *request,
                              struct slice path, struct buf *out, const char **ret_why)
{
    struct wire_create_request r = {
        .path = path, .data = request->body, .flags = WIRE_MODE_PERSISTENT};
    struct buf list;
    buf_init(&list, 0);
    unsigned status =
        choose_acl(state, http_argument(request, "acl"), path, &list, &r.acl, ret_why);
    if (status == 0) {
        wire_encode_create_request(out, &r);
        out->failed |= list.failed;
    }
    buf_finish(&list);
    return status;
}

static unsigned encode_delete(const struct state *state, const struct http_request *request,
                              struct slice path, struct buf *out, const char **ret_why)
{
    struct wire_delete_request r = {.path = path, .version = -1};
    int64_t number;
    if (number_argument(request, "czxid", INT64_MAX, &number)) {
        const struct znode *node = state_node(state, path);
        if (node == NULL || node->czxid != number) {
            *ret_why = "This node is gone, or another one has its name by now: look again.";
            return 409;
        }
        r.version = node->version;
    } else if (number_argument(request, "version", INT32_MAX, &number)) {
        r.version = (int32_t)number;
    } else {
        *ret_why = "delete needs the argument version or czxid.";
        return 400;
    }
    wire_encode_delete_request(out, &r);
    return 0;
}

unsigned node_act_encode(const struct node_act *act, const struct state *state,
                         const struct http_request *request, struct buf *out, const char **ret_why)
{
    struct slice path = slice_str(http_argument(request, "path"));
    int64_t version = -1;
    unsigned status = 0;
    if (slice_is_null(path) || !path_valid(path)) {
        *ret_why = "This is no path of a node: it begins with / and has names between single /.";
        return 400;
    }
    if (path.len == 1 && act->of_parent) {
        *ret_why = "The node / can be neither created nor deleted.";
        return 400;
    }
    if (act->type == WIRE_CREATE) {
        status = encode_create(state, request, path, out, ret_why);
    } else if (act->type == WIRE_DELETE) {
        status = encode_delete(state, request, path, out, ret_why);
    } else if (!number_argument(request, "version", INT32_MAX, &version)) {
        *ret_why = "set needs the argument version.";
        status = 400;
    } else {
        const struct wire_set_data_request r = {path, request->body, (int32_t)version};
        wire_encode_set_data_request(out, &r);
    }
    if (status == 0 && !buf_ok(out)) {
        *ret_why = "Out of memory: try again.";
        status = 503;
    }
    return status;
}

/* Answers */

static const struct outcome {
    int err;
    unsigned status;
    const char *text;
} outcomes[] = {
    {CONCLAVE_BAD_VERSION, 409,
     "Not done: somebody else has changed this node meanwhile. Refresh, look at the new data, then "
     "do it again."},
    {CONCLAVE_NODE_EXISTS, 409, "Not done: there is a node of this name already."},
    {CONCLAVE_NOT_EMPTY, 409, "Not done: the node has children. Delete them first."},
    {CONCLAVE_NO_CHILDREN_FOR_EPHEMERALS, 409,
     "Not done: the node above is ephemeral, and such nodes have no children."},
    {CONCLAVE_QUOTA_EXCEEDED, 409,
     "Not done: a quota of this branch or maxDataBytes is reached. Delete something, or raise it."},
    {CONCLAVE_INVALID_ACL, 400,
     "Not done: the ACL is not valid, or longer than this server allows."},
    {CONCLAVE_BAD_ARGUMENTS, 400,
     "Not done: the path is not valid, longer than allowed, or of a node that cannot be changed."},
    {CONCLAVE_THROTTLED, 503, "Not done: the server has too many requests in progress. Try again."},
    {CONCLAVE_CONNECTION_LOSS, 503,
     "Not done: this server has no leader with a quorum now. Try again when it has."},
};

void node_act_answer(const struct node_act *act, int err, bool fenced,
                     struct http_response *response)
{
    if (err == 0) {
        response->content_type = "application/json";
        buf_append_str(&response->body, "{}");
        return;
    }
    response->content_type = "text/plain; charset=utf-8";
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        if (outcomes[i].err == err) {
            response->status = outcomes[i].status;
            buf_printf(&response->body, "%s\n", outcomes[i].text);
            return;
        }
    }
    if (err == CONCLAVE_NO_NODE) {
        response->status = 404;
        buf_printf(&response->body, "Not done: %s\n",
                   act->type == WIRE_CREATE ? "the node above does not exist. Create it first."
                                            : "the node does not exist any more.");
    } else if (err == CONCLAVE_NO_AUTH && fenced) {
        response->status = 403;
        buf_append_str(&response->body, "Not done: this branch is bound to a lock, and only the "
                                        "holder of that lock may write (fencing).\n");
    } else if (err == CONCLAVE_NO_AUTH) {
        response->status = 403;
        buf_printf(&response->body,
                   "Not permitted: you lack the permission %s. Sign in with an identity that has "
                   "it, or have the ACL changed.\n",
                   act->right);
    } else {
        response->status = 503;
        buf_printf(&response->body, "Not done: %s (%s).\n", conclave_strerror(err),
                   conclave_errname(err));
    }
}
