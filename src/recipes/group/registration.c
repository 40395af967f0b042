/* Registering: a member whose data have Curator's form, so that it is told by its sessions. */
#include "recipes/engine/handle_shutdown.h"
#include "recipes/engine/persistent_node.h"
#include "recipes/group/service_instance.h"
#include "recipes/group/uri_spec.h"

#include "base/json.h"
#include "client/core/acl.h"
#include "client/core/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAYLOAD_MAX = 512 * 1024, SERVICE_NAME_MAX = 255 };

struct conclave_registration {
    struct handle handle; /* first */
    struct conclave_registration_callbacks callbacks;
    void *ctx;
    struct closing closing;
    struct member member;
    struct conclave_instance *instance; /* one block with its texts */
    char *parent;
    char *node;
    struct conclave_acl *acl;
    bool registered;
    bool told;
};

static void registration_run(void *self)
{
    struct conclave_registration *r = self;
    if (!r->closing.ending || r->closing.due) {
        return;
    }
    if (!r->member.left) {
        member_leave(&r->member);
    }
    if (r->member.left) {
        closing_done(&r->closing);
    }
}

static void registration_on_member(struct member *m)
{
    struct conclave_registration *r = CONTAINER_OF(m, struct conclave_registration, member);
    /* in the midst of looking, on a link that stands, nothing has changed so far */
    bool looking = m->place == MEMBER_DOUBT && m->czxid != 0 && recipes_connected(r->handle.rt);
    bool now = looking ? r->registered : member_is_in(m);
    if (now != r->registered) {
        r->registered = now;
        handle_post(&r->handle);
    }
    client_notify(r->handle.rt->client);
    registration_run(r);
}

static void on_member_failed(struct member *m, int error)
{
    struct conclave_registration *r = CONTAINER_OF(m, struct conclave_registration, member);
    closing_begin(&r->closing, error);
    registration_run(r);
}

static void registration_on_state(struct handle *h, enum conclave_state state)
{
    struct conclave_registration *r = CONTAINER_OF(h, struct conclave_registration, handle);
    handle_ref(h);
    if (state_is_final(state)) {
        closing_begin(&r->closing,
                      state == CONCLAVE_STATE_CLOSED ? CONCLAVE_ECLOSED : CONCLAVE_AUTH_FAILED);
    }
    member_on_state(&r->member, state);
    registration_run(r);
    handle_unref(h);
}

static bool tell_registered(struct conclave_registration *r)
{
    struct conclave_client *client = r->handle.rt->client;
    bool now = r->registered;
    if (now == r->told || r->closing.ending) {
        return false;
    }
    r->told = now;
    if (r->callbacks.on_registered != NULL) {
        client_unlock(client);
        r->callbacks.on_registered(r, now, r->ctx);
        client_lock(client);
    }
    return true;
}

static void registration_call_closed(void *self, int why)
{
    struct conclave_registration *r = self;
    if (r->callbacks.on_closed != NULL) {
        r->callbacks.on_closed(r, why, r->ctx);
    }
}

static bool registration_run_due(struct handle *h)
{
    struct conclave_registration *r = CONTAINER_OF(h, struct conclave_registration, handle);
    return tell_registered(r) || closing_tell(&r->closing, registration_call_closed, r);
}

static void registration_copies_free(struct conclave_registration *r)
{
    free(r->instance);
    free(r->parent);
    free(r->node);
    free(r->acl);
    free(r);
}

static void registration_free(struct handle *h)
{
    struct conclave_registration *r = CONTAINER_OF(h, struct conclave_registration, handle);
    member_finish(&r->member);
    registration_copies_free(r);
}

static const struct handle_class registration_class = {registration_on_state, registration_run_due,
                                                       registration_free};

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
    return o != NULL && o->size >= sizeof *o && o->path != NULL && path_is_valid(o->path, false) &&
           name_is_valid(o->name) && (o->id == NULL || name_is_valid(o->id)) &&
           o->address != NULL && text_is_valid(o->address) && text_is_valid(o->payload) &&
           text_is_valid(o->uri_spec) && (o->uri_spec == NULL || uri_spec_valid(o->uri_spec)) &&
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

