/* Every allocation of groups, configurations, counters, shared values, the registry, fences and token
 * questions fails once, in turn. */
#include "support/starving.h"

#include <conclave/config.h>
#include <conclave/counter.h>
#include <conclave/fencing.h>
#include <conclave/group.h>
#include <conclave/lease.h>
#include <conclave/op.h>
#include <conclave/partitioner.h>
#include <conclave/persistent_node.h>
#include <conclave/registry.h>

#include <stdatomic.h>

/* Calls that succeed at the second attempt, after any failure. */
static void settled(struct starving *s, int error, const char *what)
{
    MUST(s, error, what);
    CHECK(s, error == 0, what);
}

/* --- group --------------------------------------------------------------------------------------- */

static void on_view(struct conclave_group *group, const struct conclave_group_view *view, void *ctx)
{
    int seen = 0;
    for (size_t i = 0; i < view->count; i++) {
        seen = view->members[i]->data_len == 1 ? *(const char *)view->members[i]->data : seen;
    }
    ((struct starving *)ctx)->told = view->stale ? 0 : seen;
}

static void on_group_closed(struct conclave_group *group, int why, void *ctx)
{
    ((struct starving *)ctx)->told_closed++;
}

static int group_open(struct starving *s, struct conclave_group **ret)
{
    static const struct conclave_group_callbacks callbacks = {
        .size = sizeof callbacks, .on_view = on_view, .on_closed = on_group_closed};
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    options.path = "/app/group";
    options.id = "a";
    options.data = "1";
    options.data_len = 1;
    return conclave_group_open(s->recipes, &options, &callbacks, s, ret);
}

static int group_scene(struct starving *s)
{
    struct conclave_group *group = NULL;
    struct conclave_member **list = NULL;
    size_t count = 0;
    int error;
    TWICE(error, group_open(s, &group));
    MUST(s, error, "open");
    if (error != 0) {
        return error;
    }
    TWICE(error, conclave_group_wait_joined(group, PATIENCE_MS));
    settled(s, error, "join");
    AWAIT(s, s->told == '1', "not seen");
    TWICE(error, conclave_group_set_data(group, "2", 1));
    settled(s, error, "new data");
    AWAIT(s, s->told == '2', "not seen with new data");
    TWICE(error, conclave_group_members(s->recipes, "/app/group", PATIENCE_MS, &list, &count));
    settled(s, error, "list");
    if (s->wrong != NULL) {
        return 0;
    }
    CHECK(s, count == 1, "another list");
    conclave_members_free(list, count);
    fake_zk_delete(s->zk, "/app/group/a"); /* by an operator: it comes back */
    AWAIT(s, fake_zk_ephemerals(s->zk) == 1, "did not come back");
    AWAIT(s, s->told == '2', "not seen again");
    CHECK(s, conclave_group_close_wait(group, PATIENCE_MS) == 0, "did not close");
    CHECK(s, s->told_closed == 1, "the end was not told once");
    conclave_group_destroy(group);
    return 0;
}

/* --- configuration ------------------------------------------------------------------------------- */

static int on_value(struct conclave_config *config, const struct conclave_config_state *state,
                    void *ctx)
{
    ((struct starving *)ctx)->told = state->count == 0 ? 0 : *(const char *)state->nodes[0]->data;
    return 0;
}

static int valid(struct conclave_config *config, const struct conclave_config_state *state,
                 char *why, size_t why_len, void *ctx)
{
    (void)snprintf(why, why_len, "not x");
    return state->count > 0 && *(const char *)state->nodes[0]->data == 'x';
}

static void on_config_closed(struct conclave_config *config, int why, void *ctx)
{
    ((struct starving *)ctx)->told_closed++;
}

