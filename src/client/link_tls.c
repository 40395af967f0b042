#define _GNU_SOURCE /* explicit_bzero */
#include "client/link_tls.h"

#include "client/core/sized.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    FILL_MAX = 64 * 1024, /* encrypted at once; the rest waits unencrypted, in one copy */
    ROOM = 16 * 1024,     /* one TLS record */
};

static void link_tls_tell(const struct conclave_tls_options *o, const char *why)
{
    if (o->error != NULL && o->error_len > 0) {
        snprintf(o->error, o->error_len, "%s", why);
    }
}

/* The files that the context was read from, to notice when they change. */
enum { TLS_FILES = 3 };
struct link_tls_files {
    char *names[TLS_FILES]; /* certificate, key, issuers; NULL: none */
    char *cert_password;
    char *trust_password;
    enum tls_peer peer;
    struct file_stamp {
        int64_t mtime_ns;
        int64_t size;
        uint64_t inode; /* 0: the file is not there */
    } stamps[TLS_FILES];
};

static void tls_files_destroy(struct link_tls_files *f)
{
    if (f == NULL) {
        return;
    }
    char *const secrets[] = {f->cert_password, f->trust_password};
    for (size_t i = 0; i < sizeof secrets / sizeof secrets[0]; i++) {
        if (secrets[i] != NULL) {
            explicit_bzero(secrets[i], strlen(secrets[i]));
            free(secrets[i]);
        }
    }
    for (size_t i = 0; i < TLS_FILES; i++) {
        free(f->names[i]);
    }
    free(f);
}

/* Copies a text that may be NULL. */
static bool copy_text(const char *text, char **ret)
{
    *ret = text != NULL ? strdup(text) : NULL;
    return text == NULL || *ret != NULL;
}

static struct link_tls_files *tls_files_create(const struct conclave_tls_options *o)
{
    struct link_tls_files *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return NULL;
    }
    f->peer = o->verify == CONCLAVE_TLS_VERIFY_NONE ? TLS_PEER_NONE : TLS_PEER_NEED;
    if (!copy_text(o->cert_file, &f->names[0]) || !copy_text(o->key_file, &f->names[1]) ||
        !copy_text(o->ca_file, &f->names[2]) || !copy_text(o->key_password, &f->cert_password) ||
        !copy_text(o->ca_password, &f->trust_password)) {
        tls_files_destroy(f);
        return NULL;
    }
    return f;
}

/* Takes the stamps of the files; whether one differs from the last time. */
static bool tls_files_stamp(struct link_tls_files *f)
{
    bool changed = false;
    for (size_t i = 0; i < TLS_FILES; i++) {
        struct stat st;
        struct file_stamp now = {0, 0, 0};
        if (f->names[i] != NULL && stat(f->names[i], &st) == 0) {
            now.mtime_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
            now.size = st.st_size;
            now.inode = st.st_ino;
        }
        struct file_stamp *old = &f->stamps[i];
        changed = changed || now.mtime_ns != old->mtime_ns || now.size != old->size ||
                  now.inode != old->inode;
        *old = now;
    }
    return changed;
}

/* Reads the files. Errors as tls_context_create. */
static int tls_files_read(const struct link_tls_files *f, struct tls_context **ret, char *why)
{
    struct tls_settings settings = {
        .peer = f->peer,
        .cert_file = f->names[0],
        .key_file = f->names[1],
        .cert_password = f->cert_password,
        .trust_file = f->names[2],
        .trust_password = f->trust_password,
    };
    return tls_context_create(&settings, ret, why);
}

/* Reads the files again if one has changed since. If they are not usable, the context stays as it is. */
static void tls_files_follow(struct conclave_client *client)
{
    char why[TLS_TEXT_MAX] = "out of memory";
    struct tls_context *context;
    if (!tls_files_stamp(client->tls_files)) {
        return;
    }
    int rc = tls_files_read(client->tls_files, &context, why);
    if (rc == CONCLAVE_ENOMEM) { /* the next connection tries again */
        memset(client->tls_files->stamps, 0, sizeof client->tls_files->stamps);
    }
    if (rc != 0) {
        client_log(client, CONCLAVE_LOG_ERROR, "the new TLS files are not usable", "why", why);
        return;
    }
    client_log(client, CONCLAVE_LOG_INFO, "TLS files read again", "certificate",
               tls_context_describe(context));
    tls_context_release(client->tls_context);
    client->tls_context = context;
}

