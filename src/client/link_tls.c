#include "client/link_tls.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FILL_MAX = 64 * 1024, /* encrypted at once; the rest waits unencrypted, in one copy */
    ROOM = 16 * 1024,     /* one TLS record */
};

static void link_tls_tell(const struct conclave_tls_options *o, const char *why)
{
    if (o->error != NULL && o->error_len > 0) {
        snprintf(o->error, o->error_len, "%s", why);
    }
}

static int link_tls_create(struct conclave_client *client, const struct conclave_tls_options *o)
{
    char why[TLS_TEXT_MAX];
    struct tls_settings settings = {
        .peer = o->verify == CONCLAVE_TLS_VERIFY_NONE ? TLS_PEER_NONE : TLS_PEER_NEED,
        .cert_file = o->cert_file,
        .key_file = o->key_file,
        .cert_password = o->key_password,
        .trust_file = o->ca_file,
        .trust_password = o->ca_password,
    };
    if (o->cert_file == NULL && o->key_file != NULL) {
        link_tls_tell(o, "there is a key without a certificate: name both");
        return CONCLAVE_ETLS;
    }
    int rc = tls_context_create(&settings, &client->tls_context, why);
    if (rc == CONCLAVE_EINVAL) {
        link_tls_tell(o, why);
        return CONCLAVE_ETLS;
    }
    return rc;
}

int link_tls_open(struct conclave_client *client, const struct conclave_tls_options *o)
{
    /* As with the client's options: an older program passes a shorter struct. */
    struct conclave_tls_options mine = {0};
    size_t least = offsetof(struct conclave_tls_options, ca_file);
    if (o == NULL) {
        return 0;
    }
    if (o->size < least || o->size > sizeof mine) {
        return CONCLAVE_EINVAL;
    }
    memcpy(&mine, o, o->size);
    client->tls_own_cert = mine.cert_file != NULL;
    client->tls_verify_host = mine.verify == CONCLAVE_TLS_VERIFY_FULL;
    if (mine.server_name != NULL) {
        client->tls_name = strdup(mine.server_name);
        if (client->tls_name == NULL) {
            return CONCLAVE_ENOMEM;
        }
    }
    return link_tls_create(client, &mine);
}

void link_tls_close(struct conclave_client *client)
{
    link_tls_end(client);
    tls_context_release(client->tls_context);
    client->tls_context = NULL;
    free(client->tls_name);
    client->tls_name = NULL;
}

int link_tls_begin(struct conclave_client *client, const char *host)
{
    const char *name = client->tls_name != NULL ? client->tls_name : host;
    assert(client->tls == NULL);
    client->tls = tls_create(client->tls_context, name, client->tls_verify_host);
    return client->tls != NULL ? 0 : CONCLAVE_ENOMEM;
}

void link_tls_end(struct conclave_client *client)
{
    tls_destroy(client->tls);
    client->tls = NULL;
}

/* One step of the handshake; no stream data may come before its end, because servers do not speak first. */
static int link_tls_shake(struct conclave_client *client, struct slice *bytes, int64_t now_ns)
{
    assert(client->tls != NULL && client->core.link == LINK_NONE);
    uint8_t room[1];
    size_t len = 0;
    int rc = tls_read(client->tls, bytes, room, sizeof room, &len);
    if (rc == 0 && len > 0) {
        return CONCLAVE_EPROTO;
    }
    if (rc == 0 && tls_ready(client->tls)) {
        loop_connected(client, now_ns);
    }
    return rc == CONCLAVE_ECLOSED ? CONCLAVE_EDISCONNECTED : rc;
}

int link_tls_received(struct conclave_client *client, struct slice bytes, int64_t now_ns)
{
    struct core *core = &client->core;
    if (client->connecting) {
        int rc = link_tls_shake(client, &bytes, now_ns);
        if (rc != 0 || client->connecting) {
            return rc;
        }
    }
    size_t len = 1;
    while (len > 0 && core->link != LINK_NONE) {
        uint8_t *room;
        size_t room_len;
        if (core_input(core, ROOM, &room, &room_len) != 0) {
            return CONCLAVE_ENOMEM;
        }
        int rc = tls_read(client->tls, &bytes, room, room_len, &len);
        if (rc != 0) {
            return rc == CONCLAVE_ECLOSED ? CONCLAVE_EDISCONNECTED : rc;
        }
        if (len > 0) {
            core_received(core, len, now_ns);
        }
    }
    return 0;
}

int link_tls_fill(struct conclave_client *client)
{
    struct slice out = core_output(&client->core);
    if (client->connecting || out.len == 0 || tls_out(client->tls)->len > 0) {
        return 0;
    }
    if (out.len > FILL_MAX) {
        out.len = FILL_MAX;
    }
    assert(client->core.link != LINK_NONE);
    int rc = tls_write(client->tls, out);
    if (rc == 0) {
        core_sent(&client->core, out.len);
    }
    return rc;
}

const char *link_tls_problem(const struct conclave_client *client)
{
    bool failed = client->tls != NULL && tls_problem(client->tls)[0] != '\0';
    return failed ? tls_problem(client->tls) : NULL;
}
