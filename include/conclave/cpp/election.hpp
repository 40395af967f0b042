/*
 * Elections in C++: leader election and the simple master switch (conclave/election.h). Active/standby with fencing is in
 * conclave/cpp/elector.hpp.
 *
 *     conclave::election election(client, {"/jobs/leader", "alice"});
 *     conclave::token token = election.wait();
 *     while (election.leads()) { ... one step of the work, with token ... }
 *
 * Members of the options are in the order of their use; with C++20: {.path = "/x", .on_elected = ...}.
 */
#ifndef CONCLAVE_CPP_ELECTION_HPP
#define CONCLAVE_CPP_ELECTION_HPP

#include <conclave/cpp/client.hpp>
#include <conclave/cpp/hand_over.hpp>

#include <conclave/election.h>

#include <exception>
#include <type_traits>

namespace conclave
{

/* --- election ---------------------------------------------------------------------------- */

/* A candidate, or the leader, as struct conclave_participant. */
struct participant {
    std::string node;
    std::string id;
    std::string data;
    int64_t session_id = 0;
    int32_t sequence = 0;
    bool self = false;
    conclave::token token{};
    std::chrono::system_clock::time_point since{}; /* in lists and of find_leader */
};

class election;

/* As struct conclave_election_options and its callbacks. */
struct election_options {
    std::string path{};
    std::string id{};   /* empty: host:pid */
    std::string data{}; /* shown to others, as an address */
    /* Throw to refuse: the candidate then resigns, waits and queues again. */
    std::function<void(election &, token, bool regrant)> on_elected{};
    std::function<void(election &, std::error_code why, milliseconds stop_within)> on_revoked{};
    std::function<void(election &, const participant *leader, bool acked)> on_leader{};
    std::function<void(election &, std::error_code why)> on_closed{};
    conclave_naming naming = CONCLAVE_NAMING_NATIVE;
    lease_options lease{};
    time_span takeover_delay{};
    bool observe_only = false;
    bool observe = false;
    bool ack = true;
    bool requeue = true;
    bool regrant = false;
    bool no_wait = false; /* ends with CONCLAVE_EBUSY instead of waiting behind another */
    bool steal_stale_ack = false;
    time_span backoff_min{milliseconds(1000)};
    time_span backoff_max{milliseconds(30000)};
    acl_list acl{};
};

namespace detail
{

using election_binding = binding<conclave_election, conclave_election_close,
                                 conclave_election_close_wait, conclave_election_destroy>;

inline participant to_participant(const conclave_participant &raw)
{
    participant made;
    made.node = text(raw.node);
    made.id = text(raw.id);
    made.data = bytes(raw.data, raw.data_len);
    made.session_id = raw.session_id;
    made.sequence = raw.sequence;
    made.self = raw.self;
    made.token = raw.token;
    made.since = to_time(raw.since_ms);
    return made;
}

} // namespace detail

class election : public detail::basic_handle<election, election_options, detail::election_binding>
{
  public:
    using basic_handle::basic_handle;
    election() noexcept = default;

    /* Joins, or observes. Does not wait. */
    election(const client &client, election_options options)
        : basic_handle(
              client.shared(), std::move(options), "election",
              [](state &s, void *ctx, conclave_election **ret) { return open(s, ctx, ret); })
    {
    }

    /* Leads now, or does not wait behind another: then CONCLAVE_EBUSY, and *leader (may be nullptr) is that
     * leader, if it is still there. With a std::error_code the handle is empty on failure. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static election race(const client &client, election_options options,
                         std::optional<participant> *leader = nullptr, time_span timeout = forever,
                         S &&...style)
    {
        election won;
        detail::run<detail::nothing>(
            detail::no_sink(), "race",
            [&](detail::nothing &) -> int {
                try {
                    won = election(client, std::move(options), leader, timeout);
                    return 0;
                } catch (const conclave::error &e) {
                    return e.code().value();
                }
            },
            nullptr, std::forward<S>(style)...);
        return won;
    }

    /* The leader, in any naming, also of another library; empty: nobody leads. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static std::optional<participant> find_leader(const client &client, const std::string &path,
                                                  time_span timeout = forever, S &&...style)
    {
        const auto keep = client.shared();
        return detail::run<std::optional<participant>>(
            detail::no_sink(), "find_leader",
            [&](std::optional<participant> &value) -> int {
                conclave_participant *raw = nullptr;
                int error = keep ? conclave_election_find_leader(keep->recipes(), path.c_str(),
                                                                 detail::wait_ms(timeout), &raw)
                                 : static_cast<int>(CONCLAVE_ECLOSED);
                const std::unique_ptr<conclave_participant, void (*)(conclave_participant *)> held(
                    raw, conclave_participant_free);
                if (error == 0) {
                    value = detail::to_participant(*raw);
                }
                return error == CONCLAVE_NO_NODE ? 0 : error;
            },
            nullptr, std::forward<S>(style)...);
    }

    /* Whether this process leads now: the lease is checked against the clock at this moment. */
    bool leads() const noexcept
    {
        return ask_raw(false, conclave_election_is_leader);
    }
    conclave::token token() const noexcept
    {
        return ask_raw(conclave_token{}, conclave_election_token);
    }
    milliseconds lease_left() const noexcept
    {
        return milliseconds(ask_raw(int64_t(0), conclave_election_lease_left_ms));
    }
    /* Nanoseconds of CLOCK_BOOTTIME, for other processes. */
    int64_t lease_until_ns() const noexcept
    {
        return ask_raw(int64_t(0), conclave_election_lease_until_ns);
    }
    std::string node_name() const
    {
        std::array<char, 256> name{};
        if (conclave_election *there = native()) {
            conclave_election_node(there, name.data(), name.size());
        }
        return name.data();
    }

