#include "admin/console/console.h"

#include "admin/answers/process_info.h"
#include "admin/console/alarms.h"
#include "admin/console/recipe_list.h"
#include "daemon/server.h"
#include "daemon/server_stats.h"

#include <assert.h>
#include <string.h>

enum {
    ALARM_SAMPLES = 12, /* alarms about the disk and stalls last a minute */
    HELD_PART = 8,      /* what is held takes this part of admin.maxAnswerBytes */
};

void console_init(struct console *c, struct view *v)
{
    memset(c, 0, sizeof *c);
    c->view = v;
    samples_init(&c->samples);
    handover_notes_init(&c->handovers);
    last_writers_init(&c->writers);
    buf_init(&c->held, 0);
}

void console_finish(struct console *c)
{
    handover_notes_finish(&c->handovers);
    last_writers_finish(&c->writers);
    buf_finish(&c->held);
}

void console_attach(struct console *c, struct server *server)
{
    bool wanted = server != NULL && c->view->options->http && c->view->options->console;
    handover_notes_attach(&c->handovers, wanted ? server_service(server) : NULL);
    last_writers_attach(&c->writers, wanted ? server_service(server) : NULL);
}

static const struct clock_source *console_clock(const struct console *c)
{
    return server_service(c->view->server)->clock;
}

/* The figures begin again with another server. */
static void console_begin(struct console *c, const struct server_stats *s)
{
    samples_init(&c->samples);
    buf_reset(&c->held);
    c->leader = 0;
    c->leader_exact = false;
    c->server = c->view->server;
    c->started_ms = clock_wall_ms(console_clock(c)) - s->uptime_ms;
    c->leader_ms = clock_wall_ms(console_clock(c));
}

static void console_note_leader(struct console *c, const struct server_stats *s, bool first)
{
    int64_t wall_ms = clock_wall_ms(console_clock(c));
    assert(c->server == c->view->server);
    if (s->quorum.leader == c->leader) {
        return;
    }
    c->leader = s->quorum.leader;
    c->leader_ms = s->quorum.leads ? wall_ms - s->quorum.leader_uptime_ms : wall_ms;
    c->leader_exact = s->quorum.leads || !first;
}

bool console_look(struct console *c)
{
    struct server_stats stats;
    if (c->view->server == NULL) {
        bool had = c->server != NULL;
        c->server = NULL;
        return had;
    }
    server_stats(c->view->server, &stats);
    bool first = c->server != c->view->server;
    if (first) {
        console_begin(c, &stats);
    }
    handover_notes_follow(&c->handovers);
    uint64_t leader = c->leader;
    console_note_leader(c, &stats, first);
    (void)samples_take(&c->samples, stats.metrics, clock_monotonic_ms(console_clock(c)),
                       clock_wall_ms(console_clock(c)));
    return first || leader != c->leader;
}

/* Facts */

/* Of the last minute: the slowest disk and the longest stall. */
static void facts_of_samples(const struct console *c, struct alarm_facts *f)
{
    size_t kept = c->samples.count < SAMPLES_MAX ? (size_t)c->samples.count : SAMPLES_MAX;
    size_t from = kept > ALARM_SAMPLES ? kept - ALARM_SAMPLES : 0;
    for (size_t i = from; i < kept; i++) {
        const struct server_sample *s = samples_at(&c->samples, i);
        f->fsync_p99_us = s->fsync_p99_us > f->fsync_p99_us ? s->fsync_p99_us : f->fsync_p99_us;
        f->stall_ms = s->stall_ms > f->stall_ms ? s->stall_ms : f->stall_ms;
    }
}

static void fact_of_member(struct alarm_facts *f, const struct replication_member_stats *m,
                           const struct server_stats *s)
{
    f->voters_linked += m->role == MEMBER_VOTER && m->linked;
    if (!m->linked) {
        f->first_down = f->members_down == 0 ? m->id : f->first_down;
        f->members_down++;
    } else if (s->quorum.leads && !m->self && m->match_index > 0 &&
               s->replication.last_index > m->match_index + f->most_behind) {
        f->most_behind = s->replication.last_index - m->match_index;
        f->behind_id = m->id;
    }
}

