/* The client of the C++ header: styles of a call, requests, watches, states, the program's own loop. */
#include "cpp_test.h"

#include <poll.h>

#include <cmath>
#include <sstream>

static void styles()
{
    auto client = connect();
    const std::string path = fresh("styles");
    CHECK(client.create(path, "one") == path);
    CHECK(client.get(path).data == "one");
    CHECK(code_of([&] { client.create(path, "one"); }) == CONCLAVE_NODE_EXISTS);
    std::error_code ec;
    client.create(path, "one", ec);
    CHECK(ec == CONCLAVE_NODE_EXISTS && ec == std::errc::file_exists &&
          ec.message() == "a node exists at this path");
    CHECK(std::string(ec.category().name()) == "conclave");
    CHECK(client.get(path, ec).data == "one" && !ec);

    auto two = client.set(path, "two", conclave::use_future);
    CHECK(two.get().version == 1);
    auto none = client.get(path + "/none", conclave::use_future);
    CHECK(code_of([&] { none.get(); }) == CONCLAVE_NO_NODE);

    std::promise<std::string> got;
    client.get(path, [&](std::error_code error, conclave::node node) {
        got.set_value(error ? "" : node.data);
    });
    CHECK(got.get_future().get() == "two");
    std::promise<std::error_code> erased;
    client.erase(path, 7, [&](std::error_code error) { erased.set_value(error); });
    CHECK(erased.get_future().get() == CONCLAVE_BAD_VERSION);
    client.erase(path);
    /* A call that cannot begin: thrown; in the future; set. */
    CHECK(code_of([&] { client.get("no slash", [](std::error_code, conclave::node) {}); }) ==
          CONCLAVE_EINVAL);
    auto bad = client.get("no slash", conclave::use_future);
    CHECK(code_of([&] { bad.get(); }) == CONCLAVE_EINVAL);
    client.get("no slash", ec);
    CHECK(ec == std::errc::invalid_argument);
    const conclave::client nothing;
    CHECK(code_of([&] { nothing.get("/"); }) == CONCLAVE_ECLOSED && nothing.closed());
    CHECK(code_of([&] { nothing.get("/", conclave::use_future).get(); }) == CONCLAVE_ECLOSED);
}

static void requests()
{
    auto client = connect();
    const std::string path = fresh("requests");
    const std::string binary("a\0b", 3);
    client.create(path);
    CHECK(client.get(path).data.empty());
    client.set(path, binary, 0);
    CHECK(client.get(path).data == binary &&
          client.get(path, conclave::latest()).stat.version == 1);
    CHECK(client.exists(path)->version == 1 && !client.exists(path + "/none"));
    CHECK(client.exists(path + "/none", conclave::use_future).get() == std::nullopt);
    const std::string first = client.create(path + "/n-", "x", CONCLAVE_PERSISTENT_SEQUENTIAL);
    CHECK(first == path + "/n-0000000000");
    const auto children = client.children(path);
    CHECK(children.size() == 1 && *children.begin() == "n-0000000000" &&
          children.stat.num_children == 1);
    conclave::create_options options;
    options.mode = CONCLAVE_EPHEMERAL;
    options.acl = conclave::read_acl();
    client.create(path + "/read", "x", options);
    CHECK(code_of([&] { client.set(path + "/read", "y"); }) == CONCLAVE_NO_AUTH);
    CHECK(client.get_acl(path + "/read").entries.at(0).perms == CONCLAVE_PERM_READ);
    client.add_auth("digest", "ann:secret");
    client.set_acl(path, conclave::creator_acl(), -1);
    CHECK(client.get_acl(path).entries.at(0).scheme == "digest");
    bool is_ann = false;
    for (const auto &id : client.identities()) {
        is_ann = is_ann || id.id == "ann";
    }
    CHECK(is_ann);
    client.sync("/");
    /* An empty ACL is refused; it would open the node to everybody. */
    CHECK(code_of([&] { client.set_acl(path, {}, -1); }) == CONCLAVE_EINVAL);
    CHECK(code_of([&] { client.set_acl(path, {}, -1, conclave::use_future).get(); }) ==
          CONCLAVE_EINVAL);
    CHECK(client.get_acl(path).entries.at(0).scheme == "digest");

    const auto done =
        client.commit(conclave::transaction().create(path + "/a", "1").set(path, "2").erase(first));
    CHECK(done.size() == 3 && done[0].path == path + "/a" && done[1].stat &&
          client.get(path).data == "2");
    std::error_code ec;
    const auto parts = client.commit(conclave::transaction().set(path, "3").check(path, 77), ec);
    CHECK(ec == CONCLAVE_BAD_VERSION && parts.size() == 2 &&
          parts[1].error == CONCLAVE_BAD_VERSION);
    CHECK(client.get(path).data == "2");
    const auto read =
        client.read_many(conclave::reads().get(path).children(path).get(path + "/none"));
    CHECK(read.size() == 3 && read[0].data == "2" && read[1].children.size() == 2);
    CHECK(read[2].error == CONCLAVE_NO_NODE);
}

