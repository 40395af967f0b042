#define _GNU_SOURCE /* memmem */
#include "cli/switch/member_description.h"

#include "cli/common/values.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { PORT_MAX = 65535, MESSAGE_MAX = 4 * CARD_NAME_MAX + SERVICE_MAX };

/* --- lines ------------------------------------------------------------------------ */

/* The value of the line "name=..." in text; null: there is none. */
static struct slice line_value(struct slice text, const char *name)
{
    size_t name_len = strlen(name);
    while (text.len > 0 && text.data[0] != '\n') {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        size_t len = end != NULL ? (size_t)(end - text.data) : text.len;
        if (len > name_len && text.data[name_len] == '=' &&
            memcmp(text.data, name, name_len) == 0) {
            return slice_make(text.data + name_len + 1, len - name_len - 1);
        }
        size_t used = end != NULL ? len + 1 : len;
        text = slice_make(text.data + used, text.len - used);
    }
    return SLICE_NULL;
}

static void copy(char *to, size_t size, struct slice from)
{
    size_t len = from.len < size ? from.len : size - 1;
    if (len > 0) {
        memcpy(to, from.data, len);
    }
    to[len] = '\0';
}

static int64_t number(struct slice text, int64_t max)
{
    char digits[24];
    int64_t value;
    if (text.len >= sizeof digits) {
        return 0;
    }
    copy(digits, sizeof digits, text);
    return integer_parse(digits, 0, max, &value) ? value : 0;
}

/* --- the address -------------------------------------------------------------------- */

void address_write(struct buf *out, enum address_form form, const struct address *a)
{
    assert(a->port >= 0 && a->port <= PORT_MAX);
    if (form == ADDRESS_NATIVE) {
        buf_printf(out, "host=%s\nport=%d\n\n", a->host, a->port);
        buf_append_slice(out, a->data);
        return;
    }
    uint8_t message[MESSAGE_MAX];
    size_t len = 0;
    struct conclave_hadoop_node node = CONCLAVE_HADOOP_NODE_INIT;
    node.kind = form == ADDRESS_YARN ? CONCLAVE_HADOOP_YARN : CONCLAVE_HADOOP_HDFS;
    node.service = a->service;
    node.id = a->id;
    node.host = a->host;
    node.port = a->port;
    node.zkfc_port = a->failover_port;
    int error = conclave_hadoop_node_write(&node, message, sizeof message, &len);
    out->failed = out->failed || error != 0;
    buf_append(out, message, len);
}

void address_read(const void *data, size_t len, struct address *ret)
{
    struct slice all = slice_make(data != NULL ? data : "", len);
    *ret = (struct address){.data = all};
    if (len >= 5 && memcmp(all.data, "host=", 5) == 0) {
        const uint8_t *end = memmem(all.data, len, "\n\n", 2);
        copy(ret->host, sizeof ret->host, line_value(all, "host"));
        ret->port = (int)number(line_value(all, "port"), PORT_MAX);
        size_t used = end != NULL ? (size_t)(end - all.data) + 2 : len;
        ret->data = slice_make(all.data + used, len - used);
        return;
    }
    struct conclave_hadoop_node *node;
    if (conclave_hadoop_node_read(data, len, &node) == 0) {
        copy(ret->id, sizeof ret->id, slice_str(node->id));
        copy(ret->host, sizeof ret->host, slice_str(node->host));
        ret->port = node->port;
        conclave_hadoop_node_free(node);
    }
}

/* --- a request ---------------------------------------------------------------------------- */

void request_write(struct buf *out, const struct switch_request *request)
{
    assert(request->stay_out_ms >= 0 && request->stay_out_ms <= VALUES_DURATION_MAX_MS);
    if (request->to[0] != '\0') {
        buf_printf(out, "to=%s\nrole=%s\n", request->to,
                   request->observer ? "observer" : "standby");
    } else {
        buf_printf(out, "token=%" PRId64 "\nstay-out-ms=%" PRId64 "\n", request->token,
                   request->stay_out_ms);
    }
}

bool request_read(const void *data, size_t len, struct switch_request *ret)
{
    struct slice text = slice_make(data != NULL ? data : "", len);
    struct slice role = line_value(text, "role");
    *ret = (struct switch_request){
        .token = number(line_value(text, "token"), INT64_MAX),
        .stay_out_ms = number(line_value(text, "stay-out-ms"), VALUES_DURATION_MAX_MS),
        .observer = slice_equal_str(role, "observer"),
    };
    copy(ret->to, sizeof ret->to, line_value(text, "to"));
    return ret->to[0] != '\0' ? ret->observer || slice_equal_str(role, "standby") : ret->token > 0;
}
