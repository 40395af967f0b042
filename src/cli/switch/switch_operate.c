/* conclave switch --list, --cede and --override: for operators, without taking part; and requests to members. */
#include "cli/switch/switch.h"

#include "base/clock.h"
#include "base/random.h"
#include "cli/common/record.h"
#include "cli/common/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    LOOK_AGAIN_MS = 100,
    ANSWER_TIMEOUT_MS = 5000,
    JOIN_TIMEOUT_MS = 10000,
    REQUEST_RANDOM_BYTES = 4
};

/* The nodes below DIR. */
struct switch_picture {
    struct conclave_elector_view *view;
    struct conclave_elector_member **members;
    size_t count;
};

static int picture_take(struct conclave_recipes *recipes, const struct switch_options *o,
                        struct switch_picture *ret)
{
    int64_t timeout_ms = o->hold.common.timeout_ms < ANSWER_TIMEOUT_MS ? o->hold.common.timeout_ms
                                                                       : ANSWER_TIMEOUT_MS;
    *ret = (struct switch_picture){0};
    int error = conclave_elector_view(recipes, o->hold.path, timeout_ms, &ret->view);
    if (error == 0) {
        error =
            conclave_elector_members(recipes, o->hold.path, timeout_ms, &ret->members, &ret->count);
        if (error != 0) {
            conclave_elector_view_free(ret->view);
        }
    }
    return error;
}

static void picture_free(struct switch_picture *p)
{
    conclave_elector_view_free(p->view);
    conclave_elector_members_free(p->members, p->count);
}

/* Whether the holder of the lock has become active with it. Hadoop's elector writes the same into both nodes. */
static bool has_active(const struct conclave_elector_view *v)
{
    if (v->lock == NULL || v->active == NULL || v->active->clean) {
        return false;
    }
    if (v->active->id[0] == '\0') {
        return slice_equal(slice_make(v->active->data, v->active->data_len),
                           slice_make(v->lock->data, v->lock->data_len));
    }
    return v->active->token.czxid == v->lock->token.czxid;
}

/* A breadcrumb's name: its id, or what Hadoop's message calls it. */
static const char *name_of(const struct conclave_breadcrumb *crumb, struct address *space)
{
    address_read(crumb->data, crumb->data_len, space);
    return crumb->id[0] != '\0' ? crumb->id : space->id;
}

const char *switch_state_word(enum conclave_elector_state state)
{
    static const char *const words[] = {"init",    "neutral", "standby",
                                        "fencing", "active",  "observer"};
    return (unsigned)state < sizeof words / sizeof words[0] ? words[state] : "unknown";
}

/* --- list ----------------------------------------------------------------------------- */

static void crumb_print(const char *role, const struct conclave_breadcrumb *crumb)
{
    struct address a;
    const char *id = name_of(crumb, &a);
    printf("%s\t%s\t%" PRId64 "\t%s:%d\t%s\n", role, id, crumb->token.czxid, a.host, a.port,
           strcmp(role, "lock") == 0     ? ""
           : strcmp(role, "active") == 0 ? "serving"
           : crumb->clean                ? "clean"
                                         : "unclean");
}

static void crumb_json(struct json *j, const char *key, const struct conclave_breadcrumb *crumb)
{
    struct address a;
    if (crumb == NULL) {
        json_member_null(j, key);
        return;
    }
    const char *id = name_of(crumb, &a);
    json_key(j, key);
    json_object_begin(j);
    json_member_string(j, "id", id);
    json_member_string(j, "incarnation", crumb->incarnation);
    json_member_int(j, "token", crumb->token.czxid);
    json_member_bool(j, "clean", crumb->clean);
    json_member_string(j, "host", a.host);
    json_member_int(j, "port", a.port);
    json_data(j, a.data.data, a.data.len);
    json_object_end(j);
}

static int list_lines(const struct switch_options *o, const struct switch_picture *p)
{
    output_titles(&o->hold.common, (p->view->lock != NULL) + (p->view->active != NULL) + p->count,
                  "ROLE\tID\tTOKEN\tADDRESS\tSTATE");
    if (has_active(p->view)) {
        crumb_print("active", p->view->active);
    } else {
        printf("none\n");
    }
    if (p->view->lock != NULL) {
        crumb_print("lock", p->view->lock);
    }
    if (p->view->active != NULL) {
        crumb_print("breadcrumb", p->view->active);
    }
    for (size_t i = 0; i < p->count; i++) {
        const struct conclave_elector_member *m = p->members[i];
        struct address a;
        address_read(m->data, m->data_len, &a);
        printf("member\t%s\t%" PRId64 "\t%s:%d\t%s%s,%s\n", m->id, m->token.czxid, a.host, a.port,
               switch_state_word(m->state), m->ready ? ",ready" : "",
               conclave_health_name(m->health));
    }
    return 0;
}

