#include "replication/disk/log_scan.h"

#include "base/buf.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scan_segment {
    uint64_t sequence;
    int fd;
    uint64_t size;
    struct segment_header header;
};

/* A frame that replaces entries. */
struct scan_cut {
    uint64_t sequence; /* of its segment */
    uint64_t offset;
    uint64_t index;    /* replaces from here on */
    uint64_t smallest; /* index of this cut and all later ones */
};

struct log_scan {
    const struct file_ops *ops;
    const char *dir; /* borrowed */
    struct log_scan_end end;
    uint64_t next; /* index of the next entry that is returned */
    struct scan_segment *segments;
    size_t n_segments;
    struct scan_cut *cuts;
    size_t n_cuts;
    size_t cap_cuts;

    size_t at;         /* segment that is read */
    uint64_t position; /* offset of its next frame */
    uint64_t chain;    /* checksum of the last frame */
    size_t cut;        /* the first cut that is not behind */
    struct window window;
    struct segment_frame frame; /* entries of it that were not returned; count 0: none */
    uint64_t frame_index;       /* of its next entry */
};

static atomic_uint open_scans;

bool log_scan_active(void)
{
    return atomic_load(&open_scans) > 0;
}

struct scan_listing {
    uint64_t *sequences;
    size_t n;
    size_t cap;
    uint64_t last; /* no later ones */
    bool failed;
};

static void scan_add_name(void *arg, const char *name)
{
    struct scan_listing *l = arg;
    uint64_t number;
    int end = 0;
    /* NOLINTNEXTLINE(cert-err34-c): our own names; others are ignored */
    if (sscanf(name, "%" SCNu64 ".log%n", &number, &end) != 1 || end <= 4 || name[end] != '\0' ||
        number > l->last) {
        return;
    }
    if (!array_room(&l->sequences, l->n, &l->cap, sizeof *l->sequences)) {
        l->failed = true;
        return;
    }
    l->sequences[l->n++] = number;
}

