/* The simple master switch: an election, and a connection of its own unless it is given one. */
#include "client/core/sized.h"
#include <conclave/election.h>
#include <conclave/master_switch.h>

#include <stdatomic.h>
#include <stdlib.h>

enum { CLOSE_TIMEOUT_MS = 2000 };

struct conclave_master_switch {
    struct conclave_client *client; /* its own, NULL: the program's */
    struct conclave_recipes *recipes;
    struct conclave_election *election;
    conclave_on_master_fn on_master;
    conclave_on_slave_fn on_slave;
    void *ctx;
    atomic_int error;
};

/* --- the election's callbacks --------------------------------------------------------- */

static int switch_on_elected(struct conclave_election *election, struct conclave_token token,
                             bool regrant, void *ctx)
{
    struct conclave_master_switch *sw = ctx;
    return sw->on_master != NULL ? sw->on_master(sw, token, sw->ctx) : 0;
}

static void switch_on_revoked(struct conclave_election *election, int why, int64_t stop_within_ms,
                              void *ctx)
{
    struct conclave_master_switch *sw = ctx;
    if (sw->on_slave != NULL) {
        sw->on_slave(sw, stop_within_ms, sw->ctx);
    }
}

static void switch_on_closed(struct conclave_election *election, int why, void *ctx)
{
    struct conclave_master_switch *sw = ctx;
    atomic_store(&sw->error, why);
}

/* --- beginning and end ------------------------------------------------------------------ */

static int switch_connection_begin(struct conclave_master_switch *sw,
                                   const struct conclave_master_switch_options *o)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    if (o->recipes != NULL) {
        sw->recipes = o->recipes;
        return 0;
    }
    options.servers = o->servers;
    options.session_timeout_ms = o->session_timeout_ms;
    int error = conclave_client_open(&options, &sw->client);
    if (error == 0) {
        error = conclave_client_start(sw->client);
    }
    if (error == 0) {
        error = conclave_recipes_open(sw->client, &sw->recipes);
    }
    return error;
}

static void switch_connection_end(struct conclave_master_switch *sw)
{
    if (sw->client != NULL) {
        conclave_recipes_destroy(sw->recipes);
        conclave_client_close(sw->client, CLOSE_TIMEOUT_MS);
    }
}

static int switch_election_begin(struct conclave_master_switch *sw,
                                 const struct conclave_master_switch_options *o,
                                 struct conclave_master_switch **ret)
{
    static const struct conclave_election_callbacks callbacks = {.size = sizeof callbacks,
                                                                 .on_elected = switch_on_elected,
                                                                 .on_revoked = switch_on_revoked,
                                                                 .on_closed = switch_on_closed};
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    options.path = o->path;
    options.id = o->id;
    options.data = o->data;
    options.data_len = o->data_len;
    *ret = sw; /* before a callback can run */
    return conclave_election_open(sw->recipes, &options, &callbacks, sw, &sw->election);
}

int conclave_master_switch_open(const struct conclave_master_switch_options *options,
                                conclave_on_master_fn on_master, conclave_on_slave_fn on_slave,
                                void *ctx, struct conclave_master_switch **ret)
{
    struct conclave_master_switch_options own = CONCLAVE_MASTER_SWITCH_OPTIONS_INIT;
    *ret = NULL;
    if (sized_read(&own, options) != 0) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_master_switch *sw = calloc(1, sizeof *sw);
    if (sw == NULL) {
        return CONCLAVE_ENOMEM;
    }
    sw->on_master = on_master;
    sw->on_slave = on_slave;
    sw->ctx = ctx;
    int error = switch_connection_begin(sw, &own);
    if (error == 0) {
        error = switch_election_begin(sw, &own, ret);
    }
    if (error != 0) {
        *ret = NULL;
        switch_connection_end(sw);
        free(sw);
    }
    return error;
}

int conclave_master_switch_close(struct conclave_master_switch *sw, int64_t timeout_ms)
{
    if (sw == NULL) {
        return 0;
    }
    int error = conclave_election_close_wait(sw->election, timeout_ms);
    if (error != 0) {
        return error;
    }
    conclave_election_destroy(sw->election);
    switch_connection_end(sw);
    free(sw);
    return 0;
}

/* --- asking ----------------------------------------------------------------------------- */

bool conclave_master_switch_is_master(const struct conclave_master_switch *sw)
{
    return conclave_election_is_leader(sw->election);
}

struct conclave_token conclave_master_switch_token(const struct conclave_master_switch *sw)
{
    return conclave_election_token(sw->election);
}

int64_t conclave_master_switch_lease_left_ms(const struct conclave_master_switch *sw)
{
    return conclave_election_lease_left_ms(sw->election);
}

int conclave_master_switch_yield(struct conclave_master_switch *sw)
{
    return conclave_election_resign(sw->election, true);
}

int conclave_master_switch_error(const struct conclave_master_switch *sw)
{
    return atomic_load(&sw->error);
}
