/*
 * The thread that fences: it calls the user's function, which may take its time, with a copy of the
 * breadcrumb, and tells the machine what came of it. Whether the lock is still ours is for the
 * machine to find out afterwards.
 */
#include "client/core/threads.h"
#include "recipes/engine/option_copies.h"
#include "recipes/standby/elector.h"

#include <stdlib.h>
#include <string.h>

struct fence {
    struct conclave_elector *elector; /* a reference */
    struct conclave_breadcrumb old;   /* its strings and data follow this struct */
    struct conclave_token mine;
    char bytes[];
};

static void fence_done(struct fence *f, int result)
{
    struct conclave_elector *e = f->elector;
    struct conclave_client *client = elector_rt(e)->client;
    client_lock(client);
    e->fence_running = false;
    if (elector_prepares(e, ELECTOR_FENCING) && e->fence_generation == e->c.generation) {
        if (result == 0) {
            e->fenced = true;
            elector_lock_doubt(e);
            elector_prepare(e, ELECTOR_READING);
        } else {
            elector_give_up(e, "fencing failed");
        }
    }
    client_notify(client);
    contender_run(&e->c);
    handle_unref(&e->c.handle);
    client_unlock(client);
    client_unref(client);
    free(f);
}

static void *fence_thread(void *arg)
{
    struct fence *f = arg;
    fence_done(f, f->elector->callbacks.fence(f->elector, &f->old, f->mine, f->elector->c.ctx));
    return NULL;
}

static struct fence *fence_create(struct conclave_elector *e)
{
    const struct conclave_breadcrumb *old = &e->old;
    size_t id_len = strlen(old->id);
    size_t incarnation_len = strlen(old->incarnation);
    struct fence *f = malloc(sizeof *f + id_len + incarnation_len + old->data_len + 3);
    if (f == NULL) {
        return NULL;
    }
    char *at = f->bytes;
    f->elector = e;
    f->old = *old;
    f->old.id = block_add(&at, old->id, id_len);
    f->old.incarnation = block_add(&at, old->incarnation, incarnation_len);
    f->old.data = block_add(&at, old->data, old->data_len);
    f->mine.czxid = e->c.czxid;
    return f;
}

void elector_fence_run(struct conclave_elector *e)
{
    pthread_t thread;
    if (e->fence_running) {
        return; /* this one's, or that of an earlier time: its end wakes us */
    }
    if (machine_pauses(&e->c.machine)) {
        return;
    }
    if (e->callbacks.fence == NULL) {
        elector_give_up(e, "nothing can fence the one before");
        return;
    }
    struct fence *f = fence_create(e);
    if (f == NULL) {
        contender_trouble(&e->c, CONCLAVE_ENOMEM);
        return;
    }
    if (thread_start(&thread, fence_thread, f) != 0) {
        free(f);
        contender_trouble(&e->c, CONCLAVE_ENOMEM);
        return;
    }
    /* The lock is held: the thread cannot be done before this. */
    e->fence_running = true;
    e->fence_thread = thread;
    e->fence_generation = e->c.generation;
    handle_ref(&e->c.handle);
    client_ref(elector_rt(e)->client);
    (void)pthread_detach(thread);
}

bool elector_in_fence(struct conclave_elector *e)
{
    struct conclave_client *client = elector_rt(e)->client;
    if (client_check(client) != 0) {
        return false;
    }
    client_lock(client);
    bool inside = e->fence_running && pthread_equal(e->fence_thread, pthread_self()) != 0;
    client_unlock(client);
    return inside;
}