static void config_write(struct starving *s)
{
    struct conclave_config_acks_options acks = CONCLAVE_CONFIG_ACKS_OPTIONS_INIT;
    struct conclave_config_written written = CONCLAVE_CONFIG_WRITTEN_INIT;
    struct conclave_config_ack **list = NULL;
    size_t count = 0;
    int error;
    TWICE(error, conclave_config_put(s->recipes, "/app/cfg", "1", 1, CONCLAVE_CONFIG_ANY,
                                     PATIENCE_MS, &written));
    settled(s, error, "put");
    TWICE(error, conclave_config_put(s->recipes, "/app/cfg", "2", 1, CONCLAVE_CONFIG_ANY,
                                     PATIENCE_MS, &written));
    settled(s, error, "put again");
    AWAIT(s, s->told == '2', "not told");
    acks.path = "/app/cfg";
    acks.zxid = written.mzxid;
    acks.at_least = 1;
    TWICE(error, conclave_config_wait_acked(s->recipes, &acks, PATIENCE_MS, &list, &count));
    settled(s, error, "acknowledged");
    if (error == 0) {
        conclave_config_acks_free(list, count);
    }
}

static int config_scene(struct starving *s, bool tree)
{
    static const struct conclave_config_callbacks callbacks = {.size = sizeof callbacks,
                                                               .validate = valid,
                                                               .on_change = on_value,
                                                               .on_closed = on_config_closed};
    static atomic_int number;
    struct conclave_config_options options = CONCLAVE_CONFIG_OPTIONS_INIT;
    struct conclave_config *config = NULL;
    char file[64];
    int error;
    (void)snprintf(file, sizeof file, "/tmp/conclave-memory-%d-%d", (int)getpid(),
                   atomic_fetch_add(&number, 1));
    options.path = "/app/cfg";
    options.tree = tree;
    options.ack_id = "a";
    options.cache_file = file;
    TWICE(error, conclave_config_open(s->recipes, &options, &callbacks, s, &config));
    MUST(s, error, "open");
    if (error == 0) {
        config_write(s);
    }
    if (error == 0 && s->wrong == NULL) {
        CHECK(s, conclave_config_close_wait(config, PATIENCE_MS) == 0, "did not close");
        CHECK(s, s->told_closed == 1, "the end was not told once");
        conclave_config_destroy(config);
    }
    (void)unlink(file);
    return error;
}

static int value_scene(struct starving *s)
{
    return config_scene(s, false);
}

static int tree_scene(struct starving *s)
{
    return config_scene(s, true);
}

/* --- counter and shared value ---------------------------------------------------------------------- */

static void on_count(struct conclave_counter *counter, int64_t value, int error, void *ctx)
{
    ((struct starving *)ctx)->told = error == 0 ? (int)value : -1;
}

/* An addition counts once: ENOMEM of an addition says that it may have been. */
static int counter_scene(struct starving *s)
{
    static const struct conclave_counter_callbacks callbacks = {sizeof callbacks, on_count, NULL};
    struct conclave_counter_options options = CONCLAVE_COUNTER_OPTIONS_INIT;
    struct conclave_counter *counter = NULL;
    int64_t value = 0;
    int error;
    options.path = "/app/count";
    TWICE(error, conclave_counter_open(s->recipes, &options, &callbacks, s, &counter));
    MUST(s, error, "open");
    if (error != 0) {
        return error;
    }
    fake_zk_delete(s->zk, "/app/count");
    for (int i = 1; i <= 3; i++) {
        TWICE(error, conclave_counter_add(counter, 10, PATIENCE_MS, &value));
        settled(s, error, "add");
        CHECK(s, value == 10L * i, "counted another number of times");
    }
    TWICE(error, conclave_counter_compare_and_set(counter, 30, 7, PATIENCE_MS, &value));
    settled(s, error, "compare and set");
    TWICE(error, conclave_counter_get(counter, PATIENCE_MS, &value));
    settled(s, error, "get");
    CHECK(s, value == 7, "another value");
    AWAIT(s, s->told == 7, "not told");
    if (s->wrong == NULL) {
        CHECK(s, conclave_counter_close_wait(counter, PATIENCE_MS) == 0, "did not close");
        conclave_counter_destroy(counter);
    }
    return 0;
}

static void on_shared(struct conclave_shared *shared, const struct conclave_shared_value *value,
                      void *ctx)
{
    ((struct starving *)ctx)->told = value->data_len > 0 ? *(const char *)value->data : 0;
}

