#include "support/locker.h"

static void told(struct locker *l)
{
    l->after_end = l->after_end || l->closed > 0;
}

static void on_lost(struct conclave_lock *lock, int why, int64_t stop_within_ms, void *ctx)
{
    struct locker *l = ctx;
    bool held = conclave_lock_is_held(lock);
    (void)pthread_mutex_lock(&l->mutex);
    told(l);
    l->after_end = l->after_end || held; /* held is false before the callbacks run */
    l->lost++;
    l->lost_why = why;
    l->stop_within_ms = stop_within_ms;
    (void)pthread_mutex_unlock(&l->mutex);
}

static void on_revoke(struct conclave_lock *lock, void *ctx)
{
    struct locker *l = ctx;
    (void)pthread_mutex_lock(&l->mutex);
    told(l);
    l->revokes++;
    (void)pthread_mutex_unlock(&l->mutex);
}

static void on_closed(struct conclave_lock *lock, int why, void *ctx)
{
    struct locker *l = ctx;
    (void)pthread_mutex_lock(&l->mutex);
    told(l);
    l->closed++;
    (void)pthread_mutex_unlock(&l->mutex);
}

static const struct conclave_lock_callbacks callbacks = {sizeof callbacks, on_lost, on_revoke,
                                                         on_closed, NULL};

void locker_connect_to(struct locker *l, struct fake_zk *zk, int endpoint, const char *name,
                       const char *servers, int64_t session_ms)
{
    struct conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    memset(l, 0, sizeof *l);
    l->name = name;
    l->zk = zk;
    l->endpoint = endpoint;
    l->answer = UNTOLD;
    (void)pthread_mutex_init(&l->mutex, NULL);
    options.servers = servers != NULL ? servers : fake_zk_address(zk, endpoint);
    options.session_timeout_ms = session_ms;
    assert_int_equal(conclave_client_open(&options, &l->client), 0);
    assert_int_equal(conclave_client_start(l->client), 0);
    assert_int_equal(conclave_recipes_open(l->client, &l->recipes), 0);
}

void locker_connect(struct locker *l, struct fake_zk *zk, int endpoint, const char *name)
{
    locker_connect_to(l, zk, endpoint, name, NULL, usual_session_ms);
    assert_int_equal(conclave_client_wait_connected(l->client, PATIENCE_MS), 0);
}

void locker_share(struct locker *l, const struct locker *with, const char *name)
{
    memset(l, 0, sizeof *l);
    l->name = name;
    l->zk = with->zk;
    l->endpoint = with->endpoint;
    l->client = with->client;
    l->recipes = with->recipes;
    l->shares = true;
    l->answer = UNTOLD;
    (void)pthread_mutex_init(&l->mutex, NULL);
}

struct conclave_lock_options locker_options(const char *name)
{
    struct conclave_lock_options options = CONCLAVE_LOCK_OPTIONS_INIT;
    options.path = LOCK_PATH;
    options.id = name;
    return options;
}

void locker_create_with(struct locker *l, const struct conclave_lock_options *options)
{
    assert_int_equal(conclave_lock_open(l->recipes, options, &callbacks, l, &l->lock), 0);
}

void locker_create(struct locker *l)
{
    struct conclave_lock_options options = locker_options(l->name);
    locker_create_with(l, &options);
}

void locker_open(struct locker *l, struct fake_zk *zk, int endpoint, const char *name)
{
    locker_open_kind(l, zk, endpoint, name, CONCLAVE_LOCK_EXCLUSIVE);
}

void locker_open_kind(struct locker *l, struct fake_zk *zk, int endpoint, const char *name,
                      enum conclave_lock_kind kind)
{
    struct conclave_lock_options options = locker_options(name);
    options.kind = kind;
    locker_connect(l, zk, endpoint, name);
    locker_create_with(l, &options);
}

void locker_close(struct locker *l)
{
    if (l->lock == NULL) {
        return;
    }
    assert_int_equal(conclave_lock_close_wait(l->lock, PATIENCE_MS), 0);
    assert_false(l->after_end);
    assert_int_equal(l->closed, 1);
    conclave_lock_destroy(l->lock);
    l->lock = NULL;
}

void locker_finish(struct locker *l)
{
    locker_close(l);
    if (!l->shares) {
        conclave_recipes_destroy(l->recipes);
        conclave_client_close(l->client, 1000);
    }
    assert_false(l->after_end);
    (void)pthread_mutex_destroy(&l->mutex);
}

int locker_get(struct locker *l, const int *field)
{
    (void)pthread_mutex_lock(&l->mutex);
    int value = *field;
    (void)pthread_mutex_unlock(&l->mutex);
    return value;
}

static void on_released(struct conclave_lock *lock, int error, void *ctx)
{
    struct locker *l = ctx;
    (void)pthread_mutex_lock(&l->mutex);
    told(l);
    l->releases += error == 0 ? 1 : 0;
    (void)pthread_mutex_unlock(&l->mutex);
}

static void on_answer(struct conclave_lock *lock, int error, struct conclave_token token, void *ctx)
{
    struct locker *l = ctx;
    (void)pthread_mutex_lock(&l->mutex);
    told(l);
    l->token = token.czxid;
    l->answer = error;
    l->answers++;
    bool release = l->release_in && error == 0;
    (void)pthread_mutex_unlock(&l->mutex);
    if (release) {
        int blocked = conclave_lock_release(lock, 1000);
        int released = conclave_lock_release_async(lock, 1, on_released, l);
        (void)pthread_mutex_lock(&l->mutex);
        l->inside_error = released == 0 ? blocked : released;
        (void)pthread_mutex_unlock(&l->mutex);
    }
}

void locker_ask(struct locker *l, int64_t timeout_ms)
{
    assert_int_equal(conclave_lock_acquire_async(l->lock, 1, timeout_ms, on_answer, l), 0);
}

void locker_let_go(struct locker *l)
{
    assert_int_equal(conclave_lock_release_async(l->lock, 1, on_released, l), 0);
}

bool locker_node(struct locker *l, char *buf, size_t len)
{
    char name[128];
    conclave_lock_node(l->lock, name, sizeof name);
    (void)snprintf(buf, len, "%s/%s", LOCK_PATH, name);
    return name[0] != '\0';
}

int64_t locker_session(struct locker *l)
{
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    conclave_client_session(l->client, &session);
    return session.id;
}

bool locker_suspended(struct locker *l)
{
    client_lock(l->client);
    bool connected = client_is_connected(l->client);
    client_unlock(l->client);
    return !connected;
}

void locker_settled(struct locker *l)
{
    char node[256];
    EVENTUALLY(locker_node(l, node, sizeof node));
    for (int quiet = 0, last = -1; quiet < 30;) {
        int now = (int)fake_zk_count(l->zk, l->endpoint, FAKE_ANY_OP);
        quiet = now == last ? quiet + 1 : 0;
        last = now;
        sleep_ms(1);
    }
}

void all_gone(struct fake_zk *zk, const char *path)
{
    EVENTUALLY(fake_zk_child_count(zk, path) == 0);
}
