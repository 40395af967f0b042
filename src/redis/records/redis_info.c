/* Reads INFO line by line by a table of its fields. */
#include "redis/records/redis_info.h"

#include <conclave/error.h>

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The facts so far, and lines from which facts are concluded at the end. */
struct info_reading {
    struct redis_facts facts;
    char host[REDIS_HOST_SIZE]; /* master_host */
    int64_t port;               /* master_port */
    int64_t own_offset;         /* master_repl_offset; -1 */
    int64_t replica_offset;     /* slave_repl_offset; -1 */
    int64_t link_down_s;        /* master_link_down_since_seconds; -1 */
    bool keyspace;              /* the section is there */
};

struct info_text {
    const char *at;
    size_t len;
};

static bool text_is(struct info_text t, const char *word)
{
    return t.len == strlen(word) && memcmp(t.at, word, t.len) == 0;
}

static bool text_starts(struct info_text t, const char *word)
{
    size_t len = strlen(word);
    return t.len >= len && memcmp(t.at, word, len) == 0;
}

/* A number of 0 or more, or -1 (which means "none" in INFO). */
static int64_t number_of(struct info_text t)
{
    int64_t n = 0;
    if (t.len == 0 || t.len > 18) {
        return -1;
    }
    for (size_t i = 0; i < t.len; i++) {
        if (t.at[i] < '0' || t.at[i] > '9') {
            return -1;
        }
        n = n * 10 + (t.at[i] - '0');
    }
    return n;
}

static void redis_info_copy_text(char *ret, size_t size, struct info_text t)
{
    if (t.len < size) {
        memcpy(ret, t.at, t.len);
        ret[t.len] = '\0';
    }
}

/* Forty hexadecimal digits, not all zero; else "". */
static void read_id(void *to, struct info_text t)
{
    bool zero = true;
    if (t.len != REDIS_ID_SIZE - 1) {
        return;
    }
    for (size_t i = 0; i < t.len; i++) {
        if (strchr("0123456789abcdefABCDEF", t.at[i]) == NULL) {
            return;
        }
        zero = zero && t.at[i] == '0';
    }
    if (!zero) {
        redis_info_copy_text(to, REDIS_ID_SIZE, t);
    }
}

/* "7.0.15" → 70015 */
static void read_version(void *to, struct info_text t)
{
    int part[3] = {0, 0, 0};
    size_t which = 0;
    for (size_t i = 0; i < t.len && which < 3; i++) {
        if (t.at[i] == '.') {
            which++;
        } else if (t.at[i] >= '0' && t.at[i] <= '9') {
            part[which] = part[which] > 99 ? 99 : part[which] * 10 + (t.at[i] - '0');
        } else {
            break;
        }
    }
    *(int *)to =
        part[0] * 10000 + (part[1] > 99 ? 99 : part[1]) * 100 + (part[2] > 99 ? 99 : part[2]);
}

static void redis_info_address_write(char ret[REDIS_ADDRESS_SIZE], const char *host, int64_t port)
{
    bool v6 = strchr(host, ':') != NULL;
    snprintf(ret, REDIS_ADDRESS_SIZE, v6 ? "[%s]:%d" : "%s:%d", host, (int)port);
}

/* Cuts "name=value" off the front of a list with commas. False at its end. */
static bool pair_next(struct info_text *list, struct info_text *ret_name,
                      struct info_text *ret_value)
{
    while (list->len > 0) {
        const char *comma = memchr(list->at, ',', list->len);
        struct info_text pair = {list->at, comma != NULL ? (size_t)(comma - list->at) : list->len};
        size_t gone = pair.len + (comma != NULL ? 1 : 0);
        list->at += gone;
        list->len -= gone;
        const char *equal = memchr(pair.at, '=', pair.len);
        if (equal != NULL) {
            *ret_name = (struct info_text){pair.at, (size_t)(equal - pair.at)};
            *ret_value = (struct info_text){equal + 1, pair.len - ret_name->len - 1};
            return true;
        }
    }
    return false;
}

