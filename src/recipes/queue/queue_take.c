/*
 * A take: lists claims and items, reads the first item that nobody has claimed and claims it by
 * one transaction; the next one in the list when somebody was faster. When nothing is left it
 * joins the line, and only the first in line lists with watches.
 *
 *   LOOK --claims, items listed--> READ --data--> CLAIM --done--> ENDING
 *    ^ ^                            ^ |             |
 *    | '------ next in the list ----' '- too often -+- dead letter --> READ (next)
 *    '-------- list exhausted, or what was asked has an unknown outcome
 *
 * Each of them may end, but UNKNOWN (the claim's answer was lost) finds out first. ENDING leaves the line.
 */
#include "recipes/queue/queue.h"

#include "base/transition.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/persistent_node.h"
#include "recipes/queue/queue_item.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCK_CHECK_MS = 1000 };

enum take_phase {
    TAKE_LOOK, /* to list, or nothing there: waits for a watch */
    TAKE_READ,
    TAKE_CLAIM,
    TAKE_DEAD,
    TAKE_UNKNOWN, /* the claim's answer was lost */
    TAKE_ENDING,  /* decided, call.error says how */
};

#define TAKE_OR(phases) (TRANSITION_TO(TAKE_LOOK) | TRANSITION_TO(TAKE_ENDING) | (phases))

static const uint16_t TAKE_NEXT[] = {
    [TAKE_LOOK] = TAKE_OR(TRANSITION_TO(TAKE_READ)),
    [TAKE_READ] =
        TAKE_OR(TRANSITION_TO(TAKE_READ) | TRANSITION_TO(TAKE_CLAIM) | TRANSITION_TO(TAKE_DEAD)),
    [TAKE_CLAIM] = TAKE_OR(TRANSITION_TO(TAKE_READ) | TRANSITION_TO(TAKE_UNKNOWN)),
    [TAKE_DEAD] = TAKE_OR(TRANSITION_TO(TAKE_READ)),
    [TAKE_UNKNOWN] = TAKE_OR(0),
    [TAKE_ENDING] = TRANSITION_TO(TAKE_ENDING),
};

/* The request of a public function. */
struct take_request {
    conclave_take_fn done;
    void *ctx;
    struct conclave_item **ret;
};

struct take {
    struct call call; /* first */
    enum take_phase phase;
    bool looked;   /* the last look found nothing that could be taken */
    bool watching; /* that look was made with watches, and was so from its beginning */
    bool stale;    /* one of them has fired since that look began */
    bool raced;    /* a claim failed since the lists were made */
    struct queue_line line;
    struct watch_slot claims_watch;
    struct watch_slot items_watch;

    char **claimed; /* names, sorted; one block */
    size_t claimed_count;
    struct client_timer due;  /* the time of the first delayed item */
    int64_t due_ms;           /* 0: no delayed item was seen by the last look */
    struct queue_name *names; /* that may be taken and are not claimed, in order */
    char **owned;             /* their strings, one block */
    size_t count;
    size_t next;

    /* The item that is being claimed. */
    struct conclave_item *prepared; /* the item after the claim; has its paths and data */
    int32_t version;                /* before the claim */
    int64_t sent_session;
    int64_t sent_ns;

    struct conclave_item *item;
    conclave_take_fn done;
    void *ctx;
};

static struct take *take_of(struct call *call)
{
    return CONTAINER_OF(call, struct take, call);
}

static struct conclave_queue *take_queue(const struct take *t)
{
    return queue_of(t->call.host);
}

static void take_to(struct take *t, enum take_phase phase)
{
    transition_check(TAKE_NEXT, t->phase, phase);
    assert(phase == TAKE_LOOK || phase == TAKE_ENDING || t->next <= t->count);
    assert((phase != TAKE_CLAIM && phase != TAKE_DEAD) || t->prepared->data != NULL);
    t->phase = phase;
}

static void list_clear(struct take *t)
{
    free(t->names);
    free(t->owned);
    t->names = NULL;
    t->owned = NULL;
    t->count = t->next = 0;
}

static void item_clear(struct take *t)
{
    queue_item_abandon(t->prepared);
    t->prepared = NULL;
}

