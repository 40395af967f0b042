#include "cli/switch/fence_options.h"

#include <assert.h>
#include <string.h>

#define FIELD(name) offsetof(struct fence_options, name)

const struct option_row FENCE_ROWS[] = {
    {"fence-cmd", 0, OPTION_ADD, FIELD(given), "CMD",
     "Fence by CMD, run here: 0 confirms the other dead. It is run by /bin/sh. This and the next "
     "two may be given several times; they are tried in their order until one confirms."},
    {"fence-ssh", 0, OPTION_ADD, FIELD(given), "CMD",
     "Fence by CMD, run by ssh on the other's host."},
    {"fence-http", 0, OPTION_ADD, FIELD(given), "URL",
     "Fence by a POST to URL: 200 or 204 confirms."},
    {"fence-ssh-option", 0, OPTION_ADD, FIELD(ssh), "NAME=VALUE",
     "An option of ssh, such as User=ops. May be given several times."},
    {"fence-host", 0, OPTION_ADD, FIELD(host), "HOST",
     "A host that may be fenced. May be given several times. Another host, which somebody may have "
     "written into a node, is fenced by no method. Default: all."},
    {"fence-timeout", 0, OPTION_DURATION, FIELD(timeout_ms), "DURATION",
     "Kill a method that takes longer; default 30s. Its process group is killed, and the next method "
     "is tried."},
    {.name = NULL},
};

static enum fence_kind kind_of(const char *option)
{
    return strcmp(option, "fence-ssh") == 0    ? FENCE_SSH
           : strcmp(option, "fence-http") == 0 ? FENCE_HTTP
                                               : FENCE_EXEC;
}

int fence_options_finish(const struct command_usage *usage, struct fence_options *options)
{
    assert(options->ssh.count <= OPTION_LIST_MAX && options->host.count <= OPTION_LIST_MAX);
    assert(options->given.count <= OPTION_LIST_MAX);
    for (size_t i = 0; i < options->ssh.count; i++) {
        options->ssh_options[i] = options->ssh.items[i].text;
        if (strchr(options->ssh_options[i], '=') == NULL) {
            return usage_error(usage, "--fence-ssh-option wants NAME=VALUE, not \"%s\"",
                               options->ssh_options[i]);
        }
    }
    options->ssh_options[options->ssh.count] = NULL;
    for (size_t i = 0; i < options->host.count; i++) {
        options->hosts[i] = options->host.items[i].text;
        if (options->hosts[i][0] == '\0') {
            return usage_error(usage, "--fence-host wants the name or the number of a host");
        }
    }
    options->hosts[options->host.count] = NULL;
    for (size_t i = 0; i < options->given.count; i++) {
        options->methods[i] =
            (struct fence_method){.kind = kind_of(options->given.items[i].name),
                                  .text = options->given.items[i].text,
                                  .timeout_ms = options->timeout_ms,
                                  .ssh_options = options->ssh_options,
                                  .hosts = options->host.count > 0 ? options->hosts : NULL};
        const char *wrong = fence_method_wrong(&options->methods[i]);
        if (wrong != NULL) {
            return usage_error(usage, "--%s: %s", options->given.items[i].name, wrong);
        }
    }
    options->count = options->given.count;
    return OPTIONS_GO_ON;
}
