#define _GNU_SOURCE /* explicit_bzero */
#include "cyrus/exchange.h"

#include "cyrus/library.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct cyrus_settings {
    atomic_int refs;
    bool gssapi;
    char *user;
    char *service;
    char *host;            /* or NULL */
    sasl_secret_t *secret; /* DIGEST-MD5 */
    size_t secret_size;
};

enum { CALLBACKS = 6 };

struct cyrus_exchange {
    struct cyrus_settings *settings;
    sasl_conn_t *conn; /* NULL before the first step */
    sasl_callback_t callbacks[CALLBACKS];
    struct cyrus_reason reason;
    char host[];
};

/* --- settings --------------------------------------------------------------------------------- */

int cyrus_settings_create(bool gssapi, const char *user, struct slice password, const char *service,
                          const char *host, struct cyrus_settings **ret)
{
    struct cyrus_settings *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return CONCLAVE_ENOMEM;
    }
    if (host == NULL && !gssapi) {
        host = CYRUS_DIGEST_HOST;
    }
    atomic_init(&s->refs, 1);
    s->gssapi = gssapi;
    s->secret_size = sizeof *s->secret + password.len + 1;
    s->user = strdup(user != NULL ? user : "");
    s->service = strdup(service != NULL ? service : CYRUS_DIGEST_SERVICE);
    s->host = host != NULL ? strdup(host) : NULL;
    s->secret = calloc(1, s->secret_size);
    if (s->user == NULL || s->service == NULL || s->secret == NULL ||
        (host != NULL && s->host == NULL)) {
        cyrus_settings_unref(s);
        return CONCLAVE_ENOMEM;
    }
    s->secret->len = password.len;
    if (password.len > 0) {
        memcpy(s->secret->data, password.data, password.len);
    }
    *ret = s;
    return 0;
}

void cyrus_settings_unref(struct cyrus_settings *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (s->secret != NULL) {
        explicit_bzero(s->secret, s->secret_size);
    }
    free(s->secret);
    free(s->user);
    free(s->service);
    free(s->host);
    free(s);
}

/* --- callbacks of the library ------------------------------------------------------------------ */

static int on_name(void *context, int id, const char **result, unsigned *len)
{
    const struct cyrus_exchange *x = context;
    /* SASL_CB_USER is the authorization id: the client never asks to act as another user. */
    *result = id == SASL_CB_AUTHNAME ? x->settings->user : "";
    if (len != NULL) {
        *len = (unsigned)strlen(*result);
    }
    return SASL_OK;
}

static int on_secret(sasl_conn_t *conn, void *context, int id, sasl_secret_t **ret)
{
    const struct cyrus_exchange *x = context;
    *ret = x->settings->secret;
    return SASL_OK;
}

static int on_realm(void *context, int id, const char **available, const char **result)
{
    /* Servers have one realm; of several take the first. */
    *result = available != NULL && available[0] != NULL ? available[0] : CYRUS_DIGEST_HOST;
    return SASL_OK;
}

/* --- an exchange ------------------------------------------------------------------------------ */

struct cyrus_exchange *cyrus_exchange_create(struct cyrus_settings *s, const char *host)
{
    size_t len = strlen(host);
    struct cyrus_exchange *x = calloc(1, sizeof *x + len + 1);
    if (x == NULL) {
        return NULL;
    }
    memcpy(x->host, host, len + 1);
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    x->settings = s;
    x->callbacks[0] = CYRUS_CALLBACK(SASL_CB_LOG, cyrus_on_log, &x->reason);
    x->callbacks[1] = CYRUS_CALLBACK(SASL_CB_USER, on_name, x);
    x->callbacks[2] = CYRUS_CALLBACK(SASL_CB_AUTHNAME, on_name, x);
    x->callbacks[3] = CYRUS_CALLBACK(SASL_CB_PASS, on_secret, x);
    x->callbacks[4] = CYRUS_CALLBACK(SASL_CB_GETREALM, on_realm, x);
    x->callbacks[5] = CYRUS_CALLBACK(SASL_CB_LIST_END, NULL, NULL);
    return x;
}

void cyrus_exchange_destroy(struct cyrus_exchange *x)
{
    if (x == NULL) {
        return;
    }
    if (x->conn != NULL) {
        sasl_dispose(&x->conn);
    }
    cyrus_settings_unref(x->settings);
    free(x);
}

static int exchange_begin(struct cyrus_exchange *x, const char **out, unsigned *out_len)
{
    const struct cyrus_settings *s = x->settings;
    const char *chosen = NULL;
    int rc = sasl_client_new(s->service, s->host != NULL ? s->host : x->host, NULL, NULL,
                             x->callbacks, 0, &x->conn);
    if (rc == SASL_OK) {
        rc = cyrus_no_layer(x->conn);
    }
    if (rc == SASL_OK) {
        rc = sasl_client_start(x->conn, cyrus_mechanism(s->gssapi), NULL, out, out_len, &chosen);
    }
    if (!s->gssapi) {
        /* The library tries to reuse the nonce of an earlier login, which Java's servers do not refuse properly. An
         * empty token lets the server begin. */
        *out_len = 0;
    }
    return rc;
}

/* Keeps the reason of the failure. */
static int exchange_fail(struct cyrus_exchange *x, int rc)
{
    if (rc == SASL_NOMEM) {
        return CONCLAVE_ENOMEM;
    }
    if (x->reason.text[0] == '\0') {
        cyrus_reason_set(&x->reason, x->conn != NULL ? sasl_errdetail(x->conn)
                                                     : sasl_errstring(rc, NULL, NULL));
    }
    return CONCLAVE_ESASL;
}

int cyrus_exchange_step(struct cyrus_exchange *x, struct slice challenge, enum cyrus_step *ret_step,
                        struct slice *ret_token)
{
    const char *out = NULL;
    unsigned out_len = 0;
    int rc;
    x->reason.text[0] = '\0';
    if (x->conn == NULL) {
        rc = exchange_begin(x, &out, &out_len);
    } else if (challenge.len > UINT_MAX) {
        rc = SASL_BADPROT;
    } else {
        const char *in = challenge.len > 0 ? (const char *)challenge.data : "";
        rc = sasl_client_step(x->conn, in, (unsigned)challenge.len, NULL, &out, &out_len);
    }
    if (rc != SASL_OK && rc != SASL_CONTINUE) {
        return exchange_fail(x, rc);
    }
    *ret_step = rc == SASL_CONTINUE ? CYRUS_MORE : out_len > 0 ? CYRUS_LAST : CYRUS_DONE;
    *ret_token = slice_make(out_len > 0 ? out : "", out_len);
    return 0;
}

const char *cyrus_exchange_problem(const struct cyrus_exchange *x)
{
    return x->reason.text;
}
