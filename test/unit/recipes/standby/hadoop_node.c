/* Hadoop's messages: their bytes are compared with an encoding that this file does itself, field by field, as the
 * specification of protobuf says. */
#include <conclave/hadoop.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A message that grows. */
struct message {
    uint8_t bytes[512];
    size_t len;
};

static void put(struct message *m, unsigned byte)
{
    assert_true(m->len < sizeof m->bytes);
    m->bytes[m->len++] = (uint8_t)byte;
}

/* A string of less than 128 bytes: key, length, bytes. */
static void put_text(struct message *m, unsigned field, const char *text)
{
    put(m, field * 8 + 2);
    put(m, (unsigned)strlen(text));
    for (const char *at = text; *at != '\0'; at++) {
        put(m, (unsigned char)*at);
    }
}

/* A number below 2^21, in groups of seven bits, the lowest first. */
static void put_number(struct message *m, unsigned field, unsigned value)
{
    put(m, field * 8);
    if (value >= 128 * 128) {
        put(m, 128 + value % 128);
        put(m, 128 + value / 128 % 128);
        put(m, value / (128 * 128));
    } else if (value >= 128) {
        put(m, 128 + value % 128);
        put(m, value / 128);
    } else {
        put(m, value);
    }
}

static struct message hdfs(void)
{
    struct message m = {.len = 0};
    put_text(&m, 1, "ns1");
    put_text(&m, 2, "nn1");
    put_text(&m, 3, "nn1.example.org");
    put_number(&m, 4, 50020);
    put_number(&m, 5, 8019);
    return m;
}

static struct message yarn(void)
{
    struct message m = {.len = 0};
    put_text(&m, 1, "cluster1");
    put_text(&m, 2, "rm2");
    return m;
}

static void written_as(const struct conclave_hadoop_node *node, const struct message *expected)
{
    uint8_t buf[512];
    size_t len = 0;
    assert_int_equal(conclave_hadoop_node_write(node, buf, sizeof buf, &len), 0);
    assert_int_equal(len, expected->len);
    assert_memory_equal(buf, expected->bytes, len);
    assert_int_equal(conclave_hadoop_node_write(node, buf, len, &len), 0);
    assert_int_equal(conclave_hadoop_node_write(node, buf, expected->len - 1, &len),
                     CONCLAVE_ENOBUFS);
}

static void read_as(const struct message *m, enum conclave_hadoop_kind kind, const char *service,
                    const char *id, const char *host, int port, int zkfc_port)
{
    struct conclave_hadoop_node *node = NULL;
    assert_int_equal(conclave_hadoop_node_read(m->bytes, m->len, &node), 0);
    assert_int_equal(node->kind, kind);
    assert_string_equal(node->service, service);
    assert_string_equal(node->id, id);
    assert_string_equal(node->host, host);
    assert_int_equal(node->port, port);
    assert_int_equal(node->zkfc_port, zkfc_port);
    conclave_hadoop_node_free(node);
}

static void E183_the_messages_of_hdfs_and_yarn_have_the_bytes_of_protobuf(void **state)
{
    struct conclave_hadoop_node node = CONCLAVE_HADOOP_NODE_INIT;
    struct message expected = hdfs();
    node.service = "ns1";
    node.id = "nn1";
    node.host = "nn1.example.org";
    node.port = 50020;
    written_as(&node, &expected);
    read_as(&expected, CONCLAVE_HADOOP_HDFS, "ns1", "nn1", "nn1.example.org", 50020, 8019);
    node = (struct conclave_hadoop_node)CONCLAVE_HADOOP_NODE_INIT;
    node.kind = CONCLAVE_HADOOP_YARN;
    node.service = "cluster1";
    node.id = "rm2";
    expected = yarn();
    written_as(&node, &expected);
    read_as(&expected, CONCLAVE_HADOOP_YARN, "cluster1", "rm2", "", 0, 0);
}

/* What later versions may add, in any order, and this library's own field. */
static void fields_that_are_not_known_are_skipped(void **state)
{
    struct message m = {.len = 0};
    put_text(&m, 7, "rm2.example.org:8033");
    put_number(&m, 9, 100000);
    put(&m, 10 * 8 + 1);
    for (int i = 0; i < 8; i++) {
        put(&m, 0xff);
    }
    put(&m, 11 * 8 + 5);
    for (int i = 0; i < 4; i++) {
        put(&m, 0xff);
    }
    put_text(&m, 2, "rm2");
    put_text(&m, 3, "rm2.example.org:8032"); /* an address, in newer versions of YARN */
    put_text(&m, 1, "cluster1");
    put(&m, 0xfa); /* field 2047 */
    put(&m, 0x7f);
    put(&m, 3);
    put(&m, 'a');
    put(&m, 'b');
    put(&m, 'c');
    read_as(&m, CONCLAVE_HADOOP_YARN, "cluster1", "rm2", "", 0, 0);
}

static bool is_foreign(const void *bytes, size_t len)
{
    struct conclave_hadoop_node *node = NULL;
    char *copy = malloc(len + 1); /* of exactly that size, for the sanitizer */
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    int error = conclave_hadoop_node_read(copy, len, &node);
    conclave_hadoop_node_free(node);
    free(copy);
    assert_true(error == 0 || error == CONCLAVE_EFOREIGN);
    return error == CONCLAVE_EFOREIGN;
}

static void what_is_no_message_is_foreign(void **state)
{
    struct message m = yarn();
    for (size_t len = 0; len < m.len; len++) {
        assert_true(is_foreign(m.bytes, len));
    }
    m = hdfs();
    for (size_t len = 0; len < m.len; len++) {
        (void)is_foreign(m.bytes, len); /* both ids may be there */
    }
    assert_true(is_foreign("host=h\nport=1\n\n", 15));
    assert_true(is_foreign("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11));
    assert_true(is_foreign("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11));
}

static void bad_nodes_are_refused(void **state)
{
    struct conclave_hadoop_node node = CONCLAVE_HADOOP_NODE_INIT;
    uint8_t buf[64];
    size_t len;
    node.service = "s";
    node.host = "h";
    assert_int_equal(conclave_hadoop_node_write(&node, buf, sizeof buf, &len), CONCLAVE_EINVAL);
    node.id = "i";
    node.port = 65536;
    assert_int_equal(conclave_hadoop_node_write(&node, buf, sizeof buf, &len), CONCLAVE_EINVAL);
    node.port = -1;
    assert_int_equal(conclave_hadoop_node_write(&node, buf, sizeof buf, &len), CONCLAVE_EINVAL);
    node.port = 65535;
    assert_int_equal(conclave_hadoop_node_write(&node, buf, sizeof buf, &len), 0);
    node.host = NULL;
    assert_int_equal(conclave_hadoop_node_write(&node, buf, sizeof buf, &len), CONCLAVE_EINVAL);
    node.kind = CONCLAVE_HADOOP_YARN;
    assert_int_equal(conclave_hadoop_node_write(&node, buf, sizeof buf, &len), 0);
    node.size = 0;
    assert_int_equal(conclave_hadoop_node_write(&node, buf, sizeof buf, &len), CONCLAVE_EINVAL);
    assert_int_equal(conclave_hadoop_node_read(NULL, 1, NULL), CONCLAVE_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(E183_the_messages_of_hdfs_and_yarn_have_the_bytes_of_protobuf),
        cmocka_unit_test(fields_that_are_not_known_are_skipped),
        cmocka_unit_test(what_is_no_message_is_foreign),
        cmocka_unit_test(bad_nodes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
