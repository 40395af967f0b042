#include "daemon/secure_profile.h"

#include "daemon/key_values.h"
#include "front/server_line.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_given(const struct zoo_cfg *c, const char *key)
{
    for (size_t i = 0; i < c->given.count; i++) {
        if (strcmp(c->given.pairs[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* An explicit key is the operator's decision and wins over the profile. */
static void set_unless_given(struct zoo_cfg *c, const char *key, bool *field)
{
    if (!is_given(c, key)) {
        *field = true;
    }
}

static bool asks_for_certificates(const struct zoo_cfg *c)
{
    const struct keys_tls *t = &c->tls;
    bool none = t->client_auth != NULL && strcasecmp(t->client_auth, "none") == 0;
    return !none && (t->ca_file != NULL || t->trust_store != NULL);
}

/* The schemes that clients can authenticate with, according to the keys. */
static int secure_schemes(struct zoo_cfg *c)
{
    struct buf list;
    buf_init(&list, 0);
    if (c->digest_users_file != NULL) {
        buf_append_str(&list, "digest");
    }
    if (c->login.users_file != NULL || c->login.jaas_file != NULL) {
        buf_append_str(&list, list.len > 0 ? ",sasl" : "sasl");
    }
    if (asks_for_certificates(c)) {
        buf_append_str(&list, list.len > 0 ? ",x509" : "x509");
    }
    const char *text = buf_cstr(&list);
    int rc = text == NULL ? CONCLAVE_ENOMEM : 0;
    if (rc == 0 && text[0] == '\0') {
        rc = key_fail(c, "secure: no client could authenticate: name users with digest.users.file "
                         "or sasl.users.file, or the CA of clients' certificates with "
                         "ssl.caFile");
    }
    if (rc == 0) {
        rc = text_replace(&c->auth_schemes, text);
    }
    buf_finish(&list);
    return rc;
}

int secure_profile_begin(struct zoo_cfg *c)
{
    struct digest_rules *digest = &c->options.digest;
    assert(c->secure && c->options.auth_schemes == NULL); /* before these conclusions */
    if (c->options.skip_acl) {
        return key_fail(c, "secure: skipACL=yes permits everything to every client: remove one of "
                           "the two");
    }
    set_unless_given(c, "closeInitialAcls", &c->options.close_acls);
    set_unless_given(c, "enforce.auth.enabled", &c->enforce_auth);
    /* Without a file of users, digest proves nothing: a client can choose any name. */
    if (c->digest_users_file == NULL) {
        set_unless_given(c, "DigestAuthenticationProvider.enabled", &digest->off);
    }
    if (!is_given(c, "4lw.memb.enabled")) {
        c->admin.options.memb = false;
    }
    if (c->admin.options.metrics && !is_given(c, "metricsProvider.httpHost")) {
        memcpy(c->admin.options.metrics_listen.host, "127.0.0.1", sizeof "127.0.0.1");
    }
    /* The default (need) would fail without a CA. */
    if (!is_given(c, "ssl.clientAuth") && !asks_for_certificates(c)) {
        int rc = text_replace(&c->tls.client_auth, "none");
        if (rc != 0) {
            return rc;
        }
    }
    return c->enforce_auth && !is_given(c, "enforce.auth.schemes") ? secure_schemes(c) : 0;
}

static bool is_here_only(const struct net_address *a)
{
    return a->host[0] != '\0' && server_host_is_loopback(a->host);
}

static const char *shown(const struct net_address *a)
{
    return a->host[0] != '\0' ? a->host : "every interface";
}

/* Warns about plain connections from other machines without authentication. */
static void warn_if_open(struct zoo_cfg *c)
{
    const struct server_options *o = &c->options;
    if (c->warn_open && o->plain && !is_here_only(&o->listen) && o->auth_schemes == NULL) {
        buf_printf(&c->notices,
                   "conclave: the client port is open to other machines (%s) without TLS and "
                   "without authentication: set secure=yes (docs/security.md) or listen on "
                   "127.0.0.1; warnOpenClientPort=no silences this\n",
                   shown(&o->listen));
    }
    /* An explicit address is the operator's decision. */
    if (c->admin.options.metrics && !is_given(c, "metricsProvider.httpHost")) {
        buf_append_str(&c->notices,
                       "conclave: metricsProvider.httpHost: not set: /metrics is open to other "
                       "machines without authentication, as in Apache ZooKeeper: set "
                       "metricsProvider.httpHost=127.0.0.1, or 0.0.0.0 to silence this\n");
    }
}

int secure_profile_end(struct zoo_cfg *c)
{
    const struct server_options *o = &c->options;
    const struct admin_options *a = &c->admin.options;
    if (!c->secure) {
        warn_if_open(c);
        return buf_ok(&c->notices) ? 0 : CONCLAVE_ENOMEM;
    }
    if (o->plain && !is_here_only(&o->listen)) {
        return key_fail(c,
                        "secure: the client port accepts plain connections from other machines "
                        "(%s): use secureClientPort without clientPort, or listen on 127.0.0.1",
                        shown(&o->listen));
    }
    if (a->http && !is_here_only(&a->listen) && a->plain_too) {
        return key_fail(c,
                        "secure: the admin port accepts plain connections from other machines "
                        "(%s): set admin.forceHttps=true, or admin.serverAddress=127.0.0.1",
                        shown(&a->listen));
    }
    if (a->http && a->change_by_get) {
        return key_fail(c, "secure: admin.stateChangeByGet=yes lets a page of another site change "
                           "state: remove one of the two");
    }
    if (a->http && a->allowed_hosts != NULL && strchr(a->allowed_hosts, '*') != NULL) {
        return key_fail(c, "secure: admin.allowedHosts=* lets pages of other sites read the admin "
                           "port: name the hosts");
    }
    return 0;
}
