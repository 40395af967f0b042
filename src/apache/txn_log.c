#include "apache/txn_log.h"

#include "apache/format.h"

#include <assert.h>
#include <stdlib.h>
#include <zlib.h>

/* Bytes can be made so that an entry seems to begin at every fourth of them: to compare all checksums would take hours. */
enum { SEARCH_MAX = 1 << 30 };

struct apache_txn_log {
    struct apache_input *in;
    const char *file;
    bool unfinished;
    uint64_t unfinished_at;
    bool ended;
    uint64_t offset; /* of the last entry */
    size_t
        budget; /* bytes of which a checksum may still be compared to find an entry behind damage */
};

static int decode_header(struct wire_reader *r, void *ret)
{
    return wire_decode_file_header(r, ret);
}

enum { FILE_HEADER_LEN = 16, ENTRY_MIN = 8 + 4, ZEROES_PIECE = 1 << 18 };

static int txn_log_read_header(struct apache_txn_log *log, char **ret_error)
{
    struct wire_file_header header;
    size_t left;
    int rc = apache_input_left(log->in, FILE_HEADER_LEN, &left, ret_error);
    if (rc == 0 && left == 0) {
        log->ended = true;
        return 0;
    }
    rc = rc == 0 ? apache_input_read(log->in, decode_header, "header", &header, ret_error) : rc;
    if (rc == 0 && header.magic != APACHE_LOG_MAGIC) {
        return text_fail(ret_error, CONCLAVE_ECORRUPT, "%s is no transaction log of ZooKeeper",
                         log->file);
    }
    if (rc == 0 && header.version != APACHE_FORMAT_VERSION) {
        return text_fail(ret_error, CONCLAVE_ECORRUPT,
                         "%s has format %d, and this program reads %d: a newer ZooKeeper wrote it",
                         log->file, header.version, APACHE_FORMAT_VERSION);
    }
    return rc;
}

int apache_txn_log_open(const char *file, struct apache_txn_log **ret, char **ret_error)
{
    struct apache_txn_log *log = calloc(1, sizeof *log);
    if (log == NULL) {
        return CONCLAVE_ENOMEM;
    }
    log->file = file;
    log->budget = SEARCH_MAX;
    int rc = apache_input_open(file, &log->in, ret_error);
    rc = rc == 0 ? txn_log_read_header(log, ret_error) : rc;
    if (rc != 0) {
        apache_txn_log_close(log);
        return rc;
    }
    *ret = log;
    return 0;
}

void apache_txn_log_close(struct apache_txn_log *log)
{
    if (log != NULL) {
        apache_input_close(log->in);
        free(log);
    }
}

struct txn_log_entry {
    int64_t checksum;
    struct slice bytes;
};

static bool is_empty(const struct txn_log_entry *e)
{
    return e->checksum == 0 && e->bytes.len == 0;
}

/* Of the zeroes behind the last entry it takes checksum and length. */
static int decode_entry(struct wire_reader *r, void *ret)
{
    struct txn_log_entry *e = ret;
    e->checksum = wire_read_i64(r);
    e->bytes = wire_read_buffer(r);
    if (r->failed || is_empty(e)) {
        return r->failed ? CONCLAVE_ECORRUPT : 0;
    }
    const uint8_t *end = wire_take(r, 1);
    return end != NULL && *end == APACHE_ENTRY_END ? 0 : CONCLAVE_ECORRUPT;
}

static bool checksum_is_right(const struct txn_log_entry *e)
{
    return e->checksum == (int64_t)adler32_z(1, e->bytes.data, e->bytes.len);
}

static int txn_log_refuse(const struct apache_txn_log *log, uint64_t offset, const char *why,
                          char **ret_error)
{
    return text_fail(ret_error, CONCLAVE_ECORRUPT, "%s is damaged at byte %llu: %s", log->file,
                     (unsigned long long)offset, why);
}

/* The place of the first whole entry behind the first byte; 0: no entry follows. When the budget is spent, the next place that looks
 * like an entry counts as one. */
static size_t next_entry(struct apache_txn_log *log, struct slice bytes)
{
    for (size_t i = 1; i + ENTRY_MIN < bytes.len; i++) {
        struct txn_log_entry e;
        struct wire_reader r = wire_reader_make(slice_make(bytes.data + i, bytes.len - i));
        if (decode_entry(&r, &e) != 0 || is_empty(&e)) {
            continue;
        }
        if (e.bytes.len > log->budget || checksum_is_right(&e)) {
            return i;
        }
        log->budget -= e.bytes.len;
    }
    return 0;
}

