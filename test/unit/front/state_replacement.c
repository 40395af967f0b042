/* The whole state replaced by that of a snapshot: what was there comes back, numbers do not, nobody keeps a session that
 * the snapshot does not know, and the log alone gives the same state. */
#include "support/service_harness.h"

#include "front/state_replacement.h"

static void take_snapshot(struct state *s, struct buf *out)
{
    int rc;
    buf_init(out, 0);
    assert_int_equal(state_snapshot_begin(s), 0);
    while ((rc = state_snapshot_step(s, 100, out)) == 1) {}
    assert_int_equal(rc, 0);
    assert_true(buf_ok(out));
}

/* Begins to replace the state by that of a snapshot. */
static int submit(struct service *s, struct slice snapshot, int64_t *ret_id)
{
    static int64_t ids = 100;
    struct state *successor = NULL;
    int rc = state_restore(snapshot, &s->key, &successor);
    rc = rc == 0 ? state_replacement_send(s, successor, ++ids, 0) : rc;
    if (rc == 0) {
        *ret_id = ids;
    } else {
        state_destroy(successor);
    }
    return rc;
}

static int32_t exists(struct service_harness *h, struct guest *p, const char *path)
{
    struct frame f;
    guest_request(p, WIRE_EXISTS, body_path_watch(path, false));
    service_harness_settle(h);
    assert_true(guest_next(p, &f));
    return f.err;
}

static void reopen(struct service_harness *h, struct guest *p, struct guest *again,
                   struct wire_connect_response *ret)
{
    guest_init(again, h);
    guest_connect(again, state_zxid(h->service.state), 10000, p->c.session_id,
                  slice_make(p->passwd, sizeof p->passwd), true);
    service_harness_settle(h);
    guest_connected(again, ret);
}

static void test_state_comes_back(void **state)
{
    struct service_harness h;
    struct guest known;
    struct guest later;
    struct guest again;
    struct wire_connect_response r;
    struct buf snapshot;
    int64_t id = 0;
    service_harness_init(&h, NULL);
    guest_open(&known, &h, 10000);
    guest_request(&known, WIRE_CREATE, body_create("/kept", "old", 1)); /* ephemeral */
    service_harness_settle(&h);
    take_snapshot(h.service.state, &snapshot);
    int64_t session_known = known.c.session_id;

    guest_open(&later, &h, 10000);
    guest_request(&later, WIRE_CREATE, body_create("/new", "", 0));
    guest_request(&later, WIRE_DELETE, body_delete("/kept"));
    service_harness_settle(&h);
    int64_t before = state_zxid(h.service.state);
    uint64_t generation = h.service.generation;

    assert_int_equal(submit(&h.service, buf_slice(&snapshot), &id), 0);
    assert_true(id > 0);
    assert_int_equal(h.service.replaced_by, 0); /* not before it has come through the log */
    assert_false(known.closed);
    service_harness_settle(&h);
    assert_int_equal(h.service.replaced_by, id);
    assert_int_equal(h.service.generation, generation + 1);
    assert_int_equal(state_zxid(h.service.state), before + 1);
    assert_true(known.closed && later.closed);
    assert_int_equal(session_tracker_count(h.service.sessions), 1);

    assert_int_equal(known.c.session_id, session_known);
    reopen(&h, &later, &again, &r);
    assert_int_equal(r.session_id, 0); /* expired */
    guest_finish(&again);
    reopen(&h, &known, &again, &r);
    assert_int_equal(r.session_id, session_known);
    assert_int_equal(exists(&h, &again, "/kept"), 0);
    assert_int_equal(exists(&h, &again, "/new"), CONCLAVE_NO_NODE);

    /* The next number is above all before, so fencing tokens are, too. */
    int32_t xid = guest_request(&again, WIRE_CREATE, body_create("/next", "", 0));
    service_harness_settle(&h);
    assert_int_equal(guest_expect(&again, xid, 0).zxid, before + 2);
    guest_finish(&again);

    /* Who does not come back is gone in time, with his node. */
    for (int i = 0; i < 200; i++) {
        service_harness_advance(&h, 100);
        service_tick(&h.service);
        service_harness_settle(&h);
    }
    assert_int_equal(session_tracker_count(h.service.sessions), 0);
    struct state_stats stats;
    state_stats(h.service.state, &stats);
    assert_int_equal(stats.ephemerals, 0);
    guest_finish(&known);
    guest_finish(&later);
    buf_finish(&snapshot);
    service_harness_finish(&h);
}

