/*
 * Programs that end things in the wrong order: each dies in a process of its own, with a line that names the missing call.
 */
#include "support/candidate.h"

#include <conclave/barrier.h>
#include <conclave/lock.h>

#include <signal.h>
#include <sys/wait.h>

static struct conclave_barrier *barrier_of(struct candidate *c)
{
    struct conclave_barrier_options options = CONCLAVE_BARRIER_OPTIONS_INIT;
    struct conclave_barrier *barrier = NULL;
    options.path = "/app/barrier";
    assert_int_equal(conclave_barrier_open(c->recipes, &options, NULL, NULL, &barrier), 0);
    return barrier;
}

static void destroy_open_barrier(struct candidate *c)
{
    conclave_barrier_destroy(barrier_of(c));
}

static void destroy_open_lock(struct candidate *c)
{
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_lock *lock = NULL;
    options.path = "/app/lock";
    assert_int_equal(conclave_lock_open(c->recipes, &options, NULL, NULL, &lock), 0);
    conclave_lock_destroy(lock);
}

static void destroy_recipes_first(struct candidate *c)
{
    (void)barrier_of(c);
    conclave_recipes_destroy(c->recipes);
}

static void close_client_and_destroy_recipes_first(struct candidate *c)
{
    (void)barrier_of(c);
    conclave_client_close(c->client, 0);
    conclave_recipes_destroy(c->recipes);
}

static void open_without_recipes(struct candidate *c)
{
    c->recipes = NULL;
    (void)barrier_of(c);
}

static void lock_without_recipes(struct candidate *c)
{
    c->recipes = NULL;
    destroy_open_lock(c);
}

/* Runs it in a child, which must abort and have said this. */
static void dies_saying(struct fake_zk *zk, void (*mistake)(struct candidate *c), const char *text)
{
    char said[512];
    size_t len = 0;
    ssize_t n;
    int fds[2];
    int status;
    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct candidate c;
        (void)signal(SIGABRT, SIG_DFL);
        (void)dup2(fds[1], STDERR_FILENO);
        (void)close(fds[1]);
        candidate_connect(&c, zk, 0, "c");
        mistake(&c);
        _exit(0);
    }
    (void)close(fds[1]);
    while (len < sizeof said - 1 && (n = read(fds[0], said + len, sizeof said - 1 - len)) > 0) {
        len += (size_t)n;
    }
    said[len] = '\0';
    (void)close(fds[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_string_equal(said, text);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void the_missing_call_is_named(void **state)
{
    struct fake_zk *zk = *state;
    dies_saying(
        zk, destroy_open_barrier,
        "conclave: conclave_barrier_destroy: the handle is open: call its _close_wait first\n");
    dies_saying(
        zk, destroy_open_lock,
        "conclave: conclave_lock_destroy: the handle is open: call its _close_wait first\n");
    dies_saying(
        zk, destroy_recipes_first,
        "conclave: conclave_recipes_destroy: handles are left: call _close_wait and _destroy of each first\n");
    dies_saying(
        zk, close_client_and_destroy_recipes_first,
        "conclave: conclave_recipes_destroy: handles are left: call _close_wait and _destroy of each first\n");
    dies_saying(zk, open_without_recipes,
                "conclave: recipes is NULL: call conclave_recipes_open first\n");
    dies_saying(zk, lock_without_recipes,
                "conclave: recipes is NULL: call conclave_recipes_open first\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        E_TEST(the_missing_call_is_named),
    };
    return RUN_TESTS(tests);
}
