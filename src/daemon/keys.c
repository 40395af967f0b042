#include "daemon/keys.h"

#include "daemon/key_values.h"
#include "daemon/keys_admin.h"
#include "daemon/keys_ensemble.h"
#include "daemon/keys_sasl.h"
#include "daemon/keys_tls.h"

#include <string.h>

#define RAFT "no effect: electionTimeout and heartbeatTimeout say when servers give each other up"
#define LEARNERS "no effect: leaders and learners have no such setting"
#define MAJORITY                                                                                   \
    "no effect: a majority of the participants decides, whatever their groups and weights"
#define LINKS "no effect: all addresses of a server are tried in turn"
#define QUORUM_SASL                                                                                \
    "servers prove a secret or certificates to each other: clusterSecretFile, sslQuorum"
#define NO_DNS "no effect: names in clients' certificates are never looked up"
#define SNIFFED                                                                                    \
    "keystores are read in the forms PEM and PKCS12: convert it with keytool -importkeystore "     \
    "-deststoretype PKCS12"

#define AT(field) offsetof(struct zoo_cfg, field), sizeof(((struct zoo_cfg *)0)->field)
#define INT(name, field, min, max, scale, text)                                                    \
    {                                                                                              \
        name, KEY_INT, AT(field), min, max, scale, NULL, NULL, text                                \
    }
#define BOOL(name, field, turned, text)                                                            \
    {                                                                                              \
        name, KEY_BOOL, AT(field), turned, 0, 0, NULL, NULL, text                                  \
    }
#define TEXT(name, field, text)                                                                    \
    {                                                                                              \
        name, KEY_TEXT, AT(field), 0, 0, 0, NULL, NULL, text                                       \
    }
#define SPECIAL(name, set, text)                                                                   \
    {                                                                                              \
        name, KEY_SPECIAL, 0, 0, 0, 0, 0, set, NULL, text                                          \
    }
#define IDLE(name, text)                                                                           \
    {                                                                                              \
        name, KEY_IDLE, 0, 0, 0, 0, 0, NULL, NULL, text                                            \
    }
#define REFUSED(name, harmless, text)                                                              \
    {                                                                                              \
        name, KEY_REFUSED, 0, 0, 0, 0, 0, NULL, harmless, text                                     \
    }

