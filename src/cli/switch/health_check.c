#include "cli/switch/health_check.h"

#include "fencing/child_process.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

void health_take(struct health_track *track, const struct health_rules *rules,
                 enum conclave_health found)
{
    assert(rules->failures >= 1 && rules->successes >= 1);
    bool well = track->state == CONCLAVE_HEALTH_HEALTHY;
    bool found_well = found == CONCLAVE_HEALTH_HEALTHY;
    if (track->state == CONCLAVE_HEALTH_INITIALIZING && found_well) {
        *track = (struct health_track){found, 0};
    } else if (well == found_well) {
        track->in_a_row = track->state == CONCLAVE_HEALTH_INITIALIZING ? track->in_a_row + 1 : 0;
        if (track->state != CONCLAVE_HEALTH_INITIALIZING) {
            track->state = found;
        } else if (track->in_a_row >= rules->failures) {
            *track = (struct health_track){found, 0};
        }
    } else if (++track->in_a_row >= (well ? rules->failures : rules->successes)) {
        *track = (struct health_track){found, 0};
    }
    /* A row that is long enough has changed the state. */
    bool failed =
        track->state != CONCLAVE_HEALTH_HEALTHY && track->state != CONCLAVE_HEALTH_INITIALIZING;
    assert(track->in_a_row < (failed ? rules->successes : rules->failures));
}

enum conclave_health health_of_end(int error, int code)
{
    if (error == CONCLAVE_ETIMEDOUT) {
        return CONCLAVE_HEALTH_NOT_RESPONDING;
    }
    if (error != 0 || code == NOT_EXECUTABLE || code == NOT_FOUND) {
        return CONCLAVE_HEALTH_MONITOR_FAILED;
    }
    return code == 0 ? CONCLAVE_HEALTH_HEALTHY : CONCLAVE_HEALTH_UNHEALTHY;
}

static void *monitor(void *arg)
{
    struct health_monitor *m = arg;
    const char *const argv[] = {"/bin/sh", "-c", m->rules->command, NULL};
    struct process_spec spec = {
        .argv = argv, .more = m->more, .timeout_ms = m->rules->timeout_ms, .stop_fd = m->stop_fd};
    struct pollfd stop = {.fd = m->stop_fd, .events = POLLIN};
    for (;;) {
        int code = 0;
        int error = process_run(&spec, &code);
        if (error == CONCLAVE_ECANCELED) {
            return NULL;
        }
        enum conclave_health before = m->track.state;
        health_take(&m->track, m->rules, health_of_end(error, code));
        if (m->track.state != before) {
            m->changed(m->track.state, m->ctx);
        }
        int n;
        do {
            n = poll(&stop, 1, (int)m->rules->interval_ms);
        } while (n < 0 && errno == EINTR);
        if (n != 0) {
            return NULL;
        }
    }
}

int health_start(struct health_monitor *m)
{
    m->track = (struct health_track){CONCLAVE_HEALTH_INITIALIZING, 0};
    m->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (m->stop_fd >= 0 && pthread_create(&m->thread, NULL, monitor, m) == 0) {
        return 0;
    }
    if (m->stop_fd >= 0) {
        close(m->stop_fd);
    }
    m->stop_fd = -1;
    return CONCLAVE_EIO;
}

void health_stop(struct health_monitor *m)
{
    if (m->stop_fd >= 0) {
        (void)eventfd_write(m->stop_fd, 1);
        pthread_join(m->thread, NULL);
        close(m->stop_fd);
        m->stop_fd = -1;
    }
}