static int shared_scene(struct starving *s)
{
    static const struct conclave_shared_callbacks callbacks = {sizeof callbacks, on_shared, NULL};
    struct conclave_shared_options options = CONCLAVE_SHARED_OPTIONS_INIT;
    struct conclave_shared_value *value = NULL;
    struct conclave_shared *shared = NULL;
    int error;
    options.path = "/app/shared";
    TWICE(error, conclave_shared_open(s->recipes, &options, &callbacks, s, &shared));
    MUST(s, error, "open");
    if (error != 0) {
        return error;
    }
    for (int i = 0; i < 2 && s->wrong == NULL; i++) {
        TWICE(error, conclave_shared_get(shared, PATIENCE_MS, &value));
        settled(s, error, "get");
        int32_t version = error == 0 ? value->version : 0;
        if (error == 0) {
            conclave_shared_value_free(value);
        }
        TWICE(error,
              conclave_shared_set(shared, i == 0 ? "1" : "2", 1, version, PATIENCE_MS, NULL));
        settled(s, error, "set");
    }
    AWAIT(s, s->told == '2', "not told");
    if (s->wrong == NULL) {
        CHECK(s, conclave_shared_close_wait(shared, PATIENCE_MS) == 0, "did not close");
        conclave_shared_destroy(shared);
    }
    return 0;
}

/* --- registry -------------------------------------------------------------------------------------- */

static void on_instances(struct conclave_discovery *discovery,
                         const struct conclave_instance *const *instances, size_t count, bool stale,
                         void *ctx)
{
    ((struct starving *)ctx)->told = count == 0 ? 1 : instances[0]->enabled ? 2 : 3;
}

static size_t choose_first(const struct conclave_instance *const *instances, size_t count,
                           void *ctx)
{
    return 0;
}

static void look_at_instances(struct starving *s, struct conclave_discovery *discovery)
{
    struct conclave_instance *one = NULL;
    struct conclave_instance **list = NULL;
    char **names = NULL;
    size_t count = 0;
    int error;
    TWICE(error, conclave_discovery_pick(discovery, CONCLAVE_PICK_RANDOM, &one));
    settled(s, error, "pick");
    if (error == 0) {
        conclave_instance_free(one);
    }
    TWICE(error, conclave_discovery_choose(discovery, choose_first, NULL, &one));
    settled(s, error, "choose");
    if (error == 0) {
        conclave_instance_free(one);
    }
    TWICE(error, conclave_service_instance(s->recipes, "/app", "shop", "a", PATIENCE_MS, &one));
    settled(s, error, "ask for one");
    if (error == 0) {
        conclave_instance_free(one);
    }
    TWICE(error, conclave_service_names(s->recipes, "/app", PATIENCE_MS, &names, &count));
    settled(s, error, "names");
    if (error == 0) {
        CHECK(s, count == 1, "other names");
        conclave_service_names_free(names, count);
    }
    conclave_discovery_note_error(discovery, "a");
    TWICE(error, conclave_discovery_instances(discovery, PATIENCE_MS, &list, &count));
    settled(s, error, "list");
    if (error == 0) {
        CHECK(s, count == 1, "another list");
        conclave_instances_free(list, count);
    }
}

static void discovery_end(struct starving *s, struct conclave_discovery *discovery)
{
    if (discovery != NULL && s->wrong == NULL) {
        CHECK(s, conclave_discovery_close_wait(discovery, PATIENCE_MS) == 0, "did not close");
        conclave_discovery_destroy(discovery);
    }
}

