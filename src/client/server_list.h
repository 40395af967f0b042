/*
 * Which servers a client uses: the list that it was given, else that of the environment, else the local server.
 */
#ifndef CLIENT_SERVER_LIST_H
#define CLIENT_SERVER_LIST_H

/* The list that applies when a caller gave `servers`; NULL: the caller gave none. An empty variable in the environment
 * counts as no list, an empty string of the caller does not. Borrowed. */
const char *server_list_text(const char *servers);

#endif
