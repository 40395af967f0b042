#include "daemon/keys_tls.h"

#include "daemon/key_values.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The client ports and the links between servers have keys of their own: the prefix of the keys, their values, and the
 * settings that result. */
struct tls_keys {
    const char *prefix;
    struct keys_tls *values;
    struct tls_settings *settings;
};

static struct tls_keys keys_of_clients(struct zoo_cfg *c)
{
    return (struct tls_keys){"ssl", &c->tls, &c->options.tls};
}

static struct tls_keys keys_of_servers(struct zoo_cfg *c)
{
    return (struct tls_keys){"ssl.quorum", &c->members.tls, &c->options.ensemble.tls};
}

/* Reads the first line of a password file into *field. */
static int config_password_file(struct zoo_cfg *c, const char *prefix, const char *key,
                                const char *path, char **field)
{
    struct buf text;
    if (path == NULL) {
        return 0;
    }
    if (*field != NULL) {
        return key_fail(c, "%s.%s and the password itself are both set: remove one of the two",
                        prefix, key);
    }
    buf_init(&text, 0);
    int rc = key_read_file(c, path, &text);
    const char *line = rc == 0 ? buf_cstr(&text) : NULL;
    if (rc == 0 && line == NULL) {
        rc = CONCLAVE_ENOMEM;
    } else if (rc == 0) {
        text.data[strcspn(line, "\r\n")] = '\0';
        rc = text_replace(field, line);
    }
    buf_wipe(&text);
    return rc;
}

/* TLS version of one word of the list; 0: older than 1.2, -1: not a version. */
static int version_of(const char *word, size_t len)
{
    static const struct {
        const char *name;
        int version;
    } known[] = {{"TLSv1.3", TLS_1_3}, {"TLSv1.2", TLS_1_2}, {"TLSv1.1", 0},
                 {"TLSv1", 0},         {"SSLv3", 0},         {"SSLv2Hello", 0}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].name) == len && strncasecmp(known[i].name, word, len) == 0) {
            return known[i].version;
        }
    }
    return -1;
}

/* ssl.enabledProtocols: the oldest and the newest version of the list. */
static int config_versions(struct zoo_cfg *c, const struct tls_keys *k, const char *key,
                           const char *list)
{
    struct tls_settings *s = k->settings;
    int min = 0;
    int max = 0;
    for (const char *at = list; *at != '\0';) {
        size_t len = strcspn(at, ", ");
        int version = version_of(at, len);
        if (len > 0 && version < 0) {
            return key_fail(c, "%s.%s: '%.*s' is not TLSv1.2 or TLSv1.3", k->prefix, key, (int)len,
                            at);
        }
        if (len > 0 && version == 0) {
            buf_printf(&c->notices,
                       "conclave: %s.%s: %.*s is not supported: TLSv1.2 is the oldest version\n",
                       k->prefix, key, (int)len, at);
        } else if (len > 0) {
            min = min == 0 || version < min ? version : min;
            max = version > max ? version : max;
        }
        at += len + (at[len] != '\0');
    }
    if (max == 0) {
        return key_fail(c, "%s.%s: '%s' leaves no supported version: TLSv1.2 is the oldest",
                        k->prefix, key, list);
    }
    assert(min >= TLS_1_2 && min <= max);
    s->version_min = min;
    s->version_max = max;
    return buf_ok(&c->notices) ? 0 : CONCLAVE_ENOMEM;
}

static int config_conclude_versions(struct zoo_cfg *c, const struct tls_keys *k)
{
    const struct keys_tls *t = k->values;
    if (t->enabled_protocols != NULL) {
        return config_versions(c, k, "enabledProtocols", t->enabled_protocols);
    }
    /* In Java, an SSLContext with this name also supports all older versions. */
    if (t->protocol == NULL || strcasecmp(t->protocol, "TLS") == 0) {
        return 0;
    }
    int rc = config_versions(c, k, "protocol", t->protocol);
    k->settings->version_min = TLS_1_2;
    return rc;
}

