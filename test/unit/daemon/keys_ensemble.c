/* The keys about ensembles: who this server is, what its links ask for, and what is refused because
 * a stranger could come in. */
#include "daemon/zoo_cfg.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define THREE                                                                                      \
    "--server.1 127.0.0.1:2888:3888 --server.2 localhost:2889:3889 --server.3 [::1]:2890:3890"
#define REMOTE "--server.1 a:2888:3888;2181 --server.2 b:2888:3888;2182 --server.3 c:2888:3888"
#define SECRET "8b1f60c2d94e7a35"

static char folder[] = "/tmp/conclave-members-XXXXXX";

/* Parses words divided by blanks; an error must be one line that holds `wanted`. */
static void parse(struct zoo_cfg *c, const char *line, const char *wanted)
{
    char words[1024];
    char *argv[64] = {(char[]){"server"}};
    int argc = 1;
    snprintf(words, sizeof words, "--dataDir %s %s", folder, line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    zoo_cfg_init(c);
    int rc = zoo_cfg_parse(c, argc, argv);
    if (wanted == NULL) {
        if (rc != 0) {
            fail_msg("%s: %s", line, c->error);
        }
        return;
    }
    assert_int_equal(rc, CONCLAVE_EINVAL);
    if (strstr(c->error, wanted) == NULL || strchr(c->error, '\n') != NULL) {
        fail_msg("%s: %s", line, c->error);
    }
}

static void refuse(const char *line, const char *wanted)
{
    struct zoo_cfg c;
    parse(&c, line, wanted);
    zoo_cfg_finish(&c);
}

/* Writes folder/name; returns the path. */
static const char *file_write(const char *name, const char *text, mode_t mode)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
    assert_true(fd >= 0);
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(close(fd), 0);
    return path;
}

