/*
 * What client and server share of Cyrus SASL: how ZooKeeper names the two ends, that no security
 * layer follows, which modules there are, and how the library's complaints are kept. Mechanisms are
 * modules that the library loads from the system; no system configuration of them is read on our
 * behalf by the server, and none is wanted by the client.
 */
#ifndef CYRUS_LIBRARY_H
#define CYRUS_LIBRARY_H

#include <conclave/error.h>

#include <sasl/sasl.h>
#include <stdbool.h>
#include <stddef.h>

/* Known to all clients: SaslServer's and SaslClient's protocol and serverName. */
#define CYRUS_DIGEST_SERVICE "zookeeper"
#define CYRUS_DIGEST_HOST "zk-sasl-md5"

enum { CYRUS_REASON_MAX = 400 };

/* The newest complaint of the library: printable, without quotes, no secret; "" when there is none.
 * Context of cyrus_on_log. */
struct cyrus_reason {
    char text[CYRUS_REASON_MAX];
};

/* Keeps a text, made harmless. */
void cyrus_reason_set(struct cyrus_reason *r, const char *text);

/* SASL_CB_LOG. More talkative levels are not kept: they may hold what was sent. */
int cyrus_on_log(void *context, int level, const char *message);

/* A row of callbacks. fn: any of the library's callback types. */
#define CYRUS_CALLBACK(id, fn, context)                                                            \
    ((sasl_callback_t){(id), (int (*)(void))(void (*)(void))(fn), (context)})

/* Starts the library's client side, once for the process; it stays. Any thread. 0,
 * CONCLAVE_EUNSUPPORTED or CONCLAVE_ENOMEM. */
int cyrus_client_start(void) CONCLAVE_MUST_USE;

/* "DIGEST-MD5" or "GSSAPI". Static. */
const char *cyrus_mechanism(bool gssapi);

/* Whether its module was loaded. */
bool cyrus_has_mechanism(bool gssapi);

/* What to say when it was not. Static. */
const char *cyrus_mechanism_missing(bool gssapi);

/* Neither integrity nor encryption of what follows. SASL_OK or the library's error. */
int cyrus_no_layer(sasl_conn_t *conn);

#endif
