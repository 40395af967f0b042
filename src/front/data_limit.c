#include "front/data_limit.h"

#include "base/log.h"
#include "front/service.h"
#include "state/memory_estimate.h"

/* Tenths of the limit at which each level begins and ends. */
static const struct {
    size_t enter;
    size_t leave;
    const char *event;
} levels[] = {
    [DATA_NORMAL] = {0, 0, "data-limit-left"},
    [DATA_NEAR] = {8, 7, "data-limit-near"},
    [DATA_REACHED] = {10, 9, "data-limit-reached"},
};

static void set_level(struct service *s, enum data_level level)
{
    if (s->data_level == level) {
        return;
    }
    s->data_level = level;
    log_cause(level == DATA_NORMAL ? LOG_NOTICE : LOG_WARN, "server", levels[level].event, "data",
              NULL, level == DATA_NORMAL ? NULL : "delete nodes, or raise maxDataBytes",
              "bytes=%zu maxDataBytes=%zu refused=%s", state_memory(s->state), s->limits.data_max,
              level == DATA_REACHED ? "writes-that-add-data" : "none");
}

void data_limit_follow(struct service *s)
{
    size_t kept = state_memory(s->state);
    size_t tenth = s->limits.data_max / 10;
    enum data_level level = s->data_level;
    while (level < DATA_REACHED && kept >= levels[level + 1].enter * tenth) {
        level++;
    }
    while (level > DATA_NORMAL && kept < levels[level].leave * tenth) {
        level--;
    }
    set_level(s, level);
}

/* Counts requests in progress, too: otherwise many writes at once would pass the limit together. */
bool data_limit_refuses(struct service *s, const struct request *r)
{
    size_t would_be = state_memory(s->state) + s->account.bytes[ACCOUNT_REQUESTS] + r->body.len;
    if ((s->data_level != DATA_REACHED && would_be <= s->limits.data_max) ||
        state_growth(s->state, r->type, r->body) <= 0) {
        return false;
    }
    set_level(s, DATA_REACHED);
    s->metrics->conclave_growth_refused_total++;
    return true;
}

const char *data_limit_warning(const struct service *s)
{
    switch (s->data_level) {
    case DATA_NEAR:
        return "the data take more than 4/5 of maxDataBytes: delete some, or raise the limit";
    case DATA_REACHED:
        return "the data reached maxDataBytes: writes that add data are refused until some are "
               "deleted";
    case DATA_NORMAL:
        break;
    }
    return NULL;
}
