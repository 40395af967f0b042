/* What conclave inspect tells of a state, wherever it comes from: sessions, kinds of nodes, and the largest branches. */
#ifndef CLI_MIGRATE_INSPECT_CONTENTS_H
#define CLI_MIGRATE_INSPECT_CONTENTS_H

#include "base/json.h"
#include "state/state.h"
#include "tree/branches.h"

/* Nodes by what ends them; each is in exactly one. */
struct node_kinds {
    size_t persistent;
    size_t ephemeral;
    size_t container;
    size_t ttl;
};

struct inspect_contents {
    const struct state *state;
    struct state_stats stats;
    struct node_kinds kinds;
    size_t foreign_sessions; /* opened by Conclave: their passwords do not follow from the id */
    int32_t timeout_min_ms;  /* of the sessions; 0: there are none */
    int32_t timeout_max_ms;
    struct branch *branches;
    size_t shown;
    size_t count; /* of branches at that depth */
};

/* Looks at all of it. 0 or CONCLAVE_ENOMEM. The state stays the caller's and is to outlive *ret. */
int inspect_contents_make(const struct state *s, unsigned depth, size_t top,
                          struct inspect_contents *ret) CONCLAVE_MUST_USE;
void inspect_contents_finish(struct inspect_contents *c);

/* Lines on stdout: the counts; and the table of branches behind a blank line. */
void inspect_contents_print(const struct inspect_contents *c);
void inspect_branches_print(const struct inspect_contents *c);

/* Members of the object that is open. */
void inspect_contents_json(const struct inspect_contents *c, struct json *j);

/* ", 2026-01-31T17:00:00Z" behind a line, nothing for 0. */
void inspect_print_time(int64_t time_ms);

#endif
