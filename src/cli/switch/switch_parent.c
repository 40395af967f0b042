/* conclave switch --reset and --make-parent: the directory of a service. */
#include "cli/switch/switch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct parent {
    const struct switch_options *o;
    struct conclave_elector_parent_options options;
    bool exists;
    bool exists_only; /* asks for that alone */
};

/* Whether a person says yes. */
static bool confirmed(const char *dir)
{
    char answer[8];
    fprintf(stderr,
            "%s exists. Delete it with everything below it? All members of the service should be "
            "stopped. (y or n) ",
            dir);
    return fgets(answer, sizeof answer, stdin) != NULL &&
           (strcmp(answer, "y\n") == 0 || strcmp(answer, "Y\n") == 0);
}

static int parent_failed(const char *dir, int error)
{
    if (error == CONCLAVE_EBUSY) {
        fprintf(stderr,
                "conclave switch: %s: a member is active or takes over; end the members first, or "
                "give --force\n",
                dir);
        return CLI_EXIT_FAILED;
    }
    if (error == CONCLAVE_ECONFLICT) {
        fprintf(
            stderr,
            "conclave switch: %s: the last active member has not stopped cleanly; see "
            "\"conclave switch %s --list\"; when you have made sure that it is dead, confirm that with "
            "--override, or give --force\n",
            dir, dir);
        return CLI_EXIT_FAILED;
    }
    return fail(SWITCH_USAGE.name, dir, error);
}

static int parent_change(struct conclave_client *client, struct conclave_recipes *recipes,
                         void *ctx)
{
    struct parent *p = ctx;
    const char *dir = p->o->hold.path;
    int64_t timeout_ms = p->o->hold.common.timeout_ms;
    int error = 0;
    if (p->exists_only) {
        error = conclave_elector_parent_exists(recipes, dir, timeout_ms, &p->exists);
    } else if (p->o->reset) {
        error = conclave_elector_reset(recipes, dir, &p->options, timeout_ms);
    } else {
        error = conclave_elector_parent_make(recipes, dir, &p->options, timeout_ms);
    }
    return error == 0 ? 0 : parent_failed(dir, error);
}

static int parent_connect(struct parent *p)
{
    return connection_run_recipes(SWITCH_USAGE.name, &p->o->hold.common, parent_change, p);
}

/* Whether the reset may begin. The connection does not last while a person thinks. */
static int parent_ask(struct parent *p)
{
    const char *dir = p->o->hold.path;
    p->exists_only = true;
    int code = parent_connect(p);
    p->exists_only = false;
    if (code != 0 || !p->exists) {
        return code;
    }
    if (p->o->non_interactive || isatty(STDIN_FILENO) != 1) {
        fprintf(stderr, "conclave switch: %s exists; give --force to delete it\n", dir);
        return CLI_EXIT_FAILED;
    }
    if (!confirmed(dir)) {
        fprintf(stderr, "conclave switch: %s stays as it is\n", dir);
        return CLI_EXIT_FAILED;
    }
    return 0;
}

int switch_parent(const struct switch_options *o)
{
    struct parent p = {.o = o, .options = CONCLAVE_ELECTOR_PARENT_OPTIONS_INIT};
    struct acl_entries acl;
    int code = connection_acl(SWITCH_USAGE.name, &o->hold.common, &acl);
    p.options.acl = acl.entries;
    p.options.acl_count = acl.count;
    p.options.set_acl = o->set_acl;
    p.options.force = o->force;
    if (code == 0 && o->set_acl && acl.count == 0) {
        code = usage_error(&SWITCH_USAGE, "--set-acl wants --acl or $CONCLAVE_ACL");
    }
    if (code == 0 && o->reset && !o->force) {
        code = parent_ask(&p);
    }
    if (code == 0) {
        code = parent_connect(&p);
    }
    acl_entries_free(&acl);
    return code == 0 ? output_end(SWITCH_USAGE.name, 0) : code;
}
