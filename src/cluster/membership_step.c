#include "cluster/membership_step.h"

#include <assert.h>
#include <string.h>

static void membership_step_change(struct membership_step *s, uint64_t id)
{
    s->action = TRANSITION_CHANGE;
    s->id = id;
}

static struct configuration_member *at(struct membership_step *s, uint64_t id)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->members[i].id == id) {
            return &s->members[i];
        }
    }
    return NULL;
}

static bool address_taken(const struct membership_step *s, const char *address)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->members[i].address, address) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds one missing member without a vote, or changes one address. */
static bool add_one(struct membership_step *s, const struct configuration_member *target, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct configuration_member *present = at(s, target[i].id);
        if (present == NULL ? s->count < MEMBERS_MAX
                            : strcmp(present->address, target[i].address) != 0) {
            if (address_taken(s, target[i].address)) {
                continue; /* first the member with this address moves or goes */
            }
            if (present == NULL) {
                present = &s->members[s->count++];
                *present = (struct configuration_member){
                    .id = target[i].id,
                    .role = target[i].role == MEMBER_VOTER ? MEMBER_OBSERVER : target[i].role};
            }
            present->address = target[i].address;
            membership_step_change(s, target[i].id);
            return true;
        }
    }
    return false;
}

/* Gives the vote to one member that should have it and has caught up; otherwise chooses one to catch up. */
static bool promote_one(struct membership_step *s, const struct configuration_member *target,
                        size_t n, const struct membership_facts *facts)
{
    uint64_t behind = 0;
    for (size_t i = 0; i < n; i++) {
        struct configuration_member *present = at(s, target[i].id);
        if (present == NULL || target[i].role != MEMBER_VOTER || present->role == MEMBER_VOTER) {
            continue;
        }
        if (facts->caught_up(facts->ctx, present->id)) {
            present->role = MEMBER_VOTER;
            membership_step_change(s, present->id);
            return true;
        }
        behind = behind != 0 ? behind : present->id;
    }
    if (behind != 0) {
        s->action = TRANSITION_CATCH_UP;
        s->id = behind;
    }
    return behind != 0;
}

/* Takes the vote from one voter that the target lists without a vote, or does not list. */
static bool reduce_one(struct membership_step *s, const struct configuration_member *target,
                       size_t n, uint64_t skip)
{
    for (size_t i = 0; i < s->count; i++) {
        struct configuration_member *present = &s->members[i];
        const struct configuration_member *wanted = configuration_find(target, n, present->id);
        enum configuration_role role = wanted != NULL                  ? wanted->role
                                       : present->role == MEMBER_VOTER ? MEMBER_OBSERVER
                                                                       : present->role;
        if (present->id != skip && role != present->role) {
            present->role = role;
            membership_step_change(s, present->id);
            return true;
        }
    }
    return false;
}

/* Removes the first member without a vote that the target does not list, if it may go. */
static bool remove_one(struct membership_step *s, const struct configuration_member *target,
                       size_t n, const struct membership_facts *facts)
{
    for (size_t i = 0; i < s->count; i++) {
        struct configuration_member *present = &s->members[i];
        if (present->role == MEMBER_VOTER || configuration_find(target, n, present->id) != NULL) {
            continue;
        }
        if (!facts->may_go(facts->ctx, present->id)) {
            return false;
        }
        membership_step_change(s, present->id);
        memmove(present, present + 1, (s->count - i - 1) * sizeof *present);
        s->count--;
        return true;
    }
    return false;
}

void membership_step_next(const struct configuration_member *now, size_t n_now,
                          const struct configuration_member *target, size_t n_target, uint64_t self,
                          const struct membership_facts *facts, struct membership_step *ret)
{
    assert(n_now <= MEMBERS_MAX);
    *ret = (struct membership_step){.action = TRANSITION_DONE, .count = n_now};
    memcpy(ret->members, now, n_now * sizeof *now);
    /* Removals come first: a member that has left must not count for the limit of members, and its address may be
     * reused. This server comes last, because without its vote it cannot lead the other steps. */
    if (remove_one(ret, target, n_target, facts) || add_one(ret, target, n_target) ||
        promote_one(ret, target, n_target, facts) || reduce_one(ret, target, n_target, self) ||
        reduce_one(ret, target, n_target, 0)) {
        assert(ret->action != TRANSITION_DONE);
    }
    assert(ret->count <= n_now + 1 && n_now <= ret->count + 1 && ret->count <= MEMBERS_MAX);
}

size_t membership_step_withdraw(const struct configuration_member *now, size_t n_now,
                                bool (*listed)(void *ctx, uint64_t id), void *ctx,
                                struct configuration_member ret[MEMBERS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < n_now; i++) {
        if (now[i].role == MEMBER_VOTER || listed(ctx, now[i].id)) {
            ret[n++] = now[i];
        }
    }
    return n;
}
