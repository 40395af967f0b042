/*
 * The lease as a page of memory that several processes map: the wrapper of `conclave elect`, `lock` or `semaphore` writes
 * it, its guardian and the child read it. A child can ask before each write of its own whether it
 * still leads, without a system call.
 *
 * Layout, in the machine's byte order, for programs in any language ($CONCLAVE_LEASE_SHM_FD, map
 * 4096 bytes read-only):
 *
 *   offset  type    meaning
 *        0  u32     0x31534c43 ("CLS1")
 *        4  u32     state: 1 leading, anything else not
 *        8  u64     sequence: odd while the page is being written
 *       16  i64     end of the lease, nanoseconds of CLOCK_BOOTTIME
 *       24  i64     token of the term (czxid)
 *
 * To read: load the sequence; when it is even, load state, end and token, then the sequence again;
 * if it is the same, the values belong together. The caller leads if state is 1, the token is its
 * own ($CONCLAVE_TOKEN) and the clock is before the end. A sequence that stays odd means that the
 * writer was stopped in between: take it as lost.
 */
#ifndef CLI_RUN_LEASE_PAGE_H
#define CLI_RUN_LEASE_PAGE_H

#include "cli/common/options.h"

#include <conclave/error.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LEASE_PAGE_SIZE 4096
#define LEASE_PAGE_MAGIC UINT32_C(0x31534c43)

enum lease_state {
    LEASE_NONE = 0,    /* no term yet */
    LEASE_LEADING = 1, /* until the end of the lease */
    LEASE_REVOKED = 2, /* the term is over */
};

struct lease_values {
    uint32_t magic;
    atomic_uint state;
    atomic_ullong sequence;
    atomic_llong until_ns;
    atomic_llong token;
};

struct lease_page {
    struct lease_values *values; /* shared mapping */
    int fd;                      /* memfd, close-on-exec; what maps it from now on can only read */
};

/* 0 or CONCLAVE_EIO. */
int lease_page_init(struct lease_page *page) CONCLAVE_MUST_USE;
void lease_page_finish(struct lease_page *page);

/* One writer at a time. */
void lease_page_write(struct lease_page *page, enum lease_state state, int64_t until_ns,
                      int64_t token);

/* End of the lease, 0 when nobody leads. One load each: right also when the writer was stopped half-way, as a term's
 * end only grows and its state is written first when it ends and last when it begins. */
int64_t lease_page_until_ns(const struct lease_page *page);

/* The grace of a command that runs under the lease: the time from the signal that tells it to stop to SIGKILL. The signal
 * comes at the end of the lease at the latest, two thirds of the session timeout after the last proof; the session may
 * end a third later, and the command has to be gone by then.
 *
 * asked_ms: --grace, -1: the most. False: it does not fit the session, which was printed as wrong usage. */
bool grace_fit(const struct command_usage *usage, int64_t asked_ms, int64_t session_timeout_ms,
               int64_t *ret_ms);

/* How often its writer should bring it up to date: the heartbeats come every sixth of the session timeout. */
int64_t lease_page_refresh_ms(int64_t session_timeout_ms);

#endif
