#include "state/adopt/mirrored.h"

#include "state/adopt/outcome.h"
#include "state/mirror.h"
#include "state/state_internal.h"

#include <assert.h>

/* Nothing happens, but for this error. */
static void apply_nothing(struct state *s, int32_t err, struct effects *effects)
{
    state_begin(s);
    effects_begin(effects, s->zxid);
    effects->err = err;
    effects_seal(effects);
}

static void apply_transaction(struct state *s, const struct command *command,
                              struct effects *effects)
{
    struct mirror_transaction t;
    struct outcome o;
    int rc = mirror_transaction_decode(command->body, &t);
    if (rc == 0 && (s->mirror.id != t.id || !s->mirror.synced)) {
        rc = CONCLAVE_NO_NODE;
    }
    if (rc == 0 && (outcome_read(t.bytes, &o) != 0 || o.header.zxid > OUTCOME_ZXID_MAX)) {
        s->mirror.synced = false;
        rc = CONCLAVE_DATA_INCONSISTENCY;
    }
    if (rc == 0 && o.header.zxid <= s->zxid) {
        apply_nothing(s, 0, effects);
        return;
    }
    if (rc == 0 && t.previous_zxid != s->zxid) {
        rc = CONCLAVE_BAD_VERSION;
    }
    if (rc != 0) {
        apply_nothing(s, rc, effects);
        return;
    }
    if (outcome_apply(s, &o, effects) != 0) {
        s->mirror.synced = false;
        apply_nothing(s, CONCLAVE_DATA_INCONSISTENCY, effects);
    }
}

void mirrored_apply(struct state *s, const struct batch_header *header,
                    const struct command *command, struct effects *effects)
{
    if (command->type == COMMAND_MIRROR_TRANSACTION) {
        assert(s->undo_count == 0);
        apply_transaction(s, command, effects);
    } else {
        state_apply(s, header, command, effects);
    }
}
