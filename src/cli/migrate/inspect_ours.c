/* A folder of a server of ours: its files, and the state that they give. */
#include "base/hex.h"
#include "cli/common/command.h"
#include "cli/migrate/found_folder.h"
#include "cli/migrate/inspect.h"
#include "cli/migrate/inspect_contents.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* What is printed. */
struct our_picture {
    const struct inspect_options *o;
    struct folder_survey survey;
    char cluster[2 * FORMAT_CLUSTER_SIZE + 1];
    bool whole; /* there is a state, with `loaded` and `contents` */
    struct folder_loaded loaded;
    struct inspect_contents contents;
};

static const char *role_name(enum configuration_role role)
{
    return role == MEMBER_VOTER ? "voter" : role == MEMBER_OBSERVER ? "observer" : "spare";
}

static const char *fault_name(enum folder_fault_kind kind)
{
    static const char *const NAMES[] = {
        [FOLDER_FAULT_FOREIGN] = "foreign", [FOLDER_FAULT_IDENTITY] = "identity",
        [FOLDER_FAULT_LOG] = "log",         [FOLDER_FAULT_SNAPSHOT] = "snapshot",
        [FOLDER_FAULT_TORN] = "unfinished", [FOLDER_FAULT_ASIDE] = "aside",
        [FOLDER_FAULT_IO] = "unreadable",
    };
    return NAMES[kind];
}

static void print_identity(const struct our_picture *p)
{
    const struct folder_facts *f = &p->survey.facts;
    const struct members_file *m = &p->survey.members;
    printf("folder        of a Conclave server\n");
    if (f->fresh) {
        printf("data          none yet\n");
        return;
    }
    printf("server        %" PRIu64 ", of the ensemble %s\n", f->marker.server_id, p->cluster);
    printf("term          %" PRIu64, f->metadata.term);
    if (f->metadata.voted_for != 0) {
        printf(", with its vote for server %" PRIu64, f->metadata.voted_for);
    }
    printf("\nlog           entries %" PRIu64 " to %" PRIu64 " in %zu segments, %" PRIu64
           " bytes\n",
           f->first_index, f->last_index, f->segments, f->log_bytes);
    for (size_t i = 0; i < m->n; i++) {
        printf("member        %" PRIu64 " %s %s\n", m->members[i].id, role_name(m->members[i].role),
               m->members[i].address);
    }
}

static void our_print_state(const struct our_picture *p)
{
    const struct folder_loaded *l = &p->loaded;
    printf("entries       %" PRIu64 " applied behind the snapshot of entry %" PRIu64 "\n",
           l->entries, l->snapshot);
    printf("zxids         0x%" PRIx64 " to 0x%" PRIx64 " can be exported\n",
           (uint64_t)l->begin_zxid, (uint64_t)l->end_zxid);
    printf("last zxid     0x%" PRIx64, (uint64_t)l->end_zxid);
    inspect_print_time(l->time_ms);
    printf("\n");
    inspect_contents_print(&p->contents);
}

static void our_print_damages(const struct folder_survey *s)
{
    for (size_t i = 0; i < s->damage_count; i++) {
        const struct folder_damage *d = &s->damages[i];
        printf("%s%-13s %s, at byte %" PRIu64 ": %s\n", i == 0 ? "\n" : "", fault_name(d->kind),
               d->path, d->offset, d->what);
    }
}

static void our_print_files(const struct folder_survey *s)
{
    printf("\nFIRST\tLAST\tTERMS\tBYTES\tFILE\n");
    for (size_t i = 0; i < s->snapshot_count; i++) {
        const struct folder_snapshot *f = &s->snapshots[i];
        printf("-\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s", f->index, f->term, f->bytes,
               f->path);
        if (f->damaged) {
            printf(" (damaged)\n");
        } else {
            printf(" (zxid 0x%" PRIx64 ")\n", (uint64_t)f->zxid);
        }
    }
    for (size_t i = 0; i < s->segment_count; i++) {
        const struct folder_segment *f = &s->segments[i];
        printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "-%" PRIu64 "\t%" PRIu64 "\t%s%s\n",
               f->first_index, f->last_index, f->first_term, f->last_term, f->bytes, f->path,
               f->damaged ? " (damaged)" : "");
    }
}

static void our_print_text(const struct our_picture *p)
{
    print_identity(p);
    if (p->whole) {
        our_print_state(p);
    }
    our_print_damages(&p->survey);
    if (!p->survey.facts.fresh) {
        our_print_files(&p->survey);
    }
    if (p->whole) {
        inspect_branches_print(&p->contents);
    }
}

static void identity_json(const struct our_picture *p, struct json *j)
{
    const struct folder_facts *f = &p->survey.facts;
    const struct members_file *m = &p->survey.members;
    json_member_string(j, "ensemble", p->cluster);
    json_member_uint(j, "server", f->marker.server_id);
    json_member_uint(j, "term", f->metadata.term);
    json_member_uint(j, "voted_for", f->metadata.voted_for);
    json_member_uint(j, "first_index", f->first_index);
    json_member_uint(j, "last_index", f->last_index);
    json_member_uint(j, "log_bytes", f->log_bytes);
    json_key(j, "members");
    json_array_begin(j);
    for (size_t i = 0; i < m->n; i++) {
        json_object_begin(j);
        json_member_uint(j, "id", m->members[i].id);
        json_member_string(j, "role", role_name(m->members[i].role));
        json_member_string(j, "address", m->members[i].address);
        json_object_end(j);
    }
    json_array_end(j);
}

