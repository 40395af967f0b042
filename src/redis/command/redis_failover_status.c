/* conclave redis-failover status: shows the cluster's znodes, as text or JSON. */
#include "base/clock.h"
#include "base/json.h"
#include "cli/common/command.h"
#include "cli/common/node_output.h"
#include "cli/common/waiter.h"
#include "redis/command/redis_failover.h"
#include "redis/manager/cluster_znodes.h"

#include <conclave/config.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The content of the znodes at one moment. */
struct cluster_picture {
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    bool has_current;
    bool has_plan;
    struct redis_current current;
    struct redis_plan plan;
    struct conclave_member **members;
    size_t member_count;
    /* of members[i]; its id is "" if it cannot be read */
    struct redis_report *reports;
    char leader[REDIS_NAME_SIZE];
    struct redis_event *events; /* the newest last */
    size_t event_count;
    size_t request_count;
};

/* --- reading ---------------------------------------------------------------------------- */

/* Reads a node below root. Callers accept CONCLAVE_NO_NODE. */
static int read_node(const struct redis_cli *cli, struct conclave_client *client, const char *below,
                     struct conclave_reply **ret)
{
    char path[REDIS_PATH_MAX];
    struct conclave_op op =
        conclave_op_path(CONCLAVE_OP_GET, redis_path(cli->root, below, path), 0);
    *ret = NULL;
    return conclave_call(client, &op, ret);
}

/* A record below root. *ret_there: there is such a node. */
static int status_read_record(const struct redis_cli *cli, struct conclave_client *client,
                              const char *below, const struct record_table *table, void *record,
                              bool *ret_there)
{
    struct conclave_reply *reply;
    int error = read_node(cli, client, below, &reply);
    *ret_there = error == 0;
    if (error == 0) {
        error = record_read(table, reply->data, reply->data_len, record);
    }
    conclave_reply_free(reply);
    return error == CONCLAVE_NO_NODE ? 0 : error;
}

static int read_records(const struct redis_cli *cli, struct cluster_picture *p)
{
    int error =
        status_read_record(cli, p->client, "current", &REDIS_CURRENT, &p->current, &p->has_current);
    return error != 0
               ? error
               : status_read_record(cli, p->client, "plan", &REDIS_PLAN, &p->plan, &p->has_plan);
}

static int read_managers(const struct redis_cli *cli, struct cluster_picture *p)
{
    char path[REDIS_PATH_MAX];
    struct conclave_participant **list;
    size_t count;
    int error = conclave_group_members(p->recipes, redis_path(cli->root, "managers", path),
                                       cli->common.timeout_ms, &p->members, &p->member_count);
    p->reports = error == 0 ? calloc(p->member_count + 1, sizeof *p->reports) : NULL;
    if (p->reports == NULL) {
        return error != 0 ? error : CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < p->member_count; i++) {
        const struct conclave_member *member = p->members[i];
        (void)!record_read(&REDIS_REPORT, member->data, member->data_len, &p->reports[i]);
    }
    error = conclave_election_participants(p->recipes, redis_path(cli->root, "election", path),
                                           cli->common.timeout_ms, &list, &count);
    if (error == 0) {
        snprintf(p->leader, sizeof p->leader, "%s", count > 0 ? list[0]->id : "");
        conclave_participants_free(list, count);
    }
    return error == CONCLAVE_NO_NODE ? 0 : error;
}

static int list_folder(const struct redis_cli *cli, struct cluster_picture *p, const char *below,
                       struct conclave_reply **ret)
{
    char path[REDIS_PATH_MAX];
    struct conclave_op op =
        conclave_op_path(CONCLAVE_OP_GET_CHILDREN, redis_path(cli->root, below, path), 0);
    *ret = NULL;
    int error = conclave_call(p->client, &op, ret);
    return error == CONCLAVE_NO_NODE ? 0 : error;
}