static int link_tls_create(struct conclave_client *client, const struct conclave_tls_options *o)
{
    char why[TLS_TEXT_MAX];
    if (o->cert_file == NULL && o->key_file != NULL) {
        link_tls_tell(o, "there is a key without a certificate: name both");
        return CONCLAVE_ETLS;
    }
    client->tls_files = tls_files_create(o);
    if (client->tls_files == NULL) {
        return CONCLAVE_ENOMEM;
    }
    (void)tls_files_stamp(
        client->tls_files); /* before they are read: a change in between is seen later */
    int rc = tls_files_read(client->tls_files, &client->tls_context, why);
    if (rc == CONCLAVE_EINVAL) {
        link_tls_tell(o, why);
        return CONCLAVE_ETLS;
    }
    return rc;
}

int link_tls_open(struct conclave_client *client, const struct conclave_client_options *options)
{
    const struct conclave_tls_options *o = options->tls;
    struct conclave_tls_options mine = CONCLAVE_TLS_OPTIONS_INIT;
    if (o == NULL) {
        return 0;
    }
    if (sized_read(&mine, o) != 0) {
        if (options->error != NULL && options->error_len > 0) {
            snprintf(options->error, options->error_len,
                     "tls: begin with CONCLAVE_TLS_OPTIONS_INIT");
        }
        return CONCLAVE_EINVAL;
    }
    if (mine.error == NULL) {
        mine.error = options->error;
        mine.error_len = options->error_len;
    }
    client->tls_own_cert = mine.cert_file != NULL;
    client->tls_verify_host = mine.verify == CONCLAVE_TLS_VERIFY_FULL;
    if (mine.server_name != NULL) {
        client->tls_name = strdup(mine.server_name);
        if (client->tls_name == NULL) {
            return CONCLAVE_ENOMEM;
        }
    }
    return link_tls_create(client, &mine);
}

void link_tls_close(struct conclave_client *client)
{
    link_tls_end(client);
    tls_context_release(client->tls_context);
    client->tls_context = NULL;
    tls_files_destroy(client->tls_files);
    client->tls_files = NULL;
    free(client->tls_name);
    client->tls_name = NULL;
}

int link_tls_begin(struct conclave_client *client, const char *host)
{
    const char *name = client->tls_name != NULL ? client->tls_name : host;
    assert(client->tls == NULL);
    tls_files_follow(client);
    client->tls = tls_create(client->tls_context, name, client->tls_verify_host);
    return client->tls != NULL ? 0 : CONCLAVE_ENOMEM;
}

void link_tls_end(struct conclave_client *client)
{
    tls_destroy(client->tls);
    client->tls = NULL;
}

/* One step of the handshake; no stream data may come before its end, because servers do not speak first. */
static int link_tls_shake(struct conclave_client *client, struct slice *bytes, int64_t now_ns)
{
    assert(client->tls != NULL && client->core.link == LINK_NONE);
    uint8_t room[1];
    size_t len = 0;
    int rc = tls_read(client->tls, bytes, room, sizeof room, &len);
    if (rc == 0 && len > 0) {
        return CONCLAVE_EPROTO;
    }
    if (rc == 0 && tls_ready(client->tls)) {
        loop_connected(client, now_ns);
    }
    return rc == CONCLAVE_ECLOSED ? CONCLAVE_EDISCONNECTED : rc;
}

int link_tls_received(struct conclave_client *client, struct slice bytes, int64_t now_ns)
{
    struct core *core = &client->core;
    if (client->connecting) {
        int rc = link_tls_shake(client, &bytes, now_ns);
        if (rc != 0 || client->connecting) {
            return rc;
        }
    }
    size_t len = 1;
    while (len > 0 && core->link != LINK_NONE) {
        uint8_t *room;
        size_t room_len;
        if (core_input(core, ROOM, &room, &room_len) != 0) {
            return CONCLAVE_ENOMEM;
        }
        int rc = tls_read(client->tls, &bytes, room, room_len, &len);
        if (rc != 0) {
            return rc == CONCLAVE_ECLOSED ? CONCLAVE_EDISCONNECTED : rc;
        }
        if (len > 0) {
            core_received(core, len, now_ns);
        }
    }
    return 0;
}

int link_tls_fill(struct conclave_client *client)
{
    struct slice out = core_output(&client->core);
    if (client->connecting || out.len == 0 || tls_out(client->tls)->len > 0) {
        return 0;
    }
    if (out.len > FILL_MAX) {
        out.len = FILL_MAX;
    }
    assert(client->core.link != LINK_NONE);
    int rc = tls_write(client->tls, out);
    if (rc == 0) {
        core_sent(&client->core, out.len);
    }
    return rc;
}

const char *link_tls_problem(const struct conclave_client *client)
{
    bool failed = client->tls != NULL && tls_problem(client->tls)[0] != '\0';
    return failed ? tls_problem(client->tls) : NULL;
}
