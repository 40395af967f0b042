#include "admin/answers/ensemble_answers.h"

#include "admin/answers/process_info.h"
#include "cluster/digest_check.h"
#include "cluster/ensemble_status.h"
#include "cluster/replica.h"
#include "daemon/server.h"
#include "daemon/server_stats.h"
#include "front/service.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static bool grouped(const struct view *v)
{
    return v->server != NULL && !replica_ensemble(server_node(v->server))->sole;
}

/* The line of a member; false: none can be parsed, as on a standalone server. */
static bool line_of(const struct replication_member_stats *m, struct server_line *ret)
{
    const char *why;
    if (m->address == NULL || server_line_parse(m->address, ret, &why) != 0) {
        return false;
    }
    assert(ret->n_hosts > 0);
    ret->id = m->id;
    ret->observer = m->role != MEMBER_VOTER;
    return true;
}

static bool find_member(const struct view *v, uint64_t id, struct replication_member_stats *ret)
{
    for (size_t i = 0; quorum_member(server_node(v->server), i, ret); i++) {
        if (ret->id == id) {
            return true;
        }
    }
    return false;
}

/* memb */

static void ensemble_answers_member_text(const struct replication_member_stats *m,
                                         const char *problem, struct buf *out)
{
    struct server_line line;
    struct net_address client;
    char text[NET_TEXT_MAX];
    buf_printf(out, "member\t%" PRIu64 "\t%s\t%s\t", m->id,
               m->role == MEMBER_VOTER ? "voter" : "observer",
               m->self     ? "self"
               : m->linked ? "up"
                           : "down");
    if (m->match_index > 0) {
        buf_printf(out, "%" PRIu64 "\t", m->match_index);
    } else {
        buf_append_str(out, "-\t");
    }
    if (line_of(m, &line)) {
        buf_append_str(
            out, ensemble_status_address(&line, &client) ? net_address_format(&client, text) : "-");
        buf_append_u8(out, '\t');
        server_line_print(&line, out);
        server_line_finish(&line);
    } else {
        buf_append_str(out, "-\t-");
    }
    if (m->snapshot_bytes_total > 0) {
        buf_printf(out, "\t%" PRIu64 "/%" PRIu64, m->snapshot_bytes_sent, m->snapshot_bytes_total);
    } else {
        buf_append_str(out, "\t-");
    }
    buf_printf(out, "\t%s\n", problem != NULL ? problem : "-");
}

void ensemble_answer_text(const struct view *v, struct buf *out)
{
    struct replication_member_stats m;
    struct server_stats s;
    char text[NET_TEXT_MAX];
    if (v->server == NULL) {
        buf_append_str(out, "state\tstarting\n");
        return;
    }
    const char *why = server_why_not_ready(v->server);
    server_stats(v->server, &s);
    buf_printf(out, "id\t%" PRId64 "\nmode\t%s\nstate\t%s\nversion\t%s\nzxid\t0x%" PRIx64 "\n",
               server_id(v->server), s.mode, why != NULL ? why : "ok", process_info_version(),
               (uint64_t)s.zxid);
    buf_printf(out, "term\t%" PRIu64 "\nleader\t%" PRIu64 "\nlast\t%" PRIu64 "\ncommit\t%" PRIu64,
               s.replication.term, s.quorum.leader, s.replication.last_index,
               s.replication.commit_index);
    buf_printf(out, "\napplied\t%" PRIu64 "\nconnections\t%zu\nsessions\t%zu\n",
               s.replication.applied_index, s.port.connections, s.sessions);
    const char *warning = server_warning(v->server);
    if (warning != NULL) {
        buf_printf(out, "warning\t%s\n", warning);
    }
    buf_printf(out, "uptime_ms\t%" PRId64 "\ncontact_ms\t%" PRId64 "\n", s.uptime_ms,
               s.quorum.contact_ms);
    buf_printf(out, "time_ms\t%" PRId64 "\n", clock_wall_ms(server_options(v->server)->clock));
    struct digest_check_digest d;
    for (size_t i = 0; i < QUORUM_DIGESTS_MAX; i++) {
        if (quorum_digest(server_node(v->server), i, &d)) {
            buf_printf(out, "digest\t%" PRIu64 "\t%016" PRIx64 "\n", d.index, d.digest);
        }
    }
    if (v->has_http) {
        buf_printf(out, "admin\t%s\n", net_address_format(&v->http, text));
    }
    for (size_t i = 0; quorum_member(server_node(v->server), i, &m); i++) {
        ensemble_answers_member_text(&m, quorum_member_problem(server_node(v->server), m.id), out);
    }
}