static void times()
{
    using conclave::time_span;
    using std::chrono::hours;
    using std::chrono::milliseconds;
    static_assert(time_span(hours::max()).count() == conclave::forever.count());
    static_assert(time_span(hours::min()).count() == -conclave::forever.count());
    static_assert(time_span(std::chrono::nanoseconds(1)).count() == 1);
    static_assert(time_span(std::chrono::duration<double>(1.5)).count() == 1500);
    CHECK(time_span(std::chrono::duration<double>(std::nan(""))).count() == 0);
    auto client = connect();
    const std::string path = fresh("times");
    conclave::mutex one(client, {path});
    conclave::mutex two(client, {path});
    /* As a timeout: the longest waits without end, a negative one is over. */
    auto held = one.acquire(hours::max());
    std::error_code ec;
    CHECK(!two.acquire(hours(-1), ec) && ec == CONCLAVE_EBUSY);
    CHECK(!two.acquire(milliseconds(-1), ec) && ec == CONCLAVE_EBUSY);
    CHECK(!two.try_lock_for(hours::min()) &&
          !two.try_lock_until(std::chrono::steady_clock::time_point::min()));
    auto waits = two.acquire(hours::max(), conclave::use_future);
    CHECK(!held.release() && waits.get());
    CHECK(two.try_lock_until(std::chrono::steady_clock::time_point::max()));
    two.unlock();
    /* As an option: the C library gets at most 100 years, and refuses what it cannot use. */
    const auto refused = [](auto change) {
        conclave::client_options options;
        options.servers = server;
        change(options);
        return code_of([&] { conclave::client made(options); }) == CONCLAVE_EINVAL;
    };
    CHECK(refused([](auto &o) { o.session_timeout = hours::max(); }));
    CHECK(refused([](auto &o) { o.session_timeout = hours::min(); }));
    CHECK(refused([](auto &o) { o.request_timeout = milliseconds(-1); }));
    CHECK(!refused([](auto &o) { o.request_timeout = hours::max(); }));
    CHECK(refused([](auto &o) { o.connect_timeout = hours::max(); }));
    CHECK(refused([](auto &o) {
        o.retry.emplace();
        o.retry->pause_max = hours::min();
    }));
    conclave::read_options read;
    read.timeout = milliseconds(-1);
    CHECK(code_of([&] { client.get("/", read); }) == CONCLAVE_EINVAL);
    read.timeout = hours::max();
    client.get("/", read);
    conclave::create_options create;
    create.ttl = hours::max();
    CHECK(code_of([&] { client.create(path, "", create); }) == CONCLAVE_EINVAL);
    conclave::election_options late;
    late.path = fresh("late");
    late.takeover_delay = hours::max();
    late.backoff_min = late.backoff_max = hours::max();
    conclave::election election(client, late);
    CHECK(!election.wait(hours(-1), ec) && ec == CONCLAVE_ETIMEDOUT);
    late.takeover_delay = hours::min();
    CHECK(code_of([&] { conclave::election made(client, late); }) == CONCLAVE_EINVAL);
    conclave::group_options group;
    group.path = fresh("collects");
    group.id = "a";
    group.debounce = hours::max();
    group.on_view = [](auto &, const conclave::member_view &) {};
    conclave::group member(client, group);
    member.wait_joined(patience);
    CHECK(member.close_wait(hours::max()));
    /* A time that another program wrote. */
    using clock = std::chrono::system_clock;
    CHECK(conclave::detail::to_time(1500) == clock::time_point(milliseconds(1500)));
    CHECK(conclave::detail::to_time(INT64_MAX) > clock::now() &&
          conclave::detail::to_time(INT64_MIN) < clock::now());
}

