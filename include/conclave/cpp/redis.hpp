/*
 * The Redis follower in C++ (conclave/redis.h): which server is the master, and whether a write may be sent.
 */
#ifndef CONCLAVE_CPP_REDIS_HPP
#define CONCLAVE_CPP_REDIS_HPP

#include <conclave/cpp/client.hpp>

#include <conclave/redis.h>

#include <algorithm>
#include <memory>

namespace conclave
{

/* As struct conclave_redis_view. */
struct redis_view {
    conclave_redis_state state = CONCLAVE_REDIS_NONE;
    int64_t epoch = 0;
    std::string master; /* "host:port"; empty: none */
    std::string host;
    int port = 0;
    std::string run_id;
    std::string reason;
    std::vector<std::string> replicas;
    std::vector<std::string> unavailable;
    int64_t mzxid = 0;
    uint64_t change = 0;
    bool stale = false;
    bool writable = false;
};

/* As struct conclave_redis_failover_options. */
struct redis_failover_options {
    std::string target{}; /* empty: the best replica */
    bool force = false;
    time_span timeout{milliseconds(10000)};
};

/* As struct conclave_redis_failover_result. */
struct redis_failover_result {
    bool ok = false;
    std::string text;
    std::string master;
    int64_t epoch = 0;
    int64_t lost_bytes = -1;
};

/* As struct conclave_redis_replica. */
struct redis_replica {
    std::string address;
    std::string host;
    int port = 0;
    bool usable = false;
    int64_t lag_bytes = -1;
    milliseconds link_down{-1};
    std::chrono::microseconds latency{-1};
    milliseconds age{-1};
};

/* As struct conclave_redis_replicas. */
struct redis_replicas {
    std::string master;
    int64_t epoch = 0;
    std::vector<redis_replica> list;

