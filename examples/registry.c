/*
 * A whole program that registers an instance of a service, as Curator's service discovery does, and tells
 * which one it would use each time the instances change.
 *
 *     cc registry.c -o registry $(pkg-config --cflags --libs conclave)
 *     ./registry /services shop 8080 127.0.0.1:2181
 *
 * With "static" as the last word, the instance stays when the program is killed.
 */
#include <conclave/registry.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static void on_registered(struct conclave_registration *registration, bool registered, void *ctx)
{
    (void)registration;
    (void)ctx;
    printf("%s\n", registered ? "registered" : "not registered");
}

static void on_change(struct conclave_discovery *discovery,
                      const struct conclave_instance *const *instances, size_t count, bool stale,
                      void *ctx)
{
    struct conclave_instance *chosen;
    (void)ctx;
    printf("%zu instances%s:", count, stale ? ", as was known last" : "");
    for (size_t i = 0; i < count; i++) {
        printf(" %s:%d", instances[i]->address, instances[i]->port);
    }
    if (conclave_discovery_pick(discovery, CONCLAVE_PICK_RANDOM, &chosen) == 0) {
        char *uri = NULL; /* one that registered without a form for it has none */
        bool has_uri = conclave_instance_uri(chosen, NULL, &uri) == 0;
        printf("; use %s:%d%s%s", chosen->address, chosen->port, has_uri ? ", " : "",
               has_uri ? uri : "");
        free(uri);
        conclave_instance_free(chosen);
    }
    printf("\n");
}

static void list_services(struct conclave_recipes *recipes, const char *path)
{
    char **names;
    size_t count;
    if (conclave_service_names(recipes, path, 5000, &names, &count) == 0) {
        printf("services:");
        for (size_t i = 0; i < count; i++) {
            printf(" %s", names[i]);
        }
        printf("\n");
        conclave_service_names_free(names, count);
    }
}

static int run(struct conclave_recipes *recipes, int argc, char **argv)
{
    static const struct conclave_registration_callbacks registering = {sizeof registering,
                                                                       on_registered, NULL};
    static const struct conclave_discovery_callbacks discovering = {sizeof discovering, on_change,
                                                                    NULL};
    struct conclave_registration_options instance = CONCLAVE_REGISTRATION_OPTIONS_INIT;
    struct conclave_discovery_options service = CONCLAVE_DISCOVERY_OPTIONS_INIT;
    struct conclave_registration *registration;
    struct conclave_discovery *discovery;
    instance.path = service.path = argv[1];
    instance.name = service.name = argv[2];
    instance.address = "127.0.0.1";
    instance.port = (int)strtol(argv[3], NULL, 10);
    instance.type = argc == 6 ? CONCLAVE_INSTANCE_STATIC : CONCLAVE_INSTANCE_DYNAMIC;
    instance.id = argc == 6 ? argv[3] : NULL; /* the same one after a restart */
    instance.uri_spec = "{scheme}://{address}:{port}/{name}";
    int error = conclave_discovery_open(recipes, &service, &discovering, NULL, &discovery);
    if (error != 0) {
        return error;
    }
    error = conclave_registration_open(recipes, &instance, &registering, NULL, &registration);
    if (error != 0) {
        return error;
    }
    if (conclave_registration_wait(registration, 5000) == 0) {
        list_services(recipes, argv[1]);
    }
    while (stopping == 0) {
        (void)sleep(1);
    }
    error = conclave_registration_close_wait(registration, 5000);
    if (error == 0) {
        conclave_registration_destroy(registration);
        error = conclave_discovery_close_wait(discovery, 5000);
    }
    if (error == 0) {
        conclave_discovery_destroy(discovery);
    }
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    if (argc < 4 || argc > 6 || (argc == 6 && strcmp(argv[5], "static") != 0)) {
        fprintf(stderr, "usage: registry PATH SERVICE PORT [HOST:PORT,... [static]]\n");
        return 64;
    }
    options.servers = argc >= 5 ? argv[4] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0 &&
        (error = run(recipes, argc, argv)) == 0) {
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
        return 0;
    }
    fprintf(stderr, "registry: %s\n", conclave_strerror(error));
    return 1; /* the session ends by itself: the process does */
}
