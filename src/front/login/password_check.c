#include "front/login/password_check.h"

#include "base/log.h"
#include "base/random.h"
#include "front/login/user_file.h"
#include "tls/scrypt.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
    WAITING_MAX = 64, /* waiting passwords: some seconds of work for the thread */
    NICE = 5,         /* nice value of the thread: consensus goes first */
    FILE_MAX = 1 << 20,
    TEXT_MAX = 512,
};

/* For an unknown name this hash is computed, so that the time does not reveal which names exist. */
#define NOBODY                                                                                     \
    "$scrypt$ln=15,r=8,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

struct password_checker {
    struct worker worker;
    char *path;
    struct user_file users;
    uint8_t key[32]; /* key of the proofs, random in each process */
    size_t waiting;
    void (*closed)(void *ctx);
    void *closed_ctx;
};

struct password_check {
    struct worker_job job;
    struct password_checker *verifier;
    verified_fn fn; /* NULL: dropped */
    void *ctx;
    char hash[SCRYPT_TEXT_MAX];
    bool known; /* the user exists */
    uint8_t proof[32];
    int rc;
    size_t name_len;
    size_t len;
    char text[]; /* user:password */
};

static struct slice verification_name(const struct password_check *x)
{
    return slice_make(x->text, x->name_len);
}

static bool verifier_prove(const struct password_checker *v, struct slice user_password,
                           uint8_t ret[32])
{
    unsigned int len = 0;
    return HMAC(EVP_sha256(), v->key, sizeof v->key, user_password.data, user_password.len, ret,
                &len) != NULL;
}

/* The file */

static int verifier_fail(char **ret_text, const char *path, unsigned line, const char *why)
{
    char text[TEXT_MAX];
    if (line > 0) {
        snprintf(text, sizeof text, "digest.users.file %s line %u: %s", path, line, why);
    } else {
        snprintf(text, sizeof text, "digest.users.file %s: %s", path, why);
    }
    *ret_text = strdup(text);
    return *ret_text != NULL ? CONCLAVE_EINVAL : CONCLAVE_ENOMEM;
}

static int verifier_read(const char *path, struct user_file *ret, char **ret_text)
{
    char block[4096];
    struct stat st;
    struct buf text;
    size_t n;
    unsigned line = 0;
    const char *why = "";
    FILE *file = fopen(path, "re");
    if (file == NULL || fstat(fileno(file), &st) != 0) {
        int rc = verifier_fail(ret_text, path, 0, strerror(errno));
        if (file != NULL) {
            (void)fclose(file);
        }
        return rc;
    }
    buf_init(&text, FILE_MAX);
    while (S_ISREG(st.st_mode) && buf_ok(&text) && (n = fread(block, 1, sizeof block, file)) > 0) {
        buf_append(&text, block, n);
    }
    int rc = 0;
    if (ferror(file) || !S_ISREG(st.st_mode)) {
        rc = verifier_fail(ret_text, path, 0, "cannot be read");
    } else if ((st.st_mode & 077) != 0) {
        rc = verifier_fail(ret_text, path, 0, "other users can access it: run chmod 600");
    } else if (!buf_ok(&text)) {
        rc = verifier_fail(ret_text, path, 0, "larger than 1 MiB");
    }
    (void)fclose(file);
    if (rc == 0) {
        rc = user_file_parse(buf_slice(&text), ret, &line, &why);
        rc = rc == CONCLAVE_EINVAL ? verifier_fail(ret_text, path, line, why) : rc;
    }
    buf_finish(&text);
    return rc;
}

int password_checker_reload(struct password_checker *v, char **ret_text)
{
    struct user_file users;
    int rc = verifier_read(v->path, &users, ret_text);
    if (rc != 0) {
        log_error_advice("server", "users-not-loaded",
                         "correct the file of users, then send SIGHUP",
                         "reason=\"%s\" effect=\"the old users stay valid\"",
                         *ret_text != NULL ? *ret_text : conclave_strerror(rc));
        return rc;
    }
    for (size_t i = 0; i < users.count; i++) {
        const struct user *old = user_file_find(&v->users, slice_str(users.rows[i].name));
        if (old != NULL && old->proved && strcmp(old->hash, users.rows[i].hash) == 0) {
            users.rows[i].proved = true;
            memcpy(users.rows[i].proof, old->proof, sizeof old->proof);
        }
    }
    user_file_finish(&v->users);
    v->users = users;
    log_info("server", "users-loaded", "count=%zu", users.count);
    return 0;
}

/* Open and close */

