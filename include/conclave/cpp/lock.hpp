/*
 * Locks and semaphores in C++ (conclave/lock.h, conclave/semaphore.h).
 *
 *     conclave::mutex mutex(client, {"/locks/a"});
 *     std::lock_guard<conclave::mutex> guard(mutex);
 *
 *     conclave::grant held = mutex.acquire(std::chrono::seconds(5));           this thread must release it
 *     conclave::grant held = mutex.acquire(conclave::use_future).get();        any thread may
 *     conclave::grant held = co_await mutex.acquire(conclave::use_awaitable);  any thread may
 *     storage.write(value, held.token());
 *
 * lock and unlock throw conclave::error (std::system_error); the calling thread is the owner. The
 * holder of a grant is its owner. A lost lock is reported by on_lost; held() is false already then.
 */
#ifndef CONCLAVE_CPP_LOCK_HPP
#define CONCLAVE_CPP_LOCK_HPP

#include <conclave/cpp/client.hpp>
#include <conclave/cpp/hand_over.hpp>

#include <conclave/lock.h>
#include <conclave/semaphore.h>

namespace conclave
{

namespace detail
{

/* A number for an owner that is no thread. */
inline uint64_t new_owner() noexcept
{
    static std::atomic<uint64_t> last{0};
    return ++last;
}

/* A lock or semaphore as its grants use it. */
struct grantor {
    virtual bool is_held() const noexcept = 0;
    virtual int release(uint64_t owner) noexcept = 0;

  protected:
    ~grantor() = default;
};

} // namespace detail

/* A held lock, or a held permit of a semaphore; released when it is destroyed, without waiting for the
 * servers' answer. Outlives its lock without harm: the lock releases itself. */
class grant
{
  public:
    grant() noexcept = default;
    grant(std::shared_ptr<detail::grantor> from, uint64_t owner, conclave::token token) noexcept
        : from_(std::move(from)), owner_(owner), token_(token)
    {
    }
    grant(grant &&) noexcept = default;
    grant &operator=(grant &&other) noexcept
    {
        if (this != &other) {
            (void)release();
            from_ = std::move(other.from_);
            owner_ = other.owner_;
            token_ = other.token_;
        }
        return *this;
    }
    ~grant()
    {
        (void)release();
    }

    /* Whether it is held now: the lease is checked against the clock at this moment. */
    bool held() const noexcept
    {
        return from_ && from_->is_held();
    }
    explicit operator bool() const noexcept
    {
        return held();
    }
    conclave::token token() const noexcept
    {
        return token_;
    }
    /* Releases it. CONCLAVE_ELOST: it was lost before. Releasing again does nothing. */
    std::error_code release() noexcept
    {
        const auto from = std::move(from_);
        from_.reset();
        return detail::to_code(from ? from->release(owner_) : 0);
    }

