#include "state/members/members.h"

#include "state/members/member_line.h"

#include <assert.h>
#include <stdlib.h>

static void members_member_finish(struct state_member *member)
{
    free((void *)(uintptr_t)member->address);
}

void membership_finish(struct membership *m)
{
    for (size_t i = 0; i < m->count; i++) {
        members_member_finish(&m->list[i]);
    }
    free(m->list);
    *m = (struct membership){0};
}

/* Place of the first member that is not before id. */
static size_t membership_place(const struct membership *m, int64_t id)
{
    size_t i = 0;
    while (i < m->count && m->list[i].id < id) {
        i++;
    }
    return i;
}

/* The address in its one form, on the heap, or NULL. */
static char *address_text(struct slice address, enum state_role role)
{
    struct member_line line;
    const char *why;
    struct buf text;
    buf_init(&text, 0);
    if (member_line_parse(address, &line, &why) == 0) {
        member_line_print(&line, role != STATE_VOTER, &text);
    } else {
        buf_append_slice(&text, address);
    }
    buf_append_u8(&text, 0);
    if (!buf_ok(&text)) {
        buf_finish(&text);
        return NULL;
    }
    size_t len;
    return (char *)buf_take(&text, &len);
}

bool membership_put(struct membership *m, int64_t id, enum state_role role, struct slice address)
{
    char *text = address_text(address, role);
    if (text == NULL) {
        return false;
    }
    size_t place = membership_place(m, id);
    struct state_member *member;
    if (place < m->count && m->list[place].id == id) {
        member = &m->list[place];
        members_member_finish(member);
    } else {
        if (!array_room(&m->list, m->count, &m->cap, sizeof *m->list)) {
            free(text);
            return false;
        }
        assert(m->count < STATE_MEMBER_ID_MAX); /* as many as there are ids */
        member = &m->list[place];
        memmove(member + 1, member, (m->count - place) * sizeof *member);
        m->count++;
    }
    *member = (struct state_member){id, role, text};
    assert(place == 0 || member[-1].id < id);
    assert(place + 1 == m->count || id < member[1].id);
    return true;
}

void membership_remove(struct membership *m, int64_t id)
{
    size_t place = membership_place(m, id);
    if (place == m->count || m->list[place].id != id) {
        return;
    }
    struct state_member *member = &m->list[place];
    members_member_finish(member);
    m->count--;
    memmove(member, member + 1, (m->count - place) * sizeof *member);
}

bool membership_copy(struct membership *m, const struct membership *from)
{
    *m = (struct membership){0};
    for (size_t i = 0; i < from->count; i++) {
        const struct state_member *member = &from->list[i];
        if (!membership_put(m, member->id, member->role, slice_str(member->address))) {
            membership_finish(m);
            return false;
        }
    }
    return true;
}

bool member_equal(const struct state_member *a, const struct state_member *b)
{
    return a->id == b->id && a->role == b->role && strcmp(a->address, b->address) == 0;
}

const struct state_member *membership_find(const struct membership *m, int64_t id)
{
    size_t place = membership_place(m, id);
    return place < m->count && m->list[place].id == id ? &m->list[place] : NULL;
}

bool membership_equal(const struct membership *a, const struct membership *b)
{
    if (a->count != b->count) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (!member_equal(&a->list[i], &b->list[i])) {
            return false;
        }
    }
    return true;
}

size_t membership_count(const struct membership *m, enum state_role role)
{
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++) {
        count += m->list[i].role == role;
    }
    return count;
}

void membership_print(const struct membership *m, struct buf *out)
{
    for (size_t i = 0; i < m->count; i++) {
        if (m->list[i].role != STATE_SPARE) {
            buf_printf(out, "server.%lld=%s\n", (long long)member_number(m->list[i].id),
                       m->list[i].address);
        }
    }
}
