/*
 * Which servers a client uses: the given list, otherwise the one of the environment, otherwise the local server.
 */
#ifndef CLIENT_SERVER_LIST_H
#define CLIENT_SERVER_LIST_H

/* The list that applies if the caller gave `servers`; NULL: the caller gave none. An empty variable in the environment
 * counts as no list; an empty string from the caller does not. Borrowed. */
const char *server_list_text(const char *servers);

#endif
