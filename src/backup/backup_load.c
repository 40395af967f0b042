#include "backup/backup_load.h"

#include "backup/file/backup_reader.h"
#include "base/endian.h"
#include "base/memory.h"
#include "replication/disk/folder_format.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_SIZE = 256 * 1024 };

struct load {
    struct replay replay;
    struct backup_header header;
    uint64_t bytes;     /* of the files so far */
    bool first_header;  /* the next header is that of the first file */
    bool any;           /* it may be incremental */
    bool snapshot;      /* one began */
    struct buf content; /* of the snapshot, while it is read */
    uint64_t content_size;
    struct buf configuration;
    char *text;
};

static int load_fail(struct load *l, int code, const char *text)
{
    return text_fail(&l->text, code, "%s", text);
}

/* --- files ------------------------------------------------------------------------------------ */

static int load_header(void *ctx, const struct backup_header *h)
{
    struct load *l = ctx;
    struct backup_header *all = &l->header;
    if (l->first_header) {
        l->first_header = false;
        *all = *h;
        return h->incremental && !l->any
                   ? load_fail(
                         l, CONCLAVE_EINVAL,
                         "it is incremental: name the full backup, and all between, before it")
                   : 0;
    }
    if (!h->incremental) {
        return load_fail(l, CONCLAVE_EINVAL, "it is a full backup: only the first file may be one");
    }
    if (memcmp(h->cluster, all->cluster, sizeof all->cluster) != 0) {
        return load_fail(l, CONCLAVE_EINVAL, "it is of another ensemble than the file before it");
    }
    if (h->from_index != all->end_index || h->from_term != all->end_term) {
        return text_fail(&l->text, CONCLAVE_EINVAL,
                         "it begins after zxid 0x%" PRIx64
                         ", but the file before it ends at zxid 0x%" PRIx64
                         ": name the files in their order, and all of them",
                         (uint64_t)h->from_zxid, (uint64_t)all->end_zxid);
    }
    all->end_index = h->end_index;
    all->end_term = h->end_term;
    all->end_zxid = h->end_zxid;
    all->made_ms = h->made_ms;
    return 0;
}

/* Reads one file through the reader. */
static int load_file(struct load *l, const char *path,
                     int (*record)(void *ctx, const struct backup_record *record))
{
    const struct backup_reader_callbacks callbacks = {l, load_header, record};
    struct backup_reader *reader = backup_reader_create(&callbacks);
    uint8_t *bytes = malloc(READ_SIZE);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int rc = reader == NULL || bytes == NULL ? CONCLAVE_ENOMEM : 0;
    ssize_t n = fd < 0 ? -1 : 1;
    while (rc == 0 && n > 0) {
        n = read(fd, bytes, READ_SIZE);
        l->bytes += n > 0 ? (uint64_t)n : 0;
        rc = n > 0 ? backup_reader_feed(reader, slice_make(bytes, (size_t)n)) : 0;
    }
    if (rc == 0 && n < 0) {
        rc = text_fail(&l->text, CONCLAVE_EIO, "%s: cannot be read: %s", path, strerror(errno));
    } else if (rc == 0) {
        rc = backup_reader_end(reader);
    }
    if (rc < 0 && rc != CONCLAVE_EIO) {
        uint64_t offset = 0;
        const char *why = reader != NULL ? backup_reader_problem(reader, &offset) : "";
        char *own = l->text;
        l->text = NULL;
        if (own != NULL) {
            (void)text_fail(&l->text, 0, "%s: %s", path, own);
        } else {
            (void)text_fail(&l->text, 0, "%s: damaged at byte %" PRIu64 ": %s", path, offset,
                            why[0] != '\0' ? why : conclave_strerror(rc));
        }
        free(own);
    }
    if (fd >= 0) {
        close(fd);
    }
    free(bytes);
    backup_reader_destroy(reader);
    return rc;
}

int backup_check_files(const char *const *files, size_t count, struct backup_header *ret,
                       uint64_t *ret_bytes, char **ret_text)
{
    struct load l = {.first_header = true};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = load_file(&l, files[i], NULL);
    }
    *ret = l.header;
    *ret_bytes = l.bytes;
    *ret_text = l.text;
    return rc;
}

int backup_read_header(const char *file, struct backup_header *ret, uint64_t *ret_bytes,
                       char **ret_text)
{
    struct load l = {.first_header = true, .any = true};
    int rc = load_file(&l, file, NULL);
    *ret = l.header;
    *ret_bytes = l.bytes;
    *ret_text = l.text;
    return rc;
}

/* --- records ---------------------------------------------------------------------------------- */

/* Takes the replay's words for what is wrong. */
static int load_replayed(struct load *l, int rc)
{
    if (rc < 0 && l->replay.text != NULL) {
        free(l->text);
        l->text = l->replay.text;
        l->replay.text = NULL;
    }
    return rc;
}

