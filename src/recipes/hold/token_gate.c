/* conclave_token_gate: refuses fencing tokens that are older than the newest one it has seen, for resources that keep it. */
#include <conclave/fencing.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MAGIC "conclave-token-gate 1 "

static bool id_is_good(const char *id, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)id[i];
        if (c <= ' ' || c == 0x7f) {
            return false;
        }
    }
    return len < CONCLAVE_ENSEMBLE_MAX;
}

int conclave_token_gate_admit(struct conclave_token_gate *gate, const char *ensemble,
                              struct conclave_token token, bool *ret_changed)
{
    if (ensemble == NULL || token.czxid <= 0 || !id_is_good(ensemble, strlen(ensemble))) {
        return CONCLAVE_EINVAL;
    }
    if (gate->newest != 0 && strcmp(gate->ensemble, ensemble) != 0) {
        return CONCLAVE_ECONFLICT;
    }
    if (token.czxid < gate->newest) {
        return CONCLAVE_EFENCED;
    }
    bool changed = token.czxid > gate->newest;
    if (changed) {
        gate->newest = token.czxid;
        (void)snprintf(gate->ensemble, sizeof gate->ensemble, "%s", ensemble);
    }
    if (ret_changed != NULL) {
        *ret_changed = changed;
    }
    return 0;
}

void conclave_token_gate_print(const struct conclave_token_gate *gate,
                               char buf[CONCLAVE_TOKEN_GATE_TEXT_MAX])
{
    (void)snprintf(buf, CONCLAVE_TOKEN_GATE_TEXT_MAX, MAGIC "%" PRId64 " %s\n", gate->newest,
                   gate->ensemble);
}

/* Digits, a blank, an id, a newline, and nothing else: any other text is damaged. */
int conclave_token_gate_parse(const char *text, size_t len, struct conclave_token_gate *ret)
{
    struct conclave_token_gate gate = {{0}, 0};
    char printed[CONCLAVE_TOKEN_GATE_TEXT_MAX];
    char copy[CONCLAVE_TOKEN_GATE_TEXT_MAX];
    static const size_t magic = sizeof MAGIC - 1;
    if (len < magic + 3 || len >= sizeof copy || memchr(text, '\0', len) != NULL) {
        return CONCLAVE_ECORRUPT;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    char *end;
    gate.newest = strtoll(copy + magic, &end, 10);
    size_t rest = strlen(end);
    if (gate.newest < 0 || rest < 2 || !id_is_good(end + 1, rest - 2)) {
        return CONCLAVE_ECORRUPT;
    }
    memcpy(gate.ensemble, end + 1, rest - 2);
    conclave_token_gate_print(&gate, printed);
    if (strcmp(printed, copy) != 0) {
        return CONCLAVE_ECORRUPT;
    }
    *ret = gate;
    return 0;
}
