/* Options of a client: which one is wrong, and the lines that it logs. */
#include "support/fake_zk.h"

#include <conclave/client.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- which option is wrong
 * ---------------------------------------------------------------------------- */

static void set_servers(struct conclave_client_options *o)
{
    o->servers = "a:1,b:x";
}

static void set_chroot(struct conclave_client_options *o)
{
    o->servers = "a:1/b//c";
}

static void set_session(struct conclave_client_options *o)
{
    o->session_timeout_ms = 5;
}

static void set_request(struct conclave_client_options *o)
{
    o->request_timeout_ms = -2;
}

static void set_connect(struct conclave_client_options *o)
{
    o->connect_timeout_ms = -1;
}

static void set_reconnect(struct conclave_client_options *o)
{
    o->reconnect_min_ms = 20;
    o->reconnect_max_ms = 10;
}

static void set_level(struct conclave_client_options *o)
{
    o->log_level = (enum conclave_log_level)9;
}

static void set_passwd(struct conclave_client_options *o)
{
    o->session_id = 7;
}

static void set_acl(struct conclave_client_options *o)
{
    static const struct conclave_acl none[1];
    o->acl = none;
}

static void set_bad_acl(struct conclave_client_options *o)
{
    static const struct conclave_acl bad[] = {{CONCLAVE_PERM_ALL, NULL, ""}};
    o->acl = bad;
    o->acl_count = 1;
}

static void set_retry(struct conclave_client_options *o)
{
    static const struct conclave_retry_options bad = {.max_repeats = 1};
    o->retry = &bad;
}

static void set_tls(struct conclave_client_options *o)
{
    static const struct conclave_tls_options bad;
    o->tls = &bad;
}

static void set_sasl(struct conclave_client_options *o)
{
    static const struct conclave_sasl_options bad;
    o->sasl = &bad;
}

static void set_tls_file(struct conclave_client_options *o)
{
    static struct conclave_tls_options tls = CONCLAVE_TLS_OPTIONS_INIT;
    tls.ca_file = "/nowhere/ca.pem";
    o->tls = &tls;
}

static void test_the_wrong_option_is_named(void **state)
{
    static const struct {
        void (*set)(struct conclave_client_options *o);
        int error;
        const char *text; /* part of what is told */
    } cases[] = {
        {set_servers, CONCLAVE_EINVAL, "servers: \"b:x\""},
        {set_chroot, CONCLAVE_EINVAL, "servers: \"/b//c\""},
        {set_session, CONCLAVE_EINVAL, "session_timeout_ms is 5: it must be from 10 to 2147483647"},
        {set_request, CONCLAVE_EINVAL, "request_timeout_ms is -2"},
        {set_connect, CONCLAVE_EINVAL, "connect_timeout_ms is -1"},
        {set_reconnect, CONCLAVE_EINVAL, "reconnect_min_ms is larger"},
        {set_level, CONCLAVE_EINVAL, "log_level is 9"},
        {set_passwd, CONCLAVE_EINVAL, "passwd: "},
        {set_acl, CONCLAVE_EINVAL, "acl: it has no entry"},
        {set_bad_acl, CONCLAVE_EINVAL, "acl: an entry lacks"},
        {set_retry, CONCLAVE_EINVAL, "retry: begin with CONCLAVE_RETRY_OPTIONS_INIT"},
        {set_tls, CONCLAVE_EINVAL, "tls: begin with CONCLAVE_TLS_OPTIONS_INIT"},
        {set_sasl, CONCLAVE_EINVAL, "sasl: begin with CONCLAVE_SASL_OPTIONS_INIT"},
        {set_tls_file, CONCLAVE_ETLS, "/nowhere/ca.pem"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
        struct conclave_client *client;
        char error[300] = "";
        options.servers = "127.0.0.1:1";
        cases[i].set(&options);
        assert_int_equal(conclave_client_open(&options, &client), cases[i].error); /* no buffer */
        options.error = error;
        options.error_len = sizeof error;
        assert_int_equal(conclave_client_open(&options, &client), cases[i].error);
        if (strstr(error, cases[i].text) == NULL) {
            fail_msg("\"%s\" lacks \"%s\"", error, cases[i].text);
        }
    }
}

/* --- log lines
 * ---------------------------------------------------------------------------------------- */

struct log {
    pthread_mutex_t lock;
    pthread_cond_t grown;
    char *text; /* "LEVEL text\n" of each line */
    size_t len;
    size_t lines;
    bool hold; /* the first line waits until this is false */
    bool held;
    bool dropped; /* a line told of dropped ones */
};

static const char *value_of(const struct conclave_log_line *line, const char *key)
{
    for (size_t i = 0; line->fields[i] != NULL; i += 2) {
        if (strcmp(line->fields[i], key) == 0) {
            return line->fields[i + 1];
        }
    }
    return NULL;
}

static void on_log(struct conclave_client *client, const struct conclave_log_line *line, void *ctx)
{
    struct log *log = ctx;
    pthread_mutex_lock(&log->lock);
    assert_memory_equal(line->text, line->message, strlen(line->message));
    if (strcmp(line->message, "state") == 0) {
        assert_non_null(value_of(line, "session"));
    }
    const char *level = conclave_log_level_name(line->level);
    size_t more = strlen(level) + strlen(line->text) + 2;
    log->text = realloc(log->text,
                        log->len + more + 1); /* of any length: a loaded machine takes its time */
    assert_non_null(log->text);
    log->len += (size_t)snprintf(log->text + log->len, more + 1, "%s %s\n", level, line->text);
    log->lines++;
    log->held = log->hold;
    log->dropped = log->dropped || value_of(line, "dropped") != NULL;
    pthread_cond_broadcast(&log->grown);
    while (log->hold) {
        pthread_cond_wait(&log->grown, &log->lock);
    }
    pthread_mutex_unlock(&log->lock);
}

static void wait_for_text(struct log *log, const char *text)
{
    pthread_mutex_lock(&log->lock);
    while (strstr(log->text, text) == NULL) {
        pthread_cond_wait(&log->grown, &log->lock);
    }
    pthread_mutex_unlock(&log->lock);
}

static struct conclave_client *open_logged(struct fake_zk *zk, struct log *log,
                                           enum conclave_log_level level)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    char servers[128];
    snprintf(servers, sizeof servers, "%s", fake_zk_address(zk, 0));
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->grown, NULL);
    log->text = strdup("");
    assert_non_null(log->text);
    options.servers = servers;
    options.on_log = on_log;
    options.ctx = log;
    options.log_level = level;
    options.reconnect_max_ms = 5;
    assert_int_equal(conclave_client_open(&options, &client), 0);
    assert_int_equal(conclave_client_start(client), 0);
    return client;
}

