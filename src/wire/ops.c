#include "wire/ops.h"

typedef void (*wire_show_fn)(struct buf *out, struct wire_reader *r);

/* Prints one record from the reader; nothing if the operation has no record. */
static void wire_show_none(struct buf *out, struct wire_reader *r)
{
}

#define WIRE_SHOW(name, FIELDS)                                                                    \
    __attribute__((unused)) static void wire_show_##name(struct buf *out, struct wire_reader *r)   \
    {                                                                                              \
        struct wire_##name record;                                                                 \
        if (wire_decode_##name(r, &record) == 0) {                                                 \
            wire_print_##name(out, &record);                                                       \
        }                                                                                          \
    }
WIRE_RECORDS(WIRE_SHOW)

struct wire_op_row {
    int32_t number;
    int flags;
    const char *name;
    wire_show_fn show_request;
    wire_show_fn show_reply;
};

static const struct wire_op_row wire_op_rows[] = {
#define WIRE_OP_ROW(NAME, number, name, request, reply, flags)                                     \
    {number, flags, name, wire_show_##request, wire_show_##reply},
    WIRE_OPS(WIRE_OP_ROW)
#undef WIRE_OP_ROW
};

static const struct wire_op_row *wire_op_find(int32_t op)
{
    for (size_t i = 0; i < sizeof wire_op_rows / sizeof wire_op_rows[0]; i++) {
        if (wire_op_rows[i].number == op) {
            return &wire_op_rows[i];
        }
    }
    return NULL;
}

const char *wire_op_name(int32_t op)
{
    const struct wire_op_row *row = wire_op_find(op);
    return row != NULL ? row->name : NULL;
}

int wire_op_flags(int32_t op)
{
    switch (op) { /* a switch, because it runs for every request and becomes a jump table */
#define WIRE_OP_CASE(NAME, number, name, request, reply, flags)                                    \
    case number:                                                                                   \
        return flags;
        WIRE_OPS(WIRE_OP_CASE)
#undef WIRE_OP_CASE
    default:
        return 0;
    }
}

/* The parts of a multi: header and record in turn, until the header with `done`. */
static void wire_show_multi(struct buf *out, struct wire_reader *r, bool reply)
{
    buf_append_str(out, "[");
    const char *sep = "";
    struct wire_multi_header h;
    while (wire_decode_multi_header(r, &h) == 0 && !h.done) {
        const struct wire_op_row *row = wire_op_find(h.type);
        buf_printf(out, "%s%s ", sep, row != NULL ? row->name : "?");
        sep = ", ";
        if (row == NULL) {
            r->failed = true; /* its length is unknown, so nothing after it can be read */
            break;
        }
        (reply ? row->show_reply : row->show_request)(out, r);
    }
    buf_append_str(out, "]");
}

static void wire_show_body(struct buf *out, int32_t op, struct slice body, bool reply)
{
    const struct wire_op_row *row = wire_op_find(op);
    struct wire_reader r = wire_reader_make(body);
    if (op == WIRE_MULTI || op == WIRE_MULTI_READ) {
        wire_show_multi(out, &r, reply);
    } else if (row != NULL) {
        (reply ? row->show_reply : row->show_request)(out, &r);
    }
    if (row == NULL || r.failed) {
        buf_printf(out, "(%zu bytes)", body.len);
    }
}

void wire_print_request(struct buf *out, int32_t op, struct slice body)
{
    wire_show_body(out, op, body, false);
}

void wire_print_reply(struct buf *out, int32_t op, struct slice body)
{
    wire_show_body(out, op, body, true);
}
