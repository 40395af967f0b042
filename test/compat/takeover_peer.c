/*
 * The part of Apache's C client (libzookeeper_mt) in the load of takeover_test.py.
 *
 *   takeover_peer HOSTS COUNT PERIOD_MS SESSION_MS FILE
 *
 * What it does, its commands and its lines in FILE: test/support/takeover_load.py. This library has no lock of its own here:
 * a group's members each create an ephemeral node with a number; the lowest holds, the others watch the one before theirs.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum { GROUP = 4, PATH_LEN = 256, STEP_MS = 20 };
enum { HOLDS = 1, LETS_GO };

struct client {
    zhandle_t *zh;
    pthread_t thread;
    char label[16];
    int number;
    int counter, value;
    int uncertain; /* the counter's version is not known */
    atomic_int connected;
    atomic_int armed;      /* the watch on the changing node is set */
    atomic_int rests;      /* it has seen that it is to pause, and nothing is under way */
    atomic_int look;       /* the node before its own may be gone */
    char own[PATH_LEN];    /* its node in its group; "" when it has none */
    atomic_int holds, had; /* its turn: now, ever */
    atomic_int dead;       /* it has noted a problem and does nothing more */
};

static struct client *clients;
static int count, period_ms, session_ms, output;
static atomic_int ending, paused, released;

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000L}, NULL);
}

/* One write: with O_APPEND lines do not mix. */
__attribute__((format(printf, 2, 3))) static void note(const struct client *c, const char *format,
                                                       ...)
{
    char line[2 * PATH_LEN];
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int len = snprintf(line, sizeof line, "%lld %s ",
                       (long long)now.tv_sec * 1000000000 + now.tv_nsec, c->label);
    va_list args;
    va_start(args, format);
    len += vsnprintf(line + len, sizeof line - (size_t)len - 1, format, args);
    va_end(args);
    line[len++] = '\n';
    if (write(output, line, (size_t)len) != len) {
        perror("takeover_peer");
        exit(1);
    }
}

static int connection_lost(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT;
}

/* For what must not fail. */
static void must(struct client *c, int rc, const char *what)
{
    if (rc != ZOK) {
        if (!ending) {
            note(c, "problem %s: %s", what, zerror(rc));
        }
        c->dead = 1;
        pthread_exit(NULL);
    }
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh;
    (void)path;
    struct client *c = context;
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE) {
        c->connected = 1;
        note(c, "connected");
    } else if (type == ZOO_SESSION_EVENT && state == ZOO_EXPIRED_SESSION_STATE && !ending) {
        note(c, "expired");
    }
}

/* These watches also get events of the session. */
static void on_change(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh;
    (void)state;
    (void)path;
    if (type != ZOO_SESSION_EVENT) {
        ((struct client *)context)->armed = 0;
    }
}

static void on_created(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh;
    (void)state;
    if (type != ZOO_SESSION_EVENT) {
        note(context, "fired %d", atoi(strrchr(path, '/') + 1));
    }
}

static void on_before_gone(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    (void)zh;
    (void)state;
    (void)path;
    if (type != ZOO_SESSION_EVENT) {
        ((struct client *)context)->look = 1;
    }
}

static void note_session(const struct client *c)
{
    note(c, "session 0x%llx", (unsigned long long)zoo_client_id(c->zh)->client_id);
}

static void make(struct client *c, const char *folder, const char *data, int flags)
{
    char path[PATH_LEN];
    snprintf(path, sizeof path, "/load/%s/%s", folder, c->label);
    must(c, zoo_create(c->zh, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, flags, NULL, 0),
         path);
}

static void append(struct client *c)
{
    char path[PATH_LEN], made[PATH_LEN];
    snprintf(path, sizeof path, "/load/appended/%s/%d-", c->label, ++c->value);
    int rc = zoo_create(c->zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_SEQUENCE, made, sizeof made);
    if (connection_lost(rc)) {
        note(c, "append-unknown %d", c->value);
        return;
    }
    must(c, rc, "append");
    note(c, "appended %d %s", c->value, strrchr(made, '/') + 1);
}

static void on_synced(int rc, const char *path, const void *result)
{
    (void)path;
    *(atomic_int *)(intptr_t)result = rc + 1000; /* 0: not yet */
}

