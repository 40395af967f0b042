/*
 * Active/standby with fencing in C++ (conclave/elector.h), and what operators ask of it (conclave/elector_admin.h,
 * conclave/hadoop.h).
 *
 *     conclave::elector_options options;
 *     options.dir = "/db";
 *     options.activate = [](conclave::elector &, conclave::token) { start_service(); };
 *     options.deactivate = [](auto &, std::error_code, std::chrono::milliseconds) { stop_service(); };
 *     conclave::elector elector(client, options);
 *
 *     conclave::elector::hand_over(client, "/db", "node2", std::chrono::seconds(30));    from anywhere
 */
#ifndef CONCLAVE_CPP_ELECTOR_HPP
#define CONCLAVE_CPP_ELECTOR_HPP

#include <conclave/cpp/client.hpp>
#include <conclave/cpp/hand_over.hpp>

#include <conclave/elector.h>
#include <conclave/hadoop.h>

namespace conclave
{

/* A member in the breadcrumb, as struct conclave_breadcrumb. */
struct breadcrumb {
    std::string id;
    std::string incarnation;
    conclave::token token{};
    bool clean = false;
    std::string data;
};

class elector;

/* As struct conclave_elector_options and its callbacks. An exception of activate, deactivate or fence counts as a
 * failure: not active; not certainly stopped; not fenced. */
struct elector_options {
    std::string dir{};
    std::string id{};
    std::string data{};
    std::function<void(elector &, token)> activate{};
    std::function<void(elector &, std::error_code why, milliseconds stop_within)> deactivate{};
    /* In a thread of its own. Without it nothing can be fenced. */
    std::function<void(elector &, const breadcrumb &old, token mine)> fence{};
    std::function<void(elector &, enum conclave_elector_state, const std::string &reason)>
        on_state{};
    std::function<void(elector &, std::error_code why)> on_closed{};
    std::string incarnation{};
    conclave_elector_layout layout = CONCLAVE_ELECTOR_LAYOUT_NATIVE;
    bool herd_free = false;
    conclave_health health = CONCLAVE_HEALTH_HEALTHY;
    lease_options lease{};
    time_span backoff_min{milliseconds(1000)};
    time_span backoff_max{milliseconds(30000)};
    acl_list acl{};
    bool listed = false;        /* shown to others in <dir>/members; hand-overs need it */
    bool observer = false;      /* starts as an observer */
    bool reports_ready = false; /* listed as ready from ready() on, not from activate on */
};

/* A member with the option `listed`, as struct conclave_elector_member. */
struct elector_member {
    std::string id;
    bool observer = false;
    enum conclave_elector_state state = CONCLAVE_ELECTOR_INIT;
    conclave_health health = CONCLAVE_HEALTH_INITIALIZING;
    conclave::token token{}; /* while it is active */
    bool ready = false;
    std::string data;
    int64_t session_id = 0;
};

/* As struct conclave_elector_parent_options. */
struct elector_parent_options {
    acl_list acl{};       /* of dir and of what is made above it; empty: the client's */
    bool set_acl = false; /* sets acl on nodes that are there, too */
    bool force = false;   /* parent_reset: also while a member is active, or may be */
};

/* The content of the elector's folder, as struct conclave_elector_view. */
struct elector_view {
    std::optional<breadcrumb> lock; /* of the member that has the lock */
    int64_t lock_session = 0;
    std::optional<breadcrumb> active;
};

namespace detail
{

using elector_binding = binding<conclave_elector, conclave_elector_close,
                                conclave_elector_close_wait, conclave_elector_destroy>;

inline breadcrumb to_breadcrumb(const conclave_breadcrumb &raw)
{
    breadcrumb made;
    made.id = text(raw.id);
    made.incarnation = text(raw.incarnation);
    made.token = raw.token;
    made.clean = raw.clean;
    made.data = bytes(raw.data, raw.data_len);
    return made;
}

inline elector_member to_elector_member(const struct conclave_elector_member &raw)
{
    elector_member made;
    made.id = text(raw.id);
    made.observer = raw.observer;
    made.state = raw.state;
    made.health = raw.health;
    made.token = raw.token;
    made.ready = raw.ready;
    made.data = bytes(raw.data, raw.data_len);
    made.session_id = raw.session_id;
    return made;
}

} // namespace detail

class elector : public detail::basic_handle<elector, elector_options, detail::elector_binding>
{
  public:
    using basic_handle::basic_handle;
    elector() noexcept = default;

