/* What keeps a server from joining an ensemble, in words, with advice. */
#ifndef CLI_OPS_MEMBERS_EXPLAIN_H
#define CLI_OPS_MEMBERS_EXPLAIN_H

#include "cli/common/options.h"

enum { EXPLAIN_CLIENT_MAX = 280 };

/* "host:port" for clients in the text of a "server." line, "ID=HOST:PORT:PORT;CLIENT"; "": it names none. */
void explain_client(const char *line, char ret[EXPLAIN_CLIENT_MAX]);

/* Says on stderr if no server answers there; the change goes on. `client` may be "". */
void explain_before(const struct common_options *options, uint64_t number, const char *client);

/* Says why a change failed: the leader's reason for having no link ("": it had one, or told none), what the server itself
 * says, and what to do. */
void explain_failure(const struct common_options *options, uint64_t number, const char *problem,
                     const char *client);

/* What to do about a leader's reason; NULL: nothing particular. */
const char *explain_advice(const char *problem);

#endif
