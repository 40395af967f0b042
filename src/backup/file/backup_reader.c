#include "backup/file/backup_reader.h"

#include "base/endian.h"
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum reader_stage {
    READER_HEADER,
    READER_BLOCK_HEAD,
    READER_BLOCK,
    READER_TOTAL, /* the last eight bytes */
    READER_ENDED,
};

struct backup_reader {
    struct backup_reader_callbacks callbacks;
    ZSTD_DCtx *zstd;
    enum reader_stage stage;
    struct buf in;   /* bytes of the current part */
    size_t want;     /* length of that part */
    uint64_t offset; /* of that part in the file */
    uint64_t chain;
    uint64_t total;
    uint32_t raw_len;  /* of the current block */
    uint64_t checksum; /* of the current block, or the end */
    struct buf record; /* the record that is not complete */
    const char *problem;
    uint8_t raw[BACKUP_RAW_MAX];
};

struct backup_reader *backup_reader_create(const struct backup_reader_callbacks *callbacks)
{
    struct backup_reader *r = malloc(sizeof *r);
    if (r == NULL) {
        return NULL;
    }
    memset(r, 0, offsetof(struct backup_reader, raw));
    r->callbacks = *callbacks;
    r->want = BACKUP_HEADER_SIZE;
    r->problem = "";
    buf_init(&r->in, 0);
    buf_init(&r->record, 0);
    r->zstd = ZSTD_createDCtx();
    if (r->zstd == NULL) {
        free(r);
        return NULL;
    }
    return r;
}

void backup_reader_destroy(struct backup_reader *r)
{
    if (r != NULL) {
        ZSTD_freeDCtx(r->zstd);
        buf_finish(&r->in);
        buf_finish(&r->record);
        free(r);
    }
}

static int reader_fail(struct backup_reader *r, int code, const char *problem)
{
    r->problem = problem;
    return code;
}

static int reader_header(struct backup_reader *r, const uint8_t *bytes)
{
    if (memcmp(bytes, BACKUP_MAGIC, 8) != 0) {
        return reader_fail(r, CONCLAVE_EFOREIGN, "it is no backup");
    }
    r->chain = get_le64(bytes + BACKUP_HEADER_SIZE - 8);
    if (r->chain != hash_bytes(bytes, BACKUP_HEADER_SIZE - 8)) {
        return reader_fail(r, CONCLAVE_ECORRUPT, "its header has a wrong checksum");
    }
    if (get_le32(bytes + 8) != BACKUP_VERSION) {
        return reader_fail(r, CONCLAVE_EFOREIGN, "a newer version wrote it: use that version");
    }
    struct backup_header h = {
        .incremental = (get_le32(bytes + 12) & BACKUP_INCREMENTAL) != 0,
        .from_index = get_le64(bytes + 32),
        .from_term = get_le64(bytes + 40),
        .end_index = get_le64(bytes + 48),
        .end_term = get_le64(bytes + 56),
        .from_zxid = (int64_t)get_le64(bytes + 64),
        .end_zxid = (int64_t)get_le64(bytes + 72),
        .made_ms = (int64_t)get_le64(bytes + 80),
        .server_id = get_le64(bytes + 88),
    };
    memcpy(h.cluster, bytes + 16, BACKUP_CLUSTER_SIZE);
    r->stage = READER_BLOCK_HEAD;
    return r->callbacks.header(r->callbacks.ctx, &h);
}

static int reader_block_head(struct backup_reader *r, const uint8_t *bytes)
{
    uint32_t stored = get_le32(bytes);
    r->raw_len = get_le32(bytes + 4);
    r->checksum = get_le64(bytes + 8);
    if (stored == 0 && r->raw_len == 0) {
        r->stage = READER_TOTAL;
        return 0;
    }
    if (stored == 0 || r->raw_len == 0 || r->raw_len > BACKUP_RAW_MAX ||
        stored > ZSTD_compressBound(BACKUP_RAW_MAX)) {
        return reader_fail(r, CONCLAVE_ECORRUPT, "a block has an impossible length");
    }
    r->want = stored;
    r->stage = READER_BLOCK;
    return 0;
}

