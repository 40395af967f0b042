#include "apache/snapshot.h"

#include "apache/format.h"
#include "apache/input.h"

/* A reading of one snapshot. */
struct snapshot_reading {
    struct apache_input *in;
    const char *file;
    struct adoption *a;
    char **ret_error;
};

static int snapshot_refuse(struct snapshot_reading *x, const char *why)
{
    return text_fail(x->ret_error, CONCLAVE_ECORRUPT, "%s is damaged before byte %llu: %s", x->file,
                     (unsigned long long)apache_input_offset(x->in), why);
}

/* Gives the adoption's answer on. */
static int adopted(struct snapshot_reading *x, int rc)
{
    return rc == CONCLAVE_ECORRUPT ? snapshot_refuse(x, adoption_error(x->a)) : rc;
}

static int decode_header(struct wire_reader *r, void *ret)
{
    return wire_decode_file_header(r, ret);
}

static int snapshot_read_header(struct snapshot_reading *x)
{
    struct wire_file_header header;
    int rc = apache_input_read(x->in, decode_header, "header", &header, x->ret_error);
    if (rc == 0 && header.magic != APACHE_SNAPSHOT_MAGIC) {
        rc = text_fail(x->ret_error, CONCLAVE_ECORRUPT, "%s is no snapshot of ZooKeeper", x->file);
    }
    if (rc == 0 && header.version != APACHE_FORMAT_VERSION) {
        rc = text_fail(x->ret_error, CONCLAVE_ECORRUPT,
                       "%s has format %d, and this program reads %d: a newer ZooKeeper wrote it",
                       x->file, header.version, APACHE_FORMAT_VERSION);
    }
    return rc;
}

struct read_session {
    int64_t id;
    int32_t timeout_ms;
};

static int decode_session(struct wire_reader *r, void *ret)
{
    struct read_session *session = ret;
    session->id = wire_read_i64(r);
    session->timeout_ms = wire_read_i32(r);
    return r->failed ? CONCLAVE_ECORRUPT : 0;
}

static int read_sessions(struct snapshot_reading *x)
{
    int32_t count;
    int rc =
        apache_input_read(x->in, apache_decode_i32, "number of sessions", &count, x->ret_error);
    if (rc == 0 && count < 0) {
        rc = snapshot_refuse(x, "a negative number of sessions");
    }
    for (int32_t i = 0; i < count && rc == 0; i++) {
        struct read_session session;
        rc = apache_input_read(x->in, decode_session, "session", &session, x->ret_error);
        rc = rc == 0 ? adopted(x, adoption_session(x->a, session.id, session.timeout_ms)) : rc;
    }
    return rc;
}

struct read_acl {
    int64_t number;
    struct wire_vector entries;
};

static int decode_acl(struct wire_reader *r, void *ret)
{
    struct read_acl *acl = ret;
    acl->number = wire_read_i64(r);
    acl->entries = wire_read_acls(r);
    return r->failed ? CONCLAVE_ECORRUPT : 0;
}

static int read_acls(struct snapshot_reading *x)
{
    int32_t count;
    int rc = apache_input_read(x->in, apache_decode_i32, "number of lists of permissions", &count,
                               x->ret_error);
    if (rc == 0 && count < 0) {
        rc = snapshot_refuse(x, "a negative number of lists of permissions");
    }
    for (int32_t i = 0; i < count && rc == 0; i++) {
        struct read_acl acl;
        rc = apache_input_read(x->in, decode_acl, "list of permissions", &acl, x->ret_error);
        rc = rc == 0 ? adopted(x, adoption_acl(x->a, acl.number, acl.entries)) : rc;
    }
    return rc;
}

/* A path, and unless it is "/", which ends the nodes, its node. */
struct read_node {
    struct adopted_node node;
    bool end;
};

static int decode_node(struct wire_reader *r, void *ret)
{
    struct read_node *read = ret;
    read->node.path = wire_read_string(r);
    read->end = slice_equal_str(read->node.path, "/");
    return r->failed || (!read->end && wire_decode_file_node(r, &read->node.record) != 0)
               ? CONCLAVE_ECORRUPT
               : 0;
}

