#include "admin/four_letter_words.h"

#include "admin/answers/ensemble_answers.h"
#include "admin/answers/four_letter_text.h"
#include "base/endian.h"

#include <inttypes.h>
#include <stdio.h>

enum { WORD_LEN = 4, MASK_LEN = 8 };

struct word {
    char name[WORD_LEN + 1];
    bool always; /* answered also while clients are not served */
    void (*answer)(const struct view *v, struct buf *out); /* NULL: stmk, which has an argument */
};

/* ruok is not among those that are always answered: imok from a server that serves nobody has misled too many. */
static const struct word WORDS[] = {
    {"ruok", false, text_ruok},   {"srvr", false, text_srvr},
    {"stat", false, text_stat},   {"cons", false, text_cons},
    {"conf", false, text_conf},   {"envi", true, text_envi},
    {"isro", true, text_isro},    {"dirs", false, text_dirs},
    {"wchs", false, text_wchs},   {"wchc", false, text_wchc},
    {"wchp", false, text_wchp},   {"dump", false, text_dump},
    {"mntr", false, text_mntr},   {"srst", false, text_srst},
    {"crst", false, text_crst},   {"hash", false, text_hash},
    {"gtmk", true, text_gtmk},    {"stmk", true, NULL},
    {"memb", true, members_text}, {"sess", false, members_sessions_text},
};

static const struct word *word_find(struct slice bytes)
{
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        if (memcmp(bytes.data, WORDS[i].name, WORD_LEN) == 0) {
            return &WORDS[i];
        }
    }
    return NULL;
}

bool words_allowed(const struct admin_options *options, const char *word)
{
    if (strcmp(word, "srvr") == 0 || (options->memb && strcmp(word, "memb") == 0) ||
        (options->read_only_word && strcmp(word, "isro") == 0)) {
        return true;
    }
    for (const char *at = options->words; at != NULL && *at != '\0';) {
        at += strspn(at, ", \t");
        size_t len = strcspn(at, ",");
        size_t end = len;
        while (end > 0 && (at[end - 1] == ' ' || at[end - 1] == '\t')) {
            end--;
        }
        if ((end == 1 && at[0] == '*') || (end == WORD_LEN && memcmp(at, word, WORD_LEN) == 0)) {
            return true;
        }
        at += len;
    }
    return false;
}

int words_answer(struct view *v, struct slice bytes, struct buf *out)
{
    const struct word *word = bytes.len < WORD_LEN ? NULL : word_find(bytes);
    if (word == NULL) {
        return 0;
    }
    if (!words_allowed(v->options, word->name)) {
        buf_printf(out, "%s is not executed because it is not in the whitelist.\n", word->name);
        return WORD_LEN;
    }
    if (word->answer == NULL) {
        if (bytes.len < WORD_LEN + MASK_LEN) {
            return -1;
        }
        v->trace_mask = (int64_t)get_be64(bytes.data + WORD_LEN);
        buf_printf(out, "%" PRId64, v->trace_mask);
        return WORD_LEN + MASK_LEN;
    }
    if (!word->always && !view_serving(v)) {
        buf_append_str(out, TEXT_NOT_SERVING "\n");
        return WORD_LEN;
    }
    word->answer(v, out);
    return WORD_LEN;
}
