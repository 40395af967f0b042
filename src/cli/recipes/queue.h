/* What the files of `conclave queue` share: queue.c reads the arguments, queue_take.c takes,
 * queue_look.c does all else. */
#ifndef CLI_RECIPES_QUEUE_H
#define CLI_RECIPES_QUEUE_H

#include "cli/common/connection.h"
#include "cli/common/options.h"

#include <conclave/queue.h>

#define QUEUE_COMMAND "queue"

struct queue_cli {
    struct common_options common; /* timeout_ms: CONCLAVE_FOREVER by default */
    const struct command_usage *usage;
    const char *path;
    const char *data; /* of put; the name of requeue; may be NULL */
    char *const *command;
    const char *file;
    const char *id;
    int64_t priority;
    int64_t max_items;
    int64_t max_attempts;
    int64_t number;
    int64_t connect_timeout_ms;
    int64_t grace_ms; /* -1: not given */
    bool follow;
    bool at_most_once;
    bool allow_setuid;
};

/* A connection with its queue. */
struct queue_session {
    struct conclave_client *client;
    struct conclave_recipes *recipes;
    struct conclave_queue *queue;
};

/* 0, or the exit code after the error was told. */
int queue_session_open(struct queue_session *session, const struct queue_cli *cli,
                       const struct conclave_queue_callbacks *callbacks, void *ctx);
void queue_session_close(struct queue_session *session);

/* An item as an object on a line of its own. 0 or CONCLAVE_EIO. */
int queue_item_json(const char *name, int priority, int attempt, const void *data, size_t len);

/* The bytes as they are. 0 or CONCLAVE_EIO. */
int queue_item_print(const void *data, size_t len);

/* Each runs to its end and gives the exit code. */
int queue_cli_put(const struct queue_cli *cli);
int queue_cli_take(const struct queue_cli *cli);
int queue_cli_peek(const struct queue_cli *cli);
int queue_cli_list(const struct queue_cli *cli);
int queue_cli_dead(const struct queue_cli *cli);
int queue_cli_requeue(const struct queue_cli *cli);

#endif
