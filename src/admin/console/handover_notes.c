#include "admin/console/handover_notes.h"

#include "admin/console/caller_names.h"
#include "admin/console/layout_names.h"
#include "state/query.h"

#include <assert.h>
#include <stdio.h>

enum { GUID_DIGITS = 32, USER_MAX = 32 };

void handover_notes_init(struct handover_notes *n)
{
    *n = (struct handover_notes){.service = NULL};
    handovers_init(&n->past, &(struct hash_key){{0, 0}});
}

/* Texts */

/* Who deleted another one's node. */
static void note_deleter(struct service *s, const struct command *command, struct handover *r)
{
    char user[USER_MAX + 1] = "";
    const struct connection *c = service_connection(s, command->session_id);
    bool named = caller_name(command->ids, user, sizeof user);
    if (command->session_id == 0) {
        (void)snprintf(r->by, sizeof r->by, "%s", named ? user : "an operator");
    } else if (named) {
        (void)snprintf(r->by, sizeof r->by, "%s, session 0x%llx", user,
                       (unsigned long long)command->session_id);
    } else if (c != NULL) {
        (void)snprintf(r->by, sizeof r->by, "the client %.50s", c->peer);
    } else {
        (void)snprintf(r->by, sizeof r->by, "session 0x%llx",
                       (unsigned long long)command->session_id);
    }
}

/* What this server knows of the holder: its address, and why its session ended. */
static void note_session(struct service *s, struct handover *r)
{
    const struct connection *c = service_connection(s, r->session);
    const struct ledger_record *ended =
        s->notes.ledger != NULL ? session_ledger_find(s->notes.ledger, r->session) : NULL;
    if (c != NULL) {
        name_copy(r->client, sizeof r->client, slice_str(c->peer));
    } else if (ended != NULL) {
        name_copy(r->client, sizeof r->client, slice_str(ended->facts.client));
    }
    if (ended != NULL && (r->cause == HANDOVER_EXPIRED || r->cause == HANDOVER_KILLED)) {
        struct buf text;
        buf_init(&text, 0);
        session_cause_text(session_cause_find(&ended->facts), &ended->facts, &text);
        if (buf_ok(&text)) {
            name_copy(r->words, sizeof r->words, buf_slice(&text));
        }
        buf_finish(&text);
    }
}

/* One node that is gone */

struct gone_look {
    const struct command *command;
    const struct effects *effects;
    enum session_end end;
    int64_t time_ms;
};

static enum handover_cause gone_cause(const struct gone_look *look, const struct state_gone *gone)
{
    static const enum handover_cause ENDS[] = {
        [SESSION_END_EXPIRED] = HANDOVER_EXPIRED,
        [SESSION_END_CLOSED] = HANDOVER_CLOSED,
        [SESSION_END_KILLED] = HANDOVER_KILLED,
    };
    if (look->end != SESSION_END_NONE) {
        return ENDS[look->end];
    }
    return look->command->session_id == gone->session_id ? HANDOVER_RELEASED : HANDOVER_DELETED;
}

/* Whether a holder may have this name: a look at the text alone. */
static bool is_contender(struct slice name)
{
    struct layout_name parsed;
    layout_name_parse(name, &parsed);
    return (parsed.stem >= STEM_OTHER && parsed.stem <= STEM_KAZOO_READ) ||
           slice_equal_str(name, "ActiveStandbyElectorLock") ||
           layout_name_is_hex(name, GUID_DIGITS);
}

static bool may_look(struct handover_notes *n, int64_t time_ms)
{
    int64_t second = time_ms / 1000;
    n->looks = second == n->second ? n->looks + 1 : 1;
    n->second = second;
    if (n->looks <= HANDOVER_LOOKS_MAX) {
        return true;
    }
    n->missed++;
    n->missed_ms = time_ms;
    return false;
}

/* The place of the gone child, if it held; *ret_next: the first that waits, or NULL. */
static const struct layout_place *gone_place(const struct layout *l,
                                             const struct layout_place **ret_next)
{
    const struct layout_place *found = NULL;
    *ret_next = NULL;
    for (size_t i = 0; i < l->count; i++) {
        const struct layout_place *p = &l->places[i];
        if (p->child == 0) {
            found = p->holds ? p : NULL;
        } else if (!p->holds && *ret_next == NULL) {
            *ret_next = p;
        }
    }
    return found;
}

