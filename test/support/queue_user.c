#include "support/queue_user.h"

static void on_lost(struct conclave_queue *queue, struct conclave_item *item, void *ctx)
{
    struct queue_user *u = ctx;
    (void)pthread_mutex_lock(&u->lock);
    u->after_end += u->closed > 0 ? 1 : 0;
    u->lost += conclave_item_is_held(item) ? 1000 : 1;
    (void)pthread_mutex_unlock(&u->lock);
}

static void on_size(struct conclave_queue *queue, int64_t count, void *ctx)
{
    struct queue_user *u = ctx;
    (void)pthread_mutex_lock(&u->lock);
    u->after_end += u->closed > 0 ? 1 : 0;
    u->size = count;
    u->sizes++;
    (void)pthread_mutex_unlock(&u->lock);
}

static void on_closed(struct conclave_queue *queue, int why, void *ctx)
{
    struct queue_user *u = ctx;
    (void)pthread_mutex_lock(&u->lock);
    u->after_end += u->closed > 0 ? 1 : 0;
    u->closed++;
    (void)pthread_mutex_unlock(&u->lock);
}

void queue_make(struct fake_zk *zk)
{
    fake_zk_create(zk, "/app", "", 0);
    fake_zk_create(zk, QUEUE_PATH, "", 0);
    fake_zk_create(zk, CLAIMS_PATH, "", 0);
    fake_zk_create(zk, LINE_PATH, "", 0);
    fake_zk_create(zk, PUTS_PATH, "", 0);
}

struct conclave_queue_options queue_options(void)
{
    struct conclave_queue_options options = CONCLAVE_QUEUE_OPTIONS_INIT;
    options.path = QUEUE_PATH;
    return options;
}

static void open_queue(struct queue_user *u, const struct conclave_queue_options *options,
                       bool watch_size)
{
    struct conclave_queue_options standard = queue_options();
    struct conclave_queue_callbacks callbacks = {.size = sizeof callbacks,
                                                 .on_lost = on_lost,
                                                 .on_size = watch_size ? on_size : NULL,
                                                 .on_closed = on_closed};
    u->size = -1;
    (void)pthread_mutex_init(&u->lock, NULL);
    assert_int_equal(conclave_queue_open(u->link.recipes, options != NULL ? options : &standard,
                                         &callbacks, u, &u->queue),
                     0);
}

void queue_user_open_for(struct queue_user *u, struct fake_zk *zk, int endpoint,
                         const struct conclave_queue_options *options, int64_t session_ms)
{
    memset(u, 0, sizeof *u);
    candidate_connect_to(&u->link, zk, endpoint, "u", NULL, session_ms);
    open_queue(u, options, false);
}

void queue_user_open(struct queue_user *u, struct fake_zk *zk, int endpoint,
                     const struct conclave_queue_options *options)
{
    queue_user_open_for(u, zk, endpoint, options, usual_session_ms);
}

void queue_user_share(struct queue_user *u, const struct queue_user *with,
                      const struct conclave_queue_options *options)
{
    memset(u, 0, sizeof *u);
    candidate_share(&u->link, &with->link, "shared");
    open_queue(u, options, true);
}

void queue_user_close(struct queue_user *u)
{
    if (u->queue != NULL) {
        assert_int_equal(conclave_queue_close_wait(u->queue, PATIENCE_MS), 0);
        assert_int_equal(u->closed, 1);
        conclave_queue_destroy(u->queue);
        u->queue = NULL;
    }
}

void queue_user_finish(struct queue_user *u)
{
    queue_user_close(u);
    candidate_finish(&u->link);
    assert_int_equal((int)u->after_end, 0);
    (void)pthread_mutex_destroy(&u->lock);
}

void queue_user_begin(struct queue_user *u, struct fake_zk *zk)
{
    queue_make(zk);
    queue_user_open(u, zk, 0, NULL);
}

int queue_user_get(struct queue_user *u, const int *field)
{
    (void)pthread_mutex_lock(&u->lock);
    int value = *field;
    (void)pthread_mutex_unlock(&u->lock);
    return value;
}

void put_text(struct queue_user *u, int priority, const char *text)
{
    assert_int_equal(conclave_queue_put(u->queue, priority, text, strlen(text), PATIENCE_MS, NULL),
                     0);
}

struct conclave_item *take_one(struct queue_user *u)
{
    struct conclave_item *item = NULL;
    assert_int_equal(conclave_queue_take(u->queue, PATIENCE_MS, &item), 0);
    return item;
}

bool item_is(const struct conclave_item *item, const char *text)
{
    size_t len;
    const void *data = conclave_item_data(item, &len);
    return len == strlen(text) && memcmp(data, text, len) == 0;
}

void ack_one(struct conclave_item *item)
{
    assert_int_equal(conclave_item_ack(item, PATIENCE_MS), 0);
    conclave_item_free(item);
}

void nack_one(struct conclave_item *item)
{
    assert_int_equal(conclave_item_nack(item, PATIENCE_MS), 0);
    conclave_item_free(item);
}

void take_text(struct queue_user *u, const char *text)
{
    struct conclave_item *item = take_one(u);
    assert_true(item_is(item, text));
    ack_one(item);
}

size_t items_in(struct fake_zk *zk, const char *path)
{
    return fake_zk_exists(zk, path) ? fake_zk_child_count(zk, path) : 0;
}
