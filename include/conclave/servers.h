/*
 * The list of servers of a client, for programs that show it or connect to the servers themselves.
 */
#ifndef CONCLAVE_SERVERS_H
#define CONCLAVE_SERVERS_H

#include <conclave/error.h>

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A parsed list of servers. */
struct conclave_server_list {
    const char *text; /* as it was written */
    const char *const
        *addresses;     /* "host:port" or "[IPv6 address]:port", in the order of the text */
    size_t count;       /* of addresses; at least one */
    const char *chroot; /* "/a/b": the node below which all paths of a client are; "": none */
};

/* Parses the list that a client with these servers uses, "host[:port],host[:port]...[/chroot]".
 * NULL: the list in the environment variable CONCLAVE_SERVER; if that is unset or empty,
 * "127.0.0.1:2181". Resolves no name. 0 and *ret, to be freed with conclave_server_list_free;
 * CONCLAVE_EINVAL (malformed, or ""), CONCLAVE_ENOMEM. */
CONCLAVE_API int conclave_server_list_parse(const char *servers,
                                            struct conclave_server_list **ret) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_server_list_free(struct conclave_server_list *list);

#ifdef __cplusplus
}
#endif
#endif
