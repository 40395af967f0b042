#include "support/fake_redis.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINKS = 32, INPUT = 8192, WORDS = 8, NAMES = 16 };

struct fake_link {
    int fd; /* -1: free */
    size_t len;
    char input[INPUT];
    bool logged_in;
};

struct fake_redis {
    pthread_t thread;
    pthread_mutex_t lock;
    int listener;
    int wake;
    char address[32];
    const char *run_id;
    bool master;
    bool link_up;
    bool ending;
    const char *password;
    int64_t value;
    int replicas;
    int accepted;
    struct fake_link links[LINKS];
    /* the hook */
    const char *hook;
    int times;
    enum fake_redis_fate fate;
    const char *text;
    /* counts of commands by name */
    char names[NAMES][16];
    int counts[NAMES];
};

static void link_end(struct fake_link *l)
{
    if (l->fd >= 0) {
        shutdown(l->fd, SHUT_RDWR); /* at once, also while the thread polls it */
        close(l->fd);
    }
    l->fd = -1;
}

static void say(struct fake_link *l, const char *text)
{
    size_t len = strlen(text);
    while (len > 0) {
        ssize_t n = send(l->fd, text, len, MSG_NOSIGNAL);
        if (n <= 0) {
            link_end(l);
            return;
        }
        text += n;
        len -= (size_t)n;
    }
}

static void say_bulk(struct fake_link *l, const char *text)
{
    char out[1024];
    snprintf(out, sizeof out, "$%zu\r\n%s\r\n", strlen(text), text);
    say(l, out);
}

/* Executes a command; the reply is on the wire's form. */
static void execute(struct fake_redis *f, struct fake_link *l, int argc, char **argv, bool silent)
{
    char out[512];
    struct fake_link nobody = {.fd = -1};
    struct fake_link *to = silent ? &nobody : l;
    if (strcasecmp(argv[0], "AUTH") == 0) {
        l->logged_in = f->password != NULL && strcmp(argv[argc - 1], f->password) == 0;
        say(to, f->password == NULL ? "-ERR AUTH <password> called without any password configured "
                                      "for the default user.\r\n"
                : l->logged_in      ? "+OK\r\n"
                                    : "-WRONGPASS invalid username-password pair\r\n");
    } else if (f->password != NULL && !l->logged_in) {
        say(to, "-NOAUTH Authentication required.\r\n");
    } else if (strcasecmp(argv[0], "INFO") == 0) {
        snprintf(out, sizeof out,
                 "# Server\r\nrun_id:%s\r\n# Replication\r\nrole:%s\r\nmaster_link_status:%s\r\n",
                 f->run_id, f->master ? "master" : "slave", f->link_up ? "up" : "down");
        say_bulk(to, out);
    } else if (strcasecmp(argv[0], "INCR") == 0 && !f->master) {
        say(to, "-READONLY You can't write against a read only replica.\r\n");
    } else if (strcasecmp(argv[0], "INCR") == 0) {
        snprintf(out, sizeof out, ":%lld\r\n", (long long)++f->value);
        say(to, out);
    } else if (strcasecmp(argv[0], "GET") == 0) {
        snprintf(out, sizeof out, "%lld", (long long)f->value);
        say_bulk(to, out);
    } else if (strcasecmp(argv[0], "WAIT") == 0) {
        snprintf(out, sizeof out, ":%d\r\n", f->replicas);
        say(to, out);
    } else if (strcasecmp(argv[0], "ECHO") == 0 && argc == 2) {
        say_bulk(to, argv[1]);
    } else if (strcasecmp(argv[0], "PING") == 0) {
        say(to, "+PONG\r\n");
    } else if (strcasecmp(argv[0], "SELECT") == 0) {
        say(to, "+OK\r\n");
    } else {
        say(to, "-ERR unknown command\r\n");
    }
}

