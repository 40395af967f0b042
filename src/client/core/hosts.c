#include "client/core/hosts.h"

#include "base/backoff.h"
#include "base/transition.h"
#include "client/core/path.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    BACKOFF_MIN_MS = 50,
    BACKOFF_MAX_MS = 1000,
    BACKOFF_PER_SESSION = 10, /* the longest pause is this part of the session's timeout */
    CONNECT_MIN_MS = 200,
    CONNECT_MAX_MS = 10000,
    SHORT_LIFE_MS = 1000, /* a link lost sooner counts as a failed round */
};

static bool parse_port(struct slice text, uint16_t *ret)
{
    uint32_t port = 0;
    if (text.len == 0 || text.len > 5) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(text.data[i] - '0');
    }
    *ret = (uint16_t)port;
    return port > 0 && port <= UINT16_MAX;
}

static void set_port(union host_address *address, uint16_t port)
{
    if (address->any.sa_family == AF_INET6) {
        address->v6.sin6_port = htons(port);
    } else {
        address->v4.sin_port = htons(port);
    }
}

static bool parse_numeric(const char *name, union host_address *ret)
{
    memset(ret, 0, sizeof *ret);
    if (inet_pton(AF_INET, name, &ret->v4.sin_addr) == 1) {
        ret->v4.sin_family = AF_INET;
        return true;
    }
    if (inet_pton(AF_INET6, name, &ret->v6.sin6_addr) == 1) {
        ret->v6.sin6_family = AF_INET6;
        return true;
    }
    return false;
}

static bool name_is_valid(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];
        if (c <= ' ' || c == 0x7f || c == '[' || c == ']') {
            return false;
        }
    }
    return name.len > 0 && name.len <= HOST_NAME_LEN;
}

/* One "host", "host:port", "[v6]" or "[v6]:port". */
static bool parse_host(struct slice text, struct server_host *ret)
{
    struct slice name = text;
    struct slice port = SLICE_NULL;
    bool bracket = text.len > 0 && text.data[0] == '[';
    const uint8_t *end = text.data + text.len;
    const uint8_t *colon;
    if (bracket) {
        const uint8_t *close = memchr(text.data, ']', text.len);
        if (close == NULL || (close + 1 != end && close[1] != ':')) {
            return false;
        }
        name = slice_make(text.data + 1, (size_t)(close - text.data - 1));
        colon = close + 1 != end ? close + 1 : NULL;
    } else {
        colon = memchr(text.data, ':', text.len);
        name.len = colon != NULL ? (size_t)(colon - text.data) : text.len;
    }
    if (colon != NULL) {
        port = slice_make(colon + 1, (size_t)(end - colon - 1));
    }
    memset(ret, 0, sizeof *ret);
    ret->port = HOSTS_DEFAULT_PORT;
    if (!name_is_valid(name) || (colon != NULL && !parse_port(port, &ret->port))) {
        return false;
    }
    memcpy(ret->name, name.data, name.len);
    ret->numeric = parse_numeric(ret->name, &ret->addresses[0]);
    if (bracket && !(ret->numeric && ret->addresses[0].any.sa_family == AF_INET6)) {
        return false;
    }
    set_port(&ret->addresses[0], ret->port);
    return true;
}

static struct slice trim(struct slice s)
{
    while (s.len > 0 && (s.data[0] == ' ' || s.data[0] == '\t')) {
        s = slice_make(s.data + 1, s.len - 1);
    }
    while (s.len > 0 && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t')) {
        s.len--;
    }
    return s;
}

static int parse_list(struct hosts *h, struct slice text)
{
    size_t count = 1;
    for (size_t i = 0; i < text.len; i++) {
        count += text.data[i] == ',';
    }
    if (count > HOSTS_MAX) {
        h->bad = text;
        return CONCLAVE_EINVAL;
    }
    h->list = calloc(count, sizeof *h->list);
    if (h->list == NULL) {
        return CONCLAVE_ENOMEM;
    }
    while (h->count < count) {
        const uint8_t *comma = text.len > 0 ? memchr(text.data, ',', text.len) : NULL;
        size_t len = comma != NULL ? (size_t)(comma - text.data) : text.len;
        h->bad = trim(slice_make(text.data, len));
        if (!parse_host(h->bad, &h->list[h->count])) {
            return CONCLAVE_EINVAL;
        }
        h->count++;
        text = comma != NULL ? slice_make(comma + 1, text.len - len - 1) : text;
    }
    return 0;
}

static void shuffle(struct hosts *h)
{
    for (size_t i = h->count - 1; i > 0; i--) {
        size_t j = (size_t)(prng_next(&h->prng) % (i + 1));
        struct server_host t = h->list[i];
        h->list[i] = h->list[j];
        h->list[j] = t;
    }
}

