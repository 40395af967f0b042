/* Several locks at once: all or none, always in the order of their paths. */
#include "recipes/hold/lock.h"

#include <stdlib.h>
#include <string.h>

static int locks_by_path(const void *a, const void *b)
{
    const struct conclave_lock *x = *(struct conclave_lock *const *)a;
    const struct conclave_lock *y = *(struct conclave_lock *const *)b;
    return strcmp(x->c.path, y->c.path);
}

/* The handles in the order of their paths; free it with free. NULL without memory. */
static struct conclave_lock **locks_sorted(struct conclave_lock *const *locks, size_t count)
{
    struct conclave_lock **order = calloc(count + 1, sizeof(struct conclave_lock *));
    for (size_t i = 0; i < count && order != NULL; i++) {
        order[i] = locks[i];
    }
    if (order != NULL) {
        qsort(order, count, sizeof(struct conclave_lock *), locks_by_path);
    }
    return order;
}

/* One of them twice: the second would wait for the first; two ensembles may have the same path. */
static bool locks_repeat(struct conclave_lock *const *order, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        if (lock_rt(order[i])->client == lock_rt(order[i - 1])->client &&
            strcmp(order[i]->c.path, order[i - 1]->c.path) == 0) {
            return true;
        }
    }
    return false;
}

static int64_t locks_left_ms(const struct conclave_lock *l, int64_t deadline_ns)
{
    if (deadline_ns == CONCLAVE_FOREVER) {
        return CONCLAVE_FOREVER;
    }
    int64_t left = deadline_ns - client_now_ns(lock_rt(l)->client);
    return left > 0 ? left / 1000000 : 0;
}

/* In reverse order, from the one before `end` on. */
static int locks_release_before(struct conclave_lock **order, size_t end, int64_t timeout_ms)
{
    int result = 0;
    if (end == 0) {
        return 0;
    }
    int64_t deadline = client_deadline_ns(lock_rt(order[0])->client, timeout_ms);
    while (end > 0) {
        end--;
        int error = conclave_lock_release(order[end], locks_left_ms(order[end], deadline));
        result = result == 0 ? error : result;
    }
    return result;
}

int conclave_locks_acquire(struct conclave_lock *const *locks, size_t count, int64_t timeout_ms)
{
    struct conclave_lock **order = locks_sorted(locks, count);
    if (order == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int error = locks_repeat(order, count) ? CONCLAVE_EDEADLK : 0;
    int64_t deadline =
        count > 0 ? client_deadline_ns(lock_rt(order[0])->client, timeout_ms) : CONCLAVE_FOREVER;
    size_t held = 0;
    while (held < count && error == 0) {
        int64_t left = timeout_ms == 0 ? 0 : locks_left_ms(order[held], deadline);
        if (left == 0 && timeout_ms != 0) {
            error = CONCLAVE_ETIMEDOUT;
        } else {
            error = conclave_lock_acquire(order[held], left, NULL);
        }
        held += error == 0 ? 1 : 0;
    }
    if (error != 0) {
        /* Not waited for: the deletions go on. A lock lost meanwhile counts as released. */
        int released = locks_release_before(order, held, 0);
        (void)released;
    }
    free(order);
    return error;
}

int conclave_locks_release(struct conclave_lock *const *locks, size_t count, int64_t timeout_ms)
{
    struct conclave_lock **order = locks_sorted(locks, count);
    if (order == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int error = locks_release_before(order, count, timeout_ms);
    free(order);
    return error;
}
