/* The registry: instances in Curator's JSON, registered, found, chosen. E05, E30, E35, E61, E89, E90. */
#include "support/candidate.h"

#include <conclave/registry.h>

#include <sys/wait.h>

#define BASE "/services"
#define SHOP BASE "/shop"

struct finder {
    struct candidate c;
    struct conclave_discovery *discovery;
    pthread_mutex_t lock;
    char seen[1024]; /* "id@address:port", "!" disabled, "?" at the end when stale */
    int closed;
    int after_end;
};

static void on_change(struct conclave_discovery *discovery,
                      const struct conclave_instance *const *instances, size_t count, bool stale,
                      void *ctx)
{
    struct finder *f = ctx;
    (void)pthread_mutex_lock(&f->lock);
    f->after_end += f->closed;
    f->seen[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(f->seen);
        (void)snprintf(f->seen + len, sizeof f->seen - len, "%s%s@%s:%d%s", i > 0 ? " " : "",
                       instances[i]->id, instances[i]->address, instances[i]->port,
                       instances[i]->enabled ? "" : "!");
    }
    (void)strcat(f->seen, stale ? "?" : "");
    (void)pthread_mutex_unlock(&f->lock);
}

static void on_closed(struct conclave_discovery *discovery, int why, void *ctx)
{
    struct finder *f = ctx;
    (void)pthread_mutex_lock(&f->lock);
    f->after_end += f->closed;
    f->closed++;
    (void)pthread_mutex_unlock(&f->lock);
}

static const struct conclave_discovery_callbacks callbacks = {sizeof callbacks, on_change,
                                                              on_closed};

static bool seen_is(struct finder *f, const char *text)
{
    (void)pthread_mutex_lock(&f->lock);
    bool same = strcmp(f->seen, text) == 0;
    (void)pthread_mutex_unlock(&f->lock);
    return same;
}

enum { DOWN_MS = 2000 };

static void finder_open_with(struct finder *f, struct fake_zk *zk, int endpoint, int64_t down_ms,
                             int down_errors)
{
    struct conclave_discovery_options options = CONCLAVE_DISCOVERY_OPTIONS_INIT;
    memset(f, 0, sizeof *f);
    (void)pthread_mutex_init(&f->lock, NULL);
    candidate_connect(&f->c, zk, endpoint, "finder");
    (void)strcpy(f->seen, "nothing told");
    options.path = BASE;
    options.name = "shop";
    options.down_ms = down_ms;
    options.down_errors = down_errors;
    assert_int_equal(conclave_discovery_open(f->c.recipes, &options, &callbacks, f, &f->discovery),
                     0);
}

static void finder_open(struct finder *f, struct fake_zk *zk, int endpoint)
{
    finder_open_with(f, zk, endpoint, DOWN_MS, 0);
}

static void finder_finish(struct finder *f)
{
    assert_int_equal(conclave_discovery_close_wait(f->discovery, PATIENCE_MS), 0);
    assert_int_equal(f->closed, 1);
    conclave_discovery_destroy(f->discovery);
    candidate_finish(&f->c);
    assert_int_equal(f->after_end, 0);
}

static struct conclave_registration_options options_of(const char *id, int port)
{
    struct conclave_registration_options options = CONCLAVE_REGISTRATION_OPTIONS_INIT;
    options.path = BASE;
    options.name = "shop";
    options.id = id;
    options.address = "host";
    options.port = port;
    return options;
}

static void shop_open(struct candidate *c, struct fake_zk *zk, int endpoint,
                      const struct conclave_registration_options *options,
                      struct conclave_registration **ret)
{
    candidate_connect(c, zk, endpoint, "shop");
    assert_int_equal(conclave_registration_open(c->recipes, options, NULL, NULL, ret), 0);
}

static void shop_close(struct candidate *c, struct conclave_registration *registration)
{
    assert_int_equal(conclave_registration_close_wait(registration, PATIENCE_MS), 0);
    conclave_registration_destroy(registration);
    candidate_finish(c);
}

/* --- the form ---------------------------------------------------------------------------- */

