#include "cli/migrate/found_folder.h"

#include "base/random.h"
#include "cli/common/command.h"

#include <stdio.h>
#include <stdlib.h>

int found_folder_fail(const char *command, int rc, char *error)
{
    fprintf(stderr, "conclave %s: %s\n", command, error != NULL ? error : "out of memory");
    free(error);
    return rc == CONCLAVE_ENOMEM ? CLI_EXIT_INTERNAL : CLI_EXIT_IO;
}

int found_folder_read(const char *command, const char *dir, const char *log_dir,
                      struct apache_found *ret, struct state **ret_state)
{
    struct hash_key key;
    char *error;
    random_bytes(&key, sizeof key);
    int rc = apache_folder_read(dir, log_dir, &key, ret, ret_state, &error);
    return rc == 0 ? 0 : found_folder_fail(command, rc, error);
}
