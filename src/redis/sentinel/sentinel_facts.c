#include "redis/sentinel/sentinel_facts.h"

#include "base/hash.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

int sentinel_master(const struct sentinel_facts *facts)
{
    const struct redis_current *current = facts->current;
    return current != NULL && current->master[0] != '\0'
               ? redis_config_find(facts->config, current->master)
               : REDIS_NONE;
}

const char *sentinel_named_master(const struct sentinel_facts *facts)
{
    bool named = facts->in_contact && facts->proved;
    assert(!named || facts->current != NULL);
    return named && facts->current->master[0] != '\0' ? facts->current->master : NULL;
}

bool sentinel_s_down(const struct sentinel_facts *facts, int node)
{
    assert(node >= 0 && (size_t)node < facts->config->node_count);
    return facts->nodes[node].state == REDIS_NODE_DOWN;
}

bool sentinel_o_down(const struct sentinel_facts *facts)
{
    const struct redis_current *current = facts->current;
    if (current == NULL) {
        return false;
    }
    bool requested = facts->plan != NULL && strcmp(facts->plan->reason, "manual") == 0;
    return current->state == REDIS_STATE_NO_CANDIDATE ||
           (current->state == REDIS_STATE_FAILING_OVER && !requested);
}

bool sentinel_is_replica(const struct sentinel_facts *facts, int node)
{
    const struct redis_current *current = facts->current;
    for (size_t i = 0; current != NULL && i < current->replica_count; i++) {
        if (redis_config_find(facts->config, current->replicas[i]) == node) {
            return true;
        }
    }
    return false;
}

bool sentinel_peer(const struct redis_report *report, struct redis_node_config *ret)
{
    return redis_address_parse(report->sentinel, strlen(report->sentinel), ret) == 0;
}

void sentinel_id_of(const char *cluster, const char *manager, char ret[SENTINEL_ID_SIZE])
{
    char text[2 * REDIS_NAME_SIZE + 2];
    uint64_t parts[3];
    int len = snprintf(text, sizeof text, "%.127s/%.127s", cluster, manager);
    for (uint64_t i = 0; i < 3; i++) {
        struct hash_key key = {{i, 0}};
        parts[i] = hash_keyed(&key, text, (size_t)len);
    }
    snprintf(ret, SENTINEL_ID_SIZE, "%016llx%016llx%08llx", (unsigned long long)parts[0],
             (unsigned long long)parts[1], (unsigned long long)(parts[2] & 0xffffffff));
}