static bool all_zero(struct slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.data[i] != 0) {
            return false;
        }
    }
    return true;
}

/* The rest of the file; longer ones than a record may be are refused. */
static int read_rest(struct apache_txn_log *log, struct slice *ret, char **ret_error)
{
    size_t left;
    int rc = apache_input_left(log->in, APACHE_RECORD_MAX, &left, ret_error);
    *ret = apache_input_ahead(log->in);
    return rc;
}

/* At this place is no entry that can be read. A crash leaves a part of the last one, and nothing behind it. */
static int end_unfinished(struct apache_txn_log *log, uint64_t offset, char **ret_error)
{
    struct slice rest;
    int rc = read_rest(log, &rest, ret_error);
    if (rc != 0) {
        return rc;
    }
    if (rest.len >= APACHE_RECORD_MAX || next_entry(log, rest) != 0) {
        return txn_log_refuse(log, offset, "an entry cannot be read, and others follow it",
                              ret_error);
    }
    assert(!log->ended && !log->unfinished);
    log->ended = true;
    log->unfinished = true;
    log->unfinished_at = offset;
    return 0;
}

/* A piece at a time: in a copy, the 64 MiB of zeroes by which ZooKeeper lengthens a log may be written. An entry behind them
 * begins with bytes that are zero, so the last bytes of a piece stay ahead. */
static int end_in_zeroes(struct apache_txn_log *log, uint64_t offset, char **ret_error)
{
    struct slice rest;
    size_t passed = 0;
    log->ended = true;
    if (all_zero(apache_input_ahead(log->in)) && apache_input_hole_follows(log->in)) {
        return 0;
    }
    do {
        size_t left;
        int rc = apache_input_left(log->in, ZEROES_PIECE, &left, ret_error);
        rest = apache_input_ahead(log->in);
        if (rc != 0 || !all_zero(rest)) {
            return rc != 0
                       ? rc
                       : txn_log_refuse(log, offset, "an entry is empty, and something follows it",
                                        ret_error);
        }
        size_t len = rest.len > ENTRY_MIN ? rest.len - ENTRY_MIN : 0;
        apache_input_skip(log->in, len);
        passed += len;
    } while (rest.len >= ZEROES_PIECE && passed < APACHE_RECORD_MAX);
    return 0;
}

int apache_txn_log_next(struct apache_txn_log *log, struct outcome *ret, char **ret_error)
{
    uint64_t offset = apache_input_offset(log->in);
    log->offset = offset;
    struct txn_log_entry entry;
    size_t left = 0;
    int rc = log->ended ? 0 : apache_input_left(log->in, 1, &left, ret_error);
    if (rc != 0 || left == 0) {
        log->ended = true;
        return rc;
    }
    char *error = NULL;
    rc = apache_input_read(log->in, decode_entry, "entry", &entry, &error);
    if (rc == CONCLAVE_ECORRUPT) {
        free(error);
        return end_unfinished(log, offset, ret_error);
    }
    if (rc != 0) {
        *ret_error = error;
        return rc;
    }
    if (is_empty(&entry)) {
        return end_in_zeroes(log, offset, ret_error);
    }
    if (!checksum_is_right(&entry)) {
        return txn_log_refuse(log, offset, "the checksum of an entry is wrong", ret_error);
    }
    if (outcome_read(entry.bytes, ret) != 0) {
        return txn_log_refuse(
            log, offset,
            "a transaction cannot be read, although its checksum is right: did a newer "
            "ZooKeeper write it?",
            ret_error);
    }
    return 1;
}

bool apache_txn_log_unfinished(const struct apache_txn_log *log, uint64_t *ret_offset)
{
    assert(log->ended || !log->unfinished);
    *ret_offset = log->unfinished_at;
    return log->unfinished;
}

uint64_t apache_txn_log_offset(const struct apache_txn_log *log)
{
    return log->offset;
}

int apache_txn_log_resume(struct apache_txn_log *log, char **ret_error)
{
    struct slice rest;
    bool taken =
        apache_input_offset(log->in) > log->offset; /* the checksum was wrong, or it is empty */
    int rc = read_rest(log, &rest, ret_error);
    if (rc != 0) {
        return rc;
    }
    /* The length of an entry that was taken may be right. */
    struct txn_log_entry e;
    struct wire_reader r = wire_reader_make(rest);
    bool next = taken && decode_entry(&r, &e) == 0 && !is_empty(&e) && checksum_is_right(&e);
    size_t at = next ? 0 : next_entry(log, rest);
    log->ended = !next && at == 0;
    apache_input_skip(log->in, log->ended ? rest.len : at);
    return log->ended ? 0 : 1;
}
