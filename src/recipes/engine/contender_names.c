#include "recipes/engine/contender_names.h"

#include "base/random.h"
#include "recipes/engine/option_copies.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How each naming writes its guid and marker. Sources: Curator's LeaderLatch, LeaderSelector,
 * InterProcessReadWriteLock and ProtectedUtils; kazoo's recipe/lock.py, whose WriteLock has the
 * names of its Lock. */
static const struct naming_row {
    const char *before;    /* in front of the guid */
    const char *marker[3]; /* by kind: between guid (and dash) and sequence */
    bool dashed;           /* guid written 8-4-4-4-12 */
    bool dash_after;       /* a dash between guid and marker */
} naming_rows[] = {
    [CONCLAVE_NAMING_NATIVE] = {"", {"n_", "__READ__", "__WRIT__"}, false, true},
    [CONCLAVE_NAMING_CURATOR_LATCH] = {"_c_", {"latch-", NULL, NULL}, true, true},
    [CONCLAVE_NAMING_CURATOR_LOCK] = {"_c_", {"lock-", "__READ__", "__WRIT__"}, true, true},
    [CONCLAVE_NAMING_KAZOO] = {"", {"__lock__", "__rlock__", "__lock__"}, false, false},
    [CONCLAVE_NAMING_PLAIN] = {"", {"", NULL, NULL}, false, false},  /* the guid is in the data */
    [CONCLAVE_NAMING_FIXED] = {"", {"/", NULL, NULL}, false, false}, /* in no child's name */
};

const char *name_marker(enum conclave_naming naming)
{
    return naming_rows[naming].marker[NAME_PLAIN];
}

bool naming_needs_persistent(enum conclave_naming naming)
{
    return naming == CONCLAVE_NAMING_KAZOO || naming == CONCLAVE_NAMING_PLAIN;
}

