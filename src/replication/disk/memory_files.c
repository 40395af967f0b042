#include "replication/disk/memory_files.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GROWTH_BYTES ((uint64_t)65536)

/* The content of a file: it lives while a name, a handle or a map needs it. */
struct memory_content {
    uint8_t *data;
    uint64_t len;
    uint64_t room;
    unsigned users;
    unsigned maps; /* while there are any, the data must not move */
};

struct memory_name {
    char *path; /* NULL: free */
    struct memory_content *content;
};

struct memory_files {
    struct file_ops ops;
    struct memory_name names[MEMORY_FILES_MAX];
    size_t name_count;                                 /* no name is at this place or behind it */
    struct memory_content *handles[MEMORY_FILES_OPEN]; /* NULL: free */
    struct memory_content *mapped[MEMORY_FILES_OPEN];
    uint64_t bytes; /* rooms of all contents */
};

static void content_release(struct memory_files *m, struct memory_content *content)
{
    assert(content->users > 0);
    if (--content->users > 0) {
        return;
    }
    assert(content->maps == 0 && m->bytes >= content->room);
    m->bytes -= content->room;
    free(content->data);
    free(content);
}

/* The name's place; with NULL a free one; NULL: none. */
static struct memory_name *memory_name_find(struct memory_files *m, const char *path)
{
    for (size_t i = 0; i < m->name_count; i++) {
        const char *name = m->names[i].path;
        if (path == NULL ? name == NULL : name != NULL && strcmp(name, path) == 0) {
            return &m->names[i];
        }
    }
    return path == NULL && m->name_count < MEMORY_FILES_MAX ? &m->names[m->name_count++] : NULL;
}

static void memory_name_remove(struct memory_files *m, struct memory_name *name)
{
    assert(name->path != NULL && name->content != NULL);
    free(name->path);
    name->path = NULL;
    content_release(m, name->content);
    name->content = NULL;
}

static int memory_name_add(struct memory_files *m, const char *path, struct memory_name **ret)
{
    struct memory_name *name = memory_name_find(m, NULL);
    if (name == NULL) {
        return -ENOSPC;
    }
    struct memory_content *content = calloc(1, sizeof *content);
    char *copy = strdup(path);
    if (content == NULL || copy == NULL) {
        free(content);
        free(copy);
        return -ENOMEM;
    }
    content->users = 1;
    *name = (struct memory_name){copy, content};
    *ret = name;
    return 0;
}

static int memory_open(void *ctx, const char *path, enum file_mode mode)
{
    struct memory_files *m = ctx;
    struct memory_name *name = memory_name_find(m, path);
    int fd = 0;
    while (fd < MEMORY_FILES_OPEN && m->handles[fd] != NULL) {
        fd++;
    }
    if (fd == MEMORY_FILES_OPEN) {
        return -EMFILE;
    }
    if (name == NULL && mode != FILE_REPLACE) {
        return -ENOENT;
    }
    if (name != NULL && mode == FILE_REPLACE) {
        memory_name_remove(m, name); /* who has it open keeps the old content */
        name = NULL;
    }
    int rc = name == NULL ? memory_name_add(m, path, &name) : 0;
    if (rc != 0) {
        return rc;
    }
    name->content->users++;
    m->handles[fd] = name->content;
    return fd;
}

static struct memory_content *memory_handle(struct memory_files *m, int fd)
{
    assert(fd >= 0 && fd < MEMORY_FILES_OPEN && m->handles[fd] != NULL);
    return m->handles[fd];
}

static void memory_close(void *ctx, int fd)
{
    struct memory_files *m = ctx;
    content_release(m, memory_handle(m, fd));
    m->handles[fd] = NULL;
}

static int64_t memory_size(void *ctx, int fd)
{
    return (int64_t)memory_handle(ctx, fd)->len;
}

static int64_t memory_read(void *ctx, int fd, void *data, size_t len, uint64_t offset)
{
    const struct memory_content *content = memory_handle(ctx, fd);
    uint64_t left = offset < content->len ? content->len - offset : 0;
    size_t n = len < left ? len : (size_t)left;
    if (n > 0) {
        memcpy(data, content->data + offset, n);
    }
    return (int64_t)n;
}

static int content_grow(struct memory_files *m, struct memory_content *content, uint64_t end)
{
    if (end <= content->room) {
        return 0;
    }
    uint64_t room = content->room + content->room / 2;
    room = ((room > end ? room : end) + GROWTH_BYTES - 1) / GROWTH_BYTES * GROWTH_BYTES;
    if (m->bytes - content->room + room > MEMORY_FILES_BYTES) {
        return -ENOSPC;
    }
    if (content->maps > 0) {
        return -EBUSY;
    }
    uint8_t *data = realloc(content->data, room);
    if (data == NULL) {
        return -ENOMEM;
    }
    m->bytes += room - content->room;
    content->data = data;
    content->room = room;
    return 0;
}