static int read_events(const struct redis_cli *cli, struct cluster_picture *p)
{
    struct conclave_reply *reply;
    int error = list_folder(cli, p, "events", &reply);
    size_t count = error == 0 && reply != NULL ? reply->children_count : 0;
    const char **names = count > 0 ? names_sorted(reply->children, count) : NULL;
    size_t wanted = count < (size_t)cli->events ? count : (size_t)cli->events;
    p->events = calloc(wanted + 1, sizeof *p->events);
    if ((names == NULL && count > 0) || p->events == NULL) {
        error = CONCLAVE_ENOMEM;
    }
    if (error == 0 && count > 0) {
        for (size_t i = count - wanted; i < count; i++) {
            char below[256];
            bool there;
            snprintf(below, sizeof below, "events/%.200s", names[i]);
            /* An event that was deleted meanwhile, or cannot be read, is left out. */
            assert(p->event_count < wanted);
            p->event_count += status_read_record(cli, p->client, below, &REDIS_EVENT,
                                                 &p->events[p->event_count], &there) == 0 &&
                              there;
        }
    }
    free(names);
    conclave_reply_free(reply);
    if (error == 0) {
        error = list_folder(cli, p, "requests", &reply);
        p->request_count = error == 0 && reply != NULL ? reply->children_count : 0;
        conclave_reply_free(reply);
    }
    return error;
}

static void picture_finish(struct cluster_picture *p)
{
    conclave_members_free(p->members, p->member_count);
    free(p->reports);
    free(p->events);
    conclave_recipes_destroy(p->recipes);
    connection_close(p->client);
}

/* --- what is shown of a server -------------------------------------------------------- */

struct standing {
    const char *address;
    const char *role; /* in `current`: "master", "replica", "unavailable", "-" */
    int votes[REDIS_NODE_NOAUTH + 1];
    int reports;
    const struct redis_report_node *seen; /* in the leader's report, else in the first one */
};

static const char *role_in_current(const struct cluster_picture *p, const char *address)
{
    const struct redis_current *c = &p->current;
    if (!p->has_current) {
        return "-";
    }
    if (strcmp(c->master, address) == 0) {
        return "master";
    }
    for (size_t i = 0; i < c->replica_count; i++) {
        if (strcmp(c->replicas[i], address) == 0) {
            return "replica";
        }
    }
    for (size_t i = 0; i < c->unavailable_count; i++) {
        if (strcmp(c->unavailable[i], address) == 0) {
            return "unavailable";
        }
    }
    return "-";
}

static void standing_make(const struct cluster_picture *p, const char *address,
                          struct standing *ret)
{
    *ret = (struct standing){.address = address, .role = role_in_current(p, address)};
    for (size_t i = 0; i < p->member_count; i++) {
        const struct redis_report *report = &p->reports[i];
        for (size_t k = 0; k < report->node_count; k++) {
            const struct redis_report_node *node = &report->nodes[k];
            if (strcmp(node->address, address) != 0) {
                continue;
            }
            assert(node->state <= REDIS_NODE_NOAUTH);
            ret->votes[node->state]++;
            ret->reports++;
            if (ret->seen == NULL || strcmp(report->id, p->leader) == 0) {
                ret->seen = node;
            }
        }
    }
}

/* "up 3/3", "down 2/3 up 1/3" */
static void standing_votes(const struct standing *s, char *buf, size_t size)
{
    size_t len = 0;
    buf[0] = '\0';
    for (int state = REDIS_NODE_NOAUTH; state >= 0 && len < size; state--) {
        if (s->votes[state] > 0) {
            len += (size_t)snprintf(buf + len, size - len, "%s%s %d/%d", len > 0 ? " " : "",
                                    redis_node_state_name((enum redis_node_state)state),
                                    s->votes[state], s->reports);
        }
    }
}

/* Every address of `current` and of the reports, once. */
static size_t collect_addresses(const struct cluster_picture *p, const char **list, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < p->member_count; i++) {
        for (size_t k = 0; k < p->reports[i].node_count; k++) {
            const char *address = p->reports[i].nodes[k].address;
            size_t at = 0;
            while (at < count && strcmp(list[at], address) != 0) {
                at++;
            }
            if (at == count && count < max) {
                list[count++] = address;
            }
        }
    }
    return count;
}

