/*
 * conclave lease: leases that outlive the command that granted them, by their ids; and a command that runs with one.
 *
 * Except for `keep` and `run` each call takes the lease for a moment and leaves it to its time.
 */
#include "base/buf.h"
#include "cli/common/connection.h"
#include "cli/common/credentials.h"
#include "cli/common/data_input.h"
#include "cli/common/node_output.h"
#include "cli/common/record.h"
#include "cli/common/values.h"
#include "cli/run/item_command.h"

#include <conclave/lease.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { END_MS = 2000 }; /* to end a lease when its command has ended */

struct lease_cli {
    struct common_options common;
    const char *list; /* the folder */
    const char *name;
    int64_t grace_ms;
    int behaviour; /* index of BEHAVIOURS */
    bool once;
    bool allow_setuid;
};

static const enum conclave_lease_behaviour BEHAVIOURS[] = {CONCLAVE_LEASE_RELEASE,
                                                           CONCLAVE_LEASE_DELETE};

#define FIELD(name) offsetof(struct lease_cli, name)

static const struct option_row ROWS[] = {
    {"behaviour", 0, OPTION_CHOICE, FIELD(behaviour), "release|delete",
     "acquire, release: what happens to the value when it is released or the lease ends. release, the default: "
     "it stays, and others may acquire it. delete: it goes."},
    {"once", 0, OPTION_FLAG, FIELD(once), NULL, "keep: renew the lease once, and end."},
    {"name", 0, OPTION_STRING, FIELD(name), "TEXT",
     "grant, run: name in the list; default HOST:PID."},
    {"list", 0, OPTION_STRING, FIELD(list), "PATH",
     "grant, run, list: folder of the list; default /leases. grant and run: \"\" for none."},
    {"grace", 0, OPTION_DURATION, FIELD(grace_ms), "DURATION",
     "run: time from TERM to KILL for CMD when the lease was lost; default 3s."},
    {"timeout", 0, OPTION_DURATION, FIELD(common.timeout_ms), "DURATION",
     "Time for the answers of the servers; default 5s."},
    OPTION_GROUP(ACL_ROWS, 0),
    OPTION_GROUP(ALLOW_SETUID_ROWS, FIELD(allow_setuid)),
    {.name = NULL},
};

