/*
 * The programs of the split-brain drill (drill_test.py):
 *
 *   drill_actor hold PAGE LOG GATE SERVERS SESSION_MS NAME
 *     contends for an election, a lock and a semaphore of one below ROOT, through the library. Writes into PAGE what it
 *     was granted, until when it believed to hold and when it was told otherwise; asks each millisecond. While it was
 *     not told otherwise it writes its token to the resource at GATE without asking whether it still holds, as a
 *     program would that was stopped between the two, and to a node by fenced transactions, noted in LOG.
 *   drill_actor gate PATH LOG
 *     the resource outside: keeps a token gate per kind, notes in LOG what it admits anew and what it refuses.
 *
 * Commands of a holder, one line each, answered by one line: "let-go KIND", "leave", "join", "arm KIND" (remember the
 * term of now), "late KIND" (write in the name of that term, whatever has become of it: "late GATE TREE" with two error
 * codes), "quit".
 */
#define _GNU_SOURCE /* syscall */

#include "system/drill_page.h"

#include <conclave/election.h>
#include <conclave/fencing.h>
#include <conclave/lock.h>
#include <conclave/semaphore.h>

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define ROOT "/drill"

enum {
    NS_PER_MS = 1000000,
    NS_PER_S = 1000000000,
    LOOK_US = 1000,
    WRITE_US = 5000,
    TREE_US = 20000,
    GAP_NS = 60 * NS_PER_MS, /* a holder that did not look for longer did not run */
    CALL_MS = 20000,
    GATE_CLIENTS = 16,
};

static void fail(const char *what, int rc)
{
    fprintf(stderr, "drill_actor: %s: %s\n", what, conclave_strerror(rc));
    exit(70);
}

/* --- the test's clock ------------------------------------------------------------------------- */

static int64_t namespace_ns; /* the offset of this time namespace to the monotonic clock */

