/* Requests that would cost too much are refused before the log, with ZooKeeper's codes, and counted; answers that are too
 * large, too. */
#include "support/requests.h"
#include "support/service_harness.h"

enum { TIMEOUT_MS = 10000 };

struct fixture {
    struct service_harness h;
    struct guest g;
    struct maker m;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct client_limits limits = client_limits_default();
    assert_non_null(f);
    limits.command.parts = 4;
    limits.command.path_bytes = 40;
    limits.command.path_depth = 4;
    limits.command.acl.entries = 3;
    limits.command.ids = 4;
    limits.reply_max = 1000;
    service_harness_init(&f->h, &limits);
    guest_open(&f->g, &f->h, TIMEOUT_MS);
    maker_init(&f->m);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    guest_finish(&f->g);
    service_harness_finish(&f->h);
    maker_finish(&f->m);
    body_finish();
    free(f);
    return 0;
}

static void expect(struct fixture *f, int32_t type, struct slice body, int32_t err)
{
    int32_t xid = guest_request(&f->g, type, body);
    service_harness_settle(&f->h);
    guest_expect(&f->g, xid, err);
}

/* Refused at once: the log has nothing of it. */
static void expect_refused(struct fixture *f, int32_t type, struct slice body, int32_t err)
{
    size_t logged = f->h.log_total;
    uint64_t counted = f->h.service.metrics->conclave_requests_oversized_total;
    expect(f, type, body, err);
    assert_int_equal(f->h.log_total, logged);
    assert_int_equal(f->h.service.metrics->conclave_requests_oversized_total, counted + 1);
}

static void what_costs_too_much_never_reaches_the_log(void **state)
{
    struct fixture *f = *state;
    expect(f, WIRE_CREATE, make_create(&f->m, "/a", "", 0), 0);
    expect_refused(f, WIRE_CREATE,
                   make_create(&f->m, "/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u", "", 0),
                   CONCLAVE_BAD_ARGUMENTS);
    expect_refused(f, WIRE_CREATE, make_create(&f->m, "/a/b/c/d/e", "", 0), CONCLAVE_BAD_ARGUMENTS);
    make_multi_begin(&f->m);
    for (int i = 0; i < 5; i++) {
        make_multi_check(&f->m, "/a", -1);
    }
    expect_refused(f, WIRE_MULTI, make_multi_end(&f->m), CONCLAVE_BAD_ARGUMENTS);
    for (int i = 0; i < 4; i++) {
        maker_acl_add(&f->m, i, "world", "anyone");
    }
    expect_refused(f, WIRE_SET_ACL, make_set_acl(&f->m, "/a", -1), CONCLAVE_INVALID_ACL);
    expect_refused(f, WIRE_CREATE2, make_create(&f->m, "/b", "", 0), CONCLAVE_INVALID_ACL);
    expect(f, WIRE_EXISTS, make_read(&f->m, "/b", false), CONCLAVE_NO_NODE);
}

static struct slice reads(struct fixture *f, int count, const char *path)
{
    buf_reset(&f->m.body);
    for (int i = 0; i < count; i++) {
        wire_encode_multi_header(&f->m.body, &(struct wire_multi_header){WIRE_GET_DATA, false, -1});
        wire_write_string(&f->m.body, slice_str(path));
        wire_write_boolean(&f->m.body, false);
    }
    wire_encode_multi_header(&f->m.body, &(struct wire_multi_header){-1, true, -1});
    return buf_slice(&f->m.body);
}

static void a_multi_read_is_bounded_in_parts_and_bytes(void **state)
{
    struct fixture *f = *state;
    char data[401];
    memset(data, 'd', 400);
    data[400] = '\0';
    expect(f, WIRE_CREATE, make_create(&f->m, "/a", data, 0), 0);
    expect(f, WIRE_MULTI_READ, reads(f, 2, "/a"), 0);
    expect(f, WIRE_MULTI_READ, reads(f, 3, "/a"), CONCLAVE_SYSTEM_ERROR);
    assert_int_equal(f->h.service.metrics->conclave_replies_oversized_total, 1);
    expect_refused(f, WIRE_MULTI_READ, reads(f, 5, "/missing"), CONCLAVE_BAD_ARGUMENTS);
}

static void lists_of_names_and_paths_are_bounded(void **state)
{
    struct fixture *f = *state;
    char path[48];
    for (int i = 0; i < 40; i++) {
        snprintf(path, sizeof path, "/ephemeral-of-thirty-char-%03d", i);
        expect(f, WIRE_CREATE, make_create(&f->m, path, "", WIRE_MODE_EPHEMERAL), 0);
    }
    expect(f, WIRE_GET_CHILDREN, make_read(&f->m, "/", true), CONCLAVE_SYSTEM_ERROR);
    assert_int_equal(f->g.c.watcher.count, 0); /* nor does it leave a watch */
    expect(f, WIRE_GET_CHILDREN2, make_read(&f->m, "/", false), CONCLAVE_SYSTEM_ERROR);
    expect(f, WIRE_GET_EPHEMERALS, make_read(&f->m, "/", false), CONCLAVE_SYSTEM_ERROR);
    assert_int_equal(f->h.service.metrics->conclave_replies_oversized_total, 3);
    expect(f, WIRE_GET_DATA, make_read(&f->m, "/", false), 0);
}

/* kazoo takes an answer of any length, and a client has to list the children before it can delete them. */
static void the_names_of_100000_children_are_no_large_answer(void **state)
{
    struct client_limits limits = client_limits_default();
    enum { CHILDREN = 100000, NAME_BYTES = 4 + 100, EVENTS_BYTES = 1 << 20 };
    assert_true(client_limits_reply(&limits) >= CHILDREN * NAME_BYTES);
    assert_true(client_limits_reply(&limits) + EVENTS_BYTES <= limits.output_max);
    limits.frame_max = 16 << 20;
    assert_int_equal(client_limits_reply(&limits), 64 << 20);
}

static void ids_are_bounded_by_number(void **state)
{
    struct fixture *f = *state;
    for (int i = 0; i < 4; i++) {
        char user[16];
        snprintf(user, sizeof user, "u%d:p", i);
        int32_t xid = guest_request_xid(&f->g, WIRE_XID_AUTH, WIRE_AUTH, body_auth("digest", user));
        service_harness_settle(&f->h);
        guest_expect(&f->g, xid, i < 3 ? 0 : CONCLAVE_AUTH_FAILED); /* the address is one */
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_costs_too_much_never_reaches_the_log),
        TEST(a_multi_read_is_bounded_in_parts_and_bytes),
        TEST(lists_of_names_and_paths_are_bounded),
        TEST(ids_are_bounded_by_number),
        cmocka_unit_test(the_names_of_100000_children_are_no_large_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