/* sess */

struct session_row {
    int64_t id;
    int64_t owner;
    int32_t timeout_ms;
    int64_t due_ms;                /* monotonic */
    char client[VIEW_ADDRESS_MAX]; /* "": not connected here */
};

struct session_list {
    struct session_row *rows;
    size_t count;
    size_t most;
};

static int by_id(const void *a, const void *b)
{
    uint64_t x = (uint64_t)((const struct session_row *)a)->id;
    uint64_t y = (uint64_t)((const struct session_row *)b)->id;
    return (x > y) - (x < y);
}

static struct session_row *row_of(const struct session_list *list, int64_t id)
{
    struct session_row key = {.id = id};
    return list->count == 0 ? NULL : bsearch(&key, list->rows, list->count, sizeof key, by_id);
}

static void add_session(void *ctx, const struct state_session *session)
{
    struct session_list *list = ctx;
    if (list->count < list->most) {
        list->rows[list->count++] = (struct session_row){
            .id = session->id, .owner = session->owner, .timeout_ms = session->timeout_ms};
    }
}

static bool add_due(void *ctx, int64_t id, int64_t due_ms)
{
    struct session_row *row = row_of(ctx, id);
    if (row != NULL) {
        row->due_ms = due_ms;
    }
    return true;
}

static void add_client(void *ctx, const struct view_connection *c)
{
    struct session_row *row = c->session_id != 0 ? row_of(ctx, c->session_id) : NULL;
    if (row != NULL) {
        memcpy(row->client, c->address, sizeof row->client);
    }
}

static void gather_sessions(const struct view *v, struct session_list *list)
{
    struct service *s = server_service(v->server);
    state_session_each(s->state, add_session, list);
    qsort(list->rows, list->count, sizeof *list->rows, by_id);
    session_tracker_each(s->sessions, add_due, list);
    (void)view_connections(v, NULL, add_client, list);
}

void ensemble_answer_sessions_text(const struct view *v, struct buf *out)
{
    const struct service *s = server_service(v->server);
    size_t all = session_tracker_count(s->sessions);
    struct session_list list = {.most = all < VIEW_CONNECTIONS_MAX ? all : VIEW_CONNECTIONS_MAX};
    int64_t now_ms = clock_monotonic_ms(s->clock);
    struct view_room room = view_room(v, out, 1);
    list.rows = calloc(list.most + 1, sizeof *list.rows);
    if (list.rows == NULL) {
        out->failed = true;
        return;
    }
    gather_sessions(v, &list);
    size_t i;
    for (i = 0; i < list.count && view_has_room(&room); i++) {
        const struct session_row *row = &list.rows[i];
        int64_t idle_ms = row->timeout_ms - (row->due_ms - now_ms);
        buf_printf(out, "0x%" PRIx64 "\t%" PRId64 "\t%d\t%" PRId64 "\t%zu\t%s\n", (uint64_t)row->id,
                   row->owner, row->timeout_ms, idle_ms > 0 ? idle_ms : 0,
                   view_ephemerals_count(v, row->id), row->client[0] != '\0' ? row->client : "-");
    }
    if (all > i) {
        buf_printf(out, "more\t%zu\n", all - i);
    }
    free(list.rows);
}

/* conf */

/* The ports of a line's addresses, separated by '|' as in the line. */
static void ports_text(const struct server_line *line, bool election, struct buf *out)
{
    for (size_t i = 0; i < line->n_hosts; i++) {
        buf_printf(out, "%s%u", i > 0 ? "|" : "",
                   (unsigned)(election ? line->election_ports[i] : line->hosts[i].port));
    }
    buf_append_u8(out, '\n');
}