/* Descending. */
static int compare_sequences(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

static int scan_damaged(const struct log_scan *s, const struct scan_segment *g, uint64_t offset,
                        struct error_text *problem)
{
    return error_text_set(problem, CONCLAVE_ECORRUPT,
                          "the log segment %s/log/%016" PRIu64 ".log is damaged at offset %" PRIu64,
                          s->dir, g->sequence, offset);
}

static int scan_open_segment(struct log_scan *s, uint64_t sequence, const uint8_t *cluster,
                             struct scan_segment *g, struct error_text *problem)
{
    uint8_t block[SEGMENT_HEADER_SIZE];
    const struct file_ops *ops = s->ops;
    char *path = path_make("%s/log/%016" PRIu64 ".log", s->dir, sequence);
    int rc = 0;
    *g = (struct scan_segment){.sequence = sequence, .fd = -1};
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    g->fd = ops->open(ops->ctx, path, FILE_READ);
    int64_t size = g->fd < 0 ? g->fd : ops->size(ops->ctx, g->fd);
    int64_t n = size < 0 ? size : ops->read(ops->ctx, g->fd, block, sizeof block, 0);
    if (g->fd == -ENOENT) {
        rc = error_text_set(problem, CONCLAVE_EBUSY, "%s was removed meanwhile", path);
    } else if (n < 0) {
        rc = error_text_file(problem, (int)n, "cannot read", path);
    } else if ((size_t)n < sizeof block || !segment_header_decode(block, &g->header) ||
               g->header.sequence != sequence ||
               memcmp(g->header.cluster, cluster, FORMAT_CLUSTER_SIZE) != 0) {
        rc = scan_damaged(s, g, 0, problem);
    }
    g->size = size < 0 ? 0 : (uint64_t)size;
    if (rc != 0 && g->fd >= 0) {
        ops->close(ops->ctx, g->fd);
    }
    free(path);
    return rc;
}

/* Opens from the end back to the segment in which `from` is. They are in s->segments, newest first. */
static int scan_open_segments(struct log_scan *s, const struct scan_listing *l,
                              const uint8_t *cluster, struct error_text *problem)
{
    for (size_t i = 0; i < l->n; i++) {
        if (s->n_segments == LOG_SCAN_SEGMENTS_MAX) {
            return error_text_set(problem, CONCLAVE_ETOOBIG,
                                  "the log from entry %" PRIu64 " on has more than %d segments",
                                  s->next, LOG_SCAN_SEGMENTS_MAX);
        }
        if (l->sequences[i] != s->end.segment - i) {
            break; /* there is a gap: older files are leftovers */
        }
        int rc =
            scan_open_segment(s, l->sequences[i], cluster, &s->segments[s->n_segments], problem);
        if (rc != 0) {
            return rc;
        }
        if (s->segments[s->n_segments++].header.first_index <= s->next) {
            return 0;
        }
    }
    return error_text_set(problem, CONCLAVE_NO_NODE,
                          "the log does not hold entry %" PRIu64 " any more", s->next);
}

static int scan_list(struct log_scan *s, const uint8_t *cluster, struct error_text *problem)
{
    struct scan_listing l = {.last = s->end.segment};
    char *folder = path_make("%s/log", s->dir);
    int err = folder == NULL ? -ENOMEM : s->ops->list(s->ops->ctx, folder, scan_add_name, &l);
    int rc = err == 0 && !l.failed ? 0
             : l.failed            ? CONCLAVE_ENOMEM
                                   : error_text_file(problem, err, "cannot list", folder);
    free(folder);
    if (rc == 0) {
        qsort(l.sequences, l.n, sizeof *l.sequences, compare_sequences);
        s->segments = calloc(l.n + 1, sizeof *s->segments);
        rc = s->segments != NULL ? scan_open_segments(s, &l, cluster, problem) : CONCLAVE_ENOMEM;
    }
    free(l.sequences);
    for (size_t i = 0; i < s->n_segments / 2; i++) { /* oldest first */
        struct scan_segment other = s->segments[s->n_segments - 1 - i];
        s->segments[s->n_segments - 1 - i] = s->segments[i];
        s->segments[i] = other;
    }
    return rc;
}

static bool scan_is_last(const struct log_scan *s, size_t segment)
{
    return segment + 1 == s->n_segments;
}

/* Whether the frame before `position` of this segment has the last entry. If that is empty, as a new leader's barrier is, its
 * payload may be where the frame ends. */
static bool scan_is_complete(const struct log_scan *s, size_t segment, uint64_t position)
{
    return scan_is_last(s, segment) && position >= s->end.offset;
}

static int scan_add_cut(struct log_scan *s, const struct scan_cut *cut)
{
    if (!array_room(&s->cuts, s->n_cuts, &s->cap_cuts, sizeof *s->cuts)) {
        return CONCLAVE_ENOMEM;
    }
    s->cuts[s->n_cuts++] = *cut;
    return 0;
}

/* The first pass over one segment: only headers. */
static int scan_find_cuts_of(struct log_scan *s, size_t i, uint64_t *last,
                             struct error_text *problem)
{
    const struct scan_segment *g = &s->segments[i];
    uint64_t position = SEGMENT_HEADER_SIZE;
    int rc = 0;
    window_finish(&s->window);
    window_init(&s->window, s->ops, g->fd, g->size);
    while (rc == 0 && !scan_is_complete(s, i, position) &&
           position + FRAME_HEADER_SIZE <= g->size) {
        const uint8_t *header;
        int err = window_read(&s->window, position, FRAME_HEADER_SIZE, &header);
        if (err != 0) {
            return error_text_file(problem, err, "cannot read the log in", s->dir);
        }
        struct segment_place place;
        if (!frame_place(header, g->header.salt, &place) || place.size > g->size - position) {
            break; /* the rest of the segment is unused */
        }
        if (place.index <= *last) {
            rc = scan_add_cut(s, &(struct scan_cut){.sequence = g->sequence,
                                                    .offset = position,
                                                    .index = place.index});
        }
        *last = place.index + place.count - 1;
        position += place.size;
    }
    return rc == 0 && scan_is_last(s, i) && !scan_is_complete(s, i, position)
               ? scan_damaged(s, g, position, problem)
               : rc;
}

static int scan_find_cuts(struct log_scan *s, struct error_text *problem)
{
    uint64_t last = s->segments[0].header.first_index - 1;
    for (size_t i = 0; i < s->n_segments; i++) {
        int rc = scan_find_cuts_of(s, i, &last, problem);
        if (rc != 0) {
            return rc;
        }
    }
    uint64_t smallest = UINT64_MAX;
    for (size_t i = s->n_cuts; i > 0; i--) {
        smallest = s->cuts[i - 1].index < smallest ? s->cuts[i - 1].index : smallest;
        s->cuts[i - 1].smallest = smallest;
    }
    return 0;
}

static void scan_begin_segment(struct log_scan *s, size_t i)
{
    const struct scan_segment *g = &s->segments[i];
    s->at = i;
    s->position = SEGMENT_HEADER_SIZE;
    s->chain = g->header.checksum;
    s->frame.count = 0;
    window_finish(&s->window);
    window_init(&s->window, s->ops, g->fd, g->size);
}

int log_scan_open(struct log_scan **ret, const struct file_ops *ops, const char *dir,
                  const uint8_t cluster[FORMAT_CLUSTER_SIZE], uint64_t from,
                  const struct log_scan_end *end, struct error_text *problem)
{
    assert(from <= end->index && from > 0);
    struct log_scan *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return CONCLAVE_ENOMEM;
    }
    atomic_fetch_add(&open_scans, 1); /* before the files are opened */
    s->ops = ops;
    s->dir = dir;
    s->end = *end;
    s->next = from;
    window_init(&s->window, ops, -1, 0);
    int rc = scan_list(s, cluster, problem);
    if (rc == 0) {
        rc = scan_find_cuts(s, problem);
    }
    if (rc == 0) {
        scan_begin_segment(s, 0);
        *ret = s;
    } else {
        log_scan_close(s);
    }
    return rc;
}

