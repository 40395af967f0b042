#include "cli/switch/fence_options.h"

#include <string.h>

static enum fence_kind kind_of(const char *option)
{
    return strcmp(option, "fence-ssh") == 0    ? FENCE_SSH
           : strcmp(option, "fence-http") == 0 ? FENCE_HTTP
                                               : FENCE_EXEC;
}

int fence_options_finish(const struct command_usage *usage, struct fence_options *options)
{
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
