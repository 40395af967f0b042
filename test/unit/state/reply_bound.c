/*
 * The bound of an answer's length: never less than the answer, and close to it, for every read of a small tree; not
 * told for a long list.
 */
#include "state/query.h"

#include "support/requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { SESSION = 7, SLACK = 24, LONG_LIST = 65 };

struct fixture {
    struct state *s;
    struct effects e;
    struct maker m;
    struct buf body;
};

static void begin(struct fixture *f)
{
    f->s = state_create(&hash_key_fixed);
    assert_non_null(f->s);
    effects_init(&f->e);
    maker_init(&f->m);
    buf_init(&f->body, 0);
    assert_int_equal(
        apply(f->s, &f->e, &f->m, SESSION, WIRE_CREATE_SESSION, make_session(&f->m, SESSION, 4000)),
        0);
}

static void end(struct fixture *f)
{
    buf_finish(&f->body);
    maker_finish(&f->m);
    effects_finish(&f->e);
    state_destroy(f->s);
}

static void add(struct fixture *f, const char *path, const char *data, int32_t mode)
{
    assert_int_equal(
        apply(f->s, &f->e, &f->m, SESSION, WIRE_CREATE, make_create(&f->m, path, data, mode)), 0);
}

/* Of a read: at least as long as the answer, and not much longer. A refused one has none. */
static void check(struct fixture *f, int32_t type, struct slice body, size_t times)
{
    const struct wire_vector nobody = {0};
    struct state_watch watch;
    struct buf out;
    buf_init(&out, 0);
    int rc = type == WIRE_GET_EPHEMERALS ? state_ephemerals(f->s, SESSION, body, &out)
                                         : state_query(f->s, type, nobody, body, &out, &watch);
    size_t bound = state_reply_bound(f->s, SESSION, type, body);
    assert_true(rc != 0 || bound >= out.len);
    assert_true(rc != 0 || bound <= times * out.len + SLACK);
    buf_finish(&out);
}

static const int32_t kinds[] = {WIRE_EXISTS,        WIRE_GET_DATA, WIRE_GET_CHILDREN,
                                WIRE_GET_CHILDREN2, WIRE_GET_ACL,  WIRE_GET_ALL_CHILDREN_NUMBER,
                                WIRE_SYNC};

static void check_path(struct fixture *f, const char *path)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        check(f, kinds[i], make_read(&f->m, path, true), kinds[i] == WIRE_GET_CHILDREN ? 12 : 1);
    }
}

static struct slice multi_read(struct fixture *f, const char *const *paths, size_t count)
{
    buf_reset(&f->body);
    for (size_t i = 0; i < count; i++) {
        int32_t type = i % 2 == 0 ? WIRE_GET_DATA : WIRE_GET_CHILDREN;
        wire_encode_multi_header(&f->body, &(struct wire_multi_header){type, false, -1});
        buf_append_slice(&f->body, make_read(&f->m, paths[i], false));
    }
    wire_encode_multi_header(&f->body, &(struct wire_multi_header){-1, true, -1});
    return buf_slice(&f->body);
}

static void test_no_answer_is_longer(void **state)
{
    static const char *const paths[] = {"/", "/a", "/a/b", "/none", "/a/e", "bad", ""};
    struct fixture f;
    begin(&f);
    maker_acl_reset(&f.m);
    maker_acl_add(&f.m, 31, "ip", "10.0.0.0/8");
    maker_acl_add(&f.m, 31, "world", "anyone");
    add(&f, "/a", "0123456789", 0);
    add(&f, "/a/b", "", 0);
    add(&f, "/a/e", "x", 1);
    add(&f, "/a/an-ephemeral-node-with-a-name", "x", 1);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        check_path(&f, paths[i]);
        check(&f, WIRE_MULTI_READ, multi_read(&f, paths, i), 4);
    }
    check(&f, WIRE_GET_EPHEMERALS, make_read(&f.m, "/", false), 3);
    assert_int_equal(state_reply_bound(f.s, SESSION, WIRE_PING, slice_str("")), 0);
    assert_int_equal(state_reply_bound(f.s, SESSION, WIRE_GET_DATA, slice_str("xy")), 0);
    end(&f);
}

static void test_a_long_list_is_not_walked(void **state)
{
    static const char *const parts[] = {"/w", "/w"};
    const char *many[LONG_LIST];
    struct fixture f;
    begin(&f);
    add(&f, "/w", "", 0);
    for (int i = 0; i < LONG_LIST; i++) {
        char path[32];
        snprintf(path, sizeof path, "/w/%d", i);
        check_path(&f, "/w");
        add(&f, path, "", 0);
        many[i] = "/w/0";
    }
    struct slice read = make_read(&f.m, "/w", false);
    assert_true(state_reply_bound(f.s, SESSION, WIRE_GET_CHILDREN, read) == STATE_REPLY_LONG);
    assert_true(state_reply_bound(f.s, SESSION, WIRE_GET_CHILDREN2, read) == STATE_REPLY_LONG);
    assert_int_equal(state_reply_bound(f.s, SESSION, WIRE_EXISTS, read), 68);
    assert_true(state_reply_bound(f.s, SESSION, WIRE_MULTI_READ, multi_read(&f, parts, 2)) ==
                STATE_REPLY_LONG);
    assert_true(state_reply_bound(f.s, SESSION, WIRE_MULTI_READ, multi_read(&f, many, LONG_LIST)) ==
                STATE_REPLY_LONG);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_answer_is_longer),
        cmocka_unit_test(test_a_long_list_is_not_walked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
