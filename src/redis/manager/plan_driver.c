/* The driver: asks the planner, carries out its action, tells it the result. */
#include "redis/manager/plan_driver.h"

#include "base/clock.h"
#include "base/transition.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { RETRY_MS = 250, LOOK_MS = 50, SECOND_MS = 1000, ACTIONS_A_SECOND = 50 };

/*
 *   IDLE --- lead ---> LEADING --- begin ---> BUSY --- end ---> LEADING
 *   LEADING --- stop ---> IDLE       BUSY --- stop ---> DRAINING, or IDLE if it was fencing, which is cancelled
 *                                    BUSY --- may not act ---> LEADING if it was fencing, which is cancelled
 *   DRAINING --- end ---> IDLE       DRAINING --- lead ---> STALE
 *   STALE --- end ---> LEADING       STALE --- stop ---> DRAINING
 */
enum driver_state {
    DRIVER_IDLE,    /* it does not lead */
    DRIVER_LEADING, /* the timer takes the next step */
    DRIVER_BUSY,    /* leads, and an action, or reading the records, is under way */
    DRIVER_STALE, /* leads, and what is under way belongs to an earlier term: its result is ignored */
    DRIVER_DRAINING, /* the same, and it does not lead */
    DRIVER_CLOSED
};

static const uint16_t DRIVER_NEXT[] = {
    [DRIVER_IDLE] = TRANSITION_TO(DRIVER_LEADING) | TRANSITION_TO(DRIVER_CLOSED),
    [DRIVER_LEADING] = TRANSITION_TO(DRIVER_IDLE) | TRANSITION_TO(DRIVER_BUSY),
    [DRIVER_BUSY] =
        TRANSITION_TO(DRIVER_LEADING) | TRANSITION_TO(DRIVER_DRAINING) | TRANSITION_TO(DRIVER_IDLE),
    [DRIVER_STALE] = TRANSITION_TO(DRIVER_LEADING) | TRANSITION_TO(DRIVER_DRAINING),
    [DRIVER_DRAINING] =
        TRANSITION_TO(DRIVER_IDLE) | TRANSITION_TO(DRIVER_STALE) | TRANSITION_TO(DRIVER_CLOSED),
    [DRIVER_CLOSED] = 0,
};

struct redis_driver {
    struct redis_driver_settings s;
    enum driver_state state;
    uv_timer_t timer;
    struct redis_memory memory;
    struct redis_action action;
    struct redis_verdict verdicts[REDIS_NODES_MAX];
    struct redis_fence fence;
    char fence_plan[REDIS_NAME_SIZE]; /* the plan that fence is about */
    int64_t token;
    bool read_anew;                     /* the records may have changed */
    bool complained;                    /* a corrupt record was reported */
    int unread;                         /* why the records could not be read, as reported; 0 */
    char last_problem[REDIS_TEXT_SIZE]; /* as reported */
    char last_dry[REDIS_TEXT_SIZE];     /* as reported */
    int64_t second_ms;                  /* when the present second began */
    int actions;                        /* in it */
    int64_t braked_ms;                  /* no action before this */
    const char *looked_for;             /* step of the last action, when that was a REFRESH */
    void (*done)(void *ctx);
    void *done_ctx;
};

static void driver_step(uv_timer_t *timer);

static void driver_enter(struct redis_driver *d, enum driver_state state)
{
    transition_check(DRIVER_NEXT, d->state, state);
    d->state = state;
}

static void driver_wait(struct redis_driver *d, int64_t ms)
{
    assert(d->state != DRIVER_CLOSED);
    uv_update_time(d->s.loop);
    uv_timer_start(&d->timer, driver_step, ms > 0 ? (uint64_t)ms : 0, 0);
}

/* An action has ended. Returns whether it belongs to the present term. */
static bool driver_end(struct redis_driver *d)
{
    bool ours = d->state == DRIVER_BUSY;
    driver_enter(d, d->state == DRIVER_DRAINING ? DRIVER_IDLE : DRIVER_LEADING);
    return ours;
}

static void __attribute__((format(printf, 6, 7)))
driver_tell(struct redis_driver *d, const char *name, int node, int64_t bytes, bool public,
            const char *fmt, ...)
{
    char text[2 * REDIS_TEXT_SIZE];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    d->s.on_event(d->s.ctx, name, node, bytes, public, text);
}

