#include "front/login/audit_log.h"

#include "base/buf.h"
#include "base/log.h"
#include "state/multi.h"
#include "state/operation.h"
#include "tree/acl_rules.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    GATHER_MAX = 256 << 10, /* with so many bytes, lines do not wait for the end of the turn */
    MODE_PRIVATE = 0640,
};

struct audit_log {
    int fd;
    bool own_fd;
    const struct clock_source *clock;
    struct buf lines;
    char *user; /* the user that runs the server */
    bool losing;
    uint64_t lost;
};

/* The fields of one line. */
struct entry {
    const char *session; /* NULL: none */
    struct wire_vector ids;
    const char *user; /* used instead of ids */
    const char *host;
    const char *operation;
    struct slice path;
    const char *mode;
    struct wire_vector acl; /* setAcl */
    const char *result;
};

static const struct entry blank_entry = {
    .ids = {{NULL, 0}, -1}, .path = {NULL, 0}, .acl = {{NULL, 0}, -1}};

/* --- the file --------------------------------------------------------------------------------- */

static char *running_user(void)
{
    struct passwd entry;
    struct passwd *found = NULL;
    char room[4096];
    if (getpwuid_r(geteuid(), &entry, room, sizeof room, &found) == 0 && found != NULL) {
        return strdup(found->pw_name);
    }
    return strdup("?");
}

int audit_log_open(const char *path, const struct clock_source *clock, struct audit_log **ret,
                   int *ret_errno)
{
    struct audit_log *a = calloc(1, sizeof *a);
    if (a == NULL) {
        return CONCLAVE_ENOMEM;
    }
    a->fd = STDERR_FILENO;
    a->clock = clock;
    buf_init(&a->lines, 0);
    a->user = running_user();
    if (a->user == NULL) {
        audit_log_close(a);
        return CONCLAVE_ENOMEM;
    }
    if (path != NULL) {
        a->fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, MODE_PRIVATE);
        *ret_errno = errno;
        a->own_fd = a->fd >= 0;
    }
    if (a->fd < 0) {
        audit_log_close(a);
        return CONCLAVE_EIO;
    }
    *ret = a;
    return 0;
}

void audit_log_close(struct audit_log *a)
{
    if (a == NULL) {
        return;
    }
    audit_log_flush(a);
    if (a->own_fd && close(a->fd) != 0) {
        log_error_advice("server", "audit-lost",
                         "make room on the disk of the audit file, or check its permissions",
                         "error=\"%s\"", strerror(errno));
    }
    buf_finish(&a->lines);
    free(a->user);
    free(a);
}

void audit_log_flush(struct audit_log *a)
{
    if (a->lines.len == 0) {
        return;
    }
    assert(a->losing == (a->lost > 0) && a->lines.data[a->lines.len - 1] == '\n');
    bool written = fd_write_all(a->fd, buf_slice(&a->lines));
    if (!written && !a->losing) {
        log_error_advice("server", "audit-lost",
                         "make room on the disk of the audit file, or check its permissions",
                         "error=\"%s\"", strerror(errno));
    } else if (written && a->losing) {
        log_warn_advice("server", "audit-resumed",
                        "nothing to do: note that audit lines are missing", "lost_bytes=%llu",
                        (unsigned long long)a->lost);
        a->lost = 0;
    }
    a->lost += written ? 0 : a->lines.len;
    a->losing = !written;
    buf_reset(&a->lines);
}

/* --- lines ------------------------------------------------------------------------------------ */

static void append_clean(struct buf *out, struct slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < ' ' || text.data[i] == 0x7f) {
            buf_printf(out, "\\x%02x", text.data[i]);
        } else {
            buf_append_u8(out, text.data[i]);
        }
    }
}

static void append_field(struct buf *out, size_t start, const char *key, struct slice value)
{
    if (slice_is_null(value)) {
        return;
    }
    if (out->len > start) {
        buf_append_u8(out, '\t');
    }
    buf_append_str(out, key);
    buf_append_u8(out, '=');
    append_clean(out, value);
}

/* A digest's user is the part before the colon; the mark of a superuser has no name. */
static struct slice user_of(const struct wire_id *id)
{
    const uint8_t *colon = NULL;
    if (slice_equal_str(id->scheme, "super") ||
        slice_equal_str(id->scheme, ACL_SCHEME_SASL_GRANT)) {
        return slice_str("");
    }
    if (slice_equal_str(id->scheme, "digest") && id->id.len > 0) {
        colon = memchr(id->id.data, ':', id->id.len);
    }
    return colon == NULL ? id->id : slice_make(id->id.data, (size_t)(colon - id->id.data));
}

static void append_users(struct buf *out, struct wire_vector ids)
{
    struct wire_id id;
    bool first = true;
    while (wire_next_id(&ids, &id)) {
        struct slice user = user_of(&id);
        if (user.len == 0) {
            continue;
        }
        buf_append_str(out, first ? "\tuser=" : ",");
        append_clean(out, user);
        first = false;
    }
}

