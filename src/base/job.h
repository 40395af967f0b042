/* A piece of work for another thread than the loop's; its caller embeds it. */
#ifndef BASE_JOB_H
#define BASE_JOB_H

#include "base/list.h"

struct worker_job {
    struct list node;
    void (*work)(struct worker_job *job); /* on a worker's thread */
    void (*done)(struct worker_job *job); /* on the loop's thread; may free the job */
};

#endif
