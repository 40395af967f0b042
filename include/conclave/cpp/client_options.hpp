/*
 * The options of a client in C++ (conclave/client_options.h).
 */
#ifndef CONCLAVE_CPP_CLIENT_OPTIONS_HPP
#define CONCLAVE_CPP_CLIENT_OPTIONS_HPP

#include <conclave/cpp/session.hpp>

#include <optional>

namespace conclave
{

/* As struct conclave_tls_options. */
struct tls_options {
    std::string ca_file{};
    std::string ca_password{};
    std::string cert_file{};
    std::string key_file{};
    std::string key_password{};
    std::string server_name{};
    conclave_tls_verify verify = CONCLAVE_TLS_VERIFY_FULL;
};

/* As struct conclave_sasl_options. */
struct sasl_options {
    std::string mechanism{};
    std::string user{};
    std::string password{};
    std::string password_file{};
    std::string service{};
    std::string host{};
};

/* The id and password of a session that the client continues. */
struct session_key {
    int64_t id = 0;
    std::array<uint8_t, 16> passwd{};
};

/* As struct conclave_retry_options. */
struct retry_options {
    uint32_t max_repeats = 10;
    time_span pause_min{milliseconds(50)};
    time_span pause_max{milliseconds(2000)};
};

/* As struct conclave_client_options. */
struct client_options {
    std::string
        servers{}; /* "host:port,host:port/chroot"; empty: $CONCLAVE_SERVER, 127.0.0.1:2181 */
    time_span session_timeout{milliseconds(10000)};
    time_span request_timeout = forever;
    std::function<void(conclave_state)> on_state{};
    exception_handler on_exception{}; /* empty: a line on stderr */
    bool new_session = true;          /* after a loss */
    bool exactly_once = false;
    bool read_only = false;
    bool threads = true; /* false: the program calls client::dispatch */
    acl_list acl{};      /* of nodes made without one; empty: open */
    std::optional<tls_options> tls{};
    std::optional<sasl_options> sasl{};
    std::optional<session_key> session{};
    size_t max_request = 0;
    size_t max_reply = 0;
    size_t max_requests = 0;
    /* The client's log: to a function, or else to a stream, a line each, which must live as long as the session. */
    std::function<void(const log_line &)> on_log{};
    std::ostream *log_stream = nullptr;
    std::function<void(const conclave_span &)>
        on_span{}; /* a span of each request: conclave/span.h */
    conclave_log_level log_level = CONCLAVE_LOG_INFO;
    std::optional<retry_options> retry{}; /* how requests are repeated; empty: not at all */
    time_span connect_timeout{};          /* these three: 0: the library's */
    time_span reconnect_min{};
    time_span reconnect_max{};
    bool follow_ensemble = false; /* use the servers of /zookeeper/config when they change */
};

namespace detail
{

/* The C form of a client's options; lives at most as long as they do. */
class raw_client_options
{
  public:
    explicit raw_client_options(const client_options &o) : acl_(o.acl)
    {
        raw_.servers = or_null(o.servers);
        raw_.session_timeout_ms = o.session_timeout.count();
        raw_.request_timeout_ms = option_ms(o.request_timeout);
        raw_.new_session = o.new_session;
        raw_.exactly_once = o.exactly_once;
        raw_.read_only = o.read_only;
        raw_.max_request = o.max_request;
        raw_.max_reply = o.max_reply;
        raw_.max_requests = o.max_requests;
        raw_.log_level = o.log_level;
        raw_.connect_timeout_ms = o.connect_timeout.count();
        raw_.reconnect_min_ms = o.reconnect_min.count();
        raw_.reconnect_max_ms = o.reconnect_max.count();
        raw_.follow_ensemble = o.follow_ensemble;
        raw_.error = why_.data();
        raw_.error_len = why_.size();
        acl_.put(raw_);
        if (o.retry) {
            retry_.max_repeats = o.retry->max_repeats;
            retry_.pause_min_ms = o.retry->pause_min.count();
            retry_.pause_max_ms = o.retry->pause_max.count();
            raw_.retry = &retry_;
        }
        if (o.session) {
            raw_.session_id = o.session->id;
            raw_.passwd = o.session->passwd.data();
        }
        if (o.tls) {
            put(*o.tls);
        }
        if (o.sasl) {
            put(*o.sasl);
        }
    }

    raw_client_options(const raw_client_options &) = delete;
    raw_client_options &operator=(const raw_client_options &) = delete;

    const conclave_client_options &get() const noexcept
    {
        return raw_;
    }

    /* Calls open; an error that is about an option names it. */
    template <class Open> auto explained(Open &&open) const
    {
        try {
            return open();
        } catch (const conclave::error &e) {
            if (why_[0] == '\0') {
                throw;
            }
            throw conclave::error(e.code().value(), why_.data());
        }
    }

  private:
    void put(const tls_options &o)
    {
        tls_.ca_file = or_null(o.ca_file);
        tls_.ca_password = or_null(o.ca_password);
        tls_.cert_file = or_null(o.cert_file);
        tls_.key_file = or_null(o.key_file);
        tls_.key_password = or_null(o.key_password);
        tls_.server_name = or_null(o.server_name);
        tls_.verify = o.verify;
        raw_.tls = &tls_;
    }

    void put(const sasl_options &o)
    {
        sasl_.mechanism = or_null(o.mechanism);
        sasl_.user = or_null(o.user);
        sasl_.password = or_null(o.password);
        sasl_.password_file = or_null(o.password_file);
        sasl_.service = or_null(o.service);
        sasl_.host = or_null(o.host);
        raw_.sasl = &sasl_;
    }

    const raw_acl acl_;
    std::array<char, 256> why_{};
    conclave_tls_options tls_ = CONCLAVE_TLS_OPTIONS_INIT;
    conclave_sasl_options sasl_ = CONCLAVE_SASL_OPTIONS_INIT;
    conclave_retry_options retry_ = CONCLAVE_RETRY_OPTIONS_INIT;
    conclave_client_options raw_ = CONCLAVE_CLIENT_OPTIONS_INIT;
};

/* Where the lines of a client's log go; empty: nowhere. */
inline std::function<void(const log_line &)> log_function(const client_options &o)
{
    if (!o.on_log && o.log_stream != nullptr) {
        return [to = o.log_stream](const log_line &line) { *to << line << std::endl; };
    }
    return o.on_log;
}

} // namespace detail

} // namespace conclave

#endif
