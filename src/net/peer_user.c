#include "net/peer_user.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { END_MAX = 8 * 4 + 1 + 4 + 1, LINE_MAX_BYTES = 512 };

/* An end in the form of that file: the words of the address as the machine stores them, then the port. */
static bool write_end(const struct net_address *a, int family, char ret[END_MAX])
{
    uint32_t words[4];
    size_t count = family == AF_INET ? 1 : 4;
    if (inet_pton(family, a->host, words) != 1) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(ret + 8 * i, 9, "%08X", words[i]);
    }
    (void)snprintf(ret + 8 * count, 6, ":%04X", a->port);
    return true;
}

bool peer_user_is_own(const struct net_address *peer, const struct net_address *own)
{
    int family = strchr(peer->host, ':') == NULL ? AF_INET : AF_INET6;
    char ends[2][END_MAX];
    char line[LINE_MAX_BYTES];
    char from[END_MAX];
    char to[END_MAX];
    unsigned uid;
    bool is_own = false;
    if (!write_end(peer, family, ends[0]) || !write_end(own, family, ends[1])) {
        return false;
    }
    FILE *file = fopen(family == AF_INET ? "/proc/net/tcp" : "/proc/net/tcp6", "re");
    while (file != NULL && !is_own && fgets(line, sizeof line, file) != NULL) {
        /* NOLINTNEXTLINE(cert-err34-c): the kernel writes numbers */
        is_own = sscanf(line, "%*s %37s %37s %*s %*s %*s %*s %u", from, to, &uid) == 3 &&
                 strcmp(from, ends[0]) == 0 && strcmp(to, ends[1]) == 0 &&
                 (uid == 0 || uid == geteuid());
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return is_own;
}
