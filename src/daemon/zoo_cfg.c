#include "daemon/zoo_cfg.h"

#include "base/properties.h"
#include "daemon/key_values.h"
#include "daemon/keys.h"
#include "daemon/keys_admin.h"
#include "daemon/keys_ensemble.h"
#include "daemon/keys_sasl.h"
#include "daemon/keys_tls.h"
#include "daemon/secure_profile.h"
#include "daemon/test_profile.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void zoo_cfg_init(struct zoo_cfg *c)
{
    *c = (struct zoo_cfg){.options = server_options_default(),
                          .session_min_ms = -1,
                          .session_max_ms = -1,
                          .secure_port = -1,
                          .log_level = LOG_INFO,
                          .warn_open = true};
    buf_init(&c->notices, 0);
    keys_admin_init(&c->admin);
    keys_ensemble_init(&c->members);
    effective_config_init(&c->given);
}

void zoo_cfg_finish(struct zoo_cfg *c)
{
    keys_tls_values_finish(&c->tls);
    buf_finish(&c->notices);
    keys_admin_finish(&c->admin);
    keys_ensemble_finish(&c->members);
    keys_mirror_finish(&c->mirror);
    effective_config_finish(&c->given);
    free(c->error);
    free(c->data_dir);
    free(c->apache_log_dir);
    free(c->super_digest);
    free(c->digest_users_file);
    free(c->auth_schemes);
    free(c->dynamic_file);
    free(c->audit_file);
    keys_sasl_finish(&c->login);
    c->digest_users_file = NULL;
    c->error = c->data_dir = c->apache_log_dir = c->super_digest = c->auth_schemes =
        c->dynamic_file = c->audit_file = NULL;
}

/* One key */

static void config_store(struct zoo_cfg *c, const struct key_row *row, int64_t n)
{
    uint8_t *field = (uint8_t *)c + row->offset;
    int32_t n32 = (int32_t)n;
    uint16_t n16 = (uint16_t)n;
    assert(row->offset + row->size <= sizeof *c);
    switch (row->size) {
    case sizeof(uint16_t):
        assert(n16 == n);
        memcpy(field, &n16, sizeof n16);
        break;
    case sizeof(int32_t):
        assert(n32 == n);
        memcpy(field, &n32, sizeof n32);
        break;
    default:
        assert(row->size == sizeof n);
        memcpy(field, &n, sizeof n);
        break;
    }
}

static int config_set_int(struct zoo_cfg *c, const struct key_row *row, const char *key,
                          const char *value, const char *where)
{
    int64_t n;
    if (!key_number(value, &n) || n < row->min || n > row->max) {
        return key_fail(c, "%s: %s: '%s' is not a number from %lld to %lld", where, key, value,
                        (long long)row->min, (long long)row->max);
    }
    config_store(c, row, n * row->scale);
    if (row->offset == offsetof(struct zoo_cfg, options.listen.port)) {
        c->have_port = true;
    }
    return 0;
}

static int config_set_bool(struct zoo_cfg *c, const struct key_row *row, const char *key,
                           const char *value, const char *where)
{
    bool on;
    if (!key_boolean(value, &on)) {
        return key_fail(c, "%s: %s: '%s' is not yes or no", where, key, value);
    }
    assert(row->size == sizeof on);
    /* min is 1 for a negated key: yes clears its field. */
    on = on != (row->min == 1);
    memcpy((uint8_t *)c + row->offset, &on, sizeof on);
    return 0;
}

/* Whether value is one of the words in `harmless`, which are separated by '|'. */
static bool key_value_harmless(const char *harmless, const char *value)
{
    size_t len = strlen(value);
    while (harmless != NULL) {
        size_t word = strcspn(harmless, "|");
        if (word == len && strncasecmp(harmless, value, len) == 0) {
            return true;
        }
        harmless = harmless[word] == '|' ? harmless + word + 1 : NULL;
    }
    return false;
}

static int config_set_text(struct zoo_cfg *c, const struct key_row *row, const char *key,
                           const char *value, const char *where)
{
    char *field;
    if (row->kind == KEY_PATH && value[0] == '\0') {
        return key_fail(c, "%s: %s is empty: name a file", where, key);
    }
    assert(row->size == sizeof field);
    memcpy(&field, (uint8_t *)c + row->offset, sizeof field);
    int rc = row->kind == KEY_PATH ? key_set_path(c, &field, key, value, where)
                                   : text_replace(&field, value);
    memcpy((uint8_t *)c + row->offset, &field, sizeof field);
    return rc;
}

