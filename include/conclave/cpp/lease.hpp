/*
 * Leases in C++ (conclave/lease.h): nodes with a time to live of their own.
 *
 *     conclave::lease lease({"10.0.0.1:2181"}, std::chrono::seconds(10));
 *     lease.client().create("/workers/a", "busy", CONCLAVE_EPHEMERAL);     goes with the lease
 *     conclave::mutex mutex(lease.client(), {"/locks/a"});                 so does this lock
 *     lease.attach("/made/before");
 *     save(lease.id());                                                    conclave::lease::take continues it
 *
 * A lease is a session of its own; recipes made with its client share it, and keep it when the lease is destroyed before
 * them: it ends with the last of them, or with end(). Destroyed in a callback, it ends in the background.
 */
#ifndef CONCLAVE_CPP_LEASE_HPP
#define CONCLAVE_CPP_LEASE_HPP

#include <conclave/cpp/client.hpp>

#include <conclave/lease.h>

namespace conclave
{

/* As struct conclave_lease_info. */
struct lease_info {
    milliseconds granted{0}; /* time to live, as the servers granted it */
    milliseconds left{0};    /* that passes at least before the servers may end it */
};

/* A lease of a list, as struct conclave_lease_entry. */
struct lease_entry {
    int64_t session_id = 0;
    milliseconds ttl{0};
    std::chrono::system_clock::time_point since{};
    std::string name;
};

/* Called once, in a thread of the lease: it is over (CONCLAVE_SESSION_EXPIRED: its time passed, or somebody revoked it). */
using lease_ended = std::function<void(std::error_code why)>;

namespace detail
{

/* The context of a C lease's callbacks: lives until the lease is closed. */
struct lease_state : std::enable_shared_from_this<lease_state> {
    lease_state(const client_options &how, lease_ended ended_)
        : errors(std::make_shared<sink>(sink{how.on_exception})),
          log(std::make_shared<state_listener>()), on_ended(std::move(ended_))
    {
        log->errors = errors;
        log->on_log = log_function(how);
    }

    /* open: int(const conclave_client_options *, const conclave_lease_callbacks *, void *ctx, conclave_lease **ret). */
    template <class Open> void begin(const client_options &how, const char *what, Open &&open)
    {
        raw_client_options options(how);
        conclave_client_options its = options.get();
        its.on_log = log->on_log ? state_listener::log : nullptr;
        its.ctx = &log;
        auto callbacks = sized<conclave_lease_callbacks>(0);
        callbacks.on_ended = on_ended ? ended : nullptr;
        self_ = shared_from_this();
        try {
            options.explained(
                [&] { check(open(&its, &callbacks, static_cast<void *>(this), &raw), what); });
        } catch (...) {
            self_.reset();
            throw;
        }
    }

    /* Closes the C lease; in its own callback, where that cannot wait, in another thread. */
    void close(int64_t timeout_ms) noexcept
    {
        conclave_lease *there = std::exchange(raw, nullptr);
        const conclave_lease_end as = how;
        const auto end = [this, there, as, timeout_ms] {
            const int error = conclave_lease_close(there, as, timeout_ms);
            if (error == 0) {
                const auto last = std::move(self_);
            }
            return error;
        };
        if (there != nullptr && end() != 0) {
            try {
                std::thread(end).detach();
            } catch (...) { /* no thread: the lease stays until the process ends */
            }
        }
    }

    const std::shared_ptr<const sink> errors;
    std::shared_ptr<state_listener> log;
    lease_ended on_ended;
    gate calls;
    std::atomic<conclave_lease_end> how{CONCLAVE_LEASE_END_NOW};
    conclave_lease *raw = nullptr;

  private:
    static void ended(conclave_lease *, int why, void *ctx)
    {
        auto *self = static_cast<lease_state *>(ctx);
        gate::pass pass(self->calls);
        if (pass) {
            guarded(*self->errors, "on_ended", [&] { self->on_ended(to_code(why)); });
        }
    }

    std::shared_ptr<lease_state> self_; /* while the C lease is open */
};

inline lease_info to_info(const conclave_lease_info &raw)
{
    return {milliseconds(raw.granted_ms), milliseconds(raw.left_ms)};
}

inline lease_entry to_lease_entry(const conclave_lease_entry &raw)
{
    return {raw.session_id, milliseconds(raw.ttl_ms), to_time(raw.since_ms), text(raw.name)};
}

} // namespace detail

class lease
{
  public:
    /* No lease: every call fails with CONCLAVE_ECLOSED. */
    lease() noexcept = default;