static void test_log_lines(void **state)
{
    struct log log = {.lines = 0};
    struct fake_zk *zk = fake_zk_start();
    assert_non_null(zk);
    struct conclave_client *client = open_logged(zk, &log, CONCLAVE_LOG_DEBUG);
    wait_for_text(&log, "DEBUG connecting server=127.0.0.1 address=127.0.0.1:");
    wait_for_text(&log, "INFO state state=CONNECTED session=0x");
    fake_zk_link(zk, 0, FAKE_REFUSE);
    wait_for_text(&log, "WARNING state state=SUSPENDED");
    wait_for_text(&log, "WARNING cannot use the server server=127.0.0.1:");
    wait_for_text(&log, "why=\"");
    fake_zk_link(zk, 0, FAKE_UP);
    wait_for_text(&log, "INFO state state=RECONNECTED");
    conclave_client_close(client, 1000);
    assert_non_null(strstr(log.text, "INFO state state=CLOSED"));
    free(log.text);
    fake_zk_stop(zk);
}

static void test_the_level_filters(void **state)
{
    struct log log = {.lines = 0};
    struct fake_zk *zk = fake_zk_start();
    assert_non_null(zk);
    struct conclave_client *client = open_logged(zk, &log, CONCLAVE_LOG_WARNING);
    assert_int_equal(conclave_client_wait_connected(client, CONCLAVE_FOREVER), 0);
    fake_zk_cut(zk, 0);
    wait_for_text(&log, "WARNING state state=SUSPENDED");
    conclave_client_close(client, 1000);
    assert_null(strstr(log.text, "INFO"));
    assert_null(strstr(log.text, "DEBUG"));
    free(log.text);
    fake_zk_stop(zk);
}

/* A callback that does not return: lines are dropped, and the next one tells how many. */
static void test_lines_are_bounded(void **state)
{
    struct log log = {.hold = true};
    struct fake_zk *zk = fake_zk_start();
    char list[2][64];
    assert_non_null(zk);
    struct conclave_client *client = open_logged(zk, &log, CONCLAVE_LOG_INFO);
    pthread_mutex_lock(&log.lock);
    while (!log.held) {
        pthread_cond_wait(&log.grown, &log.lock);
    }
    pthread_mutex_unlock(&log.lock);
    snprintf(list[0], sizeof list[0], "%s", fake_zk_address(zk, 0));
    snprintf(list[1], sizeof list[1], "%s,127.0.0.1:1", fake_zk_address(zk, 0));
    for (int i = 0; i < 1100; i++) { /* each is a line */
        assert_int_equal(conclave_client_set_servers(client, list[(i + 1) % 2]), 0);
    }
    pthread_mutex_lock(&log.lock);
    log.hold = false;
    pthread_cond_broadcast(&log.grown);
    while (log.lines < 1000) {
        pthread_cond_wait(&log.grown, &log.lock);
    }
    pthread_mutex_unlock(&log.lock);
    assert_int_equal(conclave_client_set_servers(client, "127.0.0.1:1,127.0.0.1:2"), 0);
    pthread_mutex_lock(&log.lock);
    while (!log.dropped) {
        pthread_cond_wait(&log.grown, &log.lock);
    }
    pthread_mutex_unlock(&log.lock);
    conclave_client_close(client, 1000);
    free(log.text);
    fake_zk_stop(zk);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_wrong_option_is_named),
        cmocka_unit_test(test_log_lines),
        cmocka_unit_test(test_the_level_filters),
        cmocka_unit_test(test_lines_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