  private:
    std::shared_ptr<detail::grantor> from_;
    uint64_t owner_ = 0; /* 0: the thread that acquired it */
    conclave::token token_;
};

/* A holder, or a contender that waits, as struct conclave_contender. */
struct contender {
    std::string node;
    std::string id;
    conclave_lock_kind kind = CONCLAVE_LOCK_EXCLUSIVE;
    bool holds = false;
    conclave::token token{};
    int64_t session_id = 0;
    std::chrono::system_clock::time_point since{};
};

class mutex;
class semaphore;
class shared_mutex;

/* As struct conclave_lock_options and its callbacks. */
struct mutex_options {
    std::string path{};
    std::string id{}; /* empty: host:pid */
    std::function<void(mutex &, std::error_code why, milliseconds stop_within)> on_lost{};
    std::function<void(mutex &)> on_revoke_request{};
    std::function<void(mutex &, std::error_code why)> on_closed{};
    conclave_lock_kind kind = CONCLAVE_LOCK_EXCLUSIVE;
    bool recursive = false;
    conclave_naming naming = CONCLAVE_NAMING_NATIVE;
    lease_options lease{};
    acl_list acl{};
    std::function<void(mutex &)> on_hand_over_request{};
};

/* As struct conclave_semaphore_options and its callbacks. */
struct semaphore_options {
    std::string path{};
    int32_t permits = 1;
    std::string id{};
    std::function<void(semaphore &, std::error_code why, milliseconds stop_within)> on_lost{};
    std::function<void(semaphore &, std::error_code why)> on_closed{};
    lease_options lease{};
    acl_list acl{};
    conclave_naming naming = CONCLAVE_NAMING_NATIVE;
    int32_t take = 1; /* permits that an acquire takes at once */
};

namespace detail
{

inline contender to_contender(const conclave_contender &raw)
{
    contender made;
    made.node = text(raw.node);
    made.id = text(raw.id);
    made.kind = raw.kind;
    made.holds = raw.holds;
    made.token = raw.token;
    made.session_id = raw.session_id;
    made.since = to_time(raw.since_ms);
    return made;
}

/* The C functions of locks and semaphores under one name each. */
struct lock_calls {
    using raw = conclave_lock;
    using binding = detail::binding<conclave_lock, conclave_lock_close, conclave_lock_close_wait,
                                    conclave_lock_destroy>;
    static constexpr auto acquire = conclave_lock_acquire;
    static constexpr auto is_held = conclave_lock_is_held;
    static constexpr auto lease_left_ms = conclave_lock_lease_left_ms;
    static constexpr auto lease_until_ns = conclave_lock_lease_until_ns;
    static constexpr auto token = conclave_lock_token;
    static constexpr auto node = conclave_lock_node;
    static constexpr auto cancel = conclave_lock_cancel;
    static constexpr auto release = conclave_lock_release;
    static constexpr auto fenced = conclave_lock_fenced_multi;

    static constexpr auto contenders = conclave_lock_contenders;
    static constexpr auto acquire_async = conclave_lock_acquire_async;

    static int release_async(raw *lock, uint64_t owner)
    {
        return conclave_lock_release_async(lock, owner, nullptr, nullptr);
    }
};

struct semaphore_calls {
    using raw = conclave_semaphore;
    using binding = detail::binding<conclave_semaphore, conclave_semaphore_close,
                                    conclave_semaphore_close_wait, conclave_semaphore_destroy>;
    static constexpr auto acquire = conclave_semaphore_acquire;
    static constexpr auto is_held = conclave_semaphore_is_held;
    static constexpr auto lease_left_ms = conclave_semaphore_lease_left_ms;
    static constexpr auto lease_until_ns = conclave_semaphore_lease_until_ns;
    static constexpr auto token = conclave_semaphore_token;
    static constexpr auto node = conclave_semaphore_node;
    static constexpr auto cancel = conclave_semaphore_cancel;
    static constexpr auto release = conclave_semaphore_release;
    static constexpr auto fenced = conclave_semaphore_fenced_multi;

    static int acquire_async(raw *semaphore, uint64_t, int64_t timeout_ms, conclave_semaphore_fn fn,
                             void *ctx)
    {
        return conclave_semaphore_acquire_async(semaphore, timeout_ms, fn, ctx);
    }
    static int contenders(conclave_recipes *recipes, const char *path, int64_t timeout_ms,
                          conclave_contender ***ret, size_t *ret_count)
    {
        int32_t permits = 0;
        return conclave_semaphore_contenders(recipes, path, timeout_ms, ret, ret_count, &permits);
    }
    static int release_async(raw *semaphore, uint64_t)
    {
        return conclave_semaphore_release_async(semaphore, nullptr, nullptr);
    }
};

/* The standard library's names for a lock, over int Lock::take(int64_t timeout_ms). */
template <class Lock> class standard_lock
{
  public:
    /* Waits until this thread holds it. */
    void lock()
    {
        check(take(CONCLAVE_FOREVER), "lock");
    }
    /* false: another holds it now, or there is no link. */
    bool try_lock()
    {
        return taken(take(0));
    }
    bool try_lock_for(time_span timeout)
    {
        return taken(take(wait_ms(timeout)));
    }
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &deadline)
    {
        return try_lock_for(until(deadline));
    }

  protected:
    static bool taken(int error)
    {
        if (error == CONCLAVE_EBUSY || error == CONCLAVE_ETIMEDOUT ||
            error == CONCLAVE_EDISCONNECTED) {
            return false;
        }
        check(error, "try_lock");
        return true;
    }

