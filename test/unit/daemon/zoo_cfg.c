/* Properties, the table of keys, command lines and files: what is set, what is named, what is
 * refused. */
#include "daemon/zoo_cfg.h"

#include "base/properties.h"
#include "daemon/keys.h"
#include "daemon/test_profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct pairs {
    char text[1024];
    int left; /* pairs until the callback stops the reading */
};

static int on_pair(void *ctx, const char *key, const char *value, unsigned line)
{
    struct pairs *p = ctx;
    size_t len = strlen(p->text);
    snprintf(p->text + len, sizeof p->text - len, "%u[%s=%s]", line, key, value);
    return --p->left == 0 ? CONCLAVE_EBUSY : 0;
}

static void test_properties(void **state)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"\n\n  \n", ""},
        {"# x=1\n! y=2\n  # z=3", ""},
        {"a=1", "1[a=1]"},
        {"a=1\r\nb=2\r\n", "1[a=1]2[b=2]"},
        {"  a =  1 2  \nb:3\nc 4\nd", "1[a=1 2]2[b=3]3[c=4]4[d=]"},
        {"a=b=c:d", "1[a=b=c:d]"},
        {"a = 1\\\n   2\\\n3\nb=4", "1[a=123]4[b=4]"},
        {"a\\=b=\\t1\\\\", "1[a=b=\t1\\]"},
        {"server.1=h:1:2;3", "1[server.1=h:1:2;3]"},
        {"# comment \\\nb=1", "2[b=1]"},
        {"a=1\\", "1[a=1\\]"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pairs p = {.left = -1};
        assert_int_equal(properties_parse(slice_str(cases[i][0]), on_pair, &p), 0);
        assert_string_equal(p.text, cases[i][1]);
    }
    struct pairs p = {.left = 1};
    assert_int_equal(properties_parse(slice_str("a=1\nb=2"), on_pair, &p), CONCLAVE_EBUSY);
    assert_string_equal(p.text, "1[a=1]");
    assert_int_equal(properties_parse(slice_make("a\0b", 3), on_pair, &p), CONCLAVE_EINVAL);
}

/* No name twice, every reason given, every number's field as wide as one the table can store. */
static void test_table(void **state)
{
    for (size_t i = 0; i < key_table_count; i++) {
        const struct key_row *row = &key_table[i];
        assert_non_null(row->text);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(row->name, key_table[j].name);
        }
        if (row->kind == KEY_INT) {
            assert_true(row->size == 2 || row->size == 4 || row->size == 8);
            assert_true(row->min <= row->max);
            assert_true(row->size == 8 ||
                        row->max * row->scale <= (row->size == 2 ? 65535 : INT32_MAX));
        }
        assert_true(row->kind != KEY_BOOL || row->size == sizeof(bool));
        assert_true(row->kind != KEY_SPECIAL || row->set != NULL);
    }
    assert_string_equal(key_find("snapshot.trust.empty")->name, "snapshot.trust.empty");
    assert_string_equal(key_find("snapshot.new")->name, "snapshot.*");
    assert_null(key_find("clientport"));
}

/* Parses words divided by blanks. */
static int parse(struct zoo_cfg *c, const char *line)
{
    char words[512];
    char *argv[32] = {(char[]){"server"}};
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    zoo_cfg_init(c);
    return zoo_cfg_parse(c, argc, argv);
}

static void test_defaults(void **state)
{
    struct zoo_cfg c;
    assert_int_equal(parse(&c, ""), 0);
    assert_string_equal(c.options.listen.host, "127.0.0.1");
    assert_int_equal(c.options.listen.port, 2181);
    assert_string_equal(c.options.data_dir, "./conclave-data");
    assert_int_equal(c.options.server_id, 1);
    assert_int_equal(c.options.limits.session_min_ms, 4000);
    assert_int_equal(c.options.limits.session_max_ms, 40000);
    assert_int_equal(c.options.limits.address_max, 60);
    assert_true(c.options.sync);
    assert_false(c.options.skip_acl);
    assert_int_equal(c.notices.len, 0);
    zoo_cfg_finish(&c);
}

