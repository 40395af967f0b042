#define _GNU_SOURCE /* accept4, pipe2 */

#include "support/fault_proxy.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    LINKS_MAX = 64,
    READ_BYTES = 16 * 1024,
    LINE_MAX_LEN = 256,
    UP = 0, /* from the client */
    DOWN = 1,
};

/* Bytes to be sent at due_ms. */
struct chunk {
    struct chunk *next;
    int64_t due_ms;
    size_t len;
    size_t sent;
    uint8_t bytes[];
};

/* One direction of one connection. */
struct stream {
    struct chunk *first;
    struct chunk **last;
    uint32_t header;      /* length being read */
    unsigned header_have; /* bytes of it */
    uint32_t body_left;   /* bytes of the frame still to come */
    bool ended;           /* its source has ended, or it was cut: close when all is sent */
};

struct link {
    int fds[2]; /* by direction: where it is read; [UP] the client, [DOWN] the server */
    struct stream streams[2];
    bool used;
};

/* Countdowns to faults; 0: none. */
struct faults {
    uint64_t cut_bytes;
    uint64_t cut_frames;
    uint64_t swallow;
};

struct fault_proxy {
    pthread_t thread;
    int control[2]; /* [0] the caller's end, [1] the thread's */
    int listener;
    uint16_t port;
    struct sockaddr_in server; /* where new connections go */
    bool refusing;
    bool held[2];
    int64_t delay_ms;
    struct faults faults[2];
    uint64_t bytes[2];
    uint64_t frames[2];
    uint64_t accepted;
    struct link links[LINKS_MAX];
};

static int64_t now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int open_listener(struct fault_proxy *p)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;
    struct sockaddr_in address = loopback(p->port);
    socklen_t len = sizeof address;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) != 0 || listen(fd, 64) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    p->port = ntohs(address.sin_port);
    return fd;
}

/* --- streams
 * ------------------------------------------------------------------------------------------ */

static void link_close(struct link *l)
{
    for (int dir = UP; dir <= DOWN; dir++) {
        close(l->fds[dir]);
        while (l->streams[dir].first != NULL) {
            struct chunk *c = l->streams[dir].first;
            l->streams[dir].first = c->next;
            free(c);
        }
    }
    l->used = false;
}

/* Counts one byte into the frames of a stream; true when it is the last of a frame. */
static bool frame_count(struct stream *s, uint8_t byte)
{
    if (s->body_left > 0) {
        return --s->body_left == 0;
    }
    s->header = s->header << 8 | byte;
    if (++s->header_have < 4) {
        return false;
    }
    s->header_have = 0;
    s->body_left = s->header;
    return s->body_left == 0;
}

/* How many of the bytes pass before a fault; *cut: there is one. */
static size_t filter(struct fault_proxy *p, int dir, struct stream *s, const uint8_t *bytes,
                     size_t len, bool *cut)
{
    struct faults *f = &p->faults[dir];
    size_t frame_start = 0; /* only meaningful in the chunk in which the frame begins */
    bool swallowing = f->swallow == 1;
    for (size_t i = 0; i < len; i++) {
        bool end = frame_count(s, bytes[i]);
        p->bytes[dir]++;
        p->frames[dir] += end;
        if (f->cut_bytes > 0 && --f->cut_bytes == 0) {
            *cut = true;
            return i + 1;
        }
        if (end && f->cut_frames > 0 && --f->cut_frames == 0) {
            *cut = true;
            return i + 1;
        }
        if (end && swallowing) {
            f->swallow = 0;
            *cut = true;
            return frame_start;
        }
        if (end && f->swallow > 1) {
            swallowing = --f->swallow == 1;
        }
        frame_start = end ? i + 1 : frame_start;
    }
    return swallowing ? frame_start : len;
}

static void stream_push(struct fault_proxy *p, struct stream *s, const uint8_t *bytes, size_t len)
{
    struct chunk *c = malloc(sizeof *c + len);
    assert(c != NULL);
    *c = (struct chunk){.due_ms = now_ms() + p->delay_ms, .len = len};
    memcpy(c->bytes, bytes, len);
    if (s->first == NULL) {
        s->last = &s->first;
    }
    *s->last = c;
    s->last = &c->next;
}

static void stream_read(struct fault_proxy *p, struct link *l, int dir)
{
    struct stream *s = &l->streams[dir];
    uint8_t bytes[READ_BYTES];
    ssize_t n = recv(l->fds[dir], bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        s->ended = true;
        return;
    }
    bool cut = false;
    size_t pass = filter(p, dir, s, bytes, (size_t)n, &cut);
    if (pass > 0) {
        stream_push(p, s, bytes, pass);
    }
    s->ended = s->ended || cut;
}

