/*
 * Hand-over to a named contender of an election or a lock, from the operator's side. The request is a child of path that
 * names the contender (contender_names.h); line_position.h has what contenders do with it. It is made in one transaction
 * with a write, of unchanged data, to the nodes of the first ones: they look at the list then, and of two operators only
 * one succeeds, because the versions of those nodes are checked.
 */
#include "client/core/sized.h"
#include "recipes/engine/blocking_requests.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/recipe_runtime.h"
#include "recipes/hold/contender_list.h"

#include <conclave/hand_over.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MIN_MS = 50, LOOK_MAX_MS = 1000, TAKE_BACK_MS = 2000 };

struct line_hand_over {
    struct blocking blocking; /* bound to the session of the request, once that exists */
    struct conclave_recipes *rt;
    const char *path;
    const char *to;
    bool kinds; /* a lock: readers and writers */
    struct listed_contender *list;
    size_t count;
    char target[NAME_MAX_LEN];        /* node of the named one, "" until it is found */
    char request[HAND_OVER_NAME_MAX]; /* name of the request */
    char *request_path;
    struct deletion *removal; /* made before the request is: it must not stay for want of memory */
    struct conclave_hand_over *ret; /* never NULL */
};

const char *conclave_hand_over_outcome_name(enum conclave_hand_over_outcome outcome)
{
    static const char *const names[] = {"DONE",        "NOBODY_ACTIVE", "NO_MEMBER",
                                        "NOT_HEALTHY", "OBSERVER",      "ANOTHER_ACTIVE",
                                        "LATE",        "FOREIGN",       "AMBIGUOUS"};
    return (unsigned)outcome < sizeof names / sizeof names[0] ? names[outcome] : "UNKNOWN";
}

static int refused(struct line_hand_over *h, enum conclave_hand_over_outcome outcome)
{
    h->ret->outcome = outcome;
    return CONCLAVE_ECANCELED;
}

/* --- the line ------------------------------------------------------------------------ */

static const struct conclave_participant *contender_at(const struct line_hand_over *h, size_t at)
{
    assert(at < h->count);
    return &h->list[at].participant;
}

static void line_free(struct line_hand_over *h)
{
    for (size_t i = 0; i < h->count; i++) {
        free((void *)(uintptr_t)h->list[i].participant.node);
    }
    free(h->list);
    h->list = NULL;
    h->count = 0;
}

/* The line as it is now, and who is first. */
static int contenders_look(struct line_hand_over *h)
{
    const struct blocking *b = &h->blocking;
    int64_t left_ms = CONCLAVE_FOREVER;
    line_free(h);
    if (b->deadline_ns != CONCLAVE_FOREVER) {
        left_ms = (b->deadline_ns - client_now_ns(b->client)) / 1000000;
        left_ms = left_ms > 0 ? left_ms : 1;
    }
    int error = contenders_read(h->rt, h->path, h->kinds, left_ms, &h->list, &h->count);
    if (error == 0 || error == CONCLAVE_NO_NODE) {
        bool any = error == 0 && h->count > 0;
        (void)snprintf(h->ret->active, sizeof h->ret->active, "%s",
                       any ? contender_at(h, 0)->id : "");
        h->ret->token.czxid = any ? h->list[0].place : 0;
    }
    return error == CONCLAVE_NO_NODE ? 0 : error;
}

/* The first, or the readers before any other. */
static bool line_holds(const struct line_hand_over *h, size_t at)
{
    bool readers = h->kinds;
    for (size_t i = 0; readers && i <= at; i++) {
        readers = h->list[i].kind == NAME_READ;
    }
    return at == 0 || readers;
}

/* Position of the named one, or count. */
static size_t line_target(const struct line_hand_over *h)
{
    size_t i = 0;
    while (i < h->count && strcmp(contender_at(h, i)->node, h->target) != 0) {
        i++;
    }
    return i;
}

/* Which contender is meant: the name of a node comes before an id. */
static int line_find(struct line_hand_over *h)
{
    int32_t sequence;
    enum name_kind kind;
    size_t found = h->count;
    size_t same = 0;
    if (h->count == 0) {
        return refused(h, CONCLAVE_HAND_OVER_NOBODY_ACTIVE);
    }
    const char *first = contender_at(h, 0)->node;
    bool native = h->kinds ? name_parse_kind(CONCLAVE_NAMING_NATIVE, first, &sequence, &kind)
                           : name_parse(CONCLAVE_NAMING_NATIVE, first, &sequence);
    if (!native || strlen(first) >= NAME_MAX_LEN) {
        return refused(h, CONCLAVE_HAND_OVER_FOREIGN);
    }
    for (size_t i = 0; i < h->count; i++) {
        bool node = strcmp(contender_at(h, i)->node, h->to) == 0;
        if (node || strcmp(contender_at(h, i)->id, h->to) == 0) {
            found = i;
            same = node ? 1 : same + 1;
        }
        if (node) {
            break;
        }
    }
    if (same != 1) {
        return refused(h, same == 0 ? CONCLAVE_HAND_OVER_NO_MEMBER : CONCLAVE_HAND_OVER_AMBIGUOUS);
    }
    (void)snprintf(h->target, sizeof h->target, "%s", contender_at(h, found)->node);
    return 0;
}