static int registry_scene(struct starving *s)
{
    static const struct conclave_discovery_callbacks callbacks = {sizeof callbacks, on_instances,
                                                                  NULL};
    struct conclave_registration_options shop = CONCLAVE_REGISTRATION_OPTIONS_INIT;
    struct conclave_discovery_options find = CONCLAVE_DISCOVERY_OPTIONS_INIT;
    struct conclave_registration *registration = NULL;
    struct conclave_discovery *discovery = NULL;
    int error;
    shop.path = find.path = "/app";
    shop.name = find.name = "shop";
    shop.id = "a";
    shop.address = "here";
    shop.payload = "what it has";
    shop.uri_spec = "{scheme}://{address}";
    TWICE(error, conclave_registration_open(s->recipes, &shop, NULL, NULL, &registration));
    MUST(s, error, "open");
    if (error == 0) {
        TWICE(error, conclave_discovery_open(s->recipes, &find, &callbacks, s, &discovery));
        MUST(s, error, "look");
    }
    if (error == 0) {
        TWICE(error, conclave_registration_wait(registration, PATIENCE_MS));
        settled(s, error, "registered");
        AWAIT(s, s->told == 2, "not found");
        look_at_instances(s, discovery);
        TWICE(error, conclave_registration_update(registration, NULL, true));
        settled(s, error, "update");
        AWAIT(s, s->told == 3, "not found as it is");
    }
    if (registration != NULL && s->wrong == NULL) {
        CHECK(s, conclave_registration_close_wait(registration, PATIENCE_MS) == 0, "did not close");
        conclave_registration_destroy(registration);
    }
    if (discovery != NULL) {
        AWAIT(s, s->told == 1, "found when it had gone");
    }
    discovery_end(s, discovery);
    return error;
}

/* --- persistent nodes ------------------------------------------------------------------------------ */

static int node_open(struct starving *s, enum conclave_create_mode mode,
                     struct conclave_persistent_node **ret)
{
    struct conclave_persistent_node_options options = CONCLAVE_PERSISTENT_NODE_OPTIONS_INIT;
    options.path = "/app/node";
    options.data = "1";
    options.data_len = 1;
    options.mode = mode;
    options.ttl_ms = mode == CONCLAVE_PERSISTENT ? 60 : 0;
    return conclave_persistent_node_open(s->recipes, &options, NULL, NULL, ret);
}

static int node_scene(struct starving *s, enum conclave_create_mode mode)
{
    struct conclave_persistent_node *node = NULL;
    char path[256];
    char data[16];
    int error;
    TWICE(error, node_open(s, mode, &node));
    MUST(s, error, "open");
    if (error != 0) {
        return error;
    }
    TWICE(error, conclave_persistent_node_wait(node, PATIENCE_MS));
    settled(s, error, "there");
    TWICE(error, conclave_persistent_node_set_data(node, "2", 1));
    settled(s, error, "new data");
    TWICE(error, conclave_persistent_node_path(node, path, sizeof path));
    settled(s, error, "path");
    AWAIT(s, fake_zk_data(s->zk, path, data, sizeof data) && data[0] == '2', "other data");
    CHECK(s, conclave_persistent_node_close_wait(node, PATIENCE_MS) == 0, "did not close");
    conclave_persistent_node_destroy(node);
    CHECK(s, !fake_zk_exists(s->zk, path), "left");
    return 0;
}

static int named_scene(struct starving *s)
{
    return node_scene(s, CONCLAVE_EPHEMERAL_SEQUENTIAL);
}

static int ttl_scene(struct starving *s)
{
    return node_scene(s, CONCLAVE_PERSISTENT);
}

/* --- leases ------------------------------------------------------------------------------------------ */

static void lease_use(struct starving *s, struct conclave_lease *lease)
{
    struct conclave_lease_info info = CONCLAVE_LEASE_INFO_INIT;
    struct conclave_lease_entry **list = NULL;
    size_t count = 0;
    int error;
    TWICE(error, conclave_lease_acquire(lease, "/app/value", "1", 1, CONCLAVE_LEASE_RELEASE,
                                        PATIENCE_MS, NULL));
    settled(s, error, "acquire");
    TWICE(error, conclave_lease_attach(lease, "/old", PATIENCE_MS));
    settled(s, error, "attach");
    TWICE(error, conclave_lease_time_to_live(lease, PATIENCE_MS, &info));
    settled(s, error, "ask");
    TWICE(error, conclave_lease_enlist(lease, "/app/leases", "x", PATIENCE_MS));
    settled(s, error, "enlist");
    TWICE(error, conclave_lease_list(conclave_lease_client(lease), "/app/leases", PATIENCE_MS,
                                     &list, &count));
    settled(s, error, "list");
    if (error == 0) {
        CHECK(s, count == 1, "another list");
        conclave_lease_entries_free(list, count);
    }
    error = conclave_lease_release(lease, "/app/value", CONCLAVE_LEASE_RELEASE, PATIENCE_MS);
    if (error == CONCLAVE_ENOMEM) { /* it may be released, without memory for the answer */
        error = conclave_lease_release(lease, "/app/value", CONCLAVE_LEASE_RELEASE, PATIENCE_MS);
        error = error == CONCLAVE_ENOTOWNER ? 0 : error;
    }
    settled(s, error, "release");
}

