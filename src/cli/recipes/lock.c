/* conclave lock: arguments, help, and how to hold a lock (hold_command.h). */
#include "cli/recipes/acquire.h"
#include "cli/recipes/hand_over.h"
#include "cli/recipes/hold_functions.h"

#include <conclave/lock.h>

struct lock_options {
    struct hold_options hold;
    bool read;
    bool write;
    int naming; /* index of lock_namings */
    const char *hand_over_to;
};

static const enum conclave_naming lock_namings[] = {
    CONCLAVE_NAMING_NATIVE, CONCLAVE_NAMING_CURATOR_LATCH, CONCLAVE_NAMING_CURATOR_LOCK,
    CONCLAVE_NAMING_KAZOO, CONCLAVE_NAMING_PLAIN};

#define FIELD(name) offsetof(struct lock_options, name)

static const struct option_row ROWS[] = {
    OPTION_GROUP(ACQUIRE_ROWS, FIELD(hold)),
    {"read", 0, OPTION_FLAG, FIELD(read), NULL, "Share it with readers; wait for writers."},
    {"write", 0, OPTION_FLAG, FIELD(write), NULL,
     "Hold it alone, among readers. Without --read and --write: hold it alone."},
    /* In the order of lock_namings. */
    {"naming", 0, OPTION_CHOICE, FIELD(naming), "native|latch|lock|kazoo|plain",
     "Names of the contenders' nodes, to share PATH with other clients. native, the default: "
     "Conclave's; latch: those of Curator's LeaderLatch; lock: those of its InterProcessMutex, "
     "InterProcessReadWriteLock and LeaderSelector, and of go-zookeeper's Lock; kazoo: those of "
     "kazoo's locks and Election; plain: numbers alone, as gozk's GlobalLock has them."},
    {"hand-over", 0, OPTION_STRING, FIELD(hand_over_to), "ID",
     "Give the lock to the contender ID (an id or node of --list) in place of the present holder, "
     "within --timeout; default 1m. The holder's CMD is ended first; the contenders between the two "
     "go to the end of the line. Only with the names of --naming native, and only if the holder is "
     "this command or a program that obeys such requests."},
    OPTION_GROUP(HOLD_ROWS, FIELD(hold)),
    {.name = NULL},
};

static const char ABOUT[] =
    "Runs CMD only while this process holds the lock on PATH. Contenders get the lock one after the "
    "other, in the order of their arrival; with --read all readers hold it together. When the lock "
    "is lost, CMD and all its descendants are ended before another contender gets it, even if this "
    "process is stopped or killed. CMD is executed directly, not by a shell.\n"
    "\n"
    "When CMD ends, the processes that it left running are ended, too, and the lock is released "
    "before this process ends. INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to CMD. "
    "While this process waits, all but WINCH end the waiting.\n"
    "\n"
    "Without CMD: prints node and token and holds the lock until its input ends or a signal comes.";

static const char MORE[] =
    "CMD gets the environment that \"conclave elect\" gives; CONCLAVE_ROLE is holder, reader or "
    "writer.\n"
    "\n"
    "--list prints titles, then a line for each contender: role, node, token, time of its arrival, "
    "id, with tabs between; with --json an object.\n"
    "\n"
    "Exit codes: as of \"conclave elect\"; 75 also when the lock is not free (--try). The session "
    "timeout must be at least three ticks of the server.\n";

static const struct command_usage USAGE = {
    .name = "lock",
    .forms = (const char *const[]){"PATH [options] -- CMD [ARGS...]", "PATH [options]",
                                   "--list PATH", "PATH --hand-over ID", NULL},
    .about = ABOUT,
    .rows = ROWS,
    .more = MORE,
    .client = true,
    .runs_command = true,
    .operands = {1, 1},
};

/* --- holding ---------------------------------------------------------------------------------- */

HOLD_FUNCTIONS(lock)

static void lock_on_acquired(struct conclave_lock *lock, int error, struct conclave_token token,
                             void *ctx)
{
    hold_answered(ctx, error, token.czxid, error == 0 ? conclave_lock_lease_until_ns(lock) : 0);
}

/* Ends CMD as if the lock was lost; the main thread then releases it. */
static void lock_on_hand_over(struct conclave_lock *lock, void *ctx)
{
    hold_revoked(ctx, CONCLAVE_ECANCELED, conclave_lock_lease_left_ms(lock));
}

static int lock_start(struct hold *r, void **ret_holding)
{
    static const struct conclave_lock_callbacks callbacks = {.size = sizeof callbacks,
                                                             .on_lost = lock_hold_lost,
                                                             .on_closed = lock_hold_closed,
                                                             .on_hand_over_request =
                                                                 lock_on_hand_over};
    const struct lock_options *own = r->options->own;
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_lock *lock;
    options.path = r->options->path;
    options.id = r->options->id;
    options.kind = own->read    ? CONCLAVE_LOCK_READ
                   : own->write ? CONCLAVE_LOCK_WRITE
                                : CONCLAVE_LOCK_EXCLUSIVE;
    options.lease.grace_ms = hold_lease_grace_ms(r);
    options.naming = lock_namings[own->naming];
    int error = conclave_lock_open(r->recipes, &options, &callbacks, r, &lock);
    if (error != 0) {
        return error;
    }
    *ret_holding = lock;
    error = conclave_lock_acquire_async(lock, 1, hold_acquire_ms(r), lock_on_acquired, r);
    if (error != 0) {
        hold_failed(r, error); /* the handle has to be closed */
    }
    return 0;
}

#define LOCK_KIND(role_)                                                                           \
    {                                                                                              \
        .role = (role_), .lost = "lock lost", .withdrawn = "the lock is released",                 \
        .handed_over = "handed over, as an operator asked", .busy = "held by another",             \
        .late = "not acquired", .see = "who holds it", .start = lock_start,                        \
        HOLD_FUNCTIONS_OF(lock)                                                                    \
    }

static const struct hold_kind HOLDER = LOCK_KIND("holder");
static const struct hold_kind READER = LOCK_KIND("reader");
static const struct hold_kind WRITER = LOCK_KIND("writer");

/* --- arguments -------------------------------------------------------------------------------- */

int command_lock(int argc, char **argv)
{
    struct lock_options o = {.hold = HOLD_OPTIONS_INIT};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &o, &operands);
    if (code == OPTIONS_GO_ON) {
        const struct hold_kind *kind = o.read ? &READER : o.write ? &WRITER : &HOLDER;
        code = hold_options_finish(&o.hold, &USAGE, kind, &o, &operands);
    }
    if (code == OPTIONS_GO_ON) {
        enum conclave_naming naming = lock_namings[o.naming];
        bool alone = naming == CONCLAVE_NAMING_CURATOR_LATCH || naming == CONCLAVE_NAMING_PLAIN;
        const struct usage_rule rules[] = {
            {o.read && o.write, "give --read or --write, not both"},
            {(o.read || o.write) && alone, "--naming latch and plain have no readers and writers"},
            {o.hand_over_to != NULL && (o.hold.command != NULL || o.hold.list),
             "--hand-over goes without a command and --list"},
            {false, NULL},
        };
        code = usage_check(&USAGE, rules);
    }
    const struct hand_over_form form = {&o.hold, o.hand_over_to, HOLDER.role,
                                        conclave_lock_hand_over};
    return code != OPTIONS_GO_ON    ? code
           : o.hand_over_to != NULL ? hand_over_form_run(&form)
                                    : acquire_run(&o.hold, false);
}
