/*
 * POST /members/transfer, with the argument `to`, the member that shall lead; without it the most up-to-date voter.
 * For admitted identities only (admission.h). Any member takes it: who does not lead tells the leader. The answer says
 * that the hand-over was begun, not that it is done: see who leads.
 */
#ifndef ADMIN_TRANSFER_H
#define ADMIN_TRANSFER_H

#include "admin/admission.h"
#include "admin/view.h"

struct transfer {
    struct view *view;           /* borrowed */
    struct admission *admission; /* likewise */
};

/* Whether a request is for it; answers it. */
bool transfer_answer(struct transfer *t, const struct http_request *request,
                     struct http_response *response);

#endif
