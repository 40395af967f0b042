/* A piece of work for another thread; what blocks (the disk) is done there, and reported on the
 * loop's thread. */
#ifndef REPLICATION_DISK_DISK_JOB_H
#define REPLICATION_DISK_DISK_JOB_H

#include "base/job.h"

/* Jobs of one lane are done one after the other, in the order given; those of different lanes at
 * the same time, when there are threads. */
enum replication_lane {
    LANE_LOG,   /* writing the log */
    LANE_FILES, /* snapshots, spare segments, removing files */
    LANE_READ,  /* reading the log again */
    LANE_COUNT,
};

#endif
