/* How handles of the C++ header live and end: moved in numbers, destroyed in any order and place, with functions of the
 * program that throw. */
#include "cpp_test.h"

#include <algorithm>

using std::chrono::milliseconds;

/* A handle of any kind. */
struct any_handle {
    conclave::mutex mutex;
    conclave::semaphore semaphore;
    conclave::queue queue;
    conclave::counter counter;
    conclave::barrier barrier;
};

static any_handle make(const conclave::client &client, int i, std::atomic<int> &closed)
{
    any_handle made;
    const std::string path = "/cpp-many/" + std::to_string(i);
    switch (i % 5) {
    case 0: {
        conclave::mutex_options options;
        options.path = path;
        options.on_closed = [&](auto &, std::error_code) { closed++; };
        made.mutex = conclave::mutex(client, std::move(options));
        break;
    }
    case 1: {
        conclave::semaphore_options options;
        options.path = path;
        options.on_closed = [&](auto &, std::error_code) { closed++; };
        made.semaphore = conclave::semaphore(client, std::move(options));
        break;
    }
    case 2: {
        conclave::queue_options options;
        options.path = path;
        options.on_closed = [&](auto &, std::error_code) { closed++; };
        made.queue = conclave::queue(client, std::move(options));
        break;
    }
    case 3: {
        conclave::counter_options options;
        options.path = path;
        options.on_closed = [&](auto &, std::error_code) { closed++; };
        made.counter = conclave::counter(client, std::move(options));
        break;
    }
    default: {
        conclave::barrier_options options;
        options.path = path;
        options.on_closed = [&](auto &, std::error_code) { closed++; };
        made.barrier = conclave::barrier(client, std::move(options));
        break;
    }
    }
    return made;
}

static void ten_thousand_handles()
{
    constexpr int count = 10000;
    constexpr int threads = 4;
    auto client = connect();
    std::atomic<int> closed{0};
    std::vector<std::vector<any_handle>> parts(threads);
    std::vector<std::thread> makers;
    for (int t = 0; t < threads; t++) {
        makers.emplace_back([&, t] {
            for (int i = t; i < count; i += threads) {
                parts[t].push_back(make(client, i, closed)); /* growing, the vector moves them */
            }
            std::reverse(parts[t].begin(), parts[t].end());
        });
    }
    for (auto &maker : makers) {
        maker.join();
    }
    CHECK(closed == 0);
    /* Each thread destroys what another one made. */
    std::vector<std::thread> enders;
    for (int t = 0; t < threads; t++) {
        enders.emplace_back([part = std::move(parts[t])]() mutable { part.clear(); });
    }
    client = conclave::client();
    for (auto &ender : enders) {
        ender.join();
    }
    CHECK(closed == count);
}

static void exceptions()
{
    std::mutex lock;
    std::vector<std::string> caught;
    conclave::client_options options;
    options.servers = server;
    options.on_state = [](conclave_state) { throw 1; };
    options.on_exception = [&](std::exception_ptr exception, const char *where) {
        const std::lock_guard<std::mutex> hold(lock);
        caught.emplace_back(where);
        std::rethrow_exception(exception); /* of no consequence */
    };
    const auto count = [&](const char *where) {
        const std::lock_guard<std::mutex> hold(lock);
        return std::count(caught.begin(), caught.end(), where);
    };
    conclave::client client(std::move(options));
    client.wait_connected(patience);
    UNTIL(count("on_state") == 1);
    const std::string path = fresh("throws");
    client.create(path, "x",
                  [](std::error_code, std::string) { throw std::runtime_error("completion"); });
    UNTIL(count("completion") == 1);
    client.get(path, conclave::with_watch(
                         [](const conclave::event &) { throw std::runtime_error("watch"); }));
    client.set(path, "y");
    UNTIL(count("watch") == 1);
    /* A refusal: the candidate resigns, and comes again. */
    std::atomic<int> tries{0};
    std::atomic<int> revoked{0};
    conclave::election_options election;
    election.path = fresh("refuses");
    election.backoff_min = milliseconds(10);
    election.on_elected = [&](auto &, conclave::token, bool) {
        if (tries++ == 0) {
            throw std::runtime_error("not now");
        }
    };
    election.on_revoked = [&](auto &, std::error_code, milliseconds) {
        revoked++;
        throw std::runtime_error("revoked");
    };
    election.on_closed = [](auto &, std::error_code) { throw std::runtime_error("closed"); };
    conclave::election one(client, std::move(election));
    one.wait(patience);
    CHECK(tries == 2 && revoked == 1 && count("on_elected") == 1);
    one.reset();
    CHECK(revoked == 2 && count("on_revoked") == 2 && count("on_closed") == 1);
    conclave::mutex mutex(client, {fresh("lock")});
    mutex.acquire([](std::error_code, conclave::grant) { throw std::runtime_error("granted"); });
    UNTIL(count("completion") == 2);
    mutex.lock(); /* the grant went with the function that threw */
}