static void count(struct fake_redis *f, const char *name)
{
    for (int i = 0; i < NAMES; i++) {
        if (f->names[i][0] == '\0') {
            snprintf(f->names[i], sizeof f->names[i], "%s", name);
        }
        if (strcasecmp(f->names[i], name) == 0) {
            f->counts[i]++;
            return;
        }
    }
}

static void serve(struct fake_redis *f, struct fake_link *l, int argc, char **argv)
{
    count(f, argv[0]);
    if (f->times == 0 || strcasecmp(f->hook, argv[0]) != 0) {
        execute(f, l, argc, argv, false);
        return;
    }
    f->times--;
    if (f->fate == FAKE_REDIS_SAY) {
        say(l, f->text);
    } else if (f->fate == FAKE_REDIS_CUT) {
        link_end(l);
    } else {
        execute(f, l, argc, argv, true);
    }
    if (f->fate == FAKE_REDIS_LOSE) {
        link_end(l);
    }
}

/* Where the line's "\r\n" is; NULL: it has not come. */
static char *line_end(char *at, const char *end)
{
    for (; at + 1 < end; at++) {
        if (at[0] == '\r' && at[1] == '\n') {
            return at;
        }
    }
    return NULL;
}

/* Cuts one command from the input, its words in place. Returns its bytes; 0: it is not whole. */
static size_t cut_command(struct fake_link *l, int *ret_argc, char *argv[WORDS])
{
    char *at = l->input;
    char *end = l->input + l->len;
    char *line = line_end(at, end);
    if (line == NULL || at[0] != '*') {
        return 0;
    }
    int argc = atoi(at + 1);
    at = line + 2;
    for (int i = 0; i < argc && i < WORDS; i++) {
        line = line_end(at, end);
        long len = line == NULL ? 0 : strtol(at + 1, NULL, 10);
        if (line == NULL || end - line - 2 < len + 2) {
            return 0;
        }
        argv[i] = line + 2;
        argv[i][len] = '\0'; /* instead of the CR */
        at = line + 2 + len + 2;
    }
    *ret_argc = argc;
    return (size_t)(at - l->input);
}

static void link_read(struct fake_redis *f, struct fake_link *l)
{
    char *argv[WORDS];
    int argc = 0;
    ssize_t n = recv(l->fd, l->input + l->len, sizeof l->input - l->len, 0);
    if (n <= 0) {
        link_end(l);
        return;
    }
    l->len += (size_t)n;
    for (size_t size; l->fd >= 0 && (size = cut_command(l, &argc, argv)) > 0;) {
        serve(f, l, argc, argv);
        memmove(l->input, l->input + size, l->len - size);
        l->len -= size;
    }
}

static void link_accept(struct fake_redis *f)
{
    int on = 1;
    int fd = accept(f->listener, NULL, NULL);
    for (int i = 0; i < LINKS && fd >= 0; i++) {
        if (f->links[i].fd < 0) {
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            f->links[i] = (struct fake_link){.fd = fd};
            f->accepted++;
            return;
        }
    }
    if (fd >= 0) {
        close(fd);
    }
}

