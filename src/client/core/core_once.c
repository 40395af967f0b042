/*
 * Exactly-once writes: a server that grants them remembers the answers to the session's newest writes in the replicated
 * state. So requests that are unanswered when the link is lost are kept and sent again, in order, on the next link of
 * the session, and a write that was already applied gets its first answer.
 *
 * Each write carries a number, which stays the same, and the number of the oldest write without an answer. The link
 * never has more writes than the server remembers, nor writes whose answers may have more bytes; but a single write is
 * always allowed.
 *
 * If the server does not grant it, as Apache ZooKeeper, nothing changes.
 */
#include "client/core/core_internal.h"

#include "base/endian.h"
#include "client/core/sized.h"

#include <assert.h>

enum {
    STAT_BYTES = 68,
    SEQUENCE_BYTES = 11,    /* most bytes that a server appends to a path */
    PART_BYTES = 4 + 1 + 4, /* header of a part of a multi's answer */
};

static size_t path_answer_max(const struct core *c, const struct conclave_op *op)
{
    return 4 + c->options.chroot.len + strlen(op->path) + SEQUENCE_BYTES;
}

size_t core_once_answer_max(const struct core *c, const struct conclave_op *op)
{
    size_t sum = PART_BYTES;
    switch (op->type) {
    case CONCLAVE_OP_CREATE:
        return path_answer_max(c, op) + STAT_BYTES;
    case CONCLAVE_OP_SET:
    case CONCLAVE_OP_SET_ACL:
        return STAT_BYTES;
    case CONCLAVE_OP_MULTI:
        for (size_t i = 0; i < op->parts_count; i++) {
            struct conclave_op part = CONCLAVE_OP_INIT;
            int error = sized_read_item(&part, op->parts, i);
            assert(error == 0); /* op_check has read it */
            (void)error;
            sum += PART_BYTES + 4 + core_once_answer_max(c, &part);
        }
        return sum;
    case CONCLAVE_OP_RECONFIG:
        return SIZE_MAX / 2; /* unknown: it is sent alone */
    default:
        return 0;
    }
}

void core_once_ask(struct core *c)
{
    int32_t features = (c->options.exactly_once ? WIRE_FEATURE_EXACTLY_ONCE : 0) |
                       (c->options.spans ? WIRE_FEATURE_SPANS : 0);
    if (features != 0) {
        struct wire_connect_wish wish = {WIRE_EXTENSION_MAGIC, features};
        wire_encode_connect_wish(&c->out, &wish);
    }
}

static struct client_request *first_kept(struct core *c)
{
    struct client_request *r =
        list_empty(&c->queued) ? NULL : CONTAINER_OF(c->queued.next, struct client_request, link);
    return r != NULL && r->kept ? r : NULL;
}

/* The remembered answers are ours only if no other client has reset them meanwhile. */
void core_once_accepted(struct core *c, struct slice tail)
{
    struct core_once *once = &c->once;
    struct wire_reader r = wire_reader_make(tail);
    struct wire_connect_grant grant = {.magic = 0};
    (void)wire_read_boolean(&r);
    bool granted = c->options.exactly_once && wire_decode_connect_grant(&r, &grant) == 0 &&
                   grant.magic == WIRE_EXTENSION_MAGIC &&
                   (grant.features & WIRE_FEATURE_EXACTLY_ONCE) != 0 && grant.results_max > 0 &&
                   grant.bytes_max > 0;
    bool goes_on =
        granted && once->granted && once->session_id == c->session_id && once->born == grant.born;
    once->granted = granted;
    once->session_id = c->session_id;
    once->writes = once->bytes = 0;
    if (granted) {
        once->born = grant.born;
        once->results_max = (size_t)grant.results_max;
        once->bytes_max = (size_t)grant.bytes_max;
    }
    if (goes_on) {
        return;
    }
    once->answered = grant.last;
    once->next = (int32_t)((uint32_t)grant.last + 1);
    struct client_request *kept;
    while ((kept = first_kept(c)) != NULL) {
        core_refuse_queued(c, kept, CONCLAVE_CONNECTION_LOSS);
    }
}

static bool is_write(const struct client_request *r)
{
    return (wire_op_flags(r->opcode) & WIRE_OP_WRITE) != 0;
}

bool core_once_fits(const struct core *c, const struct client_request *r)
{
    const struct core_once *once = &c->once;
    return !once->granted || !is_write(r) || once->writes == 0 ||
           (once->writes < once->results_max && once->bytes + r->answer_max <= once->bytes_max);
}

void core_once_sent(struct core *c, struct client_request *r, size_t start)
{
    struct core_once *once = &c->once;
    if (!once->granted || !is_write(r)) {
        return;
    }
    if (!r->numbered) {
        r->number = once->next;
        r->numbered = true;
        once->next = (int32_t)((uint32_t)once->next + 1);
    }
    assert(c->out.cap - c->out.len >= CORE_ONCE_ROOM && start < c->out.len);
    once->writes++;
    once->bytes += r->answer_max;
    struct wire_write_number n = {r->number, (int32_t)((uint32_t)once->answered + 1)};
    wire_encode_write_number(&c->out, &n);
    put_be32(c->out.data + start, (uint32_t)(c->out.len - start - 4));
}

/* A server that has lost the session to another one refuses to carry out this repetition, but cannot know whether the
 * first try was carried out. So the write keeps its number and its place, and the server of the next link decides. */
bool core_once_is_unknown(const struct core *c, const struct client_request *r, int error)
{
    return c->once.granted && r->numbered && r->kept && !r->answered && !c->closing &&
           error == CONCLAVE_SESSION_MOVED;
}

void core_once_answered(struct core *c, const struct client_request *r)
{
    if (c->once.granted && r->numbered) {
        assert(c->once.writes > 0 && c->once.bytes >= r->answer_max);
        c->once.writes--;
        c->once.bytes -= r->answer_max;
        c->once.answered = r->number;
    }
}

void core_once_keep(struct core *c)
{
    if (!c->once.granted || c->closing) {
        return;
    }
    struct list *before;
    for (struct list *link = c->inflight.prev; link != &c->inflight; link = before) {
        struct client_request *r = CONTAINER_OF(link, struct client_request, link);
        before = link->prev;
        if (r->frame != NULL && !r->answered) {
            r->kept = true;
            core_requeue(c, r);
        }
    }
}
