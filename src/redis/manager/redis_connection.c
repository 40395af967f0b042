/* The link and its present connection (wire): connecting, log-in, commands, answers, deadlines. */
#include "redis/manager/redis_connection.h"

#include "base/list.h"
#include "base/transition.h"
#include "net/connector.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { WHY_MAX = 256, LINGER_MS = 200, ANSWER_DEPTH = 16 };

/* The type of the length of an array, by version of hiredis. */
#if HIREDIS_MAJOR >= 1
typedef size_t array_length;
#else
typedef int array_length;
#endif

/* A command that waits for its answer. */
struct sent_command {
    struct list node;
    redis_answer_fn fn;
    void *ctx;
    int64_t sent_ms;
    int64_t deadline_ms;
    int64_t left_us; /* when it was sent; -1 not yet */
};

/*
 * A connection; a link has one at a time. After its end it stays, detached, until libuv has closed it.
 *
 *   CONNECTING -- tcp --> SECURING -- TLS, if any --> LOGIN -- AUTH, if any --> READY
 */
struct wire {
    struct redis_link *link; /* NULL: detached */
    struct stream *stream;   /* NULL before it is connected */
    struct connector *connector;
    redisReader *reader;
    struct buf out; /* bytes that were not sent yet */
    /* bytes of an incomplete answer, with what the reader has made of them */
    size_t unread;
    enum wire_stage { WIRE_CONNECTING, WIRE_SECURING, WIRE_LOGIN, WIRE_READY } stage;
    bool subscribed;
    redisReplyObjectFunctions functions; /* hiredis' own, with a limit */
    void *(*plain_array)(const redisReadTask *task, array_length elements);
};

struct redis_link {
    uv_loop_t *loop;
    struct stream_buffer *read_buffer;
    const struct redis_access *access;
    struct net_address to;
    int64_t silence_ms;
    void (*on_cut)(void *ctx, enum redis_probe why, const char *text);
    void *ctx;