/* --- the end of an action */

static bool action_writes(enum redis_action_kind kind)
{
    return kind == REDIS_ACTION_WRITE_CURRENT || kind == REDIS_ACTION_WRITE_PLAN ||
           kind == REDIS_ACTION_DELETE_PLAN || kind == REDIS_ACTION_ANSWER;
}

/* Reports the same problem once. */
static void driver_complain(struct redis_driver *d, const char *text)
{
    char problem[REDIS_TEXT_SIZE];
    snprintf(problem, sizeof problem, "%s: %.180s", d->action.step, text);
    if (strcmp(problem, d->last_problem) == 0) {
        return;
    }
    snprintf(d->last_problem, sizeof d->last_problem, "%s", problem);
    driver_tell(d, "step-failed", d->action.node, -1, false, "%s (%s); it is decided anew", problem,
                d->action.why);
}

static void driver_over(struct redis_driver *d, const struct redis_outcome *outcome)
{
    const struct redis_action *action = &d->action;
    if (!driver_end(d)) {
        redis_driver_wake(d);
        return;
    }
    assert(action->kind != REDIS_ACTION_WAIT);
    redis_steps_done(&d->memory, action, outcome, redis_link_now_ms());
    if (outcome->ok) {
        d->last_problem[0] = '\0';
        if (action->event != NULL) {
            driver_tell(d, action->event, action->node, action->event_bytes, true, "%s",
                        action->why);
        }
    } else {
        d->read_anew = action_writes(action->kind);
        driver_complain(d, outcome->text);
    }
    /* The planner looks again and again, but not as fast as a server refuses connections. */
    bool looks = action->kind == REDIS_ACTION_REFRESH;
    bool again = looks && d->looked_for == action->step;
    d->looked_for = looks ? action->step : NULL;
    driver_wait(d, again ? LOOK_MS : 0);
}

/* The action could not even be started. */
static void driver_failed(struct redis_driver *d, int error)
{
    struct redis_outcome outcome = {.failed = -1};
    snprintf(outcome.text, sizeof outcome.text, "%s", conclave_strerror(error));
    driver_over(d, &outcome);
    driver_wait(d, RETRY_MS);
}

static void on_commanded(void *ctx, const struct redis_outcome *outcome)
{
    driver_over(ctx, outcome);
}

static void on_refreshed(void *ctx)
{
    struct redis_outcome outcome = {.ok = true, .failed = -1};
    driver_over(ctx, &outcome);
}

static void plan_driver_on_written(void *ctx, int error, const struct conclave_reply *reply)
{
    struct redis_driver *d = ctx;
    struct redis_outcome outcome = {.ok = error == 0, .failed = -1};
    snprintf(outcome.text, sizeof outcome.text, "%s", error != 0 ? conclave_strerror(error) : "");
    /* While this manager closes, its journal is gone before the answer comes. */
    if (error == 0 && d->state == DRIVER_BUSY && d->action.kind == REDIS_ACTION_ANSWER) {
        redis_journal_result(d->s.journal);
    }
    driver_over(d, &outcome);
}

static void on_fenced(void *ctx, int node, bool confirmed, const char *text)
{
    struct redis_driver *d = ctx;
    struct redis_outcome outcome = {.ok = confirmed, .failed = -1};
    d->fence.state = confirmed ? REDIS_FENCE_CONFIRMED : REDIS_FENCE_FAILED;
    d->fence.node = node;
    d->fence.at_ms = redis_link_now_ms();
    snprintf(outcome.text, sizeof outcome.text, "%s", text);
    driver_over(d, &outcome);
}

/* --- carrying out an action */

static int driver_fence(struct redis_driver *d)
{
    const struct redis_current *current = redis_store_znodes(d->s.store).current;
    if (d->s.fencer == NULL) {
        return CONCLAVE_EINVAL;
    }
    return redis_fencer_run(d->s.fencer, d->action.node, &d->s.config->nodes[d->action.node],
                            current != NULL ? current->token : 0, d->token, on_fenced, d);
}

/* Whether the lease holds now, by the clock. */
static bool driver_may_act(const struct redis_driver *d)
{
    return d->s.dry_run || (conclave_election_is_leader(d->s.election) && d->s.may_act(d->s.ctx));
}

