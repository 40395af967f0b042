/*
 * Connecting and failing, the same for every client command. An error is printed once, here, with its name from the
 * list and, where the user can do something, a hint.
 */
#include "cli/common/connection.h"

#include "cli/common/credentials.h"
#include "cli/common/ensemble_view.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TELL_LOSS_MS = 60000, CLOSE_TIMEOUT_MS = 1000, ASK_MS = 1000, SIGNAL_LOOK_MS = 100 };

struct hint {
    int error;
    int exit_code;
    const char *text; /* advice for the user; NULL: none */
};

/* Errors with an exit code or a hint of their own; the rest follows from exit_code_of. */
static const struct hint HINTS[] = {
    {CONCLAVE_NO_NODE, CLI_EXIT_FAILED,
     "look at its parent with \"conclave ls\", or make it with \"conclave create\", "
     "its parents with --parents"},
    {CONCLAVE_NODE_EXISTS, CLI_EXIT_FAILED, "change its data with \"conclave set\""},
    {CONCLAVE_NOT_EMPTY, CLI_EXIT_FAILED, "remove the whole branch with --recursive"},
    {CONCLAVE_BAD_VERSION, CLI_EXIT_FAILED, "see its version with \"conclave stat\""},
    {CONCLAVE_NO_CHILDREN_FOR_EPHEMERALS, CLI_EXIT_FAILED, "choose a lasting node as parent"},
    {CONCLAVE_NO_AUTH, CLI_EXIT_AUTH,
     "see your identities with \"conclave whoami\" and the ACL with \"conclave acl get\"; below a prefix "
     "of \"conclave fence list\" only the holder of its lock writes (--fenced-by)"},
    {CONCLAVE_INVALID_ACL, CLI_EXIT_FAILED,
     "check --acl and $CONCLAVE_ACL; \"auth\" needs credentials (--auth), see \"conclave whoami\""},
    {CONCLAVE_AUTH_FAILED, CLI_EXIT_AUTH, "check the credentials"},
    {CONCLAVE_SESSION_CLOSED_REQUIRE_AUTH, CLI_EXIT_AUTH, "give credentials"},
    {CONCLAVE_CONNECTION_LOSS, CLI_EXIT_UNAVAILABLE,
     "look whether it was carried out before you try again"},
    {CONCLAVE_EDISCONNECTED, CLI_EXIT_UNAVAILABLE, "try again"},
    {CONCLAVE_ERESOLVE, CLI_EXIT_UNAVAILABLE, "check --server"},
    {CONCLAVE_SESSION_EXPIRED, CLI_EXIT_UNAVAILABLE, "try again, or ask for a longer --session"},
    {CONCLAVE_OPERATION_TIMEOUT, CLI_EXIT_TIMEOUT,
     "look whether it was carried out; allow more with --timeout"},
    {CONCLAVE_REQUEST_TIMEOUT, CLI_EXIT_TIMEOUT, "try again"},
    {CONCLAVE_ETIMEDOUT, CLI_EXIT_TIMEOUT, "allow more with --timeout"},
    {CONCLAVE_ECONFLICT, CLI_EXIT_CONFIG, "see what was set with \"conclave get\""},
    {CONCLAVE_EINVAL, CLI_EXIT_USAGE, NULL},
    {CONCLAVE_BAD_ARGUMENTS, CLI_EXIT_USAGE, NULL},
    {CONCLAVE_EFENCED, CLI_EXIT_LOST, NULL},
    {CONCLAVE_ETOOBIG, CLI_EXIT_USAGE, "the server takes about 1 MB per node"},
    {CONCLAVE_EIO, CLI_EXIT_IO, NULL},
    {CONCLAVE_ETOOMANY, CLI_EXIT_UNAVAILABLE, "try again"},
};

static const struct hint *hint_find(int error)
{
    for (size_t i = 0; i < sizeof HINTS / sizeof HINTS[0]; i++) {
        if (HINTS[i].error == error) {
            return &HINTS[i];
        }
    }
    return NULL;
}

