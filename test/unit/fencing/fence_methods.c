/* Methods of fencing: which results confirm, their order, and the input of each. ssh is a
 * script that comes before the system's in PATH; http speaks to a thread of this test. */
#define _GNU_SOURCE /* asprintf */
#include "fencing/fence_methods.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static char told_text[8][160];
static int told_error[8];
static enum fence_kind told_kind[8];
static size_t told_count;

static void told(const struct fence_method *method, int error, const char *text, void *ctx)
{
    assert_true(told_count < 8);
    told_kind[told_count] = method->kind;
    told_error[told_count] = error;
    snprintf(told_text[told_count++], sizeof told_text[0], "%s", text);
}

static const struct fence_target target = {.id = "it's me",
                                           .host = "db1.example.org",
                                           .port = 6379,
                                           .data = "more $HOME",
                                           .data_len = 10,
                                           .old_token = 41,
                                           .new_token = 77};

static int run(const struct fence_method *methods, size_t count)
{
    told_count = 0;
    return fence_methods_run(methods, count, &target, -1, told, NULL);
}

/* The content of folder/name. */
static const char *content(const char *name)
{
    static char text[8192];
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    size_t n = fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    fclose(file);
    return text;
}

static void the_first_that_confirms_suffices(void **state)
{
    const struct fence_method methods[] = {
        {.kind = FENCE_EXEC, .text = "exit 3", .timeout_ms = 30000},
        {.kind = FENCE_EXEC, .text = "exit 0", .timeout_ms = 30000},
        {.kind = FENCE_EXEC, .text = "touch \"$FOLDER/third\"", .timeout_ms = 30000},
    };
    char path[128];
    assert_int_equal(run(methods, 3), 0);
    assert_int_equal(told_count, 2);
    assert_int_equal(told_error[0], CONCLAVE_EBUSY);
    assert_string_equal(told_text[0], "exit code 3");
    assert_int_equal(told_error[1], 0);
    snprintf(path, sizeof path, "%s/third", folder);
    assert_int_not_equal(access(path, F_OK), 0);
    assert_int_equal(run(methods, 1), CONCLAVE_EBUSY); /* none confirmed */
    assert_int_equal(run(methods, 0), CONCLAVE_EBUSY); /* there is none */
}

static void one_that_hangs_is_killed_and_has_not_confirmed(void **state)
{
    const struct fence_method methods[] = {
        {.kind = FENCE_EXEC, .text = "trap '' TERM; sleep 100; exit 0", .timeout_ms = 200},
        {.kind = FENCE_EXEC, .text = "exit 0", .timeout_ms = 30000},
    };
    int64_t before = clock_monotonic_ms(clock_system());
    assert_int_equal(run(methods, 2), 0);
    assert_true(clock_monotonic_ms(clock_system()) - before < 60000);
    assert_int_equal(told_error[0], CONCLAVE_ETIMEDOUT);
    assert_string_equal(told_text[0], "no end within 200ms");
    assert_int_equal(run(methods, 1), CONCLAVE_EBUSY);
}

static void the_environment_says_who_is_to_be_fenced(void **state)
{
    const struct fence_method method = {.kind = FENCE_EXEC,
                                        .text = "env | grep -E '^CONCLAVE_(TARGET|OLD|NEW)_' | "
                                                "sort >\"$FOLDER/environment\"",
                                        .timeout_ms = 30000};
    assert_int_equal(run(&method, 1), 0);
    assert_string_equal(content("environment"), "CONCLAVE_NEW_TOKEN=77\n"
                                                "CONCLAVE_OLD_TOKEN=41\n"
                                                "CONCLAVE_TARGET_DATA=more $HOME\n"
                                                "CONCLAVE_TARGET_HOST=db1.example.org\n"
                                                "CONCLAVE_TARGET_ID=it's me\n"
                                                "CONCLAVE_TARGET_PORT=6379\n");
    struct fence_target unknown = {.data = "\0binary", .data_len = 7, .new_token = 5};
    assert_int_equal(fence_methods_run(&method, 1, &unknown, -1, NULL, NULL), 0);
    assert_string_equal(content("environment"), "CONCLAVE_NEW_TOKEN=5\n"
                                                "CONCLAVE_OLD_TOKEN=0\n"
                                                "CONCLAVE_TARGET_DATA=\n"
                                                "CONCLAVE_TARGET_HOST=\n"
                                                "CONCLAVE_TARGET_ID=\n"
                                                "CONCLAVE_TARGET_PORT=\n");
}

static void it_can_be_broken_off(void **state)
{
    const struct fence_method methods[] = {
        {.kind = FENCE_EXEC, .text = "sleep 100", .timeout_ms = 60000},
        {.kind = FENCE_EXEC, .text = "touch \"$FOLDER/after\"", .timeout_ms = 30000},
    };
    int fd = eventfd(1, EFD_CLOEXEC);
    char path[128];
    assert_int_equal(fence_methods_run(methods, 2, &target, fd, NULL, NULL), CONCLAVE_ECANCELED);
    snprintf(path, sizeof path, "%s/after", folder);
    assert_int_not_equal(access(path, F_OK), 0);
    close(fd);
}

