/*
 * SASL as in ZooKeeper's servers, with Cyrus SASL: client and server exchange tokens, and in the end the connection has
 * an id. The wire does not negotiate the mechanism: the server has one (struct sasl_options), DIGEST-MD5 in the realm
 * zk-sasl-md5, or GSSAPI with the key of its own principal. No security layer follows.
 *
 * Nothing here waits for the network, except that Kerberos may look up the name of its own host if
 * dns_canonicalize_hostname is on in krb5.conf. Limits: the library's state is global, so only one thread uses it, and
 * one keytab is in use at a time.
 *
 * Sources: ZooKeeperSaslServer, SaslServerCallbackHandler and SecurityUtils of Apache ZooKeeper 3.9; RFC 2831, RFC
 * 4752. Unlike there, an authorization id (authzid) is ignored, and a principal of another realm always keeps its
 * realm.
 */
#ifndef FRONT_LOGIN_SASL_LOGIN_H
#define FRONT_LOGIN_SASL_LOGIN_H

#include "base/buf.h"
#include "front/login/client_ids.h"
#include "front/login/sasl_options.h"

struct sasl_service; /* shared by all exchanges */
struct sasl_login;   /* one connection's exchange */

/* Loads the mechanism; borrows the options. 0, CONCLAVE_ENOMEM, or CONCLAVE_EUNSUPPORTED with a fixed text that names
 * the missing part. */
int sasl_service_open(const struct sasl_options *options, struct sasl_service **ret,
                      const char **ret_text) CONCLAVE_MUST_USE;

/* All exchanges must be destroyed. NULL does nothing. */
void sasl_service_close(struct sasl_service *s);

const struct sasl_options *sasl_service_options(const struct sasl_service *s);

/* The result of a step; borrowed until the next step or sasl_login_destroy. */
struct sasl_step {
    struct slice token; /* for the client, or null */
    struct slice id;    /* the id, once, when the exchange is complete; otherwise null */
};

/* Takes the client's next token; the first one creates the exchange in *login. 0, CONCLAVE_AUTH_FAILED (also for each
 * further step, and after a completed exchange), or CONCLAVE_ENOMEM. */
int sasl_login_take(struct sasl_service *s, struct sasl_login **login, struct slice token,
                    struct sasl_step *ret) CONCLAVE_MUST_USE;

/* The reason of the newest failure, for the log: printable, without quotes or secrets; "": unknown. */
const char *sasl_service_reason(const struct sasl_service *s);

/* NULL does nothing. */
void sasl_login_destroy(struct sasl_login *l);

/* Appends the id of a Kerberos principal. Without a realm it belongs to the default realm, for which the options may
 * remove host and realm. False: ZooKeeper does not know this form. */
bool sasl_login_principal_id(const struct sasl_options *o, struct slice principal, struct buf *out);

/* Adds a proved id with what the options give it: the superuser's, and that of letAnySaslUserDoX. As client_ids_add. */
int sasl_login_add_ids(const struct sasl_options *o, struct slice id,
                       struct client_ids *ids) CONCLAVE_MUST_USE;

#endif
