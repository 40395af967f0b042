/* The methods of fencing as they are given on a command line. */
#include "cli/switch/fence_options.h"

#include "cli/common/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const struct option_row ROWS[] = {OPTION_GROUP(FENCE_ROWS, 0), {.name = NULL}};

static const struct command_usage USAGE = {
    .name = "test", .forms = (const char *const[]){"", NULL}, .about = "", .rows = ROWS};

static int parse(struct fence_options *ret, char **argv)
{
    struct operands operands;
    int argc = 0;
    while (argv[argc] != NULL) {
        argc++;
    }
    *ret = (struct fence_options)FENCE_OPTIONS_INIT;
    int code = options_parse(&USAGE, argc, argv, ret, &operands);
    return code == OPTIONS_GO_ON ? fence_options_finish(&USAGE, ret) : code;
}

static void they_keep_their_order(void **state)
{
    struct fence_options o;
    char *argv[] = {"test",
                    "--fence-ssh",
                    "fuser -k 80/tcp",
                    "--fence-timeout",
                    "2s",
                    "--fence-ssh-option",
                    "User=ops",
                    "--fence-cmd",
                    "off \"$X\"",
                    "--fence-http=http://p/",
                    "--fence-ssh-option",
                    "Port=22",
                    "--fence-cmd=last",
                    NULL};
    assert_int_equal(parse(&o, argv), OPTIONS_GO_ON);
    assert_int_equal(o.count, 4);
    assert_int_equal(o.methods[0].kind, FENCE_SSH);
    assert_string_equal(o.methods[0].text, "fuser -k 80/tcp");
    assert_string_equal(o.methods[0].ssh_options[0], "User=ops");
    assert_string_equal(o.methods[0].ssh_options[1], "Port=22");
    assert_null(o.methods[0].ssh_options[2]);
    assert_int_equal(o.methods[1].kind, FENCE_EXEC);
    assert_int_equal(o.methods[2].kind, FENCE_HTTP);
    assert_string_equal(o.methods[3].text, "last");
    for (size_t i = 0; i < o.count; i++) {
        assert_int_equal(o.methods[i].timeout_ms, 2000);
    }
}

static void what_cannot_work_is_refused(void **state)
{
    struct fence_options o;
    assert_int_equal(parse(&o, (char *[]){"test", NULL}), OPTIONS_GO_ON);
    assert_int_equal(o.count, 0);
    assert_int_equal(parse(&o, (char *[]){"test", "--fence-http", "power", NULL}), CLI_EXIT_USAGE);
    assert_int_equal(parse(&o, (char *[]){"test", "--fence-cmd", "", NULL}), CLI_EXIT_USAGE);
    assert_int_equal(
        parse(&o, (char *[]){"test", "--fence-cmd", "x", "--fence-timeout", "0", NULL}),
        CLI_EXIT_USAGE);
    assert_int_equal(parse(&o, (char *[]){"test", "--fence-ssh-option", "-v", NULL}),
                     CLI_EXIT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_keep_their_order),
        cmocka_unit_test(what_cannot_work_is_refused),
    };
    return cmocka_run_group_tests_name("fence_options", tests, NULL, NULL);
}
