#include "replication/disk/folder_check.h"

#include "replication/disk/damage.h"
#include "replication/disk/data_folder.h"
#include "replication/disk/segment.h"
#include "replication/disk/snapshot_file.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

enum {
    READ_AGAIN = 4,     /* a segment that a server may just be writing or removing */
    READ_AGAIN_MS = 30, /* time between these */
};

struct folder_run {
    const char *dir;
    const struct file_ops *ops;
    const struct folder_listener *told;
    struct folder_facts *facts;
    uint64_t chain;  /* checksum of the last frame of the segments so far */
    bool have_chain; /* there is one */
    int error;
};

/* What one reading of a segment found. */
struct segment_reading {
    struct segment_header header;
    struct window window;
    uint64_t position;
    uint64_t chain;
    uint64_t first; /* entries; 0: none */
    uint64_t last;
    uint64_t first_term;
    uint64_t last_term;
    const char *what; /* NULL: no fault */
    uint64_t offset;
    bool gone; /* there is no such file */
    bool more; /* good frames follow the fault: reading can go on at `position` */
    bool torn;
    int io; /* negative errno */
};

static void fault_found(struct folder_run *r, enum folder_fault_kind kind, const char *path,
                        uint64_t offset, const char *what)
{
    struct folder_fault fault = {kind, path, offset, what};
    r->told->fault(r->told->ctx, &fault);
}

static void wait_a_little(void)
{
    struct timespec t = {.tv_nsec = READ_AGAIN_MS * 1000000L};
    nanosleep(&t, NULL);
}

/* The log */

static void segment_fault(struct segment_reading *s, uint64_t offset, const char *what)
{
    s->what = what;
    s->offset = offset;
}

static bool segment_begin(const struct folder_run *r, struct segment_reading *s, const char *path,
                          uint64_t sequence)
{
    const uint8_t *block;
    int fd = r->ops->open(r->ops->ctx, path, FILE_READ);
    int64_t size = fd < 0 ? fd : r->ops->size(r->ops->ctx, fd);
    window_init(&s->window, r->ops, fd < 0 ? -1 : fd, size < 0 ? 0 : (uint64_t)size);
    if (size < 0) {
        s->gone = fd == -ENOENT;
        s->io = s->gone ? 0 : (int)size;
        return false;
    }
    if (size < SEGMENT_HEADER_SIZE) {
        segment_fault(s, 0, "it is shorter than its header");
        return false;
    }
    s->io = window_read(&s->window, 0, SEGMENT_HEADER_SIZE, &block);
    if (s->io != 0) {
        return false;
    }
    if (!segment_header_decode(block, &s->header)) {
        segment_fault(s, 0, "its header has a wrong checksum");
    } else if (memcmp(s->header.cluster, r->facts->marker.cluster, FORMAT_CLUSTER_SIZE) != 0) {
        segment_fault(s, 16, "it belongs to another cluster");
    } else if (s->header.sequence != sequence) {
        segment_fault(s, 32, "its name belongs to another segment");
    } else if (r->have_chain && s->header.previous != r->chain) {
        segment_fault(s, 56, "the segment before it ends too early");
    }
    s->position = SEGMENT_HEADER_SIZE;
    s->chain = s->header.checksum;
    return s->what == NULL;
}

/* 1: a good frame; 0: none; or a negative errno. */
static int frame_at(struct segment_reading *s, uint64_t offset, struct segment_frame *ret)
{
    const uint8_t *data;
    if (offset + FRAME_HEADER_SIZE > s->window.size) {
        return 0;
    }
    int err = window_read(&s->window, offset, FRAME_HEADER_SIZE, &data);
    size_t size = err == 0 ? frame_size(data) : 0;
    if (size == 0 || size > s->window.size - offset || !frame_header_check(data, s->header.salt)) {
        return err;
    }
    err = window_read(&s->window, offset, size, &data);
    return err != 0 ? err : frame_decode(data, size, s->header.salt, ret) ? 1 : 0;
}

static bool entries_are_good(struct segment_reading *s, const struct segment_frame *frame)
{
    struct segment_frame f = *frame; /* frame_next takes it apart */
    struct frame_entry entry;
    uint32_t count = 0;
    int rv;
    while ((rv = frame_next(&f, &entry)) == 1) {
        count++;
        if (entry.term == 0 || entry.kind < ENTRY_COMMAND || entry.kind > ENTRY_CONFIGURATION) {
            return false;
        }
        s->first_term = s->first_term == 0 ? entry.term : s->first_term;
        s->last_term = entry.term;
    }
    return rv == 0 && count == frame->count;
}

