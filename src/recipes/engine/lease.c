#include "recipes/engine/lease.h"

#include "recipes/engine/recipe_runtime.h"

#include <stdlib.h>
#include <string.h>

enum {
    BEAT_BYTES_MAX = 256 * 1024, /* of one transaction, well below the server's packet limit */
    BEAT_PART_BYTES = 32,        /* bytes of a check without its path */
    BEATS_MAX = 8,               /* in flight: a slow answer must not hold back the next proof */
};

/* A heartbeat in flight. */
struct beat {
    struct list link;
    struct lease *lease;
    int64_t sent_ns;
    int64_t session_id;
    int64_t timeout_ms;             /* of the session, when it was sent */
    size_t count;                   /* of checks */
    struct lease_holder *holders[]; /* of each check; NULL: removed since */
};

bool lease_options_valid(const struct conclave_lease_options *o)
{
    return o->heartbeat_ms >= 0 && o->grace_ms >= 0 &&
           memcmp(o->reserved, (int64_t[4]){0}, sizeof o->reserved) == 0;
}

/* --- arithmetic ----------------------------------------------------------------- */

int64_t lease_end_ns(int64_t sent_ns, int64_t session_timeout_ms)
{
    return sent_ns + session_timeout_ms * 1000000 / 3 * 2;
}

int64_t lease_period_ms(int64_t wanted_ms, int64_t session_timeout_ms)
{
    int64_t sixth = session_timeout_ms / 6;
    int64_t period = wanted_ms > 0 && wanted_ms < sixth ? wanted_ms : sixth;
    return period > 0 ? period : 1;
}

static int64_t lease_margin_ms(int64_t session_timeout_ms)
{
    int64_t sixth = session_timeout_ms / 6;
    return sixth < 500 ? sixth : 500;
}

int64_t lease_grace_max_ms(int64_t session_timeout_ms)
{
    return session_timeout_ms / 3 - lease_margin_ms(session_timeout_ms);
}

int64_t lease_stop_within_ms(int64_t now_ns, int64_t until_ns, int64_t session_timeout_ms)
{
    int64_t end_ns = until_ns + lease_grace_max_ms(session_timeout_ms) * 1000000;
    return end_ns > now_ns ? (end_ns - now_ns) / 1000000 : 0;
}

/* --- heartbeats ----------------------------------------------------------------- */

static void lose(struct lease_holder *holder, struct lease *lease, int why)
{
    lease_remove(lease, holder);
    holder->on_lost(holder, why);
}

static void prove(struct lease_holder *holder, struct lease *lease, int64_t until_ns)
{
    struct conclave_client *client = lease->rt->client;
    int64_t now = client_now_ns(client);
    if (holder->until_ns != 0 && now >= holder->until_ns) {
        lose(holder, lease, CONCLAVE_ELOST); /* over, though its timer comes late: it stays over */
        return;
    }
    if (until_ns <= now || until_ns <= holder->until_ns) {
        return;
    }
    holder->until_ns = until_ns;
    client_timer_start(client, &holder->expiry, until_ns);
    holder->on_proved(holder);
}

static void on_expiry(struct conclave_client *client, void *ctx)
{
    struct lease_holder *holder = ctx;
    struct lease *lease = holder->lease;
    lose(holder, lease, CONCLAVE_ELOST);
}

static void schedule(struct lease *lease);
static void beat_all(struct lease *lease);

/* The checks failed: whoever's node is missing has lost. Parts behind the one that failed say
 * nothing. */
static bool beat_failed(struct beat *beat, const struct conclave_reply *reply)
{
    bool found = false;
    for (size_t i = 0; i < reply->results_count && i < beat->count; i++) {
        int error = reply->results[i]->error;
        if (error != 0 && error != CONCLAVE_RUNTIME_INCONSISTENCY) {
            found = true;
            if (beat->holders[i] != NULL) {
                lose(beat->holders[i], beat->lease,
                     error == CONCLAVE_NO_NODE ? CONCLAVE_NO_NODE : CONCLAVE_ELOST);
            }
        }
    }
    return found;
}

static void on_beat(struct conclave_client *client, const struct conclave_reply *reply, void *ctx)
{
    struct beat *beat = ctx;
    struct lease *lease = beat->lease;
    struct conclave_recipes *rt = lease->rt;
    bool again = false;
    lease->in_flight--;
    if (reply->error == 0 && beat->session_id == client_session_id(client)) {
        for (size_t i = 0; i < beat->count; i++) {
            if (beat->holders[i] != NULL) {
                prove(beat->holders[i], lease, lease_end_ns(beat->sent_ns, beat->timeout_ms));
            }
        }
    } else if (reply->error != 0) {
        again = beat_failed(beat, reply);
    }
    list_remove(&beat->link);
    free(beat);
    if (again) {
        beat_all(lease); /* the others' proof must not wait for the next period */
    } else {
        schedule(lease);
    }
    recipes_unref(rt);
}

/* One transaction for the holders from `it` on, as many as fit; returns the first that is left
 * over. */
