/* Counts the results of probes, and derives the state of a server. */
#include "redis/records/server_state.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *name;
    bool answers;
} probes[] = {
#define REDIS_PROBE_ROW(name, text, answers) [REDIS_PROBE_##name] = {text, answers},
    REDIS_PROBE_MAP(REDIS_PROBE_ROW)
#undef REDIS_PROBE_ROW
};

const char *const REDIS_NODE_STATES[] = {
    [REDIS_NODE_UNKNOWN] = "unknown", [REDIS_NODE_UP] = "up",
    [REDIS_NODE_SUSPECT] = "suspect", [REDIS_NODE_DOWN] = "down",
    [REDIS_NODE_LOADING] = "loading", [REDIS_NODE_BUSY] = "busy",
    [REDIS_NODE_NOAUTH] = "noauth",   NULL,
};

bool redis_probe_answers(enum redis_probe probe)
{
    return probes[probe].answers;
}

const char *redis_probe_name(enum redis_probe probe)
{
    assert((size_t)probe < sizeof probes / sizeof probes[0]);
    return probes[probe].name;
}

const char *redis_node_state_name(enum redis_node_state state)
{
    return REDIS_NODE_STATES[state];
}

enum redis_probe redis_probe_of_error(const char *error)
{
    static const struct {
        const char *word;
        enum redis_probe probe;
    } words[] = {
        {"LOADING", REDIS_PROBE_LOADING},       {"BUSY", REDIS_PROBE_BUSY},
        {"MASTERDOWN", REDIS_PROBE_MASTERDOWN}, {"NOAUTH", REDIS_PROBE_NOAUTH},
        {"WRONGPASS", REDIS_PROBE_NOAUTH},      {"NOPERM", REDIS_PROBE_NOAUTH},
        {"DENIED", REDIS_PROBE_NOAUTH},         {"ERR invalid password", REDIS_PROBE_NOAUTH},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t len = strlen(words[i].word);
        if (strncmp(error, words[i].word, len) == 0 && (error[len] == ' ' || error[len] == '\0')) {
            return words[i].probe;
        }
    }
    return REDIS_PROBE_ERROR;
}

void redis_node_init(struct redis_node *node)
{
    *node = (struct redis_node){
        .state = REDIS_NODE_UNKNOWN,
        .state_ms = -1,
        .probe_ms = -1,
        .answered_ms = -1,
        .refused_ms = -1,
        .failing_ms = -1,
        .busy_ms = -1,
        .latency_us = -1,
        .facts_ms = -1,
    };
}

static enum redis_node_state after_success(struct redis_node *node,
                                           const struct redis_config *config)
{
    node->failures = 0;
    node->failing_ms = -1;
    node->successes++;
    bool holds_back = node->state == REDIS_NODE_DOWN && node->successes < config->min_successes;
    return holds_back ? REDIS_NODE_DOWN : REDIS_NODE_UP;
}

static enum redis_node_state after_failure(struct redis_node *node,
                                           const struct redis_config *config, int64_t now_ms)
{
    node->successes = 0;
    node->failing_ms = node->failing_ms < 0 ? now_ms : node->failing_ms;
    node->failures++;
    bool down =
        node->failures >= config->max_failures && now_ms - node->failing_ms >= config->min_down_ms;
    return node->state == REDIS_NODE_DOWN || down ? REDIS_NODE_DOWN : REDIS_NODE_SUSPECT;
}

/* It answers, but cannot serve. */
static enum redis_node_state after_busy(struct redis_node *node, const struct redis_config *config,
                                        enum redis_node_state state, int64_t now_ms)
{
    node->busy_ms = node->busy_ms < 0 ? now_ms : node->busy_ms;
    if (config->busy_down_ms > 0 && now_ms - node->busy_ms >= config->busy_down_ms) {
        return after_failure(node, config, now_ms);
    }
    node->successes = 0;
    node->failures = 0;
    node->failing_ms = -1;
    return state;
}

static enum redis_node_state next_state(struct redis_node *node, const struct redis_config *config,
                                        enum redis_probe probe, int64_t now_ms)
{
    switch (probe) {
    case REDIS_PROBE_OK:
    case REDIS_PROBE_MASTERDOWN:
        node->busy_ms = -1;
        return after_success(node, config);
    case REDIS_PROBE_LOADING:
        return after_busy(node, config, REDIS_NODE_LOADING, now_ms);
    case REDIS_PROBE_BUSY:
        return after_busy(node, config, REDIS_NODE_BUSY, now_ms);
    case REDIS_PROBE_NOAUTH:
        node->busy_ms = -1;
        node->successes = 0;
        node->failures = 0;
        node->failing_ms = -1;
        return REDIS_NODE_NOAUTH;
    default:
        node->busy_ms = -1;
        return after_failure(node, config, now_ms);
    }
}

bool redis_node_probed(struct redis_node *node, const struct redis_config *config,
                       enum redis_probe probe, const struct redis_facts *facts, int64_t sent_ms,
                       int64_t now_ms)
{
    if (sent_ms < node->probe_ms || probe == REDIS_PROBE_NONE) {
        return false;
    }
    if (probe == REDIS_PROBE_OK && facts != NULL && facts->loading) {
        probe = REDIS_PROBE_LOADING; /* INFO is answered while PING is not */
    }
    enum redis_node_state state = next_state(node, config, probe, now_ms);
    node->probe = probe;
    node->probe_ms = sent_ms;
    if (redis_probe_answers(probe)) {
        node->answered_ms = sent_ms;
    } else if (probe == REDIS_PROBE_REFUSED) {
        node->refused_ms = sent_ms;
    }
    if (probe == REDIS_PROBE_OK) {
        node->latency_us = (now_ms - sent_ms) * 1000;
    }
    if (facts != NULL) {
        node->facts = *facts;
        node->facts_ms = sent_ms;
    }
    assert(node->failures == 0 || node->successes == 0);
    assert((node->failures > 0) == (node->failing_ms >= 0));
    assert(state != REDIS_NODE_UP || node->failures == 0);
    assert(state != REDIS_NODE_UNKNOWN);
    bool changed = state != node->state;
    if (changed) {
        node->state = state;
        node->state_ms = now_ms;
    }
    return changed;
}

int64_t redis_node_next_probe_ms(const struct redis_node *node, const struct redis_config *config)
{
    if (node->probe_ms < 0) {
        return 0;
    }
    if (node->probe == REDIS_PROBE_CUT && node->state == REDIS_NODE_SUSPECT) {
        return node->probe_ms;
    }
    int64_t pause = node->state == REDIS_NODE_SUSPECT ? config->period_ms / 4 : config->period_ms;
    return node->probe_ms + pause;
}
