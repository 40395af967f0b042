#include "state/machine.h"

void effects_init(struct effects *e)
{
    *e = (struct effects){0};
    buf_init(&e->reply, 0);
    buf_init(&e->paths, 0);
}

void effects_finish(struct effects *e)
{
    buf_finish(&e->reply);
    buf_finish(&e->paths);
    free(e->events);
    effects_init(e);
}

void effects_clear(struct effects *e)
{
    buf_reset(&e->reply);
    buf_reset(&e->paths);
    e->events_count = 0;
}

size_t effects_path(struct effects *e, const struct znode *node)
{
    size_t offset = e->paths.len;
    znode_append_path(node, &e->paths);
    state_need(buf_ok(&e->paths));
    return offset;
}

/* Until effects_seal, the path's data holds an offset: the bytes may still move. */
void effects_event(struct effects *e, enum wire_event_type type, size_t offset, size_t len)
{
    if (e->events_count == e->events_cap) {
        size_t cap = e->events_cap == 0 ? 4 : e->events_cap * 2;
        struct state_event *events = realloc(e->events, cap * sizeof *events);
        state_need(events != NULL);
        e->events = events;
        e->events_cap = cap;
    }
    e->events[e->events_count++] =
        (struct state_event){type, {(const uint8_t *)(uintptr_t)offset, len}};
}

void effects_seal(struct effects *e)
{
    for (size_t i = 0; i < e->events_count; i++) {
        struct slice *path = &e->events[i].path;
        path->data = e->paths.data + (uintptr_t)path->data;
    }
}