static void node_is_what_curator_writes(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    struct conclave_registration *registration;
    struct conclave_registration_options options = options_of("one", 8080);
    char data[1024];
    char head[256];
    options.ssl_port = 8443;
    options.payload = "a \"text\"\n\xc3\xa4";
    shop_open(&c, zk, 0, &options, &registration);
    assert_int_equal(conclave_registration_wait(registration, PATIENCE_MS), 0);
    assert_true(fake_zk_data(zk, SHOP "/one", data, sizeof data));
    (void)snprintf(head, sizeof head, "%s",
                   "{\"name\":\"shop\",\"id\":\"one\",\"address\":\"host\",\"port\":8080,"
                   "\"sslPort\":8443,\"payload\":\"a \\\"text\\\"\\n\xc3\xa4\","
                   "\"registrationTimeUTC\":");
    assert_memory_equal(data, head, strlen(head));
    assert_non_null(
        strstr(data, ",\"serviceType\":\"DYNAMIC\",\"uriSpec\":null,\"enabled\":true}"));
    assert_int_equal(conclave_registration_update(registration, NULL, true), 0);
    EVENTUALLY(fake_zk_version(zk, SHOP "/one") == 1);
    assert_true(fake_zk_data(zk, SHOP "/one", data, sizeof data));
    assert_non_null(strstr(data, "\"payload\":null"));
    assert_non_null(strstr(data, "\"enabled\":false"));
    shop_close(&c, registration);
    assert_false(fake_zk_exists(zk, SHOP "/one"));
}

static void ids_are_random_unless_given(void **state)
{
    struct candidate c;
    struct conclave_registration *registration;
    struct conclave_registration_options options = options_of(NULL, 1);
    char id[64];
    char path[128];
    shop_open(&c, *state, 0, &options, &registration);
    assert_int_equal(conclave_registration_wait(registration, PATIENCE_MS), 0);
    conclave_registration_id(registration, id, sizeof id);
    assert_int_equal(strlen(id), 36);
    (void)snprintf(path, sizeof path, SHOP "/%s", id);
    assert_true(fake_zk_exists(*state, path));
    shop_close(&c, registration);
}

static void what_is_no_instance_is_left_out(void **state)
{
    struct fake_zk *zk = *state;
    struct finder f;
    static const char *const bad[] = {"",
                                      "{",
                                      "[]",
                                      "null",
                                      "{\"name\":\"shop\"}",
                                      "{\"name\":1,\"id\":2}",
                                      "{\"name\":\"a\\u0000b\",\"id\":\"x\"}"};
    char path[64];
    fake_zk_create(zk, BASE, "", 0);
    fake_zk_create(zk, SHOP, "", 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(path, sizeof path, SHOP "/bad%zu", i);
        fake_zk_create(zk, path, bad[i], 0);
    }
    /* as Curator 2 and 5 write them, and one with no more than it needs */
    fake_zk_create(
        zk, SHOP "/new",
        "{\"name\":\"shop\",\"id\":\"new\",\"address\":\"10.0.0.1\",\"port\":1,\"sslPort\":"
        "null,\"payload\":{\"@class\":\"x.Y\",\"a\":[1]},\"registrationTimeUTC\":1700000000000,"
        "\"serviceType\":\"STATIC\",\"uriSpec\":{\"parts\":[{\"value\":\"http\",\"variable\":"
        "false}]},\"enabled\":false,\"later\":7}",
        0);
    fake_zk_create(zk, SHOP "/old", "{\"name\":\"shop\",\"id\":\"old\",\"port\":70000}", 0);
    finder_open(&f, zk, 0);
    EVENTUALLY(seen_is(&f, "new@10.0.0.1:1! old@:0"));
    struct conclave_instance **list;
    size_t count;
    assert_int_equal(conclave_discovery_instances(f.discovery, PATIENCE_MS, &list, &count), 0);
    assert_int_equal(count, 2);
    assert_string_equal(list[0]->payload, "{\"@class\":\"x.Y\",\"a\":[1]}");
    assert_int_equal(list[0]->registered_ms, 1700000000000);
    assert_string_equal(list[0]->type, "STATIC");
    assert_null(list[1]->payload);
    assert_true(list[1]->enabled);
    conclave_instances_free(list, count);
    finder_finish(&f);
}

static void uri_is(const struct conclave_instance *instance, const char *const *variables,
                   const char *wanted)
{
    char *uri;
    assert_int_equal(conclave_instance_uri(instance, variables, &uri), 0);
    assert_string_equal(uri, wanted);
    free(uri);
}

