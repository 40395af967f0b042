#define _GNU_SOURCE /* asprintf */
#include "apache/export.h"

#include "apache/folder.h"
#include "apache/format.h"
#include "state/adopt/outcome.h"
#include "state/state_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { FLUSH_AT = 1 << 18, TOLD_EACH = 1 << 14 };

/* The file that is being written. */
struct writing {
    int fd;
    const char *path;
    struct buf out;
    uint32_t adler;
    uint64_t bytes;
    void (*told)(void *ctx, size_t nodes);
    void *ctx;
    char **ret_error;
};

static int io_error(const struct writing *x, const char *what, const char *path)
{
    int rc = errno == ENOSPC || errno == EDQUOT ? CONCLAVE_ENOSPACE : CONCLAVE_EIO;
    return text_fail(x->ret_error, rc, "%s cannot be %s: %s", path, what, strerror(errno));
}

static int flush(struct writing *x)
{
    if (!buf_ok(&x->out)) {
        return CONCLAVE_ENOMEM;
    }
    x->adler = (uint32_t)adler32_z(x->adler, buf_slice(&x->out).data, x->out.len);
    x->bytes += x->out.len;
    assert(x->fd >= 0);
    if (!fd_write_all(x->fd, buf_slice(&x->out))) {
        return io_error(x, "written", x->path);
    }
    buf_reset(&x->out);
    return 0;
}

/* The checksum of all before it, then "/". */
static int put_seal(struct writing *x)
{
    int rc = flush(x);
    buf_append_i64(&x->out, (int64_t)x->adler);
    wire_write_string(&x->out, slice_str("/"));
    return rc;
}

static void put_sessions(struct writing *x, const struct state *s, struct apache_exported *ret)
{
    buf_append_i32(&x->out, (int32_t)map_count(&s->sessions));
    for (struct map_node *n = map_next(&s->sessions, NULL); n != NULL;
         n = map_next(&s->sessions, n)) {
        const struct session *session = CONTAINER_OF(n, struct session, map);
        uint8_t apaches[WIRE_PASSWD_LEN];
        buf_append_i64(&x->out, session->id);
        buf_append_i32(&x->out, session->timeout_ms);
        outcome_password(session->id, apaches);
        ret->sessions++;
        ret->foreign_sessions += memcmp(apaches, session->passwd, WIRE_PASSWD_LEN) != 0;
    }
}

static void put_acls(struct writing *x, const struct state *s)
{
    const struct map *map = &s->tree.acls.by_id;
    int32_t count = 0;
    for (const struct map_node *n = map_next(map, NULL); n != NULL; n = map_next(map, n)) {
        count += CONTAINER_OF(n, struct acl_list, by_id)->id != ACL_OPEN;
    }
    buf_append_i32(&x->out, count);
    for (const struct map_node *n = map_next(map, NULL); n != NULL; n = map_next(map, n)) {
        const struct acl_list *list = CONTAINER_OF(n, struct acl_list, by_id);
        struct wire_vector entries = acl_vector(list);
        if (list->id != ACL_OPEN) {
            buf_append_i64(&x->out, apache_acl_number(list->id));
            wire_write_vector(&x->out, &entries);
        }
    }
}

static void put_node(struct writing *x, const struct znode *node)
{
    struct wire_file_node record = {
        .data = znode_data(node),
        .acl = apache_acl_number(node->acl),
        .czxid = node->czxid,
        .mzxid = node->mzxid,
        .ctime = node->ctime,
        .mtime = node->mtime,
        .version = node->version,
        .cversion = znode_cversion(node),
        .aversion = znode_aversion(node),
        .ephemeral_owner = znode_owner(node),
        .pzxid = znode_pzxid(node),
    };
    bool root = node->parent == NULL; /* Apache calls it "" */
    buf_append_i32(&x->out, root ? 0 : (int32_t)znode_path_len(node));
    if (!root) {
        znode_append_path(node, &x->out);
    }
    wire_encode_file_node(&x->out, &record);
}

