/* JAAS files and files of users: the values read from them, and the errors of bad ones. */
#include "front/login/sasl_options.h"

#include "base/buf.h"
#include "daemon/zoo_cfg.h"
#include "front/login/sasl_login.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DIGEST "org.apache.zookeeper.server.auth.DigestLoginModule required "
#define KERBEROS "com.sun.security.auth.module.Krb5LoginModule required "

static int read_jaas(struct sasl_options *o, const char *text, struct sasl_fault *fault)
{
    *o = (struct sasl_options){.mechanism = LOGIN_NONE};
    return sasl_options_jaas(o, slice_str(text), "Server", fault);
}

static void jaas_gives_users(void **state)
{
    struct sasl_options o;
    struct sasl_fault fault;
    assert_int_equal(read_jaas(&o,
                               "// other sections are passed over\n"
                               "Client { " DIGEST "username=\"x\" password=\"y\"; };\n"
                               "/* and { comments } */ # of all kinds\n"
                               "Server {\n"
                               "  " DIGEST "\n"
                               "  user_super='one \"two\"' // ;\n"
                               "  user_bob=\"b\\\"o\\\\b\\t\\101\"\n"
                               "  user_carol=bare-word_1 debug=true;\n"
                               "};\n",
                               &fault),
                     0);
    assert_int_equal(o.mechanism, LOGIN_DIGEST_MD5);
    assert_int_equal(o.user_count, 3);
    assert_string_equal(sasl_options_password(&o, "super"), "one \"two\"");
    assert_string_equal(sasl_options_password(&o, "bob"), "b\"o\\b\tA");
    assert_string_equal(sasl_options_password(&o, "carol"), "bare-word_1");
    assert_null(sasl_options_password(&o, "x"));
    sasl_options_finish(&o);
}

static void jaas_gives_a_keytab(void **state)
{
    struct sasl_options o;
    struct sasl_fault fault;
    assert_int_equal(
        read_jaas(&o,
                  "Server{" KERBEROS "useKeyTab=true keyTab=\"/etc/zk.keytab\" "
                  "storeKey=true principal=\"zookeeper/zk1.example.org@EXAMPLE.ORG\";};",
                  &fault),
        0);
    assert_int_equal(o.mechanism, LOGIN_GSSAPI);
    assert_string_equal(o.keytab, "/etc/zk.keytab");
    assert_string_equal(o.service, "zookeeper");
    assert_string_equal(o.host, "zk1.example.org");
    sasl_options_finish(&o);
}

