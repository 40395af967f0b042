/*
 * Reads the log at the start. Every segment that the metadata name must exist and continue the previous one, and every
 * frame must be correct. Only after the last good frame of the last segment there may be other bytes, and only if no
 * good frame follows them: they are the write that was in progress at a power cut, and it was never acknowledged. A
 * damaged segment is no loss if two good snapshots contain its entries: the log then begins after it.
 *
 * The log is synced before its content is used: a process that was killed between its write and its sync leaves frames
 * that the next power cut would take back.
 */
#include "replication/disk/journal.h"

#include "base/endian.h"
#include "replication/disk/entry_table.h"
#include "replication/disk/segment.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct segment_scan {
    struct journal *journal;
    struct journal_contents *out;
    uint64_t sequence;
    char *path;
    struct window window;
    struct segment_header header;
    uint64_t position; /* offset of the next frame */
    uint64_t chain;    /* checksum of the previous frame */
};

static int damage(struct segment_scan *s, uint64_t offset, const char *what)
{
    s->journal->damage = (struct journal_damage){s->sequence, offset, what};
    s->journal->error =
        error_text_set(&s->journal->problem, CONCLAVE_ECORRUPT,
                       "%s is damaged at offset %" PRIu64 ": %s. Restore the folder "
                       "from a backup",
                       s->path, offset, what);
    return s->journal->error;
}

static int missing(struct journal *journal, uint64_t sequence)
{
    char *path = journal_segment_path(journal, sequence);
    journal->damage = (struct journal_damage){sequence, 0, "it is missing"};
    journal->error = error_text_set(
        &journal->problem, CONCLAVE_ECORRUPT,
        "the log segment %s is missing: put it back, or restore the folder from a backup",
        path != NULL ? path : "(out of memory)");
    free(path);
    return journal->error;
}

void journal_contents_finish(struct journal_contents *c)
{
    free(c->refs);
    memset(c, 0, sizeof *c);
}

/* Opens the file and checks its header. *ret_found is false if the file does not exist. */
static int scan_open(struct segment_scan *s, struct journal *journal, uint64_t sequence,
                     bool *ret_found)
{
    const struct file_ops *ops = journal->ops;
    const uint8_t *block;
    memset(s, 0, sizeof *s);
    s->journal = journal;
    s->sequence = sequence;
    *ret_found = false;
    s->path = journal_segment_path(journal, sequence);
    if (s->path == NULL) {
        return journal_fail(journal, -ENOMEM, "cannot open the log segment", NULL);
    }
    int fd = ops->open(ops->ctx, s->path, FILE_WRITE);
    if (fd < 0) {
        window_init(&s->window, ops, -1, 0);
        return fd == -ENOENT ? 0
                             : journal_fail(journal, fd, "cannot open the log segment", s->path);
    }
    int64_t size = ops->size(ops->ctx, fd);
    window_init(&s->window, ops, fd, size < 0 ? 0 : (uint64_t)size);
    if (size < 0) {
        return journal_fail(journal, (int)size, "cannot read the log segment", s->path);
    }
    if (size < SEGMENT_HEADER_SIZE) {
        return damage(s, 0, "it is shorter than its header");
    }
    int err = window_read(&s->window, 0, SEGMENT_HEADER_SIZE, &block);
    if (err != 0) {
        return journal_fail(journal, err, "cannot read the log segment", s->path);
    }
    if (!segment_header_decode(block, &s->header)) {
        return damage(s, 0, "its header has a wrong checksum");
    }
    if (memcmp(s->header.cluster, journal->cluster, FORMAT_CLUSTER_SIZE) != 0) {
        int rv = damage(s, 16, "it belongs to another cluster");
        journal->damage.segment =
            0; /* 0, because a left-out segment is removed, and this one is not ours */
        return rv;
    }
    if (s->header.sequence != sequence) {
        return damage(s, 32, "its name belongs to another segment");
    }
    s->position = SEGMENT_HEADER_SIZE;
    s->chain = s->header.checksum;
    *ret_found = true;
    return 0;
}

static void scan_close(struct segment_scan *s)
{
    if (s->window.fd >= 0) {
        s->journal->ops->close(s->journal->ops->ctx, s->window.fd);
    }
    window_finish(&s->window);
    free(s->path);
}

static int add_ref(struct journal_contents *c, const struct journal_ref *ref)
{
    if (!array_room(&c->refs, c->count, &c->cap, sizeof *c->refs)) {
        return -ENOMEM;
    }
    assert(c->count == 0 || ref->segment >= c->refs[c->count - 1].segment);
    c->refs[c->count++] = *ref;
    return 0;
}

