#include "state/mirror.h"

#include "state/state_internal.h"

#include <assert.h>

enum { BOOT_NODES = 5 }; /* of state_create, the nameless root among them */

bool state_mirror(const struct state *s, struct state_mirror *ret)
{
    if (s->mirror.id == 0) {
        return false;
    }
    *ret = s->mirror;
    return true;
}

bool state_is_empty(const struct state *s)
{
    return tree_count(&s->tree) <= BOOT_NODES + (state_fence(s) == STATE_FENCE_OPEN);
}

void mirror_begin_encode(struct buf *out, const struct state_mirror *m, bool replace)
{
    buf_append_i64(out, m->id);
    wire_write_boolean(out, m->any_reader);
    wire_write_string(out, m->source);
    wire_write_boolean(out, replace);
}

void mirror_end_encode(struct buf *out, int64_t id, int64_t expected_zxid)
{
    buf_append_i64(out, id);
    buf_append_i64(out, expected_zxid);
}

void mirror_transaction_encode(struct buf *out, const struct mirror_transaction *t)
{
    buf_append_i64(out, t->id);
    buf_append_i64(out, t->previous_zxid);
    buf_append_slice(out, t->bytes);
}

int mirror_transaction_decode(struct slice body, struct mirror_transaction *ret)
{
    struct wire_reader r = wire_reader_make(body);
    ret->id = wire_read_i64(&r);
    ret->previous_zxid = wire_read_i64(&r);
    ret->bytes = slice_make(r.pos, wire_left(&r));
    return r.failed ? CONCLAVE_MARSHALLING_ERROR : 0;
}

void mirror_clear(struct state *s)
{
    free((void *)(uintptr_t)s->mirror.source.data);
    s->mirror = (struct state_mirror){.source = SLICE_NULL};
}

bool mirror_set(struct state *s, const struct state_mirror *m)
{
    uint8_t *source = malloc(m->source.len);
    if (source == NULL) {
        return false;
    }
    memcpy(source, m->source.data, m->source.len);
    mirror_clear(s);
    s->mirror = *m;
    s->mirror.source = slice_make(source, m->source.len);
    return true;
}

bool mirror_source_valid(struct slice source)
{
    return source.len > 0 && source.len <= MIRROR_SOURCE_MAX &&
           memchr(source.data, '\0', source.len) == NULL;
}

int write_mirror_begin(struct write *w)
{
    struct wire_reader r = wire_reader_make(w->command->body);
    struct state_mirror m = {.id = wire_read_i64(&r)};
    m.any_reader = wire_read_boolean(&r);
    m.source = wire_read_string(&r);
    bool replace = wire_read_boolean(&r);
    if (w->s->configuration.reconfig.zxid != 0) {
        return CONCLAVE_RECONFIG_IN_PROGRESS;
    }
    if (r.failed || wire_left(&r) > 0 || m.id == 0 || slice_is_null(m.source) ||
        !mirror_source_valid(m.source)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    if (!replace && !state_is_empty(w->s)) {
        return CONCLAVE_NOT_EMPTY;
    }
    state_need(mirror_set(w->s, &m));
    return 0;
}

int write_mirror_end(struct write *w)
{
    struct wire_reader r = wire_reader_make(w->command->body);
    int64_t id = wire_read_i64(&r);
    int64_t expected = wire_read_i64(&r);
    struct state *s = w->s;
    if (r.failed || wire_left(&r) > 0) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    if (s->mirror.id == 0 || s->mirror.id != id) {
        return CONCLAVE_NO_NODE;
    }
    if (!s->mirror.synced || s->zxid != expected) {
        return CONCLAVE_BAD_VERSION;
    }
    mirror_clear(s);
    sessions_disown(s);
    s->zxid++;
    w->zxid = w->effects->zxid = s->zxid;
    configuration_show(w);
    return 0;
}

int state_mirror_succeed(struct state *s, const struct state *before, int64_t id)
{
    struct state_mirror m;
    assert(s->undo_count == 0 && !s->snapshot.active);
    if (!state_mirror(before, &m) || m.id != id) {
        return CONCLAVE_NO_NODE;
    }
    m.synced = true;
    if (!mirror_set(s, &m)) {
        return CONCLAVE_ENOMEM;
    }
    origins_copy(s, before);
    sessions_disown(s);
    configuration_keep(s, before);
    return 0;
}