    /* Grants a lease and keeps it alive; waits for a server at most `timeout`. how: how to connect, with its own log and
     * on_exception (conclave_lease_grant). */
    lease(const client_options &how, time_span ttl, time_span timeout = forever,
          lease_ended on_ended = {})
        : lease(how, std::move(on_ended), "lease",
                [&](auto *options, auto *callbacks, void *ctx, conclave_lease **ret) {
                    return conclave_lease_grant(options, ttl.count(), detail::wait_ms(timeout),
                                                callbacks, ctx, ret);
                })
    {
    }

    /* Takes over an existing lease by its id (conclave_lease_take). */
    static lease take(const client_options &how, const std::string &id, time_span timeout = forever,
                      lease_ended on_ended = {})
    {
        return lease(how, std::move(on_ended), "take",
                     [&](auto *options, auto *callbacks, void *ctx, conclave_lease **ret) {
                         return conclave_lease_take(options, id.c_str(), detail::wait_ms(timeout),
                                                    callbacks, ctx, ret);
                     });
    }

    lease(lease &&) noexcept = default;
    lease &operator=(lease &&other) noexcept
    {
        if (this != &other) {
            reset();
            state_ = std::move(other.state_);
            client_ = std::move(other.client_);
        }
        return *this;
    }
    ~lease()
    {
        reset();
    }

    /* Whether there is a lease that was not given up here. */
    explicit operator bool() const noexcept
    {
        return native() != nullptr;
    }

    /* Ends it now, with the handles made with its client: all its nodes are deleted. leave: it stays for its time to live,
     * and longer if others keep it alive. Neither while other threads use this object. */
    void end(time_span timeout = milliseconds(2000)) noexcept
    {
        client_.close(timeout);
    }
    void leave(time_span timeout = milliseconds(2000)) noexcept
    {
        if (state_) {
            state_->how = CONCLAVE_LEASE_LEAVE;
            client_.close(timeout);
        }
    }

    /* Gives it up, as the destructor: it ends as soon as no handle uses its client. */
    void reset() noexcept
    {
        if (state_) {
            state_->calls.shut();
            state_->log->calls.shut();
            client_ = conclave::client();
            state_.reset();
        }
    }

    /* A client of the lease's session: ephemeral nodes that it creates, and recipes made with it, belong to the lease. */
    const conclave::client &client() const noexcept
    {
        return client_;
    }

    /* For take, keep_alive and revoke. It is a secret: whoever knows it has all rights of the lease. */
    std::string id() const
    {
        std::array<char, CONCLAVE_LEASE_ID_MAX> text{};
        if (conclave_lease *there = native()) {
            conclave_lease_id(there, text.data());
        }
        return text.data();
    }

    /* Attaches an existing persistent node, with its data and ACL (conclave_lease_attach). */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void attach(const std::string &path, time_span timeout = forever, S &&...style) const
    {
        ask<detail::nothing>(
            "attach",
            [&](conclave_lease *there, detail::nothing &) {
                return conclave_lease_attach(there, path.c_str(), detail::wait_ms(timeout));
            },
            std::forward<S>(style)...);
    }

    /* Asks a quorum whether it lives, and renews it by that. */
    template <class... S, detail::waiting_styles<lease_info, S...> = 0>
    lease_info time_to_live(time_span timeout = forever, S &&...style) const
    {
        return ask<lease_info>(
            "time_to_live",
            [&](conclave_lease *there, lease_info &value) {
                conclave_lease_info raw = CONCLAVE_LEASE_INFO_INIT;
                const int error =
                    conclave_lease_time_to_live(there, detail::wait_ms(timeout), &raw);
                value = detail::to_info(raw);
                return error;
            },
            std::forward<S>(style)...);
    }

    /* Becomes the holder of a value and writes it; CONCLAVE_EBUSY: another lease holds it (conclave_lease_acquire). */
    template <class... S, detail::waiting_styles<token, S...> = 0>
    token acquire(const std::string &path, std::string_view data,
                  conclave_lease_behaviour behaviour, time_span timeout = forever,
                  S &&...style) const
    {
        return ask<token>(
            "acquire",
            [&](conclave_lease *there, token &value) {
                conclave_token raw{};
                const int error =
                    conclave_lease_acquire(there, path.c_str(), data.data(), data.size(), behaviour,
                                           detail::wait_ms(timeout), &raw);
                value = raw;
                return error;
            },
            std::forward<S>(style)...);
    }

