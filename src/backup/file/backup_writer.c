#include "backup/file/backup_writer.h"

#include "base/endian.h"
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

struct backup_writer {
    ZSTD_CCtx *zstd;
    int level;
    uint64_t chain; /* checksum of the last block */
    uint64_t total; /* raw bytes of all blocks */
    size_t raw_len;
    uint8_t raw[BACKUP_RAW_MAX];
};

struct backup_writer *backup_writer_create(int level)
{
    struct backup_writer *w = malloc(sizeof *w);
    if (w == NULL) {
        return NULL;
    }
    w->zstd = ZSTD_createCCtx();
    w->level = level;
    w->chain = 0;
    w->total = 0;
    w->raw_len = 0;
    if (w->zstd == NULL) {
        free(w);
        return NULL;
    }
    return w;
}

void backup_writer_destroy(struct backup_writer *w)
{
    if (w != NULL) {
        ZSTD_freeCCtx(w->zstd);
        free(w);
    }
}

void backup_writer_header(struct backup_writer *w, const struct backup_header *h, struct buf *out)
{
    uint8_t bytes[BACKUP_HEADER_SIZE] = {0};
    memcpy(bytes, BACKUP_MAGIC, 8);
    put_le32(bytes + 8, BACKUP_VERSION);
    put_le32(bytes + 12, h->incremental ? BACKUP_INCREMENTAL : 0);
    memcpy(bytes + 16, h->cluster, BACKUP_CLUSTER_SIZE);
    put_le64(bytes + 32, h->from_index);
    put_le64(bytes + 40, h->from_term);
    put_le64(bytes + 48, h->end_index);
    put_le64(bytes + 56, h->end_term);
    put_le64(bytes + 64, (uint64_t)h->from_zxid);
    put_le64(bytes + 72, (uint64_t)h->end_zxid);
    put_le64(bytes + 80, (uint64_t)h->made_ms);
    put_le64(bytes + 88, h->server_id);
    w->chain = hash_bytes(bytes, BACKUP_HEADER_SIZE - 8);
    put_le64(bytes + BACKUP_HEADER_SIZE - 8, w->chain);
    buf_append(out, bytes, sizeof bytes);
}

/* Compresses the gathered bytes into a block. */
static void writer_block(struct backup_writer *w, struct buf *out)
{
    size_t bound = ZSTD_compressBound(w->raw_len);
    if (w->raw_len == 0 || buf_reserve(out, BACKUP_BLOCK_HEAD + bound) != 0) {
        return;
    }
    uint8_t *head = out->data + out->len;
    uint8_t *stored = head + BACKUP_BLOCK_HEAD;
    size_t len = ZSTD_compressCCtx(w->zstd, stored, bound, w->raw, w->raw_len, w->level);
    if (ZSTD_isError(len)) {
        out->failed = true; /* it can only lack memory: the room suffices */
        return;
    }
    w->chain = hash_u64(w->chain ^ hash_bytes(stored, len) ^ w->raw_len);
    put_le32(head, (uint32_t)len);
    put_le32(head + 4, (uint32_t)w->raw_len);
    put_le64(head + 8, w->chain);
    out->len += BACKUP_BLOCK_HEAD + len;
    w->total += w->raw_len;
    w->raw_len = 0;
}

static void writer_put(struct backup_writer *w, const uint8_t *data, size_t len, struct buf *out)
{
    while (len > 0 && buf_ok(out)) {
        size_t room = BACKUP_RAW_MAX - w->raw_len;
        size_t n = len < room ? len : room;
        memcpy(w->raw + w->raw_len, data, n);
        w->raw_len += n;
        data += n;
        len -= n;
        if (w->raw_len == BACKUP_RAW_MAX) {
            writer_block(w, out);
        }
    }
}

void backup_writer_record(struct backup_writer *w, uint32_t kind, uint64_t index, uint64_t term,
                          struct slice payload, struct buf *out)
{
    uint8_t head[BACKUP_RECORD_HEAD];
    assert(payload.len <= BACKUP_RECORD_MAX && w->raw_len < BACKUP_RAW_MAX);
    put_le32(head, kind);
    put_le32(head + 4, (uint32_t)payload.len);
    put_le64(head + 8, index);
    put_le64(head + 16, term);
    writer_put(w, head, sizeof head, out);
    writer_put(w, payload.data, payload.len, out);
}

void backup_writer_end(struct backup_writer *w, struct buf *out)
{
    uint8_t end[BACKUP_END_SIZE] = {0};
    writer_block(w, out);
    assert(!buf_ok(out) || w->raw_len == 0);
    put_le64(end + 8, hash_u64(w->chain ^ w->total));
    put_le64(end + 16, w->total);
    buf_append(out, end, sizeof end);
}
