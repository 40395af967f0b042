#define _GNU_SOURCE /* realpath, sysconf */
#include "admin/answers/process_info.h"

#include "base/clock.h"

#include <conclave/error.h>

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define PROTOCOL_VERSION "3.9.5" /* the version of Apache ZooKeeper that clients may expect */

enum {
    FILES_FRESH_MS = 10000
}; /* counting many descriptors is slow, so the count is kept this long */

/* __DATE__ and __TIME__ follow SOURCE_DATE_EPOCH, so that builds are reproducible. */
const char *process_info_version(void)
{
    static char text[96];
    static const char MONTHS[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    static const char DATE[] = __DATE__; /* "Jan  1 2026" */
    if (text[0] == '\0') {
        char name[4] = {DATE[0], DATE[1], DATE[2], '\0'};
        int month = (int)(strstr(MONTHS, name) - MONTHS) / 3 + 1;
        snprintf(text, sizeof text,
                 PROTOCOL_VERSION "-conclave-%s, built on %.4s-%02d-%02d %.5s UTC",
                 CONCLAVE_VERSION_TEXT, DATE + 7, month, (int)strtol(DATE + 4, NULL, 10), __TIME__);
    }
    return text;
}

static const char *or_unknown(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : "<NA>";
}

void process_info_environment(void (*fn)(void *ctx, const char *key, const char *value), void *ctx)
{
    char text[PATH_MAX];
    struct utsname name = {0};
    const struct passwd *user = getpwuid(geteuid());
    fn(ctx, "zookeeper.version", process_info_version());
    if (gethostname(text, sizeof text) != 0) {
        text[0] = '\0';
    }
    text[sizeof text - 1] = '\0';
    fn(ctx, "host.name", or_unknown(text));
    if (uname(&name) != 0) {
        name.sysname[0] = name.machine[0] = name.release[0] = '\0';
    }
    fn(ctx, "os.name", or_unknown(name.sysname));
    bool amd64 = strcmp(name.machine, "x86_64") == 0; /* Java's name */
    fn(ctx, "os.arch", amd64 ? "amd64" : or_unknown(name.machine));
    fn(ctx, "os.version", or_unknown(name.release));
    fn(ctx, "user.name", or_unknown(user != NULL ? user->pw_name : NULL));
    fn(ctx, "user.home", or_unknown(user != NULL ? user->pw_dir : NULL));
    fn(ctx, "user.dir", or_unknown(getcwd(text, sizeof text)));
    int64_t page = sysconf(_SC_PAGESIZE);
    int64_t mb = 1024 * 1024;
    snprintf(text, sizeof text, "%lldMB", (long long)(sysconf(_SC_AVPHYS_PAGES) * page / mb));
    fn(ctx, "os.memory.free", text);
    snprintf(text, sizeof text, "%lldMB", (long long)(sysconf(_SC_PHYS_PAGES) * page / mb));
    fn(ctx, "os.memory.total", text);
}

int64_t process_info_folder_bytes(const char *dir, const char *name)
{
    char path[PATH_MAX];
    int64_t bytes = 0;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, name) >= sizeof path) {
        return 0;
    }
    DIR *d = opendir(path);
    if (d == NULL) {
        return 0;
    }
    const struct dirent *entry;
    while ((entry = readdir(d)) != NULL) {
        struct stat st;
        if (fstatat(dirfd(d), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode)) {
            bytes += st.st_size;
        }
    }
    closedir(d);
    return bytes;
}

const char *process_info_absolute(const char *dir, char *out, size_t size)
{
    char *absolute = realpath(dir, NULL);
    snprintf(out, size, "%s", absolute != NULL ? absolute : dir);
    free(absolute);
    return out;
}

/* Since Linux 6.2 the size of the folder is the number of its entries; before, it is 0 and they are counted. */
static int64_t count_open_files(void)
{
    struct stat st;
    if (stat("/proc/self/fd", &st) != 0) {
        return -1;
    }
    if (st.st_size > 0) {
        return st.st_size;
    }
    DIR *d = opendir("/proc/self/fd");
    if (d == NULL) {
        return -1;
    }
    int64_t count = -3; /* ".", ".." and the folder itself */
    while (readdir(d) != NULL) {
        count++;
    }
    closedir(d);
    return count;
}

static void read_statm(struct process_info *ret)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char text[128];
    size_t len = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    text[len] = '\0'; /* pages: "size resident …" */
    char *end = text;
    ret->virtual_bytes = strtoll(text, &end, 10) * sysconf(_SC_PAGESIZE);
    ret->resident_bytes = strtoll(end, NULL, 10) * sysconf(_SC_PAGESIZE);
}

/* Field 22 of /proc/self/stat counts ticks since the machine started, as the monotonic clock does. */
static double process_started_s(void)
{
    static double started_s;
    char text[1024];
    if (started_s != 0) {
        return started_s;
    }
    FILE *file = fopen("/proc/self/stat", "re");
    size_t len = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    text[len] = '\0';
    const char *at = strrchr(text, ')'); /* after the process name, which may contain anything */
    for (int field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    if (at != NULL) {
        double since_boot_s = (double)strtoull(at + 1, NULL, 10) / (double)sysconf(_SC_CLK_TCK);
        const struct clock_source *clock = clock_system();
        started_s = (double)clock_wall_ms(clock) / 1000 -
                    ((double)clock_monotonic_ms(clock) / 1000 - since_boot_s);
    }
    return started_s;
}

void process_info_process(struct process_info *ret)
{
    static int64_t files = -1;
    static int64_t files_at_ms;
    const struct clock_source *clock = clock_system();
    int64_t now_ms = clock_monotonic_ms(clock);
    /* A small number is counted fast, so it is always fresh. */
    if (files < 0 || now_ms - files_at_ms >= FILES_FRESH_MS || files < 1000) {
        files = count_open_files();
        files_at_ms = now_ms;
    }
    struct rlimit limit = {0};
    struct timespec cpu = {0};
    *ret = (struct process_info){.open_files = files, .started_s = process_started_s()};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        ret->open_files_max = (int64_t)limit.rlim_cur;
    }
    if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu) == 0) {
        ret->cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
    }
    read_statm(ret);
}

/* X(name, whether it has a fraction, expression over `p`, help) */
#define PROCESS_GAUGES(X)                                                                          \
    X(open_file_descriptor_count, false, p->open_files, "Open descriptors")                        \
    X(max_file_descriptor_count, false, p->open_files_max, "Limit of open descriptors")            \
    X(process_open_fds, false, p->open_files, "Open descriptors")                                  \
    X(process_max_fds, false, p->open_files_max, "Limit of open descriptors")                      \
    X(process_cpu_seconds_total, true, p->cpu_s, "User and system time used, s")                   \
    X(process_start_time_seconds, true, p->started_s, "When the process began, s since 1970")      \
    X(process_resident_memory_bytes, false, p->resident_bytes, "Resident memory")                  \
    X(process_virtual_memory_bytes, false, p->virtual_bytes, "Virtual memory")

#define PROCESS_READ(gauge, fraction, expression, help)                                            \
    METRIC_GAUGE_READ(gauge, struct process_info, p, expression)
PROCESS_GAUGES(PROCESS_READ)

const struct metric_row process_metric_table[] = {PROCESS_GAUGES(METRIC_GAUGE_ROW)};

const size_t process_metric_count = sizeof process_metric_table / sizeof process_metric_table[0];