void log_scan_close(struct log_scan *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < s->n_segments; i++) {
        s->ops->close(s->ops->ctx, s->segments[i].fd);
    }
    window_finish(&s->window);
    free(s->segments);
    free(s->cuts);
    free(s);
    atomic_fetch_sub(&open_scans, 1);
}

/* Reads the next frame. 1; 0: the segment has no more; or an error. */
static int scan_frame(struct log_scan *s, struct error_text *problem)
{
    const struct scan_segment *g = &s->segments[s->at];
    const uint8_t *data;
    struct segment_place place;
    if (scan_is_complete(s, s->at, s->position) || s->position + FRAME_HEADER_SIZE > g->size) {
        return 0;
    }
    int err = window_read(&s->window, s->position, FRAME_HEADER_SIZE, &data);
    if (err == 0 &&
        (!frame_place(data, g->header.salt, &place) || place.size > g->size - s->position)) {
        return 0;
    }
    if (err == 0) {
        err = window_read(&s->window, s->position, place.size, &data);
    }
    if (err != 0) {
        return error_text_file(problem, err, "cannot read the log in", s->dir);
    }
    if (!frame_decode(data, place.size, g->header.salt, &s->frame) ||
        s->frame.previous != s->chain) {
        return scan_damaged(s, g, s->position, problem);
    }
    while (s->cut < s->n_cuts &&
           (s->cuts[s->cut].sequence < g->sequence ||
            (s->cuts[s->cut].sequence == g->sequence && s->cuts[s->cut].offset <= s->position))) {
        s->cut++;
    }
    s->chain = s->frame.checksum;
    s->frame_index = s->frame.index;
    s->position += place.size;
    return 1;
}

/* Goes on to the next segment. 1; 0: that was the last one; or an error. */
static int scan_next_segment(struct log_scan *s, struct error_text *problem)
{
    if (scan_is_last(s, s->at)) {
        return 0;
    }
    if (s->segments[s->at + 1].header.previous != s->chain) {
        return scan_damaged(s, &s->segments[s->at], s->position, problem);
    }
    scan_begin_segment(s, s->at + 1);
    return 1;
}

/* Takes entries out of the frame until one is wanted. 1, 0: none is left, or an error. */
static int scan_entry(struct log_scan *s, struct log_scan_entry *ret, struct error_text *problem)
{
    struct frame_entry entry;
    uint64_t replaced = s->cut < s->n_cuts ? s->cuts[s->cut].smallest : UINT64_MAX;
    while (s->frame.count > 0) {
        if (frame_next(&s->frame, &entry) != 1) {
            return scan_damaged(s, &s->segments[s->at], s->position, problem);
        }
        uint64_t index = s->frame_index++;
        if (index == s->next && index < replaced) {
            s->next++;
            *ret = (struct log_scan_entry){index, entry.term, entry.kind,
                                           slice_make(entry.payload, entry.length)};
            return 1;
        }
    }
    return 0;
}

int log_scan_next(struct log_scan *s, struct log_scan_entry *ret, struct error_text *problem)
{
    while (s->next <= s->end.index) {
        int rc = scan_entry(s, ret, problem);
        if (rc == 0) {
            rc = scan_frame(s, problem);
            rc = rc == 0 ? scan_next_segment(s, problem) : rc == 1 ? 2 : rc;
            if (rc == 0) {
                return scan_damaged(s, &s->segments[s->at], s->position, problem);
            }
        } else if (rc == 1) {
            return 1;
        }
        if (rc < 0) {
            return rc;
        }
    }
    return 0;
}
