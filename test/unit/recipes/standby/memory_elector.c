/*
 * Every allocation of an elector fails once, in turn: it becomes active, writes, gives way to a rival,
 * fences it and is active again, in the one layout and in the line. Never are both active.
 */
#include "support/starving.h"

#include <conclave/elector.h>
#include <conclave/op.h>

#define DIR "/app/service"

static bool herd_free;

/* One of the two members, and the arguments of its callbacks. */
struct member {
    struct starving *s;
    struct conclave_elector *elector;
    const char *id;
    bool in_order; /* sure to have stopped */
    _Atomic int activated;
    _Atomic int deactivated;
    _Atomic int fenced;
    _Atomic int closed;
    _Atomic int other; /* that of the other member was active as well */
    struct member *rival;
};

static int on_activate(struct conclave_elector *elector, struct conclave_token token, void *ctx)
{
    struct member *m = ctx;
    m->activated++;
    m->other += m->rival->activated != m->rival->deactivated;
    return 0;
}

static int on_deactivate(struct conclave_elector *elector, int why, int64_t stop_within_ms,
                         void *ctx)
{
    struct member *m = ctx;
    m->deactivated++;
    return m->in_order ? 0 : -1;
}

static int on_fence(struct conclave_elector *elector, const struct conclave_breadcrumb *old,
                    struct conclave_token mine, void *ctx)
{
    struct member *m = ctx;
    m->fenced++;
    return 0;
}

static void on_closed(struct conclave_elector *elector, int why, void *ctx)
{
    ((struct member *)ctx)->closed++;
}

static int start(struct member *m, struct conclave_recipes *recipes)
{
    static const struct conclave_elector_callbacks callbacks = {
        sizeof callbacks, on_activate, on_deactivate, on_fence, NULL, on_closed};
    struct conclave_elector_options options = CONCLAVE_ELECTOR_OPTIONS_INIT;
    options.dir = DIR;
    options.id = m->id;
    options.data = "where";
    options.data_len = 5;
    options.herd_free = herd_free;
    options.listed = true;
    options.backoff_min_ms = 20;
    options.backoff_max_ms = 40;
    return conclave_elector_open(recipes, &options, &callbacks, m, &m->elector);
}

static bool is_active(const struct member *m)
{
    return m->activated > m->deactivated && conclave_elector_is_active(m->elector);
}

static void write_fenced(struct starving *s, struct member *m)
{
    const struct conclave_op part = conclave_op_set("/app", "x", 1, -1);
    struct conclave_reply *reply = NULL;
    int error = conclave_elector_fenced_multi(m->elector, &part, 1, &reply);
    if (error == CONCLAVE_ENOMEM) {
        conclave_reply_free(reply);
        error = conclave_elector_fenced_multi(m->elector, &part, 1, &reply);
    }
    CHECK(s, error == 0, "a fenced write");
    conclave_reply_free(reply);
}

static void look(struct starving *s)
{
    struct conclave_elector_view *view = NULL;
    struct conclave_elector_member **list;
    size_t count = 0;
    int error;
    TWICE(error, conclave_elector_members(s->recipes, DIR, PATIENCE_MS, &list, &count));
    CHECK(s, error == 0, "members");
    if (error == 0) {
        conclave_elector_members_free(list, count);
    }
    TWICE(error, conclave_elector_view(s->recipes, DIR, PATIENCE_MS, &view));
    CHECK(s, error == 0, "a view");
    if (error == 0) {
        CHECK(s, view->lock != NULL && view->active != NULL, "another view");
        conclave_elector_view_free(view);
    }
}

static void end(struct starving *s, struct member *m)
{
    if (m->elector == NULL || s->wrong != NULL) {
        return;
    }
    CHECK(s, conclave_elector_close_wait(m->elector, PATIENCE_MS) == 0, "did not close");
    CHECK(s, m->closed == 1, "the end was not told once");
    CHECK(s, m->activated == m->deactivated, "activate and deactivate do not alternate");
    conclave_elector_destroy(m->elector);
}

