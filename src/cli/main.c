/*
 * conclave: one program, one row per command. Finds the command by name and gives it the arguments
 * behind it; without a command shows the list.
 */
#include "cli/command.h"
#include "cli/options.h"
#include "cli/values.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

struct command_row {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
    const char *group; /* heading, given at the first row of a group */
};

static const struct command_row COMMANDS[] = {
    {"server", "Serve: one server alone, or a member of an ensemble.", command_server, "Service"},
    {"demo", "See a leader killed and the next one take over, in a few seconds.", command_demo,
     NULL},
    {"elect", "Run a command only while this process is the leader.", command_elect,
     "Coordination"},
    {"ls", "List the children of a node.", command_ls, "The tree"},
    {"get", "Print the data of a node.", command_get, NULL},
    {"set", "Replace the data of a node.", command_set, NULL},
    {"create", "Create a node.", command_create, NULL},
    {"rm", "Remove a node, or a whole branch.", command_rm, NULL},
    {"stat", "Show versions, times and owner of a node.", command_stat, NULL},
    {"watch", "Print each change of a node as it happens.", command_watch, NULL},
};
#define COMMAND_COUNT (sizeof COMMANDS / sizeof COMMANDS[0])

static const char ABOUT[] =
    "Conclave coordinates programs on many machines: leader election, and a small tree of "
    "data that all of them see in the same order. It serves and speaks the ZooKeeper protocol.";

static const char MORE[] =
    "\"conclave COMMAND --help\" tells all about one command.\n"
    "\n"
    "Exit codes: 0 done, 1 the server answered with an error, 64 wrong arguments, 69 cannot "
    "connect, 74 disk or output trouble, 75 not in time, 77 not permitted.\n";

static int help(void)
{
    printf("usage: conclave COMMAND [ARGUMENTS]\n"
           "       conclave --help | --version\n\n");
    help_text(ABOUT, 0);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (COMMANDS[i].group != NULL) {
            printf("\n%s:\n", COMMANDS[i].group);
        }
        printf("  %-9s %s\n", COMMANDS[i].name, COMMANDS[i].summary);
    }
    putchar('\n');
    help_text(MORE, 0);
    return fflush(stdout) == 0 ? 0 : CLI_EXIT_IO;
}

static const char *command_name(size_t index, const void *ctx)
{
    (void)ctx;
    return index < COMMAND_COUNT ? COMMANDS[index].name : NULL;
}

static int unknown(const char *word)
{
    const char *near = nearest_name(word, command_name, NULL);
    fprintf(stderr, "conclave: there is no command \"%s\"", word);
    if (near != NULL) {
        fprintf(stderr, ", did you mean \"%s\"", near);
    }
    fprintf(stderr, "; see \"conclave --help\"\n");
    return CLI_EXIT_USAGE;
}

int main(int argc, char **argv)
{
    /* A reader that went away is an error of the write, told like any other. */
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        fprintf(stderr, "conclave: no command given; see \"conclave --help\"\n");
        return CLI_EXIT_USAGE;
    }
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        return help();
    }
    if (strcmp(word, "--version") == 0) {
        printf("conclave %s\n", CONCLAVE_VERSION);
        return fflush(stdout) == 0 ? 0 : CLI_EXIT_IO;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(COMMANDS[i].name, word) == 0) {
            return COMMANDS[i].run(argc - 1, argv + 1);
        }
    }
    return unknown(word);
}
