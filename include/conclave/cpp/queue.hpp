/*
 * The queue in C++ (conclave/queue.h).
 *
 *     conclave::queue queue(client, {"/jobs"});
 *     queue.put("one");
 *     conclave::item item = queue.take();
 *     work(item.data());
 *     item.ack();
 *
 * An item that is destroyed without an ack is given back.
 */
#ifndef CONCLAVE_CPP_QUEUE_HPP
#define CONCLAVE_CPP_QUEUE_HPP

#include <conclave/cpp/client.hpp>

#include <conclave/queue.h>

namespace conclave
{

class queue;
class item;

/* As struct conclave_queue_options and its callbacks. */
struct queue_options {
    std::string path{};
    std::string id{};
    int max_attempts = 0;
    int64_t max_items = 0;
    bool at_most_once = false;
    conclave_queue_layout layout = CONCLAVE_QUEUE_LAYOUT_NATIVE;
    std::string prefix{};      /* of CONCLAVE_QUEUE_LAYOUT_PLAIN */
    std::string claims_path{}; /* of the layouts of Curator */
    /* The claim of a taken item is gone; name: of the item. */
    std::function<void(queue &, const std::string &name)> on_lost{};
    std::function<void(queue &, int64_t count)> on_size{};
    std::function<void(queue &, std::error_code why)> on_closed{};
    acl_list acl{};
};

/* How to put an item, as struct conclave_put_options. */
struct put_options {
    int priority = CONCLAVE_QUEUE_PRIORITY_DEFAULT;
    time_span timeout = forever;
    std::optional<std::chrono::system_clock::time_point> not_before{}; /* nobody takes it before */
    std::string id{};                                                  /* for queue::remove */
};

/* As struct conclave_queue_entry. */
struct queue_entry {
    std::string name;
    int priority = CONCLAVE_QUEUE_PRIORITY_DEFAULT;
    int attempts = 0;
    int64_t session_id = 0;
    std::string holder;
    std::string id; /* empty: none */
    std::optional<std::chrono::system_clock::time_point> not_before;
    std::chrono::system_clock::time_point created{};
    std::string data;
};

namespace detail
{

using queue_binding = binding<conclave_queue, conclave_queue_close, conclave_queue_close_wait,
                              conclave_queue_destroy>;

inline queue_entry to_entry(const conclave_queue_entry &raw)
{
    queue_entry made;
    made.name = text(raw.name);
    made.priority = raw.priority;
    made.attempts = raw.attempts;
    made.session_id = raw.session_id;
    made.holder = text(raw.holder);
    made.id = text(raw.id);
    if (raw.not_before_ms != 0) {
        made.not_before = to_time(raw.not_before_ms);
    }
    made.created = to_time(raw.ctime_ms);
    made.data = bytes(raw.data, raw.data_len);
    return made;
}

} // namespace detail

/* A taken item. Keeps its client's session; may outlive its queue, which gives it back when it ends. */
class item
{
  public:
    item() noexcept = default;

    explicit operator bool() const noexcept
    {
        return raw_ != nullptr;
    }
    std::string_view data() const noexcept
    {
        size_t len = 0;
        const void *data = raw_ ? conclave_item_data(raw_.get(), &len) : nullptr;
        return detail::bytes(data, len);
    }
    /* Several data that Curator put at once (putMulti), else one; empty: not in Curator's format (conclave_item_count). */
    std::vector<std::string_view> parts() const
    {
        std::vector<std::string_view> all(raw_ ? conclave_item_count(raw_.get()) : 0);
        for (size_t i = 0; i < all.size(); i++) {
            size_t len = 0;
            const void *part = conclave_item_part(raw_.get(), i, &len);
            all[i] = detail::bytes(part, len);
        }
        return all;
    }
    std::string name() const
    {
        return raw_ ? detail::text(conclave_item_name(raw_.get())) : std::string();
    }
    int priority() const noexcept
    {
        return raw_ ? conclave_item_priority(raw_.get()) : 0;
    }
    /* The number of this delivery; 1: the first. */
    int attempt() const noexcept
    {
        return raw_ ? conclave_item_attempt(raw_.get()) : 0;
    }
    /* Whether no other consumer has it, proved at this moment. */
    bool held() const noexcept
    {
        return raw_ && conclave_item_is_held(raw_.get());
    }
    int64_t lease_until_ns() const noexcept
    {
        return raw_ ? conclave_item_lease_until_ns(raw_.get()) : 0;
    }
    std::string claim() const
    {
        return raw_ ? detail::text(conclave_item_claim(raw_.get())) : std::string();
    }

