#include "admin/answers/four_letter_text.h"

#include "admin/answers/ensemble_answers.h"
#include "admin/answers/process_info.h"
#include "base/json.h"
#include "cluster/server_options.h"
#include "daemon/server.h"
#include "daemon/server_stats.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void text_more(struct buf *out, size_t more)
{
    if (more > 0) {
        buf_printf(out, "... and %zu more, left out so that this answer stalls no client\n", more);
    }
}

/* Apache ZooKeeper answers imok as soon as its port is open; here imok means that reads and writes are answered. */
void four_letter_ruok(const struct view *v, struct buf *out)
{
    buf_append_str(out, server_why_not_ready(v->server) == NULL ? "imok" : TEXT_NOT_SERVING "\n");
}

/* srvr, stat */

static void text_figures(const struct view *v, struct buf *out)
{
    struct server_stats s;
    server_stats(v->server, &s);
    buf_printf(out, "Latency min/avg/max: %" PRId64 "/", s.latency_min_ms);
    real_append(out, s.latency_avg_ms, 4);
    buf_printf(out, "/%" PRId64 "\n", s.latency_max_ms);
    buf_printf(out, "Received: %" PRIu64 "\n", s.service.packets_received);
    buf_printf(out, "Sent: %" PRIu64 "\n", s.service.packets_sent);
    buf_printf(out, "Connections: %zu\n", s.port.connections);
    buf_printf(out, "Outstanding: %zu\n", s.outstanding);
    buf_printf(out, "Zxid: 0x%" PRIx64 "\n", (uint64_t)s.zxid);
    buf_printf(out, "Mode: %s\n", s.mode);
    buf_printf(out, "Node count: %zu\n", s.state.nodes);
    if (strcmp(s.mode, "leader") == 0) {
        buf_printf(out, "Proposal sizes last/min/max: %" PRId64 "/%" PRId64 "/%" PRId64 "\n",
                   s.ensemble.proposal_last, s.ensemble.proposal_min, s.ensemble.proposal_max);
    }
}

void four_letter_srvr(const struct view *v, struct buf *out)
{
    buf_printf(out, "Zookeeper version: %s\n", process_info_version());
    text_figures(v, out);
}

static void text_brief(struct buf *out, const struct view_connection *c)
{
    buf_printf(out, " /%s[%x](queued=%zu,recved=%" PRIu64 ",sent=%" PRIu64, c->address, c->interest,
               c->queued, c->stats.received, c->stats.sent);
}

static void append_brief(void *ctx, const struct view_connection *c)
{
    text_brief(ctx, c);
    buf_append_str(ctx, ")\n");
}

void four_letter_stat(const struct view *v, struct buf *out)
{
    buf_printf(out, "Zookeeper version: %s\n", process_info_version());
    buf_append_str(out, "Clients:\n");
    struct view_room room = view_room(v, out, 1);
    text_more(out, view_connections(v, &room, append_brief, out));
    buf_append_str(out, "\n");
    text_figures(v, out);
}

static void append_full(void *ctx, const struct view_connection *c)
{
    const struct connection_stats *s = &c->stats;
    struct buf *out = ctx;
    text_brief(out, c);
    if (c->session_id != 0) {
        buf_printf(out, ",sid=0x%" PRIx64 ",lop=%s,est=%" PRId64 ",to=%d", (uint64_t)c->session_id,
                   c->last_op, c->established_ms, c->timeout_ms);
        if (s->last_cxid >= 0) {
            buf_printf(out, ",lcxid=0x%" PRIx64, (uint64_t)s->last_cxid);
        }
        buf_printf(out,
                   ",lzxid=0x%" PRIx64 ",lresp=%" PRId64 ",llat=%" PRId64 ",minlat=%" PRId64
                   ",avglat=%" PRIu64 ",maxlat=%" PRId64,
                   (uint64_t)s->last_zxid, s->response_at_ms, s->latency_last_ms, s->latency_min_ms,
                   s->answered == 0 ? 0 : s->latency_sum_ms / s->answered, s->latency_max_ms);
    }
    buf_append_str(out, ")\n");
}

void four_letter_cons(const struct view *v, struct buf *out)
{
    struct view_room room = view_room(v, out, 1);
    text_more(out, view_connections(v, &room, append_full, out));
    buf_append_str(out, "\n");
}

/* conf, envi, isro, dirs */