  private:
    int take(int64_t timeout_ms)
    {
        return static_cast<Lock *>(this)->take(timeout_ms);
    }
};

/* The base of locks and semaphores. */
template <class Handle, class Options, class Calls>
class lockable : public basic_handle<Handle, Options, typename Calls::binding>,
                 public standard_lock<lockable<Handle, Options, Calls>>
{
  protected:
    using base = basic_handle<Handle, Options, typename Calls::binding>;
    using raw_type = typename Calls::raw;
    using state = typename base::state;
    using base::base;

    /* The callback of the C handle. */
    static void on_lost(raw_type *there, int why, int64_t stop_within_ms, void *self)
    {
        state::enter(there, self, "on_lost", [&](state &its, Handle &view) {
            if (its.options.on_lost) {
                its.options.on_lost(view, to_code(why), milliseconds(stop_within_ms));
            }
        });
    }

  public:
    lockable() noexcept = default;

    /* Releases what this thread holds and does not wait for the servers' answer. release reports whether it was lost
     * before. */
    void unlock() noexcept
    {
        this->ask_raw(0, [](raw_type *there) { return Calls::release_async(there, 0); });
    }

    /* The same, and waits for the answer. CONCLAVE_ELOST: it was lost before. */
    template <class... S, waiting_styles<nothing, S...> = 0>
    void release(time_span timeout = forever, S &&...style)
    {
        this->waited("release", Calls::release, timeout, std::forward<S>(style)...);
    }

    /* Waits until it is held; in the styles that do not wait, the grant may be released by any thread. */
    template <class... S, styles<grant, S...> = 0> decltype(auto) acquire(S &&...style)
    {
        return acquire(forever, std::forward<S>(style)...);
    }
    template <class... S, styles<grant, S...> = 0>
    decltype(auto) acquire(time_span timeout, S &&...style)
    {
        const auto from = this->state_;
        return this->template run<grant>(
            "acquire",
            [=](raw_type *there, grant &value) {
                conclave_token token{};
                int error = Calls::acquire(there, detail::wait_ms(timeout), &token);
                if (error == 0) {
                    value = grant(grantor_of(from), 0, token);
                }
                return error;
            },
            [=](raw_type *there, void *ctx) {
                auto waiter = std::make_unique<pending>(
                    pending{from, new_owner(), static_cast<completion<grant> *>(ctx)});
                int error = Calls::acquire_async(there, waiter->owner, detail::wait_ms(timeout),
                                                 granted, waiter.get());
                if (error == 0) {
                    (void)waiter.release(); /* granted deletes it */
                }
                return error;
            },
            std::forward<S>(style)...);
    }

    /* Ends every acquire that was not granted yet with CONCLAVE_ECANCELED. */
    void cancel() noexcept
    {
        this->ask_raw(0, [](raw_type *there) { return Calls::cancel(there); });
    }

    bool held() const noexcept
    {
        return this->ask_raw(false, [](raw_type *there) { return Calls::is_held(there); });
    }
    milliseconds lease_left() const noexcept
    {
        return milliseconds(
            this->ask_raw(int64_t(0), [](raw_type *there) { return Calls::lease_left_ms(there); }));
    }
    /* Nanoseconds of CLOCK_BOOTTIME, for other processes. */
    int64_t lease_until_ns() const noexcept
    {
        return this->ask_raw(int64_t(0),
                             [](raw_type *there) { return Calls::lease_until_ns(there); });
    }
    conclave::token token() const noexcept
    {
        return this->ask_raw(conclave_token{}, [](raw_type *there) { return Calls::token(there); });
    }
    /* Name of its node; "" when it has none. */
    std::string node_name() const
    {
        std::array<char, 256> name{};
        this->ask_raw(0, [&](raw_type *there) {
            Calls::node(there, name.data(), name.size());
            return 0;
        });
        return name.data();
    }

    /* A transaction that is carried out only while it is held; otherwise CONCLAVE_EFENCED. */
    template <class... S, waiting_styles<nothing, S...> = 0>
    std::vector<part_result> fenced(const transaction &changes, S &&...style)
    {
        return this->template run<std::vector<part_result>>(
            "fenced",
            [&](raw_type *there, std::vector<part_result> &value) {
                return call_fenced(
                    changes, value,
                    [&](const conclave_op *parts, size_t count, conclave_reply **ret) {
                        return Calls::fenced(there, parts, count, ret);
                    });
            },
            nullptr, std::forward<S>(style)...);
    }

    /* The holders and the waiting contenders at path, in their order. */
    template <class... S, waiting_styles<nothing, S...> = 0>
    static std::vector<contender> contenders(const client &client, const std::string &path,
                                             time_span timeout = forever, S &&...style)
    {
        return run_list<contender>(
            client, "contenders",
            [&](conclave_recipes *recipes, conclave_contender ***list, size_t *count) {
                return Calls::contenders(recipes, path.c_str(), wait_ms(timeout), list, count);
            },
            conclave_contenders_free, to_contender, std::forward<S>(style)...);
    }

  private:
    struct pending {
        std::shared_ptr<state> from;
        uint64_t owner;
        completion<grant> *to;
    };

    struct held_one final : grantor {
        std::shared_ptr<state> from;

        explicit held_one(std::shared_ptr<state> from_) : from(std::move(from_))
        {
        }
        bool is_held() const noexcept override
        {
            bool held = false;
            from->with_raw([&](raw_type *there) { held = Calls::is_held(there); });
            return held;
        }
        int release(uint64_t owner) noexcept override
        {
            int error = 0;
            from->with_raw([&](raw_type *there) { error = Calls::release_async(there, owner); });
            return error;
        }
    };

    static std::shared_ptr<grantor> grantor_of(const std::shared_ptr<state> &from)
    {
        return std::make_shared<held_one>(from);
    }

    static void granted(raw_type *there, int error, conclave_token token, void *ctx)
    {
        std::unique_ptr<pending> waiter(static_cast<pending *>(ctx));
        grant value;
        try {
            if (error == 0) {
                value = grant(grantor_of(waiter->from), waiter->owner, token);
            }
        } catch (...) {
            (void)Calls::release_async(there, waiter->owner);
            error = CONCLAVE_ENOMEM;
        }
        waiter->to->done(error, std::move(value));
    }

    int take(int64_t timeout_ms)
    {
        return this->ask_raw(static_cast<int>(CONCLAVE_ECLOSED), [=](raw_type *there) {
            return Calls::acquire(there, timeout_ms, nullptr);
        });
    }

    friend standard_lock<lockable>;
    friend class conclave::shared_mutex;
};

} // namespace detail

