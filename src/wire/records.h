/*
 * Every record of the client protocol in one list, which gives the struct and the functions
 *
 *   int  wire_decode_NAME(struct wire_reader *, struct wire_NAME *)    0 or MARSHALLING_ERROR
 *   void wire_encode_NAME(struct buf *, const struct wire_NAME *)      check buf_ok afterwards
 *   void wire_print_NAME(struct buf *, const struct wire_NAME *)       {field=value ...}
 *
 * Decoded strings, buffers and vectors borrow from the reader's bytes.
 *
 * Field kinds: boolean i32 i64 string buffer, secret (a buffer that is never printed); id acl stat
 * (records); strings acls clients (vectors of string, acl, client_info: struct wire_vector, read
 * with wire_next_…). Source: zookeeper.jute of Apache ZooKeeper 3.9.
 */
#ifndef WIRE_RECORDS_H
#define WIRE_RECORDS_H

#include "wire/codec.h"

/* clang-format off */
/* R(name, F): F is a macro that applies its argument to (kind, field) in wire order. */
#define WIRE_RECORDS(R)                                                                            \
    R(connect_request, WIRE_F_CONNECT_REQUEST)                                                     \
    R(connect_response, WIRE_F_CONNECT_RESPONSE)                                                   \
    R(request_header, WIRE_F_REQUEST_HEADER)                                                       \
    R(reply_header, WIRE_F_REPLY_HEADER)                                                           \
    R(multi_header, WIRE_F_MULTI_HEADER)                                                           \
    R(watcher_event, WIRE_F_WATCHER_EVENT)                                                         \
    R(error_response, WIRE_F_ERROR_RESPONSE)                                                       \
    R(create_request, WIRE_F_CREATE_REQUEST)                                                       \
    R(create_ttl_request, WIRE_F_CREATE_TTL_REQUEST)                                               \
    R(create_response, WIRE_F_PATH)                                                                \
    R(create2_response, WIRE_F_CREATE2_RESPONSE)                                                   \
    R(delete_request, WIRE_F_PATH_VERSION)                                                         \
    R(exists_request, WIRE_F_PATH_WATCH)                                                           \
    R(exists_response, WIRE_F_STAT)                                                                \
    R(get_data_request, WIRE_F_PATH_WATCH)                                                         \
    R(get_data_response, WIRE_F_GET_DATA_RESPONSE)                                                 \
    R(set_data_request, WIRE_F_SET_DATA_REQUEST)                                                   \
    R(set_data_response, WIRE_F_STAT)                                                              \
    R(get_acl_request, WIRE_F_PATH)                                                                \
    R(get_acl_response, WIRE_F_GET_ACL_RESPONSE)                                                   \
    R(set_acl_request, WIRE_F_SET_ACL_REQUEST)                                                     \
    R(set_acl_response, WIRE_F_STAT)                                                               \
    R(get_children_request, WIRE_F_PATH_WATCH)                                                     \
    R(get_children_response, WIRE_F_GET_CHILDREN_RESPONSE)                                         \
    R(get_children2_request, WIRE_F_PATH_WATCH)                                                    \
    R(get_children2_response, WIRE_F_GET_CHILDREN2_RESPONSE)                                       \
    R(sync_request, WIRE_F_PATH)                                                                   \
    R(sync_response, WIRE_F_PATH)                                                                  \
    R(check_version_request, WIRE_F_PATH_VERSION)                                                  \
    R(reconfig_request, WIRE_F_RECONFIG_REQUEST)                                                   \
    R(check_watches_request, WIRE_F_PATH_TYPE)                                                     \
    R(remove_watches_request, WIRE_F_PATH_TYPE)                                                    \
    R(auth_packet, WIRE_F_AUTH_PACKET)                                                             \
    R(set_watches, WIRE_F_SET_WATCHES)                                                             \
    R(set_watches2, WIRE_F_SET_WATCHES2)                                                           \
    R(sasl_request, WIRE_F_TOKEN)                                                                  \
    R(sasl_response, WIRE_F_TOKEN)                                                                 \
    R(get_ephemerals_request, WIRE_F_PREFIX_PATH)                                                  \
    R(get_ephemerals_response, WIRE_F_EPHEMERALS)                                                  \
    R(get_all_children_number_request, WIRE_F_PATH)                                                \
    R(get_all_children_number_response, WIRE_F_TOTAL_NUMBER)                                       \
    R(add_watch_request, WIRE_F_PATH_MODE)                                                         \
    R(who_am_i_response, WIRE_F_CLIENT_INFOS)                                                      \
    R(connect_wish, WIRE_F_CONNECT_WISH)                                                           \
    R(connect_grant, WIRE_F_CONNECT_GRANT)                                                         \
    R(write_number, WIRE_F_WRITE_NUMBER)

/* Records that are fields of other records; same functions. */
#define WIRE_FIELD_RECORDS(R)                                                                      \
    R(id, WIRE_F_ID)                                                                               \
    R(acl, WIRE_F_ACL)                                                                             \
    R(stat, WIRE_F_STAT_FIELDS)                                                                    \
    R(client_info, WIRE_F_CLIENT_INFO)

