#define _DEFAULT_SOURCE /* madvise */
#include "base/memory.h"

#include <assert.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21 /* Linux 5.4 and later; older ones refuse it, and keep the pages */
#endif

enum {
    LINE = 4096,
    PIECE = 4 << 20, /* bytes that are given back at once: each call walks through page tables */
};

/* The number in a file of a control group; SIZE_MAX: no number ("max"), or no file (as on other kernels). */
static size_t read_limit(const char *path)
{
    char line[64];
    size_t limit = SIZE_MAX;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return SIZE_MAX;
    }
    if (fgets(line, sizeof line, file) != NULL && line[0] >= '0' && line[0] <= '9') {
        unsigned long long value = strtoull(line, NULL, 10);
        limit = value > 0 && value < SIZE_MAX ? (size_t)value : SIZE_MAX;
    }
    fclose(file);
    return limit;
}

/* The least limit of the group and all groups above it. Inside a container the path may name a group outside, which is
 * not visible: then the limit of the mount's root counts. */
static size_t group_limit(const char *root, const char *mount, char *group, const char *name)
{
    char path[2 * LINE];
    size_t least = SIZE_MAX;
    while (true) {
        snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/%s", root, mount, group, name);
        size_t limit = read_limit(path);
        least = limit < least ? limit : least;
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return least;
        }
        *slash = '\0';
    }
}

/* A line of /proc/self/cgroup: number:controllers:path; the controllers of version 2 are empty. */
static size_t line_limit(const char *root, char *line)
{
    char *controllers = strchr(line, ':');
    char *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) {
        return SIZE_MAX;
    }
    *controllers++ = '\0';
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    if (controllers[0] == '\0') {
        return group_limit(root, "", group, "memory.max");
    }
    return strcmp(controllers, "memory") == 0
               ? group_limit(root, "/memory", group, "memory.limit_in_bytes")
               : SIZE_MAX;
}

size_t memory_limit_below(const char *root, size_t machine)
{
    char line[LINE];
    size_t least = machine;
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        size_t limit = line_limit(root, line);
        least = limit < least ? limit : least;
    }
    if (file != NULL) {
        fclose(file);
    }
    return least;
}

size_t memory_limit(void)
{
    struct rlimit space;
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    size_t machine = pages > 0 && page > 0 ? (size_t)pages * (size_t)page : SIZE_MAX / 2;
    size_t least = memory_limit_below("", machine);
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY &&
        space.rlim_cur < least && space.rlim_cur > 0) {
        least = space.rlim_cur;
    }
    return least;
}

void memory_give_back(void)
{
    (void)malloc_trim(0);
}

static void pages_advise(struct pages_passed *p, struct slice bytes, int advice)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert(p->released <= bytes.len);
    if (bytes.len - p->released < PIECE) {
        return;
    }
    uintptr_t base = (uintptr_t)bytes.data;
    uintptr_t from = (base + p->released + page - 1) / page * page;
    uintptr_t to = (base + bytes.len) / page * page;
    if (to > from) {
        /* An advice: if the system does not take it, memory is given back later. */
        (void)madvise((void *)from, to - from, advice); /* NOLINT(performance-no-int-to-ptr) */
        p->released = to - base;
    }
}

void pages_pass(struct pages_passed *p, struct slice bytes)
{
    pages_advise(p, bytes, MADV_PAGEOUT);
}

void pages_forget(struct pages_passed *p, struct slice bytes)
{
    pages_advise(p, bytes, MADV_DONTNEED);
}
