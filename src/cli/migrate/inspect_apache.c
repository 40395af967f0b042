/* A folder of Apache ZooKeeper: its files, and the state that they give. */
#include "apache/survey.h"
#include "base/random.h"
#include "cli/common/command.h"
#include "cli/migrate/found_folder.h"
#include "cli/migrate/inspect.h"
#include "cli/migrate/inspect_contents.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is printed. */
struct apache_picture {
    const struct inspect_options *o;
    struct apache_survey survey;
    bool whole; /* there is a state, with `found` and `contents` */
    struct apache_found found;
    struct inspect_contents contents;
};

static void apache_print_files(const struct apache_survey *s)
{
    printf("\nFIRST ZXID\tLAST ZXID\tHOLDS\tBYTES\tFILE\n");
    for (size_t i = 0; i < s->file_count; i++) {
        const struct apache_file *f = &s->files[i];
        printf("0x%" PRIx64 "\t0x%" PRIx64 "\t", (uint64_t)f->first_zxid, (uint64_t)f->last_zxid);
        if (f->snapshot) {
            printf("%" PRIu64 " nodes", f->nodes);
        } else {
            printf("%" PRIu64 " transactions", f->transactions);
        }
        printf("\t%" PRIu64 "\t%s%s\n", f->bytes, f->path, f->damaged ? " (damaged)" : "");
    }
}

static const char *damage_name(enum apache_damage_kind kind)
{
    static const char *const NAMES[] = {
        [APACHE_DAMAGE] = "damage",
        [APACHE_GAP] = "gap",
        [APACHE_OLD_GAP] = "old gap",
        [APACHE_UNFINISHED] = "unfinished",
    };
    return NAMES[kind];
}

static void apache_print_damages(const struct apache_survey *s)
{
    for (size_t i = 0; i < s->damage_count; i++) {
        const struct apache_damage *d = &s->damages[i];
        printf("%s%-13s %s\n", i == 0 ? "\n" : "", damage_name(d->kind), d->what);
    }
}

static void apache_print_state(const struct apache_picture *p)
{
    const struct apache_found *f = &p->found;
    if (f->snapshot != NULL) {
        printf("snapshot      %s, zxid 0x%" PRIx64 "\n", f->snapshot, (uint64_t)f->snapshot_zxid);
    } else {
        printf("snapshot      none: the log begins with the first transaction\n");
    }
    printf("transactions  %" PRIu64 " behind it, in %zu of %zu logs\n", f->transactions,
           f->logs_read, f->logs);
    printf("last zxid     0x%" PRIx64, (uint64_t)f->zxid);
    inspect_print_time(f->time_ms);
    printf("\n");
    inspect_contents_print(&p->contents);
    printf("digest        %s\n", f->report.digest_compared
                                     ? "equal to the one that ZooKeeper noted"
                                     : "not compared: ZooKeeper noted none for the last zxid");
    if (f->report.orphans > 0) {
        printf(
            "orphans       %zu ephemeral nodes of sessions that have ended; a server removes them when it starts\n",
            f->report.orphans);
    }
}

static void apache_print_text(const struct apache_picture *p)
{
    printf("folder        of Apache ZooKeeper\n");
    if (p->whole) {
        apache_print_state(p);
    }
    apache_print_damages(&p->survey);
    apache_print_files(&p->survey);
    if (p->whole) {
        inspect_branches_print(&p->contents);
    }
}

static void apache_files_json(const struct apache_survey *s, struct json *j)
{
    json_key(j, "files");
    json_array_begin(j);
    for (size_t i = 0; i < s->file_count; i++) {
        const struct apache_file *f = &s->files[i];
        json_object_begin(j);
        json_member_string(j, "file", f->path);
        json_member_string(j, "kind", f->snapshot ? "snapshot" : "log");
        json_member_bool(j, "damaged", f->damaged);
        json_member_uint(j, "bytes", f->bytes);
        json_member_hex(j, "first_zxid", f->first_zxid);
        json_member_hex(j, "last_zxid", f->last_zxid);
        json_member_int(j, "first_ms", f->first_ms);
        json_member_int(j, "last_ms", f->last_ms);
        json_member_uint(j, "transactions", f->transactions);
        json_member_uint(j, "nodes", f->nodes);
        json_member_uint(j, "sessions", f->sessions);
        json_object_end(j);
    }
    json_array_end(j);
    json_key(j, "damage");
    json_array_begin(j);
    for (size_t i = 0; i < s->damage_count; i++) {
        const struct apache_damage *d = &s->damages[i];
        json_object_begin(j);
        json_member_string(j, "kind", damage_name(d->kind));
        json_member_string(j, "file", d->path);
        json_member_uint(j, "offset", d->offset);
        json_member_string(j, "what", d->what);
        json_object_end(j);
    }
    json_array_end(j);
}

