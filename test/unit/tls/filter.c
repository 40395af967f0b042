/* Two ends of TLS in memory: every way of cutting the bytes, every refusal as both sides see it,
 * rubbish and changed bytes. */
#include "tls/tls.h"

#include "support/certificates.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct certificate ca;
static struct certificate server_cert;
static struct certificate client_cert;
static struct certificate expired_cert;
static struct certificate stranger_cert; /* signed by itself */
static struct certificate nameless_cert;
static struct certificate middle_cert; /* a CA below ca */
static struct certificate below_cert;  /* of middle_cert */

struct end {
    struct tls *tls;
    struct buf got; /* stream bytes */
    int rc;         /* of the last tls_read */
};

struct pair {
    struct end client;
    struct end server;
};

static void write_pair(const struct certificate *c, const char *name)
{
    char file[64];
    snprintf(file, sizeof file, "%s.pem", name);
    certificate_write_cert(c, file, false);
    certificate_write_key(c, file, true, NULL);
}

static int setup(void **state)
{
    certificate_make(&ca, NULL, "CA", NULL, 30, true);
    certificate_make(&server_cert, &ca, "server", "DNS:zk.example.org,IP:127.0.0.1,IP:::1", 30,
                     false);
    certificate_make(&client_cert, &ca, "client, the \"first\"", NULL, 30, false);
    certificate_make(&expired_cert, &ca, "expired", "DNS:zk.example.org", -1, false);
    certificate_make(&stranger_cert, NULL, "stranger", "DNS:zk.example.org", 30, false);
    certificate_make(&nameless_cert, &ca, "", NULL, 30, false);
    certificate_make(&middle_cert, &ca, "middle", NULL, 30, true);
    certificate_make(&below_cert, &middle_cert, "below", NULL, 30, false);
    certificate_write_cert(&below_cert, "below.pem", false);
    certificate_write_cert(&middle_cert, "below.pem", true);
    certificate_write_key(&below_cert, "below.pem", true, NULL);
    certificate_write_crl(&ca, &middle_cert, "middle.crl");
    certificate_write_crl(&middle_cert, NULL, "below.crl");
    certificate_write_cert(&ca, "ca.pem", false);
    write_pair(&server_cert, "server");
    write_pair(&client_cert, "client");
    write_pair(&expired_cert, "expired");
    write_pair(&stranger_cert, "stranger");
    write_pair(&nameless_cert, "nameless");
    certificate_write_crl(&ca, &client_cert, "revoked.crl");
    return 0;
}

static int teardown(void **state)
{
    struct certificate *all[] = {&ca,           &server_cert,   &client_cert,
                                 &expired_cert, &stranger_cert, &nameless_cert,
                                 &middle_cert,  &below_cert};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        certificate_finish(all[i]);
    }
    certificate_folder_remove();
    return 0;
}

static struct tls_context *context(bool server, const char *cert, enum tls_peer peer,
                                   int version_max)
{
    char why[TLS_TEXT_MAX];
    struct tls_context *c = NULL;
    struct tls_settings s = {
        .server = server,
        .peer = peer,
        .cert_file = cert != NULL ? certificate_path(cert) : NULL,
        .trust_file = certificate_path("ca.pem"),
        .version_max = version_max,
    };
    if (tls_context_create(&s, &c, why) != 0) {
        fail_msg("%s", why);
    }
    return c;
}

static void pair_init(struct pair *p, struct tls_context *client, struct tls_context *server,
                      const char *host)
{
    memset(p, 0, sizeof *p);
    p->client.tls = tls_create(client, host, true);
    p->server.tls = tls_create(server, NULL, false);
    assert_non_null(p->client.tls);
    assert_non_null(p->server.tls);
    buf_init(&p->client.got, 0);
    buf_init(&p->server.got, 0);
    tls_context_release(client);
    tls_context_release(server);
}

static void pair_finish(struct pair *p)
{
    tls_destroy(p->client.tls);
    tls_destroy(p->server.tls);
    buf_finish(&p->client.got);
    buf_finish(&p->server.got);
}

