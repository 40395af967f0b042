/*
 * Apache's own C client (libzookeeper_mt) put through its calls against one server; prints what
 * it saw, without times, zxids and session ids, for c_client_test.py to compare.
 *
 *   c_client HOST:PORT
 *
 * Limits: one session at a time, held by two processes in turn; ends with exit code 1 and a line on stderr when an answer does
 * not come within ten seconds.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zookeeper/zookeeper.h>

enum { WAIT_S = 10, DATA_MAX = 1024 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int connected, completions, events;
static char told[4096]; /* events not printed yet */
static zhandle_t *zh;

/* Waits until *counter has reached the number. */
static void wait_for(const int *counter, int number, const char *what)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&mutex);
    while (*counter < number) {
        if (pthread_cond_timedwait(&changed, &mutex, &until) != 0) {
            fprintf(stderr, "waited %d s for %s\n", WAIT_S, what);
            exit(1);
        }
    }
    pthread_mutex_unlock(&mutex);
}

static void count(int *counter)
{
    pthread_mutex_lock(&mutex);
    ++*counter;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
}

static void session_watcher(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)path;
    (void)context;
    if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE) {
        count(&connected);
    }
}

static void node_watcher(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    pthread_mutex_lock(&mutex);
    size_t len = strlen(told);
    snprintf(told + len, sizeof told - len, "event %s: type %d state %d path %s\n",
             (const char *)context, type, state, path);
    pthread_mutex_unlock(&mutex);
    count(&events);
}

/* Waits for that number of events and prints them: their thread is another one than that of the calls, so
 * they are not printed as they come. */
static void wait_for_events(int number, const char *what)
{
    wait_for(&events, number, what);
    pthread_mutex_lock(&mutex);
    fputs(told, stdout);
    told[0] = 0;
    pthread_mutex_unlock(&mutex);
}

