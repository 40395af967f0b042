/*
 * Writing several nodes of a configuration in one transaction.
 *
 *   READ all --> ENSURE parents of those that are missing --> WRITE --> done
 *    ^  ^                                                      |  |
 *    |  '---------- another was faster ------------------------'  |
 *    '------------- SYNC <------ answer lost ---------------------'
 *
 * After a lost answer the nodes tell whether it was carried out: then all of them have one mzxid, a
 * newer one, and our bytes. A handle of its own holds what may still be in flight when the caller
 * has gone; what the caller gave is not looked at then.
 */
#include "recipes/engine/protected_create.h"

#include "client/core/path.h"

#include <conclave/config.h>

#include <stdlib.h>
#include <string.h>

/* What stands at an entry's path. */
struct found_node {
    bool there;
    bool ours; /* our bytes */
    int32_t version;
    int64_t mzxid;
};

struct many {
    struct handle handle; /* first */
    struct step step;
    struct ensure_path ensure;
    const struct conclave_config_entry *entries; /* the caller's */
    size_t count;
    struct found_node *before; /* what the transaction was made for */
    struct found_node *now;
    size_t at;
    bool unknown;  /* the transaction may have been carried out */
    bool given_up; /* the caller has gone */
    bool done;
    int error;
    int64_t mzxid;
};

static void read_next(struct many *m);

static void config_put_many_end(struct many *m, int error)
{
    m->done = true;
    m->error = error;
    client_notify(m->handle.rt->client);
}

static void config_put_many_read_all(struct many *m)
{
    m->at = 0;
    read_next(m);
}

/* --- reading -------------------------------------------------------------------------- */

static void sync_first(struct many *m);

static bool is_retried(int error)
{
    return (error_is_unknown(error) && error != CONCLAVE_ENOMEM) ||
           error == CONCLAVE_SESSION_EXPIRED; /* the next one can be asked what became of it */
}

/* Something failed: another try on the next link, or the end. */
static void config_put_many_trouble(struct many *m, int error)
{
    if (is_retried(error) && !state_is_final(client_state(m->handle.rt->client))) {
        sync_first(m);
    } else {
        config_put_many_end(m, error);
    }
}

static void config_put_many_on_synced(struct step *step, const struct conclave_reply *reply)
{
    struct many *m = CONTAINER_OF(step, struct many, step);
    if (m->given_up) {
        return;
    }
    if (reply->error == 0 || reply->error == CONCLAVE_NO_NODE) {
        config_put_many_read_all(m);
    } else {
        config_put_many_trouble(m, reply->error);
    }
}

static void sync_first(struct many *m)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_SYNC, m->entries[0].path, 0);
    step_submit(&m->step, &op, config_put_many_on_synced);
}

/* --- writing -------------------------------------------------------------------------- */

static void config_put_many_on_written(struct step *step, const struct conclave_reply *reply)
{
    struct many *m = CONTAINER_OF(step, struct many, step);
    if (m->given_up) {
        return;
    }
    switch (reply->error) {
    case 0:
        m->mzxid = reply->zxid;
        config_put_many_end(m, 0);
        break;
    case CONCLAVE_BAD_VERSION:
    case CONCLAVE_NODE_EXISTS:
    case CONCLAVE_NO_NODE:
        config_put_many_read_all(m); /* what is there now says what to do about it */
        break;
    default:
        m->unknown = is_retried(reply->error);
        config_put_many_trouble(m, reply->error);
        break;
    }
}

static void config_put_many_write_all(struct many *m)
{
    struct conclave_op *parts = malloc((m->count + 1) * sizeof *parts);
    if (parts == NULL) {
        config_put_many_end(m, CONCLAVE_ENOMEM);
        return;
    }
    for (size_t i = 0; i < m->count; i++) {
        const struct conclave_config_entry *e = &m->entries[i];
        parts[i] = m->before[i].there
                       ? conclave_op_set(e->path, e->data, e->len, m->before[i].version)
                       : conclave_op_create(e->path, e->data, e->len, CONCLAVE_PERSISTENT);
    }
    struct conclave_op op = conclave_op_multi(parts, m->count);
    step_submit(&m->step, &op, config_put_many_on_written);
    free(parts);
}

static void ensure_next(struct many *m);

static void config_put_many_on_ensured(struct ensure_path *ensure, int error)
{
    struct many *m = CONTAINER_OF(ensure, struct many, ensure);
    if (m->given_up) {
        return;
    }
    if (error != 0) {
        config_put_many_trouble(m, error);
    } else {
        m->at++;
        ensure_next(m);
    }
}

/* An entry right below one that stands before it is made after that one, by the transaction. */
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

