#define _GNU_SOURCE /* asprintf */
#include "cli/shell/shell_edit.h"

#include "base/foreign/late_library.h"
#include "cli/common/node_output.h"
#include "cli/shell/shell_words.h"

#include <fcntl.h>
#include <histedit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HISTORY_LINES = 1000,
    HISTORY_LINE_MAX = 16 * 1024,
    CHOICES_SHOWN = 100,
};

#define LIBEDIT(F)                                                                                 \
    F(el_init)                                                                                     \
    F(el_end)                                                                                      \
    F(el_reset)                                                                                    \
    F(el_gets)                                                                                     \
    F(el_set)                                                                                      \
    F(el_wset)                                                                                     \
    F(el_get)                                                                                      \
    F(el_source)                                                                                   \
    F(el_line)                                                                                     \
    F(el_insertstr)                                                                                \
    F(el_deletestr)                                                                                \
    F(history_init)                                                                                \
    F(history_end)                                                                                 \
    F(history)
LATE_LIBRARY(libedit, LIBEDIT, "libedit.so.2", "libedit.so.0")

struct shell_edit {
    const struct libedit_functions *f;
    EditLine *el;
    History *history;
    char *file; /* of the history, or NULL */
    struct conclave_client *client;
    shell_name_fn names;
    bool interrupted;
    char prompt[48];
};

/* --- completion -------------------------------------------------------------------------------- */

/* Completions of a word: whole words, on the heap. */
struct choices {
    char **items;
    size_t count;
};

/* Takes over word, also when it fails. */
static void choices_add_take(struct choices *c, char *word)
{
    char **items = word != NULL ? realloc(c->items, (c->count + 1) * sizeof *items) : NULL;
    if (items == NULL) {
        free(word); /* one choice less, as memory is out */
        return;
    }
    c->items = items;
    c->items[c->count++] = word;
}

static void find_names(const struct shell_edit *edit, const char *word, struct choices *ret)
{
    const char *name;
    for (size_t i = 0; (name = edit->names(i)) != NULL; i++) {
        if (strncmp(name, word, strlen(word)) == 0) {
            choices_add_take(ret, strdup(name));
        }
    }
}

/* Children of the node that word names up to its last "/". */
static void find_paths(const struct shell_edit *edit, const char *word, struct choices *ret)
{
    const char *prefix = strrchr(word, '/') + 1;
    size_t len = (size_t)(prefix - word);
    char *parent = strndup(word, len > 1 ? len - 1 : 1);
    if (parent == NULL) {
        return;
    }
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_GET_CHILDREN, parent, 0);
    struct conclave_reply *reply = NULL;
    int error = conclave_call(edit->client, &op, &reply);
    const char **names = error == 0 ? names_sorted(reply->children, reply->children_count) : NULL;
    for (size_t i = 0; names != NULL && i < reply->children_count; i++) {
        if (strncmp(names[i], prefix, strlen(prefix)) == 0) {
            choices_add_take(ret, node_path(parent, names[i]));
        }
    }
    free(names);
    conclave_reply_free(reply);
    free(parent);
}

/* How many bytes all choices have in common, no character being cut in two. */
static size_t common_prefix(const struct choices *c)
{
    size_t len = strlen(c->items[0]);
    for (size_t i = 1; i < c->count; i++) {
        size_t n = 0;
        while (n < len && c->items[i][n] == c->items[0][n]) {
            n++;
        }
        len = n;
    }
    while (len > 0 && (c->items[0][len] & 0xc0) == 0x80) {
        len--;
    }
    return len;
}

static bool has_children(const struct shell_edit *edit, const char *path)
{
    struct conclave_op op = conclave_op_path(CONCLAVE_OP_EXISTS, path, 0);
    struct conclave_reply *reply = NULL;
    bool has = conclave_call(edit->client, &op, &reply) == 0 && reply->stat.num_children > 0;
    conclave_reply_free(reply);
    return has;
}

static void show_choices(const struct choices *c)
{
    putchar('\n');
    for (size_t i = 0; i < c->count && i < CHOICES_SHOWN; i++) {
        const char *slash = strrchr(c->items[i], '/');
        puts(slash != NULL ? slash + 1 : c->items[i]);
    }
    if (c->count > CHOICES_SHOWN) {
        printf("... and %zu more\n", c->count - CHOICES_SHOWN);
    }
    fflush(stdout);
}