static int sync_path(struct client *c, const char *path)
{
    static _Thread_local atomic_int result;
    result = 0;
    int rc = zoo_async(c->zh, path, on_synced, (const void *)&result);
    if (rc != ZOK) {
        return rc;
    }
    while (result == 0) {
        sleep_ms(STEP_MS);
    }
    return result - 1000;
}

static void read_counter(struct client *c, const char *path)
{
    struct Stat stat;
    int rc = sync_path(c, path);
    if (rc == ZOK) {
        rc = zoo_exists(c->zh, path, 0, &stat);
    }
    if (connection_lost(rc)) {
        return;
    }
    must(c, rc, "read");
    c->counter = stat.version;
    c->uncertain = 0;
    note(c, "counter-read %d", c->counter);
}

static void add_one(struct client *c)
{
    char path[PATH_LEN], data[16];
    struct Stat stat;
    snprintf(path, sizeof path, "/load/counters/%s", c->label);
    if (c->uncertain) {
        read_counter(c, path);
    }
    if (c->uncertain) {
        return;
    }
    int len = snprintf(data, sizeof data, "%d", c->counter + 1);
    int rc = zoo_set2(c->zh, path, data, len, c->counter, &stat);
    if (connection_lost(rc)) {
        note(c, "count-unknown %d", c->counter + 1);
        c->uncertain = 1;
        return;
    }
    must(c, rc, "count");
    c->counter = stat.version;
    note(c, "counted %d", c->counter);
}

static void watch(struct client *c)
{
    char path[PATH_LEN], data[64];
    int len = sizeof data;
    struct Stat stat;
    snprintf(path, sizeof path, "/load/changing/%s", c->label);
    c->armed = 1;
    int rc = zoo_wget(c->zh, path, on_change, c, data, &len, &stat);
    if (connection_lost(rc)) {
        c->armed = 0;
        return;
    }
    must(c, rc, "watch");
    note(c, "seen %d", stat.version);
}

/* --- the group ------------------------------------------------------------------------------- */

static const char *number_of(const char *name)
{
    return name + strlen(name) - 10;
}

/* The child with the highest number below that of `own`, or NULL. */
static const char *before(const struct String_vector *children, const char *own)
{
    const char *found = NULL;
    for (int i = 0; i < children->count; i++) {
        const char *name = children->data[i];
        if (strcmp(number_of(name), number_of(own)) < 0 &&
            (!found || strcmp(number_of(name), number_of(found)) > 0)) {
            found = name;
        }
    }
    return found;
}

static void hold(struct client *c, const char *group)
{
    struct Stat stat;
    int rc = zoo_exists(c->zh, c->own, 0, &stat);
    if (connection_lost(rc)) {
        c->look = 1;
        return;
    }
    must(c, rc, "hold");
    note(c, "holds %s %s 0x%llx", group, strrchr(c->own, '/') + 1, (unsigned long long)stat.czxid);
    c->holds = HOLDS;
    c->had = 1;
}

/* Notes it first: the next one may hold before this one has its answer. */
static void give_up(struct client *c, const char *group)
{
    if (c->holds == HOLDS) {
        note(c, "released %s", group);
        c->holds = LETS_GO;
    }
    int rc = zoo_delete(c->zh, c->own, -1);
    if (connection_lost(rc)) {
        return;
    }
    must(c, rc == ZNONODE ? ZOK : rc, "release");
    c->holds = 0;
}

static void take_turn(struct client *c)
{
    char group[PATH_LEN / 2], path[PATH_LEN];
    snprintf(group, sizeof group, "/load/groups/c%d", c->number / GROUP);
    if (c->holds && released) {
        give_up(c, group);
        return;
    }
    if (!c->look || c->had) {
        return;
    }
    c->look = 0;
    struct String_vector children = {0};
    int rc = zoo_get_children(c->zh, group, 0, &children);
    if (connection_lost(rc)) {
        c->look = 1;
        return;
    }
    must(c, rc, "children");
    const char *name = before(&children, strrchr(c->own, '/') + 1);
    if (!name) {
        hold(c, group);
    } else {
        struct Stat stat;
        snprintf(path, sizeof path, "%s/%s", group, name);
        rc = zoo_wexists(c->zh, path, on_before_gone, c, &stat);
        c->look = rc != ZOK; /* gone already, or the connection was lost */
    }
    deallocate_String_vector(&children);
}

