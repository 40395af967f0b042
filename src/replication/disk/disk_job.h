/* A piece of work for another thread: blocking work (the disk) runs there, and its end is reported on the loop's
 * thread. */
#ifndef REPLICATION_DISK_DISK_JOB_H
#define REPLICATION_DISK_DISK_JOB_H

#include "base/job.h"

/* Jobs of one lane run one after the other, in order; jobs of different lanes run concurrently, if there are
 * threads. */
enum replication_lane {
    LANE_LOG,   /* writing the log */
    LANE_FILES, /* snapshots, spare segments, removing files */
    LANE_READ,  /* reading the log again */
    LANE_COUNT,
};

#endif
