/*
 * The styles of a call: its last argument says how the caller gets the result.
 *
 *     node n = client.get("/a");                                   waits; throws conclave::error
 *     node n = client.get("/a", ec);                               waits; sets a std::error_code
 *     std::future<node> f = client.get("/a", conclave::use_future);
 *     client.get("/a", [](std::error_code ec, node n) { ... });    calls the function later
 *     node n = co_await client.get("/a", conclave::use_awaitable); C++20; throws
 *     node n = co_await client.get("/a", conclave::use_awaitable(ec));
 *
 * A function runs as a callback of the library, once. If the call cannot begin, the call itself throws,
 * and the function does not run. A future gets the error in both cases. A coroutine goes on in a
 * callback of the library: it must not block there. An awaitable begins when it is awaited, once.
 */
#ifndef CONCLAVE_CPP_ASYNC_HPP
#define CONCLAVE_CPP_ASYNC_HPP

#include <conclave/cpp/error.hpp>

#include <conclave/client.h>

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#if defined(__cpp_impl_coroutine) && __has_include(<coroutine>)
#include <coroutine>
#define CONCLAVE_HAS_COROUTINES 1
#endif

namespace conclave
{

using std::chrono::milliseconds;

/*
 * A time in milliseconds; any std::chrono::duration becomes one. Rounded up, so that a positive time never becomes 0, and
 * limited to 100 years in both directions: no duration overflows, not even std::chrono::hours::max().
 * As a timeout, 100 years wait without end, and a negative time has passed already. As an option, a negative time is
 * refused (CONCLAVE_EINVAL).
 */
class time_span
{
  public:
    static constexpr milliseconds limit = std::chrono::hours(24) * 36525;

    constexpr time_span() noexcept = default;
    template <class Rep, class Period>
    constexpr time_span(const std::chrono::duration<Rep, Period> &time) noexcept
        : time_(limited(time))
    {
    }

    constexpr operator milliseconds() const noexcept
    {
        return time_;
    }
    constexpr int64_t count() const noexcept
    {
        return time_.count();
    }

  private:
    template <class Rep, class Period>
    static constexpr milliseconds limited(const std::chrono::duration<Rep, Period> &time) noexcept
    {
        using exact = std::chrono::duration<long double, std::milli>;
        const long double ms = exact(time).count();
        return ms >= exact(limit).count()    ? limit
               : ms <= exact(-limit).count() ? -limit
               : ms == ms                    ? std::chrono::ceil<milliseconds>(time)
                                             : milliseconds(0); /* not a number */
    }

    milliseconds time_{0};
};

/* As a timeout: waits without end. */
inline constexpr time_span forever = milliseconds::max();

/* Gets the exceptions that leave a function of the program which the library called; `where` names the
 * function ("on_elected"). Its own exceptions are dropped. */
using exception_handler = std::function<void(std::exception_ptr exception, const char *where)>;

struct use_future_t {
};
inline constexpr use_future_t use_future{};

struct use_awaitable_t {
    std::error_code *ec = nullptr;

    /* The result of co_await is then default-made on failure, and ec is set. ec must live until then. */
    constexpr use_awaitable_t operator()(std::error_code &target) const
    {
        return use_awaitable_t{&target};
    }
};
inline constexpr use_awaitable_t use_awaitable{};

namespace detail
{

/* A timeout of a C function. */
constexpr int64_t wait_ms(time_span timeout) noexcept
{
    return timeout.count() == forever.count() ? CONCLAVE_FOREVER
           : timeout.count() > 0              ? timeout.count()
                                              : 0;
}

/* A timeout in a C struct, where a negative one is refused. */
constexpr int64_t option_ms(time_span timeout) noexcept
{
    return timeout.count() < 0 ? INT64_MIN : wait_ms(timeout);
}

/* The time until a deadline, of any clock and unit. */
template <class Clock, class Duration>
time_span until(const std::chrono::time_point<Clock, Duration> &deadline)
{
    using seconds = std::chrono::duration<long double>;
    return seconds(deadline.time_since_epoch()) - seconds(Clock::now().time_since_epoch());
}

/* A time of a C struct in milliseconds since 1970, which another program may have written: limited to what the clock can
 * express. */
inline std::chrono::system_clock::time_point to_time(int64_t ms) noexcept
{
    using clock = std::chrono::system_clock;
    constexpr int64_t most = std::chrono::floor<milliseconds>(clock::duration::max()).count();
    return clock::time_point(milliseconds(ms > most ? most : ms < -most ? -most : ms));
}

/* Where exceptions of callbacks go; shared by a client and all that was made with it. */
struct sink {
    exception_handler handler;

