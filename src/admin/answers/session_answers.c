#include "admin/answers/session_answers.h"

#include "daemon/server.h"
#include "daemon/server_stats.h"
#include "front/service.h"

#include <assert.h>

static void put_server(const struct view *v, struct json *j)
{
    struct service *s = server_service(v->server);
    struct server_stats stats;
    server_stats(v->server, &stats);
    json_member_int(j, "server", member_number(server_id(v->server)));
    json_member_string(j, "mode", stats.mode);
    json_member_int(j, "time_ms", clock_wall_ms(s->clock));
    json_member_bool(j, "recording", s->notes.ledger != NULL);
}

static void put_ms(struct json *j, const char *name, int64_t ms)
{
    if (ms < 0) {
        json_member_null(j, name);
    } else {
        json_member_int(j, name, ms);
    }
}

static void put_tcp(const struct session_tcp *tcp, struct json *j)
{
    json_key(j, "tcp");
    if (!tcp->known) {
        json_null(j);
        return;
    }
    json_object_begin(j);
    json_member_int(j, "unacknowledged_bytes", tcp->unacknowledged);
    json_member_int(j, "retransmits", tcp->retransmits);
    json_member_int(j, "retransmits_all", tcp->retransmits_all);
    json_member_int(j, "probes", tcp->probes);
    json_member_int(j, "heard_ms", tcp->heard_ms);
    json_object_end(j);
}

static void put_link(const struct session_facts *f, struct json *j)
{
    static const char *const LINKS[] = {
        [SESSION_LINK_NONE] = "none",       [SESSION_LINK_OPEN] = "open",
        [SESSION_LINK_LEFT] = "left",       [SESSION_LINK_LOST] = "lost",
        [SESSION_LINK_DROPPED] = "dropped", [SESSION_LINK_MOVED] = "moved",
    };
    assert(f->link < sizeof LINKS / sizeof LINKS[0] && f->stalled_ms >= f->stall_longest_ms);
    json_member_string(j, "connection", LINKS[f->link]);
    if (f->link == SESSION_LINK_NONE) {
        return;
    }
    json_member_string_or_null(j, "reason", f->reason);
    json_member_string_or_null(j, "last_request", f->last_request);
    json_member_uint(j, "requests", f->requests);
    put_ms(j, "connected_ms", f->linked_ms);
    put_ms(j, "disconnected_ms", f->unlinked_ms);
    put_ms(j, "silent_ms", f->silent_ms);
    put_ms(j, "longest_gap_ms", f->gap_ms);
    json_member_int(j, "unanswered", f->unanswered);
    put_ms(j, "unanswered_ms", f->owed_ms);
    put_tcp(&f->tcp, j);
    put_ms(j, "stalled_ms", f->stalled_ms);
    put_ms(j, "longest_stall_ms", f->stall_longest_ms);
    put_ms(j, "without_leader_ms", f->cut_off_ms);
    put_ms(j, "sync_ms", f->sync_ms);
    put_ms(j, "longest_sync_ms", f->sync_longest_ms);
    put_ms(j, "longest_write_ms", f->write_wait_ms);
    json_member_int(j, "queue", f->queue);
    json_member_int(j, "leader_changes", f->leader_changes);
    json_member_int(j, "leader_changes_connected", f->leader_changes_linked);
}

static void put_facts(const struct session_facts *f, struct json *j)
{
    json_key(j, "facts");
    json_object_begin(j);
    json_member_int(j, "timeout_ms", f->timeout_ms);
    put_link(f, j);
    json_member_bool(j, "decided_here", f->decided);
    if (f->decided) {
        put_ms(j, "heard_ms", f->heard_ms);
        put_ms(j, "led_ms", f->led_ms);
        put_ms(j, "owner", f->owner);
        put_ms(j, "owner_report_ms", f->report_ms);
        put_ms(j, "owner_started_ms", f->reborn_ms);
    }
    json_object_end(j);
}

/* The lines of a text as an array. */
static void put_lines(const char *key, struct slice text, struct json *j)
{
    size_t start = 0;
    json_key(j, key);
    json_array_begin(j);
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '\n') {
            json_text(j, slice_make(text.data + start, i - start));
            start = i + 1;
        }
    }
    json_array_end(j);
}

static void put_verdict(const struct ledger_record *r, struct json *j)
{
    struct buf text;
    enum session_cause cause = session_cause_find(&r->facts);
    buf_init(&text, 0);
    session_cause_text(cause, &r->facts, &text);
    json_member_string(j, "cause", session_cause_code(cause));
    json_member_int(j, "weight", session_cause_weight(cause));
    json_member_text(j, "verdict", buf_slice(&text));
    json_member_int(j, "at_ms", r->wall_ms);
    json_member_string_or_null(j, "client", r->facts.client);
    j->out.failed |= text.failed;
    buf_finish(&text);
}

static void put_record(const struct ledger_record *r, struct json *j)
{
    struct buf text;
    buf_init(&text, 0);
    session_facts_text(&r->facts, &text);
    json_object_begin(j);
    put_verdict(r, j);
    json_member_string_or_null(j, "by", r->facts.by);
    put_facts(&r->facts, j);
    put_lines("notes", buf_slice(&text), j);
    json_object_end(j);
    j->out.failed |= text.failed;
    buf_finish(&text);
}

void session_answer_why(const struct view *v, int64_t id, struct json *j)
{
    struct service *s = server_service(v->server);
    struct state_session session;
    const struct ledger_record *r =
        s->notes.ledger != NULL ? session_ledger_find(s->notes.ledger, id) : NULL;
    json_object_begin(j);
    put_server(v, j);
    json_member_hex(j, "session", id);
    json_member_bool(j, "lives",
                     state_session_find(s->state, id, &session) ||
                         local_session_find(&s->locals, id) != NULL);
    json_key(j, "record");
    if (r != NULL) {
        put_record(r, j);
    } else {
        json_null(j);
    }
    json_object_end(j);
}

struct ended_list {
    struct json *json;
    const struct view_room *room;
    size_t count;
};

static bool list_record(void *ctx, const struct ledger_record *r)
{
    struct ended_list *list = ctx;
    if (list->count >= VIEW_CONNECTIONS_MAX || !view_has_room(list->room)) {
        return false;
    }
    json_object_begin(list->json);
    json_member_hex(list->json, "session", r->id);
    put_verdict(r, list->json);
    json_object_end(list->json);
    list->count++;
    return true;
}

void session_answer_ended(const struct view *v, struct json *j)
{
    const struct session_ledger *l = server_service(v->server)->notes.ledger;
    struct view_room room = view_room(v, &j->out, 1);
    struct ended_list list = {.json = j, .room = &room};
    json_object_begin(j);
    put_server(v, j);
    for (int ring = LEDGER_LOST; ring <= LEDGER_ORDERLY; ring++) {
        json_key(j, ring == LEDGER_ORDERLY ? "orderly" : "lost");
        json_array_begin(j);
        if (l != NULL) {
            session_ledger_each(l, (enum ledger_ring)ring, list_record, &list);
        }
        json_array_end(j);
    }
    size_t count =
        l == NULL ? 0
                  : session_ledger_count(l, LEDGER_LOST) + session_ledger_count(l, LEDGER_ORDERLY);
    assert(list.count <= count);
    json_member_uint(j, "left_out", count - list.count);
    json_object_end(j);
}
