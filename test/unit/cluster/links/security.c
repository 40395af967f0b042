/* Who gets a link and who does not: secrets, certificates, and strangers that try everything. */
#include "base/clock.h"
#include "base/endian.h"
#include "cluster/links/peer_hello.h"
#include "support/certificates.h"
#include "support/peer_node.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define SECRET "a secret of the cluster"

static struct replica one, two;
static struct replica *const pair[] = {&one, &two};
static struct certificate ca, other_ca;

static int set_up(void **state)
{
    node_init(&one, 1);
    node_init(&two, 2);
    return 0;
}

static int tear_down(void **state)
{
    node_finish(&one);
    node_finish(&two);
    return 0;
}

static bool pair_linked(void *ctx)
{
    return nodes_linked(pair, 2);
}

static bool both_refused(void *ctx)
{
    return one.refusals > 0 && two.refusals > 0;
}

static void start_pair(void)
{
    node_start(&one);
    node_start(&two);
    nodes_introduce(pair, 2);
}

static bool both_have_frames(void *ctx)
{
    return one.frames > 0 && two.frames > 0;
}

static void expect_linked(void)
{
    start_pair();
    if (!nodes_run(pair, 2, LIMIT_MS, pair_linked, NULL)) {
        fail_msg("one: %s; two: %s", one.refused, two.refused);
    }
    assert_int_equal(node_send(&one, 2, 100000), 0);
    assert_int_equal(node_send(&two, 1, 100000), 0);
    assert_true(nodes_run(pair, 2, LIMIT_MS, both_have_frames, NULL));
    nodes_run(pair, 2, 300, NULL, NULL);
    assert_int_equal(one.frames, 1);
    assert_int_equal(two.frames, 1);
    assert_int_equal(one.refusals + two.refusals, 0);
}

/* Neither hears who the other is; one says why. */
static void expect_refused(const char *why)
{
    start_pair();
    assert_true(nodes_run(pair, 2, LIMIT_MS, both_refused, NULL));
    nodes_run(pair, 2, 300, NULL, NULL);
    assert_int_equal(one.ups[2] + two.ups[1], 0);
    assert_int_equal(one.hellos[2] + two.hellos[1], 0);
    if (strstr(one.refused, why) == NULL && strstr(two.refused, why) == NULL) {
        fail_msg("neither says '%s': '%s', '%s'", why, one.refused, two.refused);
    }
}

/* Secrets */

static void use_secret(struct replica *n, const char *secret)
{
    n->options.security = PEER_SECURITY_SECRET;
    n->options.secret = slice_str(secret);
}

static void same_secret_links(void **state)
{
    use_secret(&one, SECRET);
    use_secret(&two, SECRET);
    expect_linked();
}

/* The steps of a rotation, and what a left-out step does. */
static void use_secrets(struct replica *n, const char *secret, const char *other)
{
    use_secret(n, secret);
    n->options.other_secret = slice_str(other);
}

static void old_links_with_old_and_new(void **state)
{
    use_secret(&one, SECRET);
    use_secrets(&two, SECRET, SECRET " new");
    expect_linked();
}

static void old_and_new_links_with_new_and_old(void **state)
{
    use_secrets(&one, SECRET, SECRET " new");
    use_secrets(&two, SECRET " new", SECRET);
    expect_linked();
}

static void new_and_old_links_with_new(void **state)
{
    use_secrets(&one, SECRET " new", SECRET);
    use_secret(&two, SECRET " new");
    expect_linked();
}

static void a_step_too_far_is_refused(void **state)
{
    use_secret(&one, SECRET);
    use_secrets(&two, SECRET " new", SECRET);
    expect_refused("another secret");
}

static void short_other_secret_is_refused(void **state)
{
    const struct peer_callbacks callbacks = {0};
    struct peers *p = NULL;
    char *text = NULL;
    use_secrets(&one, SECRET, "fifteen letters");
    assert_int_equal(peers_open(&one.loop, &one.options, &callbacks, &p, &text), CONCLAVE_EINVAL);
    assert_non_null(strstr(text, "shorter than 16"));
    free(text);
}

static void another_secret_is_refused(void **state)
{
    use_secret(&one, SECRET);
    use_secret(&two, SECRET " ");
    expect_refused("another secret");
}

static void no_secret_is_refused(void **state)
{
    use_secret(&one, SECRET);
    expect_refused("proves no secret");
}

