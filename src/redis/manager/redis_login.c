/* Reads the password and loads the certificates. */
#include "redis/manager/redis_login.h"

#include "base/buf.h"
#include "tls/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { PASSWORD_MAX = 1024 };

/* The first line of a file. */
static int redis_login_read_line(const char *file, char line[PASSWORD_MAX], char why[TLS_TEXT_MAX])
{
    FILE *f = fopen(file, "re");
    int rc = 0;
    if (f == NULL || fgets(line, PASSWORD_MAX, f) == NULL) {
        snprintf(why, TLS_TEXT_MAX, "cannot read the password in %.300s: %s", file,
                 f == NULL || ferror(f) != 0 ? strerror(errno) : "the file is empty");
        rc = CONCLAVE_EIO;
    } else {
        line[strcspn(line, "\r\n")] = '\0';
    }
    if (f != NULL) {
        fclose(f);
    }
    return rc;
}

static int open_password(const struct redis_access_settings *s, struct redis_access *a,
                         char why[TLS_TEXT_MAX])
{
    char line[PASSWORD_MAX];
    int rc = 0;
    line[0] = '\0';
    if (s->password_file != NULL) {
        rc = redis_login_read_line(s->password_file, line, why);
    } else if (s->password != NULL) {
        snprintf(line, sizeof line, "%s", s->password);
    }
    if (rc == 0 && line[0] != '\0') {
        a->password = strdup(line);
        rc = a->password != NULL ? 0 : CONCLAVE_ENOMEM;
    } else if (rc == 0 && s->user != NULL) {
        snprintf(why, TLS_TEXT_MAX, "there is a user, but no password");
        rc = CONCLAVE_EINVAL;
    }
    explicit_bzero(line, sizeof line);
    return rc;
}

int redis_access_open(const struct redis_access_settings *settings, struct redis_access *ret,
                      char why[TLS_TEXT_MAX])
{
    struct redis_access a = {.tls_any_name = settings->any_name};
    struct tls_settings tls = {.peer = TLS_PEER_NEED,
                               .cert_file = settings->cert_file,
                               .key_file = settings->key_file,
                               .trust_file = settings->ca_file};
    snprintf(why, TLS_TEXT_MAX, "out of memory");
    int rc = open_password(settings, &a, why);
    if (rc == 0 && settings->user != NULL) {
        a.user = strdup(settings->user);
        rc = a.user != NULL ? 0 : CONCLAVE_ENOMEM;
    }
    if (rc == 0 && (settings->tls || settings->ca_file != NULL || settings->cert_file != NULL ||
                    settings->key_file != NULL)) {
        rc = tls_context_create(&tls, &a.tls, why);
    }
    if (rc != 0) {
        redis_access_close(&a);
        return rc;
    }
    *ret = a;
    return 0;
}

void redis_access_close(struct redis_access *access)
{
    char *password = (char *)access->password;
    text_wipe(&password);
    free((char *)access->user);
    tls_context_release(access->tls);
    *access = (struct redis_access){.user = NULL};
}
