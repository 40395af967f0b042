/* Leases, fences, several locks at once, and what operators ask of electors and ensembles, by the C++ header. */
#include "cpp_test.h"

using std::chrono::milliseconds;
using std::chrono::seconds;

static conclave::client_options how()
{
    conclave::client_options options;
    options.servers = server;
    return options;
}

static void leases()
{
    auto client = connect();
    const std::string path = fresh("lease");
    const seconds ttl(60);
    std::atomic<int> ended{0};
    std::atomic<int> lines{0};
    auto options = how();
    options.log_level = CONCLAVE_LOG_DEBUG;
    options.on_log = [&](const conclave::log_line &) { lines++; };
    conclave::lease one(options, ttl, patience,
                        [&](std::error_code why) { ended += why == CONCLAVE_SESSION_EXPIRED; });
    UNTIL(lines > 0);
    one.client().create(path, "x", CONCLAVE_EPHEMERAL);
    client.create(path + "-kept", "y");
    one.attach(path + "-kept");
    CHECK(client.exists(path + "-kept")->ephemeral_owner == one.client().session_id());
    CHECK(one.acquire(path + "-value", "me", CONCLAVE_LEASE_RELEASE));
    conclave::lease two(how(), ttl);
    std::error_code ec;
    two.acquire(path + "-value", "other", CONCLAVE_LEASE_RELEASE, patience, ec);
    CHECK(ec == CONCLAVE_EBUSY);
    one.release(path + "-value", CONCLAVE_LEASE_RELEASE);
    CHECK(two.acquire(path + "-value", "other", CONCLAVE_LEASE_RELEASE));
    one.enlist(path + "-list", "first");
    const auto list = conclave::lease::list(client, path + "-list");
    CHECK(list.size() == 1 && list[0].name == "first" && list[0].ttl == ttl &&
          list[0].session_id == one.client().session_id());
    CHECK(one.time_to_live().granted == ttl);
    const std::string id = one.id();
    CHECK(conclave::lease::keep_alive(how(), id).granted == ttl && ended == 0);
    conclave::lease::revoke(how(), id);
    CHECK(!client.exists(path) && !client.exists(path + "-kept"));
    UNTIL(ended == 1);
    CHECK(code_of([&] { one.time_to_live(); }) == CONCLAVE_SESSION_EXPIRED);
    CHECK(code_of([&] { conclave::lease::keep_alive(how(), id); }) == CONCLAVE_SESSION_EXPIRED);

    two.client().create(path, "z", CONCLAVE_EPHEMERAL);
    const std::string left = two.id();
    two.leave();
    CHECK(!two && client.exists(path) && two.id().empty());
    CHECK(code_of([&] { two.time_to_live(); }) == CONCLAVE_ECLOSED);
    conclave::lease taken = conclave::lease::take(how(), left, patience);
    conclave::lease moved = std::move(taken);
    CHECK(moved.id() == left && !taken);
    moved.end(patience);
    CHECK(!client.exists(path));
    CHECK(code_of([&] { conclave::lease::take(how(), left); }) == CONCLAVE_SESSION_EXPIRED);
    CHECK(code_of([&] { conclave::lease::take(how(), "no id"); }) == CONCLAVE_EINVAL);
}

/* A handle on its client keeps a lease; a lease may go in its own callback. */
static void lives_of_leases()
{
    auto client = connect();
    const std::string path = fresh("lease-life");
    conclave::mutex mutex;
    {
        const conclave::lease lease(how(), seconds(10));
        mutex = conclave::mutex(lease.client(), {path});
        mutex.lock();
    }
    CHECK(mutex.held());
    mutex.reset();
    conclave::mutex next(client, {path});
    CHECK(next.try_lock_for(patience));

    std::promise<void> gone;
    std::unique_ptr<conclave::lease> lease;
    lease = std::make_unique<conclave::lease>(how(), seconds(60), patience, [&](std::error_code) {
        lease.reset();
        gone.set_value();
    });
    conclave::lease::revoke(how(), std::string(lease->id()));
    CHECK(gone.get_future().wait_for(patience) == std::future_status::ready);

    auto wrong = how();
    wrong.servers = "host:no-port";
    CHECK(code_of([&] { const conclave::lease none(wrong, seconds(10)); }) == CONCLAVE_EINVAL);
}