/* Adds the entries of a good frame, and first cuts the log if the frame says so. */
static int take_frame(struct segment_scan *s, struct segment_frame *f)
{
    struct journal_contents *c = s->out;
    const uint8_t *body = f->body;
    struct frame_entry entry;
    int rv;
    if (f->index > c->first_index + c->count || f->index == 0) {
        return damage(s, s->position, "entries are missing before it");
    }
    if (f->index < c->first_index) {
        /* It replaced entries of segments that are removed by now. */
        c->first_index = f->index;
    }
    c->count = (size_t)(f->index - c->first_index);
    c->sealed = f->count == 0;
    uint64_t at = s->position + FRAME_HEADER_SIZE;
    while ((rv = frame_next(f, &entry)) == 1) {
        struct journal_ref ref = {
            .term = entry.term,
            .offset = at + (uint64_t)(entry.payload - body),
            .length = entry.length,
            .kind = entry.kind,
            .hash = entry_table_hash(slice_make(entry.payload, entry.length)),
            .segment = s->sequence,
        };
        if (entry.term == 0 || entry.kind < ENTRY_COMMAND || entry.kind > ENTRY_CONFIGURATION) {
            return damage(s, ref.offset, "an entry has no valid term and kind");
        }
        if (add_ref(c, &ref) != 0) {
            return journal_fail(s->journal, -ENOMEM, "cannot read the log segment", s->path);
        }
    }
    return rv == 0 ? 0 : damage(s, s->position, "a frame does not consist of entries");
}

/* Reads the frame at offset, if it is a good one of this segment. 1, 0, or an error. */
static int read_frame(struct segment_scan *s, uint64_t offset, struct segment_frame *ret)
{
    const uint8_t *data;
    if (offset + FRAME_HEADER_SIZE > s->window.size) {
        return 0;
    }
    int err = window_read(&s->window, offset, FRAME_HEADER_SIZE, &data);
    size_t size = err == 0 ? frame_size(data) : 0;
    if (err == 0 && (size == 0 || size > s->window.size - offset ||
                     !frame_header_check(data, s->header.salt))) {
        return 0;
    }
    if (err == 0) {
        err = window_read(&s->window, offset, size, &data);
    }
    if (err != 0) {
        return journal_fail(s->journal, err, "cannot read the log segment", s->path);
    }
    return frame_decode(data, size, s->header.salt, ret) ? 1 : 0;
}

/* Reads frames until one is bad or does not continue the previous one. */
static int scan_frames(struct segment_scan *s)
{
    struct segment_frame f = {0};
    int rv;
    while ((rv = read_frame(s, s->position, &f)) == 1 && f.previous == s->chain) {
        uint64_t size = FRAME_HEADER_SIZE + (uint64_t)f.length;
        uint64_t checksum = f.checksum;
        rv = take_frame(s, &f);
        if (rv != 0) {
            return rv;
        }
        s->chain = checksum;
        s->position += size;
    }
    return rv < 0 ? rv : 0;
}

/* Whether the bytes at the end were meant as the next frame: they are not zeroes, and in a recycled segment not its
 * former content. */
static bool looks_begun(const struct segment_scan *s, const uint8_t header[FRAME_HEADER_SIZE])
{
    static const uint8_t zeroes[FRAME_HEADER_SIZE];
    uint64_t next = s->out->first_index + s->out->count;
    if ((s->header.flags & SEGMENT_RECYCLED) != 0) {
        return get_le64(header + 16) == s->chain ||
               (get_le32(header + 8) == FRAME_MAGIC && get_le64(header + 24) == next);
    }
    return memcmp(header, zeroes, sizeof zeroes) != 0;
}

/* Decides what follows the last good frame of the last segment: nothing, a torn frame, or damage. */
static int judge_tail(struct segment_scan *s)
{
    struct journal_contents *c = s->out;
    uint64_t size = s->window.size;
    struct segment_frame f = {0};
    if (s->position + FRAME_HEADER_SIZE <= size) {
        const uint8_t *header;
        int err = window_read(&s->window, s->position, FRAME_HEADER_SIZE, &header);
        if (err != 0) {
            return journal_fail(s->journal, err, "cannot read the log segment", s->path);
        }
        if (looks_begun(s, header)) {
            size_t claimed = frame_size(header);
            c->cut_bytes = claimed != 0 ? claimed : FRAME_HEADER_SIZE;
            c->cut_offset = s->position;
            c->cut_segment = s->sequence;
        }
    }
    if (size < s->header.size &&
        (s->position + FRAME_HEADER_SIZE > size || s->position + c->cut_bytes > size)) {
        return damage(s, size, "the file was cut short");
    }
    /* Only the last write can be torn. A good frame after a bad one means that the disk damaged synced entries. */
    int rv = 0;
    for (uint64_t at = s->position; rv == 0 && at < size; at += 8) {
        int err = window_find_frame(&s->window, &at);
        rv = err == 0 ? read_frame(s, at, &f)
                      : journal_fail(s->journal, err, "cannot read the log segment", s->path);
    }
    return rv == 1 ? damage(s, s->position, "a frame is bad, but good ones follow") : rv;
}

