/*
 * Runs the cases of the C++ header against one server: cpp_test PORT [NAME...]. Built as C++17 and as C++20.
 */
#include "cpp_test.h"

#include <atomic>
#include <cstring>

std::string server;
std::string other_name;

conclave::client connect()
{
    conclave::client_options options;
    options.servers = server;
    options.session_timeout = std::chrono::seconds(10);
    conclave::client client(std::move(options));
    client.wait_connected(patience);
    return client;
}

std::string fresh(const char *name)
{
    static std::atomic<int> last{0};
    return "/cpp" + std::to_string(__cplusplus) + "-" + name + std::to_string(++last);
}

static bool run(const test_case &one)
{
    const auto began = std::chrono::steady_clock::now();
    std::string what = "FAILED  ";
    std::string why;
    try {
        one.run();
        what = "ok      ";
    } catch (const std::exception &e) {
        why = e.what();
    }
    const auto took = std::chrono::steady_clock::now() - began;
    std::cout << what << one.name << " ("
              << std::chrono::duration_cast<std::chrono::milliseconds>(took).count() << " ms)  "
              << why << std::endl;
    return why.empty();
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        std::cerr << "usage: cpp_test PORT [NAME...]\n";
        return 64;
    }
    server = std::string("127.0.0.1:") + argv[1];
    other_name = std::string("localhost:") + argv[1];
    int passed = 0;
    int failed = 0;
    for (const auto *cases :
         {&client_cases, &recipe_cases, &life_cases, &redis_cases, &admin_cases, &testing_cases}) {
        for (const auto &one : *cases) {
            bool wanted = argc == 2;
            for (int i = 2; i < argc; i++) {
                wanted = wanted || std::strcmp(argv[i], one.name) == 0;
            }
            if (wanted) {
                (run(one) ? passed : failed)++;
            }
        }
    }
    std::cout << passed << " passed, " << failed << " failed" << std::endl;
    return failed == 0 ? 0 : 1;
}
