#include "redis/sentinel/sentinel_session.h"

#include "redis/sentinel/sentinel_commands.h"
#include "redis/sentinel/sentinel_http.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void sentinel_session_init(struct sentinel_session *s, const struct sentinel_backend *backend,
                           uint64_t id)
{
    assert(id != 0);
    *s = (struct sentinel_session){
        .backend = backend, .id = id, .logged_in = backend->users == NULL};
}

void sentinel_session_finish(struct sentinel_session *s)
{
    free(s->channels);
    s->channels = NULL;
    s->channel_count = 0;
}

/* Lines of a web page's form, whatever the protocol of the request. */
static bool is_cross_protocol(const struct sentinel_request *request)
{
    return request->count > 0 && (sentinel_word_is(request->words[0], "post") ||
                                  sentinel_word_is(request->words[0], "host:"));
}

size_t sentinel_session_take(struct sentinel_session *s, struct slice bytes, struct buf *out)
{
    size_t taken = 0;
    s->answered = 0;
    for (int left = SENTINEL_TURN_REQUESTS;
         left > 0 && s->state == SENTINEL_OPEN && taken < bytes.len && buf_ok(out) &&
         out->len < SENTINEL_ANSWERS_MAX;
         left--) {
        struct sentinel_request request;
        struct sentinel_out answer = {.buf = out, .resp3 = s->resp3};
        const char *why = "";
        size_t len = 0;
        int rc = sentinel_request_read(slice_make(bytes.data + taken, bytes.len - taken), &request,
                                       &len, &why);
        if (rc != 0) {
            out_error(&answer, "ERR %s", why);
            s->state = SENTINEL_OVER;
            break;
        }
        if (len == 0) {
            break;
        }
        taken += len;
        s->answered++;
        if (is_cross_protocol(&request)) {
            s->refusal = "it sends POST or Host:, as a browser does for a hostile web page";
            s->state = SENTINEL_OVER;
        } else if (request.http) {
            sentinel_http(s, &request, out);
            s->state = SENTINEL_OVER;
        } else if (request.count > 0) {
            sentinel_command(s, &request, &answer);
        }
    }
    return s->state == SENTINEL_OVER ? bytes.len : taken;
}

void sentinel_session_requested(struct sentinel_session *s, int error, struct buf *out)
{
    struct sentinel_out answer = {.buf = out, .resp3 = s->resp3};
    assert(s->state == SENTINEL_WAITING);
    s->state = SENTINEL_OPEN;
    if (error == 0) {
        out_status(&answer, "OK");
    } else {
        out_error(&answer, "ERR The request for a fail-over was not stored: %s",
                  conclave_strerror(error));
    }
}

static struct slice channel_text(const struct sentinel_channel *channel)
{
    return slice_make(channel->text, channel->len);
}

void sentinel_session_publish(const struct sentinel_session *s, const char *channel,
                              const char *message, struct buf *out)
{
    struct sentinel_out push = {.buf = out, .resp3 = s->resp3};
    struct slice name = slice_str(channel);
    for (size_t i = 0; i < s->channel_count; i++) {
        const struct sentinel_channel *c = &s->channels[i];
        if (!c->pattern && slice_equal(channel_text(c), name)) {
            out_push(&push, 3);
            out_text(&push, "message");
        } else if (c->pattern && sentinel_pattern_matches(channel_text(c), name)) {
            out_push(&push, 4);
            out_text(&push, "pmessage");
            out_slice(&push, channel_text(c));
        } else {
            continue;
        }
        out_text(&push, channel);
        out_text(&push, message);
    }
}

/* --- patterns */

/* Whether one element of the pattern (at *at, which moves behind it) matches the byte. */
static bool element_matches(struct slice pattern, size_t *at, uint8_t byte)
{
    uint8_t first = pattern.data[(*at)++];
    if (first == '\\' && *at < pattern.len) {
        return pattern.data[(*at)++] == byte;
    }
    if (first != '[') {
        return first == '?' || first == byte;
    }
    bool found = false;
    bool negated = *at < pattern.len && pattern.data[*at] == '^';
    *at += negated;
    while (*at < pattern.len && pattern.data[*at] != ']') {
        *at += pattern.data[*at] == '\\' && *at + 1 < pattern.len;
        uint8_t from = pattern.data[(*at)++];
        uint8_t to = from;
        if (*at + 1 < pattern.len && pattern.data[*at] == '-' && pattern.data[*at + 1] != ']') {
            to = pattern.data[*at + 1];
            *at += 2;
        }
        found = found || (from <= to ? byte >= from && byte <= to : byte >= to && byte <= from);
    }
    *at += *at < pattern.len;
    return found != negated;
}

bool sentinel_pattern_matches(struct slice pattern, struct slice text)
{
    size_t at = 0;
    size_t seen = 0;
    size_t star = SIZE_MAX; /* behind the last "*", and where its text ended so far */
    size_t star_seen = 0;
    while (seen < text.len || at < pattern.len) {
        size_t next = at;
        if (at < pattern.len && pattern.data[at] == '*') {
            star = ++at;
            star_seen = seen;
        } else if (seen < text.len && at < pattern.len &&
                   element_matches(pattern, &next, text.data[seen])) {
            at = next;
            seen++;
        } else if (star != SIZE_MAX && star_seen < text.len) {
            at = star;
            seen = ++star_seen;
        } else {
            return false;
        }
    }
    return true;
}
