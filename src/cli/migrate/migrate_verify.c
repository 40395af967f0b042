/*
 * conclave migrate verify: the tree of the source and that of the mirror, at one zxid. The command is an observer of the source
 * itself, beside the mirror, and takes the mirror's state as a backup; then it applies the source's transactions up to
 * the zxid of the backup.
 */
#include "cli/migrate/migrate.h"

#include "apache/learner/learner_link.h"
#include "backup/backup_load.h"
#include "base/json.h"
#include "base/list.h"
#include "base/random.h"
#include "cli/backup/backup_download.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/migrate/found_folder.h"
#include "daemon/zoo_cfg.h"
#include "state/adopt/compare.h"
#include "state/adopt/outcome.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TICK_MS = 20, SHOWN_MAX = 20, VERIFY_ID = 0x20000, KEPT_BYTES_MAX = 1 << 30 };

struct kept_transaction {
    struct list link;
    int64_t zxid;
    size_t len;
    uint8_t bytes[];
};

struct verify {
    const struct migrate_options *o;
    uv_loop_t loop;
    uv_timer_t timer;
    struct learner_link *source;
    struct source_access access;
    struct hash_key key;
    struct state *state; /* of the source; NULL: it has not come */
    struct list kept;    /* its later transactions */
    size_t kept_bytes;
    int64_t source_zxid;
    int64_t waited_ms;
    char trouble[500];
    char address[ROSTER_ADDRESS_MAX]; /* of a server of the mirror */
    char file[64];                    /* the backup */
    int fd;
    pthread_t thread;
    bool running; /* the thread */
    atomic_bool downloaded;
    int download_code;
    struct backup_loaded mirror; /* its state is NULL until it is loaded */
    int code;                    /* -1: not over */
};

/* The source */

static int64_t verify_last_zxid(void *ctx)
{
    const struct verify *v = ctx;
    return v->state != NULL ? v->source_zxid : 0;
}

