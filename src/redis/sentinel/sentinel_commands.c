#include "redis/sentinel/sentinel_commands.h"

#include "redis/sentinel/sentinel_answers.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHOWN_MAX = 100, /* bytes of a client's word in an error */
    FAILOVER_VERSION = 60200,
};

#define SHOWN(word)                                                                                \
    (int)((word).len < SHOWN_MAX ? (word).len : SHOWN_MAX), (const char *)(word).data

struct sentinel_call {
    struct sentinel_session *s;
    const struct sentinel_request *request;
    struct sentinel_out *out;
    struct sentinel_facts facts; /* only for rows with FACTS */
};

enum command_flag {
    ALWAYS = 1, /* also before the log-in */
    PUBSUB = 2, /* also while there are subscriptions, in version 2 of the protocol */
    MASTER = 4, /* SENTINEL: its next word names the master, which must be known */
};

struct sentinel_row {
    const char *name;
    size_t least; /* words, with the command's */
    size_t most;  /* 0: any number */
    unsigned flags;
    void (*run)(struct sentinel_call *c); /* NULL: refused */
};

static struct slice word(const struct sentinel_call *c, size_t place)
{
    assert(place < c->request->count);
    return c->request->words[place];
}

static const struct sentinel_row *row_find(const struct sentinel_row *rows, struct slice name)
{
    for (; rows->name != NULL; rows++) {
        if (sentinel_word_is(name, rows->name)) {
            return rows;
        }
    }
    return NULL;
}

static bool count_fits(const struct sentinel_row *row, size_t count)
{
    return count >= row->least && (row->most == 0 || count <= row->most);
}

static void facts_get(struct sentinel_call *c)
{
    c->s->backend->facts(c->s->backend->ctx, &c->facts);
}

static void no_contact(struct sentinel_call *c)
{
    /* Clients take LOADING for a server to be asked again later, and ask the next one. */
    out_error(c->out, "LOADING This manager has no contact to the ensemble, or there is no record "
                      "yet: ask another one, or later");
}

/* --- subcommands of SENTINEL */

static void run_myid(struct sentinel_call *c)
{
    char id[SENTINEL_ID_SIZE];
    sentinel_id_of(c->facts.name, c->facts.id, id);
    out_text(c->out, id);
}

static void run_masters(struct sentinel_call *c)
{
    if (!c->facts.in_contact || sentinel_master(&c->facts) == REDIS_NONE) {
        no_contact(c);
        return;
    }
    out_array(c->out, 1);
    answer_master(c->out, &c->facts);
}

static void run_master(struct sentinel_call *c)
{
    answer_master(c->out, &c->facts);
}

static void run_replicas(struct sentinel_call *c)
{
    answer_replicas(c->out, &c->facts);
}

static void run_sentinels(struct sentinel_call *c)
{
    answer_sentinels(c->out, &c->facts);
}

static void run_quorum(struct sentinel_call *c)
{
    if (!slice_equal_str(word(c, 2), c->facts.name)) {
        out_error(c->out, "ERR No such master with that name");
    } else {
        answer_quorum(c->out, &c->facts);
    }
}

static void run_address(struct sentinel_call *c)
{
    struct redis_node_config at;
    char port[16];
    const char *master = sentinel_named_master(&c->facts);
    if (!slice_equal_str(word(c, 2), c->facts.name)) {
        out_null_array(c->out);
    } else if (!c->facts.in_contact) {
        no_contact(c);
    } else if (master == NULL || redis_address_parse(master, strlen(master), &at) != 0) {
        out_error(c->out, "LOADING The record has just changed, or there is none yet: ask again");
    } else {
        snprintf(port, sizeof port, "%d", at.port);
        out_array(c->out, 2);
        out_text(c->out, at.host);
        out_text(c->out, port);
    }
}

