#include "admin/answers/slow_answers.h"

#include "daemon/server.h"
#include "front/service.h"
#include "wire/ops.h"

#include <assert.h>

static void put_ms(struct json *j, const char *name, int64_t us)
{
    json_key(j, name);
    json_real(j, (double)us / 1000, 3);
}

static const char *operation_name(int32_t type)
{
    const char *name = wire_op_name(type);
    return name != NULL ? name : type == COMMAND_ATTACH_SESSION ? "attachSession" : "other";
}

static void put_slow_request(const struct slow_request *r, struct json *j)
{
    json_object_begin(j);
    json_member_int(j, "at_ms", r->at_ms);
    put_ms(j, "ms", slow_request_us(r));
    json_member_string(j, "slowest", request_part_name(slow_request_longest(r)));
    json_key(j, "parts_ms");
    json_object_begin(j);
    for (enum request_part p = PART_QUEUE; p < PART_COUNT; p++) {
        put_ms(j, request_part_name(p), r->part_us[p]);
    }
    json_object_end(j);
    json_member_string(j, "operation", operation_name(r->type));
    json_member_hex(j, "session", r->session_id);
    json_member_int(j, "xid", r->xid);
    json_member_string_or_null(j, "client", r->client);
    json_member_string_or_null(j, "path", r->path);
    json_member_bool(j, "path_cut", r->path_cut);
    json_member_uint(j, "count", r->count);
    json_object_end(j);
}

void slow_answer(const struct view *v, struct json *j)
{
    const struct service *s = server_service(v->server);
    const struct slow_log *log = &s->times.slow;
    assert(log->threshold_ns >= 0);
    json_object_begin(j);
    json_member_int(j, "server", member_number(server_id(v->server)));
    json_member_int(j, "time_ms", clock_wall_ms(s->clock));
    json_member_int(j, "threshold_ms", log->threshold_ns / 1000000);
    json_member_uint(j, "total", log->count);
    json_key(j, "requests");
    json_array_begin(j);
    const struct slow_request *r = NULL;
    for (size_t i = 0; (r = slow_log_row(log, i)) != NULL; i++) {
        put_slow_request(r, j);
    }
    json_array_end(j);
    json_object_end(j);
}