    /* Waits until this process leads. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    conclave::token wait(time_span timeout = forever, S &&...style) const
    {
        return run<conclave::token>(
            "wait",
            [=](conclave_election *there, conclave::token &value) {
                conclave_token raw{};
                int error = conclave_election_wait(there, detail::wait_ms(timeout), &raw);
                value = raw;
                return error;
            },
            nullptr, std::forward<S>(style)...);
    }

    /* Leads for the time of a function, conclave_election_take_turn. What it throws comes back, after the lead. */
    template <class F> void take_turn(F &&turn, time_span timeout = forever)
    {
        struct call {
            election *self;
            std::remove_reference_t<F> *turn;
            std::exception_ptr thrown;
        } its{this, &turn, nullptr};
        conclave_election *there = native();
        const int error = there == nullptr
                              ? static_cast<int>(CONCLAVE_ECLOSED)
                              : conclave_election_take_turn(
                                    there,
                                    [](conclave_election *, conclave_token token, void *ctx) {
                                        auto &one = *static_cast<call *>(ctx);
                                        try {
                                            (*one.turn)(*one.self, conclave::token(token));
                                        } catch (...) {
                                            one.thrown = std::current_exception();
                                        }
                                    },
                                    &its, detail::wait_ms(timeout));
        if (its.thrown) {
            std::rethrow_exception(its.thrown);
        }
        detail::check(error, "take_turn");
    }

    /* Writes the acknowledgement now (option ack = false). */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0> void ack(S &&...style)
    {
        run<detail::nothing>(
            "ack",
            [](conclave_election *there, detail::nothing &) {
                return conclave_election_ack(there);
            },
            nullptr, std::forward<S>(style)...);
    }

    /* Steps down, or leaves the queue; requeue: queues again at its end. Asynchronous. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void resign(bool requeue = true, S &&...style)
    {
        run<detail::nothing>(
            "resign",
            [=](conclave_election *there, detail::nothing &) {
                return conclave_election_resign(there, requeue);
            },
            nullptr, std::forward<S>(style)...);
    }

    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    void set_data(std::string_view data, S &&...style)
    {
        run<detail::nothing>(
            "set_data",
            [=](conclave_election *there, detail::nothing &) {
                return conclave_election_set_data(there, data.data(), data.size());
            },
            nullptr, std::forward<S>(style)...);
    }

    /* A transaction that is carried out only while this process leads; otherwise CONCLAVE_EFENCED. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    std::vector<part_result> fenced(const transaction &changes, S &&...style)
    {
        return run<std::vector<part_result>>(
            "fenced",
            [&](conclave_election *there, std::vector<part_result> &value) {
                return detail::call_fenced(
                    changes, value,
                    [&](const conclave_op *parts, size_t count, conclave_reply **ret) {
                        return conclave_election_fenced_multi(there, parts, count, ret);
                    });
            },
            nullptr, std::forward<S>(style)...);
    }

    /* The candidates at path in their order, the leader first. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static std::vector<participant> participants(const client &client, const std::string &path,
                                                 time_span timeout = forever, S &&...style)
    {
        return detail::run_list<participant>(
            client, "participants",
            [&](conclave_recipes *recipes, auto **list, size_t *count) {
                return conclave_election_participants(recipes, path.c_str(),
                                                      detail::wait_ms(timeout), list, count);
            },
            conclave_participants_free, detail::to_participant, std::forward<S>(style)...);
    }

    /* For operators: makes a candidate lead in place of the present leader, which queues again behind it
     * (conclave_election_hand_over). to: its id, or the name of its node. Not done: CONCLAVE_ECANCELED, and the text of the
     * exception names the outcome; with a std::error_code the result has it. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    static hand_over_result hand_over(const client &client, const std::string &path,
                                      const std::string &to, time_span timeout, S &&...style)
    {
        return detail::run_hand_over(conclave_election_hand_over, client, path, to, timeout,
                                     std::forward<S>(style)...);
    }

  private:
    /* A race. */
    election(const client &client, election_options options, std::optional<participant> *leader,
             time_span timeout)
        : basic_handle(client.shared(), std::move(options), "race",
                       [=](state &s, void *ctx, conclave_election **ret) {
                           return open(s, ctx, ret, true, leader, timeout);
                       })
    {
    }