static void run_failover(struct sentinel_call *c)
{
    const struct sentinel_backend *backend = c->s->backend;
    int version = c->facts.nodes[sentinel_master(&c->facts)].facts.version;
    bool candidate = false;
    for (int i = 0; i < (int)c->facts.config->node_count; i++) {
        candidate = candidate ||
                    (c->facts.nodes[i].state == REDIS_NODE_UP &&
                     c->facts.nodes[i].facts.priority > 0 && sentinel_is_replica(&c->facts, i));
    }
    if (!backend->failover_allowed) {
        out_error(c->out, "NOPERM SENTINEL FAILOVER is not permitted: start the managers with "
                          "--sentinel-failover, or use conclave redis-failover failover");
    } else if (c->facts.plan != NULL) {
        out_error(c->out, "INPROG Failover already in progress");
    } else if (!candidate) {
        out_error(c->out, "NOGOODSLAVE No suitable replica to promote");
    } else if (c->facts.writable && version > 0 && version < FAILOVER_VERSION) {
        out_error(c->out, "ERR Before Redis 6.2 there is no hand-over without loss: use conclave "
                          "redis-failover failover --force");
    } else {
        int error = backend->failover(backend->ctx, c->s->id);
        c->s->state = SENTINEL_WAITING;
        if (error != 0) {
            sentinel_session_requested(c->s, error, c->out->buf);
        }
    }
}

static void run_sentinel_help(struct sentinel_call *c);

static const struct sentinel_row SENTINEL_ROWS[] = {
    {"get-master-addr-by-name", 3, 3, 0, run_address},
    {"masters", 2, 2, 0, run_masters},
    {"master", 3, 3, MASTER, run_master},
    {"replicas", 3, 3, MASTER, run_replicas},
    {"slaves", 3, 3, MASTER, run_replicas},
    {"sentinels", 3, 3, MASTER, run_sentinels},
    {"ckquorum", 3, 3, 0, run_quorum},
    {"failover", 3, 3, MASTER, run_failover},
    {"myid", 2, 2, 0, run_myid},
    {"help", 2, 2, 0, run_sentinel_help},
    {"reset", 2, 0, 0, NULL},
    {"monitor", 2, 0, 0, NULL},
    {"remove", 2, 0, 0, NULL},
    {"set", 2, 0, 0, NULL},
    {"config", 2, 0, 0, NULL},
    {"flushconfig", 2, 0, 0, NULL},
    {"debug", 2, 0, 0, NULL},
    {"simulate-failure", 2, 0, 0, NULL},
    {"is-master-down-by-addr", 2, 0, 0, NULL},
    {"pending-scripts", 2, 0, 0, NULL},
    {"info-cache", 2, 0, 0, NULL},
    {.name = NULL},
};

static void run_sentinel_help(struct sentinel_call *c)
{
    size_t count = 0;
    for (const struct sentinel_row *row = SENTINEL_ROWS; row->name != NULL; row++) {
        count += row->run != NULL;
    }
    out_array(c->out, count);
    for (const struct sentinel_row *row = SENTINEL_ROWS; row->name != NULL; row++) {
        if (row->run != NULL) {
            buf_printf(c->out->buf, "+SENTINEL %s%s\r\n", row->name,
                       row->least > 2 ? " <master-name>" : "");
        }
    }
}

static void run_sentinel(struct sentinel_call *c)
{
    const struct sentinel_row *row = row_find(SENTINEL_ROWS, word(c, 1));
    facts_get(c);
    if (row == NULL) {
        out_error(c->out, "ERR unknown subcommand '%.*s'. Try SENTINEL HELP.", SHOWN(word(c, 1)));
    } else if (!count_fits(row, c->request->count)) {
        out_error(c->out, "ERR wrong number of arguments for 'sentinel|%s' command", row->name);
    } else if (row->run == NULL) {
        out_error(c->out,
                  "ERR SENTINEL %s is refused: the options of conclave redis-failover and the "
                  "ensemble decide what the managers watch",
                  row->name);
    } else if ((row->flags & MASTER) != 0 && !slice_equal_str(word(c, 2), c->facts.name)) {
        out_error(c->out, "ERR No such master with that name");
    } else if ((row->flags & MASTER) != 0 &&
               (!c->facts.in_contact || sentinel_master(&c->facts) == REDIS_NONE)) {
        no_contact(c);
    } else {
        row->run(c);
    }
}

/* --- the connection */

static void run_ping(struct sentinel_call *c)
{
    bool pushes = c->s->channel_count > 0 && !c->out->resp3;
    if (pushes) {
        out_array(c->out, 2);
        out_text(c->out, "pong");
    }
    if (c->request->count > 1) {
        out_slice(c->out, word(c, 1));
    } else if (pushes) {
        out_text(c->out, "");
    } else {
        out_status(c->out, "PONG");
    }
}

