#define _GNU_SOURCE /* explicit_bzero */
/*
 * conclave users: the file of users for authentication by digest (digest.users.file). It holds slow
 * hashes (scrypt), no passwords. The file is replaced as a whole, so a server never reads half of it.
 */
#include "cli/common/connection.h"
#include "cli/common/data_input.h"
#include "front/login/user_file.h"
#include "tls/scrypt.h"

#include <errno.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

enum { FILE_MAX = 1 << 20, PATH_MAX_HERE = 4096, PASSWORD_MAX = 1024 };

enum users_verb { USERS_ADD, USERS_REMOVE, USERS_LIST };
static const struct command_verb VERBS[] = {
    {"add", 2, 2, false}, {"remove", 2, 2, false}, {"list", 1, 1, false}, {.name = NULL}};

struct users_options {
    const char *password_file;
};

static const struct command_usage USAGE = {
    .name = "users",
    .forms = (const char *const[]){"add FILE NAME [--password-file FILE]", "remove FILE NAME",
                                   "list FILE", NULL},
    .about =
        "Edits the file of users for authentication by digest: digest.users.file of "
        "conclave server. add creates the file if it does not exist, and replaces the password of "
        "a user that the file has already. It asks for the password at the terminal, or reads it "
        "from the first line of the standard input, or of --password-file.\n\n"
        "The file holds a line NAME:HASH per user; the hash is scrypt's. Servers read it at "
        "their start and on SIGHUP.",
    .rows = (const struct option_row[]){{"password-file", 0, OPTION_STRING,
                                         offsetof(struct users_options, password_file), "FILE",
                                         "Its first line is the password."},
                                        {0}},
    .verbs = VERBS,
};

static int users_fail(const char *path, const char *what)
{
    fprintf(stderr, "conclave users: %s: %s\n", path, what);
    return CLI_EXIT_IO;
}

/* Reads the file's text and checks it. A missing file is empty, unless `wanted`. */
static int read_users(const char *path, bool wanted, struct buf *out)
{
    struct user_file users;
    unsigned line;
    const char *why;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return errno == ENOENT && !wanted ? 0 : users_fail(path, strerror(errno));
    }
    int error = stream_read(file, out);
    (void)fclose(file);
    if (error != 0) {
        return users_fail(path, "cannot be read, or is larger than 1 MiB");
    }
    int rc = user_file_parse(buf_slice(out), &users, &line, &why);
    if (rc != 0) {
        fprintf(stderr, "conclave users: %s line %u: %s\n", path, line, why);
        return CLI_EXIT_IO;
    }
    user_file_finish(&users);
    return 0;
}

static int write_users(const char *path, const struct buf *text)
{
    char aside[PATH_MAX_HERE];
    if (snprintf(aside, sizeof aside, "%s.XXXXXX", path) >= (int)sizeof aside) {
        return users_fail(path, "the name is too long");
    }
    int error = file_make(aside, buf_slice(text), 0600);
    if (error == 0 && rename(aside, path) != 0) {
        error = errno;
        (void)unlink(aside);
    }
    return error == 0 ? 0 : users_fail(path, strerror(error));
}

/* The lines of all others. */
static bool keep_others(struct slice text, const char *name, struct buf *out)
{
    bool found = false;
    size_t len = strlen(name);
    while (text.len > 0) {
        const uint8_t *end = memchr(text.data, '\n', text.len);
        size_t line = end != NULL ? (size_t)(end - text.data) : text.len;
        bool own = line > len && memcmp(text.data, name, len) == 0 && text.data[len] == ':';
        found = found || own;
        if (!own) {
            buf_append(out, text.data, line);
            buf_append_u8(out, '\n');
        }
        line += line < text.len;
        text = slice_make(text.data + line, text.len - line);
    }
    return found;
}

/* Reads a line without its newline. NULL, or why that is no password. */
static const char *read_line(FILE *file, char password[PASSWORD_MAX])
{
    if (fgets(password, PASSWORD_MAX, file) == NULL) {
        return "the password is empty";
    }
    size_t len = strcspn(password, "\r\n");
    if (len == PASSWORD_MAX - 1) {
        return "the password is too long"; /* there may be more of it */
    }
    password[len] = '\0';
    return len == 0 ? "the password is empty" : NULL;
}