/* --- the request --------------------------------------------------------------------- */

/* Whether the request is there; CONCLAVE_NO_NODE: it is not. Its session is the one to be bound to. */
static int request_look(struct line_hand_over *h)
{
    struct conclave_reply *reply;
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, h->request_path, 0);
    op.linearizable = true;
    int error = blocking_request(&h->blocking, op, &reply);
    if (error == 0) {
        h->blocking.session_id = reply->stat.ephemeral_owner;
    }
    conclave_reply_free(reply);
    return error;
}

/* CONCLAVE_EBUSY: another's is there. */
static int request_alone(struct line_hand_over *h)
{
    char to[NAME_MAX_LEN];
    struct conclave_reply *reply;
    int error = blocking_ask(&h->blocking, CONCLAVE_OP_GET_CHILDREN, h->path, &reply);
    for (size_t i = 0; error == 0 && i < reply->children_count; i++) {
        const char *name = reply->children[i];
        if (hand_over_parse(name, to) && strcmp(name, h->request) != 0) {
            error = CONCLAVE_EBUSY;
        }
    }
    conclave_reply_free(reply);
    return error;
}

/* A transaction that makes the request and writes to the nodes of the first `count` contenders, as they are. */
struct request_parts {
    struct conclave_op *ops;
    struct conclave_reply **nodes;
    char **paths;
    size_t count;
};

static int parts_init(struct request_parts *p, size_t count)
{
    p->ops = calloc(count + 1, sizeof *p->ops);
    p->nodes = calloc(count, sizeof *p->nodes);
    p->paths = calloc(count, sizeof *p->paths);
    p->count = count;
    return p->ops != NULL && p->nodes != NULL && p->paths != NULL ? 0 : CONCLAVE_ENOMEM;
}

static void parts_finish(struct request_parts *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->nodes != NULL) {
            conclave_reply_free(p->nodes[i]);
        }
        if (p->paths != NULL) {
            free(p->paths[i]);
        }
    }
    free(p->ops);
    free(p->nodes);
    free(p->paths);
}

/* 0: it was made. CONCLAVE_NO_NODE or CONCLAVE_BAD_VERSION: the line has changed meanwhile. */
static int request_try(struct line_hand_over *h, size_t count)
{
    struct request_parts p;
    int error = parts_init(&p, count);
    for (size_t i = 0; i < count && error == 0; i++) {
        p.paths[i] = path_join(h->path, contender_at(h, i)->node);
        error = p.paths[i] == NULL
                    ? CONCLAVE_ENOMEM
                    : blocking_ask(&h->blocking, CONCLAVE_OP_GET, p.paths[i], &p.nodes[i]);
        if (error == 0) {
            p.ops[i] = conclave_op_set(p.paths[i], p.nodes[i]->data, p.nodes[i]->data_len,
                                       p.nodes[i]->stat.version);
        }
    }
    error = error == 0 ? request_alone(h) : error;
    if (error == 0) {
        struct conclave_reply *reply;
        p.ops[count] = conclave_op_create(h->request_path, "", 0, CONCLAVE_EPHEMERAL);
        error = blocking_once(&h->blocking, conclave_op_multi(p.ops, count + 1), &reply);
        conclave_reply_free(reply);
    }
    parts_finish(&p);
    return error;
}

/* The answer is lost, or the line has changed: it is tried again, unless it was made. */
static bool worth_another_try(int error)
{
    return error == CONCLAVE_NO_NODE || error == CONCLAVE_BAD_VERSION ||
           (error != CONCLAVE_EBUSY && conclave_error_retryable(error));
}

/* The contenders that are written to: those that hold, and the next, but not the named one. */
static size_t request_reach(const struct line_hand_over *h, size_t target)
{
    size_t count = 1;
    while (count < target && line_holds(h, count)) {
        count++;
    }
    return count < target ? count + 1 : count;
}