static int switch_operate_list_json(const struct switch_options *o, const struct switch_picture *p)
{
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "path", o->hold.path);
    json_member_bool(&j, "active", has_active(p->view));
    crumb_json(&j, "lock", p->view->lock);
    crumb_json(&j, "breadcrumb", p->view->active);
    json_key(&j, "members");
    json_array_begin(&j);
    for (size_t i = 0; i < p->count; i++) {
        const struct conclave_elector_member *m = p->members[i];
        struct address a;
        address_read(m->data, m->data_len, &a);
        json_object_begin(&j);
        json_member_string(&j, "id", m->id);
        json_member_string(&j, "role", m->observer ? "observer" : "participant");
        json_member_string(&j, "state", conclave_elector_state_name(m->state));
        json_member_bool(&j, "ready", m->ready);
        json_member_string(&j, "health", conclave_health_name(m->health));
        json_member_int(&j, "token", m->token.czxid);
        json_member_string(&j, "host", a.host);
        json_member_int(&j, "port", a.port);
        json_member_hex(&j, "session", m->session_id);
        json_object_end(&j);
    }
    json_array_end(&j);
    return json_line_print(&j, stdout);
}

/* --- the frame -------------------------------------------------------------------------- */

int switch_ask(const struct switch_options *o, recipes_fn question)
{
    struct common_options common = o->hold.common;
    common.timeout_ms =
        common.timeout_ms < ANSWER_TIMEOUT_MS ? common.timeout_ms : ANSWER_TIMEOUT_MS;
    struct switch_options options = *o;
    return output_end(SWITCH_USAGE.name,
                      connection_run_recipes(SWITCH_USAGE.name, &common, question, &options));
}

static int list(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    const struct switch_options *o = ctx;
    struct switch_picture p;
    int error = picture_take(recipes, o, &p);
    if (error == 0) {
        error = o->hold.common.json ? switch_operate_list_json(o, &p) : list_lines(o, &p);
        picture_free(&p);
    }
    return error == 0 ? 0 : fail(SWITCH_USAGE.name, o->hold.path, error);
}

int switch_list(const struct switch_options *options)
{
    return switch_ask(options, list);
}

/* --- override --------------------------------------------------------------------------- */

static int override(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    const struct switch_options *o = ctx;
    struct conclave_token token = {0};
    if (!integer_parse(o->override, 1, INT64_MAX, &token.czxid)) {
        return usage_error(&SWITCH_USAGE,
                           "--override wants the token of the breadcrumb, not \"%s\"", o->override);
    }
    int error =
        conclave_elector_override(recipes, o->hold.path, token, NULL, 0, o->hold.common.timeout_ms);
    if (error == CONCLAVE_ECONFLICT) {
        fprintf(stderr,
                "conclave switch: %s: there is nobody with token %s to be fenced; see \"conclave "
                "switch %s --list\"\n",
                o->hold.path, o->override, o->hold.path);
        return CLI_EXIT_FAILED;
    }
    if (error == CONCLAVE_NO_NODE) {
        fprintf(stderr, "conclave switch: %s: nobody was active there\n", o->hold.path);
        return CLI_EXIT_FAILED;
    }
    return error == 0 ? 0 : fail(SWITCH_USAGE.name, o->hold.path, error);
}

int switch_override(const struct switch_options *options)
{
    return switch_ask(options, override);
}

/* --- cede --------------------------------------------------------------------------------
 *
 * The request is an ephemeral node in <dir>/requests with the token of the active member: it concerns no other member,
 * and ends with this process. The outcome is read from the elector's nodes, and not from the member's answer. */

struct ceding {
    int64_t token; /* of the member that is asked to step down */
    char id[CARD_NAME_MAX];
    bool stepped_down;
};

/* Whether the new active member is ready; one without a node below <dir>/members (Hadoop's) counts as ready. */
static bool is_ready(const struct switch_picture *p, const char *id, int64_t token)
{
    for (size_t i = 0; i < p->count; i++) {
        if (strcmp(p->members[i]->id, id) == 0) {
            return p->members[i]->ready && p->members[i]->token.czxid == token;
        }
    }
    return true;
}

/* The exit code once it is over, -1 before. */
static int switch_operate_look(const struct switch_options *o, struct ceding *c,
                               const struct switch_picture *p)
{
    struct address space;
    const struct conclave_elector_view *v = p->view;
    int64_t token = v->active != NULL ? v->active->token.czxid : 0;
    c->stepped_down = c->stepped_down || v->active == NULL || v->active->clean || token != c->token;
    if (!has_active(v) || token == c->token) {
        return -1;
    }
    const char *id = name_of(v->active, &space);
    if (strcmp(id, c->id) == 0) {
        fprintf(stderr, "conclave switch: %s: nobody else took over: %s is active again\n",
                o->hold.path, id);
        return CLI_EXIT_FAILED;
    }
    if (!is_ready(p, id, token)) {
        return -1;
    }
    struct record r;
    record_begin(&r, o->hold.common.json);
    if (r.json) {
        json_member_string(&r.j, "from", c->id);
    } else {
        record_string(&r, NULL, "active");
    }
    record_string(&r, "active", id);
    record_int(&r, "token", token);
    return record_print(&r) == 0 ? 0 : CLI_EXIT_IO;
}