static void ensure_next(struct many *m)
{
    while (m->at < m->count && (m->before[m->at].there || parent_is_entry(m, m->at))) {
        m->at++;
    }
    if (m->at == m->count) {
        config_put_many_write_all(m);
        return;
    }
    const char *path = m->entries[m->at].path;
    char *parent = strdup(path);
    int error = parent == NULL ? CONCLAVE_ENOMEM : 0;
    if (error == 0) {
        parent[path_name(path) - path - 1] = '\0';
        if (parent[0] == '\0') {
            m->at++;
            ensure_next(m);
        } else {
            error = ensure_path_start(&m->ensure, parent, NULL, 0, config_put_many_on_ensured);
        }
    }
    free(parent);
    if (error != 0) {
        config_put_many_end(m, error);
    }
}

/* --- deciding ------------------------------------------------------------------------- */

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

static void config_put_many_decide(struct many *m)
{
    enum fate fate = m->unknown ? fate_of(m) : NOT_CARRIED_OUT;
    int error = 0;
    m->unknown = false;
    for (size_t i = 0; i < m->count; i++) {
        error = error != 0 ? error : expectation(&m->entries[i], &m->now[i]);
    }
    if (fate == CARRIED_OUT) {
        m->mzxid = m->now[0].mzxid;
        config_put_many_end(m, 0);
    } else if (fate == OVERWRITTEN) {
        config_put_many_end(m, CONCLAVE_CONNECTION_LOSS); /* ours may have come before */
    } else if (error != 0) {
        config_put_many_end(m, error);
    } else {
        memcpy(m->before, m->now, m->count * sizeof *m->before);
        m->at = 0;
        ensure_next(m);
    }
}

static void config_put_many_on_read(struct step *step, const struct conclave_reply *reply)
{
    struct many *m = CONTAINER_OF(step, struct many, step);
    if (m->given_up) {
        return;
    }
    if (reply->error != 0 && reply->error != CONCLAVE_NO_NODE) {
        config_put_many_trouble(m, reply->error);
        return;
    }
    const struct conclave_config_entry *e = &m->entries[m->at];
    struct found_node *s = &m->now[m->at++];
    s->there = reply->error == 0;
    s->ours = s->there && reply->data_len == e->len &&
              (e->len == 0 || memcmp(reply->data, e->data, e->len) == 0);
    s->version = s->there ? reply->stat.version : 0;
    s->mzxid = s->there ? reply->stat.mzxid : 0;
    read_next(m);
}

static void read_next(struct many *m)
{
    if (m->at == m->count) {
        config_put_many_decide(m);
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, m->entries[m->at].path, 0);
    step_submit(&m->step, &op, config_put_many_on_read);
}

/* --- the call ------------------------------------------------------------------------- */

static void many_on_state(struct handle *h, enum conclave_state state)
{
}

static bool many_run_due(struct handle *h)
{
    return false;
}

static void many_free(struct handle *h)
{
    struct many *m = CONTAINER_OF(h, struct many, handle);
    ensure_path_finish(&m->ensure);
    free(m->before);
    free(m->now);
    free(m);
}

static const struct handle_class many_class = {many_on_state, many_run_due, many_free};

static bool is_done(void *ctx)
{
    return ((struct many *)ctx)->done;
}

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

int conclave_config_put_many(struct conclave_recipes *rt,
                             const struct conclave_config_entry *entries, size_t count,
                             int64_t timeout_ms, int64_t *ret_mzxid)
{
    struct conclave_client *client = rt->client;
    int error = recipes_may_block(rt);
    if (error != 0 || entries == NULL || !entries_valid(entries, count)) {
        return error != 0 ? error : CONCLAVE_EINVAL;
    }
    struct many *m = calloc(1, sizeof *m);
    if (m == NULL || (m->before = calloc(count, sizeof *m->before)) == NULL ||
        (m->now = calloc(count, sizeof *m->now)) == NULL) {
        free(m == NULL ? NULL : m->before);
        free(m);
        return CONCLAVE_ENOMEM;
    }
    m->entries = entries;
    m->count = count;
    client_lock(client);
    handle_init(&m->handle, rt, &many_class);
    step_init(&m->step, &m->handle);
    ensure_path_init(&m->ensure, &m->handle);
    config_put_many_read_all(m);
    error = client_wait(client, is_done, m, client_deadline_ns(client, timeout_ms));
    m->given_up = true;
    error = m->done ? m->error : error;
    if (error == 0 && ret_mzxid != NULL) {
        *ret_mzxid = m->mzxid;
    }
    handle_release(&m->handle);
    client_unlock(client);
    return error;
}