void ensemble_answer_conf(const struct view *v, struct buf *out)
{
    struct replication_member_stats m;
    struct server_line line;
    if (!grouped(v)) {
        return;
    }
    if (find_member(v, (uint64_t)server_id(v->server), &m) && line_of(&m, &line)) {
        buf_append_str(out, "electionPort=");
        ports_text(&line, true, out);
        buf_append_str(out, "quorumPort=");
        ports_text(&line, false, out);
        buf_printf(out, "peerType=%d\n", line.observer);
        server_line_finish(&line);
    }
    buf_append_str(out, "membership: \n");
    for (size_t i = 0; quorum_member(server_node(v->server), i, &m); i++) {
        if (line_of(&m, &line)) {
            buf_printf(out, "server.%" PRId64 "=", member_number((int64_t)m.id));
            server_line_print(&line, out);
            buf_append_u8(out, '\n');
            server_line_finish(&line);
        }
    }
    buf_printf(out, "version=%" PRIx64,
               (uint64_t)state_config_version(server_service(v->server)->state));
}

/* AdminServer */

bool ensemble_answer_leader(const struct view *v, struct json *j)
{
    struct server_stats s;
    struct replication_member_stats m;
    struct server_line line;
    if (!grouped(v)) {
        return false;
    }
    server_stats(v->server, &s);
    json_member_bool(j, "is_leader", s.quorum.leads);
    json_member_int(j, "leader_id", member_number((int64_t)s.quorum.leader));
    if (find_member(v, s.quorum.leader, &m) && line_of(&m, &line)) {
        json_member_string(j, "leader_ip", line.hosts[0].host);
        server_line_finish(&line);
    } else {
        json_member_string(j, "leader_ip", "");
    }
    return true;
}

static void put_address(struct json *j, const struct server_line *line, size_t i, bool election)
{
    struct net_address address = line->hosts[i];
    char text[NET_TEXT_MAX];
    if (election) {
        address.port = line->election_ports[i];
    }
    json_string(j, net_address_format(&address, text));
}

static void put_addresses(struct json *j, const char *key, const struct server_line *line,
                          bool election)
{
    json_key(j, key);
    json_array_begin(j);
    for (size_t i = 0; i < line->n_hosts; i++) {
        put_address(j, line, i, election);
    }
    json_array_end(j);
}

static void put_client(struct json *j, const struct server_line *line)
{
    char text[NET_TEXT_MAX];
    json_member_string(j, "client_address",
                       line->has_client ? net_address_format(&line->client, text) : "");
}

bool ensemble_answer_voting_view(const struct view *v, struct json *j)
{
    struct replication_member_stats m;
    struct server_line line;
    char key[24];
    if (!grouped(v)) {
        return false;
    }
    json_key(j, "current_config");
    json_object_begin(j);
    for (size_t i = 0; quorum_member(server_node(v->server), i, &m); i++) {
        if (m.role != MEMBER_VOTER || !line_of(&m, &line)) {
            continue;
        }
        snprintf(key, sizeof key, "%" PRIu64, m.id);
        json_key(j, key);
        json_object_begin(j);
        put_addresses(j, "server_addresses", &line, false);
        put_addresses(j, "election_addresses", &line, true);
        put_client(j, &line);
        json_member_string(j, "learner_type", "participant");
        json_object_end(j);
        server_line_finish(&line);
    }
    json_object_end(j);
    return true;
}

