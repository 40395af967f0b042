#include "recipes/queue/queue_waiters.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void line_out(struct queue_line *line)
{
    place_leave(&line->place);
    free(line->node);
    line->node = NULL;
    line->first = false;
}

static struct queue_line *line_of(struct place *place)
{
    return CONTAINER_OF(place, struct queue_line, place);
}

static void queue_waiters_on_free(struct place *place)
{
    assert(line_of(place)->node != NULL);
    line_of(place)->first = true;
}

/* It joins again, at the end. */
static void queue_waiters_on_gone(struct place *place)
{
    line_out(line_of(place));
}

static void line_trouble(struct queue_line *line, int error)
{
    if (error_is_fatal(error)) {
        line->error = error;
    } else if (!line->call->ended) {
        call_trouble(line->call, error);
    }
}

static void queue_waiters_on_trouble(struct place *place, int error)
{
    line_trouble(line_of(place), error);
}

static const struct place_class line_place = {
    .judge = place_judge_first,
    .free = queue_waiters_on_free,
    .gone = queue_waiters_on_gone,
    .trouble = queue_waiters_on_trouble,
};

static void queue_waiters_on_created(struct protected_create *create, int error, char *path,
                                     const struct conclave_stat *stat)
{
    struct queue_line *line = CONTAINER_OF(create, struct queue_line, create);
    struct call *call = line->call;
    assert(line->joining && line->node == NULL);
    line->joining = false;
    if (error == 0) {
        line->node = path;
        place_enter(&line->place, path, stat->ephemeral_owner, stat->czxid);
    } else if (error != CONCLAVE_ECANCELED && error != CONCLAVE_SESSION_EXPIRED) {
        line_trouble(line, error);
    }
    call_run(call);
}

bool queue_line_run(struct queue_line *line)
{
    if (line->joining || line->error != 0) {
        return false;
    }
    if (line->node == NULL) {
        struct protected_node node = {
            .parent = line->place.parent,
            .naming = CONCLAVE_NAMING_NATIVE,
            .data = "",
            .acl = line->acl,
            .acl_count = line->acl_count,
        };
        line->joining = true;
        protected_create_start(&line->create, &node);
        return false;
    }
    place_run(&line->place, !line->first);
    return line->first && line->error == 0;
}

void queue_line_on_state(struct queue_line *line)
{
    struct conclave_client *client = call_client(line->call);
    if (line->node != NULL && (client_state(client) == CONCLAVE_STATE_LOST ||
                               client_session_id(client) != line->place.session_id)) {
        line_out(line);
    }
    protected_create_run(&line->create);
}

bool queue_line_leave(struct queue_line *line)
{
    if (line->joining) {
        if (!line->create.canceled) {
            protected_create_cancel(&line->create);
        }
        if (line->joining) {
            return false;
        }
    }
    if (line->node != NULL) {
        if (deletes_add(&line->call->handle.rt->deletes, line->node, NULL, NULL) != 0) {
            call_retry_later(line->call);
            return false;
        }
        line_out(line);
    }
    return true;
}

void queue_line_init(struct queue_line *line, struct call *call, const char *parent,
                     const struct conclave_acl *acl, size_t acl_count)
{
    memset(line, 0, sizeof *line);
    line->call = call;
    line->acl = acl;
    line->acl_count = acl_count;
    protected_create_init(&line->create, &call->handle, queue_waiters_on_created);
    place_init(&line->place, &call->machine, &line_place, parent, CONCLAVE_NAMING_NATIVE);
}

void queue_line_finish(struct queue_line *line)
{
    protected_create_finish(&line->create);
    place_finish(&line->place);
    free(line->node);
}