static void watches()
{
    auto client = connect();
    const std::string path = fresh("watches");
    std::atomic<int> once{0};
    std::atomic<int> all{0};
    std::atomic<int> lost{0};
    client.exists(path, conclave::with_watch([&](const conclave::event &e) {
                      once += e.type == CONCLAVE_EVENT_CREATED && e.path == path ? 1 : 100;
                  }));
    auto watch = client.watch(
        path, [&](const conclave::event &e) { (e.type == CONCLAVE_EVENT_LOST ? lost : all)++; },
        true);
    client.create(path, "a");
    client.create(path + "/b", "b");
    client.set(path + "/b", "c");
    UNTIL(once == 1 && all == 3);
    auto moved = std::move(watch);
    CHECK(!watch && moved && moved.active());
    moved.reset();
    client.set(path + "/b", "d");
    client.get(path); /* events come before the answers that follow */
    CHECK(all == 3 && lost == 0 && once == 1);
    /* A watch whose request fails is never called, and freed. */
    CHECK(code_of([&] {
              client.get(path + "/none", conclave::with_watch([](const conclave::event &) {}));
          }) == CONCLAVE_NO_NODE);
    auto last = client.watch(
        path, [&](const conclave::event &e) { lost += e.type == CONCLAVE_EVENT_LOST; });
    client.close();
    UNTIL(lost == 1);
    CHECK(!last.active());
}

static void states()
{
    std::mutex lock;
    std::vector<conclave_state> seen;
    conclave::client_options options;
    options.servers = server;
    options.on_state = [&](conclave_state state) {
        std::lock_guard<std::mutex> hold(lock);
        seen.push_back(state);
    };
    conclave::client client(std::move(options));
    client.wait_connected(patience);
    CHECK(client.connected() && !client.expired() && !client.auth_failed() && !client.connecting());
    CHECK(client.connected_host() == server && client.servers() == server);
    CHECK(client.why().cause == CONCLAVE_LOSS_NONE && !client.why().session_lost);
    CHECK(client.session_timeout().count() > 0 && client.session_id() != 0 &&
          client.key().id == client.session_id());
    const int64_t first = client.session_id();
    conclave::mutex mutex(client, {fresh("lock")});
    mutex.lock();

    client.recreate(other_name);
    CHECK(!mutex.held() && code_of([&] { mutex.lock(); }) == CONCLAVE_ECLOSED);
    client.wait_connected(patience);
    CHECK(client.session_id() != first && client.servers() == other_name);
    client.recreate();
    client.wait_connected(patience);
    client.close();
    CHECK(client.closed() && code_of([&] { client.get("/"); }) == CONCLAVE_ECLOSED);
    client.close();
    std::lock_guard<std::mutex> hold(lock);
    CHECK(seen.front() == CONCLAVE_STATE_CONNECTED && seen.back() == CONCLAVE_STATE_CLOSED);
    CHECK(std::count(seen.begin(), seen.end(), CONCLAVE_STATE_CLOSED) == 3);

    conclave::client_options wrong;
    wrong.servers = "not a server list:x";
    CHECK(code_of([&] { conclave::client refused(wrong); }) == CONCLAVE_EINVAL);
    wrong.servers = server;
    wrong.tls.emplace();
    wrong.tls->ca_file = "/nonexistent/ca.pem";
    try {
        conclave::client refused(wrong);
        CHECK(false);
    } catch (const conclave::error &e) {
        CHECK(e.code() == CONCLAVE_ETLS &&
              std::string(e.what()).find("/nonexistent/ca.pem") != std::string::npos);
    }
}

