/* Sessions, schedule and loop. */
#include "cli/bench/bench.h"
#include "cli/common/connection.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 256,
    LOOK_AT_ALL_MS =
        5, /* how often the timeouts of all sessions are looked at, beside readable ones */
    SECOND_US = 1000000,
    BEGUN_AT_ONCE = 1000, /* operations between two looks at the sockets */
    SIGNAL_KEY = BENCH_SESSIONS_MAX,
};

int64_t bench_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND_US + t.tv_nsec / 1000;
}

/* Sessions */

static void session_on_state(struct conclave_client *client, enum conclave_state state, void *ctx)
{
    struct bench_session *s = ctx;
    s->connected = state == CONCLAVE_STATE_CONNECTED || state == CONCLAVE_STATE_RECONNECTED;
}

static int session_open(struct bench *b, size_t i)
{
    struct conclave_client_options o = CONCLAVE_CLIENT_OPTIONS_INIT;
    struct common_options common = b->options->common;
    struct bench_session *s = &b->sessions[i];
    common.server = b->servers[i % b->n_servers];
    o.on_state = session_on_state;
    o.ctx = s;
    o.request_timeout_ms = common.timeout_ms;
    o.max_requests = (size_t)b->options->outstanding + 100;
    o.max_request = (size_t)b->options->data_bytes * 2 + 65536;
    int code = connection_create("bench", &common, &o, &s->client);
    if (code != 0) {
        return code;
    }
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
    if (epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, conclave_client_fd(s->client), &event) != 0) {
        return fail("bench", NULL, CONCLAVE_EIO);
    }
    b->n_sessions++;
    return 0;
}

static void dispatch(struct bench_session *s)
{
    int ignored = conclave_client_dispatch(s->client);
    (void)ignored; /* CONCLAVE_ECLOSED is of no interest here: nobody closed it */
}

/* All whose time has come; the least time until the next one, at most LOOK_AT_ALL_MS. */
static void dispatch_due(struct bench *b)
{
    for (size_t i = 0; i < b->n_sessions; i++) {
        if (conclave_client_timeout_ms(b->sessions[i].client) == 0) {
            dispatch(&b->sessions[i]);
        }
    }
}

/* Waits for the sockets, and reads what they have. The signal that came, or 0. */
static int wait_and_dispatch(struct bench *b, int signal_fd, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int number = 0;
    int n = epoll_wait(b->epoll_fd, events, EVENTS_MAX, timeout_ms);
    for (int i = 0; i < n; i++) {
        uint64_t key = events[i].data.u64;
        struct signalfd_siginfo info;
        if (key != SIGNAL_KEY) {
            assert(key < b->n_sessions);
            dispatch(&b->sessions[key]);
        } else if (read(signal_fd, &info, sizeof info) == sizeof info) {
            number = (int)info.ssi_signo;
        }
    }
    return number;
}

static size_t connected(const struct bench *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_sessions; i++) {
        n += b->sessions[i].connected;
    }
    return n;
}

static int sessions_open(struct bench *b, int signal_fd, int *ret_signal)
{
    const struct common_options *o = &b->options->common;
    for (size_t i = 0; i < (size_t)b->options->sessions; i++) {
        int code = session_open(b, i);
        if (code != 0) {
            return code;
        }
    }
    int64_t until_us = bench_now_us() + o->timeout_ms * 1000;
    while (connected(b) < b->n_sessions && bench_now_us() < until_us && *ret_signal == 0) {
        *ret_signal = wait_and_dispatch(b, signal_fd, LOOK_AT_ALL_MS);
        dispatch_due(b);
    }
    for (size_t i = 0; i < b->n_sessions && *ret_signal == 0; i++) {
        if (!b->sessions[i].connected) {
            fprintf(stderr, "conclave bench: %zu of %zu sessions were opened in time\n",
                    connected(b), b->n_sessions);
            return fail_unreachable("bench", b->sessions[i].client, o, CONCLAVE_ETIMEDOUT);
        }
    }
    return 0;
}

/* All at once, so that the time does not grow with their number. */
static void sessions_close(struct bench *b)
{
    for (size_t i = 0; i < b->n_sessions; i++) {
        epoll_ctl(b->epoll_fd, EPOLL_CTL_DEL, conclave_client_fd(b->sessions[i].client), NULL);
        connection_close(b->sessions[i].client);
    }
    b->n_sessions = 0;
}

/* Schedule */

static struct bench_slot *bench_slot_take(struct bench *b)
{
    struct bench_slot *slot = b->free_slots;
    if (slot != NULL) {
        assert(!slot->busy && slot->bench == b);
        b->free_slots = slot->next_free;
        slot->next_free = NULL;
    }
    return slot;
}

/* When operation number k is due. */
static int64_t due_of(const struct bench *b, uint64_t k)
{
    return b->begin_us + (int64_t)((double)k * SECOND_US / (double)b->options->rate);
}

/* Begins what is due. Microseconds until the next one is due; -1: an answer decides. */
static int64_t begin_due(struct bench *b)
{
    int64_t now = bench_now_us();
    for (int i = 0; i < BEGUN_AT_ONCE; i++) {
        bool paced = b->options->rate > 0;
        int64_t due = paced ? due_of(b, b->next) : now;
        if (b->stopped || due >= b->end_us) {
            return -1;
        }
        if (due > now) {
            return due - now;
        }
        struct bench_slot *slot = bench_slot_take(b);
        if (slot == NULL) {
            return -1;
        }
        b->next++;
        bench_operation_begin(b, slot, due);
    }
    return 0;
}

