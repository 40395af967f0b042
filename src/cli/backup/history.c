/*
 * conclave history: what happened to a node, from backups. After each command of the log the node's stat is compared
 * with that before, so nothing is missed, whatever the command was.
 */
#include "cli/backup/moment.h"
#include "cli/backup/past.h"
#include "cli/common/command.h"
#include "cli/common/connection.h"
#include "cli/common/record.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct history_options {
    struct past_options past;
    bool children;
    bool json;
};

static const struct option_row ROWS[] = {
    OPTION_GROUP(PAST_ROWS, offsetof(struct history_options, past)),
    {"children", 0, OPTION_FLAG, offsetof(struct history_options, children), NULL,
     "Also show when children were created and deleted."},
    {"json", 0, OPTION_FLAG, offsetof(struct history_options, json), NULL, "Print JSON."},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "history",
    .forms =
        (const char *const[]){"PATH --dir DIR [options]", "PATH --from FILE... [options]", NULL},
    .about =
        "Shows what happened to a node, from backups: a full one and the incremental ones that "
        "continue it. Each change with its zxid, its time by the leader's clock, the session that "
        "made it, the address of the client and its identities.\n"
        "\n"
        "The snapshot that a full backup begins with has only states: of a node that was made "
        "before, the last change is shown, without who made it. Of a folder all backups are read; "
        "what happened in a gap between them is shown in the same way.",
    .rows = ROWS,
    .more = "With --json: {\"path\", \"changes\":[{\"zxid\", \"time_ms\", \"operation\", \"by\", "
            "\"session\", \"address\", \"identities\", \"version\", \"data_length\"}]}; null is "
            "what the log does not say.\n",
    .operands = {1, 10000},
};

struct history {
    const struct history_options *options;
    struct slice path;
    bool begun; /* the first state was seen */
    bool there;
    struct wire_stat stat; /* while it is there */
    struct past_walk walk;
    struct record out;
    size_t rows;
    int error;
};

/* What a change did, or NULL: nothing that is shown. */
static const char *operation_of(const struct history *h, bool there, const struct wire_stat *now)
{
    const struct wire_stat *was = &h->stat;
    if (!there) {
        return h->there ? "delete" : NULL;
    }
    if (!h->there) {
        return "create";
    }
    return now->czxid != was->czxid         ? "recreate"
           : now->mzxid != was->mzxid       ? "set"
           : now->aversion != was->aversion ? "setACL"
           : now->cversion != was->cversion || now->pzxid != was->pzxid
               ? (h->options->children ? "children" : NULL)
               : NULL;
}

/* What kind of command made it. */
static const char *maker_of(const struct backup_change *change)
{
    if (change == NULL) {
        return "server"; /* a restored state, or a change of members */
    }
    switch (change->command->type) {
    case WIRE_CLOSE_SESSION:
        return "session end";
    case WIRE_DELETE_CONTAINER:
        return "ttl or container";
    case WIRE_MULTI:
        return "multi";
    default:
        return "request";
    }
}

/* "digest:anna,sasl:bob" without hashes; the address goes to ret_address. */
static void identities_of(const struct backup_change *change, struct buf *ret, char ret_address[64])
{
    ret_address[0] = '\0';
    struct wire_vector ids = change != NULL ? change->command->ids : WIRE_VECTOR_NULL;
    struct wire_id id;
    while (wire_next_id(&ids, &id)) {
        if (slice_equal_str(id.scheme, "ip")) {
            snprintf(ret_address, 64, "%.*s", (int)id.id.len, (const char *)id.id.data);
            continue;
        }
        const uint8_t *colon = slice_equal_str(id.scheme, "digest") && id.id.len > 0
                                   ? memchr(id.id.data, ':', id.id.len)
                                   : NULL;
        size_t len = colon != NULL ? (size_t)(colon - id.id.data) : id.id.len;
        buf_append_str(ret, ret->len > 0 ? "," : "");
        buf_append_slice(ret, id.scheme);
        buf_append_str(ret, ":");
        buf_append(ret, id.id.data, len);
    }
}

static void history_json(struct json *j, const struct history *h, bool there,
                         const struct backup_change *change, const char *address, struct buf *ids)
{
    const char *names = ids->len > 0 ? buf_cstr(ids) : NULL;
    if (change != NULL) {
        json_member_hex(j, "session", change->command->session_id);
    } else {
        json_member_null(j, "session");
    }
    json_member_string_or_null(j, "address", address[0] != '\0' ? address : NULL);
    json_member_string_or_null(j, "identities", names);
    if (there) {
        json_member_int(j, "version", h->stat.version);
        json_member_int(j, "data_length", h->stat.data_length);
    } else {
        json_member_null(j, "version");
        json_member_null(j, "data_length");
    }
}