static int config_conclude_client_auth(struct zoo_cfg *c)
{
    static const struct {
        const char *name;
        enum tls_peer peer;
    } known[] = {{"none", TLS_PEER_NONE}, {"want", TLS_PEER_WANT}, {"need", TLS_PEER_NEED}};
    const char *value = c->tls.client_auth;
    c->options.tls.peer = TLS_PEER_NEED; /* as in Apache ZooKeeper */
    if (value == NULL || value[0] == '\0') {
        return 0;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcasecmp(known[i].name, value) == 0) {
            c->options.tls.peer = known[i].peer;
            return 0;
        }
    }
    return key_fail(c, "ssl.clientAuth: '%s' is not none, want or need", value);
}

/* Accepts one of two keys that name the same file. */
static int config_either(struct zoo_cfg *c, const char *prefix, const char *a_key, const char *a,
                         const char *b_key, const char *b, const char **ret)
{
    if (a != NULL && b != NULL) {
        return key_fail(c, "%s.%s and %s.%s are both set: remove one of the two", prefix, a_key,
                        prefix, b_key);
    }
    *ret = a != NULL ? a : b;
    return 0;
}

static int config_take_files(struct zoo_cfg *c, const struct tls_keys *k)
{
    struct keys_tls *t = k->values;
    struct tls_settings *s = k->settings;
    int rc = config_either(c, k->prefix, "certFile", t->cert_file, "keyStore.location",
                           t->key_store, &s->cert_file);
    if (rc == 0) {
        rc = config_either(c, k->prefix, "caFile", t->ca_file, "trustStore.location",
                           t->trust_store, &s->trust_file);
    }
    if (rc == 0) {
        rc = config_password_file(c, k->prefix, "keyStore.passwordPath", t->key_password_path,
                                  &t->key_password);
    }
    if (rc == 0) {
        rc = config_password_file(c, k->prefix, "trustStore.passwordPath", t->trust_password_path,
                                  &t->trust_password);
    }
    s->key_file = t->key_file;
    s->cert_password = t->key_password;
    s->trust_password = t->trust_password;
    s->crl_file = t->crl_file;
    s->crl_check_all = t->crl_check_all;
    s->ciphers = t->ciphers;
    return rc;
}

static int config_conclude_files(struct zoo_cfg *c)
{
    const struct tls_keys k = keys_of_clients(c);
    const struct tls_settings *s = k.settings;
    int rc = config_take_files(c, &k);
    if (rc != 0) {
        return rc;
    }
    if (s->cert_file == NULL) {
        return key_fail(c,
                        "%s needs a certificate: name it with ssl.certFile and ssl.keyFile, "
                        "or with ssl.keyStore.location",
                        c->options.secure ? "secureClientPort" : "client.portUnification");
    }
    if (s->peer != TLS_PEER_NONE && s->trust_file == NULL) {
        return key_fail(c, "clients must present certificates (ssl.clientAuth), but no CA is "
                           "trusted: name the CA with ssl.caFile or "
                           "ssl.trustStore.location, or set ssl.clientAuth=none");
    }
    return 0;
}

static bool names_a_certificate(const struct keys_tls *t)
{
    return t->cert_file != NULL || t->key_store != NULL;
}

static void config_conclude_secure_port(struct zoo_cfg *c)
{
    struct server_options *o = &c->options;
    if (c->secure_port < 0) {
        return;
    }
    assert(c->secure_port <= UINT16_MAX);
    o->secure = true;
    o->listen_secure.port = (uint16_t)c->secure_port;
    if (!c->have_secure_address) {
        /* Without an address of its own, the secure port listens where the client port does. */
        o->listen_secure = (struct net_address){.port = (uint16_t)c->secure_port};
        memcpy(o->listen_secure.host, o->listen.host, sizeof o->listen.host);
    }
    /* As in Apache ZooKeeper: a plain port opens only if a key names it. */
    o->plain = c->have_port || c->have_listen || c->have_line_port;
}