/* Good frames from the position on. `chain` is that of the frame before it; after damage it is unknown, and any will do. */
static void segment_frames(struct segment_reading *s, bool chained)
{
    struct segment_frame f = {0};
    int rv;
    while ((rv = frame_at(s, s->position, &f)) == 1 && (f.previous == s->chain || !chained)) {
        uint64_t size = FRAME_HEADER_SIZE + (uint64_t)f.length;
        chained = true;
        if (!entries_are_good(s, &f)) {
            segment_fault(s, s->position, "a frame does not consist of entries");
            s->position += size;
            s->chain = f.checksum;
            s->more = true;
            return;
        }
        if (f.count > 0) {
            s->first = s->first == 0 ? f.index : s->first;
            s->last = f.index + f.count - 1;
        }
        s->chain = f.checksum;
        s->position += size;
    }
    s->io = rv < 0 ? rv : 0;
}

/* What follows the last good frame. Only the last segment may end with a frame that was never complete. */
static void segment_tail(struct segment_reading *s, bool last)
{
    struct segment_frame f = {0};
    if (last && s->window.size < s->header.size) {
        segment_fault(s, s->window.size, "the file was cut short");
        return;
    }
    for (uint64_t at = s->position; at < s->window.size; at += 8) {
        int rv = window_find_frame(&s->window, &at);
        rv = rv == 0 ? frame_at(s, at, &f) : rv;
        if (rv < 0) {
            s->io = rv;
            return;
        }
        if (rv == 1) {
            segment_fault(s, s->position, "a frame is bad, but good ones follow");
            s->position = at;
            s->more = true;
            return;
        }
    }
    if (last && s->position + FRAME_HEADER_SIZE <= s->window.size) {
        const uint8_t *header;
        s->io = window_read(&s->window, s->position, FRAME_HEADER_SIZE, &header);
        s->torn = s->io == 0 && get_le64(header + 16) == s->chain && frame_size(header) != 0;
    }
}

static void segment_scan(struct segment_reading *s, bool last, bool chained)
{
    segment_frames(s, chained);
    if (s->what == NULL && s->io == 0) {
        segment_tail(s, last);
    }
}

static void segment_open(const struct folder_run *r, struct segment_reading *s, const char *path,
                         uint64_t sequence, bool last)
{
    *s = (struct segment_reading){0};
    if (segment_begin(r, s, path, sequence)) {
        segment_scan(s, last, true);
    }
}

static void segment_close(const struct folder_run *r, struct segment_reading *s)
{
    if (s->window.fd >= 0) {
        r->ops->close(r->ops->ctx, s->window.fd);
    }
    window_finish(&s->window);
}

/* Whether a server dropped the segment since the metadata were read; reads them again. */
static bool segment_was_dropped(struct folder_run *r, uint64_t sequence)
{
    struct error_text ignored = {NULL};
    struct metadata now;
    bool known = metadata_read(r->ops, r->dir, &now, &ignored) == 0;
    error_text_finish(&ignored);
    return known && sequence < now.first_segment;
}

static void take_segment(struct folder_run *r, const struct segment_reading *s, const char *path,
                         bool last, bool damaged)
{
    struct folder_facts *f = r->facts;
    const struct folder_file file = {
        .damaged = damaged,
        .path = path,
        .bytes = s->window.size,
        .first_index = s->first,
        .last_index = s->last,
        .first_term = s->first_term,
        .last_term = s->last_term,
    };
    f->segments++;
    f->log_bytes += s->window.size;
    f->first_index = f->first_index == 0 ? s->first : f->first_index;
    f->last_index = s->last != 0 ? s->last : f->last_index;
    f->end_offset = last ? s->position : 0;
    r->chain = s->chain;
    r->have_chain = !last && !damaged; /* after damage the next one is judged by itself */
    if (r->told->file != NULL) {
        r->told->file(r->told->ctx, &file);
    }
}

/* Tells what is wrong with the segment, and reads on behind it. Whether anything was. */
static bool tell_segment(struct folder_run *r, struct segment_reading *s, const char *path,
                         bool last)
{
    bool damaged = s->what != NULL || s->gone || s->io != 0;
    while (s->what != NULL) {
        fault_found(r, FOLDER_FAULT_LOG, path, s->offset, s->what);
        s->what = NULL;
        if (s->more) {
            s->more = false;
            segment_scan(s, last, false);
        }
    }
    if (s->io != 0) {
        fault_found(r, FOLDER_FAULT_IO, path, 0, strerror(-s->io));
    } else if (s->gone) {
        fault_found(r, FOLDER_FAULT_LOG, path, 0, "it is missing");
    } else if (s->torn) {
        fault_found(r, FOLDER_FAULT_TORN, path, s->position, "the last write was never complete");
    }
    return damaged || s->io != 0;
}

