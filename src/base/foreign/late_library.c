#include "base/foreign/late_library.h"

#include <assert.h>
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

static void *late_open(const char *const *files)
{
    void *handle = NULL;
    for (; handle == NULL && *files != NULL; files++) {
        handle = dlopen(*files, RTLD_NOW | RTLD_LOCAL);
    }
    return handle;
}

static bool late_resolve(const struct late_library *l, void *handle)
{
    char *to = l->addresses;
    for (size_t i = 0; l->functions[i] != NULL; i++) {
        void *address = dlsym(handle, l->functions[i]);
        if (address == NULL) {
            return false;
        }
        memcpy(to + i * sizeof address, &address, sizeof address);
    }
    return true;
}

bool late_library_load(struct late_library *l)
{
    assert(l->files != NULL && l->functions[0] != NULL && l->addresses != NULL);
    pthread_mutex_lock(&l->mutex);
    if (!l->loaded) {
        void *handle = late_open(l->files);
        l->loaded = handle != NULL && late_resolve(l, handle);
        if (handle != NULL && !l->loaded) {
            dlclose(handle);
        }
    }
    bool loaded = l->loaded;
    pthread_mutex_unlock(&l->mutex);
    return loaded;
}
