/* What a new link gets before any request, so that the session is as before: credentials and watches. */
#include "client/core/core_internal.h"

#include "client/core/path.h"

#include <stdlib.h>

/* A server accepts up to jute.maxbuffer (1 MiB by default) in one frame: stay far below, like ZooKeeper's own
 * client. */
enum { REARM_BATCH_BYTES = 128 * 1024 };

int core_add_auth(struct core *c, const char *scheme, struct slice data)
{
    if (c->closing || c->final_error == CONCLAVE_ECLOSED) {
        return CONCLAVE_ECLOSED;
    }
    size_t scheme_len = strlen(scheme);
    if (scheme_len + data.len > c->options.max_request / 2) {
        return CONCLAVE_ETOOBIG;
    }
    struct auth *auth = malloc(sizeof *auth + scheme_len + data.len);
    if (auth == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *auth = (struct auth){.scheme_len = scheme_len, .auth_len = data.len};
    memcpy(auth->bytes, scheme, scheme_len);
    if (data.len > 0) {
        memcpy(auth->bytes + scheme_len, data.data, data.len);
    }
    if (c->link == LINK_UP && core_send_auth(c, auth) != 0) {
        free(auth);
        return CONCLAVE_ENOMEM;
    }
    list_push_back(&c->auths, &auth->link);
    return 0;
}

int core_send_auth(struct core *c, const struct auth *auth)
{
    size_t start = wire_frame_begin(&c->out);
    struct wire_request_header header = {WIRE_XID_AUTH, WIRE_AUTH};
    struct wire_auth_packet packet = {
        .type = 0,
        .scheme = slice_make(auth->bytes, auth->scheme_len),
        .auth = slice_make(auth->bytes + auth->scheme_len, auth->auth_len),
    };
    wire_encode_request_header(&c->out, &header);
    wire_encode_auth_packet(&c->out, &packet);
    return core_frame_end(c, start);
}

int core_send_auths(struct core *c)
{
    LIST_FOREACH (link, &c->auths) {
        int rc = core_send_auth(c, CONTAINER_OF(link, struct auth, link));
        if (rc != 0) {
            return rc;
        }
    }
    return 0;
}

void core_drop_auths(struct core *c)
{
    struct list *it = c->auths.next;
    while (it != &c->auths) {
        struct auth *auth = CONTAINER_OF(it, struct auth, link);
        it = it->next;
        explicit_bzero(auth->bytes, auth->scheme_len + auth->auth_len);
        free(auth);
    }
    list_init(&c->auths);
}

/* Paths of one setWatches, by kind. */
struct batch {
    struct buf paths[WATCH_KINDS];
    int32_t counts[WATCH_KINDS];
    size_t bytes;
};

static int batch_send(struct core *c, struct batch *b)
{
    /* The older form if it suffices, because every server knows it. */
    bool persistent = b->counts[WATCH_PERSISTENT] > 0 || b->counts[WATCH_RECURSIVE] > 0;
    struct wire_request_header header = {WIRE_XID_SET_WATCHES,
                                         persistent ? WIRE_SET_WATCHES2 : WIRE_SET_WATCHES};
    size_t start = wire_frame_begin(&c->out);
    wire_encode_request_header(&c->out, &header);
    wire_write_i64(&c->out, c->watch_zxid);
    int kinds = persistent ? WATCH_KINDS : WATCH_ONE_SHOT_KINDS;
    for (int kind = 0; kind < kinds; kind++) { /* in the order of the record's fields */
        struct wire_vector paths = wire_vector_make(&b->paths[kind], b->counts[kind]);
        wire_write_vector(&c->out, &paths);
    }
    c->resuming = c->resuming || persistent;
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        buf_reset(&b->paths[kind]);
        b->counts[kind] = 0;
    }
    b->bytes = 0;
    c->rearming++;
    return core_frame_end(c, start);
}

static int batch_fill(struct core *c, struct batch *b)
{
    for (struct client_watch *w = watches_next(&c->watches, NULL); w != NULL;
         w = watches_next(&c->watches, w)) {
        size_t bytes = 4 + path_full_len(c->options.chroot, w->path);
        if (b->bytes > 0 && b->bytes + bytes > REARM_BATCH_BYTES) {
            int rc = batch_send(c, b);
            if (rc != 0) {
                return rc;
            }
        }
        path_write(&b->paths[w->kind], c->options.chroot, w->path);
        if (!buf_ok(&b->paths[w->kind])) {
            return CONCLAVE_ENOMEM;
        }
        b->counts[w->kind]++;
        b->bytes += bytes;
    }
    return b->bytes > 0 ? batch_send(c, b) : 0;
}

int core_send_watches(struct core *c)
{
    struct batch b = {0};
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        buf_init(&b.paths[kind], 0);
    }
    int rc = batch_fill(c, &b);
    for (int kind = 0; kind < WATCH_KINDS; kind++) {
        buf_finish(&b.paths[kind]);
    }
    return rc;
}
