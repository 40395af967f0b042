/*
 * Who belongs to the ensemble: servers by number, with what each is and where it is found.
 */
#ifndef STATE_MEMBERS_MEMBERS_H
#define STATE_MEMBERS_MEMBERS_H

#include "base/buf.h"

#include <conclave/error.h>

/* Within, a member's id is 1 to 256, as 0 is nobody. Its number, which people and other servers see, is 0 to 255, what a
 * session id has room for: member 0 has the id 256. */
enum { STATE_MEMBER_ID_MAX = 256, STATE_MEMBER_NUMBER_MAX = 255 };

static inline int64_t member_number(int64_t id)
{
    return id & STATE_MEMBER_NUMBER_MAX;
}

static inline int64_t member_id(int64_t number)
{
    return number == 0 ? STATE_MEMBER_ID_MAX : number;
}

enum state_role {
    STATE_VOTER,    /* ZooKeeper's participant */
    STATE_OBSERVER, /* follows without a vote */
    STATE_SPARE,    /* known and no more: on its way in or out */
};

struct state_member {
    int64_t id; /* 1 to STATE_MEMBER_ID_MAX */
    enum state_role role;
    const char *address; /* what stands behind server.N=, at most MEMBER_LINE_MAX with NUL */
};

/* Members by id, ascending. All zero: none. */
struct membership {
    struct state_member *list;
    size_t count;
    size_t cap;
};

void membership_finish(struct membership *m);

/* Adds a member or replaces the one of that id. The address is brought into the form in which equal
 * ones are equal texts, with the role in it; one that cannot be read is kept as it is. False when
 * memory is out. */
bool membership_put(struct membership *m, int64_t id, enum state_role role, struct slice address);

void membership_remove(struct membership *m, int64_t id);

/* False when memory is out: *m is empty then. */
bool membership_copy(struct membership *m, const struct membership *from);

bool member_equal(const struct state_member *a, const struct state_member *b);

/* NULL when there is no such member. */
const struct state_member *membership_find(const struct membership *m, int64_t id);

bool membership_equal(const struct membership *a, const struct membership *b);

size_t membership_count(const struct membership *m, enum state_role role);

/* Appends a line `server.N=address` for each, as /zookeeper/config has them; spares are left out. */
void membership_print(const struct membership *m, struct buf *out);

#endif
