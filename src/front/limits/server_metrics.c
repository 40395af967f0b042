#include "front/limits/server_metrics.h"

void server_metrics_reset(struct server_metrics *m)
{
    *m = (struct server_metrics){.response_last = -1, .response_min = -1, .response_max = -1};
}
