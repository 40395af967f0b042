#include "session/cause.h"

#include <assert.h>
#include <inttypes.h>

enum {
    GIVE_UP_PART = 3, /* a client gives up a connection after two of three parts of its timeout */
    OWN_PARTS = 4,    /* silence of its own for three of four parts is the client's */
};

static const struct {
    const char *code;
    int weight;
} ROWS[] = {
#define SESSION_CAUSE_ROW(name, code, weight) [SESSION_CAUSE_##name] = {code, weight},
    SESSION_CAUSES(SESSION_CAUSE_ROW)};

const char *session_cause_code(enum session_cause cause)
{
    assert(cause < SESSION_CAUSE_COUNT);
    return ROWS[cause].code;
}

int session_cause_weight(enum session_cause cause)
{
    assert(cause < SESSION_CAUSE_COUNT);
    return ROWS[cause].weight;
}

/* --- judgement -------------------------------------------------------------------------------- */

static int64_t server_trouble_ms(const struct session_facts *f)
{
    return f->stalled_ms + f->cut_off_ms;
}

/* Whether the client was silent for long enough, without the time in which this server could not hear it. */
static bool is_clients_silence(const struct session_facts *f)
{
    return (f->link == SESSION_LINK_OPEN || f->link == SESSION_LINK_DROPPED) &&
           f->silent_ms - server_trouble_ms(f) >= f->timeout_ms / OWN_PARTS * (OWN_PARTS - 1);
}

/* Whether the client had no chance: this server did not run, or had no leader and so dropped its clients. */
static bool is_servers_fault(const struct session_facts *f)
{
    int64_t trouble_ms = server_trouble_ms(f);
    bool dropped = f->link == SESSION_LINK_DROPPED && f->cut_off_ms > 0;
    return dropped || (f->link == SESSION_LINK_OPEN && trouble_ms > 0) ||
           (trouble_ms > 0 && trouble_ms >= f->timeout_ms / GIVE_UP_PART);
}

static enum session_cause servers_fault(const struct session_facts *f)
{
    if (f->stalled_ms >= f->cut_off_ms) {
        return SESSION_CAUSE_SERVER_STALL;
    }
    return f->leader_changes > 0 ? SESSION_CAUSE_LEADER_CHANGE : SESSION_CAUSE_SERVER_LOST;
}

/* Whether the client's host answered when its program should have spoken already: a client pings after a third of its
 * timeout, and the probes begin after a half. The next probe may be on its way when the session ends. */
static bool host_answers(const struct session_facts *f)
{
    return f->silent_ms - f->tcp.heard_ms >= f->timeout_ms / 5 * 2;
}

/* Whether what the server sent does not arrive. The host may be heard all the same: a network can be cut in one
 * direction. */
static bool answers_are_lost(const struct session_tcp *tcp)
{
    return tcp->retransmits > 0 && tcp->unacknowledged > 0;
}

static enum session_cause silence_of_client(const struct session_facts *f)
{
    if (!f->tcp.known) {
        return SESSION_CAUSE_CLIENT_SILENT;
    }
    if (answers_are_lost(&f->tcp)) {
        return SESSION_CAUSE_NETWORK;
    }
    if (host_answers(f)) {
        return f->tcp.unacknowledged > 0 ? SESSION_CAUSE_CLIENT_NOT_READING
                                         : SESSION_CAUSE_CLIENT_PAUSED;
    }
    return f->tcp.probes > 0 ? SESSION_CAUSE_NETWORK : SESSION_CAUSE_CLIENT_SILENT;
}

/* Whether the client left when its requests had got no answer for long. It gives up a connection after two of three
 * parts of its timeout. */
static bool waited_in_vain(const struct session_facts *f, int64_t waited_ms)
{
    return f->link == SESSION_LINK_LEFT && f->unanswered > 0 &&
           waited_ms >= f->timeout_ms / GIVE_UP_PART;
}

/* Of a client that ended its connection and did not come back. */
static enum session_cause cause_of_leaving(const struct session_facts *f)
{
    if (f->tcp.known && answers_are_lost(&f->tcp)) {
        return SESSION_CAUSE_NETWORK;
    }
    if (waited_in_vain(f, f->sync_longest_ms)) {
        return SESSION_CAUSE_DISK_STALL;
    }
    return waited_in_vain(f, f->owed_ms) ? SESSION_CAUSE_COMMIT_STALL : SESSION_CAUSE_CLIENT_LEFT;
}