    /* Gives a value up, as at the end of the lease. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void release(const std::string &path, conclave_lease_behaviour behaviour,
                 time_span timeout = forever, S &&...style) const
    {
        ask<detail::nothing>(
            "release",
            [&](conclave_lease *there, detail::nothing &) {
                return conclave_lease_release(there, path.c_str(), behaviour,
                                              detail::wait_ms(timeout));
            },
            std::forward<S>(style)...);
    }

    /* Enters it into the list at folder, under a name (conclave_lease_enlist). */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void enlist(const std::string &folder, const std::string &name, time_span timeout = forever,
                S &&...style) const
    {
        ask<detail::nothing>(
            "enlist",
            [&](conclave_lease *there, detail::nothing &) {
                return conclave_lease_enlist(there, folder.c_str(), name.c_str(),
                                             detail::wait_ms(timeout));
            },
            std::forward<S>(style)...);
    }

    /* The leases in a list that live, by session id. client: any. */
    template <class... S, detail::waiting_styles<std::vector<lease_entry>, S...> = 0>
    static std::vector<lease_entry> list(const conclave::client &client, const std::string &folder,
                                         time_span timeout = forever, S &&...style)
    {
        return detail::run_list<lease_entry>(
            client, "list",
            [&](auto *, conclave_lease_entry ***ret, size_t *count) {
                return conclave_lease_list(client.native(), folder.c_str(),
                                           detail::wait_ms(timeout), ret, count);
            },
            conclave_lease_entries_free, detail::to_lease_entry, std::forward<S>(style)...);
    }

    /* Renews a lease once, by its id. */
    template <class... S, detail::waiting_styles<lease_info, S...> = 0>
    static lease_info keep_alive(const client_options &how, const std::string &id,
                                 time_span timeout = forever, S &&...style)
    {
        return visit<lease_info>(
            how, "keep_alive",
            [&](const conclave_client_options *options, lease_info &value) {
                conclave_lease_info raw = CONCLAVE_LEASE_INFO_INIT;
                const int error =
                    conclave_lease_keep_alive(options, id.c_str(), detail::wait_ms(timeout), &raw);
                value = detail::to_info(raw);
                return error;
            },
            std::forward<S>(style)...);
    }

    /* Ends a lease by its id: all its nodes are gone then. CONCLAVE_SESSION_EXPIRED: it was over already. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static void revoke(const client_options &how, const std::string &id,
                       time_span timeout = forever, S &&...style)
    {
        visit<detail::nothing>(
            how, "revoke",
            [&](const conclave_client_options *options, detail::nothing &) {
                return conclave_lease_revoke(options, id.c_str(), detail::wait_ms(timeout));
            },
            std::forward<S>(style)...);
    }

    /* The lease of the C interface; nullptr: none. Do not close it. */
    conclave_lease *native() const noexcept
    {
        return state_ ? state_->raw : nullptr;
    }

  private:
    template <class Open>
    lease(const client_options &how, lease_ended on_ended, const char *what, Open &&open)
        : state_(std::make_shared<detail::lease_state>(how, std::move(on_ended)))
    {
        state_->begin(how, what, std::forward<Open>(open));
        try {
            client_ = conclave::client(std::make_shared<detail::session>(
                conclave_lease_client(state_->raw),
                [its = state_](conclave_client *, int64_t timeout_ms) { its->close(timeout_ms); },
                state_->errors));
        } catch (...) {
            state_->close(0);
            throw;
        }
    }

    template <class T, class Call, class... S>
    detail::result_t<T> ask(const char *what, Call &&call, S &&...style) const
    {
        const auto keep = state_;
        return detail::run<T>(
            keep ? keep->errors : detail::no_sink(), what,
            [&](T &value) {
                conclave_lease *there = keep ? keep->raw : nullptr;
                return there != nullptr ? call(there, value) : static_cast<int>(CONCLAVE_ECLOSED);
            },
            nullptr, std::forward<S>(style)...);
    }

    /* A call by id; it makes no thread, so a log function runs in this one. */
    template <class T, class Call, class... S>
    static detail::result_t<T> visit(const client_options &how, const char *what, Call &&call,
                                     S &&...style)
    {
        detail::lease_state its(how, {});
        detail::raw_client_options options(how);
        conclave_client_options raw = options.get();
        raw.on_log = its.log->on_log ? detail::state_listener::log : nullptr;
        raw.ctx = &its.log;
        return options.explained([&] {
            return detail::run<T>(
                its.errors, what, [&](T &value) { return call(&raw, value); }, nullptr,
                std::forward<S>(style)...);
        });
    }

    std::shared_ptr<detail::lease_state> state_;
    conclave::client client_;
};

} // namespace conclave

#endif