/* Puts text in the place of the `typed` bytes before the cursor. */
static unsigned char replace_word(EditLine *el, size_t typed, const char *text, bool *ret_changed)
{
    const LineInfo *line = libedit_load()->el_line(el);
    *ret_changed = strlen(text) != typed || memcmp(line->cursor - typed, text, typed) != 0;
    if (!*ret_changed) {
        return CC_NORM;
    }
    /* el_deletestr counts characters. */
    int characters = 0;
    for (const char *p = line->cursor - typed; p < line->cursor; p++) {
        characters += (*p & 0xc0) != 0x80;
    }
    libedit_load()->el_deletestr(el, characters);
    return libedit_load()->el_insertstr(el, text) == 0 ? CC_REFRESH : CC_ERROR;
}

/* The word becomes what all choices begin with; a single choice also gets what follows it. */
static unsigned char apply_choices(struct shell_edit *edit, size_t typed, struct choices *c)
{
    bool single = c->count == 1;
    bool branch = single && c->items[0][0] == '/' && has_children(edit, c->items[0]);
    c->items[0][common_prefix(c)] = '\0';
    char *quoted = shell_word_quote(c->items[0]);
    char *text = NULL;
    if (quoted == NULL || asprintf(&text, "%s%s", quoted, branch ? "/" : single ? " " : "") < 0) {
        free(quoted);
        return CC_ERROR;
    }
    bool changed;
    unsigned char result = replace_word(edit->el, typed, text, &changed);
    free(quoted);
    free(text);
    return changed ? result : CC_CURSOR;
}

static unsigned char complete(EditLine *el, wint_t key)
{
    struct shell_edit *edit = NULL;
    libedit_load()->el_get(el, EL_CLIENTDATA, &edit);
    const LineInfo *line = libedit_load()->el_line(el);
    size_t len = (size_t)(line->cursor - line->buffer);
    size_t start;
    char *word;
    int index;
    if (shell_word_at_end(line->buffer, len, &start, &word, &index) != 0) {
        return CC_ERROR;
    }
    struct choices choices = {NULL, 0};
    if (word[0] == '/') {
        find_paths(edit, word, &choices);
    } else if (index == 0) {
        find_names(edit, word, &choices);
    }
    free(word);
    unsigned char result = CC_ERROR; /* a beep */
    if (choices.count > 0) {
        char *first = strdup(choices.items[0]);
        result = apply_choices(edit, len - start, &choices);
        if (result == CC_CURSOR && choices.count > 1 && first != NULL) {
            free(choices.items[0]);
            choices.items[0] = first;
            first = NULL;
            show_choices(&choices);
            result = CC_REDISPLAY;
        }
        free(first);
    }
    for (size_t i = 0; i < choices.count; i++) {
        free(choices.items[i]);
    }
    free(choices.items);
    return result;
}

/* --- reading ----------------------------------------------------------------------------------- */

static unsigned char interrupt(EditLine *el, wint_t key)
{
    struct shell_edit *edit = NULL;
    libedit_load()->el_get(el, EL_CLIENTDATA, &edit);
    edit->interrupted = true;
    return CC_EOF;
}

static char *prompt(EditLine *el)
{
    struct shell_edit *edit = NULL;
    struct conclave_session session = CONCLAVE_SESSION_INIT;
    libedit_load()->el_get(el, EL_CLIENTDATA, &edit);
    conclave_client_session(edit->client, &session);
    bool linked = session.server[0] != '\0';
    snprintf(edit->prompt, sizeof edit->prompt, "conclave%s%s%s> ", linked ? "" : " (",
             linked ? "" : conclave_state_name(session.state), linked ? "" : ")");
    return edit->prompt;
}

static void history_open(struct shell_edit *edit)
{
    HistEvent event;
    const char *home = getenv("HOME");
    edit->f->history(edit->history, &event, H_SETSIZE, HISTORY_LINES);
    edit->f->history(edit->history, &event, H_SETUNIQUE, 1);
    if (home != NULL && home[0] == '/' &&
        asprintf(&edit->file, "%s/.conclave_history", home) >= 0) {
        edit->f->history(edit->history, &event, H_LOAD, edit->file);
    } else {
        edit->file = NULL;
    }
}