static bool log_in(struct sentinel_call *c, struct slice name, struct slice password)
{
    const struct sentinel_users *users = c->s->backend->users;
    if (users == NULL ? !sentinel_word_is(name, "default")
                      : !sentinel_users_permit(users, name, password)) {
        out_error(c->out, "WRONGPASS invalid username-password pair or user is disabled.");
        if (++c->s->wrong_tries == SENTINEL_TRIES_MAX) {
            c->s->refusal = "too many wrong passwords";
            c->s->state = SENTINEL_OVER;
        }
        return false;
    }
    c->s->logged_in = true;
    return true;
}

static void run_auth(struct sentinel_call *c)
{
    bool named = c->request->count == 3;
    struct slice name = named ? word(c, 1) : slice_str("default");
    if (!named && c->s->backend->users == NULL) {
        out_error(c->out, "ERR AUTH <password> called without any password configured for the "
                          "default user. Are you sure your configuration is correct?");
    } else if (log_in(c, name, word(c, named ? 2 : 1))) {
        out_status(c->out, "OK");
    }
}

/* False: the name was refused, with an error. */
static bool set_name(struct sentinel_call *c, struct slice name)
{
    bool good = name.len < sizeof c->s->name;
    for (size_t i = 0; i < name.len; i++) {
        good = good && name.data[i] > ' ' && name.data[i] <= '~';
    }
    if (!good) {
        out_error(c->out,
                  "ERR Client names cannot contain spaces, newlines or special characters, "
                  "and have at most %d bytes",
                  SENTINEL_CHANNEL_MAX - 1);
        return false;
    }
    memcpy(c->s->name, name.data, name.len);
    c->s->name[name.len] = '\0';
    c->s->has_name = name.len > 0;
    return true;
}

/* HELLO [version [AUTH name password] [SETNAME name]] */
static void run_hello(struct sentinel_call *c)
{
    size_t count = c->request->count;
    bool resp3 = c->out->resp3;
    if (count > 1) {
        resp3 = slice_equal_str(word(c, 1), "3");
        if (!resp3 && !slice_equal_str(word(c, 1), "2")) {
            out_error(c->out, "NOPROTO unsupported protocol version");
            return;
        }
    }
    for (size_t i = 2; i < count;) {
        if (sentinel_word_is(word(c, i), "auth") && i + 2 < count) {
            if (!log_in(c, word(c, i + 1), word(c, i + 2))) {
                return;
            }
            i += 3;
        } else if (sentinel_word_is(word(c, i), "setname") && i + 1 < count) {
            if (!set_name(c, word(c, i + 1))) {
                return;
            }
            i += 2;
        } else {
            out_error(c->out, "ERR Syntax error in HELLO option '%.*s'", SHOWN(word(c, i)));
            return;
        }
    }
    if (!c->s->logged_in) {
        out_error(c->out, "NOAUTH HELLO must be called with the client already authenticated, "
                          "otherwise the HELLO <proto> AUTH <user> <pass> option can be used to "
                          "authenticate the client and select the RESP protocol version at the "
                          "same time");
        return;
    }
    c->s->resp3 = resp3;
    c->out->resp3 = resp3;
    out_map(c->out, 6);
    out_text(c->out, "server");
    out_text(c->out, "redis");
    out_text(c->out, "version");
    out_text(c->out, SENTINEL_VERSION);
    out_text(c->out, "proto");
    out_number(c->out, resp3 ? 3 : 2);
    out_text(c->out, "id");
    out_number(c->out, (int64_t)c->s->id);
    out_text(c->out, "mode");
    out_text(c->out, "sentinel");
    out_text(c->out, "modules");
    out_array(c->out, 0);
}

static void run_client(struct sentinel_call *c)
{
    struct slice sub = word(c, 1);
    size_t count = c->request->count;
    if (sentinel_word_is(sub, "setname") && count == 3) {
        if (set_name(c, word(c, 2))) {
            out_status(c->out, "OK");
        }
    } else if (sentinel_word_is(sub, "setinfo") && count == 4) {
        out_status(c->out, "OK");
    } else if (sentinel_word_is(sub, "getname") && count == 2 && c->s->has_name) {
        out_text(c->out, c->s->name);
    } else if (sentinel_word_is(sub, "getname") && count == 2) {
        out_null(c->out);
    } else if (sentinel_word_is(sub, "id") && count == 2) {
        out_number(c->out, (int64_t)c->s->id);
    } else {
        out_error(c->out,
                  "ERR unknown subcommand or wrong number of arguments for '%.*s'. "
                  "Try CLIENT SETNAME, GETNAME, SETINFO or ID.",
                  SHOWN(sub));
    }
}