static void short_secret_is_refused(void **state)
{
    const struct peer_callbacks callbacks = {0};
    struct peers *p = NULL;
    char *text = NULL;
    use_secret(&one, "fifteen letters");
    assert_int_equal(peers_open(&one.loop, &one.options, &callbacks, &p, &text), CONCLAVE_EINVAL);
    assert_non_null(strstr(text, "shorter than 16"));
    assert_null(strstr(text, "fifteen"));
    free(text);
}

/* A frame of the largest size and many small ones go through TLS whole. */
static void large_and_many_frames_pass_encrypted(void **state)
{
    use_secret(&one, SECRET);
    use_secret(&two, SECRET);
    start_pair();
    assert_true(nodes_run(pair, 2, LIMIT_MS, pair_linked, NULL));
    assert_int_equal(node_send(&one, 2, PEER_FRAME_MAX), 0);
    for (int i = 0; i < 1000 && two.frames == 0; i++) {
        nodes_run(pair, 2, 50, NULL, NULL);
    }
    assert_int_equal(two.bytes, PEER_FRAME_MAX);
    for (int i = 0; i < 20000; i++) {
        assert_int_equal(node_send(&one, 2, 40), 0);
    }
    for (int i = 0; i < 200 && two.frames < 20001; i++) {
        nodes_run(pair, 2, 20, NULL, NULL);
    }
    assert_int_equal(two.frames, 20001);
    assert_int_equal(two.ups[1], 1);
}

/* Certificates */

static struct tls_settings settings[2];

/* The node shows the certificate of that name, and trusts the CA of that file. */
static void use_certificate(struct replica *n, const char *name, const char *trusted)
{
    char file[64];
    struct tls_settings *s = &settings[n->id - 1];
    *s = (struct tls_settings){0};
    snprintf(file, sizeof file, "%s.pem", name);
    s->cert_file = strdup(certificate_path(file));
    snprintf(file, sizeof file, "%s.key", name);
    s->key_file = strdup(certificate_path(file));
    s->trust_file = strdup(certificate_path(trusted));
    n->options.security = PEER_SECURITY_CERTIFICATES;
    n->options.certificates = s;
    n->options.verify_hosts = true;
    n->options.host = "127.0.0.1";
}

static int drop_certificates(void **state)
{
    for (size_t i = 0; i < 2; i++) {
        free((void *)settings[i].cert_file);
        free((void *)settings[i].key_file);
        free((void *)settings[i].trust_file);
        settings[i] = (struct tls_settings){0};
    }
    return tear_down(state);
}

static void make(const char *name, const struct certificate *issuer, const char *san)
{
    struct certificate c;
    char file[64];
    certificate_make(&c, issuer, "127.0.0.1", san, 30, false);
    snprintf(file, sizeof file, "%s.pem", name);
    certificate_write_cert(&c, file, false);
    snprintf(file, sizeof file, "%s.key", name);
    certificate_write_key(&c, file, false, NULL);
    certificate_finish(&c);
}

static int make_certificates(void **state)
{
    certificate_make(&ca, NULL, "CA", NULL, 30, true);
    certificate_make(&other_ca, NULL, "CA", NULL, 30, true);
    certificate_write_cert(&ca, "ca.pem", false);
    certificate_write_cert(&other_ca, "other-ca.pem", false);
    make("good", &ca, "IP:127.0.0.1,DNS:localhost");
    make("foreign", &other_ca, "IP:127.0.0.1,DNS:localhost");
    make("nameless", &ca, NULL); /* its common name is the address: that does not count */
    make("elsewhere", &ca, "IP:127.0.0.2,DNS:other.example");
    make("wildcard", &ca, "DNS:*.example,DNS:*,DNS:*.0.0.1");
    return 0;
}

static int remove_certificates(void **state)
{
    certificate_finish(&ca);
    certificate_finish(&other_ca);
    certificate_folder_remove();
    return 0;
}

static void certificates_of_one_ca_link(void **state)
{
    use_certificate(&one, "good", "ca.pem");
    use_certificate(&two, "good", "ca.pem");
    expect_linked();
}

static void certificate_of_another_ca_is_refused(void **state)
{
    use_certificate(&one, "good", "ca.pem");
    use_certificate(&two, "foreign", "ca.pem");
    expect_refused("certificate");
}

static void each_side_trusts_by_itself(void **state)
{
    use_certificate(&one, "good", "ca.pem");
    use_certificate(&two, "good", "other-ca.pem");
    expect_refused("certificate");
}

static void certificate_for_nobody_is_refused(void **state)
{
    use_certificate(&one, "good", "ca.pem");
    use_certificate(&two, "nameless", "ca.pem");
    expect_refused("not for");
}

