#include "cluster/peer_credentials.h"

#include "base/log.h"

#include <string.h>

int peer_credentials_reload(struct peers *p, const struct ensemble_options *o, char **ret_text)
{
    char why[TLS_TEXT_MAX] = "";
    if (o->security != PEER_SECURITY_CERTIFICATES) {
        return CONCLAVE_EUNSUPPORTED;
    }
    int rc = peers_reload(p, why);
    if (rc == 0) {
        log_info("server", "peer-certificates-reloaded", "links=\"new ones use them\"");
    } else {
        log_warn_advice("server", "peer-certificates-kept",
                        "correct the certificate files, then send SIGHUP", "reason=\"%s\"", why);
        *ret_text = strdup(why);
    }
    return rc;
}

int peer_credentials_set(struct peers *p, const struct ensemble_options *o, struct slice secret,
                         struct slice other, char **ret_text)
{
    char why[TLS_TEXT_MAX] = "";
    if (o->security != PEER_SECURITY_SECRET) {
        return CONCLAVE_EUNSUPPORTED;
    }
    int rc = peers_set_secrets(p, secret, other, why);
    if (rc == 0) {
        log_info("server", "cluster-secret-reloaded", "accepted=%d links=\"new ones use it\"",
                 slice_is_null(other) ? 1 : 2);
    } else {
        log_warn_advice("server", "cluster-secret-kept",
                        "correct the file of clusterSecretFile, then send SIGHUP", "reason=\"%s\"",
                        why[0] != '\0' ? why : "out of memory");
        *ret_text = strdup(why);
    }
    return rc;
}

void peer_credentials_tell_refused(const char *address, const char *reason, uint64_t count)
{
    bool secret = reason != NULL && strstr(reason, "secret") != NULL;
    log_warn_advice(
        "server", "peer-refused",
        secret
            ? "give both servers the same clusterSecretFile; to change the secret without a stop, see docs/ensemble.md"
            : "check that this address is a member, and that both servers have certificates of the same CA",
        "address=%s count=%llu reason=\"%s\"", address, (unsigned long long)count,
        reason != NULL ? reason : "as before, more times in the last 60 s");
}
