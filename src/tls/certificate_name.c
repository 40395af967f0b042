#include "tls/certificate_name.h"

#include <openssl/asn1.h>
#include <openssl/objects.h>

#include <string.h>

struct keyword {
    int nid;
    const char *text;
};

/* RFC 2253 section 2.3; Java prints these nine names and no others. */
static const struct keyword keywords[] = {
    {NID_commonName, "CN"},
    {NID_localityName, "L"},
    {NID_stateOrProvinceName, "ST"},
    {NID_organizationName, "O"},
    {NID_organizationalUnitName, "OU"},
    {NID_countryName, "C"},
    {NID_streetAddress, "STREET"},
    {NID_domainComponent, "DC"},
    {NID_userId, "UID"},
};

static const char *keyword_of(const ASN1_OBJECT *attribute)
{
    int nid = OBJ_obj2nid(attribute);
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        if (keywords[i].nid == nid) {
            return keywords[i].text;
        }
    }
    return NULL;
}

static bool is_text(int type)
{
    switch (type) {
    case V_ASN1_PRINTABLESTRING:
    case V_ASN1_UTF8STRING:
    case V_ASN1_T61STRING:
    case V_ASN1_IA5STRING:
    case V_ASN1_GENERALSTRING:
    case V_ASN1_BMPSTRING:
    case V_ASN1_UNIVERSALSTRING:
        return true;
    default:
        return false;
    }
}

static void print_hex(const ASN1_STRING *value, struct buf *out)
{
    unsigned char *der = NULL;
    ASN1_TYPE wrapped = {.type = ASN1_STRING_type(value)};
    wrapped.value.asn1_string = (ASN1_STRING *)(uintptr_t)value;
    int len = i2d_ASN1_TYPE(&wrapped, &der);
    if (len < 0) {
        out->failed = true;
        return;
    }
    buf_append_u8(out, '#');
    for (int i = 0; i < len; i++) {
        buf_printf(out, "%02x", der[i]);
    }
    OPENSSL_free(der);
}

static bool is_edge_space(unsigned char c)
{
    return c == ' ' || c == '\r';
}

static void print_escaped(const unsigned char *text, size_t len, struct buf *out)
{
    size_t lead = 0;
    size_t trail = len;
    while (lead < len && is_edge_space(text[lead])) {
        lead++;
    }
    while (trail > 0 && is_edge_space(text[trail - 1])) {
        trail--;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\0') {
            buf_append_str(out, "\\00");
            continue;
        }
        if (i < lead || i >= trail || strchr(",=+<>#;\"\\", text[i]) != NULL) {
            buf_append_u8(out, '\\');
        }
        buf_append_u8(out, text[i]);
    }
}

static void print_attribute(const X509_NAME_ENTRY *entry, struct buf *out)
{
    const ASN1_OBJECT *attribute = X509_NAME_ENTRY_get_object(entry);
    const ASN1_STRING *value = X509_NAME_ENTRY_get_data(entry);
    const char *keyword = keyword_of(attribute);
    unsigned char *utf8 = NULL;
    char oid[128];
    if (keyword == NULL) {
        int n = OBJ_obj2txt(oid, sizeof oid, attribute, 1);
        if (n < 0 || n >= (int)sizeof oid) {
            out->failed = true; /* a truncated OID could be mistaken for another one */
            return;
        }
        buf_append_str(out, oid);
    } else {
        buf_append_str(out, keyword);
    }
    buf_append_u8(out, '=');
    int len = keyword != NULL && is_text(ASN1_STRING_type(value))
                  ? ASN1_STRING_to_UTF8(&utf8, value)
                  : -1;
    if (len < 0) {
        print_hex(value, out);
        return;
    }
    print_escaped(utf8, (size_t)len, out);
    OPENSSL_free(utf8);
}

void certificate_name_print(const X509_NAME *name, struct buf *out)
{
    /* Parts from the last to the first; attributes of one part in their order, joined by '+'. */
    int end = X509_NAME_entry_count(name);
    bool first = true;
    while (end > 0) {
        int begin = end - 1;
        int set = X509_NAME_ENTRY_set(X509_NAME_get_entry(name, begin));
        while (begin > 0 && X509_NAME_ENTRY_set(X509_NAME_get_entry(name, begin - 1)) == set) {
            begin--;
        }
        for (int i = begin; i < end; i++) {
            if (!first) {
                buf_append_u8(out, i == begin ? ',' : '+');
            }
            first = false;
            print_attribute(X509_NAME_get_entry(name, i), out);
        }
        end = begin;
    }
}

void certificate_name_clean(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p != '\0'; p++) {
        if (*p < 0x20 || *p == '"' || *p == 0x7f) {
            *p = '?';
        }
    }
}
