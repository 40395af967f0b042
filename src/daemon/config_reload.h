/*
 * Reads the configuration of a running server again: the same file and the same arguments. Keys that are KEY_LIVE
 * (keys.h) take effect with their new values. A change of any other key waits for a restart, and each reload says so until
 * then. If anything in the file is at fault, nothing changes. Then the files that the keys name are read again, each of
 * them as a whole or not at all.
 *
 * Limits: lines of members are left out, because members change by reconfig. The caller's thread reads the files, and
 * derives keys from the secrets of the ensemble: some 100 ms.
 */
#ifndef DAEMON_CONFIG_RELOAD_H
#define DAEMON_CONFIG_RELOAD_H

#include "base/json.h"
#include "daemon/zoo_cfg.h"

struct server;

struct config_reload {
    struct zoo_cfg *
        running; /* borrowed: what is in effect; `given` has the keys of KEY_AT_START as they were at the start */
    struct server *server; /* borrowed; NULL: none yet */
    int argc;
    char **argv; /* own copy, with the secrets that no list of processes shows */
};

/* Call it before anyone changes argv. 0 or CONCLAVE_ENOMEM; call config_reload_finish in either case. */
int config_reload_init(struct config_reload *r, struct zoo_cfg *running, int argc,
                       char **argv) CONCLAVE_MUST_USE;
void config_reload_finish(struct config_reload *r);

/*
 * Reads the configuration and applies it. With `set`, "KEY=VALUE", only that key gets this value, until the next reload.
 * Appends an object for each key to an open array of *rows: "key", "old", "new" (null: not given, so the default), and
 * "result": applied, unchanged, needs-restart or no-effect. by: who asks, for the log. After an error, CONCLAVE_EINVAL or
 * CONCLAVE_ENOMEM, nothing has changed, and *ret_error says why (free it; NULL: memory is out).
 */
int config_reload_keys(struct config_reload *r, const char *set, const char *by, struct json *rows,
                       char **ret_error) CONCLAVE_MUST_USE;

/* Reads certificates, secrets and users again. Appends for each of them that this server has: "file", "result" (read or kept)
 * and "reason" (null, if it was read). */
void config_reload_files(struct config_reload *r, struct json *rows);

/* Such an object. CONCLAVE_EUNSUPPORTED: none. */
void config_reload_file(struct json *rows, const char *name, int rc, const char *why);

#endif
