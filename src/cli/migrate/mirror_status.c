/* jansson reads here, and only here, because base/json.h and jansson share names. */
#include "cli/migrate/mirror_status.h"

#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/server_query.h"
#include "cli/ops/admin_ports.h"
#include "cli/ops/admin_request.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIND_MS = 10000, FIND_AGAIN_MS = 200 };

static void status_copy(const json_t *o, const char *key, char *to, size_t size)
{
    const char *text = json_string_value(json_object_get(o, key));
    (void)snprintf(to, size, "%s", text != NULL ? text : "");
    for (unsigned char *at = (unsigned char *)to; *at != '\0'; at++) {
        *at = *at < ' ' || *at == 0x7f ? '?' : *at; /* nothing moves a terminal's cursor */
    }
}

static int64_t status_int(const json_t *o, const char *key)
{
    return json_integer_value(json_object_get(o, key));
}

static int64_t status_hex(const json_t *o, const char *key)
{
    const char *text = json_string_value(json_object_get(o, key));
    return text != NULL ? (int64_t)strtoull(text, NULL, 16) : 0;
}

/* False: another program answers there. */
static bool status_read(const struct buf *body, struct mirror_status *s)
{
    json_t *o = json_loadb((const char *)body->data, body->len, 0, NULL);
    bool good = json_is_boolean(json_object_get(o, "mirror"));
    if (good) {
        s->mirror = json_is_true(json_object_get(o, "mirror"));
        s->leads = json_is_true(json_object_get(o, "leads"));
        s->synced = json_is_true(json_object_get(o, "synced"));
        status_copy(o, "source", s->source, sizeof s->source);
        status_copy(o, "reads", s->reads, sizeof s->reads);
        status_copy(o, "stage", s->stage, sizeof s->stage);
        status_copy(o, "server", s->server, sizeof s->server);
        status_copy(o, "trouble", s->trouble, sizeof s->trouble);
        status_copy(o, "act", s->act, sizeof s->act);
        s->zxid = status_hex(o, "zxid");
        s->source_zxid = status_hex(o, "source_zxid");
        s->barrier_zxid = status_hex(o, "barrier_zxid");
        s->behind = status_int(o, "behind");
        s->behind_ms = status_int(o, "behind_ms");
        s->heard_ms = status_int(o, "heard_ms");
        s->transactions = status_int(o, "transactions");
        s->states = status_int(o, "states");
        s->breaks = status_int(o, "breaks");
        s->nodes = status_int(o, "nodes");
        s->sessions = status_int(o, "sessions");
        s->backlog = status_int(o, "backlog");
        s->has_digest = json_is_string(json_object_get(o, "digest"));
        s->digest = status_hex(o, "digest");
        s->source_digest = status_hex(o, "source_digest");
        s->act_waits = json_is_true(json_object_get(o, "act_waits"));
        s->act_err = (int32_t)status_int(o, "act_err");
        free(s->text);
        s->text = strndup((const char *)body->data, body->len);
    }
    json_decref(o);
    return good && s->text != NULL;
}

void mirror_status_finish(struct mirror_status *s)
{
    free(s->text);
    s->text = NULL;
}

/* What the servers say. */
struct status_search {
    struct mirror_status *best;
    bool any;
};

static void take_status(void *ctx, struct admin_port *p, unsigned status, struct buf *body)
{
    struct status_search *search = ctx;
    struct mirror_status one = {.text = NULL};
    search->any = true;
    (void)snprintf(one.address, sizeof one.address, "%s", p->address);
    if (status == 200 && status_read(body, &one) && one.leads && !search->best->leads) {
        mirror_status_finish(search->best);
        *search->best = one;
    } else {
        mirror_status_finish(&one);
    }
}

static int search_once(const struct migrate_options *o, struct status_search *search)
{
    struct admin_ports ports;
    int code = admin_ports_find("migrate", &o->common, o->admin, &ports);
    if (code == 0) {
        code = admin_ports_ask("migrate", &o->common, &ports, "GET", "/mirror", NULL, take_status,
                               search);
    }
    admin_ports_finish(&ports);
    return code;
}