static int give_way(struct starving *s, struct member *mine, struct member *rival)
{
    int error;
    AWAIT(s, is_active(mine), "never active");
    if (s->wrong != NULL) {
        return 0;
    }
    write_fenced(s, mine);
    look(s);
    FED(s, error = start(rival, s->rival));
    CHECK(s, error == 0, "no rival");
    AWAIT(s, s->wrong != NULL || conclave_elector_state(rival->elector) == CONCLAVE_ELECTOR_STANDBY,
          "the rival does not wait");
    TWICE(error, conclave_elector_cede(mine->elector, 200));
    CHECK(s, error == 0, "does not cede");
    AWAIT(s, is_active(rival) || mine->activated > 1, "nobody is active");
    if (s->wrong == NULL && !is_active(rival)) {
        /* Without memory the lock went late, when this one stayed out no more. */
        CHECK(s, conclave_elector_cede(mine->elector, 200) == 0, "does not cede again");
        AWAIT(s, is_active(rival), "the rival is not active");
    }
    FED(s, end(s, rival)); /* it does not say that it has stopped in order */
    AWAIT(s, is_active(mine), "not active again");
    CHECK(s, mine->fenced > 0, "the one before was not fenced");
    return 0;
}

static int scene(struct starving *s)
{
    struct member mine = {.s = s, .id = "mine", .in_order = true};
    struct member rival = {.s = s, .id = "rival"};
    int error;
    mine.rival = &rival;
    rival.rival = &mine;
    TWICE(error, start(&mine, s->recipes));
    MUST(s, error, "start");
    if (error == 0) {
        error = give_way(s, &mine, &rival);
    }
    end(s, &mine);
    CHECK(s, mine.other == 0 && rival.other == 0, "both were active");
    return error;
}

static bool is_standby(struct starving *s, const char *id)
{
    struct conclave_elector_member **m;
    if (conclave_elector_member(s->rival, DIR, id, PATIENCE_MS, &m) != 0) {
        return false;
    }
    bool standby = m[0]->state == CONCLAVE_ELECTOR_STANDBY;
    conclave_elector_members_free(m, 1);
    return standby;
}

/* An operator without memory: the directory is made anew, and the active member is changed. */
static int operator_scene(struct starving *s)
{
    struct member first = {.s = s, .id = "first", .in_order = true};
    struct member second = {.s = s, .id = "second", .in_order = true};
    struct conclave_hand_over result = CONCLAVE_HAND_OVER_INIT;
    int error;
    first.rival = &second;
    second.rival = &first;
    for (int i = 0; i < 2; i++) { /* it is made, then it exists */
        TWICE(error, conclave_elector_reset(s->recipes, DIR, NULL, PATIENCE_MS));
        CHECK(s, error == 0, "a reset");
    }
    FED(s, error = start(&first, s->rival));
    CHECK(s, error == 0, "no first member");
    AWAIT(s, is_active(&first), "never active");
    TWICE(error, start(&second, s->recipes));
    CHECK(s, error == 0, "no second member");
    FED(s, AWAIT(s, is_standby(s, "second"), "not on standby"));
    TWICE(error, conclave_elector_hand_over(s->recipes, DIR, "second", PATIENCE_MS, &result));
    CHECK(s, error == 0 && strcmp(result.active, "second") == 0, "a hand-over");
    CHECK(s, !fake_zk_exists(s->zk, DIR "/HandOver"), "a request is left");
    end(s, &second);
    FED(s, end(s, &first));
    CHECK(s, first.other == 0 && second.other == 0, "both were active");
    return 0;
}

static void every_allocation_of_an_operator_fails_once(void **state)
{
    herd_free = false;
    starving_sweep(operator_scene, true, 60);
}

static void every_allocation_of_an_elector_fails_once(void **state)
{
    herd_free = false;
    starving_sweep(scene, true, 60);
}

static void every_allocation_of_an_elector_in_a_line_fails_once(void **state)
{
    herd_free = true;
    starving_sweep(scene, true, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_an_elector_fails_once),
        cmocka_unit_test(every_allocation_of_an_elector_in_a_line_fails_once),
        cmocka_unit_test(every_allocation_of_an_operator_fails_once),
    };
    return RUN_TESTS(tests);
}
