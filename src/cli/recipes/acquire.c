#include "cli/recipes/acquire.h"

#include "cli/common/node_output.h"
#include "cli/common/record.h"

#include <conclave/semaphore.h>

#include <stdio.h>

#define FIELD(name) offsetof(struct hold_options, name)

const struct option_row ACQUIRE_ROWS[] = {
    {"try", 0, OPTION_FLAG, FIELD(try), NULL,
     "Do not wait. Give up, with exit code 75, when it is not free now."},
    {"conflict-exit-code", 'E', OPTION_INTEGER, FIELD(timeout_exit), "N",
     "Exit code instead of 75."},
    {.name = NULL},
};

/* Contenders without taking part. */
struct acquire_look {
    const struct hold_options *options;
    bool semaphore;
    struct conclave_contender **list;
    size_t count;
    int32_t permits; /* 0: a lock */
};

static const char *kind_text(enum conclave_lock_kind kind)
{
    return kind == CONCLAVE_LOCK_READ    ? "read"
           : kind == CONCLAVE_LOCK_WRITE ? "write"
                                         : "exclusive";
}

static const char *role_text(const struct conclave_contender *c)
{
    if (!c->holds) {
        return "waiting";
    }
    return c->kind == CONCLAVE_LOCK_READ    ? "reader"
           : c->kind == CONCLAVE_LOCK_WRITE ? "writer"
                                            : "holder";
}

static int contenders_print(const struct acquire_look *l)
{
    char time[TIME_TEXT_MAX];
    struct record r;
    record_begin(&r, l->options->common.json);
    record_add_path(&r, l->options->path);
    if (r.json && l->permits > 0) {
        json_member_int(&r.j, "permits", l->permits);
    }
    record_list_begin(&r, "contenders", l->count, "ROLE\tNODE\tTOKEN\tSINCE\tID");
    for (size_t i = 0; i < l->count; i++) {
        const struct conclave_contender *c = l->list[i];
        record_row_begin(&r);
        record_string(&r, "role", role_text(c));
        if (r.json && l->permits == 0) {
            json_member_string(&r.j, "kind", kind_text(c->kind));
        }
        record_string(&r, "node", c->node);
        record_int(&r, "token", c->token.czxid);
        record_string(&r, "since", time_text(c->since_ms, time));
        record_string(&r, "id", c->id);
        if (r.json) {
            json_member_hex(&r.j, "session", c->session_id);
        }
        record_row_end(&r);
    }
    record_list_end(&r);
    return record_print(&r);
}

static int acquire_list(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    struct acquire_look *l = ctx;
    const struct hold_options *o = l->options;
    int64_t timeout_ms = hold_answer_ms(o);
    int error = l->semaphore
                    ? conclave_semaphore_contenders(recipes, o->path, timeout_ms, &l->list,
                                                    &l->count, &l->permits)
                    : conclave_lock_contenders(recipes, o->path, timeout_ms, &l->list, &l->count);
    if (error == CONCLAVE_NO_NODE) {
        error = 0; /* the node comes with the first contender, and may go with the last */
    }
    error = error == 0 ? contenders_print(l) : error;
    conclave_contenders_free(l->list, l->count);
    if (error == CONCLAVE_ECONFLICT) {
        fprintf(stderr, "conclave %s: %s: no semaphore: its data is not the number of places\n",
                o->usage->name, o->path);
        return CLI_EXIT_CONFIG;
    }
    return error == 0 ? 0 : fail(o->usage->name, o->path, error);
}

int acquire_run(const struct hold_options *options, bool semaphore)
{
    struct acquire_look l = {.options = options, .semaphore = semaphore};
    return options->list ? hold_look(options, acquire_list, &l) : hold_run(options);
}