static struct list *beat_send(struct lease *lease, struct list *it)
{
    struct conclave_client *client = lease->rt->client;
    size_t count = 0;
    size_t bytes = 0;
    for (struct list *at = it; at != &lease->holders && bytes < BEAT_BYTES_MAX; at = at->next) {
        struct lease_holder *holder = CONTAINER_OF(at, struct lease_holder, link);
        if (!holder->paused) {
            const char *beside = holder->beside;
            bytes += strlen(holder->path) + BEAT_PART_BYTES;
            bytes += beside != NULL ? strlen(beside) + BEAT_PART_BYTES : 0;
            count += beside != NULL ? 2 : 1;
        }
    }
    if (count == 0) {
        return &lease->holders;
    }
    struct beat *beat = malloc(sizeof *beat + count * sizeof beat->holders[0]);
    struct conclave_op *parts = malloc(count * sizeof *parts);
    if (beat == NULL || parts == NULL) {
        free(beat);
        free(parts);
        /* The next period tries again; without a proof the lease ends by itself. */
        return &lease->holders;
    }
    beat->lease = lease;
    beat->count = count;
    beat->session_id = client_session_id(client);
    beat->timeout_ms = client_timeout_ms(client);
    for (size_t i = 0; i < count; it = it->next) {
        struct lease_holder *holder = CONTAINER_OF(it, struct lease_holder, link);
        if (!holder->paused) {
            beat->holders[i] = holder;
            parts[i++] = conclave_op_path(CONCLAVE_OP_CHECK, holder->path,
                                          holder->versioned ? holder->version : -1);
            if (holder->beside != NULL) {
                beat->holders[i] = holder;
                parts[i++] =
                    conclave_op_path(CONCLAVE_OP_CHECK, holder->beside, holder->beside_version);
            }
        }
    }
    struct conclave_op op = conclave_op_multi(parts, count);
    beat->sent_ns = client_now_ns(client); /* before it is sent: earlier is safe */
    if (client_submit(client, &op, on_beat, beat) == 0) {
        list_push_back(&lease->beats, &beat->link);
        lease->in_flight++;
        recipes_ref(lease->rt);
    } else {
        free(beat); /* as without memory */
    }
    free(parts);
    return it;
}

static void beat_all(struct lease *lease)
{
    if (recipes_connected(lease->rt) && lease->in_flight < BEATS_MAX) {
        struct list *it = lease->holders.next;
        while (it != &lease->holders) {
            it = beat_send(lease, it);
        }
    }
    client_timer_stop(lease->rt->client, &lease->next_beat);
    schedule(lease);
}

static void on_next_beat(struct conclave_client *client, void *ctx)
{
    beat_all(ctx);
}

static void schedule(struct lease *lease)
{
    struct conclave_client *client = lease->rt->client;
    if (list_empty(&lease->holders) || !recipes_connected(lease->rt)) {
        client_timer_stop(client, &lease->next_beat);
        return;
    }
    if (client_timer_active(&lease->next_beat)) {
        return;
    }
    int64_t timeout_ms = client_timeout_ms(client);
    int64_t period_ms = lease_period_ms(0, timeout_ms);
    LIST_FOREACH (it, &lease->holders) {
        struct lease_holder *holder = CONTAINER_OF(it, struct lease_holder, link);
        int64_t own_ms = lease_period_ms(holder->heartbeat_ms, timeout_ms);
        period_ms = own_ms < period_ms ? own_ms : period_ms;
    }
    client_timer_start(client, &lease->next_beat, client_after_ns(client, period_ms));
}

void lease_init(struct lease *lease, struct conclave_recipes *rt)
{
    lease->rt = rt;
    lease->in_flight = 0;
    list_init(&lease->holders);
    list_init(&lease->beats);
    client_timer_init(&lease->next_beat, on_next_beat, lease);
}

static void add(struct lease *lease, struct lease_holder *holder)
{
    holder->lease = lease;
    holder->until_ns = 0;
    holder->paused = false;
    client_timer_init(&holder->expiry, on_expiry, holder);
    list_push_back(&lease->holders, &holder->link);
    holder->added = true;
}

void lease_add(struct lease *lease, struct lease_holder *holder)
{
    add(lease, holder);
    beat_all(lease);
}

void lease_add_proved(struct lease *lease, struct lease_holder *holder, int64_t sent_ns)
{
    struct conclave_client *client = lease->rt->client;
    int64_t until_ns = lease_end_ns(sent_ns, client_timeout_ms(client));
    /* With less than half of it (two heartbeats) it might end before a heartbeat is answered. */
    int64_t half_ns = (until_ns - sent_ns) / 2;
    add(lease, holder);
    if (sent_ns == 0 || until_ns - client_now_ns(client) < half_ns) {
        beat_all(lease);
        return;
    }
    holder->until_ns = until_ns;
    client_timer_start(client, &holder->expiry, until_ns);
    schedule(lease);
}

void lease_remove(struct lease *lease, struct lease_holder *holder)
{
    if (!holder->added) {
        return;
    }
    holder->added = false;
    list_remove(&holder->link);
    client_timer_stop(lease->rt->client, &holder->expiry);
    LIST_FOREACH (it, &lease->beats) {
        struct beat *beat = CONTAINER_OF(it, struct beat, link);
        for (size_t i = 0; i < beat->count; i++) {
            if (beat->holders[i] == holder) {
                beat->holders[i] = NULL;
            }
        }
    }
    schedule(lease);
}

void lease_on_state(struct lease *lease, enum conclave_state state)
{
    if (state == CONCLAVE_STATE_LOST || state == CONCLAVE_STATE_NEW_SESSION ||
        state_is_final(state)) {
        int why = state == CONCLAVE_STATE_CLOSED        ? CONCLAVE_ECLOSED
                  : state == CONCLAVE_STATE_AUTH_FAILED ? CONCLAVE_AUTH_FAILED
                                                        : CONCLAVE_SESSION_EXPIRED;
        while (!list_empty(&lease->holders)) {
            lose(CONTAINER_OF(lease->holders.next, struct lease_holder, link), lease, why);
        }
    } else if (recipes_connected(lease->rt)) {
        beat_all(lease);
    } else {
        schedule(lease);
    }
}
