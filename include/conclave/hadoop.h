/*
 * The data of a member in Hadoop's layout of an elector (CONCLAVE_ELECTOR_LAYOUT_HADOOP): the
 * protobuf messages that Hadoop's own members write into the lock and the breadcrumb.
 *
 *   HDFS  ActiveNodeInfo     of the ZKFailoverController of a NameNode
 *   YARN  ActiveRMInfoProto  of a ResourceManager with the embedded elector
 *
 * An elector with such data shares its directory with members of Hadoop: each reads who of the
 * others is or was active. A ResourceManager refuses to start while the lock names another
 * cluster, and fences nobody: the state store does.
 */
#ifndef CONCLAVE_HADOOP_H
#define CONCLAVE_HADOOP_H

#include <conclave/error.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum conclave_hadoop_kind {
    CONCLAVE_HADOOP_HDFS,
    CONCLAVE_HADOOP_YARN,
};

/* One member. Begin with CONCLAVE_HADOOP_NODE_INIT, then set what differs. */
struct conclave_hadoop_node {
    size_t size;
    enum conclave_hadoop_kind kind;
    const char *service; /* HDFS: the nameservice; YARN: the cluster's id */
    const char *id;      /* HDFS: the NameNode's id; YARN: the ResourceManager's id */
    const char *host;    /* of the NameNode; YARN: not written, read as "" */
    int32_t port;        /* of the NameNode; YARN: 0 */
    int32_t zkfc_port;   /* of its fail-over controller; YARN: 0 */
};
#define CONCLAVE_HADOOP_NODE_INIT                                                                  \
    CONCLAVE_INIT_WITH(conclave_hadoop_node, CONCLAVE_SET(zkfc_port, 8019))

/* Writes the message for conclave_elector_options.data into buf, which has room for buf_size bytes.
 * 0, CONCLAVE_EINVAL (a text is missing, a port is not from 0 to 65535), CONCLAVE_ENOBUFS,
 * CONCLAVE_ENOMEM. */
CONCLAVE_API int conclave_hadoop_node_write(const struct conclave_hadoop_node *node, void *buf,
                                            size_t buf_size, size_t *ret_len) CONCLAVE_MUST_USE;

/* Reads the data of a conclave_breadcrumb. A message with a port is one of HDFS, any other with both
 * ids one of YARN. 0, CONCLAVE_EFOREIGN (neither), CONCLAVE_EINVAL, CONCLAVE_ENOMEM. Free with
 * conclave_hadoop_node_free. */
CONCLAVE_API int conclave_hadoop_node_read(const void *data, size_t len,
                                           struct conclave_hadoop_node **ret) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_hadoop_node_free(struct conclave_hadoop_node *node);

#ifdef __cplusplus
}
#endif
#endif
