#include "cli/ops/admin_request.h"

#include "base/environment.h"
#include "cli/common/connection.h"
#include "cli/common/server_query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool admin_request_read(struct buf *answer, unsigned *ret_status, struct buf *ret_body)
{
    char *text = buf_cstr(answer) != NULL ? (char *)answer->data : NULL;
    char *body = text != NULL ? strstr(text, "\r\n\r\n") : NULL;
    if (body == NULL || strncmp(text, "HTTP/1.", 7) != 0 || answer->len < 12) {
        return false;
    }
    *ret_status = (unsigned)strtoul(text + 9, NULL, 10);
    buf_append(ret_body, body + 4, answer->len - (size_t)(body + 4 - text));
    return buf_ok(ret_body);
}

void admin_request_write(struct buf *question, const char *method, const char *target,
                         const char *address, const char *authorization)
{
    buf_init(question, 0);
    buf_printf(question, "%s %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n", method, target,
               address);
    if (authorization != NULL) {
        buf_printf(question, "Authorization: %s\r\n", authorization);
    }
    buf_append_str(question, strcmp(method, "POST") == 0 ? "Content-Length: 0\r\n\r\n" : "\r\n");
}

int admin_request(const char *command, const struct common_options *options, const char *address,
                  const char *method, const char *target, const char *authorization,
                  unsigned *ret_status, struct buf *ret_body)
{
    struct server_query ask = {.port = 0};
    struct buf question;
    buf_init(ret_body, 0);
    if (!server_query_address(&ask, address)) {
        fprintf(stderr, "conclave %s: --admin wants HOST:PORT, not \"%s\"\n", command, address);
        return CLI_EXIT_USAGE;
    }
    admin_request_write(&question, method, target, address, authorization);
    ask.question = buf_slice(&question);
    int code = buf_ok(&question) ? server_query_all(command, options, options->timeout_ms, &ask, 1)
                                 : fail(command, NULL, CONCLAVE_ENOMEM);
    if (code == 0 && ask.error != 0) {
        fprintf(stderr, "conclave %s: %s: %s; name a server's HTTP port with --admin HOST:PORT\n",
                command, address, ask.why);
        code = CLI_EXIT_UNAVAILABLE;
    } else if (code == 0 && !admin_request_read(&ask.answer, ret_status, ret_body)) {
        fprintf(stderr, "conclave %s: %s: this is not the HTTP port of a server\n", command,
                address);
        code = CLI_EXIT_UNAVAILABLE;
    }
    buf_finish(&ask.answer);
    buf_finish(&question);
    return code;
}

const char *admin_request_advice(unsigned status)
{
    return status == 401   ? "; give credentials with --auth"
           : status == 403 ? "; this needs the superuser (DigestAuthenticationProvider.superDigest "
                             "on the servers), or an identity with all permissions on /"
                           : "";
}

int admin_request_refused(const char *command, const char *address, unsigned status,
                          struct buf *body)
{
    const char *text = buf_cstr(body);
    const char *why = text != NULL ? strstr(text, "\"error\" : \"") : NULL;
    int len = why != NULL ? (int)strcspn(why + 11, "\"") : 0;
    bool auth = status == 401 || status == 403;
    fprintf(stderr, "conclave %s: %s: %.*s (HTTP %u)%s\n", command, address, len,
            why != NULL ? why + 11 : "", status, admin_request_advice(status));
    return auth ? CLI_EXIT_AUTH : CLI_EXIT_FAILED;
}

const char *admin_authorization(const struct common_options *options, char out[ADMIN_AUTH_MAX])
{
    const char *text = options->auth != NULL ? options->auth : environment_secret("CONCLAVE_AUTH");
    if (text == NULL || text[0] == '\0') {
        return NULL;
    }
    snprintf(out, ADMIN_AUTH_MAX, "%.*s", (int)strcspn(text, "\r\n"), text);
    char *colon = strchr(out, ':');
    if (colon != NULL) {
        *colon = ' ';
    }
    return out;
}