static void certificate_for_another_host_is_refused(void **state)
{
    use_certificate(&one, "good", "ca.pem");
    use_certificate(&two, "elsewhere", "ca.pem");
    expect_refused("not for");
}

static void wildcard_is_refused(void **state)
{
    use_certificate(&one, "good", "ca.pem");
    use_certificate(&two, "wildcard", "ca.pem");
    expect_refused("not for");
}

static void hosts_count_only_when_asked_for(void **state)
{
    use_certificate(&one, "good", "ca.pem");
    use_certificate(&two, "elsewhere", "ca.pem");
    one.options.verify_hosts = two.options.verify_hosts = false;
    expect_linked();
}

static bool one_has_refused(void *ctx)
{
    return one.refusals > 0;
}

static bool one_knows_two(void *ctx)
{
    return one.hellos[2] > 0;
}

/* A newcomer is known by no address but the one that it names itself. */
static void newcomer_must_be_whom_it_names(void **state)
{
    struct peer_member to_one = {1, &one.address, 1};
    use_certificate(&one, "good", "ca.pem");
    use_certificate(&two, "elsewhere", "ca.pem");
    node_start(&one);
    node_start(&two);
    assert_int_equal(peers_set_members(two.peers, &to_one, 1), 0);
    assert_true(nodes_run(pair, 2, LIMIT_MS, one_has_refused, NULL));
    assert_int_equal(one.hellos[2], 0);
    assert_non_null(strstr(one.refused, "not for the host"));
    node_stop(&two);
    two.options.host = "other.example";
    node_start(&two);
    assert_int_equal(peers_set_members(two.peers, &to_one, 1), 0);
    assert_true(nodes_run(pair, 2, LIMIT_MS, one_knows_two, NULL));
    assert_int_equal(one.hellos[2], 1);
}

static void certificates_are_read_again(void **state)
{
    char why[TLS_TEXT_MAX];
    use_certificate(&one, "good", "ca.pem");
    use_certificate(&two, "foreign", "ca.pem");
    expect_refused("certificate");
    free((void *)settings[1].cert_file);
    free((void *)settings[1].key_file);
    settings[1].cert_file = strdup(certificate_path("good.pem"));
    settings[1].key_file = strdup(certificate_path("good.key"));
    two.options.certificates = &settings[1];
    node_stop(&two);
    node_start(&two);
    nodes_introduce(pair, 2);
    assert_true(nodes_run(pair, 2, LIMIT_MS, pair_linked, NULL));
    assert_int_equal(peers_reload(two.peers, why), 0);
    assert_int_equal(unlink(settings[1].cert_file), 0);
    assert_int_equal(peers_reload(two.peers, why), CONCLAVE_EINVAL);
    assert_non_null(strstr(why, "good.pem"));
    assert_true(two.links[1]);
    make("good", &ca, "IP:127.0.0.1,DNS:localhost");
}

/* Strangers */

