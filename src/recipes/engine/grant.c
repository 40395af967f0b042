#include "recipes/engine/grant.h"

#include "client/core/sized.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void grant_publish(struct grant *grant, int64_t czxid, int64_t until_ns)
{
    atomic_store_explicit(&grant->czxid, czxid, memory_order_relaxed);
    atomic_store_explicit(&grant->until_ns, until_ns, memory_order_release);
}

void grant_withdraw(struct grant *grant)
{
    atomic_store_explicit(&grant->until_ns, 0, memory_order_release);
}

/* The end is read first, then compared with the clock of this moment. */
static int64_t until_and_now(const struct grant *grant, const struct conclave_recipes *rt,
                             int64_t *ret_now_ns)
{
    int64_t until = atomic_load_explicit(&grant->until_ns, memory_order_acquire);
    if (until == 0 || getpid() != rt->pid) {
        return 0;
    }
    *ret_now_ns = client_now_ns(rt->client);
    return *ret_now_ns < until ? until : 0;
}

int64_t grant_until_ns(const struct grant *grant, const struct conclave_recipes *rt)
{
    int64_t now;
    return until_and_now(grant, rt, &now);
}

int64_t grant_left_ms(const struct grant *grant, const struct conclave_recipes *rt)
{
    int64_t now;
    int64_t until = until_and_now(grant, rt, &now);
    return until == 0 ? 0 : (until - now) / 1000000;
}

struct conclave_token grant_token(const struct grant *grant, const struct conclave_recipes *rt)
{
    struct conclave_token token = {0};
    if (grant_until_ns(grant, rt) != 0) {
        token.czxid = atomic_load_explicit(&grant->czxid, memory_order_relaxed);
    }
    return token;
}

/* The checks came first: their results are not the caller's. */
static int fenced_answer(int error, struct conclave_reply *reply, size_t checks,
                         struct conclave_reply **ret_reply)
{
    if (reply != NULL && reply->results_count >= checks) {
        for (size_t i = 0; i < checks; i++) {
            int failed = reply->results[i]->error;
            error = failed == CONCLAVE_NO_NODE || failed == CONCLAVE_BAD_VERSION ? CONCLAVE_EFENCED
                                                                                 : error;
        }
        reply->results += checks;
        reply->results_count -= checks;
    }
    if (ret_reply != NULL) {
        *ret_reply = reply;
    } else {
        conclave_reply_free(reply);
    }
    return error;
}

int ops_read(struct conclave_op *own, const struct conclave_op *ops, size_t count)
{
    int error = 0;
    for (size_t i = 0; i < count && error == 0; i++) {
        own[i] = (struct conclave_op)CONCLAVE_OP_INIT;
        error = sized_read_item(&own[i], ops, i);
    }
    return error;
}

/* The check before the transaction is queued. */
struct fenced_call {
    const struct fenced_version *version;
    struct conclave_op *check;
};

static int take_version(void *ctx)
{
    struct fenced_call *call = ctx;
    return call->version->version(call->version->ctx, &call->check->version);
}

static int fenced_call(struct conclave_client *client, const struct conclave_op *checks,
                       size_t checks_count, const struct fenced_version *version,
                       const struct conclave_op *parts, size_t count,
                       struct conclave_reply **ret_reply)
{
    struct conclave_reply *reply = NULL;
    struct conclave_op *all = malloc((checks_count + count) * sizeof *all);
    assert(checks_count > 0);
    if (ret_reply != NULL) {
        *ret_reply = NULL;
    }
    if (all == NULL) {
        return CONCLAVE_ENOMEM;
    }
    memcpy(all, checks, checks_count * sizeof *all);
    static const struct conclave_retry_options never = {.size = sizeof never};
    struct conclave_op op = conclave_op_multi(all, checks_count + count);
    op.retry = &never; /* a repetition could come after the end of what is checked */
    struct fenced_call call = {version, all};
    int error = ops_read(all + checks_count, parts, count);
    if (error == 0) {
        error = client_call(client, &op, version != NULL ? take_version : NULL, &call, &reply);
    }
    free(all);
    return fenced_answer(error, reply, checks_count, ret_reply);
}

int fenced_multi_version(struct conclave_client *client, const char *node,
                         const struct fenced_version *version, const struct conclave_op *parts,
                         size_t count, struct conclave_reply **ret_reply)
{
    struct conclave_op check = conclave_op_path(CONCLAVE_OP_CHECK, node, -1);
    return fenced_call(client, &check, 1, version, parts, count, ret_reply);
}

int fenced_multi(struct conclave_client *client, const char *node, const struct conclave_op *parts,
                 size_t count, struct conclave_reply **ret_reply)
{
    return fenced_multi_version(client, node, NULL, parts, count, ret_reply);
}

int fenced_multi_checks(struct conclave_client *client, const struct conclave_op *checks,
                        size_t checks_count, const struct conclave_op *parts, size_t count,
                        struct conclave_reply **ret_reply)
{
    return fenced_call(client, checks, checks_count, NULL, parts, count, ret_reply);
}
