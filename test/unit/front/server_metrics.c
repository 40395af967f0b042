/* The counters of a connection and of the server, and how a four-letter word passes through a connection. */
#include "support/service_harness.h"

#include "base/log.h"

static void test_connection_counts(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    const struct connection_stats *s = &p.c.stats;
    const struct server_metrics *m = h.service.metrics;
    assert_int_equal(s->received, 1);
    assert_int_equal(s->sent, 1);
    assert_int_equal(s->last_type, WIRE_CREATE_SESSION);
    assert_int_equal(s->last_cxid, 0);

    int32_t create = guest_request(&p, WIRE_CREATE, body_create("/a", "1", 0));
    guest_request(&p, WIRE_GET_DATA, body_path_watch("/a", false));
    service_harness_turn(&h);
    service_harness_advance(&h, 7);
    service_harness_settle(&h);
    assert_int_equal(s->received, 3);
    assert_int_equal(s->sent, 3);
    assert_int_equal(s->last_type, WIRE_GET_DATA);
    assert_int_equal(s->last_cxid, create + 1);
    assert_int_equal(s->last_zxid, state_zxid(h.service.state));
    assert_int_equal(s->latency_last_ms, 7);
    assert_int_equal(s->latency_max_ms, 7);
    assert_int_equal(s->latency_min_ms, 0);
    assert_int_equal(s->latency_sum_ms, 14);
    assert_int_equal(s->answered, 3);
    assert_int_equal(s->response_at_ms, h.now_ms);
    assert_int_equal(m->updatelatency.count, 2); /* the session and the create */
    assert_int_equal(m->updatelatency.max, 7000);
    assert_int_equal(m->readlatency.count, 1);
    assert_int_equal(m->connection_request_count, 1);
    assert_int_equal(m->sync_processor_batch_size.count, 2);
    assert_true(m->bytes_received_count > 100);

    /* A ping is answered and measured, but it is not the client's last request. */
    guest_request_xid(&p, WIRE_XID_PING, WIRE_PING, slice_str(""));
    service_harness_settle(&h);
    assert_int_equal(s->last_type, WIRE_PING);
    assert_int_equal(s->last_cxid, create + 1);
    assert_int_equal(m->readlatency.count, 2);
    assert_int_equal(m->response_last, 4 + 16);
    assert_int_equal(m->response_min, 4 + 16);

    connection_reset_stats(&p.c);
    service_reset_stats(&h.service);
    assert_int_equal(s->received, 0);
    assert_int_equal(s->last_cxid, -1);
    assert_int_equal(m->readlatency.count, 0);
    assert_int_equal(m->response_last, -1);
    assert_int_equal(h.service.stats.packets_received, 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

static void test_watches_told(void **state)
{
    struct service_harness h;
    struct guest a;
    struct guest b;
    service_harness_init(&h, NULL);
    guest_open(&a, &h, 10000);
    guest_open(&b, &h, 10000);
    guest_request(&a, WIRE_EXISTS, body_path_watch("/n", true));
    guest_request(&b, WIRE_EXISTS, body_path_watch("/n", true));
    guest_request(&b, WIRE_GET_CHILDREN, body_path_watch("/", true));
    guest_request(&a, WIRE_CREATE, body_create("/n", "", 0));
    service_harness_settle(&h);
    const struct server_metrics *m = h.service.metrics;
    assert_int_equal(m->node_created_watch_count.count, 1);
    assert_int_equal(m->node_created_watch_count.max, 2);
    assert_int_equal(m->node_children_watch_count.max, 1);
    assert_int_equal(m->node_deleted_watch_count.count, 0);
    assert_true(m->watch_bytes > 0);
    guest_finish(&a);
    guest_finish(&b);
    service_harness_finish(&h);
}

static void test_oldest_write(void **state)
{
    struct service_harness h;
    struct guest p;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    assert_int_equal(service_oldest_write_ms(&h.service), 0);
    guest_request(&p, WIRE_SET_DATA, body_set("/", "x"));
    service_harness_turn(&h);
    service_harness_advance(&h, 500);
    guest_request(&p, WIRE_SET_DATA, body_set("/", "y"));
    assert_int_equal(service_oldest_write_ms(&h.service), 500);
    service_harness_settle(&h);
    assert_int_equal(service_oldest_write_ms(&h.service), 0);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* "word": four bytes; "argu" wants two more. */
static int answer(void *ctx, struct slice bytes, struct buf *out)
{
    int *calls = ctx;
    ++*calls;
    if (slice_starts_with(bytes, slice_str("word"))) {
        buf_append_str(out, "the answer\n");
        return 4;
    }
    if (slice_starts_with(bytes, slice_str("argu"))) {
        if (bytes.len < 6) {
            return -1;
        }
        buf_printf(out, "%c%c", bytes.data[4], bytes.data[5]);
        return 6;
    }
    return 0;
}

static void expect_text(struct guest *p, const char *text)
{
    assert_int_equal(p->out.len, strlen(text));
    assert_memory_equal(p->out.data, text, strlen(text));
}

static void test_words(void **state)
{
    static const char *const INPUT[] = {"word", "word\r\n",
                                        "word and a great deal more that nobody asked for"};
    struct service_harness h;
    struct guest p;
    int calls = 0;
    service_harness_init(&h, NULL);
    h.service.words = (struct service_words){answer, &calls};
    for (size_t i = 0; i < sizeof INPUT / sizeof INPUT[0]; i++) {
        guest_init(&p, &h);
        guest_send(&p, slice_str(INPUT[i]));
        assert_int_equal(p.c.stage, CONNECTION_CLOSING);
        service_harness_turn(&h);
        expect_text(&p, "the answer\n");
        assert_true(p.closed);
        assert_int_equal(p.c.stats.received, 1);
        guest_finish(&p);
    }
    guest_init(&p, &h); /* piece by piece */
    for (size_t i = 0; i < 5; i++) {
        guest_send(&p, slice_make(&"argux"[i], 1));
        service_harness_turn(&h);
        assert_int_equal(p.out.len, 0);
        assert_false(p.closed);
    }
    guest_send(&p, slice_str("y"));
    service_harness_turn(&h);
    expect_text(&p, "xy");
    guest_finish(&p);
    service_harness_finish(&h);
}

/* Only the first bytes of a connection can be a word, and what is none goes its old way. */
static void test_no_words(void **state)
{
    struct service_harness h;
    struct guest p;
    int calls = 0;
    service_harness_init(&h, NULL);
    h.service.words = (struct service_words){answer, &calls};
    guest_open(&p, &h, 10000);
    calls = 0;
    guest_send(&p, slice_str("word"));
    service_harness_turn(&h);
    assert_int_equal(calls, 0);
    assert_true(p.closed);
    guest_finish(&p);
    guest_init(&p, &h);
    guest_send(&p, slice_str("none"));
    service_harness_turn(&h);
    assert_int_equal(p.out.len, 0);
    assert_true(p.closed);
    guest_finish(&p);
    service_harness_finish(&h);
}

/* A word's argument that never comes is no reason to wait longer than for a session. */
static void test_word_in_time(void **state)
{
    struct service_harness h;
    struct guest p;
    int calls = 0;
    service_harness_init(&h, NULL);
    h.service.words = (struct service_words){answer, &calls};
    guest_init(&p, &h);
    guest_send(&p, slice_str("argu"));
    for (int i = 0; i <= h.service.limits.handshake_ms; i += 100) {
        service_harness_advance(&h, 100);
    }
    service_harness_turn(&h);
    assert_true(p.closed);
    assert_int_equal(h.service.metrics->sessionless_connections_expired, 1);
    guest_finish(&p);
    service_harness_finish(&h);
}

int main(void)
{
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connection_counts), cmocka_unit_test(test_watches_told),
        cmocka_unit_test(test_oldest_write),      cmocka_unit_test(test_words),
        cmocka_unit_test(test_no_words),          cmocka_unit_test(test_word_in_time),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    body_finish();
    return failed;
}