static void uri_is_built_of_fields(void **state)
{
    struct conclave_instance i = {.name = "shop",
                                  .id = "one",
                                  .address = "host",
                                  .port = 80,
                                  .registered_ms = 17,
                                  .type = "DYNAMIC"};
    static const char *const variables[] = {"port", "81", "path", "a/b", NULL};
    static const char *const bad[] = {"{", "}", "a{b", "a}b", "{a{b}}", "{a}}", "{{a}"};
    char *uri;
    assert_int_equal(conclave_instance_uri(&i, NULL, &uri), CONCLAVE_EEMPTY);
    i.uri_spec = "";
    uri_is(&i, NULL, "");
    i.uri_spec = "{scheme}://{ address }:{port}/{path}{}";
    uri_is(&i, NULL, "http://host:80/");
    uri_is(&i, variables, "http://host:81/a/b");
    i.ssl_port = 443;
    i.uri_spec = "{scheme}:{ssl-port} {name} {id} {service-type} {registration-time-utc} {[}x{]}";
    uri_is(&i, NULL, "https:443 shop one dynamic 17 {x}");
    for (size_t b = 0; b < sizeof bad / sizeof bad[0]; b++) {
        i.uri_spec = bad[b];
        assert_int_equal(conclave_instance_uri(&i, NULL, &uri), CONCLAVE_EINVAL);
    }
}

static void uri_spec_is_written_and_read_as_curator_does(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    struct finder f;
    struct conclave_registration *registration;
    struct conclave_registration_options options = options_of("one", 80);
    struct conclave_instance **list;
    size_t count;
    char data[1024];
    options.uri_spec = "{scheme}://{address}:{port}/{[}";
    shop_open(&c, zk, 0, &options, &registration);
    assert_int_equal(conclave_registration_wait(registration, PATIENCE_MS), 0);
    assert_true(fake_zk_data(zk, SHOP "/one", data, sizeof data));
    assert_non_null(strstr(
        data, ",\"uriSpec\":{\"parts\":[{\"value\":\"scheme\",\"variable\":true},{\"value\":"
              "\"://\",\"variable\":false},{\"value\":\"address\",\"variable\":true},{\"value\":"
              "\":\",\"variable\":false},{\"value\":\"port\",\"variable\":true},{\"value\":\"/\","
              "\"variable\":false},{\"value\":\"[\",\"variable\":true}]},\"enabled\":true}"));
    /* a part with braces that is no field, and parts that are none */
    fake_zk_create(zk, SHOP "/two",
                   "{\"name\":\"shop\",\"id\":\"two\",\"uriSpec\":{\"parts\":[{\"value\":\"a{b}\","
                   "\"variable\":false}]}}",
                   0);
    fake_zk_create(
        zk, SHOP "/zero",
        "{\"name\":\"shop\",\"id\":\"zero\",\"uriSpec\":{\"parts\":[{\"variable\":true}]}}", 0);
    finder_open(&f, zk, 1);
    EVENTUALLY(seen_is(&f, "one@host:80 two@:0 zero@:0"));
    assert_int_equal(conclave_discovery_instances(f.discovery, PATIENCE_MS, &list, &count), 0);
    assert_int_equal(count, 3);
    assert_string_equal(list[0]->uri_spec, options.uri_spec);
    uri_is(list[0], NULL, "http://host:80/{");
    assert_string_equal(list[1]->uri_spec, "a{[}b{]}");
    uri_is(list[1], NULL, "a{b}");
    assert_null(list[2]->uri_spec);
    conclave_instances_free(list, count);
    finder_finish(&f);
    shop_close(&c, registration);
}

