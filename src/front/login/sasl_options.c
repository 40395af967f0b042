#include "front/login/sasl_options.h"

#include "base/buf.h"
#include "front/login/jaas.h"
#include "tree/principal.h"

#include <stdlib.h>
#include <strings.h>

void sasl_options_finish(struct sasl_options *o)
{
    for (size_t i = 0; i < o->user_count; i++) {
        free(o->users[i].name);
        text_wipe(&o->users[i].password);
    }
    for (size_t i = 0; i < o->super_count; i++) {
        free(o->super_users[i]);
    }
    free(o->users);
    free(o->super_users);
    free(o->keytab);
    free(o->service);
    free(o->host);
    free(o->default_realm);
    free(o->any_user);
    *o = (struct sasl_options){.mechanism = LOGIN_NONE};
}

/* --- users ------------------------------------------------------------------------------------ */

static struct sasl_user *find_user(const struct sasl_options *o, const char *name)
{
    for (size_t i = 0; i < o->user_count; i++) {
        if (strcmp(o->users[i].name, name) == 0) {
            return &o->users[i];
        }
    }
    return NULL;
}

const char *sasl_options_password(const struct sasl_options *o, const char *name)
{
    const struct sasl_user *user = find_user(o, name);
    return user != NULL ? user->password : NULL;
}

int sasl_options_user(struct sasl_options *o, const char *name, const char *password)
{
    struct principal p;
    struct sasl_user *user = find_user(o, name);
    if (name[0] == '\0' || password[0] == '\0' || !principal_parse(slice_str(name), &p)) {
        return CONCLAVE_EINVAL;
    }
    char *secret = strdup(password);
    if (user != NULL && secret != NULL) {
        text_wipe(&user->password);
        user->password = secret;
        return 0;
    }
    char *copy = strdup(name);
    struct sasl_user *more = realloc(o->users, (o->user_count + 1) * sizeof *more);
    if (more != NULL) {
        o->users = more;
    }
    if (copy == NULL || secret == NULL || more == NULL) {
        free(copy);
        text_wipe(&secret);
        return CONCLAVE_ENOMEM;
    }
    o->users[o->user_count++] = (struct sasl_user){.name = copy, .password = secret};
    return 0;
}

int sasl_options_super(struct sasl_options *o, const char *id)
{
    char *copy = strdup(id);
    char **more = realloc(o->super_users, (o->super_count + 1) * sizeof *more);
    if (more != NULL) {
        o->super_users = more;
    }
    if (copy == NULL || more == NULL) {
        free(copy);
        return CONCLAVE_ENOMEM;
    }
    o->super_users[o->super_count++] = copy;
    return 0;
}

bool sasl_options_is_super(const struct sasl_options *o, struct slice id)
{
    for (size_t i = 0; i < o->super_count; i++) {
        if (id.len > 0 && slice_equal_str(id, o->super_users[i])) {
            return true;
        }
    }
    return false;
}

/* --- a JAAS section --------------------------------------------------------------------------- */

struct jaas_context {
    struct sasl_options *options;
    bool kerberos;    /* the last class was Kerberos' */
    char *principal;  /* value of its option */
    const char *text; /* error in an option */
};

static bool class_is(const char *class_name, const char *wanted)
{
    const char *dot = strrchr(class_name, '.');
    return strcmp(dot != NULL ? dot + 1 : class_name, wanted) == 0;
}

static int jaas_fail(struct jaas_context *j, const char *text)
{
    j->text = text;
    return CONCLAVE_EINVAL;
}

/* The first class decides the mechanism, like the first principal of a Java login. */
static int jaas_module(void *ctx, const char *class_name)
{
    struct jaas_context *j = ctx;
    enum sasl_mechanism mechanism = LOGIN_NONE;
    j->kerberos = class_is(class_name, "Krb5LoginModule");
    if (j->kerberos) {
        mechanism = LOGIN_GSSAPI;
    } else if (class_is(class_name, "DigestLoginModule")) {
        mechanism = LOGIN_DIGEST_MD5;
    } else {
        return jaas_fail(j, "only DigestLoginModule and Krb5LoginModule are supported");
    }
    if (j->options->mechanism == LOGIN_NONE) {
        j->options->mechanism = mechanism;
    }
    return 0;
}

