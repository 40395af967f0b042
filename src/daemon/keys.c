#include "daemon/keys.h"

#include "daemon/key_values.h"
#include "daemon/keys_admin.h"
#include "daemon/keys_ensemble.h"
#include "daemon/keys_sasl.h"
#include "daemon/keys_tls.h"

#include <string.h>

#define RAFT "no effect: electionTimeout and heartbeatTimeout replace it"
#define LEARNERS "no effect: servers of an ensemble have no such setting"
#define MAJORITY                                                                                   \
    "no effect: a majority of the participants decides; there are no groups and weights"
#define LINKS "no effect: a server tries all addresses of another server in turn"
#define QUORUM_SASL                                                                                \
    "servers do not use SASL among themselves: use clusterSecretFile or sslQuorum; to follow a "   \
    "ZooKeeper that does, mirror.sasl.file"
#define NO_DNS "no effect: the server never looks up names in clients' certificates"
#define SNIFFED                                                                                    \
    "only PEM and PKCS12 keystores are supported: convert the file with keytool -importkeystore "  \
    "-deststoretype PKCS12"

#define AT(field) offsetof(struct zoo_cfg, field), sizeof(((struct zoo_cfg *)0)->field)
#define ROW_INT(effect, name, field, min, max, scale, text)                                        \
    {                                                                                              \
        name, KEY_INT, effect, AT(field), min, max, scale, NULL, NULL, text                        \
    }
#define ROW_BOOL(effect, name, field, turned, text)                                                \
    {                                                                                              \
        name, KEY_BOOL, effect, AT(field), turned, 0, 0, NULL, NULL, text                          \
    }
#define ROW_TEXT(effect, name, field, text)                                                        \
    {                                                                                              \
        name, KEY_TEXT, effect, AT(field), 0, 0, 0, NULL, NULL, text                               \
    }
#define ROW_SPECIAL(effect, name, set, text)                                                       \
    {                                                                                              \
        name, KEY_SPECIAL, effect, 0, 0, 0, 0, 0, set, NULL, text                                  \
    }
#define INT(...) ROW_INT(KEY_AT_START, __VA_ARGS__)
#define LIVE_INT(...) ROW_INT(KEY_LIVE, __VA_ARGS__)
#define BOOL(...) ROW_BOOL(KEY_AT_START, __VA_ARGS__)
#define LIVE_BOOL(...) ROW_BOOL(KEY_LIVE, __VA_ARGS__)
#define TEXT(...) ROW_TEXT(KEY_AT_START, __VA_ARGS__)
#define LIVE_TEXT(...) ROW_TEXT(KEY_LIVE, __VA_ARGS__)
#define SPECIAL(...) ROW_SPECIAL(KEY_AT_START, __VA_ARGS__)
#define LIVE_SPECIAL(...) ROW_SPECIAL(KEY_LIVE, __VA_ARGS__)
#define PATH(name, field, text)                                                                    \
    {                                                                                              \
        name, KEY_PATH, KEY_AT_START, AT(field), 0, 0, 0, NULL, NULL, text                         \
    }
#define IDLE(name, text)                                                                           \
    {                                                                                              \
        name, KEY_IDLE, KEY_AT_START, 0, 0, 0, 0, 0, NULL, NULL, text                              \
    }
#define REFUSED(name, harmless, text)                                                              \
    {                                                                                              \
        name, KEY_REFUSED, KEY_AT_START, 0, 0, 0, 0, 0, NULL, harmless, text                       \
    }

