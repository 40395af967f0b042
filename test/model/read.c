#include "model/parts.h"

#include <assert.h>
#include <stdio.h>

static void put_children(const struct model *m, const char *path, struct buf *out)
{
    wire_write_i32(out, model_children(m, path));
    for (size_t i = 0; i < m->count; i++) {
        char parent[MODEL_PATH];
        if (strcmp(m->nodes[i].path, "/") != 0) {
            model_parent(m->nodes[i].path, parent);
            if (strcmp(parent[0] != '\0' ? parent : "/", path) == 0) {
                wire_write_string(out, slice_str(strrchr(m->nodes[i].path, '/') + 1));
            }
        }
    }
}

static void put_acl(const struct model_node *n, bool hide, struct buf *out)
{
    wire_write_i32(out, n->acl_count);
    for (int i = 0; i < n->acl_count; i++) {
        char id[64];
        snprintf(id, sizeof id, "%s", n->acl[i].id);
        if (hide && strcmp(n->acl[i].scheme, "digest") == 0) {
            strcpy(strchr(id, ':'), ":x");
        }
        wire_write_i32(out, n->acl[i].perms);
        wire_write_string(out, slice_str(n->acl[i].scheme));
        wire_write_string(out, slice_str(id));
    }
}

static int count_below(const struct model *m, const char *path)
{
    int n = 0;
    for (size_t i = 0; i < m->count; i++) {
        n += model_is_below(m->nodes[i].path, path);
    }
    return n;
}

static void multi_read(const struct model *m, struct wire_vector ids, struct wire_reader *r,
                       struct buf *out)
{
    struct wire_multi_header h;
    struct wire_get_data_request part;
    while (wire_decode_multi_header(r, &h) == 0 && !h.done) {
        struct buf body;
        struct buf reply;
        buf_init(&body, 0);
        buf_init(&reply, 0);
        int rc = wire_decode_get_data_request(r, &part);
        assert(rc == 0);
        wire_encode_get_data_request(&body, &part);
        rc = model_query(m, h.type, ids, buf_slice(&body), &reply);
        wire_encode_multi_header(out,
                                 &(struct wire_multi_header){rc == 0 ? h.type : -1, false, rc});
        if (rc == 0) {
            buf_append_slice(out, buf_slice(&reply));
        } else {
            wire_write_i32(out, rc);
        }
        buf_finish(&body);
        buf_finish(&reply);
    }
    wire_encode_multi_header(out, &(struct wire_multi_header){-1, true, -1});
}

void model_ephemerals_of(const struct model *m, int64_t session_id, const char *prefix,
                         struct buf *out)
{
    size_t place = out->len;
    int32_t count = 0;
    wire_write_i32(out, 0);
    for (size_t i = 0; i < m->count; i++) {
        const struct model_node *n = &m->nodes[i];
        if (n->owner == session_id &&
            (strcmp(prefix, "/") == 0 || strncmp(n->path, prefix, strlen(prefix)) == 0)) {
            wire_write_string(out, slice_str(n->path));
            count++;
        }
    }
    buf_put_i32(out, place, count);
}

int model_query(const struct model *m, int32_t type, struct wire_vector ids, struct slice body,
                struct buf *out)
{
    struct wire_reader r = wire_reader_make(body);
    if (type == WIRE_MULTI_READ) {
        multi_read(m, ids, &r, out);
        return 0;
    }
    char path[MODEL_PATH];
    if (!model_path_string(wire_read_string(&r), path)) {
        return type == WIRE_EXISTS ? CONCLAVE_BAD_ARGUMENTS : CONCLAVE_NO_NODE;
    }
    const struct model_node *n = model_find(m, path);
    if (n == NULL) {
        return CONCLAVE_NO_NODE;
    }
    if (!model_permits(n, ids, WIRE_PERM_READ | (type == WIRE_GET_ACL ? WIRE_PERM_ADMIN : 0))) {
        return CONCLAVE_NO_AUTH;
    }
    switch (type) {
    case WIRE_GET_DATA:
        wire_write_buffer(out, n->null_data ? SLICE_NULL : slice_make(n->data, n->data_len));
        break;
    case WIRE_GET_CHILDREN:
    case WIRE_GET_CHILDREN2:
        put_children(m, n->path, out);
        break;
    case WIRE_GET_ACL:
        put_acl(n, !model_permits(n, ids, WIRE_PERM_ADMIN), out);
        break;
    case WIRE_GET_ALL_CHILDREN_NUMBER:
        wire_write_i32(out, count_below(m, n->path));
        return 0;
    default:
        break;
    }
    if (type != WIRE_GET_CHILDREN) {
        model_put_stat(m, n, out);
    }
    return 0;
}
