/*
 * What an operator writes for a server. The first byte of the input chooses the form: zoo.cfg keys (every key of the server's
 * table), server.N lines, JAAS, a users file, the subject of a certificate as DER, the lines of a dynamicConfigFile with what
 * follows of them, arguments together with a zoo.cfg, PEM files.
 * Invariants: no memory error; each refusal gives a reason; a server line that was read prints to a text that reads the
 * same.
 */
#define _GNU_SOURCE /* memfd_create */
#include "base/properties.h"
#include "daemon/keys_ensemble.h"
#include "daemon/zoo_cfg.h"
#include "front/login/jaas.h"
#include "front/login/user_file.h"
#include "front/server_line.h"
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "tls/certificate_name.h"
#include "tls/certificate_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const struct cost_bound fuzz_bound = {
    .cpu_us = 50000,
    .cpu_ns_per_byte = 20000,
    .alloc_bytes = 1 << 20,
    .alloc_per_byte = 1000,
};

/* --- zoo.cfg -------------------------------------------------------------------------------------- */

static int set(void *ctx, const char *key, const char *value, unsigned line)
{
    struct zoo_cfg *c = ctx;
    int rc = zoo_cfg_set(c, key, value, "zoo.cfg line 1", true);
    must(rc == 0 || rc == CONCLAVE_ENOMEM || (rc == CONCLAVE_EINVAL && c->error != NULL));
    return rc;
}

static void fuzz_properties(struct slice text)
{
    struct zoo_cfg c;
    zoo_cfg_init(&c);
    int rc = properties_parse(text, set, &c);
    must(rc == 0 || rc == CONCLAVE_EINVAL);
    zoo_cfg_finish(&c);
}

static void must_be_refusal(const struct zoo_cfg *c, int rc)
{
    must(rc == 0 || rc == CONCLAVE_ENOMEM || (rc == CONCLAVE_EINVAL && c->error != NULL));
}

static int set_member(void *ctx, const char *key, const char *value, unsigned line)
{
    struct zoo_cfg *c = ctx;
    /* The keys that name files are left out. */
    if (strncmp(key, "server.", 7) != 0 && strcmp(key, "peerType") != 0) {
        return 0;
    }
    must(keys_ensemble_is_dynamic("server.1"));
    return zoo_cfg_set(c, key, value, "line 1", true);
}

/* The first byte is this server's number. */
static void fuzz_members(struct slice text)
{
    struct zoo_cfg c;
    struct input in = input_make(text);
    char id[8];
    zoo_cfg_init(&c);
    (void)snprintf(id, sizeof id, "%d", take(&in));
    int rc = key_set_myid(&c, "myid", id, "the test");
    must(rc == 0);
    c.options.data_dir = "/nowhere";
    rc = properties_parse(take_rest(&in), set_member, &c);
    if (rc == 0) {
        rc = keys_ensemble_conclude(&c);
        must_be_refusal(&c, rc);
    }
    if (rc == 0 && c.options.ensemble.n_members > 0) {
        must(c.options.ensemble.me < c.options.ensemble.n_members);
        must(c.options.server_id > 0);
    }
    zoo_cfg_finish(&c);
}

enum { WORDS_MAX = 32, PATH_ROOM = 32 };

/* A file without a name that holds the bytes; close it. */
static int file_of(struct slice bytes, char path[PATH_ROOM])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    must(fd >= 0 && write(fd, bytes.data, bytes.len) == (ssize_t)bytes.len);
    (void)snprintf(path, PATH_ROOM, "/proc/self/fd/%d", fd);
    return fd;
}

/* The arguments are the lines before an empty one; the rest is zoo.cfg. */
static void fuzz_arguments(struct slice text)
{
    struct zoo_cfg c;
    char path[PATH_ROOM];
    char *argv[WORDS_MAX + 3] = {"server"};
    int argc = 1;
    const uint8_t *gap = memmem(text.data, text.len, "\n\n", 2);
    size_t first = gap != NULL ? (size_t)(gap - text.data) : text.len;
    size_t used = gap != NULL ? first + 2 : first;
    char *words = text_of(slice_make(text.data, first));
    int fd = file_of(slice_make(text.data + used, text.len - used), path);
    for (char *at = words; at != NULL && *at != '\0' && argc <= WORDS_MAX;) {
        argv[argc++] = strsep(&at, "\n");
    }
    if (used < text.len) {
        argv[argc++] = path;
    }
    zoo_cfg_init(&c);
    must_be_refusal(&c, zoo_cfg_parse(&c, argc, argv));
    zoo_cfg_finish(&c);
    free(words);
    close(fd);
}