static int lease_scene(struct starving *s)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_lease *lease = NULL;
    char id[CONCLAVE_LEASE_ID_MAX];
    int error;
    FED(s, fake_zk_create(s->zk, "/old", "x", 0));
    options.servers = fake_zk_address(s->zk, 1);
    TWICE(error, conclave_lease_grant(&options, 60000, PATIENCE_MS, NULL, NULL, &lease));
    MUST(s, error, "grant");
    if (error != 0) {
        FED(s, fake_zk_delete(s->zk, "/old"));
        return error;
    }
    conclave_lease_id(lease, id);
    lease_use(s, lease);
    TWICE(error, conclave_lease_keep_alive(&options, id, PATIENCE_MS, NULL));
    settled(s, error, "keep alive");
    error = conclave_lease_revoke(&options, id, PATIENCE_MS);
    if (error == CONCLAVE_ENOMEM) { /* it may be over */
        error = conclave_lease_revoke(&options, id, PATIENCE_MS);
        error = error == CONCLAVE_SESSION_EXPIRED ? 0 : error;
    }
    settled(s, error, "revoke");
    CHECK(s, conclave_lease_close(lease, CONCLAVE_LEASE_END_NOW, 1000) == 0, "did not close");
    CHECK(s, !fake_zk_exists(s->zk, "/old"), "an attached node was left");
    return 0;
}

/* --- partitioner --------------------------------------------------------------------------------------- */

static void on_part(struct conclave_partitioner *partitioner, const char *const *items,
                    size_t count, void *ctx)
{
    ((struct starving *)ctx)->told = (int)count;
}

static void on_part_release(struct conclave_partitioner *partitioner, int why,
                            int64_t stop_within_ms, void *ctx)
{
    ((struct starving *)ctx)->told = 0;
    if (conclave_partitioner_release(partitioner) != 0) {
        ((struct starving *)ctx)->told = -1;
    }
}

static int partitioner_open(struct starving *s, struct conclave_partitioner **ret)
{
    static const char *const items[] = {"x", "y"};
    struct conclave_partitioner_callbacks callbacks = CONCLAVE_PARTITIONER_CALLBACKS_INIT;
    struct conclave_partitioner_options options = CONCLAVE_PARTITIONER_OPTIONS_INIT;
    callbacks.on_acquired = on_part;
    callbacks.on_release = on_part_release;
    options.path = "/app/set";
    options.items = items;
    options.items_count = 2;
    options.id = "a";
    options.settle_ms = 5;
    return conclave_partitioner_open(s->recipes, &options, &callbacks, s, ret);
}

static int partitioner_scene(struct starving *s)
{
    struct conclave_partitioner *partitioner = NULL;
    int error;
    TWICE(error, partitioner_open(s, &partitioner));
    MUST(s, error, "open");
    if (error != 0) {
        return error;
    }
    TWICE(error, conclave_partitioner_wait(partitioner, PATIENCE_MS));
    settled(s, error, "acquired");
    AWAIT(s, s->told == 2, "not told");
    FED(s, fake_zk_create(s->zk, "/app/set/party/x-b", "", 0)); /* one more: a part is enough */
    AWAIT(s, s->told == 1, "not divided anew");
    FED(s, fake_zk_delete(s->zk, "/app/set/party/x-b"));
    AWAIT(s, s->told == 2, "not divided again");
    CHECK(s, conclave_partitioner_close_wait(partitioner, PATIENCE_MS) == 0, "did not close");
    conclave_partitioner_destroy(partitioner);
    return 0;
}

/* --- fences and tokens ------------------------------------------------------------------------------ */

