/* The requests of one line: what they return, to whom the memory belongs, and the errors. */
#include "support/fake_zk.h"

#include <conclave/easy.h>

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct fake_zk *zk;
static struct conclave_client *client;

static int begin(void **state)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    zk = fake_zk_start();
    assert_non_null(zk);
    options.servers = fake_zk_address(zk, 0);
    assert_int_equal(conclave_client_open(&options, &client), 0);
    assert_int_equal(conclave_client_start(client), 0);
    return 0;
}

static int end(void **state)
{
    conclave_client_close(client, 1000);
    fake_zk_stop(zk);
    return 0;
}

static void test_a_node_from_creation_to_deletion(void **state)
{
    struct conclave_stat stat;
    char *path = NULL;
    char *data = NULL;
    size_t len = 77;
    assert_int_equal(conclave_create(client, "/a", "one", 3, CONCLAVE_PERSISTENT, &path), 0);
    assert_string_equal(path, "/a");
    free(path);
    assert_int_equal(conclave_get(client, "/a", &data, &len, &stat), 0);
    assert_string_equal(data, "one");
    assert_int_equal(len, 3);
    assert_int_equal(stat.version, 0);
    free(data);
    assert_int_equal(conclave_set(client, "/a", "a\0b", 3, 0, &stat), 0);
    assert_int_equal(stat.version, 1);
    assert_int_equal(conclave_set(client, "/a", "late", 4, 0, &stat), CONCLAVE_BAD_VERSION);
    assert_int_equal(conclave_get(client, "/a", &data, &len, NULL), 0);
    assert_int_equal(len, 3);
    assert_memory_equal(data, "a\0b\0", 4); /* the NUL behind the data does not count */
    free(data);
    assert_int_equal(conclave_exists(client, "/a", &stat), 0);
    assert_int_equal(stat.data_length, 3);
    assert_int_equal(conclave_delete(client, "/a", 0), CONCLAVE_BAD_VERSION);
    assert_int_equal(conclave_delete(client, "/a", 1), 0);
    assert_int_equal(conclave_exists(client, "/a", NULL), CONCLAVE_NO_NODE);
}

static void test_no_data_is_an_empty_string(void **state)
{
    char *data = NULL;
    size_t len = 77;
    assert_int_equal(conclave_create(client, "/none", NULL, 0, CONCLAVE_PERSISTENT, NULL), 0);
    assert_int_equal(conclave_get(client, "/none", &data, &len, NULL), 0);
    assert_string_equal(data, "");
    assert_int_equal(len, 0);
    free(data);
}

static void test_children_are_one_block(void **state)
{
    char **names = NULL;
    size_t count = 77;
    char *path = NULL;
    assert_int_equal(conclave_create(client, "/p", "", 0, CONCLAVE_PERSISTENT, NULL), 0);
    assert_int_equal(conclave_children(client, "/p", &names, &count), 0);
    assert_int_equal(count, 0);
    assert_null(names[0]);
    free(names);
    assert_int_equal(conclave_create(client, "/p/x", "", 0, CONCLAVE_EPHEMERAL, NULL), 0);
    assert_int_equal(conclave_create(client, "/p/n-", "", 0, CONCLAVE_PERSISTENT_SEQUENTIAL, &path),
                     0);
    assert_string_equal(path, "/p/n-0000000001");
    assert_int_equal(conclave_children(client, "/p", &names, &count), 0);
    assert_int_equal(count, 2);
    bool x_first = strcmp(names[0], "x") == 0;
    assert_string_equal(names[x_first ? 0 : 1], "x");
    assert_string_equal(names[x_first ? 1 : 0], path + strlen("/p/"));
    assert_null(names[2]);
    free(names);
    free(path);
}

static void test_nothing_is_returned_with_an_error(void **state)
{
    char byte;
    char *bytes = &byte;
    char **names = &bytes;
    char **const given = names;
    struct conclave_stat stat = {.version = 77};
    size_t len = 77;
    assert_int_equal(conclave_get(client, "/no", &bytes, &len, &stat), CONCLAVE_NO_NODE);
    assert_int_equal(conclave_set(client, "/no", "", 0, -1, &stat), CONCLAVE_NO_NODE);
    assert_int_equal(conclave_exists(client, "/no", &stat), CONCLAVE_NO_NODE);
    assert_int_equal(conclave_children(client, "/no", &names, &len), CONCLAVE_NO_NODE);
    assert_int_equal(conclave_create(client, "/no/x", "", 0, CONCLAVE_PERSISTENT, &bytes),
                     CONCLAVE_NO_NODE);
    assert_int_equal(conclave_get(client, "no", &bytes, NULL, NULL), CONCLAVE_EINVAL);
    assert_ptr_equal(bytes, &byte);
    assert_ptr_equal(names, given);
    assert_int_equal(len, 77);
    assert_int_equal(stat.version, 77);
}

