/*
 * A small Redis server in memory, for tests of the client: one thread, a loopback socket, the real protocol, one counter. On
 * command it loses replies, cuts connections, says nothing, or says something else.
 *
 * It knows INFO, AUTH, SELECT, INCR, GET (any key is the counter), WAIT, ECHO and PING. A replica refuses INCR with READONLY.
 */
#ifndef SUPPORT_FAKE_REDIS_H
#define SUPPORT_FAKE_REDIS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct fake_redis;

/* The fate of a command. */
enum fake_redis_fate {
    FAKE_REDIS_SAY,    /* not executed: the text is the reply, as it is on the wire */
    FAKE_REDIS_CUT,    /* not executed; the connection ends */
    FAKE_REDIS_LOSE,   /* executed; the connection ends without a reply */
    FAKE_REDIS_SILENT, /* executed; no reply, the connection stays */
};

struct fake_redis *fake_redis_start(bool master,
                                    const char *run_id); /* NULL: no socket or thread */
void fake_redis_stop(struct fake_redis *f);

/* "127.0.0.1:port"; lives as long as f. */
const char *fake_redis_address(const struct fake_redis *f);

void fake_redis_set_master(struct fake_redis *f, bool master);
/* Whether a replica says that it has a link to its master. */
void fake_redis_set_link(struct fake_redis *f, bool up);
void fake_redis_set_password(struct fake_redis *f, const char *password);
/* The counter, and what WAIT answers. */
void fake_redis_set(struct fake_redis *f, int64_t value, int replicas);

/* The next `times` commands of this name meet this fate. One at a time; times 0: none. The text is borrowed. */
void fake_redis_hook(struct fake_redis *f, const char *name, int times, enum fake_redis_fate fate,
                     const char *text);
/* Cuts all connections once. */
void fake_redis_cut(struct fake_redis *f);

int64_t fake_redis_value(struct fake_redis *f);
int fake_redis_count(struct fake_redis *f, const char *name); /* commands of this name */
int fake_redis_accepted(struct fake_redis *f);                /* connections so far */
int fake_redis_open(struct fake_redis *f);                    /* connections now */

#ifdef __cplusplus
}
#endif

#endif
