/*
 * What a member of `conclave switch` says of itself in the elector's nodes: where it is to be found, so that others can
 * fence it. And what operators ask of members.
 *
 * The address is lines "host=...", "port=...", an empty line and the user's text; in Hadoop's layout the
 * messages of conclave/hadoop.h. A request is lines "name=value". Pure.
 */
#ifndef CLI_SWITCH_MEMBER_DESCRIPTION_H
#define CLI_SWITCH_MEMBER_DESCRIPTION_H

#include "base/buf.h"

#include <conclave/elector.h>
#include <conclave/hadoop.h>

enum { CARD_NAME_MAX = 256, SERVICE_MAX = 4096 };

/* --- the address --- */

enum address_form { ADDRESS_NATIVE, ADDRESS_HDFS, ADDRESS_YARN };

struct address {
    char id[CARD_NAME_MAX]; /* in Hadoop's messages, "" in the native layout */
    char host[CARD_NAME_MAX];
    int port;            /* 0: none */
    struct slice data;   /* the user's text, in what was read; all of it where it is of others */
    const char *service; /* written in Hadoop's messages only, of less than SERVICE_MAX bytes */
    int failover_port;
};

/* Marks out as failed for want of memory. */
void address_write(struct buf *out, enum address_form form, const struct address *a);

/* Always gives a result: text of an unknown form is data (Hadoop's messages, too, for want of memory). */
void address_read(const void *data, size_t len, struct address *ret);

/* --- a request to a member: to step down, or to change its role --- */

struct switch_request {
    char to[CARD_NAME_MAX]; /* "": to the active member with this token, to step down */
    int64_t token;
    int64_t stay_out_ms;
    bool observer; /* the role; else to stand by */
};

void request_write(struct buf *out, const struct switch_request *request);

/* False when it is no request. */
bool request_read(const void *data, size_t len, struct switch_request *ret);

#endif