static int read_nodes(struct snapshot_reading *x, int64_t zxid)
{
    for (;;) {
        struct read_node read;
        int rc = apache_input_read(x->in, decode_node, "node", &read, x->ret_error);
        if (rc == 0 && read.end) {
            return adopted(x, adoption_nodes_end(x->a, zxid));
        }
        rc = rc == 0 ? adopted(x, adoption_node(x->a, &read.node)) : rc;
        if (rc != 0) {
            return rc;
        }
    }
}

/* The checksum of all before it, and the path "/". */
static int read_seal(struct snapshot_reading *x)
{
    uint32_t expected = apache_input_checksum(x->in);
    int64_t value;
    struct slice path;
    int rc = apache_input_read(x->in, apache_decode_i64, "checksum", &value, x->ret_error);
    if (rc == 0) {
        rc = apache_input_read(x->in, apache_decode_string, "end of a checksum", &path,
                               x->ret_error);
    }
    if (rc != 0) {
        return rc;
    }
    return value == (int64_t)expected && slice_equal_str(path, "/")
               ? 0
               : snapshot_refuse(x, "its checksum is wrong");
}

/* Version 1 of the digest was a text. */
static int decode_digest(struct wire_reader *r, void *ret)
{
    struct wire_file_digest *digest = ret;
    digest->zxid = wire_read_i64(r);
    digest->version = wire_read_i32(r);
    if (digest->version < OUTCOME_DIGEST_VERSION) {
        (void)wire_read_string(r);
    } else {
        digest->digest = wire_read_i64(r);
    }
    return r->failed ? CONCLAVE_ECORRUPT : 0;
}

enum { SEAL_LEN = 8 + 4 + 1, ZXID_LEN = 8 + SEAL_LEN };

/* Each of the two is there or not: the digest since 3.6, unless digests are switched off, the zxid since 3.9. */
static int read_end(struct snapshot_reading *x, struct apache_snapshot_end *ret)
{
    size_t left;
    int rc = apache_input_left(x->in, ZXID_LEN + 1, &left, x->ret_error);
    if (rc == 0 && left > ZXID_LEN) {
        rc = apache_input_read(x->in, decode_digest, "digest", &ret->digest, x->ret_error);
        rc = rc == 0 ? read_seal(x) : rc;
        rc = rc == 0 ? apache_input_left(x->in, ZXID_LEN + 1, &left, x->ret_error) : rc;
        ret->has_digest = rc == 0 && ret->digest.zxid > 0;
    }
    if (rc == 0 && left > 0) {
        rc = apache_input_read(x->in, apache_decode_i64, "last zxid", &ret->zxid, x->ret_error);
        rc = rc == 0 ? read_seal(x) : rc;
        rc = rc == 0 ? apache_input_left(x->in, 1, &left, x->ret_error) : rc;
        ret->has_zxid = rc == 0;
        rc = rc == 0 && left > 0 ? snapshot_refuse(x, "something follows its end") : rc;
    }
    return rc;
}

int apache_snapshot_read(const char *file, int64_t zxid, struct adoption *a,
                         struct apache_snapshot_end *ret, char **ret_error)
{
    struct snapshot_reading x = {.file = file, .a = a, .ret_error = ret_error};
    *ret = (struct apache_snapshot_end){0};
    int rc = apache_input_open(file, &x.in, ret_error);
    if (rc != 0) {
        return rc;
    }
    rc = snapshot_read_header(&x);
    rc = rc == 0 ? read_sessions(&x) : rc;
    rc = rc == 0 ? read_acls(&x) : rc;
    rc = rc == 0 ? read_nodes(&x, zxid) : rc;
    rc = rc == 0 ? read_seal(&x) : rc;
    rc = rc == 0 ? read_end(&x, ret) : rc;
    apache_input_close(x.in);
    return rc;
}
