/* The servers of the ensemble as they answer: by the word memb, and by the metrics of their HTTP ports. */
#include "cli/common/ensemble_view.h"
#include "cli/common/server_query.h"
#include "cli/doctor/doctor.h"
#include "net/address.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    CLOCK_APART_MS = 500,
    BEHIND_ENTRIES = 10000,
    NEAR_PERCENT = 80,
    PACKET_MAX = 1048575, /* jute.maxbuffer of clients, by default */
};

static int64_t wall_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* "host:port,..." of the configuration: this server, and the others where their client ports are known. */
static void servers_text(const struct doctor *d, struct buf *out)
{
    const struct server_options *o = &d->config->options;
    const struct ensemble_options *e = &o->ensemble;
    char text[NET_TEXT_MAX];
    bool every = o->listen.host[0] == '\0' || strcmp(o->listen.host, "0.0.0.0") == 0 ||
                 strcmp(o->listen.host, "::") == 0;
    struct net_address own = o->listen;
    if (every) {
        own = (struct net_address){.host = "127.0.0.1", .port = o->listen.port};
    }
    if (o->plain && own.port != 0) {
        buf_append_str(out, net_address_format(&own, text));
    }
    for (size_t i = 0; e->enabled && i < e->n_members; i++) {
        const struct server_line *m = &e->members[i];
        struct net_address at = m->client;
        if (!m->has_client || i == e->me || m->client.port == 0) {
            continue;
        }
        if (strcmp(at.host, "0.0.0.0") == 0 || strcmp(at.host, "::") == 0) {
            memcpy(at.host, m->hosts[0].host, sizeof at.host);
        }
        buf_append_str(out, out->len > 0 ? "," : "");
        buf_append_str(out, net_address_format(&at, text));
    }
}

/* Whether all members are up */

static void look_at_states(struct doctor *d, const struct ensemble_view *v)
{
    const struct ensemble_view_server *best = ensemble_view_best(v);
    uint64_t commit = 0;
    size_t serving = 0;
    for (size_t i = 0; i < v->count; i++) {
        commit = v->servers[i].commit > commit ? v->servers[i].commit : commit;
    }
    for (size_t i = 0; i < v->count; i++) {
        const struct ensemble_view_server *s = &v->servers[i];
        serving += s->serves;
        if (!s->answered) {
            finding_add(&d->findings, FOUND_MEMBER_DOWN, s->address, "no answer: %s", s->state);
        } else if (!s->serves) {
            finding_add(&d->findings, FOUND_MEMBER_DOWN, s->address, "it does not serve: %s",
                        s->state);
        } else if (s->warning[0] != '\0') {
            finding_add(&d->findings, FOUND_MEMBER_WARNS, s->address, "%s", s->warning);
        }
        if (s->serves && !s->brief && commit > s->applied + BEHIND_ENTRIES) {
            finding_add(&d->findings, FOUND_MEMBER_BEHIND, s->address,
                        "it is %" PRIu64 " log entries behind", commit - s->applied);
        }
    }
    for (size_t i = 0; best != NULL && i < best->members_count; i++) {
        const struct ensemble_view_member *m = &best->members[i];
        if (!m->linked && m->client[0] == '\0') {
            finding_add(&d->findings, FOUND_MEMBER_DOWN, m->address,
                        "member %" PRIu64 " has no link to the leader: %s",
                        ensemble_view_number(m->id), m->problem[0] != '\0' ? m->problem : "down");
        }
    }
    if (d->members_answered > 0 && serving == 0) {
        finding_add(&d->findings, FOUND_NO_QUORUM, "the ensemble",
                    "%zu servers answer, and none serves clients", d->members_answered);
    }
}

static void look_at_versions(struct doctor *d, const struct ensemble_view *v)
{
    const struct ensemble_view_server *first = NULL;
    for (size_t i = 0; i < v->count; i++) {
        const struct ensemble_view_server *s = &v->servers[i];
        if (!s->answered || s->version[0] == '\0') {
            continue;
        }
        first = first != NULL ? first : s;
        if (strcmp(first->version, s->version) != 0) {
            finding_add(&d->findings, FOUND_VERSION_DIFFERS, s->address,
                        "it runs %s, and %s runs %s", s->version, first->address, first->version);
        }
    }
}