static int put_nodes(struct writing *x, const struct state *s, struct apache_exported *ret)
{
    int rc = 0;
    for (const struct znode *node = s->tree.root; node != NULL && rc == 0; node = tree_next(node)) {
        put_node(x, node);
        ret->nodes++;
        if (x->told != NULL && ret->nodes % TOLD_EACH == 0) {
            x->told(x->ctx, ret->nodes);
        }
        rc = x->out.len >= FLUSH_AT ? flush(x) : 0;
    }
    wire_write_string(&x->out, slice_str("/"));
    return rc;
}

static int put_all(struct writing *x, const struct state *s, struct apache_exported *ret)
{
    struct wire_file_header header = {APACHE_SNAPSHOT_MAGIC, APACHE_FORMAT_VERSION, -1};
    ret->digest = outcome_tree_digest(s, apache_crc32);
    struct wire_file_digest digest = {state_zxid(s), OUTCOME_DIGEST_VERSION, (int64_t)ret->digest};
    wire_encode_file_header(&x->out, &header);
    put_sessions(x, s, ret);
    put_acls(x, s);
    int rc = put_nodes(x, s, ret);
    rc = rc == 0 ? put_seal(x) : rc;
    wire_encode_file_digest(&x->out, &digest);
    rc = rc == 0 ? put_seal(x) : rc;
    assert(rc != 0 || ret->nodes > 0);
    return rc == 0 ? flush(x) : rc;
}

static int sync_folder(const struct writing *x, const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 && fsync(fd) == 0 ? 0 : io_error(x, "synced", folder);
    if (fd >= 0) {
        (void)close(fd);
    }
    return rc;
}

/* Writes path under another name first, so that a file with that name is whole. */
static int write_file(struct writing *x, const struct state *s, const char *folder,
                      const char *temporary, struct apache_exported *ret)
{
    x->fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (x->fd < 0) {
        return io_error(x, "created", temporary);
    }
    int rc = put_all(x, s, ret);
    rc = rc == 0 && fsync(x->fd) != 0 ? io_error(x, "synced", temporary) : rc;
    rc = close(x->fd) != 0 && rc == 0 ? io_error(x, "closed", temporary) : rc;
    rc = rc == 0 && rename(temporary, x->path) != 0 ? io_error(x, "renamed", temporary) : rc;
    if (rc != 0) {
        (void)unlink(temporary);
        return rc;
    }
    return sync_folder(x, folder);
}

static int make_folders(const struct writing *x, const char *dir, const char *folder)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        return io_error(x, "made", dir);
    }
    if (apache_folder_is(dir)) {
        return text_fail(x->ret_error, CONCLAVE_EFOREIGN,
                         "%s has a snapshot or a log of ZooKeeper already: name an empty folder",
                         dir);
    }
    return mkdir(folder, 0700) != 0 && errno != EEXIST ? io_error(x, "made", folder) : 0;
}

int apache_export(const struct state *s, const char *dir, void (*told)(void *ctx, size_t nodes),
                  void *ctx, struct apache_exported *ret, char **ret_error)
{
    char *folder = NULL;
    char *path = NULL;
    char *temporary = NULL;
    int rc = CONCLAVE_ENOMEM;
    *ret = (struct apache_exported){0};
    *ret_error = NULL;
    if (asprintf(&folder, "%s/" APACHE_VERSION_FOLDER, dir) >= 0 &&
        asprintf(&path, "%s/" APACHE_SNAPSHOT_PREFIX "%llx", folder,
                 (unsigned long long)state_zxid(s)) >= 0 &&
        asprintf(&temporary, "%s/.writing", folder) >= 0) {
        struct writing x = {
            .fd = -1, .path = path, .adler = 1, .told = told, .ctx = ctx, .ret_error = ret_error};
        buf_init(&x.out, 0);
        rc = make_folders(&x, dir, folder);
        rc = rc == 0 ? write_file(&x, s, folder, temporary, ret) : rc;
        ret->bytes = x.bytes;
        buf_finish(&x.out);
    }
    free(folder);
    free(temporary);
    ret->file = rc == 0 ? path : NULL;
    if (rc != 0) {
        free(path);
    }
    return rc;
}