int shell_edit_create(struct conclave_client *client, shell_name_fn names, struct shell_edit **ret)
{
    struct shell_edit *edit = calloc(1, sizeof *edit);
    if (edit == NULL) {
        return CONCLAVE_ENOMEM;
    }
    edit->f = libedit_load();
    if (edit->f == NULL) {
        free(edit);
        return CONCLAVE_EUNSUPPORTED;
    }
    edit->client = client;
    edit->names = names;
    edit->el = edit->f->el_init("conclave", stdin, stdout, stderr);
    edit->history = edit->f->history_init();
    if (edit->el == NULL || edit->history == NULL) {
        shell_edit_destroy(edit);
        return CONCLAVE_ENOMEM;
    }
    history_open(edit);
    edit->f->el_set(edit->el, EL_CLIENTDATA, edit);
    edit->f->el_set(edit->el, EL_PROMPT, prompt);
    edit->f->el_set(edit->el, EL_EDITOR, "emacs");
    edit->f->el_set(edit->el, EL_HIST, edit->f->history, edit->history);
    /* The wide form: the narrow one copies the names and never frees them. */
    edit->f->el_wset(edit->el, EL_ADDFN, L"conclave-complete", L"complete a command or a path",
                     complete);
    edit->f->el_wset(edit->el, EL_ADDFN, L"conclave-interrupt", L"drop the line", interrupt);
    edit->f->el_set(edit->el, EL_BIND, "^I", "conclave-complete", NULL);
    edit->f->el_set(edit->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
    /* Ctrl-C is a key while a line is edited, so that no signal is in the way. */
    edit->f->el_set(edit->el, EL_SETTY, "-d", "-isig", NULL);
    edit->f->el_set(edit->el, EL_BIND, "^C", "conclave-interrupt", NULL);
    edit->f->el_source(edit->el, NULL);
    *ret = edit;
    return 0;
}

void shell_edit_destroy(struct shell_edit *edit)
{
    if (edit == NULL) {
        return;
    }
    if (edit->el != NULL) {
        edit->f->el_end(edit->el);
    }
    if (edit->history != NULL) {
        edit->f->history_end(edit->history);
    }
    free(edit->file);
    free(edit);
}

enum shell_input shell_edit_read(struct shell_edit *edit, const char **ret_line)
{
    int count = 0;
    edit->interrupted = false;
    const char *line = edit->f->el_gets(edit->el, &count);
    if (edit->interrupted) {
        puts("^C");
        edit->f->el_reset(edit->el);
        return SHELL_INTERRUPTED;
    }
    if (line == NULL || count <= 0) {
        putchar('\n');
        return SHELL_END;
    }
    *ret_line = line;
    return SHELL_LINE;
}

/* Aside first, then in its place: never half a history, never one that others can read. A
 * history that cannot be saved is no reason to disturb the work. */
static void history_save(struct shell_edit *edit)
{
    char *aside = NULL;
    HistEvent event;
    if (edit->file == NULL || asprintf(&aside, "%s.%d", edit->file, (int)getpid()) < 0) {
        return;
    }
    int fd = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *file = fd >= 0 ? fdopen(fd, "we") : NULL;
    if (file != NULL) {
        bool saved = edit->f->history(edit->history, &event, H_SAVE_FP, file) >= 0;
        saved = fclose(file) == 0 && saved;
        if (!saved || rename(aside, edit->file) != 0) {
            unlink(aside);
        }
    } else if (fd >= 0) {
        close(fd);
        unlink(aside);
    }
    free(aside);
}

void shell_edit_remember(struct shell_edit *edit, const char *line)
{
    HistEvent event;
    size_t len = strcspn(line, "\n");
    char *bare = len <= HISTORY_LINE_MAX ? strndup(line, len) : NULL;
    if (bare != NULL && edit->f->history(edit->history, &event, H_ENTER, bare) >= 0) {
        history_save(edit);
    }
    free(bare);
}