enum lease_verb {
    LEASE_GRANT,
    LEASE_KEEP,
    LEASE_INFO,
    LEASE_LIST,
    LEASE_ATTACH,
    LEASE_ACQUIRE,
    LEASE_RELEASE,
    LEASE_REVOKE,
    LEASE_RUN
};
static const struct command_verb VERBS[] = {
    [LEASE_GRANT] = {"grant", 1, 1, false},     [LEASE_KEEP] = {"keep", 1, 1, false},
    [LEASE_INFO] = {"info", 1, 1, false},       [LEASE_LIST] = {"list", 0, 0, false},
    [LEASE_ATTACH] = {"attach", 2, 99, false},  [LEASE_ACQUIRE] = {"acquire", 2, 3, false},
    [LEASE_RELEASE] = {"release", 2, 2, false}, [LEASE_REVOKE] = {"revoke", 1, 1, false},
    [LEASE_RUN] = {"run", 1, 1, true},          {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "lease",
    .forms = (const char *const[]){"grant TTL [options]", "keep ID [--once]", "info|revoke ID",
                                   "list", "attach ID PATH...", "acquire ID PATH [DATA] [options]",
                                   "release ID PATH [options]",
                                   "run TTL [options] -- CMD [ARGS...]", NULL},
    .about =
        "A lease has a time to live. When nobody has renewed it for this time, or it is revoked, the servers "
        "delete all its nodes at once.\n"
        "\n"
        "  grant    prints the id of a new lease\n"
        "  keep     renews it until a signal comes; then it lives for its time\n"
        "  info     renews it once; prints session, time to live, time left, nodes\n"
        "  list     lists the leases: session, time to live, since when, name\n"
        "  attach   makes existing nodes its nodes\n"
        "  acquire  makes it the holder of a value and writes DATA (or the input)\n"
        "  release  gives a value up\n"
        "  revoke   ends it: its nodes are deleted\n"
        "  run      runs CMD with a new lease, keeps that alive, revokes it at the end\n"
        "\n"
        "An id is a secret: whoever knows it has all rights of the lease. \"-\" as ID stands for "
        "$CONCLAVE_LEASE_ID, which other users do not see.",
    .rows = ROWS,
    .verbs = VERBS,
    .more =
        "CMD finds the id in CONCLAVE_LEASE_ID. INT, TERM, HUP and QUIT are passed on to it. When the lease is "
        "lost, CMD and all its descendants are ended.\n"
        "\n"
        "Servers limit the time to live, as they do for sessions; info prints the granted one.\n"
        "\n"
        "With --json: grant and keep {\"id\",\"session\",\"ttl_ms\"} (keep without id), info "
        "{\"session\",\"ttl_ms\",\"left_ms\",\"nodes\"}, list {\"leases\":[{\"session\",\"ttl_ms\",\"since\","
        "\"name\"}]}, acquire {\"path\",\"token\"}.\n"
        "\n"
        "Exit codes: 69 no server, 75 another lease holds the value, 76 the lease is over, 77 not permitted, 78 the "
        "value has the other behaviour; of run those of \"conclave elect\".\n",
    .client = true,
    .runs_command = true,
};

struct lease_call {
    const struct lease_cli *cli;
    enum lease_verb verb;
    const struct operands *operands;
    int64_t ttl_ms;                 /* grant, run */
    char id[CONCLAVE_LEASE_ID_MAX]; /* the others */
    struct conclave_lease *lease;
    struct waiter waiter; /* keep, run */
    struct item_command handler;
    atomic_bool lost;
    struct conclave_lease_info info;
};

/* As fail, with what the errors mean here. */
static int lease_fail(const char *subject, int error)
{
    static const struct {
        int error;
        int exit_code;
        const char *text;
    } MEANINGS[] = {
        {CONCLAVE_SESSION_EXPIRED, CLI_EXIT_LOST, "the lease is over"},
        {CONCLAVE_EBUSY, CLI_EXIT_TIMEOUT, "another lease holds it"},
        {CONCLAVE_ENOTOWNER, CLI_EXIT_FAILED, "it does not belong to the lease"},
        {CONCLAVE_ECONFLICT, CLI_EXIT_CONFIG, "it has the other --behaviour"},
    };
    for (size_t i = 0; i < sizeof MEANINGS / sizeof MEANINGS[0]; i++) {
        if (MEANINGS[i].error == error) {
            fprintf(stderr, "conclave %s: %s%s%s (%s)\n", USAGE.name,
                    subject != NULL ? subject : "", subject != NULL ? ": " : "", MEANINGS[i].text,
                    conclave_errname(error));
            return MEANINGS[i].exit_code;
        }
    }
    return fail(USAGE.name, subject, error);
}

/* --- the lease -------------------------------------------------------------------------------- */

static void lease_on_ended(struct conclave_lease *lease, int why, void *ctx)
{
    struct lease_call *c = ctx;
    atomic_store(&c->lost, true);
    waiter_end(&c->waiter, why);
}

static int lease_begin(const struct conclave_client_options *options, void *ctx)
{
    struct lease_call *c = ctx;
    struct conclave_lease_callbacks callbacks = CONCLAVE_LEASE_CALLBACKS_INIT;
    bool waits = c->verb == LEASE_KEEP || c->verb == LEASE_RUN;
    int64_t timeout_ms = c->cli->common.timeout_ms;
    callbacks.on_ended = waits ? lease_on_ended : NULL;
    if (c->verb == LEASE_REVOKE) {
        return conclave_lease_revoke(options, c->id, timeout_ms);
    }
    return c->id[0] == '\0'
               ? conclave_lease_grant(options, c->ttl_ms, timeout_ms, &callbacks, c, &c->lease)
               : conclave_lease_take(options, c->id, timeout_ms, &callbacks, c, &c->lease);
}

/* No server gave a session: a connection of its own says why not. */
static int lease_unreachable(const struct lease_call *c)
{
    struct conclave_client *client;
    int code = connection_open_own(USAGE.name, &c->cli->common, NULL, NULL, &client);
    if (code == 0) {
        connection_close(client);
        code = fail(USAGE.name, NULL, CONCLAVE_ETIMEDOUT);
    }
    return code;
}

/* Grants, takes or revokes it. 0, or the exit code after the error was printed. */
static int lease_connect(struct lease_call *c)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    int error = 0;
    options.request_timeout_ms = c->cli->common.timeout_ms;
    int code = connection_call(USAGE.name, &c->cli->common, &options, lease_begin, c, &error);
    if (code == 0 && error == CONCLAVE_EINVAL && c->id[0] != '\0') {
        return usage_error(&USAGE, "ID wants what \"conclave lease grant\" printed");
    }
    if (code == 0 && error != 0) {
        return error == CONCLAVE_ETIMEDOUT ? lease_unreachable(c) : lease_fail(NULL, error);
    }
    if (code == 0 && c->lease != NULL) {
        code = credentials_add(USAGE.name, &c->cli->common, conclave_lease_client(c->lease));
    }
    return code;
}

