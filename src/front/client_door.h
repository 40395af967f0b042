/* The listening ports of a server for its clients. */
#ifndef FRONT_CLIENT_DOOR_H
#define FRONT_CLIENT_DOOR_H

enum client_door {
    PORT_CLIENT, /* plain, or plain and TLS */
    PORT_SECURE, /* TLS only */
    PORT_DOORS,
};

#endif