static void print_stat(const struct Stat *stat)
{
    if (!stat) {
        printf(" no stat\n");
        return;
    }
    printf(" version %d cversion %d aversion %d length %d children %d owner %s\n", stat->version,
           stat->cversion, stat->aversion, stat->dataLength, stat->numChildren,
           stat->ephemeralOwner == 0                              ? "none"
           : stat->ephemeralOwner == zoo_client_id(zh)->client_id ? "this session"
                                                                  : "another session");
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print_strings(const struct String_vector *strings)
{
    printf("  %d:", strings ? strings->count : -1);
    if (strings) {
        qsort(strings->data, (size_t)strings->count, sizeof *strings->data, compare_strings);
        for (int i = 0; i < strings->count; i++) {
            printf(" %s", strings->data[i]);
        }
    }
    printf("\n");
}

/* --- completions ----------------------------------------------------------------------------- */

static void on_string_stat(int rc, const char *path, const struct Stat *stat, const void *what)
{
    printf("%s: %s %s", (const char *)what, zerror(rc), path ? path : "-");
    print_stat(stat);
    count(&completions);
}

static void on_string(int rc, const char *path, const void *what)
{
    printf("%s: %s %s\n", (const char *)what, zerror(rc), path ? path : "-");
    count(&completions);
}

static void on_data(int rc, const char *data, int len, const struct Stat *stat, const void *what)
{
    printf("%s: %s %d [%.*s]", (const char *)what, zerror(rc), len, len > 0 ? len : 0,
           data ? data : "");
    print_stat(stat);
    count(&completions);
}

static void on_children(int rc, const struct String_vector *strings, const struct Stat *stat,
                        const void *what)
{
    printf("%s: %s", (const char *)what, zerror(rc));
    print_stat(stat);
    print_strings(strings);
    count(&completions);
}

static void on_void(int rc, const void *what)
{
    printf("%s: %s\n", (const char *)what, zerror(rc));
    count(&completions);
}

/* --- the cases -------------------------------------------------------------------------------- */

static void try_async(void)
{
    struct ACL_vector *open_acl = &ZOO_OPEN_ACL_UNSAFE;
    int before = completions;
    zoo_acreate2(zh, "/c", "data", 4, open_acl, ZOO_PERSISTENT, on_string_stat, "acreate2");
    zoo_acreate2(zh, "/c", "data", 4, open_acl, ZOO_PERSISTENT, on_string_stat, "acreate2 again");
    zoo_acreate2(zh, "/c/e", NULL, -1, open_acl, ZOO_EPHEMERAL, on_string_stat, "ephemeral");
    zoo_acreate2(zh, "/c/e/x", "", 0, open_acl, ZOO_PERSISTENT, on_string_stat, "below it");
    zoo_acreate2(zh, "/c/s-", "1", 1, open_acl, ZOO_PERSISTENT_SEQUENTIAL, on_string_stat, "seq");
    zoo_acreate2(zh, "/c/box", "2", 1, open_acl, ZOO_CONTAINER, on_string_stat, "container");
    zoo_acreate(zh, "/c/es-", "3", 1, open_acl, ZOO_EPHEMERAL_SEQUENTIAL, on_string, "acreate");
    zoo_acreate2_ttl(zh, "/c/ttl", "4", 1, open_acl, ZOO_PERSISTENT_WITH_TTL, 60000, on_string_stat,
                     "ttl");
    zoo_awget(zh, "/c", node_watcher, "get", on_data, "awget");
    zoo_awget(zh, "/none", node_watcher, "none", on_data, "awget none");
    zoo_awget_children2(zh, "/c", node_watcher, "children", on_children, "awget_children2");
    zoo_async(zh, "/c", on_string, "async");
    zoo_adelete(zh, "/c", -1, on_void, "adelete not empty");
    zoo_adelete(zh, "/none", -1, on_void, "adelete none");
    wait_for(&completions, before + 14, "the asynchronous calls");
}

static void try_sync(void)
{
    char data[DATA_MAX];
    char path[DATA_MAX];
    int len = sizeof data;
    struct Stat stat;
    struct String_vector strings;
    int seen = events;
    printf("set2: %s", zerror(zoo_set2(zh, "/c", "changed", 7, 0, &stat)));
    print_stat(&stat);
    wait_for_events(seen + 1, "the data event");
    printf("set wrong version: %s\n", zerror(zoo_set(zh, "/c", "x", 1, 0)));
    printf("get: %s", zerror(zoo_get(zh, "/c", 0, data, &len, &stat)));
    printf(" %d [%.*s]", len, len, data);
    print_stat(&stat);
    len = sizeof data;
    printf("get null: %s", zerror(zoo_get(zh, "/c/e", 0, data, &len, &stat)));
    printf(" %d", len);
    print_stat(&stat);
    printf("create: %s",
           zerror(zoo_create(zh, "/c/child", "x", 1, &ZOO_OPEN_ACL_UNSAFE, 0, path, sizeof path)));
    printf(" %s\n", path);
    wait_for_events(seen + 2, "the children event");
    printf("wexists none: %s\n", zerror(zoo_wexists(zh, "/later", node_watcher, "later", &stat)));
    printf("create later: %s\n",
           zerror(zoo_create(zh, "/later", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0)));
    wait_for_events(seen + 3, "the created event");
    printf("get_children2: %s", zerror(zoo_get_children2(zh, "/c", 0, &strings, &stat)));
    print_stat(&stat);
    print_strings(&strings);
    deallocate_String_vector(&strings);
    printf("bad path: %s\n", zerror(zoo_exists(zh, "no-slash", 0, &stat)));
    printf("delete /: %s\n", zerror(zoo_delete(zh, "/", -1)));
}

static void print_results(const char *what, int rc, const zoo_op_result_t *results, int n)
{
    printf("%s: %s\n", what, zerror(rc));
    for (int i = 0; i < n; i++) {
        printf("  %d %s %s", i, zerror(results[i].err), results[i].value ? results[i].value : "-");
        print_stat(results[i].stat);
    }
}

static void try_multi(void)
{
    char first[DATA_MAX] = "";
    char second[DATA_MAX] = "";
    struct Stat stat = {0};
    zoo_op_t ops[5];
    zoo_op_result_t results[5] = {{0}};
    int before = completions;
    zoo_create_op_init(&ops[0], "/m", "1", 1, &ZOO_OPEN_ACL_UNSAFE, 0, first, sizeof first);
    zoo_create_op_init(&ops[1], "/m/s-", "2", 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL,
                       second, sizeof second);
    zoo_set_op_init(&ops[2], "/m", "changed", 7, 0, &stat);
    zoo_check_op_init(&ops[3], "/m", 1);
    zoo_delete_op_init(&ops[4], "/m/s-0000000000", -1);
    zoo_amulti(zh, 5, ops, results, on_void, "amulti");
    wait_for(&completions, before + 1, "amulti");
    print_results("results", 0, results, 5);

    memset(results, 0, sizeof results);
    zoo_set_op_init(&ops[0], "/m", "lost", 4, -1, &stat);
    zoo_check_op_init(&ops[1], "/m", 77);
    zoo_delete_op_init(&ops[2], "/m", -1);
    int rc = zoo_multi(zh, 3, ops, results);
    for (int i = 0; i < 3; i++) {
        results[i].stat = NULL;
        results[i].value = NULL;
    }
    print_results("multi that fails", rc, results, 3);
    printf("empty multi: %s\n", zerror(zoo_multi(zh, 0, ops, results)));
}

static void try_remove_watches(void)
{
    struct Stat stat;
    char data[DATA_MAX];
    int len = sizeof data;
    zoo_wget(zh, "/m", node_watcher, "removed", data, &len, &stat);
    for (int i = 0; i < 2; i++) {
        printf("remove_watches: %s\n",
               zerror(zoo_remove_watches(zh, "/m", ZWATCHTYPE_DATA, node_watcher, "removed", 0)));
    }
}

static void try_deleted(void)
{
    struct String_vector strings;
    int seen = events;
    zoo_wget_children(zh, "/m", node_watcher, "deleted", &strings);
    deallocate_String_vector(&strings);
    printf("delete: %s\n", zerror(zoo_delete(zh, "/m", -1)));
    wait_for_events(seen + 1, "the deleted event");
}

static void try_acl(void)
{
    struct ACL_vector acl;
    struct Stat stat;
    int before = completions;
    zoo_add_auth(zh, "digest", "ann:secret", 10, on_void, "add_auth");
    wait_for(&completions, before + 1, "add_auth");
    printf("create with creator's acl: %s\n",
           zerror(zoo_create(zh, "/acl", "x", 1, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0)));
    printf("get_acl: %s", zerror(zoo_get_acl(zh, "/acl", &acl, &stat)));
    print_stat(&stat);
    for (int i = 0; i < acl.count; i++) {
        printf("  %d %s:%s\n", acl.data[i].perms, acl.data[i].id.scheme, acl.data[i].id.id);
    }
    deallocate_ACL_vector(&acl);
    printf("set_acl: %s\n", zerror(zoo_set_acl(zh, "/acl", 0, &ZOO_READ_ACL_UNSAFE)));
    printf("set: %s\n", zerror(zoo_set(zh, "/acl", "y", 1, -1)));
    printf("set_acl again: %s\n", zerror(zoo_set_acl(zh, "/acl", -1, &ZOO_OPEN_ACL_UNSAFE)));
}

/* Everything but the end of the session: the process ends with the session alive, told to fd. */
static void run_first_process(const char *host, int fd)
{
    zh = zookeeper_init(host, session_watcher, 10000, NULL, NULL, 0);
    wait_for(&connected, 1, "the connection");
    printf("negotiated timeout %d\n", zoo_recv_timeout(zh));
    try_async();
    try_sync();
    try_multi();
    try_remove_watches();
    try_deleted();
    try_acl();
    fflush(stdout);
    _Exit(write(fd, zoo_client_id(zh), sizeof(clientid_t)) == sizeof(clientid_t) ? 0 : 1);
}

/* Another process takes the session over: its ephemeral nodes have stayed. */
static void run_second_process(const char *host, int fd)
{
    struct Stat stat;
    clientid_t id;
    if (read(fd, &id, sizeof id) != sizeof id) {
        fprintf(stderr, "the first process told no session\n");
        exit(1);
    }
    zh = zookeeper_init(host, session_watcher, 10000, &id, NULL, 0);
    wait_for(&connected, 1, "the second connection");
    printf("same session: %s\n", zoo_client_id(zh)->client_id == id.client_id ? "yes" : "no");
    printf("ephemeral: %s", zerror(zoo_exists(zh, "/c/e", 0, &stat)));
    print_stat(&stat);
    printf("close: %s\n", zerror(zookeeper_close(zh)));
}

int main(int argc, char **argv)
{
    int pipe_fds[2];
    int status;
    if (argc != 2) {
        fprintf(stderr, "usage: c_client HOST:PORT\n");
        return 64;
    }
    zoo_set_debug_level(ZOO_LOG_LEVEL_ERROR);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (pipe(pipe_fds) != 0) {
        perror("pipe");
        return 1;
    }
    pid_t first = fork();
    if (first == 0) {
        run_first_process(argv[1], pipe_fds[1]);
    }
    if (first < 0 || waitpid(first, &status, 0) != first || status != 0) {
        fprintf(stderr, "the first process failed\n");
        return 1;
    }
    run_second_process(argv[1], pipe_fds[0]);
    return 0;
}