static void lease_end(struct lease_call *c, enum conclave_lease_end how)
{
    if (c->lease != NULL) {
        int error = conclave_lease_close(c->lease, how, END_MS);
        assert(error == 0); /* not in a callback */
    }
}

static int64_t lease_session_id(const struct lease_call *c)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    conclave_client_session(conclave_lease_client(c->lease), &session);
    return session.id;
}

static void session_add(struct record *r, int64_t session_id)
{
    char text[24];
    (void)snprintf(text, sizeof text, "0x%" PRIx64, (uint64_t)session_id);
    record_string(r, "session", text);
}

/* How long it lives, and that it does. */
static int lease_ask(struct lease_call *c)
{
    c->info = (struct conclave_lease_info)CONCLAVE_LEASE_INFO_INIT;
    return conclave_lease_time_to_live(c->lease, c->cli->common.timeout_ms, &c->info);
}

/* Enters it into the list. */
static int lease_enlist(const struct lease_call *c)
{
    char own[HOST_PID_MAX];
    const struct lease_cli *cli = c->cli;
    return cli->list[0] == '\0'
               ? 0
               : conclave_lease_enlist(c->lease, cli->list,
                                       cli->name != NULL ? cli->name : host_pid_text(own),
                                       cli->common.timeout_ms);
}

/* --- the verbs -------------------------------------------------------------------------------- */

static int lease_grant(struct lease_call *c)
{
    struct record r;
    char id[CONCLAVE_LEASE_ID_MAX];
    int error = lease_enlist(c);
    error = error == 0 ? lease_ask(c) : error;
    if (error != 0) {
        return lease_fail(c->cli->list, error);
    }
    conclave_lease_id(c->lease, id);
    record_begin(&r, c->cli->common.json);
    record_string(&r, "id", id);
    if (r.json) {
        session_add(&r, lease_session_id(c));
        record_int(&r, "ttl_ms", c->info.granted_ms);
    }
    error = record_print(&r);
    return error == 0 ? 0 : lease_fail(NULL, error);
}

static int lease_keep(struct lease_call *c)
{
    struct record r;
    int number = 0;
    int error = lease_ask(c);
    if (error == 0) {
        record_begin(&r, c->cli->common.json);
        session_add(&r, lease_session_id(c));
        record_int(&r, "ttl_ms", c->info.granted_ms);
        error = record_print(&r);
    }
    if (error == 0 && !c->cli->once) {
        number = waiter_wait_end(&c->waiter);
        error = waiter_error(&c->waiter);
    }
    return error != 0 ? lease_fail(NULL, error) : number != 0 ? 128 + number : 0;
}

static int lease_info(struct lease_call *c)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_EPHEMERALS, "/", 0);
    struct conclave_reply *reply = NULL;
    struct record r;
    int error = conclave_call(conclave_lease_client(c->lease), &op, &reply);
    error = error == 0 ? lease_ask(c) : error;
    const char **names = error == 0 ? names_sorted(reply->children, reply->children_count) : NULL;
    error = error == 0 && names == NULL ? CONCLAVE_ENOMEM : error;
    if (error == 0) {
        record_begin(&r, c->cli->common.json);
        output_titles(&c->cli->common, 1, "SESSION\tTTL_MS\tLEFT_MS");
        session_add(&r, lease_session_id(c));
        record_int(&r, "ttl_ms", c->info.granted_ms);
        record_int(&r, "left_ms", c->info.left_ms);
        if (!r.json) {
            record_row_end(&r);
        }
        record_names(&r, "nodes", names, reply->children_count);
        error = record_print(&r);
    }
    free(names);
    conclave_reply_free(reply);
    return error == 0 ? 0 : lease_fail(NULL, error);
}

