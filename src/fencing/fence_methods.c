#include "fencing/fence_methods.h"

#include "base/json.h"
#include "fencing/child_process.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    VARIABLES = 6,
    TEXT_MAX = 160,
    DATA_MAX = 65536, /* in the environment, whose strings are limited */
    STATUS_MAX = 16,  /* what curl writes */
    SSH_WORDS = 8,    /* beside its options */
    SSH_FAILED = 255,
    HTTP_OK = 200,
    HTTP_NO_CONTENT = 204,
};

static const char *const kind_names[] = {"exec", "ssh", "http"};

const char *fence_kind_name(enum fence_kind kind)
{
    return (unsigned)kind <= FENCE_HTTP ? kind_names[kind] : "unknown";
}

/* --- checks ----------------------------------------------------------------------- */

static bool printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text <= ' ' || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

const char *fence_method_wrong(const struct fence_method *method)
{
    const char *text = method->text;
    if ((unsigned)method->kind > FENCE_HTTP) {
        return "there is no such kind of method";
    }
    if (text == NULL || text[0] == '\0') {
        return method->kind == FENCE_HTTP ? "the URL is empty" : "the command is empty";
    }
    if (method->timeout_ms <= 0) {
        return "the timeout has to be more than 0";
    }
    if (method->kind == FENCE_HTTP &&
        ((strncmp(text, "http://", 7) != 0 && strncmp(text, "https://", 8) != 0) ||
         !printable(text))) {
        return "the URL has to begin with http:// or https:// and may have no spaces";
    }
    return NULL;
}

/* It comes from a node that others write: nothing that ssh could take for an option. */
static bool host_valid(const char *host)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "._-:%";
    return host != NULL && host[0] != '\0' && host[0] != '-' && host[strspn(host, allowed)] == '\0';
}

/* --- the environment --------------------------------------------------------------------- */

/* "NAME=value" of the target, in one block. */
struct variables {
    struct buf block;
    size_t at[VARIABLES];
    const char *list[VARIABLES + 1];
};

static bool variables_make(struct variables *v, const struct fence_target *t)
{
    struct slice data = slice_make(t->data != NULL ? t->data : "", t->data_len);
    bool text = data.len <= DATA_MAX && utf8_valid(data) && memchr(data.data, 0, data.len) == NULL;
    struct buf *b = &v->block;
    size_t n = 0;
    buf_init(b, 0);
    v->at[n++] = b->len;
    buf_printf(b, "CONCLAVE_TARGET_ID=%s%c", t->id != NULL ? t->id : "", 0);
    v->at[n++] = b->len;
    buf_printf(b, "CONCLAVE_TARGET_HOST=%s%c", t->host != NULL ? t->host : "", 0);
    v->at[n++] = b->len;
    if (t->port > 0) {
        buf_printf(b, "CONCLAVE_TARGET_PORT=%d%c", t->port, 0);
    } else {
        buf_printf(b, "CONCLAVE_TARGET_PORT=%c", 0);
    }
    v->at[n++] = b->len;
    buf_append_str(b, "CONCLAVE_TARGET_DATA=");
    buf_append_slice(b, text ? data : slice_str(""));
    buf_append_u8(b, 0);
    v->at[n++] = b->len;
    buf_printf(b, "CONCLAVE_OLD_TOKEN=%" PRId64 "%c", t->old_token, 0);
    v->at[n++] = b->len;
    buf_printf(b, "CONCLAVE_NEW_TOKEN=%" PRId64 "%c", t->new_token, 0);
    assert(n == VARIABLES);
    for (size_t i = 0; i < n && buf_ok(b); i++) {
        v->list[i] = (const char *)b->data + v->at[i];
    }
    v->list[n] = NULL;
    return buf_ok(b);
}

/* --- what a method came to --------------------------------------------------------------- */

struct attempt {
    const struct fence_method *method;
    const struct fence_target *target;
    int stop_fd;
    char text[TEXT_MAX];
};

static int not_run(struct attempt *a, const char *program, int error, int code)
{
    switch (error) {
    case CONCLAVE_ETIMEDOUT:
        (void)snprintf(a->text, sizeof a->text, "no end within %" PRId64 "ms",
                       a->method->timeout_ms);
        break;
    case CONCLAVE_EIO:
        (void)snprintf(a->text, sizeof a->text, "cannot run %s: %s", program, strerror(code));
        break;
    default:
        (void)snprintf(a->text, sizeof a->text, "%s", conclave_strerror(error));
        break;
    }
    return error;
}