    static int open(state &s, void *ctx, conclave_election **ret, bool race = false,
                    std::optional<participant> *leader = nullptr, time_span timeout = forever)
    {
        const election_options &o = s.options;
        const detail::raw_acl acl(o.acl);
        conclave_election_options raw = CONCLAVE_ELECTION_OPTIONS_INIT;
        raw.path = o.path.c_str();
        raw.id = detail::or_null(o.id);
        raw.data = o.data.data();
        raw.data_len = o.data.size();
        raw.naming = o.naming;
        raw.lease = detail::to_raw(o.lease);
        raw.takeover_delay_ms = o.takeover_delay.count();
        raw.observe_only = o.observe_only;
        raw.observe = o.observe;
        raw.ack = o.ack;
        raw.requeue = o.requeue;
        raw.regrant = o.regrant;
        raw.no_wait = o.no_wait;
        raw.steal_stale_ack = o.steal_stale_ack;
        raw.backoff_min_ms = o.backoff_min.count();
        raw.backoff_max_ms = o.backoff_max.count();
        acl.put(raw);
        auto calls = detail::sized<conclave_election_callbacks>(0);
        calls.on_elected = [](conclave_election *there, conclave_token token, bool regrant,
                              void *self) {
            return state::ask(there, self, "on_elected", [&](state &its, election &view) {
                if (its.options.on_elected) {
                    its.options.on_elected(view, token, regrant);
                }
            });
        };
        calls.on_revoked = [](conclave_election *there, int why, int64_t stop_within_ms,
                              void *self) {
            state::enter(there, self, "on_revoked", [&](state &its, election &view) {
                if (its.options.on_revoked) {
                    its.options.on_revoked(view, detail::to_code(why),
                                           milliseconds(stop_within_ms));
                }
            });
        };
        calls.on_leader = [](conclave_election *there, const conclave_participant *leader,
                             bool acked, void *self) {
            state::enter(there, self, "on_leader", [&](state &its, election &view) {
                if (its.options.on_leader) {
                    std::optional<participant> copy;
                    if (leader != nullptr) {
                        copy = detail::to_participant(*leader);
                    }
                    its.options.on_leader(view, copy ? &*copy : nullptr, acked);
                }
            });
        };
        calls.on_closed = state::on_closed;
        if (!race) {
            return conclave_election_open(s.owner->recipes(), &raw, &calls, ctx, ret);
        }
        conclave_participant *there = nullptr;
        int error =
            conclave_election_race(s.owner->recipes(), &raw, &calls, ctx, detail::wait_ms(timeout),
                                   ret, leader != nullptr ? &there : nullptr);
        const std::unique_ptr<conclave_participant, void (*)(conclave_participant *)> held(
            there, conclave_participant_free);
        if (there != nullptr) {
            *leader = detail::to_participant(*there);
        }
        return error;
    }
};

/* --- master switch ------------------------------------------------------------------------ */

struct master_switch_options {
    std::string path{};
    std::string id{};
    std::string data{};
    std::function<void(token)> on_master{}; /* throw to refuse */
    std::function<void(milliseconds stop_within)> on_slave{};
    time_span takeover_delay{};
    acl_list acl{};
    conclave_naming naming = CONCLAVE_NAMING_NATIVE;
};

/* One of all processes that make it is the master, the others are slaves: an election with the settings that
 * most programs want, as conclave/master_switch.h. */
class master_switch
{
  public:
    master_switch() noexcept = default;
    master_switch(const client &client, master_switch_options options)
        : election_(client, to_election(std::move(options)))
    {
    }

    bool is_master() const noexcept
    {
        return election_.leads();
    }
    conclave::token token() const noexcept
    {
        return election_.token();
    }
    milliseconds lease_left() const noexcept
    {
        return election_.lease_left();
    }
    template <class... S> conclave::token wait(time_span timeout = forever, S &&...style) const
    {
        return election_.wait(timeout, std::forward<S>(style)...);
    }
    /* Lets another process become master, and queues at the end. Asynchronous. */
    void yield()
    {
        election_.resign(true);
    }
    void reset() noexcept
    {
        election_.reset();
    }
    explicit operator bool() const noexcept
    {
        return static_cast<bool>(election_);
    }
    /* The election behind it. */
    conclave::election &election() noexcept
    {
        return election_;
    }

  private:
    static election_options to_election(master_switch_options &&from)
    {
        election_options to;
        to.path = std::move(from.path);
        to.id = std::move(from.id);
        to.data = std::move(from.data);
        to.takeover_delay = from.takeover_delay;
        to.acl = std::move(from.acl);
        to.naming = from.naming;
        if (from.on_master) {
            to.on_elected = [f = std::move(from.on_master)](
                                conclave::election &, conclave::token token, bool) { f(token); };
        }
        if (from.on_slave) {
            to.on_revoked = [f = std::move(from.on_slave)](conclave::election &, std::error_code,
                                                           milliseconds within) { f(within); };
        }
        return to;
    }

    conclave::election election_;
};

} // namespace conclave

#endif