void four_letter_conf(const struct view *v, struct buf *out)
{
    const struct server_options *o = server_options(v->server);
    struct net_address address;
    char dir[PATH_MAX];
    process_info_absolute(o->data_dir, dir, sizeof dir);
    bool open = server_address(v->server, PORT_CLIENT, &address);
    buf_printf(out, "clientPort=%d\n", open ? address.port : -1);
    open = server_address(v->server, PORT_SECURE, &address);
    buf_printf(out, "secureClientPort=%d\n", open ? address.port : -1);
    buf_printf(out, "dataDir=%s\n", dir);
    buf_printf(out, "dataDirSize=%" PRId64 "\n", process_info_folder_bytes(dir, "snapshot"));
    buf_printf(out, "dataLogDir=%s\n", dir);
    buf_printf(out, "dataLogSize=%" PRId64 "\n", process_info_folder_bytes(dir, "log"));
    buf_printf(out, "tickTime=%d\n", o->limits.tick_ms);
    buf_printf(out, "maxClientCnxns=%zu\n", o->limits.address_max);
    buf_printf(out, "minSessionTimeout=%d\n", o->limits.session_min_ms);
    buf_printf(out, "maxSessionTimeout=%d\n", o->limits.session_max_ms);
    buf_printf(out, "clientPortListenBacklog=%d\n", o->backlog);
    buf_printf(out, "serverId=%" PRId64 "\n", member_number(o->server_id));
    ensemble_answer_conf(v, out);
}

static void append_pair(void *ctx, const char *key, const char *value)
{
    buf_printf(ctx, "%s=%s\n", key, value);
}

void four_letter_envi(const struct view *v, struct buf *out)
{
    buf_append_str(out, "Environment:\n");
    process_info_environment(append_pair, out);
}

void four_letter_isro(const struct view *v, struct buf *out)
{
    buf_append_str(out, view_read_only(v) ? "ro" : view_serving(v) ? "rw" : "null");
}

void four_letter_dirs(const struct view *v, struct buf *out)
{
    const char *dir = server_options(v->server)->data_dir;
    buf_printf(out, "datadir_size: %" PRId64 "\n", process_info_folder_bytes(dir, "snapshot"));
    buf_printf(out, "logdir_size: %" PRId64 "\n", process_info_folder_bytes(dir, "log"));
}

/* wchs, wchc, wchp */

void four_letter_wchs(const struct view *v, struct buf *out)
{
    struct watch_stats s;
    watch_stats(server_service(v->server)->watches, &s);
    buf_printf(out, "%zu connections watching %zu paths\nTotal watches:%zu\n", s.data_watchers,
               s.data_paths, s.data_watches);
}

static void append_path(struct buf *out, struct slice path)
{
    struct view_path shown;
    view_path(path, &shown);
    buf_append(out, shown.text, shown.len);
    buf_append_u8(out, '\n');
}

/* The watches under a line for each session or path; the table has each path once. */
static void text_watches(const struct view *v, struct buf *out, bool by_session)
{
    size_t count;
    size_t more;
    size_t i;
    struct view_room room = view_room(v, out, 1);
    struct view_watch *watches = view_watches(v, &room, by_session, &count, &more);
    for (i = 0; i < count && view_has_room(&room); i++) {
        const struct view_watch *w = &watches[i];
        bool session_begins = i == 0 || w->session_id != watches[i - 1].session_id;
        bool path_begins = i == 0 || w->path.data != watches[i - 1].path.data;
        if (!by_session && path_begins) {
            append_path(out, w->path);
        }
        if (!by_session || session_begins) {
            buf_printf(out, by_session ? "0x%" PRIx64 "\n" : "\t0x%" PRIx64 "\n",
                       (uint64_t)w->session_id);
        }
        if (by_session) {
            buf_append_u8(out, '\t');
            append_path(out, w->path);
        }
    }
    free(watches);
    text_more(out, more + (count - i));
    buf_append_str(out, "\n");
}

void four_letter_wchc(const struct view *v, struct buf *out)
{
    text_watches(v, out, true);
}

void four_letter_wchp(const struct view *v, struct buf *out)
{
    text_watches(v, out, false);
}

/* dump */

enum { DUMP_LISTS = 3 };

/* As java.util.Date: "Sat Nov 21 04:17:34 UTC 2026". */
static void append_date(struct buf *out, int64_t wall_ms)
{
    time_t at = (time_t)(wall_ms / 1000);
    struct tm tm;
    char text[64];
    if (localtime_r(&at, &tm) != NULL &&
        strftime(text, sizeof text, "%a %b %d %H:%M:%S %Z %Y", &tm) > 0) {
        buf_append_str(out, text);
    }
}

