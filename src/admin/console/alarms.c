#include "admin/console/alarms.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum {
    WRITE_SLOW_MS = 2000,
    FSYNC_SLOW_US = 100000,
    STALL_LONG_MS = 500,
    BEHIND_MANY = 10000, /* entries */
    NEAR_PART = 10,      /* near a limit: less than this part of it is left */
};

/* Each rule writes a text, empty if all is well. */

static void rule_not_ready(const struct alarm_facts *f, struct alarm *a)
{
    if (f->not_ready != NULL) {
        (void)snprintf(a->text, sizeof a->text, "This server does not serve clients: %s.",
                       f->not_ready);
    }
}

static void rule_leader(const struct alarm_facts *f, struct alarm *a)
{
    if (f->grouped && f->leader == 0) {
        (void)snprintf(a->text, sizeof a->text, "No leader: the ensemble accepts no writes.");
    }
}

static void rule_quorum(const struct alarm_facts *f, struct alarm *a)
{
    if (f->grouped && f->leader != 0 && f->voters > 2 && f->voters_linked <= f->voters / 2 + 1) {
        (void)snprintf(a->text, sizeof a->text,
                       "%zu of %zu voters are in reach: one more failure stops all writes.",
                       f->voters_linked, f->voters);
    }
}

static void rule_down(const struct alarm_facts *f, struct alarm *a)
{
    if (f->members_down == 1) {
        (void)snprintf(a->text, sizeof a->text, "Member %" PRIu64 " is not in reach.",
                       f->first_down);
    } else if (f->members_down > 1) {
        (void)snprintf(a->text, sizeof a->text,
                       "%zu members are not in reach, member %" PRIu64 " among them.",
                       f->members_down, f->first_down);
    }
}

static void rule_pair(const struct alarm_facts *f, struct alarm *a)
{
    if (f->grouped && f->voters == 2) {
        (void)snprintf(a->text, sizeof a->text,
                       "The ensemble has two voters: it survives no failure.");
    }
}

static void rule_damaged(const struct alarm_facts *f, struct alarm *a)
{
    if (f->damaged) {
        (void)snprintf(a->text, sizeof a->text,
                       "Data of this server are damaged; it fetches them from the other members.");
    }
}

static void rule_aside(const struct alarm_facts *f, struct alarm *a)
{
    if (f->aside) {
        (void)snprintf(a->text, sizeof a->text,
                       "The log of this server accepts no writes; it stepped aside.");
    }
}

static void rule_data(const struct alarm_facts *f, struct alarm *a)
{
    if (f->data_level > 1) {
        (void)snprintf(a->text, sizeof a->text,
                       "The data have reached maxDataBytes: writes that add data are refused.");
    }
}

static void rule_data_near(const struct alarm_facts *f, struct alarm *a)
{
    if (f->data_level == 1) {
        (void)snprintf(a->text, sizeof a->text, "The data are near maxDataBytes.");
    }
}

static void rule_write(const struct alarm_facts *f, struct alarm *a)
{
    if (f->oldest_write_ms > WRITE_SLOW_MS) {
        (void)snprintf(a->text, sizeof a->text, "A write has waited %.1f s for its answer.",
                       (double)f->oldest_write_ms / 1000);
    }
}

static void rule_fsync(const struct alarm_facts *f, struct alarm *a)
{
    if (f->fsync_p99_us > FSYNC_SLOW_US) {
        (void)snprintf(a->text, sizeof a->text,
                       "The disk is slow: one sync of the log in 100 takes %.0f ms or more.",
                       (double)f->fsync_p99_us / 1000);
    }
}

static void rule_stall(const struct alarm_facts *f, struct alarm *a)
{
    if (f->stall_ms > STALL_LONG_MS) {
        (void)snprintf(a->text, sizeof a->text, "This server's process did not run for %.1f s.",
                       (double)f->stall_ms / 1000);
    }
}

static void rule_behind(const struct alarm_facts *f, struct alarm *a)
{
    if (f->most_behind > BEHIND_MANY) {
        (void)snprintf(a->text, sizeof a->text,
                       "Member %" PRIu64 " is %" PRIu64 " log entries behind the leader.",
                       f->behind_id, f->most_behind);
    }
}

static void rule_connections(const struct alarm_facts *f, struct alarm *a)
{
    if (f->connections_max > 0 &&
        f->connections >= f->connections_max - f->connections_max / NEAR_PART) {
        (void)snprintf(a->text, sizeof a->text, "%zu of %zu client connections are in use.",
                       f->connections, f->connections_max);
    }
}

static void rule_files(const struct alarm_facts *f, struct alarm *a)
{
    if (f->files > 0 && f->files_max > 0 && f->files >= f->files_max - f->files_max / NEAR_PART) {
        (void)snprintf(a->text, sizeof a->text,
                       "%" PRId64 " of %" PRId64 " file descriptors are open.", f->files,
                       f->files_max);
    }
}

static const struct alarm_rule {
    void (*find)(const struct alarm_facts *f, struct alarm *a);
    bool critical;
    const char *advice;
} RULES[] = {
    {rule_not_ready, true,
     "Look at this server's log. Clients use the other members meanwhile, if a majority runs."},
    {rule_leader, true,
     "A majority of the voters must run and reach each other. Start the missing ones, then check "
     "the network between them."},
    {rule_quorum, true, "Bring the missing members back before you stop or restart any other."},
    {rule_data, true,
     "Delete nodes that nobody needs, find the large branches in the tree, or raise maxDataBytes "
     "on all members."},
    {rule_damaged, true, "Check this server's disk. Do not stop other members until it is done."},
    {rule_aside, true,
     "Check the free space and the health of the disk. The server tries again by itself."},
    {rule_write, true,
     "Look at the disk and at the links to the other members: a write needs a majority of disks."},
    {rule_down, false,
     "Check that its process runs, and that its peer port can be reached from here."},
    {rule_data_near, false,
     "Delete nodes that nobody needs, or raise maxDataBytes on all members, before writes are "
     "refused."},
    {rule_behind, false,
     "It catches up by itself. If it does not, look at its disk and its network."},
    {rule_fsync, false,
     "Put the data folder on a faster disk (--data), and look for other programs that write to this "
     "one."},
    {rule_stall, false,
     "The machine swaps, is overloaded, or was paused. Sessions got that time back."},
    {rule_connections, false,
     "Raise maxCnxns and the limit of open files, or find the clients "
     "that open many: see Sessions."},
    {rule_files, false, "Raise the limit of open files (LimitNOFILE in a systemd unit)."},
    {rule_pair, false, "Add a third voter: three survive the loss of one."},
};

size_t alarms_find(const struct alarm_facts *f, void (*fn)(void *ctx, const struct alarm *a),
                   void *ctx)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++) {
        struct alarm a = {.critical = RULES[i].critical, .advice = RULES[i].advice};
        RULES[i].find(f, &a);
        assert(strlen(a.text) < sizeof a.text - 1); /* not cut */
        if (a.text[0] != '\0') {
            fn(ctx, &a);
            count++;
        }
    }
    return count;
}

static void alarm_write(void *ctx, const struct alarm *a)
{
    struct json *j = ctx;
    json_object_begin(j);
    json_member_bool(j, "critical", a->critical);
    json_member_string(j, "text", a->text);
    json_member_string(j, "advice", a->advice);
    json_object_end(j);
}

void alarms_write(const struct alarm_facts *f, struct json *j)
{
    json_array_begin(j);
    (void)alarms_find(f, alarm_write, j);
    json_array_end(j);
}