/* One row; h->stat is that after the change. */
static void history_print(struct history *h, const struct backup_change *change,
                          const char *operation, int64_t zxid, int64_t time_ms, bool there)
{
    char address[64];
    char when[MOMENT_TEXT_MAX];
    struct buf ids;
    const char *by = operation[0] == '(' ? NULL : maker_of(change);
    buf_init(&ids, 0);
    identities_of(change, &ids, address);
    h->rows++;
    if (h->options->json) {
        struct json *j = &h->out.j;
        json_object_begin(j);
        json_member_hex(j, "zxid", zxid);
        json_member_int(j, "time_ms", time_ms);
        json_member_string(j, "operation",
                           operation[0] != '(' ? operation
                           : there             ? "state"
                                               : "gone");
        json_member_string_or_null(j, "by", by);
        history_json(j, h, there, change, address, &ids);
        json_object_end(j);
    } else {
        printf("0x%-10" PRIx64 " %-27s %-9s %-16s ", (uint64_t)zxid, moment_text(time_ms, when),
               operation, by != NULL ? by : "-");
        if (change != NULL) {
            printf("0x%-16" PRIx64 " ", (uint64_t)change->command->session_id);
        } else {
            printf("%-18s ", "-");
        }
        printf("%-15s %s", address[0] != '\0' ? address : "-",
               ids.len > 0 && buf_cstr(&ids) != NULL ? (const char *)ids.data : "-");
        if (there) {
            printf("  version %" PRId32 ", %" PRId32 " bytes", h->stat.version,
                   h->stat.data_length);
        }
        putchar('\n');
    }
    h->error = buf_ok(&ids) ? h->error : CONCLAVE_ENOMEM;
    buf_finish(&ids);
}

/* The state behind a gap between two series: what happened in it, as far as that shows. */
static void history_gap(struct history *h, const struct state *s, bool there,
                        const struct wire_stat *now)
{
    bool was = h->there;
    assert(h->begun && h->walk.gap);
    bool same = was && there && operation_of(h, true, now) == NULL;
    h->stat = there ? *now : h->stat;
    h->there = there;
    if (there && !same) {
        history_print(h, NULL, "(before)", now->mzxid, now->mtime, true);
    } else if (was && !there) {
        history_print(h, NULL, "(gone)", state_zxid(s), state_time_ms(s), false);
    }
}

static void history_changed(void *ctx, const struct state *s, const struct backup_change *change)
{
    struct history *h = ctx;
    struct wire_stat now = {0};
    int rc = past_stat(s, h->path, &now);
    bool there = rc == 0;
    h->error = rc == 0 || rc == CONCLAVE_NO_NODE ? h->error : rc;
    if (!h->begun) {
        h->begun = true;
        h->stat = now;
        if (there && state_zxid(s) > 0) {
            history_print(h, NULL, "(before)", now.mzxid, now.mtime, true);
        }
        h->there = there;
        return;
    }
    if (h->walk.gap) {
        history_gap(h, s, there, &now);
        return;
    }
    const char *operation = operation_of(h, there, &now);
    h->stat = there ? now : h->stat;
    if (operation != NULL) {
        assert(there || h->there);
        history_print(h, change, operation, state_zxid(s),
                      change != NULL ? change->header->time_ms : state_time_ms(s), there);
    }
    h->there = there;
}

int command_history(int argc, char **argv)
{
    struct history_options o = {.json = false};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &o, &operands);
    code = code == OPTIONS_GO_ON ? path_check(&USAGE, operands.words[0]) : code;
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    struct history h = {.options = &o, .path = slice_str(operands.words[0])};
    if (o.json) {
        json_init(&h.out.j);
        json_object_begin(&h.out.j);
        json_member_string(&h.out.j, "path", operands.words[0]);
        json_key(&h.out.j, "changes");
        json_array_begin(&h.out.j);
    }
    h.walk = (struct past_walk){.changed = history_changed, .ctx = &h};
    code = past_walk(&USAGE, &o.past, operands.words + 1, (size_t)operands.count - 1, &h.walk);
    if (code != 0) {
        if (o.json) {
            json_finish(&h.out.j);
        }
        return code;
    }
    if (o.json) {
        json_array_end(&h.out.j);
        h.error = json_line_print(&h.out.j, stdout) != 0 ? CONCLAVE_EIO : h.error;
    }
    if (h.error != 0) {
        return fail(USAGE.name, operands.words[0], h.error);
    }
    if (h.rows == 0) {
        fprintf(stderr, "conclave history: %s: the backups have nothing about it\n",
                operands.words[0]);
        code = CLI_EXIT_FAILED;
    }
    return output_end(USAGE.name, code);
}
