/*
 * A foreign library that the program loads when it first calls it. Few runs need such a library, and its start-up time is
 * that of all the libraries below it: without this, they would more than double the time in which a server for tests is ready.
 *
 * A file that calls the library lists its functions once, and includes the library's header, which gives them their types:
 *
 *   #define SNAPPY(F) F(snappy_uncompress) F(snappy_uncompressed_length)
 *   LATE_LIBRARY(snappy, SNAPPY, "libsnappy.so.1")
 *   ...
 *   const struct snappy_functions *snappy = snappy_load();
 *   if (snappy != NULL && snappy->snappy_uncompress(...) == SNAPPY_OK) ...
 *
 * The names of the library's files follow, the preferred one first. A library stays loaded until the process ends.
 */
#ifndef BASE_LATE_LIBRARY_H
#define BASE_LATE_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>

struct late_library {
    const char *const *files;     /* ends with NULL */
    const char *const *functions; /* ends with NULL */
    void *addresses; /* one pointer per function; set by the first call that succeeds */
    pthread_mutex_t mutex;
    bool loaded;
};

/* Any thread. False: no such file, or one without the functions. A later call tries again. */
bool late_library_load(struct late_library *l);

#define LATE_MEMBER(function) __typeof__(&(function)) function;
#define LATE_NAME(function) #function,

/* Defines struct NAME_functions and NAME_load, which returns it, or NULL when the library cannot be loaded. */
#define LATE_LIBRARY(name, FUNCTIONS, ...)                                                         \
    struct name##_functions {                                                                      \
        FUNCTIONS(LATE_MEMBER)                                                                     \
    };                                                                                             \
    static const struct name##_functions *name##_load(void)                                        \
    {                                                                                              \
        static const char *const files[] = {__VA_ARGS__, NULL};                                    \
        static const char *const names[] = {FUNCTIONS(LATE_NAME) NULL};                            \
        static struct name##_functions functions;                                                  \
        static struct late_library library = {files, names, &functions, PTHREAD_MUTEX_INITIALIZER, \
                                              false};                                              \
        return late_library_load(&library) ? &functions : NULL;                                    \
    }

#endif
