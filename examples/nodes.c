/*
 * Reads and writes nodes with one call each: a small table of settings that several programs share.
 *
 *   cc nodes.c $(pkg-config --cflags --libs conclave)
 *   ./a.out /settings colour blue         # stores blue
 *   ./a.out /settings                     # prints every setting
 *
 * A setting is a node below the given one, which is created when it is missing. A setting that another program changed
 * between our read and our write is not overwritten: its version tells.
 */
#include <conclave/easy.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Creates a node that may exist already. */
static int ensure(struct conclave_client *client, const char *path, const char *value)
{
    int error = conclave_create(client, path, value, strlen(value), CONCLAVE_PERSISTENT, NULL);
    return error == CONCLAVE_NODE_EXISTS ? 0 : error;
}

static int store(struct conclave_client *client, const char *table, const char *name,
                 const char *value)
{
    char path[256];
    char *old = NULL;
    struct conclave_stat stat;
    snprintf(path, sizeof path, "%s/%s", table, name);
    int error = ensure(client, path, value);
    error = error == 0 ? conclave_get(client, path, &old, NULL, &stat) : error;
    if (error == 0 && strcmp(old, value) != 0) {
        error = conclave_set(client, path, value, strlen(value), stat.version, &stat);
    }
    if (error == 0) {
        printf("%s is %s, version %" PRId32 "\n", name, value, stat.version);
    }
    free(old);
    return error;
}

static int show(struct conclave_client *client, const char *table)
{
    char **names = NULL;
    size_t count = 0;
    int error = conclave_children(client, table, &names, &count);
    for (size_t i = 0; i < count && error == 0; i++) {
        char path[256];
        char *value = NULL;
        snprintf(path, sizeof path, "%s/%s", table, names[i]);
        error = conclave_get(client, path, &value, NULL, NULL);
        if (error == 0) {
            printf("%s is %s\n", names[i], value);
        }
        error = error == CONCLAVE_NO_NODE ? 0 : error; /* deleted since */
        free(value);
    }
    free(names);
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client = NULL;
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: nodes TABLE [NAME VALUE]\n");
        return 64;
    }
    options.request_timeout_ms = 20000;
    int error = conclave_client_open(&options, &client);
    error = error == 0 ? conclave_client_start(client) : error;
    error = error == 0 ? ensure(client, argv[1], "") : error;
    if (error == 0) {
        error = argc == 4 ? store(client, argv[1], argv[2], argv[3]) : show(client, argv[1]);
    }
    if (error != 0) {
        fprintf(stderr, "nodes: %s\n", conclave_strerror(error));
    }
    conclave_client_close(client, 2000);
    return error == 0 ? 0 : 1;
}
