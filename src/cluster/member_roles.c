/* The table of roles, searched in both directions. */
#include "cluster/member_roles.h"

#include <assert.h>

static const struct {
    enum configuration_role log;
    enum state_role state;
} ROLES[] = {
    {MEMBER_VOTER, STATE_VOTER},
    {MEMBER_OBSERVER, STATE_OBSERVER},
    {MEMBER_SPARE, STATE_SPARE},
};
enum { ROLE_COUNT = sizeof ROLES / sizeof ROLES[0] };

struct state_member member_of_log(const struct configuration_member *member)
{
    size_t i = 0;
    while (i < ROLE_COUNT && ROLES[i].log != member->role) {
        i++;
    }
    assert(i < ROLE_COUNT);
    return (struct state_member){(int64_t)member->id, ROLES[i].state, member->address};
}

struct configuration_member member_of_state(const struct state_member *member)
{
    size_t i = 0;
    while (i < ROLE_COUNT && ROLES[i].state != member->role) {
        i++;
    }
    assert(i < ROLE_COUNT);
    return (struct configuration_member){(uint64_t)member->id, ROLES[i].log, member->address};
}
