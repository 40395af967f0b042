/*
 * Group, configuration, counter, registry, persistent nodes and leases with one fault at every single request (support/sweep.h). Whatever the
 * fault: members are in and seen in the end, the last value is told and acknowledged, each addition counted exactly
 * once, the instance found; nothing is left behind, and no callback comes after on_closed.
 */
#include "support/sweep.h"

#include <conclave/config.h>
#include <conclave/counter.h>
#include <conclave/group.h>
#include <conclave/lease.h>
#include <conclave/persistent_node.h>
#include <conclave/registry.h>

#include <stdatomic.h>

enum { STEPS = 24, ADDITIONS = 3, DEADLINE_MS = 60000 };

enum scene {
    SCENE_GROUP,
    SCENE_CONFIG,
    SCENE_COUNTER,
    SCENE_REGISTRY,
    SCENE_NODE,
    SCENE_LEASE,
    SCENES
};

static int64_t deadline_ns(void)
{
    return now_ns() + (int64_t)DEADLINE_MS * 1000000;
}

/* Whether the last report becomes this. */
static bool soon(struct sweep_case *s, int64_t value)
{
    for (int64_t end = deadline_ns(); s->seen != value && now_ns() < end;) {
        sleep_ms(2);
    }
    return s->seen == value;
}

static void end_seen(struct sweep_case *s)
{
    s->after_end += s->closed;
    s->closed++;
}

/* --- group ------------------------------------------------------------------------------- */

static void on_view(struct conclave_group *group, const struct conclave_group_view *view, void *ctx)
{
    struct sweep_case *s = ctx;
    int64_t data = 0;
    s->after_end += s->closed;
    for (size_t i = 0; i < view->count; i++) {
        if (view->members[i]->self && view->members[i]->data_len == 1) {
            data = *(const char *)view->members[i]->data;
        }
    }
    s->seen = view->stale ? -1 : data;
}

static void on_group_closed(struct conclave_group *group, int why, void *ctx)
{
    end_seen(ctx);
}

static const char *play_group(struct sweep_case *s)
{
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    struct conclave_group_callbacks callbacks = {
        .size = sizeof callbacks, .on_view = on_view, .on_closed = on_group_closed};
    struct conclave_group *group;
    options.path = "/app/group";
    options.id = "a";
    options.data = "1";
    options.data_len = 1;
    if (conclave_group_open(s->recipes, &options, &callbacks, s, &group) != 0 ||
        conclave_group_wait_joined(group, DEADLINE_MS) != 0) {
        return "was never in";
    }
    const char *wrong = NULL;
    if (conclave_group_set_data(group, "2", 1) != 0 || !soon(s, '2')) {
        wrong = "was not seen with its new data";
    }
    if (conclave_group_close_wait(group, DEADLINE_MS) != 0) {
        return "did not close";
    }
    conclave_group_destroy(group);
    return wrong;
}

/* --- configuration ------------------------------------------------------------------------- */

static int on_value(struct conclave_config *config, const struct conclave_config_state *state,
                    void *ctx)
{
    struct sweep_case *s = ctx;
    s->after_end += s->closed;
    s->seen = state->count == 0 ? 0 : *(const char *)state->nodes[0]->data;
    return 0;
}

static void on_config_closed(struct conclave_config *config, int why, void *ctx)
{
    end_seen(ctx);
}

static const char *play_writer(struct sweep_case *s)
{
    struct conclave_config_acks_options options = CONCLAVE_CONFIG_ACKS_OPTIONS_INIT;
    struct conclave_config_written written = CONCLAVE_CONFIG_WRITTEN_INIT;
    struct conclave_config_ack **list = NULL;
    size_t count = 0;
    if (conclave_config_put(s->recipes, "/app/cfg", "1", 1, CONCLAVE_CONFIG_ABSENT, DEADLINE_MS,
                            &written) != 0 ||
        conclave_config_put(s->recipes, "/app/cfg", "2", 1, written.version, DEADLINE_MS,
                            &written) != 0 ||
        written.version != 1) {
        return "could not put";
    }
    if (!soon(s, '2')) {
        return "the value was not told";
    }
    options.path = "/app/cfg";
    options.zxid = written.mzxid;
    options.at_least = 1;
    int error = conclave_config_wait_acked(s->recipes, &options, DEADLINE_MS, &list, &count);
    conclave_config_acks_free(list, count);
    return error == 0 ? NULL : "was not acknowledged";
}

static const char *play_config(struct sweep_case *s)
{
    struct conclave_config_options options = CONCLAVE_CONFIG_OPTIONS_INIT;
    struct conclave_config_callbacks callbacks = {
        .size = sizeof callbacks, .on_change = on_value, .on_closed = on_config_closed};
    struct conclave_config *config;
    options.path = "/app/cfg";
    options.ack_id = "a";
    if (conclave_config_open(s->recipes, &options, &callbacks, s, &config) != 0) {
        return "could not open";
    }
    const char *wrong = play_writer(s);
    if (conclave_config_close_wait(config, DEADLINE_MS) != 0) {
        return "did not close";
    }
    conclave_config_destroy(config);
    return wrong;
}