/* As Apache ZooKeeper's ExpiryQueue prints it: sets of sessions or connections that expire together. */
static void text_expiries(const struct view *v, struct buf *out, const struct view_expiry *items,
                          size_t count, size_t more, bool connections)
{
    size_t sets = 0;
    for (size_t i = 0; i < count; i++) {
        sets += i == 0 || items[i].due_ms != items[i - 1].due_ms;
    }
    buf_printf(out, "Sets (%zu)/(%zu):\n", sets, count + more);
    for (size_t i = 0; i < count;) {
        size_t end = i + 1;
        while (end < count && items[end].due_ms == items[i].due_ms) {
            end++;
        }
        buf_printf(out, "%zu expire at ", end - i);
        append_date(out, view_wall_ms(v, items[i].due_ms));
        buf_append_str(out, ":\n");
        for (; i < end; i++) {
            if (connections) {
                buf_printf(out, "\tip: /%s sessionId: ", items[i].address);
            } else {
                buf_append_u8(out, '\t');
            }
            buf_printf(out, "0x%" PRIx64 "\n", (uint64_t)items[i].session_id);
        }
    }
    text_more(out, more);
}

static void append_session(void *ctx, int64_t session_id)
{
    buf_printf(ctx, "0x%" PRIx64 ":\n", (uint64_t)session_id);
}

static void append_node(void *ctx, const struct view_path *path)
{
    buf_append_u8(ctx, '\t');
    buf_append(ctx, path->text, path->len);
    buf_append_u8(ctx, '\n');
}

static void text_ephemerals(const struct view *v, struct buf *out)
{
    struct buf list;
    size_t more;
    buf_init(&list, 0);
    struct view_room room = view_room(v, &list, DUMP_LISTS);
    struct view_ephemerals callbacks = {append_session, append_node, &list};
    size_t sessions = view_ephemerals_each(v, &room, &callbacks, &more);
    buf_printf(out, "Sessions with Ephemerals (%zu):\n", sessions);
    buf_append_slice(out, buf_slice(&list));
    out->failed |= list.failed;
    buf_finish(&list);
    text_more(out, more);
}

void four_letter_dump(const struct view *v, struct buf *out)
{
    size_t count;
    size_t more;
    struct view_room room = view_room(v, out, DUMP_LISTS);
    struct view_expiry *items = view_sessions(v, &room, &count, &more);
    buf_append_str(out, "SessionTracker dump:\nSession ");
    text_expiries(v, out, items, count, more, false);
    free(items);
    buf_append_str(out, "ephemeral nodes dump:\n");
    text_ephemerals(v, out);
    room = view_room(v, out, DUMP_LISTS);
    items = view_connection_expiries(v, &room, &count, &more);
    buf_append_str(out, "Connections dump:\nConnections ");
    text_expiries(v, out, items, count, more, true);
    free(items);
}

/* mntr, srst, crst, hash, gtmk */

static void append_figure(void *ctx, const struct view_figure *f)
{
    buf_printf(ctx, "zk_%s\t", f->key);
    switch (f->kind) {
    case FIGURE_TEXT:
        buf_append_str(ctx, f->text);
        break;
    case FIGURE_WHOLE:
        buf_printf(ctx, "%" PRId64, f->whole);
        break;
    case FIGURE_FRACTION:
        real_append(ctx, f->fraction, 4);
        break;
    }
    buf_append_u8(ctx, '\n');
}

void four_letter_mntr(const struct view *v, struct buf *out)
{
    view_figures(v, append_figure, out);
}

void four_letter_srst(const struct view *v, struct buf *out)
{
    view_reset_server(v);
    buf_append_str(out, "Server stats reset.\n");
}

void four_letter_crst(const struct view *v, struct buf *out)
{
    view_reset_connections(v);
    buf_append_str(out, "Connection stats reset.\n");
}

/* Apache ZooKeeper logs a digest of its tree every 128 changes. This server keeps none, so the list is empty, as
 * without digest.enabled. */
void four_letter_hash(const struct view *v, struct buf *out)
{
}

void four_letter_gtmk(const struct view *v, struct buf *out)
{
    buf_printf(out, "%" PRId64, v->trace_mask);
}
