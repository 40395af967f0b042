/*
 * Groups, the registry of services, and barriers in C++ (conclave/group.h, registry.h, barrier.h).
 */
#ifndef CONCLAVE_CPP_GROUP_HPP
#define CONCLAVE_CPP_GROUP_HPP

#include <conclave/cpp/client.hpp>

#include <conclave/barrier.h>
#include <conclave/group.h>
#include <conclave/registry.h>

#include <cstdlib>

namespace conclave
{

/* --- group --------------------------------------------------------------------------------- */

/* As struct conclave_member. */
struct member {
    std::string id;
    std::string data;
    int64_t session_id = 0;
    int64_t mzxid = 0;
    bool self = false;
    conclave::token token{}; /* another one is another life of the member */
};

struct member_view {
    std::vector<member> members; /* ordered by id */
    int64_t zxid = 0;
    bool stale = false; /* no link: it may have changed meanwhile */
};

class group;

/* As struct conclave_group_options and its callbacks. */
struct group_options {
    std::string path{};
    std::string id{}; /* empty: an observer, no member */
    std::string data{};
    std::function<void(group &, conclave_group_event, const member &)> on_change{};
    std::function<void(group &, const member_view &)> on_view{};
    std::function<void(group &, enum conclave_membership)> on_membership{};
    std::function<void(group &, std::error_code why)> on_closed{};
    std::string incarnation{};
    time_span debounce{};
    acl_list acl{};
};

namespace detail
{

using group_binding = binding<conclave_group, conclave_group_close, conclave_group_close_wait,
                              conclave_group_destroy>;

inline member to_member(const conclave_member &raw)
{
    member made;
    made.id = text(raw.id);
    made.data = bytes(raw.data, raw.data_len);
    made.session_id = raw.session_id;
    made.mzxid = raw.mzxid;
    made.self = raw.self;
    made.token = raw.token;
    return made;
}

} // namespace detail

class group : public detail::basic_handle<group, group_options, detail::group_binding>
{
  public:
    using basic_handle::basic_handle;
    group() noexcept = default;

    /* Joins, or observes. Does not wait. */
    group(const client &client, group_options options)
        : basic_handle(client.shared(), std::move(options), "group",
                       [](state &s, void *ctx, conclave_group **ret) { return open(s, ctx, ret); })
    {
    }

    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void set_data(std::string_view data, S &&...style)
    {
        run<detail::nothing>(
            "set_data",
            [=](conclave_group *there, detail::nothing &) {
                return conclave_group_set_data(there, data.data(), data.size());
            },
            nullptr, std::forward<S>(style)...);
    }

    enum conclave_membership membership() const noexcept
    {
        return ask_raw(CONCLAVE_MEMBERSHIP_OUT, conclave_group_membership);
    }

    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void wait_joined(time_span timeout = forever, S &&...style) const
    {
        waited("wait_joined", conclave_group_wait_joined, timeout, std::forward<S>(style)...);
    }

