/*
 * How every handle of a recipe lives and ends in C++.
 *
 * A handle is move-only and keeps its client's session: client and handles may be destroyed in any order;
 * the session ends with the last of them (or with client::close). A destructor closes the handle and
 * waits for its last callback: it leaves the election, releases the lock, and so on. Without a link to the
 * servers that takes until the link is back, or until the session has ended.
 *
 * In a callback nothing can wait. A handle that is destroyed there, also in a callback of its own, ends in
 * the background; no function of the program is called for it from then on. Where the program needs
 * on_revoked or on_lost, it calls close() instead and destroys the handle later.
 *
 * No exception crosses a frame of the C library: what a function of the program throws goes to
 * client_options::on_exception (without one: a line on stderr), and counts as a refusal where the
 * function's result matters (on_elected, activate, deactivate, fence, validate, on_change of a
 * configuration).
 */
#ifndef CONCLAVE_CPP_HANDLE_HPP
#define CONCLAVE_CPP_HANDLE_HPP

#include <conclave/cpp/session.hpp>

namespace conclave
{

namespace detail
{

/* The C functions with which a handle ends. */
template <class Raw, void (*Close)(Raw *), int (*CloseWait)(Raw *, int64_t), void (*Destroy)(Raw *)>
struct binding {
    using raw_type = Raw;