    struct wire *wire;    /* NULL: not connected */
    struct list commands; /* in the order of sending */
    struct buf waiting;   /* their bytes, while there is no READY wire */
    uv_timer_t timer;     /* the next deadline, or at once if `failed` */
    bool failed;          /* no wire could be made: the timer answers the commands */
    char why[WHY_MAX];    /* the reason of `failed` */
    enum redis_probe outcome;
    bool closing;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

int64_t redis_link_now_ms(void)
{
    return (int64_t)(uv_hrtime() / 1000000);
}

static int64_t now_us(void)
{
    return (int64_t)(uv_hrtime() / 1000);
}

/* --- the end of parts */

static void link_on_closed(uv_handle_t *handle)
{
    struct redis_link *l = handle->data;
    void (*closed)(void *) = l->closed;
    void *ctx = l->closed_ctx;
    assert(l->wire == NULL && list_empty(&l->commands));
    buf_finish(&l->waiting);
    stream_buffer_release(l->read_buffer);
    free(l);
    if (closed != NULL) {
        closed(ctx);
    }
}

static void wire_free(struct wire *w)
{
    if (w->reader != NULL) {
        redisReaderFree(w->reader);
    }
    buf_finish(&w->out);
    free(w);
}

/* Detaches the link's wire, which reports nothing from now on. The wire is not freed inside its own callbacks: libuv
 * closes it later, and a cancelled connector makes no callback. */
static void link_detach(struct redis_link *l, bool say_end)
{
    struct wire *w = l->wire;
    if (w == NULL) {
        return;
    }
    assert(w->link == l);
    l->wire = NULL;
    w->link = NULL;
    if (w->stream == NULL) {
        connector_cancel(w->connector);
        wire_free(w);
    } else if (say_end) {
        stream_finish(w->stream, LINGER_MS);
    } else {
        stream_close(w->stream);
    }
}

/* --- deadlines */

static void link_on_timer(uv_timer_t *timer);

static void link_arm(struct redis_link *l)
{
    int64_t next = INT64_MAX;
    if (l->closing) {
        return;
    }
    LIST_FOREACH (it, &l->commands) {
        const struct sent_command *c = CONTAINER_OF(it, struct sent_command, node);
        next = c->deadline_ms < next ? c->deadline_ms : next;
    }
    if (next == INT64_MAX) {
        uv_timer_stop(&l->timer);
        return;
    }
    int64_t left = l->failed ? 0 : next - redis_link_now_ms();
    uv_update_time(l->loop);
    uv_timer_start(&l->timer, link_on_timer, left > 0 ? (uint64_t)left : 0, 0);
}

/* --- answers */

static void command_answer(struct sent_command *c, struct redis_answer *answer)
{
    answer->sent_ms = c->sent_ms;
    answer->latency_us = -1;
    if (c->left_us >= 0 && redis_probe_answers(answer->outcome)) {
        answer->latency_us = now_us() - c->left_us;
    }
    c->fn(c->ctx, answer);
    free(c);
}

/* Answers all commands that wait now, not those that are sent meanwhile. */
static void link_answer_all(struct redis_link *l, enum redis_probe outcome, const char *text)
{
    char why[WHY_MAX];
    struct list over;
    struct list *it;
    list_init(&over);
    while ((it = list_pop_front(&l->commands)) != NULL) {
        list_push_back(&over, it);
    }
    snprintf(why, sizeof why, "%s", text);
    buf_reset(&l->waiting);
    l->failed = false;
    while ((it = list_pop_front(&over)) != NULL) {
        struct redis_answer answer = {.outcome = outcome, .text = why, .len = strlen(why)};
        command_answer(CONTAINER_OF(it, struct sent_command, node), &answer);
    }
}

/* The connection has ended. Called from the loop only, never inside a call of the owner. */
static void link_lost(struct redis_link *l, enum redis_probe outcome, const char *text)
{
    char why[WHY_MAX];
    bool stood = l->wire != NULL && l->wire->stage == WIRE_READY;
    bool idle = list_empty(&l->commands);
    snprintf(why, sizeof why, "%s", text);
    link_detach(l, false);
    link_answer_all(l, outcome, why);
    if (stood && idle && l->on_cut != NULL && !l->closing) {
        l->on_cut(l->ctx, outcome, why);
    }
    link_arm(l);
}

/* The same inside a call of the owner: the timer reports it. */
static void link_fail_soon(struct redis_link *l, enum redis_probe outcome, const char *text)
{
    l->failed = true;
    l->outcome = outcome;
    snprintf(l->why, sizeof l->why, "%s", text);
    link_arm(l);
}

static void link_on_timer(uv_timer_t *timer)
{
    struct redis_link *l = timer->data;
    int64_t now = redis_link_now_ms();
    if (l->failed) {
        link_lost(l, l->outcome, l->why);
        return;
    }
    LIST_FOREACH (it, &l->commands) {
        if (CONTAINER_OF(it, struct sent_command, node)->deadline_ms <= now) {
            static const char *const DOING[] = {"no connection in time", "no TLS handshake in time",
                                                "no answer to AUTH in time", "no answer in time"};
            link_lost(l, REDIS_PROBE_TIMEOUT, DOING[l->wire != NULL ? l->wire->stage : 0]);
            return;
        }
    }
    link_arm(l);
}

static enum redis_probe outcome_of(int error)
{
    switch (error) {
    case 0:
    case UV_EOF:
    case UV_ECONNRESET:
    case UV_EPIPE:
    case UV_ECONNABORTED:
        return REDIS_PROBE_CUT;
    case UV_ECONNREFUSED:
        return REDIS_PROBE_REFUSED;
    case UV_ETIMEDOUT:
        return REDIS_PROBE_TIMEOUT;
    default:
        return REDIS_PROBE_UNREACHABLE;
    }
}

/* CONNECTING ──> SECURING ──> LOGIN (with a password) ──> READY; any stage may end. */
static const uint16_t WIRE_NEXT[] = {
    [WIRE_CONNECTING] = TRANSITION_TO(WIRE_SECURING),
    [WIRE_SECURING] = TRANSITION_TO(WIRE_LOGIN) | TRANSITION_TO(WIRE_READY),
    [WIRE_LOGIN] = TRANSITION_TO(WIRE_READY),
    [WIRE_READY] = 0,
};

static void wire_enter(struct wire *w, enum wire_stage stage)
{
    transition_check(WIRE_NEXT, w->stage, stage);
    w->stage = stage;
}

/* --- sending */

static void wire_flush(struct wire *w)
{
    if (w->out.len > 0) {
        stream_send(w->stream, &w->out);
    }
}

static void wire_ready(struct wire *w)
{
    struct redis_link *l = w->link;
    int64_t now = now_us();
    wire_enter(w, WIRE_READY);
    LIST_FOREACH (it, &l->commands) {
        CONTAINER_OF(it, struct sent_command, node)->left_us = now;
    }
    buf_append_slice(&w->out, buf_slice(&l->waiting));
    buf_reset(&l->waiting);
    if (!buf_ok(&w->out)) {
        link_lost(l, REDIS_PROBE_UNREACHABLE, "out of memory");
        return;
    }
    wire_flush(w);
}

/* Sends "AUTH [user] password" if there is a password. */
static void wire_login(struct wire *w)
{
    const struct redis_access *a = w->link->access;
    const char *argv[3] = {"AUTH"};
    int argc = 1;
    char *text;
    if (a->password == NULL) {
        wire_ready(w);
        return;
    }
    wire_enter(w, WIRE_LOGIN);
    if (a->user != NULL) {
        argv[argc++] = a->user;
    }
    argv[argc++] = a->password;
    int len = redisFormatCommandArgv(&text, argc, argv, NULL);
    if (len < 0) {
        link_lost(w->link, REDIS_PROBE_UNREACHABLE, "out of memory");
        return;
    }
    buf_append(&w->out, text, (size_t)len);
    explicit_bzero(text, (size_t)len);
    redisFreeCommand(text);
    wire_flush(w);
}

/* --- reading */

/* Servers without a password refuse AUTH, but need no log-in. */
static bool login_is_needless(const char *text)
{
    return strstr(text, "without any password configured") != NULL ||
           strstr(text, "no password is set") != NULL;
}

static void wire_on_login(struct wire *w, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR && !login_is_needless(reply->str)) {
        enum redis_probe outcome = redis_probe_of_error(reply->str);
        link_lost(w->link, outcome, reply->str);
    } else {
        wire_ready(w);
    }
}

