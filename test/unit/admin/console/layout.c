/* Samples of each layout that the console recognises, and of what it must not take for one. */
#include "admin/console/layout.h"
#include "admin/console/layout_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { CHILDREN_MAX = 12 };

#define A "0123456789abcdef0123456789abcdef"
#define B "fedcba9876543210fedcba9876543210"
#define UA "_c_01234567-89ab-cdef-0123-456789abcdef-"
#define UB "_c_fedcba98-7654-3210-fedc-ba9876543210-"

/* Names; with '*' at the end an ephemeral node, and data behind '='. */
struct sample_tree {
    const char *path;
    const char *data;
    const char *children[CHILDREN_MAX];
    const char *around[4]; /* suffixes of nodes that exist */
    const char *expected;  /* "kind/library path: holders | line" */
};

static const struct sample_tree SAMPLES[] = {
    /* Elections */
    {"/app/leader",
     "",
     {B "-n_0000000007*=b", A "-n_0000000003*=host-a\nhello", A "-n_0000000009*=c"},
     {".leader"},
     "election/Conclave /app/leader: host-a | b c"},
    {"/latch",
     "",
     {UA "latch-0000000002*=two", UB "latch-0000000001*=one"},
     {0},
     "election/Curator /latch: one | two"},
    /* Numbers wrap. */
    {"/latch",
     "",
     {"latch--2147483648*=new", "latch-2147483647*=old"},
     {0},
     "election/Curator /latch: old | new"},
    /* Locks */
    {"/lock", "", {A "-n_0000000001*=x"}, {0}, "lock/Conclave /lock: x | "},
    {"/lock",
     "",
     {A "-__READ__0000000001*=r1", B "-__READ__0000000002*=r2", A "-__WRIT__0000000003*=w",
      B "-__READ__0000000004*=r3"},
     {0},
     "lock/Conclave /lock: r1+ r2+ | w r3+"},
    {"/lock",
     "",
     {UA "__READ__0000000004*=r", UB "__WRIT__0000000003*=w"},
     {0},
     "lock/Curator /lock: w | r+"},
    {"/mutex", "", {UA "lock-0000000000*=10.0.0.1"}, {0}, "lock/Curator /mutex: 10.0.0.1 | "},
    {"/k",
     "",
     {A "__lock__0000000000*=me", B "__lock__0000000001*=you"},
     {0},
     "lock/kazoo /k: me | you"},
    {"/k",
     "",
     {A "__rlock__0000000000*=r1", B "__rlock__0000000001*=r2", A "__lock__0000000002*=w"},
     {0},
     "lock/kazoo /k: r1+ r2+ | w"},
    {"/other",
     "",
     {"x-0100-0000000004*=late", "x-0101-0000000001*=early", "foreign"},
     {0},
     "lock/ /other: early | late"},
    /* A line whose first is of a known kind leaves the rest out. */
    {"/lock",
     "",
     {"lock-foo", "abc*=g", A "-n_0000000001*=x", "n_*"},
     {0},
     "lock/Conclave /lock: x | "},
    /* Semaphores */
    {"/sem",
     "2",
     {A "-n_0000000001*=a", B "-n_0000000002*=b", A "-n_0000000003*=c"},
     {0},
     "semaphore/Conclave /sem 2: a b | c"},
    {"/sem",
     "4",
     {A "-w3-n_0000000001*=a", B "-w2-n_0000000002*=b", A "-n_0000000003*=c"},
     {0},
     "semaphore/Conclave /sem 4: a | b c"},
    {"/sem/leases",
     "",
     {UA "lease-0000000000*=a", UB "lease-0000000001*=b"},
     {0},
     "semaphore/Curator /sem: a b | "},
    {"/sem/locks", "", {UA "lock-0000000000*=a"}, {"../leases"}, "part/Curator /sem/locks: a"},
    {"/sem/locks", "", {UA "lock-0000000000*=a"}, {0}, "lock/Curator /sem/locks: a | "},
    {"/sem", "3", {A "*=me", B "*=you"}, {"-__lock__"}, "semaphore/kazoo /sem 3: me you | "},
    {"/sem-__lock__", "", {A "__lock__0000000000*=me"}, {0}, "part/kazoo /sem-__lock__: me"},
    /* Active/standby pairs */
    {"/ha",
     "",
     {"ActiveStandbyElectorLock*=conclave elector\nid=nn1\n", "ActiveBreadCrumb=x", "line"},
     {0},
     "active/standby pair/Conclave /ha: nn1 | "},
    {"/ha", "", {"ActiveStandbyElectorLock*=\n\3nn1"}, {0}, "active/standby pair/Hadoop /ha: ? | "},
    {"/ha", "", {"ActiveBreadCrumb=x"}, {0}, "active/standby pair/Hadoop /ha:  | "},
    {"/ha/line", "", {A "-n_0000000001*=a"}, {"../ActiveBreadCrumb"}, "part/ /ha/line: "},
    {"/ha/members", "", {"m1*", "m2*"}, {"../ActiveStandbyElectorLock"}, "part/ /ha/members: "},
    /* Queues */
    {"/q",
     "",
     {"100-" A "-q_0000000002", "001-" B "|id|-q_0000000001"},
     {0},
     "queue/Conclave /q:  | ? ?"},
    {"/q", "", {"d00123456789-100-" A "-q_0000000002"}, {0}, "queue/Conclave /q:  | ?"},
    {"/q", "", {"queue-0000000001=a", "queue-|key|0000000002=b"}, {0}, "queue/Curator /q:  | a b"},
    {"/q", "", {"entry-100-0000000001=a"}, {0}, "queue/kazoo /q:  | a"},
    {"/q/entries", "", {"entry-100-0000000001=a"}, {"../taken"}, "queue/kazoo /q:  | a"},
    {"/q", "", {"qn-0000000001=a"}, {0}, "queue/ /q:  | a"},
    /* Barriers */
    {"/b/round", "3", {"m-" A "*", "m-" B "*"}, {0}, "barrier/Conclave /b/round 3:  | ? ?"},
    {"/b/round",
     "2",
     {"m-" A "*", "m-" B "*", "ready"},
     {0},
     "barrier/Conclave /b/round 2 open: ? ? | "},
    {"/b", "", {"ready", A "*=a"}, {0}, "barrier/ /b open: a | "},
    {"/b", "", {A "*=a", B "*=b"}, {0}, "barrier/kazoo /b:  | a b"},
    {"/b", "", {A "*=a", "other*=b"}, {0}, "group/ /b: a b | "},
    {"/b", "", {"ready", "other"}, {0}, "none/ /b: "},
    /* Configurations, Redis sets, groups, services */
    {"/conf.acks", "", {0}, {0}, "config/Conclave /conf:  | "},
    {"/conf.acks", "", {"web-1*=ok", "web-2*=ok"}, {0}, "config/Conclave /conf: ok ok | "},
    {"/redis_failover/shop",
     "",
     {"current={}", "managers", "election"},
     {0},
     "Redis set/Conclave /redis_failover/shop:  | "},
    {"/redis_failover/shop/managers",
     "",
     {"m1*"},
     {"../current", "../managers"},
     "part/ /redis_failover/shop/managers: "},
    {"/gem", "", {"nodes={\"master\":\"a:1\"}", "x*"}, {0}, "Redis set/redis_failover /gem:  | "},
    {"/group",
     "",
     {"b*=conclave-member 12\ndata of b", "a*=conclave-member 13\n"},
     {0},
     "group/Conclave /group: data of b ? | "},
    {"/party", "", {A "__party__*=kazoo 1"}, {0}, "group/ /party: kazoo 1 | "},
    {"/services/web",
     "",
     {A "*={\"name\":\"web\",\"serviceType\":\"DYNAMIC\"}"},
     {0},
     "services/Curator /services/web: {\"name\":\"web\",\"serviceType\":\"DYNAMIC\"} | "},
    {"/x.leader", "", {"current*", "last"}, {0}, "part/ /x.leader: "},
    /* Not a recipe */
    {"/", "", {"zookeeper", "app"}, {0}, "none/ /: "},
    {"/seq", "", {"job-0000000001", "job-0000000002"}, {0}, "none/ /seq: "},
    {"/seq", "", {A "-n_0000000001"}, {0}, "none/ /seq: "}, /* persistent: nobody holds it */
    {"/empty", "", {0}, {0}, "none/ /empty: "},
};

