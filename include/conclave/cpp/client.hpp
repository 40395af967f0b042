/*
 * The client in C++: a session, requests in every style of conclave/cpp/async.hpp, watches, transactions.
 *
 *     conclave::client client({"10.0.0.1:2181,10.0.0.2:2181"});
 *     client.create("/a", "one");
 *     std::string value = client.get("/a").data;
 *
 * A client is move-only. Recipes made with it share its session (conclave/cpp/handle.hpp). Destroying the
 * client ends the session, unless handles still use it; on_state is not called any more.
 */
#ifndef CONCLAVE_CPP_CLIENT_HPP
#define CONCLAVE_CPP_CLIENT_HPP

#include <conclave/cpp/client_options.hpp>
#include <conclave/cpp/requests.hpp>

namespace conclave
{

/* --- the client --------------------------------------------------------------------- */

class lease;

class client
{
  public:
    /* No session: every call fails with CONCLAVE_ECLOSED. */
    client() noexcept = default;

    /* Begins a session; does not wait for a server. Throws conclave::error. */
    explicit client(client_options options)
        : options_(std::make_unique<client_options>(std::move(options))), session_(open())
    {
    }

    client(client &&) noexcept = default;
    client &operator=(client &&other) noexcept
    {
        if (this != &other) {
            reset();
            options_ = std::move(other.options_);
            session_ = std::move(other.session_);
        }
        return *this;
    }
    ~client()
    {
        reset();
    }

    explicit operator bool() const noexcept
    {
        return session_ != nullptr;
    }

    /* Ends all handles and watches of this client, then its session, within about this time. The handles
     * stay there; their calls fail with CONCLAVE_ECLOSED. In a callback: in the background. */
    void close(time_span timeout = milliseconds(2000)) noexcept
    {
        if (const auto keep = session_) {
            keep->close(detail::wait_ms(timeout));
        }
    }

    /* Closes, and begins a new session on this object: with the same options, or with other servers. Handles
     * of the old session stay closed: make new ones. Not while other threads use this object. */
    void recreate()
    {
        if (options_) {
            end();
            session_ = open();
        }
    }
    void recreate(std::string servers)
    {
        if (!options_) {
            options_ = std::make_unique<client_options>();
        }
        options_->servers = std::move(servers);
        recreate();
    }

    /* The list of servers as it was given; "": the default. */
    std::string servers() const
    {
        return options_ ? options_->servers : std::string();
    }

    /* Goes over to other servers with the same session (conclave_client_set_servers). */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void set_servers(const std::string &servers, S &&...style)
    {
        const auto keep = session_;
        detail::run<detail::nothing>(
            sink(), "set_servers",
            [&](detail::nothing &) {
                int error = keep ? conclave_client_set_servers(keep->client(), servers.c_str())
                                 : static_cast<int>(CONCLAVE_ECLOSED);
                if (error == 0) {
                    options_->servers = servers;
                }
                return error;
            },
            nullptr, std::forward<S>(style)...);
    }
    /* "host:port,host:port": the present list, in the order in which they are tried. */
    std::string present_servers() const
    {
        std::array<char, 4096> text{};
        if (const auto keep = session_) {
            conclave_client_servers(keep->client(), text.data(), text.size());
        }
        return text.data();
    }

    /* --- state: any thread --- */