/* Hands bytes to one end, with `room` for each read. */
static void feed(struct end *e, struct slice bytes, size_t room)
{
    uint8_t block[4096];
    size_t len = 1;
    while (e->rc == 0 && len > 0) {
        e->rc = tls_read(e->tls, &bytes, block, room < sizeof block ? room : sizeof block, &len);
        buf_append(&e->got, block, len);
    }
    if (e->rc == 0) {
        assert_int_equal(bytes.len, 0);
    }
}

/* Moves what one end has said to the other, at most `chunk` bytes. False when there was nothing. */
static bool move(struct end *from, struct end *to, size_t chunk, size_t room)
{
    struct buf *out = tls_out(from->tls);
    size_t len = out->len < chunk ? out->len : chunk;
    if (len == 0) {
        return false;
    }
    feed(to, slice_make(out->data, len), room);
    buf_consume(out, len);
    return true;
}

static void pair_run(struct pair *p, size_t chunk, size_t room)
{
    bool moved = true;
    while (moved) {
        moved = move(&p->client, &p->server, chunk, room);
        moved = move(&p->server, &p->client, chunk, room) || moved;
    }
}

static void check_talk(struct pair *p, size_t chunk, size_t room)
{
    static uint8_t bytes[70000];
    static const size_t sizes[] = {0, 1, 2, 100, 16383, 16384, 16385, 70000};
    assert_true(tls_ready(p->client.tls));
    assert_true(tls_ready(p->server.tls));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] > 100 && chunk < 100) {
            break;
        }
        memset(bytes, (int)i + 'a', sizes[i]);
        buf_reset(&p->server.got);
        buf_reset(&p->client.got);
        assert_int_equal(tls_write(p->client.tls, slice_make(bytes, sizes[i])), 0);
        assert_int_equal(tls_write(p->server.tls, slice_make(bytes, sizes[i])), 0);
        pair_run(p, chunk, room);
        assert_true(slice_equal(buf_slice(&p->server.got), slice_make(bytes, sizes[i])));
        assert_true(slice_equal(buf_slice(&p->client.got), slice_make(bytes, sizes[i])));
    }
    tls_end(p->client.tls);
    pair_run(p, chunk, room);
    assert_int_equal(p->server.rc, CONCLAVE_ECLOSED);
    assert_string_equal(tls_problem(p->server.tls), "");
}

static void test_chunks(void **state)
{
    static const size_t chunks[] = {1, 2, 5, 100, 16384, 1 << 20};
    static const size_t rooms[] = {7, 4096};
    for (int version = TLS_1_2; version <= TLS_1_3; version++) {
        for (size_t i = 0; i < sizeof chunks / sizeof chunks[0]; i++) {
            for (size_t j = 0; j < sizeof rooms / sizeof rooms[0]; j++) {
                struct pair p;
                pair_init(&p, context(false, "client.pem", TLS_PEER_NEED, version),
                          context(true, "server.pem", TLS_PEER_NEED, version), "zk.example.org");
                pair_run(&p, chunks[i], rooms[j]);
                check_talk(&p, chunks[i], rooms[j]);
                pair_finish(&p);
            }
        }
    }
}

/* The first flight in two pieces, cut at every place. */
static void test_every_boundary(void **state)
{
    size_t at = 0;
    size_t hello = 1;
    for (at = 0; at <= hello; at++) {
        struct pair p;
        pair_init(&p, context(false, "client.pem", TLS_PEER_NEED, 0),
                  context(true, "server.pem", TLS_PEER_NEED, 0), "127.0.0.1");
        hello = tls_out(p.client.tls)->len;
        assert_int_equal(tls_out(p.client.tls)->data[0], TLS_HELLO);
        move(&p.client, &p.server, at, 4096);
        if (at < hello) {
            assert_int_equal(tls_out(p.server.tls)->len, 0);
        }
        pair_run(&p, 1 << 20, 4096);
        assert_true(tls_ready(p.client.tls) && tls_ready(p.server.tls));
        pair_finish(&p);
    }
    assert_true(hello > 100);
}