static void read_namespace(void)
{
    FILE *file = fopen("/proc/self/timens_offsets", "r");
    char name[32];
    long long seconds;
    long long ns;
    while (file != NULL && fscanf(file, "%31s %lld %lld", name, &seconds, &ns) == 3) {
        if (strcmp(name, "monotonic") == 0) {
            namespace_ns = seconds * NS_PER_S + ns;
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

/* Past whatever is preloaded. */
static int64_t test_ns(void)
{
    struct timespec ts;
    (void)syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * (int64_t)NS_PER_S + ts.tv_nsec - namespace_ns;
}

/* The clock that the library goes by. */
static int64_t library_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * (int64_t)NS_PER_S + ts.tv_nsec;
}

/* A time of the library's clock by the test's. Both are read at once: a holder that is stopped between them reads again. */
static int64_t test_time(int64_t at_library_ns)
{
    for (;;) {
        int64_t before = test_ns();
        int64_t left = at_library_ns - library_ns();
        int64_t after = test_ns();
        if (after - before < NS_PER_MS) {
            return after + left;
        }
    }
}

/* --- the three kinds, alike ------------------------------------------------------------------- */

struct post {
    int kind;
    char path[64];
    struct conclave_election *election;
    struct conclave_lock *lock;
    struct conclave_semaphore *semaphore;
    int gate;

    /* guarded by `mutex` */
    int64_t token; /* of the term that was granted and not ended yet; 0: none */
    /* a loss was reported without a grant: the granting call may not have returned yet */
    bool lost;
    char node[128];
    bool let_go;
    int64_t armed_token;
    char armed_node[128];
};

static const char *const kind_names[KINDS] = {"election", "lock", "semaphore"};
static struct post posts[KINDS];
static struct page *page;
static FILE *notes;
static struct conclave_client *client;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t gate_mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool away;   /* contends for nothing */
static atomic_bool ending; /* all threads are to end */

static bool post_held(const struct post *p)
{
    return p->election != NULL ? conclave_election_is_leader(p->election)
           : p->lock != NULL   ? conclave_lock_is_held(p->lock)
                               : conclave_semaphore_is_held(p->semaphore);
}

static int64_t post_until_ns(const struct post *p)
{
    return p->election != NULL ? conclave_election_lease_until_ns(p->election)
           : p->lock != NULL   ? conclave_lock_lease_until_ns(p->lock)
                               : conclave_semaphore_lease_until_ns(p->semaphore);
}

static int64_t post_token(const struct post *p)
{
    struct conclave_token token = p->election != NULL ? conclave_election_token(p->election)
                                  : p->lock != NULL   ? conclave_lock_token(p->lock)
                                                      : conclave_semaphore_token(p->semaphore);
    return token.czxid;
}

static int post_multi(struct post *p, const struct conclave_op *part,
                      struct conclave_reply **ret_reply)
{
    return p->election != NULL ? conclave_election_fenced_multi(p->election, part, 1, ret_reply)
           : p->lock != NULL   ? conclave_lock_fenced_multi(p->lock, part, 1, ret_reply)
                               : conclave_semaphore_fenced_multi(p->semaphore, part, 1, ret_reply);
}

static void post_node(const struct post *p, char *buf, size_t len)
{
    if (p->election != NULL) {
        conclave_election_node(p->election, buf, len);
    } else if (p->lock != NULL) {
        conclave_lock_node(p->lock, buf, len);
    } else {
        conclave_semaphore_node(p->semaphore, buf, len);
    }
}

/* --- the written record ----------------------------------------------------------------------- */

/* With the mutex held. */
static struct claim *claim_of(int kind, int64_t token)
{
    for (int64_t i = page->claims_count - 1; i >= 0; i--) {
        if (page->claims[i].kind == kind && page->claims[i].token == token) {
            return &page->claims[i];
        }
    }
    if (page->claims_count == CLAIMS_MAX) {
        fail("claims", CONCLAVE_ENOBUFS);
    }
    struct claim *c = &page->claims[page->claims_count];
    *c = (struct claim){.kind = kind, .token = token};
    page->claims_count++;
    return c;
}

/* The lease as well: a holder that is stopped before it looks for the first time holds until then and no longer. */
static void post_granted(struct post *p, int64_t token, int64_t now)
{
    int64_t until = post_until_ns(p);
    int64_t lease_until = until != 0 ? test_time(until) : now;
    pthread_mutex_lock(&mutex);
    struct claim *c = claim_of(p->kind, token);
    c->lease_until_ns = c->lease_until_ns == 0 ? lease_until : c->lease_until_ns;
    c->granted_ns = now;
    if (p->lost && p->election == NULL) {
        c->told_ns = now;
        c->why = CONCLAVE_ELOST;
    } else {
        p->token = token;
    }
    post_node(p, p->node, sizeof p->node);
    pthread_mutex_unlock(&mutex);
}

static void post_told(struct post *p, int why, int64_t within_ms, int64_t now)
{
    pthread_mutex_lock(&mutex);
    if (p->token != 0) {
        struct claim *c = claim_of(p->kind, p->token);
        c->told_ns = now;
        c->within_ms = within_ms;
        c->why = why;
    }
    p->lost = p->token == 0;
    p->token = 0;
    pthread_mutex_unlock(&mutex);
}

static int64_t term_of(struct post *p)
{
    pthread_mutex_lock(&mutex);
    int64_t token = p->token;
    pthread_mutex_unlock(&mutex);
    return token;
}

static int64_t within_of(struct post *p, int64_t token)
{
    pthread_mutex_lock(&mutex);
    int64_t within_ms = claim_of(p->kind, token)->within_ms;
    pthread_mutex_unlock(&mutex);
    return within_ms;
}

static void look(struct post *p)
{
    int64_t token = post_token(p);
    int64_t before = test_ns();
    bool held = post_held(p);
    int64_t until = post_until_ns(p);
    if (!held || token == 0 || post_token(p) != token || until == 0) {
        return;
    }
    int64_t lease_until = test_time(until);
    pthread_mutex_lock(&mutex);
    struct claim *c = claim_of(p->kind, token);
    c->first_ns = c->first_ns == 0 ? before : c->first_ns;
    c->last_ns = before;
    c->lease_until_ns = lease_until;
    pthread_mutex_unlock(&mutex);
}

static void *look_main(void *arg)
{
    int64_t last = test_ns();
    while (!atomic_load(&ending)) {
        for (int i = 0; i < KINDS; i++) {
            look(&posts[i]);
        }
        int64_t now = test_ns();
        if (now - last > GAP_NS && page->gaps_count < GAPS_MAX) {
            page->gaps[page->gaps_count] = (struct gap){last, now};
            page->gaps_count++;
        }
        page->now_ns = last = now;
        struct conclave_session session = CONCLAVE_SESSION_INIT;
        conclave_client_session(client, &session);
        memcpy(page->server, session.server, sizeof page->server);
        usleep(LOOK_US);
    }
    return NULL;
}

/* --- contending ------------------------------------------------------------------------------- */

static int on_elected(struct conclave_election *election, struct conclave_token token, bool regrant,
                      void *ctx)
{
    post_granted(ctx, token.czxid, test_ns());
    return 0;
}

static void on_revoked(struct conclave_election *election, int why, int64_t within_ms, void *ctx)
{
    post_told(ctx, why, within_ms, test_ns());
}

static void on_lock_lost(struct conclave_lock *lock, int why, int64_t within_ms, void *ctx)
{
    post_told(ctx, why, within_ms, test_ns());
}

static void on_semaphore_lost(struct conclave_semaphore *s, int why, int64_t within_ms, void *ctx)
{
    post_told(ctx, why, within_ms, test_ns());
}

static int post_acquire(struct post *p, struct conclave_token *ret)
{
    return p->lock != NULL ? conclave_lock_acquire(p->lock, CALL_MS, ret)
                           : conclave_semaphore_acquire(p->semaphore, CALL_MS, ret);
}

static int post_release(struct post *p)
{
    return p->lock != NULL ? conclave_lock_release(p->lock, CALL_MS)
                           : conclave_semaphore_release(p->semaphore, CALL_MS);
}

/* Whether the term is to end by our own will. */
static bool wants_end(struct post *p)
{
    pthread_mutex_lock(&mutex);
    bool end = p->let_go || atomic_load(&away) || atomic_load(&ending);
    p->let_go = false;
    pthread_mutex_unlock(&mutex);
    return end;
}

/* Takes the lock or the semaphore, again and again. */
static void *take_main(void *arg)
{
    struct post *p = arg;
    while (!atomic_load(&ending)) {
        struct conclave_token token;
        if (atomic_load(&away)) {
            usleep(LOOK_US);
            continue;
        }
        pthread_mutex_lock(&mutex);
        p->lost = false;
        pthread_mutex_unlock(&mutex);
        int rc = post_acquire(p, &token);
        if (rc == CONCLAVE_SESSION_EXPIRED || rc == CONCLAVE_ETIMEDOUT ||
            rc == CONCLAVE_ECANCELED || rc == CONCLAVE_ELOST) {
            continue;
        }
        if (rc != 0) {
            fail("acquire", rc);
        }
        post_granted(p, token.czxid, test_ns());
        while (term_of(p) != 0 && post_held(p) && !wants_end(p)) {
            usleep(LOOK_US);
        }
        bool lost = !post_held(p);
        while (lost && term_of(p) != 0) {
            usleep(LOOK_US); /* on_lost comes first */
        }
        if (lost) { /* until then other holders must not interfere */
            usleep((useconds_t)within_of(p, token.czxid) * 1000);
        }
        post_told(p, CONCLAVE_ECANCELED, 0, test_ns());
        rc = post_release(p);
        if (rc != 0 && rc != CONCLAVE_ELOST && rc != CONCLAVE_ETIMEDOUT) {
            fail("release", rc);
        }
    }
    return NULL;
}

/* --- writing ---------------------------------------------------------------------------------- */

static int gate_ask(struct post *p, int64_t token)
{
    char line[64];
    int len = snprintf(line, sizeof line, "%d %" PRId64, p->kind, token);
    pthread_mutex_lock(&gate_mutex);
    bool sent = send(p->gate, line, (size_t)len, MSG_NOSIGNAL) == len;
    ssize_t n = sent ? recv(p->gate, line, sizeof line - 1, 0) : -1;
    pthread_mutex_unlock(&gate_mutex);
    if (n <= 0) {
        fail("gate", CONCLAVE_EIO);
    }
    line[n] = '\0';
    return (int)strtol(line, NULL, 10);
}

static void *gate_writer_main(void *arg)
{
    struct post *p = arg;
    while (!atomic_load(&ending)) {
        int64_t token = term_of(p);
        usleep(WRITE_US); /* between the look and the act */
        if (token != 0) {
            (void)gate_ask(p, token);
        }
    }
    return NULL;
}

static struct conclave_op value_of(const struct post *p, char *path, size_t path_len, char *text,
                                   size_t text_len, int64_t token)
{
    snprintf(path, path_len, ROOT "/value-%s", kind_names[p->kind]);
    int len = snprintf(text, text_len, "%" PRId64, token);
    return conclave_op_set(path, text, (size_t)len, -1);
}

static void *tree_writer_main(void *arg)
{
    struct post *p = arg;
    char path[64];
    char text[32];
    while (!atomic_load(&ending)) {
        int64_t token = post_token(p);
        struct conclave_reply *reply = NULL;
        struct conclave_op set = value_of(p, path, sizeof path, text, sizeof text, token);
        set.timeout_ms = CALL_MS;
        /* A term that ends and another that begins meanwhile would write the old one's text in the new one's name. */
        if (token != 0 && post_multi(p, &set, &reply) == 0 && post_token(p) == token) {
            fprintf(notes, "%d %" PRId64 " %" PRId64 "\n", p->kind, token, reply->zxid);
        }
        conclave_reply_free(reply);
        usleep(TREE_US);
    }
    return NULL;
}

/* In the name of the remembered term: to the resource, and to the tree with a check of that term's node. */
static void write_late(struct post *p)
{
    char path[64];
    char text[32];
    char node[256];
    pthread_mutex_lock(&mutex);
    int64_t token = p->armed_token;
    snprintf(node, sizeof node, "%s/%s", p->path, p->armed_node);
    pthread_mutex_unlock(&mutex);
    struct conclave_op parts[] = {
        conclave_op_path(CONCLAVE_OP_CHECK, node, -1),
        value_of(p, path, sizeof path, text, sizeof text, token),
    };
    struct conclave_op multi = conclave_op_multi(parts, 2);
    int tree = CONCLAVE_CONNECTION_LOSS;
    while (tree == CONCLAVE_CONNECTION_LOSS || tree == CONCLAVE_SESSION_EXPIRED) {
        tree = conclave_call(client, &multi, NULL);
    }
    printf("late %d %d\n", gate_ask(p, token), tree);
}

static void arm(struct post *p)
{
    pthread_mutex_lock(&mutex);
    p->armed_token = p->token;
    memcpy(p->armed_node, p->node, sizeof p->node);
    int64_t token = p->token;
    pthread_mutex_unlock(&mutex);
    printf("armed %" PRId64 "\n", token);
}

/* --- a holder --------------------------------------------------------------------------------- */

static void posts_start(struct conclave_recipes *recipes, const char *name)
{
    static const struct conclave_election_callbacks election_callbacks = {
        .size = sizeof election_callbacks, .on_elected = on_elected, .on_revoked = on_revoked};
    static const struct conclave_lock_callbacks lock_callbacks = {.size = sizeof lock_callbacks,
                                                                  .on_lost = on_lock_lost};
    static const struct conclave_semaphore_callbacks semaphore_callbacks = {
        .size = sizeof semaphore_callbacks, .on_lost = on_semaphore_lost};
    struct conclave_election_options election = CONCLAVE_ELECTION_OPTIONS_INIT;
    struct conclave_lock_options lock = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_semaphore_options semaphore = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    election.path = posts[0].path;
    election.id = lock.id = semaphore.id = name;
    election.backoff_min_ms = 10;
    election.backoff_max_ms = 50;
    lock.path = posts[1].path;
    semaphore.path = posts[2].path;
    semaphore.permits = 1;
    int rc = conclave_lock_open(recipes, &lock, &lock_callbacks, &posts[1], &posts[1].lock);
    rc = rc == 0 ? conclave_semaphore_open(recipes, &semaphore, &semaphore_callbacks, &posts[2],
                                           &posts[2].semaphore)
                 : rc;
    rc = rc == 0 ? conclave_election_open(recipes, &election, &election_callbacks, &posts[0],
                                          &posts[0].election)
                 : rc;
    if (rc != 0) {
        fail("recipes", rc);
    }
}

static void posts_close(void)
{
    conclave_election_close(posts[0].election);
    conclave_lock_close(posts[1].lock);
    conclave_semaphore_close(posts[2].semaphore);
    int rc = conclave_election_close_wait(posts[0].election, CALL_MS);
    rc = rc == 0 ? conclave_lock_close_wait(posts[1].lock, CALL_MS) : rc;
    rc = rc == 0 ? conclave_semaphore_close_wait(posts[2].semaphore, CALL_MS) : rc;
    if (rc != 0) {
        fail("close", rc);
    }
    conclave_election_destroy(posts[0].election);
    conclave_lock_destroy(posts[1].lock);
    conclave_semaphore_destroy(posts[2].semaphore);
}

static void set_away(bool now_away)
{
    atomic_store(&away, now_away);
    int rc = conclave_election_resign(posts[0].election, !now_away);
    if (now_away) {
        (void)conclave_lock_cancel(posts[1].lock);
        (void)conclave_semaphore_cancel(posts[2].semaphore);
    }
    printf("%s\n", conclave_errname(rc));
}

static void let_go(struct post *p)
{
    int rc = 0;
    if (p->election != NULL) {
        rc = conclave_election_resign(p->election, true);
    } else {
        pthread_mutex_lock(&mutex);
        p->let_go = p->token != 0;
        pthread_mutex_unlock(&mutex);
    }
    printf("%s\n", conclave_errname(rc));
}

static void take_commands(void)
{
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char word[32] = "";
        int kind = 0;
        (void)sscanf(line, "%31s %d", word, &kind);
        if (kind < 0 || kind >= KINDS || strcmp(word, "quit") == 0) {
            return;
        }
        if (strcmp(word, "let-go") == 0) {
            let_go(&posts[kind]);
        } else if (strcmp(word, "arm") == 0) {
            arm(&posts[kind]);
        } else if (strcmp(word, "late") == 0) {
            write_late(&posts[kind]);
        } else {
            set_away(strcmp(word, "leave") == 0);
        }
        (void)fflush(stdout);
    }
}

static int gate_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        fail("gate", CONCLAVE_EIO);
    }
    return fd;
}

