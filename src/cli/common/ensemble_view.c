#include "cli/common/ensemble_view.h"

#include "cli/common/connection.h"
#include "cli/common/server_query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 4, FIELDS_MAX = 9, SERVERS_MAX = 300 };

/* Lines */

/* Cuts a line at its tabs; returns the number of fields. */
static size_t cut_fields(char *line, char *fields[FIELDS_MAX])
{
    size_t n = 0;
    for (char *at = line; at != NULL && n < FIELDS_MAX; n++) {
        fields[n] = strsep(&at, "\t");
    }
    return n;
}

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from);
}

/* "3.9.5-conclave-0.1.0, built on ..." → "conclave 0.1.0"; Apache's without what follows its number. */
static void copy_version(char *to, size_t size, const char *from)
{
    const char *ours = strstr(from, "-conclave-");
    const char *number = ours != NULL ? ours + 10 : from;
    int len = (int)strcspn(number, ours != NULL ? "," : "-,");
    snprintf(to, size, "%s%.*s", ours != NULL ? "conclave " : "zookeeper ", len, number);
}

/* The server's HTTP port; one on every interface is reached at the address that was asked. */
static void copy_admin(struct ensemble_view_server *s, const char *address)
{
    bool every = strncmp(address, "0.0.0.0:", 8) == 0 || strncmp(address, "[::]:", 5) == 0;
    const char *port = strrchr(s->address, ':');
    if (every && port != NULL) {
        snprintf(s->admin, sizeof s->admin, "%.*s%s", (int)(port - s->address), s->address,
                 strrchr(address, ':'));
    } else {
        copy(s->admin, sizeof s->admin, address);
    }
}

static bool add_member(struct ensemble_view_server *s, char *fields[], size_t n)
{
    if (n < 7) {
        return true; /* of a later version: unknown parts are left out */
    }
    struct ensemble_view_member *more =
        realloc(s->members, (s->members_count + 1) * sizeof *s->members);
    char *address = strdup(strcmp(fields[6], "-") == 0 ? "" : fields[6]);
    if (more != NULL) {
        s->members = more;
    }
    if (more == NULL || address == NULL) {
        free(address);
        return false;
    }
    struct ensemble_view_member *m = &s->members[s->members_count++];
    *m = (struct ensemble_view_member){
        .id = strtoull(fields[1], NULL, 10),
        .voter = strcmp(fields[2], "voter") == 0,
        .linked = strcmp(fields[3], "down") != 0,
        .match_index = strtoull(fields[4], NULL, 10),
        .address = address,
    };
    char *end = NULL;
    m->snapshot_sent = n > 7 ? strtoull(fields[7], &end, 10) : 0;
    m->snapshot_total = end != NULL && *end == '/' ? strtoull(end + 1, NULL, 10) : 0;
    copy(m->problem, sizeof m->problem, n > 8 && strcmp(fields[8], "-") != 0 ? fields[8] : "");
    copy(m->client, sizeof m->client, strcmp(fields[5], "-") == 0 ? "" : fields[5]);
    return true;
}

/* One line of memb. False when memory is out. */
static bool take_line(struct ensemble_view_server *s, char *line)
{
    const struct {
        const char *key;
        uint64_t *number; /* or */
        char *text;
        size_t size;
    } rows[] = {{"id", .number = &s->id},
                {"term", .number = &s->term},
                {"leader", .number = &s->leader},
                {"last", .number = &s->last},
                {"commit", .number = &s->commit},
                {"applied", .number = &s->applied},
                {"sessions", .number = &s->sessions},
                {"connections", .number = &s->connections},
                {"mode", .text = s->mode, .size = sizeof s->mode},
                {"state", .text = s->state, .size = sizeof s->state},
                {"warning", .text = s->warning, .size = sizeof s->warning},
                {"zxid", .text = s->zxid, .size = sizeof s->zxid}};
    char *fields[FIELDS_MAX];
    size_t n = cut_fields(line, fields);
    if (n < 2) {
        return true;
    }
    if (strcmp(fields[0], "member") == 0) {
        return add_member(s, fields, n);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool match = strcmp(fields[0], rows[i].key) == 0;
        if (match && rows[i].number != NULL) {
            *rows[i].number = strtoull(fields[1], NULL, 10);
        } else if (match) {
            copy(rows[i].text, rows[i].size, fields[1]);
        }
    }
    if (strcmp(fields[0], "digest") == 0 && n > 2 && s->digests_count < ROSTER_DIGESTS_MAX) {
        s->digests[s->digests_count].index = strtoull(fields[1], NULL, 10);
        s->digests[s->digests_count++].digest = strtoull(fields[2], NULL, 16);
    } else if (strcmp(fields[0], "time_ms") == 0) {
        s->time_ms = (int64_t)strtoull(fields[1], NULL, 10);
    } else if (strcmp(fields[0], "version") == 0) {
        copy_version(s->version, sizeof s->version, fields[1]);
    } else if (strcmp(fields[0], "admin") == 0) {
        copy_admin(s, fields[1]);
    }
    return true;
}

