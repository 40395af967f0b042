/* The list of servers at run time: given by the program, or read from the ensemble's configuration. */
#include "client/ensemble_config.h"
#include "support/fake_zk.h"
#include "wire/ops.h"

#include <conclave/easy.h>

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct side {
    struct fake_zk *zk;
    struct conclave_client *client;
    sem_t attached;   /* posted for each state with a session */
    _Atomic int last; /* enum conclave_state */
};

static void on_state(struct conclave_client *client, enum conclave_state state, void *ctx)
{
    struct side *s = ctx;
    s->last = state;
    if (state == CONCLAVE_STATE_CONNECTED || state == CONCLAVE_STATE_RECONNECTED) {
        (void)sem_post(&s->attached);
    }
}

static void begin(struct side *s, const char *chroot, bool follow)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    char servers[64];
    snprintf(servers, sizeof servers, "%s%s", fake_zk_address(s->zk, 0), chroot);
    assert_int_equal(sem_init(&s->attached, 0, 0), 0);
    options.servers = servers;
    options.on_state = on_state;
    options.ctx = s;
    options.follow_ensemble = follow;
    options.reconnect_max_ms = 5;
    assert_int_equal(conclave_client_open(&options, &s->client), 0);
    assert_int_equal(conclave_client_start(s->client), 0);
    assert_int_equal(sem_wait(&s->attached), 0);
}

static void end(struct side *s)
{
    conclave_client_close(s->client, 1000);
    (void)sem_destroy(&s->attached);
    fake_zk_stop(s->zk);
}

static void assert_linked_to(struct side *s, int endpoint)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    conclave_client_session(s->client, &session);
    assert_string_equal(session.server, fake_zk_address(s->zk, endpoint));
}

static void assert_servers(struct side *s, const char *servers)
{
    char text[128];
    conclave_client_servers(s->client, text, sizeof text);
    assert_string_equal(text, servers);
}

static void test_a_server_that_leaves_the_list(void **state)
{
    struct side s = {.zk = fake_zk_start()};
    assert_non_null(s.zk);
    begin(&s, "", false);
    assert_linked_to(&s, 0);
    assert_int_equal(conclave_client_set_servers(s.client, fake_zk_address(s.zk, 1)), 0);
    assert_int_equal(sem_wait(&s.attached), 0);
    assert_int_equal(s.last, CONCLAVE_STATE_RECONNECTED);
    assert_linked_to(&s, 1);
    assert_servers(&s, fake_zk_address(s.zk, 1));
    assert_int_equal(fake_zk_sessions(s.zk), 1);
    end(&s);
}

static void count_answer(struct conclave_client *client, const struct conclave_reply *reply,
                         void *ctx)
{
    assert_int_equal(reply->error, 0);
    (void)sem_post(ctx);
}

/* Requests in flight and those that are made while the client leaves get their answers. */
static void test_no_request_is_lost(void **state)
{
    enum { REQUESTS = 200 };
    struct side s = {.zk = fake_zk_start()};
    sem_t answered;
    assert_non_null(s.zk);
    assert_int_equal(sem_init(&answered, 0, 0), 0);
    begin(&s, "", false);
    for (int i = 0; i < REQUESTS; i++) {
        if (i % 20 == 10) {
            const char *next = fake_zk_address(s.zk, 1 + i / 20 % 2);
            assert_int_equal(conclave_client_set_servers(s.client, next), 0);
        }
        assert_int_equal(conclave_create_async(s.client, "/n-", "", 0,
                                               CONCLAVE_PERSISTENT_SEQUENTIAL, count_answer,
                                               &answered),
                         0);
    }
    for (int i = 0; i < REQUESTS; i++) {
        assert_int_equal(sem_wait(&answered), 0);
    }
    assert_int_equal(fake_zk_child_count(s.zk, "/"), REQUESTS);
    (void)sem_destroy(&answered);
    end(&s);
}

/* A server that does not answer keeps the client for a second, not longer. */
static void test_an_answer_that_does_not_come(void **state)
{
    struct side s = {.zk = fake_zk_start()};
    assert_non_null(s.zk);
    begin(&s, "", false);
    fake_zk_hold(s.zk, 0, WIRE_GET_DATA);
    assert_int_equal(conclave_get_async(s.client, "/", NULL, NULL), 0);
    assert_int_equal(conclave_client_set_servers(s.client, fake_zk_address(s.zk, 1)), 0);
    assert_int_equal(sem_wait(&s.attached), 0);
    assert_linked_to(&s, 1);
    end(&s);
}