int mirror_status_find(const struct migrate_options *o, struct mirror_status *ret)
{
    struct status_search search = {.best = ret};
    int code = 0;
    *ret = (struct mirror_status){.text = NULL};
    for (int64_t waited = 0; code == 0 && !ret->leads && waited < FIND_MS;
         waited += FIND_AGAIN_MS) {
        code = search_once(o, &search);
        if (code == 0 && !ret->leads) {
            (void)usleep(FIND_AGAIN_MS * 1000);
        }
    }
    if (code == 0 && !ret->leads) {
        fprintf(stderr,
                "conclave migrate: %s; name the HTTP ports of the Conclave servers with --admin "
                "HOST:PORT,...\n",
                search.any ? "no server leads, or the one that does did not answer"
                           : "no HTTP port of a server answers");
        code = CLI_EXIT_UNAVAILABLE;
    }
    return code;
}

int mirror_status_again(const struct migrate_options *o, bool quiet, struct mirror_status *s)
{
    struct server_query ask = {.port = 0};
    struct buf question;
    struct buf body;
    unsigned status = 0;
    buf_init(&body, 0);
    (void)server_query_address(&ask, s->address);
    admin_request_write(&question, "GET", "/mirror", s->address, NULL);
    ask.question = buf_slice(&question);
    int code = server_query_all("migrate", &o->common, o->common.timeout_ms, &ask, 1);
    bool good = code == 0 && ask.error == 0 && admin_request_read(&ask.answer, &status, &body) &&
                status == 200 && status_read(&body, s);
    if (!good && !quiet) {
        fprintf(stderr, "conclave migrate: %s: no answer\n", s->address);
    }
    buf_finish(&ask.answer);
    buf_finish(&question);
    buf_finish(&body);
    return good ? 0 : CLI_EXIT_UNAVAILABLE;
}

int mirror_act(const struct migrate_options *o, const struct mirror_status *s, const char *target,
               struct slice body, struct buf *ret_answer)
{
    char header[ADMIN_AUTH_MAX];
    struct server_query ask = {.port = 0};
    struct buf question;
    struct buf answer;
    unsigned status = 0;
    buf_init(&answer, 0);
    buf_init(&question, 0);
    const char *authorization = admin_authorization(&o->common, header);
    buf_printf(&question, "POST %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n", target,
               s->address);
    if (authorization != NULL) {
        buf_printf(&question, "Authorization: %s\r\n", authorization);
    }
    buf_printf(&question, "Content-Length: %zu\r\n\r\n", body.len);
    buf_append_slice(&question, body);
    (void)server_query_address(&ask, s->address);
    ask.question = buf_slice(&question);
    int code = buf_ok(&question)
                   ? server_query_all("migrate", &o->common, o->common.timeout_ms, &ask, 1)
                   : fail("migrate", NULL, CONCLAVE_ENOMEM);
    if (code == 0 && (ask.error != 0 || !admin_request_read(&ask.answer, &status, &answer))) {
        fprintf(stderr, "conclave migrate: %s: %s\n", s->address,
                ask.error != 0 ? ask.why : "this is not the HTTP port of a server");
        code = CLI_EXIT_UNAVAILABLE;
    } else if (code == 0 && status != 200) {
        code = admin_request_refused("migrate", s->address, status, &answer);
    }
    if (ret_answer != NULL) {
        *ret_answer = answer;
        buf_init(&answer, 0);
    }
    buf_finish(&answer);
    buf_finish(&ask.answer);
    buf_finish(&question);
    return code;
}

int64_t mirror_taken(const struct buf *answer)
{
    json_t *o = json_loadb((const char *)answer->data, answer->len, 0, NULL);
    const json_t *taken = json_object_get(o, "taken");
    int64_t n = json_is_integer(taken) ? json_integer_value(taken) : -1;
    json_decref(o);
    return n;
}
