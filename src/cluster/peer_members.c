#include "cluster/peer_members.h"

#include "front/server_line.h"

#include <stdlib.h>

int peer_members_set(struct peers *peers, const struct configuration_member *members, size_t count,
                     const struct configuration_member *configured, size_t n_configured)
{
    size_t most = count + n_configured;
    struct peer_member *list = calloc(most + 1, sizeof *list);
    struct server_line *lines = calloc(most + 1, sizeof *lines);
    const char *why = NULL;
    size_t k = 0;
    for (size_t i = 0; list != NULL && lines != NULL && i < most; i++) {
        const struct configuration_member *m = i < count ? &members[i] : &configured[i - count];
        if (i >= count && configuration_find(members, count, m->id) != NULL) {
            continue;
        }
        /* A snapshot of a server that was alone does not know its address, but the file does. */
        const struct configuration_member *f = configuration_find(configured, n_configured, m->id);
        if (server_line_parse(m->address, &lines[k], &why) == 0 ||
            (f != NULL && server_line_parse(f->address, &lines[k], &why) == 0)) {
            list[k] = (struct peer_member){m->id, lines[k].hosts, lines[k].n_hosts};
            k++;
        }
    }
    int rc = list == NULL || lines == NULL ? CONCLAVE_ENOMEM : peers_set_members(peers, list, k);
    for (size_t i = 0; lines != NULL && i < k; i++) {
        server_line_finish(&lines[i]);
    }
    free(lines);
    free(list);
    return rc;
}
