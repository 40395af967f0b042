/* The public functions of an election: what they check, copy and ask of the machine in
 * election.c. */
#include "recipes/hold/election.h"

#include "client/core/acl.h"
#include "client/core/path.h"
#include "recipes/engine/option_copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    DATA_MAX = 64 * 1024,
    ID_MAX = 1024,
};

/* --- start ----------------------------------------------------------------------- */

static bool election_options_valid(const struct conclave_election_options *o)
{
    if (o->size < sizeof *o || o->path == NULL || !path_is_valid(o->path, false) ||
        strcmp(o->path, "/") == 0) {
        return false;
    }
    if (o->id != NULL && (strchr(o->id, '\n') != NULL || strlen(o->id) > ID_MAX)) {
        return false;
    }
    return o->data_len <= DATA_MAX && (unsigned)o->naming <= CONCLAVE_NAMING_KAZOO &&
           o->lease.heartbeat_ms >= 0 && o->lease.grace_ms >= 0 && o->takeover_delay_ms >= 0 &&
           o->backoff_min_ms >= 0 && o->backoff_max_ms >= o->backoff_min_ms;
}

/* What the node holds: the id, and on the next line the user's data. */
static char *election_node_data(const char *id, const void *data, size_t len, size_t *ret_len)
{
    size_t id_len = strlen(id);
    char *text = malloc(id_len + len + 2);
    if (text == NULL) {
        return NULL;
    }
    /* bytes, no string: NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
    memcpy(text, id, id_len);
    *ret_len = id_len;
    if (len > 0) {
        text[id_len] = '\n';
        memcpy(text + id_len + 1, data, len);
        *ret_len += len + 1;
    }
    return text;
}

static bool election_copy_options(struct conclave_election *e,
                                  const struct conclave_election_options *o)
{
    e->options = *o;
    e->path = strdup(o->path);
    e->leader_dir = text_concat(o->path, ".leader");
    e->current_path = text_concat(o->path, ".leader/current");
    e->last_path = text_concat(o->path, ".leader/last");
    e->id = o->id != NULL ? strdup(o->id) : default_id();
    if (e->id != NULL) {
        e->data = election_node_data(e->id, o->data, o->data_len, &e->data_len);
    }
    if (!acl_copy_option(o->acl, o->acl_count, &e->acl, &e->options.acl_count)) {
        return false;
    }
    e->options.path = e->path;
    e->options.id = e->id;
    e->options.data = NULL; /* e->data holds it */
    e->options.data_len = 0;
    e->options.acl = e->acl;
    return e->path != NULL && e->leader_dir != NULL && e->current_path != NULL &&
           e->last_path != NULL && e->data != NULL;
}

void election_free_copies(struct conclave_election *e)
{
    free(e->path);
    free(e->leader_dir);
    free(e->current_path);
    free(e->last_path);
    free(e->id);
    free(e->data);
    free(e->acl);
    free(e);
}

int conclave_election_open(struct conclave_recipes *rt,
                           const struct conclave_election_options *options,
                           const struct conclave_election_callbacks *callbacks, void *ctx,
                           struct conclave_election **ret)
{
    int error = client_check(rt->client);
    if (error != 0) {
        return error;
    }
    if (options == NULL || !election_options_valid(options)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_election *e = calloc(1, sizeof *e);
    if (e == NULL || !election_copy_options(e, options)) {
        if (e != NULL) {
            election_free_copies(e);
        }
        return CONCLAVE_ENOMEM;
    }
    if (callbacks != NULL) {
        e->callbacks = *callbacks;
    }
    e->ctx = ctx;
    client_lock(rt->client);
    error = contender_may_start(rt, &e->options.lease);
    if (error != 0) {
        client_unlock(rt->client);
        election_free_copies(e);
        return error;
    }
    election_init(e, rt);
    *ret = e; /* before a callback can run */
    if (e->options.observe || e->options.observe_only) {
        observer_start(&e->observer);
    }
    contender_run(&e->c);
    client_unlock(rt->client);
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
    struct conclave_client *client = election_rt(e)->client;
    int error = recipes_may_block(election_rt(e));
    if (error != 0) {
        return error;
    }
    client_lock(client);
    handle_ref(&e->c.handle);
    error = client_wait(client, election_leads_or_ended, e, client_deadline_ns(client, timeout_ms));
    if (error == 0 && e->c.state != CONTENDER_HELD) {
        error = e->c.closing.ending ? e->c.closing.why : CONCLAVE_ECANCELED;
    } else if (error == 0 && ret_token != NULL) {
        ret_token->czxid = e->c.token;
    }
    handle_unref(&e->c.handle);
    client_unlock(client);
    return error;
}

int conclave_election_close_wait(struct conclave_election *e, int64_t timeout_ms)
{
    return contender_close_wait(&e->c, timeout_ms);
}

/* --- asking for changes ------------------------------------------------------------- */

int conclave_election_ack(struct conclave_election *e)
{
    struct conclave_client *client = election_rt(e)->client;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    if (e->c.closing.ending) {
        error = CONCLAVE_ECLOSED;
    } else if (!contender_holds(&e->c)) {
        error = CONCLAVE_ENOTOWNER;
    } else if (!e->acked) {
        e->ack_wanted = true;
        contender_run(&e->c);
    }
    client_unlock(client);
    return error;
}

int conclave_election_resign(struct conclave_election *e, bool requeue)
{
    struct conclave_client *client = election_rt(e)->client;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    if (e->c.closing.ending) {
        error = CONCLAVE_ECLOSED;
    } else {
        e->resign = requeue ? RESIGN_REQUEUE : RESIGN_PARK;
        contender_run(&e->c);
        client_notify(client);
    }
    client_unlock(client);
    return error;
}

int conclave_election_set_data(struct conclave_election *e, const void *data, size_t len)
{
    struct conclave_client *client = election_rt(e)->client;
    size_t node_len;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    if (len > DATA_MAX || (data == NULL && len > 0)) {
        return CONCLAVE_EINVAL;
    }
    char *text = election_node_data(e->id, data, len, &node_len);
    if (text == NULL) {
        return CONCLAVE_ENOMEM;
    }
    client_lock(client);
    if (e->c.closing.ending) {
        error = CONCLAVE_ECLOSED;
        free(text);
    } else {
        free(e->data);
        e->data = text;
        e->data_len = node_len;
        e->c.create.node.data = text; /* of a creation that is tried again */
        e->c.create.node.data_len = node_len;
        e->data_dirty = true;
        e->ack_data_old = true;
        contender_run(&e->c);
    }
    client_unlock(client);
    return error;
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