const struct key_row key_table[] = {
    /* What it serves */
    SPECIAL("dataDir", key_set_data_dir, "the data folder, used as it is (as --data)"),
    INT("clientPort", options.listen.port, 0, 65535, 1, "client port (2181; 0 takes a free one)"),
    SPECIAL("clientPortAddress", key_set_address,
            "address to listen on (127.0.0.1; with a zoo.cfg every interface)"),
    INT("clientPortListenBacklog", options.backlog, -1, 65535, 1,
        "connections that wait in the kernel (-1: 511)"),

    /* Sessions and limits */
    INT("tickTime", options.limits.tick_ms, 10, 600000, 1, "unit of session expiry, ms (2000)"),
    INT("minSessionTimeout", session_min_ms, -1, 86400000, 1, "ms (-1: 2 ticks)"),
    INT("maxSessionTimeout", session_max_ms, -1, 86400000, 1, "ms (-1: 20 ticks)"),
    INT("maxClientCnxns", options.limits.address_max, 0, 1000000, 1,
        "connections of one address (60; 0: no limit)"),
    INT("maxCnxns", options.limits.connections_max, 0, 10000000, 1,
        "all connections (0: what the limit of open files allows)"),
    INT("maxTlsHandshakes", options.limits.handshakes_max, 1, 1000000, 1,
        "TLS handshakes of clients under way; beyond it the slowest client is dropped (1000)"),
    INT("maxTlsHandshakesPerSecondPerAddress", options.limits.address_handshakes_max, 1, 1000000, 1,
        "TLS handshakes of one address; more connections are refused (200)"),
    INT("globalOutstandingLimit", options.limits.outstanding_max, 1, 1000000, 1,
        "requests being worked on at which reading pauses (1000)"),
    INT("maxWatchesPerConnection", options.limits.watches_max, 1, UINT32_MAX - 1, 1,
        "watches of one connection (1000000)"),
    INT("maxWatches", options.limits.watches_total_max, 1, UINT32_MAX - 1, 1,
        "watches of all connections (20000000)"),
    INT("maxWatchBytesPerConnection", options.limits.watch_bytes_max, 1024, INT64_MAX / 4, 1,
        "bytes of their paths (67108864)"),
    INT("maxWatchBytes", options.limits.watch_bytes_total_max, 0, INT64_MAX / 4, 1,
        "of all connections; one address has half at most (0: an eighth of the memory)"),
    INT("maxBufferBytes", options.limits.buffers_max, 0, INT64_MAX / 4, 1,
        "unread answers and unfinished requests of all connections (0: an eighth of the memory)"),
    INT("maxBufferBytesPerAddress", options.limits.address_buffers_max, 0, INT64_MAX / 4, 1,
        "of one address (0: a quarter of maxBufferBytes)"),
    INT("maxDataBytes", options.limits.data_max, 0, INT64_MAX / 4, 1,
        "memory of nodes and sessions at which writes that add data are refused (0: a quarter of the memory)"),
    INT("maxSessions", options.limits.sessions_max, 1, 100000000, 1, "sessions (1000000)"),
    INT("maxSessionsPerAddress", options.limits.address_sessions_max, 1, 100000000, 1,
        "sessions made from one address (100000)"),
    INT("maxRequestsPerSecondPerAddress", options.limits.address_rate_max, 1, 1000000000, 1,
        "requests from one address; more are answered THROTTLEDOP (10000000)"),
    INT("maxBytesInFlightPerAddress", options.limits.address_bytes_max, 1024, INT64_MAX / 4, 1,
        "bytes of its requests being worked on at which its reading pauses (33554432)"),
    INT("maxResultsPerSession", options.limits.session_results_max, 0, 1000000, 1,
        "writes of a client that asks for it that are remembered, so that none is done twice (1000; 0: none)"),
    INT("maxResultBytesPerSession", options.limits.session_result_bytes_max, 1024, 1 << 30, 1,
        "bytes of their answers (131072)"),
    INT("maxOperationsPerMulti", options.limits.command.parts, 1, BOUNDS_PARTS, 1,
        "operations of one multi or multiRead (10000)"),
    INT("maxAclEntries", options.limits.command.acl.entries, 1, BOUNDS_ACL_ENTRIES, 1,
        "entries of one ACL, with the caller's ids in place of auth (256)"),
    INT("maxAclBytes", options.limits.command.acl.bytes, 256, BOUNDS_ACL_BYTES, 1,
        "their bytes (16384)"),
    INT("maxIdsPerConnection", options.limits.command.ids, 4, BOUNDS_IDS, 1,
        "ids that one client authenticates as, 4 KiB in all (32)"),
    INT("maxPathBytes", options.limits.command.path_bytes, 64, BOUNDS_PATH_BYTES, 1,
        "of the path of a new node (8192)"),
    INT("maxPathDepth", options.limits.command.path_depth, 4, BOUNDS_PATH_DEPTH, 1,
        "names in the path of a new node (256)"),
    INT("maxReplyBytes", options.limits.reply_max, 0, 1 << 30, 1,
        "of the answer to one read (0: four times jute.maxbuffer, 12 MiB at least)"),
    INT("jute.maxbuffer", options.limits.frame_max, 1024, 1 << 30, 1,
        "largest request packet, bytes (1048575)"),

    /* Storage */
    INT("snapCount", options.snapshot_writes, 2, INT64_MAX / 4, 1,
        "writes between snapshots (100000), more while the tree is larger than the log"),
    INT("snapSizeLimitInKb", options.snapshot_log_bytes, -1, INT64_MAX >> 12, 1024,
        "or log between snapshots, KiB (4194304; 0 or less: no limit)"),
    INT("preAllocSize", options.segment_bytes, 64, 1 << 22, 1024,
        "size of a log segment, KiB (16384)"),
    BOOL("forceSync", options.sync, 0,
         "no: acknowledged writes may be lost when the machine fails (yes)"),
    INT("autopurge.snapRetainCount", options.snapshots_kept, 3, 1000, 1, "snapshots kept (3)"),
    IDLE("autopurge.purgeInterval", "no effect: old snapshots and logs are always removed"),
    IDLE("dataLogDir",
         "no effect: the log stands in the data folder; point --data to the faster disk"),
    IDLE("txnLogSizeLimitInKb", "no effect: preAllocSize gives the size of a log file"),
    IDLE("commitLogCount",
         "no effect: the log serves those who are behind, as far back as it is kept"),
    IDLE("fsync.warningthresholdms", "no effect: slow syncs are counted, not logged"),
    IDLE("snapshot.trust.empty", "no effect: a missing snapshot is never trusted"),
    IDLE("snapshot.compression.method", "no effect: snapshots have a form of their own"),
    IDLE("snapshot.*", "no effect: snapshots have a form of their own"),
    IDLE("digest.enabled", "no effect: every snapshot and log entry has a checksum"),
    IDLE("db.autocreate", "no effect: an empty data folder starts an empty tree"),
    IDLE("serializeLastProcessedZxid.enabled", "no effect: snapshots have a form of their own"),

    /* Access */
    BOOL("skipACL", options.skip_acl, 0, "yes: every client may do everything (no)"),
    SPECIAL("DigestAuthenticationProvider.superDigest", key_set_super_digest,
            "user:hash of the superuser"),
    SPECIAL("superDigest", key_set_super_digest, "the same"),
    SPECIAL(
        "DigestAuthenticationProvider.digestAlg", key_set_digest_algorithm,
        "hash in ids of digest, the same on all servers: SHA1, SHA-256, SHA-512, SHA3-256 (SHA1)"),
    BOOL("DigestAuthenticationProvider.enabled", options.digest.off, 1,
         "no: nobody authenticates by digest, and no ACL may name it (yes)"),
    TEXT("digest.users.file", digest_users_file,
         "who may authenticate by digest: lines that conclave users makes (anybody may)"),
    BOOL("digest.tlsOnly", options.digest.tls_only, 0,
         "yes: digest, whose password comes in clear, is for connections with TLS (no)"),
    BOOL("secure", secure, 0,
         "yes: TLS, authentication and closed ACLs by default: docs/security.md (no)"),
    BOOL(
        "closeInitialAcls", options.close_acls, 0,
        "yes: the ACLs of a new tree are closed: / to administration, /zookeeper and /zookeeper/quota to "
        "writes (no)"),
    BOOL("warnOpenClientPort", warn_open, 0,
         "no: nothing is said of a client port that is open to other machines (yes)"),
    BOOL("coreDumps", options.core_dumps, 0,
         "yes: a crash may leave a core dump, which holds keys and passwords (no)"),
    BOOL("seccomp", options.seccomp, 0,
         "yes: the server gives up system calls that it has no use for, such as execve (no)"),
    SPECIAL("authProvider.*", key_set_auth_provider,
            "Apache's SASLAuthenticationProvider: SASL must be set up"),
    BOOL("enforce.auth.enabled", enforce_auth, 0,
         "yes: only clients that authenticated by one of enforce.auth.schemes are served (no)"),
    SPECIAL("enforce.auth.schemes", key_set_auth_schemes, "such as digest,ip"),
    BOOL("enforceQuota", enforce_quota, 0, "yes: hard quotas of subtrees are enforced (no)"),
    BOOL("fencing.enabled", fencing, 0,
         "yes: a prefix may be bound to a lock: conclave fence, docs/fencing.md (no)"),
    BOOL("audit.enable", options.audit, 0, "yes: a line for each write and each login (no)"),
    SPECIAL("audit.file", key_set_audit_file, "where these lines go (stderr)"),
    IDLE("audit.*", "no effect: Java classes cannot be loaded"),

    /* SASL */
    SPECIAL("sasl.jaas.file", key_set_jaas_file,
            "JAAS file as Java's: DigestLoginModule with users, or Krb5LoginModule with a keytab"),
    SPECIAL("java.security.auth.login.config", key_set_jaas_file, "the same"),
    SPECIAL("sasl.users.file", key_set_users_file,
            "or, for DIGEST-MD5, a file of user:password lines that only its owner may read"),
    SPECIAL("sasl.serverconfig", key_set_login_section, "section of the JAAS file (Server)"),
    SPECIAL("SASLAuthenticationProvider.superPassword", key_set_super_password,
            "password of the user super, if there is one"),
    BOOL("sessionRequireClientSASLAuth", login.require_sasl, 0,
         "yes: as enforce.auth.enabled with the scheme sasl (no)"),
    BOOL("allowSaslFailedClients", login.options.allow_failed, 0,
         "yes: a client that fails keeps its connection, without an id (no)"),
    SPECIAL("superUser*", key_set_super_user, "sasl id of the superuser; superUser.N: of more"),
    SPECIAL("letAnySaslUserDoX", key_set_any_user,
            "every client with a sasl id is permitted what this one is"),
    BOOL("kerberos.removeHostFromPrincipal", login.options.remove_host, 0,
         "yes: name/host@REALM becomes name@REALM (no)"),
    BOOL("kerberos.removeRealmFromPrincipal", login.options.remove_realm, 0,
         "yes: name@REALM becomes name, for the default realm (no)"),
    REFUSED("security.auth_to_local", "DEFAULT", "only the rule DEFAULT is known: remove the key"),
    IDLE("requireClientAuthScheme",
         "no effect, as in Apache ZooKeeper: use sessionRequireClientSASLAuth"),
    IDLE("jaasLoginRenew", "no effect: a keytab needs no renewal"),
    IDLE("kerberos.*", "no effect: Kerberos is not in Java here"),

    /* TLS */
    INT("secureClientPort", secure_port, 0, 65535, 1,
        "port for TLS alone; without clientPort or --listen there is no plain one then"),
    SPECIAL("secureClientPortAddress", key_set_secure_address,
            "its address (as the client port's)"),
    BOOL("client.portUnification", options.unified, 0, "yes: the client port takes TLS, too (no)"),
    BOOL("client.certReload", options.tls_reload, 0,
         "yes: certificate files are read again when they change (no; SIGHUP reads them always)"),
    TEXT("ssl.certFile", tls.cert_file, "PEM: the server's certificate and those above it"),
    TEXT("ssl.keyFile", tls.key_file, "PEM: its private key, unless ssl.certFile holds it"),
    TEXT("ssl.caFile", tls.ca_file, "PEM: certificates that clients' must come from"),
    TEXT("ssl.crlFile", tls.crl_file, "PEM: lists of revoked certificates"),
    BOOL("ssl.crlCheckAll", tls.crl_check_all, 0,
         "yes: the certificates between a client's and the CA are checked, too (no)"),
    TEXT("ssl.keyStore.location", tls.key_store, "certificate and key in one file, PEM or PKCS12"),
    TEXT("ssl.keyStore.password", tls.key_password, "password of the key or of the PKCS12 file"),
    TEXT("ssl.keyStore.passwordPath", tls.key_password_path, "file whose first line is it"),
    REFUSED("ssl.keyStore.type", "PEM|PKCS12|JKS|", SNIFFED),
    TEXT("ssl.trustStore.location", tls.trust_store,
         "certificates that clients' must come from, PEM or PKCS12"),
    TEXT("ssl.trustStore.password", tls.trust_password, "password of that file"),
    TEXT("ssl.trustStore.passwordPath", tls.trust_password_path, "file whose first line is it"),
    REFUSED("ssl.trustStore.type", "PEM|PKCS12|JKS|", SNIFFED),
    TEXT("ssl.clientAuth", tls.client_auth, "clients' certificates: none, want, need (need)"),
    TEXT("ssl.protocol", tls.protocol, "newest version: TLSv1.2, TLSv1.3 (TLSv1.3)"),
    TEXT("ssl.enabledProtocols", tls.enabled_protocols, "versions (TLSv1.3,TLSv1.2)"),
    TEXT("ssl.ciphersuites", tls.ciphers, "cipher suites by Java's or OpenSSL's names"),
    TEXT("X509AuthenticationProvider.superUser", tls.x509_super,
         "subject of the superuser's certificate: CN=...,O=..."),
    REFUSED("authProvider.x509", "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
            "there is one provider for x509: remove the key"),
    REFUSED("ssl.authProvider", "x509", "certificates speak for x509 only: remove the key"),
    REFUSED("ssl.crl", "false", "name the file of the lists with ssl.crlFile"),
    REFUSED("ssl.ocsp", "false", "OCSP is not asked: use ssl.crlFile"),
    REFUSED("ssl.clientHostnameVerification", "false",
            "clients' certificates are checked by their issuer, not by host names: remove the key"),
    REFUSED("ssl.context.supplier.class", "", "Java classes cannot be loaded: remove the key"),
    REFUSED("ssl.keyStore.*", NULL, "unknown key of TLS: see conclave help server"),
    REFUSED("ssl.trustStore.*", NULL, "unknown key of TLS: see conclave help server"),
    IDLE("ssl.hostnameVerification", NO_DNS),
    IDLE("ssl.allowReverseDnsLookup", NO_DNS),
    IDLE("ssl.tcnative.*", "no effect: OpenSSL is used as it is"),
    IDLE("ssl.sslProvider", "no effect: OpenSSL is used as it is"),
    IDLE("ssl.handshakeDetectionTimeoutMillis", "no effect: the first packet must come in 10 s"),
    IDLE("fips-mode", "no effect: the configuration of OpenSSL decides it"),

    /* Ensembles */
    SPECIAL("server.*", key_set_server,
            "a server: host:port:port[:role][;[host:]clientPort]; role: participant or observer"),
    SPECIAL("dynamicConfigFile", key_set_dynamic_file, "its server.N lines are read"),
    SPECIAL("version", key_set_version, "of the dynamicConfigFile, hexadecimal"),
    SPECIAL("myid", key_set_myid,
            "which of them this server is, unless dataDir/myid says it (as --server-id)"),
    SPECIAL("peerType", key_set_peer_type, "checked against the server.N line"),
    BOOL("standaloneEnabled", members.standalone_enabled, 0,
         "no: one server.N line alone opens its peer port, so that others can join (yes)"),
    BOOL("quorumListenOnAllIPs", members.listen_all, 0,
         "yes: the peer port is opened on every interface (no)"),
    TEXT("clusterSecretFile", members.secret_file,
         "file with what the servers of the ensemble share, 16 characters or more"),
    SPECIAL("clusterSecret", key_set_secret, "the same, as the value itself"),
    BOOL("sslQuorum", members.ssl_quorum, 0,
         "yes: servers prove certificates to each other, by the ssl.quorum keys (no)"),
    BOOL("sslQuorumReloadCertFiles", members.tls_reload, 0,
         "yes: these files are read again when they change (no; SIGHUP reads them always)"),
    TEXT("ssl.quorum.certFile", members.tls.cert_file,
         "PEM: this server's certificate and those above it"),
    TEXT("ssl.quorum.keyFile", members.tls.key_file,
         "PEM: its private key, unless ssl.quorum.certFile holds it"),
    TEXT("ssl.quorum.caFile", members.tls.ca_file,
         "PEM: certificates that other servers' must come from"),
    TEXT("ssl.quorum.crlFile", members.tls.crl_file, "PEM: lists of revoked certificates"),
    BOOL("ssl.quorum.crlCheckAll", members.tls.crl_check_all, 0,
         "yes: the certificates between a server's and the CA are checked, too (no)"),
    TEXT("ssl.quorum.keyStore.location", members.tls.key_store,
         "certificate and key in one file, PEM or PKCS12"),
    TEXT("ssl.quorum.keyStore.password", members.tls.key_password,
         "password of the key or of the PKCS12 file"),
    TEXT("ssl.quorum.keyStore.passwordPath", members.tls.key_password_path,
         "file whose first line is it"),
    REFUSED("ssl.quorum.keyStore.type", "PEM|PKCS12|JKS|", SNIFFED),
    TEXT("ssl.quorum.trustStore.location", members.tls.trust_store,
         "certificates that other servers' must come from, PEM or PKCS12"),
    TEXT("ssl.quorum.trustStore.password", members.tls.trust_password, "password of that file"),
    TEXT("ssl.quorum.trustStore.passwordPath", members.tls.trust_password_path,
         "file whose first line is it"),
    REFUSED("ssl.quorum.trustStore.type", "PEM|PKCS12|JKS|", SNIFFED),
    BOOL("ssl.quorum.hostnameVerification", members.verify_hosts, 0,
         "no: any certificate of the CA will do, whatever host it is for (yes)"),
    TEXT("ssl.quorum.protocol", members.tls.protocol, "newest version: TLSv1.2, TLSv1.3 (TLSv1.3)"),
    TEXT("ssl.quorum.enabledProtocols", members.tls.enabled_protocols,
         "versions (TLSv1.3,TLSv1.2)"),
    TEXT("ssl.quorum.ciphersuites", members.tls.ciphers,
         "cipher suites by Java's or OpenSSL's names"),
    REFUSED("ssl.quorum.clientAuth", "need", "servers always need certificates: remove the key"),
    REFUSED("ssl.quorum.clientHostnameVerification", "true",
            "both sides are checked alike, by ssl.quorum.hostnameVerification: remove the key"),
    REFUSED("ssl.quorum.crl", "false", "name the file of the lists with ssl.quorum.crlFile"),
    REFUSED("ssl.quorum.ocsp", "false", "OCSP is not asked: use ssl.quorum.crlFile"),
    REFUSED("ssl.quorum.context.supplier.class", "",
            "Java classes cannot be loaded: remove the key"),
    IDLE("ssl.quorum.handshakeDetectionTimeoutMillis", "no effect: a handshake must end in 2 s"),
    IDLE("ssl.quorum.allowReverseDnsLookup",
         "no effect: names in certificates are never looked up"),
    REFUSED("ssl.quorum.*", NULL, "unknown key of TLS: see conclave help server"),
    REFUSED("portUnification", "false",
            "servers without certificates are not let in beside others: remove the key"),
    REFUSED("quorum.auth.enableSasl", "false", QUORUM_SASL),
    REFUSED("quorum.auth.learnerRequireSasl", "false", QUORUM_SASL),
    REFUSED("quorum.auth.serverRequireSasl", "false", QUORUM_SASL),
    IDLE("quorum.auth.*", "no effect: SASL between servers is not used"),
    IDLE("quorum.*", LEARNERS),
    INT("electionTimeout", members.election_ms, 50, 60000, 1,
        "without word from the leader, after which another is elected, ms (400)"),
    INT("heartbeatTimeout", members.heartbeat_ms, 0, 30000, 1,
        "between words of an idle leader, ms (0: a fifth of electionTimeout)"),
    BOOL("linearizableReads", options.ensemble.linearizable_reads, 0,
         "yes: every read sees all that was written before it, anywhere (no)"),
    INT("ensemble.alone", options.ensemble.alone, 0, INT64_MAX / 4, 1,
        "once, when the other members are lost: go on without them from this log index"),
    INT("skip-entry", options.ensemble.skip_entry, 0, INT64_MAX / 4, 1,
        "an entry of the log that ends every server that applies it: pass it over, once a majority says so"),
    BOOL("damage.heal", options.ensemble.heal, 0,
         "a member moves damaged data aside and gets them from the others (yes)"),
    IDLE("initLimit", RAFT),
    IDLE("syncLimit", RAFT),
    IDLE("cnxTimeout", RAFT),
    IDLE("connectToLearnerMasterLimit", RAFT),
    REFUSED("electionAlg", "3", "elections are libraft's: remove the key"),
    IDLE("electionPortBindRetry", "no effect: the election port is not used"),
    IDLE("leaderServes", "no effect: the leader serves clients"),
    IDLE("syncEnabled", "no effect: observers keep a log, as all servers do"),
    IDLE("observerMasterPort", LEARNERS),
    IDLE("observer.*", LEARNERS),
    IDLE("learner.*", LEARNERS),
    IDLE("leader.*", LEARNERS),
    IDLE("follower.*", LEARNERS),
    IDLE("multiAddress.*", LINKS),
    IDLE("group.*", MAJORITY),
    IDLE("weight.*", MAJORITY),
    REFUSED("oraclePath", "", "there is no oracle: two servers cannot go on without each other"),
    BOOL("reconfigEnabled", reconfig, 0,
         "yes: clients may change the members by reconfig; members add and its kin need it (no)"),
    BOOL("localSessionsEnabled", options.local_sessions, 0,
         "yes: an ensemble's new sessions are known to the server only that made them (no)"),
    BOOL("localSessionsUpgradingEnabled", options.local_upgrading, 0,
         "yes: such a session becomes one of all servers when it makes an ephemeral node (no)"),
    BOOL("readonlymode.enabled", options.read_only_mode, 0,
         "yes: without a quorum, clients that ask for it may read; allows the word isro (no)"),

    /* Operation */
    SPECIAL("admin.enableServer", key_set_admin_enabled, "serve HTTP for operators (yes)"),
    SPECIAL("admin.serverAddress", key_set_admin_address, "its address (127.0.0.1)"),
    SPECIAL("admin.serverPort", key_set_admin_port, "its port (8080; 0 takes a free one)"),
    SPECIAL("admin.commandURL", key_set_command_url, "where the commands stand (/commands)"),
    INT("admin.maxAnswerBytes", admin.answer_bytes, 65536, 1 << 28, 1,
        "most bytes of the lists in an answer; left_out counts the rest (1048576)"),
    INT("admin.idleTimeout", admin.idle_ms, 1000, 3600000, 1, "idle HTTP connections, ms (30000)"),
    TEXT(
        "admin.allowedHosts", admin.allowed_hosts,
        "names of this server in HTTP requests, beside addresses and localhost: a.example,b.example, or *"),
    BOOL("admin.stateChangeByGet", admin.change_by_get, 0,
         "yes: commands that change state, such as stat_reset, take GET as well as POST (no)"),
    BOOL(
        "admin.forceHttps", admin.force_https, 0,
        "yes: HTTPS only, with the certificate of the ssl.quorum keys, or else of the ssl keys (no)"),
    BOOL("admin.portUnification", admin.unified, 0, "yes: HTTPS as well as HTTP, likewise (no)"),
    BOOL("admin.needClientAuth", admin.need_client_auth, 0,
         "yes: who speaks HTTPS must show a certificate (no)"),
    REFUSED("ssl.*", NULL, "unknown key of TLS: see conclave help server"),
    BOOL("admin.snapshot.enabled", admin.snapshot, 0,
         "yes: an administrator may have the state as a file, by the command snapshot (no)"),
    BOOL("admin.restore.enabled", admin.restore, 0,
         "yes: and replace the state by such a file, by the command restore (no)"),
    INT("admin.rateLimiterIntervalInMS", admin.backup_interval_ms, 0, 86400000, 1,
        "between two of the same of these commands, ms (300000)"),
    IDLE("admin.*", "no effect: the admin port has no such setting"),
    SPECIAL("metricsProvider.className", key_set_metrics_provider,
            "the Prometheus provider: /metrics on a port of its own"),
    INT("metricsProvider.httpPort", admin.metrics_listen.port, 0, 65535, 1, "that port (7000)"),
    SPECIAL("metricsProvider.httpHost", key_set_metrics_host, "its address (every interface)"),
    REFUSED("metricsProvider.httpsPort", NULL,
            "HTTPS for metrics is not in this version: remove the key"),
    REFUSED("metricsProvider.ssl.*", NULL,
            "HTTPS for metrics is not in this version: remove the key"),
    IDLE("metricsProvider.exportJvmInfo", "no effect: there is no JVM"),
    IDLE("metricsProvider.*", "no effect: metrics need no threads of their own"),
    SPECIAL("4lw.commands.whitelist", key_set_words,
            "four-letter words that are answered, or * (srvr)"),
    BOOL("4lw.memb.enabled", admin.memb, 0,
         "no: the word memb of conclave status needs a place in that list, too (yes)"),
    BOOL("extendedTypesEnabled", extended_types, 0, "yes: nodes with a TTL can be created (no)"),
    IDLE("emulate353TTLNodes", "no effect: there are no files of version 3.5.3 to read"),
    INT("znode.container.checkIntervalMs", options.collector.interval_ms, 1, INT32_MAX, 1,
        "between looks for empty containers and nodes whose TTL is over, ms (60000)"),
    INT("znode.container.maxPerMinute", options.collector.per_minute, 1, INT32_MAX, 1,
        "how many of them are removed (10000)"),
    INT("znode.container.maxNeverUsedIntervalMs", options.collector.never_used_ms, 0, INT64_MAX / 4,
        1, "after which a container that never had a child is removed, ms (0: never)"),
    IDLE("maxBatchSize", "no effect: batches follow the speed of the disk"),
    IDLE("flushDelay", "no effect: batches follow the speed of the disk"),
    IDLE("maxWriteQueuePollTime", "no effect: batches follow the speed of the disk"),
    IDLE("requestThrottle*", "no effect: globalOutstandingLimit pauses reading"),
    IDLE("request_throttle*", "no effect: globalOutstandingLimit pauses reading"),
    IDLE("throttledOpWaitTime", "no effect: globalOutstandingLimit pauses reading"),
    IDLE("largeRequest*", "no effect: the bytes of outstanding requests are always limited"),
    IDLE("connectionMaxTokens", "no effect: maxClientCnxns and maxCnxns limit connections"),
    IDLE("connection*", "no effect: maxClientCnxns and maxCnxns limit connections"),
    IDLE("commitProcessor.*", "no effect: this server has no such threads"),
    INT("nio.sessionlessCnxnTimeout", options.limits.handshake_ms, 1, 3600000, 1,
        "ms until a new connection must have asked for its session (10000)"),
    IDLE("nio.*", "no effect: this server has no such threads"),
    IDLE("netty.*", "no effect: this server has no such threads"),
    IDLE("jute.maxbuffer.extrasize", "no effect: jute.maxbuffer limits the whole packet"),
    IDLE("maxResponseCacheSize", "no effect: replies need no cache"),
    IDLE("maxGetChildrenResponseCacheSize", "no effect: replies need no cache"),
    IDLE("watchManagerName", "no effect: there is one kind of watch table"),
    IDLE("bitHashCacheSize", "no effect: there is one kind of watch table"),
    IDLE("serverCnxnFactory", "no effect: there is one kind of client port"),
    IDLE("jvm.*", "no effect: there is no JVM"),
    IDLE("globalSessionsEnabled", "no effect: localSessionsEnabled says which kind sessions are"),
    IDLE("tcpKeepAlive", "no effect: links between servers have a heartbeat of their own"),
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
