/* The client of Redis servers in C++, with a record in the tree and a small Redis server in memory. */
#include "cpp_test.h"
#include "support/fake_redis.h"

#include <conclave/cpp/redis_client.hpp>

using std::chrono::milliseconds;

/* A master, and the record that names it. */
struct redis_set {
    conclave::client client = connect();
    std::string path = fresh("redis_client");
    std::unique_ptr<fake_redis, void (*)(fake_redis *)> master{fake_redis_start(true, "aaaa"),
                                                               fake_redis_stop};

    redis_set()
    {
        client.create(path);
        client.create(path + "/current",
                      std::string(R"({"epoch":1,"state":"ok","master":")") +
                          fake_redis_address(master.get()) +
                          R"(","run_id":"aaaa","replicas":[],"unavailable":[]})");
    }

    conclave::redis_client_options options() const
    {
        conclave::redis_client_options made;
        made.path = path;
        made.stale = patience;
        made.timeout = made.connect_timeout = made.answer_timeout = patience;
        return made;
    }
};

static void redis_commands()
{
    redis_set set;
    auto options = set.options();
    options.wait_replicas = 1;
    fake_redis_set(set.master.get(), 0, 2);
    conclave::redis_client redis(set.client, options);
    auto reply = redis.write({"INCR", "key"});
    CHECK(reply.type == CONCLAVE_REDIS_REPLY_INTEGER && reply.integer == 1 && reply.epoch == 1);
    CHECK(reply.replicas == 2 && reply.server == fake_redis_address(set.master.get()));
    CHECK(redis.write_idempotent({"INCR", "key"}).integer == 2);
    CHECK(redis.read({"GET", "key"}).text == "2" && redis.read_master({"GET", "key"}).text == "2");
    CHECK(redis.command(CONCLAVE_REDIS_READ, {"ECHO", "hello"}).text == "hello");
    fake_redis_hook(set.master.get(), "GET", 1, FAKE_REDIS_SAY,
                    "*3\r\n$-1\r\n:7\r\n*1\r\n-E x\r\n");
    reply = redis.read({"GET", "key"});
    CHECK(reply.list.size() == 3 && reply.list[0].is_nil() && reply.list[1].integer == 7);
    CHECK(reply.list[2].list[0].is_error() && reply.list[2].list[0].text == "E x");
    CHECK(redis.read({"NONE"}).is_error());
    fake_redis_hook(set.master.get(), "INCR", 1, FAKE_REDIS_LOSE, nullptr);
    std::error_code ec;
    CHECK(redis.write({"INCR", "key"}, ec).is_nil() && ec == CONCLAVE_CONNECTION_LOSS);
    CHECK(!redis.problem().empty());
    CHECK(code_of([&] { redis.write({"MULTI"}); }) == CONCLAVE_EINVAL);
    CHECK(code_of([&] { redis.write({}); }) == CONCLAVE_EINVAL);
    options.connections = 0;
    CHECK(code_of([&] { conclave::redis_client(set.client, options); }) == CONCLAVE_EINVAL);
    CHECK(code_of([&] { conclave::redis_client(conclave::client(), set.options()); }) ==
          CONCLAVE_ECLOSED);
}

static void redis_without_a_master()
{
    auto client = connect();
    conclave::redis_client_options options;
    options.path = fresh("redis_client");
    options.timeout = milliseconds(20);
    const conclave::redis_client redis(client, options);
    CHECK(code_of([&] { redis.write({"INCR", "key"}); }) == CONCLAVE_ETIMEDOUT);
    CHECK(redis.problem() == "there is no master that may be written to");
}

static void redis_clients_end()
{
    redis_set set;
    conclave::redis_client redis(set.client, set.options());
    CHECK(redis.write({"INCR", "key"}).integer == 1);
    conclave::redis_client moved(std::move(redis));
    CHECK(!redis && moved && moved.native() != nullptr && redis.native() == nullptr);
    CHECK(code_of([&] { redis.read({"GET", "key"}); }) == CONCLAVE_ECLOSED);
    CHECK(redis.problem().empty() && redis.close_wait(patience));
    redis = std::move(moved);
    CHECK(redis.write({"INCR", "key"}).integer == 2);

    /* A command that another thread waits for ends with it. */
    fake_redis_hook(set.master.get(), "INCR", 1, FAKE_REDIS_SILENT, nullptr);
    std::error_code ec;
    std::thread waits([&] { redis.write({"INCR", "key"}, ec); });
    UNTIL(fake_redis_value(set.master.get()) == 3);
    CHECK(redis.close_wait(patience));
    waits.join();
    CHECK(ec == CONCLAVE_CONNECTION_LOSS);
    CHECK(code_of([&] { redis.read({"GET", "key"}); }) == CONCLAVE_ECLOSED);

    /* In a callback nothing can wait. */
    auto given = std::make_unique<conclave::redis_client>(set.client, set.options());
    CHECK(given->read({"GET", "key"}).text == "3");
    std::atomic<bool> gone{false};
    conclave::redis_options follow;
    follow.path = set.path;
    follow.on_change = [&](conclave::redis_follower &, const conclave::redis_view &) {
        given.reset();
        gone = true;
    };
    const conclave::redis_follower follower(set.client, follow);
    UNTIL(gone);

    /* It keeps its session; a client that is closed ends it. */
    conclave::redis_client last(set.client, set.options());
    CHECK(last.read({"GET", "key"}).text == "3");
    set.client.close(patience);
    CHECK(code_of([&] { last.read({"GET", "key"}); }) == CONCLAVE_ECLOSED);
}

const std::vector<test_case> redis_cases = {
    {"redis_commands", redis_commands},
    {"redis_without_a_master", redis_without_a_master},
    {"redis_clients_end", redis_clients_end},
};
