/*
 * Every allocation of locks and semaphores fails once, in turn: alone, beside a rival that holds the
 * lock, and beside one that waits for it. Nobody holds it beside another, whatever failed.
 */
#include "support/starving.h"

#include <conclave/lock.h>
#include <conclave/op.h>
#include <conclave/semaphore.h>

#define LOCK_PATH "/app/lock"

enum { OWNER = 7, UNTOLD = 1 };

static void on_closed(struct conclave_lock *lock, int why, void *ctx)
{
    ((struct starving *)ctx)->told_closed++;
}

static void on_granted(struct conclave_lock *lock, int error, struct conclave_token token,
                       void *ctx)
{
    ((struct starving *)ctx)->told = error;
}

static enum conclave_naming lock_naming;

static int lock_open(struct starving *s, struct conclave_recipes *recipes, const char *path,
                     enum conclave_lock_kind kind, struct conclave_lock **ret)
{
    static const struct conclave_lock_callbacks callbacks = {sizeof callbacks, NULL, NULL,
                                                             on_closed, NULL};
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    options.path = path;
    options.naming = lock_naming;
    options.kind = lock_naming == CONCLAVE_NAMING_PLAIN ? CONCLAVE_LOCK_EXCLUSIVE : kind;
    options.recursive = kind == CONCLAVE_LOCK_EXCLUSIVE;
    return conclave_lock_open(recipes, &options, recipes == s->rival ? NULL : &callbacks, s, ret);
}

static void lock_end(struct starving *s, struct conclave_lock *lock)
{
    int error;
    if (lock == NULL) {
        return;
    }
    error = conclave_lock_close_wait(lock, PATIENCE_MS);
    CHECK(s, error == 0, "did not close");
    if (error == 0) {
        conclave_lock_destroy(lock);
    }
}

/* The lock's purpose: a write that counts only while it is held. */
static void write_fenced(struct starving *s, struct conclave_lock *lock)
{
    const struct conclave_op part = conclave_op_set("/app", "x", 1, -1);
    struct conclave_reply *reply = NULL;
    int error;
    error = conclave_lock_fenced_multi(lock, &part, 1, &reply);
    if (error == CONCLAVE_ENOMEM) {
        conclave_reply_free(reply);
        error = conclave_lock_fenced_multi(lock, &part, 1, &reply);
    }
    CHECK(s, error == 0, "a fenced write that was tried again");
    conclave_reply_free(reply);
}

static void change_kind(struct starving *s, struct conclave_lock *lock)
{
    int error;
    TWICE(error, conclave_lock_downgrade(lock, PATIENCE_MS));
    MUST(s, error, "downgrade");
    CHECK(s, error == 0, "downgrade, tried again");
    TWICE(error, conclave_lock_try_upgrade(lock, PATIENCE_MS));
    MUST(s, error, "upgrade");
    CHECK(s, error == 0, "upgrade, tried again");
}

static void while_held(struct starving *s, struct conclave_lock *lock, struct conclave_lock *rival,
                       enum conclave_lock_kind kind)
{
    int error;
    CHECK(s, conclave_lock_is_held(lock), "granted and not held");
    FED(s, error = conclave_lock_try(rival, NULL));
    CHECK(s, error == CONCLAVE_EBUSY, "the rival got it as well");
    write_fenced(s, lock);
    if (kind == CONCLAVE_LOCK_EXCLUSIVE) {
        TWICE(error, conclave_lock_acquire(lock, PATIENCE_MS, NULL));
        CHECK(s, error == 0 && conclave_lock_release(lock, PATIENCE_MS) == 0, "not recursive");
    } else if (kind == CONCLAVE_LOCK_WRITE) {
        change_kind(s, lock);
    }
    FED(s, error = conclave_lock_try(rival, NULL));
    CHECK(s, error == CONCLAVE_EBUSY, "the rival got it as well, later");
    error = conclave_lock_release(lock, PATIENCE_MS);
    CHECK(s, error == 0, "not released");
}

