/*
 * Every allocation of the service fails once, in turn, while a client connects, asks for a bit of everything and leaves. It
 * gets the right answers, or loses its connection, or the process ends inside apply, where going on would diverge. Others are
 * served as ever, and nothing is leaked.
 */
#include "support/service_harness.h"

#include "base/log.h"
#include "support/starve.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    FRAMES_MAX = 16,
    ROOM = 1 << 16,
    ALLOCATIONS_MOST = 2000,
    NONE_FAILED = 3,

    TIMEOUT_MS = 10000
};

/* The client's request, and the error of its answer. */
static struct script {
    struct buf bytes;
    int32_t xid;
    int32_t err;
} script[FRAMES_MAX];
static int frames;

/* Reported to the parent. */
static struct told {
    bool applying;
    bool dropped;
} * told;

/* --- the script ----------------------------------------------------------------------------------- */

static void add_frame(int32_t type, struct slice body, int32_t err)
{
    struct script *s = &script[frames++];
    struct buf frame;
    assert_true(frames <= FRAMES_MAX);
    buf_init(&frame, 0);
    s->xid = type == WIRE_AUTH ? WIRE_XID_AUTH : type == WIRE_PING ? WIRE_XID_PING : frames;
    wire_write_i32(&frame, s->xid);
    wire_write_i32(&frame, type);
    buf_append_slice(&frame, body);
    buf_init(&s->bytes, 0);
    wire_write_buffer(&s->bytes, buf_slice(&frame));
    s->err = err;
    buf_finish(&frame);
}

static void write_script(void)
{
    struct buf multi;
    buf_init(&multi, 0);
    assert_int_equal(digest_id(&multi, NULL, slice_str("u:p")),
                     0); /* OpenSSL keeps what it fetches once */
    buf_finish(&multi);
    add_frame(WIRE_AUTH, body_auth("digest", "u:p"), 0);
    add_frame(WIRE_CREATE, body_create("/a", "data", WIRE_MODE_EPHEMERAL), 0);
    add_frame(WIRE_CREATE2, body_create("/b", "", WIRE_MODE_PERSISTENT_SEQUENTIAL), 0);
    add_frame(WIRE_EXISTS, body_path_watch("/none", true), CONCLAVE_NO_NODE);
    add_frame(WIRE_GET_DATA, body_path_watch("/a", true), 0);
    add_frame(WIRE_GET_CHILDREN2, body_path_watch("/", true), 0);
    add_frame(WIRE_SET_DATA, body_set("/a", "other data"), 0);
    buf_init(&multi, 0);
    wire_encode_multi_header(&multi, &(struct wire_multi_header){WIRE_CREATE, false, -1});
    buf_append_slice(&multi, body_create("/c", "", 0));
    wire_encode_multi_header(&multi, &(struct wire_multi_header){WIRE_DELETE, false, -1});
    buf_append_slice(&multi, body_delete("/c"));
    wire_encode_multi_header(&multi, &(struct wire_multi_header){-1, true, -1});
    add_frame(WIRE_MULTI, buf_slice(&multi), 0);
    buf_finish(&multi);
    add_frame(WIRE_DELETE, body_delete("/none"), CONCLAVE_NO_NODE);
    add_frame(WIRE_PING, slice_str(""), 0);
    add_frame(WIRE_CLOSE_SESSION, slice_str(""), 0);
    body_finish();
}

/* --- one run -------------------------------------------------------------------------------------- */

/* The oldest entry. An error is the end of the server. */
static void apply_one(struct service_harness *h)
{
    struct buf entry = h->log[0];
    h->log_count--;
    memmove(&h->log[0], &h->log[1], h->log_count * sizeof h->log[0]);
    told->applying = true;
    if (service_harness_take(&h->service, buf_slice(&entry)) != 0) {
        abort();
    }
    told->applying = false;
    buf_finish(&entry);
}

static void settle(struct service_harness *h)
{
    service_harness_turn(h);
    while (h->log_count > 0 || !list_empty(&h->service.dirty)) {
        if (h->log_count > 0) {
            apply_one(h);
        }
        service_harness_turn(h);
    }
}

/* As a socket would: bytes not taken now are offered again. */
static void give(struct guest *p, struct slice bytes)
{
    if (!p->closed) {
        guest_send(p, bytes);
    }
}

/* Connects and sends the script; what is closed is closed. False: there was not even memory for the connection. */
static bool play(struct service_harness *h, struct guest *p, struct slice hello,
                 const struct starve *memory, bool *ret_in_auth)
{
    if (connection_init(&p->c, &h->service, "10.1.2.4", "10.1.2.4:4567") != 0) {
        return false;
    }
    give(p, hello);
    settle(h);
    for (int i = 0; i < frames && !p->closed; i++) {
        bool before = starve_failed(memory);
        give(p, buf_slice(&script[i].bytes));
        settle(h);
        *ret_in_auth |= i == 0 && !before && starve_failed(memory);
    }
    return true;
}

