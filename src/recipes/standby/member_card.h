/*
 * The data of a listed member's node: lines "name=value", an empty line, the member's own data. Pure.
 */
#ifndef RECIPES_STANDBY_MEMBER_CARD_H
#define RECIPES_STANDBY_MEMBER_CARD_H

#include "base/buf.h"

#include <conclave/elector.h>

struct member_card {
    bool observer;
    enum conclave_elector_state state;
    enum conclave_health health;
    int64_t token; /* while it is active, else 0 */
    bool ready;
};

void member_card_write(struct buf *out, const struct member_card *card, const void *data,
                       size_t len);

/* text is changed, and has room for a NUL at text[len]; *ret_data points into it. False: it is no card. */
bool member_card_read(char *text, size_t len, struct member_card *ret, const void **ret_data,
                      size_t *ret_len);

#endif
