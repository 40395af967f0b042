/*
 * A library for LD_PRELOAD that steps the clocks of a running program. CLOCK_STEP_FILE names a file whose first 16
 * bytes are two numbers of nanoseconds: the offset of the wall clock, and the offset of the clock that counts suspend.
 * The test changes them in place, and the next call uses them.
 * Timers of the second clock fire by the stepped clock; a step does not fire timers that were set before it.
 * Limits: other waits of the kernel until a time are not stepped.
 */
#define _GNU_SOURCE /* syscall */

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { WALL = 0, BOOT = 1, NS_PER_S = 1000000000, FDS_MAX = 1024 };

static const volatile int64_t *steps;
static volatile bool boot_timers[FDS_MAX]; /* by descriptor */

__attribute__((constructor)) static void open_steps(void)
{
    const char *path = getenv("CLOCK_STEP_FILE");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    void *at = mmap(NULL, 2 * sizeof *steps, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    steps = at != MAP_FAILED ? at : NULL;
}

static int64_t step_of(clockid_t clock)
{
    if (steps == NULL) {
        return 0;
    }
    bool wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    return wall ? steps[WALL] : clock == CLOCK_BOOTTIME ? steps[BOOT] : 0;
}

static struct timespec plus(struct timespec at, int64_t ns)
{
    ns += at.tv_sec * (int64_t)NS_PER_S + at.tv_nsec;
    return (struct timespec){ns / NS_PER_S, ns % NS_PER_S};
}

__attribute__((visibility("default"))) int clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (syscall(SYS_clock_gettime, clock, ret) != 0) {
        return -1;
    }
    *ret = plus(*ret, step_of(clock));
    return 0;
}

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict ret,
                                                        void *restrict zone)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    ret->tv_sec = now.tv_sec;
    ret->tv_usec = now.tv_nsec / 1000;
    return 0;
}

__attribute__((visibility("default"))) time_t time(time_t *ret)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (ret != NULL) {
        *ret = now.tv_sec;
    }
    return now.tv_sec;
}

__attribute__((visibility("default"))) int timerfd_create(int clock, int flags)
{
    int fd = (int)syscall(SYS_timerfd_create, clock, flags);
    if (fd >= 0 && fd < FDS_MAX) {
        boot_timers[fd] = clock == CLOCK_BOOTTIME;
    }
    return fd;
}

__attribute__((visibility("default"))) int
timerfd_settime(int fd, int flags, const struct itimerspec *spec, struct itimerspec *ret_old)
{
    struct itimerspec set = *spec;
    bool disarm = spec->it_value.tv_sec == 0 && spec->it_value.tv_nsec == 0;
    if (fd >= 0 && fd < FDS_MAX && boot_timers[fd] && (flags & TFD_TIMER_ABSTIME) != 0 && !disarm) {
        set.it_value = plus(spec->it_value, -step_of(CLOCK_BOOTTIME));
    }
    return (int)syscall(SYS_timerfd_settime, fd, flags, &set, ret_old);
}
