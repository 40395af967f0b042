/* ACLs as ZooKeeper's shell writes them: "scheme:id:perms", perms of the letters c (create), d (delete), r (read), w
 * (write) and a (admin), entries separated by commas. "auth" is short for "auth::cdrwa". */
#ifndef CLI_COMMON_ACL_TEXT_H
#define CLI_COMMON_ACL_TEXT_H

#include <conclave/op.h>

#define ACL_PERMS_TEXT_MAX 6

/* Letters of perms, in the order "cdrwa". */
const char *acl_perms_text(int32_t perms, char buf[ACL_PERMS_TEXT_MAX]);

struct acl_entries {
    struct conclave_acl *entries; /* their strings are in texts */
    size_t count;
    char **texts;
    size_t texts_count;
};

/* Reads the texts, each one entry or more. A comma inside an id (as X.500 names have them) needs no quoting: an entry
 * ends only behind its permissions. 0, CONCLAVE_ENOMEM, or CONCLAVE_EINVAL with *ret_wrong the text from the first
 * wrong entry on. Free with acl_entries_free, also after failure. */
int acl_entries_parse(const char *const *texts, int count, struct acl_entries *ret,
                      const char **ret_wrong);
void acl_entries_free(struct acl_entries *list);

#endif