    /* Removes the finished item. */
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) ack(time_span timeout, S &&...style)
    {
        return end("ack", conclave_item_ack, conclave_item_ack_async, timeout,
                   std::forward<S>(style)...);
    }
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) ack(S &&...style)
    {
        return ack(forever, std::forward<S>(style)...);
    }
    /* Gives it back at once. */
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) nack(time_span timeout, S &&...style)
    {
        return end("nack", conclave_item_nack, conclave_item_nack_async, timeout,
                   std::forward<S>(style)...);
    }
    template <class... S, detail::styles<detail::nothing, S...> = 0>
    decltype(auto) nack(S &&...style)
    {
        return nack(forever, std::forward<S>(style)...);
    }

    /* The changes and the ack in one transaction, all or nothing. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void ack_with(const transaction &changes, S &&...style)
    {
        const auto keep = raw_;
        detail::run<detail::nothing>(
            errors(), "ack_with",
            [&](detail::nothing &) -> int {
                return keep ? changes.request().submit_parts(
                                  [&](const conclave_op *parts, size_t count) {
                                      return conclave_item_ack_multi(keep.get(), parts, count);
                                  })
                            : static_cast<int>(CONCLAVE_ECLOSED);
            },
            nullptr, std::forward<S>(style)...);
    }

    /* A transaction that is carried out only while the claim is valid; the item stays claimed. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    std::vector<part_result> fenced(const transaction &changes, S &&...style)
    {
        const auto keep = raw_;
        return detail::run<std::vector<part_result>>(
            errors(), "fenced",
            [&](std::vector<part_result> &value) -> int {
                return keep ? detail::call_fenced(changes, value,
                                                  [&](const conclave_op *parts, size_t count,
                                                      conclave_reply **ret) {
                                                      return conclave_item_fenced_multi(
                                                          keep.get(), parts, count, ret);
                                                  })
                            : static_cast<int>(CONCLAVE_ECLOSED);
            },
            nullptr, std::forward<S>(style)...);
    }

    conclave_item *native() const noexcept
    {
        return raw_.get();
    }

  private:
    friend class queue;

    item(std::shared_ptr<detail::session> owner, conclave_item *raw)
        : owner_(owner), raw_(raw, freeing{std::move(owner)})
    {
    }

    /* Keeps the session longer than the item, also while another is assigned. */
    struct freeing {
        std::shared_ptr<detail::session> keep;

        void operator()(conclave_item *one) const noexcept
        {
            conclave_item_free(one);
        }
    };

    const std::shared_ptr<const detail::sink> &errors() const
    {
        return owner_ ? owner_->errors() : detail::no_sink();
    }

    template <class... S>
    decltype(auto) end(const char *what, int (*f)(conclave_item *, int64_t),
                       int (*begin)(conclave_item *, conclave_item_fn, void *), time_span timeout,
                       S &&...style)
    {
        const auto keep = raw_;
        const auto owner = owner_;
        return detail::run<detail::nothing>(
            errors(), what,
            [=](detail::nothing &) {
                return keep ? f(keep.get(), detail::wait_ms(timeout)) : gone;
            },
            [=](detail::completion<detail::nothing> *to) {
                if (!keep) {
                    return gone;
                }
                /* The item lives until the answer. */
                auto waiter = std::make_unique<ending>(ending{owner, keep, to});
                int error = begin(keep.get(), ending::done, waiter.get());
                if (error == 0) {
                    (void)waiter.release();
                }
                return error;
            },
            std::forward<S>(style)...);
    }

    struct ending {
        std::shared_ptr<detail::session> owner;
        std::shared_ptr<conclave_item> raw;
        detail::completion<detail::nothing> *to;

        static void done(conclave_item *, int error, void *ctx)
        {
            const std::unique_ptr<ending> self(static_cast<ending *>(ctx));
            self->to->done(error, detail::nothing());
        }
    };

    static constexpr int gone = CONCLAVE_ECLOSED;

    std::shared_ptr<detail::session> owner_;
    std::shared_ptr<conclave_item> raw_;
};

class queue : public detail::basic_handle<queue, queue_options, detail::queue_binding>
{
  public:
    using basic_handle::basic_handle;
    queue() noexcept = default;

    queue(const client &client, queue_options options)
        : basic_handle(client.shared(), std::move(options), "queue",
                       [](state &s, void *ctx, conclave_queue **ret) { return open(s, ctx, ret); })
    {
    }

    /* Puts an item; the result is its name. */
    template <class... S, detail::styles<std::string, S...> = 0>
    decltype(auto) put(std::string data, put_options options, S &&...style)
    {
        auto how = std::make_shared<const putting>(putting{std::move(data), std::move(options)});
        return run<std::string>(
            "put",
            [=](conclave_queue *there, std::string &name) {
                std::array<char, CONCLAVE_QUEUE_NAME_MAX> text{};
                const conclave_put_options raw = how->raw();
                int error =
                    conclave_queue_put_with(there, &raw, how->data.data(), how->data.size(),
                                            detail::wait_ms(how->options.timeout), text.data());
                name = text.data();
                return error;
            },
            [=](conclave_queue *there, void *ctx) {
                const conclave_put_options raw = how->raw();
                return conclave_queue_put_with_async(
                    there, &raw, how->data.data(), how->data.size(),
                    detail::wait_ms(how->options.timeout),
                    [](conclave_queue *, int error, const char *name, void *to) {
                        detail::finish(static_cast<detail::completion<std::string> *>(to), error,
                                       [&](std::string &value) { value = detail::text(name); });
                    },
                    ctx);
            },
            std::forward<S>(style)...);
    }
    template <class... S, detail::styles<std::string, S...> = 0>
    decltype(auto) put(std::string data, S &&...style)
    {
        return put(std::move(data), put_options{}, std::forward<S>(style)...);
    }

