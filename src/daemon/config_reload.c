#define _GNU_SOURCE /* asprintf */
#include "daemon/config_reload.h"

#include "base/log.h"
#include "cluster/server_options.h"
#include "daemon/key_values.h"
#include "daemon/keys.h"
#include "daemon/keys_admin.h"
#include "daemon/keys_ensemble.h"
#include "daemon/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One reload in progress. */
struct reload_run {
    struct config_reload *r;
    struct zoo_cfg fresh;
    const struct key_row *only; /* with `set`: the only key that counts; NULL: all */
    struct json *rows;
    unsigned applied;
    unsigned waiting;
};

int config_reload_init(struct config_reload *r, struct zoo_cfg *running, int argc, char **argv)
{
    *r = (struct config_reload){.running = running};
    r->argv = calloc((size_t)argc + 1, sizeof *r->argv);
    for (; r->argv != NULL && r->argc < argc; r->argc++) {
        r->argv[r->argc] = strdup(argv[r->argc]);
        if (r->argv[r->argc] == NULL) {
            return CONCLAVE_ENOMEM;
        }
    }
    return r->argv != NULL ? 0 : CONCLAVE_ENOMEM;
}

void config_reload_finish(struct config_reload *r)
{
    for (int i = 0; i < r->argc; i++) {
        text_wipe(&r->argv[i]);
    }
    free(r->argv);
    *r = (struct config_reload){.running = NULL};
}

/* --- what is given now ------------------------------------------------------------------------ */

static bool is_of_secret(const struct key_row *row)
{
    return strncmp(row->name, "clusterSecret", strlen("clusterSecret")) == 0;
}

static int reload_find_key(struct reload_run *w, const char *set)
{
    char *name = strndup(set, strcspn(set, "="));
    int rc = name != NULL ? 0 : CONCLAVE_ENOMEM;
    if (name != NULL) {
        w->only = key_find(key_plain_name(name));
    }
    if (name != NULL && (strchr(set, '=') == NULL || w->only == NULL)) {
        rc = key_fail(&w->fresh, "'%s' is not KEY=VALUE with a key of the configuration", name);
    } else if (name != NULL && w->only->effect != KEY_LIVE) {
        rc = key_fail(&w->fresh,
                      "%s cannot change at run time: write it into the configuration file, then "
                      "restart the server",
                      name);
    }
    if (rc == 0 && is_of_secret(w->only)) {
        rc = key_fail(&w->fresh, "%s: write it into its file, then reload", name);
    }
    free(name);
    return rc;
}

/* The file and the arguments, and `set` as a last argument. */
static int reload_parse(struct reload_run *w, const char *set)
{
    const struct config_reload *r = w->r;
    char **argv = calloc((size_t)r->argc + 2, sizeof *argv);
    char *last = NULL;
    int argc = r->argc;
    int rc = argv != NULL ? 0 : CONCLAVE_ENOMEM;
    if (rc == 0) {
        memcpy(argv, r->argv, (size_t)argc * sizeof *argv);
    }
    if (rc == 0 && set != NULL) {
        rc = reload_find_key(w, set);
        if (rc == 0 && asprintf(&last, "--%s", set) < 0) {
            last = NULL;
            rc = CONCLAVE_ENOMEM;
        }
        argv[argc++] = last;
    }
    if (rc == 0) {
        rc = zoo_cfg_parse(&w->fresh, argc, argv);
    }
    text_wipe(&last);
    free(argv);
    return rc;
}

/* --- what takes effect ------------------------------------------------------------------------ */

static bool reload_takes(const struct reload_run *w, const struct key_row *row)
{
    const struct ensemble_options *now = &w->r->running->options.ensemble;
    if (row == NULL || row->effect != KEY_LIVE || (w->only != NULL && w->only != row)) {
        return false;
    }
    /* Links keep the kind of proof that they have. */
    return !is_of_secret(row) || (now->security == PEER_SECURITY_SECRET &&
                                  w->fresh.options.ensemble.security == PEER_SECURITY_SECRET);
}

static void swap_texts(char **a, char **b)
{
    char *text = *a;
    *a = *b;
    *b = text;
}