static void state_json(const struct apache_picture *p, struct json *j)
{
    const struct apache_found *f = &p->found;
    json_member_string_or_null(j, "snapshot", f->snapshot);
    json_member_hex(j, "snapshot_zxid", f->snapshot_zxid);
    json_member_uint(j, "snapshots", f->snapshots);
    json_member_uint(j, "logs", f->logs);
    json_member_uint(j, "logs_read", f->logs_read);
    json_member_uint(j, "transactions", f->transactions);
    json_member_hex(j, "zxid", f->zxid);
    json_member_int(j, "time_ms", f->time_ms);
    json_member_bool(j, "digest_compared", f->report.digest_compared);
    json_member_string_or_null(j, "unfinished", f->unfinished);
    json_member_uint(j, "unfinished_at", f->unfinished_at);
    json_member_uint(j, "orphans", f->report.orphans);
    inspect_contents_json(&p->contents, j);
}

static int apache_print_json(const struct apache_picture *p)
{
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "kind", "zookeeper");
    json_member_string(&j, "folder", p->o->dir);
    json_member_int(&j, "used_by", p->o->used_by);
    json_member_bool(&j, "readable", p->whole);
    if (p->whole) {
        state_json(p, &j);
    }
    apache_files_json(&p->survey, &j);
    return json_line_print(&j, stdout) == 0 ? 0 : CLI_EXIT_IO;
}

/* On stderr each damage, but not the one that reading the state has told already. */
static void tell_damages(const struct apache_survey *s, const char *told)
{
    for (size_t i = 0; i < s->damage_count; i++) {
        const struct apache_damage *d = &s->damages[i];
        bool harmless = d->kind == APACHE_UNFINISHED || d->kind == APACHE_OLD_GAP;
        if (!harmless && (told == NULL || strncmp(told, d->what, strlen(d->what)) != 0)) {
            fprintf(stderr, "conclave inspect: %s\n", d->what);
        }
    }
}

/* Makes the state and looks at it. The exit code. */
static int apache_look_at_state(struct apache_picture *p, struct state **ret)
{
    const struct inspect_options *o = p->o;
    struct hash_key key;
    char *error = NULL;
    random_bytes(&key, sizeof key);
    int rc = apache_folder_read(o->dir, o->log_dir, &key, &p->found, ret, &error);
    tell_damages(&p->survey, rc != 0 ? error : NULL);
    if (rc != 0) {
        return found_folder_fail("inspect", rc, error);
    }
    rc = inspect_contents_make(*ret, (unsigned)o->depth, (size_t)o->top, &p->contents);
    p->whole = rc == 0;
    return rc == 0 ? 0 : found_folder_fail("inspect", rc, NULL);
}

int inspect_apache(const struct inspect_options *o)
{
    struct apache_picture p = {.o = o};
    struct state *state = NULL;
    char *error = NULL;
    int rc = apache_survey(o->dir, o->log_dir, &p.survey, &error);
    if (rc != 0) {
        apache_survey_finish(&p.survey);
        return found_folder_fail("inspect", rc, error);
    }
    int code = apache_look_at_state(&p, &state);
    assert(p.whole == (code == 0));
    code = code == 0 && p.survey.faults > 0 ? CLI_EXIT_IO : code;
    if (p.survey.file_count > 0) {
        int printed = 0;
        if (o->json) {
            printed = apache_print_json(&p);
        } else {
            apache_print_text(&p);
        }
        code = code == 0 ? printed : code;
    }
    inspect_contents_finish(&p.contents);
    apache_found_finish(&p.found);
    apache_survey_finish(&p.survey);
    state_destroy(state);
    return code == 0 && fflush(stdout) != 0 ? CLI_EXIT_IO : code;
}
