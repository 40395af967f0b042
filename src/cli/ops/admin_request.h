/* A request to the HTTP port of one server, for the commands that need it. */
#ifndef CLI_OPS_ADMIN_REQUEST_H
#define CLI_OPS_ADMIN_REQUEST_H

#include "base/buf.h"
#include "cli/common/options.h"

/* method and target ("GET", "/sessions") to HOST:PORT; authorization: value of that header, or NULL. 0 with the status and
 * the body (finish it in any case), or the exit code of a printed error. */
int admin_request(const char *command, const struct common_options *options, const char *address,
                  const char *method, const char *target, const char *authorization,
                  unsigned *ret_status, struct buf *ret_body);

/* Begins *question with the text of such a request. Finish it; buf_ok tells whether memory sufficed. */
void admin_request_write(struct buf *question, const char *method, const char *target,
                         const char *address, const char *authorization);

/* What to do about a refusal, "; ..."; "" without advice. Static. */
const char *admin_request_advice(unsigned status);

/* The exit code of an answer with another status than 200, after printing the reason that it contains. */
int admin_request_refused(const char *command, const char *address, unsigned status,
                          struct buf *body);

enum { ADMIN_AUTH_MAX = 1024 };

/* "SCHEME CREDENTIALS" of --auth or the first line of $CONCLAVE_AUTH, in out; NULL: neither is given. */
const char *admin_authorization(const struct common_options *options, char out[ADMIN_AUTH_MAX]);

/* Reads an answer, "HTTP/1.x NNN ...": the status, and the body behind the empty line, which is appended. False when it is
 * none. */
bool admin_request_read(struct buf *answer, unsigned *ret_status, struct buf *ret_body);

#endif
