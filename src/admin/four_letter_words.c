#include "admin/four_letter_words.h"

#include "admin/answers/ensemble_answers.h"
#include "admin/answers/four_letter_text.h"
#include "base/endian.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum { WORD_LEN = 4, MASK_LEN = 8 };

struct word {
    char name[WORD_LEN + 1];
    bool always; /* answered also while the server serves no clients */
    void (*answer)(const struct view *v, struct buf *out); /* NULL: stmk, which has an argument */
};

/* ruok is not always answered: an imok from a server that serves no clients has misled operators. */
static const struct word WORDS[] = {
    {"ruok", false, four_letter_ruok},    {"srvr", false, four_letter_srvr},
    {"stat", false, four_letter_stat},    {"cons", false, four_letter_cons},
    {"conf", false, four_letter_conf},    {"envi", true, four_letter_envi},
    {"isro", true, four_letter_isro},     {"dirs", false, four_letter_dirs},
    {"wchs", false, four_letter_wchs},    {"wchc", false, four_letter_wchc},
    {"wchp", false, four_letter_wchp},    {"dump", false, four_letter_dump},
    {"mntr", false, four_letter_mntr},    {"srst", false, four_letter_srst},
    {"crst", false, four_letter_crst},    {"hash", false, four_letter_hash},
    {"gtmk", true, four_letter_gtmk},     {"stmk", true, NULL},
    {"memb", true, ensemble_answer_text}, {"sess", false, ensemble_answer_sessions_text},
};

static const struct word *word_find(struct slice bytes)
{
    assert(bytes.len >= WORD_LEN);
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        if (memcmp(bytes.data, WORDS[i].name, WORD_LEN) == 0) {
            return &WORDS[i];
        }
    }
    return NULL;
}

bool four_letter_allowed(const struct admin_options *options, const char *word)
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

int four_letter_answer(struct view *v, struct slice bytes, struct buf *out)
{
    const struct word *word = bytes.len < WORD_LEN ? NULL : word_find(bytes);
    if (word == NULL) {
        return 0;
    }
    if (!four_letter_allowed(v->options, word->name)) {
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
