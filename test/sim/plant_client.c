/* Faults planted in the client: apart from plant.c, because client and server each have their own names for
 * some things. */
#include "client/core/core_internal.h"
#include "sim/plant.h"

WRAP(int, core_tell_resumed, (struct core * c))
{
    c->resuming = c->resuming && !planted(PLANT_NOT_RESUMED);
    return c->resuming ? __real_core_tell_resumed(c) : 0;
}
