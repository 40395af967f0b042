#include "admin/http/test_order.h"

#include "front/faults.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "/test/"

enum test_arguments {
    MAY_SESSION = 1,
    NEEDS_SESSION = 2,
    MAY_MS = 4,
    NEEDS_MS = 8,
    NEEDS_WHEN = 16, /* and may have op */
};

static const struct {
    const char *name;
    enum test_action action;
    unsigned arguments;
} orders[] = {
    {"expire", TEST_EXPIRE, NEEDS_SESSION},
    {"drop", TEST_DROP, MAY_SESSION | NEEDS_WHEN},
    {"delay", TEST_DELAY, MAY_SESSION | NEEDS_MS},
    {"pause", TEST_PAUSE, MAY_SESSION | MAY_MS},
    {"resume", TEST_RESUME, MAY_SESSION},
    {"refuse", TEST_REFUSE, MAY_MS},
    {"accept", TEST_ACCEPT, 0},
    {"advance", TEST_ADVANCE, NEEDS_MS},
    {"freeze", TEST_FREEZE, 0},
    {"unfreeze", TEST_UNFREEZE, 0},
    {"clear", TEST_CLEAR, 0},
    {"reset", TEST_RESET, 0},
    {"mark", TEST_MARK, 0},
    {"report", TEST_REPORT, 0},
};

bool test_order_is_one(const char *path)
{
    return strncmp(path, PREFIX, strlen(PREFIX)) == 0;
}

static const char *read_session(const char *text, unsigned arguments, int64_t *ret)
{
    char *end = NULL;
    if (text == NULL) {
        return (arguments & NEEDS_SESSION) != 0 ? "the argument session is missing: session=0xID"
                                                : NULL;
    }
    bool hex = strncmp(text, "0x", 2) == 0;
    errno = 0;
    unsigned long long id = strtoull(text, &end, 16);
    if (!hex || errno != 0 || end == text + 2 || *end != '\0' || id == 0) {
        return "the argument session is not the id of a session, such as session=0x1900a3e58c0000";
    }
    *ret = (int64_t)id;
    return NULL;
}

static const char *read_ms(const char *text, unsigned arguments, int64_t *ret)
{
    char *end = NULL;
    if (text == NULL) {
        return (arguments & NEEDS_MS) != 0 ? "the argument ms is missing: milliseconds" : NULL;
    }
    errno = 0;
    long long ms = strtoll(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno != 0 || *end != '\0' || ms > FAULTS_MS_MAX) {
        return "the argument ms is not a number of milliseconds from 0 to 86400000";
    }
    *ret = ms;
    return NULL;
}

static const char *read_when(const struct http_request *request, struct test_order *order)
{
    static const char *const words[] = {
        [TEST_NOW] = "now", [TEST_BEFORE] = "before", [TEST_AFTER] = "after"};
    const char *text = http_argument(request, "when");
    order->op = http_argument(request, "op");
    int when = TEST_NOW;
    while (text != NULL && when <= TEST_AFTER && strcmp(text, words[when]) != 0) {
        when++;
    }
    if (text == NULL || when > TEST_AFTER) {
        return "the argument when is now, before or after: when the connection ends, seen from the "
               "request";
    }
    order->when = (enum test_when)when;
    if (order->when == TEST_NOW && order->session_id == FAULTS_ALL) {
        return "with when=now, the argument session says whose connection ends";
    }
    if (order->op != NULL && !faults_what_is_known(order->op)) {
        return "the argument op is no request of the protocol, such as create, setData, multi or "
               "write for any write";
    }
    return NULL;
}

const char *test_order_read(const struct http_request *request, struct test_order *ret)
{
    const char *name = request->path + strlen(PREFIX);
    size_t at = 0;
    const char *why = NULL;
    while (at < sizeof orders / sizeof orders[0] && strcmp(orders[at].name, name) != 0) {
        at++;
    }
    if (at == sizeof orders / sizeof orders[0]) {
        return "there is no such order: expire, drop, delay, pause, resume, refuse, accept, advance, "
               "freeze, unfreeze, clear, reset, mark, report";
    }
    unsigned arguments = orders[at].arguments;
    *ret = (struct test_order){.action = orders[at].action,
                               .name = orders[at].name,
                               .session_id = FAULTS_ALL,
                               .ms = FAULTS_FOREVER};
    if ((arguments & (MAY_SESSION | NEEDS_SESSION)) != 0) {
        why = read_session(http_argument(request, "session"), arguments, &ret->session_id);
    }
    if (why == NULL && (arguments & (MAY_MS | NEEDS_MS)) != 0) {
        why = read_ms(http_argument(request, "ms"), arguments, &ret->ms);
    }
    if (why == NULL && (arguments & NEEDS_WHEN) != 0) {
        why = read_when(request, ret);
    }
    return why;
}