static int lease_list(const struct lease_cli *cli)
{
    struct conclave_client *client;
    struct conclave_lease_entry **list = NULL;
    size_t count = 0;
    char time[TIME_TEXT_MAX];
    struct record r;
    int code = connection_open_own(USAGE.name, &cli->common, NULL, NULL, &client);
    if (code != 0) {
        return code;
    }
    int error = conclave_lease_list(client, cli->list, cli->common.timeout_ms, &list, &count);
    if (error == 0) {
        record_begin(&r, cli->common.json);
        record_list_begin(&r, "leases", count, "SESSION\tTTL_MS\tSINCE\tNAME");
        for (size_t i = 0; i < count; i++) {
            record_row_begin(&r);
            session_add(&r, list[i]->session_id);
            record_int(&r, "ttl_ms", list[i]->ttl_ms);
            record_string(&r, "since", time_text(list[i]->since_ms, time));
            record_string(&r, "name", list[i]->name);
            record_row_end(&r);
        }
        record_list_end(&r);
        error = record_print(&r);
    }
    conclave_lease_entries_free(list, count);
    connection_close(client);
    return error == 0 ? 0 : lease_fail(cli->list, error);
}

static int lease_attach(struct lease_call *c)
{
    for (int i = 2; i < c->operands->count; i++) {
        const char *path = c->operands->words[i];
        int error = conclave_lease_attach(c->lease, path, c->cli->common.timeout_ms);
        if (error != 0) {
            return lease_fail(path, error);
        }
    }
    return 0;
}

static int lease_acquire(struct lease_call *c, const struct buf *input)
{
    const char *path = c->operands->words[2];
    const char *data = c->operands->count > 3 ? c->operands->words[3] : NULL;
    struct conclave_token token = {0};
    struct record r;
    int error =
        conclave_lease_acquire(c->lease, path, data != NULL ? data : (const char *)input->data,
                               data != NULL ? strlen(data) : input->len,
                               BEHAVIOURS[c->cli->behaviour], c->cli->common.timeout_ms, &token);
    if (error == 0) {
        record_begin(&r, c->cli->common.json);
        record_add_path(&r, path);
        record_int(&r, "token", token.czxid);
        error = record_print(&r);
    }
    return error == 0 ? 0 : lease_fail(path, error);
}

static int lease_release(struct lease_call *c)
{
    const char *path = c->operands->words[2];
    int error = conclave_lease_release(c->lease, path, BEHAVIOURS[c->cli->behaviour],
                                       c->cli->common.timeout_ms);
    return error == 0 ? 0 : lease_fail(path, error);
}

/* The id comes with the term: it is not known yet when the guardian starts. */
static void lease_variables(const struct child_spec *spec, struct buf *out)
{
    buf_printf(out, "CONCLAVE_LEASE_ID=%s%c", spec->term->node, 0);
}

static int lease_run(struct lease_call *c)
{
    struct item_command_end end;
    struct item_command_job job = {.term = {.grace_ms = c->cli->grace_ms, .unleased = true},
                                   .lost = &c->lost};
    int error = lease_enlist(c);
    if (error != 0) {
        return lease_fail(c->cli->list, error);
    }
    conclave_lease_id(c->lease, job.term.node);
    error = item_command_run(&c->handler, &job, &c->waiter, &end);
    if (error == CONCLAVE_ECLOSED) {
        return end.denied ? CLI_EXIT_DENIED : CLI_EXIT_GUARDIAN;
    }
    return error != 0 ? lease_fail(c->operands->command[0], error)
           : end.lost ? lease_fail(NULL, CONCLAVE_SESSION_EXPIRED)
                      : end.exit_code;
}

/* --- the command ------------------------------------------------------------------------------ */

/* With a lease. The exit code. */
static int lease_work(struct lease_call *c)
{
    struct buf input;
    buf_init(&input, DATA_INPUT_MAX);
    int code =
        c->verb == LEASE_ACQUIRE && c->operands->count < 4 ? data_read(USAGE.name, "-", &input) : 0;
    code = code == 0 ? lease_connect(c) : code;
    if (code == 0) {
        switch (c->verb) {
        case LEASE_GRANT:
            code = lease_grant(c);
            break;
        case LEASE_KEEP:
            code = lease_keep(c);
            break;
        case LEASE_INFO:
            code = lease_info(c);
            break;
        case LEASE_ATTACH:
            code = lease_attach(c);
            break;
        case LEASE_ACQUIRE:
            code = lease_acquire(c, &input);
            break;
        case LEASE_RELEASE:
            code = lease_release(c);
            break;
        case LEASE_RUN:
            code = lease_run(c);
            break;
        default: /* revoked */
            break;
        }
    }
    bool ends = c->verb == LEASE_RUN || (c->verb == LEASE_GRANT && code != 0);
    lease_end(c, ends ? CONCLAVE_LEASE_END_NOW : CONCLAVE_LEASE_LEAVE);
    buf_finish(&input);
    return code;
}