static void wire_on_reply(struct wire *w, const redisReply *reply)
{
    struct redis_link *l = w->link;
    struct redis_answer answer = {.outcome = REDIS_PROBE_OK, .text = ""};
    if (w->stage == WIRE_LOGIN) {
        wire_on_login(w, reply);
        return;
    }
    struct list *it = list_pop_front(&l->commands);
    if (it == NULL) {
        if (!w->subscribed && reply->type == REDIS_REPLY_ERROR) {
            link_lost(l, redis_probe_of_error(reply->str), reply->str);
        } else if (!w->subscribed) {
            link_lost(l, REDIS_PROBE_ERROR, "it answered what was not asked");
        }
        return;
    }
    if (reply->type == REDIS_REPLY_ARRAY) {
        const char *first = reply->elements > 0 ? reply->element[0]->str : NULL;
        w->subscribed = w->subscribed || (first != NULL && strcmp(first, "subscribe") == 0);
    } else if (reply->str != NULL) {
        answer.text = reply->str;
        answer.len = reply->len;
        if (reply->type == REDIS_REPLY_ERROR) {
            answer.outcome = redis_probe_of_error(reply->str);
        }
    }
    command_answer(CONTAINER_OF(it, struct sent_command, node), &answer);
    if (w->link != NULL) {
        link_arm(l);
    }
}

static size_t wire_on_data(void *owner, struct slice bytes)
{
    struct wire *w = owner;
    void *reply = NULL;
    if (w->link == NULL) {
        return bytes.len;
    }
    int rc = redisReaderFeed(w->reader, (const char *)bytes.data, bytes.len);
    w->unread += bytes.len;
    while (rc == REDIS_OK && w->link != NULL) {
        rc = redisReaderGetReply(w->reader, &reply);
        if (rc != REDIS_OK || reply == NULL) {
            break;
        }
        w->unread = w->reader->len - w->reader->pos;
        wire_on_reply(w, reply);
        freeReplyObject(reply);
    }
    if (w->link != NULL && rc != REDIS_OK) {
        link_lost(w->link, REDIS_PROBE_ERROR, "it does not speak Redis' protocol");
    } else if (w->link != NULL && w->unread > REDIS_ANSWER_MAX) {
        link_lost(w->link, REDIS_PROBE_ERROR, "its answer is too long");
    }
    return bytes.len;
}

