/*
 * All of the library for C++17 and later: handles that close themselves, lambdas, std::chrono, exceptions or
 * std::error_code, futures, and with C++20 coroutines. Header only, over the C functions.
 *
 *     conclave::client client({"10.0.0.1:2181,10.0.0.2:2181"});
 *     conclave::election election(client, {"/jobs/leader", "alice"});
 *     conclave::token token = election.wait();
 *
 * Read in this order: conclave/cpp/async.hpp (styles of a call), conclave/cpp/handle.hpp (life of a handle, exceptions in
 * callbacks), conclave/cpp/client.hpp, then the recipes. docs/cpp.md is an introduction.
 *
 * The first members of options are those that most programs set; in C++20 write {.path = "/a", .on_closed = ...}.
 * Callbacks are called one at a time, by a thread of the library (conclave/recipes.h), and get a reference to the handle
 * that lives as long as the call. Functions that wait fail in a callback with CONCLAVE_EDEADLK.
 */
#ifndef CONCLAVE_CONCLAVE_HPP
#define CONCLAVE_CONCLAVE_HPP

#include <conclave/cpp/cache.hpp>
#include <conclave/cpp/client.hpp>
#include <conclave/cpp/client_base.hpp>
#include <conclave/cpp/election.hpp>
#include <conclave/cpp/elector.hpp>
#include <conclave/cpp/fence.hpp>
#include <conclave/cpp/group.hpp>
#include <conclave/cpp/hand_over.hpp>
#include <conclave/cpp/lease.hpp>
#include <conclave/cpp/lock.hpp>
#include <conclave/cpp/partitioner.hpp>
#include <conclave/cpp/queue.hpp>
#include <conclave/cpp/redis.hpp>
#include <conclave/cpp/test_server.hpp>
#include <conclave/cpp/value.hpp>

#endif
