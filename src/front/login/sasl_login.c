#include "front/login/sasl_login.h"

#include "cyrus/library.h"
#include "tree/acl_rules.h"
#include "tree/principal.h"

#include <sasl/sasl.h>
#include <sasl/saslplug.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct sasl_service {
    const struct sasl_options *options;
    sasl_callback_t callbacks[4];
    struct cyrus_reason reason; /* reason of the newest failure */
};

struct sasl_login {
    struct sasl_service *service;
    sasl_conn_t *conn; /* NULL: the exchange is over */
    sasl_callback_t callbacks[2];
    struct buf token;
    struct buf id;
};

/* --- callbacks of the library ------------------------------------------------------------------ */

struct setting {
    const char *name;
    const char *value;
};

/* Only these settings count; the system's files are ignored. */
static const struct setting settings[] = {
    {"auxprop_plugin", "conclave"},
    {"reauth_timeout", "0"}, /* each connection must authenticate */
    {"pwcheck_method", "auxprop"},
};

static int on_getopt(void *context, const char *plugin, const char *option, const char **result,
                     unsigned *len)
{
    const struct sasl_service *s = context;
    const char *value = NULL;
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        if (strcmp(option, settings[i].name) == 0) {
            value = settings[i].value;
        }
    }
    if (strcmp(option, "keytab") == 0) {
        value = s->options->keytab;
    }
    if (value == NULL) {
        return SASL_FAIL;
    }
    *result = value;
    if (len != NULL) {
        *len = (unsigned)strlen(value);
    }
    return SASL_OK;
}

/* Loads only the module of the mechanism. */
static int on_verify_file(void *context, const char *file, sasl_verify_type_t type)
{
    const struct sasl_service *s = context;
    const char *wanted = s->options->mechanism == LOGIN_GSSAPI ? "libgssapiv2." : "libdigestmd5.";
    const char *slash = strrchr(file, '/');
    const char *name = slash != NULL ? slash + 1 : file;
    if (type != SASL_VRFY_PLUGIN || strncmp(name, wanted, strlen(wanted)) == 0) {
        return SASL_OK;
    }
    return SASL_CONTINUE;
}

/* The library authenticated the client before this call. A wish to act as another user (authzid) is ignored. */
static int on_authorize(sasl_conn_t *conn, void *context, const char *wish, unsigned wish_len,
                        const char *identity, unsigned identity_len, const char *realm,
                        unsigned realm_len, struct propctx *properties)
{
    return SASL_OK;
}

/* --- the users as a property plugin ----------------------------------------------------------- */

/* The context of the connection's callback is the exchange. */
static const struct sasl_login *plugin_login(const sasl_server_params_t *params)
{
    sasl_callback_ft proc = NULL;
    void *context = NULL;
    if (params->utils->getcallback(params->utils->conn, SASL_CB_PROXY_POLICY, &proc, &context) !=
        SASL_OK) {
        return NULL;
    }
    return context;
}

static int plugin_lookup(void *glob_context, sasl_server_params_t *params, unsigned flags,
                         const char *user, unsigned user_len)
{
    const struct sasl_login *l = plugin_login(params);
    if (l == NULL || (flags & SASL_AUXPROP_AUTHZID) != 0) {
        return l == NULL ? SASL_FAIL : SASL_OK;
    }
    char *name = strndup(user, user_len);
    if (name == NULL) {
        return SASL_NOMEM;
    }
    const char *password = sasl_options_password(l->service->options, name);
    free(name);
    if (password == NULL) {
        return SASL_NOUSER;
    }
    return params->utils->prop_set(params->propctx, SASL_AUX_PASSWORD, password,
                                   (int)strlen(password));
}

static int plugin_init(const sasl_utils_t *utils, int max_version, int *out_version,
                       sasl_auxprop_plug_t **plug, const char *name)
{
    static char plugin_name[] = "conclave";
    static sasl_auxprop_plug_t plugin = {.auxprop_lookup = plugin_lookup, .name = plugin_name};
    if (max_version < SASL_AUXPROP_PLUG_VERSION) {
        return SASL_BADVERS;
    }
    *out_version = SASL_AUXPROP_PLUG_VERSION;
    *plug = &plugin;
    return SASL_OK;
}

/* --- the service ------------------------------------------------------------------------------ */