/* --- text -------------------------------------------------------------------------------- */

static const char *ago(int64_t then_ms, char buf[32])
{
    int64_t s = (clock_wall_ms(clock_system()) - then_ms) / 1000;
    if (then_ms <= 0) {
        return "never";
    }
    if (s < 120) {
        snprintf(buf, 32, "%lld s ago", (long long)(s < 0 ? 0 : s));
    } else if (s < 7200) {
        snprintf(buf, 32, "%lld min ago", (long long)(s / 60));
    } else {
        snprintf(buf, 32, "%lld h ago", (long long)(s / 3600));
    }
    return buf;
}

static void show_servers(const struct cluster_picture *p)
{
    const char *addresses[2 * REDIS_NODES_MAX];
    size_t count = collect_addresses(p, addresses, 2 * REDIS_NODES_MAX);
    if (count > 0) {
        printf("\n%-24s %-11s %-20s %-5s %14s %4s\n", "SERVER", "ROLE", "SEEN", "LINK", "OFFSET",
               "PRIO");
    }
    for (size_t i = 0; i < count; i++) {
        struct standing s;
        char votes[160];
        char offset[24] = "-";
        char priority[16] = "-";
        const char *link = "-";
        standing_make(p, addresses[i], &s);
        standing_votes(&s, votes, sizeof votes);
        assert(s.reports > 0 && s.seen != NULL);
        if (s.seen->age_ms >= 0) {
            snprintf(offset, sizeof offset, "%lld", (long long)s.seen->offset);
            snprintf(priority, sizeof priority, "%d", s.seen->priority);
            link = s.seen->role != REDIS_ROLE_REPLICA ? "-" : s.seen->link_up ? "up" : "down";
        }
        printf("%-24s %-11s %-20s %-5s %14s %4s\n", s.address, s.role, votes, link, offset,
               priority);
    }
}

static void show_events(const struct cluster_picture *p)
{
    char when[32];
    printf("%s", p->event_count > 0 ? "\n" : "");
    for (size_t i = 0; i < p->event_count; i++) {
        const struct redis_event *e = &p->events[i];
        printf("%-12s ", ago(e->at_ms, when));
        redis_cli_print_event(e);
    }
}

static void show(const struct redis_cli *cli, const struct cluster_picture *p)
{
    char when[32];
    const struct redis_current *c = &p->current;
    printf("cluster   %s (%s)\n", cli->cluster, cli->root);
    if (p->member_count == 0) {
        printf("state     unwatched: no manager runs, so nobody replaces a master that fails\n");
    } else if (p->has_current) {
        printf("state     %s%s%s%s\n", redis_state_name(c->state),
               c->paused && c->state != REDIS_STATE_PAUSED ? ", paused" : "",
               c->reason[0] != '\0' ? ": " : "", c->reason);
    } else {
        printf("state     no master was published yet\n");
    }
    if (p->has_current) {
        printf("master    %s, epoch %lld, %s\n", c->master[0] != '\0' ? c->master : "none",
               (long long)c->epoch, ago(c->since_ms, when));
    }
    if (p->has_plan) {
        printf("plan      %s: %s (%s) to %s, step %s, begun %s\n", p->plan.id, p->plan.old,
               p->plan.reason, p->plan.target[0] != '\0' ? p->plan.target : "the best replica",
               redis_step_name(p->plan.step), ago(p->plan.started_ms, when));
    }
    if (p->request_count > 0) {
        printf("requests  %zu waiting\n", p->request_count);
    }
    printf("managers  ");
    for (size_t i = 0; i < p->member_count; i++) {
        bool leads = strcmp(p->members[i]->id, p->leader) == 0;
        printf("%s%s%s", i > 0 ? ", " : "", p->members[i]->id, leads ? " (leads)" : "");
    }
    int configured = p->member_count > 0 ? p->reports[0].managers : 0;
    printf("%s", p->member_count == 0 ? "none" : "");
    if (configured > (int)p->member_count) {
        printf("; %d of %d", (int)p->member_count, configured);
    }
    printf("\n");
    show_servers(p);
    show_events(p);
}

