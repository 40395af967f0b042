#include "recipes/queue/queue_names.h"

#include "recipes/engine/option_copies.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char marker[] = "-q_";

enum {
    PRIORITY_DIGITS = 3,
    PRIORITY_MOST = 999,
    DUE_DIGITS = 11, /* of the native layout: until the year 2527 */
    SEQUENCE_DIGITS = 10,
    GUID_DIGITS = 32,
};

#define DUE_MOST ((INT64_C(1) << (4 * DUE_DIGITS)) - 1)

static const char curator_prefix[] = "queue-";
static const char kazoo_prefix[] = "entry-";
static const char plain_prefix[] =
    "qn-"; /* of ZooKeeper's DistributedQueue, Curator's SimpleDistributedQueue */

/* --- writing ------------------------------------------------------------------------------- */

void queue_guid(char *buf)
{
    char prefix[NAME_PREFIX_MAX];
    name_make_prefix(CONCLAVE_NAMING_NATIVE, NAME_PLAIN, prefix);
    (void)snprintf(buf, NAME_PREFIX_MAX, "%.32s", prefix); /* its guid alone */
}

static bool id_valid(const char *id)
{
    size_t len = strlen(id);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)id[i] < 0x20 || id[i] == 0x7f || id[i] == '/' || id[i] == '|') {
            return false;
        }
    }
    return len > 0 && len <= CONCLAVE_QUEUE_ID_MAX;
}

bool queue_label_valid(const struct queue_naming *naming, const struct queue_label *label)
{
    bool id = label->id != NULL;
    bool due = label->due_ms != 0;
    bool three = label->priority >= 0 && label->priority <= PRIORITY_MOST;
    bool usual = label->priority == CONCLAVE_QUEUE_PRIORITY_DEFAULT;
    if (label->due_ms < 0 || label->due_ms > DUE_MOST || (id && !id_valid(label->id))) {
        return false;
    }
    switch (naming->layout) {
    case CONCLAVE_QUEUE_LAYOUT_NATIVE:
        return three;
    case CONCLAVE_QUEUE_LAYOUT_KAZOO:
    case CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING:
        return three && !id && !due;
    case CONCLAVE_QUEUE_LAYOUT_CURATOR:
        return usual && !due;
    case CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY:
        return !id && !due;
    case CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY:
        return usual && !id;
    default:
        return usual && !id && !due;
    }
}

static void native_prefix(const struct queue_label *label, char *buf)
{
    char due[2 + 16 + 1] = "";
    char guid[NAME_PREFIX_MAX];
    bool id = label->id != NULL;
    queue_guid(guid);
    if (label->due_ms > 0) {
        (void)snprintf(due, sizeof due, "d%0*" PRIx64 "-", DUE_DIGITS, (uint64_t)label->due_ms);
    }
    (void)snprintf(buf, CONCLAVE_QUEUE_NAME_MAX, "%s%03d-%s%s%s%s%s", due, label->priority, guid,
                   id ? "|" : "", id ? label->id : "", id ? "|" : "", marker);
}

void queue_name_make_prefix(const struct queue_naming *naming, const struct queue_label *label,
                            char *buf)
{
    const size_t size = CONCLAVE_QUEUE_NAME_MAX;
    assert(queue_label_valid(naming, label));
    switch (naming->layout) {
    case CONCLAVE_QUEUE_LAYOUT_NATIVE:
        native_prefix(label, buf);
        break;
    case CONCLAVE_QUEUE_LAYOUT_KAZOO:
    case CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING:
        (void)snprintf(buf, size, "%s%03d-", kazoo_prefix, label->priority);
        break;
    case CONCLAVE_QUEUE_LAYOUT_CURATOR:
        (void)snprintf(buf, size, "%s%s%s%s", curator_prefix, label->id != NULL ? "|" : "",
                       label->id != NULL ? label->id : "", label->id != NULL ? "|" : "");
        break;
    case CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY:
        (void)snprintf(buf, size, "%s%c%08" PRIX32, curator_prefix,
                       label->priority >= 0 ? '1' : '0', (uint32_t)label->priority);
        break;
    case CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY:
        (void)snprintf(buf, size, "%s|%08" PRIX64 "|", curator_prefix, (uint64_t)label->due_ms);
        break;
    default:
        (void)snprintf(buf, size, "%s", naming->prefix != NULL ? naming->prefix : plain_prefix);
        break;
    }
}

