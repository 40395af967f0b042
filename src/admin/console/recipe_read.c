#include "admin/console/recipe_read.h"

#include "admin/answers/server_view.h"
#include "front/service.h"
#include "state/query.h"

#include <assert.h>
#include <stdlib.h>

bool recipe_reader_init(struct recipe_reader *r, struct service *service, size_t children_max)
{
    *r = (struct recipe_reader){.service = service, .children_max = children_max};
    buf_init(&r->path, 0);
    buf_init(&r->other, 0);
    r->children = calloc(children_max + 1, sizeof *r->children);
    r->places = calloc(children_max + 1, sizeof *r->places);
    return r->children != NULL && r->places != NULL;
}

void recipe_reader_finish(struct recipe_reader *r)
{
    free(r->children);
    free(r->places);
    buf_finish(&r->path);
    buf_finish(&r->other);
}

bool recipe_readable(const struct recipe_reader *r, const struct znode *node)
{
    return r->service->skip_acl || state_node_is_public(r->service->state, node, WIRE_PERM_READ);
}

static bool recipe_node_exists(void *ctx, const char *suffix)
{
    struct recipe_reader *r = ctx;
    struct slice path = buf_slice(&r->path);
    if (suffix[0] == '.' && suffix[1] == '.') {
        while (path.len > 0 && path.data[path.len - 1] != '/') {
            path.len--;
        }
        path.len -= path.len > 0;
        suffix += 2;
    }
    buf_reset(&r->other);
    buf_append_slice(&r->other, path);
    buf_append_str(&r->other, suffix);
    return buf_ok(&r->other) && state_node(r->service->state, buf_slice(&r->other)) != NULL;
}

static void read_children(struct recipe_reader *r, const struct znode *node)
{
    size_t most = r->count + r->children_max;
    for (const struct znode *c = znode_first_child(node); c != NULL && r->count < most;
         c = c->next) {
        r->children[r->count++] = (struct layout_child){
            .name = znode_name(c),
            .data = recipe_readable(r, c) ? znode_data(c) : SLICE_NULL,
            .session_id = znode_is_ephemeral(c) ? znode_owner(c) : 0,
            .czxid = c->czxid,
            .since_ms = c->ctime,
        };
    }
}

bool recipe_read(struct recipe_reader *r, const struct znode *node, const struct layout_child *gone,
                 struct layout *ret)
{
    buf_reset(&r->path);
    znode_append_path(node, &r->path);
    if (!buf_ok(&r->path) || r->path.len > VIEW_PATH_MAX) {
        return false;
    }
    r->count = 0;
    if (gone != NULL) {
        r->children[r->count++] = *gone;
    }
    read_children(r, node);
    const struct layout_input in = {.path = buf_slice(&r->path),
                                    .data = znode_data(node),
                                    .children = r->children,
                                    .count = r->count,
                                    .exists = recipe_node_exists,
                                    .ctx = r};
    *ret = (struct layout){.places = r->places};
    layout_recognise(&in, ret);
    assert(ret->count <= r->count && ret->path_len <= r->path.len);
    return true;
}

bool recipe_is_held(enum layout_kind kind)
{
    return kind == LAYOUT_ELECTION || kind == LAYOUT_LOCK || kind == LAYOUT_SEMAPHORE ||
           kind == LAYOUT_PAIR;
}
