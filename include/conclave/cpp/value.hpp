/*
 * Counter, shared value and configuration in C++ (conclave/counter.h, conclave/config.h).
 *
 *     conclave::counter counter(client, {"/jobs/done"});
 *     int64_t now = counter.add(1);
 */
#ifndef CONCLAVE_CPP_VALUE_HPP
#define CONCLAVE_CPP_VALUE_HPP

#include <conclave/cpp/client.hpp>

#include <conclave/config.h>
#include <conclave/counter.h>

#include <cstdio>

namespace conclave
{

/* --- counter --------------------------------------------------------------------------------- */

class counter;

/* As struct conclave_counter_options and its callbacks. */
struct counter_options {
    std::string path{};
    int64_t initial = 0;
    conclave_counter_form form = CONCLAVE_COUNTER_TEXT;
    std::function<void(counter &, int64_t value, std::error_code)> on_change{};
    std::function<void(counter &, std::error_code why)> on_closed{};
    acl_list acl{};
};

namespace detail
{

using counter_binding = binding<conclave_counter, conclave_counter_close,
                                conclave_counter_close_wait, conclave_counter_destroy>;

inline void counted(conclave_counter *, int error, int64_t value, void *ctx)
{
    static_cast<completion<int64_t> *>(ctx)->done(error, value);
}

} // namespace detail

class counter : public detail::basic_handle<counter, counter_options, detail::counter_binding>
{
  public:
    using basic_handle::basic_handle;
    counter() noexcept = default;

    counter(const client &client, counter_options options)
        : basic_handle(
              client.shared(), std::move(options), "counter",
              [](state &s, void *ctx, conclave_counter **ret) { return open(s, ctx, ret); })
    {
    }

    /* The value, with all changes that were acknowledged before. */
    template <class... S, detail::styles<int64_t, S...> = 0> decltype(auto) get(S &&...style)
    {
        return run<int64_t>(
            "get",
            [](conclave_counter *there, int64_t &value) {
                return conclave_counter_get(there, CONCLAVE_FOREVER, &value);
            },
            [](conclave_counter *there, void *ctx) {
                return conclave_counter_get_async(there, detail::counted, ctx);
            },
            std::forward<S>(style)...);
    }

    /* Adds and returns the new value. The styles that do not wait have no timeout. */
    template <class... S, detail::styles<int64_t, S...> = 0>
    decltype(auto) add(int64_t delta, S &&...style)
    {
        return add(delta, forever, std::forward<S>(style)...);
    }
    template <class... S, detail::styles<int64_t, S...> = 0>
    decltype(auto) add(int64_t delta, time_span timeout, S &&...style)
    {
        return run<int64_t>(
            "add",
            [=](conclave_counter *there, int64_t &value) {
                return conclave_counter_add(there, delta, detail::wait_ms(timeout), &value);
            },
            [=](conclave_counter *there, void *ctx) {
                return conclave_counter_add_async(there, delta, detail::counted, ctx);
            },
            std::forward<S>(style)...);
    }

    /* Sets the counter if it has the expected value; otherwise CONCLAVE_ECONFLICT, and the result is the value
     * that it has (for a std::error_code or a function). */
    template <class... S, detail::styles<int64_t, S...> = 0>
    decltype(auto) compare_and_set(int64_t expected, int64_t desired, S &&...style)
    {
        return run<int64_t>(
            "compare_and_set",
            [=](conclave_counter *there, int64_t &value) {
                return conclave_counter_compare_and_set(there, expected, desired, CONCLAVE_FOREVER,
                                                        &value);
            },
            [=](conclave_counter *there, void *ctx) {
                return conclave_counter_compare_and_set_async(there, expected, desired,
                                                              detail::counted, ctx);
            },
            std::forward<S>(style)...);
    }

