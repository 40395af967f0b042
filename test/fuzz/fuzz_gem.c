/*
 * The YAML files of the Ruby gem redis_failover that `conclave redis-failover --config` reads. The first byte of the input
 * chooses whether an environment is given.
 * What must hold: no harm; an accepted file gives options of the form --name or --name=value, a refused one says why and
 * gives none.
 */
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "redis/command/gem_config.h"

#include <string.h>

/* libyaml takes an allocation or more for each token, and gathers them in arrays that double. */
const struct cost_bound fuzz_bound = {
    .cpu_us = 50000,
    .cpu_ns_per_byte = 20000,
    .alloc_bytes = 1 << 20,
    .alloc_per_byte = 1000,
};

static bool known(const char *name, bool *ret_flag)
{
    *ret_flag = strcmp(name, "allow-data-loss") == 0 || strcmp(name, "gem-layout") == 0;
    return *ret_flag || strcmp(name, "managers") == 0 || strcmp(name, "period") == 0;
}

void fuzz_input(const uint8_t *data, size_t size)
{
    struct input in = input_make((struct slice){data, size});
    const char *environment = take(&in) % 2 == 0 ? NULL : "production";
    struct slice text = take_rest(&in);
    struct gem_config config;
    char why[GEM_CONFIG_WHY] = "";
    bool good = gem_config_read(text.len > 0 ? text.data : (const void *)"", text.len, environment,
                                known, &config, why);
    must(config.count <= GEM_CONFIG_OPTIONS);
    must(good || (config.count == 0 && config.password == NULL && why[0] != '\0'));
    for (size_t i = 0; i < config.count; i++) {
        must(strncmp(config.options[i], "--", 2) == 0 && config.options[i][2] != '\0');
    }
    gem_config_finish(&config);
}