static int jaas_user(struct jaas_context *j, const char *name, const char *password)
{
    int rc = sasl_options_user(j->options, name, password);
    return rc == CONCLAVE_EINVAL
               ? jaas_fail(j,
                           "a user's name has more than one @ or /, or name or password is empty")
               : rc;
}

/* Options that only describe how Java logs in have no meaning here. */
static int jaas_option(void *ctx, const char *key, const char *value)
{
    struct jaas_context *j = ctx;
    if (strncmp(key, "user_", 5) == 0) {
        return jaas_user(j, key + 5, value);
    }
    if (!j->kerberos) {
        return 0;
    }
    if (strcasecmp(key, "keyTab") == 0) {
        bool file = strncmp(value, "FILE:", 5) == 0;
        return text_replace(&j->options->keytab, file ? value + 5 : value);
    }
    if (strcmp(key, "principal") == 0) {
        return text_replace(&j->principal, value);
    }
    if (strcmp(key, "useKeyTab") == 0 && strcasecmp(value, "false") == 0) {
        return jaas_fail(j, "useKeyTab=false: a server needs a keytab");
    }
    return 0;
}

/* SERVICE/HOST@REALM; the keytab gives the realm. */
static int jaas_principal(struct jaas_context *j)
{
    struct principal p;
    struct sasl_options *o = j->options;
    if (j->principal == NULL) {
        return jaas_fail(j, "Krb5LoginModule needs principal=\"zookeeper/HOST@REALM\"");
    }
    if (!principal_parse(slice_str(j->principal), &p) || slice_is_null(p.realm) ||
        p.name.len == 0 || p.host.len == 0) {
        return jaas_fail(j, "principal is not of the form SERVICE/HOST@REALM");
    }
    o->service = strndup((const char *)p.name.data, p.name.len);
    o->host = strndup((const char *)p.host.data, p.host.len);
    return o->service != NULL && o->host != NULL ? 0 : CONCLAVE_ENOMEM;
}

int sasl_options_jaas(struct sasl_options *o, struct slice text, const char *section,
                      struct sasl_fault *ret_fault)
{
    struct jaas_context j = {.options = o};
    struct jaas_handler handler = {.module = jaas_module, .option = jaas_option, .ctx = &j};
    struct jaas_fault fault;
    int rc = jaas_read(text, section, &handler, &fault);
    if (rc == 0 && o->mechanism == LOGIN_GSSAPI) {
        rc = jaas_principal(&j);
    }
    if (rc == 0 && o->mechanism == LOGIN_NONE) {
        rc = jaas_fail(&j, "the section is empty");
    }
    *ret_fault = (struct sasl_fault){fault.line, j.text != NULL ? j.text : fault.text};
    free(j.principal);
    return rc;
}

/* --- lines of users --------------------------------------------------------------------------- */

static int read_user_line(struct sasl_options *o, char *line)
{
    char *colon = strchr(line, ':');
    if (line[0] == '\0' || line[0] == '#') {
        return 0;
    }
    if (colon == NULL) {
        return CONCLAVE_EINVAL;
    }
    *colon = '\0';
    return sasl_options_user(o, line, colon + 1);
}

int sasl_options_lines(struct sasl_options *o, struct slice text, struct sasl_fault *ret_fault)
{
    int rc = 0;
    size_t at = 0;
    unsigned line = 0;
    struct buf copy;
    buf_init(&copy, 0);
    *ret_fault = (struct sasl_fault){0, "expected user:password, and no user with two @"};
    while (rc == 0 && at < text.len) {
        const uint8_t *start = text.data + at;
        const uint8_t *end = memchr(start, '\n', text.len - at);
        size_t len = end != NULL ? (size_t)(end - start) : text.len - at;
        at += len + 1;
        line++;
        buf_reset(&copy);
        buf_append(&copy, start, len > 0 && start[len - 1] == '\r' ? len - 1 : len);
        if (buf_cstr(&copy) == NULL) {
            rc = CONCLAVE_ENOMEM;
        } else if (memchr(copy.data, '\0', copy.len) != NULL) {
            rc = CONCLAVE_EINVAL;
        } else {
            rc = read_user_line(o, (char *)copy.data);
        }
    }
    ret_fault->line = line;
    buf_wipe(&copy);
    if (rc == 0 && o->user_count == 0) {
        ret_fault->text = "contains no user";
        return CONCLAVE_EINVAL;
    }
    o->mechanism = LOGIN_DIGEST_MD5;
    return rc;
}
