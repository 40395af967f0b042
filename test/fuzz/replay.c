/*
 * Replays the corpus of one fuzzer as a test: calls LLVMFuzzerTestOneInput with every file of the
 * folders given, each in a block of exactly its size; the bound of cost.h holds as well. Needs no
 * libFuzzer. Speaks TAP. Fails when it finds no file; a fuzzer that finds a fault aborts.
 */
#include "fuzz/cost.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The whole file, or NULL. */
static uint8_t *read_whole(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    uint8_t *bytes = NULL;
    long size = -1;
    if (fseek(file, 0, SEEK_END) == 0) {
        size = ftell(file);
        rewind(file);
    }
    if (size >= 0) {
        bytes = malloc(size > 0 ? (size_t)size : 1);
    }
    if (bytes != NULL && size > 0) {
        /* Blocks of malloc(size) bytes let AddressSanitizer see the first byte beyond. */
        if (fread(bytes, 1, (size_t)size, file) != (size_t)size) {
            free(bytes);
            bytes = NULL;
        }
    }
    (void)fclose(file);
    *ret_size = size > 0 ? (size_t)size : 0;
    return bytes;
}

static int only_files(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int replay_folder(const char *folder, int *number)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, only_files, alphasort);
    if (count <= 0) {
        printf("not ok %d - %s: no corpus\n", ++*number, folder);
        free(entries);
        return 1;
    }
    int failures = 0;
    for (int i = 0; i < count; i++) {
        char path[4096];
        (void)snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        size_t size = 0;
        uint8_t *bytes = read_whole(path, &size);
        ++*number;
        if (bytes == NULL) {
            printf("not ok %d - %s cannot be read\n", *number, path);
            failures++;
        } else {
            (void)fprintf(stderr, "# %s\n", path); /* the last of these names the culprit */
            (void)LLVMFuzzerTestOneInput(bytes, size);
            printf("ok %d - %s\n", *number, entries[i]->d_name);
        }
        free(bytes);
        free(entries[i]);
    }
    free(entries);
    return failures;
}

int main(int argc, char **argv)
{
    int number = 0, failures = 0;
    if (argc < 2) {
        (void)fprintf(stderr, "usage: %s FOLDER...\n", argv[0]);
        return 64;
    }
    for (int i = 1; i < argc; i++) {
        failures += replay_folder(argv[i], &number);
    }
    printf("1..%d\n", number);
    return failures > 0 ? 1 : 0;
}
