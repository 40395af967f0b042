/* Decodes the server's answer to a request into a struct conclave_reply, in one block of memory. */
#include "client/core/request.h"

#include "base/endian.h"
#include "client/core/path.h"

#include <assert.h>
#include <stdlib.h>

/*
 * The variable parts of a reply are in one block: [struct conclave_reply][array][strings]. On the wire each string
 * follows a length of four bytes, so the length of the body always suffices for the strings with their NULs.
 */
struct block {
    uint8_t *base;
    uint8_t *array;  /* room for the array */
    uint8_t *string; /* next free byte for strings */
    uint8_t *end;
};

/* Of one part of a multi: the struct, and the pointer to it. */
#define RESULT_SIZE (sizeof(struct conclave_reply) + sizeof(struct conclave_reply *))

/* Bytes of the array that the answer needs at most. Each item has four bytes on the wire for each string of it. */
static size_t array_bytes(const struct client_request *r, struct slice body)
{
    size_t items = body.len >= 4 ? get_be32(body.data) : 0; /* lists begin with it */
    items = items < body.len / 4 ? items : body.len / 4;
    switch (r->type) {
    case CONCLAVE_OP_MULTI:
        return r->parts_count * RESULT_SIZE;
    case CONCLAVE_OP_MULTI_READ: /* and the names of all its parts */
        return r->parts_count * RESULT_SIZE + body.len / 4 * sizeof(char *);
    case CONCLAVE_OP_GET_CHILDREN:
    case CONCLAVE_OP_GET_EPHEMERALS:
        return items * sizeof(char *);
    case CONCLAVE_OP_WHO_AM_I:
        return items * sizeof(struct conclave_identity);
    case CONCLAVE_OP_GET_ACL:
        return items * sizeof(struct conclave_acl);
    default:
        return 0;
    }
}

static int block_make(struct block *blk, size_t array, size_t body_len)
{
    blk->base = malloc(sizeof(struct conclave_reply) + array + body_len + 1);
    if (blk->base == NULL) {
        return CONCLAVE_ENOMEM;
    }
    blk->array = blk->base + sizeof(struct conclave_reply);
    blk->string = blk->array + array;
    blk->end = blk->string + body_len + 1;
    return 0;
}

/* Copies s with a NUL behind it; NULL for the null value. */
static const char *block_string(struct block *blk, struct slice s)
{
    if (slice_is_null(s)) {
        return NULL;
    }
    assert(s.len < (size_t)(blk->end - blk->string));
    char *copy = (char *)blk->string;
    if (s.len > 0) {
        memcpy(copy, s.data, s.len);
    }
    copy[s.len] = '\0';
    blk->string += s.len + 1;
    return copy;
}

/* Converts a server's path to the caller's; "" for null. False: not below the chroot. */
static bool block_path(struct block *blk, struct slice full, struct slice chroot, const char **ret)
{
    struct slice path;
    if (!path_strip(chroot, full, &path)) {
        return false;
    }
    *ret = block_string(blk, path);
    return true;
}

static void stat_take(struct conclave_reply *reply, const struct wire_stat *s)
{
    reply->has_stat = true;
    reply->stat = (struct conclave_stat){
        .czxid = s->czxid,
        .mzxid = s->mzxid,
        .ctime_ms = s->ctime,
        .mtime_ms = s->mtime,
        .version = s->version,
        .cversion = s->cversion,
        .aversion = s->aversion,
        .ephemeral_owner = s->ephemeral_owner,
        .data_length = s->data_length,
        .num_children = s->num_children,
        .pzxid = s->pzxid,
    };
}

static int decode_stat(struct wire_reader *rd, struct conclave_reply *reply)
{
    struct wire_stat stat;
    if (wire_decode_stat(rd, &stat) != 0) {
        return CONCLAVE_EPROTO;
    }
    stat_take(reply, &stat);
    return 0;
}

/* create and create2: a path, and a stat if it is the latter. */
static int decode_created(struct wire_reader *rd, bool with_stat, struct block *blk,
                          struct slice chroot, struct conclave_reply *reply)
{
    struct slice path = wire_read_string(rd);
    if (with_stat && decode_stat(rd, reply) != 0) {
        return CONCLAVE_EPROTO;
    }
    return !rd->failed && block_path(blk, path, chroot, &reply->path) ? 0 : CONCLAVE_EPROTO;
}

/* Data and stat. */
static int decode_data(struct wire_reader *rd, struct block *blk, struct conclave_reply *reply)
{
    struct wire_get_data_response response;
    if (wire_decode_get_data_response(rd, &response) != 0) {
        return CONCLAVE_EPROTO;
    }
    stat_take(reply, &response.stat);
    reply->data = block_string(blk, response.data);
    reply->data_len = slice_is_null(response.data) ? 0 : response.data.len;
    return 0;
}