static void test_command_line(void **state)
{
    struct zoo_cfg c;
    assert_int_equal(
        parse(&c, "--data /d --listen [::1]:99 --tickTime=100 --maxSessionTimeout 5000 "
                  "--forceSync no --skipACL yes --admin off --snapCount 7 --preAllocSize 64 "
                  "--jute.maxbuffer 4096 --zookeeper.globalOutstandingLimit 5 --initLimit 3"),
        0);
    assert_string_equal(c.options.data_dir, "/d");
    assert_string_equal(c.options.listen.host, "::1");
    assert_int_equal(c.options.listen.port, 99);
    assert_int_equal(c.options.limits.tick_ms, 100);
    assert_int_equal(c.options.limits.session_min_ms, 200);
    assert_int_equal(c.options.limits.session_max_ms, 5000);
    assert_false(c.options.sync);
    assert_true(c.options.skip_acl);
    assert_int_equal(c.options.snapshot_writes, 7);
    assert_int_equal(c.options.segment_bytes, 65536);
    assert_int_equal(c.options.limits.frame_max, 4096);
    assert_int_equal(c.options.limits.outstanding_max, 5);
    assert_non_null(
        strstr(buf_cstr(&c.notices), "conclave: initLimit: no effect: electionTimeout"));
    zoo_cfg_finish(&c);
    assert_int_equal(parse(&c, "--data x --help"), 0);
    assert_true(c.help);
    zoo_cfg_finish(&c);
}

static void test_admin(void **state)
{
    struct zoo_cfg c;
    assert_int_equal(parse(&c, ""), 0);
    assert_true(c.admin.options.http);
    assert_string_equal(c.admin.options.listen.host, "127.0.0.1");
    assert_int_equal(c.admin.options.listen.port, 8080);
    assert_null(c.admin.words);
    assert_false(c.admin.options.metrics);
    zoo_cfg_finish(&c);

    assert_int_equal(
        parse(&c, "--admin.serverAddress 0.0.0.0 --admin.serverPort 9 --admin.commandURL /c "
                  "--admin.idleTimeout 1000 --4lw.commands.whitelist=ruok,mntr "
                  "--metricsProvider.className "
                  "org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider "
                  "--metricsProvider.httpHost ::1 --metricsProvider.httpPort 10 "
                  "--admin.forceHttps false"),
        0);
    assert_string_equal(c.admin.options.listen.host, ""); /* every interface */
    assert_int_equal(c.admin.options.listen.port, 9);
    assert_string_equal(c.admin.command_url, "/c");
    assert_int_equal(c.admin.options.idle_ms, 1000);
    assert_string_equal(c.admin.words, "ruok,mntr");
    assert_true(c.admin.options.metrics);
    assert_string_equal(c.admin.options.metrics_listen.host, "::1");
    assert_int_equal(c.admin.options.metrics_listen.port, 10);
    assert_false(c.options.read_only_mode);
    assert_int_equal(c.notices.len, 0);
    zoo_cfg_finish(&c);

    /* The option beats the keys, in any order. */
    assert_int_equal(parse(&c, "--admin [::1]:5 --admin.serverPort 9 --admin.serverAddress h "
                               "--admin.enableServer no"),
                     0);
    assert_true(c.admin.options.http);
    assert_string_equal(c.admin.options.listen.host, "::1");
    assert_int_equal(c.admin.options.listen.port, 5);
    zoo_cfg_finish(&c);

    assert_int_equal(parse(&c, "--admin.enableServer no --readonlymode.enabled true "
                               "--metricsProvider.className none --admin.snapshot.enabled true"),
                     0);
    assert_false(c.admin.options.http);
    assert_true(c.options.read_only_mode);
    const char *notices = buf_cstr(&c.notices);
    assert_non_null(strstr(notices, "conclave: readonlymode.enabled: "));
    assert_non_null(strstr(notices, "conclave: metricsProvider.className: no effect"));
    assert_true(c.admin.options.snapshot);
    assert_false(c.admin.options.restore);
    assert_int_equal(c.admin.options.backup_interval_ms, 300000);
    zoo_cfg_finish(&c);
}