/* The token of the holder of a lock, on a server that fences. */
static int64_t make_holder(struct starving *s)
{
    fake_zk_create(s->zk, "/app", "", 0);
    fake_zk_create(s->zk, "/app/l", "", 0);
    fake_zk_create(s->zk, "/app/l/x-n_0000000001", "", 1);
    fake_zk_create(s->zk, "/zookeeper", "", 0);
    fake_zk_create(s->zk, "/zookeeper/fence", "", 0);
    fake_zk_set_version(s->zk, "/zookeeper/fence", -1); /* only such a server makes them */
    return fake_zk_czxid(s->zk, "/app/l/x-n_0000000001");
}

static int fencing_scene(struct starving *s)
{
    struct conclave_fence_binding **list = NULL;
    size_t count = 0;
    struct conclave_token token;
    bool current = false;
    int error;
    FED(s, token.czxid = make_holder(s));
    TWICE(error, conclave_fence_bind(s->client, "/app/data", "/app/l", 0, PATIENCE_MS));
    settled(s, error, "bind");
    TWICE(error, conclave_fence_list(s->client, PATIENCE_MS, &list, &count));
    settled(s, error, "list");
    if (error == 0) {
        CHECK(s, count == 1, "another list");
        conclave_fence_list_free(list, count);
    }
    error = conclave_fence_unbind(s->client, "/app/data", PATIENCE_MS);
    if (error == CONCLAVE_ENOMEM) { /* it may be gone, without memory for the answer */
        error = conclave_fence_unbind(s->client, "/app/data", PATIENCE_MS);
        error = error == CONCLAVE_NO_NODE ? 0 : error;
    }
    settled(s, error, "unbind");
    TWICE(error, conclave_token_is_current(s->client, "/app/l", token, PATIENCE_MS, &current));
    settled(s, error, "ask");
    CHECK(s, current, "the newest token is not the newest");
    fake_zk_delete(s->zk, "/app/l/x-n_0000000001");
    return 0;
}

#define ALLOCATIONS(name, scene, at_least)                                                         \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        starving_sweep(scene, false, at_least);                                                    \
    }

ALLOCATIONS(every_allocation_of_a_group_fails_once, group_scene, 40)
ALLOCATIONS(every_allocation_of_a_value_fails_once, value_scene, 60)
ALLOCATIONS(every_allocation_of_a_tree_fails_once, tree_scene, 60)
ALLOCATIONS(every_allocation_of_a_counter_fails_once, counter_scene, 60)
ALLOCATIONS(every_allocation_of_a_shared_value_fails_once, shared_scene, 30)
ALLOCATIONS(every_allocation_of_the_registry_fails_once, registry_scene, 60)
ALLOCATIONS(every_allocation_of_a_sequential_node_fails_once, named_scene, 30)
ALLOCATIONS(every_allocation_of_a_node_with_a_ttl_fails_once, ttl_scene, 30)
ALLOCATIONS(every_allocation_of_a_lease_fails_once, lease_scene, 30)
ALLOCATIONS(every_allocation_of_a_partitioner_fails_once, partitioner_scene, 100)
ALLOCATIONS(every_allocation_of_fences_and_tokens_fails_once, fencing_scene, 20)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_a_group_fails_once),
        cmocka_unit_test(every_allocation_of_a_value_fails_once),
        cmocka_unit_test(every_allocation_of_a_tree_fails_once),
        cmocka_unit_test(every_allocation_of_a_counter_fails_once),
        cmocka_unit_test(every_allocation_of_a_shared_value_fails_once),
        cmocka_unit_test(every_allocation_of_the_registry_fails_once),
        cmocka_unit_test(every_allocation_of_a_sequential_node_fails_once),
        cmocka_unit_test(every_allocation_of_a_node_with_a_ttl_fails_once),
        cmocka_unit_test(every_allocation_of_a_lease_fails_once),
        cmocka_unit_test(every_allocation_of_a_partitioner_fails_once),
        cmocka_unit_test(every_allocation_of_fences_and_tokens_fails_once),
    };
    return RUN_TESTS(tests);
}
