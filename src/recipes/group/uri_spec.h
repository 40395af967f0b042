/* Curator's form of a URI with fields ("{scheme}://{address}:{port}"): its text cut into parts, and
 * the parts as JSON. Pure memory. */
#ifndef RECIPES_GROUP_URI_SPEC_H
#define RECIPES_GROUP_URI_SPEC_H

#include "base/json.h"
#include "base/slice.h"

/* Whether braces come in pairs, none within another. */
bool uri_spec_valid(const char *text);

/* The next part of a valid text from *at on, which moves behind it; false at the end. A field's name
 * comes without the blanks around it. */
bool uri_spec_next(const char **at, struct slice *ret_part, bool *ret_field);

/* {"parts": [{"value", "variable"}]} of a valid text, null of NULL. */
void uri_spec_json(struct json *j, const char *text);

#endif