static void *run(void *arg)
{
    struct fake_redis *f = arg;
    struct pollfd fds[LINKS + 2];
    pthread_mutex_lock(&f->lock);
    while (!f->ending) {
        fds[0] = (struct pollfd){.fd = f->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = f->listener, .events = POLLIN};
        for (int i = 0; i < LINKS; i++) {
            fds[i + 2] = (struct pollfd){.fd = f->links[i].fd, .events = POLLIN};
        }
        pthread_mutex_unlock(&f->lock);
        (void)poll(fds, LINKS + 2, -1);
        pthread_mutex_lock(&f->lock);
        if (fds[0].revents != 0) {
            uint64_t times;
            (void)!read(f->wake, &times, sizeof times);
        }
        for (int i = 0; i < LINKS; i++) {
            if (fds[i + 2].revents != 0 && f->links[i].fd == fds[i + 2].fd) {
                link_read(f, &f->links[i]);
            }
        }
        if (fds[1].revents != 0) {
            link_accept(f);
        }
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static void wake(struct fake_redis *f)
{
    uint64_t one = 1;
    (void)!write(f->wake, &one, sizeof one);
}

struct fake_redis *fake_redis_start(bool master, const char *run_id)
{
    struct fake_redis *f = calloc(1, sizeof *f);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    if (f == NULL) {
        return NULL;
    }
    f->master = master;
    f->link_up = true;
    f->run_id = run_id;
    for (int i = 0; i < LINKS; i++) {
        f->links[i].fd = -1;
    }
    pthread_mutex_init(&f->lock, NULL);
    f->wake = eventfd(0, EFD_CLOEXEC);
    f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (f->wake < 0 || f->listener < 0 ||
        bind(f->listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(f->listener, 16) != 0 ||
        getsockname(f->listener, (struct sockaddr *)&at, &len) != 0 ||
        pthread_create(&f->thread, NULL, run, f) != 0) {
        return NULL; /* the test ends */
    }
    snprintf(f->address, sizeof f->address, "127.0.0.1:%d", ntohs(at.sin_port));
    return f;
}

void fake_redis_stop(struct fake_redis *f)
{
    pthread_mutex_lock(&f->lock);
    f->ending = true;
    pthread_mutex_unlock(&f->lock);
    wake(f);
    pthread_join(f->thread, NULL);
    for (int i = 0; i < LINKS; i++) {
        link_end(&f->links[i]);
    }
    close(f->listener);
    close(f->wake);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

const char *fake_redis_address(const struct fake_redis *f)
{
    return f->address;
}

#define SET(f, field, to)                                                                          \
    do {                                                                                           \
        pthread_mutex_lock(&(f)->lock);                                                            \
        (f)->field = (to);                                                                         \
        pthread_mutex_unlock(&(f)->lock);                                                          \
    } while (0)

void fake_redis_set_master(struct fake_redis *f, bool master)
{
    SET(f, master, master);
}

void fake_redis_set_link(struct fake_redis *f, bool up)
{
    SET(f, link_up, up);
}

void fake_redis_set_password(struct fake_redis *f, const char *password)
{
    SET(f, password, password);
}

void fake_redis_set(struct fake_redis *f, int64_t value, int replicas)
{
    pthread_mutex_lock(&f->lock);
    f->value = value;
    f->replicas = replicas;
    pthread_mutex_unlock(&f->lock);
}

void fake_redis_hook(struct fake_redis *f, const char *name, int times, enum fake_redis_fate fate,
                     const char *text)
{
    pthread_mutex_lock(&f->lock);
    f->hook = name;
    f->times = times;
    f->fate = fate;
    f->text = text;
    pthread_mutex_unlock(&f->lock);
}

void fake_redis_cut(struct fake_redis *f)
{
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < LINKS; i++) {
        link_end(&f->links[i]);
    }
    pthread_mutex_unlock(&f->lock);
    wake(f);
}

int64_t fake_redis_value(struct fake_redis *f)
{
    pthread_mutex_lock(&f->lock);
    int64_t value = f->value;
    pthread_mutex_unlock(&f->lock);
    return value;
}

int fake_redis_count(struct fake_redis *f, const char *name)
{
    int found = 0;
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < NAMES; i++) {
        found += strcasecmp(f->names[i], name) == 0 ? f->counts[i] : 0;
    }
    pthread_mutex_unlock(&f->lock);
    return found;
}

int fake_redis_accepted(struct fake_redis *f)
{
    pthread_mutex_lock(&f->lock);
    int accepted = f->accepted;
    pthread_mutex_unlock(&f->lock);
    return accepted;
}

int fake_redis_open(struct fake_redis *f)
{
    int links = 0;
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < LINKS; i++) {
        links += f->links[i].fd >= 0;
    }
    pthread_mutex_unlock(&f->lock);
    return links;
}
