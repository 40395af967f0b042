/*
 * Every allocation of an election fails once, in turn, of its client's and of its own: it ends with
 * CONCLAVE_ENOMEM or recovers, nothing is leaked, nothing crashes, no node is left, and nobody
 * leads beside another.
 *
 * The client under test runs in a loop of the test's own thread, and only allocations made there
 * fail and are counted; its rival and the server have all the memory they want. Several runs go
 * beside each other, as most of their time is waiting.
 */
#include "support/candidate.h"
#include "support/starve.h"

#include <poll.h>
#include <stdatomic.h>

/* All candidates have one name for their node (CONCLAVE_NAMING_FIXED). */
static bool fixed_name;

/* --- one run ---------------------------------------------------------------------------------- */

struct run {
    struct starve *memory;
    struct fake_zk *zk;
    struct candidate starving; /* its client runs in this thread */
    struct candidate rival;
    int outcome;       /* of opening and starting the one under test */
    const char *wrong; /* NULL: all was right */
};

/* Runs the client until something is true; starved is off while that is asked. */
static bool pump(struct run *r, bool (*until)(struct run *r))
{
    for (int64_t end = now_ns() + (int64_t)PATIENCE_MS * 1000000; now_ns() < end;) {
        if (until(r)) {
            return true;
        }
        struct pollfd fd = {.fd = conclave_client_fd(r->starving.client), .events = POLLIN};
        int64_t wait = conclave_client_timeout_ms(r->starving.client);
        (void)poll(&fd, 1, wait < 0 || wait > 2 ? 2 : (int)wait);
        starve_enter(r->memory);
        int rc = conclave_client_dispatch(r->starving.client);
        starve_leave();
        if (rc != 0) {
            r->wrong = "the client's loop ended";
            return false;
        }
    }
    return false;
}

static bool closed(struct run *r)
{
    return CLOSED(&r->starving) > 0;
}

static bool ready_or_closed(struct run *r)
{
    return closed(r) || (fixed_name && LEADS(&r->starving)) ||
           (LEADS(&r->starving) &&
            fake_zk_owner(r->zk, LEADER_DIR "/current") == candidate_session(&r->starving));
}

static bool rival_waits(struct run *r)
{
    return closed(r) || (fixed_name && fake_zk_count(r->zk, 1, WIRE_GET_DATA) > 0) ||
           fake_zk_child_count(r->zk, ELECTION_PATH) == 2;
}

static bool leads_with_new_data(struct run *r)
{
    char data[256];
    const char *wanted = fixed_name ? "more" : "starving\nmore";
    return closed(r) || (fake_zk_data(r->zk, fixed_name ? ELECTION_PATH : LEADER_DIR "/current",
                                      data, sizeof data) &&
                         strstr(data, wanted) != NULL);
}

static bool queued_behind(struct run *r)
{
    bool led = LEADS(&r->rival) || LEADS(&r->starving); /* either may win the race */
    return closed(r) || (fixed_name && REVOKED(&r->starving) > 0 && led) ||
           (LEADS(&r->rival) && candidate_has_node(&r->starving) &&
            fake_zk_child_count(r->zk, ELECTION_PATH) == 2);
}

static bool start_rival(struct run *r)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_election_options election = candidate_options("rival");
    election.naming = fixed_name ? CONCLAVE_NAMING_FIXED : CONCLAVE_NAMING_NATIVE;
    (void)pthread_mutex_init(&r->rival.lock, NULL);
    options.servers = fake_zk_address(r->zk, 1);
    options.session_timeout_ms = SESSION_MS * 5L;
    return conclave_client_open(&options, &r->rival.client) == 0 &&
           conclave_client_start(r->rival.client) == 0 &&
           conclave_recipes_open(r->rival.client, &r->rival.recipes) == 0 &&
           conclave_election_open(r->rival.recipes, &election, &candidate_callbacks, &r->rival,
                                  &r->rival.election) == 0;
}

