/* conclave status: the ensemble at a glance. */
#include "base/json.h"
#include "cli/common/connection.h"
#include "cli/common/ensemble_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WAIT_MS = 2000 };

static const struct command_usage USAGE = {
    .name = "status",
    .forms = (const char *const[]){"[options]", NULL},
    .about =
        "Shows the servers of an ensemble, one row each: those of --server and all that they name. "
        "Each is asked directly, without a session, so it works without a quorum, too.\n"
        "\n"
        "  lag          log entries that it has not applied yet\n"
        "  connections  client connections, the one of this question included\n"
        "\n"
        "The last line is the verdict: \"ok\", \"degraded\" (clients are served, but a member "
        "does not take part or warns of something: it says which), \"no quorum\" (nobody is served) or \"unreachable\" "
        "(no server answers). Servers are asked by the four-letter word memb, those of Apache "
        "ZooKeeper by srvr.",
    .more =
        "An answer is waited for no longer than --timeout, 2s where that is not given.\n"
        "\n"
        "With --json: {\"verdict\":V,\"wrong\":[TEXT...],\"leader\":ID,\n"
        "\"voters\":N,\"voters_serving\":N,\"servers\":[{\"id\",\"address\",\"role\",\"mode\",\n"
        "\"state\",\"zxid\",\"term\",\"lag\",\"applied\",\"connections\",\"sessions\",\n"
        "\"version\"}]}; what is not known is null.\n"
        "\n"
        "Exit codes: 0 ok or degraded, 1 no quorum, 69 unreachable.\n",
    .client = true,
};

enum verdict { VERDICT_OK, VERDICT_DEGRADED, VERDICT_NO_QUORUM, VERDICT_UNREACHABLE };

static const char *const VERDICTS[] = {"ok", "degraded", "no quorum", "unreachable"};

/* A row: a server that was asked, a member that nobody could ask, or both. */
struct row {
    const struct ensemble_view_server *server; /* NULL: its client address is not known */
    const struct ensemble_view_member *member; /* NULL: no member, or the members are not known */
};

struct status_picture {
    struct row *rows;
    size_t count;
    uint64_t commit; /* the newest known */
    uint64_t leader;
    size_t voters;
    size_t voters_serving;
    size_t serving;
    enum verdict verdict;
    struct buf wrong; /* one line each */
};

static const struct ensemble_view_server *server_of(const struct ensemble_view *r,
                                                    const struct ensemble_view_member *m)
{
    const struct ensemble_view_server *found = ensemble_view_find(r, m->id);
    for (size_t i = 0; found == NULL && i < r->count; i++) {
        if (!r->servers[i].answered && strcmp(r->servers[i].address, m->client) == 0) {
            found = &r->servers[i];
        }
    }
    return found;
}

static bool has_row(const struct status_picture *p, const struct ensemble_view_server *s)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->rows[i].server == s) {
            return true;
        }
    }
    return false;
}

/* It runs, and cannot be asked. */
static bool is_hidden(const struct row *row)
{
    return row->server == NULL && row->member != NULL && row->member->linked;
}

/* Whether it says that all is well although the ensemble's members, which are known, do not include it. */
static bool is_removed(const struct status_picture *p, const struct row *row)
{
    return p->voters > 0 && row->member == NULL && row->server->serves && row->server->id != 0;
}

static const char *state_of(const struct status_picture *p, const struct row *row)
{
    return row->server != NULL && is_removed(p, row) ? "no longer a member: stop it"
           : row->server != NULL                     ? row->server->state
           : is_hidden(row)                          ? "its client address is not known"
                                                     : "down, and its client address is not known";
}

static void tell_row_wrong(struct status_picture *p, const struct row *row, const char *text)
{
    if (row->member != NULL) {
        buf_printf(&p->wrong, "%s %" PRIu64 ": %s\n", row->member->voter ? "voter" : "observer",
                   row->member->id, text);
    } else {
        buf_printf(&p->wrong, "%s: %s\n", row->server->address, text);
    }
}

