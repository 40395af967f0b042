/* Reads the record, makes views, reads the answers of servers. */
#include "recipes/follow/master_view.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1 };

struct state_row {
    const char *name; /* for programs */
    const char *word; /* in the record; NULL: not written there */
    bool serves;
};

static const struct state_row states[] = {
    [CONCLAVE_REDIS_NONE] = {"NONE", NULL, false},
    [CONCLAVE_REDIS_UNREADABLE] = {"UNREADABLE", NULL, false},
    [CONCLAVE_REDIS_OK] = {"OK", "ok", true},
    [CONCLAVE_REDIS_FAILING_OVER] = {"FAILING_OVER", "failing_over", false},
    [CONCLAVE_REDIS_NO_CANDIDATE] = {"NO_CANDIDATE", "no_candidate", false},
    [CONCLAVE_REDIS_DEGRADED] = {"DEGRADED", "degraded", true},
    [CONCLAVE_REDIS_NEEDS_OPERATOR] = {"NEEDS_OPERATOR", "needs_operator", false},
    [CONCLAVE_REDIS_PAUSED] = {"PAUSED", "paused", true},
};

enum { STATES = sizeof states / sizeof states[0] };

const char *conclave_redis_state_name(enum conclave_redis_state state)
{
    return (size_t)state < STATES ? states[state].name : "UNKNOWN";
}

bool redis_state_serves(enum conclave_redis_state state)
{
    return (size_t)state < STATES && states[state].serves;
}

/* --- views in one block --------------------------------------------------------------- */

static size_t text_size(const char *text)
{
    return text == NULL ? 0 : strlen(text) + 1;
}

static size_t list_size(const char *const *list, size_t count)
{
    size_t size = count * sizeof *list;
    for (size_t i = 0; i < count; i++) {
        size += text_size(list[i]);
    }
    return size;
}

static const char *text_put(char **at, const char *text)
{
    size_t size = text_size(text);
    if (size == 0) {
        return NULL;
    }
    char *copy = memcpy(*at, text, size);
    *at += size;
    return copy;
}

struct conclave_redis_view *redis_view_copy(const struct conclave_redis_view *view)
{
    size_t size = sizeof *view + list_size(view->replicas, view->replica_count) +
                  list_size(view->unavailable, view->unavailable_count) + text_size(view->master) +
                  text_size(view->host) + text_size(view->run_id) + text_size(view->reason);
    struct conclave_redis_view *copy = malloc(size);
    if (copy == NULL) {
        return NULL;
    }
    *copy = *view;
    const char **replicas = (const char **)(copy + 1);
    const char **unavailable = replicas + view->replica_count;
    char *at = (char *)(unavailable + view->unavailable_count);
    for (size_t i = 0; i < view->replica_count; i++) {
        replicas[i] = text_put(&at, view->replicas[i]);
    }
    for (size_t i = 0; i < view->unavailable_count; i++) {
        unavailable[i] = text_put(&at, view->unavailable[i]);
    }
    copy->replicas = replicas;
    copy->unavailable = unavailable;
    copy->master = text_put(&at, view->master);
    copy->host = text_put(&at, view->host);
    copy->run_id = text_put(&at, view->run_id);
    copy->reason = text_put(&at, view->reason);
    assert(at == (char *)copy + size);
    return copy;
}

void conclave_redis_view_free(struct conclave_redis_view *view)
{
    free(view);
}

static struct conclave_redis_view view_of(enum conclave_redis_state state, const char *reason)
{
    return (struct conclave_redis_view){.state = state, .host = "", .run_id = "", .reason = reason};
}

struct conclave_redis_view *redis_view_none(void)
{
    struct conclave_redis_view none = view_of(CONCLAVE_REDIS_NONE, "there is no record");
    return redis_view_copy(&none);
}

/* When memory is out, jansson reports some failed allocations as errors of the text, and by others it loses a byte of a
 * string without an error. So a text is read twice, and both have to agree. */
