/*
 * conclave reload: servers read their configuration again, without a restart. Each answers which keys changed, and which of
 * them need a restart.
 */
#include "cli/common/connection.h"
#include "cli/ops/admin_ports.h"
#include "cli/ops/admin_request.h"

#include <jansson.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reload_options {
    struct common_options common;
    const char *admin;
    const char *set;
};

static const struct option_row ROWS[] = {
    {"admin", 0, OPTION_STRING, offsetof(struct reload_options, admin), "HOST:PORT",
     "Ask these HTTP ports, separated by commas, instead of those that the servers name."},
    {"set", 0, OPTION_STRING, offsetof(struct reload_options, set), "KEY=VALUE",
     "Change only this key, until the next reload or restart: --set log.level=debug."},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "reload",
    .forms = (const char *const[]){"[options]", NULL},
    .about =
        "Makes servers read their configuration file again, as SIGHUP does, and the certificates, "
        "secrets and users that it names. Keys that are marked [reload] in \"conclave server "
        "--help-all\" take effect at once; a change of another key is reported, and waits for a "
        "restart. If the file is at fault, nothing changes, and the answer says where.\n"
        "\n"
        "All servers of --server and the members that they name are asked, at their HTTP ports, as "
        "an administrator (--auth). Each reads its own file.",
    .rows = ROWS,
    .more =
        "With --json: {\"servers\":[{\"server\",\"keys\":[{\"key\",\"old\",\"new\",\n"
        "\"result\"}],\"files\":[{\"file\",\"result\",\"reason\"}]}, or {\"admin\",\"error\"}]}.\n",
    .client = true,
};

struct reload_view {
    struct admin_ports ports;
    json_t *answers[ADMIN_PORTS_MAX]; /* NULL: none */
    bool denied;                      /* a server wants other credentials */
    bool refused;                     /* a server refuses its configuration, or this request */
};

/* Replaces what would move a terminal's cursor. */
static void make_printable(char *text)
{
    for (char *at = text; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            *at = '?';
        }
    }
}

/* The member of an answer, for a terminal. */
static const char *answer_text(const json_t *object, const char *key, const char *otherwise,
                               char out[ROSTER_TEXT_MAX])
{
    const char *text = json_string_value(json_object_get(object, key));
    snprintf(out, ROSTER_TEXT_MAX, "%s", text != NULL ? text : otherwise);
    make_printable(out);
    return out;
}

static void reload_take(void *ctx, struct admin_port *p, unsigned status, struct buf *body)
{
    struct reload_view *v = ctx;
    json_t *root = json_loadb((const char *)body->data, body->len, 0, NULL);
    if (status == 200 && json_is_array(json_object_get(root, "keys"))) {
        (void)json_object_del(root, "command");
        (void)json_object_del(root, "error");
        v->answers[p - v->ports.items] = root;
        return;
    }
    const char *error = json_string_value(json_object_get(root, "error"));
    bool auth = status == 401 || status == 403;
    v->denied = v->denied || auth;
    v->refused = true;
    (void)text_fail(&p->why, 0, "%s: %s (HTTP %u)%s", p->address,
                    error != NULL ? error : "it does not know reload", status,
                    admin_request_advice(status));
    if (p->why != NULL) {
        make_printable(p->why);
    }
    json_decref(root);
}

static int reload_print_json(const struct reload_view *v)
{
    json_t *list = json_array();
    json_t *all = json_pack("{s:o}", "servers", list);
    char *text = NULL;
    for (size_t i = 0; i < v->ports.count; i++) {
        const struct admin_port *p = &v->ports.items[i];
        (void)json_array_append_new(
            list, v->answers[i] != NULL
                      ? json_incref(v->answers[i])
                      : json_pack("{s:s,s:s}", "admin", p->address, "error",
                                  p->why != NULL ? p->why : "it does not answer this"));
    }
    text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    if (text == NULL) {
        return fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    }
    puts(text);
    free(text);
    return 0;
}

static void print_files(const json_t *files)
{
    char name[ROSTER_TEXT_MAX];
    char why[ROSTER_TEXT_MAX];
    for (size_t i = 0; i < json_array_size(files); i++) {
        const json_t *row = json_array_get(files, i);
        const char *result = json_string_value(json_object_get(row, "result"));
        bool read = result != NULL && strcmp(result, "read") == 0;
        printf("  %s: %s%s\n", answer_text(row, "file", "?", name),
               read ? "read again" : "kept the old: ",
               read ? "" : answer_text(row, "reason", "", why));
    }
}

