/* Runs when the build is configured: checks that the linked libraft keeps a member's match index where raft_progress.h
 * expects it. Makes a leader of three voters in memory, and lets one of them acknowledge an entry. Exit 0: as expected.
 * 1: another layout. 2: the test itself failed. */
#include "replication/raft/raft_progress.h"

#include <stdio.h>
#include <string.h>

static raft_time now;

static int step(struct raft *r, struct raft_event *event)
{
    struct raft_update update;
    memset(&update, 0, sizeof update);
    event->time = now;
    return raft_step(r, event, &update);
}

static int receive(struct raft *r, struct raft_message *message)
{
    struct raft_event event = {.type = RAFT_RECEIVE, .receive = {.message = message}};
    message->server_id = 2;
    message->server_address = "2";
    return step(r, &event);
}

static int check_raft_start(struct raft *r)
{
    struct raft_snapshot_metadata snapshot = {.index = 5, .term = 1, .configuration_index = 1};
    static const char *const addresses[] = {"1", "2", "3"};
    int rv = 0;
    for (unsigned i = 0; rv == 0 && i < 3; i++) {
        rv = raft_configuration_add(&snapshot.configuration, i + 1, addresses[i], RAFT_VOTER);
    }
    struct raft_event event = {
        .type = RAFT_START,
        .start = {.term = 1, .metadata = &snapshot, .start_index = 6},
    };
    return rv != 0 ? rv : step(r, &event);
}

/* The election timer fires, and member 2 gives its vote. */
static int check_raft_lead(struct raft *r)
{
    struct raft_event timeout = {.type = RAFT_TIMEOUT};
    struct raft_message vote = {.type = RAFT_REQUEST_VOTE_RESULT};
    now = raft_timeout(r);
    int rv = step(r, &timeout);
    vote.request_vote_result = (struct raft_request_vote_result){
        .version = 2,
        .term = raft_current_term(r),
        .vote_granted = true,
    };
    rv = rv != 0 ? rv : receive(r, &vote);
    return rv == 0 && raft_state(r) == RAFT_LEADER ? 0 : -1;
}

static int check_raft_acknowledge(struct raft *r, raft_index index)
{
    struct raft_message result = {.type = RAFT_APPEND_ENTRIES_RESULT};
    result.append_entries_result = (struct raft_append_entries_result){
        .version = 2,
        .term = raft_current_term(r),
        .last_log_index = index,
    };
    return receive(r, &result);
}

int main(void)
{
    struct raft r;
    if (raft_init(&r, NULL, NULL, 1, "1") != 0 || check_raft_start(&r) != 0 ||
        check_raft_lead(&r) != 0 || check_raft_acknowledge(&r, 4) != 0) {
        fprintf(stderr, "check_raft: libraft did not become a leader\n");
        return 2;
    }
    /* Members 1, 2 and 3 have 5, 4 and 0. */
    bool same = raft_progress_set_match(&r, 1, 3) && raft_progress_set_match(&r, 2, 2) &&
                *raft_progress_match(&r, 0) == 5 && check_raft_acknowledge(&r, 5) == 0 &&
                *raft_progress_match(&r, 1) == 5;
    raft_close(&r, NULL);
    return same ? 0 : 1;
}