static int start_starving(struct run *r)
{
    static const struct conclave_acl acl = {CONCLAVE_PERM_ALL, "world", "anyone"};
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_election_options election = candidate_options("starving");
    election.naming = fixed_name ? CONCLAVE_NAMING_FIXED : CONCLAVE_NAMING_NATIVE;
    (void)pthread_mutex_init(&r->starving.lock, NULL);
    options.servers = fake_zk_address(r->zk, 0);
    options.session_timeout_ms = SESSION_MS * 5L;
    election.data = "data";
    election.data_len = 4;
    election.acl = &acl;
    election.acl_count = 1;
    election.observe = true;
    election.takeover_delay_ms = 1;
    int error = conclave_client_open(&options, &r->starving.client);
    if (error == 0) {
        error = conclave_recipes_open(r->starving.client, &r->starving.recipes);
    }
    if (error == 0) {
        error = conclave_election_open(r->starving.recipes, &election, &candidate_callbacks,
                                       &r->starving, &r->starving.election);
    }
    return error;
}

/* Leads, changes its data, gives way, queues again, leaves. */
static const char *lead(struct run *r)
{
    if (!pump(r, ready_or_closed)) {
        return "neither led nor ended";
    }
    if (!start_rival(r)) {
        return "no rival";
    }
    if (!pump(r, rival_waits)) {
        return "the rival does not wait";
    }
    starve_enter(r->memory);
    int error = conclave_election_set_data(r->starving.election, "more", 4);
    starve_leave();
    if (error != 0 && error != CONCLAVE_ENOMEM) {
        return "the data was refused";
    }
    if (error == 0 && !pump(r, leads_with_new_data)) {
        return "the data was not written";
    }
    starve_enter(r->memory);
    error = conclave_election_resign(r->starving.election, true);
    starve_leave();
    if (error != 0 || !pump(r, queued_behind)) {
        return "did not give way";
    }
    starve_enter(r->memory);
    conclave_election_close(r->starving.election);
    starve_leave();
    if (!pump(r, closed)) {
        return "did not close";
    }
    int why = r->starving.closed_why;
    return why == CONCLAVE_ECLOSED || why == CONCLAVE_ENOMEM || why == CONCLAVE_ECANCELED
               ? NULL
               : "ended for another reason";
}

static bool rival_closes(struct run *r)
{
    if (conclave_election_close_wait(r->rival.election, PATIENCE_MS) != 0) {
        return false;
    }
    conclave_election_destroy(r->rival.election);
    conclave_recipes_destroy(r->rival.recipes);
    conclave_client_close(r->rival.client, 1000);
    return r->rival.broken == 0;
}

static const char *check(struct run *r)
{
    const struct candidate *both[] = {&r->starving, &r->rival};
    if (r->starving.broken != 0 || r->starving.elected != r->starving.revoked) {
        return "callbacks did not alternate";
    }
    for (int a = 0; a < 2; a++) {
        for (int i = 0; i < both[a]->elected; i++) {
            for (int j = 0; j < both[1 - a]->elected; j++) {
                const struct term *x = &both[a]->terms[i];
                const struct term *y = &both[1 - a]->terms[j];
                if (y->from_ns >= x->from_ns && (y->from_ns < x->to_ns || y->token <= x->token)) {
                    return "two led at once, or a token did not grow";
                }
            }
        }
    }
    bool left = fixed_name ? fake_zk_exists(r->zk, ELECTION_PATH)
                           : fake_zk_child_count(r->zk, ELECTION_PATH) > 0;
    return left ? "a node was left" : NULL;
}