static void test_refused(void **state)
{
    static const char *const lines[] = {
        "--tickTime",
        "--tickTime 9",
        "--tickTime 12x",
        "--tickTime 99999999999999999999",
        "--clientPort 65536",
        "--clientPort -1",
        "--unknown 1",
        "--admin 8080",
        "--admin.enableServer maybe",
        "--admin.serverPort 65536",
        "--admin.commandURL commands",
        "--admin.commandURL /commands/",
        "--admin.idleTimeout 10",
        "--admin.forceHttps true",
        "--metricsProvider.httpPort x",
        "--metricsProvider.httpsPort 7001",
        "--readonlymode.enabled 1",
        "--listen 2181",
        "--listen ::1:2181",
        "--listen 127.0.0.1:1 --clientPort 2",
        "--minSessionTimeout 50000",
        "--skipACL 1",
        "--data=",
        "--ssl.x y",
        "--secureClientPort 1",
        "--enforceQuota maybe",
        "--enforce.auth.enabled true",
        "--enforce.auth.schemes nosuch",
        "--znode.container.maxPerMinute 0",
        "--maxWatches 0",
        "--superDigest short",
        "--superDigest super:D/InIHSb7yEEbrWz8b9l71RjZJU=x",
        "--DigestAuthenticationProvider.digestAlg MD5",
        "--audit.file=",
        "--dynamicConfigFile=",
        "--clientPortAddress=",
        "--admin.serverAddress=",
        "--enforce.auth.enabled true --enforce.auth.schemes ,",
        "--server.-1 a:1:2",
        "--server.256 a:1:2",
        "--server.1 a:1:2 --server.2 b:1:2",
        "/none/zoo.cfg",
        "a b",
        "--peerType leader",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        struct zoo_cfg c;
        assert_int_equal(parse(&c, lines[i]), CONCLAVE_EINVAL);
        assert_non_null(c.error);
        assert_null(strchr(c.error, '\n'));
        zoo_cfg_finish(&c);
    }
    struct zoo_cfg c;
    assert_int_equal(
        parse(&c, "--enforceQuota false --peerType participant --standaloneEnabled true"), 0);
    assert_int_equal(c.options.command_options, 0);
    assert_null(c.options.auth_schemes);
    zoo_cfg_finish(&c);
    assert_int_equal(parse(&c, "--enforceQuota true --extendedTypesEnabled yes "
                               "--enforce.auth.schemes digest,ip --enforce.auth.enabled yes "
                               "--znode.container.checkIntervalMs 7"),
                     0);
    assert_int_equal(c.options.command_options, COMMAND_QUOTA | COMMAND_TTL);
    assert_string_equal(c.options.auth_schemes, "digest,ip");
    assert_int_equal(c.options.collector.interval_ms, 7);
    assert_int_equal(c.options.collector.per_minute, 10000);
    zoo_cfg_finish(&c);
    assert_int_equal(parse(&c, "--DigestAuthenticationProvider.digestAlg sha-256 "
                               "--DigestAuthenticationProvider.enabled false "
                               "--fencing.enabled true --reconfigEnabled true"),
                     0);
    assert_string_equal(c.options.digest.algorithm, "SHA256");
    assert_int_equal(c.options.command_options,
                     COMMAND_NO_DIGEST | COMMAND_FENCING | COMMAND_RECONFIG);
    zoo_cfg_finish(&c);
}