/* Drops the oldest. */
static void drop_first(struct verify *v)
{
    struct kept_transaction *t = CONTAINER_OF(v->kept.next, struct kept_transaction, link);
    /* The analyzer does not see list_remove. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    assert(v->kept_bytes >= t->len);
    v->kept_bytes -= t->len;
    list_remove(&t->link);
    free(t);
}

static void drop_kept(struct verify *v)
{
    while (!list_empty(&v->kept)) {
        drop_first(v);
    }
}

static int verify_state(void *ctx, struct state *state_take)
{
    struct verify *v = ctx;
    drop_kept(v);
    assert(v->kept_bytes == 0 && list_empty(&v->kept));
    state_destroy(v->state);
    v->state = state_take;
    v->source_zxid = state_zxid(state_take);
    return 0;
}

static int verify_transaction(void *ctx, int64_t previous_zxid, int64_t zxid, struct slice bytes)
{
    struct verify *v = ctx;
    if (v->kept_bytes > KEPT_BYTES_MAX) {
        return CONCLAVE_ETOOBIG;
    }
    assert(v->state != NULL && zxid > v->source_zxid);
    struct kept_transaction *t = malloc(sizeof *t + bytes.len);
    if (t == NULL) {
        return CONCLAVE_ENOMEM;
    }
    t->zxid = zxid;
    t->len = bytes.len;
    memcpy(t->bytes, bytes.data, bytes.len);
    list_push_back(&v->kept, &t->link);
    v->kept_bytes += bytes.len;
    v->source_zxid = zxid;
    return 0;
}

static void verify_live(void *ctx)
{
}

static void verify_seen(void *ctx, int64_t zxid)
{
}

static void verify_trouble(void *ctx, const struct net_address *server, const char *why)
{
    struct verify *v = ctx;
    char text[NET_TEXT_MAX];
    (void)snprintf(v->trouble, sizeof v->trouble, "%s: %s", net_address_format(server, text), why);
}

/* The mirror */

static void *download(void *ctx)
{
    struct verify *v = ctx;
    const struct backup_request request = {.command = "migrate",
                                           .common = &v->o->common,
                                           .admin = v->address,
                                           .file = v->file,
                                           .fd = v->fd};
    struct backup_downloaded done;
    v->download_code = backup_download(&request, &done);
    atomic_store(&v->downloaded, true);
    return NULL;
}

static int begin_download(struct verify *v)
{
    if (ftruncate(v->fd, 0) != 0 || lseek(v->fd, 0, SEEK_SET) != 0) {
        return CLI_EXIT_IO;
    }
    atomic_store(&v->downloaded, false);
    if (pthread_create(&v->thread, NULL, download, v) != 0) {
        return fail("migrate", NULL, CONCLAVE_ENOMEM);
    }
    v->running = true;
    return 0;
}

static int load_mirror(struct verify *v)
{
    const char *files[] = {v->file};
    const struct backup_load_options options = {.files = files, .count = 1};
    char *text = NULL;
    (void)pthread_join(v->thread, NULL);
    v->running = false;
    if (v->download_code != 0) {
        return v->download_code;
    }
    int rc = backup_load(&options, &v->mirror, &text);
    return rc == 0 ? 0 : found_folder_fail("migrate", rc, text);
}

/* Both */

/* Applies the source's transactions up to the mirror's zxid. False: they have not come, or the source is beyond. */
static bool meet(struct verify *v, int *ret_code)
{
    int64_t target = state_zxid(v->mirror.state);
    struct effects unseen;
    effects_init(&unseen);
    while (*ret_code == 0 && !list_empty(&v->kept) && state_zxid(v->state) < target) {
        struct kept_transaction *t = CONTAINER_OF(v->kept.next, struct kept_transaction, link);
        struct outcome o;
        /* As above. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
        bool applied = outcome_read(slice_make(t->bytes, t->len), &o) == 0 &&
                       outcome_apply(v->state, &o, &unseen) == 0;
        if (!applied) {
            fprintf(stderr,
                    "conclave migrate: transaction 0x%" PRIx64 " of the source cannot be applied\n",
                    (uint64_t)t->zxid);
            *ret_code = CLI_EXIT_FAILED;
        }
        drop_first(v);
    }
    effects_finish(&unseen);
    return *ret_code == 0 && state_zxid(v->state) == target;
}

/* Each server writes its own configuration there when it starts, without a transaction. */
#define OWN_NODE "/zookeeper/config"

struct told_differences {
    size_t shown;
    size_t own;     /* at OWN_NODE: no differences */
    struct json *j; /* NULL: text */
};

static void tell_difference(void *ctx, const struct state_difference *d)
{
    struct told_differences *t = ctx;
    char name[32];
    if (slice_equal_str(d->path, OWN_NODE)) {
        t->own++;
        return;
    }
    if (t->shown++ >= SHOWN_MAX) {
        return;
    }
    (void)snprintf(name, sizeof name, "session 0x%" PRIx64, (uint64_t)d->session_id);
    bool node = !slice_is_null(d->path);
    struct slice where = !node ? slice_str(name) : d->path.len > 0 ? d->path : slice_str("/");
    if (t->j != NULL) {
        json_object_begin(t->j);
        json_member_text(t->j, node ? "path" : "session", where);
        json_member_string(t->j, "field", d->what);
        if (d->numbers) {
            json_member_int(t->j, "source", d->first);
            json_member_int(t->j, "mirror", d->second);
        }
        json_object_end(t->j);
    } else if (d->numbers) {
        printf("%.*s: %s is %" PRId64 " at the source and %" PRId64 " here\n", SLICE_FMT(where),
               d->what, d->first, d->second);
    } else {
        printf("%.*s: %s%s\n", SLICE_FMT(where), d->what,
               strncmp(d->what, "only", 4) == 0 ? "" : " differs");
    }
}

static int compare_states(struct verify *v)
{
    struct state_comparison c;
    struct told_differences t = {0};
    struct json j;
    bool as_json = v->o->common.json;
    if (as_json) {
        json_line_begin(&j);
        json_member_hex(&j, "zxid", state_zxid(v->state));
        json_key(&j, "differences");
        json_array_begin(&j);
        t.j = &j;
    }
    int rc = state_compare(v->state, v->mirror.state, tell_difference, &t, &c);
    if (rc != 0) {
        return fail("migrate", NULL, rc);
    }
    c.differences -= t.own;
    if (as_json) {
        json_array_end(&j);
        json_member_uint(&j, "count", c.differences);
        json_member_uint(&j, "nodes", c.nodes);
        json_member_uint(&j, "sessions", c.sessions);
        json_member_bool(&j, "equal", c.differences == 0);
        rc = json_line_print(&j, stdout) == 0 ? 0 : CLI_EXIT_IO;
    } else {
        if (c.differences > SHOWN_MAX) {
            printf("... and %zu more\n", c.differences - SHOWN_MAX);
        }
        printf("zxid 0x%" PRIx64 ": %zu nodes and %zu sessions compared, %zu differences\n",
               (uint64_t)state_zxid(v->state), c.nodes, c.sessions, c.differences);
        rc = output_end("migrate", 0);
    }
    return rc != 0 ? rc : c.differences == 0 ? 0 : CLI_EXIT_FAILED;
}

/* The next step, whenever something may have come. */
static void verify_step(struct verify *v)
{
    int code = 0;
    assert(v->code < 0 && !(v->running && v->mirror.state != NULL));
    if (v->state == NULL) {
        return;
    }
    if (!v->running && v->mirror.state == NULL) {
        code = begin_download(v);
    } else if (v->running && atomic_load(&v->downloaded)) {
        code = load_mirror(v);
    }
    if (code == 0 && v->mirror.state != NULL) {
        if (meet(v, &code)) {
            v->code = compare_states(v);
            return;
        }
        if (code == 0 && state_zxid(v->state) > state_zxid(v->mirror.state)) {
            backup_loaded_finish(&v->mirror); /* the mirror was behind: its state again */
            v->mirror = (struct backup_loaded){.state = NULL};
        }
    }
    v->code = code != 0 ? code : v->code;
}

static void on_tick(uv_timer_t *timer)
{
    struct verify *v = timer->data;
    v->waited_ms += TICK_MS;
    verify_step(v);
    if (v->code < 0 && v->waited_ms > v->o->wait_ms) {
        fprintf(stderr, "conclave migrate: not compared in time%s%s\n",
                v->trouble[0] != '\0' ? ": " : "", v->trouble);
        v->code = CLI_EXIT_TIMEOUT;
    }
    if (v->code >= 0) {
        uv_stop(&v->loop);
    }
}

static int run_verify(struct verify *v, const struct net_address *servers, size_t count)
{
    const struct learner_link_options options = {.servers = servers,
                                                 .count = count,
                                                 .server_id = VERIFY_ID + (getpid() & 0xffff),
                                                 .key = &v->key,
                                                 .access = &v->access};
    const struct learner_link_callbacks callbacks = {
        .learner = {v, verify_state, verify_transaction, verify_live, verify_seen, verify_seen},
        .last_zxid = verify_last_zxid,
        .trouble = verify_trouble,
    };
    if (uv_loop_init(&v->loop) != 0 || uv_timer_init(&v->loop, &v->timer) != 0) {
        return fail("migrate", NULL, CONCLAVE_ENOMEM);
    }
    v->timer.data = v;
    v->source = learner_link_open(&v->loop, &options, &callbacks);
    if (v->source == NULL || uv_timer_start(&v->timer, on_tick, 0, TICK_MS) != 0) {
        return fail("migrate", NULL, CONCLAVE_ENOMEM);
    }
    (void)uv_run(&v->loop, UV_RUN_DEFAULT);
    if (v->running) {
        (void)pthread_join(v->thread, NULL);
    }
    uv_close((uv_handle_t *)&v->timer, NULL);
    learner_link_close(v->source, NULL, NULL);
    (void)uv_run(&v->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&v->loop);
    return v->code;
}

/* What the link to the source needs, from the keys of a server. 0, or the exit code of a printed error. */
static int read_access(const char *path, struct source_access *ret)
{
    struct zoo_cfg config;
    char *file = strdup(path);
    char *arguments[] = {NULL, file}; /* the first one is no argument */
    char *text = NULL;
    zoo_cfg_init(&config);
    int rc = file != NULL ? zoo_cfg_parse(&config, 2, arguments) : CONCLAVE_ENOMEM;
    const char *why = config.error;
    if (rc == 0) {
        rc = source_access_init(ret, config.options.source, &text);
        why = text;
    }
    if (rc != 0) {
        fprintf(stderr, "conclave migrate: %s\n", why != NULL ? why : conclave_strerror(rc));
    }
    free(text);
    free(file);
    zoo_cfg_finish(&config);
    return rc == 0 ? 0 : CLI_EXIT_USAGE;
}

int migrate_verify(const struct migrate_options *o)
{
    struct net_address servers[LEARNER_SERVERS_MAX];
    struct verify v = {.o = o, .code = -1, .file = "/tmp/conclave-verify-XXXXXX"};
    struct mirror_status s;
    size_t count = learner_servers_parse(slice_str(o->source), servers);
    if (count == 0) {
        return usage_error(&MIGRATE_USAGE, "--from wants HOST:QUORUMPORT,..., at most %d servers",
                           LEARNER_SERVERS_MAX);
    }
    int code = mirror_status_find(o, &s);
    if (code == 0) {
        (void)snprintf(v.address, sizeof v.address, "%s", s.address);
    }
    mirror_status_finish(&s);
    code = code == 0 && o->config != NULL ? read_access(o->config, &v.access) : code;
    if (code != 0) {
        return code;
    }
    v.fd = mkstemp(v.file);
    if (v.fd < 0) {
        source_access_finish(&v.access);
        fprintf(stderr, "conclave migrate: cannot create a file in /tmp\n");
        return CLI_EXIT_IO;
    }
    list_init(&v.kept);
    random_bytes(&v.key, sizeof v.key);
    code = run_verify(&v, servers, count);
    source_access_finish(&v.access);
    (void)close(v.fd);
    (void)unlink(v.file);
    drop_kept(&v);
    state_destroy(v.state);
    if (v.mirror.state != NULL) {
        backup_loaded_finish(&v.mirror);
    }
    return code;
}
