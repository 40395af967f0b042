#include "testing/test_report.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct owned_report {
    struct conclave_test_report report; /* first */
    json_t *json;                       /* keeps the names of requests */
    struct conclave_test_session *sessions;
    struct conclave_test_requests *kinds;
};

static uint64_t report_number(const json_t *json, const char *group, const char *name)
{
    json_int_t n = json_integer_value(json_object_get(json_object_get(json, group), name));
    return n > 0 ? (uint64_t)n : 0;
}

static int read_sessions(struct owned_report *o)
{
    const json_t *list = json_object_get(json_object_get(o->json, "sessions"), "list");
    size_t count = json_array_size(list);
    o->sessions = calloc(count + 1, sizeof *o->sessions);
    if (o->sessions == NULL || !json_is_array(list)) {
        return o->sessions == NULL ? CONCLAVE_ENOMEM : CONCLAVE_ECORRUPT;
    }
    for (size_t i = 0; i < count; i++) {
        const json_t *one = json_array_get(list, i);
        const char *id = json_string_value(json_object_get(one, "id"));
        if (id == NULL) {
            return CONCLAVE_ECORRUPT;
        }
        json_int_t watches = json_integer_value(json_object_get(one, "watches"));
        o->sessions[i] = (struct conclave_test_session){
            .id = (int64_t)strtoull(id, NULL, 16),
            .timeout_ms = (int32_t)json_integer_value(json_object_get(one, "timeout_ms")),
            .connected = json_is_true(json_object_get(one, "connected")),
            .watches = watches > 0 ? (uint64_t)watches : 0,
        };
    }
    o->report.sessions = o->sessions;
    o->report.session_count = count;
    return 0;
}

static int read_requests(struct owned_report *o)
{
    json_t *requests = json_object_get(o->json, "requests");
    const char *name;
    json_t *value;
    o->kinds = calloc(json_object_size(requests) + 1, sizeof *o->kinds);
    if (o->kinds == NULL || !json_is_object(requests)) {
        return o->kinds == NULL ? CONCLAVE_ENOMEM : CONCLAVE_ECORRUPT;
    }
    json_object_foreach(requests, name, value)
    {
        if (strcmp(name, "total") != 0) {
            o->kinds[o->report.kind_count++] = (struct conclave_test_requests){
                .name = name, .count = report_number(o->json, "requests", name)};
        }
    }
    assert(o->report.kind_count <= json_object_size(requests));
    o->report.kinds = o->kinds;
    return 0;
}

int test_report_read(json_t *json_take, struct conclave_test_report **ret)
{
    struct owned_report *o = calloc(1, sizeof *o);
    if (o == NULL) {
        json_decref(json_take);
        return CONCLAVE_ENOMEM;
    }
    const json_t *json = o->json = json_take;
    o->report = (struct conclave_test_report){
        .size = sizeof o->report,
        .since_ms = json_integer_value(json_object_get(json, "since_ms")),
        .connections_open = report_number(json, "connections", "open"),
        .connections_accepted = report_number(json, "connections", "accepted"),
        .connections_refused = report_number(json, "connections", "refused"),
        .connections_dropped = report_number(json, "connections", "dropped"),
        .sessions_open = report_number(json, "sessions", "open"),
        .sessions_created = report_number(json, "sessions", "created"),
        .sessions_expired = report_number(json, "sessions", "expired"),
        .sessions_closed = report_number(json, "sessions", "closed"),
        .requests = report_number(json, "requests", "total"),
        .watches_set = report_number(json, "watches", "set"),
        .watches_told = report_number(json, "watches", "told"),
    };
    int rc = read_sessions(o);
    if (rc == 0) {
        rc = read_requests(o);
    }
    if (rc != 0) {
        conclave_test_report_free(&o->report);
        return rc;
    }
    *ret = &o->report;
    return 0;
}

void conclave_test_report_free(struct conclave_test_report *report)
{
    struct owned_report *o = (struct owned_report *)report;
    if (o != NULL) {
        json_decref(o->json);
        free(o->sessions);
        free(o->kinds);
        free(o);
    }
}

uint64_t conclave_test_report_requests(const struct conclave_test_report *report, const char *name)
{
    for (size_t i = 0; i < report->kind_count; i++) {
        if (strcmp(report->kinds[i].name, name) == 0) {
            return report->kinds[i].count;
        }
    }
    return 0;
}
