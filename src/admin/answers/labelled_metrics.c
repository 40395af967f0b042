#include "admin/answers/labelled_metrics.h"

#include "apache/follower/mirror_follower.h"
#include "cluster/server_options.h"
#include "daemon/server.h"
#include "front/service.h"

#include <inttypes.h>
#include <sys/statvfs.h>

static void write_certificates(const struct view *v, struct buf *out)
{
    const struct {
        const char *port;
        int64_t until_s;
    } ports[] = {
        {"client", server_certificate_until_s(v->server, false)},
        {"peer", server_certificate_until_s(v->server, true)},
        {"admin", v->https_until_s},
    };
    bool headed = false;
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        if (ports[i].until_s == 0) {
            continue;
        }
        if (!headed) {
            buf_append_str(
                out, "# HELP conclave_certificate_expiry_timestamp_seconds When the certificate of "
                     "a port expires, s since 1970\n"
                     "# TYPE conclave_certificate_expiry_timestamp_seconds gauge\n");
            headed = true;
        }
        buf_printf(out, "conclave_certificate_expiry_timestamp_seconds{port=\"%s\"} %" PRId64 "\n",
                   ports[i].port, ports[i].until_s);
    }
}

static void write_ended(const struct view *v, struct buf *out)
{
    const struct session_notes *n = &server_service(v->server)->notes;
    buf_append_str(
        out,
        "# HELP conclave_sessions_ended_total Ended sessions of clients of this server, by cause\n"
        "# TYPE conclave_sessions_ended_total counter\n");
    for (unsigned i = 0; i < SESSION_CAUSE_COUNT; i++) {
        if (i != SESSION_CAUSE_LIVES && i != SESSION_CAUSE_MOVED) {
            buf_printf(out, "conclave_sessions_ended_total{cause=\"%s\"} %" PRIu64 "\n",
                       session_cause_code((enum session_cause)i), n->ended[i]);
        }
    }
}

static void write_disk(const struct view *v, struct buf *out)
{
    struct statvfs disk;
    if (statvfs(server_options(v->server)->data_dir, &disk) != 0) {
        return; /* the folder is gone: no figure is better than a wrong one */
    }
    buf_printf(out,
               "# HELP conclave_disk_size_bytes Size of the file system of the data folder\n"
               "# TYPE conclave_disk_size_bytes gauge\nconclave_disk_size_bytes %" PRIu64 "\n"
               "# HELP conclave_disk_free_bytes Space there that the server may use\n"
               "# TYPE conclave_disk_free_bytes gauge\nconclave_disk_free_bytes %" PRIu64 "\n",
               (uint64_t)disk.f_blocks * disk.f_frsize, (uint64_t)disk.f_bavail * disk.f_frsize);
}

/* Only of a mirror: conclave migrate. */
static void write_mirror(const struct view *v, struct buf *out)
{
    struct follower_view f;
    if (!server_service(v->server)->mirrored) {
        return;
    }
    mirror_follower_view(server_follower(v->server), &f);
    buf_printf(
        out,
        "# HELP conclave_mirror_following 1: this server leads the mirror, and has all that its source told\n"
        "# TYPE conclave_mirror_following gauge\nconclave_mirror_following %d\n"
        "# HELP conclave_mirror_behind_seconds For how long the leader of the mirror has lacked transactions\n"
        "# TYPE conclave_mirror_behind_seconds gauge\nconclave_mirror_behind_seconds %.3f\n"
        "# HELP conclave_mirror_transactions_total Transactions of the source since this server follows\n"
        "# TYPE conclave_mirror_transactions_total counter\nconclave_mirror_transactions_total %" PRIu64
        "\n",
        f.stage == MIRROR_FOLLOWING, (double)f.behind_ms / 1e3, f.transactions);
}

void labelled_metrics_write(const struct view *v, struct buf *out)
{
    write_disk(v, out);
    write_ended(v, out);
    write_certificates(v, out);
    write_mirror(v, out);
}
