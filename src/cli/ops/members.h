/* Common parts of `conclave members`: members.c shows and hands over, members_change.c changes. */
#ifndef CLI_OPS_MEMBERS_H
#define CLI_OPS_MEMBERS_H

#include "cli/common/options.h"

struct members_options {
    struct common_options common;
    const char *version_text;
    int64_t version; /* of it; -1: whichever */
    bool observer;
    const char *admin;
    int64_t within_ms; /* of a drain */
    bool undo;
};

extern const struct command_usage MEMBERS_USAGE;

/* Each returns the exit code, and prints its errors. */
int members_add(const struct members_options *options, const struct operands *operands);
int members_remove(const struct members_options *options, const struct operands *operands);
int members_drain(const struct members_options *options, const struct operands *operands);
int members_promote(const struct members_options *options, const struct operands *operands);

#endif
