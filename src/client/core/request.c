#include "client/core/request.h"

#include "client/core/acl.h"
#include "client/core/path.h"
#include "client/core/sized.h"

#include <assert.h>
#include <stdlib.h>

static bool create_mode_is_sequential(enum conclave_create_mode mode)
{
    return mode == CONCLAVE_PERSISTENT_SEQUENTIAL || mode == CONCLAVE_EPHEMERAL_SEQUENTIAL;
}

static bool ttl_is_valid(const struct conclave_op *op)
{
    bool lasting = op->mode == CONCLAVE_PERSISTENT || op->mode == CONCLAVE_PERSISTENT_SEQUENTIAL;
    return op->ttl_ms == 0 || (lasting && op->ttl_ms > 0 && op->ttl_ms <= CONCLAVE_TTL_MAX_MS);
}

/* The rules for an op inside and outside a multi. */
static bool op_is_valid(const struct conclave_op *op)
{
    bool create = op->type == CONCLAVE_OP_CREATE;
    bool mode_ok = op->mode >= CONCLAVE_PERSISTENT && op->mode <= CONCLAVE_CONTAINER;
    bool data_ok = op->data != NULL || op->data_len == 0;
    bool open_end =
        (create && create_mode_is_sequential(op->mode)) || op->type == CONCLAVE_OP_GET_EPHEMERALS;
    return (!create || (mode_ok && ttl_is_valid(op))) && data_ok && op->data_len <= INT32_MAX &&
           acl_is_valid(op->acl, op->acl_count) && path_is_valid(op->path, open_end);
}

static bool multi_is_valid(const struct conclave_op *op)
{
    if ((op->parts == NULL && op->parts_count > 0) || op->parts_count > INT32_MAX / 16) {
        return false;
    }
    for (size_t i = 0; i < op->parts_count; i++) {
        struct conclave_op own = CONCLAVE_OP_INIT;
        const struct conclave_op *part = &own;
        if (sized_read_item(&own, op->parts, i) != 0) {
            return false;
        }
        bool type_ok = op->type == CONCLAVE_OP_MULTI_READ
                           ? part->type == CONCLAVE_OP_GET || part->type == CONCLAVE_OP_GET_CHILDREN
                           : part->type == CONCLAVE_OP_CREATE || part->type == CONCLAVE_OP_DELETE ||
                                 part->type == CONCLAVE_OP_SET || part->type == CONCLAVE_OP_CHECK;
        if (!type_ok || part->watch != NULL || part->linearizable || !op_is_valid(part)) {
            return false;
        }
    }
    return true;
}

static bool watch_is_valid(const struct conclave_op *op)
{
    switch (op->type) {
    case CONCLAVE_OP_EXISTS:
    case CONCLAVE_OP_GET:
    case CONCLAVE_OP_GET_CHILDREN:
        return true;
    case CONCLAVE_OP_ADD_WATCH:
        return op->watch != NULL && (op->watch_kind == CONCLAVE_WATCH_PERSISTENT ||
                                     op->watch_kind == CONCLAVE_WATCH_RECURSIVE);
    case CONCLAVE_OP_CHECK_WATCHES:
        return op->watch == NULL && op->watch_kind >= CONCLAVE_WATCH_CHILDREN &&
               op->watch_kind <= CONCLAVE_WATCH_RECURSIVE;
    default:
        return op->watch == NULL;
    }
}

static bool is_tree_read(enum conclave_op_type type)
{
    return type == CONCLAVE_OP_EXISTS || type == CONCLAVE_OP_GET || type == CONCLAVE_OP_GET_ACL ||
           type == CONCLAVE_OP_GET_CHILDREN || type == CONCLAVE_OP_MULTI_READ ||
           type == CONCLAVE_OP_GET_EPHEMERALS || type == CONCLAVE_OP_GET_ALL_CHILDREN_NUMBER;
}

int retry_read(struct conclave_retry_options *own, const struct conclave_retry_options *given)
{
    struct conclave_retry_options known = CONCLAVE_RETRY_OPTIONS_INIT;
    if (given == NULL) {
        return 0;
    }
    if (sized_read(&known, given) != 0 || known.pause_min_ms < 0 ||
        known.pause_min_ms > known.pause_max_ms || known.pause_max_ms > INT64_MAX / 4000000) {
        return CONCLAVE_EINVAL;
    }
    *own = known;
    return 0;
}

bool request_only_reads(const struct client_request *r)
{
    return is_tree_read(r->type) || r->type == CONCLAVE_OP_SYNC ||
           r->type == CONCLAVE_OP_WHO_AM_I || r->type == CONCLAVE_OP_CHECK_WATCHES ||
           r->type == CONCLAVE_OP_ADD_WATCH;
}