static void client_first()
{
    auto client = connect();
    const std::string path = fresh("order");
    conclave::mutex mutex(client, {path});
    auto grant = mutex.acquire();
    conclave::queue queue(client, {path + "-queue"});
    queue.put("x");
    auto item = queue.take();
    auto watch = client.watch("/", [](const conclave::event &) {});
    conclave::election election(client, {path + "-election"});
    election.wait(patience);
    const int64_t session = client.session_id();
    client = conclave::client(); /* the others keep its session */
    CHECK(grant && item.held() && election.leads() && watch.active());
    conclave::queue moved = std::move(queue);
    moved.reset();
    item = conclave::item();
    mutex.reset();
    CHECK(!grant && !grant.release());
    election.reset();
    watch.reset(); /* the last: the session ends */
    auto other = connect();
    UNTIL(conclave::queue(other, {path + "-queue"}).list().at(0).session_id != session);
    conclave::mutex next(other, {path});
    CHECK(next.try_lock_for(patience));
}

static void any_order()
{
    for (int round = 0; round < 24; round++) {
        auto client = std::make_unique<conclave::client>(connect());
        const std::string path = fresh("any");
        auto mutex = std::make_unique<conclave::mutex>(*client, conclave::mutex_options{path});
        auto grant = std::make_unique<conclave::grant>(mutex->acquire());
        auto waiting =
            std::make_unique<std::future<conclave::grant>>(mutex->acquire(conclave::use_future));
        std::vector<int> order = {0, 1, 2, 3};
        for (int i = 0; i < round; i++) {
            std::next_permutation(order.begin(), order.end());
        }
        for (int which : order) {
            which == 0   ? client.reset()
            : which == 1 ? mutex.reset()
            : which == 2 ? grant.reset()
                         : waiting.reset();
        }
    }
}

static void in_own_callback()
{
    auto client = connect();
    std::optional<conclave::election> election;
    std::atomic<bool> ended{false};
    std::atomic<int> called{0};
    conclave::election_options options;
    options.path = fresh("own");
    std::promise<void> assigned;
    auto ready = assigned.get_future().share();
    options.on_elected = [&, ready](auto &self, conclave::token, bool) {
        ready.wait();
        election.reset();
        CHECK(static_cast<bool>(self)); /* the callback's own reference still lives */
        ended = true;
    };
    options.on_revoked = [&](auto &, std::error_code, milliseconds) { called++; };
    options.on_closed = [&](auto &, std::error_code) { called++; };
    election.emplace(client, std::move(options));
    assigned.set_value();
    UNTIL(ended);

    std::optional<conclave::counter> counter;
    std::atomic<bool> closed{false};
    conclave::counter_options count;
    count.path = fresh("closed");
    count.on_closed = [&](auto &, std::error_code) {
        counter.reset();
        closed = true;
    };
    counter.emplace(client, std::move(count));
    counter->close();
    UNTIL(closed);
    /* A lock with a waiting acquire, in the completion of a request. */
    std::optional<conclave::mutex> mutex;
    mutex.emplace(client, conclave::mutex_options{fresh("lock")});
    auto held = mutex->acquire();
    auto waits = mutex->acquire(conclave::use_future);
    std::promise<void> destroyed;
    client.get("/", [&](std::error_code, conclave::node) {
        mutex.reset();
        destroyed.set_value();
    });
    destroyed.get_future().wait();
    CHECK(code_of([&] { waits.get(); }) == CONCLAVE_ECLOSED && !held);
    client.close();
    CHECK(called == 0); /* given up in a callback: nothing is called any more */
}