/* slave0:ip=127.0.0.1,port=7001,state=online,offset=14,lag=0; before 2.8: host,port,state */
static void read_replica(void *to, struct info_text value)
{
    struct info_reading *r = to;
    char host[REDIS_HOST_SIZE] = "";
    int64_t port = -1;
    struct info_text name;
    struct info_text word;
    while (pair_next(&value, &name, &word)) {
        if (text_is(name, "ip")) {
            redis_info_copy_text(host, sizeof host, word);
        } else if (text_is(name, "port")) {
            port = number_of(word);
        }
    }
    if (host[0] != '\0' && port > 0 && port <= 65535 &&
        r->facts.replica_count < REDIS_REPLICAS_MAX) {
        redis_info_address_write(r->facts.replicas[r->facts.replica_count++], host, port);
    }
}

/* db0:keys=3,expires=0,avg_ttl=0 */
static void read_database(void *to, struct info_text value)
{
    int64_t *sum = to;
    struct info_text name;
    struct info_text word;
    while (pair_next(&value, &name, &word)) {
        int64_t keys = number_of(word);
        if (text_is(name, "keys") && keys >= 0) {
            int64_t others = *sum < 0 ? 0 : *sum;
            *sum = keys <= INT64_MAX - others ? others + keys : INT64_MAX;
        }
    }
}

/* Readers of one value. A malformed value changes nothing, or means unknown. */

static void read_role(void *to, struct info_text value)
{
    enum redis_role *role = to;
    bool replica = text_is(value, "slave") || text_is(value, "replica");
    *role = text_is(value, "master") ? REDIS_ROLE_MASTER : replica ? REDIS_ROLE_REPLICA : *role;
}

static void read_handover(void *to, struct info_text value)
{
    enum redis_handover *handover = to;
    *handover = text_is(value, "waiting-for-sync")       ? REDIS_HANDOVER_WAITING
                : text_is(value, "failover-in-progress") ? REDIS_HANDOVER_RUNNING
                                                         : *handover;
}

static void read_host(void *to, struct info_text value)
{
    redis_info_copy_text(to, REDIS_HOST_SIZE, value);
}

static void read_up(void *to, struct info_text value)
{
    *(bool *)to = text_is(value, "up");
}

/* True if one of the fields that share it is 1. */
static void read_flag(void *to, struct info_text value)
{
    *(bool *)to = *(bool *)to || text_is(value, "1");
}

static void read_int64(void *to, struct info_text value)
{
    *(int64_t *)to = number_of(value);
}

static void read_int(void *to, struct info_text value)
{
    int64_t n = number_of(value);
    *(int *)to = n >= 0 && n <= INT32_MAX ? (int)n : *(int *)to;
}

#define FACT(field) offsetof(struct info_reading, facts.field)

static const struct info_row {
    const char *name;
    bool numbered; /* a digit follows the name: one of several */
    void (*read)(void *to, struct info_text value);
    size_t offset; /* in struct info_reading */
} ROWS[] = {
    {"role", false, read_role, FACT(role)},
    {"run_id", false, read_id, FACT(run_id)},
    {"master_replid", false, read_id, FACT(replid)},
    {"master_replid2", false, read_id, FACT(replid2)},
    {"master_link_status", false, read_up, FACT(link_up)},
    {"master_sync_in_progress", false, read_flag, FACT(sync_in_progress)},
    {"loading", false, read_flag, FACT(loading)},
    {"async_loading", false, read_flag, FACT(loading)},
    {"master_failover_state", false, read_handover, FACT(handover)},
    {"redis_version", false, read_version, FACT(version)},
    {"slave_read_repl_offset", false, read_int64, FACT(read_offset)},
    {"second_repl_offset", false, read_int64, FACT(second_offset)},
    {"slave_priority", false, read_int, FACT(priority)},
    {"min_slaves_good_slaves", false, read_int, FACT(good_replicas)},
    {"master_host", false, read_host, offsetof(struct info_reading, host)},
    {"master_port", false, read_int64, offsetof(struct info_reading, port)},
    {"master_repl_offset", false, read_int64, offsetof(struct info_reading, own_offset)},
    {"slave_repl_offset", false, read_int64, offsetof(struct info_reading, replica_offset)},
    {"master_link_down_since_seconds", false, read_int64,
     offsetof(struct info_reading, link_down_s)},
    {"slave", true, read_replica, 0},
    {"db", true, read_database, FACT(keys)},
};

static bool row_is_of(const struct info_row *row, struct info_text name)
{
    size_t len = strlen(row->name);
    return row->numbered ? text_starts(name, row->name) && name.len > len && name.at[len] >= '0' &&
                               name.at[len] <= '9'
                         : text_is(name, row->name);
}

