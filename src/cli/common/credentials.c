#define _GNU_SOURCE /* explicit_bzero */
#include "cli/common/credentials.h"

#include "base/environment.h"

#include "cli/common/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_MAX = 64 * 1024, SCHEME_MAX = 32 };

static int add_line(const char *command, const char *source, const char *line, size_t len,
                    struct conclave_client *client)
{
    char scheme[SCHEME_MAX];
    const char *colon = memchr(line, ':', len);
    size_t scheme_len = colon != NULL ? (size_t)(colon - line) : 0;
    if (scheme_len == 0 || scheme_len >= sizeof scheme) {
        fprintf(stderr, "conclave %s: %s wants SCHEME:CREDENTIALS, such as digest:USER:PASSWORD\n",
                command, source);
        return CLI_EXIT_USAGE;
    }
    memcpy(scheme, line, scheme_len);
    scheme[scheme_len] = '\0';
    int error = conclave_client_add_auth(client, scheme, colon + 1, len - scheme_len - 1);
    return error == 0 ? 0 : fail(command, source, error);
}

int credentials_add_text(const char *command, const char *source, const char *text,
                         struct conclave_client *client)
{
    int code = 0;
    while (code == 0 && *text != '\0') {
        size_t len = strcspn(text, "\n");
        if (len > 0 && text[0] != '#') {
            code = add_line(command, source, text, len, client);
        }
        text += len + (text[len] == '\n');
    }
    return code;
}

/* Reads all of it, a NUL behind. -1: errno says why not. */
static ssize_t read_all(int fd, char *buf, size_t size)
{
    size_t len = 0;
    for (;;) {
        ssize_t n = read(fd, buf + len, size - 1 - len);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return -1;
        }
        len += (size_t)n;
        if (len == size - 1) {
            errno = EFBIG;
            return -1;
        }
        if (n == 0) {
            buf[len] = '\0';
            return (ssize_t)len;
        }
    }
}

void credentials_check_file(const char *command, const char *file)
{
    struct stat st;
    if (stat(file, &st) == 0 && (st.st_mode & 077) != 0) {
        fprintf(stderr, "conclave %s: others can read the credentials in %s; chmod 600 it\n",
                command, file);
    }
}

static int add_file(const char *command, const char *file, struct conclave_client *client)
{
    char *text = malloc(FILE_MAX);
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    int code = CLI_EXIT_IO;
    if (text == NULL || fd < 0 || read_all(fd, text, FILE_MAX) < 0) {
        fprintf(stderr, "conclave %s: cannot read the credentials in %s: %s\n", command, file,
                strerror(errno));
    } else {
        credentials_check_file(command, file);
        code = credentials_add_text(command, file, text, client);
    }
    if (text != NULL) {
        explicit_bzero(text, FILE_MAX);
    }
    free(text);
    if (fd >= 0) {
        close(fd);
    }
    return code;
}

int credentials_add(const char *command, const struct common_options *options,
                    struct conclave_client *client)
{
    int code = 0;
    if (options->auth != NULL) {
        code = add_line(command, "--auth", options->auth, strlen(options->auth), client);
    }
    if (code == 0 && options->auth_file != NULL) {
        code = add_file(command, options->auth_file, client);
    }
    const char *env = environment_secret("CONCLAVE_AUTH");
    if (options->auth == NULL && options->auth_file == NULL && env != NULL) {
        code = credentials_add_text(command, "CONCLAVE_AUTH", env, client);
    }
    return code;
}

/* --- TLS and SASL ------------------------------------------------------------------------------ */

/* The option or, without it, the variable; NULL when that is empty. */
static const char *given(const char *option, const char *variable)
{
    const char *value = option != NULL ? option : environment_secret(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* False when TLS is not wanted. */
static bool tls_options(const struct common_options *options, struct conclave_tls_options *ret)
{
    const char *on = given(options->tls ? "1" : NULL, "CONCLAVE_TLS");
    ret->ca_file = given(options->tls_ca, "CONCLAVE_TLS_CA");
    ret->cert_file = given(options->tls_cert, "CONCLAVE_TLS_CERT");
    ret->key_file = given(options->tls_key, "CONCLAVE_TLS_KEY");
    ret->server_name = given(options->tls_name, "CONCLAVE_TLS_NAME");
    ret->ca_password = ret->key_password = given(NULL, "CONCLAVE_TLS_PASSWORD");
    return (on != NULL && strcmp(on, "0") != 0) || ret->ca_file != NULL || ret->cert_file != NULL ||
           ret->key_file != NULL || ret->server_name != NULL;
}

/* False when SASL is not wanted. */
static bool sasl_options(const struct common_options *options, struct conclave_sasl_options *ret)
{
    ret->mechanism = given(options->sasl_mechanism, "CONCLAVE_SASL_MECHANISM");
    ret->user = given(options->sasl_user, "CONCLAVE_SASL_USER");
    ret->password_file = given(options->sasl_password_file, "CONCLAVE_SASL_PASSWORD_FILE");
    ret->service = given(options->sasl_service, "CONCLAVE_SASL_SERVICE");
    ret->host = given(options->sasl_host, "CONCLAVE_SASL_HOST");
    if (ret->password_file == NULL) {
        ret->password = given(NULL, "CONCLAVE_SASL_PASSWORD");
    }
    return ret->mechanism != NULL || ret->user != NULL || ret->password_file != NULL ||
           ret->service != NULL || ret->host != NULL;
}

void connection_security_fill(struct connection_security *s, const char *command,
                              const struct common_options *options,
                              struct conclave_client_options *client_options)
{
    *s = (struct connection_security){
        .tls = CONCLAVE_TLS_OPTIONS_INIT,
        .sasl = CONCLAVE_SASL_OPTIONS_INIT,
    };
    s->tls.error = s->sasl.error = s->why;
    s->tls.error_len = s->sasl.error_len = sizeof s->why;
    client_options->tls = tls_options(options, &s->tls) ? &s->tls : NULL;
    client_options->sasl = sasl_options(options, &s->sasl) ? &s->sasl : NULL;
    if (client_options->sasl != NULL && s->sasl.password_file != NULL) {
        credentials_check_file(command, s->sasl.password_file);
    }
}

bool connection_security_inherit(struct common_options *line, const struct common_options *from)
{
    bool tls = line->tls || line->tls_ca != NULL || line->tls_cert != NULL ||
               line->tls_key != NULL || line->tls_name != NULL;
    bool sasl = line->sasl_mechanism != NULL || line->sasl_user != NULL ||
                line->sasl_password_file != NULL || line->sasl_service != NULL ||
                line->sasl_host != NULL;
    if (!tls) {
        line->tls = from->tls;
        line->tls_ca = from->tls_ca;
        line->tls_cert = from->tls_cert;
        line->tls_key = from->tls_key;
        line->tls_name = from->tls_name;
    }
    if (!sasl) {
        line->sasl_mechanism = from->sasl_mechanism;
        line->sasl_user = from->sasl_user;
        line->sasl_password_file = from->sasl_password_file;
        line->sasl_service = from->sasl_service;
        line->sasl_host = from->sasl_host;
    }
    return !tls && !sasl;
}
