#define _GNU_SOURCE /* explicit_bzero */
#include "client/link_sasl.h"

#include "client/core/sized.h"
#include "client/core/threads.h"
#include "cyrus/exchange.h"
#include "cyrus/library.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    PASSWORD_MAX = 1024, /* bytes of a password file */
    PROBLEM_MAX = CYRUS_REASON_MAX + 8,
};

/* An exchange. While a token is being made, everything but refs, done and fd belongs to the thread. */
struct link_login {
    atomic_int refs; /* one for the link, one for the thread while it runs */
    atomic_bool done;
    int fd;
    bool busy; /* for the link: a thread was started, and its result was not taken yet */
    struct cyrus_exchange *exchange;
    struct buf challenge;
    int error; /* of the newest step, whose results follow */
    enum cyrus_step step;
    struct slice token;
    char problem[PROBLEM_MAX];
};

/* --- settings --------------------------------------------------------------------------------- */

static int link_sasl_tell(const struct conclave_sasl_options *o, const char *what, const char *why)
{
    if (o->error != NULL && o->error_len > 0) {
        snprintf(o->error, o->error_len, "%s%s%s", what, why != NULL ? ": " : "",
                 why != NULL ? why : "");
    }
    return CONCLAVE_ESASL;
}

/* Reads the first line of a file. 0, or CONCLAVE_ESASL after the error was reported. */
static int read_password(const struct conclave_sasl_options *o, char *buf, size_t size,
                         size_t *ret_len)
{
    size_t len = 0;
    ssize_t n = -1;
    int fd = open(o->password_file, O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && len < size) {
        n = read(fd, buf + len, size - len);
        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            break;
        }
        len += n > 0 ? (size_t)n : 0;
    }
    int err = errno;
    if (fd >= 0) {
        close(fd);
    }
    if (n < 0) {
        return link_sasl_tell(o, o->password_file, strerror(err));
    }
    const char *end = memchr(buf, '\n', len);
    if (end == NULL && len == size) {
        return link_sasl_tell(o, o->password_file, "the password is too long");
    }
    *ret_len = end != NULL ? (size_t)(end - buf) : len;
    return 0;
}

/* Finds the mechanism for *ret. 0, CONCLAVE_EINVAL or CONCLAVE_ESASL. */
static int choose_mechanism(const struct conclave_sasl_options *o, bool *ret_gssapi)
{
    bool gssapi = o->user == NULL;
    if (o->mechanism != NULL) {
        gssapi = strcmp(o->mechanism, "GSSAPI") == 0;
        if (!gssapi && strcmp(o->mechanism, "DIGEST-MD5") != 0) {
            return link_sasl_tell(o, "the mechanism must be DIGEST-MD5 or GSSAPI", NULL);
        }
    }
    bool secret = o->password != NULL || o->password_file != NULL;
    if (gssapi && (o->user != NULL || secret)) {
        return link_sasl_tell(o, "GSSAPI takes user and key from Kerberos, not from the options",
                              NULL);
    }
    if (!gssapi && (o->user == NULL || o->user[0] == '\0' || !secret)) {
        return link_sasl_tell(o, "DIGEST-MD5 needs a user and a password", NULL);
    }
    if (o->password != NULL && o->password_file != NULL) {
        return link_sasl_tell(o, "both a password and a password file are set: use only one", NULL);
    }
    *ret_gssapi = gssapi;
    return 0;
}

static int open_settings(struct conclave_client *client, const struct conclave_sasl_options *o)
{
    bool gssapi;
    char secret[PASSWORD_MAX];
    struct slice password = slice_str(o->password);
    int rc = choose_mechanism(o, &gssapi);
    if (rc == 0 && o->password_file != NULL) {
        size_t len = 0;
        rc = read_password(o, secret, sizeof secret, &len);
        password = slice_make(secret, len);
    }
    if (rc == 0 && !gssapi && password.len == 0) {
        rc = link_sasl_tell(o, "the password is empty", NULL);
    }
    if (rc == 0) {
        rc = cyrus_client_start();
    }
    if (rc == CONCLAVE_EUNSUPPORTED || (rc == 0 && !cyrus_has_mechanism(gssapi))) {
        rc = link_sasl_tell(o, cyrus_mechanism_missing(gssapi), NULL);
    }
    if (rc == 0) {
        rc = cyrus_settings_create(gssapi, o->user, password, o->service, o->host, &client->sasl);
    }
    explicit_bzero(secret, sizeof secret);
    return rc;
}

