/* Files that a server reads: secrets, certificates, its data folder. */
#include "cli/doctor/doctor.h"

#include "cli/common/ensemble_view.h"
#include "replication/disk/folder_check.h"
#include "tls/certificate_look.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Secrets */

static void look_at_secret(struct doctor *d, const char *path)
{
    struct stat st;
    if (path == NULL || stat(path, &st) != 0) {
        return;
    }
    if ((st.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
        finding_add(&d->findings, FOUND_SECRET_READABLE, path,
                    "its mode is %03o: others than its owner and group can use it, and it holds "
                    "a secret",
                    (unsigned)st.st_mode & 0777u);
    }
}

static void look_at_tls_secrets(struct doctor *d, const struct keys_tls *t)
{
    look_at_secret(d, t->key_file);
    look_at_secret(d, t->key_file == NULL ? t->cert_file : NULL);
    look_at_secret(d, t->key_store);
    look_at_secret(d, t->key_password_path);
    look_at_secret(d, t->trust_password_path);
}

void doctor_secrets(struct doctor *d)
{
    const struct zoo_cfg *c = d->config;
    const struct buf *text = &c->given.file;
    look_at_secret(d, c->members.secret_file);
    look_at_secret(d, c->login.users_file);
    look_at_secret(d, c->login.jaas_file);
    look_at_secret(d, c->digest_users_file);
    look_at_tls_secrets(d, &c->tls);
    look_at_tls_secrets(d, &c->members.tls);
    for (size_t i = 0; i + sizeof GIVEN_HIDDEN - 1 <= text->len; i++) {
        if (memcmp(text->data + i, GIVEN_HIDDEN, sizeof GIVEN_HIDDEN - 1) == 0) {
            look_at_secret(d, d->file);
            break;
        }
    }
}

/* Certificates */

static void look_at_names(struct doctor *d, const struct certificate_look *look, const char *path)
{
    const struct ensemble_options *e = &d->config->options.ensemble;
    const struct server_line *line = e->enabled ? &e->members[e->me] : NULL;
    for (size_t i = 0; line != NULL && i < line->n_hosts; i++) {
        if (!certificate_look_is_for(look, line->hosts[i].host)) {
            finding_add(&d->findings, FOUND_CERT_NAME, path,
                        "it is not for %s, by which the other servers know this one",
                        line->hosts[i].host);
        }
    }
}

static void date_text(int64_t s, char out[32])
{
    time_t at = (time_t)s;
    struct tm tm;
    if (gmtime_r(&at, &tm) == NULL || strftime(out, 32, "%Y-%m-%d %H:%M UTC", &tm) == 0) {
        memcpy(out, "?", 2);
    }
}

static void look_at_dates(struct doctor *d, const struct certificate_look *look, const char *path)
{
    enum { DAY_S = 86400 };
    struct certificate_dates dates;
    char date[32];
    int64_t now = (int64_t)time(NULL);
    certificate_look_dates(look, &dates);
    if (now >= dates.ends_s) {
        date_text(dates.ends_s, date);
        finding_add(&d->findings, FOUND_CERT_EXPIRED, path, "it ended on %s", date);
    } else if (now < dates.begins_s) {
        date_text(dates.begins_s, date);
        finding_add(&d->findings, FOUND_CERT_EARLY, path, "it begins on %s", date);
    } else if (dates.ends_s - now < d->options->days * DAY_S) {
        date_text(dates.ends_s, date);
        finding_add(&d->findings, FOUND_CERT_ENDS_SOON, path, "it ends on %s", date);
    }
}

/* between: of the links to other servers, which check it against the same trusted certificates, and its names. */
static void look_at_certificate(struct doctor *d, const struct tls_settings *tls, bool between,
                                bool names)
{
    char why[TLS_TEXT_MAX] = "";
    struct certificate_look *look;
    const char *problem;
    const char *path = tls->cert_file != NULL ? tls->cert_file : "TLS";
    struct tls_context *context = NULL;
    int rc = certificate_look_open(tls, &look, why);
    if (rc == 0) {
        /* The rest of what a start reads: revoked certificates, suites. */
        rc = tls_context_create(tls, &context, why);
        tls_context_release(context);
        look_at_dates(d, look, path);
        if (between && !certificate_look_is_trusted(look, &problem)) {
            finding_add(&d->findings, FOUND_CERT_UNTRUSTED, path,
                        "%s does not verify it: %s. The other servers refuse this one",
                        tls->trust_file != NULL ? tls->trust_file : "the system", problem);
        }
        if (names) {
            look_at_names(d, look, path);
        }
        certificate_look_close(look);
    }
    if (rc != 0) {
        finding_add(&d->findings, FOUND_CERT_UNUSABLE, path, "%s",
                    why[0] != '\0' ? why : conclave_strerror(rc));
    }
}

void doctor_certificates(struct doctor *d)
{
    const struct server_options *o = &d->config->options;
    const struct admin_options *a = &d->config->admin.options;
    const struct ensemble_options *e = &o->ensemble;
    bool clients = o->secure || o->unified;
    bool links = e->enabled && e->security == PEER_SECURITY_CERTIFICATES;
    const char *seen[2] = {clients ? o->tls.cert_file : NULL, links ? e->tls.cert_file : NULL};
    if (clients) {
        look_at_certificate(d, &o->tls, false, false);
    }
    if (links) {
        look_at_certificate(d, &e->tls, true, e->verify_hosts);
    }
    bool known =
        a->tls.cert_file != NULL && ((seen[0] != NULL && strcmp(seen[0], a->tls.cert_file) == 0) ||
                                     (seen[1] != NULL && strcmp(seen[1], a->tls.cert_file) == 0));
    if (a->http && a->https && !known) {
        look_at_certificate(d, &a->tls, false, false);
    }
}

/* The data folder */

static void take_fault(void *ctx, const struct folder_fault *fault)
{
    static const enum finding_kind KINDS[] = {
        [FOLDER_FAULT_FOREIGN] = FOUND_FOLDER_FOREIGN,
        [FOLDER_FAULT_IDENTITY] = FOUND_FOLDER_DAMAGED,
        [FOLDER_FAULT_LOG] = FOUND_LOG_DAMAGED,
        [FOLDER_FAULT_SNAPSHOT] = FOUND_SNAPSHOT_DAMAGED,
        [FOLDER_FAULT_TORN] = FOUND_LOG_TORN,
        [FOLDER_FAULT_ASIDE] = FOUND_FOLDER_ASIDE,
        [FOLDER_FAULT_IO] = FOUND_FILE_UNREADABLE,
    };
    struct doctor *d = ctx;
    if (fault->offset > 0) {
        finding_add(&d->findings, KINDS[fault->kind], fault->path, "%s, at offset %" PRIu64,
                    fault->what, fault->offset);
    } else {
        finding_add(&d->findings, KINDS[fault->kind], fault->path, "%s", fault->what);
    }
}

void doctor_folder(struct doctor *d)
{
    struct folder_facts facts;
    const struct folder_listener told = {d, take_fault, NULL};
    const struct server_options *o = &d->config->options;
    if (folder_check(o->data_dir, NULL, &told, &facts) != 0) {
        d->findings.failed = true;
    } else if (facts.marker.server_id != 0 && facts.marker.server_id != (uint64_t)o->server_id) {
        finding_add(&d->findings, FOUND_FOLDER_FOREIGN, o->data_dir,
                    "it belongs to server %" PRIu64 ", not to server %" PRIu64 ": see myid",
                    ensemble_view_number(facts.marker.server_id),
                    ensemble_view_number((uint64_t)o->server_id));
    }
}
