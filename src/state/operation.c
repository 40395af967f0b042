/* One operation of a request, alone or in a multi: decodes its record, applies it, appends its reply. */
#include "state/state_internal.h"

/* A create's record is that of a createTTL without the ttl. */
static int decode_create(struct wire_reader *r, struct wire_create_ttl_request *ret)
{
    struct wire_create_request create;
    if (wire_decode_create_request(r, &create) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    *ret = (struct wire_create_ttl_request){create.path, create.data, create.acl, create.flags, -1};
    return 0;
}

int operation_decode(struct wire_reader *r, int32_t type, struct operation *ret)
{
    ret->type = type;
    switch (type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
        return decode_create(r, &ret->u.create);
    case WIRE_CREATE_TTL:
        return wire_decode_create_ttl_request(r, &ret->u.create);
    case WIRE_DELETE_CONTAINER:
        return spent_decode(wire_rest(r), &ret->u.spent);
    case WIRE_DELETE:
        return wire_decode_delete_request(r, &ret->u.delete);
    case WIRE_SET_DATA:
        return wire_decode_set_data_request(r, &ret->u.set_data);
    case WIRE_SET_ACL:
        return wire_decode_set_acl_request(r, &ret->u.set_acl);
    case WIRE_RECONFIG:
        return wire_decode_reconfig_request(r, &ret->u.reconfig);
    default:
        return CONCLAVE_UNIMPLEMENTED;
    }
}

/* In a multi, the mode decides the kind of a create, and is checked when the request is decoded, except in the record
 * with a TTL: see Op.create, CreateOptions and MultiOperationRecord of ZooKeeper. */
static int finish_create_part(struct operation *op)
{
    const struct wire_create_ttl_request *create = &op->u.create;
    bool ttl_record = op->type == WIRE_CREATE_TTL;
    bool mode_known = create->flags >= WIRE_MODE_PERSISTENT && create->flags <= WIRE_MODE_CONTAINER;
    if (slice_is_null(create->path) || (!ttl_record && (!mode_known || create->acl.count < 0))) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (create->flags == WIRE_MODE_CONTAINER) {
        op->type = WIRE_CREATE_CONTAINER;
    } else if (ttl_record && !mode_has_ttl(create->flags)) {
        op->type = WIRE_CREATE;
    }
    return 0;
}

int operation_decode_part(struct wire_reader *r, int32_t type, struct operation *ret)
{
    int rc;
    struct slice path;
    ret->type = type;
    switch (type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
        rc = decode_create(r, &ret->u.create);
        return rc != 0 ? rc : finish_create_part(ret);
    case WIRE_CREATE_TTL:
        rc = wire_decode_create_ttl_request(r, &ret->u.create);
        return rc != 0 ? rc : finish_create_part(ret);
    case WIRE_DELETE:
        rc = wire_decode_delete_request(r, &ret->u.delete);
        path = ret->u.delete.path;
        break;
    case WIRE_SET_DATA:
        rc = wire_decode_set_data_request(r, &ret->u.set_data);
        path = ret->u.set_data.path;
        break;
    case WIRE_CHECK:
        rc = wire_decode_check_version_request(r, &ret->u.check);
        path = ret->u.check.path;
        break;
    default:
        return CONCLAVE_MARSHALLING_ERROR;
    }
    return rc == 0 && slice_is_null(path) ? CONCLAVE_MARSHALLING_ERROR : rc;
}

static void reply_path(struct buf *reply, const struct znode *node)
{
    wire_write_i32(reply, (int32_t)znode_path_len(node));
    znode_append_path(node, reply);
}

static int run_create(struct write *w, const struct operation *op)
{
    struct znode *node;
    int rc = write_create(w, op->type, &op->u.create, &node);
    if (rc == 0) {
        reply_path(&w->effects->reply, node);
        if (op->type != WIRE_CREATE) {
            znode_append_stat(node, &w->effects->reply);
        }
        write_created(w, node);
    }
    return rc;
}

int operation_run(struct write *w, const struct operation *op)
{
    struct znode *node;
    int rc;
    switch (op->type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL:
        return run_create(w, op);
    case WIRE_DELETE_CONTAINER:
        return write_collect(w, &op->u.spent);
    case WIRE_RECONFIG:
        return write_reconfig(w, &op->u.reconfig);
    case WIRE_DELETE:
        return write_delete(w, &op->u.delete);
    case WIRE_CHECK:
        return write_check(w, &op->u.check);
    case WIRE_SET_DATA:
        rc = write_set_data(w, &op->u.set_data, &node);
        break;
    case WIRE_SET_ACL:
        rc = write_set_acl(w, &op->u.set_acl, &node);
        break;
    default:
        return CONCLAVE_UNIMPLEMENTED;
    }
    if (rc == 0) {
        znode_append_stat(node, &w->effects->reply);
    }
    return rc;
}
