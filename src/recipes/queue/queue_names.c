#include "recipes/queue/queue_names.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char marker[] = "-q_";

enum { PRIORITY_DIGITS = 3 };

void queue_name_make_prefix(int priority, char *buf)
{
    char native[NAME_PREFIX_MAX];
    assert(priority >= 0 && priority <= 999);
    name_make_prefix(CONCLAVE_NAMING_NATIVE, NAME_PLAIN, native);
    (void)snprintf(buf, NAME_PREFIX_MAX, "%03d-%.32s%s", priority, native,
                   marker); /* its guid alone */
}

bool queue_name_parse(const char *name, struct queue_name *ret)
{
    const char *digits = strrchr(name, '_');
    int priority = 0;
    for (int i = 0; i < PRIORITY_DIGITS; i++) {
        if (name[i] < '0' || name[i] > '9') {
            return false;
        }
        priority = priority * 10 + (name[i] - '0');
    }
    if (name[PRIORITY_DIGITS] != '-' || digits == NULL ||
        digits - name < PRIORITY_DIGITS + (long)strlen(marker) ||
        strncmp(digits + 1 - strlen(marker), marker, strlen(marker)) != 0 ||
        !sequence_parse(digits + 1, &ret->sequence)) {
        return false;
    }
    ret->name = name;
    ret->priority = priority;
    return true;
}

static int queue_names_compare(const void *a, const void *b)
{
    const struct queue_name *x = a;
    const struct queue_name *y = b;
    if (x->priority != y->priority) {
        return x->priority < y->priority ? -1 : 1;
    }
    if (x->sequence != y->sequence) {
        return x->sequence < y->sequence ? -1 : 1;
    }
    return strcmp(x->name, y->name); /* any order, as long as it is always the same */
}

/* Numbers that have wrapped: the part behind the widest gap of the circle comes first. sorted is
 * one priority. */
static void unwrap(struct queue_name *sorted, size_t count, struct queue_name *spare)
{
    size_t start = 0;
    uint32_t widest = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t before = (uint32_t)sorted[(i + count - 1) % count].sequence;
        uint32_t gap = (uint32_t)sorted[i].sequence - before;
        if (gap > widest) {
            widest = gap;
            start = i;
        }
    }
    if (start == 0) {
        return;
    }
    memcpy(spare, sorted, count * sizeof *sorted);
    memcpy(sorted, spare + start, (count - start) * sizeof *sorted);
    memcpy(sorted + (count - start), spare, start * sizeof *sorted);
}

int queue_names_order(const char *const *children, size_t count, struct queue_name **ret,
                      size_t *ret_count)
{
    struct queue_name *list = calloc(count + 1, sizeof *list);
    struct queue_name *spare = calloc(count + 1, sizeof *spare);
    size_t n = 0;
    if (list == NULL || spare == NULL) {
        free(list);
        free(spare);
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        n += queue_name_parse(children[i], &list[n]) ? 1 : 0;
    }
    qsort(list, n, sizeof *list, queue_names_compare);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && list[to].priority == list[from].priority;) {
            to++;
        }
        unwrap(list + from, to - from, spare);
    }
    free(spare);
    assert(n <= count);
    *ret = list;
    *ret_count = n;
    return 0;
}
