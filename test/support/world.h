/* A state with session 1 and buffers for requests and replies, for the unit tests of the state room. */
#ifndef SUPPORT_WORLD_H
#define SUPPORT_WORLD_H

#include "support/requests.h"

struct world {
    struct state *s;
    struct effects e;
    struct maker m;
    struct buf out;           /* reply of the last read */
    struct state_watch watch; /* requested by the last read */
};

/* For cmocka_unit_test_setup_teardown: *state becomes a struct world. */
int world_setup(void **state);
int world_teardown(void **state);

/* Writes of session 1; each returns err. */
int32_t world_session(struct world *w, int64_t id);
int32_t world_close(struct world *w, int64_t id);
int32_t world_create(struct world *w, const char *path, const char *data, int32_t mode);
int32_t world_delete(struct world *w, const char *path, int32_t version);
int32_t world_set(struct world *w, const char *path, const char *data, int32_t version);
int32_t world_set_acl(struct world *w, const char *path, int32_t version);

/* A read with a watch; the reply is in w->out. */
int world_read(struct world *w, int32_t type, const char *path);

/* The stat of an existing node. */
struct wire_stat world_stat(struct world *w, const char *path);

/* Events of the last write as "1 /a,4 /". Static. */
const char *world_events(const struct world *w);

#endif
