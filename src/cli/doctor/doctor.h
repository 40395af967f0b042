/* The parts of conclave doctor: each looks at one side of a server or its ensemble, and adds what it finds. */
#ifndef CLI_DOCTOR_DOCTOR_H
#define CLI_DOCTOR_DOCTOR_H

#include "cli/common/options.h"
#include "cli/doctor/findings.h"
#include "daemon/zoo_cfg.h"

struct doctor_options {
    struct common_options common;
    const char *data;
    struct option_list keys; /* KEY=VALUE */
    int64_t slow_sync_ms;
    int64_t min_free_mib;
    int64_t days;
};

/* What the disk did. */
struct doctor_disk {
    bool measured;
    int64_t sync_median_us;
    int64_t sync_max_us;
    int64_t write_kib_s; /* one large write with its sync */
};

struct doctor {
    const struct doctor_options *options;
    struct zoo_cfg *config; /* NULL: only an ensemble is looked at */
    const char *file;       /* of the configuration, or NULL */
    long owner;             /* the process that runs the server of the folder; 0: none */
    size_t members_answered;
    struct doctor_disk disk;
    struct findings findings;
};

/* Reads the configuration; false: it is not valid, and nothing else of this server can be looked at. */
bool doctor_config(struct doctor *d, int argc, char **argv);

/* Files that hold secrets, and certificates. */
void doctor_secrets(struct doctor *d);
void doctor_certificates(struct doctor *d);

/* The data folder: what it holds, and the disk below it. */
void doctor_folder(struct doctor *d);
void doctor_disk(struct doctor *d);

/* Files of an Apache ZooKeeper in the data folder, and what an import of them left. */
void doctor_import(struct doctor *d);

/* Of the process and of memory. */
void doctor_limits(struct doctor *d);

/* Host names and ports; doctor_peers after doctor_members. */
void doctor_hosts(struct doctor *d);
void doctor_ports(struct doctor *d);
void doctor_peers(struct doctor *d);

/* The servers of the ensemble, as they answer. 0, or the exit code of a printed error. */
int doctor_members(struct doctor *d);

#endif
