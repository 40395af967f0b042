/*
 * What client and server share of Cyrus SASL: ZooKeeper's names for both ends, no security layer, the available
 * modules, and the library's error messages. The library loads mechanisms as modules from the system. The server
 * ignores the system's configuration files; the client needs none.
 */
#ifndef CYRUS_LIBRARY_H
#define CYRUS_LIBRARY_H

#include <conclave/error.h>

#include <sasl/sasl.h>
#include <stdbool.h>
#include <stddef.h>

/* Known to all clients: protocol and serverName of SaslServer and SaslClient. */
#define CYRUS_DIGEST_SERVICE "zookeeper"
#define CYRUS_DIGEST_HOST "zk-sasl-md5"

enum { CYRUS_REASON_MAX = 400 };

/* The newest error message of the library: printable, without quotes or secrets; "": none. Context of cyrus_on_log. */
struct cyrus_reason {
    char text[CYRUS_REASON_MAX];
};

/* Keeps a text, made printable. */
void cyrus_reason_set(struct cyrus_reason *r, const char *text);

/* SASL_CB_LOG. Messages of more verbose levels are dropped, because they may contain tokens. */
int cyrus_on_log(void *context, int level, const char *message);

/* A row of callbacks. fn: any of the library's callback types. */
#define CYRUS_CALLBACK(id, fn, context)                                                            \
    ((sasl_callback_t){(id), (int (*)(void))(void (*)(void))(fn), (context)})

/* Starts the library's client side, once per process, for good. Any thread. 0, CONCLAVE_EUNSUPPORTED or
 * CONCLAVE_ENOMEM. */
int cyrus_client_start(void) CONCLAVE_MUST_USE;

/* "DIGEST-MD5" or "GSSAPI". Static. */
const char *cyrus_mechanism(bool gssapi);

/* Whether the module of the mechanism was loaded. */
bool cyrus_has_mechanism(bool gssapi);

/* The error text if it was not. Static. */
const char *cyrus_mechanism_missing(bool gssapi);

/* Disables integrity and encryption layers. SASL_OK or the library's error. */
int cyrus_no_layer(sasl_conn_t *conn);

#endif
