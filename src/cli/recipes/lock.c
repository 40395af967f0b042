/* conclave lock: arguments, help, and what it holds (hold_command.h). */
#include "cli/common/command.h"
#include "cli/recipes/acquire.h"
#include "cli/recipes/hold_functions.h"

#include <conclave/lock.h>

#include <stdio.h>

/* In the order of enum conclave_naming. */
static const char *const NAMING_CHOICES[] = {"native", "latch", "lock", "kazoo", NULL};

struct lock_options {
    struct acquire_options acquire;
    bool read;
    bool write;
    int naming; /* enum conclave_naming */
};

#define FIELD(name) offsetof(struct lock_options, name)
#define TURN_FIELD(name) offsetof(struct lock_options, acquire.turn.name)

static const struct option_row ROWS[] = {
    ACQUIRE_ROWS("it is not free"),
    {"read", 0, OPTION_FLAG, FIELD(read), NULL, "Share it with readers; wait for writers.", NULL},
    {"write", 0, OPTION_FLAG, FIELD(write), NULL,
     "Hold it alone, among readers. Without --read and --write: hold it alone.", NULL},
    {"naming", 0, OPTION_CHOICE, FIELD(naming), "native|latch|lock|kazoo",
     "Names of the nodes, to share PATH with other clients. native, the default: our own names; lock: those of Curator's InterProcessMutex, InterProcessReadWriteLock and LeaderSelector; latch: those of its LeaderLatch; kazoo: those of kazoo's Lock, ReadLock, WriteLock and Election.",
     NAMING_CHOICES},
    TURN_ROWS(TURN_FIELD),
    {.name = NULL},
};

static const char ABOUT[] =
    "Runs CMD only while this process holds the lock on PATH. Contenders get it one after the "
    "other, in the order in which they came; with --read all that read have it together. When it "
    "is lost, CMD and all that came from it are ended before anybody else gets it, even if this "
    "process is stopped or killed. CMD is executed directly, not by a shell.\n"
    "\n"
    "When CMD ends, what it left running is ended, too, and the lock is released before this "
    "process ends. INT, TERM, HUP, QUIT, USR1, USR2 and WINCH are passed on to CMD; while "
    "waiting, all but WINCH end the waiting.\n"
    "\n"
    "Without CMD: prints node and token and holds the lock until its input ends or a signal "
    "comes.";

static const char MORE[] =
    "CMD finds in its environment:\n"
    "  CONCLAVE_TOKEN               fencing token, decimal: larger than all before;\n"
    "                               let what you write to refuse smaller ones\n"
    "  CONCLAVE_PATH, _NODE, _ID    lock, this contender's node, its name\n"
    "  CONCLAVE_SESSION             session id, 0x...\n"
    "  CONCLAVE_SESSION_TIMEOUT_MS  its timeout, as the server granted it\n"
    "  CONCLAVE_LEASE_FD            descriptor: a byte or its end means: lost, stop\n"
    "  CONCLAVE_LEASE_SHM_FD        descriptor of the lease's page, as of elect\n"
    "  CONCLAVE_ROLE                holder, reader or writer\n"
    "\n"
    "--list prints titles, then a line for each: role, node, token, since when it has been there, id, tabs "
    "between; with --json an object.\n"
    "\n"
    "Exit codes: CMD's own; 128+n when it died of signal n, or when signal n came while waiting; "
    "126, 127 CMD cannot be executed, was not found; 64 wrong arguments; 69 cannot connect; 71 CMD "
    "ran as another user and could not be ended in time; 73 the "
    "guardian failed; 75 not got in time, or not free; 76 lock lost and CMD ended; 77 not "
    "permitted. --status-fd tells CMD's own 64 to 78 from these, as of elect. The session timeout "
    "must be at least three ticks of the server.\n";

static const struct command_usage USAGE = {
    .name = "lock",
    .forms = (const char *const[]){"PATH [options] -- CMD [ARGS...]", "PATH [options]",
                                   "--list PATH", NULL},
    .about = ABOUT,
    .rows = ROWS,
    .more = MORE,
    .client = true,
    .runs_command = true,
    .operands_min = 1,
    .operands_max = 1,
};

/* --- holding ---------------------------------------------------------------------------------- */

HOLD_FUNCTIONS(lock)

static void lock_on_acquired(struct conclave_lock *lock, int error, struct conclave_token token,
                             void *ctx)
{
    if (error == 0) {
        hold_granted(ctx, token.czxid, conclave_lock_lease_until_ns(lock));
    } else {
        hold_failed(ctx, error);
    }
}

static int lock_start(struct hold *r, void **ret_holding)
{
    static const struct conclave_lock_callbacks callbacks = {.on_lost = lock_hold_lost,
                                                             .on_closed = lock_hold_closed};
    const struct lock_options *own = r->options->own;
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    struct conclave_lock *lock;
    options.path = r->options->path;
    options.id = r->options->id;
    options.kind = own->read    ? CONCLAVE_LOCK_READ
                   : own->write ? CONCLAVE_LOCK_WRITE
                                : CONCLAVE_LOCK_EXCLUSIVE;
    options.lease.grace_ms = r->options->grace_ms > 0 ? r->options->grace_ms : 0;
    options.naming = (enum conclave_naming)own->naming;
    int error = conclave_lock_open(r->recipes, &options, &callbacks, r, &lock);
    if (error != 0) {
        return error;
    }
    *ret_holding = lock;
    int64_t timeout =
        own->acquire.try ? 0 : CONCLAVE_FOREVER; /* --timeout is counted by the turn */
    error = conclave_lock_acquire_async(lock, 1, timeout, lock_on_acquired, r);
    if (error != 0) {
        hold_failed(r, error); /* the handle has to be closed */
    }
    return 0;
}

static void lock_tell_timeout(const struct hold *r)
{
    bool try = ((const struct acquire_options *)r->options->own)->try;
    acquire_tell_timeout(r, "held by another", "not got", try ? "by whom" : "who holds it");
}

#define KIND(role_)                                                                                \
    {                                                                                              \
        .thing = "lock", .role = (role_), .lost = "lock lost",                                     \
        .withdrawn = "the lock is released", .start = lock_start, HOLD_FUNCTIONS_OF(lock),         \
        .tell_timeout = lock_tell_timeout                                                          \
    }

static const struct hold_kind HOLDER = KIND("holder");
static const struct hold_kind READER = KIND("reader");
static const struct hold_kind WRITER = KIND("writer");

/* --- arguments -------------------------------------------------------------------------------- */

static int lock_check(const struct lock_options *options)
{
    if (options->read && options->write) {
        return usage_error(&USAGE, "give --read or --write, not both");
    }
    if ((options->read || options->write) && options->naming == CONCLAVE_NAMING_CURATOR_LATCH) {
        return usage_error(&USAGE, "--naming latch has no readers and writers");
    }
    return OPTIONS_GO_ON;
}

int command_lock(int argc, char **argv)
{
    struct lock_options options = {.acquire.turn = TURN_OPTIONS_INIT};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    if (code == OPTIONS_GO_ON) {
        code = acquire_finish(&options.acquire, &USAGE,
                              options.read    ? &READER
                              : options.write ? &WRITER
                                              : &HOLDER,
                              &operands);
    }
    if (code == OPTIONS_GO_ON) {
        code = lock_check(&options);
    }
    return code != OPTIONS_GO_ON ? code : acquire_run(&options.acquire, false);
}
