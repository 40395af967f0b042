#include "apache/snapshot.h"

#include "apache/format.h"
#include "apache/input.h"
#include "apache/snapshot_records.h"

/* A reading of one snapshot. */
struct snapshot_reading {
    struct apache_input *in;
    const char *file;
    const struct apache_snapshot_taker *to;
    char **ret_error;
};

static int snapshot_refuse(struct snapshot_reading *x, const char *why)
{
    return text_fail(x->ret_error, CONCLAVE_ECORRUPT, "%s is damaged before byte %llu: %s", x->file,
                     (unsigned long long)apache_input_offset(x->in), why);
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

static int read_records(struct snapshot_reading *x, int64_t zxid)
{
    struct snapshot_records records;
    snapshot_records_init(&records, x->to, zxid);
    while (records.phase != SNAPSHOT_COMPLETE) {
        int rc = apache_input_read(x->in, snapshot_records_decode, snapshot_records_next(&records),
                                   &records, x->ret_error);
        if (rc == 0 && records.error == CONCLAVE_ECORRUPT) {
            rc = snapshot_refuse(x, records.why != NULL ? records.why : x->to->problem(x->to->ctx));
        } else if (rc == 0) {
            rc = records.error;
        }
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
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

enum { SEAL_LEN = 8 + 4 + 1, ZXID_LEN = 8 + SEAL_LEN };

/* Each of the two is there or not: the digest since 3.6, unless digests are switched off, the zxid since 3.9. */
static int read_end(struct snapshot_reading *x, struct apache_snapshot_end *ret)
{
    size_t left;
    int rc = apache_input_left(x->in, ZXID_LEN + 1, &left, x->ret_error);
    if (rc == 0 && left > ZXID_LEN) {
        rc = apache_input_read(x->in, snapshot_digest_decode, "digest", &ret->digest, x->ret_error);
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

int apache_snapshot_read(const char *file, int64_t zxid, const struct apache_snapshot_taker *to,
                         struct apache_snapshot_end *ret, char **ret_error)
{
    struct snapshot_reading x = {.file = file, .to = to, .ret_error = ret_error};
    *ret = (struct apache_snapshot_end){0};
    int rc = apache_input_open(file, &x.in, ret_error);
    if (rc != 0) {
        return rc;
    }
    rc = snapshot_read_header(&x);
    rc = rc == 0 ? read_records(&x, zxid) : rc;
    rc = rc == 0 ? read_seal(&x) : rc;
    rc = rc == 0 ? read_end(&x, ret) : rc;
    ret->offset = apache_input_offset(x.in);
    apache_input_close(x.in);
    return rc;
}
