/*
 * Elections on a real server, through the fault proxy: election_test SERVER_PORT NAME [TEST]. The
 * numbers are those of test/statements.txt. The server grants session timeouts from 1 s, at
 * ticks of TICK_MS; all nodes stand below /election_test. "!restart" on stdout asks the one who
 * started this to kill the server and start it again, and to answer with a line. The last line of
 * output counts the tests.
 */
#include "system/election_actor.h"

#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char self_path[] = "/proc/self/exe";

/* --- joining and leaving ------------------------------------------------------------------ */

static void test_e01_create_reply_lost(void)
{
    struct actor a;
    char node[256];
    make_election(ROOT "/e01");
    actor_open(&a, "a", ROOT "/e01", SESSION_MS);
    fault_proxy_do(a.proxy, "swallow down 1");
    actor_join(&a);
    EVENTUALLY(acknowledged(&a));
    CHECK(child_count(a.path) == 1);
    CHECK(actor_node(&a, node, sizeof node) && strstr(node, "n_0000000000") != NULL);
    CHECK(node_owner(node) == actor_session(&a));
    CHECK(conclave_election_token(a.election).czxid == node_czxid(node));
    actor_close(&a);
    CHECK(child_count(ROOT "/e01") == 0);
}

static void test_e03_create_never_arrived(void)
{
    struct actor a;
    char node[256];
    make_election(ROOT "/e03");
    actor_open(&a, "a", ROOT "/e03", SESSION_MS);
    fault_proxy_do(a.proxy, "swallow up 1");
    actor_join(&a);
    EVENTUALLY(acknowledged(&a));
    CHECK(child_count(a.path) == 1);
    CHECK(actor_node(&a, node, sizeof node) && strstr(node, "n_0000000000") != NULL);
    actor_close(&a);
}

static void test_e05_ghost_of_an_expired_session(void)
{
    struct actor a;
    struct conclave_reply *reply = NULL;
    char ghost[256] = "";
    char node[256];
    make_election(ROOT "/e05");
    actor_open(&a, "a", ROOT "/e05", SESSION_MS);
    int64_t session = actor_session(&a);
    fault_proxy_do(a.proxy, "swallow down 1");
    fault_proxy_do(a.proxy, "refuse");
    actor_join(&a);
    EVENTUALLY(child_count(a.path) == 1);
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, a.path, 0);
    CHECK(conclave_call(witness, &op, &reply) == 0 && reply->children_count == 1);
    snprintf(ghost, sizeof ghost, "%s/%s", a.path, reply->children[0]);
    conclave_reply_free(reply);
    struct conclave_session now = CONCLAVE_SESSION_INIT;
    do {
        sleep_ms(2);
        conclave_client_session(a.client, &now);
    } while (now.state != CONCLAVE_STATE_LOST);
    fault_proxy_do(a.proxy, "accept");
    EVENTUALLY(actor_leads(&a));
    CHECK(actor_session(&a) != session);
    CHECK(actor_node(&a, node, sizeof node) && strcmp(node, ghost) != 0);
    CHECK(node_owner(node) == actor_session(&a));
    CHECK(!node_exists(ghost)); /* none is granted while it is before ours */
    actor_close(&a);
}