/* A method that goes on could harm the master that another manager names. Its result is not known, so the planner asks
 * for it again as soon as this manager may act. */
static void driver_stop_fencing(struct redis_driver *d)
{
    assert(d->state == DRIVER_BUSY && d->action.kind == REDIS_ACTION_FENCE);
    redis_fencer_cancel(d->s.fencer); /* it does not report: the running action ends here */
    driver_enter(d, DRIVER_LEADING);
    driver_tell(d, "fencing-stopped", d->action.node, -1, false,
                "the ensemble does not confirm that this manager leads: the fencing methods were "
                "stopped, and run again when it does");
    driver_wait(d, d->s.config->period_ms);
}

void redis_driver_wake(struct redis_driver *driver)
{
    if (driver->state == DRIVER_LEADING) {
        driver_wait(driver, 0);
    } else if (driver->state == DRIVER_BUSY && driver->action.kind == REDIS_ACTION_FENCE &&
               !driver_may_act(driver)) {
        driver_stop_fencing(driver);
    }
}

/* For commands that follow an answer: the term may have ended meanwhile, and another one of this manager begun. */
static bool on_may_act(void *ctx)
{
    const struct redis_driver *d = ctx;
    return d->state == DRIVER_BUSY && driver_may_act(d);
}

static int driver_command(struct redis_driver *d)
{
    const struct redis_action *a = &d->action;
    struct redis_orders orders = {.node = a->node,
                                  .run_id = a->run_id,
                                  .role = a->role,
                                  .list = a->u.commands.list,
                                  .count = a->u.commands.count,
                                  .may_act = on_may_act,
                                  .done = on_commanded,
                                  .ctx = d};
    return redis_monitor_command(d->s.monitor, &orders);
}

static int driver_carry_out(struct redis_driver *d)
{
    struct redis_action *a = &d->action;
    switch (a->kind) {
    case REDIS_ACTION_REFRESH:
        return redis_monitor_refresh(d->s.monitor, a->u.refresh, on_refreshed, d);
    case REDIS_ACTION_COMMAND:
        return driver_command(d);
    case REDIS_ACTION_FENCE:
        return driver_fence(d);
    case REDIS_ACTION_WRITE_CURRENT:
        return redis_store_write(d->s.store, &REDIS_CURRENT, &a->u.current.record,
                                 a->u.current.version, plan_driver_on_written, d);
    case REDIS_ACTION_WRITE_PLAN:
        return redis_store_write(d->s.store, &REDIS_PLAN, &a->u.plan.record, a->u.plan.version,
                                 plan_driver_on_written, d);
    case REDIS_ACTION_DELETE_PLAN:
        return redis_store_write(d->s.store, &REDIS_PLAN, NULL, a->u.plan_version,
                                 plan_driver_on_written, d);
    case REDIS_ACTION_ANSWER:
        return redis_store_answer(d->s.store, a->u.answer.name, &a->u.answer.result,
                                  plan_driver_on_written, d);
    case REDIS_ACTION_WAIT:
        break;
    }
    return CONCLAVE_EINVAL;
}

/* Commands and fencing change servers: each is reported with its reason. */
static void driver_announce(struct redis_driver *d)
{
    const struct redis_action *a = &d->action;
    char words[REDIS_TEXT_SIZE] = "";
    size_t len = 0;
    if (a->kind == REDIS_ACTION_FENCE) {
        driver_tell(d, "fencing", a->node, -1, false, "running the fencing methods: %s", a->why);
        return;
    }
    if (a->kind != REDIS_ACTION_COMMAND) {
        return;
    }
    for (size_t i = 0; i < a->u.commands.count && len < sizeof words; i++) {
        const struct redis_command *command = &a->u.commands.list[i];
        for (int k = 0; k < command->argc && len < sizeof words; k++) {
            len += (size_t)snprintf(words + len, sizeof words - len, "%s%s",
                                    k > 0 ? " " : (i > 0 ? "; " : ""), command->argv[k]);
        }
    }
    driver_tell(d, "command", a->node, -1, false, "%s (%s)", words, a->why);
}

static void driver_say_dry(struct redis_driver *d)
{
    const struct redis_action *a = &d->action;
    char text[REDIS_TEXT_SIZE];
    snprintf(text, sizeof text, "%.60s: %.180s", a->step, a->why);
    if (strcmp(text, d->last_dry) != 0) {
        snprintf(d->last_dry, sizeof d->last_dry, "%s", text);
        driver_tell(d, "would", a->node, -1, false, "%s", text);
    }
}