/* --- one client ------------------------------------------------------------------------------ */

static void begin(struct client *c)
{
    char path[PATH_LEN];
    note_session(c);
    make(c, "ephemeral", "", ZOO_EPHEMERAL);
    make(c, "appended", "", 0);
    make(c, "counters", "0", 0);
    make(c, "changing", "", 0);
    snprintf(path, sizeof path, "/load/groups/c%d/n-", c->number / GROUP);
    must(c,
         zoo_create(c->zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL | ZOO_SEQUENCE, c->own,
                    sizeof c->own),
         path);
    c->look = 1;
}

static void write_or_rest(struct client *c, int turn)
{
    if (paused && !c->uncertain) {
        if (!c->rests) {
            note_session(c);
            c->rests = 1;
        }
    } else if (turn % 2 || c->uncertain) {
        add_one(c);
    } else {
        append(c);
    }
}

static void *run(void *arg)
{
    struct client *c = arg;
    while (!c->connected) {
        sleep_ms(STEP_MS);
    }
    begin(c);
    for (int turn = 0; !ending; turn++) {
        if (!c->armed) {
            watch(c);
        }
        take_turn(c);
        write_or_rest(c, turn);
        sleep_ms(period_ms);
    }
    return NULL;
}

/* --- commands -------------------------------------------------------------------------------- */

static void arm(struct client *c, int round)
{
    char path[PATH_LEN];
    struct Stat stat;
    snprintf(path, sizeof path, "/load/once/%d-%s", round, c->label);
    int rc;
    do {
        rc = zoo_wexists(c->zh, path, on_created, c, &stat);
    } while (connection_lost(rc));
    if (rc != ZNONODE) {
        note(c, "problem arm: %s", zerror(rc));
    }
    note(c, "armed %d", round);
}

static void command(const char *line)
{
    if (strncmp(line, "arm ", 4) == 0) {
        for (int i = 0; i < count; i++) {
            arm(&clients[i], atoi(line + 4));
        }
    } else if (strcmp(line, "pause") == 0) {
        paused = 1;
        for (int i = 0; i < count; i++) {
            while (!clients[i].rests && !clients[i].dead) {
                sleep_ms(STEP_MS);
            }
        }
    } else if (strcmp(line, "resume") == 0) {
        for (int i = 0; i < count; i++) {
            clients[i].rests = 0;
        }
        paused = 0;
    } else if (strcmp(line, "release") == 0) {
        released = 1;
        for (int i = 0; i < count; i++) {
            while ((!clients[i].had || clients[i].holds) && !clients[i].dead) {
                sleep_ms(STEP_MS);
            }
        }
    }
}

static void wait_for_holders(void)
{
    for (int first = 0; first < count; first += GROUP) {
        int held = 0;
        while (!held) {
            for (int i = first; i < first + GROUP && i < count; i++) {
                held |= clients[i].had;
            }
            sleep_ms(STEP_MS);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: takeover_peer HOSTS COUNT PERIOD_MS SESSION_MS FILE\n");
        return 64;
    }
    count = atoi(argv[2]);
    period_ms = atoi(argv[3]);
    session_ms = atoi(argv[4]);
    output = open(argv[5], O_WRONLY | O_APPEND | O_CREAT, 0600);
    clients = calloc((size_t)count, sizeof *clients);
    if (output < 0 || !clients) {
        perror("takeover_peer");
        return 1;
    }
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    for (int i = 0; i < count; i++) {
        struct client *c = &clients[i];
        c->number = i;
        snprintf(c->label, sizeof c->label, "c%d", i);
        c->zh = zookeeper_init(argv[1], on_session, session_ms, NULL, c, 0);
        if (!c->zh || pthread_create(&c->thread, NULL, run, c) != 0) {
            perror("takeover_peer");
            return 1;
        }
    }
    wait_for_holders();
    puts("ready");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        command(line);
        line[strcspn(line, " ")] = 0;
        printf("done %s\n", line);
        fflush(stdout);
    }
    ending = 1;
    return 0;
}
