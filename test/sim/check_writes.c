#include "sim/check_writes.h"

#include "sim/peek.h"
#include "sim/sim.h"

#include "client/core/core.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A client learned that this deed made this version of the key. */
static void learn(struct sim *s, unsigned key, int32_t version, uint64_t deed, const char *who)
{
    struct versions *v = &s->checks.versions[key];
    if (version < 0 || deed > s->checks.n_deeds) {
        world_violation(&s->world, "key %u has data of nobody: %" PRIu64 " (%s)", key, deed, who);
        return;
    }
    if ((size_t)version >= v->n) {
        size_t n = 2 * (size_t)version + 64;
        v->deeds = realloc(v->deeds, n * sizeof *v->deeds);
        if (v->deeds == NULL) {
            abort();
        }
        memset(v->deeds + v->n, 0, (n - v->n) * sizeof *v->deeds);
        v->n = n;
    }
    if (version == 0 && deed == 0) {
        return; /* as it was made */
    }
    if (v->deeds[version] != 0 && v->deeds[version] != deed) {
        world_violation(&s->world,
                        "version %d of key %u was made by %" PRIu64 " and by %" PRIu64 " (%s)",
                        version, key, v->deeds[version], deed, who);
    }
    v->deeds[version] = deed;
    if (deed == 0) {
        return;
    }
    struct deed *d = s->checks.deeds[deed - 1];
    if (d->version >= 0 && d->version != version) {
        world_violation(&s->world,
                        "write %" PRIu64 " of key %u made version %d and version %d (%s)", deed,
                        key, d->version, version, who);
    }
    if (d->answered_us != 0 && d->error != 0 && !deed_is_open(d)) {
        world_violation(&s->world,
                        "write %" PRIu64 " of key %u was refused (%s) and made version %d (%s)",
                        deed, key, conclave_errname(d->error), version, who);
    }
    d->version = version;
}

/* Whose server remembers the results of its writes is never left in doubt by a lost link. */
static void check_no_doubt(struct sim *s, const struct deed *d)
{
    if (d->error == CONCLAVE_CONNECTION_LOSS && d->client->core->once.granted) {
        world_violation(&s->world,
                        "write %" PRIu64 " of client %u is in doubt though its session lives",
                        d->id, d->client->id);
    }
}

void check_writes_answered(struct sim *s, struct deed *d, const struct conclave_reply *reply)
{
    check_no_doubt(s, d);
    if (d->error != 0) {
        return;
    }
    switch (d->kind) {
    case DEED_SET:
    case DEED_SET_IF:
        learn(s, d->key, reply->stat.version, d->id, "acknowledged");
        if (d->expected >= 0 && reply->stat.version != d->expected + 1) {
            world_violation(&s->world, "a write of version %d of key %u made version %d",
                            d->expected, d->key, reply->stat.version);
        }
        break;
    case DEED_MULTI:
        learn(s, d->key, reply->results[0]->stat.version, d->id, "acknowledged in a multi");
        break;
    case DEED_GET:
        learn(s, d->key, reply->stat.version, peek_number(slice_make(reply->data, reply->data_len)),
              "read");
        break;
    case DEED_SEQUENCE:
        snprintf(d->path, sizeof d->path, "%s", reply->path);
        break;
    default:
        break;
    }
}

/* The end */

static void look_at_key(struct sim *s, struct machine *m, unsigned key)
{
    char path[16];
    int32_t version = 0;
    uint64_t deed = 0;
    char who[32];
    snprintf(path, sizeof path, "/r/%u", key);
    snprintf(who, sizeof who, "server %u in the end", m->id);
    if (!peek_node(m, path, &version, &deed)) {
        world_violation(&s->world, "server %u lacks %s", m->id, path);
        return;
    }
    learn(s, key, version, deed, who);
    for (size_t i = 0; i < s->checks.n_deeds; i++) {
        const struct deed *d = s->checks.deeds[i];
        if (d->version > version && d->key == key && d->kind != DEED_GET) {
            world_violation(&s->world,
                            "server %u ends with version %d of key %u, but %d was seen (write "
                            "%" PRIu64 ")",
                            m->id, version, key, d->version, d->id);
        }
    }
}

static void look_at_child(void *ctx, struct machine *m, const char *name)
{
    struct sim *s = m->sim;
    const char *folder = ctx;
    uint64_t id = peek_number(slice_str(name));
    char path[sizeof((struct deed *)0)->path];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (id == 0 || id > s->checks.n_deeds) {
        world_violation(&s->world, "server %u has %s, which nobody made", m->id, path);
        return;
    }
    struct deed *d = s->checks.deeds[id - 1];
    if (!deed_is_open(d) && d->error != 0) {
        world_violation(&s->world, "server %u has %s, whose making was refused (%s)", m->id, path,
                        conclave_errname(d->error));
    } else if (deed_is_open(d) && d->kind == DEED_SEQUENCE && d->path[strlen(d->path) - 1] == '-') {
        snprintf(d->path, sizeof d->path, "%s", path); /* now the only one there may be */
    } else if (strcmp(d->path, path) != 0) {
        world_violation(&s->world, "server %u has %s and %s of one create", m->id, path, d->path);
    }
    if (d->removal != NULL && d->removal->answered_us != 0 && d->removal->error == 0) {
        world_violation(&s->world, "server %u has %s, whose deletion was acknowledged", m->id,
                        path);
    }
}

static void look_for_node(struct sim *s, struct machine *m, const struct deed *d)
{
    int32_t version;
    uint64_t number;
    bool lasting = d->kind == DEED_UNIQUE || d->kind == DEED_SEQUENCE || d->kind == DEED_PROBE ||
                   d->kind == DEED_MULTI;
    if (!lasting) {
        return;
    }
    bool there = peek_node(m, d->path, &version, &number);
    bool acknowledged = d->answered_us != 0 && d->error == 0;
    if (acknowledged && d->removal == NULL && !there) {
        world_violation(&s->world, "server %u lacks %s, which was acknowledged", m->id, d->path);
    }
    if (there && number != d->id) {
        world_violation(&s->world, "server %u has data of %" PRIu64 " at %s", m->id, number,
                        d->path);
    }
    if (d->kind == DEED_MULTI && d->version >= 0 && !there) {
        world_violation(&s->world, "server %u has half of multi %" PRIu64, m->id, d->id);
    }
}

void check_writes_end(struct sim *s)
{
    static char u[] = "/u";
    static char q[] = "/q";
    for (unsigned id = 1; id <= s->n_machines; id++) {
        struct machine *m = &s->machines[id];
        for (unsigned key = 0; key < KEYS; key++) {
            look_at_key(s, m, key);
        }
        peek_children(m, u, look_at_child, u);
        peek_children(m, q, look_at_child, q);
        for (size_t i = 0; i < s->checks.n_deeds; i++) {
            look_for_node(s, m, s->checks.deeds[i]);
        }
    }
}
