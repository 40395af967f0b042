/*
 * Requests of a client in C++: how to read and create, results, transactions, persistent watches.
 * conclave/cpp/client.hpp sends them.
 */
#ifndef CONCLAVE_CPP_REQUESTS_HPP
#define CONCLAVE_CPP_REQUESTS_HPP

#include <conclave/cpp/handle.hpp>

#include <optional>

namespace conclave
{

/* --- watches ----------------------------------------------------------------------- */

struct event {
    conclave_event_type type = CONCLAVE_EVENT_LOST;
    std::string path;
};

using watch_function = std::function<void(const event &)>;

/* How to read. */
struct read_options {
    watch_function watch{};    /* called once, at the next change or with CONCLAVE_EVENT_LOST */
    bool linearizable = false; /* shows all writes that were acknowledged before */
    time_span timeout{};       /* of this request; 0: the client's request_timeout */
};

/* client.get(path, conclave::with_watch([](const conclave::event &e) { ... })) */
inline read_options with_watch(watch_function watch)
{
    read_options options;
    options.watch = std::move(watch);
    return options;
}

/* client.get(path, conclave::latest()) */
inline read_options latest()
{
    read_options options;
    options.linearizable = true;
    return options;
}

/* --- results ------------------------------------------------------------------------ */

struct node {
    std::string data; /* empty for the null value, too */
    bool is_null = false;
    conclave_stat stat{};
};

struct child_list {
    std::vector<std::string> names; /* in the server's order */
    conclave_stat stat{};

    auto begin() const
    {
        return names.begin();
    }
    auto end() const
    {
        return names.end();
    }
    size_t size() const
    {
        return names.size();
    }
};

struct node_acl {
    acl_list entries;
    conclave_stat stat{};
};

/* One part of a transaction. */
struct part_result {
    std::error_code error;
    std::string path; /* of a create: the name made */
    std::string data; /* of a get */
    std::vector<std::string> children;
    std::optional<conclave_stat> stat;
};

struct identity {
    std::string scheme;
    std::string id;
};

/* --- changes ------------------------------------------------------------------------ */

struct create_options {
    conclave_create_mode mode = CONCLAVE_PERSISTENT;
    acl_list acl{};  /* empty: the client's */
    time_span ttl{}; /* 0: none */
};

/* A change of the ensemble's members, as struct conclave_reconfig. */
struct reconfig {
    std::string joining{}; /* "server.4=host:port:port;port"; empty: none */
    std::string leaving{}; /* "3,2"; empty: none */
    std::string members{}; /* the complete new list; empty: see joining and leaving */
    int64_t version = -1;  /* expected version of the configuration; -1: any */
};

namespace detail
{

/* A request that owns its strings and bytes. */
class request
{
  public:
    explicit request(conclave_op_type type) : op_(conclave_op_path(type, nullptr, 0))
    {
    }

    request(conclave_op_type type, std::string path, int32_t version = -1)
        : path_(std::move(path)), op_(conclave_op_path(type, nullptr, version)), has_path_(true)
    {
    }

    request &data(std::string_view data)
    {
        data_ = data;
        has_data_ = true;
        return *this;
    }

    request &read(const read_options &options)
    {
        op_.linearizable = options.linearizable;
        op_.timeout_ms = option_ms(options.timeout);
        return *this;
    }

    request &made(const create_options &options)
    {
        op_.mode = options.mode;
        op_.ttl_ms = options.ttl.count();
        acl_ = options.acl;
        return *this;
    }

    /* The ACL of a node that is there. An empty one makes the request invalid: without an ACL, the C function would give
     * everybody all permissions. */
    request &acl(acl_list entries)
    {
        acl_ = std::move(entries);
        valid_ = !acl_.empty();
        return *this;
    }

    request &parts(std::vector<request> parts)
    {
        parts_ = std::move(parts);
        return *this;
    }

    request &members(reconfig change)
    {
        change_ = std::move(change);
        return *this;
    }

    request &watch(conclave_watch_kind kind)
    {
        op_.watch_kind = kind;
        return *this;
    }

    /* Calls f(const conclave_op *): the library copies it before f returns. */
    template <class F> int submit(conclave_watch_fn watch, void *ctx, F &&f) const
    {
        if (!valid_) {
            return CONCLAVE_EINVAL;
        }
        std::vector<conclave_op> parts;
        std::vector<raw_acl> acls;
        acls.reserve(parts_.size() + 1);
        parts.reserve(parts_.size());
        for (const request &part : parts_) {
            parts.push_back(part.raw(acls));
        }
        conclave_op op = raw(acls);
        op.watch = watch;
        op.watch_ctx = ctx;
        op.parts = parts.empty() ? nullptr : parts.data();
        op.parts_count = parts.size();
        conclave_reconfig change = CONCLAVE_RECONFIG_INIT;
        if (change_) {
            change.joining = or_null(change_->joining);
            change.leaving = or_null(change_->leaving);
            change.members = or_null(change_->members);
            change.config_version = change_->version;
            op.reconfig = &change;
        }
        return f(&op);
    }