static const char *ask_password(const char *name, char password[PASSWORD_MAX])
{
    struct termios shown;
    if (!isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &shown) != 0) {
        return read_line(stdin, password);
    }
    struct termios hidden = shown;
    hidden.c_lflag &= ~(tcflag_t)ECHO;
    fprintf(stderr, "Password of %s: ", name);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
    const char *why = read_line(stdin, password);
    (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
    fputc('\n', stderr);
    return why;
}

static int read_password(const struct users_options *o, const char *name,
                         char password[PASSWORD_MAX])
{
    const char *why;
    if (o->password_file != NULL) {
        FILE *file = fopen(o->password_file, "re");
        if (file == NULL) {
            return users_fail(o->password_file, strerror(errno));
        }
        why = read_line(file, password);
        (void)fclose(file);
    } else {
        why = ask_password(name, password);
    }
    if (why != NULL) {
        fprintf(stderr, "conclave users: %s\n", why);
        return CLI_EXIT_USAGE;
    }
    return 0;
}

static int users_add(const struct users_options *o, const char *path, const char *name)
{
    char password[PASSWORD_MAX];
    struct buf old;
    struct buf text;
    buf_init(&old, FILE_MAX);
    buf_init(&text, 0);
    int rc = read_users(path, false, &old);
    rc = rc == 0 ? read_password(o, name, password) : rc;
    if (rc == 0) {
        (void)keep_others(buf_slice(&old), name, &text);
        buf_printf(&text, "%s:", name);
        rc = scrypt_hash(slice_str(password), &text) == 0 ? 0 : CLI_EXIT_INTERNAL;
        buf_append_u8(&text, '\n');
        rc = rc == 0 && buf_ok(&text) ? write_users(path, &text) : CLI_EXIT_INTERNAL;
    }
    explicit_bzero(password, sizeof password);
    buf_finish(&old);
    buf_finish(&text);
    return rc;
}

static int users_remove(const char *path, const char *name)
{
    struct buf old;
    struct buf text;
    buf_init(&old, FILE_MAX);
    buf_init(&text, 0);
    int rc = read_users(path, true, &old);
    if (rc == 0 && !keep_others(buf_slice(&old), name, &text)) {
        fprintf(stderr, "conclave users: %s: there is no user %s\n", path, name);
        rc = CLI_EXIT_FAILED;
    }
    if (rc == 0) {
        rc = buf_ok(&text) ? write_users(path, &text) : CLI_EXIT_INTERNAL;
    }
    buf_finish(&old);
    buf_finish(&text);
    return rc;
}

static int users_list(const char *path)
{
    struct buf text;
    struct user_file users;
    unsigned line;
    const char *why;
    buf_init(&text, FILE_MAX);
    int rc = read_users(path, true, &text);
    if (rc == 0 && user_file_parse(buf_slice(&text), &users, &line, &why) == 0) {
        for (size_t i = 0; i < users.count; i++) {
            printf("%s\n", users.rows[i].name);
        }
        user_file_finish(&users);
        rc = output_end(USAGE.name, 0);
    }
    buf_finish(&text);
    return rc;
}

int command_users(int argc, char **argv)
{
    struct users_options options = {0};
    struct operands operands;
    int rc = options_parse(&USAGE, argc, argv, &options, &operands);
    if (rc != OPTIONS_GO_ON) {
        return rc;
    }
    const char *path = operands.words[1];
    if (operands.verb == USERS_LIST) {
        return users_list(path);
    }
    const char *name = operands.words[2];
    if (!user_file_name_is_good(slice_str(name))) {
        return usage_error(&USAGE,
                           "'%s' cannot be a user: a name has no colon and no blank, and "
                           "does not begin with #",
                           name);
    }
    return operands.verb == USERS_ADD ? users_add(&options, path, name) : users_remove(path, name);
}
