/*
 * Writing several nodes of a configuration in one transaction.
 *
 *   READ all --> ENSURE parents of those that are missing --> WRITE --> done
 *    ^  ^                                                      |  |
 *    |  '---------- another was faster ------------------------'  |
 *    '------------- after a sync <-- answer lost -----------------'
 *
 * After a lost answer the nodes tell whether it was carried out: then all of them have one mzxid, a
 * newer one, and our bytes.
 */
#include "client/core/sized.h"
#include "recipes/engine/blocking_requests.h"
#include "recipes/engine/recipe_runtime.h"

#include "client/core/path.h"

#include <conclave/config.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The node at an entry's path. */
struct found_node {
    bool there;
    bool ours; /* our bytes */
    int32_t version;
    int64_t mzxid;
};

struct many {
    struct blocking blocking;
    struct conclave_config_entry *entries; /* own; their bytes are the caller's */
    size_t count;
    struct found_node *before; /* the entries of the transaction */
    struct found_node *now;
    bool lost;    /* an answer: nothing older may be read from here on */
    bool unknown; /* the transaction may have been carried out */
    int64_t mzxid;
};

/* --- reading -------------------------------------------------------------------------- */

static int many_read(struct many *m)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct conclave_config_entry *e = &m->entries[i];
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, e->path, 0);
        struct conclave_reply *reply = NULL;
        op.linearizable = m->lost && i == 0;
        int error = blocking_try(&m->blocking, op, &reply);
        struct found_node *s = &m->now[i];
        memset(s, 0, sizeof *s);
        if (error == 0) {
            s->there = true;
            s->ours = reply->data_len == e->len &&
                      (e->len == 0 || memcmp(reply->data, e->data, e->len) == 0);
            s->version = reply->stat.version;
            s->mzxid = reply->stat.mzxid;
        }
        conclave_reply_free(reply);
        if (error != 0 && error != CONCLAVE_NO_NODE) {
            return error;
        }
    }
    return 0;
}

/* Of the lost answer: it was carried out, it was not, or something else was written. */
enum fate { CARRIED_OUT, NOT_CARRIED_OUT, OVERWRITTEN };

static enum fate fate_of(const struct many *m)
{
    bool ours = true;
    bool unchanged = true;
    for (size_t i = 0; i < m->count; i++) {
        const struct found_node *b = &m->before[i];
        const struct found_node *n = &m->now[i];
        ours = ours && n->ours && n->mzxid == m->now[0].mzxid && (!b->there || n->mzxid > b->mzxid);
        unchanged = unchanged && n->there == b->there && n->mzxid == b->mzxid;
    }
    return unchanged ? NOT_CARRIED_OUT : ours ? CARRIED_OUT : OVERWRITTEN;
}

static int expectation(const struct conclave_config_entry *e, const struct found_node *s)
{
    if (e->expected_version == -1 || (s->there && s->version == -1)) {
        return CONCLAVE_ESEQWRAP;
    }
    if (e->expected_version == CONCLAVE_CONFIG_ABSENT) {
        return s->there ? CONCLAVE_NODE_EXISTS : 0;
    }
    if (e->expected_version == CONCLAVE_CONFIG_ANY) {
        return 0;
    }
    if (!s->there) {
        return CONCLAVE_NO_NODE;
    }
    return s->version == e->expected_version ? 0 : CONCLAVE_BAD_VERSION;
}

/* All was read. *ret_done: an earlier try has decided it; else it may be written, or the error says why not. */
static int many_decide(struct many *m, bool *ret_done)
{
    enum fate fate = m->unknown ? fate_of(m) : NOT_CARRIED_OUT;
    int error = 0;
    m->unknown = false;
    *ret_done = fate != NOT_CARRIED_OUT;
    if (*ret_done) {
        m->mzxid = m->now[0].mzxid;
        return fate == CARRIED_OUT ? 0 : CONCLAVE_CONNECTION_LOSS; /* ours may have come before */
    }
    for (size_t i = 0; i < m->count && error == 0; i++) {
        error = expectation(&m->entries[i], &m->now[i]);
    }
    memcpy(m->before, m->now, m->count * sizeof *m->before);
    return error;
}

/* --- writing -------------------------------------------------------------------------- */

/* The transaction makes an entry after its parent, if the parent comes before it. */
static bool parent_is_entry(const struct many *m, size_t at)
{
    const char *path = m->entries[at].path;
    size_t len = (size_t)(path_name(path) - path) - 1;
    for (size_t i = 0; i < at; i++) {
        const char *other = m->entries[i].path;
        if (strncmp(path, other, len) == 0 && other[len] == '\0') {
            return true;
        }
    }
    return false;
}

static int many_ensure(struct many *m)
{
    int error = 0;
    for (size_t i = 0; i < m->count && error == 0; i++) {
        const char *path = m->entries[i].path;
        bool top = path_name(path) == path + 1;
        if (!m->before[i].there && !top && !parent_is_entry(m, i)) {
            error = blocking_ensure_parent(&m->blocking, path, NULL, 0);
        }
    }
    return error;
}

