/*
 * Who belongs to the ensemble, in the model: members by number, /zookeeper/config, and a reconfig that waits
 * until the members are those that it asked for. Knows one form of addresses only (model.h).
 */
#include "model/parts.h"

#include <stdio.h>
#include <stdlib.h>

static bool same(const struct model_member *a, const struct model_member *b)
{
    for (int id = 1; id <= MODEL_IDS; id++) {
        if (a[id].role != b[id].role || (a[id].role != MODEL_ABSENT && a[id].host != b[id].host)) {
            return false;
        }
    }
    return true;
}

static int count(const struct model_member *members, enum model_role role)
{
    int n = 0;
    for (int id = 1; id <= MODEL_IDS; id++) {
        n += members[id].role == role;
    }
    return n;
}

void model_address(struct model_member member, char *text, size_t size)
{
    snprintf(text, size, "10.0.0.%d:2888:3888:%s;10.0.0.%d:2181", member.host,
             member.role == MODEL_VOTER ? "participant" : "observer", member.host);
}

static void publish(struct model *m, struct model_effects *e)
{
    struct model_config *c = &m->config;
    struct model_node *node = (struct model_node *)(uintptr_t)model_find(m, "/zookeeper/config");
    char text[1024];
    size_t len = 0;
    for (int id = 1; id <= MODEL_IDS; id++) {
        char address[80];
        model_address(c->now[id], address, sizeof address);
        if (c->now[id].role == MODEL_VOTER || c->now[id].role == MODEL_OBSERVER) {
            len += (size_t)snprintf(text + len, sizeof text - len, "server.%d=%s\n", id, address);
        }
    }
    len += (size_t)snprintf(text + len, sizeof text - len, "version=%llx",
                            (unsigned long long)m->zxid);
    long long bytes = (long long)len - (long long)node->data_len;
    model_set_data(node, slice_make(text, len));
    node->version = -1;
    node->mzxid = m->zxid;
    node->mtime = m->time_ms;
    model_event(e, 3, node);
    model_quota_counts(m, node->path, 0, bytes);
    c->version = m->zxid;
    c->unpublished = false;
}

static void reply(struct model *m, struct model_effects *e)
{
    const struct model_node *node = model_find(m, "/zookeeper/config");
    wire_write_buffer(&e->reply, slice_make(node->data, node->data_len));
    model_put_stat(m, node, &e->reply);
}

/* One of "server.N=ADDRESS". Whose address another member has is refused where members join one by one. */
static int join(struct model_member *next, const char *piece, bool alone_at_address)
{
    int id;
    struct model_member member = {.role = MODEL_ABSENT};
    char role[16];
    if (sscanf(piece, "server.%d=10.0.0.%d:2888:3888:%15[a-z]", &id, &member.host, role) != 3) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    member.role = strcmp(role, "participant") == 0 ? MODEL_VOTER : MODEL_OBSERVER;
    for (int other = 1; alone_at_address && other <= MODEL_IDS; other++) {
        if (other != id && next[other].role != MODEL_ABSENT && next[other].host == member.host) {
            return CONCLAVE_BAD_ARGUMENTS;
        }
    }
    next[id] = member;
    return 0;
}

/* Calls join for each piece of a list. */
static int join_all(struct model_member *next, struct slice list, bool alone_at_address)
{
    char text[1024];
    char *rest;
    int err = 0;
    snprintf(text, sizeof text, "%.*s", SLICE_FMT(list));
    for (char *piece = strtok_r(text, ",", &rest); piece != NULL && err == 0;
         piece = strtok_r(NULL, ",", &rest)) {
        err = join(next, piece, alone_at_address);
    }
    return err;
}

static void leave_all(struct model_member *next, struct slice list)
{
    char text[64];
    char *rest;
    snprintf(text, sizeof text, "%.*s", SLICE_FMT(list));
    for (char *piece = strtok_r(text, ",", &rest); piece != NULL;
         piece = strtok_r(NULL, ",", &rest)) {
        int id = atoi(piece);
        if (id >= 1 && id <= MODEL_IDS) {
            next[id].role = MODEL_ABSENT;
        }
    }
}

/* The log cannot tell members of one address (the role is part of it) apart. */
static bool addresses_differ(const struct model_member *m)
{
    for (int a = 1; a <= MODEL_IDS; a++) {
        for (int b = 1; b < a; b++) {
            if (m[a].role != MODEL_ABSENT && m[a].role == m[b].role && m[a].host == m[b].host) {
                return false;
            }
        }
    }
    return true;
}

