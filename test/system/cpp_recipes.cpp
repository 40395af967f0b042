/* Each recipe of the C++ header does its work once. */
#include "cpp_test.h"

#include <shared_mutex>

using std::chrono::milliseconds;

static void locks()
{
    auto client = connect();
    const std::string path = fresh("lock");
    conclave::mutex one(client, {path, "one"});
    conclave::mutex two(client, {path, "two"});
    {
        const std::lock_guard<conclave::mutex> guard(one);
        CHECK(one.held() && one.token() && one.lease_left().count() > 0 &&
              !one.node_name().empty());
        CHECK(!two.try_lock() && !two.try_lock_for(milliseconds(20)));
        const std::unique_lock<conclave::mutex> late(two, std::try_to_lock);
        CHECK(!late && code_of([&] { one.lock(); }) == CONCLAVE_EDEADLK);
        const auto there = conclave::mutex::contenders(client, path);
        CHECK(there.size() == 1 && there[0].id == "one" && there[0].holds);
        one.fenced(conclave::transaction().create(path + "-made", "x"));
    }
    CHECK(code_of([&] { one.fenced(conclave::transaction().set(path + "-made", "y")); }) ==
          CONCLAVE_EFENCED);
    CHECK(code_of([&] { one.release(); }) == CONCLAVE_ENOTOWNER);
    const std::scoped_lock both(one);
    conclave::token token = one.token();
    auto waiting = two.acquire(conclave::use_future);
    one.unlock();
    auto held = waiting.get();
    CHECK(two.held() && held && token < held.token());
    std::thread([&held] { CHECK(!held.release() && !held && !held.release()); }).join();
    one.lock();
    auto canceled = two.acquire(conclave::use_future);
    two.cancel();
    CHECK(code_of([&] { canceled.get(); }) == CONCLAVE_ECANCELED);
    std::error_code ec;
    CHECK(!two.acquire(milliseconds(10), ec) && ec == std::errc::timed_out);
}

static void shared_locks()
{
    auto client = connect();
    conclave::mutex_options options;
    options.path = fresh("shared");
    conclave::shared_mutex mutex(client, options);
    std::shared_lock<conclave::shared_mutex> first(mutex);
    std::thread([&] {
        const std::shared_lock<conclave::shared_mutex> second(mutex);
        CHECK(second && !mutex.try_lock());
    }).join();
    first.unlock();
    {
        const std::unique_lock<conclave::shared_mutex> writer(mutex);
        CHECK(mutex.writer().held() && !mutex.try_lock_shared() &&
              !mutex.try_lock_shared_for(milliseconds(5)));
    }
    first.lock();
    CHECK(first && code_of([&] { mutex.lock_shared(); }) == CONCLAVE_EDEADLK);
    conclave::shared_mutex moved = std::move(mutex);
    CHECK(code_of([&] { mutex.lock(); }) == CONCLAVE_ECLOSED);
    moved.unlock_shared();
    (void)first.release();

    options.kind = CONCLAVE_LOCK_WRITE;
    conclave::mutex change(client, options);
    change.lock();
    change.downgrade();
    change.try_upgrade();
    change.unlock();
}

static void semaphores()
{
    auto client = connect();
    const std::string path = fresh("semaphore");
    conclave::semaphore one(client, {path, 2});
    conclave::semaphore two(client, {path, 2});
    conclave::semaphore three(client, {path, 2});
    auto first = one.acquire();
    auto second = two.acquire(conclave::use_future).get();
    CHECK(first && second && !three.try_lock());
    CHECK(conclave::semaphore::contenders(client, path).size() == 2);
    first = conclave::grant();
    CHECK(three.try_lock_for(patience));
    conclave::semaphore_options all;
    all.path = fresh("permits");
    all.permits = 3;
    all.take = 3;
    conclave::semaphore whole(client, all);
    all.take = 1;
    conclave::semaphore single(client, all);
    const auto taken = whole.acquire();
    CHECK(taken && !single.try_lock());
    conclave::semaphore other(client, {path, 3});
    CHECK(code_of([&] { (void)other.acquire(); }) == CONCLAVE_ECONFLICT);
}