static bool sample_exists(void *ctx, const char *suffix)
{
    const struct sample_tree *s = ctx;
    for (size_t i = 0; i < 4 && s->around[i] != NULL; i++) {
        if (strcmp(s->around[i], suffix) == 0) {
            return true;
        }
    }
    return false;
}

static size_t sample_children(const struct sample_tree *s, struct layout_child *out)
{
    size_t n = 0;
    for (; n < CHILDREN_MAX && s->children[n] != NULL; n++) {
        const char *text = s->children[n];
        const char *data = strchr(text, '=');
        size_t len = data != NULL ? (size_t)(data - text) : strlen(text);
        bool ephemeral = len > 0 && text[len - 1] == '*';
        out[n] = (struct layout_child){.name = slice_make(text, len - ephemeral),
                                       .data = data != NULL ? slice_str(data + 1) : SLICE_NULL,
                                       .session_id = ephemeral ? 7 : 0,
                                       .czxid = (int64_t)n + 1};
    }
    return n;
}

static void describe_places(const struct layout *l, const struct layout_child *children, bool hold,
                            char *out, size_t size)
{
    const char *gap = "";
    for (size_t i = 0; i < l->count; i++) {
        const struct layout_place *p = &l->places[i];
        struct slice label = layout_label(children[p->child].data);
        size_t len = strlen(out);
        if (p->holds == hold) {
            (void)snprintf(out + len, size - len, "%s%.*s%s", gap,
                           label.len > 0 ? (int)label.len : 1,
                           label.len > 0 ? (const char *)label.data : "?", p->shared ? "+" : "");
            gap = " ";
        }
    }
}

