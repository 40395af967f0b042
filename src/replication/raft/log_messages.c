/* Encodes and decodes the frames between the logs of two members. */
#include "replication/raft/log_messages.h"

#include "base/endian.h"

#include <assert.h>

enum { ENTRY_HEAD = 16, DISRUPT = 1, GRANTED = 1, PRE_VOTE = 2 };

/* --- writing -------------------------------------------------------------------------------------- */

static void put_u64(struct buf *out, uint64_t v)
{
    buf_append_i64(out, (int64_t)v);
}

static void put_u32(struct buf *out, uint32_t v)
{
    buf_append_i32(out, (int32_t)v);
}

static void put_u16(struct buf *out, uint16_t v)
{
    buf_append_u8(out, (uint8_t)(v >> 8));
    buf_append_u8(out, (uint8_t)v);
}

void log_message_put_engine(struct buf *out, const struct engine_message *m)
{
    assert(m->kind != ENGINE_INSTALL);
    buf_append_u8(out, MESSAGE_ENGINE);
    buf_append_u8(out, (uint8_t)m->kind);
    put_u64(out, m->term);
    switch (m->kind) {
    case ENGINE_APPEND:
        put_u64(out, m->append.prev_index);
        put_u64(out, m->append.prev_term);
        put_u64(out, m->append.commit);
        put_u32(out, m->append.count);
        break;
    case ENGINE_APPEND_RESULT:
        put_u64(out, m->append_result.rejected);
        put_u64(out, m->append_result.last_index);
        put_u16(out, m->append_result.features);
        put_u16(out, m->append_result.capacity);
        break;
    case ENGINE_VOTE:
        put_u64(out, m->vote.candidate);
        put_u64(out, m->vote.last_index);
        put_u64(out, m->vote.last_term);
        buf_append_u8(
            out, (uint8_t)((m->vote.disrupt ? DISRUPT : 0) | (m->vote.pre_vote ? PRE_VOTE : 0)));
        break;
    case ENGINE_VOTE_RESULT:
        buf_append_u8(out, (uint8_t)((m->vote_result.granted ? GRANTED : 0) |
                                     (m->vote_result.pre_vote ? PRE_VOTE : 0)));
        put_u16(out, m->vote_result.features);
        put_u16(out, m->vote_result.capacity);
        break;
    case ENGINE_TIMEOUT_NOW:
        put_u64(out, m->timeout_now.last_index);
        put_u64(out, m->timeout_now.last_term);
        break;
    case ENGINE_INSTALL:
        break;
    }
}

void log_message_put_entry(struct buf *out, uint64_t term, uint32_t kind, struct slice payload)
{
    assert(payload.len <= INT32_MAX);
    put_u64(out, term);
    put_u32(out, kind);
    put_u32(out, (uint32_t)payload.len);
    buf_append_slice(out, payload);
}

void log_message_put_offer(struct buf *out, const struct log_message_offer *offer)
{
    buf_append_u8(out, MESSAGE_OFFER);
    put_u64(out, offer->term);
    put_u64(out, offer->index);
    put_u64(out, offer->snapshot_term);
    put_u64(out, offer->configuration_index);
    put_u64(out, offer->size);
    put_u64(out, offer->identity);
}

void log_message_put_chunk(struct buf *out, const struct log_message_chunk *chunk)
{
    assert(chunk->bytes.len <= INT32_MAX);
    buf_append_u8(out, MESSAGE_CHUNK);
    put_u64(out, chunk->identity);
    put_u64(out, chunk->offset);
    put_u64(out, chunk->checksum);
    put_u32(out, (uint32_t)chunk->bytes.len);
    buf_append_slice(out, chunk->bytes);
}

void log_message_put_wanted(struct buf *out, const struct log_message_wanted *wanted)
{
    buf_append_u8(out, MESSAGE_WANT);
    put_u64(out, wanted->identity);
    put_u64(out, wanted->offset);
    buf_append_u8(out, (uint8_t)wanted->state);
}

void log_message_put_note(struct buf *out, enum log_message_kind kind,
                          const struct log_message_note *note)
{
    assert(kind >= MESSAGE_ROUND && kind <= MESSAGE_SKIP_DECIDED);
    buf_append_u8(out, (uint8_t)kind);
    put_u64(out, note->id);
    put_u64(out, note->term);
    put_u64(out, note->index);
}

/* --- reading -------------------------------------------------------------------------------------- */

struct input {
    struct slice rest;
    bool bad; /* the input is too short */
};

static struct slice log_messages_take(struct input *in, size_t n)
{
    if (in->bad || in->rest.len < n) {
        in->bad = true;
        return SLICE_NULL;
    }
    struct slice s = slice_make(in->rest.data, n);
    in->rest = slice_make(in->rest.data + n, in->rest.len - n);
    return s;
}

static uint64_t take_u64(struct input *in)
{
    struct slice s = log_messages_take(in, 8);
    return in->bad ? 0 : get_be64(s.data);
}

static uint32_t take_u32(struct input *in)
{
    struct slice s = log_messages_take(in, 4);
    return in->bad ? 0 : get_be32(s.data);
}

static uint16_t take_u16(struct input *in)
{
    struct slice s = log_messages_take(in, 2);
    return in->bad ? 0 : (uint16_t)(s.data[0] << 8 | s.data[1]);
}