static void test_every_result_may_be_left_out(void **state)
{
    assert_int_equal(conclave_create(client, "/q", "v", 1, CONCLAVE_PERSISTENT, NULL), 0);
    assert_int_equal(conclave_get(client, "/q", NULL, NULL, NULL), 0);
    assert_int_equal(conclave_set(client, "/q", "w", 1, -1, NULL), 0);
    assert_int_equal(conclave_exists(client, "/q", NULL), 0);
    assert_int_equal(conclave_children(client, "/q", NULL, NULL), 0);
}

/* The answer to a request that does not wait. */
struct answer {
    sem_t came;
    int error;
    int32_t version;
    char text[64]; /* data, path or the only child */
};

static void take_answer(struct conclave_client *c, const struct conclave_reply *reply, void *ctx)
{
    struct answer *a = ctx;
    a->error = reply->error;
    a->version = reply->has_stat ? reply->stat.version : -1;
    if (reply->data != NULL) {
        strncat(a->text, reply->data, sizeof a->text - 1); /* text: a NUL follows */
    } else if (reply->path != NULL) {
        strncat(a->text, reply->path, sizeof a->text - 1);
    } else if (reply->children_count > 0) {
        strncat(a->text, reply->children[0], sizeof a->text - 1);
    }
    (void)sem_post(&a->came);
}

/* Waits for the answer to a request that was submitted with this result. */
static void expect_answer(struct answer *a, int submitted, int error, const char *text)
{
    assert_int_equal(submitted, 0);
    assert_int_equal(sem_wait(&a->came), 0);
    assert_int_equal(a->error, error);
    assert_string_equal(a->text, text);
    a->text[0] = '\0';
}

static void test_the_forms_that_do_not_wait(void **state)
{
    struct answer a = {.error = 77};
    assert_int_equal(sem_init(&a.came, 0, 0), 0);
    expect_answer(&a,
                  conclave_create_async(client, "/s", "v", 1, CONCLAVE_PERSISTENT_SEQUENTIAL,
                                        take_answer, &a),
                  0, "/s0000000000");
    expect_answer(
        &a,
        conclave_create_async(client, "/s0000000000/c", "", 0, CONCLAVE_EPHEMERAL, take_answer, &a),
        0, "/s0000000000/c");
    expect_answer(&a, conclave_get_async(client, "/s0000000000", take_answer, &a), 0, "v");
    expect_answer(&a, conclave_set_async(client, "/s0000000000", "w", 1, 0, take_answer, &a), 0,
                  "");
    assert_int_equal(a.version, 1);
    expect_answer(&a, conclave_exists_async(client, "/s0000000000", take_answer, &a), 0, "");
    assert_int_equal(a.version, 1);
    expect_answer(&a, conclave_children_async(client, "/s0000000000", take_answer, &a), 0, "c");
    expect_answer(&a, conclave_delete_async(client, "/s0000000000", 1, take_answer, &a),
                  CONCLAVE_NOT_EMPTY, "");
    expect_answer(&a, conclave_delete_async(client, "/s0000000000/c", -1, take_answer, &a), 0, "");
    assert_int_equal(conclave_get_async(client, "no", take_answer, &a), CONCLAVE_EINVAL);
    (void)sem_destroy(&a.came);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_node_from_creation_to_deletion, begin, end),
        cmocka_unit_test_setup_teardown(test_no_data_is_an_empty_string, begin, end),
        cmocka_unit_test_setup_teardown(test_children_are_one_block, begin, end),
        cmocka_unit_test_setup_teardown(test_nothing_is_returned_with_an_error, begin, end),
        cmocka_unit_test_setup_teardown(test_every_result_may_be_left_out, begin, end),
        cmocka_unit_test_setup_teardown(test_the_forms_that_do_not_wait, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
