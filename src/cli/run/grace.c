#include "cli/run/grace.h"

#include "cli/common/command.h"
#include "cli/common/values.h"

/* The most that the library allows: a third of the session timeout less 500 ms, or less a sixth of it. */
static int64_t most_ms(int64_t session_timeout_ms)
{
    int64_t sixth = session_timeout_ms / 6;
    return session_timeout_ms / 3 - (sixth < 500 ? sixth : 500);
}

bool grace_fit(const struct command_usage *usage, int64_t asked_ms, int64_t session_timeout_ms,
               int64_t *ret_ms)
{
    char want[DURATION_TEXT_MAX], most[DURATION_TEXT_MAX], timeout[DURATION_TEXT_MAX];
    int64_t limit_ms = most_ms(session_timeout_ms);
    if (asked_ms > limit_ms) {
        usage_error(usage, "--grace %s is too long: with a session timeout of %s it may be %s",
                    duration_text(asked_ms, want), duration_text(session_timeout_ms, timeout),
                    duration_text(limit_ms, most));
        return false;
    }
    *ret_ms = asked_ms >= 0 ? asked_ms : limit_ms;
    return true;
}
