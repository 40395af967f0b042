#include "model/memory.h"

#include <stdlib.h>

static void drop_first(struct model_memory *memory, int64_t id)
{
    struct model_answer *answers = memory->of[id].answers;
    memory->of[id].dropped = answers[0].number;
    buf_finish(&answers[0].reply);
    memory->of[id].count--;
    for (int32_t i = 0; i < memory->of[id].count; i++) {
        answers[i] = answers[i + 1];
    }
}

static void forget(struct model_memory *memory, int64_t id)
{
    while (memory->of[id].count > 0) {
        drop_first(memory, id);
    }
    free(memory->of[id].answers);
    memset(&memory->of[id], 0, sizeof memory->of[id]);
}

void model_memory_finish(struct model_memory *memory)
{
    for (int64_t id = 0; id < MODEL_MEMORY_SESSIONS; id++) {
        forget(memory, id);
    }
}

size_t model_memory_count(const struct model_memory *memory)
{
    size_t count = 0;
    for (int64_t id = 0; id < MODEL_MEMORY_SESSIONS; id++) {
        count += (size_t)memory->of[id].count;
    }
    return count;
}

static const struct model_session *session_of(const struct model *m, int64_t id)
{
    for (size_t i = 0; i < m->session_count; i++) {
        if (m->sessions[i].id == id) {
            return &m->sessions[i];
        }
    }
    return NULL;
}

void model_apply_plain(struct model_memory *memory, struct model *m,
                       const struct model_caller *caller, int32_t type, struct slice body,
                       int64_t time_ms, struct model_effects *e)
{
    int64_t id = caller->session_id;
    model_apply(m, caller, type, body, time_ms, e);
    if (session_of(m, id) == NULL) {
        forget(memory, id);
    }
    if (e->err != 0 || (type != WIRE_CREATE_SESSION && type != MODEL_ATTACH_SESSION)) {
        return;
    }
    enum { RECORD = 4 + 4 + 8 + 4 + 16 };
    if (body.len == RECORD) {
        forget(memory, id);
        return;
    }
    struct wire_reader r = wire_reader_make(slice_make(body.data + RECORD, body.len - RECORD));
    memory->of[id].remembers = true;
    memory->of[id].count_max = wire_read_i32(&r);
    memory->of[id].bytes_max = wire_read_i32(&r);
}

static int32_t bytes_of(const struct model_memory *memory, int64_t id)
{
    int32_t bytes = 0;
    for (int32_t i = 0; i < memory->of[id].count; i++) {
        bytes += (int32_t)memory->of[id].answers[i].reply.len;
    }
    return bytes;
}

static void remember(struct model_memory *memory, int64_t id, int32_t number,
                     const struct model_effects *e)
{
    int32_t count = ++memory->of[id].count;
    memory->of[id].last = number;
    memory->of[id].answers =
        realloc(memory->of[id].answers, (size_t)count * sizeof memory->of[id].answers[0]);
    struct model_answer *answer = &memory->of[id].answers[count - 1];
    *answer = (struct model_answer){.number = number, .err = e->err, .zxid = e->zxid};
    buf_init(&answer->reply, 0);
    buf_append_slice(&answer->reply, buf_slice(&e->reply));
    while (memory->of[id].count > memory->of[id].count_max ||
           (memory->of[id].count > 1 && bytes_of(memory, id) > memory->of[id].bytes_max)) {
        drop_first(memory, id);
    }
}

static void answer_again(const struct model_memory *memory, int64_t id, int32_t number,
                         struct model_effects *e)
{
    for (int32_t i = 0; i < memory->of[id].count; i++) {
        const struct model_answer *answer = &memory->of[id].answers[i];
        if (answer->number == number) {
            e->err = answer->err;
            e->zxid = answer->zxid;
            buf_append_slice(&e->reply, buf_slice(&answer->reply));
            return;
        }
    }
    e->err = number <= memory->of[id].dropped ? CONCLAVE_CONNECTION_LOSS : CONCLAVE_THROTTLED;
}

bool model_apply_numbered(struct model_memory *memory, struct model *m,
                          const struct model_caller *caller, int32_t number, int32_t unanswered,
                          int32_t type, struct slice body, int64_t time_ms, struct model_effects *e)
{
    int64_t id = caller->session_id;
    const struct model_session *session = session_of(m, id);
    bool may = session != NULL &&
               (session->owner == 0 || caller->origin == 0 || session->owner == caller->origin);
    if (!may) {
        model_apply(m, caller, type, body, time_ms, e);
        return false;
    }
    buf_reset(&e->reply);
    buf_reset(&e->events);
    e->quota_exceeded = e->fenced = e->deferred = e->resumed.is = false;
    e->zxid = m->zxid;
    m->time_ms = time_ms;
    if (!memory->of[id].remembers) {
        e->err = CONCLAVE_SESSION_MOVED;
        return true;
    }
    while (memory->of[id].count > 0 && memory->of[id].answers[0].number < unanswered) {
        drop_first(memory, id);
    }
    if (number <= memory->of[id].last) {
        answer_again(memory, id, number, e);
        return true;
    }
    model_apply(m, caller, type, body, time_ms, e);
    remember(memory, id, number, e);
    return false;
}
