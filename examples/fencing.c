/*
 * A resource that refuses holders who lost: it takes lines "TOKEN TEXT" and carries out those whose token is the newest
 * it has seen. What it has seen survives its end and that of the machine.
 *
 *     cc fencing.c -o fencing $(pkg-config --cflags --libs conclave)
 *     ./fencing /tmp/gate
 *
 * Writers send the token of the lock or election in whose name they write (conclave_election_token, CONCLAVE_TOKEN). State
 * that is kept in ZooKeeper's tree needs none of this: see conclave_fence_bind.
 */
#include <conclave/fencing.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A gate that cannot be read must not count as one that has seen nothing. */
static bool gate_load(const char *path, struct conclave_token_gate *gate)
{
    char text[CONCLAVE_TOKEN_GATE_TEXT_MAX];
    memset(gate, 0, sizeof *gate);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return errno == ENOENT; /* the first start */
    }
    size_t len = fread(text, 1, sizeof text, file);
    (void)fclose(file);
    return conclave_token_gate_parse(text, len, gate) == 0;
}

/* Whole and durable, or not at all: a new file takes the place of the old one. */
static bool gate_store(const char *path, const struct conclave_token_gate *gate)
{
    char text[CONCLAVE_TOKEN_GATE_TEXT_MAX];
    char aside[4096];
    if (snprintf(aside, sizeof aside, "%s.new", path) >= (int)sizeof aside) {
        return false;
    }
    conclave_token_gate_print(gate, text);
    int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return false;
    }
    ssize_t len = (ssize_t)strlen(text);
    bool good = write(fd, text, (size_t)len) == len && fsync(fd) == 0;
    good = close(fd) == 0 && good;
    return good && rename(aside, path) == 0; /* a folder's fsync would make the name durable, too */
}

int main(int argc, char **argv)
{
    struct conclave_token_gate gate;
    char line[1024];
    if (argc != 2) {
        (void)fprintf(stderr, "usage: fencing FILE\n");
        return 64;
    }
    if (!gate_load(argv[1], &gate)) {
        (void)fprintf(stderr, "%s is damaged or cannot be read: nothing is taken\n", argv[1]);
        return 74;
    }
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *text;
        bool changed = false;
        struct conclave_token token = {strtoll(line, &text, 10)};
        int rc = conclave_token_gate_admit(&gate, "", token, &changed);
        if (rc == 0 && changed && !gate_store(argv[1], &gate)) {
            (void)fprintf(stderr, "%s cannot be written: nothing more is taken\n", argv[1]);
            return 74;
        }
        if (rc == 0) {
            (void)printf("done:%s", text);
        } else {
            (void)printf("refused: %s\n", conclave_strerror(rc));
        }
        (void)fflush(stdout);
    }
    return 0;
}
