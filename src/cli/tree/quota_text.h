/* The text that a quota's nodes hold: "count=N,bytes=M=;byteHardLimit=X;countHardLimit=Y", -1 being none;
 * zookeeper_limits holds the limits, zookeeper_stats what is used (count and bytes). Source: StatsTrack of Apache
 * ZooKeeper, which writes the hard limits so that older servers do not stumble over them. */
#ifndef CLI_TREE_QUOTA_TEXT_H
#define CLI_TREE_QUOTA_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct quota_limits {
    int64_t count;
    int64_t bytes;
    int64_t hard_count;
    int64_t hard_bytes;
};
#define LIMITS_NONE                                                                                \
    {                                                                                              \
        -1, -1, -1, -1                                                                             \
    }

/* Keys that are not there are -1, unknown ones are passed over. false: malformed. */
bool quota_text_parse(const void *data, size_t len, struct quota_limits *ret);

/* As a server reads it. hard: with the hard limits. buf takes LIMITS_TEXT_MAX bytes. */
#define LIMITS_TEXT_MAX 160
const char *quota_text_text(const struct quota_limits *limits, bool hard,
                            char buf[LIMITS_TEXT_MAX]);

#endif
