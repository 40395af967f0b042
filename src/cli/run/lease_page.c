/* A sealed memfd under a sequence lock. */
#define _GNU_SOURCE /* memfd_create, seals */
#include "cli/run/lease_page.h"

#include "cli/common/values.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(offsetof(struct lease_values, state) == 4, "layout in lease_page.h");
_Static_assert(offsetof(struct lease_values, sequence) == 8, "layout in lease_page.h");
_Static_assert(offsetof(struct lease_values, until_ns) == 16, "layout in lease_page.h");
_Static_assert(offsetof(struct lease_values, token) == 24, "layout in lease_page.h");

int lease_page_init(struct lease_page *page)
{
    *page =
        (struct lease_page){.fd = memfd_create("conclave-lease", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
    if (page->fd < 0 || ftruncate(page->fd, LEASE_PAGE_SIZE) != 0) {
        lease_page_finish(page);
        return CONCLAVE_EIO;
    }
    void *map = mmap(NULL, LEASE_PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, page->fd, 0);
    if (map == MAP_FAILED) {
        lease_page_finish(page);
        return CONCLAVE_EIO;
    }
    page->values = map;
    page->values->magic = LEASE_PAGE_MAGIC;
    /* Kernels before 5.1 do not know FUTURE_WRITE: there the child is trusted not to write. */
    int size = F_SEAL_SHRINK | F_SEAL_GROW;
    if (fcntl(page->fd, F_ADD_SEALS, size | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0 &&
        (errno != EINVAL || fcntl(page->fd, F_ADD_SEALS, size | F_SEAL_SEAL) != 0)) {
        lease_page_finish(page);
        return CONCLAVE_EIO;
    }
    return 0;
}

void lease_page_finish(struct lease_page *page)
{
    if (page->values != NULL) {
        munmap(page->values, LEASE_PAGE_SIZE);
    }
    if (page->fd >= 0) {
        close(page->fd);
    }
    *page = (struct lease_page){.fd = -1};
}

void lease_page_write(struct lease_page *page, enum lease_state state, int64_t until_ns,
                      int64_t token)
{
    struct lease_values *v = page->values;
    assert(atomic_load(&v->sequence) % 2 == 0); /* one writer at a time */
    assert(state == LEASE_LEADING || until_ns == 0);
    atomic_fetch_add(&v->sequence, 1);
    if (state != LEASE_LEADING) {
        atomic_store(&v->state, state);
    }
    atomic_store(&v->token, token);
    atomic_store(&v->until_ns, until_ns);
    if (state == LEASE_LEADING) {
        atomic_store(&v->state, state);
    }
    atomic_fetch_add(&v->sequence, 1);
}

int64_t lease_page_until_ns(const struct lease_page *page)
{
    struct lease_values *v = page->values;
    return atomic_load(&v->state) == LEASE_LEADING ? atomic_load(&v->until_ns) : 0;
}

int64_t lease_page_refresh_ms(int64_t session_timeout_ms)
{
    int64_t ms = session_timeout_ms / 24;
    return ms < 5 ? 5 : ms < 200 ? ms : 200;
}

/* The most that the library allows: a third of the session timeout less 500 ms, or less a sixth of it. */
static int64_t most_ms(int64_t session_timeout_ms)
{
    int64_t sixth = session_timeout_ms / 6;
    return session_timeout_ms / 3 - (sixth < 500 ? sixth : 500);
}

bool grace_fit(const struct command_usage *usage, int64_t asked_ms, int64_t session_timeout_ms,
               int64_t *ret_ms)
{
    char want[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX], timeout[DURATION_TEXT_MAX];
    int64_t limit_ms = most_ms(session_timeout_ms);
    if (asked_ms > limit_ms) {
        usage_error(usage, "--grace %s is too long: with a session timeout of %s it may be %s",
                    duration_text(asked_ms, want), duration_text(session_timeout_ms, timeout),
                    duration_text(limit_ms, most));
        return false;
    }
    *ret_ms = asked_ms >= 0 ? asked_ms : limit_ms;
    return true;
}
