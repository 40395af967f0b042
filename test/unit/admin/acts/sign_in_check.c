/* Who signs in to the console: a user of SASL by password, a certificate; which schemes are offered; the limit of guesses. */
#include "admin/acts/sign_in_check.h"

#include "support/service_harness.h"

#include <openssl/evp.h>

static struct sasl_options options;
static struct sasl_service *sasl;
static struct service_harness h;
static struct admission admission;

static int set_up(void **state)
{
    const char *text = NULL;
    options = (struct sasl_options){.mechanism = LOGIN_DIGEST_MD5};
    assert_int_equal(sasl_options_user(&options, "bob", "ge:heim"), 0);
    assert_int_equal(sasl_options_user(&options, "boss", "chef"), 0);
    assert_int_equal(sasl_options_super(&options, "boss"), 0);
    assert_int_equal(sasl_service_open(&options, &sasl, &text), 0);
    struct service_options o = service_harness_options();
    o.login = sasl;
    o.x509_super = "CN=root";
    service_harness_open(&h, o);
    admission_init(&admission);
    return 0;
}

static int tear_down(void **state)
{
    admission_finish(&admission);
    service_harness_finish(&h);
    sasl_service_close(sasl);
    sasl_options_finish(&options);
    return 0;
}

/* The header Authorization; static. */
static const char *basic(const char *user_password)
{
    static char text[256];
    int at = snprintf(text, sizeof text, "Basic ");
    EVP_EncodeBlock((uint8_t *)text + at, (const uint8_t *)user_password,
                    (int)strlen(user_password));
    return text;
}

static struct http_request request_of(const char *user_password, const char *subject)
{
    return (struct http_request){.authorization =
                                     user_password != NULL ? basic(user_password) : NULL,
                                 .peer = "10.0.0.1",
                                 .subject = slice_str(subject)};
}

/* Signs in; *c is to be finished. */
static unsigned begin(struct sign_in_check *c, const char *scheme, const char *user_password,
                      const char *subject)
{
    const char *why = NULL;
    struct http_request request = request_of(user_password, subject);
    *c = (struct sign_in_check){0};
    unsigned status = sign_in_check_begin(c, &admission, &h.service, &request, scheme, &why);
    assert_true(status == 0 || (why != NULL && why[0] != '\0'));
    return status;
}

static void refused(const char *scheme, const char *user_password, const char *subject,
                    unsigned status)
{
    struct sign_in_check c;
    assert_int_equal(begin(&c, scheme, user_password, subject), status);
    assert_false(client_ids_has_any(&c.ids, "sasl x509 super"));
    sign_in_check_finish(&c);
}

static bool has(const struct sign_in_check *c, const char *scheme, const char *id)
{
    return client_ids_has(&c->ids, slice_str(scheme), slice_str(id));
}

static void test_users_of_sasl(void **state)
{
    struct sign_in_check c;
    assert_int_equal(begin(&c, "sasl", "bob:ge:heim", ""), 0);
    assert_true(c.checked);
    assert_true(has(&c, "sasl", "bob") && has(&c, "ip", "10.0.0.1"));
    assert_false(client_ids_has_any(&c.ids, "super digest"));
    sign_in_check_finish(&c);
    assert_int_equal(begin(&c, "sasl", "boss:chef", ""), 0);
    assert_true(has(&c, "sasl", "boss") && has(&c, "super", ""));
    sign_in_check_finish(&c);
}

static void test_wrong_passwords(void **state)
{
    refused("sasl", "bob:geheim", "", 401);
    refused("sasl", "bob:ge:hei", "", 401);
    refused("sasl", "bob:", "", 401);
    refused("sasl", "nobody:", "", 401);
    refused("sasl", "nobody:chef", "", 401);
    refused("sasl", "boss:ge:heim", "", 401);
    refused("sasl", NULL, "", 400);
    refused("sasl", ":chef", "", 400);
    refused("kerberos", "bob:ge:heim", "", 400);
}

static void test_certificates(void **state)
{
    struct sign_in_check c;
    refused("x509", "boss:chef", "", 403);
    assert_int_equal(begin(&c, "x509", NULL, "CN=anna"), 0);
    assert_true(c.checked && has(&c, "x509", "CN=anna"));
    assert_false(client_ids_has_any(&c.ids, "super"));
    sign_in_check_finish(&c);
    assert_int_equal(begin(&c, "x509", NULL, "CN=root"), 0);
    assert_true(client_ids_has_any(&c.ids, "super"));
    sign_in_check_finish(&c);
    /* A certificate is not mixed into another identity. */
    assert_int_equal(begin(&c, "sasl", "bob:ge:heim", "CN=anna"), 0);
    assert_false(client_ids_has_any(&c.ids, "x509"));
    sign_in_check_finish(&c);
}

static void test_offers(void **state)
{
    const char *names[SIGN_IN_SCHEMES];
    struct http_request request = request_of(NULL, "");
    assert_int_equal(sign_in_schemes(&h.service, &request, names), 2);
    assert_string_equal(names[0], "digest");
    assert_string_equal(names[1], "sasl");
    request = request_of(NULL, "CN=anna");
    assert_int_equal(sign_in_schemes(&h.service, &request, names), 3);
    h.service.digest.off = true;
    refused(NULL, "bob:x", "", 403);
    assert_int_equal(sign_in_schemes(&h.service, &request, names), 2);
    assert_string_equal(names[0], "sasl");
    assert_string_equal(names[1], "x509");
    options.mechanism = LOGIN_GSSAPI; /* passwords are Kerberos' then */
    refused("sasl", "bob:ge:heim", "", 403);
    options.mechanism = LOGIN_DIGEST_MD5;
    h.service.login = NULL;
    refused("sasl", "bob:ge:heim", "", 403);
}

static void test_only_over_tls(void **state)
{
    struct sign_in_check c;
    h.service.digest.tls_only = true;
    refused("sasl", "bob:ge:heim", "", 403);
    assert_int_equal(begin(&c, "x509", NULL, "CN=anna"), 0);
    sign_in_check_finish(&c);
}

static void test_guesses_are_limited(void **state)
{
    for (int i = 0; i < ADMISSION_FAILURES_MAX; i++) {
        refused("sasl", "bob:guess", "", 401);
        admission_failed(&admission, "10.0.0.1", clock_monotonic_ms(h.service.clock));
    }
    refused("sasl", "bob:ge:heim", "", 429);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_users_of_sasl, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_passwords, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_certificates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_offers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_only_over_tls, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_guesses_are_limited, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
