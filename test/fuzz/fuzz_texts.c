/*
 * Texts that clients, commands and managers read from servers and nodes. The first byte of the input chooses the form:
 * Redis INFO and ROLE, the records and events of a fail-over, the gem's request, the view of a record, a breadcrumb, an
 * instance of a service, the form of a URI, names of contenders and of items of queues, a list of servers, the card of an
 * elector's member.
 * What must hold: no harm; a plan, a request, a result or a card that is read and written reads again.
 */
#include "client/core/hosts.h"
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "recipes/follow/master_view.h"
#include "recipes/group/service_instance.h"
#include "recipes/group/uri_spec.h"
#include "recipes/queue/curator_items.h"
#include "recipes/queue/queue_names.h"
#include "recipes/standby/breadcrumb.h"
#include "recipes/standby/member_card.h"
#include "redis/records/records.h"
#include "redis/records/redis_info.h"

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

static void fuzz_record(const struct record_table *table, struct slice text)
{
    union {
        struct redis_current current;
        struct redis_plan plan;
        struct redis_result result;
        struct redis_report report;
        struct redis_event event;
    } record;
    must(table->size <= sizeof record);
    if (record_read(table, text.data, text.len, &record) != 0) {
        return;
    }
    struct buf out;
    buf_init(&out, 0);
    record_write(&out, table, &record);
    must(buf_ok(&out));
    must(record_read(table, out.data, out.len, &record) == 0);
    buf_finish(&out);
}

static void fuzz_current(struct slice text)
{
    fuzz_record(&REDIS_CURRENT, text);
}

static void fuzz_plan(struct slice text)
{
    fuzz_record(&REDIS_PLAN, text);
}

static void fuzz_result(struct slice text)
{
    fuzz_record(&REDIS_RESULT, text);
}

static void fuzz_report(struct slice text)
{
    fuzz_record(&REDIS_REPORT, text);
}

static void fuzz_request(struct slice text)
{
    struct redis_request request;
    (void)redis_gem_request_read(text.data, text.len, &request);
    int rc = redis_request_read(text.data, text.len, "req-0000000001", &request);
    must(rc <= 0);
}