    /* Calls f(const conclave_op *parts, size_t count). */
    template <class F> int submit_parts(F &&f) const
    {
        return submit(nullptr, nullptr,
                      [&](const conclave_op *op) { return f(op->parts, op->parts_count); });
    }

  private:
    conclave_op raw(std::vector<raw_acl> &acls) const
    {
        conclave_op op = op_;
        op.path = has_path_ ? path_.c_str() : nullptr;
        op.data = has_data_ ? data_.data() : nullptr;
        op.data_len = data_.size();
        acls.emplace_back(acl_);
        acls.back().put(op);
        return op;
    }

    std::string path_;
    std::string data_;
    acl_list acl_;
    std::vector<request> parts_;
    std::optional<reconfig> change_;
    conclave_op op_;
    bool has_path_ = false;
    bool has_data_ = false;
    bool valid_ = true;
};

inline void fill(std::string &to, const conclave_reply &reply)
{
    to = text(reply.path);
}
inline void fill(int64_t &to, const conclave_reply &reply)
{
    to = reply.total_number;
}
inline void fill(node &to, const conclave_reply &reply)
{
    to.data = bytes(reply.data, reply.data_len);
    to.is_null = reply.data == nullptr;
    to.stat = reply.stat;
}
inline void fill(conclave_stat &to, const conclave_reply &reply)
{
    to = reply.stat;
}
inline void fill(std::optional<conclave_stat> &to, const conclave_reply &reply)
{
    to = reply.stat;
}
inline void fill(nothing &, const conclave_reply &)
{
}
inline void fill(std::vector<std::string> &to, const conclave_reply &reply)
{
    to.assign(reply.children, reply.children + reply.children_count);
}
inline void fill(child_list &to, const conclave_reply &reply)
{
    fill(to.names, reply);
    to.stat = reply.stat;
}
inline void fill(node_acl &to, const conclave_reply &reply)
{
    for (size_t i = 0; i < reply.acl_count; i++) {
        to.entries.push_back({reply.acl[i].perms, reply.acl[i].scheme, reply.acl[i].id});
    }
    to.stat = reply.stat;
}
inline void fill(std::vector<identity> &to, const conclave_reply &reply)
{
    for (size_t i = 0; i < reply.identities_count; i++) {
        to.push_back({reply.identities[i].scheme, reply.identities[i].id});
    }
}
inline void fill(std::vector<part_result> &to, const conclave_reply &reply)
{
    for (size_t i = 0; i < reply.results_count; i++) {
        const conclave_reply &part = nth(reply.results, i);
        part_result result;
        result.error = to_code(part.error);
        result.path = text(part.path);
        result.data = bytes(part.data, part.data_len);
        fill(result.children, part);
        if (part.has_stat) {
            result.stat = part.stat;
        }
        to.push_back(std::move(result));
    }
}

/* Results that a failed request has, too: which part of a transaction failed. */
template <class T> constexpr bool filled_on_error = std::is_same_v<T, std::vector<part_result>>;

/* NO_NODE is an answer to exists. */
template <class T> int error_of(const conclave_reply &reply)
{
    bool absent =
        std::is_same_v<T, std::optional<conclave_stat>> && reply.error == CONCLAVE_NO_NODE;
    return absent ? 0 : reply.error;
}

template <class T> int take(const conclave_reply &reply, T &to) noexcept
{
    int error = error_of<T>(reply);
    try {
        if (reply.error == 0 || filled_on_error<T>) {
            fill(to, reply);
        }
    } catch (...) {
        to = T{};
        error = CONCLAVE_ENOMEM;
    }
    return error;
}

struct reply_deleter {
    void operator()(conclave_reply *reply) const
    {
        conclave_reply_free(reply);
    }
};
using reply_ptr = std::unique_ptr<conclave_reply, reply_deleter>;

/* The watch of one request, while the library may call it. */
struct one_shot {
    std::shared_ptr<const sink> errors;
    watch_function fn;

    static void call(conclave_client *, conclave_event_type type, const char *path, void *ctx)
    {
        std::unique_ptr<one_shot> self(static_cast<one_shot *>(ctx));
        guarded(*self->errors, "watch", [&] { self->fn(event{type, text(path)}); });
    }

