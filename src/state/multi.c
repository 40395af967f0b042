#include "state/multi.h"

#include "base/endian.h"
#include "state/command_bounds.h"
#include "state/state_internal.h"

#include <assert.h>

/* A multi_header: type, done, error. There is one for each part and each result, so it is copied as a whole. */
enum { HEADER_DONE_AT = 4, HEADER_ERR_AT = 5, HEADER_LEN = 9 };

int multi_next_part(struct wire_reader *r, struct operation *ret)
{
    const uint8_t *header = wire_take(r, HEADER_LEN);
    if (header == NULL) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (header[HEADER_DONE_AT] != 0) {
        return 0;
    }
    int rc = operation_decode_part(r, (int32_t)get_be32(header), ret);
    return rc == 0 ? 1 : rc;
}

/* Number of parts, or CONCLAVE_MARSHALLING_ERROR: one malformed part spoils the request before any is applied. */
static int64_t count_parts(struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct operation op;
    int64_t count = 0;
    int rc;
    while ((rc = multi_next_part(&r, &op)) > 0) {
        count++;
    }
    return rc == 0 ? count : rc;
}

static void reply_header(struct buf *reply, int32_t type, bool done, int32_t err)
{
    if (buf_reserve(reply, HEADER_LEN) == 0) {
        uint8_t *header = reply->data + reply->len;
        put_be32(header, (uint32_t)type);
        header[HEADER_DONE_AT] = done;
        put_be32(header + HEADER_ERR_AT, (uint32_t)err);
        reply->len += HEADER_LEN;
    }
}

static void reply_end(struct buf *reply)
{
    reply_header(reply, WIRE_ERROR, true, -1);
}

/* Every part gets an error record: 0 before the failed one, its own code there, "not tried" after it. */
static void reply_failure(struct buf *reply, int64_t count, int64_t culprit, int32_t err)
{
    for (int64_t i = 0; i < count; i++) {
        int32_t code = i < culprit ? 0 : i == culprit ? err : CONCLAVE_RUNTIME_INCONSISTENCY;
        reply_header(reply, WIRE_ERROR, false, code);
        wire_write_i32(reply, code);
    }
    reply_end(reply);
}

/* The type in the result of a part: every create with a stat is a create2. */
static int32_t result_type(int32_t type)
{
    return type == WIRE_CREATE_CONTAINER || type == WIRE_CREATE_TTL ? (int32_t)WIRE_CREATE2 : type;
}

/* Applies the parts in order. Returns how many succeeded; *ret_err is 0, or why the next one failed. */
static int64_t run_parts(struct write *w, int32_t *ret_err)
{
    struct wire_reader r = wire_reader_make(w->command->body);
    struct operation op;
    int64_t done = 0;
    *ret_err = 0;
    while (multi_next_part(&r, &op) > 0) {
        reply_header(&w->effects->reply, result_type(op.type), false, 0);
        *ret_err = operation_run(w, &op);
        if (*ret_err != 0) {
            break;
        }
        done++;
    }
    return done;
}

int write_multi(struct write *w)
{
    int64_t count = count_parts(w->command->body);
    if (count < 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (w->bounded && count > command_ceilings.parts) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    int32_t err;
    int64_t done = run_parts(w, &err);
    if (err == CONCLAVE_MARSHALLING_ERROR) {
        return err;
    }
    assert(err != 0 ? done < count : done == count);
    if (err != 0) {
        write_rollback(w->s);
        effects_clear(w->effects);
        reply_failure(&w->effects->reply, count, done, err);
    } else {
        reply_end(&w->effects->reply);
    }
    return 0;
}

/* Whether it creates a node that belongs to its session. */
static bool operation_makes_ephemeral(const struct operation *op)
{
    bool plain = op->type == WIRE_CREATE || op->type == WIRE_CREATE2;
    return plain && (op->u.create.flags == WIRE_MODE_EPHEMERAL ||
                     op->u.create.flags == WIRE_MODE_EPHEMERAL_SEQUENTIAL);
}

bool write_makes_ephemeral(int32_t type, struct slice body)
{
    struct wire_reader r = wire_reader_make(body);
    struct operation op = {.type = type};
    if (type != WIRE_MULTI) {
        bool create = type == WIRE_CREATE || type == WIRE_CREATE2;
        return create && operation_decode(&r, type, &op) == 0 && operation_makes_ephemeral(&op);
    }
    while (multi_next_part(&r, &op) > 0) {
        if (operation_makes_ephemeral(&op)) {
            return true;
        }
    }
    return false;
}

/* --- the checks in a multi -------------------------------------------------------------------- */

static int path_compare(const void *a, const void *b)
{
    return slice_compare(*(const struct slice *)a, *(const struct slice *)b);
}

static void checks_add(struct multi_checks *c, struct slice path)
{
    state_need(array_room(&c->paths, c->count, &c->cap, sizeof *c->paths));
    c->paths[c->count++] = path;
}

bool multi_has_check(struct write *w, struct slice path)
{
    struct multi_checks *c = &w->s->checks;
    if (c->zxid != w->zxid) {
        struct wire_reader r = wire_reader_make(w->command->body);
        struct operation op;
        c->zxid = w->zxid;
        c->count = 0;
        while (multi_next_part(&r, &op) > 0) {
            if (op.type == WIRE_CHECK) {
                checks_add(c, op.u.check.path);
            }
        }
        if (c->count > 1) {
            qsort(c->paths, c->count, sizeof *c->paths, path_compare);
        }
    }
    return c->count > 0 && bsearch(&path, c->paths, c->count, sizeof path, path_compare) != NULL;
}
