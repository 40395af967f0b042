/*
 * What a member of `conclave switch` says of itself: in the elector's nodes where it is to be found, so
 * that others can fence it, and in <dir>/members how it is.
 *
 * The address is lines "host=...", "port=...", an empty line and the user's text; in Hadoop's layout the
 * messages of conclave/hadoop.h. The member's card is lines "name=value". Pure.
 */
#ifndef CLI_SWITCH_MEMBER_DESCRIPTION_H
#define CLI_SWITCH_MEMBER_DESCRIPTION_H

#include "base/buf.h"

#include <conclave/elector.h>
#include <conclave/hadoop.h>

enum { CARD_NAME_MAX = 256, CARD_STATE_MAX = 24, SERVICE_MAX = 4096 };

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

/* --- the member's card --- */

struct member_description {
    char state[CARD_STATE_MAX];
    char health[CARD_STATE_MAX]; /* "" without a check */
    int64_t token;               /* while it is active, else 0 */
    bool ready;                  /* what it runs when active says that it is ready */
    char host[CARD_NAME_MAX];
    int port;
};

void member_description_write(struct buf *out, const struct member_description *card);
void member_description_read(const void *data, size_t len, struct member_description *ret);

/* --- a request to step down --- */

struct cede_request {
    int64_t token; /* of the active member */
    int64_t stay_out_ms;
};

void request_write(struct buf *out, const struct cede_request *request);

/* False when it is no request. */
bool request_read(const void *data, size_t len, struct cede_request *ret);

#endif
