/* An instance of a service as JSON, in the form that Curator's JsonInstanceSerializer writes and
 * reads. Pure memory. */
#ifndef RECIPES_GROUP_SERVICE_INSTANCE_H
#define RECIPES_GROUP_SERVICE_INSTANCE_H

#include <conclave/registry.h>

/* The JSON on the heap, NULL without memory. */
char *instance_write(const struct conclave_instance *instance, size_t *ret_len);

/* Reads JSON into *ret, whose strings are in one block that *ret_block frees. 0, CONCLAVE_ECORRUPT
 * (no instance), CONCLAVE_ENOMEM. */
int instance_read(const void *json, size_t len, struct conclave_instance *ret,
                  char **ret_block) CONCLAVE_MUST_USE;

/* Copies, texts included, each in one block to be freed with free; NULL without memory. */
struct conclave_instance *instance_copy(const struct conclave_instance *instance);
struct conclave_instance **instances_copy(const struct conclave_instance *const *list,
                                          size_t count);

#endif