/* A key with a field of its own. */
static void take_field(struct reload_run *w, const struct key_row *row)
{
    uint8_t *to = (uint8_t *)w->r->running + row->offset;
    uint8_t *from = (uint8_t *)&w->fresh + row->offset;
    assert(row->offset + row->size <= sizeof w->fresh);
    if (row->kind == KEY_TEXT) { /* swapped, because each text has one owner */
        char *old;
        assert(row->size == sizeof old);
        memcpy(&old, to, sizeof old);
        memcpy(to, from, sizeof old);
        memcpy(from, &old, sizeof old);
    } else {
        memcpy(to, from, row->size);
    }
}

static void take_secret(struct reload_run *w)
{
    struct keys_ensemble *now = &w->r->running->members;
    struct ensemble_options *e = &w->r->running->options.ensemble;
    assert(now->secret != NULL && w->fresh.members.secret != NULL);
    swap_texts(&now->secret, &w->fresh.members.secret);
    swap_texts(&now->other_secret, &w->fresh.members.other_secret);
    e->secret = slice_str(now->secret);
    e->other_secret = now->other_secret != NULL ? slice_str(now->other_secret) : SLICE_NULL;
    if (w->r->server != NULL) {
        server_set_secrets(w->r->server, e->secret, e->other_secret);
    }
}

/* Cannot fail: everything that may was tried before. */
static void take_rows(struct reload_run *w)
{
    struct zoo_cfg *now = w->r->running;
    /* The default words depend on the profile. */
    const char *words = w->fresh.admin.words == NULL ? w->fresh.admin.options.words : NULL;
    for (size_t i = 0; i < key_table_count; i++) {
        const struct key_row *row = &key_table[i];
        if (reload_takes(w, row) && row->kind != KEY_SPECIAL) {
            take_field(w, row);
        } else if (reload_takes(w, row) && strcmp(row->name, "log.level") == 0) {
            now->log_level = w->fresh.log_level;
            log_set_level(now->log_level);
        } else if (reload_takes(w, row) && strcmp(row->name, "log.format") == 0) {
            now->log_format = w->fresh.log_format;
            log_set_format(now->log_format);
        }
    }
    if (reload_takes(w, key_find("clusterSecret"))) {
        take_secret(w);
    }
    keys_admin_conclude(now);
    if (now->admin.words == NULL) {
        now->admin.options.words = words;
    }
}

/* Gives the server the limits that will be in effect. */
static int take_limits(struct reload_run *w)
{
    const size_t base = offsetof(struct zoo_cfg, options.limits);
    struct zoo_cfg *now = w->r->running;
    struct client_limits limits = now->options.limits;
    int32_t min_ms = now->session_min_ms;
    int32_t max_ms = now->session_max_ms;
    for (size_t i = 0; i < key_table_count; i++) {
        const struct key_row *row = &key_table[i];
        if (!reload_takes(w, row)) {
            continue;
        }
        if (row->offset >= base && row->offset + row->size <= base + sizeof limits) {
            memcpy((uint8_t *)&limits + (row->offset - base), (uint8_t *)&w->fresh + row->offset,
                   row->size);
        } else if (row->offset == offsetof(struct zoo_cfg, session_min_ms)) {
            min_ms = w->fresh.session_min_ms;
        } else if (row->offset == offsetof(struct zoo_cfg, session_max_ms)) {
            max_ms = w->fresh.session_max_ms;
        }
    }
    /* The tick is that of the start. */
    int rc = zoo_cfg_session_limits(&w->fresh, &limits, min_ms, max_ms);
    if (rc == 0 && w->r->server != NULL) {
        rc = server_set_limits(w->r->server, &limits);
    }
    if (rc == 0) {
        now->options.limits = limits;
    }
    return rc;
}

/* --- the report ------------------------------------------------------------------------------- */

static void tell_key(struct reload_run *w, const char *key, const char *from, const char *to,
                     const char *result)
{
    json_object_begin(w->rows);
    json_member_string(w->rows, "key", key);
    json_member_string_or_null(w->rows, "old", from);
    json_member_string_or_null(w->rows, "new", to);
    json_member_string(w->rows, "result", result);
    json_object_end(w->rows);
}