/* --- counter -------------------------------------------------------------------------------- */

static void on_count(struct conclave_counter *counter, int64_t value, int error, void *ctx)
{
    struct sweep_case *s = ctx;
    s->after_end += s->closed;
    s->seen = value;
}

static void on_counter_closed(struct conclave_counter *counter, int why, void *ctx)
{
    end_seen(ctx);
}

static const char *play_counter(struct sweep_case *s)
{
    struct conclave_counter_options options = CONCLAVE_COUNTER_OPTIONS_INIT;
    struct conclave_counter_callbacks callbacks = {sizeof callbacks, on_count, on_counter_closed};
    struct conclave_counter *counter;
    const char *wrong = NULL;
    int64_t value = 0;
    options.path = "/app/count";
    if (conclave_counter_open(s->recipes, &options, &callbacks, s, &counter) != 0) {
        return "could not open";
    }
    for (int i = 1; i <= ADDITIONS && wrong == NULL; i++) {
        if (conclave_counter_add(counter, 10, DEADLINE_MS, &value) != 0 || value != 10 * i) {
            wrong = "an addition was not counted once";
        }
    }
    if (wrong == NULL && !soon(s, 10 * ADDITIONS)) {
        wrong = "the value was not told";
    }
    if (conclave_counter_close_wait(counter, DEADLINE_MS) != 0) {
        return "did not close";
    }
    conclave_counter_destroy(counter);
    return wrong;
}

/* --- registry ------------------------------------------------------------------------------- */

static void on_instances(struct conclave_discovery *discovery,
                         const struct conclave_instance *const *instances, size_t count, bool stale,
                         void *ctx)
{
    struct sweep_case *s = ctx;
    s->after_end += s->closed;
    s->seen = stale ? -1 : count == 0 ? 0 : instances[0]->enabled ? 1 : 2;
}

static void on_discovery_closed(struct conclave_discovery *discovery, int why, void *ctx)
{
    end_seen(ctx);
}

static const char *play_registry(struct sweep_case *s)
{
    struct conclave_registration_options shop = CONCLAVE_REGISTRATION_OPTIONS_INIT;
    struct conclave_discovery_options find = CONCLAVE_DISCOVERY_OPTIONS_INIT;
    struct conclave_discovery_callbacks callbacks = {sizeof callbacks, on_instances,
                                                     on_discovery_closed};
    struct conclave_registration *registration;
    struct conclave_discovery *discovery;
    const char *wrong = NULL;
    shop.path = find.path = "/app";
    shop.name = find.name = "shop";
    shop.id = "a";
    shop.address = "here";
    if (conclave_registration_open(s->recipes, &shop, NULL, NULL, &registration) != 0 ||
        conclave_discovery_open(s->recipes, &find, &callbacks, s, &discovery) != 0) {
        return "could not open";
    }
    if (conclave_registration_wait(registration, DEADLINE_MS) != 0 ||
        conclave_registration_update(registration, NULL, true) != 0 || !soon(s, 2)) {
        wrong = "the instance was not found as it is";
    }
    if (conclave_registration_close_wait(registration, DEADLINE_MS) != 0) {
        return "did not close";
    }
    conclave_registration_destroy(registration);
    if (wrong == NULL && !soon(s, 0)) {
        wrong = "the instance was found when it had gone";
    }
    if (conclave_discovery_close_wait(discovery, DEADLINE_MS) != 0) {
        return "did not close";
    }
    conclave_discovery_destroy(discovery);
    return wrong;
}

/* --- persistent nodes ------------------------------------------------------------------------ */

static void on_node_closed(struct conclave_persistent_node *node, int why, void *ctx)
{
    end_seen(ctx);
}

static bool node_has_soon(struct sweep_case *s, const char *path, const char *data)
{
    char found[64];
    for (int64_t end = deadline_ns(); now_ns() < end; sleep_ms(2)) {
        if (fake_zk_data(s->zk, path, found, sizeof found) && strcmp(found, data) == 0) {
            return true;
        }
    }
    return false;
}

