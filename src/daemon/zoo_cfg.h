/*
 * The configuration of `conclave server`: an Apache zoo.cfg, command line options, and any zoo.cfg key as `--key
 * value`. One table knows every key: what it sets, or why it has no effect. Later values replace earlier ones; the
 * command line overrides the file.
 *
 * `notices` names every key without effect. A key that would weaken security if it were ignored is an error.
 */
#ifndef DAEMON_ZOO_CFG_H
#define DAEMON_ZOO_CFG_H

#include "apache/learner/source_access.h"
#include "base/buf.h"
#include "base/log.h"
#include "cluster/server_options.h"
#include "daemon/admin_options.h"
#include "daemon/effective_config.h"

/* Values of the keys of TLS, as given; own memory. */
struct keys_tls {
    char *cert_file;
    char *key_file;
    char *ca_file;
    char *crl_file;
    char *key_store;
    char *key_password;
    char *key_password_path;
    char *trust_store;
    char *trust_password;
    char *trust_password_path;
    char *protocol;
    char *enabled_protocols;
    char *ciphers;
    char *client_auth;
    char *x509_super;
    bool crl_check_all;
};

/* Values of the keys of SASL; own memory. */
struct keys_sasl {
    char *jaas_file;
    char *users_file;
    char *section;        /* section of the JAAS file, NULL: Server */
    char *super_password; /* of the user super */
    bool provider;        /* an authProvider.N names SASL */
    bool require_sasl;
    struct sasl_options options;
};

/* The keys of the admin room; see keys_admin.h. Owns its strings. */
struct keys_admin {
    struct admin_options options;
    bool have_option;      /* --admin was given: overrides the keys */
    bool force_https;      /* admin.forceHttps */
    bool unified;          /* admin.portUnification */
    bool need_client_auth; /* admin.needClientAuth */
    char *command_url;     /* admin.commandURL, or NULL */
    char *allowed_hosts;   /* admin.allowedHosts, or NULL */
    char *words;           /* 4lw.commands.whitelist, or NULL */
};

/* The keys about ensembles; own memory. See keys_ensemble.h. */
struct keys_ensemble {
    struct server_line *lines; /* by id */
    size_t count;
    uint64_t my_id; /* from the key myid; 0: not set */
    bool said_type; /* peerType was given */
    bool said_observer;
    bool standalone_enabled;
    bool listen_all;
    char *secret;
    char *other_secret; /* the second line of the file: accepted, not sent */
    char *secret_file;
    bool ssl_quorum;
    bool verify_hosts;
    bool tls_reload;
    struct keys_tls tls;
    int32_t election_ms;
    int32_t heartbeat_ms; /* 0: follows election_ms */
};

/* The keys of the link to the source of a mirror; own memory. See keys_ensemble.h. */
struct keys_mirror {
    struct source_settings source;
    char *login_file; /* mirror.sasl.file, or NULL */
    struct sasl_options login;
};

struct zoo_cfg {
    struct server_options options; /* its strings point into this struct */
    struct buf notices;            /* lines "conclave: KEY: TEXT\n" for stderr */
    char *error;                   /* after a failure: one line: what happened, where, what to do */
    bool help;                     /* --help or --help-all was given: the rest is ignored */
    bool help_all;
    bool test;      /* --test: test_profile.h */
    bool until_eof; /* --until-eof: the server ends with its standard input */

    /* Own memory of options, and what the conclusions need. */
    char *data_dir;
    char *apache_log_dir;
    char *super_digest;
    char *digest_users_file;
    bool secure;    /* the profile: secure_profile.h */
    bool warn_open; /* warnOpenClientPort */
    char *auth_schemes;
    char *dynamic_file;
    char *audit_file;
    struct keys_sasl login;
    bool from_file; /* a zoo.cfg was read: its default for clientPortAddress is every interface */
    bool have_address;
    bool have_listen; /* --listen: overrides clientPort and clientPortAddress */
    bool have_port;
    bool have_secure_address;
    int32_t secure_port; /* -1: none */
    struct keys_tls tls;
    struct keys_admin admin;
    enum log_level log_level;
    enum log_format log_format;
    struct effective_config given; /* all keys with their values, for operators */
    int32_t session_min_ms;        /* -1: derived from tickTime */
    int32_t session_max_ms;
    bool enforce_auth;  /* enforce.auth.enabled */
    bool enforce_quota; /* these become command_options */
    bool fencing;
    bool extended_types;
    bool reconfig;
    struct keys_ensemble members;
    struct keys_mirror mirror;
    bool have_line_port; /* the client port comes from the server.N line */
};

void zoo_cfg_init(struct zoo_cfg *c);
void zoo_cfg_finish(struct zoo_cfg *c);

/* Whether the argument is an option without a value. */
bool zoo_cfg_is_flag(const char *argument);

/* Reads the arguments after `server`. 0, or CONCLAVE_EINVAL or CONCLAVE_ENOMEM with c->error set. */
int zoo_cfg_parse(struct zoo_cfg *c, int argc, char **argv) CONCLAVE_MUST_USE;

/* Sets one key. `where` names the source in messages ("zoo.cfg line 3"). Errors as zoo_cfg_parse. */
int zoo_cfg_set(struct zoo_cfg *c, const char *key, const char *value, const char *where,
                bool from_file) CONCLAVE_MUST_USE;

/* The shortest and the longest session timeout of l: these, or (-1) what follows from its tick. Errors as zoo_cfg_parse. */
int zoo_cfg_session_limits(struct zoo_cfg *c, struct client_limits *l, int32_t min_ms,
                           int32_t max_ms) CONCLAVE_MUST_USE;

/* Appends all keys that have an effect, for --help-all. */
void zoo_cfg_print_keys(struct buf *out);

#endif
