#define _GNU_SOURCE /* asprintf */
#include "daemon/keys_ensemble.h"

#include "base/log.h"
#include "daemon/key_values.h"
#include "daemon/keys_sasl.h"
#include "daemon/keys_tls.h"

#include "state/members/members.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ELECTION_MS = 400,
    HEARTBEATS = 5, /* per election timeout, unless heartbeatTimeout is set */
};

void keys_ensemble_init(struct keys_ensemble *m)
{
    *m = (struct keys_ensemble){
        .standalone_enabled = true, .verify_hosts = true, .election_ms = ELECTION_MS};
}

void keys_ensemble_finish(struct keys_ensemble *m)
{
    for (size_t i = 0; i < m->count; i++) {
        server_line_finish(&m->lines[i]);
    }
    free(m->lines);
    text_wipe(&m->secret);
    text_wipe(&m->other_secret);
    free(m->secret_file);
    keys_tls_values_finish(&m->tls);
    *m = (struct keys_ensemble){0};
}

/* The keys */

/* The line with that id; a missing line is inserted in the order of ids. */
static struct server_line *members_place(struct keys_ensemble *m, uint64_t id)
{
    size_t i = 0;
    while (i < m->count && m->lines[i].id < id) {
        i++;
    }
    if (i < m->count && m->lines[i].id == id) {
        server_line_finish(&m->lines[i]);
        return &m->lines[i];
    }
    struct server_line *lines = realloc(m->lines, (m->count + 1) * sizeof *lines);
    if (lines == NULL) {
        return NULL;
    }
    m->lines = lines;
    memmove(&lines[i + 1], &lines[i], (m->count - i) * sizeof *lines);
    lines[i] = (struct server_line){0};
    m->count++;
    assert((i == 0 || lines[i - 1].id < id) && (i + 1 == m->count || lines[i + 1].id > id));
    return &lines[i];
}

static bool id_parse(const char *text, uint64_t *ret)
{
    int64_t number;
    if (!key_number(text, &number) || number < 0 || number > STATE_MEMBER_NUMBER_MAX) {
        return false;
    }
    *ret = (uint64_t)member_id(number);
    return true;
}

int key_set_server(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    struct server_line line;
    const char *why;
    uint64_t id;
    if (!id_parse(key + strlen("server."), &id)) {
        return key_fail(c, "%s: %s: the number of a server must be from 0 to %d", where, key,
                        STATE_MEMBER_NUMBER_MAX);
    }
    int rc = server_line_parse(value, &line, &why);
    if (rc != 0) {
        return rc == CONCLAVE_EINVAL ? key_fail(c, "%s: %s: '%.200s' %s", where, key, value, why)
                                     : rc;
    }
    struct server_line *place = members_place(&c->members, id);
    if (place == NULL) {
        server_line_finish(&line);
        return CONCLAVE_ENOMEM;
    }
    *place = line;
    place->id = id;
    return 0;
}

int key_set_myid(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    if (!id_parse(value, &c->members.my_id)) {
        return key_fail(c, "%s: %s: '%.32s' is not a number from 0 to %d", where, key, value,
                        STATE_MEMBER_NUMBER_MAX);
    }
    return 0;
}

int key_set_version(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    char *end = NULL;
    unsigned long long n = strtoull(value, &end, 16);
    if (!isxdigit((unsigned char)value[0]) || *end != '\0' || strlen(value) > 16 || n > INT64_MAX) {
        return key_fail(c, "%s: %s: '%.32s' is not a hexadecimal number", where, key, value);
    }
    c->options.ensemble.version = (int64_t)n;
    return 0;
}

int key_set_peer_type(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    bool observer = strcasecmp(value, "observer") == 0;
    if (!observer && strcasecmp(value, "participant") != 0) {
        return key_fail(c, "%s: %s: '%.32s' is not participant or observer", where, key, value);
    }
    c->members.said_observer = observer;
    c->members.said_type = true;
    return 0;
}

enum { SECRET_FRESH_MIN = 12, SECRET_DISTINCT_MIN = 8 };

/* Finds runs (aaaa, 1234) and texts of few different characters. It does not find words of a dictionary. */
static bool secret_is_weak(const char *text)
{
    bool seen[256] = {false};
    size_t distinct = 0;
    size_t fresh = 0;
    for (size_t i = 0; text[i] != '\0'; i++) {
        unsigned char c = (unsigned char)text[i];
        distinct += !seen[c];
        seen[c] = true;
        fresh += i < 2 || text[i] - text[i - 1] != text[i - 1] - text[i - 2];
    }
    return distinct < SECRET_DISTINCT_MIN || fresh < SECRET_FRESH_MIN;
}