static void log_lines()
{
    std::ostringstream lines;
    conclave::client_options options;
    options.servers = "127.0.0.1:1," + server; /* nothing listens at the first */
    options.log_stream = &lines;
    options.log_level = CONCLAVE_LOG_DEBUG;
    options.retry.emplace();
    conclave::client client(options);
    client.wait_connected(patience);
    client.set_servers(other_name);
    CHECK(client.servers() == other_name && client.present_servers() == other_name);
    CHECK(client.get("/").is_null || client.connected());
    client.set_servers(server);
    CHECK(client.exists("/"));
    client.close();
    CHECK(lines.str().find("INFO ") != std::string::npos &&
          lines.str().find(server) != std::string::npos);
    std::atomic<int> count{0};
    std::atomic<int> spans{0};
    options.on_span = [&](const conclave_span &span) {
        spans +=
            std::string(span.name) == "exists" && std::string(span.path) == "/" && span.error == 0;
    };
    options.on_log = [&](const conclave::log_line &line) {
        count += !line.text.empty() && line.text.find(line.message) == 0;
        throw std::runtime_error("log");
    };
    options.on_exception = [&](std::exception_ptr, const char *where) {
        count += std::string(where) == "on_log";
    };
    client = conclave::client(options);
    UNTIL(count >= 2);
    CHECK(client.exists("/"));
    UNTIL(spans >= 1);
    options.session_timeout = std::chrono::milliseconds(-5);
    try {
        conclave::client refused(options);
        CHECK(false);
    } catch (const conclave::error &e) {
        CHECK(e.code() == CONCLAVE_EINVAL &&
              std::string(e.what()).find("session_timeout_ms") != std::string::npos);
    }
}

static void own_loop()
{
    conclave::client_options options;
    options.servers = server;
    options.threads = false;
    conclave::client client(std::move(options));
    const std::string path = fresh("loop");
    std::string got;
    client.create(path, "x", [&](std::error_code, std::string made) { got = made; });
    const auto turn = [&] {
        pollfd fd = {client.fd(), POLLIN, 0};
        (void)poll(&fd, 1, static_cast<int>(client.timeout().count()));
        return client.dispatch();
    };
    while (got.empty()) {
        CHECK(turn());
    }
    CHECK(got == path);
    conclave::mutex mutex(client, {path});
    conclave::grant held;
    mutex.acquire([&](std::error_code, conclave::grant grant) { held = std::move(grant); });
    while (!held) {
        CHECK(turn());
    }
    CHECK(held.token() && client.get(path).data == "x");
    /* The client and the lock end inside a callback, while the loop runs. */
    bool ended = false;
    client.get(path, [&](std::error_code, conclave::node) {
        mutex.reset();
        ended = true;
    });
    while (!ended) {
        CHECK(turn());
    }
    CHECK(!held);
}

class program final : public conclave::client_base
{
  public:
    std::atomic<int> connected{0};
    std::atomic<int> events{0};
    std::atomic<int> caught{0};
    std::atomic<int> lost{0};

    ~program() override
    {
        close_session();
    }

  private:
    void on_connected() override
    {
        connected++;
    }
    void on_event(const conclave::event &e) override
    {
        events += e.type == CONCLAVE_EVENT_DATA_CHANGED;
        throw std::runtime_error("event");
    }
    void on_master_lost(const std::string &path, std::error_code,
                        std::chrono::milliseconds) override
    {
        lost += !is_master(path);
    }
    void on_exception(std::exception_ptr, const char *where) override
    {
        caught += std::string(where) == "watch";
    }
};

static void virtual_events()
{
    auto writer = connect();
    const std::string path = fresh("virtual");
    writer.create(path, "1");
    program one;
    CHECK(code_of([&] { one.get_data(path); }) == CONCLAVE_ECLOSED);
    one.create_session(server);
    UNTIL(one.connected == 1);
    CHECK(one.get_data(path) == "1" && one.get_data(path) == "1");
    writer.set(path, "2");
    UNTIL(one.events == 1 && one.caught >= 1);
    CHECK(one.get_children(path).empty());
    const int64_t first = one.client().session_id();
    one.recreate_session(other_name);
    UNTIL(one.connected == 2);
    CHECK(one.client().session_id() != first);
    writer.set(path, "3");
    CHECK(one.get_data(path) == "3");
    writer.set(path, "4");
    UNTIL(one.events >= 2);
    one.unwatch(path);
    one.recreate_session();
    UNTIL(one.connected == 3);
}