    /* Frees it if its request failed in a way that set no watch; without memory that is not known. */
    static void answered(one_shot *self, conclave_op_type type, int error)
    {
        bool set = error == 0 || error == CONCLAVE_ENOMEM ||
                   (type == CONCLAVE_OP_EXISTS && error == CONCLAVE_NO_NODE);
        if (self != nullptr && !set) {
            delete self;
        }
    }
};

/* A request that was submitted: its completion and its watch. */
template <class T> struct submitted {
    completion<T> *to;
    one_shot *watch;
    conclave_op_type type;

    static void call(conclave_client *, const conclave_reply *reply, void *ctx)
    {
        std::unique_ptr<submitted> self(static_cast<submitted *>(ctx));
        T value{};
        int error = take(*reply, value);
        one_shot::answered(self->watch, self->type, reply->error);
        self->to->done(error, std::move(value));
    }
};

} // namespace detail

/* Changes that are made together or not at all: client.commit, election::fenced, lock::fenced, item::ack. */
class transaction
{
  public:
    transaction &create(std::string path, std::string_view data = {}, create_options options = {})
    {
        parts_.push_back(
            detail::request(CONCLAVE_OP_CREATE, std::move(path), 0).data(data).made(options));
        return *this;
    }
    transaction &set(std::string path, std::string_view data, int32_t version = -1)
    {
        parts_.push_back(detail::request(CONCLAVE_OP_SET, std::move(path), version).data(data));
        return *this;
    }
    transaction &erase(std::string path, int32_t version = -1)
    {
        parts_.emplace_back(CONCLAVE_OP_DELETE, std::move(path), version);
        return *this;
    }
    /* Fails the whole unless the node has this version; -1: unless it is there. */
    transaction &check(std::string path, int32_t version)
    {
        parts_.emplace_back(CONCLAVE_OP_CHECK, std::move(path), version);
        return *this;
    }
    size_t size() const
    {
        return parts_.size();
    }

    /* For the handles. */
    detail::request request(conclave_op_type type = CONCLAVE_OP_MULTI) const
    {
        return detail::request(type).parts(parts_);
    }

  private:
    std::vector<detail::request> parts_;
};

/* Reads that are sent together; each succeeds or fails by itself (ZooKeeper 3.6). */
class reads
{
  public:
    reads &get(std::string path)
    {
        parts_.emplace_back(CONCLAVE_OP_GET, std::move(path));
        return *this;
    }
    reads &children(std::string path)
    {
        parts_.emplace_back(CONCLAVE_OP_GET_CHILDREN, std::move(path));
        return *this;
    }
    detail::request request() const
    {
        return detail::request(CONCLAVE_OP_MULTI_READ).parts(parts_);
    }

  private:
    std::vector<detail::request> parts_;
};

/* A persistent watch; its end removes it. Its function gets CONCLAVE_EVENT_LOST last, unless the watch was
 * destroyed: then it is not called any more. */
class watch
{
  public:
    watch() noexcept = default;
    watch(watch &&) noexcept = default;
    watch &operator=(watch &&other) noexcept
    {
        if (this != &other) {
            reset();
            state_ = std::move(other.state_);
        }
        return *this;
    }
    ~watch()
    {
        reset();
    }
    explicit operator bool() const noexcept
    {
        return state_ != nullptr;
    }

    /* false: CONCLAVE_EVENT_LOST has come (the session ended): set a new one. */
    bool active() const noexcept
    {
        return state_ && !state_->lost;
    }

    void reset() noexcept
    {
        if (state_) {
            state_->calls.shut();
            const auto owner = std::move(state_->owner); /* it may end here, not in a callback */
            (void)conclave_watch_remove(owner->client(), state_->path.c_str(), state::call,
                                        state_.get());
            state_.reset();
        }
    }

  private:
    friend class client;

    struct state {
        std::shared_ptr<detail::session> owner; /* of this handle: the library's share is in self */
        std::shared_ptr<const detail::sink> errors;
        std::string path;
        watch_function fn;
        detail::gate calls;
        std::atomic<bool> lost{false};
        std::shared_ptr<state> self; /* until CONCLAVE_EVENT_LOST */

        static void call(conclave_client *, conclave_event_type type, const char *path, void *ctx)
        {
            auto *there = static_cast<state *>(ctx);
            std::shared_ptr<state> last;
            if (type == CONCLAVE_EVENT_LOST) {
                there->lost = true;
                last = std::move(there->self);
            }
            detail::gate::pass pass(there->calls);
            if (pass) {
                detail::guarded(*there->errors, "watch", [&] {
                    there->fn(event{type, detail::text(path)});
                });
            }
        }
    };

    explicit watch(std::shared_ptr<state> there) noexcept : state_(std::move(there))
    {
    }

    std::shared_ptr<state> state_;
};

} // namespace conclave

#endif
