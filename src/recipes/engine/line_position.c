#include "recipes/engine/line_position.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void list_clear(struct place *p)
{
    for (size_t i = 0; i < p->list_count; i++) {
        free(p->list_names[i]);
    }
    free(p->list_names);
    free(p->list);
    p->list_names = NULL;
    p->list = NULL;
    p->list_count = 0;
}

/* An answer: false when it is about an earlier node. */
static bool current(const struct place *p, const struct step *step)
{
    return step->generation == p->generation && p->node != NULL;
}

/* Whether requests to hand over count here: clients of other libraries do not know them. */
static bool can_pass(const struct place *p)
{
    return p->class->pass != NULL && p->naming == CONCLAVE_NAMING_NATIVE;
}

static void own_written(struct place *p, int64_t zxid)
{
    if (can_pass(p) && zxid > p->own_zxid) {
        p->own_zxid = zxid;
        p->look = true;
        p->last = false;
    }
}

/* Our node was written to, or may have been: only the list tells what has become of the line. */
static bool is_called(const struct place *p)
{
    return can_pass(p) && (p->look || !p->own.armed);
}

/* Our own node, as this session sees it: it has to be the one that was created, by this
 * session. */
static void on_own(struct step *step, const struct conclave_reply *reply)
{
    struct place *p = CONTAINER_OF(step, struct place, own_step);
    watch_slot_answered(&p->own, reply->error == 0);
    if (!current(p, step)) {
        watch_slot_clear(&p->own);
    } else if (reply->error == CONCLAVE_NO_NODE) {
        p->class->gone(p);
    } else if (reply->error != 0) {
        p->class->trouble(p, reply->error);
    } else if (reply->stat.ephemeral_owner != p->session_id || reply->stat.czxid != p->czxid) {
        p->class->gone(p);
    } else {
        own_written(p, reply->stat.mzxid);
        if (p->class->own != NULL) {
            p->class->own(p, reply);
        }
    }
}

static void on_before(struct step *step, const struct conclave_reply *reply)
{
    struct place *p = CONTAINER_OF(step, struct place, step);
    watch_slot_answered(&p->before, reply->error == 0);
    if (!current(p, step)) {
        watch_slot_clear(&p->before);
    } else if (reply->error == CONCLAVE_NO_NODE && p->last && !is_called(p)) {
        watch_slot_clear(&p->before);
        p->last = false;
        p->class->free(p);
    } else if (reply->error == 0 && p->class->doubts != NULL && p->class->doubts(p, &reply->stat)) {
        watch_slot_clear(&p->before);
        p->last = false;
        p->herd = true;
    } else if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        p->class->trouble(p, reply->error);
    } else if (reply->error == 0 && !p->last && reply->stat.mzxid > p->list_zxid) {
        watch_slot_clear(&p->before); /* it has reported an event since the list was made */
    } /* else NO_NODE: gone since the list was made, so the list is made again */
}

static void submit(struct place *p, struct step *step, const struct conclave_op *op, step_fn fn)
{
    assert(p->node != NULL);
    step->generation = p->generation;
    step_submit(step, op, fn);
}

static void read_before(struct place *p, const char *path)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
    if (path == NULL || watch_slot_prepare(&p->before, path, &op) != 0) {
        p->class->trouble(p, CONCLAVE_ENOMEM);
    } else {
        submit(p, &p->step, &op, on_before);
    }
}

/* Whether it is free when this one is gone: the list had no other contender in the way, and
 * later contenders come behind. Not if it may be a writer: a writer may become a reader in its place.
 * */
static bool is_last(const struct place *p, const struct line_entry *list, size_t count,
                    size_t before)
{
    size_t other;
    if (p->handed_to[0] != '\0') {
        return false; /* the list will tell whether to let another pass */
    }
    if (p->class->kinds &&
        (list[before].kind != NAME_PLAIN || p->naming == CONCLAVE_NAMING_KAZOO)) {
        return false;
    }
    return p->class->judge(p, list, count, before, &other) == PLACE_FREE;
}

static void watch_before(struct place *p, const struct line_entry *list, size_t count,
                         size_t before)
{
    char *path = path_join(p->parent, list[before].name);
    p->crowd = false;
    p->last = is_last(p, list, count, before);
    read_before(p, path);
    free(path);
}

enum place_verdict place_judge_first(const struct place *p, const struct line_entry *list,
                                     size_t count, size_t at, size_t *ret_before)
{
    if (at == 0) {
        return PLACE_FREE;
    }
    *ret_before = at - 1;
    return PLACE_BEHIND;
}