  private:
    static int open(state &s, void *ctx, conclave_counter **ret)
    {
        const counter_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_counter_options raw = CONCLAVE_COUNTER_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.form = o.form;
        raw.initial = o.initial;
        acl.put(raw);
        auto calls = detail::sized<conclave_counter_callbacks>(0);
        if (o.on_change) {
            calls.on_change = [](conclave_counter *there, int64_t value, int error, void *self) {
                state::enter(there, self, "on_change", [&](state &its, counter &view) {
                    its.options.on_change(view, value, detail::to_code(error));
                });
            };
        }
        calls.on_closed = state::on_closed;
        return conclave_counter_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

/* --- shared value ----------------------------------------------------------------------------- */

/* As struct conclave_shared_value. */
struct shared_data {
    std::string data;
    bool is_null = true;               /* the null value, or no node */
    int32_t version = CONCLAVE_ABSENT; /* for shared_value::set */
    int64_t mzxid = 0;
    bool stale = false;
};

class shared_value;

struct shared_value_options {
    std::string path{};
    std::function<void(shared_value &, const shared_data &)> on_change{};
    std::function<void(shared_value &, std::error_code why)> on_closed{};
    acl_list acl{};
};

namespace detail
{

using shared_binding = binding<conclave_shared, conclave_shared_close, conclave_shared_close_wait,
                               conclave_shared_destroy>;

inline shared_data to_shared(const conclave_shared_value &raw)
{
    shared_data made;
    made.data = bytes(raw.data, raw.data_len);
    made.is_null = raw.data == nullptr;
    made.version = raw.version;
    made.mzxid = raw.mzxid;
    made.stale = raw.stale;
    return made;
}

} // namespace detail

class shared_value
    : public detail::basic_handle<shared_value, shared_value_options, detail::shared_binding>
{
  public:
    using basic_handle::basic_handle;
    shared_value() noexcept = default;

    shared_value(const client &client, shared_value_options options)
        : basic_handle(client.shared(), std::move(options), "shared_value",
                       [](state &s, void *ctx, conclave_shared **ret) { return open(s, ctx, ret); })
    {
    }

    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    shared_data get(time_span timeout = forever, S &&...style)
    {
        return run<shared_data>(
            "get",
            [=](conclave_shared *there, shared_data &value) {
                conclave_shared_value *raw = nullptr;
                int error = conclave_shared_get(there, detail::wait_ms(timeout), &raw);
                const std::unique_ptr<conclave_shared_value, void (*)(conclave_shared_value *)>
                    held(raw, conclave_shared_value_free);
                if (error == 0) {
                    value = detail::to_shared(*raw);
                }
                return error;
            },
            nullptr, std::forward<S>(style)...);
    }

    /* Sets the value if the node has this version. The result has the new version and mzxid. */
    template <class... S, detail::styles<shared_data, S...> = 0>
    decltype(auto) set(std::string data, int32_t expected_version, S &&...style)
    {
        auto bytes = std::make_shared<const std::string>(std::move(data));
        return run<shared_data>(
            "set",
            [=](conclave_shared *there, shared_data &value) {
                auto raw = detail::sized<conclave_shared_value>(0);
                int error = conclave_shared_set(there, bytes->data(), bytes->size(),
                                                expected_version, CONCLAVE_FOREVER, &raw);
                value.version = raw.version;
                value.mzxid = raw.mzxid;
                return error;
            },
            [=](conclave_shared *there, void *ctx) {
                return conclave_shared_set_async(
                    there, bytes->data(), bytes->size(), expected_version,
                    [](conclave_shared *, int error, const conclave_shared_value *now, void *to) {
                        detail::finish(static_cast<detail::completion<shared_data> *>(to), error,
                                       [&](shared_data &value) {
                                           value.version = now->version;
                                           value.mzxid = now->mzxid;
                                       });
                    },
                    ctx);
            },
            std::forward<S>(style)...);
    }

  private:
    static int open(state &s, void *ctx, conclave_shared **ret)
    {
        const shared_value_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_shared_options raw = CONCLAVE_SHARED_OPTIONS_INIT;
        raw.path = o.path.c_str();
        acl.put(raw);
        auto calls = detail::sized<conclave_shared_callbacks>(0);
        if (o.on_change) {
            calls.on_change = [](conclave_shared *there, const conclave_shared_value *value,
                                 void *self) {
                state::enter(there, self, "on_change", [&](state &its, shared_value &view) {
                    its.options.on_change(view, detail::to_shared(*value));
                });
            };
        }
        calls.on_closed = state::on_closed;
        return conclave_shared_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

/* --- configuration ------------------------------------------------------------------------------ */

/* As struct conclave_config_node and conclave_config_state. */
struct config_node {
    std::string path; /* below the configuration's node; "" itself */
    std::string data;
    bool is_null = false;
    int32_t version = 0;
    int64_t mzxid = 0;
};

struct config_state {
    std::vector<config_node> nodes; /* ordered by path */
    int64_t zxid = 0;
    int64_t mzxid = 0;
    bool stale = false; /* from the file */
};

class config;

/* As struct conclave_config_options and its callbacks. */
struct config_options {
    std::string path{};
    /* Applies the state. Throw to report a failure: a conclave::error gives its code. */
    std::function<void(config &, const config_state &)> on_change{};
    /* Throw to refuse the state: the exception's text is the reason that others can read. */
    std::function<void(config &, const config_state &)> validate{};
    std::function<void(config &, bool stale)> on_stale{};
    std::function<void(config &, std::error_code)> on_file_error{};
    std::function<void(config &, std::error_code why)> on_closed{};
    bool tree = false;
    std::string cache_file{};
    time_span cache_wait{milliseconds(1000)};
    std::string ack_id{};
    std::string ack_path{};
    time_span debounce{};
    acl_list acl{};
};

/* One node of several that are written together, as struct conclave_config_entry. */
struct config_entry {
    std::string path;
    std::string data;
    int32_t expected_version = CONCLAVE_CONFIG_ANY;
};

/* As struct conclave_config_ack. */
struct config_ack {
    std::string id;
    bool acked = false;
    int64_t zxid = 0;
    int64_t mzxid = 0;
    std::error_code error;
    std::string why;
};

/* As struct conclave_config_acks_options. */
struct config_acks_options {
    std::string path{};
    int64_t zxid = 0;
    std::string group_path{};
    std::string ack_path{};
    size_t at_least = 0;
};

namespace detail
{

using config_binding = binding<conclave_config, conclave_config_close, conclave_config_close_wait,
                               conclave_config_destroy>;

inline config_state to_config(const conclave_config_state &raw)
{
    config_state made;
    for (size_t i = 0; i < raw.count; i++) {
        const conclave_config_node &node = nth(raw.nodes, i);
        made.nodes.push_back({text(node.path), std::string(bytes(node.data, node.data_len)),
                              node.data == nullptr, node.version, node.mzxid});
    }
    made.zxid = raw.zxid;
    made.mzxid = raw.mzxid;
    made.stale = raw.stale;
    return made;
}

inline config_ack to_ack(const conclave_config_ack &raw)
{
    return {text(raw.id), raw.acked, raw.zxid, raw.mzxid, to_code(raw.error), text(raw.why)};
}

} // namespace detail

class config : public detail::basic_handle<config, config_options, detail::config_binding>
{
  public:
    using basic_handle::basic_handle;
    config() noexcept = default;

    config(const client &client, config_options options)
        : basic_handle(client.shared(), std::move(options), "config",
                       [](state &s, void *ctx, conclave_config **ret) { return open(s, ctx, ret); })
    {
    }

    /* Writes one node by compare-and-set, exactly once. The result is the change's number, for wait_acked. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static int64_t put(const client &client, const std::string &path, std::string_view data,
                       int32_t expected_version = CONCLAVE_CONFIG_ANY, time_span timeout = forever,
                       S &&...style)
    {
        const auto keep = client.shared();
        return detail::run<int64_t>(
            detail::no_sink(), "put",
            [&](int64_t &value) -> int {
                auto written = detail::sized<conclave_config_written>(0);
                int error = keep ? conclave_config_put(keep->recipes(), path.c_str(), data.data(),
                                                       data.size(), expected_version,
                                                       detail::wait_ms(timeout), &written)
                                 : static_cast<int>(CONCLAVE_ECLOSED);
                value = written.mzxid;
                return error;
            },
            nullptr, std::forward<S>(style)...);
    }

    /* Writes all in one transaction, or none. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static int64_t put_many(const client &client, const std::vector<config_entry> &entries,
                            time_span timeout = forever, S &&...style)
    {
        const auto keep = client.shared();
        return detail::run<int64_t>(
            detail::no_sink(), "put_many",
            [&](int64_t &value) -> int {
                std::vector<conclave_config_entry> raw;
                for (const config_entry &entry : entries) {
                    conclave_config_entry one = CONCLAVE_CONFIG_ENTRY_INIT;
                    one.path = entry.path.c_str();
                    one.data = entry.data.data();
                    one.len = entry.data.size();
                    one.expected_version = entry.expected_version;
                    raw.push_back(one);
                }
                return keep ? conclave_config_put_many(keep->recipes(), raw.data(), raw.size(),
                                                       detail::wait_ms(timeout), &value)
                            : static_cast<int>(CONCLAVE_ECLOSED);
            },
            nullptr, std::forward<S>(style)...);
    }

    /* Waits until every member has reached a state of zxid or later. With a std::error_code the list is
     * there on CONCLAVE_ECONFLICT and CONCLAVE_ETIMEDOUT, too. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static std::vector<config_ack> wait_acked(const client &client,
                                              const config_acks_options &options,
                                              time_span timeout = forever, S &&...style)
    {
        conclave_config_acks_options raw = CONCLAVE_CONFIG_ACKS_OPTIONS_INIT;
        raw.path = options.path.c_str();
        raw.ack_path = detail::or_null(options.ack_path);
        raw.group_path = detail::or_null(options.group_path);
        raw.zxid = options.zxid;
        raw.at_least = options.at_least;
        return detail::run_list<config_ack>(
            client, "wait_acked",
            [&](conclave_recipes *recipes, auto **list, size_t *count) {
                return conclave_config_wait_acked(recipes, &raw, detail::wait_ms(timeout), list,
                                                  count);
            },
            conclave_config_acks_free, detail::to_ack, std::forward<S>(style)...);
    }

  private:
    static int open(state &s, void *ctx, conclave_config **ret)
    {
        const config_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_config_options raw = CONCLAVE_CONFIG_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.tree = o.tree;
        raw.cache_file = detail::or_null(o.cache_file);
        raw.cache_wait_ms = o.cache_wait.count();
        raw.ack_id = detail::or_null(o.ack_id);
        raw.ack_path = detail::or_null(o.ack_path);
        raw.debounce_ms = o.debounce.count();
        acl.put(raw);
        auto calls = detail::sized<conclave_config_callbacks>(0);
        if (o.validate) {
            calls.validate = validate;
        }
        calls.on_change = [](conclave_config *there, const conclave_config_state *now, void *self) {
            int code = CONCLAVE_ECANCELED;
            int error = state::ask(there, self, "on_change", [&](state &its, config &view) {
                try {
                    if (its.options.on_change) {
                        its.options.on_change(view, detail::to_config(*now));
                    }
                } catch (const conclave::error &e) {
                    code = e.code().value();
                    throw;
                }
            });
            return error != 0 ? code : 0;
        };
        calls.on_stale = [](conclave_config *there, bool stale, void *self) {
            state::enter(there, self, "on_stale", [&](state &its, config &view) {
                if (its.options.on_stale) {
                    its.options.on_stale(view, stale);
                }
            });
        };
        calls.on_file_error = [](conclave_config *there, int error, void *self) {
            state::enter(there, self, "on_file_error", [&](state &its, config &view) {
                if (its.options.on_file_error) {
                    its.options.on_file_error(view, detail::to_code(error));
                }
            });
        };
        calls.on_closed = state::on_closed;
        return conclave_config_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }

    /* A refusal is an answer, no failure: it does not go to the exception handler. */
    static int validate(conclave_config *there, const conclave_config_state *now, char *why,
                        size_t why_len, void *self)
    {
        bool refused = false;
        int error = state::ask(there, self, "validate", [&](state &its, config &view) {
            try {
                its.options.validate(view, detail::to_config(*now));
            } catch (const std::exception &e) {
                refused = true;
                (void)std::snprintf(why, why_len, "%s", e.what());
            }
        });
        return refused ? static_cast<int>(CONCLAVE_ECANCELED) : error;
    }
};

} // namespace conclave

#endif
