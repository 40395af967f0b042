#include "cluster/links/peer_hello.h"

#include "base/endian.h"

#include <string.h>

enum {
    MAGIC_SIZE = 8,
    IDENTITY_SIZE = PEER_CLUSTER_SIZE + 1,
    HELLO_FIXED = 8 + 2 + PEER_CLUSTER_SIZE + 8 + 8 + 1 + 8 + 1,
};

const char *hello_reason_text(unsigned reason)
{
    static const char *const texts[] = {
#define HELLO_REASON_TEXT(name, text) text,
        HELLO_REASON_MAP(HELLO_REASON_TEXT)
#undef HELLO_REASON_TEXT
    };
    return reason < HELLO_REASONS ? texts[reason] : "a reason that this version does not know";
}

int frame_take(struct slice *bytes, size_t max, struct peer_frame *ret)
{
    if (bytes->len < sizeof(uint32_t)) {
        return 0;
    }
    size_t len = get_be32(bytes->data);
    if (len < 1 || len - 1 > max) {
        return CONCLAVE_EPROTO;
    }
    if (bytes->len - sizeof(uint32_t) < len) {
        return 0;
    }
    ret->channel = bytes->data[sizeof(uint32_t)];
    ret->bytes = slice_make(bytes->data + FRAME_HEADER, len - 1);
    bytes->data += sizeof(uint32_t) + len;
    bytes->len -= sizeof(uint32_t) + len;
    return 1;
}

void frame_append_header(struct buf *out, uint8_t channel, size_t n)
{
    uint8_t header[FRAME_HEADER];
    put_be32(header, (uint32_t)(n + 1));
    header[FRAME_HEADER - 1] = channel;
    buf_append(out, header, sizeof header);
}

static void control_append(struct buf *out, enum control kind, const void *bytes, size_t len)
{
    frame_append_header(out, 0, 1 + len);
    buf_append_u8(out, (uint8_t)kind);
    buf_append(out, bytes, len);
}

void hello_append(struct buf *out, const struct hello *h)
{
    uint8_t bytes[HELLO_FIXED + NET_HOST_MAX];
    uint8_t *at = bytes;
    size_t host = strlen(h->host);
    put_be64(at, HELLO_MAGIC);
    at += MAGIC_SIZE;
    *at++ = (uint8_t)(h->version >> 8);
    *at++ = (uint8_t)h->version;
    memcpy(at, h->from.cluster, PEER_CLUSTER_SIZE);
    at += PEER_CLUSTER_SIZE;
    put_be64(at, h->from.id);
    put_be64(at + 8, h->to);
    at += 16;
    *at++ = (uint8_t)h->from.age;
    put_be64(at, h->nonce);
    at += 8;
    *at++ = (uint8_t)host; /* a host is shorter than NET_HOST_MAX */
    memcpy(at, h->host, host);
    control_append(out, CONTROL_HELLO, bytes, HELLO_FIXED + host);
}

void age_append(struct buf *out, const struct peer_identity *identity)
{
    uint8_t bytes[IDENTITY_SIZE];
    memcpy(bytes, identity->cluster, PEER_CLUSTER_SIZE);
    bytes[PEER_CLUSTER_SIZE] = (uint8_t)identity->age;
    control_append(out, CONTROL_AGE, bytes, sizeof bytes);
}

void refuse_append(struct buf *out, enum hello_reason reason)
{
    uint8_t byte = (uint8_t)reason;
    control_append(out, CONTROL_REFUSE, &byte, 1);
}

void ping_append(struct buf *out)
{
    control_append(out, CONTROL_PING, "", 0);
}

unsigned control_kind(struct slice bytes, struct slice *ret_rest)
{
    if (bytes.len == 0) {
        return 0;
    }
    *ret_rest = slice_make(bytes.data + 1, bytes.len - 1);
    return bytes.data[0];
}

static bool cluster_is_zero(const uint8_t cluster[PEER_CLUSTER_SIZE])
{
    static const uint8_t zero[PEER_CLUSTER_SIZE];
    return memcmp(cluster, zero, sizeof zero) == 0;
}

/* A server without data has no cluster, a server with data has one, and a server that lost its data may know its cluster. */
static int identity_read(const uint8_t *cluster, uint8_t age, struct peer_identity *ret)
{
    bool without = age == PEER_FRESH || age == PEER_IMPORTING;
    if (age > PEER_IMPORTING || (age != PEER_LOST && cluster_is_zero(cluster) != without)) {
        return CONCLAVE_EPROTO;
    }
    memcpy(ret->cluster, cluster, PEER_CLUSTER_SIZE);
    ret->age = (enum peer_age)age;
    return 0;
}

int hello_read(struct slice rest, struct hello *ret)
{
    const uint8_t *at = rest.data;
    struct hello h = {0};
    if (rest.len < MAGIC_SIZE + 2 || get_be64(at) != HELLO_MAGIC) {
        return CONCLAVE_EPROTO;
    }
    at += MAGIC_SIZE;
    h.version = (uint16_t)(at[0] << 8 | at[1]);
    at += 2;
    if (h.version != HELLO_VERSION) {
        *ret = h;
        return 0;
    }
    size_t host = rest.len >= HELLO_FIXED ? rest.data[HELLO_FIXED - 1] : 0;
    if (rest.len < HELLO_FIXED || rest.len != HELLO_FIXED + host) {
        return CONCLAVE_EPROTO;
    }
    const uint8_t *cluster = at;
    at += PEER_CLUSTER_SIZE;
    h.from.id = get_be64(at);
    h.to = get_be64(at + 8);
    at += 16;
    int rc = identity_read(cluster, *at, &h.from);
    h.nonce = get_be64(at + 1);
    memcpy(h.host, rest.data + HELLO_FIXED, host);
    if (rc != 0 || h.from.id == 0 || strlen(h.host) != host) {
        return CONCLAVE_EPROTO;
    }
    *ret = h;
    return 0;
}

int age_read(struct slice rest, struct peer_identity *ret)
{
    return rest.len == IDENTITY_SIZE ? identity_read(rest.data, rest.data[PEER_CLUSTER_SIZE], ret)
                                     : CONCLAVE_EPROTO;
}

int refuse_read(struct slice rest, unsigned *ret_reason)
{
    if (rest.len != 1) {
        return CONCLAVE_EPROTO;
    }
    *ret_reason = rest.data[0];
    return 0;
}