static void facts_gather(const struct console *c, const struct server_stats *s,
                         struct alarm_facts *ret)
{
    struct replication_member_stats m;
    struct process_info process;
    process_info_process(&process);
    *ret = (struct alarm_facts){
        .not_ready = server_why_not_ready(c->view->server),
        .grouped = s->quorum.grouped,
        .leader = s->quorum.leader,
        .voters = s->quorum.voters,
        .damaged = s->quorum.damaged,
        .aside = s->quorum.aside,
        .data_level = s->data_level,
        .oldest_write_ms = s->oldest_write_ms,
        .connections = s->port.connections,
        .connections_max = s->port.connections_max,
        .files = process.open_files,
        .files_max = process.open_files_max,
    };
    for (size_t i = 0; s->quorum.grouped && quorum_member(server_node(c->view->server), i, &m);
         i++) {
        fact_of_member(ret, &m, s);
    }
    facts_of_samples(c, ret);
}

/* JSON */

static void write_server(const struct console *c, const struct server_stats *s, struct json *j)
{
    const char *why = server_why_not_ready(c->view->server);
    json_object_begin(j);
    json_member_int(j, "id", server_id(c->view->server));
    json_member_string(j, "mode", s->mode);
    json_member_string_or_null(j, "not_ready", why);
    json_member_string(j, "version", process_info_version());
    json_member_int(j, "started_ms", c->started_ms);
    json_member_hex(j, "zxid", s->zxid);
    json_member_uint(j, "term", s->replication.term);
    json_member_uint(j, "connections", s->port.connections);
    json_member_uint(j, "sessions", s->sessions + s->local_sessions);
    json_member_uint(j, "watches", s->watches.watches);
    json_member_uint(j, "nodes", s->state.nodes);
    json_member_uint(j, "ephemerals", s->state.ephemerals);
    json_member_uint(j, "data_bytes", s->state.memory);
    json_member_int(j, "data_bytes_max", (int64_t)s->limits->data_max);
    json_member_uint(j, "outstanding", s->outstanding);
    json_object_end(j);
}

static void write_leader(const struct console *c, struct json *j)
{
    if (c->leader == 0) {
        json_null(j);
        return;
    }
    json_object_begin(j);
    json_member_uint(j, "id", c->leader);
    json_member_int(j, "since_ms", c->leader_ms);
    json_member_bool(j, "exact", c->leader_exact);
    json_object_end(j);
}

/* The entries that a member lacks; null: only a leader knows. */
static void write_lag(const struct replication_member_stats *m, const struct server_stats *s,
                      struct json *j)
{
    uint64_t last = s->replication.last_index;
    uint64_t has =
        m->self ? (s->quorum.leads ? last : s->replication.applied_index) : m->match_index;
    json_key(j, "lag");
    if (has == 0) {
        json_null(j);
    } else {
        json_uint(j, last > has ? last - has : 0);
    }
}

static void write_member(const struct replication_member_stats *m, const struct server_stats *s,
                         struct json *j)
{
    struct server_line line;
    struct net_address client;
    char text[NET_TEXT_MAX] = "";
    const char *why;
    if (m->address != NULL && server_line_parse(m->address, &line, &why) == 0) {
        if (ensemble_status_address(&line, &client)) {
            net_address_format(&client, text);
        }
        server_line_finish(&line);
    }
    json_object_begin(j);
    json_member_uint(j, "id", m->id);
    json_member_bool(j, "voter", m->role == MEMBER_VOTER);
    json_member_bool(j, "self", m->self);
    json_member_bool(j, "up", m->linked);
    json_member_bool(j, "leads", m->id == s->quorum.leader);
    write_lag(m, s, j);
    json_member_string_or_null(j, "client", text);
    json_object_end(j);
}

static void write_members(const struct console *c, const struct server_stats *s, struct json *j)
{
    struct replication_member_stats m;
    json_array_begin(j);
    for (size_t i = 0; i < OVERVIEW_MEMBERS_MAX && s->quorum.grouped &&
                       quorum_member(server_node(c->view->server), i, &m);
         i++) {
        write_member(&m, s, j);
    }
    json_array_end(j);
}

static void console_print(struct json *j, struct buf *out)
{
    buf_append_slice(out, buf_slice(&j->out));
    out->failed |= j->out.failed;
    json_finish(j);
}

