/*
 * What conclave doctor can find: one row each, from which output, JSON and the table of the man page follow. A finding says
 * what is wrong, where, and what to do.
 */
#ifndef CLI_DOCTOR_FINDINGS_H
#define CLI_DOCTOR_FINDINGS_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

/* X(constant, name, level, what to do) */
#define FINDING_KINDS(X)                                                                           \
    X(CONFIG_INVALID, "config-invalid", PROBLEM, "correct it: the server does not start with it")  \
    X(KEY_UNKNOWN, "key-unknown", WARNING,                                                         \
      "correct its name or remove it; conclave help server --help-all lists all keys")             \
    X(KEY_IDLE, "key-without-effect", NOTE, "remove it, unless Apache ZooKeeper reads the file")   \
    X(KEY_REPEATED, "key-repeated", WARNING, "keep one of the lines: only the last one counts")    \
    X(CONFIG_ADVICE, "config-advice", WARNING,                                                     \
      "see conclave-server(1) for the keys that it names")                                         \
    X(VOTERS_EVEN, "voters-even", WARNING,                                                         \
      "add or remove a voter, or make one an observer: an even number survives no more failures "  \
      "than one voter less")                                                                       \
    X(HEARTBEAT_LONG, "heartbeat-too-long", WARNING,                                               \
      "set heartbeatTimeout to a third of electionTimeout or less, or remove it")                  \
    X(SYNC_OFF, "sync-off", PROBLEM, "remove forceSync: acknowledged writes can be lost")          \
    X(ACL_OFF, "acl-off", PROBLEM, "remove skipACL: every client may do everything")               \
    X(CLIENT_PORT_OPEN, "client-port-open", WARNING,                                               \
      "set secure=yes (docs/security.md), or listen on 127.0.0.1")                                 \
    X(ADMIN_PORT_OPEN, "admin-port-open", WARNING,                                                 \
      "set admin.forceHttps and admin.needClientAuth, or admin.serverAddress=127.0.0.1")           \
    X(HOST_UNKNOWN, "host-unknown", PROBLEM,                                                       \
      "add the name to the DNS or /etc/hosts, or correct it")                                      \
    X(HOST_LOOPBACK, "host-loopback", PROBLEM,                                                     \
      "let the name have an address that the other servers can reach, also in /etc/hosts")         \
    X(PORT_IN_USE, "port-in-use", PROBLEM,                                                         \
      "end the program that has it (ss -ltnp shows it), or choose another port")                   \
    X(ADDRESS_ELSEWHERE, "address-not-here", PROBLEM,                                              \
      "use an address of this machine (ip address shows them)")                                    \
    X(PEER_UNREACHABLE, "peer-unreachable", PROBLEM,                                               \
      "start that server, or let firewalls pass this port")                                        \
    X(CERT_UNUSABLE, "certificate-unusable", PROBLEM, "correct the file: no TLS without it")       \
    X(CERT_EXPIRED, "certificate-expired", PROBLEM, "renew it: conclave certs FOLDER --renew")     \
    X(CERT_ENDS_SOON, "certificate-ends-soon", WARNING, "renew it: conclave certs FOLDER --renew") \
    X(CERT_EARLY, "certificate-not-yet-valid", PROBLEM, "correct this machine's clock, or wait")   \
    X(CERT_NAME, "certificate-name", PROBLEM,                                                      \
      "renew it with this host as a subject alternative name")                                     \
    X(CERT_UNTRUSTED, "certificate-untrusted", PROBLEM,                                            \
      "use certificates of one CA, and its certificate as caFile on every server")                 \
    X(SECRET_READABLE, "secret-readable", PROBLEM, "chmod 600, and make a new secret or key")      \
    X(DISK_LOW, "disk-space-low", PROBLEM, "make room, or move the data folder to a larger disk")  \
    X(INODES_LOW, "inodes-low", WARNING, "remove files, or move the data folder")                  \
    X(DATA_IN_MEMORY, "data-in-memory", PROBLEM,                                                   \
      "put dataDir on a disk: a restart of the machine loses everything")                          \
    X(DATA_REMOTE, "data-on-network", WARNING, "put dataDir on a local disk")                      \
    X(DATA_UNWRITABLE, "data-unwritable", PROBLEM,                                                 \
      "let the server's user own the folder; run this command as that user")                       \
    X(DISK_SLOW, "disk-slow", WARNING,                                                             \
      "give dataDir a faster disk, or one of its own: every write waits for a sync")               \
    X(FILE_LIMIT, "file-limit-low", WARNING, "raise it: LimitNOFILE=65536, or ulimit -n 65536")    \
    X(MEMORY_LIMIT, "data-limit-too-high", WARNING,                                                \
      "set maxDataBytes to half of the memory or less")                                            \
    X(FOLDER_FOREIGN, "folder-foreign", PROBLEM, "name the right folder in dataDir")               \
    X(FOLDER_DAMAGED, "folder-damaged", PROBLEM,                                                   \
      "member of an ensemble: start it, it heals itself; alone: restore a backup")                 \
    X(LOG_DAMAGED, "log-damaged", PROBLEM,                                                         \
      "member of an ensemble: start it, it heals itself; alone: restore a backup")                 \
    X(SNAPSHOT_DAMAGED, "snapshot-damaged", PROBLEM,                                               \
      "check the disk; restart a member of an ensemble, which heals it; alone: restore a backup")  \
    X(LOG_TORN, "log-torn", NOTE,                                                                  \
      "nothing: the next start cuts the write, which nobody was told of")                          \
    X(FOLDER_ASIDE, "damage-put-aside", NOTE, "check the disk, then remove the folder")            \
    X(FILE_UNREADABLE, "file-unreadable", PROBLEM,                                                 \
      "run this command as the server's user; check the disk")                                     \
    X(IMPORT_DUE, "import-due", NOTE, "stop ZooKeeper, then start the server: docs/migration.md")  \
    X(IMPORT_DAMAGED, "import-damaged", PROBLEM,                                                   \
      "docs/migration.md, \"Messages\"; member of an ensemble: start it as it is, it joins the "   \
      "others; put no older backup in its place")                                                  \
    X(IMPORT_UNFINISHED, "import-unfinished", NOTE,                                                \
      "nothing, if ZooKeeper was killed or still writes: nobody was told that it is written")      \
    X(IMPORT_OLD, "import-old", WARNING,                                                           \
      "make sure that it is no backup and that dataLogDir is right: later writes would be lost")   \
    X(IMPORT_CHOICE, "import-choice", WARNING,                                                     \
      "start a majority of the members; if the chosen one never comes back: docs/migration.md, "   \
      "\"Without a majority\"")                                                                    \
    X(CHOICE_DAMAGED, "import-choice-damaged", PROBLEM,                                            \
      "docs/migration.md, \"Without a majority\", says when the file may be removed")              \
    X(DATA_BESIDE, "data-beside-import", PROBLEM,                                                  \
      "decide which data count, and move the others away: the server does not start with both")    \
    X(CLOCK_STEPPED, "clock-stepped", WARNING, "let one time service slew the clock (chrony)")     \
    X(CLOCK_DIFFERS, "clock-differs", WARNING,                                                     \
      "run a time service such as chrony on every server")                                         \
    X(MEMBER_DOWN, "member-down", PROBLEM, "start it, or look at its log")                         \
    X(MEMBER_BEHIND, "member-behind", WARNING, "look at its disk, its network and its load")       \
    X(MEMBER_WARNS, "member-warns", WARNING, "see conclave status, and its log")                   \
    X(NO_QUORUM, "no-quorum", PROBLEM, "start a majority of the voters; docs/ensemble.md")         \
    X(VERSION_DIFFERS, "version-differs", WARNING,                                                 \
      "finish the upgrade: the same version on all servers")                                       \
    X(DATA_DIFFERS, "data-differs", PROBLEM,                                                       \
      "stop the members that differ from the majority, empty their data folders, start them")      \
    X(LIMIT_NEAR, "limit-near", WARNING, "raise the limit, or let clients use less")               \
    X(LIMIT_REACHED, "limit-reached", WARNING, "raise the limit, or let clients use less")         \
    X(ANSWER_LARGE, "answer-large", WARNING,                                                       \
      "split the node's data, or spread its children: clients refuse larger packets")

enum finding_level { FINDING_NOTE, FINDING_WARNING, FINDING_PROBLEM };
enum { FINDING_LEVELS = FINDING_PROBLEM + 1 };

enum finding_kind {
#define FINDING_CONSTANT(constant, name, level, advice) FOUND_##constant,
    FINDING_KINDS(FINDING_CONSTANT)
#undef FINDING_CONSTANT
};

struct finding {
    enum finding_kind kind;
    char *where; /* key, file, address: a few words */
    char *what;
};

struct findings {
    struct finding *items;
    size_t count;
    size_t cap;
    bool failed; /* memory ran out */
};

void findings_finish(struct findings *f);

/* Adds one; where: a key, a file or an address. */
void finding_add(struct findings *f, enum finding_kind kind, const char *where, const char *fmt,
                 ...) __attribute__((format(printf, 4, 5)));

const char *finding_name(enum finding_kind kind);
enum finding_level finding_level(enum finding_kind kind);
size_t findings_of_level(const struct findings *f, enum finding_level level);

/* The worst first. */
void findings_print(struct findings *f);
void findings_json(struct findings *f, struct json *j);

#endif
