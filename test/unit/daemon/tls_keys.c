/* The keys of TLS: combined settings, missing keys, refused values; certificates as ids. */
#include "daemon/zoo_cfg.h"
#include "front/login/client_ids.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static int parse(struct zoo_cfg *c, const char *line)
{
    static char text[2048];
    char *argv[64] = {(char *)(uintptr_t) "server"};
    int argc = 1;
    zoo_cfg_init(c);
    snprintf(text, sizeof text, "%s", line);
    for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    return zoo_cfg_parse(c, argc, argv);
}

static void expect(struct zoo_cfg *c, const char *line)
{
    if (parse(c, line) != 0) {
        fail_msg("%s: %s", line, c->error);
    }
}

#define CERT "--ssl.certFile s.pem --ssl.keyFile s.key --ssl.caFile ca.pem "

static void test_ports(void **state)
{
    struct zoo_cfg c;
    struct server_options *o = &c.options;
    expect(&c, "");
    assert_true(o->plain && !o->secure && !o->unified);
    assert_int_equal(o->command_options & COMMAND_X509, 0);
    zoo_cfg_finish(&c);

    /* Nobody asked for a plain port: there is none. */
    expect(&c, CERT "--secureClientPort 2281");
    assert_true(!o->plain && o->secure && !o->unified);
    assert_int_equal(o->listen_secure.port, 2281);
    assert_string_equal(o->listen_secure.host, "127.0.0.1");
    assert_int_equal(o->tls.peer, TLS_PEER_NEED);
    assert_int_equal(o->command_options & COMMAND_X509, COMMAND_X509);
    assert_true(o->tls.server && !o->tls_reload);
    assert_string_equal(o->tls.cert_file, "s.pem");
    assert_string_equal(o->tls.key_file, "s.key");
    assert_string_equal(o->tls.trust_file, "ca.pem");
    zoo_cfg_finish(&c);

    expect(&c, CERT "--secureClientPort 0 --secureClientPortAddress ::1 --clientPort 2181");
    assert_true(o->plain && o->secure);
    assert_string_equal(o->listen_secure.host, "::1");
    zoo_cfg_finish(&c);

    expect(&c, CERT "--client.portUnification true --client.certReload true");
    assert_true(o->plain && !o->secure && o->unified && o->tls_reload);
    zoo_cfg_finish(&c);

    expect(&c, CERT);
    assert_true(o->plain && !o->secure && !o->unified);
    assert_non_null(strstr(buf_cstr(&c.notices), "no effect without"));
    zoo_cfg_finish(&c);
}

static void test_stores(void **state)
{
    char path[] = "/tmp/conclave-password-XXXXXX";
    char line[512];
    struct zoo_cfg c;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "pass word\r\nmore", 15), 15);
    close(fd);
    snprintf(line, sizeof line,
             "--zookeeper.ssl.keyStore.location k.p12 --ssl.keyStore.type PKCS12 "
             "--ssl.keyStore.passwordPath %s --ssl.trustStore.location t.pem --ssl.trustStore.type "
             "pem --ssl.trustStore.password secret --secureClientPort 1 --ssl.crlFile r.pem",
             path);
    expect(&c, line);
    assert_string_equal(c.options.tls.cert_file, "k.p12");
    assert_string_equal(c.options.tls.cert_password, "pass word");
    assert_string_equal(c.options.tls.trust_file, "t.pem");
    assert_string_equal(c.options.tls.trust_password, "secret");
    assert_string_equal(c.options.tls.crl_file, "r.pem");
    assert_null(strstr(buf_cstr(&c.notices), "secret"));
    zoo_cfg_finish(&c);
    assert_int_equal(unlink(path), 0);
}

