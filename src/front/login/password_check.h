/*
 * Checks passwords of clients against the hashes of a file of users. A hash is slow on purpose, so a separate thread
 * computes it. Once a password was correct, a keyed digest in memory recognises it, so that returning clients cost
 * almost nothing. Failures are limited per address.
 *
 *     password_checker_begin ──known──> VERIFIED
 *          │  └──over a limit──> VERIFIER_BUSY
 *          └──to the thread──> VERIFYING ... verification.done
 */
#ifndef FRONT_LOGIN_PASSWORD_CHECK_H
#define FRONT_LOGIN_PASSWORD_CHECK_H

#include "base/buf.h"
#include "net/worker.h"

#include <conclave/error.h>

struct password_checker;

enum password_answer {
    VERIFIED,
    VERIFYING,
    VERIFIER_BUSY, /* too many passwords are being checked, or out of memory: the client should try again */
};

/* One check in progress. It ends with its callback, or with password_check_drop. */
struct password_check;

/* error: 0 or CONCLAVE_AUTH_FAILED, or CONCLAVE_ENOMEM. */
typedef void (*verified_fn)(void *ctx, int error);

/* Reads the file of users and starts the thread. 0; CONCLAVE_EINVAL with *ret_text (free it);
 * CONCLAVE_ENOMEM; CONCLAVE_EIO. */
int password_checker_open(uv_loop_t *loop, const char *path, struct password_checker **ret,
                          char **ret_text) CONCLAVE_MUST_USE;

/* All checks must be over or dropped. NULL does nothing. */
void password_checker_close(struct password_checker *v, void (*cb)(void *ctx), void *ctx);

/* Reads the file again. 0, or an error with *ret_text (free it), and a log line: the users stay as they are. */
int password_checker_reload(struct password_checker *v, char **ret_text) CONCLAVE_MUST_USE;

/* user_password is "user:password". VERIFYING sets *ret; the loop then calls fn. */
enum password_answer password_checker_begin(struct password_checker *v, struct slice user_password,
                                            verified_fn fn, void *ctx, struct password_check **ret);

/* Drops a check: fn is not called. */
void password_check_drop(struct password_check *x);

#endif