static int many_write(struct many *m)
{
    struct conclave_reply *reply = NULL;
    struct conclave_op *parts = malloc((m->count + 1) * sizeof *parts);
    if (parts == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < m->count; i++) {
        const struct conclave_config_entry *e = &m->entries[i];
        parts[i] = m->before[i].there
                       ? conclave_op_set(e->path, e->data, e->len, m->before[i].version)
                       : conclave_op_create(e->path, e->data, e->len, CONCLAVE_PERSISTENT);
    }
    int error = blocking_try(&m->blocking, conclave_op_multi(parts, m->count), &reply);
    m->mzxid = error == 0 ? reply->zxid : 0;
    conclave_reply_free(reply);
    free(parts);
    return error;
}

/* --- the machine ---------------------------------------------------------------------- */

static bool is_retried(int error)
{
    return (error_is_unknown(error) && error != CONCLAVE_ENOMEM) ||
           error == CONCLAVE_SESSION_EXPIRED; /* the next one can be asked what became of it */
}

static bool is_over(struct conclave_client *client)
{
    client_lock(client);
    bool over = state_is_final(client_state(client));
    client_unlock(client);
    return over;
}

/* From reading to writing. *ret_done: it is decided; else all is read again. */
static int many_pass(struct many *m, bool *ret_done)
{
    bool sent = false;
    int error = many_read(m);
    if (error == 0) {
        error = many_decide(m, ret_done);
        if (error != 0 || *ret_done) {
            *ret_done = true;
            return error;
        }
        error = many_ensure(m);
        sent = error == 0;
    }
    assert(!sent || !m->unknown); /* never sent again before its outcome is known */
    if (sent) {
        error = many_write(m);
    }
    bool lost = is_retried(error) && !is_over(m->blocking.client);
    bool overtaken = sent && (error == CONCLAVE_BAD_VERSION || error == CONCLAVE_NODE_EXISTS ||
                              error == CONCLAVE_NO_NODE);
    m->unknown = m->unknown || (sent && lost);
    m->lost = m->lost || lost;
    *ret_done = !lost && !overtaken;
    return error;
}

/* --- the call ------------------------------------------------------------------------- */

/* Whether `other` stands above `path`, and neither right above nor before it: to make it beforehand would
 * be a change of its own. */
static bool is_out_of_order(const char *path, const char *other, bool before)
{
    size_t len = strlen(other);
    bool above = strncmp(path, other, len) == 0 && path[len] == '/';
    return above && !(before && path_name(path) == path + len + 1);
}

static bool entries_valid(const struct conclave_config_entry *entries, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct conclave_config_entry *e = &entries[i];
        if (e->path == NULL || !path_is_valid(e->path, false) || strcmp(e->path, "/") == 0 ||
            (e->data == NULL && e->len > 0) || e->expected_version < CONCLAVE_CONFIG_ANY) {
            return false;
        }
    }
    for (size_t i = 0; i < count * count; i++) {
        const char *path = entries[i / count].path;
        const char *other = entries[i % count].path;
        bool before = i % count < i / count;
        if ((before && strcmp(path, other) == 0) || is_out_of_order(path, other, before)) {
            return false;
        }
    }
    return count > 0;
}

/* *ret is freed with free. */
static int entries_read(const struct conclave_config_entry *entries, size_t count,
                        struct conclave_config_entry **ret)
{
    int error = 0;
    *ret = calloc(count + 1, sizeof **ret);
    if (*ret == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < count && error == 0; i++) {
        (*ret)[i] = (struct conclave_config_entry)CONCLAVE_CONFIG_ENTRY_INIT;
        error = sized_read_item(&(*ret)[i], entries, i);
    }
    return error == 0 && !entries_valid(*ret, count) ? CONCLAVE_EINVAL : error;
}

int conclave_config_put_many(struct conclave_recipes *rt,
                             const struct conclave_config_entry *entries, size_t count,
                             int64_t timeout_ms, int64_t *ret_mzxid)
{
    struct conclave_config_entry *own = NULL;
    int error = recipes_may_block(rt);
    if (error == 0) {
        error = entries_read(entries, count, &own);
    }
    if (error != 0) {
        free(own);
        return error;
    }
    struct many m = {
        .blocking = blocking_begin(rt->client, timeout_ms),
        .entries = own,
        .count = count,
        .before = calloc(count, sizeof *m.before),
        .now = calloc(count, sizeof *m.now),
    };
    bool done = m.before == NULL || m.now == NULL;
    error = done ? CONCLAVE_ENOMEM : CONCLAVE_ETIMEDOUT;
    for (bool late = false; !done && !late; late = blocking_is_late(&m.blocking)) {
        error = many_pass(&m, &done);
    }
    error = done ? error : CONCLAVE_ETIMEDOUT;
    if (error == 0 && ret_mzxid != NULL) {
        *ret_mzxid = m.mzxid;
    }
    free(own);
    free(m.before);
    free(m.now);
    return error;
}
