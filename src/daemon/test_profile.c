#include "daemon/test_profile.h"

#include "daemon/key_values.h"

#include <string.h>

#define MEMORY_DIR "/in-memory" /* a name for answers; no such folder is used */

enum { SEGMENT_BYTES = 1 << 16, LOG_BYTES = 16 << 20 };

static bool is_given(const struct zoo_cfg *c, const char *key)
{
    for (size_t i = 0; i < c->given.count; i++) {
        if (strcmp(c->given.pairs[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

static void listen_on_loopback(struct zoo_cfg *c)
{
    struct server_options *o = &c->options;
    if (!c->have_listen && !c->have_address) {
        memcpy(o->listen.host, "127.0.0.1", sizeof "127.0.0.1");
        c->have_address = true;
    }
    if (!c->have_listen && !c->have_port) {
        o->listen.port = 0;
    }
    if (!c->admin.have_option && !is_given(c, "admin.serverPort")) {
        c->admin.options.listen.port = 0;
    }
}

int test_profile_begin(struct zoo_cfg *c)
{
    struct server_options *o = &c->options;
    if (c->members.count > 0 || c->dynamic_file != NULL) {
        return key_fail(
            c, "--test: a server for tests has no other servers: remove the server.N lines "
               "and dynamicConfigFile");
    }
    if (c->data_dir != NULL) {
        buf_printf(&c->notices, "conclave: --data, dataDir: no effect with --test, which keeps "
                                "nothing on disk\n");
    }
    listen_on_loopback(c);
    if (!is_given(c, "tickTime")) {
        o->limits.tick_ms = TEST_TICK_MS;
        c->session_min_ms = c->session_min_ms >= 0 ? c->session_min_ms : TEST_SESSION_MIN_MS;
        c->session_max_ms = c->session_max_ms >= 0 ? c->session_max_ms : TEST_SESSION_MAX_MS;
    }
    o->test = true;
    o->segment_bytes = SEGMENT_BYTES;
    o->snapshots_kept = 2;
    if (!is_given(c, "snapSizeLimitInKb")) {
        o->snapshot_log_bytes = LOG_BYTES;
    }
    return buf_ok(&c->notices) ? 0 : CONCLAVE_ENOMEM;
}

void test_profile_end(struct zoo_cfg *c)
{
    c->options.data_dir = MEMORY_DIR;
    c->admin.options.test = true;
    if (c->admin.words == NULL) {
        c->admin.options.words = "*";
    }
}
