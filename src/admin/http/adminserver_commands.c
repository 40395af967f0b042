#define _GNU_SOURCE /* asprintf */
#include "admin/http/adminserver_commands.h"

#include "admin/answers/ensemble_answers.h"
#include "admin/answers/four_letter_text.h"
#include "admin/answers/process_info.h"
#include "cluster/server_options.h"
#include "cluster/snapshot_schedule.h"
#include "daemon/server.h"
#include "daemon/server_stats.h"
#include "replication/disk/snapshot_file.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

/* One command in progress. */
struct command_run {
    struct view *view;
    struct json *json;
    const char *argument; /* traceMask, or NULL */
    struct buf error;     /* empty: none */
};

static void put_empty_array(struct command_run *r, const char *key)
{
    json_key(r->json, key);
    json_array_begin(r->json);
    json_array_end(r->json);
}

static void put_more(struct command_run *r, size_t more)
{
    if (more > 0) {
        json_member_int(r->json, "left_out", (int64_t)more);
    }
}

/* Connections */

struct connection_list {
    struct json *json;
    bool brief;
};

static void list_connection(void *ctx, const struct view_connection *c)
{
    const struct connection_list *list = ctx;
    const struct connection_stats *s = &c->stats;
    json_object_begin(list->json);
    json_member_string(list->json, "remote_socket_address", c->address);
    json_member_int(list->json, "interest_ops", c->interest);
    json_member_int(list->json, "outstanding_requests", (int64_t)c->queued);
    json_member_int(list->json, "packets_received", (int64_t)s->received);
    json_member_int(list->json, "packets_sent", (int64_t)s->sent);
    if (!list->brief) {
        json_member_int(list->json, "session_id", c->session_id);
        json_member_string(list->json, "last_operation", c->last_op);
        json_member_int(list->json, "established", c->established_ms);
        json_member_int(list->json, "session_timeout", c->timeout_ms);
        json_member_int(list->json, "last_cxid", s->last_cxid);
        json_member_int(list->json, "last_zxid", s->last_zxid);
        json_member_int(list->json, "last_response_time", s->response_at_ms);
        json_member_int(list->json, "last_latency", s->latency_last_ms);
        json_member_int(list->json, "min_latency", s->latency_min_ms);
        json_member_int(list->json, "avg_latency",
                        s->answered == 0 ? 0 : (int64_t)(s->latency_sum_ms / s->answered));
        json_member_int(list->json, "max_latency", s->latency_max_ms);
    }
    json_object_end(list->json);
}

static void put_connections(struct command_run *r, bool brief)
{
    struct connection_list list = {r->json, brief};
    struct view_room room = view_room(r->view, &r->json->out, 1);
    json_key(r->json, "connections");
    json_array_begin(r->json);
    size_t more = view_connections(r->view, &room, list_connection, &list);
    json_array_end(r->json);
    put_empty_array(r, "secure_connections");
    put_more(r, more);
}

static void run_cons(struct command_run *r)
{
    put_connections(r, false);
}

/* Server */

static void put_response_sizes(struct command_run *r, const char *key,
                               const struct server_metrics *m)
{
    json_key(r->json, key);
    json_object_begin(r->json);
    json_member_int(r->json, "last_buffer_size", m->response_last);
    json_member_int(r->json, "min_buffer_size", m->response_min);
    json_member_int(r->json, "max_buffer_size", m->response_max);
    json_object_end(r->json);
}