/* Whether the server that the client used was started after its last sign of life. */
static bool was_restarted(const struct session_facts *f)
{
    return f->reborn_ms >= 0 && f->heard_ms >= f->reborn_ms;
}

/* Of a session that the client never used here: only the leader knows something. */
static enum session_cause cause_at_leader(const struct session_facts *f)
{
    if (!f->decided) {
        return SESSION_CAUSE_CLIENT_SILENT;
    }
    if (f->heard_ms >= f->led_ms) {
        return SESSION_CAUSE_LEADER_CHANGE;
    }
    bool lost = f->report_ms >= f->timeout_ms || was_restarted(f);
    return !f->owner_here && lost ? SESSION_CAUSE_SERVER_LOST : SESSION_CAUSE_CLIENT_SILENT;
}

enum session_cause session_cause_find(const struct session_facts *f)
{
    switch (f->end) {
    case SESSION_END_CLOSED:
        return SESSION_CAUSE_CLOSED;
    case SESSION_END_KILLED:
        return SESSION_CAUSE_KILLED;
    case SESSION_END_NONE:
        return f->link == SESSION_LINK_MOVED ? SESSION_CAUSE_MOVED : SESSION_CAUSE_LIVES;
    case SESSION_END_EXPIRED:
        break;
    }
    if (f->link == SESSION_LINK_NONE) {
        return cause_at_leader(f);
    }
    if (f->link == SESSION_LINK_MOVED) {
        return SESSION_CAUSE_MOVED;
    }
    if (is_clients_silence(f)) {
        return silence_of_client(f);
    }
    if (is_servers_fault(f)) {
        return servers_fault(f);
    }
    switch (f->link) {
    case SESSION_LINK_LOST:
        return SESSION_CAUSE_NETWORK;
    case SESSION_LINK_DROPPED:
        return SESSION_CAUSE_DROPPED;
    case SESSION_LINK_LEFT:
        return cause_of_leaving(f);
    default:
        return silence_of_client(f);
    }
}

/* --- words ------------------------------------------------------------------------------------ */

/* "11.2 s" */
static void append_seconds(struct buf *out, int64_t ms)
{
    int64_t tenths = ms < 0 ? 0 : (ms + 50) / 100;
    buf_printf(out, "%" PRId64 ".%" PRId64 " s", tenths / 10, tenths % 10);
}

/* One place in `form`, "#", gets the time. */
static void append_timed(struct buf *out, const char *form, int64_t ms)
{
    for (const char *at = form; *at != '\0'; at++) {
        if (*at == '#') {
            append_seconds(out, ms);
        } else {
            buf_append_u8(out, (uint8_t)*at);
        }
    }
}

static void append_network(const struct session_facts *f, struct buf *out)
{
    if (f->link == SESSION_LINK_LEFT) {
        buf_printf(out,
                   "The client gave up its connection because answers did not reach it (%" PRIu32
                   " bytes unacknowledged), and did not come back: the network was cut.",
                   f->tcp.unacknowledged);
        return;
    }
    append_timed(out, "The client was silent for #", f->silent_ms);
    buf_append_str(out, ": the network was cut, or its host was down");
    if (f->tcp.known && answers_are_lost(&f->tcp)) {
        buf_printf(out, ", because %" PRIu32 " bytes of answers stayed unacknowledged",
                   f->tcp.unacknowledged);
    } else if (f->tcp.known) {
        append_timed(out, ", because its host sent nothing for # either", f->tcp.heard_ms);
    }
    buf_append_u8(out, '.');
}

static void append_stall(const struct session_facts *f, struct buf *out)
{
    append_timed(out, "This server did not run for # while the client was connected",
                 f->stalled_ms);
    buf_append_str(out, ": it was stopped, or its machine was overloaded.");
}

static void append_disk(const struct session_facts *f, struct buf *out)
{
    append_timed(out, "The log of this server waited # for the disk", f->sync_longest_ms);
    append_timed(out, ", and a request of the client # for its answer", f->owed_ms);
    buf_append_str(out, ". The client gave up its connection, and did not come back in time.");
}

