/* Texts that commands read: words of the shell, ACLs, limits of a quota, answers of servers. */
#include "cli/common/acl_text.h"
#include "cli/common/server_query.h"
#include "cli/shell/shell_words.h"
#include "cli/tree/quota_text.h"

#include "base/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The words of a line, joined by '|'; NULL: a quote is open. */
static const char *split(const char *line)
{
    static char joined[256];
    struct shell_words words;
    int rc = shell_words_split(line, &words);
    if (rc != 0) {
        assert_int_equal(rc, CONCLAVE_EINVAL);
        return NULL;
    }
    joined[0] = '\0';
    for (int i = 0; i < words.count; i++) {
        strcat(strcat(joined, i > 0 ? "|" : ""), words.items[i]);
    }
    assert_null(words.items[words.count]);
    shell_words_free(&words);
    return joined;
}

static void test_words(void **state)
{
    assert_string_equal(split(""), "");
    assert_string_equal(split("  \t\r\n"), "");
    assert_string_equal(split(" a  b\tc\n"), "a|b|c");
    assert_string_equal(split("'a b' \"c d\" e\\ f"), "a b|c d|e f");
    assert_string_equal(split("a'b'\"c\"d"), "abcd");
    assert_string_equal(split("'' \"\" x"), "||x");
    assert_string_equal(split("\"it's\" 'say \"x\"'"), "it's|say \"x\"");
    assert_string_equal(split("\"a\\nb\\tc\\x41\\\"\\\\\""), "a\nb\tcA\"\\");
    assert_string_equal(split("\"\\x00\\xzz\\x4\""), "x00xzzx4"); /* none of them a byte */
    assert_string_equal(split("'a\\nb' a\\nb"), "a\\nb|anb");
    assert_string_equal(split("a # b"), "a");
    assert_string_equal(split("#a"), "");
    assert_string_equal(split("a#b '#c' \\#d"), "a#b|#c|#d");
    assert_string_equal(split("a b c d e f g h i j k l m n o p q"),
                        "a|b|c|d|e|f|g|h|i|j|k|l|m|n|o|p|q");
    assert_string_equal(split("a\\"), "a\\");
    assert_null(split("'a"));
    assert_null(split("a \"b\\\""));
}

static void assert_at_end(const char *text, size_t start, const char *word, int index)
{
    size_t got_start;
    char *got;
    int got_index;
    assert_int_equal(shell_word_at_end(text, strlen(text), &got_start, &got, &got_index), 0);
    assert_int_equal(got_start, start);
    assert_string_equal(got, word);
    assert_int_equal(got_index, index);
    free(got);
}

static void test_word_at_end(void **state)
{
    assert_at_end("", 0, "", 0);
    assert_at_end("ge", 0, "ge", 0);
    assert_at_end("get ", 4, "", 1);
    assert_at_end("get /a", 4, "/a", 1);
    assert_at_end("get /a\\ b", 4, "/a b", 1);
    assert_at_end("get  \"/a b", 5, "/a b", 1);
    assert_at_end("set /a 'x y' /b", 13, "/b", 3);
}

/* Whatever a word is, quoted it is read as itself. */
static void test_quote(void **state)
{
    struct prng rng = {20260207};
    static const char CHARS[] = "ab /\\'\"#\t\xc3\xa9";
    for (int round = 0; round < 5000; round++) {
        char word[12];
        size_t len = 1 + prng_next(&rng) % (sizeof word - 1);
        for (size_t i = 0; i < len; i++) {
            word[i] = CHARS[prng_next(&rng) % (sizeof CHARS - 1)];
        }
        word[len < sizeof word ? len : sizeof word - 1] = '\0';
        char *quoted = shell_word_quote(word);
        struct shell_words words;
        assert_int_equal(shell_words_split(quoted, &words), 0);
        assert_int_equal(words.count, 1);
        assert_string_equal(words.items[0], word);
        assert_at_end(quoted, 0, word, 0);
        shell_words_free(&words);
        free(quoted);
    }
}

/* --- ACLs --- */

