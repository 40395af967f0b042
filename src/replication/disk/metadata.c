/*
 * Small text files with checksums. To check a file, its values are written again in memory and compared byte by byte,
 * so only our own spelling is accepted, and the checksum line covers the rest. Limit: a file is shorter than TEXT_MAX.
 */
#include "replication/disk/metadata.h"

#include "base/hex.h"
#include "base/map.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 512

/* Appends the checksum line; returns the whole length. */
static size_t add_checksum(char text[TEXT_MAX], int len)
{
    uint64_t sum = hash_bytes(text, (size_t)len);
    len += snprintf(text + len, TEXT_MAX - (size_t)len, "checksum %016" PRIx64 "\n", sum);
    assert(len > 0 && len < TEXT_MAX); /* nothing was cut */
    return (size_t)len;
}

int metadata_replace_file(const struct file_ops *ops, const char *dir, const char *name,
                          const void *text, size_t len, struct error_text *problem)
{
    char *path = path_make("%s/%s", dir, name);
    char *aside = path_make("%s/%s.new", dir, name);
    int rv = CONCLAVE_ENOMEM;
    if (path == NULL || aside == NULL) {
        goto out;
    }
    int fd = ops->open(ops->ctx, aside, FILE_REPLACE);
    if (fd < 0) {
        rv = error_text_file(problem, fd, "cannot create", aside);
        goto out;
    }
    int err = ops->write(ops->ctx, fd, text, len, 0);
    if (err == 0) {
        err = ops->sync(ops->ctx, fd);
    }
    ops->close(ops->ctx, fd);
    if (err == 0) {
        err = ops->rename(ops->ctx, aside, path);
    }
    if (err == 0) {
        err = ops->sync_folder(ops->ctx, dir);
    }
    rv = err == 0 ? 0 : error_text_file(problem, err, "cannot write", path);
out:
    free(path);
    free(aside);
    return rv;
}

static int read_file(const struct file_ops *ops, const char *dir, const char *name,
                     char text[TEXT_MAX + 1], size_t *ret_len, struct error_text *problem)
{
    char *path = path_make("%s/%s", dir, name);
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rv = 0;
    int fd = ops->open(ops->ctx, path, FILE_READ);
    if (fd == -ENOENT) {
        rv = error_text_set(problem, CONCLAVE_NO_NODE, "%s is missing", path);
    } else if (fd < 0) {
        rv = error_text_file(problem, fd, "cannot open", path);
    } else {
        int64_t n = ops->read(ops->ctx, fd, text, TEXT_MAX, 0);
        if (n < 0) {
            rv = error_text_file(problem, (int)n, "cannot read", path);
        } else {
            text[n] = '\0';
            *ret_len = (size_t)n;
        }
        ops->close(ops->ctx, fd);
    }
    free(path);
    return rv;
}

static int damaged(struct error_text *problem, const char *dir, const char *name)
{
    return error_text_set(
        problem, CONCLAVE_ECORRUPT,
        "%s/%s is damaged: it has a wrong checksum. Restore the folder from a backup", dir, name);
}

/* Whether the text ends with a correct checksum line, in any version of the format. */
static bool checksum_fits(const char *text, size_t len)
{
    char line[TEXT_MAX];
    const char *last = strstr(text, "\nchecksum ");
    if (last == NULL) {
        return false;
    }
    size_t before = (size_t)(last + 1 - text);
    memcpy(line, text, before);
    size_t whole = add_checksum(line, (int)before);
    return whole == len && memcmp(line, text, len) == 0;
}

static size_t marker_text(const struct marker *m, char text[TEXT_MAX])
{
    char hex[2 * FORMAT_CLUSTER_SIZE + 1];
    hex_encode(m->cluster, sizeof m->cluster, hex);
    int len =
        snprintf(text, TEXT_MAX,
                 "Conclave data folder\nversion %u\ncluster %s\nserver %" PRIu64 "\nready %s\n",
                 FORMAT_VERSION, hex, m->server_id, m->ready ? "yes" : "no");
    return add_checksum(text, len);
}

int marker_write(const struct file_ops *ops, const char *dir, const struct marker *m,
                 struct error_text *problem)
{
    char text[TEXT_MAX];
    size_t len = marker_text(m, text);
    return metadata_replace_file(ops, dir, FORMAT_FILE, text, len, problem);
}

static bool hex_decode(const char *hex, uint8_t out[FORMAT_CLUSTER_SIZE])
{
    for (size_t i = 0; i < FORMAT_CLUSTER_SIZE; i++) {
        unsigned byte;
        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) { /* NOLINT(cert-err34-c): two digits fit */
            return false;
        }
        out[i] = (uint8_t)byte;
    }
    return true;
}

