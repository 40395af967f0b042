/*
 * A load generator for any ZooKeeper server: sessions with a fixed number of requests in flight,
 * one operation, for a time or a number of requests; prints one line of JSON.
 *
 *   load HOST:PORT[,HOST:PORT...] get|set|create SESSIONS IN_FLIGHT [--seconds S] [--warm-up S]
 *        [--count N]
 *
 * Promise: neutral: it speaks the protocol by itself and shares no code with Conclave. Every reply
 * is checked (order, error, and for get the length). One thread, epoll; what is ready is written
 * in one piece. Latency is measured per request, from the call of send to the reply. Of several
 * servers each gets the same number of sessions, or one more.
 * Limits: IPv4; at most 64 sessions and 256 in flight; requests of at most a few hundred bytes.
 * get and set work on 1,000 nodes of 100 bytes below /bench; create makes nodes of 100 bytes below
 * a parent of the run's own.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    SESSIONS_MAX = 64,
    SERVERS_MAX = 8,
    IN_FLIGHT_MAX = 256,
    REQUEST_MAX = 256,
    BUFFER_SIZE = IN_FLIGHT_MAX * REQUEST_MAX,
    DATA_LEN = 100,
    KEYS = 1000,
    HEADER_LEN = 16, /* reply: xid, zxid, err */
    SUB_BITS = 6,    /* the histogram's error is below 1/64 */
    BUCKETS = 40 << SUB_BITS,
    EXIT_USAGE = 64,
    EXIT_UNAVAILABLE = 69,
};

enum op { OP_CREATE = 1, OP_GET = 4, OP_SET = 5 };

struct session {
    int fd;
    int32_t xid_sent;       /* last xid that was sent */
    int32_t xid_got;        /* last xid that was answered */
    size_t out_len, out_at; /* bytes in out, and how many of them are written */
    size_t in_len;
    uint64_t sent_ns[IN_FLIGHT_MAX]; /* by xid modulo IN_FLIGHT_MAX */
    unsigned char out[BUFFER_SIZE];
    unsigned char in[BUFFER_SIZE];
};

static struct session sessions[SESSIONS_MAX];
static uint64_t histogram[BUCKETS];
static uint64_t answered, latency_max_ns, random_state = 88172645463325252ULL;
static enum op op;
static const char *op_word;
static int session_count, in_flight;
static double seconds = 2, warm_up = 0.5;
static uint64_t count_limit;
static char create_parent[64];
static struct sockaddr_in addresses[SERVERS_MAX];
static int server_count;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("load: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(EXIT_UNAVAILABLE);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* --- histogram ------------------------------------------------------------------------------- */

static unsigned bucket_of(uint64_t ns)
{
    if (ns < (1u << SUB_BITS)) {
        return (unsigned)ns;
    }
    unsigned shift = 63u - (unsigned)__builtin_clzll(ns) - SUB_BITS;
    unsigned bucket = ((shift + 1) << SUB_BITS) + (unsigned)((ns >> shift) - (1u << SUB_BITS));
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* The upper end of a bucket. */
static double bucket_ns(unsigned bucket)
{
    if (bucket < (1u << SUB_BITS)) {
        return bucket;
    }
    unsigned shift = (bucket >> SUB_BITS) - 1;
    uint64_t base = (1u << SUB_BITS) + (bucket & ((1u << SUB_BITS) - 1));
    return (double)((base + 1) << shift);
}

static double quantile_us(double q)
{
    uint64_t total = 0;
    uint64_t seen = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        total += histogram[i];
    }
    for (unsigned i = 0; i < BUCKETS; i++) {
        seen += histogram[i];
        if (seen > 0 && (double)seen >= q * (double)total) {
            return bucket_ns(i) / 1000;
        }
    }
    return 0;
}

/* --- the wire -------------------------------------------------------------------------------- */

static unsigned char *put_i32(unsigned char *at, int32_t value)
{
    uint32_t big = htobe32((uint32_t)value);
    memcpy(at, &big, sizeof big);
    return at + sizeof big;
}

static int32_t get_i32(const unsigned char *at)
{
    uint32_t big;
    memcpy(&big, at, sizeof big);
    return (int32_t)be32toh(big);
}

static unsigned char *put_bytes(unsigned char *at, const char *bytes, size_t len)
{
    at = put_i32(at, (int32_t)len);
    memcpy(at, bytes, len);
    return at + len;
}

static unsigned char *put_open_acl(unsigned char *at)
{
    at = put_i32(put_i32(at, 1), 31);
    return put_bytes(put_bytes(at, "world", 5), "anyone", 6);
}

/* Writes one framed request to at, returns its end. */
static unsigned char *put_request(unsigned char *at, int32_t xid, enum op what, const char *path)
{
    static const char data[DATA_LEN] = {[0 ... DATA_LEN - 1] = 'x'};
    unsigned char *start = at;
    at = put_i32(put_i32(at + 4, xid), (int32_t)what);
    at = put_bytes(at, path, strlen(path));
    switch (what) {
    case OP_GET:
        *at++ = 0;
        break;
    case OP_SET:
        at = put_i32(put_bytes(at, data, DATA_LEN), -1);
        break;
    case OP_CREATE:
        at = put_i32(put_open_acl(put_bytes(at, data, DATA_LEN)), 0);
        break;
    }
    put_i32(start, (int32_t)(at - start - 4));
    return at;
}

static void write_all(int fd, const unsigned char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n <= 0) {
            die("write: %s", strerror(errno));
        }
        bytes += n;
        len -= (size_t)n;
    }
}