static void run_srvr(struct command_run *r)
{
    struct server_stats s;
    const char *dir = server_options(r->view->server)->data_dir;
    server_stats(r->view->server, &s);
    json_member_string(r->json, "version", process_info_version());
    json_member_bool(r->json, "read_only", view_read_only(r->view));
    json_key(r->json, "server_stats");
    json_object_begin(r->json);
    json_member_int(r->json, "packets_sent", (int64_t)s.service.packets_sent);
    json_member_int(r->json, "packets_received", (int64_t)s.service.packets_received);
    put_response_sizes(r, "client_response_stats", s.metrics);
    json_member_string(r->json, "server_state", s.mode);
    json_member_int(r->json, "auth_failed_count", (int64_t)s.service.auth_failed);
    json_member_int(r->json, "max_latency", s.latency_max_ms);
    json_member_int(r->json, "min_latency", s.latency_min_ms);
    json_key(r->json, "avg_latency");
    json_real(r->json, s.latency_avg_ms, 4);
    json_member_int(r->json, "outstanding_requests", (int64_t)s.outstanding);
    json_member_int(r->json, "last_processed_zxid", s.zxid);
    json_member_int(r->json, "data_dir_size", process_info_folder_bytes(dir, "snapshot"));
    json_member_int(r->json, "log_dir_size", process_info_folder_bytes(dir, "log"));
    json_member_int(r->json, "num_alive_client_connections", (int64_t)s.port.connections);
    json_member_int(r->json, "uptime", s.uptime_ms);
    json_object_end(r->json);
    put_response_sizes(r, "client_response", s.metrics);
    if (strcmp(s.mode, "leader") == 0) {
        json_key(r->json, "proposal_stats");
        json_object_begin(r->json);
        json_member_int(r->json, "last_buffer_size", s.ensemble.proposal_last);
        json_member_int(r->json, "min_buffer_size", s.ensemble.proposal_min);
        json_member_int(r->json, "max_buffer_size", s.ensemble.proposal_max);
        json_object_end(r->json);
    }
    json_member_int(r->json, "node_count", (int64_t)s.state.nodes);
}

static void run_stat(struct command_run *r)
{
    run_srvr(r);
    put_connections(r, true);
}

static void run_conf(struct command_run *r)
{
    const struct server_options *o = server_options(r->view->server);
    struct net_address address;
    char dir[PATH_MAX];
    bool open = server_address(r->view->server, PORT_CLIENT, &address);
    process_info_absolute(o->data_dir, dir, sizeof dir);
    json_member_int(r->json, "client_port", open ? address.port : -1);
    json_member_string(r->json, "data_dir", dir);
    json_member_string(r->json, "data_log_dir", dir);
    json_member_int(r->json, "tick_time", o->limits.tick_ms);
    json_member_int(r->json, "max_client_cnxns", (int64_t)o->limits.address_max);
    json_member_int(r->json, "min_session_timeout", o->limits.session_min_ms);
    json_member_int(r->json, "max_session_timeout", o->limits.session_max_ms);
    json_member_int(r->json, "server_id", member_number(o->server_id));
    json_member_int(r->json, "client_port_listen_backlog", o->backlog);
}

static void run_dirs(struct command_run *r)
{
    const char *dir = server_options(r->view->server)->data_dir;
    json_member_int(r->json, "datadir_size", process_info_folder_bytes(dir, "snapshot"));
    json_member_int(r->json, "logdir_size", process_info_folder_bytes(dir, "log"));
}

static void put_fact(void *ctx, const char *key, const char *value)
{
    json_member_string(ctx, key, value);
}

static void run_envi(struct command_run *r)
{
    process_info_environment(put_fact, r->json);
}

static void put_figure(void *ctx, const struct view_figure *f)
{
    struct command_run *r = ctx;
    json_key(r->json, f->key);
    switch (f->kind) {
    case FIGURE_TEXT:
        json_string(r->json, f->text);
        break;
    case FIGURE_WHOLE:
        json_int(r->json, f->whole);
        break;
    case FIGURE_FRACTION:
        json_real(r->json, f->fraction, 4);
        break;
    }
}

static void run_mntr(struct command_run *r)
{
    view_figures(r->view, put_figure, r);
}

static void run_isro(struct command_run *r)
{
    json_member_bool(r->json, "read_only", view_read_only(r->view));
}

static void run_crst(struct command_run *r)
{
    view_reset_connections(r->view);
}

static void run_srst(struct command_run *r)
{
    view_reset_server(r->view);
}

static void run_gtmk(struct command_run *r)
{
    json_member_int(r->json, "tracemask", r->view->trace_mask);
}

static void run_stmk(struct command_run *r)
{
    char *end = NULL;
    if (r->argument == NULL) {
        buf_append_str(&r->error, "setTraceMask requires long traceMask argument");
        return;
    }
    errno = 0;
    long long mask = strtoll(r->argument, &end, 10);
    if (errno != 0 || end == r->argument || *end != '\0') {
        buf_printf(&r->error, "setTraceMask requires long traceMask argument, got %.64s",
                   r->argument);
        return;
    }
    r->view->trace_mask = mask;
    json_member_int(r->json, "tracemask", mask);
}