static bool is_shared(const struct layout *l, const struct layout_place *p)
{
    return p->shared || l->kind == LAYOUT_SEMAPHORE;
}

int64_t handover_notes_from_ms(const struct handover_notes *n, struct slice path, int64_t joined_ms,
                               bool shared)
{
    const struct handover_line *line = handovers_line(&n->past, path);
    int64_t known_ms = line != NULL ? line->last_ms : n->since_ms;
    if (shared || n->service == NULL || n->missed_ms >= known_ms ||
        (line == NULL && joined_ms <= n->since_ms)) {
        return 0;
    }
    return line != NULL && line->last_ms > joined_ms ? line->last_ms : joined_ms;
}

static void note_names(struct handover_notes *n, const struct state_gone *gone,
                       const struct layout_place *next, bool readable, struct handover *r)
{
    if (readable) {
        name_copy(r->label, sizeof r->label, layout_label(gone->data));
    }
    if (next != NULL) {
        const struct layout_child *c = &n->reader.children[next->child];
        struct slice label = layout_label(c->data);
        name_copy(r->next, sizeof r->next, label);
        if (label.len == 0) {
            (void)snprintf(r->next, sizeof r->next, "0x%llx", (unsigned long long)c->session_id);
        }
    }
}

static void note_handover(struct handover_notes *n, const struct gone_look *look,
                          const struct state_gone *gone, const struct layout *l,
                          const struct layout_place *held, const struct layout_place *next)
{
    const struct wire_vector nobody = {SLICE_NULL, 0};
    const struct state_event *event = &look->effects->events[gone->event];
    struct slice path = slice_make(n->reader.path.data, l->path_len);
    struct handover_line *line = handovers_line(&n->past, path);
    enum handover_cause cause = gone_cause(look, gone);
    bool orderly = cause == HANDOVER_RELEASED || cause == HANDOVER_CLOSED;
    int64_t from_ms = handover_notes_from_ms(n, path, gone->ctime, is_shared(l, held));
    if (line != NULL && line->last_zxid == look->effects->zxid && !is_shared(l, held)) {
        return; /* it waited behind a holder that the same command ended */
    }
    size_t lines = map_count(&n->past.lines);
    struct handover *r =
        handovers_add(&n->past, path,
                      l->kind == LAYOUT_ELECTION || l->kind == LAYOUT_PAIR ? HANDOVER_LEADERS
                      : orderly                                            ? HANDOVER_ORDERLY
                                                                           : HANDOVER_LOST);
    if (r == NULL || map_count(&n->past.lines) < lines + (line == NULL)) {
        n->missed_ms = look->time_ms; /* a line without records is forgotten */
    }
    if (r == NULL) {
        n->missed++;
        return;
    }
    r->cause = cause;
    r->kind = layout_kind_name(l->kind);
    r->zxid = look->effects->zxid;
    r->token = gone->czxid;
    r->session = gone->session_id;
    r->joined_ms = gone->ctime;
    r->from_ms = from_ms;
    r->until_ms = look->time_ms;
    r->line->last_ms = look->time_ms;
    r->line->last_zxid = look->effects->zxid;
    note_names(n, gone, next, n->service->skip_acl || state_event_visible(event, nobody), r);
    note_session(n->service, r);
    if (cause == HANDOVER_KILLED) {
        name_copy(r->by, sizeof r->by, look->command->body);
    } else if (cause == HANDOVER_DELETED) {
        note_deleter(n->service, look->command, r);
    }
}

static void look_at_gone(struct handover_notes *n, const struct gone_look *look,
                         const struct state_gone *gone)
{
    struct layout l;
    struct slice path = look->effects->events[gone->event].path;
    size_t at = path.len;
    while (at > 0 && path.data[at - 1] != '/') {
        at--;
    }
    struct slice name = slice_make(path.data + at, path.len - at);
    if (!is_contender(name) || !may_look(n, look->time_ms)) {
        return;
    }
    const struct znode *parent =
        state_node(n->service->state, slice_make(path.data, at > 1 ? at - 1 : 1));
    const struct layout_child child = {.name = name,
                                       .data = gone->data,
                                       .session_id = gone->session_id,
                                       .czxid = gone->czxid,
                                       .since_ms = gone->ctime};
    const struct layout_place *next;
    if (parent == NULL || !recipe_readable(&n->reader, parent) ||
        !recipe_read(&n->reader, parent, &child, &l) || !recipe_is_held(l.kind)) {
        return;
    }
    const struct layout_place *held = gone_place(&l, &next);
    if (held != NULL) {
        note_handover(n, look, gone, &l, held, next);
    }
}

