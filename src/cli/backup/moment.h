/* The moment that --at names, and moments as text. */
#ifndef CLI_BACKUP_MOMENT_H
#define CLI_BACKUP_MOMENT_H

#include "backup/backup_load.h"

/* A zxid ("0x1f", "31"), or a time in UTC ("2026-01-31 17:00:00", with "T" and "Z" as well, and with ".250"). False:
 * neither. */
bool moment_parse(const char *text, struct backup_moment *ret);

/* "2026-01-31 17:00:00.250 UTC"; "-" for 0. */
enum { MOMENT_TEXT_MAX = 48 };
const char *moment_text(int64_t time_ms, char buf[MOMENT_TEXT_MAX]);

#endif
