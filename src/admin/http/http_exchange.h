/*
 * The requests and answers of one HTTP connection, one after the other: bytes in, bytes out, no socket. The answerer's
 * function gets each request; it answers at once, or later (http_answer), or asks for the body first. An answer is a
 * run of bytes, or a source that is asked for the next piece when the client has taken the one before; an endless
 * source sends until the connection ends.
 *
 *            ┌─────────────────────next request────────────────────┐
 *            v                                                     │
 *   HEAD ──asked──> SENDING ──all has left────────────────────────>┴──the last one──> OVER
 *    ├──wants the body──> BODY ──asked again──> SENDING
 *    └──later──> WAITING ──http_answer──> SENDING        (BODY ──later──> WAITING, too)
 *
 * A request that the parser refuses gets an answer with the parser's status. After that answer, and after the answer to
 * a request whose body the answerer did not want, the connection ends.
 *
 * Limits: those of http_parser.h. A body is read only if the answerer wants it, up to the size that the answerer
 * allows, and for one request of the port at a time. A piece of an answer has at most HTTP_PIECE_MAX bytes.
 */
#ifndef ADMIN_HTTP_HTTP_EXCHANGE_H
#define ADMIN_HTTP_HTTP_EXCHANGE_H

#include "base/buf.h"

enum { HTTP_PIECE_MAX = 65536 };

struct http_exchange;

struct http_request {
    const char *method;        /* "GET" */
    const char *path;          /* decoded, without query */
    const char *authorization; /* the header of that name, or NULL */
    const char *host;          /* the header Host, or NULL */
    const char *origin;        /* the header Origin, or NULL */
    const char *fetch_site;    /* the header Sec-Fetch-Site, or NULL */
    const char *if_none_match; /* the header If-None-Match, or NULL */
    const char *content_type;  /* the header Content-Type, or NULL */
    const char *cookie;        /* the header Cookie, or NULL */
    const char *key;           /* the header X-Console-Key, or NULL */
    bool secure;               /* came over TLS */
    const char *peer;          /* numeric address of the client */
    struct slice subject;      /* of the client's verified certificate; empty: none */
    struct slice body;         /* null: not read, see body_max */
    struct http_exchange *exchange;
};

/* The source of a long answer. With a slow client, one piece is in memory, not the whole answer. */
struct http_source {
    /* Appends 1 to `room` bytes to out; an endless source may append nothing, and calls http_wake when it has more.
     * False: the rest is not available, and the connection is closed. */
    bool (*next)(void *ctx, struct buf *out, size_t room);
    /* For an endless source that has an end after all: after next appended nothing, true ends the answer. Or NULL. */
    bool (*over)(void *ctx);
    void (*close)(void *ctx); /* always called in the end */
    void *ctx;
    uint64_t len; /* of all pieces; unused if endless */
    bool endless; /* the answer has no end: the connection ends with it */
};

enum { HTTP_HEADERS_MAX = 2, HTTP_COOKIE_MAX = 192 };

struct http_response {
    unsigned status;          /* 200 */
    const char *content_type; /* fixed text */
    const char *allow;        /* fixed text of the Allow header, or NULL */
    const char *cache;        /* fixed text of the Cache-Control header */
    const char *more_fields;  /* fixed text: further lines of the head, each with CR LF; or NULL */
    struct buf body;
    struct http_source source; /* sent instead of the body, taken over; next is NULL: no source */
    struct {
        const char *name; /* fixed text */
        char value[32];
    } headers[HTTP_HEADERS_MAX];
    size_t header_count;
    char set_cookie[HTTP_COOKIE_MAX]; /* the header Set-Cookie; "": none */
    /* not 0, while the body was not read: read at most this many bytes of it, and ask again */
    size_t body_max;
    bool later; /* http_answer follows */
};

/* 200, text, no body. */
void http_response_init(struct http_response *r);
void http_response_finish(struct http_response *r);

/* For answerers */

typedef void (*http_fn)(void *ctx, const struct http_request *request,
                        struct http_response *response);

/* Answers a request that was left for later; not from within http_fn. Takes over the content of response. */
void http_answer(struct http_exchange *x, struct http_response *response_take);

/* The endless source of this exchange has more; not from within http_fn, next or close. */
void http_wake(struct http_exchange *x);

/* Takes over the body of the request that is being answered. */
void http_take_body(struct http_exchange *x, struct buf *ret);

/* Whether the client is a process on this machine, of the server's user or of root. Not cheap. */
bool http_is_own_user(const struct http_request *request);

/* The value of an argument of the query, or NULL. */
const char *http_argument(const struct http_request *request, const char *name);

/* For the holder of the connection */

enum http_exchange_state {
    HTTP_HEAD,    /* reads the head of a request */
    HTTP_BODY,    /* reads its body */
    HTTP_WAITING, /* waits for http_answer */
    HTTP_SENDING, /* sends the answer */
    HTTP_OVER,    /* the last answer was sent: close the connection */
};

/* What all exchanges of a port share. */
struct http_answerer {
    http_fn fn;
    void *ctx;
    struct http_exchange *receiving; /* the one in BODY; NULL: none */
};

/* What the holder of the connection provides. */
struct http_holder {
    void (*output)(void *ctx);      /* http_answer was called: fill again */
    bool (*is_own_user)(void *ctx); /* as http_is_own_user; NULL: nobody is */
    void *ctx;
    const char *peer;     /* numeric address, borrowed */
    struct slice subject; /* of the peer's verified certificate, borrowed; empty: none */
};

/* NULL: out of memory. Borrows answerer and everything that the holder borrows. */
struct http_exchange *http_exchange_create(struct http_answerer *answerer,
                                           const struct http_holder *holder);

/* The TLS handshake is over: the subject of the peer's certificate, or empty. Borrowed. */
void http_exchange_set_subject(struct http_exchange *x, struct slice subject);

/* Not while it waits for http_answer. NULL does nothing. */
void http_exchange_destroy(struct http_exchange *x);

/* Takes bytes from the front, up to the end of one request; returns the number taken: 0 unless in HEAD or BODY. */
size_t http_exchange_take(struct http_exchange *x, struct slice bytes);

/* Appends the next piece to send. Call it again when that was sent, until it appends nothing. Then the answer is
 * complete, and the exchange reads the next request or is OVER. False: the answer cannot be
 * completed; close the connection. */
bool http_exchange_fill(struct http_exchange *x, struct buf *out) CONCLAVE_MUST_USE;

enum http_exchange_state http_exchange_state(const struct http_exchange *x);

/* Whether the answer that is being sent comes from a source. */
bool http_exchange_streams(const struct http_exchange *x);

/* Whether it sends from an endless source that had nothing when it was last asked. */
bool http_exchange_rests(const struct http_exchange *x);

/* The number of complete answers. */
uint64_t http_exchange_answers(const struct http_exchange *x);

#endif
