/*
 * A server for tests in C++ (conclave/test_server.h): a child process that does to its clients what the test says.
 *
 *     conclave::test_server server;
 *     conclave::client client({server.hosts()});
 *     server.expire(client.session_id());                   as if its timeout had passed
 *     server.drop(CONCLAVE_TEST_AFTER, "create");           the answer of the next committed create is lost
 *     server.report().requests_of("setData");
 *
 * Destroy clients before it, or expect them to lose their server. Orders throw conclave::error, whose what() says why; they
 * wait for some milliseconds, may be called from any thread, and not while the object is moved or destroyed.
 */
#ifndef CONCLAVE_CPP_TEST_SERVER_HPP
#define CONCLAVE_CPP_TEST_SERVER_HPP

#include <conclave/cpp/async.hpp>
#include <conclave/cpp/error.hpp>

#include <conclave/test_server.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace conclave
{

/* As struct conclave_test_server_options. */
struct test_server_options {
    std::string program;                /* "": the environment variable CONCLAVE, or PATH */
    std::vector<std::string> arguments; /* of `conclave server`: {"--tickTime", "2000"} */
    time_span timeout = milliseconds(30000);
};

/* An open session, as struct conclave_test_session. */
struct test_session {
    int64_t id = 0;
    milliseconds timeout{0};
    bool connected = false;
    uint64_t watches = 0;
};

/* What happened since the start or the last mark, as struct conclave_test_report. */
struct test_report {
    milliseconds since{0};
    uint64_t connections_open = 0;
    uint64_t connections_accepted = 0;
    uint64_t connections_refused = 0;
    uint64_t connections_dropped = 0;
    uint64_t sessions_open = 0;
    uint64_t sessions_created = 0;
    uint64_t sessions_expired = 0;
    uint64_t sessions_closed = 0;
    uint64_t requests = 0;
    uint64_t watches_set = 0;
    uint64_t watches_told = 0;
    std::vector<test_session> sessions;
    std::map<std::string, uint64_t> kinds; /* requests by their names in the protocol */

    uint64_t requests_of(const std::string &name) const
    {
        const auto found = kinds.find(name);
        return found != kinds.end() ? found->second : 0;
    }
};

namespace detail
{

struct test_server_close {
    void operator()(conclave_test_server *server) const noexcept
    {
        conclave_test_server_close(server);
    }
};

struct test_report_free {
    void operator()(conclave_test_report *report) const noexcept
    {
        conclave_test_report_free(report);
    }
};

inline test_report to_test_report(const conclave_test_report &raw)
{
    test_report made;
    made.since = milliseconds(raw.since_ms);
    made.connections_open = raw.connections_open;
    made.connections_accepted = raw.connections_accepted;
    made.connections_refused = raw.connections_refused;
    made.connections_dropped = raw.connections_dropped;
    made.sessions_open = raw.sessions_open;
    made.sessions_created = raw.sessions_created;
    made.sessions_expired = raw.sessions_expired;
    made.sessions_closed = raw.sessions_closed;
    made.requests = raw.requests;
    made.watches_set = raw.watches_set;
    made.watches_told = raw.watches_told;
    for (size_t i = 0; i < raw.session_count; i++) {
        const conclave_test_session &s = raw.sessions[i];
        made.sessions.push_back({s.id, milliseconds(s.timeout_ms), s.connected, s.watches});
    }
    for (size_t i = 0; i < raw.kind_count; i++) {
        made.kinds[raw.kinds[i].name] = raw.kinds[i].count;
    }
    return made;
}

} // namespace detail

class test_server
{
  public:
    /* Starts it and waits until it is ready. Ends with this object, and with this process. */
    explicit test_server(const test_server_options &how = {})
    {
        std::vector<const char *> words;
        for (const std::string &word : how.arguments) {
            words.push_back(word.c_str());
        }
        words.push_back(nullptr);
        conclave_test_server_options raw = CONCLAVE_TEST_SERVER_OPTIONS_INIT;
        raw.program = how.program.empty() ? nullptr : how.program.c_str();
        raw.arguments = words.data();
        raw.timeout_ms = how.timeout.count();
        conclave_test_server *made = nullptr;
        char *problem = nullptr;
        const int code = conclave_test_server_open(&raw, &made, &problem);
        const std::unique_ptr<char, void (*)(void *)> owned(problem, std::free);
        detail::check(code, problem != nullptr ? problem : "test_server");
        raw_.reset(made);
    }

    /* "127.0.0.1:PORT" for clients, and of the HTTP port. */
    std::string hosts() const
    {
        return conclave_test_server_hosts(there());
    }
    std::string admin() const
    {
        return conclave_test_server_admin(there());
    }
    int64_t pid() const
    {
        return conclave_test_server_pid(there());
    }

    /* Ends it. CONCLAVE_EIO: it had ended before, or did not end as it should. */
    void close()
    {
        detail::check(conclave_test_server_close(raw_.release()), "close");
    }

    /* Ends a session as if its timeout had passed. */
    void expire(int64_t session = CONCLAVE_TEST_ALL)
    {
        order(conclave_test_server_expire, session);
    }

    /* Ends a connection once: now, or around the next request of that name ("": any but those that keep a session). */
    void drop(conclave_test_when when, const std::string &request = {},
              int64_t session = CONCLAVE_TEST_ALL)
    {
        order(conclave_test_server_drop, session, when,
              request.empty() ? nullptr : request.c_str());
    }

    /* Delays answers; 0: no longer. */
    void delay(time_span time, int64_t session = CONCLAVE_TEST_ALL)
    {
        order(conclave_test_server_delay, session, static_cast<int64_t>(time.count()));
    }

    /* Reads and sends nothing, until resume if no time is given. */
    void pause(int64_t session = CONCLAVE_TEST_ALL, time_span time = forever)
    {
        order(conclave_test_server_pause, session, span(time));
    }
    void resume(int64_t session = CONCLAVE_TEST_ALL)
    {
        order(conclave_test_server_resume, session);
    }

    /* Closes new connections at once, until accept if no time is given. */
    void refuse(time_span time = forever)
    {
        order(conclave_test_server_refuse, span(time));
    }
    void accept()
    {
        order(conclave_test_server_accept);
    }

    /* Lets time pass for sessions: how many have ended. */
    uint64_t advance(time_span time)
    {
        uint64_t expired = 0;
        order(conclave_test_server_advance, static_cast<int64_t>(time.count()), &expired);
        return expired;
    }

    /* Stops the clock of sessions, or lets it go on. */
    void freeze(bool frozen = true)
    {
        order(conclave_test_server_freeze, frozen);
    }

    /* Drops all orders; reset also ends all sessions and deletes all nodes. */
    void clear()
    {
        order(conclave_test_server_clear);
    }
    void reset()
    {
        order(conclave_test_server_reset);
    }

    /* Counts from now on; what happened since. */
    void mark()
    {
        order(conclave_test_server_mark);
    }
    test_report report()
    {
        conclave_test_report *raw = nullptr;
        order(conclave_test_server_report, &raw);
        const std::unique_ptr<conclave_test_report, detail::test_report_free> owned(raw);
        return detail::to_test_report(*raw);
    }

    /* The server of the C interface; nullptr: none, after close or a move. Do not close it. */
    conclave_test_server *native() const noexcept
    {
        return raw_.get();
    }

  private:
    static int64_t span(time_span time) noexcept
    {
        return time.count() == forever.count() ? CONCLAVE_TEST_FOREVER : time.count();
    }

    conclave_test_server *there() const
    {
        detail::check(raw_ ? 0 : CONCLAVE_ECLOSED, "test_server");
        return raw_.get();
    }

    template <class... Wanted, class... Given>
    void order(int (*give)(conclave_test_server *, Wanted...), Given... arguments)
    {
        conclave_test_server *server = there();
        const int code = give(server, arguments...);
        if (code != 0) {
            throw error(code, conclave_test_server_problem(server));
        }
    }

    std::unique_ptr<conclave_test_server, detail::test_server_close> raw_;
};

} // namespace conclave

#endif