static const char *describe(const struct sample_tree *s)
{
    static char text[500];
    struct layout_child children[CHILDREN_MAX];
    struct layout_place places[CHILDREN_MAX];
    struct layout l = {.places = places};
    char number[24] = "";
    const struct layout_input in = {.path = slice_str(s->path),
                                    .data = slice_str(s->data),
                                    .children = children,
                                    .count = sample_children(s, children),
                                    .exists = sample_exists,
                                    .ctx = (void *)(uintptr_t)s};
    layout_recognise(&in, &l);
    if (l.permits > 0) {
        (void)snprintf(number, sizeof number, " %d", l.permits);
    }
    (void)snprintf(text, sizeof text, "%s/%s %.*s%s%s: ", layout_kind_name(l.kind), l.library,
                   (int)l.path_len, s->path, number, l.open ? " open" : "");
    bool parts = l.kind > LAYOUT_PART;
    describe_places(&l, children, parts, text, sizeof text);
    if (parts) {
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), " | ");
        describe_places(&l, children, false, text, sizeof text);
    }
    return text;
}

static void test_samples(void **state)
{
    for (size_t i = 0; i < sizeof SAMPLES / sizeof SAMPLES[0]; i++) {
        assert_string_equal(describe(&SAMPLES[i]), SAMPLES[i].expected);
    }
}

/* Data that nobody may read, and more children than names can say. */
static void test_hidden_data(void **state)
{
    const struct sample_tree s = {
        "/lock", NULL, {A "-n_0000000001*", B "-n_0000000002*"}, {0}, NULL};
    assert_string_equal(describe(&s), "lock/Conclave /lock: ? | ?");
}

static void test_names(void **state)
{
    static const struct {
        const char *name;
        enum layout_stem stem;
        int64_t sequence;
    } NAMES[] = {
        {"", STEM_NONE, 0},
        {"abc", STEM_NONE, 0},
        {"0000000001", STEM_OTHER, 1},
        {"x-000000001", STEM_OTHER, -1}, /* nine digits behind a dash: a negative number */
        {"x000000001", STEM_NONE, 0},
        {"x9999999999", STEM_NONE, 0},
        {"x-2147483648", STEM_OTHER, -2147483648LL},
        {"x-0000000005", STEM_OTHER, 5},
        {A "-n_-000000007", STEM_NATIVE, -7},
        {A "-w0-n_0000000001", STEM_OTHER, 1},
        {A "-wx-n_0000000001", STEM_OTHER, 1},
        {A "n_0000000001", STEM_OTHER, 1},
        {"latch-0000000001", STEM_CURATOR_LATCH, 1},
        {"_c_short-latch-0000000001", STEM_OTHER, 1},
        {"entry-10-0000000001", STEM_OTHER, 1},
        {"100-" A "-q_0000000001", STEM_NATIVE_ITEM, 1},
        {"10-" A "-q_0000000001", STEM_OTHER, 1},
    };
    struct layout_name n;
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        layout_name_parse(slice_str(NAMES[i].name), &n);
        if (n.stem != NAMES[i].stem || n.sequence != NAMES[i].sequence) {
            fail_msg("%s: stem %d, sequence %d", NAMES[i].name, n.stem, n.sequence);
        }
    }
    layout_name_parse(slice_str(A "-w12-n_0000000001"), &n);
    assert_int_equal(n.weight, 12);
}

static void test_labels(void **state)
{
    static const struct {
        const char *data;
        const char *label;
    } LABELS[] = {
        {"host-a:80", "host-a:80"},
        {"host-a\nmore", "host-a"},
        {"conclave-member 17\npayload\nmore", "payload"},
        {"conclave-member 17", ""},
        {"Gr\xc3\xbc\xc3\x9f"
         "e",
         "Gr\xc3\xbc\xc3\x9f"
         "e"},
        {"bad\xff", ""},
        {"\1\2", ""},
        {"\nsecond", ""},
        {"", ""},
    };
    char longer[200];
    for (size_t i = 0; i < sizeof LABELS / sizeof LABELS[0]; i++) {
        assert_true(slice_equal_str(layout_label(slice_str(LABELS[i].data)), LABELS[i].label));
    }
    memset(longer, 'x', sizeof longer);
    assert_int_equal(layout_label(slice_make(longer, sizeof longer)).len, 0);
    assert_int_equal(layout_label(SLICE_NULL).len, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_hidden_data),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