static int load_snapshot_head(struct load *l, const struct backup_record *record)
{
    if (l->replay.state != NULL || l->snapshot || record->payload.len < 16) {
        return load_fail(l, CONCLAVE_ECORRUPT, "a snapshot in it is malformed");
    }
    l->snapshot = true;
    l->content_size = get_be64(record->payload.data + 8);
    l->replay.index = record->index;
    l->replay.term = record->term;
    buf_append(&l->configuration, record->payload.data + 16, record->payload.len - 16);
    return buf_ok(&l->configuration) ? 0 : CONCLAVE_ENOMEM;
}

static void load_passed(void *ctx, struct slice bytes)
{
    pages_forget(ctx, bytes);
}

static int load_part(struct load *l, const struct backup_record *record)
{
    if (l->replay.state != NULL || record->payload.len > l->content_size - l->content.len) {
        return load_fail(l, CONCLAVE_ECORRUPT, "a snapshot in it is malformed");
    }
    buf_append_slice(&l->content, record->payload);
    if (!buf_ok(&l->content)) {
        return CONCLAVE_ENOMEM;
    }
    if (l->content.len < l->content_size) {
        return 0;
    }
    struct pages_passed pages = {0};
    const struct replay_snapshot from = {
        .index = l->replay.index,
        .term = l->replay.term,
        .content = buf_slice(&l->content),
        .configuration = buf_slice(&l->configuration),
        .passed = load_passed,
        .ctx = &pages,
    };
    int rc = replay_begin(&l->replay, &from);
    buf_finish(&l->content);
    return load_replayed(l, rc);
}

static int load_entry(struct load *l, const struct backup_record *record)
{
    const struct replay_entry entry = {record->kind, record->index, record->term, record->payload};
    int rc = 0;
    if (l->replay.state == NULL) {
        rc = l->content_size == 0
                 ? replay_begin_empty(&l->replay)
                 : load_fail(l, CONCLAVE_ECORRUPT, "a snapshot in it is incomplete");
    }
    rc = rc == 0 ? replay_apply(&l->replay, &entry) : rc;
    return load_replayed(l, rc);
}

static int load_record(void *ctx, const struct backup_record *record)
{
    struct load *l = ctx;
    switch (record->kind) {
    case BACKUP_RECORD_SNAPSHOT:
        return load_snapshot_head(l, record);
    case BACKUP_RECORD_PART:
        return load_part(l, record);
    case ENTRY_COMMAND:
    case ENTRY_BARRIER:
    case ENTRY_CONFIGURATION:
        return load_entry(l, record);
    default:
        return load_fail(l, CONCLAVE_EFOREIGN, "a newer version wrote it: use that version");
    }
}

/* Whether the state is the one that the caller wants. */
static int load_judge(struct load *l)
{
    if (l->replay.state == NULL) {
        return load_fail(l, CONCLAVE_ECORRUPT, "there is no state in the files");
    }
    return load_replayed(l, replay_judge(&l->replay, "the files end"));
}

static void load_give(struct load *l, struct backup_loaded *ret)
{
    *ret = (struct backup_loaded){
        .state = l->replay.state,
        .header = l->header,
        .index = l->replay.index,
        .term = l->replay.term,
        .begin_zxid = l->replay.begin_zxid,
        .begin_ms = l->replay.begin_ms,
        .time_ms = l->replay.time_ms,
        .entries = l->replay.entries,
        .bytes = l->bytes,
    };
    l->replay.state = NULL;
}

int backup_load(const struct backup_load_options *options, struct backup_loaded *ret,
                char **ret_text)
{
    struct load l = {.first_header = true};
    int rc = backup_check_files(options->files, options->count, &l.header, &l.bytes, ret_text);
    if (rc != 0) {
        return rc;
    }
    const struct backup_header header = l.header;
    uint64_t bytes = l.bytes;
    replay_init(&l.replay, &options->moment, options->changed, options->ctx);
    buf_init(&l.content, 0);
    buf_init(&l.configuration, 0);
    for (size_t i = 0; rc == 0 && i < options->count; i++) {
        rc = load_file(&l, options->files[i], load_record);
    }
    rc = rc == REPLAY_STOPPED ? 0 : rc;
    rc = rc == 0 ? load_judge(&l) : rc;
    l.header = header;
    l.bytes = bytes;
    buf_finish(&l.content);
    buf_finish(&l.configuration);
    *ret_text = l.text;
    if (rc == 0) {
        load_give(&l, ret);
    }
    replay_finish(&l.replay);
    return rc;
}

void backup_loaded_finish(struct backup_loaded *l)
{
    state_destroy(l->state);
    l->state = NULL;
}