int op_check(const struct conclave_op *op)
{
    if (op == NULL || op->timeout_ms < CONCLAVE_FOREVER || !watch_is_valid(op) ||
        (op->linearizable && !is_tree_read(op->type)) ||
        retry_read(&(struct conclave_retry_options){0}, op->retry) != 0) {
        return CONCLAVE_EINVAL;
    }
    bool valid = false;
    switch (op->type) {
    case CONCLAVE_OP_MULTI:
    case CONCLAVE_OP_MULTI_READ:
        valid = multi_is_valid(op);
        break;
    case CONCLAVE_OP_WHO_AM_I:
        valid = true;
        break;
    case CONCLAVE_OP_RECONFIG:
        valid = sized_read(&(struct conclave_reconfig)CONCLAVE_RECONFIG_INIT, op->reconfig) == 0;
        break;
    case CONCLAVE_OP_CHECK: /* only inside a multi */
        break;
    default:
        valid =
            op->type >= CONCLAVE_OP_CREATE && op->type <= CONCLAVE_OP_RECONFIG && op_is_valid(op);
    }
    return valid ? 0 : CONCLAVE_EINVAL;
}

int request_create(const struct conclave_op *op, struct client_request **ret)
{
    struct client_request *r = request_create_bare(0);
    if (r == NULL) {
        return CONCLAVE_ENOMEM;
    }
    r->type = op->type;
    r->timeout_ms = op->timeout_ms;
    r->parts_count = (uint32_t)op->parts_count;
    r->syncing = op->linearizable;
    r->conditional = op->type == CONCLAVE_OP_SET && op->version >= 0;
    if (retry_read(&r->retry, op->retry) != 0) {
        request_unref(r);
        return CONCLAVE_EINVAL;
    }
    if (op->watch != NULL) {
        r->watch = watch_create(op->path, op->watch, op->watch_ctx);
        if (r->watch == NULL) {
            request_unref(r);
            return CONCLAVE_ENOMEM;
        }
        r->watch->kind =
            op->watch_kind == CONCLAVE_WATCH_RECURSIVE ? WATCH_RECURSIVE : WATCH_PERSISTENT;
    }
    *ret = r;
    return 0;
}

struct client_request *request_create_bare(int32_t opcode)
{
    struct client_request *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return NULL;
    }
    list_init(&r->link);
    atomic_init(&r->refs, 1);
    r->opcode = opcode;
    r->timeout_ms = CONCLAVE_FOREVER;
    return r;
}

void request_unref(struct client_request *r)
{
    int refs = atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel);
    assert(refs > 0);
    if (refs != 1) {
        return;
    }
    assert(!r->timer.active);
    free(r->watch);
    free(r->span);
    free(r->frame);
    free(r->block);
    free(r);
}

int32_t request_opcode(const struct conclave_op *op, bool create2)
{
    static const int32_t opcodes[] = {
        [CONCLAVE_OP_CREATE] = WIRE_CREATE2,
        [CONCLAVE_OP_DELETE] = WIRE_DELETE,
        [CONCLAVE_OP_EXISTS] = WIRE_EXISTS,
        [CONCLAVE_OP_GET] = WIRE_GET_DATA,
        [CONCLAVE_OP_SET] = WIRE_SET_DATA,
        [CONCLAVE_OP_GET_ACL] = WIRE_GET_ACL,
        [CONCLAVE_OP_SET_ACL] = WIRE_SET_ACL,
        [CONCLAVE_OP_GET_CHILDREN] = WIRE_GET_CHILDREN2,
        [CONCLAVE_OP_SYNC] = WIRE_SYNC,
        [CONCLAVE_OP_CHECK] = WIRE_CHECK,
        [CONCLAVE_OP_MULTI] = WIRE_MULTI,
        [CONCLAVE_OP_MULTI_READ] = WIRE_MULTI_READ,
        [CONCLAVE_OP_ADD_WATCH] = WIRE_ADD_WATCH,
        [CONCLAVE_OP_CHECK_WATCHES] = WIRE_CHECK_WATCHES,
        [CONCLAVE_OP_GET_EPHEMERALS] = WIRE_GET_EPHEMERALS,
        [CONCLAVE_OP_GET_ALL_CHILDREN_NUMBER] = WIRE_GET_ALL_CHILDREN_NUMBER,
        [CONCLAVE_OP_WHO_AM_I] = WIRE_WHO_AM_I,
        [CONCLAVE_OP_RECONFIG] = WIRE_RECONFIG,
    };
    if (op->type == CONCLAVE_OP_CREATE && op->ttl_ms > 0) {
        return WIRE_CREATE_TTL;
    }
    if (op->type == CONCLAVE_OP_CREATE && op->mode == CONCLAVE_CONTAINER) {
        return WIRE_CREATE_CONTAINER;
    }
    if (op->type == CONCLAVE_OP_CREATE && !create2) {
        return WIRE_CREATE;
    }
    return opcodes[op->type];
}