static void append_commit(const struct session_facts *f, struct buf *out)
{
    append_timed(out, "A request of the client waited # for its answer", f->owed_ms);
    buf_append_str(out, ", not for the disk of this server: a majority of the members did not "
                        "store it. The client gave up its connection, and did not come back in "
                        "time.");
}

static void append_leader_change(const struct session_facts *f, struct buf *out)
{
    if (f->link != SESSION_LINK_NONE) {
        append_timed(out, "This server had no leader for #", f->cut_off_ms);
        buf_append_str(out, " because the leader changed.");
        return;
    }
    append_timed(out, "The leader changed, or was restarted, # before the end", f->led_ms);
    if (f->owner >= 0) {
        buf_printf(out, "; the client had used server %" PRId64, f->owner);
    }
    buf_append_str(out, " and did not resume the session.");
}

static void append_server_lost(const struct session_facts *f, struct buf *out)
{
    if (f->link != SESSION_LINK_NONE) {
        append_timed(out, "This server had no leader with a quorum for #", f->cut_off_ms);
        buf_append_str(out, ", and the client did not resume the session on another server.");
        return;
    }
    buf_printf(out, "Server %" PRId64 ", which the client used, ", f->owner);
    if (was_restarted(f)) {
        append_timed(out, "was restarted # before the end. ", f->reborn_ms);
    } else {
        append_timed(out, "reported nothing for #: it was down, stopped or cut off. ",
                     f->report_ms);
    }
    buf_append_str(out, "The client did not resume the session on another server.");
}

static void append_silent(const struct session_facts *f, struct buf *out)
{
    if (f->link != SESSION_LINK_NONE) {
        append_timed(out, "The client was silent for #", f->silent_ms);
        buf_append_str(out, ". TCP does not tell whether its process was paused or the network "
                            "was cut.");
    } else if (f->decided) {
        append_timed(out, "No server heard of the client for #", f->heard_ms);
        buf_append_str(out, ". The server that it used may know more.");
    } else {
        buf_append_str(out, "The session expired.");
    }
}

void session_cause_text(enum session_cause cause, const struct session_facts *f, struct buf *out)
{
    switch (cause) {
    case SESSION_CAUSE_LIVES:
        buf_append_str(out, "The session was alive when its connection to this server ended.");
        break;
    case SESSION_CAUSE_MOVED:
        buf_append_str(out, "The client resumed the session on another server.");
        break;
    case SESSION_CAUSE_CLOSED:
        buf_append_str(out, "The client closed the session.");
        break;
    case SESSION_CAUSE_KILLED:
        buf_printf(out, "An operator ended the session: %s.", f->by);
        break;
    case SESSION_CAUSE_CLIENT_LEFT:
        buf_append_str(out, "The client ended its connection without closing the session, and did "
                            "not come back in time: it exited, crashed or was killed.");
        break;
    case SESSION_CAUSE_CLIENT_PAUSED:
        append_timed(out, "The client was silent for #", f->silent_ms);
        buf_append_str(out, ": its process was paused or stuck, because its host answered.");
        break;
    case SESSION_CAUSE_CLIENT_NOT_READING:
        append_timed(out, "The client was silent for #", f->silent_ms);
        buf_printf(out,
                   " and did not read its answers (%" PRIu32
                   " bytes wait): its process was stuck or paused, because its host answered.",
                   f->tcp.unacknowledged);
        break;
    case SESSION_CAUSE_DISK_STALL:
        append_disk(f, out);
        break;
    case SESSION_CAUSE_COMMIT_STALL:
        append_commit(f, out);
        break;
    case SESSION_CAUSE_NETWORK:
        append_network(f, out);
        break;
    case SESSION_CAUSE_DROPPED:
        buf_printf(out, "This server closed the connection: %s. The client did not come back.",
                   f->reason != NULL ? f->reason : "unknown reason");
        break;
    case SESSION_CAUSE_SERVER_STALL:
        append_stall(f, out);
        break;
    case SESSION_CAUSE_LEADER_CHANGE:
        append_leader_change(f, out);
        break;
    case SESSION_CAUSE_SERVER_LOST:
        append_server_lost(f, out);
        break;
    default:
        append_silent(f, out);
        break;
    }
}

