/*
 * Fencing tokens in C++ (conclave/fencing.h): bindings of the servers, and gates of other resources.
 *
 *     conclave::fence::bind(client, "/accounts", "/locks/accounts");     only the holder of that lock writes there
 *
 *     if (gate.admit(token)) { store(gate.text()); }                     throws if a newer token was seen
 *     ... the action of the token's holder ...
 */
#ifndef CONCLAVE_CPP_FENCE_HPP
#define CONCLAVE_CPP_FENCE_HPP

#include <conclave/cpp/client.hpp>

#include <conclave/fencing.h>

namespace conclave
{

/* As struct conclave_fence_binding. */
struct fence_binding {
    std::string prefix;
    std::string lock;
    milliseconds lock_delay{0};
    std::optional<std::chrono::system_clock::time_point> closed_until; /* of a running delay */
};

namespace detail
{

inline fence_binding to_fence_binding(const conclave_fence_binding &raw)
{
    fence_binding made;
    made.prefix = text(raw.prefix);
    made.lock = text(raw.lock);
    made.lock_delay = milliseconds(raw.lock_delay_ms);
    if (raw.closed_until_ms != 0) {
        made.closed_until = to_time(raw.closed_until_ms);
    }
    return made;
}

} // namespace detail

namespace fence
{

/* Nodes at and below prefix can be written only by the holder of the lock, or the leader of the election, at path lock. */
template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
void bind(const client &client, const std::string &prefix, const std::string &lock,
          time_span lock_delay = {}, time_span timeout = forever, S &&...style)
{
    detail::run_on<detail::nothing>(
        client, "bind",
        [&](conclave_recipes *, detail::nothing &) {
            return conclave_fence_bind(client.native(), prefix.c_str(), lock.c_str(),
                                       lock_delay.count(), detail::wait_ms(timeout));
        },
        std::forward<S>(style)...);
}

/* CONCLAVE_NO_NODE: it is not bound. */
template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
void unbind(const client &client, const std::string &prefix, time_span timeout = forever,
            S &&...style)
{
    detail::run_on<detail::nothing>(
        client, "unbind",
        [&](conclave_recipes *, detail::nothing &) {
            return conclave_fence_unbind(client.native(), prefix.c_str(), detail::wait_ms(timeout));
        },
        std::forward<S>(style)...);
}

/* All bindings, by prefix. */
template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
std::vector<fence_binding> list(const client &client, time_span timeout = forever, S &&...style)
{
    return detail::run_list<fence_binding>(
        client, "list",
        [&](conclave_recipes *, auto **bindings, size_t *count) {
            return conclave_fence_list(client.native(), detail::wait_ms(timeout), bindings, count);
        },
        conclave_fence_list_free, detail::to_fence_binding, std::forward<S>(style)...);
}

/* Whether the token's node is still that of the first contender at path. */
template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
bool is_current(const client &client, const std::string &path, token token,
                time_span timeout = forever, S &&...style)
{
    return detail::run_on<bool>(
        client, "is_current",
        [&](conclave_recipes *, bool &value) {
            return conclave_token_is_current(client.native(), path.c_str(), token.native(),
                                             detail::wait_ms(timeout), &value);
        },
        std::forward<S>(style)...);
}

} // namespace fence

/* The newest token that a resource has seen, as struct conclave_token_gate. No I/O; not for several threads at once. */
class token_gate
{
  public:
    /* Of a resource that has seen no token. */
    token_gate() noexcept = default;
    /* Of what text() gave; CONCLAVE_ECORRUPT: it is not a gate. */
    explicit token_gate(std::string_view text)
    {
        detail::check(conclave_token_gate_parse(text.data(), text.size(), &raw_), "token_gate");
    }

    /* Lets the holder of a token act, or throws: CONCLAVE_EFENCED, a newer token was seen; CONCLAVE_ECONFLICT, the token is
     * of another ensemble. true: store text() durably before the action. */
    template <class... S, detail::waiting_styles<detail::nothing, S...> = 0>
    bool admit(token token, const std::string &ensemble = {}, S &&...style)
    {
        return detail::run<bool>(
            detail::no_sink(), "admit",
            [&](bool &changed) {
                return conclave_token_gate_admit(&raw_, ensemble.c_str(), token.native(), &changed);
            },
            nullptr, std::forward<S>(style)...);
    }

    token newest() const noexcept
    {
        return conclave_token{raw_.newest};
    }

    /* One line with a newline, for a file. */
    std::string text() const
    {
        std::array<char, CONCLAVE_TOKEN_GATE_TEXT_MAX> line{};
        conclave_token_gate_print(&raw_, line.data());
        return line.data();
    }

  private:
    conclave_token_gate raw_{};
};

} // namespace conclave

#endif
