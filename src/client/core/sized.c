#include "client/core/sized.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

static size_t size_of(const void *sized)
{
    size_t size;
    memcpy(&size, sized, sizeof size);
    return size;
}

static bool size_is_possible(size_t size)
{
    return size > sizeof(size_t) && size <= SIZED_MAX;
}

static int read_struct(void *own, const uint8_t *given, size_t given_size)
{
    size_t own_size = size_of(own);
    assert(size_is_possible(own_size));
    for (size_t i = own_size; i < given_size; i++) {
        if (given[i] != 0) {
            return CONCLAVE_EINVAL;
        }
    }
    size_t known = given_size < own_size ? given_size : own_size;
    memcpy((uint8_t *)own + sizeof(size_t), given + sizeof(size_t), known - sizeof(size_t));
    return 0;
}

int sized_read_item(void *own, const void *array, size_t index)
{
    if (array == NULL || !size_is_possible(size_of(array))) {
        return CONCLAVE_EINVAL;
    }
    size_t size = size_of(array);
    const uint8_t *item = (const uint8_t *)array + index * size;
    return size_of(item) == size ? read_struct(own, item, size) : CONCLAVE_EINVAL;
}

int sized_read(void *own, const void *given)
{
    return sized_read_item(own, given, 0);
}

int sized_read_both(void *own_options, const void *options, void *own_callbacks,
                    const void *callbacks)
{
    int error = sized_read(own_options, options);
    return error != 0 || callbacks == NULL ? error : sized_read(own_callbacks, callbacks);
}

bool sized_can_write(const void *given)
{
    return given == NULL || size_is_possible(size_of(given));
}

void sized_write(void *given, const void *own)
{
    size_t size = size_of(given);
    size_t own_size = size_of(own);
    assert(size_is_possible(own_size));
    if (!size_is_possible(size)) {
        return;
    }
    size_t known = size < own_size ? size : own_size;
    memset((uint8_t *)given + sizeof size, 0, size - sizeof size);
    memcpy((uint8_t *)given + sizeof size, (const uint8_t *)own + sizeof size, known - sizeof size);
}