/* Whether clients without ids may see nodes at all. */
static bool console_shows_nodes(const struct console *c)
{
    return view_serving(c->view) && server_service(c->view->server)->auth_schemes == NULL;
}

/* Elections and locks held now: made again if the state has changed, unless the last time took long. */
static void console_look_at_held(struct console *c, int64_t zxid)
{
    struct json j;
    int64_t now_ns = clock_monotonic_ns(console_clock(c));
    bool made = c->held.len > 0;
    if (made && (c->held_zxid == zxid || now_ns - c->held_at_ns < HELD_SHARE * c->held_took_ns)) {
        return;
    }
    json_init(&j);
    recipe_list_write(server_service(c->view->server), &c->handovers, true,
                      (size_t)c->view->options->answer_bytes / HELD_PART, &j);
    buf_reset(&c->held);
    console_print(&j, &c->held);
    c->held_zxid = zxid;
    c->held_at_ns = clock_monotonic_ns(console_clock(c));
    c->held_took_ns = c->held_at_ns - now_ns;
    assert(c->held_took_ns >= 0);
}

static void write_held(struct console *c, const struct server_stats *s, struct json *j)
{
    json_key(j, "held");
    if (console_shows_nodes(c)) {
        console_look_at_held(c, s->zxid);
        json_ready(j, buf_slice(&c->held));
    } else {
        json_null(j);
    }
    json_key(j, "handovers");
    if (console_shows_nodes(c)) {
        handover_notes_write(&c->handovers, SLICE_NULL, OVERVIEW_HANDOVERS_MAX, j);
    } else {
        json_null(j);
    }
}

void console_write_line(const struct console *c, struct slice path, struct buf *out)
{
    struct json j;
    json_init(&j);
    if (console_shows_nodes(c)) {
        json_object_begin(&j);
        json_key(&j, "recipe");
        recipe_write(server_service(c->view->server), &c->handovers, path, &j);
        json_key(&j, "history");
        handover_notes_write(&c->handovers, path, HANDOVER_LIST_MAX, &j);
        json_member_int(&j, "since_ms", c->handovers.since_ms);
        json_member_uint(&j, "missed", c->handovers.missed);
        json_object_end(&j);
    } else {
        json_null(&j);
    }
    console_print(&j, out);
}

void console_write_recipes(const struct console *c, struct buf *out)
{
    struct json j;
    json_init(&j);
    if (console_shows_nodes(c)) {
        recipe_list_write(server_service(c->view->server), &c->handovers, false,
                          (size_t)c->view->options->answer_bytes, &j);
    } else {
        json_null(&j);
    }
    console_print(&j, out);
}

void console_write_overview(struct console *c, struct buf *out)
{
    struct json j;
    struct server_stats s;
    struct alarm_facts facts = {.not_ready = "it starts"};
    json_init(&j);
    json_object_begin(&j);
    if (c->view->server != NULL) {
        server_stats(c->view->server, &s);
        facts_gather(c, &s, &facts);
        json_key(&j, "server");
        write_server(c, &s, &j);
        json_key(&j, "leader");
        write_leader(c, &j);
        json_key(&j, "members");
        write_members(c, &s, &j);
        write_held(c, &s, &j);
    } else {
        json_member_null(&j, "server");
        json_member_null(&j, "leader");
        json_key(&j, "members");
        json_array_begin(&j);
        json_array_end(&j);
        json_member_null(&j, "held");
        json_member_null(&j, "handovers");
    }
    json_key(&j, "alarms");
    alarms_write(&facts, &j);
    json_key(&j, "sample");
    samples_write(&c->samples, samples_newest(&c->samples), &j);
    json_object_end(&j);
    console_print(&j, out);
}

void console_write_history(const struct console *c, struct buf *out)
{
    struct json j;
    const struct server_sample *s;
    json_init(&j);
    json_object_begin(&j);
    json_member_int(&j, "every_ms", SAMPLES_EVERY_MS);
    json_key(&j, "samples");
    json_array_begin(&j);
    for (size_t i = 0; (s = samples_at(&c->samples, i)) != NULL; i++) {
        samples_write(&c->samples, s, &j);
    }
    json_array_end(&j);
    json_object_end(&j);
    console_print(&j, out);
}
