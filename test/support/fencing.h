/* A state whose prefixes can be bound to locks, and clients that come and go independently. */
#ifndef SUPPORT_FENCING_H
#define SUPPORT_FENCING_H

#include "support/world.h"

struct fencing {
    struct world w;
    int64_t now_ms; /* stamped on the commands */
    uint32_t options;
};

/* For cmocka_unit_test_setup_teardown: *state becomes a struct fencing with sessions 1, 2 and 3, /zookeeper/fence and
 * the nodes /app and /lock. */
int fencing_setup(void **state);
int fencing_teardown(void **state);

/* One command of a session; returns err, of a multi that of the part that failed. */
int32_t fencing_send(struct fencing *f, int64_t session, int32_t type, struct slice body);
/* Commands of the leader. */
int32_t fencing_open(struct fencing *f);
int32_t fencing_expire(struct fencing *f, int64_t session);

int32_t fencing_create(struct fencing *f, int64_t session, const char *path, const char *data,
                       int32_t mode);
int32_t fencing_delete(struct fencing *f, int64_t session, const char *path);
int32_t fencing_set(struct fencing *f, int64_t session, const char *path, const char *data);

/* Joins at /lock: makes the contender's node with a sequence number and returns its path (static). */
const char *fencing_join(struct fencing *f, int64_t session, const char *lock, const char *prefix);

/* Binds /app to /lock, or to the given data of the binding's node. */
int32_t fencing_bind(struct fencing *f, const char *prefix, const char *data);

/* Takes a snapshot and continues with the state that it restores. */
void fencing_restart(struct fencing *f);

#endif
