/*
 * A client to derive from: events are virtual functions, watches stay set, and the session can be created again on
 * the same object, with the same or with other servers.
 *
 *     class program : public conclave::client_base
 *     {
 *         void on_event(const conclave::event &e) override { ... }
 *       public:
 *         ~program() override { close_session(); }
 *     };
 *
 * The most derived class calls close_session in its destructor, so that no event reaches an object that is half
 * destroyed. The virtual functions are called one at a time, by a thread of the library; they must not call functions
 * that wait.
 */
#ifndef CONCLAVE_CPP_CLIENT_BASE_HPP
#define CONCLAVE_CPP_CLIENT_BASE_HPP

#include <conclave/cpp/election.hpp>

#include <map>

namespace conclave
{

class client_base
{
  public:
    client_base() = default;
    client_base(const client_base &) = delete;
    client_base &operator=(const client_base &) = delete;
    virtual ~client_base()
    {
        close_session();
    }

    /* Begins a session; on_connected says when a server has it. Ends an earlier one first. on_state, on_log and
     * on_exception of the options are replaced by the virtual functions. */
    void create_session(client_options options)
    {
        close_session();
        options.on_state = [this](conclave_state state) { dispatch(state); };
        options.on_log = [this](const log_line &line) { on_log(line); };
        options.on_exception = [this](std::exception_ptr e, const char *where) {
            on_exception(e, where);
        };
        client_ = conclave::client(std::move(options));
    }
    void create_session(std::string servers, time_span session_timeout = milliseconds(10000))
    {
        client_options options;
        options.servers = std::move(servers);
        options.session_timeout = session_timeout;
        create_session(std::move(options));
    }

    /* Ends the session, its recipes and its watches, and creates it again. Not in a virtual function. */
    void recreate_session()
    {
        drop();
        client_.recreate();
    }
    void recreate_session(std::string servers)
    {
        drop();
        client_.recreate(std::move(servers));
    }

    void close_session() noexcept
    {
        drop();
        client_.close();
        client_ = conclave::client();
    }

    /* Requests, and the questions connected, connecting, expired, auth_failed, connected_host, session_timeout,
     * servers, ... */
    const conclave::client &client() const noexcept
    {
        return client_;
    }

    /* The data of a node. keep_watch: on_event reports all its changes from now on. While two threads ask for a node for
     * the first time, an event of it may be reported twice. */
    std::string get_data(const std::string &path, bool keep_watch = true)
    {
        keep(path, keep_watch);
        return client_.get(path).data;
    }
    /* The names of its children; keep_watch as above. */
    std::vector<std::string> get_children(const std::string &path, bool keep_watch = true)
    {
        keep(path, keep_watch);
        return client_.children(path).names;
    }
    /* on_event reports the path no longer. */
    void unwatch(const std::string &path)
    {
        watch gone; /* is removed without the lock: that may wait for a running on_event */
        std::lock_guard<std::mutex> hold(lock_);
        auto found = watches_.find(path);
        if (found != watches_.end()) {
            gone = std::move(found->second);
            watches_.erase(found);
        }
    }