    /* As conclave_redis_pick; nullptr: there is none. */
    const redis_replica *pick(int64_t max_lag_bytes = -1, uint64_t turn = 0) const noexcept
    {
        const auto fits = [=](const redis_replica &one) {
            return one.usable &&
                   (max_lag_bytes < 0 || (one.lag_bytes >= 0 && one.lag_bytes <= max_lag_bytes));
        };
        const auto count = std::count_if(list.begin(), list.end(), fits);
        auto wanted = count == 0 ? 0 : turn % static_cast<uint64_t>(count);
        for (const auto &one : list) {
            if (fits(one) && wanted-- == 0) {
                return &one;
            }
        }
        return nullptr;
    }
};

class redis_follower;

/* As struct conclave_redis_options and its callbacks. */
struct redis_options {
    std::string cluster{}; /* empty: "default" */
    std::string path{};
    std::function<void(redis_follower &, const redis_view &)> on_change{};
    std::function<void(redis_follower &, std::error_code why)> on_closed{};
    conclave_redis_layout layout = CONCLAVE_REDIS_LAYOUT_NATIVE;
    time_span stale{milliseconds(5000)};
};

namespace detail
{

using redis_binding = binding<conclave_redis, conclave_redis_close, conclave_redis_close_wait,
                              conclave_redis_destroy>;

inline redis_view to_redis(const conclave_redis_view &raw)
{
    redis_view made;
    made.state = raw.state;
    made.epoch = raw.epoch;
    made.master = text(raw.master);
    made.host = text(raw.host);
    made.port = raw.port;
    made.run_id = text(raw.run_id);
    made.reason = text(raw.reason);
    made.replicas.assign(raw.replicas, raw.replicas + raw.replica_count);
    made.unavailable.assign(raw.unavailable, raw.unavailable + raw.unavailable_count);
    made.mzxid = raw.mzxid;
    made.change = raw.change;
    made.stale = raw.stale;
    made.writable = raw.writable;
    return made;
}

inline redis_replica to_replica(const conclave_redis_replica &raw)
{
    redis_replica made;
    made.address = text(raw.address);
    made.host = text(raw.host);
    made.port = raw.port;
    made.usable = raw.usable;
    made.lag_bytes = raw.lag_bytes;
    made.link_down = milliseconds(raw.link_down_ms);
    made.latency = std::chrono::microseconds(raw.latency_us);
    made.age = milliseconds(raw.age_ms);
    return made;
}

} // namespace detail

class redis_follower
    : public detail::basic_handle<redis_follower, redis_options, detail::redis_binding>
{
  public:
    using basic_handle::basic_handle;
    redis_follower() noexcept = default;

    redis_follower(const client &client, redis_options options)
        : basic_handle(client.shared(), std::move(options), "redis_follower",
                       [](state &s, void *ctx, conclave_redis **ret) { return open(s, ctx, ret); })
    {
    }

    /* No error: the program may send a write to the master of this epoch now. */
    std::error_code may_write(int64_t epoch) const noexcept
    {
        return detail::to_code(
            ask_raw(static_cast<int>(CONCLAVE_ECLOSED),
                    [=](conclave_redis *there) { return conclave_redis_may_write(there, epoch); }));
    }

    /* No error: the server that answered so to ROLE or INFO is the master of this epoch. */
    std::error_code check(int64_t epoch, std::string_view answer) const noexcept
    {
        return detail::to_code(
            ask_raw(static_cast<int>(CONCLAVE_ECLOSED), [=](conclave_redis *there) {
                return conclave_redis_check(there, epoch, answer.data(), answer.size());
            }));
    }

    /* Waits for a view whose change is greater than `after`. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    redis_view wait_change(uint64_t after = 0, time_span timeout = forever, S &&...style) const
    {
        return view(
            "wait_change",
            [=](conclave_redis *there, conclave_redis_view **ret) {
                return conclave_redis_wait_change(there, after, detail::wait_ms(timeout), ret);
            },
            std::forward<S>(style)...);
    }

    /* Waits for a master that may be written to. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    redis_view wait_master(time_span timeout = forever, S &&...style) const
    {
        return view(
            "wait_master",
            [=](conclave_redis *there, conclave_redis_view **ret) {
                return conclave_redis_wait_master(there, detail::wait_ms(timeout), ret);
            },
            std::forward<S>(style)...);
    }

    /* Asks the managers for another master, and waits for their answer. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    redis_failover_result failover(const redis_failover_options &options = {}, S &&...style) const
    {
        return run<redis_failover_result>(
            "failover",
            [=](conclave_redis *there, redis_failover_result &value) {
                conclave_redis_failover_options raw = CONCLAVE_REDIS_FAILOVER_OPTIONS_INIT;
                raw.target = detail::or_null(options.target);
                raw.force = options.force;
                raw.timeout_ms = detail::option_ms(options.timeout);
                conclave_redis_failover_result *got = nullptr;
                const int error = conclave_redis_failover(there, &raw, &got);
                const std::unique_ptr<conclave_redis_failover_result,
                                      void (*)(conclave_redis_failover_result *)>
                    held(got, conclave_redis_failover_result_free);
                if (error == 0) {
                    value = {got->ok, detail::text(got->text), detail::text(got->master),
                             got->epoch, got->lost_bytes};
                }
                return error;
            },
            nullptr, std::forward<S>(style)...);
    }

    /* The replicas, as the managers last reported them. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    redis_replicas replicas(time_span timeout = forever, S &&...style) const
    {
        return run<redis_replicas>(
            "replicas",
            [=](conclave_redis *there, redis_replicas &value) {
                conclave_redis_replicas *got = nullptr;
                const int error =
                    conclave_redis_list_replicas(there, detail::wait_ms(timeout), &got);
                const std::unique_ptr<conclave_redis_replicas, void (*)(conclave_redis_replicas *)>
                    held(got, conclave_redis_replicas_free);
                if (error == 0) {
                    value = {};
                    value.master = detail::text(got->master);
                    value.epoch = got->epoch;
                    std::transform(got->list, got->list + got->count,
                                   std::back_inserter(value.list),
                                   [](const auto *one) { return detail::to_replica(*one); });
                }
                return error;
            },
            nullptr, std::forward<S>(style)...);
    }

  private:
    template <class Call, class... S>
    redis_view view(const char *what, Call call, S &&...style) const
    {
        return run<redis_view>(
            what,
            [=](conclave_redis *there, redis_view &value) {
                conclave_redis_view *raw = nullptr;
                int error = call(there, &raw);
                const std::unique_ptr<conclave_redis_view, void (*)(conclave_redis_view *)> held(
                    raw, conclave_redis_view_free);
                if (error == 0) {
                    value = detail::to_redis(*raw);
                }
                return error;
            },
            nullptr, std::forward<S>(style)...);
    }

    static int open(state &s, void *ctx, conclave_redis **ret)
    {
        const redis_options &o = s.options;
        conclave_redis_options raw = CONCLAVE_REDIS_OPTIONS_INIT;
        raw.cluster = detail::or_null(o.cluster);
        raw.path = detail::or_null(o.path);
        raw.layout = o.layout;
        raw.stale_ms = o.stale.count();
        auto calls = detail::sized<conclave_redis_callbacks>(0);
        if (o.on_change) {
            calls.on_change = [](conclave_redis *there, const conclave_redis_view *now,
                                 void *self) {
                state::enter(there, self, "on_change", [&](state &its, redis_follower &view) {
                    its.options.on_change(view, detail::to_redis(*now));
                });
            };
        }
        calls.on_closed = state::on_closed;
        return conclave_redis_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

} // namespace conclave

#endif
