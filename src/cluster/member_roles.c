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

int members_of_options(const struct ensemble_options *e, struct buf *text,
                       struct configuration_member ret[MEMBERS_MAX], size_t *ret_count)
{
    size_t at[MEMBERS_MAX];
    size_t n = e->n_members < MEMBERS_MAX ? e->n_members : MEMBERS_MAX;
    for (size_t i = 0; i < n; i++) {
        at[i] = text->len;
        server_line_print(&e->members[i], text);
        buf_append_u8(text, 0);
    }
    if (!buf_ok(text)) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        ret[i] = (struct configuration_member){
            .id = e->members[i].id,
            .role = e->members[i].observer ? MEMBER_OBSERVER : MEMBER_VOTER,
            .address = (const char *)text->data + at[i],
        };
    }
    *ret_count = n;
    return 0;
}