/* --- ssh -------------------------------------------------------------------------------- */

static void script(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(path, 0755), 0);
}

static void ssh_runs_the_command_on_the_host(void **state)
{
    const char *const options[] = {"User=ops", "Port=2222", NULL};
    const struct fence_method method = {
        .kind = FENCE_SSH,
        .text = "echo \"$CONCLAVE_TARGET_ID $CONCLAVE_TARGET_DATA $CONCLAVE_OLD_TOKEN "
                "$CONCLAVE_NEW_TOKEN 'q'\" >\"$FOLDER/remote\"",
        .timeout_ms = 4500,
        .ssh_options = options};
    /* as a server's side does: the last word is given to a shell */
    script("ssh", "#!/bin/sh\n"
                  "echo \"$@\" | sed 's/ env .*//' >\"$FOLDER/words\"\n"
                  "for word in \"$@\"; do last=$word; done\n"
                  "exec /bin/sh -c \"$last\"\n");
    assert_int_equal(run(&method, 1), 0);
    assert_string_equal(content("words"), "-o User=ops -o Port=2222 -o BatchMode=yes -o "
                                          "ConnectTimeout=5 -- db1.example.org\n");
    assert_string_equal(content("remote"), "it's me more $HOME 41 77 'q'\n");
}

static void ssh_that_fails_does_not_confirm(void **state)
{
    const struct fence_method method = {.kind = FENCE_SSH, .text = "true", .timeout_ms = 30000};
    script("ssh", "#!/bin/sh\nexit 255\n");
    assert_int_equal(run(&method, 1), CONCLAVE_EBUSY);
    assert_string_equal(told_text[0], "exit code 255, of ssh itself");
    assert_int_equal(told_kind[0], FENCE_SSH);
}

/* The name of the host comes from a node that others write. */
static void ssh_takes_no_option_for_a_host(void **state)
{
    static const char *const hosts[] = {"-oProxyCommand=touch x", "a b", "a;b", "", NULL};
    const struct fence_method method = {.kind = FENCE_SSH, .text = "true", .timeout_ms = 30000};
    script("ssh", "#!/bin/sh\nexit 0\n");
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        struct fence_target bad = target;
        bad.host = hosts[i];
        assert_int_equal(fence_methods_run(&method, 1, &bad, -1, NULL, NULL), CONCLAVE_EBUSY);
    }
    assert_int_equal(fence_methods_run(&method, 1, &target, -1, NULL, NULL), 0);
}

/* --- http ------------------------------------------------------------------------------- */

static struct {
    int fd;
    int port;
    pthread_mutex_t mutex; /* guards those below */
    const char *answer;    /* NULL: none, ever */
    char request[4096];    /* the last one */
} server = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void read_request(int fd)
{
    char request[sizeof server.request];
    size_t got = 0;
    const char *body = NULL;
    while (got < sizeof request - 1 &&
           (body == NULL || strstr(body, "\"new_token\":77}") == NULL)) {
        ssize_t n = read(fd, request + got, sizeof request - 1 - got);
        if (n <= 0) {
            break;
        }
        got += (size_t)n;
        request[got] = '\0';
        body = strstr(request, "\r\n\r\n");
    }
    pthread_mutex_lock(&server.mutex);
    memcpy(server.request, request, got);
    server.request[got] = '\0';
    pthread_mutex_unlock(&server.mutex);
}

static void *serve(void *arg)
{
    for (;;) {
        int fd = accept(server.fd, NULL, NULL);
        if (fd < 0) {
            return NULL;
        }
        read_request(fd);
        pthread_mutex_lock(&server.mutex);
        const char *answer = server.answer;
        pthread_mutex_unlock(&server.mutex);
        if (answer == NULL) {
            char byte;
            while (read(fd, &byte, 1) > 0) {}
        } else {
            assert_int_equal(write(fd, answer, strlen(answer)), strlen(answer));
        }
        close(fd);
    }
}

static int post(const char *path, const char *answer, int64_t timeout_ms)
{
    char url[128];
    snprintf(url, sizeof url, "http://127.0.0.1:%d%s", server.port, path);
    const struct fence_method method = {.kind = FENCE_HTTP, .text = url, .timeout_ms = timeout_ms};
    pthread_mutex_lock(&server.mutex);
    server.answer = answer;
    pthread_mutex_unlock(&server.mutex);
    return run(&method, 1);
}

/* Whether the last request has this text. */
static bool was_asked(const char *text)
{
    pthread_mutex_lock(&server.mutex);
    bool found = strstr(server.request, text) != NULL;
    pthread_mutex_unlock(&server.mutex);
    return found;
}

