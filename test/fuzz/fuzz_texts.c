/*
 * Texts that clients, commands and managers read from servers and nodes. The first byte of the input chooses the form:
 * Redis INFO, the records and events of a fail-over, the gem's request, a breadcrumb, an instance of a service, a list of
 * servers.
 * What must hold: no harm; a plan, a request or a result that is read and written reads again.
 */
#include "client/hosts.h"
#include "failover/breadcrumb.h"
#include "fuzz/cost.h"
#include "recipes/instance.h"
#include "redis/event.h"
#include "redis/facts.h"
#include "redis/records.h"

#include <stdlib.h>
#include <string.h>

const struct cost_bound fuzz_bound = {
    .cpu_us = 50000,
    .cpu_ns_per_byte = 20000,
    .alloc_bytes = 1 << 20,
    .alloc_per_byte = 1000,
};

static void fuzz_facts(struct slice text)
{
    struct redis_facts facts;
    if (redis_facts_read((const char *)text.data, text.len, &facts) == 0) {
        must(facts.replica_count <= REDIS_REPLICAS_MAX);
        must(redis_role_name(facts.role) != NULL);
    }
}

#define FUZZ_RECORD(name)                                                                          \
    static void fuzz_##name(struct slice text)                                                     \
    {                                                                                              \
        struct redis_##name record;                                                                \
        if (redis_##name##_read(text.data, text.len, &record) != 0) {                              \
            return;                                                                                \
        }                                                                                          \
        struct buf out;                                                                            \
        buf_init(&out, 0);                                                                         \
        redis_##name##_write(&out, &record);                                                       \
        must(buf_ok(&out));                                                                        \
        must(redis_##name##_read(out.data, out.len, &record) == 0);                                \
        buf_finish(&out);                                                                          \
    }
FUZZ_RECORD(current)
FUZZ_RECORD(plan)
FUZZ_RECORD(result)
FUZZ_RECORD(report)

static void fuzz_request(struct slice text)
{
    struct redis_request request;
    (void)redis_gem_request_read(text.data, text.len, &request);
    int rc = redis_request_read(text.data, text.len, "req-0000000001", &request);
    must(rc <= 0);
}

static void fuzz_event(struct slice text)
{
    struct redis_event_read event;
    int rc = redis_event_read(text.data, text.len, &event);
    must(rc <= 0);
}

static void fuzz_breadcrumb(struct slice text)
{
    struct conclave_breadcrumb crumb;
    char *copy = malloc(text.len + 1);
    must(copy != NULL);
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    breadcrumb_read(copy, text.len, &crumb);
    must(crumb.id != NULL && crumb.incarnation != NULL && crumb.data_len <= text.len);
    free(copy);
}

static void fuzz_instance(struct slice text)
{
    struct conclave_instance instance;
    char *block = NULL;
    if (instance_read(text.data, text.len, &instance, &block) == 0) {
        size_t len;
        char *again = instance_write(&instance, &len);
        must(again != NULL);
        free(again);
        free(block);
    }
}

static void fuzz_hosts(struct slice text)
{
    struct hosts hosts;
    char *chroot = NULL;
    char *copy = strndup((const char *)text.data, text.len);
    must(copy != NULL);
    if (hosts_parse(&hosts, copy, 1, &chroot) == 0) {
        must(hosts.count > 0 && hosts.count <= HOSTS_MAX && chroot != NULL);
        hosts_finish(&hosts);
        free(chroot);
    }
    free(copy);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static void (*const targets[])(struct slice) = {
        fuzz_facts,   fuzz_current, fuzz_plan,       fuzz_result,   fuzz_report,
        fuzz_request, fuzz_event,   fuzz_breadcrumb, fuzz_instance, fuzz_hosts};
    if (size > 1) {
        targets[data[0] % (sizeof targets / sizeof targets[0])](slice_make(data + 1, size - 1));
    }
}