int sasl_service_open(const struct sasl_options *options, struct sasl_service **ret,
                      const char **ret_text)
{
    struct sasl_service *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return CONCLAVE_ENOMEM;
    }
    s->options = options;
    s->callbacks[0] = CYRUS_CALLBACK(SASL_CB_GETOPT, on_getopt, s);
    s->callbacks[1] = CYRUS_CALLBACK(SASL_CB_VERIFYFILE, on_verify_file, s);
    s->callbacks[2] = CYRUS_CALLBACK(SASL_CB_LOG, cyrus_on_log, &s->reason);
    s->callbacks[3] = CYRUS_CALLBACK(SASL_CB_LIST_END, NULL, NULL);
    int rc = sasl_server_init(s->callbacks, NULL);
    if (rc != SASL_OK) {
        free(s);
        *ret_text = "the SASL library (libsasl2) does not start";
        return rc == SASL_NOMEM ? CONCLAVE_ENOMEM : CONCLAVE_EUNSUPPORTED;
    }
    bool kerberos = options->mechanism == LOGIN_GSSAPI;
    rc = sasl_auxprop_add_plugin("conclave", plugin_init);
    if (rc != SASL_OK || !cyrus_has_mechanism(kerberos)) {
        sasl_service_close(s);
        *ret_text = cyrus_mechanism_missing(kerberos);
        return rc == SASL_NOMEM ? CONCLAVE_ENOMEM : CONCLAVE_EUNSUPPORTED;
    }
    *ret = s;
    return 0;
}

void sasl_service_close(struct sasl_service *s)
{
    if (s != NULL) {
        sasl_server_done();
        free(s);
    }
}

const struct sasl_options *sasl_service_options(const struct sasl_service *s)
{
    return s->options;
}

const char *sasl_service_reason(const struct sasl_service *s)
{
    return s->reason.text;
}

/* --- ids -------------------------------------------------------------------------------------- */

bool sasl_login_principal_id(const struct sasl_options *o, struct slice principal, struct buf *out)
{
    struct principal p;
    size_t start = out->len;
    buf_append_slice(out, principal);
    if (principal.len == 0 || memchr(principal.data, '\\', principal.len) != NULL) {
        return false; /* an escaped separator would split the name wrongly */
    }
    if (memchr(principal.data, '@', principal.len) == NULL) {
        buf_append_u8(out, '@');
        buf_append_str(out, o->default_realm);
    }
    if (!buf_ok(out) || !principal_parse(slice_make(out->data + start, out->len - start), &p) ||
        p.name.len == 0) {
        return false;
    }
    if (!slice_equal_str(p.realm, o->default_realm)) {
        return true;
    }
    /* The parts are in out: omitted ones are removed from the end backwards. */
    if (o->remove_realm || p.realm.len == 0) {
        assert(out->len > start + p.realm.len);
        out->len -= p.realm.len + 1;
    }
    if (o->remove_host && !slice_is_null(p.host)) {
        size_t tail = (size_t)(p.host.data + p.host.len - out->data);
        assert(tail <= out->len && tail > start + p.host.len);
        memmove(out->data + tail - p.host.len - 1, out->data + tail, out->len - tail);
        out->len -= p.host.len + 1;
    }
    return true;
}

int sasl_login_add_ids(const struct sasl_options *o, struct slice id, struct client_ids *ids)
{
    int rc = client_ids_add(ids, slice_str("sasl"), id);
    if (rc == 0 && sasl_options_is_super(o, id)) {
        rc = client_ids_add(ids, slice_str("super"), slice_str(""));
    }
    if (rc == 0 && o->any_user != NULL) {
        rc = client_ids_add(ids, slice_str(ACL_SCHEME_SASL_GRANT), slice_str(o->any_user));
    }
    return rc;
}

/* --- an exchange ------------------------------------------------------------------------------ */

