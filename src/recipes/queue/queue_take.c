/*
 * A take: lists claims and items, reads the first item that nobody has claimed and claims it by
 * one transaction; the next one in the list when somebody was faster. When nothing is left it
 * stands in line, and only the first in line lists with watches.
 *
 *   LOOK --claims, items listed--> READ --data--> CLAIM --done--> ended
 *    ^ ^                            ^ |             |
 *    | '------ next in the list ----' '- too often -+- dead letter --> READ (next)
 *    '-------- list exhausted, or what was asked has an unknown outcome
 */
#include "recipes/queue/queue.h"

#include "recipes/engine/option_copies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum take_phase {
    TAKE_LOOK, /* to list, or nothing there: waits for a watch */
    TAKE_READ,
    TAKE_CLAIM,
    TAKE_DEAD,
    TAKE_UNKNOWN, /* the claim's answer was lost */
};

struct take {
    struct call call; /* first */
    enum take_phase phase;
    bool now;       /* timeout 0 */
    bool looked;    /* the last look found nothing that could be taken */
    bool watching;  /* that look was made with watches, and was so from its beginning */
    bool stale;     /* one of them has fired since that look began */
    bool lost_race; /* a claim failed since the lists were made */
    struct step step;
    struct ensure_path ensure;
    bool ensuring;
    struct queue_line line;
    struct watch_slot claims_watch;
    struct watch_slot items_watch;

    char **claimed; /* names, sorted */
    size_t claimed_count;
    struct queue_name *names; /* that are not claimed, in order */
    char **owned;             /* their strings */
    size_t count;
    size_t next;

    /* The item that is being claimed. */
    char *path;
    char *claim;
    void *data;
    size_t len;
    int32_t version; /* before the claim */
    char guid[NAME_PREFIX_MAX];
    char *note; /* data of the claim's node: guid, newline, id */
    int64_t sent_session;
    int64_t sent_ns;
    struct conclave_item *prepared; /* what it becomes when it is claimed */

    struct conclave_item *item;
    bool ending;
    int end_error;
    conclave_take_fn done;
    void *ctx;
};

static struct take *take_of(struct call *call)
{
    return CONTAINER_OF(call, struct take, call);
}

static struct conclave_queue *queue(const struct take *t)
{
    return queue_of(t->call.host);
}

static void strings_free(char **list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(list[i]);
    }
    free(list);
}

static void claimed_clear(struct take *t)
{
    strings_free(t->claimed, t->claimed_count);
    t->claimed = NULL;
    t->claimed_count = 0;
}

static void list_clear(struct take *t)
{
    strings_free(t->owned, t->count);
    free(t->names);
    t->owned = NULL;
    t->names = NULL;
    t->count = t->next = 0;
}

static void item_clear(struct take *t)
{
    free(t->path);
    free(t->claim);
    free(t->data);
    queue_item_abandon(t->prepared);
    t->path = t->claim = NULL;
    t->data = NULL;
    t->prepared = NULL;
}

/* --- the end ---------------------------------------------------------------------------- */

static void take_end(struct take *t, int error)
{
    t->ending = true;
    t->end_error = error;
    if (!queue_line_leave(&t->line)) {
        return; /* in the next run */
    }
    watch_slot_clear(&t->claims_watch);
    watch_slot_clear(&t->items_watch);
    call_end(&t->call, error);
}

/* Whatever it was doing to an item: that is over. */
static void look_again(struct take *t)
{
    item_clear(t);
    list_clear(t);
    t->phase = TAKE_LOOK;
}

static void take_trouble(struct take *t, int error)
{
    if (error_is_fatal(error)) {
        take_end(t, error);
    } else {
        look_again(t);
        call_trouble(&t->call, error);
    }
}

static void next_item(struct take *t)
{
    item_clear(t);
    t->next++;
    t->phase = TAKE_READ;
}

static void queue_take_on_ensured(struct ensure_path *ensure, int error)
{
    struct take *t = CONTAINER_OF(ensure, struct take, ensure);
    t->ensuring = false;
    if (error != 0) {
        take_trouble(t, error);
    }
    call_run(&t->call);
}