/* Sends the due bytes. false: the connection has ended. */
static bool stream_write(struct link *l, int dir, int64_t now)
{
    struct stream *s = &l->streams[dir];
    while (s->first != NULL && s->first->due_ms <= now) {
        struct chunk *c = s->first;
        ssize_t n =
            send(l->fds[!dir], c->bytes + c->sent, c->len - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        c->sent += (size_t)n;
        if (c->sent < c->len) {
            return true;
        }
        s->first = c->next;
        free(c);
    }
    return s->first != NULL || !s->ended;
}

static void accept_link(struct fault_proxy *p)
{
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0) {
        return;
    }
    struct link *l = NULL;
    for (int i = 0; i < LINKS_MAX && l == NULL; i++) {
        l = p->links[i].used ? NULL : &p->links[i];
    }
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l == NULL || connect(server, (struct sockaddr *)&p->server, sizeof p->server) != 0) {
        close(server);
        close(client);
        return;
    }
    int one = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *l = (struct link){.fds = {client, server}, .used = true};
    p->accepted++;
}

/* --- commands
 * ----------------------------------------------------------------------------------------- */

static void close_links(struct fault_proxy *p)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        if (p->links[i].used) {
            link_close(&p->links[i]);
        }
    }
}

static void set_refusing(struct fault_proxy *p, bool refusing)
{
    if (refusing && p->listener >= 0) {
        close(p->listener);
        p->listener = -1;
    } else if (!refusing && p->listener < 0) {
        p->listener = open_listener(p);
    }
}

static void print_stats(const struct fault_proxy *p, char *answer, size_t len)
{
    int open = 0;
    for (int i = 0; i < LINKS_MAX; i++) {
        open += p->links[i].used;
    }
    snprintf(answer, len,
             "connections=%llu open=%d up=%llu down=%llu frames-up=%llu frames-down=%llu",
             (unsigned long long)p->accepted, open, (unsigned long long)p->bytes[UP],
             (unsigned long long)p->bytes[DOWN], (unsigned long long)p->frames[UP],
             (unsigned long long)p->frames[DOWN]);
}

/* Commands of the form "word DIR NUMBER". */
static bool set_fault(struct fault_proxy *p, const char *word, const char *dir, uint64_t n)
{
    bool up = strcmp(dir, "up") == 0;
    if (!up && strcmp(dir, "down") != 0) {
        return false;
    }
    struct faults *f = &p->faults[up ? UP : DOWN];
    uint64_t *field = strcmp(word, "cut-at") == 0      ? &f->cut_bytes
                      : strcmp(word, "cut-frame") == 0 ? &f->cut_frames
                      : strcmp(word, "swallow") == 0   ? &f->swallow
                                                       : NULL;
    if (field == NULL || n == 0) {
        return false;
    }
    *field = n;
    return true;
}

static bool execute(struct fault_proxy *p, const char *line, char *answer, size_t len)
{
    char word[32] = "";
    char arg[32] = "";
    unsigned long long n = 0;
    int fields = sscanf(line, "%31s %31s %llu", word, arg, &n);
    snprintf(answer, len, "ok");
    if (fields == 3) {
        return set_fault(p, word, arg, n);
    }
    if (strcmp(word, "pass") == 0) {
        p->held[UP] = p->held[DOWN] = false;
        p->delay_ms = 0;
        memset(p->faults, 0, sizeof p->faults);
    } else if (strcmp(word, "hold") == 0 && fields == 2) {
        p->held[UP] = p->held[UP] || strcmp(arg, "down") != 0;
        p->held[DOWN] = p->held[DOWN] || strcmp(arg, "up") != 0;
    } else if (strcmp(word, "delay") == 0 && fields == 2) {
        p->delay_ms = strtoll(arg, NULL, 10);
    } else if (strcmp(word, "cut") == 0) {
        close_links(p);
    } else if (strcmp(word, "refuse") == 0 || strcmp(word, "accept") == 0) {
        set_refusing(p, word[0] == 'r');
        return word[0] == 'r' || p->listener >= 0;
    } else if (strcmp(word, "server") == 0 && fields == 2) {
        p->server.sin_port = htons((uint16_t)strtoul(arg, NULL, 10));
    } else if (strcmp(word, "stats") == 0) {
        print_stats(p, answer, len);
    } else {
        return false;
    }
    return true;
}

/* One command of the control socket (a packet each). false: the end. */
static bool take_command(struct fault_proxy *p)
{
    char line[LINE_MAX_LEN] = "";
    ssize_t n = recv(p->control[1], line, sizeof line - 1, 0);
    if (n <= 0) {
        return false;
    }
    char answer[LINE_MAX_LEN];
    if (!execute(p, line, answer, sizeof answer)) {
        snprintf(answer, sizeof answer, "error: %.200s", line);
    }
    ssize_t sent = send(p->control[1], answer, strlen(answer), MSG_NOSIGNAL);
    assert(sent > 0);
    return true;
}