static void elections()
{
    auto client = connect();
    const std::string path = fresh("election");
    std::atomic<int> elected{0};
    std::atomic<int> revoked{0};
    std::atomic<int> closed{0};
    std::atomic<bool> seen{false};
    conclave::election_options options;
    options.path = path;
    options.id = "alice";
    options.data = "10.0.0.1:80";
    options.on_elected = [&](conclave::election &self, conclave::token token, bool regrant) {
        elected += self.token() == token && !regrant;
    };
    options.on_revoked = [&](conclave::election &self, std::error_code why, milliseconds) {
        revoked += !self.leads() && why == CONCLAVE_ECLOSED;
    };
    options.on_closed = [&](auto &, std::error_code why) { closed += why == CONCLAVE_ECLOSED; };
    conclave::election alice(client, options);
    const auto token = alice.wait(patience);
    CHECK(token && alice.leads() && alice.token() == token && elected == 1);
    conclave::election_options watching;
    watching.path = path;
    watching.observe_only = true;
    watching.on_leader = [&](auto &, const conclave::participant *leader, bool) {
        seen =
            seen || (leader != nullptr && leader->id == "alice" && leader->data == "10.0.0.1:80");
    };
    conclave::election observer(client, watching);
    UNTIL(seen);
    conclave::election bob(client, {path, "bob"});
    UNTIL(conclave::election::participants(client, path).size() == 2);
    CHECK(code_of([&] { bob.wait(milliseconds(5)); }) == CONCLAVE_ETIMEDOUT);
    alice.fenced(conclave::transaction().create(path + "-made", "x"));
    auto moved = std::move(alice);
    CHECK(!alice.leads() && moved.leads());
    moved.reset();
    CHECK(revoked == 1 && closed == 1 && token < bob.wait(patience));
    bool led = false;
    bob.take_turn([&](conclave::election &self, conclave::token) { led = self.leads(); }, patience);
    CHECK(led && !bob.leads());
    bool thrown = false;
    try {
        bob.take_turn([](auto &, conclave::token) { throw std::runtime_error("no"); }, patience);
    } catch (const std::runtime_error &) {
        thrown = !bob.leads();
    }
    CHECK(thrown);

    conclave::master_switch_options on;
    on.path = fresh("switch");
    std::atomic<int> master{0};
    std::atomic<int> slave{0};
    on.on_master = [&](conclave::token) { master++; };
    on.on_slave = [&](milliseconds) { slave++; };
    conclave::master_switch first(client, on);
    CHECK(first.wait(patience) && first.is_master() && master == 1);
    first.yield();
    UNTIL(master == 2 && slave == 1);
    first.reset();
    CHECK(slave == 2 && !first.is_master());
}

static void electors()
{
    auto client = connect();
    conclave::elector_options options;
    options.dir = fresh("elector");
    options.id = "a";
    std::atomic<int> activated{0};
    std::atomic<int> stopped{0};
    std::atomic<int> fenced{0};
    options.activate = [&](conclave::elector &, conclave::token) { activated++; };
    options.deactivate = [&](auto &, std::error_code, milliseconds) {
        stopped++;
        throw std::runtime_error("does not stop");
    };
    {
        conclave::client_options quiet;
        quiet.servers = server;
        quiet.on_exception = [](std::exception_ptr, const char *) {};
        const conclave::client its(quiet);
        conclave::elector one(its, options);
        UNTIL(one.active() && one.status() == CONCLAVE_ELECTOR_ACTIVE);
        CHECK(conclave::elector::view(client, options.dir).active->id == "a");
    }
    CHECK(activated == 1 && stopped == 1);
    /* It did not stop cleanly, so the next one fences it. */
    options.id = "b";
    options.deactivate = nullptr;
    options.fence = [&](conclave::elector &, const conclave::breadcrumb &old,
                        conclave::token mine) { fenced += old.id == "a" && old.token < mine; };
    conclave::elector two(client, options);
    UNTIL(two.active());
    CHECK(fenced == 1);
    two.cede(milliseconds(60000));
    UNTIL(!two.active());
}

