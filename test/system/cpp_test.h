/*
 * What the C++ tests share: checks, waiting for an event, the server's address.
 */
#ifndef TEST_SYSTEM_CPP_TEST_H
#define TEST_SYSTEM_CPP_TEST_H

#include <conclave/conclave.hpp>

#include <stdexcept>
#include <string>

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)
/* Ends the case if it is not so. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            throw std::runtime_error(__FILE__ ":" STRING(__LINE__) ": " #condition);               \
        }                                                                                          \
    } while (0)
/* Ends the case unless the condition becomes true. */
#define UNTIL(condition) CHECK(eventually([&] { return static_cast<bool>(condition); }))

/* Time for what has to happen; a machine that is busy needs it. */
constexpr std::chrono::seconds patience(60);

/* Whether done() becomes true. */
template <class F> bool eventually(F &&done)
{
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (!done()) {
        if (std::chrono::steady_clock::now() > deadline) {
            return false;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
}

/* "127.0.0.1:PORT" of the server, and of the same server by another name. */
extern std::string server;
extern std::string other_name;

/* A client of the server, and a path that no other case uses, without a node. */
conclave::client connect();
std::string fresh(const char *name);

/* The code that f throws; 0: none. */
template <class F> int code_of(F &&f)
{
    try {
        f();
        return 0;
    } catch (const conclave::error &e) {
        return e.code().value();
    }
}

struct test_case {
    const char *name;
    void (*run)();
};
extern const std::vector<test_case> client_cases;
extern const std::vector<test_case> recipe_cases;
extern const std::vector<test_case> life_cases;
extern const std::vector<test_case> redis_cases;
extern const std::vector<test_case> admin_cases;
extern const std::vector<test_case> testing_cases;

#endif