/* The phase goes on when it stands. */
static void ensure(struct take *t, const char *path)
{
    int error = queue_ensure(queue(t), &t->ensure, path, queue_take_on_ensured);
    t->ensuring = error == 0;
    if (error != 0) {
        take_trouble(t, error);
    }
}

/* --- claiming ------------------------------------------------------------------------------ */

/* claimed_ns as for queue_item_create. */
static void claimed_it(struct take *t, int64_t claimed_ns)
{
    struct conclave_queue *q = queue(t);
    int32_t version = q->options.at_most_once ? -1 : t->version + 1;
    t->item = t->prepared;
    t->prepared = NULL;
    queue_item_claimed(q, t->item, t->data, t->len, version, t->sent_session, claimed_ns);
    t->data = NULL;
    if (version >= 0 && t->call.stop == CONCLAVE_ECLOSED) {
        queue_item_drop(t->item); /* closed meanwhile: given back at once */
        t->item = NULL;
        take_end(t, CONCLAVE_ECLOSED);
        return;
    }
    take_end(t, 0);
}

static void on_claimed(struct step *step, const struct conclave_reply *reply)
{
    struct take *t = CONTAINER_OF(step, struct take, step);
    int item_error = queue_part_error(reply, 0);
    int claim_error = queue_part_error(reply, 1);
    if (reply->error == 0) {
        claimed_it(t, t->sent_ns);
    } else if (item_error == CONCLAVE_NO_NODE || item_error == CONCLAVE_BAD_VERSION ||
               claim_error == CONCLAVE_NODE_EXISTS) {
        t->lost_race = true;
        next_item(t);
    } else if (claim_error == CONCLAVE_NO_NODE) {
        ensure(t, queue(t)->claims);
    } else if (error_is_unknown(reply->error) || reply->error == CONCLAVE_SESSION_EXPIRED) {
        t->phase = TAKE_UNKNOWN;
    } else {
        take_trouble(t, reply->error);
    }
    call_run(&t->call);
}

/* Item and claim at once. At most once the item goes here and now, and the claim stands only to
 * tell a lost answer from somebody else's take. */
static void claim(struct take *t)
{
    struct conclave_queue *q = queue(t);
    struct conclave_client *client = call_client(&t->call);
    struct conclave_op parts[2];
    free(t->note);
    name_make_prefix(CONCLAVE_NAMING_NATIVE, NAME_PLAIN, t->guid);
    size_t len = strcspn(t->guid, "-"); /* the guid alone */
    t->guid[len] = '\n';
    t->guid[len + 1] = '\0';
    t->note = text_concat(t->guid, q->id);
    if (t->prepared == NULL) {
        t->prepared = queue_item_prepare(q, t->names[t->next].name);
    }
    if (t->note == NULL || t->prepared == NULL) {
        take_trouble(t, CONCLAVE_ENOMEM);
        return;
    }
    parts[0] = q->options.at_most_once ? conclave_op_path(CONCLAVE_OP_DELETE, t->path, t->version)
                                       : conclave_op_set(t->path, t->data, t->len, t->version);
    parts[1] = conclave_op_create(t->claim, t->note, strlen(t->note), CONCLAVE_EPHEMERAL);
    queue_op_acl(q, &parts[1]);
    struct conclave_op op = conclave_op_multi(parts, 2);
    t->sent_session = client_session_id(client);
    t->sent_ns = client_now_ns(client);
    step_submit(&t->step, &op, on_claimed);
}

/* What cannot be found out stays unknown, unless that will not pass. */
static void unknown_trouble(struct take *t, int error)
{
    if (error_is_fatal(error)) {
        take_end(t, error);
    } else {
        call_trouble(&t->call, error);
    }
}

static void on_claim_read(struct step *step, const struct conclave_reply *reply)
{
    struct take *t = CONTAINER_OF(step, struct take, step);
    if (reply->error == 0 && reply->stat.ephemeral_owner == t->sent_session &&
        reply->data_len == strlen(t->note) && memcmp(reply->data, t->note, reply->data_len) == 0) {
        claimed_it(t, 0);
    } else if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        look_again(t);
    } else {
        unknown_trouble(t, reply->error);
    }
    call_run(&t->call);
}