static void queues()
{
    auto client = connect();
    conclave::queue queue(client, {fresh("queue")});
    conclave::put_options later;
    later.priority = 600;
    later.id = "later";
    CHECK(!queue.put("later", later).empty());
    queue.put("first", conclave::use_future).get();
    auto item = queue.take();
    CHECK(item && item.data() == "first" && item.attempt() == 1 && item.held() &&
          queue.size() == 2);
    CHECK(queue.list().at(0).data == "first" && queue.list().at(1).id == "later" &&
          queue.remove("none") == 0);
    item.nack();
    CHECK(code_of([&] { item.ack(); }) == CONCLAVE_ENOTOWNER);
    auto again = queue.take(conclave::use_future).get();
    CHECK(again.data() == "first" && again.attempt() == 2);
    const std::string path = fresh("effect");
    again.ack_with(conclave::transaction().create(path, "x"));
    CHECK(client.exists(path));
    {
        auto dropped = queue.take(); /* given back when it is destroyed */
    }
    auto last = queue.take(patience);
    CHECK(last.data() == "later" && last.attempt() == 2 && last.priority() == 600);
    auto waits = queue.take(conclave::use_future);
    last.ack(conclave::use_future).get();
    queue.reset();
    CHECK(code_of([&] { waits.get(); }) == CONCLAVE_ECLOSED);
}

/* Repeated before its answer came, in a callback, where none can come: the second one is refused, the first one answered. */
static void repeated_acks()
{
    auto client = connect();
    for (const bool once : {false, true}) {
        conclave::queue_options options;
        options.path = fresh("acks");
        options.at_most_once = once;
        conclave::queue queue(client, std::move(options));
        std::future<void> first;
        std::future<void> second;
        std::promise<void> asked;
        queue.put("x");
        queue.take([&](std::error_code, conclave::item item) {
            first = item.ack(conclave::use_future);
            second = item.ack(conclave::use_future);
            asked.set_value();
        });
        asked.get_future().get();
        CHECK(first.wait_for(patience) == std::future_status::ready);
        first.get();
        CHECK(second.wait_for(patience) == std::future_status::ready);
        CHECK(code_of([&] { second.get(); }) == CONCLAVE_EBUSY);
        CHECK(queue.size() == 0);
    }
}

static void barriers()
{
    auto client = connect();
    conclave::barrier barrier(client, {fresh("barrier")});
    barrier.set();
    auto waits = barrier.wait(conclave::use_future);
    CHECK(code_of([&] { barrier.wait(milliseconds(5)); }) == CONCLAVE_ETIMEDOUT);
    barrier.remove();
    waits.get();
    const std::string path = fresh("double");
    conclave::double_barrier one(client, {path, 2, "one"});
    conclave::double_barrier two(client, {path, 2, "two"});
    auto entered = one.enter(conclave::use_future);
    two.enter();
    entered.get();
    auto left = one.leave(conclave::use_future);
    two.leave();
    left.get();
}

