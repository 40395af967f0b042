/* The audit log's lines, from commands as they are applied. */
#include "front/login/audit_log.h"

#include "support/requests.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];
static struct audit_log *audit;
static struct state *tree;
static struct effects effects;
static struct maker maker;
static struct clock_source frozen;

static int64_t wall(void *ctx)
{
    return 1700000000123;
}

static int setup(void **state)
{
    int error = 0;
    strcpy(path, "/tmp/conclave-audit-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0 || close(fd) != 0 || setenv("TZ", "UTC", 1) != 0) {
        return -1;
    }
    frozen = (struct clock_source){.monotonic_ns = wall, .wall_ms = wall};
    effects_init(&effects);
    maker_init(&maker);
    tree = state_create(&hash_key_fixed);
    return tree != NULL && audit_log_open(path, &frozen, &audit, &error) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
    audit_log_close(audit);
    state_destroy(tree);
    effects_finish(&effects);
    maker_finish(&maker);
    return unlink(path);
}

/* Compares what was written, each line without its head. */
static void expect(const char *lines)
{
    char text[1024];
    char bodies[8192] = "";
    audit_log_flush(audit);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(text, sizeof text, file) != NULL) {
        char *body = strstr(text, "audit.Slf4jAuditLogger: ");
        assert_non_null(body);
        assert_int_equal(strncmp(text, "2023-11-14 22:13:20,123 ", 24), 0);
        assert_int_equal(strncmp(text + 24, "ERROR ", 6) == 0, strstr(text, "=failure") != NULL);
        strcat(bodies, body + strlen("audit.Slf4jAuditLogger: "));
    }
    assert_int_equal(fclose(file), 0);
    assert_string_equal(bodies, lines);
}

static void run_as(uint32_t options, int64_t session, int32_t type, struct slice body,
                   const char *host)
{
    struct command command = {.session_id = session,
                              .type = type,
                              .options = options,
                              .ids = maker_ids(&maker),
                              .body = body};
    struct batch_header header = {.time_ms = 1700000000123};
    state_apply(tree, &header, &command, &effects);
    audit_log_command(audit, &command, &effects, host);
}

static void run(int64_t session, int32_t type, struct slice body, const char *host)
{
    run_as(0, session, type, body, host);
}

static void open_session(int64_t id)
{
    run(id, WIRE_CREATE_SESSION, make_session(&maker, id, 10000), "::1");
    maker_ids_reset(&maker);
    maker_ids_add(&maker, "ip", "10.0.0.1");
}

static void single_writes(void **state)
{
    open_session(0x1f);
    maker_ids_add(&maker, "digest", "bob:c2VjcmV0");
    maker_ids_add(&maker, "super", "");
    maker_ids_add(&maker, "sasl-grant", "any");
    maker_ids_add(&maker, "sasl", "bob@R");
    const char *host = "10.0.0.1";
    run(0x1f, WIRE_CREATE, make_create(&maker, "/a", "data", 0), host);
    run(0x1f, WIRE_CREATE, make_create(&maker, "/a", "data", 0), host);
    run(0x1f, WIRE_CREATE2, make_create(&maker, "/a/s-", "data", 3), host);
    run(0x1f, WIRE_SET_DATA, make_set_data(&maker, "/a", "more", -1), host);
    run(0x1f, WIRE_DELETE, make_delete(&maker, "/nosuch\n\t", -1), NULL);
    run(0x1f, WIRE_GET_DATA, make_read(&maker, "/a", false), host);
#define WHO "session=0x1f\tuser=10.0.0.1,bob,bob@R\t"
    expect(WHO
           "ip=10.0.0.1\toperation=create\tznode=/a\tznode_type=persistent\tresult=success\n" WHO
           "ip=10.0.0.1\toperation=create\tznode=/a\tznode_type=persistent\tresult=failure\n" WHO
           "ip=10.0.0.1\toperation=create\tznode=/a/s-0000000000\t"
           "znode_type=ephemeral_sequential\tresult=success\n" WHO
           "ip=10.0.0.1\toperation=setData\tznode=/a\tresult=success\n" WHO
           "operation=delete\tznode=/nosuch\\x0a\\x09\tresult=failure\n");
}

static void acls_without_digests(void **state)
{
    open_session(1);
    maker_acl_reset(&maker);
    maker_acl_add(&maker, 1, "digest", "bob:c2VjcmV0");
    maker_acl_add(&maker, 20, "ip", "10.0.0.0/8");
    run(1, WIRE_SET_ACL, make_set_acl(&maker, "/", -1), "h");
    expect("session=0x1\tuser=10.0.0.1\tip=h\toperation=setAcl\tznode=/\t"
           "acl=digest:bob:x:rip:10.0.0.0/8:ca\tresult=success\n");
}

static void multis(void **state)
{
    open_session(1);
    make_multi_begin(&maker);
    make_multi_create(&maker, WIRE_CREATE, "/m", "x", 0);
    make_multi_create(&maker, WIRE_CREATE, "/m/n-", "x", 2);
    make_multi_set_data(&maker, "/m", "y", 0);
    make_multi_check(&maker, "/m", 1);
    run(1, WIRE_MULTI, make_multi_end(&maker), "h");
    make_multi_begin(&maker);
    make_multi_delete(&maker, "/m/n-0000000000", -1);
    make_multi_delete(&maker, "/nosuch", -1);
    run(1, WIRE_MULTI, make_multi_end(&maker), "h");
    make_multi_begin(&maker);
    run(1, WIRE_MULTI, make_multi_end(&maker), "h");
    run(1, WIRE_MULTI, slice_str("\1"), "h");
#define ONE "session=0x1\tuser=10.0.0.1\tip=h\t"
    expect(ONE "operation=create\tznode=/m\tznode_type=persistent\tresult=success\n" ONE
               "operation=create\tznode=/m/n-0000000000\tznode_type=persistent_sequential\t"
               "result=success\n" ONE "operation=setData\tznode=/m\tresult=success\n" ONE
               "operation=multiOperation\tresult=failure\n" ONE
               "operation=multiOperation\tresult=failure\n");
}