static void append_link(const struct session_facts *f, struct buf *out)
{
    static const char *const WORDS[] = {
        [SESSION_LINK_OPEN] = "open until the end",
        [SESSION_LINK_LEFT] = "ended by the client",
        [SESSION_LINK_LOST] = "given up by TCP",
        [SESSION_LINK_DROPPED] = "closed by this server",
        [SESSION_LINK_MOVED] = "left for another server",
    };
    buf_printf(out, "Client %s, %s", f->client, WORDS[f->link]);
    if (f->reason != NULL) {
        buf_printf(out, " (%s)", f->reason);
    }
    append_timed(out, "; connected for #", f->linked_ms);
    if (f->link != SESSION_LINK_OPEN && f->end != SESSION_END_NONE) {
        append_timed(out, ", until # before the end", f->unlinked_ms);
    }
    buf_printf(out, ".\nRequests: %" PRIu64, f->requests);
    if (f->last_request != NULL) {
        buf_printf(out, ", the last one %s", f->last_request);
    }
    append_timed(out, "; silent for #", f->silent_ms);
    append_timed(out, ", before that for # at most", f->gap_ms);
    buf_printf(out, "; %" PRIu32 " unanswered", f->unanswered);
    append_timed(out, f->owed_ms > 0 ? ", for # at most.\n" : ".\n", f->owed_ms);
}

static void append_tcp(const struct session_tcp *tcp, struct buf *out)
{
    buf_printf(out,
               "TCP: %" PRIu32 " bytes unacknowledged, %" PRIu32 " retransmissions (%" PRIu32
               " in all) and %" PRIu32 " probes unanswered",
               tcp->unacknowledged, tcp->retransmits, tcp->retransmits_all, tcp->probes);
    append_timed(out, "; last heard of the host # before.\n", tcp->heard_ms);
}

/* The facts that are not 0, separated by commas. */
static void append_server(const struct session_facts *f, struct buf *out)
{
    const struct {
        const char *form;
        int64_t ms;
    } times[] = {
        {"it did not run for #", f->stalled_ms},
        {"for # of these at once", f->stall_longest_ms},
        {"it had no leader for #", f->cut_off_ms},
        {"its log waited for the disk for #", f->sync_ms},
        {"for # in one write", f->sync_longest_ms},
        {"a write waited for # at most", f->write_wait_ms},
    };
    const struct {
        const char *word;
        uint32_t count;
    } counts[] = {
        {"requests in progress at most", f->queue},
        {"changes of leader", f->leader_changes},
        {"changes of leader during the connection", f->leader_changes_linked},
    };
    const char *before = "This server in the silence: ";
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        if (times[i].ms > 0) {
            buf_append_str(out, before);
            append_timed(out, times[i].form, times[i].ms);
            before = ", ";
        }
    }
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (counts[i].count > 0) {
            buf_printf(out, "%s%" PRIu32 " %s", before, counts[i].count, counts[i].word);
            before = ", ";
        }
    }
    buf_append_str(out, before[0] == ',' ? ".\n"
                                         : "This server in the silence: no stall, no wait, no "
                                           "change of leader.\n");
}

void session_facts_text(const struct session_facts *f, struct buf *out)
{
    buf_printf(out, "Session timeout: %" PRId32 " ms.\n", f->timeout_ms);
    if (f->link != SESSION_LINK_NONE) {
        append_link(f, out);
        if (f->tcp.known) {
            append_tcp(&f->tcp, out);
        }
        append_server(f, out);
    }
    if (f->decided) {
        append_timed(out, "The leader, which had led for #,", f->led_ms);
        append_timed(out, " had not heard of the session for #", f->heard_ms);
        if (f->owner >= 0 && !f->owner_here) {
            buf_printf(out, "; the client used server %" PRId64, f->owner);
            if (f->report_ms >= 0) {
                append_timed(out, ", whose last report was # old", f->report_ms);
            } else {
                buf_append_str(out, ", which had not reported to it");
            }
        }
        buf_append_str(out, ".\n");
    }
}
