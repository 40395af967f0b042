/*
 * The model's side of writes that come again: a list of all answers that are still remembered, looked
 * through from the start. For sessions of small ids and numbers that do not wrap.
 */
#ifndef MODEL_MEMORY_H
#define MODEL_MEMORY_H

#include "model/model.h"

enum { MODEL_MEMORY_SESSIONS = 16 };

struct model_answer {
    int32_t number;
    int32_t err;
    int64_t zxid;
    struct buf reply;
};

struct model_memory {
    struct {
        bool remembers;
        int32_t count_max;
        int32_t bytes_max;
        int32_t last;    /* newest number */
        int32_t dropped; /* newest number whose answer was dropped */
        struct model_answer *answers;
        int32_t count;
    } of[MODEL_MEMORY_SESSIONS];
};

void model_memory_finish(struct model_memory *memory);

/* How many answers are remembered. */
size_t model_memory_count(const struct model_memory *memory);

/* As model_apply, of a write without number: sessions begin and end. */
void model_apply_plain(struct model_memory *memory, struct model *m,
                       const struct model_caller *caller, int32_t type, struct slice body,
                       int64_t time_ms, struct model_effects *e);

/* The same of a write with a number. True when it was answered from memory. */
bool model_apply_numbered(struct model_memory *memory, struct model *m,
                          const struct model_caller *caller, int32_t number, int32_t unanswered,
                          int32_t type, struct slice body, int64_t time_ms,
                          struct model_effects *e);

#endif