static void wire_on_sent(void *owner)
{
    struct wire *w = owner;
    if (w->link != NULL) {
        wire_flush(w);
    }
}

static void wire_on_secured(void *owner)
{
    struct wire *w = owner;
    struct redis_link *l = w->link;
    if (l == NULL || w->stage != WIRE_SECURING) {
        return;
    }
    if (!l->access->tls_any_name && !stream_peer_is_for(w->stream, l->to.host)) {
        char why[WHY_MAX];
        snprintf(why, sizeof why, "its certificate is not for %.200s", l->to.host);
        link_lost(l, REDIS_PROBE_UNREACHABLE, why);
        return;
    }
    wire_login(w);
}

static void wire_on_ended(void *owner, int error)
{
    struct wire *w = owner;
    struct stream *s = w->stream;
    const char *problem = stream_tls_problem(s);
    if (w->link == NULL) {
        stream_close(s);
        return;
    }
    if (problem != NULL) {
        char why[WHY_MAX];
        snprintf(why, sizeof why, "TLS: %.240s", problem);
        link_lost(w->link, REDIS_PROBE_UNREACHABLE, why);
    } else {
        link_lost(w->link, outcome_of(error),
                  error != 0 ? uv_strerror(error) : "it closed the connection");
    }
}

static void wire_on_closed(void *owner)
{
    wire_free(owner);
}

static const struct stream_handler WIRE_HANDLER = {
    .data = wire_on_data,
    .sent = wire_on_sent,
    .secured = wire_on_secured,
    .ended = wire_on_ended,
    .closed = wire_on_closed,
};

/* The peer chooses the length of an array: no memory is allocated beyond the limit of an answer. And its depth, which hiredis 1.x
 * does not limit, but frees by recursion. */
static void *array_create(const redisReadTask *task, array_length elements)
{
    const struct wire *w = task->privdata;
    int depth = 0;
    for (const redisReadTask *at = task; at->parent != NULL && depth < ANSWER_DEPTH;
         at = at->parent) {
        depth++;
    }
    return elements <= REDIS_ANSWER_ITEMS && depth < ANSWER_DEPTH ? w->plain_array(task, elements)
                                                                  : NULL;
}

static redisReader *reader_create(struct wire *w)
{
    redisReader *r = redisReaderCreate();
    if (r != NULL) {
        w->functions = *r->fn;
        w->plain_array = w->functions.createArray;
        w->functions.createArray = array_create;
        r->fn = &w->functions;
        r->privdata = w;
    }
    return r;
}

/* --- connecting */

/* The kernel notices a peer that vanishes, too. These options help, but nothing depends on them. */
static void wire_set_limits(struct wire *w, int64_t silence_ms)
{
    uv_os_fd_t fd;
    if (uv_fileno((const uv_handle_t *)stream_handle(w->stream), &fd) != 0) {
        return;
    }
    int interval = (int)(silence_ms / 3000) + 1;
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_USER_TIMEOUT, (int)silence_ms},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, interval},
        {IPPROTO_TCP, TCP_KEEPINTVL, interval},
        {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof options[i].value);
    }
}

static void wire_on_connected(void *ctx, struct stream *stream, int error)
{
    struct wire *w = ctx;
    struct redis_link *l = w->link;
    struct tls_context *tls = l->access->tls;
    assert(l != NULL && l->wire == w && w->stage == WIRE_CONNECTING);
    w->connector = NULL;
    if (stream == NULL) {
        /* There is no stream whose close would free the wire. */
        l->wire = NULL;
        wire_free(w);
        link_lost(l, outcome_of(error), uv_strerror(error));
        return;
    }
    w->stream = stream;
    wire_enter(w, WIRE_SECURING);
    bool ok = tls == NULL || stream_use_tls_client(stream, tls, l->to.host, false) == 0;
    if (stream_start(stream, &WIRE_HANDLER, w) != 0 || !ok) {
        link_lost(l, ok ? REDIS_PROBE_CUT : REDIS_PROBE_UNREACHABLE,
                  ok ? "it closed the connection" : "out of memory");
        return;
    }
    wire_set_limits(w, l->silence_ms);
    if (tls == NULL) {
        wire_login(w);
    }
}

