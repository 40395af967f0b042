/*
 * A service without sockets and disks, with a clock set by hand: tests send requests with guest_send…
 * and read answers with guest_next. The log is a queue; tests say when an entry is applied. Every
 * check is a cmocka assertion.
 */
#ifndef SUPPORT_SERVICE_HARNESS_H
#define SUPPORT_SERVICE_HARNESS_H

#include "front/service.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LOG_MAX = 256 };

struct service_harness {
    const char *host; /* the address of the next guest; NULL: 10.1.2.3 */
    struct service service;
    struct clock_source clock;
    int64_t now_ms;
    struct buf log[LOG_MAX]; /* submitted, not applied */
    size_t log_count;
    size_t log_total;
    int submit_error;
    uint64_t tickets; /* tickets of reads that wait for confirmation */
};

struct guest {
    struct connection c;
    struct buf in;  /* sent, not read by the service */
    struct buf out; /* received */
    size_t out_at;  /* read so far */
    int32_t next_xid;
    uint8_t passwd[WIRE_PASSWD_LEN];
    bool slow;   /* does not read */
    bool closed; /* the server closed it */
};

/* A received frame. */
struct frame {
    int32_t xid;
    int64_t zxid;
    int32_t err;
    struct slice body;
};

/* NULL: the default limits. */
void service_harness_init(struct service_harness *h, const struct client_limits *limits);

/* With the test's options, made from these. The harness sets clock and sink. */
struct service_options service_harness_options(void);
void service_harness_open(struct service_harness *h, struct service_options options);
void service_harness_finish(struct service_harness *h);

/* Applies an entry of the log, as struct ensemble does. */
int service_harness_take(struct service *s, struct slice entry);

/* Applies the oldest log entry. */
void service_harness_apply_one(struct service_harness *h);

/* The work of the socket's owner at the end of a turn. */
void service_harness_turn(struct service_harness *h);

/* Turns until all work is done. */
void service_harness_settle(struct service_harness *h);

/* From now on the server is one of several members and in contact with a leader. */
void service_harness_join(struct service_harness *h);

/* As a server that slept until now, and whose clients sent nothing meanwhile. */
void service_harness_advance(struct service_harness *h, int64_t ms);
void guest_init(struct guest *p, struct service_harness *h);
void guest_finish(struct guest *p);

/* Gives bytes to the connection as a socket would. */
void guest_send(struct guest *p, struct slice bytes);

void guest_send_frame(struct guest *p, struct slice body);

/* Returns the xid used. */
int32_t guest_request_xid(struct guest *p, int32_t xid, int32_t type, struct slice body);

int32_t guest_request(struct guest *p, int32_t type, struct slice body);

/* The next frame as it is; false when there is none. */
bool guest_next_raw(struct guest *p, struct slice *ret);

bool guest_next(struct guest *p, struct frame *ret);
void guest_expect_nothing(struct guest *p);

/* Reads the next frame, which must be the reply with this xid and err. */
struct frame guest_expect(struct guest *p, int32_t xid, int32_t err);

void guest_expect_event(struct guest *p, int32_t type, const char *path, int64_t zxid);

/* Sends a ConnectRequest; read_only_byte: as newer clients send it. */
void guest_connect(struct guest *p, int64_t last_zxid, int32_t timeout_ms, int64_t id,
                   struct slice passwd, bool read_only_byte);

/* Reads the ConnectResponse; returns the length of its frame. The passwd is kept in p. */
size_t guest_connected(struct guest *p, struct wire_connect_response *ret);

/* Connects a client with a new session. */
void guest_open(struct guest *p, struct service_harness *h, int32_t timeout_ms);

/* Request bodies in static memory, valid until the next call. */
struct slice body_path_watch(const char *path, bool watch);
struct slice body_create(const char *path, const char *data, int32_t mode);
struct slice body_set(const char *path, const char *data);
struct slice body_delete(const char *path);
struct slice body_auth(const char *scheme, const char *auth);

/* Frees the static memory. */
void body_finish(void);

#endif
