/* The memory that a process may have: the least of the machine's and its control groups'. */
#include "base/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
    strcpy(root, "/tmp/conclave-memory-XXXXXX");
    return mkdtemp(root) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static void test_no_groups(void **state)
{
    assert_int_equal(memory_limit_below(root, 1000), 1000);
    assert_true(memory_limit() > 1 << 20);
}

/* Version 2: the least on the way up counts. */
static void test_unified(void **state)
{
    put("/proc/self/cgroup", "0::/system.slice/one.service\n");
    put("/sys/fs/cgroup/system.slice/one.service/memory.max", "max\n");
    assert_int_equal(memory_limit_below(root, 5000000), 5000000);
    put("/sys/fs/cgroup/system.slice/memory.max", "3000000\n");
    assert_int_equal(memory_limit_below(root, 5000000), 3000000);
    put("/sys/fs/cgroup/system.slice/one.service/memory.max", "2000000\n");
    assert_int_equal(memory_limit_below(root, 5000000), 2000000);
    assert_int_equal(memory_limit_below(root, 1000000), 1000000);
}

/* In a container the path is that of the host, and the mount's root is the container's group. */
static void test_container(void **state)
{
    put("/proc/self/cgroup", "0::/../../docker/abc\n");
    put("/sys/fs/cgroup/memory.max", "700000\n");
    assert_int_equal(memory_limit_below(root, 5000000), 700000);
}

/* Version 1: its own hierarchy, and a number as large as can be for "no limit". */
static void test_legacy(void **state)
{
    put("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/x\n1:name=systemd:/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(memory_limit_below(root, 5000000), 5000000);
    put("/sys/fs/cgroup/memory/docker/x/memory.limit_in_bytes", "600000\n");
    assert_int_equal(memory_limit_below(root, 5000000), 600000);
}

/* What makes no sense does not count. */
static void test_garbage(void **state)
{
    put("/proc/self/cgroup", "\n:\nx\n0::\n::::\n");
    put("/sys/fs/cgroup/memory.max", "0\n");
    assert_int_equal(memory_limit_below(root, 5000000), 5000000);
    put("/sys/fs/cgroup/memory.max", "");
    assert_int_equal(memory_limit_below(root, 5000000), 5000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_no_groups, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unified, setup, teardown),
        cmocka_unit_test_setup_teardown(test_container, setup, teardown),
        cmocka_unit_test_setup_teardown(test_legacy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_garbage, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