static void run_info(struct sentinel_call *c)
{
    facts_get(c);
    answer_info(c->out, &c->facts, c->request->count > 1 ? &c->request->words[1] : NULL);
}

static void run_role(struct sentinel_call *c)
{
    facts_get(c);
    out_array(c->out, 2);
    out_text(c->out, "sentinel");
    out_array(c->out, 1);
    out_text(c->out, c->facts.name);
}

static void run_quit(struct sentinel_call *c)
{
    out_status(c->out, "OK");
    c->s->state = SENTINEL_OVER;
}

static void run_reset(struct sentinel_call *c)
{
    unsigned wrong_tries = c->s->wrong_tries;
    sentinel_session_finish(c->s);
    sentinel_session_init(c->s, c->s->backend, c->s->id);
    c->s->wrong_tries = wrong_tries;
    c->out->resp3 = false;
    out_status(c->out, "RESET");
}

/* --- subscriptions */

static size_t channel_find(const struct sentinel_session *s, bool pattern, struct slice text)
{
    size_t at = 0;
    while (at < s->channel_count &&
           (s->channels[at].pattern != pattern ||
            !slice_equal(slice_make(s->channels[at].text, s->channels[at].len), text))) {
        at++;
    }
    return at;
}

static void subscription_tell(struct sentinel_call *c, const char *kind, const struct slice *text)
{
    out_push(c->out, 3);
    out_text(c->out, kind);
    if (text != NULL) {
        out_slice(c->out, *text);
    } else {
        out_null(c->out);
    }
    out_number(c->out, (int64_t)c->s->channel_count);
}

static void subscribe(struct sentinel_call *c, bool pattern)
{
    struct sentinel_session *s = c->s;
    if (s->channels == NULL) {
        s->channels = calloc(SENTINEL_CHANNELS_MAX, sizeof *s->channels);
    }
    if (s->channels == NULL) {
        out_error(c->out, "ERR out of memory");
        return;
    }
    for (size_t i = 1; i < c->request->count; i++) {
        struct slice text = word(c, i);
        bool known = channel_find(s, pattern, text) < s->channel_count;
        if (!known &&
            (s->channel_count == SENTINEL_CHANNELS_MAX || text.len >= SENTINEL_CHANNEL_MAX)) {
            out_error(c->out, "ERR at most %d subscriptions of less than %d bytes",
                      SENTINEL_CHANNELS_MAX, SENTINEL_CHANNEL_MAX);
            return;
        }
        if (!known) {
            struct sentinel_channel *channel = &s->channels[s->channel_count++];
            channel->pattern = pattern;
            channel->len = (uint8_t)text.len;
            memcpy(channel->text, text.data, text.len);
        }
        subscription_tell(c, pattern ? "psubscribe" : "subscribe", &text);
    }
}

static void channel_remove(struct sentinel_call *c, size_t at, const char *kind)
{
    struct sentinel_session *s = c->s;
    assert(at < s->channel_count);
    struct sentinel_channel gone = s->channels[at];
    struct slice text = slice_make(gone.text, gone.len);
    s->channels[at] = s->channels[--s->channel_count];
    subscription_tell(c, kind, &text);
}

/* Without words: from all of this kind. */
static void unsubscribe(struct sentinel_call *c, bool pattern)
{
    struct sentinel_session *s = c->s;
    const char *kind = pattern ? "punsubscribe" : "unsubscribe";
    bool told = c->request->count > 1;
    for (size_t i = 1; i < c->request->count; i++) {
        struct slice text = word(c, i);
        size_t at = channel_find(s, pattern, text);
        if (at < s->channel_count) {
            channel_remove(c, at, kind);
        } else {
            subscription_tell(c, kind, &text);
        }
    }
    bool all = !told;
    for (size_t at = s->channel_count; all && at-- > 0;) {
        if (s->channels[at].pattern == pattern) {
            channel_remove(c, at, kind);
            told = true;
        }
    }
    if (!told) {
        subscription_tell(c, kind, NULL);
    }
}

static void run_subscribe(struct sentinel_call *c)
{
    subscribe(c, false);
}

static void run_psubscribe(struct sentinel_call *c)
{
    subscribe(c, true);
}

static void run_unsubscribe(struct sentinel_call *c)
{
    unsubscribe(c, false);
}