/* --- lock ------------------------------------------------------------------------------ */

/* A lock of all processes of an ensemble's clients. Usable with std::lock_guard, std::unique_lock and
 * std::scoped_lock. A handle is one contender: threads that share it wait for each other in it. */
class mutex : public detail::lockable<mutex, mutex_options, detail::lock_calls>
{
  public:
    using lockable::lockable;
    mutex() noexcept = default;

    mutex(const client &client, mutex_options options) : mutex(client.shared(), std::move(options))
    {
    }
    mutex(std::shared_ptr<detail::session> session, mutex_options options)
        : lockable(std::move(session), std::move(options), "mutex",
                   [](state &s, void *ctx, conclave_lock **ret) { return open(s, ctx, ret); })
    {
    }

    /* Turns a held write lock into a read lock, with no writer in between. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void downgrade(time_span timeout = forever, S &&...style)
    {
        waited("downgrade", conclave_lock_downgrade, timeout, std::forward<S>(style)...);
    }

    /* Turns a held read lock into a write lock; CONCLAVE_EBUSY: there are other readers or writers. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void try_upgrade(time_span timeout = forever, S &&...style)
    {
        waited("try_upgrade", conclave_lock_try_upgrade, timeout, std::forward<S>(style)...);
    }

    /* Asks the present holders to release it (their on_revoke_request). */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void request_revoke(time_span timeout = forever, S &&...style)
    {
        waited("request_revoke", conclave_lock_request_revoke, timeout, std::forward<S>(style)...);
    }

