/* The program's log of a client: a line is copied into one block and posted like any other callback. */
#include "client/handle.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { LOG_WAITING_MAX = 1000, LOG_FIELDS_MAX = 12 };

struct log_job {
    struct job job;
    struct conclave_client *client;
    struct conclave_log_line line;
    const char *fields[LOG_FIELDS_MAX + 1];
    char texts[];
};

const char *conclave_log_level_name(enum conclave_log_level level)
{
    static const char *const names[] = {
        [CONCLAVE_LOG_ERROR] = "ERROR",
        [CONCLAVE_LOG_WARNING] = "WARNING",
        [CONCLAVE_LOG_INFO] = "INFO",
        [CONCLAVE_LOG_DEBUG] = "DEBUG",
    };
    size_t i = (size_t)level;
    return i < sizeof names / sizeof *names ? names[i] : "UNKNOWN";
}

static void run_log_job(struct job *job)
{
    struct log_job *l = CONTAINER_OF(job, struct log_job, job);
    struct conclave_client *client = l->client;
    pthread_mutex_lock(&client->lock);
    assert(client->log_waiting > 0);
    client->log_waiting--;
    pthread_mutex_unlock(&client->lock);
    client->on_log(client, &l->line, client->on_state_ctx);
    free(l);
}

/* Whether a value is one word of a line without quotes. */
static bool is_word(const char *value)
{
    return value[0] != '\0' && strpbrk(value, " \t\n\"=") == NULL;
}

/* A job with copies of the fields and the line made of them. NULL: out of memory. */
static struct log_job *log_job_create(const char *message, const char *const *fields)
{
    size_t copies = 0;
    size_t count = 0;
    for (; fields[count] != NULL; count++) {
        copies += strlen(fields[count]) + 1;
    }
    assert(count % 2 == 0 && count <= LOG_FIELDS_MAX);
    size_t text_len =
        strlen(message) + copies + 3 * count + 1; /* a blank, "=" and two quotes per pair */
    struct log_job *l = malloc(sizeof *l + copies + text_len);
    if (l == NULL) {
        return NULL;
    }
    char *copy = l->texts;
    char *text = l->texts + copies;
    size_t len = (size_t)snprintf(text, text_len, "%s", message);
    l->line.text = text;
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(fields[i]) + 1;
        l->fields[i] = memcpy(copy, fields[i], size);
        copy += size;
        const char *quote = is_word(fields[i]) ? "" : "\"";
        len += (size_t)snprintf(text + len, text_len - len, "%s%s%s", i % 2 == 0 ? " " : quote,
                                fields[i], i % 2 == 0 ? "=" : quote);
    }
    assert(len < text_len);
    l->fields[count] = NULL;
    l->line.fields = l->fields;
    l->line.message = message;
    return l;
}

void client_log_fields(struct conclave_client *client, enum conclave_log_level level,
                       const char *message, const char *const *fields)
{
    if (client->on_log == NULL || level > client->log_level || client->closed) {
        return;
    }
    char dropped[24];
    const char *all[LOG_FIELDS_MAX + 1];
    size_t count = 0;
    for (; fields[count] != NULL; count++) {
        all[count] = fields[count];
    }
    if (client->log_dropped > 0) {
        snprintf(dropped, sizeof dropped, "%" PRIu64, client->log_dropped);
        all[count++] = "dropped";
        all[count++] = dropped;
    }
    all[count] = NULL;
    struct log_job *l = client->log_waiting < LOG_WAITING_MAX ? log_job_create(message, all) : NULL;
    if (l == NULL) {
        client->log_dropped++;
        return;
    }
    l->client = client;
    l->line.level = level;
    client->log_dropped = 0;
    client->log_waiting++;
    dispatcher_post(&client->dispatcher, &l->job, run_log_job);
}

void client_log_state(struct conclave_client *client, enum conclave_state state)
{
    char session[24];
    char timeout[24];
    enum conclave_log_level level =
        state == CONCLAVE_STATE_AUTH_FAILED                                 ? CONCLAVE_LOG_ERROR
        : state == CONCLAVE_STATE_SUSPENDED || state == CONCLAVE_STATE_LOST ? CONCLAVE_LOG_WARNING
                                                                            : CONCLAVE_LOG_INFO;
    char why[sizeof client->loss.seen.text] = "";
    const char *key = NULL; /* ends the fields */
    if (state == CONCLAVE_STATE_SUSPENDED || state == CONCLAVE_STATE_LOST) {
        loss_text(&client->loss.seen, why, sizeof why);
        key = "why";
    }
    snprintf(session, sizeof session, "0x%" PRIx64, (uint64_t)client->core.session_id);
    snprintf(timeout, sizeof timeout, "%" PRId64, client_timeout_ms(client));
    client_log(client, level, "state", "state", conclave_state_name(state), "session", session,
               "timeout_ms", timeout, "server", client->server, key, why);
}
