#include "support/candidate.h"

int64_t usual_session_ms = LONG_SESSION_MS;

static void candidate_enter(struct candidate *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->broken |= (c->inside ? BROKEN_OVERLAP : 0) | (c->closed > 0 ? BROKEN_AFTER_END : 0);
    c->inside = true;
}

static void candidate_leave(struct candidate *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->inside = false;
    (void)pthread_mutex_unlock(&c->lock);
}

static int candidate_elected(struct conclave_election *election, struct conclave_token token,
                             bool regrant, void *ctx)
{
    struct candidate *c = ctx;
    int64_t from = now_ns();
    int result = 0;
    candidate_enter(c);
    c->broken |= c->elected != c->revoked ? BROKEN_ALTERNATION : 0;
    if (c->elected < TERMS_MAX) {
        c->terms[c->elected] =
            (struct term){.from_ns = from, .token = token.czxid, .regrant = regrant};
    }
    c->elected++;
    if (c->fail_elected > 0) {
        c->fail_elected--;
        result = -1;
    }
    int64_t ms = c->elected_ms;
    (void)pthread_mutex_unlock(&c->lock);
    sleep_ms(ms);
    if (c->in_elected != NULL) {
        c->in_elected(c);
    }
    candidate_leave(c);
    (void)pthread_mutex_lock(&c->lock);
    c->started++;
    (void)pthread_mutex_unlock(&c->lock);
    return result;
}

/* The lease of the revoked grant: it is not renewed before on_revoked has returned. */
static int64_t lease_end(const struct conclave_election *election)
{
    struct conclave_client *client = election->c.handle.rt->client;
    client_lock(client);
    int64_t until = election->c.holder.until_ns;
    client_unlock(client);
    return until;
}

static void candidate_revoked(struct conclave_election *election, int why, int64_t stop_within_ms,
                              void *ctx)
{
    struct candidate *c = ctx;
    int64_t to = now_ns();
    bool leads = conclave_election_is_leader(election);
    int64_t until = lease_end(election);
    candidate_enter(c);
    c->broken |=
        (leads ? BROKEN_LEADS : 0) | (c->elected != c->revoked + 1 ? BROKEN_ALTERNATION : 0);
    if (c->revoked < TERMS_MAX) {
        c->terms[c->revoked].to_ns = to;
        c->terms[c->revoked].over_ns = until != 0 && until < to ? until : to;
        c->terms[c->revoked].why = why;
        c->terms[c->revoked].stop_within_ms = stop_within_ms;
    }
    c->revoked++;
    int64_t ms = c->revoked_ms;
    (void)pthread_mutex_unlock(&c->lock);
    sleep_ms(ms);
    if (c->in_revoked != NULL) {
        c->in_revoked(c);
    }
    candidate_leave(c);
}

static void candidate_leader(struct conclave_election *election,
                             const struct conclave_participant *leader, bool acked, void *ctx)
{
    struct candidate *c = ctx;
    candidate_enter(c);
    c->leaders++;
    size_t len = strlen(c->leader_log);
    (void)snprintf(c->leader_log + len, sizeof c->leader_log - len, "%s%s%s", len == 0 ? "" : " ",
                   leader == NULL ? "-" : leader->id, acked ? "*" : "");
    c->leader_token = leader == NULL ? 0 : leader->token.czxid;
    (void)pthread_mutex_unlock(&c->lock);
    candidate_leave(c);
}

static void candidate_closed(struct conclave_election *election, int why, void *ctx)
{
    struct candidate *c = ctx;
    candidate_enter(c);
    (void)pthread_mutex_unlock(&c->lock);
    if (c->in_closed != NULL) {
        c->in_closed(c);
    }
    candidate_leave(c);
    (void)pthread_mutex_lock(&c->lock);
    c->closed_why = why;
    c->closed++;
    (void)pthread_mutex_unlock(&c->lock);
}