static void wrong_options_are_refused(void **state)
{
    struct candidate c;
    struct conclave_registration *registration;
    struct conclave_discovery *discovery;
    static const char *const bad[] = {"", "a/b", "..", "a\nb"};
    candidate_connect(&c, *state, 0, "x");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct conclave_registration_options options = options_of(bad[i], 1);
        assert_int_equal(conclave_registration_open(c.recipes, &options, NULL, NULL, &registration),
                         CONCLAVE_EINVAL);
        options = options_of("a", 1);
        options.name = bad[i];
        assert_int_equal(conclave_registration_open(c.recipes, &options, NULL, NULL, &registration),
                         CONCLAVE_EINVAL);
        struct conclave_discovery_options find = CONCLAVE_DISCOVERY_OPTIONS_INIT;
        find.path = BASE;
        find.name = bad[i];
        assert_int_equal(conclave_discovery_open(c.recipes, &find, NULL, NULL, &discovery),
                         CONCLAVE_EINVAL);
    }
    struct conclave_registration_options options = options_of("a", 65536);
    assert_int_equal(conclave_registration_open(c.recipes, &options, NULL, NULL, &registration),
                     CONCLAVE_EINVAL);
    options = options_of("a", 1);
    options.uri_spec = "{port";
    assert_int_equal(conclave_registration_open(c.recipes, &options, NULL, NULL, &registration),
                     CONCLAVE_EINVAL);
    options.uri_spec = NULL;
    options.payload = "\xff";
    assert_int_equal(conclave_registration_open(c.recipes, &options, NULL, NULL, &registration),
                     CONCLAVE_EINVAL);
    candidate_finish(&c);
}

/* --- coming, going, choosing ------------------------------------------------------------------ */

static void instances_come_and_go(void **state)
{
    struct fake_zk *zk = *state;
    struct finder f;
    struct candidate c[2];
    struct conclave_registration *r[2];
    struct conclave_registration_options one = options_of("one", 1);
    struct conclave_registration_options two = options_of("two", 2);
    finder_open(&f, zk, 2);
    EVENTUALLY(seen_is(&f, ""));
    shop_open(&c[0], zk, 0, &one, &r[0]);
    shop_open(&c[1], zk, 1, &two, &r[1]);
    EVENTUALLY(seen_is(&f, "one@host:1 two@host:2"));
    assert_int_equal(conclave_registration_update(r[0], "busy", true), 0);
    EVENTUALLY(seen_is(&f, "one@host:1! two@host:2"));
    shop_close(&c[0], r[0]);
    EVENTUALLY(seen_is(&f, "two@host:2"));
    shop_close(&c[1], r[1]);
    EVENTUALLY(seen_is(&f, ""));
    finder_finish(&f);
}

static const char *pick(struct finder *f, enum conclave_pick how)
{
    static char id[64];
    struct conclave_instance *instance;
    int error = conclave_discovery_pick(f->discovery, how, &instance);
    if (error != 0) {
        return conclave_errname(error);
    }
    (void)snprintf(id, sizeof id, "%s", instance->id);
    conclave_instance_free(instance);
    return id;
}

/* Whether that one is among those to be chosen. */
static bool may_pick(struct finder *f, const char *id)
{
    for (int i = 0; i < 50; i++) {
        if (strcmp(pick(f, CONCLAVE_PICK_RANDOM), id) == 0) {
            return true;
        }
    }
    return false;
}

static void enabled_ones_take_turns(void **state)
{
    struct fake_zk *zk = *state;
    struct finder f;
    fake_zk_create(zk, BASE, "", 0);
    fake_zk_create(zk, SHOP, "", 0);
    finder_open(&f, zk, 0);
    EVENTUALLY(seen_is(&f, ""));
    assert_string_equal(pick(&f, CONCLAVE_PICK_RANDOM), "EEMPTY");
    fake_zk_create(zk, SHOP "/a", "{\"name\":\"shop\",\"id\":\"a\"}", 0);
    fake_zk_create(zk, SHOP "/b", "{\"name\":\"shop\",\"id\":\"b\",\"enabled\":false}", 0);
    fake_zk_create(zk, SHOP "/c", "{\"name\":\"shop\",\"id\":\"c\"}", 0);
    EVENTUALLY(seen_is(&f, "a@:0 b@:0! c@:0"));
    for (int i = 0; i < 3; i++) {
        char first[64];
        (void)snprintf(first, sizeof first, "%s", pick(&f, CONCLAVE_PICK_ROUND_ROBIN));
        assert_string_not_equal(first, pick(&f, CONCLAVE_PICK_ROUND_ROBIN));
    }
    bool seen_a = false;
    bool seen_c = false;
    for (int i = 0; i < 200; i++) {
        const char *id = pick(&f, CONCLAVE_PICK_RANDOM);
        assert_string_not_equal(id, "b");
        seen_a = seen_a || strcmp(id, "a") == 0;
        seen_c = seen_c || strcmp(id, "c") == 0;
    }
    assert_true(seen_a && seen_c);

    conclave_discovery_note_error(f.discovery, "a");
    for (int i = 0; i < 20; i++) {
        assert_string_equal(pick(&f, CONCLAVE_PICK_RANDOM), "c");
    }
    conclave_discovery_note_error(f.discovery, "c"); /* nobody else: better than none */
    assert_string_not_equal(pick(&f, CONCLAVE_PICK_RANDOM), "EEMPTY");
    sleep_ms(DOWN_MS + 50); /* down_ms is over */
    assert_true(may_pick(&f, "a") && may_pick(&f, "c"));
    finder_finish(&f);
}

