/* Hadoop's messages about a member: conclave/hadoop.h. Pure. */
#include "client/core/sized.h"
#include "recipes/engine/option_copies.h"
#include "recipes/standby/protobuf_fields.h"

#include <conclave/hadoop.h>

#include <stdlib.h>
#include <string.h>

/* Of both messages, up to the host. */
enum {
    FIELD_SERVICE = 1,
    FIELD_ID = 2,
    FIELD_HOST = 3,
    FIELD_PORT = 4,
    FIELD_ZKFC_PORT = 5,
    PORT_MAX = 65535,
};

static bool port_is_valid(int64_t port)
{
    return port >= 0 && port <= PORT_MAX;
}

static bool node_is_valid(const struct conclave_hadoop_node *n)
{
    return (unsigned)n->kind <= CONCLAVE_HADOOP_YARN && n->service != NULL && n->id != NULL &&
           (n->kind == CONCLAVE_HADOOP_YARN ||
            (n->host != NULL && port_is_valid(n->port) && port_is_valid(n->zkfc_port)));
}

int conclave_hadoop_node_write(const struct conclave_hadoop_node *node, void *buf, size_t buf_size,
                               size_t *ret_len)
{
    struct conclave_hadoop_node own = CONCLAVE_HADOOP_NODE_INIT;
    struct buf out;
    if (sized_read(&own, node) != 0 || !node_is_valid(&own)) {
        return CONCLAVE_EINVAL;
    }
    buf_init(&out, 0);
    protobuf_write_bytes(&out, FIELD_SERVICE, own.service, strlen(own.service));
    protobuf_write_bytes(&out, FIELD_ID, own.id, strlen(own.id));
    if (own.kind == CONCLAVE_HADOOP_HDFS) {
        protobuf_write_bytes(&out, FIELD_HOST, own.host, strlen(own.host));
        protobuf_write_number(&out, FIELD_PORT, (uint64_t)own.port);
        protobuf_write_number(&out, FIELD_ZKFC_PORT, (uint64_t)own.zkfc_port);
    }
    int error = !buf_ok(&out) ? CONCLAVE_ENOMEM : out.len > buf_size ? CONCLAVE_ENOBUFS : 0;
    if (error == 0) {
        memcpy(buf, out.data, out.len);
        *ret_len = out.len;
    }
    buf_finish(&out);
    return error;
}

/* The texts that a message has, in the message. */
struct hadoop_texts {
    struct slice service;
    struct slice id;
    struct slice host;
};

static void take_field(const struct protobuf_field *f, struct hadoop_texts *texts,
                       struct conclave_hadoop_node *node)
{
    if (f->type == PROTOBUF_BYTES && f->number >= FIELD_SERVICE && f->number <= FIELD_HOST) {
        struct slice *text = f->number == FIELD_SERVICE ? &texts->service
                             : f->number == FIELD_ID    ? &texts->id
                                                        : &texts->host;
        *text = slice_make(f->data, (size_t)f->value);
    } else if (f->type == PROTOBUF_VARINT && f->value <= PORT_MAX) {
        if (f->number == FIELD_PORT) {
            node->kind = CONCLAVE_HADOOP_HDFS;
            node->port = (int32_t)f->value;
        } else if (f->number == FIELD_ZKFC_PORT) {
            node->zkfc_port = (int32_t)f->value;
        }
    }
}

static bool read_fields(const uint8_t *at, const uint8_t *end, struct hadoop_texts *texts,
                        struct conclave_hadoop_node *node)
{
    struct protobuf_field field;
    while (at < end) {
        if (!protobuf_read(&at, end, &field)) {
            return false;
        }
        take_field(&field, texts, node);
    }
    return texts->service.data != NULL && texts->id.data != NULL;
}

int conclave_hadoop_node_read(const void *data, size_t len, struct conclave_hadoop_node **ret)
{
    struct conclave_hadoop_node node = {.size = sizeof node, .kind = CONCLAVE_HADOOP_YARN};
    struct hadoop_texts texts = {0};
    if (ret == NULL || (data == NULL && len > 0)) {
        return CONCLAVE_EINVAL;
    }
    if (len == 0 || !read_fields(data, (const uint8_t *)data + len, &texts, &node)) {
        return CONCLAVE_EFOREIGN;
    }
    if (node.kind == CONCLAVE_HADOOP_YARN) {
        texts.host = SLICE_NULL;
        node.zkfc_port = 0;
    }
    struct conclave_hadoop_node *copy =
        malloc(sizeof *copy + texts.service.len + texts.id.len + texts.host.len + 3);
    if (copy == NULL) {
        return CONCLAVE_ENOMEM;
    }
    char *at = (char *)(copy + 1);
    *copy = node;
    copy->service = block_add(&at, texts.service.data, texts.service.len);
    copy->id = block_add(&at, texts.id.data, texts.id.len);
    copy->host = block_add(&at, texts.host.data, texts.host.len);
    *ret = copy;
    return 0;
}

void conclave_hadoop_node_free(struct conclave_hadoop_node *node)
{
    free(node);
}
