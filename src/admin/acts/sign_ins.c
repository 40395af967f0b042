#include "admin/acts/sign_ins.h"

#include "base/random.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

/* In constant time, so that the time does not show how much of a secret is correct. */
static bool secret_equal(const char *secret, const char *text, size_t len)
{
    assert(strlen(secret) == SIGN_IN_SECRET - 1);
    return len == SIGN_IN_SECRET - 1 && CRYPTO_memcmp(secret, text, len) == 0;
}

void sign_ins_init(struct sign_ins *s)
{
    *s = (struct sign_ins){.cookie_name = "conclave-"};
    size_t len = strlen(s->cookie_name);
    random_text(s->cookie_name + len, 6);
}

void sign_in_end(struct sign_in *n)
{
    assert(n->used);
    client_ids_finish(&n->ids);
    *n = (struct sign_in){0};
}

void sign_ins_clear(struct sign_ins *s)
{
    for (size_t i = 0; i < SIGN_INS_MAX; i++) {
        if (s->rows[i].used) {
            sign_in_end(&s->rows[i]);
        }
    }
}

void sign_ins_finish(struct sign_ins *s)
{
    sign_ins_clear(s);
}

static bool sign_in_is_over(const struct sign_in *n, int64_t now_ms)
{
    assert(n->begun_ms <= n->acted_ms);
    return now_ms - n->acted_ms >= SIGN_IN_IDLE_MS || now_ms - n->begun_ms >= SIGN_IN_MAX_MS;
}

/* A free place for this address; NULL: there is none. */
static struct sign_in *sign_ins_place(struct sign_ins *s, const char *address, int64_t now_ms)
{
    struct sign_in *unused = NULL;
    struct sign_in *oldest = NULL;
    size_t own = 0;
    for (size_t i = 0; i < SIGN_INS_MAX; i++) {
        struct sign_in *n = &s->rows[i];
        if (n->used && sign_in_is_over(n, now_ms)) {
            sign_in_end(n);
        }
        if (!n->used) {
            unused = n;
        } else if (strcmp(n->address, address) == 0) {
            own++;
            oldest = oldest == NULL || n->acted_ms < oldest->acted_ms ? n : oldest;
        }
    }
    if (own < SIGN_INS_ADDRESS_MAX && unused != NULL) {
        return unused;
    }
    if (oldest != NULL) {
        sign_in_end(oldest);
    }
    return oldest;
}

struct sign_in *sign_ins_add(struct sign_ins *s, const char *peer, struct client_ids *ids_take,
                             int64_t now_ms)
{
    char address[NET_NETWORK_MAX];
    net_network_name(peer, address);
    struct sign_in *n = sign_ins_place(s, address, now_ms);
    if (n == NULL) {
        return NULL;
    }
    assert(!n->used);
    *n = (struct sign_in){.used = true, .ids = *ids_take, .begun_ms = now_ms, .acted_ms = now_ms};
    *ids_take = (struct client_ids){0};
    memcpy(n->address, address, sizeof address);
    random_text(n->cookie, SIGN_IN_SECRET / 2);
    random_text(n->key, SIGN_IN_SECRET / 2);
    return n;
}

/* The value of a cookie in "a=b; c=d"; null: it is not there. */
static struct slice cookie_value(const char *cookies, const char *name)
{
    size_t len = strlen(name);
    for (const char *at = cookies; at != NULL && *at != '\0';) {
        at += strspn(at, "; ");
        size_t whole = strcspn(at, "; ");
        if (whole > len && strncmp(at, name, len) == 0 && at[len] == '=') {
            return slice_make(at + len + 1, whole - len - 1);
        }
        at += whole;
    }
    return SLICE_NULL;
}

struct sign_in *sign_ins_find(struct sign_ins *s, const char *cookies, const char *peer,
                              int64_t now_ms)
{
    char address[NET_NETWORK_MAX];
    struct slice cookie = cookie_value(cookies, s->cookie_name);
    net_network_name(peer, address);
    for (size_t i = 0; i < SIGN_INS_MAX; i++) {
        struct sign_in *n = &s->rows[i];
        if (n->used && secret_equal(n->cookie, (const char *)cookie.data, cookie.len) &&
            strcmp(n->address, address) == 0) {
            if (!sign_in_is_over(n, now_ms)) {
                return n;
            }
            sign_in_end(n);
        }
    }
    return NULL;
}

bool sign_in_proves(const struct sign_in *n, const char *key)
{
    assert(n->used);
    return key != NULL && secret_equal(n->key, key, strlen(key));
}

void sign_in_use(struct sign_in *n, int64_t now_ms)
{
    assert(n->used && n->acted_ms <= now_ms);
    n->acted_ms = now_ms;
}