    elector(const client &client, elector_options options)
        : basic_handle(
              client.shared(), std::move(options), "elector",
              [](detail::handle_state<elector, elector_options, detail::elector_binding> &s,
                 void *ctx, conclave_elector **ret) { return open(s, ctx, ret); })
    {
    }

    bool active() const noexcept
    {
        return ask_raw(false, conclave_elector_is_active);
    }
    conclave::token token() const noexcept
    {
        return ask_raw(conclave_token{}, conclave_elector_token);
    }
    milliseconds lease_left() const noexcept
    {
        return milliseconds(ask_raw(int64_t(0), conclave_elector_lease_left_ms));
    }
    int64_t lease_until_ns() const noexcept
    {
        return ask_raw(int64_t(0), conclave_elector_lease_until_ns);
    }
    enum conclave_elector_state status() const noexcept
    {
        return ask_raw(CONCLAVE_ELECTOR_NEUTRAL,
                       [](conclave_elector *there) { return conclave_elector_state(there); });
    }
    void set_health(conclave_health health) noexcept
    {
        if (conclave_elector *there = native()) {
            conclave_elector_set_health(there, health);
        }
    }

    /* Steps down cleanly and stays out for this time. Asynchronous. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void cede(time_span stay_out, S &&...style)
    {
        run<detail::nothing>(
            "cede",
            [=](conclave_elector *there, detail::nothing &) {
                return conclave_elector_cede(there, stay_out.count());
            },
            nullptr, std::forward<S>(style)...);
    }

    /* true: becomes an observer, which never competes; false: competes again. Asynchronous. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void observe(bool observer, S &&...style)
    {
        run<detail::nothing>(
            "observe",
            [=](conclave_elector *there, detail::nothing &) {
                return conclave_elector_observe(there, observer);
            },
            nullptr, std::forward<S>(style)...);
    }

    /* With reports_ready: the service is ready in its present time as active. */
    void ready() noexcept
    {
        if (conclave_elector *there = native()) {
            conclave_elector_ready(there);
        }
    }

    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    std::vector<part_result> fenced(const transaction &changes, S &&...style)
    {
        return run<std::vector<part_result>>(
            "fenced",
            [&](conclave_elector *there, std::vector<part_result> &value) {
                return detail::call_fenced(
                    changes, value,
                    [&](const conclave_op *parts, size_t count, conclave_reply **ret) {
                        return conclave_elector_fenced_multi(there, parts, count, ret);
                    });
            },
            nullptr, std::forward<S>(style)...);
    }

    /* --- for operators, who need not take part (conclave/elector_admin.h) --- */

