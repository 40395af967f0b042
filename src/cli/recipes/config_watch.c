/* conclave config watch and get: prints each state of a configuration, writes it into a file, runs a command for it. */
#include "cli/recipes/config.h"

#include "base/json.h"
#include "cli/common/connection.h"
#include "cli/common/data_input.h"
#include "cli/run/run_command.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 4200 };

struct config_watching {
    const struct config_options *options;
    const char *path;
    char *const *argv; /* NULL: none */
    bool once;         /* get: the first state is all */
    struct waiter waiter;
    atomic_int present; /* get: 1 the node is there, -1 it is not */
    atomic_int child;   /* process that is being run, 0: none */
};

/* --- output ------------------------------------------------------------------------------- */

static void node_print(const struct config_options *options,
                       const struct conclave_config_state *state,
                       const struct conclave_config_node *node, const char *event)
{
    struct json j;
    if (!options->common.json) {
        if (event != NULL) {
            printf("%s%s", event, node == NULL ? "" : "\t");
        }
        if (node != NULL && options->tree) {
            printf("/%s\t", node->path);
        }
        if (node != NULL && node->data_len > 0) {
            (void)fwrite(node->data, 1, node->data_len, stdout);
        }
        if (event != NULL || options->tree) {
            (void)putchar('\n');
        }
        return;
    }
    json_line_begin(&j);
    if (event != NULL) {
        json_member_string(&j, "event", event);
    }
    json_member_int(&j, "zxid", state->zxid);
    json_member_bool(&j, "stale", state->stale);
    if (node != NULL) {
        json_member_string(&j, "path", node->path);
        json_member_int(&j, "version", node->version);
        json_member_int(&j, "mzxid", node->mzxid);
        json_data(&j, node->data, node->data_len);
    }
    if (json_line_print(&j, stdout) != 0) {
        clearerr(stdout); /* the next flush tells it */
    }
}

/* --- the file for a command or a server ------------------------------------------------------- */

/* A value as it is; a tree as lines of JSON. */
static void state_write(struct buf *out, bool tree, const struct conclave_config_state *state)
{
    for (size_t i = 0; i < state->count; i++) {
        const struct conclave_config_node *node = state->nodes[i];
        struct json j;
        if (!tree) {
            buf_append(out, node->data, node->data_len);
            return;
        }
        json_line_begin(&j);
        json_member_string(&j, "path", node->path);
        json_data(&j, node->data, node->data_len);
        json_object_end(&j);
        buf_append_str(&j.out, "\n");
        out->failed = out->failed || !buf_ok(&j.out);
        buf_append_slice(out, buf_slice(&j.out));
        json_finish(&j);
    }
}

/* Puts the state into a file beside `file`, then renames it; NULL: into a temporary file. The name is written to ret, of
 * TEXT_MAX. */
static int file_put(const char *file, bool tree, const struct conclave_config_state *state,
                    char *ret)
{
    const char *folder = getenv("TMPDIR");
    char temporary[TEXT_MAX];
    struct stat old;
    struct buf data;
    int n = file != NULL ? snprintf(temporary, sizeof temporary, "%s.XXXXXX", file)
                         : snprintf(temporary, sizeof temporary, "%s/conclave-config.XXXXXX",
                                    folder == NULL ? "/tmp" : folder);
    mode_t mode = file != NULL && stat(file, &old) == 0 ? old.st_mode & 0777 : 0600;
    buf_init(&data, 0);
    state_write(&data, tree, state);
    int error = !buf_ok(&data) ? CONCLAVE_ENOMEM : 0;
    if (error == 0 &&
        ((size_t)n >= sizeof temporary || file_make(temporary, buf_slice(&data), mode) != 0)) {
        error = CONCLAVE_EIO;
    }
    if (error == 0 && file != NULL && rename(temporary, file) != 0) {
        (void)unlink(temporary);
        error = CONCLAVE_EIO;
    }
    buf_finish(&data);
    if (error == 0) {
        (void)snprintf(ret, TEXT_MAX, "%s", file != NULL ? file : temporary);
    }
    return error;
}

/* --- callbacks -------------------------------------------------------------------------------- */

/* Runs CMD; returns the result for the acknowledgement. */
static int run_for(struct config_watching *w, const struct conclave_config_state *state,
                   const char *file)
{
    char path[TEXT_MAX];
    char zxid[64];
    char mzxid[64];
    char name[TEXT_MAX + 32];
    const char *const more[] = {
        path, zxid, mzxid, state->stale ? "CONCLAVE_STALE=1" : "CONCLAVE_STALE=0", name, NULL};
    pid_t pid;
    (void)snprintf(path, sizeof path, "CONCLAVE_PATH=%s", w->path);
    (void)snprintf(zxid, sizeof zxid, "CONCLAVE_ZXID=%" PRId64, state->zxid);
    (void)snprintf(mzxid, sizeof mzxid, "CONCLAVE_MZXID=%" PRId64, state->mzxid);
    (void)snprintf(name, sizeof name, "CONCLAVE_FILE=%s", file);
    if (run_command_start(CONFIG_USAGE.name, w->argv, more, &pid) != 0) {
        return CONCLAVE_EIO;
    }
    assert(atomic_load(&w->child) == 0); /* one state after the other */
    atomic_store(&w->child, pid);
    int code = run_command_wait(pid);
    atomic_store(&w->child, 0);
    if (code != 0) {
        fprintf(stderr, "conclave config: %s ended with %d: not applied\n", w->argv[0], code);
    }
    return code == 0 ? 0 : CONCLAVE_ECANCELED;
}