static int login_create(struct sasl_service *s, struct sasl_login **ret)
{
    const struct sasl_options *o = s->options;
    struct sasl_login *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return CONCLAVE_ENOMEM;
    }
    l->service = s;
    buf_init(&l->token, 0);
    buf_init(&l->id, 0);
    l->callbacks[0] = CYRUS_CALLBACK(SASL_CB_PROXY_POLICY, on_authorize, l);
    l->callbacks[1] = CYRUS_CALLBACK(SASL_CB_LIST_END, NULL, NULL);
    bool kerberos = o->mechanism == LOGIN_GSSAPI;
    int rc = sasl_server_new(kerberos ? o->service : CYRUS_DIGEST_SERVICE,
                             kerberos ? o->host : CYRUS_DIGEST_HOST, NULL, NULL, NULL, l->callbacks,
                             SASL_SUCCESS_DATA, &l->conn);
    if (rc == SASL_OK) {
        rc = cyrus_no_layer(l->conn);
    }
    if (rc != SASL_OK) {
        sasl_login_destroy(l);
        return rc == SASL_NOMEM ? CONCLAVE_ENOMEM : CONCLAVE_AUTH_FAILED;
    }
    *ret = l;
    return 0;
}

void sasl_login_destroy(struct sasl_login *l)
{
    if (l == NULL) {
        return;
    }
    if (l->conn != NULL) {
        sasl_dispose(&l->conn);
    }
    buf_finish(&l->token);
    buf_finish(&l->id);
    free(l);
}

/* Reads the id that the client has proved. */
static int login_complete(struct sasl_login *l)
{
    const struct sasl_options *o = l->service->options;
    const void *name = NULL;
    assert(l->id.len == 0);
    if (sasl_getprop(l->conn, SASL_AUTHUSER, &name) != SASL_OK || name == NULL) {
        return CONCLAVE_AUTH_FAILED;
    }
    struct slice user = slice_str(name);
    if (o->mechanism == LOGIN_GSSAPI) {
        return sasl_login_principal_id(o, user, &l->id) ? 0 : CONCLAVE_AUTH_FAILED;
    }
    buf_append_slice(&l->id, user);
    return user.len > 0 ? 0 : CONCLAVE_AUTH_FAILED;
}

static int login_answer(struct sasl_login *l, bool first, struct slice token, struct sasl_step *ret)
{
    const char *out = NULL;
    unsigned out_len = 0;
    /* In DIGEST-MD5 the server speaks first: as in Java, an earlier token is ignored. */
    if (first && l->service->options->mechanism == LOGIN_DIGEST_MD5) {
        token = SLICE_NULL;
    }
    const char *in = token.len > 0 ? (const char *)token.data : NULL;
    bool kerberos = l->service->options->mechanism == LOGIN_GSSAPI;
    if (first && kerberos && in == NULL) {
        return CONCLAVE_AUTH_FAILED; /* the client speaks first */
    }
    int rc = first ? sasl_server_start(l->conn, cyrus_mechanism(kerberos), in, (unsigned)token.len,
                                       &out, &out_len)
                   : sasl_server_step(l->conn, in, (unsigned)token.len, &out, &out_len);
    if (rc == SASL_NOMEM) {
        return CONCLAVE_ENOMEM;
    }
    if (rc != SASL_OK && rc != SASL_CONTINUE) {
        return CONCLAVE_AUTH_FAILED;
    }
    buf_reset(&l->token);
    if (out != NULL) {
        buf_append(&l->token, out, out_len);
        ret->token = buf_slice(&l->token);
    }
    if (rc == SASL_OK) {
        rc = login_complete(l);
        if (rc != 0) {
            return rc;
        }
        ret->id = buf_slice(&l->id);
    }
    return buf_ok(&l->token) && buf_ok(&l->id) ? 0 : CONCLAVE_ENOMEM;
}

int sasl_login_take(struct sasl_service *s, struct sasl_login **login, struct slice token,
                    struct sasl_step *ret)
{
    bool first = *login == NULL;
    s->reason.text[0] = '\0';
    struct sasl_step step = {SLICE_NULL, SLICE_NULL};
    int rc = first ? login_create(s, login) : 0;
    if (rc != 0) {
        return rc;
    }
    struct sasl_login *l = *login;
    if (l->conn == NULL) {
        return CONCLAVE_AUTH_FAILED;
    }
    rc = login_answer(l, first, token, &step);
    if (rc != 0 || !slice_is_null(step.id)) {
        sasl_dispose(&l->conn); /* the token and the id are copies */
        l->conn = NULL;
    }
    if (rc == 0) {
        assert(slice_is_null(step.id) == (l->conn != NULL)); /* who is known has proved it */
        *ret = step;
    }
    return rc;
}
