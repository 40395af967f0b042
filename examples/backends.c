/*
 * A whole program for a gateway: writes the addresses of the live members of a group to a file, one on a line, and
 * has a command reload the gateway when they change. Backends join with
 * "conclave group join /demo/backends --data 10.0.0.1:8080 -- my-server".
 *
 *     cc backends.c -o backends $(pkg-config --cflags --libs conclave)
 *     ./backends /demo/backends /etc/gateway/backends.txt "gateway reload" 127.0.0.1:2181
 *
 * The file is replaced as a whole, by renaming, so that the gateway never reads half of it. While the ensemble is
 * away it stays as it is: an outage of the ensemble takes no backend away.
 */
#include <conclave/group.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

struct gateway {
    const char *file;
    const char *reload; /* "": none */
};

/* 0, or -1 when the file could not be written; then the old one stays. */
static int file_write(const char *file, const struct conclave_group_view *view)
{
    char temporary[4096];
    (void)snprintf(temporary, sizeof temporary, "%s.new", file);
    FILE *out = fopen(temporary, "w");
    if (out == NULL) {
        return -1;
    }
    for (size_t i = 0; i < view->count; i++) {
        const struct conclave_member *member = view->members[i];
        (void)fprintf(out, "%.*s\n", (int)member->data_len, (const char *)member->data);
    }
    int failed = fflush(out) != 0 || fsync(fileno(out)) != 0;
    failed = fclose(out) != 0 || failed;
    return failed || rename(temporary, file) != 0 ? -1 : 0;
}

static void on_view(struct conclave_group *group, const struct conclave_group_view *view, void *ctx)
{
    const struct gateway *gateway = ctx;
    (void)group;
    if (view->stale) {
        printf("the ensemble is away: %zu backends stay\n", view->count);
        return;
    }
    if (file_write(gateway->file, view) != 0) {
        perror(gateway->file);
        return;
    }
    /* the command is the operator's own: it may use what a shell has */
    int code = gateway->reload[0] == '\0' ? 0 : system(gateway->reload);
    printf("%zu backends%s\n", view->count, code == 0 ? "" : ", but the reload failed");
}

static int run(struct conclave_recipes *recipes, char **argv)
{
    static const struct conclave_group_callbacks callbacks = {.size = sizeof callbacks,
                                                              .on_view = on_view};
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    struct gateway gateway = {argv[2], argv[3]};
    struct conclave_group *group;
    options.path = argv[1];
    options.debounce_ms = 200; /* a rolling restart is not worth a reload for each */
    int error = conclave_group_open(recipes, &options, &callbacks, &gateway, &group);
    if (error != 0) {
        return error;
    }
    while (stopping == 0) {
        (void)sleep(1);
    }
    error = conclave_group_close_wait(group, 5000);
    if (error == 0) {
        conclave_group_destroy(group);
    }
    return error;
}

int main(int argc, char **argv)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    if (argc < 4 || argc > 5) {
        fprintf(stderr, "usage: backends GROUP FILE RELOAD-COMMAND [HOST:PORT,...]\n");
        return 64;
    }
    options.servers = argc == 5 ? argv[4] : NULL;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    int error = conclave_client_open(&options, &client);
    if (error == 0 && (error = conclave_client_start(client)) == 0 &&
        (error = conclave_recipes_open(client, &recipes)) == 0 &&
        (error = run(recipes, argv)) == 0) {
        conclave_recipes_destroy(recipes);
        conclave_client_close(client, 2000);
        return 0;
    }
    fprintf(stderr, "backends: %s\n", conclave_strerror(error));
    return 1; /* the session ends by itself: the process does */
}
