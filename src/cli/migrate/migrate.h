/* conclave migrate: what its verbs share. */
#ifndef CLI_MIGRATE_MIGRATE_H
#define CLI_MIGRATE_MIGRATE_H

#include "cli/migrate/mirror_status.h"

extern const struct command_usage MIGRATE_USAGE;

int migrate_follow(const struct migrate_options *o);
int migrate_status(const struct migrate_options *o);
int migrate_verify(const struct migrate_options *o);
int migrate_cut(const struct migrate_options *o);

#endif
