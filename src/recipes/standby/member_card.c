#include "recipes/standby/member_card.h"

#include "recipes/standby/breadcrumb.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void member_card_write(struct buf *out, const struct member_card *card, const void *data,
                       size_t len)
{
    buf_printf(out, "role=%s\nstate=%s\nhealth=%s\ntoken=%" PRId64 "\nready=%d\n\n",
               card->observer ? "observer" : "participant",
               conclave_elector_state_name(card->state), conclave_health_name(card->health),
               card->token, card->ready ? 1 : 0);
    buf_append(out, data, len);
}

bool member_card_read(char *text, size_t len, struct member_card *ret, const void **ret_data,
                      size_t *ret_len)
{
    char *at = text;
    char *end = text + len;
    int state = 0;
    int health = 0;
    *end = '\0';
    const char *role = breadcrumb_line(&at, end, "role");
    const char *state_name = role == NULL ? NULL : breadcrumb_line(&at, end, "state");
    const char *health_name = state_name == NULL ? NULL : breadcrumb_line(&at, end, "health");
    const char *token = health_name == NULL ? NULL : breadcrumb_line(&at, end, "token");
    const char *ready = token == NULL ? NULL : breadcrumb_line(&at, end, "ready");
    if (ready == NULL || at >= end || *at != '\n') {
        return false;
    }
    while (state < CONCLAVE_ELECTOR_OBSERVER &&
           strcmp(conclave_elector_state_name((enum conclave_elector_state)state), state_name) !=
               0) {
        state++;
    }
    while (health < CONCLAVE_HEALTH_MONITOR_FAILED &&
           strcmp(conclave_health_name((enum conclave_health)health), health_name) != 0) {
        health++;
    }
    *ret = (struct member_card){.observer = strcmp(role, "observer") == 0,
                                .state = (enum conclave_elector_state)state,
                                .health = (enum conclave_health)health,
                                .token = strtoll(token, NULL, 10),
                                .ready = strcmp(ready, "1") == 0};
    *ret_data = at + 1;
    *ret_len = (size_t)(end - at - 1);
    return true;
}