static uint8_t take_u8(struct input *in)
{
    struct slice s = log_messages_take(in, 1);
    return in->bad ? 0 : s.data[0];
}

/* A byte of flags; only the lowest two are known. */
static uint8_t take_flags(struct input *in)
{
    uint8_t flags = take_u8(in);
    in->bad = in->bad || flags > 3;
    return flags;
}

static void log_messages_take_entries(struct input *in, uint32_t count)
{
    for (uint32_t i = 0; i < count && !in->bad; i++) {
        (void)log_messages_take(in, 12);
        (void)log_messages_take(in, take_u32(in));
    }
}

static void take_engine(struct input *in, struct log_message *ret)
{
    struct engine_message *m = &ret->engine;
    uint8_t flags;
    m->kind = (enum engine_kind)take_u8(in);
    m->term = take_u64(in);
    switch (m->kind) {
    case ENGINE_APPEND:
        m->append.prev_index = take_u64(in);
        m->append.prev_term = take_u64(in);
        m->append.commit = take_u64(in);
        m->append.first_index = m->append.prev_index + 1;
        m->append.count = take_u32(in);
        ret->entries = in->rest;
        log_messages_take_entries(in, m->append.count);
        break;
    case ENGINE_APPEND_RESULT:
        m->append_result.rejected = take_u64(in);
        m->append_result.last_index = take_u64(in);
        m->append_result.features = take_u16(in);
        m->append_result.capacity = take_u16(in);
        break;
    case ENGINE_VOTE:
        m->vote.candidate = take_u64(in);
        m->vote.last_index = take_u64(in);
        m->vote.last_term = take_u64(in);
        flags = take_flags(in);
        m->vote.disrupt = (flags & DISRUPT) != 0;
        m->vote.pre_vote = (flags & PRE_VOTE) != 0;
        break;
    case ENGINE_VOTE_RESULT:
        flags = take_flags(in);
        m->vote_result.granted = (flags & GRANTED) != 0;
        m->vote_result.pre_vote = (flags & PRE_VOTE) != 0;
        m->vote_result.features = take_u16(in);
        m->vote_result.capacity = take_u16(in);
        break;
    case ENGINE_TIMEOUT_NOW:
        m->timeout_now.last_index = take_u64(in);
        m->timeout_now.last_term = take_u64(in);
        break;
    case ENGINE_INSTALL:
    default:
        in->bad = true;
    }
}

static void take_offer(struct input *in, struct log_message_offer *offer)
{
    offer->term = take_u64(in);
    offer->index = take_u64(in);
    offer->snapshot_term = take_u64(in);
    offer->configuration_index = take_u64(in);
    offer->size = take_u64(in);
    offer->identity = take_u64(in);
}

static void take_chunk(struct input *in, struct log_message_chunk *chunk)
{
    chunk->identity = take_u64(in);
    chunk->offset = take_u64(in);
    chunk->checksum = take_u64(in);
    chunk->bytes = log_messages_take(in, take_u32(in));
}

static void take_wanted(struct input *in, struct log_message_wanted *wanted)
{
    wanted->identity = take_u64(in);
    wanted->offset = take_u64(in);
    wanted->state = (enum log_message_want)take_u8(in);
    in->bad = in->bad || wanted->state > WANT_AGAIN;
}

static void take_note(struct input *in, struct log_message_note *note)
{
    note->id = take_u64(in);
    note->term = take_u64(in);
    note->index = take_u64(in);
}

int log_message_decode(struct slice frame, struct log_message *ret)
{
    struct input in = {frame, false};
    struct log_message m;
    memset(&m, 0, sizeof m);
    m.kind = (enum log_message_kind)take_u8(&in);
    m.entries = slice_str("");
    switch (m.kind) {
    case MESSAGE_ENGINE:
        take_engine(&in, &m);
        break;
    case MESSAGE_OFFER:
        take_offer(&in, &m.offer);
        break;
    case MESSAGE_CHUNK:
        take_chunk(&in, &m.chunk);
        break;
    case MESSAGE_WANT:
        take_wanted(&in, &m.wanted);
        break;
    case MESSAGE_ROUND:
    case MESSAGE_ROUND_OK:
    case MESSAGE_READ:
    case MESSAGE_READ_OK:
    case MESSAGE_JOIN:
    case MESSAGE_JOIN_OK:
    case MESSAGE_SKIP_VOTE:
    case MESSAGE_SKIP_DECIDED:
        take_note(&in, &m.note);
        break;
    default:
        in.bad = true;
    }
    if (in.bad || in.rest.len > 0) {
        return CONCLAVE_EPROTO;
    }
    *ret = m;
    return 0;
}

bool log_message_next_entry(struct slice *entries, struct engine_entry *ret)
{
    if (entries->len == 0) {
        return false;
    }
    assert(entries->len >= ENTRY_HEAD);
    size_t len = get_be32(entries->data + 12);
    assert(entries->len - ENTRY_HEAD >= len);
    ret->term = get_be64(entries->data);
    ret->kind = get_be32(entries->data + 8);
    ret->payload = slice_make(entries->data + ENTRY_HEAD, len);
    *entries = slice_make(entries->data + ENTRY_HEAD + len, entries->len - ENTRY_HEAD - len);
    return true;
}
