/*
 * What a person types and what commands read of servers. The first byte of the input chooses: a line of the shell, the
 * arguments of a command, a value, ACLs, a quota's limits, the answers of four-letter words and of the HTTP port, the address
 * and the card of a member of `conclave switch`.
 * Invariants: no memory error; a quoted word reads as itself; a value that was read and written reads the same again; no
 * control character of a server reaches the terminal.
 */
#include "cli/common/acl_text.h"
#include "cli/common/ensemble_view.h"
#include "cli/common/server_query.h"
#include "cli/common/values.h"
#include "cli/ops/admin_request.h"
#include "cli/shell/shell_words.h"
#include "cli/switch/fence_options.h"
#include "cli/switch/member_description.h"
#include "cli/tree/quota_text.h"
#include "fuzz/cost.h"
#include "fuzz/input.h"

#include <conclave/error.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS_MAX = 64, USAGE_EXIT = 64 };

const struct cost_bound fuzz_bound = {
    .cpu_us = 50000,
    .cpu_ns_per_byte = 20000,
    .alloc_bytes = 1 << 20,
    .alloc_per_byte = 2000,
};

/* --- the shell ------------------------------------------------------------------------------------ */

static void fuzz_line(struct slice text)
{
    char *line = text_of(text);
    struct shell_words words, again;
    size_t start = 0;
    char *word = NULL;
    int index = 0;
    must(shell_word_at_end(line, strlen(line), &start, &word, &index) == 0);
    must(start <= strlen(line) && strlen(word) <= strlen(line) - start && index >= 0);
    free(word);
    int rc = shell_words_split(line, &words);
    must(rc == 0 || rc == CONCLAVE_EINVAL);
    for (int i = 0; rc == 0 && i < words.count; i++) {
        char *quoted = shell_word_quote(words.items[i]);
        must(quoted != NULL);
        bool blank = words.items[i][0] == '\0' || strpbrk(words.items[i], "\r\n") != NULL;
        int split = shell_words_split(quoted, &again);
        must(blank || (split == 0 && again.count == 1));
        must(blank || strcmp(again.items[0], words.items[i]) == 0);
        free(quoted);
        if (split == 0) {
            shell_words_free(&again);
        }
    }
    if (rc == 0) {
        must(words.items[words.count] == NULL);
        shell_words_free(&words);
    }
    free(line);
}

/* --- options -------------------------------------------------------------------------------------- */

struct target {
    struct common_options common;
    struct fence_options fence;
    bool flag;
    bool unset;
    const char *text;
    const char *secret;
    int64_t number;
    int64_t duration;
    int signal;
    int choice;
    struct option_list list;
};

static const struct option_row rows[] = {
    {"flag", 'f', OPTION_FLAG, offsetof(struct target, flag), NULL, "A flag."},
    {"off", 0, OPTION_NOT, offsetof(struct target, unset), NULL, "Not a flag."},
    {"text", 't', OPTION_STRING, offsetof(struct target, text), "TEXT", "A text."},
    {"secret", 0, OPTION_SECRET, offsetof(struct target, secret), "TEXT", "A secret."},
    {"number", 'n', OPTION_INTEGER, offsetof(struct target, number), "N", "A number."},
    {"wait", 0, OPTION_DURATION, offsetof(struct target, duration), "DURATION", "A time."},
    {"kill", 0, OPTION_SIGNAL, offsetof(struct target, signal), "SIGNAL", "A signal."},
    {"colour", 0, OPTION_CHOICE, offsetof(struct target, choice), "red|green", "One."},
    {"one", 'o', OPTION_ADD, offsetof(struct target, list), "X", "Of a list."},
    OPTION_GROUP(FENCE_ROWS, offsetof(struct target, fence)),
    {.name = NULL},
};

static void check_target(const struct target *t)
{
    must(t->number >= -1 && t->number <= INT32_MAX);
    must(t->duration >= 0 && t->duration <= VALUES_DURATION_MAX_MS);
    must(t->signal >= 0 && t->choice >= 0 && t->choice < 2);
    must(t->list.count <= OPTION_LIST_MAX && t->fence.given.count <= OPTION_LIST_MAX);
}

/* The words are the pieces between newlines. */
static void fuzz_options(struct slice text)
{
    static const char *const forms[] = {"PATH [-- CMD]", NULL};
    char *argv[WORDS_MAX + 2] = {"test"};
    int argc = 1;
    bool runs = text.len % 2 == 0;
    char *copy = text_of(text);
    const struct command_usage usage = {.name = "test",
                                        .forms = forms,
                                        .about = "A test.",
                                        .rows = rows,
                                        .client = true,
                                        .runs_command = runs,
                                        .operands = {0, 3}};
    struct target t = {.common = COMMON_OPTIONS_INIT, .fence = FENCE_OPTIONS_INIT};
    struct operands operands;
    for (char *at = copy; at != NULL && argc <= WORDS_MAX;) {
        argv[argc++] = strsep(&at, "\n");
    }
    int code = options_parse(&usage, argc, argv, &t, &operands);
    must(code == OPTIONS_GO_ON || code == 0 || code == USAGE_EXIT);
    if (code == OPTIONS_GO_ON) {
        must(operands.count >= 0 && operands.count <= usage.operands.max);
        must(operands.command == NULL || (runs && operands.command[0] != NULL));
        check_target(&t);
        code = fence_options_finish(&usage, &t.fence);
        must(code == OPTIONS_GO_ON || code == USAGE_EXIT);
        must(code == USAGE_EXIT || t.fence.count == t.fence.given.count);
    }
    free(copy);
}

