/* A member of an active/standby service that records the calls of its callbacks, for the tests of the elector. */
#ifndef SUPPORT_STANDBY_H
#define SUPPORT_STANDBY_H

#include "recipes/standby/elector.h"
#include "support/candidate.h"

#define DIR "/app/service"
#define LOCK_NODE DIR "/ActiveStandbyElectorLock"
#define CRUMB_NODE DIR "/ActiveBreadCrumb"
#define OVERRIDE_NODE DIR "/FenceOverride"

/* A member of the service: its client, and the arguments of its callbacks. */
struct standby {
    struct candidate base; /* client and recipes; its lock guards what follows */
    struct conclave_elector *elector;
    const char *incarnation;
    bool herd_free;
    bool listed;
    bool observer;
    bool reports_ready;
    int64_t backoff_ms; /* 0: short */
    enum conclave_elector_layout layout;
    enum conclave_health health;

    /* Counted last in each callback. */
    _Atomic int activated;
    _Atomic int deactivated;
    _Atomic int why;
    _Atomic int64_t stop_within_ms;
    _Atomic int64_t token;
    _Atomic int64_t active_from_ns;
    /* Start of deactivate, or the end of the lease if that came first. */
    _Atomic int64_t active_to_ns;
    _Atomic int fenced; /* calls of fence */
    char fenced_id[64];
    _Atomic int64_t fenced_token;
    _Atomic int states; /* seen, a bit each */
    _Atomic int closed;
    _Atomic bool broken; /* not alternating, or after the end */

    _Atomic int fail_activate;
    _Atomic int fail_fence;
    _Atomic int fail_deactivate;
    _Atomic int64_t fence_ms;
    _Atomic bool fence_waits;       /* fence returns when this is false */
    _Atomic bool cut_by_deactivate; /* deactivate ends all links of its endpoint */
    _Atomic bool slow_to_stop;      /* deactivate waits until it is false */
    _Atomic bool ends_in_fence;     /* the fence closes its elector */
};

#define ACTIVE(m) conclave_elector_is_active((m)->elector)
/* Active, and activate has been called: what it records is there. */
#define ACTIVATED(m) (ACTIVE(m) && (m)->activated > (m)->deactivated)
#define STATE_IS(m, s) (conclave_elector_state((m)->elector) == CONCLAVE_ELECTOR_##s)

int standby_get(const struct standby *m, const _Atomic int *field);
bool standby_fenced(struct standby *m, const char *id);
void standby_open(struct standby *m, struct fake_zk *zk, int endpoint, const char *name);
void standby_open_for(struct standby *m, struct fake_zk *zk, int endpoint, const char *name,
                      int64_t session_ms);
void standby_start(struct standby *m);
void standby_join(struct standby *m, struct fake_zk *zk, int endpoint, const char *name);
void standby_stop(struct standby *m);
void standby_finish(struct standby *m);
bool standby_crumb_has(struct fake_zk *zk, const char *part);
void standby_dies(struct fake_zk *zk, const char *name);

#endif