/* The ensemble: see ensemble_answers.c. Here are the answers of a server that is not a member of one. */

static void run_leader(struct command_run *r)
{
    if (!ensemble_answer_leader(r->view, r->json)) {
        buf_append_str(&r->error, "server is not initialized");
    }
}

static void run_observers(struct command_run *r)
{
    ensemble_answer_observers(r->view, r->json);
}

static void run_voting_view(struct command_run *r)
{
    if (!ensemble_answer_voting_view(r->view, r->json)) {
        json_key(r->json, "current_config");
        json_object_begin(r->json);
        json_object_end(r->json);
    }
}

static void run_zabstate(struct command_run *r)
{
    if (!ensemble_answer_zabstate(r->view, r->json)) {
        json_member_bool(r->json, "voting", false);
        json_member_string(r->json, "zabstate", "");
    }
}

static void run_hash(struct command_run *r)
{
    put_empty_array(r, "digests");
}

/* The newest snapshot: when its file was last written, in seconds; -1: none. */
static void run_last_snapshot(struct command_run *r)
{
    struct server_snapshot snapshot;
    char zxid[24];
    struct stat st;
    server_snapshot(r->view->server, &snapshot);
    char *path = snapshot_path(server_options(r->view->server)->data_dir, snapshot.index);
    bool found = snapshot.index > 0 && path != NULL && stat(path, &st) == 0;
    free(path);
    snprintf(zxid, sizeof zxid, "%" PRIx64, found ? snapshot.zxid : INT64_C(-1));
    json_member_string(r->json, "zxid", zxid);
    json_member_int(r->json, "timestamp", found ? st.st_mtim.tv_sec : -1);
}

static void run_initial_configuration(struct command_run *r)
{
    const struct effective_config *given = r->view->options->given;
    json_key(r->json, "initial_configuration");
    if (given == NULL || given->file.len == 0) {
        json_null(r->json);
    } else {
        json_text(r->json, buf_slice(&given->file));
    }
}

/* What Java calls its system properties, as far as this server has them. */
struct property_list {
    struct effective_config_pair *items;
    size_t count;
    size_t cap;
    bool failed;
};

static void add_property(struct property_list *list, const char *prefix, const char *key,
                         const char *value)
{
    struct effective_config_pair pair = {.value = strdup(value)};
    if (asprintf(&pair.key, "%s%s", prefix, key) < 0) {
        pair.key = NULL;
    }
    if (list->count == list->cap || pair.key == NULL || pair.value == NULL) {
        list->failed = true;
        free(pair.key);
        free(pair.value);
        return;
    }
    list->items[list->count++] = pair;
}

static void add_fact(void *ctx, const char *key, const char *value)
{
    if (strncmp(key, "user.", 5) == 0 ||
        (strncmp(key, "os.", 3) == 0 && strncmp(key, "os.memory", 9) != 0)) {
        add_property(ctx, "", key, value);
    }
}

static int by_key(const void *a, const void *b)
{
    const struct effective_config_pair *x = a;
    const struct effective_config_pair *y = b;
    return strcmp(x->key, y->key);
}

static void run_system_properties(struct command_run *r)
{
    enum { FACTS_MAX = 16 };
    const struct effective_config *given = r->view->options->given;
    size_t count = given != NULL ? given->count : 0;
    struct property_list list = {.cap = count + FACTS_MAX};
    list.items = calloc(list.cap, sizeof *list.items);
    if (list.items == NULL) {
        r->error.failed = true;
        return;
    }
    add_property(&list, "", "file.separator", "/");
    add_property(&list, "", "line.separator", "\n");
    add_property(&list, "", "path.separator", ":");
    process_info_environment(add_fact, &list);
    for (size_t i = 0; i < count; i++) {
        add_property(&list, "zookeeper.", given->pairs[i].key, given->pairs[i].value);
    }
    qsort(list.items, list.count, sizeof *list.items, by_key);
    for (size_t i = 0; i < list.count; i++) {
        json_member_string(r->json, list.items[i].key, list.items[i].value);
        free(list.items[i].key);
        free(list.items[i].value);
    }
    free(list.items);
    r->error.failed |= list.failed;
}

static void run_nothing(struct command_run *r)
{
}

/* Watches and sessions */

