#include "cluster/replication_notes.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *event;
    const char *advice;
} ADVICE[] = {
    {"entry_skipped", "check the writes of that time: those of this entry are lost on all members"},
    {"entry_skip_decided", "nothing to do: the members skip the entry together"},
    {"entry_awaits_skip", "start a majority of the voters with --skip-entry and this index"},
    {"entry_suspected", "keep the data folder, and report this line"},
    {"log_cut", "nothing to do after a crash or a power loss: nothing acknowledged is lost"},
    {"log_left_out",
     "check the disk: a file of the log is damaged, but its entries are in snapshots"},
    {"log_spare_failed", "make room on the disk, or check the permissions of the data folder"},
    {"trim_failed", "check the permissions of the data folder"},
    {"message_refused", "check that all members have the same version"},
    {"alone", "add the other members again by conclave members add"},
    {"snapshot_skipped", "check the disk: a snapshot is damaged; the server uses an older one"},
    {"snapshot_missing",
     "check the disk: the newest snapshot is missing; the server uses an older one"},
    {"snapshot_failed", "make room on the disk, or check it; the server tries again"},
    {"snapshot_stream_failed",
     "nothing to do: the sender tries again; when it repeats, check the disk"},
};

static const char *advice_of(const char *event)
{
    for (size_t i = 0; i < sizeof ADVICE / sizeof *ADVICE; i++) {
        if (strcmp(event, ADVICE[i].event) == 0) {
            return ADVICE[i].advice;
        }
    }
    return "when it repeats, check the disk and the network of this server";
}

void replication_notes_log(void *ctx, bool warning, const char *event, const char *text)
{
    log_advise(warning ? LOG_WARN : LOG_INFO, "replication", event,
               warning ? advice_of(event) : NULL, "%s", text);
}

void replication_notes_role(enum replication_role role, unsigned long long leader, uint64_t term)
{
    log_always("server", "role", "role=%s leader=%llu term=%llu",
               role == REPLICATION_LEADER      ? "leader"
               : role == REPLICATION_CANDIDATE ? "candidate"
                                               : "follower",
               leader, (unsigned long long)term);
}

void replication_notes_link(unsigned long long member, bool up)
{
    char who[32];
    snprintf(who, sizeof who, "member %llu", member);
    log_cause(LOG_INFO, "server", up ? "link-up" : "link-down", who, NULL, NULL, "member=%llu",
              member);
}
