/* The public functions of an elector: their checks, copies and requests to the machine in elector.c; and
 * the queries of operators about its nodes. */
#include "base/random.h"
#include "recipes/standby/breadcrumb.h"
#include "recipes/standby/elector.h"

#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"

#include <stdlib.h>
#include <string.h>

enum { NODE_NAME_MAX = 255, INCARNATION_MAX = 1024, INCARNATION_BYTES = 8 };
#define STAY_OUT_MAX_MS (366 * INT64_C(86400000)) /* a year */

static const char *const state_names[] = {"INIT",    "NEUTRAL", "STANDBY",
                                          "FENCING", "ACTIVE",  "OBSERVER"};
static const char *const health_names[] = {"INITIALIZING", "HEALTHY", "UNHEALTHY", "NOT_RESPONDING",
                                           "MONITOR_FAILED"};

const char *conclave_elector_state_name(enum conclave_elector_state state)
{
    return (unsigned)state <= CONCLAVE_ELECTOR_OBSERVER ? state_names[state] : "UNKNOWN";
}

const char *conclave_health_name(enum conclave_health health)
{
    return (unsigned)health <= CONCLAVE_HEALTH_MONITOR_FAILED ? health_names[health] : "UNKNOWN";
}

/* --- start ----------------------------------------------------------------------- */

/* NULL: the default, which is one. */
static bool id_is_node_name(const char *id)
{
    return id == NULL || (strchr(id, '/') == NULL && strcmp(id, ".") != 0 &&
                          strcmp(id, "..") != 0 && strlen(id) <= NODE_NAME_MAX);
}

static bool elector_options_valid(const struct conclave_elector_options *o)
{
    return (o->id == NULL || o->id[0] != '\0') && (!o->listed || id_is_node_name(o->id)) &&
           (o->incarnation == NULL ||
            (o->incarnation[0] != '\0' && strchr(o->incarnation, '\n') == NULL &&
             strlen(o->incarnation) <= INCARNATION_MAX)) &&
           o->data_len <= ELECTOR_DATA_MAX && (o->data != NULL || o->data_len == 0) &&
           (unsigned)o->layout <= CONCLAVE_ELECTOR_LAYOUT_HADOOP &&
           (unsigned)o->health <= CONCLAVE_HEALTH_MONITOR_FAILED && o->backoff_min_ms >= 0 &&
           o->backoff_max_ms >= o->backoff_min_ms;
}

static char *elector_copy_incarnation(const char *incarnation)
{
    char text[2 * INCARNATION_BYTES + 1];
    if (incarnation == NULL) {
        random_text(text, INCARNATION_BYTES);
        incarnation = text;
    }
    return strdup(incarnation);
}

/* The lock's data: as the breadcrumb, but its token is its own czxid. */
static bool elector_write_text(struct conclave_elector *e)
{
    struct conclave_breadcrumb crumb = elector_crumb(e, false);
    struct buf text;
    buf_init(&text, ELECTOR_TEXT_MAX);
    breadcrumb_write(&text, e->options.layout, &crumb);
    if (!buf_ok(&text)) {
        buf_finish(&text);
        return false;
    }
    e->text = (char *)buf_take(&text, &e->text_len);
    return true;
}

bool elector_copy(struct contender *c, const void *own)
{
    struct conclave_elector *e = elector_of(c);
    const struct conclave_elector_options *o = own;
    e->options = *o;
    e->health = o->health;
    e->observer = o->observer;
    e->lock_path = text_concat(o->dir, "/ActiveStandbyElectorLock");
    e->line_path = text_concat(o->dir, "/line");
    e->crumb_path = text_concat(o->dir, "/ActiveBreadCrumb");
    e->override_path = text_concat(o->dir, "/FenceOverride");
    e->handed_path = text_concat(o->dir, "/HandOver");
    e->members_path = text_concat(o->dir, "/members");
    e->card_path =
        e->members_path != NULL && c->id != NULL ? path_join(e->members_path, c->id) : NULL;
    e->incarnation = elector_copy_incarnation(o->incarnation);
    e->data = bytes_copy(o->data, o->data_len);
    e->data_len = o->data_len;
    return e->lock_path != NULL && e->line_path != NULL && e->crumb_path != NULL &&
           e->override_path != NULL && e->handed_path != NULL && e->card_path != NULL &&
           e->incarnation != NULL && e->data != NULL && elector_write_text(e);
}

void elector_free_copies(struct contender *c)
{
    struct conclave_elector *e = elector_of(c);
    free(e->lock_path);
    free(e->line_path);
    free(e->crumb_path);
    free(e->override_path);
    free(e->handed_path);
    free(e->members_path);
    free(e->card_path);
    free(e->incarnation);
    free(e->data);
    free(e->text);
}