static void groups()
{
    auto client = connect();
    const std::string path = fresh("group");
    std::atomic<size_t> members{0};
    std::atomic<int> joined{0};
    conclave::group_options options;
    options.path = path;
    options.on_view = [&](auto &, const conclave::member_view &view) {
        members = view.members.size();
    };
    options.on_change = [&](auto &, conclave_group_event event, const conclave::member &member) {
        joined += event == CONCLAVE_GROUP_JOINED && member.id == "a" && member.data == "x";
    };
    conclave::group observer(client, options);
    conclave::group member(client, {path, "a", "x"});
    member.wait_joined(patience);
    UNTIL(members == 1 && joined == 1);
    CHECK(conclave::group::members(client, path).at(0).id == "a" &&
          member.membership() == CONCLAVE_MEMBERSHIP_IN);
    member.reset();
    UNTIL(members == 0);

    const std::string base = fresh("registry");
    conclave::registration_options at;
    at.path = base;
    at.name = "shop";
    at.address = "10.0.0.1";
    at.port = 80;
    at.payload = "\"x\"";
    at.uri_spec = "{scheme}://{address}:{port}";
    conclave::registration registration(client, at);
    registration.wait(patience);
    conclave::discovery discovery(client, {base, "shop"});
    UNTIL(discovery.instances().size() == 1);
    const auto instance = discovery.pick();
    CHECK(instance && instance->uri == "http://10.0.0.1:80" && instance->id == registration.id());
    CHECK(conclave::discovery::services(client, base) == std::vector<std::string>{"shop"});
    CHECK(conclave::discovery::find(client, base, "shop", instance->id)->port == 80);
    CHECK(!conclave::discovery::find(client, base, "shop", "none"));
    discovery.note_error(instance->id);
    registration.update(nullptr, true);
    UNTIL(!discovery.pick());
}

static void partitioners()
{
    auto client = connect();
    std::atomic<size_t> mine{0};
    std::atomic<int> released{0};
    conclave::partitioner_options options;
    options.path = fresh("parts");
    options.items = {"a", "b", "c"};
    options.id = "one";
    options.settle = milliseconds(50);
    options.on_acquired = [&](auto &, const std::vector<std::string> &items) {
        mine = items.size();
    };
    options.on_release = [&](conclave::partitioner &self, std::error_code, milliseconds) {
        released++;
        self.release();
    };
    options.partition = [](auto &, const std::string &self, const auto &members,
                           const auto &items) { /* all for the last member */
                                                return std::vector<bool>(items.size(),
                                                                         self == members.back());
    };
    conclave::partitioner one(client, options);
    one.wait(patience);
    UNTIL(mine == 3 && one.status() == CONCLAVE_PARTITION_ACQUIRED);
    options.id = "two";
    std::atomic<bool> all{false};
    options.on_acquired = [&](auto &, const std::vector<std::string> &items) {
        all = items == std::vector<std::string>{"a", "b", "c"};
    };
    conclave::partitioner two(client, options);
    UNTIL(all && mine == 0);
    CHECK(released >= 1);
}

static void values()
{
    auto client = connect();
    conclave::counter counter(client, {fresh("counter"), 5});
    CHECK(counter.get() == 5 && counter.add(2) == 7 &&
          counter.add(1, conclave::use_future).get() == 8);
    std::error_code ec;
    CHECK(counter.compare_and_set(1, 2, ec) == 8 && ec == CONCLAVE_ECONFLICT);
    CHECK(counter.compare_and_set(8, 9) == 9);

    std::atomic<bool> seen{false};
    conclave::shared_value_options options;
    options.path = fresh("shared");
    options.on_change = [&](auto &, const conclave::shared_data &now) {
        seen = seen || now.data == "b";
    };
    conclave::shared_value value(client, options);
    CHECK(value.get().version == CONCLAVE_ABSENT && value.get().is_null);
    CHECK(value.set("a", CONCLAVE_ABSENT).version == 0);
    CHECK(value.set("b", value.get().version, conclave::use_future).get().version == 1);
    CHECK(code_of([&] { value.set("c", 0); }) == CONCLAVE_BAD_VERSION);
    UNTIL(seen);

    const std::string path = fresh("config");
    std::mutex lock;
    std::string applied;
    conclave::config_options reader;
    reader.path = path;
    reader.ack_id = "me";
    reader.validate = [](auto &, const conclave::config_state &state) {
        if (!state.nodes.empty() && state.nodes[0].data == "bad") {
            throw std::runtime_error("I cannot use it");
        }
    };
    reader.on_change = [&](auto &, const conclave::config_state &state) {
        const std::lock_guard<std::mutex> hold(lock);
        applied = state.nodes.empty() ? "" : state.nodes[0].data;
        if (applied == "broken") {
            throw conclave::error(CONCLAVE_EIO, "applying");
        }
    };
    conclave::client_options quiet;
    quiet.servers = server;
    std::atomic<int> caught{0};
    quiet.on_exception = [&](std::exception_ptr, const char *where) {
        caught += std::string(where) == "on_change";
    };
    const conclave::client its(quiet);
    conclave::config config(its, reader);
    const auto acked = [&](const std::string &data) {
        conclave::config_acks_options wanted;
        wanted.path = path;
        wanted.zxid = conclave::config::put(client, path, data);
        wanted.at_least = 1;
        const auto list = conclave::config::wait_acked(client, wanted, patience, ec);
        CHECK(list.size() == 1 && list[0].id == "me");
        return list[0];
    };
    CHECK(!acked("good").error && !ec);
    const auto refused = acked("bad");
    CHECK(refused.error == CONCLAVE_ECANCELED && refused.why == "I cannot use it" && caught == 0);
    CHECK(acked("broken").error == CONCLAVE_EIO && caught == 1);
    CHECK(conclave::config::put_many(client, {{path, "good"}}) > 0);
}