static void line_position_on_children(struct step *step, const struct conclave_reply *reply);

/* With a watch on all children if it waits for a change among them. */
static void list_children(struct place *p)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, p->parent, 0);
    if (p->crowd && watch_slot_prepare(&p->before, p->parent, &op) != 0) {
        p->class->trouble(p, CONCLAVE_ENOMEM);
        return;
    }
    submit(p, &p->step, &op, line_position_on_children);
}

/* Whether a request names one behind ours. */
static bool is_passed(const struct place *p, const struct line_entry *list, size_t count, size_t at)
{
    if (p->handed_to[0] == '\0' || !can_pass(p)) {
        return false;
    }
    size_t to = contenders_find(list, count, p->handed_to);
    return to < count && at < to;
}

/* The list is in order: we are not in it, have to wait, or are free. */
static void take_place(struct place *p, const struct line_entry *list, size_t count)
{
    size_t at = contenders_find(list, count, path_name(p->node));
    size_t before = 0;
    bool looking = p->looking;
    p->looking = false;
    if (at == count) {
        p->class->gone(p);
        return;
    }
    bool passed = is_passed(p, list, count, at);
    if (looking) {
        p->look = false;
        if (passed) {
            (void)p->class->pass(p);
        }
        return;
    }
    enum place_verdict verdict = p->class->judge(p, list, count, at, &before);
    p->behind = count - 1 - at;
    if (verdict == PLACE_FREE && passed && p->class->pass(p)) {
        place_forget_before(p);
    } else if (verdict == PLACE_FREE) {
        place_forget_before(p);
        p->crowd = false;
        p->class->free(p);
    } else if (p->class->wait != NULL && !p->class->wait(p)) {
        place_forget_before(p);
    } else if (verdict == PLACE_BEHIND && !p->herd) {
        watch_before(p, list, count, before);
    } else if (!p->before.armed) {
        p->crowd = true; /* once more, as it may have changed before the watch was set */
        list_children(p);
    }
}

static void fetch_czxid(struct place *p);

/* The meaning is unknown: a watch on all children must not prevent another read. */
static void list_failed(struct place *p, int error)
{
    list_clear(p);
    place_forget_before(p);
    p->class->trouble(p, error);
}

int64_t place_inherited_czxid(const struct conclave_reply *reply)
{
    static const char label[] = PLACE_INHERITED;
    size_t label_len = sizeof label - 1;
    const char *data = reply->data;
    for (size_t i = 0; data != NULL && i + label_len < reply->data_len; i++) {
        char digits[24] = "";
        size_t rest = reply->data_len - i - label_len;
        if (memcmp(data + i, label, label_len) == 0 && rest < sizeof digits) {
            memcpy(digits, data + i + label_len, rest);
            return strtoll(digits, NULL, 10);
        }
    }
    return reply->stat.czxid;
}

static void on_czxid(struct step *step, const struct conclave_reply *reply)
{
    struct place *p = CONTAINER_OF(step, struct place, step);
    struct line_entry *c = &p->list[p->list_next];
    if (!current(p, step)) {
        list_clear(p);
        place_forget_before(p);
        return;
    }
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        list_failed(p, reply->error);
        return;
    }
    c->gone = reply->error == CONCLAVE_NO_NODE;
    c->czxid = place_inherited_czxid(reply);
    p->list_next++;
    fetch_czxid(p);
}

static void fetch_czxid(struct place *p)
{
    if (p->list_next < p->list_count) {
        char *path = path_join(p->parent, p->list[p->list_next].name);
        if (path == NULL) {
            list_failed(p, CONCLAVE_ENOMEM);
            return;
        }
        /* With its data where it may have taken another's place. */
        bool read = p->list[p->list_next].kind == NAME_READ;
        struct conclave_op op =
            conclave_op_path(read ? CONCLAVE_OP_GET : CONCLAVE_OP_EXISTS, path, 0);
        submit(p, &p->step, &op, on_czxid);
        free(path);
        return;
    }
    size_t count = 0;
    contenders_sort(p->list, p->list_count, true);
    while (count < p->list_count && !p->list[count].gone) {
        count++;
    }
    take_place(p, p->list, count);
    list_clear(p);
}

