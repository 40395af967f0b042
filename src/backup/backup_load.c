#include "backup/backup_load.h"

#include "backup/file/backup_reader.h"
#include "base/endian.h"
#include "base/random.h"
#include "cluster/member_roles.h"
#include "replication/disk/folder_format.h"
#include "state/adopt/mirrored.h"
#include "state/entry/replacement.h"
#include "state/mirror.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_SIZE = 256 * 1024, LOAD_STOPPED = 1 };

struct load {
    const struct backup_load_options *options; /* NULL: only checks */
    struct backup_loaded out;
    struct hash_key key;
    struct effects effects;
    struct replacement_pieces pieces; /* of a state that replaces the whole */
    bool first_header;                /* the next header is that of the first file */
    bool any;                         /* it may be incremental */
    struct buf content;               /* of the snapshot, while it is read */
    uint64_t content_size;
    struct buf configuration;
    bool began; /* there is a state */
    bool stopped;
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
    struct backup_header *all = &l->out.header;
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
        l->out.bytes += n > 0 ? (uint64_t)n : 0;
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
    *ret = l.out.header;
    *ret_bytes = l.out.bytes;
    *ret_text = l.text;
    return rc;
}

int backup_read_header(const char *file, struct backup_header *ret, uint64_t *ret_bytes,
                       char **ret_text)
{
    struct load l = {.first_header = true, .any = true};
    int rc = load_file(&l, file, NULL);
    *ret = l.out.header;
    *ret_bytes = l.out.bytes;
    *ret_text = l.text;
    return rc;
}

/* --- records ---------------------------------------------------------------------------------- */

static bool load_wants_zxid(const struct load *l, int64_t zxid)
{
    int64_t want = l->options->moment.zxid;
    return want == 0 || zxid < want;
}

/* After a change: tells it, and stops where the caller wants. */
static void load_changed(struct load *l, const struct backup_change *change)
{
    assert(l->began && !l->stopped && state_zxid(l->out.state) >= l->out.begin_zxid);
    if (l->options->changed != NULL) {
        l->options->changed(l->options->ctx, l->out.state, change);
    }
    l->stopped = l->stopped || !load_wants_zxid(l, state_zxid(l->out.state));
}

/* The first state. */
static int load_begin(struct load *l, struct state *state_take)
{
    assert(!l->began && (l->out.state == NULL || l->out.state == state_take));
    const struct backup_moment *want = &l->options->moment;
    l->out.state = state_take;
    l->began = true;
    l->out.begin_zxid = state_zxid(state_take);
    l->out.begin_ms = state_time_ms(state_take);
    l->out.time_ms = l->out.begin_ms;
    if ((want->zxid != 0 && want->zxid < l->out.begin_zxid) ||
        (want->time_ms != 0 && want->time_ms < l->out.begin_ms)) {
        return text_fail(&l->text, CONCLAVE_EINVAL,
                         "it begins only at zxid 0x%" PRIx64 ": name an earlier backup",
                         (uint64_t)l->out.begin_zxid);
    }
    load_changed(l, NULL);
    return l->stopped ? LOAD_STOPPED : 0;
}

static int load_configure(struct load *l, struct slice bytes)
{
    struct configuration_member members[MEMBERS_MAX];
    struct state_member list[MEMBERS_MAX];
    size_t n;
    int rc = configuration_decode(bytes, members, &n);
    if (rc != 0) {
        return load_fail(l, rc, "a configuration of members in it cannot be read");
    }
    for (size_t i = 0; i < n; i++) {
        list[i] = member_of_log(&members[i]);
    }
    state_configure(l->out.state, list, n, &l->effects);
    return 0;
}

/* All parts of the snapshot are there. */
static int load_snapshot(struct load *l)
{
    struct state *state = NULL;
    assert(l->out.state == NULL && l->content.len == l->content_size);
    int rc = state_restore(buf_slice(&l->content), &l->key, &state);
    buf_finish(&l->content);
    if (rc != 0) {
        return load_fail(l, rc, "the snapshot in it cannot be loaded");
    }
    l->out.state = state;
    rc = load_configure(l, buf_slice(&l->configuration));
    if (rc != 0) {
        return rc;
    }
    return load_begin(l, state);
}

static int load_snapshot_head(struct load *l, const struct backup_record *record)
{
    if (l->began || record->payload.len < 16) {
        return load_fail(l, CONCLAVE_ECORRUPT, "a snapshot in it is malformed");
    }
    l->content_size = get_be64(record->payload.data + 8);
    l->out.index = record->index;
    l->out.term = record->term;
    buf_append(&l->configuration, record->payload.data + 16, record->payload.len - 16);
    return buf_ok(&l->configuration) ? 0 : CONCLAVE_ENOMEM;
}

static int load_part(struct load *l, const struct backup_record *record)
{
    if (l->began || record->payload.len > l->content_size - l->content.len) {
        return load_fail(l, CONCLAVE_ECORRUPT, "a snapshot in it is malformed");
    }
    buf_append_slice(&l->content, record->payload);
    if (!buf_ok(&l->content)) {
        return CONCLAVE_ENOMEM;
    }
    return l->content.len == l->content_size ? load_snapshot(l) : 0;
}