/* --- JSON ---------------------------------------------------------------------------------- */

static void json_servers(struct json *j, const struct cluster_picture *p)
{
    const char *addresses[2 * REDIS_NODES_MAX];
    size_t count = collect_addresses(p, addresses, 2 * REDIS_NODES_MAX);
    json_key(j, "servers");
    json_array_begin(j);
    for (size_t i = 0; i < count; i++) {
        struct standing s;
        standing_make(p, addresses[i], &s);
        assert(s.reports > 0 && s.seen != NULL); /* the address comes from a report */
        json_object_begin(j);
        json_member_string(j, "server", s.address);
        json_member_string(j, "role", s.role);
        json_key(j, "votes");
        json_object_begin(j);
        for (int state = 0; state <= REDIS_NODE_NOAUTH; state++) {
            if (s.votes[state] > 0) {
                json_member_int(j, redis_node_state_name((enum redis_node_state)state),
                                s.votes[state]);
            }
        }
        json_object_end(j);
        json_member_int(j, "offset", s.seen->offset);
        json_object_end(j);
    }
    json_array_end(j);
}

static int show_json(const struct redis_cli *cli, const struct cluster_picture *p)
{
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "cluster", cli->cluster);
    json_member_string(&j, "path", cli->root);
    redis_cli_json_record(&j, "current", &REDIS_CURRENT, p->has_current ? &p->current : NULL);
    redis_cli_json_record(&j, "plan", &REDIS_PLAN, p->has_plan ? &p->plan : NULL);
    json_member_bool(&j, "watched", p->member_count > 0);
    json_member_string(&j, "leader", p->leader);
    json_member_uint(&j, "requests", p->request_count);
    json_key(&j, "managers");
    json_array_begin(&j);
    for (size_t i = 0; i < p->member_count; i++) {
        json_object_begin(&j);
        json_member_string(&j, "id", p->members[i]->id);
        json_member_bool(&j, "leads", strcmp(p->members[i]->id, p->leader) == 0);
        redis_cli_json_record(&j, "report", &REDIS_REPORT,
                              p->reports[i].id[0] != '\0' ? &p->reports[i] : NULL);
        json_object_end(&j);
    }
    json_array_end(&j);
    json_servers(&j, p);
    json_key(&j, "events");
    json_array_begin(&j);
    for (size_t i = 0; i < p->event_count; i++) {
        struct buf text;
        buf_init(&text, 0);
        record_write(&text, &REDIS_EVENT, &p->events[i]);
        json_ready(&j, buf_slice(&text));
        buf_finish(&text);
    }
    json_array_end(&j);
    return json_line_print(&j, stdout);
}

int redis_cli_status(const struct redis_cli *cli)
{
    struct cluster_picture p = {.client = NULL};
    int code = connection_open(REDIS_USAGE.name, &cli->common, NULL, NULL, &p.client);
    if (code != 0) {
        return code;
    }
    int error = conclave_recipes_open(p.client, &p.recipes);
    error = error != 0 ? error : read_records(cli, &p);
    error = error != 0 ? error : read_managers(cli, &p);
    error = error != 0 ? error : read_events(cli, &p);
    if (error != 0) {
        code = fail(REDIS_USAGE.name, cli->root, error);
    } else if (!p.has_current && p.member_count == 0) {
        fprintf(stderr,
                "conclave redis-failover: there is no cluster at %s: no manager runs, and none has "
                "published a master\n",
                cli->root);
        code = CLI_EXIT_FAILED;
    } else {
        int result = p.member_count > 0 ? 0 : CLI_EXIT_FAILED;
        if (!cli->common.json) {
            show(cli, &p);
        } else if (show_json(cli, &p) != 0) {
            result = fail(REDIS_USAGE.name, NULL, CONCLAVE_EIO);
        }
        code = output_end(REDIS_USAGE.name, result);
    }
    picture_finish(&p);
    return code;
}
