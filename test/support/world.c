#include "support/world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

int world_setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    assert(w != NULL);
    w->s = state_create(&hash_key_fixed);
    assert(w->s != NULL);
    effects_init(&w->e);
    maker_init(&w->m);
    buf_init(&w->out, 0);
    *state = w;
    return world_session(w, 1);
}

int world_teardown(void **state)
{
    struct world *w = *state;
    state_destroy(w->s);
    effects_finish(&w->e);
    maker_finish(&w->m);
    buf_finish(&w->out);
    free(w);
    return 0;
}

int32_t world_session(struct world *w, int64_t id)
{
    return apply(w->s, &w->e, &w->m, id, WIRE_CREATE_SESSION, make_session(&w->m, id, 4000));
}

int32_t world_close(struct world *w, int64_t id)
{
    return apply(w->s, &w->e, &w->m, id, WIRE_CLOSE_SESSION, slice_make("", 0));
}

int32_t world_create(struct world *w, const char *path, const char *data, int32_t mode)
{
    return apply(w->s, &w->e, &w->m, 1, WIRE_CREATE, make_create(&w->m, path, data, mode));
}

int32_t world_delete(struct world *w, const char *path, int32_t version)
{
    return apply(w->s, &w->e, &w->m, 1, WIRE_DELETE, make_delete(&w->m, path, version));
}

int32_t world_set(struct world *w, const char *path, const char *data, int32_t version)
{
    return apply(w->s, &w->e, &w->m, 1, WIRE_SET_DATA, make_set_data(&w->m, path, data, version));
}

int32_t world_set_acl(struct world *w, const char *path, int32_t version)
{
    return apply(w->s, &w->e, &w->m, 1, WIRE_SET_ACL, make_set_acl(&w->m, path, version));
}

int world_read(struct world *w, int32_t type, const char *path)
{
    buf_reset(&w->out);
    return state_query(w->s, type, maker_ids(&w->m), make_read(&w->m, path, true), &w->out,
                       &w->watch);
}

struct wire_stat world_stat(struct world *w, const char *path)
{
    struct wire_exists_response response;
    int rc = world_read(w, WIRE_EXISTS, path);
    assert(rc == 0);
    struct wire_reader r = wire_reader_make(buf_slice(&w->out));
    rc = wire_decode_exists_response(&r, &response);
    assert(rc == 0);
    return response.stat;
}

const char *world_events(const struct world *w)
{
    static char text[4096];
    size_t n = 0;
    text[0] = '\0';
    for (size_t i = 0; i < w->e.events_count && n < sizeof text; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d %.*s", i > 0 ? "," : "",
                              w->e.events[i].type, SLICE_FMT(w->e.events[i].path));
    }
    return text;
}
