/*
 * conclave: one program, one row per command. Finds the command by name and gives it the arguments
 * behind it; without a command shows the list.
 */
#include "base/environment.h"
#include "cli/common/command.h"
#include "cli/common/help.h"
#include "cli/common/options.h"
#include "cli/common/values.h"
#include "cli/shell/command_table.h"

#include <conclave/error.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

static const char ABOUT[] =
    "Conclave coordinates programs on many machines: leader election, and a small tree of "
    "data that all of them see in the same order. It serves and speaks the ZooKeeper protocol.";

static const char MORE[] =
    "\"conclave COMMAND --help\" shows one screen about a command, \"conclave help COMMAND\" "
    "everything, \"conclave help connection\" the options of all clients.\n"
    "\n"
    "Exit codes: 0 done, 1 the server answered with an error, 64 wrong arguments, 69 cannot "
    "connect, 74 disk or output trouble, 75 not in time, 77 not permitted.\n";

static int help(void)
{
    printf("usage: conclave COMMAND [ARGUMENTS]\n"
           "       conclave help [COMMAND | connection]\n"
           "       conclave --help | --version\n\n");
    help_text(ABOUT, 0);
    const struct command_row *row;
    for (size_t i = 0; (row = command_at(i)) != NULL; i++) {
        if (row->group != NULL) {
            printf("\n%s:\n", row->group);
        }
        printf("  %-9s %s\n", row->name, row->summary);
    }
    putchar('\n');
    help_text(MORE, 0);
    return fflush(stdout) == 0 ? 0 : CLI_EXIT_IO;
}

static int unknown(const char *word)
{
    const char *near = nearest_name(word, command_name_at, NULL);
    fprintf(stderr, "conclave: there is no command \"%s\"", word);
    if (near != NULL) {
        fprintf(stderr, ", did you mean \"%s\"", near);
    }
    fprintf(stderr, "; see \"conclave --help\"\n");
    return CLI_EXIT_USAGE;
}

static int help_about(char *topic)
{
    if (strcmp(topic, "connection") == 0) {
        return help_connection();
    }
    const struct command_row *row = command_find(topic);
    char *arguments[] = {topic, "--help-all", NULL};
    return row != NULL ? row->run(2, arguments) : unknown(topic);
}

int main(int argc, char **argv)
{
    /* A closed reader is an error of the write, printed like any other error. */
    signal(SIGPIPE, SIG_IGN);
    /* This process waits for its children; its parent may have left SIGCHLD ignored. */
    signal(SIGCHLD, SIG_DFL);
    environment_hide_secrets();
    if (argc < 2) {
        fprintf(stderr, "conclave: no command given; see \"conclave --help\"\n");
        return CLI_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "help") == 0 && argc == 3) {
        return help_about(argv[2]);
    }
    if (strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        return help();
    }
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "version") == 0) {
        printf("conclave %s\n", CONCLAVE_VERSION_TEXT);
        return fflush(stdout) == 0 ? 0 : CLI_EXIT_IO;
    }
    const struct command_row *row = command_find(word);
    return row != NULL ? row->run(argc - 1, argv + 1) : unknown(word);
}
