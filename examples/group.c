/*
 * A whole program that is a member of a group and tells who else is: start it several times under different
 * names, stop one of them (also with kill -9), and watch the others notice.
 *
 *     cc group.c -o group $(pkg-config --cflags --libs conclave)
 *     ./group /demo/group alice 10.0.0.1:8080 127.0.0.1:2181
 */
#include <conclave/group.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static void on_change(struct conclave_group *group, enum conclave_group_event event,
                      const struct conclave_member *member, void *ctx)
{
    (void)group;
    (void)ctx;
    printf("%s %s %.*s%s\n", conclave_group_event_name(event), member->id, (int)member->data_len,
           (const char *)member->data, member->self ? " (this process)" : "");
}

/* After the changes of one moment. While the ensemble is away nobody is taken for gone. */
static void on_view(struct conclave_group *group, const struct conclave_group_view *view, void *ctx)
{
    (void)group;
    (void)ctx;
    printf("%zu members%s\n", view->count, view->stale ? ", as was known last" : "");
}

static void on_membership(struct conclave_group *group, enum conclave_membership membership,
                          void *ctx)
{
    (void)group;
    (void)ctx;
    printf("this process: %s\n", conclave_membership_name(membership));
}

static int run(struct conclave_recipes *recipes, char **argv)
{
    static const struct conclave_group_callbacks callbacks = {sizeof callbacks, on_change, on_view,
                                                              on_membership, NULL};
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    struct conclave_group *group;
    options.path = argv[1];
    options.id = argv[2];
    options.data = argv[3];
    options.data_len = strlen(argv[3]);
    int error = conclave_group_open(recipes, &options, &callbacks, NULL, &group);
    if (error != 0) {
        return error;
    }
    while (stopping == 0) {
        (void)sleep(1);
    }
    error = conclave_group_close_wait(group, 5000); /* removes the node first */
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
        fprintf(stderr, "usage: group PATH NAME DATA [HOST:PORT,...]\n");
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
    fprintf(stderr, "group: %s\n", conclave_strerror(error));
    return 1; /* the session ends by itself: the process does */
}