    /* The content of dir. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static elector_view view(const client &client, const std::string &dir,
                             time_span timeout = forever, S &&...style)
    {
        return detail::run_on<elector_view>(
            client, "view",
            [&](conclave_recipes *recipes, elector_view &value) {
                struct conclave_elector_view *raw = nullptr;
                const int error =
                    conclave_elector_view(recipes, dir.c_str(), detail::wait_ms(timeout), &raw);
                const std::unique_ptr<struct conclave_elector_view,
                                      void (*)(struct conclave_elector_view *)>
                    held(raw, conclave_elector_view_free);
                if (error == 0) {
                    value.lock_session = raw->lock_session;
                    if (raw->lock != nullptr) {
                        value.lock = detail::to_breadcrumb(*raw->lock);
                    }
                    if (raw->active != nullptr) {
                        value.active = detail::to_breadcrumb(*raw->active);
                    }
                }
                return error;
            },
            std::forward<S>(style)...);
    }

    /* A listed member by its id; empty: it is not there. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static std::optional<elector_member> member(const client &client, const std::string &dir,
                                                const std::string &id, time_span timeout = forever,
                                                S &&...style)
    {
        return detail::run_on<std::optional<elector_member>>(
            client, "member",
            [&](conclave_recipes *recipes, std::optional<elector_member> &value) {
                std::vector<elector_member> found;
                const int error = detail::collect(
                    found,
                    [&](struct conclave_elector_member ***list, size_t *count) {
                        const int why = conclave_elector_member(recipes, dir.c_str(), id.c_str(),
                                                                detail::wait_ms(timeout), list);
                        *count = why == 0 ? 1 : 0;
                        return why;
                    },
                    conclave_elector_members_free, detail::to_elector_member);
                if (!found.empty()) {
                    value = std::move(found.front());
                }
                return error == CONCLAVE_NO_NODE ? 0 : error;
            },
            std::forward<S>(style)...);
    }

    /* All listed members, ordered by id. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static std::vector<elector_member> members(const client &client, const std::string &dir,
                                               time_span timeout = forever, S &&...style)
    {
        return detail::run_list<elector_member>(
            client, "members",
            [&](conclave_recipes *recipes, auto **list, size_t *count) {
                return conclave_elector_members(recipes, dir.c_str(), detail::wait_ms(timeout),
                                                list, count);
            },
            conclave_elector_members_free, detail::to_elector_member, std::forward<S>(style)...);
    }

    /* Makes a listed member active in place of the present one (conclave_elector_hand_over). Not done: CONCLAVE_ECANCELED,
     * and the text of the exception names the outcome; with a std::error_code the result has it. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static hand_over_result hand_over(const client &client, const std::string &dir,
                                      const std::string &id, time_span timeout, S &&...style)
    {
        return detail::run_hand_over(conclave_elector_hand_over, client, dir, id, timeout,
                                     std::forward<S>(style)...);
    }

    /* Confirms that the member with this token is dead: the next one becomes active without fencing it. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static void override_dead(const client &client, const std::string &dir, conclave::token token,
                              const acl_list &entries = {}, time_span timeout = forever,
                              S &&...style)
    {
        detail::run_on<detail::nothing>(
            client, "override_dead",
            [&](conclave_recipes *recipes, detail::nothing &) {
                const detail::raw_acl acl(entries);
                conclave_elector_options o{};
                acl.put(o);
                return conclave_elector_override(recipes, dir.c_str(), token.native(), o.acl,
                                                 o.acl_count, detail::wait_ms(timeout));
            },
            std::forward<S>(style)...);
    }

    /* Whether dir exists. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static bool parent_exists(const client &client, const std::string &dir,
                              time_span timeout = forever, S &&...style)
    {
        return detail::run_on<bool>(
            client, "parent_exists",
            [&](conclave_recipes *recipes, bool &value) {
                return conclave_elector_parent_exists(recipes, dir.c_str(),
                                                      detail::wait_ms(timeout), &value);
            },
            std::forward<S>(style)...);
    }

    /* Makes dir, and what is missing above it. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static void parent_make(const client &client, const std::string &dir,
                            const elector_parent_options &options = {}, time_span timeout = forever,
                            S &&...style)
    {
        on_parent(client, "parent_make", conclave_elector_parent_make, dir, options, timeout,
                  std::forward<S>(style)...);
    }

    /* Deletes dir with all that is below it, and makes it again (conclave_elector_reset). */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static void parent_reset(const client &client, const std::string &dir,
                             const elector_parent_options &options = {},
                             time_span timeout = forever, S &&...style)
    {
        on_parent(client, "parent_reset", conclave_elector_reset, dir, options, timeout,
                  std::forward<S>(style)...);
    }

  private:
    using its_state = basic_handle::state;

    template <class... S>
    static void on_parent(const client &client, const char *what,
                          int (*f)(conclave_recipes *, const char *,
                                   const conclave_elector_parent_options *, int64_t),
                          const std::string &dir, const elector_parent_options &options,
                          time_span timeout, S &&...style)
    {
        detail::run_on<detail::nothing>(
            client, what,
            [&](conclave_recipes *recipes, detail::nothing &) {
                const detail::raw_acl acl(options.acl);
                conclave_elector_parent_options raw = CONCLAVE_ELECTOR_PARENT_OPTIONS_INIT;
                raw.set_acl = options.set_acl;
                raw.force = options.force;
                acl.put(raw);
                return f(recipes, dir.c_str(), &raw, detail::wait_ms(timeout));
            },
            std::forward<S>(style)...);
    }

