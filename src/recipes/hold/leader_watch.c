#include "recipes/hold/leader_watch.h"

#include "recipes/engine/option_copies.h"
#include "recipes/hold/election.h"

#include <stdlib.h>
#include <string.h>

static struct observer *observer_of_step(struct step *step)
{
    return CONTAINER_OF(step, struct observer, step);
}

/* Lost links are followed by new ones; other failed requests are tried again, and end the handle if
 * the error is final. */
static void observer_trouble(struct observer *o, int error)
{
    if (!machine_tries_again(&o->machine, error)) {
        contender_end(&o->election->c, error);
        contender_run(&o->election->c);
    }
}

static void observer_retry_later(struct observer *o)
{
    machine_retry_later(&o->machine);
}

/* --- the reports ------------------------------------------------------------------ */

static void observer_news_free(struct leader_news *news)
{
    if (news != NULL) {
        free(news->node);
        free(news->text);
        free(news);
    }
}

static bool observer_news_equal(const struct leader_news *a, const struct leader_news *b)
{
    if (a->present != b->present || a->acked != b->acked || a->czxid != b->czxid) {
        return false;
    }
    return !a->present || (a->data_len == b->data_len && strcmp(a->text, b->text) == 0 &&
                           memcmp(a->data, b->data, a->data_len) == 0);
}

/* Takes news. */
static void observer_see(struct observer *o, struct leader_news *news)
{
    if (news->present && news->czxid < o->max_czxid) {
        news->present = false; /* its time is over, though it can still be read */
        news->acked = false;
        news->czxid = 0;
    }
    if (news->czxid > o->max_czxid) {
        o->max_czxid = news->czxid;
    }
    if (o->seen != NULL && observer_news_equal(o->seen, news)) {
        observer_news_free(news);
        return;
    }
    if (o->seen != NULL && !o->seen->in_use) {
        observer_news_free(o->seen);
    }
    o->seen = news;
    o->due = true;
    handle_post(&o->election->c.handle);
}

/* candidate: the data of its node. NULL without memory. */
static struct leader_news *observer_news_make(const char *node, const void *candidate, size_t len,
                                              bool fixed)
{
    struct leader_news *news = calloc(1, sizeof *news);
    const char *id;
    if (news == NULL || (news->node = strdup(node)) == NULL ||
        (news->text = bytes_copy(candidate, len)) == NULL) {
        observer_news_free(news);
        return NULL;
    }
    candidate_split(news->text, len, fixed, &id, &news->data, &news->data_len);
    news->present = true;
    return news;
}

static void observer_see_leader(struct observer *o, const char *node, const void *candidate,
                                size_t len, bool acked, int64_t czxid, int64_t session_id)
{
    bool fixed = election_is_fixed(o->election);
    struct leader_news *news = observer_news_make(node, candidate, len, fixed);
    if (news == NULL) {
        observer_retry_later(o);
        return;
    }
    news->acked = acked;
    news->czxid = czxid;
    news->session_id = session_id;
    if (!name_parse(o->election->options.naming, node, &news->sequence)) {
        news->sequence = 0;
    }
    observer_see(o, news);
}

static void observer_see_none(struct observer *o)
{
    struct leader_news *news = calloc(1, sizeof *news);
    if (news == NULL) {
        observer_retry_later(o);
        return;
    }
    observer_see(o, news);
}

/* --- <path>.leader/current ---------------------------------------------------------- */

static void observer_on_current_read(struct step *step, const struct conclave_reply *reply)
{
    struct observer *o = observer_of_step(step);
    struct leader_text leader;
    if (reply->error == 0) {
        char *text = bytes_copy(reply->data, reply->data_len);
        if (text == NULL) {
            observer_retry_later(o);
            return;
        }
        if (leader_text_parse(text, reply->data_len, &leader)) {
            observer_see_leader(o, leader.node, leader.candidate, leader.candidate_len, true,
                                leader.czxid, leader.session_id);
        } else {
            o->has_current = false; /* not an election's: as if it were not there */
        }
        free(text);
    } else if (reply->error != CONCLAVE_NO_NODE) {
        watch_slot_clear(&o->current); /* so that it is asked again */
        observer_trouble(o, reply->error);
    }
}

static void observer_on_current(struct step *step, const struct conclave_reply *reply)
{
    struct observer *o = observer_of_step(step);
    bool known = reply->error == 0 || reply->error == CONCLAVE_NO_NODE;
    watch_slot_answered(&o->current, known);
    o->has_current = reply->error == 0;
    if (!known) {
        observer_trouble(o, reply->error);
    } else if (o->has_current && o->active) {
        watch_slot_clear(&o->first);
        step_ask(&o->step, CONCLAVE_OP_GET, o->election->current_path, observer_on_current_read);
    }
}

/* --- candidates -------------------------------------------------------------------- */

static void observer_watch_path(struct observer *o);

static void observer_on_first(struct step *step, const struct conclave_reply *reply)
{
    struct observer *o = observer_of_step(step);
    watch_slot_answered(&o->first, reply->error == 0);
    if (reply->error == 0) {
        observer_see_leader(o, o->candidate, reply->data, reply->data_len, false, reply->stat.czxid,
                            reply->stat.ephemeral_owner);
    } else if (reply->error != CONCLAVE_NO_NODE) {
        observer_trouble(o, reply->error);
    } else if (election_is_fixed(o->election)) {
        observer_watch_path(o);
    }
}