static int next_members(const struct model_call *call, const struct wire_reconfig_request *r,
                        struct model_member *next)
{
    const struct model *m = call->m;
    bool alone = (call->options & MODEL_ALONE) != 0;
    int err = 0;
    for (int id = 1; id <= MODEL_IDS; id++) {
        next[id] = m->config.now[id];
        next[id].role = next[id].role == MODEL_SPARE ? MODEL_ABSENT : next[id].role;
    }
    if (slice_is_null(r->new_members)) {
        leave_all(next, r->leaving_servers);
        err = join_all(next, r->joining_servers, true);
    } else {
        memset(next, 0, (MODEL_IDS + 1) * sizeof *next);
        err = join_all(next, r->new_members, false);
        int voters = count(next, MODEL_VOTER);
        bool odd = alone ? voters == 0 : voters < 2 && count(next, MODEL_OBSERVER) > 0;
        err = err == 0 && odd ? CONCLAVE_MARSHALLING_ERROR : err;
    }
    if (err == 0 && (count(next, MODEL_VOTER) < (alone ? 1 : 2) || !addresses_differ(next))) {
        err = CONCLAVE_BAD_ARGUMENTS;
    }
    if (err == 0 && !model_permits(model_find(m, "/zookeeper/config"), call->ids, 2)) {
        err = CONCLAVE_NO_AUTH;
    }
    return err;
}

int model_reconfig(struct model_call *call, struct slice body)
{
    struct model *m = call->m;
    struct model_config *c = &m->config;
    struct model_member next[MODEL_IDS + 1];
    struct wire_reconfig_request r;
    struct wire_reader reader = wire_reader_make(body);
    bool told = count(c->now, MODEL_ABSENT) < MODEL_IDS;
    if (wire_decode_reconfig_request(&reader, &r) != 0) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if ((call->options & MODEL_RECONFIG) == 0) {
        return CONCLAVE_RECONFIG_DISABLED;
    }
    int err = model_refused(call);
    if (err != 0) {
        return err;
    }
    if (c->version == 0 && !(told && (call->options & MODEL_ENSEMBLE) != 0)) {
        return CONCLAVE_UNIMPLEMENTED;
    }
    if (c->pending != 0) {
        return CONCLAVE_RECONFIG_IN_PROGRESS;
    }
    if (r.cur_config_id != -1 && r.cur_config_id != c->version) {
        return CONCLAVE_BAD_VERSION;
    }
    err = next_members(call, &r, next);
    if (err != 0) {
        return err;
    }
    if (same(next, c->now)) {
        publish(m, call->e);
        reply(m, call->e);
        return 0;
    }
    memcpy(c->target, next, sizeof c->target);
    c->pending = m->zxid;
    c->origin = call->origin;
    c->session_id = call->session_id;
    c->cxid = call->cxid;
    call->e->deferred = true;
    return 0;
}

static void resume(struct model *m, int32_t err, struct model_effects *e)
{
    struct model_config *c = &m->config;
    e->resumed.is = true;
    e->resumed.origin = c->origin;
    e->resumed.session_id = c->session_id;
    e->resumed.cxid = c->cxid;
    e->resumed.err = err;
    c->pending = 0;
}

int model_reconfig_end(struct model_call *call, struct slice body)
{
    struct model *m = call->m;
    struct wire_reader r = wire_reader_make(body);
    int64_t zxid = wire_read_i64(&r);
    int32_t err = wire_read_i32(&r);
    if (r.failed) {
        return CONCLAVE_MARSHALLING_ERROR;
    }
    if (err == 0) {
        return CONCLAVE_BAD_ARGUMENTS;
    }
    if (zxid == 0 || zxid != m->config.pending) {
        return CONCLAVE_BAD_VERSION;
    }
    resume(m, err, call->e);
    if (m->config.unpublished) {
        publish(m, call->e);
    }
    return 0;
}

void model_configure(struct model *m, const struct model_member members[MODEL_IDS + 1],
                     struct model_effects *e)
{
    struct model_config *c = &m->config;
    buf_reset(&e->reply);
    buf_reset(&e->events);
    e->err = 0;
    e->quota_exceeded = e->fenced = e->deferred = e->resumed.is = false;
    c->unpublished = c->unpublished || !same(members, c->now);
    memcpy(c->now, members, sizeof c->now);
    bool reached = c->pending != 0 && same(c->now, c->target);
    bool several = c->version != 0 || count(c->now, MODEL_ABSENT) < MODEL_IDS - 1;
    if (c->unpublished && (reached || (c->pending == 0 && several))) {
        m->zxid++;
        publish(m, e);
        if (reached) {
            resume(m, 0, e);
            reply(m, e);
        }
    }
    e->zxid = m->zxid;
}
