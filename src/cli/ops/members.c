/* conclave members: shows the members of the ensemble, and hands the lead over. */
#include "cli/ops/members.h"

#include "base/json.h"
#include "cli/common/connection.h"
#include "cli/common/ensemble_view.h"
#include "cli/common/values.h"
#include "cli/ops/admin_request.h"
#include "cli/ops/members_admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHANGE_MS = 120000, LOOK_MS = 100, ASK_MS = 2000, IDS_MAX = 31 };

static const struct option_row ROWS[] = {
    {"version", 0, OPTION_STRING, offsetof(struct members_options, version_text), "HEX",
     "add, remove, promote: only if the version in /zookeeper/config is this one."},
    {"observer", 0, OPTION_FLAG, offsetof(struct members_options, observer), NULL,
     "add: without a vote."},
    {"admin", 0, OPTION_STRING, offsetof(struct members_options, admin), "HOST:PORT",
     "transfer: HTTP port to ask; default: one that the servers name."},
    {"within", 0, OPTION_DURATION, offsetof(struct members_options, within_ms), "DURATION",
     "drain: send the clients away over this time; default 10s."},
    {"undo", 0, OPTION_FLAG, offsetof(struct members_options, undo), NULL,
     "drain: take it back, the server serves again."},
    {"timeout", 0, OPTION_DURATION, offsetof(struct members_options, common.timeout_ms), "DURATION",
     "Wait this long for a change; default 2m. The change continues after that."},
    {.name = NULL},
};

enum members_verb {
    MEMBERS_LIST,
    MEMBERS_ADD,
    MEMBERS_REMOVE,
    MEMBERS_PROMOTE,
    MEMBERS_TRANSFER,
    MEMBERS_DRAIN
};
static const struct command_verb VERBS[] = {
    {"list", 0, 0, false},    {"add", 1, 1, false},      {"remove", 1, IDS_MAX, false},
    {"promote", 1, 1, false}, {"transfer", 0, 1, false}, {"drain", 1, 1, false},
    {.name = NULL},
};

const struct command_usage MEMBERS_USAGE = {
    .name = "members",
    .forms =
        (const char *const[]){"list [options]", "add ID=HOST:PORT:PORT[:ROLE][;CLIENT] [options]",
                              "remove ID... [options]", "promote ID [options]",
                              "transfer [ID] [options]", "drain ID [--undo] [options]", NULL},
    .about =
        "Shows or changes the members of the ensemble, while it serves.\n"
        "\n"
        "  list      the members: role, whether the leader is linked to it, and how many\n"
        "            log entries it lacks\n"
        "  add       adds a server, or changes the address of a member. Start the server\n"
        "            first, with an empty folder and a configuration that lists itself\n"
        "            and the members. It copies all data, with progress messages, and\n"
        "            votes then. The text is that of a \"server.\" line of zoo.cfg\n"
        "  remove    removes members; stop their servers then\n"
        "  promote   gives an observer a vote, when it has caught up\n"
        "  transfer  hands the lead over, to a voter or to the most up-to-date one\n"
        "  drain     empties a server before a restart: moves the lead and its clients to\n"
        "            the others, and waits until it is safe to stop\n"
        "\n"
        "Changes are ZooKeeper's reconfig: the servers need reconfigEnabled=true, and the client "
        "needs write permission on /zookeeper/config, such as the superuser's (--auth "
        "digest:super:PASSWORD). transfer asks a server's HTTP port, which it finds itself, with the same credentials.",
    .rows = ROWS,
    .more =
        "With --json, list: {\"members\":[{\"id\",\"role\",\"linked\",\"leads\",\"lacks\","
        "\"client\",\"address\"}]}; changes: {\"config\":TEXT}; transfer: {\"leader\":ID}; drain: "
        "what GET /members/drain answers.\n",
    .client = true,
    .verbs = VERBS,
};

/* list */

static uint64_t entries_lacking(const struct ensemble_view_server *best,
                                const struct ensemble_view_member *m)
{
    return best->last > m->match_index ? best->last - m->match_index : 0;
}