int zoo_cfg_set(struct zoo_cfg *c, const char *key, const char *value, const char *where,
                bool from_file)
{
    key = key_plain_name(key);
    const struct key_row *row = key_find(key);
    if (effective_config_note(&c->given, key, value) != 0) {
        return CONCLAVE_ENOMEM;
    }
    if (row == NULL) {
        /* A zoo.cfg may contain keys of other ZooKeeper versions; on the command line, an unknown key is a typing
         * error. */
        if (!from_file) {
            return key_fail(c, "%s: unknown key '%s': see conclave help server", where, key);
        }
        buf_printf(&c->notices, "conclave: %s: unknown key, ignored (%s)\n", key, where);
        return buf_ok(&c->notices) ? 0 : CONCLAVE_ENOMEM;
    }
    switch (row->kind) {
    case KEY_INT:
        return config_set_int(c, row, key, value, where);
    case KEY_BOOL:
        return config_set_bool(c, row, key, value, where);
    case KEY_TEXT:
    case KEY_PATH:
        return config_set_text(c, row, key, value, where);
    case KEY_SPECIAL:
        return row->set(c, key, value, where);
    case KEY_REFUSED:
        if (key_value_harmless(row->harmless, value)) {
            return 0;
        }
        return key_fail(c, "%s: %s: %s", where, key, row->text);
    case KEY_IDLE:
        break;
    }
    buf_printf(&c->notices, "conclave: %s: %s\n", key, row->text);
    return buf_ok(&c->notices) ? 0 : CONCLAVE_ENOMEM;
}

/* Files */

struct file_context {
    struct zoo_cfg *config;
    const char *path;
    bool dynamic;
};

static int config_file_pair(void *ctx, const char *key, const char *value, unsigned line)
{
    struct file_context *f = ctx;
    char where[300];
    snprintf(where, sizeof where, "%.256s line %u", f->path, line);
    if (f->dynamic && !keys_ensemble_is_dynamic(key)) {
        return key_fail(f->config, "%s: a dynamicConfigFile must not contain %s", where, key);
    }
    return zoo_cfg_set(f->config, key, value, where, true);
}

static int config_file(struct zoo_cfg *c, const char *path, bool dynamic)
{
    struct file_context f = {.config = c, .path = path, .dynamic = dynamic};
    struct buf text;
    buf_init(&text, 0);
    int rc = key_read_file(c, path, &text);
    if (rc == 0 && !dynamic) {
        rc = effective_config_note_file(&c->given, buf_slice(&text));
    }
    if (rc == 0) {
        rc = properties_parse(buf_slice(&text), config_file_pair, &f);
    }
    if (rc == CONCLAVE_EINVAL) {
        rc = key_fail(c, "%s: contains NUL bytes, so it is not a configuration file", path);
    }
    buf_finish(&text);
    return rc;
}

/* Command line */

static int config_set_listen(struct zoo_cfg *c, const char *value)
{
    if (net_address_parse(value, &c->options.listen) != 0) {
        return key_fail(c, "--listen: '%s' is not HOST:PORT, such as 127.0.0.1:2181 or [::1]:2181",
                        value);
    }
    c->have_listen = true;
    return 0;
}

static int config_option(struct zoo_cfg *c, const char *name, const char *value)
{
    if (strcmp(name, "data") == 0) {
        return key_set_path(c, &c->data_dir, "--data", value, "command line");
    }
    if (strcmp(name, "listen") == 0) {
        return config_set_listen(c, value);
    }
    if (strcmp(name, "admin") == 0) {
        return key_set_admin(c, value);
    }
    if (c->have_listen &&
        (strcmp(name, "clientPort") == 0 || strcmp(name, "clientPortAddress") == 0)) {
        return key_fail(c, "--%s: --listen already sets the address: use only one of the two",
                        name);
    }
    if (strcmp(name, "server-id") == 0) {
        return key_set_myid(c, "--server-id", value, "command line");
    }
    return zoo_cfg_set(c, name, value, "command line", false);
}