/* Overwrites the rest of a torn frame, so that the next start cannot mistake it for a frame. */
static int wipe_tail(struct segment_scan *s)
{
    const struct file_ops *ops = s->journal->ops;
    uint64_t len = s->out->cut_bytes;
    if (len > s->window.size - s->position) {
        len = s->window.size - s->position;
    }
    uint8_t *zeroes = calloc(1, len > 0 ? (size_t)len : 1);
    int err = zeroes == NULL ? -ENOMEM : 0;
    if (err == 0 && len > 0) {
        err = ops->write(ops->ctx, s->window.fd, zeroes, (size_t)len, s->position);
    }
    free(zeroes);
    return err == 0 ? 0 : journal_fail(s->journal, err, "cannot cut the torn end of", s->path);
}

static int scan_segment(struct journal *journal, struct journal_contents *c, uint64_t sequence,
                        bool *ret_found)
{
    struct segment_scan s;
    int rv = scan_open(&s, journal, sequence, ret_found);
    if (rv != 0 || !*ret_found) {
        goto out;
    }
    s.out = c;
    if (journal->n_segments == 0) {
        c->first_index = s.header.first_index;
    } else if (s.header.previous != journal->chain) {
        /* The previous segment ends earlier than this one says, so the damage is there. */
        struct journal_segment *before = &journal->segments[journal->n_segments - 1];
        free(s.path);
        s.path = journal_segment_path(journal, before->sequence);
        s.sequence = before->sequence;
        rv = s.path == NULL
                 ? CONCLAVE_ENOMEM
                 : damage(&s, journal->position, "a frame is bad, but another segment follows");
        goto out;
    } else if (s.header.first_index != c->first_index + c->count) {
        rv = damage(&s, 40, "it does not continue the previous segment");
        goto out;
    }
    rv = scan_frames(&s);
    if (rv == 0) {
        rv = journal_add_segment(
            journal, &(struct journal_segment){sequence, s.header.first_index, s.window.size});
    }
    journal->position = s.position;
    journal->chain = s.chain;
    journal->salt = s.header.salt;
    if (rv == 0 && sequence >= journal->metadata.last_segment) {
        c->cut_bytes = 0;
        rv = judge_tail(&s);
    }
out:
    scan_close(&s);
    return rv;
}

struct segment_listing {
    struct journal *journal;
    uint64_t above; /* last segment that the metadata name */
    uint64_t found; /* highest segment after it, or 0 */
    int error;
};

static void sort_file(void *arg, const char *name)
{
    struct segment_listing *l = arg;
    struct journal *journal = l->journal;
    uint64_t number;
    int end = 0;
    char *path = path_make("%s/log/%s", journal->dir, name);
    if (path == NULL) {
        l->error = -ENOMEM;
        return;
    }
    /* NOLINTBEGIN(cert-err34-c): our own names; others are ignored */
    if (sscanf(name, "%" SCNu64 ".log%n", &number, &end) == 1 && name[end] == '\0' && end > 4) {
        if (number > l->above) {
            l->found = number > l->found ? number : l->found;
        } else if (number < journal->metadata.first_segment) {
            l->error = journal->ops->remove(journal->ops->ctx, path);
        }
    } else if (sscanf(name, "spare-%" SCNu64 "%n", &number, &end) == 1 && name[end] == '\0') {
        int fd = journal->ops->open(journal->ops->ctx, path, FILE_READ);
        int64_t size = fd < 0 ? fd : journal->ops->size(journal->ops->ctx, fd);
        if (fd >= 0) {
            journal->ops->close(journal->ops->ctx, fd);
        }
        if (size >= SEGMENT_HEADER_SIZE && journal->n_spares < JOURNAL_SPARES_MAX) {
            journal->spares[journal->n_spares++] = (struct journal_spare){number, (uint64_t)size};
            journal->next_spare = number >= journal->next_spare ? number + 1 : journal->next_spare;
        } else {
            l->error = size < 0 ? (int)size : journal->ops->remove(journal->ops->ctx, path);
        }
    } else if (strcmp(name, "segment.new") == 0 || strcmp(name, "spare.new") == 0) {
        l->error = journal->ops->remove(journal->ops->ctx, path);
    }
    /* NOLINTEND(cert-err34-c) */
    free(path);
}