/* Asks in a virtual function for what another call is changing. */
class asking final : public conclave::client_base
{
  public:
    std::atomic<bool> asked{false};

    ~asking() override
    {
        close_session();
    }

  private:
    void on_connected() override
    {
        unwatch("/none");
        asked = !is_master("/none");
    }
};

static void virtual_functions_may_ask()
{
    asking one;
    conclave::client_options options;
    options.servers = server;
    options.threads = false; /* get_data runs the callbacks while it sets the watch */
    one.create_session(std::move(options));
    CHECK(one.get_data("/").empty() && one.asked);
}

#ifdef CONCLAVE_HAS_COROUTINES
static conclave::task<std::string> in_coroutine(conclave::client &client, conclave::mutex &mutex,
                                                std::string path)
{
    co_await client.create(path, "begun", conclave::use_awaitable);
    std::error_code ec;
    co_await client.create(path, "again", conclave::use_awaitable(ec));
    CHECK(ec == CONCLAVE_NODE_EXISTS);
    {
        auto held = co_await mutex.acquire(conclave::use_awaitable);
        CHECK(held && held.token());
        co_await client.set(path, "held", conclave::use_awaitable);
    }
    auto node = co_await client.get(path, conclave::use_awaitable);
    co_return node.data;
}

static conclave::task<> that_fails(conclave::client &client)
{
    co_await client.get("/none/at/all", conclave::use_awaitable);
}

static void coroutines()
{
    auto client = connect();
    conclave::mutex mutex(client, {fresh("lock")});
    std::vector<conclave::task<std::string>> tasks;
    for (int i = 0; i < 20; i++) {
        tasks.push_back(in_coroutine(client, mutex, fresh("coroutine")));
    }
    for (auto &task : tasks) {
        CHECK(task.get() == "held");
    }
    auto failing = that_fails(client);
    CHECK(code_of([&] { failing.get(); }) == CONCLAVE_NO_NODE);
    CHECK(code_of([&] {
              auto ended = [](conclave::client &gone) -> conclave::task<> {
                  co_await gone.get("/", conclave::use_awaitable);
              };
              conclave::client gone;
              ended(gone).get();
          }) == CONCLAVE_ECLOSED);
}
#endif

static void race_master()
{
    const std::string path = fresh("master");
    program one;
    program two;
    std::error_code ec;
    CHECK(!one.race_master(path, "a:1", ec) && ec == CONCLAVE_ECLOSED);
    one.create_session(server);
    two.create_session(server);
    CHECK(one.race_master(path, "a:1", ec) && !ec && one.is_master(path));
    const auto token = one.master_token(path);
    CHECK(two.client().get(path).data == "a:1" &&
          two.client().exists(path)->ephemeral_owner == one.client().session_id());
    CHECK(!two.race_master(path, "b:1", ec, std::chrono::milliseconds(10), conclave::open_acl()));
    CHECK(ec == CONCLAVE_EBUSY && !two.is_master(path) && two.find_master(path) == "a:1");
    one.resign_master(path);
    CHECK(one.lost == 1 && !one.is_master(path) && !two.find_master(path));
    CHECK(two.race_master(path, "b:1", ec) && token < two.master_token(path));
    /* A plain node of another program keeps it out, too. */
    two.recreate_session();
    CHECK(two.lost == 1 && !two.is_master(path));
    one.client().create(path, "plain", CONCLAVE_EPHEMERAL);
    CHECK(!two.race_master(path, "b:1", ec) && ec == CONCLAVE_EBUSY &&
          two.find_master(path) == "plain");
}

const std::vector<test_case> client_cases = {
    {"styles", styles},
    {"requests", requests},
    {"times", times},
    {"watches", watches},
    {"states", states},
    {"log_lines", log_lines},
    {"own_loop", own_loop},
    {"virtual_events", virtual_events},
    {"virtual_functions_may_ask", virtual_functions_may_ask},
    {"race_master", race_master},
#ifdef CONCLAVE_HAS_COROUTINES
    {"coroutines", coroutines},
#endif
};