const struct conclave_election_callbacks candidate_callbacks = {
    sizeof candidate_callbacks, candidate_elected, candidate_revoked,
    candidate_leader,           candidate_closed,
};

int candidate_get(struct candidate *c, const int *field)
{
    (void)pthread_mutex_lock(&c->lock);
    int value = *field;
    (void)pthread_mutex_unlock(&c->lock);
    return value;
}

struct term candidate_term(struct candidate *c, int index)
{
    (void)pthread_mutex_lock(&c->lock);
    struct term term = c->terms[index];
    (void)pthread_mutex_unlock(&c->lock);
    return term;
}

bool candidate_log_is(struct candidate *c, const char *log)
{
    (void)pthread_mutex_lock(&c->lock);
    bool same = strcmp(c->leader_log, log) == 0;
    (void)pthread_mutex_unlock(&c->lock);
    return same;
}

bool candidate_log_has(struct candidate *c, const char *part)
{
    (void)pthread_mutex_lock(&c->lock);
    bool has = strstr(c->leader_log, part) != NULL;
    (void)pthread_mutex_unlock(&c->lock);
    return has;
}

bool candidate_log_ends(struct candidate *c, const char *end)
{
    (void)pthread_mutex_lock(&c->lock);
    size_t len = strlen(c->leader_log);
    bool ends = len >= strlen(end) && strcmp(c->leader_log + len - strlen(end), end) == 0;
    (void)pthread_mutex_unlock(&c->lock);
    return ends;
}

int64_t candidate_leader_token(struct candidate *c)
{
    (void)pthread_mutex_lock(&c->lock);
    int64_t token = c->leader_token;
    (void)pthread_mutex_unlock(&c->lock);
    return token;
}

struct conclave_election_options candidate_options(const char *name)
{
    struct conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
    options.path = ELECTION_PATH;
    options.id = name;
    options.backoff_min_ms = 20;
    options.backoff_max_ms = 200;
    return options;
}

void candidate_connect_to(struct candidate *c, struct fake_zk *zk, int endpoint, const char *name,
                          const char *servers, int64_t session_ms)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    memset(c, 0, sizeof *c);
    c->name = name;
    c->zk = zk;
    c->endpoint = endpoint;
    (void)pthread_mutex_init(&c->lock, NULL);
    options.servers = servers != NULL ? servers : fake_zk_address(zk, endpoint);
    options.session_timeout_ms = session_ms;
    assert_int_equal(conclave_client_open(&options, &c->client), 0);
    assert_int_equal(conclave_client_start(c->client), 0);
    assert_int_equal(conclave_recipes_open(c->client, &c->recipes), 0);
}

void candidate_connect(struct candidate *c, struct fake_zk *zk, int endpoint, const char *name)
{
    candidate_connect_to(c, zk, endpoint, name, NULL, usual_session_ms);
}

void candidate_join_with(struct candidate *c, const struct conclave_election_options *options)
{
    assert_int_equal(
        conclave_election_open(c->recipes, options, &candidate_callbacks, c, &c->election), 0);
}

void candidate_join(struct candidate *c)
{
    struct conclave_election_options options = candidate_options(c->name);
    candidate_join_with(c, &options);
}

void candidate_share(struct candidate *c, const struct candidate *with, const char *name)
{
    memset(c, 0, sizeof *c);
    c->name = name;
    c->zk = with->zk;
    c->endpoint = with->endpoint;
    c->client = with->client;
    c->recipes = with->recipes;
    c->shares = true;
    (void)pthread_mutex_init(&c->lock, NULL);
}

void candidate_node(struct candidate *c, char *buf, size_t len)
{
    char name[128];
    conclave_election_node(c->election, name, sizeof name);
    (void)snprintf(buf, len, "%s/%s", ELECTION_PATH, name);
}

bool candidate_has_node(struct candidate *c)
{
    char name[128];
    conclave_election_node(c->election, name, sizeof name);
    return name[0] != '\0';
}