/* Makes file names durable that were found in the folder. */
static int sync_names(struct journal *journal)
{
    const struct file_ops *ops = journal->ops;
    char *folder = path_make("%s/log", journal->dir);
    int err = folder == NULL ? -ENOMEM : ops->sync_folder(ops->ctx, folder);
    int rv = err == 0 ? 0 : journal_fail(journal, err, "cannot sync the folder", folder);
    free(folder);
    return rv;
}

/* Opens the last segment for writing, and makes the log that was read durable. */
static int journal_recover_settle(struct journal *journal, struct journal_contents *c)
{
    struct segment_scan s;
    bool found;
    assert(journal->n_segments > 0 && journal->fd < 0);
    int rv = scan_open(&s, journal, journal->segments[journal->n_segments - 1].sequence, &found);
    if (rv != 0) {
        goto out;
    }
    assert(found);
    s.out = c;
    s.position = journal->position;
    rv = wipe_tail(&s);
    if (rv == 0) {
        rv = journal_sync(journal, s.window.fd, s.path);
    }
    if (rv == 0) {
        rv = sync_names(journal);
    }
    if (rv == 0) {
        journal->fd = s.window.fd;
        s.window.fd = -1;
        journal->last_index = c->first_index + c->count - 1;
    }
out:
    scan_close(&s);
    return rv;
}

/* The index at which the first segment after `sequence` with a good header begins; 0: none. */
static uint64_t next_beginning(struct journal *journal, uint64_t sequence)
{
    /* scan_open replaces the error, so it is saved here. */
    struct error_text problem = journal->problem;
    struct journal_damage damage = journal->damage;
    uint64_t index = 0;
    int error = journal->error;
    journal->problem = (struct error_text){0};
    while (index == 0 && ++sequence <= journal->metadata.last_segment) {
        struct segment_scan s;
        bool found = false;
        if (scan_open(&s, journal, sequence, &found) == 0 && found) {
            index = s.header.first_index;
        }
        scan_close(&s);
    }
    error_text_finish(&journal->problem);
    journal->problem = problem;
    journal->damage = damage;
    journal->error = error;
    return index;
}

/* After damage: whether the log may begin after it. If so, forgets what was read so far. */
static bool leave_out(struct journal *journal, const struct journal_rescue *rescue,
                      struct journal_contents *c)
{
    uint64_t damaged = journal->damage.segment;
    uint64_t next = rescue != NULL && damaged != 0 ? next_beginning(journal, damaged) : 0;
    uint64_t covered = next != 0 ? rescue->covered(rescue->ctx) : 0;
    if (covered == 0 || next > covered + 1) {
        return false;
    }
    rescue->left_out(rescue->ctx, &journal->damage);
    error_text_finish(&journal->problem);
    journal->damage.segment = 0;
    journal->error = 0;
    journal->n_segments = 0;
    atomic_store(&journal->bytes, 0);
    c->count = 0;
    c->sealed = false;
    c->left_out = damaged;
    return true;
}

/* Reads the segments that the metadata name. */
static int scan_named(struct journal *journal, const struct journal_rescue *rescue,
                      struct journal_contents *c)
{
    int rv = 0;
    bool found;
    uint64_t sequence = journal->metadata.first_segment;
    while (rv == 0 && sequence <= journal->metadata.last_segment) {
        rv = scan_segment(journal, c, sequence, &found);
        if (rv == 0 && !found) {
            rv = missing(journal, sequence);
        }
        if (rv == CONCLAVE_ECORRUPT && leave_out(journal, rescue, c)) {
            sequence = c->left_out;
            rv = 0;
        }
        sequence++;
    }
    return rv;
}

int journal_drop_left_out(struct journal *journal, const struct journal_contents *c)
{
    uint64_t sequence = journal->metadata.first_segment;
    if (c->left_out < sequence) {
        return 0;
    }
    journal->metadata.first_segment = c->left_out + 1;
    journal->error =
        metadata_write(journal->ops, journal->dir, &journal->metadata, &journal->problem);
    for (; journal->error == 0 && sequence <= c->left_out; sequence++) {
        char *path = journal_segment_path(journal, sequence);
        int err = path == NULL ? -ENOMEM : journal->ops->remove(journal->ops->ctx, path);
        if (err != 0 && err != -ENOENT) {
            journal->error = journal_fail(journal, err, "cannot remove the log segment", path);
        }
        free(path);
    }
    return journal->error;
}

