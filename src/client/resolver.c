#include "client/resolver.h"

#include "client/core/threads.h"

#include <assert.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct lookup {
    atomic_int refs;  /* one for the caller, one for the thread */
    atomic_bool done; /* the result below is complete */
    int fd;
    char name[HOST_NAME_LEN + 1];
    unsigned count;
    const char *why;
    union host_address addresses[HOST_ADDRESSES];
};

static void lookup_unref(struct lookup *l)
{
    int refs = atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel);
    assert(refs > 0 && refs <= 2);
    if (refs == 1) {
        close(l->fd);
        free(l);
    }
}

static void lookup_take(struct lookup *l, const struct addrinfo *info)
{
    for (; info != NULL && l->count < HOST_ADDRESSES; info = info->ai_next) {
        bool known = info->ai_family == AF_INET || info->ai_family == AF_INET6;
        if (known && info->ai_addrlen <= sizeof l->addresses[0]) {
            memcpy(&l->addresses[l->count++], info->ai_addr, info->ai_addrlen);
        }
    }
}

static void *lookup_main(void *arg)
{
    struct lookup *l = arg;
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *info = NULL;
    int rc = getaddrinfo(l->name, NULL, &hints, &info);
    if (rc == 0) {
        lookup_take(l, info);
        freeaddrinfo(info);
    } else {
        l->why = gai_strerror(rc);
    }
    atomic_store_explicit(&l->done, true, memory_order_release);
    thread_wake(l->fd);
    lookup_unref(l);
    return NULL;
}

int lookup_start(const char *name, struct lookup **ret)
{
    struct lookup *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return CONCLAVE_ENOMEM;
    }
    l->why = "no address";
    strncpy(l->name, name, HOST_NAME_LEN);
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->fd < 0) {
        free(l);
        return CONCLAVE_EIO;
    }
    atomic_init(&l->refs, 2);
    pthread_t thread;
    int rc = thread_start(&thread, lookup_main, l);
    if (rc != 0) {
        close(l->fd);
        free(l);
        return CONCLAVE_EIO;
    }
    pthread_detach(thread);
    *ret = l;
    return 0;
}

int lookup_fd(const struct lookup *l)
{
    return l->fd;
}

unsigned lookup_result(struct lookup *l, union host_address *ret, const char **ret_why)
{
    if (!atomic_load_explicit(&l->done, memory_order_acquire)) {
        *ret_why = "still looking";
        return 0;
    }
    assert(l->count <= HOST_ADDRESSES && (l->count > 0 || l->why != NULL));
    *ret_why = l->why;
    memcpy(ret, l->addresses, l->count * sizeof *ret);
    return l->count;
}

void lookup_destroy(struct lookup *l)
{
    if (l != NULL) {
        lookup_unref(l);
    }
}
