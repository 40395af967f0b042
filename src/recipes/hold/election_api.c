/* The public functions of an election: their checks, copies and requests to the machine in
 * election.c. */
#include "recipes/hold/election.h"

#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { DATA_MAX = 64 * 1024 };

/* --- start ----------------------------------------------------------------------- */

static bool election_options_valid(const struct conclave_election_options *o)
{
    return o->naming != CONCLAVE_NAMING_PLAIN && o->data_len <= DATA_MAX &&
           o->takeover_delay_ms >= 0 && o->backoff_min_ms >= 0 &&
           o->backoff_max_ms >= o->backoff_min_ms;
}

/* The node's data: the id, and on the next line the user's data; fixed: that alone, without it the id. */
static char *election_node_data(bool fixed, const char *id, const void *data, size_t len,
                                size_t *ret_len)
{
    if (fixed && len > 0) {
        *ret_len = len;
        return bytes_copy(data, len);
    }
    size_t id_len = strlen(id);
    char *text = malloc(id_len + len + 2);
    char *at = text;
    if (text == NULL) {
        return NULL;
    }
    *ret_len = id_len;
    block_add(&at, id, id_len);
    if (len > 0) {
        text[id_len] = '\n';
        block_add(&at, data, len);
        *ret_len += len + 1;
    }
    return text;
}

bool election_copy(struct contender *c, const void *own)
{
    struct conclave_election *e = election_of(c);
    const struct conclave_election_options *o = own;
    e->options = *o;
    e->leader_dir = text_concat(o->path, ".leader");
    e->current_path = text_concat(o->path, ".leader/current");
    e->last_path = text_concat(o->path, ".leader/last");
    e->data = election_node_data(election_is_fixed(e), c->id, o->data, o->data_len, &e->data_len);
    e->options.ack = o->ack && !election_is_fixed(e); /* its node is the announcement */
    return e->leader_dir != NULL && e->current_path != NULL && e->last_path != NULL &&
           e->data != NULL;
}

void election_free_copies(struct contender *c)
{
    struct conclave_election *e = election_of(c);
    free(e->leader_dir);
    free(e->current_path);
    free(e->last_path);
    free(e->data);
}

int conclave_election_open(struct conclave_recipes *rt,
                           const struct conclave_election_options *options,
                           const struct conclave_election_callbacks *callbacks, void *ctx,
                           struct conclave_election **ret)
{
    struct conclave_election_options own = CONCLAVE_ELECTION_OPTIONS_INIT;
    struct conclave_election_callbacks calls = CONCLAVE_ELECTION_CALLBACKS_INIT;
    struct contender *c;
    bool valid =
        sized_read_both(&own, options, &calls, callbacks) == 0 && election_options_valid(&own);
    struct contender_options common = {own.path,   own.id,  own.naming,
                                       &own.lease, own.acl, own.acl_count};
    int error = contender_open(rt, &election_class, &common, valid ? &own : NULL, ctx, &c);
    if (error != 0) {
        return error;
    }
    struct conclave_election *e = election_of(c);
    e->callbacks = calls;
    *ret = e; /* before a callback can run */
    if (own.observe || own.observe_only) {
        observer_start(&e->observer);
    }
    contender_opened(c);
    return 0;
}

/* --- asking ---------------------------------------------------------------------- */

bool conclave_election_is_leader(const struct conclave_election *e)
{
    return grant_until_ns(&e->c.grant, election_rt(e)) != 0;
}

int64_t conclave_election_lease_left_ms(const struct conclave_election *e)
{
    return grant_left_ms(&e->c.grant, election_rt(e));
}

int64_t conclave_election_lease_until_ns(const struct conclave_election *e)
{
    return grant_until_ns(&e->c.grant, election_rt(e));
}

struct conclave_token conclave_election_token(const struct conclave_election *e)
{
    return grant_token(&e->c.grant, election_rt(e));
}

void conclave_election_node(const struct conclave_election *e, char *buf, size_t len)
{
    contender_node_name(&e->c, buf, len);
}

/* --- waiting --------------------------------------------------------------------- */

static bool election_leads_or_ended(void *ctx)
{
    struct conclave_election *e = ctx;
    return e->c.state == CONTENDER_HELD || e->c.closing.ending || e->parked;
}

int conclave_election_wait(struct conclave_election *e, int64_t timeout_ms,
                           struct conclave_token *ret_token)
{
    int error = handle_begin_wait(&e->c.handle);
    if (error != 0) {
        return error;
    }
    error = handle_wait(&e->c.handle, election_leads_or_ended, e, timeout_ms);
    if (error == 0 && e->c.state != CONTENDER_HELD) {
        error = e->c.closing.ending ? e->c.closing.why : CONCLAVE_ECANCELED;
    } else if (error == 0 && ret_token != NULL) {
        ret_token->czxid = e->c.token;
    }
    handle_end_wait(&e->c.handle);
    return error;
}

/* Queues it if it is out of the queue, or about to leave it. */
static int election_queue(struct conclave_election *e)
{
    int error = contender_begin_call(&e->c);
    if (error == 0) {
        e->parked = false;
        e->resign = e->resign == RESIGN_PARK ? RESIGN_REQUEUE : e->resign;
        contender_end_call(&e->c);
    }
    return error;
}

