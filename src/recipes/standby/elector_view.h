/*
 * What the blocking functions of conclave/elector_admin.h share: a question about the directory of a service, with the
 * time that is left for it. No lock held.
 */
#ifndef RECIPES_STANDBY_ELECTOR_VIEW_H
#define RECIPES_STANDBY_ELECTOR_VIEW_H

#include "recipes/engine/blocking_requests.h"
#include "recipes/standby/breadcrumb.h"

#include <conclave/elector.h>

struct elector_question {
    struct blocking blocking;
    struct conclave_recipes *rt;
    const char *dir; /* borrowed */
};

/* 0, CONCLAVE_EINVAL, or why this thread may not block. */
int elector_question_begin(struct conclave_recipes *rt, const char *dir, int64_t timeout_ms,
                           struct elector_question *ret) CONCLAVE_MUST_USE;

/* The breadcrumb, whose strings point into *ret_text (to be freed), and the version of its node. CONCLAVE_NO_NODE: there
 * is none. */
int elector_question_crumb(struct elector_question *q, char **ret_text,
                           struct conclave_breadcrumb *ret, int32_t *ret_version) CONCLAVE_MUST_USE;

/* Whether an operator has confirmed that the member with this token is dead. */
int elector_question_override(struct elector_question *q, int64_t token,
                              bool *ret) CONCLAVE_MUST_USE;

#endif