/* --- the end ---------------------------------------------------------------------------- */

static void take_end(struct call *call, int error)
{
    struct take *t = take_of(call);
    assert((error == 0) == (t->item != NULL));
    take_to(t, TAKE_ENDING);
    call->error = error;
    if (!queue_line_leave(&t->line)) {
        return; /* in the next run */
    }
    watch_slot_clear(&t->claims_watch);
    watch_slot_clear(&t->items_watch);
    client_timer_stop(call_client(call), &t->due);
    call_end(call, error);
}

/* Any work on an item is over. */
static void look_again(struct take *t)
{
    item_clear(t);
    list_clear(t);
    take_to(t, TAKE_LOOK);
}

static void take_trouble(struct take *t, int error)
{
    if (!error_is_fatal(error)) {
        look_again(t);
    }
    call_trouble(&t->call, error);
}

static void next_item(struct take *t)
{
    item_clear(t);
    t->next++;
    take_to(t, TAKE_READ);
}

/* The phase goes on when the node exists. */
static void take_ensure(struct take *t, const char *path)
{
    queue_call_ensure(take_queue(t), &t->call, path);
}

/* --- claiming ------------------------------------------------------------------------------ */

/* claimed_ns as for queue_item_claimed. */
static void claimed_it(struct take *t, int64_t claimed_ns)
{
    struct conclave_queue *q = take_queue(t);
    int32_t version = q->options.at_most_once ? -1 : t->version + 1;
    struct conclave_item *item = t->prepared;
    t->prepared = NULL;
    queue_item_claimed(q, item, version, t->sent_session, claimed_ns);
    if (version >= 0 && t->call.stop == CONCLAVE_ECLOSED) {
        queue_item_drop(item); /* closed meanwhile: given back at once */
        take_end(&t->call, CONCLAVE_ECLOSED);
        return;
    }
    t->item = item;
    take_end(&t->call, 0);
}

/* Another was faster. A new version may also be a write without a claim, which no watch shows. */
static void lost_race(struct take *t, int item_error)
{
    t->raced = true;
    t->stale = t->stale || item_error == CONCLAVE_BAD_VERSION;
    next_item(t);
}

static void on_claimed(struct call *call, const struct conclave_reply *reply)
{
    struct take *t = take_of(call);
    int item_error = queue_part_error(reply, 0);
    int claim_error = queue_part_error(reply, 1);
    if (reply->error == 0) {
        claimed_it(t, t->sent_ns);
    } else if (item_error == CONCLAVE_NO_NODE || item_error == CONCLAVE_BAD_VERSION ||
               claim_error == CONCLAVE_NODE_EXISTS) {
        lost_race(t, item_error);
    } else if (item_error == CONCLAVE_NOT_EMPTY) {
        next_item(t); /* somebody made a child: nobody can take it, but those behind it */
    } else if (claim_error == CONCLAVE_NO_NODE) {
        take_ensure(t, take_queue(t)->claims);
    } else if (error_is_unknown(reply->error) || reply->error == CONCLAVE_SESSION_EXPIRED) {
        take_to(t, TAKE_UNKNOWN);
    } else {
        take_trouble(t, reply->error);
    }
}

/* Item and claim at once. At most once the item goes here and now, and the claim stands only to
 * tell a lost answer from somebody else's take. */
static void take_claim(struct take *t)
{
    struct conclave_queue *q = take_queue(t);
    struct conclave_client *client = call_client(&t->call);
    struct conclave_item *item = t->prepared;
    struct conclave_op parts[2];
    char guid[MEMBER_INCARNATION_MAX];
    char line[MEMBER_INCARNATION_MAX + 1];
    member_incarnation(guid);
    (void)snprintf(line, sizeof line, "%s\n", guid);
    free(item->note);
    item->note = text_concat(line, q->id);
    if (item->note == NULL) {
        take_trouble(t, CONCLAVE_ENOMEM);
        return;
    }
    parts[0] = q->options.at_most_once
                   ? conclave_op_path(CONCLAVE_OP_DELETE, item->path, t->version)
                   : conclave_op_set(item->path, item->data, item->len, t->version);
    parts[1] = conclave_op_create(item->claim, item->note, strlen(item->note), CONCLAVE_EPHEMERAL);
    queue_op_acl(q, &parts[1]);
    struct conclave_op op = conclave_op_multi(parts, 2);
    t->sent_session = client_session_id(client);
    t->sent_ns = client_now_ns(client);
    call_send(&t->call, &op, on_claimed);
}

