/* Replaces state_apply in a server of the tests: a setData with these bytes ends the process when it is applied, like a
 * bug of the server. */
#include "state/state.h"

#include <stdlib.h>
#include <string.h>

void __real_state_apply(struct state *s, const struct batch_header *header,
                        const struct command *command, struct effects *effects);
void __wrap_state_apply(struct state *s, const struct batch_header *header,
                        const struct command *command, struct effects *effects);

void __wrap_state_apply(struct state *s, const struct batch_header *header,
                        const struct command *command, struct effects *effects)
{
    static const char poison[] = "the poison of the test";
    if (command->type == WIRE_SET_DATA &&
        memmem(command->body.data, command->body.len, poison, sizeof poison - 1) != NULL) {
        abort();
    }
    __real_state_apply(s, header, command, effects);
}