/* acl NULL: world:anyone has all permissions. */
static void encode_acl(struct buf *b, const struct conclave_acl *acl, size_t count)
{
    static const struct conclave_acl open_acl = {CONCLAVE_PERM_ALL, "world", "anyone"};
    if (acl == NULL) {
        acl = &open_acl;
        count = 1;
    }
    wire_write_i32(b, (int32_t)count);
    for (size_t i = 0; i < count; i++) {
        wire_write_i32(b, acl[i].perms);
        wire_write_string(b, slice_str(acl[i].scheme));
        wire_write_string(b, slice_str(acl[i].id));
    }
}

static void encode_create(struct buf *b, const struct conclave_op *op,
                          const struct request_form *form)
{
    wire_write_buffer(b, slice_make(op->data, op->data_len));
    bool own = op->acl != NULL;
    encode_acl(b, own ? op->acl : form->acl, own ? op->acl_count : form->acl_count);
    if (op->ttl_ms == 0) {
        wire_write_i32(b, (int32_t)op->mode);
        return;
    }
    wire_write_i32(b, create_mode_is_sequential(op->mode) ? WIRE_MODE_PERSISTENT_SEQUENTIAL_TTL
                                                          : WIRE_MODE_PERSISTENT_TTL);
    wire_write_i64(b, op->ttl_ms);
}

static void encode_reconfig(struct buf *b, const struct conclave_reconfig *reconfig)
{
    struct conclave_reconfig own = CONCLAVE_RECONFIG_INIT;
    int error = sized_read(&own, reconfig);
    assert(error == 0); /* op_check has read it */
    struct wire_reconfig_request record = {
        .joining_servers = slice_str(own.joining),
        .leaving_servers = slice_str(own.leaving),
        .new_members = slice_str(own.members),
        .cur_config_id = own.config_version,
    };
    wire_encode_reconfig_request(b, &record);
}

/* Encodes the fields after the path in the request record. */
static void encode_rest(struct buf *b, const struct conclave_op *op,
                        const struct request_form *form)
{
    switch (op->type) {
    case CONCLAVE_OP_CREATE:
        encode_create(b, op, form);
        break;
    case CONCLAVE_OP_DELETE:
    case CONCLAVE_OP_CHECK:
        wire_write_i32(b, op->version);
        break;
    case CONCLAVE_OP_EXISTS:
    case CONCLAVE_OP_GET:
    case CONCLAVE_OP_GET_CHILDREN:
        wire_write_boolean(b, op->watch != NULL);
        break;
    case CONCLAVE_OP_SET:
        wire_write_buffer(b, slice_make(op->data, op->data_len));
        wire_write_i32(b, op->version);
        break;
    case CONCLAVE_OP_SET_ACL:
        encode_acl(b, op->acl, op->acl_count);
        wire_write_i32(b, op->version);
        break;
    case CONCLAVE_OP_ADD_WATCH:
        wire_write_i32(b, op->watch_kind == CONCLAVE_WATCH_RECURSIVE);
        break;
    case CONCLAVE_OP_CHECK_WATCHES:
        wire_write_i32(b, (int32_t)op->watch_kind);
        break;
    default: /* only a path */
        break;
    }
}

static void encode_multi(struct buf *b, const struct conclave_op *op,
                         const struct request_form *form)
{
    for (size_t i = 0; i < op->parts_count; i++) {
        struct conclave_op part = CONCLAVE_OP_INIT;
        int error = sized_read_item(&part, op->parts, i);
        assert(error == 0); /* op_check has read it */
        int32_t opcode = part.type == CONCLAVE_OP_GET_CHILDREN
                             ? WIRE_GET_CHILDREN
                             : request_opcode(&part, form->create2);
        struct wire_multi_header header = {opcode, false, -1};
        wire_encode_multi_header(b, &header);
        path_write(b, form->chroot, part.path);
        encode_rest(b, &part, form);
    }
    struct wire_multi_header end = {-1, true, -1};
    wire_encode_multi_header(b, &end);
}

static void encode_body(struct buf *b, const struct conclave_op *op,
                        const struct request_form *form)
{
    switch (op->type) {
    case CONCLAVE_OP_MULTI:
    case CONCLAVE_OP_MULTI_READ:
        encode_multi(b, op, form);
        break;
    case CONCLAVE_OP_RECONFIG:
        encode_reconfig(b, op->reconfig);
        break;
    case CONCLAVE_OP_WHO_AM_I:
        break;
    default:
        path_write(b, form->chroot, op->path);
        encode_rest(b, op, form);
    }
}

int request_encode(struct buf *b, const struct conclave_op *op, int32_t xid,
                   const struct request_form *form)
{
    size_t start = wire_frame_begin(b);
    if (buf_ok(b)) {
        struct wire_request_header header = {xid, request_opcode(op, form->create2)};
        wire_encode_request_header(b, &header);
        encode_body(b, op, form);
    }
    int rc = !buf_ok(b) ? CONCLAVE_ENOMEM : b->len - start - 4 > form->max ? CONCLAVE_ETOOBIG : 0;
    if (rc != 0) {
        b->len = start;
        b->failed = false;
        return rc;
    }
    wire_frame_end(b, start);
    return 0;
}
