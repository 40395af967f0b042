/* The output of `conclave switch` while it takes part: each change of its state, as text or as JSON. */
#include "cli/switch/switch.h"

#include "cli/common/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* From the beginning of an event to its end: several threads print. */
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;

static void event_begin(const struct switch_options *o, struct record *r, const char *event)
{
    pthread_mutex_lock(&output_lock);
    record_begin(r, o->hold.common.json);
    record_string(r, "event", event);
}

static void event_end(const struct switch_options *o, struct record *r)
{
    static bool told;
    if (record_print(r) != 0 && !told) {
        told = true;
        fprintf(stderr, "conclave switch: %s: cannot print events: %s\n", o->hold.path,
                strerror(errno));
    }
    pthread_mutex_unlock(&output_lock);
}

void switch_tell_state(const struct switch_options *o, enum conclave_elector_state state,
                       int64_t token, const char *reason)
{
    struct record r;
    event_begin(o, &r, "state");
    record_string(&r, "state", conclave_elector_state_name(state));
    record_int_or_none(&r, "token", token != 0, token);
    record_string(&r, "reason", reason);
    event_end(o, &r);
}

void switch_tell_ready(const struct switch_options *o, int64_t token)
{
    struct record r;
    event_begin(o, &r, "ready");
    record_int(&r, "token", token);
    event_end(o, &r);
}

void switch_tell_health(const struct switch_options *o, enum conclave_health health)
{
    struct record r;
    event_begin(o, &r, "health");
    record_string(&r, "health", conclave_health_name(health));
    event_end(o, &r);
}

void switch_tell_fence(const struct switch_options *o, const char *target, int64_t old_token,
                       const char *method, bool confirmed, const char *text)
{
    struct record r;
    event_begin(o, &r, "fence");
    record_string(&r, "target", target);
    record_int(&r, "old_token", old_token);
    record_string(&r, "method", method);
    record_string(&r, NULL, confirmed ? "confirmed" : "failed");
    if (r.json) {
        json_member_bool(&r.j, "confirmed", confirmed);
    }
    record_string(&r, "text", text);
    event_end(o, &r);
}

void switch_tell_request(const struct switch_options *o, const char *what, const char *from,
                         int64_t stay_out_ms)
{
    struct record r;
    event_begin(o, &r, "request");
    record_string(&r, "request", what);
    record_string(&r, "from", from);
    record_int(&r, "stay_out_ms", stay_out_ms);
    event_end(o, &r);
}