static void on_gone(void *ctx, const struct command *command, const struct effects *effects,
                    enum session_end end, int64_t time_ms)
{
    struct handover_notes *n = ctx;
    const struct gone_look look = {command, effects, end, time_ms};
    handover_notes_follow(n);
    if (n->service == NULL) {
        return;
    }
    assert(effects->gone_count > 0 && n->service->onlooker.ctx == ctx);
    for (size_t i = 0; i < effects->gone_count; i++) {
        look_at_gone(n, &look, &effects->gone[i]);
    }
}

/* Begin and end */

void handover_notes_attach(struct handover_notes *n, struct service *service)
{
    if (n->service != NULL) {
        n->service->onlooker.gone = NULL;
    }
    handover_notes_finish(n);
    if (service == NULL || service->auth_schemes != NULL) {
        return; /* the console shows no nodes */
    }
    handovers_init(&n->past, &service->key);
    if (!recipe_reader_init(&n->reader, service, HANDOVER_SIBLINGS_MAX)) {
        recipe_reader_finish(&n->reader);
        return; /* no memory: no history */
    }
    n->service = service;
    n->generation = service->generation;
    int64_t time_ms = state_time_ms(service->state);
    n->since_ms = state_zxid(service->state) == 0 ? 1
                  : time_ms > 0                   ? time_ms
                                                  : clock_wall_ms(service->clock);
    service->onlooker.gone = on_gone;
    service->onlooker.ctx = n;
}

void handover_notes_follow(struct handover_notes *n)
{
    if (n->service != NULL && n->generation != n->service->generation) {
        handover_notes_attach(n, n->service);
    }
}

void handover_notes_finish(struct handover_notes *n)
{
    if (n->service != NULL) {
        recipe_reader_finish(&n->reader);
    }
    handovers_finish(&n->past);
    handover_notes_init(n);
}

/* JSON */

struct handover_writing {
    const struct handover_notes *notes;
    struct json *json;
    size_t left;
    bool with_path;
};

static void put_ms_or_null(struct json *j, const char *name, int64_t ms)
{
    if (ms == 0) {
        json_member_null(j, name);
    } else {
        json_member_int(j, name, ms);
    }
}

static bool put_handover(void *ctx, const struct handover *r)
{
    struct handover_writing *w = ctx;
    struct json *j = w->json;
    struct slice path = slice_make(r->line->path, r->line->path_len);
    const struct znode *node = state_node(w->notes->service->state, path);
    if (node != NULL && !recipe_readable(&w->notes->reader, node)) {
        return true;
    }
    json_object_begin(j);
    if (w->with_path) {
        json_member_text(j, "path", path);
    }
    json_member_string(j, "kind", r->kind);
    json_member_string(j, "label", r->label);
    json_member_string(j, "client", r->client);
    json_member_hex(j, "session", r->session);
    json_member_int(j, "token", r->token);
    json_member_int(j, "joined_ms", r->joined_ms);
    put_ms_or_null(j, "from_ms", r->from_ms);
    json_member_int(j, "until_ms", r->until_ms);
    json_member_string(j, "cause", handover_cause_name(r->cause));
    json_member_string(j, "by", r->by);
    json_member_string(j, "words", r->words);
    json_member_string(j, "next", r->next);
    json_object_end(j);
    return --w->left > 0;
}

void handover_notes_write(const struct handover_notes *n, struct slice path, size_t most,
                          struct json *j)
{
    struct handover_writing w = {
        .notes = n, .json = j, .left = most, .with_path = slice_is_null(path)};
    const struct handover_line *line = w.with_path ? NULL : handovers_line(&n->past, path);
    unsigned rings = w.with_path ? 1u << HANDOVER_LEADERS | 1u << HANDOVER_LOST : ~0u;
    assert(most > 0);
    json_array_begin(j);
    if (n->service != NULL && n->generation == n->service->generation &&
        (w.with_path || line != NULL)) {
        handovers_each(&n->past, line, rings, put_handover, &w);
    }
    json_array_end(j);
}
