/* Threads of the library, with all signals blocked: signals belong to the program's own threads. */
#ifndef CLIENT_CORE_THREADS_H
#define CLIENT_CORE_THREADS_H

#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

/* As pthread_create, with all signals blocked in the new thread. 0 or an errno. */
static inline int thread_start(pthread_t *ret, void *(*fn)(void *), void *arg)
{
    sigset_t all;
    sigset_t old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int rc = pthread_create(ret, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc;
}

/* Makes an eventfd readable, for the thread that waits for it. */
static inline void thread_wake(int fd)
{
    /* Fails only when the counter is full, and then it is readable already. */
    (void)!eventfd_write(fd, 1);
}

#endif
