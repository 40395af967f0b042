/*
 * A registry of services: instances register, and clients find them. The nodes are those of
 * Curator's service discovery (x-discovery), base/NAME/ID with its JSON, so that Java programs and
 * programs with this library find each other.
 *
 * A registration is a node that the library creates again when it is lost, like a member of a
 * group: an ephemeral one, or with the types STATIC and PERMANENT one that stays when its program dies. A discovery keeps the instances, reports changes, and keeps its list during
 * an outage of the ensemble.
 */
#ifndef CONCLAVE_REGISTRY_H
#define CONCLAVE_REGISTRY_H

#include <conclave/recipes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An instance of a service. Everything lives until the callback returns or it is freed. */
struct conclave_instance {
    const char *name; /* of the service */
    const char *id;
    const char *address;   /* host name or number; "" when it gave none */
    int port;              /* 0: none */
    int ssl_port;          /* 0: none */
    const char *payload;   /* text, or what else it is as JSON; NULL: none */
    int64_t registered_ms; /* since 1970, by its own clock */
    /* "DYNAMIC": goes with its session; "STATIC", "PERMANENT": lasts. Another text if another library
     * wrote one */
    const char *type;
    bool enabled;                /* it wants to be used */
    struct conclave_token token; /* of its node */
    const char *uri_spec; /* its URI with fields in braces, see conclave_instance_uri; NULL: none */
};

/* The instance's URI: its uri_spec with each field in braces replaced by its value: scheme ("https"
 * when it has an ssl_port, else "http"), name, id, address, port, ssl-port, registration-time-utc,
 * service-type (in small letters), [ and ] (a brace). variables (may be NULL) are names and values in
 * turn, NULL at the end, and come before these. A field without a value is left out. 0 and *ret, to
 * be freed with free; CONCLAVE_EEMPTY (it has no uri_spec), CONCLAVE_EINVAL, CONCLAVE_ENOMEM. */
CONCLAVE_API int conclave_instance_uri(const struct conclave_instance *instance,
                                       const char *const *variables, char **ret) CONCLAVE_MUST_USE;

/* --- registering --------------------------------------------------------------------- */

struct conclave_registration;

struct conclave_registration_callbacks {
    size_t size;
    /* Whether the node exists, as far as is known; false also if another instance has the id. */
    void (*on_registered)(struct conclave_registration *registration, bool registered, void *ctx);
    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_registration *registration, int why, void *ctx);
};
#define CONCLAVE_REGISTRATION_CALLBACKS_INIT CONCLAVE_INIT(conclave_registration_callbacks)

/* What an instance's node is; Curator gives STATIC and PERMANENT the same one, a persistent node. */
enum conclave_instance_type {
    CONCLAVE_INSTANCE_DYNAMIC,   /* ephemeral */
    CONCLAVE_INSTANCE_STATIC,    /* persistent: for a service that does not register by itself */
    CONCLAVE_INSTANCE_PERMANENT, /* persistent */
};

/* Begin with CONCLAVE_REGISTRATION_OPTIONS_INIT, then set what differs. */
struct conclave_registration_options {
    size_t size;
    const char *path;    /* the base of the registry; made with its parents as containers */
    const char *name;    /* of the service, without "/" */
    const char *id;      /* without "/", once on a client; NULL: a random one */
    const char *address; /* UTF-8, as name and payload */
    int port;            /* 0: none */
    int ssl_port;        /* 0: none */
    const char *payload; /* a text, at most 512 KiB; NULL: none */
    bool disabled;       /* there, but not to be used now */
    const struct conclave_acl *acl; /* of all created nodes; NULL: the client's */
    size_t acl_count;
    const char *uri_spec; /* "{scheme}://{address}:{port}/x", as Curator's UriSpec; NULL: none */
    /* With another type than DYNAMIC, several programs may register the same id: what one of them
     * writes last stays. */
    enum conclave_instance_type type;
    bool keep; /* closing leaves the node of a STATIC or PERMANENT instance */
};
#define CONCLAVE_REGISTRATION_OPTIONS_INIT CONCLAVE_INIT(conclave_registration_options)

/* Registers an instance. 0, CONCLAVE_EINVAL, CONCLAVE_ENOMEM, CONCLAVE_ECLOSED, CONCLAVE_EFORK. Trouble
 * with the ensemble comes later, by callback. */
CONCLAVE_API int conclave_registration_open(struct conclave_recipes *recipes,
                                            const struct conclave_registration_options *options,
                                            const struct conclave_registration_callbacks *callbacks,
                                            void *ctx,
                                            struct conclave_registration **ret) CONCLAVE_MUST_USE;

/* Changes payload (NULL: none) and whether the instance is disabled. 0, CONCLAVE_EINVAL,
 * CONCLAVE_ENOMEM, CONCLAVE_ECLOSED. */
CONCLAVE_API int conclave_registration_update(struct conclave_registration *registration,
                                              const char *payload, bool disabled) CONCLAVE_MUST_USE;

/* Its id; copied to buf. */
CONCLAVE_API void conclave_registration_id(const struct conclave_registration *registration,
                                           char *buf, size_t len);

/* Blocks until the node exists. 0, CONCLAVE_ECONFLICT (another instance has the id),
 * CONCLAVE_ETIMEDOUT, CONCLAVE_EDEADLK, or why it ended. */
CONCLAVE_API int conclave_registration_wait(struct conclave_registration *registration,
                                            int64_t timeout_ms) CONCLAVE_MUST_USE;