/* --- loop
 * --------------------------------------------------------------------------------------------- */

/* Fills fds: control, listener, then two per link. Returns the time to wait. */
static int prepare(const struct fault_proxy *p, struct pollfd *fds, int64_t now)
{
    int64_t wait = 1000;
    fds[0] = (struct pollfd){.fd = p->control[1], .events = POLLIN};
    fds[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
    for (int i = 0; i < LINKS_MAX; i++) {
        const struct link *l = &p->links[i];
        for (int dir = UP; dir <= DOWN; dir++) {
            struct pollfd *fd = &fds[2 + 2 * i + dir];
            *fd = (struct pollfd){.fd = l->used ? l->fds[dir] : -1};
            if (!l->used) {
                continue;
            }
            bool read = !p->held[dir] && !l->streams[dir].ended;
            const struct chunk *out = l->streams[!dir].first; /* bytes for this end */
            bool write = out != NULL && out->due_ms <= now && !p->held[!dir];
            fd->events = (short)((read ? POLLIN : 0) | (write ? POLLOUT : 0));
            fd->fd = fd->events != 0 ? fd->fd : -1;
            if (out != NULL && out->due_ms > now && out->due_ms - now < wait) {
                wait = out->due_ms - now;
            }
        }
    }
    return (int)wait;
}

static void run_link(struct fault_proxy *p, struct link *l, const struct pollfd *fds)
{
    int64_t now = now_ms();
    bool alive = true;
    for (int dir = UP; dir <= DOWN; dir++) {
        if (!p->held[dir] && !l->streams[dir].ended && fds[dir].revents != 0) {
            stream_read(p, l, dir);
        }
        if (!p->held[dir]) {
            alive = stream_write(l, dir, now) && alive;
        }
    }
    if (!alive) {
        link_close(l);
    }
}

static void *proxy_main(void *arg)
{
    struct fault_proxy *p = arg;
    for (;;) {
        struct pollfd fds[2 + 2 * LINKS_MAX];
        int wait = prepare(p, fds, now_ms());
        (void)poll(fds, 2 + 2 * LINKS_MAX, wait);
        if (fds[0].revents != 0 && !take_command(p)) {
            break;
        }
        for (int i = 0; i < LINKS_MAX; i++) {
            if (p->links[i].used && fds[0].revents == 0) {
                run_link(p, &p->links[i], &fds[2 + 2 * i]);
            }
        }
        if (p->listener >= 0 && fds[0].revents == 0 && fds[1].revents != 0) {
            accept_link(p);
        }
    }
    close_links(p);
    set_refusing(p, true);
    return NULL;
}

struct fault_proxy *fault_proxy_start(uint16_t listen_port, uint16_t server_port)
{
    return fault_proxy_start_to(listen_port, "127.0.0.1", server_port);
}

struct fault_proxy *fault_proxy_start_to(uint16_t listen_port, const char *address,
                                         uint16_t server_port)
{
    struct fault_proxy *p = calloc(1, sizeof *p);
    assert(p != NULL);
    p->port = listen_port;
    p->server = loopback(server_port);
    int parsed = inet_pton(AF_INET, address, &p->server.sin_addr);
    assert(parsed == 1);
    (void)parsed;
    p->listener = open_listener(p);
    if (p->listener < 0) {
        free(p);
        return NULL;
    }
    int rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->control);
    assert(rc == 0);
    rc = pthread_create(&p->thread, NULL, proxy_main, p);
    assert(rc == 0);
    (void)rc;
    return p;
}

uint16_t fault_proxy_port(const struct fault_proxy *p)
{
    return p->port;
}

void fault_proxy_command(struct fault_proxy *p, const char *line, char *buf, size_t len)
{
    ssize_t n = send(p->control[0], line, strlen(line), MSG_NOSIGNAL);
    assert(n > 0);
    n = recv(p->control[0], buf, len - 1, 0);
    buf[n > 0 ? n : 0] = '\0';
}

void fault_proxy_do(struct fault_proxy *p, const char *fmt, ...)
{
    char line[LINE_MAX_LEN];
    char answer[LINE_MAX_LEN];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    fault_proxy_command(p, line, answer, sizeof answer);
    if (strcmp(answer, "ok") != 0) {
        fprintf(stderr, "fault_proxy: %s: %s\n", line, answer);
        abort();
    }
}

void fault_proxy_stop(struct fault_proxy *p)
{
    if (p == NULL) {
        return;
    }
    close(p->control[0]);
    pthread_join(p->thread, NULL);
    close(p->control[1]);
    free(p);
}