static void caches()
{
    auto client = connect();
    const std::string path = fresh("cache");
    std::atomic<int> created{0};
    std::atomic<bool> loaded{false};
    conclave::persistent_node node(client, {path + "/one", "1"});
    node.wait(patience);
    CHECK(node.presence() == CONCLAVE_MEMBERSHIP_IN && node.path() == path + "/one");
    conclave::cache_options options;
    options.path = path;
    options.without = {"hidden"};
    options.on_event = [&](auto &, const conclave::cache_event &e) {
        created += e.change == CONCLAVE_CACHE_CREATED && e.after && !e.before;
    };
    options.on_loaded = [&](auto &) { loaded = true; };
    conclave::cache cache(client, options);
    cache.wait(0, patience);
    UNTIL(loaded && created == 2);
    CHECK(cache.get(path + "/one")->data == "1" && !cache.get(path + "/two") &&
          cache.status().fresh);
    node.set_data("2");
    UNTIL(cache.get(path + "/one")->data == "2");
    CHECK(cache.children(path).nodes.size() == 1 && cache.subtree(path).nodes.size() == 2);
    node.reset();
    UNTIL(!cache.get(path + "/one"));
}

static void redis()
{
    auto client = connect();
    conclave::redis_options options;
    options.path = fresh("redis");
    conclave::redis_follower follower(client, options);
    const auto view = follower.wait_change(0, patience);
    CHECK(view.state == CONCLAVE_REDIS_NONE && view.master.empty() && !view.writable);
    CHECK(follower.may_write(1) == CONCLAVE_EFENCED);
    CHECK(code_of([&] { follower.wait_master(milliseconds(5)); }) == CONCLAVE_ETIMEDOUT);
    CHECK(code_of([&] { follower.failover(); }) == CONCLAVE_NO_NODE);
    conclave::redis_failover_options wish;
    wish.target = "no address";
    CHECK(code_of([&] { follower.failover(wish); }) == CONCLAVE_EINVAL);
    conclave::redis_replicas replicas = follower.replicas(patience);
    CHECK(replicas.master.empty() && replicas.list.empty() && replicas.pick() == nullptr);
    replicas.list.resize(3);
    replicas.list[1].usable = replicas.list[2].usable = true;
    replicas.list[2].lag_bytes = 7;
    CHECK(replicas.pick() == &replicas.list[1] && replicas.pick(-1, 3) == &replicas.list[2]);
    CHECK(replicas.pick(7, 3) == &replicas.list[2] && replicas.pick(6) == nullptr);
}

const std::vector<test_case> recipe_cases = {
    {"locks", locks},
    {"shared_locks", shared_locks},
    {"semaphores", semaphores},
    {"elections", elections},
    {"electors", electors},
    {"queues", queues},
    {"repeated_acks", repeated_acks},
    {"barriers", barriers},
    {"groups", groups},
    {"partitioners", partitioners},
    {"values", values},
    {"caches", caches},
    {"redis", redis},
};