static int apply(struct config_watching *w, const struct conclave_config_state *state)
{
    char file[TEXT_MAX] = "";
    const char *wanted = w->options->file;
    int error = 0;
    if (state->count > 0 && (wanted != NULL || w->argv != NULL)) {
        error = file_put(wanted, w->options->tree, state, file);
        if (error != 0) {
            (void)fail(CONFIG_USAGE.name, wanted, error);
            return error;
        }
    }
    if (w->argv != NULL) {
        error = run_for(w, state, file);
        if (wanted == NULL && file[0] != '\0') {
            (void)unlink(file);
        }
    }
    return error;
}

static int config_watch_on_change(struct conclave_config *config,
                                  const struct conclave_config_state *state, void *ctx)
{
    struct config_watching *w = ctx;
    const char *event = w->once ? NULL : state->stale ? "CACHED" : "CHANGED";
    if (w->once && atomic_load(&w->present) != 0) {
        return 0;
    }
    if (w->once && state->stale) {
        fprintf(stderr, "conclave config: no server was reached: this is the last known state\n");
    }
    if (state->count == 0 && !w->once) {
        node_print(w->options, state, NULL, "MISSING");
    }
    for (size_t i = 0; i < state->count; i++) {
        node_print(w->options, state, state->nodes[i], event);
    }
    if (fflush(stdout) != 0) {
        waiter_end(&w->waiter, CONCLAVE_EIO);
    }
    if (w->once) {
        atomic_store(&w->present, state->count > 0 ? 1 : -1);
        waiter_wake(&w->waiter);
        return 0;
    }
    return apply(w, state);
}

static void on_stale(struct conclave_config *config, bool stale, void *ctx)
{
    struct config_watching *w = ctx;
    struct conclave_config_state state = {.stale = stale};
    if (!w->once) {
        node_print(w->options, &state, NULL, stale ? "STALE" : "FRESH");
        (void)fflush(stdout);
    }
}

static void on_file_error(struct conclave_config *config, int error, void *ctx)
{
    struct config_watching *w = ctx;
    (void)fail(CONFIG_USAGE.name, w->options->cache, error);
}

static void config_watch_on_closed(struct conclave_config *config, int why, void *ctx)
{
    struct config_watching *w = ctx;
    waiter_end(&w->waiter, why);
}

static const struct conclave_config_callbacks CALLBACKS = {
    .size = sizeof(struct conclave_config_callbacks),
    .on_change = config_watch_on_change,
    .on_stale = on_stale,
    .on_file_error = on_file_error,
    .on_closed = config_watch_on_closed,
};

/* --- the commands ------------------------------------------------------------------------------- */

static int watch_until_end(struct config_watching *w, struct conclave_recipes *recipes)
{
    const struct config_options *o = w->options;
    struct conclave_config_options options = CONCLAVE_CONFIG_OPTIONS_INIT;
    struct conclave_config *config;
    int number = 0;
    enum waiter_event event;
    options.path = w->path;
    options.tree = o->tree;
    options.cache_file = o->cache;
    options.ack_id = o->ack;
    options.ack_path = o->ack_path;
    options.debounce_ms = o->debounce_ms;
    options.cache_wait_ms = w->once ? o->common.timeout_ms : 2000;
    int error = conclave_config_open(recipes, &options, &CALLBACKS, w, &config);
    if (error == CONCLAVE_EINVAL) {
        return usage_error(&CONFIG_USAGE, "--ack wants a name of a node, --ack-path a path");
    }
    if (error != 0) {
        return fail(CONFIG_USAGE.name, w->path, error);
    }
    int64_t wait_ms = !w->once ? -1 : o->common.timeout_ms + (o->cache != NULL ? 2000 : 0);
    do {
        event = waiter_wait(&w->waiter, -1, wait_ms, &number);
    } while (event == WAITER_TIMEOUT && !w->once);
    pid_t child = atomic_load(&w->child);
    if (number != 0 && child != 0) {
        (void)kill(child, number);
    }
    error = conclave_config_close_wait(config, CONCLAVE_FOREVER);
    conclave_config_destroy(config);
    if (error == 0 && number == 0 && w->once && atomic_load(&w->present) != 1) {
        error = atomic_load(&w->present) == -1 ? CONCLAVE_NO_NODE : CONCLAVE_ETIMEDOUT;
    }
    return wait_exit_code(&w->waiter, CONFIG_USAGE.name, w->path, error, number);
}

static int watch_run(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    return watch_until_end(ctx, recipes);
}

int config_watch(const struct config_options *options, const char *path, bool once,
                 char *const *argv)
{
    struct config_watching w = {.options = options, .path = path, .once = once, .argv = argv};
    struct common_options common = options->common;
    if (!once) {
        common.timeout_ms = options->connect_timeout_ms;
    }
    common.no_wait = options->cache != NULL; /* it falls back on the file */
    return connection_run_waiting(CONFIG_USAGE.name, &common, &w.waiter, WAITER_END_SIGNALS,
                                  watch_run, &w);
}
