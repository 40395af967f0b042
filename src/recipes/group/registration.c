/* Registering: a member whose data have Curator's form, so that its sessions identify it. */
#include "recipes/group/node_handle.h"
#include "recipes/group/service_instance.h"
#include "recipes/group/uri_spec.h"

#include "base/json.h"
#include "client/core/path.h"
#include "client/core/sized.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAYLOAD_MAX = 512 * 1024, SERVICE_NAME_MAX = 255 };

struct conclave_registration {
    struct node_handle nodes; /* first */
    struct conclave_registration_callbacks callbacks;
    void *ctx;
    struct conclave_instance *instance; /* one block with its texts */
    bool told;                          /* that it is registered */
};

static struct conclave_registration *registration_of(struct host *host)
{
    return CONTAINER_OF(host, struct conclave_registration, nodes.host);
}

static bool registration_run_due(struct host *host)
{
    struct conclave_registration *r = registration_of(host);
    struct conclave_client *client = host->handle.rt->client;
    enum conclave_membership now;
    if (!node_handle_take_membership(&r->nodes, &now)) {
        return false;
    }
    bool registered = now == CONCLAVE_MEMBERSHIP_IN;
    if (registered == r->told) {
        return true;
    }
    r->told = registered;
    if (r->callbacks.on_registered != NULL) {
        client_unlock(client);
        r->callbacks.on_registered(r, registered, r->ctx);
        client_lock(client);
    }
    return true;
}

static void registration_tell_closed(struct host *host, int why)
{
    struct conclave_registration *r = registration_of(host);
    if (r->callbacks.on_closed != NULL) {
        r->callbacks.on_closed(r, why, r->ctx);
    }
}

static void registration_free(struct host *host)
{
    struct conclave_registration *r = registration_of(host);
    node_handle_finish(&r->nodes);
    free(r->instance);
    free(r);
}

static const struct host_class registration_class = {
    .on_state = node_handle_on_state,
    .run_due = registration_run_due,
    .stop = node_handle_stop,
    .is_idle = node_handle_is_idle,
    .tell_closed = registration_tell_closed,
    .free = registration_free,
};

/* --- options --------------------------------------------------------------------------- */

static bool name_is_valid(const char *name)
{
    return name != NULL && name[0] != '\0' && strchr(name, '/') == NULL &&
           strlen(name) <= SERVICE_NAME_MAX;
}

static bool text_is_valid(const char *text)
{
    return text == NULL || (strlen(text) <= PAYLOAD_MAX && utf8_valid(slice_str(text)));
}

static bool registration_options_valid(const struct conclave_registration_options *o)
{
    return o->path != NULL && path_is_valid(o->path, false) && name_is_valid(o->name) &&
           (o->id == NULL || name_is_valid(o->id)) && o->address != NULL &&
           text_is_valid(o->address) && text_is_valid(o->payload) && text_is_valid(o->uri_spec) &&
           (o->uri_spec == NULL || uri_spec_valid(o->uri_spec)) &&
           o->type >= CONCLAVE_INSTANCE_DYNAMIC && o->type <= CONCLAVE_INSTANCE_PERMANENT &&
           o->port >= 0 && o->port <= 65535 && o->ssl_port >= 0 && o->ssl_port <= 65535;
}

/* A random id in the form of a UUID, as Curator's are. */
static void random_id(char buf[64])
{
    char hex[MEMBER_INCARNATION_MAX];
    member_incarnation(hex);
    (void)snprintf(buf, 64, "%.8s-%.4s-4%.3s-a%.3s-%.12s", hex, hex + 8, hex + 12, hex + 16,
                   hex + 20);
}

static int64_t wall_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* it is for people to read */
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int registration_copy_options(struct conclave_registration *r,
                                     const struct conclave_registration_options *o)
{
    static const char *const types[] = {"DYNAMIC", "STATIC", "PERMANENT"};
    char id[64];
    size_t len = 0;
    random_id(id);
    struct conclave_instance instance = {
        .name = o->name,
        .id = o->id != NULL ? o->id : id,
        .address = o->address,
        .port = o->port,
        .ssl_port = o->ssl_port,
        .payload = o->payload,
        .uri_spec = o->uri_spec,
        .registered_ms = wall_ms(),
        .type = types[o->type],
        .enabled = !o->disabled,
    };
    r->instance = instance_copy(&instance);
    char *text = instance_write(&instance, &len);
    int error = node_handle_keep(&r->nodes, path_join(o->path, o->name), instance.id, o->acl,
                                 o->acl_count, text, len);
    if (o->type != CONCLAVE_INSTANCE_DYNAMIC) {
        r->nodes.member.mode = CONCLAVE_PERSISTENT;
        r->nodes.member.keep = o->keep;
    }
    return r->instance == NULL ? CONCLAVE_ENOMEM : error;
}

int conclave_registration_open(struct conclave_recipes *rt,
                               const struct conclave_registration_options *options,
                               const struct conclave_registration_callbacks *callbacks, void *ctx,
                               struct conclave_registration **ret)
{
    struct conclave_registration_options own = CONCLAVE_REGISTRATION_OPTIONS_INIT;
    struct conclave_registration_callbacks calls = CONCLAVE_REGISTRATION_CALLBACKS_INIT;
    if (sized_read_both(&own, options, &calls, callbacks) != 0 ||
        !registration_options_valid(&own)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_registration *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return CONCLAVE_ENOMEM;
    }
    r->callbacks = calls;
    r->ctx = ctx;
    int error =
        host_open(&r->nodes.host, rt, &registration_class, registration_copy_options(r, &own));
    if (error == 0) {
        *ret = r; /* before a callback can run */
        node_handle_begin(&r->nodes);
        client_unlock(rt->client);
    }
    return error;
}

int conclave_registration_update(struct conclave_registration *r, const char *payload,
                                 bool disabled)
{
    size_t len = 0;
    if (!text_is_valid(payload)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_instance changed = *r->instance; /* the texts that stay are never changed */
    changed.payload = payload;
    changed.enabled = !disabled;
    char *text = instance_write(&changed, &len);
    return node_handle_write(&r->nodes, text, len);
}

void conclave_registration_id(const struct conclave_registration *r, char *buf, size_t len)
{
    if (len > 0) {
        (void)snprintf(buf, len, "%s", r->instance->id);
    }
}

int conclave_registration_wait(struct conclave_registration *r, int64_t timeout_ms)
{
    return node_handle_wait_in(&r->nodes, timeout_ms);
}

void conclave_registration_close(struct conclave_registration *r)
{
    host_close(&r->nodes.host);
}

int conclave_registration_close_wait(struct conclave_registration *r, int64_t timeout_ms)
{
    return host_close_wait(&r->nodes.host, timeout_ms);
}

void conclave_registration_destroy(struct conclave_registration *r)
{
    host_destroy(r == NULL ? NULL : &r->nodes.host);
}