static void jaas_says_what_is_wrong(void **state)
{
    static const struct {
        const char *text;
        unsigned line;
        const char *fault; /* a part of it */
    } cases[] = {
        {"", 1, "no such section"},
        {"Client { " DIGEST "; };", 1, "no such section"},
        {"Server { };", 1, "empty"},
        {"Server " DIGEST, 1, "expected {"},
        {"Server {\n" DIGEST "user_a=b", 2, "expected ;"},
        {"Server {\n" DIGEST "user_a=b;\n}", 3, "expected ; after }"},
        {"Server {\n" DIGEST "user_a b; };", 2, "expected key=value"},
        {"Server {\n" DIGEST "user_a=; };", 2, "value is missing"},
        {"Server {\n" DIGEST "user_a=\"b\n\"; };", 3, "does not end on its line"},
        {"Server {\n" DIGEST "user_a=\"${x}\"; };", 2, "${...}"},
        {"Server {\n" DIGEST "user_a=\"\"; };", 2, "empty"},
        {"Server {\n" DIGEST "user_=\"b\"; };", 2, "empty"},
        {"Server {\n" DIGEST "user_a@b@c=\"d\"; };", 2, "more than one @"},
        {"Server { com.example.Module required; };", 1, "only DigestLoginModule"},
        {"Server { org.example.DigestLoginModule user_a=b; };", 1, "expected required"},
        {"Server { " KERBEROS "keyTab=k; };", 1, "needs principal"},
        {"Server { " KERBEROS "principal=zookeeper; };", 1, "SERVICE/HOST@REALM"},
        {"Server { " KERBEROS "useKeyTab=false principal=\"z/h@R\"; };", 1, "keytab"},
        {"/* x", 1, "comment does not end"},
        {"Server { " DIGEST "; }; }", 1, "section's name"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sasl_options o;
        struct sasl_fault fault;
        assert_int_equal(read_jaas(&o, cases[i].text, &fault), CONCLAVE_EINVAL);
        assert_non_null(strstr(fault.text, cases[i].fault));
        assert_int_equal(fault.line, cases[i].line);
        sasl_options_finish(&o);
    }
}

static void lines_give_users(void **state)
{
    struct sasl_options o;
    struct sasl_fault fault;
    o = (struct sasl_options){.mechanism = LOGIN_NONE};
    assert_int_equal(
        sasl_options_lines(&o, slice_str("# users\n\nbob:one:two \r\nalice:x\nbob:three"), &fault),
        0);
    assert_int_equal(o.user_count, 2);
    assert_string_equal(sasl_options_password(&o, "bob"), "three");
    assert_string_equal(sasl_options_password(&o, "alice"), "x");
    sasl_options_finish(&o);
    static const struct {
        const char *text;
        unsigned line;
    } bad[] = {{"", 0}, {"# none\n", 1}, {"a:b\nbob\n", 2}, {"a:b\nbob:\n", 2}, {":x", 1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(sasl_options_lines(&o, slice_str(bad[i].text), &fault), CONCLAVE_EINVAL);
        assert_int_equal(fault.line, bad[i].line);
        sasl_options_finish(&o);
    }
    assert_int_equal(sasl_options_lines(&o, slice_make("a:b\0c", 5), &fault), CONCLAVE_EINVAL);
    sasl_options_finish(&o);
}

/* principal → id, with host and realm removed or not. */
static void principals_become_ids(void **state)
{
    static const struct {
        const char *principal;
        const char *ids[4]; /* remove nothing, host, realm, both; NULL: refused */
    } cases[] = {
        {"bob@R", {"bob@R", "bob@R", "bob", "bob"}},
        {"bob", {"bob@R", "bob@R", "bob", "bob"}},
        {"svc/h@R", {"svc/h@R", "svc@R", "svc/h", "svc"}},
        {"svc/h", {"svc/h@R", "svc@R", "svc/h", "svc"}},
        {"bob@OTHER", {"bob@OTHER", "bob@OTHER", "bob@OTHER", "bob@OTHER"}},
        {"svc/h@OTHER", {"svc/h@OTHER", "svc/h@OTHER", "svc/h@OTHER", "svc/h@OTHER"}},
        {"a/b/c@R", {NULL, NULL, NULL, NULL}},
        {"a\\@b@R", {NULL, NULL, NULL, NULL}},
        {"@R", {NULL, NULL, NULL, NULL}},
        {"", {NULL, NULL, NULL, NULL}},
    };
    char realm[] = "R";
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (unsigned rules = 0; rules < 4; rules++) {
            struct sasl_options o;
            struct buf out;
            o = (struct sasl_options){.mechanism = LOGIN_NONE};
            buf_init(&out, 0);
            o.default_realm = realm;
            o.remove_host = (rules & 1) != 0;
            o.remove_realm = (rules & 2) != 0;
            bool good = sasl_login_principal_id(&o, slice_str(cases[i].principal), &out);
            assert_int_equal(good, cases[i].ids[rules] != NULL);
            if (good) {
                assert_string_equal(buf_cstr(&out), cases[i].ids[rules]);
            }
            buf_finish(&out);
        }
    }
}

static void a_machine_without_realm(void **state)
{
    char realm[] = "";
    struct sasl_options o;
    struct buf out;
    o = (struct sasl_options){.mechanism = LOGIN_NONE};
    buf_init(&out, 0);
    o.default_realm = realm;
    o.remove_realm = true;
    assert_true(sasl_login_principal_id(&o, slice_str("bob@R"), &out));
    assert_string_equal(buf_cstr(&out), "bob@R");
    buf_finish(&out);
}

/* --- the keys --------------------------------------------------------------------------------- */

/* The error, or "" without one; c is finished by the caller. */
static const char *parse(struct zoo_cfg *c, int argc, char **argv)
{
    zoo_cfg_init(c);
    int rc = zoo_cfg_parse(c, argc, argv);
    assert_int_equal(rc, c->error != NULL ? CONCLAVE_EINVAL : 0);
    return c->error != NULL ? c->error : "";
}

static char path[] = "/tmp/conclave-login-XXXXXX";

static void write_file(const char *text, mode_t mode)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fputs(text, file) >= 0, 1);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static int make_path(void **state)
{
    strcpy(path, "/tmp/conclave-login-XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    return unlink(path);
}

#define PARSE(c, ...)                                                                              \
    parse(c, sizeof((char *[]){"server", __VA_ARGS__}) / sizeof(char *),                           \
          (char *[]){"server", __VA_ARGS__})

static void users_must_be_private(void **state)
{
    struct zoo_cfg c;
    write_file("bob:geheim\n", 0640);
    assert_non_null(strstr(PARSE(&c, "--sasl.users.file", path), "chmod 600"));
    assert_null(c.options.login);
    zoo_cfg_finish(&c);
    write_file("bob:geheim\n", 0600);
    assert_string_equal(PARSE(&c, "--sasl.users.file", path, "--superUser", "bob", "--superUser.2",
                              "eve", "--letAnySaslUserDoX", "any"),
                        "");
    assert_string_equal(sasl_options_password(c.options.login, "bob"), "geheim");
    assert_true(sasl_options_is_super(c.options.login, slice_str("bob")));
    assert_true(sasl_options_is_super(c.options.login, slice_str("eve")));
    assert_false(sasl_options_is_super(c.options.login, slice_str("")));
    assert_string_equal(c.options.login->any_user, "any");
    assert_int_equal(c.options.command_options & COMMAND_SASL, COMMAND_SASL);
    assert_null(c.options.auth_schemes);
    zoo_cfg_finish(&c);
}

/* No message repeats what may be a secret. */
static void faults_hold_no_secret(void **state)
{
    struct zoo_cfg c;
    write_file("bob:geheim\ngeheim-ohne-namen\n", 0600);
    const char *error = PARSE(&c, "--sasl.users.file", path);
    assert_non_null(strstr(error, "line 2"));
    assert_null(strstr(error, "geheim"));
    zoo_cfg_finish(&c);
    write_file("Server { " DIGEST "user_bob=\"geheim; };", 0600);
    error = PARSE(&c, "--sasl.jaas.file", path);
    assert_non_null(strstr(error, "line 1"));
    assert_null(strstr(error, "geheim"));
    zoo_cfg_finish(&c);
}

static void jaas_that_others_read_is_named(void **state)
{
    struct zoo_cfg c;
    write_file("Zk { " DIGEST "user_super=\"a\"; };", 0644);
    assert_non_null(strstr(PARSE(&c, "--sasl.jaas.file", path), "section Server"));
    zoo_cfg_finish(&c);
    assert_string_equal(PARSE(&c, "--java.security.auth.login.config", path, "--sasl.serverconfig",
                              "Zk", "--SASLAuthenticationProvider.superPassword", "neu",
                              "--authProvider.1",
                              "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
                              "--sessionRequireClientSASLAuth", "true"),
                        "");
    assert_non_null(strstr(buf_cstr(&c.notices), "chmod 600"));
    assert_string_equal(sasl_options_password(c.options.login, "super"), "neu");
    assert_string_equal(c.options.auth_schemes, "sasl");
    zoo_cfg_finish(&c);
}

static void keytabs_must_be_readable(void **state)
{
    struct zoo_cfg c;
    write_file("Server { " KERBEROS "keyTab=\"/nonexistent/keytab\" principal=\"zk/h@R\"; };",
               0600);
    assert_non_null(strstr(PARSE(&c, "--sasl.jaas.file", path), "cannot read the keytab"));
    zoo_cfg_finish(&c);
    write_file("Server { " KERBEROS "principal=\"zk/h@R\"; };", 0600);
    assert_string_equal(PARSE(&c, "--sasl.jaas.file", path), "");
    assert_int_equal(c.options.login->mechanism, LOGIN_GSSAPI);
    assert_non_null(c.options.login->default_realm);
    zoo_cfg_finish(&c);
}

static void sasl_without_users_is_refused(void **state)
{
    static char *const cases[][3] = {
        {"--authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
         "sasl.jaas.file"},
        {"--sessionRequireClientSASLAuth", "true", "sasl.jaas.file"},
        {"--authProvider.2", "com.example.Provider", "cannot load Java classes"},
        {"--sasl.users.file", "/nonexistent/users", "cannot read"},
        {"--sasl.jaas.file", "", "is empty"},
        {"--superUserX", "y", "superUser.N"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct zoo_cfg c;
        assert_non_null(strstr(PARSE(&c, cases[i][0], cases[i][1]), cases[i][2]));
        zoo_cfg_finish(&c);
    }
    struct zoo_cfg c;
    assert_non_null(
        strstr(PARSE(&c, "--enforce.auth.enabled", "true", "--enforce.auth.schemes", "digest,sasl"),
               "by sasl, but SASL is off"));
    zoo_cfg_finish(&c);
    assert_string_equal(PARSE(&c, "--authProvider.1",
                              "org.apache.zookeeper.server.auth.X509AuthenticationProvider"),
                        "");
    assert_null(c.options.login);
    assert_int_equal(c.options.command_options & COMMAND_SASL, 0);
    zoo_cfg_finish(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jaas_gives_users),
        cmocka_unit_test(jaas_gives_a_keytab),
        cmocka_unit_test(jaas_says_what_is_wrong),
        cmocka_unit_test(lines_give_users),
        cmocka_unit_test(principals_become_ids),
        cmocka_unit_test(a_machine_without_realm),
        cmocka_unit_test_setup_teardown(users_must_be_private, make_path, remove_path),
        cmocka_unit_test_setup_teardown(faults_hold_no_secret, make_path, remove_path),
        cmocka_unit_test_setup_teardown(jaas_that_others_read_is_named, make_path, remove_path),
        cmocka_unit_test_setup_teardown(keytabs_must_be_readable, make_path, remove_path),
        cmocka_unit_test(sasl_without_users_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
