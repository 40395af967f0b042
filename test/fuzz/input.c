#define _GNU_SOURCE /* strndup */
#include "fuzz/input.h"

#include "fuzz/cost.h"

#include <string.h>

struct input input_make(struct slice bytes)
{
    return (struct input){bytes.data, bytes.data + bytes.len};
}

bool input_ended(const struct input *in)
{
    return in->pos == in->end;
}

uint8_t take(struct input *in)
{
    return in->pos < in->end ? *in->pos++ : 0;
}

uint32_t take_u32(struct input *in)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        value = value << 8 | take(in);
    }
    return value;
}

static struct slice cut(struct input *in, size_t len)
{
    size_t left = (size_t)(in->end - in->pos);
    struct slice bytes = slice_make(in->pos, len < left ? len : left);
    in->pos += bytes.len;
    return bytes;
}

struct slice take_bytes(struct input *in, size_t max)
{
    return cut(in, take(in) % (max + 1));
}

char *take_text(struct input *in, size_t max)
{
    return text_of(take_bytes(in, max));
}

struct slice take_rest(struct input *in)
{
    return cut(in, SIZE_MAX);
}

char *text_of(struct slice bytes)
{
    char *text = strndup(bytes.len > 0 ? (const char *)bytes.data : "", bytes.len);
    must(text != NULL);
    return text;
}

void fuzz_choose(const fuzz_target *targets, size_t count, const uint8_t *data, size_t size)
{
    if (size > 0) {
        targets[data[0] % count](slice_make(data + 1, size - 1));
    }
}
