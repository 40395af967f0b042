/*
 * SASL as servers of ZooKeeper speak it, through Cyrus SASL: the client sends tokens, the server
 * answers tokens, and in the end the connection has an id. The mechanism is not agreed upon on the
 * wire: the server has one (struct sasl_options), DIGEST-MD5 in the realm zk-sasl-md5 or GSSAPI
 * with the key of its own principal. No security layer follows.
 *
 * Nothing here waits for the network, save that Kerberos may look up the name of its own host when
 * dns_canonicalize_hostname is on in krb5.conf. Limits: the library's state is the process', so
 * one thread uses it, and one keytab is in use at a time.
 *
 * Sources: ZooKeeperSaslServer, SaslServerCallbackHandler and SecurityUtils of Apache ZooKeeper
 * 3.9; RFC 2831, RFC 4752. Unlike there the client's wish to be another (authzid) counts for
 * nothing at all, and a principal of another realm always keeps its realm.
 */
#ifndef FRONT_LOGIN_SASL_LOGIN_H
#define FRONT_LOGIN_SASL_LOGIN_H

#include "base/buf.h"
#include "front/login/sasl_options.h"

struct sasl_service; /* what all exchanges share */
struct sasl_login;   /* one connection's exchange */

/* Loads the mechanism; borrows the options. 0, CONCLAVE_ENOMEM, or CONCLAVE_EUNSUPPORTED with a
 * fixed text that says what is missing. */
int sasl_service_open(const struct sasl_options *options, struct sasl_service **ret,
                      const char **ret_text) CONCLAVE_MUST_USE;

/* All exchanges must be destroyed. Takes NULL. */
void sasl_service_close(struct sasl_service *s);

const struct sasl_options *sasl_service_options(const struct sasl_service *s);

/* What a step gave; borrowed until the next step or sasl_login_destroy. */
struct sasl_step {
    struct slice token; /* for the client, or null */
    struct slice id;    /* the id, once, when the exchange is complete; else null */
};

/* Takes the client's next token; the first creates the exchange in *login. 0, CONCLAVE_AUTH_FAILED
 * (this and each further step: the exchange is dead, as it is after it was complete), or
 * CONCLAVE_ENOMEM. */
int sasl_login_take(struct sasl_service *s, struct sasl_login **login, struct slice token,
                    struct sasl_step *ret) CONCLAVE_MUST_USE;

/* Why the newest step failed, for the log: printable, without quotes, no secret; "" when nobody
 * knows. */
const char *sasl_service_reason(const struct sasl_service *s);

/* Takes NULL. */
void sasl_login_destroy(struct sasl_login *l);

/* Appends the id of a Kerberos principal: without realm it is one of the default realm. Of that
 * realm host and realm are left out as the options say. False when it is none that ZooKeeper
 * knows. */
bool sasl_login_principal_id(const struct sasl_options *o, struct slice principal, struct buf *out);

#endif