char *queue_name_make_dead(const char *item)
{
    char guid[NAME_PREFIX_MAX];
    char mark[GUID_DIGITS + 2];
    queue_guid(guid);
    (void)snprintf(mark, sizeof mark, "%.*s~", GUID_DIGITS, guid);
    return text_concat(mark, item);
}

/* --- reading ------------------------------------------------------------------------------- */

/* What stands behind prefix; NULL: name does not begin with it. */
static const char *behind(const char *name, const char *prefix)
{
    size_t len = strlen(prefix);
    return strncmp(name, prefix, len) == 0 ? name + len : NULL;
}

/* Reads exactly `digits` digits to a base of 10 or 16; NULL: there are others. */
static const char *number_parse(const char *text, int digits, unsigned base, int64_t *ret)
{
    int64_t value = 0;
    for (int i = 0; i < digits; i++) {
        char c = text[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A') + 10
                                                : 99;
        if (digit >= base) {
            return NULL;
        }
        value = value * (int64_t)base + (int64_t)digit;
    }
    *ret = value;
    return text + digits;
}

/* "PPP-", as our own layout and kazoo's have it. */
static const char *priority_parse(const char *text, struct queue_name *ret)
{
    int64_t priority;
    text = number_parse(text, PRIORITY_DIGITS, 10, &priority);
    if (text == NULL || *text != '-') {
        return NULL;
    }
    ret->priority = (int)priority;
    return text + 1;
}

static bool native_parse(const char *name, struct queue_name *ret)
{
    const char *digits = strrchr(name, '_');
    const char *at = name;
    if (*at == 'd') {
        at = number_parse(at + 1, DUE_DIGITS, 16, &ret->due_ms);
        if (at == NULL || *at++ != '-') {
            return false;
        }
    }
    at = priority_parse(at, ret);
    if (at == NULL || digits == NULL || digits + 1 - at < (long)strlen(marker) ||
        strncmp(digits + 1 - strlen(marker), marker, strlen(marker)) != 0) {
        return false;
    }
    const char *from = strchr(at, '|');
    const char *to = from == NULL ? NULL : strchr(from + 1, '|');
    if (to != NULL) {
        ret->id = from + 1;
        ret->id_len = (size_t)(to - from - 1);
    }
    return sequence_parse(digits + 1, &ret->sequence);
}

/* The number is the last ten characters, or eleven when the server's own is that long. */
static bool plain_parse(const struct queue_naming *naming, const char *name, struct queue_name *ret)
{
    size_t len = strlen(name);
    if (naming->prefix != NULL) {
        const char *digits = behind(name, naming->prefix);
        return digits != NULL && sequence_parse(digits, &ret->sequence);
    }
    return (len >= SEQUENCE_DIGITS &&
            sequence_parse(name + len - SEQUENCE_DIGITS, &ret->sequence)) ||
           (len > SEQUENCE_DIGITS &&
            sequence_parse(name + len - SEQUENCE_DIGITS - 1, &ret->sequence));
}

/* "|text|" before the sequence number; NULL: there is none. */
static const char *between_bars(const char *text, size_t *ret_len)
{
    const char *end = *text == '|' ? strrchr(text + 1, '|') : NULL;
    *ret_len = end == NULL ? 0 : (size_t)(end - text - 1);
    return end == NULL ? NULL : text + 1;
}

static bool curator_parse(enum conclave_queue_layout layout, const char *name,
                          struct queue_name *ret)
{
    const char *rest = behind(name, curator_prefix);
    if (rest == NULL) {
        return false;
    }
    if (layout == CONCLAVE_QUEUE_LAYOUT_CURATOR_PRIORITY) {
        int64_t priority;
        const char *digits =
            *rest == '0' || *rest == '1' ? number_parse(rest + 1, 8, 16, &priority) : NULL;
        if (digits == NULL) {
            return false;
        }
        ret->priority = (int)(int32_t)(uint32_t)priority;
        return (ret->priority >= 0) == (*rest == '1') && sequence_parse(digits, &ret->sequence);
    }
    size_t len;
    const char *text = between_bars(rest, &len);
    if (text == NULL) {
        return sequence_parse(rest, &ret->sequence);
    }
    if (layout == CONCLAVE_QUEUE_LAYOUT_CURATOR) {
        ret->id = text;
        ret->id_len = len;
    } else if (len == 0 || len > DUE_DIGITS ||
               number_parse(text, (int)len, 16, &ret->due_ms) == NULL) {
        return false;
    }
    return sequence_parse(text + len + 1, &ret->sequence);
}

const char *queue_name_of_dead(const char *name)
{
    bool marked = strspn(name, "0123456789abcdef") == GUID_DIGITS && name[GUID_DIGITS] == '~';
    return marked ? name + GUID_DIGITS + 1 : name;
}

bool queue_name_parse(const struct queue_naming *naming, const char *name, struct queue_name *ret)
{
    *ret = (struct queue_name){.name = name, .priority = CONCLAVE_QUEUE_PRIORITY_DEFAULT};
    name = naming->dead ? queue_name_of_dead(name) : name;
    switch (naming->layout) {
    case CONCLAVE_QUEUE_LAYOUT_NATIVE:
        return native_parse(name, ret);
    case CONCLAVE_QUEUE_LAYOUT_PLAIN:
        return plain_parse(naming, name, ret);
    case CONCLAVE_QUEUE_LAYOUT_KAZOO:
    case CONCLAVE_QUEUE_LAYOUT_KAZOO_LOCKING: {
        const char *rest = behind(name, kazoo_prefix);
        rest = rest == NULL ? NULL : priority_parse(rest, ret);
        return rest != NULL && sequence_parse(rest, &ret->sequence);
    }
    default:
        return curator_parse(naming->layout, name, ret);
    }
}

/* --- order ----------------------------------------------------------------------------------- */

static int queue_names_compare(const void *a, const void *b)
{
    const struct queue_name *x = a;
    const struct queue_name *y = b;
    if (x->order_ms != y->order_ms) {
        return x->order_ms < y->order_ms ? -1 : 1;
    }
    if (x->priority != y->priority) {
        return x->priority < y->priority ? -1 : 1;
    }
    if (x->sequence != y->sequence) {
        return x->sequence < y->sequence ? -1 : 1;
    }
    return strcmp(x->name, y->name); /* any order, as long as it is always the same */
}

/* Numbers that have wrapped: the part behind the widest gap of the circle comes first. sorted is
 * one priority, and one time in a queue by time. */
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

int queue_names_order(const struct queue_naming *naming, const char *const *children, size_t count,
                      int64_t now_ms, struct queue_name **ret, size_t *ret_count, size_t *ret_due)
{
    bool by_time = naming->layout == CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY;
    struct queue_name *list = calloc(count + 1, sizeof *list);
    struct queue_name *spare = calloc(count + 1, sizeof *spare);
    size_t n = 0;
    size_t due = 0;
    if (list == NULL || spare == NULL) {
        free(list);
        free(spare);
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        struct queue_name *name = &list[n];
        if (queue_name_parse(naming, children[i], name)) {
            bool delayed = name->due_ms > now_ms;
            name->order_ms = by_time || delayed ? name->due_ms : 0;
            due += delayed ? 0 : 1;
            n++;
        }
    }
    qsort(list, n, sizeof *list, queue_names_compare);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from; to < n && list[to].order_ms == list[from].order_ms &&
                        list[to].priority == list[from].priority;) {
            to++;
        }
        unwrap(list + from, to - from, spare);
    }
    free(spare);
    assert(n <= count && due <= n);
    *ret = list;
    *ret_count = n;
    *ret_due = due;
    return 0;
}