static void run_punsubscribe(struct sentinel_call *c)
{
    unsubscribe(c, true);
}

/* --- the table */

static void run_command_list(struct sentinel_call *c);

static const struct sentinel_row COMMANDS[] = {
    {"ping", 1, 2, PUBSUB, run_ping},
    {"sentinel", 2, 0, 0, run_sentinel},
    {"subscribe", 2, 0, PUBSUB, run_subscribe},
    {"unsubscribe", 1, 0, PUBSUB, run_unsubscribe},
    {"psubscribe", 2, 0, PUBSUB, run_psubscribe},
    {"punsubscribe", 1, 0, PUBSUB, run_punsubscribe},
    {"auth", 2, 3, ALWAYS, run_auth},
    {"hello", 1, 0, ALWAYS, run_hello},
    {"client", 2, 0, 0, run_client},
    {"info", 1, 0, 0, run_info},
    {"role", 1, 1, 0, run_role},
    {"command", 1, 0, 0, run_command_list},
    {"reset", 1, 1, ALWAYS | PUBSUB, run_reset},
    {"quit", 1, 0, ALWAYS | PUBSUB, run_quit},
    {.name = NULL},
};

/* One row of COMMAND: name, arity, flags, no keys. */
static void tell_command(struct sentinel_call *c, const struct sentinel_row *row)
{
    bool fixed = row->most == row->least;
    out_array(c->out, 6);
    out_text(c->out, row->name);
    out_number(c->out, fixed ? (int64_t)row->least : -(int64_t)row->least);
    out_array(c->out, 0);
    out_number(c->out, 0);
    out_number(c->out, 0);
    out_number(c->out, 0);
}

/* COMMAND, COMMAND COUNT; COMMAND DOCS and INFO know nothing about commands. */
static void run_command_list(struct sentinel_call *c)
{
    size_t count = sizeof COMMANDS / sizeof COMMANDS[0] - 1;
    if (c->request->count == 1) {
        out_array(c->out, count);
        for (const struct sentinel_row *row = COMMANDS; row->name != NULL; row++) {
            tell_command(c, row);
        }
    } else if (sentinel_word_is(word(c, 1), "count")) {
        out_number(c->out, (int64_t)count);
    } else if (sentinel_word_is(word(c, 1), "docs")) {
        out_map(c->out, 0);
    } else if (sentinel_word_is(word(c, 1), "info")) {
        out_array(c->out, c->request->count - 2);
        for (size_t i = 2; i < c->request->count; i++) {
            const struct sentinel_row *row = row_find(COMMANDS, word(c, i));
            if (row != NULL) {
                tell_command(c, row);
            } else {
                out_null_array(c->out);
            }
        }
    } else {
        out_error(c->out, "ERR unknown subcommand '%.*s'. Try COMMAND HELP.", SHOWN(word(c, 1)));
    }
}

static void tell_unknown(struct sentinel_call *c)
{
    char args[2 * SHOWN_MAX] = "";
    size_t len = 0;
    for (size_t i = 1; i < c->request->count && len < SHOWN_MAX; i++) {
        struct slice arg = word(c, i);
        int room = (int)(sizeof args - len) - 4;
        int shown = arg.len < (size_t)room ? (int)arg.len : room;
        len += (size_t)snprintf(args + len, sizeof args - len, "'%.*s' ", shown,
                                (const char *)arg.data);
        len = len < sizeof args ? len : sizeof args - 1;
    }
    out_error(c->out, "ERR unknown command '%.*s', with args beginning with: %s", SHOWN(word(c, 0)),
              args);
}

void sentinel_command(struct sentinel_session *s, const struct sentinel_request *request,
                      struct sentinel_out *out)
{
    struct sentinel_call c = {.s = s, .request = request, .out = out};
    const struct sentinel_row *row = row_find(COMMANDS, word(&c, 0));
    if (!s->logged_in && (row == NULL || (row->flags & ALWAYS) == 0)) {
        out_error(out, "NOAUTH Authentication required.");
    } else if (row == NULL) {
        tell_unknown(&c);
    } else if (!count_fits(row, request->count)) {
        out_error(out, "ERR wrong number of arguments for '%s' command", row->name);
    } else if (s->channel_count > 0 && !s->resp3 && (row->flags & PUBSUB) == 0) {
        out_error(out,
                  "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / "
                  "RESET are allowed in this context",
                  row->name);
    } else {
        row->run(&c);
    }
}
