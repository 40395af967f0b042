/* What the requests of a follower (conclave/redis.h) need of its handle. Any thread; nothing here changes while it is open. */
#ifndef RECIPES_FOLLOW_FOLLOW_MASTER_H
#define RECIPES_FOLLOW_FOLLOW_MASTER_H

#include "recipes/engine/recipe_runtime.h"

#include <conclave/redis.h>

struct conclave_recipes *follow_recipes(const struct conclave_redis *redis);

/* Whether it has Conclave's layout, not the gem's. */
bool follow_is_native(const struct conclave_redis *redis);

/* A path beside the record, to be freed with free. NULL: out of memory. */
char *follow_path(const struct conclave_redis *redis, const char *below);

#endif