int conclave_elector_open(struct conclave_recipes *rt,
                          const struct conclave_elector_options *options,
                          const struct conclave_elector_callbacks *callbacks, void *ctx,
                          struct conclave_elector **ret)
{
    struct conclave_elector_options own = CONCLAVE_ELECTOR_OPTIONS_INIT;
    struct conclave_elector_callbacks calls = CONCLAVE_ELECTOR_CALLBACKS_INIT;
    struct contender *c;
    bool valid =
        sized_read_both(&own, options, &calls, callbacks) == 0 && elector_options_valid(&own);
    struct contender_options common = {own.dir,    own.id,  CONCLAVE_NAMING_NATIVE,
                                       &own.lease, own.acl, own.acl_count};
    int error = contender_open(rt, &elector_class, &common, valid ? &own : NULL, ctx, &c);
    if (error != 0) {
        return error;
    }
    struct conclave_elector *e = elector_of(c);
    e->callbacks = calls;
    *ret = e; /* before a callback can run */
    contender_opened(c);
    return 0;
}

/* --- asking ---------------------------------------------------------------------- */

bool conclave_elector_is_active(const struct conclave_elector *e)
{
    return contender_has_lease(&e->c);
}

int64_t conclave_elector_lease_left_ms(const struct conclave_elector *e)
{
    return grant_left_ms(&e->c.grant, elector_rt(e));
}

int64_t conclave_elector_lease_until_ns(const struct conclave_elector *e)
{
    return grant_until_ns(&e->c.grant, elector_rt(e));
}

struct conclave_token conclave_elector_token(const struct conclave_elector *e)
{
    return grant_token(&e->c.grant, elector_rt(e));
}

enum conclave_elector_state conclave_elector_state(const struct conclave_elector *e)
{
    struct conclave_client *client = elector_rt(e)->client;
    if (client_check(client) != 0) {
        return CONCLAVE_ELECTOR_NEUTRAL;
    }
    client_lock(client);
    enum conclave_elector_state state = elector_state(e);
    client_unlock(client);
    return state;
}

/* --- asking for changes ------------------------------------------------------------- */

void conclave_elector_set_health(struct conclave_elector *e, enum conclave_health health)
{
    struct conclave_client *client = elector_rt(e)->client;
    if (client_check(client) != 0 || (unsigned)health > CONCLAVE_HEALTH_MONITOR_FAILED) {
        return;
    }
    client_lock(client);
    if (e->health != health) {
        e->health = health;
        if (health != CONCLAVE_HEALTH_HEALTHY) {
            e->reason = "not healthy";
            e->untrusted = true; /* of a stop under way, too */
            if (e->c.node != NULL) {
                /* A service that recovers at once still leaves the turn to others. */
                int64_t until = client_after_ns(client, e->options.backoff_min_ms);
                e->c.not_before_ns = until > e->c.not_before_ns ? until : e->c.not_before_ns;
            }
        }
        contender_run(&e->c);
    }
    client_unlock(client);
}

int conclave_elector_cede(struct conclave_elector *e, int64_t stay_out_ms)
{
    struct conclave_client *client = elector_rt(e)->client;
    int error = client_check(client);
    if (error == 0 && (stay_out_ms < 0 || stay_out_ms > STAY_OUT_MAX_MS)) {
        error = CONCLAVE_EINVAL;
    }
    if (error == 0) {
        error = contender_begin_call(&e->c);
    }
    if (error == 0) {
        e->ceding = true;
        e->reason = "ceded";
        e->c.not_before_ns = client_after_ns(client, stay_out_ms);
        contender_end_call(&e->c);
    }
    return error;
}

int conclave_elector_observe(struct conclave_elector *e, bool observer)
{
    int error = contender_begin_call(&e->c);
    if (error == 0) {
        e->observer = observer;
        e->reason = observer ? "observer" : "";
        contender_end_call(&e->c);
    }
    return error;
}

void conclave_elector_ready(struct conclave_elector *e)
{
    if (contender_begin_call(&e->c) == 0) {
        e->ready = contender_holds(&e->c);
        contender_end_call(&e->c);
    }
}

/* The breadcrumb's version, while it is ours and the lease lasts; or why not. In Hadoop's layout versions
 * start at 0 with each breadcrumb. So the check relies on two facts: the breadcrumb is ours when the check
 * is queued, and its end is queued later. */
static int elector_crumb_version(void *ctx, int32_t *ret)
{
    struct conclave_elector *e = ctx;
    if (!contender_holds(&e->c) || !contender_has_lease(&e->c)) {
        return CONCLAVE_EFENCED;
    }
    *ret = e->crumb_version;
    return 0;
}

int conclave_elector_fenced_multi(struct conclave_elector *e, const struct conclave_op *parts,
                                  size_t count, struct conclave_reply **ret_reply)
{
    struct fenced_version version = {elector_crumb_version, e};
    return fenced_multi_version(elector_rt(e)->client, e->crumb_path, &version, parts, count,
                                ret_reply);
}

/* --- the end ----------------------------------------------------------------------- */

void conclave_elector_close(struct conclave_elector *e)
{
    contender_close(&e->c);
}

int conclave_elector_close_wait(struct conclave_elector *e, int64_t timeout_ms)
{
    if (elector_in_fence(e)) {
        return CONCLAVE_EDEADLK; /* the end waits for the fence */
    }
    return contender_close_wait(&e->c, timeout_ms);
}

void conclave_elector_destroy(struct conclave_elector *e)
{
    if (e != NULL) {
        closing_destroy(&e->c.closing);
    }
}
