#include "tree/principal.h"

bool principal_parse(struct slice text, struct principal *ret)
{
    const uint8_t *at = text.len > 0 ? memchr(text.data, '@', text.len) : NULL;
    struct principal p = {.name = text, .host = SLICE_NULL, .realm = SLICE_NULL};
    if (at != NULL) {
        p.name.len = (size_t)(at - text.data);
        p.realm = slice_make(at + 1, text.len - p.name.len - 1);
        if (p.realm.len > 0 && (memchr(p.realm.data, '@', p.realm.len) != NULL ||
                                memchr(p.realm.data, '/', p.realm.len) != NULL)) {
            return false;
        }
        const uint8_t *slash = p.name.len > 0 ? memchr(p.name.data, '/', p.name.len) : NULL;
        if (slash != NULL) {
            p.host = slice_make(slash + 1, (size_t)(at - slash) - 1);
            p.name.len = (size_t)(slash - text.data);
        }
        if (p.host.len > 0 && memchr(p.host.data, '/', p.host.len) != NULL) {
            return false;
        }
    }
    *ret = p;
    return true;
}
