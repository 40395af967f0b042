/* conclave migrate cut: Apache ZooKeeper stops, it is proved that nothing is missing, and the mirror ends. */
#include "cli/migrate/migrate.h"

#include "apache/folder.h"
#include "apache/folder_files.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/server_query.h"
#include "cli/migrate/found_folder.h"

#include <conclave/error.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOK_MS = 10,
    HAND_LOOK_MS = 200,
    STOP_WAIT_MS = 10000,
    FEED_BYTES = 4 << 20,
    SERVERS_MAX = 32
};

struct cut {
    const struct migrate_options *o;
    struct mirror_status s;
    int64_t began_ms; /* ZooKeeper stops from now on */
    int64_t stopped_ms;
    int64_t proved_ms;
    struct buf feed; /* transactions that the mirror lacks, in the form of /mirror/transactions */
    int64_t feed_previous;
};

static int64_t cut_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The proof failed, or could not be made. */
static int go_back(const struct cut *c, const char *why)
{
    fprintf(stderr,
            "conclave migrate: not taken over: %s\n"
            "The mirror goes on following %s as soon as ZooKeeper runs again: start its servers.\n",
            why, c->s.source);
    return CLI_EXIT_FAILED;
}

static size_t servers_of(const char *source)
{
    size_t n = 1;
    for (const char *at = source; *at != '\0'; at++) {
        n += *at == ',';
    }
    return n;
}

static void explain(const struct cut *c)
{
    const struct migrate_options *o = c->o;
    size_t n = servers_of(c->s.source);
    printf("This ensemble follows %s and is at zxid 0x%" PRIx64 ", with %" PRId64
           " nodes and %" PRId64 " sessions.\n\nWith --yes, the command\n",
           c->s.source, (uint64_t)c->s.zxid, c->s.nodes, c->s.sessions);
    if (o->fence != NULL) {
        printf(
            "  1. runs \"%s\", which has to keep all clients away from ZooKeeper\n"
            "  2. asks ZooKeeper for a write through its quorum: all acknowledged writes come before it\n",
            o->fence);
    }
    if (o->stop != NULL) {
        printf("  %d. runs \"%s\", which has to stop all %zu ZooKeeper servers\n",
               o->fence != NULL ? 3 : 1, o->stop, n);
    } else {
        printf("  %d. waits until you have stopped all %zu ZooKeeper servers\n",
               o->fence != NULL ? 3 : 1, n);
    }
    if (o->fence == NULL) {
        printf(
            "  2. reads the logs of %zu stopped servers (a majority of %zu is needed), and gives the mirror "
            "what it lacks\n",
            o->folders.count, n);
    }
    printf(
        "  then the mirror ends: sessions go on here, with their full timeouts, and this ensemble takes writes.\n"
        "\nUntil that moment nothing is lost: if the proof fails, start ZooKeeper again, and the mirror goes on "
        "following.\nAfter it, ZooKeeper must not start again with its data; the way back is \"conclave export\".\n");
}

/* Stopping */