/* Takes the complete records off the front of r->record. */
static int reader_records(struct backup_reader *r)
{
    size_t at = 0;
    int rc = 0;
    while (rc == 0 && r->record.len - at >= BACKUP_RECORD_HEAD) {
        const uint8_t *p = r->record.data + at;
        uint32_t len = get_le32(p + 4);
        if (len > BACKUP_RECORD_MAX) {
            return reader_fail(r, CONCLAVE_ECORRUPT, "a record has an impossible length");
        }
        if (r->record.len - at - BACKUP_RECORD_HEAD < len) {
            break;
        }
        const struct backup_record record = {
            .kind = get_le32(p),
            .index = get_le64(p + 8),
            .term = get_le64(p + 16),
            .payload = slice_make(p + BACKUP_RECORD_HEAD, len),
        };
        if (r->callbacks.record != NULL) {
            rc = r->callbacks.record(r->callbacks.ctx, &record);
        }
        at += BACKUP_RECORD_HEAD + len;
    }
    buf_consume(&r->record, at);
    return rc;
}

static int reader_block(struct backup_reader *r, struct slice stored)
{
    uint64_t chain = hash_u64(r->chain ^ hash_bytes(stored.data, stored.len) ^ r->raw_len);
    if (chain != r->checksum) {
        return reader_fail(r, CONCLAVE_ECORRUPT, "a block has a wrong checksum");
    }
    size_t n = ZSTD_decompressDCtx(r->zstd, r->raw, sizeof r->raw, stored.data, stored.len);
    if (ZSTD_isError(n) || n != r->raw_len) {
        return reader_fail(r, CONCLAVE_ECORRUPT, "a block cannot be decompressed");
    }
    r->chain = chain;
    r->total += n;
    r->stage = READER_BLOCK_HEAD;
    buf_append(&r->record, r->raw, n);
    if (!buf_ok(&r->record)) {
        return reader_fail(r, CONCLAVE_ENOMEM, "out of memory");
    }
    return reader_records(r);
}

static int reader_total(struct backup_reader *r, const uint8_t *bytes)
{
    uint64_t total = get_le64(bytes);
    if (r->checksum != hash_u64(r->chain ^ total) || total != r->total) {
        return reader_fail(r, CONCLAVE_ECORRUPT, "blocks are missing before its end");
    }
    if (r->record.len > 0) {
        return reader_fail(r, CONCLAVE_ECORRUPT, "its last record is incomplete");
    }
    r->stage = READER_ENDED;
    return 0;
}

/* The part is complete. */
static int reader_part(struct backup_reader *r)
{
    struct slice part = buf_slice(&r->in);
    assert(part.len == r->want);
    size_t len = part.len;
    int rc = 0;
    switch (r->stage) {
    case READER_HEADER:
        rc = reader_header(r, part.data);
        break;
    case READER_BLOCK_HEAD:
        rc = reader_block_head(r, part.data);
        break;
    case READER_BLOCK:
        rc = reader_block(r, part);
        break;
    case READER_TOTAL:
        rc = reader_total(r, part.data);
        break;
    case READER_ENDED:
        return reader_fail(r, CONCLAVE_ECORRUPT, "there are bytes after its end");
    }
    if (rc == 0) {
        r->offset += len;
        r->want = r->stage == READER_BLOCK        ? r->want
                  : r->stage == READER_BLOCK_HEAD ? BACKUP_BLOCK_HEAD
                                                  : BACKUP_END_SIZE - BACKUP_BLOCK_HEAD;
        buf_reset(&r->in);
    }
    return rc;
}

int backup_reader_feed(struct backup_reader *r, struct slice bytes)
{
    while (bytes.len > 0) {
        if (r->stage == READER_ENDED) {
            return reader_fail(r, CONCLAVE_ECORRUPT, "there are bytes after its end");
        }
        assert(r->want > r->in.len);
        size_t need = r->want - r->in.len;
        size_t n = bytes.len < need ? bytes.len : need;
        buf_append(&r->in, bytes.data, n);
        if (!buf_ok(&r->in)) {
            return reader_fail(r, CONCLAVE_ENOMEM, "out of memory");
        }
        bytes = slice_make(bytes.data + n, bytes.len - n);
        if (r->in.len == r->want) {
            int rc = reader_part(r);
            if (rc != 0) {
                return rc;
            }
        }
    }
    return 0;
}

int backup_reader_end(struct backup_reader *r)
{
    return r->stage == READER_ENDED
               ? 0
               : reader_fail(r, CONCLAVE_ECORRUPT, "it is incomplete: its end is missing");
}

const char *backup_reader_problem(const struct backup_reader *r, uint64_t *ret_offset)
{
    *ret_offset = r->offset;
    return r->problem;
}
