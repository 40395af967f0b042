#include "recipes/engine/handle_shutdown.h"

#include <assert.h>
#include <string.h>

static struct conclave_client *handle_shutdown_client_of(const struct closing *c)
{
    return c->handle->rt->client;
}

void closing_init(struct closing *c, struct handle *handle)
{
    memset(c, 0, sizeof *c);
    c->handle = handle;
}

void closing_begin(struct closing *c, int why)
{
    if (!c->ending) {
        c->ending = true;
        c->why = why;
        client_notify(handle_shutdown_client_of(c));
    }
}

void closing_done(struct closing *c)
{
    if (!c->due) {
        c->due = true;
        handle_post(c->handle);
    }
}

bool closing_tell(struct closing *c, void (*call)(void *self, int why), void *self)
{
    struct conclave_client *client = handle_shutdown_client_of(c);
    if (!c->due || c->told) {
        return false;
    }
    assert(c->ending);
    c->told = true;
    client_unlock(client);
    call(self, c->why);
    client_lock(client);
    c->returned = true;
    client_notify(client);
    if (c->destroy_later) {
        handle_release(c->handle);
    }
    return true;
}

void closing_ask(struct closing *c, void (*run)(void *self), void *self)
{
    struct conclave_client *client = handle_shutdown_client_of(c);
    if (client_check(client) != 0) {
        return;
    }
    client_lock(client);
    closing_begin(c, CONCLAVE_ECLOSED);
    if (run != NULL) {
        run(self);
    }
    client_unlock(client);
}

static bool returned(void *ctx)
{
    return ((struct closing *)ctx)->returned;
}

int closing_wait(struct closing *c, int64_t timeout_ms)
{
    struct handle *handle = c->handle; /* c may end with it */
    int error = handle_begin_wait(handle);
    if (error == 0) {
        error = handle_wait(handle, returned, c, timeout_ms);
        handle_end_wait(handle);
    }
    return error;
}

void closing_destroy_by(struct closing *c, const char *function)
{
    struct conclave_client *client = handle_shutdown_client_of(c);
    if (client_check(client) != 0) {
        return; /* in a child of fork the memory goes with the child */
    }
    client_lock(client);
    if (!c->told) {
        recipes_misuse(function, "the handle is open: call its _close_wait first");
    }
    if (c->returned) {
        handle_release(c->handle);
    } else {
        c->destroy_later = true;
        handle_retire(c->handle);
    }
    client_unlock(client);
}
