/* The members of a service, as they describe themselves: conclave/elector_admin.h. Blocking. */
#include "recipes/engine/option_copies.h"
#include "recipes/engine/persistent_node.h"
#include "recipes/standby/elector_view.h"
#include "recipes/standby/member_card.h"

#include <stdlib.h>
#include <string.h>

#define MEMBERS "/members"

/* The list that grows while it is read. */
struct members {
    struct conclave_elector_member **list;
    size_t count;
};

void conclave_elector_members_free(struct conclave_elector_member **list, size_t count)
{
    for (size_t i = 0; list != NULL && i < count; i++) {
        free(list[i]);
    }
    free(list);
}

/* The member in one block with its texts. Data that are no card are those of another program: a member that is
 * not known. NULL without memory. */
static struct conclave_elector_member *member_make(const char *id,
                                                   const struct conclave_reply *reply)
{
    struct member_card card = {.health = CONCLAVE_HEALTH_INITIALIZING};
    size_t len;
    const void *payload = member_payload(reply->data, reply->data_len, &len);
    struct conclave_elector_member *m = malloc(sizeof *m + strlen(id) + 1 + len + 1);
    if (m == NULL) {
        return NULL;
    }
    char *at = (char *)(m + 1);
    *m = (struct conclave_elector_member){.session_id = reply->stat.ephemeral_owner};
    m->id = block_add(&at, id, strlen(id));
    char *text = block_add(&at, payload, len);
    if (!member_card_read(text, len, &card, &m->data, &m->data_len)) {
        m->data = text;
        m->data_len = len;
    }
    m->observer = card.observer;
    m->state = card.state;
    m->health = card.health;
    m->token.czxid = card.token;
    m->ready = card.ready;
    return m;
}

static int member_read(struct elector_question *q, const char *id,
                       struct conclave_elector_member **ret)
{
    struct conclave_reply *reply = NULL;
    char *parent = text_concat(q->dir, MEMBERS);
    char *path = parent != NULL ? path_join(parent, id) : NULL;
    int error = CONCLAVE_ENOMEM;
    if (path != NULL && (strchr(id, '/') != NULL || !option_path_valid(path))) {
        error = CONCLAVE_NO_NODE; /* it cannot be the name of a node */
    } else if (path != NULL) {
        struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, path, 0);
        op.linearizable = true;
        error = blocking_request(&q->blocking, op, &reply);
    }
    if (error == 0) {
        *ret = member_make(id, reply);
        error = *ret == NULL ? CONCLAVE_ENOMEM : 0;
    }
    conclave_reply_free(reply);
    free(path);
    free(parent);
    return error;
}

int conclave_elector_member(struct conclave_recipes *rt, const char *dir, const char *id,
                            int64_t timeout_ms, struct conclave_elector_member ***ret)
{
    struct elector_question q;
    int error = elector_question_begin(rt, dir, timeout_ms, &q);
    if (error == 0 && (id == NULL || id[0] == '\0')) {
        error = CONCLAVE_EINVAL;
    }
    if (error != 0) {
        return error;
    }
    struct conclave_elector_member **list = calloc(1, sizeof *list);
    error = list == NULL ? CONCLAVE_ENOMEM : member_read(&q, id, &list[0]);
    if (error != 0) {
        free(list);
        return error;
    }
    *ret = list;
    return 0;
}

static int members_by_id(const void *a, const void *b)
{
    const struct conclave_elector_member *const *left = a;
    const struct conclave_elector_member *const *right = b;
    return strcmp((*left)->id, (*right)->id);
}

static int members_read(struct elector_question *q, const struct conclave_reply *names,
                        struct members *m)
{
    int error = 0;
    m->list = calloc(names->children_count + 1, sizeof(struct conclave_elector_member *));
    if (m->list == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; error == 0 && i < names->children_count; i++) {
        error = member_read(q, names->children[i], &m->list[m->count]);
        m->count += error == 0;
        error = error == CONCLAVE_NO_NODE ? 0 : error; /* it left meanwhile */
    }
    qsort(m->list, m->count, sizeof(struct conclave_elector_member *), members_by_id);
    return error;
}

int conclave_elector_members(struct conclave_recipes *rt, const char *dir, int64_t timeout_ms,
                             struct conclave_elector_member ***ret, size_t *ret_count)
{
    struct elector_question q;
    struct conclave_reply *names = NULL;
    struct conclave_reply none = {.children_count = 0};
    struct members m = {0};
    int error = elector_question_begin(rt, dir, timeout_ms, &q);
    if (error != 0) {
        return error;
    }
    char *path = text_concat(dir, MEMBERS);
    error = path == NULL ? CONCLAVE_ENOMEM
                         : blocking_ask(&q.blocking, CONCLAVE_OP_GET_CHILDREN, path, &names);
    if (error == 0 || error == CONCLAVE_NO_NODE) {
        error = members_read(&q, error == 0 ? names : &none, &m);
    }
    conclave_reply_free(names);
    free(path);
    if (error != 0) {
        conclave_elector_members_free(m.list, m.count);
        return error;
    }
    *ret = m.list;
    *ret_count = m.count;
    return 0;
}
