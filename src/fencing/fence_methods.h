/*
 * Making sure that another is dead: a list of methods, tried in their order until one confirms it.
 *
 *   exec  a command for /bin/sh on this machine; exit code 0 confirms
 *   ssh   a command for the shell of the target's host, by the system's ssh; exit code 0 confirms
 *   http  a POST to a URL, by the system's curl, its body a JSON object; status 200 or 204 confirms
 *
 * Only these confirm. A method that takes longer than its timeout is killed with its process group, and
 * has not confirmed; then the next one is tried.
 *
 * What a command finds in its environment, that of ssh on the other host:
 *
 *   CONCLAVE_TARGET_ID, _HOST, _PORT, _DATA   of whom is to be fenced; empty where it is not known;
 *                                             _DATA also when it is no text, or more than 64 KiB
 *   CONCLAVE_OLD_TOKEN                        the token that it had
 *   CONCLAVE_NEW_TOKEN                        the token of whoever fences it
 *
 * What http sends: {"target":{"id":"...","host":"...","port":N,"data":"..."},"old_token":N,"new_token":N};
 * "data_base64" in place of "data" when that is no text.
 */
#ifndef FENCING_FENCE_METHODS_H
#define FENCING_FENCE_METHODS_H

#include <conclave/error.h>

#include <stddef.h>
#include <stdint.h>

enum fence_kind { FENCE_EXEC, FENCE_SSH, FENCE_HTTP };

struct fence_method {
    enum fence_kind kind;
    const char *text;   /* the command, or the URL */
    int64_t timeout_ms; /* more than 0 */
    /* Of ssh: "NAME=VALUE" as its -o takes them ("User=ops", "IdentityFile=/etc/key"), NULL-ended; they
     * come before BatchMode=yes and a ConnectTimeout, so they may replace these. NULL: none. */
    const char *const *ssh_options;
    /* Whom it may fence, NULL-ended, in any case of letters: a target's host comes from a node, which others may
     * have written. A target without one of these is not confirmed, and nothing is run. NULL: anyone. */
    const char *const *hosts;
};

struct fence_target {
    const char *id;
    const char *host; /* NULL or "": not known, and ssh confirms nothing */
    int port;         /* 0: not known */
    const void *data; /* more about it; in an environment only what is text */
    size_t data_len;
    int64_t old_token;
    int64_t new_token;
};

/* What came of a method: 0 (confirmed), or not; text: a few words ("exit code 1", "no end within
 * 10000ms"), for a log line. Called on the thread of fence_methods_run. */
typedef void (*fence_told_fn)(const struct fence_method *method, int error, const char *text,
                              void *ctx);

/* "exec", "ssh", "http". Static. */
const char *fence_kind_name(enum fence_kind kind);

/* What is wrong with a method, in a few words for its user; NULL: nothing. Static. */
const char *fence_method_wrong(const struct fence_method *method);

/* Tries them in turn; blocks. 0: one has confirmed, the rest was not tried. CONCLAVE_EBUSY: none did (or
 * there is none); CONCLAVE_ECANCELED: stop_fd (-1: none) became readable, what ran was killed. told may
 * be NULL. Any thread that may block, several at once. */
int fence_methods_run(const struct fence_method *methods, size_t count,
                      const struct fence_target *target, int stop_fd, fence_told_fn told,
                      void *ctx) CONCLAVE_MUST_USE;

#endif