/* Java's MultipleAddresses, as its JSON library prints it. A server always counts its own addresses as reachable. */
static void put_own_addresses(struct json *j, const char *key, const struct server_line *line,
                              bool election)
{
    static const char *const ONE[] = {"one", "reachable_address"};
    char text[32];
    json_key(j, key);
    json_object_begin(j);
    json_member_bool(j, "empty", false);
    put_addresses(j, "all_addresses", line, election);
    put_addresses(j, "all_reachable_addresses", line, election);
    for (size_t i = 0; i < sizeof ONE / sizeof ONE[0]; i++) {
        json_key(j, ONE[i]);
        put_address(j, line, 0, election);
    }
    json_key(j, "wildcard_addresses");
    json_array_begin(j);
    for (size_t i = 0; i < line->n_hosts; i++) {
        snprintf(text, sizeof text, "0.0.0.0:%u",
                 (unsigned)(election ? line->election_ports[i] : line->hosts[i].port));
        json_string(j, text);
    }
    json_array_end(j);
    json_key(j, "all_ports");
    json_array_begin(j);
    for (size_t i = 0; i < line->n_hosts; i++) {
        json_int(j, election ? line->election_ports[i] : line->hosts[i].port);
    }
    json_array_end(j);
    json_key(j, "all_host_strings");
    json_array_begin(j);
    for (size_t i = 0; i < line->n_hosts; i++) {
        json_string(j, line->hosts[i].host);
    }
    json_array_end(j);
    put_addresses(j, "all_reachable_addresses_or_all", line, election);
    json_key(j, "reachable_or_one");
    put_address(j, line, 0, election);
    json_object_end(j);
}

bool ensemble_answer_zabstate(const struct view *v, struct json *j)
{
    struct server_stats s;
    struct replication_member_stats m;
    struct server_line line;
    char zxid[32];
    if (!grouped(v)) {
        return false;
    }
    bool found = find_member(v, (uint64_t)server_id(v->server), &m);
    server_stats(v->server, &s);
    json_member_int(j, "myid", member_number(server_id(v->server)));
    json_member_bool(j, "is_leader", s.quorum.leads);
    if (found && line_of(&m, &line)) {
        put_own_addresses(j, "quorum_address", &line, false);
        put_own_addresses(j, "election_address", &line, true);
        put_client(j, &line);
        server_line_finish(&line);
    }
    snprintf(zxid, sizeof zxid, "0x%" PRIx64, (uint64_t)s.zxid);
    json_member_bool(j, "voting", found && m.role == MEMBER_VOTER);
    json_member_string(j, "last_zxid", zxid);
    json_member_int(j, "zab_epoch", (int64_t)s.replication.term);
    json_member_int(j, "zab_counter", s.zxid);
    json_member_string(j, "zabstate", view_serving(v) ? "broadcast" : "election");
    return true;
}

static bool is_synced_observer(const struct replication_member_stats *m)
{
    return m->role != MEMBER_VOTER && !m->self && m->linked && m->match_index > 0;
}

void ensemble_answer_observers(const struct view *v, struct json *j)
{
    struct peer_stats links[MEMBERS_MAX];
    struct replication_member_stats m;
    struct server_line line;
    char text[NET_TEXT_MAX];
    const struct peers *peers = replica_peers(server_node(v->server));
    size_t count = peers != NULL ? peers_stats(peers, links, MEMBERS_MAX) : 0;
    int64_t synced = 0;
    for (size_t i = 0; quorum_member(server_node(v->server), i, &m); i++) {
        synced += is_synced_observer(&m);
    }
    json_member_int(j, "synced_observers", synced);
    json_key(j, "observers");
    json_array_begin(j);
    for (size_t i = 0; quorum_member(server_node(v->server), i, &m); i++) {
        if (!is_synced_observer(&m) || !line_of(&m, &line)) {
            continue;
        }
        json_object_begin(j);
        json_member_string(j, "remote_socket_address", net_address_format(&line.hosts[0], text));
        json_member_int(j, "sid", member_number((int64_t)m.id));
        for (size_t k = 0; k < count && k < MEMBERS_MAX; k++) {
            if (links[k].id == m.id) {
                json_member_int(j, "queued_packets_size", (int64_t)links[k].queued);
                json_member_int(j, "packets_received", (int64_t)links[k].frames_received);
                json_member_int(j, "packets_sent", (int64_t)links[k].frames_sent);
            }
        }
        json_object_end(j);
        server_line_finish(&line);
    }
    json_array_end(j);
}