/* Messages do not repeat the value. */
int key_set_secret(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    if (strlen(value) < PEER_SECRET_MIN) {
        return key_fail(c, "%s: %s: shorter than %d characters: use a longer secret", where, key,
                        PEER_SECRET_MIN);
    }
    if (secret_is_weak(value)) {
        return key_fail(
            c,
            "%s: %s: too easy to guess, because it repeats itself: make a random one with "
            "conclave secret",
            where, key);
    }
    text_wipe(&c->members.secret);
    return text_replace(&c->members.secret, value);
}

bool keys_ensemble_is_dynamic(const char *key)
{
    return strncmp(key, "server.", 7) == 0 || strcmp(key, "version") == 0 ||
           strncmp(key, "group.", 6) == 0 || strncmp(key, "weight.", 7) == 0;
}

/* This server's own number and line */

/* The number in dataDir/myid; 0 if the file does not exist. */
static int members_read_myid(struct zoo_cfg *c, uint64_t *ret)
{
    char *path = NULL;
    struct buf text;
    int rc = 0;
    if (asprintf(&path, "%s/myid", c->options.data_dir) < 0) {
        return CONCLAVE_ENOMEM;
    }
    buf_init(&text, 0);
    *ret = 0;
    if (access(path, F_OK) == 0) {
        rc = key_read_file(c, path, &text);
        while (text.len > 0 && isspace(text.data[text.len - 1])) {
            text.len--;
        }
        const char *word = rc == 0 ? buf_cstr(&text) : NULL;
        if (rc == 0 && word == NULL) {
            rc = CONCLAVE_ENOMEM;
        } else if (rc == 0 && !id_parse(word, ret)) {
            rc = key_fail(c, "%s: contains '%.32s' instead of the number of this server, 0 to %d",
                          path, word, STATE_MEMBER_NUMBER_MAX);
        }
    }
    buf_finish(&text);
    free(path);
    return rc;
}

static int members_find_me(struct zoo_cfg *c)
{
    struct keys_ensemble *m = &c->members;
    struct ensemble_options *e = &c->options.ensemble;
    uint64_t filed;
    int rc = members_read_myid(c, &filed);
    if (rc != 0) {
        return rc;
    }
    uint64_t id = m->my_id != 0 ? m->my_id : filed;
    if (filed != 0 && filed != id) {
        return key_fail(c, "%s/myid contains %llu, but the key myid is %llu: make them equal",
                        c->options.data_dir, (unsigned long long)member_number((int64_t)filed),
                        (unsigned long long)member_number((int64_t)id));
    }
    /* A single server.N line needs no number: it is this server's. */
    if (id == 0 && m->count > 1) {
        return key_fail(c,
                        "there are %zu server.N lines, but the number of this server is unknown: "
                        "write it into %s/myid, or set --server-id",
                        m->count, c->options.data_dir);
    }
    for (e->me = 0; id != 0 && e->me < m->count && m->lines[e->me].id != id; e->me++) {}
    if (e->me == m->count) {
        return key_fail(c,
                        "myid is %llu, but there is no line server.%llu: add it, or correct "
                        "the number in %s/myid or --server-id",
                        (unsigned long long)member_number((int64_t)id),
                        (unsigned long long)member_number((int64_t)id), c->options.data_dir);
    }
    c->options.server_id = (int64_t)m->lines[e->me].id;
    return 0;
}

/* Takes the client address from this server's line, unless keys set it. */
static void members_take_client(struct zoo_cfg *c, const struct server_line *me)
{
    struct net_address *listen = &c->options.listen;
    if (!me->has_client || c->have_listen) {
        return;
    }
    if (!c->have_port) {
        listen->port = me->client.port;
        c->have_line_port = true;
    }
    if (!c->have_address && strcmp(me->client.host, "0.0.0.0") != 0) {
        memcpy(listen->host, me->client.host, sizeof listen->host);
        c->have_address = true;
    }
}

