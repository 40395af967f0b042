/* Configuration files of the gem redis_failover: what is read, and where each mistake is. */
#include "redis/command/gem_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool known(const char *name, bool *ret_flag)
{
    *ret_flag = strcmp(name, "allow-data-loss") == 0 || strcmp(name, "gem-layout") == 0;
    return *ret_flag || strcmp(name, "managers") == 0 || strcmp(name, "period") == 0;
}

/* The options in one line, the password behind them. */
static const char *read_as(const char *environment, const char *text)
{
    static char line[1024];
    struct gem_config config;
    char why[GEM_CONFIG_WHY] = "";
    size_t len = 0;
    if (!gem_config_read(text, strlen(text), environment, known, &config, why)) {
        assert_int_equal(config.count, 0);
        snprintf(line, sizeof line, "%s", why);
        return line;
    }
    line[0] = '\0';
    for (size_t i = 0; i < config.count; i++) {
        len += (size_t)snprintf(line + len, sizeof line - len, "%s%s", i > 0 ? " " : "",
                                config.options[i]);
    }
    if (config.password != NULL) {
        snprintf(line + len, sizeof line - len, " [%s]", config.password);
    }
    gem_config_finish(&config);
    return line;
}

static void the_keys_of_the_gem(void **state)
{
    assert_string_equal(read_as(NULL, "---\n:max_failures: 2\n:node_strategy: :majority\n"
                                      ":failover_strategy: latency\n:required_node_managers: 2\n"
                                      ":nodes:\n  - a:1\n  - {host: b, port: 2}\n  - :host: c\n"
                                      ":zkservers:\n  - z:2181\n  - y:2181\n:chroot: /x\n"
                                      ":password: s3cret\n"),
                        "--max-failures=2 --node-strategy=majority --failover-strategy=latency "
                        "--required-node-managers=2 --nodes=a:1,b:2,c --zkservers=z:2181,y:2181 "
                        "--with-chroot=/x --gem-layout [s3cret]");
    assert_string_equal(read_as(NULL, "nodes: a:1,b:2\nznode_path: /prod\npassword: ~\n"
                                      "managers: 3\nperiod: 500ms\nallow_data_loss: true\n"
                                      "gem_layout: false\n"),
                        "--nodes=a:1,b:2 --gem-path=/prod --znode-path=/prod/default --managers=3 "
                        "--period=500ms --allow-data-loss");
}

static void environments_and_merges(void **state)
{
    static const char text[] = "base: &base\n  max_failures: 3\n  nodes: [a:1]\n"
                               ":staging:\n  <<: *base\n  max_failures: 1\n"
                               "production:\n  <<: [{nodes: [p:1]}, *base]\n";
    assert_string_equal(read_as("staging", text), "--max-failures=1 --nodes=a:1 --gem-layout");
    assert_string_equal(read_as("production", text), "--nodes=p:1 --max-failures=3 --gem-layout");
    assert_string_equal(read_as("test", text), "line 1: there is no environment \"test\"");
    assert_string_equal(read_as(NULL, text),
                        "line 1: \"base\" is no key; for an environment of this "
                        "name, give --environment");
}

static void each_mistake_has_its_line(void **state)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"nodes: [a:1]\nnods: [b:2]\n", "line 2: \"nods\" is no key"},
        {"nodes: [a:1]\n\n:nodes: [b:2]\n", "line 3: this key is there twice"},
        {"nodes:\n  - a:1\n  - {host: b, name: x}\n",
         "line 3: a server has the keys host and port only"},
        {"nodes:\n  - a:1\n  - [b]\n", "line 3: a server is HOST:PORT, or a map of host and port"},
        {"nodes: []\n", "line 1: the list is empty"},
        {"nodes: {host: a}\n", "line 1: a list of servers is expected"},
        {"max_failures: [1]\n", "line 1: one value is expected"},
        {"allow_data_loss: 7\n", "line 1: allow-data-loss is true or false"},
        {"znode_path: /\n", "line 1: a path such as /redis_failover is expected"},
        {"password: [x]\n", "line 1: the password must be a text"},
        {"force: true\n", "line 1: force is for the command line only"},
        {"nodes: [a:1]\nx: [\n", "line 3: did not find expected node content"},
        {"a: *b\n", "line 1: found undefined alias"},
        {"&a <<: *a\n", "line 1: a map of keys and values is expected"},
        {"- a\n", "line 1: a map of keys and values is expected"},
        {"", "line 1: it is empty"},
        {"[x]: 1\n", "line 1: this key is no short text"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_string_equal(read_as(NULL, wrong[i].text), wrong[i].why);
    }
}

/* No file makes it work for long. */
static void size_depth_and_aliases_are_bounded(void **state)
{
    struct gem_config config;
    char why[GEM_CONFIG_WHY];
    char *text = malloc(GEM_CONFIG_SIZE_MAX + 2);
    assert_non_null(text);
    memset(text, ' ', GEM_CONFIG_SIZE_MAX + 1);
    assert_false(gem_config_read(text, GEM_CONFIG_SIZE_MAX + 1, NULL, known, &config, why));
    assert_string_equal(why, "it is larger than 65536 bytes");
    memset(text, '[', GEM_CONFIG_SIZE_MAX);
    assert_false(gem_config_read(text, GEM_CONFIG_SIZE_MAX, NULL, known, &config, why));
    assert_string_equal(why, "it has more than 2048 brackets");
    assert_string_equal(read_as(NULL, "&a\n<<: *a\n"), "line 1: too many merges");
    /* each map merges the one before twice */
    size_t len = (size_t)snprintf(text, GEM_CONFIG_SIZE_MAX, "a0: &a0 {managers: 1}\n");
    for (int i = 1; i < 8; i++) {
        len += (size_t)snprintf(text + len, GEM_CONFIG_SIZE_MAX - len, "a%d: &a%d {<<: [*a%d", i, i,
                                i - 1);
        for (int k = 0; k < 500; k++) {
            len += (size_t)snprintf(text + len, GEM_CONFIG_SIZE_MAX - len, ",*a%d", i - 1);
        }
        len += (size_t)snprintf(text + len, GEM_CONFIG_SIZE_MAX - len, "]}\n");
    }
    assert_true(len < GEM_CONFIG_SIZE_MAX);
    assert_false(gem_config_read(text, len, "a7", known, &config, why));
    assert_non_null(strstr(why, "too many merges"));
    free(text);
    assert_string_equal(read_as(NULL, "managers: \"1\\0\"\n"), "line 1: one value is expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_keys_of_the_gem),
        cmocka_unit_test(environments_and_merges),
        cmocka_unit_test(each_mistake_has_its_line),
        cmocka_unit_test(size_depth_and_aliases_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
