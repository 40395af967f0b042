/*
 * The audit log: a line for each write of a client and each login, in the format of Apache ZooKeeper's audit log, so
 * that the same tools can read both:
 *
 *   2026-01-31 12:00:00,123 INFO audit.Slf4jAuditLogger: session=0x1...<TAB>user=bob,127.0.0.1<TAB>
 *   ip=127.0.0.1<TAB>operation=create<TAB>znode=/a<TAB>znode_type=persistent<TAB>result=success
 *
 * (one line; level ERROR for a failure). Keys without a value are omitted. Besides Apache's operations there are `auth`,
 * `sasl` and `killSession`, which names the ended session and the operator; of the web console `consoleSignIn`,
 * `consoleSignOut` and `transferLeadership`. No line contains a secret: no data, no credentials, and only the user of
 * digests in ACLs. Control characters are written as \xNN.
 *
 * Limits: lines are gathered and written at the end of a turn. If the file accepts none, they are lost, with a line in
 * the server's log, and the server continues. To rotate: copy and truncate. Sources: AuditHelper, AuditEvent, AuthUtil
 * of Apache ZooKeeper 3.9.
 */
#ifndef FRONT_LOGIN_AUDIT_LOG_H
#define FRONT_LOGIN_AUDIT_LOG_H

#include "base/clock.h"
#include "state/state.h"

struct audit_log;

/* Appends to the file (NULL: stderr); borrows the clock. 0, CONCLAVE_ENOMEM, or CONCLAVE_EIO with
 * *ret_errno. */
int audit_log_open(const char *path, const struct clock_source *clock, struct audit_log **ret,
                   int *ret_errno) CONCLAVE_MUST_USE;

/* Writes the gathered lines. NULL does nothing. */
void audit_log_close(struct audit_log *a);

/* Call it at the end of a turn. */
void audit_log_flush(struct audit_log *a);

/* An applied command of a client at host (NULL: the client is gone, or the command is the server's own). */
void audit_log_command(struct audit_log *a, const struct command *command,
                       const struct effects *effects, const char *host);

/* auth and sasl: the operation and whether it succeeded. */
void audit_log_login(struct audit_log *a, const char *operation, int64_t session_id,
                     struct wire_vector ids, const char *host, bool success);

/* An operator's act in the web console that is no write of the log, or was refused before it: operation and, if it is
 * about one, the node (null: none). */
void audit_log_act(struct audit_log *a, const char *operation, int64_t session_id,
                   struct wire_vector ids, const char *host, struct slice path, bool success);

/* Start and stop of the server: serverStart success, serverStop invoked. */
void audit_log_server(struct audit_log *a, const char *operation, const char *result);

#endif