static void client_in_callback()
{
    for (int where = 0; where < 4; where++) {
        auto client = std::make_unique<conclave::client>(connect());
        conclave::client watcher = connect();
        const std::string path = fresh("end");
        client->create(path, "", CONCLAVE_EPHEMERAL);
        conclave::counter_options options;
        options.path = fresh("counter");
        std::unique_ptr<conclave::counter> counter;
        std::unique_ptr<conclave::watch> watch;
        std::promise<void> done;
        const auto end = [&] {
            counter.reset();
            client.reset();
            watch.reset();
            done.set_value();
        };
        if (where == 0) { /* the last handle goes in its last callback */
            options.on_closed = [&](auto &, std::error_code) { end(); };
        }
        counter = std::make_unique<conclave::counter>(*client, std::move(options));
        if (where == 0) {
            counter->close();
        } else if (where == 1) {
            client->get("/", [&](std::error_code, conclave::node) { end(); });
        } else if (where == 2) {
            counter->add(1, [&](std::error_code, int64_t) { end(); });
        } else {
            watch = std::make_unique<conclave::watch>(
                client->watch(path, [&](const conclave::event &) { end(); }));
            watcher.set(path, "x");
        }
        done.get_future().wait();
        UNTIL(!watcher.exists(path)); /* the session has ended */
    }
}

static void close_beside_destruction()
{
    for (int round = 0; round < 20; round++) {
        auto client = connect();
        std::vector<conclave::mutex> handles;
        for (int i = 0; i < 50; i++) {
            handles.emplace_back(client, conclave::mutex_options{fresh("beside")});
        }
        std::thread other([&] { handles.clear(); });
        client.close();
        other.join();
    }
}

static void elector_in_its_fence()
{
    conclave::client_options quiet;
    quiet.servers = server;
    quiet.on_exception = [](std::exception_ptr, const char *) {};
    const conclave::client client(quiet);
    conclave::elector_options options;
    options.dir = fresh("fences");
    options.id = "a";
    options.deactivate = [](auto &, std::error_code, milliseconds) { throw 1; };
    conclave::elector first(client, options);
    UNTIL(first.active());
    first.reset(); /* not cleanly */
    options.id = "b";
    std::optional<conclave::elector> second;
    std::promise<void> assigned;
    std::atomic<bool> ended{false};
    options.fence = [&, ready = assigned.get_future().share()](auto &self, auto &, auto) {
        ready.wait();
        CHECK(!self.close_wait(conclave::forever)); /* cannot wait for itself */
        second.reset();
        ended = true;
    };
    second.emplace(client, options);
    assigned.set_value();
    UNTIL(ended);
    options.id = "c";
    options.fence = [](auto &, auto &, auto) {};
    conclave::elector third(client, options);
    UNTIL(third.active());
}

/* A handle whose C side is played by the test. */
struct fake_raw {
    std::atomic<int> closed{0};
    std::atomic<int> destroyed{0};
    std::atomic<bool> hangs{false}; /* on_closed does not come, unless somebody waits without end */
    std::atomic<int64_t> waited_ms{0};

    static void close(fake_raw *raw)
    {
        raw->closed++;
    }
    static int close_wait(fake_raw *raw, int64_t timeout_ms)
    {
        if (!raw->hangs || timeout_ms == CONCLAVE_FOREVER) {
            return 0;
        }
        raw->waited_ms += timeout_ms;
        std::this_thread::sleep_for(milliseconds(timeout_ms));
        return CONCLAVE_ETIMEDOUT;
    }
    static void destroy(fake_raw *raw)
    {
        raw->destroyed++;
    }
};
struct fake_handle;
struct fake_options {
    std::function<void(fake_handle &, std::error_code)> on_closed{};
};
using fake_binding =
    conclave::detail::binding<fake_raw, fake_raw::close, fake_raw::close_wait, fake_raw::destroy>;
