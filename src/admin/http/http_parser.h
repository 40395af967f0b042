/*
 * Reads HTTP/1.0 and HTTP/1.1 requests (RFC 9112), one after the other, from bytes that come in pieces of any size. No
 * I/O and no clock.
 *
 *   LINE ──> FIELDS ──no body─────────────────────────────────> DONE ──next──> LINE
 *              ├────Content-Length──> BODY ────────────────────> │
 *              └────chunked──> SIZE ──> CHUNK ──> CHUNK_END      │
 *                               │ ^──────────────────┘           │
 *                               └─last chunk──> TRAILER ───────> │
 *   LINE, FIELDS, SIZE, CHUNK_END, TRAILER ──bad input──> FAILED
 *
 * It refuses every request that another program could cut into other requests (request smuggling): Content-Length beside
 * Transfer-Encoding, a repeated or inexact length, another coding than chunked, a repeated Host; lines that do not end with CR
 * LF, continue the line before (obs-fold), or contain a control character; a space before the colon. It drops trailers.
 *
 * Limits: HTTP_HEAD_MAX bytes of a head, HTTP_FIELDS_MAX fields in it; HTTP_SIZE_LINE_MAX bytes in the line that begins a chunk,
 * HTTP_TRAILER_MAX in the trailer. Bodies are not kept.
 */
#ifndef ADMIN_HTTP_HTTP_PARSER_H
#define ADMIN_HTTP_HTTP_PARSER_H

#include "base/buf.h"

enum {
    HTTP_HEAD_MAX = 16384,
    HTTP_FIELDS_MAX = 100,
    HTTP_SIZE_LINE_MAX = 128,
    HTTP_TRAILER_MAX = 4096,
};

enum http_stage {
    HTTP_STAGE_LINE,   /* the request line; empty lines before it are skipped */
    HTTP_STAGE_FIELDS, /* the lines after it, up to the empty one */
    HTTP_STAGE_BODY,   /* of a known length */
    HTTP_STAGE_SIZE,   /* the line that begins a chunk */
    HTTP_STAGE_CHUNK,
    HTTP_STAGE_CHUNK_END, /* the end of line behind it */
    HTTP_STAGE_TRAILER,   /* the lines after the last chunk, up to the empty one */
    HTTP_STAGE_DONE,      /* the request is whole: http_parser_next */
    HTTP_STAGE_FAILED,    /* for good */
};

enum http_event {
    HTTP_EVENT_MORE, /* all bytes were taken, more are needed */
    HTTP_EVENT_HEAD, /* the head is complete: the functions below read it, up to http_parser_next */
    HTTP_EVENT_BODY, /* a piece of the body */
    HTTP_EVENT_DONE, /* the request is complete; nothing more is taken */
    HTTP_EVENT_FAILED, /* refused: see status and problem */
};

struct http_field {
    uint16_t name_at; /* offsets in the head */
    uint16_t value_at;
};

struct http_parser {
    enum http_stage stage;
    unsigned status;     /* FAILED: the HTTP status that says why */
    const char *problem; /* and a line of fixed text, without its end */

    /* Of a complete head. */
    bool http_1_0;        /* rather than 1.1 */
    bool keep_alive;      /* whether the client wants to ask more on this connection */
    bool expects;         /* it waits for 100 Continue before it sends the body */
    bool chunked;         /* the body has no length beforehand */
    uint64_t body_length; /* otherwise; 0: there is no body */

    uint64_t left;          /* bytes of the body or the chunk that are to come */
    size_t room;            /* bytes that the lines of this stage may still have */
    struct buf head;        /* lines, cut into strings; at its end the line that is not complete */
    size_t line_at;         /* where that begins */
    uint16_t path_at;       /* in head */
    uint16_t arguments_at;  /* pairs of strings: name, value, */
    uint16_t arguments_end; /* up to here */
    size_t field_count;
    struct http_field fields[HTTP_FIELDS_MAX];
};

void http_parser_init(struct http_parser *p);
void http_parser_finish(struct http_parser *p);

/* Begins with the next request; the one before must be complete (DONE). */
void http_parser_next(struct http_parser *p);

/*
 * Takes bytes from the front of *bytes, up to the next event. With BODY, *ret_piece is a part of *bytes. Call it again until it
 * returns MORE (all bytes are taken), DONE, or FAILED, which is final.
 */
enum http_event http_parser_read(struct http_parser *p, struct slice *bytes,
                                 struct slice *ret_piece);

/* The method of a complete head. This and the strings below live until http_parser_next. */
const char *http_parser_method(const struct http_parser *p);

/* The path as the client means it: %XX decoded, without the query. */
const char *http_parser_path(const struct http_parser *p);

/* The value of a header, the first one of this name in any case; NULL: there is none. */
const char *http_parser_field(const struct http_parser *p, const char *name);

/* The decoded value of an argument of the query, the first one of this name in any case; NULL: there is none with a value. */
const char *http_parser_argument(const struct http_parser *p, const char *name);

#endif
