/* Facts about this program, its process and the machine, for envi, mntr, dirs and the metrics of the process. */
#ifndef ADMIN_ANSWERS_PROCESS_INFO_H
#define ADMIN_ANSWERS_PROCESS_INFO_H

#include "base/buf.h"
#include "base/metrics.h"

/* "3.9.5-conclave-0.1.0, built on 2026-01-31 12:00 UTC": the protocol's version first, as tools expect it. Static. */
const char *process_info_version(void);

/* Calls fn for each line of envi, zookeeper.version first. */
void process_info_environment(void (*fn)(void *ctx, const char *key, const char *value), void *ctx);

/* Bytes of the files in dir/name, without subfolders. */
int64_t process_info_folder_bytes(const char *dir, const char *name);

/* The absolute name of dir. Returns out. */
const char *process_info_absolute(const char *dir, char *out, size_t size);

/* The process. */
struct process_info {
    int64_t open_files; /* -1: unknown */
    int64_t open_files_max;
    double cpu_s;
    double started_s; /* since 1970 */
    int64_t resident_bytes;
    int64_t virtual_bytes;
};

void process_info_process(struct process_info *ret);

/* Gauges that read a struct process_info. */
extern const struct metric_row process_metric_table[];
extern const size_t process_metric_count;

#endif