/* Each was asked between two moments of this machine's clock, so only a time outside of them shows a difference. */
static void look_at_clocks(struct doctor *d, const struct ensemble_view *v, int64_t from_ms,
                           int64_t to_ms)
{
    for (size_t i = 0; i < v->count; i++) {
        const struct ensemble_view_server *s = &v->servers[i];
        int64_t apart = s->time_ms == 0        ? 0
                        : s->time_ms < from_ms ? from_ms - s->time_ms
                        : s->time_ms > to_ms   ? s->time_ms - to_ms
                                               : 0;
        if (apart > CLOCK_APART_MS) {
            finding_add(&d->findings, FOUND_CLOCK_DIFFERS, s->address,
                        "its clock is %" PRId64 ".%03" PRId64 " s %s this machine's", apart / 1000,
                        apart % 1000, s->time_ms < from_ms ? "behind" : "ahead of");
        }
    }
}

/* The state after one log entry must be the same everywhere. */

static bool digest_of(const struct ensemble_view_server *s, uint64_t index, uint64_t *ret)
{
    for (size_t i = 0; i < s->digests_count; i++) {
        if (s->digests[i].index == index) {
            *ret = s->digests[i].digest;
            return true;
        }
    }
    return false;
}

/* How many of all have this digest after the entry. */
static size_t agreeing(const struct ensemble_view *v, uint64_t index, uint64_t digest)
{
    size_t n = 0;
    uint64_t other;
    for (size_t i = 0; i < v->count; i++) {
        n += digest_of(&v->servers[i], index, &other) && other == digest;
    }
    return n;
}

static bool report_difference(struct doctor *d, const struct ensemble_view_server *a,
                              const struct ensemble_view_server *b, const struct ensemble_view *v)
{
    for (size_t i = 0; i < a->digests_count; i++) {
        uint64_t index = a->digests[i].index;
        uint64_t own = a->digests[i].digest;
        uint64_t other;
        if (digest_of(b, index, &other) && other != own) {
            bool b_is_wrong = agreeing(v, index, own) >= agreeing(v, index, other);
            finding_add(&d->findings, FOUND_DATA_DIFFERS, (b_is_wrong ? b : a)->address,
                        "after log entry %" PRIu64 " its state is %016" PRIx64
                        ", and that of %s is %016" PRIx64,
                        index, b_is_wrong ? other : own, (b_is_wrong ? a : b)->address,
                        b_is_wrong ? own : other);
            return true;
        }
    }
    return false;
}

static void look_at_data(struct doctor *d, const struct ensemble_view *v)
{
    for (size_t i = 0; i < v->count; i++) {
        for (size_t k = i + 1; k < v->count; k++) {
            if (report_difference(d, &v->servers[i], &v->servers[k], v)) {
                break;
            }
        }
    }
}

/* Sizes */

/* The value of a metric without labels; false: it is not there. Counters may end in "_total". */
static bool metric(const char *text, const char *name, double *ret)
{
    size_t len = strlen(name);
    for (const char *at = strstr(text, name); at != NULL; at = strstr(at + 1, name)) {
        const char *end = at + len;
        end += strncmp(end, "_total", 6) == 0 ? 6 : 0;
        if (*end == ' ' && (at == text || at[-1] == '\n')) {
            *ret = strtod(end, NULL);
            return true;
        }
    }
    return false;
}

