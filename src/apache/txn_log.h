/*
 * One transaction log of Apache ZooKeeper: log.ZXID. Apache lengthens the file ahead with zeroes, and a crash may leave
 * a last entry that is not complete: both end the log.
 */
#ifndef APACHE_TXN_LOG_H
#define APACHE_TXN_LOG_H

#include "apache/input.h"
#include "state/adopt/outcome.h"

struct apache_txn_log;

/* Opens the file and reads its header. Errors as apache_input_read. An empty file is a log without entries. */
int apache_txn_log_open(const char *file, struct apache_txn_log **ret,
                        char **ret_error) CONCLAVE_MUST_USE;
void apache_txn_log_close(struct apache_txn_log *log);

/* 1 and the next transaction, whose bytes are valid until the next call; 0: the end; errors as apache_input_read, also for
 * an entry whose checksum is wrong. */
int apache_txn_log_next(struct apache_txn_log *log, struct outcome *ret,
                        char **ret_error) CONCLAVE_MUST_USE;

/* After the end: whether a last entry is not complete, and where it begins. */
bool apache_txn_log_unfinished(const struct apache_txn_log *log, uint64_t *ret_offset);

/* Where the entry begins that apache_txn_log_next gave or refused last. */
uint64_t apache_txn_log_offset(const struct apache_txn_log *log);

/* After CONCLAVE_ECORRUPT: goes on to the next whole entry, so that the rest of the file can be looked at, too. 1, 0: there is
 * none; errors as apache_input_read. */
int apache_txn_log_resume(struct apache_txn_log *log, char **ret_error) CONCLAVE_MUST_USE;

#endif