int marker_read(const struct file_ops *ops, const char *dir, struct marker *ret,
                struct error_text *problem)
{
    char text[TEXT_MAX + 1];
    char again[TEXT_MAX];
    char hex[2 * FORMAT_CLUSTER_SIZE + 1] = "";
    char ready[4] = "";
    unsigned version = 0;
    size_t len = 0;
    struct marker m = {0};

    int rv = read_file(ops, dir, FORMAT_FILE, text, &len, problem);
    if (rv != 0) {
        return rv;
    }
    /* NOLINTNEXTLINE(cert-err34-c): a wrong value differs when it is written again */
    int n = sscanf(text,
                   "Conclave data folder\nversion %u\ncluster %32s\nserver %" SCNu64 "\nready %3s",
                   &version, hex, &m.server_id, ready);
    if (n >= 1 && version > FORMAT_VERSION && checksum_fits(text, len)) {
        return error_text_set(
            problem, CONCLAVE_EFOREIGN,
            "%s was written by a newer Conclave (format %u; this one knows %u): use that version",
            dir, version, FORMAT_VERSION);
    }
    m.ready = strcmp(ready, "yes") == 0;
    if (n != 4 || !hex_decode(hex, m.cluster) || marker_text(&m, again) != len ||
        memcmp(text, again, len) != 0) {
        return damaged(problem, dir, FORMAT_FILE);
    }
    *ret = m;
    return 0;
}

#define JOINING "joining 1\n"

static size_t metadata_text(const struct metadata *m, char text[TEXT_MAX])
{
    int len =
        snprintf(text, TEXT_MAX,
                 "Conclave metadata\nterm %" PRIu64 "\nvoted_for %" PRIu64
                 "\nfirst_segment %" PRIu64 "\nlast_segment %" PRIu64 "\nsnapshot %" PRIu64 "\n",
                 m->term, m->voted_for, m->first_segment, m->last_segment, m->snapshot_index);
    if (m->installing != 0) {
        len +=
            snprintf(text + len, TEXT_MAX - (size_t)len, "installing %" PRIu64 "\n", m->installing);
    }
    if (m->joining) {
        len += snprintf(text + len, TEXT_MAX - (size_t)len, JOINING);
    }
    return add_checksum(text, len);
}

int metadata_write(const struct file_ops *ops, const char *dir, const struct metadata *m,
                   struct error_text *problem)
{
    char text[TEXT_MAX];
    size_t len = metadata_text(m, text);
    return metadata_replace_file(ops, dir, METADATA_FILE, text, len, problem);
}

/* Whether a log can have these segments: at least one, with numbers that fit into the table of entries. */
static bool segments_fit(const struct metadata *m)
{
    return m->first_segment > 0 && m->last_segment >= m->first_segment &&
           m->last_segment <= UINT32_MAX &&
           m->last_segment - m->first_segment < METADATA_SEGMENTS_MAX;
}

int metadata_read(const struct file_ops *ops, const char *dir, struct metadata *ret,
                  struct error_text *problem)
{
    char text[TEXT_MAX + 1];
    char again[TEXT_MAX];
    size_t len = 0;
    struct metadata m = {0};

    int rv = read_file(ops, dir, METADATA_FILE, text, &len, problem);
    if (rv != 0) {
        return rv;
    }
    /* NOLINTNEXTLINE(cert-err34-c): a wrong value differs when it is written again */
    int n = sscanf(
        text,
        "Conclave metadata\nterm %" SCNu64 "\nvoted_for %" SCNu64 "\nfirst_segment %" SCNu64
        "\nlast_segment %" SCNu64 "\nsnapshot %" SCNu64 "\ninstalling %" SCNu64,
        &m.term, &m.voted_for, &m.first_segment, &m.last_segment, &m.snapshot_index, &m.installing);
    m.joining = strstr(text, "\n" JOINING) != NULL;
    if (n < 5 || metadata_text(&m, again) != len || memcmp(text, again, len) != 0) {
        return damaged(problem, dir, METADATA_FILE);
    }
    if (!segments_fit(&m)) {
        return error_text_set(problem, CONCLAVE_ECORRUPT,
                              "%s/%s is damaged: a log cannot have the segments %" PRIu64
                              " to %" PRIu64 ". Restore the folder from a backup",
                              dir, METADATA_FILE, m.first_segment, m.last_segment);
    }
    *ret = m;
    return 0;
}

static size_t healing_text(const struct healing_file *h, char text[TEXT_MAX])
{
    char hex[2 * FORMAT_CLUSTER_SIZE + 1];
    hex_encode(h->cluster, sizeof h->cluster, hex);
    int len = snprintf(text, TEXT_MAX, "Conclave healing\ncluster %s\naside %s\n", hex, h->aside);
    return add_checksum(text, len);
}

int healing_write(const struct file_ops *ops, const char *dir, const struct healing_file *h,
                  struct error_text *problem)
{
    char text[TEXT_MAX];
    size_t len = healing_text(h, text);
    return metadata_replace_file(ops, dir, HEALING_FILE, text, len, problem);
}

