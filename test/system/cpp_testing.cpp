/* The server for tests, by the C++ header: what a test of a user does with it. */
#include "cpp_test.h"

using std::chrono::milliseconds;
using std::chrono::seconds;

static conclave::client client_of(const conclave::test_server &testing)
{
    conclave::client_options options;
    options.servers = testing.hosts();
    options.session_timeout = seconds(30);
    conclave::client client(std::move(options));
    client.wait_connected(patience);
    return client;
}

static conclave::test_server start()
{
    conclave::test_server_options options;
    options.program = std::getenv("CONCLAVE_BIN") != nullptr ? std::getenv("CONCLAVE_BIN") : "";
    options.arguments = {"--maxClientCnxns", "0"};
    return conclave::test_server(options);
}

static void test_server_orders()
{
    conclave::test_server testing = start();
    CHECK(testing.pid() > 1 && testing.hosts() != testing.admin());
    auto client = client_of(testing);
    client.create("/held", "x", CONCLAVE_EPHEMERAL);
    auto other = client_of(testing);
    testing.expire(client.session_id());
    CHECK(!other.exists("/held"));

    testing.mark();
    testing.drop(CONCLAVE_TEST_BEFORE, "setData", other.session_id());
    other.create("/kept", "1");
    std::error_code ec;
    other.set("/kept", "2", ec);
    UNTIL(testing.report().connections_dropped == 1);
    other.wait_connected(patience);
    CHECK(other.get("/kept").data == (ec ? "1" : "2")); /* an error, or sent again */
    const conclave::test_report report = testing.report();
    CHECK(report.requests_of("create2") == 1 && report.requests_of("delete") == 0);
    CHECK(report.requests > 1 && report.sessions_expired == 0 && report.since >= milliseconds(0));
    bool found = false;
    for (const auto &session : report.sessions) {
        found = found || (session.id == other.session_id() && session.timeout == seconds(30));
    }
    CHECK(found && report.sessions.size() == report.sessions_open);

    testing.pause(CONCLAVE_TEST_ALL, milliseconds(1));
    testing.resume();
    testing.delay(milliseconds(0));
    testing.freeze();
    testing.freeze(false);
    testing.refuse();
    testing.accept();
    CHECK(testing.advance(milliseconds(1)) == 0);
    testing.clear();
    testing.reset();
    CHECK(testing.report().sessions_expired > 0 || testing.report().sessions_closed > 0);
}

static void test_server_failures()
{
    conclave::test_server testing = start();
    try {
        testing.expire(0x77);
        CHECK(false);
    } catch (const conclave::error &e) {
        CHECK(e.code() == CONCLAVE_NO_NODE);
        CHECK(std::string(e.what()).find("no such session") != std::string::npos);
    }
    CHECK(code_of([&] { testing.delay(milliseconds(-5)); }) == CONCLAVE_EINVAL);
    conclave::test_server moved = std::move(testing);
    CHECK(testing.native() == nullptr && moved.native() != nullptr);
    CHECK(code_of([&] { testing.mark(); }) == CONCLAVE_ECLOSED);
    moved.close();
    CHECK(code_of([&] { (void)moved.hosts(); }) == CONCLAVE_ECLOSED);

    conclave::test_server_options none;
    none.program = "/no/such/program";
    try {
        conclave::test_server never(none);
        CHECK(false);
    } catch (const conclave::error &e) {
        CHECK(std::string(e.what()).find("/no/such/program") != std::string::npos);
    }
}

const std::vector<test_case> testing_cases = {
    {"test_server_orders", test_server_orders},
    {"test_server_failures", test_server_failures},
};
