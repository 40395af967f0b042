/*
 * A library for LD_PRELOAD that makes the disk of a running program slow: each fdatasync takes as many milliseconds
 * longer as the first eight bytes of the file say that SLOW_SYNC_FILE names. The test changes them in place.
 */
#define _GNU_SOURCE /* syscall */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *delay_ms;

__attribute__((constructor)) static void open_delay(void)
{
    const char *path = getenv("SLOW_SYNC_FILE");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    void *at = mmap(NULL, sizeof *delay_ms, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    delay_ms = at != MAP_FAILED ? at : NULL;
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
    int64_t ms = delay_ms != NULL ? *delay_ms : 0;
    if (ms > 0) {
        struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
        (void)nanosleep(&rest, NULL);
    }
    return (int)syscall(SYS_fdatasync, fd);
}
