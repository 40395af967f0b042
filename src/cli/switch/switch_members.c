/* conclave switch about one named member: its state and health, its role, and a hand-over to it. */
#include "cli/switch/switch.h"

#include "base/clock.h"
#include "cli/common/record.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_AGAIN_MS = 50 };

static int no_member(const struct switch_options *o, const char *id)
{
    fprintf(stderr,
            "conclave switch: %s: there is no member \"%s\"; see \"conclave switch %s --list\"\n",
            o->hold.path, id, o->hold.path);
    return CLI_EXIT_FAILED;
}

/* Prints what is wrong. */
static int member_get(struct conclave_recipes *recipes, const struct switch_options *o,
                      const char *id, struct conclave_elector_member ***ret)
{
    int error = conclave_elector_member(recipes, o->hold.path, id, o->hold.common.timeout_ms, ret);
    return error == 0                  ? 0
           : error == CONCLAVE_NO_NODE ? no_member(o, id)
                                       : fail(SWITCH_USAGE.name, o->hold.path, error);
}

static int member_print(const struct switch_options *o, const struct conclave_elector_member *m,
                        const char *text)
{
    struct record r;
    record_begin(&r, o->hold.common.json);
    if (r.json) {
        json_member_string(&r.j, "id", m->id);
        json_member_string(&r.j, "role", m->observer ? "observer" : "participant");
        json_member_string(&r.j, "state", conclave_elector_state_name(m->state));
        json_member_string(&r.j, "health", conclave_health_name(m->health));
        json_member_bool(&r.j, "ready", m->ready);
        json_member_int(&r.j, "token", m->token.czxid);
    } else {
        record_string(&r, NULL, text);
    }
    return record_print(&r) == 0 ? 0 : CLI_EXIT_IO;
}

/* --- state and health ------------------------------------------------------------------- */

static int state(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    const struct switch_options *o = ctx;
    bool health = o->health_of != NULL;
    struct conclave_elector_member **m;
    int code = member_get(recipes, o, health ? o->health_of : o->state_of, &m);
    if (code != 0) {
        return code;
    }
    bool healthy = m[0]->health == CONCLAVE_HEALTH_HEALTHY;
    code = member_print(
        o, m[0], health ? conclave_health_name(m[0]->health) : switch_state_word(m[0]->state));
    conclave_elector_members_free(m, 1);
    return code == 0 && health && !healthy ? CLI_EXIT_FAILED : code;
}

int switch_state(const struct switch_options *options)
{
    return switch_ask(options, state);
}

/* --- role --------------------------------------------------------------------------------- */

static int role_wait(struct conclave_recipes *recipes, const struct switch_options *o,
                     const struct switch_request *request)
{
    int64_t deadline_ms = clock_monotonic_ms(clock_system()) + o->hold.common.timeout_ms;
    do {
        struct conclave_elector_member **m;
        int code = member_get(recipes, o, request->to, &m);
        if (code != 0) {
            return code;
        }
        bool observes = m[0]->state == CONCLAVE_ELECTOR_OBSERVER; /* its role is told first */
        bool done = m[0]->observer == request->observer && observes == request->observer;
        code = done ? member_print(o, m[0], switch_state_word(m[0]->state)) : 0;
        conclave_elector_members_free(m, 1);
        if (done) {
            return code;
        }
        usleep(LOOK_AGAIN_MS * 1000);
    } while (clock_monotonic_ms(clock_system()) < deadline_ms);
    fprintf(stderr, "conclave switch: %s: %s has not changed its role in time\n", o->hold.path,
            request->to);
    return CLI_EXIT_TIMEOUT;
}

static int role(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    const struct switch_options *o = ctx;
    struct switch_request request = {.observer = o->to_observer != NULL};
    struct conclave_elector_member **m;
    struct conclave_group *group;
    assert((o->to_observer != NULL) != (o->to_standby != NULL));
    (void)snprintf(request.to, sizeof request.to, "%s",
                   request.observer ? o->to_observer : o->to_standby);
    int code = member_get(recipes, o, request.to, &m);
    if (code != 0) {
        return code;
    }
    conclave_elector_members_free(m, 1);
    code = switch_request_begin(recipes, o, &request, &group);
    return code == 0 ? switch_request_end(o, group, role_wait(recipes, o, &request)) : code;
}

int switch_role(const struct switch_options *options)
{
    return switch_ask(options, role);
}

/* --- hand-over ------------------------------------------------------------------------------ */

static int hand_over_failed(const struct switch_options *o, const struct conclave_hand_over *result)
{
    static const char *const texts[] = {
        [CONCLAVE_HAND_OVER_DONE] = "is active",
        [CONCLAVE_HAND_OVER_NOBODY_ACTIVE] = "cannot take over: nobody is active",
        [CONCLAVE_HAND_OVER_NO_MEMBER] = "is not there",
        [CONCLAVE_HAND_OVER_NOT_HEALTHY] = "is not healthy",
        [CONCLAVE_HAND_OVER_OBSERVER] = "is an observer",
        [CONCLAVE_HAND_OVER_ANOTHER_ACTIVE] = "did not take over",
        [CONCLAVE_HAND_OVER_LATE] = "has not become active in time",
    };
    assert((unsigned)result->outcome < sizeof texts / sizeof texts[0]);
    assert(result->outcome != CONCLAVE_HAND_OVER_DONE); /* what failed is not done */
    fprintf(stderr, "conclave switch: %s: %s %s; %s is active\n", o->hold.path, o->hand_over_to,
            texts[result->outcome], result->active[0] != '\0' ? result->active : "nobody");
    return result->outcome == CONCLAVE_HAND_OVER_LATE ? CLI_EXIT_TIMEOUT : CLI_EXIT_FAILED;
}

static int hand_over(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    const struct switch_options *o = ctx;
    struct conclave_hand_over result = CONCLAVE_HAND_OVER_INIT;
    int error = conclave_elector_hand_over(recipes, o->hold.path, o->hand_over_to,
                                           o->hold.common.timeout_ms, &result);
    if (error == CONCLAVE_ECANCELED) {
        return hand_over_failed(o, &result);
    }
    if (error == CONCLAVE_EBUSY) {
        fprintf(stderr, "conclave switch: %s: another hand-over is in progress\n", o->hold.path);
        return CLI_EXIT_FAILED;
    }
    if (error != 0) {
        return fail(SWITCH_USAGE.name, o->hold.path, error);
    }
    struct record r;
    record_begin(&r, o->hold.common.json);
    if (!r.json) {
        record_string(&r, NULL, "active");
    }
    record_string(&r, "active", result.active);
    record_int(&r, "token", result.token.czxid);
    return record_print(&r) == 0 ? 0 : CLI_EXIT_IO;
}

int switch_hand_over(const struct switch_options *options)
{
    return switch_ask(options, hand_over);
}
