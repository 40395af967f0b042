#include "cyrus/library.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

void cyrus_reason_set(struct cyrus_reason *r, const char *text)
{
    size_t len = 0;
    for (; text[len] != '\0' && len < sizeof r->text - 1; len++) {
        bool plain = text[len] >= ' ' && text[len] < 0x7f && text[len] != '"';
        r->text[len] = plain ? text[len] : '.';
    }
    r->text[len] = '\0';
}

int cyrus_on_log(void *context, int level, const char *message)
{
    if (level != SASL_LOG_NONE && level <= SASL_LOG_WARN && message != NULL) {
        cyrus_reason_set(context, message);
    }
    return SASL_OK;
}

/* --- threads ---------------------------------------------------------------------------------- */

/* The library locks its shared data only with functions that are set here. */

static void *mutex_create(void)
{
    pthread_mutex_t *m = malloc(sizeof(pthread_mutex_t));
    if (m != NULL && pthread_mutex_init(m, NULL) != 0) {
        free(m);
        return NULL;
    }
    return m;
}

static int mutex_lock(void *m)
{
    return pthread_mutex_lock(m) == 0 ? SASL_OK : SASL_FAIL;
}

static int mutex_unlock(void *m)
{
    return pthread_mutex_unlock(m) == 0 ? SASL_OK : SASL_FAIL;
}

static void mutex_destroy(void *m)
{
    if (m != NULL) {
        pthread_mutex_destroy(m);
        free(m);
    }
}

int cyrus_client_start(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool started;
    pthread_mutex_lock(&lock);
    int rc = SASL_OK;
    if (!started) {
        /* No effect if the program itself uses the library already: then it has set its own functions. */
        sasl_set_mutex(mutex_create, mutex_lock, mutex_unlock, mutex_destroy);
        /* No global settings: they would also apply to the program. */
        rc = sasl_client_init(NULL);
        started = rc == SASL_OK;
    }
    pthread_mutex_unlock(&lock);
    return rc == SASL_OK ? 0 : rc == SASL_NOMEM ? CONCLAVE_ENOMEM : CONCLAVE_EUNSUPPORTED;
}

/* --- mechanisms ------------------------------------------------------------------------------- */

const char *cyrus_mechanism(bool gssapi)
{
    return gssapi ? "GSSAPI" : "DIGEST-MD5";
}

bool cyrus_has_mechanism(bool gssapi)
{
    const char **list = sasl_global_listmech();
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        if (strcmp(list[i], cyrus_mechanism(gssapi)) == 0) {
            return true;
        }
    }
    return false;
}

const char *cyrus_mechanism_missing(bool gssapi)
{
    return gssapi ? "no module for GSSAPI: install libsasl2-modules-gssapi-mit"
                  : "no module for DIGEST-MD5: install libsasl2-modules";
}

int cyrus_no_layer(sasl_conn_t *conn)
{
    /* At most two bits, and TLS already provides them: there is nothing to add. With max_ssf below two, Debian's module
     * for GSSAPI (2.1.28) leaks a client's credentials at each login. maxbufsize 0: no layer is offered. */
    sasl_security_properties_t properties = {.max_ssf = 2, .maxbufsize = 0};
    sasl_ssf_t external = 2;
    int rc = sasl_setprop(conn, SASL_SSF_EXTERNAL, &external);
    return rc == SASL_OK ? sasl_setprop(conn, SASL_SEC_PROPS, &properties) : rc;
}