static void only_hosts_of_the_list_are_fenced(void **state)
{
    const char *const others[] = {"db2.example.org", "db1", NULL};
    const char *const known[] = {"db2.example.org", "DB1.example.org", NULL};
    struct fence_method method = {
        .kind = FENCE_EXEC, .text = "exit 0", .timeout_ms = 30000, .hosts = others};
    for (int kind = FENCE_EXEC; kind <= FENCE_HTTP; kind++) {
        method.kind = (enum fence_kind)kind;
        method.text = kind == FENCE_HTTP ? "http://127.0.0.1:1/" : "exit 0";
        assert_int_equal(run(&method, 1), CONCLAVE_EBUSY);
        assert_string_equal(told_text[0], "the host is not one of those that may be fenced");
    }
    method = (struct fence_method){
        .kind = FENCE_EXEC, .text = "exit 0", .timeout_ms = 30000, .hosts = known};
    assert_int_equal(run(&method, 1), 0);
    struct fence_target unknown = target;
    unknown.host = NULL;
    assert_int_equal(fence_methods_run(&method, 1, &unknown, -1, NULL, NULL), CONCLAVE_EBUSY);
}

static void http_posts_and_wants_a_clear_answer(void **state)
{
    pthread_t thread;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    if (system("command -v curl >/dev/null") != 0) {
        print_message("skipped: there is no curl here\n");
        skip();
    }
    server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(server.fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(server.fd, 8), 0);
    assert_int_equal(getsockname(server.fd, (struct sockaddr *)&address, &len), 0);
    server.port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);

    assert_int_equal(post("/off?x=[1]",
                          "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
                          20000),
                     0);
    assert_string_equal(told_text[0], "status 200");
    assert_true(was_asked("POST /off?x=[1] HTTP/1.1\r\n"));
    assert_true(was_asked("Content-Type: application/json\r\n"));
    assert_true(was_asked("{\"target\":{\"id\":\"it's me\",\"host\":\"db1.example.org\","
                          "\"port\":6379,\"data\":\"more $HOME\"},\"old_token\":41,"
                          "\"new_token\":77}"));
    assert_int_equal(post("/", "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", 20000), 0);
    /* taken, but not done; elsewhere; not at all; by nobody */
    assert_int_equal(
        post("/", "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 20000),
        CONCLAVE_EBUSY);
    assert_string_equal(told_text[0], "status 202");
    assert_int_equal(post("/",
                          "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n"
                          "Connection: close\r\n\r\n",
                          20000),
                     CONCLAVE_EBUSY);
    assert_int_equal(
        post("/", "HTTP/1.1 500 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", 20000),
        CONCLAVE_EBUSY);
    assert_int_equal(post("/", "", 20000), CONCLAVE_EBUSY);
    assert_int_equal(post("/", NULL, 300), CONCLAVE_EBUSY);
    assert_int_equal(told_error[0], CONCLAVE_ETIMEDOUT);
    shutdown(server.fd, SHUT_RDWR);
    close(server.fd);
    pthread_join(thread, NULL);
    assert_int_equal(post("/", NULL, 20000), CONCLAVE_EBUSY);
    assert_non_null(strstr(told_text[0], "of curl"));
}

/* --- checks ----------------------------------------------------------------------------- */

static void what_is_no_method_is_refused(void **state)
{
    const struct fence_method good = {.kind = FENCE_HTTP, .text = "https://h/", .timeout_ms = 1};
    const struct fence_method bad[] = {
        {.kind = FENCE_EXEC, .text = "", .timeout_ms = 1},
        {.kind = FENCE_EXEC, .text = NULL, .timeout_ms = 1},
        {.kind = FENCE_EXEC, .text = "true", .timeout_ms = 0},
        {.kind = FENCE_HTTP, .text = "file:///etc/passwd", .timeout_ms = 1},
        {.kind = FENCE_HTTP, .text = "http://h/\nurl = x", .timeout_ms = 1},
        {.kind = (enum fence_kind)9, .text = "x", .timeout_ms = 1},
    };
    assert_null(fence_method_wrong(&good));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_non_null(fence_method_wrong(&bad[i]));
        assert_int_equal(run(&bad[i], 1), CONCLAVE_EBUSY);
        assert_int_equal(told_error[0], CONCLAVE_EINVAL);
    }
}

static int setup(void **state)
{
    char *path;
    snprintf(folder, sizeof folder, "/tmp/conclave-fence-XXXXXX");
    if (mkdtemp(folder) == NULL || asprintf(&path, "%s:%s", folder, getenv("PATH")) < 0) {
        return -1;
    }
    setenv("FOLDER", folder, 1);
    setenv("PATH", path, 1);
    free(path);
    return 0;
}

static int teardown(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_that_confirms_suffices),
        cmocka_unit_test(one_that_hangs_is_killed_and_has_not_confirmed),
        cmocka_unit_test(the_environment_says_who_is_to_be_fenced),
        cmocka_unit_test(it_can_be_broken_off),
        cmocka_unit_test(ssh_runs_the_command_on_the_host),
        cmocka_unit_test(ssh_that_fails_does_not_confirm),
        cmocka_unit_test(ssh_takes_no_option_for_a_host),
        cmocka_unit_test(only_hosts_of_the_list_are_fenced),
        cmocka_unit_test(http_posts_and_wants_a_clear_answer),
        cmocka_unit_test(what_is_no_method_is_refused),
    };
    return cmocka_run_group_tests_name("fence_methods", tests, setup, teardown);
}