/* Reads one frame's body of at most size bytes, returns its length. */
static size_t read_frame(int fd, unsigned char *body, size_t size)
{
    unsigned char head[4];
    size_t len = sizeof head;
    unsigned char *to = head;
    for (int part = 0; part < 2; part++) {
        for (size_t got = 0; got < len;) {
            ssize_t n = read(fd, to + got, len - got);
            if (n <= 0) {
                die("the server closed the connection");
            }
            got += (size_t)n;
        }
        if (part == 0) {
            len = (size_t)get_i32(head);
            to = body;
            if (len > size) {
                die("a reply of %zu bytes", len);
            }
        }
    }
    return len;
}

static int session_connect(int server)
{
    const struct sockaddr_in *address = &addresses[server];
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) < 0) {
        die("connect: %s", strerror(errno));
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    unsigned char frame[4 + 45] = {0};
    unsigned char reply[64];
    put_i32(frame, 45);
    put_i32(frame + 4 + 12, 30000);
    put_i32(frame + 4 + 24, 16);
    write_all(fd, frame, sizeof frame);
    if (read_frame(fd, reply, sizeof reply) < 36 || get_i32(reply + 4) <= 0) {
        die("no session");
    }
    return fd;
}

/* One create, waited for; a node that exists already is fine. */
static void create_now(int fd, const char *path)
{
    unsigned char request[REQUEST_MAX * 2];
    unsigned char reply[REQUEST_MAX * 2];
    unsigned char *end = put_request(request, 1, OP_CREATE, path);
    write_all(fd, request, (size_t)(end - request));
    size_t len = read_frame(fd, reply, sizeof reply);
    int32_t err = len >= HEADER_LEN ? get_i32(reply + 12) : -1;
    if (err != 0 && err != -110) {
        die("create %s: error %d", path, err);
    }
}

/* The nodes that get and set work on, or the parent that create fills. */
static void prepare(void)
{
    char path[128];
    int fd = session_connect(0);
    create_now(fd, "/bench");
    if (op == OP_CREATE) {
        snprintf(create_parent, sizeof create_parent, "/bench/run-%d-%llu", (int)getpid(),
                 (unsigned long long)now_ns());
        create_now(fd, create_parent);
    } else {
        for (int i = 0; i < KEYS; i++) {
            snprintf(path, sizeof path, "/bench/key-%04d", i);
            create_now(fd, path);
        }
    }
    close(fd);
}

/* --- the load -------------------------------------------------------------------------------- */

static void session_fill(struct session *s, uint64_t now)
{
    char path[128];
    int waiting = s->xid_sent - s->xid_got;
    if (s->out_at == s->out_len) {
        s->out_at = s->out_len = 0;
    }
    for (; waiting < in_flight && s->out_len + REQUEST_MAX * 2 <= BUFFER_SIZE; waiting++) {
        s->xid_sent++;
        if (op == OP_CREATE) {
            snprintf(path, sizeof path, "%s/%d-%d", create_parent, (int)(s - sessions),
                     s->xid_sent);
        } else {
            snprintf(path, sizeof path, "/bench/key-%04d", (int)(random_next() % KEYS));
        }
        s->sent_ns[s->xid_sent % IN_FLIGHT_MAX] = now;
        unsigned char *end = put_request(s->out + s->out_len, s->xid_sent, op, path);
        s->out_len = (size_t)(end - s->out);
    }
}

static void session_write(struct session *s)
{
    while (s->out_at < s->out_len) {
        ssize_t n = send(s->fd, s->out + s->out_at, s->out_len - s->out_at, MSG_DONTWAIT);
        if (n < 0) {
            if (errno == EAGAIN) {
                return;
            }
            die("send: %s", strerror(errno));
        }
        s->out_at += (size_t)n;
    }
}

static void reply_check(struct session *s, const unsigned char *body, size_t len, uint64_t now)
{
    int32_t err = len >= HEADER_LEN ? get_i32(body + 12) : -1;
    if (get_i32(body) != s->xid_got + 1 || err != 0) {
        die("%s: reply to xid %d with error %d, wanted xid %d", op_word, get_i32(body), err,
            s->xid_got + 1);
    }
    if (op == OP_GET && (len < HEADER_LEN + 4 || get_i32(body + HEADER_LEN) != DATA_LEN)) {
        die("get: a reply of %zu bytes has not the node's data", len);
    }
    s->xid_got++;
    uint64_t took = now - s->sent_ns[s->xid_got % IN_FLIGHT_MAX];
    histogram[bucket_of(took)]++;
    latency_max_ns = took > latency_max_ns ? took : latency_max_ns;
    answered++;
}