static void judge(struct status_picture *p)
{
    bool answered = false;
    size_t wrong = 0;
    for (size_t i = 0; i < p->count; i++) {
        const struct row *row = &p->rows[i];
        bool serves = row->server != NULL && row->server->serves && !is_removed(p, row);
        bool voter = row->member != NULL && row->member->voter;
        answered |= row->server != NULL && row->server->answered;
        p->serving += serves;
        p->voters += voter;
        p->voters_serving += voter && serves;
        if (!serves && !is_hidden(row)) {
            wrong++;
            tell_row_wrong(p, row, state_of(p, row));
        } else if (serves && row->server->warning[0] != '\0') {
            wrong++;
            tell_row_wrong(p, row, row->server->warning);
        }
    }
    p->verdict = !answered         ? VERDICT_UNREACHABLE
                 : p->serving == 0 ? VERDICT_NO_QUORUM
                 : wrong > 0       ? VERDICT_DEGRADED
                                   : VERDICT_OK;
}

static bool picture_make(const struct ensemble_view *r, struct status_picture *p)
{
    const struct ensemble_view_server *best = ensemble_view_best(r);
    size_t members = best != NULL ? best->members_count : 0;
    *p = (struct status_picture){.rows = calloc(members + r->count + 1, sizeof *p->rows)};
    buf_init(&p->wrong, 0);
    if (p->rows == NULL) {
        return false;
    }
    for (size_t i = 0; i < members; i++) {
        p->rows[p->count++] = (struct row){server_of(r, &best->members[i]), &best->members[i]};
    }
    for (size_t i = 0; i < r->count; i++) {
        const struct ensemble_view_server *s = &r->servers[i];
        p->commit = s->commit > p->commit ? s->commit : p->commit;
        if (!has_row(p, s)) {
            p->rows[p->count++] = (struct row){s, NULL};
        }
    }
    p->leader = best != NULL ? best->leader : 0;
    judge(p);
    return buf_ok(&p->wrong);
}

/* Text */

struct texts {
    char id[24];
    char term[24];
    char lag[24];
    char connections[24];
};

static void fill(const struct status_picture *p, const struct row *row, struct texts *t)
{
    const struct ensemble_view_server *s = row->server;
    uint64_t id = row->member != NULL ? row->member->id : s->id;
    snprintf(t->id, sizeof t->id, id > 0 ? "%" PRIu64 : "-", ensemble_view_number(id));
    if (s == NULL || !s->answered) {
        strcpy(t->term, "-");
        strcpy(t->lag, "-");
        strcpy(t->connections, "-");
        return;
    }
    uint64_t lag = p->commit > s->applied ? p->commit - s->applied : 0;
    snprintf(t->term, sizeof t->term, s->brief ? "-" : "%" PRIu64, s->term);
    snprintf(t->lag, sizeof t->lag, s->brief ? "-" : "%" PRIu64, lag);
    snprintf(t->connections, sizeof t->connections, "%" PRIu64, s->connections);
}

static const char *address_of(const struct row *row)
{
    return row->server != NULL              ? row->server->address
           : row->member->client[0] != '\0' ? row->member->client
                                            : "-";
}

static const char *mode_of(const struct row *row)
{
    const struct ensemble_view_server *s = row->server;
    return s != NULL && s->serves && s->mode[0] != '\0' ? s->mode : "-";
}

static const char *or_dash(const struct ensemble_view_server *s, const char *text)
{
    return s != NULL && s->answered && text[0] != '\0' ? text : "-";
}

static void picture_print(const struct status_picture *p)
{
    static const char FORMAT[] = "%-4s %-*s %-10s %-12s %6s %6s %6s  %-18s %s\n";
    int width = 8;
    for (size_t i = 0; i < p->count; i++) {
        int len = (int)strlen(address_of(&p->rows[i]));
        width = len > width ? len : width;
    }
    printf(FORMAT, "ID", width, "ADDRESS", "MODE", "ZXID", "TERM", "LAG", "CONNS", "VERSION",
           "STATE");
    for (size_t i = 0; i < p->count; i++) {
        const struct row *row = &p->rows[i];
        const struct ensemble_view_server *s = row->server;
        struct texts t;
        fill(p, row, &t);
        printf(FORMAT, t.id, width, address_of(row), mode_of(row),
               or_dash(s, s != NULL ? s->zxid : ""), t.term, t.lag, t.connections,
               or_dash(s, s != NULL ? s->version : ""), state_of(p, row));
    }
    printf("\n%s", VERDICTS[p->verdict]);
    if (p->voters > 0) {
        printf(": %zu of %zu voters serve", p->voters_serving, p->voters);
    } else if (p->serving > 0) {
        printf(": %zu of %zu servers serve", p->serving, p->count);
    }
    if (p->leader > 0 && p->verdict < VERDICT_NO_QUORUM) {
        printf(", %" PRIu64 " leads", ensemble_view_number(p->leader));
    }
    putchar('\n');
    if (p->wrong.len > 0) {
        fwrite(p->wrong.data, 1, p->wrong.len, stdout);
    }
}