    /* Removes the items with this id that nobody has claimed; the result is their number. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    size_t remove(const std::string &id, time_span timeout = forever, S &&...style)
    {
        return run<size_t>(
            "remove",
            [&](conclave_queue *there, size_t &value) {
                return conclave_queue_remove(there, id.c_str(), detail::wait_ms(timeout), &value);
            },
            nullptr, std::forward<S>(style)...);
    }

    /* Takes the first item that nobody has claimed; waits for one. */
    template <class... S, detail::styles<item, S...> = 0>
    decltype(auto) take(time_span timeout, S &&...style)
    {
        const auto keep = state_;
        return run<item>(
            "take",
            [=](conclave_queue *there, item &value) {
                conclave_item *raw = nullptr;
                int error = conclave_queue_take(there, detail::wait_ms(timeout), &raw);
                if (error == 0) {
                    value = item(keep->owner, raw);
                }
                return error;
            },
            [=](conclave_queue *there, void *ctx) {
                auto waiter = std::make_unique<taker>(
                    taker{keep->owner, static_cast<detail::completion<item> *>(ctx)});
                int error = conclave_queue_take_async(there, detail::wait_ms(timeout), taker::done,
                                                      waiter.get());
                if (error == 0) {
                    (void)waiter.release();
                }
                return error;
            },
            std::forward<S>(style)...);
    }
    template <class... S, detail::styles<item, S...> = 0> decltype(auto) take(S &&...style)
    {
        return take(forever, std::forward<S>(style)...);
    }

    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    int64_t size(time_span timeout = forever, S &&...style)
    {
        return run<int64_t>(
            "size",
            [=](conclave_queue *there, int64_t &value) {
                return conclave_queue_size(there, detail::wait_ms(timeout), &value);
            },
            nullptr, std::forward<S>(style)...);
    }

    /* The first `most` entries (0: all), or dead letters. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    std::vector<queue_entry> list(conclave_queue_part part = CONCLAVE_QUEUE_ITEMS, size_t most = 0,
                                  bool with_data = true, time_span timeout = forever, S &&...style)
    {
        return run<std::vector<queue_entry>>(
            "list",
            [=](conclave_queue *there, std::vector<queue_entry> &value) {
                return detail::collect(
                    value,
                    [&](auto **entries, size_t *count) {
                        return conclave_queue_list(there, part, most, with_data,
                                                   detail::wait_ms(timeout), entries, count);
                    },
                    conclave_queue_entries_free, detail::to_entry);
            },
            nullptr, std::forward<S>(style)...);
    }

    /* Returns a dead letter to its old place. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void requeue(const std::string &name, time_span timeout = forever, S &&...style)
    {
        run<detail::nothing>(
            "requeue",
            [&](conclave_queue *there, detail::nothing &) {
                return conclave_queue_requeue(there, name.c_str(), detail::wait_ms(timeout));
            },
            nullptr, std::forward<S>(style)...);
    }

  private:
    struct putting {
        std::string data;
        put_options options;

        conclave_put_options raw() const
        {
            auto raw = detail::sized<conclave_put_options>(0);
            raw.priority = options.priority;
            raw.id = detail::or_null(options.id);
            if (options.not_before) {
                raw.not_before_ms = time_span(options.not_before->time_since_epoch()).count();
            }
            return raw;
        }
    };

    struct taker {
        std::shared_ptr<detail::session> owner;
        detail::completion<item> *to;

        static void done(conclave_queue *, int error, conclave_item *raw, void *ctx)
        {
            std::unique_ptr<taker> self(static_cast<taker *>(ctx));
            detail::finish(self->to, error,
                           [&](item &value) { value = item(std::move(self->owner), raw); });
        }
    };

    static int open(state &s, void *ctx, conclave_queue **ret)
    {
        const queue_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_queue_options raw = CONCLAVE_QUEUE_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.id = detail::or_null(o.id);
        raw.max_attempts = o.max_attempts;
        raw.max_items = o.max_items;
        raw.at_most_once = o.at_most_once;
        raw.layout = o.layout;
        raw.prefix = detail::or_null(o.prefix);
        raw.claims_path = detail::or_null(o.claims_path);
        acl.put(raw);
        auto calls = detail::sized<conclave_queue_callbacks>(0);
        calls.on_lost = [](conclave_queue *there, conclave_item *lost, void *self) {
            state::enter(there, self, "on_lost", [&](state &its, queue &view) {
                if (its.options.on_lost) {
                    its.options.on_lost(view, detail::text(conclave_item_name(lost)));
                }
            });
        };
        if (o.on_size) {
            calls.on_size = [](conclave_queue *there, int64_t count, void *self) {
                state::enter(there, self, "on_size",
                             [&](state &its, queue &view) { its.options.on_size(view, count); });
            };
        }
        calls.on_closed = state::on_closed;
        return conclave_queue_open(s.owner->recipes(), &raw, &calls, ctx, ret);
    }
};

} // namespace conclave

#endif
