#include "cluster/repair.h"

#include "base/log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void repair_init(struct repair *h, uint64_t id, bool on, const char *dir,
                 const struct configuration_member *configured, size_t n)
{
    *h = (struct repair){.id = id, .on = on, .dir = dir, .members = configured, .n_members = n};
    members_file_init(&h->kept);
    if (members_file_read(&h->kept, NULL, dir) == 0) {
        h->members = h->kept.members;
        h->n_members = h->kept.n;
    }
}

void repair_finish(struct repair *h)
{
    members_file_finish(&h->kept);
}

void repair_configuration(struct repair *h, const uint8_t cluster[PEER_CLUSTER_SIZE],
                          uint64_t index, const struct configuration_member *members, size_t n)
{
    struct error_text problem = {NULL};
    bool same = memcmp(h->kept.cluster, cluster, sizeof h->kept.cluster) == 0;
    if (same && index <= h->kept.index) {
        return; /* at a start, older configurations are applied again */
    }
    int rc = members_file_set(&h->kept, cluster, index, members, n);
    if (rc == 0) {
        h->members = h->kept.members;
        h->n_members = h->kept.n;
        rc = members_file_write(&h->kept, NULL, h->dir, &problem);
    }
    if (rc != 0) {
        log_warn_advice("server", "members-not-kept",
                        "check the space and the permissions of the data folder",
                        "error=%s text=\"%s\"", conclave_errname(rc), error_text_of(&problem, rc));
    }
    error_text_finish(&problem);
}

bool repair_is_possible(const struct repair *h)
{
    const struct configuration_member *self = configuration_find(h->members, h->n_members, h->id);
    size_t voters = configuration_voters(h->members, h->n_members);
    size_t others = voters - (self != NULL && self->role == MEMBER_VOTER);
    return h->on && others > voters / 2;
}

void repair_want(struct repair *h, const struct damage_look *look)
{
    h->wanted = true;
    if (look->cluster_known) {
        h->cluster_known = true;
        memcpy(h->cluster, look->cluster, sizeof h->cluster);
    }
}

static size_t place_of(const struct repair *h, uint64_t id)
{
    size_t i = 0;
    assert(h->n_grown <= MEMBERS_MAX);
    while (i < h->n_grown && h->grown[i] != id) {
        i++;
    }
    return i;
}

void repair_hello(struct repair *h, const struct peer_identity *who)
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
    if (configuration_find(h->members, h->n_members, who->id) != NULL && !h->cluster_known) {
        h->cluster_known = true;
        memcpy(h->cluster, who->cluster, sizeof h->cluster);
    }
}

enum peer_age repair_age_aside(enum peer_age age)
{
    return age == PEER_GROWN ? PEER_LOST : age;
}

/* This server's own vote does not count: its data are damaged, so they prove nothing. */
bool repair_may_begin(const struct repair *h, bool (*is_linked)(void *ctx, uint64_t id), void *ctx)
{
    size_t voters = configuration_voters(h->members, h->n_members);
    size_t there = 0;
    for (size_t i = 0; i < h->n_members; i++) {
        const struct configuration_member *m = &h->members[i];
        there += m->role == MEMBER_VOTER && m->id != h->id && place_of(h, m->id) < h->n_grown &&
                 is_linked(ctx, m->id);
    }
    return h->cluster_known && there > voters / 2;
}

int repair_put_aside(struct repair *h, int64_t wall_ms, char **ret_text)
{
    char *name = NULL;
    assert(h->wanted && h->cluster_known);
    int rc = damage_put_aside(h->dir, NULL, wall_ms, h->cluster, &name, ret_text);
    if (rc == 0) {
        log_warn_advice(
            "server", "moved-aside", "remove that folder when you no longer need it",
            "folder=\"%s/%s\" text=\"nothing was deleted; this member receives all data from the others; "
            "remove that folder when you no longer need it\"",
            h->dir, name);
    }
    free(name);
    return rc;
}
