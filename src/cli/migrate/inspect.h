/* The two kinds of folders that conclave inspect knows. */
#ifndef CLI_MIGRATE_INSPECT_H
#define CLI_MIGRATE_INSPECT_H

#include <stdbool.h>
#include <stdint.h>

struct inspect_options {
    const char *log_dir;
    int64_t depth;
    int64_t top;
    bool json;
    const char *dir; /* the operand */
    long used_by;    /* process that uses the folder, or 0 */
};

/* Each reads the folder and prints what is in it. The exit code. */
int inspect_apache(const struct inspect_options *o);
int inspect_ours(const struct inspect_options *o);

#endif
