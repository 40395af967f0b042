#include "base/account.h"

void account_finish(const struct account *a)
{
    for (int use = 0; use < ACCOUNT_USES; use++) {
        assert(a->bytes[use] == 0 && a->charges[use] == 0);
    }
}
