/* One operation as it stands in a request, alone or in a multi. */
#ifndef STATE_OPERATION_H
#define STATE_OPERATION_H

#include "state/entry/command.h"

/* Whether a write creates a node that belongs to its session; a local session cannot do that. */
bool write_makes_ephemeral(int32_t type, struct slice body);

struct operation {
    int32_t type; /* what it is done as: a multi reads some creates as others */
    union {
        struct wire_create_ttl_request create; /* all kinds of create; ttl_ms -1: none */
        struct wire_delete_request delete;
        struct wire_set_data_request set_data;
        struct wire_set_acl_request set_acl;
        struct wire_check_version_request check;
        struct wire_reconfig_request reconfig;
        struct spent spent;
    } u;
};

/* Decodes one that stands alone. 0, CONCLAVE_MARSHALLING_ERROR, or the error it has whatever the
 * state is. */
int operation_decode(struct wire_reader *r, int32_t type, struct operation *ret);

/* Decodes one of a multi. 0 or CONCLAVE_MARSHALLING_ERROR. */
int operation_decode_part(struct wire_reader *r, int32_t type, struct operation *ret);

#endif
