/*
 * Texts inside requests, that the state machine and the server take apart: paths, ids of ACLs (addresses and their ranges,
 * X.500 names, principals), server lines of a reconfig, the terms of a fence, numbers, hashes of passwords. The first byte
 * of the input chooses.
 * Invariants: no memory error; a part that was read lies within the text; a value that was read and printed reads the
 * same again.
 */
#include "fuzz/cost.h"
#include "fuzz/input.h"
#include "state/members/member_line.h"
#include "tls/scrypt.h"
#include "tree/distinguished.h"
#include "tree/ip_range.h"
#include "tree/path.h"
#include "tree/principal.h"
#include "wire/fence_records.h"
#include "wire/java_number.h"

#include <stdlib.h>

const struct cost_bound fuzz_bound = {
    .cpu_us = 20000,
    .cpu_ns_per_byte = 5000,
    .alloc_bytes = 1 << 16,
    .alloc_per_byte = 200,
};

static bool is_within(struct slice part, struct slice whole)
{
    return part.len == 0 ||
           (part.data >= whole.data && part.data + part.len <= whole.data + whole.len);
}

static void fuzz_path(struct slice text)
{
    if (path_valid(text)) {
        must(path_plausible(text) && path_chars(text) <= text.len);
        must(path_last_slash(text) < text.len && text.data[0] == '/');
        must(text.len == 1 || text.data[text.len - 1] != '/');
    }
    (void)path_special(text);
}

static void fuzz_ip(struct slice text)
{
    struct ip_address address;
    struct ip_range range;
    bool is_address = ip_parse(text, &address);
    bool is_range = ip_range_parse(text, &range);
    must(!is_address || address.len == 4 || address.len == IP_MAX);
    must(!is_range || (range.bits >= 0 && range.bits <= 8 * range.address.len));
    must(!is_range || ip_range_has(&range, &range.address));
    must(!(is_address && is_range) || ip_range_has(&range, &address));
}

static void fuzz_distinguished(struct slice text)
{
    (void)distinguished_valid(text);
}

static void fuzz_principal(struct slice text)
{
    struct principal p;
    if (principal_parse(text, &p)) {
        must(is_within(p.name, text) && is_within(p.host, text) && is_within(p.realm, text));
        must(p.name.len + p.host.len + p.realm.len <= text.len);
    }
}

static void fuzz_member_line(struct slice text)
{
    struct member_line first, again;
    const char *why = NULL;
    int rc = member_line_parse(text, &first, &why);
    must(rc == 0 ||
         ((rc == CONCLAVE_BAD_ARGUMENTS || rc == CONCLAVE_MARSHALLING_ERROR) && why != NULL));
    if (rc != 0) {
        return;
    }
    struct buf printed, twice;
    buf_init(&printed, 0);
    buf_init(&twice, 0);
    must(first.n_hosts > 0 && first.n_hosts <= MEMBER_HOSTS_MAX);
    member_line_print(&first, first.observer, &printed);
    must(buf_ok(&printed));
    if (member_line_parse(buf_slice(&printed), &again, &why) == 0) {
        member_line_print(&again, again.observer, &twice);
        must(slice_equal(buf_slice(&printed), buf_slice(&twice)));
        must(member_lines_clash(&first, &again) == member_lines_clash(&again, &first));
    } else {
        must(printed.len >= MEMBER_LINE_MAX); /* with the defaults added it is too long */
    }
    buf_finish(&printed);
    buf_finish(&twice);
}

static void fuzz_terms(struct slice text)
{
    struct fence_terms first, again;
    int64_t number;
    if (fence_terms_parse(text, &first)) {
        struct buf printed;
        buf_init(&printed, 0);
        must(is_within(first.lock, text));
        fence_terms_print(&first, &printed);
        must(buf_ok(&printed) && fence_terms_parse(buf_slice(&printed), &again));
        must(slice_equal(first.lock, again.lock));
        must(first.delay_ms == again.delay_ms && first.until_ms == again.until_ms);
        buf_finish(&printed);
    }
    must(!fence_name_contends(text, &number) || text.len >= 10);
    (void)fence_name_reads(text);
}

static void fuzz_number(struct slice text)
{
    int64_t value;
    struct slice trimmed = text_trim(text);
    must(is_within(trimmed, text));
    if (java_number_parse(text, &value)) {
        char *copy = text_of(text);
        must(strtoll(copy, NULL, 10) == value);
        free(copy);
    }
}

static void fuzz_hash(struct slice text)
{
    char *copy = text_of(text);
    (void)scrypt_is_hash(copy);
    free(copy);
}

void fuzz_input(const uint8_t *data, size_t size)
{
    static const fuzz_target targets[] = {fuzz_path,      fuzz_ip,          fuzz_distinguished,
                                          fuzz_principal, fuzz_member_line, fuzz_terms,
                                          fuzz_number,    fuzz_hash};
    fuzz_choose(targets, sizeof targets / sizeof targets[0], data, size);
}
