/*
 * The output of a command, for people and for programs: a line of columns with tabs between, or with --json an object.
 * Each value is given once, with the name of its member. Members that only JSON has go to `j`, if `json`.
 *
 *     record_begin(&r, as_json);                a line, or a list inside the object:
 *     record_string(&r, "id", id);              record_list_begin(&r, "members", count, "ID\tTOKEN");
 *     record_int(&r, "token", token);           for each: record_row_begin(&r), values, record_row_end(&r)
 *     error = record_print(&r);                 record_list_end(&r);
 */
#ifndef CLI_COMMON_RECORD_H
#define CLI_COMMON_RECORD_H

#include "base/json.h"

struct record {
    bool json;
    bool column; /* the line of text has a column already */
    struct json j;
};

void record_begin(struct record *r, bool as_json);

/* The member "path", which is no column. */
void record_add_path(struct record *r, const char *path);

/* A column; key NULL: not a member. */
void record_string(struct record *r, const char *key, const char *text);
void record_int(struct record *r, const char *key, int64_t value);

/* The data of a node: its bytes, control characters as "?"; in JSON "data" or "data_base64". */
void record_data(struct record *r, const void *data, size_t len);

/* "-", and null, where the number is not known. */
void record_int_or_none(struct record *r, const char *key, bool known, int64_t value);

/* A list of `rows` rows; titles: its columns', with tabs between. Text without rows has no titles. */
void record_list_begin(struct record *r, const char *key, size_t rows, const char *titles);
void record_row_begin(struct record *r);
void record_row_end(struct record *r);
void record_list_end(struct record *r);

/* A list of texts, a line each. */
void record_names(struct record *r, const char *key, const char *const *names, size_t count);

/* Ends the line, writes it and flushes. 0, CONCLAVE_ENOMEM or CONCLAVE_EIO. */
int record_print(struct record *r);

#endif