/* Removes the node (see keep), then on_closed. */
CONCLAVE_API void conclave_registration_close(struct conclave_registration *registration);
CONCLAVE_API int conclave_registration_close_wait(struct conclave_registration *registration,
                                                  int64_t timeout_ms);
CONCLAVE_API void
conclave_registration_destroy(struct conclave_registration *registration); /* closed, or NULL */

/* --- discovering --------------------------------------------------------------------- */

struct conclave_discovery;

struct conclave_discovery_callbacks {
    size_t size;
    /* All instances, ordered by id, when something changed, or became stale or fresh. */
    void (*on_change)(struct conclave_discovery *discovery,
                      const struct conclave_instance *const *instances, size_t count, bool stale,
                      void *ctx);
    /* Called last; no callback follows. */
    void (*on_closed)(struct conclave_discovery *discovery, int why, void *ctx);
};
#define CONCLAVE_DISCOVERY_CALLBACKS_INIT CONCLAVE_INIT(conclave_discovery_callbacks)

/* Begin with CONCLAVE_DISCOVERY_OPTIONS_INIT, then set what differs. */
struct conclave_discovery_options {
    size_t size;
    const char *path;
    const char *name;
    int64_t debounce_ms; /* collect changes for this time before callbacks */
    int64_t
        down_ms; /* an instance with noted errors is left out for this time after the last one */
    /* that number of errors, each within down_ms of the one before, makes it left out; 0: 1 (Curator's
     * DownInstancePolicy has 2) */
    int down_errors;
};
#define CONCLAVE_DISCOVERY_OPTIONS_INIT                                                            \
    CONCLAVE_INIT_WITH(conclave_discovery_options, CONCLAVE_SET(down_ms, 30000))

/* Follows the instances of a service. Nodes that contain no instance are left out. */
CONCLAVE_API int conclave_discovery_open(struct conclave_recipes *recipes,
                                         const struct conclave_discovery_options *options,
                                         const struct conclave_discovery_callbacks *callbacks,
                                         void *ctx,
                                         struct conclave_discovery **ret) CONCLAVE_MUST_USE;

enum conclave_pick {
    CONCLAVE_PICK_RANDOM,
    CONCLAVE_PICK_ROUND_ROBIN,
    CONCLAVE_PICK_STICKY, /* the same one as long as it can be chosen, then another at random */
};

/* One of the enabled instances, without a request; instances with a noted error only if there is
 * no other. 0 and *ret, to be freed with conclave_instance_free; CONCLAVE_EEMPTY; CONCLAVE_ENOMEM.
 * Never blocks. */
CONCLAVE_API int conclave_discovery_pick(struct conclave_discovery *discovery,
                                         enum conclave_pick how,
                                         struct conclave_instance **ret) CONCLAVE_MUST_USE;

/* The program's own choice. Gets the instances to choose from (at least one; arguments live until it returns)
 * and returns the index of one of them, or `count` for none. Called without a lock, in the caller's thread. */
typedef size_t (*conclave_choose_fn)(const struct conclave_instance *const *instances, size_t count,
                                     void *ctx);

/* As conclave_discovery_pick, with the choice of `choose`; CONCLAVE_EEMPTY also if it chose none. */
CONCLAVE_API int conclave_discovery_choose(struct conclave_discovery *discovery,
                                           conclave_choose_fn choose, void *ctx,
                                           struct conclave_instance **ret) CONCLAVE_MUST_USE;

CONCLAVE_API void conclave_instance_free(struct conclave_instance *instance);

/* Notes that the caller could not reach this instance. */
CONCLAVE_API void conclave_discovery_note_error(struct conclave_discovery *discovery,
                                                const char *id);

/* All instances, as soon as they are known. Blocks until then. 0, CONCLAVE_ETIMEDOUT,
 * CONCLAVE_EDEADLK, or why it ended. Free with conclave_instances_free. */
CONCLAVE_API int conclave_discovery_instances(struct conclave_discovery *discovery,
                                              int64_t timeout_ms, struct conclave_instance ***ret,
                                              size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_instances_free(struct conclave_instance **list, size_t count);

CONCLAVE_API void conclave_discovery_close(struct conclave_discovery *discovery);
CONCLAVE_API int conclave_discovery_close_wait(struct conclave_discovery *discovery,
                                               int64_t timeout_ms);
CONCLAVE_API void
conclave_discovery_destroy(struct conclave_discovery *discovery); /* closed, or NULL */

/* --- asking once ----------------------------------------------------------------------- */

/* The names of all services below a base, ordered; an empty list if there is no such node. A service
 * without instances may be among them, until the server removes its container. Blocking. 0,
 * CONCLAVE_ETIMEDOUT, CONCLAVE_EINVAL, CONCLAVE_ENOMEM, CONCLAVE_EDEADLK, CONCLAVE_NO_AUTH, ... Free with
 * conclave_service_names_free. */
CONCLAVE_API int conclave_service_names(struct conclave_recipes *recipes, const char *path,
                                        int64_t timeout_ms, char ***ret,
                                        size_t *ret_count) CONCLAVE_MUST_USE;
CONCLAVE_API void conclave_service_names_free(char **list, size_t count);

/* One instance of a service, by its id. Blocking. 0 and *ret, to be freed with
 * conclave_instance_free; CONCLAVE_NO_NODE, CONCLAVE_ECORRUPT (the node contains no instance), or
 * as above. */
CONCLAVE_API int conclave_service_instance(struct conclave_recipes *recipes, const char *path,
                                           const char *name, const char *id, int64_t timeout_ms,
                                           struct conclave_instance **ret) CONCLAVE_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