static void test_choices(void **state)
{
    static const struct {
        const char *keys;
        int min;
        int max;
        enum tls_peer peer;
    } cases[] = {
        {"--ssl.clientAuth none", 0, 0, TLS_PEER_NONE},
        {"--ssl.clientAuth WANT", 0, 0, TLS_PEER_WANT},
        {"--ssl.clientAuth need", 0, 0, TLS_PEER_NEED},
        {"--ssl.protocol TLSv1.2", TLS_1_2, TLS_1_2, TLS_PEER_NEED},
        {"--ssl.protocol TLSv1.3", TLS_1_2, TLS_1_3, TLS_PEER_NEED},
        {"--ssl.protocol TLS", 0, 0, TLS_PEER_NEED},
        {"--ssl.enabledProtocols TLSv1.3", TLS_1_3, TLS_1_3, TLS_PEER_NEED},
        {"--ssl.enabledProtocols TLSv1.3,TLSv1.2", TLS_1_2, TLS_1_3, TLS_PEER_NEED},
        {"--ssl.enabledProtocols TLSv1,TLSv1.2", TLS_1_2, TLS_1_2, TLS_PEER_NEED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[512];
        struct zoo_cfg c;
        snprintf(line, sizeof line, CERT "--secureClientPort 1 %s", cases[i].keys);
        expect(&c, line);
        assert_int_equal(c.options.tls.version_min, cases[i].min);
        assert_int_equal(c.options.tls.version_max, cases[i].max);
        assert_int_equal(c.options.tls.peer, cases[i].peer);
        zoo_cfg_finish(&c);
    }
    struct zoo_cfg c;
    expect(&c, "--secureClientPort 1 --ssl.certFile a --ssl.clientAuth none "
               "--X509AuthenticationProvider.superUser CN=root,O=x --ssl.hostnameVerification true "
               "--authProvider.x509 org.apache.zookeeper.server.auth.X509AuthenticationProvider");
    assert_null(c.options.tls.trust_file);
    assert_string_equal(c.options.x509_super, "CN=root,O=x");
    assert_non_null(strstr(buf_cstr(&c.notices), "never looks up"));
    zoo_cfg_finish(&c);
}

static void test_refused(void **state)
{
    static const struct {
        const char *keys;
        const char *wanted;
    } cases[] = {
        {"", "needs a certificate"},
        {"--ssl.certFile a", "ssl.caFile"},
        {"--ssl.certFile a --ssl.keyStore.location b", "remove one of the two"},
        {CERT "--ssl.trustStore.location b", "remove one of the two"},
        {CERT "--ssl.keyStore.password a --ssl.keyStore.passwordPath b", "remove one of the two"},
        {CERT "--ssl.keyStore.passwordPath /none/such", "/none/such"},
        {CERT "--ssl.keyStore.type BCFKS", "keytool"},
        {CERT "--ssl.clientAuth maybe", "not none, want or need"},
        {CERT "--ssl.protocol TLSv1.1", "leaves no supported version"},
        {CERT "--ssl.enabledProtocols TLSv1.4", "'TLSv1.4' is not TLSv1.2"},
        {CERT "--ssl.crl true", "ssl.crlFile"},
        {CERT "--ssl.ocsp true", "OCSP"},
        {CERT "--ssl.clientHostnameVerification true", "host name"},
        {CERT "--ssl.keystore.location x", "unknown TLS key"},
        {CERT "--ssl.keyStore.locatoin x", "unknown TLS key"},
        {CERT "--authProvider.1 x", "authProvider.1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char line[512];
        struct zoo_cfg c;
        snprintf(line, sizeof line, "--secureClientPort 1 %s", cases[i].keys);
        assert_int_equal(parse(&c, line), CONCLAVE_EINVAL);
        if (c.error == NULL || strstr(c.error, cases[i].wanted) == NULL) {
            fail_msg("'%s' does not say '%s'", c.error, cases[i].wanted);
        }
        zoo_cfg_finish(&c);
    }
}

static void expect_ids(const struct client_ids *i, const char *wanted)
{
    struct wire_vector ids = client_ids_list(i);
    struct wire_id id;
    char text[256] = "";
    while (wire_next_id(&ids, &id)) {
        size_t len = strlen(text);
        snprintf(text + len, sizeof text - len, "%.*s:%.*s;", SLICE_FMT(id.scheme),
                 SLICE_FMT(id.id));
    }
    assert_string_equal(text, wanted);
}

static void test_ids(void **state)
{
    struct client_ids i;
    client_ids_init(&i, 200, 32);
    /* Without a certificate the scheme is refused, whatever the request says. */
    assert_int_equal(client_ids_authenticate(&i, "h", &(struct digest_rules){0}, slice_str("x509"),
                                             slice_str("CN=root")),
                     CONCLAVE_AUTH_FAILED);
    assert_int_equal(client_ids_add_x509(&i, NULL, slice_str("CN=a")), 0);
    assert_int_equal(client_ids_add_x509(&i, "CN=root", slice_str("CN=b")), 0);
    expect_ids(&i, "x509:CN=a;x509:CN=b;");
    assert_int_equal(client_ids_authenticate(&i, "h", &(struct digest_rules){0}, slice_str("x509"),
                                             slice_str("CN=root")),
                     0);
    expect_ids(&i, "x509:CN=a;x509:CN=b;");
    assert_int_equal(client_ids_add_x509(&i, "CN=root", slice_str("CN=root")), 0);
    expect_ids(&i, "x509:CN=a;x509:CN=b;super:CN=root;x509:CN=root;");
    char longest[300];
    memset(longest, 'x', sizeof longest);
    assert_int_equal(client_ids_add_x509(&i, NULL, slice_make(longest, sizeof longest)),
                     CONCLAVE_ETOOBIG);
    client_ids_finish(&i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ports),   cmocka_unit_test(test_stores),
        cmocka_unit_test(test_choices), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_ids),
    };
    return cmocka_run_group_tests_name("server/tls_keys", tests, NULL, NULL);
}