int exit_code_of(int error)
{
    const struct hint *hint = hint_find(error);
    if (hint != NULL) {
        return hint->exit_code;
    }
    return error > CONCLAVE_EINVAL ? CLI_EXIT_FAILED : CLI_EXIT_INTERNAL;
}

/* The servers of the client that the command uses; NULL: none yet. */
static struct conclave_server_list *servers_in_use;

/* The client of connection_open; NULL: none now. */
static const struct conclave_client *client_in_use;

void connection_tell_loss(const char *command, const struct conclave_client *client, bool link)
{
    struct conclave_loss loss = CONCLAVE_LOSS_INIT;
    conclave_client_why(client, &loss);
    if (loss.age_ms > loss.timeout_ms + TELL_LOSS_MS) {
        return; /* that one is long over */
    }
    if (loss.session_lost) {
        fprintf(
            stderr,
            "conclave %s: what this client saw: %s; ask the servers with \"conclave sessions why "
            "0x%" PRIx64 "\"\n",
            command, loss.text, (uint64_t)loss.session_id);
    } else if (link && loss.cause != CONCLAVE_LOSS_NONE) {
        fprintf(stderr, "conclave %s: what this client saw: %s\n", command, loss.text);
    }
}

/* What the client saw, for errors that follow from a lost link or session. */
static void fail_tell_loss(const char *command, int error)
{
    bool link = error == CONCLAVE_CONNECTION_LOSS;
    if (client_in_use != NULL &&
        (link || error == CONCLAVE_SESSION_EXPIRED || error == CONCLAVE_ELOST)) {
        connection_tell_loss(command, client_in_use, link);
    }
}

int fail(const char *command, const char *subject, int error)
{
    const struct hint *hint = hint_find(error);
    if (error == CONCLAVE_EIO && ferror(stdout)) {
        return CLI_EXIT_IO; /* output_end says why */
    }
    bool advice = hint != NULL && hint->text != NULL;
    const char *chroot =
        error == CONCLAVE_NO_NODE && servers_in_use != NULL ? servers_in_use->chroot : "";
    fprintf(stderr, "conclave %s: %s%s%s (%s)%s%s%s%s\n", command, subject != NULL ? subject : "",
            subject != NULL ? ": " : "", conclave_strerror(error), conclave_errname(error),
            chroot[0] != '\0' ? " below the chroot " : "", chroot, advice ? "; " : "",
            advice ? hint->text : "");
    fail_tell_loss(command, error);
    return exit_code_of(error);
}

/* Prints one line about all servers that run and do not serve clients, with their reasons. False: there is none. */
static bool fail_not_serving(const char *command, const struct common_options *options)
{
    struct ensemble_view roster;
    bool found = false;
    if (ensemble_view_gather(command, options, ASK_MS, &roster) == 0) {
        for (size_t i = 0; i < roster.count; i++) {
            const struct ensemble_view_server *s = &roster.servers[i];
            if (s->answered && !s->serves) {
                fprintf(stderr, "%s%s%s%s: %s", found ? "; " : "conclave ", found ? "" : command,
                        found ? "" : ": the servers do not serve clients now: ", s->address,
                        s->state);
                found = true;
            }
        }
    }
    ensemble_view_finish(&roster);
    if (found) {
        fputs("; see \"conclave status\"\n", stderr);
    }
    return found;
}

