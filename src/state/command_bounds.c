#include "state/command_bounds.h"

#include "state/state_internal.h"

enum { ACL_BYTES_PER_BYTE = 16 };

const struct command_bounds command_ceilings = {
    .parts = BOUNDS_PARTS,
    .path_bytes = BOUNDS_PATH_BYTES,
    .path_depth = BOUNDS_PATH_DEPTH,
    .acl = {BOUNDS_ACL_ENTRIES, BOUNDS_ACL_BYTES},
    .ids = BOUNDS_IDS,
};

bool command_bounds_path(const struct command_bounds *b, struct slice path)
{
    int64_t depth = 0;
    if ((int64_t)path.len > b->path_bytes) {
        return false;
    }
    if ((int64_t)path.len / 2 <= b->path_depth) {
        return true; /* each component takes at least two bytes */
    }
    for (size_t i = 0; i < path.len; i++) {
        depth += path.data[i] == '/';
    }
    return depth <= b->path_depth;
}

bool command_bounds_acl(const struct command_bounds *b, struct wire_vector asked,
                        struct wire_vector ids, size_t command_bytes, int64_t *total)
{
    int64_t bytes;
    if (asked.count <= 0) {
        return true; /* apply refuses it for that reason */
    }
    if (!acl_measure(asked, ids, &b->acl, &bytes)) {
        return false;
    }
    *total += bytes;
    return *total <= b->acl.bytes + (int64_t)command_bytes * ACL_BYTES_PER_BYTE;
}

/* A lower bound for the number of pieces of a list. */
static size_t count_pieces(struct slice list)
{
    size_t pieces = 0;
    bool in_piece = false;
    for (size_t i = 0; i < list.len; i++) {
        bool divides = list.data[i] == ',' || list.data[i] == '\n' || list.data[i] == '\r';
        pieces += !divides && !in_piece;
        in_piece = !divides;
    }
    return pieces;
}

bool command_bounds_reconfig(const struct wire_reconfig_request *r)
{
    enum { OTHER_LINES = 16 }; /* the version, and other lines without a server */
    return count_pieces(r->joining_servers) <= BOUNDS_MEMBERS &&
           count_pieces(r->leaving_servers) <= BOUNDS_MEMBERS &&
           count_pieces(r->new_members) <= BOUNDS_MEMBERS + OTHER_LINES;
}

/* The number that a sequential create appends. */
enum { SEQUENCE_BYTES = 11 };

static int check_operation(const struct command_bounds *b, const struct operation *op,
                           struct wire_vector ids, size_t command_bytes, int64_t *total)
{
    switch (op->type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL: {
        struct slice path = op->u.create.path;
        size_t more = mode_sequential(op->u.create.flags) ? SEQUENCE_BYTES : 0;
        if (!command_bounds_path(b, path) || (int64_t)(path.len + more) > b->path_bytes) {
            return CONCLAVE_BAD_ARGUMENTS;
        }
        return command_bounds_acl(b, op->u.create.acl, ids, command_bytes, total)
                   ? 0
                   : CONCLAVE_INVALID_ACL;
    }
    case WIRE_SET_ACL:
        return command_bounds_acl(b, op->u.set_acl.acl, ids, command_bytes, total)
                   ? 0
                   : CONCLAVE_INVALID_ACL;
    case WIRE_RECONFIG:
        return command_bounds_reconfig(&op->u.reconfig) ? 0 : CONCLAVE_BAD_ARGUMENTS;
    default:
        return 0;
    }
}

static int check_parts(const struct command_bounds *b, struct slice body, struct wire_vector ids)
{
    struct wire_reader r = wire_reader_make(body);
    struct operation op;
    int64_t count = 0;
    int64_t total = 0;
    int rc = 0;
    while (rc == 0 && multi_next_part(&r, &op) > 0) {
        if (++count > b->parts) {
            rc = CONCLAVE_BAD_ARGUMENTS;
        } else if (op.type != WIRE_CHECK && op.type != WIRE_SET_DATA) { /* they create nothing */
            rc = check_operation(b, &op, ids, body.len, &total);
        }
    }
    return rc;
}

/* The parts of a multiRead have the same record as getData. */
static int check_reads(const struct command_bounds *b, struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct wire_multi_header header;
    struct wire_get_data_request request;
    int64_t count = 0;
    while (wire_decode_multi_header(&r, &header) == 0 && !header.done &&
           wire_decode_get_data_request(&r, &request) == 0) {
        if (++count > b->parts) {
            return CONCLAVE_BAD_ARGUMENTS;
        }
    }
    return 0;
}

int command_bounds_check(const struct command_bounds *b, int32_t type, struct slice body,
                         struct wire_vector ids)
{
    struct wire_reader r;
    struct operation op;
    int64_t total = 0;
    switch (type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL:
    case WIRE_DELETE:
    case WIRE_SET_DATA:
    case WIRE_SET_ACL:
    case WIRE_RECONFIG:
        r = wire_reader_make(body);
        if (operation_decode(&r, type, &op) != 0) {
            return CONCLAVE_MARSHALLING_ERROR;
        }
        return check_operation(b, &op, ids, body.len, &total);
    case WIRE_MULTI:
        return check_parts(b, body, ids);
    case WIRE_MULTI_READ:
        return check_reads(b, body);
    default:
        return 0;
    }
}
