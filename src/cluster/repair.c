#include "cluster/repair.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

void healing_init(struct healing *h, uint64_t id, bool on, const char *dir,
                  const struct member *configured, size_t n)
{
    *h = (struct healing){.id = id, .on = on, .dir = dir, .members = configured, .n_members = n};
    members_file_init(&h->kept);
    if (members_file_read(&h->kept, NULL, dir) == 0) {
        h->members = h->kept.members;
        h->n_members = h->kept.n;
    }
}

void healing_finish(struct healing *h)
{
    members_file_finish(&h->kept);
}

void healing_configuration(struct healing *h, const uint8_t cluster[PEER_CLUSTER_SIZE],
                           uint64_t index, const struct member *members, size_t n)
{
    struct problem problem = {NULL};
    bool same = memcmp(h->kept.cluster, cluster, sizeof h->kept.cluster) == 0;
    if (same && index <= h->kept.index) {
        return; /* a start applies the older ones again */
    }
    int rc = members_file_set(&h->kept, cluster, index, members, n);
    if (rc == 0) {
        h->members = h->kept.members;
        h->n_members = h->kept.n;
        rc = members_file_write(&h->kept, NULL, h->dir, &problem);
    }
    if (rc != 0) {
        log_warn("server", "members-not-kept", "error=%s text=\"%s\"", conclave_errname(rc),
                 problem_text(&problem, rc));
    }
    problem_finish(&problem);
}

bool healing_is_possible(const struct healing *h)
{
    const struct member *self = members_find(h->members, h->n_members, h->id);
    size_t voters = members_voters(h->members, h->n_members);
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

static size_t place_of(const struct healing *h, uint64_t id)
{
    size_t i = 0;
    while (i < h->n_grown && h->grown[i] != id) {
        i++;
    }
    return i;
}

void healing_hello(struct healing *h, const struct peer_identity *who)
{
    size_t i = place_of(h, who->id);
    if (who->age != PEER_GROWN) {
        if (i < h->n_grown) {
            h->grown[i] = h->grown[--h->n_grown];
        }
        return;
    }
    if (i == h->n_grown && h->n_grown < MEMBERS_MAX) {
        h->grown[h->n_grown++] = who->id;
    }
    if (members_find(h->members, h->n_members, who->id) != NULL && !h->cluster_known) {
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
    size_t voters = members_voters(h->members, h->n_members);
    size_t there = 0;
    for (size_t i = 0; i < h->n_members; i++) {
        const struct member *m = &h->members[i];
        there += m->role == MEMBER_VOTER && m->id != h->id && place_of(h, m->id) < h->n_grown &&
                 is_linked(ctx, m->id);
    }
    return h->cluster_known && there > voters / 2;
}

int healing_put_aside(struct healing *h, int64_t wall_ms, char **ret_text)
{
    char *name = NULL;
    int rc = damage_put_aside(h->dir, NULL, wall_ms, h->cluster, &name, ret_text);
    if (rc == 0) {
        log_warn("server", "moved-aside",
                 "folder=\"%s/%s\" text=\"nothing was deleted: the data come from the others; "
                 "remove that folder when it is not wanted any more\"",
                 h->dir, name);
    }
    free(name);
    return rc;
}
