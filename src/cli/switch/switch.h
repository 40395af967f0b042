/* Common parts of `conclave switch`: switch.c reads the arguments, switch_run.c takes part
 * (hold_command.h), switch_output.c says what happens, and switch_operate.c, switch_members.c and switch_parent.c are for
 * operators. */
#ifndef CLI_SWITCH_SWITCH_H
#define CLI_SWITCH_SWITCH_H

#include "cli/run/hold_command.h"
#include "cli/switch/fence_options.h"
#include "cli/switch/health_check.h"
#include "cli/switch/member_description.h"

#include <conclave/elector.h>
#include <conclave/group.h>

struct switch_options {
    struct hold_options hold;
    struct fence_options fence;
    struct health_rules health; /* command NULL: none, it counts as healthy */
    const char *on_active;      /* hooks, instead of a command */
    const char *on_standby;
    int64_t hook_timeout_ms;
    const char *host;
    int64_t port;
    const char *data;
    bool once;
    bool herd_free;
    bool observer;
    bool hadoop; /* layout and message of HDFS; of YARN */
    bool yarn;
    int64_t failover_port; /* Hadoop's */
    /* for operators */
    bool cede;
    int64_t stay_out_ms;
    const char *override;
    const char *state_of;
    const char *health_of;
    const char *hand_over_to;
    const char *to_observer;
    const char *to_standby;
    bool reset;
    bool make_parent;
    bool set_acl;
    bool force;
    bool non_interactive;
};

/* The group below the elector's node. */
#define SWITCH_REQUESTS "/requests"

enum { SWITCH_PATH_MAX = 4096, SWITCH_REQUESTS_MAX = 16 };

extern const struct command_usage SWITCH_USAGE;
extern const struct hold_kind SWITCHING;

/* dir with a group's name behind it. */
void switch_path(char buf[SWITCH_PATH_MAX], const char *dir, const char *group);

/* --- switch_output.c ---------------------------------------------------------------------- */

/* A line each on stdout, or an object with --json; any thread. A failure to write is printed once, on stderr. */
void switch_tell_state(const struct switch_options *o, enum conclave_elector_state state,
                       int64_t token, const char *reason);
void switch_tell_ready(const struct switch_options *o, int64_t token);
void switch_tell_health(const struct switch_options *o, enum conclave_health health);
void switch_tell_fence(const struct switch_options *o, const char *target, int64_t old_token,
                       const char *method, bool confirmed, const char *text);
void switch_tell_request(const struct switch_options *o, const char *what, const char *from,
                         int64_t stay_out_ms);

/* --- switch_operate.c ---------------------------------------------------------------------- */

/* Each runs to its end and gives the exit code. */
int switch_list(const struct switch_options *options);
int switch_cede(const struct switch_options *options);
int switch_override(const struct switch_options *options);

/* "active". Static. */
const char *switch_state_word(enum conclave_elector_state state);

/* Connects, with the time of one answer. */
int switch_ask(const struct switch_options *o, recipes_fn question);

/* Makes a request to the members as an ephemeral node, which ends with this process. The exit code; end: closes it
 * and gives code back. */
int switch_request_begin(struct conclave_recipes *recipes, const struct switch_options *o,
                         const struct switch_request *request, struct conclave_group **ret);
int switch_request_end(const struct switch_options *o, struct conclave_group *group, int code);

/* --- switch_members.c ----------------------------------------------------------------------- */

/* About one named member: --state, --check-health, --hand-over, --to-observer, --to-standby. */
int switch_state(const struct switch_options *options);
int switch_hand_over(const struct switch_options *options);
int switch_role(const struct switch_options *options);

/* --- switch_parent.c ------------------------------------------------------------------------ */

/* --reset and --make-parent; the exit code. */
int switch_parent(const struct switch_options *options);

/* --- switch_run.c ----------------------------------------------------------------------- */

/* Takes part until its end; the exit code. */
int switch_run(struct switch_options *options);

#endif