static void page_open(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof *page) != 0) {
        fail(path, CONCLAVE_EIO);
    }
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED) {
        fail(path, CONCLAVE_ENOMEM);
    }
}

static void client_start(const char *servers, const char *session_ms)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    options.servers = servers;
    options.session_timeout_ms = strtoll(session_ms, NULL, 10);
    int rc = conclave_client_open(&options, &client);
    rc = rc == 0 ? conclave_client_start(client) : rc;
    rc = rc == 0 ? conclave_client_wait_connected(client, CALL_MS) : rc;
    if (rc != 0) {
        fail("client", rc);
    }
}

static int hold(char **args)
{
    struct conclave_recipes *recipes;
    pthread_t threads[3 * KINDS + 1];
    int count = 0;
    read_namespace();
    page_open(args[0]);
    notes = fopen(args[1], "w");
    if (notes == NULL) {
        fail(args[1], CONCLAVE_EIO);
    }
    (void)setvbuf(notes, NULL, _IOLBF, 0);
    client_start(args[3], args[4]);
    int rc = conclave_recipes_open(client, &recipes);
    if (rc != 0) {
        fail("recipes", rc);
    }
    for (int i = 0; i < KINDS; i++) {
        posts[i].kind = i;
        posts[i].gate = gate_connect(args[2]);
        snprintf(posts[i].path, sizeof posts[i].path, ROOT "/%s", kind_names[i]);
    }
    posts_start(recipes, args[5]);
    rc = pthread_create(&threads[count++], NULL, look_main, NULL);
    for (int i = 0; i < KINDS && rc == 0; i++) {
        rc = pthread_create(&threads[count++], NULL, gate_writer_main, &posts[i]) ||
             pthread_create(&threads[count++], NULL, tree_writer_main, &posts[i]) ||
             (i > 0 && pthread_create(&threads[count++], NULL, take_main, &posts[i]));
    }
    if (rc != 0) {
        fail("threads", CONCLAVE_ENOMEM);
    }
    printf("ready\n");
    (void)fflush(stdout);
    take_commands();
    atomic_store(&ending, true);
    (void)conclave_lock_cancel(posts[1].lock);
    (void)conclave_semaphore_cancel(posts[2].semaphore);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    posts_close();
    conclave_recipes_destroy(recipes);
    conclave_client_close(client, CALL_MS);
    printf("ended\n");
    return 0;
}

