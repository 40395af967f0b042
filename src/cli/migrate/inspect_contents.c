#include "cli/migrate/inspect_contents.h"

#include "state/adopt/outcome.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void count_kinds(const struct tree *t, struct node_kinds *ret)
{
    for (const struct znode *node = t->root; node != NULL; node = tree_next(node)) {
        switch (tree_owner_kind(znode_owner(node))) {
        case TREE_OWNER_SESSION:
            ret->ephemeral++;
            break;
        case TREE_OWNER_IS_CONTAINER:
            ret->container++;
            break;
        case TREE_OWNER_IS_TTL:
            ret->ttl++;
            break;
        default:
            ret->persistent++;
        }
    }
}

static void count_session(void *ctx, const struct state_session *session)
{
    struct inspect_contents *c = ctx;
    uint8_t apaches[WIRE_PASSWD_LEN];
    bool first = c->timeout_max_ms == 0;
    outcome_password(session->id, apaches);
    c->foreign_sessions += memcmp(apaches, session->passwd, WIRE_PASSWD_LEN) != 0;
    c->timeout_min_ms =
        first || session->timeout_ms < c->timeout_min_ms ? session->timeout_ms : c->timeout_min_ms;
    c->timeout_max_ms =
        session->timeout_ms > c->timeout_max_ms ? session->timeout_ms : c->timeout_max_ms;
}

int inspect_contents_make(const struct state *s, unsigned depth, size_t top,
                          struct inspect_contents *ret)
{
    *ret =
        (struct inspect_contents){.state = s, .branches = calloc(top + 1, sizeof *ret->branches)};
    if (ret->branches == NULL) {
        return CONCLAVE_ENOMEM;
    }
    state_stats(s, &ret->stats);
    count_kinds(state_tree(s), &ret->kinds);
    state_session_each(s, count_session, ret);
    ret->count = tree_branches(state_tree(s), depth, ret->branches, top);
    ret->shown = ret->count < top ? ret->count : top;
    assert(ret->stats.nodes > 0 && ret->kinds.ephemeral == ret->stats.ephemerals);
    return 0;
}

void inspect_contents_finish(struct inspect_contents *c)
{
    free(c->branches);
    c->branches = NULL;
}

void inspect_print_time(int64_t time_ms)
{
    char text[32];
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm parts;
    if (time_ms > 0 && gmtime_r(&seconds, &parts) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts) > 0) {
        printf(", %s", text);
    }
}

void inspect_contents_print(const struct inspect_contents *c)
{
    const struct node_kinds *k = &c->kinds;
    printf("sessions      %zu, with %zu ephemeral nodes", c->stats.sessions, c->stats.ephemerals);
    if (c->stats.sessions > 0) {
        printf("; timeouts from %d to %d ms", c->timeout_min_ms, c->timeout_max_ms);
    }
    if (c->foreign_sessions > 0) {
        printf("; %zu opened by Conclave, whose clients Apache would not know",
               c->foreign_sessions);
    }
    printf("\nnodes         %zu, %zu bytes of paths and data\n", c->stats.nodes,
           c->stats.data_bytes);
    printf("kinds         %zu persistent, %zu ephemeral, %zu containers, %zu with a TTL\n",
           k->persistent, k->ephemeral, k->container, k->ttl);
}

void inspect_branches_print(const struct inspect_contents *c)
{
    struct buf path;
    buf_init(&path, 0);
    printf("\nNODES\tBYTES\tBRANCH\n");
    for (size_t i = 0; i < c->shown; i++) {
        buf_reset(&path);
        znode_append_path(c->branches[i].node, &path);
        printf("%zu\t%" PRIu64 "\t%.*s\n", c->branches[i].nodes, c->branches[i].bytes,
               SLICE_FMT(buf_slice(&path)));
    }
    if (c->count > c->shown) {
        printf("... and %zu more: --top %zu\n", c->count - c->shown, c->count);
    }
    buf_finish(&path);
}

static void branches_json(const struct inspect_contents *c, struct json *j)
{
    struct buf path;
    buf_init(&path, 0);
    json_key(j, "branches");
    json_array_begin(j);
    for (size_t i = 0; i < c->shown; i++) {
        buf_reset(&path);
        znode_append_path(c->branches[i].node, &path);
        json_object_begin(j);
        json_member_text(j, "path", buf_slice(&path));
        json_member_uint(j, "nodes", c->branches[i].nodes);
        json_member_uint(j, "bytes", c->branches[i].bytes);
        json_object_end(j);
    }
    json_array_end(j);
    buf_finish(&path);
}

void inspect_contents_json(const struct inspect_contents *c, struct json *j)
{
    json_member_uint(j, "sessions", c->stats.sessions);
    json_member_uint(j, "sessions_of_conclave", c->foreign_sessions);
    json_member_int(j, "timeout_min_ms", c->timeout_min_ms);
    json_member_int(j, "timeout_max_ms", c->timeout_max_ms);
    json_member_uint(j, "ephemerals", c->stats.ephemerals);
    json_member_uint(j, "nodes", c->stats.nodes);
    json_member_uint(j, "persistent", c->kinds.persistent);
    json_member_uint(j, "containers", c->kinds.container);
    json_member_uint(j, "ttl_nodes", c->kinds.ttl);
    json_member_uint(j, "bytes", c->stats.data_bytes);
    branches_json(c, j);
}
