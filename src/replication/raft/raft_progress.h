/*
 * Write access to the match index, up to which libraft's leader believes a member to have the log. libraft's interface
 * only reads it (raft_match_index). It is in an array of one struct raft_progress per member, whose layout raft.h does
 * not declare.
 *
 * The layout below is that of libraft 0.22. check_raft.c tests it against the linked library each time the build is
 * configured. Every use tests it again, because a shared library may be replaced later: before and after the write, the
 * values of all members must agree with raft_match_index.
 */
#ifndef REPLICATION_RAFT_RAFT_PROGRESS_H
#define REPLICATION_RAFT_RAFT_PROGRESS_H

#include <raft.h>
#include <stdbool.h>

enum { RAFT_PROGRESS_SIZE = 56, RAFT_PROGRESS_MATCH = 16 };

/* The match index of the member at position i of the configuration. */
static inline raft_index *raft_progress_match(const struct raft *r, unsigned i)
{
    char *all = (char *)r->leader_state.progress;
    return (raft_index *)(void *)(all + (size_t)i * RAFT_PROGRESS_SIZE + RAFT_PROGRESS_MATCH);
}

/* Whether the values of all members agree with raft_match_index. Only for a leader. */
static inline bool raft_progress_agrees(const struct raft *r)
{
    for (unsigned i = 0; i < r->configuration.n; i++) {
        raft_index match;
        if (raft_match_index(r, r->configuration.servers[i].id, &match) != 0 ||
            match != *raft_progress_match(r, i)) {
            return false;
        }
    }
    return true;
}

/* Sets the match index of the member at position i. False: the layout is another one, and nothing was changed. */
static inline bool raft_progress_set_match(struct raft *r, unsigned i, raft_index match)
{
    if (!raft_progress_agrees(r)) {
        return false;
    }
    raft_index *place = raft_progress_match(r, i);
    raft_index before = *place;
    *place = match;
    if (!raft_progress_agrees(r)) {
        *place = before;
        return false;
    }
    return true;
}

#endif
