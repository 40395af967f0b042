/*
 * The cache and the persistent node in C++ (conclave/cache.h, conclave/persistent_node.h).
 *
 *     conclave::cache cache(client, {"/services"});
 *     cache.wait();
 *     std::optional<conclave::cache_node> one = cache.get("/services/a"); // no request
 */
#ifndef CONCLAVE_CPP_CACHE_HPP
#define CONCLAVE_CPP_CACHE_HPP

#include <conclave/cpp/client.hpp>

#include <conclave/cache.h>
#include <conclave/persistent_node.h>

namespace conclave
{

/* --- cache ---------------------------------------------------------------------------------- */

/* As struct conclave_cache_node. */
struct cache_node {
    std::string path;
    std::string data;
    bool is_null = false;
    conclave_stat stat{};
};

struct cache_event {
    conclave_cache_change change = CONCLAVE_CACHE_CREATED;
    std::optional<cache_node> before;
    std::optional<cache_node> after;
};

/* As struct conclave_cache_view. */
struct cache_view {
    std::vector<cache_node> nodes; /* ordered by path */
    int64_t zxid = 0;
    bool fresh = false;
};

class cache;

/* As struct conclave_cache_options and its callbacks. */
struct cache_options {
    std::string path{};
    int depth = CONCLAVE_CACHE_WHOLE;
    std::function<void(cache &, const cache_event &)> on_event{};
    std::function<void(cache &)> on_loaded{};
    std::function<void(cache &, const struct conclave_cache_status &)> on_status{};
    std::function<void(cache &, int64_t zxid)> on_settled{};
    std::function<void(cache &, std::error_code why)> on_closed{};
    std::vector<std::string> only{};
    std::vector<std::string> without{};
    bool stats_only = false;
    size_t max_bytes = size_t(256) << 20;
    time_span debounce{};
};

namespace detail
{

using cache_binding = binding<conclave_cache, conclave_cache_close, conclave_cache_close_wait,
                              conclave_cache_destroy>;

inline cache_node to_cached(const conclave_cache_node &raw)
{
    cache_node made;
    made.path = text(raw.path);
    made.data = bytes(raw.data, raw.data_len);
    made.is_null = raw.data == nullptr;
    made.stat = *raw.stat;
    return made;
}

} // namespace detail

/* A node, its children, or a subtree in memory; lookups send nothing. */
class cache : public detail::basic_handle<cache, cache_options, detail::cache_binding>
{
  public:
    using basic_handle::basic_handle;
    cache() noexcept = default;

    cache(const client &client, cache_options options)
        : basic_handle(client.shared(), std::move(options), "cache",
                       [](auto &s, void *ctx, conclave_cache **ret) { return open(s, ctx, ret); })
    {
    }

