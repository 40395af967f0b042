/*
 * A whole program that holds a value by a lease, or renews and ends the lease of another process by its id. With "stay" the
 * value stays when the holder dies, with "delete" it goes.
 *
 *     cc lease.c -o lease $(pkg-config --cflags --libs conclave)
 *     ./lease hold 5000 /demo/owner me stay       # prints the id, holds until it is stopped
 *     ./lease keep-alive ID
 *     ./lease revoke ID
 *
 * The servers are those of CONCLAVE_SERVER.
 */
#include <conclave/lease.h>

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

static void on_ended(struct conclave_lease *lease, int why, void *ctx)
{
    (void)lease;
    (void)ctx;
    printf("ended: %s\n", conclave_strerror(why));
    stopping = 1;
}

static int hold(const struct conclave_client_options *client, char **argv)
{
    struct conclave_lease_callbacks callbacks = CONCLAVE_LEASE_CALLBACKS_INIT;
    struct conclave_lease_info info = CONCLAVE_LEASE_INFO_INIT;
    struct conclave_lease *lease;
    struct conclave_token token;
    char id[CONCLAVE_LEASE_ID_MAX];
    callbacks.on_ended = on_ended;
    int error =
        conclave_lease_grant(client, strtol(argv[2], NULL, 10), 10000, &callbacks, NULL, &lease);
    if (error != 0) {
        return error;
    }
    conclave_lease_id(lease, id);
    error = conclave_lease_acquire(lease, argv[3], argv[4], strlen(argv[4]),
                                   strcmp(argv[5], "stay") == 0 ? CONCLAVE_LEASE_RELEASE
                                                                : CONCLAVE_LEASE_DELETE,
                                   10000, &token);
    if (error == 0 && (error = conclave_lease_time_to_live(lease, 10000, &info)) == 0) {
        printf("%s\nholds for %lld ms, token %lld\n", id, (long long)info.granted_ms,
               (long long)token.czxid);
        while (stopping == 0) {
            (void)sleep(1);
        }
    }
    int closed = conclave_lease_close(lease, CONCLAVE_LEASE_END_NOW, 5000);
    return error != 0 ? error : closed;
}

int main(int argc, char **argv)
{
    struct conclave_client_options client = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_lease_info info = CONCLAVE_LEASE_INFO_INIT;
    int error;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)signal(SIGINT, on_signal);
    (void)signal(SIGTERM, on_signal);
    if (argc == 6 && strcmp(argv[1], "hold") == 0) {
        error = hold(&client, argv);
    } else if (argc == 3 && strcmp(argv[1], "keep-alive") == 0) {
        error = conclave_lease_keep_alive(&client, argv[2], 10000, &info);
        if (error == 0) {
            printf("%lld of %lld ms\n", (long long)info.left_ms, (long long)info.granted_ms);
        }
    } else if (argc == 3 && strcmp(argv[1], "revoke") == 0) {
        error = conclave_lease_revoke(&client, argv[2], 10000);
    } else {
        fprintf(stderr,
                "usage: lease hold TTL_MS PATH DATA stay|delete, keep-alive ID, revoke ID\n");
        return 64;
    }
    if (error != 0) {
        fprintf(stderr, "lease: %s\n", conclave_strerror(error));
    }
    return error == 0 ? 0 : 1;
}