int64_t candidate_session(struct candidate *c)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    conclave_client_session(c->client, &session);
    return session.id;
}

bool candidate_suspended(struct candidate *c)
{
    client_lock(c->client);
    bool connected = client_is_connected(c->client);
    client_unlock(c->client);
    return !connected;
}

void requests_settled(struct fake_zk *zk, int endpoint)
{
    for (int quiet = 0, last = -1; quiet < 100;) {
        int now = (int)fake_zk_count(zk, endpoint, FAKE_ANY_OP);
        quiet = now == last ? quiet + 1 : 0;
        last = now;
        sleep_ms(1);
    }
}

void candidate_settled(struct candidate *c)
{
    EVENTUALLY(candidate_has_node(c));
    for (int quiet = 0, last = -1; quiet < 30;) {
        int now = (int)fake_zk_count(c->zk, c->endpoint, WIRE_GET_DATA);
        quiet = now == last ? quiet + 1 : 0;
        last = now;
        sleep_ms(1);
    }
}

void candidate_close_election(struct candidate *c)
{
    if (c->election == NULL) {
        return;
    }
    assert_int_equal(conclave_election_close_wait(c->election, PATIENCE_MS), 0);
    assert_int_equal((int)c->broken, 0);
    assert_int_equal(c->closed, 1);
    assert_int_equal(c->elected, c->revoked);
    conclave_election_destroy(c->election);
    c->election = NULL;
}

void candidate_finish(struct candidate *c)
{
    candidate_close_election(c);
    if (!c->shares) {
        conclave_recipes_destroy(c->recipes);
        conclave_client_close(c->client, 1000);
    }
    assert_int_equal((int)c->broken, 0);
    (void)pthread_mutex_destroy(&c->lock);
}

bool term_was_void(const struct term *t)
{
    return t->to_ns != 0 && t->from_ns >= t->over_ns;
}

void check_history(struct candidate *const *all, size_t count, bool apart)
{
    for (size_t a = 0; a < count; a++) {
        for (int i = 0; i < all[a]->elected && i < TERMS_MAX; i++) {
            const struct term *x = &all[a]->terms[i];
            for (size_t b = 0; b < count; b++) {
                for (int j = 0; j < all[b]->elected && j < TERMS_MAX; j++) {
                    const struct term *y = &all[b]->terms[j];
                    if (x == y || y->from_ns < x->from_ns || term_was_void(x) || term_was_void(y)) {
                        continue;
                    }
                    assert_true(!apart || (x->to_ns != 0 && x->over_ns <= y->from_ns));
                    assert_true(x->token < y->token || (x->token == y->token && y->regrant));
                }
            }
        }
    }
}

void check_terms(struct candidate *const *all, size_t count)
{
    check_history(all, count, true);
}

void check_tokens(struct candidate *const *all, size_t count)
{
    check_history(all, count, false);
}

void make_parent(struct fake_zk *zk)
{
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, ELECTION_PATH, "", 0);
    fake_zk_create(zk, LEADER_DIR, "", 0);
    fake_zk_create(zk, LEADER_DIR "/last", "", 0);
}

int server_setup(void **state)
{
    usual_session_ms = LONG_SESSION_MS;
    *state = fake_zk_start();
    return *state == NULL ? -1 : 0;
}

int server_setup_expiry(void **state)
{
    int error = server_setup(state);
    usual_session_ms = EXPIRY_SESSION_MS;
    return error;
}

int server_teardown(void **state)
{
    fake_zk_stop(*state);
    return 0;
}

void hook(struct fake_zk *zk, int endpoint, int32_t op, const char *path, int nth,
          enum fake_action action)
{
    struct fake_hook h = {
        .endpoint = endpoint, .op = op, .path = path, .nth = nth, .action = action};
    fake_zk_hook(zk, &h);
}
