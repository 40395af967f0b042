#include "cli/tree/quota_text.h"

#include "cli/common/values.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The field of a key, NULL for an unknown one. */
static int64_t *limits_field(struct quota_limits *limits, const char *key, size_t len)
{
    const struct {
        const char *name;
        int64_t *field;
    } fields[] = {
        {"count", &limits->count},
        {"bytes", &limits->bytes},
        {"countHardLimit", &limits->hard_count},
        {"byteHardLimit", &limits->hard_bytes},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strlen(fields[i].name) == len && memcmp(fields[i].name, key, len) == 0) {
            return fields[i].field;
        }
    }
    return NULL;
}

bool quota_text_parse(const void *data, size_t len, struct quota_limits *ret)
{
    struct quota_limits limits = LIMITS_NONE;
    char text[LIMITS_TEXT_MAX * 2];
    if (len >= sizeof text) {
        return false;
    }
    if (len > 0) {
        memcpy(text, data, len);
    }
    text[len] = '\0';
    for (char *at = text; *at != '\0';) {
        size_t part = strcspn(at, ",;");
        char *next = at + part + (at[part] != '\0');
        at[part] = '\0';
        char *equals = strchr(at, '=');
        if (equals == NULL) {
            return false;
        }
        char *value = equals + 1;
        value[strcspn(value, "=")] = '\0'; /* of "bytes=M=;..." */
        int64_t *field = limits_field(&limits, at, (size_t)(equals - at));
        if (field != NULL && value[0] != '\0' &&
            !integer_parse(value, INT64_MIN, INT64_MAX, field)) {
            return false;
        }
        at = next;
    }
    *ret = limits;
    return true;
}

const char *quota_text_text(const struct quota_limits *limits, bool hard, char buf[LIMITS_TEXT_MAX])
{
    int len = snprintf(buf, LIMITS_TEXT_MAX, "count=%" PRId64 ",bytes=%" PRId64, limits->count,
                       limits->bytes);
    if (hard) {
        snprintf(buf + len, LIMITS_TEXT_MAX - (size_t)len,
                 "=;byteHardLimit=%" PRId64 ";countHardLimit=%" PRId64, limits->hard_bytes,
                 limits->hard_count);
    }
    return buf;
}