/* Records of Apache ZooKeeper's files, its snapshots and transaction logs; same functions. Source: zookeeper.jute,
 * modules persistence and txn; DataNode, ZxidDigest. Transactions that are not here have the form of a request. */
#define WIRE_FILE_RECORDS(R)                                                                       \
    R(file_header, WIRE_F_FILE_HEADER)                                                             \
    R(file_node, WIRE_F_FILE_NODE)                                                                 \
    R(file_digest, WIRE_F_FILE_DIGEST)                                                             \
    R(txn_header, WIRE_F_TXN_HEADER)                                                               \
    R(txn_create, WIRE_F_TXN_CREATE)                                                               \
    R(txn_create_old, WIRE_F_TXN_CREATE_OLD)                                                       \
    R(txn_create_ttl, WIRE_F_TXN_CREATE_TTL)                                                       \
    R(txn_create_container, WIRE_F_TXN_CREATE_CONTAINER)                                           \
    R(txn_create_session, WIRE_F_TXN_CREATE_SESSION)                                               \
    R(txn_close_session, WIRE_F_TXN_CLOSE_SESSION)                                                 \
    R(txn_digest, WIRE_F_TXN_DIGEST)

#define WIRE_F_ID(F) F(string, scheme) F(string, id)
#define WIRE_F_ACL(F) F(i32, perms) F(id, id)
#define WIRE_F_STAT_FIELDS(F)                                                                      \
    F(i64, czxid) F(i64, mzxid) F(i64, ctime) F(i64, mtime) F(i32, version) F(i32, cversion)       \
    F(i32, aversion) F(i64, ephemeral_owner) F(i32, data_length) F(i32, num_children) F(i64, pzxid)
#define WIRE_F_CLIENT_INFO(F) F(string, auth_scheme) F(string, user)

#define WIRE_F_CONNECT_REQUEST(F)                                                                  \
    F(i32, protocol_version)                                                                       \
    F(i64, last_zxid_seen) F(i32, timeout_ms) F(i64, session_id) F(secret, passwd)
#define WIRE_F_CONNECT_RESPONSE(F)                                                                 \
    F(i32, protocol_version) F(i32, timeout_ms) F(i64, session_id) F(secret, passwd)
#define WIRE_F_REQUEST_HEADER(F) F(i32, xid) F(i32, type)
#define WIRE_F_REPLY_HEADER(F) F(i32, xid) F(i64, zxid) F(i32, err)
#define WIRE_F_MULTI_HEADER(F) F(i32, type) F(boolean, done) F(i32, err)
#define WIRE_F_WATCHER_EVENT(F) F(i32, type) F(i32, state) F(string, path)
#define WIRE_F_ERROR_RESPONSE(F) F(i32, err)
#define WIRE_F_CREATE_REQUEST(F) F(string, path) F(buffer, data) F(acls, acl) F(i32, flags)
#define WIRE_F_CREATE_TTL_REQUEST(F)                                                               \
    F(string, path) F(buffer, data) F(acls, acl) F(i32, flags) F(i64, ttl_ms)
#define WIRE_F_PATH(F) F(string, path)
#define WIRE_F_CREATE2_RESPONSE(F) F(string, path) F(stat, stat)
#define WIRE_F_PATH_VERSION(F) F(string, path) F(i32, version)
#define WIRE_F_PATH_WATCH(F) F(string, path) F(boolean, watch)
#define WIRE_F_PATH_TYPE(F) F(string, path) F(i32, type)
#define WIRE_F_PATH_MODE(F) F(string, path) F(i32, mode)
#define WIRE_F_STAT(F) F(stat, stat)
#define WIRE_F_GET_DATA_RESPONSE(F) F(buffer, data) F(stat, stat)
#define WIRE_F_SET_DATA_REQUEST(F) F(string, path) F(buffer, data) F(i32, version)
#define WIRE_F_GET_ACL_RESPONSE(F) F(acls, acl) F(stat, stat)
#define WIRE_F_SET_ACL_REQUEST(F) F(string, path) F(acls, acl) F(i32, version)
#define WIRE_F_GET_CHILDREN_RESPONSE(F) F(strings, children)
#define WIRE_F_GET_CHILDREN2_RESPONSE(F) F(strings, children) F(stat, stat)
#define WIRE_F_RECONFIG_REQUEST(F)                                                                 \
    F(string, joining_servers)                                                                     \
    F(string, leaving_servers) F(string, new_members) F(i64, cur_config_id)
#define WIRE_F_AUTH_PACKET(F) F(i32, type) F(string, scheme) F(secret, auth)
#define WIRE_F_SET_WATCHES(F)                                                                      \
    F(i64, relative_zxid)                                                                          \
    F(strings, data_watches) F(strings, exist_watches) F(strings, child_watches)
#define WIRE_F_SET_WATCHES2(F)                                                                     \
    WIRE_F_SET_WATCHES(F) F(strings, persistent_watches) F(strings, persistent_recursive_watches)