int fail_unreachable(const char *command, const struct conclave_client *client,
                     const struct common_options *options, int error)
{
    char why[1024] = "";
    conclave_client_last_error(client, why, sizeof why);
    if (exit_code_of(error) == CLI_EXIT_AUTH) {
        fprintf(stderr, "conclave %s: %s; check the credentials\n", command,
                why[0] != '\0' ? why : conclave_strerror(error));
        return CLI_EXIT_AUTH;
    }
    if (fail_not_serving(command, options)) {
        return CLI_EXIT_UNAVAILABLE;
    }
    if (why[0] == '\0') {
        fprintf(stderr,
                "conclave %s: cannot connect: %s: no answer in time; is it a client port, and does "
                "the network let connections through?\n",
                command, servers_in_use->text);
        return CLI_EXIT_UNAVAILABLE;
    }
    const char *advice = "";
    if (strstr(why, "refused") != NULL) {
        advice = "; start a server (\"conclave server\") or name one with --server HOST:PORT";
    } else if (strstr(why, "only permits reads") != NULL) {
        advice = "; commands that read do so with --read-only";
    }
    fprintf(stderr, "conclave %s: cannot connect: %s%s\n", command, why, advice);
    return CLI_EXIT_UNAVAILABLE;
}

int connection_acl(const char *command, const struct common_options *options,
                   struct acl_entries *ret)
{
    const char *texts[OPTION_LIST_MAX];
    int count = 0;
    for (; count < (int)options->acl.count; count++) {
        texts[count] = options->acl.items[count].text;
    }
    const char *env = getenv("CONCLAVE_ACL");
    if (count == 0 && env != NULL && env[0] != '\0') {
        texts[count++] = env;
    }
    const char *wrong = NULL;
    int error = acl_entries_parse(texts, count, ret, &wrong);
    if (error == CONCLAVE_EINVAL) {
        fprintf(
            stderr,
            "conclave %s: %s wants \"auth\" or SCHEME:ID:PERMS with letters of cdrwa, not \"%s\"\n",
            command, options->acl.count > 0 ? "--acl" : "$CONCLAVE_ACL", wrong);
        return CLI_EXIT_USAGE;
    }
    return error == 0 ? 0 : fail(command, NULL, error);
}

int connection_servers(const char *command, const struct common_options *options,
                       struct conclave_server_list **ret)
{
    int error = conclave_server_list_parse(options->server, ret);
    if (error == CONCLAVE_EINVAL) {
        fprintf(stderr,
                "conclave %s: %s wants host:port,host:port[/chroot]; see \"conclave %s --help\"\n",
                command, options->server != NULL ? "--server" : "$CONCLAVE_SERVER", command);
        return CLI_EXIT_USAGE;
    }
    return error == 0 ? 0 : fail(command, NULL, error);
}

/* From now on messages are about these servers. 0, or the exit code after the error was printed. */
static int servers_use(const char *command, const struct common_options *options)
{
    struct conclave_server_list *list = NULL;
    int code = connection_servers(command, options, &list);
    if (code == 0) {
        conclave_server_list_free(servers_in_use);
        servers_in_use = list;
    }
    return code;
}

int connection_call(const char *command, const struct common_options *options,
                    struct conclave_client_options *client_options, connection_fn fn, void *ctx,
                    int *ret_error)
{
    struct connection_security security;
    struct acl_entries acl;
    int code = connection_acl(command, options, &acl);
    code = code == 0 ? servers_use(command, options) : code;
    if (code != 0) {
        acl_entries_free(&acl);
        return code;
    }
    client_options->acl = acl.entries;
    client_options->acl_count = acl.count;
    connection_security_fill(&security, command, options, client_options);
    client_options->servers = options->server;
    client_options->session_timeout_ms = options->session_ms;
    int error = fn(client_options, ctx);
    client_options->tls = NULL; /* read by now, and gone with this call */
    client_options->sasl = NULL;
    client_options->acl = NULL;
    acl_entries_free(&acl);
    if (error == CONCLAVE_ETLS || error == CONCLAVE_ESASL) {
        fprintf(stderr, "conclave %s: %s: %s\n", command, error == CONCLAVE_ETLS ? "TLS" : "SASL",
                security.why);
        return CLI_EXIT_USAGE;
    }
    *ret_error = error;
    return 0;
}

static int client_open(const struct conclave_client_options *client_options, void *ctx)
{
    return conclave_client_open(client_options, ctx);
}