/* Starts to connect; the timer reports an immediate failure. */
static void link_connect(struct redis_link *l)
{
    assert(l->wire == NULL && !l->closing);
    struct wire *w = calloc(1, sizeof *w);
    if (w == NULL || (w->reader = reader_create(w)) == NULL) {
        free(w);
        link_fail_soon(l, REDIS_PROBE_UNREACHABLE, "out of memory");
        return;
    }
    w->link = l;
    buf_init(&w->out, 0);
    if (connector_start(l->loop, &l->to, 0, l->read_buffer, wire_on_connected, w, &w->connector) !=
        0) {
        wire_free(w);
        link_fail_soon(l, REDIS_PROBE_UNREACHABLE, "out of memory");
        return;
    }
    l->wire = w;
}

/* --- for the owner */

int redis_link_create(const struct redis_link_settings *settings, struct redis_link **ret)
{
    struct redis_link *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return CONCLAVE_ENOMEM;
    }
    if ((size_t)snprintf(l->to.host, sizeof l->to.host, "%s", settings->host) >=
        sizeof l->to.host) {
        free(l);
        return CONCLAVE_EINVAL;
    }
    l->to.port = (uint16_t)settings->port;
    l->loop = settings->loop;
    l->access = settings->access;
    l->silence_ms = settings->silence_ms;
    l->on_cut = settings->on_cut;
    l->ctx = settings->ctx;
    l->read_buffer = stream_buffer_share(settings->read_buffer);
    list_init(&l->commands);
    buf_init(&l->waiting, 0);
    if (uv_timer_init(l->loop, &l->timer) != 0) {
        abort(); /* cannot fail: it allocates nothing */
    }
    l->timer.data = l;
    *ret = l;
    return 0;
}

int redis_link_send(struct redis_link *link, int argc, const char *const *argv, int64_t timeout_ms,
                    redis_answer_fn fn, void *ctx)
{
    struct sent_command *c = calloc(1, sizeof *c);
    char *text = NULL;
    bool ready = link->wire != NULL && link->wire->stage == WIRE_READY;
    struct buf *out = ready ? &link->wire->out : &link->waiting;
    if (c == NULL) {
        return CONCLAVE_ENOMEM;
    }
    int len = redisFormatCommandArgv(&text, argc, (const char **)argv, NULL);
    if (len < 0 || buf_reserve(out, (size_t)len) != 0) {
        redisFreeCommand(text);
        free(c);
        return CONCLAVE_ENOMEM;
    }
    buf_append(out, text, (size_t)len);
    redisFreeCommand(text);
    list_init(&c->node);
    c->fn = fn;
    c->ctx = ctx;
    c->sent_ms = redis_link_now_ms();
    c->deadline_ms = c->sent_ms + timeout_ms;
    c->left_us = ready ? now_us() : -1;
    list_push_back(&link->commands, &c->node);
    if (ready) {
        wire_flush(link->wire);
    } else if (link->wire == NULL && !link->failed) {
        link_connect(link);
    }
    link_arm(link);
    return 0;
}

void redis_link_drop(struct redis_link *link)
{
    link_detach(link, true);
    if (!list_empty(&link->commands)) {
        link_fail_soon(link, REDIS_PROBE_CUT, "the connection was given up");
    }
}

bool redis_link_waits(const struct redis_link *link)
{
    return !list_empty(&link->commands);
}

bool redis_link_stands(const struct redis_link *link)
{
    return link->wire != NULL && link->wire->stage == WIRE_READY;
}

const char *redis_link_peer(const struct redis_link *link)
{
    return redis_link_stands(link) ? stream_peer(link->wire->stream)->host : "";
}

bool redis_link_local(const struct redis_link *link, struct net_address *ret)
{
    if (redis_link_stands(link)) {
        stream_local(link->wire->stream, ret);
    }
    return redis_link_stands(link);
}

void redis_link_close(struct redis_link *link, void (*closed)(void *ctx), void *ctx)
{
    assert(!link->closing);
    link->closing = true;
    link->closed = closed;
    link->closed_ctx = ctx;
    link_detach(link, true);
    uv_timer_stop(&link->timer);
    link_answer_all(link, REDIS_PROBE_NONE, "closed");
    uv_close((uv_handle_t *)&link->timer, link_on_closed);
}