    /* Tries once to become the master of one node: an ephemeral node at path with this data, which the other
     * programs race for, too. true: this program is the master, since `delay` ago if another one was master before
     * (time for that to stop). false: CONCLAVE_EBUSY, there is a master already (find_master has its data); or why it
     * could not try. Not in a virtual function. */
    bool race_master(const std::string &path, const std::string &data, std::error_code &ec,
                     time_span delay = {}, acl_list acl = {})
    {
        resign_master(path);
        election_options options;
        options.path = path;
        options.data = data;
        options.naming = CONCLAVE_NAMING_FIXED;
        options.takeover_delay = delay;
        options.requeue = false;
        options.acl = std::move(acl);
        options.on_revoked = [this, path](election &, std::error_code why, milliseconds within) {
            on_master_lost(path, why, within);
        };
        election won = election::race(client_, std::move(options), nullptr, forever, ec);
        if (won) {
            std::lock_guard<std::mutex> hold(lock_);
            std::swap(masters_[path], won); /* one of another thread ends without the lock */
        }
        return !ec;
    }
    /* Whether it is the master now: the lease is checked against the clock at this moment. */
    bool is_master(const std::string &path)
    {
        return static_cast<bool>(master_token(path));
    }
    /* For the storage: larger than that of every earlier master. */
    token master_token(const std::string &path)
    {
        std::lock_guard<std::mutex> hold(lock_);
        auto found = masters_.find(path);
        return found != masters_.end() ? found->second.token() : token();
    }
    /* Is the master no longer; on_master_lost is called before it returns. */
    void resign_master(const std::string &path)
    {
        election gone; /* ends without the lock: its callback may ask */
        std::lock_guard<std::mutex> hold(lock_);
        auto found = masters_.find(path);
        if (found != masters_.end()) {
            gone = std::move(found->second);
            masters_.erase(found);
        }
    }
    /* The data of the present master, of any library; empty: there is none. */
    std::optional<std::string> find_master(const std::string &path) const
    {
        const auto leader = election::find_leader(client_, path);
        return leader ? std::optional<std::string>(leader->data) : std::nullopt;
    }

  protected:
    /* It is the master no longer: stop within this time. */
    virtual void on_master_lost(const std::string &, std::error_code, milliseconds)
    {
    }
    /* The session is there: the first, the same again after a lost link, or a new one after a loss. */
    virtual void on_connected()
    {
    }
    /* No link: the session may still live. */
    virtual void on_connecting()
    {
    }
    /* The session has ended, with its ephemeral nodes. A new one follows unless options.new_session is false. */
    virtual void on_expired()
    {
    }
    virtual void on_auth_failed()
    {
    }
    /* Every change of state, before the functions above. */
    virtual void on_state(conclave_state)
    {
    }
    /* A change of a watched node. CONCLAVE_EVENT_RESUMED: some may have been missed. */
    virtual void on_event(const event &)
    {
    }
    /* A line of the client's log, of options.log_level or more weight. */
    virtual void on_log(const log_line &)
    {
    }
    /* An exception that left a function of the program in a callback. */
    virtual void on_exception(std::exception_ptr exception, const char *where)
    {
        try {
            std::rethrow_exception(exception);
        } catch (...) {
            detail::no_sink()->caught(where);
        }
    }

  private:
    void dispatch(conclave_state state)
    {
        on_state(state);
        switch (state) {
        case CONCLAVE_STATE_CONNECTED:
        case CONCLAVE_STATE_RECONNECTED:
        case CONCLAVE_STATE_NEW_SESSION:
            on_connected();
            break;
        case CONCLAVE_STATE_CONNECTING:
        case CONCLAVE_STATE_SUSPENDED:
            on_connecting();
            break;
        case CONCLAVE_STATE_LOST:
            on_expired();
            break;
        case CONCLAVE_STATE_AUTH_FAILED:
            on_auth_failed();
            break;
        default:
            break;
        }
    }

    void keep(const std::string &path, bool wanted)
    {
        if (!wanted || is_watched(path)) {
            return;
        }
        /* Waits for the servers without the lock: meanwhile a virtual function may ask for it. */
        watch made = client_.watch(path, [this](const event &e) { on_event(e); });
        std::lock_guard<std::mutex> hold(lock_);
        watch &there = watches_[path];
        if (!there.active()) {
            std::swap(there, made);
        }
    }

    bool is_watched(const std::string &path)
    {
        std::lock_guard<std::mutex> hold(lock_);
        const auto found = watches_.find(path);
        return found != watches_.end() && found->second.active();
    }

    /* All that belongs to the session. */
    void drop() noexcept
    {
        std::map<std::string, watch> watches;
        std::map<std::string, election> masters;
        std::lock_guard<std::mutex> hold(lock_);
        watches.swap(watches_);
        masters.swap(masters_);
    }

    conclave::client client_;
    std::mutex lock_;
    std::map<std::string, watch> watches_;
    std::map<std::string, election> masters_;
};

} // namespace conclave

#endif