/* Waits for the rival. 0, or CONCLAVE_ENOMEM: it gave up waiting, and nothing is left of it. */
static int wait_behind(struct starving *s, struct conclave_lock *lock, struct conclave_lock *rival)
{
    int error;
    FED(s, error = conclave_lock_acquire(rival, PATIENCE_MS, NULL));
    CHECK(s, error == 0, "the rival does not get what was released");
    if (lock_naming != CONCLAVE_NAMING_PLAIN) {
        TWICE(error, conclave_lock_request_revoke(lock, PATIENCE_MS));
        CHECK(s, error == 0, "asking the holder");
    }
    s->told = UNTOLD;
    TWICE(error, conclave_lock_acquire_async(lock, OWNER, PATIENCE_MS, on_granted, s));
    MUST(s, error, "waiting for it");
    if (error != 0) {
        int freed;
        FED(s, freed = conclave_lock_release(rival, PATIENCE_MS));
        CHECK(s, freed == 0, "the rival cannot let go");
        return error;
    }
    AWAIT(s, s->told != UNTOLD || fake_zk_child_count(s->zk, LOCK_PATH) == 2, "does not wait");
    CHECK(s, s->told != 0, "granted beside the rival");
    FED(s, error = conclave_lock_release(rival, PATIENCE_MS));
    CHECK(s, error == 0, "the rival cannot let go");
    AWAIT(s, s->told != UNTOLD, "never told");
    error = s->told;
    if (error == 0) {
        TWICE(error, conclave_lock_release_async(lock, OWNER, NULL, NULL));
        MUST(s, error, "letting go");
    }
    return error;
}

static int lock_scene(struct starving *s, enum conclave_lock_kind kind)
{
    struct conclave_lock *lock = NULL;
    struct conclave_lock *rival = NULL;
    struct conclave_token token;
    int error;
    FED(s, error = lock_open(s, s->rival, LOCK_PATH, CONCLAVE_LOCK_WRITE, &rival));
    CHECK(s, error == 0, "no rival");
    TWICE(error, lock_open(s, s->recipes, LOCK_PATH, kind, &lock));
    MUST(s, error, "create");
    if (s->wrong == NULL && error == 0) {
        TWICE(error, conclave_lock_acquire(lock, PATIENCE_MS, &token));
        MUST(s, error, "acquire");
        CHECK(s, error == 0, "acquire, tried again");
    }
    if (s->wrong == NULL && error == 0) {
        while_held(s, lock, rival, kind);
    }
    if (s->wrong == NULL && error == 0) {
        TWICE(error, wait_behind(s, lock, rival));
    }
    if (s->wrong == NULL) {
        lock_end(s, lock);
        CHECK(s, lock == NULL || s->told_closed == 1, "the end was not told once");
        FED(s, lock_end(s, rival));
    }
    return error;
}

static int mutex_scene(struct starving *s)
{
    return lock_scene(s, CONCLAVE_LOCK_EXCLUSIVE);
}

static int writer_scene(struct starving *s)
{
    return lock_scene(s, CONCLAVE_LOCK_WRITE);
}

static int reader_scene(struct starving *s)
{
    return lock_scene(s, CONCLAVE_LOCK_READ);
}

static int several_scene(struct starving *s)
{
    static const char *const paths[] = {"/app/b", "/app/c", "/app/a"};
    struct conclave_lock *locks[3] = {NULL};
    int error = 0;
    for (int i = 0; i < 3 && error == 0; i++) {
        TWICE(error, lock_open(s, s->recipes, paths[i], CONCLAVE_LOCK_EXCLUSIVE, &locks[i]));
        MUST(s, error, "create");
    }
    if (error == 0) {
        error = conclave_locks_acquire(locks, 3, PATIENCE_MS);
        MUST(s, error, "acquire");
        if (error != 0) { /* none of them */
            CHECK(s,
                  !conclave_lock_is_held(locks[0]) && !conclave_lock_is_held(locks[1]) &&
                      !conclave_lock_is_held(locks[2]),
                  "some are held");
            error = conclave_locks_acquire(locks, 3, PATIENCE_MS);
            MUST(s, error, "acquire, tried again");
        }
    }
    if (error == 0) {
        CHECK(s,
              conclave_lock_is_held(locks[0]) && conclave_lock_is_held(locks[1]) &&
                  conclave_lock_is_held(locks[2]),
              "not all are held");
        error = conclave_locks_release(locks, 3, PATIENCE_MS);
        MUST(s, error, "release");
    }
    for (int i = 0; i < 3; i++) {
        lock_end(s, locks[i]);
    }
    return error;
}

/* --- semaphore ----------------------------------------------------------------------------------- */

static enum conclave_naming semaphore_naming;

/* A waiter has its node behind the holder's, or in the gate. */
static bool semaphore_has_waiter(const struct starving *s)
{
    return semaphore_naming == CONCLAVE_NAMING_NATIVE
               ? fake_zk_child_count(s->zk, LOCK_PATH) == 2
               : fake_zk_child_count(s->zk, LOCK_PATH "-__lock__") > 0;
}

static int semaphore_open(struct conclave_recipes *recipes, struct conclave_semaphore **ret)
{
    struct conclave_semaphore_options options = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
    options.path = LOCK_PATH;
    options.permits = 1;
    options.naming = semaphore_naming;
    return conclave_semaphore_open(recipes, &options, NULL, NULL, ret);
}

