/*
 * The fault proxy as a program, for tests in other languages: fault_proxy LISTEN_PORT
 * [ADDRESS:]SERVER_PORT (0: a free port). Prints "port N", then reads commands (fault_proxy.h) from stdin and answers
 * each with one line; ends with stdin.
 */
#include "support/fault_proxy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: fault_proxy LISTEN_PORT [ADDRESS:]SERVER_PORT\n");
        return 64;
    }
    char *colon = strchr(argv[2], ':');
    const char *port = colon != NULL ? colon + 1 : argv[2];
    if (colon != NULL) {
        *colon = '\0';
    }
    struct fault_proxy *p = fault_proxy_start_to((uint16_t)strtoul(argv[1], NULL, 10),
                                                 colon != NULL ? argv[2] : "127.0.0.1",
                                                 (uint16_t)strtoul(port, NULL, 10));
    if (p == NULL) {
        perror("fault_proxy: cannot listen");
        return 69;
    }
    printf("port %u\n", fault_proxy_port(p));
    fflush(stdout);
    char line[128];
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0') {
            char answer[256];
            fault_proxy_command(p, line, answer, sizeof answer);
            puts(answer);
            fflush(stdout);
        }
    }
    fault_proxy_stop(p);
    return 0;
}
