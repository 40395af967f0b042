/* Lists of leases: a folder with a node of each lease, which goes with it. */
#include "recipes/value/session_lease.h"

#include "recipes/engine/blocking_requests.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/recipe_runtime.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_ENTRY_NAME_MAX = 256, SESSION_DIGITS = 16 };

/* Without control characters, which a terminal would obey. */
static bool name_valid(const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] < ' ' || name[i] == 0x7f) {
            return false;
        }
    }
    return len <= LEASE_ENTRY_NAME_MAX;
}

int conclave_lease_enlist(struct conclave_lease *lease, const char *folder, const char *name,
                          int64_t timeout_ms)
{
    char data[LEASE_ENTRY_NAME_MAX + 24];
    char session[SESSION_DIGITS + 1];
    struct conclave_session granted = CONCLAVE_SESSION_INIT;
    if (!option_path_valid(folder) || name == NULL || !name_valid(name)) {
        return CONCLAVE_EINVAL;
    }
    int error = client_check(conclave_lease_client(lease));
    if (error != 0) {
        return error;
    }
    conclave_client_session(conclave_lease_client(lease), &granted);
    if (granted.id == 0) {
        return CONCLAVE_SESSION_EXPIRED;
    }
    (void)snprintf(session, sizeof session, "%016" PRIx64, (uint64_t)granted.id);
    int len = snprintf(data, sizeof data, "%" PRId64 " %s", granted.timeout_ms, name);
    char *path = path_join(folder, session);
    error = path == NULL ? CONCLAVE_ENOMEM
                         : conclave_lease_acquire(lease, path, data, (size_t)len,
                                                  CONCLAVE_LEASE_DELETE, timeout_ms, NULL);
    free(path);
    return error;
}

/* Of an ephemeral node; the other values mark persistent nodes, containers and nodes with a TTL. */
static bool is_session(uint64_t owner)
{
    return owner != 0 && owner != UINT64_C(1) << 63 && owner >> 56 != 0xff;
}

/* Whether a node is that of a lease in the list. Any client may have made it. */
static bool entry_read(const char *node, const struct conclave_reply *reply,
                       struct conclave_lease_entry *ret, const char **ret_name)
{
    char *end;
    uint64_t session = strtoull(node, NULL, 16);
    if (strlen(node) != SESSION_DIGITS || strspn(node, "0123456789abcdef") != SESSION_DIGITS ||
        !is_session(session) || (int64_t)session != reply->stat.ephemeral_owner ||
        reply->data == NULL) {
        return false;
    }
    int64_t ttl_ms = strtoll(reply->data, &end, 10); /* the data end with a NUL */
    if (end == (const char *)reply->data || *end != ' ' || ttl_ms <= 0 || !name_valid(end + 1)) {
        return false;
    }
    ret->session_id = (int64_t)session;
    ret->ttl_ms = ttl_ms;
    ret->since_ms = reply->stat.ctime_ms;
    *ret_name = end + 1;
    return true;
}

static int entry_order(const void *a, const void *b)
{
    const struct conclave_lease_entry *const *one = a;
    const struct conclave_lease_entry *const *other = b;
    uint64_t x = (uint64_t)(*one)->session_id;
    uint64_t y = (uint64_t)(*other)->session_id;
    return x < y ? -1 : x > y ? 1 : 0;
}

int conclave_lease_list(struct conclave_client *client, const char *folder, int64_t timeout_ms,
                        struct conclave_lease_entry ***ret, size_t *ret_count)
{
    struct conclave_reply *names = NULL;
    size_t count = 0;
    int error = option_path_valid(folder) ? client_check(client) : CONCLAVE_EINVAL;
    if (error != 0) {
        return error;
    }
    struct blocking b = blocking_begin(client, timeout_ms);
    error = blocking_ask(&b, CONCLAVE_OP_GET_CHILDREN, folder, &names);
    if (error != 0 && error != CONCLAVE_NO_NODE) {
        conclave_reply_free(names);
        return error;
    }
    size_t nodes = error == 0 ? names->children_count : 0;
    char *texts;
    struct conclave_lease_entry **list =
        struct_list(nodes, sizeof **list, nodes * (LEASE_ENTRY_NAME_MAX + 1), &texts);
    error = list == NULL ? CONCLAVE_ENOMEM : 0;
    for (size_t i = 0; i < nodes && error == 0; i++) {
        struct conclave_reply *node = NULL;
        const char *name;
        char *path = path_join(folder, names->children[i]);
        error = path == NULL ? CONCLAVE_ENOMEM : blocking_ask(&b, CONCLAVE_OP_GET, path, &node);
        if (error == 0 && entry_read(names->children[i], node, list[count], &name)) {
            list[count++]->name = block_add(&texts, name, strlen(name));
        }
        error = error == CONCLAVE_NO_NODE ? 0 : error; /* it has ended meanwhile */
        conclave_reply_free(node);
        free(path);
    }
    conclave_reply_free(names);
    if (error != 0) {
        free(list);
        return error;
    }
    assert(count <= nodes);
    qsort(list, count, sizeof *list, entry_order);
    *ret = list;
    *ret_count = count;
    return 0;
}

void conclave_lease_entries_free(struct conclave_lease_entry **list, size_t count)
{
    free(list);
}
