/* The configuration of a running server, read again: what takes effect, what waits, and that a fault changes nothing. There is
 * no server here: reload_test.py has one. */
#include "daemon/config_reload.h"

#include "daemon/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct world {
    char path[64];
    char secret[80];
    struct zoo_cfg config;
    struct config_reload reload;
    struct json json;
    char *error;
};

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* A server with this file, and arguments that override it. */
static void begin(struct world *w, const char *text, char *first, char *second)
{
    char *argv[] = {"server", w->path, first, second};
    int argc = first == NULL ? 2 : 4;
    memset(w, 0, sizeof *w);
    strcpy(w->path, "/tmp/conclave-reload-XXXXXX");
    int fd = mkstemp(w->path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(w->secret, sizeof w->secret, "%s.secret", w->path);
    write_file(w->path, text);
    zoo_cfg_init(&w->config);
    assert_int_equal(zoo_cfg_parse(&w->config, argc, argv), 0);
    assert_int_equal(config_reload_init(&w->reload, &w->config, argc, argv), 0);
}

static void end(struct world *w)
{
    (void)unlink(w->path);
    (void)unlink(w->secret);
    free(w->error);
    json_finish(&w->json);
    config_reload_finish(&w->reload);
    zoo_cfg_finish(&w->config);
}

static int reload(struct world *w, const char *text, const char *set)
{
    if (text != NULL) {
        write_file(w->path, text);
    }
    free(w->error);
    json_finish(&w->json);
    json_init(&w->json);
    json_array_begin(&w->json);
    int rc = config_reload_keys(&w->reload, set, "a test", &w->json, &w->error);
    json_array_end(&w->json);
    return rc;
}

/* Whether the report has this row; NULL: not given. */
static bool has_row(struct world *w, const char *key, const char *from, const char *to,
                    const char *result)
{
    char row[300];
    snprintf(row, sizeof row, "{\"key\":\"%s\",\"old\":%s%s%s,\"new\":%s%s%s,\"result\":\"%s\"}",
             key, from != NULL ? "\"" : "", from != NULL ? from : "null", from != NULL ? "\"" : "",
             to != NULL ? "\"" : "", to != NULL ? to : "null", to != NULL ? "\"" : "", result);
    return strstr(buf_cstr(&w->json.out), row) != NULL;
}

static void test_table(void **state)
{
    size_t live = 0;
    for (size_t i = 0; i < key_table_count; i++) {
        const struct key_row *row = &key_table[i];
        live += row->effect == KEY_LIVE;
        /* Only these ways to take a value over exist. */
        assert_true(row->effect == KEY_AT_START || row->kind == KEY_INT || row->kind == KEY_BOOL ||
                    row->kind == KEY_TEXT || strcmp(row->name, "log.level") == 0 ||
                    strcmp(row->name, "log.format") == 0 ||
                    strcmp(row->name, "clusterSecret") == 0);
    }
    assert_true(live > 30);
    assert_int_equal(key_find("dataDir")->effect, KEY_AT_START);
}

static void test_changes(void **state)
{
    struct world w;
    begin(&w, "maxSessions=5\nsnapCount=7\nlog.level=warn\nadmin.maxAnswerBytes=70000\nno.such=1\n",
          "--maxWatches", "11");
    assert_int_equal(reload(&w, NULL, NULL), 0);
    assert_true(has_row(&w, "maxSessions", "5", "5", "unchanged"));
    assert_null(strstr(buf_cstr(&w.json.out), "applied"));
    assert_int_equal(
        reload(&w, "snapCount=8\nlog.level=error\nmaxWatches=12\nmaxPathDepth=9\nno.such=2\n",
               NULL),
        0);
    assert_true(has_row(&w, "maxSessions", "5", NULL, "applied"));
    assert_true(has_row(&w, "snapCount", "7", "8", "needs-restart"));
    assert_true(has_row(&w, "log.level", "warn", "error", "applied"));
    assert_true(has_row(&w, "maxWatches", "11", "11", "unchanged")); /* the argument counts */
    assert_true(has_row(&w, "maxPathDepth", NULL, "9", "applied"));
    assert_true(has_row(&w, "admin.maxAnswerBytes", "70000", NULL, "applied"));
    assert_true(has_row(&w, "no.such", "1", "2", "no-effect"));
    assert_int_equal(w.config.options.limits.sessions_max, 1000000);
    assert_int_equal(w.config.options.limits.watches_total_max, 11);
    assert_int_equal(w.config.options.limits.command.path_depth, 9);
    assert_int_equal(w.config.options.snapshot_writes, 7);
    assert_int_equal(w.config.log_level, LOG_ERROR);
    assert_int_equal(w.config.admin.options.answer_bytes, 1 << 20);
    /* What waits is told by each reload; what is applied is not. */
    assert_int_equal(reload(&w, NULL, NULL), 0);
    assert_true(has_row(&w, "snapCount", "7", "8", "needs-restart"));
    assert_null(strstr(buf_cstr(&w.json.out), "applied"));
    end(&w);
}

static void test_a_fault_changes_nothing(void **state)
{
    static const struct {
        const char *text;
        const char *why;
    } rows[] = {
        {"maxSessions=6\nlog.level=debug\nmaxWatches=x\n",
         "line 3: maxWatches: 'x' is not a number"},
        {"maxSessions=6\nlog.level=loud\n", "line 2: log.level: 'loud' is not one of error"},
        {"maxSessions=6\nsnapCount=1\n", "line 2: snapCount"},
        {"maxSessions=6\nminSessionTimeout=9000\nmaxSessionTimeout=8000\n",
         "minSessionTimeout 9000 ms is greater"},
        {"maxSessions=6\nclusterSecretFile=/no/such/file\nmyid=1\nserver.1=127.0.0.1:5001:5002;5003\n"
         "server.2=127.0.0.1:5004:5005;5006\n",
         "/no/such/file"},
        /* Valid with the tick that waits for a restart, but not now. */
        {"maxSessions=6\ntickTime=10000\nminSessionTimeout=100000\n",
         "minSessionTimeout 100000 ms is greater than maxSessionTimeout 40000 ms"},
    };
    struct world w;
    begin(&w, "maxSessions=5\nlog.level=info\n", NULL, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(reload(&w, rows[i].text, NULL), CONCLAVE_EINVAL);
        assert_non_null(w.error);
        assert_non_null(strstr(w.error, rows[i].why));
        assert_int_equal(w.config.options.limits.sessions_max, 5);
        assert_int_equal(w.config.log_level, LOG_INFO);
        assert_string_equal(effective_config_find(&w.config.given, "maxSessions")->value, "5");
        assert_int_equal(w.config.given.count, 2);
    }
    assert_int_equal(unlink(w.path), 0);
    assert_int_equal(reload(&w, NULL, NULL), CONCLAVE_EINVAL);
    assert_non_null(strstr(w.error, "cannot read"));
    assert_int_equal(reload(&w, "maxSessions=6\n", NULL), 0);
    assert_int_equal(w.config.options.limits.sessions_max, 6);
    end(&w);
}

static void test_set(void **state)
{
    struct world w;
    begin(&w, "maxSessions=5\n", NULL, NULL);
    /* The file has changed, too, but nobody asked for that. */
    assert_int_equal(reload(&w, "maxSessions=6\n", "zookeeper.log.level=debug"), 0);
    assert_true(has_row(&w, "log.level", NULL, "debug", "applied"));
    assert_null(strstr(buf_cstr(&w.json.out), "maxSessions"));
    assert_int_equal(w.config.log_level, LOG_DEBUG);
    assert_int_equal(w.config.options.limits.sessions_max, 5);
    static const char *const wrong[][2] = {
        {"log.level=loud", "not one of"},
        {"log.level", "not KEY=VALUE"},
        {"no.such=1", "not KEY=VALUE"},
        {"snapCount=9", "cannot change at run time"},
        {"data=/x", "not KEY=VALUE"},
        {"clusterSecret=0123456789abcdef", "into its file"},
        {"maxSessions=0", "from 1 to"},
        {"=1", "not KEY=VALUE"},
        {"help=1", "not KEY=VALUE"},
        {"listen=:1", "not KEY=VALUE"},
        {"minSessionTimeout=50000", "greater"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(reload(&w, NULL, wrong[i][0]), CONCLAVE_EINVAL);
        assert_non_null(strstr(w.error, wrong[i][1]));
    }
    assert_int_equal(w.config.options.limits.sessions_max, 5);
    assert_int_equal(w.config.options.limits.session_min_ms, 4000);
    /* The next reload returns to the file. */
    assert_int_equal(reload(&w, NULL, NULL), 0);
    assert_true(has_row(&w, "log.level", "debug", NULL, "applied"));
    assert_true(has_row(&w, "maxSessions", "5", "6", "applied"));
    assert_int_equal(w.config.log_level, LOG_INFO);
    assert_int_equal(w.config.options.limits.sessions_max, 6);
    end(&w);
}

static void test_words(void **state)
{
    struct world w;
    begin(&w, "4lw.commands.whitelist=ruok\n", NULL, NULL);
    assert_int_equal(reload(&w, "4lw.commands.whitelist=ruok,stat\n", NULL), 0);
    assert_string_equal(w.config.admin.options.words, "ruok,stat");
    assert_int_equal(reload(&w, "tickTime=2000\n", NULL), 0);
    assert_null(w.config.admin.options.words);
    assert_int_equal(reload(&w, "4lw.commands.whitelist=*\n", NULL), 0);
    assert_string_equal(w.config.admin.options.words, "*");
    end(&w);
}

static void test_secrets(void **state)
{
    char text[200];
    struct world w;
    begin(&w, "superDigest=super:AAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", NULL, NULL);
    assert_int_equal(reload(&w, "superDigest=super:BAAAAAAAAAAAAAAAAAAAAAAAAAA=\n", NULL), 0);
    assert_true(has_row(&w, "superDigest", GIVEN_HIDDEN, GIVEN_HIDDEN, "needs-restart"));
    assert_null(strstr(buf_cstr(&w.json.out), "AAAA"));
    /* Links without a secret do not get one while they run. */
    write_file(w.secret, "a secret of the ensemble\n");
    snprintf(text, sizeof text, "clusterSecretFile=%s\n", w.secret);
    assert_int_equal(reload(&w, text, NULL), 0);
    assert_true(has_row(&w, "clusterSecretFile", NULL, GIVEN_HIDDEN, "needs-restart"));
    assert_true(slice_is_null(w.config.options.ensemble.secret));
    end(&w);
    begin(&w,
          "clusterSecret=a secret of the ensemble\n"
          "server.1=127.0.0.1:5001:5002;5003\nserver.2=127.0.0.1:5004:5005;5006\nmyid=1\n",
          NULL, NULL);
    assert_int_equal(
        reload(&w,
               "clusterSecret=another one of the ensemble\n"
               "server.1=127.0.0.1:5001:5002;5003\nserver.2=127.0.0.1:5004:5007;5006\nmyid=1\n",
               NULL),
        0);
    assert_true(has_row(&w, "clusterSecret", GIVEN_HIDDEN, GIVEN_HIDDEN, "applied"));
    assert_null(strstr(buf_cstr(&w.json.out), "server.2"));
    assert_memory_equal(w.config.options.ensemble.secret.data, "another one", 11);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_a_fault_changes_nothing),
        cmocka_unit_test(test_set),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_secrets),
    };
    log_set_level(LOG_SILENT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