int connection_create(const char *command, const struct common_options *options,
                      struct conclave_client_options *client_options, struct conclave_client **ret)
{
    int error = 0;
    int code = connection_call(command, options, client_options, client_open, ret, &error);
    if (code == 0 && error != 0) {
        code = fail(command, NULL, error);
    }
    if (code != 0) {
        return code;
    }
    code = credentials_add(command, options, *ret);
    if (code != 0) {
        conclave_client_close(*ret, 0);
        *ret = NULL;
    }
    return code;
}

static const struct connection_base *shared;

void connection_share(const struct connection_base *base)
{
    shared = base;
}

bool connection_is_shared(void)
{
    return shared != NULL;
}

/* Options that a line of the shell does not give are those of the shell. True: it gives none. */
static bool options_inherit(struct common_options *o, const struct common_options *from)
{
    static const struct common_options DEFAULTS = COMMON_OPTIONS_INIT;
    bool auth = o->auth != NULL || o->auth_file != NULL;
    bool times = o->session_ms != DEFAULTS.session_ms || o->timeout_ms != DEFAULTS.timeout_ms;
    bool server = o->server != NULL;
    o->server = server ? o->server : from->server;
    o->session_ms = o->session_ms != DEFAULTS.session_ms ? o->session_ms : from->session_ms;
    o->timeout_ms = o->timeout_ms != DEFAULTS.timeout_ms ? o->timeout_ms : from->timeout_ms;
    /* The shell's own secret is gone by now; its other ones follow. */
    o->auth_file = auth ? o->auth_file : from->auth_file;
    bool acl = o->acl.count > 0;
    o->acl = acl ? o->acl : from->acl;
    return connection_security_inherit(o, from) && !server && !auth && !times && !acl &&
           !o->read_only;
}

int connection_open(const char *command, const struct common_options *options,
                    conclave_state_fn on_state, void *ctx, struct conclave_client **ret)
{
    struct common_options line = *options;
    if (shared != NULL && on_state == NULL && options_inherit(&line, shared->options)) {
        client_in_use = *ret = shared->client;
        return servers_use(command, &line);
    }
    return connection_open_own(command, options, on_state, ctx, ret);
}

/* A pending signal that ends the command, which the waiter has not read yet; 0: none. */
static int signal_pending(void)
{
    sigset_t pending;
    if (sigpending(&pending) == 0) {
        for (const int *number = WAITER_END_SIGNALS; *number != 0; number++) {
            if (sigismember(&pending, *number) == 1) {
                return *number;
            }
        }
    }
    return 0;
}

/* Waits for the session in pieces, because commands with a waiter block signals. *ret_signal: the signal that ended the
 * waiting. */
static int connection_wait(struct conclave_client *client, int64_t timeout_ms, int *ret_signal)
{
    int error = CONCLAVE_ETIMEDOUT;
    for (int64_t left_ms = timeout_ms; error == CONCLAVE_ETIMEDOUT && left_ms != 0;) {
        int64_t piece_ms = left_ms > 0 && left_ms < SIGNAL_LOOK_MS ? left_ms : SIGNAL_LOOK_MS;
        error = conclave_client_wait_connected(client, piece_ms);
        left_ms -= left_ms > 0 ? piece_ms : 0;
        *ret_signal = error == CONCLAVE_ETIMEDOUT ? signal_pending() : 0;
        if (*ret_signal != 0) {
            return CONCLAVE_ECANCELED;
        }
    }
    return error;
}

