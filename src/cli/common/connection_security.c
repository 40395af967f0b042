#include "cli/common/connection_security.h"

#include "base/environment.h"

#include "cli/common/credentials.h"

#include <string.h>

/* The option, or the variable where it is not given; an empty one is none. */
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
