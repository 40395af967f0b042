#include "redis/sentinel/sentinel_answers.h"

#include "redis/sentinel/sentinel_request.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { FLAGS_MAX = 96 };

static int64_t age(const struct sentinel_facts *facts, int64_t at_ms)
{
    return at_ms >= 0 && facts->now_ms > at_ms ? facts->now_ms - at_ms : 0;
}

static void flag_add(char flags[FLAGS_MAX], const char *flag)
{
    size_t len = strlen(flags);
    snprintf(flags + len, FLAGS_MAX - len, "%s%s", len > 0 ? "," : "", flag);
}

static bool usable_replica(const struct sentinel_facts *facts, int node)
{
    return facts->nodes[node].state == REDIS_NODE_UP && sentinel_is_replica(facts, node);
}

static size_t peer_count(const struct sentinel_facts *facts)
{
    struct redis_node_config at;
    size_t count = 0;
    for (size_t i = 0; i < facts->managers->count; i++) {
        count += sentinel_peer(&facts->managers->views[i].report, &at);
    }
    return count;
}

/* The fields that all kinds have, in Sentinel's order. */
static void fields_common(struct out_fields *f, const char *name, const char *host, int port,
                          const char *run_id, const char *flags, bool linked, int64_t silent_ms)
{
    fields_begin(f);
    field_text(f, "name", name);
    field_text(f, "ip", host);
    field_number(f, "port", port);
    field_text(f, "runid", run_id);
    field_text(f, "flags", flags);
    field_number(f, "link-pending-commands", linked ? 0 : 1);
    field_number(f, "link-refcount", 1);
    field_number(f, "last-ping-sent", linked ? 0 : silent_ms);
    field_number(f, "last-ok-ping-reply", silent_ms);
    field_number(f, "last-ping-reply", silent_ms);
}

static void fields_server(struct out_fields *f, const struct sentinel_facts *facts, int node,
                          const char *name, const char *flags, const char *role)
{
    const struct redis_node_config *config = &facts->config->nodes[node];
    const struct redis_node *seen = &facts->nodes[node];
    fields_common(f, name, config->host, config->port, seen->facts.run_id, flags,
                  seen->failures == 0 && seen->answered_ms >= 0, age(facts, seen->answered_ms));
    if (strstr(flags, "s_down") != NULL) {
        field_number(f, "s-down-time", age(facts, seen->failing_ms));
    }
    if (strstr(flags, "o_down") != NULL) {
        field_number(f, "o-down-time", age(facts, seen->failing_ms));
    }
    field_number(f, "down-after-milliseconds", facts->config->min_down_ms);
    field_number(f, "info-refresh", age(facts, seen->facts_ms));
    field_text(f, "role-reported",
               seen->facts.role == REDIS_ROLE_MASTER    ? "master"
               : seen->facts.role == REDIS_ROLE_REPLICA ? "slave"
                                                        : role);
    field_number(f, "role-reported-time", age(facts, seen->state_ms));
}

void answer_master(struct sentinel_out *out, const struct sentinel_facts *facts)
{
    struct out_fields f;
    char flags[FLAGS_MAX] = "";
    int node = sentinel_master(facts);
    assert(node != REDIS_NONE);
    /* A master that clients must not write to is down for them, whatever the reason. */
    if (!facts->writable || sentinel_s_down(facts, node)) {
        flag_add(flags, "s_down");
    }
    if (!facts->writable) {
        flag_add(flags, "o_down");
    }
    flag_add(flags, "master");
    if (facts->nodes[node].failures > 0) {
        flag_add(flags, "disconnected");
    }
    if (facts->plan != NULL) {
        flag_add(flags, "failover_in_progress");
    }
    fields_server(&f, facts, node, facts->name, flags, "master");
    field_number(&f, "config-epoch", facts->current->epoch);
    field_number(&f, "num-slaves", (int64_t)facts->config->node_count - 1);
    field_number(&f, "num-other-sentinels", (int64_t)peer_count(facts));
    field_number(&f, "quorum", redis_config_required(facts->config));
    if (facts->plan != NULL) {
        field_text(&f, "failover-state", redis_step_name(facts->plan->step));
    }
    field_number(&f, "failover-timeout", facts->config->promote_timeout_ms);
    field_number(&f, "parallel-syncs", facts->config->parallel_syncs);
    fields_end(&f, out);
}