    /* The present members of the group at path, without a handle. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static std::vector<member> members(const client &client, const std::string &path,
                                       time_span timeout = forever, S &&...style)
    {
        return detail::run_list<member>(
            client, "members",
            [&](conclave_recipes *recipes, auto **list, size_t *count) {
                return conclave_group_members(recipes, path.c_str(), detail::wait_ms(timeout), list,
                                              count);
            },
            conclave_members_free, detail::to_member, std::forward<S>(style)...);
    }

  private:
    static int open(state &s, void *ctx, conclave_group **ret)
    {
        const group_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_group_options raw = CONCLAVE_GROUP_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.id = detail::or_null(o.id);
        raw.data = o.data.data();
        raw.data_len = o.data.size();
        raw.incarnation = detail::or_null(o.incarnation);
        raw.debounce_ms = o.debounce.count();
        acl.put(raw);
        auto calls = detail::sized<conclave_group_callbacks>(0);
        if (o.on_change) {
            calls.on_change = [](conclave_group *there, conclave_group_event event,
                                 const conclave_member *member, void *self) {
                state::enter(there, self, "on_change", [&](state &its, group &view) {
                    its.options.on_change(view, event, detail::to_member(*member));
                });
            };
        }
        if (o.on_view) {
            calls.on_view = [](conclave_group *there, const conclave_group_view *raw_view,
                               void *self) {
                state::enter(there, self, "on_view", [&](state &its, group &view) {
                    member_view all;
                    for (size_t i = 0; i < raw_view->count; i++) {
                        all.members.push_back(detail::to_member(detail::nth(raw_view->members, i)));
                    }
                    all.zxid = raw_view->zxid;
                    all.stale = raw_view->stale;
                    its.options.on_view(view, all);
                });
            };
        }
        calls.on_membership = [](conclave_group *there, enum conclave_membership now, void *self) {
            state::enter(there, self, "on_membership", [&](state &its, group &view) {
                if (its.options.on_membership) {
                    its.options.on_membership(view, now);
                }
            });
        };
        calls.on_closed = state::on_closed;
        return conclave_group_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

/* --- registry ------------------------------------------------------------------------------ */

/* An instance of a service, as struct conclave_instance. */
struct instance {
    std::string name;
    std::string id;
    std::string address;
    int port = 0;
    int ssl_port = 0;
    std::optional<std::string> payload;
    std::chrono::system_clock::time_point registered{};
    std::string type;
    bool enabled = true;
    conclave::token token{};
    std::optional<std::string> uri_spec;
    std::string uri; /* made of uri_spec; empty without one */
};

class registration;
class discovery;

/* As struct conclave_registration_options and its callbacks. */
struct registration_options {
    std::string path{};
    std::string name{};
    std::string address{};
    int port = 0;
    std::optional<std::string> payload{};
    std::string id{}; /* empty: a random one */
    int ssl_port = 0;
    bool disabled = false;
    std::string uri_spec{};
    conclave_instance_type type = CONCLAVE_INSTANCE_DYNAMIC;
    bool keep = false; /* the end leaves the node of an instance that is not DYNAMIC */
    std::function<void(registration &, bool registered)> on_registered{};
    std::function<void(registration &, std::error_code why)> on_closed{};
    acl_list acl{};
};

/* As struct conclave_discovery_options and its callbacks. */
struct discovery_options {
    std::string path{};
    std::string name{};
    std::function<void(discovery &, const std::vector<instance> &, bool stale)> on_change{};
    std::function<void(discovery &, std::error_code why)> on_closed{};
    time_span debounce{};
    time_span down{milliseconds(30000)};
    int down_errors = 0; /* errors that make an instance left out; 0: 1 */
};

namespace detail
{

using registration_binding =
    binding<conclave_registration, conclave_registration_close, conclave_registration_close_wait,
            conclave_registration_destroy>;
using discovery_binding = binding<conclave_discovery, conclave_discovery_close,
                                  conclave_discovery_close_wait, conclave_discovery_destroy>;

inline instance to_instance(const conclave_instance &raw)
{
    instance made;
    made.name = text(raw.name);
    made.id = text(raw.id);
    made.address = text(raw.address);
    made.port = raw.port;
    made.ssl_port = raw.ssl_port;
    if (raw.payload != nullptr) {
        made.payload = raw.payload;
    }
    made.registered = to_time(raw.registered_ms);
    made.type = text(raw.type);
    made.enabled = raw.enabled;
    made.token = raw.token;
    if (raw.uri_spec != nullptr) {
        made.uri_spec = raw.uri_spec;
        char *uri = nullptr;
        if (conclave_instance_uri(&raw, nullptr, &uri) == 0) {
            const std::unique_ptr<char, void (*)(void *)> held(uri, std::free);
            made.uri = uri;
        }
    }
    return made;
}

} // namespace detail

class registration
    : public detail::basic_handle<registration, registration_options, detail::registration_binding>
{
  public:
    using basic_handle::basic_handle;
    registration() noexcept = default;

    registration(const client &client, registration_options options)
        : basic_handle(
              client.shared(), std::move(options), "registration",
              [](state &s, void *ctx, conclave_registration **ret) { return open(s, ctx, ret); })
    {
    }

    /* payload: nullptr: none. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void update(const char *payload, bool disabled = false, S &&...style)
    {
        run<detail::nothing>(
            "update",
            [=](conclave_registration *there, detail::nothing &) {
                return conclave_registration_update(there, payload, disabled);
            },
            nullptr, std::forward<S>(style)...);
    }

    std::string id() const
    {
        std::array<char, 1024> id{};
        if (conclave_registration *there = native()) {
            conclave_registration_id(there, id.data(), id.size());
        }
        return id.data();
    }

    /* Waits until the node exists. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void wait(time_span timeout = forever, S &&...style) const
    {
        waited("wait", conclave_registration_wait, timeout, std::forward<S>(style)...);
    }

  private:
    static int open(state &s, void *ctx, conclave_registration **ret)
    {
        const registration_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_registration_options raw = CONCLAVE_REGISTRATION_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.name = o.name.c_str();
        raw.id = detail::or_null(o.id);
        raw.address = detail::or_null(o.address);
        raw.port = o.port;
        raw.ssl_port = o.ssl_port;
        raw.payload = o.payload ? o.payload->c_str() : nullptr;
        raw.disabled = o.disabled;
        raw.uri_spec = detail::or_null(o.uri_spec);
        raw.type = o.type;
        raw.keep = o.keep;
        acl.put(raw);
        auto calls = detail::sized<conclave_registration_callbacks>(0);
        calls.on_registered = [](conclave_registration *there, bool registered, void *self) {
            state::enter(there, self, "on_registered", [&](state &its, registration &view) {
                if (its.options.on_registered) {
                    its.options.on_registered(view, registered);
                }
            });
        };
        calls.on_closed = state::on_closed;
        return conclave_registration_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

class discovery
    : public detail::basic_handle<discovery, discovery_options, detail::discovery_binding>
{
  public:
    using basic_handle::basic_handle;
    discovery() noexcept = default;

    discovery(const client &client, discovery_options options)
        : basic_handle(
              client.shared(), std::move(options), "discovery",
              [](state &s, void *ctx, conclave_discovery **ret) { return open(s, ctx, ret); })
    {
    }

    /* One of the enabled instances, without a request; empty: there is none. */
    std::optional<instance> pick(conclave_pick how = CONCLAVE_PICK_ROUND_ROBIN) const
    {
        conclave_discovery *there = native();
        conclave_instance *raw = nullptr;
        int error = there != nullptr ? conclave_discovery_pick(there, how, &raw)
                                     : static_cast<int>(CONCLAVE_ECLOSED);
        if (error == CONCLAVE_EEMPTY) {
            return std::nullopt;
        }
        detail::check(error, "pick");
        const std::unique_ptr<conclave_instance, void (*)(conclave_instance *)> held(
            raw, conclave_instance_free);
        return detail::to_instance(*raw);
    }

    /* The program's own choice: gets the enabled instances and returns the index of one, or their number for none. What it
     * throws comes back. */
    template <class Choose> std::optional<instance> choose(Choose &&choose) const
    {
        struct call {
            std::remove_reference_t<Choose> *choose;
            std::exception_ptr thrown;
        } its{&choose, nullptr};
        conclave_discovery *there = native();
        conclave_instance *raw = nullptr;
        const auto f = [](const conclave_instance *const *list, size_t count, void *ctx) {
            auto &one = *static_cast<call *>(ctx);
            try {
                std::vector<instance> all;
                for (size_t i = 0; i < count; i++) {
                    all.push_back(detail::to_instance(*list[i]));
                }
                return static_cast<size_t>((*one.choose)(all));
            } catch (...) {
                one.thrown = std::current_exception();
                return count;
            }
        };
        const int error = there != nullptr ? conclave_discovery_choose(there, f, &its, &raw)
                                           : static_cast<int>(CONCLAVE_ECLOSED);
        if (its.thrown) {
            std::rethrow_exception(its.thrown);
        }
        if (error == CONCLAVE_EEMPTY) {
            return std::nullopt;
        }
        detail::check(error, "choose");
        const std::unique_ptr<conclave_instance, void (*)(conclave_instance *)> held(
            raw, conclave_instance_free);
        return detail::to_instance(*raw);
    }

    /* Notes that the caller could not reach this instance. */
    void note_error(const std::string &id) noexcept
    {
        if (conclave_discovery *there = native()) {
            conclave_discovery_note_error(there, id.c_str());
        }
    }

    /* All instances, as soon as they are known. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    std::vector<instance> instances(time_span timeout = forever, S &&...style) const
    {
        return run<std::vector<instance>>(
            "instances",
            [=](conclave_discovery *there, std::vector<instance> &value) {
                return detail::collect(
                    value,
                    [&](auto **list, size_t *count) {
                        return conclave_discovery_instances(there, detail::wait_ms(timeout), list,
                                                            count);
                    },
                    conclave_instances_free, detail::to_instance);
            },
            nullptr, std::forward<S>(style)...);
    }

    /* The names of all services at path, ordered, without a handle. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static std::vector<std::string> services(const client &client, const std::string &path,
                                             time_span timeout = forever, S &&...style)
    {
        return detail::run_list<std::string>(
            client, "services",
            [&](conclave_recipes *recipes, char ***list, size_t *count) {
                return conclave_service_names(recipes, path.c_str(), detail::wait_ms(timeout), list,
                                              count);
            },
            conclave_service_names_free, [](const char &first) { return detail::text(&first); },
            std::forward<S>(style)...);
    }

    /* One instance by its id, without a handle; empty: there is none. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static std::optional<instance> find(const client &client, const std::string &path,
                                        const std::string &name, const std::string &id,
                                        time_span timeout = forever, S &&...style)
    {
        const auto keep = client.shared();
        return detail::run<std::optional<instance>>(
            detail::no_sink(), "find",
            [&](std::optional<instance> &value) -> int {
                conclave_instance *raw = nullptr;
                int error =
                    keep ? conclave_service_instance(keep->recipes(), path.c_str(), name.c_str(),
                                                     id.c_str(), detail::wait_ms(timeout), &raw)
                         : static_cast<int>(CONCLAVE_ECLOSED);
                const std::unique_ptr<conclave_instance, void (*)(conclave_instance *)> held(
                    raw, conclave_instance_free);
                if (error == 0) {
                    value = detail::to_instance(*raw);
                }
                return error == CONCLAVE_NO_NODE ? 0 : error;
            },
            nullptr, std::forward<S>(style)...);
    }

  private:
    static int open(state &s, void *ctx, conclave_discovery **ret)
    {
        const discovery_options &o = s.options;
        conclave_discovery_options raw = CONCLAVE_DISCOVERY_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.name = o.name.c_str();
        raw.debounce_ms = o.debounce.count();
        raw.down_ms = o.down.count();
        raw.down_errors = o.down_errors;
        auto calls = detail::sized<conclave_discovery_callbacks>(0);
        calls.on_change = [](conclave_discovery *there, auto list, size_t count, bool stale,
                             void *self) {
            state::enter(there, self, "on_change", [&](state &its, discovery &view) {
                if (its.options.on_change) {
                    std::vector<instance> all;
                    for (size_t i = 0; i < count; i++) {
                        all.push_back(detail::to_instance(detail::nth(list, i)));
                    }
                    its.options.on_change(view, all, stale);
                }
            });
        };
        calls.on_closed = state::on_closed;
        return conclave_discovery_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

/* --- barriers ------------------------------------------------------------------------------- */

class barrier;
class double_barrier;

struct barrier_options {
    std::string path{};
    std::function<void(barrier &, std::error_code why)> on_closed{};
    acl_list acl{};
};

/* As struct conclave_double_barrier_options and its callbacks. */
struct double_barrier_options {
    std::string path{};
    uint32_t count = 0;
    std::string id{};
    std::string round{}; /* empty: "round" */
    std::function<void(double_barrier &, std::error_code why)> on_lost{};
    std::function<void(double_barrier &, std::error_code why)> on_closed{};
    bool late_pass = false;
    conclave_barrier_layout layout = CONCLAVE_BARRIER_LAYOUT_NATIVE;
    acl_list acl{};
};

namespace detail
{

using barrier_binding = binding<conclave_barrier, conclave_barrier_close,
                                conclave_barrier_close_wait, conclave_barrier_destroy>;
using double_barrier_binding =
    binding<conclave_double_barrier, conclave_double_barrier_close,
            conclave_double_barrier_close_wait, conclave_double_barrier_destroy>;

} // namespace detail

/* While its node exists, callers of wait wait. */
class barrier : public detail::basic_handle<barrier, barrier_options, detail::barrier_binding>
{
  public:
    using basic_handle::basic_handle;
    barrier() noexcept = default;

    barrier(const client &client, barrier_options options)
        : basic_handle(
              client.shared(), std::move(options), "barrier",
              [](state &s, void *ctx, conclave_barrier **ret) { return open(s, ctx, ret); })
    {
    }

    /* Creates the barrier. */
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) set(time_span timeout, S &&...style)
    {
        return timed("set", conclave_barrier_set, conclave_barrier_set_async, timeout,
                     std::forward<S>(style)...);
    }
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) set(S &&...style)
    {
        return set(forever, std::forward<S>(style)...);
    }
    /* Removes it: all continue. */
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) remove(time_span timeout, S &&...style)
    {
        return timed("remove", conclave_barrier_remove, conclave_barrier_remove_async, timeout,
                     std::forward<S>(style)...);
    }
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) remove(S &&...style)
    {
        return remove(forever, std::forward<S>(style)...);
    }
    /* Waits until there is no barrier. */
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) wait(time_span timeout, S &&...style)
    {
        return timed("wait", conclave_barrier_wait, conclave_barrier_wait_async, timeout,
                     std::forward<S>(style)...);
    }
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) wait(S &&...style)
    {
        return wait(forever, std::forward<S>(style)...);
    }

  private:
    static int open(state &s, void *ctx, conclave_barrier **ret)
    {
        const detail::raw_acl acl(s.options.acl);
        conclave_barrier_options raw = CONCLAVE_BARRIER_OPTIONS_INIT;
        raw.path = s.options.path.c_str();
        acl.put(raw);
        auto calls = detail::sized<conclave_barrier_callbacks>(0);
        calls.on_closed = state::on_closed;
        return conclave_barrier_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

/* A number of processes begin and end together. */
class double_barrier : public detail::basic_handle<double_barrier, double_barrier_options,
                                                   detail::double_barrier_binding>
{
  public:
    using basic_handle::basic_handle;
    double_barrier() noexcept = default;

    double_barrier(const client &client, double_barrier_options options)
        : basic_handle(
              client.shared(), std::move(options), "double_barrier",
              [](state &s, void *ctx, conclave_double_barrier **ret) { return open(s, ctx, ret); })
    {
    }

    /* Joins, and waits until all are there. */
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) enter(time_span timeout, S &&...style)
    {
        return timed("enter", conclave_double_barrier_enter, conclave_double_barrier_enter_async,
                     timeout, std::forward<S>(style)...);
    }
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) enter(S &&...style)
    {
        return enter(forever, std::forward<S>(style)...);
    }
    /* Waits until all have left or are gone. */
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) leave(time_span timeout, S &&...style)
    {
        return timed("leave", conclave_double_barrier_leave, conclave_double_barrier_leave_async,
                     timeout, std::forward<S>(style)...);
    }
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) leave(S &&...style)
    {
        return leave(forever, std::forward<S>(style)...);
    }

  private:
    static int open(state &s, void *ctx, conclave_double_barrier **ret)
    {
        const double_barrier_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_double_barrier_options raw = CONCLAVE_DOUBLE_BARRIER_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.round = detail::or_null(o.round);
        raw.id = detail::or_null(o.id);
        raw.count = o.count;
        raw.late_pass = o.late_pass;
        raw.layout = o.layout;
        acl.put(raw);
        auto calls = detail::sized<conclave_double_barrier_callbacks>(0);
        calls.on_lost = [](conclave_double_barrier *there, int why, void *self) {
            state::enter(there, self, "on_lost", [&](state &its, double_barrier &view) {
                if (its.options.on_lost) {
                    its.options.on_lost(view, detail::to_code(why));
                }
            });
        };
        calls.on_closed = state::on_closed;
        return conclave_double_barrier_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

} // namespace conclave

#endif