bool zoo_cfg_is_flag(const char *argument)
{
    return strcmp(argument, "--test") == 0 || strcmp(argument, "--until-eof") == 0;
}

static int config_arguments(struct zoo_cfg *c, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        if (strncmp(arg, "--", 2) != 0) {
            continue; /* the configuration file, which was read first */
        }
        if (zoo_cfg_is_flag(arg)) {
            c->test |= strcmp(arg, "--test") == 0;
            c->until_eof |= strcmp(arg, "--until-eof") == 0;
            continue;
        }
        const char *name = arg + 2;
        const char *equals = strchr(name, '=');
        char *key = equals != NULL ? strndup(name, (size_t)(equals - name)) : strdup(name);
        if (key == NULL) {
            return CONCLAVE_ENOMEM;
        }
        int rc;
        if (equals != NULL) {
            rc = config_option(c, key, equals + 1);
        } else if (i + 1 < argc) {
            rc = config_option(c, key, argv[++i]);
        } else {
            rc = key_fail(c, "--%s: the value is missing", key);
        }
        free(key);
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

/* The only word without dashes that is not a value, and whether the user asks for help. False: there are two such
 * words. */
static bool config_find_file(int argc, char **argv, const char **ret_path, struct zoo_cfg *c)
{
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i];
        c->help_all = strcmp(arg, "--help-all") == 0;
        if (c->help_all || strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            c->help = true;
            return true;
        }
        if (strncmp(arg, "--", 2) == 0) {
            /* The value is the next word. */
            i += strchr(arg, '=') == NULL && !zoo_cfg_is_flag(arg);
            continue;
        }
        if (*ret_path != NULL) {
            return false;
        }
        *ret_path = arg;
    }
    return true;
}

/* Conclusions */

static int config_conclude_servers(struct zoo_cfg *c)
{
    if (c->dynamic_file != NULL) {
        int rc = config_file(c, c->dynamic_file, true);
        if (rc != 0) {
            return rc;
        }
    }
    int rc = keys_ensemble_conclude(c);
    c->options.command_options |= (c->options.ensemble.enabled ? COMMAND_ENSEMBLE : 0u) |
                                  (c->members.standalone_enabled ? 0u : COMMAND_ALONE);
    if (rc == 0 && !c->options.ensemble.enabled && c->options.local_sessions) {
        buf_printf(&c->notices,
                   "conclave: localSessionsEnabled: no effect on a standalone server\n");
    }
    if (rc == 0 && !c->options.ensemble.enabled && c->options.read_only_mode) {
        buf_printf(&c->notices, "conclave: readonlymode.enabled: allows the four-letter word isro; "
                                "no other effect on a standalone server\n");
    }
    return rc == 0 && !buf_ok(&c->notices) ? CONCLAVE_ENOMEM : rc;
}

static int config_conclude_access(struct zoo_cfg *c)
{
    const char *rest = c->auth_schemes != NULL ? c->auth_schemes : "";
    struct slice first;
    c->options.digest.super = c->super_digest;
    c->options.users_file = c->digest_users_file;
    c->options.command_options =
        (c->options.digest.off ? COMMAND_NO_DIGEST : 0u) | (c->extended_types ? COMMAND_TTL : 0u) |
        (c->enforce_quota ? COMMAND_QUOTA : 0u) | (c->fencing ? COMMAND_FENCING : 0u) |
        (c->reconfig ? COMMAND_RECONFIG : 0u);
    if (!c->enforce_auth) {
        return 0;
    }
    if (!auth_scheme_next(&rest, &first)) {
        return key_fail(c, "enforce.auth.enabled: name the schemes in enforce.auth.schemes");
    }
    c->options.auth_schemes = c->auth_schemes;
    return 0;
}

int zoo_cfg_session_limits(struct zoo_cfg *c, struct client_limits *l, int32_t min_ms,
                           int32_t max_ms)
{
    l->session_min_ms = min_ms >= 0 ? min_ms : 2 * l->tick_ms;
    l->session_max_ms = max_ms >= 0 ? max_ms : 20 * l->tick_ms;
    if (l->session_min_ms < 1) {
        l->session_min_ms = 1;
    }
    if (l->session_min_ms > l->session_max_ms) {
        return key_fail(
            c,
            "session timeouts: minSessionTimeout %d ms is greater than maxSessionTimeout %d ms "
            "(defaults: 2 and 20 times tickTime)",
            l->session_min_ms, l->session_max_ms);
    }
    return 0;
}