static void an_instance_can_be_left_out_for_ever(void **state)
{
    struct fake_zk *zk = *state;
    struct finder f;
    fake_zk_create(zk, BASE, "", 0);
    fake_zk_create(zk, SHOP, "", 0);
    fake_zk_create(zk, SHOP "/a", "{\"name\":\"shop\",\"id\":\"a\"}", 0);
    fake_zk_create(zk, SHOP "/b", "{\"name\":\"shop\",\"id\":\"b\"}", 0);
    finder_open_with(&f, zk, 0, INT64_MAX, 1);
    EVENTUALLY(seen_is(&f, "a@:0 b@:0"));
    conclave_discovery_note_error(f.discovery, "a");
    for (int i = 0; i < 30; i++) {
        assert_string_equal(pick(&f, CONCLAVE_PICK_RANDOM), "b");
    }
    finder_finish(&f);
}

static void sticky_pick_stays_until_its_instance_goes(void **state)
{
    struct fake_zk *zk = *state;
    struct finder f;
    char path[64];
    char first[64];
    fake_zk_create(zk, BASE, "", 0);
    fake_zk_create(zk, SHOP, "", 0);
    fake_zk_create(zk, SHOP "/a", "{\"name\":\"shop\",\"id\":\"a\"}", 0);
    fake_zk_create(zk, SHOP "/b", "{\"name\":\"shop\",\"id\":\"b\"}", 0);
    finder_open(&f, zk, 0);
    EVENTUALLY(seen_is(&f, "a@:0 b@:0"));
    (void)strcpy(first, pick(&f, CONCLAVE_PICK_STICKY));
    for (int i = 0; i < 30; i++) {
        assert_string_equal(pick(&f, CONCLAVE_PICK_STICKY), first);
    }
    conclave_discovery_note_error(f.discovery, first); /* it cannot be chosen now */
    const char *other = strcmp(first, "a") == 0 ? "b" : "a";
    assert_string_equal(pick(&f, CONCLAVE_PICK_STICKY), other);
    sleep_ms(DOWN_MS + 50); /* down_ms is over: it stays with the other all the same */
    assert_string_equal(pick(&f, CONCLAVE_PICK_STICKY), other);
    (void)snprintf(path, sizeof path, SHOP "/%s", other);
    fake_zk_delete(zk, path);
    EVENTUALLY(strcmp(pick(&f, CONCLAVE_PICK_STICKY), first) == 0);
    finder_finish(&f);
}

static size_t choose_highest_port(const struct conclave_instance *const *instances, size_t count,
                                  void *ctx)
{
    size_t best = 0;
    for (size_t i = 0; i < count; i++) {
        best = instances[i]->port > instances[best]->port ? i : best;
    }
    return *(bool *)ctx ? best : count;
}