static void test_e15_delete_reply_lost(void)
{
    struct actor a;
    make_election(ROOT "/e15");
    actor_open(&a, "a", ROOT "/e15", SESSION_MS);
    actor_join(&a);
    EVENTUALLY(acknowledged(&a));
    fault_proxy_do(a.proxy, "swallow down 1");
    actor_leave(&a);
    CHECK(child_count(a.path) == 0);
    CHECK(!node_exists(ROOT "/e15.leader/current"));
    CHECK(a.elected == 1);
    actor_close(&a);
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void open_two(struct actor *a, struct actor *b, const char *path)
{
    make_election(path);
    actor_open(a, "a", path, SESSION_MS);
    actor_open(b, "b", path, SESSION_MS);
    actor_join(a);
    EVENTUALLY(acknowledged(a));
    actor_join(b);
    actor_settled(b);
}

static void close_two(struct actor *a, struct actor *b)
{
    actor_close(b);
    actor_close(a);
    actors_check((struct actor *[]){a, b}, 2);
    EVENTUALLY(child_count(a->path) == 0); /* a session given up here may live on there a while */
}

static void test_e22_the_middle_one_goes(void)
{
    struct actor a;
    struct actor b;
    struct actor c;
    open_two(&a, &b, ROOT "/e22");
    actor_open(&c, "c", ROOT "/e22", SESSION_MS);
    actor_join(&c);
    actor_settled(&c);
    actor_close(&b);
    actor_settled(&c);
    CHECK(actor_leads(&a) && !actor_leads(&c) && ELECTED(&c) == 0);
    actor_close(&a);
    EVENTUALLY(actor_leads(&c));
    actor_close(&c);
    actors_check((struct actor *[]){&a, &b, &c}, 3);
}

static void test_e24_predecessor_goes_while_suspended(void)
{
    struct actor a;
    struct actor b;
    char before[256];
    char after[256];
    open_two(&a, &b, ROOT "/e24");
    CHECK(actor_node(&b, before, sizeof before));
    fault_proxy_do(b.proxy, "refuse");
    fault_proxy_do(b.proxy, "cut");
    actor_leave(&a);
    CHECK(ELECTED(&b) == 0);
    fault_proxy_do(b.proxy, "accept");
    EVENTUALLY(actor_leads(&b));
    CHECK(actor_node(&b, after, sizeof after) && strcmp(before, after) == 0);
    close_two(&a, &b);
}

static void test_e26_own_expiry_while_waiting(void)
{
    struct actor a;
    struct actor b;
    char node[256];
    char again[256];
    open_two(&a, &b, ROOT "/e26");
    CHECK(actor_node(&b, node, sizeof node));
    fault_proxy_do(b.proxy, "hold both");
    EVENTUALLY(!node_exists(node));
    fault_proxy_do(b.proxy, "pass");
    EVENTUALLY(actor_node(&b, again, sizeof again) && node_exists(again));
    CHECK(strcmp(node, again) != 0 && actor_leads(&a) && ELECTED(&b) == 0);
    actor_leave(&b);
    struct conclave_election_options options = actor_options(&b);
    options.requeue = false;
    actor_join_with(&b, &options);
    actor_settled(&b);
    int64_t began = boot_ms();
    fault_proxy_do(b.proxy, "hold both");
    EVENTUALLY(CLOSED(&b) == 1);
    CHECK(boot_ms() - began <= SESSION_MS + 500);
    CHECK(b.closed_why == CONCLAVE_SESSION_EXPIRED);
    fault_proxy_do(b.proxy, "pass");
    CHECK(actor_leads(&a) && ELECTED(&a) == 1);
    close_two(&a, &b);
}

static void test_e27_own_node_deleted(void)
{
    struct actor a;
    struct actor b;
    char node[256];
    char again[256];
    open_two(&a, &b, ROOT "/e27");
    CHECK(actor_node(&b, node, sizeof node));
    node_delete(node);
    EVENTUALLY(actor_node(&b, again, sizeof again) && strcmp(node, again) != 0);
    CHECK(ELECTED(&b) == 0 && actor_leads(&a));
    CHECK(actor_node(&a, node, sizeof node));
    a.force = true;
    node_delete(node);
    EVENTUALLY(REVOKED(&a) == 1);
    EVENTUALLY(actor_leads(&b));
    EVENTUALLY(actor_node(&a, again, sizeof again) && strcmp(node, again) != 0);
    CHECK(REVOKED(&a) == 1 && actor_term(&a, 0).why == CONCLAVE_ELOST);
    CHECK(actor_term(&a, 0).stop_within_ms == 0);
    close_two(&a, &b);
}

/* --- leading ---------------------------------------------------------------------------------- */

static void block_thread(struct conclave_client *client, const struct conclave_reply *reply,
                         void *ctx)
{
    sleep_ms(2 * SESSION_MS);
}

static void test_e38_blackholed_leader(void)
{
    struct actor a;
    struct actor b;
    open_two(&a, &b, ROOT "/e38");
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, "/", 0);
    CHECK(conclave_submit(a.client, &op, block_thread, NULL) == 0);
    sleep_ms(100);
    int64_t began = boot_ns();
    fault_proxy_do(a.proxy, "hold both");
    int64_t until = 0;
    for (int64_t now; (now = conclave_election_lease_until_ns(a.election)) != 0;) {
        until = now;
        sleep_ms(1);
    }
    int64_t ended = boot_ns();
    CHECK(until != 0 && ended - until < 100000000); /* this thread's own delay */
    EVENTUALLY(REVOKED(&a) == 1);
    struct term term = actor_term(&a, 0);
    CHECK(term.revoked_ns - began < (int64_t)SESSION_MS * 1000000);
    CHECK(term.why == CONCLAVE_ELOST && term.stop_within_ms > 0);
    EVENTUALLY(actor_leads(&b));
    struct term next = actor_term(&b, 0);
    CHECK(next.from_ns > term.revoked_ns + term.stop_within_ms * 1000000);
    printf("    revoked %lld ms after the black hole, the next elected at %lld ms\n",
           (long long)(term.revoked_ns - began) / 1000000,
           (long long)(next.from_ns - began) / 1000000);
    fault_proxy_do(a.proxy, "pass");
    close_two(&a, &b);
}

