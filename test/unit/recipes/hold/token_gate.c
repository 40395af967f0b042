/* A resource's memory of the tokens that it saw. */
#include <conclave/fencing.h>

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static int admit(struct conclave_token_gate *gate, int64_t token)
{
    return conclave_token_gate_admit(gate, "e1", (struct conclave_token){token}, NULL);
}

static void old_tokens_are_refused(void **state)
{
    struct conclave_token_gate gate = {{0}, 0};
    bool changed = false;
    assert_int_equal(conclave_token_gate_admit(&gate, "e1", (struct conclave_token){7}, &changed),
                     0);
    assert_true(changed);
    assert_int_equal(conclave_token_gate_admit(&gate, "e1", (struct conclave_token){7}, &changed),
                     0);
    assert_false(changed); /* the same holder: nothing to store */
    assert_int_equal(admit(&gate, 9), 0);
    assert_int_equal(admit(&gate, 8), CONCLAVE_EFENCED);
    assert_int_equal(admit(&gate, 7), CONCLAVE_EFENCED);
    assert_int_equal(admit(&gate, 9), 0);
    assert_int_equal(admit(&gate, INT64_MAX), 0);
    assert_int_equal(gate.newest, INT64_MAX);
}

/* Tokens of another ensemble may be larger and mean nothing. */
static void another_ensembles_are_refused_whatever_they_are(void **state)
{
    struct conclave_token_gate gate = {{0}, 0};
    assert_int_equal(admit(&gate, 7), 0);
    assert_int_equal(conclave_token_gate_admit(&gate, "e2", (struct conclave_token){9}, NULL),
                     CONCLAVE_ECONFLICT);
    assert_int_equal(conclave_token_gate_admit(&gate, "", (struct conclave_token){9}, NULL),
                     CONCLAVE_ECONFLICT);
    assert_int_equal(gate.newest, 7);
    assert_string_equal(gate.ensemble, "e1");
}

static void what_is_no_token_changes_nothing(void **state)
{
    struct conclave_token_gate gate = {{0}, 0};
    char longest[CONCLAVE_ENSEMBLE_MAX + 1];
    memset(longest, 'e', sizeof longest - 1);
    longest[CONCLAVE_ENSEMBLE_MAX] = '\0';
    assert_int_equal(admit(&gate, 0), CONCLAVE_EINVAL);
    assert_int_equal(admit(&gate, -1), CONCLAVE_EINVAL);
    assert_int_equal(conclave_token_gate_admit(&gate, NULL, (struct conclave_token){1}, NULL),
                     CONCLAVE_EINVAL);
    assert_int_equal(conclave_token_gate_admit(&gate, "a b", (struct conclave_token){1}, NULL),
                     CONCLAVE_EINVAL);
    assert_int_equal(conclave_token_gate_admit(&gate, "a\n", (struct conclave_token){1}, NULL),
                     CONCLAVE_EINVAL);
    assert_int_equal(conclave_token_gate_admit(&gate, longest, (struct conclave_token){1}, NULL),
                     CONCLAVE_EINVAL);
    assert_int_equal(gate.newest, 0);
    longest[CONCLAVE_ENSEMBLE_MAX - 1] = '\0';
    assert_int_equal(conclave_token_gate_admit(&gate, longest, (struct conclave_token){1}, NULL),
                     0);
    assert_string_equal(gate.ensemble, longest);
}

static void it_comes_back_from_its_text(void **state)
{
    static const struct conclave_token_gate rows[] = {
        {"", 0},
        {"", 5},
        {"5813335e35fb32bf03c6f533ffb87fa8", INT64_MAX},
        {"eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct conclave_token_gate gate;
        char text[CONCLAVE_TOKEN_GATE_TEXT_MAX];
        conclave_token_gate_print(&rows[i], text);
        assert_int_equal(conclave_token_gate_parse(text, strlen(text), &gate), 0);
        assert_int_equal(gate.newest, rows[i].newest);
        assert_string_equal(gate.ensemble, rows[i].ensemble);
        for (size_t len = 0; len < strlen(text); len++) { /* torn anywhere */
            assert_int_equal(conclave_token_gate_parse(text, len, &gate), CONCLAVE_ECORRUPT);
        }
    }
}

static void what_is_no_text_of_a_gate(void **state)
{
    static const char *const rows[] = {
        "",
        "conclave-token-gate 1 5 e",
        "conclave-token-gate 1 5 e\n\n",
        "conclave-token-gate 1 5 e \n",
        "conclave-token-gate 1 05 e\n",
        "conclave-token-gate 1 -5 e\n",
        "conclave-token-gate 1 9223372036854775808 e\n",
        "conclave-token-gate 2 5 e\n",
        "conclave-token-gate 1 5 eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee\n",
        "something else altogether",
    };
    struct conclave_token_gate gate = {"kept", 3};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(conclave_token_gate_parse(rows[i], strlen(rows[i]), &gate),
                         CONCLAVE_ECORRUPT);
    }
    assert_int_equal(conclave_token_gate_parse("conclave-token-gate 1 5 e\0\n", 27, &gate),
                     CONCLAVE_ECORRUPT);
    assert_string_equal(gate.ensemble, "kept");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_tokens_are_refused),
        cmocka_unit_test(another_ensembles_are_refused_whatever_they_are),
        cmocka_unit_test(what_is_no_token_changes_nothing),
        cmocka_unit_test(it_comes_back_from_its_text),
        cmocka_unit_test(what_is_no_text_of_a_gate),
    };
    return cmocka_run_group_tests_name("token gate", tests, NULL, NULL);
}