    static void close(Raw *raw)
    {
        Close(raw);
    }
    static int close_wait(Raw *raw, int64_t timeout_ms)
    {
        return CloseWait(raw, timeout_ms);
    }
    static void destroy(Raw *raw)
    {
        Destroy(raw);
    }
};

/* The context of a C handle's callbacks: lives from its opening until its on_closed has returned and no C++ handle has it.
 * Options: the options of the program with its functions; needs a member on_closed. */
template <class Handle, class Options, class Binding>
class handle_state final
    : public session_member,
      public std::enable_shared_from_this<handle_state<Handle, Options, Binding>>
{
  public:
    using raw_type = typename Binding::raw_type;
    using options_type = Options;
    using handle_type = Handle;

    handle_state(std::shared_ptr<session> owner_, Options options_)
        : owner(std::move(owner_)), options(std::move(options_))
    {
    }

    /* open: int(void *ctx, raw_type **ret), which makes the C handle. */
    template <class Open> void begin(const char *what, Open &&open)
    {
        self_ = this->shared_from_this();
        raw_type *made = nullptr;
        try {
            check(open(static_cast<void *>(this), &made), what);
        } catch (...) {
            forget();
            throw;
        }
        opened(made);
        /* Now the session may close it, not before: an open that fails ends the C handle itself. */
        try {
            owner->add(this->weak_from_this());
        } catch (...) {
            dispose();
            throw;
        }
    }

    void begin_close() noexcept override
    {
        with_raw([](raw_type *there) { Binding::close(there); });
    }

    int wait_closed(int64_t timeout_ms) noexcept override
    {
        raw_type *there = nullptr;
        with_raw([&](raw_type *now) {
            there = now;
            waiting_++;
        });
        if (there == nullptr) {
            return 0;
        }
        int error = Binding::close_wait(there, timeout_ms);
        bool last;
        {
            std::lock_guard<std::mutex> hold(lock_);
            last = --waiting_ == 0 && doomed_;
        }
        if (last) {
            destroy();
        }
        return error;
    }

    bool ends() noexcept override
    {
        std::lock_guard<std::mutex> hold(lock_);
        return reap_;
    }

    /* Ends the C handle for good: now, or in the background if this thread runs a callback. */
    void dispose() noexcept
    {
        raw_type *there = raw.load();
        if (there == nullptr) {
            return;
        }
        Binding::close(there);
        int error = Binding::close_wait(there, CONCLAVE_FOREVER);
        if (error == CONCLAVE_EFORK) {
            return; /* all of it belongs to the parent process */
        }
        bool now = error == 0;
        if (!now) {
            calls.shut();
            std::lock_guard<std::mutex> hold(lock_);
            if (told_) {
                now = true;
            } else {
                reap_ = true;
            }
        }
        if (now) {
            destroy();
        }
    }

    template <class F> void with_raw(F &&f) noexcept
    {
        std::lock_guard<std::mutex> hold(lock_);
        if (raw_type *there = raw.load()) {
            f(there);
        }
    }

    /* For the C callbacks: calls f(state, handle) unless the program has given the handle up. */
    template <class F>
    static void enter(raw_type *there, void *ctx, const char *where, F &&f) noexcept
    {
        auto *state = static_cast<handle_state *>(ctx);
        state->opened(there);
        gate::pass pass(state->calls);
        if (pass) {
            guarded(*state->owner->errors(), where, [&] {
                Handle view(state->shared_from_this());
                f(*state, view);
            });
        }
    }

    /* The same for a callback whose result counts: 0, or CONCLAVE_ECANCELED after an exception and for a
     * handle that was given up. */
    template <class F> static int ask(raw_type *there, void *ctx, const char *where, F &&f) noexcept
    {
        int result = CONCLAVE_ECANCELED;
        enter(there, ctx, where, [&](handle_state &state, Handle &view) {
            f(state, view);
            result = 0;
        });
        return result;
    }

    static void on_closed(raw_type *there, int why, void *ctx)
    {
        auto *state = static_cast<handle_state *>(ctx);
        std::shared_ptr<handle_state> keep = state->tell();
        if (state->options.on_closed) {
            enter(there, ctx, "on_closed", [&](handle_state &, Handle &view) {
                state->options.on_closed(view, to_code(why));
            });
        }
        if (state->reap_) {
            state->destroy();
        }
    }

    const std::shared_ptr<session> owner;
    Options options;
    std::atomic<raw_type *> raw{nullptr};
    gate calls;

  private:
    /* A callback may come before the function that opens the handle has returned, and the last one after the
     * handle was destroyed: the C handle is remembered once. */
    void opened(raw_type *there) noexcept
    {
        if (raw.load() == nullptr) {
            std::lock_guard<std::mutex> hold(lock_);
            if (!forgotten_) {
                raw.store(there);
            }
        }
    }

    /* The C handle was not opened, or is gone again. */
    void forget() noexcept
    {
        const auto last = tell(); /* ends without the lock */
        std::lock_guard<std::mutex> hold(lock_);
        forgotten_ = true;
        raw.store(nullptr);
    }

    std::shared_ptr<handle_state> tell()
    {
        std::lock_guard<std::mutex> hold(lock_);
        told_ = true;
        return std::move(self_);
    }

    void destroy() noexcept
    {
        raw_type *there;
        {
            std::lock_guard<std::mutex> hold(lock_);
            doomed_ = waiting_ > 0;
            if (doomed_) {
                return; /* the last thread that waits in wait_closed does it */
            }
            forgotten_ = true;
            there = raw.exchange(nullptr);
        }
        Binding::destroy(there);
    }

    std::mutex lock_;
    std::shared_ptr<handle_state> self_; /* until on_closed */
    unsigned waiting_ = 0;               /* threads in wait_closed */
    bool doomed_ = false;                /* the last of them destroys the C handle */
    bool told_ = false;                  /* on_closed runs or has run */
    bool forgotten_ = false;             /* there is no C handle any more */
    bool reap_ = false; /* on_closed destroys the C handle; set before told_ or never */
};

/* A C completion callback with no result but an error. */
template <class Raw> void done_nothing(Raw *, int error, void *ctx)
{
    static_cast<completion<nothing> *>(ctx)->done(error, nothing());
}

/* The part that all handles have in common. */
template <class Handle, class Options, class Binding> class basic_handle
{
  public:
    using state = handle_state<Handle, Options, Binding>;
    using native_type = typename Binding::raw_type;

    basic_handle() noexcept = default;
    basic_handle(basic_handle &&other) noexcept
        : state_(std::move(other.state_)), owns_(std::exchange(other.owns_, false))
    {
    }
    basic_handle &operator=(basic_handle &&other) noexcept
    {
        if (this != &other) {
            reset();
            state_ = std::move(other.state_);
            owns_ = std::exchange(other.owns_, false);
        }
        return *this;
    }
    ~basic_handle()
    {
        reset();
    }

    /* Whether there is a handle: false after a move, and of one made without arguments. All calls on such a
     * handle fail with CONCLAVE_ECLOSED. */
    explicit operator bool() const noexcept
    {
        return state_ != nullptr;
    }

    /* Asks for the end; on_closed is called last. Any number of times, also in a callback. */
    void close() noexcept
    {
        if (state_) {
            state_->begin_close();
        }
    }

    /* Asks for the end and waits for on_closed: false if it has not returned in time, or in a callback. */
    bool close_wait(time_span timeout) noexcept
    {
        close();
        const auto keep = state_;
        return !keep || keep->wait_closed(wait_ms(timeout)) == 0;
    }

    /* Destroys the handle, as its destructor. */
    void reset() noexcept
    {
        if (std::exchange(owns_, false) && state_) {
            state_->dispose();
        }
        state_.reset();
    }

    /* The handle of the C interface, for functions that are not here; nullptr: none. Do not close it. */
    native_type *native() const noexcept
    {
        return state_ ? state_->raw.load() : nullptr;
    }

  protected:
    /* A handle that a callback gets: it does not own anything. */
    explicit basic_handle(std::shared_ptr<state> shared) noexcept : state_(std::move(shared))
    {
    }

    template <class Open>
    basic_handle(std::shared_ptr<session> owner, Options options, const char *what, Open &&open)
    {
        if (!owner) {
            throw conclave::error(CONCLAVE_ECLOSED, what);
        }
        auto made = std::make_shared<state>(std::move(owner), std::move(options));
        made->begin(what, [&](void *ctx, native_type **ret) { return open(*made, ctx, ret); });
        state_ = std::move(made);
        owns_ = true;
    }

    /* Makes a call in the caller's style. call: int(native_type *, T &). begin: int(native_type *, void *ctx),
     * where ctx is a completion<T>; nullptr: the call can only be waited for. */
    template <class T, class Call, class Begin, class... S>
    decltype(auto) run(const char *what, Call call, Begin begin, S &&...style) const
    {
        const auto keep = state_;
        const auto &errors = keep ? keep->owner->errors() : no_sink();
        auto waits = [keep, call = std::move(call)](T &value) {
            native_type *there = keep ? keep->raw.load() : nullptr;
            return there != nullptr ? call(there, value) : static_cast<int>(CONCLAVE_ECLOSED);
        };
        if constexpr (std::is_same_v<Begin, std::nullptr_t>) {
            return detail::run<T>(errors, what, std::move(waits), begin, std::forward<S>(style)...);
        } else {
            auto begins = [keep, begin = std::move(begin)](completion<T> *to) {
                native_type *there = keep ? keep->raw.load() : nullptr;
                return there != nullptr ? begin(there, static_cast<void *>(to))
                                        : static_cast<int>(CONCLAVE_ECLOSED);
            };
            return detail::run<T>(errors, what, std::move(waits), std::move(begins),
                                  std::forward<S>(style)...);
        }
    }

    /* The same for C functions f(handle, timeout) and begin(handle, timeout, done, ctx) without a result. */
    template <class... S>
    decltype(auto) timed(const char *what, int (*f)(native_type *, int64_t),
                         int (*begin)(native_type *, int64_t, void (*)(native_type *, int, void *),
                                      void *),
                         time_span timeout, S &&...style) const
    {
        return run<nothing>(
            what, [=](native_type *there, nothing &) { return f(there, detail::wait_ms(timeout)); },
            [=](native_type *there, void *ctx) {
                return begin(there, detail::wait_ms(timeout), done_nothing<native_type>, ctx);
            },
            std::forward<S>(style)...);
    }

    /* The same for a C function f(handle, timeout) that has no asynchronous form. */
    template <class... S>
    void waited(const char *what, int (*f)(native_type *, int64_t), time_span timeout,
                S &&...style) const
    {
        run<nothing>(
            what, [=](native_type *there, nothing &) { return f(there, wait_ms(timeout)); },
            nullptr, std::forward<S>(style)...);
    }

    /* Asks the C handle something that cannot fail; `none` without one. */
    template <class Result, class F> Result ask_raw(Result none, F &&f) const noexcept
    {
        native_type *there = native();
        return there != nullptr ? static_cast<Result>(f(there)) : none;
    }

    std::shared_ptr<state> state_;
    bool owns_ = false;

    friend state;
};

/* The styles of a wait of the C library that has no asynchronous form: a style that does not wait is refused
 * at compile time. */
template <class S, class T> constexpr bool is_waiting_style = std::is_same_v<S, std::error_code &>;
template <class T, class... S>
using waiting_styles = std::enable_if_t<sizeof...(S) <= 1 && (is_waiting_style<S, T> && ...), int>;

} // namespace detail

} // namespace conclave

#endif
