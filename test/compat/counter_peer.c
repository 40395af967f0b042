/* Ours beside other programs' counters: counter_peer text|binary|count HOST:PORT PATH TIMES adds 1 so often.
 * text, binary: conclave_counter; count: the four bytes of Curator's SharedCount by conclave_shared. */
#include <conclave/client.h>
#include <conclave/counter.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATIENCE_MS = 60000 };

static int count_by_counter(struct conclave_recipes *recipes, enum conclave_counter_form form,
                            const char *path, long times)
{
    struct conclave_counter_options options = CONCLAVE_COUNTER_OPTIONS_INIT;
    struct conclave_counter *counter;
    int64_t value;
    options.path = path;
    options.form = form;
    int error = conclave_counter_open(recipes, &options, NULL, NULL, &counter);
    if (error != 0) {
        return error;
    }
    for (; times > 0 && error == 0; times--) {
        error = conclave_counter_add(counter, 1, PATIENCE_MS, &value);
    }
    (void)conclave_counter_close_wait(counter, PATIENCE_MS);
    conclave_counter_destroy(counter);
    return error;
}

/* A node that is not there yet counts as 0. */
static int add_one(struct conclave_shared *shared)
{
    struct conclave_shared_value *value;
    uint32_t number = 0;
    int error = conclave_shared_get(shared, PATIENCE_MS, &value);
    if (error != 0) {
        return error;
    }
    const uint8_t *bytes = value->data;
    for (size_t i = 0; i < 4 && value->data_len == 4; i++) {
        number = number << 8 | bytes[i];
    }
    number++;
    const uint8_t data[4] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16),
                             (uint8_t)(number >> 8), (uint8_t)number};
    error = conclave_shared_set(shared, data, sizeof data, value->version, PATIENCE_MS, NULL);
    conclave_shared_value_free(value);
    return error;
}

static int count_by_shared(struct conclave_recipes *recipes, const char *path, long times)
{
    struct conclave_shared_options options = CONCLAVE_SHARED_OPTIONS_INIT;
    struct conclave_shared *shared;
    options.path = path;
    int error = conclave_shared_open(recipes, &options, NULL, NULL, &shared);
    if (error != 0) {
        return error;
    }
    while (times > 0 && error == 0) {
        error = add_one(shared);
        if (error == 0) {
            times--;
        } else if (error == CONCLAVE_BAD_VERSION || error == CONCLAVE_NODE_EXISTS ||
                   error == CONCLAVE_NO_NODE) {
            error = 0; /* another was faster */
        }
    }
    (void)conclave_shared_close_wait(shared, PATIENCE_MS);
    conclave_shared_destroy(shared);
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    if (argc != 5) {
        return 64;
    }
    long times = strtol(argv[4], NULL, 10);
    options.servers = argv[2];
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0) {
        error = strcmp(argv[1], "count") == 0 ? count_by_shared(recipes, argv[3], times)
                : strcmp(argv[1], "text") == 0
                    ? count_by_counter(recipes, CONCLAVE_COUNTER_TEXT, argv[3], times)
                    : count_by_counter(recipes, CONCLAVE_COUNTER_BINARY, argv[3], times);
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
    }
    if (error != 0) {
        fprintf(stderr, "counter_peer: %s\n", conclave_strerror(error));
    }
    return error == 0 ? 0 : 1;
}