    /* For operators: makes a contender that waits hold the lock in place of the present holders, once these have released it
     * in their on_hand_over_request (conclave_lock_hand_over). to: its id, or the name of its node. Not done:
     * CONCLAVE_ECANCELED, and the text of the exception names the outcome; with a std::error_code the result has it. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static hand_over_result hand_over(const client &client, const std::string &path,
                                      const std::string &to, time_span timeout, S &&...style)
    {
        return detail::run_hand_over(conclave_lock_hand_over, client, path, to, timeout,
                                     std::forward<S>(style)...);
    }

  private:
    static int open(state &s, void *ctx, conclave_lock **ret)
    {
        const mutex_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_lock_options raw = CONCLAVE_LOCK_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.id = detail::or_null(o.id);
        raw.kind = o.kind;
        raw.recursive = o.recursive;
        raw.naming = o.naming;
        raw.lease = detail::to_raw(o.lease);
        acl.put(raw);
        auto calls = detail::sized<conclave_lock_callbacks>(0);
        calls.on_lost = on_lost;
        if (o.on_revoke_request) {
            calls.on_revoke_request = [](conclave_lock *there, void *self) {
                state::enter(there, self, "on_revoke_request",
                             [](state &its, mutex &view) { its.options.on_revoke_request(view); });
            };
        }
        if (o.on_hand_over_request) {
            calls.on_hand_over_request = [](conclave_lock *there, void *self) {
                state::enter(there, self, "on_hand_over_request", [](state &its, mutex &view) {
                    its.options.on_hand_over_request(view);
                });
            };
        }
        calls.on_closed = state::on_closed;
        return conclave_lock_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

/* Several locks as one, all or none: usable as a mutex. They are acquired in the order of their paths, so that two of these
 * never wait for each other. The mutexes must outlive it; two for one path: CONCLAVE_EDEADLK. */
class multi_mutex : public detail::standard_lock<multi_mutex>
{
  public:
    explicit multi_mutex(std::vector<std::reference_wrapper<mutex>> parts)
        : parts_(std::move(parts))
    {
    }

    /* Releases all, and does not wait for the servers' answers. */
    void unlock() noexcept
    {
        for (const auto &part : parts_) {
            part.get().unlock();
        }
    }

    /* The same, and waits for the answers, within one timeout. All are tried; the first error counts. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void release(time_span timeout = forever, S &&...style)
    {
        detail::run<detail::nothing>(
            detail::no_sink(), "release",
            [&](detail::nothing &) {
                return on_all(conclave_locks_release, detail::wait_ms(timeout));
            },
            nullptr, std::forward<S>(style)...);
    }

    /* Whether all are held now. */
    bool held() const noexcept
    {
        return std::all_of(parts_.begin(), parts_.end(),
                           [](const auto &part) { return part.get().held(); });
    }

  private:
    friend standard_lock;

    int take(int64_t timeout_ms)
    {
        return on_all(conclave_locks_acquire, timeout_ms);
    }

    int on_all(int (*f)(conclave_lock *const *, size_t, int64_t), int64_t timeout_ms) const
    {
        std::vector<conclave_lock *> all;
        for (const auto &part : parts_) {
            all.push_back(part.get().native());
            if (all.back() == nullptr) {
                return CONCLAVE_ECLOSED;
            }
        }
        return f(all.data(), all.size(), timeout_ms);
    }

    std::vector<std::reference_wrapper<mutex>> parts_;
};

/* A lock with readers and writers, usable as std::shared_mutex: std::shared_lock<conclave::shared_mutex>
 * for readers. Each thread that reads is a contender of its own. options.kind is ignored. */
class shared_mutex : public detail::standard_lock<shared_mutex>
{
  public:
    shared_mutex() noexcept = default;
    shared_mutex(const client &client, mutex_options options)
        : parts_(std::make_unique<parts>(client, std::move(options)))
    {
    }

    void unlock() noexcept
    {
        if (parts_) {
            parts_->writer.unlock();
        }
    }

