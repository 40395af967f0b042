/* conclave migrate: an ensemble of Conclave follows a running Apache ZooKeeper, and takes over. */
#include "cli/migrate/migrate.h"

#include "cli/common/command.h"
#include "cli/common/connection.h"

#include <conclave/error.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOK_MS = 100, FOLLOW_WAIT_MS = 600000 };

static const struct option_row ROWS[] = {
    {"from", 0, OPTION_STRING, offsetof(struct migrate_options, source), "HOST:QUORUMPORT,...",
     "follow, verify: the servers of the Apache ZooKeeper, each with the first port of its line server.N."},
    {"config", 0, OPTION_STRING, offsetof(struct migrate_options, config), "ZOO.CFG",
     "verify: the configuration of a Conclave server; its mirror keys name the certificates or the user, if ZooKeeper's "
     "servers use TLS or SASL among themselves."},
    {"reads", 0, OPTION_CHOICE, offsetof(struct migrate_options, reads), "any|readonly",
     "follow: who may read meanwhile: any client, or (readonly) only those that ask for a read-only server, so "
     "that clients with both lists of servers stay with ZooKeeper. Default any."},
    {"replace", 0, OPTION_FLAG, offsetof(struct migrate_options, replace), NULL,
     "follow: also if this ensemble has nodes. They are lost."},
    {"no-wait", 0, OPTION_FLAG, offsetof(struct migrate_options, no_wait), NULL,
     "follow: do not wait until everything is here."},
    {"yes", 0, OPTION_FLAG, offsetof(struct migrate_options, yes), NULL,
     "cut: do it. Without it, the command only says what it would do."},
    {"stop-cmd", 0, OPTION_STRING, offsetof(struct migrate_options, stop), "COMMAND",
     "cut: stops all ZooKeeper servers; run by sh. Without it, the command waits until you have stopped them."},
    {"folder", 0, OPTION_ADD, offsetof(struct migrate_options, folders), "DIR",
     "cut: the dataDir of a stopped ZooKeeper server (its dataLogDir behind a comma, if that is another one). Give a "
     "majority of the servers with a vote."},
    {"fence-cmd", 0, OPTION_STRING, offsetof(struct migrate_options, fence), "COMMAND",
     "cut, instead of --folder: keeps clients away from ZooKeeper (a firewall), before a last read through its quorum; "
     "run by sh."},
    {"admin", 0, OPTION_STRING, offsetof(struct migrate_options, admin), "HOST:PORT,...",
     "HTTP ports of the Conclave servers; default: those that the servers of --server name."},
    {"wait", 0, OPTION_DURATION, offsetof(struct migrate_options, wait_ms), "DURATION",
     "follow, verify, cut: wait this long at most; default 10m."},
    {.name = NULL},
};

enum migrate_verb { MIGRATE_FOLLOW, MIGRATE_STATUS, MIGRATE_VERIFY, MIGRATE_CUT };
static const struct command_verb VERBS[] = {
    {"follow", 0, 0, false}, {"status", 0, 0, false}, {"verify", 0, 0, false},
    {"cut", 0, 0, false},    {.name = NULL},
};

const struct command_usage MIGRATE_USAGE = {
    .name = "migrate",
    .forms =
        (const char *const[]){"follow --from HOST:QUORUMPORT,... [options]", "status [options]",
                              "verify --from HOST:QUORUMPORT,... [options]",
                              "cut [--yes] --folder DIR... [options]",
                              "cut [--yes] --fence-cmd COMMAND [options]", NULL},
    .about =
        "Takes over from a running Apache ZooKeeper, with its sessions, zxids and counters. docs/migration.md has the "
        "steps.\n"
        "\n"
        "  follow    this ensemble becomes a mirror: its leader joins ZooKeeper as an\n"
        "            observer, and each transaction goes through its own log. It serves\n"
        "            reads and refuses writes. Nothing of ZooKeeper is changed\n"
        "  status    how far the mirror is: lag, nodes, sessions, digests of both sides\n"
        "  verify    compares both trees node for node at one zxid, under writes\n"
        "  cut       ZooKeeper stops, and this ensemble goes on in its place: only\n"
        "            after it is proved that no acknowledged write is missing",
    .rows = ROWS,
    .more =
        "Exit codes: 0 done, 1 the trees differ, or the proof failed and the mirror goes on following, 69 no server "
        "answers, 74 a folder cannot be read, 75 not in time, 77 not permitted.\n",
    .client = true,
    .verbs = VERBS,
};

static const char *const READS[] = {"any", "readonly"};

static bool is_following(const struct mirror_status *s)
{
    return s->mirror && s->synced && strcmp(s->stage, "following") == 0;
}

static void show_progress(const struct mirror_status *s)
{
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr,
                "\r\033[K%s: %" PRId64 " nodes, zxid 0x%" PRIx64 ", %" PRId64 " transactions%s%s",
                s->stage, s->nodes, (uint64_t)s->zxid, s->transactions,
                s->trouble[0] != '\0' ? "; " : "", s->trouble);
        fflush(stderr);
    }
}

static void end_progress(void)
{
    if (isatty(STDERR_FILENO)) {
        fprintf(stderr, "\r\033[K");
    }
}