int redis_json_read(const void *data, size_t len, size_t flags, struct json_t **ret)
{
    json_error_t why = {.line = 0}; /* its code is not set in all cases */
    *ret = NULL;
    if (len == 0) {
        return CONCLAVE_ECORRUPT;
    }
    json_t *first = json_loadb(data, len, flags, NULL);
    json_t *second = json_loadb(data, len, flags, &why);
    if (first != NULL && second != NULL && json_equal(first, second)) {
        json_decref(second);
        *ret = first;
        return 0;
    }
    enum json_error_code code = json_error_code(&why); /* a wrong text has one of its own */
    bool starved = first != NULL || second != NULL || code == json_error_out_of_memory ||
                   code == json_error_unknown;
    json_decref(first);
    json_decref(second);
    return starved ? CONCLAVE_ENOMEM : CONCLAVE_ECORRUPT;
}

/* --- the record ------------------------------------------------------------------------ */

bool redis_view_address(const char *address, char buf[REDIS_VIEW_HOST_MAX + 1], int *ret_port)
{
    const char *colon = strrchr(address, ':');
    if (colon == NULL) {
        return false;
    }
    size_t len = (size_t)(colon - address);
    bool bracketed = len > 2 && address[0] == '[' && address[len - 1] == ']';
    const char *host = address + (bracketed ? 1 : 0);
    len -= bracketed ? 2 : 0;
    char *end;
    long port = strtol(colon + 1, &end, 10);
    if (len == 0 || len > REDIS_VIEW_HOST_MAX || colon[1] < '0' || colon[1] > '9' || *end != '\0' ||
        port < 1 || port > 65535) {
        return false;
    }
    memcpy(buf, host, len);
    buf[len] = '\0';
    *ret_port = (int)port;
    return true;
}

/* A list of texts, empty if there is none. The array is freed with free. */
static int texts_of(const json_t *object, const char *key, const char *const **ret, size_t *count)
{
    const json_t *list = json_object_get(object, key);
    size_t size = json_array_size(list);
    if (list != NULL && !json_is_array(list) && !json_is_null(list)) {
        return CONCLAVE_ECORRUPT;
    }
    const char **texts = calloc(size + 1, sizeof *texts);
    if (texts == NULL) {
        return CONCLAVE_ENOMEM;
    }
    for (size_t i = 0; i < size; i++) {
        texts[i] = json_string_value(json_array_get(list, i));
        if (texts[i] == NULL) {
            free(texts);
            return CONCLAVE_ECORRUPT;
        }
    }
    *ret = texts;
    *count = size;
    return 0;
}

/* A text, "" if there is none. */
static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

static bool state_read(const json_t *object, enum conclave_redis_state *ret)
{
    const char *word = text_of(object, "state");
    for (size_t i = 0; i < STATES; i++) {
        if (states[i].word != NULL && strcmp(states[i].word, word) == 0) {
            *ret = (enum conclave_redis_state)i;
            return true;
        }
    }
    return false;
}

/* Why this is no record, or NULL. */
static const char *native_read(const json_t *object, struct conclave_redis_view *view)
{
    const json_t *version = json_object_get(object, "version");
    const json_t *epoch = json_object_get(object, "epoch");
    if (version != NULL && json_integer_value(version) != VERSION) {
        return "a record of another version";
    }
    if (!json_is_integer(epoch) || json_integer_value(epoch) < 0) {
        return "no epoch";
    }
    if (!state_read(object, &view->state)) {
        return "a state that is not known here";
    }
    view->epoch = json_integer_value(epoch);
    view->run_id = text_of(object, "run_id");
    view->reason = text_of(object, "reason");
    return redis_state_serves(view->state) && view->epoch == 0 ? "a master without an epoch" : NULL;
}

static const char *master_read(const json_t *object, struct conclave_redis_view *view,
                               char host[REDIS_VIEW_HOST_MAX + 1])
{
    const json_t *master = json_object_get(object, "master");
    if (master == NULL || json_is_null(master)) {
        return redis_state_serves(view->state) ? "no master, and a state in which one serves"
                                               : NULL;
    }
    if (!json_is_string(master) ||
        !redis_view_address(json_string_value(master), host, &view->port)) {
        return "the master is not of the form host:port";
    }
    view->master = json_string_value(master);
    view->host = host;
    return NULL;
}