static void check_segment(struct folder_run *r, uint64_t sequence, bool last)
{
    struct segment_reading s;
    char *path = path_make("%s/log/%016" PRIu64 ".log", r->dir, sequence);
    if (path == NULL) {
        r->error = CONCLAVE_ENOMEM;
        return;
    }
    for (int i = 0; i < READ_AGAIN; i++) {
        segment_open(r, &s, path, sequence, last);
        if ((s.what == NULL && s.io == 0 && !s.gone && !s.torn) || i + 1 == READ_AGAIN) {
            break;
        }
        segment_close(r, &s);
        if (segment_was_dropped(r, sequence)) {
            r->have_chain = false;
            free(path);
            return;
        }
        wait_a_little();
    }
    bool damaged = tell_segment(r, &s, path, last);
    take_segment(r, &s, path, last, damaged);
    segment_close(r, &s);
    free(path);
}

/* Snapshots */

struct snapshot_names {
    uint64_t *indexes;
    size_t count;
    size_t cap;
    bool failed;
};

static void note_snapshot(void *arg, const char *name)
{
    struct snapshot_names *n = arg;
    uint64_t index;
    int end = 0;
    /* NOLINTNEXTLINE(cert-err34-c): our own names; others are ignored */
    if (sscanf(name, "%" SCNu64 ".snapshot%n", &index, &end) != 1 || end == 0 ||
        name[end] != '\0') {
        return;
    }
    if (!array_room(&n->indexes, n->count, &n->cap, sizeof *n->indexes)) {
        n->failed = true;
        return;
    }
    n->indexes[n->count++] = index;
}

static void tell_snapshot(struct folder_run *r, const struct snapshot_reader *reader,
                          const char *path)
{
    const struct folder_file file = {
        .snapshot = true,
        .path = path,
        .bytes = reader->map_len,
        .last_index = reader->meta.index,
        .last_term = reader->meta.term,
        .content = reader->content,
    };
    if (r->told->file != NULL) {
        r->told->file(r->told->ctx, &file);
    }
}

static void tell_bad_snapshot(struct folder_run *r, const char *path, uint64_t index)
{
    int fd = r->ops->open(r->ops->ctx, path, FILE_READ);
    int64_t size = fd < 0 ? 0 : r->ops->size(r->ops->ctx, fd);
    const struct folder_file file = {.snapshot = true,
                                     .damaged = true,
                                     .path = path,
                                     .bytes = size > 0 ? (uint64_t)size : 0,
                                     .last_index = index};
    if (fd >= 0) {
        r->ops->close(r->ops->ctx, fd);
    }
    if (r->told->file != NULL) {
        r->told->file(r->told->ctx, &file);
    }
}

static void check_snapshot(struct folder_run *r, uint64_t index)
{
    struct folder_facts *f = r->facts;
    struct snapshot_reader reader;
    struct error_text problem = {NULL};
    char *path = snapshot_path(r->dir, index);
    int rv = path == NULL ? CONCLAVE_ENOMEM
                          : snapshot_reader_open(&reader, r->ops, r->dir, index, f->marker.cluster,
                                                 &problem);
    if (rv == 0) {
        f->snapshots++;
        f->snapshot_bytes += reader.map_len;
        f->newest_snapshot = index > f->newest_snapshot ? index : f->newest_snapshot;
        tell_snapshot(r, &reader, path);
        snapshot_reader_close(&reader);
    } else if (rv == CONCLAVE_ENOMEM) {
        r->error = rv;
    } else if (rv == CONCLAVE_ECORRUPT || rv == CONCLAVE_EFOREIGN) {
        fault_found(r, FOLDER_FAULT_SNAPSHOT, path, 0,
                    "its checksum is wrong, or it is not complete");
        tell_bad_snapshot(r, path, index);
    } else if (rv != CONCLAVE_NO_NODE) { /* a server removes old ones at any time */
        fault_found(r, FOLDER_FAULT_IO, path, 0, error_text_of(&problem, rv));
    }
    error_text_finish(&problem);
    free(path);
}

static void check_snapshots(struct folder_run *r)
{
    struct snapshot_names names = {NULL};
    char *folder = path_make("%s/snapshot", r->dir);
    int err = folder == NULL ? -ENOMEM : r->ops->list(r->ops->ctx, folder, note_snapshot, &names);
    if (folder == NULL || names.failed) {
        r->error = CONCLAVE_ENOMEM;
    } else if (err != 0 && err != -ENOENT) {
        fault_found(r, FOLDER_FAULT_IO, folder, 0, strerror(-err));
    }
    for (size_t i = 0; i < names.count; i++) {
        check_snapshot(r, names.indexes[i]);
    }
    assert(r->facts->snapshots <= names.count);
    uint64_t wanted = r->facts->metadata.snapshot_index;
    if (err == 0 && wanted > 0 && r->facts->newest_snapshot < wanted && r->error == 0) {
        char *path = snapshot_path(r->dir, wanted);
        fault_found(r, FOLDER_FAULT_SNAPSHOT, path != NULL ? path : folder, 0,
                    "the newest snapshot is missing or damaged");
        free(path);
    }
    free(names.indexes);
    free(folder);
}