static void program_chooses(void **state)
{
    struct fake_zk *zk = *state;
    struct finder f;
    struct conclave_instance *chosen;
    bool any = true;
    fake_zk_create(zk, BASE, "", 0);
    fake_zk_create(zk, SHOP, "", 0);
    finder_open(&f, zk, 0);
    EVENTUALLY(seen_is(&f, ""));
    assert_int_equal(conclave_discovery_choose(f.discovery, choose_highest_port, &any, &chosen),
                     CONCLAVE_EEMPTY);
    fake_zk_create(zk, SHOP "/a", "{\"name\":\"shop\",\"id\":\"a\",\"port\":1}", 0);
    fake_zk_create(zk, SHOP "/b", "{\"name\":\"shop\",\"id\":\"b\",\"port\":9,\"enabled\":false}",
                   0);
    fake_zk_create(zk, SHOP "/c", "{\"name\":\"shop\",\"id\":\"c\",\"port\":3}", 0);
    EVENTUALLY(seen_is(&f, "a@:1 b@:9! c@:3"));
    assert_int_equal(conclave_discovery_choose(f.discovery, choose_highest_port, &any, &chosen), 0);
    assert_string_equal(chosen->id, "c");
    assert_int_equal(chosen->token.czxid, fake_zk_czxid(zk, SHOP "/c"));
    conclave_instance_free(chosen);
    any = false;
    assert_int_equal(conclave_discovery_choose(f.discovery, choose_highest_port, &any, &chosen),
                     CONCLAVE_EEMPTY);
    finder_finish(&f);
}

static void errors_count_up_to_the_threshold(void **state)
{
    struct fake_zk *zk = *state;
    struct finder f;
    fake_zk_create(zk, BASE, "", 0);
    fake_zk_create(zk, SHOP, "", 0);
    fake_zk_create(zk, SHOP "/a", "{\"name\":\"shop\",\"id\":\"a\"}", 0);
    fake_zk_create(zk, SHOP "/b", "{\"name\":\"shop\",\"id\":\"b\"}", 0);
    finder_open_with(&f, zk, 0, 60000, 3);
    EVENTUALLY(seen_is(&f, "a@:0 b@:0"));
    conclave_discovery_note_error(f.discovery, "a");
    conclave_discovery_note_error(f.discovery, "a");
    assert_true(may_pick(&f, "a"));
    conclave_discovery_note_error(f.discovery, "a");
    for (int i = 0; i < 30; i++) {
        assert_string_equal(pick(&f, CONCLAVE_PICK_RANDOM), "b");
    }
    finder_finish(&f);
    finder_open_with(&f, zk, 0, 30, 2); /* the first error has passed before the second */
    EVENTUALLY(seen_is(&f, "a@:0 b@:0"));
    conclave_discovery_note_error(f.discovery, "a");
    sleep_ms(50);
    conclave_discovery_note_error(f.discovery, "a");
    assert_true(may_pick(&f, "a"));
    finder_finish(&f);
}

static void lasting_instances_stay_when_their_program_dies(void **state)
{
    struct fake_zk *zk = *state;
    static const char *const types[] = {"DYNAMIC", "STATIC", "PERMANENT"};
    for (int type = CONCLAVE_INSTANCE_STATIC; type <= CONCLAVE_INSTANCE_PERMANENT; type++) {
        for (int keep = 0; keep < 2; keep++) {
            struct candidate c;
            struct conclave_registration *registration;
            struct conclave_registration_options options = options_of("one", 1);
            char data[1024];
            options.type = type;
            options.keep = keep == 1;
            shop_open(&c, zk, 0, &options, &registration);
            assert_int_equal(conclave_registration_wait(registration, PATIENCE_MS), 0);
            EVENTUALLY(fake_zk_data(zk, SHOP "/one", data, sizeof data) &&
                       strstr(data, types[type]) != NULL);
            assert_int_equal(fake_zk_owner(zk, SHOP "/one"), 0);
            int64_t first = fake_zk_czxid(zk, SHOP "/one");
            fake_zk_expire(zk, 0);
            EVENTUALLY(fake_zk_sessions(zk) == 1);
            assert_int_equal(conclave_registration_wait(registration, PATIENCE_MS), 0);
            assert_int_equal(fake_zk_czxid(zk, SHOP "/one"), first);
            shop_close(&c, registration);
            assert_int_equal(fake_zk_exists(zk, SHOP "/one"), keep == 1);
        }
    }
}

