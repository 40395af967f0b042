/*
 * A handle that keeps a node of its own (struct member), watches a branch (struct mirror), or does both: what group,
 * registration, discovery and configuration share. Its end removes the node.
 *
 * Lock of the client held for all functions, unless said otherwise.
 */
#ifndef RECIPES_GROUP_NODE_HANDLE_H
#define RECIPES_GROUP_NODE_HANDLE_H

#include "recipes/engine/handle_calls.h"
#include "recipes/engine/persistent_node.h"
#include "recipes/engine/tree_mirror.h"

#include <conclave/group.h>

struct node_handle {
    struct host host; /* first */
    struct member member;
    char *parent; /* of the member's node; NULL: it keeps none */
    char *node;
    char incarnation[MEMBER_INCARNATION_MAX]; /* "": its node has none */
    struct conclave_acl *acl;
    enum conclave_membership
        membership;                /* of its node; handle_post and client_notify at a change */
    enum conclave_membership told; /* the dispatcher's */
    void (*member_changed)(struct node_handle *n); /* NULL: not wanted */

    struct mirror mirror;     /* path NULL: it watches nothing */
    struct mirror_view seen;  /* the latest view, complete; empty once it was taken */
    bool seen_stale;          /* the link was away; true before the first view */
    bool seen_due;            /* the view, or `stale`, was not taken yet */
    struct client_timer look; /* memory was out */
};

/* Before host_open, no lock held: sets the node to keep and the branch to watch. 0, CONCLAVE_ENOMEM, CONCLAVE_EINVAL
 * (the node's path); takes over what ends in _take, NULL for want of memory, also then. The incarnation is set before.
 * */
int node_handle_keep(struct node_handle *n, char *parent_take, const char *id,
                     const struct conclave_acl *acl, size_t acl_count, char *text_take,
                     size_t len) CONCLAVE_MUST_USE;
int node_handle_watch(struct node_handle *n, const char *path, int depth,
                      int64_t debounce_ms) CONCLAVE_MUST_USE;

/* After host_open. */
void node_handle_begin(struct node_handle *n);

/* For the host's class. */
void node_handle_on_state(struct host *host, enum conclave_state state);
void node_handle_stop(struct host *host);
bool node_handle_is_idle(struct host *host);
void node_handle_finish(struct node_handle *n);

/* In run_due: whether the membership is new. */
bool node_handle_take_membership(struct node_handle *n, enum conclave_membership *ret);

/* Bodies of public functions: the membership now, and waiting until the node is there. No lock held. */
enum conclave_membership node_handle_membership(struct node_handle *n);
int node_handle_wait_in(struct node_handle *n, int64_t timeout_ms) CONCLAVE_MUST_USE;

/* In run_due: the view to report, if there is one. Clear it with mirror_view_clear. */
bool node_handle_take_view(struct node_handle *n, struct mirror_view *ret, bool *ret_stale);

/* No memory to report it: another one comes soon. */
void node_handle_look_later(struct node_handle *n);

/* Writes the node's data. Takes text over; NULL: there was no memory. 0, CONCLAVE_ENOMEM, CONCLAVE_ECLOSED,
 * CONCLAVE_EFORK. No lock held. */
int node_handle_write(struct node_handle *n, char *text_take, size_t len) CONCLAVE_MUST_USE;

/* For a blocking function: a handle without callbacks, to be waited on with host_wait, that sees a node and its
 * children. The lock is not held for opening. once: without watches. Close takes NULL. */
int node_glance_open(struct conclave_recipes *rt, const char *path, bool once,
                     struct node_handle **ret) CONCLAVE_MUST_USE;
void node_glance_close(struct node_handle *n);

#endif