/* A waiter, and for run the guardian, come before any thread. */
static int lease_wait(struct lease_call *c)
{
    sigset_t mask;
    struct child_program program = {.command = USAGE.name,
                                    .argv = c->operands->command,
                                    .variables = lease_variables,
                                    .mask = &mask,
                                    .allow_setuid = c->cli->allow_setuid};
    (void)sigprocmask(SIG_SETMASK, NULL, &mask);
    int code = c->verb == LEASE_RUN ? item_command_init(&c->handler, &program, false) : 0;
    if (code == 0) {
        int error = waiter_init(&c->waiter, WAITER_END_SIGNALS, false);
        code = error == 0 ? lease_work(c) : fail(USAGE.name, NULL, error);
        if (error == 0) {
            waiter_finish(&c->waiter);
        }
    }
    item_command_finish(&c->handler);
    return code;
}

/* The id, which no list of processes shows any longer. */
static int id_take(struct lease_call *c)
{
    char *word = c->operands->words[1];
    const char *from = strcmp(word, "-") == 0 ? getenv("CONCLAVE_LEASE_ID") : word;
    if (from == NULL) {
        return usage_error(&USAGE, "\"-\" wants the id in $CONCLAVE_LEASE_ID");
    }
    if (from[0] == '\0' || strlen(from) >= sizeof c->id) {
        return usage_error(&USAGE, "ID wants what \"conclave lease grant\" printed");
    }
    (void)strcpy(c->id, from);
    memset(word, 'x', strlen(word));
    return OPTIONS_GO_ON;
}

static int lease_check(struct lease_call *c)
{
    const struct lease_cli *cli = c->cli;
    bool grants = c->verb == LEASE_GRANT || c->verb == LEASE_RUN;
    bool holds = c->verb == LEASE_ACQUIRE || c->verb == LEASE_RELEASE;
    const struct usage_rule rules[] = {
        {cli->behaviour != 0 && !holds, "--behaviour is for acquire and release"},
        {cli->once && c->verb != LEASE_KEEP, "--once is for keep"},
        {cli->name != NULL && !grants, "--name is for grant and run"},
        {cli->name != NULL && (strlen(cli->name) > 256 || strchr(cli->name, '\n') != NULL),
         "--name wants at most 256 bytes on one line"},
        {c->verb == LEASE_RUN && c->operands->command == NULL, "run wants a command after \"--\""},
        {c->verb == LEASE_LIST && cli->list[0] == '\0', "list wants a folder"},
        {grants && (!duration_parse(c->operands->words[1], &c->ttl_ms) || c->ttl_ms <= 0),
         "TTL wants a time such as 30s"},
        {false, NULL},
    };
    int code = usage_check(&USAGE, rules);
    if (code == OPTIONS_GO_ON && cli->list[0] != '\0') {
        code = path_check(&USAGE, cli->list);
    }
    for (int i = 2; i < c->operands->count && code == OPTIONS_GO_ON; i++) {
        code = i == 2 || c->verb == LEASE_ATTACH ? path_check(&USAGE, c->operands->words[i]) : code;
    }
    return code == OPTIONS_GO_ON && !grants && c->verb != LEASE_LIST ? id_take(c) : code;
}

int command_lease(int argc, char **argv)
{
    struct lease_cli cli = {.common = COMMON_OPTIONS_INIT, .list = "/leases", .grace_ms = 3000};
    struct lease_call call = {.cli = &cli, .handler = ITEM_COMMAND_NONE};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &cli, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    call.operands = &operands;
    call.verb = (enum lease_verb)operands.verb;
    code = lease_check(&call);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    return call.verb == LEASE_LIST                             ? lease_list(&cli)
           : call.verb == LEASE_KEEP || call.verb == LEASE_RUN ? lease_wait(&call)
                                                               : lease_work(&call);
}
