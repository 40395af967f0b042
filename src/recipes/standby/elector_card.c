/* An elector's node in the list of members: a self-healing node whose data follow the elector's state. */
#include "recipes/standby/elector.h"

#include <stdlib.h>
#include <string.h>

static void elector_card_changed(struct member *m)
{
    contender_run(&CONTAINER_OF(m, struct conclave_elector, card)->c);
}

/* The member takes part without being listed. */
static void elector_card_failed(struct member *m, int error)
{
}

void elector_card_init(struct conclave_elector *e)
{
    if (!e->options.listed) {
        return;
    }
    member_init(&e->card, &e->c.handle);
    e->card.path = e->card_path;
    e->card.parent = e->members_path;
    e->card.incarnation = e->incarnation;
    e->card.acl = e->c.acl;
    e->card.acl_count = e->c.acl_count;
    e->card.changed = elector_card_changed;
    e->card.failed = elector_card_failed;
}

static struct member_card elector_card_now(const struct conclave_elector *e)
{
    bool holds = contender_holds(&e->c);
    return (struct member_card){
        .observer = e->observer,
        .state = elector_state(e),
        .health = e->health,
        .token = holds ? e->c.token : 0,
        .ready = holds && (e->options.reports_ready ? e->ready : e->c.state == CONTENDER_HELD),
    };
}

static bool card_equal(const struct member_card *a, const struct member_card *b)
{
    return a->observer == b->observer && a->state == b->state && a->health == b->health &&
           a->token == b->token && a->ready == b->ready;
}

void elector_card_publish(struct conclave_elector *e)
{
    struct member_card now = elector_card_now(e);
    if (!e->options.listed || e->card.leaving ||
        (e->card.active && card_equal(&now, &e->card_told))) {
        return;
    }
    struct buf card;
    size_t len = 0;
    buf_init(&card, 0);
    member_card_write(&card, &now, e->data, e->data_len);
    char *text = buf_ok(&card) ? member_text(e->incarnation, card.data, card.len, &len) : NULL;
    buf_finish(&card);
    if (text == NULL) {
        machine_retry_later(&e->c.machine);
        return;
    }
    e->card_told = now;
    member_set_data_take(&e->card, text, len);
    if (!e->card.active) {
        member_start(&e->card);
    }
}

void elector_card_on_state(struct conclave_elector *e, enum conclave_state state)
{
    if (e->card.active) {
        if (state_is_final(state)) {
            member_leave(&e->card);
        }
        member_on_state(&e->card, state);
    }
}

bool elector_card_leave(struct conclave_elector *e)
{
    if (!e->card.active) {
        return true;
    }
    member_leave(&e->card);
    return e->card.left;
}