static int wait_for_next(struct conclave_recipes *recipes, const struct switch_options *o,
                         struct ceding *c)
{
    int64_t deadline_ms = clock_monotonic_ms(clock_system()) + o->hold.common.timeout_ms;
    char timeout[DURATION_TEXT_MAX];
    do {
        struct switch_picture p;
        int error = picture_take(recipes, o, &p);
        if (error == 0) {
            int code = switch_operate_look(o, c, &p);
            picture_free(&p);
            if (code >= 0) {
                return code;
            }
        } else if (!conclave_error_retryable(error)) {
            return fail(SWITCH_USAGE.name, o->hold.path, error);
        }
        usleep(LOOK_AGAIN_MS * 1000);
    } while (clock_monotonic_ms(clock_system()) < deadline_ms);
    fprintf(stderr, "conclave switch: %s: %s %s\n", o->hold.path, c->id,
            c->stepped_down ? "has stepped down, and nobody has become active"
                            : "has not stepped down");
    fprintf(stderr, "conclave switch: %s: within %s; see \"conclave switch %s --list\"\n",
            o->hold.path, duration_text(o->hold.common.timeout_ms, timeout), o->hold.path);
    return CLI_EXIT_TIMEOUT;
}

int switch_request_begin(struct conclave_recipes *recipes, const struct switch_options *o,
                         const struct switch_request *request, struct conclave_group **ret)
{
    char path[SWITCH_PATH_MAX];
    char id[HOLD_ID_MAX + 32];
    struct buf text;
    char random[2 * REQUEST_RANDOM_BYTES + 1];
    struct conclave_group_options options = CONCLAVE_GROUP_OPTIONS_INIT;
    random_text(random, REQUEST_RANDOM_BYTES);
    (void)snprintf(id, sizeof id, "%s-%s-%s", request->to[0] != '\0' ? "role" : "cede", o->hold.id,
                   random);
    for (char *at = id; *at != '\0'; at++) {
        *at = (char)(*at == '/' ? '_' : *at);
    }
    buf_init(&text, 0);
    request_write(&text, request);
    switch_path(path, o->hold.path, SWITCH_REQUESTS);
    options.path = path;
    options.id = id;
    options.data = text.data;
    options.data_len = text.len;
    int error =
        buf_ok(&text) ? conclave_group_open(recipes, &options, NULL, NULL, ret) : CONCLAVE_ENOMEM;
    buf_finish(&text);
    if (error != 0) {
        return fail(SWITCH_USAGE.name, o->hold.path, error);
    }
    error = conclave_group_wait_joined(*ret, JOIN_TIMEOUT_MS);
    return error == 0 ? 0
                      : switch_request_end(o, *ret, fail(SWITCH_USAGE.name, o->hold.path, error));
}

int switch_request_end(const struct switch_options *o, struct conclave_group *group, int code)
{
    int error = conclave_group_close_wait(group, ANSWER_TIMEOUT_MS);
    if (error != 0) {
        /* The handle cannot be given back; its node goes with the session. */
        code = code != 0 ? code : fail(SWITCH_USAGE.name, o->hold.path, error);
        fflush(NULL);
        _exit(code);
    }
    conclave_group_destroy(group);
    return code;
}

static int cede(struct conclave_client *client, struct conclave_recipes *recipes, void *ctx)
{
    const struct switch_options *o = ctx;
    struct switch_picture p;
    struct address space;
    struct conclave_group *group;
    struct ceding c = {0};
    int error = picture_take(recipes, o, &p);
    if (error != 0) {
        return fail(SWITCH_USAGE.name, o->hold.path, error);
    }
    if (!has_active(p.view)) {
        picture_free(&p);
        fprintf(stderr, "conclave switch: %s: nobody is active\n", o->hold.path);
        return CLI_EXIT_FAILED;
    }
    c.token = p.view->active->token.czxid;
    (void)snprintf(c.id, sizeof c.id, "%s", name_of(p.view->active, &space));
    picture_free(&p);
    struct switch_request request = {.token = c.token, .stay_out_ms = o->stay_out_ms};
    int code = switch_request_begin(recipes, o, &request, &group);
    return code == 0 ? switch_request_end(o, group, wait_for_next(recipes, o, &c)) : code;
}

int switch_cede(const struct switch_options *options)
{
    return switch_ask(options, cede);
}