static void test_subject(void **state)
{
    static const struct {
        const char *cert;
        enum tls_peer peer;
        const char *subject;
    } cases[] = {
        {"client.pem", TLS_PEER_NEED, "CN=client\\, the \\\"first\\\""},
        {"client.pem", TLS_PEER_WANT, "CN=client\\, the \\\"first\\\""},
        {"client.pem", TLS_PEER_NONE, ""},
        {"nameless.pem", TLS_PEER_NEED, ""},
        {NULL, TLS_PEER_WANT, ""},
        {NULL, TLS_PEER_NONE, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pair p;
        struct buf subject;
        buf_init(&subject, 0);
        pair_init(&p, context(false, cases[i].cert, TLS_PEER_NEED, 0),
                  context(true, "server.pem", cases[i].peer, 0), "::1");
        tls_peer_subject(p.server.tls, &subject);
        assert_int_equal(subject.len, 0);
        pair_run(&p, 1 << 20, 4096);
        assert_true(tls_ready(p.server.tls));
        tls_peer_subject(p.server.tls, &subject);
        assert_string_equal(buf_cstr(&subject), cases[i].subject);
        check_talk(&p, 1 << 20, 4096);
        buf_finish(&subject);
        pair_finish(&p);
    }
}

static void check_problem(const struct end *e, const char *wanted)
{
    if (strstr(tls_problem(e->tls), wanted) == NULL) {
        fail_msg("'%s' does not say '%s'", tls_problem(e->tls), wanted);
    }
    assert_null(strchr(tls_problem(e->tls), '"'));
}

/* Nobody gets a stream byte; both can say why. */
static void test_refusals(void **state)
{
    static const struct {
        const char *client;
        const char *server;
        const char *host;
        const char *at_client;
        const char *at_server;
    } cases[] = {
        {NULL, "server.pem", "zk.example.org",
         "refused by the server: ", "the client sent no certificate"},
        {"expired.pem", "server.pem", "zk.example.org",
         "refused by the server: certificate expired",
         "the client's certificate 'CN=expired': certificate has expired"},
        {"stranger.pem", "server.pem", "zk.example.org", "refused by the server: unknown CA",
         "the client's certificate 'CN=stranger': self-signed certificate"},
        {"client.pem", "expired.pem", "zk.example.org",
         "the server's certificate 'CN=expired': certificate has expired",
         "refused by the client: certificate expired"},
        {"client.pem", "stranger.pem", "zk.example.org",
         "the server's certificate 'CN=stranger': self-signed certificate",
         "refused by the client: unknown CA"},
        {"client.pem", "server.pem", "other.example.org",
         "the server's certificate 'CN=server': it is not for other.example.org",
         "refused by the client: "},
        {"client.pem", "server.pem", "127.0.0.2",
         "the server's certificate 'CN=server': it is not for 127.0.0.2",
         "refused by the client: "},
        {"client.pem", "client.pem", "client", "it is not for client", "refused by the client: "},
    };
    for (int version = TLS_1_2; version <= TLS_1_3; version++) {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            struct pair p;
            pair_init(&p, context(false, cases[i].client, TLS_PEER_NEED, version),
                      context(true, cases[i].server, TLS_PEER_NEED, version), cases[i].host);
            pair_run(&p, 1 << 20, 4096);
            assert_int_equal(p.client.rc, CONCLAVE_ETLS);
            assert_int_equal(p.server.rc, CONCLAVE_ETLS);
            assert_false(tls_ready(p.server.tls));
            check_problem(&p.client, cases[i].at_client);
            check_problem(&p.server, cases[i].at_server);
            /* Final: nothing more is taken. */
            struct slice more = slice_str("more");
            size_t len = 1;
            uint8_t block[16];
            assert_int_equal(tls_read(p.server.tls, &more, block, sizeof block, &len),
                             CONCLAVE_ETLS);
            assert_int_equal(len, 0);
            tls_end(p.server.tls);
            pair_finish(&p);
        }
    }
}

