/*
 * The server list for programs and commands, in one block of memory: the struct, the pointers to the addresses, the
 * addresses, and the text whose end is the chroot.
 */
#include "client/server_list.h"

#include "client/core/hosts.h"

#include <conclave/servers.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SERVER_LIST_ADDRESS_LEN = HOST_NAME_LEN + sizeof "[]:65535" };

const char *server_list_text(const char *servers)
{
    if (servers != NULL) {
        return servers;
    }
    const char *environment = getenv("CONCLAVE_SERVER");
    return environment != NULL && environment[0] != '\0' ? environment : "127.0.0.1:2181";
}

static struct conclave_server_list *server_list_create(const struct hosts *hosts, const char *text)
{
    size_t pointers = hosts->count * sizeof(char *);
    size_t addresses = hosts->count * SERVER_LIST_ADDRESS_LEN;
    struct conclave_server_list *list =
        malloc(sizeof *list + pointers + addresses + strlen(text) + 1);
    if (list == NULL) {
        return NULL;
    }
    char **pointer = (char **)(list + 1);
    char *address = (char *)(list + 1) + pointers;
    char *copy = memcpy(address + addresses, text, strlen(text) + 1);
    const char *slash = strchr(copy, '/');
    *list = (struct conclave_server_list){
        .text = copy,
        .addresses = (const char *const *)pointer,
        .count = hosts->count,
        .chroot = slash != NULL && slash[1] != '\0' ? slash : "",
    };
    for (size_t i = 0; i < hosts->count; i++, address += SERVER_LIST_ADDRESS_LEN) {
        bool v6 = strchr(hosts->list[i].name, ':') != NULL;
        snprintf(address, SERVER_LIST_ADDRESS_LEN, v6 ? "[%s]:%u" : "%s:%u", hosts->list[i].name,
                 (unsigned)hosts->list[i].port);
        pointer[i] = address;
    }
    assert(address == copy);
    return list;
}

int conclave_server_list_parse(const char *servers, struct conclave_server_list **ret)
{
    const char *text = server_list_text(servers);
    struct hosts hosts;
    char *chroot = NULL;
    int rc = hosts_parse_in_order(&hosts, text, &chroot);
    if (rc != 0) {
        return rc;
    }
    struct conclave_server_list *list = server_list_create(&hosts, text);
    hosts_finish(&hosts);
    free(chroot);
    if (list == NULL) {
        return CONCLAVE_ENOMEM;
    }
    *ret = list;
    return 0;
}

void conclave_server_list_free(struct conclave_server_list *list)
{
    free(list);
}