int connection_open_own(const char *command, const struct common_options *options,
                        conclave_state_fn on_state, void *ctx, struct conclave_client **ret)
{
    struct conclave_client_options client_options = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct conclave_client *client = NULL;
    struct common_options line = *options;
    if (shared != NULL) {
        (void)options_inherit(&line, shared->options);
        options = &line;
    }
    client_options.request_timeout_ms = options->timeout_ms;
    client_options.read_only = options->read_only;
    client_options.exactly_once = true; /* scripts know each outcome, even after a lost link */
    client_options.on_state = on_state;
    client_options.ctx = ctx;
    int code = connection_create(command, options, &client_options, &client);
    if (code != 0) {
        return code;
    }
    if (shared != NULL) {
        code = credentials_add_text(command, "auth", shared->auths, client);
        if (code != 0) {
            conclave_client_close(client, 0);
            return code;
        }
    }
    int error = conclave_client_start(client);
    if (error != 0) {
        conclave_client_close(client, 0);
        return fail(command, NULL, error);
    }
    int number = 0;
    error = options->no_wait ? 0 : connection_wait(client, options->timeout_ms, &number);
    if (error != 0) {
        code = number != 0 ? 128 + number : fail_unreachable(command, client, options, error);
        conclave_client_close(client, 0);
        return code;
    }
    client_in_use = *ret = client;
    return 0;
}

void connection_close(struct conclave_client *client)
{
    client_in_use = client_in_use == client ? NULL : client_in_use;
    if (shared == NULL || client != shared->client) {
        conclave_client_close(client, CLOSE_TIMEOUT_MS);
    }
}

int connection_run_recipes(const char *command, const struct common_options *options, recipes_fn fn,
                           void *ctx)
{
    struct conclave_client *client = NULL;
    struct conclave_recipes *recipes = NULL;
    int code = connection_open_own(command, options, NULL, NULL, &client);
    if (code != 0) {
        return code;
    }
    int error = conclave_recipes_open(client, &recipes);
    code = error == 0 ? fn(client, recipes, ctx) : fail(command, NULL, error);
    conclave_recipes_destroy(recipes);
    connection_close(client);
    return code;
}

int connection_run_waiting(const char *command, const struct common_options *options,
                           struct waiter *w, const int *signals, recipes_fn fn, void *ctx)
{
    int error = waiter_init(w, signals, false);
    if (error != 0) {
        return fail(command, NULL, error);
    }
    int code = connection_run_recipes(command, options, fn, ctx);
    waiter_finish(w);
    return code;
}

int wait_exit_code(struct waiter *w, const char *command, const char *subject, int error,
                   int number)
{
    error = waiter_error(w) != 0 ? waiter_error(w) : error;
    return error != 0 ? fail(command, subject, error) : number != 0 ? 128 + number : 0;
}

int path_check(const struct command_usage *usage, const char *path)
{
    if (path[0] != '/') {
        return usage_error(usage, "a path begins with \"/\", not \"%s\"", path);
    }
    for (const unsigned char *p = (const unsigned char *)path; *p != '\0'; p++) {
        if (*p < 0x20 || *p == 0x7f) {
            return usage_error(usage, "the path has a control character");
        }
    }
    for (const char *part = path + 1; path[1] != '\0'; part++) {
        size_t len = strcspn(part, "/");
        if (len == 0) {
            return usage_error(usage, "the path \"%s\" has an empty part or ends with \"/\"", path);
        }
        if ((len == 1 && part[0] == '.') || (len == 2 && memcmp(part, "..", 2) == 0)) {
            return usage_error(usage, "the path \"%s\" has a part \".\" or \"..\"", path);
        }
        part += len;
        if (*part == '\0') {
            break;
        }
    }
    return OPTIONS_GO_ON;
}

/* The reader of the output has seen enough, as in "conclave ls / | head". */
static bool reader_is_gone(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

void output_titles(const struct common_options *options, size_t rows, const char *titles)
{
    if (!options->json && rows > 0) {
        puts(titles);
    }
}

int output_end(const char *command, int exit_code)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return exit_code;
    }
    if (reader_is_gone()) {
        return CLI_EXIT_IO;
    }
    fprintf(stderr, "conclave %s: cannot write the output: %s\n", command, strerror(errno));
    return CLI_EXIT_IO;
}
