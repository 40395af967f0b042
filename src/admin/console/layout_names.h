/*
 * Names of children that recipes of this library, of Curator and of kazoo make: what their sequence number and the text
 * before it say. Pure. Sources: include/conclave; Curator's LeaderLatch, LeaderSelector, InterProcessMutex,
 * InterProcessReadWriteLock, InterProcessSemaphoreV2 and DistributedQueue; kazoo's recipe/lock.py and recipe/queue.py.
 */
#ifndef ADMIN_CONSOLE_LAYOUT_NAMES_H
#define ADMIN_CONSOLE_LAYOUT_NAMES_H

#include "base/slice.h"

enum layout_stem {
    STEM_NONE,        /* no sequence number */
    STEM_OTHER,       /* a sequence number behind any other text */
    STEM_NATIVE,      /* <guid>-n_, <guid>-w3-n_ */
    STEM_NATIVE_READ, /* <guid>-__READ__ */
    STEM_NATIVE_WRITE,
    STEM_CURATOR_LATCH, /* _c_<uuid>-latch- */
    STEM_CURATOR_LOCK,  /* _c_<uuid>-lock- */
    STEM_CURATOR_READ,  /* _c_<uuid>-__READ__ */
    STEM_CURATOR_WRITE,
    STEM_CURATOR_LEASE, /* _c_<uuid>-lease- */
    STEM_KAZOO_LOCK,    /* <guid>__lock__ */
    STEM_KAZOO_READ,    /* <guid>__rlock__ */
    STEM_NATIVE_ITEM,   /* 100-<guid>-q_ */
    STEM_CURATOR_ITEM,  /* queue- */
    STEM_KAZOO_ITEM,    /* entry-100- */
    STEM_PLAIN_ITEM,    /* qn- */
    STEM_COUNT,
};

struct layout_name {
    enum layout_stem stem;
    int32_t sequence;
    int32_t weight; /* permits that it asks for */
};

void layout_name_parse(struct slice name, struct layout_name *ret);

/* Whether the name is n hex digits without dashes, as a guid of 32. */
bool layout_name_is_hex(struct slice name, size_t n);

#endif
