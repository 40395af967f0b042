/*
 * The ids of a connection: the vector of authenticated ids that is stamped on its writes and checked on its reads.
 * Schemes: ip (known from the start), x509 (the subject of the verified client certificate, known from the start, too),
 * digest (user:password; without a file of users the id itself is the proof) and sasl (from sasl_login.h). Source:
 * IPAuthenticationProvider, DigestAuthenticationProvider of Apache ZooKeeper 3.9.
 */
#ifndef FRONT_LOGIN_CLIENT_IDS_H
#define FRONT_LOGIN_CLIENT_IDS_H

#include "base/account.h"
#include "wire/records.h"

/* The server's settings for the scheme digest; strings are borrowed. */
struct digest_rules {
    const char *super;     /* user:hash of the superuser, or NULL */
    const char *algorithm; /* hash in ids, OpenSSL's name; NULL: SHA1 */
    bool off;              /* clients cannot authenticate by digest, and ACLs cannot use it */
    bool tls_only;         /* only with TLS, because the password is sent in clear text */
};

struct client_ids {
    struct buf ids; /* encoded wire_id, bounded */
    int32_t count;
    int64_t count_max;
    struct account *account; /* charged with their bytes; NULL: none */
};

void client_ids_init(struct client_ids *i, size_t max_bytes, int64_t max_count);
void client_ids_finish(struct client_ids *i);

/* The ids as a vector; borrowed. */
struct wire_vector client_ids_list(const struct client_ids *i);

/* Adds an id, if it is new. 0, CONCLAVE_ETOOBIG (too many ids or bytes) or CONCLAVE_ENOMEM. */
int client_ids_add(struct client_ids *i, struct slice scheme, struct slice id) CONCLAVE_MUST_USE;

/* The next scheme of a list such as "digest, sasl": true and *ret, false at the end. Consumes *list. */
bool auth_scheme_next(const char **list, struct slice *ret);

/* Whether such a list has the scheme. */
bool auth_schemes_have(const char *list, const char *scheme);

/* Whether clients can authenticate by this scheme. */
bool auth_scheme_known(struct slice scheme);

/* Whether there is an id of one of the schemes in the list. */
bool client_ids_has_any(const struct client_ids *i, const char *schemes);

/* Whether this id is there. */
bool client_ids_has(const struct client_ids *i, struct slice scheme, struct slice id);

/* Carries out an auth request; `host` is the client's address. Digest accepts every user and password, because no list
 * of users exists here. 0; CONCLAVE_AUTH_FAILED for a scheme that is off or not ip or digest, or for malformed
 * credentials; or as client_ids_add. */
int client_ids_authenticate(struct client_ids *i, const char *host,
                            const struct digest_rules *digest, struct slice scheme,
                            struct slice auth) CONCLAVE_MUST_USE;

/* Adds a digest id, and the superuser's id if it is the superuser's digest. Errors as client_ids_add. */
int client_ids_add_digest(struct client_ids *i, const struct digest_rules *digest,
                          struct slice user_password) CONCLAVE_MUST_USE;

/* The result of a check against the superuser. */
enum digest_super {
    DIGEST_OTHER, /* another user */
    DIGEST_SUPER,
    DIGEST_WRONG, /* the superuser's name with a wrong password: an ordinary id */
    DIGEST_NO_MEMORY,
};
enum digest_super digest_super_is(const struct digest_rules *digest, struct slice user_password);

/* Adds the subject of a verified certificate, as Java prints it; and the superuser's id if the subject equals `super`
 * (NULL: never). Errors as client_ids_add. */
int client_ids_add_x509(struct client_ids *i, const char *super,
                        struct slice subject) CONCLAVE_MUST_USE;

/* Appends user:base64(hash(user:password)); algorithm as in digest_rules. 0, CONCLAVE_ETOOBIG or CONCLAVE_ENOMEM. */
int digest_id(struct buf *out, const char *algorithm, struct slice user_password) CONCLAVE_MUST_USE;

/* OpenSSL's name of a hash, by any of Java's names; NULL: unknown. */
const char *digest_algorithm_find(const char *name);

#endif