int journal_recover(struct journal *journal, const struct journal_rescue *rescue,
                    struct journal_contents *ret)
{
    bool found = true;
    memset(ret, 0, sizeof *ret);
    int rv = metadata_read(journal->ops, journal->dir, &journal->metadata, &journal->problem);
    if (rv != 0) {
        journal->error =
            rv == CONCLAVE_NO_NODE
                ? error_text_set(
                      &journal->problem, CONCLAVE_ECORRUPT,
                      "%s/%s is missing: put it back, or restore the folder from a backup",
                      journal->dir, METADATA_FILE)
                : rv;
        return journal->error;
    }
    struct metadata *m = &journal->metadata;
    uint64_t last = m->last_segment;
    struct segment_listing listing = {.journal = journal, .above = last};
    char *folder = path_make("%s/log", journal->dir);
    int err = folder == NULL ? -ENOMEM
                             : journal->ops->list(journal->ops->ctx, folder, sort_file, &listing);
    err = err == 0 ? listing.error : err;
    free(folder);
    if (err == -ENOENT) {
        return missing(journal, m->first_segment);
    }
    if (err != 0) {
        return journal_fail(journal, err, "cannot list the folder log in", journal->dir);
    }
    rv = scan_named(journal, rescue, ret);
    /* A crash may have come after the start of a segment and before the metadata named it. */
    if (rv == 0 && listing.found != 0) {
        rv = scan_segment(journal, ret, last + 1, &found);
        if (rv == 0 && (!found || listing.found > last + 1)) {
            rv = missing(journal, found ? last + 2 : last + 1);
        }
        if (rv == 0) {
            rv = sync_names(journal); /* before the metadata require the file */
        }
        if (rv == 0) {
            m->last_segment = last + 1;
            rv = metadata_write(journal->ops, journal->dir, m, &journal->problem);
        }
    }
    if (rv == 0) {
        rv = journal_recover_settle(journal, ret);
    }
    journal->error = rv;
    return rv;
}

int journal_read(struct journal *journal, const struct journal_contents *c, size_t from, size_t to,
                 int (*each)(void *arg, uint64_t index, const struct journal_ref *ref,
                             const uint8_t *payload),
                 void *arg)
{
    struct segment_scan s;
    bool open = false;
    int rv = 0;
    assert(from <= to && to <= c->count);
    for (size_t i = from; rv == 0 && i < to; i++) {
        const struct journal_ref *ref = &c->refs[i];
        const uint8_t *payload;
        if (open && s.sequence != ref->segment) {
            scan_close(&s);
            open = false;
        }
        if (!open) {
            bool found = false;
            rv = scan_open(&s, journal, ref->segment, &found);
            open = true;
            if (rv != 0 || !found) {
                rv = rv != 0 ? rv : missing(journal, ref->segment);
                break;
            }
        }
        int err = window_read(&s.window, ref->offset, ref->length, &payload);
        rv = err == 0 ? each(arg, c->first_index + i, ref, payload)
                      : journal_fail(journal, err, "cannot read the log segment", s.path);
    }
    if (open) {
        scan_close(&s);
    }
    return rv;
}

static void remove_file(void *arg, const char *name)
{
    struct segment_listing *l = arg;
    char *path = path_make("%s/log/%s", l->journal->dir, name);
    int rv = path == NULL ? -ENOMEM : l->journal->ops->remove(l->journal->ops->ctx, path);
    l->error = l->error != 0 ? l->error : rv;
    free(path);
}

int journal_create(struct journal *journal, struct buf *frame)
{
    const struct file_ops *ops = journal->ops;
    struct segment_listing listing = {.journal = journal};
    char *folder = path_make("%s/log", journal->dir);
    int err = folder == NULL ? -ENOMEM : ops->make_folder(ops->ctx, folder);
    if (err == 0) {
        err = ops->list(ops->ctx, folder, remove_file, &listing);
        err = err == 0 ? listing.error : err;
    }
    if (err == 0) {
        err = ops->sync_folder(ops->ctx, journal->dir);
    }
    int rv = err == 0 ? 0 : journal_fail(journal, err, "cannot create the folder", folder);
    free(folder);
    if (rv == 0) {
        journal->metadata = (struct metadata){
            .term = frame != NULL ? 1 : 0, .first_segment = 1, .joining = frame == NULL};
        rv = frame != NULL ? journal_append(journal, frame, 1, 1) : journal_seal(journal);
    }
    return rv;
}
