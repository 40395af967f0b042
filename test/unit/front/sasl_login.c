/* The sasl operation on a connection, with the library's own client on the other side. */
#include "front/login/sasl_login.h"

#include "cyrus/exchange.h"
#include "cyrus/library.h"
#include "support/service_harness.h"
#include "tree/acl_rules.h"

static struct sasl_options options;
static struct sasl_service *service;
static struct service_harness h;

/* --- the client ------------------------------------------------------------------------------- */

static struct slice body_token(struct slice token)
{
    static struct buf bytes = {.max = 65536};
    static uint8_t room[65536];
    buf_reset(&bytes);
    wire_encode_sasl_request(&bytes, &(struct wire_sasl_request){.token = token});
    memcpy(room, bytes.data, bytes.len);
    size_t len = bytes.len;
    buf_finish(&bytes);
    return slice_make(room, len);
}

/* Sends a request; what it brings is there to be read, unless it waits for the log. */
static int32_t ask(struct guest *g, int32_t type, struct slice body)
{
    int32_t xid = guest_request(g, type, body);
    service_harness_turn(&h);
    return xid;
}

static struct wire_sasl_response guest_answer(struct guest *g, int32_t xid, int32_t err)
{
    struct frame frame = guest_expect(g, xid, err);
    struct wire_reader r = wire_reader_make(frame.body);
    struct wire_sasl_response response;
    assert_int_equal(frame.zxid, 0);
    assert_int_equal(wire_decode_sasl_response(&r, &response), 0);
    assert_int_equal(wire_left(&r), 0);
    return response;
}

/* Both steps; the second is answered err. Returns whether its answer has a token. */
static bool guest_login(struct guest *g, const char *name, const char *word, int32_t err)
{
    struct cyrus_settings *settings = NULL;
    enum cyrus_step step = CYRUS_DONE;
    struct slice token = SLICE_NULL;
    assert_int_equal(cyrus_settings_create(false, name, slice_str(word), NULL, NULL, &settings), 0);
    struct cyrus_exchange *x = cyrus_exchange_create(settings, "127.0.0.1");
    cyrus_settings_unref(settings);
    assert_non_null(x);
    assert_int_equal(cyrus_exchange_step(x, SLICE_NULL, &step, &token), 0);
    int32_t xid = ask(g, WIRE_SASL, body_token(token));
    struct wire_sasl_response challenge = guest_answer(g, xid, 0);
    assert_int_equal(cyrus_exchange_step(x, challenge.token, &step, &token), 0);
    assert_int_equal(step, CYRUS_MORE);
    xid = ask(g, WIRE_SASL, body_token(token));
    struct wire_sasl_response proof = guest_answer(g, xid, err);
    bool proved = !slice_is_null(proof.token);
    if (proved) {
        assert_int_equal(cyrus_exchange_step(x, proof.token, &step, &token), 0);
        assert_int_equal(step, CYRUS_DONE);
    }
    cyrus_exchange_destroy(x);
    return proved;
}

/* --- the server ------------------------------------------------------------------------------- */

static int setup(void **state)
{
    const char *text = NULL;
    options = (struct sasl_options){.mechanism = LOGIN_NONE};
    options.mechanism = LOGIN_DIGEST_MD5;
    if (sasl_options_user(&options, "bob", "geheim") != 0 ||
        sasl_options_user(&options, "boss", "chef") != 0 ||
        sasl_options_super(&options, "boss") != 0 ||
        sasl_service_open(&options, &service, &text) != 0) {
        return -1;
    }
    struct service_options o = service_harness_options();
    o.login = service;
    o.command_options = COMMAND_SASL;
    service_harness_open(&h, o);
    return 0;
}

static int teardown(void **state)
{
    service_harness_finish(&h);
    sasl_service_close(service);
    sasl_options_finish(&options);
    body_finish();
    return 0;
}

static int start_client(void **state)
{
    return cyrus_client_start();
}

static bool has_id(const struct guest *g, const char *scheme, const char *id)
{
    struct wire_vector ids = client_ids_list(&g->c.identity);
    struct wire_id one;
    while (wire_next_id(&ids, &one)) {
        if (slice_equal_str(one.scheme, scheme) && slice_equal_str(one.id, id)) {
            return true;
        }
    }
    return false;
}

static void right_password(void **state)
{
    struct guest g;
    guest_open(&g, &h, 10000);
    assert_true(guest_login(&g, "bob", "geheim", 0));
    assert_true(has_id(&g, "sasl", "bob"));
    assert_false(has_id(&g, "super", ""));
    assert_false(g.closed);
    guest_finish(&g);
}

static void superusers_are_super(void **state)
{
    struct guest g;
    guest_open(&g, &h, 10000);
    assert_true(guest_login(&g, "boss", "chef", 0));
    assert_true(has_id(&g, "sasl", "boss"));
    assert_true(has_id(&g, "super", ""));
    guest_finish(&g);
}

static void expect_refused(const char *name, const char *word, int32_t err)
{
    struct guest g;
    guest_open(&g, &h, 10000);
    uint64_t before = h.service.stats.auth_failed;
    assert_false(guest_login(&g, name, word, err));
    assert_int_equal(h.service.stats.auth_failed, before + 1);
    assert_int_equal(g.c.identity.count, 1); /* the address */
    service_harness_settle(&h);
    assert_int_equal(g.closed, err != 0);
    guest_finish(&g);
}

