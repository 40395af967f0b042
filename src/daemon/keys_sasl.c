#include "daemon/keys_sasl.h"

#include "daemon/key_values.h"
#include "front/login/client_ids.h"
#include "front/login/kerberos.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- keys ------------------------------------------------------------------------------------- */

int key_set_auth_provider(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    static const char package[] = "org.apache.zookeeper.server.auth.";
    static const char *const always_on[] = {
        "IPAuthenticationProvider", "DigestAuthenticationProvider", "X509AuthenticationProvider"};
    const char *class_name = value;
    if (strncmp(value, package, strlen(package)) == 0) {
        class_name += strlen(package);
    }
    if (strcmp(class_name, "SASLAuthenticationProvider") == 0) {
        c->login.provider = true;
        return 0;
    }
    for (size_t i = 0; i < sizeof always_on / sizeof always_on[0]; i++) {
        if (strcmp(class_name, always_on[i]) == 0) {
            return 0;
        }
    }
    return key_fail(c,
                    "%s: %s: the server cannot load Java classes; it knows %sSASL-, X509-, Digest- "
                    "and IPAuthenticationProvider: remove the key",
                    where, key, package);
}

/* superUser, superUser.N */
int key_set_super_user(struct zoo_cfg *c, const char *key, const char *value, const char *where)
{
    if (key[strlen("superUser")] != '\0' && key[strlen("superUser")] != '.') {
        return key_fail(c, "%s: %s: unknown key: use superUser or superUser.N", where, key);
    }
    return sasl_options_super(&c->login.options, value);
}

void keys_sasl_finish(struct keys_sasl *l)
{
    text_wipe(&l->super_password);
    free(l->jaas_file);
    free(l->users_file);
    free(l->section);
    sasl_options_finish(&l->options);
    *l = (struct keys_sasl){0};
}

/* --- files ------------------------------------------------------------------------------------ */

/* The file's mode: which users besides the owner can read the passwords. */
static int config_file_mode(struct zoo_cfg *c, const char *path, mode_t *ret)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        return key_fail(c, "cannot read %s: %s", path, strerror(errno));
    }
    *ret = st.st_mode;
    return 0;
}

int keys_sasl_read_users(struct zoo_cfg *c, const char *path, struct sasl_options *ret)
{
    struct sasl_fault fault;
    struct buf text;
    mode_t mode = 0;
    int rc = config_file_mode(c, path, &mode);
    if (rc == 0 && (mode & 077) != 0) {
        return key_fail(c, "%s contains passwords, but other users can access it: run chmod 600",
                        path);
    }
    buf_init(&text, 0);
    if (rc == 0) {
        rc = key_read_file(c, path, &text);
    }
    if (rc == 0) {
        rc = sasl_options_lines(ret, buf_slice(&text), &fault);
        if (rc == CONCLAVE_EINVAL) {
            rc = key_fail(c, "%s line %u: %s", path, fault.line, fault.text);
        }
    }
    buf_wipe(&text);
    return rc;
}

static int config_read_jaas(struct zoo_cfg *c, const char *path)
{
    struct sasl_fault fault;
    struct buf text;
    struct sasl_options *o = &c->login.options;
    const char *section = c->login.section != NULL ? c->login.section : "Server";
    mode_t mode = 0;
    int rc = config_file_mode(c, path, &mode);
    buf_init(&text, 0);
    if (rc == 0) {
        rc = key_read_file(c, path, &text);
    }
    if (rc == 0) {
        rc = sasl_options_jaas(o, buf_slice(&text), section, &fault);
        if (rc == CONCLAVE_EINVAL) {
            rc = key_fail(c, "%s line %u: section %s: %s", path, fault.line, section, fault.text);
        }
    }
    if (rc == 0 && o->user_count > 0 && (mode & 07) != 0) {
        buf_printf(&c->notices,
                   "conclave: sasl.jaas.file: every user can read the passwords in %s: "
                   "run chmod 600\n",
                   path);
    }
    buf_wipe(&text);
    return rc;
}

static int config_read_logins(struct zoo_cfg *c)
{
    assert((c->login.jaas_file != NULL) != (c->login.users_file != NULL));
    return c->login.jaas_file != NULL
               ? config_read_jaas(c, c->login.jaas_file)
               : keys_sasl_read_users(c, c->login.users_file, &c->login.options);
}

/* --- conclusions ------------------------------------------------------------------------------ */

/* As in Apache ZooKeeper, it replaces the password of the user `super`, if that user exists. */
static int config_apply_super_password(struct zoo_cfg *c)
{
    struct sasl_options *o = &c->login.options;
    if (c->login.super_password == NULL || sasl_options_password(o, "super") == NULL) {
        return 0;
    }
    int rc = sasl_options_user(o, "super", c->login.super_password);
    return rc == CONCLAVE_EINVAL
               ? key_fail(c, "SASLAuthenticationProvider.superPassword is empty: remove the key")
               : rc;
}

/* Without a list of users, SASL could not admit any client. */
static int config_check_schemes(struct zoo_cfg *c)
{
    const char *schemes = c->options.auth_schemes;
    if (schemes != NULL && auth_schemes_have(schemes, "sasl") &&
        c->login.options.mechanism == LOGIN_NONE) {
        return key_fail(c, "clients must authenticate by sasl, but SASL is off: name the users "
                           "with sasl.jaas.file or sasl.users.file");
    }
    return 0;
}

int keys_sasl_conclude(struct zoo_cfg *c)
{
    struct keys_sasl *l = &c->login;
    struct sasl_options *o = &l->options;
    int rc = 0;
    if (l->jaas_file != NULL && l->users_file != NULL) {
        return key_fail(c, "sasl.jaas.file and sasl.users.file: set only one of the two");
    }
    if (l->jaas_file != NULL || l->users_file != NULL) {
        rc = config_read_logins(c);
    } else if (l->provider) {
        return key_fail(c, "authProvider: SASL needs its users: name a JAAS file "
                           "with sasl.jaas.file, or a file of user:password lines with "
                           "sasl.users.file");
    }
    if (rc == 0) {
        rc = config_apply_super_password(c);
    }
    if (rc == 0 && o->keytab != NULL && access(o->keytab, R_OK) != 0) {
        return key_fail(c, "cannot read the keytab %s: %s", o->keytab, strerror(errno));
    }
    if (rc == 0 && o->mechanism == LOGIN_GSSAPI) {
        rc = kerberos_default_realm(&o->default_realm);
    }
    if (rc != 0) {
        return rc;
    }
    if (o->mechanism != LOGIN_NONE) {
        c->options.login = o;
        c->options.command_options |= COMMAND_SASL;
    }
    if (l->require_sasl) {
        c->options.auth_schemes = "sasl";
    }
    return config_check_schemes(c);
}