static struct conclave_registration *
registration_make(const struct conclave_registration_options *o)
{
    char id[64];
    struct conclave_registration *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return NULL;
    }
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
        .type = "DYNAMIC",
        .enabled = !o->disabled,
    };
    bool with_acl = o->acl != NULL && o->acl_count > 0;
    r->instance = instances_copy(&instance, 1);
    r->parent = path_join(o->path, o->name);
    r->node = r->parent == NULL ? NULL : path_join(r->parent, instance.id);
    r->acl = with_acl ? acl_copy(o->acl, o->acl_count) : NULL;
    if (r->instance == NULL || r->node == NULL || (with_acl && r->acl == NULL)) {
        registration_copies_free(r);
        return NULL;
    }
    return r;
}

int conclave_registration_open(struct conclave_recipes *rt,
                               const struct conclave_registration_options *options,
                               const struct conclave_registration_callbacks *callbacks, void *ctx,
                               struct conclave_registration **ret)
{
    size_t len;
    int error = client_check(rt->client);
    if (error != 0) {
        return error;
    }
    if (!registration_options_valid(options)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_registration *r = registration_make(options);
    char *text = r == NULL ? NULL : instance_write(r->instance, &len);
    if (text == NULL) {
        if (r != NULL) {
            registration_copies_free(r);
        }
        return CONCLAVE_ENOMEM;
    }
    client_lock(rt->client);
    error = !path_is_valid(r->node, false)             ? CONCLAVE_EINVAL
            : state_is_final(client_state(rt->client)) ? CONCLAVE_ECLOSED
                                                       : 0;
    if (error != 0) {
        client_unlock(rt->client);
        free(text);
        registration_copies_free(r);
        return error;
    }
    if (callbacks != NULL) {
        r->callbacks = *callbacks;
    }
    r->ctx = ctx;
    handle_init(&r->handle, rt, &registration_class);
    closing_init(&r->closing, &r->handle);
    member_init(&r->member, &r->handle);
    r->member.path = r->node;
    r->member.parent = r->parent;
    r->member.acl = r->acl;
    r->member.acl_count = r->acl == NULL ? 0 : options->acl_count;
    r->member.changed = registration_on_member;
    r->member.failed = on_member_failed;
    *ret = r; /* before a callback can run */
    member_set_data_take(&r->member, text, len);
    member_start(&r->member);
    client_unlock(rt->client);
    return 0;
}

int conclave_registration_update(struct conclave_registration *r, const char *payload,
                                 bool disabled)
{
    struct conclave_client *client = r->handle.rt->client;
    size_t len;
    int error = client_check(client);
    if (error != 0) {
        return error;
    }
    if (!text_is_valid(payload)) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_instance changed = *r->instance; /* the texts that stay are never changed */
    changed.payload = payload;
    changed.enabled = !disabled;
    char *text = instance_write(&changed, &len);
    if (text == NULL) {
        return CONCLAVE_ENOMEM;
    }
    client_lock(client);
    if (r->closing.ending) {
        error = CONCLAVE_ECLOSED;
        free(text);
    } else {
        member_set_data_take(&r->member, text, len);
    }
    client_unlock(client);
    return error;
}

void conclave_registration_id(const struct conclave_registration *r, char *buf, size_t len)
{
    if (len > 0) {
        (void)snprintf(buf, len, "%s", r->instance->id);
    }
}

static bool registered_or_ended(void *ctx)
{
    struct conclave_registration *r = ctx;
    return r->registered || r->closing.ending;
}

int conclave_registration_wait(struct conclave_registration *r, int64_t timeout_ms)
{
    struct conclave_client *client = r->handle.rt->client;
    int error = recipes_may_block(r->handle.rt);
    if (error != 0) {
        return error;
    }
    client_lock(client);
    handle_ref(&r->handle);
    error = client_wait(client, registered_or_ended, r, client_deadline_ns(client, timeout_ms));
    if (r->closing.ending) {
        error = r->closing.why;
    } else if (error == CONCLAVE_ETIMEDOUT && r->member.place == MEMBER_OTHER) {
        error = CONCLAVE_ECONFLICT;
    }
    handle_unref(&r->handle);
    client_unlock(client);
    return error;
}

void conclave_registration_close(struct conclave_registration *r)
{
    closing_ask(&r->closing, registration_run, r);
}

int conclave_registration_close_wait(struct conclave_registration *r, int64_t timeout_ms)
{
    conclave_registration_close(r);
    return closing_wait(&r->closing, timeout_ms);
}

void conclave_registration_destroy(struct conclave_registration *r)
{
    if (r != NULL) {
        closing_destroy(&r->closing);
    }
}