/* A command whose exit code says it all. */
static int run_command(struct attempt *a, const char *const *argv, const char *const *more)
{
    struct process_spec spec = {
        .argv = argv, .more = more, .timeout_ms = a->method->timeout_ms, .stop_fd = a->stop_fd};
    int code = 0;
    int error = process_run(&spec, &code);
    if (error != 0) {
        return not_run(a, argv[0], error, code);
    }
    (void)snprintf(a->text, sizeof a->text, "exit code %d%s", code,
                   a->method->kind == FENCE_SSH && code == SSH_FAILED ? ", of ssh itself" : "");
    return code == 0 ? 0 : CONCLAVE_EBUSY;
}

/* --- exec ------------------------------------------------------------------------------- */

static int run_exec(struct attempt *a)
{
    const char *const argv[] = {"/bin/sh", "-c", a->method->text, NULL};
    struct variables v;
    int error = variables_make(&v, a->target) ? run_command(a, argv, v.list)
                                              : not_run(a, argv[0], CONCLAVE_ENOMEM, 0);
    buf_finish(&v.block);
    return error;
}

/* --- ssh -------------------------------------------------------------------------------- */

/* The user's own shell reads it first: no backslash within quotes, which fish takes for an escape. */
static void append_quoted(struct buf *b, const char *text)
{
    buf_append_u8(b, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'' || *text == '\\') {
            buf_append_str(b, "'\\");
            buf_append_u8(b, (uint8_t)*text);
            buf_append_u8(b, '\'');
        } else {
            buf_append_u8(b, (uint8_t)*text);
        }
    }
    buf_append_u8(b, '\'');
}

/* ssh takes no environment along: env on the other side makes it. */
static bool write_remote(struct buf *b, const struct attempt *a)
{
    struct variables v;
    bool made = variables_make(&v, a->target);
    buf_append_str(b, "env");
    for (size_t i = 0; made && v.list[i] != NULL; i++) {
        buf_append_u8(b, ' ');
        append_quoted(b, v.list[i]);
    }
    buf_append_str(b, " /bin/sh -c ");
    append_quoted(b, a->method->text);
    buf_finish(&v.block);
    return made && buf_cstr(b) != NULL;
}

static const char **ssh_words(const struct fence_method *method, const char *timeout,
                              const char *host, const char *remote)
{
    const char *const *options = method->ssh_options;
    const char *const rest[] = {"-o", "BatchMode=yes", "-o", timeout, "--", host, remote, NULL};
    size_t count = 0;
    size_t n = 0;
    while (options != NULL && options[count] != NULL) {
        count++;
    }
    const char **words = calloc(2 * count + 1 + SSH_WORDS, sizeof *words);
    if (words == NULL) {
        return NULL;
    }
    words[n++] = "ssh";
    for (size_t i = 0; i < count; i++) {
        words[n++] = "-o";
        words[n++] = options[i];
    }
    assert(n + sizeof rest / sizeof rest[0] <= 2 * count + 1 + SSH_WORDS);
    memcpy(&words[n], rest, sizeof rest);
    return words;
}

static int run_ssh(struct attempt *a)
{
    char timeout[40];
    struct buf remote;
    int error = CONCLAVE_EBUSY;
    if (!host_valid(a->target->host)) {
        (void)snprintf(a->text, sizeof a->text, "%s",
                       a->target->host == NULL || a->target->host[0] == '\0'
                           ? "the host is not known"
                           : "the host has no valid name");
        return error;
    }
    buf_init(&remote, 0);
    int64_t seconds = (a->method->timeout_ms + 999) / 1000;
    (void)snprintf(timeout, sizeof timeout, "ConnectTimeout=%" PRId64, seconds);
    const char **words = write_remote(&remote, a) ? ssh_words(a->method, timeout, a->target->host,
                                                              (const char *)remote.data)
                                                  : NULL;
    error = words != NULL ? run_command(a, words, NULL) : not_run(a, "ssh", CONCLAVE_ENOMEM, 0);
    free(words);
    buf_finish(&remote);
    return error;
}

/* --- http ------------------------------------------------------------------------------- */