static int members_check(struct zoo_cfg *c)
{
    const struct keys_ensemble *m = &c->members;
    size_t voters = 0;
    assert(c->options.ensemble.me < m->count);
    for (size_t i = 0; i < m->count; i++) {
        const struct server_line *a = &m->lines[i];
        voters += !a->observer;
        for (size_t j = 0; j < i; j++) {
            const struct server_line *b = &m->lines[j];
            if (strcmp(a->hosts[0].host, b->hosts[0].host) == 0 &&
                a->hosts[0].port == b->hosts[0].port) {
                return key_fail(c, "server.%llu and server.%llu have the same address: %s:%u",
                                (unsigned long long)member_number((int64_t)b->id),
                                (unsigned long long)member_number((int64_t)a->id), a->hosts[0].host,
                                a->hosts[0].port);
            }
        }
    }
    if (voters == 0) {
        return key_fail(c, "all server.N lines are observers: at least one must be a "
                           "participant");
    }
    if (voters == 2) {
        buf_printf(&c->notices,
                   "conclave: server.N: an ensemble of two participants stops when one "
                   "fails; three tolerate one failure\n");
    }
    bool observer = m->lines[c->options.ensemble.me].observer;
    if (m->said_type && m->said_observer != observer) {
        buf_printf(&c->notices,
                   "conclave: peerType: no effect: the server.N line sets the role %s\n",
                   observer ? "observer" : "participant");
    }
    return buf_ok(&c->notices) ? 0 : CONCLAVE_ENOMEM;
}

/* The link */

/* Cuts what is blank at the end of a text. */
static char *secret_trim(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && isspace((unsigned char)text[len - 1])) {
        text[--len] = '\0';
    }
    return text;
}

/* The lines of the file: the secret, and a second one that is accepted as well. */
static int secret_set_lines(struct zoo_cfg *c, char *text)
{
    struct keys_ensemble *m = &c->members;
    char *rest = secret_trim(text);
    char *first = strsep(&rest, "\n");
    int rc = 0;
    if (rest != NULL) {
        char *second = strsep(&rest, "\n");
        if (rest != NULL) {
            return key_fail(c,
                            "clusterSecretFile: %s has more than two lines: the first is the "
                            "secret, the second one is accepted as well while it is replaced",
                            m->secret_file);
        }
        rc = key_set_secret(c, "clusterSecretFile", secret_trim(second), m->secret_file);
        m->other_secret = m->secret;
        m->secret = NULL;
    }
    return rc != 0 ? rc
                   : key_set_secret(c, "clusterSecretFile", secret_trim(first), m->secret_file);
}