int hosts_parse_in_order(struct hosts *h, const char *text, char **ret_chroot)
{
    *h = (struct hosts){.pause_min_ms = BACKOFF_MIN_MS, .pause_max_ms = BACKOFF_MAX_MS};
    const char *slash = strchr(text, '/');
    const char *chroot = slash != NULL && slash[1] != '\0' ? slash : "";
    if (chroot[0] != '\0' && !path_is_valid(chroot, false)) {
        h->bad = slice_str(chroot);
        return CONCLAVE_EINVAL;
    }
    int rc = parse_list(h, slice_make(text, slash != NULL ? (size_t)(slash - text) : strlen(text)));
    char *copy = rc == 0 ? strdup(chroot) : NULL;
    if (rc == 0 && copy == NULL) {
        rc = CONCLAVE_ENOMEM;
    }
    if (rc != 0) {
        hosts_finish(h);
        return rc;
    }
    *ret_chroot = copy;
    return 0;
}

int hosts_parse(struct hosts *h, const char *text, uint64_t seed, char **ret_chroot)
{
    int rc = hosts_parse_in_order(h, text, ret_chroot);
    if (rc == 0) {
        h->prng = (struct prng){seed};
        shuffle(h);
    }
    return rc;
}

void hosts_for_session(struct hosts *h, int64_t session_timeout_ms)
{
    int64_t ms = session_timeout_ms / BACKOFF_PER_SESSION;
    h->pause_max_ms = ms < BACKOFF_MIN_MS   ? BACKOFF_MIN_MS
                      : ms > BACKOFF_MAX_MS ? BACKOFF_MAX_MS
                                            : ms;
}

void hosts_finish(struct hosts *h)
{
    free(h->list);
    h->list = NULL;
    h->count = 0;
}

struct server_host *hosts_find(const struct hosts *h, const char *name, uint16_t port)
{
    for (size_t i = 0; i < h->count; i++) {
        if (h->list[i].port == port && strcasecmp(h->list[i].name, name) == 0) {
            return &h->list[i];
        }
    }
    return NULL;
}

/* Whether a client of one of `before` servers leaves it for a list of `after`, `kept` of which it knew; listed: its own
 * server is one of them. *ret_added: it goes to one that was added. Every client that gets the list draws for itself, and
 * then all servers have the same number of clients, if they had so before. */
static bool draw_move(struct prng *prng, size_t before, size_t after, size_t kept, bool listed,
                      bool *ret_added)
{
    uint64_t draw = prng_next(prng);
    *ret_added = true;
    if (listed) {
        return after > before && draw % after < after - before;
    }
    assert(before > kept);
    if (after < before) {
        /* The kept servers need (before - after) / (after * before) more each, the removed ones give (before - kept) /
         * before. */
        *ret_added = draw % (after * (before - kept)) >= kept * (before - after);
    }
    return true;
}

/* Moves the entries that were added (or those that were not) to the front. */
static void put_first(struct hosts *h, const struct hosts *old, bool added)
{
    size_t front = 0;
    for (size_t i = 0; i < h->count; i++) {
        bool is_added = hosts_find(old, h->list[i].name, h->list[i].port) == NULL;
        if (is_added == added) {
            struct server_host t = h->list[front];
            h->list[front++] = h->list[i];
            h->list[i] = t;
        }
    }
}

bool hosts_replace(struct hosts *h, struct hosts *next, const char *name, uint16_t port)
{
    size_t kept = 0;
    for (size_t i = 0; i < h->count; i++) { /* of these, because next may name one twice */
        kept += hosts_find(next, h->list[i].name, h->list[i].port) != NULL;
    }
    next->prng = h->prng;
    shuffle(next);
    bool move = false;
    /* A server that was not in the old list either, after several changes, has no share to give. */
    bool known = name != NULL && hosts_find(h, name, port) != NULL;
    bool listed = name != NULL && hosts_find(next, name, port) != NULL;
    if (known) {
        bool added;
        move = draw_move(&next->prng, h->count, next->count, kept, listed, &added);
        if (move) {
            put_first(next, h, added);
        }
    }
    h->prng = next->prng;
    free(h->list);
    h->list = next->list;
    h->count = next->count;
    h->cursor = 0;
    h->failures = 0;
    h->not_before_ns = 0;
    next->list = NULL;
    next->count = 0;
    return name != NULL && (move || !listed);
}

