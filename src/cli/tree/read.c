/* conclave get, stat, count, sync and whoami: one request each, whose answer is printed. */
#include "cli/backup/past.h"
#include "cli/common/client_command.h"
#include "cli/common/connection.h"
#include "cli/common/node_output.h"

#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

static int read_run(const struct command_usage *usage, enum conclave_op_type request,
                    int (*print)(struct record *r, const struct conclave_reply *reply), int argc,
                    char **argv)
{
    struct common_options options = COMMON_OPTIONS_INIT;
    struct client_command command = {.usage = usage, .request = request, .print = print};
    return client_command_run(&command, argc, argv, &options);
}

/* --- get -------------------------------------------------------------------------------------- */

struct get_options {
    struct common_options common;
    struct past_options past;
};

static const struct option_row GET_ROWS[] = {
    OPTION_GROUP(READ_ROWS, 0),
    OPTION_GROUP(PAST_ROWS, offsetof(struct get_options, past)),
    {"at", 0, OPTION_STRING, offsetof(struct get_options, past.at), "ZXID|TIME",
     "With --dir or --from: the data at this zxid, or at this time in UTC (\"2026-01-31 17:00:00\"); "
     "without it, the newest in the files."},
    {.name = NULL},
};

static const struct command_usage GET = {
    .name = "get",
    .forms = (const char *const[]){"PATH [options]", NULL},
    .about =
        "Writes the data of a node to the output as it is, so binary data can go to a file or a "
        "pipe. Only on a terminal a missing newline is added.",
    .rows = GET_ROWS,
    .more =
        "With --json: {\"path\":PATH,\"data\":TEXT,\"stat\":{...}}. Data that is not UTF-8 comes as "
        "\"data_base64\" instead of \"data\"; a node without data has \"data\":null.\n",
    .client = true,
    .operands = {1, 1},
};

static int get_print(struct record *r, const struct conclave_reply *reply)
{
    size_t len = reply->data_len;
    if (r->json) {
        json_data(&r->j, reply->data, len);
        stat_json(&r->j, &reply->stat);
        return 0;
    }
    bool written = len == 0 || fwrite(reply->data, 1, len, stdout) == len;
    if (written && len > 0 && ((const char *)reply->data)[len - 1] != '\n' && isatty(1) == 1) {
        written = putchar('\n') != EOF; /* so that the prompt begins a line */
    }
    return written ? 0 : CONCLAVE_EIO;
}

/* With --dir or --from no server is asked: answers from the backups, and that is all. */
static int get_check(void *target, const struct operands *operands)
{
    const struct get_options *o = target;
    if (!past_given(&o->past, 0)) {
        return o->past.at == NULL ? OPTIONS_GO_ON
                                  : usage_error(&GET, "--at goes with --dir or --from");
    }
    return output_end(GET.name, past_get(&GET, &o->past, operands->words[0], o->common.json));
}

int command_get(int argc, char **argv)
{
    struct get_options options = {.common = COMMON_OPTIONS_INIT};
    struct client_command command = {
        .usage = &GET, .check = get_check, .request = CONCLAVE_OP_GET, .print = get_print};
    return client_command_run(&command, argc, argv, &options);
}

/* --- stat ------------------------------------------------------------------------------------- */

static const struct command_usage STAT = {
    .name = "stat",
    .forms = (const char *const[]){"PATH [options]", NULL},
    .about = "Shows a node's stat, one \"name value\" per line:\n"
             "\n"
             "  czxid, mzxid, pzxid  change that created it, that last changed its data, its\n"
             "                       children; the czxid of a leader's node is its token\n"
             "  ctime, mtime         when, by the server's clock, in UTC\n"
             "  version              number of changes of its data; cversion: of its\n"
             "                       children; aversion: of its ACL\n"
             "  ephemeral_owner      session that owns it; 0x0: none\n"
             "  data_length          bytes of data\n"
             "  num_children         number of children\n",
    .rows = READ_ROWS,
    .more = "With --json: {\"path\":PATH,\"stat\":{...}} with the same names.\n",
    .client = true,
    .operands = {1, 1},
};

static int stat_command_print(struct record *r, const struct conclave_reply *reply)
{
    if (r->json) {
        stat_json(&r->j, &reply->stat);
    } else {
        stat_print(&reply->stat);
    }
    return 0;
}

int command_stat(int argc, char **argv)
{
    return read_run(&STAT, CONCLAVE_OP_EXISTS, stat_command_print, argc, argv);
}

/* --- count ------------------------------------------------------------------------------------ */

static const struct command_usage COUNT = {
    .name = "count",
    .forms = (const char *const[]){"PATH [options]", NULL},
    .about = "Prints the number of nodes below a node, at any depth. The server counts, and sends "
             "only the number. ZooKeeper's servers know this since version 3.6.",
    .rows = READ_ROWS,
    .more = "With --json: {\"path\":PATH,\"count\":NUMBER}.\n",
    .client = true,
    .operands = {1, 1},
};

static int count_print(struct record *r, const struct conclave_reply *reply)
{
    record_int(r, "count", reply->total_number);
    return 0;
}

int command_count(int argc, char **argv)
{
    return read_run(&COUNT, CONCLAVE_OP_GET_ALL_CHILDREN_NUMBER, count_print, argc, argv);
}

/* --- sync ------------------------------------------------------------------------------------- */

static const struct command_usage SYNC = {
    .name = "sync",
    .forms = (const char *const[]){"PATH [options]", NULL},
    .about =
        "Brings the server of this connection up to date with the leader: a later read on the "
        "same connection shows every change that was acknowledged before. PATH need not exist. "
        "Useful in \"conclave shell\".",
    .more = "With --json: {\"path\":PATH,\"zxid\":ZXID}; without it nothing is printed.\n",
    .client = true,
    .operands = {1, 1},
};

static int sync_print(struct record *r, const struct conclave_reply *reply)
{
    if (r->json) {
        json_member_hex(&r->j, "zxid", reply->zxid);
    }
    return 0;
}

int command_sync(int argc, char **argv)
{
    return read_run(&SYNC, CONCLAVE_OP_SYNC, sync_print, argc, argv);
}

/* --- whoami ----------------------------------------------------------------------------------- */

static const struct command_usage WHOAMI = {
    .name = "whoami",
    .forms = (const char *const[]){"[options]", NULL},
    .about =
        "Shows the identities that this client has for the server, one SCHEME:ID per line: its "
        "address, and those of its credentials (--auth) and its certificate. ACLs are compared "
        "with them. ZooKeeper's servers know this since version 3.7.",
    .more = "With --json: {\"identities\":[{\"scheme\":S,\"id\":I}]}.\n",
    .client = true,
};

static int whoami_print(struct record *r, const struct conclave_reply *reply)
{
    record_list_begin(r, "identities", 0, "");
    for (size_t i = 0; i < reply->identities_count; i++) {
        const char *scheme = reply->identities[i].scheme;
        const char *id = reply->identities[i].id;
        if (!r->json) {
            printf("%s:%s\n", scheme, id);
            continue;
        }
        record_row_begin(r);
        record_string(r, "scheme", scheme);
        record_string(r, "id", id);
        record_row_end(r);
    }
    record_list_end(r);
    return 0;
}

int command_whoami(int argc, char **argv)
{
    return read_run(&WHOAMI, CONCLAVE_OP_WHO_AM_I, whoami_print, argc, argv);
}