/* leads: `best` is the leader, which knows what the others lack. */
static int members_list_json(const struct ensemble_view_server *best, bool leads)
{
    struct json j;
    json_list_begin(&j, "members");
    for (size_t i = 0; i < best->members_count; i++) {
        const struct ensemble_view_member *m = &best->members[i];
        json_object_begin(&j);
        json_member_uint(&j, "id", ensemble_view_number(m->id));
        json_member_string(&j, "role", m->voter ? "voter" : "observer");
        json_member_bool(&j, "linked", m->linked);
        json_member_bool(&j, "leads", m->id == best->leader);
        if (leads) {
            json_member_uint(&j, "lacks", entries_lacking(best, m));
        } else {
            json_member_null(&j, "lacks");
        }
        json_member_string(&j, "client", m->client);
        json_member_string(&j, "address", m->address);
        json_object_end(&j);
    }
    return json_list_print(&j, stdout);
}

static void members_list_print(const struct ensemble_view_server *best, bool leads)
{
    printf("%-4s %-9s %-9s %8s  %s\n", "ID", "ROLE", "STATE", "LACKS", "ADDRESS");
    for (size_t i = 0; i < best->members_count; i++) {
        const struct ensemble_view_member *m = &best->members[i];
        char lacks[24];
        snprintf(lacks, sizeof lacks, leads ? "%" PRIu64 : "-", entries_lacking(best, m));
        printf("%-4" PRIu64 " %-9s %-9s %8s  %s\n", ensemble_view_number(m->id),
               m->voter ? "voter" : "observer",
               m->id == best->leader ? "leads"
               : m->linked           ? "linked"
                                     : "down",
               lacks, m->address[0] != '\0' ? m->address : "-");
    }
}

static int members_list(const struct members_options *options)
{
    struct ensemble_view roster;
    int code = ensemble_view_gather(MEMBERS_USAGE.name, &options->common, ASK_MS, &roster);
    const struct ensemble_view_server *best = code == 0 ? ensemble_view_best(&roster) : NULL;
    bool leads =
        best != NULL && (best->id == best->leader || strcmp(best->mode, "standalone") == 0);
    int error = 0;
    if (code == 0 && (best == NULL || best->brief)) {
        fprintf(stderr, "conclave members: no Conclave server answers; see \"conclave status\"\n");
        code = CLI_EXIT_UNAVAILABLE;
    } else if (code == 0 && options->common.json) {
        error = members_list_json(best, leads);
    } else if (code == 0) {
        members_list_print(best, leads);
        if (!best->serves) {
            fprintf(stderr,
                    "conclave members: as server %" PRIu64 " knows it, which does not serve: %s\n",
                    ensemble_view_number(best->id), best->state);
        }
    }
    ensemble_view_finish(&roster);
    return error == 0 ? code : fail(MEMBERS_USAGE.name, NULL, error);
}

/* transfer */

/* The leader according to the servers; 0: none, or none that is known to serve. */
static uint64_t leader_of(const struct ensemble_view *view)
{
    const struct ensemble_view_server *best = ensemble_view_best(view);
    return best != NULL && best->serves ? best->leader : 0;
}

static uint64_t leader_now(const struct common_options *options)
{
    struct ensemble_view roster;
    int code = ensemble_view_gather(MEMBERS_USAGE.name, options, ASK_MS, &roster);
    uint64_t leader = code == 0 ? leader_of(&roster) : 0;
    ensemble_view_finish(&roster);
    return leader;
}

static int tell_leader(uint64_t leader, bool as_json)
{
    struct json j;
    if (!as_json) {
        printf("%" PRIu64 " leads\n", ensemble_view_number(leader));
        return 0;
    }
    json_line_begin(&j);
    json_member_uint(&j, "leader", ensemble_view_number(leader));
    int error = json_line_print(&j, stdout);
    return error == 0 ? 0 : fail(MEMBERS_USAGE.name, NULL, error);
}

