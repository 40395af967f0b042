/* conclave members drain: empties one server before a restart, and waits until it is safe to stop. */
#include "cli/common/connection.h"
#include "cli/common/ensemble_view.h"
#include "cli/common/values.h"
#include "cli/ops/admin_request.h"
#include "cli/ops/members.h"
#include "cli/ops/members_admin.h"

#include <jansson.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASK_MS = 2000, LOOK_MS = 200 };

/* What a server says about its drain. */
struct drain_answer {
    bool draining;
    bool leads;
    bool safe;
    int64_t clients;
    char *text; /* the whole answer; free it */
};

/* A member of the JSON text `{"name":VALUE,...}`; false: another server answers there. */
static bool drain_read(const struct buf *body, struct drain_answer *ret)
{
    json_t *root = json_loadb((const char *)body->data, body->len, 0, NULL);
    const json_t *clients = json_object_get(root, "clients");
    bool good = json_is_integer(clients);
    if (good) {
        ret->clients = json_integer_value(clients);
        ret->draining = json_is_true(json_object_get(root, "draining"));
        ret->leads = json_is_true(json_object_get(root, "leads"));
        ret->safe = json_is_true(json_object_get(root, "safe_to_stop"));
        ret->text = strndup((const char *)body->data, body->len);
    }
    json_decref(root);
    return good && ret->text != NULL;
}

static int drain_ask(const struct members_options *options, const char *admin, const char *method,
                     const char *target, struct drain_answer *ret)
{
    char header[ADMIN_AUTH_MAX];
    struct buf body;
    unsigned status = 0;
    *ret = (struct drain_answer){.text = NULL};
    int code = admin_request(MEMBERS_USAGE.name, &options->common, admin, method, target,
                             admin_authorization(&options->common, header), &status, &body);
    if (code == 0 && status != 200) {
        code = admin_request_refused(MEMBERS_USAGE.name, admin, status, &body);
    } else if (code == 0 && !drain_read(&body, ret)) {
        fprintf(stderr,
                "conclave members: %s: this server does not know drain: update it, or stop it "
                "as it is\n",
                admin);
        code = CLI_EXIT_UNAVAILABLE;
    }
    buf_finish(&body);
    return code;
}

static int drain_end_of(const struct members_options *options, uint64_t number,
                        const struct drain_answer *a)
{
    if (options->common.json) {
        printf("%s", a->text);
    } else if (options->undo) {
        printf("server %" PRIu64 " serves again\n", number);
    } else {
        printf("server %" PRIu64 " is safe to stop\n", number);
    }
    return 0;
}

/* Asks until it is safe to stop the server, with progress on stderr. */
static int drain_wait(const struct members_options *options, uint64_t number, const char *admin)
{
    int64_t told = -1;
    for (int64_t waited = 0; waited < options->common.timeout_ms; waited += LOOK_MS) {
        struct drain_answer a;
        int code = drain_ask(options, admin, "GET", "/members/drain", &a);
        if (code == 0 && !a.draining) {
            fprintf(stderr, "conclave members: somebody took the drain back, or restarted it\n");
            code = CLI_EXIT_FAILED;
        }
        if (code != 0 || a.safe) {
            code = code == 0 ? drain_end_of(options, number, &a) : code;
            free(a.text);
            return code;
        }
        if (a.clients != told) {
            fprintf(stderr, "server %" PRIu64 ": %" PRId64 " clients%s\n", number, a.clients,
                    a.leads ? ", leads" : "");
        }
        told = a.clients;
        free(a.text);
        (void)usleep(LOOK_MS * 1000);
    }
    fprintf(stderr,
            "conclave members: server %" PRIu64 " is not empty in time, and goes on emptying: see "
            "\"conclave status\"; --undo takes it back\n",
            number);
    return CLI_EXIT_TIMEOUT;
}

static int drain_find(const struct members_options *options, uint64_t id,
                      char ret[ROSTER_ADDRESS_MAX])
{
    struct ensemble_view view;
    int code = ensemble_view_gather(MEMBERS_USAGE.name, &options->common, ASK_MS, &view);
    if (code == 0 && options->admin != NULL) {
        snprintf(ret, ROSTER_ADDRESS_MAX, "%s", options->admin);
    } else if (code == 0) {
        const struct admin_wanted wanted = {.only = id};
        code = members_admin_find(MEMBERS_USAGE.name, &options->common, &view, &wanted, ret);
    }
    ensemble_view_finish(&view);
    return code;
}

int members_drain(const struct members_options *options, const struct operands *operands)
{
    char admin[ROSTER_ADDRESS_MAX];
    char target[64];
    struct drain_answer a = {.text = NULL};
    int64_t number;
    if (!integer_parse(operands->words[1], 0, 255, &number)) {
        return usage_error(&MEMBERS_USAGE, "\"%s\" is no member's id", operands->words[1]);
    }
    int code = drain_find(options, ensemble_view_id(number), admin);
    if (code != 0) {
        return code;
    }
    if (options->undo) {
        snprintf(target, sizeof target, "/members/drain?undo=1");
    } else {
        snprintf(target, sizeof target, "/members/drain?within=%" PRId64, options->within_ms);
    }
    code = drain_ask(options, admin, "POST", target, &a);
    if (code == 0 && options->undo) {
        code = drain_end_of(options, (uint64_t)number, &a);
    }
    free(a.text);
    return code != 0 || options->undo ? code : drain_wait(options, (uint64_t)number, admin);
}