const struct key_row key_table[] = {
    /* Data folder and client port */
    PATH("dataDir", data_dir, "the data folder, used as it is (as --data)"),
    INT("clientPort", options.listen.port, 0, 65535, 1, "client port (2181; 0 selects a free one)"),
    SPECIAL("clientPortAddress", key_set_address,
            "address to listen on (127.0.0.1; with a zoo.cfg every interface)"),
    INT("clientPortListenBacklog", options.backlog, -1, 65535, 1,
        "connections that wait in the kernel (-1: 511)"),

    /* Sessions and limits */
    INT("tickTime", options.limits.tick_ms, 10, 600000, 1, "unit of session expiry, ms (2000)"),
    LIVE_INT("minSessionTimeout", session_min_ms, -1, 86400000, 1,
             "shortest session timeout, ms (-1: 2 ticks)"),
    LIVE_INT("maxSessionTimeout", session_max_ms, -1, 86400000, 1,
             "longest session timeout, ms (-1: 20 ticks)"),
    LIVE_INT("maxClientCnxns", options.limits.address_max, 0, 1000000, 1,
             "connections of one address (60; 0: no limit)"),
    LIVE_INT("maxCnxns", options.limits.connections_max, 0, 10000000, 1,
             "all connections (0: what the limit of open files allows)"),
    LIVE_INT(
        "maxTlsHandshakes", options.limits.handshakes_max, 1, 1000000, 1,
        "concurrent TLS handshakes of clients; beyond this limit the server drops the slowest client (1000)"),
    LIVE_INT("maxTlsHandshakesPerSecondPerAddress", options.limits.address_handshakes_max, 1,
             1000000, 1,
             "TLS handshakes of one address per second; further connections are refused (200)"),
    LIVE_INT("globalOutstandingLimit", options.limits.outstanding_max, 1, 1000000, 1,
             "requests in progress at which the server pauses reading (1000)"),
    LIVE_INT("maxWatchesPerConnection", options.limits.watches_max, 1, UINT32_MAX - 1, 1,
             "watches of one connection (1000000)"),
    LIVE_INT("maxWatches", options.limits.watches_total_max, 1, UINT32_MAX - 1, 1,
             "watches of all connections (20000000)"),
    LIVE_INT(
        "maxWatchBytesPerConnection", options.limits.watch_bytes_max, 1024, INT64_MAX / 4, 1,
        "bytes of the paths of these watches (67108864); a watch beyond this or another limit is refused with QUOTAEXCEEDED"),
    LIVE_INT(
        "maxWatchBytes", options.limits.watch_bytes_total_max, 0, INT64_MAX / 4, 1,
        "bytes of the paths of all watches; one address may use half (0: an eighth of the memory)"),
    LIVE_INT(
        "maxBufferBytes", options.limits.buffers_max, 0, INT64_MAX / 4, 1,
        "bytes of unread answers and unfinished requests of all connections (0: an eighth of the memory)"),
    LIVE_INT("maxBufferBytesPerAddress", options.limits.address_buffers_max, 0, INT64_MAX / 4, 1,
             "the same for one address (0: a quarter of maxBufferBytes)"),
    LIVE_INT(
        "maxDataBytes", options.limits.data_max, 0, INT64_MAX / 4, 1,
        "memory of nodes and sessions at which writes that add data are refused with QUOTAEXCEEDED (0: a quarter of the memory)"),
    LIVE_INT("maxSessions", options.limits.sessions_max, 1, 100000000, 1,
             "number of sessions (1000000)"),
    LIVE_INT("maxSessionsPerAddress", options.limits.address_sessions_max, 1, 100000000, 1,
             "sessions created from one address (100000)"),
    INT("maxEndedSessions", options.limits.ended_sessions_max, 0, 1000000, 1,
        "ended sessions that conclave sessions why can explain: as many lost ones, as many that clients closed or moved, and as many without a connection (1000; 0: none)"),
    LIVE_INT(
        "slowlog.threshold", options.limits.slow_ms, 0, 3600000, 1,
        "milliseconds above which conclave slow shows a request, and where its time went (100; 0: off)"),
    SPECIAL(
        "trace.endpoint", key_set_trace_endpoint,
        "http://HOST:PORT/PATH of a collector of OpenTelemetry, which gets traces of requests by OTLP (none): docs/traces.md"),
    INT("trace.sample", options.traces.sample, 0, INT32_MAX, 1,
        "one request in so many gets a trace, besides all that are in the slow log (100; 0: only these; 1: every request)"),
    LIVE_INT("slowlog.max", options.limits.slow_max, 1, 10000, 1,
             "number of these requests that the server keeps, each up to 400 bytes (128)"),
    LIVE_INT("maxRequestsPerSecondPerAddress", options.limits.address_rate_max, 1, 1000000000, 1,
             "requests of one address per second; more are answered THROTTLEDOP (10000000)"),
    LIVE_INT(
        "maxBytesInFlightPerAddress", options.limits.address_bytes_max, 1024, INT64_MAX / 4, 1,
        "bytes of an address's requests in progress at which the server pauses reading from it (33554432)"),
    INT("maxResultsPerSession", options.limits.session_results_max, 0, 1000000, 1,
        "number of remembered writes of a client that asks for it, so that a write repeated after a lost connection is not done twice (1000; 0: none)"),
    INT("maxResultBytesPerSession", options.limits.session_result_bytes_max, 1024, 1 << 30, 1,
        "bytes of their answers (131072); the newest answer is always remembered"),
    LIVE_INT(
        "maxOperationsPerMulti", options.limits.command.parts, 1, BOUNDS_PARTS, 1,
        "operations of one multi or multiRead; more are answered BADARGUMENTS (10000, at most 65536)"),
    LIVE_INT(
        "maxAclEntries", options.limits.command.acl.entries, 1, BOUNDS_ACL_ENTRIES, 1,
        "entries of one ACL, counted after auth is replaced by the client's ids and before duplicates are removed; more are answered INVALIDACL (256, at most 1024)"),
    LIVE_INT("maxAclBytes", options.limits.command.acl.bytes, 256, BOUNDS_ACL_BYTES, 1,
             "bytes of the entries of one ACL (16384, at most 65536)"),
    INT("maxIdsPerConnection", options.limits.command.ids, 4, BOUNDS_IDS, 1,
        "ids of one client, its address included, with 4 KiB in total; more are answered AUTHFAILED (32, at most 128)"),
    LIVE_INT(
        "maxPathBytes", options.limits.command.path_bytes, 64, BOUNDS_PATH_BYTES, 1,
        "bytes of the path of a new node; more are answered BADARGUMENTS (8192, at most 65536)"),
    LIVE_INT("maxPathDepth", options.limits.command.path_depth, 4, BOUNDS_PATH_DEPTH, 1,
             "names in the path of a new node (256, at most 4096)"),
    LIVE_INT(
        "maxReplyBytes", options.limits.reply_max, 0, 1 << 30, 1,
        "bytes of the answer to one read; more are answered SYSTEMERROR (0: four times jute.maxbuffer, 12 MiB at least)"),
    INT("jute.maxbuffer", options.limits.frame_max, 1024, 1 << 30, 1,
        "largest request packet, bytes (1048575)"),

    /* Storage */
    INT("snapCount", options.snapshot_writes, 2, INT64_MAX / 4, 1,
        "writes between snapshots (100000), more while the tree is larger than the log"),
    INT("snapSizeLimitInKb", options.snapshot_log_bytes, -1, INT64_MAX >> 12, 1024,
        "log between snapshots, KiB (4194304; 0 or less: no limit)"),
    INT("preAllocSize", options.segment_bytes, 64, 1 << 22, 1024,
        "size of a log segment, KiB (16384)"),
    BOOL("forceSync", options.sync, 0,
         "no: acknowledged writes may be lost if the machine fails (yes)"),
    INT("autopurge.snapRetainCount", options.snapshots_kept, 3, 1000, 1,
        "number of snapshots to keep (3)"),
    IDLE("autopurge.purgeInterval", "no effect: old snapshots and logs are always removed"),
    PATH(
        "dataLogDir", apache_log_dir,
        "where the logs of an Apache ZooKeeper are that is imported; ours are in the data folder (the data folder)"),
    IDLE("txnLogSizeLimitInKb", "no effect: preAllocSize sets the size of a log segment"),
    IDLE("commitLogCount",
         "no effect: members that are behind read the log itself, as far back as it is kept"),
    IDLE("fsync.warningthresholdms", "no effect: slow syncs are counted, not logged"),
    IDLE("snapshot.trust.empty", "no effect: a missing snapshot is never trusted"),
    IDLE("snapshot.compression.method", "no effect: snapshots have their own format"),
    IDLE("snapshot.*", "no effect: snapshots have their own format"),
    IDLE("digest.enabled", "no effect: every snapshot and log entry has a checksum"),
    IDLE("db.autocreate", "no effect: an empty data folder starts an empty tree"),
    IDLE("serializeLastProcessedZxid.enabled", "no effect: snapshots have their own format"),

    /* Access */
    BOOL("skipACL", options.skip_acl, 0,
         "yes: no ACL is checked, every client may do everything (no)"),
    SPECIAL("DigestAuthenticationProvider.superDigest", key_set_super_digest,
            "user:hash of the superuser"),
    SPECIAL("superDigest", key_set_super_digest, "the same"),
    SPECIAL("DigestAuthenticationProvider.digestAlg", key_set_digest_algorithm,
            "hash in digest ids, the same on all servers: SHA1, SHA-256, SHA-512, SHA3-256 (SHA1)"),
    BOOL("DigestAuthenticationProvider.enabled", options.digest.off, 1,
         "no: clients cannot authenticate by digest, and ACLs cannot use it (yes)"),
    TEXT(
        "digest.users.file", digest_users_file,
        "file of users who may authenticate by digest, written by conclave users (none: each user:password is an id of its own)"),
    BOOL("digest.tlsOnly", options.digest.tls_only, 0,
         "yes: digest, which sends the password in clear text, only with TLS (no)"),
    BOOL("secure", secure, 0,
         "yes: TLS, authentication and closed ACLs by default: docs/security.md (no)"),
    BOOL(
        "closeInitialAcls", options.close_acls, 0,
        "yes: in a new tree, only the superuser can change the ACL of /, and /zookeeper and /zookeeper/quota are read-only for others (no)"),
    BOOL("warnOpenClientPort", warn_open, 0,
         "no: no warning about a client port that is open to other machines (yes)"),
    BOOL("coreDumps", options.core_dumps, 0,
         "yes: a crash may leave a core dump, which contains keys and passwords (no)"),
    BOOL("seccomp", options.seccomp, 0,
         "yes: the server blocks system calls that it does not need, such as execve (no)"),
    SPECIAL("authProvider.*", key_set_auth_provider,
            "Apache's SASLAuthenticationProvider: SASL must be set up"),
    BOOL("enforce.auth.enabled", enforce_auth, 0,
         "yes: serve only clients that authenticated by one of enforce.auth.schemes (no)"),
    SPECIAL("enforce.auth.schemes", key_set_auth_schemes, "such as digest,ip"),
    BOOL("enforceQuota", enforce_quota, 0, "yes: enforce hard quotas of branches (no)"),
    BOOL("fencing.enabled", fencing, 0,
         "yes: clients may bind a prefix to a lock: conclave fence, docs/fencing.md (no)"),
    BOOL("audit.enable", options.audit, 0,
         "yes: write an audit line for each write and each login (no)"),
    LIVE_SPECIAL("log.level", key_set_log_level,
                 "lines on stderr: error, warn, notice, info or debug (info)"),
    LIVE_SPECIAL("log.format", key_set_log_format,
                 "form of these lines: text, json or journald (text): docs/logging.md"),
    PATH("audit.file", audit_file, "file for the audit lines (stderr)"),
    IDLE("audit.*", "no effect: the server cannot load Java classes"),

    /* SASL */
    PATH("sasl.jaas.file", login.jaas_file,
         "JAAS file as Java's: DigestLoginModule with users, or Krb5LoginModule with a keytab"),
    PATH("java.security.auth.login.config", login.jaas_file, "the same"),
    PATH(
        "sasl.users.file", login.users_file,
        "instead of a JAAS file, for DIGEST-MD5: a file of user:password lines that only its owner may read"),
    TEXT("sasl.serverconfig", login.section, "section of the JAAS file (Server)"),
    TEXT("SASLAuthenticationProvider.superPassword", login.super_password,
         "password of the user super, if there is one"),
    BOOL("sessionRequireClientSASLAuth", login.require_sasl, 0,
         "yes: as enforce.auth.enabled with the scheme sasl (no)"),
    BOOL("allowSaslFailedClients", login.options.allow_failed, 0,
         "yes: a client whose login fails keeps its connection, without an id (no)"),
    SPECIAL("superUser*", key_set_super_user,
            "SASL id of the superuser; superUser.N: further superusers"),
    TEXT("letAnySaslUserDoX", login.options.any_user,
         "every client with a SASL id has the permissions of this id"),
    BOOL("kerberos.removeHostFromPrincipal", login.options.remove_host, 0,
         "yes: name/host@REALM becomes name@REALM (no)"),
    BOOL("kerberos.removeRealmFromPrincipal", login.options.remove_realm, 0,
         "yes: name@REALM becomes name, for the default realm (no)"),
    REFUSED("security.auth_to_local", "DEFAULT",
            "only the rule DEFAULT is supported: remove the key"),
    IDLE("requireClientAuthScheme",
         "no effect, as in Apache ZooKeeper: use sessionRequireClientSASLAuth"),
    IDLE("jaasLoginRenew", "no effect: a keytab needs no renewal"),
    IDLE("kerberos.*", "no effect: the server does not use Java for Kerberos"),

    /* TLS */
    INT("secureClientPort", secure_port, 0, 65535, 1,
        "port for TLS only; without clientPort or --listen there is then no plain port"),
    SPECIAL("secureClientPortAddress", key_set_secure_address,
            "address of that port (as the client port)"),
    BOOL("client.portUnification", options.unified, 0,
         "yes: the client port accepts TLS, too (no)"),
    BOOL("client.certReload", options.tls_reload, 0,
         "yes: read certificate files again when they change (no; SIGHUP always reads them)"),
    TEXT("ssl.certFile", tls.cert_file, "PEM: the server's certificate and its chain"),
    TEXT("ssl.keyFile", tls.key_file, "PEM: its private key, unless ssl.certFile holds it"),
    TEXT("ssl.caFile", tls.ca_file, "PEM: CA certificates used to verify clients"),
    TEXT("ssl.crlFile", tls.crl_file, "PEM: lists of revoked certificates"),
    BOOL("ssl.crlCheckAll", tls.crl_check_all, 0,
         "yes: check the certificates between a client's and the CA, too (no)"),
    TEXT("ssl.keyStore.location", tls.key_store, "certificate and key in one file, PEM or PKCS12"),
    TEXT("ssl.keyStore.password", tls.key_password, "password of the key or of the PKCS12 file"),
    TEXT("ssl.keyStore.passwordPath", tls.key_password_path,
         "file with that password in its first line"),
    REFUSED("ssl.keyStore.type", "PEM|PKCS12|JKS|", SNIFFED),
    TEXT("ssl.trustStore.location", tls.trust_store,
         "CA certificates used to verify clients, PEM or PKCS12"),
    TEXT("ssl.trustStore.password", tls.trust_password, "password of that file"),
    TEXT("ssl.trustStore.passwordPath", tls.trust_password_path,
         "file with that password in its first line"),
    REFUSED("ssl.trustStore.type", "PEM|PKCS12|JKS|", SNIFFED),
    TEXT("ssl.clientAuth", tls.client_auth, "clients' certificates: none, want, need (need)"),
    TEXT("ssl.protocol", tls.protocol, "newest version: TLSv1.2, TLSv1.3 (TLSv1.3)"),
    TEXT("ssl.enabledProtocols", tls.enabled_protocols, "versions (TLSv1.3,TLSv1.2)"),
    TEXT("ssl.ciphersuites", tls.ciphers, "cipher suites by Java's or OpenSSL's names"),
    TEXT("X509AuthenticationProvider.superUser", tls.x509_super,
         "subject of the superuser's certificate: CN=...,O=..."),
    REFUSED("authProvider.x509", "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            "there is only one provider for x509: remove the key"),
    REFUSED("ssl.authProvider", "x509", "only x509 uses certificates: remove the key"),
    REFUSED("ssl.crl", "false", "name the file with the revoked certificates in ssl.crlFile"),
    REFUSED("ssl.ocsp", "false", "OCSP is not supported: use ssl.crlFile"),
    REFUSED(
        "ssl.clientHostnameVerification", "false",
        "the server checks the issuer of a client's certificate, not its host name: remove the key"),
    REFUSED("ssl.context.supplier.class", "",
            "the server cannot load Java classes: remove the key"),
    REFUSED("ssl.keyStore.*", NULL, "unknown TLS key: see conclave server --help-all"),
    REFUSED("ssl.trustStore.*", NULL, "unknown TLS key: see conclave server --help-all"),
    IDLE("ssl.hostnameVerification", NO_DNS),
    IDLE("ssl.allowReverseDnsLookup", NO_DNS),
    IDLE("ssl.tcnative.*", "no effect: the server uses OpenSSL directly"),
    IDLE("ssl.sslProvider", "no effect: the server uses OpenSSL directly"),
    IDLE("ssl.handshakeDetectionTimeoutMillis",
         "no effect: the first packet must arrive within 10 s"),
    IDLE("fips-mode", "no effect: the configuration of OpenSSL decides"),

    /* Ensembles */
    SPECIAL("server.*", key_set_server,
            "a server: host:port:port[:role][;[host:]clientPort]; role: participant or observer"),
    PATH("dynamicConfigFile", dynamic_file, "file with further server.N lines"),
    SPECIAL("version", key_set_version, "version of the dynamicConfigFile, hexadecimal"),
    SPECIAL("myid", key_set_myid,
            "number of this server, unless dataDir/myid gives it (as --server-id)"),
    SPECIAL("peerType", key_set_peer_type,
            "participant or observer; must agree with the server.N line"),
    BOOL("standaloneEnabled", members.standalone_enabled, 0,
         "no: even a single server.N line opens the peer port, so that others can join (yes)"),
    BOOL("quorumListenOnAllIPs", members.listen_all, 0,
         "yes: open the peer port on every interface (no)"),
    LIVE_TEXT(
        "clusterSecretFile", members.secret_file,
        "file with the secret of the ensemble, at least 16 characters; a second line is another "
        "one that is accepted, too, while it is replaced"),
    LIVE_SPECIAL("clusterSecret", key_set_secret, "the secret itself"),
    BOOL("sslQuorum", members.ssl_quorum, 0,
         "yes: servers authenticate each other by the certificates of the ssl.quorum keys (no)"),
    BOOL("sslQuorumReloadCertFiles", members.tls_reload, 0,
         "yes: read these files again when they change (no; SIGHUP always reads them)"),
    TEXT("ssl.quorum.certFile", members.tls.cert_file,
         "PEM: this server's certificate and its chain"),
    TEXT("ssl.quorum.keyFile", members.tls.key_file,
         "PEM: its private key, unless ssl.quorum.certFile holds it"),
    TEXT("ssl.quorum.caFile", members.tls.ca_file,
         "PEM: CA certificates used to verify other servers"),
    TEXT("ssl.quorum.crlFile", members.tls.crl_file, "PEM: lists of revoked certificates"),
    BOOL("ssl.quorum.crlCheckAll", members.tls.crl_check_all, 0,
         "yes: check the certificates between a server's and the CA, too (no)"),
    TEXT("ssl.quorum.keyStore.location", members.tls.key_store,
         "certificate and key in one file, PEM or PKCS12"),
    TEXT("ssl.quorum.keyStore.password", members.tls.key_password,
         "password of the key or of the PKCS12 file"),
    TEXT("ssl.quorum.keyStore.passwordPath", members.tls.key_password_path,
         "file with that password in its first line"),
    REFUSED("ssl.quorum.keyStore.type", "PEM|PKCS12|JKS|", SNIFFED),
    TEXT("ssl.quorum.trustStore.location", members.tls.trust_store,
         "CA certificates used to verify other servers, PEM or PKCS12"),
    TEXT("ssl.quorum.trustStore.password", members.tls.trust_password, "password of that file"),
    TEXT("ssl.quorum.trustStore.passwordPath", members.tls.trust_password_path,
         "file with that password in its first line"),
    REFUSED("ssl.quorum.trustStore.type", "PEM|PKCS12|JKS|", SNIFFED),
    BOOL("ssl.quorum.hostnameVerification", members.verify_hosts, 0,
         "no: accept any certificate of the CA, for any host (yes)"),
    TEXT("ssl.quorum.protocol", members.tls.protocol, "newest version: TLSv1.2, TLSv1.3 (TLSv1.3)"),
    TEXT("ssl.quorum.enabledProtocols", members.tls.enabled_protocols,
         "versions (TLSv1.3,TLSv1.2)"),
    TEXT("ssl.quorum.ciphersuites", members.tls.ciphers,
         "cipher suites by Java's or OpenSSL's names"),
    REFUSED("ssl.quorum.clientAuth", "need", "servers always require certificates: remove the key"),
    REFUSED("ssl.quorum.clientHostnameVerification", "true",
            "ssl.quorum.hostnameVerification applies to both sides: remove the key"),
    REFUSED("ssl.quorum.crl", "false",
            "name the file with the revoked certificates in ssl.quorum.crlFile"),
    REFUSED("ssl.quorum.ocsp", "false", "OCSP is not supported: use ssl.quorum.crlFile"),
    REFUSED("ssl.quorum.context.supplier.class", "",
            "the server cannot load Java classes: remove the key"),
    IDLE("ssl.quorum.handshakeDetectionTimeoutMillis",
         "no effect: a handshake must end within 2 s"),
    IDLE("ssl.quorum.allowReverseDnsLookup",
         "no effect: the server never looks up names in certificates"),
    REFUSED("ssl.quorum.*", NULL, "unknown TLS key: see conclave server --help-all"),
    REFUSED("portUnification", "false",
            "a server without a certificate cannot join servers with certificates: remove the key"),
    REFUSED("quorum.auth.enableSasl", "false", QUORUM_SASL),
    REFUSED("quorum.auth.learnerRequireSasl", "false", QUORUM_SASL),
    REFUSED("quorum.auth.serverRequireSasl", "false", QUORUM_SASL),
    BOOL(
        "mirror.ssl", mirror.source.tls, 0,
        "yes: the link to the ZooKeeper that this ensemble follows (conclave migrate) uses TLS, with the certificates of the ssl.quorum keys (no)"),
    PATH(
        "mirror.sasl.file", mirror.login_file,
        "file with one line user:password for that link, if its servers have quorum.auth.enableSasl; only its owner may read it (none)"),
    IDLE("quorum.auth.*", "no effect: servers do not use SASL among themselves"),
    IDLE("quorum.*", LEARNERS),
    INT("electionTimeout", members.election_ms, 50, 60000, 1,
        "time without a message of the leader after which servers elect another one, ms (400)"),
    INT("heartbeatTimeout", members.heartbeat_ms, 0, 30000, 1,
        "interval between heartbeats of an idle leader, ms (0: a fifth of electionTimeout)"),
    BOOL("linearizableReads", options.ensemble.linearizable_reads, 0,
         "yes: every read sees all writes acknowledged before it, on any server (no)"),
    INT("ensemble.alone", options.ensemble.alone, 0, INT64_MAX / 4, 1,
        "for one start, if the other members are lost: continue without them from the log that ends at this index"),
    INT("skip-entry", options.ensemble.skip_entry, 0, INT64_MAX / 4, 1,
        "index of a log entry that ends every server that applies it; all members skip it when a majority agrees"),
    BOOL(
        "damage.heal", options.ensemble.heal, 0,
        "yes: a member moves damaged data aside and receives all data from the others; no: it does not start (yes)"),
    IDLE("initLimit", RAFT),
    IDLE("syncLimit", RAFT),
    IDLE("cnxTimeout", RAFT),
    IDLE("connectToLearnerMasterLimit", RAFT),
    REFUSED("electionAlg", "3",
            "libraft elects leaders, there is no other algorithm: remove the key"),
    IDLE("electionPortBindRetry", "no effect: the server does not use the election port"),
    IDLE("leaderServes", "no effect: the leader always serves clients"),
    IDLE("syncEnabled", "no effect: observers keep a log, as all servers do"),
    IDLE("observerMasterPort", LEARNERS),
    IDLE("observer.*", LEARNERS),
    IDLE("learner.*", LEARNERS),
    IDLE("leader.*", LEARNERS),
    IDLE("follower.*", LEARNERS),
    IDLE("multiAddress.*", LINKS),
    IDLE("group.*", MAJORITY),
    IDLE("weight.*", MAJORITY),
    REFUSED("oraclePath", "",
            "there is no oracle: of two servers, none can continue without the other"),
    BOOL(
        "reconfigEnabled", reconfig, 0,
        "yes: clients may change the members by reconfig; conclave members add, remove and promote need it (no)"),
    BOOL("localSessionsEnabled", options.local_sessions, 0,
         "yes: only the server that creates a session knows it (no)"),
    BOOL("localSessionsUpgradingEnabled", options.local_upgrading, 0,
         "yes: such a session becomes global when it creates an ephemeral node (no)"),
    BOOL(
        "readonlymode.enabled", options.read_only_mode, 0,
        "yes: without a quorum, clients that ask for read-only mode may read; allows the word isro (no)"),

    /* Operation */
    SPECIAL("admin.enableServer", key_set_admin_enabled, "serve HTTP for operators (yes)"),
    SPECIAL("admin.serverAddress", key_set_admin_address, "address of the admin port (127.0.0.1)"),
    SPECIAL("admin.serverPort", key_set_admin_port, "admin port (8080; 0 selects a free one)"),
    SPECIAL("admin.commandURL", key_set_command_url, "path of the commands (/commands)"),
    LIVE_INT(
        "admin.maxAnswerBytes", admin.options.answer_bytes, 65536, 1 << 28, 1,
        "maximum bytes of the lists in an answer; left_out counts the omitted items (1048576)"),
    INT("admin.idleTimeout", admin.options.idle_ms, 1000, 3600000, 1,
        "time after which idle HTTP connections are closed, ms (30000)"),
    TEXT(
        "admin.allowedHosts", admin.allowed_hosts,
        "names of this server in HTTP requests, in addition to addresses and localhost: a.example,b.example, or *"),
    SPECIAL(
        "admin.console", key_set_console,
        "web console on the admin port: off, read, or on, which lets operators sign in and act (read)"),
    BOOL("admin.stateChangeByGet", admin.options.change_by_get, 0,
         "yes: commands that change state, such as stat_reset, accept GET as well as POST (no)"),
    BOOL(
        "admin.forceHttps", admin.force_https, 0,
        "yes: HTTPS only, with the certificate of the ssl.quorum keys, or else of the ssl keys (no)"),
    BOOL("admin.portUnification", admin.unified, 0,
         "yes: HTTPS as well as HTTP, with the same certificate (no)"),
    BOOL("admin.needClientAuth", admin.need_client_auth, 0,
         "yes: HTTPS clients must present a certificate (no)"),
    REFUSED("ssl.*", NULL, "unknown TLS key: see conclave server --help-all"),
    LIVE_BOOL("admin.snapshot.enabled", admin.options.snapshot, 0,
              "yes: an administrator may download the state by the command snapshot (no)"),
    LIVE_BOOL(
        "admin.restore.enabled", admin.options.restore, 0,
        "yes: an administrator may replace the state by such a file, by the command restore (no)"),
    LIVE_INT("admin.rateLimiterIntervalInMS", admin.options.backup_interval_ms, 0, 86400000, 1,
             "minimum time between two runs of one of these commands, ms (300000)"),
    IDLE("admin.*", "no effect: the admin port has no such setting"),
    SPECIAL("metricsProvider.className", key_set_metrics_provider,
            "the Prometheus provider: serves /metrics on a separate port"),
    INT("metricsProvider.httpPort", admin.options.metrics_listen.port, 0, 65535, 1,
        "port of the provider (7000)"),
    SPECIAL("metricsProvider.httpHost", key_set_metrics_host,
            "address of the provider (every interface)"),
    REFUSED(
        "metricsProvider.httpsPort", NULL,
        "this version does not serve metrics by HTTPS on their own port: remove the key, and use admin.forceHttps"),
    REFUSED(
        "metricsProvider.ssl.*", NULL,
        "this version does not serve metrics by HTTPS on their own port: remove the key, and use admin.forceHttps"),
    IDLE("metricsProvider.exportJvmInfo", "no effect: there is no JVM"),
    IDLE("metricsProvider.*", "no effect: metrics use no threads"),
    LIVE_TEXT("4lw.commands.whitelist", admin.words, "allowed four-letter words, or * (srvr)"),
    BOOL("4lw.memb.enabled", admin.options.memb, 0,
         "no: the word memb of conclave status must be in that list, too (yes)"),
    BOOL("extendedTypesEnabled", extended_types, 0,
         "yes: clients can create nodes with a TTL (no)"),
    IDLE("emulate353TTLNodes", "no effect: there are no files of version 3.5.3 to read"),
    INT("znode.container.checkIntervalMs", options.collector.interval_ms, 1, INT32_MAX, 1,
        "interval between searches for empty containers and nodes whose TTL is over, ms (60000)"),
    INT("znode.container.maxPerMinute", options.collector.per_minute, 1, INT32_MAX, 1,
        "maximum number of these that are removed per minute (10000)"),
    INT("znode.container.maxNeverUsedIntervalMs", options.collector.never_used_ms, 0, INT64_MAX / 4,
        1, "time after which a container that never had a child is removed, ms (0: never)"),
    IDLE("maxBatchSize", "no effect: batches grow while the disk is busy"),
    IDLE("flushDelay", "no effect: batches grow while the disk is busy"),
    IDLE("maxWriteQueuePollTime", "no effect: batches grow while the disk is busy"),
    IDLE("requestThrottle*", "no effect: at globalOutstandingLimit the server pauses reading"),
    IDLE("request_throttle*", "no effect: at globalOutstandingLimit the server pauses reading"),
    IDLE("throttledOpWaitTime", "no effect: at globalOutstandingLimit the server pauses reading"),
    IDLE("largeRequest*", "no effect: the bytes of outstanding requests are always limited"),
    IDLE("connectionMaxTokens", "no effect: maxClientCnxns and maxCnxns limit connections"),
    IDLE("connection*", "no effect: maxClientCnxns and maxCnxns limit connections"),
    IDLE("commitProcessor.*", "no effect: this server has no such threads"),
    INT("nio.sessionlessCnxnTimeout", options.limits.handshake_ms, 1, 3600000, 1,
        "time until a new connection must have requested a session, ms (10000)"),
    IDLE("nio.*", "no effect: this server has no such threads"),
    IDLE("netty.*", "no effect: this server has no such threads"),
    IDLE("jute.maxbuffer.extrasize", "no effect: jute.maxbuffer limits the whole packet"),
    IDLE("maxResponseCacheSize", "no effect: replies need no cache"),
    IDLE("maxGetChildrenResponseCacheSize", "no effect: replies need no cache"),
    IDLE("watchManagerName", "no effect: there is one kind of watch table"),
    IDLE("bitHashCacheSize", "no effect: there is one kind of watch table"),
    IDLE("serverCnxnFactory", "no effect: there is one kind of client port"),
    IDLE("jvm.*", "no effect: there is no JVM"),
    IDLE("globalSessionsEnabled",
         "no effect: localSessionsEnabled decides which kind sessions are"),
    IDLE("tcpKeepAlive", "no effect: links between servers have their own heartbeat"),
};

const size_t key_table_count = sizeof key_table / sizeof key_table[0];

static bool key_matches(const char *name, const char *key)
{
    size_t len = strlen(name);
    if (name[len - 1] == '*') {
        return strncmp(name, key, len - 1) == 0;
    }
    return strcmp(name, key) == 0;
}

const char *key_plain_name(const char *key)
{
    static const char PREFIX[] = "zookeeper.";
    return strncmp(key, PREFIX, sizeof PREFIX - 1) == 0 ? key + sizeof PREFIX - 1 : key;
}

/* Exact names come before patterns, so that a pattern never hides a key. */
const struct key_row *key_find(const char *key)
{
    for (size_t i = 0; i < key_table_count; i++) {
        if (strcmp(key_table[i].name, key) == 0) {
            return &key_table[i];
        }
    }
    for (size_t i = 0; i < key_table_count; i++) {
        if (key_matches(key_table[i].name, key)) {
            return &key_table[i];
        }
    }
    return NULL;
}