/* Names into the block's array. */
static void block_names(struct block *blk, struct wire_vector *names, struct conclave_reply *reply)
{
    const char **array = (const char **)(void *)blk->array;
    struct slice name;
    size_t n = 0;
    while (wire_next_string(names, &name)) {
        array[n++] = slice_is_null(name) ? "" : block_string(blk, name);
    }
    blk->array += n * sizeof *array;
    reply->children = array;
    reply->children_count = n;
}

static int decode_part(struct wire_reader *rd, const struct wire_multi_header *header,
                       struct block *blk, struct slice chroot, struct conclave_reply *reply)
{
    switch (header->type) {
    case WIRE_ERROR:
        reply->error = wire_read_i32(rd);
        return rd->failed ? CONCLAVE_EPROTO : 0;
    case WIRE_CREATE:
        return decode_created(rd, false, blk, chroot, reply);
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL:
        return decode_created(rd, true, blk, chroot, reply);
    case WIRE_GET_DATA:
        return decode_data(rd, blk, reply);
    case WIRE_GET_CHILDREN: {
        struct wire_get_children_response children;
        if (wire_decode_get_children_response(rd, &children) != 0) {
            return CONCLAVE_EPROTO;
        }
        block_names(blk, &children.children, reply);
        return 0;
    }
    case WIRE_SET_DATA:
        return decode_stat(rd, reply);
    case WIRE_DELETE:
    case WIRE_CHECK:
        return 0;
    default:
        return CONCLAVE_EPROTO;
    }
}

/* The error of a failed multi is that of the failed part, not of the parts that were skipped. */
static int multi_error(const struct conclave_reply *const *results, size_t count)
{
    int error = 0;
    for (size_t i = 0; i < count; i++) {
        if (results[i]->error != 0 && results[i]->error != CONCLAVE_RUNTIME_INCONSISTENCY) {
            return results[i]->error;
        }
        error = error != 0 ? error : results[i]->error;
    }
    return error;
}

static int decode_multi(struct client_request *r, struct wire_reader *rd, struct block *blk,
                        struct slice chroot)
{
    const struct conclave_reply **results = (const struct conclave_reply **)(void *)blk->array;
    struct conclave_reply *parts = (struct conclave_reply *)(void *)(results + r->parts_count);
    memset(parts, 0, r->parts_count * sizeof *parts);
    blk->array += r->parts_count * RESULT_SIZE; /* names follow */
    uint32_t count = 0;
    for (;; count++) {
        struct wire_multi_header header;
        if (wire_decode_multi_header(rd, &header) != 0) {
            return CONCLAVE_EPROTO;
        }
        if (header.done) {
            break;
        }
        bool fits = r->type == CONCLAVE_OP_MULTI_READ || header.type == WIRE_ERROR ||
                    (header.type != WIRE_GET_DATA && header.type != WIRE_GET_CHILDREN);
        if (count == r->parts_count || !fits ||
            decode_part(rd, &header, blk, chroot, &parts[count]) != 0) {
            return CONCLAVE_EPROTO;
        }
        parts[count].zxid = r->reply.zxid;
        results[count] = &parts[count];
    }
    if (count != r->parts_count) {
        return CONCLAVE_EPROTO;
    }
    r->reply.results = results;
    r->reply.results_count = count;
    r->reply.error = r->type == CONCLAVE_OP_MULTI ? multi_error(results, count) : 0;
    return 0;
}

static int decode_children(struct client_request *r, struct wire_reader *rd, struct block *blk)
{
    struct wire_get_children2_response response;
    if (wire_decode_get_children2_response(rd, &response) != 0) {
        return CONCLAVE_EPROTO;
    }
    block_names(blk, &response.children, &r->reply);
    stat_take(&r->reply, &response.stat);
    return 0;
}

/* Reads paths, and leaves out those outside the chroot that only begin like it. */
static int decode_ephemerals(struct client_request *r, struct wire_reader *rd, struct slice chroot,
                             struct block *blk)
{
    struct wire_get_ephemerals_response response;
    if (wire_decode_get_ephemerals_response(rd, &response) != 0) {
        return CONCLAVE_EPROTO;
    }
    const char **paths = (const char **)(void *)blk->array;
    struct slice path;
    size_t n = 0;
    while (wire_next_string(&response.ephemerals, &path)) {
        n += block_path(blk, path, chroot, &paths[n]);
    }
    r->reply.children = paths;
    r->reply.children_count = n;
    return 0;
}