/* --- the resource ----------------------------------------------------------------------------- */

static void gate_answer(int fd, struct conclave_token_gate *gates, FILE *log)
{
    char line[64];
    ssize_t n = recv(fd, line, sizeof line - 1, 0);
    if (n <= 0) {
        return;
    }
    line[n] = '\0';
    char *rest;
    long kind = strtol(line, &rest, 10);
    struct conclave_token token = {strtoll(rest, NULL, 10)};
    bool changed = false;
    int rc = conclave_token_gate_admit(&gates[kind], "", token, &changed);
    if (rc != 0 || changed) {
        fprintf(log, "%ld %" PRId64 " %d %" PRId64 "\n", kind, token.czxid, rc, test_ns());
    }
    int len = snprintf(line, sizeof line, "%d", rc);
    (void)!send(fd, line, (size_t)len, MSG_NOSIGNAL);
}

static int gate(char **args)
{
    struct conclave_token_gate gates[KINDS] = {0};
    struct pollfd fds[GATE_CLIENTS + 2] = {0};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    nfds_t count = 2;
    FILE *log = fopen(args[1], "w");
    snprintf(address.sun_path, sizeof address.sun_path, "%s", args[0]);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (log == NULL || fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(fd, GATE_CLIENTS) != 0) {
        fail(args[0], CONCLAVE_EIO);
    }
    (void)setvbuf(log, NULL, _IOLBF, 0);
    read_namespace();
    printf("ready\n");
    (void)fflush(stdout);
    fds[0] = (struct pollfd){STDIN_FILENO, POLLIN, 0};
    fds[1] = (struct pollfd){fd, POLLIN, 0};
    while (poll(fds, count, -1) > 0 && fds[0].revents == 0) {
        for (nfds_t i = 2; i < count; i++) {
            if ((fds[i].revents & POLLIN) != 0) {
                gate_answer(fds[i].fd, gates, log);
            }
            if ((fds[i].revents & (POLLHUP | POLLERR)) != 0) {
                fds[i].fd = -1;
            }
        }
        if (fds[1].revents != 0 && count < GATE_CLIENTS + 2) {
            fds[count++] = (struct pollfd){accept(fd, NULL, NULL), POLLIN, 0};
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 8 && strcmp(argv[1], "hold") == 0) {
        return hold(argv + 2);
    }
    if (argc == 4 && strcmp(argv[1], "gate") == 0) {
        return gate(argv + 2);
    }
    fprintf(stderr, "usage: drill_actor hold PAGE LOG GATE SERVERS SESSION_MS NAME\n"
                    "       drill_actor gate PATH LOG\n");
    return 64;
}