/* --- asking the planner */

static void plan_driver_on_read(void *ctx, int error)
{
    struct redis_driver *d = ctx;
    bool ours = driver_end(d);
    if (d->state != DRIVER_LEADING) {
        return;
    }
    /* A lost connection recovers and is reported elsewhere. Any other error would leave a leader that does nothing. */
    if (error != 0 && !conclave_error_retryable(error) && error != d->unread) {
        d->unread = error;
        driver_tell(d, "records-unreadable", REDIS_NONE, -1, false,
                    "the folders of %s cannot be made or its records read (%s): nothing is done",
                    redis_store_root(d->s.store), conclave_strerror(error));
    }
    d->unread = error == 0 ? 0 : d->unread;
    d->read_anew = error != 0 || !ours; /* data read in an earlier term may be old */
    driver_wait(d, error != 0 ? RETRY_MS : 0);
}

/* Whether the records are known and can be read. */
static bool driver_has_records(struct redis_driver *d)
{
    struct redis_znodes znodes = redis_store_znodes(d->s.store);
    if (d->read_anew || !znodes.known) {
        driver_enter(d, DRIVER_BUSY);
        d->action.kind = REDIS_ACTION_WAIT; /* no action is under way, so no fencing either */
        redis_store_refresh(d->s.store, plan_driver_on_read, d);
        return false;
    }
    if (znodes.corrupt != NULL) {
        if (!d->complained) {
            driver_tell(d, "record-unreadable", REDIS_NONE, -1, true,
                        "%s/%s cannot be read: nothing is done until it is mended or removed",
                        redis_store_root(d->s.store), znodes.corrupt);
        }
        d->complained = true;
        return false;
    }
    d->complained = false;
    return true;
}

static void driver_judge(struct redis_driver *d, struct redis_situation *now)
{
    int master =
        now->current != NULL ? redis_config_find(d->s.config, now->current->master) : REDIS_NONE;
    now->decidable =
        redis_verdicts(d->s.managers, d->s.config, now->nodes, master, now->now_ms, d->verdicts);
    now->verdicts = d->verdicts;
    now->known_offset = -1;
    if (now->current != NULL) {
        now->known_offset =
            redis_known_offset(d->s.managers, d->s.config, now->nodes, now->current);
    }
}

static void driver_ask(struct redis_driver *d)
{
    struct redis_znodes znodes = redis_store_znodes(d->s.store);
    struct redis_situation now = {.config = d->s.config,
                                  .now_ms = redis_link_now_ms(),
                                  .wall_ms = clock_wall_ms(clock_system()),
                                  .token = d->token,
                                  .current = znodes.current,
                                  .current_version = znodes.current_version,
                                  .plan = znodes.plan,
                                  .plan_version = znodes.plan_version,
                                  .request = znodes.request,
                                  .nodes = redis_monitor_nodes(d->s.monitor)};
    const char *plan = now.plan != NULL ? now.plan->id : "";
    if (strcmp(plan, d->fence_plan) != 0) {
        snprintf(d->fence_plan, sizeof d->fence_plan, "%s", plan);
        d->fence = (struct redis_fence){.state = REDIS_FENCE_NONE, .node = REDIS_NONE};
    }
    now.fence = d->fence;
    driver_judge(d, &now);
    redis_steps_next(&now, &d->memory, &d->action);
}

/* Milliseconds to wait before one more action: if facts or decisions go back and forth, the servers and the ensemble are
 * not flooded. A fail-over takes about ten actions. */
static int64_t driver_brake(struct redis_driver *d)
{
    int64_t now = redis_link_now_ms();
    if (now - d->second_ms >= SECOND_MS) {
        d->second_ms = now;
        d->actions = 0;
    }
    return d->actions++ < ACTIONS_A_SECOND ? 0 : d->second_ms + SECOND_MS - now;
}

/* Keeps the gem's node up to date (a write that failed is repeated here), takes over the gem's requests, and refuses
 * requests that cannot be read. */