int healing_read(const struct file_ops *ops, const char *dir, struct healing_file *ret,
                 struct error_text *problem)
{
    char text[TEXT_MAX + 1];
    char again[TEXT_MAX];
    char hex[2 * FORMAT_CLUSTER_SIZE + 1] = "";
    size_t len = 0;
    struct healing_file h = {0};

    int rv = read_file(ops, dir, HEALING_FILE, text, &len, problem);
    if (rv != 0) {
        return rv;
    }
    /* NOLINTNEXTLINE(cert-err34-c): a wrong value differs when it is written again */
    int n = sscanf(text, "Conclave healing\ncluster %32s\naside %39s", hex, h.aside);
    if (n != 2 || !hex_decode(hex, h.cluster) || healing_text(&h, again) != len ||
        memcmp(text, again, len) != 0) {
        return damaged(problem, dir, HEALING_FILE);
    }
    *ret = h;
    return 0;
}

static size_t imported_text(const struct imported_file *f, char text[TEXT_MAX])
{
    char epoch[32] = "";
    if (f->epoch >= 0) {
        (void)snprintf(epoch, sizeof epoch, "epoch %" PRId64 "\n", f->epoch);
    }
    int len = snprintf(text, TEXT_MAX, "Conclave imported\nzxid %016" PRIx64 "\n%s",
                       (uint64_t)f->zxid, epoch);
    return add_checksum(text, len);
}

int imported_write(const struct file_ops *ops, const char *dir, const struct imported_file *f,
                   struct error_text *problem)
{
    char text[TEXT_MAX];
    size_t len = imported_text(f, text);
    return metadata_replace_file(ops, dir, IMPORTED_FILE, text, len, problem);
}

int imported_read(const struct file_ops *ops, const char *dir, struct imported_file *ret,
                  struct error_text *problem)
{
    char text[TEXT_MAX + 1];
    char again[TEXT_MAX];
    size_t len = 0;
    uint64_t zxid = 0;
    struct imported_file f = {0, -1};
    int rv = read_file(ops, dir, IMPORTED_FILE, text, &len, problem);
    if (rv != 0) {
        return rv;
    }
    /* NOLINTNEXTLINE(cert-err34-c): a wrong value differs when it is written again */
    int n = sscanf(text, "Conclave imported\nzxid %" SCNx64 "\nepoch %" SCNd64, &zxid, &f.epoch);
    f.zxid = (int64_t)zxid;
    if (n < 1 || imported_text(&f, again) != len || memcmp(text, again, len) != 0) {
        return damaged(problem, dir, IMPORTED_FILE);
    }
    *ret = f;
    return 0;
}

static size_t choice_text(const struct choice_file *c, char text[TEXT_MAX])
{
    int len = snprintf(text, TEXT_MAX,
                       "Conclave import choice\nmember %" PRIu64 "\nepoch %" PRId64
                       "\nzxid %016" PRIx64 "\ndigest %016" PRIx64 "\n",
                       c->member, c->epoch, (uint64_t)c->zxid, c->digest);
    return add_checksum(text, len);
}

int choice_write(const struct file_ops *ops, const char *dir, const struct choice_file *c,
                 struct error_text *problem)
{
    char text[TEXT_MAX];
    size_t len = choice_text(c, text);
    return metadata_replace_file(ops, dir, CHOICE_FILE, text, len, problem);
}

int choice_read(const struct file_ops *ops, const char *dir, struct choice_file *ret,
                struct error_text *problem)
{
    char text[TEXT_MAX + 1];
    char again[TEXT_MAX];
    size_t len = 0;
    uint64_t zxid = 0;
    struct choice_file c = {0};
    int rv = read_file(ops, dir, CHOICE_FILE, text, &len, problem);
    if (rv != 0) {
        return rv;
    }
    /* NOLINTNEXTLINE(cert-err34-c): a wrong value differs when it is written again */
    int n = sscanf(text,
                   "Conclave import choice\nmember %" SCNu64 "\nepoch %" SCNd64 "\nzxid %" SCNx64
                   "\ndigest %" SCNx64,
                   &c.member, &c.epoch, &zxid, &c.digest);
    c.zxid = (int64_t)zxid;
    if (n != 4 || choice_text(&c, again) != len || memcmp(text, again, len) != 0) {
        return damaged(problem, dir, CHOICE_FILE);
    }
    *ret = c;
    return 0;
}

int choice_remove(const struct file_ops *ops, const char *dir, struct error_text *problem)
{
    char *path = path_make("%s/" CHOICE_FILE, dir);
    if (path == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int rv = ops->remove(ops->ctx, path);
    if (rv == -ENOENT) {
        rv = 0;
    }
    if (rv == 0) {
        rv = ops->sync_folder(ops->ctx, dir);
    }
    rv = rv == 0 ? 0 : error_text_file(problem, rv, "cannot remove", path);
    free(path);
    return rv;
}
