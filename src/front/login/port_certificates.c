#include "front/login/port_certificates.h"

#include "base/log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    WATCH_MS = 2000,
    FILES = 4,
};

/* Values that change when the content of a file changes. */
struct stamp {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct port_certificates {
    uv_timer_t timer;
    struct tls_settings settings;
    const char *files[FILES]; /* NULL: none */
    struct stamp loaded[FILES];
    struct stamp
        seen[FILES]; /* at the last look: files are read only after they have stopped changing */
    int64_t until_s;
    port_certificates_fn fn;
    void *ctx;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

/* A missing file is a state like any other. */
static void secure_look(const struct port_certificates *s, struct stamp stamps[FILES])
{
    memset(stamps, 0, FILES * sizeof stamps[0]);
    for (size_t i = 0; i < FILES; i++) {
        struct stat st;
        if (s->files[i] != NULL && stat(s->files[i], &st) == 0) {
            stamps[i].device = st.st_dev;
            stamps[i].inode = st.st_ino;
            stamps[i].size = st.st_size;
            stamps[i].changed = st.st_mtim;
        }
    }
}

static bool stamps_equal(const struct stamp a[FILES], const struct stamp b[FILES])
{
    return memcmp(a, b, FILES * sizeof a[0]) == 0;
}

static int secure_load(struct port_certificates *s, char why[TLS_TEXT_MAX])
{
    struct tls_context *context = NULL;
    /* Look before reading: a change in between shows at the next look. */
    secure_look(s, s->loaded);
    memcpy(s->seen, s->loaded, sizeof s->seen);
    int rc = tls_context_create(&s->settings, &context, why);
    if (rc == 0) {
        log_info("server", "certificates-loaded", "%s", tls_context_describe(context));
        s->until_s = tls_context_until_s(context);
        s->fn(s->ctx, context);
        tls_context_release(context);
    }
    return rc;
}

int64_t port_certificates_until_s(const struct port_certificates *s)
{
    return s->until_s;
}

int port_certificates_reload(struct port_certificates *s, char **ret_text)
{
    char why[TLS_TEXT_MAX] = "out of memory";
    int rc = secure_load(s, why);
    if (rc != 0) {
        *ret_text = strdup(why);
        log_error_advice("server", "certificates-not-loaded",
                         "correct the certificate files, then send SIGHUP",
                         "reason=\"%s\" effect=\"the old certificates stay in use\"", why);
    }
    return rc;
}

static void secure_on_timer(uv_timer_t *timer)
{
    struct port_certificates *s = timer->data;
    struct stamp now[FILES];
    secure_look(s, now);
    bool rest = stamps_equal(now, s->seen);
    memcpy(s->seen, now, sizeof now);
    if (rest && !stamps_equal(now, s->loaded)) {
        char *text = NULL;
        if (port_certificates_reload(s, &text) != 0) {
            free(text); /* it is in the log */
        }
    }
}

int port_certificates_open(uv_loop_t *loop, const struct tls_settings *settings, bool watch,
                           port_certificates_fn fn, void *ctx, struct port_certificates **ret,
                           char **ret_text)
{
    char why[TLS_TEXT_MAX] = "out of memory";
    struct port_certificates *s = calloc(1, sizeof *s);
    int rc = CONCLAVE_ENOMEM;
    if (s != NULL) {
        s->settings = *settings;
        s->files[0] = settings->cert_file;
        s->files[1] = settings->key_file;
        s->files[2] = settings->trust_file;
        s->files[3] = settings->crl_file;
        s->fn = fn;
        s->ctx = ctx;
        rc = secure_load(s, why);
    }
    if (rc != 0) {
        *ret_text = strdup(why);
        free(s);
        return rc;
    }
    /* Both calls allocate nothing and cannot fail. */
    if (uv_timer_init(loop, &s->timer) != 0 ||
        (watch && uv_timer_start(&s->timer, secure_on_timer, WATCH_MS, WATCH_MS) != 0)) {
        abort();
    }
    s->timer.data = s;
    *ret = s;
    return 0;
}

static void secure_on_closed(uv_handle_t *handle)
{
    struct port_certificates *s = handle->data;
    if (s->closed != NULL) {
        s->closed(s->closed_ctx);
    }
    free(s);
}

void port_certificates_close(struct port_certificates *s, void (*cb)(void *ctx), void *ctx)
{
    if (s == NULL) {
        return;
    }
    assert(!uv_is_closing((uv_handle_t *)&s->timer));
    s->closed = cb;
    s->closed_ctx = ctx;
    uv_close((uv_handle_t *)&s->timer, secure_on_closed);
}