/* scheme:id:perms of all entries without separators, as ZKUtil.aclToString. */
static void append_acl(struct buf *out, struct wire_vector acl)
{
    static const char letters[] = "rwcda";
    static const char order[] = "cdrwa";
    struct wire_acl entry;
    if (acl.count < 0) {
        return;
    }
    buf_append_str(out, "\tacl=");
    while (wire_next_acl(&acl, &entry)) {
        append_clean(out, entry.id.scheme);
        buf_append_u8(out, ':');
        append_clean(out, user_of(&entry.id));
        if (slice_equal_str(entry.id.scheme, "digest")) {
            buf_append_str(out, ":x");
        }
        buf_append_u8(out, ':');
        for (size_t i = 0; order[i] != '\0'; i++) {
            if ((entry.perms & (1 << (strchr(letters, order[i]) - letters))) != 0) {
                buf_append_u8(out, (uint8_t)order[i]);
            }
        }
    }
}

static void append_head(struct audit_log *a, bool failure)
{
    int64_t ms = clock_wall_ms(a->clock);
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    char when[32];
    if (localtime_r(&seconds, &tm) == NULL || strftime(when, sizeof when, "%F %T", &tm) == 0) {
        when[0] = '\0';
    }
    buf_printf(&a->lines, "%s,%03d %s audit.Slf4jAuditLogger: ", when, (int)(ms % 1000),
               failure ? "ERROR" : "INFO");
}

static void audit_line(struct audit_log *a, const struct entry *e)
{
    struct buf *out = &a->lines;
    size_t before = out->len;
    assert(buf_ok(out) && out->len <= GATHER_MAX && e->result != NULL);
    append_head(a, strcmp(e->result, "failure") == 0);
    size_t start = out->len;
    append_field(out, start, "session", slice_str(e->session));
    if (e->user != NULL) {
        append_field(out, start, "user", slice_str(e->user));
    } else {
        append_users(out, e->ids);
    }
    append_field(out, start, "ip", slice_str(e->host));
    append_field(out, start, "operation", slice_str(e->operation));
    append_field(out, start, "znode", e->path);
    append_field(out, start, "znode_type", slice_str(e->mode));
    append_acl(out, e->acl);
    append_field(out, start, "result", slice_str(e->result));
    buf_append_u8(out, '\n');
    if (!buf_ok(out)) {
        log_error_advice("server", "audit-lost",
                         "make room on the disk of the audit file, or check its permissions",
                         "error=\"out of memory\"");
        out->len = before;
        out->failed = false;
    }
    if (out->len > GATHER_MAX) {
        audit_log_flush(a);
    }
}

/* --- commands --------------------------------------------------------------------------------- */

/* The names of CreateMode. */
static const char *mode_name(int32_t flags)
{
    static const char *const names[] = {
        [WIRE_MODE_PERSISTENT] = "persistent",
        [WIRE_MODE_EPHEMERAL] = "ephemeral",
        [WIRE_MODE_PERSISTENT_SEQUENTIAL] = "persistent_sequential",
        [WIRE_MODE_EPHEMERAL_SEQUENTIAL] = "ephemeral_sequential",
        [WIRE_MODE_CONTAINER] = "container",
        [WIRE_MODE_PERSISTENT_TTL] = "persistent_with_ttl",
        [WIRE_MODE_PERSISTENT_SEQUENTIAL_TTL] = "persistent_sequential_with_ttl",
    };
    return flags >= 0 && (size_t)flags < sizeof names / sizeof names[0] ? names[flags] : NULL;
}

/* Operation, path, mode and acl of an entry; op NULL: the request could not be read. False: such requests have no line. */
static bool describe(struct entry *e, int32_t type, const struct operation *op)
{
    switch (type) {
    case WIRE_CREATE:
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL:
        e->operation = "create";
        e->path = op != NULL ? op->u.create.path : SLICE_NULL;
        e->mode = op != NULL ? mode_name(op->u.create.flags) : NULL;
        return true;
    case WIRE_DELETE:
        e->operation = "delete";
        e->path = op != NULL ? op->u.delete.path : SLICE_NULL;
        return true;
    case WIRE_DELETE_CONTAINER:
        e->operation = "delete";
        e->path = op != NULL ? op->u.spent.path : SLICE_NULL;
        return true;
    case WIRE_SET_DATA:
        e->operation = "setData";
        e->path = op != NULL ? op->u.set_data.path : SLICE_NULL;
        return true;
    case WIRE_SET_ACL:
        e->operation = "setAcl";
        if (op != NULL) {
            e->path = op->u.set_acl.path;
            e->acl = op->u.set_acl.acl;
        }
        return true;
    case WIRE_RECONFIG:
        e->operation = "reconfig";
        e->path = slice_str("/zookeeper/config");
        return true;
    default:
        return false;
    }
}

