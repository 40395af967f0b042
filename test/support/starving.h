/*
 * Fails each allocation of a recipe once: a scene (a function that opens a handle, uses all its
 * functions and closes it) runs again and again, each time with a later allocation
 * failing, in the program's thread, the client's or one of the recipe's. Each time every call of
 * the scene must succeed, at the second attempt if the first gave CONCLAVE_ENOMEM; or the handle ends
 * and all calls succeed with another handle. No ephemeral node may be left, and all memory must be freed.
 */
#ifndef SUPPORT_STARVING_H
#define SUPPORT_STARVING_H

#include "support/candidate.h"
#include "support/starve.h"

struct starving {
    struct starve *memory;
    struct fake_zk *zk;
    struct conclave_client *client; /* on endpoint 0 */
    struct conclave_recipes *recipes;
    struct conclave_client *rival_client; /* on endpoint 1, without failing allocations */
    struct conclave_recipes *rival;
    const char *wrong; /* NULL: all was right */
    _Atomic int told;  /* for the scene's callbacks; 0 at its start */
    _Atomic int told_closed;
};

/* 0; or CONCLAVE_ENOMEM: run the scene again. It has closed everything in both cases. */
typedef int (*starving_scene)(struct starving *s);

/* rival: the scene uses s->rival. */
void starving_sweep(starving_scene scene, bool rival, long at_least);

/* A call that may fail once for lack of memory. */
#define TWICE(error, call)                                                                         \
    do {                                                                                           \
        (error) = (call);                                                                          \
        if ((error) == CONCLAVE_ENOMEM) {                                                          \
            (error) = (call);                                                                      \
        }                                                                                          \
    } while (0)

/* A check after a successful call; ends the scene with the text of the fault. */
#define MUST(s, error, what)                                                                       \
    do {                                                                                           \
        if ((error) != 0 && (error) != CONCLAVE_ENOMEM && (s)->wrong == NULL) {                    \
            print_error("%s: %s\n", what, conclave_errname(error));                                \
            (s)->wrong = what;                                                                     \
        }                                                                                          \
    } while (0)

#define CHECK(s, condition, what)                                                                  \
    do {                                                                                           \
        if (!(condition) && (s)->wrong == NULL) {                                                  \
            (s)->wrong = what;                                                                     \
        }                                                                                          \
    } while (0)

/* Runs a statement without failing allocations. */
#define FED(s, statement)                                                                          \
    do {                                                                                           \
        starve_leave();                                                                            \
        statement;                                                                                 \
        starve_enter((s)->memory);                                                                 \
    } while (0)

/* Waits until a condition is true. */
#define AWAIT(s, condition, what)                                                                  \
    do {                                                                                           \
        int64_t end_ = now_ns() + (int64_t)PATIENCE_MS * 1000000;                                  \
        while (!(condition) && now_ns() < end_) {                                                  \
            sleep_ms(1);                                                                           \
        }                                                                                          \
        CHECK(s, condition, what);                                                                 \
    } while (0)

#endif