static int memory_write(void *ctx, int fd, const void *data, size_t len, uint64_t offset)
{
    struct memory_files *m = ctx;
    struct memory_content *content = memory_handle(m, fd);
    if (len > MEMORY_FILES_BYTES || offset > MEMORY_FILES_BYTES) {
        return -ENOSPC;
    }
    int rc = content_grow(m, content, offset + len);
    if (rc != 0 || len == 0) {
        return rc;
    }
    if (offset > content->len) {
        memset(content->data + content->len, 0, offset - content->len);
    }
    memcpy(content->data + offset, data, len);
    content->len = offset + len > content->len ? offset + len : content->len;
    return 0;
}

static int memory_sync(void *ctx, int fd)
{
    (void)memory_handle(ctx, fd);
    return 0;
}

static int memory_map(void *ctx, int fd, size_t len, const void **ret)
{
    struct memory_files *m = ctx;
    struct memory_content *content = memory_handle(m, fd);
    int at = 0;
    while (at < MEMORY_FILES_OPEN && m->mapped[at] != NULL) {
        at++;
    }
    if (len > content->len || at == MEMORY_FILES_OPEN) {
        return len > content->len ? -EINVAL : -ENOMEM;
    }
    content->users++;
    content->maps++;
    m->mapped[at] = content;
    *ret = content->data;
    return 0;
}

static void memory_unmap(void *ctx, const void *data, size_t len)
{
    struct memory_files *m = ctx;
    for (int i = 0; i < MEMORY_FILES_OPEN; i++) {
        struct memory_content *content = m->mapped[i];
        if (content != NULL && content->data == data) {
            assert(content->maps > 0);
            content->maps--;
            m->mapped[i] = NULL;
            content_release(m, content);
            return;
        }
    }
    assert(!"unmaps what was not mapped");
}

static int memory_remove(void *ctx, const char *path)
{
    struct memory_files *m = ctx;
    struct memory_name *name = memory_name_find(m, path);
    if (name == NULL) {
        return -ENOENT;
    }
    memory_name_remove(m, name);
    return 0;
}

static int memory_rename(void *ctx, const char *from, const char *to)
{
    struct memory_files *m = ctx;
    struct memory_name *name = memory_name_find(m, from);
    struct memory_name *old = memory_name_find(m, to);
    char *path = name != NULL ? strdup(to) : NULL;
    if (path == NULL) {
        return name == NULL ? -ENOENT : -ENOMEM;
    }
    if (old != NULL && old != name) {
        memory_name_remove(m, old);
    }
    free(name->path);
    name->path = path;
    return 0;
}

/* Folders exist without being made: a folder is what names have in common. */
static int memory_make_folder(void *ctx, const char *path)
{
    (void)ctx;
    return path[0] == '\0' ? -ENOENT : 0;
}

static int memory_sync_folder(void *ctx, const char *path)
{
    (void)ctx;
    return path[0] == '\0' ? -ENOENT : 0;
}

static int memory_list(void *ctx, const char *path, void (*each)(void *arg, const char *name),
                       void *arg)
{
    const struct memory_files *m = ctx;
    size_t len = strlen(path);
    for (size_t i = 0; i < m->name_count; i++) {
        const char *name = m->names[i].path;
        if (name != NULL && strncmp(name, path, len) == 0 && name[len] == '/' &&
            strchr(name + len + 1, '/') == NULL) {
            each(arg, name + len + 1);
        }
    }
    return 0;
}

static int memory_lock(void *ctx, const char *path, long *ret_pid)
{
    (void)ret_pid; /* nobody else can hold it */
    return memory_open(ctx, path, FILE_REPLACE);
}

int memory_files_create(struct memory_files **ret)
{
    struct memory_files *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return CONCLAVE_ENOMEM;
    }
    m->ops = (struct file_ops){
        .ctx = m,
        .open = memory_open,
        .close = memory_close,
        .size = memory_size,
        .read = memory_read,
        .write = memory_write,
        .sync = memory_sync,
        .map = memory_map,
        .unmap = memory_unmap,
        .rename = memory_rename,
        .remove = memory_remove,
        .make_folder = memory_make_folder,
        .sync_folder = memory_sync_folder,
        .list = memory_list,
        .lock = memory_lock,
    };
    *ret = m;
    return 0;
}

void memory_files_destroy(struct memory_files *m)
{
    if (m == NULL) {
        return;
    }
    for (int i = 0; i < MEMORY_FILES_OPEN; i++) {
        assert(m->mapped[i] == NULL);
        if (m->handles[i] != NULL) {
            memory_close(m, i);
        }
    }
    for (size_t i = 0; i < m->name_count; i++) {
        if (m->names[i].path != NULL) {
            memory_name_remove(m, &m->names[i]);
        }
    }
    assert(m->bytes == 0);
    free(m);
}

const struct file_ops *memory_files_ops(const struct memory_files *m)
{
    return &m->ops;
}

uint64_t memory_files_bytes(const struct memory_files *m)
{
    return m->bytes;
}