static void queue_take_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct take *t = CONTAINER_OF(step, struct take, step);
    if (reply->error != 0) {
        unknown_trouble(t, reply->error);
        call_run(&t->call);
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, t->claim, 0);
    step_submit(&t->step, &op, on_claim_read);
}

/* --- dead letters --------------------------------------------------------------------------- */

static void on_dead(struct step *step, const struct conclave_reply *reply)
{
    struct take *t = CONTAINER_OF(step, struct take, step);
    if (reply->error == 0 || queue_part_error(reply, 0) == CONCLAVE_NO_NODE) {
        next_item(t); /* by us or by somebody else */
    } else if (queue_part_error(reply, 0) == CONCLAVE_BAD_VERSION) {
        t->lost_race = true; /* it was handed out once more */
        next_item(t);
    } else if (queue_part_error(reply, 1) == CONCLAVE_NO_NODE) {
        ensure(t, queue(t)->dead);
    } else {
        take_trouble(t, reply->error);
    }
    call_run(&t->call);
}

static void bury(struct take *t)
{
    struct conclave_queue *q = queue(t);
    struct conclave_op parts[2];
    char *dead = path_join(q->dead, t->names[t->next].name);
    if (dead == NULL) {
        take_trouble(t, CONCLAVE_ENOMEM);
        return;
    }
    parts[0] = conclave_op_path(CONCLAVE_OP_DELETE, t->path, t->version);
    parts[1] = conclave_op_create(dead, t->data, t->len, CONCLAVE_PERSISTENT);
    queue_op_acl(q, &parts[1]);
    struct conclave_op op = conclave_op_multi(parts, 2);
    step_submit(&t->step, &op, on_dead);
    free(dead);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void queue_take_on_read(struct step *step, const struct conclave_reply *reply)
{
    struct take *t = CONTAINER_OF(step, struct take, step);
    int max = queue(t)->options.max_attempts;
    if (reply->error == CONCLAVE_NO_NODE) {
        next_item(t);
    } else if (reply->error != 0) {
        take_trouble(t, reply->error);
    } else if ((t->data = malloc(reply->data_len + 1)) == NULL) {
        take_trouble(t, CONCLAVE_ENOMEM);
    } else {
        if (reply->data_len > 0) {
            memcpy(t->data, reply->data, reply->data_len);
        }
        t->len = reply->data_len;
        t->version = reply->stat.version;
        bool often = max > 0 && !queue(t)->options.at_most_once && t->version >= max;
        t->phase = often ? TAKE_DEAD : TAKE_CLAIM;
    }
    call_run(&t->call);
}

static void run_read(struct take *t)
{
    struct conclave_queue *q = queue(t);
    if (t->next == t->count) { /* all gone to others: what has come since is seen by a watch */
        bool again = t->lost_race && !t->claims_watch.armed;
        look_again(t);
        t->looked = !again;
        call_run(&t->call);
        return;
    }
    t->path = path_join(q->path, t->names[t->next].name);
    t->claim = path_join(q->claims, t->names[t->next].name);
    if (t->path == NULL || t->claim == NULL) {
        take_trouble(t, CONCLAVE_ENOMEM);
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, t->path, 0);
    step_submit(&t->step, &op, queue_take_on_read);
}

/* --- looking ------------------------------------------------------------------------------------ */

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool is_claimed(const struct take *t, const char *name)
{
    return t->claimed_count > 0 &&
           bsearch(&name, t->claimed, t->claimed_count, sizeof name, compare_strings) != NULL;
}

/* Keeps the items that nobody has claimed. */
static int keep_names(struct take *t, const struct conclave_reply *reply)
{
    int error = queue_names_order(reply->children, reply->children_count, &t->names, &t->count);
    size_t n = 0;
    if (error != 0) {
        t->count = 0;
        return error;
    }
    t->owned = calloc(t->count + 1, sizeof *t->owned);
    for (size_t i = 0; i < t->count && t->owned != NULL && error == 0; i++) {
        if (!is_claimed(t, t->names[i].name)) {
            t->owned[n] = strdup(t->names[i].name);
            error = t->owned[n] == NULL ? CONCLAVE_ENOMEM : 0;
            t->names[n] = t->names[i];
            t->names[n].name = t->owned[n];
            n += error == 0 ? 1 : 0;
        }
    }
    error = t->owned == NULL ? CONCLAVE_ENOMEM : error;
    t->count = t->owned == NULL ? 0 : n;
    t->next = 0;
    return error;
}

static void on_items(struct step *step, const struct conclave_reply *reply)
{
    struct take *t = CONTAINER_OF(step, struct take, step);
    int error = reply->error;
    if (t->watching) {
        watch_slot_answered(&t->items_watch, error == 0);
    }
    list_clear(t);
    if (error == CONCLAVE_NO_NODE && t->watching) {
        ensure(t, queue(t)->path);
    } else if (error == CONCLAVE_NO_NODE) {
        t->looked = true;
    } else if (error != 0 || (error = keep_names(t, reply)) != 0) {
        take_trouble(t, error);
    } else {
        t->lost_race = false;
        t->looked = t->count == 0;
        t->phase = t->count > 0 ? TAKE_READ : TAKE_LOOK;
    }
    claimed_clear(t);
    call_run(&t->call);
}

static void list_items(struct take *t)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, queue(t)->path, 0);
    if (t->watching && watch_slot_prepare(&t->items_watch, queue(t)->path, &op) != 0) {
        take_trouble(t, CONCLAVE_ENOMEM);
        return;
    }
    step_submit(&t->step, &op, on_items);
}

