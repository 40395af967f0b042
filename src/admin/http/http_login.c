#include "admin/http/http_login.h"

#include "base/random.h"
#include "front/service.h"
#include "net/address.h"
#include "tree/acl_rules.h"

/* Appends the ACL of "/" without the entries of world. 0 or an error. */
static int root_acl(struct service *s, struct buf *out, int32_t *ret_count)
{
    struct wire_get_acl_request question = {slice_str("/")};
    struct wire_get_acl_response answer;
    struct wire_id super = {slice_str("super"), slice_str("")};
    struct state_watch watch;
    struct buf body;
    struct buf ids;
    struct buf reply;
    buf_init(&body, 0);
    buf_init(&ids, 0);
    buf_init(&reply, 0);
    wire_encode_get_acl_request(&body, &question);
    wire_encode_id(&ids, &super);
    int rc = buf_ok(&body) && buf_ok(&ids)
                 ? state_query(s->state, WIRE_GET_ACL, wire_vector_make(&ids, 1), buf_slice(&body),
                               &reply, &watch)
                 : CONCLAVE_ENOMEM;
    if (rc == 0) {
        struct wire_reader r = wire_reader_make(buf_slice(&reply));
        rc = wire_decode_get_acl_response(&r, &answer);
    }
    struct wire_acl entry;
    *ret_count = 0;
    while (rc == 0 && wire_next_acl(&answer.acl, &entry)) {
        if (!slice_equal_str(entry.id.scheme, "world")) {
            wire_encode_acl(out, &entry);
            (*ret_count)++;
        }
    }
    buf_finish(&body);
    buf_finish(&ids);
    buf_finish(&reply);
    return rc == 0 && !buf_ok(out) ? CONCLAVE_ENOMEM : rc;
}

static bool is_super(struct wire_vector ids)
{
    struct wire_id id;
    while (wire_next_id(&ids, &id)) {
        if (slice_equal_str(id.scheme, "super")) {
            return true;
        }
    }
    return false;
}

bool admission_admits(struct service *s, struct wire_vector ids)
{
    struct buf acl;
    int32_t count;
    if (s->skip_acl || is_super(ids)) {
        return true;
    }
    buf_init(&acl, 0);
    bool admitted =
        root_acl(s, &acl, &count) == 0 && count > 0; /* an empty list would permit everything */
    for (int32_t perm = 1; admitted && perm <= WIRE_PERM_ALL; perm <<= 1) {
        admitted = acl_permits(wire_vector_make(&acl, count), ids, perm);
    }
    buf_finish(&acl);
    return admitted;
}

static unsigned admission_look(struct service *s, const struct http_request *request,
                               struct client_ids *ret, const char **ret_why)
{
    struct client_ids who;
    const char *text = request->authorization;
    size_t len = strcspn(text, " ");
    struct slice scheme = slice_make(text, len);
    struct slice auth = text[len] == ' ' ? slice_str(text + len + 1) : slice_str("");
    unsigned status = 0;
    client_ids_init(&who, s->limits.identity_max, s->limits.command.ids);
    int rc = slice_equal_str(scheme, "x509") && request->subject.len > 0
                 ? client_ids_add_x509(&who, s->x509_super, request->subject)
                 : 0;
    rc = rc != 0 ? rc : client_ids_authenticate(&who, request->peer, &s->digest, scheme, auth);
    if (rc != 0 || who.count == 0) {
        *ret_why = "Not authenticated";
        status = 401;
    } else if (!admission_admits(s, client_ids_list(&who))) {
        *ret_why = "Not authorized";
        status = 403;
    } else if (client_ids_add(&who, slice_str("ip"), slice_str(request->peer)) != 0) {
        *ret_why = "Out of memory";
        status = 500;
    }
    if (status != 0) {
        client_ids_finish(&who);
    } else {
        *ret = who;
    }
    return status;
}

/* These failures are counted per minute, but rates count per second: so their clock runs slower. */
enum { NS_PER_MS = 1000000, MINUTE_S = 60 };

void admission_init(struct admission *a)
{
    struct hash_key key;
    random_bytes(&key, sizeof key);
    rates_init(&a->failures, &key);
}

void admission_finish(struct admission *a)
{
    rates_finish(&a->failures);
}

bool admission_may_try(const struct admission *a, const char *peer, int64_t now_ms)
{
    char address[NET_NETWORK_MAX];
    net_network_name(peer, address);
    return rates_allow(&a->failures, address, 1, ADMISSION_FAILURES_MAX,
                       now_ms * (NS_PER_MS / MINUTE_S));
}

void admission_failed(struct admission *a, const char *peer, int64_t now_ms)
{
    char address[NET_NETWORK_MAX];
    net_network_name(peer, address);
    (void)rates_take(&a->failures, address, 1, ADMISSION_FAILURES_MAX,
                     now_ms * (NS_PER_MS / MINUTE_S));
}

unsigned admission_check(struct admission *a, struct service *s, const struct http_request *request,
                         int64_t now_ms, const char **ret_why)
{
    struct client_ids who;
    unsigned status = admission_identify(a, s, request, now_ms, &who, ret_why);
    if (status == 0) {
        client_ids_finish(&who);
    }
    return status;
}

unsigned admission_identify(struct admission *a, struct service *s,
                            const struct http_request *request, int64_t now_ms,
                            struct client_ids *ret, const char **ret_why)
{
    if (request->authorization == NULL) {
        *ret_why = "Auth info is missing for the command";
        return 401;
    }
    if (!admission_may_try(a, request->peer, now_ms)) {
        *ret_why = "Too many failed log-ins from your address: try again in a minute";
        return 429;
    }
    unsigned status = admission_look(s, request, ret, ret_why);
    if (status != 0) {
        admission_failed(a, request->peer, now_ms);
    }
    return status;
}

unsigned admission_check_mirror(struct admission *a, struct service *s,
                                const struct http_request *request, int64_t now_ms,
                                const char **ret_why)
{
    bool nobody = s->digest.super == NULL && s->x509_super == NULL;
    if (!nobody || request->authorization != NULL) {
        return admission_check(a, s, request, now_ms, ret_why);
    }
    if (!http_is_own_user(request)) {
        *ret_why =
            "There is no superuser: run this on the server's machine, as the server's user or root, or set "
            "superDigest on the servers";
        return 401;
    }
    return 0;
}