static int load_replacement(struct load *l, struct slice entry)
{
    struct replacement piece;
    struct slice snapshot = SLICE_NULL;
    struct state_mirror m;
    struct state *state = NULL;
    int rc = replacement_open(entry, &piece);
    rc = rc == 0 ? replacement_pieces_take(&l->pieces, &piece, &snapshot) : rc;
    if (rc == 0) {
        return 0;
    }
    rc = rc == 1 ? state_restore(snapshot, &l->key, &state) : rc;
    replacement_pieces_forget(&l->pieces);
    if (rc != 0) {
        return load_fail(l, rc, "a restored state in it cannot be loaded");
    }
    bool mirrors = (piece.flags & REPLACEMENT_MIRRORS) != 0;
    bool mirror = state_mirror(l->out.state, &m);
    rc = mirrors  ? state_mirror_succeed(state, l->out.state, piece.id)
         : mirror ? CONCLAVE_NO_NODE
                  : 0;
    if (rc != 0) {
        state_destroy(state);
        return rc == CONCLAVE_NO_NODE ? 0 : rc;
    }
    if (!mirrors) {
        state_succeed(state, l->out.state);
    }
    state_destroy(l->out.state);
    l->out.state = state;
    load_changed(l, NULL);
    return 0;
}

static int load_batch(struct load *l, struct slice entry)
{
    struct batch_reader batch;
    struct command command;
    int rc = batch_open(entry, &batch);
    if (rc != 0) {
        return load_fail(l, rc, "an entry of the log in it cannot be read");
    }
    int64_t until_ms = l->options->moment.time_ms;
    if (until_ms != 0 && batch.header.time_ms > until_ms) {
        l->stopped = true;
        return 0;
    }
    if (state_batch_admit(l->out.state, &batch.header) != STATE_BATCH_APPLY) {
        return 0;
    }
    l->out.time_ms = batch.header.time_ms;
    while (!l->stopped && (rc = batch_next(&batch, &command)) == 1) {
        mirrored_apply(l->out.state, &batch.header, &command, &l->effects);
        load_changed(l, &(struct backup_change){&batch.header, &command, &l->effects});
    }
    effects_trim(&l->effects);
    return rc < 0 ? load_fail(l, rc, "an entry of the log in it cannot be read") : 0;
}

static int load_entry(struct load *l, const struct backup_record *record)
{
    int rc = 0;
    if (!l->began) {
        struct state *fresh = l->content_size == 0 ? state_create(&l->key) : NULL;
        rc = fresh != NULL ? load_begin(l, fresh)
                           : load_fail(l, CONCLAVE_ECORRUPT, "a snapshot in it is incomplete");
        if (rc != 0) {
            return rc;
        }
    }
    if (record->index != l->out.index + 1 || record->term < l->out.term) {
        return load_fail(l, CONCLAVE_ECORRUPT, "entries of the log are missing in it");
    }
    if (record->kind == ENTRY_CONFIGURATION) {
        rc = load_configure(l, record->payload);
        if (rc == 0) {
            load_changed(l, NULL);
        }
    } else if (record->kind == ENTRY_COMMAND) {
        rc = replacement_is(record->payload) ? load_replacement(l, record->payload)
                                             : load_batch(l, record->payload);
    }
    l->out.index = record->index;
    l->out.term = record->term;
    l->out.entries++;
    return rc == 0 && l->stopped ? LOAD_STOPPED : rc;
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
    int64_t want = l->options->moment.zxid;
    if (!l->began) {
        return load_fail(l, CONCLAVE_ECORRUPT, "there is no state in the files");
    }
    int64_t zxid = state_zxid(l->out.state);
    if (want != 0 && zxid < want) {
        return text_fail(&l->text, CONCLAVE_EINVAL,
                         "the files end at zxid 0x%" PRIx64 ", before the one that is wanted",
                         (uint64_t)zxid);
    }
    if (want != 0 && zxid > want) {
        return text_fail(&l->text, CONCLAVE_EINVAL,
                         "there was no state of exactly that zxid; the next one is 0x%" PRIx64,
                         (uint64_t)zxid);
    }
    return 0;
}

int backup_load(const struct backup_load_options *options, struct backup_loaded *ret,
                char **ret_text)
{
    struct load l = {.options = options, .first_header = true};
    int rc =
        backup_check_files(options->files, options->count, &l.out.header, &l.out.bytes, ret_text);
    if (rc != 0) {
        return rc;
    }
    const struct backup_header header = l.out.header;
    uint64_t bytes = l.out.bytes;
    random_bytes(&l.key, sizeof l.key);
    effects_init(&l.effects);
    replacement_pieces_init(&l.pieces);
    buf_init(&l.content, 0);
    buf_init(&l.configuration, 0);
    for (size_t i = 0; rc == 0 && i < options->count; i++) {
        rc = load_file(&l, options->files[i], load_record);
    }
    rc = rc == LOAD_STOPPED ? 0 : rc;
    rc = rc == 0 ? load_judge(&l) : rc;
    l.out.header = header;
    l.out.bytes = bytes;
    effects_finish(&l.effects);
    replacement_pieces_finish(&l.pieces);
    buf_finish(&l.content);
    buf_finish(&l.configuration);
    *ret_text = l.text;
    if (rc != 0) {
        backup_loaded_finish(&l.out);
        return rc;
    }
    *ret = l.out;
    return 0;
}

void backup_loaded_finish(struct backup_loaded *l)
{
    state_destroy(l->state);
    l->state = NULL;
}