static void driver_keep_others(struct redis_driver *d)
{
    struct redis_znodes znodes = redis_store_znodes(d->s.store);
    redis_journal_current(d->s.journal, znodes.current);
    if (znodes.gem_request != NULL) {
        redis_journal_gem_request(d->s.journal, znodes.gem_request, znodes.gem_version,
                                  clock_wall_ms(clock_system()));
    }
    if (znodes.bad_request != NULL) {
        redis_journal_refuse(d->s.journal, znodes.bad_request);
    }
}

static void driver_step(uv_timer_t *timer)
{
    struct redis_driver *d = timer->data;
    if (d->state != DRIVER_LEADING) {
        return;
    }
    if (!driver_may_act(d)) {
        driver_wait(d, d->s.config->period_ms);
        return;
    }
    if (d->braked_ms > redis_link_now_ms()) {
        driver_wait(d, d->braked_ms - redis_link_now_ms());
        return;
    }
    if (!driver_has_records(d)) {
        return;
    }
    if (!d->s.dry_run) {
        driver_keep_others(d);
    }
    driver_ask(d);
    if (d->action.kind == REDIS_ACTION_WAIT) {
        int64_t left = d->action.u.until_ms - redis_link_now_ms();
        driver_wait(d, left < d->s.config->period_ms ? left : d->s.config->period_ms);
        return;
    }
    if (d->s.dry_run && d->action.kind != REDIS_ACTION_REFRESH) {
        driver_say_dry(d);
        driver_wait(d, d->s.config->period_ms);
        return;
    }
    int64_t pause = driver_brake(d);
    if (pause > 0) {
        d->braked_ms = redis_link_now_ms() + pause;
        driver_wait(d, pause);
        return;
    }
    if (!driver_may_act(d)) {
        driver_wait(d, d->s.config->period_ms);
        return;
    }
    driver_announce(d);
    assert(!d->s.dry_run || d->action.kind == REDIS_ACTION_REFRESH);
    driver_enter(d, DRIVER_BUSY);
    int error = driver_carry_out(d);
    if (error != 0) {
        driver_failed(d, error);
    }
}

/* --- terms */

void redis_driver_lead(struct redis_driver *driver, int64_t token)
{
    redis_driver_stop(driver); /* the term before, if it was not ended */
    driver_enter(driver, driver->state == DRIVER_DRAINING ? DRIVER_STALE : DRIVER_LEADING);
    redis_memory_init(&driver->memory);
    driver->token = token;
    driver->read_anew = true;
    driver->complained = false;
    driver->last_problem[0] = '\0';
    driver->fence = (struct redis_fence){.state = REDIS_FENCE_NONE, .node = REDIS_NONE};
    driver->fence_plan[0] = '\0';
    redis_driver_wake(driver);
}

void redis_driver_stop(struct redis_driver *driver)
{
    uv_timer_stop(&driver->timer);
    if (driver->state == DRIVER_LEADING) {
        driver_enter(driver, DRIVER_IDLE);
    } else if (driver->state == DRIVER_BUSY && driver->action.kind == REDIS_ACTION_FENCE) {
        redis_fencer_cancel(
            driver->s.fencer); /* it does not report: the running action ends here */
        driver_enter(driver, DRIVER_IDLE);
    } else if (driver->state == DRIVER_BUSY || driver->state == DRIVER_STALE) {
        driver_enter(driver, DRIVER_DRAINING);
    }
}

int redis_driver_create(const struct redis_driver_settings *settings, struct redis_driver **ret)
{
    struct redis_driver *d = calloc(1, sizeof *d);
    if (d == NULL) {
        return CONCLAVE_ENOMEM;
    }
    d->s = *settings;
    if (uv_timer_init(settings->loop, &d->timer) != 0) {
        abort(); /* cannot fail: it allocates nothing */
    }
    d->timer.data = d;
    *ret = d;
    return 0;
}

static void plan_driver_on_timer_closed(uv_handle_t *handle)
{
    struct redis_driver *d = handle->data;
    void (*done)(void *) = d->done;
    void *ctx = d->done_ctx;
    free(d);
    if (done != NULL) {
        done(ctx);
    }
}

void redis_driver_close(struct redis_driver *driver, void (*done)(void *ctx), void *ctx)
{
    redis_driver_stop(driver);
    driver_enter(driver, DRIVER_CLOSED);
    driver->done = done;
    driver->done_ctx = ctx;
    uv_close((uv_handle_t *)&driver->timer, plan_driver_on_timer_closed);
}