static void fuzz_event(struct slice text)
{
    fuzz_record(&REDIS_EVENT, text);
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

static void fuzz_card(struct slice text)
{
    struct member_card card;
    struct member_card again;
    const void *data = NULL;
    const void *data_again = NULL;
    size_t len = 0;
    size_t len_again = 0;
    struct buf out;
    char *copy = malloc(text.len + 1);
    must(copy != NULL);
    memcpy(copy, text.data, text.len);
    if (member_card_read(copy, text.len, &card, &data, &len)) {
        must(len <= text.len && (const char *)data + len == copy + text.len);
        must(conclave_elector_state_name(card.state) != NULL &&
             conclave_health_name(card.health) != NULL);
        buf_init(&out, 0);
        member_card_write(&out, &card, data, len);
        buf_append(&out, "", 1); /* room for the NUL */
        must(buf_ok(&out));
        must(member_card_read((char *)out.data, out.len - 1, &again, &data_again, &len_again));
        must(len_again == len && memcmp(data_again, data, len) == 0);
        must(again.observer == card.observer && again.state == card.state &&
             again.health == card.health && again.token == card.token && again.ready == card.ready);
        buf_finish(&out);
    }
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
    char *copy = text_of(text);
    if (hosts_parse(&hosts, copy, 1, &chroot) == 0) {
        must(hosts.count > 0 && hosts.count <= HOSTS_MAX && chroot != NULL);
        hosts_finish(&hosts);
        free(chroot);
    }
    free(copy);
}

static void fuzz_view(struct slice text)
{
    struct input in = input_make(text);
    struct conclave_redis_view *view = NULL;
    struct info_answer answer;
    enum conclave_redis_layout layout =
        take(&in) % 2 == 0 ? CONCLAVE_REDIS_LAYOUT_NATIVE : CONCLAVE_REDIS_LAYOUT_GEM;
    struct slice rest = take_rest(&in);
    must(redis_view_read(layout, rest.data, rest.len, &view) == 0 && view != NULL);
    struct conclave_redis_view *copy = redis_view_copy(view);
    must(copy != NULL && copy->state == view->state);
    conclave_redis_view_free(copy);
    conclave_redis_view_free(view);
    must(!redis_answer_read(rest.data, rest.len, &answer) || answer.role.len <= rest.len);
}

static void fuzz_uri(struct slice text)
{
    char *copy = text_of(text);
    const char *at = copy;
    struct slice part;
    struct json j;
    bool field;
    size_t parts = 0;
    if (uri_spec_valid(copy)) {
        while (uri_spec_next(&at, &part, &field)) {
            must(++parts <= text.len && part.len <= text.len);
        }
        json_init(&j);
        uri_spec_json(&j, copy);
        must(buf_ok(&j.out));
        json_finish(&j);
    }
    free(copy);
}

/* Names between newlines, as the children of one node. */
static void fuzz_children(struct slice text)
{
    enum { CHILDREN_MAX = 64 };
    struct input in = input_make(text);
    const char *names[CHILDREN_MAX];
    size_t count = 0, found = 0;
    struct line_entry *contenders = NULL;
    struct queue_name *items = NULL;
    enum conclave_naming naming = (enum conclave_naming)(take(&in) % (CONCLAVE_NAMING_KAZOO + 1));
    char *copy = text_of(take_rest(&in));
    for (char *at = copy; at != NULL && count < CHILDREN_MAX;) {
        names[count++] = strsep(&at, "\n");
    }
    struct conclave_reply reply = {.children = names, .children_count = count};
    must(contenders_filter(naming, true, &reply, &contenders, &found) == 0);
    must(found <= count);
    contenders_sort(contenders, found, false);
    if (contenders_need_czxid(contenders, found)) {
        contenders_sort(contenders, found, true);
    }
    for (size_t i = 0; i < found; i++) {
        must(contenders_find(contenders, found, contenders[i].name) < found);
    }
    for (int layout = 0; layout <= CONCLAVE_QUEUE_LAYOUT_CURATOR_DELAY; layout++) {
        struct queue_naming queue = {(enum conclave_queue_layout)layout, NULL, false};
        size_t due = 0;
        must(queue_names_order(&queue, names, count, 1000, &items, &found, &due) == 0);
        must(due <= found && found <= count);
        for (size_t i = 1; i < found; i++) {
            must(items[i - 1].order_ms <= items[i].order_ms);
            must(items[i - 1].order_ms < items[i].order_ms ||
                 items[i - 1].priority <= items[i].priority);
        }
        free(items);
    }
    free(contenders);
    free(copy);
}

/* A node of a queue in Curator's layout. */
static void fuzz_curator_items(struct slice text)
{
    size_t count = curator_items_count(text.data, text.len, NULL);
    size_t bytes = 0;
    uint32_t *starts = calloc(count + 1, sizeof *starts);
    must(starts != NULL && curator_items_count(text.data, text.len, starts) == count);
    must(count == 0 || starts[0] == CURATOR_FIRST_ITEM);
    for (size_t i = 0; i < count; i++) {
        size_t len = 0;
        must(curator_item_at(text.data, starts[i], &len) == (const uint8_t *)text.data + starts[i]);
        bytes += len;
    }
    must(bytes <= text.len);
    free(starts);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static const fuzz_target targets[] = {
        fuzz_facts,   fuzz_current, fuzz_plan,       fuzz_result,        fuzz_report,
        fuzz_request, fuzz_event,   fuzz_breadcrumb, fuzz_instance,      fuzz_hosts,
        fuzz_view,    fuzz_uri,     fuzz_children,   fuzz_curator_items, fuzz_card};
    fuzz_choose(targets, sizeof targets / sizeof targets[0], data, size);
}