int keys_tls_conclude(struct zoo_cfg *c)
{
    struct server_options *o = &c->options;
    config_conclude_secure_port(c);
    if (!o->secure && !o->unified) {
        const struct keys_tls *t = &c->tls;
        if (names_a_certificate(t) && !c->admin.force_https && !c->admin.unified) {
            buf_printf(&c->notices, "conclave: the ssl keys have no effect without "
                                    "secureClientPort or client.portUnification=true\n");
        }
        return buf_ok(&c->notices) ? 0 : CONCLAVE_ENOMEM;
    }
    o->tls.server = true;
    if (c->tls.x509_super != NULL && c->tls.x509_super[0] != '\0') {
        o->x509_super = c->tls.x509_super;
    }
    int rc = config_conclude_client_auth(c);
    if (o->tls.peer != TLS_PEER_NONE) {
        o->command_options |= COMMAND_X509;
    }
    if (rc == 0) {
        const struct tls_keys k = keys_of_clients(c);
        rc = config_conclude_versions(c, &k);
    }
    return rc == 0 ? config_conclude_files(c) : rc;
}

int keys_tls_conclude_quorum(struct zoo_cfg *c)
{
    const struct tls_keys k = keys_of_servers(c);
    int rc = config_conclude_versions(c, &k);
    if (rc == 0) {
        rc = config_take_files(c, &k);
    }
    if (rc != 0) {
        return rc;
    }
    if (k.settings->cert_file == NULL || k.settings->trust_file == NULL) {
        return key_fail(c,
                        "%s needs a certificate and a CA: name them with "
                        "ssl.quorum.certFile, ssl.quorum.keyFile and ssl.quorum.caFile, or "
                        "with ssl.quorum.keyStore.location and "
                        "ssl.quorum.trustStore.location",
                        c->members.ssl_quorum ? "sslQuorum" : "mirror.ssl");
    }
    /* Links between servers need certificates on both sides. */
    k.settings->peer = TLS_PEER_NEED;
    return 0;
}

int keys_tls_conclude_admin(struct zoo_cfg *c)
{
    struct keys_admin *a = &c->admin;
    if (!a->force_https && !a->unified) {
        return a->need_client_auth
                   ? key_fail(c, "admin.needClientAuth needs admin.forceHttps=true: without it "
                                 "clients need no certificate")
                   : 0;
    }
    /* As in Apache ZooKeeper, the admin port uses the ssl.quorum keys; without them, it uses the clients' keys. */
    struct tls_keys k =
        names_a_certificate(&c->members.tls) ? keys_of_servers(c) : keys_of_clients(c);
    int rc = 0;
    if (k.settings->cert_file != NULL) {
        a->options.tls = *k.settings; /* the files were read for another port */
    } else {
        k.settings = &a->options.tls;
        rc = config_conclude_versions(c, &k);
        if (rc == 0) {
            rc = config_take_files(c, &k);
        }
    }
    if (rc != 0) {
        return rc;
    }
    a->options.tls.server = true;
    a->options.tls.peer = a->need_client_auth ? TLS_PEER_NEED : TLS_PEER_NONE;
    if (a->need_client_auth && c->tls.x509_super != NULL && c->tls.x509_super[0] != '\0') {
        c->options.x509_super = c->tls.x509_super;
    }
    if (a->options.tls.cert_file == NULL) {
        return key_fail(c, "HTTPS on the admin port needs a certificate: name it with "
                           "ssl.quorum.certFile and ssl.quorum.keyFile, or ssl.certFile and "
                           "ssl.keyFile");
    }
    if (a->need_client_auth && a->options.tls.trust_file == NULL) {
        return key_fail(c, "admin.needClientAuth: no CA is trusted: "
                           "name the CA with ssl.quorum.caFile or ssl.caFile");
    }
    return 0;
}

void keys_tls_values_finish(struct keys_tls *t)
{
    char **fields[] = {
        &t->cert_file,
        &t->key_file,
        &t->ca_file,
        &t->crl_file,
        &t->key_store,
        &t->key_password,
        &t->key_password_path,
        &t->trust_store,
        &t->trust_password,
        &t->protocol,
        &t->trust_password_path,
        &t->enabled_protocols,
        &t->ciphers,
        &t->client_auth,
        &t->x509_super,
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        text_wipe(fields[i]);
    }
}
