#include "state/entry/replacement.h"

#include "wire/codec.h"

#include <assert.h>

enum {
    REPLACEMENT_VERSION = 5,
    REPLACEMENT_VERSION_WHOLE = 3,
    REPLACEMENT_HEAD = 1 + 8 + 8 + 4 + 1,
    REPLACEMENT_HEAD_WHOLE = 1 + 8 + 8,
};

void replacement_begin(struct buf *b, const struct replacement *piece)
{
    buf_append_u8(b, REPLACEMENT_VERSION);
    buf_append_i64(b, piece->origin);
    buf_append_i64(b, piece->id);
    buf_append_i32(b, piece->number);
    buf_append_u8(b, piece->flags);
}

bool replacement_is(struct slice entry)
{
    return entry.len > 0 &&
           (entry.data[0] == REPLACEMENT_VERSION || entry.data[0] == REPLACEMENT_VERSION_WHOLE);
}

int replacement_open(struct slice entry, struct replacement *ret)
{
    if (!replacement_is(entry)) {
        return CONCLAVE_ECORRUPT;
    }
    bool whole = entry.data[0] == REPLACEMENT_VERSION_WHOLE;
    size_t head = whole ? REPLACEMENT_HEAD_WHOLE : REPLACEMENT_HEAD;
    struct wire_reader r = wire_reader_make(entry);
    (void)wire_read_boolean(&r);
    struct replacement piece = {.flags = REPLACEMENT_LAST};
    piece.origin = wire_read_i64(&r);
    piece.id = wire_read_i64(&r);
    if (!whole) {
        piece.number = wire_read_i32(&r);
    }
    if (entry.len < head || piece.number < 0) {
        return CONCLAVE_ECORRUPT;
    }
    if (!whole) {
        piece.flags = entry.data[head - 1];
    }
    piece.bytes = slice_make(entry.data + head, entry.len - head);
    *ret = piece;
    return 0;
}

void replacement_pieces_init(struct replacement_pieces *p)
{
    *p = (struct replacement_pieces){0};
    buf_init(&p->bytes, 0);
}

void replacement_pieces_finish(struct replacement_pieces *p)
{
    buf_finish(&p->bytes);
}

void replacement_pieces_forget(struct replacement_pieces *p)
{
    buf_finish(&p->bytes);
    replacement_pieces_init(p);
}

int replacement_pieces_take(struct replacement_pieces *p, const struct replacement *piece,
                            struct slice *ret_snapshot)
{
    bool known = p->id == piece->id && p->origin == piece->origin;
    if ((piece->flags & REPLACEMENT_GIVEN_UP) != 0) {
        if (known) {
            replacement_pieces_forget(p);
        }
        return 0;
    }
    if (piece->number == 0) {
        replacement_pieces_forget(p);
        p->origin = piece->origin;
        p->id = piece->id;
    } else if (!known || piece->number != p->next) {
        return 0;
    }
    buf_append_slice(&p->bytes, piece->bytes);
    if (!buf_ok(&p->bytes)) {
        return CONCLAVE_ENOMEM;
    }
    p->next = piece->number + 1;
    assert(p->next > 0 && p->bytes.len >= piece->bytes.len);
    *ret_snapshot = buf_slice(&p->bytes);
    return (piece->flags & REPLACEMENT_LAST) != 0 ? 1 : 0;
}
