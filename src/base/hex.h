/* Bytes as hex digits. */
#ifndef BASE_HEX_H
#define BASE_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Writes 2 * len lower-case digits and a null byte. */
static inline void hex_encode(const uint8_t *bytes, size_t len, char *ret)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < len; i++) {
        *ret++ = digits[bytes[i] >> 4];
        *ret++ = digits[bytes[i] & 15];
    }
    *ret = '\0';
}

#endif
