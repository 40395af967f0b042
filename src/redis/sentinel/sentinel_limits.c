#include "redis/sentinel/sentinel_limits.h"

#include "base/random.h"

#include <assert.h>
#include <string.h>

void sentinel_limits_init(struct sentinel_limits *l, const struct sentinel_rates *rates)
{
    memset(l, 0, sizeof *l);
    l->most = *rates;
    random_bytes(&l->key, sizeof l->key);
    rates_init(&l->connects, &l->key);
    rates_init(&l->requests, &l->key);
}

void sentinel_limits_finish(struct sentinel_limits *l)
{
    assert(l->all.clients == 0 && l->all.unsent == 0 && l->all.channels == 0);
    rates_finish(&l->connects);
    rates_finish(&l->requests);
}

void sentinel_limits_join(struct sentinel_limits *l, struct sentinel_share *share, const char *host)
{
    net_network_name(host, share->name);
    uint64_t hash = hash_keyed(&l->key, share->name, strlen(share->name));
    share->network = &l->networks[hash % SENTINEL_NETWORKS];
    share->own = (struct sentinel_use){.clients = 1};
    share->network->clients++;
    l->all.clients++;
}

void sentinel_limits_count(struct sentinel_limits *l, struct sentinel_share *share, size_t unsent,
                           size_t channels)
{
    struct sentinel_use *of[] = {share->network, &l->all};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        assert(of[i]->unsent >= share->own.unsent && of[i]->channels >= share->own.channels);
        of[i]->unsent += unsent - share->own.unsent;
        of[i]->channels += channels - share->own.channels;
    }
    share->own.unsent = unsent;
    share->own.channels = channels;
}

void sentinel_limits_leave(struct sentinel_limits *l, struct sentinel_share *share)
{
    assert(share->own.clients == 1 && share->network->clients > 0);
    sentinel_limits_count(l, share, 0, 0);
    share->own.clients = 0;
    share->network->clients--;
    l->all.clients--;
}

enum sentinel_excess sentinel_limits_excess(const struct sentinel_limits *l)
{
    return l->all.unsent > SENTINEL_UNSENT_TOTAL       ? SENTINEL_EXCESS_UNSENT
           : l->all.channels > SENTINEL_CHANNELS_TOTAL ? SENTINEL_EXCESS_CHANNELS
                                                       : SENTINEL_EXCESS_NONE;
}

static size_t used(const struct sentinel_use *use, enum sentinel_excess excess)
{
    return excess == SENTINEL_EXCESS_UNSENT ? use->unsent : use->channels;
}

bool sentinel_limits_worse(const struct sentinel_share *a, const struct sentinel_share *b,
                           enum sentinel_excess excess)
{
    return a->network == b->network ? used(&a->own, excess) > used(&b->own, excess)
                                    : used(a->network, excess) > used(b->network, excess);
}

bool sentinel_limits_connects(struct sentinel_limits *l, const struct sentinel_share *share,
                              int64_t now_ns)
{
    const struct sentinel_rate *most = &l->most.connects;
    return rates_take(&l->connects, share->name, most->per_second, most->burst, now_ns);
}

bool sentinel_limits_may_ask(const struct sentinel_limits *l, const struct sentinel_share *share,
                             int64_t now_ns)
{
    const struct sentinel_rate *most = &l->most.requests;
    return rates_allow(&l->requests, share->name, most->per_second, most->burst, now_ns);
}

void sentinel_limits_asked(struct sentinel_limits *l, const struct sentinel_share *share,
                           unsigned requests, int64_t now_ns)
{
    const struct sentinel_rate *most = &l->most.requests;
    bool within = true;
    for (unsigned i = 0; i < requests && within; i++) {
        within = rates_take(&l->requests, share->name, most->per_second, most->burst, now_ns);
    }
}