/* One line of srvr. */
static void take_srvr_line(struct ensemble_view_server *s, const char *line)
{
    if (strncmp(line, "Zookeeper version: ", 19) == 0) {
        copy_version(s->version, sizeof s->version, line + 19);
    } else if (strncmp(line, "Mode: ", 6) == 0) {
        copy(s->mode, sizeof s->mode, line + 6);
        copy(s->state, sizeof s->state, "ok");
    } else if (strncmp(line, "Zxid: ", 6) == 0) {
        copy(s->zxid, sizeof s->zxid, line + 6);
    } else if (strncmp(line, "Connections: ", 13) == 0) {
        s->connections = strtoull(line + 13, NULL, 10);
    } else if (strstr(line, "not currently serving") != NULL) {
        copy(s->state, sizeof s->state, "serves nobody");
    }
}

static const char NOT_UNDERSTOOD[] = "its answer is not understood";

bool ensemble_view_read(struct ensemble_view_server *s, struct buf *answer, bool brief)
{
    server_query_clean(answer);
    char *at = buf_cstr(answer) != NULL ? (char *)answer->data : NULL;
    bool good = at != NULL;
    s->answered = true;
    s->brief = brief;
    copy(s->state, sizeof s->state, brief ? NOT_UNDERSTOOD : "ok");
    while (good && at != NULL && *at != '\0') {
        char *line = strsep(&at, "\n");
        line[strcspn(line, "\r")] = '\0';
        if (brief) {
            take_srvr_line(s, line);
        } else {
            good = take_line(s, line);
        }
    }
    s->serves = strcmp(s->state, "ok") == 0;
    s->answered =
        strcmp(s->state, NOT_UNDERSTOOD) != 0; /* else it speaks another protocol: TLS, HTTP */
    return good;
}

/* Asking */

static bool is_memb(const struct buf *answer)
{
    struct slice s = buf_slice(answer);
    return (s.len > 3 && memcmp(s.data, "id\t", 3) == 0) ||
           (s.len > 6 && memcmp(s.data, "state\t", 6) == 0);
}

/* One word to servers[first..]; those whose answer is good are filled, the others keep why not. Code as server_query_all. */
static int ask_word(const char *command, const struct common_options *options, int64_t timeout_ms,
                    struct ensemble_view *r, size_t first, bool brief)
{
    struct server_query *asks = calloc(r->count - first + 1, sizeof *asks);
    size_t n = 0;
    if (asks == NULL) {
        return CLI_EXIT_INTERNAL;
    }
    for (size_t i = first; i < r->count; i++) {
        const struct ensemble_view_server *s = &r->servers[i];
        bool wanted = !s->answered && (!brief || s->brief);
        if (wanted && server_query_address(&asks[n], s->address)) {
            asks[n].question = slice_str(brief ? "srvr" : "memb");
            asks[n++].index = i;
        }
    }
    int code = server_query_all(command, options, timeout_ms, asks, n);
    for (size_t i = 0; i < n; i++) {
        struct ensemble_view_server *s = &r->servers[asks[i].index];
        if (code != 0) {
            /* printed */
        } else if (asks[i].error != 0 && asks[i].answer.len == 0) {
            copy(s->state, sizeof s->state, asks[i].why);
            /* a server that does not know the word may end the connection in any way */
            s->brief = !brief && asks[i].error == CONCLAVE_EDISCONNECTED &&
                       strstr(asks[i].why, "refused") == NULL;
        } else if (!brief && !is_memb(&asks[i].answer)) {
            s->brief = true;
        } else if (!ensemble_view_read(s, &asks[i].answer, brief)) {
            code = CLI_EXIT_INTERNAL;
        }
        buf_finish(&asks[i].answer);
    }
    free(asks);
    return code;
}

