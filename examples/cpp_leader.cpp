/*
 * A leader with a token, in C++: works while it leads, and hands the token to the storage with every step.
 *
 *     c++ -std=c++17 cpp_leader.cpp -o cpp_leader $(pkg-config --cflags --libs conclave) -pthread
 *     ./cpp_leader /demo/leader alice
 */
#include <conclave/conclave.hpp>

#include <csignal>

static volatile std::sig_atomic_t stopping;

int main(int argc, char **argv)
try {
    if (argc != 3) {
        std::cerr << "usage: cpp_leader PATH NAME\n";
        return 64;
    }
    for (int number : {SIGINT, SIGTERM}) {
        std::signal(number, [](int) { stopping = 1; });
    }
    conclave::client client(conclave::client_options{}); // $CONCLAVE_SERVER, or 127.0.0.1:2181
    conclave::election election(client, {argv[1], argv[2]});
    std::error_code ec;
    while (stopping == 0) {
        const conclave::token token = election.wait(std::chrono::milliseconds(100), ec);
        if (ec && ec != CONCLAVE_ETIMEDOUT) {
            throw std::system_error(ec, argv[1]);
        }
        for (int step = 1; !ec && stopping == 0 && election.leads(); step++) {
            std::cout << argv[2] << " leads, token " << token.value() << ", step " << step
                      << std::endl;
            std::this_thread::sleep_for(std::chrono::milliseconds(500));
        }
    }
} catch (const std::exception &e) {
    std::cerr << "cpp_leader: " << e.what() << '\n';
    return 1;
}
