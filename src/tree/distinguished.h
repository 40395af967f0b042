/*
 * Distinguished names as ids of the scheme x509: "CN=…,O=…". Source: what Java's X500Principal,
 * which Apache ZooKeeper asks, reads as RFC 2253 and its older forms.
 */
#ifndef TREE_DISTINGUISHED_H
#define TREE_DISTINGUISHED_H

#include "base/slice.h"

/* Whether the text is a name: parts of KEYWORD=VALUE or OID=VALUE between ',', ';' and '+'. The
 * empty text is one (it is nobody's). Values are not decoded: ids are compared as text. */
bool distinguished_valid(struct slice text);

#endif