int password_checker_open(uv_loop_t *loop, const char *path, struct password_checker **ret,
                          char **ret_text)
{
    const struct worker_options options = {.threads = 1, .nice = NICE};
    struct password_checker *v = calloc(1, sizeof *v);
    if (v == NULL || (v->path = strdup(path)) == NULL) {
        free(v);
        return CONCLAVE_ENOMEM;
    }
    random_bytes(v->key, sizeof v->key);
    int rc = verifier_read(path, &v->users, ret_text);
    if (rc == 0) {
        rc = worker_init(&v->worker, loop, &options);
    }
    if (rc != 0) {
        user_file_finish(&v->users);
        free(v->path);
        free(v);
        return rc;
    }
    *ret = v;
    return 0;
}

static void verifier_on_worker_closed(void *ctx)
{
    struct password_checker *v = ctx;
    void (*closed)(void *ctx) = v->closed;
    void *closed_ctx = v->closed_ctx;
    assert(v->waiting == 0);
    user_file_finish(&v->users);
    OPENSSL_cleanse(v->key, sizeof v->key);
    free(v->path);
    free(v);
    closed(closed_ctx);
}

/* If the thread still checks passwords, the last one completes the close. */
static void verifier_check_over(struct password_checker *v)
{
    if (v->closed != NULL && v->waiting == 0) {
        worker_close(&v->worker, verifier_on_worker_closed, v);
    }
}

void password_checker_close(struct password_checker *v, void (*cb)(void *ctx), void *ctx)
{
    if (v != NULL) {
        assert(v->closed == NULL);
        v->closed = cb;
        v->closed_ctx = ctx;
        verifier_check_over(v);
    }
}

/* A password */

static void verification_work(struct worker_job *job)
{
    struct password_check *x = CONTAINER_OF(job, struct password_check, job);
    size_t skip = x->name_len + (x->name_len < x->len);
    assert(skip <= x->len);
    int rc = scrypt_check(x->hash, slice_make(x->text + skip, x->len - skip));
    x->rc = rc == 0 && !x->known ? CONCLAVE_AUTH_FAILED : rc;
}

static void verification_done(struct worker_job *job)
{
    struct password_check *x = CONTAINER_OF(job, struct password_check, job);
    struct password_checker *v = x->verifier;
    struct user *user = user_file_find(&v->users, verification_name(x));
    if (x->rc == 0 && user != NULL && strcmp(user->hash, x->hash) == 0) {
        memcpy(user->proof, x->proof, sizeof user->proof);
        user->proved = true;
    } else if (x->rc == 0) {
        x->rc = CONCLAVE_AUTH_FAILED; /* the user was removed or has another password */
    }
    assert(v->waiting > 0);
    v->waiting--;
    verified_fn fn = x->fn;
    void *ctx = x->ctx;
    int rc = x->rc;
    OPENSSL_cleanse(x->text, x->len);
    free(x);
    if (fn != NULL) {
        fn(ctx, rc);
    }
    verifier_check_over(v);
}

enum password_answer password_checker_begin(struct password_checker *v, struct slice user_password,
                                            verified_fn fn, void *ctx, struct password_check **ret)
{
    uint8_t proof[32];
    const uint8_t *colon =
        user_password.len == 0 ? NULL : memchr(user_password.data, ':', user_password.len);
    size_t name_len = colon != NULL ? (size_t)(colon - user_password.data) : user_password.len;
    struct user *user = user_file_find(&v->users, slice_make(user_password.data, name_len));
    if (!verifier_prove(v, user_password, proof)) {
        return VERIFIER_BUSY;
    }
    if (user != NULL && user->proved && CRYPTO_memcmp(user->proof, proof, sizeof proof) == 0) {
        return VERIFIED;
    }
    struct password_check *x =
        v->waiting < WAITING_MAX ? calloc(1, sizeof *x + user_password.len) : NULL;
    if (x == NULL) {
        return VERIFIER_BUSY;
    }
    x->job = (struct worker_job){.work = verification_work, .done = verification_done};
    x->verifier = v;
    x->fn = fn;
    x->ctx = ctx;
    x->known = user != NULL;
    snprintf(x->hash, sizeof x->hash, "%s", user != NULL ? user->hash : NOBODY);
    memcpy(x->proof, proof, sizeof proof);
    x->name_len = name_len;
    x->len = user_password.len;
    if (user_password.len > 0) {
        memcpy(x->text, user_password.data, user_password.len);
    }
    assert(v->waiting < WAITING_MAX && v->closed == NULL);
    v->waiting++;
    worker_submit(&v->worker, &x->job);
    *ret = x;
    return VERIFYING;
}

void password_check_drop(struct password_check *x)
{
    if (x != NULL) {
        assert(x->fn != NULL); /* one holder, which drops it once */
        x->fn = NULL;
    }
}