static int config_conclude(struct zoo_cfg *c)
{
    struct server_options *o = &c->options;
    struct client_limits *l = &o->limits;
    if (c->data_dir != NULL) {
        o->data_dir = c->data_dir;
    }
    o->apache_log_dir = c->apache_log_dir;
    o->audit_file = c->audit_file;
    /* The profile changes defaults, so it comes before the steps that use them. */
    int rc = c->secure ? secure_profile_begin(c) : 0;
    if (rc == 0 && c->test) {
        rc = test_profile_begin(c);
    }
    if (rc == 0) {
        rc = config_conclude_access(c);
    }
    if (rc == 0) {
        rc = keys_sasl_conclude(c);
    }
    if (rc == 0) {
        rc = config_conclude_servers(c);
    }
    if (rc != 0) {
        return rc;
    }
    if (c->from_file && !c->have_address && !c->have_listen) {
        o->listen.host[0] = '\0'; /* as in Apache ZooKeeper: every interface */
    }
    rc = zoo_cfg_session_limits(c, l, c->session_min_ms, c->session_max_ms);
    if (rc == 0) {
        rc = keys_tls_conclude(c);
    }
    if (rc == 0) {
        rc = keys_mirror_conclude(c);
    }
    if (rc == 0) {
        rc = keys_tls_conclude_admin(c);
    }
    if (rc == 0) {
        keys_admin_conclude(c);
        rc = secure_profile_end(c);
    }
    if (rc == 0 && c->test) {
        test_profile_end(c);
    }
    if (rc != 0) {
        return rc;
    }
    assert(o->plain || o->secure);
    /* A value of 0 or less means no limit. */
    if ((int64_t)o->snapshot_log_bytes <= 0) {
        o->snapshot_log_bytes = SIZE_MAX / 4;
    }
    if (o->backlog < 1) {
        o->backlog = server_options_default().backlog;
    }
    return 0;
}

int zoo_cfg_parse(struct zoo_cfg *c, int argc, char **argv)
{
    const char *path = NULL;
    int rc = 0;
    if (!config_find_file(argc, argv, &path, c)) {
        return key_fail(c, "more than one file: conclave server [zoo.cfg] [options]; see --help");
    }
    if (c->help) {
        return 0;
    }
    if (path != NULL) {
        c->from_file = true;
        rc = config_file(c, path, false);
    }
    if (rc == 0) {
        rc = config_arguments(c, argc, argv);
    }
    return rc == 0 ? config_conclude(c) : rc;
}

/* Prints the text of a key from column HELP_TEXT_AT on, in lines of at most HELP_WIDTH. */
static void config_print_key(struct buf *out, const char *name, const char *text)
{
    enum { HELP_TEXT_AT = 31, HELP_WIDTH = 80 };
    buf_printf(out, "  %s", name);
    size_t at = 2 + strlen(name);
    for (const char *word = text; *word != '\0';) {
        size_t len = strcspn(word, " ");
        bool first = word == text;
        if (first ? at >= HELP_TEXT_AT : at + 1 + len > HELP_WIDTH) {
            buf_append_str(out, "\n");
            at = 0;
            first = true;
        }
        assert(!first || at < HELP_TEXT_AT);
        size_t gap = first ? HELP_TEXT_AT - at : 1;
        buf_printf(out, "%*s%.*s", (int)gap, "", (int)len, word);
        at += gap + len;
        word += len;
        word += strspn(word, " ");
    }
    buf_append_str(out, "\n");
}

void zoo_cfg_print_keys(struct buf *out)
{
    enum { HELP_TEXT_MAX = 600 };
    for (size_t i = 0; i < key_table_count; i++) {
        const struct key_row *row = &key_table[i];
        if (row->kind != KEY_IDLE && row->kind != KEY_REFUSED) {
            char text[HELP_TEXT_MAX];
            snprintf(text, sizeof text, "%s%s", row->text,
                     row->effect == KEY_LIVE ? " [reload]" : "");
            config_print_key(out, row->name, text);
        }
    }
}