static void on_claims(struct step *step, const struct conclave_reply *reply)
{
    struct take *t = CONTAINER_OF(step, struct take, step);
    int error = reply->error == CONCLAVE_NO_NODE ? 0 : reply->error;
    if (t->watching) {
        watch_slot_answered(&t->claims_watch, reply->error == 0);
    }
    claimed_clear(t);
    t->claimed = calloc(reply->children_count + 1, sizeof *t->claimed);
    error = error == 0 && t->claimed == NULL ? CONCLAVE_ENOMEM : error;
    for (size_t i = 0; i < reply->children_count && error == 0; i++) {
        t->claimed[i] = strdup(reply->children[i]);
        error = t->claimed[i] == NULL ? CONCLAVE_ENOMEM : 0;
        t->claimed_count += error == 0 ? 1 : 0;
    }
    if (error != 0) {
        take_trouble(t, error);
        call_run(&t->call);
        return;
    }
    qsort(t->claimed, t->claimed_count, sizeof *t->claimed, compare_strings);
    list_items(t);
}

static void queue_take_look(struct take *t)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, queue(t)->claims, 0);
    t->looked = false;
    t->stale = false;
    t->watching = t->line.first;
    if (t->watching && watch_slot_prepare(&t->claims_watch, queue(t)->claims, &op) != 0) {
        take_trouble(t, CONCLAVE_ENOMEM);
        return;
    }
    step_submit(&t->step, &op, on_claims);
}

/* Looked, and found nothing: stands in line, and looks again when first, then at each change. */
static void run_look(struct take *t)
{
    if (!t->looked || t->stale) {
        queue_take_look(t);
    } else if (t->now) {
        take_end(t, CONCLAVE_EEMPTY);
    } else if (queue_line_run(&t->line) && !t->watching) {
        queue_take_look(t);
    } else if (t->line.error != 0) {
        take_end(t, t->line.error);
    }
}

/* --- the machine ----------------------------------------------------------------------------------- */

/* Whether the reason to stop ends it here: not before a try that may not wait has looked once. */
static bool stops(const struct take *t)
{
    if (t->call.stop == 0 || t->phase == TAKE_UNKNOWN) {
        return false;
    }
    bool busy = t->phase != TAKE_LOOK || (t->now && !t->looked);
    return t->call.stop != CONCLAVE_ETIMEDOUT || !busy || !call_can_send(&t->call);
}

