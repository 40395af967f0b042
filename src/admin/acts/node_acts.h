/*
 * What a page of the web console may ask to be done to a node, and the outcome in words: set, create, delete. The arguments
 * are in the query, the data are the body.
 *
 *   set     path, version                  body: the new data
 *   create  path, acl: parent (default), open, read (everyone reads, the caller does all) or own; body: the data
 *   delete  path; version, or czxid: the zxid that created the node, in decimal
 *
 * set and delete name what the page showed, so that nobody's later change is overwritten unseen.
 */
#ifndef ADMIN_ACTS_NODE_ACTS_H
#define ADMIN_ACTS_NODE_ACTS_H

#include "admin/http/http_exchange.h"
#include "front/service.h"

struct node_act {
    const char *name;  /* "set" */
    const char *audit; /* operation in the audit log */
    const char *right; /* the permission that it needs, in words */
    int32_t type;      /* enum wire_op */
    bool has_data;     /* the body is data */
    bool of_parent;    /* the parent's ACL decides */
};

/* NULL: there is no such act. */
const struct node_act *node_act_find(const char *name);

/* Appends the body of the command. 0, or a status and why, a fixed text. */
unsigned node_act_encode(const struct node_act *act, const struct state *state,
                         const struct http_request *request, struct buf *out, const char **ret_why);

/* Writes the answer. err: 0 or an error of apply or of service_write; fenced: apply refused it because of a fence. */
void node_act_answer(const struct node_act *act, int err, bool fenced,
                     struct http_response *response);

#endif