static void answer_replica(struct sentinel_out *out, const struct sentinel_facts *facts, int node)
{
    const struct redis_node *seen = &facts->nodes[node];
    struct redis_node_config master = {.port = 0};
    struct out_fields f;
    char flags[FLAGS_MAX] = "";
    if (!usable_replica(facts, node)) {
        flag_add(flags, "s_down");
    }
    flag_add(flags, "slave");
    if (seen->failures > 0) {
        flag_add(flags, "disconnected");
    }
    if (redis_address_parse(seen->facts.master, strlen(seen->facts.master), &master) != 0) {
        snprintf(master.host, sizeof master.host, "?");
    }
    fields_server(&f, facts, node, facts->config->nodes[node].address, flags, "slave");
    field_number(&f, "master-link-down-time",
                 seen->facts.link_down_ms > 0 ? seen->facts.link_down_ms : 0);
    field_text(&f, "master-link-status", seen->facts.link_up ? "ok" : "err");
    field_text(&f, "master-host", master.host);
    field_number(&f, "master-port", master.port);
    field_number(&f, "slave-priority", seen->facts.priority);
    field_number(&f, "slave-repl-offset", seen->facts.offset > 0 ? seen->facts.offset : 0);
    field_number(&f, "replica-announced", 1);
    fields_end(&f, out);
}

void answer_replicas(struct sentinel_out *out, const struct sentinel_facts *facts)
{
    int master = sentinel_master(facts);
    assert(master != REDIS_NONE);
    out_array(out, facts->config->node_count - 1);
    for (int i = 0; i < (int)facts->config->node_count; i++) {
        if (i != master) {
            answer_replica(out, facts, i);
        }
    }
}

void answer_sentinels(struct sentinel_out *out, const struct sentinel_facts *facts)
{
    out_array(out, peer_count(facts));
    for (size_t i = 0; i < facts->managers->count; i++) {
        const struct redis_manager_view *view = &facts->managers->views[i];
        struct redis_node_config at;
        struct out_fields f;
        char id[SENTINEL_ID_SIZE];
        int64_t silent_ms = age(facts, view->changed_ms);
        bool fresh = redis_manager_is_fresh(view, facts->config, facts->now_ms);
        if (!sentinel_peer(&view->report, &at)) {
            continue;
        }
        sentinel_id_of(facts->name, view->report.id, id);
        fields_common(&f, id, at.host, at.port, id, fresh ? "sentinel" : "s_down,sentinel", fresh,
                      silent_ms);
        if (!fresh) {
            field_number(&f, "s-down-time", silent_ms);
        }
        field_number(&f, "down-after-milliseconds", facts->config->min_down_ms);
        field_number(&f, "last-hello-message", silent_ms);
        field_text(&f, "voted-leader", "?");
        field_number(&f, "voted-leader-epoch", 0);
        fields_end(&f, out);
    }
}

void answer_quorum(struct sentinel_out *out, const struct sentinel_facts *facts)
{
    int usable = redis_managers_fresh(facts->managers, facts->config, facts->now_ms);
    if (!facts->in_contact) {
        out_error(out, "NOQUORUM This manager has no contact to the ensemble, which elects the "
                       "leading manager");
    } else if (usable < redis_config_required(facts->config)) {
        out_error(out,
                  "NOQUORUM %d usable Sentinels. Not enough available Sentinels to reach the "
                  "specified quorum for this master",
                  usable);
    } else {
        buf_printf(out->buf,
                   "+OK %d usable Sentinels. Quorum and failover authorization can be reached\r\n",
                   usable);
    }
}

static const char *status_of(const struct sentinel_facts *facts, int master)
{
    return !facts->writable ? "odown" : sentinel_s_down(facts, master) ? "sdown" : "ok";
}

void answer_info(struct sentinel_out *out, const struct sentinel_facts *facts,
                 const struct slice *section)
{
    struct buf text;
    char id[SENTINEL_ID_SIZE];
    bool all = section == NULL || sentinel_word_is(*section, "all") ||
               sentinel_word_is(*section, "default") || sentinel_word_is(*section, "everything");
    int master = facts->in_contact ? sentinel_master(facts) : REDIS_NONE;
    buf_init(&text, 0);
    if (all || sentinel_word_is(*section, "server")) {
        sentinel_id_of(facts->name, facts->id, id);
        buf_printf(&text,
                   "# Server\r\nredis_version:" SENTINEL_VERSION "\r\nredis_mode:sentinel\r\n"
                   "server_name:conclave\r\nprocess_id:%d\r\nrun_id:%s\r\ntcp_port:%d\r\n",
                   (int)getpid(), id, facts->port);
    }
    if (all || sentinel_word_is(*section, "sentinel")) {
        buf_printf(&text,
                   "%s# Sentinel\r\nsentinel_masters:%d\r\nsentinel_tilt:%d\r\n"
                   "sentinel_running_scripts:0\r\nsentinel_scripts_queue_length:0\r\n"
                   "sentinel_simulate_failure_flags:0\r\n",
                   text.len > 0 ? "\r\n" : "", master != REDIS_NONE, !facts->in_contact);
        if (master != REDIS_NONE) {
            buf_printf(&text, "master0:name=%s,status=%s,address=%s,slaves=%zu,sentinels=%zu\r\n",
                       facts->name, status_of(facts, master), facts->config->nodes[master].address,
                       facts->config->node_count - 1, peer_count(facts) + 1);
        }
    }
    out_slice(out, buf_slice(&text));
    if (!buf_ok(&text)) {
        out->buf->failed = true;
    }
    buf_finish(&text);
}
