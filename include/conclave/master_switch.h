/*
 * The simple master switch: one of all processes that start it on a path is the master, the others
 * are slaves. When the master goes, the slave that has waited longest becomes master.
 *
 *     struct conclave_master_switch_options options = CONCLAVE_MASTER_SWITCH_OPTIONS_INIT;
 *     options.path = "/jobs/master";
 *     conclave_master_switch_open(&options, on_master, on_slave, NULL, &sw);
 *     while (running) {
 *         if (conclave_master_switch_is_master(sw)) { ... one step of the work ... }
 *     }
 *     conclave_master_switch_close(sw, CONCLAVE_FOREVER);
 *
 * It is an election (conclave/election.h) with the settings that most programs want: after a loss
 * it queues again, also in a new session. The guarantee is the election's: is_master turns false,
 * and on_slave has started, before another process becomes master, because a quorum proves the
 * lease. A process that was stopped can still act late: pass the token with every write. If the
 * previous master must be made sure to be dead, use conclave/elector.h.
 */
#ifndef CONCLAVE_MASTER_SWITCH_H
#define CONCLAVE_MASTER_SWITCH_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

struct conclave_master_switch;

/* This process is the master; token: larger than that of every earlier master. Return 0 when it
 * works. After any other value on_slave is called, and another process becomes master; on_slave
 * must be able to end the work begun here. */
typedef int (*conclave_on_master_fn)(struct conclave_master_switch *sw, struct conclave_token token,
                                     void *ctx);

/* This process is no longer the master: stop within stop_within_ms; after that another may be
 * master (0: now). */
typedef void (*conclave_on_slave_fn)(struct conclave_master_switch *sw, int64_t stop_within_ms,
                                     void *ctx);

/* Begin with CONCLAVE_MASTER_SWITCH_OPTIONS_INIT, then set what differs. */
struct conclave_master_switch_options {
    size_t size;
    const char *path; /* of the switch; the same for all, made with its parents */
    const char *id;   /* shown to others, no newline; NULL: host:pid */
    const void *data; /* shown to others, as an address; at most 64 KiB */
    size_t data_len;
    /* its own connection, with threads: "host:port,host:port/chroot"; NULL: $CONCLAVE_SERVER or
     * 127.0.0.1:2181 */
    const char *servers;
    int64_t session_timeout_ms; /* at least three ticks of the server */
    /* the program's connection instead, which outlives the switch; the two fields above are then
     * ignored */
    struct conclave_recipes *recipes;
};
#define CONCLAVE_MASTER_SWITCH_OPTIONS_INIT                                                        \
    CONCLAVE_INIT_WITH(conclave_master_switch_options, CONCLAVE_SET(session_timeout_ms, 10000))

/* Starts as a slave; on_master is called when this process becomes master. The two callbacks
 * alternate, one at a time, in a thread of the library, or in the program's loop if the connection
 * is the program's; either may be NULL. Options are copied; *ret is set before a callback can run,
 * NULL after an error. 0, CONCLAVE_EINVAL (path, id, servers), CONCLAVE_ENOMEM, CONCLAVE_EIO,
 * CONCLAVE_ECLOSED. An unreachable server is not an error: the library keeps trying. */
CONCLAVE_API int conclave_master_switch_open(const struct conclave_master_switch_options *options,
                                             conclave_on_master_fn on_master,
                                             conclave_on_slave_fn on_slave, void *ctx,
                                             struct conclave_master_switch **ret) CONCLAVE_MUST_USE;

/* Whether it is the master now: the lease checked against the clock at this moment. Any thread,
 * wait-free, async-signal-safe. */
CONCLAVE_API bool conclave_master_switch_is_master(const struct conclave_master_switch *sw);

/* The token, 0 when it is not the master; the remaining time of the lease. As above. */
CONCLAVE_API struct conclave_token
conclave_master_switch_token(const struct conclave_master_switch *sw);
CONCLAVE_API int64_t conclave_master_switch_lease_left_ms(const struct conclave_master_switch *sw);

/* Lets another process become master and queues at the end. Asynchronous. 0, CONCLAVE_ECLOSED. */
CONCLAVE_API int conclave_master_switch_yield(struct conclave_master_switch *sw) CONCLAVE_MUST_USE;

/* The reason why it has stopped competing for good (CONCLAVE_AUTH_FAILED, CONCLAVE_NO_AUTH, ...);
 * 0: it still competes. */
CONCLAVE_API int conclave_master_switch_error(const struct conclave_master_switch *sw);

/* Steps down, on_slave before it if it is the master, leaves and frees it. NULL is allowed. 0, or
 * CONCLAVE_ETIMEDOUT (it is still leaving: call again), CONCLAVE_EDEADLK (inside a callback). */
CONCLAVE_API int conclave_master_switch_close(struct conclave_master_switch *sw,
                                              int64_t timeout_ms);

#ifdef __cplusplus
}
#endif
#endif