static void many_locks()
{
    auto client = connect();
    const std::string path = fresh("many");
    conclave::mutex a(client, {path + "-a"});
    conclave::mutex b(client, {path + "-b"});
    conclave::mutex c(client, {path + "-a"});
    conclave::mutex d(client, {path + "-d"});
    conclave::multi_mutex both({b, a});
    conclave::multi_mutex others({d, c});
    {
        const std::lock_guard<conclave::multi_mutex> guard(both);
        CHECK(both.held() && a.held() && b.held());
        CHECK(!others.try_lock() && !others.try_lock_for(milliseconds(20)) && !d.held());
    }
    CHECK(!both.held());
    std::unique_lock<conclave::multi_mutex> late(others, patience);
    CHECK(late && c.held() && d.held());
    others.release();
    (void)late.release();
    CHECK(!c.held() && !d.held());
    conclave::multi_mutex twice({a, c});
    CHECK(code_of([&] { twice.lock(); }) == CONCLAVE_EDEADLK);
    const conclave::mutex none = std::move(a);
    CHECK(code_of([&] { both.lock(); }) == CONCLAVE_ECLOSED);
}

static std::string refusal(const conclave::client &client, const std::string &dir)
{
    try {
        conclave::elector::hand_over(client, dir, "b", patience);
        return "";
    } catch (const conclave::error &e) {
        return e.what();
    }
}

static std::string refusal_of_lock(const conclave::client &client, const std::string &path)
{
    try {
        conclave::mutex::hand_over(client, path, "nobody", patience);
        return "";
    } catch (const conclave::error &e) {
        return e.what();
    }
}

static void hand_overs()
{
    auto client = connect();
    const std::string path = fresh("hand-over");
    conclave::election one(client, {path + "-election", "one"});
    one.wait();
    conclave::election two(client, {path + "-election", "two"});
    UNTIL(conclave::election::participants(client, path + "-election").size() == 2);
    auto done = conclave::election::hand_over(client, path + "-election", "two", patience);
    CHECK(done.outcome == CONCLAVE_HAND_OVER_DONE && done.active == "two" && done.token);
    UNTIL(two.leads() && !one.leads());
    std::error_code ec;
    done = conclave::election::hand_over(client, path + "-election", "nobody", patience, ec);
    CHECK(ec && done.outcome == CONCLAVE_HAND_OVER_NO_MEMBER && two.leads());

    conclave::mutex_options options;
    options.path = path + "-lock";
    options.id = "one";
    std::atomic<int> asked{0};
    conclave::grant held; /* not bound to a thread: the callback releases it */
    options.on_hand_over_request = [&](conclave::mutex &) {
        asked++;
        (void)held.release();
    };
    conclave::mutex holder(client, options);
    held = holder.acquire(conclave::use_future).get();
    options.id = "two";
    conclave::mutex waiter(client, options);
    auto later = waiter.acquire(conclave::use_future);
    UNTIL(conclave::mutex::contenders(client, options.path).size() == 2);
    CHECK(refusal_of_lock(client, options.path).find("NO_MEMBER") != std::string::npos);
    CHECK(asked == 0);
    done = conclave::mutex::hand_over(client, options.path, "two", patience);
    CHECK(done.active == "two" && done.token && asked == 1);
    const auto given = later.get();
    CHECK(given && given.token() == done.token && !held);
}

static void members_of_electors()
{
    auto client = connect();
    conclave::elector_options options;
    options.dir = fresh("members");
    options.id = "a";
    options.data = "10.0.0.1";
    options.listed = true;
    options.reports_ready = true;
    const auto of = [&](const char *id) {
        return conclave::elector::member(client, options.dir, id);
    };
    conclave::elector one(client, options);
    UNTIL(one.active() && of("a") && of("a")->state == CONCLAVE_ELECTOR_ACTIVE);
    CHECK(!of("a")->ready && of("a")->data == "10.0.0.1" && !of("none"));
    one.ready();
    UNTIL(of("a")->ready);
    options.id = "b";
    options.reports_ready = false;
    options.observer = true;
    conclave::elector two(client, options);
    UNTIL(of("b") && of("b")->observer);
    UNTIL(refusal(client, options.dir).find("OBSERVER") != std::string::npos);
    two.observe(false);
    UNTIL(!of("b")->observer);
    std::error_code ec;
    conclave::hand_over_result done;
    UNTIL((done = conclave::elector::hand_over(client, options.dir, "b", patience, ec)).outcome ==
              CONCLAVE_HAND_OVER_DONE &&
          !ec);
    CHECK(done.active == "b" && done.token && two.active() && !one.active());
    CHECK(conclave::elector::members(client, options.dir).size() == 2);
    CHECK(code_of([&] { conclave::elector::parent_reset(client, options.dir); }) == CONCLAVE_EBUSY);
    one.reset();
    two.reset();
    conclave::elector::parent_reset(client, options.dir);
    CHECK(conclave::elector::parent_exists(client, options.dir) &&
          client.children(options.dir).size() == 0);
    client.erase(options.dir);
    CHECK(!conclave::elector::parent_exists(client, options.dir));
    conclave::elector_parent_options parent;
    parent.acl = {{CONCLAVE_PERM_ALL & ~CONCLAVE_PERM_DELETE}};
    parent.set_acl = true;
    conclave::elector::parent_make(client, options.dir, parent);
    CHECK(client.get_acl(options.dir).entries.at(0).perms == parent.acl[0].perms);

    conclave::hadoop_node node;
    node.service = "cluster";
    node.id = "nn1";
    node.host = "10.0.0.1";
    node.port = 8020;
    CHECK(conclave::hadoop_node::read(node.message()).host == "10.0.0.1");
    CHECK(code_of([] { conclave::hadoop_node::read("else"); }) == CONCLAVE_EFOREIGN);
}

