/* Where traces of requests go, and which: the keys trace.endpoint and trace.sample. */
#ifndef FRONT_TRACES_TRACE_OPTIONS_H
#define FRONT_TRACES_TRACE_OPTIONS_H

#include "net/address.h"

#include <stdbool.h>

enum { TRACE_PATH_MAX = 256 };

struct trace_options {
    bool on;                   /* there is an endpoint */
    struct net_address to;     /* of the collector */
    char path[TRACE_PATH_MAX]; /* "/v1/traces" */
    int64_t sample;            /* one request in so many, besides the slow ones; 0: only these */
};

/* Reads "http://HOST[:PORT][/PATH]" into all but `sample`; "" switches traces off. 0, or CONCLAVE_EINVAL with a reason. */
int trace_options_set(struct trace_options *o, const char *url,
                      const char **ret_why) CONCLAVE_MUST_USE;

#endif