int link_sasl_open(struct conclave_client *client, const struct conclave_client_options *options)
{
    const struct conclave_sasl_options *o = options->sasl;
    struct conclave_sasl_options mine = CONCLAVE_SASL_OPTIONS_INIT;
    if (o == NULL) {
        return 0;
    }
    if (sized_read(&mine, o) != 0) {
        if (options->error != NULL && options->error_len > 0) {
            snprintf(options->error, options->error_len,
                     "sasl: begin with CONCLAVE_SASL_OPTIONS_INIT");
        }
        return CONCLAVE_EINVAL;
    }
    if (mine.error == NULL) {
        mine.error = options->error;
        mine.error_len = options->error_len;
    }
    return open_settings(client, &mine);
}

void link_sasl_close(struct conclave_client *client)
{
    link_sasl_end(client);
    cyrus_settings_unref(client->sasl);
    client->sasl = NULL;
}

/* --- an exchange ------------------------------------------------------------------------------ */

static void login_unref(struct link_login *l)
{
    int refs = atomic_fetch_sub_explicit(&l->refs, 1, memory_order_acq_rel);
    assert(refs > 0);
    if (refs == 1) {
        cyrus_exchange_destroy(l->exchange);
        buf_finish(&l->challenge);
        if (l->fd >= 0) {
            close(l->fd);
        }
        free(l);
    }
}

static struct link_login *login_create(struct cyrus_settings *settings, const char *host)
{
    struct link_login *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return NULL;
    }
    atomic_init(&l->refs, 1);
    atomic_init(&l->done, false);
    buf_init(&l->challenge, 0);
    l->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    l->exchange = cyrus_exchange_create(settings, host);
    if (l->exchange == NULL || l->fd < 0) {
        login_unref(l);
        return NULL;
    }
    return l;
}

static void *login_main(void *arg)
{
    struct link_login *l = arg;
    l->error = cyrus_exchange_step(l->exchange, buf_slice(&l->challenge), &l->step, &l->token);
    if (l->error == CONCLAVE_ESASL) {
        snprintf(l->problem, sizeof l->problem, "SASL: %s", cyrus_exchange_problem(l->exchange));
    }
    atomic_store_explicit(&l->done, true, memory_order_release);
    thread_wake(l->fd);
    login_unref(l);
    return NULL;
}

int link_sasl_want(struct conclave_client *client, const char *host, struct slice challenge)
{
    if (slice_is_null(challenge)) {
        link_sasl_end(client);
        client->login = login_create(client->sasl, host);
    }
    struct link_login *l = client->login;
    if (l == NULL) {
        return CONCLAVE_ENOMEM;
    }
    assert(!l->busy);
    buf_reset(&l->challenge);
    buf_append_slice(&l->challenge, challenge);
    if (!buf_ok(&l->challenge)) {
        return CONCLAVE_ENOMEM;
    }
    atomic_store_explicit(&l->done, false, memory_order_relaxed);
    atomic_fetch_add_explicit(&l->refs, 1, memory_order_relaxed);
    pthread_t thread;
    if (thread_start(&thread, login_main, l) != 0) {
        login_unref(l);
        return CONCLAVE_EIO;
    }
    pthread_detach(thread);
    l->busy = true;
    return 0;
}

void link_sasl_end(struct conclave_client *client)
{
    if (client->login != NULL) {
        login_unref(client->login);
        client->login = NULL;
    }
}

int link_sasl_fd(const struct conclave_client *client)
{
    return client->login != NULL ? client->login->fd : -1;
}

void link_sasl_ready(struct conclave_client *client, int64_t now_ns)
{
    static const enum core_login_step STEPS[] = {
        [CYRUS_MORE] = CORE_LOGIN_MORE,
        [CYRUS_LAST] = CORE_LOGIN_LAST,
        [CYRUS_DONE] = CORE_LOGIN_DONE,
    };
    struct link_login *l = client->login;
    if (l == NULL || !l->busy || !atomic_load_explicit(&l->done, memory_order_acquire)) {
        return;
    }
    l->busy = false;
    if (client->core.link != LINK_LOGIN) {
        return; /* the session was given up meanwhile, and its link is being closed */
    }
    if (l->error == 0) {
        core_login(&client->core, STEPS[l->step], l->token, now_ns);
    } else if (l->error == CONCLAVE_ESASL) {
        core_login_failed(&client->core, now_ns);
    } else {
        core_link_down(&client->core, now_ns, l->error);
    }
}

const char *link_sasl_problem(const struct conclave_client *client)
{
    const struct link_login *l = client->login;
    return l != NULL && !l->busy && l->problem[0] != '\0' ? l->problem : NULL;
}