/* A file that is no configuration is not read on and on. */
static void test_a_file_without_end(void **state)
{
    struct zoo_cfg c;
    assert_int_equal(parse(&c, "/dev/zero"), CONCLAVE_EINVAL);
    assert_non_null(strstr(c.error, "/dev/zero is larger than 1 MiB"));
    zoo_cfg_finish(&c);
    assert_int_equal(parse(&c, "/dev"), CONCLAVE_EINVAL);
    assert_non_null(strstr(c.error, "cannot read /dev"));
    zoo_cfg_finish(&c);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void test_files(void **state)
{
    char dir[] = "/tmp/conclave-config-XXXXXX";
    char cfg[64];
    char dynamic[64];
    char myid[64];
    char text[256];
    struct zoo_cfg c;
    assert_non_null(mkdtemp(dir));
    snprintf(cfg, sizeof cfg, "%s/zoo.cfg", dir);
    snprintf(dynamic, sizeof dynamic, "%s/zoo.cfg.dynamic", dir);
    snprintf(myid, sizeof myid, "%s/myid", dir);
    snprintf(text, sizeof text, "dataDir=%s\ntickTime=1000\nmystery=1\ndynamicConfigFile=%s\n", dir,
             dynamic);
    write_file(cfg, text);
    write_file(dynamic, "server.4=h:2888:3888:participant;0.0.0.0:2182\nversion=100\n");
    write_file(myid, "4\n");

    assert_int_equal(parse(&c, cfg), 0);
    assert_string_equal(c.options.data_dir, dir);
    assert_string_equal(c.options.listen.host, ""); /* every interface, as Apache ZooKeeper */
    assert_int_equal(c.options.listen.port, 2182);
    assert_int_equal(c.options.server_id, 4);
    assert_int_equal(c.options.limits.session_max_ms, 20000);
    assert_non_null(strstr(buf_cstr(&c.notices), "conclave: mystery: unknown key"));
    zoo_cfg_finish(&c);

    /* The command line beats the file, in any order. */
    snprintf(text, sizeof text, "--tickTime 500 %s --listen 127.0.0.1:0", cfg);
    assert_int_equal(parse(&c, text), 0);
    assert_int_equal(c.options.limits.tick_ms, 500);
    assert_string_equal(c.options.listen.host, "127.0.0.1");
    assert_int_equal(c.options.listen.port, 0);
    zoo_cfg_finish(&c);

    write_file(myid, "5");
    assert_int_equal(parse(&c, cfg), CONCLAVE_EINVAL);
    assert_non_null(strstr(c.error, "myid"));
    zoo_cfg_finish(&c);
    write_file(dynamic, "dataDir=/x\n");
    assert_int_equal(parse(&c, cfg), CONCLAVE_EINVAL);
    zoo_cfg_finish(&c);
    assert_int_equal(unlink(cfg) | unlink(dynamic) | unlink(myid) | rmdir(dir), 0);
}

/* A server for tests changes defaults, and what is given wins. */
static void test_for_tests(void **state)
{
    struct zoo_cfg c;
    assert_int_equal(parse(&c, "--test --until-eof"), 0);
    assert_true(c.options.test && c.until_eof);
    assert_string_equal(c.options.listen.host, "127.0.0.1");
    assert_int_equal(c.options.listen.port, 0);
    assert_int_equal(c.admin.options.listen.port, 0);
    assert_int_equal(c.options.limits.tick_ms, TEST_TICK_MS);
    assert_int_equal(c.options.limits.session_min_ms, TEST_SESSION_MIN_MS);
    assert_int_equal(c.options.limits.session_max_ms, TEST_SESSION_MAX_MS);
    assert_string_equal(c.admin.options.words, "*");
    assert_int_equal(c.notices.len, 0);
    zoo_cfg_finish(&c);

    assert_int_equal(parse(&c, "--clientPort 2222 --test --tickTime 500 --admin off --data x"), 0);
    assert_int_equal(c.options.listen.port, 2222);
    assert_int_equal(c.options.limits.session_min_ms, 1000);
    assert_false(c.admin.options.http || c.until_eof);
    assert_non_null(strstr(buf_cstr(&c.notices), "nothing on disk"));
    zoo_cfg_finish(&c);

    assert_int_equal(parse(&c, "--test --server.1 a:1:2 --server.2 b:1:2"), CONCLAVE_EINVAL);
    assert_non_null(strstr(c.error, "server.N"));
    zoo_cfg_finish(&c);
    assert_int_equal(parse(&c, "--tickTime 500"), 0);
    assert_false(c.options.test || c.until_eof);
    zoo_cfg_finish(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_properties),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_command_line),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_for_tests),
        cmocka_unit_test(test_admin),
        cmocka_unit_test(test_a_file_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