/* A write taken in before the replacement and applied behind it: its session is gone, and so is its client. */
static void test_writes_on_their_way(void **state)
{
    struct service_harness h;
    struct guest p;
    struct buf snapshot;
    int64_t id = 0;
    service_harness_init(&h, NULL);
    take_snapshot(h.service.state, &snapshot);
    guest_open(&p, &h, 10000);
    assert_int_equal(submit(&h.service, buf_slice(&snapshot), &id), 0);
    guest_request(&p, WIRE_CREATE, body_create("/a", "", 0));
    guest_request(&p, WIRE_CREATE, body_create("/b", "", 0));
    service_harness_settle(&h);
    assert_true(p.closed);
    assert_int_equal(h.service.pipeline.outstanding, 0);
    struct state_stats stats;
    state_stats(h.service.state, &stats);
    assert_int_equal(stats.nodes, 5);
    guest_finish(&p);
    buf_finish(&snapshot);
    service_harness_finish(&h);
}

/* Bytes that are no snapshot never get into the log: applying it would end the server at every start. */
static void test_damaged_is_refused(void **state)
{
    struct service_harness h;
    struct buf snapshot;
    int64_t id = 0;
    service_harness_init(&h, NULL);
    take_snapshot(h.service.state, &snapshot);
    for (size_t n = 0; n < snapshot.len; n++) {
        assert_int_equal(submit(&h.service, slice_make(snapshot.data, n), &id), CONCLAVE_ECORRUPT);
        snapshot.data[n] ^= 1;
        assert_int_equal(submit(&h.service, buf_slice(&snapshot), &id), CONCLAVE_ECORRUPT);
        snapshot.data[n] ^= 1;
    }
    assert_int_equal(h.log_count, 0);
    assert_int_equal(id, 0);
    /* A log that takes nothing: it is given up, and the next one may come. */
    h.submit_error = CONCLAVE_EIO;
    assert_int_equal(submit(&h.service, buf_slice(&snapshot), &id), 0);
    assert_true(state_replacement_is_sent(&h.service));
    assert_int_equal(submit(&h.service, buf_slice(&snapshot), &id), CONCLAVE_EBUSY);
    service_turn(&h.service);
    assert_false(state_replacement_is_sent(&h.service));
    buf_finish(&snapshot);
    service_harness_finish(&h);
}

/* As older versions wrote it: the whole snapshot in one entry. */
static void append_whole(struct buf *entry, int64_t origin, int64_t id)
{
    buf_append_u8(entry, 3);
    buf_append_i64(entry, origin);
    buf_append_i64(entry, id);
}

/* A restart applies the entry before anybody is served, and comes to the same state. */
static void test_replayed(void **state)
{
    struct service_harness h;
    struct service_harness other;
    struct buf snapshot;
    struct buf entry;
    service_harness_init(&h, NULL);
    service_harness_init(&other, NULL);
    struct guest p;
    guest_open(&p, &h, 10000);
    guest_request(&p, WIRE_CREATE, body_create("/a", "x", 0));
    service_harness_settle(&h);
    take_snapshot(h.service.state, &snapshot);
    buf_init(&entry, 0);
    append_whole(&entry, 7, 42);
    buf_append_slice(&entry, buf_slice(&snapshot));
    other.service.serving = false;
    assert_int_equal(service_restore(&other.service, buf_slice(&snapshot)), 0);
    assert_int_equal(service_harness_take(&other.service, buf_slice(&entry)), 0);
    assert_int_equal(service_harness_take(&h.service, buf_slice(&entry)), 0);
    assert_true(state_digest(h.service.state) == state_digest(other.service.state));
    assert_int_equal(other.service.replaced_by, 0);
    assert_int_equal(session_tracker_count(other.service.sessions), 0);
    assert_int_equal(service_begin(&other.service), 0);
    assert_int_equal(session_tracker_count(other.service.sessions), 1);
    for (size_t n = 0; n < 17; n++) {
        assert_int_not_equal(service_harness_take(&h.service, slice_make(entry.data, n)), 0);
    }
    service_harness_settle(&h);
    guest_finish(&p);
    buf_finish(&entry);
    buf_finish(&snapshot);
    service_harness_finish(&other);
    service_harness_finish(&h);
}

/* Puts nodes with 100 KB each below the root. */
static void grow(struct service_harness *h, struct guest *p, int from, int count)
{
    static char data[100000];
    memset(data, 'x', sizeof data - 1);
    for (int i = from; i < from + count; i++) {
        char path[32];
        snprintf(path, sizeof path, "/big%d", i);
        guest_request(p, WIRE_CREATE, body_create(path, data, 0));
        service_harness_settle(h);
    }
}

static size_t nodes_of(const struct service_harness *h)
{
    struct state_stats stats;
    state_stats(h->service.state, &stats);
    return stats.nodes;
}