static int decode_identities(struct client_request *r, struct wire_reader *rd, struct block *blk)
{
    struct wire_who_am_i_response response;
    if (wire_decode_who_am_i_response(rd, &response) != 0) {
        return CONCLAVE_EPROTO;
    }
    struct conclave_identity *identities = (struct conclave_identity *)(void *)blk->array;
    struct wire_client_info info;
    size_t n = 0;
    while (wire_next_client(&response.client_infos, &info)) {
        const char *scheme = block_string(blk, info.auth_scheme);
        const char *id = block_string(blk, info.user);
        identities[n++] =
            (struct conclave_identity){scheme != NULL ? scheme : "", id != NULL ? id : ""};
    }
    r->reply.identities = identities;
    r->reply.identities_count = n;
    return 0;
}

/* getAllChildrenNumber: a number; addWatch: an error code, which is otherwise in the header. */
static int decode_number(struct client_request *r, struct wire_reader *rd)
{
    int32_t number = wire_read_i32(rd);
    if (r->type == CONCLAVE_OP_ADD_WATCH) {
        r->reply.error = number;
    } else {
        r->reply.total_number = number;
    }
    return rd->failed ? CONCLAVE_EPROTO : 0;
}

static int decode_acl(struct client_request *r, struct wire_reader *rd, struct block *blk)
{
    struct wire_get_acl_response response;
    if (wire_decode_get_acl_response(rd, &response) != 0) {
        return CONCLAVE_EPROTO;
    }
    struct conclave_acl *entries = (struct conclave_acl *)(void *)blk->array;
    struct wire_acl entry;
    size_t n = 0;
    while (wire_next_acl(&response.acl, &entry)) {
        const char *scheme = block_string(blk, entry.id.scheme);
        const char *id = block_string(blk, entry.id.id);
        entries[n++] =
            (struct conclave_acl){entry.perms, scheme != NULL ? scheme : "", id != NULL ? id : ""};
    }
    stat_take(&r->reply, &response.stat);
    r->reply.acl = entries;
    r->reply.acl_count = n;
    return 0;
}

static bool is_created_with_stat(int32_t opcode)
{
    return opcode == WIRE_CREATE2 || opcode == WIRE_CREATE_CONTAINER || opcode == WIRE_CREATE_TTL;
}

int request_decode(struct client_request *r, struct slice body, struct slice chroot)
{
    struct block blk;
    struct wire_reader rd = wire_reader_make(body);
    /* A path that is the chroot itself becomes "/", one byte longer than what is left of it:
     * body.len covers that. */
    int rc = block_make(&blk, array_bytes(r, body), body.len);
    if (rc != 0) {
        return rc;
    }
    switch (r->type) {
    case CONCLAVE_OP_CREATE:
    case CONCLAVE_OP_SYNC:
        rc = decode_created(&rd, is_created_with_stat(r->opcode), &blk, chroot, &r->reply);
        break;
    case CONCLAVE_OP_GET:
    case CONCLAVE_OP_RECONFIG:
        rc = decode_data(&rd, &blk, &r->reply);
        break;
    case CONCLAVE_OP_MULTI:
    case CONCLAVE_OP_MULTI_READ:
        rc = decode_multi(r, &rd, &blk, chroot);
        break;
    case CONCLAVE_OP_EXISTS:
    case CONCLAVE_OP_SET:
    case CONCLAVE_OP_SET_ACL:
        rc = decode_stat(&rd, &r->reply);
        break;
    case CONCLAVE_OP_GET_ACL:
        rc = decode_acl(r, &rd, &blk);
        break;
    case CONCLAVE_OP_GET_CHILDREN:
        rc = decode_children(r, &rd, &blk);
        break;
    case CONCLAVE_OP_GET_EPHEMERALS:
        rc = decode_ephemerals(r, &rd, chroot, &blk);
        break;
    case CONCLAVE_OP_WHO_AM_I:
        rc = decode_identities(r, &rd, &blk);
        break;
    case CONCLAVE_OP_GET_ALL_CHILDREN_NUMBER:
    case CONCLAVE_OP_ADD_WATCH:
        rc = decode_number(r, &rd);
        break;
    case CONCLAVE_OP_DELETE:
    case CONCLAVE_OP_CHECK:
    case CONCLAVE_OP_CHECK_WATCHES:
        break;
    }
    if (rc != 0) {
        free(blk.base);
        r->reply = (struct conclave_reply){.zxid = r->reply.zxid};
        return rc;
    }
    r->block = blk.base;
    return 0;
}

struct conclave_reply *request_take_reply(struct client_request *r)
{
    if (r->block == NULL) {
        r->block = malloc(sizeof(struct conclave_reply));
    }
    struct conclave_reply *reply = r->block;
    if (reply != NULL) {
        *reply = r->reply;
        r->block = NULL;
    }
    return reply;
}

void conclave_reply_free(struct conclave_reply *reply)
{
    free(reply);
}
