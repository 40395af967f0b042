/*
 * Parses HTTP/1.0 and HTTP/1.1 requests (RFC 9112), one after the other, from bytes that come in pieces of any size. No
 * I/O and no clock.
 *
 *   LINE ──> FIELDS ──no body─────────────────────────────────> DONE ──next──> LINE
 *              ├────Content-Length──> BODY ────────────────────> │
 *              └────chunked──> SIZE ──> CHUNK ──> CHUNK_END      │
 *                               │ ^──────────────────┘           │
 *                               └─last chunk──> TRAILER ───────> │
 *   LINE, FIELDS, SIZE, CHUNK_END, TRAILER ──bad input──> FAILED
 *
 * It refuses every request that another program could split into other requests (request smuggling): Content-Length
 * together with Transfer-Encoding, a repeated or malformed length, a coding other than chunked, a repeated Host; lines
 * that do not end with CR LF, continue the previous line (obs-fold) or contain a control character; a space before the
 * colon. It drops trailers.
 *
 * Limits: HTTP_HEAD_MAX bytes and HTTP_FIELDS_MAX fields in a head; HTTP_SIZE_LINE_MAX bytes in the line that begins a
 * chunk, HTTP_TRAILER_MAX in the trailer. Bodies are not kept.
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
    HTTP_STAGE_BODY,   /* a body of known length */
    HTTP_STAGE_SIZE,   /* the line that begins a chunk */
    HTTP_STAGE_CHUNK,
    HTTP_STAGE_CHUNK_END, /* the end of line after it */
    HTTP_STAGE_TRAILER,   /* the lines after the last chunk, up to the empty one */
    HTTP_STAGE_DONE,      /* the request is complete: call http_parser_next */
    HTTP_STAGE_FAILED,    /* final */
};

enum http_event {
    HTTP_EVENT_MORE, /* all bytes were taken, more are needed */
    HTTP_EVENT_HEAD, /* the head is complete: the functions below read it, up to http_parser_next */
    HTTP_EVENT_BODY, /* a piece of the body */
    HTTP_EVENT_DONE, /* the request is complete; takes nothing more */
    HTTP_EVENT_FAILED, /* refused: see status and problem */
};

struct http_field {
    uint16_t name_at; /* offsets in the head */
    uint16_t value_at;
};

struct http_parser {
    enum http_stage stage;
    unsigned status;     /* FAILED: the HTTP status of the reason */
    const char *problem; /* and a fixed text, one line without its end */

    /* Of a complete head. */
    bool http_1_0;        /* rather than 1.1 */
    bool keep_alive;      /* the client may send more requests on this connection */
    bool expects;         /* the client waits for 100 Continue before it sends the body */
    bool chunked;         /* the length of the body is not known beforehand */
    uint64_t body_length; /* length if not chunked; 0: no body */

    uint64_t left;          /* missing bytes of the body or the chunk */
    size_t room;            /* bytes left for the lines of this stage */
    struct buf head;        /* lines, split into strings; at its end the incomplete line */
    size_t line_at;         /* offset of the incomplete line */
    uint16_t path_at;       /* in head */
    uint16_t arguments_at;  /* pairs of strings: name, value, */
    uint16_t arguments_end; /* end of these pairs */
    size_t field_count;
    struct http_field fields[HTTP_FIELDS_MAX];
};

void http_parser_init(struct http_parser *p);
void http_parser_finish(struct http_parser *p);

/* Begins the next request; the previous one must be complete (DONE). */
void http_parser_next(struct http_parser *p);

/*
 * Takes bytes from the front of *bytes, up to the next event. With BODY, *ret_piece is a part of *bytes. Call it again
 * until it returns MORE (all bytes are taken), DONE, or FAILED, which is final.
 */
enum http_event http_parser_read(struct http_parser *p, struct slice *bytes,
                                 struct slice *ret_piece);

/* The method of a complete head. This and the strings below live until http_parser_next. */
const char *http_parser_method(const struct http_parser *p);

/* The decoded path (%XX), without the query. */
const char *http_parser_path(const struct http_parser *p);

/* The value of the first header with this name, in any case; NULL: none. */
const char *http_parser_field(const struct http_parser *p, const char *name);

/* The decoded value of the first query argument with this name, in any case; NULL: none with a value. */
const char *http_parser_argument(const struct http_parser *p, const char *name);

#endif
