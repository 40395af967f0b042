/* Public lists of contenders: an election's candidates, holders of a lock or a semaphore, and waiters. */
#include "recipes/hold/contender_list.h"

#include "recipes/engine/blocking_requests.h"
#include "recipes/engine/option_copies.h"
#include "recipes/engine/recipe_runtime.h"

#include <conclave/lock.h>
#include <conclave/semaphore.h>

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* A node is the block that holds all texts of its contender. */
static void found_free(struct listed_contender *found, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)found[i].participant.node);
    }
    free(found);
}

/* A public list, whose structs begin with their node. NULL is allowed. */
static void list_free(void *list, size_t count)
{
    for (size_t i = 0; i < count && list != NULL; i++) {
        free(**(void ***)((void **)list + i));
    }
    free(list);
}

static_assert(offsetof(struct conclave_participant, node) == 0 &&
                  offsetof(struct conclave_contender, node) == 0,
              "list_free");

int conclave_election_participants(struct conclave_recipes *rt, const char *path,
                                   int64_t timeout_ms, struct conclave_participant ***ret,
                                   size_t *ret_count)
{
    struct listed_contender *found;
    size_t count;
    int error = contenders_read(rt, path, false, timeout_ms, &found, &count);
    if (error != 0) {
        return error;
    }
    struct conclave_participant **list = struct_list(count, sizeof **list, 0, NULL);
    if (list == NULL) {
        found_free(found, count);
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        *list[i] = found[i].participant;
    }
    free(found);
    *ret = list;
    *ret_count = count;
    return 0;
}

void conclave_participants_free(struct conclave_participant **list, size_t count)
{
    list_free(list, count);
}

int conclave_election_find_leader(struct conclave_recipes *rt, const char *path, int64_t timeout_ms,
                                  struct conclave_participant **ret)
{
    struct conclave_participant **list;
    size_t count;
    int error = conclave_election_participants(rt, path, timeout_ms, &list, &count);
    if (error != 0) {
        return error;
    }
    struct conclave_participant *leader = count == 0 ? NULL : malloc(sizeof *leader);
    if (leader != NULL) {
        *leader = *list[0];
        list[0]->node = NULL; /* its texts stay */
        *ret = leader;
    }
    conclave_participants_free(list, count);
    return leader != NULL ? 0 : count == 0 ? CONCLAVE_NO_NODE : CONCLAVE_ENOMEM;
}

void conclave_participant_free(struct conclave_participant *participant)
{
    if (participant != NULL) {
        free((void *)(uintptr_t)participant->node);
        free(participant);
    }
}

/* --- locks and semaphores ---------------------------------------------------------- */

static enum conclave_lock_kind kind_of(enum name_kind kind)
{
    switch (kind) {
    case NAME_READ:
        return CONCLAVE_LOCK_READ;
    case NAME_WRITE:
        return CONCLAVE_LOCK_WRITE;
    default:
        return CONCLAVE_LOCK_EXCLUSIVE;
    }
}

/* A contender's data is its id; who had another's place in the queue says so behind it. permits 0: a
 * lock, whose readers hold it together unless somebody else stands before them. */
static int contenders_list(struct conclave_recipes *rt, const char *path, int32_t permits,
                           int64_t timeout_ms, struct conclave_contender ***ret, size_t *ret_count)
{
    struct listed_contender *found;
    size_t count;
    bool readers_only = true;
    int64_t taken = 0;
    int error = contenders_read(rt, path, permits == 0, timeout_ms, &found, &count);
    if (error != 0) {
        return error;
    }
    struct conclave_contender **list = struct_list(count, sizeof **list, 0, NULL);
    if (list == NULL) {
        found_free(found, count);
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        const struct conclave_participant *p = &found[i].participant;
        bool reads = found[i].kind == NAME_READ;
        taken += found[i].weight;
        *list[i] = (struct conclave_contender){
            .node = p->node,
            .id = p->id,
            .kind = kind_of(found[i].kind),
            .holds = permits > 0 ? taken <= permits : i == 0 || (reads && readers_only),
            .session_id = p->session_id,
            .since_ms = p->since_ms,
            .token = {.czxid = found[i].place},
        };
        readers_only = readers_only && reads;
    }
    free(found);
    *ret = list;
    *ret_count = count;
    return 0;
}

int conclave_lock_contenders(struct conclave_recipes *rt, const char *path, int64_t timeout_ms,
                             struct conclave_contender ***ret, size_t *ret_count)
{
    return contenders_list(rt, path, 0, timeout_ms, ret, ret_count);
}

/* The number that the first contender wrote: decimal digits. */
static bool permits_read(const struct conclave_reply *reply, int32_t *ret)
{
    char text[16] = "";
    char *end;
    if (reply->data_len == 0 || reply->data_len >= sizeof text) {
        return false;
    }
    memcpy(text, reply->data, reply->data_len);
    long n = strtol(text, &end, 10);
    if (*end != '\0' || n < 1 || n > INT32_MAX) {
        return false;
    }
    *ret = (int32_t)n;
    return true;
}

int conclave_semaphore_contenders(struct conclave_recipes *rt, const char *path, int64_t timeout_ms,
                                  struct conclave_contender ***ret, size_t *ret_count,
                                  int32_t *ret_permits)
{
    struct conclave_reply *reply = NULL;
    int32_t permits = 0;
    if (path == NULL) {
        return CONCLAVE_EINVAL;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET, path, 0);
    struct blocking b = blocking_begin(rt->client, timeout_ms != 0 ? timeout_ms : 1);
    int error = blocking_once(&b, op, &reply);
    if (error == 0 && !permits_read(reply, &permits)) {
        error = CONCLAVE_ECONFLICT;
    }
    conclave_reply_free(reply);
    if (error == 0) {
        error = contenders_list(rt, path, permits, timeout_ms, ret, ret_count);
    }
    if (error == 0) {
        *ret_permits = permits;
    }
    return error;
}

void conclave_contenders_free(struct conclave_contender **list, size_t count)
{
    list_free(list, count);
}