static const char *name_at(size_t index, const void *ctx)
{
    return index < sizeof rows / sizeof rows[0] ? rows[index].name : NULL;
}

static void fuzz_value(struct slice bytes)
{
    char *text = text_of(bytes);
    int64_t value = -1, again;
    int number;
    char room[DURATION_TEXT_MAX];
    if (duration_parse(text, &value)) {
        must(value >= 0 && value <= VALUES_DURATION_MAX_MS);
        must(duration_parse(duration_text(value, room), &again) && again == value);
    }
    if (signal_parse(text, &number)) {
        must(number > 0 && signal_text(number, room)[0] != '\0');
    }
    must(!integer_parse(text, -5, 5, &value) || (value >= -5 && value <= 5));
    (void)nearest_name(text, name_at, NULL);
    free(text);
}

/* --- texts of nodes ------------------------------------------------------------------------------- */

static void fuzz_acl(struct slice bytes)
{
    char *text = text_of(bytes);
    struct acl_entries list;
    const char *wrong = NULL;
    int rc = acl_entries_parse((const char *const *)&text, 1, &list, &wrong);
    must(rc == 0 || (rc == CONCLAVE_EINVAL && wrong != NULL));
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        char perms[ACL_PERMS_TEXT_MAX];
        must(list.entries[i].scheme[0] != '\0' && list.entries[i].id != NULL);
        must(acl_perms_text(list.entries[i].perms, perms)[0] != '\0');
    }
    acl_entries_free(&list);
    free(text);
}

static void fuzz_limits(struct slice text)
{
    struct quota_limits first, again;
    char room[LIMITS_TEXT_MAX];
    if (quota_text_parse(text.data, text.len, &first)) {
        const char *written = quota_text_text(&first, true, room);
        must(quota_text_parse(written, strlen(written), &again));
        must(memcmp(&first, &again, sizeof first) == 0);
    }
}

static void fuzz_card(struct slice text)
{
    struct address address;
    struct switch_request request, again;
    struct buf out;
    buf_init(&out, 0);
    address_read(text.data, text.len, &address);
    must(address.port >= 0 && address.port <= UINT16_MAX && address.data.len <= text.len);
    if (request_read(text.data, text.len, &request)) {
        request_write(&out, &request);
        must(buf_ok(&out) && request_read(out.data, out.len, &again));
        must(strcmp(request.to, again.to) == 0);
        must(request.to[0] != '\0'
                 ? request.observer == again.observer
                 : request.token == again.token && request.stay_out_ms == again.stay_out_ms);
    }
    buf_finish(&out);
}

/* --- answers of servers --------------------------------------------------------------------------- */

static void must_be_clean(const char *text)
{
    for (; text != NULL && *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text, next = (unsigned char)text[1];
        must((c >= 0x20 || c == '\t') && c != 0x7f);
        must(c != 0xc2 || next < 0x80 || next >= 0xa0);
    }
}

static void fuzz_roster(struct slice text, bool brief)
{
    struct ensemble_view_server s = {.address = "127.0.0.1:2181"};
    struct buf answer;
    buf_init(&answer, 0);
    buf_append_slice(&answer, text);
    must(ensemble_view_read(&s, &answer, brief));
    must_be_clean(s.mode);
    must_be_clean(s.state);
    must_be_clean(s.warning);
    must_be_clean(s.version);
    must_be_clean(s.zxid);
    must_be_clean(s.admin);
    for (size_t i = 0; i < s.members_count; i++) {
        must_be_clean(s.members[i].client);
        must_be_clean(s.members[i].address);
    }
    const struct ensemble_view r = {&s, 1};
    must(!s.answered || ensemble_view_best(&r) == &s);
    ensemble_view_server_finish(&s);
    buf_finish(&answer);
}

static void fuzz_memb(struct slice text)
{
    fuzz_roster(text, false);
}

static void fuzz_srvr(struct slice text)
{
    fuzz_roster(text, true);
}

static void fuzz_response(struct slice text)
{
    struct buf answer, body;
    unsigned status;
    buf_init(&answer, 0);
    buf_init(&body, 0);
    buf_append_slice(&answer, text);
    if (admin_request_read(&answer, &status, &body)) {
        must(body.len < text.len);
    }
    buf_finish(&answer);
    buf_finish(&body);
}

static void fuzz_address(struct slice bytes)
{
    char *text = text_of(bytes);
    struct server_query ask = {.port = 0};
    must(!server_query_address(&ask, text) || (ask.port > 0 && strlen(ask.host) < strlen(text)));
    free(text);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static const fuzz_target targets[] = {fuzz_line,     fuzz_options, fuzz_value, fuzz_acl,
                                          fuzz_limits,   fuzz_card,    fuzz_memb,  fuzz_srvr,
                                          fuzz_response, fuzz_address};
    static FILE *nowhere;
    FILE *out = stdout, *err = stderr;
    if (nowhere == NULL) {
        nowhere = fopen("/dev/null", "we");
        must(nowhere != NULL);
    }
    stdout = stderr = nowhere; /* help and complaints; sanitizers do not write by these */
    fuzz_choose(targets, sizeof targets / sizeof targets[0], data, size);
    stdout = out;
    stderr = err;
}