static void test_lists_that_are_refused(void **state)
{
    struct side s = {.zk = fake_zk_start()};
    char list[64];
    assert_non_null(s.zk);
    fake_zk_create(s.zk, "/app", "", 0);
    begin(&s, "/app", false);
    assert_int_equal(conclave_client_set_servers(s.client, "a:b"), CONCLAVE_EINVAL);
    assert_int_equal(conclave_client_set_servers(s.client, ""), CONCLAVE_EINVAL);
    assert_int_equal(conclave_client_set_servers(s.client, NULL), CONCLAVE_EINVAL);
    snprintf(list, sizeof list, "%s/other", fake_zk_address(s.zk, 1));
    assert_int_equal(conclave_client_set_servers(s.client, list), CONCLAVE_EINVAL);
    assert_servers(&s, fake_zk_address(s.zk, 0));
    snprintf(list, sizeof list, "%s/app", fake_zk_address(s.zk, 1));
    assert_int_equal(conclave_client_set_servers(s.client, list), 0);
    assert_int_equal(sem_wait(&s.attached), 0);
    assert_linked_to(&s, 1);
    end(&s);
}

/* The same servers in another order, or fewer with the client's own: it stays. */
static void test_a_link_that_stays(void **state)
{
    struct side s = {.zk = fake_zk_start()};
    char list[128];
    assert_non_null(s.zk);
    begin(&s, "", false);
    assert_int_equal(conclave_client_set_servers(s.client, fake_zk_address(s.zk, 0)), 0);
    assert_int_equal(conclave_exists(s.client, "/", NULL), 0);
    assert_int_equal(s.last, CONCLAVE_STATE_CONNECTED);
    /* two servers: the client moves with one half; then back to one */
    snprintf(list, sizeof list, "%s,%s", fake_zk_address(s.zk, 0), fake_zk_address(s.zk, 1));
    assert_int_equal(conclave_client_set_servers(s.client, list), 0);
    assert_int_equal(conclave_client_set_servers(s.client, fake_zk_address(s.zk, 0)), 0);
    assert_int_equal(conclave_exists(s.client, "/", NULL), 0);
    end(&s);
}

/* --- the ensemble's configuration
 * --------------------------------------------------------------------- */

static void assert_config(const char *text, const char *servers)
{
    struct buf b;
    buf_init(&b, 0);
    int rc = ensemble_config_servers(slice_str(text), &b);
    if (servers == NULL) {
        assert_int_equal(rc, CONCLAVE_EEMPTY);
    } else {
        assert_int_equal(rc, 0);
        assert_string_equal((const char *)b.data, servers);
    }
    buf_finish(&b);
}

static void test_the_text_of_a_configuration(void **state)
{
    assert_config("", NULL);
    assert_config("version=100000000", NULL);
    assert_config("server.1=a:2888:3888:participant\nversion=0", NULL); /* no client address */
    assert_config("server.1=a:2888:3888:participant;2181\nversion=0", "a:2181");
    assert_config("server.1=a:1:2:participant;0.0.0.0:3\r\nserver.2=b:1:2:observer;c:4\n",
                  "a:3,c:4");
    assert_config("server.1=[::1]:1:2;[::]:3\nserver.2=b:1:2;[fe80::2]:4", "[::1]:3,[fe80::2]:4");
    assert_config("server.1=a:1:2|b:3:4:participant;5", "a:5");
    assert_config("server.1=a:1:2;x\nserver.2=;\nserver.3\nserver.4=:1:2;9\nserver.5=e:1:2;6",
                  "e:6");
}

static void test_the_configuration_is_followed(void **state)
{
    static const char *const chroots[] = {"", "/app"};
    for (size_t i = 0; i < sizeof chroots / sizeof chroots[0]; i++) {
        struct side s = {.zk = fake_zk_start()};
        char text[128];
        assert_non_null(s.zk);
        fake_zk_create(s.zk, "/app", "", 0);
        snprintf(text, sizeof text, "server.1=127.0.0.1:1:2:participant;%s\nversion=1",
                 strchr(fake_zk_address(s.zk, 1), ':') + 1);
        fake_zk_create(s.zk, "/zookeeper", "", 0);
        fake_zk_create(s.zk, "/zookeeper/config", text, 0);
        begin(&s, chroots[i], true);
        assert_int_equal(sem_wait(&s.attached), 0); /* moved to what the node says */
        assert_linked_to(&s, 1);
        snprintf(text, sizeof text, "server.2=127.0.0.1:1:2:participant;0.0.0.0:%s\nversion=2",
                 strchr(fake_zk_address(s.zk, 2), ':') + 1);
        fake_zk_write(s.zk, "/zookeeper/config", text);
        assert_int_equal(sem_wait(&s.attached), 0);
        assert_linked_to(&s, 2);
        assert_servers(&s, fake_zk_address(s.zk, 2));
        fake_zk_write(s.zk, "/zookeeper/config", "version=3"); /* no server: nothing changes */
        fake_zk_write(s.zk, "/zookeeper/config", text);
        assert_int_equal(conclave_exists(s.client, "/", NULL), 0);
        assert_linked_to(&s, 2);
        end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_server_that_leaves_the_list),
        cmocka_unit_test(test_no_request_is_lost),
        cmocka_unit_test(test_an_answer_that_does_not_come),
        cmocka_unit_test(test_lists_that_are_refused),
        cmocka_unit_test(test_a_link_that_stays),
        cmocka_unit_test(test_the_text_of_a_configuration),
        cmocka_unit_test(test_the_configuration_is_followed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