static void take_run(struct call *call)
{
    struct take *t = take_of(call);
    if (t->step.busy || t->ensuring) {
        return;
    }
    if (t->ending) {
        take_end(t, t->end_error);
        return;
    }
    if (t->phase == TAKE_UNKNOWN && (client_session_id(call_client(call)) != t->sent_session ||
                                     client_state(call_client(call)) == CONCLAVE_STATE_LOST ||
                                     state_is_final(client_state(call_client(call))))) {
        look_again(t); /* the claim went with its session; at most once, so has the item */
    }
    if (stops(t)) {
        bool empty = t->now && t->looked && call->stop == CONCLAVE_ETIMEDOUT;
        take_end(t, empty ? CONCLAVE_EEMPTY : call->stop);
        return;
    }
    if (!call_can_send(call)) {
        return;
    }
    switch (t->phase) {
    case TAKE_LOOK:
        run_look(t);
        break;
    case TAKE_READ:
        run_read(t);
        break;
    case TAKE_CLAIM:
        claim(t);
        break;
    case TAKE_DEAD:
        bury(t);
        break;
    case TAKE_UNKNOWN: {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, t->claim, 0);
        step_submit(&t->step, &op, queue_take_on_synced);
        break;
    }
    }
}

/* Also while a look goes on: the lists may have been made before it. */
static void on_claims_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    struct take *t = CONTAINER_OF(slot, struct take, claims_watch);
    t->stale = true;
    call_run(&t->call);
}

static void on_items_watch(struct watch_slot *slot, enum conclave_event_type type)
{
    struct take *t = CONTAINER_OF(slot, struct take, items_watch);
    t->stale = true;
    call_run(&t->call);
}

static void take_on_state(struct call *call, enum conclave_state state)
{
    queue_line_on_state(&take_of(call)->line);
}

static void take_tell(struct call *call)
{
    struct take *t = take_of(call);
    struct conclave_item *item = t->item;
    t->item = NULL;
    if (t->done != NULL) {
        t->done(queue(t), call->error, item, t->ctx);
    } else {
        conclave_item_free(item);
    }
}

static void take_free(struct call *call)
{
    struct take *t = take_of(call);
    queue_line_finish(&t->line);
    watch_slot_clear(&t->claims_watch);
    watch_slot_clear(&t->items_watch);
    ensure_path_finish(&t->ensure);
    item_clear(t);
    list_clear(t);
    claimed_clear(t);
    free(t->note);
    free(t);
}

static const struct call_class take_class = {take_run, take_on_state, take_tell, take_free};

/* --- the public functions ----------------------------------------------------------------------------- */

/* Lock held. */
static int take_create(struct conclave_queue *q, int64_t timeout_ms, struct take **ret)
{
    if (q->host.closing.ending) {
        return CONCLAVE_ECLOSED;
    }
    struct take *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return CONCLAVE_ENOMEM;
    }
    call_init(&t->call, &q->host, &take_class);
    step_init(&t->step, &t->call.handle);
    ensure_path_init(&t->ensure, &t->call.handle);
    watch_slot_init(&t->claims_watch, &t->call.handle, on_claims_watch);
    watch_slot_init(&t->items_watch, &t->call.handle, on_items_watch);
    queue_line_init(&t->line, &t->call, q->line, q->acl, q->options.acl_count);
    t->now = timeout_ms == 0;
    *ret = t;
    return 0;
}

int conclave_queue_take_async(struct conclave_queue *q, int64_t timeout_ms, conclave_take_fn done,
                              void *ctx)
{
    struct conclave_client *client = q->host.handle.rt->client;
    struct take *t;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = take_create(q, timeout_ms, &t);
    if (error == 0) {
        t->done = done;
        t->ctx = ctx;
        call_start(&t->call, timeout_ms);
    }
    client_unlock(client);
    return error;
}

int conclave_queue_take(struct conclave_queue *q, int64_t timeout_ms, struct conclave_item **ret)
{
    struct conclave_client *client = q->host.handle.rt->client;
    struct take *t;
    int error = recipes_may_block(q->host.handle.rt);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    error = take_create(q, timeout_ms, &t);
    if (error == 0) {
        error = call_wait(&t->call, timeout_ms);
        if (error == 0) {
            *ret = t->item;
            t->item = NULL;
        }
        call_release(&t->call);
    }
    client_unlock(client);
    return error;
}