/* Whether all that was due has its answer. */
static bool is_done(const struct bench *b, int64_t now)
{
    bool more =
        !b->stopped && (b->options->rate > 0 ? due_of(b, b->next) < b->end_us : now < b->end_us);
    return !more && b->busy == 0;
}

/* What was due and has no answer yet, counted with the least that it took. */
static void count_unfinished(struct bench *b)
{
    int64_t now = bench_now_us();
    for (size_t i = 0; i < b->n_slots; i++) {
        struct bench_slot *s = &b->slots[i];
        if (s->busy && !s->failed && s->due_us >= b->record_us && s->due_us < b->end_us) {
            latency_histogram_add(&b->rows[s->row].latencies, (uint64_t)(now - s->due_us));
            b->rows[s->row].errors++;
            b->unfinished++;
        }
    }
    assert(b->unfinished <= b->busy);
    while (b->options->rate > 0 && !b->stopped && due_of(b, b->next) < b->end_us) {
        b->unfinished += due_of(b, b->next) >= b->record_us;
        b->next++;
    }
    if (b->unfinished > 0) {
        bench_count_error(b, CONCLAVE_OPERATION_TIMEOUT, b->unfinished);
    }
}

static bool slots_make(struct bench *b)
{
    size_t per = (size_t)b->options->outstanding;
    b->slots = calloc(b->n_sessions * per, sizeof *b->slots);
    if (b->slots == NULL) {
        return false;
    }
    b->n_slots = b->n_sessions * per;
    /* The first of every session comes before the second of any. */
    for (size_t k = b->n_slots; k-- > 0;) {
        struct bench_slot *slot = &b->slots[k];
        slot->bench = b;
        slot->session = (uint32_t)(k % b->n_sessions);
        slot->next_free = b->free_slots;
        b->free_slots = slot;
    }
    return true;
}

/* Once per second. */
static void tell_progress(struct bench *b, int64_t now, int64_t *next_us)
{
    if (now >= *next_us) {
        if (b->options->progress) {
            bench_progress(b, (*next_us - b->record_us) / SECOND_US);
        }
        b->second = (struct latency_histogram){0};
        b->second_errors = 0;
        *next_us += ((now - *next_us) / SECOND_US + 1) * SECOND_US;
    }
}

/* Waits at most until the next operation is due; epoll waits whole milliseconds, and the rest is spent looking. */
static int time_to_wait(int64_t until_due_us)
{
    if (until_due_us < 0 || until_due_us > LOOK_AT_ALL_MS * 1000) {
        return LOOK_AT_ALL_MS;
    }
    return (int)(until_due_us / 1000);
}

static int run(struct bench *b, int signal_fd)
{
    const struct bench_options *o = b->options;
    int signal_number = 0;
    assert(b->busy == 0 && b->free_slots != NULL && b->n_slots > 0);
    b->begin_us = bench_now_us();
    b->record_us = b->begin_us + o->warm_up_ms * 1000;
    b->end_us = b->record_us + o->duration_ms * 1000;
    int64_t give_up_us = b->end_us + o->common.timeout_ms * 1000;
    int64_t progress_us = b->record_us + SECOND_US;
    int64_t look_us = 0;
    int64_t now = b->begin_us;
    while (!is_done(b, now) && now < give_up_us) {
        int64_t until_due = begin_due(b);
        if (now >= look_us || b->n_sessions <= EVENTS_MAX) {
            dispatch_due(b); /* also sends what was begun */
            look_us = now + 1000;
        }
        int number = wait_and_dispatch(b, signal_fd, time_to_wait(until_due));
        now = bench_now_us();
        if (number != 0 && signal_number == 0) {
            signal_number = number;
            b->stopped = true;
            give_up_us = now + SECOND_US;
            b->end_us = now < b->end_us ? now : b->end_us;
        }
        tell_progress(b, now, &progress_us);
    }
    count_unfinished(b);
    int64_t measured = (b->end_us < now ? b->end_us : now) - b->record_us;
    b->measured_us = measured > 0 ? (uint64_t)measured : 0;
    return signal_number;
}

int bench_run(struct bench *b, int signal_fd, int *ret_signal)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = SIGNAL_KEY};
    b->sessions = calloc((size_t)b->options->sessions, sizeof *b->sessions);
    b->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int code = 0;
    if (b->sessions == NULL || b->epoll_fd < 0 ||
        epoll_ctl(b->epoll_fd, EPOLL_CTL_ADD, signal_fd, &event) != 0) {
        code = fail("bench", NULL, b->sessions == NULL ? CONCLAVE_ENOMEM : CONCLAVE_EIO);
        goto out;
    }
    code = sessions_open(b, signal_fd, ret_signal);
    if (code == 0 && *ret_signal == 0) {
        code = slots_make(b) ? 0 : fail("bench", NULL, CONCLAVE_ENOMEM);
    }
    if (code == 0 && *ret_signal == 0) {
        *ret_signal = run(b, signal_fd);
    }
out:
    b->stopped = true;
    b->end_us = 0; /* answers that come now count for nothing */
    sessions_close(b);
    for (size_t i = 0; i < b->n_slots; i++) {
        free(b->slots[i].made);
    }
    free(b->slots);
    free(b->sessions);
    if (b->epoll_fd >= 0) {
        close(b->epoll_fd);
    }
    return code;
}