/* name NULL: the election's own node. */
static void observer_read_first(struct observer *o, const char *name)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
    const char *parent = o->election->c.path;
    char *path = name != NULL ? path_join(parent, name) : strdup(parent);
    name = name != NULL ? name : path_name(parent);
    char *copy = strdup(name);
    if (path == NULL || copy == NULL || watch_slot_prepare(&o->first, path, &op) != 0) {
        free(copy);
        observer_retry_later(o);
    } else {
        free(o->candidate);
        o->candidate = copy;
        step_submit(&o->step, &op, observer_on_first);
    }
    free(path);
}

static void observer_on_parent(struct step *step, const struct conclave_reply *reply)
{
    struct observer *o = observer_of_step(step);
    watch_slot_answered(&o->first, reply->error == 0 || reply->error == CONCLAVE_NO_NODE);
    if (reply->error == CONCLAVE_NO_NODE) {
        observer_see_none(o);
    } else if (reply->error == 0) {
        watch_slot_clear(&o->first); /* made in between: listed again */
    } else {
        observer_trouble(o, reply->error);
    }
}

/* The election's node is not there: waits for it. */
static void observer_watch_path(struct observer *o)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, NULL, 0);
    if (watch_slot_prepare(&o->first, o->election->c.path, &op) == 0) {
        step_submit(&o->step, &op, observer_on_parent);
    } else {
        observer_retry_later(o);
    }
}

/* Answers both lists: the first, without a watch, and the second, with one, when the first was
 * empty. */
static void observer_on_children(struct step *step, const struct conclave_reply *reply)
{
    struct observer *o = observer_of_step(step);
    struct line_entry *list = NULL;
    size_t count = 0;
    if (o->first.pending) {
        watch_slot_answered(&o->first, reply->error == 0);
    }
    if (reply->error == CONCLAVE_NO_NODE) {
        observer_watch_path(o);
    } else if (reply->error != 0) {
        observer_trouble(o, reply->error);
    } else if (contenders_filter(o->election->options.naming, false, reply, &list, &count) != 0) {
        observer_retry_later(o);
    } else if (count > 0) {
        o->empty = false;
        contenders_sort(list, count, false);
        observer_read_first(o, list[0].name);
    } else if (o->first.armed) {
        observer_see_none(o);
    } else {
        o->empty = true;
    }
    free(list);
}

static void observer_list_candidates(struct observer *o)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, o->election->c.path, 0);
    if (election_is_fixed(o->election)) {
        observer_read_first(o, NULL);
        return;
    }
    if (o->empty) {
        o->empty = false;
        if (watch_slot_prepare(&o->first, o->election->c.path, &op) != 0) {
            observer_retry_later(o);
            return;
        }
    }
    step_submit(&o->step, &op, observer_on_children);
}

/* --- the machine ------------------------------------------------------------------- */

static void observer_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct observer *o = observer_of_step(step);
    o->synced = reply->error == 0;
    if (reply->error != 0) {
        observer_trouble(o, reply->error);
    }
}

static void observer_work(struct machine *machine)
{
    struct observer *o = CONTAINER_OF(machine, struct observer, machine);
    if (!o->active || o->step.busy || !machine_can_send(machine)) {
        return;
    }
    if (!o->synced) {
        step_ask(&o->step, CONCLAVE_OP_SYNC, o->election->c.path, observer_on_synced);
    } else if (!o->current.armed) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, NULL, 0);
        if (watch_slot_prepare(&o->current, o->election->current_path, &op) != 0) {
            observer_retry_later(o);
            return;
        }
        step_submit(&o->step, &op, observer_on_current);
    } else if (!o->has_current && !o->first.armed) {
        observer_list_candidates(o);
    }
}

void observer_run(struct observer *o)
{
    machine_run(&o->machine);
}

void observer_on_state(struct observer *o, enum conclave_state state)
{
    if (state == CONCLAVE_STATE_SUSPENDED || state == CONCLAVE_STATE_LOST) {
        o->synced = false; /* the next server may lag */
    }
    machine_resume(&o->machine);
    observer_run(o);
}

bool observer_tell(struct observer *o)
{
    struct conclave_election *e = o->election;
    struct conclave_client *client = machine_client(&o->machine);
    if (!o->due || !o->active) {
        return false;
    }
    struct leader_news *news = o->seen;
    o->due = false;
    if (e->callbacks.on_leader == NULL) {
        return true;
    }
    struct conclave_participant leader = {
        .node = news->node,
        .id = news->text,
        .data = news->data,
        .data_len = news->data_len,
        .session_id = news->session_id,
        .sequence = news->sequence,
        .self = news->present && e->c.node != NULL && strcmp(news->node, path_name(e->c.node)) == 0,
        .token = {news->czxid},
    };
    news->in_use = true;
    client_unlock(client);
    e->callbacks.on_leader(e, news->present ? &leader : NULL, news->acked, e->c.ctx);
    client_lock(client);
    news->in_use = false;
    if (news != o->seen) {
        observer_news_free(news);
    }
    return true;
}

void observer_init(struct observer *o, struct conclave_election *e)
{
    memset(o, 0, sizeof *o);
    o->election = e;
    machine_init(&o->machine, &e->c.handle, observer_work);
    machine_step_init(&o->machine, &o->step);
    machine_watch_init(&o->machine, &o->current);
    machine_watch_init(&o->machine, &o->first);
}

void observer_start(struct observer *o)
{
    o->active = true;
    observer_run(o);
}

void observer_stop(struct observer *o)
{
    o->active = false;
    machine_resume(&o->machine);
    if (!o->step.busy) {
        watch_slot_clear(&o->current);
        watch_slot_clear(&o->first);
    }
}

void observer_finish(struct observer *o)
{
    watch_slot_clear(&o->current);
    watch_slot_clear(&o->first);
    machine_resume(&o->machine);
    free(o->candidate);
    observer_news_free(o->seen);
}