    /* Waits for the first session, or the next one. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void wait_connected(time_span timeout = forever, S &&...style) const
    {
        const auto keep = session_;
        detail::run<detail::nothing>(
            sink(), "connecting",
            [&](detail::nothing &) {
                return keep ? conclave_client_wait_connected(keep->client(),
                                                             detail::wait_ms(timeout))
                            : static_cast<int>(CONCLAVE_ECLOSED);
            },
            nullptr, std::forward<S>(style)...);
    }

    conclave_state state() const noexcept
    {
        return data().state;
    }
    /* There is a link to a server, and a session. */
    bool connected() const noexcept
    {
        const conclave_state now = state();
        return now == CONCLAVE_STATE_CONNECTED || now == CONCLAVE_STATE_RECONNECTED ||
               now == CONCLAVE_STATE_NEW_SESSION;
    }
    bool connecting() const noexcept
    {
        const conclave_state now = state();
        return now == CONCLAVE_STATE_CONNECTING || now == CONCLAVE_STATE_SUSPENDED;
    }
    bool expired() const noexcept
    {
        return state() == CONCLAVE_STATE_LOST;
    }
    bool auth_failed() const noexcept
    {
        return state() == CONCLAVE_STATE_AUTH_FAILED;
    }
    bool closed() const noexcept
    {
        return state() == CONCLAVE_STATE_CLOSED;
    }
    /* "address:port" of the server of the link; "" without a link. */
    std::string connected_host() const
    {
        return data().server;
    }
    /* As negotiated with the server; 0 before. */
    milliseconds session_timeout() const noexcept
    {
        return milliseconds(data().timeout_ms);
    }
    int64_t session_id() const noexcept
    {
        return data().id;
    }
    session_key key() const noexcept
    {
        const conclave_session now = data();
        session_key key;
        key.id = now.id;
        std::copy(std::begin(now.passwd), std::end(now.passwd), key.passwd.begin());
        return key;
    }
    /* All of the above at one moment. */
    conclave_session data() const noexcept
    {
        conclave_session now = CONCLAVE_SESSION_INIT;
        now.state = CONCLAVE_STATE_CLOSED;
        if (const auto keep = session_) {
            conclave_client_session(keep->client(), &now);
        }
        return now;
    }
    bool exactly_once() const noexcept
    {
        const auto keep = session_;
        return keep && conclave_client_exactly_once(keep->client());
    }
    /* Why the servers could not be reached; "": no attempt failed. */
    std::string last_error() const
    {
        std::array<char, 1024> text{};
        if (const auto keep = session_) {
            conclave_client_last_error(keep->client(), text.data(), text.size());
        }
        return text.data();
    }

    /* What this client saw of its newest lost link, and whether the session went with it. */
    conclave_loss why() const noexcept
    {
        conclave_loss loss = CONCLAVE_LOSS_INIT;
        if (const auto keep = session_) {
            conclave_client_why(keep->client(), &loss);
        }
        return loss;
    }

    /* --- requests: the last argument is the style --- */

    template <class... S, detail::styles<node, S...> = 0>
    decltype(auto) get(std::string path, S &&...style) const
    {
        return get(std::move(path), read_options{}, std::forward<S>(style)...);
    }
    template <class... S, detail::styles<node, S...> = 0>
    decltype(auto) get(std::string path, read_options options, S &&...style) const
    {
        return read<node>("get", CONCLAVE_OP_GET, std::move(path), std::move(options),
                          std::forward<S>(style)...);
    }

    /* The stat of the node; empty if there is no node. */
    template <class... S, detail::styles<std::optional<conclave_stat>, S...> = 0>
    decltype(auto) exists(std::string path, S &&...style) const
    {
        return exists(std::move(path), read_options{}, std::forward<S>(style)...);
    }
    template <class... S, detail::styles<std::optional<conclave_stat>, S...> = 0>
    decltype(auto) exists(std::string path, read_options options, S &&...style) const
    {
        return read<std::optional<conclave_stat>>("exists", CONCLAVE_OP_EXISTS, std::move(path),
                                                  std::move(options), std::forward<S>(style)...);
    }

    template <class... S, detail::styles<child_list, S...> = 0>
    decltype(auto) children(std::string path, S &&...style) const
    {
        return children(std::move(path), read_options{}, std::forward<S>(style)...);
    }
    template <class... S, detail::styles<child_list, S...> = 0>
    decltype(auto) children(std::string path, read_options options, S &&...style) const
    {
        return read<child_list>("children", CONCLAVE_OP_GET_CHILDREN, std::move(path),
                                std::move(options), std::forward<S>(style)...);
    }

    /* The result is the path made, with its sequence number. */
    template <class... S, detail::styles<std::string, S...> = 0>
    decltype(auto) create(std::string path, std::string_view data, create_options options,
                          S &&...style) const
    {
        return send<std::string>(
            "create", CONCLAVE_OP_CREATE,
            detail::request(CONCLAVE_OP_CREATE, std::move(path), 0).data(data).made(options), {},
            std::forward<S>(style)...);
    }
    template <class... S, detail::styles<std::string, S...> = 0>
    decltype(auto) create(std::string path, std::string_view data, conclave_create_mode mode,
                          S &&...style) const
    {
        create_options options;
        options.mode = mode;
        return create(std::move(path), data, std::move(options), std::forward<S>(style)...);
    }
    template <class... S, detail::styles<std::string, S...> = 0>
    decltype(auto) create(std::string path, std::string_view data, S &&...style) const
    {
        return create(std::move(path), data, create_options{}, std::forward<S>(style)...);
    }
    template <class... S, detail::styles<std::string, S...> = 0>
    decltype(auto) create(std::string path, S &&...style) const
    {
        return create(std::move(path), std::string_view(), std::forward<S>(style)...);
    }