static void write_body(struct json *j, const struct fence_target *t)
{
    json_line_begin(j);
    json_key(j, "target");
    json_object_begin(j);
    json_member_string(j, "id", t->id != NULL ? t->id : "");
    json_member_string(j, "host", t->host != NULL ? t->host : "");
    json_member_int(j, "port", t->port);
    json_data(j, t->data_len > 0 ? t->data : NULL, t->data_len);
    json_object_end(j);
    json_member_int(j, "old_token", t->old_token);
    json_member_int(j, "new_token", t->new_token);
    json_object_end(j);
}

/* A line of curl's configuration file. */
static void append_setting(struct buf *b, const char *name, struct slice value)
{
    buf_printf(b, "%s = \"", name);
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] == '"' || value.data[i] == '\\') {
            buf_append_u8(b, '\\');
        }
        buf_append_u8(b, value.data[i]);
    }
    buf_append_str(b, "\"\n");
}

/* By its input, so that no list of processes shows a password in the URL. */
static void write_settings(struct buf *b, const struct fence_method *method, struct slice body)
{
    buf_append_str(b, "silent\nshow-error\ngloboff\noutput = \"/dev/null\"\n"
                      "no-location\nproto = \"=http,https\"\nrequest = \"POST\"\n"
                      "header = \"Content-Type: application/json\"\n"
                      "write-out = \"%{http_code}\"\n");
    append_setting(b, "data-raw", body);
    append_setting(b, "url", slice_str(method->text));
}

static int run_http(struct attempt *a)
{
    static const char *const argv[] = {"curl", "--config", "-", NULL};
    char status[STATUS_MAX] = "";
    int code = 0;
    int error = CONCLAVE_ENOMEM;
    struct buf settings;
    struct json body;
    buf_init(&settings, 0);
    write_body(&body, a->target);
    if (buf_ok(&body.out)) {
        write_settings(&settings, a->method, buf_slice(&body.out));
    }
    struct process_spec spec = {.argv = argv,
                                .input = buf_slice(&settings),
                                .output = status,
                                .output_size = sizeof status,
                                .timeout_ms = a->method->timeout_ms,
                                .stop_fd = a->stop_fd};
    if (buf_ok(&body.out) && buf_ok(&settings)) {
        error = process_run(&spec, &code);
    }
    json_finish(&body);
    buf_finish(&settings);
    if (error != 0) {
        return not_run(a, "curl", error, code);
    }
    if (code != 0) {
        (void)snprintf(a->text, sizeof a->text, "no answer: exit code %d of curl", code);
        return CONCLAVE_EBUSY;
    }
    long answer = strtol(status, NULL, 10);
    (void)snprintf(a->text, sizeof a->text, "status %ld", answer);
    return answer == HTTP_OK || answer == HTTP_NO_CONTENT ? 0 : CONCLAVE_EBUSY;
}

/* --- in their order ---------------------------------------------------------------------- */

static bool may_fence(const struct fence_method *method, const char *host)
{
    for (size_t i = 0; method->hosts != NULL && method->hosts[i] != NULL; i++) {
        if (host != NULL && strcasecmp(method->hosts[i], host) == 0) {
            return true;
        }
    }
    return method->hosts == NULL;
}

static int run_method(struct attempt *a)
{
    const char *wrong = fence_method_wrong(a->method);
    if (wrong != NULL) {
        (void)snprintf(a->text, sizeof a->text, "%s", wrong);
        return CONCLAVE_EINVAL;
    }
    if (!may_fence(a->method, a->target->host)) {
        (void)snprintf(a->text, sizeof a->text, "the host is not one of those that may be fenced");
        return CONCLAVE_EBUSY;
    }
    switch (a->method->kind) {
    case FENCE_SSH:
        return run_ssh(a);
    case FENCE_HTTP:
        return run_http(a);
    default:
        return run_exec(a);
    }
}

int fence_methods_run(const struct fence_method *methods, size_t count,
                      const struct fence_target *target, int stop_fd, fence_told_fn told, void *ctx)
{
    for (size_t i = 0; i < count; i++) {
        struct attempt attempt = {.method = &methods[i], .target = target, .stop_fd = stop_fd};
        int error = run_method(&attempt);
        if (told != NULL) {
            told(&methods[i], error, attempt.text, ctx);
        }
        if (error == 0 || error == CONCLAVE_ECANCELED) {
            return error;
        }
    }
    return CONCLAVE_EBUSY;
}