/* Sequence numbers do not decide: keeps the names and asks for each one's czxid. */
static void order_by_czxid(struct place *p, const struct line_entry *list, size_t count)
{
    p->list = calloc(count, sizeof *p->list);
    p->list_names = calloc(count, sizeof *p->list_names);
    if (p->list == NULL || p->list_names == NULL) {
        list_failed(p, CONCLAVE_ENOMEM);
        return;
    }
    for (p->list_count = 0; p->list_count < count; p->list_count++) {
        size_t i = p->list_count;
        p->list_names[i] = strdup(list[i].name);
        if (p->list_names[i] == NULL) {
            list_failed(p, CONCLAVE_ENOMEM);
            return;
        }
        p->list[i] = list[i];
        p->list[i].name = p->list_names[i];
    }
    p->list_next = 0;
    fetch_czxid(p);
}

int place_contenders(const struct place *p, const struct conclave_reply *reply,
                     struct line_entry **ret, size_t *ret_count)
{
    int error = contenders_filter(p->naming, p->class->kinds, reply, ret, ret_count);
    if (error == 0) {
        contenders_sort(*ret, *ret_count, false);
    }
    return error;
}

static void line_position_on_children(struct step *step, const struct conclave_reply *reply)
{
    struct place *p = CONTAINER_OF(step, struct place, step);
    struct line_entry *list = NULL;
    size_t count = 0;
    if (p->before.pending) {
        watch_slot_answered(&p->before, reply->error == 0);
    }
    if (!current(p, step)) {
        watch_slot_clear(&p->before); /* asked again below */
    } else if (reply->error == CONCLAVE_NO_NODE) {
        p->class->gone(p);
    } else if (reply->error != 0) {
        p->class->trouble(p, reply->error);
    } else if (place_contenders(p, reply, &list, &count) != 0) {
        watch_slot_clear(&p->before);
        p->class->trouble(p, CONCLAVE_ENOMEM);
    } else {
        p->list_zxid = reply->zxid;
        hand_over_find(reply, p->handed_to);
        if (contenders_need_czxid(list, count)) {
            order_by_czxid(p, list, count);
        } else {
            take_place(p, list, count);
        }
    }
    free(list);
}

static void read_own(struct place *p)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, NULL, 0);
    if (watch_slot_prepare(&p->own, p->node, &op) != 0) {
        p->class->trouble(p, CONCLAVE_ENOMEM);
        return;
    }
    submit(p, &p->own_step, &op, on_own);
}

void place_run(struct place *p, bool queued)
{
    if (p->node == NULL || p->own.pending || (p->own_step.busy || p->step.busy)) {
        return;
    }
    if (!p->own.armed) {
        read_own(p);
        if (!p->class->together || !p->own_step.busy) {
            return;
        }
    }
    p->looking = false;
    if (queued && p->naming == CONCLAVE_NAMING_FIXED) {
        p->class->free(p);
    } else if (queued && !p->before.armed) {
        if (p->last && p->before.path != NULL) {
            read_before(p, p->before.path);
        } else {
            list_children(p);
        }
    } else if (!queued && p->look) {
        p->looking = true;
        list_children(p);
    }
}

void place_forget_before(struct place *p)
{
    p->last = false;
    if (!p->before.pending) {
        watch_slot_clear(&p->before);
    }
}

void place_enter(struct place *p, const char *node, int64_t session_id, int64_t czxid)
{
    assert(p->node == NULL && !p->own.armed && !p->before.armed);
    p->node = node;
    p->session_id = session_id;
    p->czxid = czxid;
    p->generation++;
    p->crowd = false;
    p->last = false;
    p->herd = false;
    p->look = false;
    p->looking = false;
    p->own_zxid = czxid;
    p->handed_to[0] = '\0';
}

void place_leave(struct place *p)
{
    p->node = NULL;
    p->generation++;
    if (!p->own.pending) {
        watch_slot_clear(&p->own);
    }
    place_forget_before(p);
}

void place_init(struct place *p, struct machine *machine, const struct place_class *class,
                const char *parent, enum conclave_naming naming)
{
    memset(p, 0, sizeof *p);
    p->class = class;
    p->parent = parent;
    p->naming = naming;
    machine_step_init(machine, &p->step);
    machine_step_init(machine, &p->own_step);
    machine_watch_init(machine, &p->own);
    machine_watch_init(machine, &p->before);
}

void place_finish(struct place *p)
{
    watch_slot_clear(&p->own);
    watch_slot_clear(&p->before);
    list_clear(p);
}