    /* As lock, try_lock, ..., with other readers beside this thread. */
    void lock_shared()
    {
        detail::check(take_shared(CONCLAVE_FOREVER), "lock_shared");
    }
    bool try_lock_shared()
    {
        return taken(take_shared(0));
    }
    bool try_lock_shared_for(time_span timeout)
    {
        return taken(take_shared(detail::wait_ms(timeout)));
    }
    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &deadline)
    {
        return try_lock_shared_for(detail::until(deadline));
    }
    void unlock_shared() noexcept
    {
        if (mutex *mine = parts_ ? find(std::this_thread::get_id()) : nullptr) {
            mine->unlock();
            give_back(mine);
        }
    }

    /* The writing side, for token, acquire, fenced, ... */
    mutex &writer()
    {
        return all().writer;
    }

  private:
    struct reader {
        std::unique_ptr<mutex> contender;
        std::thread::id thread{}; /* that reads, or waits; none: free */
    };

    struct parts {
        parts(const client &client, mutex_options options_)
            : session(client.shared()), options(std::move(options_)),
              writer(session, with(options, CONCLAVE_LOCK_WRITE))
        {
        }
        static mutex_options with(mutex_options options, conclave_lock_kind kind)
        {
            options.kind = kind;
            return options;
        }

        std::shared_ptr<detail::session> session;
        mutex_options options;
        mutex writer;
        std::mutex lock;
        std::vector<reader> readers;
    };

    friend standard_lock;

    parts &all()
    {
        if (!parts_) {
            throw error(CONCLAVE_ECLOSED, "lock");
        }
        return *parts_;
    }

    int take(int64_t timeout_ms)
    {
        return all().writer.take(timeout_ms);
    }

    int take_shared(int64_t timeout_ms)
    {
        mutex *mine = reserve();
        int error = mine->take(timeout_ms);
        if (error != 0) {
            give_back(mine);
        }
        return error;
    }

    /* The contender of a thread; nullptr: none. */
    mutex *find(std::thread::id thread) noexcept
    {
        std::lock_guard<std::mutex> hold(parts_->lock);
        for (auto &each : parts_->readers) {
            if (each.thread == thread) {
                return each.contender.get();
            }
        }
        return nullptr;
    }

    mutex *reserve()
    {
        parts &p = all();
        if (find(std::this_thread::get_id()) != nullptr) {
            throw error(CONCLAVE_EDEADLK, "lock_shared");
        }
        std::lock_guard<std::mutex> hold(p.lock);
        for (auto &each : p.readers) {
            if (each.thread == std::thread::id()) {
                each.thread = std::this_thread::get_id();
                return each.contender.get();
            }
        }
        reader made;
        made.contender =
            std::make_unique<mutex>(p.session, parts::with(p.options, CONCLAVE_LOCK_READ));
        made.thread = std::this_thread::get_id();
        p.readers.push_back(std::move(made));
        return p.readers.back().contender.get();
    }

    void give_back(const mutex *mine) noexcept
    {
        std::lock_guard<std::mutex> hold(parts_->lock);
        for (auto &each : parts_->readers) {
            if (each.contender.get() == mine) {
                each.thread = {};
            }
        }
    }

    std::unique_ptr<parts> parts_;
};

/* --- semaphore ---------------------------------------------------------------------------- */

/* At most `permits` handles hold it at a time; a handle holds one permit. Any thread may release it. */
class semaphore : public detail::lockable<semaphore, semaphore_options, detail::semaphore_calls>
{
  public:
    using lockable::lockable;
    semaphore() noexcept = default;

    semaphore(const client &client, semaphore_options options)
        : lockable(client.shared(), std::move(options), "semaphore",
                   [](state &s, void *ctx, conclave_semaphore **ret) { return open(s, ctx, ret); })
    {
    }

  private:
    static int open(state &s, void *ctx, conclave_semaphore **ret)
    {
        const semaphore_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_semaphore_options raw = CONCLAVE_SEMAPHORE_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.id = detail::or_null(o.id);
        raw.permits = o.permits;
        raw.naming = o.naming;
        raw.take = o.take;
        raw.lease = detail::to_raw(o.lease);
        acl.put(raw);
        auto calls = detail::sized<conclave_semaphore_callbacks>(0);
        calls.on_lost = on_lost;
        calls.on_closed = state::on_closed;
        return conclave_semaphore_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

} // namespace conclave

#endif