/* The list */

static bool add_server(struct ensemble_view *r, const char *address)
{
    for (size_t i = 0; i < r->count; i++) {
        if (strcmp(r->servers[i].address, address) == 0) {
            return true;
        }
    }
    if (r->count == SERVERS_MAX) {
        return true; /* no ensemble is that large: an answer is wrong */
    }
    struct ensemble_view_server *more = realloc(r->servers, (r->count + 1) * sizeof *more);
    if (more == NULL) {
        return false;
    }
    r->servers = more;
    r->servers[r->count] = (struct ensemble_view_server){0};
    copy(r->servers[r->count].address, ROSTER_ADDRESS_MAX, address);
    r->count++;
    return true;
}

static int add_given(const char *command, const struct common_options *options,
                     struct ensemble_view *r)
{
    struct conclave_server_list *list = NULL;
    int code = connection_servers(command, options, &list);
    for (size_t i = 0; code == 0 && i < list->count; i++) {
        code = add_server(r, list->addresses[i]) ? 0 : CLI_EXIT_INTERNAL;
    }
    conclave_server_list_free(list);
    return code;
}

/* Members that were named and did not answer under another address. */
static bool add_named(struct ensemble_view *r)
{
    for (size_t i = 0; i < r->count; i++) {
        for (size_t k = 0; k < r->servers[i].members_count; k++) {
            const struct ensemble_view_member *m = &r->servers[i].members[k];
            if (m->client[0] != '\0' && ensemble_view_find(r, m->id) == NULL &&
                !add_server(r, m->client)) {
                return false;
            }
        }
    }
    return true;
}

void ensemble_view_server_finish(struct ensemble_view_server *s)
{
    for (size_t i = 0; i < s->members_count; i++) {
        free(s->members[i].address);
    }
    free(s->members);
}

/* One server under two addresses stays once. */
static void drop_doubles(struct ensemble_view *r)
{
    for (size_t i = 0; i < r->count; i++) {
        const struct ensemble_view_server *s = &r->servers[i];
        const struct ensemble_view_server *same =
            s->id != 0 && s->answered ? ensemble_view_find(r, s->id) : s;
        if (same != s) {
            ensemble_view_server_finish(&r->servers[i]);
            memmove(&r->servers[i], &r->servers[i + 1], (r->count - i - 1) * sizeof *s);
            r->count--;
            i--;
        }
    }
}

int ensemble_view_gather(const char *command, const struct common_options *options,
                         int64_t timeout_ms, struct ensemble_view *ret)
{
    *ret = (struct ensemble_view){0};
    size_t asked = 0;
    int code = add_given(command, options, ret);
    for (int round = 0; code == 0 && asked < ret->count && round < ROUNDS_MAX; round++) {
        size_t first = asked;
        code = ask_word(command, options, timeout_ms, ret, first, false);
        code = code == 0 ? ask_word(command, options, timeout_ms, ret, first, true) : code;
        drop_doubles(ret);
        asked = ret->count;
        if (code == 0 && !add_named(ret)) {
            code = CLI_EXIT_INTERNAL;
        }
    }
    if (code == CLI_EXIT_INTERNAL) {
        fprintf(stderr, "conclave %s: out of memory\n", command);
    }
    return code;
}

void ensemble_view_finish(struct ensemble_view *r)
{
    for (size_t i = 0; i < r->count; i++) {
        ensemble_view_server_finish(&r->servers[i]);
    }
    free(r->servers);
    *r = (struct ensemble_view){0};
}

static bool leads(const struct ensemble_view_server *s)
{
    return s->serves && strcmp(s->mode, "leader") == 0;
}

const struct ensemble_view_server *ensemble_view_best(const struct ensemble_view *r)
{
    const struct ensemble_view_server *best = NULL;
    for (size_t i = 0; i < r->count; i++) {
        const struct ensemble_view_server *s = &r->servers[i];
        if (s->answered && (best == NULL || leads(s) > leads(best) ||
                            (leads(s) == leads(best) && s->term > best->term))) {
            best = s;
        }
    }
    return best;
}

const struct ensemble_view_server *ensemble_view_find(const struct ensemble_view *r, uint64_t id)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->servers[i].answered && r->servers[i].id == id) {
            return &r->servers[i];
        }
    }
    return NULL;
}