static void names_and_one_instance_are_asked_for(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    struct conclave_instance *one;
    char **names;
    size_t count;
    candidate_connect(&c, zk, 0, "asks");
    assert_int_equal(conclave_service_names(c.recipes, BASE, PATIENCE_MS, &names, &count), 0);
    assert_int_equal(count, 0);
    conclave_service_names_free(names, count);
    fake_zk_create(zk, BASE, "", 0);
    fake_zk_create(zk, SHOP, "", 0);
    fake_zk_create(zk, BASE "/bank", "", 0);
    fake_zk_create(zk, SHOP "/a", "{\"name\":\"shop\",\"id\":\"a\",\"port\":7}", 0);
    fake_zk_create(zk, SHOP "/b", "no instance", 0);
    assert_int_equal(conclave_service_names(c.recipes, BASE, PATIENCE_MS, &names, &count), 0);
    assert_int_equal(count, 2);
    assert_string_equal(names[0], "bank");
    assert_string_equal(names[1], "shop");
    conclave_service_names_free(names, count);
#define ASK(name, id) conclave_service_instance(c.recipes, BASE, name, id, PATIENCE_MS, &one)
    assert_int_equal(ASK("shop", "a"), 0);
    assert_string_equal(one->id, "a");
    assert_int_equal(one->port, 7);
    assert_int_equal(one->token.czxid, fake_zk_czxid(zk, SHOP "/a"));
    conclave_instance_free(one);
    assert_int_equal(ASK("shop", "b"), CONCLAVE_ECORRUPT);
    assert_int_equal(ASK("shop", "c"), CONCLAVE_NO_NODE);
    assert_int_equal(ASK("shop", "a/b"), CONCLAVE_EINVAL);
    assert_int_equal(ASK("", "a"), CONCLAVE_EINVAL);
    assert_int_equal(ASK("shop", ".."), CONCLAVE_EINVAL);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    assert_int_equal(conclave_service_names(c.recipes, BASE, 50, &names, &count),
                     CONCLAVE_ETIMEDOUT);
    candidate_finish(&c);
}

static void E90_outage_leaves_the_cache(void **state)
{
    struct fake_zk *zk = *state;
    struct finder f;
    fake_zk_create(zk, BASE, "", 0);
    fake_zk_create(zk, SHOP, "", 0);
    fake_zk_create(zk, SHOP "/a", "{\"name\":\"shop\",\"id\":\"a\"}", 0);
    finder_open(&f, zk, 0);
    EVENTUALLY(seen_is(&f, "a@:0"));
    fake_zk_link(zk, 0, FAKE_REFUSE);
    EVENTUALLY(seen_is(&f, "a@:0?"));
    sleep_ms(EXPIRY_SESSION_MS + 100);
    assert_string_equal(pick(&f, CONCLAVE_PICK_RANDOM), "a");
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(seen_is(&f, "a@:0"));
    finder_finish(&f);
}

static void E05_node_of_my_last_session_is_replaced(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    struct conclave_registration *registration;
    struct conclave_registration_options options = options_of("one", 1);
    char data[1024];
    shop_open(&c, zk, 0, &options, &registration);
    assert_int_equal(conclave_registration_wait(registration, PATIENCE_MS), 0);
    assert_true(fake_zk_data(zk, SHOP "/one", data, sizeof data));
    int64_t session = candidate_session(&c);
    fake_zk_link(zk, 0, FAKE_REFUSE);
    fake_zk_expire(zk, session);
    assert_false(fake_zk_exists(zk, SHOP "/one"));
    fake_zk_create(zk, SHOP "/one", data, session); /* still to be seen, as on a server that lags */
    fake_zk_link(zk, 0, FAKE_UP);
    EVENTUALLY(candidate_session(&c) != session &&
               fake_zk_owner(zk, SHOP "/one") == candidate_session(&c));
    assert_int_equal(fake_zk_count(zk, 0, WIRE_MULTI), 1);
    shop_close(&c, registration);
}

static void E89_an_id_in_use_is_a_conflict(void **state)
{
    struct fake_zk *zk = *state;
    struct candidate c;
    struct conclave_registration *registration;
    struct conclave_registration_options options = options_of("one", 1);
    fake_zk_create(zk, BASE, "", 0);
    fake_zk_create(zk, SHOP, "", 0);
    fake_zk_create(zk, SHOP "/one", "{\"name\":\"shop\",\"id\":\"one\"}", 0x99);
    int64_t first = fake_zk_czxid(zk, SHOP "/one");
    shop_open(&c, zk, 0, &options, &registration);
    assert_int_equal(conclave_registration_wait(registration, 100), CONCLAVE_ECONFLICT);
    assert_int_equal(fake_zk_czxid(zk, SHOP "/one"), first);
    fake_zk_delete(zk, SHOP "/one");
    assert_int_equal(conclave_registration_wait(registration, PATIENCE_MS), 0);
    shop_close(&c, registration);
}

