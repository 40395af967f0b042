/*
 * The members of the ensemble as clients see and change them: /zookeeper/config and reconfig. A reconfig only stores
 * its target, and its answer waits. The leader changes the log's configuration one member at a time and reports each
 * change to this room. When the target is reached, the node gets the members and the answer is made. When the leader
 * gives up, the answer is its error, and the node gets the members at which the change ended.
 *
 *   reconfig ──► pending ──┬── state_configure: the target is reached ──► node, answer
 *                          └── RECONFIG_END: given up ──► error, node if it moved at all
 *
 * The target is reached when every member that stays has its new role and address and no removed member votes. Removed
 * members get the log until the leader drops them from the log's configuration, so that they can answer their own
 * clients. The node no longer lists them, and the next reconfig does not wait for them.
 *
 * Checks and errors are in the order of ZooKeeper's PrepRequestProcessor, with two exceptions. The permission is
 * checked before the lists of servers are read. Only the leader knows whether a quorum is connected, and reports it by
 * RECONFIG_END. Weights and groups are refused as bad arguments.
 */
#include "state/reconfig.h"

#include "base/properties.h"
#include "state/digest.h"
#include "state/members/member_line.h"
#include "state/state_internal.h"
#include "wire/java_number.h"

#include <assert.h>
#include <stdio.h>

#define CONFIG_NODE "/zookeeper/config"

/* --- the node --------------------------------------------------------------------------------- */

static void set_node(struct write *w, struct znode *node, struct slice data, int32_t version)
{
    struct state *s = w->s;
    uint64_t digest = digest_path(slice_str(CONFIG_NODE));
    s->nodes_digest -= digest_node(s, node, digest);
    write_replace_data(s, node, data);
    node->version = version;
    node->mzxid = w->zxid;
    node->mtime = w->time_ms;
    s->nodes_digest += digest_node(s, node, digest);
}

/* The members that clients see. */
static const struct membership *reconfig_shown(const struct configuration *e)
{
    return configuration_is_leaving(e) ? &e->target : &e->members;
}

/* Whether the members equal the target, not counting removed members without a vote. */
static bool is_reached(const struct configuration *e)
{
    const struct membership *now = &e->members;
    const struct membership *target = &e->target;
    size_t found = 0;
    if (!e->leaving) {
        return membership_equal(now, target);
    }
    for (size_t i = 0; i < now->count; i++) {
        if (found < target->count && now->list[i].id == target->list[found].id) {
            if (!member_equal(&now->list[i], &target->list[found])) {
                return false;
            }
            found++;
        } else if (now->list[i].role == STATE_VOTER) {
            return false;
        }
    }
    return found == target->count;
}

/* Writes the members into the node, with the zxid of this change as their version. */
static void publish(struct write *w)
{
    struct state *s = w->s;
    struct configuration *e = &s->configuration;
    struct znode *node = tree_find(&s->tree, slice_str(CONFIG_NODE));
    e->version = w->zxid;
    e->unpublished = false;
    if (node == NULL) {
        return;
    }
    buf_reset(&s->scratch);
    membership_print(reconfig_shown(e), &s->scratch);
    buf_printf(&s->scratch, "version=%llx", (unsigned long long)e->version);
    state_need(buf_ok(&s->scratch));
    int64_t bytes = (int64_t)s->scratch.len - (int64_t)znode_data(node).len;
    /* The node's version is -1, as after every reconfig in ZooKeeper. */
    set_node(w, node, buf_slice(&s->scratch), -1);
    write_tell_data(w, node);
    quota_count(s, slice_str(CONFIG_NODE), 0, bytes);
}

bool state_config_lists(const struct state *s, int64_t id)
{
    const struct znode *node = tree_find(&s->tree, slice_str(CONFIG_NODE));
    struct slice rest = node != NULL ? znode_data(node) : SLICE_NULL;
    char start[32];
    size_t len =
        (size_t)snprintf(start, sizeof start, "server.%lld=", (long long)member_number(id));
    while (rest.len > 0) {
        if (rest.len > len && memcmp(rest.data, start, len) == 0) {
            return true;
        }
        const uint8_t *end = memchr(rest.data, '\n', rest.len);
        size_t line = end != NULL ? (size_t)(end - rest.data) + 1 : rest.len;
        rest = slice_make(rest.data + line, rest.len - line);
    }
    return false;
}