/* More than one piece: nothing changes before the last one, and writes in between go to the old state. */
static void test_pieces(void **state)
{
    struct service_harness h;
    struct guest p;
    struct buf snapshot;
    int64_t id = 0;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    grow(&h, &p, 0, 100);
    take_snapshot(h.service.state, &snapshot);
    size_t nodes = nodes_of(&h);
    assert_true(snapshot.len > 9 * REPLACEMENT_PIECE_BYTES);
    guest_request(&p, WIRE_DELETE, body_delete("/big7"));
    service_harness_settle(&h);
    assert_int_equal(submit(&h.service, buf_slice(&snapshot), &id), 0);
    service_turn(&h.service);
    assert_int_equal(h.log_count, REPLACEMENT_IN_FLIGHT);
    for (int i = 0; i < REPLACEMENT_IN_FLIGHT; i++) {
        service_harness_apply_one(&h);
        assert_int_equal(nodes_of(&h), nodes - 1);
        assert_int_equal(h.service.replaced_by, 0);
    }
    assert_int_equal(h.service.replacement.pieces.id, id);
    service_harness_settle(&h);
    assert_int_equal(h.service.replaced_by, id);
    assert_int_equal(h.service.replacement.pieces.id, 0);
    assert_int_equal(h.service.replacement.pieces.bytes.cap, 0);
    assert_int_equal(nodes_of(&h), nodes);
    assert_false(state_replacement_is_sent(&h.service));
    guest_finish(&p);
    buf_finish(&snapshot);
    service_harness_finish(&h);
}

/* The sender stops to lead: the next leader lets all forget the pieces; the state stays. */
static void test_pieces_are_given_up(void **state)
{
    struct service_harness h;
    struct guest p;
    struct buf snapshot;
    int64_t id = 0;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    grow(&h, &p, 0, 30);
    take_snapshot(h.service.state, &snapshot);
    assert_int_equal(submit(&h.service, buf_slice(&snapshot), &id), 0);
    service_turn(&h.service);
    service_harness_apply_one(&h);
    service_harness_apply_one(&h);
    assert_int_equal(h.service.replacement.pieces.id, id);
    while (h.log_count > 0) {
        buf_finish(&h.log[--h.log_count]); /* lost with the lead */
    }
    uint64_t digest = state_digest(h.service.state);
    assert_int_equal(leadership_set(&h.service, false), 0);
    service_turn(&h.service);
    assert_false(state_replacement_is_sent(&h.service));
    assert_int_equal(h.service.replacement.pieces.id, id);
    assert_int_equal(leadership_set(&h.service, true), 0);
    service_turn(&h.service);
    service_turn(&h.service);
    assert_int_equal(h.log_count, 1); /* told once */
    buf_finish(&h.log[--h.log_count]);
    assert_int_equal(leadership_set(&h.service, false), 0);
    service_turn(&h.service);
    assert_int_equal(leadership_set(&h.service, true), 0);
    service_turn(&h.service);
    assert_int_equal(h.log_count, 1); /* that was lost, too, and is told again */
    service_harness_settle(&h);
    assert_int_equal(h.service.replacement.pieces.id, 0);
    assert_int_equal(h.service.replaced_by, 0);
    assert_true(state_digest(h.service.state) == digest);
    /* And the next one succeeds. */
    assert_int_equal(submit(&h.service, buf_slice(&snapshot), &id), 0);
    service_harness_settle(&h);
    assert_int_equal(h.service.replaced_by, id);
    guest_finish(&p);
    buf_finish(&snapshot);
    service_harness_finish(&h);
}

/* A member that gets a snapshot from the leader has all that came of the pieces: it must not keep them, because it would
 * take no snapshot of its own any more. */
static void test_snapshot_ends_pieces(void **state)
{
    struct service_harness h;
    struct guest p;
    struct buf snapshot;
    int64_t id = 0;
    service_harness_init(&h, NULL);
    guest_open(&p, &h, 10000);
    grow(&h, &p, 0, 30);
    take_snapshot(h.service.state, &snapshot);
    assert_int_equal(submit(&h.service, buf_slice(&snapshot), &id), 0);
    service_turn(&h.service);
    service_harness_apply_one(&h);
    assert_int_equal(h.service.replacement.pieces.id, id);
    assert_int_equal(service_restore(&h.service, buf_slice(&snapshot)), 0);
    assert_int_equal(h.service.replacement.pieces.id, 0);
    assert_int_equal(h.service.replacement.pieces.bytes.cap, 0);
    guest_finish(&p);
    buf_finish(&snapshot);
    service_harness_finish(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_comes_back),
        cmocka_unit_test(test_writes_on_their_way),
        cmocka_unit_test(test_damaged_is_refused),
        cmocka_unit_test(test_replayed),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_pieces_are_given_up),
        cmocka_unit_test(test_snapshot_ends_pieces),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    body_finish();
    return failed;
}
