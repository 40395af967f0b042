#include "admin/mirror_route.h"

#include "admin/answers/four_letter_text.h"
#include "admin/http/adminserver_commands.h"
#include "apache/folder.h"
#include "apache/follower/mirror_follower.h"
#include "apache/learner/learner_link.h"
#include "base/endian.h"
#include "base/json.h"
#include "base/log.h"
#include "base/random.h"
#include "daemon/server.h"
#include "front/mirror.h"
#include "state/adopt/outcome.h"
#include "state/mirror.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { DIGEST_NODES_MAX = 200000, DIGEST_MS = 2000, FEED_MAX = 8 << 20, FEED_HEAD = 4 + 8 };

static struct service *route_service(const struct mirror_route *t)
{
    return server_service(t->view->server);
}

/* What is known */

/* Whether there are digests to show. To compute ours takes a look at all nodes, and anybody may ask: so while there are writes, it
 * is done once in DIGEST_MS, and shown for that long. */
static bool compare_digests(struct mirror_route *t, const struct follower_view *view, size_t nodes)
{
    const struct service *s = route_service(t);
    int64_t now_ms = clock_monotonic_ms(s->clock);
    int64_t zxid = state_zxid(s->state);
    bool any = t->digests.zxid != 0 && t->digests.generation == s->generation;
    if (any && (t->digests.zxid == zxid || now_ms - t->digests.at_ms < DIGEST_MS)) {
        return true;
    }
    if (!view->digest_known || nodes > DIGEST_NODES_MAX) {
        return false;
    }
    t->digests.generation = s->generation;
    t->digests.zxid = zxid;
    t->digests.own = outcome_tree_digest(s->state, apache_crc32);
    t->digests.source = view->source_digest;
    t->digests.at_ms = now_ms;
    return true;
}

static void write_digests(struct mirror_route *t, const struct follower_view *view, size_t nodes,
                          struct json *j)
{
    if (!compare_digests(t, view, nodes)) {
        json_member_null(j, "digest");
        json_member_null(j, "source_digest");
        return;
    }
    json_member_hex(j, "digest", (int64_t)t->digests.own);
    json_member_hex(j, "source_digest", (int64_t)t->digests.source);
}

static void write_progress(const struct follower_view *view, int64_t zxid, struct json *j)
{
    bool same_epoch = view->source_zxid >> 32 == zxid >> 32;
    int64_t missing = view->source_zxid <= zxid ? 0 : same_epoch ? view->source_zxid - zxid : -1;
    json_member_string(j, "stage", mirror_stage_name(view->stage));
    json_member_string(j, "server", view->server);
    json_member_string(j, "trouble", view->trouble != NULL ? view->trouble : "");
    json_member_hex(j, "zxid", zxid);
    json_member_hex(j, "source_zxid", view->source_zxid);
    json_member_int(j, "behind", missing);
    json_member_int(j, "behind_ms", view->behind_ms);
    json_member_int(j, "heard_ms", view->heard_ms);
    json_member_uint(j, "transactions", view->transactions);
    json_member_uint(j, "states", view->states);
    json_member_uint(j, "breaks", view->breaks);
    json_member_hex(j, "barrier_zxid", view->barrier_zxid);
}

static void write_mirror(struct mirror_route *t, struct json *j)
{
    struct service *s = route_service(t);
    struct state_mirror m = {.source = slice_str("")};
    struct state_stats stats;
    struct follower_view view;
    bool is = state_mirror(s->state, &m);
    mirror_follower_view(server_follower(t->view->server), &view);
    state_stats(s->state, &stats);
    json_member_bool(j, "mirror", is);
    json_member_bool(j, "leads", s->standing.leads && leadership_in_contact(s));
    json_member_text(j, "source", m.source);
    json_member_string(j, "reads", m.any_reader ? "any" : "readonly");
    json_member_bool(j, "synced", m.synced);
    write_progress(&view, state_zxid(s->state), j);
    json_member_uint(j, "nodes", stats.nodes);
    json_member_uint(j, "sessions", stats.sessions);
    json_member_uint(j, "backlog", mirror_backlog(s));
    write_digests(t, &view, stats.nodes, j);
    json_member_string(j, "act", t->act != NULL ? t->act : "");
    json_member_bool(j, "act_waits", t->waits);
    json_member_int(j, "act_err", t->err);
}