static void look_at_sizes(struct doctor *d, const char *address, const char *text)
{
    static const struct {
        const char *now;
        const char *limit;
        const char *key;
    } NEAR[] = {
        {"conclave_data_bytes", "conclave_data_bytes_max", "maxDataBytes"},
        {"num_alive_connections", "conclave_connections_max", "maxCnxns"},
        {"global_sessions", "conclave_sessions_max", "maxSessions"},
        {"watch_count", "conclave_watches_max", "maxWatches"},
        {"open_file_descriptor_count", "max_file_descriptor_count", "open files"},
    };
    static const struct {
        const char *count;
        const char *key;
    } REACHED[] = {
        {"conclave_growth_refused", "maxDataBytes"},
        {"conclave_refused_connections", "maxCnxns"},
        {"conclave_refused_connections_address", "maxClientCnxns"},
        {"conclave_watches_refused", "maxWatches"},
        {"conclave_sessions_refused", "maxSessions"},
        {"conclave_requests_oversized", "jute.maxbuffer"},
        {"conclave_replies_oversized", "maxReplyBytes"},
    };
    double now;
    double limit;
    for (size_t i = 0; i < sizeof NEAR / sizeof NEAR[0]; i++) {
        if (metric(text, NEAR[i].now, &now) && metric(text, NEAR[i].limit, &limit) && limit > 0 &&
            now * 100 >= limit * NEAR_PERCENT) {
            finding_add(&d->findings, FOUND_LIMIT_NEAR, address, "%s: %.0f of %.0f", NEAR[i].key,
                        now, limit);
        }
    }
    for (size_t i = 0; i < sizeof REACHED / sizeof REACHED[0]; i++) {
        if (metric(text, REACHED[i].count, &now) && now > 0) {
            finding_add(&d->findings, FOUND_LIMIT_REACHED, address,
                        "%s: %.0f times since its start, the server refused something",
                        REACHED[i].key, now);
        }
    }
    if (metric(text, "max_client_response_size", &now) &&
        now * 100 >= (double)PACKET_MAX * NEAR_PERCENT) {
        finding_add(&d->findings, FOUND_ANSWER_LARGE, address,
                    "its largest answer has %.0f bytes, and clients take %d by default", now,
                    PACKET_MAX);
    }
}

static bool is_here(const char *address)
{
    return strncmp(address, "127.", 4) == 0 || strncmp(address, "[::1]:", 6) == 0;
}

/* The HTTP ports that can be asked from here. Code as server_query_all. */
static int ask_sizes(struct doctor *d, const char *command, const struct common_options *options,
                     const struct ensemble_view *v)
{
    struct server_query *asks = calloc(v->count + 1, sizeof *asks);
    struct common_options plain = *options;
    size_t n = 0;
    if (asks == NULL) {
        d->findings.failed = true;
        return 0;
    }
    plain.tls = false;
    for (size_t i = 0; i < v->count; i++) {
        const struct ensemble_view_server *s = &v->servers[i];
        if (s->answered && s->admin[0] != '\0' && is_here(s->admin) <= is_here(s->address) &&
            server_query_address(&asks[n], s->admin)) {
            asks[n].question = slice_str("GET /metrics HTTP/1.0\r\nHost: localhost\r\n"
                                         "Connection: close\r\n\r\n");
            asks[n++].index = i;
        }
    }
    assert(n <= v->count);
    int code = n > 0 ? server_query_all(command, &plain, options->timeout_ms, asks, n) : 0;
    for (size_t i = 0; i < n; i++) {
        const char *text = code == 0 && asks[i].error == 0 ? buf_cstr(&asks[i].answer) : NULL;
        const char *body = text != NULL ? strstr(text, "\r\n\r\n") : NULL;
        if (body != NULL && strncmp(text, "HTTP/1.", 7) == 0 && strncmp(text + 8, " 200", 4) == 0) {
            look_at_sizes(d, v->servers[asks[i].index].address, body + 4);
        }
        buf_finish(&asks[i].answer);
    }
    free(asks);
    return code;
}

int doctor_members(struct doctor *d)
{
    static const char COMMAND[] = "doctor";
    struct common_options options = d->options->common;
    struct ensemble_view view = {0};
    struct buf servers;
    int code = 0;
    buf_init(&servers, 0);
    bool given = options.server != NULL || d->config == NULL;
    if (!given) {
        servers_text(d, &servers);
        options.server = buf_cstr(&servers);
    }
    if (!given && servers.len == 0) {
        goto out;
    }
    int64_t from_ms = wall_ms();
    code = ensemble_view_gather(COMMAND, &options, options.timeout_ms, &view);
    int64_t to_ms = wall_ms();
    for (size_t i = 0; code == 0 && i < view.count; i++) {
        d->members_answered += view.servers[i].answered;
    }
    /* Where nothing runs, and none was named, there is nothing to say. */
    if (code != 0 || (!given && d->members_answered == 0 && d->owner == 0)) {
        goto out;
    }
    assert(d->members_answered <= view.count && from_ms != 0);
    look_at_states(d, &view);
    look_at_versions(d, &view);
    look_at_clocks(d, &view, from_ms, to_ms);
    look_at_data(d, &view);
    code = ask_sizes(d, COMMAND, &options, &view);
out:
    ensemble_view_finish(&view);
    buf_finish(&servers);
    return code;
}
