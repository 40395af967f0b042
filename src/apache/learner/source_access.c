#include "apache/learner/source_access.h"

#include "base/buf.h"
#include "cyrus/exchange.h"
#include "cyrus/library.h"

/* Both ends of a login between servers of ZooKeeper have these names. Source: QuorumAuth. */
#define QUORUM_SERVICE "zookeeper-quorum"
#define QUORUM_HOST "zk-quorum-sasl-md5"

static int open_login(struct source_access *a, const struct source_settings *settings,
                      char **ret_text)
{
    int rc = cyrus_client_start();
    if (rc == CONCLAVE_EUNSUPPORTED || (rc == 0 && !cyrus_has_mechanism(false))) {
        return text_fail(ret_text, CONCLAVE_EUNSUPPORTED, "mirror.sasl.file: %s",
                         cyrus_mechanism_missing(false));
    }
    if (rc == 0) {
        rc = cyrus_settings_create(false, settings->user, slice_str(settings->password),
                                   QUORUM_SERVICE, QUORUM_HOST, &a->login);
    }
    return rc == 0 ? 0 : text_fail(ret_text, rc, "out of memory");
}

int source_access_init(struct source_access *a, const struct source_settings *settings,
                       char **ret_text)
{
    char why[TLS_TEXT_MAX];
    *a = (struct source_access){.verify_hosts = settings->verify_hosts};
    int rc = settings->tls ? tls_context_create(&settings->certificates, &a->tls, why) : 0;
    if (rc != 0) {
        return text_fail(ret_text, rc, "mirror.ssl: %s",
                         rc == CONCLAVE_EINVAL ? why : "out of memory");
    }
    rc = settings->user != NULL ? open_login(a, settings, ret_text) : 0;
    if (rc != 0) {
        source_access_finish(a);
    }
    return rc;
}

void source_access_finish(struct source_access *a)
{
    tls_context_release(a->tls);
    cyrus_settings_unref(a->login);
    *a = (struct source_access){0};
}
