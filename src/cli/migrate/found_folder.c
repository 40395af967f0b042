#include "cli/migrate/found_folder.h"

#include "base/random.h"
#include "cli/common/command.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int found_folder_fail(const char *command, int rc, char *error)
{
    fprintf(stderr, "conclave %s: %s\n", command, error != NULL ? error : conclave_strerror(rc));
    free(error);
    return rc == CONCLAVE_ENOMEM   ? CLI_EXIT_INTERNAL
           : rc == CONCLAVE_EINVAL ? CLI_EXIT_FAILED
                                   : CLI_EXIT_IO;
}

enum found_kind found_folder_kind(const char *dir, const char *log_dir)
{
    bool ours = folder_is_ours(dir);
    bool apache = apache_folder_is(dir) || (log_dir != NULL && apache_folder_is(log_dir));
    return ours ? (apache ? FOUND_BOTH : FOUND_OURS) : apache ? FOUND_APACHE : FOUND_NOTHING;
}

int found_folder_read(const char *command, const char *dir, const char *log_dir, int64_t zxid,
                      struct apache_found *ret, struct state **ret_state)
{
    struct hash_key key;
    char *error;
    random_bytes(&key, sizeof key);
    int rc = zxid != 0 ? apache_folder_read_at(dir, log_dir, zxid, &key, ret, ret_state, &error)
                       : apache_folder_read(dir, log_dir, &key, ret, ret_state, &error);
    return rc == 0 ? 0 : found_folder_fail(command, rc, error);
}

/* Whether the process has a file below the folder open. */
static bool process_uses(const char *pid, const char *folder)
{
    char path[PATH_MAX + NAME_MAX + 2];
    char target[PATH_MAX];
    bool uses = false;
    size_t len = strlen(folder);
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *d = opendir(path);
    const struct dirent *entry;
    while (d != NULL && !uses && (entry = readdir(d)) != NULL) {
        snprintf(path, sizeof path, "/proc/%.20s/fd/%s", pid, entry->d_name);
        ssize_t n = readlink(path, target, sizeof target - 1);
        uses = n > (ssize_t)len && memcmp(target, folder, len) == 0 && target[len] == '/';
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    return uses;
}

static long user_of(const char *dir)
{
    char *folder = dir != NULL ? realpath(dir, NULL) : NULL;
    DIR *d = folder != NULL ? opendir("/proc") : NULL;
    const struct dirent *entry;
    long pid = 0;
    while (d != NULL && pid == 0 && (entry = readdir(d)) != NULL) {
        long number = strtol(entry->d_name, NULL, 10);
        pid = number > 0 && number != (long)getpid() && process_uses(entry->d_name, folder) ? number
                                                                                            : 0;
    }
    if (d != NULL) {
        (void)closedir(d);
    }
    free(folder);
    return pid;
}

long found_folder_user(const char *dir, const char *log_dir)
{
    long pid = folder_check_owner(dir);
    pid = pid == 0 ? user_of(dir) : pid;
    return pid == 0 ? user_of(log_dir) : pid;
}