static bool election_stepped_down(void *ctx)
{
    const struct conclave_election *e = ctx;
    return !contender_is_granted(&e->c);
}

/* Out of the queue. Returns when is_leader is false; what is left to do asks the servers. */
static void election_end_turn(struct conclave_election *e)
{
    if (conclave_election_resign(e, false) == 0 && handle_begin_wait(&e->c.handle) == 0) {
        int error = handle_wait(&e->c.handle, election_stepped_down, e, CONCLAVE_FOREVER);
        assert(error == 0);
        handle_end_wait(&e->c.handle);
    }
}

int conclave_election_take_turn(struct conclave_election *e, conclave_turn_fn fn, void *ctx,
                                int64_t timeout_ms)
{
    struct conclave_token token;
    int error = fn == NULL ? CONCLAVE_EINVAL : recipes_may_block(election_rt(e));
    error = error == 0 ? election_queue(e) : error;
    if (error != 0) {
        return error;
    }
    error = conclave_election_wait(e, timeout_ms, &token);
    if (error == 0) {
        fn(e, token, ctx);
        error = conclave_election_token(e).czxid == token.czxid ? 0 : CONCLAVE_ELOST;
    }
    election_end_turn(e);
    return error;
}

/* Of an election that ended because another leads; NULL: it leads no more. */
static int election_lost_race(struct conclave_recipes *rt, const char *path, int64_t timeout_ms,
                              struct conclave_participant **ret_leader)
{
    int error = conclave_election_find_leader(rt, path, timeout_ms, ret_leader);
    return error == 0 || error == CONCLAVE_NO_NODE ? CONCLAVE_EBUSY : error;
}

int conclave_election_race(struct conclave_recipes *rt,
                           const struct conclave_election_options *options,
                           const struct conclave_election_callbacks *callbacks, void *ctx,
                           int64_t timeout_ms, struct conclave_election **ret,
                           struct conclave_participant **ret_leader)
{
    struct conclave_election_options once = CONCLAVE_ELECTION_OPTIONS_INIT;
    struct conclave_election *election;
    if (ret_leader != NULL) {
        *ret_leader = NULL;
    }
    if (sized_read(&once, options) != 0 || once.observe_only) {
        return CONCLAVE_EINVAL;
    }
    int error = recipes_may_block(rt);
    error = error == 0 ? client_may_wait(rt->client) : error;
    if (error != 0) {
        return error;
    }
    once.no_wait = true;
    error = conclave_election_open(rt, &once, callbacks, ctx, &election);
    if (error != 0) {
        return error;
    }
    error = conclave_election_wait(election, timeout_ms, NULL);
    if (error == 0) {
        *ret = election;
        return 0;
    }
    conclave_election_close(election);
    int ended = conclave_election_close_wait(election, CONCLAVE_FOREVER);
    assert(ended == 0);
    conclave_election_destroy(election);
    return error == CONCLAVE_EBUSY && ret_leader != NULL
               ? election_lost_race(rt, once.path, timeout_ms, ret_leader)
               : error;
}

int conclave_election_close_wait(struct conclave_election *e, int64_t timeout_ms)
{
    return contender_close_wait(&e->c, timeout_ms);
}

/* --- asking for changes ------------------------------------------------------------- */

int conclave_election_ack(struct conclave_election *e)
{
    int error = contender_begin_call(&e->c);
    if (error == 0) {
        error = contender_holds(&e->c) ? 0 : CONCLAVE_ENOTOWNER;
        e->ack_wanted = e->ack_wanted || (error == 0 && !e->acked && !election_is_fixed(e));
        contender_end_call(&e->c);
    }
    return error;
}

int conclave_election_resign(struct conclave_election *e, bool requeue)
{
    int error = contender_begin_call(&e->c);
    if (error == 0) {
        e->resign = requeue ? RESIGN_REQUEUE : RESIGN_PARK;
        contender_end_call(&e->c);
    }
    return error;
}

int conclave_election_set_data(struct conclave_election *e, const void *data, size_t len)
{
    size_t node_len;
    int error = client_check(election_rt(e)->client);
    if (error != 0) {
        return error;
    }
    if (len > DATA_MAX || (data == NULL && len > 0)) {
        return CONCLAVE_EINVAL;
    }
    char *text = election_node_data(election_is_fixed(e), e->c.id, data, len, &node_len);
    if (text == NULL) {
        return CONCLAVE_ENOMEM;
    }
    error = contender_begin_call(&e->c);
    if (error != 0) {
        free(text);
        return error;
    }
    free(e->data);
    e->data = text;
    e->data_len = node_len;
    e->c.create.node.data = text; /* of a creation that is tried again */
    e->c.create.node.data_len = node_len;
    e->data_dirty = true;
    e->ack_data_old = true;
    contender_end_call(&e->c);
    return 0;
}

/* --- fenced transaction ------------------------------------------------------------- */

int conclave_election_fenced_multi(struct conclave_election *e, const struct conclave_op *parts,
                                   size_t count, struct conclave_reply **ret_reply)
{
    return contender_fenced_multi(&e->c, parts, count, ret_reply);
}

/* --- the end ----------------------------------------------------------------------- */

void conclave_election_close(struct conclave_election *e)
{
    contender_close(&e->c);
}

void conclave_election_destroy(struct conclave_election *e)
{
    if (e != NULL) {
        closing_destroy(&e->c.closing);
    }
}
