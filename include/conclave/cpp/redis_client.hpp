/*
 * The client of a set of Redis servers in C++ (conclave/redis_client.h): writes to the master, reads to a replica or the
 * master. Not part of conclave/conclave.hpp, because it needs the library libconclave-redis.
 *
 *     conclave::redis_client redis(client, {"shop"});
 *     redis.write({"INCR", "visits"});
 *     std::string name = redis.read({"GET", "name"}).text;
 */
#ifndef CONCLAVE_CPP_REDIS_CLIENT_HPP
#define CONCLAVE_CPP_REDIS_CLIENT_HPP

#include <conclave/cpp/client.hpp>

#include <conclave/redis_client.h>

#include <initializer_list>
#include <memory>

namespace conclave
{

/* As struct conclave_redis_client_options. */
struct redis_client_options {
    std::string cluster{}; /* empty: "default" */
    std::string path{};
    conclave_redis_reads reads = CONCLAVE_REDIS_READS_MASTER;
    int64_t max_lag_bytes = -1;
    conclave_redis_layout layout = CONCLAVE_REDIS_LAYOUT_NATIVE;
    time_span stale{milliseconds(5000)};
    std::string user{};
    std::string password{}; /* empty: no log-in */
    int database = 0;
    bool tls = false;
    std::string ca_file{};
    std::string cert_file{};
    std::string key_file{};
    bool tls_any_name = false;
    int wait_replicas = 0;
    time_span wait{milliseconds(1000)};
    time_span timeout{milliseconds(10000)};
    time_span connect_timeout{milliseconds(1000)};
    time_span answer_timeout{milliseconds(2000)};
    int retries = 64;
    int connections = 8;
    size_t reply_max = size_t(64) * 1024 * 1024;
};

/* As struct conclave_redis_reply. */
struct redis_reply {
    conclave_redis_reply_type type = CONCLAVE_REDIS_REPLY_NIL;
    int64_t integer = 0;
    std::string text{}; /* STATUS, ERROR, STRING */
    std::vector<redis_reply> list{};
    std::string server{};
    int64_t epoch = 0;
    int64_t replicas = -1;

    bool is_nil() const noexcept
    {
        return type == CONCLAVE_REDIS_REPLY_NIL;
    }
    bool is_error() const noexcept
    {
        return type == CONCLAVE_REDIS_REPLY_ERROR;
    }
};

namespace detail
{

inline redis_reply to_reply(const conclave_redis_reply &raw)
{
    redis_reply made;
    made.type = raw.type;
    made.integer = raw.integer;
    made.text.assign(raw.text, raw.len);
    made.list.reserve(raw.count);
    for (size_t i = 0; i < raw.count; i++) {
        made.list.push_back(to_reply(*raw.list[i]));
    }
    made.server = text(raw.server);
    made.epoch = raw.epoch;
    made.replicas = raw.replicas;
    return made;
}

/* A C client, which each running command keeps. */
class redis_client_state final : public session_member
{
  public:
    redis_client_state(std::shared_ptr<session> owner_, const redis_client_options &o)
        : owner(std::move(owner_))
    {
        conclave_redis_client_options raw_options = CONCLAVE_REDIS_CLIENT_OPTIONS_INIT;
        raw_options.cluster = or_null(o.cluster);
        raw_options.path = or_null(o.path);
        raw_options.layout = o.layout;
        raw_options.stale_ms = o.stale.count();
        raw_options.user = or_null(o.user);
        raw_options.password = or_null(o.password);
        raw_options.database = o.database;
        raw_options.tls = o.tls;
        raw_options.ca_file = or_null(o.ca_file);
        raw_options.cert_file = or_null(o.cert_file);
        raw_options.key_file = or_null(o.key_file);
        raw_options.tls_any_name = o.tls_any_name;
        raw_options.reads = o.reads;
        raw_options.max_lag_bytes = o.max_lag_bytes;
        raw_options.wait_replicas = o.wait_replicas;
        raw_options.wait_ms = o.wait.count();
        raw_options.timeout_ms = o.timeout.count();
        raw_options.connect_timeout_ms = o.connect_timeout.count();
        raw_options.answer_timeout_ms = o.answer_timeout.count();
        raw_options.retries = o.retries;
        raw_options.connections = o.connections;
        raw_options.reply_max = o.reply_max;
        check(conclave_redis_client_open(owner->recipes(), &raw_options, &raw), "redis_client");
    }

    redis_client_state(const redis_client_state &) = delete;
    redis_client_state &operator=(const redis_client_state &) = delete;

    /* No command runs any more. In a callback nothing can wait: then it ends in a thread of its own. */
    ~redis_client_state()
    {
        const int error = conclave_redis_client_close_wait(raw, CONCLAVE_FOREVER);
        if (error == 0) {
            conclave_redis_client_destroy(raw);
        } else if (error == CONCLAVE_EDEADLK) {
            try {
                std::thread([there = raw, keep = owner] {
                    (void)conclave_redis_client_close_wait(there, CONCLAVE_FOREVER);
                    conclave_redis_client_destroy(there);
                }).detach();
            } catch (...) { /* no thread: it stays until the process ends */
            }
        }
    }