static bool cut_run(const char *text, const char *what)
{
    (void)fflush(stdout);
    int status = system(text); /* NOLINT(cert-env33-c): a command of the operator's, for sh */
    if (status == 0) {
        return true;
    }
    fprintf(stderr, "conclave migrate: %s \"%s\" ended with %s %d\n", what, text,
            WIFEXITED(status) ? "exit code" : "signal",
            WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return false;
}

/* Whether a server still listens on a quorum port. */
static bool source_listens(const struct cut *c)
{
    char source[sizeof c->s.source];
    struct server_query asks[SERVERS_MAX];
    size_t n = 0;
    bool listens = false;
    (void)snprintf(source, sizeof source, "%s", c->s.source);
    for (char *rest = source, *one;
         n < SERVERS_MAX && (one = strtok_r(rest, ",", &rest)) != NULL;) {
        asks[n] = (struct server_query){.index = n, .question = slice_str("")};
        n += server_query_address(&asks[n], one);
    }
    /* Only a refusal says that nobody listens: whoever accepts says nothing before it is asked. */
    int code = server_query_all("migrate", &c->o->common, 200, asks, n);
    for (size_t i = 0; i < n; i++) {
        listens = listens || (code == 0 && asks[i].error != CONCLAVE_EDISCONNECTED &&
                              asks[i].error != CONCLAVE_ERESOLVE);
        buf_finish(&asks[i].answer);
    }
    return listens;
}

/* Waits until no server listens any more; 0, or the exit code. */
static int wait_until_stopped(const struct cut *c, int64_t wait_ms, int64_t look_ms)
{
    int64_t end_ms = cut_now_ms() + wait_ms;
    while (source_listens(c)) {
        if (cut_now_ms() >= end_ms) {
            return go_back(c, "a ZooKeeper server still listens on its quorum port");
        }
        (void)usleep((useconds_t)look_ms * 1000);
    }
    return 0;
}

static int stop_source(struct cut *c)
{
    c->began_ms = cut_now_ms();
    int code = 0;
    if (c->o->stop == NULL) {
        fprintf(stderr, "Stop all ZooKeeper servers now (their services, too). Waiting ...\n");
        code = wait_until_stopped(c, c->o->wait_ms, HAND_LOOK_MS);
    } else if (cut_run(c->o->stop, "--stop-cmd")) {
        code = wait_until_stopped(c, STOP_WAIT_MS, LOOK_MS);
    } else {
        code = go_back(c, "ZooKeeper may still run");
    }
    c->stopped_ms = cut_now_ms();
    return code;
}

/* The last read through the source's quorum */

static int read_quorum(struct cut *c)
{
    if (!cut_run(c->o->fence, "--fence-cmd")) {
        return go_back(c, "clients may still reach ZooKeeper");
    }
    int code = mirror_act(c->o, &c->s, "/mirror/barrier", SLICE_NULL, NULL);
    for (int64_t waited = 0; code == 0 && waited < c->o->wait_ms && waited < 30000;
         waited += LOOK_MS) {
        code = mirror_status_again(c->o, false, &c->s);
        if (code == 0 && c->s.barrier_zxid != 0 && c->s.zxid >= c->s.barrier_zxid) {
            printf("quorum read: zxid 0x%" PRIx64 "\n", (uint64_t)c->s.barrier_zxid);
            return 0;
        }
        (void)usleep(LOOK_MS * 1000);
    }
    return code != 0 ? code : go_back(c, "ZooKeeper did not answer the read through its quorum");
}

/* Folders */

static int take_missing(void *ctx, int64_t zxid, struct slice bytes)
{
    struct cut *c = ctx;
    assert(zxid > c->feed_previous);
    buf_append_i32(&c->feed, (int32_t)bytes.len);
    buf_append_i64(&c->feed, c->feed_previous);
    buf_append_slice(&c->feed, bytes);
    c->feed_previous = zxid;
    return buf_ok(&c->feed) ? 0 : CONCLAVE_ENOMEM;
}

static int skip_missing(void *ctx, int64_t zxid, struct slice bytes)
{
    return 0;
}

/* The folder and, behind a comma, that of its logs. */
static void split_folder(const char *text, char *dir, size_t size, const char **ret_logs)
{
    (void)snprintf(dir, size, "%s", text);
    char *comma = strrchr(dir, ',');
    *ret_logs = NULL;
    if (comma != NULL) {
        *comma = '\0';
        *ret_logs = comma + 1;
    }
}

static int read_folder(const char *text, int64_t after,
                       int (*fn)(void *ctx, int64_t zxid, struct slice bytes), void *ctx,
                       struct apache_tail *ret)
{
    char dir[4096];
    char *error = NULL;
    const char *logs;
    split_folder(text, dir, sizeof dir, &logs);
    int rc = apache_folder_tail(dir, logs, after, fn, ctx, ret, &error);
    return rc == 0 ? 0 : found_folder_fail("migrate", rc, error);
}

/* The newest of the folders: its number, and what it has. */
static int find_newest(struct cut *c, size_t *ret, struct apache_tail *ret_tail)
{
    const struct option_list *folders = &c->o->folders;
    *ret_tail = (struct apache_tail){-1, -1};
    for (size_t i = 0; i < folders->count; i++) {
        struct apache_tail tail;
        int code = read_folder(folders->items[i].text, c->s.zxid, skip_missing, NULL, &tail);
        if (code != 0) {
            (void)go_back(c, "a folder cannot be read, so it proves nothing");
            return code;
        }
        printf("%s: epoch %" PRId64 ", zxid 0x%" PRIx64 "\n", folders->items[i].text, tail.epoch,
               (uint64_t)tail.zxid);
        if (tail.epoch > ret_tail->epoch ||
            (tail.epoch == ret_tail->epoch && tail.zxid > ret_tail->zxid)) {
            *ret = i;
            *ret_tail = tail;
        }
    }
    return 0;
}

/* Gives the mirror what it lacks of a folder. */
static int feed_from(struct cut *c, const char *folder)
{
    struct apache_tail tail;
    struct buf answer;
    assert(c->s.mirror && c->s.backlog == 0);
    buf_init(&c->feed, 0);
    c->feed_previous = c->s.zxid;
    int code = read_folder(folder, c->s.zxid, take_missing, c, &tail);
    if (code == 0) {
        /* What the route does not take now is given again, behind what the state has then. */
        size_t len = c->feed.len < FEED_BYTES ? c->feed.len : FEED_BYTES;
        code =
            mirror_act(c->o, &c->s, "/mirror/transactions", slice_make(c->feed.data, len), &answer);
        buf_finish(&answer);
    }
    buf_finish(&c->feed);
    return code;
}

/* Until the mirror has everything up to a zxid. */
static int bring_up_to(struct cut *c, const char *folder, int64_t zxid)
{
    int64_t before = c->s.zxid;
    for (int64_t waited = 0; waited < c->o->wait_ms; waited += LOOK_MS) {
        if (c->s.zxid >= zxid && c->s.backlog == 0) {
            break;
        }
        int code = c->s.zxid < zxid && c->s.backlog == 0 ? feed_from(c, folder) : 0;
        if (code != 0) {
            return code;
        }
        (void)usleep(LOOK_MS * 1000);
        code = mirror_status_again(c->o, false, &c->s);
        if (code != 0) {
            return code;
        }
    }
    if (c->s.zxid > before) {
        printf("taken from the folder: the transactions from 0x%" PRIx64 " to 0x%" PRIx64 "\n",
               (uint64_t)before + 1, (uint64_t)c->s.zxid);
    }
    return 0;
}

static int prove_by_folders(struct cut *c)
{
    size_t newest = 0;
    struct apache_tail tail;
    int code = mirror_status_again(c->o, false, &c->s);
    code = code == 0 ? find_newest(c, &newest, &tail) : code;
    if (code != 0) {
        return code;
    }
    if (tail.zxid < c->s.zxid) {
        /* A link that was still open may have brought more than the folders are read up to. */
        return go_back(
            c,
            "the mirror has a newer transaction than all the folders: they are not those of a majority "
            "of the servers that it follows, or a server still writes");
    }
    code = bring_up_to(c, c->o->folders.items[newest].text, tail.zxid);
    if (code == 0 && c->s.zxid != tail.zxid) {
        return go_back(c, "the mirror did not take what it lacks: see the log of its leader");
    }
    return code;
}

/* How many folders are given, without repetitions: the same one twice proves no more than once. */
static size_t count_folders(const struct option_list *folders)
{
    struct stat known[SERVERS_MAX];
    size_t n = 0;
    size_t count = 0;
    for (size_t i = 0; i < folders->count && n < SERVERS_MAX; i++) {
        char dir[4096];
        const char *logs;
        split_folder(folders->items[i].text, dir, sizeof dir, &logs);
        char *inner = apache_inner_folder(dir);
        bool found = inner != NULL && stat(inner, &known[n]) == 0;
        bool again = false;
        for (size_t k = 0; found && k < n; k++) {
            again =
                again || (known[k].st_dev == known[n].st_dev && known[k].st_ino == known[n].st_ino);
        }
        free(inner);
        n += found && !again;
        count += !again; /* a missing folder is reported when it is read */
    }
    return count;
}

/* The end */

static int end_mirror(struct cut *c)
{
    char target[64];
    assert(c->stopped_ms >= c->began_ms && c->proved_ms >= c->stopped_ms);
    (void)snprintf(target, sizeof target, "/mirror/end?zxid=%" PRIx64, (uint64_t)c->s.zxid);
    int code = mirror_act(c->o, &c->s, target, SLICE_NULL, NULL);
    for (int64_t waited = 0; code == 0 && waited < c->o->wait_ms; waited += LOOK_MS) {
        code = mirror_status_again(c->o, false, &c->s);
        if (code == 0 && !c->s.mirror) {
            return 0;
        }
        if (code == 0 && !c->s.act_waits && c->s.act_err != 0) {
            return go_back(c, c->s.act_err == CONCLAVE_BAD_VERSION
                                  ? "a transaction came after the proof: ZooKeeper still runs"
                                  : conclave_strerror(c->s.act_err));
        }
        (void)usleep(LOOK_MS * 1000);
    }
    return code != 0 ? code : CLI_EXIT_TIMEOUT;
}

static int cut_report(const struct cut *c)
{
    int64_t now = cut_now_ms();
    int64_t pause = now - c->began_ms;
    assert(!c->s.mirror && now >= c->proved_ms);
    if (c->o->common.json) {
        printf("{\"taken_over\":true,\"zxid\":\"0x%" PRIx64 "\",\"pause_ms\":%" PRId64
               ",\"stop_ms\":%" PRId64 ",\"proof_ms\":%" PRId64 ",\"end_ms\":%" PRId64 "}\n",
               (uint64_t)c->s.zxid, pause, c->stopped_ms - c->began_ms,
               c->proved_ms - c->stopped_ms, now - c->proved_ms);
    } else {
        printf("taken over at zxid 0x%" PRIx64 ": %" PRId64 " nodes, %" PRId64 " sessions\n"
               "pause %" PRId64 " ms: %" PRId64 " ms until ZooKeeper had stopped, %" PRId64
               " ms for the proof, %" PRId64 " ms for the end of the mirror\n"
               "ZooKeeper must not start again with its data: disable its services.\n",
               (uint64_t)c->s.zxid, c->s.nodes, c->s.sessions, pause, c->stopped_ms - c->began_ms,
               c->proved_ms - c->stopped_ms, now - c->proved_ms);
    }
    return output_end("migrate", 0);
}

static int cut_now(struct cut *c)
{
    const struct migrate_options *o = c->o;
    int code = o->fence != NULL ? read_quorum(c) : 0;
    code = code == 0 ? stop_source(c) : code;
    if (code == 0) {
        code = o->fence != NULL ? mirror_status_again(o, false, &c->s) : prove_by_folders(c);
    }
    c->proved_ms = cut_now_ms();
    code = code == 0 ? end_mirror(c) : code;
    return code == 0 ? cut_report(c) : code;
}

static int check_ready(const struct cut *c)
{
    size_t n = servers_of(c->s.source);
    size_t folders = count_folders(&c->o->folders);
    if (!c->s.mirror) {
        fprintf(
            stderr,
            "conclave migrate: this ensemble is no mirror: begin with \"conclave migrate follow\"\n");
        return CLI_EXIT_FAILED;
    }
    /* Of a ZooKeeper that has ended already, the folders have what the mirror lacks. */
    bool follows = strcmp(c->s.stage, "following") == 0;
    if (!c->s.synced || (!follows && (c->o->fence != NULL || source_listens(c)))) {
        fprintf(stderr, "conclave migrate: the mirror is not up to date: %s%s%s\n", c->s.stage,
                c->s.trouble[0] != '\0' ? ": " : "", c->s.trouble);
        return CLI_EXIT_FAILED;
    }
    if (c->o->yes && c->o->fence == NULL && folders < n / 2 + 1) {
        fprintf(
            stderr,
            "conclave migrate: the proof needs the folders of %zu of the %zu servers, each given once, and %zu are given: "
            "add --folder DIR, or use --fence-cmd\n",
            n / 2 + 1, n, folders);
        return CLI_EXIT_USAGE;
    }
    return 0;
}

int migrate_cut(const struct migrate_options *o)
{
    struct cut c = {.o = o};
    int code = mirror_status_find(o, &c.s);
    for (int i = 0; code == 0 && c.s.mirror && strcmp(c.s.stage, "following") != 0 && i < 100;
         i++) {
        (void)usleep(LOOK_MS * 1000); /* with many writes it is a moment behind, often */
        code = mirror_status_again(o, false, &c.s);
    }
    code = code == 0 ? check_ready(&c) : code;
    if (code == 0 && !o->yes) {
        explain(&c);
        code = output_end("migrate", CLI_EXIT_USAGE);
    } else if (code == 0) {
        code = cut_now(&c);
    }
    mirror_status_finish(&c.s);
    return code;
}
