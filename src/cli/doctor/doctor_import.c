/* The files of an Apache ZooKeeper with which a server or an ensemble is to begin. */
#include "cli/doctor/doctor.h"
#include "daemon/apache_import.h"
#include "replication/disk/metadata.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

enum { OLD_DAYS = 7, DAY_S = 86400 };

/* When ZooKeeper wrote there last: its last transaction, or the snapshot behind which there is none; 0: unknown. */
static int64_t last_written_s(const struct apache_import_look *look)
{
    struct stat st;
    if (look->time_ms > 0) {
        return look->time_ms / 1000;
    }
    return look->snapshot != NULL && stat(look->snapshot, &st) == 0 ? (int64_t)st.st_mtime : 0;
}

static const char *what_follows(const struct ensemble_options *e)
{
    if (!e->enabled || e->n_members == 1) {
        return "the first start imports them";
    }
    return e->members[e->me].observer
               ? "an observer joins the others, and its own files do not count"
               : "the members begin with the newest files of a majority";
}

static void tell_files(struct doctor *d, const char *dir, const struct apache_import_look *look)
{
    char date[32] = "an unknown time";
    time_t at = (time_t)last_written_s(look);
    int64_t days = ((int64_t)time(NULL) - (int64_t)at) / DAY_S;
    struct tm tm;
    if (at > 0 && gmtime_r(&at, &tm) != NULL) {
        (void)strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &tm);
    }
    finding_add(&d->findings, FOUND_IMPORT_DUE, dir,
                "files of an Apache ZooKeeper, written last at %s: epoch %" PRId64
                ", last zxid 0x%" PRIx64 ", %" PRIu64 " transactions behind %s; %s",
                date, look->epoch, (uint64_t)look->zxid, look->transactions,
                look->snapshot != NULL ? look->snapshot : "an empty tree",
                what_follows(&d->config->options.ensemble));
    if (at > 0 && days > OLD_DAYS) {
        finding_add(&d->findings, FOUND_IMPORT_OLD, dir,
                    "ZooKeeper wrote there last at %s, %" PRId64 " days ago", date, days);
    }
    if (look->unfinished != NULL) {
        finding_add(&d->findings, FOUND_IMPORT_UNFINISHED, look->unfinished,
                    "its last transaction is not complete, at offset %" PRIu64,
                    look->unfinished_at);
    }
}

/* The choice that an ensemble needs until it has begun. */
static void look_at_choice(struct doctor *d, const char *dir)
{
    struct error_text problem = {NULL};
    struct choice_file c;
    int rc = choice_read(file_ops_system(), dir, &c, &problem);
    if (rc == 0) {
        finding_add(&d->findings, FOUND_IMPORT_CHOICE, CHOICE_FILE,
                    "this member chose the files of member %" PRIu64 " (epoch %" PRId64
                    ", zxid 0x%" PRIx64 ") at an earlier start, which did not reach its end",
                    c.member, c.epoch, (uint64_t)c.zxid);
    } else if (rc != CONCLAVE_NO_NODE) {
        finding_add(&d->findings, FOUND_CHOICE_DAMAGED, CHOICE_FILE, "%s",
                    error_text_of(&problem, rc));
    }
    error_text_finish(&problem);
}

void doctor_import(struct doctor *d)
{
    const struct server_options *o = &d->config->options;
    struct apache_import_look look;
    if (apache_import_look(o, &look) != 0) {
        d->findings.failed = true;
    }
    switch (look.files) {
    case APACHE_FILES_NONE:
        break;
    case APACHE_FILES_DUE:
        tell_files(d, o->data_dir, &look);
        break;
    case APACHE_FILES_UNUSABLE:
        finding_add(&d->findings, FOUND_IMPORT_DAMAGED, o->data_dir, "%s",
                    look.text != NULL ? look.text : "files of an Apache ZooKeeper cannot be read");
        break;
    case APACHE_FILES_BESIDE:
        finding_add(&d->findings, FOUND_DATA_BESIDE, o->data_dir, "%s",
                    look.text != NULL ? look.text : "data of Conclave and of an Apache ZooKeeper");
        break;
    }
    look_at_choice(d, o->data_dir);
    apache_import_look_finish(&look);
}
