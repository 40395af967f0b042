#include "cli/migrate/progress.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

enum { PROGRESS_MS = 200 };

static void progress_show(const struct node_progress *p, size_t nodes)
{
    if (p->total > 0) {
        fprintf(stderr, "\r\033[K%s: %zu of %zu nodes", p->doing, nodes, p->total);
    } else {
        fprintf(stderr, "\r\033[K%s ...", p->doing);
    }
}

void progress_begin(struct node_progress *p, const char *doing, size_t total)
{
    assert(doing != NULL);
    *p = (struct node_progress){.doing = doing, .total = total};
    if (isatty(STDERR_FILENO) == 1) {
        p->shown_ms = clock_monotonic_ms(clock_system());
        progress_show(p, 0);
    }
}

void progress_told(void *ctx, size_t nodes)
{
    struct node_progress *p = ctx;
    assert(p->doing != NULL);
    int64_t now_ms = p->shown_ms != 0 ? clock_monotonic_ms(clock_system()) : 0;
    if (now_ms - p->shown_ms >= PROGRESS_MS) {
        p->shown_ms = now_ms;
        progress_show(p, nodes);
    }
}

void progress_end(struct node_progress *p)
{
    if (p->shown_ms != 0) {
        fputs("\r\033[K", stderr);
        p->shown_ms = 0;
    }
}