/* A plain create in the mode of a container is carried out, and answered, as createContainer. */
static void multis_that_create_containers(void **state)
{
    open_session(1);
    make_multi_begin(&maker);
    make_multi_create(&maker, WIRE_CREATE, "/c", "x", WIRE_MODE_CONTAINER);
    make_multi_set_data(&maker, "/c", "y", 0);
    run(1, WIRE_MULTI, make_multi_end(&maker), "h");
    expect(ONE "operation=create\tznode=/c\tznode_type=container\tresult=success\n" ONE
               "operation=setData\tznode=/c\tresult=success\n");
}

static void what_goes_with_a_session(void **state)
{
    open_session(1);
    run(1, WIRE_CREATE, make_create(&maker, "/e", "x", 1), "h");
    run(1, WIRE_CLOSE_SESSION, slice_str(""), "h");
    char wanted[512];
    char *user = getenv("USER") != NULL ? getenv("USER") : "root";
    snprintf(wanted, sizeof wanted,
             "session=0x1\tuser=10.0.0.1\tip=h\toperation=create\tznode=/e\tznode_type=ephemeral\t"
             "result=success\nsession=0x1\tuser=%s\t"
             "operation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode=/e\tresult=success\n",
             getuid() == 0 ? "root" : user);
    expect(wanted);
}

/* Containers and nodes with a TTL, which the server removes by itself; reconfigurations. */
static void writes_of_other_kinds(void **state)
{
    struct buf gone;
    char wanted[1024];
    char *user = getenv("USER") != NULL ? getenv("USER") : "root";
    open_session(1);
    run_as(COMMAND_TTL, 1, WIRE_CREATE_TTL, make_create_ttl(&maker, "/t", 5, 1000), "h");
    run(1, WIRE_CREATE_TTL, make_create_ttl(&maker, "/t2", 6, 1000), "h"); /* not permitted */
    run(1, WIRE_CREATE_CONTAINER, make_create(&maker, "/box", "", 4), "h");
    run(1, WIRE_CREATE, make_create(&maker, "/bad\177", "", 99), "h");
    int64_t made = state_zxid(tree) - 1;
    buf_init(&gone, 0);
    spent_encode(&gone, &(struct spent){slice_str("/box"), made, made});
    run(1, WIRE_DELETE_CONTAINER, buf_slice(&gone), NULL);
    buf_finish(&gone);
    run(1, WIRE_RECONFIG, slice_str("whatever"), "h");
    run(1, WIRE_SET_DATA, slice_str("cut"), "h");
    snprintf(wanted, sizeof wanted,
             ONE "operation=create\tznode=/t\tznode_type=persistent_with_ttl\tresult=success\n" ONE
                 "operation=create\tznode=/t2\tznode_type=persistent_sequential_with_ttl\t"
                 "result=failure\n" ONE
                 "operation=create\tznode=/box\tznode_type=container\tresult=success\n" ONE
                 "operation=create\tznode=/bad\\x7f\tresult=failure\n"
                 "user=%s\toperation=delete\tznode=/box\tresult=success\n" ONE
                 "operation=reconfig\tznode=/zookeeper/config\tresult=failure\n" ONE
                 "operation=setData\tresult=failure\n",
             getuid() == 0 ? "root" : user);
    expect(wanted);
}

/* The file takes no more for a while: what was lost is lost, what comes later is there. */
static void a_full_disk(void **state)
{
    struct rlimit before;
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = RLIM_INFINITY};
    open_session(1);
    run(1, WIRE_CREATE, make_create(&maker, "/a", "", 0), "h");
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    audit_log_flush(audit);
    run(1, WIRE_CREATE, make_create(&maker, "/b", "", 0), "h");
    audit_log_flush(audit);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    run(1, WIRE_CREATE, make_create(&maker, "/c", "", 0), "h");
    expect(ONE "operation=create\tznode=/c\tznode_type=persistent\tresult=success\n");
}

static void logins(void **state)
{
    maker_ids_reset(&maker);
    maker_ids_add(&maker, "sasl", "bob");
    audit_log_login(audit, "sasl", -1, maker_ids(&maker), "h", true);
    maker_ids_reset(&maker);
    audit_log_login(audit, "auth", 2, maker_ids(&maker), "h", false);
    expect("session=0xffffffffffffffff\tuser=bob\tip=h\toperation=sasl\tresult=success\n"
           "session=0x2\tip=h\toperation=auth\tresult=failure\n");
}

static void files_that_take_nothing(void **state)
{
    struct audit_log *other = NULL;
    int error = 0;
    assert_int_equal(audit_log_open("/nonexistent/file", &frozen, &other, &error), CONCLAVE_EIO);
    assert_int_not_equal(error, 0);
    assert_int_equal(audit_log_open("/dev/full", &frozen, &other, &error), 0);
    for (int i = 0; i < 3; i++) {
        audit_log_server(other, "serverStart", "success");
        audit_log_flush(other);
    }
    audit_log_close(other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(single_writes),
        TEST(acls_without_digests),
        TEST(multis),
        TEST(multis_that_create_containers),
        TEST(what_goes_with_a_session),
        TEST(logins),
        TEST(files_that_take_nothing),
        TEST(a_full_disk),
        TEST(writes_of_other_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