    void caught(const char *where) const noexcept
    {
        try {
            if (handler) {
                handler(std::current_exception(), where);
                return;
            }
            try {
                throw;
            } catch (const std::exception &e) {
                std::cerr << "conclave: exception in " << where << ": " << e.what() << std::endl;
            } catch (...) {
                std::cerr << "conclave: exception in " << where << std::endl;
            }
        } catch (...) { /* the handler's own exception has no place to go */
        }
    }
};

/* Of calls on something that has no session. */
inline const std::shared_ptr<const sink> &no_sink()
{
    static const std::shared_ptr<const sink> none = std::make_shared<const sink>();
    return none;
}

/* Calls f; returns what it returns, or fallback after an exception. No exception crosses a C frame. */
template <class Result, class F>
Result guarded(const sink &errors, const char *where, Result fallback, F &&f) noexcept
{
    try {
        return f();
    } catch (...) {
        errors.caught(where);
        return fallback;
    }
}

template <class F> void guarded(const sink &errors, const char *where, F &&f) noexcept
{
    try {
        f();
    } catch (...) {
        errors.caught(where);
    }
}

/* The result of a call that has none. */
struct nothing {
};

template <class T> using result_t = std::conditional_t<std::is_same_v<T, nothing>, void, T>;

/* Takes the result of one call. done is called once and ends it. */
template <class T> struct completion {
    virtual void done(int error, T value) noexcept = 0;

  protected:
    ~completion() = default;
};

template <class T, class F> struct function_completion final : completion<T> {
    std::shared_ptr<const sink> errors;
    F f;

    function_completion(std::shared_ptr<const sink> errors_, F f_)
        : errors(std::move(errors_)), f(std::move(f_))
    {
    }

    void done(int error, T value) noexcept override
    {
        std::unique_ptr<function_completion> self(this);
        guarded(*errors, "completion", [&] {
            if constexpr (std::is_same_v<T, nothing>) {
                f(to_code(error));
            } else {
                f(to_code(error), std::move(value));
            }
        });
    }
};

template <class T> struct promise_completion final : completion<T> {
    const char *what;
    std::promise<result_t<T>> promise;

    explicit promise_completion(const char *what_) : what(what_)
    {
    }

    void done(int error, T value) noexcept override
    {
        std::unique_ptr<promise_completion> self(this);
        if (error != 0) {
            promise.set_exception(std::make_exception_ptr(conclave::error(error, what)));
        } else if constexpr (std::is_same_v<T, nothing>) {
            promise.set_value();
        } else {
            promise.set_value(std::move(value));
        }
    }
};

#ifdef CONCLAVE_HAS_COROUTINES
/* Begin: int(completion<T> *), which begins the call. */
template <class T, class Begin> class awaiter final : completion<T>
{
  public:
    awaiter(std::shared_ptr<const sink> errors, const char *what, std::error_code *ec, Begin begin)
        : errors_(std::move(errors)), what_(what), ec_(ec), begin_(std::move(begin))
    {
    }

    bool await_ready() const noexcept
    {
        return false;
    }

    bool await_suspend(std::coroutine_handle<> waiter)
    {
        waiter_ = waiter;
        /* Once it has begun, the coroutine may go on in another thread and end with this object. */
        Begin begin = std::move(begin_);
        int error = begin(this);
        if (error != 0) {
            error_ = error;
        }
        return error == 0;
    }

    result_t<T> await_resume()
    {
        if (ec_ != nullptr) {
            *ec_ = to_code(error_);
        } else {
            check(error_, what_);
        }
        if constexpr (!std::is_same_v<T, nothing>) {
            return std::move(value_);
        }
    }

  private:
    void done(int error, T value) noexcept override
    {
        std::shared_ptr<const sink> errors = errors_;
        error_ = error;
        value_ = std::move(value);
        guarded(*errors, "coroutine", [&] { waiter_.resume(); });
    }

    std::shared_ptr<const sink> errors_;
    const char *what_;
    std::error_code *ec_;
    Begin begin_;
    std::coroutine_handle<> waiter_;
    int error_ = 0;
    T value_{};
};
#endif

template <class S, class T> struct takes_result : std::is_invocable<S, std::error_code, T> {
};
template <class S> struct takes_result<S, nothing> : std::is_invocable<S, std::error_code> {
};

/* Whether S is one of the styles above for a result of type T. */
template <class S, class T>
constexpr bool is_style =
    std::is_same_v<S, std::error_code &> || std::is_same_v<std::decay_t<S>, use_future_t> ||
    std::is_same_v<std::decay_t<S>, use_awaitable_t> || takes_result<std::decay_t<S>, T>::value;

template <class T, class... S>
using styles = std::enable_if_t<sizeof...(S) <= 1 && (is_style<S, T> && ...), int>;

/*
 * Makes a call in the style that the caller chose. call: int(T &), waits. begin: int(completion<T> *),
 * begins; it calls done later if it returns 0. Both are called at most once, and own their arguments.
 */
template <class T, class Call, class Begin>
result_t<T> run(const std::shared_ptr<const sink> &, const char *what, Call call, Begin)
{
    T value{};
    check(call(value), what);
    if constexpr (!std::is_same_v<T, nothing>) {
        return value;
    }
}

template <class T, class Call, class Begin>
result_t<T> run(const std::shared_ptr<const sink> &, const char *, Call call, Begin,
                std::error_code &ec)
{
    T value{};
    ec = to_code(call(value));
    if constexpr (!std::is_same_v<T, nothing>) {
        return value;
    }
}

template <class T, class Call, class Begin>
std::future<result_t<T>> run(const std::shared_ptr<const sink> &, const char *what, Call,
                             Begin begin, use_future_t)
{
    auto made = std::make_unique<promise_completion<T>>(what);
    std::future<result_t<T>> future = made->promise.get_future();
    int error = begin(made.get());
    if (error != 0) {
        made->promise.set_exception(std::make_exception_ptr(conclave::error(error, what)));
    } else {
        (void)made.release(); /* done deletes it */
    }
    return future;
}

#ifdef CONCLAVE_HAS_COROUTINES
template <class T, class Call, class Begin>
awaiter<T, Begin> run(const std::shared_ptr<const sink> &errors, const char *what, Call,
                      Begin begin, use_awaitable_t how)
{
    return awaiter<T, Begin>(errors, what, how.ec, std::move(begin));
}
#endif

template <class T, class Call, class Begin, class F,
          std::enable_if_t<takes_result<std::decay_t<F>, T>::value, int> = 0>
void run(const std::shared_ptr<const sink> &errors, const char *what, Call, Begin begin, F &&f)
{
    using made_t = function_completion<T, std::decay_t<F>>;
    auto made = std::make_unique<made_t>(errors, std::forward<F>(f));
    check(begin(made.get()), what);
    (void)made.release(); /* done deletes it */
}

/* Builds a result in a callback; without memory the error is CONCLAVE_ENOMEM. */
template <class T, class F> void finish(completion<T> *to, int error, F &&fill) noexcept
{
    T value{};
    if (error == 0) {
        try {
            fill(value);
        } catch (...) {
            error = CONCLAVE_ENOMEM;
            value = T{};
        }
    }
    to->done(error, std::move(value));
}

} // namespace detail

#ifdef CONCLAVE_HAS_COROUTINES
/*
 * A coroutine that begins at once and whose result another thread waits for; for programs without a
 * coroutine library. The coroutine outlives a task that is destroyed.
 *
 *     conclave::task<std::string> read(conclave::client &client)
 *     {
 *         co_return (co_await client.get("/a", conclave::use_awaitable)).data;
 *     }
 *     std::string data = read(client).get();
 */
template <class T = void> class task
{
  private:
    struct promise_base {
        std::promise<T> result;

        task get_return_object()
        {
            return task(result.get_future());
        }

        std::suspend_never initial_suspend() const noexcept
        {
            return {};
        }

        std::suspend_never final_suspend() const noexcept
        {
            return {};
        }

        void unhandled_exception()
        {
            result.set_exception(std::current_exception());
        }
    };

    struct value_promise : promise_base {
        template <class U> void return_value(U &&value)
        {
            this->result.set_value(std::forward<U>(value));
        }
    };

    struct void_promise : promise_base {
        void return_void()
        {
            this->result.set_value();
        }
    };

  public:
    using promise_type = std::conditional_t<std::is_void_v<T>, void_promise, value_promise>;

    /* Waits for its end; throws its exception. Once; not in a callback. */
    T get()
    {
        return result_.get();
    }

    std::future<T> &future()
    {
        return result_;
    }

  private:
    explicit task(std::future<T> result) : result_(std::move(result))
    {
    }

    std::future<T> result_;
};
#endif

} // namespace conclave

#endif