static void json_key_number(struct command_run *r, int64_t number)
{
    char key[32];
    snprintf(key, sizeof key, "%" PRId64, number);
    json_key(r->json, key);
}

static void run_wchs(struct command_run *r)
{
    struct watch_stats s;
    watch_stats(server_service(r->view->server)->watches, &s);
    json_member_int(r->json, "num_connections", (int64_t)s.data_watchers);
    json_member_int(r->json, "num_paths", (int64_t)s.data_paths);
    json_member_int(r->json, "num_total_watches", (int64_t)s.data_watches);
}

/* The watches in an array for each session or path; the table has each path once. */
static void put_watches(struct command_run *r, const char *key, bool by_session)
{
    size_t count;
    size_t more;
    size_t i = 0;
    struct view_path shown;
    struct view_room room = view_room(r->view, &r->json->out, 1);
    struct view_watch *watches = view_watches(r->view, &room, by_session, &count, &more);
    json_key(r->json, key);
    json_object_begin(r->json);
    while (i < count && view_has_room(&room)) {
        const struct view_watch *first = &watches[i];
        if (by_session) {
            json_key_number(r, first->session_id);
        } else {
            view_path(first->path, &shown);
            json_key_text(r->json, slice_make(shown.text, shown.len));
        }
        json_array_begin(r->json);
        for (; i < count && view_has_room(&room); i++) {
            if (by_session ? watches[i].session_id != first->session_id
                           : watches[i].path.data != first->path.data) {
                break;
            }
            if (by_session) {
                view_path(watches[i].path, &shown);
                json_text(r->json, slice_make(shown.text, shown.len));
            } else {
                json_int(r->json, watches[i].session_id);
            }
        }
        json_array_end(r->json);
    }
    json_object_end(r->json);
    free(watches);
    put_more(r, more + (count - i));
}

static void run_wchc(struct command_run *r)
{
    put_watches(r, "session_id_to_watched_paths", true);
}

static void run_wchp(struct command_run *r)
{
    put_watches(r, "path_to_session_ids", false);
}

struct ephemeral_list {
    struct command_run *run;
    bool open; /* the array of a session is open */
};

static void list_session(void *ctx, int64_t session_id)
{
    struct ephemeral_list *list = ctx;
    if (list->open) {
        json_array_end(list->run->json);
    }
    list->open = true;
    json_key_number(list->run, session_id);
    json_array_begin(list->run->json);
}

static void list_node(void *ctx, const struct view_path *path)
{
    struct ephemeral_list *list = ctx;
    json_text(list->run->json, slice_make(path->text, path->len));
}

static void run_dump(struct command_run *r)
{
    enum { DUMP_LISTS = 2 };
    size_t count;
    size_t more;
    struct view_room room = view_room(r->view, &r->json->out, DUMP_LISTS);
    struct view_expiry *items = view_sessions(r->view, &room, &count, &more);
    json_key(r->json, "expiry_time_to_session_ids");
    json_object_begin(r->json);
    for (size_t i = 0; i < count;) {
        int64_t due_ms = items[i].due_ms;
        json_key_number(r, due_ms);
        json_array_begin(r->json);
        for (; i < count && items[i].due_ms == due_ms; i++) {
            json_int(r->json, items[i].session_id);
        }
        json_array_end(r->json);
    }
    json_object_end(r->json);
    free(items);
    size_t more_nodes;
    struct ephemeral_list list = {.run = r};
    struct view_ephemerals callbacks = {list_session, list_node, &list};
    json_key(r->json, "session_id_to_ephemeral_paths");
    json_object_begin(r->json);
    room = view_room(r->view, &r->json->out, DUMP_LISTS);
    view_ephemerals_each(r->view, &room, &callbacks, &more_nodes);
    if (list.open) {
        json_array_end(r->json);
    }
    json_object_end(r->json);
    put_more(r, more + more_nodes);
}

/* The table */

struct admin_command {
    const char *name;
    const char *other[2];               /* other names, or NULL */
    bool always;                        /* answered also if the server does not serve */
    bool changes;                       /* changes state: needs POST */
    void (*run)(struct command_run *r); /* NULL: snapshot_route.c answers */
};

