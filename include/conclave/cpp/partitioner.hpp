/*
 * The partitioner in C++ (conclave/partitioner.h): a set of items, divided among the members of a party.
 *
 *     conclave::partitioner_options options;
 *     options.path = "/jobs";
 *     options.items = {"a", "b", "c"};
 *     options.on_release = [](conclave::partitioner &self, auto &&...) { self.release(); };
 *     conclave::partitioner partitioner(client, std::move(options));
 */
#ifndef CONCLAVE_CPP_PARTITIONER_HPP
#define CONCLAVE_CPP_PARTITIONER_HPP

#include <conclave/cpp/client.hpp>

#include <conclave/partitioner.h>

namespace conclave
{

class partitioner;

/* As struct conclave_partitioner_options and its callbacks. */
struct partitioner_options {
    std::string path{};
    std::vector<std::string> items{};
    std::string id{}; /* empty: host:pid */
    std::function<void(partitioner &, const std::vector<std::string> &items)> on_acquired{};
    /* End the work on the items, then call release. No error: there is no hurry. */
    std::function<void(partitioner &, std::error_code why, milliseconds stop_within)> on_release{};
    /* Whether each item belongs to self; after an exception no item does. */
    std::function<std::vector<bool>(partitioner &, const std::string &self,
                                    const std::vector<std::string> &members,
                                    const std::vector<std::string> &items)>
        partition{};
    std::function<void(partitioner &, std::error_code why)> on_closed{};
    time_span settle{milliseconds(3000)};
    lease_options lease{};
    acl_list acl{};
};

namespace detail
{

using partitioner_binding = binding<conclave_partitioner, conclave_partitioner_close,
                                    conclave_partitioner_close_wait, conclave_partitioner_destroy>;

} // namespace detail

/* A member of the party. It joins at once, and leaves when it is destroyed. */
class partitioner
    : public detail::basic_handle<partitioner, partitioner_options, detail::partitioner_binding>
{
  public:
    using basic_handle::basic_handle;
    partitioner() noexcept = default;

    partitioner(const client &client, partitioner_options options)
        : basic_handle(
              client.shared(), std::move(options), "partitioner",
              [](state &s, void *ctx, conclave_partitioner **ret) { return open(s, ctx, ret); })
    {
    }

    conclave_partition_state status() const noexcept
    {
        return ask_raw(CONCLAVE_PARTITION_ALLOCATING, conclave_partitioner_state);
    }

    /* Waits until this member has its items. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void wait(time_span timeout = forever, S &&...style) const
    {
        waited("wait", conclave_partitioner_wait, timeout, std::forward<S>(style)...);
    }

    /* Gives all items back, so that the set is divided anew. Does not wait. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void release(S &&...style)
    {
        run<detail::nothing>(
            "release",
            [](conclave_partitioner *there, detail::nothing &) {
                return conclave_partitioner_release(there);
            },
            nullptr, std::forward<S>(style)...);
    }

  private:
    static int open(state &s, void *ctx, conclave_partitioner **ret)
    {
        const partitioner_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        const auto items = detail::c_strings(o.items);
        conclave_partitioner_options raw = CONCLAVE_PARTITIONER_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.items = items.data();
        raw.items_count = items.size();
        raw.id = detail::or_null(o.id);
        raw.settle_ms = o.settle.count();
        raw.lease = detail::to_raw(o.lease);
        acl.put(raw);
        auto calls = detail::sized<conclave_partitioner_callbacks>(0);
        calls.on_acquired = [](conclave_partitioner *there, const char *const *list, size_t count,
                               void *self) {
            state::enter(there, self, "on_acquired", [&](state &its, partitioner &view) {
                if (its.options.on_acquired) {
                    its.options.on_acquired(view, {list, list + count});
                }
            });
        };
        calls.on_release = [](conclave_partitioner *there, int why, int64_t stop_within_ms,
                              void *self) {
            state::enter(there, self, "on_release", [&](state &its, partitioner &view) {
                if (its.options.on_release) {
                    its.options.on_release(view, detail::to_code(why),
                                           milliseconds(stop_within_ms));
                }
            });
        };
        if (o.partition) {
            calls.partition = partition;
        }
        calls.on_closed = state::on_closed;
        return conclave_partitioner_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }

    static void partition(conclave_partitioner *there, const char *self_id,
                          const char *const *members, size_t members_count,
                          const char *const *items, size_t items_count, bool *ret_mine, void *self)
    {
        state::enter(there, self, "partition", [&](state &its, partitioner &view) {
            const auto mine = its.options.partition(
                view, self_id, {members, members + members_count}, {items, items + items_count});
            std::copy_n(mine.begin(), std::min(mine.size(), items_count), ret_mine);
        });
    }
};

} // namespace conclave

#endif