    static int open(its_state &s, void *ctx, conclave_elector **ret)
    {
        const elector_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_elector_options raw = CONCLAVE_ELECTOR_OPTIONS_INIT;
        raw.dir = o.dir.c_str();
        raw.id = detail::or_null(o.id);
        raw.incarnation = detail::or_null(o.incarnation);
        raw.data = o.data.data();
        raw.data_len = o.data.size();
        raw.layout = o.layout;
        raw.herd_free = o.herd_free;
        raw.health = o.health;
        raw.lease = detail::to_raw(o.lease);
        raw.backoff_min_ms = o.backoff_min.count();
        raw.backoff_max_ms = o.backoff_max.count();
        raw.listed = o.listed;
        raw.observer = o.observer;
        raw.reports_ready = o.reports_ready;
        acl.put(raw);
        auto calls = detail::sized<conclave_elector_callbacks>(0);
        calls.activate = [](conclave_elector *there, conclave_token token, void *self) {
            return its_state::ask(there, self, "activate", [&](its_state &its, elector &view) {
                if (its.options.activate) {
                    its.options.activate(view, token);
                }
            });
        };
        calls.deactivate = [](conclave_elector *there, int why, int64_t stop_within_ms,
                              void *self) {
            return its_state::ask(there, self, "deactivate", [&](its_state &its, elector &view) {
                if (its.options.deactivate) {
                    its.options.deactivate(view, detail::to_code(why),
                                           milliseconds(stop_within_ms));
                }
            });
        };
        if (o.fence) {
            calls.fence = [](conclave_elector *there, const conclave_breadcrumb *old,
                             conclave_token mine, void *self) {
                return its_state::ask(there, self, "fence", [&](its_state &its, elector &view) {
                    its.options.fence(view, detail::to_breadcrumb(*old), mine);
                });
            };
        }
        calls.on_state = [](conclave_elector *there, enum conclave_elector_state now,
                            const char *reason, void *self) {
            its_state::enter(there, self, "on_state", [&](its_state &its, elector &view) {
                if (its.options.on_state) {
                    its.options.on_state(view, now, detail::text(reason));
                }
            });
        };
        calls.on_closed = its_state::on_closed;
        return conclave_elector_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

/* --- members of Hadoop --------------------------------------------------------------------- */

/* A member in Hadoop's layout, as struct conclave_hadoop_node. */
struct hadoop_node {
    conclave_hadoop_kind kind = CONCLAVE_HADOOP_HDFS;
    std::string service{}; /* HDFS: the nameservice; YARN: the cluster's id */
    std::string id{};
    std::string host{}; /* these three: HDFS */
    int32_t port = 0;
    int32_t zkfc_port = 8019;

    /* The message for elector_options::data. */
    std::string message() const
    {
        conclave_hadoop_node raw = CONCLAVE_HADOOP_NODE_INIT;
        raw.kind = kind;
        raw.service = service.c_str();
        raw.id = id.c_str();
        raw.host = host.c_str();
        raw.port = port;
        raw.zkfc_port = zkfc_port;
        std::string made(service.size() + id.size() + host.size() + 64, '\0');
        size_t len = 0;
        detail::check(conclave_hadoop_node_write(&raw, made.data(), made.size(), &len),
                      "hadoop_node");
        made.resize(len);
        return made;
    }

    /* Reads the data of a breadcrumb or member. CONCLAVE_EFOREIGN: not Hadoop's. */
    static hadoop_node read(std::string_view message)
    {
        conclave_hadoop_node *raw = nullptr;
        detail::check(conclave_hadoop_node_read(message.data(), message.size(), &raw),
                      "hadoop_node");
        const std::unique_ptr<conclave_hadoop_node, void (*)(conclave_hadoop_node *)> held(
            raw, conclave_hadoop_node_free);
        return {raw->kind, raw->service, raw->id, raw->host, raw->port, raw->zkfc_port};
    }
};

} // namespace conclave

#endif
