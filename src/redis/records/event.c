#include "redis/records/event.h"

#include "base/json.h"

void redis_event_write(struct buf *out, const struct redis_event *event)
{
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "event", event->name);
    json_member_string(&j, "text", event->text);
    if (event->node[0] != '\0') {
        json_member_string(&j, "node", event->node);
    }
    json_member_string(&j, "manager", event->manager);
    json_member_int(&j, "epoch", event->epoch);
    if (event->bytes >= 0) {
        json_member_int(&j, "bytes", event->bytes);
    }
    json_member_int(&j, "at_ms", event->at_ms);
    json_object_end(&j);
    if (buf_ok(&j.out)) {
        buf_append_slice(out, buf_slice(&j.out));
    } else {
        out->failed = true;
    }
    json_finish(&j);
}
