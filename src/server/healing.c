#include "server/healing.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

void healing_init(struct healing *h, uint64_t id, bool on, const struct member *founders, size_t n)
{
    *h = (struct healing){.id = id, .on = on, .founders = founders, .n_founders = n};
}

static size_t place_of(const struct healing *h, uint64_t id)
{
    size_t i = 0;
    while (i < h->n_founders && h->founders[i].id != id) {
        i++;
    }
    return i;
}

bool healing_is_possible(const struct healing *h)
{
    const struct member *self = members_find(h->founders, h->n_founders, h->id);
    size_t voters = members_voters(h->founders, h->n_founders);
    size_t others = voters - (self != NULL && self->role == MEMBER_VOTER);
    return h->on && others > voters / 2;
}

void healing_want(struct healing *h, const struct damage_look *look)
{
    h->wanted = true;
    if (look->cluster_known) {
        h->cluster_known = true;
        memcpy(h->cluster, look->cluster, sizeof h->cluster);
    }
}

void healing_hello(struct healing *h, const struct peer_identity *who)
{
    size_t i = place_of(h, who->id);
    if (i == h->n_founders) {
        return;
    }
    h->has[i] = who->age == PEER_GROWN;
    if (h->has[i] && !h->cluster_known) {
        h->cluster_known = true;
        memcpy(h->cluster, who->cluster, sizeof h->cluster);
    }
}

enum peer_age healing_age_aside(enum peer_age age)
{
    return age == PEER_GROWN ? PEER_LOST : age;
}

bool healing_may_begin(const struct healing *h, bool (*is_linked)(void *ctx, uint64_t id),
                       void *ctx)
{
    size_t voters = members_voters(h->founders, h->n_founders);
    size_t there = 0;
    for (size_t i = 0; i < h->n_founders; i++) {
        const struct member *m = &h->founders[i];
        there += m->role == MEMBER_VOTER && m->id != h->id && h->has[i] && is_linked(ctx, m->id);
    }
    return h->cluster_known && there > voters / 2;
}

int healing_put_aside(struct healing *h, const char *dir, int64_t wall_ms, char **ret_text)
{
    char *name = NULL;
    int rc = damage_put_aside(dir, NULL, wall_ms, h->cluster, &name, ret_text);
    if (rc == 0) {
        log_warn("server", "moved-aside",
                 "folder=\"%s/%s\" text=\"nothing was deleted: the data come from the others; "
                 "remove that folder when it is not wanted any more\"",
                 dir, name);
    }
    free(name);
    return rc;
}
