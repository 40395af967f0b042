#include "support/fencing.h"

#include "state/state_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

int fencing_setup(void **state)
{
    void *world;
    struct fencing *f = calloc(1, sizeof *f);
    assert(f != NULL);
    int rc = world_setup(&world);
    f->w = *(struct world *)world;
    free(world);
    f->now_ms = 1000;
    f->options = COMMAND_FENCING;
    *state = f;
    rc |= fencing_open(f);
    rc |= world_session(&f->w, 2);
    rc |= world_session(&f->w, 3);
    rc |= fencing_create(f, 1, "/app", "", 0);
    rc |= fencing_create(f, 1, "/lock", "", 0);
    return rc;
}

int fencing_teardown(void **state)
{
    struct fencing *f = *state;
    struct world *w = malloc(sizeof *w);
    void *world = w;
    assert(w != NULL);
    *w = f->w;
    free(f);
    return world_teardown(&world);
}

/* The error of the part that failed, found after the zeros and before "not tried". */
static int32_t multi_error(const struct effects *e)
{
    struct wire_reader r = wire_reader_make(buf_slice(&e->reply));
    struct wire_multi_header header;
    while (wire_decode_multi_header(&r, &header) == 0 && !header.done &&
           header.type == WIRE_ERROR) {
        if (wire_read_i32(&r) != 0) {
            return header.err;
        }
    }
    return 0;
}

static int32_t send(struct fencing *f, int64_t session, int32_t cxid, int32_t type,
                    struct slice body)
{
    struct batch_header header = {
        .origin = BATCH_ORIGIN_LEADER, .sequence = 1, .time_ms = f->now_ms};
    struct command c = {.session_id = session,
                        .cxid = cxid,
                        .type = type,
                        .ids = maker_ids(&f->w.m),
                        .body = body,
                        .options = f->options};
    state_apply(f->w.s, &header, &c, &f->w.e);
    assert(state_digest_now(f->w.s) == state_digest(f->w.s));
    return f->w.e.err == 0 && type == WIRE_MULTI ? multi_error(&f->w.e) : f->w.e.err;
}

int32_t fencing_send(struct fencing *f, int64_t session, int32_t type, struct slice body)
{
    return send(f, session, 1, type, body);
}

int32_t fencing_open(struct fencing *f)
{
    return send(f, 0, 0, COMMAND_FENCE_OPEN, slice_make("", 0));
}

int32_t fencing_expire(struct fencing *f, int64_t session)
{
    return send(f, session, 0, WIRE_CLOSE_SESSION, slice_make("", 0));
}

int32_t fencing_create(struct fencing *f, int64_t session, const char *path, const char *data,
                       int32_t mode)
{
    return fencing_send(f, session, WIRE_CREATE, make_create(&f->w.m, path, data, mode));
}

int32_t fencing_delete(struct fencing *f, int64_t session, const char *path)
{
    return fencing_send(f, session, WIRE_DELETE, make_delete(&f->w.m, path, -1));
}

int32_t fencing_set(struct fencing *f, int64_t session, const char *path, const char *data)
{
    return fencing_send(f, session, WIRE_SET_DATA, make_set_data(&f->w.m, path, data, -1));
}

const char *fencing_join(struct fencing *f, int64_t session, const char *lock, const char *prefix)
{
    static char made[4][256];
    static int turn;
    char path[200];
    struct wire_reader r;
    (void)snprintf(path, sizeof path, "%s/%s", lock, prefix);
    int32_t rc = fencing_create(f, session, path, "", WIRE_MODE_EPHEMERAL_SEQUENTIAL);
    assert(rc == 0);
    (void)rc;
    r = wire_reader_make(buf_slice(&f->w.e.reply));
    struct slice name = wire_read_string(&r);
    turn = (turn + 1) % 4;
    (void)snprintf(made[turn], sizeof made[turn], "%.*s", SLICE_FMT(name));
    return made[turn];
}

int32_t fencing_bind(struct fencing *f, const char *prefix, const char *data)
{
    char path[256] = "/zookeeper/fence";
    size_t len = strlen(path);
    for (size_t i = 0; prefix[i] != '\0';) {
        size_t end = i + 1 + strcspn(prefix + i + 1, "/");
        (void)snprintf(path + len, sizeof path - len, "%.*s", (int)end, prefix);
        int32_t rc = fencing_create(f, 1, path, "", 0);
        if (rc != 0 && rc != CONCLAVE_NODE_EXISTS) {
            return rc;
        }
        i = end;
    }
    (void)snprintf(path, sizeof path, "/zookeeper/fence%s/conclave_fence", prefix);
    int32_t rc = fencing_create(f, 1, path, data, 0);
    return rc == CONCLAVE_NODE_EXISTS ? fencing_set(f, 1, path, data) : rc;
}

void fencing_restart(struct fencing *f)
{
    struct buf out;
    struct state *restored = NULL;
    buf_init(&out, 0);
    int rc = state_snapshot_begin(f->w.s);
    while (rc == 0 && state_snapshot_step(f->w.s, 1 << 16, &out) == 1) {}
    rc |= state_restore(buf_slice(&out), &hash_key_fixed, &restored);
    assert(rc == 0 && state_digest(restored) == state_digest(f->w.s));
    buf_finish(&out);
    state_destroy(f->w.s);
    f->w.s = restored;
}