/* --- server.N ------------------------------------------------------------------------------------- */

static void fuzz_server_line(struct slice text)
{
    char *line = text_of(text);
    struct server_line first = {0}, again = {0};
    const char *why = NULL;
    int rc = server_line_parse(line, &first, &why);
    must(rc == 0 || why != NULL);
    if (rc == 0) {
        struct buf printed, twice;
        buf_init(&printed, 0);
        buf_init(&twice, 0);
        server_line_print(&first, &printed);
        must(buf_ok(&printed));
        if (server_line_parse(buf_cstr(&printed), &again, &why) == 0) {
            server_line_print(&again, &twice);
            must(slice_equal(buf_slice(&printed), buf_slice(&twice)));
            server_line_finish(&again);
        } else {
            must(printed.len >= SERVER_TEXT_MAX); /* with the defaults added it is too long */
        }
        buf_finish(&printed);
        buf_finish(&twice);
        server_line_finish(&first);
    }
    free(line);
}

/* --- logins --------------------------------------------------------------------------------------- */

static int jaas_module(void *ctx, const char *class_name)
{
    *(size_t *)ctx += strlen(class_name);
    return 0;
}

static int jaas_option(void *ctx, const char *key, const char *value)
{
    *(size_t *)ctx += strlen(key) + strlen(value);
    return 0;
}

static void fuzz_jaas(struct slice text)
{
    size_t seen = 0;
    struct jaas_handler handler = {jaas_module, jaas_option, &seen};
    struct jaas_fault fault = {0, NULL};
    int rc = jaas_read(text, "Server", &handler, &fault);
    must(rc == 0 || (rc == CONCLAVE_EINVAL && fault.text != NULL));
    must(seen <= 3 * text.len); /* three bytes of UTF-8 for an escaped character at most */
}

static void fuzz_users(struct slice text)
{
    struct user_file users;
    unsigned line = 0;
    const char *why = NULL;
    int rc = user_file_parse(text, &users, &line, &why);
    must(rc == 0 || (line > 0 && why != NULL));
    if (rc == 0) {
        for (size_t i = 0; i < users.count; i++) {
            must(user_file_name_is_good(slice_str(users.rows[i].name)));
            must(user_file_find(&users, slice_str(users.rows[i].name)) != NULL);
        }
        user_file_finish(&users);
    }
}

static void fuzz_name(struct slice der)
{
    const unsigned char *at = der.data;
    X509_NAME *name = d2i_X509_NAME(NULL, &at, (long)der.len);
    if (name == NULL) {
        return;
    }
    struct buf out;
    buf_init(&out, 0);
    certificate_name_print(name, &out);
    must(buf_ok(&out));
    if (out.len > 0) {
        char *text = strndup((const char *)out.data, out.len);
        must(text != NULL);
        certificate_name_clean(text);
        must(strpbrk(text, "\n\r\"") == NULL);
        free(text);
    }
    buf_finish(&out);
    X509_NAME_free(name);
}

/* PEM alone: the author of a PKCS12 file decides how long the check of its password takes. */
static void fuzz_store(struct slice bytes)
{
    char path[PATH_ROOM];
    char why[TLS_TEXT_MAX] = "";
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    int fd = file_of(bytes, path);
    const struct tls_settings settings = {
        .server = true, .cert_file = path, .trust_file = path, .crl_file = path};
    static int (*const loads[])(SSL_CTX *, const struct tls_settings *, char *) = {
        certificate_store_load_own, certificate_store_load_trust, certificate_store_load_crl};
    bool pem = bytes.len == 0 || bytes.data[0] != 0x30;
    must(ctx != NULL);
    for (size_t i = 0; i < sizeof loads / sizeof loads[0] && pem; i++) {
        int rc = loads[i](ctx, &settings, why);
        must(rc == 0 || (rc == CONCLAVE_EINVAL && why[0] != '\0'));
    }
    SSL_CTX_free(ctx);
    close(fd);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static const fuzz_target targets[] = {fuzz_properties, fuzz_server_line, fuzz_jaas,
                                          fuzz_users,      fuzz_name,        fuzz_members,
                                          fuzz_arguments,  fuzz_store};
    fuzz_choose(targets, sizeof targets / sizeof targets[0], data, size);
}
