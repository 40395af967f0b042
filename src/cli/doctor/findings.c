#include "cli/doctor/findings.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum finding_level level;
    const char *advice;
} KINDS[] = {
#define FINDING_ROW(constant, name, level, advice) {name, FINDING_##level, advice},
    FINDING_KINDS(FINDING_ROW)
#undef FINDING_ROW
};

static const char *const LEVELS[FINDING_LEVELS] = {"note", "warning", "problem"};

void findings_finish(struct findings *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->items[i].where);
        free(f->items[i].what);
    }
    free(f->items);
    *f = (struct findings){NULL};
}

/* Texts of servers and of files: nothing in them moves the cursor. */
static char *finding_clean(char *text)
{
    for (char *at = text; at != NULL && *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            *at = ' ';
        }
    }
    return text;
}

void finding_add(struct findings *f, enum finding_kind kind, const char *where, const char *fmt,
                 ...)
{
    va_list ap;
    char line[1024];
    assert((size_t)kind < sizeof KINDS / sizeof KINDS[0]);
    assert(f->count <= f->cap && where[0] != '\0');
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    struct finding made = {kind, finding_clean(strdup(where)), finding_clean(strdup(line))};
    if (made.where == NULL || made.what == NULL ||
        !array_room(&f->items, f->count, &f->cap, sizeof *f->items)) {
        free(made.where);
        free(made.what);
        f->failed = true;
    } else {
        f->items[f->count++] = made;
    }
}

const char *finding_name(enum finding_kind kind)
{
    assert((size_t)kind < sizeof KINDS / sizeof KINDS[0]);
    return KINDS[kind].name;
}

enum finding_level finding_level(enum finding_kind kind)
{
    return KINDS[kind].level;
}

size_t findings_of_level(const struct findings *f, enum finding_level level)
{
    size_t n = 0;
    for (size_t i = 0; i < f->count; i++) {
        n += finding_level(f->items[i].kind) == level;
    }
    assert(n <= f->count);
    return n;
}

/* Calls for all, the worst first, in the order in which they were found. */
static void each_by_level(struct findings *f, void (*fn)(void *ctx, const struct finding *item),
                          void *ctx)
{
    for (int level = FINDING_PROBLEM; level >= FINDING_NOTE; level--) {
        for (size_t i = 0; i < f->count; i++) {
            if (finding_level(f->items[i].kind) == (enum finding_level)level) {
                fn(ctx, &f->items[i]);
            }
        }
    }
}

static void print_one(void *ctx, const struct finding *item)
{
    printf("%-8s %s  %s\n         %s\n         -> %s\n", LEVELS[finding_level(item->kind)],
           finding_name(item->kind), item->where, item->what, KINDS[item->kind].advice);
}

void findings_print(struct findings *f)
{
    each_by_level(f, print_one, NULL);
}

static void json_one(void *ctx, const struct finding *item)
{
    struct json *j = ctx;
    json_object_begin(j);
    json_member_string(j, "name", finding_name(item->kind));
    json_member_string(j, "level", LEVELS[finding_level(item->kind)]);
    json_member_string(j, "where", item->where);
    json_member_string(j, "what", item->what);
    json_member_string(j, "do", KINDS[item->kind].advice);
    json_object_end(j);
}

void findings_json(struct findings *f, struct json *j)
{
    json_key(j, "findings");
    json_array_begin(j);
    each_by_level(f, json_one, j);
    json_array_end(j);
}