/* JSON */

static void put_number(struct json *j, const char *key, bool known, uint64_t value)
{
    json_key(j, key);
    if (known) {
        json_uint(j, value);
    } else {
        json_null(j);
    }
}

static void row_json(struct json *j, const struct status_picture *p, const struct row *row)
{
    static const struct ensemble_view_server NONE;
    const struct ensemble_view_server *s =
        row->server != NULL && row->server->answered ? row->server : &NONE;
    bool full = s->answered && !s->brief;
    uint64_t id = row->member != NULL ? row->member->id : s->id;
    json_object_begin(j);
    put_number(j, "id", id > 0, ensemble_view_number(id));
    json_member_string_or_null(j, "address",
                               row->server != NULL ? row->server->address : row->member->client);
    json_member_string_or_null(j, "role",
                               row->member == NULL  ? ""
                               : row->member->voter ? "voter"
                                                    : "observer");
    json_member_string_or_null(j, "mode", s->serves ? s->mode : "");
    json_member_string_or_null(j, "state", state_of(p, row));
    json_member_string_or_null(j, "zxid", s->zxid);
    put_number(j, "term", full, s->term);
    put_number(j, "lag", full, p->commit > s->applied ? p->commit - s->applied : 0);
    put_number(j, "applied", full, s->applied);
    put_number(j, "connections", s->answered, s->connections);
    put_number(j, "sessions", full, s->sessions);
    json_member_string_or_null(j, "version", s->version);
    json_object_end(j);
}

static int picture_json(const struct status_picture *p)
{
    struct json j;
    json_line_begin(&j);
    json_member_string_or_null(&j, "verdict", VERDICTS[p->verdict]);
    json_key(&j, "wrong");
    json_array_begin(&j);
    for (struct slice rest = buf_slice(&p->wrong); rest.len > 0;) {
        const uint8_t *end = memchr(rest.data, '\n', rest.len);
        size_t len = (size_t)(end - rest.data);
        json_text(&j, slice_make(rest.data, len));
        rest = slice_make(rest.data + len + 1, rest.len - len - 1);
    }
    json_array_end(&j);
    put_number(&j, "leader", p->leader > 0, ensemble_view_number(p->leader));
    put_number(&j, "voters", p->voters > 0, p->voters);
    put_number(&j, "voters_serving", p->voters > 0, p->voters_serving);
    json_key(&j, "servers");
    json_array_begin(&j);
    for (size_t i = 0; i < p->count; i++) {
        row_json(&j, p, &p->rows[i]);
    }
    json_array_end(&j);
    return json_line_print(&j, stdout);
}

int command_status(int argc, char **argv)
{
    static const int CODES[] = {0, 0, CLI_EXIT_FAILED, CLI_EXIT_UNAVAILABLE};
    struct common_options options = COMMON_OPTIONS_INIT;
    struct operands operands;
    struct ensemble_view roster;
    struct status_picture picture;
    options.timeout_ms = WAIT_MS;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    code = ensemble_view_gather(USAGE.name, &options, options.timeout_ms, &roster);
    if (code == 0) {
        int error = picture_make(&roster, &picture) ? 0 : CONCLAVE_ENOMEM;
        if (error == 0 && options.json) {
            error = picture_json(&picture);
        } else if (error == 0) {
            picture_print(&picture);
        }
        code = error == 0 ? CODES[picture.verdict] : fail(USAGE.name, NULL, error);
        buf_finish(&picture.wrong);
        free(picture.rows);
    }
    ensemble_view_finish(&roster);
    return output_end(USAGE.name, code);
}
