/*
 * Distinguished names as ids of the scheme x509: "CN=…,O=…". Source: Java's X500Principal, which Apache ZooKeeper uses,
 * for RFC 2253 and its older forms.
 */
#ifndef TREE_DISTINGUISHED_H
#define TREE_DISTINGUISHED_H

#include "base/slice.h"

/* Whether the text is a name: parts of KEYWORD=VALUE or OID=VALUE between ',', ';' and '+'. The empty text is a name,
 * too, but no client has it. Values are not decoded, because ids are compared as text. */
bool distinguished_valid(struct slice text);

#endif