/* The folder */

static void note_aside(void *arg, const char *name)
{
    struct folder_run *r = arg;
    if (strncmp(name, DAMAGE_ASIDE, strlen(DAMAGE_ASIDE)) == 0) {
        char *path = path_make("%s/%s", r->dir, name);
        fault_found(r, FOLDER_FAULT_ASIDE, path != NULL ? path : r->dir, 0,
                    "damaged files were put aside here");
        free(path);
    }
}

static void note_nothing(void *arg, const char *name)
{
}

static bool folder_is_there(const struct folder_run *r)
{
    return r->ops->list(r->ops->ctx, r->dir, note_nothing, NULL) == 0;
}

/* Marker and metadata. False: the rest cannot be read. */
static bool check_identity(struct folder_run *r)
{
    struct folder_facts *f = r->facts;
    struct error_text problem = {NULL};
    int rv = marker_read(r->ops, r->dir, &f->marker, &problem);
    bool missing = rv == CONCLAVE_NO_NODE;
    if (missing && damage_is_ours(r->ops, r->dir)) {
        fault_found(r, FOLDER_FAULT_IDENTITY, r->dir, 0, "its file conclave.format is missing");
    } else if (missing && folder_is_there(r)) {
        error_text_finish(&problem);
        rv = data_folder_recognise(r->ops, r->dir, &problem);
        f->fresh = rv == 0;
        rv = rv == 0 ? CONCLAVE_NO_NODE : rv;
    } else if (missing || (rv == 0 && !f->marker.ready)) {
        f->fresh = true;
        rv = CONCLAVE_NO_NODE;
    } else if (rv == 0) {
        rv = metadata_read(r->ops, r->dir, &f->metadata, &problem);
        missing = rv == CONCLAVE_NO_NODE;
        if (missing) {
            fault_found(r, FOLDER_FAULT_IDENTITY, r->dir, 0, "its file metadata is missing");
        }
    }
    if (rv == CONCLAVE_ENOMEM) {
        r->error = rv;
    } else if (rv != 0 && rv != CONCLAVE_NO_NODE) {
        fault_found(r,
                    rv == CONCLAVE_EFOREIGN ? FOLDER_FAULT_FOREIGN
                    : rv == CONCLAVE_EIO    ? FOLDER_FAULT_IO
                                            : FOLDER_FAULT_IDENTITY,
                    r->dir, 0, error_text_of(&problem, rv));
    }
    error_text_finish(&problem);
    return rv == 0;
}

int folder_check(const char *dir, const struct file_ops *ops, const struct folder_listener *told,
                 struct folder_facts *ret)
{
    struct folder_run r = {
        .dir = dir, .ops = ops != NULL ? ops : file_ops_system(), .told = told, .facts = ret};
    *ret = (struct folder_facts){0};
    if (check_identity(&r)) {
        const struct metadata *m = &ret->metadata;
        uint64_t n = m->first_segment;
        assert(m->last_segment - n <= METADATA_SEGMENTS_MAX); /* metadata_read allows no more */
        for (; r.error == 0 && n <= m->last_segment; n++) {
            check_segment(&r, n, n == m->last_segment);
        }
        check_snapshots(&r);
    }
    (void)r.ops->list(r.ops->ctx, dir, note_aside, &r);
    return r.error;
}

long folder_check_owner(const char *dir)
{
    char line[256];
    struct stat st;
    long owner = 0;
    char *path = path_make("%s/lock", dir);
    bool there = path != NULL && stat(path, &st) == 0;
    free(path);
    FILE *locks = there ? fopen("/proc/locks", "re") : NULL;
    while (locks != NULL && owner == 0 && fgets(line, sizeof line, locks) != NULL) {
        long pid;
        unsigned major_number;
        unsigned minor_number;
        unsigned long long inode;
        /* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
        if (sscanf(line, "%*d: FLOCK %*s WRITE %ld %x:%x:%llu", &pid, &major_number, &minor_number,
                   &inode) == 4 &&
            inode == st.st_ino) {
            owner = pid;
        }
    }
    if (locks != NULL) {
        fclose(locks);
    }
    return owner;
}