struct fake_handle : conclave::detail::basic_handle<fake_handle, fake_options, fake_binding> {
    using basic_handle::basic_handle;
    using basic_handle::state;
    using basic_handle::state_;

    template <class Open>
    fake_handle(const conclave::client &client, Open open)
        : basic_handle(client.shared(), fake_options{}, "fake", open)
    {
    }
};

static void close_beside_an_open_that_fails()
{
    auto client = connect();
    fake_raw raw;
    const auto open = [&](fake_handle::state &, void *ctx, fake_raw **) -> int {
        fake_handle::state::enter(&raw, ctx, "early", [](auto &, auto &) {});
        client.close(); /* as another thread does */
        return CONCLAVE_EBUSY;
    };
    CHECK(code_of([&] { fake_handle refused(client, open); }) == CONCLAVE_EBUSY);
    CHECK(raw.closed == 0 && raw.destroyed == 0); /* the C function that failed ended the handle */
    const auto throws = [&](fake_handle::state &s, void *, fake_raw **) -> int {
        s.options.on_closed = [held = s.owner](auto &, std::error_code) {};
        throw conclave::error(CONCLAVE_ENOMEM);
    };
    CHECK(code_of([&] { fake_handle refused(client, throws); }) == CONCLAVE_ENOMEM);
    CHECK(client.shared().use_count() == 1); /* the handle is freed */
}

static void callback_after_the_end()
{
    auto client = connect();
    fake_raw raw;
    void *context = nullptr;
    fake_handle handle(client, [&](fake_handle::state &, void *ctx, fake_raw **ret) {
        context = ctx;
        *ret = &raw;
        return 0;
    });
    const auto state = handle.state_;
    auto moved = std::move(handle);
    moved.reset();
    CHECK(raw.destroyed == 1 && state->raw.load() == nullptr);
    fake_handle::state::enter(&raw, context, "late", [](auto &, auto &) {});
    CHECK(state->raw.load() == nullptr);
    fake_handle::state::on_closed(&raw, CONCLAVE_ECLOSED, context);
    CHECK(state->raw.load() == nullptr && raw.destroyed == 1);
}

static void one_timeout_for_all_handles()
{
    auto client = connect();
    constexpr int count = 5;
    std::array<fake_raw, count> raws;
    std::vector<fake_handle> handles;
    std::vector<void *> contexts;
    for (fake_raw &raw : raws) {
        raw.hangs = true;
        handles.emplace_back(client, [&](fake_handle::state &, void *ctx, fake_raw **ret) {
            contexts.push_back(ctx);
            *ret = &raw;
            return 0;
        });
    }
    client.close(milliseconds(200));
    int64_t waited_ms = 0;
    for (const fake_raw &raw : raws) {
        waited_ms += raw.waited_ms;
        CHECK(raw.closed == 1);
    }
    CHECK(waited_ms <= 200);
    handles.clear();
    for (int i = 0; i < count; i++) {
        fake_handle::state::on_closed(&raws[i], CONCLAVE_ECLOSED, contexts[i]);
        CHECK(raws[i].destroyed == 1);
    }
}

const std::vector<test_case> life_cases = {
    {"ten_thousand_handles", ten_thousand_handles},
    {"exceptions", exceptions},
    {"client_first", client_first},
    {"any_order", any_order},
    {"in_own_callback", in_own_callback},
    {"client_in_callback", client_in_callback},
    {"close_beside_destruction", close_beside_destruction},
    {"elector_in_its_fence", elector_in_its_fence},
    {"close_beside_an_open_that_fails", close_beside_an_open_that_fails},
    {"callback_after_the_end", callback_after_the_end},
    {"one_timeout_for_all_handles", one_timeout_for_all_handles},
};