static void answer_view(struct mirror_route *t, struct http_response *response)
{
    struct json j;
    json_init(&j);
    json_object_begin(&j);
    write_mirror(t, &j);
    json_object_end(&j);
    buf_append_slice(&response->body, buf_slice(&j.out));
    buf_append_u8(&response->body, '\n');
    response->body.failed |= j.out.failed;
    json_finish(&j);
}

/* Acts */

static void on_outcome(struct pending_owner *owner, const struct effects *effects)
{
    struct mirror_route *t = CONTAINER_OF(owner, struct mirror_route, owner);
    assert(t->waits && t->act != NULL);
    t->waits = false;
    t->err = effects != NULL ? effects->err : CONCLAVE_CONNECTION_LOSS;
    log_always("admin", "mirror", "act=%s result=%s", t->act,
               t->err == 0 ? "done" : conclave_errname(t->err));
}

void mirror_route_cancel(struct mirror_route *t)
{
    if (t->waits) {
        service_disown(&t->owner);
    }
    t->waits = false;
    t->act = NULL;
}

static unsigned propose(struct mirror_route *t, const char *act, int32_t type, struct slice body,
                        const char **ret_why)
{
    const struct command command = {
        .type = type, .ids = {.items = slice_str(""), .count = 0}, .body = body};
    if (t->waits) {
        *ret_why = "Another one is on its way";
        return 409;
    }
    t->owner = (struct pending_owner){.applied = on_outcome, .host = "admin"};
    t->act = act;
    t->err = 0;
    t->waits = true;
    int rc = service_write(route_service(t), &command, &t->owner);
    if (rc != 0) {
        t->waits = false;
        t->err = rc;
        *ret_why = "The server has no leader with a quorum, or its log takes nothing";
        return 503;
    }
    return 0;
}

/* Only where there is nothing of this ensemble's own to lose, somebody may act without. */
static bool needs_credentials(const struct service *s)
{
    return !s->mirrored && !state_is_empty(s->state);
}

static unsigned act_follow(struct mirror_route *t, const struct http_request *request,
                           const char **ret_why)
{
    struct net_address servers[LEARNER_SERVERS_MAX];
    const char *source = http_argument(request, "source");
    const char *reads = http_argument(request, "reads");
    const char *argument = http_argument(request, "replace");
    const struct service *s = route_service(t);
    /* A request without credentials replaces nothing: it was admitted because the tree was empty, and clients may have written since. */
    bool replace = argument != NULL && strcmp(argument, "1") == 0 && needs_credentials(s);
    struct state_mirror m = {.any_reader = reads == NULL || strcmp(reads, "any") == 0};
    if (source == NULL || strlen(source) > MIRROR_SOURCE_MAX ||
        learner_servers_parse(slice_str(source), servers) == 0) {
        *ret_why = "The source is HOST:QUORUMPORT,HOST:QUORUMPORT,... with at most 32 servers";
        return 400;
    }
    if (!state_is_empty(s->state) && !replace) {
        *ret_why =
            "This ensemble has nodes already, and the tree of the source would replace all of them: use "
            "empty servers, or --replace";
        return 409;
    }
    m.id = (int64_t)random_below(INT64_MAX) + 1;
    m.source = slice_str(source);
    struct buf body;
    buf_init(&body, 0);
    mirror_begin_encode(&body, &m, replace);
    unsigned status =
        buf_ok(&body) ? propose(t, "follow", COMMAND_MIRROR_BEGIN, buf_slice(&body), ret_why) : 500;
    buf_finish(&body);
    return status;
}

static bool read_zxid(const char *text, int64_t *ret)
{
    char *end = NULL;
    errno = 0;
    unsigned long long zxid = text != NULL ? strtoull(text, &end, 16) : 0;
    *ret = (int64_t)zxid;
    return text != NULL && errno == 0 && end != text && *end == '\0' && zxid <= INT64_MAX;
}

static unsigned act_end(struct mirror_route *t, const struct http_request *request,
                        const char **ret_why)
{
    uint8_t room[16];
    struct buf body = {.data = room, .cap = sizeof room, .max = sizeof room};
    struct state_mirror m;
    int64_t zxid;
    if (!read_zxid(http_argument(request, "zxid"), &zxid)) {
        *ret_why = "The argument zxid is that of the last transaction of the source, hexadecimal";
        return 400;
    }
    if (!state_mirror(route_service(t)->state, &m)) {
        *ret_why = "This is no mirror";
        return 409;
    }
    mirror_end_encode(&body, m.id, zxid);
    return propose(t, "end", COMMAND_MIRROR_END, buf_slice(&body), ret_why);
}

