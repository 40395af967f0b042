/* Parsing by a table: order, forms, defaults, and what is refused. Errors go to stderr and are
 * counted by the exit code. */
#include "cli/common/options.h"

#include "cli/common/command.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct target {
    struct common_options common;
    bool flag;
    bool on;
    const char *text;
    int64_t number;
    int signal;
    int choice;
    struct option_list list;
};

static const struct option_row ROWS[] = {
    {"flag", 'f', OPTION_FLAG, offsetof(struct target, flag), NULL, "A flag."},
    {"off", 0, OPTION_NOT, offsetof(struct target, on), NULL, "Not a flag."},
    {"text", 't', OPTION_STRING, offsetof(struct target, text), "TEXT", "A text."},
    {"number", 0, OPTION_INTEGER, offsetof(struct target, number), "N", "A number."},
    {"kill", 0, OPTION_SIGNAL, offsetof(struct target, signal), "SIGNAL", "A signal."},
    {"colour", 0, OPTION_CHOICE, offsetof(struct target, choice), "red|green", "A colour."},
    {"one", 0, OPTION_ADD, offsetof(struct target, list), "X", "Of a list."},
    {"other", 0, OPTION_ADD, offsetof(struct target, list), "X", "Of the same list."},
    {.name = NULL},
};

static const char *const FORMS[] = {"PATH [-- CMD]", NULL};

static struct command_usage usage(bool runs_command)
{
    return (struct command_usage){.name = "test",
                                  .forms = FORMS,
                                  .about = "A test.",
                                  .rows = ROWS,
                                  .client = true,
                                  .runs_command = runs_command,
                                  .operands = {1, 2}};
}

#define WORDS_MAX 48

/* Parses the words of one line. */
static int parse(bool runs_command, const char *line, struct target *target,
                 struct operands *operands)
{
    static char copy[512];
    static char *argv[WORDS_MAX + 1];
    struct command_usage u = usage(runs_command);
    int argc = 0;
    char *save = NULL;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *word = strtok_r(copy, " ", &save); word != NULL; word = strtok_r(NULL, " ", &save)) {
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    *target = (struct target){.common = COMMON_OPTIONS_INIT, .on = true, .number = 5};
    return options_parse(&u, argc, argv, target, operands);
}

static void test_values(void **state)
{
    struct target t;
    struct operands o;
    assert_int_equal(parse(false, "test /a", &t, &o), OPTIONS_GO_ON);
    assert_true(!t.flag && t.on && t.text == NULL && t.number == 5 && t.common.timeout_ms == 5000);
    assert_int_equal(o.count, 1);
    assert_null(o.command);
    assert_int_equal(parse(false,
                           "test -f --off --text=a=b /a --number -1 --kill USR1 --colour green b "
                           "--session 2s --json -s h:1",
                           &t, &o),
                     OPTIONS_GO_ON);
    assert_true(t.flag && !t.on && t.number == -1 && t.signal == SIGUSR1 && t.choice == 1);
    assert_string_equal(t.text, "a=b");
    assert_true(t.common.json && t.common.session_ms == 2000);
    assert_string_equal(t.common.server, "h:1");
    assert_int_equal(o.count, 2);
    assert_string_equal(o.words[0], "/a");
    assert_string_equal(o.words[1], "b");
}

static void test_lists_keep_their_order(void **state)
{
    struct target t;
    struct operands o;
    char line[512] = "test /a";
    assert_int_equal(parse(false, "test --one a /a --other b --one=c", &t, &o), OPTIONS_GO_ON);
    assert_int_equal(t.list.count, 3);
    assert_string_equal(t.list.items[0].name, "one");
    assert_string_equal(t.list.items[1].name, "other");
    assert_string_equal(t.list.items[1].text, "b");
    assert_string_equal(t.list.items[2].text, "c");
    for (int i = 0; i <= OPTION_LIST_MAX; i++) {
        strcat(line, " --one=x");
    }
    assert_int_equal(parse(false, line, &t, &o), CLI_EXIT_USAGE);
    assert_int_equal(parse(false, "test /a --one", &t, &o), CLI_EXIT_USAGE);
}

static void test_dashes(void **state)
{
    struct target t;
    struct operands o;
    assert_int_equal(parse(false, "test /a -- --flag", &t, &o), OPTIONS_GO_ON);
    assert_int_equal(o.count, 2);
    assert_string_equal(o.words[1], "--flag");
    assert_false(t.flag);
    assert_int_equal(parse(false, "test - /a", &t, &o), OPTIONS_GO_ON);
    assert_string_equal(o.words[0], "-");
    assert_int_equal(parse(true, "test /a -f -- cmd --flag -- x", &t, &o), OPTIONS_GO_ON);
    assert_int_equal(o.count, 1);
    assert_string_equal(o.command[0], "cmd");
    assert_string_equal(o.command[1], "--flag");
    assert_string_equal(o.command[2], "--");
    assert_string_equal(o.command[3], "x");
    assert_null(o.command[4]);
}

static void test_refused(void **state)
{
    static const char *const LINES[] = {
        "test",
        "test /a b c",
        "test /a --none",
        "test /a -x",
        "test /a -ff",
        "test /a --flag=1",
        "test /a --text",
        "test /a --number 1.5",
        "test /a --number -2",
        "test /a --kill NONE",
        "test /a --colour blue",
        "test /a --session 5",
        "test /a --",
    };
    struct target t;
    struct operands o;
    for (size_t i = 0; i < sizeof LINES / sizeof LINES[0]; i++) {
        assert_int_equal(parse(true, LINES[i], &t, &o), CLI_EXIT_USAGE);
    }
}

static void test_own_row_hides_common(void **state)
{
    static const struct option_row OWN[] = {
        {"timeout", 0, OPTION_DURATION, offsetof(struct target, number), "DURATION", "Own."},
        {.name = NULL},
    };
    struct command_usage u = usage(false);
    struct target t = {.common = COMMON_OPTIONS_INIT};
    struct operands o;
    char words[4][16] = {"test", "/a", "--timeout", "7ms"};
    char *argv[] = {words[0], words[1], words[2], words[3], NULL};
    u.rows = OWN;
    assert_int_equal(options_parse(&u, 4, argv, &t, &o), OPTIONS_GO_ON);
    assert_int_equal(t.number, 7);
    assert_int_equal(t.common.timeout_ms, 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lists_keep_their_order),
        cmocka_unit_test(test_dashes),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_own_row_hides_common),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
