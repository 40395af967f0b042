/*
 * All of the library. conclave/uv.h, for programs with a libuv loop, needs no header of libuv.
 */
#ifndef CONCLAVE_CONCLAVE_H
#define CONCLAVE_CONCLAVE_H

#include <conclave/barrier.h>
#include <conclave/cache.h>
#include <conclave/client.h>
#include <conclave/client_options.h>
#include <conclave/config.h>
#include <conclave/counter.h>
#include <conclave/easy.h>
#include <conclave/election.h>
#include <conclave/elector.h>
#include <conclave/elector_admin.h>
#include <conclave/error.h>
#include <conclave/fencing.h>
#include <conclave/group.h>
#include <conclave/hadoop.h>
#include <conclave/hand_over.h>
#include <conclave/lease.h>
#include <conclave/lock.h>
#include <conclave/log.h>
#include <conclave/master_switch.h>
#include <conclave/node.h>
#include <conclave/op.h>
#include <conclave/partitioner.h>
#include <conclave/persistent_node.h>
#include <conclave/queue.h>
#include <conclave/queue_item.h>
#include <conclave/recipes.h>
#include <conclave/redis.h>
#include <conclave/registry.h>
#include <conclave/retry.h>
#include <conclave/semaphore.h>
#include <conclave/servers.h>
#include <conclave/span.h>
#include <conclave/test_server.h>
#include <conclave/uv.h>
#include <conclave/version.h>

#endif
