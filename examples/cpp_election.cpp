/*
 * An election from C++: the handles in unique_ptrs, the callbacks as functions of a class.
 *
 *     c++ -std=c++20 cpp_election.cpp -o cpp_election $(pkg-config --cflags --libs conclave)
 *     ./cpp_election /demo/election alice
 *
 * No exception may leave a callback: the library is C.
 */
#include <conclave/election.h>

#include <csignal>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

volatile std::sig_atomic_t stopping;

void check(int error, const char *what)
{
    if (error != 0) {
        throw std::runtime_error(std::string(what) + ": " + conclave_strerror(error));
    }
}

struct client_closer {
    void operator()(conclave_client *client) const { conclave_client_close(client, 2000); }
};

struct recipes_destroyer {
    void operator()(conclave_recipes *recipes) const { conclave_recipes_destroy(recipes); }
};

/* Joins when it is made, leaves when it goes. */
class candidate {
public:
    candidate(conclave_recipes *recipes, const char *path, std::string name) : name(std::move(name))
    {
        conclave_election_callbacks callbacks{};
        callbacks.on_elected = [](conclave_election *, conclave_token token, bool, void *self) {
            return static_cast<candidate *>(self)->elected(token);
        };
        callbacks.on_revoked = [](conclave_election *, int why, int64_t, void *self) {
            static_cast<candidate *>(self)->revoked(why);
        };
        conclave_election_options options = CONCLAVE_ELECTION_OPTIONS_INIT;
        options.path = path;
        options.id = this->name.c_str();
        check(conclave_election_open(recipes, &options, &callbacks, this, &election), path);
    }

    candidate(const candidate &) = delete;
    candidate &operator=(const candidate &) = delete;

    ~candidate()
    {
        if (conclave_election_close_wait(election, CONCLAVE_FOREVER) == 0) {
            conclave_election_destroy(election);
        }
    }

    bool leads() const { return conclave_election_is_leader(election); }

private:
    int elected(conclave_token token) const noexcept
    {
        std::cout << name << " leads, token " << token.czxid << std::endl;
        return 0;
    }

    void revoked(int why) const noexcept
    {
        std::cout << name << " leads no more: " << conclave_strerror(why) << std::endl;
    }

    std::string name;
    conclave_election *election = nullptr;
};

void run(const char *path, const char *name)
{
    conclave_client_options options = CONCLAVE_CLIENT_OPTIONS_INIT;
    conclave_client *opened = nullptr;
    conclave_recipes *created = nullptr;
    check(conclave_client_open(&options, &opened), "client");
    std::unique_ptr<conclave_client, client_closer> client(opened);
    check(conclave_client_start(client.get()), "client");
    check(conclave_recipes_open(client.get(), &created), "recipes");
    std::unique_ptr<conclave_recipes, recipes_destroyer> recipes(created);
    candidate one(recipes.get(), path, name);
    while (stopping == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 3) {
        std::cerr << "usage: cpp_election PATH NAME\n";
        return 64;
    }
    std::signal(SIGINT, [](int) { stopping = 1; });
    std::signal(SIGTERM, [](int) { stopping = 1; });
    try {
        run(argv[1], argv[2]);
    } catch (const std::exception &error) {
        std::cerr << "cpp_election: " << error.what() << '\n';
        return 1;
    }
    return 0;
}