/* One key with its values before and now; NULL: not given. */
static int report_key(struct reload_run *w, const struct effective_config_pair *was,
                      const struct effective_config_pair *is)
{
    struct effective_config *given = &w->r->running->given;
    const char *key = is != NULL ? is->key : was->key;
    const char *from = was != NULL ? was->value : NULL;
    const char *to = is != NULL ? is->value : NULL;
    const struct key_row *row = key_find(key);
    if (keys_ensemble_is_dynamic(key) || (w->only != NULL && w->only != row)) {
        return 0;
    }
    if (was != NULL && is != NULL && was->mark == is->mark) {
        tell_key(w, key, from, to, "unchanged");
        return 0;
    }
    if (row == NULL || row->kind == KEY_IDLE) {
        tell_key(w, key, from, to, "no-effect");
        return 0;
    }
    bool applied = reload_takes(w, row);
    w->applied += applied;
    w->waiting += !applied;
    log_always("server", applied ? "key-applied" : "key-needs-restart",
               "key=%s old=\"%s\" new=\"%s\"", key, from != NULL ? from : "default",
               to != NULL ? to : "default");
    tell_key(w, key, from, to, applied ? "applied" : "needs-restart");
    if (!applied) {
        return 0;
    }
    if (is != NULL) {
        return effective_config_take(given, is);
    }
    effective_config_forget(given, key);
    return 0;
}

static int report_keys(struct reload_run *w)
{
    struct effective_config *given = &w->r->running->given;
    const struct effective_config *fresh = &w->fresh.given;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < fresh->count; i++) {
        const struct effective_config_pair *is = &fresh->pairs[i];
        rc = report_key(w, effective_config_find(given, is->key), is);
    }
    for (size_t i = given->count; rc == 0 && i > 0; i--) { /* from the end, as it may remove one */
        if (effective_config_find(fresh, given->pairs[i - 1].key) == NULL) {
            rc = report_key(w, &given->pairs[i - 1], NULL);
        }
    }
    return rc;
}

static int reload_refuse(struct reload_run *w, int rc, const char *by, char **ret_error)
{
    *ret_error = w->fresh.error;
    w->fresh.error = NULL;
    log_advise(LOG_WARN, "server", "reload-refused",
               "correct what the reason names, then reload again",
               "by=%s reason=\"%s\" effect=\"nothing changed\"", by,
               *ret_error != NULL ? *ret_error : conclave_strerror(rc));
    return rc;
}

int config_reload_keys(struct config_reload *r, const char *set, const char *by, struct json *rows,
                       char **ret_error)
{
    struct reload_run w = {.r = r, .rows = rows};
    zoo_cfg_init(&w.fresh);
    *ret_error = NULL;
    int rc = reload_parse(&w, set);
    if (rc == 0) {
        rc = take_limits(&w);
    }
    if (rc != 0) {
        rc = reload_refuse(&w, rc, by, ret_error);
    } else {
        assert(!w.fresh.help);
        take_rows(&w);
        rc = report_keys(&w);
        if (rc == 0 && set == NULL) { /* what operators see as the file */
            struct buf old = r->running->given.file;
            r->running->given.file = w.fresh.given.file;
            w.fresh.given.file = old;
        }
        log_always("server", "reloaded", "by=%s applied=%u need_restart=%u", by, w.applied,
                   w.waiting);
    }
    zoo_cfg_finish(&w.fresh);
    return rc;
}

/* --- files ------------------------------------------------------------------------------------ */

void config_reload_file(struct json *rows, const char *name, int rc, const char *why)
{
    if (rc == CONCLAVE_EUNSUPPORTED) {
        return;
    }
    json_object_begin(rows);
    json_member_string(rows, "file", name);
    json_member_string(rows, "result", rc == 0 ? "read" : "kept");
    json_member_string_or_null(rows, "reason",
                               rc == 0       ? NULL
                               : why != NULL ? why
                                             : conclave_strerror(rc));
    json_object_end(rows);
}

void config_reload_files(struct config_reload *r, struct json *rows)
{
    static const char *const NAMES[] = {
        [SERVER_FILES_CERTIFICATES] = "certificates for clients",
        [SERVER_FILES_PEER_CERTIFICATES] = "certificates for servers",
        [SERVER_FILES_SECRETS] = "secret of the ensemble",
        [SERVER_FILES_USERS] = "users for digest",
    };
    for (int i = 0; r->server != NULL && i < SERVER_FILES_COUNT; i++) {
        char *why = NULL;
        int rc = server_reload(r->server, (enum server_files)i, &why);
        config_reload_file(rows, NAMES[i], rc, why);
        free(why);
    }
}