/* Makes it, unless the named one holds. */
static int request_make(struct line_hand_over *h)
{
    for (;;) {
        size_t target = line_target(h);
        if (target == h->count) {
            return refused(h, CONCLAVE_HAND_OVER_NO_MEMBER);
        }
        if (line_holds(h, target)) {
            return 0;
        }
        int error = request_try(h, request_reach(h, target));
        bool again = error != 0 && worth_another_try(error);
        int looked = error == 0 || again ? request_look(h) : error;
        if (looked != CONCLAVE_NO_NODE || error == 0) {
            return looked;
        }
        if (blocking_is_late(&h->blocking)) {
            return refused(h, CONCLAVE_HAND_OVER_LATE);
        }
        error = contenders_look(h);
        if (error != 0 && !conclave_error_retryable(error)) {
            return error;
        }
    }
}

/* Deletes it, also if its creation is carried out only now; goes on with that after the end of this call. */
static int request_end(struct line_hand_over *h)
{
    int error = 0;
    struct conclave_client *client = h->rt->client;
    client_lock(client);
    if (client_session_id(client) != 0) {
        struct deletion *removal = h->removal;
        h->removal = NULL;
        error = deletes_run(&h->rt->deletes, removal,
                            client_now_ns(client) + (int64_t)TAKE_BACK_MS * 1000000);
    } /* else it went with its session */
    client_unlock(client);
    return error == CONCLAVE_ETIMEDOUT ? 0 : error;
}

/* --- waiting ------------------------------------------------------------------------- */

/* One look: 0 and *ret_done, or why it cannot be. */
static int look_once(struct line_hand_over *h, bool *ret_done)
{
    int error = contenders_look(h);
    if (error != 0) {
        return conclave_error_retryable(error) ? 0 : error;
    }
    size_t target = line_target(h);
    if (target == h->count) {
        return refused(h, CONCLAVE_HAND_OVER_NO_MEMBER);
    }
    *ret_done = line_holds(h, target);
    if (*ret_done) {
        (void)snprintf(h->ret->active, sizeof h->ret->active, "%s", contender_at(h, target)->id);
        h->ret->token.czxid = h->list[target].place;
    }
    return 0;
}

static int wait_until_it_holds(struct line_hand_over *h)
{
    for (;;) {
        bool done = false;
        int error = blocking_session(&h->blocking); /* the request is gone */
        error = error == 0 ? look_once(h, &done) : error;
        if (error == CONCLAVE_ETIMEDOUT || (error == 0 && blocking_is_late(&h->blocking))) {
            return done ? 0 : refused(h, CONCLAVE_HAND_OVER_LATE);
        }
        if (error != 0 || done) {
            return error;
        }
        size_t pause_ms = h->count < LOOK_MIN_MS   ? LOOK_MIN_MS
                          : h->count > LOOK_MAX_MS ? LOOK_MAX_MS
                                                   : h->count; /* a look reads them all */
        usleep((useconds_t)pause_ms * 1000);
    }
}

/* --- all of it ------------------------------------------------------------------------- */

static int line_hand_over_run(struct line_hand_over *h)
{
    hand_over_name(h->target, h->request);
    h->request_path = path_join(h->path, h->request);
    h->removal = h->request_path != NULL ? deletion_create(h->request_path) : NULL;
    if (h->removal == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int error = request_make(h);
    if (error == 0) {
        error = wait_until_it_holds(h);
    }
    int ended = request_end(h);
    return error == 0 ? ended : error;
}

static int line_hand_over(struct conclave_recipes *rt, const char *path, const char *to, bool kinds,
                          int64_t timeout_ms, struct conclave_hand_over *ret)
{
    struct conclave_hand_over own = CONCLAVE_HAND_OVER_INIT;
    struct line_hand_over h = {.rt = rt, .path = path, .to = to, .kinds = kinds, .ret = &own};
    int error = recipes_may_block(rt);
    bool valid = sized_can_write(ret) && option_path_valid(path) && to != NULL && to[0] != '\0';
    if (error != 0 || !valid) {
        return error != 0 ? error : CONCLAVE_EINVAL;
    }
    h.blocking = blocking_begin(rt->client, timeout_ms);
    error = contenders_look(&h);
    error = error == 0 ? line_find(&h) : error;
    if (error == 0 && !line_holds(&h, line_target(&h))) {
        error = line_hand_over_run(&h);
    }
    line_free(&h);
    deletion_free(h.removal);
    free(h.request_path);
    if (ret != NULL && (error == 0 || error == CONCLAVE_ECANCELED)) {
        sized_write(ret, &own);
    }
    return error;
}

int conclave_election_hand_over(struct conclave_recipes *rt, const char *path, const char *to,
                                int64_t timeout_ms, struct conclave_hand_over *ret)
{
    return line_hand_over(rt, path, to, false, timeout_ms, ret);
}

int conclave_lock_hand_over(struct conclave_recipes *rt, const char *path, const char *to,
                            int64_t timeout_ms, struct conclave_hand_over *ret)
{
    return line_hand_over(rt, path, to, true, timeout_ms, ret);
}