static void our_files_json(const struct folder_survey *s, struct json *j)
{
    json_key(j, "files");
    json_array_begin(j);
    for (size_t i = 0; i < s->snapshot_count; i++) {
        const struct folder_snapshot *f = &s->snapshots[i];
        json_object_begin(j);
        json_member_string(j, "file", f->path);
        json_member_string(j, "kind", "snapshot");
        json_member_bool(j, "damaged", f->damaged);
        json_member_uint(j, "bytes", f->bytes);
        json_member_uint(j, "last_index", f->index);
        json_member_uint(j, "last_term", f->term);
        json_member_hex(j, "zxid", f->zxid < 0 ? 0 : f->zxid);
        json_object_end(j);
    }
    for (size_t i = 0; i < s->segment_count; i++) {
        const struct folder_segment *f = &s->segments[i];
        json_object_begin(j);
        json_member_string(j, "file", f->path);
        json_member_string(j, "kind", "log");
        json_member_bool(j, "damaged", f->damaged);
        json_member_uint(j, "bytes", f->bytes);
        json_member_uint(j, "first_index", f->first_index);
        json_member_uint(j, "last_index", f->last_index);
        json_member_uint(j, "first_term", f->first_term);
        json_member_uint(j, "last_term", f->last_term);
        json_object_end(j);
    }
    json_array_end(j);
    json_key(j, "damage");
    json_array_begin(j);
    for (size_t i = 0; i < s->damage_count; i++) {
        const struct folder_damage *d = &s->damages[i];
        json_object_begin(j);
        json_member_string(j, "kind", fault_name(d->kind));
        json_member_string(j, "file", d->path);
        json_member_uint(j, "offset", d->offset);
        json_member_string(j, "what", d->what);
        json_object_end(j);
    }
    json_array_end(j);
}

static int our_print_json(const struct our_picture *p)
{
    const struct folder_loaded *l = &p->loaded;
    struct json j;
    json_line_begin(&j);
    json_member_string(&j, "kind", "conclave");
    json_member_string(&j, "folder", p->o->dir);
    json_member_int(&j, "used_by", p->o->used_by);
    json_member_bool(&j, "readable", p->whole);
    identity_json(p, &j);
    if (p->whole) {
        json_member_hex(&j, "zxid", l->end_zxid);
        json_member_hex(&j, "first_zxid", l->begin_zxid);
        json_member_int(&j, "time_ms", l->time_ms);
        json_member_uint(&j, "snapshot_index", l->snapshot);
        json_member_uint(&j, "entries", l->entries);
        inspect_contents_json(&p->contents, &j);
    }
    our_files_json(&p->survey, &j);
    return json_line_print(&j, stdout) == 0 ? 0 : CLI_EXIT_IO;
}

/* Damage, and what cannot be read because of it, on stderr. The exit code. */
static int our_look_at_state(struct our_picture *p)
{
    const struct inspect_options *o = p->o;
    const struct backup_moment end = {0};
    char *error = NULL;
    for (size_t i = 0; i < p->survey.damage_count; i++) {
        const struct folder_damage *d = &p->survey.damages[i];
        if (d->kind != FOLDER_FAULT_TORN && d->kind != FOLDER_FAULT_ASIDE) {
            fprintf(stderr, "conclave inspect: %s, at byte %" PRIu64 ": %s\n", d->path, d->offset,
                    d->what);
        }
    }
    if (p->survey.facts.fresh) {
        return 0;
    }
    int rc = folder_load(o->dir, &p->survey, &end, &p->loaded, &error);
    if (rc == 0) {
        rc = inspect_contents_make(p->loaded.state, (unsigned)o->depth, (size_t)o->top,
                                   &p->contents);
        p->whole = rc == 0;
    }
    return rc == 0 ? 0 : found_folder_fail("inspect", rc, error);
}

int inspect_ours(const struct inspect_options *o)
{
    struct our_picture p = {.o = o};
    int printed = 0;
    int rc = folder_survey(o->dir, &p.survey);
    if (rc != 0) {
        folder_survey_finish(&p.survey);
        return found_folder_fail("inspect", rc, NULL);
    }
    hex_encode(p.survey.facts.marker.cluster, FORMAT_CLUSTER_SIZE, p.cluster);
    int code = our_look_at_state(&p);
    assert(!p.whole || p.loaded.begin_zxid <= p.loaded.end_zxid);
    code = code == 0 && p.survey.faults > 0 ? CLI_EXIT_IO : code;
    if (o->json) {
        printed = our_print_json(&p);
    } else {
        our_print_text(&p);
    }
    code = code == 0 ? printed : code;
    inspect_contents_finish(&p.contents);
    state_destroy(p.loaded.state);
    folder_survey_finish(&p.survey);
    return code == 0 && fflush(stdout) != 0 ? CLI_EXIT_IO : code;
}