/* Reads whether the claim is ours. After a passing error this stays unknown. */
static void on_claim_read(struct call *call, const struct conclave_reply *reply)
{
    struct take *t = take_of(call);
    if (queue_item_owns(t->prepared, t->sent_session, reply)) {
        claimed_it(t, 0);
    } else if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        look_again(t);
    } else {
        call_trouble(call, reply->error);
    }
}

static void take_on_synced(struct call *call, const struct conclave_reply *reply)
{
    if (reply->error != 0) {
        call_trouble(call, reply->error);
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, take_of(call)->prepared->claim, 0);
    call_send(call, &op, on_claim_read);
}

/* --- dead letters --------------------------------------------------------------------------- */

static void on_dead(struct call *call, const struct conclave_reply *reply)
{
    struct take *t = take_of(call);
    int item_error = queue_part_error(reply, 0);
    int claim_error = queue_part_error(reply, 1);
    int letter_error = queue_part_error(reply, 2);
    if (reply->error == 0 || item_error == CONCLAVE_NO_NODE) {
        next_item(t); /* by us or by somebody else */
    } else if (item_error == CONCLAVE_NOT_EMPTY) {
        next_item(t); /* as on_claimed */
    } else if (item_error == CONCLAVE_BAD_VERSION || claim_error == CONCLAVE_NODE_EXISTS) {
        lost_race(t, item_error); /* it was handed out once more */
    } else if (claim_error == CONCLAVE_NO_NODE) {
        take_ensure(t, take_queue(t)->claims);
    } else if (letter_error == CONCLAVE_NO_NODE) {
        take_ensure(t, take_queue(t)->dead);
    } else if (letter_error == CONCLAVE_NODE_EXISTS) {
        t->prepared->name_taken = true;
    } else {
        take_trouble(t, reply->error);
    }
}