static void fences()
{
    auto client = connect();
    auto other = connect();
    const std::string prefix = fresh("fenced");
    const std::string path = fresh("fence-lock");
    client.create(prefix, "x");
    conclave::mutex mutex(other, {path});
    mutex.lock();
    conclave::fence::bind(client, prefix, path, seconds(1));
    const auto all = conclave::fence::list(client);
    const auto mine = std::find_if(all.begin(), all.end(),
                                   [&](const auto &each) { return each.prefix == prefix; });
    CHECK(mine != all.end() && mine->lock == path && mine->lock_delay == seconds(1) &&
          !mine->closed_until);
    CHECK(code_of([&] { client.set(prefix, "mine"); }) != 0);
    other.set(prefix, "holder's");
    CHECK(conclave::fence::is_current(client, path, mutex.token()));
    conclave::fence::unbind(client, prefix);
    std::error_code ec;
    conclave::fence::unbind(client, prefix, patience, ec);
    CHECK(ec == CONCLAVE_NO_NODE);

    conclave::token_gate gate;
    CHECK(gate.admit(mutex.token()) && !gate.admit(mutex.token()) &&
          gate.newest() == mutex.token());
    const conclave::token old = conclave_token{mutex.token().value() - 1};
    CHECK(code_of([&] { gate.admit(old); }) == CONCLAVE_EFENCED);
    CHECK(conclave::token_gate(gate.text()).newest() == mutex.token());
    CHECK(code_of([] { const conclave::token_gate none("no gate"); }) == CONCLAVE_ECORRUPT);
}

static void rare_requests()
{
    auto client = connect();
    const std::string path = fresh("rare");
    client.create(path);
    client.create(path + "/a");
    client.create(path + "/a/b", "", CONCLAVE_EPHEMERAL);
    CHECK(client.count_below(path) == 2 &&
          client.count_below(path, conclave::use_future).get() == 2);
    CHECK(client.ephemerals(path) == std::vector<std::string>{path + "/a/b"});
    conclave::reconfig change;
    change.leaving = "9";
    change.version = 1;
    std::error_code ec;
    client.reconfigure(change, ec);
    CHECK(ec);

    conclave::queue queue(client, {path + "/queue"});
    queue.put("one");
    const auto item = queue.take();
    CHECK(item.parts() == std::vector<std::string_view>{"one"} && conclave::item().parts().empty());

    conclave::registration_options at;
    at.path = path + "/registry";
    at.name = "shop";
    at.address = "10.0.0.1";
    conclave::registration registration(client, at);
    registration.wait(patience);
    conclave::discovery discovery(client, {at.path, "shop"});
    UNTIL(discovery.instances().size() == 1);
    using instances = std::vector<conclave::instance>;
    CHECK(discovery.choose([](const instances &) { return 0; })->address == "10.0.0.1");
    CHECK(!discovery.choose([](const instances &all) { return all.size(); }));
    CHECK(code_of([&] {
              discovery.choose(
                  [](const instances &) -> size_t { throw conclave::error(CONCLAVE_EIO); });
          }) == CONCLAVE_EIO);
}

const std::vector<test_case> admin_cases = {
    {"leases", leases},
    {"lives_of_leases", lives_of_leases},
    {"many_locks", many_locks},
    {"members_of_electors", members_of_electors},
    {"hand_overs", hand_overs},
    {"fences", fences},
    {"rare_requests", rare_requests},
};