static void reply_config(struct write *w)
{
    const struct znode *node = tree_find(&w->s->tree, slice_str(CONFIG_NODE));
    if (node != NULL) {
        wire_write_buffer(&w->effects->reply, znode_data(node));
        znode_append_stat(node, &w->effects->reply);
    }
}

/* --- the request ------------------------------------------------------------------------------ */

/* The next piece of a list separated by commas, trimmed; skips empty ones. */
static bool next_piece(struct slice *rest, struct slice *ret)
{
    while (rest->len > 0) {
        const uint8_t *comma = memchr(rest->data, ',', rest->len);
        size_t len = comma != NULL ? (size_t)(comma - rest->data) : rest->len;
        struct slice piece = text_trim(slice_make(rest->data, len));
        size_t used = comma != NULL ? len + 1 : len;
        *rest = slice_make(rest->data + used, rest->len - used);
        if (piece.len > 0) {
            *ret = piece;
            return true;
        }
    }
    return false;
}

static int reconfig_leave(struct membership *next, struct slice list)
{
    struct slice piece;
    int64_t id;
    while (next_piece(&list, &piece)) {
        if (!java_number_parse(piece, &id)) {
            return CONCLAVE_MARSHALLING_ERROR;
        }
        if (id <= STATE_MEMBER_NUMBER_MAX) {
            membership_remove(next, member_id(id));
        }
    }
    return 0;
}

/* Parses digits that must be a server's number. */
static int parse_id(struct slice text, int64_t *ret)
{
    int64_t number;
    if (!java_number_parse(text, &number)) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    *ret = member_id(number);
    return number >= 0 && number <= STATE_MEMBER_NUMBER_MAX ? 0 : CONCLAVE_BAD_ARGUMENTS;
}

/* The members that a request leads to, with their parsed addresses. */
struct change {
    struct membership *next;
    struct known_line {
        int64_t id;
        struct member_line line; /* borrows from the member's address */
    } * lines;
    size_t count;
};

static void change_note(struct change *c, int64_t id, const char *address)
{
    const char *why;
    struct member_line line;
    size_t place = 0;
    while (place < c->count && c->lines[place].id != id) {
        place++;
    }
    if (member_line_parse(slice_str(address), &line, &why) == 0) {
        c->lines[place] = (struct known_line){id, line};
        c->count += place == c->count;
    } else if (place < c->count) {
        c->lines[place] = c->lines[--c->count];
    }
}

/* Makes room for all present members and all that the request can name. */
static void change_begin(struct change *c, struct membership *next, size_t more)
{
    *c = (struct change){.next = next};
    c->lines = calloc(next->count + more + 1, sizeof *c->lines);
    state_need(c->lines != NULL);
    for (size_t i = 0; i < next->count; i++) {
        change_note(c, next->list[i].id, next->list[i].address);
    }
}

/* Whether another member has one of the line's addresses. */
static bool clashes(const struct change *c, int64_t id, const struct member_line *line)
{
    for (size_t i = 0; i < c->count; i++) {
        if (c->lines[i].id != id && member_lines_clash(line, &c->lines[i].line)) {
            return true;
        }
    }
    return false;
}

static void change_put(struct change *c, int64_t id, enum state_role role, struct slice address)
{
    state_need(membership_put(c->next, id, role, address));
    for (size_t i = 0; i < c->next->count; i++) {
        if (c->next->list[i].id == id) {
            change_note(c, id, c->next->list[i].address);
        }
    }
}

