/*
 * conclave certs: a CA and certificates in a folder, and the lines of configuration that use them.
 *
 * Promise: no file is ever overwritten or lost: what exists stays, and a renewal keeps the old certificate under another
 * name. A key is readable by its owner only, from the moment it exists.
 */
#include "cli/common/command.h"
#include "cli/common/options.h"
#include "tls/certificate_maker.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CA_DAYS = 3650,
    CERT_DAYS = 397,
    DAYS_MAX = 3650,
    FILE_SIZE_MAX = 1 << 20,
    STEM_MAX = 200,
    OLD_MAX = 1000
};

struct certs_options {
    struct option_list clients;
    int64_t days;
    bool renew;
};

static const struct option_row ROWS[] = {
    {"client", 0, OPTION_ADD, offsetof(struct certs_options, clients), "NAME",
     "A certificate for a client: client-NAME.pem. Can be given several times."},
    {"days", 0, OPTION_INTEGER, offsetof(struct certs_options, days), "N",
     "How long new certificates are valid; default 397, at most 3650. The CA: 3650."},
    {"renew", 0, OPTION_FLAG, offsetof(struct certs_options, renew), NULL,
     "Renew those that exist, with the same keys and names: the given ones, or all."},
    {.name = NULL},
};

static const struct command_usage USAGE = {
    .name = "certs",
    .forms = (const char *const[]){"FOLDER HOST[,NAME...]... [--client NAME]... [--days N]",
                                   "FOLDER --renew [HOST...] [--client NAME]... [--days N]", NULL},
    .about = "Makes a CA in FOLDER, unless it has one, and certificates that this CA signs: one "
             "for each HOST, with further names and addresses after commas, and one for each "
             "--client. Prints the lines of configuration that use them. Keys are P-256; what "
             "exists is never overwritten. For tests and small sites.",
    .rows = ROWS,
    .more = "Larger sites: let the CA that you have sign the certificates, or keep this one's key "
            "on a machine of its own; see conclave-certs(1).\n",
    .operands = {1, 65},
};

/* One run. */
struct certs_run {
    const struct certs_options *options;
    const char *folder; /* as given */
    char *shown;        /* absolute */
    int dir;            /* descriptor of the folder */
    struct certificate_pair *ca;
};

/* --- files ------------------------------------------------------------------------------------- */

static int certs_fail(const struct certs_run *r, const char *name, const char *what)
{
    fprintf(stderr, "conclave certs: %s/%s: %s: %s\n", r->folder, name, what, strerror(errno));
    return CLI_EXIT_IO;
}