static int members_read_secret(struct zoo_cfg *c)
{
    struct keys_ensemble *m = &c->members;
    struct buf text;
    struct stat st;
    if (m->secret_file == NULL) {
        return 0;
    }
    if (m->secret != NULL) {
        return key_fail(c, "clusterSecret and clusterSecretFile are both set: remove one of "
                           "the two");
    }
    buf_init(&text, 0);
    int rc = key_read_file(c, m->secret_file, &text);
    const char *line = rc == 0 ? buf_cstr(&text) : NULL;
    if (rc == 0 && line == NULL) {
        rc = CONCLAVE_ENOMEM;
    } else if (rc == 0 && strlen(line) != text.len) {
        rc = key_fail(c, "clusterSecretFile: %s contains NUL bytes: use a text file",
                      m->secret_file);
    } else if (rc == 0) {
        rc = secret_set_lines(c, (char *)text.data);
    }
    buf_wipe(&text);
    if (rc == 0 && stat(m->secret_file, &st) == 0 && (st.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        buf_printf(&c->notices,
                   "conclave: clusterSecretFile: other users can read %s: run chmod 600\n",
                   m->secret_file);
    }
    return rc;
}

static void members_set_listen(struct zoo_cfg *c, const struct server_line *me)
{
    struct ensemble_options *e = &c->options.ensemble;
    for (size_t i = 0; i < me->n_hosts; i++) {
        struct net_address a = me->hosts[i];
        /* With quorumListenOnAllIPs, several hosts of a line can become the same address. */
        size_t same = 0;
        if (c->members.listen_all) {
            a.host[0] = '\0';
        }
        while (same < e->n_listen &&
               (strcmp(e->listen[same].host, a.host) != 0 || e->listen[same].port != a.port)) {
            same++;
        }
        if (same == e->n_listen) {
            assert(e->n_listen < sizeof e->listen / sizeof e->listen[0]);
            e->listen[e->n_listen++] = a;
        }
    }
}

/* The first address that other machines can reach; NULL: none. */
static const char *members_find_open(const struct zoo_cfg *c)
{
    const struct ensemble_options *e = &c->options.ensemble;
    for (size_t i = 0; i < e->n_members; i++) {
        for (size_t j = 0; j < e->members[i].n_hosts; j++) {
            if (!server_host_is_loopback(e->members[i].hosts[j].host)) {
                return e->members[i].hosts[j].host;
            }
        }
    }
    return c->members.listen_all ? "every interface (quorumListenOnAllIPs)" : NULL;
}

static int members_secure(struct zoo_cfg *c)
{
    struct keys_ensemble *m = &c->members;
    struct ensemble_options *e = &c->options.ensemble;
    if (m->ssl_quorum && m->secret != NULL) {
        return key_fail(c, "sslQuorum and a clusterSecret are both set: remove one of the two");
    }
    if (m->ssl_quorum) {
        e->security = PEER_SECURITY_CERTIFICATES;
        e->verify_hosts = m->verify_hosts;
        e->tls_reload = m->tls_reload;
        return keys_tls_conclude_quorum(c);
    }
    if (m->secret != NULL) {
        e->security = PEER_SECURITY_SECRET;
        e->secret = slice_str(m->secret);
        e->other_secret = m->other_secret != NULL ? slice_str(m->other_secret) : SLICE_NULL;
        return 0;
    }
    const char *open = members_find_open(c);
    if (open != NULL) {
        return key_fail(c,
                        "servers use the address %s, which other machines can reach: set "
                        "clusterSecretFile to a file with the ensemble's secret, or sslQuorum=true "
                        "with ssl.quorum.certFile, .keyFile and .caFile",
                        open);
    }
    c->options.local_only = true; /* then every local user is trusted */
    return 0;
}

static int members_set_times(struct zoo_cfg *c)
{
    struct keys_ensemble *m = &c->members;
    struct ensemble_options *e = &c->options.ensemble;
    e->election_ms = m->election_ms;
    e->heartbeat_ms = m->heartbeat_ms > 0 ? m->heartbeat_ms : m->election_ms / HEARTBEATS;
    if (2 * e->heartbeat_ms > e->election_ms) {
        return key_fail(c,
                        "heartbeatTimeout %d ms is more than half of electionTimeout %d ms: lower "
                        "it, or remove it",
                        e->heartbeat_ms, e->election_ms);
    }
    return 0;
}

int keys_ensemble_conclude(struct zoo_cfg *c)
{
    struct keys_ensemble *m = &c->members;
    struct ensemble_options *e = &c->options.ensemble;
    if (m->count == 0) {
        if (m->my_id != 0) {
            c->options.server_id = (int64_t)m->my_id;
        }
        return members_set_times(c);
    }
    int rc = members_find_me(c);
    if (rc == 0) {
        rc = members_set_times(c);
    }
    if (rc == 0) {
        rc = members_check(c);
    }
    if (rc == 0) {
        rc = members_read_secret(c);
    }
    if (rc != 0) {
        return rc;
    }
    const struct server_line *me = &m->lines[e->me];
    members_take_client(c, me);
    e->members = m->lines;
    e->n_members = m->count;
    /* As in Apache ZooKeeper, a single line makes a standalone server, unless its keys prepare it for others. */
    e->enabled = m->count > 1 || !m->standalone_enabled || m->ssl_quorum || m->secret != NULL;
    if (!e->enabled) {
        return 0;
    }
    members_set_listen(c, me);
    return members_secure(c);
}

/* The link to the source of a mirror */

static int mirror_read_login(struct zoo_cfg *c)
{
    struct keys_mirror *m = &c->mirror;
    int rc = keys_sasl_read_users(c, m->login_file, &m->login);
    if (rc == 0 && m->login.user_count != 1) {
        rc = key_fail(c, "mirror.sasl.file: %s must have one line user:password, it has %zu",
                      m->login_file, m->login.user_count);
    }
    if (rc == 0) {
        m->source.user = m->login.users[0].name;
        m->source.password = m->login.users[0].password;
    }
    return rc;
}

int keys_mirror_conclude(struct zoo_cfg *c)
{
    struct keys_mirror *m = &c->mirror;
    int rc = m->login_file != NULL ? mirror_read_login(c) : 0;
    if (rc == 0 && m->source.tls) {
        /* The links between servers may have read the files already. */
        rc = c->options.ensemble.tls.cert_file == NULL ? keys_tls_conclude_quorum(c) : 0;
        m->source.certificates = c->options.ensemble.tls;
        m->source.verify_hosts = c->members.verify_hosts;
    }
    c->options.source = &m->source;
    return rc;
}

void keys_mirror_finish(struct keys_mirror *m)
{
    free(m->login_file);
    sasl_options_finish(&m->login);
    *m = (struct keys_mirror){0};
}
