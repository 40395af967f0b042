/* Decimal numbers in texts that clients write, read as Java reads them: a sign and digits only. */
#ifndef WIRE_JAVA_NUMBER_H
#define WIRE_JAVA_NUMBER_H

#include "base/slice.h"

/* As Long.parseLong. False: not a number, and *ret is unchanged. */
bool java_number_parse(struct slice text, int64_t *ret);

/* As String.trim: without blanks and control characters at both ends. */
struct slice text_trim(struct slice text);

#endif