void name_make_prefix(enum conclave_naming naming, enum name_kind kind, char *buf)
{
    const struct naming_row *row = &naming_rows[naming];
    uint8_t guid[16];
    char hex[40];
    char *out = hex;
    random_bytes(guid, sizeof guid);
    guid[6] = (uint8_t)((guid[6] & 0x0f) | 0x40); /* the form of a random UUID, RFC 4122 4.4 */
    guid[8] = (uint8_t)((guid[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < sizeof guid; i++) {
        if (row->dashed && (i == 4 || i == 6 || i == 8 || i == 10)) {
            *out++ = '-';
        }
        (void)snprintf(out, 3, "%02x", guid[i]);
        out += 2;
    }
    (void)snprintf(buf, NAME_PREFIX_MAX, "%s%s%s%s", row->before, hex, row->dash_after ? "-" : "",
                   row->marker[kind]);
}

/* No guid has a "w". */
static const char weight_label[] = "-w";

void name_add_weight(int32_t weight, char *prefix)
{
    const char *marker = name_marker(CONCLAVE_NAMING_NATIVE);
    size_t at = strlen(prefix) - strlen(marker) - 1;
    (void)snprintf(prefix + at, NAME_PREFIX_MAX - at, "%s%" PRId32 "-%s", weight_label, weight,
                   marker);
}

int32_t name_weight(const char *name)
{
    const char *at = strstr(name, weight_label);
    long weight = at == NULL ? 1 : strtol(at + strlen(weight_label), NULL, 10);
    return weight >= 1 && weight <= INT32_MAX ? (int32_t)weight : 1;
}

/* The text after the last occurrence of marker, all of it for an empty one, or NULL. A guid may hold the
 * marker's characters, a sequence cannot. */
static const char *after_last(const char *name, const char *marker)
{
    const char *found = NULL;
    if (marker[0] == '\0') {
        return name;
    }
    for (const char *at = strstr(name, marker); at != NULL; at = strstr(at + 1, marker)) {
        found = at + strlen(marker);
    }
    return found;
}

/* Only what the server itself would print ("%010d"): no other sign, blank or width. */
bool sequence_parse(const char *digits, int32_t *ret_sequence)
{
    bool negative = digits[0] == '-';
    const char *first = digits + (negative ? 1 : 0);
    int64_t value = 0;
    int count = 0;
    for (; first[count] >= '0' && first[count] <= '9' && count <= 10; count++) {
        value = value * 10 + (first[count] - '0');
    }
    if (first[count] != '\0' || value > INT32_MAX + (negative ? INT64_C(1) : 0)) {
        return false;
    }
    /* The sign takes the place of a digit, unless all ten are needed. */
    int wanted = negative && value < 1000000000 ? 9 : 10;
    if (count != wanted || (negative && value == 0)) {
        return false;
    }
    *ret_sequence = (int32_t)(negative ? -value : value);
    return true;
}

static bool parse_behind(const char *marker, const char *name, int32_t *ret_sequence)
{
    const char *digits = after_last(name, marker);
    return digits != NULL && sequence_parse(digits, ret_sequence);
}

bool name_parse(enum conclave_naming naming, const char *name, int32_t *ret_sequence)
{
    return parse_behind(name_marker(naming), name, ret_sequence);
}

bool name_parse_kind(enum conclave_naming naming, const char *name, int32_t *ret_sequence,
                     enum name_kind *ret_kind)
{
    for (enum name_kind kind = NAME_PLAIN; kind <= NAME_WRITE; kind++) {
        const char *marker = naming_rows[naming].marker[kind];
        if (marker != NULL && parse_behind(marker, name, ret_sequence)) {
            *ret_kind = kind;
            return true;
        }
    }
    return false;
}

int contenders_filter(enum conclave_naming naming, bool kinds, const struct conclave_reply *reply,
                      struct line_entry **ret, size_t *ret_count)
{
    struct line_entry *list = calloc(reply->children_count + 1, sizeof *list);
    size_t n = 0;
    if (list == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < reply->children_count; i++) {
        const char *name = reply->children[i];
        struct line_entry *c = &list[n];
        if (kinds ? name_parse_kind(naming, name, &c->sequence, &c->kind)
                  : name_parse(naming, name, &c->sequence)) {
            c->weight = name_weight(name);
            list[n++].name = name;
        }
    }
    *ret = list;
    *ret_count = n;
    return 0;
}

static int compare_numbers(const void *a, const void *b)
{
    int32_t x = ((const struct line_entry *)a)->sequence;
    int32_t y = ((const struct line_entry *)b)->sequence;
    return (x > y) - (x < y);
}

static int compare_czxid(const void *a, const void *b)
{
    const struct line_entry *x = a;
    const struct line_entry *y = b;
    if (x->gone != y->gone) {
        return x->gone ? 1 : -1;
    }
    return (x->czxid > y->czxid) - (x->czxid < y->czxid);
}

/* Serial order is an order only while all numbers lie within half the circle: sorting plainly
 * and then turning the circle so that it starts after the widest gap gives the same, and needs
 * no such condition on the comparison. */
static size_t widest_gap_end(const struct line_entry *sorted, size_t count)
{
    size_t start = 0;
    uint32_t widest = 0;
    for (size_t i = 0; i < count; i++) {
        const struct line_entry *before = &sorted[(i + count - 1) % count];
        uint32_t gap = (uint32_t)sorted[i].sequence - (uint32_t)before->sequence;
        if (gap > widest) {
            widest = gap;
            start = i;
        }
    }
    return start;
}

static void reverse(struct line_entry *list, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        struct line_entry swap = list[i];
        list[i] = list[count - 1 - i];
        list[count - 1 - i] = swap;
    }
}

void contenders_sort(struct line_entry *list, size_t count, bool by_czxid)
{
    if (count < 2) {
        return;
    }
    if (by_czxid) {
        qsort(list, count, sizeof *list, compare_czxid);
        return;
    }
    qsort(list, count, sizeof *list, compare_numbers);
    size_t start = widest_gap_end(list, count);
    reverse(list, start); /* rotation by three reversals */
    reverse(list + start, count - start);
    reverse(list, count);
}

bool contenders_need_czxid(const struct line_entry *list, size_t count)
{
    if (count < 2) {
        return false;
    }
    uint32_t span = (uint32_t)list[count - 1].sequence - (uint32_t)list[0].sequence;
    bool need = span > NAMES_SPAN;
    for (size_t i = 1; i < count && !need; i++) {
        need = list[i].sequence == list[i - 1].sequence;
    }
    return need;
}

size_t contenders_find(const struct line_entry *list, size_t count, const char *name)
{
    size_t i = 0;
    while (i < count && strcmp(list[i].name, name) != 0) {
        i++;
    }
    return i;
}

/* --- requests to hand over ----------------------------------------------------------- */

static const char hand_over_label[] = "hand-over-";

void hand_over_name(const char *to, char buf[HAND_OVER_NAME_MAX])
{
    char mark[2 * HAND_OVER_MARK_BYTES + 1];
    random_text(mark, HAND_OVER_MARK_BYTES);
    (void)snprintf(buf, HAND_OVER_NAME_MAX, "%s%s-%s", hand_over_label, to, mark);
}

bool hand_over_parse(const char *name, char ret_to[NAME_MAX_LEN])
{
    size_t label = sizeof hand_over_label - 1;
    size_t len = strlen(name);
    size_t mark = 2 * HAND_OVER_MARK_BYTES;
    if (strncmp(name, hand_over_label, label) != 0 || len <= label + mark + 1 ||
        len - label - mark - 1 >= NAME_MAX_LEN || name[len - mark - 1] != '-') {
        return false;
    }
    (void)snprintf(ret_to, NAME_MAX_LEN, "%.*s", (int)(len - label - mark - 1), name + label);
    return true;
}

void hand_over_find(const struct conclave_reply *reply, char ret_to[NAME_MAX_LEN])
{
    char to[NAME_MAX_LEN];
    ret_to[0] = '\0';
    for (size_t i = 0; i < reply->children_count; i++) {
        if (hand_over_parse(reply->children[i], to) &&
            (ret_to[0] == '\0' || strcmp(to, ret_to) < 0)) {
            memcpy(ret_to, to, sizeof to);
        }
    }
}
