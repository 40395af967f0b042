/*
 * Requests and commands for tests, built with the wire's own records. A struct maker holds the
 * bytes; the bytes are valid until the next call.
 */
#ifndef SUPPORT_REQUESTS_H
#define SUPPORT_REQUESTS_H

#include "state/state.h"

struct maker {
    struct buf body;
    struct buf acl;
    struct buf ids;
    int32_t acl_count;
    int32_t ids_count;
};

void maker_init(struct maker *m);
void maker_finish(struct maker *m);

/* The ACL of the next creates and setACLs: at first world:anyone with all permissions. */
void maker_acl_reset(struct maker *m);
void maker_acl_add(struct maker *m, int32_t perms, const char *scheme, const char *id);

/* The caller's ids: at first none. */
void maker_ids_reset(struct maker *m);
void maker_ids_add(struct maker *m, const char *scheme, const char *id);
struct wire_vector maker_ids(const struct maker *m);

/* Request bodies. */
struct slice make_create(struct maker *m, const char *path, const char *data, int32_t mode);
struct slice make_create_ttl(struct maker *m, const char *path, int32_t mode, int64_t ttl_ms);
struct slice make_delete(struct maker *m, const char *path, int32_t version);
struct slice make_set_data(struct maker *m, const char *path, const char *data, int32_t version);
struct slice make_set_acl(struct maker *m, const char *path, int32_t version);
struct slice make_read(struct maker *m, const char *path, bool watch);
struct slice make_session(struct maker *m, int64_t id, int32_t timeout_ms);
/* With the password of another session of make_session, or of the same one. */
struct slice make_attach(struct maker *m, int64_t id, int32_t timeout_ms, int64_t passwd_of);

/* A multi: begin, then for each part a header and a record appended to m->body, then end. */
void make_multi_begin(struct maker *m);
void make_multi_create(struct maker *m, int32_t type, const char *path, const char *data,
                       int32_t mode);
void make_multi_create_ttl(struct maker *m, const char *path, int32_t mode, int64_t ttl_ms);
void make_multi_delete(struct maker *m, const char *path, int32_t version);
void make_multi_set_data(struct maker *m, const char *path, const char *data, int32_t version);
void make_multi_check(struct maker *m, const char *path, int32_t version);
struct slice make_multi_end(struct maker *m);

/* Applies a client's command with the maker's ids at time 1000 + zxid and returns err. The command has
 * no server, or the given one. */
int32_t apply(struct state *s, struct effects *e, struct maker *m, int64_t session_id, int32_t type,
              struct slice body);
int32_t apply_from(struct state *s, struct effects *e, struct maker *m, int64_t origin,
                   int64_t session_id, int32_t type, struct slice body);

#endif