/* The claim is made and removed: it fails if another has one, also one that leaves the item's version as it is. */
static void bury(struct take *t)
{
    struct conclave_queue *q = take_queue(t);
    const struct conclave_item *item = t->prepared;
    struct conclave_op parts[4];
    char *dead = queue_item_dead_path(q, item);
    if (dead == NULL) {
        take_trouble(t, CONCLAVE_ENOMEM);
        return;
    }
    parts[0] = conclave_op_path(CONCLAVE_OP_DELETE, item->path, t->version);
    parts[1] = conclave_op_create(item->claim, "", 0, CONCLAVE_EPHEMERAL);
    parts[2] = conclave_op_create(dead, item->data, item->len, CONCLAVE_PERSISTENT);
    parts[3] = conclave_op_path(CONCLAVE_OP_DELETE, item->claim, -1);
    queue_op_acl(q, &parts[1]);
    queue_op_acl(q, &parts[2]);
    struct conclave_op op = conclave_op_multi(parts, 4);
    call_send(&t->call, &op, on_dead);
    free(dead);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void take_on_read(struct call *call, const struct conclave_reply *reply)
{
    struct take *t = take_of(call);
    const struct conclave_queue *q = take_queue(t);
    const struct conclave_queue_options *o = &q->options;
    if (reply->error == CONCLAVE_NO_NODE) {
        next_item(t);
    } else if (reply->error != 0) {
        take_trouble(t, reply->error);
    } else if (queue_item_fill(t->prepared, queue_wraps_items(q), reply->data, reply->data_len) !=
               0) {
        take_trouble(t, CONCLAVE_ENOMEM);
    } else {
        t->version = reply->stat.version;
        t->prepared->czxid = reply->stat.czxid;
        bool often = o->max_attempts > 0 && !o->at_most_once && t->version >= o->max_attempts;
        take_to(t, often ? TAKE_DEAD : TAKE_CLAIM);
    }
}

static void take_read(struct take *t)
{
    if (t->next == t->count) { /* others took all: a watch shows later items */
        bool again = t->raced && !t->claims_watch.armed;
        look_again(t);
        t->looked = !again;
        call_run(&t->call);
        return;
    }
    assert(t->prepared == NULL);
    t->prepared = queue_item_prepare(take_queue(t), t->names[t->next].name);
    if (t->prepared == NULL) {
        take_trouble(t, CONCLAVE_ENOMEM);
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, t->prepared->path, 0);
    call_send(&t->call, &op, take_on_read);
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
    const struct queue_naming *naming = &take_queue(t)->naming;
    size_t count = 0;
    size_t due = 0;
    assert(t->names == NULL && t->owned == NULL);
    t->owned = texts_copy(reply->children, reply->children_count);
    if (t->owned == NULL ||
        queue_names_order(naming, (const char *const *)t->owned, reply->children_count,
                          queue_wall_ms(), &t->names, &count, &due) != 0) {
        return CONCLAVE_ENOMEM;
    }
    t->due_ms = due < count ? t->names[due].due_ms : 0;
    for (size_t i = 0; i < due; i++) {
        if (!is_claimed(t, t->names[i].name)) {
            t->names[t->count++] = t->names[i];
        }
    }
    return 0;
}

static void on_items(struct call *call, const struct conclave_reply *reply)
{
    struct take *t = take_of(call);
    int error = reply->error;
    if (t->watching) {
        watch_slot_answered(&t->items_watch, error == 0);
    }
    list_clear(t);
    if (error == CONCLAVE_NO_NODE && t->watching) {
        take_ensure(t, take_queue(t)->path);
    } else if (error == CONCLAVE_NO_NODE) {
        t->looked = true;
    } else if (error != 0 || (error = keep_names(t, reply)) != 0) {
        take_trouble(t, error);
    } else {
        t->raced = false;
        t->looked = t->count == 0;
        take_to(t, t->count > 0 ? TAKE_READ : TAKE_LOOK);
    }
}

/* Lists the children of a path, with a watch if the look is made with watches. */
static void take_list(struct take *t, const char *path, struct watch_slot *watch, call_fn fn)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, path, 0);
    if (t->watching && watch_slot_prepare(watch, path, &op) != 0) {
        take_trouble(t, CONCLAVE_ENOMEM);
        return;
    }
    call_send(&t->call, &op, fn);
}

static void on_claims(struct call *call, const struct conclave_reply *reply)
{
    struct take *t = take_of(call);
    int error = reply->error == CONCLAVE_NO_NODE ? 0 : reply->error;
    if (t->watching) {
        watch_slot_answered(&t->claims_watch, reply->error == 0);
    }
    free(t->claimed);
    t->claimed = texts_copy(reply->children, reply->children_count);
    t->claimed_count = t->claimed == NULL ? 0 : reply->children_count;
    error = error == 0 && t->claimed == NULL ? CONCLAVE_ENOMEM : error;
    if (error != 0) {
        take_trouble(t, error);
        return;
    }
    qsort(t->claimed, t->claimed_count, sizeof *t->claimed, compare_strings);
    take_list(t, take_queue(t)->path, &t->items_watch, on_items);
}

static void take_look(struct take *t)
{
    t->looked = false;
    t->stale = false;
    t->due_ms = 0;
    client_timer_stop(call_client(&t->call), &t->due);
    t->watching = t->line.first;
    take_list(t, take_queue(t)->claims, &t->claims_watch, on_claims);
}

/* Looks again when the first delayed item is due, and in between, as somebody may set the clock. */
static void await_due(struct take *t)
{
    struct conclave_client *client = call_client(&t->call);
    int64_t wait_ms = t->due_ms - queue_wall_ms();
    wait_ms = wait_ms < 1 ? 1 : wait_ms > CLOCK_CHECK_MS ? CLOCK_CHECK_MS : wait_ms;
    if (!client_timer_active(&t->due)) {
        client_timer_start(client, &t->due, client_after_ns(client, wait_ms));
    }
}

static void on_due(struct conclave_client *client, void *ctx)
{
    struct take *t = ctx;
    t->stale = t->stale || queue_wall_ms() >= t->due_ms;
    call_run(&t->call);
}