/* Proposes the transactions of the body, as many as the log takes now. */
static unsigned act_feed(const struct mirror_route *t, const struct http_request *request,
                         struct http_response *response, const char **ret_why)
{
    struct service *s = route_service(t);
    struct slice rest = request->body;
    size_t taken = 0;
    if (!s->standing.leads || !s->mirrored) {
        *ret_why = "This is not the leader of a mirror";
        return 409;
    }
    while (rest.len >= FEED_HEAD) {
        struct outcome o;
        size_t len = get_be32(rest.data);
        if (len > rest.len - FEED_HEAD) {
            break;
        }
        struct slice bytes = slice_make(rest.data + FEED_HEAD, len);
        if (outcome_read(bytes, &o) != 0) {
            *ret_why = "A transaction cannot be read";
            return 400;
        }
        if (mirror_propose(s, (int64_t)get_be64(rest.data + 4), bytes) != 0) {
            break;
        }
        taken++;
        rest = slice_make(bytes.data + len, rest.len - FEED_HEAD - len);
    }
    buf_printf(&response->body, "{\"taken\":%zu}\n", taken);
    return 0;
}

static unsigned act_barrier(const struct mirror_route *t, const char **ret_why)
{
    if (mirror_follower_barrier(server_follower(t->view->server)) != 0) {
        *ret_why = "This server does not follow the source at present";
        return 409;
    }
    return 0;
}

static unsigned act(struct mirror_route *t, const char *name, const struct http_request *request,
                    struct http_response *response, const char **ret_why)
{
    struct service *s = route_service(t);
    int64_t now_ms = clock_monotonic_ms(s->clock);
    unsigned status = needs_credentials(s)
                          ? admission_check(t->admission, s, request, now_ms, ret_why)
                          : admission_check_mirror(t->admission, s, request, now_ms, ret_why);
    if (status != 0) {
        return status;
    }
    if (strcmp(name, "follow") == 0) {
        return act_follow(t, request, ret_why);
    }
    if (strcmp(name, "end") == 0) {
        return act_end(t, request, ret_why);
    }
    if (strcmp(name, "barrier") == 0) {
        return act_barrier(t, ret_why);
    }
    if (slice_is_null(request->body)) {
        response->body_max = FEED_MAX;
        return 0;
    }
    return act_feed(t, request, response, ret_why);
}

static bool is_act(const char *name)
{
    static const char *const names[] = {"follow", "end", "barrier", "transactions"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void answer_act(struct mirror_route *t, const char *name, const struct http_request *request,
                       struct http_response *response)
{
    const char *why = TEXT_NOT_SERVING;
    if (strcmp(request->method, "POST") != 0) {
        response->status = 405;
        response->allow = "POST";
        buf_append_str(&response->body, "this command needs another method\n");
        return;
    }
    bool serves = view_serving(t->view) || route_service(t)->mirrored;
    unsigned status = serves ? act(t, name, request, response, &why) : 503;
    if (status != 0) {
        log_cause(LOG_WARN, "admin", "mirror", request->peer, why, TEXT_REFUSED_ADVICE,
                  "act=%s result=refused peer=%s reason=\"%s\"", name, request->peer, why);
        response->status = status;
        commands_fail("mirror", why, &response->body);
    } else if (response->body_max == 0 && response->body.len == 0) {
        commands_fail("mirror", NULL, &response->body);
    }
}

bool mirror_route_answer(void *ctx, const struct http_request *request,
                         struct http_response *response)
{
    struct mirror_route *t = ctx;
    static const char prefix[] = "/mirror";
    if (strncmp(request->path, prefix, sizeof prefix - 1) != 0) {
        return false;
    }
    const char *rest = request->path + sizeof prefix - 1;
    bool whole = rest[0] == '\0';
    if (!whole && (rest[0] != '/' || !is_act(rest + 1))) {
        return false;
    }
    response->content_type = "application/json;charset=utf-8";
    if (t->view->server == NULL) {
        response->status = 503;
        commands_fail("mirror", TEXT_NOT_SERVING, &response->body);
    } else if (!whole) {
        answer_act(t, rest + 1, request, response);
    } else if (strcmp(request->method, "GET") == 0) {
        answer_view(t, response);
    } else {
        response->status = 405;
        response->allow = "GET";
        buf_append_str(&response->body, "this command needs another method\n");
    }
    return true;
}
