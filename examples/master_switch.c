/*
 * The simple master switch: start it several times, and one of them works, step by step; end it, also
 * with kill -9, and the next one goes on.
 *
 *     cc master_switch.c -o master_switch $(pkg-config --cflags --libs conclave)
 *     ./master_switch /demo/master alice 127.0.0.1:2181
 */
#include <conclave/master_switch.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static volatile sig_atomic_t stopping;

static void on_signal(int number)
{
    (void)number;
    stopping = 1;
}

static int on_master(struct conclave_master_switch *sw, struct conclave_token token, void *ctx)
{
    (void)sw;
    printf("%s is the master, token %" PRId64 "\n", (const char *)ctx, token.czxid);
    return 0;
}

static void on_slave(struct conclave_master_switch *sw, int64_t stop_within_ms, void *ctx)
{
    (void)sw;
    printf("%s is a slave, to have stopped within %" PRId64 " ms\n", (const char *)ctx,
           stop_within_ms);
}

int main(int argc, char **argv)
{
    struct conclave_master_switch_options options = CONCLAVE_MASTER_SWITCH_OPTIONS_INIT;
    struct conclave_master_switch *sw;
    if (argc < 3) {
        fprintf(stderr, "usage: %s PATH NAME [SERVERS]\n", argv[0]);
        return 64;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    options.path = argv[1];
    options.id = argv[2];
    options.servers = argv[3];
    int error = conclave_master_switch_open(&options, on_master, on_slave, argv[2], &sw);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", argv[1], conclave_strerror(error));
        return 1;
    }
    for (unsigned step = 1; !stopping && conclave_master_switch_error(sw) == 0; step++) {
        if (conclave_master_switch_is_master(sw)) {
            printf("%s does step %u\n", argv[2], step); /* one that is short beside the lease */
        }
        usleep(200000);
    }
    error = conclave_master_switch_error(sw);
    if (error != 0) {
        fprintf(stderr, "%s: %s\n", argv[1], conclave_strerror(error));
    }
    (void)conclave_master_switch_close(sw, CONCLAVE_FOREVER);
    return error != 0;
}