static void semaphore_end(struct starving *s, struct conclave_semaphore *semaphore)
{
    if (semaphore == NULL) {
        return;
    }
    int error = conclave_semaphore_close_wait(semaphore, PATIENCE_MS);
    CHECK(s, error == 0, "did not close");
    if (error == 0) {
        conclave_semaphore_destroy(semaphore);
    }
}

static void on_permit(struct conclave_semaphore *semaphore, int error, struct conclave_token token,
                      void *ctx)
{
    ((struct starving *)ctx)->told = error;
}

static int permit_behind(struct starving *s, struct conclave_semaphore *semaphore,
                         struct conclave_semaphore *rival)
{
    int error;
    FED(s, error = conclave_semaphore_acquire(rival, PATIENCE_MS, NULL));
    CHECK(s, error == 0, "the rival does not get what was released");
    s->told = UNTOLD;
    TWICE(error, conclave_semaphore_acquire_async(semaphore, PATIENCE_MS, on_permit, s));
    MUST(s, error, "waiting for it");
    if (error == 0) {
        AWAIT(s, s->told != UNTOLD || semaphore_has_waiter(s), "does not wait");
        CHECK(s, s->told != 0, "granted beside the rival");
    }
    int freed;
    FED(s, freed = conclave_semaphore_release(rival, PATIENCE_MS));
    CHECK(s, freed == 0, "the rival cannot let go");
    if (error == 0) {
        AWAIT(s, s->told != UNTOLD, "never told");
        error = s->told;
    }
    if (error == 0) {
        TWICE(error, conclave_semaphore_release_async(semaphore, NULL, NULL));
        MUST(s, error, "letting go");
    }
    return error;
}

static int semaphore_scene(struct starving *s)
{
    struct conclave_semaphore *semaphore = NULL;
    struct conclave_semaphore *rival = NULL;
    struct conclave_token token;
    int error;
    FED(s, error = semaphore_open(s->rival, &rival));
    CHECK(s, error == 0, "no rival");
    TWICE(error, semaphore_open(s->recipes, &semaphore));
    MUST(s, error, "create");
    if (error == 0) {
        TWICE(error, conclave_semaphore_acquire(semaphore, PATIENCE_MS, &token));
        MUST(s, error, "acquire");
        CHECK(s, error == 0, "acquire, tried again");
    }
    if (s->wrong == NULL && error == 0) {
        int other;
        FED(s, other = conclave_semaphore_acquire(rival, 0, NULL));
        CHECK(s, other == CONCLAVE_EBUSY, "the rival got it as well");
        error = conclave_semaphore_release(semaphore, PATIENCE_MS);
        CHECK(s, error == 0, "not released");
    }
    if (s->wrong == NULL && error == 0) {
        TWICE(error, permit_behind(s, semaphore, rival));
    }
    if (s->wrong == NULL) {
        semaphore_end(s, semaphore);
        FED(s, semaphore_end(s, rival));
    }
    return error;
}

static void every_allocation_of_a_mutex_fails_once(void **state)
{
    starving_sweep(mutex_scene, true, 40);
}

static void every_allocation_of_a_mutex_of_gozk_fails_once(void **state)
{
    lock_naming = CONCLAVE_NAMING_PLAIN;
    starving_sweep(mutex_scene, true, 40);
    lock_naming = CONCLAVE_NAMING_NATIVE;
}

static void every_allocation_of_a_writer_fails_once(void **state)
{
    starving_sweep(writer_scene, true, 50);
}

static void every_allocation_of_a_reader_fails_once(void **state)
{
    starving_sweep(reader_scene, true, 40);
}

static void every_allocation_of_several_locks_fails_once(void **state)
{
    starving_sweep(several_scene, false, 40);
}

static void every_allocation_of_a_semaphore_fails_once(void **state)
{
    starving_sweep(semaphore_scene, true, 40);
}

static void every_allocation_of_a_semaphore_of_kazoo_fails_once(void **state)
{
    semaphore_naming = CONCLAVE_NAMING_KAZOO;
    starving_sweep(semaphore_scene, true, 40);
    semaphore_naming = CONCLAVE_NAMING_NATIVE;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_of_a_mutex_fails_once),
        cmocka_unit_test(every_allocation_of_a_mutex_of_gozk_fails_once),
        cmocka_unit_test(every_allocation_of_a_writer_fails_once),
        cmocka_unit_test(every_allocation_of_a_reader_fails_once),
        cmocka_unit_test(every_allocation_of_several_locks_fails_once),
        cmocka_unit_test(every_allocation_of_a_semaphore_fails_once),
        cmocka_unit_test(every_allocation_of_a_semaphore_of_kazoo_fails_once),
    };
    return RUN_TESTS(tests);
}