    /* version: the expected one; -1: any. The result is the new stat. */
    template <class... S, detail::styles<conclave_stat, S...> = 0>
    decltype(auto) set(std::string path, std::string_view data, int32_t version, S &&...style) const
    {
        return send<conclave_stat>(
            "set", CONCLAVE_OP_SET,
            detail::request(CONCLAVE_OP_SET, std::move(path), version).data(data), {},
            std::forward<S>(style)...);
    }
    template <class... S, detail::styles<conclave_stat, S...> = 0>
    decltype(auto) set(std::string path, std::string_view data, S &&...style) const
    {
        return set(std::move(path), data, -1, std::forward<S>(style)...);
    }

    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) erase(std::string path, int32_t version, S &&...style) const
    {
        return send<detail::nothing>("erase", CONCLAVE_OP_DELETE,
                                     detail::request(CONCLAVE_OP_DELETE, std::move(path), version),
                                     {}, std::forward<S>(style)...);
    }
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) erase(std::string path, S &&...style) const
    {
        return erase(std::move(path), -1, std::forward<S>(style)...);
    }

    template <class... S, detail::styles<node_acl, S...> = 0>
    decltype(auto) get_acl(std::string path, S &&...style) const
    {
        return read<node_acl>("get_acl", CONCLAVE_OP_GET_ACL, std::move(path), read_options{},
                              std::forward<S>(style)...);
    }
    /* version: the expected aversion; -1: any. An empty list is refused (CONCLAVE_EINVAL). */
    template <class... S, detail::styles<conclave_stat, S...> = 0>
    decltype(auto) set_acl(std::string path, acl_list entries, int32_t version, S &&...style) const
    {
        return send<conclave_stat>(
            "set_acl", CONCLAVE_OP_SET_ACL,
            detail::request(CONCLAVE_OP_SET_ACL, std::move(path), version).acl(std::move(entries)),
            {}, std::forward<S>(style)...);
    }

    /* Later reads show all writes that were acknowledged before. */
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) sync(std::string path, S &&...style) const
    {
        return send<detail::nothing>("sync", CONCLAVE_OP_SYNC,
                                     detail::request(CONCLAVE_OP_SYNC, std::move(path)), {},
                                     std::forward<S>(style)...);
    }

    /* All changes or none. On failure the results, which a std::error_code or a function gets, show the
     * part that failed. */
    template <class... S, detail::styles<std::vector<part_result>, S...> = 0>
    decltype(auto) commit(const transaction &changes, S &&...style) const
    {
        return send<std::vector<part_result>>("commit", CONCLAVE_OP_MULTI, changes.request(), {},
                                              std::forward<S>(style)...);
    }
    template <class... S, detail::styles<std::vector<part_result>, S...> = 0>
    decltype(auto) read_many(const reads &parts, S &&...style) const
    {
        return send<std::vector<part_result>>("read_many", CONCLAVE_OP_MULTI_READ, parts.request(),
                                              {}, std::forward<S>(style)...);
    }

    /* The ids of this client that the servers compare with ACLs (ZooKeeper 3.7). */
    template <class... S, detail::styles<std::vector<identity>, S...> = 0>
    decltype(auto) identities(S &&...style) const
    {
        return send<std::vector<identity>>("identities", CONCLAVE_OP_WHO_AM_I,
                                           detail::request(CONCLAVE_OP_WHO_AM_I), {},
                                           std::forward<S>(style)...);
    }

    /* The paths of this session's ephemeral nodes that begin with this one, byte for byte (ZooKeeper 3.6). */
    template <class... S, detail::styles<std::vector<std::string>, S...> = 0>
    decltype(auto) ephemerals(std::string path, S &&...style) const
    {
        return read<std::vector<std::string>>("ephemerals", CONCLAVE_OP_GET_EPHEMERALS,
                                              std::move(path), {}, std::forward<S>(style)...);
    }

    /* The number of all nodes below path (ZooKeeper 3.6). */
    template <class... S, detail::styles<int64_t, S...> = 0>
    decltype(auto) count_below(std::string path, S &&...style) const
    {
        return read<int64_t>("count_below", CONCLAVE_OP_GET_ALL_CHILDREN_NUMBER, std::move(path),
                             {}, std::forward<S>(style)...);
    }

    /* Changes the ensemble's members; the result is the new configuration (ZooKeeper 3.5). */
    template <class... S, detail::styles<node, S...> = 0>
    decltype(auto) reconfigure(reconfig change, S &&...style) const
    {
        return send<node>("reconfigure", CONCLAVE_OP_RECONFIG,
                          detail::request(CONCLAVE_OP_RECONFIG).members(std::move(change)), {},
                          std::forward<S>(style)...);
    }

    /* Credentials for this link and all later ones: "digest", "user:password". */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void add_auth(const std::string &scheme, std::string_view auth, S &&...style) const
    {
        const auto keep = session_;
        detail::run<detail::nothing>(
            sink(), "add_auth",
            [&](detail::nothing &) {
                return keep ? conclave_client_add_auth(keep->client(), scheme.c_str(), auth.data(),
                                                       auth.size())
                            : static_cast<int>(CONCLAVE_ECLOSED);
            },
            nullptr, std::forward<S>(style)...);
    }

    /* Watches a node, or with recursive the whole tree below it, until the watch is destroyed. Waits for
     * the answer. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    conclave::watch watch(std::string path, watch_function fn, bool recursive = false,
                          S &&...style) const
    {
        const auto keep = session_;
        auto state = std::make_shared<conclave::watch::state>();
        state->owner = keep;
        state->errors = sink();
        state->path = path;
        state->fn = std::move(fn);
        detail::request ask(CONCLAVE_OP_ADD_WATCH, std::move(path));
        ask.watch(recursive ? CONCLAVE_WATCH_RECURSIVE : CONCLAVE_WATCH_PERSISTENT);
        bool set = false;
        detail::run<detail::nothing>(
            sink(), "watch",
            [&](detail::nothing &) -> int {
                if (!keep) {
                    return CONCLAVE_ECLOSED;
                }
                state->self = state;
                int error = ask.submit(conclave::watch::state::call, state.get(),
                                       [&](const conclave_op *op) {
                                           return conclave_call(keep->client(), op, nullptr);
                                       });
                set = error == 0;
                if (!set) {
                    state->self.reset();
                }
                return error;
            },
            nullptr, std::forward<S>(style)...);
        return set ? conclave::watch(std::move(state)) : conclave::watch();
    }

    /* --- the program's own loop (option threads = false) --- */

    /* Poll fd for reading; call dispatch then, and when timeout has passed (negative: none). */
    int fd() const noexcept
    {
        return session_ ? conclave_client_fd(session_->client()) : -1;
    }
    time_span timeout() const noexcept
    {
        return milliseconds(session_ ? conclave_client_timeout_ms(session_->client()) : -1);
    }
    /* Does the work that is due, callbacks included; false: the client is closed. */
    bool dispatch() const noexcept
    {
        const auto keep = session_;
        return keep && conclave_client_dispatch(keep->client()) != CONCLAVE_ECLOSED;
    }

    /* --- for functions that are not here; do not close them --- */

    conclave_client *native() const noexcept
    {
        return session_ ? session_->client() : nullptr;
    }
    conclave_recipes *native_recipes() const noexcept
    {
        return session_ ? session_->recipes() : nullptr;
    }
    /* For the handles. */
    const std::shared_ptr<detail::session> &shared() const noexcept
    {
        return session_;
    }

  private:
    friend class lease;

    /* On the session of a lease. */
    explicit client(std::shared_ptr<detail::session> session) noexcept
        : session_(std::move(session))
    {
    }

    std::shared_ptr<detail::session> open() const
    {
        const client_options &o = *options_;
        detail::raw_client_options raw(o);
        auto errors = std::make_shared<detail::sink>();
        errors->handler = o.on_exception;
        return raw.explained([&] {
            return std::make_shared<detail::session>(raw.get(), o.threads, std::move(errors),
                                                     o.on_state, detail::log_function(o),
                                                     o.on_span);
        });
    }

    /* The session ends, whoever uses it. */
    void end() noexcept
    {
        close();
        reset();
    }

    void reset() noexcept
    {
        if (session_) {
            session_->states().shut();
            session_->drain();
            session_.reset();
        }
    }

    const std::shared_ptr<const detail::sink> &sink() const noexcept
    {
        return session_ ? session_->errors() : detail::no_sink();
    }

    template <class T, class... S>
    decltype(auto) read(const char *what, conclave_op_type type, std::string path,
                        read_options options, S &&...style) const
    {
        detail::request ask(type, std::move(path));
        ask.read(options);
        return send<T>(what, type, std::move(ask), std::move(options.watch),
                       std::forward<S>(style)...);
    }

    static detail::one_shot *arm(const std::shared_ptr<detail::session> &keep,
                                 const watch_function &fn)
    {
        return fn ? new detail::one_shot{keep->errors(), fn} : nullptr;
    }

    template <class T, class... S>
    decltype(auto) send(const char *what, conclave_op_type type, detail::request ask,
                        watch_function watch, S &&...style) const
    {
        auto shared = std::make_shared<std::pair<detail::request, watch_function>>(
            std::move(ask), std::move(watch));
        return detail::run<T>(
            sink(), what,
            [keep = session_, shared, type](T &value) -> int {
                if (!keep) {
                    return CONCLAVE_ECLOSED;
                }
                detail::one_shot *armed = arm(keep, shared->second);
                conclave_reply *answer = nullptr;
                int error =
                    shared->first.submit(armed != nullptr ? detail::one_shot::call : nullptr, armed,
                                         [&](const conclave_op *op) {
                                             return conclave_call(keep->client(), op, &answer);
                                         });
                detail::reply_ptr reply(answer);
                detail::one_shot::answered(armed, type, error);
                return reply ? detail::take(*reply, value) : error;
            },
            [keep = session_, shared, type](detail::completion<T> *to) -> int {
                if (!keep) {
                    return CONCLAVE_ECLOSED;
                }
                std::unique_ptr<detail::one_shot> armed(arm(keep, shared->second));
                auto sent = std::make_unique<detail::submitted<T>>(
                    detail::submitted<T>{to, armed.get(), type});
                int error = shared->first.submit(armed ? detail::one_shot::call : nullptr,
                                                 armed.get(), [&](const conclave_op *op) {
                                                     return conclave_submit(
                                                         keep->client(), op,
                                                         detail::submitted<T>::call, sent.get());
                                                 });
                if (error == 0) {
                    (void)sent.release(); /* the answer deletes both */
                    (void)armed.release();
                }
                return error;
            },
            std::forward<S>(style)...);
    }

    std::unique_ptr<client_options> options_;
    std::shared_ptr<detail::session> session_;
};

