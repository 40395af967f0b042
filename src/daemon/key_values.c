#define _GNU_SOURCE /* vasprintf */
#include "daemon/key_values.h"

#include "front/login/client_ids.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FILE_MAX = 1 << 20 };

int key_fail(struct zoo_cfg *c, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0) {
        return CONCLAVE_ENOMEM;
    }
    /* The first error is the cause. */
    if (c->error == NULL) {
        c->error = text;
    } else {
        free(text);
    }
    return CONCLAVE_EINVAL;
}

bool key_number(const char *text, int64_t *ret)
{
    char *end = NULL;
    /* strtoll would also accept blanks and a plus sign. */
    const char *digits = text[0] == '-' ? text + 1 : text;
    if (digits[0] < '0' || digits[0] > '9') {
        return false;
    }
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0') {
        return false;
    }
    *ret = n;
    return true;
}

bool key_boolean(const char *text, bool *ret)
{
    bool yes = strcasecmp(text, "true") == 0 || strcasecmp(text, "yes") == 0;
    bool no = strcasecmp(text, "false") == 0 || strcasecmp(text, "no") == 0;
    if (yes || no) {
        *ret = yes;
    }
    return yes || no;
}

int key_read_file(struct zoo_cfg *c, const char *path, struct buf *out)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return key_fail(c, "cannot read %s: %s", path, strerror(errno));
    }
    char block[4096];
    size_t n;
    while ((n = fread(block, 1, sizeof block, file)) > 0 && out->len <= FILE_MAX) {
        buf_append(out, block, n);
    }
    int rc = 0;
    if (ferror(file)) {
        rc = key_fail(c, "cannot read %s: %s", path, strerror(errno));
    } else if (!buf_ok(out)) {
        rc = CONCLAVE_ENOMEM;
    } else if (out->len > FILE_MAX) {
        rc = key_fail(c, "%s is larger than 1 MiB, so it is not a configuration file", path);
    }
    if (fclose(file) != 0 && rc == 0) {
        rc = key_fail(c, "cannot read %s: %s", path, strerror(errno));
    }
    return rc;
}

int key_set_host(struct zoo_cfg *c, struct net_address *address, const char *key, const char *value,
                 const char *where)
{
    if (value[0] == '\0' || strlen(value) >= sizeof address->host) {
        return key_fail(c, "%s: %s: '%s' is no host name or address", where, key, value);
    }
    snprintf(address->host, sizeof address->host, "%s", value);
    return 0;
}

int key_set_path(struct zoo_cfg *c, char **field, const char *key, const char *value,
                 const char *where)
{
    if (value[0] == '\0') {
        return key_fail(c, "%s: %s is empty: name a file or folder", where, key);
    }
    return text_replace(field, value);
}

int key_set_address(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    c->have_address = true;
    return key_set_host(c, &c->options.listen, key, value, where);
}

int key_set_secure_address(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    c->have_secure_address = true;
    return key_set_host(c, &c->options.listen_secure, key, value, where);
}

int key_set_super_digest(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    const char *colon = strchr(value, ':');
    size_t len = colon != NULL ? strlen(colon + 1) : 0;
    /* The hash is base64 of 20 bytes with SHA1, of up to 64 otherwise. The message does not repeat the value, because a
     * hash helps to guess the password. */
    if (len < 28 || len > 88 || len % 4 != 0) {
        return key_fail(c,
                        "%s: %s: expected user:base64(sha1(user:password)), or the hash that "
                        "DigestAuthenticationProvider.digestAlg names",
                        where, key);
    }
    return text_replace(&c->super_digest, value);
}

int key_set_digest_algorithm(struct zoo_cfg *c, const char *key, const char *value,
                             const char *where)
{
    c->options.digest.algorithm = digest_algorithm_find(value);
    if (c->options.digest.algorithm == NULL) {
        return key_fail(c,
                        "%s: %s: '%s' is not one of SHA1, SHA-256, SHA-384, SHA-512, SHA3-256, "
                        "SHA3-384, SHA3-512",
                        where, key, value);
    }
    return 0;
}

/* With a scheme that no client can use, the server would refuse every client. */
int key_set_auth_schemes(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    const char *rest = value;
    struct slice scheme;
    while (auth_scheme_next(&rest, &scheme)) {
        if (!auth_scheme_known(scheme)) {
            return key_fail(c, "%s: %s: '%.*s' is not a scheme that clients can authenticate with",
                            where, key, SLICE_FMT(scheme));
        }
    }
    return text_replace(&c->auth_schemes, value);
}

int key_set_trace_endpoint(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    const char *why = NULL;
    return trace_options_set(&c->options.traces, value, &why) == 0
               ? 0
               : key_fail(c, "%s: %s: '%s' is not usable: %s", where, key, value, why);
}

int key_set_log_level(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    return log_level_find(value, &c->log_level)
               ? 0
               : key_fail(c, "%s: %s: '%s' is not one of error, warn, notice, info, debug", where,
                          key, value);
}

int key_set_log_format(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    return log_format_find(value, &c->log_format)
               ? 0
               : key_fail(c, "%s: %s: '%s' is not one of text, json, journald", where, key, value);
}