/* Found nothing: joins the line, and looks again when first, then at each change. */
static void run_look(struct take *t)
{
    if (!t->looked || t->stale) {
        take_look(t);
    } else if (t->call.now) {
        take_end(&t->call, CONCLAVE_EEMPTY);
    } else if (queue_line_run(&t->line) && !t->watching) {
        take_look(t);
    } else if (t->line.error != 0) {
        take_end(&t->call, t->line.error);
    } else if (t->watching && t->due_ms != 0) {
        await_due(t);
    }
}

/* --- the machine ----------------------------------------------------------------------------------- */

/* Whether the reason to stop ends it here: not before a try that may not wait has looked once. */
static bool stops(const struct take *t)
{
    if (t->call.stop == 0 || t->phase == TAKE_UNKNOWN) {
        return false;
    }
    bool busy = t->phase != TAKE_LOOK || (t->call.now && !t->looked);
    return t->call.stop != CONCLAVE_ETIMEDOUT || !busy || !call_can_send(&t->call);
}

static void take_run(struct call *call)
{
    struct take *t = take_of(call);
    struct conclave_client *client = call_client(call);
    enum conclave_state state = client_state(client);
    if (t->phase == TAKE_ENDING) {
        take_end(call, call->error);
        return;
    }
    if (t->phase == TAKE_UNKNOWN && (client_session_id(client) != t->sent_session ||
                                     state == CONCLAVE_STATE_LOST || state_is_final(state))) {
        look_again(t); /* the claim went with its session; at most once, so has the item */
    }
    if (stops(t)) {
        bool empty = call->now && t->looked && call->stop == CONCLAVE_ETIMEDOUT;
        take_end(call, empty ? CONCLAVE_EEMPTY : call->stop);
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
        take_read(t);
        break;
    case TAKE_CLAIM:
        take_claim(t);
        break;
    case TAKE_DEAD:
        bury(t);
        break;
    default: {
        assert(t->phase == TAKE_UNKNOWN);
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, t->prepared->claim, 0);
        call_send(call, &op, take_on_synced);
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

static struct conclave_item *item_of_call(struct call *call)
{
    struct take *t = take_of(call);
    struct conclave_item *item = t->item;
    t->item = NULL;
    return item;
}

static void take_tell(struct call *call)
{
    struct take *t = take_of(call);
    struct conclave_item *item = item_of_call(call);
    if (t->done != NULL) {
        t->done(take_queue(t), call->error, item, t->ctx);
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
    client_timer_stop(call_client(call), &t->due);
    item_clear(t);
    list_clear(t);
    free(t->claimed);
    free(t);
}

static const struct call_class take_class = {
    .run = take_run,
    .on_state = take_on_state,
    .fail = take_end,
    .tell = take_tell,
    .free = take_free,
};

/* --- the public functions ----------------------------------------------------------------------------- */

static int take_create(struct host *host, void *request, struct call **ret)
{
    const struct conclave_queue *q = queue_of(host);
    const struct take_request *r = request;
    struct take *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return CONCLAVE_ENOMEM;
    }
    call_init(&t->call, host, &take_class);
    watch_slot_init(&t->claims_watch, &t->call.handle, on_claims_watch);
    watch_slot_init(&t->items_watch, &t->call.handle, on_items_watch);
    client_timer_init(&t->due, on_due, t);
    queue_line_init(&t->line, &t->call, q->line, q->acl, q->options.acl_count);
    t->done = r->done;
    t->ctx = r->ctx;
    *ret = &t->call;
    return 0;
}

int conclave_queue_take_async(struct conclave_queue *q, int64_t timeout_ms, conclave_take_fn done,
                              void *ctx)
{
    struct take_request request = {done, ctx, NULL};
    return host_call(&q->host, take_create, &request, timeout_ms);
}

static void take_collect(struct call *call, void *request)
{
    *((struct take_request *)request)->ret = item_of_call(call);
}

int conclave_queue_take(struct conclave_queue *q, int64_t timeout_ms, struct conclave_item **ret)
{
    struct take_request request = {.ret = ret};
    return host_call_wait(&q->host, take_create, &request, timeout_ms, take_collect);
}