static const struct admin_command COMMANDS[] = {
    {"configuration", {"conf", "config"}, false, false, run_conf},
    {"connection_stat_reset", {"crst", NULL}, false, true, run_crst},
    {"connections", {"cons", NULL}, false, false, run_cons},
    {"dirs", {NULL, NULL}, false, false, run_dirs},
    {"dump", {NULL, NULL}, false, false, run_dump},
    {"environment", {"env", "envi"}, true, false, run_envi},
    {"get_trace_mask", {"gtmk", NULL}, true, false, run_gtmk},
    {"hash", {NULL, NULL}, false, false, run_hash},
    {"initial_configuration", {"icfg", NULL}, false, false, run_initial_configuration},
    {"is_read_only", {"isro", NULL}, false, false, run_isro},
    {"last_snapshot", {"lsnp", NULL}, false, false, run_last_snapshot},
    {"leader", {"lead", NULL}, false, false, run_leader},
    {"monitor", {"mntr", NULL}, false, false, run_mntr},
    {"observer_connection_stat_reset", {"orst", NULL}, false, true, run_nothing},
    {"observers", {"obsr", NULL}, false, false, run_observers},
    {"restore", {"rest", NULL}, false, false, NULL},
    {"ruok", {NULL, NULL}, false, false, run_nothing},
    {"server_stats", {"srvr", NULL}, false, false, run_srvr},
    {"set_trace_mask", {"stmk", NULL}, true, true, run_stmk},
    {"snapshot", {"snap", NULL}, false, false, NULL},
    {"stat_reset", {"srst", NULL}, false, true, run_srst},
    {"stats", {"stat", NULL}, false, false, run_stat},
    {"system_properties", {"sysp", NULL}, true, false, run_system_properties},
    {"voting_view", {NULL, NULL}, false, false, run_voting_view},
    {"watch_summary", {"wchs", NULL}, false, false, run_wchs},
    {"watches", {"wchc", NULL}, false, false, run_wchc},
    {"watches_by_path", {"wchp", NULL}, false, false, run_wchp},
    {"zabstate", {NULL, NULL}, true, false, run_zabstate},
};

static bool is_name(const char *candidate, const char *name)
{
    return candidate != NULL && strcmp(candidate, name) == 0;
}

static const struct admin_command *admin_command_find(const char *name)
{
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++) {
        const struct admin_command *c = &COMMANDS[i];
        if (is_name(c->name, name) || is_name(c->other[0], name) || is_name(c->other[1], name)) {
            return c;
        }
    }
    return NULL;
}

bool commands_change(const char *name)
{
    const struct admin_command *c = admin_command_find(name);
    return c != NULL && c->changes;
}

void commands_begin(struct json *j)
{
    json_init_pretty(j);
    json_object_begin(j);
}

void commands_end(struct json *j, const char *name, struct slice why, struct buf *out)
{
    json_member_string(j, "command", name);
    if (why.len > 0) {
        json_member_text(j, "error", why);
    } else {
        json_member_null(j, "error");
    }
    json_object_end(j);
    buf_append_slice(out, buf_slice(&j->out));
    out->failed |= j->out.failed;
    json_finish(j);
}

void commands_run(struct view *v, const char *name, const char *argument, struct buf *out)
{
    struct json json;
    struct command_run r = {.view = v, .json = &json, .argument = argument};
    const struct admin_command *c = admin_command_find(name);
    buf_init(&r.error, 0);
    commands_begin(&json);
    if (c == NULL) {
        buf_printf(&r.error, "Unknown command: %s", name);
    } else if (!c->always && !view_serving(v)) {
        buf_append_str(&r.error, TEXT_NOT_SERVING);
    } else if (c->run != NULL) {
        c->run(&r);
    }
    commands_end(&json, c != NULL ? c->name : name, buf_slice(&r.error), out);
    out->failed |= r.error.failed;
    buf_finish(&r.error);
}

void commands_fail(const char *name, const char *why, struct buf *out)
{
    struct json json;
    commands_begin(&json);
    commands_end(&json, name, slice_str(why), out);
}

void commands_list(const struct view *v, struct buf *out)
{
    for (size_t i = 0; i < sizeof COMMANDS / sizeof COMMANDS[0]; i++) {
        buf_printf(out, "<a href=\"%s/%s\">%s</a>\n<br/>\n", v->options->command_url,
                   COMMANDS[i].name, COMMANDS[i].name);
    }
}