static int64_t backoff_ns(struct hosts *h)
{
    unsigned doublings = h->failures > 0 ? h->failures - 1 : 0;
    int64_t pause_ms = backoff_longest(h->pause_min_ms, h->pause_max_ms, doublings);
    return backoff_jitter_from(pause_ms * 1000000, prng_next(&h->prng));
}

static void host_enter(struct server_host *host, enum host_state state)
{
    static const uint16_t NEXT[] = {
        [HOST_IDLE] =
            TRANSITION_TO(HOST_IDLE) | TRANSITION_TO(HOST_LOOKUP) | TRANSITION_TO(HOST_READY),
        [HOST_LOOKUP] = TRANSITION_TO(HOST_ASKED),
        [HOST_ASKED] = TRANSITION_TO(HOST_READY) | TRANSITION_TO(HOST_DONE),
        [HOST_READY] = TRANSITION_TO(HOST_IDLE) | TRANSITION_TO(HOST_DONE),
        [HOST_DONE] = TRANSITION_TO(HOST_IDLE),
    };
    transition_check(NEXT, host->state, state);
    assert(state != HOST_READY || (host->next == 0 && host->count > 0));
    host->state = state;
}

static bool host_is_looked_up(const struct server_host *host)
{
    return host->state == HOST_LOOKUP || host->state == HOST_ASKED;
}

/* Every host may be tried again; running lookups continue. */
static void round_begin(struct hosts *h)
{
    for (size_t i = 0; i < h->count; i++) {
        if (!host_is_looked_up(&h->list[i])) {
            host_enter(&h->list[i], HOST_IDLE);
        }
    }
}

/* Makes an untried host of this round ready, if that needs no lookup. */
static void host_prepare(struct server_host *host)
{
    if (host->state != HOST_IDLE) {
        return;
    }
    host->next = 0;
    if (host->numeric) {
        host->count = 1;
    }
    host_enter(host, host->numeric ? HOST_READY : HOST_LOOKUP);
}

enum hosts_step hosts_next(struct hosts *h, int64_t now_ns, const struct server_host **ret_host,
                           const union host_address **ret_address)
{
    if (now_ns < h->not_before_ns) {
        return HOSTS_WAIT;
    }
    size_t lookups = 0;
    for (size_t i = 0; i < h->count; i++) {
        size_t at = (h->cursor + i) % h->count;
        struct server_host *host = &h->list[at];
        host_prepare(host);
        if (host->state == HOST_READY) {
            assert(host->next < host->count);
            *ret_host = host;
            *ret_address = &host->addresses[host->next++];
            if (host->next == host->count) {
                host_enter(host, HOST_DONE);
                h->cursor = (at + 1) % h->count;
            } else {
                h->cursor = at;
            }
            return HOSTS_CONNECT;
        }
        lookups += host_is_looked_up(host);
    }
    if (lookups == h->count) {
        h->not_before_ns = 0;
        return HOSTS_LOOKUP;
    }
    h->failures++;
    h->not_before_ns = now_ns + backoff_ns(h);
    round_begin(h);
    return HOSTS_WAIT;
}

struct server_host *hosts_lookup_begin(struct hosts *h)
{
    for (size_t i = 0; i < h->count; i++) {
        struct server_host *host = &h->list[i];
        if (host->state == HOST_LOOKUP) {
            host_enter(host, HOST_ASKED);
            return host;
        }
    }
    return NULL;
}

void hosts_lookup_end(struct hosts *h, struct server_host *host,
                      const union host_address *addresses, unsigned count)
{
    assert(!host->numeric && host >= h->list && host < h->list + h->count);
    host->next = 0;
    host->count = count < HOST_ADDRESSES ? count : HOST_ADDRESSES;
    for (unsigned i = 0; i < host->count; i++) {
        host->addresses[i] = addresses[i];
        set_port(&host->addresses[i], host->port);
    }
    host_enter(host, host->count > 0 ? HOST_READY : HOST_DONE);
    if (host->count > 0) {
        h->not_before_ns = 0;
    }
}

void hosts_lost(struct hosts *h, int64_t now_ns, int64_t lived_ns)
{
    bool brief = lived_ns < (int64_t)SHORT_LIFE_MS * 1000000;
    h->failures = brief ? h->failures + 1 : 0;
    h->not_before_ns = brief ? now_ns + backoff_ns(h) : now_ns;
    round_begin(h);
}

int64_t hosts_connect_timeout_ms(const struct hosts *h, int64_t session_timeout_ms)
{
    if (h->connect_ms != 0) {
        return h->connect_ms;
    }
    int64_t ms = session_timeout_ms / (int64_t)h->count;
    return ms < CONNECT_MIN_MS ? CONNECT_MIN_MS : ms > CONNECT_MAX_MS ? CONNECT_MAX_MS : ms;
}
