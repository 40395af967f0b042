#include "front/limits/client_address.h"

#include "base/list.h"
#include "net/address.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NS_PER_SECOND = 1000000000 };

/* A session and the address that created it. */
struct origin {
    struct map_node node;
    int64_t session_id;
    struct client_address *address;
};

void client_addresses_init(struct client_addresses *a, const struct hash_key *key,
                           struct account *total)
{
    a->key = *key;
    a->total = total;
    map_init(&a->by_name);
    map_init(&a->sessions);
}

void client_addresses_finish(struct client_addresses *a)
{
    struct map_node *next;
    for (struct map_node *n = map_take_all(&a->sessions); n != NULL; n = next) {
        next = n->next;
        free(CONTAINER_OF(n, struct origin, node));
    }
    for (struct map_node *n = map_take_all(&a->by_name); n != NULL; n = next) {
        next = n->next;
        free(CONTAINER_OF(n, struct client_address, node));
    }
    map_finish(&a->sessions);
    map_finish(&a->by_name);
}

static bool address_has_name(const struct map_node *node, const void *key)
{
    const struct client_address *address =
        (const void *)((const char *)node - offsetof(struct client_address, node));
    return strcmp(address->name, key) == 0;
}

static bool origin_has_session(const struct map_node *node, const void *key)
{
    const struct origin *origin =
        (const void *)((const char *)node - offsetof(struct origin, node));
    return origin->session_id == *(const int64_t *)key;
}

struct client_address *client_address_hold(struct client_addresses *a, const char *host)
{
    char name[NET_NETWORK_MAX];
    net_network_name(host, name);
    size_t len = strlen(name);
    uint64_t hash = hash_keyed(&a->key, name, len);
    struct map_node *node = map_find(&a->by_name, hash, address_has_name, name);
    struct client_address *address;
    if (node != NULL) {
        address = CONTAINER_OF(node, struct client_address, node);
    } else {
        address = calloc(1, sizeof *address + len + 1);
        if (address == NULL || map_insert(&a->by_name, &address->node, hash) != 0) {
            free(address);
            return NULL;
        }
        memcpy(address->name, name, len);
        account_init(&address->account, a->total);
    }
    address->users++;
    return address;
}

void client_address_release(struct client_addresses *a, struct client_address *address)
{
    if (address == NULL) {
        return;
    }
    assert(address->users > 0);
    if (--address->users == 0) {
        assert(address->sockets == 0 && address->sessions == 0);
        account_finish(&address->account);
        map_remove(&a->by_name, &address->node);
        free(address);
    }
}

bool client_address_may_ask(struct client_address *address, int64_t per_second, int64_t now_ns)
{
    if (address->busy_until_ns < now_ns) {
        address->busy_until_ns = now_ns;
    }
    if (address->busy_until_ns - now_ns >= NS_PER_SECOND) {
        return false;
    }
    address->busy_until_ns += NS_PER_SECOND / per_second;
    return true;
}

int client_address_add_session(struct client_addresses *a, struct client_address *address,
                               int64_t session_id)
{
    struct origin *origin = malloc(sizeof *origin);
    if (origin == NULL ||
        map_insert(&a->sessions, &origin->node, hash_number((uint64_t)session_id)) != 0) {
        free(origin);
        return CONCLAVE_ENOMEM;
    }
    origin->session_id = session_id;
    origin->address = address;
    address->users++;
    address->sessions++;
    return 0;
}

void client_addresses_end_session(struct client_addresses *a, int64_t session_id)
{
    struct map_node *node =
        map_find(&a->sessions, hash_number((uint64_t)session_id), origin_has_session, &session_id);
    if (node == NULL) {
        return;
    }
    struct origin *origin = CONTAINER_OF(node, struct origin, node);
    map_remove(&a->sessions, node);
    assert(origin->address->sessions > 0);
    origin->address->sessions--;
    client_address_release(a, origin->address);
    free(origin);
}