/* `server.N=address;client`: the server's number follows the last point. */
static int join_one(struct change *c, struct slice piece)
{
    const uint8_t *equals = memchr(piece.data, '=', piece.len);
    struct member_line line;
    const char *why;
    int64_t id;
    if (equals == NULL) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    struct slice name = text_trim(slice_make(piece.data, (size_t)(equals - piece.data)));
    struct slice address =
        text_trim(slice_make(equals + 1, piece.len - (size_t)(equals - piece.data) - 1));
    if (name.len == 0 || address.len == 0 || memchr(address.data, '=', address.len) != NULL) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    size_t start = name.len;
    while (start > 0 && name.data[start - 1] != '.') {
        start--;
    }
    int rc = parse_id(slice_make(name.data + start, name.len - start), &id);
    if (rc == CONCLAVE_MARSHALLING_ERROR) {
        return rc;
    }
    int line_rc = member_line_parse(address, &line, &why);
    if (line_rc != 0 || rc != 0) {
        return line_rc != 0 ? line_rc : rc;
    }
    if (!line.has_client || clashes(c, id, &line)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    change_put(c, id, line.observer ? STATE_OBSERVER : STATE_VOTER, address);
    return 0;
}

static int change_members(struct membership *next, const struct wire_reconfig_request *r)
{
    struct slice joining = r->joining_servers;
    struct slice piece;
    struct change change;
    int rc = reconfig_leave(next, r->leaving_servers);
    if (rc == 0) {
        change_begin(&change, next, STATE_MEMBER_ID_MAX);
        while (rc == 0 && next_piece(&joining, &piece)) {
            rc = join_one(&change, piece);
        }
        free(change.lines);
    }
    return rc;
}

/* The properties of a request that lists all members. */
struct member_listing {
    struct membership *next;
    bool unknown; /* there is an unknown key */
    int rc;       /* the first error of a value */
};

static int list_server(struct member_listing *l, struct slice number, struct slice address)
{
    struct member_line line;
    const char *why;
    int64_t id;
    int rc = parse_id(number, &id);
    if (rc == 0) {
        rc = member_line_parse(address, &line, &why);
    }
    if (rc == 0) {
        enum state_role role = line.observer ? STATE_OBSERVER : STATE_VOTER;
        state_need(membership_put(l->next, id, role, address));
    }
    return rc;
}

static bool is_hexadecimal(const char *text)
{
    size_t len = strspn(text, "0123456789abcdefABCDEF");
    return len > 0 && len <= 16 && text[len] == '\0';
}

static int list_pair(void *ctx, const char *key, const char *value, unsigned line)
{
    struct member_listing *l = ctx;
    int rc = 0;
    if (strncmp(key, "server.", 7) == 0) {
        rc = list_server(l, slice_str(key + 7), slice_str(value));
    } else if (strcmp(key, "version") != 0) {
        l->unknown = true;
    } else if (!is_hexadecimal(value)) {
        rc = CONCLAVE_MARSHALLING_ERROR;
    }
    l->rc = l->rc != 0 ? l->rc : rc;
    return 0;
}

/* Commas and newlines separate; the rest is as in a configuration file. */
static int list_members(const struct write *w, struct membership *next, struct slice text)
{
    struct member_listing listing = {.next = next};
    struct buf *lines = &w->s->scratch;
    buf_reset(lines);
    buf_append_slice(lines, text);
    state_need(buf_ok(lines));
    for (size_t i = 0; i < lines->len; i++) {
        if (lines->data[i] == ',') {
            lines->data[i] = '\n';
        }
    }
    membership_finish(next);
    int rc = properties_parse(buf_slice(lines), list_pair, &listing);
    state_need(rc != CONCLAVE_ENOMEM);
    if (rc != 0 || listing.unknown) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    if (listing.rc != 0) {
        return listing.rc;
    }
    /* In ZooKeeper this is an unexpected Java exception. */
    size_t voters = membership_count(next, STATE_VOTER);
    bool alone = (w->command->options & COMMAND_ALONE) != 0;
    bool observed = membership_count(next, STATE_OBSERVER) > 0;
    bool unexpected = alone ? voters == 0 : voters < 2 && observed;
    return unexpected ? CONCLAVE_MARSHALLING_ERROR : 0;
}

/* The log cannot distinguish two members with the same address. */
static bool addresses_differ(const struct membership *m)
{
    for (size_t i = 0; i < m->count; i++) {
        for (size_t k = 0; k < i; k++) {
            if (strcmp(m->list[i].address, m->list[k].address) == 0) {
                return false;
            }
        }
    }
    return true;
}

static int check_permission(const struct write *w)
{
    const struct znode *node = tree_find(&w->s->tree, slice_str(CONFIG_NODE));
    if (node == NULL) {
        return CONCLAVE_NO_NODE;
    }
    return state_permits(w->s, node, w->command->ids, WIRE_PERM_WRITE) ? 0 : CONCLAVE_NO_AUTH;
}

/* The members that the request asks for; *next begins with the present ones. */
static int next_members(const struct write *w, const struct wire_reconfig_request *r,
                        struct membership *next)
{
    for (size_t i = next->count; i-- > 0;) {
        if (next->list[i].role == STATE_SPARE) {
            membership_remove(next, next->list[i].id);
        }
    }
    int rc = slice_is_null(r->new_members) ? change_members(next, r)
                                           : list_members(w, next, r->new_members);
    if (rc != 0) {
        return rc;
    }
    size_t voters = (w->command->options & COMMAND_ALONE) != 0 ? 1 : 2;
    if (membership_count(next, STATE_VOTER) < voters || !addresses_differ(next)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    return check_permission(w);
}

/* The checks before the one of the members. ZooKeeper checks the permission last, but only on one server and before the
 * log; here all servers would parse the lists of a client without permission. */
static int check_request(const struct write *w, const struct wire_reconfig_request *r)
{
    const struct configuration *e = &w->s->configuration;
    if ((w->command->options & COMMAND_RECONFIG) == 0) {
        return CONCLAVE_RECONFIG_DISABLED;
    }
    int rc = write_check_session(w);
    if (rc != 0) {
        return rc;
    }
    bool joinable = (w->command->options & COMMAND_ENSEMBLE) != 0 && e->members.count > 0;
    if (e->version == 0 && !joinable) {
        return CONCLAVE_UNIMPLEMENTED;
    }
    if (e->reconfig.zxid != 0) {
        return CONCLAVE_RECONFIG_IN_PROGRESS;
    }
    if (r->cur_config_id != -1 && r->cur_config_id != e->version) {
        return CONCLAVE_BAD_VERSION;
    }
    if (w->bounded && !command_bounds_reconfig(r)) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    return w->bounded ? check_permission(w) : 0;
}

/* No member is leaving any more. */
static void end_leaving(struct configuration *e)
{
    membership_finish(&e->target);
    e->leaving = false;
}

int write_reconfig(struct write *w, const struct wire_reconfig_request *r)
{
    struct configuration *e = &w->s->configuration;
    struct membership next;
    int rc = check_request(w, r);
    if (rc != 0) {
        return rc;
    }
    state_need(membership_copy(&next, reconfig_shown(e)));
    rc = next_members(w, r, &next);
    if (rc != 0) {
        membership_finish(&next);
        return rc;
    }
    bool same = membership_equal(&next, reconfig_shown(e));
    if (same) {
        membership_finish(&next);
    } else { /* if the reconfig fails, the leaving members stay and must be shown again */
        e->unpublished = e->unpublished || !membership_equal(&e->members, reconfig_shown(e));
        membership_finish(&e->target);
        e->target = next;
        e->leaving = (w->command->options & COMMAND_LEAVING) != 0;
    }
    if (same || (e->leaving && is_reached(e))) { /* no vote changes */
        publish(w);
        if (membership_equal(&e->members, &e->target)) { /* the leaving members stay after all */
            end_leaving(e);
        }
        reply_config(w);
        return 0;
    }
    assert(e->reconfig.zxid == 0 && e->target.count > 0);
    e->reconfig = (struct member_change){.zxid = w->zxid,
                                         .origin = w->origin,
                                         .session_id = w->command->session_id,
                                         .cxid = w->command->cxid};
    w->effects->deferred = true;
    return 0;
}

/* --- changes on the way to the target --------------------------------------------------------- */

/* Makes the answer: the client gets err, or the reply. */
static void reconfig_end(struct write *w, int32_t err)
{
    struct configuration *e = &w->s->configuration;
    assert(e->reconfig.zxid != 0 && e->target.count > 0);
    w->effects->resumed = (struct state_resumed){.is = true,
                                                 .origin = e->reconfig.origin,
                                                 .session_id = e->reconfig.session_id,
                                                 .cxid = e->reconfig.cxid,
                                                 .err = err};
    e->reconfig = (struct member_change){0};
    if (err != 0 || membership_equal(&e->members, &e->target)) {
        end_leaving(e);
    }
}

/* The members changed while some are leaving. If only leaving members were dropped, clients see no change. */
static void go_on_leaving(struct configuration *e)
{
    if (!is_reached(e)) {
        end_leaving(e);
        return;
    }
    e->unpublished = false;
    if (membership_equal(&e->members, &e->target)) {
        end_leaving(e);
    }
}

int write_reconfig_end(struct write *w)
{
    struct configuration *e = &w->s->configuration;
    struct wire_reader r = wire_reader_make(w->command->body);
    int64_t zxid = wire_read_i64(&r);
    int32_t err = wire_read_i32(&r);
    if (r.failed) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (err == 0) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    if (zxid == 0 || zxid != e->reconfig.zxid) {
        return CONCLAVE_BAD_VERSION; /* it is for another reconfig, which has ended */
    }
    reconfig_end(w, err);
    if (e->unpublished) {
        publish(w);
    }
    return 0;
}

void state_configure(struct state *s, const struct state_member *members, size_t count,
                     struct effects *effects)
{
    struct configuration *e = &s->configuration;
    struct membership now = {0};
    assert(count > 0 && s->undo_count == 0);
    for (size_t i = 0; i < count; i++) {
        state_need(
            membership_put(&now, members[i].id, members[i].role, slice_str(members[i].address)));
    }
    if (!membership_equal(&now, &e->members)) {
        struct membership before = e->members;
        e->members = now;
        now = before;
        e->unpublished = true;
    }
    membership_finish(&now);

    if (configuration_is_leaving(e)) {
        go_on_leaving(e);
    }
    state_begin(s);
    effects_begin(effects, s->zxid);
    bool reached = e->reconfig.zxid != 0 && is_reached(e);
    bool settled = e->reconfig.zxid == 0 && (e->version != 0 || count > 1);
    if (e->unpublished && (reached || settled) && s->mirror.id == 0) {
        s->zxid++;
        effects->zxid = s->zxid;
        struct write w = {.s = s, .zxid = s->zxid, .time_ms = s->time_ms, .effects = effects};
        if (reached) {
            reconfig_end(&w, 0);
        }
        publish(&w);
        if (reached) {
            reply_config(&w);
        }
        write_commit(s);
    }
    state_need(buf_ok(&effects->reply));
    once_results_resume(s, effects);
    effects_seal(effects);
}

bool state_reconfig(const struct state *s, struct state_reconfig *ret)
{
    const struct configuration *e = &s->configuration;
    if (e->target.count == 0) {
        return false;
    }
    *ret = (struct state_reconfig){.zxid = e->reconfig.zxid,
                                   .origin = e->reconfig.origin,
                                   .members = e->target.list,
                                   .count = e->target.count};
    return true;
}

bool state_is_leaving(const struct state *s, int64_t id)
{
    const struct configuration *e = &s->configuration;
    const struct state_member *member = membership_find(&e->members, id);
    if (member == NULL) {
        return e->members.count > 0;
    }
    return e->leaving && e->target.count > 0 && member->role != STATE_VOTER &&
           membership_find(&e->target, id) == NULL;
}

int64_t state_config_version(const struct state *s)
{
    return s->configuration.version;
}

void configuration_finish(struct configuration *e)
{
    membership_finish(&e->members);
    membership_finish(&e->target);
}

void configuration_keep(struct state *s, const struct state *before)
{
    struct configuration *e = &s->configuration;
    configuration_finish(e);
    *e = before->configuration;
    state_need(membership_copy(&e->members, &before->configuration.members) &&
               membership_copy(&e->target, &before->configuration.target));
}

void configuration_show(struct write *w)
{
    const struct configuration *e = &w->s->configuration;
    struct znode *node = tree_find(&w->s->tree, slice_str(CONFIG_NODE));
    if (e->version != 0 || e->members.count > 1) {
        publish(w);
    } else if (node != NULL && znode_data(node).len > 0) {
        set_node(w, node, slice_str(""), 0);
    }
}

void configuration_succeed(struct write *w, const struct state *before)
{
    configuration_keep(w->s, before);
    configuration_show(w);
}
