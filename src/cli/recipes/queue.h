/* Common parts of `conclave queue`: queue.c reads the arguments, queue_take.c takes,
 * queue_look.c does all else. */
#ifndef CLI_RECIPES_QUEUE_H
#define CLI_RECIPES_QUEUE_H

#include "cli/common/connection.h"

#include <conclave/queue.h>

struct queue_cli {
    struct common_options common; /* timeout_ms: CONCLAVE_FOREVER by default */
    const char *path;
    const char *data; /* of put; the name of requeue, the id of remove; may be NULL */
    char *const *command;
    const char *file;
    const char *id;
    const char *prefix;
    const char *claims;
    const char *item; /* id of the item */
    int layout;       /* enum conclave_queue_layout */
    int64_t delay_ms;
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

extern const struct command_usage QUEUE_USAGE;

enum queue_verb {
    QUEUE_PUT,
    QUEUE_TAKE,
    QUEUE_PEEK,
    QUEUE_LIST,
    QUEUE_DEAD,
    QUEUE_REQUEUE,
    QUEUE_REMOVE
};

/* Opens the queue. 0, or the exit code after the error was printed. Closing waits until all items are given back, as
 * long as the session lives. */
int queue_cli_open(const struct queue_cli *cli, struct conclave_recipes *recipes,
                   const struct conclave_queue_callbacks *callbacks, void *ctx,
                   struct conclave_queue **ret);
void queue_cli_close(struct conclave_queue *queue);

/* An item: its bytes as they are, or with --json an object. 0, CONCLAVE_ENOMEM or CONCLAVE_EIO. */
int queue_item_print(const struct queue_cli *cli, const char *name, int priority, int attempt,
                     const void *data, size_t len);

/* Each runs to its end and gives the exit code. */
int queue_cli_take(const struct queue_cli *cli);
int queue_cli_look(const struct queue_cli *cli, enum queue_verb verb); /* all but take */

#endif