static const char *layout_read(enum conclave_redis_layout layout, const json_t *object,
                               struct conclave_redis_view *view, char host[REDIS_VIEW_HOST_MAX + 1])
{
    if (!json_is_object(object)) {
        return "not a record";
    }
    if (layout == CONCLAVE_REDIS_LAYOUT_NATIVE) {
        const char *wrong = native_read(object, view);
        return wrong != NULL ? wrong : master_read(object, view, host);
    }
    view->state = CONCLAVE_REDIS_NO_CANDIDATE; /* unless it names a master */
    const char *wrong = master_read(object, view, host);
    view->state = view->master != NULL ? CONCLAVE_REDIS_OK : view->state;
    return wrong;
}

int redis_view_read(enum conclave_redis_layout layout, const void *data, size_t len,
                    struct conclave_redis_view **ret)
{
    bool native = layout == CONCLAVE_REDIS_LAYOUT_NATIVE;
    struct conclave_redis_view view = view_of(CONCLAVE_REDIS_UNREADABLE, "");
    const char *const *replicas = NULL;
    const char *const *unavailable = NULL;
    char host[REDIS_VIEW_HOST_MAX + 1];
    json_t *object;
    int error = redis_json_read(data, len, JSON_REJECT_DUPLICATES, &object);
    if (error == CONCLAVE_ENOMEM) {
        return error;
    }
    const char *wrong = layout_read(layout, object, &view, host);
    error = 0;
    if (wrong == NULL) {
        error = texts_of(object, native ? "replicas" : "slaves", &replicas, &view.replica_count);
        if (error == 0) {
            error = texts_of(object, "unavailable", &unavailable, &view.unavailable_count);
        }
        wrong = error == CONCLAVE_ECORRUPT ? "the list of servers is none" : NULL;
        view.replicas = replicas;
        view.unavailable = unavailable;
    }
    if (wrong != NULL) {
        view = view_of(CONCLAVE_REDIS_UNREADABLE, wrong);
    }
    struct conclave_redis_view *copy = error == CONCLAVE_ENOMEM ? NULL : redis_view_copy(&view);
    free((void *)(uintptr_t)replicas);
    free((void *)(uintptr_t)unavailable);
    json_decref(object);
    if (copy == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *ret = copy;
    return 0;
}

/* --- a server's answer ------------------------------------------------------------------ */

static struct slice next_line(struct slice *rest)
{
    const char *begin = (const char *)rest->data;
    const char *end = memchr(begin, '\n', rest->len);
    size_t taken = end == NULL ? rest->len : (size_t)(end - begin) + 1;
    size_t len = end == NULL ? rest->len : (size_t)(end - begin);
    *rest = (struct slice){rest->data + taken, rest->len - taken};
    len -= len > 0 && begin[len - 1] == '\r' ? 1 : 0;
    return (struct slice){(const uint8_t *)begin, len};
}

static bool is_role(struct slice word)
{
    static const char *const roles[] = {"master", "slave", "replica", "sentinel"};
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) {
        if (slice_equal_str(word, roles[i])) {
            return true;
        }
    }
    return false;
}

static bool value_of(struct slice line, const char *key, struct slice *ret)
{
    size_t len = strlen(key);
    if (!slice_starts_with(line, slice_make(key, len))) {
        return false;
    }
    *ret = slice_make(line.data + len, line.len - len);
    return true;
}

bool redis_answer_read(const void *answer, size_t len, struct info_answer *ret)
{
    struct info_answer found = {{NULL, 0}, {NULL, 0}};
    struct slice rest = {answer, len};
    bool wire = len > 0 && *(const char *)answer == '*';
    if (is_role(rest)) {
        *ret = (struct info_answer){rest, {NULL, 0}};
        return true;
    }
    if (wire) { /* *N, $LENGTH, role */
        (void)next_line(&rest);
        (void)next_line(&rest);
        found.role = next_line(&rest);
    }
    while (!wire && rest.len > 0) {
        struct slice line = next_line(&rest);
        if (!value_of(line, "role:", &found.role)) {
            (void)value_of(line, "run_id:", &found.run_id);
        }
    }
    if (!is_role(found.role)) {
        return false;
    }
    *ret = found;
    return true;
}