static bool certs_has(const struct certs_run *r, const char *name)
{
    struct stat st;
    return fstatat(r->dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Writes a file that must not exist. */
static int certs_write(const struct certs_run *r, const char *name, mode_t mode,
                       const struct buf *text)
{
    int fd = openat(r->dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0) {
        return certs_fail(r, name, "cannot be made");
    }
    bool ok = write(fd, text->data, text->len) == (ssize_t)text->len && fsync(fd) == 0;
    ok = close(fd) == 0 && ok;
    if (!ok) {
        int code = certs_fail(r, name, "cannot be written");
        (void)unlinkat(r->dir, name, 0);
        return code;
    }
    return 0;
}

static int certs_read(const struct certs_run *r, const char *name, struct buf *out)
{
    char block[4096];
    ssize_t n = -1;
    buf_init(out, FILE_SIZE_MAX);
    int fd = openat(r->dir, name, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && (n = read(fd, block, sizeof block)) > 0) {
        buf_append(out, block, (size_t)n);
    }
    int code = n < 0 ? certs_fail(r, name, "cannot be read") : 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    explicit_bzero(block, sizeof block);
    return code == 0 && !buf_ok(out) ? CLI_EXIT_INTERNAL : code;
}

static int tell_error(int error, const char *name, const char *why)
{
    fprintf(stderr, "conclave certs: %s: %s\n", name,
            error == CONCLAVE_EINVAL ? why : "OpenSSL cannot make it, or memory is out");
    return error == CONCLAVE_EINVAL ? CLI_EXIT_USAGE : CLI_EXIT_INTERNAL;
}

/* STEM.pem and STEM.key of the folder. */
static int pair_load(const struct certs_run *r, const char *stem, struct certificate_pair **ret)
{
    char name[STEM_MAX + 8];
    char why[TLS_TEXT_MAX];
    struct buf cert;
    struct buf key;
    buf_init(&key, 0);
    snprintf(name, sizeof name, "%s.pem", stem);
    int code = certs_read(r, name, &cert);
    if (code == 0) {
        snprintf(name, sizeof name, "%s.key", stem);
        code = certs_read(r, name, &key);
    }
    int error = code == 0 ? certificate_pair_read(buf_slice(&cert), buf_slice(&key), ret, why) : 0;
    buf_finish(&cert);
    buf_wipe(&key);
    return error != 0 ? tell_error(error, stem, why) : code;
}

/* The key first: without it a certificate is worth nothing, and a later run makes both anew. */
static int pair_save(const struct certs_run *r, const char *stem,
                     const struct certificate_pair *pair)
{
    char name[STEM_MAX + 8];
    struct buf cert;
    struct buf key;
    buf_init(&cert, 0);
    buf_init(&key, 0);
    int code = 0;
    if (certificate_pair_write(pair, &cert, &key) != 0) {
        code = tell_error(CONCLAVE_ENOMEM, stem, "");
    }
    if (code == 0) {
        snprintf(name, sizeof name, "%s.key", stem);
        code = certs_write(r, name, 0600, &key);
    }
    if (code == 0) {
        snprintf(name, sizeof name, "%s.pem", stem);
        code = certs_write(r, name, 0644, &cert);
        if (code != 0) {
            snprintf(name, sizeof name, "%s.key", stem);
            (void)unlinkat(r->dir, name, 0);
        }
    }
    buf_finish(&cert);
    buf_wipe(&key);
    return code;
}

static void tell_made(const char *stem, const char *what, const struct certificate_pair *pair)
{
    char end[CERTIFICATE_END_MAX];
    certificate_pair_end(pair, end);
    printf("%s.pem: %s, valid until %s\n", stem, what, end);
}

/* --- the CA ------------------------------------------------------------------------------------- */

static int ca_load(struct certs_run *r)
{
    int code = pair_load(r, "ca", &r->ca);
    if (code == 0 && !certificate_pair_is_ca(r->ca)) {
        fprintf(stderr, "conclave certs: %s/ca.pem is no CA: use another folder\n", r->folder);
        code = CLI_EXIT_CONFIG;
    }
    return code;
}

static int ca_make(struct certs_run *r)
{
    if (certs_has(r, "ca.key")) {
        fprintf(
            stderr,
            "conclave certs: %s has ca.key, but no ca.pem: put that back, or use another folder\n",
            r->folder);
        return CLI_EXIT_CONFIG;
    }
    if (certificate_pair_create_ca("Conclave CA", CA_DAYS, &r->ca) != 0) {
        return tell_error(CONCLAVE_ENOMEM, "ca", "");
    }
    int code = pair_save(r, "ca", r->ca);
    if (code == 0) {
        tell_made("ca", "made", r->ca);
    }
    return code;
}

/* --- one certificate ----------------------------------------------------------------------------- */

/* Cuts "a,b,c" into names. False: too many, or an empty one. */
static bool cut_names(char *text, const char *names[CERTIFICATE_NAMES_MAX], size_t *ret_n)
{
    size_t n = 0;
    for (char *at = text; at != NULL;) {
        const char *name = strsep(&at, ",");
        if (n == CERTIFICATE_NAMES_MAX || name[0] == '\0') {
            return false;
        }
        names[n++] = name;
    }
    *ret_n = n;
    return true;
}

/* A name of a file: no path, nothing hidden, no name that this command uses itself. */
static bool is_stem(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && name[0] != '-' && strlen(name) < STEM_MAX &&
           strcmp(name, "ca") != 0 &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:@") ==
               strlen(name);
}

static int make_one(struct certs_run *r, const char *stem, const struct certificate_wish *wish)
{
    char name[STEM_MAX + 8];
    char why[TLS_TEXT_MAX];
    struct certificate_pair *pair = NULL;
    snprintf(name, sizeof name, "%s.pem", stem);
    if (certs_has(r, name)) {
        printf("%s: exists and stays as it is; --renew renews it\n", name);
        return 0;
    }
    int error = certificate_pair_issue(r->ca, wish, &pair, why);
    if (error != 0) {
        return tell_error(error, stem, why);
    }
    int code = pair_save(r, stem, pair);
    if (code == 0) {
        tell_made(stem, "made", pair);
    }
    certificate_pair_destroy(pair);
    return code;
}

/* Puts a new certificate in the place of the old one, which stays under the first free name STEM.pem.old-N. */
static int certificate_replace(const struct certs_run *r, const char *stem, const struct buf *text)
{
    char name[STEM_MAX + 8];
    char fresh[STEM_MAX + 16];
    char old[STEM_MAX + 32];
    snprintf(name, sizeof name, "%s.pem", stem);
    snprintf(fresh, sizeof fresh, "%s.pem.new", stem);
    int code = certs_write(r, fresh, 0644, text);
    if (code != 0) {
        return code;
    }
    int rc = -1;
    for (int i = 1; rc != 0 && i <= OLD_MAX; i++) {
        snprintf(old, sizeof old, "%s.pem.old-%d", stem, i);
        rc = linkat(r->dir, name, r->dir, old, 0);
        if (rc != 0 && errno != EEXIST) {
            break;
        }
    }
    if (rc != 0 || renameat(r->dir, fresh, r->dir, name) != 0) {
        code = certs_fail(r, name, "cannot be replaced");
        (void)unlinkat(r->dir, fresh, 0);
    }
    return code;
}

static int renew_one(struct certs_run *r, const char *stem)
{
    char why[TLS_TEXT_MAX];
    struct certificate_pair *old = NULL;
    struct certificate_pair *pair = NULL;
    struct buf cert;
    struct buf key;
    int code = pair_load(r, stem, &old);
    if (code != 0) {
        return code;
    }
    buf_init(&cert, 0);
    buf_init(&key, 0);
    int error = certificate_pair_renew(r->ca, old, (int)r->options->days, &pair, why);
    error = error == 0 ? certificate_pair_write(pair, &cert, &key) : error;
    code = error != 0 ? tell_error(error, stem, why) : certificate_replace(r, stem, &cert);
    if (code == 0) {
        tell_made(stem, "renewed", pair);
    }
    certificate_pair_destroy(old);
    certificate_pair_destroy(pair);
    buf_finish(&cert);
    buf_wipe(&key);
    return code;
}

/* Every certificate of the folder that has a key there, but the CA. */
static int renew_all(struct certs_run *r)
{
    int code = 0;
    struct dirent **names = NULL;
    int n = scandir(r->folder, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char stem[STEM_MAX + 8];
        char key[STEM_MAX + 16];
        size_t len = strlen(names[i]->d_name);
        bool pem = len > 4 && len < STEM_MAX && strcmp(names[i]->d_name + len - 4, ".pem") == 0;
        snprintf(stem, sizeof stem, "%.*s", pem ? (int)(len - 4) : 0, names[i]->d_name);
        snprintf(key, sizeof key, "%s.key", stem);
        if (code == 0 && pem && is_stem(stem) && certs_has(r, key)) {
            code = renew_one(r, stem);
        }
        free(names[i]);
    }
    free(names);
    return n < 0 ? certs_fail(r, ".", "cannot be read") : code;
}

/* --- all ------------------------------------------------------------------------------------------- */

static int do_host(struct certs_run *r, const char *text)
{
    const char *names[CERTIFICATE_NAMES_MAX];
    size_t n = 0;
    char *copy = strdup(text);
    if (copy == NULL) {
        return CLI_EXIT_INTERNAL;
    }
    int code;
    if (!cut_names(copy, names, &n) || !is_stem(names[0])) {
        code = usage_error(&USAGE, "\"%s\" is no host: write HOST or HOST,NAME,NAME", text);
    } else if (r->options->renew) {
        code = renew_one(r, names[0]);
    } else {
        struct certificate_wish wish = {.common_name = names[0],
                                        .names = names,
                                        .n_names = n,
                                        .server = true,
                                        .days = (int)r->options->days};
        code = make_one(r, names[0], &wish);
    }
    free(copy);
    return code;
}

static int do_client(struct certs_run *r, const char *name)
{
    char stem[STEM_MAX + 8];
    if (!is_stem(name) || strlen(name) > CERTIFICATE_COMMON_NAME_MAX) {
        return usage_error(
            &USAGE, "--client wants a name of at most %d letters, digits and .-_@, not \"%s\"",
            CERTIFICATE_COMMON_NAME_MAX, name);
    }
    snprintf(stem, sizeof stem, "client-%s", name);
    if (r->options->renew) {
        return renew_one(r, stem);
    }
    struct certificate_wish wish = {.common_name = name, .days = (int)r->options->days};
    return make_one(r, stem, &wish);
}

static void print_server_lines(const struct certs_run *r, const char *host, int stem_len,
                               bool several)
{
    printf("\n# %.*s: lines for its zoo.cfg\nsecureClientPort=2281\n", stem_len, host);
    for (int quorum = 0; quorum <= several; quorum++) {
        const char *key = quorum ? "ssl.quorum." : "ssl.";
        printf("%s%scertFile=%s/%.*s.pem\n%skeyFile=%s/%.*s.key\n%scaFile=%s/ca.pem\n",
               quorum ? "sslQuorum=true\n" : "", key, r->shown, stem_len, host, key, r->shown,
               stem_len, host, key, r->shown);
    }
}

static void print_advice(const struct certs_run *r, const struct operands *operands)
{
    for (int i = 1; i < operands->count; i++) {
        const char *host = operands->words[i];
        print_server_lines(r, host, (int)strcspn(host, ","), operands->count > 2);
    }
    for (size_t i = 0; i < r->options->clients.count; i++) {
        const char *name = r->options->clients.items[i].text;
        printf(
            "\n# client %s\nconclave status --server %.*s:2281 --ca %s/ca.pem --cert %s/client-%s.pem "
            "--key %s/client-%s.key\n",
            name, operands->count > 1 ? (int)strcspn(operands->words[1], ",") : 4,
            operands->count > 1 ? operands->words[1] : "HOST", r->shown, r->shown, name, r->shown,
            name);
    }
    printf(
        "\nGive each machine only its own .pem and .key, and ca.pem. Keep ca.key off the servers: whoever has it can "
        "pose as any of them. After a renewal: copy the .pem, then kill -HUP the server.\n");
}

static int certs_run_all(struct certs_run *r, const struct operands *operands)
{
    bool exists = certs_has(r, "ca.pem");
    int code;
    if (r->options->renew && !exists) {
        fprintf(stderr, "conclave certs: %s has no ca.pem: there is nothing to renew\n", r->folder);
        return CLI_EXIT_CONFIG;
    }
    code = exists ? ca_load(r) : ca_make(r);
    bool all = r->options->renew && operands->count == 1 && r->options->clients.count == 0;
    if (code == 0 && all) {
        code = renew_all(r);
    }
    for (int i = 1; code == 0 && i < operands->count; i++) {
        code = do_host(r, operands->words[i]);
    }
    for (size_t i = 0; code == 0 && i < r->options->clients.count; i++) {
        code = do_client(r, r->options->clients.items[i].text);
    }
    if (code == 0 && !r->options->renew) {
        print_advice(r, operands);
    }
    return code;
}

int command_certs(int argc, char **argv)
{
    struct certs_options options = {.days = CERT_DAYS};
    struct operands operands;
    int code = options_parse(&USAGE, argc, argv, &options, &operands);
    if (code != OPTIONS_GO_ON) {
        return code;
    }
    if (options.days < 1 || options.days > DAYS_MAX) {
        return usage_error(&USAGE, "--days wants 1 to %d", DAYS_MAX);
    }
    if (operands.count == 1 && options.clients.count == 0 && !options.renew) {
        return usage_error(&USAGE, "name a HOST, a --client, or --renew");
    }
    struct certs_run run = {.options = &options, .folder = operands.words[0], .dir = -1};
    if (!options.renew && mkdir(run.folder, 0700) != 0 && errno != EEXIST) {
        return certs_fail(&run, "", "cannot be made");
    }
    run.dir = open(run.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    run.shown = run.dir >= 0 ? realpath(run.folder, NULL) : NULL;
    if (run.shown == NULL) {
        code = certs_fail(&run, "", "cannot be opened");
    } else {
        code = certs_run_all(&run, &operands);
    }
    if (run.dir >= 0) {
        (void)close(run.dir);
    }
    certificate_pair_destroy(run.ca);
    free(run.shown);
    if (fflush(stdout) != 0 && code == 0) {
        code = CLI_EXIT_IO;
    }
    return code;
}