namespace detail
{

/* Calls call(conclave_recipes *, T &) of a client. */
template <class T, class Call, class... S>
result_t<T> run_on(const client &client, const char *what, Call &&call, S &&...style)
{
    const auto keep = client.shared();
    return run<T>(
        keep ? keep->errors() : no_sink(), what,
        [&](T &value) {
            return keep ? call(keep->recipes(), value) : static_cast<int>(CONCLAVE_ECLOSED);
        },
        nullptr, std::forward<S>(style)...);
}

/* Takes a list of the C interface. call: int(L **ret, size_t *ret_count). */
template <class Out, class Call, class L, class Convert>
int collect(std::vector<Out> &value, Call &&call, void (*release)(L *, size_t), Convert convert)
{
    L *list = nullptr;
    size_t count = 0;
    int error = call(&list, &count);
    try {
        for (size_t i = 0; list != nullptr && i < count; i++) {
            value.push_back(convert(nth(list, i)));
        }
    } catch (...) {
        error = CONCLAVE_ENOMEM;
    }
    if (list != nullptr) {
        release(list, count);
    }
    return error;
}

/* The same of a function that asks the servers: int(conclave_recipes *, L **ret, size_t *ret_count). */
template <class Out, class Call, class L, class Convert, class... S>
std::vector<Out> run_list(const client &client, const char *what, Call &&call,
                          void (*release)(L *, size_t), Convert convert, S &&...style)
{
    const auto keep = client.shared();
    return run<std::vector<Out>>(
        no_sink(), what,
        [&](std::vector<Out> &value) -> int {
            return keep ? collect(
                              value,
                              [&](L **list, size_t *count) {
                                  return call(keep->recipes(), list, count);
                              },
                              release, convert)
                        : static_cast<int>(CONCLAVE_ECLOSED);
        },
        nullptr, std::forward<S>(style)...);
}

/* A transaction of a holder. call: int(const conclave_op *parts, size_t count, conclave_reply **ret). */
template <class Call>
int call_fenced(const transaction &changes, std::vector<part_result> &value, Call &&call)
{
    conclave_reply *answer = nullptr;
    int error = changes.request().submit_parts(
        [&](const conclave_op *parts, size_t count) { return call(parts, count, &answer); });
    reply_ptr reply(answer);
    if (reply) {
        int taken = take(*reply, value);
        error = error != 0 ? error : taken;
    }
    return error;
}

} // namespace detail

} // namespace conclave

#endif
