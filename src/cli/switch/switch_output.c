/* What `conclave switch` prints while it takes part: each change of its state, as text or as JSON. */
#include "cli/switch/switch.h"

#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;

static void written(const struct switch_options *o, bool done)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    if (!done && !atomic_flag_test_and_set(&told)) {
        fprintf(stderr, "conclave switch: %s: cannot write what happens: %s\n", o->turn.path,
                strerror(errno));
    }
}

static void line_begin(void)
{
    pthread_mutex_lock(&output_lock);
}

static void line_end(const struct switch_options *o)
{
    int n = printf("\n");
    written(o, n >= 0 && fflush(stdout) == 0);
    pthread_mutex_unlock(&output_lock);
}

static void event_begin(struct json *j, const char *event)
{
    json_line_begin(j);
    json_member_string(j, "event", event);
}

static void event_end(const struct switch_options *o, struct json *j)
{
    json_object_end(j);
    pthread_mutex_lock(&output_lock);
    written(o, json_print(j, stdout) == 0);
    pthread_mutex_unlock(&output_lock);
    json_finish(j);
}

void switch_tell_state(const struct switch_options *o, enum conclave_elector_state state,
                       int64_t token, const char *reason)
{
    const char *name = conclave_elector_state_name(state);
    struct json j;
    if (!o->turn.common.json) {
        line_begin();
        printf("state\t%s\t", name);
        if (token != 0) {
            printf("%" PRId64, token);
        } else {
            printf("-");
        }
        printf("\t%s", reason);
        line_end(o);
        return;
    }
    event_begin(&j, "state");
    json_member_string(&j, "state", name);
    json_key(&j, "token");
    if (token != 0) {
        json_int(&j, token);
    } else {
        json_null(&j);
    }
    json_member_string(&j, "reason", reason);
    event_end(o, &j);
}

void switch_tell_ready(const struct switch_options *o, int64_t token)
{
    struct json j;
    if (!o->turn.common.json) {
        line_begin();
        printf("ready\t%" PRId64, token);
        line_end(o);
        return;
    }
    event_begin(&j, "ready");
    json_member_int(&j, "token", token);
    event_end(o, &j);
}

void switch_tell_health(const struct switch_options *o, enum conclave_health health)
{
    struct json j;
    if (!o->turn.common.json) {
        line_begin();
        printf("health\t%s", conclave_health_name(health));
        line_end(o);
        return;
    }
    event_begin(&j, "health");
    json_member_string(&j, "health", conclave_health_name(health));
    event_end(o, &j);
}

void switch_tell_fence(const struct switch_options *o, const char *target, int64_t old_token,
                       const char *method, bool confirmed, const char *text)
{
    struct json j;
    if (!o->turn.common.json) {
        line_begin();
        printf("fence\t%s\t%" PRId64 "\t%s\t%s\t%s", target, old_token, method,
               confirmed ? "confirmed" : "failed", text);
        line_end(o);
        return;
    }
    event_begin(&j, "fence");
    json_member_string(&j, "target", target);
    json_member_int(&j, "old_token", old_token);
    json_member_string(&j, "method", method);
    json_member_bool(&j, "confirmed", confirmed);
    json_member_string(&j, "text", text);
    event_end(o, &j);
}

void switch_tell_request(const struct switch_options *o, const char *from, int64_t stay_out_ms)
{
    struct json j;
    if (!o->turn.common.json) {
        line_begin();
        printf("request\tcede\t%s\t%" PRId64, from, stay_out_ms);
        line_end(o);
        return;
    }
    event_begin(&j, "request");
    json_member_string(&j, "request", "cede");
    json_member_string(&j, "from", from);
    json_member_int(&j, "stay_out_ms", stay_out_ms);
    event_end(o, &j);
}