/* Skips the result of a write; for a create it takes the path, which may have got a sequence number. */
static int read_result(int32_t type, struct wire_reader *r, struct entry *entry)
{
    struct wire_create_response created;
    struct wire_create2_response created2;
    struct wire_set_data_response set;
    int rc = 0;
    switch (type) {
    case WIRE_CREATE:
        rc = wire_decode_create_response(r, &created);
        entry->path = rc == 0 ? created.path : entry->path;
        break;
    case WIRE_CREATE2:
    case WIRE_CREATE_CONTAINER:
    case WIRE_CREATE_TTL:
        rc = wire_decode_create2_response(r, &created2);
        entry->path = rc == 0 ? created2.path : entry->path;
        break;
    case WIRE_SET_DATA:
        rc = wire_decode_set_data_response(r, &set);
        break;
    default:
        break;
    }
    return rc;
}

/* Each part of a successful multi has a line; a failed multi has one line. */
static void audit_multi(struct audit_log *a, const struct command *command,
                        const struct effects *effects, struct entry *entry)
{
    struct wire_reader parts = wire_reader_make(command->body);
    struct wire_reader results = wire_reader_make(buf_slice(&effects->reply));
    struct wire_multi_header result = {0};
    struct operation op;
    int more = 1;
    while (effects->err == 0 && (more = multi_next_part(&parts, &op)) == 1 &&
           wire_decode_multi_header(&results, &result) == 0 && result.err == 0 &&
           result.type != WIRE_ERROR) {
        struct entry one = *entry;
        bool has_line = describe(&one, op.type, &op); /* a check has none */
        if (read_result(op.type, &results, &one) != 0) {
            return; /* our own reply cannot be malformed */
        }
        one.result = "success";
        if (has_line) {
            audit_line(a, &one);
        }
    }
    /* One line for the multi: its end was not reached, or the first result is an error. */
    if (effects->err != 0 || (effects->reply.len > 0 && more != 0)) {
        entry->operation = "multiOperation";
        entry->result = "failure";
        audit_line(a, entry);
    }
}

/* The ephemeral nodes that ended with a session: the server deleted them. */
static void audit_ephemerals(struct audit_log *a, const struct effects *effects,
                             struct entry *entry)
{
    entry->user = a->user;
    entry->host = NULL;
    entry->operation = "ephemeralZNodeDeletionOnSessionCloseOrExpire";
    entry->result = "success";
    for (size_t i = 0; i < effects->events_count; i++) {
        if (effects->events[i].type == WIRE_EVENT_NODE_DELETED) {
            entry->path = effects->events[i].path;
            audit_line(a, entry);
        }
    }
}

void audit_log_command(struct audit_log *a, const struct command *command,
                       const struct effects *effects, const char *host)
{
    struct entry entry = blank_entry;
    char session[24];
    snprintf(session, sizeof session, "0x%llx", (unsigned long long)command->session_id);
    entry.session = session;
    entry.ids = command->ids;
    entry.host = host;
    if (command->type == WIRE_CLOSE_SESSION) {
        if (command->body.len > 0 && effects->session_change == STATE_SESSION_CLOSED) {
            entry.operation = "killSession";
            entry.result = "success";
            audit_line(a, &entry);
        }
        audit_ephemerals(a, effects, &entry);
        return;
    }
    if (command->type == WIRE_MULTI) {
        audit_multi(a, command, effects, &entry);
        return;
    }
    struct operation op;
    struct wire_reader body = wire_reader_make(command->body);
    struct wire_reader reply = wire_reader_make(buf_slice(&effects->reply));
    bool decoded = operation_decode(&body, command->type, &op) == 0;
    if (!describe(&entry, command->type, decoded ? &op : NULL)) {
        return;
    }
    bool success = decoded && effects->err == 0 && read_result(command->type, &reply, &entry) == 0;
    if (command->type == WIRE_DELETE_CONTAINER) {
        entry.session = NULL;
        entry.user = a->user;
    }
    entry.result = success ? "success" : "failure";
    audit_line(a, &entry);
}

void audit_log_login(struct audit_log *a, const char *operation, int64_t session_id,
                     struct wire_vector ids, const char *host, bool success)
{
    audit_log_act(a, operation, session_id, ids, host, SLICE_NULL, success);
}

void audit_log_act(struct audit_log *a, const char *operation, int64_t session_id,
                   struct wire_vector ids, const char *host, struct slice path, bool success)
{
    struct entry entry = blank_entry;
    char session[24];
    snprintf(session, sizeof session, "0x%llx", (unsigned long long)session_id);
    entry.session = session;
    entry.ids = ids;
    entry.host = host;
    entry.operation = operation;
    entry.path = path;
    entry.result = success ? "success" : "failure";
    audit_line(a, &entry);
}

void audit_log_server(struct audit_log *a, const char *operation, const char *result)
{
    struct entry entry = blank_entry;
    entry.user = a->user;
    entry.operation = operation;
    entry.result = result;
    audit_line(a, &entry);
}
