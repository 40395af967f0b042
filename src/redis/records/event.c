#include "redis/records/event.h"

#include "base/json.h"

void redis_event_write(struct buf *out, const struct redis_event *event)
{
    struct json j;
    json_init(&j);
    json_object_begin(&j);
    json_key(&j, "event");
    json_string(&j, event->name);
    json_key(&j, "text");
    json_string(&j, event->text);
    if (event->node[0] != '\0') {
        json_key(&j, "node");
        json_string(&j, event->node);
    }
    json_key(&j, "manager");
    json_string(&j, event->manager);
    json_key(&j, "epoch");
    json_int(&j, event->epoch);
    if (event->bytes >= 0) {
        json_key(&j, "bytes");
        json_int(&j, event->bytes);
    }
    json_key(&j, "at_ms");
    json_int(&j, event->at_ms);
    json_object_end(&j);
    if (buf_ok(&j.out)) {
        buf_append_slice(out, buf_slice(&j.out));
    } else {
        out->failed = true;
    }
    json_finish(&j);
}
