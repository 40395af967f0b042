#include "wire/java_number.h"

bool java_number_parse(struct slice text, int64_t *ret)
{
    bool minus = text.len > 0 && text.data[0] == '-';
    size_t i = minus || (text.len > 0 && text.data[0] == '+') ? 1 : 0;
    int64_t value = 0;
    if (i == text.len) {
        return false;
    }
    for (; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, text.data[i] - '0', &value)) {
            return false;
        }
    }
    if (!minus && value == INT64_MIN) {
        return false;
    }
    *ret = minus ? value : -value;
    return true;
}

struct slice text_trim(struct slice text)
{
    while (text.len > 0 && text.data[text.len - 1] <= ' ') {
        text.len--;
    }
    while (text.len > 0 && text.data[0] <= ' ') {
        text = slice_make(text.data + 1, text.len - 1);
    }
    return text;
}
