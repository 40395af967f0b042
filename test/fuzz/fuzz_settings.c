/*
 * Texts that configure a server. The first byte of the input chooses the form: zoo.cfg keys (every key of the server's
 * table), server.N lines, JAAS, a users file, the subject of a certificate as DER.
 * What must hold: no harm; what is refused says why; a server line that is read prints to a text that reads the same.
 */
#include "base/properties.h"
#include "fuzz/cost.h"
#include "server/config.h"
#include "server/jaas.h"
#include "server/server_line.h"
#include "server/users.h"
#include "tls/name.h"

#include <stdlib.h>
#include <string.h>

const struct cost_bound fuzz_bound = {
    .cpu_us = 50000,
    .cpu_ns_per_byte = 20000,
    .alloc_bytes = 1 << 20,
    .alloc_per_byte = 1000,
};

/* --- zoo.cfg -------------------------------------------------------------------------------------- */

static int set(void *ctx, const char *key, const char *value, unsigned line)
{
    struct config *c = ctx;
    (void)line;
    int rc = config_set(c, key, value, "zoo.cfg line 1", true);
    must(rc == 0 || rc == CONCLAVE_ENOMEM || (rc == CONCLAVE_EINVAL && c->error != NULL));
    return rc;
}

static void fuzz_properties(struct slice text)
{
    struct config c;
    config_init(&c);
    int rc = properties_parse(text, set, &c);
    must(rc == 0 || rc == CONCLAVE_EINVAL);
    config_finish(&c);
}

/* --- server.N ------------------------------------------------------------------------------------- */

static void fuzz_server_line(struct slice text)
{
    char *line = strndup((const char *)text.data, text.len);
    struct server_line first = {0}, again = {0};
    const char *why = NULL;
    must(line != NULL);
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
            must(printed.len >= SERVER_TEXT_MAX); /* with what was not said it is too long */
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
    struct users users;
    unsigned line = 0;
    const char *why = NULL;
    int rc = users_parse(text, &users, &line, &why);
    must(rc == 0 || (line > 0 && why != NULL));
    if (rc == 0) {
        for (size_t i = 0; i < users.count; i++) {
            must(users_name_is_good(slice_str(users.rows[i].name)));
            must(users_find(&users, slice_str(users.rows[i].name)) != NULL);
        }
        users_finish(&users);
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
    name_print(name, &out);
    must(buf_ok(&out));
    if (out.len > 0) {
        char *text = strndup((const char *)out.data, out.len);
        must(text != NULL);
        name_clean(text);
        must(strpbrk(text, "\n\r\"") == NULL);
        free(text);
    }
    buf_finish(&out);
    X509_NAME_free(name);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static void (*const targets[])(struct slice) = {fuzz_properties, fuzz_server_line, fuzz_jaas,
                                                    fuzz_users, fuzz_name};
    if (size > 1) {
        targets[data[0] % (sizeof targets / sizeof targets[0])](slice_make(data + 1, size - 1));
    }
}