static void print_answer(const struct admin_port *p, const json_t *answer)
{
    char texts[3][ROSTER_TEXT_MAX];
    char result[ROSTER_TEXT_MAX];
    const json_t *keys = json_object_get(answer, "keys");
    size_t changed = 0;
    printf("server %lld (%s)\n", (long long)json_integer_value(json_object_get(answer, "server")),
           p->address);
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const json_t *row = json_array_get(keys, i);
        if (strcmp(answer_text(row, "result", "unchanged", result), "unchanged") == 0) {
            continue;
        }
        if (changed++ == 0) {
            printf("  %-36s %-15s %-15s %s\n", "KEY", "OLD", "NEW", "RESULT");
        }
        printf("  %-36s %-15s %-15s %s\n", answer_text(row, "key", "?", texts[0]),
               answer_text(row, "old", "default", texts[1]),
               answer_text(row, "new", "default", texts[2]),
               strcmp(result, "needs-restart") == 0 ? "needs a restart" : result);
    }
    if (changed == 0) {
        puts("  no key changed");
    }
    print_files(json_object_get(answer, "files"));
}

static void reload_print_text(const struct reload_view *v, bool set)
{
    bool any = false;
    for (size_t i = 0; i < v->ports.count; i++) {
        if (v->answers[i] != NULL) {
            print_answer(&v->ports.items[i], v->answers[i]);
            any = true;
        }
    }
    if (any && set) {
        puts("Until the next reload or restart; to keep it, write it into the configuration file.");
    }
    (void)fflush(stdout);
    for (size_t i = 0; i < v->ports.count; i++) {
        if (v->answers[i] == NULL) {
            fprintf(stderr, "conclave reload: %s\n",
                    v->ports.items[i].why != NULL ? v->ports.items[i].why : "out of memory");
        }
    }
}

/* "/commands/reload?set=...": what is no letter, digit, dot or hyphen is written as %XX. */
static bool reload_target(struct buf *target, const char *set)
{
    buf_init(target, 0);
    buf_append_str(target, set != NULL ? "/commands/reload?set=" : "/commands/reload");
    for (const char *at = set != NULL ? set : ""; *at != '\0'; at++) {
        bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
                     (*at >= '0' && *at <= '9') || *at == '.' || *at == '-';
        buf_printf(target, plain ? "%c" : "%%%02X", (unsigned char)*at);
    }
    return buf_cstr(target) != NULL;
}

static int reload_ask(const struct reload_options *options, struct reload_view *v)
{
    char header[ADMIN_AUTH_MAX];
    struct buf target;
    int code = admin_ports_find(USAGE.name, &options->common, options->admin, &v->ports);
    if (code != 0) {
        return code;
    }
    if (reload_target(&target, options->set)) {
        code = admin_ports_ask(USAGE.name, &options->common, &v->ports, "POST", buf_cstr(&target),
                               admin_authorization(&options->common, header), reload_take, v);
    } else {
        code = fail(USAGE.name, NULL, CONCLAVE_ENOMEM);
    }
    buf_finish(&target);
    return code;
}

int command_reload(int argc, char **argv)
{
    struct reload_options options = {.common = COMMON_OPTIONS_INIT};
    struct reload_view v = {.denied = false};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (options.set != NULL && strchr(options.set, '=') == NULL) {
        return usage_error(&USAGE, "--set wants KEY=VALUE, such as log.level=debug");
    }
    code = reload_ask(&options, &v);
    if (code == 0) {
        size_t missing = 0;
        if (options.common.json) {
            code = reload_print_json(&v);
        } else {
            reload_print_text(&v, options.set != NULL);
        }
        for (size_t i = 0; i < v.ports.count; i++) {
            missing += v.answers[i] == NULL;
        }
        if (code == 0 && (missing > 0 || v.ports.count == 0)) {
            code = v.denied ? CLI_EXIT_AUTH : v.refused ? CLI_EXIT_FAILED : CLI_EXIT_UNAVAILABLE;
        }
    }
    for (size_t i = 0; i < v.ports.count; i++) {
        json_decref(v.answers[i]);
    }
    admin_ports_finish(&v.ports);
    return output_end(USAGE.name, code);
}