static void test_revoked(void **state)
{
    char why[TLS_TEXT_MAX];
    struct tls_context *server = NULL;
    struct tls_settings s = {
        .server = true,
        .peer = TLS_PEER_NEED,
        .cert_file = certificate_path("server.pem"),
        .trust_file = certificate_path("ca.pem"),
        .crl_file = certificate_path("revoked.crl"),
    };
    static const char *const clients[] = {"client.pem", "nameless.pem"};
    for (size_t i = 0; i < 2; i++) {
        struct pair p;
        assert_int_equal(tls_context_create(&s, &server, why), 0);
        pair_init(&p, context(false, clients[i], TLS_PEER_NEED, 0), server, "127.0.0.1");
        pair_run(&p, 1 << 20, 4096);
        assert_int_equal(tls_ready(p.server.tls), i == 1);
        if (i == 0) {
            check_problem(&p.server, "certificate revoked");
            check_problem(&p.client, "refused by the server: certificate revoked");
        }
        pair_finish(&p);
    }
}

/* The CA in between is revoked: that counts if all certificates of the chain are checked. */
static void test_revoked_above(void **state)
{
    char why[TLS_TEXT_MAX];
    char lists[1024];
    snprintf(lists, sizeof lists, "cat %s %s > %s/both.crl", certificate_path("middle.crl"),
             certificate_path("below.crl"), certificate_folder());
    assert_int_equal(system(lists), 0);
    for (int all = 0; all < 2; all++) {
        struct pair p;
        struct tls_context *server = NULL;
        struct tls_settings s = {
            .server = true,
            .peer = TLS_PEER_NEED,
            .cert_file = certificate_path("server.pem"),
            .trust_file = certificate_path("ca.pem"),
            .crl_file = certificate_path("both.crl"),
            .crl_check_all = all == 1,
        };
        assert_int_equal(tls_context_create(&s, &server, why), 0);
        pair_init(&p, context(false, "below.pem", TLS_PEER_NEED, 0), server, "127.0.0.1");
        pair_run(&p, 1 << 20, 4096);
        assert_int_equal(tls_ready(p.server.tls), all == 0);
        if (all == 1) {
            check_problem(&p.server, "certificate revoked");
        }
        pair_finish(&p);
    }
}

static void test_versions_apart(void **state)
{
    char why[TLS_TEXT_MAX];
    struct tls_context *server = NULL;
    struct tls_settings s = {
        .server = true, .cert_file = certificate_path("server.pem"), .version_min = TLS_1_3};
    struct pair p;
    assert_int_equal(tls_context_create(&s, &server, why), 0);
    pair_init(&p, context(false, NULL, TLS_PEER_NEED, TLS_1_2), server, "127.0.0.1");
    pair_run(&p, 1 << 20, 4096);
    check_problem(&p.server, "unsupported protocol");
    check_problem(&p.client, "refused by the server: protocol version");
    pair_finish(&p);
}

static void test_rubbish(void **state)
{
    static const char *const texts[] = {
        "GET / HTTP/1.1\r\n\r\n",       "ruok", "\x16\x03\x01\x00\x05hello", "\x16\x03\x01\xff\xff",
        "\x15\x03\x01\x00\x02\x02\x28",
    };
    struct tls_context *c = context(true, "server.pem", TLS_PEER_NEED, 0);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct end e = {.tls = tls_create(c, NULL, false)};
        buf_init(&e.got, 0);
        feed(&e, slice_str(texts[i]), 4096);
        assert_int_equal(e.got.len, 0);
        assert_false(tls_ready(e.tls));
        assert_int_equal(e.rc != 0, tls_problem(e.tls)[0] != '\0');
        tls_destroy(e.tls);
    }
    srand(1);
    for (int i = 0; i < 2000; i++) {
        uint8_t bytes[300];
        struct end e = {.tls = tls_create(c, NULL, false)};
        buf_init(&e.got, 0);
        for (size_t j = 0; j < sizeof bytes; j++) {
            bytes[j] = (uint8_t)(rand() >> 7);
        }
        if (i % 2 == 0) {
            memcpy(bytes, "\x16\x03\x01\x01\x00\x01\x00\x00\xfc\x03\x03", 11);
        }
        feed(&e, slice_make(bytes, sizeof bytes), 4096);
        assert_int_equal(e.got.len, 0);
        assert_false(tls_ready(e.tls));
        assert_true(tls_out(e.tls)->len <= TLS_OUT_MAX);
        tls_destroy(e.tls);
    }
    tls_context_release(c);
}