#define WIRE_F_TOKEN(F) F(secret, token)
#define WIRE_F_PREFIX_PATH(F) F(string, prefix_path)
#define WIRE_F_EPHEMERALS(F) F(strings, ephemerals)
#define WIRE_F_TOTAL_NUMBER(F) F(i32, total_number)
#define WIRE_F_CLIENT_INFOS(F) F(clients, client_infos)

#define WIRE_F_FILE_HEADER(F) F(i32, magic) F(i32, version) F(i64, dbid)
#define WIRE_F_FILE_NODE(F)                                                                        \
    F(buffer, data)                                                                                \
    F(i64, acl) F(i64, czxid) F(i64, mzxid) F(i64, ctime) F(i64, mtime) F(i32, version)            \
    F(i32, cversion) F(i32, aversion) F(i64, ephemeral_owner) F(i64, pzxid)
#define WIRE_F_FILE_DIGEST(F) F(i64, zxid) F(i32, version) F(i64, digest)
#define WIRE_F_TXN_HEADER(F)                                                                       \
    F(i64, session_id) F(i32, cxid) F(i64, zxid) F(i64, time_ms) F(i32, type)
#define WIRE_F_TXN_CREATE(F)                                                                       \
    F(string, path) F(buffer, data) F(acls, acl) F(boolean, ephemeral) F(i32, parent_cversion)
#define WIRE_F_TXN_CREATE_OLD(F)                                                                   \
    F(string, path) F(buffer, data) F(acls, acl) F(boolean, ephemeral)
#define WIRE_F_TXN_CREATE_TTL(F)                                                                   \
    F(string, path) F(buffer, data) F(acls, acl) F(i32, parent_cversion) F(i64, ttl_ms)
#define WIRE_F_TXN_CREATE_CONTAINER(F)                                                             \
    F(string, path) F(buffer, data) F(acls, acl) F(i32, parent_cversion)
#define WIRE_F_TXN_CREATE_SESSION(F) F(i32, timeout_ms)
#define WIRE_F_TXN_CLOSE_SESSION(F) F(strings, paths)
#define WIRE_F_TXN_DIGEST(F) F(i32, version) F(i64, digest)

/* Conclave's own records, between its client and its server: see docs/exactly-once.md. The first two follow the
 * readOnly byte of the connect records, the third is at the end of a write's frame. */
#define WIRE_F_CONNECT_WISH(F) F(i32, magic) F(i32, features)
#define WIRE_F_CONNECT_GRANT(F)                                                                    \
    F(i32, magic) F(i32, features) F(i32, results_max) F(i32, bytes_max) F(i32, last) F(i64, born)
#define WIRE_F_WRITE_NUMBER(F) F(i32, number) F(i32, unanswered)

/* clang-format on */

/* C type of each kind of field. */
typedef bool wire_type_boolean;
typedef int32_t wire_type_i32;
typedef int64_t wire_type_i64;
typedef struct slice wire_type_string;
typedef struct slice wire_type_buffer;
typedef struct slice wire_type_secret;
typedef struct wire_vector wire_type_strings;
typedef struct wire_vector wire_type_acls;
typedef struct wire_vector wire_type_clients;

#define WIRE_STRUCT_FIELD(kind, name) wire_type_##kind name;
#define WIRE_STRUCT(name, FIELDS)                                                                  \
    struct wire_##name {                                                                           \
        FIELDS(WIRE_STRUCT_FIELD)                                                                  \
    };                                                                                             \
    typedef struct wire_##name wire_type_##name;
WIRE_FIELD_RECORDS(WIRE_STRUCT)
WIRE_RECORDS(WIRE_STRUCT)
WIRE_FILE_RECORDS(WIRE_STRUCT)

#define WIRE_PROTOTYPES(name, FIELDS)                                                              \
    int wire_decode_##name(struct wire_reader *r, struct wire_##name *ret) CONCLAVE_MUST_USE;      \
    void wire_encode_##name(struct buf *b, const struct wire_##name *record);                      \
    void wire_print_##name(struct buf *out, const struct wire_##name *record);
WIRE_FIELD_RECORDS(WIRE_PROTOTYPES)
WIRE_RECORDS(WIRE_PROTOTYPES)
WIRE_FILE_RECORDS(WIRE_PROTOTYPES)

/* Takes the next element of a decoded vector: true and *ret; false: the end. Consumes v. */
bool wire_next_string(struct wire_vector *v, struct slice *ret);
bool wire_next_acl(struct wire_vector *v, struct wire_acl *ret);
bool wire_next_id(struct wire_vector *v, struct wire_id *ret);
bool wire_next_client(struct wire_vector *v, struct wire_client_info *ret);

/* A vector of ids or ACL entries outside a record, checked like the fields above. */
struct wire_vector wire_read_ids(struct wire_reader *r);
struct wire_vector wire_read_acls(struct wire_reader *r);

/* A vector of encoded elements in b (appended with wire_write_string, wire_encode_acl, …). Borrows b. */
static inline struct wire_vector wire_vector_make(const struct buf *b, int32_t count)
{
    return (struct wire_vector){buf_slice(b), count};
}

#endif