static void file_remove(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

static bool noticed(struct zoo_cfg *c, const char *text)
{
    return strstr(buf_cstr(&c->notices), text) != NULL;
}

static void three_on_loopback_need_no_secret(void **state)
{
    struct zoo_cfg c;
    parse(&c, THREE " --server-id 2", NULL);
    const struct ensemble_options *e = &c.options.ensemble;
    assert_true(e->enabled);
    assert_int_equal(e->n_members, 3);
    assert_int_equal(e->me, 1);
    assert_int_equal(e->members[1].id, 2);
    assert_int_equal(c.options.server_id, 2);
    assert_int_equal(e->security, PEER_SECURITY_NONE);
    assert_int_equal(e->n_listen, 1);
    assert_string_equal(e->listen[0].host, "localhost");
    assert_int_equal(e->listen[0].port, 2889);
    assert_int_equal(e->election_ms, 400);
    assert_int_equal(e->heartbeat_ms, 80);
    assert_false(e->linearizable_reads);
    zoo_cfg_finish(&c);
}

static void lines_are_sorted_and_the_last_of_an_id_counts(void **state)
{
    struct zoo_cfg c;
    parse(&c,
          "--server.3 localhost:1:2 --server.1 localhost:3:4 --server.3 localhost:5:6 "
          "--server.2 localhost:7:8 --myid 3",
          NULL);
    const struct ensemble_options *e = &c.options.ensemble;
    assert_int_equal(e->n_members, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(e->members[i].id, i + 1);
    }
    assert_int_equal(e->me, 2);
    assert_int_equal(e->members[2].hosts[0].port, 5);
    zoo_cfg_finish(&c);
}

static void myid_says_who_this_is(void **state)
{
    struct zoo_cfg c;
    refuse(THREE, "the number of this server is unknown");
    refuse(THREE " --myid 4", "no line server.4");
    refuse(THREE " --myid 0", "no line server.0");
    refuse(THREE " --myid 256", "not a number from 0 to 255");
    refuse(THREE " --server-id x", "not a number from 0");
    file_write("myid", " 3 \n", 0644);
    refuse(THREE, "instead of the number");
    file_write("myid", "3 \r\n", 0644);
    parse(&c, THREE, NULL);
    assert_int_equal(c.options.server_id, 3);
    zoo_cfg_finish(&c);
    parse(&c, THREE " --server-id 3", NULL);
    zoo_cfg_finish(&c);
    refuse(THREE " --server-id 1", "make them equal");
    file_remove("myid");
    parse(&c, THREE " --server.0 localhost:2887:3887 --myid 0", NULL);
    assert_int_equal(c.options.server_id, 256); /* 0 is nobody */
    zoo_cfg_finish(&c);
    parse(&c, "--myid 9", NULL);
    assert_int_equal(c.options.server_id, 9);
    assert_false(c.options.ensemble.enabled);
    zoo_cfg_finish(&c);
}

static void links_that_strangers_can_reach_need_proof(void **state)
{
    struct zoo_cfg c;
    refuse(REMOTE " --myid 1", "address a, which other machines can reach");
    refuse(THREE " --myid 1 --quorumListenOnAllIPs true", "every interface");
    refuse(REMOTE " --myid 1 --clusterSecret short", "shorter than 16");
    refuse(REMOTE " --myid 1 --sslQuorum true", "ssl.quorum.certFile");
    refuse(REMOTE " --myid 1 --sslQuorum true --clusterSecret " SECRET, "remove one of the two");
    parse(&c, REMOTE " --myid 1 --quorumListenOnAllIPs true --clusterSecret " SECRET, NULL);
    const struct ensemble_options *e = &c.options.ensemble;
    assert_int_equal(e->security, PEER_SECURITY_SECRET);
    assert_true(slice_equal_str(e->secret, SECRET));
    assert_int_equal(e->n_listen, 1);
    assert_string_equal(e->listen[0].host, "");
    assert_int_equal(e->listen[0].port, 2888);
    zoo_cfg_finish(&c);
}

static void secret_from_a_file(void **state)
{
    struct zoo_cfg c;
    char line[512];
    snprintf(line, sizeof line, REMOTE " --myid 1 --clusterSecretFile %s",
             file_write("secret", SECRET " and more\n\n", 0600));
    parse(&c, line, NULL);
    assert_true(slice_equal_str(c.options.ensemble.secret, SECRET " and more"));
    assert_false(noticed(&c, "chmod"));
    zoo_cfg_finish(&c);
    assert_true(slice_is_null(c.options.ensemble.other_secret));
    file_write("secret", SECRET " new \r\n" SECRET " old\n\n", 0600);
    zoo_cfg_finish(&c);
    parse(&c, line, NULL);
    assert_true(slice_equal_str(c.options.ensemble.secret, SECRET " new"));
    assert_true(slice_equal_str(c.options.ensemble.other_secret, SECRET " old"));
    zoo_cfg_finish(&c);
    file_write("secret", SECRET "\nshort\n", 0600);
    refuse(line, "shorter than 16");
    file_write("secret", SECRET " 1\n" SECRET " 2\n" SECRET " 3\n", 0600);
    refuse(line, "more than two lines");
    file_write("secret", SECRET, 0640);
    parse(&c, line, NULL);
    assert_true(noticed(&c, "chmod 600"));
    zoo_cfg_finish(&c);
    file_write("secret", "short\n", 0600);
    refuse(line, "shorter than 16");
    strcat(line, " --clusterSecret " SECRET);
    refuse(line, "remove one of the two");
    refuse(REMOTE " --myid 1 --clusterSecretFile /none/secret", "cannot read /none/secret");
    file_remove("secret");
}

/* The link of a mirror shares the certificates of the servers, and their password file is read once. */
static void the_link_of_a_mirror(void **state)
{
    struct zoo_cfg c;
    char line[4096];
    size_t len = (size_t)snprintf(
        line, sizeof line,
        REMOTE " --myid 1 --sslQuorum true --mirror.ssl yes --ssl.quorum.certFile c.pem "
               "--ssl.quorum.caFile ca.pem --ssl.quorum.hostnameVerification no "
               "--ssl.quorum.keyStore.passwordPath %s",
        file_write("pw", "sesame\n", 0600));
    snprintf(line + len, sizeof line - len, " --mirror.sasl.file %s",
             file_write("login", "# for the mirror\nlearner:with:colon\n", 0600));
    parse(&c, line, NULL);
    const struct source_settings *source = c.options.source;
    assert_true(source->tls);
    assert_false(source->verify_hosts);
    assert_string_equal(source->certificates.cert_file, "c.pem");
    assert_string_equal(source->certificates.cert_password, "sesame");
    assert_false(source->certificates.server);
    assert_string_equal(source->user, "learner");
    assert_string_equal(source->password, "with:colon");
    zoo_cfg_finish(&c);
    parse(&c,
          REMOTE " --myid 1 --clusterSecret " SECRET
                 " --mirror.ssl yes --ssl.quorum.certFile c.pem "
                 "--ssl.quorum.caFile ca.pem",
          NULL);
    assert_int_equal(c.options.ensemble.security, PEER_SECURITY_SECRET);
    assert_true(c.options.source->tls && c.options.source->user == NULL);
    assert_string_equal(c.options.source->certificates.trust_file, "ca.pem");
    zoo_cfg_finish(&c);
    file_remove("pw");
    file_remove("login");
}

static void certificates_by_their_keys(void **state)
{
    struct zoo_cfg c;
    parse(&c,
          REMOTE
          " --myid 1 --sslQuorum true --ssl.quorum.certFile c.pem --ssl.quorum.keyFile k.pem "
          "--ssl.quorum.caFile ca.pem --ssl.quorum.enabledProtocols TLSv1.3",
          NULL);
    const struct ensemble_options *e = &c.options.ensemble;
    assert_int_equal(e->security, PEER_SECURITY_CERTIFICATES);
    assert_string_equal(e->tls.cert_file, "c.pem");
    assert_string_equal(e->tls.key_file, "k.pem");
    assert_string_equal(e->tls.trust_file, "ca.pem");
    assert_int_equal(e->tls.version_min, TLS_1_3);
    assert_int_equal(e->tls.peer, TLS_PEER_NEED);
    assert_true(e->verify_hosts);
    assert_null(c.options.tls.cert_file); /* the clients' port has keys of its own */
    zoo_cfg_finish(&c);
    parse(&c,
          REMOTE " --myid 1 --sslQuorum true --ssl.quorum.keyStore.location c.p12 "
                 "--ssl.quorum.keyStore.password pw --ssl.quorum.trustStore.location ca.p12 "
                 "--ssl.quorum.hostnameVerification false",
          NULL);
    assert_string_equal(c.options.ensemble.tls.cert_password, "pw");
    assert_false(c.options.ensemble.verify_hosts);
    zoo_cfg_finish(&c);
    refuse(REMOTE
           " --myid 1 --sslQuorum true --ssl.quorum.certFile a --ssl.quorum.keyStore.location b",
           "ssl.quorum.certFile and ssl.quorum.keyStore.location");
    refuse(REMOTE " --myid 1 --sslQuorum true --ssl.quorum.certFile a --ssl.quorum.caFile b "
                  "--ssl.quorum.protocol TLSv9",
           "ssl.quorum.protocol: 'TLSv9'");
    refuse("--ssl.quorum.nosuch x", "unknown TLS key");
    refuse("--ssl.quorum.crl true", "crlFile");
    refuse("--ssl.quorum.clientAuth want", "always require");
    refuse("--portUnification true", "cannot join");
    refuse("--quorum.auth.enableSasl true", "clusterSecretFile");
    refuse("--mirror.ssl yes", "mirror.ssl needs a certificate");
    refuse("--mirror.sasl.file /none/login", "cannot read /none/login");
    refuse("--electionAlg 1", "libraft");
}

static void one_line_is_standalone_until_made_ready(void **state)
{
    struct zoo_cfg c;
    parse(&c, "--server.5 a:2888:3888;b:2182", NULL);
    assert_false(c.options.ensemble.enabled);
    assert_int_equal(c.options.command_options, 0);
    assert_int_equal(c.options.server_id, 5);
    assert_string_equal(c.options.listen.host, "b");
    assert_int_equal(c.options.listen.port, 2182);
    zoo_cfg_finish(&c);
    refuse("--server.5 a:2888:3888 --standaloneEnabled false", "other machines");
    parse(&c, "--server.5 localhost:2888:3888 --standaloneEnabled false", NULL);
    assert_true(c.options.ensemble.enabled);
    assert_int_equal(c.options.command_options, COMMAND_ENSEMBLE | COMMAND_ALONE);
    zoo_cfg_finish(&c);
    parse(&c, "--server.5 a:2888:3888 --clusterSecret " SECRET, NULL);
    assert_true(c.options.ensemble.enabled);
    assert_int_equal(c.options.command_options, COMMAND_ENSEMBLE);
    zoo_cfg_finish(&c);
}

static void lines_must_make_sense_together(void **state)
{
    struct zoo_cfg c;
    refuse("--server.1 localhost:1:2 --server.2 localhost:1:3 --myid 1", "same address");
    refuse("--server.0 localhost:1:2 --server.2 localhost:1:3 --myid 2",
           "server.2 and server.0 have the same address");
    refuse("--server.1 localhost:1:2:observer --server.2 localhost:3:4:observer --myid 1",
           "must be a participant");
    refuse("--server.1 localhost:1", "server.1: 'localhost:1' is not host:port");
    parse(&c, "--server.1 localhost:1:2 --server.2 localhost:3:4 --myid 1 --peerType observer",
          NULL);
    assert_true(noticed(&c, "two participants stops when one fails"));
    assert_true(noticed(&c, "peerType: no effect: the server.N line sets the role participant"));
    zoo_cfg_finish(&c);
    parse(&c,
          "--server.1 localhost:1:2 --server.2 localhost:3:4:observer --myid 2 --peerType observer",
          NULL);
    assert_int_equal(c.notices.len, 0);
    zoo_cfg_finish(&c);
}

static void times_of_elections(void **state)
{
    struct zoo_cfg c;
    parse(&c, THREE " --myid 1 --electionTimeout 1000 --linearizableReads true", NULL);
    assert_int_equal(c.options.ensemble.election_ms, 1000);
    assert_int_equal(c.options.ensemble.heartbeat_ms, 200);
    assert_true(c.options.ensemble.linearizable_reads);
    zoo_cfg_finish(&c);
    parse(&c, THREE " --myid 1 --electionTimeout 200 --heartbeatTimeout 100", NULL);
    assert_int_equal(c.options.ensemble.heartbeat_ms, 100);
    zoo_cfg_finish(&c);
    refuse(THREE " --myid 1 --electionTimeout 200 --heartbeatTimeout 101", "more than half");
    refuse("--electionTimeout 49", "from 50");
}

/* An Apache ensemble's files, as they are. */
static void apache_files(void **state)
{
    struct zoo_cfg c;
    char text[512];
    char cfg[128];
    file_write("myid", "2", 0644);
    snprintf(text, sizeof text,
             "tickTime=2000\ndataDir=%s\nclientPortAddress=127.0.0.1\ninitLimit=10\nsyncLimit=5\n"
             "dynamicConfigFile=%s/zoo.cfg.dynamic.100000000\n",
             folder, folder);
    snprintf(cfg, sizeof cfg, "%s", file_write("zoo.cfg", text, 0644));
    file_write("zoo.cfg.dynamic.100000000",
               "server.1=127.0.0.1:2888:3888:participant;0.0.0.0:2181\n"
               "server.2=127.0.0.1:2889:3889:participant;0.0.0.0:2182\n"
               "server.3=127.0.0.1:2890:3890:observer;127.0.0.1:2183\nversion=1a00000000\n",
               0644);
    parse(&c, cfg, NULL);
    const struct ensemble_options *e = &c.options.ensemble;
    assert_true(e->enabled);
    assert_int_equal(e->n_members, 3);
    assert_int_equal(e->me, 1);
    assert_int_equal(e->version, 0x1a00000000);
    assert_true(e->members[2].observer);
    assert_string_equal(c.options.listen.host, "127.0.0.1");
    assert_int_equal(c.options.listen.port, 2182);
    assert_true(noticed(&c, "conclave: initLimit: no effect"));
    zoo_cfg_finish(&c);
    file_write("zoo.cfg.dynamic.100000000", "version=xyz\n", 0644);
    refuse(cfg, "hexadecimal");
    file_remove("myid");
    file_remove("zoo.cfg");
    file_remove("zoo.cfg.dynamic.100000000");
}

static int set_up(void **state)
{
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_on_loopback_need_no_secret),
        cmocka_unit_test(lines_are_sorted_and_the_last_of_an_id_counts),
        cmocka_unit_test(myid_says_who_this_is),
        cmocka_unit_test(links_that_strangers_can_reach_need_proof),
        cmocka_unit_test(secret_from_a_file),
        cmocka_unit_test(the_link_of_a_mirror),
        cmocka_unit_test(certificates_by_their_keys),
        cmocka_unit_test(one_line_is_standalone_until_made_ready),
        cmocka_unit_test(lines_must_make_sense_together),
        cmocka_unit_test(times_of_elections),
        cmocka_unit_test(apache_files),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