/* Entries as "perms scheme id;", or what is wrong, after a '!'. */
static const char *acl(const char *text)
{
    static char shown[256];
    const char *texts[] = {text};
    struct acl_entries list;
    const char *wrong = NULL;
    int rc = acl_entries_parse(texts, 1, &list, &wrong);
    shown[0] = '\0';
    if (rc != 0) {
        assert_int_equal(rc, CONCLAVE_EINVAL);
        snprintf(shown, sizeof shown, "!%s", wrong);
    }
    for (size_t i = 0; rc == 0 && i < list.count; i++) {
        char perms[ACL_PERMS_TEXT_MAX];
        size_t len = strlen(shown);
        snprintf(shown + len, sizeof shown - len, "%s %s %s;",
                 acl_perms_text(list.entries[i].perms, perms), list.entries[i].scheme,
                 list.entries[i].id);
    }
    acl_entries_free(&list);
    return shown;
}

static void test_acl(void **state)
{
    assert_string_equal(acl("world:anyone:cdrwa"), "cdrwa world anyone;");
    assert_string_equal(acl("world:anyone:awrdc"), "cdrwa world anyone;");
    assert_string_equal(acl("auth::r"), "r auth ;");
    assert_string_equal(acl("digest:a:b=:rw,ip:::1:r"), "rw digest a:b=;r ip ::1;");
    assert_string_equal(acl("x509:CN=a,O=b,C=c:rw,world:anyone:r"),
                        "rw x509 CN=a,O=b,C=c;r world anyone;");
    assert_string_equal(acl("ip:2001:db8::/32:r"), "r ip 2001:db8::/32;");
    /* Letters of permissions inside an id end nothing unless a comma or the end follows. */
    assert_string_equal(acl("digest:a:cd:rw"), "rw digest a:cd;");
    assert_string_equal(acl(""), "!");
    assert_string_equal(acl("world:anyone"), "!world:anyone");
    assert_string_equal(acl("world:anyone:"), "!world:anyone:");
    assert_string_equal(acl("world:anyone:rx"), "!world:anyone:rx");
    assert_string_equal(acl(":anyone:r"), "!:anyone:r");
    assert_string_equal(acl("world:anyone:r,"), "!");
    char buf[ACL_PERMS_TEXT_MAX];
    assert_string_equal(acl_perms_text(0, buf), "");
}

/* --- limits --- */

static bool limits(const char *text, struct quota_limits *ret)
{
    return quota_text_parse(text, strlen(text), ret);
}

static void test_limits(void **state)
{
    struct quota_limits l;
    char buf[LIMITS_TEXT_MAX];
    assert_true(limits("count=5,bytes=-1=;byteHardLimit=7;countHardLimit=9", &l));
    assert_true(l.count == 5 && l.bytes == -1 && l.hard_bytes == 7 && l.hard_count == 9);
    assert_string_equal(quota_text_text(&l, true, buf),
                        "count=5,bytes=-1=;byteHardLimit=7;countHardLimit=9");
    assert_string_equal(quota_text_text(&l, false, buf), "count=5,bytes=-1");
    assert_true(limits("count=5,bytes=6", &l)); /* as servers before 3.7 write it */
    assert_true(l.count == 5 && l.bytes == 6 && l.hard_bytes == -1 && l.hard_count == -1);
    assert_true(limits("", &l) && l.count == -1);
    assert_true(limits("count=1,bytes=,future=x", &l) && l.count == 1 && l.bytes == -1);
    assert_false(limits("count=x,bytes=6", &l));
    assert_false(limits("nonsense", &l));
    assert_false(limits("count=99999999999999999999,bytes=6", &l));
    l = (struct quota_limits){INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX};
    struct quota_limits again;
    assert_true(limits(quota_text_text(&l, true, buf), &again) && again.hard_count == INT64_MAX);
}

/* Nothing that a server answers moves the cursor: it could overwrite what the command says of other servers. */
static void test_clean_answers(void **state)
{
    const char *const texts[][2] = {
        {"a\tb\nc\r\nd", "a\tb\nc\r\nd"},
        {"a\rb\r", "a?b?"},
        {"\033[2J\a\177", "?[2J??"},
        {"\xc2\x9b"
         "2J \xc2\xa0 \xc2",
         "??2J \xc2\xa0 \xc2"},
        {"\xc3\x9b", "\xc3\x9b"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct buf answer;
        buf_init(&answer, 0);
        buf_append_str(&answer, texts[i][0]);
        server_query_clean(&answer);
        assert_string_equal(buf_cstr(&answer), texts[i][1]);
        buf_finish(&answer);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),  cmocka_unit_test(test_word_at_end),
        cmocka_unit_test(test_quote),  cmocka_unit_test(test_acl),
        cmocka_unit_test(test_limits), cmocka_unit_test(test_clean_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