/* The answers in order, each with its error. Whether all are there; if not, the connection was closed. */
static bool expect_answers(struct guest *p, bool failed)
{
    struct wire_connect_response response;
    struct frame f;
    int next = 0;
    if (p->out.len > 0) {
        guest_connected(p, &response);
    }
    while (guest_next(p, &f)) {
        if (f.xid == WIRE_XID_NOTIFICATION) {
            continue;
        }
        assert_true(next < frames);
        assert_int_equal(f.xid, script[next].xid);
        if (f.err != CONCLAVE_SYSTEM_ERROR ||
            !failed) { /* that is how a read without memory ends */
            assert_int_equal(f.err, script[next].err);
        }
        next++;
    }
    bool closed = p->c.stage == CONNECTION_CLOSED || p->c.stage == CONNECTION_CLOSING;
    assert_true(next == frames || closed);
    return next == frames;
}

static void run_starved(long n)
{
    struct service_harness h;
    struct guest other;
    struct guest p = {.next_xid = 1};
    struct buf hello;
    static const uint8_t zeros[WIRE_PASSWD_LEN];
    struct wire_connect_request request = {.timeout_ms = TIMEOUT_MS,
                                           .passwd = slice_make(zeros, sizeof zeros)};
    struct buf record;
    buf_init(&record, 0);
    buf_init(&hello, 0);
    wire_encode_connect_request(&record, &request);
    wire_write_buffer(&hello, buf_slice(&record));
    buf_finish(&record);
    service_harness_init(&h, NULL);
    guest_open(&other, &h, TIMEOUT_MS);
    buf_init(&p.in, 0);
    buf_init(&p.out, 0);
    /* The test's own memory is allocated already. */
    assert_int_equal(buf_reserve(&p.in, ROOM), 0);
    assert_int_equal(buf_reserve(&p.out, ROOM), 0);

    struct starve *memory = starve_create();
    assert_non_null(memory);
    starve_enter(memory);
    starve_arm(memory, n);
    bool in_auth = false;
    bool connected = play(&h, &p, buf_slice(&hello), memory, &in_auth);
    starve_leave();
    bool failed = starve_failed(memory);

    told->dropped = !connected || !expect_answers(&p, failed);
    guest_request(&other, WIRE_CREATE, body_create("/after", "", 0));
    service_harness_settle(&h);
    struct frame f;
    assert_true(guest_next(&other, &f));
    assert_int_equal(f.err, 0);
    assert_true(state_digest_now(h.service.state) == state_digest(h.service.state));
    connection_finish(&p.c);
    buf_finish(&p.in);
    buf_finish(&p.out);
    guest_finish(&other);
    service_harness_finish(&h);
    body_finish();
    buf_finish(&hello);
    if (!in_auth && starve_live(memory) != 0) { /* OpenSSL keeps texts of its failures */
        starve_print_live(memory);
        fail();
    }
    _exit(failed ? 0 : NONE_FAILED);
}

/* --- all of them ---------------------------------------------------------------------------------- */

static void test_each_allocation(void **state)
{
    (void)state;
    const struct rlimit none = {0, 0};
    int dropped = 0;
    int ended = 0;
    int served = 0;
    log_set_level(LOG_ERROR);
    write_script();
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(told != MAP_FAILED);
    for (long n = 0; n < ALLOCATIONS_MOST; n++) {
        *told = (struct told){.applying = false};
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)setrlimit(RLIMIT_CORE, &none);
            run_starved(n);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (WIFSIGNALED(status)) {
            if (WTERMSIG(status) != SIGABRT || !told->applying) {
                fail_msg("allocation %ld: signal %d%s", n, WTERMSIG(status),
                         told->applying ? "" : ", outside of apply");
            }
            ended++;
            continue;
        }
        if (WEXITSTATUS(status) == NONE_FAILED) {
            assert_false(told->dropped);
            print_message(
                "%ld allocations: %d connections dropped, %d ends in apply, %d unnoticed\n", n,
                dropped, ended, served);
            break;
        }
        if (WEXITSTATUS(status) != 0) {
            fail_msg("allocation %ld", n);
        }
        dropped += told->dropped;
        served += !told->dropped;
    }
    assert_true(dropped > 10);
    for (int i = 0; i < frames; i++) {
        buf_finish(&script[i].bytes);
    }
    (void)munmap(told, sizeof *told);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