static int wait_transfer(const struct members_options *options, uint64_t before, uint64_t to)
{
    for (int64_t waited = 0; waited < options->common.timeout_ms; waited += LOOK_MS) {
        uint64_t leader = leader_now(&options->common);
        if (leader != 0 && leader != before && (to == 0 || leader == to)) {
            return tell_leader(leader, options->common.json);
        }
        (void)usleep(LOOK_MS * 1000);
    }
    fprintf(stderr,
            "conclave members: the lead was not handed over in time; see \"conclave status\"\n");
    return CLI_EXIT_TIMEOUT;
}

/* The present leader, and the HTTP port to ask. 0, or the exit code of a printed error. */
static int transfer_prepare(const struct members_options *options, uint64_t *ret_leader,
                            char ret_admin[ROSTER_ADDRESS_MAX])
{
    struct ensemble_view roster;
    int code = ensemble_view_gather(MEMBERS_USAGE.name, &options->common, ASK_MS, &roster);
    *ret_leader = code == 0 ? leader_of(&roster) : 0;
    if (code == 0 && options->admin != NULL) {
        snprintf(ret_admin, ROSTER_ADDRESS_MAX, "%s", options->admin);
    } else if (code == 0 && *ret_leader == 0) {
        fprintf(stderr, "conclave members: there is no leader; see \"conclave status\"\n");
        code = CLI_EXIT_UNAVAILABLE;
    } else if (code == 0) {
        const struct admin_wanted wanted = {.leader = *ret_leader};
        code =
            members_admin_find(MEMBERS_USAGE.name, &options->common, &roster, &wanted, ret_admin);
    }
    ensemble_view_finish(&roster);
    return code;
}

static int members_transfer(const struct members_options *options, const struct operands *operands)
{
    char header[ADMIN_AUTH_MAX];
    char target[64];
    char admin[ROSTER_ADDRESS_MAX];
    unsigned status = 0;
    struct buf body;
    uint64_t before = 0;
    int64_t to = -1; /* anybody */
    if (operands->count > 1 && !integer_parse(operands->words[1], 0, INT32_MAX, &to)) {
        return usage_error(&MEMBERS_USAGE, "\"%s\" is no member's id", operands->words[1]);
    }
    int code = transfer_prepare(options, &before, admin);
    if (code != 0) {
        return code;
    }
    snprintf(target, sizeof target, to >= 0 ? "/members/transfer?to=%" PRId64 : "/members/transfer",
             to);
    code = admin_request(MEMBERS_USAGE.name, &options->common, admin, "POST", target,
                         admin_authorization(&options->common, header), &status, &body);
    if (code == 0 && status != 200) {
        code = admin_request_refused(MEMBERS_USAGE.name, admin, status, &body);
    }
    buf_finish(&body);
    return code == 0 ? wait_transfer(options, before, to < 0 ? 0 : ensemble_view_id(to)) : code;
}

/* All */

static int members_check(struct members_options *options)
{
    char *end = NULL;
    if (options->version_text == NULL) {
        return OPTIONS_GO_ON;
    }
    options->version = (int64_t)strtoull(options->version_text, &end, 16);
    return *options->version_text != '\0' && *end == '\0'
               ? OPTIONS_GO_ON
               : usage_error(&MEMBERS_USAGE, "--version wants a hexadecimal number");
}

int command_members(int argc, char **argv)
{
    struct members_options options = {
        .common = COMMON_OPTIONS_INIT, .version = -1, .within_ms = 10000};
    struct operands operands;
    options.common.timeout_ms = CHANGE_MS;
    int code = options_parse(&MEMBERS_USAGE, argc, argv, &options, &operands);
    code = code == OPTIONS_GO_ON ? members_check(&options) : code;
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    switch ((enum members_verb)operands.verb) {
    case MEMBERS_LIST:
        code = members_list(&options);
        break;
    case MEMBERS_ADD:
        code = members_add(&options, &operands);
        break;
    case MEMBERS_REMOVE:
        code = members_remove(&options, &operands);
        break;
    case MEMBERS_PROMOTE:
        code = members_promote(&options, &operands);
        break;
    case MEMBERS_TRANSFER:
        code = members_transfer(&options, &operands);
        break;
    case MEMBERS_DRAIN:
        code = members_drain(&options, &operands);
        break;
    }
    return output_end(MEMBERS_USAGE.name, code);
}