    void begin_close() noexcept override
    {
        conclave_redis_client_close(raw);
    }
    int wait_closed(int64_t timeout_ms) noexcept override
    {
        return conclave_redis_client_close_wait(raw, timeout_ms);
    }
    bool ends() noexcept override
    {
        return false;
    }

    const std::shared_ptr<session> owner;
    conclave_redis_client *raw = nullptr;
};

} // namespace detail

/* Move-only. Any number of threads may use one; the client and this may be destroyed in any order. */
class redis_client
{
  public:
    using words = std::initializer_list<std::string_view>;

    /* No client: every call fails with CONCLAVE_ECLOSED. */
    redis_client() noexcept = default;

    /* Throws conclave::error. */
    redis_client(const client &client, const redis_client_options &options)
    {
        if (!client.shared()) {
            throw conclave::error(CONCLAVE_ECLOSED, "redis_client");
        }
        state_ = std::make_shared<detail::redis_client_state>(client.shared(), options);
        client.shared()->add(state_);
    }

    redis_client(redis_client &&) noexcept = default;
    redis_client &operator=(redis_client &&other) noexcept
    {
        if (this != &other) {
            reset();
            state_ = std::move(other.state_);
        }
        return *this;
    }
    ~redis_client()
    {
        reset();
    }

    explicit operator bool() const noexcept
    {
        return state_ != nullptr;
    }

    /* Executes one command, as conclave_redis_command. Waits; throws conclave::error, or sets the
     * std::error_code that is its last argument. An ERROR of the server is a reply. */
    template <class... S, detail::waiting_styles<redis_reply, S...> = 0>
    redis_reply command(conclave_redis_kind kind, const std::vector<std::string_view> &argv,
                        S &&...style) const
    {
        return run(kind, argv.data(), argv.size(), std::forward<S>(style)...);
    }

    /* At the master, executed at most once. CONCLAVE_CONNECTION_LOSS: it is not known whether it was. */
    template <class... S, detail::waiting_styles<redis_reply, S...> = 0>
    redis_reply write(words argv, S &&...style) const
    {
        return run(CONCLAVE_REDIS_WRITE, argv.begin(), argv.size(), std::forward<S>(style)...);
    }

    /* At the master; the program permits that it is executed twice. */
    template <class... S, detail::waiting_styles<redis_reply, S...> = 0>
    redis_reply write_idempotent(words argv, S &&...style) const
    {
        return run(CONCLAVE_REDIS_WRITE_IDEMPOTENT, argv.begin(), argv.size(),
                   std::forward<S>(style)...);
    }

    /* At a replica or the master, as the options say. */
    template <class... S, detail::waiting_styles<redis_reply, S...> = 0>
    redis_reply read(words argv, S &&...style) const
    {
        return run(CONCLAVE_REDIS_READ, argv.begin(), argv.size(), std::forward<S>(style)...);
    }

    template <class... S, detail::waiting_styles<redis_reply, S...> = 0>
    redis_reply read_master(words argv, S &&...style) const
    {
        return run(CONCLAVE_REDIS_READ_MASTER, argv.begin(), argv.size(),
                   std::forward<S>(style)...);
    }

    /* The last reason why a server was not used; empty: none. */
    std::string problem() const
    {
        std::array<char, 256> text{};
        if (state_) {
            conclave_redis_client_problem(state_->raw, text.data(), text.size());
        }
        return text.data();
    }

    /* Ends commands that run, as conclave_redis_client_close. */
    void close() noexcept
    {
        if (state_) {
            state_->begin_close();
        }
    }

    /* Closes, and waits for commands that run: false if they have not ended in time, or in a callback. */
    bool close_wait(time_span timeout) noexcept
    {
        return !state_ || state_->wait_closed(detail::wait_ms(timeout)) == 0;
    }

    /* Destroys it, as its destructor: ends the commands that run and waits for them, but not in a callback. */
    void reset() noexcept
    {
        (void)close_wait(forever);
        state_.reset();
    }

    /* For functions of the C interface. nullptr: none. */
    conclave_redis_client *native() const noexcept
    {
        return state_ ? state_->raw : nullptr;
    }

  private:
    template <class... S>
    redis_reply run(conclave_redis_kind kind, const std::string_view *argv, size_t argc,
                    S &&...style) const
    {
        std::vector<const char *> data;
        std::vector<size_t> lens;
        for (size_t i = 0; i < argc; i++) {
            data.push_back(argv[i].data() != nullptr ? argv[i].data() : "");
            lens.push_back(argv[i].size());
        }
        const auto keep = state_;
        return detail::run<redis_reply>(
            detail::no_sink(), "redis_client",
            [&](redis_reply &value) {
                conclave_redis_reply *raw = nullptr;
                const int error =
                    keep ? conclave_redis_command(keep->raw, kind, static_cast<int>(argc),
                                                  data.data(), lens.data(), &raw)
                         : static_cast<int>(CONCLAVE_ECLOSED);
                const std::unique_ptr<conclave_redis_reply, void (*)(conclave_redis_reply *)> held(
                    raw, conclave_redis_reply_free);
                if (error == 0) {
                    value = detail::to_reply(*raw);
                }
                return error;
            },
            nullptr, std::forward<S>(style)...);
    }

    std::shared_ptr<detail::redis_client_state> state_;
};

} // namespace conclave

#endif