/* A sequential one, and one with a TTL. */
static const char *play_nodes(struct sweep_case *s)
{
    struct conclave_persistent_node_options options = CONCLAVE_PERSISTENT_NODE_OPTIONS_INIT;
    struct conclave_persistent_node_callbacks callbacks = CONCLAVE_PERSISTENT_NODE_CALLBACKS_INIT;
    struct conclave_persistent_node *first;
    struct conclave_persistent_node *second;
    const char *wrong = NULL;
    char path[256];
    callbacks.on_closed = on_node_closed;
    options.path = "/app/node";
    options.data = "1";
    options.data_len = 1;
    options.mode = CONCLAVE_EPHEMERAL_SEQUENTIAL;
    if (conclave_persistent_node_open(s->recipes, &options, &callbacks, s, &first) != 0) {
        return "could not open";
    }
    options.mode = CONCLAVE_PERSISTENT;
    options.ttl_ms = 60000;
    if (conclave_persistent_node_open(s->recipes, &options, NULL, NULL, &second) != 0) {
        return "could not open the second";
    }
    if (conclave_persistent_node_wait(first, DEADLINE_MS) != 0 ||
        conclave_persistent_node_wait(second, DEADLINE_MS) != 0) {
        wrong = "was never there";
    } else if (conclave_persistent_node_set_data(first, "2", 1) != 0 ||
               conclave_persistent_node_set_data(second, "2", 1) != 0 ||
               conclave_persistent_node_path(first, path, sizeof path) != 0 ||
               !node_has_soon(s, path, "2") || !node_has_soon(s, "/app/node", "2")) {
        wrong = "does not have the new data";
    }
    if (conclave_persistent_node_close_wait(first, DEADLINE_MS) != 0 ||
        conclave_persistent_node_close_wait(second, DEADLINE_MS) != 0) {
        return "did not close";
    }
    conclave_persistent_node_destroy(first);
    conclave_persistent_node_destroy(second);
    return wrong != NULL || !fake_zk_exists(s->zk, "/app/node") ? wrong : "a node was left";
}

/* --- leases ------------------------------------------------------------------------------------ */

/* One lease, as long as it lives. */
static int use_lease(struct sweep_case *s, const struct conclave_client_options *options)
{
    struct conclave_lease_info info = CONCLAVE_LEASE_INFO_INIT;
    struct conclave_lease *lease;
    char id[CONCLAVE_LEASE_ID_MAX];
    int error = conclave_lease_grant(options, SESSION_MS, DEADLINE_MS, NULL, NULL, &lease);
    if (error != 0) {
        return error;
    }
    conclave_lease_id(lease, id);
    error = conclave_lease_acquire(lease, "/app/value", "1", 1, CONCLAVE_LEASE_RELEASE, DEADLINE_MS,
                                   NULL);
    error = error == 0 ? conclave_lease_attach(lease, "/old", DEADLINE_MS) : error;
    error = error == 0 ? conclave_lease_time_to_live(lease, DEADLINE_MS, &info) : error;
    error = error == 0
                ? conclave_lease_release(lease, "/app/value", CONCLAVE_LEASE_RELEASE, DEADLINE_MS)
                : error;
    error = error == 0 ? conclave_lease_keep_alive(options, id, DEADLINE_MS, &info) : error;
    error = error == 0 ? conclave_lease_revoke(options, id, DEADLINE_MS) : error;
    int closed = conclave_lease_close(lease, CONCLAVE_LEASE_END_NOW, 1000);
    return error != 0 ? error : closed;
}

static const char *play_lease(struct sweep_case *s)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    int64_t end = deadline_ns();
    int error;
    options.servers = fake_zk_address(s->zk, 0);
    do { /* one whose session was killed is granted anew */
        if (!fake_zk_exists(s->zk, "/old")) {
            fake_zk_create(s->zk, "/old", "", 0);
        }
        error = use_lease(s, &options);
        /* the nodes of the last one may stay a little longer, and go while this one looks */
    } while ((error == CONCLAVE_SESSION_EXPIRED || error == CONCLAVE_EBUSY ||
              error == CONCLAVE_ENOTOWNER || error == CONCLAVE_NO_NODE) &&
             now_ns() < end);
    end_seen(s);
    if (error != 0) {
        return conclave_errname(error);
    }
    return fake_zk_exists(s->zk, "/old") ? "an attached node was left" : NULL;
}

/* --- the sweep ------------------------------------------------------------------------------- */

static const char *play(struct sweep_case *s)
{
    static const char *(*const plays[SCENES])(struct sweep_case * s) = {
        play_group, play_config, play_counter, play_registry, play_nodes, play_lease};
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    options.servers = fake_zk_address(s->zk, 0);
    options.session_timeout_ms = SESSION_MS;
    if (conclave_client_open(&options, &s->client) != 0 || conclave_client_start(s->client) != 0 ||
        conclave_recipes_open(s->client, &s->recipes) != 0) {
        return "could not start";
    }
    return plays[s->scene](s);
}

static const char *finish(struct sweep_case *s)
{
    conclave_recipes_destroy(s->recipes);
    conclave_client_close(s->client, 1000);
    /* what a session took to its end, later writers remove */
    bool session_ended = s->fault >= FAULT_EXPIRE;
    if (!session_ended && (fake_zk_child_count(s->zk, "/app/count.writers") > 0 ||
                           fake_zk_child_count(s->zk, "/app/cfg.writers") > 0)) {
        return "a marker was left";
    }
    return s->after_end == 0 && s->closed == 1 ? NULL : "a callback came after the end";
}

int main(void)
{
    static const char *const names[SCENES] = {"group",    "config", "counter",
                                              "registry", "node",   "lease"};
    static struct sweep_plan plan = {
        .names = names,
        .scenes = SCENES,
        .endpoints = 1,
        .steps = STEPS,
        .beside = 12,
        .least = SCENES * 8,
        .play = play,
        .finish = finish,
    };
    const struct CMUnitTest tests[] = {SWEEP_TESTS(&plan)};
    return RUN_TESTS(tests);
}