static void wrong_passwords_end_the_connection(void **state)
{
    expect_refused("bob", "falsch", CONCLAVE_AUTH_FAILED);
    expect_refused("nobody", "geheim", CONCLAVE_AUTH_FAILED);
    expect_refused("bob@zk-sasl-md5", "geheim", CONCLAVE_AUTH_FAILED);
}

static void a_lenient_server_goes_on(void **state)
{
    options.allow_failed = true;
    expect_refused("bob", "falsch", 0);
    h.service.auth_schemes = "digest,sasl";
    expect_refused("bob", "falsch", CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH);
}

static void tokens_out_of_turn(void **state)
{
    struct guest g;
    guest_open(&g, &h, 10000);
    int32_t xid = ask(&g, WIRE_SASL, body_token(slice_str("username=\"bob\"")));
    assert_false(slice_is_null(guest_answer(&g, xid, 0).token)); /* a challenge all the same */
    assert_int_equal(g.c.identity.count, 1);
    guest_finish(&g);

    guest_open(&g, &h, 10000);
    assert_true(guest_login(&g, "bob", "geheim", 0));
    xid = ask(&g, WIRE_SASL, body_token(slice_str("")));
    assert_true(slice_is_null(guest_answer(&g, xid, CONCLAVE_AUTH_FAILED).token));
    guest_finish(&g);

    static const char *const garbage[] = {
        ",", "=", "\"", "nonce", "username=\"", "a=b,,,c", "realm=\"\\", "nc=zz,username=bob"};
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        guest_open(&g, &h, 10000);
        xid = ask(&g, WIRE_SASL, body_token(slice_str("")));
        assert_false(slice_is_null(guest_answer(&g, xid, 0).token));
        xid = ask(&g, WIRE_SASL, body_token(slice_str(garbage[i])));
        assert_true(slice_is_null(guest_answer(&g, xid, CONCLAVE_AUTH_FAILED).token));
        guest_finish(&g);
    }
}

static void malformed_requests_end_it(void **state)
{
    struct guest g;
    guest_open(&g, &h, 10000);
    ask(&g, WIRE_SASL, slice_make("\0\0\0\5ab", 6));
    assert_true(g.closed);
    guest_finish(&g);
    guest_open(&g, &h, 10000);
    ask(&g, WIRE_SASL, body_token(SLICE_NULL));
    assert_true(g.closed);
    guest_finish(&g);
}

static void a_server_without_sasl_has_no_token(void **state)
{
    struct guest g;
    h.service.login = NULL;
    guest_open(&g, &h, 10000);
    int32_t xid = ask(&g, WIRE_SASL, body_token(slice_str("")));
    assert_true(slice_is_null(guest_answer(&g, xid, 0).token));
    assert_int_equal(g.c.identity.count, 1);
    guest_finish(&g);
    h.service.login = service;
}

/* The token's answer comes behind the write before it; the write behind it has the id. */
static void answers_keep_their_turn(void **state)
{
    struct guest g;
    guest_open(&g, &h, 10000);
    int32_t write = ask(&g, WIRE_CREATE, body_create("/first", "", 0));
    int32_t token = ask(&g, WIRE_SASL, body_token(slice_str("")));
    guest_expect_nothing(&g);
    service_harness_settle(&h);
    guest_expect(&g, write, 0);
    assert_false(slice_is_null(guest_answer(&g, token, 0).token));
    guest_finish(&g);
}

static void required_sasl(void **state)
{
    struct guest g;
    h.service.auth_schemes = "sasl";
    guest_open(&g, &h, 10000);
    assert_true(guest_login(&g, "bob", "geheim", 0));
    int32_t xid = ask(&g, WIRE_PING, slice_str(""));
    (void)xid;
    guest_expect(&g, WIRE_XID_PING, 0);
    guest_finish(&g);
    guest_open(&g, &h, 10000);
    xid = ask(&g, WIRE_GET_DATA, body_path_watch("/", false));
    guest_expect(&g, xid, CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH);
    guest_finish(&g);
}

/* An anonymous login counts, but gives no name. */
static void grants_have_no_name(void **state)
{
    struct guest g;
    options.any_user = strdup("any");
    guest_open(&g, &h, 10000);
    assert_true(guest_login(&g, "bob", "geheim", 0));
    assert_true(has_id(&g, ACL_SCHEME_SASL_GRANT, "any"));
    int32_t xid = ask(&g, WIRE_WHO_AM_I, slice_str(""));
    struct frame frame = guest_expect(&g, xid, 0);
    struct wire_reader r = wire_reader_make(frame.body);
    struct wire_who_am_i_response who;
    struct wire_client_info info;
    assert_int_equal(wire_decode_who_am_i_response(&r, &who), 0);
    assert_int_equal(who.client_infos.count, 2);
    assert_true(wire_next_client(&who.client_infos, &info));
    assert_true(slice_equal_str(info.auth_scheme, "ip"));
    assert_true(wire_next_client(&who.client_infos, &info));
    assert_true(slice_equal_str(info.auth_scheme, "sasl"));
    assert_true(slice_equal_str(info.user, "bob"));
    guest_finish(&g);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(right_password),
        TEST(superusers_are_super),
        TEST(wrong_passwords_end_the_connection),
        TEST(a_lenient_server_goes_on),
        TEST(tokens_out_of_turn),
        TEST(malformed_requests_end_it),
        TEST(a_server_without_sasl_has_no_token),
        TEST(answers_keep_their_turn),
        TEST(required_sasl),
        TEST(grants_have_no_name),
    };
    return cmocka_run_group_tests(tests, start_client, NULL);
}