/* With the nth allocation failing. Whether one failed. */
static bool run_once(struct run *r, long n, bool replies_lost)
{
    struct starve *memory = r->memory;
    memset(r, 0, sizeof *r);
    r->memory = memory;
    r->zk = fake_zk_start();
    if (r->zk == NULL) {
        r->wrong = "no server";
        return false;
    }
    if (replies_lost) { /* the parent is made, too */
        hook(r->zk, 0, WIRE_CREATE, fixed_name ? "/election" : "-n_", 1, FAKE_DROP_REPLY);
        hook(r->zk, 0, WIRE_MULTI, fixed_name ? "/election" : "session=0x", 1, FAKE_DROP_REPLY);
    } else if (fixed_name) {
        fake_zk_create(r->zk, "/app", "", 0);
    } else {
        make_parent(r->zk);
    }
    long before = starve_live(memory);
    starve_arm(memory, n);
    starve_enter(r->memory);
    r->outcome = start_starving(r);
    starve_leave();
    if (r->outcome == 0) {
        r->wrong = lead(r);
    } else if (r->outcome != CONCLAVE_ENOMEM) {
        r->wrong = "could not start, and not for want of memory";
    }
    if (r->wrong != NULL) {
        return false; /* what still runs may use it */
    }
    bool failed = starve_failed(memory);
    starve_arm(memory, -1);
    starve_enter(r->memory);
    conclave_election_destroy(r->starving.election);
    conclave_recipes_destroy(r->starving.recipes);
    conclave_client_close(r->starving.client, 1000);
    starve_leave();
    if (r->rival.election != NULL && !rival_closes(r)) {
        r->wrong = "the rival did not close";
    } else {
        r->wrong = check(r);
    }
    if (n >= 0 && starve_live(memory) != before) {
        r->wrong = "leaked";
    }
    fake_zk_stop(r->zk);
    return failed;
}

/* --- all of them ------------------------------------------------------------------------------ */

enum { BESIDE = 12 };

static atomic_long next_n;
static atomic_long last_failed;
static atomic_int wrong;
static bool lose_replies;

/* Takes numbers until one is beyond the last allocation. */
static void *worker(void *arg)
{
    struct run *r = calloc(1, sizeof *r);
    if (r == NULL || (r->memory = starve_create()) == NULL) {
        atomic_fetch_add(&wrong, 1);
        free(r);
        return NULL;
    }
    (void)run_once(r, -1, lose_replies); /* memory that the C library keeps is allocated now */
    if (r->wrong != NULL) {
        print_error("no allocation failed: %s\n", r->wrong);
    }
    for (bool failed = true; failed && r->wrong == NULL;) {
        long n = atomic_fetch_add(&next_n, 1);
        failed = run_once(r, n, lose_replies);
        if (r->wrong != NULL) {
            print_error("allocation %ld: %s\n", n, r->wrong);
        } else if (failed && n > atomic_load(&last_failed)) {
            atomic_store(&last_failed, n);
        }
    }
    if (r->wrong != NULL) {
        atomic_fetch_add(&wrong, 1);
        return r; /* what still runs may use it */
    }
    starve_destroy(r->memory);
    free(r);
    return NULL;
}

static void sweep(bool with_replies_lost)
{
    pthread_t threads[BESIDE];
    lose_replies = with_replies_lost;
    atomic_store(&next_n, 0);
    atomic_store(&last_failed, 0);
    for (int i = 0; i < BESIDE; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, worker, NULL), 0);
    }
    for (int i = 0; i < BESIDE; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    print_message("%ld allocations failed\n", atomic_load(&last_failed) + 1);
    assert_int_equal(atomic_load(&wrong), 0);
    assert_in_range(atomic_load(&last_failed), 80, 5000); /* fewer under sanitizers */
}

static void every_allocation_fails_once(void **state)
{
    sweep(false);
}

static void every_allocation_fails_once_with_replies_lost(void **state)
{
    sweep(true);
}

static void every_allocation_fails_once_on_a_fixed_name(void **state)
{
    fixed_name = true;
    sweep(false);
    sweep(true);
    fixed_name = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_fails_once),
        cmocka_unit_test(every_allocation_fails_once_with_replies_lost),
        cmocka_unit_test(every_allocation_fails_once_on_a_fixed_name),
    };
    return RUN_TESTS(tests);
}
