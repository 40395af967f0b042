/* secure=yes: its defaults for unset keys, its refusals; and the warnings without it. */
#include "daemon/secure_profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define HERE "--data d --listen 127.0.0.1:2181 "
#define SECURE HERE "--secure yes "
#define USERS "--digest.users.file users "
#define CERT "--ssl.certFile s.pem --ssl.keyFile s.key "
#define NO_ADMIN "--admin off "
#define ADMIN "--admin 127.0.0.1:0 "

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

static void test_refused(void **state)
{
    static const struct {
        const char *line;
        const char *part;
    } rows[] = {
        {SECURE NO_ADMIN, "no client could authenticate"},
        {SECURE USERS NO_ADMIN "--skipACL yes", "skipACL=yes"},
        {"--data d --listen :2181 --secure yes " USERS NO_ADMIN, "(every interface)"},
        {"--data d --listen 10.0.0.1:2181 --secure yes " USERS NO_ADMIN, "(10.0.0.1)"},
        {SECURE USERS "--admin 10.0.0.1:8080", "admin port accepts plain connections"},
        {SECURE USERS "--admin :8080", "(every interface)"},
        {SECURE USERS ADMIN "--admin.stateChangeByGet yes", "admin.stateChangeByGet"},
        {SECURE USERS ADMIN "--admin.allowedHosts a.example,*", "admin.allowedHosts"},
        /* Certificates that are not asked for authenticate nobody. */
        {SECURE NO_ADMIN CERT "--ssl.caFile ca.pem --ssl.clientAuth none",
         "no client could authenticate"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct zoo_cfg c;
        if (parse(&c, rows[i].line) != CONCLAVE_EINVAL || strstr(c.error, rows[i].part) == NULL) {
            fail_msg("%s: '%s' does not say '%s'", rows[i].line, c.error, rows[i].part);
        }
        zoo_cfg_finish(&c);
    }
}

/* The same where only this machine comes in, or where TLS is the only way. */
static void test_allowed(void **state)
{
    static const char *const rows[] = {
        SECURE USERS NO_ADMIN,
        SECURE USERS ADMIN,
        SECURE USERS ADMIN "--admin.allowedHosts a.example",
        SECURE USERS
        "--admin 10.0.0.1:8080 --admin.forceHttps true --ssl.quorum.keyStore.location k.pem",
        "--data d --listen [::1]:2181 --secure yes " USERS NO_ADMIN,
        "--data d --listen localhost:2181 --secure yes " USERS NO_ADMIN,
        "--data d --secureClientPort 2281 --secure yes " CERT USERS NO_ADMIN,
        SECURE USERS NO_ADMIN "--admin.stateChangeByGet yes", /* this port does not exist */
        SECURE NO_ADMIN "--enforce.auth.enabled false",       /* who says so has decided */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct zoo_cfg c;
        expect(&c, rows[i]);
        assert_true(c.secure);
        zoo_cfg_finish(&c);
    }
}

static void test_what_it_sets(void **state)
{
    struct zoo_cfg c;
    expect(&c, SECURE USERS ADMIN "--metricsProvider.httpPort 7000");
    assert_true(c.options.close_acls);
    assert_true(c.enforce_auth);
    assert_string_equal(c.options.auth_schemes, "digest");
    assert_false(c.options.digest.off);
    assert_false(c.admin.options.memb);
    assert_string_equal(c.tls.client_auth, "none"); /* no CA to verify certificates by */
    zoo_cfg_finish(&c);

    expect(&c, SECURE ADMIN CERT "--ssl.caFile ca.pem");
    assert_string_equal(c.options.auth_schemes, "x509");
    assert_true(c.options.digest.off); /* without a file of users a client can take any name */
    assert_null(c.tls.client_auth);
    zoo_cfg_finish(&c);

    expect(&c, SECURE ADMIN USERS CERT "--ssl.caFile ca.pem");
    assert_string_equal(c.options.auth_schemes, "digest,x509");
    zoo_cfg_finish(&c);

    /* A key's value stays. */
    expect(&c, SECURE USERS ADMIN "--closeInitialAcls no --4lw.memb.enabled yes "
                                  "--enforce.auth.schemes digest --ssl.caFile ca.pem " CERT
                                  "--DigestAuthenticationProvider.enabled true");
    assert_false(c.options.close_acls);
    assert_true(c.admin.options.memb);
    assert_string_equal(c.options.auth_schemes, "digest");
    zoo_cfg_finish(&c);

    expect(&c, HERE NO_ADMIN);
    assert_false(c.secure);
    assert_false(c.options.close_acls);
    assert_null(c.options.auth_schemes);
    assert_null(strstr(buf_cstr(&c.notices), "open to other machines"));
    zoo_cfg_finish(&c);
}

/* The host that /metrics listens on: this machine's where nobody names one, and with a warning without secure. */
static void test_metrics(void **state)
{
    struct zoo_cfg c;
    static const char provider[] =
        "--metricsProvider.className org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider ";
    char line[512];
    snprintf(line, sizeof line, "%s%s", SECURE USERS NO_ADMIN, provider);
    expect(&c, line);
    assert_true(c.admin.options.metrics);
    assert_string_equal(c.admin.options.metrics_listen.host, "127.0.0.1");
    zoo_cfg_finish(&c);
    snprintf(line, sizeof line, "%s%s--metricsProvider.httpHost 0.0.0.0", SECURE USERS NO_ADMIN,
             provider);
    expect(&c, line);
    assert_string_equal(c.admin.options.metrics_listen.host, ""); /* every interface */
    zoo_cfg_finish(&c);
    snprintf(line, sizeof line, "%s%s", HERE NO_ADMIN, provider);
    expect(&c, line);
    assert_non_null(strstr(buf_cstr(&c.notices), "metricsProvider.httpHost: not set"));
    zoo_cfg_finish(&c);
}

static void test_warning_of_an_open_port(void **state)
{
    static const struct {
        const char *line;
        const char *part; /* NULL: none */
    } rows[] = {
        {"--data d --listen :2181 " NO_ADMIN, "(every interface)"},
        {"--data d --listen 10.0.0.1:2181 " NO_ADMIN, "(10.0.0.1)"},
        {"--data d --listen :2181 --warnOpenClientPort no " NO_ADMIN, NULL},
        {"--data d --secureClientPort 2281 --ssl.clientAuth none " CERT NO_ADMIN, NULL},
        {"--data d --listen :2181 --enforce.auth.enabled true --enforce.auth.schemes digest " NO_ADMIN,
         NULL},
        {HERE NO_ADMIN, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct zoo_cfg c;
        expect(&c, rows[i].line);
        const char *warning =
            strstr(buf_cstr(&c.notices), "the client port is open to other machines");
        if ((warning != NULL) != (rows[i].part != NULL)) {
            fail_msg("%s: '%s'", rows[i].line, buf_cstr(&c.notices));
        }
        assert_true(warning == NULL || strstr(warning, rows[i].part) != NULL);
        zoo_cfg_finish(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_allowed),
        cmocka_unit_test(test_what_it_sets),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_warning_of_an_open_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