    /* Waits until it shows all changes up to zxid; 0: until it is fresh. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void wait(int64_t zxid = 0, time_span timeout = forever, S &&...style) const
    {
        run<detail::nothing>(
            "wait",
            [=](conclave_cache *there, detail::nothing &) {
                return conclave_cache_wait(there, zxid, detail::wait_ms(timeout));
            },
            nullptr, std::forward<S>(style)...);
    }

    /* One node; empty: there is none. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    std::optional<cache_node> get(const std::string &path, S &&...style) const
    {
        return run<std::optional<cache_node>>(
            "get",
            [&](conclave_cache *there, std::optional<cache_node> &value) {
                const conclave_cache_node *raw = nullptr;
                int error = conclave_cache_get(there, path.c_str(), &raw);
                const std::unique_ptr<const conclave_cache_node,
                                      void (*)(const conclave_cache_node *)>
                    held(raw, conclave_cache_node_free);
                if (error == 0) {
                    value = detail::to_cached(*raw);
                }
                return error == CONCLAVE_NO_NODE ? 0 : error;
            },
            nullptr, std::forward<S>(style)...);
    }

    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    cache_view children(const std::string &path, S &&...style) const
    {
        return look("children", conclave_cache_children, path, std::forward<S>(style)...);
    }
    /* The node with all below it. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    cache_view subtree(const std::string &path, S &&...style) const
    {
        return look("subtree", conclave_cache_subtree, path, std::forward<S>(style)...);
    }

    struct conclave_cache_status status() const noexcept
    {
        struct conclave_cache_status now = CONCLAVE_CACHE_STATUS_INIT;
        conclave_cache *there = native();
        now.error = there != nullptr ? now.error : static_cast<int>(CONCLAVE_ECLOSED);
        if (there != nullptr) {
            int error = conclave_cache_status(there, &now);
            now.error = error != 0 ? error : now.error;
        }
        return now;
    }

  private:
    using its_state = basic_handle::state;

    template <class... S>
    cache_view look(const char *what,
                    int (*f)(conclave_cache *, const char *, struct conclave_cache_view **),
                    const std::string &path, S &&...style) const
    {
        return run<cache_view>(
            what,
            [&](conclave_cache *there, cache_view &value) {
                struct conclave_cache_view *raw = nullptr;
                int error = f(there, path.c_str(), &raw);
                const std::unique_ptr<struct conclave_cache_view,
                                      void (*)(struct conclave_cache_view *)>
                    held(raw, conclave_cache_view_free);
                for (size_t i = 0; error == 0 && i < raw->count; i++) {
                    value.nodes.push_back(detail::to_cached(*raw->nodes[i]));
                }
                if (error == 0) {
                    value.zxid = raw->zxid;
                    value.fresh = raw->fresh;
                }
                return error;
            },
            nullptr, std::forward<S>(style)...);
    }

    static int open(its_state &s, void *ctx, conclave_cache **ret)
    {
        const cache_options &o = s.options;
        const auto only = detail::c_strings(o.only);
        const auto without = detail::c_strings(o.without);
        conclave_cache_options raw = CONCLAVE_CACHE_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.depth = o.depth;
        raw.stats_only = o.stats_only;
        raw.max_bytes = o.max_bytes;
        raw.only = only.empty() ? nullptr : only.data();
        raw.only_count = only.size();
        raw.without = without.empty() ? nullptr : without.data();
        raw.without_count = without.size();
        raw.debounce_ms = o.debounce.count();
        auto calls = detail::sized<conclave_cache_callbacks>(0);
        if (o.on_event) {
            calls.on_event = [](conclave_cache *there, const conclave_cache_event *event,
                                void *self) {
                its_state::enter(there, self, "on_event", [&](its_state &its, cache &view) {
                    cache_event made;
                    made.change = event->change;
                    if (event->before != nullptr) {
                        made.before = detail::to_cached(*event->before);
                    }
                    if (event->after != nullptr) {
                        made.after = detail::to_cached(*event->after);
                    }
                    its.options.on_event(view, made);
                });
            };
        }
        if (o.on_settled) {
            calls.on_settled = [](conclave_cache *there, int64_t zxid, void *self) {
                its_state::enter(there, self, "on_settled", [&](its_state &its, cache &view) {
                    its.options.on_settled(view, zxid);
                });
            };
        }
        if (o.on_loaded) {
            calls.on_loaded = [](conclave_cache *there, void *self) {
                its_state::enter(there, self, "on_loaded",
                                 [](its_state &its, cache &view) { its.options.on_loaded(view); });
            };
        }
        if (o.on_status) {
            calls.on_status = [](conclave_cache *there, const struct conclave_cache_status *now,
                                 void *self) {
                its_state::enter(there, self, "on_status", [&](its_state &its, cache &view) {
                    its.options.on_status(view, *now);
                });
            };
        }
        calls.on_closed = its_state::on_closed;
        return conclave_cache_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

/* --- persistent node ------------------------------------------------------------------------- */

class persistent_node;

/* As struct conclave_persistent_node_options and its callbacks. */
struct persistent_node_options {
    std::string path{};
    std::string data{};
    conclave_create_mode mode = CONCLAVE_EPHEMERAL;
    std::function<void(persistent_node &, enum conclave_membership)> on_presence{};
    std::function<void(persistent_node &, std::error_code why)> on_closed{};
    time_span ttl{};
    bool keep = false;
    acl_list acl{};
};

namespace detail
{

using persistent_node_binding =
    binding<conclave_persistent_node, conclave_persistent_node_close,
            conclave_persistent_node_close_wait, conclave_persistent_node_destroy>;

} // namespace detail

/* Keeps a node with these data there. */
class persistent_node : public detail::basic_handle<persistent_node, persistent_node_options,
                                                    detail::persistent_node_binding>
{
  public:
    using basic_handle::basic_handle;
    persistent_node() noexcept = default;

    persistent_node(const client &client, persistent_node_options options)
        : basic_handle(
              client.shared(), std::move(options), "persistent_node",
              [](state &s, void *ctx, conclave_persistent_node **ret) { return open(s, ctx, ret); })
    {
    }

    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void set_data(std::string_view data, S &&...style)
    {
        run<detail::nothing>(
            "set_data",
            [=](conclave_persistent_node *there, detail::nothing &) {
                return conclave_persistent_node_set_data(there, data.data(), data.size());
            },
            nullptr, std::forward<S>(style)...);
    }
    enum conclave_membership presence() const noexcept
    {
        return ask_raw(CONCLAVE_MEMBERSHIP_OUT, conclave_persistent_node_presence);
    }
    /* Its path; "": a sequential node that was not made yet. */
    std::string path() const
    {
        std::array<char, 4096> text{};
        int error =
            ask_raw(static_cast<int>(CONCLAVE_ECLOSED), [&](conclave_persistent_node *there) {
                return conclave_persistent_node_path(there, text.data(), text.size());
            });
        return error == 0 ? text.data() : "";
    }
    /* Waits until the node is there. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void wait(time_span timeout = forever, S &&...style) const
    {
        waited("wait", conclave_persistent_node_wait, timeout, std::forward<S>(style)...);
    }

  private:
    static int open(state &s, void *ctx, conclave_persistent_node **ret)
    {
        const persistent_node_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_persistent_node_options raw = CONCLAVE_PERSISTENT_NODE_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.data = o.data.data();
        raw.data_len = o.data.size();
        raw.mode = o.mode;
        raw.ttl_ms = o.ttl.count();
        raw.keep = o.keep;
        acl.put(raw);
        auto calls = detail::sized<conclave_persistent_node_callbacks>(0);
        if (o.on_presence) {
            calls.on_presence = [](conclave_persistent_node *there, enum conclave_membership now,
                                   void *self) {
                state::enter(there, self, "on_presence", [&](state &its, persistent_node &view) {
                    its.options.on_presence(view, now);
                });
            };
        }
        calls.on_closed = state::on_closed;
        return conclave_persistent_node_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

} // namespace conclave

#endif