/* A candidate as a process of its own: says L when it leads; then, after the first gap of more
 * than a session timeout in its own time, what is_leader answers first: 1 or 0. */
static int child_candidate(const char *port, const char *path)
{
    static struct actor a; /* its threads run until the process has ended */
    setvbuf(stdout, NULL, _IONBF, 0);
    server_port = (uint16_t)strtoul(port, NULL, 10);
    actor_open(&a, "child", path, SESSION_MS);
    actor_join(&a);
    if (conclave_election_wait(a.election, WAIT_MS, NULL) != 0) {
        return 1;
    }
    putchar('L');
    for (int64_t last = boot_ms(), now = last; now - last <= SESSION_MS; now = boot_ms()) {
        last = now;
        sleep_ms(1);
    }
    putchar(conclave_election_is_leader(a.election) ? '1' : '0');
    return 0;
}

/* Starts one, and waits until it leads. */
static pid_t start_child(const char *path, int *ret_out)
{
    char port[16];
    char name[128];
    char said = 0;
    int out[2];
    pid_t pid = 0;
    posix_spawn_file_actions_t actions;
    snprintf(port, sizeof port, "%u", server_port);
    snprintf(name, sizeof name, "%s", path);
    char *argv[] = {self_path, (char[]){"candidate"}, port, name, NULL};
    CHECK(pipe(out) == 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    CHECK(posix_spawn(&pid, self_path, &actions, NULL, argv, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    CHECK(read(out[0], &said, 1) == 1 && said == 'L');
    *ret_out = out[0];
    return pid;
}

static void test_e40_stopped_leader(void)
{
    struct actor b;
    char said = 0;
    int status = 0;
    int out;
    make_election(ROOT "/e40");
    pid_t pid = start_child(ROOT "/e40", &out);
    actor_open(&b, "b", ROOT "/e40", SESSION_MS);
    actor_join(&b);
    actor_settled(&b);
    CHECK(kill(pid, SIGSTOP) == 0);
    int64_t stopped = boot_ms();
    EVENTUALLY(actor_leads(&b));
    CHECK(boot_ms() - stopped >= SESSION_MS * 2 / 3);
    sleep_ms(stopped + 2 * SESSION_MS + 100 - boot_ms());
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(read(out, &said, 1) == 1 && said == '0');
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(out);
    CHECK(actor_leads(&b) && REVOKED(&b) == 0);
    actor_close(&b);
}

static void test_e42_short_suspension(void)
{
    struct actor a;
    make_election(ROOT "/e42");
    actor_open(&a, "a", ROOT "/e42", SESSION_MS);
    actor_join(&a);
    EVENTUALLY(acknowledged(&a));
    struct conclave_token token = conclave_election_token(a.election);
    fault_proxy_do(a.proxy, "refuse");
    fault_proxy_do(a.proxy, "cut");
    for (int64_t end = boot_ms() + SESSION_MS * 3 / 10; boot_ms() < end;) {
        CHECK(actor_leads(&a));
        sleep_ms(5);
    }
    fault_proxy_do(a.proxy, "accept");
    for (int64_t end = boot_ms() + SESSION_MS; boot_ms() < end;) {
        CHECK(actor_leads(&a));
        sleep_ms(5);
    }
    CHECK(ELECTED(&a) == 1 && REVOKED(&a) == 0);
    CHECK(conclave_election_token(a.election).czxid == token.czxid);
    actor_leave(&a);

    struct conclave_election_options options = actor_options(&a);
    options.lease.stop_on_suspend = true;
    options.regrant = true;
    actor_join_with(&a, &options);
    EVENTUALLY(acknowledged(&a));
    fault_proxy_do(a.proxy, "refuse");
    fault_proxy_do(a.proxy, "cut");
    EVENTUALLY(REVOKED(&a) == 2);
    CHECK(!actor_leads(&a));
    fault_proxy_do(a.proxy, "accept");
    EVENTUALLY(ELECTED(&a) == 3 && actor_leads(&a));
    CHECK(actor_term(&a, 2).regrant && actor_term(&a, 2).token == actor_term(&a, 1).token);
    actor_close(&a);
}

static void test_e43_lapsed_lease(void)
{
    struct actor a;
    char node[256];
    char again[256];
    make_election(ROOT "/e43");
    for (int regrant = 0; regrant < 2; regrant++) {
        actor_open(&a, "a", ROOT "/e43", 2L * SESSION_MS);
        int64_t session = actor_session(&a);
        struct conclave_election_options options = actor_options(&a);
        options.regrant = regrant == 1;
        actor_join_with(&a, &options);
        EVENTUALLY(acknowledged(&a));
        CHECK(actor_node(&a, node, sizeof node));
        /* The lease lapses two thirds of the timeout after a proof: in time for the session. */
        fault_proxy_do(a.proxy, "hold both");
        EVENTUALLY(REVOKED(&a) == 1);
        fault_proxy_do(a.proxy, "pass");
        EVENTUALLY(ELECTED(&a) == 2 && actor_leads(&a));
        CHECK(actor_session(&a) == session && REVOKED(&a) == 1);
        CHECK(actor_term(&a, 0).why == CONCLAVE_ELOST);
        CHECK(actor_node(&a, again, sizeof again));
        CHECK((strcmp(node, again) == 0) == (regrant == 1));
        CHECK(actor_term(&a, 1).regrant == (regrant == 1));
        actor_close(&a);
    }
}

static void join_delayed(struct actor *a, int64_t delay_ms)
{
    struct conclave_election_options options = actor_options(a);
    options.takeover_delay_ms = delay_ms;
    actor_join_with(a, &options);
}

static void test_e45_clean_resignation(void)
{
    struct actor a;
    struct actor b;
    make_election(ROOT "/e45");
    actor_open(&a, "a", ROOT "/e45", SESSION_MS);
    actor_open(&b, "b", ROOT "/e45", SESSION_MS);
    join_delayed(&a, 8000);
    EVENTUALLY(acknowledged(&a));
    join_delayed(&b, 8000);
    actor_settled(&b);
    int64_t began = boot_ms();
    CHECK(conclave_election_resign(a.election, false) == 0);
    EVENTUALLY(actor_leads(&b));
    CHECK(boot_ms() - began < 4000);
    CHECK(actor_term(&a, 0).to_ns < actor_term(&b, 0).from_ns);
    close_two(&a, &b);
}

static void test_e46_unclean_end(void)
{
    enum { DELAY_MS = 1500 };
    struct actor b;
    for (int delayed = 0; delayed < 2; delayed++) {
        const char *path = delayed == 0 ? ROOT "/e46" : ROOT "/e46-delayed";
        int out;
        make_election(path);
        pid_t pid = start_child(path, &out);
        actor_open(&b, "b", path, SESSION_MS);
        join_delayed(&b, delayed == 0 ? 0 : DELAY_MS);
        actor_settled(&b);
        int64_t began = boot_ms();
        CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
        close(out);
        EVENTUALLY(actor_leads(&b));
        int64_t took = boot_ms() - began;
        int64_t delay = delayed == 0 ? 0 : DELAY_MS;
        CHECK(took >= SESSION_MS * 2 / 3 + delay);
        /* Apache's servers round up to the next tick. */
        CHECK(took <= SESSION_MS + 2 * TICK_MS + delay + 1000);
        printf("    killed: the next one leads after %lld ms, of which %lld ms takeover delay\n",
               (long long)took, (long long)delay);
        actor_close(&b);
    }
}

static void *pass_soon(void *arg)
{
    sleep_ms(200);
    fault_proxy_do(arg, "pass");
    return NULL;
}

static void test_e50_fenced_transactions(void)
{
    struct actor a;
    char node[256];
    pthread_t thread;
    make_election(ROOT "/e50");
    actor_open(&a, "a", ROOT "/e50", SESSION_MS);
    struct conclave_election_options options = actor_options(&a);
    options.requeue = false;
    actor_join_with(&a, &options);
    EVENTUALLY(acknowledged(&a));
    struct conclave_op op = conclave_op_create(ROOT "/e50-mine", "1", 1, CONCLAVE_PERSISTENT);
    CHECK(conclave_election_fenced_multi(a.election, &op, 1, NULL) == 0);
    CHECK(node_exists(ROOT "/e50-mine"));
    /* The node goes, and the leader does not hear of it: the server has to refuse. */
    op = conclave_op_path(CONCLAVE_OP_DELETE, ROOT "/e50-mine", -1);
    CHECK(actor_node(&a, node, sizeof node));
    fault_proxy_do(a.proxy, "hold down");
    node_delete(node);
    CHECK(actor_leads(&a));
    CHECK(pthread_create(&thread, NULL, pass_soon, a.proxy) == 0);
    CHECK(conclave_election_fenced_multi(a.election, &op, 1, NULL) == CONCLAVE_EFENCED);
    pthread_join(thread, NULL);
    CHECK(node_exists(ROOT "/e50-mine"));
    EVENTUALLY(CLOSED(&a) == 1);
    CHECK(a.closed_why == CONCLAVE_ELOST && REVOKED(&a) == 1);
    actor_leave(&a);

    actor_join_with(&a, &options);
    EVENTUALLY(actor_leads(&a));
    fault_proxy_do(a.proxy, "hold both");
    EVENTUALLY(!actor_leads(&a));
    CHECK(conclave_election_fenced_multi(a.election, &op, 1, NULL) == CONCLAVE_EFENCED);
    EVENTUALLY(CLOSED(&a) == 1);
    CHECK(conclave_election_fenced_multi(a.election, &op, 1, NULL) != 0);
    fault_proxy_do(a.proxy, "pass");
    CHECK(node_exists(ROOT "/e50-mine"));
    actor_close(&a);
}

static void test_e55_two_elections_of_one_client(void)
{
    struct actor a;
    struct actor other;
    make_election(ROOT "/e55");
    make_election(ROOT "/e55-other");
    actor_open(&a, "a", ROOT "/e55", SESSION_MS);
    actor_share(&other, &a, "other", ROOT "/e55-other");
    actor_join(&a);
    actor_join(&other);
    EVENTUALLY(actor_leads(&a) && actor_leads(&other));
    actor_close(&other);
    for (int64_t end = boot_ms() + SESSION_MS; boot_ms() < end;) {
        CHECK(actor_leads(&a));
        sleep_ms(5);
    }
    CHECK(child_count(ROOT "/e55-other") == 0 && child_count(ROOT "/e55") == 1);
    CHECK(ELECTED(&a) == 1 && REVOKED(&a) == 0);
    actor_close(&a);
}

/* --- the program ------------------------------------------------------------------------------ */

void restart_server(void)
{
    char line[32];
    puts("!restart");
    CHECK(fgets(line, sizeof line, stdin) != NULL);
}

static const struct {
    const char *name;
    void (*fn)(void);
} tests[] = {
    {"E01", test_e01_create_reply_lost},
    {"E03", test_e03_create_never_arrived},
    {"E05", test_e05_ghost_of_an_expired_session},
    {"E15", test_e15_delete_reply_lost},
    {"E22", test_e22_the_middle_one_goes},
    {"E24", test_e24_predecessor_goes_while_suspended},
    {"E26", test_e26_own_expiry_while_waiting},
    {"E27", test_e27_own_node_deleted},
    {"E38", test_e38_blackholed_leader},
    {"E40", test_e40_stopped_leader},
    {"E42", test_e42_short_suspension},
    {"E43", test_e43_lapsed_lease},
    {"E45", test_e45_clean_resignation},
    {"E46", test_e46_unclean_end},
    {"E50", test_e50_fenced_transactions},
    {"E55", test_e55_two_elections_of_one_client},
    {"sweep: cut", sweep_link_cut_after_every_frame},
    {"sweep: lost", sweep_every_frame_lost},
    {"E48", two_hundred_hand_overs},
    {"E21", a_thousand_candidates},
    {"restarts", server_killed_during_elections},
};

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "candidate") == 0) {
        return child_candidate(argv[2], argv[3]);
    }
    if (argc < 3) {
        fprintf(stderr, "usage: election_test SERVER_PORT NAME [TEST]\n");
        return 64;
    }
    server_port = (uint16_t)strtoul(argv[1], NULL, 10);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    char servers[64];
    snprintf(servers, sizeof servers, "127.0.0.1:%u", server_port);
    options.servers = servers;
    if (conclave_client_open(&options, &witness) != 0 || conclave_client_start(witness) != 0) {
        return 1;
    }
    remove_tree(witness, ROOT);
    make_election(ROOT);
    int failed = 0;
    int count = 0;
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (argc > 3 && strcmp(argv[3], tests[i].name) != 0) {
            continue;
        }
        atomic_store(&checks_failed, 0);
        int64_t began = boot_ms();
        tests[i].fn();
        bool ok = atomic_load(&checks_failed) == 0;
        printf("%s %s: %s (%.1f s)\n", ok ? "ok" : "FAILED", argv[2], tests[i].name,
               (double)(boot_ms() - began) / 1000);
        failed += ok ? 0 : 1;
        count++;
    }
    remove_tree(witness, ROOT);
    remove_tree(witness, ROOT ".leader");
    conclave_client_close(witness, WAIT_MS);
    printf("%d passed, %d failed\n", count - failed, failed);
    return failed != 0;
}
