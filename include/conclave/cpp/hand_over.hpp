/*
 * For operators, in C++: how a hand-over ended (conclave/hand_over.h). conclave::election, conclave::mutex and
 * conclave::elector have the call.
 */
#ifndef CONCLAVE_CPP_HAND_OVER_HPP
#define CONCLAVE_CPP_HAND_OVER_HPP

#include <conclave/cpp/client.hpp>

#include <conclave/hand_over.h>

namespace conclave
{

/* As struct conclave_hand_over. */
struct hand_over_result {
    conclave_hand_over_outcome outcome = CONCLAVE_HAND_OVER_DONE;
    std::string active; /* id of the one that is active or first now; empty: none */
    conclave::token token{};
};

namespace detail
{

/* call: conclave_election_hand_over, or one with the same arguments. */
template <class Call, class... S>
hand_over_result run_hand_over(Call call, const client &client, const std::string &path,
                               const std::string &to, time_span timeout, S &&...style)
{
    return run_on<hand_over_result>(
        client, "hand_over",
        [&](conclave_recipes *recipes, hand_over_result &value) {
            conclave_hand_over raw = CONCLAVE_HAND_OVER_INIT;
            const int error = call(recipes, path.c_str(), to.c_str(), wait_ms(timeout), &raw);
            value = {raw.outcome, text(raw.active), raw.token};
            if constexpr (sizeof...(S) == 0) {
                if (error == CONCLAVE_ECANCELED) {
                    throw conclave::error(error, (std::string("hand_over: ") +
                                                  conclave_hand_over_outcome_name(raw.outcome))
                                                     .c_str());
                }
            }
            return error;
        },
        std::forward<S>(style)...);
}

} // namespace detail
} // namespace conclave

#endif
