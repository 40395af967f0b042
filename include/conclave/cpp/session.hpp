/*
 * The session that a client and its handles share, in C++; and ACLs, tokens and leases, which all recipes use.
 */
#ifndef CONCLAVE_CPP_SESSION_HPP
#define CONCLAVE_CPP_SESSION_HPP

#include <conclave/cpp/async.hpp>

#include <conclave/recipes.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace conclave
{

/* One entry of an ACL: permissions (CONCLAVE_PERM_READ | ...) of an id. */
struct acl {
    int perms = CONCLAVE_PERM_ALL;
    std::string scheme = "world";
    std::string id = "anyone";
};

using acl_list = std::vector<acl>;

/* Everything for everybody; reading for everybody; everything for the ids of the client that creates. */
inline acl_list open_acl()
{
    return {acl{}};
}
inline acl_list read_acl()
{
    return {acl{CONCLAVE_PERM_READ, "world", "anyone"}};
}
inline acl_list creator_acl()
{
    return {acl{CONCLAVE_PERM_ALL, "auth", ""}};
}

/* A fencing token, as struct conclave_token; false: none. Larger: later. */
class token
{
  public:
    token() noexcept = default;
    token(conclave_token raw) noexcept : raw_(raw)
    {
    }

    int64_t value() const noexcept
    {
        return raw_.czxid;
    }
    conclave_token native() const noexcept
    {
        return raw_;
    }
    explicit operator bool() const noexcept
    {
        return raw_.czxid != 0;
    }
    friend bool operator==(token a, token b) noexcept
    {
        return a.value() == b.value();
    }
    friend bool operator!=(token a, token b) noexcept
    {
        return a.value() != b.value();
    }
    friend bool operator<(token a, token b) noexcept
    {
        return a.value() < b.value();
    }

  private:
    conclave_token raw_{};
};

/* As struct conclave_lease_options. */
struct lease_options {
    time_span heartbeat{}; /* 0: a sixth of the session timeout */
    time_span grace{};     /* 0: the maximum */
    bool stop_on_suspend = false;
};

/* A line of a client's log, as struct conclave_log_line. */
struct log_line {
    conclave_log_level level = CONCLAVE_LOG_INFO;
    std::string message;
    std::string text; /* all of it, in one line */
    std::vector<std::pair<std::string, std::string>> fields;

    /* "WARNING cannot use the server server=10.0.0.1:2181 ..." */
    friend std::ostream &operator<<(std::ostream &to, const log_line &line)
    {
        return to << conclave_log_level_name(line.level) << ' ' << line.text;
    }
};

namespace detail
{

/* The C form of an ACL; lives as long as the list that it was made of. */
class raw_acl
{
  public:
    explicit raw_acl(const acl_list &list)
    {
        entries_.reserve(list.size());
        for (const acl &entry : list) {
            entries_.push_back({entry.perms, entry.scheme.c_str(), entry.id.c_str()});
        }
    }

    /* acl and acl_count of a C struct; an empty list is NULL, the client's ACL. */
    template <class Options> void put(Options &options) const
    {
        options.acl = entries_.empty() ? nullptr : entries_.data();
        options.acl_count = entries_.size();
    }

  private:
    std::vector<conclave_acl> entries_;
};

inline const char *or_null(const std::string &text)
{
    return text.empty() ? nullptr : text.c_str();
}

inline std::vector<const char *> c_strings(const std::vector<std::string> &list)
{
    std::vector<const char *> made;
    for (const std::string &each : list) {
        made.push_back(each.c_str());
    }
    return made;
}

inline conclave_lease_options to_raw(const lease_options &lease)
{
    conclave_lease_options raw{};
    raw.heartbeat_ms = lease.heartbeat.count();
    raw.grace_ms = lease.grace.count();
    raw.stop_on_suspend = lease.stop_on_suspend;
    return raw;
}

/* Bytes of a C struct; NULL is empty. */
inline std::string_view bytes(const void *data, size_t len)
{
    return data == nullptr ? std::string_view()
                           : std::string_view(static_cast<const char *>(data), len);
}

inline std::string text(const char *text)
{
    return text == nullptr ? std::string() : std::string(text);
}

/* A zeroed C struct, with its size if it has one. */
template <class T> auto sized(int) -> decltype(T().size, T())
{
    T value{};
    value.size = sizeof value;
    return value;
}
template <class T> T sized(long)
{
    return T{};
}

/* An element of a C array of structs, or of pointers to structs. */
template <class P> decltype(auto) nth(P list, size_t i)
{
    if constexpr (std::is_pointer_v<std::remove_pointer_t<P>>) {
        return (*list[i]);
    } else {
        return (list[i]);
    }
}

/* Whether the functions of the program may be called. A thread passes while it calls one. */
class gate
{
  public:
    class pass
    {
      public:
        explicit pass(gate &through) : gate_(through), open_(through.enter())
        {
        }
        pass(const pass &) = delete;
        pass &operator=(const pass &) = delete;
        ~pass()
        {
            if (open_) {
                gate_.leave();
            }
        }
        explicit operator bool() const noexcept
        {
            return open_;
        }

      private:
        gate &gate_;
        bool open_;
    };

    /* Nobody passes any more; waits for the other threads that are inside. */
    void shut()
    {
        std::unique_lock<std::mutex> hold(lock_);
        shut_ = true;
        left_.wait(hold, [&] {
            return std::all_of(inside_.begin(), inside_.end(),
                               [](std::thread::id id) { return id == std::this_thread::get_id(); });
        });
    }

  private:
    bool enter()
    {
        std::lock_guard<std::mutex> hold(lock_);
        if (!shut_) {
            inside_.push_back(std::this_thread::get_id());
        }
        return !shut_;
    }

    void leave()
    {
        std::lock_guard<std::mutex> hold(lock_);
        inside_.erase(std::find(inside_.begin(), inside_.end(), std::this_thread::get_id()));
        left_.notify_all();
    }

    std::mutex lock_;
    std::condition_variable left_;
    std::vector<std::thread::id> inside_;
    bool shut_ = false;
};

/* A handle as its session sees it. */
struct session_member {
    virtual void begin_close() noexcept = 0;
    virtual int wait_closed(int64_t timeout_ms) noexcept = 0;
    /* It was destroyed in a callback and ends by itself. */
    virtual bool ends() noexcept = 0;

  protected:
    ~session_member() = default;
};

/* Takes the lines, the spans and the changes of a client's state until CLOSED, the last. */
struct state_listener {
    std::shared_ptr<const sink> errors;
    std::function<void(conclave_state)> fn;
    std::function<void(const log_line &)> on_log;
    std::function<void(const conclave_span &)> on_span;
    gate calls;

    static void log(conclave_client *, const conclave_log_line *raw, void *ctx)
    {
        const std::shared_ptr<state_listener> keep =
            *static_cast<std::shared_ptr<state_listener> *>(ctx);
        gate::pass pass(keep->calls);
        if (pass) {
            guarded(*keep->errors, "on_log", [&] {
                log_line line;
                line.level = raw->level;
                line.message = raw->message;
                line.text = raw->text;
                for (const char *const *field = raw->fields; *field != nullptr; field += 2) {
                    line.fields.emplace_back(field[0], field[1]);
                }
                keep->on_log(line);
            });
        }
    }

    static void span(conclave_client *, const conclave_span *span, void *ctx)
    {
        const std::shared_ptr<state_listener> keep =
            *static_cast<std::shared_ptr<state_listener> *>(ctx);
        gate::pass pass(keep->calls);
        if (pass) {
            guarded(*keep->errors, "on_span", [&] { keep->on_span(*span); });
        }
    }

    static void call(conclave_client *, conclave_state state, void *ctx)
    {
        auto *self = static_cast<std::shared_ptr<state_listener> *>(ctx);
        const std::shared_ptr<state_listener> keep = *self;
        if (state == CONCLAVE_STATE_CLOSED) {
            delete self;
        }
        gate::pass pass(keep->calls);
        if (pass && keep->fn) {
            guarded(*keep->errors, "on_state", [&] { keep->fn(state); });
        }
    }
};

/* One timeout for several calls. */
class countdown
{
  public:
    explicit countdown(int64_t timeout_ms)
        : timeout_ms_(timeout_ms), began_(std::chrono::steady_clock::now())
    {
    }

    /* The time that is left. */
    int64_t ms() const
    {
        const auto passed =
            std::chrono::floor<milliseconds>(std::chrono::steady_clock::now() - began_);
        return timeout_ms_ < 0 ? timeout_ms_
                               : std::max(timeout_ms_ - int64_t(passed.count()), int64_t(0));
    }

  private:
    int64_t timeout_ms_; /* negative: no end */
    std::chrono::steady_clock::time_point began_;
};

/* A session: the C client and its recipes. A client and its handles share it. */
class session
{
  public:
    session(const conclave_client_options &options, bool threads,
            std::shared_ptr<const sink> errors, std::function<void(conclave_state)> on_state,
            std::function<void(const log_line &)> on_log,
            std::function<void(const conclave_span &)> on_span)
        : threads_(threads), errors_(std::move(errors)),
          listener_(std::make_shared<state_listener>())
    {
        end_client_ = conclave_client_close;
        listener_->errors = errors_;
        listener_->fn = std::move(on_state);
        listener_->on_log = std::move(on_log);
        listener_->on_span = std::move(on_span);
        auto ctx = std::make_unique<std::shared_ptr<state_listener>>(listener_);
        conclave_client_options raw = options;
        raw.on_state = state_listener::call;
        raw.on_log = listener_->on_log ? state_listener::log : nullptr;
        raw.on_span = listener_->on_span ? state_listener::span : nullptr;
        raw.ctx = raw.span_ctx = ctx.get();
        check(conclave_client_open(&raw, &client_), "client");
        (void)ctx.release(); /* the state CLOSED deletes it */
        int error = conclave_recipes_open(client_, &recipes_);
        if (error == 0 && threads) {
            error = conclave_client_start(client_);
        }
        if (error != 0) {
            end();
            throw conclave::error(error, "client");
        }
    }

    /* The session of a client that runs already, with threads; end_client closes it. */
    session(conclave_client *there, std::function<void(conclave_client *, int64_t)> end_client,
            std::shared_ptr<const sink> errors)
        : threads_(true), errors_(std::move(errors)), listener_(std::make_shared<state_listener>()),
          end_client_(std::move(end_client)), client_(there)
    {
        check(conclave_recipes_open(client_, &recipes_), "client");
    }

    session(const session &) = delete;
    session &operator=(const session &) = delete;

    ~session()
    {
        end();
    }

    /* Ends the handles, then the session, all within one timeout; the session gets a tenth of a second in any case, to
     * tell the server. The C objects stay until the last user is gone. */
    void close(int64_t timeout_ms) noexcept
    {
        const countdown left(timeout_ms);
        try {
            const auto all = members();
            for (const auto &each : all) {
                each->begin_close();
            }
            for (const auto &each : all) {
                (void)each->wait_closed(left.ms());
            }
        } catch (...) { /* no memory for the list: the handles lose their session instead */
        }
        close_client(timeout_ms < 0 ? timeout_ms
                                    : std::max(left.ms(), std::min(timeout_ms, int64_t(100))));
    }

    /* Without threads, before the program gives up its loop: runs the handles that end in the background. */
    void drain() noexcept
    {
        try {
            for (const auto &each : threads_ ? decltype(members())() : members()) {
                if (each->ends()) {
                    (void)each->wait_closed(CONCLAVE_FOREVER);
                }
            }
        } catch (...) { /* no memory for the list: the session ends with the process */
        }
    }

    void add(const std::weak_ptr<session_member> &each)
    {
        std::lock_guard<std::mutex> hold(lock_);
        if (members_.size() >= next_sweep_) {
            members_.erase(std::remove_if(members_.begin(), members_.end(),
                                          [](const auto &old) { return old.expired(); }),
                           members_.end());
            next_sweep_ = 2 * members_.size() + 16;
        }
        members_.push_back(each);
    }

    conclave_client *client() const noexcept
    {
        return client_;
    }
    conclave_recipes *recipes() const noexcept
    {
        return recipes_;
    }
    const std::shared_ptr<const sink> &errors() const noexcept
    {
        return errors_;
    }
    gate &states() noexcept
    {
        return listener_->calls;
    }

  private:
    std::vector<std::shared_ptr<session_member>> members()
    {
        std::lock_guard<std::mutex> hold(lock_);
        std::vector<std::shared_ptr<session_member>> all;
        for (const auto &each : members_) {
            if (auto there = each.lock()) {
                all.push_back(std::move(there));
            }
        }
        return all;
    }

    void close_client(int64_t timeout_ms) noexcept
    {
        if (!closed_.exchange(true)) {
            end_client_(client_, timeout_ms);
        }
    }

    void end() noexcept
    {
        conclave_recipes_destroy(recipes_);
        close_client(close_ms);
    }

    static constexpr int64_t close_ms = 2000;

    const bool threads_;
    std::shared_ptr<const sink> errors_;
    std::shared_ptr<state_listener> listener_;
    std::function<void(conclave_client *, int64_t timeout_ms)> end_client_;
    conclave_client *client_ = nullptr;
    conclave_recipes *recipes_ = nullptr;
    std::atomic<bool> closed_{false};
    std::mutex lock_;
    std::vector<std::weak_ptr<session_member>> members_;
    size_t next_sweep_ = 16;
};

} // namespace detail

} // namespace conclave

#endif
