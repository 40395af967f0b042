#include "cli/recipes/hand_over.h"

#include "cli/common/record.h"
#include "cli/common/values.h"

#include <assert.h>
#include <stdio.h>

enum { HAND_OVER_TIMEOUT_MS = 60000 };

static int64_t form_timeout_ms(const struct hold_options *o)
{
    int64_t timeout_ms = o->common.timeout_ms;
    return timeout_ms == CONCLAVE_FOREVER ? HAND_OVER_TIMEOUT_MS : timeout_ms;
}

static int tell_refused(const struct hand_over_form *f, const struct conclave_hand_over *result)
{
    static const char *const texts[] = {
        [CONCLAVE_HAND_OVER_NOBODY_ACTIVE] = "cannot take over: nobody is in line",
        [CONCLAVE_HAND_OVER_NO_MEMBER] = "is not in line, or has left it",
        [CONCLAVE_HAND_OVER_LATE] =
            "has not taken over in time: the one before did not step down (its process is stuck, "
            "ignores the request, or is of an older version)",
        [CONCLAVE_HAND_OVER_FOREIGN] =
            "cannot take over: the nodes there are those of another library's clients, which know "
            "no hand-over; end the one that holds",
        [CONCLAVE_HAND_OVER_AMBIGUOUS] =
            "is the id of several contenders: give the name of a node instead",
    };
    const struct hold_options *o = f->options;
    enum conclave_hand_over_outcome outcome = result->outcome;
    assert((unsigned)outcome < sizeof texts / sizeof texts[0] && texts[outcome] != NULL);
    fprintf(stderr, "conclave %s: %s: %s %s; %s: %s; see \"conclave %s --list %s\"\n",
            o->usage->name, o->path, f->to, texts[outcome], f->role,
            result->active[0] != '\0' ? result->active : "nobody", o->usage->name, o->path);
    return outcome == CONCLAVE_HAND_OVER_LATE ? CLI_EXIT_TIMEOUT : CLI_EXIT_FAILED;
}

static int form_hand_over(struct conclave_client *client, struct conclave_recipes *recipes,
                          void *ctx)
{
    const struct hand_over_form *f = ctx;
    const struct hold_options *o = f->options;
    struct conclave_hand_over result = CONCLAVE_HAND_OVER_INIT;
    int error = f->hand_over(recipes, o->path, f->to, form_timeout_ms(o), &result);
    if (error == CONCLAVE_ECANCELED) {
        return tell_refused(f, &result);
    }
    if (error == CONCLAVE_EBUSY) {
        fprintf(stderr, "conclave %s: %s: another hand-over is in progress\n", o->usage->name,
                o->path);
        return CLI_EXIT_FAILED;
    }
    if (error != 0) {
        return fail(o->usage->name, o->path, error);
    }
    struct record r;
    record_begin(&r, o->common.json);
    if (!r.json) {
        record_string(&r, NULL, f->role);
    }
    record_string(&r, f->role, result.active);
    record_int(&r, "token", result.token.czxid);
    return record_print(&r) == 0 ? 0 : CLI_EXIT_IO;
}

int hand_over_form_run(const struct hand_over_form *form)
{
    struct hand_over_form f = *form;
    struct hold_options connecting = *form->options;
    if (connecting.common.timeout_ms > HOLD_ANSWER_TIMEOUT_MS) {
        connecting.common.timeout_ms = HOLD_ANSWER_TIMEOUT_MS; /* for the first server alone */
    }
    return hold_look(&connecting, form_hand_over, &f);
}