/* Until the source is followed. */
static int wait_following(const struct migrate_options *o, struct mirror_status *s)
{
    for (int64_t waited = 0; waited < o->wait_ms; waited += LOOK_MS) {
        if (s->act_err != 0 && !s->mirror) {
            end_progress();
            fprintf(stderr, "conclave migrate: the mirror did not begin: %s (%s)\n",
                    s->act_err == CONCLAVE_NOT_EMPTY
                        ? "the ensemble has nodes already: use empty servers, or --replace"
                        : conclave_strerror(s->act_err),
                    conclave_errname(s->act_err));
            return CLI_EXIT_FAILED;
        }
        if (is_following(s)) {
            end_progress();
            return 0;
        }
        show_progress(s);
        (void)usleep(LOOK_MS * 1000);
        if (mirror_status_again(o, true, s) != 0 || !s->leads) {
            mirror_status_finish(s);
            int code = mirror_status_find(o, s); /* another one leads now */
            if (code != 0) {
                return code;
            }
        }
    }
    end_progress();
    fprintf(stderr, "conclave migrate: not following in time; it goes on trying: %s%s%s\n",
            s->stage, s->trouble[0] != '\0' ? ": " : "", s->trouble);
    return CLI_EXIT_TIMEOUT;
}

static int print_status(const struct migrate_options *o, const struct mirror_status *s)
{
    if (o->common.json) {
        printf("%s", s->text);
        return output_end("migrate", 0);
    }
    if (!s->mirror) {
        printf("no mirror: this ensemble takes writes\n");
        return output_end("migrate", 0);
    }
    printf("source        %s\n", s->source);
    printf("stage         %s%s%s\n", s->stage, s->server[0] != '\0' ? ", " : "", s->server);
    printf("zxid          0x%" PRIx64 ", the source 0x%" PRIx64 "\n", (uint64_t)s->zxid,
           (uint64_t)s->source_zxid);
    if (s->behind < 0) {
        printf("lag           a new epoch, %" PRId64 " ms\n", s->behind_ms);
    } else {
        printf("lag           %" PRId64 " transactions, %" PRId64 " ms\n", s->behind, s->behind_ms);
    }
    printf("received      %" PRId64 " transactions, %" PRId64 " whole states; %" PRId64 " breaks\n",
           s->transactions, s->states, s->breaks);
    printf("nodes         %" PRId64 "\nsessions      %" PRId64 "\n", s->nodes, s->sessions);
    if (s->has_digest) {
        printf("digest        0x%" PRIx64 ", the source 0x%" PRIx64 ": %s\n", (uint64_t)s->digest,
               (uint64_t)s->source_digest, s->digest == s->source_digest ? "equal" : "DIFFERENT");
    } else {
        printf(
            "digest        not compared: the source noted none at this zxid, or the tree is large\n");
    }
    if (s->trouble[0] != '\0') {
        printf("last break    %s\n", s->trouble);
    }
    return output_end("migrate", 0);
}

int migrate_status(const struct migrate_options *o)
{
    struct mirror_status s;
    int code = mirror_status_find(o, &s);
    code = code == 0 ? print_status(o, &s) : code;
    if (code == 0 && s.has_digest && s.digest != s.source_digest) {
        code = CLI_EXIT_FAILED;
    }
    mirror_status_finish(&s);
    return code;
}

int migrate_follow(const struct migrate_options *o)
{
    struct mirror_status s;
    char target[1400];
    int code = mirror_status_find(o, &s);
    if (code == 0) {
        (void)snprintf(target, sizeof target, "/mirror/follow?source=%s&reads=%s&replace=%d",
                       o->source, READS[o->reads], o->replace);
        code = mirror_act(o, &s, target, SLICE_NULL, NULL);
    }
    code = code == 0 ? mirror_status_again(o, false, &s) : code;
    for (int i = 0; code == 0 && s.act_waits && i < 100; i++) {
        (void)usleep(LOOK_MS * 1000);
        code = mirror_status_again(o, false, &s);
    }
    if (code == 0 && !o->no_wait) {
        code = wait_following(o, &s);
        code = code == 0 ? print_status(o, &s) : code;
    }
    mirror_status_finish(&s);
    return code;
}

/* The argument goes into a request line as it is. */
static bool is_plain_list(const char *text)
{
    return text[strspn(text,
                       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:,-_[]")] ==
               '\0' &&
           strlen(text) > 0 && strlen(text) < 1024;
}

int command_migrate(int argc, char **argv)
{
    struct migrate_options o = {.common = COMMON_OPTIONS_INIT, .wait_ms = FOLLOW_WAIT_MS};
    struct operands operands;
    int rc = options_parse(&MIGRATE_USAGE, argc, argv, &o, &operands);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    enum migrate_verb verb = (enum migrate_verb)operands.verb;
    bool sources = verb == MIGRATE_FOLLOW || verb == MIGRATE_VERIFY;
    const struct usage_rule rules[] = {
        {sources && o.source == NULL,
         "--from HOST:QUORUMPORT,... names the ZooKeeper servers; the quorum port is the first of server.N=HOST:PORT:PORT"},
        {o.source != NULL && !is_plain_list(o.source),
         "--from wants HOST:QUORUMPORT,HOST:QUORUMPORT,..."},
        {verb != MIGRATE_CUT && (o.yes || o.stop != NULL || o.fence != NULL || o.folders.count > 0),
         "--yes, --stop-cmd, --fence-cmd and --folder go with cut"},
        {verb != MIGRATE_VERIFY && o.config != NULL,
         "--config goes with verify; the servers have read their own files"},
        {verb != MIGRATE_FOLLOW && (o.replace || o.no_wait),
         "--replace and --no-wait go with follow"},
        {verb == MIGRATE_CUT && o.fence != NULL && o.folders.count > 0,
         "--folder and --fence-cmd are two ways to prove the same: give one"},
        {0},
    };
    rc = usage_check(&MIGRATE_USAGE, rules);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    switch (verb) {
    case MIGRATE_FOLLOW:
        return migrate_follow(&o);
    case MIGRATE_STATUS:
        return migrate_status(&o);
    case MIGRATE_VERIFY:
        return migrate_verify(&o);
    case MIGRATE_CUT:
        break;
    }
    return migrate_cut(&o);
}