/* One byte changed, at many places of the client's bytes: never a byte that was not sent. */
static void test_changed_byte(void **state)
{
    for (size_t at = 0; at < 1200; at += 3) {
        struct pair p;
        size_t seen = 0;
        pair_init(&p, context(false, "client.pem", TLS_PEER_NEED, 0),
                  context(true, "server.pem", TLS_PEER_NEED, 0), "127.0.0.1");
        for (int turn = 0; turn < 6; turn++) {
            struct buf *out = tls_out(p.client.tls);
            if (at >= seen && at < seen + out->len) {
                out->data[at - seen] ^= 0x41;
            }
            seen += out->len;
            move(&p.client, &p.server, 1 << 20, 4096);
            move(&p.server, &p.client, 1 << 20, 4096);
            if (turn == 2 && p.client.rc == 0 && tls_ready(p.client.tls)) {
                assert_int_equal(tls_write(p.client.tls, slice_str("request")), 0);
            }
        }
        if (p.server.got.len > 0) {
            assert_true(slice_equal_str(buf_slice(&p.server.got), "request"));
            assert_true(tls_ready(p.server.tls));
        }
        pair_finish(&p);
    }
}

/* A peer that makes the other end answer and never takes the answers. */
static void test_out_bound(void **state)
{
    struct pair p;
    pair_init(&p, context(false, "client.pem", TLS_PEER_NEED, 0),
              context(true, "server.pem", TLS_PEER_NEED, 0), "127.0.0.1");
    pair_run(&p, 1 << 20, 4096);
    struct buf big;
    buf_init(&big, 0);
    assert_int_equal(buf_reserve(&big, TLS_OUT_MAX), 0);
    memset(big.data, 0, TLS_OUT_MAX);
    big.len = TLS_OUT_MAX;
    assert_int_equal(tls_write(p.server.tls, buf_slice(&big)), 0);
    assert_int_equal(tls_write(p.client.tls, slice_str("x")), 0);
    move(&p.client, &p.server, 1 << 20, 4096);
    assert_int_equal(p.server.rc, CONCLAVE_ETLS);
    check_problem(&p.server, "sends but does not read");
    buf_finish(&big);
    pair_finish(&p);
}

/* Rubbish after the handshake ends the connection: a later write fails, although OpenSSL is no longer ready. */
static void test_write_after_rubbish(void **state)
{
    static const uint8_t rubbish[] = {23, 3, 3, 0, 32, [36] = 1};
    for (int version = TLS_1_2; version <= TLS_1_3; version++) {
        struct pair p;
        pair_init(&p, context(false, "client.pem", TLS_PEER_NEED, version),
                  context(true, "server.pem", TLS_PEER_NEED, version), "127.0.0.1");
        pair_run(&p, 1 << 20, 4096);
        feed(&p.client, slice_make(rubbish, sizeof rubbish), 4096);
        feed(&p.server, slice_make(rubbish, sizeof rubbish), 4096);
        assert_int_equal(p.client.rc, CONCLAVE_ETLS);
        assert_int_equal(p.server.rc, CONCLAVE_ETLS);
        assert_int_equal(tls_write(p.client.tls, slice_str("x")), CONCLAVE_ETLS);
        assert_int_equal(tls_write(p.server.tls, slice_str("x")), CONCLAVE_ETLS);
        pair_finish(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks),
        cmocka_unit_test(test_every_boundary),
        cmocka_unit_test(test_subject),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_revoked),
        cmocka_unit_test(test_versions_apart),
        cmocka_unit_test(test_revoked_above),
        cmocka_unit_test(test_rubbish),
        cmocka_unit_test(test_changed_byte),
        cmocka_unit_test(test_out_bound),
        cmocka_unit_test(test_write_after_rubbish),
    };
    return cmocka_run_group_tests_name("tls/filter", tests, setup, teardown);
}