static int raw_connect(const struct replica *to)
{
    struct sockaddr_in sa = {.sin_family = AF_INET,
                             .sin_port = htons(to->address.port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    return fd;
}

static void raw_send(int fd, const void *bytes, size_t len)
{
    assert_int_equal(send(fd, bytes, len, MSG_NOSIGNAL), len);
}

/* Lets node one work until the stranger's connection has ended; what it got before. */
static size_t raw_read_all(int fd, uint8_t *room, size_t cap, int ms)
{
    size_t got = 0;
    for (int i = 0; i < ms / 5; i++) {
        nodes_run(pair, 1, 5, NULL, NULL);
        ssize_t n = recv(fd, room + got, cap - got, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            assert_int_equal(close(fd), 0);
            return got;
        }
        got += n > 0 ? (size_t)n : 0;
    }
    fail_msg("the connection still stands");
    return 0;
}

/* Says hello as server 2, or a variation of it. */
static void raw_hello(int fd, uint64_t id, uint64_t nonce)
{
    struct hello h = {.version = HELLO_VERSION, .from = {.id = id}, .to = 1, .nonce = nonce};
    struct buf b;
    buf_init(&b, 0);
    hello_append(&b, &h);
    raw_send(fd, b.data, b.len);
    buf_finish(&b);
}

/* A stranger gets an alert of TLS from a port with a secret, and nothing after it. */
static void stranger_gets_an_alert_at_most(void **state)
{
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    static const char zookeeper[] = "\0\0\0\x2c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x27\x10 and so on";
    static const char elect[] = "\xff\xff\xff\xff\xff\xff\xff\xff\x7f\xff\xff\xff\0\0\0\0";
    static const struct slice words[] = {{(const uint8_t *)http, sizeof http - 1},
                                         {(const uint8_t *)zookeeper, sizeof zookeeper - 1},
                                         {(const uint8_t *)elect, sizeof elect - 1}};
    uint8_t got[4096];
    use_secret(&one, SECRET);
    node_start(&one);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        int fd = raw_connect(&one);
        raw_send(fd, words[i].data, words[i].len);
        size_t n = raw_read_all(fd, got, sizeof got, 3000);
        assert_true(n == 0 || (n == 7 && got[0] == 0x15));
    }
    /* The hello of the link, without TLS under it. */
    int fd = raw_connect(&one);
    raw_hello(fd, 2, 1);
    size_t n = raw_read_all(fd, got, sizeof got, 3000);
    assert_true(n == 0 || (n == 7 && got[0] == 0x15));
    assert_int_equal(one.hellos[2], 0);
    assert_int_equal(peers_refused(one.peers), 4);
    assert_non_null(strstr(one.refused, "proves no secret"));
}

static void refuse_bytes(const void *bytes, size_t len)
{
    uint8_t got[4096];
    uint64_t before = peers_refused(one.peers);
    int fd = raw_connect(&one);
    raw_send(fd, bytes, len);
    assert_int_equal(raw_read_all(fd, got, sizeof got, 1500), 0);
    assert_int_equal(peers_refused(one.peers), before + 1);
}

/* On loopback without security: a foreign protocol ends at its first bytes. */
static void garbage_is_refused(void **state)
{
    static const uint8_t huge[] = {0x7f, 0xff, 0xff, 0xff, 0};
    static const uint8_t empty[] = {0, 0, 0, 0, 0};
    static const uint8_t large[] = {0, 0, 2, 2, 0}; /* more than any hello */
    static const uint8_t ping[] = {0, 0, 0, 2, 0, CONTROL_PING};
    static const uint8_t data[] = {0, 0, 0, 2, 1, 'x'};
    static const uint8_t nothing[] = {0, 0, 0, 1, 0};
    static const uint8_t hello[] = {0, 0, 0, 4, 0, CONTROL_HELLO, 1, 2};
    node_start(&one);
    refuse_bytes(huge, sizeof huge);
    refuse_bytes(empty, sizeof empty);
    refuse_bytes(large, sizeof large);
    refuse_bytes(ping, sizeof ping);
    refuse_bytes(data, sizeof data);
    refuse_bytes(nothing, sizeof nothing);
    refuse_bytes(hello, sizeof hello);
    refuse_bytes("POST / HTTP/1.1\r\n\r\n", 19);
    assert_int_equal(one.hellos[2], 0);
}

/* After a good hello: frames that are too long, or that only the other direction may have. */
static void refuse_after_hello(const void *bytes, size_t len)
{
    uint8_t got[4096];
    uint64_t before = peers_refused(one.peers);
    int fd = raw_connect(&one);
    raw_hello(fd, 2, before);
    raw_send(fd, bytes, len);
    assert_int_equal(raw_read_all(fd, got, sizeof got, 1500) > 0, 1); /* the answer to the hello */
    assert_int_equal(peers_refused(one.peers), before + 1);
}

static void bad_frames_after_a_hello_end_it(void **state)
{
    static const uint8_t too_long[] = {0x04, 0, 0, 2, 1};
    static const uint8_t again[] = {0, 0, 0, 2, 0, CONTROL_HELLO};
    static const uint8_t age[] = {0, 0, 0, 3, 0, CONTROL_AGE, 1};
    static const uint8_t unknown[] = {0, 0, 0, 2, 0, 99};
    node_start(&one);
    refuse_after_hello(too_long, sizeof too_long);
    refuse_after_hello(again, sizeof again);
    refuse_after_hello(age, sizeof age);
    refuse_after_hello(unknown, sizeof unknown);
    assert_int_equal(one.hellos[2], 4);
    assert_int_equal(one.ups[2], 0);
    assert_int_equal(one.frames, 0);
}

/* Bytes one at a time, or none at all: the time limit counts from the beginning. */
static void slow_strangers_are_let_go(void **state)
{
    uint8_t got[64];
    int64_t before = clock_monotonic_ms(clock_system());
    node_start(&one);
    int silent = raw_connect(&one);
    int slow = raw_connect(&one);
    struct buf b;
    struct hello h = {.version = HELLO_VERSION, .from = {.id = 2}, .to = 1};
    buf_init(&b, 0);
    hello_append(&b, &h);
    for (size_t i = 0; i < 15; i++) {
        raw_send(slow, b.data + i, 1);
        nodes_run(pair, 1, 100, NULL, NULL);
    }
    assert_int_equal(raw_read_all(slow, got, sizeof got, LIMIT_MS), 0);
    assert_int_equal(raw_read_all(silent, got, sizeof got, LIMIT_MS), 0);
    assert_true(clock_monotonic_ms(clock_system()) - before < LIMIT_MS);
    assert_non_null(strstr(one.refused, "not identify itself in time"));
    buf_finish(&b);
}

/* However many come and say nothing, a server gets in at once. */
static void crowd_of_strangers_keeps_nobody_out(void **state)
{
    enum { CROWD = 200 };
    int fds[CROWD];
    node_start(&one);
    for (size_t i = 0; i < CROWD; i++) {
        fds[i] = raw_connect(&one);
        nodes_run(pair, 1, 0, NULL, NULL);
    }
    node_start(&two);
    nodes_introduce(pair, 2);
    assert_true(nodes_run(pair, 2, LIMIT_MS, pair_linked, NULL));
    assert_true(peers_refused(one.peers) >= CROWD - 64);
    assert_true(one.refusals <= 4); /* reported once, then counted */
    for (size_t i = 0; i < CROWD; i++) {
        assert_int_equal(close(fds[i]), 0);
    }
}

static bool crowd_was_heard(void *ctx)
{
    return peers_refused(one.peers) >= *(const uint64_t *)ctx;
}

static bool one_knows_100(void *ctx)
{
    return one.hellos[100] > 0;
}

/* Ids made up by somebody who may connect: no more than a few are kept. */
static void made_up_newcomers_are_bounded(void **state)
{
    enum { CROWD = 70, KEPT = 64 };
    int fds[CROWD];
    node_start(&one);
    for (size_t i = 0; i < CROWD; i++) {
        fds[i] = raw_connect(&one);
        raw_hello(fds[i], 2 + i, i);
        nodes_run(pair, 1, 2, NULL, NULL);
    }
    assert_true(nodes_run(pair, 1, LIMIT_MS, crowd_was_heard, &(uint64_t){CROWD - KEPT}));
    assert_int_equal(one.hellos[2 + KEPT - 1], 1);
    assert_int_equal(one.hellos[2 + KEPT], 0);
    assert_int_equal(peers_refused(one.peers), CROWD - KEPT);
    assert_non_null(strstr(one.refused, "not members"));
    for (size_t i = 0; i < CROWD; i++) {
        assert_int_equal(close(fds[i]), 0);
    }
    nodes_run(pair, 1, 50, NULL, NULL); /* those that are gone make room */
    int fd = raw_connect(&one);
    raw_hello(fd, 100, 1);
    assert_true(nodes_run(pair, 1, LIMIT_MS, one_knows_100, NULL));
    assert_int_equal(one.hellos[100], 1);
    assert_int_equal(close(fd), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define CERT(name) cmocka_unit_test_setup_teardown(name, set_up, drop_certificates)
    const struct CMUnitTest tests[] = {
        CASE(same_secret_links),
        CASE(another_secret_is_refused),
        CASE(old_links_with_old_and_new),
        CASE(old_and_new_links_with_new_and_old),
        CASE(new_and_old_links_with_new),
        CASE(a_step_too_far_is_refused),
        CASE(short_other_secret_is_refused),
        CASE(no_secret_is_refused),
        CASE(short_secret_is_refused),
        CASE(large_and_many_frames_pass_encrypted),
        CERT(certificates_of_one_ca_link),
        CERT(certificate_of_another_ca_is_refused),
        CERT(each_side_trusts_by_itself),
        CERT(certificate_for_nobody_is_refused),
        CERT(certificate_for_another_host_is_refused),
        CERT(wildcard_is_refused),
        CERT(hosts_count_only_when_asked_for),
        CERT(newcomer_must_be_whom_it_names),
        CERT(certificates_are_read_again),
        CASE(stranger_gets_an_alert_at_most),
        CASE(garbage_is_refused),
        CASE(bad_frames_after_a_hello_end_it),
        CASE(slow_strangers_are_let_go),
        CASE(crowd_of_strangers_keeps_nobody_out),
        CASE(made_up_newcomers_are_bounded),
    };
    return cmocka_run_group_tests_name("peer/security", tests, make_certificates,
                                       remove_certificates);
}