static void redis_info_read_line(struct info_reading *r, struct info_text line)
{
    if (text_starts(line, "# Keyspace")) {
        r->keyspace = true; /* of an empty server there is only the title */
        return;
    }
    const char *colon = memchr(line.at, ':', line.len);
    if (colon == NULL || line.at[0] == '#') {
        return;
    }
    struct info_text name = {line.at, (size_t)(colon - line.at)};
    struct info_text value = {colon + 1, line.len - name.len - 1};
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        if (row_is_of(&ROWS[i], name)) {
            ROWS[i].read((char *)r + ROWS[i].offset, value);
            return;
        }
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Facts that follow from several lines. */
static void conclude(struct info_reading *r)
{
    struct redis_facts *facts = &r->facts;
    if (facts->role == REDIS_ROLE_REPLICA) {
        if (r->host[0] != '\0' && r->port > 0 && r->port <= 65535) {
            redis_info_address_write(facts->master, r->host, r->port);
        }
        /* Without a link slave_repl_offset may be missing (a full synchronization has begun) while the server still has
         * its data and their offset. Before 4.0 the other field means something else. */
        facts->offset =
            facts->replid[0] == '\0' ? r->replica_offset : larger(r->replica_offset, r->own_offset);
        facts->link_down_ms = r->link_down_s < 0                  ? -1
                              : r->link_down_s > INT64_MAX / 1000 ? INT64_MAX
                                                                  : r->link_down_s * 1000;
    } else {
        facts->offset = r->own_offset;
        facts->link_up = false;
    }
    assert(facts->replica_count <= REDIS_REPLICAS_MAX);
    facts->read_offset = larger(facts->read_offset, facts->offset);
    if (facts->keys < 0 && r->keyspace) {
        facts->keys = 0;
    }
    if (facts->replid2[0] == '\0') {
        facts->second_offset = -1;
    }
}

int redis_facts_read(const char *text, size_t len, struct redis_facts *ret)
{
    struct info_reading r = {
        .facts = {.second_offset = -1,
                  .offset = -1,
                  .read_offset = -1,
                  .priority = 100,
                  .link_down_ms = -1,
                  .keys = -1,
                  .good_replicas = -1},
        .port = -1,
        .own_offset = -1,
        .replica_offset = -1,
        .link_down_s = -1,
    };
    struct info_text rest = {text, len};
    while (rest.len > 0) {
        const char *end = memchr(rest.at, '\n', rest.len);
        struct info_text line = {rest.at, end != NULL ? (size_t)(end - rest.at) : rest.len};
        size_t gone = line.len + (end != NULL ? 1 : 0);
        rest.at += gone;
        rest.len -= gone;
        while (line.len > 0 && (line.at[line.len - 1] == '\r' || line.at[line.len - 1] == ' ')) {
            line.len--;
        }
        if (line.len > 0) {
            redis_info_read_line(&r, line);
        }
    }
    if (r.facts.role == REDIS_ROLE_UNKNOWN) {
        return CONCLAVE_ECORRUPT;
    }
    conclude(&r);
    *ret = r.facts;
    return 0;
}

bool redis_facts_of_history(const struct redis_facts *facts, const char *replid,
                            const char *replid2, int64_t second_offset)
{
    if (facts->replid[0] == '\0' || replid[0] == '\0' || facts->offset < 0) {
        return false;
    }
    if (strcmp(facts->replid, replid) == 0) {
        return true;
    }
    if (facts->replid2[0] != '\0' && strcmp(facts->replid2, replid) == 0) {
        return true; /* it continued this history */
    }
    if (replid2[0] == '\0' || second_offset < 0) {
        return false;
    }
    /* it missed the last change of master: a beginning, if it ends before the change */
    if (strcmp(facts->replid, replid2) == 0) {
        return facts->offset < second_offset;
    }
    /* or it was promoted at such a point */
    return strcmp(facts->replid2, replid2) == 0 && facts->second_offset >= 0 &&
           facts->second_offset <= second_offset;
}

const char *const REDIS_ROLES[] = {"unknown", "master", "replica", NULL};

const char *redis_role_name(enum redis_role role)
{
    return REDIS_ROLES[role];
}