static void E35_close_at_every_request_leaves_nothing(void **state)
{
    struct fake_zk *zk = *state;
    static const enum fake_action actions[] = {FAKE_CUT_BEFORE, FAKE_DROP_REPLY, FAKE_EXPIRE_AFTER};
    for (int step = 1; step <= 6; step++) {
        for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
            struct candidate c;
            struct conclave_registration *registration;
            struct conclave_registration_options options = options_of("one", 1);
            hook(zk, 0, FAKE_ANY_OP, NULL, step, actions[i]);
            shop_open(&c, zk, 0, &options, &registration);
            sleep_ms(step); /* anywhere */
            shop_close(&c, registration);
            EVENTUALLY(fake_zk_ephemerals(zk) == 0);
            fake_zk_hooks_clear(zk);
        }
    }
}

static void E61_a_child_of_fork_may_not_use_it(void **state)
{
    struct finder f;
    int status;
    finder_open(&f, *state, 0);
    EVENTUALLY(seen_is(&f, ""));
    pid_t pid = fork();
    if (pid == 0) {
        struct conclave_instance *instance;
        _exit(conclave_discovery_pick(f.discovery, CONCLAVE_PICK_RANDOM, &instance) ==
                      CONCLAVE_EFORK
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    finder_finish(&f);
}

static void in_a_loop_without_threads(void **state)
{
    struct fake_zk *zk = *state;
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_discovery_options find = CONCLAVE_DISCOVERY_OPTIONS_INIT;
    struct conclave_registration_options shop = options_of("one", 1);
    struct conclave_registration *registration;
    struct finder f;
    memset(&f, 0, sizeof f);
    (void)pthread_mutex_init(&f.lock, NULL);
    options.servers = fake_zk_address(zk, 0);
    find.path = BASE;
    find.name = "shop";
    assert_int_equal(conclave_client_open(&options, &f.c.client), 0);
    assert_int_equal(conclave_recipes_open(f.c.client, &f.c.recipes), 0);
    assert_int_equal(conclave_registration_open(f.c.recipes, &shop, NULL, NULL, &registration), 0);
    assert_int_equal(conclave_discovery_open(f.c.recipes, &find, &callbacks, &f, &f.discovery), 0);
    for (int i = 0; i < PATIENCE_MS && !seen_is(&f, "one@host:1"); i++) {
        (void)conclave_client_dispatch(f.c.client);
        sleep_ms(1);
    }
    assert_true(seen_is(&f, "one@host:1"));
    assert_int_equal(conclave_registration_close_wait(registration, PATIENCE_MS), 0);
    assert_int_equal(conclave_discovery_close_wait(f.discovery, PATIENCE_MS), 0);
    conclave_registration_destroy(registration);
    conclave_discovery_destroy(f.discovery);
    conclave_recipes_destroy(f.c.recipes);
    conclave_client_close(f.c.client, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(node_is_what_curator_writes),
        E_TEST(ids_are_random_unless_given),
        E_TEST(what_is_no_instance_is_left_out),
        E_TEST(uri_is_built_of_fields),
        E_TEST(uri_spec_is_written_and_read_as_curator_does),
        E_TEST(wrong_options_are_refused),
        E_TEST(instances_come_and_go),
        E_TEST(enabled_ones_take_turns),
        E_TEST(an_instance_can_be_left_out_for_ever),
        E_TEST(sticky_pick_stays_until_its_instance_goes),
        E_TEST(program_chooses),
        E_TEST(errors_count_up_to_the_threshold),
        E_TEST(lasting_instances_stay_when_their_program_dies),
        E_TEST(names_and_one_instance_are_asked_for),
        EXPIRY_TEST(E90_outage_leaves_the_cache),
        E_TEST(E05_node_of_my_last_session_is_replaced),
        E_TEST(E89_an_id_in_use_is_a_conflict),
        E_TEST(E35_close_at_every_request_leaves_nothing),
        E_TEST(E61_a_child_of_fork_may_not_use_it),
        E_TEST(in_a_loop_without_threads),
    };
    return RUN_TESTS(tests);
}
