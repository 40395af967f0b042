/*
 * Passwords of clients against the hashes of a file of users. A hash is slow by design, so a thread
 * of its own computes it; a password that was right once is known again by a keyed digest in memory,
 * so that clients that come back cost next to nothing. Failures are limited by address.
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
    VERIFIER_BUSY, /* too many passwords are being checked, or memory is out: not refused, asked to
                       come again */
};

/* One password being checked; the holder gives it up with password_check_drop, or it is gone with
 * `done`. */
struct password_check;

/* error: 0 or CONCLAVE_AUTH_FAILED, or CONCLAVE_ENOMEM. */
typedef void (*verified_fn)(void *ctx, int error);

/* Reads the file of users and starts the thread. 0; CONCLAVE_EINVAL with *ret_text (free it);
 * CONCLAVE_ENOMEM; CONCLAVE_EIO. */
int password_checker_open(uv_loop_t *loop, const char *path, struct password_checker **ret,
                          char **ret_text) CONCLAVE_MUST_USE;

/* Every verification must be over or dropped. Takes NULL without a call. */
void password_checker_close(struct password_checker *v, void (*cb)(void *ctx), void *ctx);

/* Reads the file again; one that cannot be used leaves the users as they are, with a log line. */
void password_checker_reload(struct password_checker *v);

/* user_password is "user:password". VERIFYING sets *ret; fn then follows from the loop. */
enum password_answer password_checker_begin(struct password_checker *v, struct slice user_password,
                                            verified_fn fn, void *ctx, struct password_check **ret);

/* fn will not be called. */
void password_check_drop(struct password_check *x);

#endif