/* Takes in what is there; 0 if there was nothing. */
static int session_read(struct session *s)
{
    ssize_t n = recv(s->fd, s->in + s->in_len, BUFFER_SIZE - s->in_len, MSG_DONTWAIT);
    if (n <= 0) {
        if (n < 0 && errno == EAGAIN) {
            return 0;
        }
        die("the server closed the connection");
    }
    uint64_t now = now_ns();
    size_t at = 0;
    s->in_len += (size_t)n;
    while (s->in_len - at >= 4) {
        size_t len = (size_t)get_i32(s->in + at);
        if (len > BUFFER_SIZE - 4) {
            die("a reply of %zu bytes", len);
        }
        if (s->in_len - at - 4 < len) {
            break;
        }
        reply_check(s, s->in + at + 4, len, now);
        at += 4 + len;
    }
    memmove(s->in, s->in + at, s->in_len - at);
    s->in_len -= at;
    return 1;
}

/* Runs until the time or the count is over; returns the nanoseconds it took. */
static uint64_t run(int epoll, double for_seconds, uint64_t until_count)
{
    memset(histogram, 0, sizeof histogram);
    answered = latency_max_ns = 0;
    uint64_t start = now_ns();
    uint64_t end = start + (uint64_t)(for_seconds * 1e9);
    uint64_t now = start;
    struct epoll_event events[SESSIONS_MAX];
    while (until_count ? answered < until_count : now < end) {
        int n = epoll_wait(epoll, events, SESSIONS_MAX, 10000);
        if (n <= 0) {
            die("no reply for ten seconds");
        }
        for (int i = 0; i < n; i++) {
            struct session *s = events[i].data.ptr;
            session_read(s);
            session_fill(s, now_ns());
            session_write(s);
        }
        now = now_ns();
    }
    return now - start;
}

static void parse_address(const char *text, size_t len)
{
    char host[64];
    const char *colon = memchr(text, ':', len);
    if (!colon || (size_t)(colon - text) >= sizeof host || server_count == SERVERS_MAX) {
        die("'%.*s' is not HOST:PORT, or one too many", (int)len, text);
    }
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = 0;
    struct sockaddr_in *address = &addresses[server_count++];
    address->sin_family = AF_INET;
    address->sin_port = htobe16((uint16_t)atoi(colon + 1));
    if (inet_pton(AF_INET, host, &address->sin_addr) != 1) {
        die("'%s' is not an IPv4 address", host);
    }
}

static void parse_addresses(const char *text)
{
    for (;;) {
        size_t len = strcspn(text, ",");
        parse_address(text, len);
        if (!text[len]) {
            return;
        }
        text += len + 1;
    }
}

static int parse(int argc, char **argv)
{
    if (argc < 5 || argc % 2 == 0) {
        return -1;
    }
    parse_addresses(argv[1]);
    op_word = argv[2];
    op = !strcmp(op_word, "get")      ? OP_GET
         : !strcmp(op_word, "set")    ? OP_SET
         : !strcmp(op_word, "create") ? OP_CREATE
                                      : 0;
    session_count = atoi(argv[3]);
    in_flight = atoi(argv[4]);
    if (op == 0 || session_count < 1 || session_count > SESSIONS_MAX || in_flight < 1 ||
        in_flight > IN_FLIGHT_MAX) {
        return -1;
    }
    for (int i = 5; i < argc; i += 2) {
        if (!strcmp(argv[i], "--seconds")) {
            seconds = atof(argv[i + 1]);
        } else if (!strcmp(argv[i], "--warm-up")) {
            warm_up = atof(argv[i + 1]);
        } else if (!strcmp(argv[i], "--count")) {
            count_limit = strtoull(argv[i + 1], NULL, 10);
        } else {
            return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (parse(argc, argv) < 0) {
        fprintf(stderr, "usage: load HOST:PORT[,HOST:PORT...] get|set|create SESSIONS IN_FLIGHT"
                        " [--seconds S] [--warm-up S] [--count N]\n");
        return EXIT_USAGE;
    }
    prepare();
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < session_count; i++) {
        struct session *s = &sessions[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};
        s->fd = session_connect(i % server_count);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, s->fd, &event) < 0) {
            die("epoll: %s", strerror(errno));
        }
        session_fill(s, now_ns());
        session_write(s);
    }
    if (!count_limit && warm_up > 0) {
        run(epoll, warm_up, 0);
    }
    double took = (double)run(epoll, seconds, count_limit) / 1e9;
    printf("{\"op\": \"%s\", \"sessions\": %d, \"in_flight\": %d, \"seconds\": %.3f, "
           "\"count\": %llu, \"ops_per_s\": %.0f, \"p50_us\": %.1f, \"p99_us\": %.1f, "
           "\"max_us\": %.1f}\n",
           op_word, session_count, in_flight, took, (unsigned long long)answered,
           (double)answered / took, quantile_us(0.5), quantile_us(0.99),
           (double)latency_max_ns / 1000);
    return 0;
}
