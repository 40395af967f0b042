/* The configuration: what the server itself refuses or ignores, and what it takes although it is unwise. */
#include "base/properties.h"
#include "cli/doctor/doctor.h"
#include "daemon/keys.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A key that was seen in the file. */
struct seen_key {
    char *name;
    char *value;
    unsigned line;
};

struct seen_keys {
    struct seen_key *items;
    size_t count;
    size_t cap;
    struct doctor *d;
};

static int note_key(void *ctx, const char *key, const char *value, unsigned line)
{
    struct seen_keys *s = ctx;
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->items[i].name, key) == 0 && strcmp(s->items[i].value, value) != 0) {
            finding_add(&s->d->findings, FOUND_KEY_REPEATED, key,
                        "lines %u and %u of %s give it different values", s->items[i].line, line,
                        s->d->file);
        }
    }
    if (!array_room(&s->items, s->count, &s->cap, sizeof *s->items)) {
        return CONCLAVE_ENOMEM;
    }
    s->items[s->count] = (struct seen_key){strdup(key), strdup(value), line};
    if (s->items[s->count].name == NULL || s->items[s->count].value == NULL) {
        free(s->items[s->count].name);
        free(s->items[s->count].value);
        return CONCLAVE_ENOMEM;
    }
    s->count++;
    return 0;
}

static void look_for_repeated(struct doctor *d)
{
    struct seen_keys s = {.d = d};
    if (d->config->given.file.len == 0) {
        return;
    }
    if (properties_parse(buf_slice(&d->config->given.file), note_key, &s) == CONCLAVE_ENOMEM) {
        d->findings.failed = true;
    }
    for (size_t i = 0; i < s.count; i++) {
        free(s.items[i].name);
        free(s.items[i].value);
    }
    free(s.items);
}

/* A line that the server prints: "conclave: KEY: text" or "conclave: text". */
static void take_notice(struct doctor *d, char *line)
{
    static const char PREFIX[] = "conclave: ";
    char *text = strncmp(line, PREFIX, sizeof PREFIX - 1) == 0 ? line + sizeof PREFIX - 1 : line;
    char *colon = strstr(text, ": ");
    bool keyed = colon != NULL && memchr(text, ' ', (size_t)(colon - text)) == NULL;
    const char *rest = keyed ? colon + 2 : text;
    if (strstr(text, "three tolerate one failure") != NULL ||
        strstr(text, "other users can read") != NULL) {
        return; /* voters-even and secret-readable say it */
    }
    if (keyed) {
        *colon = '\0';
    }
    if (strncmp(rest, "unknown key", 11) == 0) {
        finding_add(&d->findings, FOUND_KEY_UNKNOWN, text, "the server does not know this key");
    } else if (keyed && strncmp(rest, "no effect", 9) == 0) {
        finding_add(&d->findings, FOUND_KEY_IDLE, text, "%s", rest);
    } else if (strstr(rest, "the client port is open") != NULL) {
        finding_add(&d->findings, FOUND_CLIENT_PORT_OPEN, "clientPort", "%.*s",
                    (int)strcspn(rest, ":;"), rest);
    } else {
        finding_add(&d->findings, FOUND_CONFIG_ADVICE, keyed ? text : "configuration", "%s", rest);
    }
}

static void take_notices(struct doctor *d)
{
    char *rest = buf_cstr(&d->config->notices) != NULL ? (char *)d->config->notices.data : NULL;
    char *line;
    while (rest != NULL && (line = strsep(&rest, "\n")) != NULL) {
        if (line[0] != '\0') {
            take_notice(d, line);
        }
    }
}

static bool is_open(const struct net_address *a)
{
    return a->host[0] == '\0' || !server_host_is_loopback(a->host);
}

static void look_at_values(struct doctor *d)
{
    const struct zoo_cfg *c = d->config;
    const struct server_options *o = &c->options;
    const struct ensemble_options *e = &o->ensemble;
    const struct admin_options *a = &c->admin.options;
    size_t voters = 0;
    assert(c->error == NULL && (!e->enabled || e->me < e->n_members));
    for (size_t i = 0; e->enabled && i < e->n_members; i++) {
        voters += !e->members[i].observer;
    }
    if (voters > 0 && voters % 2 == 0) {
        finding_add(&d->findings, FOUND_VOTERS_EVEN, "server.N",
                    "there are %zu voters: the ensemble stops when %zu of them fail", voters,
                    voters / 2);
    }
    if (e->enabled && e->heartbeat_ms * 3 > e->election_ms) {
        finding_add(
            &d->findings, FOUND_HEARTBEAT_LONG, "heartbeatTimeout",
            "%d ms is more than a third of electionTimeout, %d ms: two lost heartbeats are an "
            "election",
            e->heartbeat_ms, e->election_ms);
    }
    if (!o->sync) {
        finding_add(&d->findings, FOUND_SYNC_OFF, "forceSync",
                    "writes are acknowledged before they are on the disk");
    }
    if (o->skip_acl) {
        finding_add(&d->findings, FOUND_ACL_OFF, "skipACL", "no ACL is checked");
    }
    if (a->http && is_open(&a->listen) && (!a->https || a->plain_too)) {
        finding_add(&d->findings, FOUND_ADMIN_PORT_OPEN, "admin.serverAddress",
                    "the admin port serves other machines by plain HTTP%s",
                    a->console ? ", its console too" : "");
    }
}

bool doctor_config(struct doctor *d, int argc, char **argv)
{
    int rc = zoo_cfg_parse(d->config, argc, argv);
    look_for_repeated(d);
    take_notices(d);
    if (rc != 0) {
        finding_add(&d->findings, FOUND_CONFIG_INVALID, d->file != NULL ? d->file : "configuration",
                    "%s", d->config->error != NULL ? d->config->error : conclave_strerror(rc));
        return false;
    }
    look_at_values(d);
    return true;
}
