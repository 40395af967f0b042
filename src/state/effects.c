#include "state/effects.h"

#include "state/state_internal.h"
#include "tree/acl_rules.h"

#include <assert.h>

void effects_init(struct effects *e)
{
    *e = (struct effects){0};
    buf_init(&e->reply, 0);
    buf_init(&e->paths, 0);
    buf_init(&e->quota_path, 0);
    buf_init(&e->fence_prefix, 0);
}

void effects_finish(struct effects *e)
{
    buf_finish(&e->reply);
    buf_finish(&e->paths);
    buf_finish(&e->quota_path);
    buf_finish(&e->fence_prefix);
    free(e->events);
    free(e->gone);
    effects_init(e);
}

void effects_trim(struct effects *e)
{
    buf_trim(&e->reply, STATE_SCRATCH_KEEP);
    buf_trim(&e->paths, STATE_SCRATCH_KEEP);
    buf_trim(&e->quota_path, STATE_SCRATCH_KEEP);
    buf_trim(&e->fence_prefix, STATE_SCRATCH_KEEP);
    if (e->events_cap > STATE_SCRATCH_KEEP / sizeof *e->events) {
        free(e->events);
        e->events = NULL;
        e->events_count = 0;
        e->events_cap = 0;
    }
    if (e->gone_cap > STATE_SCRATCH_KEEP / sizeof *e->gone) {
        free(e->gone);
        e->gone = NULL;
        e->gone_count = 0;
        e->gone_cap = 0;
    }
}

void effects_clear(struct effects *e)
{
    buf_reset(&e->reply);
    buf_reset(&e->paths);
    e->events_count = 0;
    e->gone_count = 0;
}

void effects_begin(struct effects *e, int64_t zxid)
{
    effects_clear(e);
    buf_reset(&e->quota_path);
    buf_reset(&e->fence_prefix);
    e->zxid = zxid;
    e->err = 0;
    e->quota = (struct state_quota){.exceeded = false};
    e->fenced = (struct state_fenced){.refused = false};
    e->session_change = STATE_SESSION_SAME;
    e->session_id = 0;
    e->repeated = false;
    e->deferred = false;
    e->resumed = (struct state_resumed){.is = false};
}

size_t effects_path(struct effects *e, const struct znode *node)
{
    size_t offset = e->paths.len;
    znode_append_path(node, &e->paths);
    state_need(buf_ok(&e->paths));
    return offset;
}

/* Until effects_seal, the path is an offset, because the bytes may still move. */
void effects_event(struct effects *e, enum wire_event_type type, size_t offset, size_t len,
                   const struct acl_list *acl)
{
    state_need(array_room(&e->events, e->events_count, &e->events_cap, sizeof *e->events));
    struct slice path = {(const uint8_t *)(uintptr_t)offset, len};
    bool open = acl->id == ACL_OPEN;
    struct wire_vector entries = open ? (struct wire_vector){SLICE_NULL, 0} : acl_vector(acl);
    e->events[e->events_count++] = (struct state_event){type, path, entries, acl->id};
}

/* Until effects_seal, the data are an offset, too. */
void effects_gone(struct effects *e, const struct znode *node)
{
    struct slice data = znode_data(node);
    size_t offset = e->paths.len;
    size_t len = data.len < STATE_GONE_DATA ? data.len : STATE_GONE_DATA;
    assert(e->events_count > 0 && znode_is_ephemeral(node));
    buf_append(&e->paths, data.data, len);
    state_need(buf_ok(&e->paths));
    state_need(array_room(&e->gone, e->gone_count, &e->gone_cap, sizeof *e->gone));
    e->gone[e->gone_count++] = (struct state_gone){
        .event = e->events_count - 1,
        .session_id = znode_owner(node),
        .czxid = node->czxid,
        .ctime = node->ctime,
        .data = {(const uint8_t *)(uintptr_t)offset, len},
    };
}

void effects_seal(struct effects *e)
{
    for (size_t i = 0; i < e->events_count; i++) {
        struct state_event *event = &e->events[i];
        assert((uintptr_t)event->path.data + event->path.len <= e->paths.len);
        event->path.data = e->paths.data + (uintptr_t)event->path.data;
    }
    for (size_t i = 0; i < e->gone_count; i++) {
        struct slice *data = &e->gone[i].data;
        assert((uintptr_t)data->data + data->len <= e->paths.len);
        data->data = e->paths.data + (uintptr_t)data->data;
    }
    e->quota.path = buf_slice(&e->quota_path);
    e->fenced.prefix = buf_slice(&e->fence_prefix);
}

bool state_event_permitted(const struct state *s, const struct state_event *event, uint64_t caller,
                           struct wire_vector ids)
{
    return acl_decisions_permit(s->decisions, event->acl_number, event->acl, caller, ids,
                                WIRE_PERM_READ);
}

bool state_event_visible(const struct state_event *event, struct wire_vector ids)
{
    return acl_permits(event->acl, ids, WIRE_PERM_READ);
}
